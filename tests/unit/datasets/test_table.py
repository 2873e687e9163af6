"""Tables of one's own: columns, classes, splits and scales, and what is refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

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
        ("", "not a table of numbers|a header of 0 columns"),
        ("a,class\n", "a header of 2 columns and a table of"),
        ("a,class\n" + "1,x\n" * 6, "not a table of numbers"),
        ("a,class\n" + "1,0.5\n" * 6, "in the column 'class' that is not a whole number"),
        ("a,class\n" + "nan,0\n" * 6, "a value that is missing"),
        ("a,class\n" + "1,-1\n" * 6, "that is not a whole number"),
        ("a,class\n" + "1,5000\n" * 6, "classes up to 5,000"),
        ("a,b,class\n" + "1,0\n" * 6, "a header of 3 columns"),
    ],
)
def test_what_is_no_such_table_is_refused(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ProblemError, match=words):
        load(str(path), Search())
