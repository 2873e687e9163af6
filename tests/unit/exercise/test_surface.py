"""A surface is the function's own values on a grid, in the order that the card says, and travels unchanged."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from clew_shared.cards import ExerciseCard, SurfaceSpec
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.surface import heights_of, make_surface


def surface(points: int = 5) -> SurfaceSpec:
    return make_surface(
        lambda x, y: x + 10 * y, title="Plane", metrics=("a", "b"), x=(0.0, 4.0), y=(1.0, 3.0), points=points
    )


def test_rows_go_up_and_columns_to_the_right() -> None:
    heights = heights_of(surface())
    assert heights[0].tolist() == [10, 11, 12, 13, 14]
    assert heights[:, 0].tolist() == [10, 15, 20, 25, 30]


def test_a_constant_is_a_plain() -> None:
    flat = make_surface(lambda *_: np.array(2.0), title="Flat", metrics=("a", "b"), x=(0, 1), y=(0, 1), points=3)
    assert heights_of(flat).tolist() == [[2.0] * 3] * 3


def test_numbers_that_are_too_few_are_refused() -> None:
    with pytest.raises(ValueError, match="reshape"):
        heights_of(msgspec.structs.replace(surface(), rows=4))


def test_a_card_takes_it_over_json_and_messagepack() -> None:
    card = ExerciseCard(id="x", title="X", surfaces=(surface(),))
    assert msgspec.json.decode(msgspec.json.encode(card), type=ExerciseCard) == card
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(card), type=ExerciseCard) == card


def test_the_surface_of_linear_regression_is_a_numpy_loop() -> None:
    (spec,) = find_card(load_builtin().exercises, "linear-regression").surfaces
    heights = heights_of(spec)
    assert spec.metrics == ("W", "b")
    xs, ys = np.linspace(*spec.x, spec.columns), np.linspace(*spec.y, spec.rows)
    for row in range(0, spec.rows, 7):
        for column in range(0, spec.columns, 7):
            loss = 0.0
            for x, y in zip((1.0, 2.0, 3.0, 4.0), (0.0, -1.0, -2.0, -3.0), strict=True):
                loss += (xs[column] * x + ys[row] - y) ** 2
            assert heights[row, column] == pytest.approx(loss, rel=1e-6, abs=1e-6)
    assert spec.minimum == (-1.0, 1.0)
