"""Job scripts of every dialect on real schedulers: sent, found, watched, cancelled, and how they ended."""

from __future__ import annotations

import shlex
import subprocess
import time
import uuid
from collections.abc import Callable

import pytest

from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.schedulers.job import JobRef, JobSpec
from clew_gui.schedulers.registry import NAMES, SchedulerName, scheduler_of
from clew_gui.schedulers.scheduler import environment, without_exports
from clew_gui.schedulers.state import ENDED, JobState, Output, Phase
from clew_gui.schedulers.verdict import ExitRecord, conclude, parse_record
from clew_gui.sites.site import Site, job_of
from tests.cluster.mini import FOLDER, LIMIT_S, MiniCluster

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(300)]

ENDS_AFTER_A_CRASH = """#!/bin/sh
: >"$CLEW_JOB_FOLDER/served.$CLEW_JOB_RESTART"
echo x >>starts
[ "$(wc -l <starts)" -gt 1 ]
"""
STAYS = """#!/bin/sh
setsid sleep 600 &
trap 'exit 0' TERM
echo "$(uname -n) $!" >>orphan
while :; do sleep 0.2; done
"""


class Sent:
    """A job on the cluster."""

    def __init__(
        self, cluster: MiniCluster, name: SchedulerName, site: Site, allocation: AllocationRequest, agent: str
    ) -> None:
        self._cluster, self._scheduler = cluster, scheduler_of(name)
        self._host = "student@node1" if name == "none" else "student@login"
        job = str(uuid.uuid4())
        folder = f"/home/student/my jobs/{job}"
        self.spec: JobSpec = job_of(site, job, folder, (f"{folder}/agent", "serve"), allocation)
        self.on(("sh", "-c", 'mkdir -p "$1" && cat >"$1/agent" && chmod +x "$1/agent"', "sh", folder), agent)
        self.on(("sh", "-c", 'cat >"$1/job.sh"', "sh", folder), self._scheduler.script(self.spec))
        self.submitted = self._scheduler.submitted(self.on(self._scheduler.submit(self.spec)))
        self.ref = JobRef(self.submitted.id, job)

    def on(self, command: tuple[str, ...], text: str = "") -> Output:
        """The command as the student where jobs are sent from."""
        words = [str(FOLDER / "on"), self._host, shlex.join(without_exports(command, environment()))]
        done = subprocess.run(
            words,
            env=self._cluster.environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return Output(done.returncode, done.stdout, done.stderr)

    def found(self) -> str:
        return self._scheduler.found(self.spec, self.on(self._scheduler.find(self.spec)))

    def state(self) -> JobState:
        return self._scheduler.states([self.ref], self.on(self._scheduler.status([self.ref])))[self.ref.id]

    def file(self, name: str) -> str:
        return self.on(("sh", "-c", 'cat "$1" 2>/dev/null', "sh", f"{self.spec.folder}/{name}")).out

    def record(self) -> ExitRecord | None:
        return parse_record(self.file("record.0"), self.spec.job)

    def cancel(self) -> None:
        assert self.on(self._scheduler.cancel(self.ref)).code == 0

    def verdict(self) -> JobState:
        """What became of it, when the scheduler does not call it waiting or running any more."""
        wait_until(lambda: self.state().phase in ENDED | {Phase.GONE})
        wait_until(lambda: (found := self.record()) is not None and found.state == "ended")
        return conclude(self.state(), None, self.record())


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.2)


SITES = {
    "slurm": (Site(host="login", scheduler="slurm", prologue="export LAB=1"), AllocationRequest(time="10", gpus=1)),
    "pbs": (Site(host="login", scheduler="pbs"), AllocationRequest(time="10", cpus=2)),
    "mnsubmit": (
        Site(host="login", scheduler="mnsubmit", modules=("K80",)),
        AllocationRequest(time="10", features="k80"),
    ),
    "none": (Site(host="node1"), AllocationRequest()),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_job_ends_when_its_agent_does(cluster: MiniCluster, name: SchedulerName) -> None:
    sent = Sent(cluster, name, *SITES[name], ENDS_AFTER_A_CRASH)
    assert sent.submitted.problem is None
    assert sent.verdict().phase is Phase.COMPLETED, sent.file("job.log")
    assert len(sent.file("starts").splitlines()) == 2


@pytest.mark.parametrize("name", NAMES)
def test_a_job_is_found_by_its_name_and_leaves_nothing_behind_when_it_is_cancelled(
    cluster: MiniCluster, name: SchedulerName
) -> None:
    sent = Sent(cluster, name, *SITES[name], STAYS)
    wait_until(lambda: sent.file("orphan") != "")
    assert sent.found() == sent.ref.id
    assert sent.state().phase is Phase.RUNNING
    sent.cancel()
    assert sent.verdict().phase is Phase.CANCELLED
    host, orphan = sent.file("orphan").split()
    wait_until(lambda: cluster.on(host, f"kill -0 {orphan} 2>/dev/null || echo gone").strip() == "gone")
