"""``clew-agent service KIND ADDRESS ALLOW_LIST``: one service with its door, a child of the agent.

It prints where it listens on standard output, and ends when its standard input is closed, so that it never outlives
the agent; in a job the keeper finds it, and what it started, by the environment.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
import zmq

from clew_agent.node.exit_codes import BAD_INPUT, FAILED
from clew_agent.services.programs import SOCKET, ServiceProgram, new_token, prepare, took_port
from clew_agent.services.streams import StreamDoor
from clew_agent.services.token_proxy import TokenCheck, TokenProxy
from clew_agent.wire.rendezvous import read_ports
from clew_shared.base import operating_system
from clew_shared.base.places import Places, find_places
from clew_shared.base.private_files import make_private
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.base.terminal import ascii_json
from clew_shared.wire.messages import Refused, Service

START_LIMIT_S = 300.0
"""Seconds that a service may take to start: on a busy machine or shared file system Jupyter and TensorBoard may read
their files for two minutes and more."""
_DOOR = "d"
_POLL_S = 0.05
_END_S = 5.0
"""Seconds that Jupyter or TensorBoard get to save and end before they are killed."""
_LONGEST_PARENT = operating_system.LONGEST_SOCKET_PATH - 61
"""The folder's name takes 11 bytes of a socket's path, with the stroke before it, and those of Jupyter's kernels
(``kernel-UUID-ipc-1``) 50."""


def main(argv: Sequence[str]) -> int:
    """Serve until standard input ends or a signal comes; the exit code is 0 then."""
    parser = argparse.ArgumentParser(prog="clew-agent service")
    parser.add_argument("kind")
    parser.add_argument("address")
    parser.add_argument("allow_list", type=Path)
    parser.add_argument("--ports", type=read_ports)
    words = parser.parse_args(argv)
    os.umask(0o077)
    places = find_places()
    folder = own_folder(places)
    try:
        token = new_token()
        try:
            program = prepare(words.kind, folder, token, places)
        except ProblemError as error:
            _report(Refused(problem=error.problems[0]))
            return BAD_INPUT
        way = partial(StreamDoor, words.allow_list, words.address, words.ports, folder / _DOOR)
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:  # others do not accept by our sockets
            return runner.run(_serve(words.kind, way, program, token, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def own_folder(places: Places) -> Path:
    """A new folder for one service's files, owner-only, on the node's own disk."""
    parents = (make_private(places.private), Path(tempfile.gettempdir()))
    short = (parent for parent in parents if len(os.fsencode(parent)) <= _LONGEST_PARENT)
    return Path(tempfile.mkdtemp(prefix="v-", dir=next(short, "/tmp")))  # noqa: S108  # mode 0700, and a new name


def _report(reply: Service | Refused) -> None:
    sys.stdout.write(ascii_json(msgspec.json.encode(reply)) + "\n")
    sys.stdout.flush()


async def _serve(kind: str, way: Callable[[], StreamDoor], program: ServiceProgram, token: str, folder: Path) -> int:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        with suppress(RuntimeError):  # the service has ended by itself
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=_read_end, args=(end,), name="standard input", daemon=True).start()
    child = operating_system.start_session(
        program.command,
        ends_with_parent=True,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno(),
        env={**os.environ, **program.environment},
    )
    front = TokenProxy(TokenCheck(token, program.strip), partial(_connect, folder / SOCKET))
    streams: StreamDoor | None = None
    try:
        with operating_system.stop_requests(lambda _: end()):
            if not await _is_up(child, folder / SOCKET, ended):
                if not ended.is_set():
                    _report(Refused(problem=_no_start(program, child.poll(), folder)))
                return FAILED
            await front.listen(folder / _DOOR)
            streams = way()
            streams.start()
            key, port = streams.public_key, streams.port
            _report(Service(kind=kind, port=port, public_key=key, token=token, page=program.page, name=program.name))
            while not ended.is_set() and child.poll() is None and streams.alive:
                with suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), 0.5)
            return 0 if ended.is_set() else FAILED
    except ProblemError as error:
        _report(Refused(problem=error.problems[0]))
        return FAILED
    except (OSError, zmq.ZMQError) as error:
        text = f"Cannot open a port for {program.name}: {error.strerror or error}."
        _report(Refused(problem=Problem("service.port", text)))
        return FAILED
    finally:
        if streams is not None:
            streams.close()
        await front.close()
        _end(child)


async def _connect(sock: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(sock=operating_system.connect_locally(sock))


def _read_end(end: Callable[[], None]) -> None:
    """Ends the service at the end of standard input. The agent never says anything: what can be read is the end."""
    channel = sys.stdin.fileno()
    while operating_system.wait_for_input(channel) and os.read(channel, 4096):
        pass
    end()


async def _is_up(child: subprocess.Popen[bytes], sock: Path, ended: asyncio.Event) -> bool:
    """Whether someone takes connections on ``sock`` before the time is up, the child ends, or nobody waits."""
    deadline = asyncio.get_running_loop().time() + START_LIMIT_S
    while asyncio.get_running_loop().time() < deadline and child.poll() is None and not ended.is_set():
        if took_port(sock.parent):
            return False
        try:
            operating_system.connect_locally(sock).close()
        except OSError:
            await asyncio.sleep(_POLL_S)
            continue
        return True
    return False


def _no_start(program: ServiceProgram, code: int | None, folder: Path) -> Problem:
    if took_port(folder):
        text = f"This {program.name} is too old: it can only listen on a port, which every user of the node can reach."
        hint = "Load a newer module, or upgrade jupyterlab there with pip."
        return Problem("service.old", f"{text} It was ended.", hint)
    how = f"ended with exit code {code}" if code is not None else f"did not listen within {START_LIMIT_S:g} s"
    return Problem("service.start", f"{program.name} {how}.", "Its last output is in the log of the agent's services.")


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ask it to end, then end its group; Jupyter ends its kernels itself."""
    with suppress(ProcessLookupError):
        child.terminate()
    with suppress(subprocess.TimeoutExpired):
        child.wait(_END_S)
    operating_system.kill_session(child)
    child.wait()
