"""Where data sets are looked for: the run's own path, CLEW_DATA, the site's course copy, the user's cache."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from clew_agent.datasets import digits, mnist
from clew_agent.datasets.dataset import DataSet
from clew_shared.places import Places
from clew_shared.problem import ProblemError, problem

NAMES = ("mnist", "digits")
"""The data sets that Clew knows by name."""


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Where to look, in this order: ``own`` (a file or folder that the user named, must exist), then ``folders``.

    Nothing is downloaded: a compute node may not, and no address has been tried.
    """

    own: Path | None = None
    folders: tuple[Path, ...] = ()


def find_search(places: Places, environ: Mapping[str, str] = os.environ) -> Search:
    """The search of this user on this machine: CLEW_DATA, then the site's copy (CLEW_COURSE_DATA), then the cache."""
    own, course = environ.get("CLEW_DATA"), environ.get("CLEW_COURSE_DATA")
    folders = (Path(course), places.data) if course else (places.data,)
    return Search(own=Path(own).absolute() if own else None, folders=folders)


def is_name(text: str) -> bool:
    """Whether ``text`` is meant as the name of a data set, not as a path."""
    return text in NAMES or not (os.sep in text or "/" in text or "." in text or Path(text).exists())


def locate(name_or_path: str, search: Search) -> Path:
    """The file of the data set ``name_or_path`` (for IDX files, that of the training images); it is not read yet.

    Raises ``ProblemError`` when the name is unknown or nothing is found.
    """
    if not is_name(name_or_path):
        return _locate_path(Path(name_or_path))
    if name_or_path == "digits":
        return digits.find_file()
    if name_or_path != "mnist":
        near = difflib.get_close_matches(name_or_path, NAMES, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(NAMES)}; or give a path."
        raise problem("data.unknown", f"There is no data set {name_or_path!r}.", hint, "data")
    return _find_mnist(search)


def load(name_or_path: str, search: Search) -> DataSet:
    """The data set ``name_or_path``. A path must hold MNIST in one of its forms.

    Raises ``ProblemError`` when the name is unknown, nothing is found, or what is found is damaged; a damaged file is
    never passed over for the next place.
    """
    path = locate(name_or_path, search)
    return digits.read() if name_or_path == "digits" else mnist.read(path)


def _locate_path(path: Path) -> Path:
    if not path.exists():
        raise _missing(f"The data path {path} does not exist.", str(path))
    if not path.is_dir():
        return path
    found = mnist.find_in(path)
    if found is None:
        raise _missing(f"The folder {path} holds no data set ({_wanted()}).", str(path))
    return found


def _find_mnist(search: Search) -> Path:
    if search.own is not None:
        if not search.own.exists():
            text = f"CLEW_DATA names {search.own}, which does not exist."
            raise problem("data.search", text, "Correct or unset CLEW_DATA.", "CLEW_DATA")
        if search.own.is_file():
            return search.own
    folders = ([search.own] if search.own else []) + list(search.folders)
    found = next((path for path in map(mnist.find_in, folders) if path is not None), None)
    if found is None:
        looked = ", ".join(map(str, folders)) or "no folder"
        raise _missing(f"The data set 'mnist' was not found ({_wanted()}). Looked in: {looked}.", "data")
    return found


def _wanted() -> str:
    return f"{mnist.FILES[0]}, {mnist.FILES[1]} or the four IDX files"


def _missing(text: str, where: str) -> ProblemError:
    ways = (
        'Three ways out: give the path of the file (data = "/path/to/mnist.npz", or CLEW_DATA); stage it from the'
        ' laptop by copying it into one of the folders named; or use the built-in set (data = "digits").'
    )
    return problem("data.missing", text, ways, where)
