"""The mini cluster as the tests use it: its own programs, called as a person calls them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minicluster.namespaces import network_of
from minicluster.state import State

from clew_shared.journal.run_folder import RunFolder

FOLDER = Path(__file__).resolve().parents[2] / "packaging/cluster"
LIMIT_S = 60.0
"""Bound on one command; bringing the cluster up may install packages and has its own."""
UP_LIMIT_S = 280.0


class MiniCluster:
    """One cluster, in a run folder of its own: a developer's stays untouched."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.environment = {**os.environ, "CLEW_CLUSTER_DIR": str(folder), **environment}
        self.environment.pop("SSH_AUTH_SOCK", None)

    def call(self, *words: str, limit_s: float = LIMIT_S, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run ``cluster`` with these words, whatever comes of it."""
        return subprocess.run(
            [str(FOLDER / "cluster"), *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
            **options,
        )

    def __call__(self, *words: str, **options: Any) -> str:
        """Run ``cluster`` with these words; what it printed, without the last line's end."""
        done = self.call(*words, **options)
        assert done.returncode == 0, f"cluster {' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout.rstrip("\n")

    def on(self, host: str, *words: str, **options: Any) -> str:
        """Run a command on a host that must succeed."""
        return self("on", host, *words, **options)

    def info(self) -> dict[str, Any]:
        """Addresses, users and passwords."""
        facts: dict[str, Any] = json.loads(self("info"))
        return facts

    def ssh(
        self, *words: str, password: str = "", code: str = "", options: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        """OpenSSH on the laptop. Prompts are answered by a program, as with SSH_ASKPASS on a desktop; without a
        password none may come."""
        answers = {"SSH_ASKPASS": str(FOLDER.parents[1] / "tests/cluster/askpass"), "SSH_ASKPASS_REQUIRE": "force"}
        secrets = {"ASKPASS_PASSWORD": password, "ASKPASS_CODE": code}
        ask = ["env", *(f"{name}={value}" for name, value in (answers | secrets).items())] if password else []
        fixed = (
            "-o",
            "ConnectTimeout=60",
            "-o",
            "NumberOfPasswordPrompts=1",
            *([] if password else ["-o", "BatchMode=yes"]),
        )
        return self.call("on", "laptop", *ask, "ssh", *fixed, *options, *words)

    def student_home(self) -> Path:
        """The student's home on the cluster, seen from outside: no fault of a network or host hides it."""
        return Path(f"/proc/{State(self.folder).pid('switch')}/root/home/student")

    def run_there(self, run: str) -> RunFolder:
        """The folder of the student's run on the cluster."""
        return RunFolder(self.student_home() / ".local/share/clew/runs" / run)

    @contextmanager
    def broken(self, *fault: str) -> Iterator[None]:
        """A fault that is healed in the end."""
        self("fault", *fault)
        try:
            yield
        finally:
            self("heal", *fault)

    @contextmanager
    def network(self, host: str) -> Iterator[None]:
        """The test itself uses a host's network: what it connects to, and the threads that it starts meanwhile."""
        with network_of(State(self.folder).pid(host)):
            yield

    def submit(self, script: str, *options: str) -> str:
        """Hand a batch script to Slurm as the student; the job's number."""
        return self.on("login", "sbatch", "--parsable", *options, input=f"#!/bin/bash\n{script}\n")

    def job_state(self, job: str) -> str:
        """Slurm's word for a job's state."""
        return self.on("ctl", "squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T")
