"""Runs on a node, in the doctor's job, with the Python of the site: reports what the node has.

The answer is a file of JSON in the job's folder, written twice: at once, with a port that waits for one connection, and
again when TensorFlow was imported meanwhile. Written for Python 3.7 and later, with the standard library alone.
"""
# ruff: noqa: I002, PTH104, PTH123

import contextlib
import json
import os
import platform
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

WAIT_S = 20.0
"""Seconds for all routes to be tried one after the other."""
STILL_S = 120.0
"""Seconds in which nothing of TensorFlow's import moves before it is given up: the first one on a node reads a gigabyte
from a network disk, which takes as long as it takes."""
LOOK_S = 10.0
TRY = """import tensorflow as tf
print("clew", tf.__version__, len(tf.config.list_physical_devices("GPU")))"""


def listen(first: int, last: int) -> "socket.socket | None":
    """A listening socket on the first free port of the range; with 0 the system chooses."""
    for port in range(first, last + 1):
        sock = socket.socket()
        try:
            sock.bind(("", port))
            sock.listen(1)
            return sock
        except OSError:
            sock.close()
    return None


def write(answer: "dict[str, object]") -> None:
    """Leave the answer where the login node sees it, whole or not at all."""
    with open("answer.new", "w", encoding="utf-8") as file:
        json.dump(answer, file)
    os.rename("answer.new", "answer.json")


def temporary() -> str:
    """Says why the folder for temporary files cannot be used, with its name; empty if it can."""
    named = [os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)]
    folder = next((name for name in named if os.path.isdir(name)), "/tmp")  # noqa: PTH112, S108
    path = os.path.join(folder, ".clew-doctor-%d" % os.getpid())  # noqa: PTH118, UP031
    try:
        with open(path, "wb") as file:
            file.write(bytes(65536))
    except OSError as error:
        return "%s: %s" % (folder, error.strerror)  # noqa: UP031
    finally:
        with contextlib.suppress(OSError):
            os.remove(path)  # noqa: PTH107
    return ""


def cards() -> "list[str]":
    """Returns the GPUs that nvidia-smi lists."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "-L"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [line for line in done.stdout.decode("utf-8", "replace").splitlines() if line.startswith("GPU ")]


def activity(pid: int) -> int:
    """A number that changes while the process computes or reads; 0 where the system has no such files."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as file:  # noqa: UP031
            fields = file.read().rpartition(")")[2].split()
        return sum(int(fields[place]) for place in (7, 9, 11, 12))  # page faults and processor time
    except (OSError, ValueError, IndexError):
        return 0


def tensorflow(
    python: str = sys.executable, *options: str, moves: "Callable[[], None]" = lambda: None
) -> "dict[str, object]":
    """Returns TensorFlow's version and how many GPUs it sees, or why ``python`` cannot import it. ``moves`` is called
    now and then while its import does."""
    try:
        process = subprocess.Popen(
            [python, *options, "-c", TRY], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        return {"trouble": "it cannot be started: %s" % error.strerror}  # noqa: UP031
    before, since = 0, time.monotonic()
    while True:
        try:
            out, err = process.communicate(timeout=LOOK_S)
            break
        except subprocess.TimeoutExpired:
            now = activity(process.pid)
        if now != before:
            before, since = now, time.monotonic()
            moves()
        elif time.monotonic() - since >= STILL_S:
            process.kill()
            process.communicate()
            return {"trouble": "nothing of its import moved for %d s" % STILL_S}  # noqa: UP031
    for line in out.decode("utf-8", "replace").splitlines():
        words = line.split()
        if words[:1] == ["clew"]:
            return {"tensorflow": words[1], "devices": int(words[2])}
    said = err.decode("utf-8", "replace").strip().splitlines()
    return {"trouble": said[-1][:300] if said else "it ended without a message"}


def await_call(sock: "socket.socket") -> None:
    """Greets the first caller; if no route leads here, nobody calls."""
    sock.settimeout(WAIT_S)
    try:
        caller, _ = sock.accept()
        caller.sendall(b"clew\n")
        caller.close()
    except OSError:
        pass
    sock.close()


def main() -> None:
    """Answers, waits to be called and tries TensorFlow meanwhile, and answers again."""
    sock = listen(int(sys.argv[1]), int(sys.argv[2]))
    answer: dict[str, Any] = {
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "gpus": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
        "cards": cards(),
        "port": sock.getsockname()[1] if sock is not None else 0,
        "clock": time.time(),
        "temporary": temporary(),
    }
    write(answer)
    if sock is not None:
        threading.Thread(target=await_call, args=(sock,)).start()

    def moves() -> None:
        answer["moves"] = answer.get("moves", 0) + 1
        write(answer)

    answer.update(tensorflow(moves=moves))
    answer["whole"] = True
    write(answer)


if __name__ == "__main__":
    main()
