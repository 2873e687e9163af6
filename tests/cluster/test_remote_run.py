"""The thread, from the laptop: an order is sent, its agent is reached through the login node and otherwise, its journal
comes as bytes of the agent or as a file, and what happens to the job meanwhile is told as it is."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
import zmq

from clew_gui.jobs.access import SiteAccess
from clew_gui.jobs.agent_route import AgentRoute, read_address
from clew_gui.jobs.job import EndRequest, JobOrder, JobStage, JobStatus
from clew_gui.jobs.job_book import job_book
from clew_gui.jobs.manager import JobManager
from clew_gui.nodes.routes import RouteFinder, RouteKind
from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.schedulers.job import JobRef
from clew_gui.schedulers.state import Phase
from clew_gui.sites.consent import consents, words_of
from clew_gui.sites.site import Site
from clew_gui.sites.site_connection import SiteConnection, open_connection
from clew_gui.ssh.prompts import AskOnce, Prompt, Prompter, PromptKind
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec
from clew_shared.wire.channel import Channel, KeyPair
from clew_shared.wire.messages import Fetch, Fetched, GetStatus, Hello, Refused, Shutdown, Status, Welcome
from tests.cluster.journey import stand_in
from tests.cluster.mini import LIMIT_S, MiniCluster

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(300)]
ANSWER_S = 60.0
"""The first run imports TensorFlow, on a busy machine."""


class Agrees(Prompter):
    """A person who has seen the fingerprints and knows no password."""

    def ask(self, prompt: Prompt) -> str | None:
        return "yes" if prompt.kind is PromptKind.CONFIRM else None


def wait_until(true: Callable[[], bool], what: str = "it did not come about", limit_s: float = LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class Laptop:
    """A laptop's files, and managers that use them as programs do, one after the other."""

    def __init__(self, cluster: MiniCluster, folder: Path) -> None:
        self.places = Places(home=folder / "home", private=folder / "private")
        self.heard: list[JobStatus] = []
        home = Path(cluster.info()["laptop_home"])
        self.site = Site(
            title="Mini cluster",
            host="10.77.0.1",
            user="student",
            key=str(home / ".ssh/id_ed25519"),
            scheduler="slurm",
            modules=("tensorflow",),
            prologue=stand_in(cluster.student_home()),
            allocation=AllocationRequest(time="10"),
        )
        consents(self.places).give(words_of(self.site))

    def line(self, site: Site | None = None) -> SiteConnection:
        """A further line to the site."""
        return open_connection("mini", site or self.site, self.places, AskOnce(Agrees()))

    @contextmanager
    def manager(self, *jobs: str, site: Site | None = None) -> Iterator[JobManager]:
        """A program that has just been started, and follows ``jobs``."""
        access = SiteAccess("mini", lambda _access: self.line(site), AskOnce(Agrees()))
        title = (site or self.site).title
        with closing(JobManager(job_book(self.places), lambda _name: access, lambda _name: title)) as manager:
            manager.listen = self.heard.append
            for job in jobs:
                manager.follow(job)
            yield manager

    def order(self, *runs: RunSpec, hold: bool = False, **asked: object) -> JobOrder:
        allocation = AllocationRequest(**{"time": "10", **asked})  # type: ignore[arg-type]
        return JobOrder(job=str(uuid.uuid4()), site="mini", allocation=allocation, runs=runs, hold=hold)


def a_run(steps: int = 200) -> RunSpec:
    return RunSpec(exercise="linear-regression", run=str(uuid.uuid4()), params={"steps": steps})


@pytest.fixture(scope="module")
def laptop(cluster: MiniCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    with cluster.network("laptop"):
        yield Laptop(cluster, tmp_path_factory.mktemp("laptop"))


@pytest.fixture(scope="module")
def held(laptop: Laptop) -> Iterator[JobOrder]:
    """A node that is kept, for all tests that do not end it."""
    order = laptop.order(hold=True)
    with laptop.manager() as manager:
        manager.submit(order)
        wait_until(lambda: manager.job(order.job).news.stage is JobStage.RUNNING)
    yield order
    with laptop.manager(order.job) as manager:
        manager.end(order.job, EndRequest.LET_GO)
        wait_until(lambda: manager.job(order.job).news.over)
        assert manager.job(order.job).news.text == "You gave the allocation back."


@pytest.fixture
def manager(laptop: Laptop, held: JobOrder) -> Iterator[JobManager]:
    """A program that has just been started while the node is kept, and has reached it."""
    with laptop.manager(held.job) as manager:
        with channel_to(manager.target(held.job)):
            pass
        yield manager


@pytest.fixture
def fresh(laptop: Laptop) -> Iterator[JobManager]:
    """A program that has just been started."""
    with laptop.manager() as manager:
        yield manager


@contextmanager
def channel_to(target: AgentRoute) -> Iterator[Channel]:
    """As a session's link: the agent is found, the key let in, and both know each other."""
    keys, context = KeyPair.generate(), zmq.Context()
    wait_until(lambda: target.authorize("viewer-test", keys.public), "the key was not let in")
    wait_until(lambda: target.find() is not None, "the agent was not reached")
    address = target.find()
    assert address is not None
    channel = Channel(context, address.address, address.port, address.public_key, keys)
    try:
        with closing(channel):
            welcome = channel.request(Hello(client="test"), ANSWER_S)
            assert isinstance(welcome, Welcome)
            yield channel
    finally:
        context.term()


def fetch_all(channel: Channel, run: str) -> bytes:
    data, deadline = b"", time.monotonic() + ANSWER_S
    while time.monotonic() < deadline:
        reply = channel.request(Fetch(run=run, attempt=1, offset=len(data)), ANSWER_S)
        if isinstance(reply, Refused):  # the agent has not begun it yet
            time.sleep(0.1)
            continue
        assert isinstance(reply, Fetched)
        data += reply.data
        if reply.sealed and len(data) == reply.size:
            return data
    raise AssertionError("the journal has no end")


def by_file(target: AgentRoute, run: str) -> bytes:
    files, data = target.files(over=True), b""
    assert files is not None
    while isinstance(got := files.fetch([Fetch(run=run, attempt=1, offset=len(data))])[0], Fetched):
        data += got.data
        if got.sealed and len(data) == got.size:
            return data
    raise AssertionError("there is no such journal")


# --- The way and back -------------------------------------------------------------------------------------------------


def test_an_order_becomes_a_journal_on_the_laptop_and_the_file_has_the_same_bytes(
    laptop: Laptop, fresh: JobManager
) -> None:
    spec = a_run()
    manager, order = fresh, laptop.order(spec)
    manager.submit(order)
    target = manager.target(order.job)
    with channel_to(target) as channel:
        data = fetch_all(channel, spec.run)
        status = channel.request(GetStatus(), ANSWER_S)
        assert isinstance(status, Status)
        assert [run.state for run in status.runs] == [RunState.FINISHED]
        assert target.route == "through 10.77.0.1"
        wait_until(lambda: manager.job(order.job).news.nodes != "")
        assert target.name == f"{manager.job(order.job).news.nodes} of Mini cluster"
        channel.request(Shutdown(), ANSWER_S)
    wait_until(lambda: manager.job(order.job).news.over)
    assert manager.job(order.job).news.phase is Phase.COMPLETED
    assert by_file(target, spec.run) == data
    files = target.files(over=True)
    assert files is not None
    assert files.fetch([Fetch(run=str(uuid.uuid4()), attempt=1, offset=0)]) == [None]
    told = [news.stage for news in laptop.heard if news.job == order.job]
    assert list(dict.fromkeys(told)) == [
        JobStage.CONNECTING,
        JobStage.PREPARING,
        JobStage.SUBMITTING,
        JobStage.QUEUED,
        JobStage.RUNNING,
        JobStage.ENDED,
    ]


def test_the_script_that_is_shown_is_the_one_that_is_sent(
    cluster: MiniCluster, manager: JobManager, held: JobOrder
) -> None:
    sent = cluster.on("login", f"cat ~/.local/share/clew/jobs/{held.job}/job.sh")
    assert manager.preview(held).rstrip("\n") == sent


# --- Routes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("faults", "kind", "text"),
    [
        ((), RouteKind.LOGIN, "through 10.77.0.1"),
        ((("forward-ssh-only",),), RouteKind.HOP, "through 10.77.0.1, jumping into node1"),
        ((("no-forwarding",),), RouteKind.RELAY, "through 10.77.0.1, as a step of the job"),
        ((("forward-ssh-only",), ("nodes-closed",)), RouteKind.RELAY, "through 10.77.0.1, as a step of the job"),
    ],
)
def test_the_first_way_that_leads_to_the_agent_is_taken(
    cluster: MiniCluster,
    laptop: Laptop,
    manager: JobManager,
    held: JobOrder,
    faults: tuple[tuple[str, ...], ...],
    kind: RouteKind,
    text: str,
) -> None:
    with ExitStack() as stack:
        for fault in faults:
            stack.enter_context(cluster.broken(*fault))
        line = stack.enter_context(closing(laptop.line()))
        address = read_address(line, held.job)
        assert address is not None
        job = JobRef(manager.job(held.job).news.id, held.job)
        found = RouteFinder(manager.watch_of("mini").access.installed).find(line, job, address)
        assert (found.kind, found.text.replace(address.host, "node1")) == (kind, text)
        found.close()


def test_where_no_way_leads_each_one_is_told_with_its_reason(
    cluster: MiniCluster, laptop: Laptop, manager: JobManager, held: JobOrder
) -> None:
    with cluster.broken("no-forwarding"), closing(laptop.line()) as line:
        address = read_address(line, held.job)
        assert address is not None
        gone = JobRef("999999", held.job)
        with pytest.raises(ProblemError, match=r"does not forward connections.* as a step of the job") as refused:
            RouteFinder(manager.watch_of("mini").access.installed).find(line, gone, address)
        assert refused.value.problems[0].code == "route.none"


# --- What happens to the link -----------------------------------------------------------------------------------------


def test_after_the_servers_restart_the_same_port_leads_to_the_agent_again(
    cluster: MiniCluster, manager: JobManager, held: JobOrder
) -> None:
    target = manager.target(held.job)
    with channel_to(target) as channel:
        before = target.find()
        once = channel.connections
        cluster("fault", "sshd-restart")  # before this comes back the way may lead there again
        wait_until(lambda: channel.connections > once, "it was not dialled anew")
        assert isinstance(channel.request(GetStatus(), ANSWER_S), Status)
        wait_until(lambda: target.find() == before)


def test_a_cut_link_goes_on_when_the_network_is_back(cluster: MiniCluster, manager: JobManager, held: JobOrder) -> None:
    target = manager.target(held.job)
    with channel_to(target) as channel:
        address = target.find()
        assert address is not None
        with cluster.broken("cut", "laptop"):
            assert target.is_alive(address)
            request = channel.send(GetStatus())
            manager.wake(manager.watch_of("mini"))
            time.sleep(6.0)  # so long the probe waits for its answer
        deadline = time.monotonic() + LIMIT_S
        while not any(found == request for found, _ in channel.receive()) and channel.connections < 2:
            assert time.monotonic() < deadline, "nothing came any more"
            channel.socket.poll(100)
        assert isinstance(channel.request(GetStatus(), ANSWER_S), Status)


# --- What happens to the job ------------------------------------------------------------------------------------------


def test_a_scheduler_that_is_away_is_told_and_ends_nothing(
    cluster: MiniCluster, laptop: Laptop, held: JobOrder
) -> None:
    with cluster.broken("controller-down"), laptop.manager(held.job) as manager:
        wait_until(lambda: manager.job(held.job).news.problem is not None)
        found = manager.job(held.job).news
        assert found.problem is not None
        assert found.problem.code == "scheduler.silent"
        assert "does not answer" in found.text
        assert not found.over


def test_a_job_that_will_not_start_says_so_and_is_cancelled_in_the_queue(laptop: Laptop, fresh: JobManager) -> None:
    manager, order = fresh, laptop.order(partition="short", time="10", qos="lab")  # a QOS may allow more
    manager.submit(order)
    wait_until(lambda: manager.job(order.job).news.blocked)
    limit = "It will not start: the partition's limit is 2 minutes, and it asks for 10 minutes."
    assert manager.job(order.job).news.text == limit
    assert manager.target(order.job).while_absent() == limit
    manager.end(order.job, EndRequest.CANCEL)
    wait_until(lambda: manager.job(order.job).news.over)
    assert (manager.job(order.job).news.phase, manager.job(order.job).news.text) == (
        Phase.CANCELLED,
        "You cancelled the job.",
    )
    assert manager.job(order.job).news.problem is None


def test_an_order_for_a_site_that_is_down_is_refused_at_once(
    cluster: MiniCluster, laptop: Laptop, fresh: JobManager
) -> None:
    manager, order = fresh, laptop.order()
    with cluster.broken("sshd-down"):
        manager.submit(order)
        wait_until(lambda: manager.job(order.job).news.over)
    found = manager.job(order.job).news
    assert found.problem is not None
    assert found.problem.code == "ssh.reach"
    assert job_book(laptop.places).news(order.job).stage is JobStage.ENDED
