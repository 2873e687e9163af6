"""``clew report``, ``clew answer`` and ``clew hand-in``: what a student makes of finished runs."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from clew_gui.base.student import keep_student, student_name
from clew_gui.commands.agent_program import cards
from clew_gui.commands.context import OK, CommandContext, Parser
from clew_gui.commands.find import RUN_HELP, find_run
from clew_gui.courses.store import Courses
from clew_gui.jobs.job_book import job_book
from clew_gui.reports.facts import RunSource, answered, keep_answer, read_answers, read_source
from clew_gui.reports.handin import digest_of, file_name, write_handin
from clew_gui.reports.page import LabReport, render, report_of
from clew_shared.base import operating_system
from clew_shared.base.installation import WINDOW, how_to_install
from clew_shared.base.problem import os_refused, problem
from clew_shared.catalogue import find_card

_REPORT = """Write a report of one or several runs: goals, figures, values, settings, environment, answers and evidence.

All of it is computed from the journals. The HTML page holds everything in one file and loads nothing."""


def report(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew report RUN… --html FILE``: says which files it wrote."""
    parser = _parser("clew report", _REPORT)
    parser.add_argument("--html", metavar="FILE", help="write one HTML page")
    parser.add_argument("--pdf", metavar="FILE", help="write a PDF; needs PySide6")
    options = parser.parse_args(list(argv))
    if not options.html and not options.pdf:
        raise problem("cli.format", "Where should the report go?", "Give --html FILE or --pdf FILE.")
    made, _ = _made(context, options.runs, options.exercises, options.student)
    if options.html:
        path = Path(options.html).expanduser()
        write_text(path, render(made))
        context.say(str(path))
    if options.pdf:
        path = Path(options.pdf).expanduser()
        _write_pdf(made, path)
        context.say(str(path))
    return OK


def _write_pdf(made: LabReport, path: Path) -> None:
    if find_spec("PySide6") is None:
        text = "A PDF needs PySide6, which is not installed."
        raise problem("report.qt", text, f"{how_to_install(*WINDOW)}. Or take --html.")
    os.environ.setdefault("QT_QPA_PLATFORM", operating_system.QT_WITHOUT_SCREEN)
    from clew_gui.views.tabs.pdf import application, write_pdf

    app = application()
    write_pdf(made, path)
    del app


_HAND_IN = """Pack the report of finished runs, their journals and specs into one file that a teacher can check.

The name is remembered: runs that are started from then on carry it, and only their student can hand them in."""


def hand_in(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew hand-in RUN… --student NAME``: says where the bundle is."""
    parser = _parser("clew hand-in", _HAND_IN)
    parser.add_argument("--out", metavar="FILE", help="the file to write (default: named after exercise and student)")
    parser.add_argument("--send", action="store_true", help="put it into the folder of the course that is followed")
    parser.add_argument("--json", action="store_true", help="one line of JSON with the file and its SHA-256")
    options = parser.parse_args(list(argv))
    made, sources = _made(context, options.runs, options.exercises, options.student)
    if not made.facts.student:
        text = "A hand-in needs the name of its student."
        raise problem("handin.student", text, 'Give it once: clew hand-in RUN --student "Anna Example".', "student")
    path = Path(options.out).expanduser() if options.out else Path(file_name(made.facts))
    course = Courses(context.places).followed("hand_in") if options.send else None
    write_handin(path, made, sources)
    receipt = None
    if course is not None:
        from clew_gui.commands.sites.connections import site_connections  # SSH is loaded there
        from clew_gui.courses.class_view import send_hand_in
        from clew_gui.courses.shared_folder import folder_of

        with site_connections(context.places) as connect:
            folder = folder_of(course.id, course.hand_in, connect)
            receipt = send_hand_in(course, folder, path, made.facts, context.places.shared(course.id), time.time())
    with path.open("rb") as file:
        digest = digest_of(file)
    if options.json:
        context.say_json(
            {"file": str(path), "sha256": digest, "goals": {g.id: g.reached for g in made.facts.goals}}
            | ({"receipt": receipt} if receipt is not None else {})
        )
        return OK
    for goal in made.facts.goals:
        context.say(f"{'[x]' if goal.reached else '[ ]'} {goal.text}")
    open_questions = sum(not one.text for exercise in made.facts.exercises for one in exercise.answers)
    if open_questions:
        have = "question has" if open_questions == 1 else "questions have"
        context.say(
            f"{open_questions} {have} no answer yet: `clew answer {made.facts.exercises[0].id}` shows what is asked."
        )
    context.say(receipt.words if receipt is not None else f"Hand in this file: {path}")
    return OK


def answer(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew answer EXERCISE [NUMBER TEXT]``: shows the questions of a guide, or answers one."""
    parser = Parser("clew answer", "Show the questions of an exercise's guide with your answers, or answer one.")
    parser.add_argument("exercise", metavar="EXERCISE", help="which exercise; `clew catalogue` lists them")
    parser.add_argument("number", metavar="NUMBER", nargs="?", type=int, help="which question, counted from 1")
    parser.add_argument("text", metavar="TEXT", nargs="?", help="the answer; it replaces an earlier one")
    parser.add_argument("--exercises", metavar="DIR", help="the folder of your own exercises, if it is one of them")
    options = parser.parse_intermixed_args(list(argv))
    card = find_card(cards(context.places, options.exercises, [options.exercise]).exercises, options.exercise)
    known = answered(card.guide, read_answers(context.places, card.id))
    if not known:
        context.say(f"The guide of {card.id} asks no questions.")
        return OK
    if options.number is None:
        for number, one in enumerate(known, 1):
            context.say(f"{number}. {one.question}\n   {one.text or '(no answer yet)'}")
        return OK
    if not 1 <= options.number <= len(known) or options.text is None:
        text = f"{card.id} has the questions 1 to {len(known)}."
        raise problem("cli.question", text, f'Write: clew answer {card.id} 1 "my answer"', "number")
    keep_answer(context.places, card.id, known[options.number - 1].question, options.text)
    is_now = "is answered" if options.text.strip() else "has no answer now"
    context.say(f"Question {options.number} of {card.id} {is_now}.")
    return OK


def _parser(name: str, about: str) -> Parser:
    parser = Parser(name, about)
    parser.add_argument("runs", metavar="RUN", nargs="+", help=RUN_HELP)
    parser.add_argument("--student", metavar="NAME", help="your name; it is remembered")
    parser.add_argument("--exercises", metavar="DIR", help="the folder of your own exercises, if a run is one of them")
    return parser


def _made(
    context: CommandContext, words: Sequence[str], exercises: str | None, name: str | None
) -> tuple[LabReport, list[RunSource]]:
    student = keep_student(context.places, name) if name else student_name(context.places)
    folders = dict.fromkeys(find_run(context.places, word) for word in words)
    sources = [read_source(folder) for folder in folders]
    known = {
        card.id: card
        for card in cards(context.places, exercises, [source.spec.exercise for source in sources]).exercises
    }
    return report_of(context.places, sources, known, student, job_book(context.places).words()), sources


def write_text(path: Path, text: str) -> None:
    """Write a file. Raises ``ProblemError`` where that is refused."""
    with os_refused("report.write", f"Cannot write {path}", "Choose another place.", str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
