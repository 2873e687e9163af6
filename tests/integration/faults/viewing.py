"""Where a viewer of a lab keeps its mirrors, and a way to the agent that leads through a proxy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from clew_gui.targets.target import LocalTarget
from clew_shared.base.places import Places
from clew_shared.wire.messages import AgentAddress
from tests.integration.faults.proxy import Proxy


class ViewerPlaces(Places, frozen=True):
    """The home of the test with mirrors of one's own: two viewers of one home must not write the same mirrors."""

    own: Path

    @property
    def mirrors(self) -> Path:
        return self.own


def viewer_places(places: Places, mirrors: Path) -> ViewerPlaces:
    """The same places but for the mirrors."""
    return ViewerPlaces(home=places.home, private=places.private, own=mirrors)


class ProxiedTarget(LocalTarget):
    """This computer, through a proxy."""

    def __init__(self, places: Places, command: Sequence[str], proxy: Proxy) -> None:
        super().__init__(places, command)
        self._proxy = proxy

    def find(self) -> AgentAddress | None:
        """The agent's address, with the proxy's port."""
        found = super().find()
        if found is None:
            return None
        self._proxy.target = found.port
        return msgspec.structs.replace(found, port=self._proxy.port)
