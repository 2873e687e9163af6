"""A job's state as a sentence for the window, the log and the terminal."""

from __future__ import annotations

from clew_gui.schedulers.scheduler import Scheduler
from clew_gui.schedulers.state import JobState, PartitionLimits, Phase, Reason
from clew_gui.schedulers.verdict import NEVER_BEGAN
from clew_shared.base.number_words import duration

NOT_ON_NODES = "Name a python or venv in the site that nodes have as well."
_AT_START = {"absent": NOT_ON_NODES, "module": "Name a module in the site that nodes have as well."}


def asked(scheduler: Scheduler) -> str:
    """Returns the word for who is asked about jobs: the scheduler, or the host if there is none."""
    return "scheduler" if scheduler.has_queue else "host"


def start_hint(state: JobState) -> str:
    """Says what to do if the job's keeper could not start the agent, in the words of the doctor, who can look at a
    node; else empty."""
    word = state.reason.removeprefix("keeper: ").partition(" ")[0] if state.reason.startswith("keeper: ") else ""
    return _AT_START.get(word, "")


def describe(state: JobState, scheduler: Scheduler, limits: PartitionLimits | None = None) -> Reason:
    """Describes the state of the job. ``blocked`` is set if somebody has to do something first."""
    match state.phase:
        case Phase.PENDING:
            return scheduler.explain(state, limits)
        case Phase.REQUEUED if (held := scheduler.explain(state, limits)).blocked:
            return held
        case Phase.UNKNOWN:
            called = f"calls the job's state {state.reason}" if state.reason else "does not name the job's state"
            text = f"The {asked(scheduler)} {called}{', which Clew does not know' if state.reason else ''}."
            return Reason(f"{text} Clew keeps asking.")
        case Phase.FAILED:
            return Reason(_failed(state))
        case Phase.CANCELLED:
            return Reason(f"The job was cancelled{_by(state.by)}.")
        case Phase.TIMED_OUT:
            limit = f" of {duration(state.limit)}" if state.limit else ""
            return Reason(f"The job reached its time limit{limit}.")
        case Phase.GONE:
            return Reason(_gone(state, asked(scheduler)))
        case Phase.SILENT:
            said = f" It said: {state.reason}." if state.reason else ""
            return Reason(f"The {asked(scheduler)} does not answer. That alone changes nothing for the job.{said}")
        case _:
            return Reason(_plain(state, asked(scheduler)))


def _plain(state: JobState, who: str) -> str:
    where = f" on {state.nodes}" if state.nodes else ""
    return {
        Phase.RUNNING: f"The job runs{where}.",
        Phase.SUSPENDED: f"The {who} has suspended the job{where}; it goes on later.",
        Phase.COMPLETING: f"The job is ending{where}.",
        Phase.REQUEUED: "The job was put back into the queue, and will start again.",
        Phase.COMPLETED: "The job has ended.",
        Phase.OUT_OF_MEMORY: "The job used more memory than it had asked for, and was killed.",
        Phase.NODE_FAILED: f"A node of the job failed{where}.",
    }[state.phase]


def _by(who: str) -> str:
    return f" by user {who}" if who.isdecimal() else f" by {who}" if who else ""


def _failed(state: JobState) -> str:
    word, _, detail = state.reason.removeprefix("keeper: ").partition(" ")
    if state.reason.startswith("keeper: "):
        node = state.nodes or "the node"
        code, _, last = ("", "", detail) if word == "absent" else detail.partition(" ")
        said = f": {last.rstrip('.')}." if last else "."
        known = {
            "absent": f"The agent's program could not be started on {node}{said}",
            "refused": f"The agent cannot serve on {node}{said}",
            "crashing": f"The agent crashed again and again on {node}, with exit code {code or 'unknown'}{said}",
            "module": f"The module {detail} could not be loaded on {node}.",
            "ended": "The job's script ended before the agent was started; the site's prologue may be the reason.",
        }
        if word in known:
            return known[word] if detail != "module-command" else "The node has no module command."
    if state.signal:
        return f"The job was killed by signal {state.signal}."
    return f"The job failed with exit code {state.exit_code}." if state.exit_code is not None else "The job failed."


def _gone(state: JobState, who: str) -> str:
    if state.reason == NEVER_BEGAN:
        return f"The {who} does not know the job, and nothing shows that it ever ran."
    return f"The job is gone without a trace: the {who} does not know it any more, and nobody saw it end."
