"""The program that ``ssh`` starts to ask something: hands the question to Clew, prints the answer.

It is started by file name in an interpreter of its own and imports nothing of Clew's, so that it answers at once. Its
arguments are the family and the address of a socket, which only its owner can reach, and the question; the answer is in
no argument list and no environment.
"""

from __future__ import annotations

import json
import os
import socket
import sys

_ANSWER_WITHIN_S = 330.0


def main(arguments: list[str]) -> int:
    """Returns 0 and prints the answer on standard output, or returns 1 if there is none."""
    family, address, question = int(arguments[0]), arguments[1], " ".join(arguments[2:])
    with socket.socket(family) as sock:
        sock.settimeout(_ANSWER_WITHIN_S)
        try:
            sock.connect(address)
            hint = os.environ.get("SSH_ASKPASS_PROMPT", "")
            sock.sendall(json.dumps({"text": question, "hint": hint}).encode())
            sock.shutdown(socket.SHUT_WR)
            reply = b""
            while data := sock.recv(65536):
                reply += data
        except OSError:
            return 1
    if not reply.startswith(b"+"):
        return 1
    sys.stdout.buffer.write(reply[1:] + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
