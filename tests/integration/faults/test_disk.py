"""A disk without room, for real: a small file system of the test's own that something else fills up."""

from __future__ import annotations

import io
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from clew_gui.commands.context import CommandContext
from clew_gui.commands.run import own_agent
from clew_gui.commands.run.own_agent import OwnRun, own_session
from clew_shared.base.problem import ProblemError
from clew_shared.journal.events import State
from clew_shared.journal.files import Record, read_journal
from clew_shared.journal.lifecycle import RunState
from clew_shared.reading import read_run
from clew_shared.spec import RunSpec
from tests.integration.agents import BOUND_S
from tests.integration.faults.disks import MountedDisk
from tests.integration.faults.lab import Lab
from tests.integration.faults.oracle import judge
from tests.integration.faults.programs import PROGRAM
from tests.stand_in.engine import CATALOGUE

pytestmark = pytest.mark.needs("small-disk")

ENDLESS = {"steps": 1_000_000, "block": 500, "pause": 0.005}
SIZE = 8 << 20


class Disk(MountedDisk):
    """A file system of ``SIZE`` bytes at ``path``, and a file that fills it up."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs")
        self._ballast = path / ".ballast"

    @property
    def room(self) -> int:
        """Bytes that are left."""
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def fill(self, leave: int = 0) -> None:
        """Take the room but for ``leave`` bytes."""
        with self._ballast.open("ab") as file:
            while self.room > leave:
                with suppress(OSError):  # somebody else took some in between
                    os.posix_fallocate(file.fileno(), 0, self._size() + self.room - leave)

    def free(self) -> None:
        """Give the room back."""
        self._ballast.unlink(missing_ok=True)

    def _size(self) -> int:
        return self._ballast.stat().st_size if self._ballast.exists() else 0


@pytest.fixture
def disk(home: Path) -> Iterator[Disk]:
    """The disk of the run folders; it goes when the lab has ended."""
    disk = Disk(home / "runs")
    yield disk
    disk.close()


def reasons(lab: Lab, run: str) -> list[tuple[RunState, str]]:
    """The states in the journal with their reasons."""
    events = [item.event for item in read_journal(lab.folder(run).journal(1)) if isinstance(item, Record)]
    return [(event.state, event.reason) for event in events if isinstance(event, State)]


def test_a_full_disk_pauses_training_says_so_and_training_goes_on_when_there_is_room(disk: Disk, lab: Lab) -> None:
    viewer = lab.viewer()
    for _ in lab.chance.rounds(1, 10):
        run = viewer.start(**ENDLESS)
        lab.trained(run, 100)
        disk.fill(leave=lab.dice.randrange(0, 50_000))
        lab.shown(run, RunState.PAUSED)
        assert viewer.model(run).reason == "Waiting for the disk: No space left on device"
        steps = lab.steps(run)
        lab.rest(0.5)
        assert lab.steps(run) == steps, "an unrecorded step does not exist"
        disk.free()
        lab.trained(run, steps + 1000)
        viewer.session.stop(run)
        lab.ended(run)
        assert [state for state, _ in reasons(lab, run)][-4:] == [
            RunState.RUNNING,
            RunState.PAUSED,
            RunState.RUNNING,
            RunState.STOPPED,
        ]
        judge(lab, run, RunState.STOPPED, "on request")


def test_a_trainer_that_dies_while_the_disk_is_full_is_sealed_when_there_is_room(disk: Disk, lab: Lab) -> None:
    viewer = lab.viewer()
    for _ in lab.chance.rounds(1, 10):
        run = viewer.start(**ENDLESS)
        lab.trained(run, 100)
        disk.fill()
        lab.shown(run, RunState.PAUSED)
        lab.rest(lab.dice.random())
        disk.fill()
        assert lab.kill("trainer", run)
        lab.wait(lambda run=run: lab.process("guard", run) is None, "the guard's end")  # type: ignore[misc]
        disk.free()
        lab.ended(run)
        judge(lab, run, RunState.FAILED)
        viewer.session.continue_run(run)
        lab.trained(run, 100, attempt=2)
        viewer.session.stop(run)
        lab.shown(run, RunState.STOPPED)
        judge(lab, run, RunState.STOPPED, "on request")


def test_a_viewer_whose_disk_is_full_says_so_and_goes_on_when_there_is_room(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew_gui.session.links.fetcher._DISK_AGAIN_S", 0.2)
    mirrors = Disk(lab.places.home / "viewer-0")
    try:
        viewer = lab.viewer()
        run = viewer.start(**ENDLESS)
        lab.wait(lambda: viewer.model(run).history.fold.step > 100, "points")
        mirrors.fill(leave=lab.dice.randrange(0, 50_000))
        lab.wait(lambda: viewer.problems, "a word about it")
        assert [found.code for found in viewer.problems] == ["mirror.write"]
        viewer.problems.clear()
        lab.trained(run, lab.steps(run) + 1000)
        mirrors.free()
        viewer.session.stop(run)
        lab.ended(run)
        judge(lab, run, RunState.STOPPED, "on request")
    finally:
        lab.close_viewers()
        mirrors.close()


def test_a_command_whose_home_is_full_trains_into_a_folder_elsewhere(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Disk(tmp_path / "full")
    try:
        home.fill()
        monkeypatch.setenv("CLEW_HOME", str(home.path))
        words = (*PROGRAM, "clew", "run", "stand-in", "--steps", "100", "--out", str(tmp_path / "run"))
        done = subprocess.run(words, capture_output=True, text=True, timeout=BOUND_S, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    finally:
        home.close()


def test_a_command_without_room_for_its_copy_says_so_and_ends_with_the_run(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_agent, "agent_program", lambda _: [*PROGRAM])
    monkeypatch.setattr(own_agent, "_COPY_S", 0.5)
    copies = Disk(tmp_path / "copies")
    monkeypatch.setattr(tempfile, "tempdir", str(copies.path))
    context = CommandContext(lab.places, io.StringIO(), said := io.StringIO())
    spec = RunSpec(exercise="stand-in", params={**ENDLESS})
    try:
        with own_session(context, CATALOGUE) as own:
            run = OwnRun(context, own, own.session.start_run(spec), as_json=False)
            while run.history.fold.step < 100:
                run.turn()
            copies.fill()
            while not said.getvalue():
                run.turn()
                run.report_aside()
            run.stop()
            while not run.complete():
                run.turn()
            with pytest.raises(ProblemError, match="The run has ended, and is kept in"):
                run.raise_refusal()
        assert read_run(run.folder).fold.state is RunState.STOPPED
    finally:
        copies.close()
