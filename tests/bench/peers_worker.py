"""``peers_worker.py chief N``: a chief that calls N simulated peers, and prints what that took as JSON.

``peers_worker.py peers FOLDER N``: all N of them in one process, which join, say that they are there, and hear blocks.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from subprocess import PIPE, Popen

import psutil
import zmq

from clew_agent.node import operating_system
from clew_agent.peers.hosts import JobHosts
from clew_agent.peers.messages import (
    BEAT_S,
    Beat,
    Block,
    Built,
    Join,
    Prepared,
    decode_from_chief,
    encode,
    read_address,
)
from clew_agent.peers.roll_call import Peers
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem
from clew_shared.journal.events import Event
from clew_shared.journal.run_folder import RunFolder
from clew_shared.wire.channel import ID_BYTES

_WATCHED_S = 5.0
_NUMBER = bytes(ID_BYTES)


def chief(count: int) -> None:
    """Call them, have them do blocks, watch them for a while."""
    with tempfile.TemporaryDirectory() as name:
        home, told = Path(name), list[Event]()
        folder = RunFolder(home / "run")
        folder.path.mkdir()
        me, places = psutil.Process(), Places(home=home, private=home / "private")
        before = me.memory_info().rss
        peers = Peers(folder, 1, count + 1, JobHosts(), places, told.append, _stuck)
        start = time.monotonic()
        peers.start()
        with Popen([sys.executable, "-P", __file__, "peers", str(folder.path), str(count)], stdout=PIPE) as others:
            assert others.stdout is not None
            began = float(others.stdout.readline())
            peers.gather()
            joined = time.monotonic() - max(start, began)
            delays = []
            for number in range(20):
                sent = time.monotonic()
                peers.lead(10 * number, 10, [0.5])
                delays.append(float(others.stdout.readline()) - sent)
            used, then = sum(me.cpu_times()[:2]), time.monotonic()
            time.sleep(_WATCHED_S)
            busy = (sum(me.cpu_times()[:2]) - used) / (time.monotonic() - then)
            memory = me.memory_info().rss - before
            peers.close()
            others.wait()
    found = {"joined_s": joined, "block_s": sorted(delays)[len(delays) // 2], "memory": memory, "cores": busy}
    print(json.dumps(found | {"told": len(told)}), flush=True)


def _stuck(problem: Problem) -> None:
    raise AssertionError(problem.text)


def simulate(folder: RunFolder, count: int) -> None:
    """All peers in one loop; prints when the last one has a block."""
    operating_system.raise_descriptor_limit()
    address = read_address(folder, 1)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    context.set(zmq.MAX_SOCKETS, count + 100)
    print(time.monotonic(), flush=True)
    poller, sockets = zmq.Poller(), []
    for index in range(1, count + 1):
        socket = context.socket(zmq.DEALER)
        socket.curve_publickey, socket.curve_secretkey = address.public_key.encode(), address.secret_key.encode()
        socket.curve_serverkey = address.chief_key.encode()
        socket.linger = 0
        socket.connect(f"tcp://{address.address}:{address.port}")
        socket.send_multipart([_NUMBER, encode(Join(index=index, host="here", address="127.0.0.1", port=1, pid=1))])
        socket.send_multipart([_NUMBER, encode(Prepared())])
        socket.send_multipart([_NUMBER, encode(Built())])
        poller.register(socket, zmq.POLLIN)
        sockets.append(socket)
    left, beaten = count, time.monotonic()
    heard = 0
    while left:
        for socket, _ in poller.poll(200):
            message = decode_from_chief(socket.recv_multipart()[1])
            heard += isinstance(message, Block)
            left -= type(message).__name__ == "Leave"
            if heard == count:
                print(time.monotonic(), flush=True)
                heard = 0
        if time.monotonic() - beaten > BEAT_S:
            beaten = time.monotonic()
            for socket in sockets:
                socket.send_multipart([_NUMBER, encode(Beat())])


if __name__ == "__main__":
    if sys.argv[1] == "chief":
        chief(int(sys.argv[2]))
    else:
        simulate(RunFolder(Path(sys.argv[2])), int(sys.argv[3]))
