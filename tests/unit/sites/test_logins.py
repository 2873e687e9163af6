"""``clew logout`` and its list, where the folder of a kept login is not what it should be: unknown is not absent."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clew_gui.commands.main import main
from clew_gui.sites.logins import logins
from clew_gui.ssh.connection import ssh_files
from clew_gui.ssh.kept_logins import SOCKET, KeptLogin, KeptLogins, write_record
from clew_shared.base.places import find_places
from clew_shared.base.private_files import make_private
from clew_shared.base.process_identity import began

pytestmark = pytest.mark.unix("modes of folders")


@pytest.fixture
def holder(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds a login."""
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        yield process


@pytest.fixture
def folder(holder: subprocess.Popen[bytes]) -> Iterator[Path]:
    """The folder of the one login that is kept."""
    kept = KeptLogins(ssh_files(find_places())).folder
    for one in (kept.parent, kept, kept / "abc"):
        make_private(one)
    now = time.time()
    record = KeptLogin(
        id="abc",
        title="student@login",
        passed=(),
        pid=holder.pid,
        since=now,
        keep_s=1800,
        asks_codes=True,
        began=began(holder.pid),
        key=b"key",
    )
    (kept / "abc" / SOCKET).touch(0o600)
    write_record(kept / "abc", record)
    yield kept / "abc"
    for one in (kept, kept.with_suffix(".moved")):
        shutil.rmtree(one, ignore_errors=True)


STRANGE: dict[str, Callable[[Path], object]] = {
    "its folder is open to others": lambda folder: folder.chmod(0o777),
    "the folder of all is open to others": lambda folder: folder.parent.chmod(0o755),
    "its socket is open to others": lambda folder: (folder / SOCKET).chmod(0o666),
    "its socket is gone": lambda folder: (folder / SOCKET).unlink(),
    "its record is damaged": lambda folder: (folder / "login.json").write_bytes(b"{"),
    "its record is gone": lambda folder: (folder / "login.json").unlink(),
    "its folder is a link": lambda folder: folder.symlink_to(folder.rename(folder.parent.with_suffix(".moved"))),
}


def test_a_login_that_is_fine_is_listed_and_ended(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["logout", "--list"])
    assert "student@login" in capsys.readouterr().out
    main(["logout"])
    assert capsys.readouterr().out == "Logged out of student@login.\nJobs go on.\n"


@pytest.mark.parametrize("strange", STRANGE)
def test_where_it_is_unknown_nobody_says_that_one_is_not_logged_in(
    strange: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    STRANGE[strange](folder)
    assert logins(find_places()).living == []
    main(["logout", "--list"])
    said = capsys.readouterr()
    assert "not logged in" not in said.out
    assert str(folder.parent) in said.err
    assert "unknown" in said.err
    main(["logout", "--list", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["logins"], len(found["unknown"])) == ([], 1)
    main(["logout"])
    said = capsys.readouterr()
    assert "not logged in" not in said.out
    assert f"Ended the login in {folder.parent}" in said.out
    main(["logout", "--list"])
    assert "You are not logged in anywhere." in capsys.readouterr().out
