"""Pictures that a run took, as people meet them: a page of tiles, a slider over the steps, a threshold that moves."""

from __future__ import annotations

import csv
from pathlib import Path

import msgspec
import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QAction, QImage
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot
from sklearn.metrics import (
    average_precision_score,
    confusion_matrix,
    precision_recall_curve,
    precision_recall_fscore_support,
    roc_auc_score,
    roc_curve,
)

from clew_gui.base.tokens import DARK, LIGHT, Theme, mixed
from clew_gui.charts.kit.axes import draw_key
from clew_gui.charts.kit.drawing import Drawing, Group, Item, Marks, Raster, Rectangle, UsualSizes, Words
from clew_gui.charts.kit.drawing import Path as Line
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.pictures.histogram import HistogramPicture
from clew_gui.charts.pictures.images import Images
from clew_gui.charts.pictures.page import EMPTY, PicturesChart
from clew_gui.charts.pictures.planes import Network, Planes, ScatterPicture
from clew_gui.charts.pictures.tables import Table
from clew_gui.charts.pictures.taken import (
    Judgement,
    TakenPicture,
    confusion_at,
    deviations_at,
    picture_rows,
    taken_at,
    threshold_curves,
    tile_columns,
)
from clew_gui.charts.pictures.tile import Picture
from clew_gui.reports.figures import LabelledRun, figures_of
from clew_gui.views.plots.pages import offered
from clew_gui.views.plots.panel import ConvergencePlots
from clew_gui.views.plots.pictures import PicturesView
from clew_gui.views.runs.run_view import PlotControls
from clew_gui.views.theme.parts import Appearance
from clew_shared.cards import (
    Bars,
    ConfusionMatrix,
    Distributions,
    ExerciseCard,
    Gallery,
    HistogramPlot,
    ImageGrid,
    PictureSpec,
    Plane,
    Scatter,
    Surface,
)
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.journal.events import Histogram, Image, Matrix
from clew_shared.journal.history import Figure, fits
from clew_shared.spec import RunSpec
from tests.gui import fakes
from tests.gui.conftest import Opener
from tests.gui.fakes import FakeRun, FakeSession
from tests.gui.plots.test_plots import colours, open_panel, save_csv, wear
from tests.gui.plots.test_plots import show as show_runs

PICTURES = (
    ImageGrid("digits", "Reconstructions", columns=2),
    Gallery("wrong", "Wrong answers", labels=("zero", "one", "two")),
    Scatter("codes", "Latent space"),
    HistogramPlot("errors", "Error", threshold=0.5, labels=("normal", "fraud")),
    ConfusionMatrix("confusion", labels=("cat", "dog")),
    Bars("norms", "Gradient norm", labels=("first", "second"), log=True),
)
SCORES = np.array([0.1, 0.2, 0.4, 0.6, 0.3, 0.7, 0.9], np.float32)
CLASSES = np.array([0, 0, 0, 0, 1, 1, 1], np.int32)


def matrix(name: str, step: int, values: list[list[float]], columns: tuple[str, ...] = ()) -> Matrix:
    table = np.array(values, "<f8")
    rows, wide = table.shape
    return Matrix(name=name, step=step, rows=rows, columns=wide, data=table.tobytes(), column_labels=columns)


def taken(step: int) -> list[Figure]:
    """One picture of each form; the larger the step, the brighter the images."""
    grey = np.full([4, 3, 3], step // 4, np.uint8).tobytes()
    classes, answers = np.array([0, 1, 2, 1], "<i4").tobytes(), np.array([0, 2, 2, 1], "<i4").tobytes()
    edges = np.linspace(0, 1, 11).astype("<f8")
    counts = np.histogram(SCORES, edges)[0].astype("<i8")
    image = Image(name="digits", step=step, width=3, height=3, channels=1, count=4, data=grey)
    return [
        image,
        msgspec.structs.replace(image, name="wrong", classes=classes, answers=answers),
        matrix("codes", step, [[0, 0, 0], [1, 1, 1], [1, 2, 1], [float("nan"), 0, 0]], ("x", "y", "class")),
        Histogram(
            name="errors",
            step=step,
            edges=edges.tobytes(),
            counts=counts.tobytes(),
            values=SCORES.tobytes(),
            classes=CLASSES.tobytes(),
        ),
        matrix("confusion", step, [[8, 2], [1, 9]]),
        matrix("norms", step, [[0.001, 0.1]]),
    ]


def pictured(session: FakeSession, *steps: int) -> FakeRun:
    run = session.add()
    run.begin(1000)
    for step in steps:
        run.feed(*taken(step))
    return run


@pytest.fixture
def card() -> ExerciseCard:
    return msgspec.structs.replace(find_card(load_builtin().exercises, "softmax"), id="pictured", pictures=PICTURES)


@pytest.fixture
def panel(qtbot: QtBot, card: ExerciseCard) -> ConvergencePlots:
    return open_panel(qtbot, card, "pictures", (1000, 640))


def show(panel: ConvergencePlots, qtbot: QtBot, *runs: FakeRun) -> PicturesView:
    show_runs(panel, qtbot, *runs)
    return panel.page_of(PicturesView)


def chart_of(view: PicturesView) -> PicturesChart:
    assert isinstance(view.chart, PicturesChart)
    return view.chart


def steps_shown(view: PicturesView) -> set[int]:
    return {one.figure.step for one in view.taken if one.figure is not None}


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_each_form_is_painted_in_the_colours_of_the_theme_and_said_in_words(
    panel: ConvergencePlots, qtbot: QtBot, theme: Theme
) -> None:
    wear(panel, theme)
    view = show(panel, qtbot, pictured(FakeSession(), 400))
    found = colours(view.grab().toImage())
    assert {theme.surface.upper(), theme.accent.upper(), "#646464"} <= found, "100 of 255 is the images' grey"
    assert view.accessibleDescription() == (
        "Reconstructions at step 400: 4 images of 3 × 3 pixels."
        " Wrong answers at step 400: 4 images of 3 × 3 pixels, 1 of them answered wrongly."
        " Latent space at step 400: 3 points of 2 classes."
        " Error at step 400: 7 values from 0 to 1.00, threshold 0.500:"
        " Precision 66.67 %, Recall 66.67 %, F-score 66.67 %, ROC AUC 83.33 %, PR AUC 86.67 %."
        " Confusion at step 400: 17 of 20 right, the most frequent mistake is dog instead of cat (2)."
        " Gradient norm at step 400: first 0.00100, second 0.100"
    )


def test_the_slider_goes_back_in_time_and_follows_the_run_at_its_end(panel: ConvergencePlots, qtbot: QtBot) -> None:
    run = pictured(FakeSession())
    view = show(panel, qtbot, run)
    assert view.accessibleDescription() == EMPTY
    run.feed(*taken(100), *taken(200))
    show(panel, qtbot, run)
    assert steps_shown(view) == {200}
    latest = view.grab().toImage()
    run.feed(*taken(300))
    show(panel, qtbot, run)
    assert steps_shown(view) == {300}, "it follows"
    assert view.grab().toImage() != latest

    view.setFocus()
    QTest.keyClick(view, Qt.Key.Key_Left)
    assert steps_shown(view) == {200}
    run.feed(*taken(400))
    show(panel, qtbot, run)
    assert steps_shown(view) == {200}, "who looks back is not disturbed"
    panel.replay.slider.setValue(0)
    assert steps_shown(view) == {100}
    panel.replay.slider.setValue(panel.replay.slider.maximum())
    run.feed(*taken(500)[:1])
    show(panel, qtbot, run)
    assert steps_shown(view) == {400, 500}, "each picture as it was latest"


def test_the_selected_run_is_shown_and_a_later_attempt_takes_pictures_back(
    panel: ConvergencePlots, qtbot: QtBot
) -> None:
    session = FakeSession()
    first, second = pictured(session, 100), pictured(session, 700)
    view = show(panel, qtbot, second, first)
    assert steps_shown(view) == {700}
    panel.show_runs([first, second], first.id, "", {})
    qtbot.waitUntil(lambda: steps_shown(view) == {100})
    first.history.figures.pop("norms")
    show(panel, qtbot, first)
    assert [one.figure is None for one in view.taken] == [False] * 5 + [True]
    assert view.accessibleDescription().endswith("Gradient norm: not taken yet")


def test_pictures_stay_until_the_run_that_has_just_begun_has_some(panel: ConvergencePlots, qtbot: QtBot) -> None:
    session = FakeSession()
    first, other = pictured(session, 100), pictured(session, 700)
    view = show(panel, qtbot, other, first)
    panel.show_runs([first, other], first.id, "", {})
    qtbot.waitUntil(lambda: steps_shown(view) == {100})
    begun = session.add("pictured").begin(500)
    panel.show_runs([other, begun], begun.id, "", {})  # the first one was taken out of the list
    view.redraw()
    assert steps_shown(view) == {100}, "neither none nor those of a third run"
    begun.feed(*taken(50))
    panel.show_runs([other, begun], begun.id, "", {})
    qtbot.waitUntil(lambda: steps_shown(view) == {50})


def test_a_threshold_is_moved_and_all_that_follows_equals_scikit_learns(panel: ConvergencePlots, qtbot: QtBot) -> None:
    view = show(panel, qtbot, pictured(FakeSession(), 100))

    def form() -> HistogramPicture:
        return next(one for one in chart_of(view).forms if isinstance(one, HistogramPicture))

    area = form().axes.frame.box
    grip = QPoint(round(form().column(0.5)), round(area.middle))
    QTest.mousePress(view, Qt.MouseButton.LeftButton, pos=grip)
    QTest.mouseMove(view, QPoint(round(form().column(0.25)), grip.y()))
    QTest.mouseRelease(view, Qt.MouseButton.LeftButton)
    value = view.thresholds["errors"]
    assert value == pytest.approx(0.25, abs=0.01)
    assert_as_scikit_learn(form().judgement, value)
    assert form().judgement == Judgement(3, 2, 0, 2)
    assert view.accessibleDescription().count("Precision 60.00 %, Recall 100.00 %") == 1

    view.threshold.setValue(800)
    value = view.thresholds["errors"]
    assert value == pytest.approx(0.8, abs=0.01)
    assert_as_scikit_learn(form().judgement, value)
    view.reset_zoom()
    assert view.thresholds == {"errors": 0.5}


def test_a_threshold_begins_where_the_run_judged_at_the_shown_step_until_it_is_moved(
    panel: ConvergencePlots, qtbot: QtBot
) -> None:
    run = pictured(FakeSession(), 100, 200)
    errors = run.history.figures["errors"]
    run.history.figures["errors"] = [
        msgspec.structs.replace(one, threshold=value) for one, value in zip(errors, (0.25, 0.65), strict=True)
    ]
    view = show(panel, qtbot, run)
    assert view.thresholds == {"errors": 0.65}
    panel.change(until=100)
    assert view.thresholds == {"errors": 0.25}
    view.set_threshold("errors", 0.4)
    panel.change(until=None)
    assert view.thresholds == {"errors": 0.4}
    view.reset_zoom()
    assert view.thresholds == {"errors": 0.65}


def assert_as_scikit_learn(found: Judgement | None, threshold: float) -> None:
    assert found is not None
    answers = (threshold < SCORES).astype(int)
    counted = [found.true_negatives, found.false_positives, found.false_negatives, found.true_positives]
    assert counted == confusion_matrix(CLASSES, answers, labels=[0, 1]).ravel().tolist()
    expected = precision_recall_fscore_support(CLASSES, answers, average="binary")[:3]
    assert (found.precision, found.recall, found.f_score) == pytest.approx(tuple(expected))


@pytest.mark.parametrize("ties", [1, 7])
def test_the_curves_over_all_thresholds_are_scikit_learns(ties: int) -> None:
    """Also where many scores are equal: no threshold lies between these."""
    draw = np.random.default_rng(ties)
    classes = (draw.random(300) < 0.2).astype(np.int32)
    values = np.round((draw.normal(size=300) + classes) * 8 / ties) / 8
    found = threshold_curves(values, classes)
    assert found is not None
    assert found.roc_area == pytest.approx(roc_auc_score(classes, values))
    assert found.precision_area == pytest.approx(average_precision_score(classes, values))
    alarms, recall, _ = roc_curve(classes, values, drop_intermediate=False)
    np.testing.assert_allclose((found.false_alarms, found.recall), (alarms, recall))
    precision, recall, _ = precision_recall_curve(classes, values)
    np.testing.assert_allclose((found.precision, found.recall), (precision[::-1], recall[::-1]))


def test_without_one_of_the_classes_there_is_no_curve() -> None:
    values = np.array([0.1, 0.2])
    assert threshold_curves(values, np.array([0, 0], np.int32)) is None
    assert threshold_curves(values, np.array([1, 2], np.int32)) is None


def test_the_areas_under_the_curves_are_shown_and_the_curves_where_there_is_room(
    panel: ConvergencePlots, qtbot: QtBot
) -> None:
    canvas = show(panel, qtbot, pictured(FakeSession(), 100))
    (form,) = (one for one in chart_of(canvas).forms if isinstance(one, HistogramPicture))
    area = f"ROC AUC {100 * roc_auc_score(CLASSES, SCORES):.2f} %"
    assert area in form.description()
    tile = next(one for one in chart_of(canvas).tiles if one.taken.spec.id == "errors")
    QTest.mouseDClick(canvas, Qt.MouseButton.LeftButton, pos=QPointF(*tile.box.centre).toPoint())
    assert {"ROC", "PR"} <= words_of(chart_of(canvas).forms[0])


def test_where_nothing_is_judged_or_nothing_is_there_no_ratio_is_made_up() -> None:
    nothing = confusion_at(np.array([0.1, 0.2]), np.array([0, 0], np.int32), 0.5)
    assert (nothing.precision, nothing.recall, nothing.f_score) == (None, None, None)
    missed = confusion_at(np.array([0.1, 0.2]), np.array([0, 1], np.int32), 0.5)
    assert (missed.precision, missed.recall, missed.f_score) == (None, 0.0, 0.0)


def test_what_is_under_the_pointer_is_read_out_and_a_double_click_shows_one_picture_alone(
    panel: ConvergencePlots, qtbot: QtBot
) -> None:
    view = show(panel, qtbot, pictured(FakeSession(), 100))
    canvas = view
    grid, wrong, codes, errors, confusion, norms = chart_of(canvas).forms
    assert isinstance(grid, Images)
    assert isinstance(wrong, Images)
    assert isinstance(confusion, Table)
    assert grid.columns == 2
    assert [form.read(-5, -5) for form in chart_of(canvas).forms] == [""] * 6
    assert grid.read(*grid.box(3).centre) == "image 4"
    assert wrong.read(*wrong.box(1).centre) == "one, answer two"
    named = Images(chart_of(canvas).tiles[1], msgspec.structs.replace(wrong.image, answers=b""))
    assert named.read(*named.box(1).centre) == "one", "images with a class and no answer have its name below them"
    assert named.description() == "4 images of 3 × 3 pixels"
    assert named.box(2).y > named.box(0).bottom + 12
    assert confusion.read(*confusion.box(0, 1).centre) == "class cat, answer dog: 2"
    assert errors.read(*centre(errors, 0.35)) == "0.300 to 0.400: normal 0, fraud 1"
    assert norms.read(chart_of(canvas).tiles[5].room.x + 20, chart_of(canvas).tiles[5].room.y + 8) == "first: 0.00100"
    assert {"0.001", "0.01", "0.1"} <= words_of(norms), "its axis"
    assert codes.description() == "3 points of 2 classes", "one is no finite number"
    plain = canvas.grab().toImage()
    QTest.mouseMove(canvas, QPointF(*confusion.box(0, 1).centre).toPoint())
    assert canvas.grab().toImage() != plain

    tile = chart_of(canvas).tiles[4].box
    assert canvas.toolTip() == "Double-click a picture to enlarge it"
    QTest.mouseDClick(canvas, Qt.MouseButton.LeftButton, pos=QPointF(*tile.centre).toPoint())
    assert [one.spec.id for one in canvas.taken] == ["confusion"]
    assert canvas.toolTip() == "Escape shows all pictures"
    assert chart_of(canvas).tiles[0].box.width > 2 * tile.width
    canvas.setFocus()
    QTest.keyClick(canvas, Qt.Key.Key_Escape)
    assert len(canvas.taken) == 6


def centre(form: object, value: float) -> tuple[float, float]:
    assert isinstance(form, HistogramPicture)
    return form.column(value), form.axes.frame.box.middle


def test_they_leave_as_picture_drawing_and_table(panel: ConvergencePlots, qtbot: QtBot, tmp_path: Path) -> None:
    run = pictured(FakeSession(), 100)
    show(panel, qtbot, run)
    panel.export("png", tmp_path / "pictures.png")
    panel.export("svg", tmp_path / "pictures.svg")
    save_csv(panel, qtbot, tmp_path / "pictures.csv")
    assert QImage(str(tmp_path / "pictures.png")).width() == 2 * panel.page_of(PicturesView).width()
    drawing = QSvgRenderer(str(tmp_path / "pictures.svg"))
    assert drawing.isValid()
    text = (tmp_path / "pictures.svg").read_text(encoding="utf-8")
    assert all(word in text for word in ("Latent space", "66.67 %", "Reconstructions at step 100"))
    with (tmp_path / "pictures.csv").open(encoding="utf-8") as file:
        head, *lines = list(csv.reader(file))
    assert head == ["run", "step", "picture", "index", "name", "x", "y", "value"]
    assert len(lines) == 36 + 36 + 3 + 7 + 4 + 2
    assert [run.id, "100", "digits", "0", "grey", "0", "0", "25"] == lines[0]
    assert [run.id, "100", "wrong", "1", "grey one answered two", "2", "2", "25"] in lines
    assert [run.id, "100", "codes", "2", "1", "1.0", "2.0", ""] in lines
    assert [run.id, "100", "errors", "4", "fraud", "", "", repr(float(SCORES[4]))] in lines
    assert [run.id, "100", "confusion", "1", "cat answered dog", "1", "0", "2.0"] in lines
    assert [run.id, "100", "norms", "1", "second", "", "", "0.1"] in lines


def test_logarithmic_axes_are_offered_where_a_plot_asks_for_one(qtbot: QtBot) -> None:
    controls = PlotControls(Appearance(LIGHT), print, QAction())
    qtbot.addWidget(controls)
    for log in (True, False):
        controls.offer_pages(offered(fakes.card()), log)
        assert controls.log.isHidden() is not log


def test_names_that_the_run_recorded_come_before_numbers(
    panel: ConvergencePlots, qtbot: QtBot, tmp_path: Path, card: ExerciseCard
) -> None:
    """Of a data set whose classes have names, for a card that knows none."""
    run = FakeSession().add()
    run.begin(1000)
    unnamed = (Gallery("wrong", "Wrong answers"), Scatter("codes", "Latent space"), ConfusionMatrix("confusion"))
    card = msgspec.structs.replace(card, id="named", pictures=unnamed)
    panel.show_card(card)
    panel.show_page("pictures")
    names = ("Coat", "Sandal", "Bag")
    _, wrong, codes, _, _, _ = taken(100)
    confusion = msgspec.structs.replace(
        matrix("confusion", 100, [[8, 2, 0], [1, 9, 0], [0, 0, 5]], names), row_labels=names
    )
    run.feed(*(msgspec.structs.replace(one, class_labels=names) for one in (wrong, codes)), confusion)
    view = show(panel, qtbot, run)
    gallery, points, table = chart_of(view).forms
    assert isinstance(gallery, Images)
    assert isinstance(points, ScatterPicture)
    assert isinstance(table, Table)
    assert gallery.read(*gallery.box(1).centre) == "Sandal, answer Bag"
    assert points.read(points.axes.frame.column(1), points.axes.frame.row(2)) == "Sandal at 1.00, 2.00"
    assert table.read(*table.box(0, 1).centre) == "class Coat, answer Sandal: 2"
    assert "the most frequent mistake is Sandal instead of Coat (2)" in view.accessibleDescription()
    save_csv(panel, qtbot, tmp_path / "pictures.csv")
    panel.export("svg", tmp_path / "pictures.svg")
    text = (tmp_path / "pictures.csv").read_text(encoding="utf-8")
    assert ",wrong,1,grey Sandal answered Bag," in text
    assert ",codes,2,Sandal,1.0,2.0," in text
    assert ",confusion,1,Coat answered Sandal,1,0,2.0" in text
    drawing = (tmp_path / "pictures.svg").read_text(encoding="utf-8")
    assert drawing.count("Sandal") >= 4, "below an image, in the key, among the points, at a row"
    report = figures_of(card, [LabelledRun("Run", run.history, RunSpec(exercise="pictured"))])
    said = "below an image, at a row and a column; in the key, and among the points with a halo"
    assert [one.svg.count(">Sandal</text>") for one in report[-2:]] == [3, 3], said


def test_the_page_is_offered_alone_and_beside_the_curves(qtbot: QtBot) -> None:
    controls = PlotControls(Appearance(LIGHT), print, QAction())
    qtbot.addWidget(controls)
    pages: list[str] = []
    controls.page_changed.connect(pages.append)
    controls.resize(1200, 40)
    controls.show()
    controls.offer_pages(offered(fakes.card(pictures=PICTURES)))
    assert pages[-1] == "both", "there is room for both"
    assert not controls.units.isHidden()
    controls.pages.button("pictures").click()
    assert pages[-1] == "pictures"
    assert controls.units.isHidden()
    assert controls.pages.button("surface").isHidden()
    controls.offer_pages(offered(fakes.card()))
    assert pages[-1] == "curves"
    assert controls.pages.isHidden()
    controls.offer_pages(offered(find_card(load_builtin().exercises, "perceptron")))
    controls.pages.button("by_hand").click()
    assert (pages[-1], controls.units.isHidden()) == ("by_hand", True)
    controls.pages.button("pictures").click()
    controls.offer_pages(offered(fakes.card(pictures=PICTURES, kind="measurement")))
    assert pages[-1] == "pictures", "what a person chose, where it is there"
    controls.pages.button("measured").click()
    assert pages[-1] == "measured"


def test_ten_classes_have_room_in_the_key_of_a_small_tile() -> None:
    """Four pictures on a page of a window of 1280×800 pixels leave 164 pixels of height."""
    drawing = Drawing(LIGHT, UsualSizes())
    draw_key(drawing, Box(0, 0, 80, 164), [(f"#0{k}8040", str(k)) for k in range(10)])
    assert [item.fill for item in drawing.items if isinstance(item, Rectangle)] == [f"#0{k}8040" for k in range(10)]


def test_a_form_of_a_newer_agent_is_named_in_place_of_its_picture() -> None:
    sent = msgspec.json.encode(Scatter("codes", "Codes")).replace(b"scatter", b"hologram")
    spec = msgspec.json.decode(sent, type=PictureSpec)
    chart = PicturesChart([TakenPicture(spec, taken(100)[2])], Box(0, 0, 400, 300), UsualSizes())
    assert chart.description() == "Codes at step 100: this version of Clew cannot show the form 'hologram'"
    assert "hologram" in " ".join(words_of(chart))


def items_of(part: Picture | PicturesChart, theme: Theme = LIGHT) -> list[Item]:
    """All shapes of a drawing, also those in groups."""
    drawing = Drawing(theme, UsualSizes())
    part.draw(drawing)
    found: list[Item] = []
    left: list[Item] = list(drawing.items)
    while left:
        first = left.pop(0)
        if isinstance(first, Group):
            left[:0] = first.items
        else:
            found.append(first)
    return found


def words_of(part: Picture | PicturesChart) -> set[str]:
    """All texts of a drawing."""
    return {one.text for one in items_of(part) if isinstance(one, Words)}


def test_the_pictures_of_another_run_are_shown_beside(panel: ConvergencePlots, qtbot: QtBot) -> None:
    session = FakeSession()
    first, second = pictured(session, 100, 200), pictured(session, 100)
    view = show(panel, qtbot, first, second)
    canvas, others = view, view.others
    assert [others.itemData(k) for k in range(others.count())] == ["", second.id]
    alone = len(chart_of(canvas).tiles)
    others.setCurrentIndex(1)
    others.activated.emit(1)
    shown = chart_of(canvas)
    assert [one.figure.step for one in shown.taken if one.figure is not None] == [200] * alone + [100] * alone
    assert all(tile.box.right < 500 for tile in shown.tiles[:alone])
    assert all(tile.box.x > 500 for tile in shown.tiles[alone:])
    assert shown.description().startswith("1  SGD 0.5 beside 2  SGD 0.5. ")
    errors = shown.forms[3 + alone]
    assert isinstance(errors, HistogramPicture)
    grip = QPointF(errors.column(0.5), errors.axes.frame.box.middle).toPoint()
    QTest.mousePress(canvas, Qt.MouseButton.LeftButton, pos=grip)
    QTest.mouseMove(canvas, QPointF(errors.column(0.25), grip.y()).toPoint())
    QTest.mouseRelease(canvas, Qt.MouseButton.LeftButton)
    assert canvas.thresholds["errors"] == pytest.approx(0.25, abs=0.02), "of both runs"
    show(panel, qtbot, first)
    assert len(chart_of(canvas).tiles) == alone
    assert others.isHidden()


def test_a_gallery_without_room_shows_fewer_images_and_says_how_many_more() -> None:
    image, answers = Image(name="wrong", step=1, width=8, height=8, channels=1, count=40, data=bytes(2560)), bytes(160)
    figure = msgspec.structs.replace(image, classes=answers, answers=answers)
    chart = PicturesChart([TakenPicture(Gallery("wrong"), figure)], Box(0, 0, 120, 140), UsualSizes())
    (form,) = chart.forms
    assert isinstance(form, Images)
    assert form.box(0).height >= 14
    drawn = sum(isinstance(item, Raster) for item in items_of(form))
    assert 0 < drawn < 40
    assert f"and {40 - drawn} more" in words_of(form)
    many = msgspec.structs.replace(figure, count=2000, data=bytes(128_000), classes=bytes(8000), answers=bytes(8000))
    (crowd,) = PicturesChart([TakenPicture(Gallery("wrong"), many)], Box(0, 0, 400, 300), UsualSizes()).forms
    assert 0 < sum(isinstance(item, Raster) for item in items_of(crowd)) < 1024, "as many as can be told apart"
    foreign = msgspec.structs.replace(figure, classes=b"")
    (bare,) = PicturesChart([TakenPicture(Gallery("wrong"), foreign)], Box(0, 0, 120, 140), UsualSizes()).forms
    assert isinstance(bare, Images)
    assert bare.read(*bare.box(0).centre) == "image 1", "answers without classes"


def plane_page(
    values: list[list[list[int]]], columns: int = 0, points: bytes = b"", classes: bytes = b""
) -> PicturesChart:
    """A page with maps from 0 to 255, laid out."""
    maps = np.array(values, np.uint8)
    image = Image(
        name="answer",
        step=40,
        width=maps.shape[2],
        height=maps.shape[1],
        channels=1,
        count=len(maps),
        columns=columns,
        data=maps.tobytes(),
        points=points,
        point_classes=classes,
    )
    spec = Plane("answer", x=(-2, 2), y=(-2, 2), labels=("blue", "orange"))
    return PicturesChart([TakenPicture(spec, image)], Box(0, 0, 500, 300), UsualSizes())


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_a_plane_has_the_colours_of_its_classes_and_its_points_where_they_are(theme: Theme) -> None:
    """Left is class 0, right class 1; of two points one is on the wrong side."""
    places = np.array([[-1, 1], [-1, -1]], "<f4").tobytes()
    page = plane_page([[[0, 255], [0, 255]]], points=places, classes=np.array([0, 1], "<i4").tobytes())
    area = planes_of(page)[0].box
    assert area.width == area.height
    items = items_of(page, theme)
    (map_,) = (one for one in items if isinstance(one, Raster))
    first, last = (mixed(theme.surface, theme.class_colour(one), 0.55) for one in (0, 1))
    assert ["#{:02X}{:02X}{:02X}".format(*map_.pixels[0, column]) for column in (0, -1)] == [
        first.upper(),
        last.upper(),
    ]
    blue, orange = (one for one in items if isinstance(one, Marks))
    assert (blue.fill, orange.fill) == (theme.class_colour(0), theme.class_colour(1))
    assert blue.y[0] == pytest.approx(area.y + area.height / 4)
    assert page.read(area.x + 1, area.y + 1).endswith(": 0.00")
    assert page.read(area.right - 1, area.bottom - 1).endswith(": 1.00")
    assert page.description().endswith("a map with 2 points, 1 of them on the side of their class")


def test_maps_of_a_plane_are_in_the_rows_that_they_were_given_in() -> None:
    page = plane_page([[[0, 128], [128, 255]]] * 6, columns=3)
    frames = planes_of(page)
    assert len({frame.box.y for frame in frames}) == 2
    assert page.read(*frames[4].box.centre).startswith("map 5, ")
    assert page.description().endswith("6 maps")


def network_page(maps: int, columns: int) -> tuple[PicturesChart, Network]:
    """A network of ``maps`` units, so many in a layer."""
    values = np.zeros((maps, 4, 4), np.uint8).tobytes()
    image = Image(name="u", step=9, width=4, height=4, channels=1, count=maps, columns=columns, data=values)
    spec = Plane("u", grows=("layers", "units"))
    other = TakenPicture(Plane("a"), msgspec.structs.replace(image, name="a", count=1, data=bytes(16)))
    page = PicturesChart([TakenPicture(spec, image if maps else None), other], Box(0, 0, 420, 300), UsualSizes())
    assert isinstance(page.forms[0], Network)
    return page, page.forms[0]


def test_a_network_is_drawn_layer_by_layer_and_a_click_makes_it_larger_or_smaller() -> None:
    page, network = network_page(6, 3)
    left, right = (frame.box for frame in (network.frames[0], network.frames[3]))
    assert left.y == right.y
    assert left.right < right.x
    assert [frame.box.x for frame in network.frames[:3]] == [left.x] * 3
    lines = [one for one in items_of(page) if isinstance(one, Line)]
    assert len(lines) >= 2 * 3 + 3 * 3, "each unit has all of the layer before"
    assert all(box.right <= page.tiles[0].box.right for box in network.buttons.values())
    assert [page.pick(*box.centre) for box in network.buttons.values()] == ["layers-", "layers+", "units-", "units+"]
    assert page.read(*network.buttons["units+"].centre) == "one unit more"
    assert page.pick(*left.centre) == ""
    assert page.read(*right.centre).startswith("map 4, ")


def test_a_network_without_a_layer_can_get_one() -> None:
    page, network = network_page(0, 0)
    assert [page.pick(*box.centre) for box in network.buttons.values()] == ["layers-", "layers+"]
    assert not network.frames
    assert items_of(page)
    for columns in (2, 10**9, -3):
        page, network = network_page(5, columns)
        assert len(network.frames) == 5, "from somebody else's run, whose numbers do not fit"
        assert len(items_of(page)) < 100


def test_a_surface_has_the_way_that_its_weights_have_come() -> None:
    x = np.linspace(-1, 1, 9)
    bowl = [[float(a * a + b * b + 1) for a in x] for b in x]
    spec = Surface("bowl", x=(-1, 1), y=(-1, 1))
    ways = [
        msgspec.structs.replace(matrix("bowl", step, bowl), points=np.array(at, "<f4").tobytes())
        for step, at in ((1, (-0.5, 0.5)), (2, (-0.25, 0.5)), (3, (0.0, 0.0)))
    ]
    (taken,) = taken_at([spec], {"bowl": ways}, 2)
    page = PicturesChart([taken], Box(0, 0, 400, 300), UsualSizes())
    *_, way = (one for one in items_of(page) if isinstance(one, Line))
    assert len(way.x) == 2, "what comes after the shown step is not drawn"
    (head,) = (one for one in items_of(page) if isinstance(one, Marks))
    assert (head.x[0], head.y[0]) == (way.x[-1], way.y[-1])
    assert page.description().endswith("weights -0.250 and 0.500, loss 1.31")
    assert page.read(float(head.x[0]), float(head.y[0])) == "-0.250, 0.500: 1.31"


def test_maps_and_surfaces_that_cannot_be_shown_say_so() -> None:
    """Somebody else's run may have any numbers that fit each other."""
    image = Image(name="a", step=1, width=2, height=1, channels=1, count=2, columns=-3, data=bytes(4))
    none = msgspec.structs.replace(image, count=0, data=b"")
    table = Matrix(name="a", step=1, rows=2, columns=2, data=bytes(32), points=np.array([np.nan, 1], "<f4").tobytes())
    flat = [msgspec.structs.replace(table, rows=rows, columns=columns, data=b"") for rows, columns in ((0, 0), (0, 3))]
    plane, surface = Plane("a"), Surface("a", x=(0, 1), y=(0, 1))
    odd = [msgspec.structs.replace(plane, x=span) for span in ((0.0, 0.0), (1.0, 0.0), (np.nan, 1.0), (-1e308, 1e308))]
    cases: list[tuple[PictureSpec, Image | Matrix]] = [
        (plane, image),
        (plane, none),
        (surface, table),
        *((surface, one) for one in flat),
    ]
    cases += [(one, image) for one in odd]
    said = []
    for spec, figure in cases:
        assert fits(figure)
        page = PicturesChart([TakenPicture(spec, figure)], Box(0, 0, 500, 300), UsualSizes())
        items_of(page)
        page.read(100.0, 100.0)
        said.append(page.description().partition(": ")[2])
    assert said == ["2 maps", "there is nothing to show", "a loss over two weights"] + 2 * [
        "there is nothing to show"
    ] + 4 * ["its axes have no extent"]


@pytest.mark.parametrize("span", [(0.0, 0.0), (1.0, 0.0), (float("nan"), 1.0)])
def test_an_exercise_whose_axes_have_no_extent_is_refused(span: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="an axis needs a lower end"):
        Plane("a", x=span)
    with pytest.raises(ValueError, match="an axis needs a lower end"):
        Surface("a", x=(0, 1), y=span)


def planes_of(page: PicturesChart) -> list[Frame]:
    (form,) = page.forms
    assert isinstance(form, Planes)
    return form.frames


def test_very_many_images_are_one_so_that_a_page_stays_small() -> None:
    count = 5000
    image = Image(name="digits", step=1, width=1, height=1, channels=1, count=count, data=bytes(count))
    chart = PicturesChart([TakenPicture(ImageGrid("digits"), image)], Box(0, 0, 400, 300), UsualSizes())
    assert sum(isinstance(item, Raster) for item in items_of(chart)) == 1


def test_tiles_have_the_shape_of_pictures() -> None:
    assert [tile_columns(6, *size) for size in ((1200, 700), (400, 1200), (3000, 300))] == [3, 1, 6]
    assert tile_columns(1, 100, 100) == 1
    assert tile_columns(2, 0, 0) in (1, 2), "a page that a splitter has closed"


def test_a_threshold_says_how_many_deviations_it_is_and_the_form_takes_them(open_window: Opener, qtbot: QtBot) -> None:
    session = FakeSession()
    run = session.add("anomaly")
    run.begin()
    run.train(5)
    mean = float(run.history.column("loss").values[-1])
    errors = next(one for one in taken(5) if isinstance(one, Histogram))
    run.feed(msgspec.structs.replace(errors, threshold=mean + 0.2))
    plot = HistogramPlot("errors", threshold=0.5, mean="loss", deviations="deviations")
    cards = (msgspec.structs.replace(find_card(load_builtin().exercises, "anomaly"), pictures=(plot,)),)
    catalogue = msgspec.structs.replace(load_builtin(), exercises=cards)
    program = open_window(session, exercise="anomaly", catalogue=catalogue, size=(1280, 800))
    program.window.show_tab(1)
    program.window.run_view.controls.pages.button("pictures").click()
    view = program.window.run_view.plots.page_of(PicturesView)
    qtbot.waitUntil(lambda: view.use.isVisible())
    view.set_threshold("errors", mean + 0.3)
    assert view.said.text().endswith("3.00 deviations"), "the run's own are 2"
    view.use.click()
    editor = program.window.next_run.form.row("deviations").editor
    assert program.window.next_run.form.values()["deviations"] == 3.0
    assert editor.hasFocus()
    assert not editor.visibleRegion().isEmpty()
    view.set_threshold("errors", mean + 400)
    assert not view.use.isEnabled(), "it would end in a field that is wrong"
    assert "which no run takes" in view.said.text()
    assert "must be at most" in view.use.toolTip()
    assert program.window.next_run.form.values()["deviations"] == 3.0
    view.set_threshold("errors", mean + 0.4)
    assert view.use.isEnabled()


def test_no_number_of_deviations_is_said_where_the_run_does_not_tell_their_size() -> None:
    assert deviations_at(0.5, own=0.4, mean=0.2, deviations=2) == pytest.approx(3)
    assert deviations_at(0.1, own=0.4, mean=0.2, deviations=2) == pytest.approx(-1)
    assert deviations_at(0.5, own=0.2, mean=0.2, deviations=0) is None
    assert deviations_at(0.5, own=0.2, mean=0.2, deviations=2) is None


def curves_until(panel: ConvergencePlots) -> int | None:
    """The step at which the curves are shown as they were."""
    return panel.view.until


def test_beside_curves_one_slider_moves_both(panel: ConvergencePlots, qtbot: QtBot) -> None:
    session = FakeSession()
    run = pictured(session, 100, 200, 300)
    view = show(panel, qtbot, run)
    panel.replay.slider.setValue(0)
    assert steps_shown(view) == {100}
    panel.show_page("both")
    assert curves_until(panel) == 100
    panel.replay.go_to(250)
    assert steps_shown(view) == {200}
    assert curves_until(panel) == 250
    panel.show_page("pictures")
    assert (panel.replay.step.text(), panel.replay.chosen) == ("step 200", 250)
    panel.replay.step_cursor(1)
    assert steps_shown(view) == {300}
    assert curves_until(panel) is None
    panel.show_page("both")
    panel.replay.go_to(100)
    show(panel, qtbot, run)
    assert curves_until(panel) == 100
    live = session.add()
    live.begin(1000)
    show(panel, qtbot, live, run)
    assert panel.replay.chosen is None, "a run that begins is followed"


# --- Distributions ----------------------------------------------------------------------------------------------------

LAYERS = Distributions("spread", "Weights")


def spread(step: int, count: int = 2) -> Matrix:
    """Layers that become wider with the steps."""
    rows = [[k * step / 100 for k in (-9.0, -2, -1, 0, 1, 2, 3)], *[[float(k) for k in range(7)]] * (count - 1)]
    names = tuple(f"layer{k}" for k in range(1, count + 1))
    return msgspec.structs.replace(matrix("spread", step, rows), row_labels=names)


def distributions(figures: list[Figure], until: int | None, size: tuple[float, float]) -> PicturesChart:
    """The picture as it was at a step."""
    return PicturesChart(taken_at([LAYERS], {"spread": figures}, until), Box(0, 0, *size), UsualSizes(), step=until)


def test_distributions_are_bands_over_the_steps_so_far_and_their_axes_stay() -> None:
    figures: list[Figure] = [spread(step) for step in (100, 200, 300, 400)]
    whole, then = (distributions(figures, until, (700, 300)) for until in (None, 200))
    pages = []
    for chart in (whole, then):
        bands = [one for one in items_of(chart) if isinstance(one, Line) and one.stroke is None]
        assert len(bands) == 6, "three for each of two layers"
        pages.append((bands, words_of(chart)))
    ends = [float(bands[0].x.max()) for bands, _ in pages]
    first = float(pages[0][0][0].x.min())
    assert (ends[1] - first) / (ends[0] - first) == pytest.approx(1 / 3), "100 to 200 of 100 to 400"
    np.testing.assert_allclose(pages[1][0][0].y[:2], pages[0][0][0].y[:2])
    assert {"layer1", "layer2", "-36.0 to 12.0", "Bands: 68 %, 95 % and all values. Line: median."} <= pages[0][1]
    assert "-18.0 to 6.00" in pages[1][1]
    assert then.description() == "Weights at step 200: layer1 -18.0 to 6.00, median 0, layer2 0 to 6.00, median 3.00"
    at = pages[0][0][0]
    column = first + (ends[0] - first) * 0.7
    assert whole.read(column, float(at.y.mean())) == "layer1, step 300: -27.0 to 9.00, median 0"
    assert whole.read(1, 1) == ""


def test_layers_without_room_or_without_numbers_are_left_out() -> None:
    many = [spread(step, 30) for step in (100, 200)]
    said = words_of(distributions([*many], None, (300, 200)))
    assert "Without 26 of 30 layers." in " ".join(said)
    assert {"layer1", "layer30"} <= said
    broken = msgspec.structs.replace(many[0], step=300, data=np.full(210, np.nan).tobytes())
    assert "layer1 NaN to NaN" in distributions([*many, broken], None, (300, 200)).description()
    other = spread(400, 2)
    assert distributions([*many, other], None, (300, 200)).description().count("layer") == 2, (
        "those of the last picture"
    )


def test_distributions_as_values_have_a_row_for_each_quantile() -> None:
    (one,) = taken_at([LAYERS], {"spread": [spread(100)]}, None)
    (rows,) = picture_rows("r", one)
    assert len(rows) == 14
    assert rows[0] == ("r", "100", "spread", "0", "layer1 0", "0", "0", "-9.0")
