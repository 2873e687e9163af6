"""The advice to install a package fits the way in which Clew itself was installed, and can be typed as it is."""

from __future__ import annotations

import os
import shlex
import site
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from clew_shared.base import installation, operating_system
from clew_shared.base.installation import MLFLOW, WINDOW, how_to_install

ROOT = Path(__file__).resolve().parents[3]


class Here:
    """An installation in ``folder``, as ``how_to_install`` sees it."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self._patch = folder, patch
        patch.delenv("APPIMAGE", raising=False)
        patch.setattr(operating_system, "NAME", "linux")
        patch.setattr(operating_system, "SHELL_QUOTES", True)
        patch.setattr(sys, "prefix", str(folder))
        patch.setattr(sys, "executable", str(folder / "bin" / "python"))
        self.set(has_pip=True, may_write=True, user_site=False)

    def set(self, *, has_pip: bool, may_write: bool, user_site: bool) -> None:
        """Decides what the Python finds around it."""
        self._patch.setattr(installation, "find_spec", lambda _: object() if has_pip else None)
        self._patch.setattr(os, "access", lambda *_: may_write)
        self._patch.setattr(site, "ENABLE_USER_SITE", user_site)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    return Here(tmp_path, monkeypatch)


def test_an_environment_with_pip(here: Here) -> None:
    python = shlex.quote(str(here.folder / "bin" / "python"))
    assert how_to_install("optuna") == f"Type in a terminal: {python} -m pip install optuna"
    assert how_to_install("a>=1", "b").endswith(f"in a terminal: {python} -m pip install 'a>=1' b")


def test_a_tool_of_uv_has_no_pip(here: Here) -> None:
    here.set(has_pip=False, may_write=True, user_site=False)
    python = shlex.quote(str(here.folder / "bin" / "python"))
    assert how_to_install("optuna") == f"Type in a terminal: uv pip install --python {python} optuna"


@pytest.mark.parametrize("has_pip", [True, False])
def test_an_application_of_pipx(here: Here, has_pip: bool) -> None:
    here.set(has_pip=has_pip, may_write=True, user_site=False)
    (here.folder / "pipx_metadata.json").touch()
    assert how_to_install("optuna") == f"Type in a terminal: pipx inject {here.folder.name} optuna"


@pytest.mark.parametrize(("user_site", "begin"), [(False, "sudo "), (True, "")])
def test_what_an_administrator_installed(here: Here, user_site: bool, begin: str) -> None:
    here.set(has_pip=True, may_write=False, user_site=user_site)
    python = shlex.quote(str(here.folder / "bin" / "python"))
    assert how_to_install("optuna") == f"Type in a terminal: {begin}{python} -m pip install optuna"


def test_an_appimage_takes_nothing(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPIMAGE", "/apps/clew")
    assert "install Clew from its wheel" in how_to_install("optuna")


def test_another_python_than_this_one(here: Here) -> None:
    here.set(has_pip=False, may_write=True, user_site=False)
    assert how_to_install("a", python="/my python") == "Type in a terminal: '/my python' -m pip install a"


def test_the_folder_for_windows(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """The window's Python has no console, and would show nothing there."""
    monkeypatch.setattr(operating_system, "NAME", "win32")
    monkeypatch.setattr(operating_system, "SHELL_QUOTES", False)
    here.set(has_pip=True, may_write=False, user_site=False)
    monkeypatch.setattr(sys, "executable", str(here.folder / "my clew" / "pythonw.exe"))
    python = here.folder / "my clew" / "python.exe"
    assert how_to_install("a>=1", "b") == f'Type in a terminal: "{python}" -m pip install "a>=1" b'


def test_the_packages_are_those_of_the_extras() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert (list(WINDOW), list(MLFLOW)) == (extras["gui"], extras["mlflow"])


@pytest.mark.unix("a command in words of a POSIX shell")
def test_the_advice_of_this_very_python_is_one_that_works() -> None:
    _, _, command = how_to_install("pip").partition(": ")
    environment = os.environ | {"PIP_NO_INDEX": "1"}
    done = subprocess.run(shlex.split(command), env=environment, capture_output=True, text=True, check=False)
    assert "already satisfied: pip" in done.stdout
