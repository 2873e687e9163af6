"""``clew run --site``: its flags, all mistakes at once, and how jobs are named."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew_gui.commands.context import CommandContext, Parser
from clew_gui.commands.find import find_job, named_job
from clew_gui.commands.jobs.jobs import list_jobs
from clew_gui.commands.run.arguments import parse_run
from clew_gui.commands.run.fetch import find_folders, runs_of_job
from clew_gui.commands.sites.flags import add_allocation_flags, read_place
from clew_gui.jobs.job import JobOrder, JobStage, JobStatus, Place, job_word
from clew_gui.jobs.job_book import job_book
from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.schedulers.state import Output, Phase
from clew_gui.session.run_record import run_record
from clew_gui.session.run_state import not_begun, verdict, waiting_state
from clew_gui.session.session import smaller
from clew_gui.sites.site import Site
from clew_gui.sites.site_connection import SiteLayout
from clew_gui.sites.store import site_store
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec, check_strategy
from tests.unit.commands.test_cli_arguments import CATALOGUE, LINE, SOFTMAX


@pytest.fixture
def places(tmp_path: Path) -> Places:
    found = Places(home=tmp_path / "home", private=tmp_path / "private")
    usual = AllocationRequest(partition="course", time="30")
    site_store(found).save("lab", Site(host="login.example.org", scheduler="slurm", allocation=usual))
    return found


def place_of(line: str, places: Places) -> Place | None:
    request, _, spec = parse_run(line.split(), CATALOGUE, "a-run")
    return read_place(places, request, spec)


def complaints(line: str) -> list[str]:
    with pytest.raises(ProblemError) as caught:
        parse_run(line.split(), CATALOGUE, "a-run")
    return [str(found) for found in caught.value.problems]


# --- Flags ------------------------------------------------------------------------------------------------------------


def test_what_is_given_counts_more_than_the_sites_own(places: Places) -> None:
    place = place_of("softmax --site lab --partition gpu --gpus 2 --time 1h", places)
    assert place == Place(site="lab", allocation=AllocationRequest(partition="gpu", time="1h", gpus=2))
    assert place_of("softmax --site lab", places) == Place(
        site="lab", allocation=AllocationRequest(partition="course", time="30")
    )


def test_help_writes_names_as_they_are_written() -> None:
    parser = Parser("clew run", "what it does")
    add_allocation_flags(parser, "about")
    text = " ".join(parser.format_help().split())
    for words in ("GPUs per node: how", "CPU cores per node: how", "QOS: quality", "time limit: as"):
        assert words in text


def test_the_site_local_is_this_computer(places: Places) -> None:
    assert place_of("softmax --site local", places) is None
    assert place_of("softmax", places) is None


def test_a_file_of_this_computer_is_brought_and_one_of_the_site_is_not(places: Places, tmp_path: Path) -> None:
    data = tmp_path / "mnist.npz"
    data.touch()
    request, _, spec = parse_run(["softmax", "--site", "lab", "--data", str(data)], CATALOGUE, "a-run")
    place = read_place(places, request, spec)
    assert place is not None
    assert (place.data, spec.data) == (str(data), str(data))
    request, _, spec = parse_run(["softmax", "--site", "lab", "--data", "site:/data/mnist.npz"], CATALOGUE, "a-run")
    place = read_place(places, request, spec)
    assert place is not None
    assert (place.data, spec.data) == ("", "site:/data/mnist.npz")


def test_flags_of_a_site_need_one_and_others_have_no_use_there() -> None:
    found = complaints("softmax --partition gpu --nodes 2 --dry-run --learning-rate 0")
    assert len(found) == 4
    assert any("--partition is for a run on a site" in text for text in found)
    assert len(complaints("softmax --site lab --queue --out somewhere")) == 2
    assert "Say which site" in complaints("softmax --data site:/data")[0]
    assert "begins with a slash" in complaints("softmax --site lab --data site:data")[0]


@pytest.mark.parametrize(
    ("words", "code"),
    [("--site nowhere", "site.absent"), ("--site lab --time soon", "allocation.time"), ("--site ../lab", "site.name")],
)
def test_what_the_site_cannot_take_is_a_problem(words: str, code: str, places: Places) -> None:
    with pytest.raises(ProblemError) as caught:
        place_of(f"softmax {words}", places)
    assert caught.value.problems[0].code == code


# --- Jobs by name -----------------------------------------------------------------------------------------------------

JOBS = ("11111111-0000-4000-8000-000000000001", "11112222-0000-4000-8000-000000000002")
RUN = "5f2b8c1e-0000-4000-8000-000000000001"


def test_a_job_is_named_in_many_ways(places: Places) -> None:
    book = job_book(places)
    for job in JOBS:
        book.note_order(JobOrder(job=job, site="lab", runs=(RunSpec(exercise="softmax", run=RUN),)))
    run_record(places).number(RUN)
    run_record(places).number("other")
    words = {"j1": JOBS[0], "J2": JOBS[1], "11111111": JOBS[0], "1": JOBS[1], "5f2b": JOBS[1], "last": JOBS[1]}
    assert {word: find_job(places, book, word) for word in words} == words
    for word, text in (("1111", "2 jobs"), ("j3", "no job"), ("", "no job"), ("2", "one of this computer's")):
        with pytest.raises(ProblemError, match=text):
            find_job(places, book, word)


def test_the_last_run_of_a_site_is_not_another_sites(places: Places) -> None:
    book, record = job_book(places), run_record(places)
    with pytest.raises(ProblemError, match="No run was sent to a site yet"):
        find_job(places, book, "last")
    for job, site, run in ((JOBS[0], "lab", RUN), (JOBS[1], "other", "later")):
        book.note_order(JobOrder(job=job, site=site, runs=(RunSpec(exercise="softmax", run=run),)))
        record.number(run)
    assert [find_job(places, book, "last", site) for site in ("", "lab", "other")] == [JOBS[1], JOBS[0], JOBS[1]]
    with pytest.raises(ProblemError, match="No run was sent to third yet"):
        find_job(places, book, "last", "third")


THERE = (("lab", "4711.server.example.org"), ("lab", "52"), ("other", "52"), ("lab", "2"), ("lab", "1111"))


def sent_jobs(places: Places) -> list[str]:
    """Jobs with these ids there, the first with the run 1; the run 2 is this computer's."""
    book = job_book(places)
    jobs = []
    for number, (site, there) in enumerate(THERE):
        runs = (RunSpec(exercise="softmax", run=RUN),) if not number else ()
        jobs.append(f"2222{number}111-0000-4000-8000-00000000000{number}")
        book.note_order(JobOrder(job=jobs[-1], site=site, runs=runs), title=site.title())
        book.note_news(JobStatus(job=jobs[-1], stage=JobStage.QUEUED, id=there))
    run_record(places).number(RUN)
    run_record(places).number("other")
    return jobs


def test_a_job_may_be_named_as_its_scheduler_does(places: Places) -> None:
    jobs, book = sent_jobs(places), job_book(places)
    for word in ("4711", "4711.server.example.org", "4711.server", "4711.s"):
        assert find_job(places, book, word) == jobs[0]
    assert find_job(places, book, "52", site="other") == jobs[2]
    for word in ("4711.other", "471", "server", "47111"):
        with pytest.raises(ProblemError, match="no job or run"):
            find_job(places, book, word)


def test_two_that_are_called_the_same_are_told_and_none_is_taken(places: Places) -> None:
    sent_jobs(places)
    book = job_book(places)
    with pytest.raises(ProblemError, match=r"2 jobs match '52': j2 \(52 on Lab\), j3 \(52 on Other\)"):
        find_job(places, book, "52")
    book.note_order(JobOrder(job="11112222-0000-4000-8000-000000000009", site="lab"), title="Lab")
    with pytest.raises(ProblemError, match=r"5 jobs match '2222': j1 \(4711\.server\.example\.org on Lab\), j2 "):
        find_job(places, book, "2222")


def test_what_a_scheduler_calls_so_goes_before_the_beginning_of_an_id(places: Places) -> None:
    jobs, book = sent_jobs(places), job_book(places)
    book.note_order(JobOrder(job="11112222-0000-4000-8000-000000000009", site="lab"), title="Lab")
    assert find_job(places, book, "1111") == jobs[4]
    assert find_job(places, book, "11112") == "11112222-0000-4000-8000-000000000009"


def test_our_numbers_go_before_a_schedulers_and_the_other_one_is_told(places: Places) -> None:
    jobs, book = sent_jobs(places), job_book(places)
    with pytest.raises(ProblemError, match="one of this computer's") as caught:
        find_job(places, book, "2")  # the run that has this number is no job's
    assert caught.value.problems[0].hint.endswith("The scheduler's 2 is j4 (2 on Lab).")
    context = CommandContext(places, io.StringIO(), io.StringIO())
    book.note_news(JobStatus(job=jobs[1], stage=JobStage.RUNNING, id="1"))
    assert named_job(context, book, "1") == jobs[0]
    assert isinstance(context.err, io.StringIO)
    assert context.err.getvalue() == ("1 is read as job j1, by Clew's own numbers; there is also j2 (1 on Lab).\n")
    assert named_job(context, book, "4711") == jobs[0]
    assert context.err.getvalue().count("\n") == 1, "where nothing is unclear nothing is said"


class Lister:
    """A site whose folder has these runs."""

    title = "Lab"

    def __init__(self, *names: str) -> None:
        self.names = names

    def layout(self) -> SiteLayout:
        return SiteLayout("/home/student")

    def run(self, _command: object) -> Output:
        return Output(0, "\n".join(self.names), "")


def test_the_runs_of_a_job_are_brought_by_its_id_there(places: Places) -> None:
    sent_jobs(places)
    other = "4711aaaa-0000-4000-8000-000000000003"
    line: Any = Lister(RUN, other)
    mine = runs_of_job(places, "lab", "4711.server")
    assert mine == (RUN,)
    assert runs_of_job(places, "other", "4711") == ()
    assert [path.rpartition("/")[2] for path in find_folders(line, "4711.server", mine)] == [RUN]
    assert [path.rpartition("/")[2] for path in find_folders(line, "4711", mine)] == [other], (
        "a run's own id goes first"
    )


def test_jobs_that_nobody_sent_are_a_sentence(places: Places) -> None:
    from clew_gui.commands.jobs.jobs import jobs

    context = CommandContext(places, io.StringIO(), io.StringIO())
    assert jobs(context, []) == 0
    assert "No job was sent" in context.out.getvalue()  # type: ignore[attr-defined]


def test_jobs_of_many_runs_keep_their_columns_and_name_runs_as_ranges(places: Places) -> None:
    book, record = job_book(places), run_record(places)
    runs = tuple(RunSpec(exercise="softmax", run=f"run-{number}") for number in range(200))
    for run in runs:
        record.number(run.run, lasting=False)
    record.number("lone")
    order = JobOrder(job="4711aaaa-0000-4000-8000-000000000009", site="lab", runs=runs[13:])
    book.note_order(order, "The Lab of the University")
    book.note_runs(order.job, "lone", "run-3")
    text = "The job runs on a node with a long name, and says much. " * 3
    book.note_news(JobStatus(job=order.job, stage=JobStage.RUNNING, id="48151623", text=text))
    out = io.StringIO()
    assert list_jobs(CommandContext(places, out, io.StringIO()), book, everything=True, as_json=False) == 0
    shown = out.getvalue()
    assert [word for word in ("j1", "The Lab of the University", "48151623", "Running") if word not in shown] == []
    assert "4, 14–201 (188)" in " ".join(shown.split())


class Lab:
    """A manager whose schedulers answer when the test says so."""

    def __init__(self, places: Places, *jobs: str) -> None:
        self.book = job_book(places)
        self.answers = threading.Event()
        for job in jobs:
            self.book.note_order(JobOrder(job=job, site=f"lab-{job[:4]}"), f"The Lab {job[:4]}")

    def ask(self, jobs: Sequence[str], heard: Callable[[str], None]) -> set[str]:
        """The last job is answered for at once, the one before it later, and the first one never."""
        heard(jobs[-1])

        def later() -> None:
            self.answers.wait()
            heard(jobs[-2])

        threading.Thread(target=later).start()
        return set(jobs)


@pytest.mark.parametrize("as_json", [False, True])
def test_each_job_is_shown_as_soon_as_there_is_word_of_it_and_a_wait_is_said(
    places: Places, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    for name, seconds in (("_GATHER_S", 0.0), ("_SAID_S", 0.01), ("ASK_S", 1.0)):
        monkeypatch.setattr(f"clew_gui.commands.jobs.jobs.{name}", seconds)
    jobs = [f"471{number}aaaa-0000-4000-8000-000000000009" for number in range(4)]
    lab: Any = Lab(places, *jobs)
    lab.book.note_news(JobStatus(job=jobs[3], stage=JobStage.ENDED, phase=Phase.OUT_OF_MEMORY))

    class Lines(io.StringIO):
        def write(self, text: str) -> int:
            if "Waiting" in text:
                lab.answers.set()
            return super().write(text)

    out, err = Lines(), Lines()
    lab.answers.set() if as_json else None
    assert list_jobs(CommandContext(places, out, err), lab.book, everything=True, as_json=as_json, asked=lab) == 0
    if as_json:
        assert [job["number"] for job in json.loads(out.getvalue())] == [1, 2, 3, 4]
        return
    lines = out.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["Job", "j3", "j4", "j2", "j1"]
    assert {line.index("Not sent yet") for line in lines if "Not sent" in line} == {lines[0].index("State")}
    assert (
        err.getvalue()
        == "Waiting for an answer from The Lab 4710, The Lab 4711, for at most 1 s; --last-heard does not ask.\n"
    )


# --- What a job says of its runs --------------------------------------------------------------------------------------


def news(stage: JobStage, phase: Phase | None = None, text: str = "", problem: Problem | None = None) -> JobStatus:
    return JobStatus(job=JOBS[0], stage=stage, phase=phase, text=text, problem=problem)


@pytest.mark.parametrize(
    ("stage", "state", "begun"),
    [
        (JobStage.DRAFT, RunState.DRAFT, False),
        (JobStage.CONNECTING, RunState.SUBMITTED, False),
        (JobStage.PREPARING, RunState.SUBMITTED, False),
        (JobStage.SUBMITTING, RunState.SUBMITTED, False),
        (JobStage.QUEUED, RunState.QUEUED, False),
        (JobStage.RUNNING, RunState.STARTING, True),
    ],
)
def test_a_run_without_journal_is_where_its_job_is(stage: JobStage, state: RunState, begun: bool) -> None:
    assert waiting_state(news(stage)) is state
    assert not_begun(news(stage)) is not begun
    assert job_word(news(stage))


@pytest.mark.parametrize(
    ("stage", "phase", "began", "state"),
    [
        (JobStage.ENDED, Phase.COMPLETED, False, RunState.STOPPED),
        (JobStage.ENDED, Phase.COMPLETED, True, RunState.LOST),
        (JobStage.ENDED, Phase.FAILED, True, RunState.FAILED),
        (JobStage.ENDED, Phase.CANCELLED, True, RunState.STOPPED),
        (JobStage.ENDED, Phase.TIMED_OUT, True, RunState.TIMED_OUT),
        (JobStage.ENDED, Phase.OUT_OF_MEMORY, True, RunState.FAILED),
        (JobStage.ENDED, Phase.NODE_FAILED, True, RunState.FAILED),
        (JobStage.ENDED, Phase.GONE, True, RunState.LOST),
        (JobStage.LOST, None, True, RunState.LOST),
        (JobStage.ENDED, None, False, RunState.STOPPED),
    ],
)
def test_a_run_without_an_end_ended_as_its_job(
    stage: JobStage, phase: Phase | None, began: bool, state: RunState
) -> None:
    found, why = verdict(news(stage, phase), began)
    assert (found, bool(why)) == (state, True)
    if phase is not Phase.COMPLETED:
        assert verdict(news(stage, phase, text="The site's own words."), began)[1] == "The site's own words."


def test_what_was_refused_failed_with_the_refusal_and_is_awaited_no_more() -> None:
    refusal = Problem("scheduler.partition", "There is no partition 'huge'.")
    assert job_word(news(JobStage.ENDED, problem=refusal)) == "Not sent"
    assert job_word(news(JobStage.DRAFT)) == "Not sent yet"
    assert verdict(news(JobStage.ENDED, problem=refusal), began=False) == (RunState.FAILED, refusal.text)


# --- Tried here meanwhile ---------------------------------------------------------------------------------------------


def test_the_small_run_has_a_tenth_of_the_steps_and_what_is_here() -> None:
    spec = RunSpec(exercise="linear-regression", run=RUN, name="n" * 60, strategy="mirrored", devices=4)
    found = smaller(spec, LINE)
    assert (found.params["steps"], found.run, found.strategy, found.devices) == (100, "", "single", 1)
    assert (len(found.name), found.name[-13:]) == (60, " (tried here)")
    assert smaller(RunSpec(exercise="softmax", data="site:/data"), SOFTMAX).data == ""
    assert smaller(RunSpec(exercise="softmax", data="digits"), SOFTMAX).data == "digits"
    spread = RunSpec(exercise="softmax", strategy="multi-worker", nodes=4, devices=2, precision="float16")
    tried = smaller(msgspec.structs.replace(spread, options={"reduce": "float16"}), SOFTMAX)
    assert (tried.strategy, tried.nodes, tried.devices, tried.precision) == ("single", 1, 1, "float32")
    assert check_strategy(tried, SOFTMAX) == []
    assert smaller(RunSpec(exercise="linear-regression", params={"steps": 5}), LINE).params["steps"] == 1
