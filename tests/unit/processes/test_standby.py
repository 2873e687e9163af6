"""A guard and a trainer begun in advance: which run gets them, which does not, and that they leave nothing behind.

Real processes of a nursery whose trainers only write down what they do: nothing here imports TensorFlow.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from clew_agent.node.devices import GIVEN
from clew_agent.processes import standby
from clew_agent.processes.nursery_messages import OWN_ENVIRONMENT, Ready, StartGuard, send
from clew_agent.trainer import compile_cache
from clew_shared.base import operating_system
from clew_shared.base.places import Places
from clew_shared.cards import ExerciseCard
from clew_shared.spec import RunSpec, to_toml
from tests.unit.processes.programs import answer_of

pytestmark = pytest.mark.needs("fork")

HEAD = """
import json, os, signal, sys, time
from clew_agent.processes import guard, nursery
from clew_shared.base import operating_system as posix
from clew_agent.processes import standby
from clew_agent.processes.nursery_messages import *
from pathlib import Path

folder = sys.argv[1]
notes = os.open(folder + "/notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def note(what): os.write(notes, f"{what} {os.getpid()}\\n".encode())
def noted(what): return [int(line.split()[1]) for line in Path(folder, "notes").read_text().splitlines()
                         if line.startswith(what + " ")]
def until(condition):
    for _ in range(4000):
        if condition(): return
        time.sleep(0.005)
    raise SystemExit("it did not come to that")
alive = posix.is_alive

class Warm:
    def rehearse(self): note("rehearsed")
    def train(self, folder, attempt, exercises): note("trained"); time.sleep(0.05); return 0

def watch(folder, attempt, exercises, start):
    note("watched")
    child = start(folder, attempt, exercises)
    while child.poll() is None: time.sleep(0.005)
    note("ended")
    return child.returncode

guard.watch, guard.exit_code_for = watch, lambda code: code
standby.fits = lambda request: request.attempt == 1
standby._ANSWER_S, nursery.REST_S = 50.0, 0.0
ours, theirs = posix.packet_pair()
it = nursery.Nursery(theirs, Warm())
def begin(attempt=1, **environment):
    told = it.start(StartGuard(folder=folder, attempt=attempt, environment=environment))
    assert isinstance(told, Started), told
    until(lambda: it.reap() or not it.guards)
def have_standby():
    it.keep_standby()
    until(lambda: it.standby.is_ready())
def out(**found): print(json.dumps(found))
"""


def found_by(tmp_path: Path, program: str) -> dict[str, object]:
    return answer_of(HEAD + program, tmp_path)


def test_the_run_is_given_to_the_pair_that_waits_and_nothing_is_forked_for_it(tmp_path: Path) -> None:
    program = """
have_standby()
guard = it.standby.guard.pid
posix.fork = None
begin()
out(same_trainer=noted("trained") == noted("rehearsed"), same_guard=noted("watched") == [guard],
    once=len(noted("trained")), left=it.standby is not None)
"""
    assert found_by(tmp_path, program) == {"same_trainer": True, "same_guard": True, "once": 1, "left": False}


def test_before_it_is_ready_the_run_gets_a_pair_of_its_own_and_the_standby_is_kept(tmp_path: Path) -> None:
    program = """
Warm.rehearse = lambda self: until(lambda: noted("ended")) or note("rehearsed")
note("begun")
it.keep_standby()
begin()
until(lambda: it.standby.is_ready())
out(apart=noted("trained") != noted("rehearsed"), kept=alive(it.standby.guard.pid), once=len(noted("trained")))
"""
    assert found_by(tmp_path, program) == {"apart": True, "kept": True, "once": 1}


def test_a_run_that_does_not_fit_gets_a_trainer_that_has_computed_nothing(tmp_path: Path) -> None:
    program = """
have_standby()
guard = it.standby.guard.pid
begin(attempt=2)
out(apart=noted("trained") != noted("rehearsed"), same_guard=noted("watched") == [guard], once=len(noted("trained")),
    gone=not any(map(alive, noted("rehearsed"))))
"""
    assert found_by(tmp_path, program) == {"apart": True, "same_guard": True, "once": 1, "gone": True}


@pytest.mark.parametrize("sign", ["SIGKILL", "SIGSTOP"])
def test_a_trainer_that_dies_or_hangs_while_it_waits_is_replaced(tmp_path: Path, sign: str) -> None:
    program = f"""
standby._ANSWER_S = 0.2
have_standby()
(waiting,) = noted("rehearsed")
os.kill(waiting, signal.{sign})
begin()
out(once=len(noted("trained")), apart=noted("trained") != [waiting], gone=not alive(waiting))
"""
    assert found_by(tmp_path, program) == {"once": 1, "apart": True, "gone": True}


def test_a_trainer_that_dies_before_it_is_ready_ends_its_guard_and_is_counted(tmp_path: Path) -> None:
    program = """
Warm.rehearse = lambda self: os.kill(os.getpid(), signal.SIGKILL)
it.keep_standby()
looks = it.pause_ms() is not None
until(lambda: it.standby.guard.poll() is not None)
Warm.rehearse = lambda self: note("rehearsed")
it.keep_standby()
until(lambda: it.standby.is_ready())
out(looks=looks, lost=it.lost, rests=it.pause_ms() is None)
"""
    assert found_by(tmp_path, program) == {"looks": True, "lost": 1, "rests": True}


@pytest.mark.parametrize("end", ["it.standby.close()  # as when this process ends", "pass"])
def test_a_trainer_that_hangs_before_it_is_ready_ends_with_the_nursery_and_after_a_minute(
    tmp_path: Path, end: str
) -> None:
    program = f"""
standby._PREPARE_MS = 600_000 if "close" in {end!r} else 5_000
Warm.rehearse = lambda self: note("hangs") or time.sleep(600)
it.keep_standby()
until(lambda: noted("hangs"))
{end}
until(lambda: it.standby.guard.poll() is not None)
out(code=it.standby.guard.returncode, gone=not any(map(alive, noted("hangs"))))
"""
    assert found_by(tmp_path, program) == {"code": 0, "gone": True}


def test_a_run_that_comes_before_the_guard_has_heard_that_its_trainer_is_ready_is_not_lost() -> None:
    (to_trainer, trainer), (to_nursery, nursery) = operating_system.packet_pair(), operating_system.packet_pair()
    with to_trainer, trainer, to_nursery, nursery:
        send(trainer, Ready(seconds=0.0, settled=True))
        send(nursery, StartGuard(folder="run", attempt=1))
        assert standby.gets_ready(to_trainer, to_nursery)


def test_when_the_guard_that_waits_is_killed_the_run_begins_as_if_there_were_none(tmp_path: Path) -> None:
    program = """
have_standby()
dead = it.standby.guard.pid
(waiting,) = noted("rehearsed")
os.kill(dead, signal.SIGKILL)
until(lambda: not alive(waiting))
begin()
it.keep_standby()
out(once=len(noted("trained")), apart=noted("watched") != [dead], lost=it.lost, another=it.standby is not None)
"""
    assert found_by(tmp_path, program) == {"once": 1, "apart": True, "lost": 1, "another": True}


def test_after_three_that_came_to_nothing_no_other_is_begun(tmp_path: Path) -> None:
    program = """
for _ in range(5):
    it.keep_standby()
    if it.standby is not None:
        os.kill(it.standby.guard.pid, signal.SIGKILL)
        until(lambda: it.standby.guard.poll() is not None)
out(lost=it.lost, left=it.standby is not None, rests=it.pause_ms() is None)
"""
    assert found_by(tmp_path, program) == {"lost": 3, "left": False, "rests": True}


def test_both_end_with_the_nursery_though_a_run_that_it_began_goes_on(tmp_path: Path) -> None:
    """A copy of the nursery that kept its end of the channel would keep them waiting for ever."""
    program = """
have_standby()
guard, (waiting,) = it.standby.guard.pid, noted("rehearsed")
Warm.train = lambda *_: note("trained") or time.sleep(600)
it.start(StartGuard(folder=folder, attempt=1, environment={"TF_ANYTHING": "1"}))
until(lambda: noted("trained"))
(other,) = it.guards
it.standby.close()  # as when this process ends
until(lambda: it.standby.guard.poll() is not None and not alive(waiting))
found = {"code": it.standby.guard.returncode, "goes_on": alive(other)}
for pid in (other, *noted("trained")):
    os.kill(pid, signal.SIGKILL)
out(**found)
"""
    assert found_by(tmp_path, program) == {"code": 0, "goes_on": True}


def test_none_is_begun_while_a_run_trains_nor_with_a_second_thread(tmp_path: Path) -> None:
    program = """
import threading
nursery.REST_S = 60.0
it.start(StartGuard(folder=folder, attempt=1))
it.keep_standby()
while_training = it.standby is not None
until(lambda: it.reap() or not it.guards)
it.keep_standby()
right_after = it.standby is not None
nursery.REST_S = 0.0
end = threading.Event()
thread = threading.Thread(target=end.wait); thread.start()
it.keep_standby()
with_threads = it.standby is not None
end.set(); thread.join()
until(lambda: posix.thread_count() == 1)  # the system's thread ends a moment after Python's
it.keep_standby()
out(found=[while_training, right_after, with_threads, it.standby is not None])
"""
    assert found_by(tmp_path, program) == {"found": [False, False, False, True]}


def test_the_runs_own_environment_reaches_both(tmp_path: Path) -> None:
    program = f"""
Warm.train = lambda *_: note("trained-" + os.environ["{GIVEN}"])
have_standby()
begin({GIVEN}="CPU")
out(once=len(noted("trained-CPU")), same=noted("trained-CPU") == noted("rehearsed"))
"""
    assert found_by(tmp_path, program) == {"once": 1, "same": True}


def test_an_environment_of_which_a_library_may_have_read_something_does_not_suit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HELD", "yes")
    late = dict.fromkeys((GIVEN, *OWN_ENVIRONMENT), "other")
    assert standby.suits(StartGuard(folder="run", attempt=1, environment={"HELD": "yes"} | late))
    assert not standby.suits(StartGuard(folder="run", attempt=1, environment={"HELD": "no"}))
    assert not standby.suits(StartGuard(folder="run", attempt=1, environment={"NOT_HELD": ""}))


@pytest.mark.parametrize(
    ("spec", "fit"),
    [
        (RunSpec(exercise="softmax"), True),
        (RunSpec(exercise="linear-regression"), True),
        (RunSpec(exercise="softmax", devices=2), False),
        (RunSpec(exercise="softmax", strategy="mirrored"), False),
        (RunSpec(exercise="somebodys-own"), False),
        (None, False),
    ],
)
def test_what_fits_is_an_exercise_of_clews_own_on_one_device(tmp_path: Path, spec: RunSpec | None, fit: bool) -> None:
    (tmp_path / "spec.toml").write_text(to_toml(spec) if spec is not None else "{")
    assert standby.fits(StartGuard(folder=str(tmp_path), attempt=1)) == fit


@pytest.mark.parametrize(("kind", "fit"), [("training", True), ("measurement", False), ("script", False)])
def test_what_measures_has_its_process_to_itself_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Literal["training", "measurement", "script"], fit: bool
) -> None:
    (tmp_path / "spec.toml").write_text(to_toml(RunSpec(exercise="it")))
    monkeypatch.setattr(standby, "quick_card", lambda *_: ExerciseCard(id="it", title="It", kind=kind))
    assert standby.fits(StartGuard(folder=str(tmp_path), attempt=1)) == fit


def test_a_disk_that_has_filled_up_meanwhile_needs_a_trainer_that_has_not_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = Places(home=tmp_path / "home", private=tmp_path / "private")
    monkeypatch.setenv(compile_cache.VARIABLE, compile_cache.environment(places)[compile_cache.VARIABLE])
    monkeypatch.setattr(standby, "find_places", lambda: places)
    (tmp_path / "spec.toml").write_text(to_toml(RunSpec(exercise="softmax")))
    assert standby.fits(StartGuard(folder=str(tmp_path), attempt=1))
    monkeypatch.setattr(compile_cache, "_ROOM_BYTES", 1 << 62)
    assert not standby.fits(StartGuard(folder=str(tmp_path), attempt=1))
