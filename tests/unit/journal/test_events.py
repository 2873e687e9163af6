"""Every kind of event comes back from its bytes as it was, whatever it holds."""

from __future__ import annotations

import math
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_shared.journal.events import AnyEvent, Evaluation, Event, Log, Points, State
from clew_shared.journal.files import FrameReader, Record, encode_frame
from clew_shared.journal.lifecycle import RunState
from tests.unit.anything import any_of

KINDS: tuple[type[Event], ...] = get_args(AnyEvent)
RESERVED = {
    "attempt", "schema", "points", "evaluation", "series", "image", "histogram", "matrix", "updates", "peer", "state",
    "live", "checkpoint", "files", "log", "digest", "diverged", "seal",
    "predicted", "pulse", "trace",
}  # fmt: skip


def test_the_reserved_kinds_are_all_there_and_each_has_its_own_name() -> None:
    assert {kind.__struct_config__.tag for kind in KINDS} == RESERVED
    assert len(KINDS) == len(RESERVED)


@given(st.one_of([any_of(kind) for kind in KINDS]))
def test_every_event_comes_back_from_its_frame(event: Event) -> None:
    frame = encode_frame(event)
    assert [(item.event, item.size) for item in FrameReader().feed(frame) if isinstance(item, Record)] == [
        (event, len(frame))
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 5e-324])
def test_values_that_are_not_finite_survive(value: float) -> None:
    event = Evaluation(step=1, values={"loss": value})
    (record,) = FrameReader().feed(encode_frame(event))
    assert isinstance(record, Record)
    assert isinstance(record.event, Evaluation)
    assert str(record.event.values["loss"]) == str(value)


def test_defaults_cost_no_bytes() -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(Log(text="x"))) == {"t": "log", "text": "x"}
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(State(state=RunState.RUNNING))) == {
        "t": "state",
        "state": "RUNNING",
    }


def test_events_cannot_be_changed() -> None:
    event = Points(schema=1, first=0, count=1, seconds=1.0, clock=1.0, values=(b"",))
    with pytest.raises(AttributeError):
        event.count = 2  # type: ignore[misc]
