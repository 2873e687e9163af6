"""Samples the pulse once a second in a thread, which no failure of a source can end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress

import msgspec

from clew_agent.node.pulse.gpus import Gpus
from clew_agent.node.pulse.sources import Memory, Node, Packages, ProcessTree, Readings, Source

EVERY_S = 1.0
MOST_SHARE = 0.005
"""Share of one core that sampling may take: a source that takes longer is read less often."""
DENSE_S = 10_000.0
"""Age of a run up to which it is sampled every second. Then the pauses grow with its age, so that a run of a month has
seven times as many samples as one of three hours."""
_END_S = 2.0
"""Seconds that the thread gets to end: a driver that hangs must not keep its process."""


class Sample(msgspec.Struct, frozen=True):
    """What was read at ``time`` (seconds since 1970)."""

    time: float
    values: Readings


def pause(age: float, cost: float) -> float:
    """The seconds to the next sample of a run that is ``age`` seconds old, when the last took ``cost`` seconds of the
    processor."""
    return max(EVERY_S, EVERY_S * age / DENSE_S, cost / MOST_SHARE)


def usual_sources(pid: Callable[[], int]) -> list[Source]:
    """Everything that this machine shows. The process comes first: without it there is no sample."""
    found: list[Source] = [ProcessTree(pid)]
    for make in (Node, Memory, Packages, Gpus):
        with suppress(Exception):  # a library or a driver raises anything; the value is unknown then
            found.append(make())
    return found


class Sampler:
    """Reads all ``sources`` and hands each sample to ``deliver``, both in its own thread."""

    def __init__(self, sources: Callable[[], Sequence[Source]], deliver: Callable[[Sample], None]) -> None:
        self._make = sources
        self._deliver = deliver
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="pulse", daemon=True)

    def start(self) -> None:
        """Take the first sample at once, and one a second from then on."""
        self._thread.start()

    def close(self) -> None:
        """Take no more."""
        self._ended.set()
        self._thread.join(_END_S)

    def _work(self) -> None:
        begun, delay = time.monotonic(), 0.0
        sources = self._make()
        while not self._ended.wait(delay):
            before = time.thread_time()
            try:
                self._sample(sources)
            except Exception:  # noqa: BLE001  # the thread's border: a failing sample costs that sample only
                self._ended.wait(EVERY_S)
            delay = pause(time.monotonic() - begun, time.thread_time() - before)

    def _sample(self, sources: Sequence[Source]) -> None:
        now, when, values = time.monotonic(), time.time(), sources[0].read(time.monotonic())
        for source in sources[1:]:
            with suppress(Exception):  # what cannot be read is unknown
                values |= source.read(now)
        self._deliver(Sample(when, values))


@contextmanager
def sampling(pid: Callable[[], int], deliver: Callable[[Sample], None]) -> Iterator[None]:
    """Samples this process's node and the process ``pid`` meanwhile."""
    sampler = Sampler(lambda: usual_sources(pid), deliver)
    sampler.start()
    with closing(sampler):
        yield
