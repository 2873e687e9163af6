"""What jobs leave on a site, read by a real shell: many files with one command, and what cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew_gui.jobs import job_files
from clew_gui.jobs.job_files import FoundFile, Wanted, read_files, read_printed
from clew_gui.sites.site import Site
from clew_gui.sites.site_connection import SiteConnection
from clew_shared.base.problem import ProblemError
from tests.integration.local_line import LocalConnection, local_line

JOB = "6ebaed7b-8c6e-44a6-96ea-3823889db1f5"


@pytest.fixture
def site(tmp_path: Path) -> tuple[SiteConnection, LocalConnection]:
    return local_line(tmp_path / "a [strange] *home", Site(host="here"))


def found(line: SiteConnection, *wanted: Wanted) -> list[list[tuple[str, int, int, bytes]]]:
    answers = read_files(line, wanted)
    return [
        [(Path(one.path).name, one.size, one.offset, one.data) for one in files if isinstance(one, FoundFile)]
        for files in answers
    ]


@pytest.mark.parametrize("room", [4 << 20, 5])
def test_many_files_are_read_whole_whatever_fits_into_one_answer(
    site: tuple[SiteConnection, LocalConnection], room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_files.read_files, "__defaults__", (room,))
    line, asked = site
    (asked.home / "b").mkdir()
    for name, data in (("one", b"0123456789\n#\n\xff"), ("two", b""), ("b/three", b"x" * 20)):
        (asked.home / name).write_bytes(data)
    (asked.home / "two").chmod(0o600)
    home = str(asked.home).replace("[", "[[]")
    assert found(
        line,
        Wanted(f"{home}/*", 2, 9),
        Wanted(f"{home}/absent*", 0, 9),
        Wanted(f"{home}/one/below", 0, 9),
        Wanted(f"{home}/b/th*", -7, 5),
        Wanted(f"{home}/one", 50, 5),
    ) == [
        [("one", 14, 2, b"23456789\n"), ("two", 0, 2, b"")],
        [],
        [],
        [("three", 20, 13, b"xxxxx")],
        [("one", 14, 50, b"")],
    ]


def test_the_end_of_a_log_is_read_and_none_is_nothing(site: tuple[SiteConnection, LocalConnection]) -> None:
    line, _ = site
    log = Path(line.layout().job(JOB)) / "scheduler.log"
    assert read_printed(line, JOB) == ""
    log.parent.mkdir(parents=True)
    log.write_bytes(b"a word\n")
    assert read_printed(line, JOB) == "a word\n"
    log.write_bytes(bytes(100_000) + b"\xff the end")
    assert read_printed(line, JOB).endswith("the end")
    assert len(read_printed(line, JOB)) <= 16384


def test_a_file_that_may_not_be_read_holds_nothing_up_and_says_why() -> None:
    answer = b"#\n! /b/log\tsh: 7: cannot open /b/log: Permission denied\n#\n3 0 3 /c\nabcclew-end\n"
    found = job_files.read_answer(answer, 2, "Uni")
    assert found is not None
    (denied,), (other,) = found
    assert isinstance(denied, ProblemError)
    assert "/b/log on Uni: sh: 7: cannot open" in str(denied)
    assert other == FoundFile("/c", 3, 0, b"abc")
    assert job_files.read_answer(answer[:-12], 2, "Uni") is None
