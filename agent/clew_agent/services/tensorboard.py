"""``clew-agent tensorboard SOCKET RUNS EVENTS``: TensorBoard on a socket of its owner's, over event files beside
journals that still grow.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clew_agent.node.exit_codes import BAD_INPUT
from clew_shared.base import operating_system
from clew_shared.base.harmless import say
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


class EventFolder:
    """Event files of all runs below ``runs``, in ``out``: a folder for each, as an export names it."""

    def __init__(self, runs: Path, out: Path) -> None:
        self._runs = runs
        self._out = out
        self._followed: dict[str, RunEvents] = {}

    def update(self) -> None:
        """Take in what was added to any journal. What cannot be read or written now is tried again the next time."""
        try:
            names = [path.name for path in self._runs.iterdir() if _NAME.fullmatch(path.name)]
        except OSError:
            return
        for name in names:
            followed = self._followed.get(name)
            if followed is None:
                followed = self._followed[name] = RunEvents(self._runs / name, self._out / _title(self._runs / name))
            try:
                followed.update()
            except OSError:
                continue


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
        self._attempt = 0
        self._reader = FrameReader()
        self._offset = 0
        self._layouts: dict[int, PointsLayout] = {}

    def update(self) -> None:
        """Add what is new. Raises ``OSError``."""
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
                parts = [part for found in self._reader.feed(data) for part in self._written(found)]
                if parts and self._path is not None:
                    with self._path.open("ab") as events:
                        events.writelines(parts)

    def _written(self, found: object) -> Iterator[bytes]:
        """A record of the journal as records of the event file."""
        event = None if isinstance(found, Damage) else getattr(found, "event", None)
        match event:
            case Attempt():
                yield from self._begin(event)
            case Schema():
                self._layouts[event.id] = PointsLayout([metric for metric in event.metrics if metric.per_step])
            case Points() if event.schema in self._layouts:
                yield from self._points(event, self._layouts[event.schema])
            case Evaluation() if event.step >= 0:
                values = {name: np.array([value]) for name, value in event.values.items()}
                yield from _records(np.array([event.step]), values, np.array([event.time]))
            case Image() | Histogram() if fits(event):
                yield figure_record(event)

    def _begin(self, event: Attempt) -> Iterator[bytes]:
        if self._path is None:
            self._out.mkdir(parents=True, exist_ok=True)
            self._path = self._out / f"events.out.tfevents.{int(event.time):010d}.clew"
            yield first_record(event.time, self._folder.name)
        elif event.resumes:
            yield restart_record(event.time, max(0, event.start_step))

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
    for metric, column in values.items():
        yield from records(ExportRows(metric, steps, column, wall))


# --- Tensorboard server -----------------------------------------------------------------------------------------------
# Its own command can only listen on ports, where it lets everybody in. The journals are written out as event files by
# a thread, as they grow. TensorFlow is not imported for it.


_EVERY_S = 1.0
_BACKLOG = 128
_RELOAD_S = 5
"""Seconds between two looks of TensorBoard for what is new."""
_WITHOUT_TENSORFLOW = "tensorboard.compat.notf"
"""The name of a module: when there is one of this name, TensorBoard uses its own reader of event files."""


def main(argv: Sequence[str]) -> int:
    """Serve until a signal comes. The folder EVENTS is made, and is this program's own."""
    parser = argparse.ArgumentParser(prog="clew-agent tensorboard")
    parser.add_argument("socket", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("events", type=Path)
    words = parser.parse_args(argv)
    os.umask(0o077)
    words.events.mkdir(parents=True, exist_ok=True)
    folder = EventFolder(words.runs, words.events)
    folder.update()  # TensorBoard's first look finds what there is
    try:
        server = _server(words.socket, words.events)
    except ProblemError as error:
        say(str(error), sys.stderr)
        return BAD_INPUT
    threading.Thread(target=_follow, args=(folder,), name="journals", daemon=True).start()
    server.serve_forever()
    return 0


def _follow(folder: EventFolder) -> None:
    pause = threading.Event()
    while True:
        folder.update()
        pause.wait(_EVERY_S)


def _server(sock: Path, events: Path) -> Any:
    """TensorBoard's application in a server on ``sock``. Raises ``ProblemError`` when it is not installed."""
    sys.modules.setdefault(_WITHOUT_TENSORFLOW, ModuleType(_WITHOUT_TENSORFLOW))
    try:
        program, default = import_module("tensorboard.program"), import_module("tensorboard.default")
        serving = import_module("werkzeug.serving")
    except ImportError as error:
        raise problem("service.missing", f"TensorBoard cannot be imported: {error}.") from None
    made: list[Any] = []

    def on_socket(application: Any, _flags: Any) -> Any:
        with socket.socket() as closed:  # a server is made for a port, and nothing ever listens on this one
            closed.bind(("127.0.0.1", 0))
            server = serving.make_server("127.0.0.1", 0, application, threaded=True, fd=closed.fileno())
        server.socket.close()
        server.socket = operating_system.listen_locally(sock, _BACKLOG)
        made.append(server)
        return server

    board = program.TensorBoard(default.get_plugins(), server_class=on_socket)
    flags = ["--logdir", str(events), "--load_fast", "false", "--reload_interval", str(_RELOAD_S)]
    board.configure(argv=["tensorboard", *flags])
    board._make_server()
    return made[0]
