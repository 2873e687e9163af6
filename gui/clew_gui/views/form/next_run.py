"""The right panel: what the next run will be, what it will cost, and the one Run button."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication, QMenu, QVBoxLayout, QWidget

from clew_gui.base.times import read_time
from clew_gui.jobs.job import Place
from clew_gui.schedulers.allocation import LABELS, for_run
from clew_gui.views.form.data_choice import DataChoice, is_own
from clew_gui.views.form.fields import choose_quietly, combo
from clew_gui.views.form.form import ON_SLIDES, SEVERAL, ParamForm, Usual, field_rows, without_name
from clew_gui.views.form.spread import spread_fields, spread_params, spread_values
from clew_gui.views.form.where_box import HERE, WhereBox
from clew_gui.views.presentation.menu_entries import RemedyButton, RemedyButtons
from clew_gui.views.presentation.words import WAITS, data_short, preset_values
from clew_gui.views.theme.parts import (
    Appearance,
    Button,
    Elided,
    Glyph,
    IconButton,
    Panel,
    column,
    frame,
    label,
    lay_out_now,
    row,
    scrolling,
    set_role,
)
from clew_shared.base import remedies
from clew_shared.base.number_words import duration, in_bytes
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem
from clew_shared.base.remedies import Remedy
from clew_shared.cards import ExerciseCard
from clew_shared.catalogue import known_sets
from clew_shared.params import SELDOM, ParamSpec, Value, check, convert
from clew_shared.spec import SINGLE, Prediction, RunSpec

RATE = "learning_rate"
AGAIN_S = 0.5
"""The seconds after a key press in which the same values are not run again; Qt itself detects double clicks."""
OWN = "own"
SLIDES = "slides"
"""The key of every field's default, whatever it is called."""
_SLIDES, _DEFAULTS = "Slides' values", "Default values"
USUAL = Usual("As a rule", "Back to the usual value")
PLAY_TIP = "Train again at once after each change, without a row for each"
COMPARISONS = ("sweep", "race", "range", "predict")
"""The entries of the menus that *Compare settings* offers."""
SEED = ParamSpec(
    name="seed",
    kind="int",
    label="Seed",
    default=1,
    ge=0,
    lt=2**31,
    help="The same seed gives the same run, bit for bit.",
)


class _Kept(NamedTuple):
    """A form that was made, and from what."""

    specs: tuple[ParamSpec, ...]
    usual: Usual
    form: ParamForm


class NextRun(Panel):
    """Form, presets, data, seed, cost and Run. Emits the spec to start; knows no session."""

    run_asked = Signal(RunSpec)
    sweep_asked = Signal()
    edited = Signal()
    replaced = Signal(RunSpec)
    """A person's own values were replaced; these are the old ones."""

    def __init__(self, appearance: Appearance, comparisons: Sequence[QAction]) -> None:
        super().__init__()
        self._appearance = appearance
        self.sweep, self.race, self.range, self.predict = comparisons
        self._tips = {entry: entry.toolTip() for entry in comparisons}
        self._card: ExerciseCard | None = None
        self.clock: Callable[[], float] = time.monotonic
        self._asked: tuple[RunSpec | None, float] = (None, 0.0)
        self._refusal = ""
        self._cost2 = ""
        self.more = False
        """Whether a person opened what the first labs never need."""
        self._opening = False
        """It is being opened or closed by itself."""
        self._drafts: dict[str, RunSpec] = {}
        self._forms: dict[str, _Kept] = {}
        self._spreads: dict[str, _Kept] = {}
        self.form, self.spread = ParamForm(appearance, ()), ParamForm(appearance, (), USUAL)
        self._make_controls()
        self._make_layout()

    # --- Building -----------------------------------------------------------------------------------------------------

    def _make_controls(self) -> None:
        appearance = self._appearance
        self.lesson_presets: Mapping[str, str] = {}
        """The presets with which a course begins exercises, by exercise."""
        self.preset = combo([], "Preset")
        self.preset.setToolTip("Named sets of values for this exercise")
        self.preset.activated.connect(
            lambda _index: self._instead(lambda: self._use_preset(str(self.preset.currentData())))
        )
        self.data_choice = DataChoice(self, appearance)
        self.data_choice.changed.connect(self._changed)
        self.where = WhereBox(appearance)
        self.where.changed.connect(self._place_changed)
        self.seed = ParamForm(appearance, (SEED,), USUAL, heads=False, sweep=self.sweep_asked.emit)
        self.seed.changed.connect(self._changed)
        self.cost = Elided("", "strong")
        self.cost2 = label("", "caption", "2", wrap=True)
        self.hint = label("", "caption", "2", wrap=True)
        self._hint = frame("", row(Glyph(appearance, "info", "accent", 13), self.hint, gap=6))
        self.run = Button(appearance, "Run", "primary", "play", "Run with these values (Ctrl+Enter)")
        self.run.clicked.connect(self.ask_run)
        self.play = Button(appearance, "Play", "", "off", PLAY_TIP)
        self.play.setCheckable(True)
        self.play.hide()
        self.play.toggled.connect(self._show_play)
        self.keep = Button(appearance, "Keep", "quiet", "pin", "Keep the last try as a run like any other, and play on")
        self.keep.hide()
        self.code = Button(appearance, "Code", "quiet", "code", "Show the file that runs (Ctrl+U)")
        self.compare = Button(
            appearance, "Compare settings", "quiet", "rate", "Several runs, or what you expect of one"
        )
        menu = QMenu(self.compare)
        menu.setToolTipsVisible(True)
        self.compare.setMenu(menu)
        menu.addActions(list(self._tips))
        self.prediction: Prediction | None = None
        self._expected = label("", "body", "2")
        self.unpredict = IconButton(appearance, "cross", "Forget the prediction", "Run without a prediction", size=14)
        self.unpredict.clicked.connect(lambda: self.predicted(None))
        self.predicted(None)
        self.show_hint("")

    def _make_layout(self) -> None:
        self._area = scrolling()
        self._inner = Panel()
        self._inner_box: QVBoxLayout = column(gap=0, parent=self._inner)
        self._inner_box.addLayout(field_rows(("Preset", self.preset)))
        self._inner_box.addWidget(self.where)
        self._inner_box.addLayout(self.data_choice.rows)
        for widget in (self.data_choice.message, self.form, self.spread, self.seed):
            self._inner_box.addWidget(widget)
        self._inner_box.addStretch(1)
        self._area.setWidget(self._inner)
        head = row(label("Next run", "subtitle"), margins=(16, 12, 16, 6))
        go, more = row(self.run, self.play, gap=6, grows=self.run), row(self.compare, self.code, self.keep, None, gap=0)
        expected = row(self._expected, self.unpredict, None, gap=4)
        over = (self._hint, self.cost, self.cost2, self.data_choice.choose, expected)
        self._foot = foot = column(*over, 4, go, more, gap=3, margins=(16, 12, 16, 8))
        column(head, self._area, frame("hline"), foot, gap=0, grows=self._area, parent=self)
        QApplication.instance().focusChanged.connect(self._reveal)  # type: ignore[union-attr]

    def _reveal(self, _before: QWidget | None, now: QWidget | None) -> None:
        """Scrolls to the field that got the cursor, also where it was not by the Tab key."""
        if now is not None and self._inner.isAncestorOf(now):
            lay_out_now(self._inner, self.form)
            self._area.ensureWidgetVisible(now)

    def show_hint(self, text: str) -> None:
        """Shows what a person may not have found, above the cost, where it covers nothing; an empty text hides it."""
        self.hint.setText(text)
        self._hint.setVisible(bool(text))

    def put_site_bar(self, bar: QWidget) -> None:
        """Puts the site bar above the cost, where it is visible however far the form is scrolled."""
        self._foot.insertWidget(0, bar)

    # --- What is there --------------------------------------------------------------------------------------------

    def set_card(self, card: ExerciseCard) -> None:
        """Show the form of another exercise; what was typed for it before is still there."""
        self.play.setChecked(False)  # before a field of another form changes
        if self._card is not None:
            self._drafts[self._card.id] = self._draft()
        if self._card is None or self._card.id != card.id:
            self._area.verticalScrollBar().setValue(0)
        self._card = card
        self.predicted(None)
        self._replace_form(card)
        self._fill_choices(card)
        self.where.open_exercise(card.id)
        self._offer_play()
        self.race.setVisible(bool(card.races))
        self.range.setVisible(card.kind == "training" and any(one.name == RATE and one.live for one in card.params))
        draft = self._drafts.get(card.id)
        if draft is not None:
            data = next((one.data for one in card.presets if one.name == draft.preset), "")
            self.data_choice.take_of_preset(data if data == draft.data else "")
            self.show_spec(draft)
        else:
            self._use_preset(self.lesson_presets.get(card.id, SLIDES))

    def _replace_form(self, card: ExerciseCard) -> None:
        """Shows an exercise's own forms. They are kept as long as they have the fields of its card: a file can be read
        again, and while it is being read its card has none."""
        self.form.hide()
        self.spread.hide()
        usual = ON_SLIDES if _defaults_title(card) == _SLIDES else USUAL
        self.form = self._form_of(self._forms, self.form, card.id, card.params, usual)
        self.spread = self._form_of(self._spreads, self.spread, card.id, spread_params(card), USUAL)
        self.form.show()
        self._show_more()

    def _form_of(
        self, kept: dict[str, _Kept], before: ParamForm, exercise: str, specs: tuple[ParamSpec, ...], usual: Usual
    ) -> ParamForm:
        known = kept.get(exercise)
        if known is not None and (known.specs, known.usual) == (specs, usual):
            return known.form
        sweep = self.sweep_asked.emit if kept is self._forms else None  # a sweep changes nothing of how runs spread
        form = ParamForm(self._appearance, specs, usual, sweep=sweep)
        form.changed.connect(self._changed)
        if (head := form.head(SELDOM)) is not None:
            head.toggled.connect(self._open_more)
        self._inner_box.insertWidget(self._inner_box.indexOf(before), form)
        form.hide()
        if known is not None:
            known.form.setParent(None)
            known.form.deleteLater()
        kept[exercise] = _Kept(specs, usual, form)
        return form

    def _open_more(self, on: bool) -> None:
        """A person opened or closed what the first labs never need: it stays so for all exercises."""
        if not self._opening and not self.form.unusual_in(SELDOM):
            self.more = on
            self._show_more()

    def _show_more(self) -> None:
        """Shows what the first labs never need if a person opened it, or when something there is unusual. Devices are
        part of it unless the exercise is about them."""
        card, head = self._card, self.form.head(SELDOM)
        if card is None:
            return
        if head is not None:
            self._opening = True
            head.setChecked(self.more or self.form.unusual_in(SELDOM) or self.seed.unusual or self.spread.unusual)
            self._opening = False
        opened = head is None or head.isChecked()
        about_devices = any(one.id != SINGLE.id for one in card.strategies[:1])
        self.spread.setVisible(len(card.strategies) > 1 and (about_devices or opened))
        self.seed.setVisible(opened)

    def _fill_choices(self, card: ExerciseCard) -> None:
        self.preset.clear()
        self.preset.addItem(_defaults_title(card), SLIDES)
        for preset in card.presets:
            if preset.values or preset.seed is not None:
                self.preset.addItem(preset.title, preset.name)
                self.preset.setItemData(self.preset.count() - 1, preset.help, Qt.ItemDataRole.ToolTipRole)
        self.preset.addItem("Custom", OWN)
        self.data_choice.set_card(card)

    def _place_changed(self) -> None:
        """Adapts the form to another place, where this computer's data and speed do not count."""
        chosen = self.where.choice()
        self.run.set_words("Run" if chosen.key == HERE else f"Run on {chosen.short}")
        self.data_choice.set_elsewhere(chosen.key != HERE)
        self._offer_play()
        self._changed()

    def _show_play(self, on: bool) -> None:
        self.form.show_sliders(on)
        self.play.set_glyph(*(("on", "accent") if on else ("off", "")))

    def _offer_play(self) -> None:
        """Small exercises play on this computer; another exercise or another place ends it."""
        self.play.setChecked(False)
        self.play.setVisible(self._card is not None and self._card.plays and self.where.choice().key == HERE)

    def spec(self) -> RunSpec:
        """Returns the spec that would run, without a run id; a wrong field counts as its default."""
        card = self._card
        seed = self.seed.values()[SEED.name]
        return RunSpec(
            exercise=card.id if card is not None else "",
            preset=self._preset_name(),
            seed=seed if isinstance(seed, int) else 1,
            data=self.data_choice.value(),
            source_hash=card.source_hash if card is not None else "",
            params=self.form.values(),
            **(spread_fields(card, self.spread.values()) if card is not None else {}),
        )

    def _draft(self) -> RunSpec:
        """Returns the form's values without those that nobody touched: they follow the exercise, whose defaults may
        change."""
        return msgspec.structs.replace(self.spec(), params=self.form.touched())

    def _preset_name(self) -> str:
        key = str(self.preset.currentData())
        return "" if key in (OWN, SLIDES) else key

    def place(self, specs: Sequence[RunSpec] = ()) -> Place | None:
        """Returns the place where the run would go, with as many nodes and GPUs as it spreads over, or as any of
        ``specs`` does; None for this computer."""
        place = self.where.place(self.data_choice.staged())
        if place is None or place.job:
            return place
        allocation = place.allocation
        for spec in specs or (self.spec(),):
            allocation = for_run(allocation, spec)
        return msgspec.structs.replace(place, allocation=allocation)

    def _instead(self, change: Callable[[], None]) -> None:
        """Change all values; a person who typed some may want them back."""
        before, own = self.spec(), self._matching() == OWN
        change()
        if own and (before.params, before.seed, before.data) != (
            self.spec().params,
            self.spec().seed,
            self.spec().data,
        ):
            self.replaced.emit(before)

    def use_spec(self, spec: RunSpec) -> None:
        """Take the values of a run in place of those in the form; its data become the lab's."""
        self._instead(lambda: self.show_spec(spec, with_data=True))

    def use_slides(self) -> None:
        """Take the slides' values, or the defaults where there are no slides."""
        self._instead(lambda: self._use_preset(SLIDES))

    def use_rate(self, rate: float) -> None:
        """Take a learning rate that a range test has found."""
        self.form.row(RATE).editor.set_value(float(f"{rate:.2g}"))

    def use_value(self, name: str, value: float) -> None:
        """Take a value of a parameter that was found in a picture."""
        self.form.row(name).editor.set_value(value)
        self.form.row(name).editor.setFocus()

    def add_to(self, name: str, number: int) -> None:
        """Make a whole number of the form larger or smaller, inside its limits."""
        for spec in self._card.params if self._card is not None else ():
            if spec.name == name and isinstance(before := self.form.row(name).value, int):
                value, problem = convert(spec, before + number)
                self.form.row(name).editor.set_value(before if problem is not None else value)

    def put_back(self, spec: RunSpec) -> None:
        """Show replaced values again; what offers that goes when another exercise is opened."""
        self.show_spec(spec, with_data=True)

    def drafts(self) -> dict[str, RunSpec]:
        """Returns the values in the form for each opened exercise, and those that an earlier window left for the
        others."""
        return self._drafts | ({self._card.id: self._draft()} if self._card is not None else {})

    def recall(self, drafts: Mapping[str, RunSpec], data: str, folder: str, files: Sequence[str] = ()) -> None:
        """Take over what was in the forms of the window before; call it before any exercise is opened."""
        self._drafts.update(drafts)
        own = {exercise: draft.data for exercise, draft in drafts.items() if is_own(draft.data)}
        self.data_choice.recall(data, folder, files, own)

    def show_spec(self, spec: RunSpec, with_data: bool = False) -> None:
        """Show the values of a run, to start it again or to change one thing."""
        self.form.set_values(check(self._card.params, spec.params)[0] if self._card is not None else {})
        self.spread.set_values(spread_values(spec))
        self.seed.set_values({SEED.name: spec.seed})
        if with_data and spec.data and spec.data != self.data_choice.value():
            self.data_choice.use(spec.data)
        self._changed()

    def _use_preset(self, key: str) -> None:
        card = self._card
        if card is None or key == OWN:
            self._changed()
            return
        found = next((preset for preset in card.presets if preset.name == key), None)
        self.form.set_values(preset_values(card, key))
        self.data_choice.take_of_preset(found.data if found is not None else "")
        if key == SLIDES:
            self.spread.set_values({})
        if found is not None and found.seed is not None:
            self.seed.set_values({SEED.name: found.seed})
        elif key == SLIDES:
            self.seed.set_values({})
        self._changed()

    # --- Checking -----------------------------------------------------------------------------------------------------

    def problems(self) -> tuple[Problem, ...]:
        """Returns the problems that keep this from running, field by field."""
        parts = (self.form, self.seed, self.spread, self.data_choice, self.where)
        return tuple(found for part in parts for found in part.problems())

    def refuse(self, reason: str) -> None:
        """Refuses to run, for this reason; an empty reason allows it again."""
        self._refusal = reason
        self._changed()

    def _changed(self) -> None:
        self._recognise_preset()
        wrong = self.problems()
        broken = self._card.problem if self._card is not None else None
        reason = self._refusal or (_why_broken(broken) if broken is not None else _why_not(wrong))
        self.run.allow(not reason, reason)
        self.play.setEnabled(not reason or self.play.isChecked())
        elsewhere = self.where.choice().key != HERE
        alone = "A race runs on this computer: choose it above" if elsewhere else ""
        for entry, why in ((self.race, reason or alone), (self.range, reason), (self.sweep, self._no_sweep())):
            entry.setEnabled(not why)
            entry.setToolTip(why or self._tips[entry])
        self._show_more()
        self.edited.emit()
        self._show_cost(reason)

    def _no_sweep(self) -> str:
        """Says why no sweep can be put together now. Several values in one field are fine for a sweep."""
        broken = self._card.problem if self._card is not None else None
        wrong = tuple(one for one in self.problems() if one.code != SEVERAL)
        return self._refusal or (_why_broken(broken) if broken is not None else _why_not(wrong))

    def _matching(self) -> str:
        """The preset whose values are in the form."""
        card, values = self._card, self.form.values()
        if card is None:
            return OWN
        names = [str(self.preset.currentData()), SLIDES, *(preset.name for preset in card.presets)]
        return next((name for name in names if name != OWN and self._is_preset(card, name, values)), OWN)

    def _recognise_preset(self) -> None:
        if self._card is None:
            return
        match = self._matching()
        if match != OWN and self.preset.findData(match) < 0:
            match = SLIDES
        choose_quietly(self.preset, match)

    def _is_preset(self, card: ExerciseCard, name: str, values: Mapping[str, Value]) -> bool:
        wanted = preset_values(card, name)
        data = next((preset.data for preset in card.presets if preset.name == name), "")
        if data and data in card.datasets and self.data_choice.value() != data:
            return False
        return all(wanted.get(key) == value for key, value in values.items()) and not self.form.problems()

    def predicted(self, prediction: Prediction | None) -> None:
        """Keeps what a person expects of the next run; None for nothing."""
        self.prediction = prediction
        expected = f"{prediction.metric} {prediction.values[-1]:.4g}" if prediction is not None else ""
        self._expected.setText(f"Predicted: {expected}")
        self._expected.setVisible(bool(expected))
        self.unpredict.setVisible(bool(expected))

    def ask_run(self) -> None:
        """Start it, or go to the field that is wrong. The second click of a double click starts nothing."""
        if self.run.isEnabled() and self._card is not None:
            before, self._asked = self._asked, (self.spec(), self.clock())
            if self._asked[0] == before[0] and self._asked[1] - before[1] < AGAIN_S:
                return
            self.play.setChecked(False)
            spec = msgspec.structs.replace(self.spec(), prediction=self.prediction)
            self.predicted(None)
            self.run_asked.emit(spec)
        elif self.form.problems():
            self.form.focus_first_problem()
        else:
            self.where.focus_first_problem()

    def show_cost(self, time: str) -> None:
        """Shows the cost: time first, then what it uses; for a site, the time in other words."""
        there, second = self.where.cost()
        self.cost.set_text(there or time)
        self._cost2 = second if there else ""
        self._show_cost("" if self.run.isEnabled() else self.run.toolTip())

    def _show_cost(self, reason: str) -> None:
        """Show below the time what the run uses, or why it cannot run now."""
        self.cost2.setText(reason or self._cost2)
        self.cost2.setVisible(bool(self.cost2.text()))
        wrong = any(one.code not in (SEVERAL, *WAITS) for one in self.problems())
        set_role(self.cost2, "bad" if wrong else "2", "tone")


def _defaults_title(card: ExerciseCard) -> str:
    """Returns the name of the defaults: that of the preset that changes nothing, if there is one."""
    plain = (preset.title for preset in card.presets if not preset.values and preset.seed is None)
    return next(plain, _DEFAULTS)


def _why_broken(found: Problem) -> str:
    """Says briefly why the exercise cannot run; the first card of the *Run* tab says what is wrong with the file."""
    return found.text if found.code in WAITS else "This exercise cannot run yet."


def _why_not(problems: tuple[Problem, ...]) -> str:
    if not problems:
        return ""
    first = without_name(problems[0])
    return first if len(problems) == 1 else f"{len(problems)} fields need another value. {first}"


# --- Remedies ---------------------------------------------------------------------------------------------------------


class FormRemedies:
    """Carries out the remedies of one form. ``places`` says where this computer's runs look for data."""

    def __init__(self, form: NextRun, buttons: RemedyButtons, places: Places) -> None:
        self._form, self._places = form, places
        buttons.add(remedies.SET, self._set)
        buttons.add(remedies.CHOOSE, self._choose)
        buttons.add(remedies.OWN_FILE, self._own_file)
        buttons.add(remedies.SITE_PATH_OF_DATA, self._site_path)

    def _set(self, remedy: Remedy) -> RemedyButton | None:
        form, name, value = self._form, remedy.what, remedy.value
        if name == "data":
            offered = value in form.data_choice.offered()
            return RemedyButton(f"Use {data_short(value)}", lambda: form.data_choice.use(value)) if offered else None
        if name not in LABELS or form.where.form is None:
            return None
        seconds = read_time(value) if name == "time" else None
        text = f"Ask for {duration(seconds)}" if seconds else f"{LABELS[name]}: {value}"
        return RemedyButton(text, lambda: form.where.set_field(name, value))

    def _choose(self, remedy: Remedy) -> RemedyButton | None:
        form, name = self._form, remedy.what
        if name == "data":
            return RemedyButton("Choose file…", form.data_choice.ask_file)
        if name not in LABELS or form.where.form is None:
            return None
        return RemedyButton(f"Change {LABELS[name].lower()}", lambda: form.where.focus_field(name))

    def _own_file(self, remedy: Remedy) -> RemedyButton:
        form, found = self._form, self._file_here(remedy.what)
        if found is None or not form.where.choice().key:
            text = "A file of this computer…" if form.where.choice().key else "Choose file…"
            return RemedyButton(text, form.data_choice.ask_file)
        size = in_bytes(found.stat().st_size)
        text = f"Send {data_short(remedy.what)} from this computer ({size})"
        return RemedyButton(text, lambda: form.data_choice.use(str(found)))

    def _file_here(self, data: str) -> Path | None:
        """The one file of a data set on this computer, where runs of this computer look for it."""
        card = known_sets().get(data)
        folders = [Path(os.environ["CLEW_DATA"])] if os.environ.get("CLEW_DATA") else []
        files = (folder / name for folder in (*folders, self._places.data) for name in (card.whole if card else ()))
        return next((file for file in files if file.is_file()), None)

    def _site_path(self, _remedy: Remedy) -> RemedyButton | None:
        if not self._form.where.choice().key:
            return None
        return RemedyButton("A path on the site…", self._form.data_choice.ask_path)
