"""Terminals that lack characters: what is printed there is reported all the same, by both programs."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from clew_agent.cli import main as agent_cli
from clew_gui.commands import main as cli
from clew_gui.commands.output.progress import LiveDisplay
from clew_shared.base.terminal import ascii_json, prepare_output, reader_has_left
from tests.unit.commands.test_cli_progress import CARD, half_way
from tests.unit.runs import small_run

Screen = Callable[[str], io.BytesIO]


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Makes standard output and error one terminal with this encoding; gives what is written there."""

    def make(encoding: str) -> io.BytesIO:
        written = io.BytesIO()
        for name in ("stdout", "stderr"):
            stream = io.TextIOWrapper(written, encoding=encoding, errors="strict", write_through=True)
            monkeypatch.setattr(sys, name, stream)
        return written

    return make


@pytest.mark.parametrize(
    ("encoding", "text", "shown"),
    [
        ("ascii", "±0.02 – 28×28, at least ≥ 3…", b"+-0.02 - 28x28, at least >= 3."),
        ("ascii", "10⁻¹² “Zoë”, 中 \N{PARTY POPPER}", b"10^-12 'Zoe', ? ?"),
        ("ascii", "⣿⠉⣀⠀ │└", b":'.  |+"),
        ("latin-1", "Zoë ±1 – ∞", "Zoë ±1 - inf".encode("latin-1")),
        ("cp1252", "Zoë – ∞", "Zoë – inf".encode("cp1252")),
        ("cp1252", "10⁻¹² m², 10¹⁰, µ → √2", "10^-12 m², 10^10, µ > sqrt2".encode("cp1252")),
        ("gbk", "中 10⁻¹²", "中 10^-12".encode("gbk")),
        ("utf-8", "Zoë – ∞", "Zoë – ∞".encode()),
        ("utf-8", "run\udcff", b"run\xff"),
        ("ascii", "é\udcff±", b"e\xff+-"),
    ],
)
def test_what_is_missing_is_replaced(screen: Screen, encoding: str, text: str, shown: bytes) -> None:
    written = screen(encoding)
    prepare_output()
    sys.stdout.write(text)
    sys.stderr.write(text)
    assert written.getvalue() == shown * 2


def test_what_is_printed_on_a_closed_output_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    prepare_output()
    with sys.stdout, sys.stderr:
        assert cli.main(["runs"]) == 0
        print("nobody hears it", file=sys.stderr)
        assert not sys.stdout.isatty()


class _Left(io.StringIO):
    """An output whose reader has left, as a system calls it."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error

    def flush(self) -> None:
        raise self.error


@pytest.mark.parametrize("error", [BrokenPipeError(errno.EPIPE, "gone"), OSError(errno.EINVAL, "Invalid argument")])
@pytest.mark.parametrize("main", [cli.main, agent_cli.main])
@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_a_reader_that_leaves_is_no_fault(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    main: Callable[[list[str]], int],
    words: list[str],
    error: OSError,
) -> None:
    monkeypatch.setattr(sys, "stdout", _Left(error))
    assert main(words) == 1
    assert capsys.readouterr().err == ""
    assert not (home / "command.log").exists()


def test_another_invalid_argument_is_one() -> None:
    assert not reader_has_left(OSError(errno.EINVAL, "Invalid argument")), "the output can still be written"
    assert not reader_has_left(OSError(errno.EINVAL, "Invalid argument", "a file"))
    assert not reader_has_left(ValueError())


def test_once_more_changes_nothing(screen: Screen) -> None:
    written = screen("cp1252")
    prepare_output()
    prepare_output()
    sys.stdout.write("Zoë ⁻¹")
    assert written.getvalue() == "Zoë ^-1".encode("cp1252")


@given(st.text(), st.sampled_from(["ascii", "latin-1", "cp1252", "gbk", "utf-8"]))
def test_any_text_can_be_printed(text: str, encoding: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
        patch.setattr(sys, "stdout", stream)
        prepare_output()
        print(text, file=stream, flush=True)


@given(
    st.recursive(st.text() | st.floats(allow_nan=False), lambda inner: st.dictionaries(st.text(), inner), max_leaves=8)
)
def test_json_says_the_same_in_ascii(value: object) -> None:
    data = msgspec.json.encode(value)
    assert ascii_json(data).isascii()
    assert json.loads(ascii_json(data)) == json.loads(data)


def test_tables_and_endings_are_shown_on_a_terminal_of_ascii(screen: Screen, home: Path) -> None:
    small_run(home / "runs" / "0a1b2c3d-first")
    written = screen("ascii")
    for words in (["show", "last"], ["runs"], ["show", "last", "--json"], ["catalogue", "softmax"], ["run", "--help"]):
        assert cli.main(words) == 0, written.getvalue().decode()[-300:]
    assert b"the goal is 90.79 % +- 0.02 %" in written.getvalue()


def test_so_are_the_answers_of_the_agent(screen: Screen, tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text('exercise = "softmax"\ndata = "/nowhere/é…"\nname = "Zoë"\n')
    written = screen("ascii")
    assert agent_cli.main(["run", str(spec), "--json"]) == 2
    line, *_ = written.getvalue().splitlines()
    assert f"nowhere{os.sep}e.".encode() in written.getvalue()
    assert f"nowhere{os.sep}é…" in json.loads(line)["problems"][0]["text"]


def test_the_live_picture_is_drawn_with_what_the_terminal_has(screen: Screen, tmp_path: Path) -> None:
    written = screen("ascii")
    prepare_output()
    display = LiveDisplay(Console(file=sys.stdout, force_terminal=True, width=60), CARD, "Softmax – ±")
    display.show(half_way(tmp_path), "Stopping…", last=True)
    display.close()
    assert b"Softmax - +-" in written.getvalue()
    assert b"Stopping." in written.getvalue()
    assert b"?" not in written.getvalue().replace(b"\x1b[?25", b"")
