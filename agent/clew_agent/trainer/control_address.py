"""The addresses at which trainers can be reached: files in the node's private folder, written by the trainer, removed
at its end."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from clew_shared.base.places import Places, find_places


def address_file(places: Places, run: str) -> Path:
    """The trainer's ``AgentAddress`` as JSON."""
    return places.private / "runs" / f"{run}.json"


def allow_folder(places: Places, run: str) -> Path:
    """The folder in which a key file lets its owner steer the trainer; it is named in the address as well."""
    return places.private / "runs" / f"{run}.allow"


def remove_address(run: str) -> None:
    """Forget a trainer that has ended, as far as that is possible: a client at an old address gets no answer."""
    places = find_places()
    with suppress(OSError):
        address_file(places, run).unlink()
    shutil.rmtree(allow_folder(places, run), ignore_errors=True)
