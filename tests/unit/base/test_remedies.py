"""Ways out of a problem are data: no sentence that a window can show says what to type in a terminal."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from clew_shared.base import remedies
from clew_shared.base.problem import Problem
from clew_shared.base.remedies import Remedy, as_typed, typed_sentence

ROOT = Path(__file__).resolve().parents[3]
_COMMANDS = re.compile(
    r"\bclew(-agent)? (site|runs?|jobs|list|logout|hold|let-go|shell|verify|resume|replay|catalogue|study|show|queue)\b"
)
_OPTION = re.compile(r"""(^|[\s("'`:])--[a-z][a-z-]+""")
_OTHERS = ("--tf_xla_persistent_cache", "--mem=8G or --exclusive", "# The agent that Clew brought here last")
"""Flags of TensorFlow's own, lines that a person writes for Slurm, and a comment in a script."""
_OF_TERMINALS = ("gui/clew_gui/commands/", "agent/clew_agent/cli/", "shared/clew_shared/base/problem.py")


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Every text of a module that a person could read as a sentence; neither docstrings nor a parser's help."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("add_argument", "ArgumentParser"):
            skipped.update(id(part) for part in ast.walk(node))
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in node.values)
    for node in ast.walk(tree):
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


def test_no_sentence_outside_the_commands_says_what_to_type() -> None:
    found = []
    for part in ("shared/clew_shared", "agent/clew_agent", "gui/clew_gui"):
        for path in sorted((ROOT / part).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(_OF_TERMINALS) and name != "shared/clew_shared/base/remedies.py":
                found += [
                    f"{name}:{line}: {text}"
                    for line, text in sentences(path)
                    if (_OPTION.search(text) or _COMMANDS.search(text)) and not text.startswith(_OTHERS)
                ]
    assert "\n".join(found) == ""


ACTS = sorted(value for name, value in vars(remedies).items() if name.isupper() and isinstance(value, str))


@pytest.mark.parametrize("act", ACTS)
def test_every_way_out_can_be_typed(act: str) -> None:
    assert as_typed(Remedy(act, "runs", "1", "slurm")).startswith(("--", "clew "))


def test_what_a_stranger_calls_a_run_is_typed_as_one_word() -> None:
    assert as_typed(remedies.verify_run("$(id) x")) == "clew verify '$(id) x'"


def test_what_to_type_is_one_sentence_after_the_others() -> None:
    ways = (remedies.set_to("time", "00:02:00"), remedies.choose("partition"), remedies.check_node("my site"))
    found = Problem("scheduler.time", "The job asks for 5 min.", "Ask for less.", "time", ways)
    assert str(found) == "The job asks for 5 min. Ask for less."
    assert found.command_text() == (
        "The job asks for 5 min. Ask for less. Use --time 00:02:00 or --partition NAME. "
        "Type: clew site doctor 'my site' --job (clew why scheduler.time)"
    )
    assert Problem("", "b.").command_text() == "b."


def test_a_problem_of_an_earlier_or_a_later_version_is_read() -> None:
    old = msgspec.json.decode(b'{"code":"a.b","text":"Wrong."}', type=Problem)
    assert old.remedies == ()
    later = b'{"code":"a.b","text":"Wrong.","remedies":[{"act":"teleport","to":"node9"},{"act":"log-out"}]}'
    new = msgspec.json.decode(later, type=Problem)
    assert typed_sentence(new.remedies) == "Type: clew logout", "what is not known is left out"
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(new), type=Problem)
    assert again == new
