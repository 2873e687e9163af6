"""``clew run --site``, ``attach``, ``jobs`` and ``cancel`` against a site whose nodes are this computer."""

from __future__ import annotations

import io
import itertools
import json
import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec
import pytest

from clew_gui.commands.context import CommandContext
from clew_gui.commands.jobs.hold import let_go
from clew_gui.commands.jobs.jobs import attach_run, cancel_job, jobs
from clew_gui.commands.run.fetch import fetch_runs
from clew_gui.commands.run.follow import SiteTerminal, TerminalLock
from clew_gui.commands.run.run import resume
from clew_gui.commands.run.site_run import open_session, run_there
from clew_gui.commands.verify_export import verify
from clew_gui.jobs.job import EndRequest, JobOrder, JobStage, JobStatus, Place
from clew_gui.jobs.job_book import JobBook, job_book
from clew_gui.jobs.job_files import SCRIPT
from clew_gui.schedulers.state import Phase
from clew_gui.session.links.conversation import other_version
from clew_gui.session.links.mirror import Mirror, stray_attempts
from clew_gui.session.run_record import run_record
from clew_gui.sites.site import Site
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.connection import Command, Finished, lost, timed_out
from clew_gui.ssh.prompts import NobodyToAsk, Prompt, Prompter, PromptKind
from clew_shared.base.places import find_places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.journal.events import Log, State
from clew_shared.journal.files import JournalWriter, attempts, journal_path
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.params import Value
from clew_shared.reading import read_run
from clew_shared.spec import RunSpec
from tests.integration.agent_runs import agent
from tests.integration.agents import BOUND_S, stand_in_spec, wait_for
from tests.integration.fake_site import BusySite, FakeManager
from tests.integration.local_line import LocalConnection, damage, local_line
from tests.integration.stand_in_agent import CATALOGUE
from tests.unit.runs import RUN, begin_run, describe

SITE = Place(site="test")
SLOW: dict[str, Value] = {"steps": 100_000, "pause": 0.02}


class Laptop:
    """Commands one after the other; ``site`` is the one that the latest of them talked to."""

    def __init__(self) -> None:
        self.places = find_places()
        self.out, self.err = io.StringIO(), io.StringIO()
        self.context = CommandContext(self.places, self.out, self.err)
        self.book = job_book(self.places)
        self.sites: list[BusySite] = []
        self.prepare: Callable[[BusySite], None] = lambda site: site.nodes.set()
        self.runs = False

    def hold(self, until: float | None = None) -> str:
        """An allocation that is held and was running when it was last heard of; its job."""
        order = JobOrder(job=str(uuid.uuid4()), site="test", hold=True)
        self.book.note_order(order, "Test site")
        news = JobStatus(job=order.job, stage=JobStage.RUNNING, id="7", nodes="node1", until=until, starts=1_000.0)
        self.book.note_news(news)
        return order.job

    def terminal(self) -> SiteTerminal:
        return SiteTerminal(
            self.context, FakeManager(job_book(self.places), self._make, lambda _name: "Test site"), LOCK
        )

    def _make(self, name: str, book: JobBook, tell: Callable[[JobStatus], None]) -> BusySite:
        self.sites.append(BusySite(self.places.home / name, book, tell))
        if len(self.sites) > 1:
            self.sites[-1]._agents = self.sites[-2]._agents
        self.prepare(self.sites[-1])
        return self.sites[-1]

    def run(self, spec: RunSpec, as_json: bool = False, detach: bool = False, place: Place = SITE) -> int:
        card = CATALOGUE.exercises[0]
        self.runs = True
        try:
            return run_there(self.terminal(), place, spec, card, CATALOGUE, "Stand-in", as_json, detach)
        finally:
            self.runs = False

    def said(self) -> list[str]:
        return self.out.getvalue().splitlines()

    def when(self, *conditions: Callable[[], bool]) -> Future[None]:
        """Press Ctrl+C as soon as the first of ``conditions`` holds, then when the next does.

        Where one never holds, the command is ended all the same, and the result raises.
        """

        def press() -> None:
            try:
                for condition in conditions:
                    wait_for(lambda holds=condition: holds() or None, "the moment for Ctrl+C")  # type: ignore[misc]
                    os.kill(os.getpid(), signal.SIGINT)
            except BaseException:
                while self.runs:
                    os.kill(os.getpid(), signal.SIGINT)
                    time.sleep(1.0)
                raise

        hand = ThreadPoolExecutor(1)
        pressed = hand.submit(press)
        hand.shutdown(wait=False)
        return pressed

    def clear(self) -> None:
        """Forget what was said."""
        self.out.seek(0)
        self.out.truncate()

    def journals(self, attempt: int) -> list[Path]:
        return list(self.places.mirrors.glob(f"*/journal.{attempt:04d}"))

    def stage(self) -> JobStage | None:
        self.book.refresh()
        jobs = self.book.jobs()
        return self.book.news(jobs[-1]).stage if jobs else None


LOCK = TerminalLock(NobodyToAsk())


@pytest.fixture
def laptop(home: object) -> Iterator[Laptop]:
    laptop = Laptop()
    yield laptop
    for site in laptop.sites:
        site.close()
        site.clear()


def test_a_run_is_sent_waited_for_followed_and_its_copy_is_whole(laptop: Laptop) -> None:
    spec = stand_in_spec(steps=200)
    assert laptop.run(spec, as_json=True) == 0
    found = json.loads(laptop.said()[-1])
    assert (found["state"], found["steps"], found["site"], found["job_id"]) == ("FINISHED", 200, "test", "7")
    told = laptop.err.getvalue()
    assert told.count("Other jobs come first.") == 1, "each sentence once"
    assert told.index("Other jobs come first.") < told.index("Stand-in") < told.index("Finished: 200 steps")
    copy = Path(found["journal"])
    assert copy.read_bytes() == journal_path(laptop.places.home / "test" / "runs" / spec.run, 1).read_bytes()
    assert verify(laptop.context, ["last"]) == 0
    assert laptop.stage() is JobStage.ENDED, "the node was let go of, nobody need log in again to learn that"


def test_a_run_is_left_to_itself_and_come_back_to(laptop: Laptop) -> None:
    laptop.prepare = lambda _site: None
    assert laptop.run(stand_in_spec(steps=100), detach=True) == 0
    assert laptop.said()[-1] == "It goes on by itself. Come back with: clew attach 1"
    jobs(laptop.context, ["--json", "--last-heard"])
    listed = json.loads(laptop.said()[-1])
    assert [(job["number"], job["stage"], job["site"]) for job in listed] == [(1, "QUEUED", "test")]
    laptop.prepare = lambda site: site.nodes.set()
    assert attach_run(laptop.terminal(), "1") == 0
    assert any(line.startswith("Finished: 100 steps") for line in laptop.said())
    count = len(laptop.sites)
    assert attach_run(laptop.terminal(), "j1", as_json=True) == 0
    assert json.loads(laptop.said()[-1])["state"] == "FINISHED"
    assert len(laptop.sites) == count, "everything is here: the site is not asked"


def test_that_the_agent_is_of_another_version_is_one_line_on_standard_error(
    laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = partial(other_version, protocol=(1, 99), version="99.0")
    monkeypatch.setattr("clew_gui.session.links.conversation.other_version", later)
    assert laptop.run(stand_in_spec(steps=200)) == 0
    (said,) = [line for line in laptop.err.getvalue().splitlines() if "of this version" in line]
    assert (
        "older than this one, Clew 99.0 (protocol 1.99). Runs can be watched, steered and continued as before" in said
    )
    assert "of this version" not in laptop.out.getvalue()


def test_ctrl_c_in_the_queue_cancels_the_job_at_once(laptop: Laptop) -> None:
    laptop.prepare = lambda _site: None
    press = laptop.when(lambda: laptop.stage() is JobStage.QUEUED)
    assert laptop.run(stand_in_spec(steps=100)) == 130
    press.result(BOUND_S)
    assert laptop.said()[-1] == "Stopped. You cancelled the job."


def test_ctrl_c_before_the_agent_serves_cancels_the_job_and_is_answered_at_once(laptop: Laptop) -> None:
    """An agent that cannot start, and a job that tries again."""

    def prepare(site: BusySite) -> None:
        def begin(job: str, starts: float | None = None) -> None:
            site.news(job, JobStage.RUNNING, "Runs on node1.", id="7", starts=starts)

        site.begin = begin  # type: ignore[method-assign]
        site.slow_end = lambda: False
        site.nodes.set()

    laptop.prepare = prepare
    press = laptop.when(lambda: laptop.stage() is JobStage.RUNNING)
    assert laptop.run(stand_in_spec(steps=100)) == 130
    press.result(BOUND_S)
    assert laptop.said()[-1] == "Stopped. You cancelled the job."
    assert laptop.said().count("Cancelling the job.") == 1


def test_ctrl_c_stops_the_run_and_a_second_one_cancels_the_job(laptop: Laptop) -> None:
    def training() -> bool:
        return any(path.stat().st_size > 3000 for path in laptop.places.mirrors.glob("*/journal.0001"))

    press = laptop.when(training)
    assert laptop.run(stand_in_spec(**SLOW)) == 130
    press.result(BOUND_S)
    assert any(line.startswith("Stopped: ") for line in laptop.said())
    laptop.places.mirrors.rename(laptop.places.home / "before")
    laptop.clear()
    deaf = stand_in_spec(**SLOW, fault="deaf")
    press = laptop.when(training, lambda: "Ctrl+C again cancels the job" in laptop.out.getvalue())
    assert laptop.run(deaf) == 130
    assert "Stopped. You cancelled the job." in laptop.said()
    press.result(BOUND_S)
    assert laptop.stage() is JobStage.ENDED


def test_a_run_that_was_stopped_goes_on_on_its_site_as_one_curve(
    laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = stand_in_spec(steps=400, pause=0.25, fault="hurries")
    press = laptop.when(lambda: any(path.stat().st_size > 1000 for path in laptop.journals(1)))
    assert laptop.run(spec) == 130
    press.result(BOUND_S)
    monkeypatch.setattr("clew_gui.commands.run.site_run.open_terminal", lambda _context: laptop.terminal())
    laptop.clear()
    assert resume(laptop.context, ["1", "--time", "45"]) == 0, laptop.out.getvalue() + laptop.err.getvalue()
    assert laptop.out.getvalue().startswith("Run 1 goes to Test site as job j2.\n")
    assert any(line.startswith("Finished: 400 steps") for line in laptop.said())
    assert laptop.out.getvalue().count("CUDA_VISIBLE_DEVICES=") == 1, "what the first attempt said is known"
    laptop.book.refresh()
    assert [laptop.book.order(job).allocation.time for job in laptop.book.jobs()] == ["", "45"]
    there = laptop.places.home / "test" / "runs" / spec.run
    for number, copy in enumerate(sorted(laptop.places.mirrors.glob("*/journal.*")), 1):
        assert copy.read_bytes() == journal_path(there, number).read_bytes()
    assert verify(laptop.context, ["1"]) == 0
    history = read_run(laptop.places.mirrors / spec.run)
    assert (history.fold.attempt, history.fold.state, len(history.column("loss").steps)) == (2, RunState.FINISHED, 400)
    with pytest.raises(ProblemError, match="Run 1 has finished after 400 steps"):
        resume(laptop.context, ["1"])


def test_a_run_that_another_computer_sent_continues_there(
    laptop: Laptop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew_gui.commands.run.site_run.open_terminal", lambda _context: laptop.terminal())
    line, _ = local_line(tmp_path / "site", Site(host="here", scratch=str(tmp_path / "site")))
    folder = begin_run(Path(line.layout().run(RUN)))
    write_journal(folder.path, 1, "job-1", RunState.STOPPED)
    assert fetch_runs(laptop.context, line, "", as_json=False) == 0
    with pytest.raises(ProblemError, match="Run 1 was made on here without this computer") as caught:
        resume(laptop.context, ["1"])
    assert "Continue it there" in str(caught.value)


def test_what_cannot_go_on_is_said_and_nothing_is_sent(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew_gui.commands.run.site_run.open_terminal", lambda _context: laptop.terminal())
    spec = stand_in_spec(**SLOW)
    laptop.run(spec, detach=True)
    wait_for(lambda: laptop.sites[-1].address(laptop.book.jobs()[0]) if laptop.stage() else None, "the agent")
    with pytest.raises(ProblemError, match="Run 1 has not ended: it is running\\. Follow it with: clew attach 1"):
        attached_and_resumed(laptop)
    laptop.sites[-1].end(laptop.book.jobs()[0], Phase.NODE_FAILED, "A node of the job failed.", kill=True)
    laptop.prepare = lambda site: setattr(site, "no_room", Problem("scheduler.partition", "There is no partition."))
    with pytest.raises(ProblemError, match="There is no partition"):
        resume(laptop.context, ["1"])
    laptop.book.refresh()
    assert len(laptop.book.jobs()) == 1, "the further job was not taken, and the run is the first one's again"
    assert laptop.book.job_of(spec.run) == laptop.book.jobs()[0]
    assert (laptop.places.mirrors / spec.run / "journal.0001").exists()


def attached_and_resumed(laptop: Laptop) -> None:
    """Resume a run of which nothing is here yet but its number: wait until what is here says that it trains."""
    with open_session(laptop.terminal(), CATALOGUE, laptop.book.jobs()) as session:
        wait_for(  # the journal says so: the agent itself may, before any of that is here
            lambda: (
                (session.tick(), [run.history.fold.state for run in session.runs.values()])[1] == [RunState.RUNNING]
            ),
            "steps",
        )
    resume(laptop.context, ["1"])


def test_nothing_trains_in_a_mirror(laptop: Laptop) -> None:
    spec = stand_in_spec(steps=100)
    assert laptop.run(spec) == 0
    mirror = laptop.places.mirrors / spec.run
    for folder in (mirror, mirror.rename(laptop.places.home / "elsewhere")):
        folder.mkdir(exist_ok=True)
    (mirror / "journal.0001").write_bytes(b"")
    for folder in (mirror, laptop.places.home / "elsewhere"):  # beside the viewer's record, and by its own mark
        done = agent("run", "--resume", folder)
        assert (done.returncode, "holds a copy of the journals" in done.stderr) == (2, True), done.stderr
        with pytest.raises(ProblemError, match="holds a copy of the journals"):
            JournalWriter.create(journal_path(folder, 2))
        with pytest.raises(ProblemError, match="holds a copy of the journals"):
            JournalWriter.open_to_seal(journal_path(folder, 1))
        assert attempts(folder) == (1,)


def test_fetch_of_all_runs_counts_those_that_have_not_begun_and_is_content(laptop: Laptop, tmp_path: Path) -> None:
    line, _ = local_line(tmp_path / "site", Site(host="here", scratch=str(tmp_path / "site")))
    begun, waits = Path(line.layout().run(RUN)), Path(line.layout().run(str(uuid.uuid4())))
    begin_run(begun)
    write_journal(begun, 1, "", RunState.FINISHED)
    begin_run(waits)
    text = (waits / "spec.toml").read_text().replace(RUN, waits.name)
    (waits / "spec.toml").write_text(text)
    assert fetch_runs(laptop.context, line, "", as_json=False) == 0
    assert "1 run there has not begun: nothing to fetch." in laptop.err.getvalue()
    assert [path.name for path in laptop.places.mirrors.iterdir() if path.is_dir()] == [RUN]
    assert list(run_record(laptop.places).numbers) == [RUN]
    with pytest.raises(ProblemError, match="has not begun: it has no journal yet"):
        fetch_runs(laptop.context, line, waits.name, as_json=False)


def runs_there(line: SiteConnection, count: int) -> list[Path]:
    """So many runs on the site, of one to three attempts."""
    folders = [Path(line.layout().run(str(uuid.UUID(int=number + 1)))) for number in range(count)]
    for number, folder in enumerate(folders):
        begin_run(folder)
        spec = (folder / "spec.toml").read_text().replace(RUN, folder.name)
        (folder / "spec.toml").write_text(spec)
        for attempt in range(1, 2 + number % 3):
            write_journal(folder, attempt, f"job-{number}", RunState.FINISHED)
    return folders


def is_here(laptop: Laptop, there: Path) -> bool:
    mirror = laptop.places.mirrors / there.name
    found, wanted = ([journal_path(one, number) for number in attempts(one)] for one in (mirror, there))
    return [path.read_bytes() for path in found] == [path.read_bytes() for path in wanted]


def dies_at(asked: LocalConnection, monkeypatch: pytest.MonkeyPatch, *numbers: int, late: bool = False) -> None:
    """The link dies when these questions for pieces are asked, or their answers are ``late``."""
    run, count = asked.run, itertools.count(1)

    def once(command: Command, *, stdin: bytes = b"", timeout: float = 30.0) -> Finished:
        if SCRIPT in command and next(count) in numbers:
            raise timed_out("here", "a command", timeout) if late else lost("here")
        return run(command, stdin=stdin, timeout=timeout)

    monkeypatch.setattr(asked, "run", once)


def test_fetch_of_many_runs_asks_a_few_questions(laptop: Laptop, tmp_path: Path) -> None:
    """Each may be a session of its own, which takes half a second at some sites."""
    line, asked = local_line(tmp_path / "site", Site(host="here", scratch=str(tmp_path / "site")))
    there = runs_there(line, 60)
    there[7].joinpath("spec.toml").unlink()
    asked.commands = 0
    assert fetch_runs(laptop.context, line, "", as_json=False) == 1, "one of them is no run"
    assert "is no run folder: it has no spec.toml" in laptop.err.getvalue()
    assert asked.commands <= 8
    assert all(is_here(laptop, folder) for folder in there[:7] + there[8:])
    damage(laptop.places.mirrors / there[3].name / "journal.0001")
    asked.commands = 0
    assert fetch_runs(laptop.context, line, there[3].name, as_json=False) == 0
    assert asked.commands <= 8
    assert is_here(laptop, there[3])


def test_fetch_brings_files_of_several_answers_whole(
    laptop: Laptop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew_gui.jobs.job_files._MOST_BYTES", 300)
    line, _ = local_line(tmp_path / "site", Site(host="here", scratch=str(tmp_path / "site")))
    there = runs_there(line, 4)
    assert fetch_runs(laptop.context, line, "", as_json=False) == 0, laptop.err.getvalue()
    assert all(is_here(laptop, folder) for folder in there)


def test_a_link_that_dies_or_is_slow_once_costs_fetch_nothing(
    laptop: Laptop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, asked = local_line(tmp_path / "site", Site(host="here", scratch=str(tmp_path / "site")))
    there = runs_there(line, 6)
    monkeypatch.setattr("clew_gui.jobs.job_files._LEAST_BYTES", 10)
    dies_at(asked, monkeypatch, 2)
    assert fetch_runs(laptop.context, line, there[0].name, as_json=False) == 0
    dies_at(asked, monkeypatch, 1, 3, late=True)
    assert fetch_runs(laptop.context, line, "", as_json=False) == 0
    assert all(is_here(laptop, folder) for folder in there)


def test_a_site_that_lists_files_slowly_is_asked_for_fewer_at_a_time(
    laptop: Laptop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home folder where each file takes a moment; the time is up before all are listed."""
    line, asked = local_line(tmp_path / "site", Site(host="here", scratch=str(tmp_path / "site")))
    there, run = runs_there(line, 6), asked.run

    def slowly(command: Command, *, stdin: bytes = b"", timeout: float = 30.0) -> Finished:
        if SCRIPT in command and len(stdin.splitlines()) / 3 > most:
            raise timed_out("here", "a command", timeout)
        return run(command, stdin=stdin, timeout=timeout)

    monkeypatch.setattr(asked, "run", slowly)
    most = 2
    assert fetch_runs(laptop.context, line, "", as_json=False) == 0, laptop.err.getvalue()
    assert all(is_here(laptop, folder) for folder in there)
    most = 0
    with pytest.raises(ProblemError, match="did not finish within"):
        fetch_runs(laptop.context, line, "", as_json=False)


def test_a_link_that_stays_dead_is_the_reason_and_no_damaged_copy_stays(
    laptop: Laptop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, asked = local_line(tmp_path / "site", Site(host="here", scratch=str(tmp_path / "site")))
    there = runs_there(line, 2)
    for last in (there[0].name, ""):
        with monkeypatch.context() as patch:
            dies_at(asked, patch, 2, 3)
            with pytest.raises(ProblemError, match="connection"):
                fetch_runs(laptop.context, line, there[0].name, as_json=False)
        assert fetch_runs(laptop.context, line, last, as_json=False) == 0
        if last:
            damage(laptop.places.mirrors / last / "journal.0001")
    assert all(is_here(laptop, folder) for folder in there)


def test_a_listing_that_was_cut_off_sets_nothing_aside(
    laptop: Laptop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, asked = local_line(tmp_path / "site", Site(host="here", scratch=str(tmp_path / "site")))
    (there,) = runs_there(line, 3)[1:2]
    assert fetch_runs(laptop.context, line, there.name, as_json=False) == 0
    run = asked.run

    def cut(command: Command, *, stdin: bytes = b"", timeout: float = 30.0) -> Finished:
        done = run(command, stdin=stdin, timeout=timeout)
        return msgspec.structs.replace(done, stdout=done.stdout[:-40]) if SCRIPT in command else done

    monkeypatch.setattr(asked, "run", cut)
    with pytest.raises(ProblemError, match="did not list its files to the end"):
        fetch_runs(laptop.context, line, there.name, as_json=False)
    assert is_here(laptop, there)


def test_fetch_repairs_a_copy_in_which_an_earlier_version_trained(laptop: Laptop, tmp_path: Path) -> None:
    line, _ = local_line(tmp_path / "site", Site(host="here", scratch=str(tmp_path / "site")))
    there = Path(line.layout().run(RUN))
    begin_run(there)
    write_journal(there, 1, "job-1", RunState.TIMED_OUT)
    mirror = Mirror(laptop.places.mirrors / RUN)
    assert fetch_runs(laptop.context, line, "", as_json=False) == 0
    (mirror.folder / "mirror.txt").rename(mirror.folder / "gone")  # as an earlier version left it
    aside = mirror.folder.rename(laptop.places.home / "bug")
    write_journal(aside, 2, "", RunState.STOPPED)
    (aside / "log.txt").write_text("It trained here.")
    aside.rename(mirror.folder)
    assert stray_attempts(mirror.folder) == (2,)
    laptop.clear()
    assert fetch_runs(laptop.context, line, "last", as_json=False) == 0
    assert (mirror.folder / "stray.0002" / "log.txt").read_text() == "It trained here."
    assert "Attempt 2 of run 5f2b8c1e was not made on here; what it left is now in" in laptop.err.getvalue()
    assert (stray_attempts(mirror.folder), attempts(mirror.folder)) == ((), (1,))
    assert read_run(mirror.folder).fold.state is RunState.TIMED_OUT
    assert journal_path(mirror.folder, 1).read_bytes() == journal_path(there, 1).read_bytes()
    # The node went on meanwhile: its second attempt wins over one that was made here.
    write_journal(there, 2, "job-2", RunState.FINISHED)
    journal_path(mirror.folder, 2).write_bytes((mirror.folder / "stray.0002" / "journal.0002").read_bytes())
    assert fetch_runs(laptop.context, line, "1", as_json=False) == 0
    assert journal_path(mirror.folder, 2).read_bytes() == journal_path(there, 2).read_bytes()


def write_journal(folder: Path, attempt: int, job: str, state: RunState) -> None:
    """A whole attempt in ``folder``, made by this batch job; empty: by none."""
    with JournalWriter.create(journal_path(folder, attempt)) as writer:
        writer.append(describe(RunFolder(folder), attempt, job=job))
        writer.append(State(state=RunState.RUNNING))
        writer.append(State(state=state))
        writer.seal("trainer")


def test_the_run_that_was_sent_last_is_come_back_to(laptop: Laptop) -> None:
    with pytest.raises(ProblemError, match="No run was sent to a site yet"):
        attach_run(laptop.terminal(), "last")
    for _ in range(2):
        assert laptop.run(stand_in_spec(steps=20)) == 0
    laptop.clear()
    assert attach_run(laptop.terminal(), "last", as_json=True) == 0
    assert json.loads(laptop.said()[-1])["run"] == list(run_record(laptop.places).numbers)[-1]


def test_of_a_run_that_its_job_began_twice_the_latest_attempt_is_shown(laptop: Laptop) -> None:
    laptop.prepare = lambda _site: None
    spec = stand_in_spec(steps=20)
    assert laptop.run(spec, detach=True) == 0
    laptop.book.refresh()
    job, mirror = laptop.book.jobs()[-1], laptop.places.mirrors / spec.run
    there = begin_run(laptop.places.home / "test" / "runs" / spec.run)
    for attempt, state in ((1, RunState.FAILED), (2, RunState.FINISHED)):
        with JournalWriter.create(there.journal(attempt)) as writer:
            writer.append(describe(there, attempt, job=job, run=spec.run, resumes=attempt - 1))
            writer.append(State(state=RunState.RUNNING))
            writer.append(Log(text=f"A word of attempt {attempt}."))
            writer.append(State(state=state))
            writer.seal("trainer")
        journal_path(mirror, attempt).write_bytes(there.journal(attempt).read_bytes())
    laptop.sites[-1].end(job, Phase.COMPLETED, "The job has ended.")
    laptop.clear()
    assert attach_run(laptop.terminal(), "1") == 0
    assert [line for line in laptop.said() if "A word" in line] == ["  A word of attempt 2."]


def test_the_end_of_a_run_is_said_when_it_is_here_and_not_when_its_job_is_over(laptop: Laptop) -> None:
    def keep(site: BusySite) -> None:
        site.nodes.set()
        site.slow_end = lambda: any(line.startswith("Finished:") for line in laptop.said())

    laptop.prepare = keep
    assert laptop.run(stand_in_spec(steps=50)) == 0, "its job ended only after the end had been said"
    assert laptop.stage() is JobStage.ENDED


def test_a_site_that_cannot_be_asked_how_the_job_ended_is_not_waited_for(laptop: Laptop) -> None:
    lost = Problem("ssh.network", "The login node cannot be reached.")

    def cut(site: BusySite) -> bool:
        laptop.book.refresh()
        site.news(laptop.book.jobs()[-1], JobStage.RUNNING, "Test site does not answer now.", id="7", problem=lost)
        return False

    def close_all_ways(site: BusySite) -> None:
        site.nodes.set()
        site.slow_end = lambda: cut(site)

    laptop.prepare = close_all_ways
    assert laptop.run(stand_in_spec(steps=50)) == 0
    assert any(line.startswith("Finished:") for line in laptop.said())
    said = "The request to end the job failed: The login node cannot be reached. `clew jobs` asks again."
    assert laptop.said()[-1] == said
    assert laptop.stage() is JobStage.RUNNING, "as last known"


def test_a_held_node_whose_time_has_passed_eats_no_run(laptop: Laptop) -> None:
    def answer(site: BusySite) -> None:
        site.nodes.set()
        site.answer = lambda job: site.end(job, Phase.TIMED_OUT, "The job reached its time limit.")

    held, laptop.prepare = laptop.hold(), answer
    assert laptop.run(stand_in_spec(steps=50), place=Place(site="test", job=held)) == 0
    begin = "The held allocation is over. The job reached its time limit. The run gets its own job."
    assert laptop.said()[:2] == [begin, "Run 1 goes to Test site as job j2."]
    laptop.book.refresh()
    (_, order) = (laptop.book.order(job) for job in laptop.book.jobs())
    assert order.hold is False


def test_jobs_and_held_nodes_are_listed_as_their_schedulers_see_them_now(
    laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew_gui.commands.jobs.jobs.open_terminal", lambda _context: laptop.terminal())
    monkeypatch.setattr("clew_gui.commands.jobs.hold.open_manager", lambda *_: laptop.terminal().manager)
    laptop.prepare = lambda site: setattr(
        site, "answer", lambda job: site.end(job, Phase.TIMED_OUT, "Its time was up.")
    )
    laptop.hold()
    jobs(laptop.context, ["--last-heard"])
    assert "Running" in laptop.said()[-1]
    jobs(laptop.context, [])
    assert "Time was up" in laptop.said()[-1]
    assert [site.asked for site in laptop.sites] == [list(laptop.book.jobs())]
    count = len(laptop.sites)
    jobs(laptop.context, [])
    assert len(laptop.sites) == count, "nobody logs in for jobs that are over"
    laptop.hold()
    assert let_go(laptop.context, ["--list"]) == 0
    assert laptop.said()[-1] == "Test site: 1 node. It is over. Its time was up."


def test_what_the_site_refuses_is_said_and_nothing_is_left(laptop: Laptop) -> None:
    found = Problem("scheduler.partition", "There is no partition 'huge'.", "See: sinfo")

    def refuse(site: BusySite) -> None:
        site.no_room = found

    laptop.prepare = refuse
    with pytest.raises(ProblemError) as caught:
        laptop.run(stand_in_spec(steps=10))
    assert caught.value.problems == (found,)
    assert found.text not in laptop.out.getvalue() + laptop.err.getvalue(), "the program says it once, at its end"
    laptop.book.refresh()
    assert laptop.book.jobs() == ()
    wait_for(lambda: not list(laptop.places.mirrors.glob("*-*")) or None, "the copy to be gone")


def test_a_job_is_cancelled_by_its_number(laptop: Laptop) -> None:
    laptop.prepare = lambda _site: None
    laptop.run(stand_in_spec(steps=100), detach=True)
    assert cancel_job(laptop.terminal(), "j1") == 0
    assert laptop.said()[-1] == "Job j1 on Test site: cancelled. You cancelled the job."
    assert cancel_job(laptop.terminal(), "1") == 0, "it is over already"
    for word in ("j2", "999999999", "", "zzz"):
        with pytest.raises(ProblemError):
            cancel_job(laptop.terminal(), word)


def test_a_job_that_its_sender_takes_out_of_the_list_meanwhile_is_cancelled(laptop: Laptop) -> None:
    """The command that was about to send it is told, and leaves nothing behind."""

    def give_up(site: BusySite) -> None:
        end = site.end_for

        def ended(job: str, request: EndRequest) -> None:
            end(job, request)
            job_book(laptop.places).forget(job)
            site.book.refresh()

        site.end_for = ended  # type: ignore[method-assign]

    laptop.prepare = lambda _site: None
    laptop.run(stand_in_spec(steps=100), detach=True)
    laptop.prepare = give_up
    assert cancel_job(laptop.terminal(), "j1") == 0
    assert laptop.said()[-1] == "Job j1 on Test site: cancelled. You cancelled the job."
    assert job_book(laptop.places).jobs() == ()


def test_nobody_draws_while_a_question_stands_on_the_terminal() -> None:
    class Person(Prompter):
        def ask(self, prompt: Prompt) -> str | None:
            with lock.drawing() as free:
                seen.append(free)
            return "secret"

    seen: list[bool] = []
    lock = TerminalLock(Person())
    assert lock.ask(Prompt(kind=PromptKind.PASSWORD, title="login", text="Password:")) == "secret"
    assert lock.asked
    with lock.drawing() as free:
        seen.append(free)
    assert (seen, lock.asked) == ([False, True], False)
