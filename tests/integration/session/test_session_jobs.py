"""A session with jobs on a site: from the queue to the last byte, over ends of jobs, and over windows that close."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from clew_gui.jobs.job import JobOrder, JobStage, JobStatus, Place
from clew_gui.jobs.job_book import JobBook, job_book
from clew_gui.schedulers.state import Phase
from clew_gui.session.links.inbox import LinkState
from clew_gui.session.links.link import Link
from clew_gui.session.runs import RunModel
from clew_gui.session.session import Session
from clew_gui.targets.target import LocalTarget
from clew_shared.base.places import Places, find_places
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.journal.files import journal_path
from clew_shared.journal.lifecycle import RunState
from clew_shared.params import Value
from clew_shared.spec import RunSpec
from clew_shared.wire.messages import StartRun
from tests.integration.agents import BOUND_S, STAND_IN, end_all
from tests.integration.fake_site import FakeManager, FakeSite
from tests.integration.stand_in_agent import CATALOGUE
from tests.offspring import Offspring

SITE = Place(site="test")
SLOW: dict[str, Value] = {"steps": 100_000, "pause": 0.02}


class Window:
    """What a window does: ticks, and remembers what it was told."""

    def __init__(self) -> None:
        self.places: Places = find_places()
        self.sites: list[FakeSite] = []
        manager = FakeManager(job_book(self.places), self._make, self._title)
        self.session = Session(self.places, CATALOGUE, LocalTarget(self.places, STAND_IN), manager)
        self.problems: list[Problem] = []
        self.session.start()

    def _make(self, name: str, book: JobBook, tell: Callable[[JobStatus], None]) -> FakeSite:
        self.sites.append(FakeSite(self.places.home / name, book, tell))
        return self.sites[-1]

    def _title(self, name: str) -> str:
        if name != "test":
            raise problem("site.absent", f"There is no site {name!r}.")
        return "Test site"

    @property
    def site(self) -> FakeSite:
        return self.sites[0]

    def until(self, condition: Callable[[], bool], what: str = "it") -> None:
        deadline = time.monotonic() + BOUND_S
        while not condition():
            jobs = [(job.news, job.link) for job in self.session.jobs.values()]
            assert time.monotonic() < deadline, f"{what} did not happen; {jobs}, {self.problems}"
            self.problems += self.session.tick().problems
            time.sleep(0.005)

    def until_state(self, model: RunModel, *states: RunState) -> None:
        self.until(lambda: model.state in states, f"{model.state} -> {states}")

    def start(self, place: Place | None = SITE, /, **params: Value) -> RunModel:
        return self.session.runs[self.session.start_run(RunSpec(exercise="stand-in", params=params), place)]

    def job(self, model: RunModel) -> str:
        assert model.job is not None
        return model.job.job

    def until_same(self, model: RunModel, attempt: int = 1) -> None:
        """Wait until the mirror is the node's journal, byte for byte."""
        node = journal_path(self.places.home / "test" / "runs" / model.id, attempt)
        mirror = journal_path(model.folder, attempt)
        self.until(lambda: mirror.exists() and node.read_bytes() == mirror.read_bytes(), "the mirror's last byte")


@pytest.fixture
def new_window(home: object) -> Iterator[Callable[[], Window]]:
    windows: list[Window] = []
    agents = Offspring()

    def open_window() -> Window:
        windows.append(Window())
        return windows[-1]

    yield open_window
    for window in windows:
        window.session.close()
        for site in window.sites:
            site.clear()
    agents.end()
    for folder in find_places().runs.glob("*"):
        end_all(folder.name)


@pytest.fixture
def window(new_window: Callable[[], Window]) -> Window:
    return new_window()


def test_a_run_goes_through_the_queue_and_comes_back_whole(window: Window) -> None:
    model = window.start(steps=500)
    assert (model.state, model.where, model.site) == (RunState.SUBMITTED, "Test site", "test")
    job = window.job(model)
    window.site.queue(job)
    window.until_state(model, RunState.QUEUED)
    assert (model.reason, model.link_stale) == ("Other jobs come first.", False)
    window.until(lambda: window.session.jobs[job].link.text == "Other jobs come first.")
    window.site.begin(job)
    window.until_state(model, RunState.FINISHED)
    window.until_same(model)
    assert model.history.column("loss").steps.tolist() == list(range(500))
    assert window.session.jobs[job].link.state is LinkState.LIVE
    assert window.session.jobs[job].route == "straight"
    window.site.end(job, Phase.COMPLETED)
    window.until(lambda: model.settled)
    assert model.state is RunState.FINISHED
    assert window.problems == []


def test_runs_here_and_there_do_not_mix(window: Window) -> None:
    there, here = window.start(**SLOW), window.start(None, **SLOW)
    window.until_state(here, RunState.RUNNING)
    assert there.state is RunState.SUBMITTED, "this computer's agent does not know it, and need not"
    window.site.begin(window.job(there))
    window.until_state(there, RunState.RUNNING)
    assert (here.where, there.where) == ("This computer", "Test site")
    step = here.history.fold.step
    window.until(lambda: here.history.fold.step > step + 20)
    assert here.state is RunState.RUNNING, "and the other way round"
    window.session.pause(there.id)
    window.until_state(there, RunState.PAUSED)
    window.session.stop(there.id)
    window.until_state(there, RunState.STOPPED)
    assert here.state is RunState.RUNNING
    window.session.stop(here.id)
    window.until_state(here, RunState.STOPPED)
    assert window.problems == []


def test_a_job_has_the_number_that_the_book_gave_it_although_another_program_just_sent_one(window: Window) -> None:
    job_book(window.places).note_order(JobOrder(job=str(uuid.uuid4()), site="test"))
    sent = window.session.jobs[window.job(window.start())]
    assert sent.number == job_book(window.places).number(sent.id) == 2


def test_stop_takes_a_waiting_job_out_of_the_queue(window: Window) -> None:
    model = window.start(steps=10)
    window.site.queue(window.job(model))
    window.until_state(model, RunState.QUEUED)
    window.session.stop(model.id)
    window.until_state(model, RunState.STOPPED)
    assert model.reason == "You cancelled the job."
    with pytest.raises(ProblemError, match="job is over"):
        window.session.pause(model.id)


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        (Phase.TIMED_OUT, RunState.TIMED_OUT),
        (Phase.OUT_OF_MEMORY, RunState.FAILED),
        (Phase.CANCELLED, RunState.STOPPED),
        (Phase.GONE, RunState.LOST),
    ],
)
def test_a_journal_without_an_end_comes_by_files_and_the_job_says_the_end(
    phase: Phase, state: RunState, window: Window
) -> None:
    model = window.start(**SLOW)
    job = window.job(model)
    window.site.begin(job)
    window.until(lambda: model.history.fold.step > 20)
    window.site.no_way = True
    window.site.end(job, phase, kill=True)
    window.until_state(model, state)
    window.until_same(model)
    assert model.settled
    assert model.reason


def test_a_run_whose_agent_cannot_be_reached_is_followed_by_files(window: Window) -> None:
    model = window.start(steps=300)
    window.site.no_way = True
    window.site.begin(window.job(model))
    window.until_state(model, RunState.FINISHED)
    window.until_same(model)
    assert window.problems == []


def _stop_with_its_job(window: Window, model: RunModel) -> str:
    """Let it train for a while, stop it, and let its job's time be up; the job."""
    job = window.job(model)
    window.site.begin(job, starts=time.time())
    window.until(lambda: model.history.fold.step > 20)
    window.session.stop(model.id)
    window.until_state(model, RunState.STOPPED)
    window.site.end(job, Phase.TIMED_OUT)
    window.until(lambda: model.settled)
    return job


def test_a_run_whose_job_is_over_goes_on_in_the_next_as_one_curve(window: Window) -> None:
    model = window.start(**SLOW)
    first = _stop_with_its_job(window, model)
    window.session.continue_run(model.id, changes={"devices": 2})
    second = window.job(model)
    assert second != first
    asked = window.site.book.order(second).runs[0]
    assert (asked.run, asked.strategy, asked.devices) == (model.id, "spread", 2)
    window.until_state(model, RunState.SUBMITTED)
    window.site.queue(second)
    window.until_state(model, RunState.QUEUED)
    window.site.begin(second, starts=time.time())
    window.until(lambda: model.history.fold.attempt == 2 and model.state is RunState.RUNNING)
    window.session.stop(model.id)
    window.until_state(model, RunState.STOPPED)
    window.site.end(second, Phase.COMPLETED)
    window.until(lambda: model.settled)
    for attempt in (1, 2):
        window.until_same(model, attempt)
    steps = model.history.column("loss").steps.tolist()
    assert steps == list(range(len(steps)))
    assert window.problems == []


def test_a_window_that_opens_later_follows_fetches_and_then_leaves_the_site_alone(
    new_window: Callable[[], Window],
) -> None:
    first = new_window()
    model = first.start(**SLOW)
    job = first.job(model)
    first.site.begin(job)
    first.until(lambda: model.history.fold.step > 20)
    first.session.close()
    seen = model.history.fold.step

    second = new_window()
    again = second.session.runs[model.id]
    assert second.site.followed == [job]
    second.site._agents = first.site._agents
    second.until(lambda: again.state is RunState.RUNNING and again.history.fold.step > seen)
    assert again.where == "Test site"
    second.session.close()
    second.site.end(job, Phase.TIMED_OUT, "Its time was up.", kill=True)

    third = new_window()
    last = third.session.runs[model.id]
    third.until_state(last, RunState.TIMED_OUT)
    third.until_same(last)
    assert (last.reason, third.site.followed) == ("Its time was up.", [])
    third.session.close()

    fourth = new_window()
    fourth.until(lambda: model.id in fourth.session.runs and fourth.session.link.state is LinkState.LIVE)
    fourth.until_state(fourth.session.runs[model.id], RunState.TIMED_OUT)
    assert fourth.sites == [], "everything is here: nobody is asked for a password"


def test_a_finished_run_of_an_earlier_window_is_continued_on_its_site(new_window: Callable[[], Window]) -> None:
    first = new_window()
    model = first.start(**SLOW)
    first.site.begin(first.job(model), starts=time.time())
    first.until(lambda: model.history.fold.step > 20)
    first.session.stop(model.id)
    first.until_state(model, RunState.STOPPED)
    first.site.end(first.job(model), Phase.COMPLETED)
    first.until(lambda: model.settled)
    first.session.close()

    second = new_window()
    second.until(lambda: model.id in second.session.runs)
    again = second.session.runs[model.id]
    second.until_state(again, RunState.STOPPED)
    second.session.continue_run(model.id)
    second.site.begin(second.job(again), starts=time.time())
    second.until(lambda: again.history.fold.attempt == 2 and again.state is RunState.RUNNING)
    second.session.stop(again.id)
    second.until_state(again, RunState.STOPPED)
    second.until_same(again, 2)


def test_a_held_node_takes_one_run_after_the_other(window: Window) -> None:
    job = window.session.hold(SITE)
    window.site.begin(job)
    for _ in range(2):
        model = window.start(Place(job=job), steps=50)
        assert model.where == "Test site"
        window.until_state(model, RunState.FINISHED)
        window.until_same(model)
    study = window.session.start_runs([RunSpec(exercise="stand-in", params={"steps": 50})] * 2, Place(job=job))
    for model in (window.session.runs[run] for run in study):
        window.until_state(model, RunState.FINISHED)
    assert window.session.jobs[job].runs[2:] == [*study]
    window.session.cancel(job)
    window.until(lambda: all(run.settled for run in window.session.runs.values()))
    with pytest.raises(ProblemError, match="allocation is over"):
        window.start(Place(job=job), steps=50)
    assert len(window.session.runs) == 4


def test_a_held_node_reads_the_sites_own_data_and_gets_no_file_of_this_computer(
    window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(Link, "ask", lambda _link, command: asked.append(command))
    job = window.session.hold(SITE)
    with pytest.raises(ProblemError, match="not to a held node"):
        window.session.start_run(RunSpec(exercise="stand-in", data="/my/set.npz"), Place(job=job, data="/my/set.npz"))
    window.session.start_run(RunSpec(exercise="stand-in", data="site:/their/set.npz"), Place(job=job))
    assert [command.spec.data for command in asked if isinstance(command, StartRun)] == ["/their/set.npz"]


def test_while_a_job_waits_the_same_is_tried_here_with_fewer_steps(window: Window) -> None:
    model = window.start(steps=1000)
    window.site.queue(window.job(model))
    small = window.session.runs[window.session.try_here(model.id)]
    window.until_state(small, RunState.FINISHED)
    assert (small.spec.params["steps"], small.where) == (100, "This computer")
    assert small.spec.name == "Stand-in (tried here)"
    assert model.state is RunState.QUEUED


def test_a_site_that_is_not_known_is_refused_and_nothing_is_left(window: Window) -> None:
    with pytest.raises(ProblemError, match="no site"):
        window.start(Place(site="nowhere"), steps=10)
    assert window.session.runs == {}
    assert window.session.jobs == {}
    assert list(window.places.mirrors.glob("*-*")) == []


def test_what_a_site_refuses_is_told_once_and_the_run_failed(new_window: Callable[[], Window]) -> None:
    from clew_gui.jobs.job import JobStage

    window = new_window()
    model = window.start(steps=10)
    found = Problem("scheduler.partition", "There is no partition 'huge'.")
    window.site.down = True  # as where nobody could log in
    for _ in range(2):
        window.site.news(window.job(model), JobStage.ENDED, problem=found)
    window.until_state(model, RunState.FAILED)
    assert model.reason == found.text
    assert window.problems == [found]
    assert new_window().sites == [], "what was never sent has left nothing: nobody logs in to look for it"


# --- What other programs send -----------------------------------------------------------------------------------------


def test_a_run_that_a_terminal_sends_is_followed_live_and_nobody_is_asked_to_log_in(
    window: Window, new_window: Callable[[], Window]
) -> None:
    terminal = new_window()
    there = terminal.start(**SLOW)
    job = terminal.job(there)
    window.until(lambda: there.id in window.session.runs, "the run in the other window")
    model = window.session.runs[there.id]
    assert (model.number, model.where, window.job(model)) == (there.number, "Test site", job)
    assert window.session.jobs[job].elsewhere
    assert (window.site.followed, window.site.unasked) == ([job], [job])
    terminal.site.begin(job)
    window.site.serve(job, terminal.site)
    window.until_state(model, RunState.RUNNING)
    step = model.history.fold.step
    window.until(lambda: model.history.fold.step > step + 20, "live points")
    terminal.session.stop(there.id)
    window.until_state(model, RunState.STOPPED)
    assert window.problems == []


def test_a_hold_and_the_runs_on_it_and_its_end_are_seen_elsewhere(
    window: Window, new_window: Callable[[], Window]
) -> None:
    terminal = new_window()
    job = terminal.session.hold(SITE)
    window.until(lambda: job in window.session.jobs, "the allocation in the other window")
    assert window.session.jobs[job].order.hold
    terminal.site.begin(job)
    window.site.serve(job, terminal.site)
    window.until(lambda: window.session.jobs[job].news.nodes == "node1", "its node")
    terminal.until(lambda: terminal.session.jobs[job].link.state is LinkState.LIVE)
    there = terminal.start(Place(site="test", job=job), steps=300)
    window.until(lambda: there.id in window.session.runs, "the run on it")
    window.until_state(window.session.runs[there.id], RunState.FINISHED)
    here = window.start(Place(site="test", job=job), steps=300)
    window.until_state(here, RunState.FINISHED)
    terminal.session.cancel(job)
    window.until(lambda: window.session.jobs[job].news.over, "its end")
    assert window.problems == []


def test_a_job_that_a_terminal_cancels_is_over_here_as_well(window: Window, new_window: Callable[[], Window]) -> None:
    terminal = new_window()
    model = window.start(steps=10)
    window.site.queue(window.job(model))
    terminal.until(lambda: model.id in terminal.session.runs, "the run in the other window")
    terminal.session.cancel(window.job(model))
    window.until_state(model, RunState.STOPPED)
    assert model.reason == "You cancelled the job."


def test_what_a_terminal_continues_goes_on_here_as_one_curve(window: Window, new_window: Callable[[], Window]) -> None:
    model = window.start(**SLOW)
    _stop_with_its_job(window, model)
    terminal = new_window()
    terminal.until(lambda: model.id in terminal.session.runs and terminal.session.runs[model.id].settled)
    terminal.session.continue_run(model.id)
    second = terminal.job(terminal.session.runs[model.id])
    window.until(lambda: window.job(model) == second, "the next job")
    terminal.site.begin(second, starts=time.time())
    window.site.serve(second, terminal.site)
    window.until(lambda: model.history.fold.attempt == 2 and model.history.fold.step > 40, "the second attempt")
    terminal.session.stop(model.id)
    window.until_state(model, RunState.STOPPED)
    steps = model.history.column("loss").steps.tolist()
    assert steps == list(range(len(steps)))


def test_a_refusal_of_what_a_terminal_sends_is_the_terminals(window: Window, new_window: Callable[[], Window]) -> None:
    terminal = new_window()
    there = terminal.start(steps=10)
    window.until(lambda: there.id in window.session.runs)
    found = Problem("scheduler.refused", "There is no partition lab.", "Choose another one.")
    terminal.site.news(terminal.job(there), JobStage.ENDED, found.text, problem=found)
    window.until_state(window.session.runs[there.id], RunState.FAILED)
    assert window.problems == []


def test_where_a_login_needs_a_person_its_jobs_say_so_until_there_is_one(window: Window) -> None:
    model = window.start(steps=10)
    job = window.session.jobs[window.job(model)]
    window.site.queue(job.id)
    window.until_state(model, RunState.QUEUED)
    assert job.locked is None
    window.site.refusal = Problem("ssh.person", "login asks for a one-time code.", "Log in.")
    window.until(lambda: job.locked == window.site.refusal, "the refusal")
    assert window.session.runs[job.runs[0]].logged_out
    window.site.log_in()
    window.until(lambda: job.locked is None, "the login")
    assert not window.session.runs[job.runs[0]].logged_out
