"""PROTOCOL.md and the code say the same: every kind with every field, every example decodes, and the reader reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec
import pytest

import clew_shared
from clew_shared.journal import events
from clew_shared.journal.events import AnyEvent
from clew_shared.journal.files import JOURNAL_FORMAT, MAGIC, MAX_FRAME, FrameReader, Record, encode_frame
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.reading import read_run
from clew_shared.wire import messages
from tests.unit.runs import small_run

TEXT = (Path(clew_shared.__file__).parent / "PROTOCOL.md").read_text(encoding="utf-8")


class Section(NamedTuple):
    """One heading of the third level: the struct's name, its tag, and what stands below."""

    tag: str | None
    body: str


def sections() -> dict[str, Section]:
    found = {}
    for part in re.split(r"^### ", TEXT, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        if match := re.fullmatch(r"(?:`(\w+)` \()?(\w+)\)?", head):
            found[match[2]] = Section(match[1], re.split(r"^## ", body, flags=re.MULTILINE)[0])
    return found


SECTIONS = sections()


def structs_in(annotation: object) -> Iterator[type[msgspec.Struct]]:
    """The structs that a type mentions, and those that they mention."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        yield annotation
        for hint in get_type_hints(annotation).values():
            yield from structs_in(hint)
    for argument in get_args(annotation):
        yield from structs_in(argument)


def all_structs() -> list[type[msgspec.Struct]]:
    """Everything that can stand in a journal or on the wire, and the address file."""
    roots = [AnyEvent, messages.AnyRequest, messages.AnyReply, messages.AgentAddress]
    return list(dict.fromkeys(struct for root in roots for struct in structs_in(root)))


def example(name: str) -> bytes:
    match = re.search(r"```json\n(.*?)\n```", SECTIONS[name].body, re.DOTALL)
    assert match, f"{name} has no example"
    return match[1].encode()


def marked(mark: str) -> str:
    match = re.search(rf"<!-- {mark} -->\n```\w+\n(.*?)\n```", TEXT, re.DOTALL)
    assert match, f"PROTOCOL.md has no block {mark}"
    return match[1]


def test_every_struct_of_the_two_modules_is_reachable_and_no_section_is_left_over() -> None:
    bases = {events.Event, messages.Request, messages.Reply}
    modules = (events, messages)
    defined = {
        thing
        for module in modules
        for thing in vars(module).values()
        if isinstance(thing, type) and issubclass(thing, msgspec.Struct) and thing.__module__ == module.__name__
    }
    assert defined - bases <= set(all_structs())
    assert {struct.__name__ for struct in all_structs()} == set(SECTIONS) - {
        "Events",
        "Frames",
        "Requests",
        "Replies",
    } - {"Versions"}


@pytest.mark.parametrize("struct", all_structs(), ids=lambda struct: struct.__name__)
def test_every_field_stands_in_the_table_with_what_a_reader_may_assume(struct: type[msgspec.Struct]) -> None:
    section = SECTIONS[struct.__name__]
    assert section.tag == struct.__struct_config__.tag
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.+?) \|$", section.body, re.MULTILINE)
    fields = [f for f in msgspec.structs.fields(struct) if not (f.name == "time" and issubclass(struct, events.Event))]
    assert [row[0] for row in rows] == [field.name for field in fields]
    for (name, kind, _), field in zip(rows, fields, strict=True):
        assert kind.endswith(", required") == field.required, name
        default = re.search(r"default `(.*)`", kind)
        if not field.required and field.default is not msgspec.NODEFAULT and field.default:
            assert default, name
            assert default[1].encode() == msgspec.json.encode(field.default), name
        else:
            assert default is None, name


@pytest.mark.parametrize("struct", all_structs(), ids=lambda struct: struct.__name__)
def test_every_example_decodes_to_its_kind_and_is_written_the_same_way(struct: type[msgspec.Struct]) -> None:
    text = example(struct.__name__)
    value = msgspec.json.decode(text, type=struct)
    assert type(value) is struct
    assert msgspec.json.encode(value) == text


@pytest.mark.parametrize("kind", get_args(AnyEvent), ids=lambda kind: kind.__name__)
def test_every_event_example_passes_through_a_journal(kind: type[events.Event]) -> None:
    event: Any = msgspec.json.decode(example(kind.__name__), type=kind)
    assert event.time > 0
    frame = encode_frame(event)
    assert FrameReader().feed(frame) == [Record(0, len(frame), event)]


def test_the_frame_in_hexadecimal_is_the_event_beside_it() -> None:
    frame = bytes.fromhex(marked("frame").replace("\n", " "))
    event = msgspec.json.decode(marked("frame-json"), type=AnyEvent)
    assert frame == encode_frame(event)
    length, crc = frame[4:8].hex(" "), frame[8:12].hex(" ")
    assert f"12 + {len(frame) - 12} bytes" in TEXT
    assert f"has the length `{length}`, the CRC `{crc}`" in TEXT


def test_the_request_in_hexadecimal_is_the_one_beside_it() -> None:
    data = bytes.fromhex(marked("message").replace("\n", " "))
    request = msgspec.json.decode(marked("message-json"), type=messages.AnyRequest)
    assert messages.decode_request(data) == request
    assert messages.encode(request) == data


def test_versions_and_limits_are_those_of_the_code() -> None:
    version = ".".join(map(str, messages.PROTOCOL_VERSION))
    assert f"Protocol version **{version}**, journal format **{JOURNAL_FORMAT}**." in TEXT
    assert f"magic: `{MAGIC.hex(' ')}`" in TEXT
    assert f"({MAX_FRAME:,} bytes)" in TEXT
    assert f"A request is at most {messages.MAX_REQUEST_BYTES // 1024} KiB" in TEXT
    assert f"carries at most {messages.MAX_FETCH_BYTES // 1024} KiB" in TEXT
    assert f"at most {messages.MAX_FETCH_WAIT:g}" in SECTIONS["Fetch"].body


def test_every_state_is_named_and_the_terminal_ones_are_told_apart() -> None:
    states = TEXT.split("## 3. States")[1].split("## 4.")[0]
    assert all(state.value in states for state in RunState)
    sentence = next(line for line in re.split(r"(?<=\.)\s", states) if "are terminal" in line)
    assert {state for state in RunState if state.value in sentence} == TERMINAL


def test_the_reader_on_the_page_reads_a_real_journal_also_a_damaged_one(tmp_path: Path) -> None:
    source = marked("reader")
    assert len([line for line in source.splitlines() if line]) <= 30
    names: dict[str, Any] = {}
    exec(compile(source, "PROTOCOL.md", "exec"), names)  # noqa: S102 the page's own example is what is tested
    folder = small_run(tmp_path / "run")
    history = read_run(folder.path)
    expected = {}
    for metric in history.recorded():
        column = history.column(metric)
        expected[metric] = list(zip(column.steps.tolist(), column.values.tolist(), strict=True))
    assert str(names["curves"](folder.journal(1))) == str(expected)

    damaged = bytearray(folder.journal(1).read_bytes())
    place = damaged.find(b"points")
    damaged[place] ^= 1
    folder.journal(1).write_bytes(damaged[:-5])
    found = names["curves"](folder.journal(1))
    assert [step for step, _ in found["loss"]] == [2, 3]
    assert found["test_accuracy"] == [(4, 0.9)]
