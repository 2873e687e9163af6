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
from clew_gui.courses.board import Board
from clew_gui.courses.class_view import HandInFolder, StudentRow, class_table, class_view
from clew_gui.courses.course import Course
from clew_gui.courses.shared_folder import folder_of
from clew_gui.courses.store import Courses
from clew_gui.reports.check import HandinVerdict
from clew_shared.base.harmless import on_one_line
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
    heads, *lines = class_table(rows, known, names=not options.no_names)
    table = Table(*heads, box=None, pad_edge=False, header_style="bold")
    for cells in lines:
        table.add_row(*map(on_one_line, cells))
    context.say(f"{course.title}: {len(rows)} students, {sum(bool(row.stuck) for row in rows)} stuck")
    context.console().print(table)
    for row in () if options.no_names else rows:
        for note in (*row.notes, *(f"{one.file}: {text}" for one in row.handed for text in one.notes)):
            context.say(on_one_line(f"{row.name}: {note}"))
