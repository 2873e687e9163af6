"""``clew verify-handin`` and ``clew class``: what a teacher asks of hand-ins."""

from __future__ import annotations

import hashlib
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
import psutil

from clew_gui.commands.agent_program import catalogue
from clew_gui.commands.context import FAILED, OK, CommandContext, Parser
from clew_gui.commands.reports.report import write_text
from clew_gui.commands.run.own_agent import OwnRun, own_session
from clew_gui.reports.check import HandinVerdict, check_handin, refusals
from clew_gui.reports.class_table import ClassRow, class_rows, mark_of, table_csv, table_html
from clew_gui.reports.facts import RunSource, data_of, read_source
from clew_gui.reports.handin import SUFFIX, open_handin
from clew_gui.reports.page import render
from clew_gui.reports.repeated import (
    NOT_COMPARED,
    RepeatComparison,
    Repetition,
    compare_repeat,
    first_steps,
    judge_repeated,
    same_machine,
)
from clew_shared.base.harmless import on_one_line
from clew_shared.base.number_words import counted, in_bytes
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.cards import ExerciseCard
from clew_shared.catalogue import load_builtin, on_servers
from clew_shared.journal.events import Attempt, Live, State
from clew_shared.journal.files import JOURNAL_FORMAT, JournalWriter
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.spec import RunSpec, to_toml

_SCRIPT = "it ran a training script, and only the script knows which random numbers it draws"
_VERIFY = """Check a hand-in: every hash, the journals, whose runs they are, and every number and figure of the report,
computed again from the journals alone. --rerun N trains the first N steps of each run here and compares them.

The exit status is 0 when all is as it was recorded, 1 when something was altered, which is named, and 2 when it could
not be checked, as where an exercise of one's own is not known here."""


def verify_handin(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew verify-handin BUNDLE [--rerun N] [--json]``."""
    parser = Parser("clew verify-handin", _VERIFY)
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help=f"the file that was handed in (*{SUFFIX})")
    _add_checks(parser)
    parser.add_argument("--json", action="store_true", help="one line of JSON with all that was found")
    parser.add_argument("--html", metavar="FILE", help="write the page that the journals give, whatever was handed in")
    options = parser.parse_args(list(argv))
    verdict = _check(context, options.bundle.expanduser(), options.exercises, options.rerun, options.data)
    if verdict.unknown:
        raise ProblemError(*verdict.problems)
    if options.html:
        if verdict.report is None:
            raise problem(
                "handin.html", "No page can be made from these journals.", "Leave out --html to see why.", "html"
            )
        write_text(Path(options.html).expanduser(), render(verdict.report))
    if options.json:
        names = ("ok", "problems", "notes", "facts", "page_checked", "unconfirmed")
        context.say_json({"file": str(options.bundle), **{name: getattr(verdict, name) for name in names}})
        return OK if verdict.ok else FAILED
    for found in verdict.problems:
        context.say(on_one_line(f"Altered: {found.command_text()}"))
    for note in verdict.notes:
        context.say(on_one_line(f"Note: {note}"))
    if verdict.facts is not None:
        for goal in verdict.facts.goals if verdict.ok else ():
            context.say(on_one_line(f"[{mark_of(goal, verdict.unconfirmed)}] {goal.text} ({goal.sentence})"))
        if verdict.ok and verdict.unconfirmed:
            context.say("[?]: reached by the values that were handed in, not by the steps trained again here.")
        who, runs = verdict.facts.student or "nobody", verdict.facts.runs
        how = f"{'' if verdict.ok else 'NOT '}as {'it was' if len(runs) == 1 else 'they were'} recorded"
        page = "" if verdict.page_checked or not verdict.ok else "; the page was not checked"
        context.say(on_one_line(f"{who}: {counted(len(runs), 'run')}, {how}{page}."))
    return OK if verdict.ok else FAILED


_CLASS = """Check all hand-ins of a folder and make the table of the class: goals, values, and what was altered. Without
a folder the class of the followed course is shown: its board and its hand-ins; --live looks again each minute.

A run that is in the hand-ins of two students is named."""


def class_(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew class [DIR]``: 0 when every hand-in is as it was recorded."""
    parser = Parser("clew class", _CLASS)
    about = f"where the files are (*{SUFFIX}), at any depth"
    parser.add_argument("folder", metavar="DIR", type=Path, nargs="?", help=about)
    _add_checks(parser)
    parser.add_argument("--html", metavar="FILE", help="write the table as a page")
    parser.add_argument("--csv", metavar="FILE", help="write the table as CSV, of the course's class as well")
    parser.add_argument("--live", action="store_true", help="the course's class, looked at each minute")
    parser.add_argument("--json", action="store_true", help="the course's class as one line of JSON")
    parser.add_argument("--no-names", action="store_true", help="the course's class without names, for a projector")
    options = parser.parse_args(list(argv))
    of_course = options.folder is None
    stray = ("html",) if of_course else ("live", "json", "no_names")
    if wrong := [f"--{name.replace('_', '-')}" for name in stray if getattr(options, name)]:
        text = (
            f"A folder of hand-ins {'must be named for' if of_course else 'cannot be used with'} {' and '.join(wrong)}."
        )
        raise problem("cli.usage", text, "See: clew class --help", wrong[0])
    if options.json and options.no_names:
        raise problem("cli.usage", "--json has the names of all.", "Leave out --json or --no-names.", "--json")
    if of_course:
        from clew_gui.commands.reports.class_live import class_of_course  # SSH is loaded there

        rest = {"exercises": options.exercises, "rerun": options.rerun, "data": options.data}
        return class_of_course(context, options, partial(_check, context, **rest))
    folder = options.folder.expanduser()
    bundles = sorted(folder.rglob(f"*{SUFFIX}")) if folder.is_dir() else []
    if not bundles:
        raise problem("class.folder", f"{folder} holds no hand-ins (*{SUFFIX}).", "Name their folder.", str(folder))
    checked = []
    for path in bundles:
        try:
            verdict = _check(context, path, options.exercises, options.rerun, options.data)
        except ProblemError as error:
            verdict = HandinVerdict(problems=error.problems)
        checked.append((path.relative_to(folder).as_posix(), verdict))
    rows = class_rows(checked)
    _say_table(context, rows)
    for name, write in (("html", table_html), ("csv", table_csv)):
        if getattr(options, name):
            write_text(Path(getattr(options, name)).expanduser(), write(rows))
            context.say(getattr(options, name))
    return OK if all(row.ok for row in rows) else FAILED


def _add_checks(parser: Parser) -> None:
    parser.add_argument("--rerun", metavar="N", type=int, default=0, help="train the first N steps of each run again")
    parser.add_argument("--data", metavar="PATH", help="the data for --rerun, where the student's path is not here")
    parser.add_argument("--exercises", metavar="DIR", help="the folder of your own exercises")


def _say_table(context: CommandContext, rows: Sequence[ClassRow]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("Student", "Exercises", "Goals", "Checked", "File"):
        table.add_column(column)
    for row in rows:
        table.add_row(*map(on_one_line, (row.student, row.exercises, row.goals, row.checked, row.file)))
    context.console().print(table)
    for row in rows:
        for text in (*row.problems, *row.shared):
            context.say(on_one_line(f"{row.file}: {text}"))


def _check(context: CommandContext, path: Path, exercises: str | None, rerun: int, data: str | None) -> HandinVerdict:
    """Check one bundle, with ``rerun`` steps of each run. Raises ``ProblemError`` for what is no bundle, or holds what
    nobody has thought of: it is a stranger's file, and those of the others are checked all the same."""
    try:
        return _check_known(context, path, exercises, rerun, data)
    except ProblemError:
        raise
    except Exception as error:  # noqa: BLE001  # whatever a stranger's file brings about
        text = f"{path.name} holds what Clew cannot check ({type(error).__name__}: {str(error)[:200]})."
        raise problem("handin.check", text, f"Ask for the file again. {context.keep_trace()}.", path.name) from None


def _check_known(
    context: CommandContext, path: Path, exercises: str | None, rerun: int, data: str | None
) -> HandinVerdict:
    if rerun < 0:
        raise problem("cli.rerun", f"--rerun must be a number of steps from 1 on, got {rerun}.", where="rerun")
    with tempfile.TemporaryDirectory(prefix="clew-handin-") as into:
        opened = open_handin(path, Path(into))
        ids = [one.id for one in opened.manifest.facts.exercises]
        known = {card.id: card for card in catalogue(context.places, exercises, ids).exercises}
        verdict = check_handin(opened, known)
        if not rerun or not verdict.ok:
            return verdict
        problems, notes, repeated = [], list(verdict.notes), dict[str, Repetition]()
        for folder in opened.run_folders().values():
            for found in _repeat(context, read_source(folder), known, rerun, (exercises, data)):
                if isinstance(found, Problem):
                    problems.append(found)
                elif isinstance(found, Repetition):
                    repeated[folder.name] = found
                else:
                    notes.append(found)
        facts, unconfirmed = judge_repeated(verdict.facts, known, repeated) if verdict.facts else (None, frozenset())
        return msgspec.structs.replace(
            verdict,
            problems=tuple(problems),
            notes=(*notes, *([NOT_COMPARED] if repeated else [])),
            facts=facts,
            report=verdict.report._replace(facts=facts) if verdict.report and facts else None,
            unconfirmed=unconfirmed,
        )


# --- Repeating --------------------------------------------------------------------------------------------------------


_MOST_PROCESSES = 4
"""The most trainers that a stranger's file may start here; each takes 0.6 GB before its first step."""
_MEMORY = 0.5
"""The part of the free memory that they may take together."""


def _repeat(
    context: CommandContext,
    source: RunSource,
    known: Mapping[str, ExerciseCard],
    steps: int,
    given: tuple[str | None, str | None],
) -> Iterator[Problem | Repetition | str]:
    """Train the first steps of a run again; what differs, what came out, and what was compared."""
    history, short = source.history, source.history.fold.run[:8]
    why = _not_repeated(source, known[source.spec.exercise])
    if why:
        yield f"Run {short} was not repeated: {why}."
        return
    count = min(steps, history.fold.step)
    exercises, data = given
    # A run of its own: the id of the student's may be any text.
    usual = {"run": str(uuid.uuid4()), "data": data or _data_here(source), "pruning": None, "trace": 0}
    spec = _measuring_as(history, msgspec.structs.replace(source.spec, source_hash="", **usual), known)
    with tempfile.TemporaryDirectory(prefix="clew-rerun-") as place:
        folder = Path(place) / "run"
        again = _train(context, spec, history.live, folder, count, exercises)
        if not isinstance(again, RunSource):
            yield again if isinstance(again, Problem) else f"Run {short} was not repeated: {again}."
            return
        if data_of(again.history).sha256 != data_of(history).sha256:
            text = f"Run {short} trained on other data than those that are here as {spec.data or 'its data set'!r}."
            yield Problem("handin.data", text, "Name its data with --data PATH, if you have them.", history.fold.run)
            return
        exact = same_machine(source.folder, folder)
        found = compare_repeat(history, again.history, count, exact)
    for text in found.differences:
        yield Problem("handin.rerun", f"Run {short} trained again gives other values: {text}", where=history.fold.run)
    yield Repetition(first_steps(again, count), whole=count == history.fold.step)
    if not found.values:
        yield f"Run {short} was not repeated: it recorded no value in its first {count:,} steps."
    elif not found.differences:
        yield _same_words(short, found, count, history.fold.step, exact)


def _not_repeated(source: RunSource, card: ExerciseCard) -> str:
    """Why a run is not trained again; empty if it is."""
    if on_servers(source.spec.strategy):
        return "workers of parameter servers take turns by chance"
    if card.kind != "training":
        return "it measures times, which differ" if card.kind == "measurement" else _SCRIPT
    if source.spec.nodes > _MOST_PROCESSES:
        return f"it asks for {source.spec.nodes:,} processes, and a hand-in may start {_MOST_PROCESSES} here"
    refused = refusals(source, card)
    return f"this version of Clew refuses it ({refused[0].text.rstrip('.')})" if refused else ""


def _measuring_as(history: History, spec: RunSpec, known: Mapping[str, ExerciseCard]) -> RunSpec:
    """``spec`` with the recorded steps between two evaluations, where it leaves them to Clew, since another version
    may choose others."""
    setting = "evaluate_every"
    if isinstance(spec.params.get(setting), int) or all(one.name != setting for one in known[spec.exercise].params):
        return spec
    recorded = (history.column(name).steps for name, metric in history.metrics.items() if not metric.per_step)
    first = min((int(steps[0]) for steps in recorded if len(steps)), default=0)
    if not 0 < first < history.fold.step:
        return spec
    return msgspec.structs.replace(spec, params={**spec.params, setting: first})


def _same_words(short: str, found: RepeatComparison, count: int, steps: int, exact: bool) -> str:
    """Says what came out the same, and what was not compared."""
    how = "bit by bit" if exact else "within the tolerance, on another processor or other versions"
    compared = f"{counted(found.values, 'value')}, {counted(found.evaluations, 'evaluation')}"
    compared += f", {counted(found.pictures, 'picture')}" if found.pictures else ""
    text = f"Run {short}: the first {counted(count, 'step')} came out the same, {how} ({compared} compared)."
    left = steps - count
    return f"{text} The {counted(left, 'later step')} and what was measured there were not compared." if left else text


def _data_here(source: RunSource) -> str:
    """The data of a run as they are called here: a path of the student's computer becomes the data set's name."""
    given = source.spec.data
    elsewhere = Path(given).is_absolute() and not Path(given).exists()
    return data_of(source.history).name if elsewhere else given


def _train(
    context: CommandContext, spec: RunSpec, live: Sequence[Live], folder: Path, steps: int, exercises: str | None
) -> RunSource | Problem | str:
    """Run ``spec`` until it has done ``steps`` steps, with the same changes by hand; why it could not be."""
    _begin_with(RunFolder(folder), spec, live)
    room = _MEMORY * psutil.virtual_memory().available
    with own_session(context, load_builtin(), exercises, folder) as own:
        own.session.follow(spec)
        run = OwnRun(context, own, spec.run, as_json=True, after_attempt=1)
        own.session.continue_run(spec.run)
        while run.refused() is None and not run.complete():
            run.turn()
            if own.target.memory > room:
                own.target.end(kill=True)
                return f"it takes more than {in_bytes(int(room))}, half of the memory that is free here"
            if run.history.fold.step >= steps and not run.asked:
                run.stop()
        last = run.history.fold.problem or next(iter(run.refused() or []), "It said nothing.")
    if run.history.fold.step < steps:
        text = f"Run {spec.exercise} could not be trained again for {steps:,} steps: {last}"
        return Problem("handin.rerun", text, "For data that are elsewhere here, give --data PATH.", spec.exercise)
    return read_source(folder)


def _begin_with(folder: RunFolder, spec: RunSpec, live: Sequence[Live]) -> None:
    """Write a first attempt that did nothing but change hyperparameters by hand: the next one begins at step 0 and
    repeats each change at its step."""
    folder.path.mkdir()
    text = to_toml(spec)
    folder.spec.write_text(text, encoding="utf-8", newline="\n")
    digest = hashlib.sha256(text.encode()).hexdigest()
    first = Attempt(format=JOURNAL_FORMAT, run=spec.run, attempt=1, exercise=spec.exercise, spec_sha256=digest)
    with JournalWriter.create(folder.journal(1)) as writer:
        for event in (first, *live, State(state=RunState.STOPPED)):
            writer.append(event)
        writer.seal("supervisor")
