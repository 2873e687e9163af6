"""A run whose memory is nearly used up says so before the kernel kills it: in a real control group."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew_shared.journal.events import Log, State
from clew_shared.journal.lifecycle import RunState
from clew_shared.reading import read_run
from tests.integration.agent_runs import LIMIT_S, events
from tests.needs import memory_group

LIMIT = 256 << 20
GUARD = """
import os, sys
from pathlib import Path
Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
from clew_agent.processes import guard
guard.trainer_command = lambda folder, attempt, _: [sys.executable, "-c", sys.argv[3], str(folder)]
sys.exit(guard.main([sys.argv[2]]))
"""
TRAINER = """
import sys, time
from pathlib import Path
from clew_agent.node.pulse.sources import Memory
from clew_agent.node.pulse.spool import GuardSamples
from clew_agent.trainer.recorder import Recorder, Reserve
from clew_agent.processes.guard import _first
from clew_shared.base import operating_system
from clew_shared.journal.files import JournalWriter
from clew_shared.journal.run_folder import RunFolder

operating_system.end_before_others()
folder = RunFolder(Path(sys.argv[1]))
writer = JournalWriter.create(folder.journal(1))
recorder = Recorder(writer, Reserve(folder.path / ".reserve"), beside=GuardSamples(folder, 1).events)
recorder.start()
recorder.put(_first(folder, 1))
memory, eaten = Memory(), []
while b"nearly used up" not in folder.journal(1).read_bytes():
    found = memory.read(0.0)
    if found["memory_used"] < 0.93 * found["memory_limit"]:
        eaten.append(bytearray(b"x" * (4 << 20)))
    time.sleep(0.02)
while True:
    eaten.append(bytearray(b"x" * (4 << 20)))
"""


@pytest.fixture
def group() -> Iterator[Path]:
    with memory_group(LIMIT) as folder:
        yield folder


@pytest.mark.needs("memory-group")
def test_it_is_said_before_the_kill(group: Path, tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "spec.toml").write_text('exercise = "softmax"\n')
    command = [sys.executable, "-c", GUARD, str(group), str(folder), TRAINER]
    done = subprocess.run(command, timeout=LIMIT_S, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    found = events(folder)
    places = {type(event): place for place, event in enumerate(found) if isinstance(event, Log | State)}
    said = found[places[Log]]
    assert isinstance(said, Log)
    assert said.text.startswith("Memory is nearly used up: ")
    assert said.text.endswith("of 268 MB. If it runs out, the run is killed; a smaller batch size needs less.")
    assert places[Log] < places[State]
    history = read_run(folder)
    assert history.fold.state is RunState.FAILED
    assert history.fold.reason.startswith("The machine ran out of memory and killed the trainer (SIGKILL).")
    assert [log.text for log in history.logs] == [said.text], "once"
    peak = history.pulse.processes["trainer"].column("memory_used").max()
    assert peak > 0.9 * LIMIT
