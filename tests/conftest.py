"""What holds for every test: no display, the guards of ``tests/guards.py``, the selection of ``tests/needs.py``."""

from __future__ import annotations

import gc
import os
import signal

from clew_shared.base import operating_system

# Before anything can import Qt or TensorFlow: no window on the developer's screen, no C++ messages on stderr.
os.environ["QT_QPA_PLATFORM"] = operating_system.QT_WITHOUT_SCREEN
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest
from hypothesis import HealthCheck, settings
from pytestqt.qtbot import QtBot

from tests.durations import Durations, Recorder, longest_first
from tests.guards import (
    expect_logs,
    home,
    no_leaked_processes,
    no_leaked_sockets,
    no_leaked_threads,
    no_leaked_timers,
    no_modal_dialogs,
    no_unexpected_logs,
)
from tests.needs import Selection

__all__ = [
    "expect_logs",
    "home",
    "no_leaked_processes",
    "no_leaked_sockets",
    "no_leaked_threads",
    "no_leaked_timers",
    "no_modal_dialogs",
    "no_unexpected_logs",
]

# Time limits of Hypothesis measure the machine, not the code; CI uses the same examples every time. A soak searches
# further: new examples each time, and twenty times as many.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("clew", _COMMON, derandomize=bool(os.environ.get("CI")))
settings.register_profile("soak", _COMMON, derandomize=False, max_examples=2000)
settings.load_profile("soak" if os.environ.get("CLEW_SOAK") == "1" else "clew")


# What a window's test waits for comes at once on a quiet machine; pytest-qt's five seconds were too few on a busy one.
for wait in (QtBot.waitUntil, QtBot.waitSignal, QtBot.waitSignals, QtBot.waitExposed):
    wait.__kwdefaults__["timeout"] = 60_000  # type: ignore[index]


# Nearly everything that a collection of 270 files makes stays for good, TensorFlow and Qt included: to look through it
# again and again is a quarter of the collection's time, and later a part of every test's.
gc.disable()


def pytest_collection_finish() -> None:
    """From here on Python's garbage collector looks at what the tests make, and no longer at what is there by now."""
    gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Register the selection; with ``CLEW_DEMAND_ALL=1`` (set by .ci/run) left-out and skipped tests are failures."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script; children would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(Selection(demand_all=os.environ.get("CLEW_DEMAND_ALL") == "1"), "clew-selection")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(), "clew-durations")


def _has_window(item: pytest.Item | None) -> bool:
    return "qapp" in getattr(item, "fixturenames", ())


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Switch Python's garbage collector off for a test with a window, as the program does: it may run in any thread."""
    (gc.disable if _has_window(item) else gc.enable)()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Collect garbage after a test with a window: before a test without a window all of it, otherwise what is due."""
    if _has_window(item):
        from clew_gui.app import collect_due

        collect_due() if _has_window(nextitem) else gc.collect()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under xdist start with the tests that take longest. Alone, tests run in the order of their folders."""
    if hasattr(config, "workerinput"):
        order = longest_first([item.nodeid for item in items], Durations.load())
        items[:] = [items[place] for place in order]
