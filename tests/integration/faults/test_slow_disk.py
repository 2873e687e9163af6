"""A disk that answers after seconds, for real: a small file system of the test's own that is frozen meanwhile."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew_shared.journal.lifecycle import TERMINAL, RunState
from tests.integration.faults.disks import MountedDisk
from tests.integration.faults.lab import Lab
from tests.integration.faults.oracle import judge

pytestmark = pytest.mark.needs("slow-disk")

ENDLESS = {"steps": 1_000_000, "block": 500, "pause": 0.005}
SIZE = 64 << 20
_FREEZE = 'fsfreeze --freeze "$1" && echo frozen && sleep "$2" && fsfreeze --unfreeze "$1"'
"""In a process of its own, which lets the disk answer again whatever becomes of the test."""


class SlowDisk(MountedDisk):
    """A file system at ``path`` in which nothing can be written for as long as it is told."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        image = path.with_suffix(".image")
        with image.open("wb") as file:
            file.truncate(SIZE)
        subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
        super().__init__(path, "-o", "loop", str(image))
        (path / "lost+found").rmdir()
        self._frozen: subprocess.Popen[bytes] | None = None

    def freeze(self, seconds: float) -> None:
        """Whoever writes there waits until so many seconds are over."""
        words = ["sh", "-c", _FREEZE, "sh", str(self.path), str(seconds)]
        self._frozen = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert self._frozen.stdout is not None
        assert self._frozen.stdout.readline() == b"frozen\n"

    @property
    def answers(self) -> bool:
        """Whether it has been thawed."""
        return self._frozen is None or self._frozen.poll() == 0

    def close(self) -> None:
        """Take it away when it answers."""
        if self._frozen is not None:
            self._frozen.communicate()
        super().close()


@pytest.fixture
def disk(home: Path) -> Iterator[SlowDisk]:
    """The disk of the run folders; it goes when the lab has ended."""
    disk = SlowDisk(home / "runs")
    yield disk
    disk.close()


def pause(lab: Lab) -> float:
    """Seconds: a moment, and in a soak also longer than a link may be silent."""
    return lab.dice.uniform(2, 4) if not lab.chance.soak else lab.dice.uniform(2, 25)


def test_a_disk_that_does_not_answer_holds_training_up_and_no_step_is_lost(disk: SlowDisk, lab: Lab) -> None:
    viewer = lab.viewer()
    for _ in lab.chance.rounds(1, 5):
        run = viewer.start(**ENDLESS)
        lab.trained(run, 100)
        disk.freeze(pause(lab))
        lab.rest(0.5)
        other = viewer.start(steps=1000)
        steps = lab.steps(run)
        lab.wait(lambda: disk.answers, "its answer")
        assert viewer.model(run).state is RunState.RUNNING, "that nothing comes is no failure"
        lab.trained(run, steps + 1000)
        viewer.session.stop(run)
        for one, state in ((run, RunState.STOPPED), (other, RunState.FINISHED)):
            lab.wait(lambda one=one: viewer.model(one).state in TERMINAL, "its end")  # type: ignore[misc]
            judge(lab, one, state)


def test_a_trainer_killed_while_its_disk_does_not_answer_is_sealed_and_continued(disk: SlowDisk, lab: Lab) -> None:
    viewer = lab.viewer()
    for _ in lab.chance.rounds(1, 5):
        run = viewer.start(**ENDLESS)
        lab.trained(run, 100)
        trainer = lab.wait(lambda run=run: lab.process("trainer", run), "the trainer")  # type: ignore[misc]
        disk.freeze(pause(lab))
        lab.rest(lab.dice.random())
        trainer.kill()
        lab.tally.add("kills")
        lab.ended(run)
        judge(lab, run, RunState.FAILED)
        viewer.session.continue_run(run)
        lab.trained(run, 100, attempt=2)
        viewer.session.stop(run)
        lab.shown(run, RunState.STOPPED)
        judge(lab, run, RunState.STOPPED, "on request")


def test_a_viewer_whose_disk_does_not_answer_has_every_byte_later(lab: Lab) -> None:
    mirrors = SlowDisk(lab.places.home / "distant-0")
    try:
        viewer, slow = lab.viewer(), lab.distant_viewer()
        for _ in lab.chance.rounds(1, 5):
            run = viewer.start(**ENDLESS)
            lab.wait(lambda run=run: slow.taken(run), "the first bytes")  # type: ignore[misc]
            mirrors.freeze(pause(lab))
            lab.trained(run, lab.steps(run) + 1000)
            assert viewer.live, "nobody else waits for it"
            viewer.session.stop(run)
            lab.ended(run)
            judge(lab, run, RunState.STOPPED, "on request")
    finally:
        lab.close_viewers()
        mirrors.close()
