"""The doctor on this computer, where things lack that a student's computer may lack."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import msgspec
import pytest

from clew_gui.base.settings import LocalSettings, local_settings
from clew_gui.doctor import node_there, this_computer
from clew_gui.doctor.checks import HERE, examine
from clew_gui.doctor.examination import Finding, Verdict, follow
from clew_gui.doctor.software import Loaded, available, load
from clew_gui.doctor.this_computer import ThisComputer
from clew_gui.schedulers.state import Output
from clew_gui.sites.site import LOCAL, Site
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.prompts import NobodyToAsk
from clew_shared.base import operating_system
from clew_shared.base.places import Places
from clew_shared.wire.messages import AgentAddress


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "new", tmp_path / "run")


@pytest.fixture
def computer(places: Places) -> ThisComputer:
    return ThisComputer(LOCAL, places, threading.Event())


@pytest.fixture
def trainer(places: Places, tmp_path: Path) -> Path:
    """The Python that the settings name: one that has TensorFlow, but neither Pillow nor Optuna."""
    program = tmp_path / "python"
    says = "case $* in *tensorflow*) echo clew 2.16.1 0 ;; *) echo PIL optuna ;; esac"
    program.write_text(f"#!/bin/sh\n{says}\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    local_settings(places).save(LocalSettings(interpreter=str(program)))
    return program


def findings(places: Places) -> dict[str, Finding]:
    return {found.check: found for found in examine(LOCAL, Site(), places, NobodyToAsk())}


def folder_findings(places: Places) -> dict[str, Finding]:
    """What is found out about the folders, without importing TensorFlow and Qt each time."""
    computer = ThisComputer(LOCAL, places, threading.Event())
    folders = [check for check in HERE if check.run in (this_computer.home, this_computer.private)]
    return {found.check: found for found in follow(computer, folders, want_job=False)}


@pytest.mark.unix("a shell script stands in for Python")
def test_the_python_of_the_settings_is_the_one_that_is_asked(places: Places, trainer: Path) -> None:
    found = findings(places)
    assert found["tensorflow"].text.startswith(f"TensorFlow 2.16.1 was imported by {trainer} in ")
    assert found["packages"].text == "Not installed: Pillow (folders of images), Optuna (sweeps with a sampler)."
    assert found["packages"].hint == f"Type in a terminal: {trainer} -m pip install pillow optuna."
    assert not [one for one in found.values() if one.verdict in (Verdict.BAD, Verdict.SKIPPED)]


def test_without_tensorflow_the_rest_is_still_looked_at(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    found = findings(places)
    assert (found["tensorflow"].verdict, found["tensorflow"].code) == (Verdict.BAD, "agent.tensorflow")
    assert found["packages"].text == "Not tried, because TensorFlow cannot be used."
    assert found["home"].verdict is Verdict.OK


@pytest.mark.unix("a shell script stands in for Python")
def test_a_tensorflow_that_cannot_be_imported_says_why(places: Places, trainer: Path) -> None:
    trainer.write_text("#!/bin/sh\necho 'ImportError: DLL load failed' >&2; exit 1\n", encoding="utf-8")
    found = findings(places)["tensorflow"]
    assert (found.verdict, found.code) == (Verdict.BAD, "run.tensorflow")
    assert "ImportError: DLL load failed" in found.text
    assert "the site" not in found.hint


@pytest.mark.unix("a file that is no program")
def test_a_python_that_cannot_be_started_says_why(places: Places, trainer: Path) -> None:
    trainer.chmod(0o600)
    found = findings(places)
    assert (found["tensorflow"].verdict, found["tensorflow"].code) == (Verdict.BAD, "run.tensorflow")
    assert "it cannot be started: Permission denied" in found["tensorflow"].text
    assert found["ssh"].verdict is Verdict.OK


@pytest.mark.unix("a shell script stands in for Python")
def test_packages_that_cannot_be_looked_for_are_not_said_to_be_there(places: Places, trainer: Path) -> None:
    trainer.write_text(
        "#!/bin/sh\ncase $* in *tensorflow*) echo clew 2.16.1 0 ;; *) echo no >&2; exit 1 ;; esac\n", encoding="utf-8"
    )
    found = findings(places)["packages"]
    assert (found.verdict, found.text) == (Verdict.WARN, "Cannot find out which packages are installed: no.")


def test_a_file_of_the_current_folder_is_not_taken_for_tensorflow(
    computer: ThisComputer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "installed"
    installed.mkdir()
    lists = "from types import SimpleNamespace as N; config = N(list_physical_devices=lambda _: [])"
    (installed / "tensorflow.py").write_text(f"__version__ = '2.16.1'; {lists}", encoding="utf-8")
    (tmp_path / "tensorflow.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(installed))
    monkeypatch.chdir(tmp_path)
    assert this_computer.tensorflow(computer).text.startswith("TensorFlow 2.16.1 was imported in ")


def test_a_private_folder_is_made_and_tried(places: Places) -> None:
    found = folder_findings(places)["private"]
    assert (found.verdict, str(places.private) in found.text) == (Verdict.OK, True)


def test_nothing_is_wrong_where_clew_is_tested(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """With this very Python's TensorFlow, however long a busy machine takes to import it."""
    monkeypatch.setattr(this_computer, "SLOW_S", 1e9)
    found = findings(places)
    assert list(found) == [check.name for check in HERE]
    assert found["tensorflow"].verdict is Verdict.OK
    assert not [one for one in found.values() if one.verdict in (Verdict.BAD, Verdict.SKIPPED)]


@pytest.mark.unix("a link that others may have made")
def test_a_private_folder_that_is_no_folder_of_ones_own(places: Places, tmp_path: Path) -> None:
    places.private.symlink_to(tmp_path)
    found = folder_findings(places)["private"]
    assert (found.verdict, found.code) == (Verdict.BAD, "private.folder")


def test_a_private_folder_in_which_nothing_can_be_written(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(this_computer, "write_private", full)
    found = folder_findings(places)["private"]
    assert (found.verdict, found.code) == (Verdict.BAD, "private.write")
    assert "No space left on device" in found.text


def test_a_home_in_which_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = folder_findings(Places(tmp_path / "file" / "home", tmp_path))["home"]
    assert (found.verdict, found.code) == (Verdict.BAD, "here.home")
    assert "CLEW_HOME" in found.hint


def test_a_library_that_the_window_lacks_is_named(computer: ThisComputer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(this_computer.window(computer).text.splitlines()) == 1
    monkeypatch.setattr(this_computer, "_WINDOW", "raise ImportError('libEGL.so.1: cannot open shared object file')")
    found = this_computer.window(computer)
    assert found.verdict is Verdict.WARN
    assert found.text == "The window cannot be loaded: ImportError: libEGL.so.1: cannot open shared object file."


@pytest.mark.parametrize("module", ["QtNetwork", "QtSvg", "QtWidgets"])
def test_a_part_of_qt_that_only_the_window_imports_is_tried_too(
    computer: ThisComputer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys; sys.modules['PySide6.{module}'] = None", encoding="utf-8")
    paths = filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    found = this_computer.window(computer)
    assert (found.verdict, f"PySide6.{module}" in found.text) == (Verdict.WARN, True)


def test_gpus_that_tensorflow_does_not_see_are_worth_knowing(
    computer: ThisComputer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        node_there, "cards", lambda: ["GPU 0: NVIDIA H100 (UUID: GPU-1)", "GPU 1: NVIDIA H100 (UUID: GPU-2)"]
    )
    monkeypatch.setattr(operating_system, "usable_cores", lambda: 1)
    found = this_computer.devices(computer)
    assert found.verdict is Verdict.WARN
    assert found.text == "1 core; GPU 0: NVIDIA H100, GPU 1: NVIDIA H100. TensorFlow sees none of them."
    computer.gpus = 2
    assert this_computer.devices(computer).verdict is Verdict.OK


def test_an_agent_of_another_version_is_worth_knowing(computer: ThisComputer, monkeypatch: pytest.MonkeyPatch) -> None:
    of_whom = {"agent": "a", "host": "here", "boot": "b", "public_key": "", "allow_list": ""}
    of_what = {"generation": 1, "address": "127.0.0.1", "port": 1, "started": time.time()}
    address = msgspec.convert({**of_whom, **of_what, "pid": 41, "version": "0.0.1"}, AgentAddress)
    monkeypatch.setattr(this_computer, "find_agent", lambda _: address)
    found = this_computer.agent(computer)
    assert (found.verdict, "process 41, Clew 0.0.1" in found.text) == (Verdict.WARN, True)
    monkeypatch.setattr(this_computer, "find_agent", lambda _: msgspec.structs.replace(address, version=""))
    assert this_computer.agent(computer).verdict is Verdict.OK


def test_what_a_window_without_a_console_prints_is_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from clew_gui.commands.main import window

    monkeypatch.setattr(sys, "argv", ["clew-window", "--exercise", "nothing"])
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert window() == 2
    sys.stderr.close()
    assert "nothing" in (home / "window.log").read_text(encoding="utf-8")


# --- A site's modules, asked for in a real login shell whose own files print ------------------------------------------

PROFILE = """
echo Welcome
module() {
    case $* in
        "load cuda/12") echo "cuda is there" ;;
        "load stage") export MORE=keras/3 ;;
        "load "*) echo "ERROR: Unable to locate a modulefile for '$2'" >&2; return 1 ;;
        *avail) printf '/apps/modules:\\ncuda/12\\npython/3.11\\n%s\\n' "${MORE-}" >&2 ;;
    esac
}
"""


class Line:
    """Runs a site's commands here."""

    title = "Lab"

    def __init__(self, home: Path, *modules: str) -> None:
        self.site = Site(host="lab", modules=modules)
        self._environment = os.environ | {"HOME": str(home)}

    def work(self, command: Sequence[str]) -> Output:
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False, timeout=60)
        return Output(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def line(tmp_path: Path) -> SiteConnection:
    (tmp_path / ".bash_profile").write_text(PROFILE)
    return cast("SiteConnection", Line(tmp_path))


@pytest.mark.unix("a shell of a site")
def test_what_the_login_shell_prints_is_no_module(line: SiteConnection) -> None:
    assert available(line).names == ("cuda/12", "python/3.11")


@pytest.mark.unix("a shell of a site")
def test_what_the_sites_own_modules_make_visible_is_listed(line: SiteConnection, tmp_path: Path) -> None:
    staged = cast("SiteConnection", Line(tmp_path, "cuda/12", "no-such", "stage"))
    assert available(staged).names == ("cuda/12", "python/3.11", "keras/3")


@pytest.mark.unix("a shell of a site")
def test_what_the_login_shell_prints_is_not_why_a_module_cannot_be_loaded(line: SiteConnection) -> None:
    refused = Loaded(("python",), "cuda is there ERROR: Unable to locate a modulefile for 'python'")
    assert load(line, ("cuda/12", "python")) == refused
