"""Makes the import of TensorFlow shorter: without what nobody uses, and without work that is done for nothing."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder


class _NoWrappers(MetaPathFinder):
    """Hides scikit-learn from Keras while that is being imported."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Raises ``ModuleNotFoundError`` then; else leaves the search to others."""
        keras = getattr(sys.modules.get("keras"), "__spec__", None)
        if fullname == "sklearn" and getattr(keras, "_initializing", False):
            raise ModuleNotFoundError("Keras is imported without it", name=fullname)


@contextmanager
def lean_import() -> Iterator[None]:
    """Lets TensorFlow and Keras be imported without scikit-learn, and without garbage collection.

    Keras imports scikit-learn where it is installed, for wrappers that Clew does not have, and with it SciPy's
    statistics: a quarter of the whole time. An exercise can still import it. Nearly everything that an import makes
    stays for good, and to look through it again and again takes another quarter. So Python collects nothing
    meanwhile, and no later collection goes through what is there in the end (``gc.freeze``).
    """
    if not any(isinstance(one, _NoWrappers) for one in sys.meta_path):
        sys.meta_path.insert(0, _NoWrappers())
    if "tensorflow" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
