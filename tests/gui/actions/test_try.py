"""A trained run is tried in a window of its own: what is drawn or opened is asked, and the answer shown."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtTest import QTest

from clew_gui.charts.pictures.page import PicturesChart
from clew_gui.session.links.inbox import TryAnswered
from clew_gui.views.runs.try_dialog import GRID, PlaneChart, TryDialog
from clew_shared.base.problem import Problem, problem
from clew_shared.cards import Catalogue, ImageGrid, Scatter
from clew_shared.journal.events import Checkpoint, Image, Matrix
from clew_shared.wire.messages import MAX_TRIED_BYTES, Refused, Tried, TriedPicture, TryRun
from tests.gui import fakes
from tests.gui.conftest import Opener

INPUT = TriedPicture(
    spec=ImageGrid("input", "Image"),
    figure=Image(name="input", step=9, width=2, height=2, channels=1, data=bytes([0, 255, 0, 255])),
)
OUTPUT = TriedPicture(
    spec=ImageGrid("output", "What it draws"),
    figure=Image(name="output", step=9, width=2, height=2, channels=1, data=bytes(4)),
)
PLANE = TriedPicture(
    spec=Scatter("plane", "Codes"),
    figure=Matrix(name="plane", step=9, rows=2, columns=3, data=struct.pack("<6d", -2, -2, 0, 2, 2, 1)),
)


class Lab:
    """A window with a run of an exercise that can be tried."""

    def __init__(self, open_window: Opener, tries: str = "classes") -> None:
        self.session = fakes.FakeSession()
        self.run = self.session.add(preset="slides")
        self.run.begin()
        self.run.train(10)
        cards = (fakes.card(tries=tries),)
        self.program = open_window(self.session, catalogue=Catalogue(chapters=("Convergence",), exercises=cards))
        self.action = self.program.window.actions_["try"]

    def save(self) -> None:
        """The run gets a checkpoint, and ends."""
        self.run.feed(Checkpoint(step=9, folder="checkpoints/00000009", files=()))
        self.run.end()
        self.session.tell(states={self.run.id})
        self.program.controller.bridge.tick()

    def open(self) -> TryDialog:
        """Its window."""
        self.save()
        self.action.trigger()
        (dialog,) = self.program.actions.trying.dialogs.values()
        return dialog

    def asked(self) -> list[TryRun]:
        """What the session was asked since the last call."""
        found = [what[1] for what in self.session.asked if isinstance(what[1], TryRun)]
        self.session.asked.clear()
        return found

    def answer(self, label: int = -1, sample: int = -1, probabilities: tuple[float, ...] = (0.1, 0.9)) -> None:
        """The agent answers."""
        image = Tried(run=self.run.id, step=9, label=label, sample=sample, samples=30, pictures=(INPUT,))
        self.tell(msgspec.structs.replace(image, probabilities=probabilities))

    def answer_code(self, *code: float, error: float | None = None, threshold: float | None = None) -> None:
        """The agent of a network with a code answers, of an image where there is an error."""
        pictures = (INPUT, OUTPUT, PLANE) if error is not None else (OUTPUT, PLANE)
        drawn = Tried(run=self.run.id, step=9, code=code, ranges=((-2.0, 2.0),) * len(code), pictures=pictures)
        self.tell(msgspec.structs.replace(drawn, error=error, threshold=threshold))

    def tell(self, reply: Tried | Refused) -> None:
        self.session.tell(tried=[TryAnswered(self.run.id, reply)])
        self.program.controller.bridge.tick()


@pytest.fixture
def lab(open_window: Opener) -> Lab:
    return Lab(open_window)


def stroke(dialog: TryDialog, *places: int) -> None:
    for start, end in pairwise(places):
        dialog.field.draw_line(QPointF(start, start), QPointF(end, end))


def test_it_is_offered_for_a_run_with_a_checkpoint_where_the_exercise_has_something_to_try(
    lab: Lab, open_window: Opener
) -> None:
    card = lab.program.window.run_view.card
    assert card is not None
    assert not lab.action.isEnabled()
    assert card.try_it.isHidden()
    lab.save()
    assert lab.action.isEnabled()
    assert not card.try_it.isHidden()
    for tries in ("", "something new"):
        other = Lab(open_window, tries)
        other.save()
        assert not other.action.isEnabled()
    without = Lab(open_window)
    without.run.end()
    without.session.tell(states={without.run.id})
    without.program.controller.bridge.tick()
    card = without.program.window.run_view.card
    assert card is not None
    assert not card.try_it.isHidden()
    assert not card.try_it.isEnabled()
    assert "no checkpoint" in card.try_it.toolTip()


def test_it_begins_with_a_test_image_and_shows_what_the_network_makes_of_it(lab: Lab) -> None:
    dialog = lab.open()
    (first,) = lab.asked()
    assert first.run == lab.run.id
    assert first.sample >= 0
    lab.answer(label=0, sample=7)
    assert dialog.answer.text() == "1, 90.00 %"
    assert "Test image 7 of 30: it is 0." in dialog.about.text()
    assert dialog.about.property("tone") == "bad"
    for chart, said in ((dialog.shares, "0 10.00 %, 1 90.00 %"), (dialog.seen, "Image")):
        assert isinstance(chart.chart, PicturesChart)
        assert said in chart.chart.description()
    assert dialog.field.image.size().toTuple() == (2, 2), "the field shows it"
    dialog.sample.click()
    lab.answer(label=1, sample=8)
    assert dialog.about.property("tone") == "ok"


def test_an_empty_field_asks_to_draw_and_a_bar_shows_that_the_network_is_loaded(lab: Lab) -> None:
    dialog = lab.open()
    assert dialog.loading.isVisible()
    dialog.field.clear()
    blank = dialog.field.grab().toImage()
    middle = [blank.pixelColor(x, blank.height() // 2).lightness() for x in range(blank.width())]
    assert max(middle) > 100, "there are words"
    assert dialog.field.image.pixelColor(0, 0).lightness() == 0
    lab.answer()
    assert not dialog.loading.isVisible()
    dialog.resize(760, 300)
    assert dialog.field.width() == dialog.field.height()


def test_the_arrows_go_through_the_test_images(lab: Lab) -> None:
    dialog = lab.open()
    lab.answer(sample=7)
    for key, sample in ((Qt.Key.Key_Right, 8), (Qt.Key.Key_Right, 9), (Qt.Key.Key_Left, 8)):
        lab.asked()
        QTest.keyClick(dialog.field, key)
        assert lab.asked() == [TryRun(run=lab.run.id, sample=sample)]
        lab.answer(sample=sample)


def test_what_is_drawn_is_asked_and_while_an_answer_is_awaited_only_the_last_counts(lab: Lab) -> None:
    dialog = lab.open()
    stroke(dialog, 10, 40, 80)
    assert len(lab.asked()) == 1, "the test image"
    lab.answer(sample=7)
    assert dialog.answer.text() == "", "nobody waits for the test image any more"
    (drawn,) = lab.asked()
    assert (drawn.width, drawn.height, drawn.drawn) == (GRID, GRID, True)
    assert len(drawn.pixels) == GRID * GRID
    assert max(drawn.pixels) == 255
    inked = sum(pixel > 0 for pixel in drawn.pixels)
    stroke(dialog, 80, 120)
    stroke(dialog, 120, 160)
    assert lab.asked() == []
    lab.answer()
    (further,) = lab.asked()
    assert sum(pixel > 0 for pixel in further.pixels) > inked
    assert dialog.answer.text() == "1, 90.00 %", "live, although more was drawn since"
    lab.answer(probabilities=(0.75, 0.25))
    assert dialog.answer.text() == "0, 75.00 %"
    assert lab.asked() == []


def test_after_clear_no_earlier_answer_is_shown_and_a_stroke_begins_on_black(lab: Lab) -> None:
    dialog = lab.open()
    lab.answer()
    stroke(dialog, 10, 40)
    lab.asked()
    QTest.keyClick(dialog.field, Qt.Key.Key_Delete)
    lab.answer()
    assert dialog.answer.text() == ""
    assert dialog.seen.chart is None
    assert lab.asked() == []
    stroke(dialog, 200, 210)
    (again,) = lab.asked()
    assert again.pixels[: GRID * 40] == bytes(GRID * 40)


def test_an_image_file_is_asked_in_a_size_that_a_request_can_have(lab: Lab, tmp_path: Path) -> None:
    dialog = lab.open()
    lab.answer()
    lab.asked()
    for name, size, sent in (("small", (30, 20), (30, 20)), ("large", (400, 200), (104, 52))):
        image = QImage(*size, QImage.Format.Format_ARGB32)
        image.fill(QColor(0, 0, 0, 0))
        image.save(str(tmp_path / f"{name}.png"))
        dialog.open_image(tmp_path / f"{name}.png")
        (request,) = lab.asked()
        assert (request.width, request.height, request.drawn) == (*sent, False)
        assert request.pixels == b"\xff" * (3 * sent[0] * sent[1]), "what is transparent is paper"
        assert len(request.pixels) <= MAX_TRIED_BYTES
        lab.answer()
    dialog.open_image(Path(__file__))
    assert "test_try.py is not a readable image" in dialog.about.text()
    assert lab.asked() == []


def test_a_file_that_is_no_image_changes_nothing_about_the_question_on_its_way(lab: Lab) -> None:
    dialog = lab.open()
    lab.asked()
    dialog.open_image(Path(__file__))
    stroke(dialog, 10, 20)
    assert lab.asked() == [], "one question is on its way"
    lab.answer(sample=7)
    assert len(lab.asked()) == 1


def test_a_refusal_is_said_there_and_the_next_question_asked(lab: Lab) -> None:
    dialog = lab.open()
    lab.asked()
    lab.tell(Refused(problem=Problem("try.checkpoint", "No checkpoint yet.", "Wait for it.")))
    assert "No checkpoint yet. Wait for it." in dialog.about.text()
    assert dialog.about.property("tone") == "bad"
    lab.session.refusal = problem("job.over", "Its job is over.")
    dialog.sample.click()
    assert "Its job is over." in dialog.about.text()
    lab.session.refusal = None
    lab.asked()
    stroke(dialog, 10, 20)
    assert len(lab.asked()) == 1


def test_there_is_one_for_each_run_and_closing_it_says_that_nobody_asks_any_more(lab: Lab) -> None:
    dialog = lab.open()
    assert lab.open() is dialog
    lab.asked()
    dialog.reject()
    assert lab.asked() == [TryRun(run=lab.run.id, close=True)]
    assert lab.program.actions.trying.dialogs == {}
    lab.answer()  # of a question that was on its way


def test_a_code_is_moved_by_sliders_beside_the_image_that_it_came_from(open_window: Opener) -> None:
    lab = Lab(open_window, "code")
    dialog = lab.open()
    lab.answer_code(-1.0, 0.5, error=0.02)
    assert dialog.answer.text() == "Error 0.0200"
    assert [slider.value() for slider in dialog.sliders.sliders] == [50, 125]
    assert not dialog.sliders.isHidden()
    assert dialog.shares.isHidden()
    lab.asked()
    dialog.sliders.sliders[0].setValue(200)
    assert lab.asked() == [TryRun(run=lab.run.id, code=(2.0, 0.5))]
    lab.answer_code(2.0, 0.5)
    chart = dialog.seen.chart
    assert isinstance(chart, PicturesChart)
    assert [one.spec.id for one in chart.taken] == ["input", "output"]
    assert "Drawn from the code below." in dialog.about.text()
    assert not dialog.field.isHidden()


def test_a_slider_of_a_number_that_never_changes_stays_at_its_end_and_can_be_moved(open_window: Opener) -> None:
    lab = Lab(open_window, "code")
    dialog = lab.open()
    dead = Tried(run=lab.run.id, step=9, code=(1e9, 0.0, 3.0), ranges=((0.0, 0.0), (0.0, 0.0), (0.0, 1.0)))
    lab.tell(msgspec.structs.replace(dead, pictures=(INPUT, OUTPUT), error=0.02))
    assert [slider.value() for slider in dialog.sliders.sliders] == [200, 100, 200]
    lab.asked()
    dialog.sliders.sliders[1].setValue(150)
    assert lab.asked() == [TryRun(run=lab.run.id, code=(1e9, 0.5, 3.0))]


def test_an_anomaly_is_called_one_and_noise_has_no_image_to_draw(open_window: Opener) -> None:
    lab = Lab(open_window, "code")
    dialog = lab.open()
    for error, word in ((0.05, "Anomaly"), (0.01, "Normal")):
        lab.answer_code(0.0, error=error, threshold=0.03)
        assert dialog.answer.text().startswith(f"{word}, error ")
        assert "Threshold 0.0300." in dialog.about.text()
    lab.program.actions.trying.dialogs[lab.run.id].close()
    dialog = lab.open()
    lab.answer_code(*[0.0] * 20)
    assert len(dialog.sliders.sliders) == 12
    assert dialog.field.isHidden()
    assert dialog.sample.accessibleName() == "Another code"


def test_a_click_in_the_plane_moves_the_code_there_and_an_answer_that_is_behind_moves_nothing_back(
    open_window: Opener,
) -> None:
    lab = Lab(open_window, "code")
    dialog = lab.open()
    lab.answer_code(-1.0, 0.5, 7.0, error=0.02)
    lab.asked()
    chart = dialog.plane.chart
    assert isinstance(chart, PlaneChart)
    assert chart.frame is not None
    for spot in ((1.0, -1.0), (1.5, 1.5)):
        at = QPointF(*chart.frame.at(*spot)).toPoint()
        QTest.mouseClick(dialog.plane, Qt.MouseButton.LeftButton, pos=at)
    QTest.mouseClick(dialog.plane, Qt.MouseButton.LeftButton, pos=QPoint(1, 1))
    (asked,) = lab.asked()
    assert asked.code == pytest.approx((1.0, -1.0, 7.0), abs=0.02)
    lab.answer_code(1.0, -1.0, 7.0)
    assert dialog.sliders.sliders[0].value() == 50, "a later answer will move it"
    (asked,) = lab.asked()
    assert asked.code == pytest.approx((1.5, 1.5, 7.0), abs=0.02)
    lab.answer_code(1.5, 1.5, 7.0)
    assert dialog.sliders.sliders[0].value() == 175
    assert "2 points of 2 classes" in dialog.plane.accessibleDescription()
