"""What every run does alike, done once by a process that has no run yet, and thrown away.

TensorFlow sets itself up at its first operation: threads begin, operations are looked up, the compiler is made ready.
A tiny model goes that way as a run does, by the same classes, so that a run that comes after it need not.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from clew_agent.training.engine import Engine
from clew_agent.training.exercise import Batch, Exercise, Loss, Model, Part, Samples, Setup
from clew_agent.training.layers import correct, cross_entropy
from clew_agent.training.random import StepContext
from clew_agent.training.runtime import configure, run_operations_plainly
from clew_agent.training.settings import BatchSettings
from clew_shared.cards import MetricSpec

_PIXELS, _CLASSES, _SAMPLES, _BATCH = 4, 3, 8, 4


class Rehearsal(Exercise[BatchSettings]):
    """One layer, a few samples of zeros; in no catalogue."""

    id = "rehearsal"
    title = "Rehearsal"
    Settings = BatchSettings
    jit = True
    metrics = (MetricSpec(name="loss", label="Loss"), MetricSpec(name="accuracy", label="Accuracy"))

    def build(self, setup: Setup[BatchSettings]) -> Model:
        """A matrix and an offset."""
        W = tf.Variable(tf.zeros([_PIXELS, _CLASSES]), name="W")
        b = tf.Variable(tf.zeros([_CLASSES]), name="b")

        def loss(batch: Batch, _: StepContext) -> Loss:
            logits = tf.matmul(batch.x, W) + b
            value = batch.mean(cross_entropy(logits, batch.y))
            return Loss(value, {"accuracy": batch.mean(correct(logits, batch.y))})

        samples = Samples(np.zeros([_SAMPLES, _PIXELS], np.float32), np.zeros([_SAMPLES], np.int32))
        return Model(parts=[Part("rehearsal", {"W": W, "b": b}, loss, setup.optimizer())], train=samples)


def rehearse() -> None:
    """Build the model, compile it and train to its end. Begins TensorFlow's threads: nothing may be forked after it."""
    configure()
    run_operations_plainly()
    engine = Engine(Rehearsal(), BatchSettings(batch_size=_BATCH, steps=2 * _SAMPLES // _BATCH), seed=1)
    engine.compile()
    while not engine.done:
        engine.run_block()
