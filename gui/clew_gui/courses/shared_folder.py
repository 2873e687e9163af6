"""A folder that a class shares, on a site through the connection that is there, or on this computer."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from clew_gui.courses.course import SharedPlace, read_place, site_name
from clew_gui.deploy import folder_there
from clew_gui.deploy.remote_python import read_answer
from clew_gui.sites.site_connection import SiteConnection
from clew_shared.base.problem import Problem, ProblemError, problem

_CALL = """
import json, sys
print("\\nclew:" + json.dumps(answer(json.loads(sys.stdin.readline()))))"""
_PIECE = 4 << 20
"""Bytes of a hand-in that are sent at a time."""
MOST_FILES = 2_000
MOST_BYTES = 1 << 20
"""Bytes that are read of one file: a term of a student's own lines is a tenth."""
_ROOM = 16 << 20
_STICKY, _SET_GROUP, _GROUP_LISTS, _OTHERS_LIST = 0o1000, 0o2000, 0o040, 0o004


class SharedFile(msgspec.Struct, frozen=True):
    """A file in the folder: the account that owns it by the file system (empty: unknown), its size in bytes, when it
    was changed, and what was asked for of its content; ``refused``: why it was not read."""

    name: str
    owner: str = ""
    size: int = 0
    time: float = 0.0
    data: bytes = b""
    refused: str = ""


class Rights(msgspec.Struct, frozen=True):
    """Who may do what in the folder. ``listed``: an access list says who reads new files, ``shown``: others than its
    owner do; ``ours``: the folder's group has other students; ``loose``: those may put another folder in its place."""

    folder: bool
    mode: int
    owner: str
    ours: bool
    listed: bool
    posix: bool
    shown: bool = False
    loose: bool = False

    def problem(self, path: str) -> Problem | None:
        """Says why nothing of a student's own may be written there; None if it may, or nobody can tell."""
        if not self.folder:
            return Problem("board.folder", f"{path} is no folder.", "Ask your teacher for the right one.", path)
        if not self.posix:  # the rights of a network drive are its server's
            return None
        lists = self.mode & _OTHERS_LIST or (self.mode & _GROUP_LISTS and not self.listed)
        teachers = not self.shown if self.listed else self.mode & _SET_GROUP and not self.ours
        if self.mode & _STICKY and teachers and not lists and not self.loose:
            return None
        can = "replace the folder and read" if self.loose else "read" if self.mode & _STICKY else "remove"
        text = f"{path} does not protect its files: other students could {can} yours."
        return Problem("board.rights", text, "The teacher makes one that does: clew course board", path)


def folder_of(course: str, text: str, connect: Callable[[str], SiteConnection]) -> SharedFolder:
    """A shared folder of the course with this id; ``connect`` gives the connection to one of a person's sites."""
    place = read_place(text)
    return shared_folder(place, lambda site: connect(site_name(course, site)))


def shared_folder(place: SharedPlace, connect: Callable[[str], SiteConnection]) -> SharedFolder:
    """The folder at a place, on a site that ``connect`` finds by its name, or on this computer."""
    return SharedFolder(place, partial(connect, place.site) if place.site else None)


class SharedFolder:
    """Reads and writes in ``place``. ``connect`` gives the connection to its site, where it has one; it may wait and
    raise ``ProblemError``, as everything here does."""

    def __init__(self, place: SharedPlace, connect: Callable[[], SiteConnection] | None = None) -> None:
        self.place = place
        self.connect = connect

    def look(self, suffix: str, offsets: Mapping[str, int]) -> tuple[list[SharedFile], int]:
        """The files that end so, each with what it has after its offset (that of ``""`` for others), and how many there
        are beyond those that are read."""
        found = self._do("look", suffix=suffix, offsets=offsets, files=MOST_FILES, size=MOST_BYTES, room=_ROOM)
        return [msgspec.convert(one, SharedFile) for one in found["files"]], int(found["more"])

    def fetch(self, one: SharedFile, path: Path) -> None:
        """Bring a file here, whole."""
        with path.open("wb") as file:
            while (offset := file.tell()) < one.size:
                words = {"offsets": {one.name: offset}, "files": 1, "size": one.size, "room": _PIECE}
                found = self._do("look", suffix=f"={one.name}", **words)["files"]
                data = msgspec.convert(found, list[SharedFile])[0].data if found else b""
                if not data:
                    raise problem("board.damaged", f"{one.name} changed meanwhile.", "Try again.", one.name)
                file.write(data)

    def rights(self) -> Rights:
        """Who may do what there."""
        return msgspec.convert(self._do("rights"), Rights)

    def make(self, group: str = "", students: str = "") -> Rights:
        """Make the folder of a class (``folder_there.make``)."""
        return msgspec.convert(self._do("make", group=group, students=students), Rights)

    def append(self, name: str, offset: int, data: bytes) -> int:
        """Append to a file of one's own if it has ``offset`` bytes; returns how many it has then."""
        return int(self._do("append", name=name, offset=offset, data=base64.b64encode(data).decode())["size"])

    def remove(self, name: str) -> None:
        """Remove a file of one's own."""
        self._do("remove", name=name)

    def put(self, name: str, path: Path) -> tuple[str, float]:
        """Bring a file there whole, in place of an earlier one; returns its SHA-256 and when it arrived."""
        self.remove(f"{name}.part")
        digest, offset = hashlib.sha256(), 0
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
                offset = self.append(f"{name}.part", offset, piece)
        done = self._do("finish", name=name, sha256=digest.hexdigest())
        if not done["arrived"]:
            text = f"{path.name} arrived damaged in {self.place.path}."
            raise problem("board.damaged", text, "Hand in again.", self.place.path)
        return digest.hexdigest(), float(done["time"])

    def checked(self) -> SharedFolder:
        """Itself. Raises ``ProblemError`` where others could read, change or remove what is put there."""
        if (found := self.rights().problem(self.place.path)) is not None:
            raise ProblemError(found)
        return self

    def _do(self, what: str, **words: Any) -> dict[str, Any]:
        question = {"do": what, "folder": self.place.path, **words}
        if self.connect is None:
            found = folder_there.answer(question)
        else:
            connection = self.connect()
            program = files("clew_gui.deploy").joinpath("folder_there.py").read_text(encoding="utf-8")
            asked = msgspec.json.encode(question) + b"\n"
            done = connection.run(("python3", "-I", "-c", program + _CALL), stdin=asked)
            answer = read_answer(done.out, "\nclew:")  # no name of a file has such a line in JSON
            if answer is None:
                text = f"{connection.title} could not look into {self.place.path}: {done.said.strip()[-300:] or 'late'}"
                raise problem("board.python", text, "It needs python3 on its login node.", self.place.path)
            found = answer
        if "refused" in found:
            text = f"{self.place.path}: {found['refused']}."
            raise problem("board.refused", text, "Check the folder, its rights and its disk.", self.place.path)
        return found
