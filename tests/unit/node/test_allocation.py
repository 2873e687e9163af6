"""What a job says to an agent and its trainers, when its time is up, and what a run says of that beforehand."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_agent.node.allocation import Allocation, read_allocation
from clew_agent.trainer.control import ControlRequests
from clew_agent.trainer.time_limit import FORECAST, Deadline, TimeIsUp, Timekeeper
from clew_shared.journal.events import Event, Log
from clew_shared.wire.messages import Stop
from tests.guards import LogBook

JOB = "0f3d6c52-8f0e-4c1b-9a70-3b6a4b1f2c11"


# --- The environment --------------------------------------------------------------------------------------------------


def test_a_job_is_read_from_the_environment(tmp_path: Path) -> None:
    environment = {"CLEW_JOB": JOB, "CLEW_JOB_FOLDER": str(tmp_path), "CLEW_JOB_UNTIL": "1762400000"}
    found = read_allocation(environment | {"CLEW_JOB_RESTART": "2", "SLURM_RESTART_COUNT": "3"})
    assert found == Allocation(JOB, tmp_path, 1762400000.0, 2)
    assert found.runs == tmp_path / "runs"


def test_that_it_served_is_noted_for_this_start_of_the_job(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    Allocation(JOB, folder, restart=2).note_served()
    assert [path.name for path in folder.iterdir()] == ["served.2"]
    Allocation(JOB, tmp_path / "gone").note_served()
    Allocation().note_served()


def test_without_a_job_there_is_none_and_nothing_is_said() -> None:
    assert read_allocation({}) == Allocation()


def test_a_batch_script_without_a_keeper_has_its_end_from_slurm() -> None:
    assert read_allocation({"SLURM_RESTART_COUNT": "3"}).restart == 3
    assert read_allocation({"SLURM_JOB_END_TIME": "1762400000"}).until == 1762400000.0
    assert read_allocation({"SLURM_JOB_END_TIME": "5", "CLEW_JOB_UNTIL": "9"}).until == 9.0
    assert read_allocation({"SLURM_JOB_END_TIME": "soon"}).until == 0.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CLEW_JOB", "7"),
        ("CLEW_JOB", "../../x"),
        ("CLEW_JOB", JOB.upper()),
        ("CLEW_JOB_FOLDER", "runs"),
        ("CLEW_JOB_FOLDER", "/nowhere/at/all"),
        ("CLEW_JOB_UNTIL", "soon"),
        ("CLEW_JOB_UNTIL", "-1"),
        ("CLEW_JOB_UNTIL", "nan"),
        ("CLEW_JOB_UNTIL", "inf"),
    ],
)
def test_a_bad_value_is_told_and_ignored(name: str, value: str, expect_logs: LogBook) -> None:
    expect_logs(f"The environment variable {name} is .*It is ignored")
    assert read_allocation({name: value}) == Allocation()


@given(st.dictionaries(st.sampled_from(["CLEW_JOB", "CLEW_JOB_UNTIL", "SLURM_RESTART_COUNT"]), st.text()))
def test_no_environment_is_too_bad(environment: dict[str, str]) -> None:
    log = logging.getLogger("clew_agent.node.allocation")
    log.disabled = True
    try:
        found = read_allocation(environment)
    finally:
        log.disabled = False
    assert len(found.job) in (0, 36)
    assert found.until >= 0


def keeper_says(folder: Path, why: str = "", restart: int = 0, began: int = 100) -> Allocation:
    (folder / f"record.{restart}").write_text(f"format=1\njob={JOB}\nbegan={began}\nuntil=0\nwhy={why}\n")
    return Allocation(JOB, folder, restart=restart)


def test_each_time_that_a_job_starts_is_another_incarnation(tmp_path: Path) -> None:
    first = keeper_says(tmp_path).incarnation
    assert keeper_says(tmp_path, why="time").incarnation == first
    assert len({first, keeper_says(tmp_path, restart=1).incarnation, keeper_says(tmp_path, began=200).incarnation}) == 3


# --- The deadline -----------------------------------------------------------------------------------------------------


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_job_ends_itself_as_long_before_its_time_as_its_keeper_does() -> None:
    clock = Clock()
    assert Deadline(3600, clock=clock).usable() == 3570
    assert Deadline(120, clock=clock).usable() == 105
    late = Deadline(40, limit=3600, clock=clock)
    assert late.usable() == 10, "the whole job's length counts, not what is left of it"
    clock.now += 20
    assert not late.overdue()
    clock.now += 7
    assert late.overdue()
    assert late.left() == 13


def test_a_deadline_in_the_past_is_over_at_once_and_an_unknown_one_never() -> None:
    assert Deadline(-5).overdue()
    assert Deadline(-5).usable() < 0
    assert not Deadline().known
    assert not Deadline().overdue()


def test_the_clock_of_the_machine_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    deadline = Deadline.of(Allocation(until=time.time() + 1000))
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert 990 < deadline.left() <= 1000


def test_who_asks_for_the_end_is_told_by_the_keeper(tmp_path: Path) -> None:
    assert Deadline.of(keeper_says(tmp_path, "time")).asks()
    assert not Deadline.of(keeper_says(tmp_path, "terminated")).asks()


@pytest.mark.parametrize("why", ["", "terminated"], ids=["before the keeper", "after it"])
def test_a_scheduler_that_ends_the_job_earlier_than_it_had_said_is_believed(tmp_path: Path, why: str) -> None:
    """It asks the keeper and its trainers at the same moment."""
    allocation = msgspec.structs.replace(keeper_says(tmp_path, why), until=time.time() + 3600)
    deadline, output = Deadline.of(allocation), tmp_path / "scheduler.log"
    assert not deadline.asks()
    output.write_text(50_000 * "x" + "\nslurmstepd: error: *** JOB 7 ON node1 CANCELLED AT 2026-11-22T10:00:00 ***\n")
    assert not deadline.asks()
    with output.open("ab") as file:
        file.write(b"\xff *** JOB 7 ON node1 CANCELLED AT 2026-11-22T10:00:00 DUE TO TIME LIMIT ***\n")
    assert deadline.asks()


def test_without_a_keeper_a_request_near_the_end_comes_of_it() -> None:
    assert Deadline(20).asks()
    assert Deadline(-1).asks()
    assert Deadline(110).asks(), "as a script may ask for it, and Slurm sends it early"
    assert not Deadline(500).asks()
    assert not Deadline().asks()


def test_the_jobs_own_length_is_known_from_its_keeper(tmp_path: Path) -> None:
    allocation = keeper_says(tmp_path, began=int(time.time()) - 3560)
    until = Allocation(JOB, tmp_path, until=time.time() + 40)
    assert allocation.record()["began"].isdecimal()
    assert 5 < Deadline.of(until).usable() <= 10


# --- Ending in time, and saying so early ------------------------------------------------------------------------------


class Scene:
    """A trainer of which every step takes ``pace`` seconds, in a job that has ``left`` seconds."""

    def __init__(self, left: float | None, pace: float = 1.0) -> None:
        self.clock = Clock()
        self.commands = ControlRequests()
        self.told: list[Event] = []
        self.pace = pace
        self.keeper = Timekeeper(Deadline(left, clock=self.clock), self.commands, "r", self.told.append, self.clock)
        self.step = 0

    def train(self, steps: int, of: int = 10_000) -> None:
        """Steps in blocks of one, until it is asked to end."""
        for _ in range(steps):
            self.keeper.look(self.step, of)
            if self.commands.stop is not None:
                return
            self.clock.now += self.pace
            self.step += 1

    def sentences(self) -> list[str]:
        return [event.text for event in self.told if isinstance(event, Log) and event.stage == FORECAST]


def test_a_run_is_asked_to_end_while_there_is_time_to_save() -> None:
    scene = Scene(left=1000)
    scene.keeper.saved(20.0)
    scene.train(10_000)
    assert isinstance(scene.commands.stop, TimeIsUp)
    assert 1000 - 30 - 10 - 2 * 20 - 1 - scene.pace < scene.step <= 1000 - 30 - 10 - 2 * 20 - 1


def test_a_slow_block_is_expected_again() -> None:
    scene = Scene(left=1000, pace=100)
    scene.train(10_000)
    assert scene.step == 9, "a tenth would have ended behind the moment at which the job begins to end itself"


def test_a_paused_run_is_asked_to_end_as_well() -> None:
    scene = Scene(left=100)
    scene.keeper.look(5, 10, idle=True)
    assert scene.commands.stop is None
    scene.clock.now += 99
    scene.keeper.look(5, 10, idle=True)
    assert isinstance(scene.commands.stop, TimeIsUp)


def test_who_was_asked_to_stop_before_is_stopped() -> None:
    scene = Scene(left=100)
    asked = Stop(run="r")
    scene.commands.put(asked)
    scene.clock.now += 200
    scene.keeper.look(5, 10)
    assert scene.commands.stop is asked


def test_without_a_deadline_nothing_is_said() -> None:
    scene = Scene(left=None)
    scene.train(5000)
    assert (scene.commands.stop, scene.told) == (None, [])


def test_a_run_that_will_not_be_done_in_time_says_so_once_and_early() -> None:
    scene = Scene(left=1500)
    scene.train(300, of=2700)
    (sentence,) = scene.sentences()
    assert sentence == (
        "This run will need about 45 minutes more; the job ends in 25 minutes. It will be saved in time and can be "
        "continued in another job."
    )
    log = scene.told[0]
    assert isinstance(log, Log)
    assert (log.level, log.step) == ("warning", 6)
    assert log.seconds == pytest.approx(2694)


def test_a_run_that_will_be_done_in_time_says_nothing() -> None:
    scene = Scene(left=1500)
    scene.train(1000, of=1000)
    assert scene.told == []


def test_a_forecast_that_has_become_wrong_is_taken_back() -> None:
    scene = Scene(left=1500, pace=2.0)
    scene.train(100, of=1000)
    scene.pace = 0.1
    scene.train(900, of=1000)
    late, in_time = scene.sentences()
    assert late.startswith("This run will need about ")
    assert in_time.startswith("This run will be done in time after all. This run will need about ")


def test_a_slow_start_predicts_nothing() -> None:
    """The first blocks trace and compile: by their pace the run would need weeks."""
    scene = Scene(left=3600, pace=20.0)
    scene.train(1, of=20_000)
    scene.pace = 0.05
    scene.train(15_000, of=20_000)
    assert scene.told == []


def test_pauses_do_not_count_as_work() -> None:
    scene = Scene(left=10_000)
    scene.train(20, of=1000)
    for _ in range(50):
        scene.clock.now += 100
        scene.keeper.look(scene.step, 1000, idle=True)
    scene.train(20, of=1000)
    assert scene.told == []
