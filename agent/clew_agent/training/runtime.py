"""Sets up TensorFlow in this process, and does what every run does alike, once, in a process that has no run yet."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import tensorflow as tf

from clew_agent.training.engine import Engine
from clew_agent.training.exercise import Batch, Exercise, Loss, Model, Part, Samples, Setup
from clew_agent.training.layers import correct, cross_entropy
from clew_agent.training.random import StepContext
from clew_agent.training.settings import BatchSettings
from clew_shared.base.problem import problem
from clew_shared.cards import MetricSpec


def configure(
    *, deterministic: bool = True, threads: int | None = None, devices: int = 1, precision: str = "float32"
) -> None:
    """Set TensorFlow up for a run. ``threads`` bounds the cores it uses (None: all that the process may use).

    For several ``devices`` without so many GPUs the processor becomes as many logical ones. TensorFlow takes a GPU's
    memory as it needs it: by default it takes all of it at once, and a second run on that GPU dies. With a
    ``precision`` of 16 bits TensorFlow computes in it where that is safe and keeps the variables in 32 (Micikevicius et
    al., "Mixed precision training", ICLR 2018); raises ``ProblemError`` where the hardware cannot.

    ``deterministic`` makes each operation give the same bits every time; an operation that cannot raises an error.
    Raises ``RuntimeError`` when TensorFlow has already run something.
    """
    if threads is not None:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
    gpus = tf.config.get_visible_devices("GPU")[:devices]  # on another node of a job nobody has chosen for this process
    tf.config.set_visible_devices(gpus, "GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    if devices > 1 and len(gpus) < devices:
        parts = [tf.config.LogicalDeviceConfiguration() for _ in range(devices)]
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)
    if precision != "float32":
        tf.config.optimizer.set_experimental_options({_mixed(precision): True})
    if deterministic:
        tf.random.set_seed(0)  # nothing may draw from it, but determinism insists on a seed for operations that could
        tf.config.experimental.enable_op_determinism()


def seen_gpus() -> int:
    """Returns how many GPUs TensorFlow sees, used or not."""
    return len(tf.config.list_physical_devices("GPU"))


def share_gpus(place: int | None) -> None:
    """Uses, on a node whose GPUs several processes share, the one whose turn it is at ``place``; None: uses none."""
    gpus = tf.config.list_physical_devices("GPU")
    mine = [] if place is None or not gpus else [gpus[place % len(gpus)]]
    tf.config.set_visible_devices(mine, "GPU")


def _mixed(precision: str) -> str:
    """The name of TensorFlow's graph rewriter that computes in ``precision``."""
    gpu = bool(tf.config.list_physical_devices("GPU"))
    if gpu and precision == "float16":
        return "auto_mixed_precision"
    if not gpu and precision == "bfloat16" and "avx512_bf16" in _processor_abilities():
        return "auto_mixed_precision_onednn_bfloat16"
    if gpu:
        raise problem("spec.precision", f"On GPUs a run cannot compute in {precision}.", "Choose float16.", "precision")
    text = f"This processor has no arithmetic in {precision}."
    raise problem("spec.precision", text, "Choose float32.", "precision")


def _processor_abilities() -> frozenset[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(word for line in lines[:64] if line.startswith("flags") for word in line.split())


def run_operations_plainly() -> None:
    """Compute a single operation, outside a compiled function, by its kernel alone. Begins TensorFlow's own threads.

    Since TensorFlow 2.9 each new one becomes a function of its own first, and all graph rewriting is done for it: 5 to
    40 ms for each kind that the making of a model needs. It is a switch of TensorFlow's context without a public name;
    where a later version has none, operations only begin more slowly. The kernels and so the bits are the same.
    """
    with suppress(ImportError, AttributeError):
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.eager import context

        context.ensure_initialized()
        pywrap_tfe.TFE_ContextSetRunEagerOpAsFunction(context.context()._handle, False)


# --- Rehearsal --------------------------------------------------------------------------------------------------------
# What every run does alike, done once by a process that has no run yet, and thrown away.
#
# TensorFlow sets itself up at its first operation: threads begin, operations are looked up, the compiler is made
# ready. A tiny model goes that way as a run does, by the same classes, so that a run that comes after it need not.


_PIXELS, _CLASSES, _SAMPLES, _BATCH = 4, 3, 8, 4


class Rehearsal(Exercise[BatchSettings]):
    """An exercise of one layer and a few samples of zeros; in no catalogue."""

    id = "rehearsal"
    title = "Rehearsal"
    Settings = BatchSettings
    jit = True
    metrics = (MetricSpec(name="loss", label="Loss"), MetricSpec(name="accuracy", label="Accuracy"))

    def build(self, setup: Setup[BatchSettings]) -> Model:
        """Makes a matrix and an offset."""
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
