"""A job's folder with a rendered script in it, programs of our own on the PATH, and a shell that runs the script."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

import msgspec

from clew_gui.schedulers.job import JobSpec
from clew_gui.schedulers.none import NoScheduler
from clew_gui.schedulers.scheduler import Scheduler
from clew_gui.schedulers.verdict import ExitRecord, parse_record

BOUND_S = 60.0
JOB = "0f3d6c52-8f0e-4c1b-9a70-3b6a4b1f2c11"


def a_job(folder: Path | str = "/home/student/.clew/jobs/x", **fields: object) -> JobSpec:
    """A job with the usual agent, changed as the fields say."""
    base = JobSpec(
        job=JOB, folder=str(folder), agent=("/home/student/.clew/venv/bin/python", "-m", "clew_agent", "serve")
    )
    return msgspec.structs.replace(base, **fields)


class JobLab:
    """``program`` puts an executable on the PATH, ``run`` and ``start`` run the job's script as a scheduler would. A
    ``sleep`` of a minute or less is over at once, and what each was asked for is noted."""

    def __init__(self, tmp_path: Path, shell: str = "bash") -> None:
        self.shell = shell
        self.bin = tmp_path / "bin"
        self.folder = tmp_path / "job folder"  # with a blank, as some home folders have
        self.bin.mkdir()
        self.folder.mkdir()
        self.job = a_job(self.folder, job=str(uuid.uuid4()), agent=("clew-agent", "serve"))
        noted = f'echo "$1" >>"{self.folder}/slept"\n[ "$1" -le 60 ] || exec {{sleep}} "$1"\nexec {{sleep}} 0.02'
        self.program("sleep", noted.format(sleep=shutil.which("sleep")))

    def program(self, name: str, text: str) -> None:
        """A shell script on the PATH; with ``python`` as its first word one in Python."""
        path = self.bin / name
        head, _, rest = text.partition("\n")
        path.write_text(f"#!{sys.executable}\n{rest}" if head == "python" else f"#!/bin/sh\n{text}")
        path.chmod(0o755)

    def slept(self) -> list[str]:
        return (self.folder / "slept").read_text().split()

    def script(self, scheduler: Scheduler | None = None, grace: int = 1000, **fields: object) -> str:
        job = msgspec.structs.replace(self.job, **fields)
        text = (scheduler or NoScheduler()).script(job)
        assert "clew_grace=20 " in text
        return text.replace("clew_grace=20 ", f"clew_grace={grace} ")

    def start(self, script: str, environment: Mapping[str, str] = {}) -> subprocess.Popen[bytes]:
        path = self.folder / "job.sh"
        path.write_text(script)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "PBS"))}
        env = kept | {"PATH": f"{self.bin}:{kept['PATH']}", "HOME": str(self.folder)} | dict(environment)
        return subprocess.Popen(
            [self.shell, str(path)],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_hear_a_hang_up,
        )

    def run(self, script: str, environment: Mapping[str, str] = {}) -> int:
        """The script's exit code."""
        return self.start(script, environment).wait(BOUND_S)

    def record(self, restart: int = 0) -> ExitRecord:
        path = self.folder / f"record.{restart}"
        found = parse_record(path.read_text(), self.job.job)
        assert found is not None, path.read_text()
        return found

    def log(self) -> str:
        return (self.folder / "job.log").read_text()

    def wait_for(self, name: str, lines: int = 1) -> list[str]:
        """The lines of a file in the job's folder, when there are so many."""
        deadline = time.monotonic() + BOUND_S
        while True:
            path = self.folder / name
            found = path.read_text().splitlines() if path.exists() else []
            if len(found) >= lines:
                return found
            assert time.monotonic() < deadline, f"{name}: {found}\n{self.log()}"
            time.sleep(0.02)


def _hear_a_hang_up() -> None:
    """A shell cannot catch what was ignored when it started, and under nohup(1) these tests are started like that."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def send(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """As a scheduler signals the batch shell alone."""
    os.kill(process.pid, number)
