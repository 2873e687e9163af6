"""How TensorFlow is to behave in this process; must be said before its first operation."""

from __future__ import annotations

import tensorflow as tf


def configure(*, deterministic: bool = True, threads: int | None = None) -> None:
    """Set TensorFlow up for a run. ``threads`` bounds the cores it uses (None: all that the process may use).

    ``deterministic`` makes each operation give the same bits every time; an operation that cannot raises an error.
    Raises ``RuntimeError`` when TensorFlow has already run something.
    """
    if threads is not None:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
    if deterministic:
        tf.random.set_seed(0)  # nothing may draw from it, but determinism insists on a seed for operations that could
        tf.config.experimental.enable_op_determinism()
