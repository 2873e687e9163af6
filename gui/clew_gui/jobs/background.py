"""Work that waits for a network, each piece in a thread of its own, so that its caller does not have to wait."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from clew_shared.base.problem import Problem, ProblemError

_log = logging.getLogger(__name__)

LONGEST_PAUSE_S = 30.0


class BackgroundTasks:
    """Does pieces of work in threads. ``failed`` gets the key of a piece of work and why it was not done; it is called
    from the work's thread."""

    def __init__(self, failed: Callable[[str, Problem], None]) -> None:
        self._failed = failed
        self._busy: dict[str, threading.Thread] = {}
        self._woken = threading.Condition()
        self._closing = False

    def start(self, key: str, work: Callable[[], None]) -> None:
        """Do ``work``, unless something with this key is running."""
        with self._woken:
            if key in self._busy or self._closing:
                return
            thread = threading.Thread(target=self._do, args=(key, work), name=f"clew-manager {key[:8]}", daemon=True)
            self._busy[key] = thread
        thread.start()

    def is_busy(self, key: str) -> bool:
        """Whether something with this key is running."""
        with self._woken:
            return key in self._busy

    @property
    def closing(self) -> bool:
        """Whether nothing more is to be done."""
        return self._closing

    def pause(self, seconds: float) -> bool:
        """Waits; less if something has changed. False if nothing more is to be done."""
        with self._woken:
            if not self._closing:
                self._woken.wait(seconds)
            return not self._closing

    def wake(self) -> None:
        """End all pauses."""
        with self._woken:
            self._woken.notify_all()

    def close(self) -> None:
        """Stops the work: nothing more is done."""
        with self._woken:
            self._closing = True
            self._woken.notify_all()

    def join(self, seconds: float) -> None:
        """Wait until everything that runs has ended, so many seconds at most."""
        end = time.monotonic() + seconds
        with self._woken:
            threads = list(self._busy.values())
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _do(self, key: str, work: Callable[[], None]) -> None:
        try:
            work()
        except ProblemError as error:
            self._failed(key, error.problems[0])
        except Exception as error:  # noqa: BLE001  # the thread's border
            _log.exception("Work for a site failed.")
            self._failed(key, Problem("job.internal", f"The job could not be handled: {error}.", "Try again."))
        finally:
            with self._woken:
                self._busy.pop(key, None)


def pauses() -> Callable[[], float]:
    """Returns a function that gives the seconds to wait before the next attempt: 1, 2, 4 and so on."""
    seconds = 0.5

    def following() -> float:
        nonlocal seconds
        seconds = min(seconds * 2, LONGEST_PAUSE_S)
        return seconds

    return following
