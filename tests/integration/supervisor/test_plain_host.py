"""A job on a host without a scheduler is no more than its processes: real ones here, some of which are killed."""

from __future__ import annotations

import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from clew_gui.deploy.install import Installed
from clew_gui.jobs.job import JobOrder, JobStage, JobStatus
from clew_gui.jobs.job_book import JobBook
from clew_gui.jobs.manager import JobManager
from clew_gui.schedulers.state import Phase
from clew_gui.sites.site import Site
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.verify import verify_run
from clew_shared.params import Value
from clew_shared.reading import read_run
from clew_shared.spec import RunSpec
from tests.guards import TOKEN
from tests.integration.agents import BOUND_S, stand_in_spec
from tests.integration.local_line import local_line
from tests.unit.fake_site import a_deployer, an_access

SERVES = f"exec '{sys.executable}' -m tests.integration.stand_in_agent 1 --job"
"""Whatever else it is asked for: the stand-in that ends when for a second nothing has trained."""
A_WHILE: dict[str, Value] = {"steps": 400, "pause": 0.05}
"""Long enough to kill somebody meanwhile."""


class Plain:
    """One run, sent to this computer as to a plain host. ``told`` is what the laptop heard of its job."""

    def __init__(self, folder: Path) -> None:
        line, _ = local_line(folder / "host", Site(host="here", title="Plain"), **{TOKEN: os.environ[TOKEN]})
        self._home = Path(line.layout().home)
        self.told: list[JobStatus] = []
        deployer = a_deployer(ensure_agent=lambda _line, _say: agent())
        access = an_access(lambda: line, deployer, "plain")
        self.manager = JobManager(JobBook(folder / "jobs.jsonl"), lambda _name: access, lambda _name: "Plain", sure=0.2)
        self.manager.listen = self.told.append

    def send(self, spec: RunSpec) -> None:
        self.run, self.job = spec.run, str(uuid.uuid4())
        self.manager.submit(JobOrder(job=self.job, site="plain", runs=(spec,)))
        self.until(lambda: self.news.over or self.state is RunState.RUNNING, "training")
        assert not self.news.over, self.news

    @property
    def news(self) -> JobStatus:
        return self.manager.job(self.job).news

    @property
    def keeper(self) -> psutil.Process:
        """The shell of the job."""
        return psutil.Process(int(self.news.id))

    def processes(self) -> list[psutil.Process]:
        """What is left of the job, the keeper or what it has started."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                mine = process.environ().get("CLEW_JOB") == self.job or any(self.job in at for at in process.cmdline())
                found += [process] if mine and process.status() != psutil.STATUS_ZOMBIE else []
        return found

    @property
    def state(self) -> RunState | None:
        folder = self._home / "runs" / self.run
        return read_run(folder).fold.state if (folder / "journal.0001").exists() else None

    def findings(self) -> tuple[object, ...]:
        return verify_run(self._home / "runs" / self.run).findings

    def left(self) -> list[str]:
        """What agents have left where they meet those who look for them."""
        return sorted(path.name for path in (self._home / "agents").iterdir())

    def until(self, true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + BOUND_S
        while not true():
            assert time.monotonic() < deadline, f"{what} did not come; {self.told[-1:]}, {self.processes()}"
            self.manager.wake(self.manager.watch_of("plain"))
            time.sleep(0.05)

    def close(self) -> None:
        self.manager.close()
        for process in self.processes():
            with suppress(psutil.Error):
                process.kill()


def agent() -> Installed:
    """The stand-in, started as the job's agent would be; it needs this repository."""
    here = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return Installed(command=("sh", "-c", SERVES, "sh"), environment=here, python="3.11", tensorflow="")


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Plain]:
    host = Plain(tmp_path)
    yield host
    host.close()


def _shell(host: Plain) -> None:
    host.keeper.kill()


def _shell_and_agent(host: Plain) -> None:
    os.killpg(host.keeper.pid, signal.SIGKILL)


@pytest.mark.parametrize("kill", [_shell, _shell_and_agent])
def test_a_job_whose_shell_is_killed_ends_when_its_run_has_and_nothing_is_left(
    plain: Plain, kill: Callable[[Plain], None]
) -> None:
    plain.send(stand_in_spec(**A_WHILE))
    kill(plain)
    plain.until(lambda: plain.news.over, "the job's end")
    assert (plain.news.stage, plain.news.phase, plain.news.problem) == (JobStage.ENDED, Phase.COMPLETED, None)
    assert (plain.state, plain.findings()) == (RunState.FINISHED, ())
    assert (plain.processes(), plain.left()) == ([], [])
    assert [news.text for news in plain.told if "scheduler" in news.text] == []


def test_a_job_all_of_which_is_killed_is_lost_in_words_that_fit_a_plain_host(plain: Plain) -> None:
    plain.send(stand_in_spec(**A_WHILE))
    for process in plain.processes():
        with suppress(psutil.Error):
            process.kill()
    plain.until(lambda: plain.news.over, "the job's end")
    assert plain.news.stage is JobStage.LOST
    assert (
        plain.news.text == "The job is gone without a trace: the host does not know it any more, and nobody saw it end."
    )
    assert plain.left() == []
