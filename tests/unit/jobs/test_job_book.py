"""The book of jobs: what stands in it after a restart, beside another program, and when the disk is full."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.jobs import job_files
from clew_gui.jobs.job import EndRequest, JobOrder, JobStage, JobStatus
from clew_gui.jobs.job_book import BookLine, JobBook
from clew_gui.jobs.job_files import FoundFile, Wanted, read_files, read_printed
from clew_gui.schedulers.state import Phase
from clew_gui.sites.site import Site
from clew_gui.sites.site_connection import SiteConnection
from clew_shared.base.problem import ProblemError
from clew_shared.spec import RunSpec
from tests.integration.local_line import LocalConnection, local_line


def an_order(*runs: str) -> JobOrder:
    specs = tuple(RunSpec(exercise="softmax", run=run, params={"steps": 5}) for run in runs)
    return JobOrder(job=str(uuid.uuid4()), site="lab", runs=specs, data="~/mnist.npz")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home/jobs.jsonl"


@pytest.mark.unix("modes of files")
def test_what_was_noted_is_there_after_a_restart(path: Path) -> None:
    book, order = JobBook(path), an_order("run-1")
    book.note_order(order, "The lab")
    news = JobStatus(job=order.job, stage=JobStage.RUNNING, id="7", nodes="node1", until=1e9, text="The job runs.")
    book.note_news(news)
    book.note_runs(order.job, "run-2")
    book.note_end_request(order.job, EndRequest.LET_GO)
    again = JobBook(path)
    assert again.order(order.job) == order
    assert again.title(order.job) == "The lab"
    assert again.news(order.job) == news
    assert again.runs(order.job) == ("run-1", "run-2")
    assert again.end_request(order.job) is EndRequest.LET_GO
    assert again.open_jobs() == (order.job,)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_run_belongs_to_the_latest_job_that_it_was_given_to(path: Path) -> None:
    book, first, follow_on = JobBook(path), an_order("run-1"), an_order()
    book.note_order(first)
    assert book.job_of("run-1") == first.job
    book.note_order(follow_on)
    book.note_runs(follow_on.job, "run-1")
    assert JobBook(path).job_of("run-1") == follow_on.job
    assert book.job_of("run-9") == ""


def test_an_order_is_noted_once(path: Path) -> None:
    book, order = JobBook(path), an_order()
    book.note_order(order)
    book.note_order(order)
    assert len(path.read_bytes().splitlines()) == 1


_NOTES = """
import sys
from pathlib import Path
from clew_gui.jobs.job import JobOrder
from clew_gui.jobs.job_book import JobBook
book = JobBook(Path(sys.argv[1]))
sys.stdin.readline()
book.note_order(JobOrder(job=sys.argv[2], site="lab"))
print(book.number(sys.argv[2]))
"""


def test_programs_that_begin_together_give_each_job_a_number_of_its_own(path: Path) -> None:
    JobBook(path).note_order(an_order())
    jobs = [str(uuid.uuid4()) for _ in range(4)]
    programs = [
        subprocess.Popen([sys.executable, "-c", _NOTES, str(path), job], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for job in jobs
    ]
    told = {}
    for program in programs:
        assert program.stdin is not None
        program.stdin.write(b"now\n")
        program.stdin.flush()
    for job, program in zip(jobs, programs, strict=True):
        told[job] = int(program.communicate()[0])
    assert sorted(told.values()) == [2, 3, 4, 5]
    assert told == {job: JobBook(path).number(job) for job in jobs}, "and every program calls them so"


def test_a_number_stays_when_an_earlier_job_is_forgotten(path: Path) -> None:
    book, first, second = JobBook(path), an_order(), an_order()
    book.note_order(first)
    book.note_order(second)
    book.forget(first.job)
    assert (book.number(second.job), book.numbered(2), book.numbered(1)) == (2, second.job, "")


def test_a_job_that_another_program_forgot_is_answered_for_and_one_that_never_was_is_refused(path: Path) -> None:
    book, order = JobBook(path), an_order()
    book.note_order(order, "Lab")
    JobBook(path).forget(order.job)
    book.refresh()
    assert book.jobs() == ()
    assert (book.number(order.job), book.title(order.job), book.news(order.job).over) == (1, "Lab", False)
    for job in ("", str(uuid.uuid4())):
        with pytest.raises(ProblemError, match="There is no job"):
            book.news(job)


def test_sentences_alone_are_not_written(path: Path) -> None:
    book, order = JobBook(path), an_order()
    book.note_order(order)
    book.note_news(JobStatus(job=order.job, stage=JobStage.QUEUED, id="7", text="Other jobs come first."))
    size = path.stat().st_size
    book.note_news(JobStatus(job=order.job, stage=JobStage.QUEUED, id="7", text="It is next.", starts=1e9))
    assert path.stat().st_size == size
    assert book.news(order.job).text == "It is next."


def test_jobs_that_are_over_or_forgotten_are_not_open(path: Path) -> None:
    book, ended, forgotten = JobBook(path), an_order(), an_order()
    for order in (ended, forgotten):
        book.note_order(order)
    book.note_news(JobStatus(job=ended.job, stage=JobStage.ENDED, phase=Phase.COMPLETED))
    book.forget(forgotten.job)
    again = JobBook(path)
    assert again.open_jobs() == ()
    assert again.jobs() == (ended.job,)


def test_two_programs_write_the_same_book(path: Path) -> None:
    mine, theirs = JobBook(path), JobBook(path)
    first, second = an_order(), an_order()
    mine.note_order(first)
    theirs.note_order(second)
    mine.refresh()
    assert mine.jobs() == theirs.jobs() == (first.job, second.job)


def test_who_knew_less_takes_nothing_back(path: Path) -> None:
    """Another program that connects at last does not know that the job was sent, or that it is over."""
    book, late, order = JobBook(path), JobBook(path), an_order()
    book.note_order(order)
    late.refresh()
    book.note_news(JobStatus(job=order.job, stage=JobStage.QUEUED, id="7"))
    late.note_news(JobStatus(job=order.job, stage=JobStage.PREPARING))
    assert JobBook(path).news(order.job).id == "7"
    book.note_news(JobStatus(job=order.job, stage=JobStage.ENDED, id="7"))
    late.note_news(JobStatus(job=order.job, stage=JobStage.RUNNING, id="7"))
    assert JobBook(path).news(order.job).over


def test_a_torn_line_costs_only_itself(path: Path) -> None:
    book, order, other = JobBook(path), an_order(), an_order()
    book.note_order(order)
    with path.open("ab") as file:
        file.write(b'{"job":"half a li')
    after = JobBook(path)
    after.note_order(other)
    assert JobBook(path).jobs() == (order.job, other.job)


def test_a_full_disk_is_an_error_and_costs_no_other_job(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book, order = JobBook(path), an_order()
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda handle, data: write(handle, data[: len(data) // 2]))
        with pytest.raises(OSError, match="No space left"):
            book.note_order(an_order())
    assert book.jobs() == ()
    book.note_order(order)
    assert JobBook(path).jobs() == (order.job,)


@given(st.binary(max_size=200))
def test_rubbish_in_the_book_is_passed_over(tmp_path_factory: pytest.TempPathFactory, rubbish: bytes) -> None:
    path = tmp_path_factory.mktemp("book") / "jobs.jsonl"
    order = an_order()
    good = msgspec.json.encode(BookLine(job=order.job, order=order))
    path.write_bytes(rubbish + b"\n" + good + b"\n")
    assert JobBook(path).jobs() == (order.job,)


SENDER = """
import sys, time
from pathlib import Path
from clew_gui.jobs.job_book import JobBook
assert JobBook(Path(sys.argv[1])).lock("a-job") is not None
print("locked", flush=True)
time.sleep(60)
"""


def test_the_lock_of_a_program_that_is_killed_while_it_sends_is_free(tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    with subprocess.Popen([sys.executable, "-c", SENDER, path], stdout=subprocess.PIPE) as sender:
        assert sender.stdout is not None
        assert sender.stdout.readline().strip() == b"locked"
        assert JobBook(path).lock("a-job") is None
        sender.kill()
    lock = JobBook(path).lock("a-job")
    assert lock is not None
    lock.remove()


# --- What jobs leave on a site, read by a real shell ------------------------------------------------------------------

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
