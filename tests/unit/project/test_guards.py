"""The guards really fail and the selection really chooses: tried on tests that misbehave, in a pytest of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[3]

CONFTEST = """
import tests.guards
from tests.conftest import *
from tests.conftest import pytest_configure
tests.guards.GRACE_S = 0.3
"""

OFFENDERS = """
import logging, os, socket, subprocess, sys, threading, warnings
import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QDialog, QFileDialog, QMessageBox, QWidget

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]

def test_leaves_a_thread():
    threading.Thread(target=threading.Event().wait, args=(5,), name="forgotten", daemon=True).start()

def test_leaves_a_child():
    globals()["child"] = subprocess.Popen(SLEEP)

def test_leaves_a_detached_grandchild():
    code = f"import subprocess; print(subprocess.Popen({SLEEP!r}, start_new_session=True).pid)"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, stdout=subprocess.DEVNULL)

def test_does_not_wait_for_its_child():
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", ""], os.environ)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

def test_leaves_a_listening_socket():
    globals()["listener"] = socket.create_server(("127.0.0.1", 0))

def test_leaves_a_timer(qapp):
    globals()["timer"] = QTimer(interval=1000, objectName="forgotten-timer")
    globals()["timer"].start()

def test_logs_a_warning():
    logging.getLogger("clew.some").warning("disk is %s", "full")

def test_expects_a_warning_that_never_comes(expect_logs):
    expect_logs("disk is full")

def test_warns():
    warnings.warn("old", DeprecationWarning)

@pytest.mark.parametrize("ask", [lambda: QDialog().exec(), lambda: QMessageBox.question(None, "a", "b"),
                                 lambda: QMessageBox().exec(), lambda: QFileDialog.getOpenFileName()],
                         ids=["dialog", "question", "box", "file"])
def test_asks(qapp, ask):
    ask()

def test_behaves(qtbot, home, expect_logs):
    assert os.environ["CLEW_HOME"] == str(home) and home.is_dir()
    widget = QWidget()
    qtbot.addWidget(widget)
    QTimer(widget).start(1000)
    expect_logs("disk is f")
    logging.getLogger("clew.some").warning("disk is full")
    subprocess.run([sys.executable, "-c", ""], check=True)
    thread = threading.Thread(target=threading.Event().wait, args=(0.05,))
    thread.start()
    socket.create_server(("127.0.0.1", 0)).close()
"""

EXPECTED = {
    "test_leaves_a_thread": "left threads behind: forgotten",
    "test_leaves_a_child": "left processes behind",
    "test_leaves_a_detached_grandchild": "left processes behind",
    "test_does_not_wait_for_its_child": "zombie",
    "test_leaves_a_listening_socket": "left sockets behind",
    "test_leaves_a_timer": "forgotten-timer",
    "test_logs_a_warning": "unexpected log record: WARNING clew.some: disk is full",
    "test_expects_a_warning_that_never_comes": "expected log: disk is full",
    "test_warns": "DeprecationWarning",
    "test_asks[dialog]": "QDialog.exec would wait",
    "test_asks[question]": "QMessageBox.question would wait",
    "test_asks[box]": "QMessageBox.exec would wait",
    "test_asks[file]": "QFileDialog.getOpenFileName would wait",
}

pytestmark = pytest.mark.unix("an installed checkout: this is about the tests themselves")


class Inner(NamedTuple):
    """What a pytest run in a process of its own said: by test the text of its failure, if any; exit code; output."""

    failures: dict[str, str]
    code: int
    output: str


def run_inner(folder: Path, source: str, *options: str, **environment: str) -> Inner:
    """Run pytest on ``source`` with this project's guards, selection and warning filter."""
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "test_inner.py").write_text(source, encoding="utf-8")
    (folder / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\nmarkers = needs(*what)\nqt_api = pyside6\n", encoding="utf-8"
    )
    known = {key: value for key, value in os.environ.items() if not key.startswith(("CLEW_", "PYTEST_"))}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--junitxml=report.xml", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={**known, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    failures: dict[str, str] = {}
    for case in ElementTree.parse(folder / "report.xml").iter("testcase"):  # noqa: S314  (our own file)
        bad = [part for part in case if part.tag in ("failure", "error")]
        text = "\n".join(f"{part.get('message')}\n{part.text}" for part in bad)
        failures[case.get("name", "")] = failures.get(case.get("name", ""), "") + text
    return Inner(failures, ran.returncode, ran.stdout + ran.stderr)


@pytest.fixture(scope="module")
def offenders(tmp_path_factory: pytest.TempPathFactory) -> Inner:
    """One run of all the misbehaving tests."""
    return run_inner(tmp_path_factory.mktemp("inner"), OFFENDERS)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_misbehaving_test_fails_and_says_why(offenders: Inner, name: str) -> None:
    assert EXPECTED[name] in offenders.failures[name], offenders.output


def test_a_test_that_cleans_up_passes(offenders: Inner) -> None:
    assert offenders.failures["test_behaves"] == "", offenders.output
    assert set(offenders.failures) == {*EXPECTED, "test_behaves"}


CHOOSY = """
import pytest

@pytest.mark.needs("real-mnist")
def test_data(): pass

@pytest.mark.needs("gpu")
def test_device(): pass

def test_plain(): pass
"""

SKIPPING = """
import pytest

def test_plain(): pass

def test_skips(): pytest.skip("REASON")
"""


def test_what_cannot_run_is_left_out_and_named(tmp_path: Path) -> None:
    inner = run_inner(tmp_path, CHOOSY, "-k", "data or plain")
    assert (inner.code, set(inner.failures)) == (0, {"test_plain"})
    assert "left out: 1 test that need 'real-mnist' (point CLEW_DATA at a folder" in inner.output


def test_what_is_there_is_used(tmp_path: Path) -> None:
    (tmp_path / "mnist.npz").touch()
    inner = run_inner(tmp_path, CHOOSY, "-k", "data", CLEW_DATA=str(tmp_path), CLEW_DEMAND_ALL="1")
    assert (inner.code, set(inner.failures)) == (0, {"test_data"})


def test_a_demanding_run_fails_when_something_is_left_out(tmp_path: Path) -> None:
    inner = run_inner(tmp_path, CHOOSY, "-k", "data or plain", CLEW_DEMAND_ALL="1")
    assert inner.code == 1
    assert "CLEW_DEMAND_ALL: the need 'real-mnist' is missing" in inner.output


def test_a_demanding_run_fails_under_xdist_too(tmp_path: Path) -> None:
    inner = run_inner(tmp_path, CHOOSY, "-n", "1", "-k", "data or plain", CLEW_DEMAND_ALL="1")
    assert inner.code == 1
    assert "CLEW_DEMAND_ALL: the need 'real-mnist' is missing" in inner.output


@pytest.mark.parametrize(("reason", "code"), [("no such thing here", 1), ("no GPU here", 0)])
def test_a_demanding_run_fails_on_skips_but_for_a_gpu(tmp_path: Path, reason: str, code: int) -> None:
    inner = run_inner(tmp_path, SKIPPING.replace("REASON", reason), CLEW_DEMAND_ALL="1")
    assert inner.code == code, inner.output


def test_an_unknown_need_ends_the_run(tmp_path: Path) -> None:
    source = 'import pytest\n\n@pytest.mark.needs("luck")\ndef test_it(): pass\n'
    (tmp_path / "report.xml").write_text("<testsuite/>", encoding="utf-8")
    inner = run_inner(tmp_path, source)
    assert inner.code == pytest.ExitCode.USAGE_ERROR
    assert "needs 'luck', but tests/needs.py knows only" in inner.output
