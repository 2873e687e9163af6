"""Whatever happens to a trainer, its guard leaves a sealed journal that says what it was."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from clew_agent.node.child_output import tail
from clew_agent.node.exit_codes import exit_code_for
from clew_agent.node.host import trace_prefix
from clew_agent.node.memory_kills import memory_shortages
from clew_agent.node.pulse.spool import spool_folder
from clew_agent.peers.messages import ChiefAddress, write_address
from clew_agent.peers.processes import note_processes
from clew_agent.processes import guard
from clew_agent.processes.guard import seal, spawn, watch
from clew_agent.processes.guard_mark import mark_path
from clew_agent.processes.trainer_death import TrainerEnd, explain_death
from clew_agent.trainer.control_address import address_file
from clew_shared.base.places import find_places
from clew_shared.base.problem import ProblemError
from clew_shared.journal.events import Checkpoint, Event, Files, Pulse, Seal, State
from clew_shared.journal.files import JournalWriter
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.journal.verify import verify_run
from clew_shared.reading import read_run
from tests.integration.agent_runs import (
    LONG,
    end,
    events,
    listing,
    running,
    states,
    steps_done,
    trained,
    trainer_of,
    wait_for,
    write_spec,
)


def last_state(folder: Path) -> State:
    found: list[Event] = events(folder)
    assert [type(event) for event in found[-3:]] == [Files, State, Seal]
    assert isinstance(found[-2], State)
    return found[-2]


def sealed_by(folder: Path) -> str:
    last = events(folder)[-1]
    assert isinstance(last, Seal)
    return last.writer


def prepare(folder: Path, run: str) -> Path:
    """What a supervisor does before it starts a guard."""
    folder.mkdir()
    write_spec(folder, "softmax", data="digits", run=run, params=LONG).rename(folder / "spec.toml")
    return folder


def left_trace(pid: int) -> Path:
    """What a process has that is killed while it traces its steps."""
    folder = Path(tempfile.mkdtemp(prefix=trace_prefix(pid)))
    (folder / "plugins").mkdir()
    (folder / "plugins" / "one.xplane.pb").write_bytes(b"x")
    return folder


def test_a_killed_trainer_is_reported_with_its_signal(tmp_path: Path) -> None:
    folder, before = prepare(tmp_path / "run", "killed"), memory_shortages()
    with running("guard", folder) as process:
        trainer = trainer_of(wait_for(folder, trained(10)))
        trace = left_trace(trainer.pid)
        trainer.kill()
        code, output, errors = end(process)
    assert (code, output, errors) == (1, "", "")
    assert not trace.exists()
    state = last_state(folder)
    assert (state.state, state.exit_code, sealed_by(folder)) == (RunState.FAILED, -9, "guard")
    assert state.problem is not None
    assert "SIGKILL" in state.problem.text
    assert "killed it" in state.problem.hint
    short = memory_shortages() > before  # another test may use up a group's memory meanwhile
    assert short or "memory" not in state.problem.hint
    assert state.step == steps_done(events(folder))
    assert verify_run(folder).findings == ()
    assert not (folder / ".reserve").exists()
    assert not address_file(find_places(), "killed").exists()


def test_a_request_to_stop_reaches_the_trainer(tmp_path: Path) -> None:
    folder = prepare(tmp_path / "run", "asked")
    with running("guard", folder) as process:
        wait_for(folder, trained(10))
        process.send_signal(signal.SIGTERM)
        assert end(process)[0] == 130
    assert (last_state(folder).state, sealed_by(folder)) == (RunState.STOPPED, "trainer")
    assert any(isinstance(event, Checkpoint) for event in events(folder))
    assert verify_run(folder).findings == ()


def test_a_second_control_c_stops_at_once(tmp_path: Path) -> None:
    folder = prepare(tmp_path / "run", "twice")
    with running("guard", folder) as process:
        found = wait_for(folder, lambda found: RunState.PREPARING in states(found))
        trainer = trainer_of(found)
        trainer.suspend()  # so that both signals wait for it together
        trainer.send_signal(signal.SIGTERM)
        trainer.send_signal(signal.SIGINT)
        trainer.resume()
        assert end(process)[0] == 130
    assert last_state(folder).state is RunState.STOPPED
    assert verify_run(folder).findings == ()


def test_a_refused_run_of_a_supervisor_stays_and_says_why(tmp_path: Path) -> None:
    folder = prepare(tmp_path / "run", "refused")
    (folder / "spec.toml").write_text(
        'exercise = "softmax"\ndata = "digits"\n[params]\nsteps = -1\nlearning_rate = 0\n'
    )
    with running("guard", folder) as process:
        assert end(process)[0] == 2
    state = last_state(folder)
    assert state.problem is not None
    assert "learning_rate" in state.problem.text
    assert "steps" in state.problem.text
    assert verify_run(folder).findings == ()


BROKEN = {
    "raises": ("raise KeyError('hidden')", 1, "KeyError", "trainer"),
    "exits": ("import os; print('last words', flush=True); os._exit(7)", 7, "last words", "guard"),
    "crashes": ("import os; os.abort()", -6, "SIGABRT", "guard"),
}


@pytest.mark.parametrize(("code", "exit_code", "words", "writer"), BROKEN.values(), ids=BROKEN)
def test_an_exercise_that_breaks_while_it_is_built(
    tmp_path: Path, code: str, exit_code: int, words: str, writer: str
) -> None:
    own = tmp_path / "exercises"
    own.mkdir()
    (own / "mine.py").write_text(
        "from clew_agent.exercises.softmax import Softmax\n"
        "class Mine(Softmax):\n"
        "    id = 'mine'\n"
        "    def build(self, setup):\n"
        f"        {code}\n"
        "EXERCISE = Mine()\n"
    )
    folder = tmp_path / "run"
    folder.mkdir()
    write_spec(tmp_path, "mine", data="digits").rename(folder / "spec.toml")
    with running("guard", folder, "--exercises", own) as process:
        assert end(process)[0] == 1
    state = last_state(folder)
    assert (state.state, state.exit_code, sealed_by(folder)) == (RunState.FAILED, exit_code, writer)
    assert state.problem is not None
    assert words in state.problem.text
    assert verify_run(folder).findings == ()


def watch_script(
    folder: Path, script: str, patch: pytest.MonkeyPatch, on_wait: Callable[[], None] = lambda: None
) -> State:
    """The last state after ``watch`` with a trainer that only runs ``script``."""
    folder.mkdir()
    (folder / "spec.toml").write_text('exercise = "softmax"\n')
    patch.setattr(guard, "trainer_command", lambda *_: [sys.executable, "-c", script])
    watch(RunFolder(folder), 1, on_wait=on_wait)
    assert verify_run(folder).findings == ()
    return last_state(folder)


def test_a_trainer_that_never_began_gets_a_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = watch_script(tmp_path / "run", "import sys; sys.exit('no such module')", monkeypatch)
    assert (state.state, state.exit_code) == (RunState.FAILED, 1)
    assert "no such module" in state.reason


def test_a_death_with_the_exit_code_of_a_refusal_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = watch_script(tmp_path / "run", "import os; os._exit(2)", monkeypatch)
    assert (state.state, state.exit_code) == (RunState.FAILED, 1)
    assert "exit code 2" in state.reason


def test_a_disk_that_refuses_the_end_is_told_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "journal.0001").symlink_to(tmp_path / "absent" / "journal")  # nothing can be created there
    monkeypatch.setattr(guard, "trainer_command", lambda *_: [sys.executable, "-c", ""])
    fold = watch(RunFolder(folder), 1)
    assert exit_code_for(fold) == 1
    assert "could not be written" in str(fold.problem)
    assert (folder / "log.txt").exists()


DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"


STARTING = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(1));"
    "print('as Python does while it starts', flush=True); time.sleep(600)"
)


@pytest.mark.parametrize(
    ("script", "requests"),
    [("import time; print('still importing', flush=True); time.sleep(600)", 1), (STARTING, 1), (DEAF, 3)],
    ids=["cannot listen yet", "its interpreter starts", "does not listen"],
)
def test_a_trainer_that_dies_of_a_request_to_stop_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, requests: int
) -> None:
    folder = tmp_path / "run"
    asked = 0

    def ask() -> None:
        nonlocal asked
        if asked < requests and (folder / "log.txt").read_text():
            asked += 1
            signal.raise_signal(signal.SIGTERM)

    state = watch_script(folder, script, monkeypatch, ask)
    assert (state.state, state.exit_code, asked) == (RunState.STOPPED, 130, requests)


def test_a_request_to_stop_while_the_trainer_is_started_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(folder: RunFolder, attempt: int, exercises: Path | None) -> subprocess.Popen[bytes]:
        signal.raise_signal(signal.SIGINT)
        return spawn(folder, attempt, exercises)

    monkeypatch.setattr(guard, "spawn", interrupted)
    assert watch_script(tmp_path / "run", "import time; time.sleep(600)", monkeypatch).state is RunState.STOPPED


def test_a_second_guard_leaves_a_running_attempt_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(prepare(tmp_path / "run", "twice-guarded"))
    create = f"open({str(folder.journal(1))!r}, 'xb')"  # as if another trainer had begun in the same moment
    monkeypatch.setattr(guard, "trainer_command", lambda *_: [sys.executable, "-c", f"{create}; raise SystemExit(73)"])
    for _ in range(2):
        with pytest.raises(ProblemError, match="has a journal or a guard already"):
            watch(folder, 1)
    assert folder.journal(1).read_bytes() == b"", "nothing was written into the other's journal"


def test_a_trainer_does_not_touch_another_ones_journal(tmp_path: Path) -> None:
    folder = RunFolder(prepare(tmp_path / "run", "taken"))
    folder.journal(1).write_bytes(b"")
    with running("trainer", folder.path) as process:
        code, _, errors = end(process)
    assert (code, folder.journal(1).read_bytes()) == (73, b"")
    assert errors == "", "it would stand in the other one's log"


def test_the_guard_is_light() -> None:
    script = "import sys, clew_agent.processes.guard; print({'numpy', 'tensorflow', 'zmq'} & sys.modules.keys())"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "set()\n"


def test_nothing_is_left_to_be_done_behind_the_seal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard can be killed at any moment, and whoever finds a sealed journal has no more to do for its run."""
    folder = RunFolder(prepare(tmp_path / "sealed", "sealed"))
    address = address_file(find_places(), "sealed")
    address.parent.mkdir(parents=True, exist_ok=True)
    address.touch()

    def killed(_writer: JournalWriter, _name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(JournalWriter, "seal", killed)
    with pytest.raises(KeyboardInterrupt):
        seal(folder, 1, TrainerEnd(-9, out_of_memory=False))
    assert not address.exists()


def test_a_frame_that_was_cut_and_scratch_files_are_no_obstacle(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.spec.write_text('exercise = "softmax"\n')
    with JournalWriter.create(folder.journal(1)) as writer:
        writer.append(State(state=RunState.RUNNING))
    with folder.journal(1).open("ab") as file:
        file.write(b"\xc1CLW\x20\0\0\0torn")
    (folder.path / ".reserve").write_bytes(b"x")
    partial = folder.checkpoints / ".00000003.partial"
    partial.mkdir(parents=True)
    (partial / "state.index").write_bytes(b"half")

    fold = seal(folder, 1, TrainerEnd(-9, out_of_memory=True))
    assert fold.state is RunState.FAILED
    assert "ran out of memory" in fold.reason
    assert listing(folder.path) == ["checkpoints", "journal.0001", "spec.toml"]
    assert any("no intact frame" in found.text for found in verify_run(folder.path).findings), "it is told"
    assert seal(folder, 1, TrainerEnd(-9, out_of_memory=True)).sealed, "a second time changes nothing"


@pytest.mark.parametrize(
    ("ended", "text", "hint"),
    [
        (TrainerEnd(-9, False), "killed (SIGKILL)", "A person or another program killed it."),
        (TrainerEnd(-9, False, memory_was_short=True), "killed (SIGKILL)", "Most likely the machine ran out of memory"),
        (TrainerEnd(-9, True), "ran out of memory", "smaller batch"),
        (TrainerEnd(-11, False), "SIGSEGV", "native library"),
        (TrainerEnd(-4, False), "SIGILL", "another processor"),
        (TrainerEnd(-15, False), "SIGTERM", "batch system"),
        (TrainerEnd(3, False), "exit code 3", "log.txt"),
        (TrainerEnd(74, False), "disk refused", "Make room"),
    ],
)
def test_the_kinds_of_death_are_told_apart(ended: TrainerEnd, text: str, hint: str) -> None:
    found = explain_death(ended, "the end")
    assert text in found.text
    assert "the end" in found.text
    assert hint in found.hint


def test_the_tail_of_a_log_is_short_whatever_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"\xff\xfe" * 10_000 + b"\n" + b"\n".join(b"line %d" % number for number in range(100)))
    assert tail(path).splitlines() == [f"line {number}" for number in range(92, 100)]
    path.write_bytes(b"\0" * 100_000)
    assert len(tail(path)) <= 300
    assert tail(tmp_path / "missing") == ""


def test_what_tensorflow_always_prints_is_no_reason_of_a_death(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    noise = "I0000 00:00:17.8 1 port.cc:153] oneDNN custom operations are on. You may see slightly different results.\n"
    begin = "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
    path.write_text((begin + noise) * 2 + "the reason\n" + begin + noise)
    assert tail(path) == "the reason"


def test_what_killed_processes_left_is_gone_with_the_next_attempt(tmp_path: Path, home: Path) -> None:
    """Trainer and guard are both killed, so nobody tidies up, and keys and scratch files stay."""
    folder = prepare(tmp_path / "run", "both-killed")
    with running("guard", folder) as process:
        trainer = trainer_of(wait_for(folder, trained(10)))
        trace = left_trace(trainer.pid)
        process.kill()
        trainer.kill()
        end(process)
    run, mark = RunFolder(folder), mark_path(folder)
    write_address(run, 1, ChiefAddress(address="::1", port=1, chief_key="k", public_key="k", secret_key="k"))
    note_processes(run, 1, [])
    assert mark.exists()
    assert list(folder.glob(".reserve*"))
    spec = folder / "spec.toml"
    spec.write_text(spec.read_text().replace("digits", "nothing"))
    assert watch(run, 2).state is RunState.FAILED
    assert not mark.exists()
    assert not trace.exists()
    assert [path for path in folder.rglob(".*") if path.is_file()] == []


def test_what_was_sampled_of_a_killed_trainer_is_in_its_journal(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in never takes a sample, as one that is killed between two questions; it dies once there are two."""
    folder = tmp_path / "run"
    spool = spool_folder(RunFolder(folder), 1)
    script = (
        "import os, pathlib, time\n"
        f"spool = pathlib.Path({str(spool)!r})\n"
        "while sum(len(file.read_bytes().splitlines()) for file in spool.glob('*')) < 2: time.sleep(0.05)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    state = watch_script(folder, script, monkeypatch)
    assert state.state is RunState.FAILED
    process = read_run(folder).pulse.processes["trainer"]
    assert len(process) >= 2
    assert process.column("memory")[-1] > 1e6
    assert not spool.exists()


def test_a_run_says_what_it_used_while_it_goes_on(tmp_path: Path, home: Path) -> None:
    folder = prepare(tmp_path / "run", "used")
    with running("guard", folder) as process:
        wait_for(folder, lambda found: any(isinstance(event, Pulse) for event in found))
        process.send_signal(signal.SIGTERM)
        assert end(process)[0] == 130
    summary = read_run(folder).pulse_summary()
    assert summary.memory is not None
    assert summary.memory > 1e6
    assert summary.memory_limit is not None
    assert summary.cpu is not None
    assert not spool_folder(RunFolder(folder), 1).exists()
