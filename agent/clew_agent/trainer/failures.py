"""How an attempt ended that did not reach its last step, as a state with a reason."""

from __future__ import annotations

import re
import time

import msgspec

from clew_agent.catalogue.exercise_files import own_place
from clew_agent.node.exit_codes import FAILED
from clew_agent.trainer.control import JobEnds
from clew_agent.trainer.loop import stopped
from clew_shared.base import operating_system
from clew_shared.base.number_words import duration
from clew_shared.base.problem import Problem
from clew_shared.journal.events import State
from clew_shared.journal.lifecycle import RunState
from clew_shared.wire.messages import Stop

_JUMP_S = 30.0
"""Seconds: a clock that was set by less makes none of TensorFlow's time limits pass."""
_OUT_OF_MEMORY = ("ResourceExhaustedError", "MemoryError")
_GPU_IS_FULL = re.compile(r"CUDA_ERROR_OUT_OF_MEMORY|cudaSetDevice\(\).*out of memory")
_GPU_MAY_BE_FULL = re.compile(r"without (BLAS|DNN) support")
"""cuBLAS or cuDNN could not begin, mostly for want of memory. The reason is in an earlier line of the log."""
_UNREACHABLE = ("UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError", "InternalError")
"""The errors that TensorFlow raises in a step when another process of the run is gone."""
_STACK = re.compile(r"Graph execution error:|Detected at node .* defined at|\s*File \"|\s*$|\d+ root error\(s\) found")
"""The lines with which TensorFlow surrounds an error inside of a graph: where the node was made, line by line."""


def unreachable(error: BaseException) -> bool:
    """Whether TensorFlow says by ``error`` that another process is gone."""
    return type(error).__name__ in _UNREACHABLE


def failed(found: Problem, step: int, exit_code: int = FAILED) -> State:
    """The state of a run that a problem has ended after ``step`` updates."""
    return State(state=RunState.FAILED, reason=found.text, step=step, problem=found, exit_code=exit_code)


def stopped_early(command: Stop | None, step: int) -> State:
    """The state of a run that ``command`` has ended before it trained."""
    last = stopped(command, step)
    known = last.state is RunState.TIMED_OUT or isinstance(command, JobEnds)
    reason = last.reason if known else "Stopped before the first step."
    return msgspec.structs.replace(last, reason=reason)


class ClockWatch:
    """Measures how far the computer's clock was set since this was made: TensorFlow's processes time each other by
    it."""

    def __init__(self) -> None:
        self._difference = time.time() - time.monotonic()

    def jump(self) -> float:
        """Returns by how many seconds the clock was set; positive when it was set ahead."""
        return time.time() - time.monotonic() - self._difference


def crash(error: BaseException, step: int, clock_jump: float = 0.0) -> Problem:
    """Says what an unforeseen exception means for the run; the traceback is in its log. ``clock_jump``: by how many
    seconds the clock was set while a run of several processes trained."""
    name = type(error).__name__
    if unreachable(error) and abs(clock_jump) > _JUMP_S:
        way = "ahead" if clock_jump > 0 else "back"
        text = (
            f"The clock of {operating_system.host_name()} was set {way} by {duration(abs(clock_jump))} while the run"
            f" trained, so at step {step:,} TensorFlow took its other processes for dead ({name})."
        )
        return Problem("run.clock", text, "Continue the run from its last checkpoint.", operating_system.host_name())
    place = own_place(error)
    text = f"{name} at step {step:,}{f' in {place}' if place else ''}: {_cause(str(error))[:500].rstrip('.')}."
    full = _GPU_IS_FULL.search(str(error))
    if full or _GPU_MAY_BE_FULL.search(str(error)):
        sure = "The GPU has no memory left." if full else "Most likely the GPU has no memory left."
        hint = "Other programs may be using it, which nvidia-smi shows: wait for them, or choose a smaller batch size."
        return Problem("run.gpu_memory", f"{sure} {text}", hint, "log.txt")
    if name in _OUT_OF_MEMORY:
        return Problem("run.memory", text, "Choose a smaller batch size or model, or ask for more memory.", "log.txt")
    return Problem("run.error", text, "The whole traceback is in log.txt.", "log.txt")


def _cause(message: str) -> str:
    """The lines of an error of TensorFlow that say what is wrong, without those that say where its graph was made."""
    lines = [line for line in message.splitlines() if not _STACK.match(line)]
    return "\n".join(line.partition("\t [[{{node")[0] for line in lines).strip() or message.strip() or "no message"
