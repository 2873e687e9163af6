"""``make gpu-check``: trains on this machine's GPUs in every way that differs there, and keeps the log in docs.

Without a GPU it says so and changes nothing. It trains a run through the agent (whose nursery starts it if the driver
allows that), one on a single GPU, one on all GPUs, one in 16 bits, a network cut into stages and one cut as the hybrid
with a part on each GPU, parameter servers whose workers share the GPUs, the input pipeline and the bandwidth, and a
study. Steps of two of them are traced. The exit status is 1 if one of them failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from clew_agent.node.devices import Devices, find_devices
from clew_gui.commands.context import standard_context
from clew_gui.commands.run.queue import connected_agent
from clew_shared import __version__
from clew_shared.base.places import find_places
from clew_shared.base.problem import ProblemError
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.wire.messages import Shutdown

LOG = Path(__file__).resolve().parents[1] / "docs" / "gpu-check.log"
_LIMIT_S = 600.0
"""The limit for one command: the first one loads CUDA's libraries from a cold disk."""
Call = Callable[[Sequence[str]], tuple[int, str]]
"""Runs a command; returns its exit status and everything that it printed."""


def main() -> int:
    """Returns the exit status."""
    try:
        return check(find_devices(1), LOG, call)
    finally:
        with (
            suppress(ProblemError),
            connected_agent(standard_context(find_places())) as ask,
        ):  # there is none without a GPU
            ask(Shutdown())


def check(devices: Devices, log: Path, call: Call) -> int:
    """Run all commands on these devices and write ``log``; returns the exit status."""
    if not devices.gpus:
        print("There is no GPU here that TensorFlow can use: nothing was tried or written.")
        return 0
    names = ", ".join(gpu.name for gpu in devices.gpus)
    parts = [f"Clew {__version__}, {time.strftime('%Y-%m-%d')}, {names}\n"]
    statuses = []
    for words in commands(sum(not gpu.slice for gpu in devices.gpus)):
        status, text = call(words)
        statuses.append(status)
        parts.append(f"$ clew {' '.join(words)}\n{text.rstrip()}\nexit status {status}\n")
        print(parts[-1], flush=True)
    log.write_text("\n".join(parts), encoding="utf-8")
    print(f"Written: {log}")
    return 1 if any(statuses) else 0


def commands(gpus: int) -> list[tuple[str, ...]]:
    """The commands to try with so many whole GPUs."""
    mirrored = next(one for one in find_card(load_builtin().exercises, "softmax").strategies if one.id == "mirrored")
    counts = [count for count in mirrored.devices if count <= max(gpus, 1)]
    softmax = ("run", "softmax", "--data", "digits", "--steps", "500")
    servers = ("run", "ps-lab", "--data", "digits", "--steps", "200")
    spread = ("--strategy", "mirrored", "--devices", str(counts[-1]))
    cut = ("run", "model-parallel", "--preset", "tiny", *(spread if counts[-1] > 1 else ()))
    return [
        (*softmax, "--queue"),
        (*softmax, "--trace", "20"),
        (*softmax, "--trace", "20", *spread),
        (*softmax, *spread, "--reduce", "float16", "--precision", "float16"),
        cut,
        (*cut, "--cut", "hybrid"),
        servers,
        (*servers, "--mode", "sync"),
        ("run", "pipeline", "--data", "digits", "--feeding", "prefetch"),
        ("run", "bandwidth", "--batch-size", "64"),
        ("scaling", "cnn", "--data", "digits", "--steps", "200", "--devices", ",".join(map(str, counts))),
    ]


def call(words: Sequence[str]) -> tuple[int, str]:
    """Run ``clew`` with these words; a command that takes too long counts as failed."""
    command = [sys.executable, "-P", "-m", "clew_gui", *words]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return 124, f"It had not ended after {_LIMIT_S:.0f} s."
    return done.returncode, done.stdout


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CLEW_HOME"] = folder
        sys.exit(main())
