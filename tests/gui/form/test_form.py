"""The generated form: one row for each hyperparameter, errors under their fields, presets, data and seed."""

from __future__ import annotations

from pathlib import Path
from typing import cast, get_args

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QComboBox,
    QFileDialog,
    QLineEdit,
    QPlainTextEdit,
    QStyle,
    QStyleOptionComboBox,
    QWidget,
)
from pytestqt.qtbot import QtBot

from clew_gui.app import Program
from clew_gui.base.tokens import LIGHT
from clew_gui.commands.run.arguments import make_parser
from clew_gui.views.form.fields import EDITORS, NumberEdit, PointsEdit, RunEdit, make_editor
from clew_gui.views.form.form import ParamForm
from clew_gui.views.form.next_run import COMPARISONS, SLIDES, NextRun
from clew_gui.views.theme.parts import Appearance, Button, FoldButton, column
from clew_gui.views.theme.theme import font
from clew_gui.views.window.message_bar import MessageBar
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem
from clew_shared.cards import DataSetCard, Preset
from clew_shared.catalogue import encode, load_builtin
from clew_shared.journal.events import Checkpoint
from clew_shared.params import TYPES, Kind, ParamSpec, ParamType, Value, convert, describe
from tests.gui import fakes
from tests.gui.conftest import Opener


@pytest.fixture
def form(qtbot: QtBot) -> ParamForm:
    """The softmax form alone."""
    result = ParamForm(Appearance(), describe(fakes.Training))
    qtbot.addWidget(result)
    result.show()
    return result


@pytest.fixture
def panel(qtbot: QtBot) -> NextRun:
    """The right panel on softmax."""
    result = NextRun(Appearance(), [QAction() for _ in COMPARISONS])
    qtbot.addWidget(result)
    result.set_card(fakes.card())
    result.show()
    return result


def elided(box: QComboBox) -> bool:
    """Whether the box has too little room for the text that it shows."""
    option = QStyleOptionComboBox()
    box.initStyleOption(option)
    part = QStyle.SubControl.SC_ComboBoxEditField
    room = box.style().subControlRect(QStyle.ComplexControl.CC_ComboBox, option, part, box).width()
    return box.fontMetrics().horizontalAdvance(box.currentText()) > room - 2


@pytest.mark.parametrize("size", [(1024, 700), (1280, 800), (1920, 1080)])
def test_the_slides_choices_are_not_cut_off(open_window: Opener, size: tuple[int, int]) -> None:
    panel = open_window(size=size).window.next_run
    for card in load_builtin().exercises:
        panel.set_card(card)
        QTest.qWait(0)
        boxes = [box for box in panel.findChildren(QComboBox) if box.isVisible()]
        assert [box.currentText() for box in boxes if elided(box)] == []


def test_a_changed_field_stays_strong_when_the_theme_changes(softmax: Program, qtbot: QtBot) -> None:
    row = softmax.window.next_run.form.row("learning_rate")
    row.editor.set_value(0.1)
    assert row.label.font().weight() == font("strong").weight()
    softmax.actions.toggle_theme()
    qtbot.wait(50)
    assert row.label.font().weight() == font("strong").weight()


def edit(form: ParamForm, name: str) -> QLineEdit:
    """The text field of a hyperparameter."""
    field = form.row(name).editor
    assert isinstance(field, QLineEdit)
    return field


def test_it_begins_with_the_slides_values(form: ParamForm) -> None:
    assert form.values() == {
        "optimizer": "sgd",
        "learning_rate": 0.5,
        "schedule": "constant",
        "batch_size": 100,
        "order": "file",
        "steps": 500,
        "evaluate_every": None,
    }
    assert form.problems() == ()


def test_a_changed_value_is_strong_and_can_be_reset(form: ParamForm) -> None:
    row = form.row("steps")
    edit(form, "steps").setText("25,000")
    assert form.values()["steps"] == 25_000
    assert row.label.font().bold()
    assert row.reset.isVisible()
    assert row.reset.toolTip() == "Back to the slides' value: 500"
    row.reset.click()
    assert not row.label.font().bold()
    assert edit(form, "steps").text() == "500"


def test_a_field_appears_when_it_matters(form: ParamForm) -> None:
    assert not form.row("momentum").editor.isVisible()
    form.row("optimizer").editor.set_value("nesterov")
    assert form.row("momentum").editor.isVisible()
    assert form.values()["momentum"] == 0.9


def test_a_wrong_hidden_field_does_not_count(form: ParamForm) -> None:
    form.row("optimizer").editor.set_value("momentum")
    edit(form, "momentum").setText("2")
    assert len(form.problems()) == 1
    form.row("optimizer").editor.set_value("sgd")
    assert form.problems() == ()
    assert "momentum" not in form.values()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("learning_rate", "0", "must be greater than 0"),
        ("learning_rate", "0,1x", "expected a number"),
        ("batch_size", "1.5", "expected a whole number"),
        ("steps", "", "a value is needed"),
        ("batch_size", "100000", "must be at most"),
    ],
)
def test_a_wrong_value_is_told_under_its_field(form: ParamForm, name: str, text: str, said: str) -> None:
    edit(form, name).setText(text)
    error = form.row(name).error
    assert error.isVisible()
    assert said in error.text().lower()
    assert edit(form, name).property("state") == "bad"


def test_all_wrong_values_are_told_at_once(form: ParamForm) -> None:
    edit(form, "learning_rate").setText("-1")
    edit(form, "steps").setText("many")
    assert {problem.where for problem in form.problems()} == {"learning_rate", "steps"}


def test_arrow_keys_step_a_number(form: ParamForm) -> None:
    QTest.keyClick(edit(form, "learning_rate"), Qt.Key.Key_Down)
    assert form.values()["learning_rate"] == 0.2
    QTest.keyClick(edit(form, "steps"), Qt.Key.Key_Up, Qt.KeyboardModifier.ShiftModifier)
    assert form.values()["steps"] == 510


def test_the_wheel_changes_no_choice_that_it_passes_over(form: ParamForm, qtbot: QtBot) -> None:
    from PySide6.QtCore import QPoint, QPointF
    from PySide6.QtGui import QWheelEvent
    from PySide6.QtWidgets import QApplication

    box = form.row("optimizer").editor
    assert isinstance(box, QComboBox)
    edit(form, "steps").setFocus()
    at = QPointF(5, 5)
    none = Qt.MouseButton.NoButton
    wheel = QWheelEvent(
        at,
        box.mapToGlobal(at),
        QPoint(),
        QPoint(0, -240),
        none,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(box, wheel)
    assert form.values()["optimizer"] == "sgd"


def choose_preset(panel: NextRun, name: str) -> None:
    panel.preset.setCurrentIndex(panel.preset.findData(name))
    panel.preset.activated.emit(panel.preset.currentIndex())


def test_a_preset_brings_its_values_and_data_and_leaves_the_labs_choice_alone(panel: NextRun) -> None:
    choose_preset(panel, "tiny")
    spec = panel.spec()
    assert (spec.preset, spec.data, spec.params["steps"], spec.params["batch_size"]) == ("tiny", "digits", 60, 32)
    assert panel.data_choice.combo.currentData() == "digits"
    panel.use_slides()
    assert panel.spec().data == "mnist", "what the lab takes was not changed"
    choose_preset(panel, "tiny")
    panel.set_card(fakes.card(id="another"))
    assert panel.spec().data == "mnist"
    panel.set_card(fakes.card())
    assert (panel.spec().preset, panel.spec().data) == ("tiny", "digits"), "as the form was left"
    panel.data_choice.use("digits")
    panel.use_slides()
    assert panel.spec().data == "digits"
    assert panel.spec().params["steps"] == 500
    assert panel.preset.currentText() == "Slides' values"


def test_a_preset_with_other_data_than_its_own_is_custom(panel: NextRun) -> None:
    choose_preset(panel, "tiny")
    panel.data_choice.use("mnist")
    assert panel.preset.currentText() == "Custom"
    assert (panel.spec().preset, panel.spec().data) == ("", "mnist")


def test_an_exercise_made_for_the_digits_starts_with_them_whatever_the_lab_takes(panel: NextRun) -> None:
    panel.data_choice.use("mnist")
    panel.set_card(fakes.card(id="few", datasets=("digits", "mnist")))
    assert panel.spec().data == "digits"
    panel.data_choice.use("mnist")
    panel.set_card(fakes.card())
    panel.set_card(fakes.card(id="few", datasets=("digits", "mnist")))
    assert panel.spec().data == "mnist", "a person chose it there"


def test_changing_one_value_of_a_preset_makes_it_one_s_own(panel: NextRun) -> None:
    panel.form.row("steps").editor.set_value(7)
    assert panel.preset.currentText() == "Custom"
    assert panel.spec().preset == ""
    panel.form.row("steps").editor.set_value(500)
    assert panel.preset.currentText() == "Slides' values"


def test_a_table_or_folder_stays_with_its_exercise_and_the_last_five_are_in_the_list(
    panel: NextRun, qtbot: QtBot, tmp_path: Path
) -> None:
    files = [tmp_path / f"{name}.csv" for name in ("fraud", "income", "iris", "wine", "beans")]
    (tmp_path / "flowers").mkdir()
    for file in files:
        file.touch()
    panel.set_card(fakes.card(id="anomaly"))
    for file in (tmp_path / "flowers", *files):
        panel.data_choice.use(str(file))
    assert panel.spec().data == str(files[-1])
    panel.set_card(fakes.card())
    assert panel.spec().data == "mnist"
    names = [panel.data_choice.combo.itemText(row) for row in range(panel.data_choice.combo.count())]
    assert names[2:-2] == ["beans.csv", "wine.csv", "iris.csv", "income.csv", "fraud.csv"]
    place = panel.data_choice.combo.findData(str(files[0]))
    panel.data_choice.combo.setCurrentIndex(place)
    panel.data_choice.combo.activated.emit(place)
    assert panel.spec().data == str(files[0])
    panel.set_card(fakes.card(id="anomaly"))
    assert panel.spec().data == str(files[-1])
    panel.data_choice.use("digits")
    panel.set_card(fakes.card(id="cnn"))
    assert panel.spec().data == "digits", "a data set is for all exercises"

    later = NextRun(Appearance(), [QAction() for _ in COMPARISONS])
    qtbot.addWidget(later)
    left = panel.data_choice
    later.recall(panel.drafts(), left.choice, left.folder, left.kept)
    for exercise, wanted in (("softmax", str(files[0])), ("anomaly", "digits")):
        later.set_card(fakes.card(id=exercise))
        assert later.spec().data == wanted
    later.recall({}, str(files[2]), "")
    later.set_card(fakes.card(id="cnn"))
    assert later.spec().data == "digits", "an earlier version kept one file for all exercises"
    assert later.data_choice.combo.findData(str(files[2])) > 0


def test_a_file_of_a_data_set_is_the_data_of_all_exercises(panel: NextRun, tmp_path: Path) -> None:
    panel.data_choice.use("/nowhere/my.npz")
    assert panel.run.toolTip() == "There is no file or folder /nowhere/my.npz."
    assert not panel.run.isEnabled()
    assert panel.data_choice.choose.isVisible()
    mine = tmp_path / "my.npz"
    mine.touch()
    panel.data_choice.use(str(mine))
    assert panel.run.isEnabled()
    assert panel.data_choice.combo.currentText() == "my.npz"
    assert panel.data_choice.own_file.whole() == str(tmp_path)
    panel.use_slides()
    panel.set_card(fakes.card(id="cnn"))
    assert panel.spec().data == str(mine)
    panel.set_card(fakes.catalogue().exercises[0])
    assert panel.spec().data == ""
    assert not panel.data_choice.combo.isVisible()


def test_a_folder_of_images_is_chosen_as_data(panel: NextRun, tmp_path: Path) -> None:
    place = panel.data_choice.combo.findText("Folder of images…")
    panel.data_choice.combo.setCurrentIndex(place)
    panel.data_choice.combo.activated.emit(place)
    (dialog,) = panel.window().findChildren(QFileDialog)
    assert dialog.fileMode() == QFileDialog.FileMode.Directory
    assert panel.data_choice.combo.currentText() == "MNIST", "nothing is chosen yet"
    (tmp_path / "flowers").mkdir()
    dialog.fileSelected.emit(str(tmp_path / "flowers"))
    dialog.reject()
    assert (panel.spec().data, panel.data_choice.combo.currentText()) == (str(tmp_path / "flowers"), "flowers")
    assert panel.run.isEnabled()


@pytest.mark.parametrize(("text", "good"), [("7", True), ("2147483647", True), ("2147483648", False), ("x", False)])
def test_the_seed_is_checked(panel: NextRun, text: str, good: bool) -> None:
    panel.seed.row("seed").editor.set_value(text)
    assert panel.run.isEnabled() is good
    assert panel.seed.row("seed").error.isVisible() is not good


def test_an_exercise_without_data_asks_for_none(panel: NextRun) -> None:
    panel.set_card(fakes.catalogue().exercises[0])
    assert not panel.data_choice.combo.isVisible()
    assert panel.spec().data == ""


def _tab_order(whole: QWidget) -> list[str]:
    """The names of what Tab reaches, from the first on."""
    found, widget = [], whole.nextInFocusChain()
    while widget is not None and widget is not whole:
        if widget.focusPolicy() != Qt.FocusPolicy.NoFocus:
            found.append(widget.accessibleName())
        widget = widget.nextInFocusChain()
    return found


def test_tab_reaches_what_was_made_late_where_it_stands(form: ParamForm, qtbot: QtBot) -> None:
    form.row("steps").editor.set_value(7)
    names = _tab_order(form)
    assert names[names.index("Steps") + 1] == "Reset Steps"

    whole, messages = QWidget(), MessageBar(Appearance())
    qtbot.addWidget(whole)
    column(Button(Appearance(), "Before"), messages, Button(Appearance(), "After"), parent=whole)
    messages.show_problems((Problem("a.b", "Something is wrong."),))
    assert _tab_order(whole) == ["Before", "Show log", "Undo", "Copy the message", "Dismiss the message", "After"]


def test_groups_fold_and_open_for_what_is_unusual(qtbot: QtBot) -> None:
    card = next(card for card in load_builtin().exercises if card.id == "softmax")
    form = ParamForm(Appearance(LIGHT), card.params)
    qtbot.addWidget(form)
    form.show()
    heads = {head.text(): head for head in form.findChildren(FoldButton)}
    assert not form.row("evaluate_every").editor.isVisible(), "seldom changed"
    heads["More"].click()
    assert form.row("evaluate_every").editor.isVisible()
    heads["Training"].click()
    assert not form.row("optimizer").editor.isVisible()
    assert form.values()["optimizer"] == "sgd", "a folded field keeps its value"
    form.set_values({"optimizer": "adam"})
    assert form.row("optimizer").editor.isVisible(), "a changed value is never out of sight"


def test_what_the_first_labs_never_need_is_closed_until_it_is_opened_or_unusual(panel: NextRun) -> None:
    cards = {card.id: card for card in load_builtin().exercises}

    def seen() -> list[bool]:
        fields = (panel.form.row("schedule").editor, panel.spread, panel.seed)
        return [field.isVisibleTo(panel) for field in fields]

    panel.set_card(cards["perceptron"])
    heads = [head.title for head in panel.form.findChildren(FoldButton)]
    assert heads == ["Data", "Network", "Training", "More"], "the exercise's own settings come first"
    assert seen() == [False, False, False]
    panel.seed.set_values({"seed": 3})
    assert seen() == [True, True, True], "a seed of one's own is never out of sight"
    panel.seed.set_values({})
    assert seen() == [False, False, False]
    panel.set_card(cards["softmax"])
    assert seen() == [False, False, False]
    panel.form.row("schedule").editor.set_value("cosine")
    assert seen() == [True, True, True]
    panel.use_slides()
    panel.form.head("More").click()  # type: ignore[union-attr]
    for opened in (False, True):
        panel.form.head("More").click()  # type: ignore[union-attr]
        assert (panel.more, seen()) == (opened, [opened] * 3)
    panel.set_card(cards["cnn"])
    assert seen() == [True, True, True], "whoever opened it finds it open"
    panel.more = False
    panel.set_card(cards["ps-lab"])
    assert seen() == [False, True, False], "this exercise is about devices"


def test_defaults_that_are_on_no_slide_are_not_said_to_be(panel: NextRun) -> None:
    card = fakes.card()
    own = msgspec.structs.replace(card, id="my-own", presets=())
    panel.set_card(own)
    assert panel.preset.itemText(0) == "Default values"
    edit(panel.form, "learning_rate").setText("0.25")
    assert "slides" not in panel.form.row("learning_rate").reset.toolTip().lower()
    plain = Preset(name="simple", title="Simple RNN")
    panel.set_card(msgspec.structs.replace(card, id="rnn", presets=(plain,)))
    assert panel.preset.itemText(0) == "Simple RNN"
    panel.set_card(card)
    assert panel.preset.itemText(0) == "Slides' values"


def test_a_card_that_was_read_again_gets_the_form_of_its_new_fields(panel: NextRun) -> None:
    """While an agent is reading a teacher's file, its card has no hyperparameters yet."""
    whole = fakes.card(id="own")
    panel.set_card(msgspec.structs.replace(whole, params=(), presets=()))
    panel.set_card(fakes.card(id="other"))
    panel.set_card(whole)
    assert panel.form.row("learning_rate").value == 0.5
    assert panel.spec().params["steps"] == 500


def test_what_nobody_touched_follows_a_default_that_changed_in_the_file(panel: NextRun) -> None:
    card = fakes.card(id="own")
    panel.set_card(card)
    panel.form.row("batch_size").editor.set_value(64)
    params = tuple(
        msgspec.structs.replace(spec, default=0.25) if spec.name == "learning_rate" else spec for spec in card.params
    )
    panel.set_card(msgspec.structs.replace(card, params=params))
    assert panel.spec().params["learning_rate"] == 0.25
    assert panel.spec().params["batch_size"] == 64
    panel.form.row("batch_size").reset.click()
    assert panel.preset.currentData() == SLIDES


def test_the_form_of_an_earlier_card_is_gone(panel: NextRun) -> None:
    card = fakes.card(id="own")
    panel.set_card(card)
    old = panel.form
    panel.set_card(msgspec.structs.replace(card, params=card.params[:3]))
    assert panel.form is not old
    assert old.parent() is None
    panel.set_card(fakes.card(id="other"))
    panel.set_card(msgspec.structs.replace(card, params=card.params[:3]))
    assert panel.form in panel.findChildren(type(panel.form))


def transfer_window(open_window: Opener, session: fakes.FakeSession) -> Program:
    return open_window(session, exercise="transfer", catalogue=load_builtin())


def test_weights_are_a_choice_of_the_earlier_runs_whose_weights_are_here_and_a_path_stays_possible(
    open_window: Opener, places: Places
) -> None:
    session = fakes.FakeSession()
    here, elsewhere, without = session.add("cnn"), session.add("cnn"), session.add("cnn")
    for run in (here, elsewhere):
        run.begin()
        run.feed(Checkpoint(step=5, folder="checkpoints/1", files=()))
    for run in (here, without):
        (places.runs / run.id).mkdir(parents=True)
    form = transfer_window(open_window, session).window.next_run.form
    editor = form.row("weights").editor
    assert isinstance(editor, RunEdit)
    assert [editor.itemData(place) for place in range(editor.count())] == ["", str(places.runs / here.id)]
    assert form.values()["weights"] == ""
    editor.setCurrentIndex(1)
    assert form.values()["weights"] == str(places.runs / here.id)
    assert "Run 1" in editor.currentText()
    editor.offer([("/runs/2", "Run 2"), (str(places.runs / here.id), "Run 1  SGD 0.1")])
    assert form.values()["weights"] == str(places.runs / here.id), "what was chosen stays"
    line = editor.lineEdit()
    assert line is not None
    QTest.mouseClick(line, Qt.MouseButton.LeftButton)
    QApplication.processEvents()
    assert editor.view().isVisible(), "its whole row opens the list"
    editor.hidePopup()
    editor.setEditText("/data/weights.npz")
    assert form.values()["weights"] == "/data/weights.npz"
    form.set_values({})
    assert (form.values()["weights"], editor.currentText()) == ("", "None")


def test_the_form_offers_every_data_set_that_the_exercise_takes_by_its_title(
    panel: NextRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = DataSetCard(name="kuzushiji", title="Kuzushiji-MNIST", files=("kuzushiji.npz",))
    changed = load_builtin()
    (tmp_path / "catalogue.json").write_bytes(
        encode(msgspec.structs.replace(changed, datasets=(*changed.datasets, new)))
    )
    monkeypatch.setattr("clew_shared.catalogue.BUILTIN", tmp_path / "catalogue.json")
    panel.set_card(msgspec.structs.replace(fakes.card(), datasets=("mnist", "digits", "kuzushiji")))
    box = panel.data_choice.combo
    assert [box.itemText(row) for row in range(3)] == ["MNIST", "Digits, built in", "Kuzushiji-MNIST"]
    box.setCurrentIndex(2)
    box.activated.emit(2)
    assert panel.data_choice.value() == "kuzushiji"
    assert panel.data_choice.staged() == "", "it is a name, not a file of one's own"


def test_each_kind_of_hyperparameter_has_its_type_and_its_control() -> None:
    assert set(TYPES) == set(EDITORS) == set(get_args(Kind))


def test_a_new_kind_of_hyperparameter_is_one_type_and_one_control(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(_spec: ParamSpec, raw: object) -> Value:
        above, slash, below = str(raw).partition("/")
        if not slash:
            raise ValueError(f"expected a fraction such as 1/4, got {raw!r}")
        return int(above) / int(below)

    kind = cast(Kind, "fraction")
    one = ParamType(read=read, python=float, metavar="A/B", words=lambda _spec, value: f"{value:.0%}")
    monkeypatch.setitem(TYPES, kind, one)
    monkeypatch.setitem(EDITORS, kind, NumberEdit)
    share = ParamSpec(name="share", kind=kind, label="Share", default=0.5)
    form = ParamForm(Appearance(), [share])
    qtbot.addWidget(form)
    edit(form, "share").setText("1/4")
    assert form.values() == {"share": 0.25}
    edit(form, "share").setText("25")
    assert form.row("share").error.text() == "Expected a fraction such as 1/4, got '25'"
    assert "50%" in form.row("share").reset.toolTip()
    text = make_parser([msgspec.structs.replace(fakes.card(), params=(share,))]).format_help()
    assert "--share A/B" in text


def test_a_text_of_several_lines_has_a_field_of_several_lines_and_its_example(qtbot: QtBot) -> None:
    note = ParamSpec(name="note", kind="text", label="Note", default="", example="One\nTwo", lines=2)
    form = ParamForm(Appearance(), [note])
    qtbot.addWidget(form)
    field = form.row("note").editor
    assert isinstance(field, QPlainTextEdit)
    assert field.placeholderText() == "One\nTwo"
    field.setPlainText("Three\nFour")
    assert form.values() == {"note": "Three\nFour"}
    form.row("note").reset.click()
    assert field.toPlainText() == ""


PLANE = ParamSpec(name="own", label="Own points", kind="text", default="", plane=True)


@pytest.fixture
def points(qtbot: QtBot) -> PointsEdit:
    """The field for points in a plane."""
    editor = make_editor(PLANE)
    assert isinstance(editor, PointsEdit)
    qtbot.addWidget(editor)
    return editor


def test_points_are_set_and_removed_with_the_mouse_and_are_text_as_well(points: PointsEdit, qtbot: QtBot) -> None:
    editor, square, (left, right) = points, points.square, (Qt.MouseButton.LeftButton, Qt.MouseButton.RightButton)
    QTest.mouseClick(square, left, pos=square.at(0, 0).toPoint())
    with qtbot.waitSignal(editor.edited):
        QTest.mouseClick(square, right, pos=square.at(1, 1).toPoint())
    assert editor.raw() == "0,0,0 1,1,1"
    QTest.mouseClick(square, right, pos=square.at(0, 0).toPoint())
    assert editor.raw() == "1,1,1"
    editor.set_value("0.5,-0.25,0 -1,1,1")
    assert list(square.points) == [(0.5, -0.25, 0), (-1.0, 1.0, 1)]


def test_a_click_writes_nothing_over_a_text_that_cannot_be_read(points: PointsEdit) -> None:
    editor = points
    editor.set_value("0.5,-0.25,0 1,1")
    assert convert(PLANE, editor.raw())[1] is not None
    QTest.mouseClick(editor.square, Qt.MouseButton.LeftButton, pos=editor.square.at(0, 0).toPoint())
    assert editor.raw() == "0.5,-0.25,0 1,1"
    editor.set_value("0.5,-0.25,0 1,1,1")
    QTest.mouseClick(editor.square, Qt.MouseButton.LeftButton, pos=editor.square.at(0, 0).toPoint())
    assert editor.raw() == "0.5,-0.25,0 1,1,1 0,0,0"
