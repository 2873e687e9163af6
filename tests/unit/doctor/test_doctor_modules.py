"""A site's modules, asked for in a real login shell whose own files print."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from clew_gui.doctor.software import Loaded, available, load
from clew_gui.schedulers.state import Output
from clew_gui.sites.site import Site
from clew_gui.sites.site_connection import SiteConnection

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
