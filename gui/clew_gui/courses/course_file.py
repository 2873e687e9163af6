"""Reads and writes a course as one file (``NAME.clew-course``, a zip) or as the folder that it is packed from.

It comes from a stranger: what it may hold is bounded, and nothing of it is run before a person has seen what it adds.
"""

from __future__ import annotations

import hashlib
import io
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from clew_gui.courses.course import Course, from_text, site_name, until_words
from clew_gui.sites.check import check_name
from clew_gui.sites.site import Site
from clew_gui.sites.site_file import MAX_BYTES as MAX_SITE
from clew_gui.sites.site_file import from_toml, to_toml
from clew_shared.base.file_names import safe_path
from clew_shared.base.foreign import read_file, replacing_whole, said
from clew_shared.base.problem import ProblemError, os_refused, problem, raise_all

SUFFIX = ".clew-course"
COURSE = "course.toml"
_OWN = re.compile(r"course\.toml|sites/[^/]+\.toml|exercises/(?!.*__pycache__).+")
"""What belongs to a course; other files of its folder are left where they are."""
MAX_BYTES = 64 << 20
_MOST_FILES = 500
_UNREADABLE = (ValueError, OSError, EOFError, RuntimeError, IndexError, zipfile.BadZipFile, zlib.error)
"""What ``zipfile`` raises for archives of strangers."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the zip: the same folder makes the same file."""


class CourseFiles(msgspec.Struct, frozen=True):
    """A course that was read: its files by path, its sites by their names in it, and what was left out."""

    course: Course
    files: Mapping[str, bytes]
    sites: Mapping[str, Site]
    left_out: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The SHA-256 over all of its files."""
        found = hashlib.sha256()
        for name, data in sorted(self.files.items()):
            found.update(f"{name}\0{len(data)}\0".encode() + data)
        return found.hexdigest()

    @property
    def programs(self) -> tuple[str, ...]:
        """The files of its exercises, which are run to read what they declare, or read by those that are."""
        return tuple(name for name in sorted(self.files) if name.startswith("exercises/"))


def read_course(path: Path, whole: bool = True) -> CourseFiles:
    """The course in a folder or a file; not ``whole``: of a folder without the files of its exercises. Raises
    ``ProblemError`` with what is wrong."""
    parts = (COURSE, "sites", "exercises") if whole else (COURSE, "sites")
    try:
        files = dict(_in_folder(path, parts)) if path.is_dir() else unpacked(read_file(path, MAX_BYTES))
    except _UNREADABLE as error:
        words = said(error) if isinstance(error, OSError) else str(error)
        hint = f"A course is a folder with {COURSE}, or a {SUFFIX} file made of one."
        raise problem("course.read", f"{path} cannot be read as a course: {words}.", hint, str(path)) from None
    return from_files(files, str(path))


def from_files(files: Mapping[str, bytes], origin: str) -> CourseFiles:
    """The course that these files make. Raises ``ProblemError``."""
    own = {name: data for name, data in files.items() if _OWN.fullmatch(name)}
    if large := [name for name, data in own.items() if name.endswith(".toml") and len(data) > MAX_SITE]:
        raise problem("course.read", f"{large[0]} has more than {MAX_SITE:,} bytes.", "Shorten it.", origin)
    sites = {PurePosixPath(name).stem: data for name, data in own.items() if name.startswith("sites/")}
    read, found = dict[str, Site](), [found for name in sites for found in check_name(name)]
    for name, data in sites.items():
        try:
            read[name] = from_toml(_text(data, f"sites/{name}.toml"), f"sites/{name}.toml")
        except ProblemError as error:
            found += error.problems
    if COURSE not in own:
        hint = "Ask for it again, or make one: clew course new DIR"
        raise problem("course.read", f"{origin} has no {COURSE}.", hint, origin)
    try:
        course = from_text(_text(own[COURSE], COURSE), list(sites), COURSE)
    except ProblemError as error:
        found += error.problems
    raise_all(found)
    for name in sites:  # a site is called after its course, too, and has to fit
        raise_all(check_name(site_name(course.id, name)))
    return CourseFiles(course, own, read, tuple(sorted(set(files) - set(own))))


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise problem("course.read", f"{name} is no UTF-8 text.", "Save it as UTF-8.", name) from None


def _in_folder(folder: Path, parts: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Links are not followed: what a teacher links to would be packed unseen. Raises ``ValueError``."""
    left = MAX_BYTES
    places = (place for name in parts for place in (folder / name, *_below(folder / name)))
    for number, path in enumerate(path for path in places if path.is_file() and not path.is_symlink()):
        data = read_file(path, min(left, MAX_SITE if path.suffix == ".toml" else MAX_BYTES))
        left -= len(data)
        if number >= _MOST_FILES:
            raise ValueError(f"it has more than {_MOST_FILES} files")
        yield path.relative_to(folder).as_posix(), data


def _below(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*")) if folder.is_dir() and not folder.is_symlink() else []


def unpacked(data: bytes) -> dict[str, bytes]:
    """The files of a packed course. Raises ``ValueError`` or what ``zipfile`` raises."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = [info for info in archive.infolist() if not info.is_dir()]
        if len(entries) > _MOST_FILES or sum(info.file_size for info in entries) > MAX_BYTES:
            raise ValueError(f"it has more than {_MOST_FILES} files, or more than {MAX_BYTES >> 20} MB")
        tops = sorted((info.filename for info in entries if info.filename.split("/")[-1] == COURSE), key=len)
        above = tops[0].removesuffix(COURSE) if tops else ""  # where the folder itself was packed
        found = dict[str, bytes]()
        for info in entries:
            name, kind = info.filename.removeprefix(above), stat.S_IFMT(info.external_attr >> 16)
            known = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            if not safe_path(name) or kind not in (0, stat.S_IFREG) or not known:
                raise ValueError(f"it holds {info.filename[:60]!r}, which is no file of its own folder")
            if name.casefold() in {known.casefold() for known in found}:
                raise ValueError(f"it holds {name[:60]!r} twice")
            with archive.open(info) as file:  # what an entry says of its size may be a lie
                found[name] = file.read(info.file_size + 1)
            if len(found[name]) != info.file_size:
                raise ValueError(f"{name[:60]!r} is larger than it says")
    return found


def write_course(path: Path, found: CourseFiles) -> Path:
    """Packs a course into one file, whole or not at all. Raises ``ProblemError``."""
    refused = os_refused("course.write", f"{path} cannot be written", "Choose another place.")
    with refused, replacing_whole(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(found.files.items()):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
    return path


def what_it_adds(found: CourseFiles) -> Iterator[str]:
    """All that opening a course brings to a computer, in lines: nothing of it may come unseen."""
    course = found.course
    yield ", by ".join(filter(None, (course.title, ", ".join(course.teachers))))
    yield from filter(None, (" ".join(course.text.split()),))
    for lesson in course.lessons:
        exercises = ", ".join(one.id for one in lesson.exercises)
        asked = ", ".join(f"{name} {value}" for name, value in lesson.allocation.items())
        asked = f"Jobs ask for {asked}" if asked else ""
        yield ". ".join(filter(None, (f"Lesson {lesson.title}: {exercises}", until_words(lesson), asked)))
        for one in lesson.exercises:
            yield from (f"    {one.id} begins with {word}" for word in (one.preset, one.data) if word)
            yield from (f"    {one.id} asks: {' '.join(question.split())}" for question in one.questions)
            if one.goals is not None:
                yield f"    {one.id} counts {', '.join(one.goals) or 'no goal'}"
    for name, site in found.sites.items():
        yield f"Site {site_name(course.id, name)}:"
        yield from (f"    {line}" for line in to_toml(site).rstrip().splitlines())
    if found.programs:
        yield "Files of exercises, which run on this computer to read what they declare, and when you train:"
        for name in found.programs:
            data = found.files[name]
            yield f"    {name}, {len(data):,} bytes, SHA-256 {hashlib.sha256(data).hexdigest()[:16]}"
    if course.board:
        yield f"Board of the class: {course.shown(course.board)}. Nothing is shared before you join it."
    if course.hand_in:
        yield f"Hand-ins go to {course.shown(course.hand_in)}, when you hand in."
    for source in course.data:
        yield f"Data {source.name}: {course.where(source)}. Nothing is downloaded."
