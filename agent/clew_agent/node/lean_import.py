"""Keeps from an import what it would bring along and nobody uses."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder


class _NoWrappers(MetaPathFinder):
    """Tells Keras, while it is being imported, that there is no scikit-learn."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Raises ``ModuleNotFoundError`` then; else leaves the search to others."""
        keras = getattr(sys.modules.get("keras"), "__spec__", None)
        if fullname == "sklearn" and getattr(keras, "_initializing", False):
            raise ModuleNotFoundError("Keras is imported without it", name=fullname)


def spare_wrappers() -> None:
    """Have TensorFlow and Keras imported, whoever does it, without scikit-learn.

    Keras imports it where it is installed, for wrappers that Clew does not have, and with it SciPy's statistics: a
    quarter of the whole time. An exercise can still import scikit-learn.
    """
    if not any(isinstance(one, _NoWrappers) for one in sys.meta_path):
        sys.meta_path.insert(0, _NoWrappers())
