"""Which allocation a command means, what it costs, and the local ends of terminals and browsers."""

from __future__ import annotations

import errno
import io
import os
import queue
import signal
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from clew_gui.commands.context import CommandContext
from clew_gui.commands.jobs.local_terminal import join
from clew_gui.commands.jobs.node_shell import chosen_job, first_node, shell, split_words
from clew_gui.commands.jobs.open import open as open_command
from clew_gui.jobs.held import held_jobs, held_line, job_for, live_job, seconds_held
from clew_gui.jobs.job import EndRequest, JobOrder, JobStage, JobStatus
from clew_gui.jobs.job_book import JobBook, job_book
from clew_gui.jobs.manager import JobManager
from clew_gui.nodes.services import ServiceNews, show_in_browser
from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.session.run_record import run_record
from clew_gui.sites.site import Site
from clew_gui.sites.store import site_store
from clew_gui.ssh.connection import UNKNOWN, Size
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError, problem
from clew_shared.spec import RunSpec
from tests.terminals import COLUMNS, ROWS, in_terminal
from tests.unit.fake_site import Login, a_line, an_access

if sys.platform != "win32":
    import pty
    import termios
    import tty

JOBS = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(5)]
RUN = "5f2b8c1e-0000-4000-8000-000000000001"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(home=tmp_path / "home", private=tmp_path / "private")


@pytest.fixture
def book(places: Places) -> JobBook:
    return job_book(places)


def sent(book: JobBook, number: int, stage: JobStage, hold: bool, **changes: object) -> str:
    order = JobOrder(job=JOBS[number], site="lab", hold=hold, **changes)  # type: ignore[arg-type]
    book.note_order(order)
    book.note_news(JobStatus(job=order.job, stage=stage, id=str(number)))
    return order.job


def test_a_shell_opens_beside_the_job_that_is_named(places: Places, book: JobBook) -> None:
    first, second, over = (
        sent(book, 0, JobStage.RUNNING, True, runs=(RunSpec(exercise="softmax", run=RUN),)),
        sent(book, 1, JobStage.RUNNING, True),
        sent(book, 2, JobStage.ENDED, True),
    )
    run_record(places).number(RUN)
    here = CommandContext(places, io.StringIO(), io.StringIO())
    assert chosen_job(here, book, "lab", "") == second
    words = (first, "j1", "1", RUN, "0")  # Slurm calls it 0
    assert [chosen_job(here, book, "lab", word) for word in words] == [first] * len(words)
    for site, word in (("lab", over), ("lab", "j3"), ("other", "j1")):
        with pytest.raises(ProblemError, match=f"No job {word} is running on {site}"):
            chosen_job(here, book, site, word)
    book.note_order(JobOrder(job="an-other", site="other"))
    book.note_news(JobStatus(job="an-other", stage=JobStage.RUNNING, id="0"))
    assert chosen_job(here, book, "lab", "0") == first
    with pytest.raises(ProblemError, match="no job or run 'nothing'"):
        chosen_job(here, book, "lab", "nothing")


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ("--fresh", "--fresh"),
        ("--gpus 1 --fresh --time 1h", "--fresh, --time, --gpus"),
        ("--partition=", "--partition"),
    ],
)
def test_a_job_that_is_named_and_an_allocation_of_its_own_are_two_things(
    places: Places, book: JobBook, flags: str, named: str
) -> None:
    site_store(places).save("lab", Site(host="login.example.org", scheduler="slurm"))
    sent(book, 0, JobStage.RUNNING, True)
    words = ["--site", "lab", "--job", "j1", *flags.split()]
    with pytest.raises(ProblemError, match=f"--job names a job that is running; with {named} a shell"):
        shell(CommandContext(places, io.StringIO(), io.StringIO()), words)


def test_what_is_held_comes_before_what_only_runs(book: JobBook) -> None:
    assert live_job(book, "lab") == ""
    run = sent(book, 0, JobStage.RUNNING, hold=False)
    assert live_job(book, "lab") == run
    queued = sent(book, 1, JobStage.QUEUED, hold=True)
    assert live_job(book, "lab") == queued
    running = sent(book, 2, JobStage.RUNNING, hold=True)
    sent(book, 3, JobStage.QUEUED, hold=True)
    assert live_job(book, "lab") == running
    assert live_job(book, "other") == ""


def test_what_is_over_or_let_go_is_held_no_more(book: JobBook) -> None:
    over = sent(book, 0, JobStage.ENDED, hold=True)
    gone = sent(book, 1, JobStage.RUNNING, hold=True)
    book.note_end_request(gone, EndRequest.LET_GO)
    kept = sent(book, 2, JobStage.RUNNING, hold=True)
    assert over not in held_jobs(book)
    assert held_jobs(book) == held_jobs(book, "lab") == (kept,)


@pytest.mark.parametrize(
    ("asked", "why_not"),
    [
        (AllocationRequest(nodes=2, gpus=2, time="60", partition="gpu"), ""),
        (AllocationRequest(), ""),
        (AllocationRequest(nodes=1, gpus=1, time="5", partition="debug,gpu"), ""),
        (AllocationRequest(time="15"), "it has 10 minutes left, and 15 minutes are asked for"),
        (AllocationRequest(nodes=3), "it has 2 nodes, and 3 are asked for"),
        (AllocationRequest(gpus=4), "it has 2 GPUs per node, and 4 are asked for"),
        (AllocationRequest(cpus=8), "it has the scheduler's own number of cores per node, and 8 are asked for"),
        (AllocationRequest(partition="cpu"), "its partition is gpu, and cpu is asked for"),
        (AllocationRequest(account="p1"), "its account is the usual one, and p1 is asked for"),
    ],
)
def test_a_run_goes_to_a_held_allocation_that_has_what_it_asks_for(
    asked: AllocationRequest, why_not: str, book: JobBook
) -> None:
    usual = AllocationRequest(nodes=2, gpus=2, time="60", partition="gpu")
    order = JobOrder(job=JOBS[0], site="lab", hold=True, allocation=usual)
    book.note_order(order)
    book.note_news(JobStatus(job=order.job, stage=JobStage.RUNNING, id="7", until=4_600.0))
    sent(book, 1, JobStage.RUNNING, hold=False, allocation=AllocationRequest(nodes=9, gpus=9, cpus=9))
    said = f"The allocation held as j1 is not used: {why_not}." if why_not else ""
    assert job_for(book, "lab", asked, 4_000.0) == ("" if why_not else order.job, said)
    assert job_for(book, "other", asked, 4_000.0) == ("", "")


def test_the_cost_is_nodes_times_hours() -> None:
    waiting = JobStatus(job=JOBS[0], stage=JobStage.QUEUED, starts=100.0)
    running = JobStatus(job=JOBS[0], stage=JobStage.RUNNING, starts=100.0, until=7300.0, nodes="node[1-2]")
    assert seconds_held(waiting, 3700.0) == 0.0
    assert seconds_held(running, 1900.0) == 1800.0
    line = held_line(running, 2, 1900.0)
    assert line.startswith("node[1-2] is reserved for you until ")
    assert line.endswith("(1 hour 30 minutes left); 1 node-hour so far.")
    late = held_line(running, 2, 90_000.0)
    assert late.startswith("node[1-2]: its time was up at ")
    assert late.endswith("; 4 node-hours."), "nothing counts behind the end"


def test_what_has_passed_by_the_clock_is_nobodys_to_use(book: JobBook) -> None:
    """The book may be old: nobody has watched the job since."""
    order = JobOrder(job=JOBS[0], site="lab", hold=True)
    book.note_order(order)
    book.note_news(JobStatus(job=order.job, stage=JobStage.RUNNING, id="7", until=5_000.0))
    for now, job in ((4_000.0, order.job), (5_030.0, order.job), (5_070.0, "")):  # clocks differ a little
        assert (job_for(book, "lab", AllocationRequest(), now)[0], live_job(book, "lab", now)) == (job, job)


@pytest.mark.parametrize(
    ("told", "node"),
    [
        ("node1", "node1"),
        ("node[03-07,9]", "node03"),
        ("node[4,9],other", "node4"),
        ("a1,node[4,9]", "a1"),
        ("nid00001/0+nid00001/1+nid00002/0", "nid00001"),
        ("", ""),
    ],
)
def test_the_first_of_several_nodes(told: str, node: str) -> None:
    assert first_node(told) == ([node] if node else [])


def test_a_command_stands_behind_two_dashes() -> None:
    assert split_words(["--site", "a"]) == (["--site", "a"], ())
    assert split_words(["--site", "a", "--", "ls", "-l"]) == (["--site", "a"], ("ls", "-l"))
    assert split_words(["--", "cd x && ls"]) == ([], ("bash", "-lc", "cd x && ls"))


# --- The terminal here ------------------------------------------------------------------------------------------------


class Far:
    """A terminal elsewhere that ends when ``q`` is typed, or dies."""

    def __init__(self, death: ProblemError | None = None) -> None:
        self.typed = b""
        self.ended = False
        self._death = death
        self._says: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.asked = threading.Event()

    def recv(self, limit: int) -> bytes:
        self.asked.set()
        data = self._says.get()
        if not data and self._death is not None:
            raise self._death
        return data

    def send(self, data: bytes) -> None:
        self.typed += data
        self._says.put(data.upper())
        if b"q" in data:
            self._says.put(b"")

    def last_words(self) -> str:
        return ""

    def end(self) -> None:
        self.ended = True
        self._says.put(b"")

    def close(self) -> None:
        self._says.put(b"")

    def resize(self, size: Size) -> None:
        raise AssertionError("nothing was resized")

    def exit_status(self, timeout: float) -> int:
        return 7


@pytest.fixture
def window() -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("keys", ["q", "ahead\tZoë 𝄞\rq"])
def test_a_program_joins_the_terminal_that_it_was_started_in(keys: str) -> None:
    program = """
from clew_gui.commands.jobs.local_terminal import join, own_size
from tests.terminals import own_terminal
from tests.unit.jobs.test_held import Far
keys, screen = own_terminal()
handles = keys.fileno(), screen.fileno()
far, size = Far(), own_size(*handles)
far._says.put(f"ready {size.columns} {size.rows}".encode())  # shown when the terminal is raw
status = join(far, True, *handles)
print("typed", ascii(far.typed.decode()), status, file=screen, flush=True)
print("then", keys.readline(), file=screen, flush=True)
"""
    with in_terminal([sys.executable, "-c", program]) as screen:
        assert (ready := f"ready {COLUMNS} {ROWS}") in screen.until(ready)
        screen.enter(keys)
        assert f"typed {keys!a} 7" in screen.until("' 7")
        screen.enter("a line\r")
        assert "then a line" in screen.until("then a line")


@pytest.mark.unix("a pseudo-terminal")
def test_every_key_goes_there_and_the_terminal_is_restored(window: tuple[int, int]) -> None:
    ours, theirs = window
    before = termios.tcgetattr(theirs)
    far = Far()
    os.write(ours, b"ahead\x03\x04q")
    # A terminal gives nothing before the line's end until it is raw; what was typed ahead comes then.
    assert join(far, True, theirs, theirs) == 7
    assert far.typed.endswith(b"q")
    assert termios.tcgetattr(theirs) == before


@pytest.mark.unix("a pseudo-terminal")
def test_signals_that_come_while_the_terminal_is_restored_do_not_leave_it_raw(
    window: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window that is closed sends two, one right behind the other."""
    ours, theirs = window
    before, change, disturbed = termios.tcgetattr(theirs), termios.tcsetattr, 0

    def disturb(*given: object) -> None:
        nonlocal disturbed
        disturbed += 1
        if disturbed % 2:
            raise termios.error(errno.EINTR, "Interrupted system call")
        change(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(termios, "tcsetattr", disturb)
    monkeypatch.setattr(tty, "tcsetattr", disturb)
    os.write(ours, b"q")
    assert join(Far(), True, theirs, theirs) == 7
    assert (termios.tcgetattr(theirs), disturbed) == (before, 4)


@pytest.mark.unix("a pseudo-terminal")
def test_a_signal_that_another_thread_gets_wakes_the_main_thread(window: tuple[int, int]) -> None:
    """The system chooses the thread, and Python's handlers wait for the main one, which sleeps."""
    _, theirs = window
    before, far = termios.tcgetattr(theirs), Far()
    far.asked = asked = threading.Event()

    def ask_to_end() -> None:
        asked.wait(30)
        until_it_sleeps(threading.main_thread().native_id)
        (shower,) = (thread for thread in threading.enumerate() if thread.name == "terminal")
        assert shower.ident is not None
        signal.pthread_kill(shower.ident, signal.SIGTERM)

    other = threading.Thread(target=ask_to_end)
    other.start()
    assert join(far, True, theirs, theirs) == UNKNOWN
    other.join()
    assert termios.tcgetattr(theirs) == before


def until_it_sleeps(thread: int | None) -> None:
    """Wait until a thread of this process does nothing."""
    state = Path(f"/proc/self/task/{thread}/stat")
    deadline = time.monotonic() + 30
    resting = 0
    while resting < 20 and time.monotonic() < deadline:
        resting = resting + 1 if state.read_text().rpartition(")")[2].split()[0] == "S" else 0
        time.sleep(0.005)


@pytest.mark.unix("a pseudo-terminal")
def test_a_link_that_dies_is_told_and_the_terminal_is_restored(window: tuple[int, int]) -> None:
    ours, theirs = window
    before = termios.tcgetattr(theirs)
    os.write(ours, b"q")
    with pytest.raises(ProblemError, match="gone"):
        join(Far(problem("ssh.lost", "It is gone.")), True, theirs, theirs)
    assert termios.tcgetattr(theirs) == before


def test_without_a_terminal_the_end_of_the_input_is_passed_on() -> None:
    reading, writing = os.pipe()
    out_reading, out_writing = os.pipe()
    os.write(writing, b"abc")
    os.close(writing)
    far = Far()
    assert join(far, False, reading, out_writing) == 7
    assert (far.typed, far.ended) == (b"abc", True)
    assert os.read(out_reading, 10) == b"ABC"
    for handle in (reading, out_reading, out_writing):
        os.close(handle)


def test_no_input_at_all_is_its_end() -> None:
    with open(os.devnull, "r+b", buffering=0) as nothing:  # noqa: PTH123
        far = Far()
        assert join(far, False, nothing.fileno(), nothing.fileno()) == 7
    assert (far.typed, far.ended) == (b"", True)


# --- The browser ------------------------------------------------------------------------------------------------------


def test_the_browsers_argument_holds_no_secret(tmp_path: Path) -> None:
    url, called = "http://127.0.0.1:5/lab?token=secret&x=<", []

    def browse(address: str) -> bool:
        called.append(address)
        return True

    page = show_in_browser(url, tmp_path / "private", browse)
    assert page is not None
    assert "secret" not in called[0]
    assert called[0] == page.path.as_uri()
    assert "url=http://127.0.0.1:5/lab?token=secret&amp;x=&lt;" in page.path.read_text()
    page.close()
    page.close()
    assert not page.path.exists()


@pytest.mark.unix("the mode of a file")
def test_the_browsers_page_is_its_owners_alone(tmp_path: Path) -> None:
    page = show_in_browser("http://127.0.0.1:5/", tmp_path / "private", lambda _: True)
    assert page is not None
    assert page.path.stat().st_mode & 0o077 == 0
    page.close()


def test_where_there_is_no_browser_nothing_is_left(tmp_path: Path) -> None:
    assert show_in_browser("http://127.0.0.1:5/", tmp_path / "private", lambda _: False) is None
    assert list((tmp_path / "private").iterdir()) == []


ADDRESS = "http://127.0.0.1:5/lab?token=secret"


class Opened:
    """What ``OpenedService`` is to the command: it tells from a thread. The address comes twice, then the end."""

    def __init__(self, node: object, is_over: Callable[[], bool], tell: Callable[[ServiceNews], None]) -> None:
        self._all = (
            ServiceNews("jupyter starts on node1."),
            ServiceNews("jupyter is open.", ADDRESS),
            ServiceNews("The agent on node1 does not answer."),
            ServiceNews("jupyter is open.", ADDRESS),
            ServiceNews("The allocation has ended.", over=True),
        )
        self._tell = tell
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        for news in self._all:
            self._tell(news)

    def close(self) -> None:
        self._thread.join()


class Nearby(JobManager):
    """A manager without a network: its jobs are as the book says."""

    def __init__(self, book: JobBook) -> None:
        super().__init__(book, lambda name: an_access(lambda: a_line(Login()), name=name), lambda _name: "Lab")

    def follow(self, job_id: str, asked: bool = True) -> None:
        """Nothing is new."""

    def target(self, job_id: str) -> Any:
        return object()


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A display that answers, until it is closed."""
    for name in ("QT_QPA_PLATFORM", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        monkeypatch.setenv("DISPLAY", f"127.0.0.1:{server.getsockname()[1] - 6000}")
        yield server


@pytest.mark.parametrize(
    ("flags", "seen", "times"),
    [
        ((), True, 1),
        (("--no-browser",), True, 0),
        pytest.param((), False, 0, marks=pytest.mark.unix("displays that may be away")),
    ],
    ids=["usual", "no-browser", "no-display"],
)
def test_the_command_shows_the_address_in_the_browser_once_unless_that_is_unwanted(
    places: Places,
    book: JobBook,
    display: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    seen: bool,
    times: int,
) -> None:
    pages: list[str] = []

    def browse(address: str) -> bool:
        pages.append(Path(url2pathname(urlsplit(address).path)).read_text(encoding="utf-8"))
        return True

    manager = Nearby(book)
    monkeypatch.setattr("clew_gui.commands.jobs.hold.open_manager", lambda _places, _prompter: manager)
    monkeypatch.setattr("clew_gui.commands.jobs.open.OpenedService", Opened)
    monkeypatch.setattr(webbrowser, "open", browse)
    if not seen:
        display.close()
    site_store(places).save("lab", Site(host="login.example.org", scheduler="slurm"))
    sent(book, 0, JobStage.RUNNING, True)
    out, err = io.StringIO(), io.StringIO()
    assert open_command(CommandContext(places, out, err), ["jupyter", "--site", "lab", *flags]) == 1, (
        "the allocation ended"
    )
    assert out.getvalue() == f"{ADDRESS}\n" * 2, "the address is printed in any case"
    assert "jupyter starts on node1." in err.getvalue()
    assert len(pages) == times
    assert all(f"url={ADDRESS}" in page for page in pages)
    assert list(places.private.glob("open-*")) == [], "the page that leads there is gone"
