"""Checks this computer: what the window and the runs that train here need, and what to do where something lacks."""

from __future__ import annotations

import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from clew_gui.doctor import node_there
from clew_gui.doctor.examination import CheckResult, Examination, fine, listed, note, refused, wrong
from clew_gui.doctor.home import LEAST_BYTES
from clew_gui.targets.local_agent import agent_program, find_agent
from clew_shared import __version__
from clew_shared.base import operating_system
from clew_shared.base.file_lock import LockFile
from clew_shared.base.installation import CUDA, how_to_install
from clew_shared.base.number_words import counted, in_bytes
from clew_shared.base.places import Places
from clew_shared.base.private_files import make_private, write_private
from clew_shared.base.problem import check_qt, no_tensorflow

_BITS = 64
_LIMIT_S = 60.0
"""Bound on a command: loading Qt, of which a cold disk reads a hundred megabytes."""
_WINDOW = "import clew_gui.app, PySide6; print(PySide6.__version__)"
"""As ``clew start`` does: each module of Qt has libraries of the system that it needs."""
SLOW_S = 30.0
"""An import of TensorFlow takes 3 to 10 s from a disk of this computer."""
_USES = {
    "sklearn": ("scikit-learn", "the built-in digits"),
    "PIL": ("Pillow", "folders of images"),
    "optuna": ("Optuna", "sweeps with a sampler"),
}
"""The module, the package and what needs it, of what runs can do without."""
_ASK = "import importlib.util as u, sys; print(*(name for name in sys.argv[1:] if u.find_spec(name) is None))"


class ThisComputer(Examination):
    """The examination of this computer. ``trainer``: the Python that trains, once it is known."""

    def __init__(self, name: str, places: Places, stop: threading.Event) -> None:
        super().__init__(name, places, stop)
        self.trainer = ""
        self.gpus = 0


def python(_: ThisComputer) -> CheckResult:
    """The Python that runs Clew."""
    text = f"{sys.executable} is Python {platform.python_version()} on {platform.system()}, {platform.machine()}."
    if struct.calcsize("P") * 8 < _BITS:
        return wrong(
            f"{text} It is a 32-bit program.", "Install a 64-bit Python: TensorFlow has no other.", "here.python"
        )
    return fine(text)


def window(_: ThisComputer) -> CheckResult:
    """Whether the window's libraries can be loaded; the commands work without."""
    if (found := check_qt()) is not None:
        return note(found.text, found.hint)
    pyside, trouble = _run([sys.executable, "-P", "-c", _WINDOW])
    if trouble:
        hint = "Install what it names; on Linux these are packages such as libgl1, libegl1 and libgssapi-krb5-2."
        return note(f"The window cannot be loaded: {trouble}.", hint)
    return fine(f"PySide6 {pyside.strip()} and pyqtgraph {metadata.version('pyqtgraph')} can be loaded.")


def _run(command: list[str]) -> tuple[str, str]:
    """What a command has printed; and if it failed, the last line of its errors."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return "", f"it had not ended after {_LIMIT_S:.0f} s"
    except OSError as error:
        return "", f"it cannot be started: {error.strerror}"
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    trouble = lines[-1].rstrip(".")[:300] if lines else f"exit code {done.returncode}"
    return done.stdout.decode("utf-8", "replace"), trouble if done.returncode else ""


def home(examined: ThisComputer) -> CheckResult:
    """Whether runs can be kept, found out by writing there."""
    folder = examined.places.home
    hint = "Make room, or let CLEW_HOME name another folder."
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(1 << 16))
        free = shutil.disk_usage(folder).free
    except OSError as error:
        text = f"Nothing can be written in {folder}, where runs are kept: {error.strerror or error}."
        return wrong(text, hint, "here.home")
    text = f"{in_bytes(free)} are free where runs are kept ({folder})."
    return fine(text) if free >= LEAST_BYTES else note(text, hint)


def private(examined: ThisComputer) -> CheckResult:
    """Whether keys and locks have a folder that is nobody else's. Raises ``ProblemError`` if it is somebody else's."""
    folder = examined.places.private
    try:
        make_private(folder)
        write_private(folder / "doctor", b"")
        operating_system.remove_file(folder / "doctor")
    except OSError as error:
        text = f"Nothing can be written in {folder}, where keys and locks are kept: {error.strerror or error}."
        return wrong(text, "Make room there, or set XDG_RUNTIME_DIR to a folder of your own.", "private.write")
    lock = LockFile(folder / "doctor-lock")
    lock.acquire()
    lock.release()
    return fine(f"Keys and locks are in a folder of your own ({folder}).")


def tensorflow(examined: ThisComputer) -> CheckResult:
    """Whether the Python that trains can import TensorFlow. Raises ``ProblemError`` if none is known that has it."""
    program, isolated, *_ = agent_program(examined.places)
    started = time.monotonic()
    answer: dict[str, Any] = node_there.tensorflow(program, isolated)
    took = time.monotonic() - started
    if "trouble" in answer:
        return refused(no_tensorflow(platform.node(), answer["trouble"], on_node=False, python=program))
    examined.trainer, examined.gpus = program, answer["devices"]
    named = "" if Path(program) == Path(sys.executable) else f" by {program}"
    text = f"TensorFlow {answer['tensorflow']} was imported{named} in {took:.0f} s."
    if took > SLOW_S:
        slow = "A virus scanner that reads each file, or a network disk, makes it slow."
        return note(text, f"{slow} Exclude Python's folder from scans.")
    return fine(text)


def packages(examined: ThisComputer) -> CheckResult:
    """What runs can do without, but some exercises cannot."""
    said, trouble = _run([examined.trainer, "-P", "-c", _ASK, *_USES])
    if trouble:
        return note(f"Cannot find out which packages are installed: {trouble}.", "Check that Python.")
    lacking = said.split()
    if not lacking:
        return fine(f"{listed([package for package, _ in _USES.values()])} are installed.")
    uses = [_USES[name] for name in lacking]
    text = f"Not installed: {listed([f'{package} ({use})' for package, use in uses])}."
    return note(text, f"{how_to_install(*(package.lower() for package, _ in uses), python=examined.trainer)}.")


def devices(examined: ThisComputer) -> CheckResult:
    """The processor and the GPUs, and whether TensorFlow uses them."""
    cards = [card.partition(" (UUID")[0] for card in node_there.cards()]
    text = f"{counted(operating_system.usable_cores(), 'core')}; {listed(cards) if cards else 'no NVIDIA GPU'}."
    if not cards:
        return fine(text)
    if examined.gpus < len(cards):
        hint = {
            "win32": "TensorFlow uses no GPU on Windows: install Clew in WSL2, or train on a cluster.",
            "linux": f"Install TensorFlow with CUDA. {how_to_install(*CUDA, python=examined.trainer)}.",
        }.get(operating_system.NAME, "")
        return note(f"{text} TensorFlow sees {examined.gpus or 'none'} of them.", hint)
    return fine(f"{text} TensorFlow sees {examined.gpus}.")


def agent(examined: ThisComputer) -> CheckResult:
    """The program that trains runs for the window, if it runs now."""
    found = find_agent(examined.places)
    if found is None:
        return fine("No agent runs now. The first run starts one.")
    text = f"The agent of this computer runs (process {found.pid}, Clew {found.version or 'of an unknown version'})."
    if found.version and found.version != __version__:
        hint = f"This is Clew {__version__}. The other one trains until nobody has used it for half an hour."
        return note(text, hint)
    return fine(text)


def ssh(_: ThisComputer) -> CheckResult:
    """Who logs in, and who reads the SSH configuration."""
    reader = shutil.which("ssh") or "paramiko too, because there is no ssh program"
    return fine(f"Clew's own SSH (paramiko) reaches sites. The SSH configuration is read by {reader}.")
