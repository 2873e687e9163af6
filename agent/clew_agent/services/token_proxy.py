"""The proxy before a service: answers only those who know the token.

The program (Jupyter, TensorBoard) listens on a socket in an owner-only folder, so that this is the only way
to it. So does the proxy itself: ``services.streams`` leads to it. Each request of a connection is looked at by itself,
until it becomes a WebSocket.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from clew_shared.base import operating_system

MAX_HEAD = 32 * 1024
HEAD_WITHIN_S = 10.0
"""Seconds within which a connection must have sent a whole request, or it is closed."""
NEXT_WITHIN_S = 120.0
"""Seconds that a connection that was let in is kept for its next request."""
MOST_CONNECTIONS = 256
"""A browser opens a dozen; what does not know the token must not use up the files of the process."""
_CHUNK = 65536
_BACKLOG = 64
"""A browser opens some dozen connections at once."""
_PAGE = """<!doctype html><title>Clew</title><p>This page belongs to someone's Clew session and opens with its token
only. Open it from the window, or with <code>clew open</code>.
"""

Open = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Connects to the program that the proxy protects; raises ``OSError``."""


class Answer(Enum):
    """The ways to treat a request."""

    PASS = "pass"  # noqa: S105  # the word, not one
    WELCOME = "welcome"
    """The request brought the token: it gets a cookie, and comes again."""
    REFUSE = "refuse"


class AccessVerdict(NamedTuple):
    """``target`` is where a welcomed browser is sent. ``body`` bytes of the request follow its head; None: all that
    comes, because it does not say or becomes a WebSocket."""

    answer: Answer
    target: str = ""
    body: int | None = 0


class TokenCheck:
    """Looks for one token in requests. ``strip``: the token is taken out of the address, because the program has no
    use for it."""

    def __init__(self, token: str, strip: bool) -> None:
        self._token = token.encode()
        self._strip = strip
        self.cookie = hashlib.sha256(b"clew cookie " + self._token).hexdigest()
        self.cookie_name = f"clew-{hashlib.sha256(b'clew name ' + self._token).hexdigest()[:12]}"
        """The cookie's name, another one for each token: browsers keep the cookies of all ports of a host together."""

    def look(self, head: bytes) -> AccessVerdict:
        """Judges the request that begins with ``head`` (up to and with its empty line)."""
        try:
            return self._look(head)
        except ValueError:  # an address that is none
            return AccessVerdict(Answer.REFUSE)

    def _look(self, head: bytes) -> AccessVerdict:
        lines = head.decode("latin-1").split("\r\n")[:-2]
        words = lines[0].split(" ") if lines else []
        if len(words) != 3 or not words[1].startswith("/") or any(":" not in line for line in lines[1:]):
            return AccessVerdict(Answer.REFUSE)
        headers = [(name.strip().lower(), value.strip()) for name, _, value in (ln.partition(":") for ln in lines[1:])]
        body = _body(headers)
        if body == _UNCLEAR:
            return AccessVerdict(Answer.REFUSE)
        if self._has_cookie(headers):
            return AccessVerdict(Answer.PASS, body=body)
        if not self._has_token(words[1], headers):
            return AccessVerdict(Answer.REFUSE)
        wants_page = words[0] == "GET" and any(name == "accept" and "text/html" in value for name, value in headers)
        if wants_page:
            return AccessVerdict(Answer.WELCOME, target=_without_token(words[1]) if self._strip else words[1])
        return AccessVerdict(Answer.PASS, body=body)

    def _has_cookie(self, headers: list[tuple[str, str]]) -> bool:
        wanted = f"{self.cookie_name}={self.cookie}".encode()
        given = (part.strip() for name, value in headers if name == "cookie" for part in value.split(";"))
        return any(hmac.compare_digest(one.encode("latin-1"), wanted) for one in given)

    def _has_token(self, target: str, headers: list[tuple[str, str]]) -> bool:
        given = [value for name, value in parse_qsl(urlsplit(target).query) if name == "token"]
        for name, value in headers:
            scheme, _, rest = value.partition(" ")
            if name == "authorization" and scheme.lower() in ("token", "bearer"):
                given.append(rest.strip())
        return any(hmac.compare_digest(one.encode(), self._token) for one in given)

    def welcome(self, target: str) -> bytes:
        """The answer that hands out the cookie and sends the browser to ``target``."""
        cookie = f"{self.cookie_name}={self.cookie}; Path=/; HttpOnly; SameSite=Lax"
        return _response("303 See Other", b"", f"Location: {target}", f"Set-Cookie: {cookie}")


_UNCLEAR = -1


def _body(headers: list[tuple[str, str]]) -> int | None:
    """Returns how many bytes follow the head, as in ``AccessVerdict``; ``_UNCLEAR`` where two readers could
    disagree."""
    lengths = {value for name, value in headers if name == "content-length"}
    if any(name in ("transfer-encoding", "upgrade") for name, _ in headers):
        return None if not lengths else _UNCLEAR
    if not lengths:
        return 0
    text = lengths.pop()
    return int(text) if not lengths and re.fullmatch(r"[0-9]{1,18}", text) else _UNCLEAR


def _without_token(target: str) -> str:
    """The address without the token; its path begins with one slash, or it would name another host."""
    parts = urlsplit(target)
    query = urlencode([pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != "token"])
    return urlunsplit(("", "", "/" + parts.path.lstrip("/"), query, ""))


def _response(status: str, body: bytes, *headers: str) -> bytes:
    common = (f"Content-Length: {len(body)}", "Cache-Control: no-store", "Connection: close")
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, *common, "", ""]).encode("latin-1") + body


REFUSAL = _response("403 Forbidden", _PAGE.encode(), "Content-Type: text/html; charset=utf-8")
ABSENT = _response("502 Bad Gateway", b"", "Retry-After: 1")


class TokenProxy:
    """Listens on a socket of this computer. Belongs to one event loop."""

    def __init__(self, check: TokenCheck, open_program: Open) -> None:
        self._check = check
        self._open = open_program
        self._server: asyncio.AbstractServer | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, path: Path) -> None:
        """Begin, on a socket at ``path``. Raises ``OSError``."""
        listener = operating_system.listen_locally(path, _BACKLOG)
        self._server = await asyncio.start_server(self._arrive, sock=listener, limit=MAX_HEAD, backlog=_BACKLOG)

    async def close(self) -> None:
        """Stop listening and end all connections."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _arrive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # asyncio made one for this connection
        if len(self._tasks) >= MOST_CONNECTIONS:
            writer.transport.abort()
            return
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_WITHIN_S)
        verdict = self._check.look(head)
        if verdict.answer is not Answer.PASS:
            welcome = verdict.answer is Answer.WELCOME
            writer.write(self._check.welcome(verdict.target) if welcome else REFUSAL)
            await writer.drain()
            return
        try:
            program_reader, program_writer = await self._open()
        except OSError:
            writer.write(ABSENT)
            await writer.drain()
            return
        upwards = asyncio.ensure_future(self._pass_up(head, verdict, reader, program_writer))
        try:
            await _copy(program_reader, writer)  # the end of the answers is the end of all
        finally:
            upwards.cancel()
            with suppress(asyncio.CancelledError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await upwards
            program_writer.close()

    async def _pass_up(
        self, head: bytes, verdict: AccessVerdict, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Passes on one request after the other, each only if it may; one that may not ends the connection."""
        try:
            while verdict.answer is Answer.PASS:
                writer.write(head)
                if verdict.body is None:
                    await _copy(reader, writer)
                    return
                await _copy(reader, writer, verdict.body)
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), NEXT_WITHIN_S)
                verdict = self._check.look(head)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            pass
        with suppress(OSError, RuntimeError):
            writer.write_eof()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int | None = None) -> None:
    """Copies ``count`` bytes, or all up to the end, which is passed on as well."""
    while count is None or count > 0:
        data = await reader.read(_CHUNK if count is None else min(_CHUNK, count))
        if not data:
            break
        writer.write(data)
        await writer.drain()
        count = None if count is None else count - len(data)
    if count is None:
        with suppress(OSError, RuntimeError):
            writer.write_eof()
