"""A table of one's own: a CSV file of numbers, one row for each sample and one column with its class.

The first line names the columns; if it holds numbers only, it is a row. The values are separated by commas, semicolons,
tabs or bars; where these are not commas, a number may have a decimal comma. The class is in the column ``class`` or
``label`` (in upper or lower case), else in the last one: whole numbers from 0; the classes are the numbers that occur.
Of six rows the first four train, the fifth validates and the sixth tests, so that a file that is ordered by time or
class gives three sets alike. Each other column is scaled so that the training rows go from 0 to 1. A first column
without a name, or called ``id`` or ``index``, is left out if it numbers the rows. What is assumed is said, and what
could as well be otherwise is asked for (decision 260).
"""

from __future__ import annotations

import codecs
import csv
import io
import math
import operator
import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from clew_agent.datasets.dataset import DataSet, Rows, Split, aligned, junk
from clew_agent.datasets.files import digest, read_bytes
from clew_shared.base.number_words import counted
from clew_shared.data_sets import TABLE_SUFFIXES

_LABELS = ("class", "label")
_MOST_CLASSES = 1000
"""A column with more different values is a measurement and no class."""
_GUESSED_CLASSES = 20
"""A column that is not called class, and has more different values, may be a measurement as well."""
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
_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}([.,]\d{3})+", re.ASCII)
"""A number whose commas or points may separate thousands. With one more digit behind them they are decimal."""
_ABSENT = ("", "?", "-", "na", "n/a", "nan", "null", "none")


class _Form(NamedTuple):
    """The form of a table: its columns, the number of lines before the first row, and the separators."""

    names: tuple[str, ...]
    skipped: int
    separator: str
    decimal_comma: bool
    headed: bool
    """Whether a line names the columns."""
    notes: tuple[str, ...]
    """What was assumed about it."""


def is_table(path: Path) -> bool:
    """Whether the name of the file says that it is a table."""
    return path.name.lower().endswith(TABLE_SUFFIXES)


def read(path: Path) -> DataSet:
    """The data set in the table ``path``. Raises ``ProblemError`` that names the file and what was found, with line,
    column and value."""
    text = _text(path)
    text, form = _form(path, text)
    table = _parse(path, text, form)
    place = _place(path, form, table)
    values, labels = _classes(path, form.names[place], table[:, place])
    indexed = place > 0 and _INDEX.fullmatch(form.names[0]) is not None
    numbered = indexed and table[0, 0].is_integer() and bool((np.diff(table[:, 0]) == 1).all())
    x, turn = np.delete(table, [0, place] if numbered else place, 1), np.arange(len(table)) % 6
    if not x.shape[1]:
        raise junk(path, "it has no column beside the one with the class")
    rows = _scaled(x, x[turn < 4])
    parts = (turn < 4, turn == 4, turn == 5)
    train, validation, test = (Split(_aligned(rows[part]), labels[part]) for part in parts)
    plain = values == list(range(len(values)))
    data = DataSet(
        name=path.name,
        source=str(path),
        sha256=digest((path,)),
        train=train,
        validation=validation,
        test=test,
        image_shape=(1, rows.shape[1], 1),
        classes=len(values),
        class_names=() if plain else tuple(map(str, values)),
    )
    index = (_index_note(form.names[0], numbered),) if indexed else ()
    notes = (*form.notes, *index, *_class_notes(form, place, table, [] if plain else values), *data.lacking_classes())
    return msgspec.structs.replace(data, notes=notes)


def _text(path: Path) -> str:
    data = read_bytes(path, _MOST_BYTES)
    lines = max(map(data.count, (b"\n", b"\r")))
    if lines > _MOST_ROWS:
        raise junk(path, f"it has {lines:,} lines, more than {_MOST_ROWS:,}")
    text = _decoded(data)
    if "\r" in text:  # and old Macintosh tables end each line with it alone
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        raise junk(path, f"line {_line_at(text, text.index(chr(0))):,} has null characters, which no text has")
    return _BLANK.sub("", text)


def _decoded(data: bytes) -> str:
    # Spreadsheets call UTF-16 Unicode; without its mark the other byte of each of the first two letters is zero.
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return data.decode("utf-32", "replace")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    for zeros, encoding in ((data[:3:2], "utf-16-be"), (data[1:4:2], "utf-16-le")):
        if zeros == b"\0\0":
            return data.decode(encoding, "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:  # only names of columns have other letters
        return data.decode("cp1252", "replace")


def _form(path: Path, text: str) -> tuple[str, _Form]:
    """The form of the table, and its text without blanks and separators that say nothing."""
    first, skipped, start = _line(text, 0), 0, 0
    said = _SAID.fullmatch(first)
    if said is not None:
        first, skipped = _line(text, len(first) + 1), 1
    counts = {one: len(_fields(first, one)) for one in ([said[1]] if said is not None else _SEPARATORS)}
    rows = [one for one in counts if _are_numbers(_fields(first, one))]
    separator = rows[0] if rows else max(counts, key=lambda one: counts[one])
    text = _trimmed(text, first, separator)
    if skipped:
        start = text.find("\n") + 1
    header = _line(text, start)
    names = [name.strip().lower() for name in _fields(header, separator)]
    if len(names) < 2:
        words = f"its first line, {first[:60]!r}, names no columns separated by {', '.join(_SEPARATORS.values())}"
        raise junk(path, words)
    if text.count("\n") * len(names) > _MOST_VALUES:
        raise junk(path, f"it has {text.count(chr(10)):,} rows of {len(names)}, more than {_MOST_VALUES:,} values")
    headed = not rows or _count_up(names)
    comma, notes = _decimals(path, text, start + headed * (len(header) + 1), separator)
    if rows and headed:
        notes = (*notes, f"The first line counts from {names[0]}, so it is taken as the names of the columns.")
    if not headed:
        words = "The first line holds numbers only, so it is taken as a row, and the columns are called"
        notes = (*notes, f"{words} c1 to c{len(names)}.")
        names = [f"c{number}" for number in range(1, len(names) + 1)]
    return text, _Form(tuple(names), skipped + headed, separator, comma, headed, notes)


def _lines(text: str) -> Iterator[str]:
    """The lines without their ends."""
    return (line.rstrip("\r\n") for line in io.StringIO(text, newline="\n"))


def _line(text: str, start: int) -> str:
    return text[start : end if (end := text.find("\n", start)) >= 0 else None]


def _line_at(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _fields(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])
    except csv.Error:  # a text of more than 128 KiB, or with a null byte
        return line.split(separator)


def _are_numbers(fields: Sequence[str]) -> bool:
    """Whether a first line is a row: numbers, of which some may be absent. pandas leaves the name of an index away."""
    numbers = [_number(one.replace(",", ".")) is not None for one in fields]
    absent = [one.strip().lower() in _ABSENT for one in fields]
    return len(fields) > 1 and fields[0].strip() != "" and any(numbers) and all(map(operator.or_, numbers, absent))


def _count_up(names: Sequence[str]) -> bool:
    """Whether numbers are names: pandas counts columns without a name. Fewer than four may well be a row."""
    return len(names) > 3 and any(list(names) == [str(first + n) for n in range(len(names))] for first in (0, 1))


def _trimmed(text: str, first: str, separator: str) -> str:
    """The text without the separators with which its ``first`` line ends, in all lines, and without blanks before
    quotes, with which NumPy would not see these."""
    one = re.escape(separator)
    ending = re.search(f"(?:{one} *)+$", first)
    if ending is not None:
        text = re.sub(f"(?m)(?:{one} *){{1,{ending[0].count(separator)}}}$", "", text)
    return re.sub(f'(?m)(^|{one}) +(?=")', r"\1", text) if ' "' in text else text


def _decimals(path: Path, text: str, start: int, separator: str) -> tuple[bool, tuple[str, ...]]:
    """Whether the numbers from ``start`` on have a decimal comma, and what to say about that and the separator.

    Raises ``ProblemError`` where no number shows that its comma does not separate thousands.
    """
    comma = separator != "," and text.find(",", start) >= 0
    mark = "," if comma else "."
    numbers = re.compile(rf"[-+\deE{mark}]*{re.escape(mark)}[-+\deE{mark}]*", re.ASCII).finditer(text, start)
    first = next(numbers, None)
    shown, line = (first[0][:40], _line_at(text, first.start())) if first is not None else ("", 0)
    doubtful = first is not None and all(_GROUPED.fullmatch(one[0]) for one in chain((first,), numbers))
    if comma:
        value = rf"[^\n{re.escape(separator)}]*"
        point = re.compile(rf"{value}\.{value}").search(text, start)
        found = "whose comma may separate thousands as well as decimals"
        if point is not None:
            shown, line = point[0][:40], _line_at(text, point.start())
            found = "with a point, and other numbers have a comma"
        if point is not None or doubtful:
            advice = "write all of them with a decimal point and nothing between thousands"
            raise junk(path, f"line {line:,} has the value {shown!r} {found}; {advice}")
    notes = []
    if separator != ",":
        example = f" and numbers have a decimal comma: {shown!r} is {shown.replace(',', '.')}" if comma else ""
        notes.append(f"The values are separated by {_SEPARATORS.get(separator, repr(separator))}{example}.")
    if doubtful:
        words = f"{shown!r} in line {line:,} is not {shown.replace('.', '')}"
        notes.append(f"Points in numbers are decimal points: {words}.")
    return comma, tuple(notes)


def _parse(path: Path, text: str, form: _Form) -> npt.NDArray[np.float64]:
    """The rows [N, columns], all of them finite."""
    body = io.StringIO(text.replace(",", ".") if form.decimal_comma else text)
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
            first = "the header names" if form.headed else f"line {form.skipped + 1} has"
            return (
                f"line {number:,} has {counted(len(fields), 'value')}, and {first} {counted(len(form.names), 'column')}"
            )
        for name, value in zip(form.names, fields, strict=True):
            fault = _fault(value.replace(",", ".") if form.decimal_comma else value)
            if fault:
                return f"line {number:,}, column {name!r}: {value[:40]!r} {fault}"
    return ""


def _number(value: str) -> float | None:
    """The number that NumPy reads, which may not be finite; None for anything else."""
    try:
        return float(value if _NUMBER.fullmatch(value.strip()) else "no number")
    except ValueError:
        return None


def _fault(value: str) -> str:
    """Says what is wrong with a value, and what to do; empty for a finite number."""
    value, number = value.strip(), _number(value)
    if value.lower() in _ABSENT:
        return "is no value; fill it in, or leave out that row"
    if number is not None:
        return "" if math.isfinite(number) else "is not a finite number; leave out that row"
    if re.fullmatch(r"[-+]?\d*,\d+", value) and not _GROUPED.fullmatch(value):
        return "is not a number; write a decimal point"
    if re.match(r"\W*\d", value):
        return "is not a number; write it as a plain number such as 1234.5, or leave that column out"
    return "is not a number; give each of its words a number from 0 on, or leave it out"


def _place(path: Path, form: _Form, table: npt.NDArray[np.float64]) -> int:
    """The column with the class. Raises ``ProblemError`` where several are called so, or none is and the last one is
    doubtful."""
    called = [place for place, name in enumerate(form.names) if name in _LABELS]
    if len(called) > 1:
        shown = " and ".join(repr(form.names[place]) for place in called)
        raise junk(path, f"it has the columns {shown}, and only one can be the class: remove or rename the others")
    if called:
        return called[0]
    doubt = _doubt(table[:, -1])
    found = f"the last one, {form.names[-1]!r}, {doubt}"
    if not doubt and not form.headed and not _doubt(table[:, 0]):
        found = "both the first one and the last one may hold classes"
    elif not doubt:
        return len(form.names) - 1
    asked = "say which one has the class: call it 'class' in a first line with the names of the columns"
    raise junk(path, f"no column is called class or label, and {found}; {asked}")


def _doubt(column: npt.NDArray[np.float64]) -> str:
    """Says why a column that is not called class may not be one; empty where it is much like one."""
    values = np.unique(column)
    other = values[(values != np.rint(values)) | (values < 0)]
    if other.size:
        return f"has the value {other[0]:g}, which is no class"
    if len(values) == 1:
        return "has the same value in each row"
    many = len(values) > min(_GUESSED_CLASSES, len(column) // 2)
    return f"has {len(values):,} different values" if many else ""


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


def _index_note(name: str, numbered: bool) -> str:
    named = f"is called {name!r}" if name else "has no name"
    what = "left out: it numbers the rows" if numbered else "kept: its values do not number the rows"
    return f"The first column {named} and is {what}."


def _class_notes(form: _Form, place: int, table: npt.NDArray[np.float64], values: list[int]) -> Iterator[str]:
    """Yields what was assumed about the class: ``values`` are its labels, unless they count from 0."""
    if form.names[place] not in _LABELS:
        yield f"No column is called class or label, so the class is in the last one, {form.names[place]!r}."
    if values:
        shown = ", ".join(map(str, values[:_NAMED_CLASSES])) + (", …" if len(values) > _NAMED_CLASSES else "")
        yield f"The {len(values)} classes are the labels that occur: {shown}."
    for other, name in enumerate(form.names):
        if other != place and np.array_equal(table[:, other], table[:, place]):
            words = "has the same number as the class in each row: remove it if it is the answer"
            yield f"The column {name!r} {words}."


def _scaled(x: npt.NDArray[np.float64], train: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Columns from 0 to 1 over ``train``; what lies outside of that in other rows is cut off."""
    low, high = train.min(0), train.max(0)
    scaled: npt.NDArray[np.float64] = np.clip((x - low) / np.where(high > low, high - low, 1), 0, 1)
    return scaled


def _aligned(rows: npt.NDArray[np.float64]) -> Rows:
    place = aligned(rows.shape)
    place[:] = rows
    return place
