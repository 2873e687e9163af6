"""What is written down of a login that stays, by the process that holds it, for the programs that use it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from clew_gui.ssh.connection import Hop
from clew_shared.base.foreign import from_json
from clew_shared.base.private_files import write_private

_RECORD = "login.json"


class KeptLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login and its way. ``through`` is the id of the one before it on the way, empty for the first.

    ``since`` and ``used``, when it was last used, are in seconds since 1970; it stays for ``keep_s`` after that. The
    process ``pid``, which began at ``began``, holds it, and shows the public key ``key`` to programs.
    """

    id: str
    title: str
    route: str
    pid: int
    since: float
    keep_s: int
    asks_codes: bool
    through: str = ""
    used: float = 0.0
    began: float = 0.0
    key: bytes = b""

    @property
    def until(self) -> float:
        """Returns when the login ends unless it is used again."""
        return self.used + self.keep_s


def login_id(hops: Sequence[Hop]) -> str:
    """The name of the login at the last of ``hops``: a different one if anything on the route differs."""
    way = [msgspec.structs.replace(hop, user=hop.login, fingerprints=()) for hop in hops]  # those are shown only
    return hashlib.sha256(msgspec.json.encode(way)).hexdigest()[:10]


def write_record(folder: Path, login: KeptLogin) -> None:
    """Write it into its folder. Raises ``OSError``."""
    write_private(folder / _RECORD, msgspec.json.encode(login), lasting=False)


def read_record(folder: Path) -> KeptLogin | None:
    """Reads the record in a login's folder; None while it is being made, or if that was cut short."""
    try:
        found: KeptLogin = from_json((folder / _RECORD).read_bytes(), KeptLogin)
        return found
    except (OSError, msgspec.MsgspecError):
        return None


def note_use(folder: Path) -> None:
    """Its record's time is that of its last use."""
    os.utime(folder / _RECORD)


def last_use(folder: Path) -> float:
    """Returns when a login was last used, in seconds since 1970. Raises ``OSError``."""
    return (folder / _RECORD).stat().st_mtime
