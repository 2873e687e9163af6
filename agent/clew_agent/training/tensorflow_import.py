"""Imports TensorFlow without what it would bring along and nobody uses."""

from __future__ import annotations

import sys
from contextlib import suppress

_WRAPPED = "sklearn"


def import_tensorflow() -> None:
    """Import TensorFlow and Keras, before anything else does.

    Keras imports scikit-learn where it is installed, for wrappers that Clew does not have, and with it SciPy's
    statistics: a quarter of the whole time. An exercise can still import scikit-learn. Where TensorFlow cannot be
    imported, the next import of it says why.
    """
    hidden = _WRAPPED not in sys.modules
    if hidden:
        sys.modules[_WRAPPED] = None  # type: ignore[assignment]  # Python's way to refuse an import
    try:
        with suppress(ImportError):
            import keras  # noqa: F401
            import tensorflow as tf  # noqa: F401
    finally:
        if hidden:
            del sys.modules[_WRAPPED]
