"""Anomalies: what an autoencoder that has seen only normal samples cannot draw. After CINECA's course."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import tensorflow as tf

from clew_agent import lesson

TWO = lesson.needs(anomaly=2)
MOMENTUM = 0.98
"""Of the moving averages of the error: they look back on some 50 batches."""


class AnomalySettings(lesson.BatchSettings, frozen=True, kw_only=True):
    """What counts as an anomaly, the network, and where the threshold is."""

    anomaly: Annotated[
        int, lesson.number("Anomaly", "The class that the network never sees in training.", 0, 999, "Anomaly")
    ] = 2
    deviations: Annotated[
        float,
        lesson.number(
            "Deviations",
            "The threshold is the mean error of the normal training samples plus this many standard deviations.",
            0,
            1000,
            "Anomaly",
        ),
    ] = 2.0
    hidden: Annotated[int, lesson.number("Hidden units", "Layer before and after the code.", 1, 4096, "Network")] = 256
    code: Annotated[int, lesson.size("Code", "Numbers that a sample is reduced to.", 1, 1024, "Network")] = 4
    optimizer: lesson.OptimizerName = "adam"
    learning_rate: lesson.LearningRate = 1e-3
    batch_size: lesson.BatchSize = 100
    order: lesson.OrderName = "shuffle"
    steps: lesson.Steps = 3000


class Anomaly(lesson.Exercise[AnomalySettings]):
    """An autoencoder for normal samples, and a threshold for its error."""

    id = "anomaly"
    title = "Anomaly detection"
    subtitle = "what an autoencoder cannot draw"
    chapter = "Networks"
    course = "CINECA, autoencoders"
    minutes = 30
    summary = "Find the samples of a class that the network has never seen, and choose the threshold."
    datasets = ("mnist", "digits")
    jit = True
    revision = 1
    tries = "code"

    def build(self, setup: lesson.Setup[AnomalySettings]) -> lesson.Model:
        """Only normal samples train; validation and test keep all."""
        options, data = setup.settings, setup.require_data()
        anomaly = anomaly_of(data, options.anomaly)
        normal = data.train.y != anomaly
        features = data.train.x.shape[1]
        sizes = [features, options.hidden, options.code]
        encoder = lesson.dense_layers(setup, "encoder", sizes, tf.nn.relu)
        decoder = lesson.dense_layers(setup, "decoder", sizes[::-1], tf.nn.relu, tf.sigmoid)
        averages = {name: tf.Variable(0.0, name=name) for name in ("mean", "square")}

        def drawn(x: tf.Tensor) -> tf.Tensor:
            return lesson.through(decoder, lesson.through(encoder, x))

        def errors(x: tf.Tensor) -> tf.Tensor:
            return tf.reduce_mean(tf.square(drawn(x) - x), 1)

        def threshold() -> tf.Tensor:
            variance = tf.maximum(averages["square"] - tf.square(averages["mean"]), 0)
            return averages["mean"] + options.deviations * tf.sqrt(variance)

        def loss(batch: lesson.Batch, _: lesson.StepContext) -> lesson.Loss:
            found = errors(batch.x)
            value = batch.mean(found)
            alarms = batch.mean(tf.cast(found > threshold(), tf.float32))
            for name, now in (("mean", value), ("square", batch.mean(tf.square(found)))):
                averages[name].assign_add((tf.stop_gradient(now) - averages[name]) * (1 - MOMENTUM))
            return lesson.Loss(value, {"threshold": threshold(), "mean_error": averages["mean"], "alarms": alarms})

        def evaluate(batch: lesson.Batch) -> dict[str, tf.Tensor]:
            return lesson.flags(errors(batch.x) > threshold(), tf.equal(batch.y, anomaly))

        def error_histogram() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            """Errors of test samples, 1 for the anomalies among them, and where the threshold is now."""
            anomalies = tf.cast(tf.constant(data.test.y) == anomaly, tf.int32)
            return errors(tf.constant(data.test.x)), anomalies, threshold()

        shown = np.concatenate(
            [np.flatnonzero(data.test.y == anomaly)[:10], np.flatnonzero(data.test.y != anomaly)[:10]]
        )

        def reconstructions() -> tf.Tensor:
            x = tf.constant(data.test.x[shown])
            return lesson.in_rows(10, lesson.as_images(x, data), lesson.as_images(drawn(x), data))

        part = lesson.Part("autoencoder", lesson.variables_of((*encoder, *decoder)), loss, setup.optimizer())
        return lesson.Model(
            parts=[part],
            evaluate=evaluate,
            summarize=lesson.summarize_flags,
            evaluation_sets=setup.held_out(),
            train=lesson.Samples(data.train.x[normal], data.train.y[normal]),
            state=averages,
            pictures={"errors": error_histogram, "reconstructions": reconstructions},
            watch="validation_f_score",
            coder=lesson.Coder(
                options.code,
                lambda code: lesson.through(decoder, code),
                lambda x: lesson.through(encoder, x),
                threshold,
            ),
        )

    metrics = (
        lesson.each_step("loss", "Training loss", "lower"),
        lesson.each_step("threshold", "Threshold"),
        lesson.each_step("mean_error", "Mean error of normal samples"),
        lesson.each_step("alarms", "False alarms in training", format="percent"),
        lesson.at_evaluation("validation_precision", "Validation precision", format="percent"),
        lesson.at_evaluation("validation_recall", "Validation recall", format="percent"),
        lesson.at_evaluation("validation_f_score", "Validation F-score", "higher", format="percent"),
        lesson.at_evaluation("test_precision", "Test precision", "higher", format="percent"),
        lesson.at_evaluation("test_recall", "Test recall", "higher", format="percent"),
        lesson.at_evaluation("test_f_score", "Test F-score", "higher", format="percent"),
    )
    plots = (
        lesson.plot("loss", "Squared error of a value", "loss", "threshold", log=True),
        lesson.plot("judged", "Found anomalies", "test_f_score", "test_precision", "test_recall", format="percent"),
    )
    pictures = (
        lesson.HistogramPlot(
            "errors",
            "Error of test samples",
            threshold=0.05,
            labels=("normal", "anomaly"),
            log_x=True,
            mean="mean_error",
            deviations="deviations",
        ),
        lesson.ImageGrid("reconstructions", "Originals, below them reconstructions", columns=10),
    )
    baseline = "twos"
    presets = (
        lesson.preset("twos", "Digit 2 unseen", "Nine digits are normal."),
        lesson.preset("ones", "Digit 1 unseen", "Harder than it looks.", anomaly=1),
        lesson.preset(
            "fraud", "Credit cards", "For a table of your own, with fraud as class 1.", anomaly=1, hidden=16, code=4
        ),
        lesson.tiny(steps=400, evaluate_every=100, hidden=64),
    )
    goals = (
        lesson.goal("found", "F-score 75 %", "test_f_score >= 0.75 on mnist", TWO, question=2),
        lesson.goal("digits", "F-score 80 % on the small digits", "test_f_score >= 0.8 on digits", TWO),
    )
    goal_details = {
        "found": "On the test samples, at the end of the run, with the threshold from training.",
        "digits": "On the test samples, at the end of the run. How long should it train, and where is the threshold?",
    }


def anomaly_of(data: lesson.DataSet, label: int) -> int:
    """The class with this label, as the data set counts them. Raises ``ProblemError`` where no sample has it, and where
    none is left to judge by: training leaves anomalies out, so those in its samples are of no use."""
    place = data.place_of(label)
    if place is None:
        known = ", ".join(data.class_names) if data.class_names else f"0 to {data.classes - 1}"
        text = f"The data set {data.name} has the classes {known}, and no class {label}."
        raise lesson.problem("exercise.class", text, "Choose another class as the anomaly.", "anomaly")
    lacking = data.lacking(place, ("validation", "test"))
    if lacking:
        hint = "Mix the rows of a table: of each six rows the fifth validates and the sixth tests, and four train."
        raise lesson.problem("exercise.class", lacking, hint, "anomaly")
    if bool((data.train.y == place).all()):
        text = f"All training samples of {data.name} are of class {label}: none is left to train with."
        raise lesson.problem("exercise.class", text, "Choose another class as the anomaly.", "anomaly")
    return place


EXERCISE = Anomaly()
