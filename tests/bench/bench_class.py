"""The board of a class of 200: what a student's part costs, and each look of the teacher's view.

Students share curves of 50 points of three runs at the same time, a line every 20 s, for the minutes of a lesson; the
folder is on this computer, so that there is no network in it: `SharedFolder` answers as it does on a site, and bytes
are those of its answers. A look reads what is new, folds it, and makes the table. Memory is what the board holds.
Limits: one process on a quiet core; a site adds its round trip, once for each look.
"""

from __future__ import annotations

import tempfile
import time
import tracemalloc
from pathlib import Path
from statistics import median

from clew_gui.courses.board import Board, BoardLine, Sharing
from clew_gui.courses.class_view import class_table, class_view
from clew_gui.courses.course import Assigned, Course, Lesson, read_place
from clew_gui.courses.shared_folder import SharedFolder
from clew_shared.catalogue import load_builtin
from tests.bench.measure import Measured, Table, machine, short

STUDENTS, MINUTES, NOW = 200, 30, 1_800_000_000.0
_CURVE = tuple((step, step / 50) for step in range(50))


def _lines(minute: float, exercises: tuple[str, ...]) -> list[BoardLine]:
    """What a student's three runs look like at this minute; each fourth of an hour they begin again."""
    words = {"state": "RUNNING", "steps": 1000, "metric": "Test accuracy", "best": 0.9, "points": _CURVE}
    runs = ((f"{minute // 15:.0f}-{one}", one) for one in exercises[:3])
    step = int(60 * (minute % 15))
    return [
        BoardLine(time=NOW + 60 * minute, exercise=one, run=run[:8] + one[:8], step=step, **words)  # type: ignore[arg-type]
        for run, one in runs
    ]


def report(rounds: int, quick: bool) -> Measured:
    """A lesson of a class, minute by minute."""
    students = 20 if quick else STUDENTS
    cards = load_builtin().exercises
    exercises = tuple(card.id for card in cards)
    lesson = Lesson(title="All", exercises=tuple(Assigned(id=one) for one in exercises))
    course = Course(format=1, id="all", title="All", lessons=(lesson,))
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as place:
        folder = SharedFolder(read_place(str(Path(place, "board"))))
        folder.make()
        sharing = [Sharing(Path(place, f"student-{number}"), "b") for number in range(students)]
        for number, one in enumerate(sharing):
            one.join(f"Student {number}", True, NOW)
        board, looks, parts, sizes = Board(folder), list[float](), list[float](), list[int]()
        tracemalloc.start()
        for minute in range(MINUTES):
            before = sum(path.stat().st_size for path in Path(folder.place.path).iterdir())
            for one in sharing:
                begun = time.perf_counter()
                for part in (0, 1 / 3, 2 / 3):
                    one.note(_lines(minute + part, exercises))
                one.send(folder)
                parts.append(time.perf_counter() - begun)
            sizes.append(sum(path.stat().st_size for path in Path(folder.place.path).iterdir()) - before)
            begun = time.perf_counter()
            board.refresh()
            rows = class_view(course, cards, board.members.values(), (), NOW)
            class_table(rows, cards, names=True)
            looks.append(time.perf_counter() - begun)
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    head = ("what", "seconds", "bytes a minute", "memory")
    table = [
        (f"teacher's look, {students} students", short(median(looks)), f"{median(sizes):,.0f}", f"{held / 1e6:.0f} MB"),
        ("a student's part, a minute", short(median(parts)), f"{median(sizes) / students:,.0f}", ""),
    ]
    conditions = f"{machine()}. {MINUTES} minutes of a lesson, once."
    return Measured(conditions, (Table("", head, table),))
