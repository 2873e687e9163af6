"""Every parser and codec against bytes that mean harm: refused in its own words, at once, in bounded memory.

For each reader stands what it may raise; anything else is a crash. Its samples are changed, cut, doubled and filled
with huge declared sizes and deep nesting. ``CLEW_SOAK=1`` tries many more.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import logging
import math
import os
import pickle
import re
import socket
import tarfile
import time
import tomllib
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, NamedTuple, cast, get_args

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew_agent.catalogue.catalogue import read_examined
from clew_agent.catalogue.exercise_files import Examined, ExerciseFile, read_source
from clew_agent.datasets.files import gunzip, read_bytes
from clew_agent.datasets.formats import format_idx, parse_idx, parse_npy, parse_npz
from clew_agent.datasets.known import digits
from clew_agent.datasets.lab_pickle import parse_pickle
from clew_agent.processes.nursery_messages import Ready, StartGuard, StartRefused, pair, receive_reply, receive_start
from clew_agent.services.services import read_line
from clew_agent.supervisor.run_manager import read_record
from clew_agent.supervisor.run_queue import QueueRecord
from clew_agent.wire.server import answer_zap
from clew_gui.base.settings import LocalSettings, SettingsFile
from clew_gui.deploy.bundle import packed
from clew_gui.deploy.install_there import unpack
from clew_gui.deploy.there import read_answer as read_remark
from clew_gui.doctor.context import Diagnosis
from clew_gui.doctor.node_job import read_answer as read_node
from clew_gui.session.run_record import RunLine, RunRecord
from clew_gui.sites.consent import Consents, OwnWords
from clew_gui.sites.site_file import read_site
from clew_gui.ssh.connection import Hop
from clew_gui.ssh.openssh.askpass_bridge import prompt_of, read_question
from clew_gui.targets.interpreter import interpreter_problem
from clew_gui.views.window.window_state import FileMemory, WindowState
from clew_shared import catalogue, spec
from clew_shared.base.harmless import for_csv
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import ExerciseCard
from clew_shared.exporters.tables import export_csv, export_jsonl
from clew_shared.exporters.tensorboard import export_tensorboard
from clew_shared.journal.events import Attempt, Evaluation, Log, Points
from clew_shared.journal.files import FrameReader, JournalWriter, encode_frame
from clew_shared.journal.verify import verify_run
from clew_shared.params import Kind, ParamSpec, check, convert, format_value
from clew_shared.reading import read_run
from clew_shared.study import study
from clew_shared.wire import messages
from clew_shared.wire.messages import (
    AgentAddress,
    Hello,
    Service,
    Status,
    decode_reply,
    decode_request,
    encode,
    read_address,
)
from tests.unit.runs import small_run

MEBI = 1 << 20
PROCESSOR_S = 10.0
"""A hundred times what the slowest needs, with its memory traced; below what a loop over a declared size would take."""
MEMORY = 16 * MEBI
"""Above what any sample needs, below what a declared size would take."""


class Reader(NamedTuple):
    """A parser, whole samples for it, and what it may raise for bytes that are none."""

    parse: Callable[[bytes], object]
    samples: tuple[bytes, ...]
    refuses: tuple[type[Exception], ...] = ()
    needs: str = ""


def from_file(read: Callable[[Path], object], name: str = "file") -> Callable[[bytes], object]:
    """``read`` takes a path: give it a file with the bytes."""

    def parse(data: bytes) -> object:
        with TemporaryDirectory() as folder:
            path = Path(folder, name)
            path.write_bytes(data)
            return read(path)

    return parse


def read_frames(data: bytes) -> object:
    reader = FrameReader()
    half = len(data) // 2
    found = [*reader.feed(data[:half]), *reader.feed(data[half:]), *reader.finish()]
    assert sum(item.size for item in found) == len(data), "each byte is in a frame or in a damaged stretch"
    return found


def read_framed(payload: bytes) -> object:
    """The payload of a frame with the right CRC, as only a liar writes it."""
    length = len(payload).to_bytes(4, "little")
    crc = zlib.crc32(length + payload).to_bytes(4, "little")
    return read_frames(b"\xc1CLW" + length + crc + payload)


def read_toml(data: bytes) -> object:
    return spec.from_toml(data.decode("utf-8", "replace"))


def read_study(data: bytes) -> object:
    return study.from_toml(data.decode("utf-8", "replace"))


def read_settings(path: Path) -> object:
    return SettingsFile(path, LocalSettings).load()


def read_queue(path: Path) -> object:
    logging.disable(logging.ERROR)  # it says so in the log when it begins empty
    try:
        return read_record(path)
    finally:
        logging.disable(logging.NOTSET)


def read_gate(data: bytes) -> object:
    frames = [data[i : i + 32] for i in range(0, len(data), 32)]
    reply = answer_zap(frames, Path("/nowhere"))
    assert reply[2] == b"400", "nobody is on that list"
    return reply


def read_params(data: bytes) -> object:
    """As text of a form or a command line, as values of a message and of a spec, and as names."""
    text = data.decode("utf-8", "replace")
    values: list[object] = [text]
    with suppress(ValueError, RecursionError):
        values.append(msgspec.json.decode(data))
    with suppress(ValueError, RecursionError):
        values += tomllib.loads(text).values()
    with suppress(ValueError, RecursionError):
        values.append(tomllib.loads(f"x = {text}")["x"])
    for one in PARAMS:
        for value in values:
            typed, wrong = convert(one, value)
            assert wrong is not None or convert(one, format_value(typed)) == (typed, None)
    return [check(PARAMS, {text: value, "int": value}) for value in values]


def read_window(path: Path) -> object:
    """What Qt takes of it is C's int; a percentage is made of the smoothing."""
    state = FileMemory(path).load_window()
    sizes = (state.width, state.height, state.lab_width, state.form_width, state.runs_height, state.tab)
    assert all(0 <= size < 2**31 for size in sizes)
    assert math.isfinite(state.smoothing)
    return state


def read_consents(path: Path) -> object:
    return Consents(path).missing((WORDS,))


def from_channel(receive: Callable[[socket.socket], object]) -> Callable[[bytes], object]:
    """``receive`` reads a packet: send it one."""

    def parse(data: bytes) -> object:
        ours, theirs = pair()
        with ours, theirs:
            ours.send(data[:100_000])  # what a packet can hold
            return receive(theirs)

    return parse


def read_there(data: bytes) -> object:
    return read_remark(f"Welcome\nmark:{data.decode('utf-8', 'replace')}", "mark:")


def read_doctors_job(data: bytes) -> object:
    done = SimpleNamespace(out=data.decode("utf-8", "replace"))
    return read_node(cast("Diagnosis", SimpleNamespace(sh=lambda *_: done)), cast("Any", SimpleNamespace(folder="")))


def read_interpreter(data: bytes) -> object:
    return interpreter_problem("python", 0, data.decode("utf-8", "replace"))


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def read_archive(data: bytes) -> object:
    with TemporaryDirectory() as outer:
        folder = Path(outer, "inner")
        folder.mkdir()
        try:
            unpack(data, folder)
        finally:
            assert [path.name for path in Path(outer).iterdir()] == ["inner"], "a name led out of the folder"
        return sorted(path.name for path in folder.rglob("*"))


def prompt_in(data: bytes) -> object:
    return prompt_of(read_question(data).text, Hop(host="login"))


def _archive(*names: str) -> bytes:
    """Not compressed, so that a changed byte is a changed name."""
    return gzip.compress(gzip.decompress(packed(dict.fromkeys(names, b"abc"))), compresslevel=0)


def _npz() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, x=np.arange(6, dtype=np.float32).reshape(2, 3))
    return file.getvalue()


def _pickles() -> tuple[bytes, ...]:
    value = (np.arange(4, dtype=np.float32), np.arange(4), b"text", "text", True, None, 2**70)
    return tuple(pickle.dumps(value, protocol) for protocol in (0, 2, 4, 5))


ADDRESS = AgentAddress(
    agent="a", host="h", boot="b", pid=1, generation=1, address="127.0.0.1", port=1, public_key="k", allow_list="/x"
)
POINTS = Points(schema=1, first=0, count=2, seconds=1.0, clock=1.0, values=(bytes(8), bytes(8)))
PARAMS = tuple(
    ParamSpec(name=kind + "?" * optional, kind=kind, label=kind, default=None, optional=optional, ge=-1, le=1e9)
    for kind in get_args(Kind)
    for optional in (False, True)
)
WORDS = OwnWords("prologue", "module load python")
WINDOW = WindowState(width=1300, tab=0, smoothing=0.25, folds={"lab:small": False}, asked={"uni": {"cores": 4}})
WINDOW_FILE = b"width = 1300\ntab = 0\nsmoothing = 0.25\n[folds]\n'lab:small' = false\n[asked.uni]\ncores = 4\n"
SERVICE = Service(kind="jupyter", port=4444, public_key="k", token="t", name="Jupyter")
NO_SERVICE = messages.Refused(problem=Problem("service.start", "text", "hint"))
EXAMINED = Examined("mine.py", (ExerciseCard(id="mine", title="Mine", minutes=3),))
STUDY = b"study = 's'\n[base]\nexercise = 'softmax'\n[[lanes]]\nname = 'a'\n"
SPEC = b"exercise = 'softmax'\nseed = 3\nrun = '5f2b8c1e-7d41-4f0e-9a35-2f1b6c0d9e77'\n[params]\nlearning_rate = 0.5\n"

READERS = {
    "frames": Reader(read_frames, (encode_frame(POINTS) + encode_frame(Log(text="x")),)),
    "events": Reader(read_framed, (msgspec.msgpack.encode(POINTS), msgspec.msgpack.encode(Log(text="x")))),
    "requests": Reader(decode_request, (encode(Hello()),), (msgspec.DecodeError,)),
    "replies": Reader(decode_reply, (encode(Status(version=1, runs=())),), (msgspec.DecodeError,)),
    "spec": Reader(read_toml, (SPEC,), (ProblemError,)),
    "study": Reader(read_study, (STUDY,), (ProblemError,)),
    "catalogue": Reader(catalogue.decode, (catalogue.encode(catalogue.load_builtin())[:3000],), (msgspec.DecodeError,)),
    "settings": Reader(from_file(read_settings), (b'interpreter = "/usr/bin/python3"\n',)),
    "agent's address": Reader(from_file(read_address), (msgspec.json.encode(ADDRESS),)),
    "queue": Reader(from_file(read_queue), (msgspec.json.encode(QueueRecord(running=("a",))),)),
    "jobs": Reader(from_file(RunRecord), (msgspec.json.encode(RunLine(run="r", number=1)) + b"\n",)),
    "problem": Reader(
        lambda data: msgspec.json.decode(data, type=Problem),
        (msgspec.json.encode(Problem("a.b", "text", "hint")),),
        (msgspec.DecodeError, UnicodeDecodeError, RecursionError),
    ),
    "params": Reader(read_params, (b"10", b"x = 2.5\n", b"1,000", b'[true, "text"]')),
    "window": Reader(from_file(read_window), (WINDOW_FILE,)),
    "consents": Reader(from_file(read_consents), (f"[consents]\n{WORDS.digest} = 'prologue'\n".encode(),)),
    "nursery's request": Reader(
        from_channel(receive_start),
        (msgspec.json.encode(StartGuard(folder="/runs/a", attempt=1, environment={"A": "1"})),),
        (msgspec.DecodeError,),
        "fork",
    ),
    "nursery's answer": Reader(
        from_channel(receive_reply),
        (msgspec.json.encode(Ready(seconds=0.5)), msgspec.json.encode(StartRefused(folder="/runs/a", reason="why"))),
        (msgspec.DecodeError,),
        "fork",
    ),
    "service": Reader(read_line, (msgspec.json.encode(SERVICE), msgspec.json.encode(NO_SERVICE))),
    "examined": Reader(read_examined, (msgspec.json.encode(EXAMINED) + b"\n",)),
    "interpreter": Reader(read_interpreter, (b"[[3, 12], []]\n", b'[[3, 11], ["zmq"]]\n')),
    "doctor's job": Reader(read_doctors_job, (b'{"host": "node17", "clock": 1.5, "whole": true}',)),
    "site's answer": Reader(read_there, (b'{"python": [3, 12], "have": {}}\n',)),
    "question of ssh": Reader(
        prompt_in,
        (
            msgspec.json.encode({"text": "(a@b) Password: "}),
            msgspec.json.encode({"text": "ED25519 key fingerprint is SHA256:abc. Continue connecting?", "hint": ""}),
        ),
        (ValueError, msgspec.MsgspecError, RecursionError),
    ),
    "installed archive": Reader(
        read_archive,
        (_archive("agent/a.py", "b.py"),),
        (OSError, ValueError, EOFError, tarfile.TarError, zlib.error),
    ),
    "gatekeeper": Reader(read_gate, (b"1.0" + bytes(200),)),
    "idx": Reader(parse_idx, (format_idx(np.arange(6, dtype=np.uint8).reshape(2, 3)),), (ValueError,)),
    "npy": Reader(lambda data: parse_npy(data, "x"), (_npy(np.arange(6.0)), _npy(np.zeros((2, 0)))), (ValueError,)),
    "npz": Reader(lambda data: parse_npz(data, ["x"], MEBI), (_npz(),), (ValueError,)),
    "pickle": Reader(parse_pickle, _pickles(), (ValueError,)),
    "gzip": Reader(
        lambda data: gunzip(data, Path("x"), MEBI),
        (gzip.compress(bytes(100)), gzip.compress(bytes(MEBI))),
        (ProblemError,),
    ),
    "digits": Reader(from_file(digits.read), (b"0,1,2\n3,4,5\n", gzip.compress(b"1,2\n")), (ProblemError,)),
    "file": Reader(from_file(lambda path: read_bytes(path, MEBI)), (gzip.compress(bytes(50)),), (ProblemError,)),
}

NAMES = [
    pytest.param(name, marks=pytest.mark.needs(reader.needs)) if reader.needs else name
    for name, reader in READERS.items()
]

TRAPS = [
    b"\xff" * 8,
    b"\x7f" + b"\xff" * 7,
    (2**32 - 1).to_bytes(4, "little"),
    (2**20 - 13).to_bytes(4, "little"),
    b"\xdf\xff\xff\xff\xff",  # MessagePack: a map, a list, bytes and a text of 4 G entries
    b"\xdd\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\x91" * 3000,
    b"[" * 3000,
    b'{"a":' * 3000,
    b"(" * 3000,
    b"9" * 400,  # no float is so large
    b"9" * 5000,
    b"1e999999999",
    b"\xc1CLW",
    b"\xed\xa0\x80",  # half of a surrogate pair
    b"\0",
    b"\x8e" + b"\xff" * 8,  # pickle: bytes of 16 exabytes, a memo of 4 G entries, a frame, a long of 2 GB
    b"r\xff\xff\xff\xff",
    b"\x95" + b"\xff" * 8,
    b"\x8b\xff\xff\xff\x7f",
]


def spoil(data: bytes, how: str, place: float, trap: bytes) -> bytes:
    """``data`` with one thing done to it at ``place`` (0 to 1 of its length)."""
    at = int(place * len(data))
    match how:
        case "cut":
            return data[:at]
        case "insert":
            return data[:at] + trap + data[at:]
        case "replace":
            return data[:at] + trap + data[at + len(trap) :]
        case "repeat":
            return data[:at] + data[at // 2 :]
        case _:
            return data[:at] + bytes([data[at] ^ trap[0]]) + data[at + 1 :] if at < len(data) else data


CHANGES = st.tuples(
    st.sampled_from(["cut", "insert", "replace", "repeat", "flip"]),
    st.floats(0, 1),
    st.one_of(st.sampled_from(TRAPS), st.binary(min_size=1, max_size=6)),
)


def read_safely(reader: Reader, data: bytes) -> None:
    """Fail for an exception that is not declared, and for memory or time that the bytes do not account for."""
    begun = time.process_time()
    tracemalloc.start()
    try:
        reader.parse(data)
    except reader.refuses:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < MEMORY + 40 * len(data), f"{peak:,} bytes for an input of {len(data):,}"
    spent = time.process_time() - begun
    assert spent < PROCESSOR_S, f"{spent:.1f} s of a processor for an input of {len(data):,} bytes"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_whole_is_read(name: str) -> None:
    """Otherwise the tests below would change something that was refused anyway."""
    if name not in ("digits", "catalogue", "study"):
        READERS[name].parse(READERS[name].samples[0])


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("window", WINDOW),
        ("consents", ()),
        ("service", SERVICE),
        ("examined", {EXAMINED.path: EXAMINED.cards}),
        ("interpreter", None),
        ("site's answer", {"python": [3, 12], "have": {}}),
    ],
)
def test_what_is_whole_is_not_passed_over(name: str, found: object) -> None:
    """These readers never refuse: they go on without what they cannot read."""
    assert READERS[name].parse(READERS[name].samples[0]) == found


TEXT_FILES: dict[str, Callable[[Path], object]] = {
    "spec": spec.read_spec,
    "study": study.read_study,
    "site": read_site,
    "exercise": lambda path: read_source(ExerciseFile(path)),
}


@pytest.mark.unix("a FIFO")
@pytest.mark.parametrize("name", TEXT_FILES)
def test_a_text_without_an_end_or_a_writer_is_refused(name: str, tmp_path: Path) -> None:
    fifo, huge = tmp_path / "fifo", tmp_path / "huge"
    os.mkfifo(fifo)
    huge.write_bytes(b"#" * (MEBI + 1))
    for path, words in ((huge, "it has more than"), (fifo, "not a regular file"), (Path("/dev/zero"), "not a regular")):
        with pytest.raises(ProblemError, match=words):
            TEXT_FILES[name](path)


_HUGE = b")q\0" + b"0h\0h\0\x86q\0" * 24
"""A tuple of 2^24 entries in 200 bytes of pickle: each instruction pairs the tuple before with itself."""


@pytest.mark.parametrize(
    "pickled",
    [
        pytest.param(b"cnumpy\ndtype\n(" + _HUGE + b"tR.", id="dtype"),
        pytest.param(_HUGE + b"h\0\x93.", id="name"),
        pytest.param(b"cnumpy\nndarray\n(" + _HUGE + b"tR.", id="arguments"),
        pytest.param(
            b"cnumpy.core.numeric\n_frombuffer\n(C\1acnumpy\ndtype\n(\x8c\x02f4K\0K\1tR" + _HUGE + b"h\0\x86\x8c\1CtR.",
            id="shape",
        ),
    ],
)
def test_a_pickle_of_shared_references_is_refused_at_once(pickled: bytes) -> None:
    with pytest.raises(ValueError, match="its pickle"):
        parse_pickle(pickled)
    read_safely(READERS["pickle"], pickled)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 5000,
        "a = " + "{a=" * 5000,
        "a = " + "9" * 5000,
        "width = 99999999999",
        "tab = -1",
        "smoothing = nan",
    ],
)
def test_no_file_keeps_the_window_from_opening(text: str, tmp_path: Path) -> None:
    """It is read before the first frame, and its numbers go to Qt, which takes C's int."""
    (tmp_path / "window.toml").write_text(text)
    memory = FileMemory(tmp_path / "window.toml")
    assert memory.load_window() == WindowState()
    assert memory.problem is not None
    assert "window.toml" in memory.problem.text


@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
@example(data=b"#")  # a comment only, where a reader knows comments
@given(data=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(name: str, data: bytes) -> None:
    read_safely(READERS[name], data)


@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_each_trap_where_a_value_begins_is_read_or_refused(name: str) -> None:
    """What chance finds once in a thousand examples: broken text inside quotes, endless brackets behind a colon."""
    for sample in READERS[name].samples:
        for at in [0, *(found.end() for found in re.finditer(rb"[:=,\[{\"']", sample))][:12]:
            for trap in TRAPS:
                read_safely(READERS[name], sample[:at] + trap + sample[at:])


@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
@given(choice=st.integers(0, 3), changes=st.lists(CHANGES, min_size=1, max_size=4))
def test_changed_bytes_are_read_or_refused(name: str, choice: int, changes: list[tuple[str, float, bytes]]) -> None:
    samples = READERS[name].samples
    data = samples[choice % len(samples)]
    for change in changes:
        data = spoil(data, *change)
    read_safely(READERS[name], data)


# --- Whole run folders ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    folder = small_run(tmp_path_factory.mktemp("hostile") / "run")
    return folder.path, folder.journal(1).read_bytes()


A_FEW = settings(max_examples=settings().max_examples // 4)
"""A run is read, checked and exported thrice in each example."""


def use_run(folder: Path) -> None:
    """Everything that reads a run folder: curves, the check, the exports."""
    verify_run(folder)
    try:
        history = read_run(folder)
    except ProblemError:
        return
    with TemporaryDirectory() as out:
        for export in (export_csv, export_jsonl, export_tensorboard):
            export(history, Path(out))


@A_FEW
@given(changes=st.lists(CHANGES, min_size=1, max_size=4))
def test_a_spoilt_journal_harms_no_reader(journal: tuple[Path, bytes], changes: list[tuple[str, float, bytes]]) -> None:
    folder, data = journal
    for change in changes:
        data = spoil(data, *change)
    (folder / "journal.0001").write_bytes(data)
    read_safely(Reader(lambda _: use_run(folder), ()), data)


@A_FEW
@given(payloads=st.lists(st.tuples(st.integers(0, 30), CHANGES), min_size=1, max_size=5))
def test_a_journal_that_lies_with_right_checksums_harms_no_reader(
    journal: tuple[Path, bytes], payloads: list[tuple[int, tuple[str, float, bytes]]]
) -> None:
    """Each frame is intact; what stands in it is not what it should be."""
    folder, data = journal
    frames = data.split(b"\xc1CLW")[1:]
    for number, change in payloads:
        place = number % len(frames)
        payload = spoil(frames[place][8:], *change)
        length = len(payload).to_bytes(4, "little")
        frames[place] = length + zlib.crc32(length + payload).to_bytes(4, "little") + payload
    lies = b"".join(b"\xc1CLW" + frame for frame in frames)
    (folder / "journal.0001").write_bytes(lies)
    read_safely(Reader(lambda _: use_run(folder), ()), lies)


# --- What is written for other programs -------------------------------------------------------------------------------


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


@A_FEW
@given(
    names=st.lists(st.text(max_size=9), min_size=1, max_size=3, unique=True), run=st.text(max_size=9), time=st.floats()
)
def test_whatever_names_a_journal_has_the_tables_have_five_columns(names: list[str], run: str, time: float) -> None:
    """Commas, quotes, line breaks, NUL, no time or an endless one: each program's own reader finds the names again, in
    CSV without what would move a cursor or begin a formula."""
    with TemporaryDirectory() as folder:
        with JournalWriter.create(Path(folder, "journal.0001")) as writer:
            first = Attempt(format=1, run=run, attempt=1, exercise="../x", spec_sha256="")
            for event in (first, Evaluation(time=time, step=1, values=dict.fromkeys(names, 0.5))):
                writer.append(event)
        history = read_run(Path(folder))
        table = export_csv(history, Path(folder, "out")).read_bytes().decode()
        lines = export_jsonl(history, Path(folder, "out")).read_bytes().splitlines()
        assert [path.parent.name for path in Path(folder).rglob("*.csv")] == ["out"], "a name led out of the folder"
    cells = list(csv.reader(io.StringIO(table, newline="")))
    assert sorted(row[2] for row in cells[1:]) == sorted(str(for_csv(name)) for name in names)
    assert {len(row) for row in cells} == {5}
    objects = [json.loads(line, parse_constant=_no_constant) for line in lines]
    assert sorted(row["metric"] for row in objects) == sorted(names)
    assert {row["run"] for row in objects} == {run}
