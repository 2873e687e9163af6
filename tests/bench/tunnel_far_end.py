"""What the tunnels of the benchmark lead to: sends, takes in or echoes as it is asked to. Python's own library only.

A request is a letter and a number in eight bytes: ``D``, so many bytes come; ``U``, so many are taken in and one comes
back; ``E``, so many times 100 bytes come back.
"""

from __future__ import annotations

import socket
import threading

PIECE = 100
_CHUNK = 1 << 18


def take(connection: socket.socket, count: int) -> bool:
    """Receive and drop so many bytes; false at the end of the connection."""
    room = memoryview(bytearray(_CHUNK))
    while count:
        got = connection.recv_into(room[: min(count, _CHUNK)])
        if not got:
            return False
        count -= got
    return True


def _serve(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        while len(request := connection.recv(9, socket.MSG_WAITALL)) == 9:
            kind, count = request[:1], int.from_bytes(request[1:], "big")
            if kind == b"D":
                block = memoryview(bytes(_CHUNK))
                for begin in range(0, count, _CHUNK):
                    connection.sendall(block[: min(_CHUNK, count - begin)])
            elif kind == b"U":
                if take(connection, count):
                    connection.sendall(b"k")
            else:
                for _ in range(count):
                    connection.sendall(connection.recv(PIECE, socket.MSG_WAITALL))


def main() -> None:
    """Serve until it is ended; the first line of standard output is the port."""
    with socket.create_server(("0.0.0.0", 0)) as listener:  # noqa: S104  # a node of the mini cluster
        print(listener.getsockname()[1], flush=True)
        while True:
            threading.Thread(target=_serve, args=(listener.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    main()
