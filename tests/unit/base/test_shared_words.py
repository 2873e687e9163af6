"""Words that window and commands share."""

from __future__ import annotations

import pytest

from clew_gui.base.state_words import queue_place
from clew_shared.base.number_words import in_bytes, ordinal


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


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (225_400, "225 kB"),
        (999_600, "1.0 MB"),
        (1_300_000, "1.3 MB"),
        (9_960_000, "10 MB"),
        (12_000_000_000, "12 GB"),
        (10**16, "10000 TB"),
    ],
)
def test_sizes_in_words(size: int, words: str) -> None:
    assert in_bytes(size) == words
