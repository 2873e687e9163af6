"""Where a viewer finds an agent: ``agents/<uuid>.json``, owner-only, written by rename. It holds no secret."""

from __future__ import annotations

import hashlib
import shutil
import time
import uuid
from pathlib import Path

import msgspec

from clew_agent import posix
from clew_shared.address_file import read_address
from clew_shared.channel import KEY_SUFFIX
from clew_shared.messages import AgentAddress
from clew_shared.places import Places
from clew_shared.private import make_private, write_private
from clew_shared.problem import problem


def agent_id(places: Places, allocation: str = "local") -> str:
    """The agent's UUID: always the same for one home, host and allocation, so that a successor takes its place."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"clew:{posix.host_name()}:{places.home.absolute()}:{allocation}"))


def address_path(places: Places, agent: str) -> Path:
    """The agent's file on the file system that the viewer can read."""
    return places.agents / f"{agent}.json"


def lock_path(places: Places, agent: str) -> Path:
    """The file whose lock says that this agent is served; on the node's own disk, in an owner-only folder.

    Raises ``ProblemError`` when that folder cannot be made.
    """
    try:
        folder = make_private(make_private(places.private) / "agents")
    except OSError as error:
        text = f"The folder {places.private} cannot be made: {error.strerror or error}."
        hint = "Set XDG_RUNTIME_DIR or TMPDIR to a folder of your own."
        raise problem("private.folder", text, hint, str(places.private)) from None
    return folder / f"{hashlib.sha256(agent.encode()).hexdigest()[:32]}.lock"


def allow_folder(places: Places, agent: str) -> Path:
    """The folder in which a key file lets a viewer in; owner-only."""
    make_private(places.agents)
    return make_private(places.agents / f"{agent}.allow")


def clear_keys(folder: Path) -> None:
    """Remove the keys of viewers of an earlier agent: each viewer writes its key again before it connects."""
    for path in folder.glob(f"*{KEY_SUFFIX}"):
        path.unlink(missing_ok=True)


def publish(places: Places, address: AgentAddress) -> AgentAddress:
    """Write the address with the next generation and return it.

    Generations only grow, also after the file was removed: they begin at the second of the first start. Raises
    ``OSError`` when the disk refuses.
    """
    make_private(places.agents)
    path = address_path(places, address.agent)
    before = read_address(path)
    generation = max(before.generation + 1 if before else 0, int(time.time()))
    published = msgspec.structs.replace(address, generation=generation)
    write_private(path, msgspec.json.format(msgspec.json.encode(published)) + b"\n")
    return published


def withdraw(places: Places, address: AgentAddress) -> None:
    """Remove the address and the keys of those it let in, unless a successor has written its own."""
    path = address_path(places, address.agent)
    found = read_address(path)
    if found is not None and found.generation == address.generation:
        path.unlink(missing_ok=True)
        shutil.rmtree(allow_folder(places, address.agent), ignore_errors=True)
