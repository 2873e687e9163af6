"""A cluster of which Clew knows nothing, with other habits than the courses': from `clew site add` to the last byte of
a run, by the commands that a person types."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from minicluster.namespaces import root_of
from minicluster.state import State

from clew_shared.base.places import Places
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from tests.cluster.journey import BOUND_S, ENDLESS, judge
from tests.cluster.mini import FOLDER, MiniCluster
from tests.integration.agents import give_way

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(900)]

CLEW = str(Path(sys.executable).with_name("clew"))
HOST = "hpc.uni.example"
MORE = 150_000
"""Bytes of a journal that the node writes while the laptop is cut off: thousands of steps."""


class Person:
    """Types commands on a laptop: has the account's password and codes, and knows the published fingerprints."""

    def __init__(self, cluster: MiniCluster, user: str, home: Path) -> None:
        self.user, self.home = user, home
        self._cluster = cluster
        self._facts = cluster.info()

    def _environment(self) -> dict[str, str]:
        """Each command may log in once: a code is good for one login."""
        return self._cluster.environment | {
            "CLEW_HOME": str(self.home),
            "SSH_ASKPASS": str(Path(__file__).with_name("askpass")),
            "SSH_ASKPASS_REQUIRE": "force",
            "ASKPASS_PASSWORD": self._facts["users"][self.user]["password"],
            "ASKPASS_CODE": self._cluster("code", self.user),
            "ASKPASS_FINGERPRINTS": " ".join(key for host in self._facts["fingerprints"].values() for key in host),
        }

    def clew(self, *words: str, status: int = 0) -> str:
        """A command that ends by itself; what it printed."""
        done = subprocess.run(
            [str(FOLDER / "on"), "laptop", CLEW, *words],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )
        assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout

    @contextmanager
    def following(self, *words: str) -> Iterator[Follower]:
        """A command that follows a run; ended at the latest where the test ends."""
        with subprocess.Popen(
            [str(FOLDER / "on"), "laptop", CLEW, *words, "--json"],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            try:
                yield Follower(process, self)
            finally:
                process.terminate()

    def here(self, run: str) -> RunFolder:
        """The laptop's copy of a run."""
        return RunFolder(Places(home=self.home, private=self.home).mirrors / run)

    def there(self, run: str) -> RunFolder:
        """The run's folder on the cluster, seen from outside."""
        home = self._facts["users"][self.user]["home"].lstrip("/")
        root = root_of(State(self._cluster.folder).pid("switch"))
        return RunFolder(root / home / ".local/share/clew/runs" / run)


class Follower:
    """A command that follows a run."""

    def __init__(self, process: subprocess.Popen[str], person: Person) -> None:
        self._process, self._person = process, person

    def until(self, true: Callable[[], bool], what: str) -> None:
        """Wait while it follows."""
        deadline = time.monotonic() + BOUND_S
        while not true():
            assert self._process.poll() is None, f"{what}: it ended with {self._process.returncode}"
            assert time.monotonic() < deadline, what
            time.sleep(0.05)

    def trains(self, beyond: int = 0) -> str:
        """Wait for a step beyond this one in the laptop's only copy of a run; the run's id."""
        found: list[str] = []

        def reached() -> bool:
            found[:] = [path.parent.name for path in self._person.here("").path.glob("*/journal.0001")]
            return any(read_run(self._person.here(run).path).fold.step > beyond for run in found)

        self.until(reached, f"a step beyond {beyond}")
        (run,) = found
        give_way(run)
        return run

    def interrupt(self) -> None:
        """Ctrl+C. ``nsenter``, which brought it there, is no process of the laptop's."""
        for child in psutil.Process(self._process.pid).children(recursive=True):
            child.send_signal(signal.SIGINT)

    def ends(self) -> dict[str, Any]:
        """What its last line says."""
        out, _ = self._process.communicate(timeout=BOUND_S)
        found: dict[str, Any] = json.loads(out.splitlines()[-1])
        return found | {"status": self._process.returncode}


def size(folder: RunFolder) -> int:
    """Bytes of its latest journal."""
    return folder.journal(folder.attempts()[-1]).stat().st_size


def test_its_habits(uni: MiniCluster) -> None:
    login = ("-p", "2200", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", f"anna.weber@{HOST}")
    done = uni.ssh(*login, 'echo "$SHELL $HOME"; ssh -o BatchMode=yes hpc-cn01 true')
    assert done.stdout.splitlines()[-1] == "/bin/tcsh /srv/users/anna.weber"
    assert "Welcome" in done.stdout
    assert "members of the university only" in done.stderr
    assert "has no active jobs on this node" in done.stderr
    no_key = ("-o", "PubkeyAuthentication=no")
    assert "Permission denied (publickey)" in uni.ssh(*login, password="backprop-1986", options=no_key).stderr
    assert "refused" in uni.call("on", "laptop", "bash", "-c", "exec 3<>/dev/tcp/10.88.0.1/22").stderr
    find = "from importlib.util import find_spec; print(*[name for name in ('keras', 'sklearn') if find_spec(name)])"
    assert uni.on("hpc-cn02", f'module load foss TensorFlow && python3 -c "{find}"').splitlines()[-1] == "keras"


def test_from_adding_the_site_to_the_last_byte_of_a_run_in_two_jobs(uni: MiniCluster, tmp_path: Path) -> None:
    """Each step is what the one before it made possible: nothing of the site was known here."""
    anna = Person(uni, "anna.weber", tmp_path / "laptop")
    where = ("--host", HOST, "--user", anna.user, "--port", "2022")
    added = anna.clew("site", "add", "uni", *where, "--module", "foss", "--module", "TensorFlow", "--time", "10")
    assert "Slurm" in added
    assert anna.clew("site", "modules", "uni", "tensor").startswith("TensorFlow/2-foss-2025a")
    _the_doctor_sees_its_habits(anna.clew("site", "doctor", "uni", "--job"))

    with anna.following("run", "softmax", "--data", "digits", "--steps", str(ENDLESS), "--site", "uni") as follower:
        run = follower.trains()
        there, here = anna.there(run), anna.here(run)
        with uni.broken("cut"):
            before = size(here)
            follower.until(lambda: size(there) > before + MORE, "the node trains on")
        missed = size(there)
        follower.until(lambda: size(here) >= missed, "what was missed is here")
        anna.clew("cancel", "j1")
        first = follower.ends()
    assert (first["run"], first["state"], first["status"]) == (run, "STOPPED", 130)

    with anna.following("resume", run) as follower:
        follower.trains(beyond=first["steps"])
        follower.interrupt()
        second = follower.ends()
    assert (second["run"], second["state"], second["status"]) == (run, "STOPPED", 130)
    assert second["steps"] > first["steps"]
    assert second["job_id"] != first["job_id"]

    other = Person(uni, anna.user, tmp_path / "another laptop")
    other.clew("site", "add", "uni", "--file", str(anna.home / "config/sites/uni.toml"))
    other.clew("fetch", "--site", "uni", run)
    for person in (anna, other):
        person.clew("verify", run)
        judge(there, person.here(run), read_run(person.here(run).path), attempts=2)


def _the_doctor_sees_its_habits(text: str) -> None:
    for line in (
        r"ok  Login +anna\.weber@hpc\.uni\.example let you in: password and one-time code",
        r"note  Login shell +The login shell prints text even when nobody is there: “Welcome",
        r"ok  Modules +Loaded: foss, TensorFlow\.",
        r"ok  Partition +There are: batch, express, accel\. Jobs go to batch\.",
        r"note  Forwarding +The login node forwards connections to SSH servers only\.",
        r"ok  TensorFlow there +TensorFlow 2\.\d+\.\d+ was imported on hpc-cn0\d\.",
        r"note  Port there +Port \d+ of hpc-cn0\d was not reached\.",
    ):
        assert re.search(rf"^ *{line}", text, re.MULTILINE), text
    assert "Nothing keeps runs from working there." in text


OLD = """
format = 1
host = "hpc.uni.example"
user = "ben.okafor"
port = 2200
scheduler = "slurm"
modules = ["Python/3.6.8"]
python = "/mnt/sw/python-3.6.8/bin/python3"
"""


def test_the_other_door_takes_a_key_and_an_old_python_is_named(uni: MiniCluster, tmp_path: Path) -> None:
    ben, file = Person(uni, "ben.okafor", tmp_path / "laptop"), tmp_path / "course.toml"
    file.write_text(OLD)
    ben.clew("site", "add", "uni", "--file", str(file))
    text = ben.clew("site", "doctor", "uni", status=1)
    assert re.search(r"ok  Login +ben\.okafor@hpc\.uni\.example let you in: key ", text), text
    assert "is Python 3.6.8; the agent needs 3.11 or newer." in text
    assert "One thing keeps runs from working there: Python." in text
