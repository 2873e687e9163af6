"""A Python environment with TensorFlow for this computer's agent, in Clew's own folder: found, made and removed.

It is made by the Python that runs Clew, a copy of that where it is the one of the folder for Windows, or by uv, in the
versions with which Clew was tested. Nothing uses it before
TensorFlow has been imported there: a file that names what is in it is written at the very end.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.resources import files
from pathlib import Path

import msgspec
from packaging.requirements import Requirement

from clew_shared import __version__
from clew_shared.base import operating_system
from clew_shared.base.file_lock import LockFile
from clew_shared.base.foreign import read_json
from clew_shared.base.installation import shipped
from clew_shared.base.number_words import in_bytes
from clew_shared.base.places import Places
from clew_shared.base.private_files import make_private, write_private
from clew_shared.base.problem import ProblemError, problem

DOWNLOAD_BYTES = 450_000_000
"""Bytes that are downloaded, as measured on Linux."""
DISK_BYTES = 1_800_000_000
_LEAST_FREE = 3_000_000_000
"""Bytes that must be free: what is downloaded lies beside what is installed for a while."""
_AGENT = ("msgspec", "numpy", "packaging", "platformdirs", "psutil", "pyzmq", "setproctitle", "tomli-w")
"""Of what Clew requires the part that the agent needs."""
_EXTRAS = ({"extra": "cpu"}, {"extra": "sweep"})
_PACKAGES = ("clew_agent", "clew_shared")
_PROBE = "import json, tensorflow; print(json.dumps(tensorflow.__version__))"
_WHERE = "import sysconfig; print(sysconfig.get_path('purelib'))"
_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_FILE = re.compile(r"\s*(?:Downloading|Using cached) (?:\S*/)?([A-Za-z0-9_.]+)-\d")
_BROKEN = re.compile(r"connection broken by '(.+)': ")
_NOTHING_FOUND = ("Could not find a version", "have conflicting dependencies")
"""What pip says of a connection and of packages that it has not found."""
_LOOK_S = 0.1
_NO_VENV = (
    "Install uv (https://docs.astral.sh/uv), on Debian and Ubuntu the package python3-venv, or name a Python that has "
    "TensorFlow and Clew in the settings."
)


class Progress(msgspec.Struct, frozen=True):
    """What is being done, and how many bytes of how many have come so far (an estimate)."""

    text: str
    done: int = 0
    total: int = DOWNLOAD_BYTES


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a complete environment: its Python, its packages' folder, whose Clew it has, and which TensorFlow."""

    python: str
    packages: str
    clew: str
    tensorflow: str


class Cancelled(Exception):
    """Somebody asked to stop; nothing is left."""


Report = Callable[[Progress], None]
Maker = Callable[[Path, threading.Event], None]
"""Makes an environment with pip in a new folder; the event stops it."""


def environment_folder(places: Places) -> Path:
    """Returns the folder that holds it."""
    return places.home / "environment"


def _mark(places: Places) -> Path:
    return environment_folder(places) / "clew.json"


def find_environment(places: Places) -> Environment | None:
    """The environment, if there is a complete one. It gets the code of this Clew, if it has another version's."""
    found = read_json(_mark(places), Environment)
    if found is None or not Path(found.python).is_file():
        return None
    if found.clew != __version__:
        with suppress(OSError):  # the folder is read-only, for example: then with the code that it has
            _bring_clew(environment_folder(places), Path(found.packages))
            found = msgspec.structs.replace(found, clew=__version__)
            write_private(_mark(places), msgspec.json.encode(found))
    return found


def remove_environment(places: Places) -> bool:
    """Remove it; returns whether there was one. Raises ``ProblemError`` while another program makes it."""
    with _locked(places):
        there = environment_folder(places).exists()
        _clear(places)
    return there


def requirements() -> list[str]:
    """Returns what the agent, TensorFlow and sweeps require on this system, as Clew's own package says."""
    found = map(Requirement, importlib.metadata.requires("clew") or ())
    return [
        f"{one.name}{'[' + ','.join(sorted(one.extras)) + ']' if one.extras else ''}{one.specifier}"
        for one in found
        if (one.marker is None and one.name in _AGENT)
        or (one.marker is not None and not one.marker.evaluate() and any(map(one.marker.evaluate, _EXTRAS)))
    ]


# --- Making -----------------------------------------------------------------------------------------------------------


def make_environment(places: Places, report: Report, stop: threading.Event) -> Environment:
    """Make the environment; takes minutes. Raises ``ProblemError``, or ``Cancelled`` after ``stop``; either way nothing
    that was begun is left."""
    places.home.mkdir(parents=True, exist_ok=True)
    with _locked(places):
        _check_space(places)
        maker = _maker()
        _clear(places)
        try:
            return _make(places, maker, report, stop)
        except BaseException as error:
            report(Progress("Removing what was begun"))
            _clear(places)
            if isinstance(error, OSError):
                raise _failed([f"{error.strerror or error}"]) from error
            raise


def _make(places: Places, maker: Maker, report: Report, stop: threading.Event) -> Environment:
    folder = environment_folder(places)
    report(Progress("Making the environment"))
    maker(folder, stop)
    places_of_python = (folder / "bin" / "python", folder / "Scripts" / "python.exe", folder / "python.exe")
    python = next(path for path in places_of_python if path.is_file())
    _install(python, report, stop)
    for library in (folder / "Scripts").glob("*.dll"):  # where an environment has its Python, and a copied one has not
        if not (python.parent / library.name).exists():
            shutil.copy2(library, python.parent)
    packages = Path(_run([str(python), "-I", "-c", _WHERE], stop).strip())
    _bring_clew(folder, packages)
    report(Progress("Importing TensorFlow for the first time", DOWNLOAD_BYTES))
    version = json.loads(_run([str(python), "-P", "-c", _PROBE], stop).splitlines()[-1])
    found = Environment(python=str(python), packages=str(packages), clew=__version__, tensorflow=version)
    write_private(_mark(places), msgspec.json.encode(found))
    return found


def _maker() -> Maker:
    """Returns what makes an empty environment: of this Python, or by uv. An AppImage's Python goes with it."""

    able = all(importlib.util.find_spec(name) is not None for name in ("venv", "ensurepip"))
    if able and "APPIMAGE" not in os.environ:
        return partial(_run_maker, [sys.executable, "-m", "venv"])
    if _is_embedded() and importlib.util.find_spec("pip") is not None:
        return lambda folder, _stop: copy_python(Path(sys.executable).parent, folder)
    if uv := shutil.which("uv"):
        return partial(_run_maker, [uv, "venv", "--seed", "--python", "3.12"])
    text = f"{sys.executable} cannot make an environment of Python, and there is no uv."
    raise problem("setup.maker", text, _NO_VENV, sys.executable)


def _run_maker(words: Sequence[str], folder: Path, stop: threading.Event) -> None:
    _run([*words, str(folder)], stop)


def _is_embedded() -> bool:
    """Whether this Python is one for programs that bring it along, as in the folder for Windows: it has no ``venv``."""
    return any(Path(sys.executable).parent.glob("python*._pth"))


def copy_python(source: Path, folder: Path) -> None:
    """Copy an embedded Python with no packages but pip, and without the file that keeps it from more. Raises
    ``OSError``."""

    def left_out(place: str, names: list[str]) -> list[str]:
        if Path(place).name == "site-packages":
            return [name for name in names if name.partition("-")[0] != "pip"]
        return [name for name in names if name.endswith("._pth")]

    shutil.copytree(source, folder, ignore=left_out)


def _install(python: Path, report: Report, stop: threading.Event) -> None:
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    with suppress(ProblemError):  # without internet: an older one only says less of its progress
        _run([*pip, "install", "--quiet", "pip>=25.1"], stop)
    follows = _run([*pip, "install", "--help"], stop)
    shown = ["--progress-bar", "raw" if "raw" in follows.partition("--progress-bar")[2][:200] else "off"]
    tested = shipped("clew_gui.targets", "constraints.txt", "packaging")
    words = [*pip, "install", *shown, "--constraint", str(tested), *requirements()]
    counted = _Counted(report)
    _run(words, stop, counted.hear)


class _Counted:
    """Hears pip's lines and reports bytes over all files."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._before = self._done = self._size = 0
        self._text = "Looking for packages"

    def hear(self, line: str) -> None:
        """Takes one line of pip's output."""
        if found := _PROGRESS.match(line):
            self._done, self._size = int(found[1]), int(found[2])
        elif found := _FILE.match(line):
            self._before += self._size
            self._done = self._size = 0
            self._text = f"Downloading {found[1].replace('_', '-')}"
        elif line.startswith("Installing collected packages"):
            self._before, self._done, self._size = DOWNLOAD_BYTES, 0, 0
            self._text = "Installing"
        done = self._before + self._done
        self._report(Progress(self._text, done, max(done, DOWNLOAD_BYTES)))


def _run(words: Sequence[str], stop: threading.Event, hear: Callable[[str], None] = lambda _: None) -> str:
    """The output of a program, each line as it comes. Raises ``ProblemError`` when it fails, ``Cancelled`` on stop."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    lines: list[str] = []
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment | {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"},
        **operating_system.own_session(),
    ) as process:
        over = threading.Event()
        watcher = threading.Thread(target=_end_on, args=(stop, over, process), name="setup stop")
        watcher.start()
        try:
            for line in process.stdout or ():
                text = line.decode("utf-8", "replace").rstrip()
                if text:
                    hear(text)
                    lines = [*lines[-200:], text]
            code = process.wait()
        finally:
            over.set()
            watcher.join()
    if stop.is_set():
        raise Cancelled
    if code:
        raise _failed(lines)
    return "\n".join(lines)


def _end_on(stop: threading.Event, over: threading.Event, process: subprocess.Popen[bytes]) -> None:
    while not over.wait(_LOOK_S):
        if stop.is_set():
            operating_system.kill_session(process)
            return


def _failed(lines: Sequence[str]) -> ProblemError:
    broken = [found[1] for line in lines if (found := _BROKEN.search(line))]
    # Without an index pip finds no version at all, which it then calls a conflict.
    if broken and any(words in line for line in lines for words in _NOTHING_FOUND):
        reason = broken[-1].rpartition(": ")[2].partition(" (")[0].strip("\"'(). ")
        text = f"The package index, from which TensorFlow comes, cannot be reached: {reason}."
        return problem("setup.index", text, "Check the internet connection and the proxy, then try again.")
    said = [line for line in lines if "ERROR" in line or "rror:" in line] or list(lines) or ["it gave no reason"]
    text = f"The environment could not be made: {said[0].removeprefix('ERROR: ')[:300].strip('. ')}."
    return problem("setup.failed", text, "Check the internet connection and the room on the disk, then try again.")


def _bring_clew(folder: Path, packages: Path) -> None:
    """Copy the agent's code as this very program runs it, and let the environment's Python find it."""
    target = folder / f"clew-{__version__}"
    for name in _PACKAGES:
        source = Path(str(files(name)))
        shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    (packages / "clew.pth").write_text(f"{target}\n", encoding="utf-8", newline="\n")


def _check_space(places: Places) -> None:
    free = shutil.disk_usage(places.home).free
    if free < _LEAST_FREE:
        text = f"{in_bytes(free)} are free in {places.home}; TensorFlow needs {in_bytes(_LEAST_FREE)} to be installed."
        raise problem("setup.space", text, "Make room, or let CLEW_HOME name another folder.", str(places.home))


def _clear(places: Places) -> None:
    """Remove what is there; what makes it count first, so that an interrupted removal leaves nothing that is used."""
    operating_system.remove_file(_mark(places))
    shutil.rmtree(environment_folder(places), ignore_errors=True)


@contextmanager
def _locked(places: Places) -> Iterator[None]:
    name = hashlib.sha256(str(places.home.absolute()).encode()).hexdigest()[:16]
    lock = LockFile(make_private(places.private) / f"environment-{name}.lock")
    if not lock.acquire():
        text = "Another program of Clew's is making the environment with TensorFlow."
        raise problem("setup.busy", text, "Wait until it is ready, or stop it there.")
    try:
        yield
    finally:
        lock.release()
