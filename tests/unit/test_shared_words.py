"""Words that window and commands share."""

from __future__ import annotations

import pytest

from clew_shared.words import ordinal, queue_place


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1, "1st"),
        (2, "2nd"),
        (3, "3rd"),
        (4, "4th"),
        (11, "11th"),
        (12, "12th"),
        (13, "13th"),
        (21, "21st"),
        (102, "102nd"),
        (111, "111th"),
        (1013, "1013th"),
    ],
)
def test_ordinals(number: int, text: str) -> None:
    assert ordinal(number) == text


@pytest.mark.parametrize(
    ("place", "text"), [(0, ""), (1, "next in the queue"), (2, "2nd in the queue"), (11, "11th in the queue")]
)
def test_places_in_the_queue(place: int, text: str) -> None:
    assert queue_place(place) == text
