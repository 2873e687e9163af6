"""A site's manager without a network: what is sent and told, in which order, and what no trouble may end."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from clew_agent.supervisor.run_manager import write_refused
from clew_gui.jobs import procedure
from clew_gui.jobs.access import Deployer, SiteAccess
from clew_gui.jobs.job import EndRequest, JobOrder, JobStage, JobStatus
from clew_gui.jobs.job_book import BookLine, JobBook
from clew_gui.jobs.manager import JobManager
from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.schedulers.state import Phase
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.connection import Command, Finished
from clew_gui.ssh.prompts import AskOnce, Prompt, PromptKind
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.base.remedies import check_node
from clew_shared.journal.run_folder import RunFolder
from clew_shared.spec import RunSpec, from_toml
from tests.unit.fake_site import AGENT, AWAY, CLEW, Job, Login, NobodyHere, a_deployer, a_line, a_site, an_access

LIMIT_S = 20.0


class Office:
    """A laptop with a book, and a program with a manager."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "jobs.jsonl"
        self.login = Login()
        self.book = JobBook(self.path)
        self.told: list[JobStatus] = []

    def manager(
        self,
        deployer: Deployer | None = None,
        site: Callable[[], SiteConnection] | None = None,
        sure: float = 0.2,
    ) -> JobManager:
        self.book = JobBook(self.path)
        opened = site if site is not None else lambda: a_line(self.login)
        manager = JobManager(self.book, lambda name: an_access(opened, deployer, name), lambda _name: "Lab", sure)
        manager.listen = self.told.append
        return manager

    def stages(self, job: str) -> list[JobStage]:
        return list(dict.fromkeys(news.stage for news in self.told if news.job == job))

    def texts(self, job: str) -> list[str]:
        return [news.text for news in self.told if news.job == job]


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


@pytest.fixture
def manager(office: Office) -> Iterator[JobManager]:
    with closing(office.manager()) as manager:
        yield manager


def an_order(**fields: object) -> JobOrder:
    specs = (RunSpec(exercise="softmax", run=str(uuid.uuid4())),)
    usual = {"runs": specs, "allocation": AllocationRequest(time="10")}
    return JobOrder(job=str(uuid.uuid4()), site="lab", **(usual | fields))  # type: ignore[arg-type]


def until(manager: JobManager, true: Callable[[], bool]) -> None:
    """Wait for it; whoever waits in the manager need not wait long."""
    deadline = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        manager.wake(manager.watch_of("lab"))
        time.sleep(0.01)


def reach(manager: JobManager, job: str, stage: JobStage) -> JobStatus:
    until(manager, lambda: manager.job(job).news.stage is stage)
    return manager.job(job).news


# --- Sending ----------------------------------------------------------------------------------------------------------


def test_an_order_is_in_the_book_before_anything_is_sent(office: Office) -> None:
    order, seen = an_order(), []

    def opened() -> SiteConnection:
        seen.append(JobBook(office.path).order(order.job))
        return a_line(office.login)

    with closing(office.manager(site=opened)) as manager:
        manager.submit(order)
        reach(manager, order.job, JobStage.QUEUED)
    assert seen == [order]
    assert JobBook(office.path).title(order.job) == "Lab"


def test_an_order_that_cannot_be_noted_is_not_sent(office: Office, manager: JobManager) -> None:
    office.path.mkdir()
    with pytest.raises(ProblemError, match="so it is not sent"):
        manager.submit(an_order())
    assert office.login.commands == []


def test_specs_and_script_lie_there_before_the_job_is_sent(office: Office, manager: JobManager) -> None:
    order, login, there = an_order(), office.login, {}
    login.before["sbatch"] = lambda: there.update(login.files)
    manager.submit(order)
    news = reach(manager, order.job, JobStage.QUEUED)
    assert news.id == "1"
    folder = f"{CLEW}/jobs/{order.job}"
    run = order.runs[0].run
    assert from_toml(there[f"{folder}/runs/{run}.toml"].decode()) == order.runs[0]
    assert there[f"{folder}/job.sh"].decode() == manager.preview(order)
    assert login.modes[f"{folder}/job.sh"] == 0o700
    until(manager, lambda: office.stages(order.job)[-1] is JobStage.QUEUED)  # told behind it became known
    assert office.stages(order.job) == [JobStage.CONNECTING, JobStage.PREPARING, JobStage.SUBMITTING, JobStage.QUEUED]


def test_the_script_serves_the_job_with_its_home_and_lease(office: Office, manager: JobManager) -> None:
    script = manager.preview(an_order(exercises="~/mine"))
    assert f"exec /site/python -m clew_agent serve --job --exercises {CLEW}/staged/exercises <" in script
    assert f"export CLEW_HOME={CLEW}" in script
    assert "export PYTHONPATH=/there" in script
    assert "--idle inf" in manager.preview(an_order(hold=True))


def test_ports_and_the_courses_data_are_the_sites_own(office: Office) -> None:
    site = a_site(ports=(5000, 5010), data="/course/data")
    with closing(office.manager(site=lambda: a_line(office.login, site))) as manager:
        script = manager.preview(an_order())
    assert "--ports 5000-5010" in script
    assert "export CLEW_COURSE_DATA=/course/data" in script


def test_data_that_were_brought_are_used_from_there(office: Office, manager: JobManager) -> None:
    specs = tuple(
        RunSpec(exercise="softmax", run=str(uuid.uuid4()), data=data) for data in ("/my/set.npz", "digits", "site:/x")
    )
    order = an_order(runs=specs, data="/my/set.npz")
    manager.submit(order)
    reach(manager, order.job, JobStage.QUEUED)
    files = [office.login.files[f"{CLEW}/jobs/{order.job}/runs/{spec.run}.toml"].decode() for spec in specs]
    assert [from_toml(text).data for text in files] == [f"{CLEW}/staged/abc/set.npz", "digits", "/x"]


def test_what_the_scheduler_refuses_is_over(office: Office, manager: JobManager) -> None:
    office.login.refusal = "invalid partition specified: nosuch"
    order = an_order()
    manager.submit(order)
    news = reach(manager, order.job, JobStage.ENDED)
    assert news.problem is not None
    assert news.problem.code == "scheduler.partition"
    until(manager, lambda: JobBook(office.path).open_jobs() == ())
    assert office.login.folders() == set(), "nothing is left there"


PARTITIONS = "debug*|1:00:00|3|gpu:4|(null)|up\nshort|2:00|2|gpu:4|(null)|up\nlong|1-00:00:00|1|(null)|(null)|up\n"


def test_more_time_than_the_partition_allows_is_refused_before_anything_is_brought_there(office: Office) -> None:
    def stage(line: SiteConnection, path: str, say: Callable[[str], None]) -> str:
        raise AssertionError("nothing is brought for a job that would never start")

    office.login.partitions = PARTITIONS
    order = an_order(allocation=AllocationRequest(partition="short", time="30"), data="/my/set.npz")
    with closing(office.manager(a_deployer(stage=stage))) as manager:
        manager.submit(order)
        news = reach(manager, order.job, JobStage.ENDED)
    assert news.problem is not None
    assert (news.problem.code, news.problem.where) == ("scheduler.time", "time")
    assert news.problem.text == "The job asks for 30 minutes; the limit of short is 2 minutes."
    ways = "Ask for at most 2 minutes, or choose another partition: debug, long."
    assert news.problem.hint == ways
    assert (office.login.sent, office.login.files) == (0, {}), "and nothing is left there"


@pytest.mark.parametrize(
    "asked",
    [
        {"partition": "short", "time": "2"},
        {"partition": "short,debug", "time": "30"},
        {"partition": "nosuch", "time": "30"},
        {"partition": "short", "qos": "long", "time": "30"},
        {"partition": "short"},
        {"time": "1h"},
    ],
)
def test_what_some_partition_or_a_qos_may_allow_is_sent(
    office: Office, manager: JobManager, asked: dict[str, str]
) -> None:
    office.login.partitions = PARTITIONS
    order = an_order(allocation=AllocationRequest(**asked))  # type: ignore[arg-type]
    manager.submit(order)
    assert reach(manager, order.job, JobStage.QUEUED).id == "1"


def test_what_the_agent_would_refuse_on_the_node_is_not_sent(office: Office) -> None:
    asked: list[object] = []

    def check(line: SiteConnection, environment: Mapping[str, str], runs: Sequence[RunSpec], own: bool) -> None:
        asked.append((environment["CLEW_HOME"], environment["PYTHONPATH"], [spec.data for spec in runs], own))
        raise problem("data.missing", "It is not there.", "Bring it.", "data")

    spec = RunSpec(exercise="softmax", run=str(uuid.uuid4()), data="site:/x")
    order = an_order(runs=(spec,), exercises="~/mine")
    with closing(office.manager(a_deployer(check_runs=check))) as manager:
        manager.submit(order)
        news = reach(manager, order.job, JobStage.ENDED)
    assert news.problem is not None
    assert (news.problem.code, news.id) == ("data.missing", "")
    assert asked == [(CLEW, "/there", ["/x"], True)], "as the site reads it, in the agent's own environment"
    assert (office.login.sent, office.login.files) == (0, {})


@pytest.mark.parametrize("code", ["ssh.auth", "ssh.reach", "site.consent"])
def test_who_asks_for_a_job_learns_at_once_that_the_site_lets_nobody_in(office: Office, code: str) -> None:
    office.login.away = problem(code, "It is closed.")
    order = an_order()
    with closing(office.manager()) as manager:
        manager.submit(order)
        news = reach(manager, order.job, JobStage.ENDED)
    assert news.problem is not None
    assert news.problem.code == code


def test_a_network_that_goes_away_meanwhile_is_waited_for(office: Office) -> None:
    def stage(line: SiteConnection, path: str, say: Callable[[str], None]) -> str:
        if len(lost) < 2:
            lost.append(path)
            raise AWAY
        return "/staged"

    lost: list[str] = []
    order = an_order(data="/my/set.npz")
    with closing(office.manager(a_deployer(stage=stage))) as manager:
        manager.submit(order)
        reach(manager, order.job, JobStage.QUEUED)
    assert "Lab does not answer now." in office.texts(order.job)
    assert len(lost) == 2
    assert office.login.sent == 1


@pytest.mark.parametrize("hides", [False, True], ids=["listed", "not listed"])
def test_an_answer_that_was_lost_is_looked_for_and_nothing_is_sent_twice(
    office: Office, manager: JobManager, hides: bool
) -> None:
    office.login.hides = hides

    def lose() -> None:
        office.login.after.clear()
        raise AWAY

    office.login.after["sbatch"] = lose
    order = an_order()
    manager.submit(order)
    news = reach(manager, order.job, JobStage.QUEUED)
    assert (news.id, office.login.sent, len(office.login.jobs)) == ("1", 1, 1)


def test_what_did_not_arrive_is_sent_again_when_it_was_looked_for_twice(office: Office, manager: JobManager) -> None:
    def lose() -> None:
        office.login.before.clear()
        raise AWAY

    office.login.before["sbatch"] = lose
    order = an_order()
    manager.submit(order)
    reach(manager, order.job, JobStage.QUEUED)
    looks = [words for words in office.login.commands if f"--name=clew-{order.job}" in words]
    assert (office.login.sent, len(office.login.jobs), len(looks)) == (2, 1, 2)


def test_a_long_staging_delays_no_question_about_another_job(office: Office) -> None:
    staging, go_on = threading.Event(), threading.Event()

    def stage(line: SiteConnection, path: str, say: Callable[[str], None]) -> str:
        staging.set()
        assert go_on.wait(LIMIT_S)
        return "/staged"

    first, second = an_order(), an_order(data="/my/set.npz")
    with closing(office.manager(a_deployer(stage=stage))) as manager:
        manager.submit(first)
        reach(manager, first.job, JobStage.QUEUED)
        manager.submit(second)
        assert staging.wait(LIMIT_S)
        office.login.jobs["1"].state, office.login.jobs["1"].nodes = "RUNNING", "node1"
        news = reach(manager, first.job, JobStage.RUNNING)
        assert (news.text, manager.job(second.job).news.stage) == ("The job runs on node1.", JobStage.PREPARING)
        go_on.set()
        reach(manager, second.job, JobStage.QUEUED)


def test_a_window_waits_for_no_call_to_the_site(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is called while somebody draws, during a call that does not come back."""
    asked, go_on, late = threading.Event(), threading.Event(), list[str]()
    honest = office.login.run

    def run(command: Command, *, stdin: bytes = b"", timeout: float = 30.0) -> Finished:
        asked.set()
        if not go_on.wait(LIMIT_S):
            late.append(str(command))
        return honest(command, stdin=stdin, timeout=timeout)

    first, second = an_order(), an_order()
    with closing(office.manager()) as manager:
        manager.submit(first)
        reach(manager, first.job, JobStage.QUEUED)
        monkeypatch.setattr(office.login, "run", run)
        manager.wake(manager.watch_of("lab"))
        assert asked.wait(LIMIT_S)
        manager.submit(second)
        target = manager.target(first.job)
        assert not target.authorize("viewer", "key")
        assert (target.find(), target.files(over=False), target.route) == (None, None, "")
        assert target.while_absent() == manager.job(first.job).news.text
        for call in (manager.follow, manager.noted):
            call(first.job)
        for request in EndRequest:
            manager.end(first.job, request)
        manager.job(first.job).heard()
        manager.job(first.job).fell_silent()
        manager.wake(manager.watch_of("lab"))
        assert manager.refusals() == {}
        assert late == []
        go_on.set()
        until(manager, lambda: manager.job(first.job).news.over)


def test_a_job_that_is_cancelled_before_it_was_sent_is_not_sent(office: Office) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def ensure(line: SiteConnection, say: Callable[[str], None]) -> object:
        begun.set()
        assert go_on.wait(LIMIT_S)
        return AGENT

    order = an_order()
    with closing(office.manager(a_deployer(ensure_agent=ensure))) as manager:
        manager.submit(order)
        assert begun.wait(LIMIT_S)
        manager.end(order.job, EndRequest.CANCEL)
        go_on.set()
        news = reach(manager, order.job, JobStage.ENDED)
    assert news.text == "You cancelled the job; nothing was sent."
    assert office.login.sent == 0
    assert office.login.folders() == set()


def test_a_job_that_is_cancelled_while_its_data_are_brought_is_given_up(office: Office) -> None:
    begun = threading.Event()

    def stage(line: SiteConnection, path: str, say: Callable[[str], None]) -> str:
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            say("Bringing it.")
            begun.set()
            time.sleep(0.01)
        return "/staged"

    order = an_order(data="/my/set.npz")
    with closing(office.manager(a_deployer(stage=stage))) as manager:
        manager.submit(order)
        assert begun.wait(LIMIT_S)
        manager.end(order.job, EndRequest.CANCEL)
        news = reach(manager, order.job, JobStage.ENDED)
    assert news.text == "You cancelled the job; nothing was sent."


def test_of_a_job_that_is_cancelled_in_the_queue_nothing_is_left_and_of_one_that_began_all(
    office: Office, manager: JobManager
) -> None:
    first, second = sent(office, manager), sent(office, manager)
    office.login.files[f"{CLEW}/jobs/{second.job}/job.log"] = b"It began."
    for order in (first, second):
        manager.end(order.job, EndRequest.CANCEL)
        reach(manager, order.job, JobStage.ENDED)
    assert office.login.folders() == {second.job}


def test_a_job_of_which_nobody_knows_whether_it_was_sent_keeps_its_folder(office: Office) -> None:
    def lose() -> None:
        raise AWAY

    office.login.before["sbatch"] = lose
    order = an_order()
    manager = office.manager()
    with closing(manager):
        manager.submit(order)
        until(manager, lambda: office.login.sent > 0)
    assert office.login.folders() == {order.job}


def test_the_scheduler_is_asked_at_once_and_there_is_word_of_each_job(office: Office) -> None:
    with closing(office.manager()) as manager:
        orders = [sent(office, manager) for _ in range(3)]
    office.login.jobs["1"].state, office.login.jobs["1"].nodes = "RUNNING", "node1"
    office.login.jobs["2"].state = "TIMEOUT"
    office.login.away = None
    with closing(office.manager()) as manager:  # a later program, whose book is old
        assert manager.ask_now([order.job for order in orders], LIMIT_S)
        stages = [manager.job(order.job).news.stage for order in orders]
        assert stages == [JobStage.RUNNING, JobStage.ENDED, JobStage.QUEUED]
        office.login.silent = True
        assert manager.ask_now([order.job for order in orders], LIMIT_S)
        found = manager.job(orders[0].job).news.problem
        assert found is not None
        assert found.code == "scheduler.silent"
        office.login.away = AWAY
        assert manager.ask_now([orders[2].job], LIMIT_S), "that nobody can be asked is word as well"
    assert [JobBook(office.path).news(order.job).stage for order in orders] == stages


# --- While it waits and runs ------------------------------------------------------------------------------------------


def sent(office: Office, manager: JobManager, **fields: object) -> JobOrder:
    order = an_order(**fields)
    manager.submit(order)
    reach(manager, order.job, JobStage.QUEUED)
    return order


def test_the_reason_and_the_expected_begin_are_told(office: Office, manager: JobManager) -> None:
    order = sent(office, manager)
    office.login.jobs["1"].start = "2099-01-01T12:00:00"
    until(manager, lambda: manager.job(order.job).news.starts is not None)
    assert manager.job(order.job).news.text.startswith("Other jobs come first. It is expected to begin on ")


def test_a_limit_is_told_with_its_number(office: Office, manager: JobManager) -> None:
    order = sent(office, manager)
    office.login.jobs["1"].reason = "PartitionTimeLimit"
    until(manager, lambda: manager.job(order.job).news.blocked)
    wanted = "It will not start: the partition's limit is 2 minutes, and it asks for 10 minutes."
    assert manager.job(order.job).news.text == wanted


@pytest.mark.parametrize(
    ("why", "text", "hint"),
    [
        ("absent", "The agent's program could not be started on node1: tf/2.", "Name a python or venv in the site"),
        ("module", "The module tf/2 could not be loaded on node1.", "Name a module in the site"),
    ],
)
def test_an_agent_that_cannot_be_started_on_a_node_has_the_doctors_hint(
    office: Office, manager: JobManager, why: str, text: str, hint: str
) -> None:
    order = sent(office, manager)
    office.login.files[f"{CLEW}/jobs/{order.job}/record.0"] = a_record(order.job, "ended", why, "tf/2")
    office.login.jobs["1"].state, office.login.jobs["1"].nodes = "FAILED", "node1"
    found = reach(manager, order.job, JobStage.ENDED).problem
    assert found is not None
    assert found.text == text
    assert found.hint.startswith(f"{hint} that nodes have as well.")
    assert f"jobs/{order.job}/job.log on Lab" in found.hint
    assert found.remedies == (check_node("lab"),)


def test_a_scheduler_that_does_not_answer_ends_nothing(office: Office, manager: JobManager) -> None:
    order = sent(office, manager)
    office.login.silent = True
    until(manager, lambda: manager.job(order.job).news.problem is not None)
    found = manager.job(order.job).news
    assert found.problem is not None
    assert (found.stage, found.problem.code) == (JobStage.QUEUED, "scheduler.silent")
    office.login.silent = False
    until(manager, lambda: manager.job(order.job).news.problem is None)


def test_no_network_ends_nothing(office: Office, manager: JobManager) -> None:
    order = sent(office, manager)
    office.login.away = AWAY
    until(manager, lambda: manager.job(order.job).news.problem is not None)
    assert manager.job(order.job).news.text == "Lab does not answer now. The job keeps waiting."
    office.login.away = None
    until(manager, lambda: manager.job(order.job).news.problem is None)
    assert not manager.job(order.job).news.over


def test_an_agent_that_is_heard_takes_a_trouble_away(office: Office, manager: JobManager) -> None:
    order = sent(office, manager)
    office.login.jobs["1"].state = "RUNNING"
    reach(manager, order.job, JobStage.RUNNING)
    office.login.silent = True
    until(manager, lambda: manager.job(order.job).news.problem is not None)
    manager.job(order.job).heard()
    assert manager.job(order.job).news.problem is None
    told, asked = len(office.told), len(office.login.commands)
    until(manager, lambda: len(office.login.commands) > asked + 3)
    assert not [news.text for news in office.told[told:] if news.problem is not None], "not in turn with its word"
    manager.job(order.job).fell_silent()
    until(manager, lambda: manager.job(order.job).news.problem is not None)


def test_a_job_that_was_put_back_waits_again(office: Office, manager: JobManager) -> None:
    order = sent(office, manager)
    office.login.jobs["1"].state = "RUNNING"
    reach(manager, order.job, JobStage.RUNNING)
    office.login.jobs["1"].state, office.login.jobs["1"].reason = "PENDING", "BeginTime"
    news = reach(manager, order.job, JobStage.QUEUED)
    assert news.text == "The job was put back into the queue, and will start again."


def test_who_cancelled_a_login_is_not_asked_again_until_doing_something(office: Office) -> None:
    """A site with one-time codes: nobody wants to be asked for one every few seconds."""

    class Asks(Login):
        asked = 0

        def connected(self) -> Login:
            if self.away is not None:
                self.asked += 1
                raise problem("ssh.cancelled", "The login to student@login was cancelled.")
            return super().connected()

    office.login = login = Asks()
    with closing(office.manager()) as manager:
        order = sent(office, manager)
        login.away = AWAY
        until(manager, lambda: login.asked > 0)
        wait_for_all = manager.job(order.job).news
        before = login.asked
        for _ in range(20):
            with pytest.raises(ProblemError, match="was cancelled"):
                manager.watch_of("lab").access.connected()
        assert login.asked <= before + 1  # the last wake of this test may have been answered meanwhile
        assert not wait_for_all.over
        login.away = None
        until(manager, lambda: manager.job(order.job).news.problem is None)


# --- How it ends ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "phase", "code"),
    [
        ("COMPLETED", Phase.COMPLETED, ""),
        ("OUT_OF_MEMORY", Phase.OUT_OF_MEMORY, "job.memory"),
        ("TIMEOUT", Phase.TIMED_OUT, "job.time"),
        ("NODE_FAIL", Phase.NODE_FAILED, "job.node"),
        ("CANCELLED", Phase.CANCELLED, "job.cancelled"),
        ("FAILED", Phase.FAILED, "job.failed"),
    ],
)
def test_each_end_has_its_own_word(office: Office, manager: JobManager, word: str, phase: Phase, code: str) -> None:
    order = sent(office, manager)
    office.login.jobs["1"].state, office.login.jobs["1"].nodes = word, "node1"
    news = reach(manager, order.job, JobStage.ENDED)
    assert (news.phase, news.problem.code if news.problem is not None else "") == (phase, code)
    until(manager, lambda: JobBook(office.path).news(order.job).phase is phase)


def a_record(job: str, state: str, why: str = "", detail: str = "", began: int = 1) -> bytes:
    lines = {"format": 1, "job": job, "id": 1, "host": "node1", "restart": 0, "starts": 1, "began": began, "until": 0}
    rest = {"written": 2, "state": state, "why": why, "detail": detail, "code": 3}
    return "".join(f"{name}={value}\n" for name, value in (lines | rest).items()).encode()


def test_a_job_that_the_scheduler_forgot_ended_as_its_keeper_says(office: Office, manager: JobManager) -> None:
    order = sent(office, manager)
    office.login.files[f"{CLEW}/jobs/{order.job}/record.0"] = a_record(order.job, "running")
    office.login.files[f"{CLEW}/jobs/{order.job}/record.1"] = a_record(order.job, "ended", "finished")
    del office.login.jobs["1"]
    assert reach(manager, order.job, JobStage.ENDED).phase is Phase.COMPLETED


def test_a_job_that_nobody_knows_any_more_is_lost_only_after_a_second_look(office: Office) -> None:
    with closing(office.manager(sure=3.0)) as manager:
        order = sent(office, manager)
        job = office.login.jobs.pop("1")
        asked = len(office.login.commands)
        until(manager, lambda: len(office.login.commands) > asked + 1)
        assert not manager.job(order.job).news.over
        office.login.jobs["1"] = job  # a controller that has just started anew
        job.state = "RUNNING"
        reach(manager, order.job, JobStage.RUNNING)
        del office.login.jobs["1"]
        news = reach(manager, order.job, JobStage.LOST)
    assert (news.phase, news.problem.code if news.problem is not None else "") == (Phase.GONE, "job.lost")


@pytest.mark.parametrize("state", ["RUNNING", "PENDING", "A_WORD_OF_TOMORROW"])
def test_an_empty_list_ends_no_job_that_the_scheduler_has(office: Office, manager: JobManager, state: str) -> None:
    order = sent(office, manager)
    office.login.files[f"{CLEW}/jobs/{order.job}/record.0"] = a_record(order.job, "running")
    office.login.hides, office.login.jobs["1"].state = True, state
    asked = len(office.login.commands)
    until(manager, lambda: sum("--jobs=1" in words for words in office.login.commands[asked:]) > 3)
    assert not any(news.over for news in office.told)
    del office.login.jobs["1"]
    reach(manager, order.job, JobStage.LOST)


def test_a_job_that_is_held_after_it_ran_is_watched_until_it_runs_again(office: Office, manager: JobManager) -> None:
    order = sent(office, manager)
    job = office.login.jobs["1"]
    job.state = "RUNNING"
    reach(manager, order.job, JobStage.RUNNING)
    office.login.files[f"{CLEW}/jobs/{order.job}/record.0"] = a_record(order.job, "ended", "terminated")
    job.state, job.reason, job.start = "SPECIAL_EXIT", "job requeued in held state", "2099-01-01T12:00:00"
    news = reach(manager, order.job, JobStage.QUEUED)
    assert news.blocked
    assert news.text == "It will not start: it was put back into the queue, and is held. `scontrol release` lets it go."
    assert news.starts is None
    job.state = "RUNNING"
    reach(manager, order.job, JobStage.RUNNING)


def test_a_state_that_is_not_known_changes_only_what_is_said(office: Office, manager: JobManager) -> None:
    order = sent(office, manager)
    job = office.login.jobs["1"]
    job.state = "RUNNING"
    reach(manager, order.job, JobStage.RUNNING)
    job.state = "REVOKED"
    until(manager, lambda: "REVOKED" in manager.job(order.job).news.text)
    assert manager.job(order.job).news.stage is JobStage.RUNNING
    job.state, job.reason = "PENDING", "BeginTime"
    assert reach(manager, order.job, JobStage.QUEUED).text.startswith("The job was put back into the queue")


def test_an_account_of_the_start_files_is_used_where_the_site_names_none_and_said(
    office: Office, manager: JobManager
) -> None:
    office.login.exported["SBATCH_ACCOUNT"] = "thesis"
    order = sent(office, manager)
    script = office.login.files[f"{CLEW}/jobs/{order.job}/job.sh"].decode()
    assert "#SBATCH --account=thesis\n" in script
    assert "Goes to Slurm on Lab, charged to thesis, which SBATCH_ACCOUNT names there." in office.texts(order.job)
    other = sent(office, manager, allocation=AllocationRequest(time="10", account="course"))
    assert "#SBATCH --account=course\n" in office.login.files[f"{CLEW}/jobs/{other.job}/job.sh"].decode()
    assert "Goes to Slurm on Lab." in office.texts(other.job)


@pytest.mark.parametrize(("began", "stage"), [(1, JobStage.ENDED), (9**11, JobStage.LOST)], ids=["in it", "before it"])
def test_a_job_whose_keeper_was_killed_has_ended_if_its_runs_ended_in_it(
    office: Office, manager: JobManager, tmp_path: Path, began: int, stage: JobStage
) -> None:
    order = sent(office, manager)
    run = RunFolder(tmp_path / order.runs[0].run)
    write_refused(run, b"", Problem("test", "It has ended."))
    office.login.files[f"{CLEW}/runs/{order.runs[0].run}/journal.0001"] = run.journal(1).read_bytes()
    office.login.files[f"{CLEW}/jobs/{order.job}/record.0"] = a_record(order.job, "running", began=began)
    del office.login.jobs["1"]
    until(manager, lambda: manager.job(order.job).news.over)
    assert manager.job(order.job).news.stage is stage


def test_who_cancelled_is_told(office: Office, manager: JobManager) -> None:
    order = sent(office, manager)
    manager.end(order.job, EndRequest.CANCEL)
    news = reach(manager, order.job, JobStage.ENDED)
    assert (news.text, news.problem) == ("You cancelled the job.", None)
    assert "The job is being cancelled." in office.texts(order.job)


def test_a_request_to_end_waits_for_the_network(office: Office, manager: JobManager) -> None:
    order = sent(office, manager, hold=True)
    office.login.away = AWAY
    manager.end(order.job, EndRequest.LET_GO)
    until(manager, lambda: manager.job(order.job).news.problem is not None)
    office.login.away = None
    assert reach(manager, order.job, JobStage.ENDED).text == "You gave the allocation back."


def test_a_scheduler_that_cannot_end_a_job_is_asked_again(office: Office, manager: JobManager) -> None:
    order = sent(office, manager)
    office.login.silent = True
    manager.end(order.job, EndRequest.CANCEL)
    until(manager, lambda: any("could not be ended: slurm_load_jobs error" in text for text in office.texts(order.job)))
    office.login.silent = False
    assert reach(manager, order.job, JobStage.ENDED).text == "You cancelled the job."


def test_who_cancelled_is_told_also_if_that_was_another_program(office: Office, manager: JobManager) -> None:
    order = sent(office, manager)
    JobBook(office.path).note_end_request(order.job, EndRequest.CANCEL)
    office.login.jobs["1"].state = "CANCELLED"
    news = reach(manager, order.job, JobStage.ENDED)
    assert (news.text, news.problem) == ("You cancelled the job.", None)


# --- After the program was started anew -------------------------------------------------------------------------------


def noted(office: Office, stage: JobStage, **news: object) -> JobOrder:
    """A job that another program wrote into the book."""
    order = an_order()
    lines = [
        BookLine(job=order.job, order=order, title="Lab"),
        BookLine(job=order.job, news=JobStatus(job=order.job, stage=stage, **news)),  # type: ignore[arg-type]
    ]
    with office.path.open("ab") as file:
        file.writelines(msgspec.json.encode(line) + b"\n" for line in lines)
    return order


def test_a_job_of_the_book_is_watched_again(office: Office) -> None:
    with closing(office.manager()) as before:
        order = sent(office, before)
    office.login.away = None
    office.login.jobs["1"].state = "RUNNING"
    with closing(office.manager()) as manager:
        manager.follow(order.job)
        reach(manager, order.job, JobStage.RUNNING)
        office.login.jobs["1"].state, office.login.jobs["1"].nodes = "COMPLETED", "node1"
        reach(manager, order.job, JobStage.ENDED)
    assert office.login.sent == 1


def test_a_submission_whose_answer_nobody_heard_is_found_by_its_name(office: Office) -> None:
    order = noted(office, JobStage.SUBMITTING)
    with closing(office.manager()) as manager:
        office.login.jobs["7"] = msgspec.structs.replace(_job(order), state="RUNNING", nodes="node2")
        manager.follow(order.job)
        assert reach(manager, order.job, JobStage.RUNNING).id == "7"
    assert office.login.sent == 0


def test_a_submission_that_never_arrived_is_told_and_not_sent_behind_ones_back(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(procedure, "CALL_LIMIT_S", 0.0)
    order = noted(office, JobStage.SUBMITTING)
    with closing(office.manager()) as manager:
        manager.follow(order.job)
        news = reach(manager, order.job, JobStage.ENDED)
    assert news.problem is not None
    assert (news.problem.code, office.login.sent) == ("job.unsent", 0)


def test_what_was_never_sent_needs_no_connection_to_know(office: Office) -> None:
    order = noted(office, JobStage.PREPARING)
    with closing(office.manager()) as manager:
        manager.follow(order.job)
        news = reach(manager, order.job, JobStage.ENDED)
    assert news.problem is not None
    assert (news.problem.code, office.login.commands) == ("job.unsent", [])


def test_what_another_program_is_sending_is_left_to_it(office: Office) -> None:
    order = noted(office, JobStage.PREPARING)
    lock = JobBook(office.path).lock(order.job)
    assert lock is not None
    with closing(office.manager()) as manager:
        manager.follow(order.job)
        until(manager, lambda: bool(office.told))
        assert manager.job(order.job).news.stage is JobStage.PREPARING
        office.login.jobs["3"] = _job(order)
        JobBook(office.path).note_news(JobStatus(job=order.job, stage=JobStage.QUEUED, id="3"))
        assert reach(manager, order.job, JobStage.QUEUED).id == "3"
        office.login.jobs["3"].state = "RUNNING"
        reach(manager, order.job, JobStage.RUNNING)
    lock.remove()
    assert office.login.sent == 0


def _job(order: JobOrder) -> Job:
    return Job(name=f"clew-{order.job}")


def test_a_manager_that_closes_leaves_its_jobs_alone(office: Office) -> None:
    with closing(office.manager()) as manager:
        order = sent(office, manager)
    assert office.login.jobs["1"].state == "PENDING"
    assert JobBook(office.path).news(order.job).stage is JobStage.QUEUED


# --- Another program --------------------------------------------------------------------------------------------------


def test_what_another_program_writes_of_a_job_counts_as_far_as_it_is_ahead(office: Office, manager: JobManager) -> None:
    order, other = an_order(), JobBook(office.path)
    manager.submit(order)
    reach(manager, order.job, JobStage.QUEUED)
    other.refresh()
    late = msgspec.structs.replace(other.news(order.job), stage=JobStage.PREPARING, id="")
    other.note_news(late)
    office.book.refresh()
    manager.noted(order.job)
    assert manager.job(order.job).news.stage is JobStage.QUEUED
    other.note_end_request(order.job, EndRequest.CANCEL)
    office.book.refresh()
    manager.noted(order.job)
    assert "being cancelled" in "".join(office.texts(order.job))
    other.note_news(msgspec.structs.replace(late, id="1", stage=JobStage.ENDED, text="You cancelled the job."))
    office.book.refresh()
    manager.noted(order.job)
    assert (manager.job(order.job).news.stage, office.texts(order.job)[-1]) == (
        JobStage.ENDED,
        "You cancelled the job.",
    )


def test_a_job_of_another_program_is_followed_without_asking_anybody(office: Office) -> None:
    asker = AskOnce(NobodyHere())
    access = SiteAccess("lab", lambda _access: a_line(login), asker, quiet=True, deployer=a_deployer())

    class Asking(Login):
        def connected(self) -> Login:
            with access.dialling():
                access.ask(Prompt(kind=PromptKind.CODE, title="login", text="Code:"))
            return super().connected()

    order, login = an_order(), Asking()
    login.away = AWAY  # not connected yet
    JobBook(office.path).note_order(order)
    JobBook(office.path).note_news(JobStatus(job=order.job, stage=JobStage.QUEUED, id="7"))
    with closing(JobManager(JobBook(office.path), lambda _name: access, str, sure=0.2)) as manager:
        manager.follow(order.job, asked=False)
        until(manager, lambda: bool(manager.refusals()))
        assert manager.refusals()["lab"].code == "ssh.person"
        until(manager, lambda: manager.job(order.job).news.problem is not None)
        assert manager.job(order.job).news.stage is JobStage.QUEUED, "nothing is over because of it"
