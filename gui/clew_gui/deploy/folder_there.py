"""Works in a folder that a class shares, on the site or on this computer: looks, appends, keeps hand-ins, sets rights.

Others write there too, so no link is followed, no device is opened, and everything is bounded. It is sent to any Python
from 3.6 on, so it uses the standard library alone.
"""
# ruff: noqa: I002

import base64
import errno
import hashlib
import os
import shutil
import stat
import struct
import subprocess
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

_posix = os  # type: Any  # some of it is not there on Windows
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_ACL = "system.posix_acl_default"
_OWN_MODE = 0o640
"""The owner writes, and whom the folder names (by its group or access list) reads; nobody else."""


def owner_of(uid: int) -> str:
    """The name of an account as the system knows it; empty where there is none."""
    try:
        return str(import_module("pwd").getpwuid(uid).pw_name)
    except (ImportError, KeyError):
        return str(uid) if uid else ""


def opened(folder: Path, name: str, flags: int) -> int:
    """A regular file of the folder itself. Raises ``OSError``."""
    if name != Path(name).name or name == ".." or not name.isprintable():
        raise OSError(errno.EINVAL, "it is no name of a file", name)
    handle = os.open(str(folder / name), flags | _SAFE, _OWN_MODE)
    state = os.fstat(handle)
    if not stat.S_ISREG(state.st_mode) or state.st_nlink > 1:
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no file of its own", name)
    return handle


def look(folder: Path, suffix: str, offsets: "dict[str, int]", files: int, size: int, room: int) -> "dict[str, Any]":
    """All files that end so (after ``=`` the one of that name), with owner, size and time, and what each has behind its
    offset: at most ``files`` of them, ``size`` bytes of one and ``room`` of all. A file without an offset is only
    listed. One of each account comes first, then a second: with many files nobody crowds out the others."""
    turns: list[tuple[int, str, int]] = []
    counts: dict[int, int] = {}
    for path in [folder / suffix[1:]] if suffix.startswith("=") else sorted(folder.iterdir()):
        with suppress(FileNotFoundError):  # it was removed meanwhile
            if path.name.endswith(suffix.lstrip("=")) and not path.name.startswith("."):
                owner = path.lstat().st_uid
                counts[owner] = counts.get(owner, 0) + 1
                turns.append((counts[owner], path.name, owner))
    found: list[dict[str, Any]] = []
    for _, name, owner in sorted(turns)[:files]:
        text = name.encode("utf-8", "backslashreplace").decode("utf-8")
        one: dict[str, Any] = {"name": text, "owner": owner_of(owner)}
        found.append(one)
        try:
            handle = opened(folder, name, os.O_RDONLY)
        except OSError as error:
            one["refused"] = error.strerror or str(error)
            continue
        with os.fdopen(handle, "rb") as file:
            state = os.fstat(handle)
            one.update(owner=owner_of(state.st_uid), size=state.st_size, time=changed(state))
            offset = offsets.get(name, offsets.get("", -1))
            if 0 <= offset < min(state.st_size, size) and room > 0:
                file.seek(offset)
                data = file.read(min(size - offset, room))
                room -= len(data)
                one["data"] = base64.b64encode(data).decode()
    return {"files": found, "more": max(0, len(turns) - files)}


def changed(state: os.stat_result) -> float:
    """When a file was changed; its owner can set back one of the times only."""
    return max(state.st_mtime, state.st_ctime)


def others_read(folder: Path, owner: int, groups: "list[int]") -> "bool | None":
    """Whether an access list lets others than the folder's owner, or a group of this account, read new files; None
    without such a list."""
    try:
        found = _posix.getxattr(str(folder), _ACL)
    except (AttributeError, OSError):
        return None
    readers = [(tag, who) for tag, may, who in struct.iter_unpack("<HHI", found[4:]) if may & 4]
    return any(tag in (4, 32) or (tag == 2 and who != owner) or (tag == 8 and who in groups) for tag, who in readers)


def _is_own(gid: int) -> bool:
    """Whether a group is this account's own and has no other members."""
    with suppress(KeyError):
        group, me = import_module("grp").getgrgid(gid), import_module("pwd").getpwuid(_posix.getuid())
        return bool(group.gr_name == me.pw_name) and not set(group.gr_mem) - {me.pw_name}
    return False


def _replaceable(folder: Path, groups: "list[int]") -> bool:
    """Whether others may put another folder in its place."""
    above = folder.parent.resolve()
    return any(
        not state.st_mode & stat.S_ISVTX
        and bool(state.st_mode & stat.S_IWOTH or (state.st_mode & stat.S_IWGRP and state.st_gid in groups))
        for state in (path.stat() for path in (above, *above.parents))
    )


def rights(folder: Path) -> "dict[str, Any]":
    """Who may do what in the folder, as far as the system says."""
    state = folder.lstat()
    mine = bool(getattr(os, "getuid", lambda: state.st_uid)() == state.st_uid)
    groups: list[int] = getattr(os, "getgroups", list)()
    if mine:  # a teacher is in the teachers' group; but what all accounts have as their first one is no such group
        groups = [gid for gid in [getattr(os, "getgid", lambda: 0)()] if os.name == "posix" and not _is_own(gid)]
    listed = others_read(folder, state.st_uid, groups)
    return {
        "folder": stat.S_ISDIR(state.st_mode),
        "mode": stat.S_IMODE(state.st_mode),
        "owner": owner_of(state.st_uid),
        "ours": state.st_gid in groups,
        "listed": listed is not None,
        "shown": bool(listed),
        "loose": os.name == "posix" and _replaceable(folder, groups),
        "posix": os.name == "posix",
    }


def make(folder: Path, group: str, students: str) -> "dict[str, Any]":
    """Makes the folder: everybody may put files of their own there, nobody may list it, change or remove what others
    have put, and only the teacher, or ``group``, reads it. With an access list where the system has such; else by the
    group, which must be a teacher's own. Only ``students``, a group, may write if it is named. On Windows the folder is
    made, and no more: it is a network drive's server that has rights."""
    if os.name != "posix" and not (group or students):
        folder.mkdir()
        return rights(folder)
    grp, me = import_module("grp"), import_module("pwd").getpwuid(_posix.getuid())
    wanted = grp.getgrnam(group) if group else grp.getgrgid(me.pw_gid)
    folder.mkdir(mode=0o700)
    try:
        setfacl = shutil.which("setfacl")
        reader = f"g:{group}" if group else f"u:{me.pw_name}"
        rules = f"{reader}:rwx,{f'g:{students}:wx,' if students else ''}d:u::rw,d:g::-,d:o::-,d:{reader}:r,d:m::r"
        folder.chmod(0o1700 if students else 0o1733)
        if setfacl and not subprocess.call([setfacl, "-m", rules, "--", str(folder)], stderr=subprocess.DEVNULL):
            return rights(folder)
        if students or not (group or _is_own(wanted.gr_gid)):
            raise OSError(errno.EPERM, f"no access lists here, and the group {wanted.gr_name} has other members")
        _posix.chown(str(folder), -1, wanted.gr_gid)
        folder.chmod(0o3733)
    except BaseException:
        folder.rmdir()
        raise
    return rights(folder)


def append(folder: Path, name: str, offset: int, data: bytes) -> "dict[str, Any]":
    """Appends to a file of one's own that has ``offset`` bytes, and says how many it has then; else how many it has."""
    handle = opened(folder, name, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    with os.fdopen(handle, "r+b", buffering=0) as file:
        state = os.fstat(handle)
        if hasattr(os, "fchmod"):
            _posix.fchmod(handle, _OWN_MODE)  # whatever the umask has left
        while state.st_size == offset and data:  # a full disk takes a part, then says so
            data = data[file.write(data) :]
        return {"size": os.fstat(handle).st_size}


def finish(folder: Path, name: str, sha256: str) -> "dict[str, Any]":
    """Gives a file that has arrived whole its name; an earlier one of that name goes."""
    part = folder / (name + ".part")
    with os.fdopen(opened(folder, part.name, os.O_RDONLY), "rb") as file:
        digest = hashlib.sha256()
        for piece in iter(lambda: file.read(1 << 20), b""):
            digest.update(piece)
    if digest.hexdigest() != sha256:
        part.unlink()
        return {"arrived": False}
    part.replace(folder / name)
    return {"arrived": True, "time": changed((folder / name).lstat())}


def remove(folder: Path, name: str) -> "dict[str, Any]":
    """Removes a file of one's own; one that is not there is gone."""
    with suppress(FileNotFoundError):
        (folder / Path(name).name).unlink()
    return {}


def answer(question: "dict[str, Any]") -> "dict[str, Any]":
    """Does one thing of the above; ``refused`` is what the system said."""
    words = dict(question)
    folder = Path(words.pop("folder")).expanduser()
    if "data" in words:
        words["data"] = base64.b64decode(words["data"])
    todo: dict[str, Callable[..., dict[str, Any]]] = {
        one.__name__: one for one in (look, rights, make, append, finish, remove)
    }
    try:
        return todo[words.pop("do")](folder, **words)
    except OSError as error:
        return {"refused": error.strerror or str(error)}
    except KeyError as error:
        return {"refused": f"there is no such account or group: {error}"}
    except ImportError:
        return {"refused": "this system has no accounts whose rights would protect it"}
