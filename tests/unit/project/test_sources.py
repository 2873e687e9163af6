"""Rules for every source file of the product, read once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from clew_agent.strategies.registry import STRATEGIES
from clew_gui.schedulers.registry import NAMES, NO_SCHEDULER
from clew_shared.spec import SINGLE

ROOT = Path(__file__).resolve().parents[3]
# A program for any Python of a site has nothing of Clew's to ask.
SYSTEMS = ("shared/clew_shared/base/operating_system/", "gui/clew_gui/deploy/folder_there.py")


class Source(NamedTuple):
    """A module of the product."""

    text: str
    nodes: list[ast.AST]


Sources = Mapping[str, Source]


@pytest.fixture(scope="module")
def sources() -> Sources:
    """All modules, by their path in the repository."""
    paths = [path for folder in ("agent", "gui", "shared") for path in sorted((ROOT / folder).rglob("*.py"))]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    return {name: Source(text, [*ast.walk(ast.parse(text))]) for name, text in texts.items()}


# --- Systems ----------------------------------------------------------------------------------------------------------

ASKS = {
    "sys.platform",
    "os.name",
    "os.getuid",
    "os.geteuid",
    "os.killpg",
    "os.fork",
    "os.setsid",
    "os.getppid",
    "os.fsync",
    "platform.system",
    "operating_system.NAME",
}
GUESSED_AT = {"os", "signal", "socket", "subprocess", "asyncio"}
ONE_SYSTEM_ONLY = {"ctypes", "fcntl", "msvcrt", "pty", "pwd", "resource", "termios", "tty", "winreg"}
ALLOWED = {
    ("gui/clew_gui/base/terminal_program.py", "operating_system.NAME"): "a table of other people's programs",
    ("gui/clew_gui/commands/jobs/open.py", "operating_system.NAME"): "a table of display servers",
    ("gui/clew_gui/commands/desktop_entry.py", "operating_system.NAME"): "a table of desktops",
    ("gui/clew_gui/commands/start.py", "operating_system.NAME"): "a table of display servers",
    ("gui/clew_gui/doctor/this_computer.py", "operating_system.NAME"): "a table of advice",
    ("gui/clew_gui/doctor/this_computer.py", "platform.system"): "it is shown",
    ("shared/clew_shared/base/installation.py", "operating_system.NAME"): "a table of other people's programs",
    ("gui/clew_gui/deploy/probe_there.py", "platform.system"): "a program of a site, which reports it",
    ("agent/clew_agent/scripts/clew_log.py", "os.getppid"): "a file that has nothing of Clew's beside it",
}


def asked(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Where code asks which system it runs on, or uses what only one of them has."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ASKS:
            yield ast.unparse(node)
        if isinstance(node, ast.Call) and node.args:
            called, first = ast.unparse(node.func), ast.unparse(node.args[0])
            if (called in ("hasattr", "getattr") and first in GUESSED_AT) or (
                called == "suppress" and ast.unparse(node).endswith("OSError, AttributeError)")
            ):
                yield ast.unparse(node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
            yield from (name for name in names if name.partition(".")[0] in ONE_SYSTEM_ONLY)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("if sys.platform == 'win32': pass", ["sys.platform"]),
        ("user = os.getuid() if hasattr(os, 'getuid') else 0", ["hasattr(os, 'getuid')", "os.getuid"]),
        ("number = getattr(signal, 'SIGHUP', None)", ["getattr(signal, 'SIGHUP', None)"]),
        ("with suppress(OSError, AttributeError): pass", ["suppress(OSError, AttributeError)"]),
        ("def f():\n    import termios, os", ["termios"]),
        ("os.kill(pid, signal.SIGINT); getattr(spec, 'x', 0)", []),
    ],
)
def test_a_question_which_system_it_is_is_found(code: str, found: list[str]) -> None:
    assert sorted(asked(ast.walk(ast.parse(code)))) == sorted(found)


def test_nothing_outside_its_package_asks_which_system_it_runs_on(sources: Sources) -> None:
    found = {(name, what) for name, one in sources.items() if not name.startswith(SYSTEMS) for what in asked(one.nodes)}
    assert found == ALLOWED.keys()


def test_no_date_is_written_with_a_mark_that_only_some_systems_know(sources: Sources) -> None:
    """``%-d`` ends a program on Windows, where the C library takes it for an error."""
    found = [
        f"{name}:{node.lineno}"
        for name, one in sources.items()
        for node in one.nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "%-" in node.value
    ]
    assert found == []


def ends_lines_its_own_way(node: ast.Call) -> bool:
    """Whether a call writes a text file with the line ends of the system that it runs on."""
    words = {word.arg for word in node.keywords}
    if "newline" in words or not isinstance(node.func, ast.Attribute):
        return False
    modes = {one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    opened = node.func.attr in ("open", "fdopen") and "encoding" in words and bool(modes & {"w", "a", "x"})
    return (opened or node.func.attr == "write_text") and "/proc/" not in ast.unparse(node.func)


def test_a_file_has_the_same_bytes_whichever_system_wrote_it(sources: Sources) -> None:
    """Python writes other line ends on Windows, where hashes of a run's files and its hand-in would not agree."""
    found = [
        f"{name}:{node.lineno}"
        for name, one in sources.items()
        for node in one.nodes
        if isinstance(node, ast.Call)
        and ends_lines_its_own_way(node)
        and not name.startswith(SYSTEMS)
        and not name.endswith("_there.py")  # on sites
    ]
    assert found == []


# --- Output -----------------------------------------------------------------------------------------------------------

_ALONE = {
    "csv.writer",
    "csv.DictWriter",
    "html.escape",
    "logging.Formatter",
    "logging.basicConfig",
    "print",
    "escape",
    "writer",
}
"""What makes an output without asking ``harmless``."""
_ELSEWHERE = {
    "shared/clew_shared/base/harmless.py",
    "agent/clew_agent/scripts/clew_log.py",  # runs in a student's script, without Clew's packages
    *(f"gui/clew_gui/deploy/{name}.py" for name in ("check_there", "install_there", "probe_there")),  # on a bare Python
}
_WRITTEN = "agent/clew_agent/exercises/code/"
"""Scripts that run by themselves."""


def test_every_output_of_the_product_goes_through_one_place(sources: Sources) -> None:
    found = []
    for name in sources.keys() - _ELSEWHERE:
        for node in sources[name].nodes if not name.startswith(_WRITTEN) else ():
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                raw = re.fullmatch(r"sys\.(stdout|stderr)\.write", called)
                if called in _ALONE or (raw and not ast.unparse(node.args[0]).startswith("ascii_json(")):
                    found.append(f"{name}:{node.lineno}: {called}")
            if isinstance(node, ast.ImportFrom) and node.module == "html":
                found.append(f"{name}:{node.lineno}: from html import")
    assert found == []


_COMMANDS = re.compile(
    r"\bclew(-agent)? (site|runs?|jobs|list|logout|hold|let-go|shell|verify|resume|replay|catalogue|study|show|queue)\b"
)
_OPTION = re.compile(r"""(^|[\s("'`:])--[a-z][a-z-]+""")
_OTHERS = ("--tf_xla_persistent_cache", "--mem=8G or --exclusive", "# The agent that Clew brought here last")
"""Flags of TensorFlow's own, lines that a person writes for Slurm, and a comment in a script."""
_OF_TERMINALS = (
    "gui/clew_gui/commands/",
    "agent/clew_agent/cli/",
    "shared/clew_shared/base/problem.py",
    "shared/clew_shared/base/remedies.py",
)


def sentences(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """Every text of a module that a person could read as a sentence; neither docstrings nor a parser's help."""
    skipped: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("add_argument", "ArgumentParser"):
            skipped.update(id(part) for part in ast.walk(node))
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in node.values)
    for node in nodes:
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        else:
            continue
        if "\n" not in text and len(re.findall(r"[A-Za-z]{2,}", text)) >= 3 and re.search(r"[A-Z]|[.,;]( |$)", text):
            yield node.lineno, text


def test_no_sentence_outside_the_commands_says_what_to_type(sources: Sources) -> None:
    found = [
        f"{name}:{line}: {text}"
        for name, source in sources.items()
        if not name.startswith(_OF_TERMINALS)
        for line, text in sentences(source.nodes)
        if (_OPTION.search(text) or _COMMANDS.search(text)) and not text.startswith(_OTHERS)
    ]
    assert "\n".join(found) == ""


def test_no_message_says_itself_what_to_install(sources: Sources) -> None:
    """Neither sentences of the program nor pages about problems: what works differs between installations. Those of
    ``deploy`` are about sites."""
    pages = {path.as_posix(): path.read_text(encoding="utf-8") for path in ROOT.glob("[agsu]*/clew_*/**/*.md")}
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, text in [*((name, one.text) for name, one in sources.items()), *pages.items()]
        if not name.endswith("/installation.py") and "/deploy/" not in name
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(r"pip3? install|clew\[\w", line)
    ]
    assert pages
    assert found == []


# --- One way ----------------------------------------------------------------------------------------------------------


def test_nothing_reads_toml_in_another_way(sources: Sources) -> None:
    readers = {name for name, one in sources.items() if re.search(r"tomllib|msgspec\.toml\.decode", one.text)}
    assert readers == {"shared/clew_shared/base/foreign.py"}


QUEUES = {*NAMES} - {NO_SCHEDULER}
SCHEDULER_DATA = {"gui/clew_gui/sites/presets.py": {"slurm", "pbs", "mnsubmit"}}
"""The machines of the courses name their scheduler."""


def schedulers_named(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Where code is about one scheduler: its name as a string, and comparisons of what a site calls its scheduler."""
    for node in nodes:
        if isinstance(node, ast.Constant) and node.value in QUEUES:
            yield str(node.value)
        asked = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        asked = [node.subject] if isinstance(node, ast.Match) else asked
        if any(isinstance(one, ast.Attribute) and one.attr == "scheduler" for one in asked):
            yield ast.unparse(node)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("alone = site.scheduler == 'none'", ["site.scheduler == 'none'"]),
        ("queued = NO_SCHEDULER != self.site.scheduler", ["NO_SCHEDULER != self.site.scheduler"]),
        ("labels = {'pbs': 'PBS'}", ["pbs"]),
        ("queued = scheduler_of(site.scheduler).has_queue", []),
        ("print('Slurm answers slurm')", []),
    ],
)
def test_what_counts_as_naming_a_scheduler(code: str, found: list[str]) -> None:
    assert list(schedulers_named(ast.walk(ast.parse(code)))) == found


def test_nothing_but_a_schedulers_own_file_and_the_registry_names_one(sources: Sources) -> None:
    own = {f"gui/clew_gui/schedulers/{name}.py" for name in (*NAMES, "registry")}
    assert own <= sources.keys()
    others = (name for name in sources if name.startswith("gui/") and name not in own)
    found = {name: {*schedulers_named(sources[name].nodes)} for name in others}
    assert {name: named for name, named in found.items() if named} == SCHEDULER_DATA


def test_nothing_but_the_strategies_names_one(sources: Sources) -> None:
    """All else asks the registry or the card what follows from a strategy: its roles, whether it is on servers."""
    found = [
        f"{path} names {name}"
        for path, source in sources.items()
        for name in STRATEGIES.keys() - {SINGLE.id}  # what a run is that says nothing
        if "/strategies/" not in path and f'"{name}"' in source.text
    ]
    assert found == []
