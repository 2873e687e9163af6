"""Sets up TensorFlow in this process."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import tensorflow as tf

from clew_shared.base.problem import problem


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
