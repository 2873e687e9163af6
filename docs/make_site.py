"""``make docs``: builds the pages of this folder and some others as a site in ``build/docs/site``.

The pages read well as they are, on any host of git repositories; what a site can do better is written in comments:

    <!-- tabs -->           until "end of tabs", each paragraph that is one bold word begins a tab
    <!-- not run: why -->   tests/integration/commands/test_pages.py leaves out the next block of commands
    <!-- cluster -->        tests/cluster/test_pages.py runs the next block, on the mini cluster

Under each code of ``clew_shared/problems`` the site shows the sentences that the program has for it. A link or an
anchor that leads nowhere fails the build.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from clew_gui.commands.context import CommandContext
from clew_gui.commands.main import COMMANDS, command_function
from clew_shared.base.places import Places
from clew_shared.catalogue import load_builtin

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "docs"
SITE = BUILD / "site"
PROBLEMS = ROOT / "shared" / "clew_shared" / "problems"
DECISIONS = ROOT / "docs" / "decisions"
ICON = ROOT / "gui" / "clew_gui" / "views" / "theme" / "pictures" / "icon.svg"
GUIDES = ROOT / "agent" / "clew_agent" / "exercises"
PRODUCT = tuple(ROOT / name for name in ("shared/clew_shared", "agent/clew_agent", "gui/clew_gui"))
ELSEWHERE = {
    "shared/clew_shared/PROTOCOL.md": "protocol.md",
    "packaging/README.md": "packages.md",
    "packaging/cluster/README.md": "mini-cluster.md",
    "packaging/central/README.md": "central-installation.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""The pages that are not in this folder, and what the site calls them."""
MAKERS = {
    **dict.fromkeys(("Problem", "problem", "os_refused"), ("", 0, 1)),
    "wrong": ("", 2, 0),
    "Refusal": ("scheduler.", 1, 3),
}
"""What makes a problem: what its code begins with, and which of its arguments are the code and the sentence."""

_LINK = re.compile(r"(\]\(|(?:src|srcset)=\")([^)\s\"#]+)(#[^)\s\"]*)?")
_TABS = re.compile(r"^<!-- tabs -->\n(.*?)^<!-- end of tabs -->\n", re.MULTILINE | re.DOTALL)
_TAB = re.compile(r"^\*\*([^*\n]+)\*\*\n", re.MULTILINE)
_ENTRY = re.compile(r"^## (\S+)$", re.MULTILINE)
_DECISION = re.compile(r"^## (\d+)\. (.+)$", re.MULTILINE)


def pages() -> dict[Path, str]:
    """Returns all pages with the names that the site gives them."""
    docs = ROOT / "docs"
    own = {path: path.relative_to(docs).as_posix().replace("README.md", "index.md") for path in docs.rglob("*.md")}
    problems = {path: f"problems/{path.name}" for path in PROBLEMS.glob("*.md")}
    guides = {path: f"guides/{path.name}" for path in GUIDES.rglob("*.md")}
    return own | problems | guides | {ROOT / path: name for path, name in ELSEWHERE.items()}


# --- Pages for the site -----------------------------------------------------------------------------------------------


def as_site(text: str, source: Path, known: Mapping[Path, str]) -> str:
    """A page as the site's builder reads it. Raises ``ValueError`` with the links that lead nowhere."""
    lost: list[str] = []

    def moved(match: re.Match[str]) -> str:
        before, target, anchor = match.group(1), match.group(2), match.group(3) or ""
        if "://" in target or target.startswith("mailto:"):
            return match.group(0)
        there = Path(os.path.normpath(source.parent / target))
        if there in known:
            return f"{before}{_relative(known[there], known[source])}{anchor}"
        if not there.is_file() or there.parent.name != "images":
            lost.append(target)
        return match.group(0)

    text = _outside_code(text, lambda part: _LINK.sub(moved, part))
    if lost:
        raise ValueError(f"{source.relative_to(ROOT)} has links that lead nowhere: {', '.join(lost)}")
    return _TABS.sub(_tabs, text)


def _relative(target: str, page: str) -> str:
    return Path(os.path.relpath(target, Path(page).parent)).as_posix()


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """Changes what is not in a block of code, where brackets may mean something else."""
    parts = re.split(r"(^```.*?^```$|^ {4}[^\n]*$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if place % 2 else change(part) for place, part in enumerate(parts))


def _tabs(match: re.Match[str]) -> str:
    _, *parts = _TAB.split(match.group(1))
    tabs = []
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        lines = (f"    {line}".rstrip() for line in body.strip("\n").splitlines())
        tabs.append(f'=== "{title}"\n\n' + "\n".join(lines) + "\n")
    return "\n".join(tabs) + "\n"


# --- What the program says --------------------------------------------------------------------------------------------


def sentences() -> dict[str, list[str]]:
    """Returns the sentences that the program has for each code, with … for what differs each time."""
    found: dict[str, list[str]] = defaultdict(list)
    for folder in PRODUCT:
        for path in sorted(folder.rglob("*.py")):
            for code, sentence in said(path.read_text(encoding="utf-8")):
                if sentence not in found[code]:
                    found[code].append(sentence)
    return found


def said(source: str) -> Iterator[tuple[str, str]]:
    """The codes and sentences of the problems in one file, as far as they are written there."""
    whole = ast.parse(source)
    functions = [node for node in ast.walk(whole) if isinstance(node, ast.FunctionDef)]
    for call in (node for node in ast.walk(whole) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func).removeprefix("lesson.")
        if name not in MAKERS:
            continue
        before, *places = MAKERS[name]
        named = {word.arg: word.value for word in call.keywords}
        given = [
            call.args[at] if at < len(call.args) else named.get(word) for at, word in zip(places, _WORDS, strict=True)
        ]
        around = [node for node in functions if node.lineno <= call.lineno <= (node.end_lineno or 0)]
        code, sentence = (_text(one, call.lineno, [whole, *around]) for one in given)
        if code and sentence.strip(" .…:"):
            yield before + code, re.sub(r"…[.…]*…", "…", " ".join(sentence.split()))


_WORDS = ("code", "text")


def _text(node: ast.expr | None, line: int, around: list[ast.AST]) -> str:
    """The text of an expression: of a name, what was last written to it before this line."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.Name):
        for place in reversed(around):
            written = [
                one
                for one in ast.walk(place)
                if isinstance(one, ast.Assign) and one.lineno < line and node.id in _names(one)
            ]
            if written:
                return _text(max(written, key=lambda one: one.lineno).value, line, []) or "…"
    return ""


def _names(assignment: ast.Assign) -> set[str]:
    return {target.id for target in assignment.targets if isinstance(target, ast.Name)}


def with_sentences(text: str, known: Mapping[str, list[str]]) -> str:
    """A page of codes with the program's sentences under each code."""

    def said_there(match: re.Match[str]) -> str:
        lines = [f"> {sentence.replace('*', chr(92) + '*')}" for sentence in known.get(match.group(1), ())]
        return "\n\n".join([match.group(0), "\n>\n".join(lines)]) if lines else match.group(0)

    return _ENTRY.sub(said_there, text)


def decisions() -> dict[int, tuple[str, str]]:
    """Returns title and file of each decision by its number, in order. Raises ``ValueError`` if two share a number."""
    found: dict[int, tuple[str, str]] = {}
    for page in sorted(DECISIONS.glob("*.md")):
        for number, title in _DECISION.findall(page.read_text(encoding="utf-8")):
            if int(number) in found:
                raise ValueError(f"Two decisions have the number {number}: {found[int(number)][0]!r} and {title!r}")
            found[int(number)] = (title, page.name)
    return dict(sorted(found.items()))


def _decisions_listed() -> str:
    rows = (f"| {number} | {title} | [{page}]({page}) |" for number, (title, page) in decisions().items())
    return "\n".join(["", "| number | title | file |", "|---|---|---|", *rows, ""])


def helps() -> str:
    """What each command says with ``--help``, as chapters of the page on the command line."""
    parts = ["\n## All commands\n"]
    with tempfile.TemporaryDirectory() as home:  # nobody's own sites and defaults
        for command in COMMANDS:
            said_there = io.StringIO()
            context = CommandContext(Places(Path(home), Path(home)), said_there, said_there)
            with contextlib.suppress(SystemExit), contextlib.redirect_stdout(said_there):
                command_function(command.name)(context, ["--help"])
            parts.append(f"### clew {command.name}\n\n```text\n{said_there.getvalue().strip()}\n```\n")
    return "\n".join(parts)


# --- Building ---------------------------------------------------------------------------------------------------------


def put_together() -> None:
    """Writes everything that the site's builder reads into ``build/docs``."""
    shutil.rmtree(BUILD, ignore_errors=True)
    known, spoken = pages(), sentences()
    titles = {Path(card.file).stem: card.title for card in load_builtin().exercises}
    for source, name in known.items():
        text = as_site(source.read_text(encoding="utf-8"), source, known)
        page = BUILD / "docs" / name
        page.parent.mkdir(parents=True, exist_ok=True)
        text = with_sentences(text, spoken) if source.parent == PROBLEMS else text
        text = f"# {titles[source.stem]}\n\n{text}" if GUIDES in source.parents else text
        text = text + _decisions_listed() if source == DECISIONS / "README.md" else text
        text = text + helps() if name == "command-line.md" else text
        page.write_text(text, encoding="utf-8", newline="\n")
    shutil.copytree(ROOT / "docs" / "images", BUILD / "docs" / "images")
    shutil.copy(ICON, BUILD / "docs" / "images")
    shutil.copy(ROOT / "docs" / "zensical.toml", BUILD)


def main() -> int:
    """Builds the site; returns the builder's exit status."""
    os.environ["COLUMNS"] = "100"  # the width of the help
    put_together()
    program = Path(sys.executable).with_name("zensical")
    done = subprocess.run([program, "build", "--strict", "--clean"], cwd=BUILD, check=False)
    if not done.returncode:
        print(f"The site is in {SITE.relative_to(ROOT)}: open {SITE.relative_to(ROOT) / 'index.html'}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
