"""Messages come back as they were sent, and bytes that are none are refused in one way only."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_shared.wire.messages import (
    AgentAddress,
    AnyReply,
    AnyRequest,
    Pause,
    Reply,
    Request,
    decode_reply,
    decode_request,
    encode,
    unknown_kind,
)
from tests.unit.anything import any_of

REQUESTS: tuple[type[Request], ...] = get_args(AnyRequest)
REPLIES: tuple[type[Reply], ...] = get_args(AnyReply)


@given(st.one_of([any_of(kind) for kind in REQUESTS]))
def test_every_request_comes_back(request_: Request) -> None:
    assert decode_request(encode(request_)) == request_


@given(st.one_of([any_of(kind) for kind in REPLIES]))
def test_every_reply_comes_back(reply: Reply) -> None:
    assert decode_reply(encode(reply)) == reply


@given(any_of(AgentAddress, finite=True))
def test_an_address_comes_back_from_its_file(address: AgentAddress) -> None:
    assert msgspec.json.decode(msgspec.json.encode(address), type=AgentAddress) == address


def test_tags_are_unique_on_each_side() -> None:
    for kinds in (REQUESTS, REPLIES):
        assert len({kind.__struct_config__.tag for kind in kinds}) == len(kinds)


def test_what_a_later_version_asks_for_has_a_name_and_nothing_else_has() -> None:
    assert unknown_kind(msgspec.msgpack.encode({"t": "teleport", "to": {"x": 1}})) == "teleport"
    for known in (encode(Pause(run="x")), msgspec.msgpack.encode({"t": "start"})):
        assert unknown_kind(known) == ""


@given(st.binary(max_size=300))
def test_bytes_that_are_no_request_have_no_name(data: bytes) -> None:
    assert unknown_kind(data) == ""
    assert unknown_kind(b"\x91" * 60_000) == ""


GOOD = encode(Pause(run="xy"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello",
        GOOD[:-1],
        GOOD + b"\x00",
        GOOD.replace(b"xy", b"\xff\xfe"),
        GOOD.replace(b"pause", b"p\xffuse"),
        b"\x83" + GOOD[1:] + b"\xa4junk" + b"\x91" * 60_000,
        b"\xdf\xff\xff\xff\xff",
        msgspec.msgpack.encode({"t": "hologram"}),
        msgspec.msgpack.encode({"t": "pause"}),
        msgspec.msgpack.encode({"t": "pause", "run": 7}),
        msgspec.msgpack.encode({"run": "x"}),
        msgspec.msgpack.encode([1, 2]),
    ],
    ids=range(13),
)
def test_what_is_no_message_raises_one_kind_of_error(data: bytes) -> None:
    for decode in (decode_request, decode_reply):
        with pytest.raises(msgspec.DecodeError):
            decode(data)


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_else(data: bytes) -> None:
    for decode in (decode_request, decode_reply):
        try:
            decode(data)
        except msgspec.DecodeError:
            continue


def test_fields_of_a_later_minor_version_are_ignored() -> None:
    later = msgspec.msgpack.encode({"t": "pause", "run": "x", "gently": True})
    assert decode_request(later) == Pause(run="x")
