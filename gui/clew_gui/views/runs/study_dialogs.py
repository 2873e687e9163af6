"""The windows in which runs are put together: the lanes of a race, the values of a sweep, the limits of a
learning-rate range test, and what a person predicts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec
from PySide6.QtWidgets import QWidget

from clew_gui.views.form.fields import Editor, LaneEdit, ManyChoices, make_editor
from clew_gui.views.form.form import Asked, FormDialog, ParamForm
from clew_gui.views.presentation import words
from clew_gui.views.theme.parts import Appearance, Button
from clew_shared.base.problem import Problem
from clew_shared.cards import ExerciseCard, Lane, RaceSpec
from clew_shared.goal_settings import idle_seeds
from clew_shared.params import (
    BATCH_SIZE,
    LEARNING_RATE,
    STEPS,
    Choice,
    Condition,
    ParamSpec,
    Value,
    format_value,
    matters,
    value_words,
)
from clew_shared.run_settings import SEED
from clew_shared.spec import Prediction, RateRange, RunSpec, check_spec
from clew_shared.study.study import StudySpec, check_study, race_study, study_runs, sweep_study, usual_metric
from clew_shared.study.sweep import Sweep, Values, is_many, read_range, read_values, settled


def _form(
    appearance: Appearance, specs: Sequence[ParamSpec], make: Callable[[ParamSpec], Editor] = make_editor
) -> ParamForm:
    return ParamForm(appearance, specs, None, heads=False, make=make)


# --- Race -------------------------------------------------------------------------------------------------------------

_TOLD = (BATCH_SIZE, "order", "schedule")
_STEPS = ParamSpec(name=STEPS, kind="int", label="Steps", default=1, ge=1)


def race_dialog(
    parent: QWidget, appearance: Appearance, card: ExerciseCard, race: RaceSpec, base: RunSpec
) -> FormDialog:
    """Asks who takes part in a race, at which rate, and how many steps each gets; hands over a ``StudySpec``. ``base``
    is what the form says, for everything that all lanes share."""
    specs = {spec.name: spec for spec in card.params}
    rate = specs.get(LEARNING_RATE)
    steps = msgspec.structs.replace(
        specs.get(STEPS, _STEPS), label="Steps for each lane", default=race.steps, help="", shown_when=None
    )
    lanes = {f"lane {place}": lane for place, lane in enumerate(race.lanes, start=1)}

    def field(name: str, lane: Lane) -> ParamSpec:
        if rate is None:
            return ParamSpec(name=name, kind="bool", label=lane.name, default=True)
        value = lane.values.get(LEARNING_RATE, base.params.get(LEARNING_RATE, rate.default))
        return msgspec.structs.replace(
            rate, name=name, label=lane.name, default=value, help=rate.label, shown_when=None
        )

    def takes_part(name: str, values: Mapping[str, Value]) -> bool:
        editor = form.row(name).editor
        return editor.box.isChecked() if isinstance(editor, LaneEdit) else bool(values[name])

    def read(values: Mapping[str, Value]) -> Asked:
        chosen = [
            Lane(name=lane.name, values={**lane.values, **({LEARNING_RATE: values[name]} if rate is not None else {})})
            for name, lane in lanes.items()
            if takes_part(name, values)
        ]
        count = values[STEPS]
        study = race_study(race, base, chosen, count if isinstance(count, int) else 1)
        none = [] if chosen else [Problem("study.lanes", "No lane is chosen.", "Tick at least one lane.")]
        size = base.params.get(BATCH_SIZE, specs[BATCH_SIZE].default if BATCH_SIZE in specs else None)
        images = isinstance(size, int) and not isinstance(size, bool) and bool(card.datasets)
        each = f"{words.count(study.steps * int(size or 0))} images each. " if images else ""
        rest = f"{each}Everything else is as in the form: {shared_words(card, base)}."
        button = f"Start {len(chosen)} runs" if len(chosen) > 1 else "Start the run"
        return Asked(study, none or check_study(study, card), rest, button)

    fair = "All start with the same weights and see the same batches in the same order."
    go = Button(appearance, "Start the race", "primarySmall", "play", "Queue these runs, one after the other")
    form = _form(
        appearance,
        (*(field(name, lane) for name, lane in lanes.items()), steps),
        lambda spec: LaneEdit(spec) if spec.name in lanes and rate is not None else make_editor(spec),
    )
    return FormDialog(parent, race.title, words.join([race.help, fair], " "), form, go, read)


def shared_words(card: ExerciseCard, base: RunSpec) -> str:
    """Describes what all lanes share: "seed 1, MNIST, batch size 100, file order"."""
    parts = [f"seed {base.seed}"]
    parts += [words.data_name(base.data)] if base.data else []
    for spec in card.params:
        if spec.name in _TOLD:
            value = value_words(spec, base.params.get(spec.name, spec.default)).lower()
            parts.append(value if spec.name == "order" else f"{spec.label.lower()} {value}")
    return ", ".join(parts)


# --- Sweep ------------------------------------------------------------------------------------------------------------

_SEEDS, _METHOD, _COUNT, _PRUNER = ".seeds", ".method", ".count", ".pruner"
"""Names of fields that no hyperparameter has."""
_SEED = ParamSpec(name=_SEEDS, kind="int", label="Seeds", default=1, ge=0, lt=2**31)
_POINTS = (
    ParamSpec(
        name=_METHOD,
        kind="choice",
        label="Points",
        default="grid",
        choices=(Choice("grid", "All combinations"), Choice("random", "Random points")),
    ),
    ParamSpec(
        name=_COUNT,
        kind="int",
        label="How many points",
        default=20,
        ge=1,
        le=1000,
        shown_when=Condition(_METHOD, ("random",)),
    ),
    ParamSpec(
        name=_PRUNER,
        kind="choice",
        label="End a run early",
        default="",
        choices=(
            Choice("", "Never"),
            Choice("median", "Worse than the median"),
            Choice("halving", "Not in the best third"),
        ),
    ),
)


def sweep_dialog(
    parent: QWidget,
    appearance: Appearance,
    card: ExerciseCard,
    base: RunSpec,
    forecast: Callable[[tuple[RunSpec, ...]], str],
    typed: Mapping[str, str],
) -> FormDialog:
    """Asks which values of which settings to try and with which seeds; hands over a ``StudySpec``. ``base`` is what the
    form says, with several values of a setting or seed in ``typed``; ``forecast`` says what runs take."""
    now = {spec.name: base.params.get(spec.name, spec.default) for spec in card.params}
    specs = {spec.name: spec for spec in card.params if matters(spec, now)}

    def many(spec: ParamSpec, text: str, example: str = "") -> ParamSpec:
        about = f"One value, or several with commas: {example or spec.type.several}"
        told = "Tick several to train once with each" if spec.type.choices(spec) else about
        return ParamSpec(name=spec.name, kind="text", label=spec.label, default=text, help=told, example="not set")

    def editor(spec: ParamSpec) -> Editor:
        choices = specs[spec.name].type.choices(specs[spec.name]) if spec.name in specs else ()
        return ManyChoices(choices) if choices else make_editor(spec)

    fields = [many(spec, typed.get(name) or format_value(now[name])) for name, spec in specs.items()]
    form = _form(appearance, (many(_SEED, typed.get(SEED) or str(base.seed), "1, 2, 3"), *fields, *_POINTS), editor)
    for spec in specs.values():
        if spec.type.number:
            form.row(spec.name).put_beside(_range_button(appearance, spec, form.row(spec.name).editor))

    def read(values: Mapping[str, Value]) -> Asked:
        study, wrong = read_sweep(card, base, specs, values)
        if wrong:
            return Asked(None, wrong, " ", "Start")
        if study is None:
            return Asked(sentence="No setting has several values yet. Write 0.01, 0.1, for example.", button="Start")
        runs = tuple(run.spec for run in study_runs(study))
        told = " ".join(filter(None, (forecast(runs), idle_seeds(runs, card))))
        return Asked(study, (), told, f"Start {len(runs)} runs")

    go = Button(appearance, "Start", "primarySmall", "play", "Start these runs where the form says")
    help_ = "Tick or write several values of one or more settings. Each combination is a run of its own."
    return FormDialog(parent, "Sweep", help_, form, go, read)


def read_sweep(
    card: ExerciseCard, base: RunSpec, specs: Mapping[str, ParamSpec], values: Mapping[str, Value]
) -> tuple[StudySpec | None, list[Problem]]:
    """The study that the fields describe, None while no setting has several values; and what is wrong with it."""
    over: dict[str, Values] = {}
    fixed: dict[str, Value] = {}
    wrong: list[Problem] = []
    method = str(values[_METHOD])
    for name, spec in specs.items():
        text = spaced(spec, str(values[name]).strip())
        if not is_many(text):
            single, found = read_values(spec, text) if text else ((None,), [])
            fixed |= {name: single[0]} if single else {}
        elif method == "random" and (limits := read_range(text)) is not None:
            over[name], found = limits, []
        else:
            over[name], found = read_values(spec, text)
        wrong += found
    read, found = read_values(_SEED, str(values[_SEEDS]).replace(",", ", "))
    seeds = [int(seed or 0) for seed in read]
    wrong += found
    if wrong or (not over and len(seeds) < 2):
        return None, wrong
    base = msgspec.structs.replace(base, seed=seeds[0], params={**base.params, **fixed})
    same: dict[str, object] = {"method": "list", "points": [{}]}  # the same point with several seeds
    points = {"method": method, "over": over, "count": values.get(_COUNT, 0)} if over else same
    given = {**points, "seeds": seeds if len(seeds) > 1 else (), "pruner": values[_PRUNER]}
    sweep = msgspec.convert(msgspec.to_builtins(given), Sweep)
    study = sweep_study(base, sweep, metric=usual_metric(card), title=f"{card.title}, sweep")
    if wrong := check_study(study, card):
        return study, wrong
    study = msgspec.structs.replace(study, sweep=settled(sweep, card))
    return study, check_study(study, card)


def spaced(spec: ParamSpec, text: str) -> str:
    """``text`` with a blank after each comma that separates values: 0.01,0.1 are two, 25,000 is one."""
    thousands = re.fullmatch(r"[0-9]{1,3}(,[0-9]{3})+", text) is not None
    return text if not spec.type.number or thousands else re.sub(r",\s*", ", ", text)


def _range_button(appearance: Appearance, spec: ParamSpec, field: Editor) -> Button:
    """The button that writes a range into a number's field: from, to, how many, evenly or by equal factors."""
    number = msgspec.structs.replace(spec, optional=True, unit="", default=None, shown_when=None)
    specs = (
        msgspec.structs.replace(number, name="low", label="From"),
        msgspec.structs.replace(number, name="high", label="To"),
        ParamSpec(name="many", kind="int", label="How many", default=4, ge=2, le=100),
        ParamSpec(name="log", kind="bool", label="", default=spec.log, example="Equal factors"),
    )

    def read(values: Mapping[str, Value]) -> Asked:
        low, high = values["low"], values["high"]
        if low is None or high is None:
            return Asked(sentence="Write both ends.")
        log = " log" if values["log"] else ""
        return Asked(f"{format_value(low)} to {format_value(high)}{log} {values['many']}")

    def ask() -> None:
        title = f"Range of {spec.label}"
        use = Button(appearance, "Use", "primarySmall")
        dialog = FormDialog(
            button.window(), title, "From, to, and how many values.", _form(appearance, specs), use, read
        )
        dialog.asked.connect(field.set_value)
        dialog.open()

    button = Button(appearance, "Range…", "quiet", "", "From, to, and how many values")
    button.setAutoDefault(False)
    button.setAccessibleName(f"Range of {spec.label}")
    button.clicked.connect(ask)
    return button


# --- Range test and prediction ----------------------------------------------------------------------------------------

_RANGE_HELP = (
    "One run of the form's settings, in which the learning rate grows from the lowest to the highest. Afterwards the"
    " run says at which rate the loss falls fastest: a good rate to begin with."
)
_LIMITS = (
    ParamSpec(name="low", kind="float", label="Lowest rate", default=1e-5, gt=0, log=True),
    ParamSpec(name="high", kind="float", label="Highest rate", default=10.0, gt=0, log=True),
)


def range_dialog(parent: QWidget, appearance: Appearance, base: RunSpec) -> FormDialog:
    """Asks for the limits of a learning-rate range test; ``base`` is what the form says. Hands over a ``RunSpec``."""

    def read(values: Mapping[str, Value]) -> Asked:
        low, high = (float(values[spec.name] or 0) for spec in _LIMITS)
        spec = msgspec.structs.replace(base, rate_range=RateRange(low, high))
        return Asked(spec, [found for found in check_spec(spec) if found.where == "rate_range"])

    go = Button(appearance, "Run the test", "primarySmall", "play")
    return FormDialog(parent, "Learning-rate range test", _RANGE_HELP, _form(appearance, _LIMITS), go, read)


_PREDICT_HELP = (
    "What will it be at the end of the run? Write 0.9 for 90 %. Your value is written into the run's journal before the"
    " first step; a dashed line shows it beside the curve, and the run's card says how near it came."
)


def predict_dialog(
    parent: QWidget, appearance: Appearance, card: ExerciseCard, base: RunSpec, steps: int
) -> FormDialog:
    """Asks for one value and hands it over as a level over all ``steps`` of the run that ``base`` describes. Metrics
    that are measured now and then, such as accuracy, come first."""
    judged = [one for one in card.metrics if one.better != "none"] or card.metrics
    choices = tuple(Choice(one.name, one.label.capitalize()) for one in sorted(judged, key=lambda one: one.per_step))
    metric = ParamSpec(name="metric", kind="choice", label="Metric", default=choices[0].value, choices=choices)
    value = ParamSpec(name="value", kind="float", label="Value at the end", default=None, optional=True)

    def read(values: Mapping[str, Value]) -> Asked:
        level = values["value"]
        if not isinstance(level, float):
            return Asked(sentence="Write a value first.")
        found = Prediction(str(values["metric"]), (0, max(steps, 1)), (level, level))
        checked = check_spec(msgspec.structs.replace(base, prediction=found))
        return Asked(found, [one for one in checked if one.where == "prediction"])

    go = Button(appearance, "Keep for the next run", "primarySmall", "check")
    form = _form(appearance, (metric, value))
    dialog = FormDialog(parent, "Predict the result", _PREDICT_HELP, form, go, read)
    form.row("value").editor.setFocus()  # the metric is most often right as it is
    return dialog
