"""A table of one's own: a CSV file of numbers with a header, one row for each sample and one column with its class.

The values are separated by commas, semicolons, tabs or bars; where these are not commas, a number may have a decimal
comma. The class is in the column ``class`` or ``label`` (in upper or lower case), else in the last one: whole numbers
from 0; the classes are the numbers that occur. Of six rows the first four train, the fifth validates and the sixth
tests, so that a file that is ordered by time or class gives three sets alike. Each other column is scaled so that the
training rows go from 0 to 1. A first column without a name, or called ``id`` or ``index``, is left out.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from clew_agent.datasets.dataset import DataSet, Rows, Split, aligned, junk
from clew_agent.datasets.files import digest, read_bytes
from clew_shared.base.number_words import counted
from clew_shared.data_sets import TABLE_SUFFIXES

_LABELS = ("class", "label")
_MOST_CLASSES = 1000
"""A column with more different values is a measurement and no class."""
_NAMED_CLASSES = 12
_MOST_BYTES = 1 << 29
_MOST_ROWS = 4_000_000
"""Bound on a table that is read into memory at once."""
_MOST_VALUES = 64_000_000
"""Bounds on what is read: the credit-card transactions are 150 MB of text with 284,807 rows of 31 values."""
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_SAID = re.compile(r"sep=(.)\s*", re.IGNORECASE)
"""A first line that names the separator, as Excel writes it."""
_INDEX = re.compile(r"(unnamed: ?\d+|id|index)?", re.IGNORECASE)
"""The name of a column of row numbers: pandas writes none, and calls it ``Unnamed: 0`` when it reads its own file."""
_BLANK = re.compile(r"(?m)^ +$")
"""A line of blanks, which is no row. Tabs separate values."""
_NUMBER = re.compile(r"[\x21-\x5e\x60-\x7e]+", re.ASCII)
"""The characters of a number; Python also takes 1_000 and digits of other scripts, which NumPy does not read."""
_ABSENT = ("", "?", "-", "na", "n/a", "nan", "null", "none")


class _Form(NamedTuple):
    """The form of a table: its columns, the number of lines before the first row, and the separators."""

    names: tuple[str, ...]
    skipped: int
    separator: str
    decimal_comma: bool
    numbered: bool
    """Whether the first column numbers the rows."""


def is_table(path: Path) -> bool:
    """Whether the name of the file says that it is a table."""
    return path.name.lower().endswith(TABLE_SUFFIXES)


def read(path: Path) -> DataSet:
    """The data set in the table ``path``. Raises ``ProblemError`` that names the file and what was found, with line,
    column and value."""
    text = _text(path)
    form = _form(path, text)
    table = _parse(path, text, form)
    place = next((form.names.index(name) for name in _LABELS if name in form.names), len(form.names) - 1)
    values, labels = _classes(path, form.names[place], table[:, place])
    x, turn = np.delete(table, [0, place] if form.numbered else place, 1), np.arange(len(table)) % 6
    if not x.shape[1]:
        raise junk(path, "it has no column beside the one with the class")
    rows = _scaled(x, x[turn < 4])
    parts = (turn < 4, turn == 4, turn == 5)
    train, validation, test = (Split(_aligned(rows[part]), labels[part]) for part in parts)
    plain = values == list(range(len(values)))
    return DataSet(
        name=path.name,
        source=str(path),
        sha256=digest((path,)),
        train=train,
        validation=validation,
        test=test,
        image_shape=(1, rows.shape[1], 1),
        classes=len(values),
        class_names=() if plain else tuple(map(str, values)),
        notes=tuple(_notes(form, place, [] if plain else values)),
    )


def _text(path: Path) -> str:
    data = read_bytes(path, _MOST_BYTES)
    lines = max(map(data.count, (b"\n", b"\r")))
    if lines > _MOST_ROWS:
        raise junk(path, f"it has {lines:,} lines, more than {_MOST_ROWS:,}")
    text = _decoded(data)
    if "\r" in text:  # and old Macintosh tables end each line with it alone
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _BLANK.sub("", text)


def _decoded(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:  # only names of columns have other letters
        return data.decode("cp1252", "replace")


def _form(path: Path, text: str) -> _Form:
    lines = _lines(text)
    header, skipped = next(lines, ""), 1
    said = _SAID.fullmatch(header)
    if said is not None:
        header, skipped = next(lines, ""), 2
    counts = {one: len(_fields(header, one)) for one in ([said[1]] if said is not None else _SEPARATORS)}
    separator = max(counts, key=lambda one: counts[one])
    names = tuple(name.strip().lower() for name in _fields(header, separator))
    if len(names) < 2:
        words = f"its first line, {header[:60]!r}, names no columns separated by {', '.join(_SEPARATORS.values())}"
        raise junk(path, words)
    if text.count("\n") * len(names) > _MOST_VALUES:
        raise junk(path, f"it has {text.count(chr(10)):,} rows of {len(names)}, more than {_MOST_VALUES:,} values")
    index = _INDEX.fullmatch(names[0]) is not None
    return _Form(names, skipped, separator, separator != "," and "," in text[len(header) :], index)


def _lines(text: str) -> Iterator[str]:
    """The lines without their ends."""
    return (line.rstrip("\r\n") for line in io.StringIO(text, newline="\n"))


def _fields(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:  # a text of more than 128 KiB, or with a null byte
        return line.split(separator)


def _parse(path: Path, text: str, form: _Form) -> npt.NDArray[np.float64]:
    """The rows [N, columns], all of them finite."""
    body = io.StringIO(text.replace(",", ".") if form.decimal_comma else text)
    if form.decimal_comma and "." in text.split("\n", form.skipped)[-1]:
        raise junk(path, _mixed(text, form))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns of a table without rows, which is refused below
            table = np.loadtxt(
                body, delimiter=form.separator, quotechar='"', comments=None, ndmin=2, skiprows=form.skipped
            )
    except ValueError as error:
        raise junk(path, _wrong(text, form) or str(error)[:200].rstrip(".")) from None
    if len(table) < 6 or table.shape[1] != len(form.names):
        raise junk(path, _wrong(text, form) or f"it has {counted(len(table), 'row')}; it needs 6 at least")
    if not np.isfinite(table).all():
        raise junk(path, _wrong(text, form))
    return table


def _wrong(text: str, form: _Form) -> str:
    """The first line that is no row of the table, with column and value; empty when every line is one."""
    for number, line in enumerate(_lines(text), 1):
        fields = _fields(line, form.separator)
        if number <= form.skipped or not line.strip():
            continue
        if len(fields) != len(form.names):
            return f"line {number:,} has {len(fields)} values, and the header names {len(form.names)} columns"
        for name, value in zip(form.names, fields, strict=True):
            fault = _fault(value.replace(",", ".") if form.decimal_comma else value)
            if fault:
                return f"line {number:,}, column {name!r}: {value[:40]!r} {fault}"
    return ""


def _fault(value: str) -> str:
    """Says what is wrong with a value, and what to do; empty for a finite number."""
    if value.strip().lower() in _ABSENT:
        return "is no value; fill it in, or leave out that row"
    try:
        number = float(value if _NUMBER.fullmatch(value.strip()) else "no number")
    except ValueError:
        comma = re.fullmatch(r"\s*[-+]?\d+,\d+\s*", value)
        advice = "write a decimal point" if comma else "give each of its words a number from 0 on, or leave it out"
        return f"is not a number; {advice}"
    return "" if np.isfinite(number) else "is not a finite number; leave out that row"


def _mixed(text: str, form: _Form) -> str:
    """Says where a table has both decimal commas and points."""
    for number, line in enumerate(_lines(text), 1):
        value = next((one for one in _fields(line, form.separator) if "." in one), "")
        if number > form.skipped and value:
            return (
                f"line {number:,} has the value {value[:40]!r} with a point, and other numbers have a comma; write all"
                " of them with a decimal point"
            )
    return ""


def _classes(path: Path, name: str, column: npt.NDArray[np.float64]) -> tuple[list[int], npt.NDArray[np.int32]]:
    """The labels that occur, ascending, and for each row the place of its label among them."""
    wrong = (column != np.rint(column)) | (column < 0) | (column > np.iinfo(np.int32).max)
    if wrong.any():
        found = f"{column[int(np.argmax(wrong))]:g}"
        raise junk(path, f"a class in the column {name!r} that is not a whole number from 0 on: {found}")
    if len(np.unique(column)) == 1:
        raise junk(path, f"each row has the class {column[0]:g} in the column {name!r}, so there is nothing to learn")
    values, labels = np.unique(column.astype(np.int64), return_inverse=True)
    if len(values) > _MOST_CLASSES:
        raise junk(path, f"{len(values):,} different classes in the column {name!r}, more than {_MOST_CLASSES:,}")
    return values.tolist(), labels.astype(np.int32)


def _notes(form: _Form, place: int, values: list[int]) -> Iterator[str]:
    """Yields what was assumed about the table."""
    if form.separator != ",":
        comma = " and numbers have a decimal comma" if form.decimal_comma else ""
        yield f"The values are separated by {_SEPARATORS.get(form.separator, repr(form.separator))}{comma}."
    if form.numbered:
        named = f"is called {form.names[0]!r}" if form.names[0] else "has no name"
        yield f"The first column {named} and is left out: it numbers the rows."
    if not any(map(_fault, form.names)):
        yield "The first line is taken as the names of the columns, and holds numbers: is it a row without a header?"
    if form.names[place] not in _LABELS:
        yield f"No column is called class or label, so the class is in the last one, {form.names[place]!r}."
    if values:
        shown = ", ".join(map(str, values[:_NAMED_CLASSES])) + (", …" if len(values) > _NAMED_CLASSES else "")
        yield f"The {len(values)} classes are the labels that occur: {shown}."


def _scaled(x: npt.NDArray[np.float64], train: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Columns from 0 to 1 over ``train``; what lies outside of that in other rows is cut off."""
    low, high = train.min(0), train.max(0)
    scaled: npt.NDArray[np.float64] = np.clip((x - low) / np.where(high > low, high - low, 1), 0, 1)
    return scaled


def _aligned(rows: npt.NDArray[np.float64]) -> Rows:
    place = aligned(rows.shape)
    place[:] = rows
    return place
