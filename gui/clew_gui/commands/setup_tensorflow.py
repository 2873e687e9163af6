"""``clew setup-tensorflow``: gives this computer's agent an environment with TensorFlow, or removes it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

from clew_gui.base.settings import local_settings
from clew_gui.commands.context import INTERRUPTED, OK, CommandContext, Parser
from clew_gui.targets.local_agent import has_tensorflow
from clew_gui.targets.local_environment import (
    DISK_BYTES,
    DOWNLOAD_BYTES,
    Cancelled,
    Progress,
    environment_folder,
    find_environment,
    make_environment,
    remove_environment,
)
from clew_shared.base import operating_system
from clew_shared.base.number_words import in_bytes

_ABOUT = (
    "Make an environment of Python with TensorFlow, in Clew's own folder, for runs on this computer. Runs on sites do "
    f"not need it. About {in_bytes(DOWNLOAD_BYTES)} are downloaded, and {in_bytes(DISK_BYTES)} are used on the disk. "
    "Ctrl+C stops it, and nothing is left."
)
_STEP = 10
"""Percent between two lines of progress."""


def setup_tensorflow(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew setup-tensorflow [--remove] [--json]``."""
    parser = Parser("clew setup-tensorflow", _ABOUT)
    parser.add_argument("--remove", action="store_true", help="remove the environment")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each step")
    options = parser.parse_args(list(argv))
    if options.remove:
        removed = remove_environment(context.places)
        context.say("The environment is removed." if removed else "There is no environment of Clew's own.")
        return OK
    if there := _there(context):
        context.say(there)
        return OK
    return _make(context, _JsonLines(context) if options.json else _Lines(context))


def _there(context: CommandContext) -> str:
    """Says what trains here already; empty if nothing does."""
    chosen = local_settings(context.places).load().interpreter
    if chosen:
        return f"Runs train with {chosen}, as the settings say."
    if has_tensorflow():
        return f"{sys.executable} has TensorFlow already."
    found = find_environment(context.places)
    return f"There is one already, with TensorFlow {found.tensorflow} ({found.python})." if found is not None else ""


def _make(context: CommandContext, lines: _Lines) -> int:
    stop = threading.Event()
    with operating_system.stop_requests(lambda _: stop.set()):
        lines.begin()
        try:
            made = make_environment(context.places, lines.show, stop)
        except Cancelled:
            context.note("clew setup-tensorflow: stopped, and nothing is left.")
            return INTERRUPTED
    lines.end(f"TensorFlow {made.tensorflow} is ready: runs on this computer train with {made.python}.")
    return OK


class _Lines:
    """Progress for people: a line for each step, and one for each tenth of the download."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._shown = ("", -1)

    def begin(self) -> None:
        """Says what will be done, and how large it is."""
        size = f"about {in_bytes(DOWNLOAD_BYTES)} to download, {in_bytes(DISK_BYTES)} on the disk"
        self._context.say(f"Installing TensorFlow in {environment_folder(self._context.places)}: {size}.")

    def show(self, progress: Progress) -> None:
        """Shows what is being done, unless the last line said it."""
        part = 100 * progress.done // progress.total // _STEP * _STEP
        text, before = self._shown
        if progress.text == text and part == before:
            return
        if part != before or not progress.text.startswith("Downloading"):
            self._context.say(f"{part:3d} %  {progress.text}")
        self._shown = (progress.text, part)

    def end(self, sentence: str) -> None:
        """Says what is there now."""
        self._context.say(sentence)


class _JsonLines(_Lines):
    """Progress for a window."""

    def begin(self) -> None:
        """Says nothing: the window has said it."""

    def show(self, progress: Progress) -> None:
        """A line for each change."""
        self._context.say_json(progress)
        self._context.out.flush()

    def end(self, sentence: str) -> None:
        """Says what is there now, as the last step."""
        self.show(Progress(sentence, DOWNLOAD_BYTES))
