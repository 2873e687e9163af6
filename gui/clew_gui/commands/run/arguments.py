"""Reads the arguments of ``clew run``: flags made from the exercise's own hyperparameters; reports every mistake at
once."""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from clew_gui.base.settings import course_exercises
from clew_gui.commands.agent_program import cards
from clew_gui.commands.context import Parser
from clew_gui.commands.sites.flags import SITE_OPTIONS, add_site_flags, check_site_flags, data_there
from clew_gui.sites.site import LOCAL
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError, did_you_mean, problem, raise_all
from clew_shared.cards import Catalogue, ExerciseCard, Preset
from clew_shared.params import ParamSpec, Value, check, format_value, read_number, read_whole, without_effect
from clew_shared.spec import (
    PRECISIONS,
    SINGLE,
    SITE_PATH,
    Prediction,
    RateRange,
    RunSpec,
    check_extras,
    check_spec,
    check_strategy,
    read_text,
    strategy_for,
)

MAX_SEED = 2**31 - 1

_DESCRIPTION = """Run an exercise on this computer or on a site, without a window, and follow it here.

Numbers have the digits 0 to 9: 500, 25,000 or 1e4 for a whole number, 0.05 or 5e-2 for another.

The exit status is 0 for a finished run, 1 for a failed one, 2 when something asked for is wrong (then nothing was
started and nothing is left behind) and 130 when it was stopped with Ctrl+C."""

_SPREAD = ("strategy", "devices", "precision")
_OWN = (
    *("help", "help_all", "preset", "set", "seed", "data", "name", "predict", "rate_range", "trace"),
    *("out", "queue", "exercises", "json"),
    *_SPREAD,
    *SITE_OPTIONS,
)
"""The options of the command itself. A hyperparameter with such a name is reached through ``--set``."""


class _Assign(argparse.Action):
    """Collects ``--set name=value``, ``--learning-rate 0.1`` and ``--shuffle`` in their order: the last one counts."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        text = (
            str(values) if isinstance(values, str) else ("false" if str(option_string).startswith("--no-") else "true")
        )
        found: list[tuple[str, str]] = list(getattr(namespace, "assignments", None) or [])
        if self.dest == "set":
            name, equals, value = text.partition("=")
            found.append((name.strip().replace("-", "_"), value if equals else "\0"))
        else:
            found.append((self.dest, text))
        namespace.assignments = found


class RunParser(Parser):
    """The parser of ``clew run``. Its help begins with the ``first`` groups, and has the ``rare`` ones only if all is
    asked for."""

    first: tuple[argparse._ArgumentGroup, ...] = ()
    rare: tuple[argparse._ArgumentGroup, ...] = ()

    def format_help(self) -> str:
        """Returns the help, the exercise's hyperparameters before the options of each run."""
        every = self._action_groups
        rest = [group for group in every[1:] if group not in (*self.first, *self.rare)]
        self._action_groups = [every[0], *self.first, *rest]
        text = super().format_help()
        self._action_groups = every
        return text


class _HelpAll(argparse.Action):
    """Prints the help with all options, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, *_parsed: object) -> None:
        if isinstance(parser, RunParser):
            parser.rare = ()
        parser.print_help()
        parser.exit()


def make_parser(cards: Sequence[ExerciseCard], prog: str = "clew run") -> RunParser:
    """The parser of ``clew run`` with a flag for every hyperparameter of ``cards``."""
    parser = RunParser(prog, _DESCRIPTION, epilog=_epilog(cards), usage=f"{prog} EXERCISE [options]")
    parser.set_defaults(assignments=[])
    parser.add_argument("--help-all", action=_HelpAll, nargs=0, help="show all options, rare ones as well, and exit")
    parser.add_argument(
        "exercise",
        metavar="EXERCISE",
        nargs="?",
        help="which exercise (`clew catalogue` lists them), or its file",
    )
    parser.add_argument("--preset", metavar="NAME", default="", help="start from the exercise's preset of this name")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action=_Assign, help="a hyperparameter; may be given several times"
    )
    parser.add_argument("--seed", metavar="N", help="the same seed gives the same run, bit by bit (default 1)")
    parser.add_argument("--data", metavar="NAME|PATH", help=_data_help(cards))
    parser.add_argument("--name", metavar="TEXT", default="", help="a name for the run, for your own use")
    parser.add_argument(
        "--predict", metavar="FILE", help="the curve that you expect: CSV with the columns step and METRIC"
    )
    parser.add_argument(
        "--rate-range", metavar="LOW,HIGH", help="range test: the learning rate grows from LOW to HIGH during the run"
    )
    parser.add_argument(
        "--trace", metavar="STEPS", help="record what the operations of the first steps do (20, for example)"
    )
    parser.add_argument("--out", metavar="DIR", help="the run's folder (default: a new one where runs are kept)")
    parser.add_argument(
        "--queue",
        action="store_true",
        help="wait for the runs of this computer's agent before it; Ctrl+C takes it out of the queue",
    )
    parser.add_argument("--exercises", metavar="DIR", help="add your own exercises, the files in this folder")
    parser.add_argument("--json", action="store_true", help="end with a summary of the run as one line of JSON")
    own = _add_devices(parser, cards)
    allocation = add_site_flags(parser)
    hyperparameters = _add_hyperparameters(parser, cards)
    parser.first = hyperparameters if len(cards) == 1 else ()
    parser.rare = (own, allocation, *(hyperparameters if len(cards) > 1 else ()))
    return parser


def _add_devices(parser: Parser, cards: Sequence[ExerciseCard]) -> argparse._ArgumentGroup:
    """Adds the flags for how a run spreads; returns the group of those for the strategies' own settings."""
    group = parser.add_argument_group("devices")
    names = ", ".join(dict.fromkeys(one.id for card in cards for one in card.strategies))
    group.add_argument("--strategy", metavar="NAME", help=f"how a run uses several devices: {names}")
    group.add_argument("--devices", metavar="N", help="how many GPUs, or parts of the processor where there are none")
    group.add_argument("--precision", metavar="NAME", help=f"compute in {', '.join(PRECISIONS)} (default float32)")
    own = parser.add_argument_group("settings of strategies")
    seen: set[str] = set()
    for spec in (spec for card in cards for one in card.strategies for spec in one.params):
        if spec.name not in seen:
            seen.add(spec.name)
            words = about(spec).replace("%", "%%")
            flag = f"--{spec.name.replace('_', '-')}"
            own.add_argument(flag, dest=f"option_{spec.name}", metavar=spec.type.metavar, help=words)
    return own


def _add_hyperparameters(parser: Parser, cards: Sequence[ExerciseCard]) -> tuple[argparse._ArgumentGroup, ...]:
    seen = set(_OWN)
    groups: dict[str, argparse._ArgumentGroup] = {}
    specs = [spec for card in cards for spec in card.params]
    for spec in specs:
        if spec.name in seen:
            continue
        seen.add(spec.name)
        if spec.group not in groups:
            groups[spec.group] = parser.add_argument_group(f"hyperparameters: {spec.group}")
        flag = spec.name.replace("_", "-")
        agreed = len({other.default for other in specs if other.name == spec.name}) == 1
        words = (about(spec) if agreed else f"{meaning(spec)} (default: the exercise's own)").replace("%", "%%")
        if spec.type.python is bool:
            groups[spec.group].add_argument(
                f"--{flag}", f"--no-{flag}", dest=spec.name, action=_Assign, nargs=0, help=words
            )
        else:
            groups[spec.group].add_argument(
                f"--{flag}", dest=spec.name, action=_Assign, metavar=spec.type.metavar, help=words
            )
    return tuple(groups.values())


def about(spec: ParamSpec) -> str:
    """Says what a hyperparameter is, which values it takes, and its default; for the help and the catalogue."""
    return f"{meaning(spec)} (default {format_value(spec.default) or 'none'})"


def meaning(spec: ParamSpec) -> str:
    """Says what a hyperparameter is and which values it takes."""
    limits = [
        f"{sign} {limit:,.12g}"
        for sign, limit in ((">", spec.gt), ("≥", spec.ge), ("<", spec.lt), ("≤", spec.le))
        if limit is not None
    ]
    parts = [(spec.help or spec.label).rstrip(".")]
    if spec.choices:
        parts.append("one of " + ", ".join(choice.value for choice in spec.choices))
    if limits:
        parts.append(" and ".join(limits))
    if spec.shown_when:
        parts.append(f"with {spec.shown_when.name} {' or '.join(spec.shown_when.values)}")
    return "; ".join(parts)


def _data_help(cards: Sequence[ExerciseCard]) -> str:
    names = ", ".join(dict.fromkeys(name for card in cards for name in card.datasets))
    known = f"a data set by name ({names}) or " if names else ""
    return f"{known}a file or folder; with --site also site:/path, a path there"


def _epilog(cards: Sequence[ExerciseCard]) -> str:
    lines: list[str] = []
    for card in cards:
        presets = ", ".join(preset.name for preset in card.presets) or "none"
        data = ", ".join(card.datasets) or "none needed"
        lines.append(f"{card.id}: {card.title}. Presets: {presets}. Data sets: {data}.")
    if len(cards) > 1:
        lines.append("`clew run EXERCISE --help` shows the hyperparameters of one exercise.")
    lines.append("--help-all adds the settings of strategies, and what a job may ask of a site.")
    return "\n".join(lines)


class RunArguments(argparse.Namespace):
    """The parsed arguments of ``clew run``: see ``make_parser``."""

    exercise: str | None
    preset: str
    seed: str | None
    data: str | None
    name: str
    predict: str | None
    rate_range: str | None
    trace: str | None
    out: str | None
    queue: bool
    exercises: str | None
    json: bool
    strategy: str | None
    devices: str | None
    precision: str | None
    site: str | None
    dry_run: bool
    detach: bool
    allocation_nodes: str | None
    assignments: list[tuple[str, str]]


def known_exercises(places: Places, argv: Sequence[str]) -> tuple[list[str], Catalogue]:
    """The exercises that a command line may name, with those of the folder after ``--exercises``; they are needed
    before the rest can be read, because they bring their own flags. What is not built in is looked for in the course.

    Returns the command line too: in it the path of an exercise's file is replaced by the exercise and its folder.
    Raises ``ProblemError``.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--exercises", nargs="?")
    words, folder = list(argv), parser.parse_known_args(list(argv))[0].exercises
    values = ("", *words)  # the word after an option is that option's value, whatever it looks like
    named = (n for n, word in enumerate(words) if word.endswith(".py") and not values[n].startswith("-"))
    if (place := next(named, None)) is None:
        known = cards(places, folder)
        own = course_exercises(places) if folder is None else ""
        if not own or any(card.id in words and card.problem is None for card in known.exercises):
            return words, known
        return [*words, "--exercises", own], cards(places, own)
    path = Path(words[place]).expanduser().absolute()
    if not path.is_file():
        raise problem("cli.exercise", f"There is no file {words[place]}.", "Check the path.", "exercise")
    folder = folder or str(path.parent)
    known = cards(places, folder)
    found = [card.id for card in known.exercises if Path(card.file) == path]
    if len(found) != 1:
        text = f"{words[place]} holds {', '.join(found)}." if found else f"{folder} has no exercise {path.name}."
        hint = f"Name one of them, with --exercises {folder}" if found else f"See: clew catalogue --exercises {folder}"
        raise problem("cli.exercise", text, hint, "exercise")
    return [*words[:place], *found, *words[place + 1 :], "--exercises", folder], known


def read_request(argv: Sequence[str], catalogue: Catalogue) -> tuple[RunArguments, ExerciseCard | None, list[Problem]]:
    """Split the command line. Returns it, the exercise's card if it names a known one, and what could not be read."""
    words = join_negative_numbers(argv)
    by_id = {card.id: card for card in catalogue.exercises}
    named = next((by_id[word] for word in words if word in by_id), None)  # a later one may be an option's value
    parser = make_parser([named] if named else catalogue.exercises)
    request = RunArguments()
    _, extras = parser.parse_known_args(words, namespace=request)
    request.site = None if request.site == LOCAL else request.site
    card = named if named and request.exercise == named.id else None
    problems = [] if card else [_no_exercise(request.exercise, catalogue)]
    flags = [option for option in parser._option_string_actions if option.startswith("--")]
    problems += _stray(extras, flags, request.exercise or "clew run")
    return request, card, problems


def join_negative_numbers(argv: Sequence[str]) -> list[str]:
    """``--learning-rate -1e-3`` as ``--learning-rate=-1e-3``, so that a negative value is not taken for an option."""
    words: list[str] = []
    for word in argv:
        if words and words[-1].startswith("--") and "=" not in words[-1] and word.startswith("-") and _is_number(word):
            words[-1] += f"={word}"
        else:
            words.append(word)
    return words


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _no_exercise(name: str | None, catalogue: Catalogue) -> Problem:
    known = [card.id for card in catalogue.exercises]
    if not name:
        return Problem("cli.exercise", "Which exercise?", f"One of: {', '.join(known)}.", where="exercise")
    return Problem("cli.exercise", f"There is no exercise {name!r}.", suggest(name, known), where="exercise")


def _stray(extras: Iterable[str], flags: Sequence[str], exercise: str) -> list[Problem]:
    """Returns one problem for each word that argparse had no use for; the value after an unknown option goes with
    it."""
    problems = []
    after_option = False
    for word in extras:
        name = word.split("=", 1)[0]
        if word.startswith("--"):
            hint = did_you_mean(name, flags) or f"See: clew run {exercise} --help"
            problems.append(Problem("cli.option", f"There is no option {name}.", hint, where=name))
        elif not after_option:
            hint = _as_option(word, flags) or "Leave it out."
            problems.append(Problem("cli.word", f"Clew does not expect {word!r} here.", hint, where=word))
        after_option = word.startswith("--") and "=" not in word
    return problems


def _as_option(word: str, flags: Sequence[str]) -> str:
    """How a setting that was written as ``name=values`` is given; empty if there is none of that name."""
    name, equals, value = word.partition("=")
    flag = f"--{name.replace('_', '-')}"
    if not equals or flag not in flags:
        return ""
    return f"A sweep has several values: clew sweep … --over {word}" if "," in value else f"Write {flag} {value}."


def make_spec(request: RunArguments, card: ExerciseCard, run: str) -> tuple[RunSpec, list[Problem]]:
    """The run spec and everything wrong with it. Flags win over the preset, the preset over the defaults."""
    if card.problem is not None:  # nothing else is known of it
        raise ProblemError(card.problem)
    preset, problems = _preset(request.preset, card)
    values: dict[str, object] = dict(preset.values)
    for name, text in request.assignments:
        if text == "\0":
            hint = "Write --set name=value."
            problems.append(Problem("cli.set", f"--set {name} has no value.", hint, where=name))
        else:
            values[name] = text
    typed, wrong = check(card.params, values)
    problems += wrong
    seed, found = _seed(request.seed, preset)
    problems += found
    data, found = _data(request.data, preset, card, request.site is not None)
    problems += found
    spec = RunSpec(
        exercise=card.id,
        run=run,
        name=request.name,
        preset=preset.name,
        seed=seed,
        data=data,
        source_hash=card.source_hash,
        params={spec.name: _written(spec, typed[spec.name]) for spec in card.params},
    )
    test, found = _rate_range(request.rate_range)
    problems += found
    drawn, found = _prediction(request.predict)
    problems += found
    traced, found = count("trace", request.trace) if request.trace is not None else (0, [])
    problems += found
    spec = msgspec.structs.replace(spec, rate_range=test, prediction=drawn, trace=traced)
    spec, found = _spread(spec, request, card)
    return spec, [*problems, *found, *check_extras(spec, card)]


def _rate_range(text: str | None) -> tuple[RateRange | None, list[Problem]]:
    if text is None:
        return None, []
    try:
        low, high = (float(word) for word in text.split(","))
    except ValueError:
        wrong = f"--rate-range takes the lowest and the highest learning rate, got {text!r}."
        return None, [Problem("cli.rate_range", wrong, "Write --rate-range 0.00001,10.", "rate_range")]
    return RateRange(low, high), []


def _prediction(file: str | None) -> tuple[Prediction | None, list[Problem]]:
    """The curve in a CSV file: a head with ``step`` and the metric's name, then a line for each point."""
    if file is None:
        return None, []
    try:
        head, *rows = csv.reader(read_text(Path(file).expanduser(), "cli.predict").splitlines())
        step, metric = (word.strip() for word in head)
        points = [(read_whole(first.strip()), read_number(second.strip())) for first, second in filter(None, rows)]
    except ProblemError as error:
        return None, list(error.problems)
    except ValueError:  # also a line of more than two: 500,0,3
        step, metric, points = "", "", []
    if step != "step":
        text = f"{file} is not a prediction: its first line must be step,METRIC and each other line a step and a value."
        return None, [Problem("cli.predict", text, "For example: step,loss and below it 0,2.3 and 500,0.3.", "predict")]
    steps, values = zip(*points, strict=True) if points else ((), ())
    return Prediction(metric, steps, values), []


def _spread(spec: RunSpec, request: RunArguments, card: ExerciseCard) -> tuple[RunSpec, list[Problem]]:
    """``spec`` over the devices and nodes that were asked for, and what is wrong with that."""
    devices, wrong = count("devices", request.devices)
    nodes, more = count("nodes", request.allocation_nodes)
    strategy = request.strategy or strategy_for(card, devices, nodes)
    chosen = next((one for one in card.strategies if one.id == strategy), SINGLE)
    given = {name.removeprefix("option_"): value for name, value in vars(request).items() if name.startswith("option_")}
    given = {name: text for name, text in given.items() if text is not None}
    known = {one.name for one in chosen.params}
    typed, wrong_options = check(chosen.params, {name: text for name, text in given.items() if name in known})
    found = [*wrong_options]
    strange: dict[str, Value] = {name: text for name, text in given.items() if name not in known}
    spread = msgspec.structs.replace(
        spec,
        strategy=strategy,
        devices=devices,
        nodes=nodes,
        precision=request.precision or spec.precision,
        options={one.name: _written(one, typed[one.name]) for one in chosen.params} | strange,
    )
    found += without_effect(chosen.params, given, typed)
    found += [*check_spec(spread, "the command line"), *check_strategy(spread, card)]
    return spread, [*wrong, *more, *dict.fromkeys(found)]


def count(name: str, text: str | None) -> tuple[int, list[Problem]]:
    """The number that ``--name`` was given, 1 without any, and what is wrong with it."""
    if text is None or re.fullmatch(r"[1-9][0-9]{0,3}", text.strip()):
        return int(text or 1), []
    return 1, [Problem("cli.number", f"--{name} must be a whole number from 1 on, got {text!r}.", where=name)]


def whole(name: str, text: str, example: str) -> int:
    """The whole number that ``--name`` was given. Raises ``ProblemError`` for anything else."""
    try:
        return read_whole(text.strip())
    except ValueError:
        hint = f"Write --{name} {example}."
        raise problem("cli.number", f"--{name} takes whole numbers, got {text!r}.", hint, name) from None


def not_taken(command: str, request: argparse.Namespace, names: Iterable[str]) -> list[Problem]:
    """Options of ``clew run`` that were given and that this command does not take."""
    given = (name.removeprefix("allocation_").replace("_", "-") for name in names if getattr(request, name))
    return [Problem("cli.option", f"clew {command} does not take --{name}.", "Leave it out.", name) for name in given]


def parse_run(argv: Sequence[str], catalogue: Catalogue, run: str) -> tuple[RunArguments, ExerciseCard, RunSpec]:
    """Turns the words after ``clew run`` into a checked spec. Raises one ``ProblemError`` with all problems."""
    request, card, problems = read_request(argv, catalogue)
    if card is None:  # nothing says which values would be right, but other mistakes can be found
        problems += _seed(request.seed, _NO_PRESET)[1] + _out(request.out)
        raise_all(problems)
        raise AssertionError("an unknown exercise is a problem")
    spec, found = make_spec(request, card, run)
    raise_all(
        problems
        + found
        + _out(request.out)
        + _queue(request)
        + check_site_flags(request, bool(request.strategy) or spec.nodes > 1)
    )
    return request, card, spec


_NO_PRESET = Preset(name="", title="")


def _preset(name: str, card: ExerciseCard) -> tuple[Preset, list[Problem]]:
    if not name:
        return _NO_PRESET, []
    for preset in card.presets:
        if preset.name == name:
            return preset, []
    text = f"{card.id} has no preset {name!r}."
    return _NO_PRESET, [Problem("cli.preset", text, suggest(name, [p.name for p in card.presets]), where="preset")]


def _seed(text: str | None, preset: Preset) -> tuple[int, list[Problem]]:
    if text is None:
        return (preset.seed if preset.seed is not None else 1), []
    if re.fullmatch(r"\+?[0-9]{1,10}", text.strip()) and int(text) <= MAX_SEED:
        return int(text), []
    wrong = f"The seed must be a whole number from 0 to {MAX_SEED}, got {text!r}."
    return 1, [Problem("cli.seed", wrong, where="seed")]


def _data(text: str | None, preset: Preset, card: ExerciseCard, there: bool) -> tuple[str, list[Problem]]:
    """The data set's name or absolute path. Whether a name can be found and a file be read is for the agent to say."""
    if text is None:
        return preset.data, []
    if not card.datasets:
        return "", [
            Problem("cli.data", f"{card.id} needs no data, but got --data {text}.", "Leave it out.", where="data")
        ]
    if text in card.datasets:
        return text, []
    if text.startswith(SITE_PATH):
        return text, data_there(text, there)
    path = Path(text).expanduser()
    if path.exists():
        return str(path.absolute()), []
    if path.suffix or len(path.parts) > 1:
        hint = f"Check the path, or name a data set: {', '.join(card.datasets)}."
        return "", [Problem("cli.data", f"There is no file or folder {text}.", hint, where="data")]
    hint = suggest(text, card.datasets) + " A path works as well."
    return "", [Problem("cli.data", f"{card.id} knows no data set {text!r}.", hint, where="data")]


def _out(text: str | None) -> list[Problem]:
    if text is None:
        return []
    path = Path(text).expanduser()
    if path.is_dir() and any(path.iterdir()):
        hint = "Name a folder that is empty or not there yet."
        return [
            Problem(
                "cli.out", f"The folder {text} is not empty, and a run never overwrites anything.", hint, where="out"
            )
        ]
    if path.exists() and not path.is_dir():
        return [Problem("cli.out", f"{text} is a file, not a folder.", "Name another place.", where="out")]
    return []


def _queue(request: RunArguments) -> list[Problem]:
    """Checks that ``--queue`` is given without a folder for the run or for exercises: the agent keeps its runs in one
    place and knows its own exercises."""
    queued = request.queue and request.site is None
    clash = next((name for name in ("out", "exercises") if queued and getattr(request, name) is not None), "")
    if not clash:
        return []
    text = f"--queue hands the run to this computer's agent, which does not take --{clash}."
    return [Problem("cli.queue", text, f"Leave --queue or --{clash} out.", clash)]


def _written(spec: ParamSpec, value: Value) -> Value:
    """Returns a value for TOML, which has no null; an absent value means the default, so None becomes ``none`` if the
    default is something else."""
    return "none" if value is None and spec.default is not None else value


def suggest(name: str, known: Sequence[str]) -> str:
    """The nearest known name as a question, else all of them."""
    return did_you_mean(name, known) or (f"Known: {', '.join(known)}." if known else "There are none.")
