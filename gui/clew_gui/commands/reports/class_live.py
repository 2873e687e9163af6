"""``clew class`` for a course that is followed: its board and its hand-ins in one table, once or again each minute."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.table import Table

from clew_gui.commands.agent_program import cards
from clew_gui.commands.context import FAILED, OK, CommandContext
from clew_gui.commands.sites.connections import site_connections
from clew_gui.courses.board import Board, headline
from clew_gui.courses.class_view import HandInFolder, StudentRow, class_view
from clew_gui.courses.course import Course
from clew_gui.courses.shared_folder import folder_of
from clew_gui.courses.store import Courses
from clew_gui.reports.check import HandinVerdict
from clew_shared.base.harmless import on_one_line
from clew_shared.base.number_words import duration, quantity
from clew_shared.base.problem import problem
from clew_shared.cards import ExerciseCard

EACH_S = 60.0
"""Seconds between two looks, as often as sites are asked for jobs."""


def class_of_course(
    context: CommandContext, options: argparse.Namespace, check: Callable[[Path], HandinVerdict]
) -> int:
    """Show the class of the followed course; again each minute with ``--live``. The exit status is 1 where a hand-in is
    not as it was recorded."""
    course = Courses(context.places).current()
    if course is None or not (course.board or course.hand_in):
        text = "No course with a board or a folder for hand-ins is followed here."
        raise problem("class.folder", text, "Name the folder of the hand-ins, or open the course.", "course")
    with ExitStack() as stack:
        connect = site_connections(context.places, stack)
        board = Board(folder_of(course, course.board, connect)) if course.board else None
        files = HandInFolder(course, folder_of(course, course.hand_in, connect), check) if course.hand_in else None
        known = cards(context.places, None, with_course=True).exercises
        while True:
            if board is not None:
                board.refresh()
            handed = files.refresh() if files is not None else []
            members = board.members.values() if board is not None else ()
            rows = class_view(course, known, members, handed, time.time())
            _show(context, course, known, rows, options)
            if not options.live or options.json:
                return OK if all(one.ok for one in handed) else FAILED
            time.sleep(EACH_S)


def _show(
    context: CommandContext,
    course: Course,
    known: Sequence[ExerciseCard],
    rows: Sequence[StudentRow],
    options: argparse.Namespace,
) -> None:
    if options.json:
        context.say_json({"course": course.id, "time": time.time(), "students": rows})
        return
    now = time.time()
    table = Table(box=None, pad_edge=False, header_style="bold")
    used = [card for card in known if any(card.id in row.cells for row in rows)]
    for title in ("Student", "Account", *(card.title for card in used), "Stuck", "Handed in", "Seen"):
        table.add_column(title)
    for number, row in enumerate(rows, 1):
        name = f"Student {number}" if options.no_names else row.name
        seen = f"{duration(round(now - row.seen))} ago" if row.seen else ""
        handed = "; ".join(filter(None, (", ".join(filter(None, (one.checked, one.late))) for one in row.handed)))
        cells = (name, "" if options.no_names else row.owner, *(cell_words(row, card) for card in used))
        table.add_row(*map(on_one_line, (*cells, row.stuck, handed, seen)))
    context.say(f"{course.title}: {len(rows)} students, {sum(bool(row.stuck) for row in rows)} stuck")
    context.console().print(table)
    for row in () if options.no_names else rows:
        for note in (*row.notes, *(f"{one.file}: {text}" for one in row.handed for text in one.notes)):
            context.say(on_one_line(f"{row.name}: {note}"))


def cell_words(row: StudentRow, card: ExerciseCard) -> str:
    """A student's work on an exercise in a few words: ``running 40 %, 91.2 %, 1 of 2``."""
    cell = row.cells.get(card.id)
    if cell is None:
        return ""
    metric = headline(card)
    best = quantity(cell.best, metric.format) if cell.best is not None and metric is not None else ""
    done = f" {cell.done:.0%}" if cell.state == "RUNNING" and cell.done else ""
    goals = f"{cell.goals} of {len(card.goals)}" if card.goals else ""
    return ", ".join(filter(None, (f"{cell.state.lower()}{done}", best, goals)))
