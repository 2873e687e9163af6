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
        ("sep=;\n1;2;0\n1;0\n" + "1;2;0\n" * 6, "line 3 has 2 values, and line 2 has 3 columns"),
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
        (";", True, "The values are separated by semicolons and numbers have a decimal comma: '0,0' is 0.0."),
        ("\t", True, "The values are separated by tabs and numbers have a decimal comma: '0,0' is 0.0."),
        ("|", False, "The values are separated by bars."),
    ],
)
def test_a_table_of_a_german_spreadsheet_is_the_same_table(
    separator: str, comma: bool, words: str, tmp_path: Path
) -> None:
    plain, other = tmp_path / "plain.csv", tmp_path / "other.csv"
    text = "a,b,class\r\n" + "".join(f"{n / 8},{-n},{n // 6}\r\n" for n in range(12))
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


@pytest.mark.parametrize("separator", [";", "\t", "|"])
@pytest.mark.parametrize("value", ["12,911", "-1,234", "+1,234", "1,234,567"])
def test_a_comma_that_may_separate_thousands_is_not_read_as_a_decimal_comma(
    value: str, separator: str, tmp_path: Path
) -> None:
    path = tmp_path / "income.csv"
    path.write_text("income;class\n987;0\n".replace(";", separator) + f"{value}{separator}1\n" * 6)
    with pytest.raises(ProblemError, match=r"line 3 has the value '[^']*' whose comma may separate thousands") as found:
        load(str(path), Search())
    assert f"{value!r}" in str(found.value)


def test_one_number_proves_what_the_comma_of_all_is_and_an_example_is_said(tmp_path: Path) -> None:
    path = tmp_path / "income.csv"
    for proof in ("0,125", "12,5", "1234,567", ",5", "1,234e5", "-0,001"):
        path.write_text("a;b;class\n" + f"{proof};12,911;0\n" * 6 + "987;1,5;1\n" * 6)
        data = load(str(path), Search())
        number = float(proof.replace(",", "."))
        low, high = min(number, 987), max(number, 987)
        assert data.train.x[0, 0] == pytest.approx((number - low) / (high - low))
        words = f"numbers have a decimal comma: {proof!r} is {proof.replace(',', '.')}."
        assert data.notes == (f"The values are separated by semicolons and {words}",)


@pytest.mark.parametrize("separator", [",", ";"])
def test_a_point_that_may_separate_thousands_is_a_decimal_point_and_that_is_said(
    separator: str, tmp_path: Path
) -> None:
    path = tmp_path / "income.csv"
    path.write_text("a,class\n12.911,0\n987,1\n100.000,1\n".replace(",", separator) + f"5{separator}0\n" * 6)
    notes = load(str(path), Search()).notes
    assert notes[separator != ","] == "Points in numbers are decimal points: '12.911' in line 2 is not 12911."
    path.write_text("a,class\n12.911,0\n12.345.678,1\n".replace(",", separator) + f"5{separator}0\n" * 6)
    with pytest.raises(ProblemError, match=r"line 3, column 'a': '12.345.678' is not a number; write it as a plain"):
        load(str(path), Search())


@pytest.mark.parametrize(
    "value",
    [
        *("1'234", "1 234", "1\u00a0234", "1\u202f234", "1\u2009234", "12%", "12 %", "$12", "12 \u20ac", "12\u20ac"),
        *("2024-01-31", "31.12.2024", "12:30", "0x1F", "1d5", "\u0661", "\uff11", "\u22125", "1_000", "(12)"),
        *('"12,911"', "1.234,5", "1/2", "1e"),
    ],
)
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_number_in_another_form_is_refused_with_the_form_that_is_read(
    value: str, separator: str, tmp_path: Path
) -> None:
    path = tmp_path / "forms.csv"
    text = f"a{separator}class\n" + f"1{separator}0\n" * 6 + f"{value}{separator}1\n"
    path.write_text(text.replace("1.234,5", '"1.234,5"'), encoding="utf-8")
    with pytest.raises(ProblemError) as found:
        load(str(path), Search())
    assert "line 8" in str(found.value)
    assert (
        "plain number" in str(found.value) or "separate thousands" in str(found.value) or "a point" in str(found.value)
    )


@pytest.mark.parametrize("value", ["1e5", "1E+5", " 100000 ", "+1e5", "100000.", "\u00a0100000"])
def test_the_forms_of_a_plain_number_are_one_number(value: str, tmp_path: Path) -> None:
    path = tmp_path / "forms.csv"
    path.write_text(f"a,class\n0,0\n{value},1\n50000,0\n" + "25000,1\n" * 4, encoding="utf-8")
    assert load(str(path), Search()).train.x[:3, 0].tolist() == [0, 1, 0.5]


@pytest.mark.parametrize("value", ["NaN", "-", "NA", "n/a", "None", "NULL", "?", ""])
def test_an_absent_value_is_no_number(value: str, tmp_path: Path) -> None:
    path = tmp_path / "absent.csv"
    path.write_text(f"a,class\n{value},1\n" + "1,0\n" * 6)
    with pytest.raises(ProblemError, match=r"line 2, column 'a': .* is no value; fill it in, or leave out that row"):
        load(str(path), Search())


@pytest.mark.parametrize("value", ["inf", "-Infinity", "1e999"])
def test_an_infinite_value_is_refused(value: str, tmp_path: Path) -> None:
    path = tmp_path / "infinite.csv"
    path.write_text(f"a,class\n{value},1\n" + "1,0\n" * 6)
    with pytest.raises(ProblemError, match=r"line 2, column 'a': .* is not a finite number"):
        load(str(path), Search())


@pytest.mark.parametrize("extra", [",", ",,,"])
def test_separators_at_the_end_of_each_line_make_no_columns(extra: str, tmp_path: Path) -> None:
    plain, other = tmp_path / "plain.csv", tmp_path / "other.csv"
    plain.write_text(TABLE)
    other.write_text(TABLE.replace("\n", extra + "\n"))
    np.testing.assert_array_equal(load(str(other), Search()).train.x, load(str(plain), Search()).train.x)
    other.write_text("a,class,\n1,,\n" + "1,0,\n" * 6)
    with pytest.raises(ProblemError, match="line 2, column 'class': '' is no value"):
        load(str(other), Search())
    other.write_text("a,class,\n1,0,7\n" + "1,0,\n" * 6)
    with pytest.raises(ProblemError, match="line 2 has 3 values, and the header names 2 columns"):
        load(str(other), Search())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_what_spreadsheets_call_unicode_is_read_with_and_without_a_mark(encoding: str, tmp_path: Path) -> None:
    plain, other = tmp_path / "plain.csv", tmp_path / "other.csv"
    plain.write_text(TABLE)
    other.write_bytes(TABLE.encode(encoding))
    np.testing.assert_array_equal(load(str(other), Search()).train.x, load(str(plain), Search()).train.x)


def test_null_bytes_are_named(tmp_path: Path) -> None:
    path = tmp_path / "null.csv"
    path.write_text("a,class\n" + "1,0\n" * 6 + "\0" * 6 + "\n")
    with pytest.raises(ProblemError, match="line 8 has null characters, which no text has"):
        load(str(path), Search())


def test_blanks_before_and_after_quotes_change_nothing(tmp_path: Path) -> None:
    plain, other = tmp_path / "plain.csv", tmp_path / "other.csv"
    plain.write_text(TABLE)
    other.write_text(TABLE.replace('"', '  "', 1).replace(',"', ',  "').replace('"\n', '"  \n'))
    np.testing.assert_array_equal(load(str(other), Search()).train.y, load(str(plain), Search()).train.y)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_first_line_of_numbers_is_the_first_row(separator: str, tmp_path: Path) -> None:
    path = tmp_path / "none.csv"
    path.write_text("".join(f"{n},{n * n},{n // 6}\n" for n in range(12)).replace(",", separator))
    data = load(str(path), Search())
    assert (len(data.train), data.train.y.tolist()) == (8, [0] * 4 + [1] * 4)
    assert data.notes[-2:] == (
        "The first line holds numbers only, so it is taken as a row, and the columns are called c1 to c3.",
        "No column is called class or label, so the class is in the last one, 'c3'.",
    )


def test_a_first_line_of_decimal_commas_is_a_row_too(tmp_path: Path) -> None:
    path = tmp_path / "none.csv"
    path.write_text("0,5;1,25;1\n1,5;1;0\n" * 6)
    assert len(load(str(path), Search()).train) == 8
    path.write_text("?;1;1\n1;1;0\n" * 6)
    with pytest.raises(ProblemError, match=r"line 1, column 'c1': '\?' is no value"):
        load(str(path), Search())


@pytest.mark.parametrize("header", [",0,1,2", "0,1,2,3", "1,2,3,4"])
def test_columns_that_pandas_has_numbered_are_names(header: str, tmp_path: Path) -> None:
    path = tmp_path / "pandas.csv"
    path.write_text(header + "\n" + "".join(f"{n},{n * n},7,{n % 2}\n" for n in range(12)))
    data = load(str(path), Search())
    assert sum(map(len, (data.train, data.validation, data.test))) == 12
    assert any(note.startswith("The first line counts from ") for note in data.notes) or header[0] == ","


def test_where_no_column_is_called_class_a_doubtful_one_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "first.csv"
    asked = "say which one has the class: call it 'class' in a first line with"
    path.write_text("survived,fare,age\n" + "".join(f"{n % 2},{n / 4},{n}\n" for n in range(36)))
    with pytest.raises(ProblemError, match=f"the last one, 'age', has 36 different values; {asked}"):
        load(str(path), Search())
    path.write_text("survived,age,fare\n" + "".join(f"{n % 2},{n},{n / 4}\n" for n in range(36)))
    with pytest.raises(ProblemError, match=f"the last one, 'fare', has the value 0.25, which is no class; {asked}"):
        load(str(path), Search())
    path.write_text("".join(f"{n % 3},{n / 4},{n % 2}\n" for n in range(36)))
    with pytest.raises(ProblemError, match=f"both the first one and the last one may hold classes; {asked}"):
        load(str(path), Search())
    path.write_text("".join(f"{n % 3},{n / 4},0\n" for n in range(36)))
    with pytest.raises(ProblemError, match=f"the last one, 'c3', has the same value in each row; {asked}"):
        load(str(path), Search())


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("a,b,label,class", "the columns 'label' and 'class'"),
        ("a,class,b,class", "the columns 'class' and 'class'"),
        ("Class, CLASS ,b,Label", "the columns 'class' and 'class' and 'label'"),
    ],
)
def test_the_answer_never_stays_among_the_inputs(header: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text(header + "\n" + "".join(f"{n},{n % 2},{n * n},{n % 2}\n" for n in range(12)))
    with pytest.raises(ProblemError, match=f"{words}, and only one can be the class: remove or rename the others"):
        load(str(path), Search())


def test_a_column_with_the_same_numbers_as_the_class_is_named(tmp_path: Path) -> None:
    path = tmp_path / "target.csv"
    path.write_text("a,target,class\n" + "".join(f"{n},{n // 6},{n // 6}\n" for n in range(12)))
    words = "The column 'target' has the same number as the class in each row: remove it if it is the answer."
    assert load(str(path), Search()).notes == (words,)


@pytest.mark.parametrize("name", ["", '""', "Unnamed: 0", "Id", "index"])
def test_a_first_column_of_row_numbers_is_no_feature(name: str, tmp_path: Path) -> None:
    path = tmp_path / "pandas.csv"
    path.write_text(f"{name},a,class\n" + "".join(f"{n},{n * n},{n // 6}\n" for n in range(12)))
    data = load(str(path), Search())
    assert data.image_shape == (1, 1, 1)
    called = "has no name" if name in ("", '""') else f"is called {name.lower()!r}"
    assert data.notes == (f"The first column {called} and is left out: it numbers the rows.",)


@pytest.mark.parametrize("number", ["0.002687", "{n}.5", "1{n}0", "7", "{m}", "-{n}"])
@pytest.mark.parametrize("name", ["", "Id", "index"])
def test_a_first_column_that_does_not_number_the_rows_is_a_feature(name: str, number: str, tmp_path: Path) -> None:
    path = tmp_path / "transistor.csv"
    rows = (f"{number.format(n=n, m=n + n // 6)},{n * n},{n // 6}\n" for n in range(12))
    path.write_text(f"{name},a,class\n" + "".join(rows))
    data = load(str(path), Search())
    assert data.image_shape == (1, 2, 1)
    called = "has no name" if not name else f"is called {name.lower()!r}"
    assert data.notes[-1] == f"The first column {called} and is kept: its values do not number the rows."


def test_a_class_that_a_set_lacks_is_said(tmp_path: Path) -> None:
    path = tmp_path / "rare.csv"
    path.write_text("a,b,class\n" + "".join(f"{n},{n * n},{int(n in (0, 6))}\n" for n in range(24)))
    counts = "there are 2 in training, 0 in validation, 0 in test"
    note = f"No sample of class 1 is among the validation and test samples of rare.csv: {counts}."
    assert load(str(path), Search()).notes == (note,)
    path.write_text("a,b,class\n" + "".join(f"{n},{n * n},{n // 2}\n" for n in range(24)))
    notes = load(str(path), Search()).notes
    assert len(notes) == 4
    assert notes[-1] == "Each of 9 more classes has no sample in one of the three sets."


def test_the_classes_are_the_labels_that_occur(tmp_path: Path) -> None:
    path = tmp_path / "wine.csv"
    path.write_text("acid,quality\n" + "".join(f"{n},{(3, 5, 8)[n // 6]}\n" for n in range(18)))
    data = load(str(path), Search())
    assert (data.classes, data.class_names) == (3, ("3", "5", "8"))
    assert data.train.y.tolist() == [0] * 4 + [1] * 4 + [2] * 4
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
