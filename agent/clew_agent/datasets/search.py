"""Where data sets are looked for: the run's own path, CLEW_DATA, the site's course copy, the user's cache.

Nothing is read here and no NumPy is imported, so that the supervisor can say at once what is here and refuse a run
whose data is not.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from clew_shared.base.data_files import DIGITS_BROUGHT, MNIST_FILES, NAMES, idx_names, mnist_names, sklearn_digits
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError, did_you_mean, problem

_AGENT = Path(__file__).resolve().parents[1]


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Where to look, in this order: ``own`` (a file or folder that the user named, must exist), then ``folders``.

    Nothing is downloaded: a compute node may not, and no address has been tried.
    """

    own: Path | None = None
    folders: tuple[Path, ...] = ()


def find_search(places: Places, environ: Mapping[str, str] = os.environ) -> Search:
    """The search of this user on this machine: CLEW_DATA, then the site's copy (CLEW_COURSE_DATA), then the cache."""
    own, course = environ.get("CLEW_DATA"), environ.get("CLEW_COURSE_DATA")
    folders = (Path(course).expanduser(), places.data) if course else (places.data,)
    return Search(own=Path(own).absolute() if own else None, folders=folders)


def is_name(text: str) -> bool:
    """Whether ``text`` is meant as the name of a data set, not as a path."""
    return text in NAMES or not (os.sep in text or "/" in text or "." in text or _exists(text))


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except OSError:  # too long for a name, or in a folder of someone else
        return False


def available(search: Search) -> tuple[str, ...]:
    """The names of the data sets that are here."""
    return tuple(name for name in NAMES if _is_here(name, search))


def locate(name_or_path: str, search: Search) -> Path:
    """The file of the data set ``name_or_path`` (for IDX files, that of the training images); it is not read yet.

    Raises ``ProblemError`` when the name is unknown or nothing is found.
    """
    try:
        return _locate(name_or_path, search)
    except OSError as error:  # a folder of others, a file system that is away
        text = f"The data path {str(error.filename)[:200]} cannot be used: {error.strerror or error}."
        raise problem("data.read", text, "Check the path and its rights, or name other data.", "data") from None


def find_digits(brought: Path = _AGENT.parent / DIGITS_BROUGHT) -> Path:
    """The file of the digits: the one that a laptop brought along with this agent, else scikit-learn's."""
    path = brought if brought.is_file() else sklearn_digits()
    if path is None:
        text = "The data set 'digits' comes with scikit-learn, which this Python environment lacks."
        raise problem("data.digits", text, "Install it: pip install scikit-learn.", "digits")
    return path


def find_mnist_in(folder: Path) -> Path | None:
    """The file of ``folder`` (or of its subfolder ``mnist``) that holds MNIST; for IDX the training images."""
    return next((folder / name for name in mnist_names() if (folder / name).is_file()), None)


def find_idx(folder: Path, stem: str) -> Path | None:
    """The IDX file called ``stem`` in one of the spellings in which it is handed round."""
    return next((folder / name for name in idx_names(stem) if (folder / name).is_file()), None)


def _locate(name_or_path: str, search: Search) -> Path:
    if not is_name(name_or_path):
        return _locate_path(Path(name_or_path).expanduser())
    if name_or_path == "digits":
        return find_digits()
    if name_or_path != "mnist":
        hint = did_you_mean(name_or_path, NAMES) or f"Known: {', '.join(NAMES)}; or give a path."
        raise problem("data.unknown", f"There is no data set {name_or_path!r}.", hint, "data")
    return _find_mnist(search)


def _is_here(name: str, search: Search) -> bool:
    try:
        locate(name, search)
    except ProblemError:
        return False
    return True


def _locate_path(path: Path) -> Path:
    if not path.exists():
        raise _missing(f"The data path {path} does not exist.", str(path))
    if path.is_file():
        return path
    if not path.is_dir():
        text = f"The data path {path} is neither a file nor a folder."
        raise problem("data.kind", text, "Name a file, such as mnist.npz, or the folder that holds it.", str(path))
    found = find_mnist_in(path)
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
    found = next((path for path in map(find_mnist_in, folders) if path is not None), None)
    if found is None:
        looked = ", ".join(map(str, folders)) or "no folder"
        raise _missing(f"The data set 'mnist' was not found ({_wanted()}). Looked in: {looked}.", "data")
    return found


def _wanted() -> str:
    return f"{MNIST_FILES[0]}, {MNIST_FILES[1]} or the four IDX files"


def _missing(text: str, where: str) -> ProblemError:
    ways = (
        'Three ways out: give the path of the file (data = "/path/to/mnist.npz", or CLEW_DATA); stage it, that is, copy'
        ' it into one of these folders; or use the built-in set (data = "digits").'
    )
    return problem("data.missing", text, ways, where)
