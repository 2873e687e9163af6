"""Every parser and codec of bytes from elsewhere, with samples and what it may raise: for the tests of
hostile bytes and for `make fuzz`. Anything else that it raises is a crash."""

from __future__ import annotations

import base64
import gzip
import io
import logging
import math
import pickle
import socket
import tarfile
import tomllib
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, NamedTuple, cast, get_args

import msgspec
import numpy as np
from PIL import Image

from clew_agent.catalogue.catalogue import read_examined
from clew_agent.catalogue.exercise_files import Examined
from clew_agent.datasets import image_folder, table
from clew_agent.datasets.files import gunzip, read_bytes
from clew_agent.datasets.formats import parse_idx, parse_npy, parse_npz
from clew_agent.datasets.known import digits
from clew_agent.datasets.lab_pickle import parse_pickle
from clew_agent.processes.nursery_messages import Ready, StartGuard, StartRefused, receive_reply, receive_start
from clew_agent.supervisor.run_manager import read_record
from clew_agent.supervisor.run_queue import QueueRecord
from clew_agent.supervisor.services import read_line
from clew_agent.wire.server import answer_zap
from clew_gui.base.settings import LocalSettings, SettingsFile
from clew_gui.deploy.bundle import packed
from clew_gui.deploy.install_there import unpack
from clew_gui.deploy.remote_python import read_answer as read_remark
from clew_gui.doctor import home, software
from clew_gui.doctor.examination import Diagnosis
from clew_gui.doctor.node_job import read_answer as read_node
from clew_gui.jobs.job_files import read_answer
from clew_gui.reports.check import check_handin
from clew_gui.reports.facts import ReportFacts
from clew_gui.reports.handin import open_handin, pack
from clew_gui.schedulers import pbs, slurm
from clew_gui.schedulers.job import JobRef
from clew_gui.schedulers.mnsubmit import parse_mnq
from clew_gui.schedulers.registry import SCHEDULERS
from clew_gui.schedulers.state import Output
from clew_gui.schedulers.verdict import parse_record, state_of_record
from clew_gui.schedulers.words import describe
from clew_gui.session.run_record import RunLine, RunRecord
from clew_gui.sites.consent import Consents, OwnWords
from clew_gui.sites.site_file import read_site
from clew_gui.ssh.config import look_up, offered_hosts, parse_ssh_g
from clew_gui.ssh.host_keys import read_known
from clew_gui.ssh.keys import describe_key
from clew_gui.study.trace import trace_lines
from clew_gui.targets.local_agent import interpreter_problem
from clew_gui.views.window.window_state import WindowState
from clew_shared import catalogue, spec
from clew_shared.base import operating_system
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import ExerciseCard, MetricSpec
from clew_shared.exporters.tables import export_csv, export_jsonl
from clew_shared.exporters.tensorboard import export_tensorboard
from clew_shared.journal.events import Attempt, Evaluation, Log, Points, Pulse, Schema
from clew_shared.journal.files import FrameReader, encode_frame
from clew_shared.journal.verify import verify_run
from clew_shared.params import Kind, ParamSpec, check, convert, format_value
from clew_shared.reading import read_run, summary
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
from tests.idx import format_idx
from tests.unit.runs import trace

MEBI = 1 << 20


class Reader(NamedTuple):
    """A parser, whole samples for it, and what it may raise for bytes that are none."""

    parse: Callable[[bytes], object]
    samples: tuple[bytes, ...]
    refuses: tuple[type[Exception], ...] = ()
    needs: str = ""


def from_text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    """``read`` takes a text."""
    return lambda data: read(data.decode("utf-8", "replace"))


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


def framed(payload: bytes) -> bytes:
    """The payload as a frame with the right CRC, as only a liar writes it."""
    length = len(payload).to_bytes(4, "little")
    return b"\xc1CLW" + length + zlib.crc32(length + payload).to_bytes(4, "little") + payload


def read_framed(payload: bytes) -> object:
    return read_frames(framed(payload))


def use_run(folder: Path) -> None:
    """Everything that reads a run folder: curves, the check, the exports."""
    verify_run(folder)
    try:
        history = read_run(folder)
    except ProblemError:
        return
    summary(history, folder)
    if history.trace is not None:
        assert list(trace_lines(history.trace))
    with TemporaryDirectory() as out:
        for export in (export_csv, export_jsonl, export_tensorboard):
            export(history, Path(out))


def read_journal(data: bytes) -> object:
    """The payloads of a journal's events, each behind its length in two bytes."""
    frames = []
    while data:
        size = int.from_bytes(data[:2], "big") + 2
        frames.append(framed(data[2:size]))
        data = data[size:]
    with TemporaryDirectory() as folder:
        Path(folder, "journal.0001").write_bytes(b"".join(frames))
        use_run(Path(folder))
    return frames


def read_slurm(data: bytes) -> object:
    """Lines of squeue, sacct, sinfo, sacctmgr, of what slurmstepd printed, and the doctor's tables."""
    text = data.decode("utf-8", "replace")
    found = [*slurm.parse_squeue(text), *slurm.parse_sacct(text)]
    for one in found:
        describe(one, SCHEDULERS["slurm"])
    SCHEDULERS["slurm"].heard_again(JobRef("7", ""), Output(0, text))
    slurm.memory_ran_out(text)
    return found, slurm.parse_sinfo(text), slurm.first_node(text), home.parse_quota(text), software.parse_avail(text)


def read_pbs(data: bytes) -> object:
    text = data.decode("utf-8", "replace")
    return pbs.parse_qstat(text), pbs.parse_queues(text), parse_mnq(text), pbs.most_gpus(text), pbs.first_node(text)


def read_exit(text: str) -> object:
    record = parse_record(text, "j")
    return record and state_of_record(record, "7")


def read_ssh_config(path: Path) -> object:
    text = path.read_text(encoding="utf-8", errors="replace")
    return look_up("login", path), offered_hosts(path), parse_ssh_g("login", text)


def read_one_image(path: Path) -> object:
    """As that of a folder: its header, and its pixels as small as they are wanted."""
    header = image_folder._header(path)
    return image_folder._decode(path, image_folder._form([header]))


def read_handin(path: Path) -> object:
    with TemporaryDirectory() as outer:
        folder = Path(outer, "inner")
        folder.mkdir()
        try:
            return check_handin(open_handin(path, folder), {})
        finally:
            assert [found.name for found in Path(outer).iterdir()] == ["inner"], "a name led out of the folder"


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
    state = SettingsFile(path, WindowState).load()
    sizes = (state.width, state.height, state.lab_width, state.form_width, state.runs_height, state.tab)
    assert all(0 <= size < 2**31 for size in sizes)
    assert math.isfinite(state.smoothing)
    return state


def read_consents(path: Path) -> object:
    return Consents(path).missing((WORDS,))


def from_channel(receive: Callable[[socket.socket], object]) -> Callable[[bytes], object]:
    """``receive`` reads a packet: send it one."""

    def parse(data: bytes) -> object:
        ours, theirs = operating_system.packet_pair()
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


def _archive(*names: str) -> bytes:
    """Not compressed, so that a changed byte is a changed name."""
    return gzip.compress(gzip.decompress(packed(dict.fromkeys(names, b"abc"))), compresslevel=0)


def _npz() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, x=np.arange(6, dtype=np.float32).reshape(2, 3))
    return file.getvalue()


def _pickles() -> tuple[bytes, ...]:
    value = ((np.arange(4, dtype=np.float32), np.arange(4)),) * 3
    return tuple(pickle.dumps(value, protocol) for protocol in (0, 2, 4, 5))


def _images() -> tuple[bytes, ...]:
    picture = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8))
    files = []
    for form in ("PNG", "TIFF"):  # the fuzzer finds the others
        picture.save(file := io.BytesIO(), form)
        files.append(file.getvalue())
    return tuple(files)


def _strings(*strings: bytes) -> bytes:
    """Each with its length before it, as in a key's file."""
    return b"".join(len(one).to_bytes(4, "big") + one for one in strings)


def _handin() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.clew.zip")
        pack(
            path,
            ReportFacts(format=1, version="1", student="", created=0.0, exercises=(), goals=(), runs=()),
            {"report.html": b"<p>", "runs/r/spec.toml": SPEC},
        )
        return path.read_bytes()


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

_KEY = b"openssh-key-v1\0" + _strings(b"none", b"none", b"") + b"\0\0\0\1" + _strings(_strings(b"ssh-ed25519"), b"x")
OPENSSH_KEY = (
    b"-----BEGIN OPENSSH PRIVATE KEY-----\n" + base64.encodebytes(_KEY) + b"-----END OPENSSH PRIVATE KEY-----\n"
)
SQUEUE = b"4711|RUNNING|None|node[1-2]|2026-11-21T20:13:00|N/A|1:00:00|x|clew-1\n"
SACCT = b"4711|CANCELLED by 1001|0:15|2026-11-21T20:13:00|Unknown|node1|60|clew-1\n"
SINFO = b"gpu*|1-00:00:00|2|gpu:tesla:4(S:0-1),nvme:1|skylake,a100|up\n"
QSTAT = b"Job Id: 12.server\n    job_state = R\n    exec_host = n1/0+n2/0\n    Resource_List.walltime = 1:00\n\tmore\n"
QUEUES = b"Queue: gpu\n    queue_type = Execution\n    resources_max.walltime = 24:00:00\n    enabled = True\n"
MNQ = b"JOBID NAME STATE NODES TIME\n12 clew R node1 1:00\n"
SSH_CONFIG = (
    b"Host login *.uni\n  HostName = login.uni.example\n  Port 2222\n  ProxyJump a@b:22,c\nMatch user x\n  User y\n"
)
SITE = b"title = 'Uni'\nscheduler = 'slurm'\nhost = 'login.uni.example'\nuser = 'ana'\njump = ['gate']\n"
KNOWN = (
    b"@cert-authority *.uni ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA== x\n|1|aGFzaA==|aGFzaA== ssh-rsa AAAAB3NzaC1yc2E=\n"
)
TABLE = b"width,height,class\n" + b"1.5,2,0\n2,1e3,1\n" * 6

READERS = {
    "journal": Reader(
        read_journal,
        (
            b"".join(
                len(one).to_bytes(2, "big") + one
                for one in map(
                    msgspec.msgpack.encode,
                    (
                        Attempt(format=1, run="r", attempt=1, exercise="softmax", spec_sha256="", time=5.0),
                        Schema(id=1, metrics=(MetricSpec(name="a", label="A"), MetricSpec(name="b", label="B"))),
                        POINTS,
                        Evaluation(step=2, values={"test_accuracy": 0.5}),
                        Pulse(process="trainer", host="n", times=bytes(8), names=("cpu",), values=(bytes(4),)),
                        Log(text="x"),
                        trace(),
                    ),
                )
            ),
        ),
    ),
    "Slurm": Reader(read_slurm, (SQUEUE, SACCT, SINFO, b"node1 idle\n")),
    "PBS": Reader(read_pbs, (QSTAT, QUEUES, MNQ)),
    "files of a site": Reader(
        lambda data: read_answer(data, 2, "Uni"),
        (b"#\n4 1 3 /a/spec.toml\nabc#\n! /b/x\tsh: 7: cannot open /b/x: Permission denied\nclew-end\n",),
    ),
    "exit record": Reader(from_text(read_exit), (b"job=j\nstate=ended\ncode=0\nbegan=5\n",)),
    "ssh_config": Reader(from_file(read_ssh_config), (SSH_CONFIG,), (ProblemError,)),
    "known_hosts": Reader(from_text(read_known), (KNOWN,)),
    "key": Reader(lambda data: describe_key(data, "key"), (OPENSSH_KEY,), (ProblemError,)),
    "site": Reader(from_file(read_site), (SITE,), (ProblemError,)),
    "table": Reader(from_file(table.read, "a.csv"), (TABLE,), (ProblemError,)),
    "image": Reader(from_file(read_one_image, "a.png"), _images(), (ProblemError,)),
    "hand-in": Reader(from_file(read_handin, "a.clew.zip"), (_handin(),), (ProblemError,)),
    "frames": Reader(read_frames, (encode_frame(POINTS) + encode_frame(Log(text="x")),)),
    "events": Reader(read_framed, (msgspec.msgpack.encode(POINTS), msgspec.msgpack.encode(Log(text="x")))),
    "requests": Reader(decode_request, (encode(Hello()),), (msgspec.DecodeError,)),
    "replies": Reader(decode_reply, (encode(Status(version=1, runs=())),), (msgspec.DecodeError,)),
    "spec": Reader(from_text(spec.from_toml), (SPEC,), (ProblemError,)),
    "study": Reader(from_text(study.from_toml), (STUDY,), (ProblemError,)),
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
