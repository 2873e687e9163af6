"""TensorBoard on this computer: event files that follow the journals of all runs, and its own server over them, for
those who know a token.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs

import numpy as np
from numpy.typing import NDArray

from clew_shared.base.installation import how_to_install
from clew_shared.base.problem import ProblemError, problem
from clew_shared.exporters.rows import ExportRows
from clew_shared.exporters.tensorboard import figure_record, first_record, records, restart_record
from clew_shared.journal.curves import Floats, PointsLayout
from clew_shared.journal.events import Attempt, Evaluation, Histogram, Image, Points, Schema
from clew_shared.journal.files import Damage, FrameReader, attempts, journal_path
from clew_shared.journal.history import fits
from clew_shared.journal.run_folder import RunFolder
from clew_shared.spec import read_spec

_CHUNK = 1 << 20
_ALL_BITS = 17
_NAME = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MOST_RUNS = 500
"""Runs that are followed, the latest ones: event files are several times as large as journals."""
_LAST_STEP, _NO_TIME = 1 << 53, 1e11
"""Steps and seconds since 1970 beyond which a journal is not believed."""
_RELOAD_S = 5
"""Seconds between two looks of TensorBoard for what is new."""
_WITHOUT_TENSORFLOW = "tensorboard.compat.notf"
"""The name of a module: when there is one of this name, TensorBoard uses its own reader of event files."""


class EventFolder:
    """Event files of the latest runs below ``folders`` that are ``wanted``, in ``out``: a folder for each, as an export
    names it. Of a run that is in several the first is followed."""

    def __init__(self, folders: Sequence[Path], out: Path, wanted: Callable[[str], bool] = lambda _run: True) -> None:
        self._folders = folders
        self._out = out
        self._wanted = wanted
        self._followed: dict[str, RunEvents] = {}

    def update(self, stops: Callable[[], object] = lambda: False) -> None:
        """Take in what was added to any journal, unless it ``stops``. What cannot be read or written now is tried again
        the next time."""
        for path in self._latest():
            if stops():
                return
            if path.name not in self._followed:
                self._followed[path.name] = RunEvents(path, self._out / _title(path))
            with suppress(OSError):
                self._followed[path.name].update()

    def _latest(self) -> list[Path]:
        found: dict[str, tuple[float, Path]] = {}
        for folder in self._folders:
            with suppress(OSError):
                for entry in os.scandir(folder):
                    if _NAME.fullmatch(entry.name) and self._wanted(entry.name):
                        found.setdefault(entry.name, (entry.stat().st_mtime, Path(entry)))
        return [path for _, path in sorted(found.values(), reverse=True)[:MOST_RUNS]]


def _title(folder: Path) -> str:
    """Returns the run's title, safe as a name: ``softmax-5f2b8c1e``."""
    try:
        exercise = read_spec(RunFolder(folder).spec).exercise
    except ProblemError:
        exercise = "run"
    return re.sub(r"[^A-Za-z0-9._-]", "_", f"{exercise}-{folder.name[:8]}").lstrip(".") or "run"


class RunEvents:
    """The event file of a run, and its journals as far as they were read."""

    def __init__(self, folder: Path, out: Path) -> None:
        self._folder = folder
        self._out = out
        self._path: Path | None = None
        self._size = 0
        self._waiting: list[bytes] = []
        self._attempt = 0
        self._reader = FrameReader()
        self._offset = 0
        self._layouts: dict[int, PointsLayout] = {}

    def update(self) -> None:
        """Add what is new. Raises ``OSError``, with what could not be written kept for the next time."""
        self._write()
        for attempt in attempts(self._folder):
            if attempt < self._attempt:
                continue
            if attempt > self._attempt:
                self._attempt, self._reader, self._offset, self._layouts = attempt, FrameReader(), 0, {}
            self._read()

    def _read(self) -> None:
        with journal_path(self._folder, self._attempt).open("rb") as file:
            file.seek(self._offset)
            while data := file.read(_CHUNK):
                self._offset += len(data)
                self._waiting += [part for found in self._reader.feed(data) for part in self._written(found)]
                self._write()

    def _write(self) -> None:
        if self._waiting and self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            _append(self._path, self._size, self._waiting)
            self._size += sum(map(len, self._waiting))
            self._waiting = []

    def _written(self, found: object) -> Iterator[bytes]:
        """A record of the journal as records of the event file."""
        event = None if isinstance(found, Damage) else getattr(found, "event", None)
        match event:
            case Attempt():
                yield from self._begin(event)
            case Schema():
                self._layouts[event.id] = PointsLayout([metric for metric in event.metrics if metric.per_step])
            case Points() if event.schema in self._layouts and 0 <= event.first <= _LAST_STEP - event.count:
                yield from self._points(event, self._layouts[event.schema])
            case Evaluation() if 0 <= event.step <= _LAST_STEP:
                values = {name: np.array([value]) for name, value in event.values.items()}
                yield from _records(np.array([event.step]), values, np.array([event.time]))
            case Image() | Histogram() if fits(event) and event.step <= _LAST_STEP:
                yield figure_record(event)

    def _begin(self, event: Attempt) -> Iterator[bytes]:
        begun = event.time if 0 <= event.time < _NO_TIME else 0.0
        if self._path is None:
            self._path = self._out / f"events.out.tfevents.{int(begun):010d}.clew"
            yield first_record(begun, self._folder.name)
        elif event.resumes:
            yield restart_record(begun, min(max(0, event.start_step), _LAST_STEP))

    def _points(self, event: Points, layout: PointsLayout) -> Iterator[bytes]:
        values = layout.values(event)
        if not values:
            return
        steps = np.arange(event.first, event.first + event.count)
        kept = slice(None)
        if (beyond := int(steps[-1]).bit_length() - _ALL_BITS) > 0:
            stride = 1 << beyond
            kept = slice(-event.first % stride, None, stride)
        wall = layout.clock(event, event.time)
        yield from _records(steps[kept], {name: column[kept] for name, column in values.items()}, wall[kept])


def _records(steps: NDArray[np.int64], values: Mapping[str, Floats], wall: NDArray[np.float64]) -> Iterator[bytes]:
    known = np.where((wall >= 0) & (wall < _NO_TIME), wall, 0.0)
    for metric, column in values.items():
        yield from records(ExportRows(metric, steps, column, known))


def _append(path: Path, size: int, records: Sequence[bytes]) -> None:
    """Adds to a file of ``size`` bytes; whatever lies behind them was cut short. Raises ``OSError``."""
    with path.open("ab") as file:
        file.truncate(size)
        file.writelines(records)


# --- Its server -------------------------------------------------------------------------------------------------------


def check_installed() -> None:
    """Raises ``ProblemError`` if there is no TensorBoard in this Python."""
    if find_spec("tensorboard") is None:
        text = f"TensorBoard is not installed for the Python of this window ({sys.executable})."
        raise problem("tensorboard.missing", text, how_to_install("tensorboard"))


def serve_events(events: Path) -> str:
    """Shows the event files below ``events`` from now on, by threads that end with this program; returns the address
    with its token. Any user of this computer can connect to its port. Raises ``ProblemError``."""
    check_installed()
    sys.modules.setdefault(_WITHOUT_TENSORFLOW, ModuleType(_WITHOUT_TENSORFLOW))
    program, default = import_module("tensorboard.program"), import_module("tensorboard.default")
    token = secrets.token_urlsafe(32)
    board = program.TensorBoard(default.get_plugins(), server_class=lambda pages, _: _Server(_guarded(pages, token)))
    flags = ["--load_fast", "false", "--reload_interval", str(_RELOAD_S)]
    board.configure(argv=["tensorboard", "--logdir", str(events), *flags])
    try:
        return f"{board.launch()}?token={token}"
    except (OSError, SystemExit) as error:  # where no port is free werkzeug would end the program
        why = getattr(error, "strerror", None) or "none is free"
        raise problem("tensorboard.port", f"TensorBoard cannot open a port on this computer: {why}.") from None


Pages = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""A web application (PEP 3333)."""


class _Server:
    """Serves pages on a port of the loopback that the system chooses. TensorBoard's own server asks for ``localhost``,
    a name that not every computer knows. Raises ``OSError``."""

    def __init__(self, pages: Pages) -> None:
        serving = import_module("werkzeug.serving")
        quiet = type("Quiet", (serving.WSGIRequestHandler,), {"log": lambda *_: None})
        self._server = serving.make_server("127.0.0.1", 0, pages, threaded=True, request_handler=quiet)

    def serve_forever(self) -> None:
        """See ``TensorBoardServer``."""
        self._server.serve_forever()

    def get_url(self) -> str:
        """See ``TensorBoardServer``."""
        return f"http://127.0.0.1:{self._server.server_port}/"


def _guarded(pages: Pages, token: str) -> Pages:
    """The same pages for those alone who bring the token, and then its cookie. The cookie's name is another one for
    each token: browsers keep the cookies of all ports of a host together."""
    name, value = (hashlib.sha256(f"clew {what} {token}".encode()).hexdigest() for what in ("name", "cookie"))
    cookie = f"clew-{name[:12]}={value}"

    def answer(request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        given = [part.strip() for part in request.get("HTTP_COOKIE", "").split(";")]
        if _is_among(cookie, given):
            return pages(request, start)
        if _is_among(token, parse_qs(request.get("QUERY_STRING", "")).get("token", [])):
            start("303 See Other", [("Location", "/"), ("Set-Cookie", f"{cookie}; Path=/; HttpOnly; SameSite=Lax")])
            return []
        start("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"This page opens with its token only. Open it from the window of Clew, or with: clew open tensorboard"]

    return answer


def _is_among(secret: str, given: Iterable[str]) -> bool:
    return any(hmac.compare_digest(one.encode("utf-8", "replace"), secret.encode()) for one in given)
