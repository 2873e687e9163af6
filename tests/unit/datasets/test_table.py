"""Tables of one's own: columns, classes, splits and scales, and what is refused."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from clew_agent.datasets.files import read_bytes
from clew_agent.datasets.load import load
from clew_agent.datasets.search import Search
from clew_shared.base.problem import ProblemError

ROWS = [f'{number},{10 - number},7,"{number % 2}"' for number in range(12)]
TABLE = "\n".join(['"Time","V1","V2","Class"', *ROWS]) + "\n"


@pytest.mark.parametrize("name", ["cards.csv", "cards.csv.gz"])
def test_a_table_is_split_by_rows_and_scaled_by_its_training_rows(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(TABLE.encode()) if name.endswith("gz") else TABLE.encode())
    data = load(str(path), Search())
    assert [len(part) for part in (data.train, data.validation, data.test)] == [8, 2, 2]
    assert (data.classes, data.image_shape) == (2, (1, 3, 1))
    assert data.train.y.tolist() == [0, 1, 0, 1, 0, 1, 0, 1]
    np.testing.assert_allclose(data.train.x[:, 0] * 9, [0, 1, 2, 3, 6, 7, 8, 9], rtol=1e-6)
    assert data.train.x[:, 2].tolist() == [0] * 8, "a column that never changes says nothing"
    assert data.validation.x[:, 0].tolist() == pytest.approx([4 / 9, 1])
    assert data.train.x.dtype == np.float32
    assert data.train.x.ctypes.data % 64 == 0


def test_without_a_column_of_that_name_the_last_one_is_the_class(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("\n".join(["a,kind", *(f"{n},{n % 3}" for n in range(12))]), encoding="utf-8")
    assert load(str(path), Search()).test.y.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "its first line, '', names no columns separated by commas, semicolons, tabs, bars"),
        ("a b class\n1 2 0\n", "its first line, 'a b class', names no columns"),
        ("a,class\n", "it has 0 rows; it needs 6 at least"),
        ("a,class\n1,2\n", "it has 1 row; it needs 6 at least"),
        (
            "a,class\n1,0\n\n1,cat\n" + "1,0\n" * 6,
            "line 4, column 'class': 'cat' is not a number; give each of its words a number from 0 on",
        ),
        ("a,class\n1,0\n?,0\n" + "1,0\n" * 6, r"line 3, column 'a': '\?' is no value; fill it in, or leave out"),
        ("a,class\n1,0\n,0\n" + "1,0\n" * 6, "line 3, column 'a': '' is no value"),
        ("a,class\n" + "nan,0\n" * 6, "line 2, column 'a': 'nan' is no value"),
        ("a,class\n1,0\n1e999,0\n" + "1,0\n" * 6, "line 3, column 'a': '1e999' is not a finite number"),
        ('a,class\n"0,5",0\n' * 6, "line 2, column 'a': '0,5' is not a number; write a decimal point"),
        ("a;class\n0,5;0\n1.5;0\n" + "1;0\n" * 6, "line 3 has the value '1.5' with a point, and other numbers have"),
        ("a,class\n" + "1,0.5\n" * 6, "in the column 'class' that is not a whole number from 0 on: 0.5"),
        ("a,class\n" + "1,-1\n" * 6, "that is not a whole number"),
        ("a,class\n1,0\n١,1\n" + "1,0\n" * 6, "line 3, column 'a': '١' is not a number"),
        ("a,class\n1_000,0\n" + "1,0\n" * 6, "line 2, column 'a': '1_000' is not a number"),
        ("a,class\n" + "1,2\n" * 6, "each row has the class 2 in the column 'class', so there is nothing to learn"),
        ("a,class\n" + "".join(f"1,{n}\n" for n in range(1001)), "1,001 different classes"),
        ("a,b,class\n1,2,0\n1,0\n" + "1,2,0\n" * 6, "line 3 has 2 values, and the header names 3 columns"),
    ],
)
def test_what_is_no_such_table_is_refused(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ProblemError, match=words):
        load(str(path), Search())


@pytest.mark.parametrize(
    ("separator", "comma", "words"),
    [
        (";", False, "The values are separated by semicolons."),
        (";", True, "The values are separated by semicolons and numbers have a decimal comma."),
        ("\t", True, "The values are separated by tabs and numbers have a decimal comma."),
        ("|", False, "The values are separated by bars."),
    ],
)
def test_a_table_of_a_german_spreadsheet_is_the_same_table(
    separator: str, comma: bool, words: str, tmp_path: Path
) -> None:
    plain, other = tmp_path / "plain.csv", tmp_path / "other.csv"
    text = "a,b,class\r\n" + "".join(f"{n / 8},{-n},{n % 2}\r\n" for n in range(12))
    plain.write_text(text, newline="")
    changed = text.replace(",", separator)
    other.write_bytes((changed.replace(".", ",") if comma else changed).encode())
    expected, found = (load(str(path), Search()) for path in (plain, other))
    np.testing.assert_array_equal(found.train.x, expected.train.x)
    np.testing.assert_array_equal(found.train.y, expected.train.y)
    assert (expected.notes, found.notes) == ((), (words,))
    other.write_text("sep=;\n" + text.replace(",", ";").replace("a;", "L\u00e4nge;"), encoding="cp1252")
    np.testing.assert_array_equal(load(str(other), Search()).test.x, expected.test.x)


@pytest.mark.parametrize(
    ("old", "new"),
    [("\n", "\r"), ("\n", "\r\n"), ("\n", "\n\n"), ("\n", "\n   \n")],
    ids=["CR", "CRLF", "empty", "blank"],
)
def test_ends_of_lines_and_lines_of_blanks_change_nothing(old: str, new: str, tmp_path: Path) -> None:
    plain, other = tmp_path / "plain.csv", tmp_path / "other.csv"
    plain.write_text(TABLE)
    other.write_text(TABLE.replace(old, new), newline="")
    np.testing.assert_array_equal(load(str(other), Search()).train.x, load(str(plain), Search()).train.x)


def test_a_first_line_of_numbers_is_said_to_be_the_header(tmp_path: Path) -> None:
    path = tmp_path / "none.csv"
    path.write_text("".join(f"{n},{n % 2}\n" for n in range(12)))
    assert "holds numbers: is it a row without a header?" in load(str(path), Search()).notes[0]


@pytest.mark.parametrize("name", ["", '""', "Unnamed: 0", "Id", "index"])
def test_a_first_column_of_row_numbers_is_no_feature(name: str, tmp_path: Path) -> None:
    path = tmp_path / "pandas.csv"
    path.write_text(f"{name},a,class\n" + "".join(f"{n},{n * n},{n % 2}\n" for n in range(12)))
    data = load(str(path), Search())
    assert data.image_shape == (1, 1, 1)
    called = "has no name" if name in ("", '""') else f"is called {name.lower()!r}"
    assert data.notes == (f"The first column {called} and is left out: it numbers the rows.",)


def test_the_classes_are_the_labels_that_occur(tmp_path: Path) -> None:
    path = tmp_path / "wine.csv"
    path.write_text("acid,quality\n" + "".join(f"{n},{(3, 5, 8)[n % 3]}\n" for n in range(12)))
    data = load(str(path), Search())
    assert (data.classes, data.class_names) == (3, ("3", "5", "8"))
    assert data.train.y.tolist() == [0, 1, 2, 0, 0, 1, 2, 0]
    assert [data.place_of(label) for label in (3, 8, 4, 0)] == [0, 2, None, None]
    assert data.notes == (
        "No column is called class or label, so the class is in the last one, 'quality'.",
        "The 3 classes are the labels that occur: 3, 5, 8.",
    )


def test_a_table_that_would_take_all_memory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    rows, values = tmp_path / "rows.csv.gz", tmp_path / "values.csv"
    rows.write_bytes(gzip.compress(b"a,class\n" + b"1,0\n" * 4_000_001, 1))
    values.write_text(",".join(["a"] * 70_000) + "\n" * 1000)
    tracemalloc.start()
    for path, words in ((rows, "4,000,002 lines, more than 4,000,000"), (values, "more than 64,000,000 values")):
        with pytest.raises(ProblemError, match=words):
            load(str(path), Search())
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()


@pytest.mark.unix("a FIFO")
def test_only_a_regular_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(ProblemError, match="neither a file nor a folder"):
        load(str(tmp_path / "pipe.csv"), Search())
    with pytest.raises(ProblemError, match="it is not a regular file"):
        read_bytes(tmp_path / "pipe.csv")
