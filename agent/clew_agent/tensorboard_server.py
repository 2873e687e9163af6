"""``clew-agent tensorboard SOCKET RUNS EVENTS``: TensorBoard on a Unix socket, over the journals of all runs.

Its own command can only listen on ports, where it lets everybody in. The journals are written out as event files by a
thread, as they grow. TensorFlow is not imported for it.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from clew_agent.exits import BAD_INPUT
from clew_agent.live_events import EventFolder
from clew_shared.problem import ProblemError, problem

_EVERY_S = 1.0
_RELOAD_S = 5
"""How often TensorBoard looks for what is new."""
_WITHOUT_TENSORFLOW = "tensorboard.compat.notf"
"""When there is a module of this name, TensorBoard uses its own reader of event files."""


def main(argv: Sequence[str]) -> int:
    """Serve until a signal comes. The folder EVENTS is made, and is this program's own."""
    parser = argparse.ArgumentParser(prog="clew-agent tensorboard")
    parser.add_argument("socket")
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
        print(error, file=sys.stderr)
        return BAD_INPUT
    threading.Thread(target=_follow, args=(folder,), name="journals", daemon=True).start()
    server.serve_forever()
    return 0


def _follow(folder: EventFolder) -> None:
    pause = threading.Event()
    while True:
        folder.update()
        pause.wait(_EVERY_S)


def _server(sock: str, events: Path) -> Any:
    """TensorBoard's application in a server on ``sock``. Raises ``ProblemError`` when it is not installed."""
    sys.modules.setdefault(_WITHOUT_TENSORFLOW, ModuleType(_WITHOUT_TENSORFLOW))
    try:
        program, default = import_module("tensorboard.program"), import_module("tensorboard.default")
        serving = import_module("werkzeug.serving")
    except ImportError as error:
        raise problem("service.missing", f"TensorBoard cannot be imported: {error}.") from None
    made: list[Any] = []

    def on_socket(application: Any, _flags: Any) -> Any:
        made.append(serving.make_server(f"unix://{sock}", 0, application, threaded=True))
        return made[0]

    board = program.TensorBoard(default.get_plugins(), server_class=on_socket)
    flags = ["--logdir", str(events), "--load_fast", "false", "--reload_interval", str(_RELOAD_S)]
    board.configure(argv=["tensorboard", *flags])
    board._make_server()
    return made[0]
