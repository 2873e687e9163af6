"""``clew compare`` and ``clew note``: runs beside each other, and what a person writes about one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from rich.table import Table

from clew_gui.base.state_words import NONE
from clew_gui.charts.compare import ComparedRun, compare_table
from clew_gui.commands.agent_program import cards, note_unknown
from clew_gui.commands.context import OK, CommandContext, Parser
from clew_gui.commands.find import RUN_HELP, KeptJobs, KeptRun, find_run, kept_runs
from clew_gui.commands.output import words
from clew_gui.commands.runs import FILTER_HELP, SeenRun, filtered, look_at, titles_of
from clew_gui.session.run_record import RunLine, run_record
from clew_gui.session.summaries import Summaries
from clew_gui.study.comparison import Outcome, outcome_of
from clew_gui.study.importance import LEAST_RESULTS, Importance, importance_of, importance_words
from clew_gui.study.usage import mean_usage
from clew_shared.base.harmless import csv_text
from clew_shared.base.places import Places
from clew_shared.base.problem import os_refused, problem, raise_all
from clew_shared.cards import Catalogue, MetricSpec
from clew_shared.journal.history import History
from clew_shared.run_settings import SEED, RunNote, differences, note_problems, read_tags, repeats_of
from clew_shared.spec import MAX_NAME


def compare(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew compare RUN RUN…``: in what runs differ, and what came of it."""
    parser = Parser(
        "clew compare",
        "Compare runs: the settings in which they differ, their results, and how far each is from the baseline, which\n"
        "is the first run unless --baseline names another. Runs that differ in the seed alone are one line, with the\n"
        "mean and the standard deviation.",
    )
    parser.add_argument("runs", nargs="*", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--filter", default="", metavar="TEXT", help=FILTER_HELP)
    parser.add_argument("--metric", default="", metavar="NAME", help="what to compare (default: its goal's)")
    parser.add_argument("--target", type=float, metavar="VALUE", help="also say when each run reached this value")
    parser.add_argument("--baseline", default="", metavar="RUN", help="the run that the others are compared with")
    parser.add_argument("--exercises", metavar="DIR", help="the folder of your own exercises, if it is one of them")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the table as CSV")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    options = parser.parse_args(list(argv))
    known = cards(context.places, options.exercises)
    seen = _chosen(context, known, options.runs, options.filter, options.baseline)
    note_unknown(context, seen[0].card, seen[0].spec.exercise if seen[0].spec else "")
    histories = {run.kept.folder.name: run.history for run in seen if run.history is not None}
    metric = _metric(seen, options.metric)
    settings = {run.kept.folder.name: run.settings for run in seen}
    groups = [
        outcome_of([(name, histories[name]) for name in group], metric.name, metric.better, options.target)
        for group in repeats_of(settings)
    ]
    matters = importance_of(
        [settings[group.runs[0]] for group in groups], [group.best for group in groups], metric.better == "higher"
    )
    if options.json:
        context.say_json(_as_json(seen, groups, metric, options.target, matters))
        return OK
    rows = _table(seen, groups, metric, options.target)
    if options.csv is not None:
        _write(options.csv, rows)
    _say(context, seen, rows)
    if matters.results >= LEAST_RESULTS:
        for line in filter(None, importance_words(matters, metric, seen[0].card)):
            context.say(line)
    return OK


def _chosen(context: CommandContext, known: Catalogue, named: Sequence[str], text: str, baseline: str) -> list[SeenRun]:
    """The runs to compare, the baseline first. Raises ``ProblemError`` if they are not comparable."""
    jobs = KeptJobs(context.places)
    kept = {run.folder: run for run in kept_runs(context.places)}
    asked = [find_run(context.places, word) for word in ([baseline] if baseline else []) + list(named)]
    summaries = Summaries(context.places, known.exercises)
    matching = filtered(list(kept.values()), text, known, jobs, summaries) if text else []
    folders = [*asked, *(run.folder for run in matching)]
    seen = [look_at(kept.get(one, KeptRun(0, one)), known, jobs) for one in dict.fromkeys(folders)]
    seen = [run for run in seen if run.kept.folder in asked or not _is_test(run)]
    if len(seen) < 2:
        hint = "Name two runs or more, for example: clew compare 3 7, or use --filter."
        raise problem("compare.few", f"{len(seen) or 'No'} run{'' if len(seen) == 1 else 's'} to compare.", hint)
    for run in seen:
        if run.history is None or run.spec is None:
            raise problem("compare.read", f"Run {run.kept.number} cannot be read. {run.why}", "Leave it out.")
        if _is_test(run):
            why = f"Run {run.kept.number} is a learning-rate range test: its values are of many rates."
            raise problem("compare.range_test", why, "Leave it out.")
    exercises = {run.spec.exercise for run in seen if run.spec is not None}
    if len(exercises) > 1:
        text = f"The runs are of different exercises: {', '.join(sorted(exercises))}."
        raise problem("compare.exercises", text, "Compare runs of one exercise.")
    return seen


def _is_test(run: SeenRun) -> bool:
    return run.spec is not None and run.spec.rate_range is not None


def _metric(seen: Sequence[SeenRun], wanted: str) -> MetricSpec:
    """The metric that is compared: the wanted one, else the first goal's with a better side, else the last such one."""
    card, histories = seen[0].card, [run.history for run in seen if run.history is not None]
    recorded = dict.fromkeys(name for history in histories for name in history.recorded())
    if wanted and wanted not in recorded:
        hint = f"Recorded: {', '.join(recorded)}." if recorded else "Nothing was recorded yet."
        raise problem("compare.metric", f"None of these runs recorded {wanted!r}.", hint, wanted)
    specs = {name: words.metric_of(card, name, next(h for h in histories if name in h.recorded())) for name in recorded}
    goals = [goal.metric for goal in card.goals] if card is not None else []
    sided = [name for name in (*goals, *reversed(list(recorded))) if name in specs and specs[name].better != "none"]
    name = wanted or next(iter(sided), next(iter(recorded), ""))
    if not name:
        raise problem("compare.empty", "None of these runs recorded a value yet.", "Compare them when they have run.")
    return specs[name]


def _table(
    seen: Sequence[SeenRun], groups: Sequence[Outcome], metric: MetricSpec, target: float | None
) -> tuple[tuple[str, ...], ...]:
    """The window's table of these groups, the baseline's first."""
    titles, runs = titles_of(seen), dict[str, ComparedRun]()
    for run in seen:
        if run.history is not None:
            name, number = run.kept.folder.name, run.kept.number
            runs[name] = ComparedRun(name, number, titles[name] if run.name else "", run.settings, run.history)
    differ = [one.name for one in differences([runs[group.runs[0]].settings for group in groups])]
    outcomes = [([runs[run] for run in group.runs], group) for group in groups]
    return compare_table(outcomes, [name for name in differ if name != SEED], metric, target, seen[0].card)


def _say(context: CommandContext, seen: Sequence[SeenRun], rows: Sequence[Sequence[str]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, head in enumerate(rows[0]):
        table.add_column(head, justify="right" if place else "left")
    for row in rows[1:]:
        table.add_row(*row)
    card = seen[0].card
    context.say(f"{card.title if card is not None else ''}: {len(seen)} runs, baseline {seen[0].kept.number}")
    context.console().print(table)


def _write(path: Path, rows: Sequence[Sequence[str]]) -> None:
    with os_refused("compare.csv", f"Cannot write {path}", "Name another file."):
        path.write_text(csv_text(rows), encoding="utf-8", newline="\n")


def _as_json(
    seen: Sequence[SeenRun],
    groups: Sequence[Outcome],
    metric: MetricSpec,
    target: float | None,
    matters: Importance,
) -> dict[str, object]:
    by_id = {run.kept.folder.name: run for run in seen}
    differ = differences([run.settings for run in seen])
    return {
        "exercise": seen[0].spec.exercise if seen[0].spec is not None else "",
        "metric": metric.name,
        "target": target,
        "baseline": seen[0].kept.number,
        "importance": {"shares": matters.shares} if matters.shares else None,
        "differences": {one.name: list(one.values) for one in differ},
        "groups": [
            {
                "runs": [by_id[run].kept.number for run in group.runs],
                "settings": by_id[group.runs[0]].settings,
                "best": group.best,
                "deviation": group.deviation,
                "delta": _delta(group.best, groups[0].best),
                "steps_to_target": group.steps,
                "seconds_to_target": group.seconds,
                "reached": group.reached,
                "usage": mean_usage(_histories(by_id[run] for run in group.runs)),
            }
            for group in groups
        ],
    }


def _histories(runs: Iterable[SeenRun]) -> list[History]:
    return [run.history for run in runs if run.history is not None]


def _delta(value: float | None, base: float | None) -> float | None:
    return value - base if value is not None and base is not None else None


# --- Notes ------------------------------------------------------------------------------------------------------------


def note(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew note RUN``: show or change a run's name, note and tags."""
    parser = Parser("clew note", "Show or change what you wrote about a run: its name, a note, tags.")
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--name", metavar="NAME", help="its name in the window and in lists; empty for none")
    parser.add_argument("--note", metavar="TEXT", help="the note; empty for none")
    parser.add_argument("--tag", action="append", default=[], metavar="TAG", help="add a tag")
    parser.add_argument("--untag", action="append", default=[], metavar="TAG", help="take a tag away")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    options = parser.parse_args(list(argv))
    run = find_run(context.places, options.run).name
    kept = run_record(context.places).notes.get(run, RunNote())
    tags = [tag for tag in (*kept.tags, *read_tags(" ".join(options.tag))) if tag not in options.untag]
    wanted = RunNote(
        kept.name if options.name is None else options.name.strip(),
        kept.note if options.note is None else options.note.strip(),
        read_tags(" ".join(tags)),
    )
    if wanted != kept:
        _keep(context.places, run, wanted)
    if options.json:
        context.say_json({"run": run, **msgspec.to_builtins(wanted)})
        return OK
    tagged = " ".join(f"#{tag}" for tag in wanted.tags)
    for title, text in (("Name", wanted.name), ("Tags", tagged), ("Note", wanted.note)):
        context.say(f"{title:<6}{text or NONE}")
    return OK


def _keep(places: Places, run: str, wanted: RunNote) -> None:
    raise_all(note_problems(wanted, MAX_NAME))
    with os_refused("note.disk", "The note cannot be kept", "Free some space."):
        run_record(places).add(RunLine(run=run, note=wanted))
