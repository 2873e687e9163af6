"""What the checks share: the site, the way to it once there is one, who may be asked, and what became known so far."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from clew_gui.remote.bootstrap.probe import Probe
from clew_gui.remote.connection import Connection, Hop, ssh_files
from clew_gui.remote.doctor.finding import Finding
from clew_gui.remote.doctor.node_answer import NodeAnswer
from clew_gui.remote.prompts import AskOnce, Kind, Prompt, Prompter, Remembers, Tells, no_one_to_ask
from clew_gui.remote.schedulers.partitions import Partition
from clew_gui.remote.schedulers.scheduler import Command
from clew_gui.remote.schedulers.state import Output
from clew_gui.remote.site_line import SiteLine
from clew_gui.remote.sites import Site
from clew_gui.remote.steady import SteadyConnection
from clew_shared.places import Places
from clew_shared.problem import problem

CALL_S = 20.0
"""The bound on one command, but for modules and Python, which may take their time. A scheduler that is away keeps its
commands for longer; that is a finding then."""
TOTAL_S = 180.0
"""The bound on everything but a job's waiting and what people are asked; what is left then is not tried."""


class Questions:
    """Passes questions on to a person and remembers them, without the answers. ``quiet``: nobody is asked."""

    def __init__(self, prompter: Prompter) -> None:
        self._prompter = prompter
        self.asked: list[Prompt] = []
        self.accepted: list[Prompt] = []
        """Server keys that the person said yes to."""
        self.quiet = False
        self.seconds = 0.0
        """How long people took to answer."""

    def ask(self, prompt: Prompt) -> str | None:
        """As ``Prompter.ask``."""
        self.asked.append(prompt)
        if self.quiet:
            raise no_one_to_ask(prompt)
        begun = time.monotonic()
        try:
            answer = self._prompter.ask(prompt)
        finally:
            self.seconds += time.monotonic() - begun
        if prompt.kind is Kind.CONFIRM and answer == "yes":
            self.accepted.append(prompt)
        return answer

    def refused(self, prompt: Prompt) -> None:
        """As ``Remembers.refused``."""
        if isinstance(self._prompter, Remembers):
            self._prompter.refused(prompt)

    def tell(self, text: str) -> None:
        """See ``Tells``."""
        if isinstance(self._prompter, Tells):
            self._prompter.tell(text)


class _BoundedLine(SiteLine):
    """No command takes longer than the doctor has time."""

    def __init__(self, name: str, site: Site, connection: SteadyConnection, limit: Callable[[], float]) -> None:
        super().__init__(name, site, connection)
        self._limit = limit

    def run(self, command: Command, *, stdin: bytes = b"", timeout: float = CALL_S) -> Output:
        return super().run(command, stdin=stdin, timeout=max(1.0, min(timeout, self._limit())))


class Ward:
    """One examination. ``stop`` set from any thread ends it after the check under way."""

    def __init__(self, name: str, site: Site, places: Places, prompter: Prompter, stop: threading.Event) -> None:
        self.name = name
        self.site = site
        self.places = places
        self.files = ssh_files(places)
        self.questions = Questions(prompter)
        self.asker = AskOnce(self.questions)
        self.stop = stop
        self.hops: tuple[Hop, ...] = ()
        self.findings: dict[str, Finding] = {}
        self.causes: dict[str, str] = {}
        """Why a check that is not fine is not: the end of "Not tried, because …"."""
        self.partitions: tuple[Partition, ...] = ()
        self.refused_modules: tuple[str, ...] = ()
        self.probed: Probe | None = None
        self.node: NodeAnswer | None = None
        self._line: SiteLine | None = None
        self._begun = time.monotonic()

    @property
    def left_s(self) -> float:
        """How much of the time for everything is left."""
        return TOTAL_S + self.questions.seconds - (time.monotonic() - self._begun)

    def more_time(self, seconds: float) -> None:
        """What is waited for on purpose does not count."""
        self._begun += seconds

    def arrive(self, connection: Connection) -> None:
        """The site's login node was reached."""
        there = [connection]

        def once() -> Connection:
            if not there:
                text = "The connection was lost during the examination."
                raise problem("ssh.lost", text, "Start the doctor again.", self.name)
            return there.pop()

        self._line = self._bounded(self.site, SteadyConnection(once))

    def _bounded(self, site: Site, connection: SteadyConnection) -> SiteLine:
        return _BoundedLine(self.name, site, connection, lambda: self.left_s)

    def line_with(self, modules: Sequence[str]) -> SiteLine:
        """The same line for a site that loads only these modules."""
        site = msgspec.structs.replace(self.site, modules=tuple(modules))
        return self._bounded(site, self.line.connection)

    @property
    def line(self) -> SiteLine:
        """The site as commands. Checks that use it need a login."""
        if self._line is None:
            raise problem("ssh.lost", f"There is no connection to {self.site.title or self.name}.", where=self.name)
        return self._line

    def sh(self, script: str, *arguments: str) -> Output:
        """Run a script for ``/bin/sh`` there, as ``SiteLine.run`` does commands."""
        return self.line.run(("sh", "-c", script, "sh", *arguments))

    def close(self) -> None:
        """Hang up."""
        if self._line is not None:
            self._line.close()


def last_line(output: Output, limit: int = 300) -> str:
    """What a command said last, for a sentence; empty when it said nothing."""
    lines = [line.strip() for line in output.said.splitlines() if line.strip()]
    return lines[-1][:limit].rstrip(".") if lines else ""


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names for a sentence, the first ones of many."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
