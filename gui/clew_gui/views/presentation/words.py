"""Numbers, durations and run states in the words the window shows. Pure functions, no Qt."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence

from clew_gui.base.state_words import NONE, STATE_WORDS, queue_place, spread_words
from clew_gui.session.runs import RunModel
from clew_shared.base.number_words import quantity
from clew_shared.cards import ExerciseCard, Goal, MetricSpec
from clew_shared.catalogue import known_sets
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.params import HEADLINE, LEARNING_RATE, Value, defaults, format_value, value_words
from clew_shared.run_settings import inside

NOT_SENT = "Not sent"


def count(number: float) -> str:
    """A whole number with thousands separated: "18,420"."""
    return f"{number:,.0f}"


def clock(seconds: float | None) -> str:
    """A duration as in a table: "< 1 s", "0:03", "12:41", "1:02:05"; a dash for none."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return NONE
    if 0 < seconds < 0.5:
        return "< 1 s"
    whole = int(seconds + 0.5)
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes}:{secs:02d}"


def about(seconds: float) -> str:
    """A duration in words for a forecast: "2 s", "4 min", "1 h 10 min"."""
    if seconds < 1:
        return "less than 1 s"
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def roughly(seconds: float) -> str:
    """An estimate: "about 20 s", "under 1 s"."""
    return "under 1 s" if seconds < 1 else f"about {about(seconds)}"


def wall(when: float) -> str:
    """A moment of today as "09:41", of another day with its date."""
    local = time.localtime(when)
    same_day = local[:3] == time.localtime()[:3]
    clock = time.strftime("%H:%M", local)
    return clock if same_day else f"{local.tm_mday} {time.strftime('%b', local)}, {clock}"


def metric_value(spec: MetricSpec | None, value: float | None) -> str:
    """A metric as text: "91.98 %", four significant figures, three before a power of ten; a dash when there is none."""
    if value is None:
        return NONE
    if spec is None:
        return quantity(value)
    text = quantity(value, spec.format)
    return f"{text} {spec.unit}" if spec.unit and spec.format != "percent" and math.isfinite(value) else text


WAITS = frozenset({"data.unknown", "data.checking", "exercise.reading"})
"""The codes of problems that pass by themselves: nothing is wrong yet."""


def data_name(name: str) -> str:
    """A data set as people know it; a path by its file name."""
    known = known_sets().get(name)
    return known.label if known else name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]


def run_data(run: RunModel, card: ExerciseCard | None) -> str:
    """The data set or file that a run uses; empty when its exercise needs none."""
    return run.spec.data or (card.datasets[0] if card is not None and card.datasets else "")


def data_short(name: str) -> str:
    """A data set in a table or beside a curve: "MNIST", "Digits", "own.npz"."""
    return data_name(name).partition(",")[0]


def metric_of(card: ExerciseCard, name: str) -> MetricSpec | None:
    """The metric of that name on the card."""
    return next((spec for spec in card.metrics if spec.name == name), None)


def preset_values(card: ExerciseCard, name: str) -> dict[str, Value]:
    """Returns all values of a preset, defaults filled in; for an unknown name the defaults."""
    values = defaults(card.params)
    for preset in card.presets:
        if preset.name == name:
            values.update(preset.values)
    return values


def name_of(run: RunModel) -> str:
    """The run's own name: the one that a person wrote, else the one that it was started with; empty for none."""
    return run.note.name or run.spec.name


def run_title(run: RunModel, card: ExerciseCard | None, mark: str = "") -> str:
    """A run's short name beside a curve: "14  Adam 0.0001", or its own name when it has one; ``mark`` goes first."""
    words = [mark, name_of(run) or _settings_title(run, card)]
    return f"{run.number}  {join(words, ' ')}"


def _settings_title(run: RunModel, card: ExerciseCard | None) -> str:
    parts = [param_words(run, card, name) for name in HEADLINE]
    spread = spread_words(run.spec)
    return (join(parts, " ") or run.spec.preset or "run") + (f" ({spread})" if spread else "")


def param_words(run: RunModel, card: ExerciseCard | None, name: str) -> str:
    """Returns one hyperparameter of a run in words: "SGD". Empty if the exercise has none of that name."""
    if name == LEARNING_RATE and run.spec.rate_range is not None:
        return run.spec.rate_range.words
    spec = next((spec for spec in card.params if spec.name == name), None) if card is not None else None
    return value_words(spec, run.spec.params.get(name, spec.default)) if spec is not None else ""


def state_word(run: RunModel) -> str:
    """The state in one word or two. A silent link goes before a state that may have changed meanwhile."""
    if run.reading is not None:
        return "Reading …"
    if run.link_stale and run.state not in TERMINAL:
        return "Not followed" if run.logged_out else "Stale"
    if not_sent(run):
        return NOT_SENT
    if run.job is not None and run.state is RunState.SUBMITTED:
        return run.job.stage.value.capitalize()  # Connecting, Preparing, Submitting
    return "Diverged" if diverged(run) else STATE_WORDS[run.state]


def state_key(run: RunModel) -> str:
    """The state as which a run is shown: one that diverged did not simply finish."""
    if run.reading is not None:
        return "Draft"
    stale = run.link_stale and run.state not in TERMINAL
    return "Stale" if stale else "Diverged" if diverged(run) else run.state.value


def diverged(run: RunModel) -> bool:
    """Whether a run did all its steps, but its loss ended as no finite number."""
    if run.state is not RunState.FINISHED or "loss" not in run.history.first_nonfinite:
        return False
    last = run.history.last("loss")
    return last is not None and not math.isfinite(last)


def not_sent(run: RunModel) -> bool:
    """Whether the run was refused on its way to a site, so that nothing of it ever waited or trained."""
    return run.job is not None and run.job.refused and not run.history.fold.attempt


def clause(text: str, word: str = "") -> str:
    """A sentence as a clause after a state's word: "Stopped on request." after "Stopped" becomes "on request"."""
    short = text.strip().rstrip(".")
    first = short.split(" ", 1)[0]
    if first == first.capitalize():  # not NaN, not TensorFlow
        short = short[:1].lower() + short[1:]
    return short.removeprefix(word.lower()).strip() if word else short


def divergence(run: RunModel) -> str:
    """Says from which step on a curve is not a number; empty if all values are numbers."""
    steps = run.history.first_nonfinite.values()
    return f"diverged at step {count(min(steps))}" if steps else ""


def state_detail(run: RunModel, goals: str = "") -> str:
    """The clause after the state word: progress, reason, or what came of it; ``goals`` says which goals it reached."""
    fold = run.history.fold
    steps = f"{count(fold.step)} of {count(fold.steps)}" if fold.steps else count(fold.step)
    reason = clause(run.reason, STATE_WORDS[run.state])
    if run.reading is not None:
        return f"{100 * run.reading:.0f} %"
    if run.link_stale and run.state not in TERMINAL:
        return f"{'you are logged out' if run.logged_out else 'link lost'}, the run goes on"
    if run.state is RunState.QUEUED and run.queue:
        return queue_place(run.queue)
    if run.state is RunState.FINISHED:
        if diverged(run):
            return divergence(run).removeprefix("diverged ")
        whole = reason or divergence(run) or f"all {count(fold.steps or fold.step)} steps"
        return goals or whole
    if run.state is RunState.STOPPED:
        return join([reason, f"at step {count(fold.step)}" if fold.step else ""])
    if run.state in (RunState.RUNNING, RunState.PAUSED):
        return join([reason or steps, divergence(run)])
    return reason or (clause(fold.problem.text) if fold.problem is not None else "")


def where(run: RunModel) -> str:
    """The machine, how the run spreads and, when there are GPUs, which of them: "This computer, NVIDIA H100 (0)"."""
    return join([run.where, spread_words(run.spec), *(name for name in run.devices if name != "CPU")])


def forecast(done: int, steps: int, steps_per_second: float | None) -> str:
    """Says when a run will finish: "Will finish in 36 s."; empty while nobody can know."""
    if not steps or steps_per_second is None or not steps_per_second > 0 or done <= 0:
        return ""
    left = max(0, steps - done) / steps_per_second
    return "About to finish." if left < 1 else f"Will finish in {about(left)}."


def epochs(done: int, steps: int, batch_size: int, samples_per_epoch: int) -> str:
    """Progress in epochs: "epoch 36.8 of 50", both as exact; empty for an exercise without epochs."""
    if not batch_size or not samples_per_epoch or samples_per_epoch <= batch_size:
        return ""
    per_step = batch_size / samples_per_epoch
    now, end = done * per_step, steps * per_step
    if end >= 1000:
        return f"epoch {now:,.0f} of {end:,.0f}"
    digits = 1 if end >= 1 else 3
    whole = f"{end:.1f}".removesuffix(".0") if digits == 1 else f"{end:.3f}"
    return f"epoch {now:.{digits}f} of {whole}"


def goal_short(goal: Goal, card: ExerciseCard | None = None) -> str:
    """A goal as a chip: "Goal 90.79 %", "Goal: W = -1"; one with a long text by its metric, as the card names it."""
    text = goal.text.rstrip(".")
    if len(text) > 28:
        metric = metric_of(card, goal.metric) if card is not None else None
        name = inside(metric.label if metric is not None else goal.metric.replace("_", " "))
        share = metric is not None and metric.format == "percent"
        value = quantity(goal.value, "percent") if share else format_value(goal.value)
        text = f"{name} {_RELATIONS[goal.op]} {value}"
    return f"Goal {text}" if text[:1].isdigit() else f"Goal: {text}"


_RELATIONS = {">=": "≥", "<=": "≤", "near": "≈"}


def goals_reached(number: int, of: int, runs: int = 1) -> str:
    """Says how many goals of an exercise are reached: "goal reached", "1 of 3 goals reached"; empty for none.

    Where no single run has reached them all, it says over how many: "both goals reached, in 2 runs".
    """
    if not number:
        return ""
    if of == 1:
        return "goal reached"
    whole = "both" if of == 2 else f"all {of}"
    together = f", in {runs} runs" if runs > 1 else ""
    return f"{whole if number == of else f'{number} of {of}'} goals reached{together}"


def unbroken(text: str) -> str:
    """A number and its per cent sign stay on one line."""
    return re.sub(r"(?<=\d) (?=%)", "\u00a0", text)


def reading_minutes(text: str) -> int:
    """Returns how long it takes to read a text, in whole minutes: 180 words a minute, with formulas and figures in
    between."""
    return max(1, round(len(text.split()) / 180)) if text.strip() else 0


def minutes(number: int) -> str:
    """Reading or working time: "about 20 min"."""
    return f"about {number} min" if number else ""


def join(parts: Sequence[str], between: str = ", ") -> str:
    """The parts that hold something, joined."""
    return between.join(part for part in parts if part)
