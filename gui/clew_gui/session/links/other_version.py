"""Says, once, what a person should know about an agent of another version than this program."""

from __future__ import annotations

import re
from enum import Enum

from clew_shared import __version__
from clew_shared.base.problem import Problem
from clew_shared.wire.messages import PROTOCOL_VERSION, Welcome

CODES = ("link.protocol", "link.version")
"""The code of these problems: nothing failed, and to say it once is enough."""


class _Age(Enum):
    OLDER = "older than"
    NEWER = "newer than"
    OTHER = "not the same as"


_USE = {
    _Age.OLDER: "Runs can be watched, steered and continued as before; it refuses what is new since then.",
    _Age.NEWER: "Runs can be watched, steered and continued as before; what is new in it cannot be used from here.",
    _Age.OTHER: "Runs can be watched, steered and continued as before.",
}
_STAYS_THERE = "It stays as it is until its job ends; the next job starts the one of this version."
_STAYS_HERE = (
    "It ends by itself when nothing has run for half an hour and no window is open; the next one is of this version. "
    "In the window Settings, Check and use starts that at once."
)
_UPDATE = "Update Clew on this computer."


def other_version(
    welcome: Welcome, job: bool, protocol: tuple[int, int] = PROTOCOL_VERSION, version: str = __version__
) -> Problem | None:
    """The sentence about the agent that sent ``welcome``; None when it is of this ``version``. ``job``: it belongs to a
    job on a site, and not to this computer."""
    if welcome.protocol[0] != protocol[0]:
        text = f"The agent speaks protocol {welcome.protocol[0]}, this program {protocol[0]}."
        return Problem(CODES[0], text, "Runs can be watched; to steer them use the same version.")
    if (welcome.protocol, welcome.version) == (protocol, version):
        return None
    age = _age(welcome, protocol, version)
    whose = f"The agent on {welcome.host}" if job else "This computer's agent"
    there, here = f"Clew {welcome.version or 'of unknown version'}", f"Clew {version}"
    if welcome.protocol != protocol:
        there, here = f"{there} (protocol {_dotted(welcome.protocol)})", f"{here} (protocol {_dotted(protocol)})"
    stays = _UPDATE if age is _Age.NEWER else _STAYS_THERE if job else _STAYS_HERE
    return Problem(CODES[1], f"{whose} is {there}, {age.value} this one, {here}.", f"{_USE[age]} {stays}")


def _age(welcome: Welcome, protocol: tuple[int, int], version: str) -> _Age:
    there, here = (welcome.protocol, _release(welcome.version)), (protocol, _release(version))
    if there[0] != here[0]:
        return _Age.OLDER if there[0] < here[0] else _Age.NEWER
    if not there[1] or there[1] == here[1]:
        return _Age.OTHER
    return _Age.OLDER if there[1] < here[1] else _Age.NEWER


def _release(version: str) -> list[int]:
    """The numbers that a version begins with: 0.1.0 of 0.1.0.dev3+local."""
    found = re.match(r"\d+(\.\d+)*", version, re.ASCII)
    return [int(part) for part in found[0].split(".")] if found else []


def _dotted(protocol: tuple[int, int]) -> str:
    return f"{protocol[0]}.{protocol[1]}"
