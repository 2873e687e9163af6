"""What is asked of a site and what it refuses; runs that are left alone and fetched later."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.cluster.commands import CALL_LIMIT_S, PROGRAM, Clew, last_line
from tests.cluster.mini import MiniCluster

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(900)]


ASKPASS = Path(__file__).with_name("askpass")


@pytest.fixture
def coded(cluster: MiniCluster, home: Path, tmp_path: Path) -> Iterator[Clew]:
    """A command of somebody who logs in with password and code, each typed once at most. In the end nobody does."""
    asked = tmp_path / "asked"
    program = tmp_path / "askpass"
    program.write_text(f'#!/bin/sh\necho "$1" >>{asked}\nexec {ASKPASS} "$1"\n')
    program.chmod(0o755)
    student = cluster.info()["users"]["student"]
    answers = {"SSH_ASKPASS": program, "SSH_ASKPASS_REQUIRE": "force", "CLEW_HOME": home}
    answers |= {"ASKPASS_PASSWORD": student["password"], "ASKPASS_CODE": cluster("code")}
    words = ("env", *(f"{name}={value}" for name, value in answers.items()), *PROGRAM)

    def call(*given: str) -> subprocess.CompletedProcess[str]:
        return cluster.call("on", "laptop", *words, *given, limit_s=CALL_LIMIT_S)

    yield call
    assert call("logout").returncode == 0


@pytest.mark.usefixtures("light")
def test_a_sitting_on_a_site_with_codes_asks_for_one_code(coded: Clew, cluster: MiniCluster, tmp_path: Path) -> None:
    def asked() -> list[str]:
        return (tmp_path / "asked").read_text().splitlines()

    def done(*words: str) -> subprocess.CompletedProcess[str]:
        found = coded(*words)
        assert found.returncode == 0, found.stdout + found.stderr
        return found

    site = ("--site", "minicluster-otp")
    first = done("run", "linear-regression", "--preset", "tiny", *site, "--detach")
    assert "You stay logged in to student@login until 30 min after the last use, also" in first.stderr
    assert asked() == ["(student@login) Password:", "(student@login) One-time password (OATH) for `student':"]
    assert last_line(done("attach", "1", "--json"))["steps"] == 100
    done("fetch", *site)
    seen = done("site", "doctor", "minicluster-otp").stdout
    assert re.search(r"let you in: key \S+ and password and one-time code at \d\d:\d\d\.", seen), seen
    assert len(asked()) == 2, "all of them together"

    (login,) = json.loads(done("logout", "--list", "--json").stdout)["logins"]
    assert (login["login"], login["sites"]) == ("student@login", ["minicluster-otp"])
    assert 1700 < login["until"] - login["since"] <= 1800 + CALL_LIMIT_S
    assert "student@login" in done("logout", "--list").stdout

    assert done("logout", "minicluster").stdout == "You were not logged in to minicluster.\n"
    assert done("logout", "minicluster-otp").stdout == "Logged out of student@login.\nJobs go on.\n"
    assert json.loads(done("logout", "minicluster-otp", "--json").stdout) == {
        "ended": [],
        "stay": [],
        "removed": [],
    }
    assert "You are not logged in anywhere." in done("logout", "--list").stdout
    assert coded("logout", "minicluster-opt").returncode == 2
    assert coded("fetch", *site).returncode == 2, "it asks again, and the code was used"
    assert len(asked()) > 2


ASKED = {
    "--partition": ("training", "Partition=training"),
    "--account": ("course", "Account=course"),
    "--reservation": ("monday", "Reservation=monday"),
    "--time": ("7", "TimeLimit=00:07:00"),
    "--nodes": ("1", "NumNodes=1"),
    "--gpus": ("2", "TresPerNode=gres:gpu:2"),
    "--cpus": ("3", "CPUs/Task=3"),
    "--features": ("k80", "Features=k80"),
}
"""What is asked for and Slurm's words for it. A QOS is dropped by a Slurm without accounts; the script has it."""


@pytest.fixture
def monday(cluster: MiniCluster) -> Iterator[None]:
    """The day's reservation of a course."""
    what = ("reservationname=monday", "starttime=now", "duration=30", "users=student", "nodes=node3")
    cluster.on("ctl", "scontrol", "create", "reservation", *what)
    yield
    delete = "scontrol delete reservationname=monday"  # refused while its last job ends
    cluster.on("ctl", f"for i in $(seq 200); do {delete} 2>/dev/null && exit; sleep 0.1; done; {delete}")


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    """A set of one's own on the laptop, in the form of MNIST: 31 MB, so that there is time to tell of it."""
    dice, path = np.random.default_rng(7), tmp_path / "my letters.npz"
    x = dice.integers(0, 256, (20_000, 28, 28), dtype=np.uint8)
    y = dice.integers(0, 10, 20_000, dtype=np.uint8)
    np.savez(path, x_train=x, y_train=y, x_test=x, y_test=y)
    return path


@pytest.mark.usefixtures("monday", "light")
def test_the_shown_script_is_sent_asks_for_what_was_said_and_the_laptops_data_go_along(
    clew: Clew, cluster: MiniCluster, letters: Path
) -> None:
    asked = [word for name, (value, _) in ASKED.items() for word in (name, value)]
    words = ("run", "softmax", "--data", str(letters), "--steps", "20", "--site", "minicluster", "--qos", "lab", *asked)
    shown = clew(*words, "--dry-run", "--json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(clew("jobs", "--json").stdout) == []
    done = clew(*words, "--json")
    assert done.returncode == 0, done.stderr
    found = last_line(done)
    assert (found["state"], found["steps"]) == ("FINISHED", 20)
    sent = cluster.on("login", "cat", f".local/share/clew/jobs/{found['job']}/job.sh")
    script = last_line(shown)["script"].rstrip("\n")
    shown_job = next(line for line in script.splitlines() if line.startswith("clew_job=")).removeprefix("clew_job=")
    assert script.replace(shown_job, found["job"]) == sent
    assert "#SBATCH --qos=lab" in sent
    known = cluster.on("ctl", "scontrol", "show", "job", "-o", found["job_id"]).split()
    assert {said for _, said in ASKED.values()} - {*known} == set()
    digest = hashlib.sha256(letters.read_bytes()).hexdigest()
    staged = f".local/share/clew/staged/{digest}/{letters.name}"
    assert f"Bringing {letters.name}" in done.stderr
    assert f"Data set mnist from /home/student/{staged} (SHA-256 {digest})" in done.stderr
    assert cluster.on("login", f"sha256sum '{staged}'").split()[0] == digest


@pytest.mark.usefixtures("light")
def test_a_job_that_cannot_start_says_why_and_is_cancelled(clew: Clew, cluster: MiniCluster) -> None:
    words = ("--partition", "short", "--time", "5", "--qos", "lab", "--detach")  # a QOS may allow more: it is sent
    done = clew("run", "linear-regression", "--preset", "tiny", "--site", "minicluster", *words)
    assert done.returncode == 0, done.stderr
    assert "Come back with: clew attach 1" in done.stdout
    (job,) = json.loads(clew("jobs", "--json").stdout)
    assert job["stage"] == "QUEUED"
    ended = clew("cancel", "j1")
    assert ended.returncode == 0, ended.stderr
    assert "cancelled" in ended.stdout
    assert cluster.job_state(job["id"]) == "CANCELLED"
    assert clew("attach", "1").returncode == 130


def test_a_run_is_left_alone_and_fetched_after_its_job_is_over(clew: Clew, cluster: MiniCluster) -> None:
    assert clew("run", "linear-regression", "--preset", "tiny", "--site", "minicluster", "--detach").returncode == 0
    done = clew("attach", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert last_line(done)["steps"] == 100
    assert last_line(clew("show", "1", "--json"))["metrics"]["W"] == pytest.approx(-0.838869, abs=1e-6)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("linear-regression", "--partition", "huge"), "partition"),
        (("linear-regression", "--gpus", "9"), "GPU"),
        (("linear-regression", "--time", "soon"), "time limit"),
        (("softmax", "--data", "mnist"), "The data set 'mnist' was not found"),
        (("softmax", "--data", "site:/no/such.npz"), "The data path /no/such.npz does not exist."),
        (
            ("linear-regression", "--partition", "short", "--time", "5"),
            "the limit of short is 2 minutes. Ask for at most 2 minutes, or choose another partition: ",
        ),
    ],
)
def test_what_cannot_be_had_is_said_and_nothing_is_left(words: tuple[str, ...], said: str, clew: Clew) -> None:
    done = clew("run", *words, "--preset", "tiny", "--site", "minicluster")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(clew("jobs", "--json").stdout) == []
    assert json.loads(clew("runs", "--json").stdout) == []


PAGE = (Path(__file__).parents[2] / "docs/command-line.md").read_text()


def shown(kind: str) -> str:
    """What the page on the command line shows for a job script of one's own."""
    section = PAGE.partition("## A job script of your own")[2].partition("\n## ")[0]
    (text,) = re.findall(f"```{kind}\n(.*?)```", section, re.DOTALL)
    return str(text)


def test_a_plain_batch_run_without_any_viewer_is_brought_home(clew: Clew, cluster: MiniCluster) -> None:
    words = ("run", "linear-regression", "--preset", "tiny", "--site", "minicluster", "--json")
    sent = last_line(clew(*words))  # so that the agent is there
    cluster.on("login", "mkdir -p results && cat > results/spec.toml", input=shown("toml"))
    cluster.on(
        "login", "cat > results/job.sh && cd results && sbatch --wait job.sh", input=shown("bash"), limit_s=CALL_LIMIT_S
    )
    done = clew("fetch", "--site", "minicluster", "results/first", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout.splitlines()[-1])
    assert (found["state"], found["steps"]) == ("FINISHED", 5000)
    assert clew("verify", found["run"]).returncode == 0
    listed = {run["run"]: run["number"] for run in json.loads(clew("runs", "--json").stdout)}
    assert listed == {sent["run"]: 1, found["run"]: 2}
    opened = last_line(clew("show", "last", "--json"))
    assert (opened["run"], opened["state"], opened["metrics"]) == (found["run"], "FINISHED", found["metrics"])
    assert opened["metrics"]["W"] == pytest.approx(-1.0, abs=1e-3)
    assert "FINISHED after 5000 steps" in cluster.on("login", "cat results/job.log")
    again = clew("fetch", "--site", "minicluster", sent["run"])
    assert again.returncode == 0, again.stderr


def test_another_laptop_of_the_same_student_brings_home_every_run_that_is_not_there_yet(
    clew: Clew, cluster: MiniCluster, tmp_path: Path
) -> None:
    def other(*words: str) -> subprocess.CompletedProcess[str]:
        command = ("env", f"CLEW_HOME={tmp_path / 'other'}", *PROGRAM, *words)
        return cluster.call("on", "laptop", *command, limit_s=CALL_LIMIT_S)

    words = ("run", "linear-regression", "--preset", "tiny", "--site", "minicluster", "--json")
    first, second = last_line(clew(*words)), last_line(other(*words))
    done = other("fetch", "--site", "minicluster", "--json")
    assert done.returncode == 0, done.stderr
    brought = {run["run"]: run for run in json.loads(done.stdout.splitlines()[-1])}
    assert second["run"] not in brought, "it is here already"
    assert brought[first["run"]]["state"] == "FINISHED"
    assert brought[first["run"]]["metrics"] == first["metrics"]
    assert all(other("verify", run).returncode == 0 for run in (first["run"], second["run"]))
    again = other("fetch", "--site", "minicluster")
    assert (again.returncode, "are here already" in again.stdout) == (0, True), again.stdout + again.stderr


@pytest.mark.parametrize("fault", ["home-full", "quota-full"])
def test_where_no_byte_can_be_written_it_says_so_and_nothing_is_sent(
    fault: str, clew: Clew, cluster: MiniCluster
) -> None:
    """The agent does not fit, or is there already and the job's own files do not."""
    with cluster.broken(fault):
        done = clew("run", "linear-regression", "--preset", "tiny", "--site", "minicluster")
    assert done.returncode == 2
    assert re.search(r"No space left on device\. 0 bytes are free|\(quota\? disk full\?\)", done.stderr), done.stderr
    assert json.loads(clew("jobs", "--json").stdout) == []
