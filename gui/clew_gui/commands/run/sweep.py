"""``clew sweep``: many values of settings, each in a run of its own, and which of them did best."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from clew_gui.commands.agent_program import cards
from clew_gui.commands.context import CommandContext, Parser
from clew_gui.commands.run.arguments import exercises_folder, not_taken, parse_run, whole
from clew_gui.commands.run.check import check_study_here
from clew_gui.commands.run.study import check_site, run_study, save_study, study
from clew_gui.session.kept_studies import keep_study
from clew_shared.base.problem import Problem, raise_all
from clew_shared.cards import ExerciseCard
from clew_shared.goal_settings import idle_seeds
from clew_shared.params import ParamSpec
from clew_shared.study.study import check_study, study_runs, sweep_study, usual_metric
from clew_shared.study.sweep import FIELDS, Sweep, Values, is_many, read_range, read_values, settled

_DESCRIPTION = """Train an exercise with many values of its settings, one run for each point, and rank the runs.

SPEC.toml is a study with a [sweep]: `clew sweep EXERCISE --save` writes one, and docs/command-line.md has an example
to write by hand. Or name an exercise and what to try:

  clew sweep softmax --over optimizer="sgd, adam" --over learning_rate="0.01 to 1 log 3" --seeds 1,2
  clew sweep softmax --over learning_rate="0.001 to 1 log" --method random --count 20 --pruner median

Every option of `clew run EXERCISE` that is about all runs can be given as well. With --site one job does all runs.
Runs that are finished are not done again: after Ctrl+C the same study goes on with `clew study FILE`.

The exit status is 0 when every run finished, 1 when one failed, 2 when something asked for is wrong (then nothing was
started) and 130 when it was stopped."""
_TWO_WHOLE = re.compile(r"[-+]?[0-9]+,[0-9]+")
"""Matches two whole numbers, or one number with a decimal comma."""
_NOT_HERE = ("out", "name", "queue")


def sweep(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew sweep …``: returns the exit status."""
    if any(word.endswith(".toml") for word in argv[:1]):
        return study(context, argv)
    parser = Parser("clew sweep", _DESCRIPTION, usage="clew sweep SPEC.toml | EXERCISE --over NAME=VALUES [options]")
    parser.add_argument("--over", metavar="NAME=VALUES", action="append", default=[], help="a setting and what to try")
    method = "default grid; tpe needs Optuna and does its runs on this computer, not with --site"
    parser.add_argument("--method", choices=("grid", "random", "tpe"), default="grid", help=method)
    parser.add_argument("--count", metavar="N", default="0", help="points of the methods random and tpe")
    parser.add_argument("--seeds", metavar="N,N", default="", help="run each point once with each of these seeds")
    parser.add_argument(
        "--pruner", choices=("median", "halving"), default="", help="stop runs early that do worse than the others"
    )
    parser.add_argument("--metric", metavar="NAME", default="", help="what the runs are ranked by")
    parser.add_argument("--save", metavar="FILE", help="write the study there; default: where Clew keeps studies")
    options, rest = parser.parse_known_args(list(argv))
    known = cards(context.places, exercises_folder(rest))
    request, card, spec = parse_run(rest, known, "")
    raise_all(not_taken("sweep", request, _NOT_HERE))
    asked = Sweep(
        method=options.method,
        over=_over(card, options.over, options.method),
        count=whole("count", options.count, "20"),
        seeds=tuple(whole("seeds", word, "1,2,3") for word in options.seeds.split(",") if word.strip()),
        pruner=options.pruner,
    )
    new = sweep_study(spec, asked, metric=options.metric or usual_metric(card), title=f"{card.title}, sweep")
    raise_all(check_study(new, card))
    new = msgspec.structs.replace(new, sweep=settled(asked, card))
    raise_all(check_study(new, card))
    if remark := idle_seeds([run.spec for run in study_runs(new)] if not asked.sampled else (), card):
        context.note(remark)
    check_site(new, request.site)
    check_study_here(context.places, new, request.site, own=request.exercises is not None)
    if options.save:
        file = Path(options.save).expanduser()
        save_study(file, new)
    else:
        file = keep_study(context.places, new)
    (context.note if request.json else context.say)(f"The study is kept in {file}; to continue it: clew study {file}")
    return run_study(context, new, card, known, request)


def _over(card: ExerciseCard, words: Sequence[str], method: str) -> dict[str, Values]:
    over: dict[str, Values] = {}
    found: list[Problem] = []
    for word in words:
        name, equals, text = word.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not text.strip():
            found.append(
                Problem("cli.over", f"--over {word} has no values.", 'Write --over learning_rate="0.01, 0.1".')
            )
            continue
        if name in over:
            found.append(
                Problem("cli.over", f"--over names {name} twice.", "Put all its values behind one --over.", name)
            )
            continue
        spec = next((param for param in card.params if param.name == name), None)
        between = read_range(text) if spec is not None and method != "grid" else None
        over[name], wrong = (between, []) if between is not None else _values(spec, name, text)
        found += wrong
    raise_all(found)
    return over


def _values(spec: ParamSpec | None, name: str, text: str) -> tuple[Values, list[Problem]]:
    if spec is None:  # where it spreads, or a name that the study's check refuses
        words = [word.strip() for word in text.split(",") if word.strip()]
        whole = name in FIELDS and all(re.fullmatch("[0-9]+", word) for word in words)
        return tuple(int(word) if whole else word for word in words), []
    if spec.type.python is float and _TWO_WHOLE.fullmatch(text.strip()):
        found = f"--over {name}={text} may mean one number or two."
        one, two = text.replace(",", "."), text.replace(",", ", ")
        return (), [Problem("cli.over", found, f'Write {one} for one, or --over {name}="{two}" for two.', name)]
    return read_values(spec, text if is_many(text) else text.replace(",", ", "))
