"""kill -9 of a command, its agent, guard and trainer at random moments: no run is lost, done twice, or left alone."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from clew_agent.supervisor.run_registry import RunRegistry
from clew_gui.commands.context import CommandContext
from clew_gui.commands.run import own_agent
from clew_gui.commands.run.own_agent import OwnRun, own_session
from clew_gui.session.links.inbox import LinkState
from clew_gui.targets import target
from clew_gui.targets.local_agent import start_agent
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.journal.verify import verify_run
from clew_shared.reading import read_run
from clew_shared.spec import RunSpec, read_spec, to_toml
from clew_shared.wire.messages import RunStatus
from tests.integration.agents import BOUND_S
from tests.integration.faults.lab import Lab, words_of
from tests.integration.faults.oracle import sealed
from tests.integration.faults.programs import PROGRAM
from tests.stand_in.engine import CATALOGUE

STEPS = ("--steps", "300", "--block", "10", "--pause", "0.02")
RATES = (0.1, 0.2, 0.3)
ROLES = ("command", "serve", "guard", "trainer")
LATEST_S = 1.0
"""Seconds from the beginning of what is killed: a run takes 0.6 s."""


def test_whatever_of_a_command_is_killed_no_run_is_lost_or_done_twice(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    kinds, ends = ("run", "sweep", "study"), Counter[str]()
    for number in lab.chance.rounds(3, 30):
        kind, role = kinds[number % 3], lab.dice.choice(ROLES)
        before, file = set(folders(lab)), lab.places.home / f"sweep-{number}.toml"
        if kind == "study":  # one that was stopped before its first run
            clew(lab, "sweep", file, killed_at=0.0)
        command = begin(lab, kind, file)
        moment, deadline = lab.dice.random() * LATEST_S, time.monotonic() + BOUND_S
        hit = kill(lab, command, role, moment)
        lab.tally.add("kills", hit)
        command.communicate(timeout=BOUND_S)
        lab.wait(lambda: not lab.left(), f"the end of all processes after the {role}")
        assert time.monotonic() < deadline + BOUND_S
        mine = [folder for folder in folders(lab) if folder not in before]
        if kind != "run":
            assert file.exists() or not mine
            if file.exists():
                assert begin(lab, "study", file).wait(BOUND_S) == 0
            lab.wait(lambda: not lab.left(), "the end of all processes")
            mine = [folder for folder in folders(lab) if folder not in before]
        states = Counter(judge_run(folder) for folder in mine)
        ends.update(str(state) for state in states.elements())
        if kind != "run" and file.exists():
            done = [folder for folder in mine if read_run(folder).fold.state is RunState.FINISHED]
            rates = [read_spec(RunFolder(folder).spec).params["learning_rate"] for folder in done]
            assert sorted(map(str, rates)) == list(map(str, RATES)), (kind, role, moment)
        elif kind == "run" and role in ("serve", "guard") and hit and mine:
            assert states == {RunState.FINISHED: 1}, (role, moment, states)
        lab.tally.add("scenarios")
    print(dict(lab.tally.counts), dict(ends))
    # What is killed between its own folder and the start of an agent in it leaves that folder, and nobody to remove it.
    left = {path.name for folder in tmp_path.glob("clew-own-*") for path in folder.iterdir()}
    assert left <= {"viewer", "agent.log"}, "each agent has removed its files"


@pytest.mark.parametrize(("pause", "state"), [(0.02, RunState.STOPPED), (10.0, None)])
def test_a_run_that_its_command_leaves_is_stopped_and_killed_only_if_it_does_not_stop(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, pause: float, state: RunState | None
) -> None:
    monkeypatch.setattr(own_agent, "agent_program", lambda _: [*PROGRAM])
    if state is None:
        monkeypatch.setattr(own_agent, "_STOP_S", 0.1)
    context = CommandContext(lab.places, io.StringIO(), io.StringIO())
    spec = RunSpec(exercise="stand-in", params={"steps": 100_000, "pause": pause})
    with own_session(context, CATALOGUE) as own:
        run = OwnRun(context, own, own.session.start_run(spec), as_json=False)
        turn_until(run, lambda: run.history.fold.state is RunState.RUNNING)
        assert lab.agent() is None, "a window would take it for its own"
    assert not lab.left()
    history = read_run(run.folder)
    assert (history.fold.state if history.fold.done else None) is state
    assert bool(history.checkpoints) is (state is not None)


@pytest.mark.parametrize(("presses", "frozen", "state"), [(3, False, RunState.STOPPED), (4, True, RunState.FAILED)])
def test_a_trainer_that_does_not_listen_is_killed_at_the_third_request_and_beside_a_frozen_agent_at_the_fourth(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, presses: int, frozen: bool, state: RunState
) -> None:
    monkeypatch.setattr(own_agent, "agent_program", lambda _: [*PROGRAM])
    monkeypatch.setattr(own_agent, "_END_S", 0.5)
    context, pressed = CommandContext(lab.places, io.StringIO(), io.StringIO()), 0
    spec = RunSpec(exercise="stand-in", params={"steps": 100_000, "pause": 10.0})
    with own_session(context, CATALOGUE) as own:
        run = OwnRun(context, own, own.session.start_run(spec), as_json=False, stops=lambda: pressed)
        turn_until(run, lambda: run.history.fold.state is RunState.RUNNING)
        if frozen:
            next(one for one in lab.left() if "serve" in words_of(one)).suspend()
        pressed = presses
        turn_until(run, run.complete)
    assert not lab.left()
    assert sealed(RunFolder(run.folder).journal(1))
    assert read_run(run.folder).fold.state is state


def test_a_run_whose_next_attempt_leaves_the_queue_is_as_it_was_and_its_command_ends(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_agent, "agent_program", lambda _: [*PROGRAM])
    command = begin(lab, "run", lab.places.home / "none", "--steps", "1000000")
    (folder,) = lab.wait(lambda: folders(lab), "the run's folder")
    lab.trained(folder.name, 1)
    die_at_once(lab, command)
    context = CommandContext(lab.places, io.StringIO(), io.StringIO())
    with own_session(context, CATALOGUE) as own:
        own.session.follow(read_spec(RunFolder(folder).spec))
        run = OwnRun(context, own, folder.name, as_json=False, stops=lambda: 1, after_attempt=1)
        own.session.continue_run(folder.name)
        turn_until(run, run.complete)
        assert run.conclude(None) == 130
    assert not lab.left()
    assert judge_run(folder) is RunState.FAILED


@pytest.mark.parametrize("out", ["new/run", "empty"])
def test_of_a_run_that_its_trainer_refuses_only_the_folder_stays_that_was_there(
    lab: Lab, tmp_path: Path, out: str
) -> None:
    work = tmp_path / "work"
    (work / "empty").mkdir(parents=True)
    words = (*PROGRAM, "clew", "run", "stand-in", "--fault", "refuses", "--out", str(work / out))
    done = subprocess.run(words, capture_output=True, text=True, timeout=BOUND_S, check=False)
    assert done.returncode == 2
    assert "The trainer refuses it." in done.stderr
    assert [path.name for path in work.rglob("*")] == ["empty"]
    assert list(lab.places.home.rglob("runs/*")) == []


def test_a_run_whose_processes_all_died_at_once_goes_on_at_the_first_resume(lab: Lab) -> None:
    command = begin(lab, "run", lab.places.home / "none")
    (folder,) = lab.wait(lambda: folders(lab), "the run's folder")
    lab.trained(folder.name, 50)
    die_at_once(lab, command)
    assert not read_run(folder).fold.done
    done = subprocess.run((*PROGRAM, "clew", "resume", "last"), capture_output=True, timeout=BOUND_S, check=False)
    assert done.returncode == 0, done.stderr
    lab.wait(lambda: not lab.left(), "the end of all processes")
    run, history = RunFolder(folder), read_run(folder)
    assert (run.attempts(), history.fold.state) == ((1, 2), RunState.FINISHED)
    assert all(sealed(run.journal(number)) for number in run.attempts())
    assert verify_run(folder).findings == ()
    assert history.column("loss").steps.tolist() == list(range(300))


def test_a_run_that_trains_elsewhere_is_neither_resumed_nor_stopped(lab: Lab) -> None:
    command = begin(lab, "run", lab.places.home / "none", "--steps", "1000000")
    (folder,) = lab.wait(lambda: folders(lab), "the run's folder")
    lab.trained(folder.name, 1)
    words = (*PROGRAM, "clew", "resume", folder.name)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as second:
        lab.wait(lambda: len([one for one in lab.left() if "serve" in words_of(one)]) > 1, "its agent")
        second.send_signal(signal.SIGINT)
        said, _ = second.communicate(timeout=BOUND_S)
    assert second.returncode == 2, said
    assert "is still going on (process" in said
    assert "Stop it first. (clew why run.running)" in said
    lab.trained(folder.name, lab.steps(folder.name) + 50)
    command.send_signal(signal.SIGINT)
    assert command.wait(BOUND_S) == 130
    lab.wait(lambda: not lab.left(), "the end of all processes")
    assert judge_run(folder) is RunState.STOPPED


def test_a_study_stops_the_run_that_an_earlier_command_of_its_own_has_left(lab: Lab) -> None:
    file = lab.places.home / "sweep.toml"
    command = begin(lab, "sweep", file, "--steps", "1000000")
    (folder,) = lab.wait(lambda: folders(lab), "the run's folder")
    lab.trained(folder.name, 1)
    die_at_once(lab, command, but=("guard", "trainer"))
    with subprocess.Popen((*PROGRAM, "clew", "study", str(file)), stdout=subprocess.PIPE, text=True) as study:
        assert study.stdout is not None
        said = next(line for line in study.stdout if "it trains already" in line)
        study.send_signal(signal.SIGINT)
        said += study.communicate(timeout=BOUND_S)[0]
    assert study.returncode == 130, said
    lab.wait(lambda: not lab.left(), "the end of all processes")
    assert judge_run(folder) is RunState.STOPPED
    assert read_run(folder).checkpoints


@pytest.mark.parametrize("out", [True, False])
def test_a_home_that_cannot_be_written_stops_only_a_run_that_would_be_kept_there(tmp_path: Path, out: bool) -> None:
    words = (*PROGRAM, "clew", "run", "stand-in", *(["--out", str(tmp_path / "run")] if out else []))
    home = os.environ | {"CLEW_HOME": "/proc/nowhere"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=BOUND_S, check=False, env=home)
    assert (done.returncode, "run.folder" in done.stderr) == ((0, False) if out else (2, True)), done.stderr


def test_a_command_that_has_killed_its_agent_starts_no_other_one(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_agent, "agent_program", lambda _: [*PROGRAM])
    start = Mock(wraps=start_agent)
    monkeypatch.setattr(target, "start_agent", start)
    context = CommandContext(lab.places, io.StringIO(), io.StringIO())
    spec = RunSpec(exercise="stand-in", params={"steps": 100_000, "pause": 10.0})
    with own_session(context, CATALOGUE) as own:
        run = OwnRun(context, own, own.session.start_run(spec), as_json=False)
        turn_until(run, lambda: run.history.fold.state is RunState.RUNNING)
        own.target.end(kill=True)
        turn_until(run, lambda: own.session.link.state is LinkState.CONNECTING)
    assert start.call_count == 1
    assert run.asked == 0, "nobody is there to be asked"
    assert not lab.left()


def test_trouble_of_the_connection_is_no_refusal(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_agent, "agent_program", lambda _: [*PROGRAM])
    context = CommandContext(lab.places, io.StringIO(), io.StringIO())
    spec = RunSpec(exercise="stand-in", params={"steps": 20})
    with own_session(context, CATALOGUE) as own:
        run = OwnRun(context, own, own.session.start_run(spec), as_json=False)
        own.session.local_link.report(Problem("link.internal", "The connection failed."))
        run.to_the_end(None, "heading")
        run.raise_refusal()
        assert run.conclude(None) == 0


def test_why_an_agent_does_not_start_is_said_without_a_log_that_is_gone(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_agent, "agent_program", lambda _: [sys.executable, "-c", "raise SystemExit('No, never.')"])
    context = CommandContext(lab.places, io.StringIO(), io.StringIO())
    with own_session(context, CATALOGUE) as own:
        run = OwnRun(context, own, own.session.start_run(RunSpec(exercise="stand-in")), as_json=False)
        run.to_the_end(None, "heading")
        with pytest.raises(ProblemError, match=r"No, never\.") as raised:
            run.raise_refusal()
    assert "The log is in" not in str(raised.value)


@pytest.mark.parametrize("earlier", [0, 1])
def test_a_run_that_is_taken_back_while_its_agent_comes_up_has_not_begun(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, earlier: int
) -> None:
    monkeypatch.setattr(own_agent, "agent_program", lambda _: [sys.executable, "-c", "import time; time.sleep(60)"])
    context = CommandContext(lab.places, out := io.StringIO(), io.StringIO())
    with own_session(context, CATALOGUE) as own:
        id_ = own.session.start_run(RunSpec(exercise="stand-in"))
        run = OwnRun(context, own, id_, as_json=False, after_attempt=earlier)
        listed = RunStatus(
            run=id_, exercise="stand-in", state=RunState.STOPPED, attempt=earlier, size=100 * earlier, reason="Listed."
        )
        run.stop()
        assert not run.complete()
        run.model.status = listed
        assert run.complete()
        run.raise_refusal()
        assert run.conclude(None) == 130
    assert out.getvalue() == "Stopped before it began.\n"


@pytest.mark.parametrize("queued", [True, False])
def test_the_next_agent_of_a_command_knows_a_run_of_the_queue_before_its_journal(tmp_path: Path, queued: bool) -> None:
    id_ = str(uuid.uuid4())
    (tmp_path / id_).mkdir()
    RunFolder(tmp_path / id_).spec.write_text(to_toml(RunSpec(exercise="stand-in", run=id_)), encoding="utf-8")
    registry = RunRegistry(tmp_path, lambda _run: queued, asked_for=True)
    assert (registry.find(id_) is not None) is queued


def turn_until(run: OwnRun, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BOUND_S
    while not done():
        assert time.monotonic() < deadline, f"it is {run.model.state}"
        run.turn()


def die_at_once(lab: Lab, command: subprocess.Popen[bytes], but: Sequence[str] = ()) -> None:
    """kill -9 of all processes, as when the power fails; each is held first, so that none sees another one's death."""
    found = [one for one in lab.left() if not {*but} & {*words_of(one)}]
    for process in found:
        process.suspend()
    for process in found:
        process.kill()
    command.wait(BOUND_S)
    psutil.wait_procs(found, BOUND_S)


def begin(lab: Lab, kind: str, file: Path, *more: str) -> subprocess.Popen[bytes]:
    over = ("--over", "learning_rate=" + ", ".join(map(str, RATES)), "--save", str(file))
    words = {"run": ("stand-in", *STEPS), "sweep": ("stand-in", *STEPS, *over), "study": (str(file),)}[kind] + more
    with (lab.places.home / "commands.log").open("ab") as log:
        return subprocess.Popen([*PROGRAM, "clew", kind, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def clew(lab: Lab, kind: str, file: Path, killed_at: float) -> None:
    """Begin a command and kill it once its study is kept."""
    command = begin(lab, kind, file)
    lab.wait(file.exists, "the study's file")
    time.sleep(killed_at)
    command.kill()
    command.wait(BOUND_S)
    lab.wait(lambda: not lab.left(), "the end of all processes")


def kill(lab: Lab, command: subprocess.Popen[bytes], role: str, moment: float) -> bool:
    """kill -9 of whoever has that role, so many seconds after it has begun; whether there was one then."""
    lab.wait(lambda: command.poll() is not None or holder(lab, command, role) is not None, f"the {role}")
    time.sleep(moment)
    found = holder(lab, command, role)
    try:
        if found is not None:
            found.kill()
    except psutil.NoSuchProcess:
        return False
    return found is not None


def holder(lab: Lab, command: subprocess.Popen[bytes], role: str) -> psutil.Process | None:
    if role == "command":
        return psutil.Process(command.pid) if command.poll() is None else None
    return next((one for one in lab.left() if role in words_of(one)), None)


def folders(lab: Lab) -> list[Path]:
    return list(lab.places.runs.iterdir()) if lab.places.runs.is_dir() else []


def judge_run(folder: Path) -> RunState:
    """The state of a run whose processes have ended; its journal is sealed and sound, with each step once."""
    run = RunFolder(folder)
    assert list(run.attempts()) == [1], folder
    assert sealed(run.journal(1))
    assert verify_run(folder).findings == ()
    history = read_run(folder)
    assert history.column("loss").steps.tolist() == list(range(history.fold.step))
    return history.fold.state
