"""Texts and files of others are bounded before they are read."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import re
import tomllib
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_agent.catalogue.exercise_files import ExerciseFile
from clew_agent.catalogue.script_card import read_script
from clew_gui.base.settings import SettingsFile
from clew_gui.commands.output.console import HarmlessConsole
from clew_gui.reports.facts import answers_path, read_answers
from clew_gui.sites import site_file
from clew_gui.views.window.window_state import WindowState
from clew_shared import spec
from clew_shared.base.foreign import from_toml, replacing_whole
from clew_shared.base.harmless import (
    HarmlessFormatter,
    csv_cell,
    csv_text,
    for_csv,
    for_html,
    for_terminal,
    on_one_line,
)
from clew_shared.base.places import find_places
from clew_shared.base.problem import ProblemError
from clew_shared.base.terminal import ascii_json
from clew_shared.exporters.tables import write_curves
from clew_shared.study import study

DEEP = {
    "brackets": "a = " + "[" * 10_000,
    "tables": "a = " + "{b = " * 500,
    "dots": "a" + ".a" * 20_000 + " = 1",
    "spaced dots": "a" + " . a" * 50 + " = 1",
    "quoted dots": '"a"' + '."a"' * 500 + " = 1",
    "a header of dots": f"[{'a.' * 50}a]",
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_toml_that_is_nested_too_deep_is_refused_by_every_reader_with_the_line(
    text: str, home: Path, tmp_path: Path
) -> None:
    text = f'x = "[.]"  # a.b.c\n{text}'
    with pytest.raises(ValueError, match=r"more than 32 deep \(at line 2"):
        from_toml(text)
    for read in (spec.from_toml, study.from_toml, site_file.from_toml):
        with pytest.raises(ProblemError, match="more than 32 deep"):
            read(text)
    settings = SettingsFile(tmp_path / "window.toml", WindowState)
    settings.path.write_text(text)
    assert settings.load() == WindowState()
    assert settings.problem is not None
    places = find_places()
    answers_path(places, "softmax").parent.mkdir(parents=True)
    answers_path(places, "softmax").write_text(text)
    with pytest.raises(ProblemError, match="more than 32 deep"):
        read_answers(places, "softmax")
    script = tmp_path / "deep.py"
    script.write_text("# /// clew\n" + "".join(f"# {line}\n" for line in text.splitlines()) + "# ///\n")
    with pytest.raises(ProblemError, match=r"deep\.py.*line 3.*more than 32 deep"):
        read_script(ExerciseFile(script))


def test_brackets_and_dots_in_texts_and_comments_are_not_nesting() -> None:
    quoted = "[" * 100 + "a." * 100
    text = f"""# {quoted}
one = "{quoted} \\" {quoted}"
two = '{quoted}'
three = \"\"\"
{quoted} "
\\"\\"\\"
{quoted}\"\"\"
four = '''
{quoted}'''
[a.b."c.d"]
five = [[1.5, 2.5], {{a = [1]}}]
"""
    assert from_toml(text) == tomllib.loads(text)


@given(st.text("ab.[]{}=\"'\n\\# ,1", max_size=60))
def test_a_text_that_is_not_deep_reads_as_python_reads_it(text: str) -> None:
    try:
        expected = tomllib.loads(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"\w"):
            from_toml(text)
    else:
        assert from_toml(text) == expected


def test_a_long_word_costs_no_more_than_its_length() -> None:
    assert from_toml(f'x = "{"a" * 500_000}"')
    with pytest.raises(ValueError, match=r"\w"):
        from_toml("a" * 500_000)


@pytest.mark.unix("a FIFO")
def test_a_file_is_replaced_as_a_whole_where_a_link_leads_and_a_device_or_fifo_never(tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    file, link, fifo = folder / "a.csv", folder / "link", folder / "fifo"
    file.write_text("before")
    link.symlink_to(file)
    os.mkfifo(fifo)
    with replacing_whole(link) as part:
        part.write_text("after")
    assert link.is_symlink()
    assert file.read_text() == "after"
    for kept in (fifo, folder):
        with pytest.raises(OSError, match=r"it is (not a regular file|a folder)"), replacing_whole(kept) as part:
            part.write_text("instead")
    with pytest.raises(OSError, match="it is not a regular file"):
        write_curves(fifo, [])
    assert fifo.is_fifo()
    assert {path.name for path in folder.iterdir()} == {"a.csv", "link", "fifo"}


# --- Text of strangers in every output --------------------------------------------------------------------------------

HOSTILE = "=1+1\x1b[2J\x1b]0;owned\x07\x9b31m\u202e<b>&\x7f"


def controls(text: str) -> list[str]:
    """Characters that a terminal or a reader of a log obeys instead of showing."""
    kinds = ("Cc", "Cf", "Zl", "Zp")
    return [one for one in text if unicodedata.category(one) in kinds and one not in "\n\t\u00ad\u200d"]


@given(st.text())
def test_a_terminal_gets_no_control_characters_and_every_other_one(text: str) -> None:
    shown = for_terminal(text)
    assert not [one for one in shown if unicodedata.category(one) in ("Cc", "Zl", "Zp") and one not in "\n\t"]
    assert "\n" not in on_one_line(text)
    if text.isprintable():
        assert shown == text


@given(st.text(max_size=8).map("".join), st.sampled_from("=+-@\t\r\uff1d"))
def test_no_cell_begins_like_a_formula_unless_it_is_a_number(rest: str, first: str) -> None:
    (row,) = csv.reader(io.StringIO(csv_text([[first + rest, -1.5, "-2e-3", "name", None]]), newline=""))
    assert not re.match(r"[=@\t\r\uff1d]", row[0])
    assert row[0] in (first + rest, f"'{for_terminal(first + rest)}")
    assert row[1:] == ["-1.5", "-2e-3", "name", ""]
    assert for_csv("-inf") == "-inf"
    assert csv_cell("=1,2") == '"\'=1,2"'


@given(st.text())
def test_a_page_has_no_markup_of_others(text: str) -> None:
    assert not set(for_html(text)) & set("<>\"'\x1b")


def test_a_line_of_a_log_cannot_be_forged_and_a_traceback_keeps_its_lines() -> None:
    form = HarmlessFormatter("%(levelname)s: %(message)s")
    record = logging.makeLogRecord({"msg": "run %s ended", "args": ("a\nERROR: b\x1b[31m",), "levelname": "INFO"})
    assert form.format(record) == "INFO: run a\\nERROR: b\\x1b[31m ended"
    try:
        raise ValueError("\x1b[2J")
    except ValueError as error:
        found = form.format(logging.makeLogRecord({"msg": "x", "exc_info": (ValueError, error, error.__traceback__)}))
    assert found.splitlines()[-1] == "ValueError: \\x1b[2J"


def test_rich_prints_its_own_colours_and_shows_those_of_others() -> None:
    from rich.table import Table
    from rich.text import Text

    out = io.StringIO()
    console = HarmlessConsole(file=out, width=100, force_terminal=True, color_system="standard", markup=False)
    table = Table("Name", "Step", box=None)
    table.add_row(HOSTILE, "7")
    console.print(table, Text(HOSTILE, style="bold"), HOSTILE)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert controls(shown) == []
    assert shown.count("\\x1b[2J") == 3
    assert "\x1b[1m" in out.getvalue()


def test_json_for_programs_is_plain_ascii() -> None:
    text = ascii_json(json.dumps(HOSTILE, ensure_ascii=False).encode())
    assert text.isprintable()
    assert json.loads(text) == HOSTILE


# --- Every output -----------------------------------------------------------------------------------------------------
