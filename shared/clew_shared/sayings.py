"""The sentences of a run in the order in which they came, with what is needed to take one back."""

from __future__ import annotations

from typing import NamedTuple

from clew_shared.events import Log
from clew_shared.problem import Problem

JOB_ENDED = "The job was cancelled, or the site ended it before its time was up."
"""The reason in a journal when the scheduler's request to end reaches a run: the node does not know who wanted it."""


def no_tensorflow(host: str, why: str, on_node: bool = True) -> Problem:
    """What the doctor's job and a trainer say alike where TensorFlow cannot be imported. ``on_node``: of a cluster."""
    text = f"TensorFlow cannot be imported on {host}: {why.strip().rstrip('.') or 'nobody says why'}."
    hint = (
        "The nodes may lack a library or a module, or have another processor than the login node: name another module, "
        "python or venv in the site."
    )
    here = "Install it into the Python that trains: pip install 'tensorflow>=2.16'."
    return Problem("run.tensorflow", text, hint if on_node else here, host)


class _Saying(NamedTuple):
    """A sentence at a place in an attempt's journal. One that is ``about`` a step is void when that is done again."""

    attempt: int
    offset: int
    about: int | None
    log: Log


class Sayings:
    """``logs`` are the sentences that count."""

    def __init__(self) -> None:
        self.logs: list[Log] = []
        self._all: list[_Saying] = []

    def add(self, attempt: int, offset: int, log: Log, about: int | None = None) -> None:
        """Keep a sentence that stands at ``offset`` (-1: unknown)."""
        self._all.append(_Saying(attempt, offset, about, log))
        self.logs.append(log)

    def since(self, attempt: int) -> list[Log]:
        """Those of ``attempt`` and later ones."""
        return [saying.log for saying in self._all if saying.attempt >= attempt]

    def cut_journal(self, attempt: int, size: int) -> None:
        """Take back what ``attempt`` wrote behind the ``size`` bytes that count."""
        self._keep([saying for saying in self._all if saying.attempt != attempt or saying.offset < size])

    def cut_steps(self, start: int) -> None:
        """Take back what was about steps from ``start`` on."""
        self._keep([saying for saying in self._all if saying.about is None or saying.about < start])

    def _keep(self, kept: list[_Saying]) -> None:
        if len(kept) < len(self._all):
            self._all, self.logs = kept, [saying.log for saying in kept]


def divergence(label: str, value: str, step: int) -> str:
    """The sentence for a metric that stopped to be a finite number."""
    word = "NaN" if value == "NaN" else "infinite"
    return f"{label} became {word} at step {step:,}. A smaller learning rate may help."
