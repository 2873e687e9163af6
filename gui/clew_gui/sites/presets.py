"""Sites to start from: the machines of five courses, and plain ones for each scheduler.

The courses' machines are gone or have changed since; their presets keep the way to them, their scheduler's dialect and
what the slides ask for. Hosts, accounts and reservations are for the user to fill in.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.schedulers.registry import NAMES, scheduler_of
from clew_gui.sites.check import check_title
from clew_gui.sites.site import Site

THIS_COMPUTER = Site(title="This computer", note="Runs train here, without a scheduler.")

_GONE = "The course's machine is gone; this shows how it was reached. Use it as a pattern for its successor."

_GENERIC = {
    preset.name: Site(
        title=preset.title, scheduler=name, allocation=AllocationRequest(time=scheduler_of(name).usual_time)
    )
    for name in NAMES
    if (preset := scheduler_of(name).preset) is not None
}

PRESETS: Mapping[str, Site] = {
    "minotauro": Site(
        title="MinoTauro (BSC)",
        host="mt1.bsc.es",
        scheduler="mnsubmit",
        modules=("K80", "cuda", "mkl", "CUDNN", "python_ML"),
        allocation=AllocationRequest(time="02:00:00", gpus=4, features="k80"),
        note=f"{_GONE} The course gives the day's reservation.",
    ),
    "jureca": Site(
        title="JURECA (Jülich)",
        host="jureca.fz-juelich.de",
        scheduler="slurm",
        allocation=AllocationRequest(time="01:00:00"),
        note="The reservation changes daily: set the day's before a run. Keys only; the key must be uploaded.",
    ),
    "davide": Site(
        title="D.A.V.I.D.E. (CINECA)",
        host="login.davide.cineca.it",
        scheduler="slurm",
        gres="gpu:tesla",
        modules=("autoload",),
        allocation=AllocationRequest(time="01:00:00", gpus=1),
        note=f"{_GONE} The account is the one that the course gives.",
    ),
    "bluewaters": Site(
        title="Blue Waters (NCSA)",
        host="bw.ncsa.illinois.edu",
        scheduler="pbs",
        launch="aprun",
        allocation=AllocationRequest(time="01:00:00", nodes=8, cpus=16, features="xk"),
        note=f"{_GONE} One process a node was started with aprun.",
    ),
    **_GENERIC,
    "local": THIS_COMPUTER,
}


KINDS = frozenset(_GENERIC)
"""Presets of a kind of site, not of one machine: their titles are for a menu, and no site is called like that."""


def site_from(preset: str, name: str, known: Mapping[str, Site | None]) -> Site:
    """The site ``name`` as it begins with this preset, among the ``known`` ones. It has the preset's title where that
    is a machine's and no other site has it. Raises ``KeyError`` where there is no such preset."""
    found = PRESETS[preset]
    own = preset not in KINDS and not check_title(name, found, known)
    return found if own else msgspec.structs.replace(found, title="")


def about_presets() -> str:
    """Returns one line with all names, for help and error messages."""
    return ", ".join(PRESETS)


OF_COURSES = {"BSC": "minotauro", "Jülich": "jureca", "CINECA": "davide", "NCSA": "bluewaters", "IT4Innovations": "pbs"}
"""The preset of each course's machine. IT4Innovations' slides name a scheduler, and no machine."""
ANY_CLUSTER = "slurm"
"""The preset for whoever has none of them."""
