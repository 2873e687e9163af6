"""Pictures: what each form becomes in the journal, when they are taken, and that training does not notice them."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest
import tensorflow as tf

from clew_agent.datasets.dataset import DataSet
from clew_agent.engine import pictures
from clew_agent.engine.pictures import FRAME_BYTES, MOST_BYTES, SHARE, Budget, Rhythm, size_of
from clew_agent.exercises.softmax import Softmax, SoftmaxSettings
from clew_agent.training.engine import Engine
from clew_agent.training.exercise import Model, Setup
from clew_shared.base.problem import ProblemError
from clew_shared.cards import (
    QUANTILES,
    Bars,
    ConfusionMatrix,
    Distributions,
    Gallery,
    HistogramPlot,
    ImageGrid,
    PictureSpec,
    Plane,
    Scatter,
    Surface,
)
from clew_shared.journal.events import Event, Histogram, Image, Log, Matrix
from clew_shared.journal.frames import MAX_FRAME, encode_frame
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.params import build
from clew_shared.reading import read_run
from clew_shared.spec import RunSpec
from tests.exercises.attempts import STOP, attempt, blocks, new_run
from tests.exercises.training import assert_same_bits, make_engine, train

Function = Callable[[], Any]


class Pictured(Softmax):
    """Softmax with a picture of each form: weights and 20 test images."""

    id = "pictured"
    pictures: ClassVar[Any] = (
        ImageGrid("weights", columns=5, every=10),
        Gallery("mistakes", "Wrong answers", every="epoch"),
        Scatter("scores", every=1),
        HistogramPlot("certainty", "Certainty", threshold=0.5),
        HistogramPlot("entries", log_y=True),
        ConfusionMatrix("confusion", labels=tuple("0123456789")),
        Bars("norms", "Norm of each digit's weights"),
    )

    def build(self, setup: Setup[SoftmaxSettings]) -> Model:
        """The same model."""
        model, test = super().build(setup), setup.require_data().test
        W = model.parts[0].variables["W"]
        x, y = tf.constant(test.x[:20]), tf.constant(test.y[:20])

        def answers() -> tf.Tensor:
            return tf.argmax(tf.matmul(x, W), 1, tf.int32)

        functions: dict[str, Function] = {
            "weights": lambda: (0.5 + tf.reshape(tf.transpose(W), [10, 28, 28]), tf.range(10)),
            "mistakes": lambda: (tf.reshape(x, [20, 28, 28]), y, answers()),
            "scores": lambda: (tf.matmul(x, W)[:, :2], y),
            "certainty": lambda: (tf.reduce_max(tf.nn.softmax(tf.matmul(x, W)), 1), tf.cast(answers() == y, tf.int32)),
            "entries": lambda: tf.reshape(W, [-1]),
            "confusion": lambda: tf.math.confusion_matrix(y, answers(), 10),
            "norms": lambda: tf.norm(W, axis=0),
        }
        return dataclasses.replace(model, pictures=functions)


class Plain(Softmax):
    """Softmax' network in an exercise without pictures."""

    pictures: ClassVar[Any] = ()


def make(exercise: Softmax, data: DataSet, steps: int = 60) -> Engine:
    engine = Engine(exercise, build(SoftmaxSettings, {"steps": steps, "evaluate_every": 20}), 1, data)
    engine.compile()
    return engine


def test_each_form_becomes_an_event_and_training_does_not_notice(small_digits: DataSet) -> None:
    engine, plain = make(Pictured(), small_digits), make(Plain(), small_digits)
    assert engine.compile_pictures() > 0
    assert plain.compile_pictures() == 0
    taken: list[Event] = []
    while not engine.done:
        engine.run_block()
        taken += engine.take_pictures()
    taken += engine.take_pictures(last=True)
    train(plain)
    assert_same_bits(engine.variables, plain.variables)

    history = History()
    for event in taken:
        assert len(encode_frame(event)) < MAX_FRAME
        history.feed(1, event)
    assert history.damages == []
    assert history.figures.keys() == {spec.id for spec in Pictured.pictures}
    assert {figures[-1].step for figures in history.figures.values()} == {60}, "the end has all of them"
    steps = [one.step for one in history.figures["confusion"]]
    assert (steps[0], steps[-1], set(steps) <= {20, 40, 60}) == (20, 60, True)

    weights, mistakes, scores, certainty, entries, confusion, norms = (
        history.figures[spec.id][-1] for spec in Pictured.pictures
    )
    W = engine.variables["weights/softmax/W"]
    x, y = small_digits.test.x[:20], small_digits.test.y[:20]
    answers = np.argmax(x @ W, 1)
    assert isinstance(weights, Image)
    assert (weights.count, weights.height, weights.width, weights.channels) == (10, 28, 28, 1)
    grey = np.frombuffer(weights.data, np.uint8).reshape(10, 784)
    np.testing.assert_array_equal(grey, np.rint(255 * np.clip(0.5 + W.T, 0, 1)))
    assert (np.frombuffer(weights.classes, "<i4").tolist(), weights.answers) == ([*range(10)], b"")
    assert isinstance(mistakes, Image)
    assert np.frombuffer(mistakes.classes, "<i4").tolist() == y.tolist()
    assert np.frombuffer(mistakes.answers, "<i4").tolist() == answers.tolist()
    assert isinstance(scores, Matrix)
    assert (scores.rows, scores.column_labels) == (20, ("x", "y", "class"))
    assert isinstance(certainty, Histogram)
    assert len(np.frombuffer(certainty.values, "<f4")) == 20
    assert np.frombuffer(certainty.classes, "<i4").tolist() == (answers == y).astype(int).tolist()
    assert isinstance(entries, Histogram)
    assert (entries.values, entries.classes) == (b"", b""), "nobody needs each of them"
    assert np.frombuffer(entries.counts, "<i8").sum() == W.size
    assert isinstance(confusion, Matrix)
    assert np.frombuffer(confusion.data, "<f8").sum() == 20
    assert confusion.row_labels == confusion.column_labels == tuple("0123456789")
    assert isinstance(norms, Matrix)
    np.testing.assert_allclose(np.frombuffer(norms.data, "<f8"), np.linalg.norm(W, axis=0), rtol=1e-5)


def only(spec: PictureSpec, function: Function) -> Pictured:
    """An exercise with one picture."""

    class One(Pictured):
        pictures = (spec,)

        def build(self, setup: Setup[SoftmaxSettings]) -> Model:
            return dataclasses.replace(super().build(setup), pictures={"one": function})

    return One()


def taken(spec: PictureSpec, function: Function, data: DataSet) -> list[Event]:
    """What a run of one step has at its end."""
    engine = make(only(spec, function), data, steps=1)
    engine.compile_pictures()
    engine.run_block()
    return list(engine.take_pictures(last=True))


@pytest.mark.parametrize(
    ("spec", "function", "said"),
    [
        (
            PictureSpec(id="one", title="One", form="hologram"),
            lambda: tf.zeros([3, 4]),
            r"has the unknown form .hologram.",
        ),
        (ImageGrid("one"), lambda: tf.zeros([3, 4]), r"should return images .*, and returned float32 \[3, 4\]"),
        (ImageGrid("one"), lambda: tf.zeros([3, 4, 4, 2]), "have 2 channels"),
        (ImageGrid("one"), lambda: tf.zeros([1, 1000, 1000]), "too large: 1000 × 1000 pixels"),
        (Gallery("one"), lambda: tf.zeros([3, 4, 4]), r"classes \[n\], answers \[n\]"),
        (Scatter("one"), lambda: (tf.zeros([3, 3]), tf.zeros([3])), "have 3 coordinates"),
        (Scatter("one"), lambda: (tf.zeros([3, 2]), tf.zeros([2])), r"\[3, 2\], float32 \[2\]"),
        (ConfusionMatrix("one"), lambda: tf.zeros([400, 400]), "too large: 400 × 400"),
        (Plane("one"), lambda: tf.zeros([4, 4]), "should return values .*, and returned float32"),
        (Plane("one"), lambda: (tf.zeros([1, 4, 4]), tf.zeros([3, 3]), tf.zeros([3])), "have 3 coordinates"),
        (Surface("one", x=(0, 1), y=(0, 1)), lambda: tf.zeros([4, 4]), "the two weights"),
        (Bars("one"), lambda: tf.zeros([3, 3]), "should return values"),
        (Distributions("one"), list, r"should return \{name: values\} .*, and returned nothing"),
        (Distributions("one"), lambda: {"a": tf.constant("b")}, "returned object"),
    ],
)
def test_a_picture_that_cannot_be_shown_costs_the_picture_and_its_log_says_what_it_should_be(
    spec: PictureSpec, function: Function, said: str, small_digits: DataSet
) -> None:
    (log,) = taken(spec, function, small_digits)
    assert isinstance(log, Log)
    assert log.level == "warning"
    assert re.search(said, log.text)


def test_a_picture_that_the_exercise_does_not_declare_is_refused(small_digits: DataSet) -> None:
    with pytest.raises(ProblemError, match="has 'one', which the exercise does not declare") as found:
        taken(ImageGrid("other"), lambda: tf.zeros([3, 4, 4]), small_digits)
    assert found.value.problems[0].hint


def test_a_fault_in_a_function_costs_its_picture_and_not_the_run(small_digits: DataSet) -> None:
    def wrong() -> tf.Tensor:
        return tf.matmul(tf.zeros([2, 3]), tf.zeros([2, 3]))

    engine = make(only(Bars("one"), wrong), small_digits, steps=3)
    engine.compile_pictures()
    while engine.step < 3:
        engine.run_block()
    (log,) = engine.take_pictures(last=True)
    assert isinstance(log, Log)
    assert log.text.startswith(
        "The picture “One” is left out of this run, because its function has a fault. ValueError"
    )
    assert list(engine.take_pictures(last=True)) == [], "it is said once"


def test_a_picture_may_not_change_variables(small_digits: DataSet) -> None:
    """Or the run would depend on when pictures were taken."""
    counter = tf.Variable(0.0)

    def count() -> tf.Tensor:
        counter.assign_add(1.0)
        return tf.zeros([3])

    with pytest.raises(ProblemError, match="one changes a variable"):
        taken(Bars("one"), count, small_digits)


def test_maps_of_a_plane_and_a_surface_keep_their_points(small_digits: DataSet) -> None:
    places, kinds = tf.constant([[0.5, -1], [0, 2]]), tf.constant([1, 0])
    maps = Plane("one", labels=("a", "b")), lambda: (tf.ones([2, 3, 4, 5]), places, kinds)
    surface = Surface("one", x=(0, 1), y=(0, 1)), lambda: (tf.ones([4, 5]), tf.constant([0.5, 1]))
    (plane,), (table,) = (taken(spec, function, small_digits) for spec, function in (maps, surface))
    assert isinstance(plane, Image)
    assert (plane.count, plane.columns, plane.height, plane.width, plane.answers) == (6, 3, 4, 5, b"")
    assert np.frombuffer(plane.points, "<f4").tolist() == [0.5, -1, 0, 2]
    assert np.frombuffer(plane.point_classes, "<i4").tolist() == [1, 0]
    assert plane.class_labels == ("a", "b")
    assert isinstance(table, Matrix)
    assert (table.rows, table.columns) == (4, 5)
    assert np.frombuffer(table.points, "<f4").tolist() == [0.5, 1]
    history = History()
    for_older = len(plane.classes), len(plane.answers)
    assert for_older == (0, 0), "of one map, they would read other numbers than 0 and 1 as damage"
    torn = [msgspec.structs.replace(plane, name="torn", point_classes=b""), msgspec.structs.replace(table, points=b"x")]
    for event in (plane, *torn):
        history.feed(1, event)
    assert list(history.figures.items()) == [("one", [plane])]


def test_a_distribution_of_layers_keeps_their_order_their_ends_and_bounded_bytes(small_digits: DataSet) -> None:
    draw = np.random.default_rng(0).normal(0, 2, 300_000).astype(np.float32)
    draw[:3] = 50, -40, np.nan  # the thinned values do not have these ends
    layers = {"later": tf.constant(draw.reshape(3, 100_000)), "first": tf.range(5), "broken": tf.constant([np.nan])}
    (table,) = taken(Distributions("one"), lambda: layers, small_digits)
    assert isinstance(table, Matrix)
    assert table.row_labels == ("later", "first", "broken")
    assert table.column_labels == ("0 %", "2.28 %", "15.87 %", "50 %", "84.13 %", "97.72 %", "100 %")
    values = np.frombuffer(table.data, "<f8").reshape(3, 7)
    np.testing.assert_allclose(values[0], [-40, -4, -2, 0, 2, 4, 50], atol=0.15)
    assert (values[0, 0], values[0, -1]) == (-40, 50)
    np.testing.assert_allclose(values[1], np.quantile(np.arange(5), QUANTILES))
    assert np.isnan(values[2]).all()
    assert size_of(table) == 3 * 7 * 8
    units = np.where(np.arange(512) % 8, 1, 10) * np.where(np.arange(512)[:, None] % 2, 1, -1)  # each eighth is larger
    (table,) = taken(Distributions("one"), lambda: [tf.constant(units, tf.float32)], small_digits)
    assert isinstance(table, Matrix)
    values = np.frombuffer(table.data, "<f8")
    assert values[[0, 1, 2, 4, 5, 6]].tolist() == [-10, -10, -1, 1, 10, 10]
    (named,) = taken(Distributions("one", labels=("a", "b")), lambda: [tf.ones([2]), tf.zeros([3, 3])], small_digits)
    assert isinstance(named, Matrix)
    assert named.row_labels == ("a", "b")


def test_an_exercise_may_give_its_pictures_more_time() -> None:
    assert Budget(100).clock_for(1.0) > 0
    assert Budget(100, free=2.0).clock_for(1.0) == 0


def test_what_does_not_fit_into_a_frame_is_left_out_and_said(small_digits: DataSet) -> None:
    images, said = taken(ImageGrid("one", "All"), lambda: tf.zeros([2000, 28, 28]), small_digits)
    assert isinstance(images, Image)
    assert isinstance(said, Log)
    assert images.count == FRAME_BYTES // 784
    assert said.text == f"Only {images.count:,} of the 2,000 images of “All” are kept."
    values = np.array([math.nan, -math.inf, 1, 2, 2], np.float32)
    found, *_ = taken(HistogramPlot("one", log_x=True), lambda: tf.constant(values), small_digits)
    assert isinstance(found, Histogram)
    assert np.frombuffer(found.counts, "<i8").sum() == 3, "only what is finite"


NAMES = tuple(f"kind {number}" for number in range(10))


def test_classes_have_the_names_of_the_data_set_unless_the_exercise_has_labels(small_digits: DataSet) -> None:
    named = msgspec.structs.replace(small_digits, class_names=NAMES)
    gallery, scatter, confusion = (
        (Gallery("one"), lambda: (tf.zeros([2, 4, 4]), tf.constant([1, 9]), tf.constant([1, 3]))),
        (Scatter("one"), lambda: (tf.zeros([2, 2]), tf.constant([1, 9]))),
        (ConfusionMatrix("one"), lambda: tf.zeros([10, 10])),
    )
    for data, expected in ((named, NAMES), (small_digits, ())):
        for spec, function in (gallery, scatter):
            (found,) = taken(spec, function, data)
            assert isinstance(found, Image | Matrix)
            assert found.class_labels == expected
        (table,) = taken(*confusion, data)
        assert isinstance(table, Matrix)
        assert table.row_labels == table.column_labels == expected
    own, other, bars = (
        taken(spec, function, named)[0]
        for spec, function in (
            (Scatter("one", labels=("a", "b")), scatter[1]),
            (ConfusionMatrix("one"), lambda: tf.zeros([3, 4])),
            (Bars("one"), lambda: tf.zeros([10])),
        )
    )
    assert isinstance(own, Matrix)
    assert own.class_labels == ("a", "b")
    assert isinstance(other, Matrix)
    assert (other.row_labels, other.column_labels) == ((), ()), "it is no table of classes"
    assert isinstance(bars, Matrix)
    assert bars.column_labels == (), "bars need not be classes"


def test_very_many_names_are_numbers_so_that_a_frame_holds_them(small_digits: DataSet) -> None:
    kept = []
    for count in (400, 600):
        data = msgspec.structs.replace(small_digits, class_names=("ü" * 60,) * count)
        found, *_ = taken(Gallery("one"), lambda: (tf.zeros([2000, 28, 28]), tf.zeros(2000), tf.zeros(2000)), data)
        assert isinstance(found, Image)
        assert len(encode_frame(found)) < MAX_FRAME
        kept.append(len(found.class_labels))
    assert kept == [400, 0]


# When


def test_pictures_take_their_share_of_time_and_bytes_and_no_more() -> None:
    """Steps of 1 ms; a picture every 10 steps that costs 5 ms and 100 kB."""
    budget, rhythm = Budget(steps=100_000), Rhythm(10)
    taken, rare = [], False
    for step in range(1, 100_001):
        if rhythm.due(step):
            clock = step / 1000
            if rhythm.allowed(step, clock, budget):
                rhythm.took(step, 0.005, 100_000, budget)
                taken.append(step)
            rare |= rhythm.plan(step, clock, 0.001, budget)
    assert taken[0] == 10
    assert rare
    assert all(step % 10 == 0 for step in taken)
    assert budget.seconds <= SHARE * 100 + 0.005
    assert budget.bytes <= MOST_BYTES
    assert budget.bytes > 0.9 * MOST_BYTES, "the bytes bound this one, and it uses them"
    assert np.diff(taken).max() < 2000, "evenly over the run"


def test_a_cheap_picture_of_every_step_does_not_cut_blocks_to_pieces() -> None:
    budget, rhythm = Budget(steps=100_000), Rhythm(1, apart=pictures.APART_S)
    rhythm.took(10, 1e-4, 100, budget)
    assert not rhythm.plan(10, 0.01, 0.001, budget), "nothing is left out for its cost"
    assert rhythm.place(10) == 10 + round(pictures.APART_S / 0.001)


def test_a_run_that_is_stopped_has_its_last_pictures(tmp_path: Path, small_digits: DataSet) -> None:
    def pictured(spec: RunSpec, data: DataSet | None) -> Engine:
        return make_engine(Pictured(), dict(spec.params), data, block_steps=blocks)

    folder = new_run(tmp_path / "run", "pictured", steps=500)
    attempt(folder, {30: STOP}, data=small_digits, engine_of=pictured)
    history = read_run(folder.path)
    stopped = history.fold.step
    assert (history.fold.state, stopped < 60) == (RunState.STOPPED, True)
    assert {figures[-1].step for figures in history.figures.values()} == {stopped}
    assert [log.text for log in history.logs if "Pictures compiled" in log.text]
    attempt(folder, data=small_digits, engine_of=pictured)
    history = read_run(folder.path)
    assert {figures[-1].step for figures in history.figures.values()} == {500}
    steps = [one.step for one in history.figures["weights"]]
    assert steps == sorted({10, stopped, *steps}), "those of both attempts"


def test_a_histogram_holds_the_threshold_of_its_step(small_digits: DataSet) -> None:
    """Where the one that can be moved begins: it is the run's own, and changes while it trains."""
    values, classes = tf.constant([0.1, 0.4, 0.9]), tf.constant([0, 0, 1])
    spec = HistogramPlot("one", threshold=0.05)
    found, *_ = taken(spec, lambda: (values, classes, tf.constant(0.5)), small_digits)
    assert isinstance(found, Histogram)
    assert (found.threshold, np.frombuffer(found.classes, "<i4").tolist()) == (0.5, [0, 0, 1])
    found, *_ = taken(spec, lambda: (values, classes, tf.constant(math.nan)), small_digits)
    assert isinstance(found, Histogram)
    assert found.threshold is None
    found, *_ = taken(spec, lambda: (values, classes), small_digits)
    assert isinstance(found, Histogram)
    assert found.threshold is None
