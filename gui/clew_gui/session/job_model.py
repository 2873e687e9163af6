"""One job on a site as the viewer knows it, and the place for a new run."""

from __future__ import annotations

import uuid

import msgspec

from clew_gui.jobs.job import EndRequest, JobNews, JobOrder
from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.session.links.status import LinkState, LinkStatus
from clew_gui.targets.target import Target
from clew_shared.base.problem import Problem
from clew_shared.spec import RunSpec


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The place for a run: a site by its name with the request to its scheduler, or a ``job`` that holds a node.

    ``data`` is a file or folder of this computer that is brought there first, ``exercises`` a folder of own exercises;
    empty: none. ``hold`` keeps the allocation until its end, for further runs. ``held_unused`` is why one that is held
    there is not used.
    """

    site: str = ""
    allocation: AllocationRequest = AllocationRequest()
    data: str = ""
    exercises: str = ""
    hold: bool = False
    job: str = ""
    held_unused: str = ""

    def order(self, *runs: RunSpec) -> JobOrder:
        """A new job for these runs there."""
        return JobOrder(
            job=str(uuid.uuid4()),
            site=self.site,
            allocation=self.allocation,
            runs=runs,
            data=self.data,
            exercises=self.exercises,
            hold=self.hold,
        )


class JobModel:
    """A job on a site as the viewer knows it. Changed by ``Session.tick`` only. ``title`` is the site's; ``runs`` those
    that it was given, in order; ``link`` how the link to its agent is; ``number`` is the job book's. ``elsewhere``:
    another program sent it while this one was open; ``locked``: why nobody is logged in there, until a person does it;
    ``kept``: why its agent, asked to give the node back after its runs, does not; ``idle_until``: until when (wall
    clock) its node is kept although all of its runs have ended, 0 where it is not, and ``let_go_at`` the same by the
    monotonic clock; ``end_request``: what another program asked for."""

    def __init__(self, number: int, order: JobOrder, title: str, news: JobNews) -> None:
        self.number = number
        self.order = order
        self.title = title
        self.news = news
        self.runs: list[str] = []
        self.link = LinkStatus(LinkState.OFFLINE, 0.0, "connecting", link=order.job)
        self.target: Target | None = None
        self.elsewhere = False
        self.locked: Problem | None = None
        self.kept = ""
        self.idle_until = 0.0
        self.let_go_at: float | None = None
        self.end_request: EndRequest | None = None

    @property
    def id(self) -> str:
        """The job's UUID."""
        return self.order.job

    @property
    def route(self) -> str:
        """The route to its agent in words; empty while there is none."""
        return str(getattr(self.target, "route", ""))
