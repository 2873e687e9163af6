"""Real trainers in a job whose time is up, told by its environment: saved, TIMED_OUT, continued to the same bits."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil
import pytest

from clew_agent.processes.guard import seal
from clew_agent.processes.trainer_death import TrainerEnd
from clew_shared.base.places import find_places
from clew_shared.base.problem import no_tensorflow
from clew_shared.journal.events import Attempt, Checkpoint, Seal, State
from clew_shared.journal.history import JOB_ENDED
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.journal.verify import verify_run
from clew_shared.reading import read_run
from clew_shared.spec import RunSpec, to_toml
from tests.integration.agent_runs import (
    LONG,
    agent,
    command,
    end,
    events,
    json_line,
    running,
    trained,
    trainer_of,
    wait_for,
    write_spec,
)

pytestmark = pytest.mark.usefixtures("warm")

JOB = str(uuid.uuid4())
STEPS = 2000
"""Two seconds of the trainer without TensorFlow."""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the job in which everything here runs; it has hours yet."""
    folder = tmp_path / "job"
    folder.mkdir()
    monkeypatch.setenv("CLEW_JOB", JOB)
    monkeypatch.setenv("CLEW_JOB_FOLDER", str(folder))
    monkeypatch.setenv("CLEW_JOB_UNTIL", str(int(time.time()) + 10_000))
    return folder


def keeper_ends_it(job: Path, why: str) -> None:
    """The keeper writes down why, before it asks anybody."""
    (job / "record.0").write_text(f"format=1\njob={JOB}\nbegan=1\nwhy={why}\n")


def last_state(folder: Path, attempt: int = 1) -> State:
    return next(event for event in reversed(events(folder, attempt)) if isinstance(event, State))


@pytest.mark.usefixtures("light")
def test_a_run_that_its_job_ends_is_saved_and_goes_on_in_another_job(
    tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    spec = write_spec(tmp_path, "softmax", data="digits", params={"steps": STEPS})
    with running("run", spec, "--out", folder) as process:
        wait_for(folder, trained(300))
        keeper_ends_it(job, "time")
        process.send_signal(signal.SIGTERM)
        code, output, _ = end(process)
    state = last_state(folder)
    assert (code, state.state) == (1, RunState.TIMED_OUT)
    assert output.startswith("TIMED_OUT after ")
    assert "can be continued in another job" in state.reason
    assert [event.step for event in events(folder) if isinstance(event, Checkpoint)][-1] == state.step > 0
    assert verify_run(folder).findings == ()
    first = events(folder)[0]
    assert isinstance(first, Attempt)
    assert first.job == JOB

    for name in ("CLEW_JOB", "CLEW_JOB_FOLDER", "CLEW_JOB_UNTIL"):
        monkeypatch.delenv(name)
    done = agent("run", "--resume", folder, "--json")
    assert done.returncode == 0, done.stderr
    assert json_line(done.stdout)["steps"] == STEPS
    assert read_run(folder).column("loss").steps.tolist() == list(range(STEPS))
    assert verify_run(folder).findings == ()


@pytest.mark.usefixtures("light")
def test_a_job_that_somebody_cancels_stops_its_run(tmp_path: Path, job: Path) -> None:
    folder = tmp_path / "run"
    with running("run", write_spec(tmp_path, "softmax", data="digits", params=LONG), "--out", folder) as process:
        wait_for(folder, trained(10))
        keeper_ends_it(job, "terminated")
        process.send_signal(signal.SIGTERM)
        assert end(process)[0] == 130
    state = last_state(folder)
    assert (state.state, state.reason) == (RunState.STOPPED, JOB_ENDED), "nobody asked the run to stop"
    assert [event.step for event in events(folder) if isinstance(event, Checkpoint)][-1] == state.step > 0


def test_a_node_without_tensorflow_says_what_the_doctor_would_say(
    tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "tensorflow.py").write_text("raise ImportError('libcudart.so.12: cannot open shared object file')")
    monkeypatch.setenv("PYTHONPATH", str(broken))
    spec = write_spec(tmp_path, "softmax", data="digits", params=LONG)
    found = no_tensorflow(socket.gethostname(), "libcudart.so.12: cannot open shared object file")
    done = agent("run", spec)
    assert done.returncode == 2
    assert str(found) in done.stderr


@pytest.mark.usefixtures("light")
def test_a_run_that_begins_too_late_ends_before_its_first_step(
    tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_JOB_UNTIL", str(int(time.time()) - 5))
    folder = tmp_path / "run"
    done = agent("run", write_spec(tmp_path, "softmax", data="digits", params=LONG), "--out", folder, "--json")
    assert done.returncode == 1
    assert json_line(done.stdout)["state"] == "TIMED_OUT"
    assert last_state(folder).step == 0
    assert verify_run(folder).findings == ()


def test_a_trainer_that_hangs_is_killed_in_time_for_its_journal_to_say_why(
    tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty seconds before its end the job begins to end itself, and the keeper kills twenty seconds later."""
    keeper_ends_it(job, "")
    folder = tmp_path / "run"
    script = (
        "import sys; from pathlib import Path; from clew_agent.processes import guard;"
        "from clew_agent.trainer.time_limit import Deadline;"
        "from clew_shared.journal.run_folder import RunFolder; folder = RunFolder(Path(sys.argv[1]));"
        "guard.Deadline.of = lambda _: Deadline(14.0, 3600.0);"  # 13.5 s is the guard's last word
        "guard.watch(folder, 1, start=lambda f, a, e: guard.subprocess.Popen([sys.executable, '-c', "
        "'import time; time.sleep(600)'], start_new_session=True))"
    )
    folder.mkdir()
    write_spec(tmp_path, "softmax", data="digits").rename(folder / "spec.toml")
    subprocess.run([sys.executable, "-c", script, str(folder)], check=True, timeout=60)
    state, last = last_state(folder), events(folder)[-1]
    assert isinstance(last, Seal)
    assert (state.state, last.writer) == (RunState.TIMED_OUT, "guard")
    assert "before the run could be saved" in state.reason


def test_a_trainer_that_dies_of_the_request_at_the_end_of_its_job_has_timed_out(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    write_spec(tmp_path, "softmax").rename(folder.spec)
    fold = seal(folder, 1, TrainerEnd(130, out_of_memory=False, timed_out=True))
    assert fold.state is RunState.TIMED_OUT
    assert isinstance(events(folder.path)[-1], Seal)


@pytest.mark.parametrize("way", [(), ("--fresh",)], ids=["nursery", "fresh"])
def test_every_process_of_a_job_can_be_found_by_its_environment(way: tuple[str, ...], job: Path) -> None:
    """That is how the keeper ends what its agent has started, whatever became of the agent."""
    run = str(uuid.uuid4())
    (job / "runs").mkdir()
    spec = RunSpec(exercise="softmax", run=run, data="digits", params={**LONG})
    (job / "runs" / f"{run}.toml").write_text(to_toml(spec))
    with running("serve", "--job", *way) as process:
        found = wait_for(find_places().runs / run, trained(10))
        trainer = trainer_of(found)
        guard = trainer.parent()
        assert guard is not None
        family = {process.pid, guard.pid, trainer.pid, *(p.pid for p in psutil.Process(process.pid).children(True))}
        assert len(family) >= 3
        for pid in family:
            assert f"CLEW_JOB={JOB}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        os.kill(guard.pid, signal.SIGTERM)
        wait_for(find_places().runs / run, lambda found: isinstance(found[-1], Seal))
        process.send_signal(signal.SIGTERM)
        assert end(process)[0] == 0


def test_outside_of_a_job_the_option_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLEW_JOB", raising=False)
    done = agent("serve", "--job")
    assert done.returncode == 2
    assert "CLEW_JOB names none" in done.stderr


def test_ports_that_are_none_are_refused() -> None:
    done = subprocess.run(command("serve", "--ports", "80"), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "50000-50100" in done.stderr
