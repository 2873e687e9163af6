"""``clew runs`` and ``clew show``: what is kept, without changing any run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from clew_gui.base.kept_spec import kept_spec
from clew_gui.base.state_words import NONE, spread_words
from clew_gui.charts.cluster import setup_of
from clew_gui.commands.agent_program import cards, note_unknown
from clew_gui.commands.context import OK, CommandContext, Parser
from clew_gui.commands.find import RUN_HELP, KeptJobs, KeptRun, find_run, kept_runs
from clew_gui.commands.output import words
from clew_gui.commands.output.progress import curves
from clew_gui.commands.output.result import (
    advice_lines,
    asked_lines,
    ending,
    goal_lines,
    measured_lines,
    trace_lines,
    update_lines,
    usage_lines,
    why,
)
from clew_gui.jobs.job import use_words
from clew_gui.reports.facts import kept_answers
from clew_gui.schedulers.state import JobUse
from clew_gui.session.run_record import run_record
from clew_gui.session.summaries import RunSummary, Summaries, results_of
from clew_gui.study.goals import check_goal, data_asked
from clew_gui.study.usage import USAGE
from clew_shared.base.number_words import quantity
from clew_shared.base.problem import ProblemError
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.catalogue import on_servers
from clew_shared.goal_settings import is_for
from clew_shared.journal.files import attempts
from clew_shared.journal.history import History, peer_words
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.params import Value, format_value
from clew_shared.reading import read_run, summary
from clew_shared.run_settings import Facts, RunNote, checked_name, differing, names_in, parse_filter, settings_of
from clew_shared.spec import RunSpec, read_spec

_SHOWN = 30
COLUMNS_HELP = f"more columns: settings or results by name, also {', '.join(USAGE)}"
FILTER_HELP = "only runs that match, such as: adam 'learning_rate > 0.01' tag=good -failed"


def runs(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew runs``: one line for each kept run, the latest last."""
    parser = Parser("clew runs", f"List the runs that are kept on this computer, the latest {_SHOWN} of them.")
    parser.add_argument("--all", action="store_true", help="all of them")
    parser.add_argument("--filter", default="", metavar="TEXT", help=FILTER_HELP)
    parser.add_argument("--columns", default="", metavar="A,B", help=COLUMNS_HELP)
    parser.add_argument("--json", action="store_true", help="one line of JSON: a list of what `clew show --json` says")
    options = parser.parse_args(list(argv))
    kept, jobs, known = kept_runs(context.places), KeptJobs(context.places), cards(context.places)
    if not kept and not options.json:
        context.say(f"No runs are kept in {context.places.runs} yet. Start with: clew run softmax")
        return OK
    chosen = filtered(kept, options.filter, known, jobs, Summaries(context.places, known.exercises))
    shown = chosen if options.all else chosen[-_SHOWN:]
    if options.json:
        answers = cache(partial(kept_answers, context.places))
        context.say_json(
            [{"number": run.number} | _as_json(run.folder, known, jobs, run.note, answers) for run in shown]
        )
        return OK
    console, seen = context.console(), [look_at(run, known, jobs) for run in shown]
    names = names_in(run.facts for run in seen) | {param.name for card in known.exercises for param in card.params}
    columns = [checked_name(name, names | USAGE.keys()) for name in options.columns.replace(" ", "").split(",") if name]
    console.print(runs_table(seen, columns, console.width))
    if len(shown) < len(chosen):
        context.say(f"{len(chosen) - len(shown)} older runs are not shown; --all shows them.")
    if len(chosen) < len(kept):
        context.say(f"{len(chosen)} of {len(kept)} runs match the filter.")
    return OK


class SeenRun(NamedTuple):
    """A kept run as it was read; ``history`` and ``spec`` are None if they cannot be read: ``why`` is the reason."""

    kept: KeptRun
    state: RunState | None
    history: History | None
    spec: RunSpec | None
    card: ExerciseCard | None
    why: str = ""

    @property
    def name(self) -> str:
        """The name that a person gave it; empty if nobody did."""
        return self.kept.note.name or (self.spec.name if self.spec is not None else "")

    @property
    def settings(self) -> dict[str, Value]:
        """The run's settings."""
        return settings_of(self.spec, self.card) if self.spec is not None else {}

    @property
    def data(self) -> str:
        """The data set or the file's name; empty if it is not known or none was needed."""
        default = self.card.datasets[0] if self.card is not None and self.card.datasets else ""
        return ((self.spec.data if self.spec is not None else "") or default).rpartition("/")[2]

    @property
    def facts(self) -> Facts:
        """The facts that the filter sees."""
        if self.history is None:
            return facts_of(self.kept, None, None, self.card)
        summary = RunSummary(self.history.fold, results_of(self.history), self.spec)
        return facts_of(self.kept, summary, self.state, self.card)


def facts_of(run: KeptRun, summary: RunSummary | None, state: RunState | None, card: ExerciseCard | None) -> Facts:
    """The facts that the filter sees; None: the run cannot be read."""
    note, spec = run.note, summary.spec if summary is not None else None
    name = note.name or (spec.name if spec is not None else "")
    exercise = summary.fold.exercise if summary is not None else ""
    settings = settings_of(spec, card) if spec is not None else {}
    results = summary.results if summary is not None else {}
    told = words.state_word(state) if state is not None else ""
    texts = (name, note.note, *note.tags, exercise, told, *map(str, settings.values()))
    known: dict[str, Value] = {"name": name, "note": note.note, "state": told, "number": run.number}
    known["study"] = spec.study if spec is not None else ""
    return Facts(words=" ".join(texts), values={**settings, **results, **known, "exercise": exercise}, tags=note.tags)


def look_at(run: KeptRun, known: Catalogue, jobs: KeptJobs) -> SeenRun:
    """Read a kept run."""
    try:
        history = read_run(run.folder)
    except ProblemError as error:
        return SeenRun(run, None, None, None, None, str(error))
    state = jobs.state(run.folder, history.fold)[0]
    return SeenRun(run, state, history, kept_spec(run.folder), _card(known, history))


def filtered(
    kept: Sequence[KeptRun], text: str, known: Catalogue, jobs: KeptJobs, summaries: Summaries
) -> list[KeptRun]:
    """The runs that fit the filter. Raises ``ProblemError`` if the filter cannot be understood."""
    if not text.strip():
        return list(kept)
    cards_by_id = {card.id: card for card in known.exercises}
    facts: dict[Path, Facts] = {}
    for run in kept:
        try:
            summary = summaries.of(run.folder)
        except ProblemError:
            facts[run.folder] = facts_of(run, None, None, None)
        else:
            state, _ = jobs.state(run.folder, summary.fold)
            facts[run.folder] = facts_of(run, summary, state, cards_by_id.get(summary.fold.exercise))
    summaries.save()
    params = {param.name for card in known.exercises for param in card.params}
    wanted = parse_filter(text, names_in(facts.values()) | params)
    return [run for run in kept if wanted.keeps(facts[run.folder])]


_WIDE = 110
"""The width from which on there is room for the id, the steps, the time, and the name of what the result is."""


def runs_table(seen: Sequence[SeenRun], more: Sequence[str], width: int) -> Table:
    """Makes a table with one line for each run. The number, the state and the result cannot be cut."""
    wide = width >= _WIDE
    table = Table(box=None, pad_edge=False, header_style="bold")
    with_data = wide or len({run.data for run in seen}) > 1
    heads = ("#", *(("Run",) if wide else ()), "Exercise", *(("Data",) if with_data else ()), "State")
    for head in heads:
        table.add_column(head, justify="right" if head == "#" else "left", no_wrap=True, min_width=len(head))
    table.add_column("Name or settings", min_width=12)
    for name in more:
        head = USAGE[name].heading if name in USAGE else name
        table.add_column(head, justify="right", no_wrap=True)
    for head in (*(("Steps",) if wide else ()), "Result", *(("Time",) if wide else ()), "Started"):
        table.add_column(head, justify="left" if head in ("Result", "Started") else "right", no_wrap=True)
    titles = titles_of(seen)
    for run in seen:
        table.add_row(*_cells(run, titles.get(run.kept.folder.name, ""), more, wide, with_data))
    return table


def titles_of(seen: Sequence[SeenRun]) -> dict[str, str]:
    """Returns each run's name and tags; without a name what distinguishes it from the other runs of its exercise. By
    folder name."""
    groups: dict[str, dict[str, dict[str, Value]]] = {}
    for run in seen:
        if run.spec is not None:
            groups.setdefault(run.spec.exercise, {})[run.kept.folder.name] = run.settings
    short = {run: text for group in groups.values() for run, text in differing(group, limit=4).items()}
    found: dict[str, str] = {}
    for run in seen:
        tags = " ".join(f"#{tag}" for tag in run.kept.note.tags)
        found[run.kept.folder.name] = f"{run.name or short.get(run.kept.folder.name, '')} {tags}".strip()
    return found


def _cells(run: SeenRun, title: str, more: Sequence[str], wide: bool, with_data: bool) -> list[str]:
    number = str(run.kept.number)
    first = [number, *([run.kept.folder.name[:8]] if wide else [])]
    if run.history is None:
        return [*first, "", *([""] if with_data else []), "Unreadable", run.why]
    history, fold, values = run.history, run.history.fold, run.facts.values
    asked = [_cell(run, name, values) for name in more]
    result, steps = main_result(history, run.card, named=wide), f"{fold.step:,}"
    took, began = words.duration(fold.seconds), _when(fold.first_started)
    data = [run.data] if with_data else []
    row = [*first, fold.exercise, *data, words.state_word(run.state), title, *asked]
    return [*row, steps, result, took, began] if wide else [*row, result, began]


def _cell(run: SeenRun, name: str, values: Mapping[str, Value]) -> str:
    value = values.get(name)
    if isinstance(value, float) and name in USAGE:
        return USAGE[name].words(value)
    if isinstance(value, float) and run.history is not None and name in run.history.metrics:
        return quantity(value, run.history.metrics[name].format)
    return format_value(value) if value is not None else NONE


def main_result(history: History, card: ExerciseCard | None, named: bool = True) -> str:
    """The value that the exercise is about: its first goal's metric that has a better side, else such a metric that was
    recorded last, else the last one. Not ``named``: the value alone."""
    recorded = history.recorded()
    wanted = [goal.metric for goal in card.goals] if card else []
    sided = [name for name in (*wanted, *reversed(recorded)) if name in recorded and _sided(history, name)]
    name = next(iter(sided), recorded[-1] if recorded else "")
    value = history.last(name) if name else None
    if value is None:
        return ""
    spec = history.metrics[name]
    return words.metric_value(spec, value) if named else quantity(value, spec.format)


def _sided(history: History, name: str) -> bool:
    return name in history.metrics and history.metrics[name].better != "none"


def _when(started: float) -> str:
    if not started:
        return ""
    begun = datetime.fromtimestamp(started).astimezone()
    this_year = begun.year == datetime.now().astimezone().year
    return begun.strftime("%d %b %H:%M" if this_year else "%d %b %Y")


def show(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew show RUN``: everything about one run."""
    parser = Parser("clew show", "Show one run: how it ended, its settings, curves, goals and files.")
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--exercises", metavar="DIR", help="the folder of your own exercises, if it is one of them")
    parser.add_argument("--json", action="store_true", help="one line of JSON, as at the end of `clew run --json`")
    options = parser.parse_args(list(argv))
    folder, jobs = find_run(context.places, options.run), KeptJobs(context.places)
    history, known = read_run(folder), cards(context.places, options.exercises)
    card = _card(known, history)
    note_unknown(context, card, history.fold.exercise)
    if options.json:
        answers = partial(kept_answers, context.places)
        context.say_json(_as_json(folder, known, jobs, _note(context, folder), answers))
    else:
        _show(context, folder, history, card, jobs)
    return OK


def _note(context: CommandContext, folder: Path) -> RunNote:
    return run_record(context.places).notes.get(folder.name, RunNote())


def _note_lines(context: CommandContext, folder: Path) -> list[str]:
    """Returns what a person wrote about the run."""
    note = _note(context, folder)
    known = {"Name": note.name, "Tags": ", ".join(note.tags), "Note": note.note}
    return [f"{name:<18}{text}" for name, text in known.items() if text]


def _show(context: CommandContext, folder: Path, history: History, card: ExerciseCard | None, jobs: KeptJobs) -> None:
    console = context.console()
    console.print(Text(card.title if card else history.fold.exercise, style="bold"))
    state, reason = jobs.state(folder, history.fold)
    told = [ending(history, state), *why(history, reason), *usage_lines(history)]
    if counted := use_words(jobs.use(folder)):
        told.append(f"The scheduler's accounts of its job: {counted}.")
    for line in (*told, *advice_lines(history, context.places)):
        context.say(line)
    console.print(curves(history, card, console.width))
    for line in (
        *measured_lines(history, card),
        *update_lines(history, card, folder),
        *trace_lines(history),
        *asked_lines(history, folder),
        *goal_lines(history, card, folder, context.places),
        "",
        *_note_lines(context, folder),
        *_spec_lines(folder, card),
        *_file_lines(folder, history),
    ):
        context.say(line)


def _card(known: Catalogue, history: History) -> ExerciseCard | None:
    return next((card for card in known.exercises if card.id == history.fold.exercise), None)


def _spec_lines(folder: Path, card: ExerciseCard | None) -> list[str]:
    try:
        spec = read_spec(RunFolder(folder).latest_spec)
    except ProblemError as error:
        return [error.command_text()]
    return [f"{name:<18}{value}" for name, value in _settings(spec, card).items()]


def _settings(spec: RunSpec, card: ExerciseCard | None) -> dict[str, str]:
    about = {"Name": spec.name, "Preset": spec.preset, "Seed": str(spec.seed), "Data": spec.data}
    about["Devices"] = spread_words(spec)
    about["Range test"] = spec.rate_range.words if spec.rate_range is not None else ""
    given, counts = spec.params | spec.options, settings_of(spec, card)
    return {name: value for name, value in about.items() if value} | {
        name: format_value(value) for name, value in given.items() if name in counts
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


def _as_json(
    folder: Path, known: Catalogue, jobs: KeptJobs, note: RunNote, answers: Callable[[str], Mapping[str, str]]
) -> dict[str, object]:
    """``summary`` with the spec's settings, the goals, and what a person wrote."""
    try:
        history = read_run(folder)
    except ProblemError as error:
        return {"run": folder.name, "run_dir": str(folder), "problems": error.problems}
    state, reason = jobs.state(folder, history.fold)
    found = summary(history, folder) | {"state": state.value} | ({"reason": reason} if reason else {})
    if (use := jobs.use(folder)) != JobUse():
        found["job_use"] = use
    card = _card(known, history)
    try:
        spec = read_spec(RunFolder(folder).latest_spec)
    except ProblemError as error:
        spec = None
        found["problems"] = error.problems
    data = data_asked(spec, card)
    judged = [goal for goal in card.goals if not data or is_for(goal, data)] if card else []
    given = answers(card.id) if card else {}
    found["goals"] = {goal.id: check_goal(goal, history, card, spec, given).reached for goal in judged}
    if spec is not None:
        found |= {"name": spec.name, "preset": spec.preset, "seed": spec.seed, "data": spec.data, "params": spec.params}
        found |= {"strategy": spec.strategy, "devices": spec.devices, "nodes": spec.nodes, "precision": spec.precision}
        found |= {"options": spec.options}
        if on_servers(spec.strategy):
            found["cluster"] = setup_of(spec, card)._asdict()
    return found | {"name": note.name or found.get("name", ""), "note": note.note, "tags": note.tags}
