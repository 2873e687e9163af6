"""Runs without a window: from a spec file to a sealed journal, with real processes."""

from __future__ import annotations

import gzip
import os
import pickle
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from clew_agent.trainer.control_address import address_file, allow_folder
from clew_shared.base.places import find_places
from clew_shared.base.problem import ProblemError
from clew_shared.journal.events import (
    Checkpoint,
    Evaluation,
    Files,
    Live,
    Log,
    Points,
    Schema,
    Seal,
    Series,
    State,
    Trace,
)
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.verify import verify_run
from clew_shared.reading import read_run
from clew_shared.wire.messages import (
    Done,
    GetStatus,
    Hello,
    Pause,
    Refused,
    SetLive,
    Stop,
    TraceSteps,
    Unpause,
    Welcome,
)
from tests.integration.agent_runs import (
    LONG,
    Remote,
    agent,
    end,
    events,
    json_line,
    listing,
    running,
    states,
    steps_done,
    trained,
    trainer_of,
    wait_for,
    write_spec,
)

pytestmark = pytest.mark.usefixtures("warm")


def test_a_run_from_spec_to_seal(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, "softmax", preset="tiny", data="digits", run="first-run")
    done = agent("run", spec, "--out", tmp_path / "run", "--json", fresh=True)
    assert (done.returncode, done.stderr) == (0, "")
    result = json_line(done.stdout)
    found = events(tmp_path / "run")

    assert result["state"] == "FINISHED"
    assert result["run"] == "first-run"
    assert result["run_dir"] == str(tmp_path / "run")
    assert result["steps"] == steps_done(found)
    assert result["metrics"]["test_accuracy"] > 0.7
    assert result["steps_per_second"] > 0
    assert 0 < result["first_point_seconds"] < result["seconds"]

    assert states(found) == [RunState.STARTING, RunState.PREPARING, RunState.RUNNING, RunState.FINISHED]
    stages = [event.stage for event in found if isinstance(event, Log) and event.stage]
    expected = ["data", "import", "build", "compile", "compile", "compile"]
    assert stages == expected, "the steps first, then the evaluation, then the pictures"
    schema = next(event for event in found if isinstance(event, Schema))
    assert [metric.name for metric in schema.metrics if metric.per_step] == ["loss", "accuracy"]
    points = [event for event in found if isinstance(event, Points)]
    assert [point.first for point in points] == [0, *np.cumsum([point.count for point in points])[:-1]]
    assert [type(event) for event in found[-3:]] == [Files, State, Seal]
    assert any(isinstance(event, Evaluation) for event in found)
    assert verify_run(tmp_path / "run").findings == ()
    assert listing(tmp_path / "run")[0] == "checkpoints", "nothing hidden is left"
    assert not address_file(find_places(), "first-run").exists()
    assert not allow_folder(find_places(), "first-run").exists()


MEASUREMENT = """
from typing import Annotated, Iterator
import numpy as np
from clew_agent.training.exercise import (Measurement, Setup)
from clew_shared.journal.events import (Event, Log, Series)
from clew_shared.params import (Knob, Params)

print("imported")

class Settings(Params, frozen=True, kw_only=True):
    count: Annotated[int, Knob("Count", ge=1, le=10)] = 3

class Toy(Measurement[Settings]):
    id = "toy-measurement"
    title = "Toy"
    Settings = Settings

    def measure(self, setup: Setup[Settings]) -> Iterator[Event]:
        for number in range(setup.settings.count):
            yield Series(name="time", x=np.array([number], "<f8").tobytes(), y=np.array([number**2], "<f8").tobytes())

EXERCISE = Toy()
"""


def test_a_measurement_of_somebody_elses_is_journaled(tmp_path: Path) -> None:
    own = tmp_path / "exercises"
    own.mkdir()
    (own / "toy.py").write_text(MEASUREMENT)
    spec = write_spec(tmp_path, "toy-measurement", params={"count": 4})
    done = agent("run", spec, "--out", tmp_path / "run", "--exercises", own, "--json")
    assert (done.returncode, json_line(done.stdout)["state"]) == (0, "FINISHED")
    assert sum(isinstance(event, Series) for event in events(tmp_path / "run")) == 4
    assert read_run(tmp_path / "run").series["time"].y.tolist() == [0.0, 1.0, 4.0, 9.0]
    assert "imported" in (tmp_path / "run" / "log.txt").read_text()
    assert verify_run(tmp_path / "run").findings == ()


def test_vectorize_runs_on_the_devices_that_it_is_given(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, "vectorize", params={"largest": 10, "repeats": 1}, strategy="mirrored", devices=2)
    done = agent("run", spec, "--out", tmp_path / "run", "--json")
    assert (done.returncode, json_line(done.stdout)["state"]) == (0, "FINISHED")
    measured = read_run(tmp_path / "run").series
    assert list(measured) == ["Python loop", "Loop over NumPy", "NumPy", "TensorFlow", "XLA", "2 devices"]
    assert verify_run(tmp_path / "run").findings == ()


def test_model_parallel_puts_a_stage_on_each_of_its_devices(tmp_path: Path) -> None:
    small = {"width": 16, "layers": 1, "batch_size": 8, "micro_batches": 2, "steps": 2, "stages": 5}
    spec = write_spec(tmp_path, "model-parallel", params=small, data="digits", strategy="mirrored", devices=2)
    done = agent("run", spec, "--out", tmp_path / "run", "--json")
    assert (done.returncode, json_line(done.stdout)["state"]) == (0, "FINISHED")
    measured = read_run(tmp_path / "run").series
    assert set(measured) >= {"One device", "In turn", "Pipeline", "Device 1", "Device 2"}
    assert "Device 3" not in measured
    assert measured["Formula"].y.tolist() == [1 / 2, 1 / 3]
    assert verify_run(tmp_path / "run").findings == ()


# What is only seen when data are read leaves nothing behind either.


class Runs:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch witness",)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("junk.npz", b"PK\x03\x04 this is no archive", "not a readable npz file"),
        ("mnist.pkl.gz", gzip.compress(pickle.dumps((Runs(),) * 3)), "which could run code; it was not run"),
    ],
    ids=["junk", "code"],
)
def test_unsound_data_are_refused_and_leave_nothing(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    spec = write_spec(tmp_path, "softmax", data=str(tmp_path / name))
    before = listing(tmp_path)
    done = agent("run", spec, "--out", tmp_path / "deep" / "run")
    assert done.returncode == 2
    assert words in done.stderr
    assert name in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert done.stdout == ""
    assert listing(tmp_path) == before


# Steering.


@pytest.fixture
def remote() -> Iterator[Callable[..., Remote]]:
    opened: list[Remote] = []

    def connect(run: str, allowed: bool = True) -> Remote:
        opened.append(Remote(run, allowed))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


def test_pause_change_go_on_stop(tmp_path: Path, remote: Callable[[str], Remote]) -> None:
    folder = tmp_path / "run"
    spec = write_spec(tmp_path, "softmax", data="digits", run="steered", params=LONG, trace=5)
    with running("run", spec, "--out", folder, "--json") as process:
        client = remote("steered")
        assert isinstance(client.ask(Hello()), Welcome)
        assert isinstance(client.ask(SetLive(run="steered", name="batch_size", value=3)), Refused)
        assert isinstance(client.ask(Pause(run="somebody-else")), Refused)
        assert isinstance(client.ask(GetStatus()), Refused)
        assert isinstance(client.ask(TraceSteps(run="steered", steps=500)), Refused)
        wait_for(folder, trained(100))
        too_high = client.ask(SetLive(run="steered", name="learning_rate", value=1e9))
        assert isinstance(too_high, Refused)
        assert "1e+09" in too_high.problem.text.replace("1000000000", "1e+09")

        assert client.ask(Pause(run="steered")) == Done(run="steered")
        wait_for(folder, lambda found: states(found)[-1] is RunState.PAUSED)
        assert client.ask(Pause(run="steered")) == Done(run="steered"), "sent twice without harm"
        paused = steps_done(events(folder))
        assert client.ask(SetLive(run="steered", name="learning_rate", value=0.01)) == Done(run="steered")
        assert client.ask(TraceSteps(run="steered", steps=20)) == Done(run="steered")
        wait_for(folder, lambda found: any(isinstance(event, Live) for event in found))
        assert steps_done(events(folder)) == paused, "nothing is trained meanwhile"
        client.ask(Unpause(run="steered"))
        wait_for(folder, trained(paused + 100))
        client.ask(Stop(run="steered"))
        code, output, _ = end(process)

    found = events(folder)
    assert (code, json_line(output)["state"]) == (130, "STOPPED")
    assert states(found)[2:] == [RunState.RUNNING, RunState.PAUSED, RunState.RUNNING, RunState.STOPPED]
    live = next(event for event in found if isinstance(event, Live))
    assert (live.name, live.value, live.step) == ("learning_rate", 0.01, paused)
    traces = [event for event in found if isinstance(event, Trace)]
    assert [(trace.step, trace.count) for trace in traces] == [(0, 5), (paused, 20)]
    assert all("matmul" in trace.kinds for trace in traces)
    last = [event for event in found if isinstance(event, Checkpoint)][-1]
    assert last.step == steps_done(found), "a stop leaves a checkpoint"
    assert verify_run(folder).findings == ()


@pytest.mark.usefixtures("light")
def test_stop_at_once_leaves_no_checkpoint(tmp_path: Path, remote: Callable[[str], Remote]) -> None:
    folder = tmp_path / "run"
    spec = write_spec(tmp_path, "softmax", data="digits", run="at-once", params=LONG)
    with running("run", spec, "--out", folder) as process:
        client = remote("at-once")
        wait_for(folder, trained(10))
        assert isinstance(client.ask(Stop(run="at-once", now=True)), Done)
        code, _, _ = end(process)
    assert code == 130
    assert states(events(folder))[-1] is RunState.STOPPED
    assert not any(isinstance(event, Checkpoint) for event in events(folder))
    assert verify_run(folder).findings == ()


@pytest.mark.usefixtures("light")
def test_a_client_that_is_not_on_the_list_hears_nothing(tmp_path: Path, remote: Callable[..., Remote]) -> None:
    folder = tmp_path / "run"
    spec = write_spec(tmp_path, "softmax", data="digits", run="guarded", params=LONG)
    with running("run", spec, "--out", folder) as process:
        assert isinstance(remote("guarded").ask(Hello()), Welcome)
        stranger = remote("guarded", allowed=False)
        with pytest.raises(ProblemError, match="No answer within"):
            stranger.ask(Stop(run="guarded"), 2.0)
        wait_for(folder, trained(1))
        process.send_signal(signal.SIGTERM)
        assert end(process)[0] == 130


# Signals.


def test_control_c_before_the_first_step_stops_as_well(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    spec = write_spec(tmp_path, "softmax", data="digits", params=LONG)
    with running("run", spec, "--out", folder) as process:
        wait_for(folder, lambda found: RunState.PREPARING in states(found))
        process.send_signal(signal.SIGINT)
        assert end(process)[0] == 130
    assert states(events(folder))[-1] is RunState.STOPPED
    assert steps_done(events(folder)) == 0
    assert verify_run(folder).findings == ()


# A disk that refuses: the system's limit on file sizes, set for the trainer alone, makes real writes fail.


def limit_files(process: psutil.Process, size: int) -> None:
    _, hard = process.rlimit(resource.RLIMIT_FSIZE)
    process.rlimit(resource.RLIMIT_FSIZE, (size, hard))


@pytest.mark.usefixtures("light")
def test_a_full_disk_pauses_and_the_run_goes_on_when_there_is_room(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    spec = write_spec(tmp_path, "softmax", data="digits", params=LONG)
    with running("run", spec, "--out", folder) as process:
        found = wait_for(folder, trained(10))
        trainer = trainer_of(found)
        reserve = folder / ".reserve"
        whole = reserve.stat().st_size
        limit_files(trainer, (folder / "journal.0001").stat().st_size + 2000)
        wait_for(folder, lambda _: reserve.stat().st_size < whole)  # given up to say that the disk is full
        before = steps_done(events(folder))
        limit_files(trainer, resource.RLIM_INFINITY)
        wait_for(folder, trained(before + 1000))
        process.send_signal(signal.SIGTERM)
        assert end(process)[0] == 130
    found = events(folder)
    paused = next(event for event in found if isinstance(event, State) and event.state is RunState.PAUSED)
    assert paused.reason.startswith("Waiting for the disk")
    assert states(found)[-3:] == [RunState.PAUSED, RunState.RUNNING, RunState.STOPPED]
    points = [event for event in found if isinstance(event, Points)]
    assert [point.first for point in points] == [0, *np.cumsum([point.count for point in points])[:-1]]
    assert verify_run(folder).findings == ()


@pytest.mark.usefixtures("light")
def test_a_disk_that_stays_full_ends_the_run_and_keeps_what_was_written(tmp_path: Path) -> None:
    from clew_agent.processes.guard import seal
    from clew_agent.processes.trainer_death import TrainerEnd
    from clew_shared.journal.run_folder import RunFolder

    folder = tmp_path / "run"
    folder.mkdir()
    write_spec(tmp_path, "softmax", data="digits", params=LONG).rename(folder / "spec.toml")
    with running("trainer", folder, "--patience", 1) as process:
        found = wait_for(folder, trained(10))
        limit_files(trainer_of(found), (folder / "journal.0001").stat().st_size)
        code, _, errors = end(process)
    assert code == 74
    assert "journal" in errors
    fold = seal(RunFolder(folder), 1, TrainerEnd(code, out_of_memory=False))
    assert fold.state is RunState.FAILED
    assert "disk" in fold.reason
    assert steps_done(events(folder)) >= steps_done(found)
    assert verify_run(folder).findings == ()
