"""How TensorFlow is to behave in this process; must be said before its first operation."""

from __future__ import annotations

from contextlib import suppress

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
