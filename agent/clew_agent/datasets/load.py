"""Data sets: how they are read and checked. NumPy only, no TensorFlow.

``load("mnist", search)`` or ``load("/path/to/mnist.npz", search)`` gives a ``DataSet``; whatever is wrong with the
name, the place or the file becomes a ``ProblemError``. Nothing falls back silently: a missing set is a refusal. Where
they are searched says ``clew_agent.datasets.search``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from clew_agent.datasets import registry, table
from clew_agent.datasets.dataset import DataSet, Split
from clew_agent.datasets.search import Search, locate
from clew_shared.base.installation import how_to_install
from clew_shared.base.problem import problem
from clew_shared.data_sets import USUAL, data_set_of

__all__ = ["DataSet", "Split", "load"]


def load(name_or_path: str, search: Search) -> DataSet:
    """The data set ``name_or_path``. A path must hold a data set that Clew knows by name, or images in one of MNIST's
    forms, or be a CSV file, or a folder with a folder of images for each class.

    Raises ``ProblemError`` when the name is unknown, nothing is found, or what is found is damaged; a damaged file is
    never passed over for the next place.
    """
    path = locate(name_or_path, search)
    return reader_of(name_or_path, path)(path)


def reader_of(name_or_path: str, path: Path) -> Callable[[Path], DataSet]:
    """Returns the reader of the file or folder ``path`` at which ``name_or_path`` was found."""
    known = registry.modules()
    if name_or_path not in known and table.is_table(path):
        return table.read
    if path.is_dir():
        return _read_images
    module = known.get(name_or_path) or known.get(data_set_of(str(path)), known[USUAL])
    # Of a set in several files a folder may hold other files as well: what such a file holds decides, not its folder.
    if name_or_path not in known and module.CARD.parts and data_set_of(path.name) != module.CARD.name:
        module = known[USUAL]
    read: Callable[[Path], DataSet] = module.read
    return read


def _read_images(folder: Path) -> DataSet:
    try:
        from clew_agent.datasets import image_folder
    except ImportError:
        text = "Folders of images are read with Pillow, which this Python environment lacks."
        hint = f"{how_to_install('pillow')}. On a site, name a module or a venv with it."
        raise problem("data.pillow", text, hint, str(folder)) from None
    return image_folder.read(folder)
