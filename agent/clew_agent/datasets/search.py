"""Looks for data sets: in the run's own path, CLEW_DATA, the site's course copy, the user's cache.

Nothing is read here and no NumPy is imported, so that the supervisor can say at once what is here and refuse a run
whose data is not.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from clew_shared.base.installation import how_to_install
from clew_shared.base.number_words import counted
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError, did_you_mean, problem
from clew_shared.base.remedies import own_file, set_to
from clew_shared.cards import DataSetCard
from clew_shared.catalogue import known_sets
from clew_shared.data_sets import BUILT_IN, USUAL, brought_as, data_set_of, packaged_file

IMAGE_SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".bmp", ".gif", ".tif", ".tiff", ".webp"),
    *(".pbm", ".pgm", ".ppm", ".pnm"),
)
UNREAD_IMAGE_SUFFIXES = (
    *(".heic", ".heif", ".avif", ".svg", ".eps", ".ps", ".pdf", ".psd", ".ai", ".jp2", ".jxl", ".ico", ".tga", ".xcf"),
    *(".raw", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".exr", ".hdr"),
)
"""Endings of images that people keep and Clew does not read: a folder with them is not called empty."""
_SYSTEMS = (
    *(
        "@eadir",
        "#recycle",
        "#snapshot",
        "@recycle",
        "@recently-snapshot",
        "@tmp",
        "~snapshot",
        "lost+found",
        "lost.dir",
    ),
    *("system volume information", "$recycle.bin", "recycler", "recycled", "found.000", "__macosx", "__pycache__"),
    *("thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "network trash folder", "temporary items"),
)
"""Names, in lower case, of what storage devices, systems and programs put beside a person's own files."""
_SETS = ("train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval", "evaluation", "holdout")
"""Names of folders, in lower case, that hold a part of a data set."""
_MOST_INNER = 100
"""Number of folders that are searched in the folder that somebody named: archives unpack into one of their own."""
_AGENT = Path(__file__).resolve().parents[1]


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """The places to look in, in this order: ``own`` (a file or folder that the user named, must exist), then
    ``folders``.

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
    return text in known_sets() or not (os.sep in text or "/" in text or "." in text or _exists(text))


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except OSError:  # too long for a name, or in a folder of someone else
        return False


def available(search: Search) -> tuple[str, ...]:
    """The names of the data sets that are here."""
    return tuple(name for name in known_sets() if _is_here(name, search))


def locate(name_or_path: str, search: Search) -> Path:
    """The file of the data set ``name_or_path`` (for IDX files, that of the training images); it is not read yet.

    Raises ``ProblemError`` when the name is unknown or nothing is found.
    """
    try:
        return _locate(name_or_path, search)
    except OSError as error:  # a folder of others, a file system that is away
        text = f"The data path {str(error.filename)[:200]} cannot be used: {error.strerror or error}."
        raise problem("data.read", text, "Check the path and its permissions, or choose other data.", "data") from None


def find_packaged(card: DataSetCard, root: Path = _AGENT.parent) -> Path:
    """The file of a built-in set: the one that a laptop brought along with the agent in ``root``, else its package's.

    Raises ``ProblemError`` when there is neither.
    """
    brought = root / brought_as(card)
    path = brought if brought.is_file() else packaged_file(card)
    if path is None:
        text = f"The data set {card.name!r} comes with {card.package}, which this Python environment lacks."
        raise problem("data.digits", text, f"{how_to_install(card.package)}.", card.name, own_file())
    return path


def find_in(folder: Path, card: DataSetCard) -> Path | None:
    """The file of ``folder`` or below that holds a data set; of a set in several files the first that it looks for.

    Several sets may have files of one name, so that the folder's name decides.
    """
    here = (folder / file for file in card.files)
    return next((path for path in here if data_set_of(str(path)) == card.name and path.is_file()), None)


def image_classes(folder: Path) -> tuple[Path, ...]:
    """The subfolders of ``folder`` that hold images, by name: each is a class. Raises ``OSError``."""
    return tuple(sorted(one for one in shown_in(folder) if one.is_dir() and any(images_in(one))))


def images_in(folder: Path) -> Iterator[Path]:
    """The images in ``folder`` itself, in any order: regular files whose names say that they are images."""
    return (one for one in shown_in(folder) if one.suffix.lower() in IMAGE_SUFFIXES and one.is_file())


def shown_in(folder: Path) -> Iterator[Path]:
    """Yields what is in ``folder`` and is neither hidden nor made by a system: storage devices and notebooks keep
    copies beside the files."""
    return (one for one in folder.iterdir() if not _is_hidden(one))


def _is_hidden(path: Path) -> bool:
    return path.name.startswith(".") or path.name.lower() in _SYSTEMS


def left_out(folder: Path) -> str:
    """Says in a sentence, with the reasons, what is in a folder of images and is not read; empty where there is
    nothing."""
    found, hidden = Counter[str](), set[str]()
    for one in folder.iterdir():
        if _is_hidden(one):
            hidden.update({one.name} if one.is_dir() else ())
        elif one.is_dir():
            inner = set(one.iterdir())
            hidden.update(file.name for file in inner if _is_hidden(file) and file.is_dir())
            found.update(_why_left_out(file) for file in inner - set(images_in(one)) if not _is_hidden(file))
        elif one.suffix.lower() in (*IMAGE_SUFFIXES, *UNREAD_IMAGE_SUFFIXES):
            found["beside the folders of the classes"] += 1
    reasons = ", ".join(f"{count:,} {why}" for why, count in sorted(found.items(), key=lambda one: (-one[1], one[0])))
    files = f"Left out {counted(found.total(), 'file')} of {folder.name}: {reasons}." if found else ""
    names = f"Folders that are hidden, or that systems make, are no classes: {', '.join(sorted(hidden))}."
    return f"{files} {names if hidden else ''}".strip()


def _why_left_out(file: Path) -> str:
    suffix = file.suffix.lower()
    if file.is_dir():
        return "in folders inside a class (each counted once)"
    if suffix in IMAGE_SUFFIXES:
        return "not regular files"
    if suffix in UNREAD_IMAGE_SUFFIXES:
        return f"in a format that is not read ({suffix}; save them as PNG or JPEG)"
    return f"that are no images ({suffix or 'no ending'})"


def _locate(name_or_path: str, search: Search) -> Path:
    if not is_name(name_or_path):
        return _locate_path(Path(name_or_path).expanduser())
    known = known_sets()
    if name_or_path not in known:
        hint = did_you_mean(name_or_path, known) or f"Known: {', '.join(known)}; or give a path."
        raise problem("data.unknown", f"There is no data set {name_or_path!r}.", hint, "data")
    card = known[name_or_path]
    return find_packaged(card) if card.packaged else _find_named(card, search)


def _is_here(name: str, search: Search) -> bool:
    try:
        locate(name, search)
    except ProblemError:
        return False
    return True


def _locate_path(path: Path) -> Path:
    known = known_sets()
    usual = known[USUAL]
    if not path.exists():
        raise _missing(f"The data path {path} does not exist.", str(path), usual)
    if path.is_file():
        return path
    if not path.is_dir():
        text = f"The data path {path} is neither a file nor a folder."
        raise problem("data.kind", text, "Name a file, such as mnist.npz, or the folder that holds it.", str(path))
    inner = sorted(one for one in shown_in(path) if one.is_dir())[:_MOST_INNER]
    places = [path, *inner]
    found = next(
        (file for place in places for card in known.values() if (file := find_in(place, card)) is not None), None
    )
    if found is not None:
        return found
    classes = image_classes(path)
    sets = [one for one in inner if len(image_classes(one)) > 1] if len(classes) < 2 else []
    if sets:
        names = " and inside ".join(one.name for one in sets)
        best = max(sets, key=lambda one: "train" in one.name.lower())
        hint = f"Choose the folder that holds the classes, such as {best}."
        raise problem("data.kind", f"The folder {path} has a folder for each class inside {names}.", hint, str(path))
    if len(classes) > 1 and all(one.name.lower() in _SETS for one in classes):
        names = " and ".join(one.name for one in classes)
        text = f"The folders {names} in {path} are named as sets of images, not as classes."
        raise problem("data.kind", text, "Make a folder for each class, and put its images there.", str(path))
    if not classes:
        beside = left_out(path)
        if beside:
            text = f"The folder {path} holds no folders of images that can be read, one for each class. {beside}"
            raise _missing(text, str(path), usual)
        text = f"The folder {path} holds no data set ({usual.wanted}) and no folders of images, one for each class."
        raise _missing(text, str(path), usual)
    return path


def _find_named(card: DataSetCard, search: Search) -> Path:
    if search.own is not None:
        if not search.own.exists():
            text = f"CLEW_DATA names {search.own}, which does not exist."
            raise problem("data.search", text, "Correct or unset CLEW_DATA.", "CLEW_DATA")
        if search.own.is_file() and data_set_of(str(search.own)) == card.name:
            return search.own
    folders = ([search.own] if search.own else []) + list(search.folders)
    found = next((path for path in (find_in(folder, card) for folder in folders) if path is not None), None)
    if found is None:
        looked = ", ".join(map(str, folders)) or "no folder"
        text = f"The data set {card.name!r} was not found ({card.wanted}). Looked in: {looked}."
        raise _missing(text, "data", card)
    return found


def _missing(text: str, where: str, card: DataSetCard) -> ProblemError:
    ways = (
        f"{card.published} Choose the file, or name its folder in CLEW_DATA; copy it into one of these folders; "
        "or use the built-in digits."
    )
    return problem(
        "data.missing", text, ways.lstrip(), where, own_file(card.name, card.example), set_to("data", BUILT_IN)
    )
