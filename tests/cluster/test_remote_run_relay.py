"""A node that is reached by nothing but a step of its job: forwarding is forbidden, and nobody may log in to nodes.
Where the scheduler starts no steps either, journals come as files."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from clew_gui.sites.consent import consents, words_of
from clew_gui.sites.store import site_store
from clew_gui.ssh.connection import Command, Stream
from clew_gui.ssh.dial import ReconnectingConnection
from clew_shared.journal.lifecycle import RunState
from tests.cluster.journey import Student
from tests.cluster.mini import MiniCluster

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(600)]
SLOW = "sleep 6"
"""What a site's prologue may take before the relay is there: more than an agent waits for a viewer's introduction."""


@pytest.fixture
def closed(cluster: MiniCluster) -> Iterator[None]:
    """Besides, the account's .bashrc prints: on the login node, and before the relay on the node as well."""
    with cluster.broken("no-forwarding"), cluster.broken("nodes-closed"), cluster.broken("noise"):
        yield


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Command]:
    """The scheduler's steps that were started as ways to a node, in this order."""
    started: list[Command] = []
    honest = ReconnectingConnection.open

    def opened(self: ReconnectingConnection, command: Command, timeout: float = 30.0) -> Stream:
        if "srun" in command:
            started.append(command)
        return honest(self, command, timeout)

    monkeypatch.setattr(ReconnectingConnection, "open", opened)
    return started


@pytest.mark.usefixtures("closed")
def test_a_run_comes_through_a_step_of_its_job_to_the_last_byte_and_one_step_is_enough(
    student: Student, steps: list[Command]
) -> None:
    with student.program() as program:
        run = program.send(steps=8_000)
        program.trains(run)
        program.until(lambda: program.is_live(run), "the agent is reached")
        program.until(lambda: run.complete, "the run's end")
        assert run.state is RunState.FINISHED
        assert len(steps) == 1
        program.until(lambda: program.job(run).news.over, "the job's end")
        student.judge(run)
        assert program.problems == []


def test_live_data_come_back_through_one_step_though_it_starts_slowly(
    cluster: MiniCluster, student: Student, steps: list[Command]
) -> None:
    """The agent was reached directly; then the servers start again and forbid that."""
    store = site_store(student.places)
    slow = msgspec.structs.replace(store.load("mini"), prologue=SLOW)
    store.save("slow", slow)
    consents(student.places).give(words_of(slow))
    with student.program() as program:
        run = program.send(site="slow")
        program.trains(run)
        assert steps == []
        with cluster.broken("no-forwarding"), cluster.broken("nodes-closed"):
            cluster("fault", "sshd-restart")
            there, here = student.there(run.id), student.here(run.id)
            program.until(lambda: bool(steps), "a step is started")
            program.catches_up(there, here)
            program.until(lambda: program.is_live(run), "the agent speaks again")
            program.trains(run)
            assert len(steps) == 1
            program.stop(run)
        assert run.state is RunState.STOPPED
        student.judge(run)


@pytest.fixture
def stepless(cluster: MiniCluster, closed: None) -> Iterator[None]:
    """The login node's scheduler starts no steps."""
    srun = "/opt/site/bin/srun"
    refusal = "#!/bin/sh\necho srun: steps are not allowed here >&2\nexit 1\n"
    cluster.on("root@login", f"cat >{srun}; chmod +x {srun}", input=refusal)
    yield
    cluster.on("root@login", "rm", srun)


@pytest.mark.usefixtures("stepless")
def test_where_no_way_leads_the_journal_comes_as_a_file_while_the_run_trains(student: Student) -> None:
    with student.program() as program:
        run = program.send()
        program.trains(run)
        program.trains(run)
        job = program.job(run)
        assert (job.route, run.state) == ("its journal as a file", RunState.RUNNING)
        assert not program.is_live(run)
        assert "Cannot reach the agent" in job.link.text
        assert "srun: steps are not allowed here" in job.link.text
        program.session.cancel(job.id)
        program.until(lambda: job.news.over and run.complete, "the job's end")
        assert run.state is RunState.STOPPED
        student.judge(run)
