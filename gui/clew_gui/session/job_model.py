"""One job on a site as the viewer knows it, and where a person wants a run to go."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import msgspec

from clew_gui.remote.allocation import Allocation
from clew_gui.remote.jobs import JobNews, Order
from clew_gui.session.states import LinkState, LinkStatus
from clew_shared.problem import Problem
from clew_shared.spec import RunSpec

if TYPE_CHECKING:
    from clew_gui.remote.target import Target


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run is to go: a site by its name with what is asked of its scheduler, or a ``job`` that holds a node.

    ``data`` is a file or folder of this computer that is brought there first, ``exercises`` a folder of own exercises;
    empty: none. ``hold`` keeps the allocation until its end, for further runs.
    """

    site: str = ""
    allocation: Allocation = Allocation()
    data: str = ""
    exercises: str = ""
    hold: bool = False
    job: str = ""

    def order(self, *runs: RunSpec) -> Order:
        """A new job for these runs there."""
        return Order(
            job=str(uuid.uuid4()),
            site=self.site,
            allocation=self.allocation,
            runs=runs,
            data=self.data,
            exercises=self.exercises,
            hold=self.hold,
        )


class JobModel:
    """Changed by ``Session.tick`` only. ``title`` is the site's; ``runs`` those that it was given, in order; ``link``
    how the link to its agent is; ``number`` counts this user's jobs from 1. ``elsewhere``: another program sent it
    while this one was open; ``locked``: why nobody is logged in there, until a person does it; ``kept``: why its agent,
    asked to give the node back after its runs, does not."""

    def __init__(self, number: int, order: Order, title: str, news: JobNews) -> None:
        self.number = number
        self.order = order
        self.title = title
        self.news = news
        self.runs: list[str] = []
        self.link = LinkStatus(LinkState.OFFLINE, 0.0, "not started", link=order.job)
        self.target: Target | None = None
        self.elsewhere = False
        self.locked: Problem | None = None
        self.kept = ""

    @property
    def id(self) -> str:
        """Its UUID."""
        return self.order.job

    @property
    def route(self) -> str:
        """The way to its agent in words; empty while there is none."""
        return str(getattr(self.target, "route", ""))
