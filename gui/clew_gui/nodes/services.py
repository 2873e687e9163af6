"""Jupyter of a job's agent, as an address of this computer: asked for, tunnelled, and kept in use.

The agent starts it and sends the token through the encrypted channel; the browser's way there is the agent's own, and
as encrypted.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
import time
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import urlencode

import msgspec
import zmq

from clew_gui.nodes.service_end import ServiceEnd
from clew_gui.ssh.tunnel import Tunnel
from clew_shared.base.harmless import for_html
from clew_shared.base.private_files import make_private
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.wire.channel import Channel, Greeting, KeyPair
from clew_shared.wire.messages import AgentAddress, OpenService, Refused, Service

KIND = "jupyter"
ANSWER_S = 330.0
"""The agent gives the program five minutes to start; that it has gone is seen before."""
_AGAIN_S = 10.0
"""The seconds until the agent is asked again: an idle one stays, and a program that ended restarts."""
_LATER_S = 15.0
"""The seconds that an answer may take of an agent that has the program already."""
_LOOK_S = 0.2
_PAUSE_S = 1.0
_JOIN_S = 5.0
_SHUT = (Greeting.REFUSED, Greeting.WRONG, Greeting.GONE)


class Node(Protocol):
    """The interface that is needed from an ``AgentRoute``."""

    def find(self) -> AgentAddress | None:
        """The agent, behind a tunnel."""

    def authorize(self, name: str, public_key: str) -> bool:
        """Let a further key in; whether it is let in by now."""

    def while_absent(self) -> str:
        """Says why there is no agent."""

    def tunnel(self, port: int) -> Tunnel:
        """A tunnel to another port."""


class ServiceNews(msgspec.Struct, frozen=True):
    """The state of a service: ``url`` is where it can be used, with its token; empty while it cannot. ``text`` is for
    people and holds no secret. ``over``: nothing more comes, for ``problem`` or because the job has ended."""

    text: str
    url: str = ""
    over: bool = False
    problem: Problem | None = None


class OpenedService:
    """Jupyter of one job, held open by a thread until ``close``. ``report`` is called from that thread with each
    piece of news; ``is_over`` says whether the job has ended."""

    def __init__(self, node: Node, is_over: Callable[[], bool], report: Callable[[ServiceNews], None]) -> None:
        self._node = node
        self._is_over = is_over
        self._report = report
        self._news = ServiceNews("")
        self._service: Service | None = None
        self._tunnel: Tunnel | None = None
        self._end: ServiceEnd | None = None
        self._keys = KeyPair.generate()
        self._name = f"open-{secrets.token_hex(4)}"
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"open {KIND}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the address here; the program goes on as long as its agent."""
        self._closed.set()
        self._thread.join(_JOIN_S)

    # --- The thread ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while not self._closed.is_set() and not self._news.over:
                try:
                    self._serve()
                except _Refusal as error:
                    self._publish(ServiceNews(error.problems[0].text, over=True, problem=error.problems[0]))
                except ProblemError as error:
                    self._failed(error.problems[0])
                except (OSError, zmq.ZMQError) as error:  # too many open files
                    if self._end is None:
                        self._leave()
                    text = f"Cannot reach {KIND} from this computer: {error.strerror or error}."
                    self._failed(Problem("service.way", text, "Clew tries again.", KIND))
        finally:
            self._leave()

    def _serve(self) -> None:
        """Find the agent, and ask it as long as it answers."""
        address = self._found()
        if address is None:
            return
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            channel = Channel(context, address.address, address.port, address.public_key, self._keys)
            while not self._closed.is_set():
                self._take(self._ask(channel, address))
                self._closed.wait(_AGAIN_S)
        finally:
            context.destroy(linger=0)

    def _found(self) -> AgentAddress | None:
        while not self._closed.is_set():
            if self._is_over():
                self._publish(ServiceNews("The allocation has ended.", over=True))
                return None
            address = self._node.find()
            if address is not None and self._node.authorize(self._name, self._keys.public):
                return address
            self._publish(ServiceNews(self._node.while_absent()))
            self._closed.wait(_LOOK_S)
        return None

    def _ask(self, channel: Channel, address: AgentAddress) -> Service:
        request = channel.send(OpenService(kind=KIND))
        end = time.monotonic() + (ANSWER_S if self._service is None else _LATER_S)
        if self._service is None:
            self._publish(ServiceNews(f"{KIND} starts on {address.host}."))
        while time.monotonic() < end and not self._closed.is_set() and not self._is_over():
            for found, reply in channel.receive():
                if found != request:
                    continue
                if isinstance(reply, Service):
                    return reply
                if isinstance(reply, Refused):
                    raise _Refusal(reply.problem)
            if channel.greeting in _SHUT:
                break
            self._closed.wait(_LOOK_S)
        text = f"The agent on {address.host} does not answer."
        raise problem("service.silent", text, "Clew is looking for it again.", KIND)

    def _take(self, service: Service) -> None:
        if service != self._service or self._end is None:
            self._leave()
            self._service, self._tunnel = service, self._node.tunnel(service.port)
            self._end = ServiceEnd(self._tunnel.port, service.public_key, self._keys)
        url = f"http://127.0.0.1:{self._end.port}{service.page}?{urlencode({'token': service.token})}"
        self._publish(ServiceNews(f"{service.name or service.kind} is open.", url))

    def _failed(self, found: Problem) -> None:
        """Reports the problem and waits; then the route to the agent is looked for again. The address here stays: it
        may lead to the same service then."""
        self._publish(ServiceNews(found.text))
        self._closed.wait(_PAUSE_S)

    def _leave(self) -> None:
        end, tunnel = self._end, self._tunnel
        self._end = self._tunnel = self._service = None
        if end is not None:
            end.close()
        if tunnel is not None:
            tunnel.close()

    def _publish(self, news: ServiceNews) -> None:
        if news != self._news and not self._closed.is_set():
            self._news = news
            self._report(news)


class _Refusal(ProblemError):
    """The agent said no."""


# --- The browser ------------------------------------------------------------------------------------------------------


class RedirectPage:
    """A page that leads a browser to an address which nobody else may see: the browser gets the page's name as its
    argument, and arguments can be seen by all users of a computer. It is gone after ``close``."""

    def __init__(self, url: str, private: Path) -> None:
        handle, name = tempfile.mkstemp(prefix="open-", suffix=".html", dir=make_private(private))  # mode 0600
        self.path = Path(name)
        target = for_html(url)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(
                '<!doctype html><meta charset="utf-8"><title>Clew</title><meta name="referrer" content="no-referrer">'
                f'<meta http-equiv="refresh" content="0;url={target}"><a href="{target}">Continue</a>\n'
            )

    def close(self) -> None:
        """Remove it."""
        with suppress(OSError):
            self.path.unlink()


def show_in_browser(url: str, private: Path, browse: Callable[[str], bool] | None = None) -> RedirectPage | None:
    """Open ``url`` in the user's browser, through a page that is to be closed later; None when there is no browser."""
    page = RedirectPage(url, private)
    try:
        if (browse or webbrowser.open)(page.path.as_uri()):
            return page
    except (OSError, webbrowser.Error):
        pass
    page.close()
    return None
