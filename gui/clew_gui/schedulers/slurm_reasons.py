"""Why a job of Slurm waits, in sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping

from clew_gui.schedulers.state import PartitionLimits, Reason
from clew_shared.base.number_words import duration

_REASONS: Mapping[str, Reason] = {
    "None": Reason("The scheduler has not looked at it yet."),
    "Priority": Reason("Other jobs come first."),
    "Resources": Reason("It is next, and waits until nodes are free."),
    "BeginTime": Reason("It may not begin before a set time. After a failed start that is two minutes."),
    "Cleaning": Reason("It is being prepared to start again."),
    "Dependency": Reason("It waits for another job."),
    "DependencyNeverSatisfied": Reason("It will not start: the job that it waits for did not end as it should.", True),
    "Licenses": Reason("It waits for a licence."),
    "JobArrayTaskLimit": Reason("As many tasks of this job are running as its own limit allows."),
    "JobHeldUser": Reason("It will not start: you have held it. `scontrol release` lets it go.", True),
    "JobHeldAdmin": Reason("It will not start: an administrator has held it. Ask the site's support.", True),
    "JobHoldMaxRequeue": Reason("It will not start: it was started too often without success.", True),
    "JobLaunchFailure": Reason("It will not start: its start failed. Send it again, or ask the site's support.", True),
    "NodeDown": Reason("It will not start yet: a node that it needs is down.", True),
    "BadConstraints": Reason("It will not start: no node has what it asks for.", True),
    "ReqNodeNotAvail": Reason("It will not start yet: nodes that it needs are down or reserved for others.", True),
    "Reservation": Reason("It waits for its reservation to begin."),
    "ReservationDeleted": Reason("It will not start: its reservation does not exist any more.", True),
    "InvalidAccount": Reason("It will not start: you may not use its account.", True),
    "InvalidQOS": Reason("It will not start: you may not use its QOS.", True),
    "AccountNotAllowed": Reason("It will not start: its account may not use this partition.", True),
    "QOSNotAllowed": Reason("It will not start: its QOS may not be used in this partition.", True),
    "AssociationJobLimit": Reason("Your account has as many jobs as it may have; it starts when one of them ends."),
    "AssociationResourceLimit": Reason("Your account uses as much as it may; it starts when another job ends."),
    "AssociationTimeLimit": Reason("It will not start: your account's time is used up.", True),
    "QOSJobLimit": Reason("Its QOS has as many jobs as it may have; it starts when one of them ends."),
    "QOSResourceLimit": Reason("Its QOS uses as much as it may; it starts when another job ends."),
    "QOSTimeLimit": Reason("It will not start: the time of its QOS is used up.", True),
    "QOSUsageThreshold": Reason("It will not start: the share of its QOS is used up.", True),
    "PartitionDown": Reason("It will not start yet: the partition does not start jobs now.", True),
    "PartitionInactive": Reason("It will not start: the partition is switched off.", True),
    "PartitionTimeLimit": Reason("It will not start: it asks for more time than the partition allows.", True),
    "PartitionNodeLimit": Reason("It will not start: it asks for more nodes than the partition allows or has.", True),
    "PartitionConfig": Reason("It will not start: the partition does not allow what it asks for.", True),
    "InactiveLimit": Reason("The scheduler has stopped it because it did nothing.", True),
    "NonZeroExitCode": Reason("It ended with an exit code other than 0."),
    "SystemFailure": Reason("The scheduler, the network or the file system failed.", True),
    "TimeLimit": Reason("Its time was up."),
    "Prolog": Reason("The node is being prepared for it."),
    "FrontEndDown": Reason("It will not start yet: the front-end node is down.", True),
    "BurstBufferResources": Reason("It waits for room on fast storage."),
    "BurstBufferStageIn": Reason("Its data are being copied to fast storage."),
    "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions": Reason(
        "It waits: the nodes that it needs are down, or belong to more urgent jobs now."
    ),
    "MaxMemPerLimit": Reason("It will not start: it asks for more memory than is allowed.", True),
    "MaxCpusPerLimit": Reason("It will not start: it asks for more CPU cores than are allowed.", True),
    "launch failed requeued held": Reason("It will not start: its start failed, and the scheduler holds it.", True),
    "job requeued in held state": Reason(
        "It will not start: it was put back into the queue, and is held. `scontrol release` lets it go.", True
    ),
}
"""Slurm's reasons, from `squeue`(1), "JOB REASON CODES"."""

_WHAT = {
    "CPU": "CPU cores",
    "Cpu": "CPU cores",
    "GRES": "GPUs",
    "GRESCount": "GPUs",
    "Mem": "memory",
    "Memory": "memory",
    "Node": "nodes",
    "Jobs": "jobs",
    "SubmitJobs": "waiting jobs",
    "Wall": "time",
    "WallDuration": "time",
    "Energy": "energy",
    "License": "licences",
    "Billing": "charged units",
}


def slurm_reason(word: str, limits: PartitionLimits | None = None, asked: int | None = None) -> Reason:
    """Slurm's reason as a sentence; with the partition's limits and the seconds asked for the sentence has numbers."""
    name = word.strip("() ")
    # Slurm gives either word for the same request, one at its submission, the other when it is looked at again.
    too_long = name == "PartitionTimeLimit" or (name == "PartitionConfig" and _exceeds(asked, limits))
    if too_long and limits is not None and limits.time:
        wanted = f", and it asks for {duration(asked)}" if asked else ""
        return Reason(f"It will not start: the partition's limit is {duration(limits.time)}{wanted}.", True)
    if name == "PartitionNodeLimit" and limits is not None and limits.nodes:
        return Reason(f"It will not start: the partition's limit is {_nodes(limits.nodes)}.", True)
    if name.startswith(("ReqNodeNotAvail,", "ReqNodeNotAvail(")):
        nodes = re.search(r"UnavailableNodes:([A-Za-z0-9_.,\[\]-]+)", name)
        known = _REASONS["ReqNodeNotAvail"]
        return Reason(f"{known.text[:-1]} ({nodes[1]}).", True) if nodes else known
    spellings = (name, name.replace(" ", "_"), name.replace("_", " "))  # squeue's and scontrol's
    return next((_REASONS[one] for one in spellings if one in _REASONS), None) or _limit(name)


def _exceeds(asked: int | None, limits: PartitionLimits | None) -> bool:
    return limits is not None and limits.time is not None and asked is not None and asked > limits.time


def _nodes(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"


def _limit(name: str) -> Reason:
    """The families ``AssocGrpCPUMinutesLimit``, ``QOSMaxJobsPerUserLimit`` and so on, about eighty of them."""
    match = re.fullmatch(r"(Assoc|QOS)(Grp|Max|Min)([A-Za-z]+)", name)
    if match is None and re.search(r"(?<![a-z])held(?![a-z])", name):
        return Reason(f"It will not start: it is held ({name}). `scontrol release` lets it go.", True)
    if match is None:
        return Reason(f"It waits. The scheduler gives the reason {name!r}." if name else _REASONS["None"].text)
    whose, bound, rest = match.groups()
    owner = "your account" if whose == "Assoc" else "its QOS"
    rest = re.sub(r"(Limit|PerLimit)$", "", rest)
    what = _thing(rest)
    if bound == "Min":
        return Reason(f"It will not start: {owner} wants at least so many {what} of each job.", True)
    if "Minutes" in rest:
        return Reason(f"It will not start: {owner} has used up its minutes of {what}, or has too few left.", True)
    if "PerJob" in rest or (rest.startswith("Wall") and bound == "Max"):
        return Reason(f"It will not start: it asks for more {what} than {owner} allows a job.", True)
    whom = " a person" if "PerUser" in rest else ""
    return Reason(f"It waits: {owner} allows{whom} no more {what} at a time; it starts when another job ends.")


def _thing(rest: str) -> str:
    bare = re.sub(r"(Run)?Minutes.*|Per(Job|User|Account|Node|QOS).*", "", rest)
    return _WHAT.get(bare, _WHAT.get(bare.rstrip("s"), bare or "resources"))
