"""``clew-agent service jupyter ADDRESS ALLOW_LIST``: Jupyter and the encrypted way to it, a child of the agent.

It prints where it listens on standard output, and ends when its standard input is closed, so that it never outlives
the agent; in a job the keeper finds it, and what it started, by the environment.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import msgspec
import zmq

from clew_agent.node.exit_codes import FAILED
from clew_agent.services.jupyter import SOCKET, ServiceProgram, new_token, prepare, took_port
from clew_agent.services.streams import StreamServer
from clew_agent.wire.rendezvous import read_ports
from clew_shared.base import operating_system
from clew_shared.base.places import Places, find_places
from clew_shared.base.private_files import make_private
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.base.terminal import ascii_json
from clew_shared.wire.messages import Refused, Service

START_LIMIT_S = 300.0
"""Seconds that a service may take to start: on a busy machine or shared file system Jupyter may read its files for
two minutes and more."""
_POLL_S = 0.05
_LOOK_S = 0.2
_END_S = 5.0
"""Seconds that Jupyter gets to save and end before it is killed."""
_LONGEST_PARENT = operating_system.LONGEST_SOCKET_PATH - 61
"""The folder's name takes 11 bytes of a socket's path, with the stroke before it, and those of Jupyter's kernels
(``kernel-UUID-ipc-1``) 50."""


def main(argv: Sequence[str]) -> int:
    """Serve until standard input ends or a signal comes; the exit code is 0 then."""
    parser = argparse.ArgumentParser(prog="clew-agent service")
    parser.add_argument("kind", choices=("jupyter",))
    parser.add_argument("address")
    parser.add_argument("allow_list", type=Path)
    parser.add_argument("--ports", type=read_ports)
    words = parser.parse_args(argv)
    os.umask(0o077)
    folder = own_folder(find_places())
    ended: list[bool] = []  # not an Event: its lock may be held where a signal comes
    threading.Thread(target=_read_end, args=(ended,), name="standard input", daemon=True).start()
    try:
        with operating_system.stop_requests(lambda _: ended.append(True)):
            return _serve(words, folder, ended)
    except ProblemError as error:
        if not ended:
            _report(Refused(problem=error.problems[0]))
        return FAILED
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


def _serve(words: argparse.Namespace, folder: Path, ended: Sequence[bool]) -> int:
    token = new_token()
    program = prepare(folder, token)
    child = operating_system.start_session(
        program.command,
        ends_with_parent=True,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno(),
        env={**os.environ, **program.environment},
    )
    try:
        if not _is_up(child, folder / SOCKET, ended):
            raise ProblemError(_no_start(program, child.poll(), folder))
        with closing(_listen(words, program, folder / SOCKET)) as streams:
            streams.start()
            key, port = streams.public_key, streams.port
            service = Service(kind=words.kind, port=port, public_key=key, token=token, page=program.page)
            _report(msgspec.structs.replace(service, name=program.name))
            while not ended:
                time.sleep(_LOOK_S)
                if child.poll() is not None or not streams.alive:
                    return FAILED
            return 0
    finally:
        _end(child)


def _listen(words: argparse.Namespace, program: ServiceProgram, sock: Path) -> StreamServer:
    try:
        return StreamServer(words.allow_list, words.address, words.ports, sock)
    except (OSError, zmq.ZMQError) as error:
        text = f"Cannot open a port for {program.name}: {error.strerror or error}."
        raise problem("service.port", text) from None


def _read_end(ended: list[bool]) -> None:
    """Ends the service at the end of standard input. The agent never says anything: what can be read is the end."""
    channel = sys.stdin.fileno()
    while operating_system.wait_for_input(channel) and os.read(channel, 4096):
        pass
    ended.append(True)


def _is_up(child: subprocess.Popen[bytes], sock: Path, ended: Sequence[bool]) -> bool:
    """Whether someone takes connections on ``sock`` before the time is up, the child ends, or nobody waits."""
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and child.poll() is None and not ended:
        if took_port(sock.parent):
            return False
        with suppress(OSError):
            operating_system.connect_locally(sock).close()
            return True
        time.sleep(_POLL_S)
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
