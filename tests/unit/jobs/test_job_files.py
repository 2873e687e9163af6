"""What the scheduler wrote into a job's output, read when it says no more than that the job failed."""

from __future__ import annotations

from typing import cast

import pytest

from clew_gui.jobs.job_files import read_printed
from clew_gui.sites.site_connection import SiteConnection, SiteLayout
from clew_gui.ssh.connection import RemoteFile
from clew_shared.base.problem import ProblemError, problem

JOB = "6ebaed7b-8c6e-44a6-96ea-3823889db1f5"
PATH = SiteLayout("/home/me/clew").job(JOB) + "/scheduler.log"


class Line:
    """A line, and its connection to a site with one file or none; ``trouble`` is what becomes of a question."""

    def __init__(self, data: bytes | None, trouble: str = "") -> None:
        self._data = data
        self._trouble = trouble
        self.ssh = self

    def layout(self) -> SiteLayout:
        return SiteLayout("/home/me/clew")

    def stat(self, path: str) -> RemoteFile | None:
        assert path == PATH
        if self._trouble:
            raise problem(self._trouble, "No.")
        return RemoteFile(len(self._data), 0.0, 0o600, False) if self._data is not None else None

    def read(self, path: str, offset: int, limit: int) -> bytes:
        assert path == PATH
        return (self._data or b"")[offset : offset + limit]


def printed(data: bytes | None, trouble: str = "") -> str:
    return read_printed(cast(SiteConnection, Line(data, trouble)), JOB)


def test_its_end_is_read_and_none_is_nothing() -> None:
    assert printed(b"a word\n") == "a word\n"
    long = printed(bytes(100_000) + b"\xff the end")
    assert long.endswith("the end")
    assert len(long) <= 16384
    assert printed(None) == ""


def test_a_file_that_may_not_be_read_holds_nothing_up_and_a_lost_site_is_asked_again() -> None:
    assert printed(b"", "ssh.file") == ""
    with pytest.raises(ProblemError):
        printed(b"", "ssh.lost")
