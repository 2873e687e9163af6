"""Bytes that are not what was written: a frame that was torn off, bits that flipped, on the node and in a mirror."""

from __future__ import annotations

from pathlib import Path

from clew_shared.journal.events import Points
from clew_shared.journal.files import Record, encode_frame, read_journal
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.verify import verify_run
from clew_shared.reading import read_run
from tests.integration.faults.lab import Lab, Viewer
from tests.integration.faults.oracle import judge

RUN = {"steps": 300, "pause": 0.02}


def flip(lab: Lab, path: Path, start: float = 0.0, end: float = 1.0) -> int:
    """Flip some bits of one frame of points between these shares of the file; the frame's first step."""
    frames = [item for item in read_journal(path) if isinstance(item, Record) and isinstance(item.event, Points)]
    record = lab.dice.choice(frames[int(start * len(frames)) : int(end * len(frames))])
    with path.open("r+b") as file:
        for _ in range(lab.dice.randrange(1, 9)):
            place = record.offset + lab.dice.randrange(record.size)
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 1 << lab.dice.randrange(8)]))
    assert isinstance(record.event, Points)
    return record.event.first


def test_a_torn_tail_is_passed_over_and_everything_around_it_counts(judged_lab: Lab) -> None:
    """The machine loses its power in the middle of a write: nobody is left, and half a frame is on the disk."""
    lab = judged_lab
    viewer = lab.viewer()
    for _ in lab.chance.rounds(1, 10):
        run = viewer.start(**RUN | {"steps": 1_000_000})
        lab.trained(run, lab.dice.randrange(1, 200))
        for role in ("supervisor", "guard", "trainer"):
            assert lab.kill(role, run)
        frame = encode_frame(Points(schema=1, first=0, count=10, seconds=1, clock=1, values=(b"\x3f" * 40,)))
        with lab.folder(run).journal(1).open("ab") as file:
            file.write(frame[: lab.dice.randrange(1, len(frame))])
        lab.ended(run)
        history = judge(lab, run, RunState.FAILED, "both stopped without a message", damaged="no intact frame")
        assert history.column("loss").steps.tolist() == list(range(history.fold.step))


def test_flipped_bits_on_the_node_are_found_and_a_viewer_that_had_the_bytes_keeps_them(lab: Lab) -> None:
    viewer = lab.viewer()
    for _ in lab.chance.rounds(1, 10):
        run = viewer.start(**RUN)
        lab.trained(run, 150)
        lab.wait(lambda run=run: viewer.model(run).history.fold.step >= 150, "the points")  # type: ignore[misc]
        flip(lab, lab.folder(run).journal(1), 0.0, 0.5)
        lab.ended(run)
        lab.wait(lambda run=run: viewer.model(run).history.fold.sealed, "the seal")  # type: ignore[misc]
        assert viewer.model(run).history.column("loss").steps.size == RUN["steps"]
        assert viewer.problems == [], "what is here is what was written"
        mirror = viewer.mirrors / run
        assert read_run(mirror).damages == []
        findings = verify_run(lab.folder(run).path).findings
        assert findings
        assert {finding.file for finding in findings} == {"journal.0001"}


def opened_later(lab: Lab, run: str) -> Viewer:
    """A viewer that has nothing of the run yet, when it has what the node has."""
    later = lab.viewer()
    lab.wait(lambda: run in later.session.runs and later.model(run).history.fold.sealed, "the seal")
    return later


def told_of(viewer: Viewer, run: str) -> list[str]:
    """What the viewer said about this run; runs of earlier rounds are damaged as well."""
    return [found.code for found in viewer.problems if run in found.text]


def test_flipped_bits_on_the_node_leave_a_gap_in_the_curve_and_nothing_else(lab: Lab) -> None:
    lab.viewer()
    for _ in lab.chance.rounds(1, 10):
        run = lab.viewers[0].start(**RUN)
        lab.ended(run)
        judge(lab, run, RunState.FINISHED)
        first = flip(lab, lab.folder(run).journal(1), 0.2, 0.8)
        later = opened_later(lab, run)
        lab.wait(lambda later=later, run=run: len(told_of(later, run)) > 1, "a word, before and after a second look")  # type: ignore[misc]
        lab.wait(lambda later=later, run=run: later.model(run).history.fold.sealed, "the seal once more")  # type: ignore[misc]
        assert told_of(later, run) == ["mirror.seal", "mirror.node"]
        steps = later.model(run).history.column("loss").steps.tolist()
        assert sorted({*range(300)} - {*steps}) == list(range(first, first + 10))
        assert later.model(run).state is RunState.FINISHED
        assert later.model(run).history.damages
        node = lab.folder(run).journal(1).read_bytes()
        assert (later.mirrors / run / "journal.0001").read_bytes() == node
        lab.viewers.remove(later)
        later.close()


def test_flipped_bits_in_a_mirror_are_replaced_by_the_nodes(judged_lab: Lab) -> None:
    lab = judged_lab
    viewer = lab.viewer()
    for _ in lab.chance.rounds(1, 10):
        run = viewer.start(**RUN | {"steps": 100_000})  # it must still train when the bits are flipped
        lab.trained(run, 150)
        lab.wait(lambda run=run: viewer.model(run).history.fold.step >= 150, "the points")  # type: ignore[misc]
        flip(lab, viewer.mirrors / run / "journal.0001", 0.0, 0.5)
        viewer.session.stop(run)
        lab.ended(run)
        lab.wait(lambda: viewer.problems, "a word about it")
        assert {found.code for found in viewer.problems} == {"mirror.seal"}
        viewer.problems.clear()
        (damaged,) = (viewer.mirrors / run).glob("damaged.*")
        damaged.unlink()
        judge(lab, run, RunState.STOPPED)
