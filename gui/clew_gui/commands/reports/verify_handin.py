"""``clew verify-handin`` and ``clew class``: what a teacher asks of hand-ins."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from clew_gui.commands.agent_program import AgentProgram, agent_command, cards, temporary_file
from clew_gui.commands.context import FAILED, OK, CommandContext, Parser
from clew_gui.commands.reports.report import write_text
from clew_gui.commands.run.follow import Follower
from clew_gui.reports.check import HandinVerdict, check_handin, compare_repeat, repeats_until, same_machine
from clew_gui.reports.class_table import ClassRow, class_rows, table_csv, table_html
from clew_gui.reports.facts import RunSource, data_of, read_source
from clew_gui.reports.handin import SUFFIX, open_handin
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.cards import ExerciseCard
from clew_shared.spec import PARAMETER_SERVER, RunSpec, to_toml

_POLL_S = 0.05
_SCRIPT = "it ran a training script, and only the script knows which random numbers it draws"
_VERIFY = """Check a hand-in: every hash, the journals, whose runs they are, and every number and figure of the report,
computed again from the journals alone. --rerun N trains the first N steps of each run here and compares them.

The exit status is 0 when all is as it was recorded, and 1 when something was altered; it is named."""


def verify_handin(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew verify-handin BUNDLE [--rerun N] [--json]``."""
    parser = Parser("clew verify-handin", _VERIFY)
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help=f"the file that was handed in (*{SUFFIX})")
    _add_checks(parser)
    parser.add_argument("--json", action="store_true", help="one line of JSON with all that was found")
    options = parser.parse_args(list(argv))
    verdict = _check(context, options.bundle.expanduser(), options.exercises, options.rerun, options.data)
    if options.json:
        context.say_json({"file": str(options.bundle), "ok": verdict.ok, **msgspec.structs.asdict(verdict)})
        return OK if verdict.ok else FAILED
    for found in verdict.problems:
        context.say(f"Altered: {found}")
    for note in verdict.notes:
        context.say(f"Note: {note}")
    if verdict.facts is not None:
        for goal in verdict.facts.goals if verdict.ok else ():
            context.say(f"{'[x]' if goal.reached else '[ ]'} {goal.text} ({goal.sentence})")
        who = f"{verdict.facts.student}: {len(verdict.facts.runs)} run{'' if len(verdict.facts.runs) == 1 else 's'}"
        context.say(f"{who}, {'all as it was recorded' if verdict.ok else 'NOT as it was recorded'}.")
    return OK if verdict.ok else FAILED


_CLASS = """Check all hand-ins of a folder and make the table of the class: goals, values, and what was altered.

A run that is in the hand-ins of two students is named."""


def class_(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew class DIR``: 0 when every hand-in is as it was recorded."""
    parser = Parser("clew class", _CLASS)
    parser.add_argument(
        "folder", metavar="DIR", type=Path, help=f"the folder with the files (*{SUFFIX}), with its subfolders"
    )
    _add_checks(parser)
    parser.add_argument("--html", metavar="FILE", help="write the table as a page")
    parser.add_argument("--csv", metavar="FILE", help="write the table as CSV")
    options = parser.parse_args(list(argv))
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
        table.add_row(row.student, row.exercises, row.goals, "as recorded" if row.ok else "ALTERED", row.file)
    context.console().print(table)
    for row in rows:
        for text in row.problems:
            context.say(f"{row.file}: {text}")


def _check(context: CommandContext, path: Path, exercises: str | None, rerun: int, data: str | None) -> HandinVerdict:
    """Check one bundle, with ``rerun`` steps of each run. Raises ``ProblemError`` for what is no bundle."""
    if rerun < 0:
        raise problem("cli.rerun", f"--rerun must be a number of steps from 1 on, got {rerun}.", where="rerun")
    known = {card.id: card for card in cards(context.places, exercises).exercises}
    with tempfile.TemporaryDirectory(prefix="clew-handin-") as into:
        opened = open_handin(path, Path(into))
        verdict = check_handin(opened, known)
        if not rerun or not verdict.ok:
            return verdict
        problems, notes = [], list(verdict.notes)
        for folder in opened.run_folders().values():
            for found in _repeat(context, read_source(folder), known, rerun, (exercises, data)):
                if isinstance(found, Problem):
                    problems.append(found)
                else:
                    notes.append(found)
        return HandinVerdict(problems=tuple(problems), notes=tuple(notes), facts=verdict.facts)


# --- Repeating --------------------------------------------------------------------------------------------------------


def _repeat(
    context: CommandContext,
    source: RunSource,
    known: Mapping[str, ExerciseCard],
    steps: int,
    given: tuple[str | None, str | None],
) -> Iterator[Problem | str]:
    """Train the first steps of a run again; what differs, and what was compared."""
    history, short = source.history, source.history.fold.run[:8]
    if source.spec.strategy == PARAMETER_SERVER:
        yield f"Run {short} was not repeated: workers of parameter servers take turns by chance."
        return
    kind = known[source.spec.exercise].kind
    if kind != "training":
        why = "it measures times, which differ" if kind == "measurement" else _SCRIPT
        yield f"Run {short} was not repeated: {why}."
        return
    count = min(steps, repeats_until(history))
    if count < 1:
        yield f"Run {short} was not repeated: it has no step before the first change by hand."
        return
    exercises, data = given
    spec = msgspec.structs.replace(source.spec, run=str(uuid.uuid4()), data=data or _data_here(source), source_hash="")
    with tempfile.TemporaryDirectory(prefix="clew-rerun-") as place:
        folder = Path(place) / "run"
        again = _train(context, spec, folder, count, exercises)
        if isinstance(again, Problem):
            yield again
            return
        if data_of(again.history).sha256 != data_of(history).sha256:
            text = f"Run {short} trained on other data than those that are here as {spec.data or 'its data set'!r}."
            yield Problem("handin.data", text, "Name its data with --data PATH, if you have them.", history.fold.run)
            return
        exact = same_machine(source.folder, folder)
        found = list(compare_repeat(history, again.history, count, exact))
    for text in found:
        yield Problem("handin.rerun", f"Run {short} trained again gives other values: {text}", where=history.fold.run)
    if not found:
        how = "bit by bit" if exact else "within the tolerance, on another processor or other versions"
        yield f"Run {short}: the first {min(count, again.history.fold.step):,} steps came out the same, {how}."


def _data_here(source: RunSource) -> str:
    """The data of a run as they are called here: a path of the student's computer becomes the data set's name."""
    given = source.spec.data
    elsewhere = Path(given).is_absolute() and not Path(given).exists()
    return data_of(source.history).name if elsewhere else given


def _train(
    context: CommandContext, spec: RunSpec, folder: Path, steps: int, exercises: str | None
) -> RunSource | Problem:
    """Run ``spec`` until it has done ``steps`` steps; why it could not be."""
    own = ("--exercises", str(Path(exercises).expanduser().absolute())) if exercises else ()
    with temporary_file("spec.toml", to_toml(spec)) as path:
        command = agent_command(context.places, "run", str(path), "--out", str(folder), "--quiet", *own)
        with AgentProgram(command) as agent, Follower(folder) as follower:
            code, asked = None, False
            while code is None:
                code = agent.wait(_POLL_S)
                follower.poll()
                if follower.history.fold.step >= steps and not asked:
                    agent.ask_to_stop()
                    asked = True
            output = agent.output()
    if follower.history.fold.step < steps:
        last = follower.history.fold.problem or (output.splitlines() or ["It said nothing."])[-1]
        text = f"Run {spec.exercise} could not be trained again for {steps:,} steps: {last}"
        return Problem("handin.rerun", text, "For data that are elsewhere here, give --data PATH.", spec.exercise)
    return read_source(folder)
