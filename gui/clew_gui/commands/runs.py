"""``clew runs`` and ``clew show``: what is kept, without changing any run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rich.table import Table
from rich.text import Text

from clew_gui.base.state_words import spread_words
from clew_gui.commands.agent_program import cards
from clew_gui.commands.context import OK, CommandContext, Parser
from clew_gui.commands.find import RUN_HELP, KeptJobs, KeptRun, find_run, kept_runs
from clew_gui.commands.output import words
from clew_gui.commands.output.progress import curves
from clew_gui.commands.output.result import (
    asked_lines,
    data_used,
    ending,
    goal_lines,
    measured_lines,
    update_lines,
    why,
)
from clew_gui.plotting.cluster import STRATEGY, setup_of
from clew_shared.base.problem import ProblemError
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.goals import check_goal, is_for
from clew_shared.journal.files import attempts
from clew_shared.journal.history import History, peer_words
from clew_shared.journal.run_folder import RunFolder
from clew_shared.params import format_value
from clew_shared.reading import read_run, summary
from clew_shared.spec import RunSpec, read_spec

_SHOWN = 30


def runs(shell: CommandContext, argv: Sequence[str]) -> int:
    """``clew runs``: one line for each kept run, the latest last."""
    parser = Parser("clew runs", f"List the runs that are kept on this computer, the latest {_SHOWN} of them.")
    parser.add_argument("--all", action="store_true", help="all of them")
    parser.add_argument("--json", action="store_true", help="one line of JSON: a list of what `clew show --json` says")
    options = parser.parse_args(list(argv))
    kept = kept_runs(shell.places)
    shown = kept if options.all else kept[-_SHOWN:]
    jobs = KeptJobs(shell.places)
    if options.json:
        known = cards(shell.places)
        shell.say_json([_as_json(run.folder, known, jobs, run.number) for run in shown])
    elif not kept:
        shell.say(f"No runs are kept in {shell.places.runs} yet. Begin with: clew run softmax")
    else:
        shell.console().print(_table(shown, cards(shell.places), jobs))
        if len(shown) < len(kept):
            shell.say(f"{len(kept) - len(shown)} older runs are not shown; --all shows them.")
    return OK


def _table(kept: Sequence[KeptRun], known: Catalogue, jobs: KeptJobs) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, justify in (("#", "right"), ("Run", "left"), ("Exercise", "left"), ("Data", "left"), ("State", "left")):
        table.add_column(column, justify=justify, no_wrap=True)  # type: ignore[arg-type]  # Rich's literal type
    table.add_column("Steps", justify="right", no_wrap=True)
    table.add_column("Result")
    table.add_column("Time", justify="right", no_wrap=True)
    table.add_column("Began", no_wrap=True)
    catalogue = {card.id: card for card in known.exercises}
    for run in kept:
        table.add_row(str(run.number), run.folder.name[:8], *_cells(run.folder, catalogue, jobs), _when(run.started))
    return table


def _cells(folder: Path, catalogue: dict[str, ExerciseCard], jobs: KeptJobs) -> list[str]:
    try:
        history = read_run(folder)
    except ProblemError as error:
        return ["", "", "Unreadable", "", str(error), ""]
    fold = history.fold
    name = spec_name(folder)
    exercise = f"{fold.exercise} ({name})" if name else fold.exercise
    card = catalogue.get(fold.exercise)
    result, data = main_result(history, card), data_used(folder, card)
    state, _ = jobs.state(folder, fold)
    return [
        exercise,
        data.rpartition("/")[2],
        words.state_word(state),
        f"{fold.step:,}",
        result,
        words.duration(history.seconds),
    ]


def spec_name(folder: Path) -> str:
    """The name that the run was given; empty when none or when its spec cannot be read."""
    try:
        return read_spec(RunFolder(folder).spec).name
    except ProblemError:
        return ""


def main_result(history: History, card: ExerciseCard | None) -> str:
    """The value that the exercise is about: its first goal's metric, else the last recorded one."""
    recorded = history.recorded()
    wanted = [goal.metric for goal in card.goals] if card else []
    name = next((metric for metric in wanted if metric in recorded), recorded[-1] if recorded else "")
    value = history.last(name) if name else None
    return words.metric_value(history.metrics[name], value) if value is not None else ""


def _when(started: float) -> str:
    if not started:
        return ""
    begun = datetime.fromtimestamp(started).astimezone()
    return begun.strftime("%H:%M" if time.time() - started < 12 * 3600 else "%Y-%m-%d %H:%M")


def show(shell: CommandContext, argv: Sequence[str]) -> int:
    """``clew show RUN``: everything about one run."""
    parser = Parser("clew show", "Show one run: how it ended, its settings, curves, goals and files.")
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument(
        "--json", action="store_true", help="one line of JSON, the same as at the end of `clew run --json`"
    )
    options = parser.parse_args(list(argv))
    folder, jobs = find_run(shell.places, options.run), KeptJobs(shell.places)
    if options.json:
        shell.say_json(_as_json(folder, cards(shell.places), jobs))
    else:
        _show(shell, folder, read_run(folder), jobs)
    return OK


def _show(shell: CommandContext, folder: Path, history: History, jobs: KeptJobs) -> None:
    card = _card(cards(shell.places), history)
    console = shell.console()
    console.print(Text(card.title if card else history.fold.exercise, style="bold"))
    state, reason = jobs.state(folder, history.fold)
    for line in (ending(history, state), *why(history, reason)):
        shell.say(line)
    console.print(curves(history, card, console.width))
    for line in (
        *measured_lines(history, card),
        *update_lines(history, card, folder),
        *asked_lines(history, folder),
        *goal_lines(history, card, folder),
        "",
        *_spec_lines(folder),
        *_file_lines(folder, history),
    ):
        shell.say(line)


def _card(known: Catalogue, history: History) -> ExerciseCard | None:
    return next((card for card in known.exercises if card.id == history.fold.exercise), None)


def _spec_lines(folder: Path) -> list[str]:
    try:
        spec = read_spec(RunFolder(folder).latest_spec)
    except ProblemError as error:
        return [str(error)]
    return [f"{name:<18}{value}" for name, value in _settings(spec).items()]


def _settings(spec: RunSpec) -> dict[str, str]:
    about = {"Name": spec.name, "Preset": spec.preset, "Seed": str(spec.seed), "Data": spec.data}
    about["Devices"] = spread_words(spec)
    return {name: value for name, value in about.items() if value} | {
        name: format_value(value) for name, value in (spec.params | spec.options).items()
    }


def _file_lines(folder: Path, history: History) -> list[str]:
    numbers = attempts(folder)
    lines = ["", f"Run       {history.fold.run} on {history.fold.host or 'an unknown host'}", f"Folder    {folder}"]
    lines += [f"Node      {peer_words(peer, history.has_servers)}: {peer.status}" for peer in history.peers.values()]
    if len(numbers) > 1:
        lines.append(f"Attempts  {len(numbers)}")
    if history.checkpoints:
        lines.append(f"Checkpoints after {', '.join(str(step) for step in sorted(history.checkpoints))} steps")
    lines += [f"Damaged   attempt {note.attempt}: {note.text}" for note in history.damages]
    return lines


def _as_json(folder: Path, known: Catalogue, jobs: KeptJobs, number: int | None = None) -> dict[str, object]:
    """``summary`` with the spec's settings and the goals; ``number`` only in lists."""
    try:
        history = read_run(folder)
    except ProblemError as error:
        return {"run": folder.name, "run_dir": str(folder), "problems": error.problems}
    state, reason = jobs.state(folder, history.fold)
    found = summary(history, folder) | {"state": state.value} | ({"reason": reason} if reason else {})
    card = _card(known, history)
    data = data_used(folder, card)
    judged = [goal for goal in card.goals if not data or is_for(goal, data)] if card else []
    found["goals"] = {goal.id: check_goal(goal, history).reached for goal in judged}
    try:
        spec = read_spec(RunFolder(folder).latest_spec)
        found |= {"name": spec.name, "preset": spec.preset, "seed": spec.seed, "data": spec.data, "params": spec.params}
        found |= {"strategy": spec.strategy, "devices": spec.devices, "nodes": spec.nodes, "precision": spec.precision}
        found |= {"options": spec.options}
        if spec.strategy == STRATEGY:
            found["cluster"] = setup_of(spec, card)._asdict()
    except ProblemError as error:
        found["problems"] = error.problems
    return found if number is None else {"number": number} | found
