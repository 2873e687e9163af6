"""The real nursery: what it is made of, what it starts, and that a run in it is the same run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import zmq

from clew_agent.processes.guard_mark import guard_pid
from clew_agent.trainer import compile_cache
from clew_shared.base.places import find_places
from clew_shared.journal.events import Attempt, Evaluation, Points, Seal, State
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.verify import verify_run
from clew_shared.spec import RunSpec
from clew_shared.wire.messages import Pause
from tests.integration.agent_runs import LONG, agent, command, events, trained, trainer_of, wait_for, write_spec
from tests.integration.agents import Agent, Viewer
from tests.integration.agents import wait_for as wait_until

pytestmark = pytest.mark.needs("fork")

MADE_OF = """
import json, os, sys
from clew_agent.processes.nursery import WarmImports
import numpy as np
from clew_agent.catalogue import lookup
from clew_shared.base import operating_system as posix
from clew_shared.base.places import find_places
from clew_shared.journal.run_folder import RunFolder
from clew_shared.spec import (RunSpec, to_toml)
warm = WarmImports()
warm.keep_data()
from clew_agent.training import images  # an exercise may import it in a copy, before all else
(kept,) = warm.data.kept
place = kept.train.x.ctypes.data
folder = RunFolder(find_places().runs / "9e107d9d-372b-4a25-9b3c-000000000004")
folder.path.mkdir(parents=True)
folder.spec.write_text(to_toml(RunSpec(exercise="softmax", run=folder.path.name, data=kept.name)))
def see_data(exercise, settings, seed, data, **_):
    os._exit(7 if data is kept and data.train.x.ctypes.data == place else 8)
def train():
    from clew_agent.training import engine
    engine.Engine = see_data
    return warm.train(folder, 1, None)
given = os.waitstatus_to_exitcode(os.waitpid(posix.fork(train).pid, 0)[1])
warm._train = lambda *_, **__: int(np.random.randint(200))
warm._peer = lambda *_: int(np.random.randint(200))
copies = [posix.fork(work) for work in [lambda: warm.train(folder, 1, None), lambda: warm._be_peer([])] * 4]
draws = {os.waitpid(copy.pid, 0)[1] for copy in copies}
from tensorflow.python.eager import context
print(json.dumps({
    "threads": len(os.listdir("/proc/self/task")),
    "tensorflow": "tensorflow" in sys.modules and "keras" in sys.modules,
    "exercises": [name for name in sys.modules if name.startswith("clew_agent.exercises.")],
    "computed": context.context()._initialized,
    "data": len(warm.data.kept),
    "cards": lookup.builtin_cards.cache_info().currsize,
    "draws": len(draws),
    "given": {7: "what was kept", 8: "read again"}.get(given, given),
}))
"""
TWO_THREADS = """
import sys, threading
from clew_agent.processes.nursery import Nursery
from clew_agent.processes.nursery_messages import (StartGuard, receive_reply, send)
from clew_shared.base import operating_system
ours, theirs = operating_system.packet_pair()
threading.Thread(target=threading.Event().wait, daemon=True).start()
send(ours, StartGuard(folder=sys.argv[1], attempt=1))
ours.shutdown(1)
Nursery(theirs, None).run()
print(receive_reply(ours))
"""

NOBODY_WAITS = """
from clew_agent.processes import nursery
from clew_agent.processes.nursery_messages import (StartGuard, send)
from clew_shared.base import operating_system
ours, theirs = operating_system.packet_pair()
send(ours, StartGuard(folder="/nowhere", attempt=1))
ours.close()
nursery.WarmImports = None
nursery.main(["--channel", str(theirs.detach())])
print("nothing imported")
"""


@pytest.fixture
def serving() -> Iterator[Callable[..., tuple[Agent, Viewer]]]:
    agents: list[Agent] = []
    viewers: list[Viewer] = []
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()

    def start(*words: str) -> tuple[Agent, Viewer]:
        agents.append(Agent(command("serve", *words)))
        viewers.append(Viewer(context, agents[-1].address()))
        return agents[-1], viewers[-1]

    yield start
    for viewer in viewers:
        viewer.close()
    context.destroy(linger=0)
    for each in agents:
        if each.process.poll() is None:
            each.end()


def one_thread() -> dict[str, str]:
    return {**psutil.Process().environ(), "OPENBLAS_NUM_THREADS": "1"}


def test_it_has_computed_nothing_and_its_copies_share_its_data_and_draw_numbers_of_their_own(home: Path) -> None:
    words, env = [sys.executable, "-c", MADE_OF], one_thread() | {"CLEW_HOME": str(home)}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=env, timeout=100)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("draws") > 1, "NumPy's own generator has no seed in any run or peer"
    assert found.pop("given") == "what was kept", "the memory of the data set that a trainer in a copy gets"
    assert found == {"threads": 1, "tensorflow": True, "exercises": [], "computed": False, "data": 1, "cards": 1}


def test_with_a_second_thread_it_refuses(tmp_path: Path) -> None:
    words = [sys.executable, "-c", TWO_THREADS, str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=100)
    assert "reason='The nursery has 2 threads.', last=True" in done.stdout
    assert not (tmp_path / "run").exists()


def test_it_imports_nothing_for_a_supervisor_that_died_before_the_kernel_was_asked_to_tell(home: Path) -> None:
    done = subprocess.run([sys.executable, "-c", NOBODY_WAITS], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("nothing imported\n", 0), done.stderr


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 30 steps in a fresh interpreter."""
    folder = tmp_path_factory.mktemp("alone")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEW_HOME", str(folder / "home"))
        spec = write_spec(folder, "softmax", data="digits", params={"steps": 30})
        assert agent("run", spec, "--out", folder / "run", fresh=True).returncode == 0
    return folder / "run"


def test_a_run_in_it_is_the_same_run(alone: Path, serving: Callable[..., tuple[Agent, Viewer]]) -> None:
    server, viewer = serving()
    folder = find_places().runs
    spec = RunSpec(exercise="softmax", run="9e107d9d-372b-4a25-9b3c-000000000001", data="digits", params={"steps": 30})
    viewer.start(spec)
    viewer.wait_state(spec.run, RunState.FINISHED)
    viewer.journal(spec.run)
    assert verify_run(folder / spec.run).findings == ()
    assert "Starting -P -m clew_agent guard" not in server.log.read_text(), "no interpreter was started for it"
    assert curve(folder / spec.run) == curve(alone)
    assert held_out(folder / spec.run) == held_out(alone)


def test_a_run_that_a_standby_takes_is_the_same_run(alone: Path, serving: Callable[..., tuple[Agent, Viewer]]) -> None:
    server, viewer = serving("--no-fork")
    waiting = wait_until(lambda: titled(server, "clew-agent trainer standby"), "a standby that is ready")
    spec = RunSpec(exercise="softmax", run="9e107d9d-372b-4a25-9b3c-000000000003", data="digits", params={"steps": 30})
    viewer.start(spec)
    viewer.wait_state(spec.run, RunState.FINISHED)
    viewer.journal(spec.run)
    folder = find_places().runs / spec.run
    begun = next(event for event in events(folder) if isinstance(event, Attempt))
    assert begun.pid == waiting.pid
    assert verify_run(folder).findings == ()
    assert curve(folder) == curve(alone)
    assert held_out(folder) == held_out(alone)
    another = wait_until(lambda: titled(server, "clew-agent trainer standby"), "the next one")
    server.kill()
    wait_until(lambda: not psutil.pid_exists(another.pid), "its end, with the agent's")


def titled(server: Agent, title: str) -> psutil.Process | None:
    """A descendant of the agent with this title."""
    for process in psutil.Process(server.process.pid).children(recursive=True):
        with suppress(psutil.Error):
            if " ".join(process.cmdline()).strip() == title:
                return process
    return None


def curve(folder: Path) -> list[bytes]:
    """The columns of all points, joined: blocks may be cut in other places."""
    found = [event for event in events(folder) if isinstance(event, Points)]
    return [b"".join(points.values[column] for points in found) for column in range(len(found[0].values))]


def held_out(folder: Path) -> list[dict[str, float]]:
    return [event.values for event in events(folder) if isinstance(event, Evaluation)]


def test_guard_and_trainer_outlive_nursery_and_supervisor_and_a_successor_adopts(
    serving: Callable[..., tuple[Agent, Viewer]],
) -> None:
    server, viewer = serving()
    run = "9e107d9d-372b-4a25-9b3c-000000000002"
    viewer.start(RunSpec(exercise="softmax", run=run, data="digits", params={**LONG}))
    folder = find_places().runs / run
    trainer = trainer_of(wait_for(folder, trained(10)))
    guard = psutil.Process(guard_pid(folder) or 0)
    nursery = guard.parent()
    assert trainer.ppid() == guard.pid
    assert nursery is not None
    assert nursery.ppid() == server.process.pid
    titles = [" ".join(process.cmdline()).split()[:2] for process in (nursery, guard, trainer)]
    assert titles == [["clew-agent", role] for role in ("nursery", "guard", "trainer")]
    assert len({os.getsid(process.pid) for process in (nursery, guard, trainer)}) == 3, "sessions of their own"
    server.kill()
    wait_until(lambda: not nursery.is_running() or nursery.status() == psutil.STATUS_ZOMBIE, "the nursery's end")
    before = len(events(folder))
    wait_for(folder, lambda found: len(found) > before)
    _, viewer = serving("--fresh")
    viewer.wait_state(run, RunState.RUNNING)
    viewer.ask(Pause(run=run))
    viewer.wait_state(run, RunState.PAUSED)  # who writes may be killed within a frame
    trainer.kill()
    viewer.wait_state(run, RunState.FAILED)
    viewer.journal(run)
    last = [event for event in events(folder) if isinstance(event, State)][-1]
    assert last.exit_code == -9
    assert last.problem is not None
    assert "SIGKILL" in last.problem.text
    assert verify_run(folder).findings == ()
    seal = events(folder)[-1]
    assert isinstance(seal, Seal)
    assert seal.writer == "guard"


@pytest.mark.usefixtures("warm")
def test_compiled_programs_are_kept_and_a_damaged_one_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a cache of its own: the user's may hold this very program already."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(private))

    def run(name: str) -> list[bytes]:
        spec = write_spec(tmp_path, "linear-regression", params={"steps": 40})
        assert agent("run", spec, "--out", tmp_path / name).returncode == 0
        return curve(tmp_path / name)

    first = run("first")
    kept = sorted(private.rglob("*.pb"))
    assert len(kept) == len(sorted(private.rglob("*.crc32"))) == 1
    written = kept[0].stat().st_mtime_ns
    assert run("second") == first
    assert kept[0].stat().st_mtime_ns == written, "used, not made again"
    kept[0].write_bytes(kept[0].read_bytes()[:1000])
    assert run("third") == first
    assert kept[0].stat().st_size > 1000
    assert compile_cache.VARIABLE not in psutil.Process().environ()
