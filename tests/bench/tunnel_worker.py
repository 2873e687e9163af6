"""One contender of the benchmark of tunnels: ``tests.bench.tunnel_worker PORT MEGABYTES TRIPS``.

A client of ``tunnel_far_end`` behind a port of this computer, in a process of its own, since what comes through Clew's
tunnel is taken in by ZeroMQ's thread, which does not wait for Python's. One round for each line on standard input.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from itertools import pairwise
from statistics import median, quantiles

from tests.bench.tunnel_far_end import PIECE, take

_BOUND_S = 120.0
MEGABYTE = 1_000_000


def measure(port: int, megabytes: int, trips: int) -> dict[str, float]:
    """One round: milliseconds until a new connection's first answer, and of a round trip; MB/s both ways."""
    begin = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port), _BOUND_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _ask(connection, b"E", 1 + trips)
        times = [_trip(connection) for _ in range(1 + trips)]
        opened = times[0] - begin
        each = [later - earlier for earlier, later in pairwise(times)]
        begin = time.perf_counter()
        _ask(connection, b"D", megabytes * MEGABYTE)
        whole = take(connection, megabytes * MEGABYTE)
        middle = time.perf_counter()
        _ask(connection, b"U", megabytes * MEGABYTE)
        block = memoryview(bytes(MEGABYTE))
        for _ in range(megabytes):
            connection.sendall(block)
        whole = whole and take(connection, 1)
        end = time.perf_counter()
    if not whole:
        raise ConnectionError("the tunnel ended in the middle")
    return {
        "open": opened * 1000,
        "trip": median(each) * 1000,
        "slow trip": quantiles(each, n=100)[98] * 1000,
        "down": megabytes / (middle - begin),
        "up": megabytes / (end - middle),
    }


def _ask(connection: socket.socket, kind: bytes, count: int) -> None:
    connection.sendall(kind + count.to_bytes(8, "big"))


def _trip(connection: socket.socket) -> float:
    """The time at which 100 bytes are back."""
    connection.sendall(bytes(PIECE))
    if not take(connection, PIECE):
        raise ConnectionError("the tunnel ended in the middle")
    return time.perf_counter()


def main() -> None:
    """Answer each line on standard input, until it ends."""
    port, megabytes, trips = map(int, sys.argv[1:])
    for _ in sys.stdin:
        print(json.dumps(measure(port, megabytes, trips)), flush=True)


if __name__ == "__main__":
    main()
