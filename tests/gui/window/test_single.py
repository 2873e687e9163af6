"""One window for each home."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from pytestqt.qtbot import QtBot

from clew_gui.views.window.single import OneWindow


def test_a_second_start_asks_the_first_window_to_come_forward(qtbot: QtBot, tmp_path: Path) -> None:
    first, second, other = OneWindow(tmp_path / "a"), OneWindow(tmp_path / "a"), OneWindow(tmp_path / "b")
    assert first.claim()
    first.listen()
    with qtbot.waitSignal(first.raised):
        assert not second.claim()
    assert other.claim(), "another home has a window of its own"
    other.release()
    first.release()
    assert second.claim()
    second.release()


def test_the_first_window_opens_the_file_of_a_second_start(qtbot: QtBot, tmp_path: Path) -> None:
    first, second = OneWindow(tmp_path), OneWindow(tmp_path)
    assert first.claim()
    first.listen()
    with qtbot.waitSignal(first.raised) as heard:
        assert not second.claim("/home/Zoë/anna 1.clew.zip")
    assert heard.args == ["/home/Zoë/anna 1.clew.zip"]
    first.release()


class Asking(OneWindow):
    """Says when it has asked the other window in vain."""

    asked: threading.Event

    def _ask_other(self, file: str) -> bool:
        found = super()._ask_other(file)
        self.asked.set()
        return found


def test_a_start_waits_for_a_window_that_has_just_begun_and_does_not_listen_yet(qtbot: QtBot, tmp_path: Path) -> None:
    first = OneWindow(tmp_path)
    assert first.claim()
    found: list[bool] = []
    asked = threading.Event()

    def start_again() -> None:
        second = Asking(tmp_path, patience=60.0)
        second.asked = asked
        found.append(second.claim())

    again = threading.Thread(target=start_again)
    again.start()
    assert asked.wait(30)
    assert not found, "the first window is not painted"
    with qtbot.waitSignal(first.raised):
        first.listen()
    again.join(30)
    assert found == [False]
    first.release()


def test_a_window_that_never_answers_is_not_waited_for_for_ever(qtbot: QtBot, tmp_path: Path) -> None:
    first, second = OneWindow(tmp_path), OneWindow(tmp_path, patience=0.1)
    assert first.claim()
    assert second.claim(), "a second window is better than none"
    second.release()
    assert OneWindow(tmp_path, patience=0.1).claim(), "and the first one's lock was left alone: this waited as well"
    first.release()


_KILLED = """
import os, sys
from pathlib import Path
from clew_gui.views.window.single import OneWindow
one = OneWindow(Path(sys.argv[1]))
print(one.claim(), flush=True)
os._exit(9)
"""


def test_what_a_killed_window_left_keeps_nobody_out(qtbot: QtBot, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (9, "True")
    next_one = OneWindow(tmp_path, patience=0.0)
    assert next_one.claim()
    another = OneWindow(tmp_path, patience=0.1)
    next_one.listen()
    with qtbot.waitSignal(next_one.raised):
        assert not another.claim(), "the lock was taken over, not passed by"
    next_one.release()
