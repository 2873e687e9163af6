"""Text of strangers in every output: no control characters on a terminal or in a log, no formulas, no markup."""

from __future__ import annotations

import csv
import io
import json
import logging
import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from clew_gui.commands.output.console import HarmlessConsole
from clew_shared.base.harmless import (
    HarmlessFormatter,
    csv_cell,
    csv_text,
    for_csv,
    for_html,
    for_terminal,
    on_one_line,
)
from clew_shared.base.terminal import ascii_json

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
