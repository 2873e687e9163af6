"""``clew class`` for a course that is followed: its board and its hand-ins in one table, once or again each minute."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.table import Table

from clew_gui.commands.agent_program import cards
from clew_gui.commands.context import FAILED, OK, CommandContext
from clew_gui.commands.reports.report import write_text
from clew_gui.commands.sites.connections import site_connections
from clew_gui.courses.class_view import EACH_S, ClassReader, StudentRow, class_table, class_words, shortened
from clew_gui.courses.shared_folder import folder_of
from clew_gui.courses.store import Courses
from clew_gui.reports.check import HandinVerdict
from clew_shared.base.harmless import csv_text, on_one_line
from clew_shared.base.problem import ProblemError
from clew_shared.cards import ExerciseCard


def class_of_course(
    context: CommandContext, options: argparse.Namespace, check: Callable[[Path], HandinVerdict]
) -> int:
    """Show the class of the followed course; again each minute with ``--live``. The exit status is 1 where a hand-in is
    not as it was recorded."""
    course = Courses(context.places).followed("board", "hand_in")
    with site_connections(context.places) as connect:
        known = cards(context.places, None, [one.id for _, one in course.assigned()]).exercises
        reader = ClassReader(course, known, lambda text: folder_of(course.id, text, connect), check)
        while True:
            try:
                rows = reader.look(time.time())
                _show(context, reader, known, rows, options)
                if not options.live or options.json:
                    return OK if all(one.ok for row in rows for one in row.handed) else FAILED
            except ProblemError as error:
                if not options.live:
                    raise
                context.report(error.problems[0])
            time.sleep(EACH_S)


def _show(
    context: CommandContext,
    reader: ClassReader,
    known: Sequence[ExerciseCard],
    rows: Sequence[StudentRow],
    options: argparse.Namespace,
) -> None:
    if options.json:
        about = {"course": reader.course.id, "time": time.time(), "queue": reader.queue, "more": reader.more}
        context.say_json(about | {"students": rows})
        return
    heads, *lines = texts = class_table(rows, known, names=not options.no_names)
    if options.csv:
        write_text(Path(options.csv).expanduser(), csv_text(texts))
    table = Table(*heads, box=None, pad_edge=False, header_style="bold")
    for cells in lines:
        table.add_row(*map(on_one_line, cells))
    context.say(f"{reader.course.title}: {class_words(rows, reader)}")
    context.console().print(table)
    for row in () if options.no_names else rows:
        for note in shortened([*row.notes, *(f"{one.file}: {text}" for one in row.handed for text in one.notes)]):
            context.say(on_one_line(f"{row.name}: {note}"))
    if reader.more:
        context.note(f"{reader.more:,} more files are not read. Remove those that are not of the class.")
