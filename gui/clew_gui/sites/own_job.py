"""Writes the job script that a person would write to run an exercise's Keras script on a machine."""

from __future__ import annotations

import uuid

import msgspec

from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.schedulers.registry import scheduler_of
from clew_gui.sites.presets import ANY_CLUSTER, OF_COURSES, PRESETS
from clew_gui.sites.site import Site, job_of
from clew_gui.sites.store import SiteStore
from clew_shared.cards import ExerciseCard

MACHINES = tuple(dict.fromkeys([*OF_COURSES.values(), ANY_CLUSTER]))
"""The presets of the courses' machines, and one for any other cluster."""


def course_machine(card: ExerciseCard) -> str:
    """The preset of the course that the card names first."""
    named = {card.course.index(name): preset for name, preset in OF_COURSES.items() if name in card.course}
    return named[min(named)] if named else ANY_CLUSTER


def machines(store: SiteStore) -> dict[str, Site]:
    """The user's sites that have a scheduler, then the courses' machines, by name."""
    own = {one.name: one.site for one in store.all() if one.site is not None}
    queued = {name: site for name, site in own.items() if scheduler_of(site.scheduler).has_queue}
    return queued | {name: PRESETS[name] for name in MACHINES if name not in queued}


def find_machine(store: SiteStore, name: str) -> Site:
    """The user's site of this name, else the preset. Raises ``ProblemError`` where there is neither."""
    return PRESETS[name] if name in PRESETS and name not in store.names() else store.load(name)


def own_job(site: Site, exercise: str, allocation: AllocationRequest) -> str:
    """The script, which asks for this allocation but for one node, as a Keras script needs. Raises ``ProblemError`` for
    a site whose job cannot be written safely."""
    asked = msgspec.structs.replace(allocation, nodes=1)
    job = job_of(site, str(uuid.uuid4()), "/", ("python", script_name(exercise)), asked)
    return scheduler_of(site.scheduler).script(job, exercise)


def script_name(exercise: str) -> str:
    """The file that the job runs."""
    return f"{exercise.replace('-', '_')}_keras.py"
