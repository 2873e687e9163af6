"""``clew course``: make, check, open, list, pack and leave courses, and the folders in which a class meets."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from msgspec.structs import replace
from rich.table import Table

from clew_gui.base.kept_spec import kept_spec
from clew_gui.base.student import keep_student, student_name
from clew_gui.commands.agent_program import cards, catalogue
from clew_gui.commands.context import OK, CommandContext, Parser
from clew_gui.commands.find import KeptJobs, kept_runs
from clew_gui.commands.sites.connections import site_connections
from clew_gui.courses.board import Sharing, line_of
from clew_gui.courses.course import SharedPlace, check_exercises, read_place, site_name
from clew_gui.courses.course_file import COURSE, MAX_BYTES, SUFFIX, CourseFiles, read_course, write_course
from clew_gui.courses.shared_folder import folder_of, shared_folder
from clew_gui.courses.store import Courses, OpenCourse
from clew_shared.base.harmless import on_one_line
from clew_shared.base.problem import ProblemError, os_refused, problem, raise_all
from clew_shared.base.remedies import turn_on
from clew_shared.reading import read_run

_ABOUT = f"""A course in one file: lessons with exercises, sites, where data and hand-ins are, the board of the class.

A teacher makes a folder with {COURSE} (new), checks it (check) and packs it into a {SUFFIX} file (export). A student
opens that file (open), and the lab, reports and hand-ins follow it until another one is opened."""
_SHARE = """Share with the teacher of the followed course: your name, and of each run exercise, state, progress, best
value, goals and the last change; with --curves its curve as well. What happened since the last time is sent. Other
students cannot read it. --stop deletes all of it."""
_NEW = """\
format = 1
id = "{id}"                       # small letters, digits, - and _
title = "{title}"
teachers = ["Your Name <you@example.org>"]
text = \"\"\"
What the course is about, in Markdown.
\"\"\"
# Folders that the class shares: on a site of the course, or a network drive. `clew course board DIR` makes one.
# board = "cluster:/course/board"
# hand_in = "cluster:/course/hand-ins"

# Where a data set is; nothing is downloaded.
# [[data]]
# name = "mnist"
# path = "cluster:/course/data/mnist.npz"

[[lessons]]
title = "First steps"
# until = 2026-12-01T18:00:00+01:00
# allocation = {{ reservation = "monday", time = "30" }}

[[lessons.exercises]]
id = "linear-regression"

[[lessons.exercises]]
id = "softmax"
data = "digits"
# goals = ["accuracy"]               # those that count; without this line all
questions = ["What does the learning rate change?"]
"""


def course(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew course ACTION``."""
    parser = Parser("clew course", _ABOUT)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=Parser)

    def add(name: str, about: str, what: str) -> argparse.ArgumentParser:
        one = actions.add_parser(name, help=about, description=f"{about[:1].upper()}{about[1:]}.")
        one.add_argument("what", metavar=what.partition(" ")[0], help=what.partition(" ")[2])
        return one

    new = add("new", "make the folder of a course", "DIR which must not exist yet")
    new.add_argument("--example", choices=sorted(_examples()), help="begin with a course that comes with Clew")
    checked = add("check", "say what is wrong with a course, before the class does", f"COURSE folder or {SUFFIX} file")
    checked.add_argument("--consent", action="store_true", help="its own exercises may be run here, to check them")
    opened = add("open", "follow a course, here and in the window", f"COURSE a {SUFFIX} file, SITE:/path, or its id")
    opened.add_argument("--consent", action="store_true", help="you have read what the course adds to this computer")
    listed = actions.add_parser("list", help="list the courses that are open here", description="The open courses.")
    listed.add_argument("--json", action="store_true", help="one line of JSON")
    packed = add("export", f"pack a course into one {SUFFIX} file", "COURSE its folder, or the id of an open one")
    packed.add_argument("--out", metavar="FILE", help=f"the file (default: ID{SUFFIX})")
    left = add("leave", "forget a course; runs and answers stay", "ID of an open course")
    left.add_argument("--anyway", action="store_true", help="also where what you shared cannot be deleted")
    made = add(
        "board", "make a folder in which a class meets, or say whether it protects its files", "DIR or SITE:/path"
    )
    made.add_argument("--group", metavar="G", default="", help="the group of the teachers, who all read it")
    made.add_argument("--students", metavar="G", default="", help="only this group may write there")
    shared = actions.add_parser("share", help="share progress on the course's board", description=_SHARE)
    shared.add_argument("--name", metavar="NAME", help="join the board under this name")
    shared.add_argument("--curves", action="store_true", help="share the curves of runs as well")
    shared.add_argument("--stop", action="store_true", help="stop, and delete what was shared")
    options = parser.parse_args(list(argv))
    return _ACTIONS[options.action](context, options)


def _new(context: CommandContext, options: argparse.Namespace) -> int:
    folder = Path(options.what).expanduser()
    text = _NEW.format(id=folder.name.lower(), title=folder.name.replace("-", " ").capitalize())
    if options.example:
        text = (_examples()[options.example] / COURSE).read_text(encoding="utf-8")
        text = text.replace(f'id = "{options.example}"', f'id = "{folder.name.lower()}"', 1)
    with os_refused("course.write", f"{folder} cannot be made", "Name a new folder."):
        (folder / "sites").mkdir(parents=True)
        (folder / "exercises").mkdir()
        (folder / COURSE).write_text(text, encoding="utf-8", newline="\n")
    context.say(f"{folder / COURSE} is the course. Site files go into sites, exercises of your own into exercises.")
    context.say(f"Then: clew course check {folder}")
    return OK


def _check(context: CommandContext, options: argparse.Namespace) -> int:
    found = _read(context, options.what)
    folder = Path(options.what) / "exercises"
    own = str(folder) if options.consent and folder.is_dir() else None
    seen = own is not None or not found.programs
    raise_all(check_exercises(found.course, catalogue(context.places, own), whole=seen))
    for name in found.left_out:
        context.note(f"Not a part of the course: {on_one_line(name)}")
    context.say(f"{found.course.title}: {len(list(found.course.assigned()))} exercises, nothing is wrong.")
    if not seen:
        context.say("Its own exercises were not checked: that runs their files here. Check its folder with --consent.")
    return OK


def _open(context: CommandContext, options: argparse.Namespace) -> int:
    courses = Courses(context.places)
    if courses.find(options.what) is not None:
        courses.use(options.what)
        context.say(f"The course {options.what} is followed now.")
        return OK
    found = _read(context, options.what)
    for line in courses.what_it_adds(found):
        context.say(line)
    example = _examples().get(options.what)
    ours = example is not None and found == read_course(example)
    new = courses.open(found, options.consent or ours)
    context.say(f"The course {found.course.id} is {'open' if new else 'up to date'}, and followed here now.")
    for name in courses.nameless(found):
        context.say(f"If your account on {name} is not called as on this computer: clew site set {name} user=NAME")
    return OK


def _list(context: CommandContext, options: argparse.Namespace) -> int:
    courses = Courses(context.places)
    known, follows = courses.all(), courses.current_id
    if options.json:
        context.say_json({"courses": [_as_json(one) for one in known], "current": follows})
        return OK
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Course", "Title", "Exercises", "Sites"):
        table.add_column(title)
    for one in known:
        row = ("cannot be read", "", "")
        if one.found is not None:
            sites = ", ".join(site_name(one.id, name) for name in one.found.sites)
            row = (one.found.course.title, str(len(list(one.found.course.assigned()))), sites)
        table.add_row(f"{one.id} (followed)" if one.id == follows else one.id, *map(on_one_line, row))
    context.console().print(table)
    for one in known:
        for found in one.problems:
            context.note(f"{one.id}: {found.command_text()}")
    return OK


def _as_json(one: OpenCourse) -> dict[str, object]:
    course = one.found.course if one.found is not None else None
    return {"id": one.id, "folder": str(one.folder), "course": course, "problems": one.problems}


def _export(context: CommandContext, options: argparse.Namespace) -> int:
    found = _read(context, options.what)
    path = Path(options.out or f"{found.course.id}{SUFFIX}").expanduser()
    write_course(path, found)
    context.say(f"{path}, {path.stat().st_size:,} bytes. Students open it: clew course open {path.name}")
    return OK


def _leave(context: CommandContext, options: argparse.Namespace) -> int:
    courses = Courses(context.places)
    courses.leavable(options.what)
    try:
        shared = ", and what you shared is deleted" if _stop_sharing(context, options.what) else ""
    except ProblemError as error:
        if not options.anyway:
            raise ProblemError(*(replace(one, remedies=(turn_on("anyway"),)) for one in error.problems)) from None
        shared = f"; what you shared stays there, as {error.problems[0].text.removesuffix('.')}"
    courses.leave(options.what)
    context.say(f"The course {options.what} is gone from this computer{shared}. Runs and answers stay.")
    return OK


def _stop_sharing(context: CommandContext, course: str) -> bool:
    """Deletes what is shared with a class; whether there was any."""
    sharing = Sharing(context.places.shared(course))
    if not (board := sharing.board):
        return False
    with site_connections(context.places) as connect:
        sharing.leave(folder_of(course, board, connect))
    return True


def _board(context: CommandContext, options: argparse.Namespace) -> int:
    with site_connections(context.places) as connect:
        folder = shared_folder(read_place(options.what), connect)
        try:
            rights = folder.make(options.group, options.students)
            context.say(f"{options.what} is there now.")
        except ProblemError as error:
            if "exists" not in error.problems[0].text:
                raise
            rights = folder.rights()
    raise_all(found for found in [rights.problem(options.what)] if found is not None)
    who = f"the group {options.group}" if options.group else rights.owner
    text = f"Each student can put files of his own there; {who} reads them, and no other student."
    context.say(
        text if rights.posix else "Who can read and remove files there is for its server to say: ask whoever runs it."
    )
    return OK


def _share(context: CommandContext, options: argparse.Namespace) -> int:
    course = Courses(context.places).followed("board")
    if options.stop:
        there = _stop_sharing(context, course.id)
        context.say(f"Nothing is shared{' any more, and what was shared is deleted' if there else ''}.")
        return OK
    sharing = Sharing(context.places.shared(course.id), course.board)
    with site_connections(context.places) as connect:
        folder = folder_of(course.id, course.board, connect)
        if options.name:
            sharing.join(options.name, options.curves, time.time())
            keep_student(context.places, student_name(context.places) or options.name)
        if (member := sharing.member) is None:
            raise problem("board.name", "You have not joined the board.", 'Join: --name "Anna Example"', "name")
        known = {
            card.id: card for card in cards(context.places, None, [one.id for _, one in course.assigned()]).exercises
        }
        jobs = KeptJobs(context.places)
        for run in kept_runs(context.places):
            spec = kept_spec(run.folder)
            mine = spec is not None and spec.student in ("", student_name(context.places))
            if spec is not None and mine and spec.course == course.id and spec.exercise in known:
                history = read_run(run.folder)
                state, _ = jobs.state(run.folder, history.fold)
                sharing.note([line_of(history, state, spec, known[spec.exercise], time.time(), member.curves)])
        sent = sharing.send(folder)
    context.say(f"{member.name} shares {'curves as well' if member.curves else 'progress'}; {sent:,} bytes were sent.")
    return OK


def _examples() -> dict[str, Path]:
    """The courses that come with Clew, by id."""
    place = Path(str(files("clew_gui.courses").joinpath("examples")))
    return {path.name: path for path in place.iterdir()}


def _read(context: CommandContext, what: str) -> CourseFiles:
    """The course that a person named: a path, one on a site, or the id of an open one. Raises ``ProblemError``."""
    if (place := read_place(what)).site:
        with site_connections(context.places) as connect, tempfile.TemporaryDirectory(prefix="clew-course-") as into:
            above, _, name = place.path.rpartition("/")
            folder = shared_folder(SharedPlace(place.site, above or "/"), connect)
            for one in folder.look(name, {})[0]:
                if one.name == name and one.size <= MAX_BYTES and not one.refused:
                    folder.fetch(one, Path(into, name))
                    return read_course(Path(into, name))
        raise problem("course.read", f"There is no course file {what} to read.", "Check its path.", what)
    path = Path(what).expanduser()
    if path.exists() or "/" in what or what.endswith(SUFFIX):
        return read_course(path)
    if what in _examples() and Courses(context.places).find(what) is None:
        return read_course(_examples()[what])
    opened = Courses(context.places).get(what)
    raise_all(opened.problems)
    return opened.found or read_course(opened.folder)


_ACTIONS = {
    "new": _new,
    "check": _check,
    "open": _open,
    "list": _list,
    "export": _export,
    "leave": _leave,
    "board": _board,
    "share": _share,
}
