"""Brings files to a site, each once: a file that is there already, or in the course's folder, is used."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
import uuid
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import msgspec

from clew_gui.base.checked_text import is_remote_path
from clew_gui.deploy.bundle import Upload, exercises_of, source_of
from clew_gui.schedulers.state import Output
from clew_gui.sites.site_connection import SiteConnection, local_path
from clew_shared.base.number_words import in_bytes
from clew_shared.base.problem import ProblemError, problem
from clew_shared.spec import SITE_PATH

FIRST_PIECE = 1 << 20
LARGEST_PIECE = 32 << 20
"""A transfer begins with small pieces, of which a cut costs little, and doubles them while the line holds."""
_PIECE_S = 1.0
"""The seconds that one piece may take: pieces grow until then; progress is reported that often, not more."""

Say = Callable[[str], None]

_EXISTS = 'case $1 in "~/"*) set -- "$HOME/${1#"~/"}" ;; esac; test -r "$1" && printf "%s\\n" "$1"'
_FREE = 'df -Pk -- "$1" | awk "NR > 1 { print \\$4 }"'


class _Found(msgspec.Struct):
    """The upload's state on the site: all of it under ``path``, or ``part`` bytes of it; ``free`` bytes of space (-1:
    unknown)."""

    path: str = ""
    part: int = 0
    free: int = -1


def stage(connection: SiteConnection, path: str, report: Say) -> str:
    """The path on the site of a file or folder of this computer, brought there if need be.

    ``site:/path`` means the site's own file, which must be there. A transfer that was cut goes on where it ended, in
    this call or a later one. Raises ``ProblemError``.
    """
    if path.startswith(SITE_PATH):
        return _own_path(connection, path.removeprefix(SITE_PATH))
    return _bring(connection, source_of(local_path(path), report), report, shared=True)


def stage_exercises(connection: SiteConnection, folder: Path | str, report: Say) -> str:
    """The same for a folder of exercises: only what belongs to them. Raises ``ProblemError``."""
    return _bring(connection, exercises_of(local_path(str(folder)), report), report, shared=False)


def _own_path(connection: SiteConnection, path: str) -> str:
    if not is_remote_path(path):
        hint = "It begins with / or ~/, such as site:/data/mnist.npz, and has no .. in it."
        raise problem("staging.path", f"{path!r} is not a path on {connection.title}.", hint, connection.name)
    done = connection.run(("sh", "-c", _EXISTS, "sh", path))
    if done.failed or not done.out.strip():
        text = f"There is no {path} on {connection.title} that you can read."
        raise problem(
            "staging.absent", text, "Check its name. Without site: it is a path of this computer.", connection.name
        )
    return done.out.strip("\n")


def _bring(connection: SiteConnection, source: Upload, report: Say, *, shared: bool) -> str:
    folder = f"{connection.layout().staged}/{source.digest}"
    target, part = f"{folder}/{source.name}", f"{folder}/.part-{_this_computer()}"
    for last in (False, True):
        found = _look(connection, source, folder, part, connection.site.data if shared else "")
        if found.path:
            return found.path
        _check_room(connection, source, found)
        connection.make_folder(folder)
        _send(connection, source, part, found, report)
        if _finish(connection, source, part, target):
            return target
        if not last:
            report(f"{source.name} arrived damaged and is sent again…")
            part = f"{folder}/.part-{secrets.token_hex(8)}"
    text = f"{source.name} arrived damaged on {connection.title} twice."
    raise problem("staging.damaged", text, "Is another program sending it there now? Try again.", connection.name)


def _look(connection: SiteConnection, source: Upload, folder: str, part: str, data: str) -> _Found:
    """Ask whether it is there, in one round trip."""
    kind = "d" if source.folder else "f"
    pattern = re.sub(r"([*?\[\]\\])", r"\\\1", source.name)
    asked = (folder, source.name, data, str(source.size), kind, pattern, part)
    listed = "".join(f"{digest}  {name}\n" for name, digest in source.files.items())
    done = connection.work(("sh", "-c", _script("look_there.sh"), "sh", *asked), stdin=listed.encode())
    answers = {word: rest for word, _, rest in (one.partition(" ") for one in done.out.splitlines())}
    if done.failed:
        raise _no_answer(connection, source, done)
    return _Found(answers.get("there", ""), _number(answers.get("part"), 0), _kibibytes(answers.get("free")))


def _send(connection: SiteConnection, source: Upload, part: str, found: _Found, report: Say) -> None:
    """Send what is lacking. After a cut it goes on as long as each try brings something."""
    offset = found.part if 0 < found.part <= source.size else 0
    if offset:
        report(f"{source.name}: {in_bytes(offset)} of {in_bytes(source.size)} are on {connection.title} already.")
    size, failed_at, sent_any, shown_at = FIRST_PIECE, -1, False, 0.0
    while offset < source.size or not sent_any:
        data = source.read(offset, size)
        since = time.monotonic()
        try:
            connection.ssh.write(part, data, offset=offset)
        except ProblemError as error:
            if error.problems[0].code == "ssh.file" or offset <= failed_at:
                raise _not_written(connection, source, offset, error) from None
            there = connection.ssh.stat(part)
            failed_at, offset = offset, min(there.size if there is not None else 0, source.size)
            continue
        sent_any = True
        offset += len(data)
        now = time.monotonic()
        if now - shown_at > _PIECE_S or offset == source.size:
            shown_at = now
            report(f"Bringing {source.name} to {connection.title}: {in_bytes(offset)} of {in_bytes(source.size)}.")
        if now - since < _PIECE_S / 2:
            size = min(2 * size, LARGEST_PIECE)


def _finish(connection: SiteConnection, source: Upload, part: str, target: str) -> bool:
    """Check what arrived and give it its name; False when it is damaged."""
    words = ("sh", "-c", _script("finish_there.sh"), "sh", part, source.digest, target, "d" if source.folder else "f")
    done = connection.work(words)
    said = done.out.split()[-1:]
    if said == ["damaged"]:
        return False
    if said != ["done"]:
        raise _no_answer(connection, source, done)
    return True


def _check_room(connection: SiteConnection, source: Upload, found: _Found) -> None:
    needed = source.size * (2 if source.folder else 1) - found.part  # a folder comes as an archive
    if 0 <= found.free < needed:
        raise _full(connection, source, found.free, needed)


def _not_written(connection: SiteConnection, source: Upload, offset: int, error: ProblemError) -> ProblemError:
    """The refusal with numbers, when it is room that lacks."""
    if error.problems[0].code != "ssh.file":
        return error
    done = connection.run(("sh", "-c", _FREE, "sh", connection.layout().home))
    free, needed = _kibibytes(done.out.strip()), source.size - offset
    return _full(connection, source, free, needed) if 0 <= free < needed else error


def _full(connection: SiteConnection, source: Upload, free: int, needed: int) -> ProblemError:
    text = (
        f"{source.name} does not fit on {connection.title}: {in_bytes(needed)} are needed in "
        f"{connection.layout().staged}, {in_bytes(free)} are free."
    )
    return problem("staging.full", text, "Remove files there, or name another folder as scratch.", connection.name)


def _no_answer(connection: SiteConnection, source: Upload, done: Output) -> ProblemError:
    said = "it did not answer in time" if done.late else (done.said.strip() or f"exit code {done.code}")[:300]
    text = f"{source.name} could not be brought to {connection.title}: {said}."
    return problem("staging.failed", text, "Try again; what arrived is kept.", connection.name)


def _this_computer() -> str:
    """A name for this computer in the name of an unfinished file: two laptops do not write into one."""
    return hashlib.sha256(f"{uuid.getnode()} {Path.home()}".encode()).hexdigest()[:12]


def _script(name: str) -> str:
    return files("clew_gui.deploy").joinpath(name).read_text(encoding="utf-8")


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() else otherwise


def _kibibytes(text: str | None) -> int:
    number = _number(text, -1)
    return number if number < 0 else number * 1024
