"""A training script of any framework as a run: it works in a child process, and what it logs becomes the journal.

The script's end is ``scripts/clew_log.py``, which appends to a file that is read on here. What it prints goes where the
trainer prints. To end it, its next ``log`` call says so; if that does not help, it gets SIGTERM, and then it is killed.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from clew_agent.catalogue.exercise_files import SCRIPT_LOG
from clew_agent.catalogue.script_card import Script, table_of
from clew_agent.node.child_output import read_end, tail
from clew_agent.peers.messages import folder_of
from clew_agent.peers.processes import StartedProcess, clear, note_processes, script_log_file
from clew_agent.trainer.loop import SCHEMA, stopped
from clew_agent.trainer.recorder import Recorder
from clew_agent.trainer.time_limit import TimeIsUp
from clew_shared.base import operating_system
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.base.process_identity import began
from clew_shared.cards import MetricSpec
from clew_shared.journal.events import Diverged, Evaluation, Event, Log, Points, Schema, State
from clew_shared.journal.files import MAX_JOURNAL
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.params import Value
from clew_shared.wire.messages import Stop

_FLUSH_S = 0.1
"""Seconds for which steps are gathered into one frame."""
_ASK_S = 30.0
"""Seconds that a script that was asked to end gets for its step and its clean-up."""
_TIME_UP_S = 5.0
"""Seconds that it gets when the job is nearly over."""
_TERM_S = 3.0
"""Seconds after SIGTERM until the script is killed."""
_CHUNK = 1 << 16
_LONGEST = 1 << 16
"""Bytes of one message: some thousand metrics."""
_ROW_BYTES = 120
"""Bytes that a frame takes beside its values; of a script that logs seldom each step is one."""
_ROWS = 4096
"""Steps in one frame at most."""
_TRACEBACK = re.compile(r"(?m)^(?:  \+ Exception Group )?Traceback \(most recent call last\):$")
_ERROR = re.compile(r"(?m)^(?: +\| )?(?!(?:Exception Group )?Traceback )([^\s+].*)$")
"""A line of a traceback that is neither a call nor the frame of a group."""
_REASON = 300
"""Characters of an exception that are shown."""
_FIRST_OF_GROUP, _SECOND_OF_GROUP = re.compile(r"(?m)^ +\+-\+-+ 1 -+$"), re.compile(r"(?m)^ +\+-+ 2 -+$")


class ScriptLog:
    """Turns a script's messages into events. No clock, no process: ``feed`` and ``flush`` get the seconds since its
    start. ``planned`` is the number of steps that the script is asked for; 0 if it is not known.

    A value that cannot be recorded is left out, and a warning says so once for each metric. ``exception`` is the one
    that ended the script, as Python prints it: empty without one, None while nobody has said that it would be reported.
    """

    def __init__(self, metrics: Sequence[MetricSpec], planned: int = 0) -> None:
        self.exception: str | None = None
        self.counts_from = 0
        """The number that the script gives to its first step, as far as its numbers say; it may be any."""
        self._planned = planned
        self._process: object = None
        """The process that logged first."""
        self._known = {metric.name: metric for metric in metrics}
        self._stepped = [metric for metric in metrics if metric.per_step]
        self._buffer = b""
        self._row: dict[str, float] = {}
        self._step = -1
        """The step of ``_row``; -1 before the first."""
        self._rows: list[tuple[int, list[float]]] = []
        self._done = -1
        """The last step in ``_rows`` or in an event."""
        self._clock = 0.0
        self._warned: set[tuple[str, str]] = set()
        self._diverged: set[str] = set()
        self._measured: dict[str, float] = {}
        self._evaluations: list[tuple[int, dict[str, float], float]] = []
        """Step, values and clock of what was measured and is not in an event yet."""
        self._bytes = 0

    @property
    def steps(self) -> int:
        """Returns how many steps were done, by what was logged."""
        return max(0, self._place(max(self._step, self._done)) - max(0, self.counts_from - 1))

    def feed(self, data: bytes, clock: float) -> Iterator[Event]:
        """The events of more bytes of the script. Raises ``ProblemError`` for a message or a log without an end."""
        self._buffer += data
        self._count(len(data))
        *lines, self._buffer = self._buffer.split(b"\n")
        if max(map(len, (*lines, self._buffer))) > _LONGEST:
            text = f"The script logged a message of more than {_LONGEST // 1024} KiB at step {self.steps}."
            raise problem("script.message", text, "Log a few numbers in each call, not whole arrays.")
        for line in lines:
            yield from self._message(line, clock)
            if len(self._rows) + len(self._evaluations) >= _ROWS:
                yield from self._complete(clock)

    def flush(self, clock: float, last: bool = False) -> Iterator[Event]:
        """Yields what is complete; at the ``last`` call everything."""
        if last or (self._row and len(self._row) == len(self._stepped)):
            yield from self._end_row()
        if last:
            self._end_measuring(clock)
        yield from self._complete(clock)

    def _message(self, line: bytes, clock: float) -> Iterator[Event]:
        try:
            message = json.loads(line)
            if isinstance(message.get("exception"), str):
                self.exception = message["exception"]
                return
            step, values = message["step"], dict(message["metrics"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            yield from self._warn("", "message", "The script sent something that is not a clew_log message.")
            return
        if not isinstance(step, int) or not 0 <= step < 2**53:
            yield from self._warn("", "step", f"Step {step} is left out: steps are whole numbers from 0 on.")
            return
        if self._step < 0:
            self._process = message.get("process")
            self._begin(step)
        if message.get("process") != self._process:
            text = "Another process of the script logs as well and is left out: the first one that logs is recorded."
            yield from self._warn("", "process", text)
            return
        if step > self._step:
            yield from self._end_row()
            self._end_measuring(clock)
            self._step = step
        elif step < self._step:
            text = f"Step {step} came after step {self._step} and is left out: steps must rise."
            yield from self._warn("", "order", text)
            return
        for name, raw in values.items():
            yield from self._value(name, raw)

    def _begin(self, first: int) -> None:
        """Conclude from the first step that is logged how the script counts: from 0, from 1, or on from a number that
        is larger than all planned steps. Any other number may as well be the first one of many that is logged."""
        self.counts_from = first if first == 1 or 0 < self._planned < first else 0
        self._done = self.counts_from - 1

    def _place(self, step: int) -> int:
        """The number of steps after ``step``, by the script's own count. One that counts from 0 may log the beginning
        as well, and has one more number than steps."""
        return step if self.counts_from or 0 < self._planned == step else step + 1

    def _value(self, name: str, raw: object) -> Iterator[Event]:
        spec = self._known.get(name)
        if spec is None:
            text = f"The script logs {name!r}, which its header does not name: add {table_of(name)} there."
            yield from self._warn(name, "unknown", text)
        elif isinstance(raw, bool) or not isinstance(raw, int | float):
            text = f"{spec.label} at step {self._step} is {raw!r}, not a number, and is left out."
            yield from self._warn(name, "number", text)
        elif spec.per_step and self._step <= self._done:
            text = f"{spec.label} was logged again at step {self._step}; the first value counts."
            yield from self._warn(name, "again", text)
        else:
            target = self._row if spec.per_step else self._measured
            target[name] = value = _as_float(raw)
            if raw != value and isinstance(raw, int):
                kept = "infinite" if math.isinf(value) else f"kept as {value:.0f}"
                digits = str(raw) if len(str(raw)) < 40 else f"a number of {len(str(raw))} digits"
                text = f"{spec.label} at step {self._step} is {digits}, which does not fit into 64 bits, and is {kept}."
                yield from self._warn(name, "digits", text)
            if not math.isfinite(value) and name not in self._diverged:
                self._diverged.add(name)
                word: Literal["NaN", "inf", "-inf"] = "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"
                yield Diverged(metric=name, step=self._step if spec.per_step else self._place(self._step), value=word)

    def _end_row(self) -> Iterator[Event]:
        """Ends the row of this step, which is complete or will never be."""
        if not self._row:
            return
        for spec in self._stepped:
            if spec.name not in self._row:
                text = (
                    f"{spec.label} is missing at step {self._step}, so that step is left out: log it in each step, or"
                    f" put every_step = false into {table_of(spec.name)}."
                )
                yield from self._warn(spec.name, "missing", text)
        if len(self._row) == len(self._stepped):
            self._rows.append((self._step, [self._row[spec.name] for spec in self._stepped]))
        self._row = {}

    def _end_measuring(self, clock: float) -> None:
        """Closes the measurements after this step: they are complete."""
        if self._measured:
            self._evaluations.append((self._place(self._step), self._measured, clock))
            self._measured = {}

    def _complete(self, clock: float) -> Iterator[Event]:
        yield from self._points(clock)
        for step, values, measured in self._evaluations:
            self._count(_ROW_BYTES + sum(len(name) + 10 for name in values))
            yield Evaluation(step=step, values=values, clock=measured)
        self._evaluations = []

    def _points(self, clock: float) -> Iterator[Event]:
        """The rows as frames of steps without a gap. Their time is shared by all steps since the last one."""
        if not self._rows:
            return
        before, began = self._done, self._clock
        each = (clock - began) / (self._rows[-1][0] - before)
        for stretch in _stretches(self._rows):
            first, count = stretch[0][0], len(stretch)
            columns = zip(*(values for _, values in stretch), strict=True)
            self._count(_ROW_BYTES + 8 * count * len(self._stepped))
            yield Points(
                schema=SCHEMA,
                first=first,
                count=count,
                seconds=each * count,
                clock=began + each * (first + count - 1 - before),
                values=tuple(np.asarray(column, "<f8").tobytes() for column in columns),
            )
        self._done, self._clock, self._rows = self._rows[-1][0], clock, []

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > MAX_JOURNAL:
            text = f"The script has logged more than {MAX_JOURNAL / 2**30:.0f} GiB by step {self.steps}."
            raise problem("script.size", text, "Log every tenth step, or fewer metrics.")

    def _warn(self, name: str, kind: str, text: str) -> Iterator[Event]:
        if (name, kind) not in self._warned and len(self._warned) < 100:
            self._warned.add((name, kind))
            yield Log(text=text, level="warning", step=max(0, self._step))


def _as_float(number: float) -> float:
    """A number as a float: a whole number that is too large for one is infinite."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _stretches(rows: Sequence[tuple[int, list[float]]]) -> Iterator[Sequence[tuple[int, list[float]]]]:
    """The rows cut where a step is missing."""
    start = 0
    for index in range(1, len(rows) + 1):
        if index == len(rows) or rows[index][0] != rows[index - 1][0] + 1:
            yield rows[start:index]
            start = index


class ScriptProcess:
    """The script at work. It appends its messages to a file in the run's folder, and ends soon when there is one of the
    same name with ``.stop``. Raises ``ProblemError`` when it cannot be started, ``OSError`` when the disk refuses."""

    def __init__(self, script: Script, folder: RunFolder, attempt: int, message: Mapping[str, Any]) -> None:
        self._folder, self._attempt = folder, attempt
        path = script_log_file(folder, attempt)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        clear(folder, attempt)
        path.touch()
        self._stop_file = Path(f"{path}.stop")
        self._messages = path.open("rb", buffering=0)
        python = str(Path(script.python).expanduser()) if script.python else sys.executable
        paths, way = [str(SCRIPT_LOG.parent)], {"CLEW_LOG": str(path), "CLEW_LOG_TOLD": json.dumps(message)}
        if script.path.with_name(SCRIPT_LOG.name).exists():  # it may be an older Clew's: ours comes first
            paths, way["PYTHONSAFEPATH"] = [*paths, str(script.path.parent)], "1"
        way["PYTHONPATH"] = os.pathsep.join(filter(None, (*paths, os.environ.get("PYTHONPATH"))))
        try:
            self._child = operating_system.start_session(
                [python, str(script.path)], stdin=subprocess.DEVNULL, cwd=script.path.parent, env={**os.environ, **way}
            )
        except OSError as error:
            self._remove()
            text = f"{python} cannot be started: {error.strerror or error}."
            raise problem("script.python", text, "Correct python in the script's header.", script.card.file) from None
        self._note()

    def _note(self) -> None:
        """Let the guard know what to end should this process die."""
        with suppress(OSError):
            found = StartedProcess(pid=self._child.pid, began=began(self._child.pid), local=True)
            note_processes(self._folder, self._attempt, [found])

    def receive(self) -> bytes:
        """Returns some of what the script has logged since; nothing when there is none."""
        return self._messages.read(_CHUNK)

    def _remove(self) -> None:
        self._messages.close()
        with suppress(OSError):
            clear(self._folder, self._attempt)
            folder_of(self._folder).rmdir()

    def exit_code(self) -> int | None:
        """Returns the exit code; None while the script works."""
        return self._child.poll()

    def ask(self) -> None:
        """Let its next ``log`` say that it should end."""
        with suppress(OSError):
            self._stop_file.touch()

    def terminate(self) -> None:
        """Sends SIGTERM."""
        self._child.terminate()

    def kill(self) -> None:
        """End it and what it has started, by force."""
        operating_system.kill_session(self._child)

    def close(self) -> None:
        """Leave nothing of it: no process, no file, no note for the guard."""
        self.kill()
        self._child.wait()
        self._remove()


def run_script(
    script: Script,
    values: Mapping[str, Value],
    seed: int,
    folder: RunFolder,
    attempt: int,
    recorder: Recorder,
    asked: Callable[[int], Stop | None],
) -> State:
    """Run the script to its end, or until it is ``asked`` (with its step) to end; returns the run's last state.

    Raises ``ProblemError`` when it cannot be started, or the disk refuses.
    """
    files = folder.artifacts
    files.mkdir(exist_ok=True)
    message = {"params": dict(values), "seed": seed, "folder": str(files)}
    steps = values.get("steps")
    schema = Schema(id=SCHEMA, metrics=script.card.metrics, steps=steps if isinstance(steps, int) else 0)
    process = ScriptProcess(script, folder, attempt, message)
    try:
        return _Follower(process, schema, recorder, asked).run(script.path.name, folder.log)
    finally:
        process.close()
        with suppress(OSError):
            files.rmdir()  # when the script has written nothing


class _Follower:
    """Between a script and its journal, until it ends."""

    def __init__(
        self, process: ScriptProcess, schema: Schema, recorder: Recorder, asked: Callable[[int], Stop | None]
    ) -> None:
        self._process = process
        self._schema: Schema | None = schema
        """What the journal does not say yet; it waits until it is known how the script counts."""
        self._log = ScriptLog(schema.metrics, schema.steps)
        self._recorder = recorder
        self._asked = asked
        self._began = time.monotonic()
        self._stop: Stop | None = None
        self._limits: list[tuple[float, Callable[[], None]]] = []
        """The measures against a script that does not end, and their times."""

    def run(self, name: str, log: Path) -> State:
        """Follow it; the last state."""
        self._recorder.put(State(state=RunState.RUNNING))
        flushed = 0.0
        while True:
            ended = self._process.exit_code() is not None  # asked before reading: then nothing comes after
            data = self._process.receive()
            if not ended and not data:
                time.sleep(_FLUSH_S / 2)
            self._put(self._log.feed(data, self._clock))
            if ended and not data:
                break
            if self._clock - flushed > _FLUSH_S:
                flushed = self._clock
                self._put(self._log.flush(flushed))
            self._recorder.wait_for_disk(lambda: self._stop is not None)
            self._obey()
        self._put(self._log.flush(self._clock, last=True))
        self._put_schema()
        return self._last_state(name, log)

    @property
    def _clock(self) -> float:
        return time.monotonic() - self._began

    def _put(self, events: Iterator[Event]) -> None:
        for event in events:
            if not isinstance(event, Log):
                self._put_schema()
            self._recorder.put(event)

    def _put_schema(self) -> None:
        if self._schema is not None:
            self._recorder.put(msgspec.structs.replace(self._schema, counts_from=self._log.counts_from))
            self._schema = None

    def _obey(self) -> None:
        """Ask the script to end when somebody wants that, and insist."""
        command = self._asked(self._log.steps)
        if command is not None and self._stop is None:
            self._stop, now = command, self._clock
            self._process.ask()
            grace = 0.0 if command.now else _TIME_UP_S if isinstance(command, TimeIsUp) else _ASK_S
            self._limits = [(now + grace, self._process.terminate), (now + grace + _TERM_S, self._kill)]
        while self._limits and self._clock >= self._limits[0][0]:
            self._limits.pop(0)[1]()

    def _kill(self) -> None:
        self._recorder.put(Log(text="The script did not end when it was asked to, and was killed.", level="warning"))
        self._process.kill()

    def _last_state(self, name: str, log: Path) -> State:
        code, steps = self._process.exit_code() or 0, self._log.steps
        if self._stop is not None:
            last = stopped(self._stop, steps)
            no_more = isinstance(self._stop, TimeIsUp)  # else it would say that the run can go on
            return msgspec.structs.replace(last, reason="The job's time was up.") if no_more else last
        if code:
            raise ProblemError(failure(name, code, self._log.exception, log, steps))
        if not steps:
            text = (
                f"{name} logged nothing: call clew_log.log(step, loss=…) in each step, in the process that Clew has"
                " started or a copy of it; what a program logs that the script starts is only printed."
            )
            self._recorder.put(Log(text=text, level="warning"))
        return State(state=RunState.FINISHED, step=steps)


def failure(name: str, code: int, exception: str | None, log: Path, step: int) -> Problem:
    """Says why a script failed: by the ``exception`` that it reported, or printed before it could report any; otherwise
    what it printed last, which may be the reason."""
    signal = operating_system.signal_name(code)
    how = f"was ended by {signal}" if signal else f"ended with exit code {code}"
    if exception is None:
        *before, report = _TRACEBACK.split(read_end(log))
        exception = report if before else ""
    reason = _reason(exception)
    last = next((line.rstrip(".") for line in reversed(tail(log).splitlines()) if line[:1].strip()), "")
    said = f": {reason}." if reason else f". It last printed: {last}." if last else "."
    return Problem("script.failed", f"{name} {how} at step {step}{said}", "What it printed is in log.txt.", "log.txt")


def _reason(report: str) -> str:
    """The first line of an exception as Python prints it, and that of the first exception in a group."""
    first = _SECOND_OF_GROUP.split(report, 1)[0]
    return "; first: ".join(filter(None, map(_first_line, _FIRST_OF_GROUP.split(first))))


def _first_line(report: str) -> str:
    lines = _ERROR.findall(report)
    colon = len(lines) > 1 and lines[0].rstrip().endswith(":")  # an exception's text may begin with the end of a line
    return " ".join(line.strip() for line in lines[: 1 + colon])[:_REASON].rstrip(".:")
