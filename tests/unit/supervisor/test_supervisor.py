"""The supervisor's parts without processes: specs against cards, runs found on disk, long polls."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import zmq

from clew_agent.datasets.search import Search
from clew_agent.node.devices import Devices, Gpu
from clew_agent.processes.guard import seal
from clew_agent.processes.sealer import seal_lost
from clew_agent.processes.trainer_death import TrainerEnd
from clew_agent.supervisor import launcher, run_registry
from clew_agent.supervisor import run_manager as manager_module
from clew_agent.supervisor.launcher import Launcher
from clew_agent.supervisor.run_manager import RunManager, write_refused
from clew_agent.supervisor.run_queue import QueueEntry, QueueRecord
from clew_agent.supervisor.run_registry import RunRegistry
from clew_agent.supervisor.tracked_run import TrackedRun
from clew_agent.supervisor.trainer_client import ControlClient
from clew_agent.trainer.spec_check import check_spec, combine, recorded_revision
from clew_agent.wire.long_polls import Caller, LongPolls
from clew_shared.base import operating_system
from clew_shared.base.file_names import is_uuid
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.base.remedies import list_all, set_to
from clew_shared.cards import Catalogue, ExerciseCard, Preset, StrategyCard
from clew_shared.catalogue import load_builtin
from clew_shared.journal.events import Attempt, Log
from clew_shared.journal.files import MAGIC, JournalWriter, Record, encode_frame, read_journal
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.journal.verify import verify_run
from clew_shared.params import ParamSpec
from clew_shared.spec import RunSpec, to_toml
from clew_shared.wire.messages import Done, Fetch, Stop
from tests.unit.runs import describe, points, small_run

CARD = ExerciseCard(
    id="toy",
    title="Toy",
    source_hash="abc",
    revision=2,
    params=(ParamSpec(name="steps", kind="int", label="Steps", default=10, ge=1),),
    presets=(Preset(name="tiny", title="Tiny"),),
    strategies=(
        StrategyCard(id="single", title="One device"),
        StrategyCard(id="mirrored", title="M", devices=(2, 4)),
        StrategyCard(id="to-come", title="T", devices=(4,)),
    ),
)
BROKEN = ExerciseCard(id="broken", title="", problem=Problem("exercise.broken", "Line 3 is wrong."))
CARDS = Catalogue(exercises=(CARD, BROKEN))


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({}, []),
        ({"source_hash": "abc", "preset": "tiny", "params": {"steps": 3}}, []),
        ({"strategy": "mirrored", "devices": 4}, []),
        ({"strategy": "mirrored", "devices": 4, "nodes": 2}, ["spec.nodes"]),
        ({"strategy": "mirrored", "devices": 4, "options": {"x": 1}}, ["spec.options"]),
        ({"strategy": "to-come", "devices": 4}, ["spec.strategy"]),  # on the card, and not trained with yet
        ({"precision": "int8", "nodes": 0}, ["spec.nodes", "spec.precision"]),
        ({"exercise": "toi"}, ["exercise.unknown"]),
        ({"exercise": "broken"}, ["exercise.broken"]),
        ({"source_hash": "abd"}, ["spec.source"]),
        ({"params": {"steps": 0}}, ["params.value"]),
        ({"params": {"stops": 1}}, ["params.unknown"]),
        ({"preset": "tinny"}, ["exercise.preset"]),
        ({"strategy": "magic"}, ["spec.strategy"]),
        ({"devices": 2}, ["spec.devices"]),
        ({"strategy": "mirrored", "devices": 3}, ["spec.devices"]),
        ({"seed": -1, "format": 9, "exercise": "?"}, ["spec.format", "spec.seed", "exercise.unknown"]),
        (
            {"seed": 2**31, "params": {"steps": "x", "a": 1}, "preset": "b", "devices": 7},
            ["spec.seed", "params.unknown", "params.value", "spec.devices", "exercise.preset"],
        ),
    ],
)
def test_everything_that_is_wrong_with_a_spec_is_found(changes: dict[str, object], codes: list[str]) -> None:
    spec = msgspec.structs.replace(RunSpec(exercise="toy"), **changes)
    found = check_spec(spec, CARDS, Search())
    assert [one.code for one in found] == codes
    if found:
        assert all(one.text in combine(found).text for one in found)


@pytest.mark.parametrize(("source", "revision", "codes"), [("abd", 2, []), ("abc", 1, ["spec.source"])])
def test_a_run_goes_on_with_another_file_of_its_revision_only(source: str, revision: int, codes: list[str]) -> None:
    spec = RunSpec(exercise="toy", source_hash=source)
    assert [one.code for one in check_spec(spec, CARDS, Search(), revision=revision)] == codes


def test_the_journal_of_the_attempt_before_names_the_revision(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert recorded_revision(folder, 0) == 0
    begin = Attempt(format=1, run="r", attempt=1, exercise="toy", spec_sha256="", steps=1, time=1.0, revision=2)
    for attempt, event in ((1, begin), (2, Log(time=1.0, text="no beginning"))):
        journal = JournalWriter.create(folder.journal(attempt))
        journal.append(event)
        journal.close()
    assert (recorded_revision(folder, 1), recorded_revision(folder, 2), recorded_revision(folder, 3)) == (2, 0, 0)


def test_several_problems_as_one_keep_all_ways_out() -> None:
    digits, runs = set_to("data", "digits"), list_all("runs")
    found = [
        Problem("a", "One.", "", "", (digits, runs)),
        Problem("b", "Two.", "", "", (digits,)),
        Problem("c", "Three."),
    ]
    assert combine(found).remedies == (digits, runs)


def test_local_steps_of_an_earlier_version_are_refused_by_name_and_one_is_none() -> None:
    spec = RunSpec(exercise="ps-lab", data="digits", strategy="parameter-server", options={"local_steps": 1})
    assert spec.options == {}
    assert check_spec(spec, load_builtin(), Search()) == ()
    (found,) = check_spec(msgspec.structs.replace(spec, options={"local_steps": 3}), load_builtin(), Search())
    assert (found.code, found.where) == ("spec.local_steps", "options.local_steps")
    assert "local-sgd" in found.hint


def test_a_strategy_that_the_trainer_has_is_taken() -> None:
    spec = RunSpec(exercise="toy", strategy="mirrored", devices=4)
    assert check_spec(spec, CARDS, Search()) == ()


def test_a_run_whose_data_are_not_here_is_refused_before_it_begins(tmp_path: Path) -> None:
    card = msgspec.structs.replace(CARD, datasets=("mnist", "digits"))
    search = Search(folders=(tmp_path,))
    found = check_spec(RunSpec(exercise="toy"), Catalogue(exercises=(card,)), search)
    assert [one.code for one in found] == ["data.missing"]
    assert check_spec(RunSpec(exercise="toy", data="digits"), Catalogue(exercises=(card,)), search) == ()


A_UUID = uuid.UUID("9b7d3c52-5f0e-4a7e-8c1d-2f6a9be0c3d4")


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (str(A_UUID), True),
        ("", False),
        ("..", False),
        ("{" + str(A_UUID) + "}", False),
        (A_UUID.hex, False),
        (str(A_UUID).upper(), False),
        ("a/" + str(A_UUID), False),
    ],
)
def test_only_a_uuid_in_its_usual_form_names_a_run(text: str, good: bool) -> None:
    assert is_uuid(text) is good


def make_run(runs: Path, **changes: object) -> RunFolder:
    """A run folder with a journal that has begun, on this host unless ``changes`` say otherwise."""
    run = str(uuid.uuid4())
    folder = RunFolder(runs / run)
    folder.path.mkdir(parents=True)
    folder.spec.write_text(to_toml(RunSpec(exercise="toy", run=run)))
    usual = {"run": run, "host": operating_system.host_name(), "boot": operating_system.boot_id(), "pid": os.getpid()}
    with JournalWriter.create(folder.journal(1)) as writer:
        writer.append(describe(folder, 1, **(usual | changes)))
        writer.append(points(0, [4, 3]))
    return folder


def seen_by(runs: Path, mine: str = "") -> RunRegistry:
    registry = RunRegistry(runs, lambda run: run == mine)
    registry.refresh()
    while registry.unread or registry.has_more():
        registry.refresh()
    return registry


def test_runs_of_this_host_are_found_and_others_left_alone(tmp_path: Path) -> None:
    own, foreign = make_run(tmp_path), make_run(tmp_path, host="another")
    small_run(tmp_path / "not-a-uuid")
    (tmp_path / str(uuid.uuid4())).mkdir()
    (tmp_path / "file").write_text("x")
    assert list(seen_by(tmp_path).runs) == [own.path.name]
    assert set(seen_by(tmp_path, mine=foreign.path.name).runs) == {own.path.name, foreign.path.name}
    assert seen_by(tmp_path / "absent").runs == {}


def test_a_run_is_followed_as_it_grows_and_dropped_when_its_folder_goes(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    registry = seen_by(tmp_path)
    tracked = registry.get(folder.path.name)
    assert (tracked.fold.state, tracked.fold.step, tracked.live) == (RunState.STARTING, 2, True)
    version = registry.version
    seal_lost(folder, 1)
    registry.refresh()
    assert (tracked.fold.state, tracked.live) == (RunState.FAILED, False)
    assert registry.version > version
    for path in [*folder.path.iterdir()]:
        path.unlink()
    folder.path.rmdir()
    registry.look_for_folders()
    assert registry.runs == {}
    with pytest.raises(ProblemError):
        registry.get(folder.path.name)


def test_runs_that_have_ended_rest_until_somebody_goes_on_with_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_registry, "_RESTING_AT_ONCE", 2)
    folders = [make_run(tmp_path) for _ in range(5)]
    for folder in folders:
        seal_lost(folder, 1)
    registry = seen_by(tmp_path)
    assert (len(registry.runs), list(registry.live())) == (5, [])
    seen: list[str] = []
    refresh = TrackedRun.refresh

    def noted(run: TrackedRun) -> bool:
        seen.append(run.run)
        return refresh(run)

    monkeypatch.setattr(TrackedRun, "refresh", noted)
    registry.refresh()
    assert seen == [], "no turn asks for runs that have ended"
    with JournalWriter.create(folders[3].journal(2)) as writer:
        writer.append(
            describe(folders[3], 2, host=operating_system.host_name(), boot=operating_system.boot_id(), pid=os.getpid())
        )
    for _ in range(3):
        registry.look_for_folders()
    assert {*seen} == {folder.path.name for folder in folders}
    assert [run.run for run in registry.live()] == [folders[3].path.name]


def test_a_sealed_journal_is_adopted_by_its_two_ends_as_if_it_had_been_read(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    with JournalWriter.open_to_seal(folder.journal(1)) as writer:
        for block in range(4000):
            writer.append(points(2 + 10 * block, [1.0] * 10))
    seal_lost(folder, 1)
    whole, ends = (TrackedRun(folder, RunSpec(exercise="toy")) for _ in range(2))
    while whole.refresh() or whole.has_more:
        pass
    ends.adopt()
    assert folder.journal(1).stat().st_size > 3 * 64 * 1024
    assert ends.status(0, False) == whole.status(0, False)
    assert (ends.fold.state, ends.fold.step, ends.live) == (RunState.FAILED, 40_002, False)


def test_a_run_whose_journal_has_a_damaged_length_is_followed_to_its_seal(tmp_path: Path) -> None:
    folder = small_run(tmp_path / str(uuid.uuid4()))
    data = folder.journal(1).read_bytes()
    second = [item for item in read_journal(folder.journal(1)) if isinstance(item, Record)][1].offset
    damaged = bytearray(data)
    damaged[second + len(MAGIC) + 2] = 0x0F  # it promises nearly a mebibyte
    folder.journal(1).write_bytes(damaged[:-1])
    tracked = TrackedRun(folder, RunSpec(exercise="toy"))
    tracked.refresh()
    before = tracked.fold.sealed
    folder.journal(1).write_bytes(damaged)
    tracked.refresh()
    assert (before, tracked.fold.sealed) == (False, True)
    assert tracked.size == len(data)
    assert tracked.fetch(1, len(data)).sealed


def test_a_journal_that_is_sealed_while_it_is_read_is_given_out_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The length is asked for first, the bytes come after it: what a viewer is told is the end must be the end."""
    folder = make_run(tmp_path)
    tracked = TrackedRun(folder, RunSpec(exercise="toy"))
    tracked.refresh()
    path, rewind = folder.journal(1), tracked._reader.rewind
    with JournalWriter.open_to_seal(path) as writer:
        writer.append(points(2, [2.0] * 50))

    def meanwhile() -> int:
        seal_lost(folder, 1)
        return rewind()

    monkeypatch.setattr(tracked._reader, "rewind", meanwhile)
    tracked.refresh()
    reply = tracked.fetch(1, 0)
    assert (reply.data, reply.sealed) == (path.read_bytes(), True)


def test_a_lost_run_is_sealed_so_that_it_verifies(tmp_path: Path) -> None:
    here, before = make_run(tmp_path), make_run(tmp_path, boot="an earlier boot")
    for folder, words in ((here, "both stopped without a message; log.txt may say why."), (before, "restarted")):
        seal_lost(folder, 1)
        size = folder.journal(1).stat().st_size
        seal_lost(folder, 1)
        assert folder.journal(1).stat().st_size == size
        tracked = TrackedRun(folder, RunSpec(exercise="toy"))
        tracked.adopt()
        assert words in tracked.fold.reason
        assert [finding for finding in verify_run(folder.path).findings if "spec" not in finding.file] == []


def test_a_fetch_brings_what_is_there_and_says_when_that_is_all(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    tracked = seen_by(tmp_path).get(folder.path.name)
    data = folder.journal(1).read_bytes()
    reply = tracked.fetch(1, 10)
    assert (reply.data, reply.size, reply.attempts, reply.sealed) == (data[10:], len(data), 1, False)
    assert not tracked.has_news(1, len(data))
    assert tracked.has_news(1, 0)
    assert not tracked.has_news(2, 0)
    assert tracked.fetch(2, 0).data == b""
    seal_lost(folder, 1)
    tracked.refresh()
    assert tracked.fetch(1, tracked.size).sealed
    assert tracked.has_news(1, tracked.size)
    with pytest.raises(ProblemError, match="bytes; byte"):
        tracked.fetch(1, 10**6)


@pytest.mark.parametrize("how", [seal_lost, lambda folder, attempt: seal(folder, attempt, TrainerEnd(130, False))])
def test_a_journal_without_a_byte_gets_its_first_frame_with_its_last(
    tmp_path: Path, how: Callable[[RunFolder, int], object]
) -> None:
    """Its trainer was killed right after it had made the file."""
    folder = make_run(tmp_path)
    folder.journal(1).write_bytes(b"")
    tracked = seen_by(tmp_path, mine=folder.path.name).get(folder.path.name)
    assert tracked.status(0, starting=False).state is RunState.STARTING
    how(folder, 1)
    assert verify_run(folder.path).findings == ()
    tracked.refresh()
    assert tracked.status(0, starting=False).state in (RunState.STOPPED, RunState.FAILED)


def test_bytes_that_a_full_disk_may_have_the_writer_take_back_are_not_given_out(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    tracked = seen_by(tmp_path).get(folder.path.name)
    whole = folder.journal(1).read_bytes()
    torn = encode_frame(points(2, [2.0] * 50))[:-7]
    folder.journal(1).write_bytes(whole + torn)
    tracked.refresh()
    assert (tracked.fetch(1, 0).data, tracked.fetch(1, 0).size) == (whole, len(whole))
    assert not tracked.has_news(1, len(whole))

    other = whole + encode_frame(points(2, [2.0]))
    for later in (whole, other):  # the torn frame is taken back, another one comes instead
        folder.journal(1).write_bytes(later)
        tracked.refresh()
        assert tracked.fetch(1, 0).data == later
    assert tracked.fold.step == 3

    folder.journal(1).write_bytes(other + torn)
    seal_lost(folder, 1)  # behind a torn frame that stays
    tracked.refresh()
    assert tracked.fetch(1, 0).data == folder.journal(1).read_bytes()
    assert tracked.fetch(1, 0).sealed


def test_a_continuation_that_could_not_begin_is_told_until_one_does(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    tracked = TrackedRun(folder, RunSpec(exercise="toy"))
    tracked.refresh()
    tracked.problem_text = "No more processes."
    status = tracked.status(0, False)
    assert (status.state, status.reason) == (RunState.FAILED, "No more processes.")
    with JournalWriter.create(folder.journal(2)) as writer:
        writer.append(describe(folder, 2))
    tracked.refresh()
    assert tracked.status(0, False).state is RunState.STARTING


def test_a_journal_that_cannot_be_read_any_more_does_not_count_as_unread(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    with JournalWriter.open_to_seal(folder.journal(1)) as writer:
        while writer.size < 3 << 20:
            writer.append(points(2, [1.0] * 50_000))
    tracked = TrackedRun(folder, RunSpec(exercise="toy"))
    tracked.refresh()
    assert tracked.has_more
    folder.journal(1).unlink()
    assert not tracked.refresh()
    assert not tracked.has_more


def test_one_long_poll_waits_for_each_viewer_and_key() -> None:
    polls = LongPolls[Fetch]()
    first, second, other = Caller(b"v", b"1"), Caller(b"v", b"2"), Caller(b"w", b"3")
    fetch = Fetch(run="r", attempt=1, offset=0, wait=5.0)
    assert polls.add(first, "r", fetch) is None
    assert polls.add(other, "r", fetch) is None
    replaced = polls.add(second, "r", fetch)
    assert replaced is not None
    assert replaced.caller == first
    assert polls.take(lambda _one: False) == []
    assert {one.caller for one in polls.take(lambda _one: True)} == {second, other}
    assert (len(polls), polls.soonest()) == (0, None)


def test_a_long_poll_is_due_when_its_time_is_up_and_none_waits_for_ever() -> None:
    polls = LongPolls[Fetch]()
    polls.add(Caller(b"v", b"1"), "a", Fetch(run="a", attempt=1, offset=0, wait=-1.0))
    polls.add(Caller(b"v", b"2"), "b", Fetch(run="b", attempt=1, offset=0, wait=1e9))
    assert [one.request.run for one in polls.take(lambda _one: False)] == ["a"]
    assert 0 < (polls.soonest() or 0) <= 5.0


def test_the_supervisor_reaches_no_numerical_library() -> None:
    found = "sorted({*map(lambda m: m.split('.')[0], sys.modules)} & {*sys.argv})"
    code = f"import sys, clew_agent.supervisor.supervisor; print({found})"
    words = ["tensorflow", "keras", "numpy", "sklearn", "PySide6"]
    run = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_tensorflow_is_imported_without_garbage_collection_and_scikit_learn_which_exercises_can_import() -> None:
    lines = (
        "import gc, sys",
        "from clew_agent.node.lean_import import lean_import",
        "found = []",
        "gc.callbacks.append(lambda phase, _: found.append(phase))",
        "with lean_import(): import tensorflow, keras",
        "print(found, gc.isenabled())",
        "there = {*map(lambda m: m.split('.')[0], sys.modules)}",
        "import sklearn.metrics",
        "print('tensorflow' in there, 'keras' in there, 'sklearn' in there)",
    )
    run = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["[] True", "True True False"], "nothing was collected meanwhile"


def test_an_attempt_whose_first_frame_has_not_come_is_neither_sealed_nor_done(tmp_path: Path) -> None:
    """It begins on a slow disk. A viewer that was told that it is sealed would never ask for it again."""
    folder = small_run(tmp_path / "run")
    tracked = TrackedRun(folder, RunSpec(exercise="toy"))
    tracked.adopt()
    assert (tracked.live, tracked.done) == (False, True)
    folder.journal(2).touch()
    tracked.refresh()
    assert (tracked.attempt, tracked.live, tracked.done) == (2, True, False)
    assert not tracked.has_news(2, 0)
    assert not tracked.fetch(2, 0).sealed


@contextmanager
def a_manager(home: Path, record: Path, devices: Devices, asked_for: bool = False) -> Iterator[RunManager]:
    """An agent's runs in ``home``, after an agent that left ``record``; ``asked_for``: a command's own agent."""
    places = Places(home=home, private=home)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    control = ControlClient(context, places, "test", lambda _socket: None, lambda _socket: None)
    try:
        yield RunManager(home / "runs", record, Launcher(home), control, devices, Search(), asked_for=asked_for)
    finally:
        context.destroy(linger=0)


def test_a_run_that_can_never_begin_is_told_also_when_many_runs_are_still_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its predecessor had four GPUs; nobody has come to its folder yet when the queue is looked through."""
    monkeypatch.setattr(run_registry, "_ADOPT_FOR_S", 0.0)
    spec = RunSpec(exercise="toy", run=str(uuid.uuid4()), strategy="mirrored", devices=4)
    folder = RunFolder(tmp_path / "runs" / spec.run)
    folder.path.mkdir(parents=True)
    folder.spec.write_text(to_toml(spec))
    record = tmp_path / "agent.queue"
    record.write_bytes(msgspec.json.encode(QueueRecord(waiting=(QueueEntry(spec.run, 1, 4),))))
    with a_manager(tmp_path, record, Devices((Gpu("0", "GPU (0)"), Gpu("1", "GPU (1)")))) as manager:
        manager.turn()
        (status,) = manager.statuses()
    assert (status.run, status.state, status.queue) == (spec.run, RunState.FAILED, 0)
    assert "asks for 4 devices" in status.reason


def test_an_agent_is_busy_until_a_guard_that_another_one_started_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that ends before that leaves a queue that nobody reads any more."""
    spec, guards = RunSpec(exercise="toy", run=str(uuid.uuid4())), ["the earlier agent's"]
    monkeypatch.setattr(manager_module, "is_guarded", lambda _tracked: bool(guards))
    folder = RunFolder(tmp_path / "runs" / spec.run)
    write_refused(folder, to_toml(spec).encode(), Problem("test", "It has ended."))
    record = tmp_path / "agent.queue"
    record.write_bytes(msgspec.json.encode(QueueRecord(running=(spec.run,), attempts={spec.run: 1})))
    with a_manager(tmp_path, record, Devices()) as manager:
        manager.turn()
        assert manager.busy()
        guards.clear()
        manager.turn()
        assert not manager.busy()
        manager.forget_record(asked=False)
    assert not record.exists()


def test_a_run_that_nobody_keeps_is_not_asked_to_end_and_the_next_begins_before_it_is_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_run(tmp_path / "runs", pid=0)
    run, sent, begun = folder.path.name, list[object](), list[str]()
    expected = list[bool]()
    monkeypatch.setattr(Launcher, "expect_more", lambda _self: expected.append(True))
    monkeypatch.setattr(launcher, "SEALER", (sys.executable, "-c", "import time; time.sleep(600)"))
    monkeypatch.setattr(Launcher, "start", lambda _self, _folder, _attempt, _devices, run: begun.append(run))
    after = RunSpec(exercise="toy", run=str(uuid.uuid4()))
    record = tmp_path / "agent.queue"
    record.write_bytes(msgspec.json.encode(QueueRecord(running=(run,), attempts={run: 1})))
    with a_manager(tmp_path, record, Devices()) as manager:
        monkeypatch.setattr(manager._control, "reachable", lambda _run: True)
        monkeypatch.setattr(manager._control, "send", lambda *words: sent.append(words))
        manager.turn()
        manager.start(after, CARDS)
        assert manager.stop(Stop(run=run, now=True, discard=True), Caller(b"v", b"1")) == Done(run=run)
        manager.turn()
        sealer = manager._launcher._sealers[run]
        try:
            assert (sent, begun, expected) == ([], [after.run], [True])
            assert folder.path.exists()
        finally:
            sealer.kill()
            sealer.wait()


def test_a_commands_agent_neither_goes_on_with_nor_stops_a_run_that_trains_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_run(tmp_path / "runs", time=time.time())
    run, sent = folder.path.name, list[object]()
    with a_manager(tmp_path, tmp_path / "agent.queue", Devices(), asked_for=True) as manager:
        monkeypatch.setattr(manager._control, "reachable", lambda _run: True)
        monkeypatch.setattr(manager._control, "send", lambda *words: sent.append(words))
        with pytest.raises(ProblemError, match=rf"still going on \(process {os.getpid()}\)") as found:
            manager.resume(run, CARDS)
        assert [one.code for one in found.value.problems] == ["run.running"]
        for now in (False, True, True):
            manager.stop(Stop(run=run, now=now), Caller(b"v", b"1"))
        assert (sent, manager._to_kill, manager.registry.runs[run].done) == ([], {}, False)


@pytest.mark.parametrize("asked_for", [True, False])
@pytest.mark.parametrize("gone", [{"pid": 0}, {"boot": "an earlier boot"}])
def test_a_run_of_which_no_process_is_left_is_sealed_and_then_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_for: bool, gone: dict[str, object]
) -> None:
    folder = make_run(tmp_path / "runs", **gone)
    run, done, begun = folder.path.name, list[str](), list[int]()

    def sealer(_self: Launcher, _run: str, path: Path, attempt: int, _how: str) -> None:
        seal_lost(RunFolder(path), attempt)
        done.append("sealed")

    monkeypatch.setattr(Launcher, "seal", sealer)
    monkeypatch.setattr(Launcher, "start", lambda _self, _folder, attempt, *_: begun.append(attempt))
    with a_manager(tmp_path, tmp_path / "agent.queue", Devices(), asked_for) as manager:
        manager.registry.refresh()
        for _ in range(2):
            assert manager.resume(run, CARDS) == Done(run=run)
            assert (manager.statuses()[0].state, begun) == (RunState.QUEUED, [])
        manager.turn()
    assert (done, begun) == (["sealed"], [2])
