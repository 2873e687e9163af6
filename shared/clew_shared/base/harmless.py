"""Foreign text made harmless, one place for each kind of output: terminal and log, table, page.

Names, tags, titles, a script's last error and all that a hand-in or a journal of somebody else says may hold control
characters, formulas or markup. Every output of Clew goes through here.
"""

from __future__ import annotations

import csv
import html
import io
import logging
import sys
from collections.abc import Iterable, Sequence
from typing import IO, Any

_LINES = "\n\t"
_DIRECTIONS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2028\u2029\u2066\u2067\u2068\u2069")
"""Marks that turn the direction of writing or begin a line: what follows them looks like something else."""
_FORMULA = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""First characters, also in their full width, that make a spreadsheet compute a cell."""


# --- Terminal and log -------------------------------------------------------------------------------------------------


def for_terminal(text: str, kept: str = _LINES) -> str:
    """The text with each control character, but for those ``kept``, as it would be escaped in a program: ``\\x1b``."""
    if text.isprintable():
        return text
    return "".join(one if one in kept or not _controls(one) else _escaped(one) for one in text)


def on_one_line(text: str) -> str:
    """Does the same as ``for_terminal``, without ends of lines: what is said of a name must not look like the next
    sentence."""
    return for_terminal(text, kept="")


def without_controls(text: str) -> str:
    """The text without control characters: what servers say has colours and two characters at each end of a line."""
    return "".join(one for one in text if one.isprintable() or one in _LINES)


def _controls(one: str) -> bool:
    return one < " " or "\x7f" <= one <= "\x9f" or one in _DIRECTIONS


def _escaped(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")


def say(text: str = "", file: IO[str] | None = None) -> None:
    """Print one line on ``file`` (default: standard output)."""
    print(for_terminal(text), file=file, flush=True)


class HarmlessFormatter(logging.Formatter):
    """A formatter whose lines hold no control characters: those of a message neither begin a line nor colour one. A
    traceback keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        """The message on one line."""
        record.message = on_one_line(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """The message and its traceback."""
        return for_terminal(super().format(record))


def log_to(handler: logging.Handler | None, level: int, form: str) -> None:
    """Send the records of this process from ``level`` on to ``handler`` (None: standard error)."""
    handler = handler if handler is not None else logging.StreamHandler(sys.stderr)
    handler.setFormatter(HarmlessFormatter(form))
    logging.basicConfig(level=level, handlers=[handler])


# --- Table ------------------------------------------------------------------------------------------------------------


def for_csv(cell: object) -> object:
    """A cell without control characters that no spreadsheet takes for a formula: a text that begins like one, and is no
    number (of percent or points of percent), gets an apostrophe."""
    if not isinstance(cell, str):
        return cell
    text = for_terminal(cell)
    return f"'{text}" if cell[:1] in _FORMULA and cell and not _is_number(cell) else text


def _is_number(text: str) -> bool:
    try:
        float(text.removesuffix("%").removesuffix("points").strip())
    except ValueError:
        return False
    return text == text.strip()


def numbers_writer(file: IO[str], line_end: str = "\n") -> Any:
    """A writer of tables with many rows of numbers; texts that go into them go through ``for_csv`` once before."""
    return csv.writer(file, lineterminator=line_end)


def write_table(file: IO[str], rows: Iterable[Sequence[object]]) -> None:
    """Write ``rows`` as CSV."""
    numbers_writer(file).writerows(map(for_csv, row) for row in rows)


def csv_cell(text: str) -> str:
    """The text as one cell of a CSV file, quoted where it must be."""
    buffer = io.StringIO()
    numbers_writer(buffer, "\r\n").writerow([for_csv(text)])  # it quotes what is in its own line end
    return buffer.getvalue().removesuffix("\r\n")


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """``rows`` as the text of a CSV file."""
    text = io.StringIO()
    write_table(text, rows)
    return text.getvalue()


# --- Page -------------------------------------------------------------------------------------------------------------


def for_html(text: str) -> str:
    """The text in an HTML or SVG page: no markup, no control characters."""
    return html.escape(for_terminal(text))


def for_tooltip(text: str) -> str:
    """The text for a tooltip of Qt's, which takes anything with a tag for markup."""
    return f"<qt>{for_html(text).replace(chr(10), '<br>')}</qt>" if "<" in text or "&" in text else text
