"""``clew run --site`` from the laptop to a node and back, through every scheduler of the mini cluster."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import psutil
import pytest

from clew_gui.sites.consent import consents, words_of
from clew_gui.sites.site_file import read_site
from clew_gui.sites.store import site_store
from clew_shared.base.places import Places
from clew_shared.journal.events import Attempt, Peer
from clew_shared.journal.files import Record, attempts, read_journal
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from clew_shared.spec import read_spec
from tests.cluster.journey import stand_in
from tests.cluster.mini import FOLDER, MiniCluster
from tests.integration.agents import wait_for

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(900)]

LIMIT_S = 200.0
"""Bringing the agent there, a job's start, TensorFlow's import on a cold disk."""

ASKPASS = Path(__file__).with_name("askpass")
PROGRAM = (sys.executable, "-P", "-m", "clew_gui")
RUN = ("run", "softmax", "--preset", "tiny", "--data", "digits", "--json")

Clew = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def clew(cluster: MiniCluster, home: Path) -> Clew:
    """A command on the laptop, with runs of its own."""

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return cluster.call("on", "laptop", "env", f"CLEW_HOME={home}", *PROGRAM, *words, limit_s=LIMIT_S)

    return call


def has_finished(folder: Path) -> bool:
    return bool(attempts(folder)) and read_run(folder).fold.state is RunState.FINISHED


def last_line(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture
def light(cluster: MiniCluster, home: Path) -> None:
    """The sites' jobs train without TensorFlow."""
    places = Places(home=home, private=home)
    for name in ("minicluster", "minicluster-otp"):
        there = read_site(FOLDER / f"sites/{name}.toml")
        site = msgspec.structs.replace(there, prologue=stand_in(cluster.student_home()))
        site_store(places).save(name, site, replace=True)
        consents(places).give(words_of(site))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same run on this computer."""
    home = str(tmp_path_factory.mktemp("here"))
    environment = os.environ | {"CLEW_HOME": home}
    done = subprocess.run(
        [*PROGRAM, *RUN], env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return last_line(done)


def test_a_run_is_queued_trains_on_a_node_and_streams_back(clew: Clew, here: dict[str, Any]) -> None:
    done = clew(*RUN, "--site", "minicluster")
    assert done.returncode == 0, done.stderr
    found = last_line(done)
    assert (found["state"], found["steps"], found["site"]) == ("FINISHED", 100, "minicluster")
    assert found["metrics"]["test_accuracy"] > 0.8
    assert (found["metrics"], found["best"]) == (here["metrics"], here["best"])
    assert clew("verify", "last").returncode == 0
    (job,) = json.loads(clew("jobs", "--json").stdout)
    assert (job["id"], job["phase"]) == (found["job_id"], "COMPLETED"), "its node was let go of at once"


def test_a_run_on_a_held_node_is_tried_there_and_nothing_of_that_stays(clew: Clew) -> None:
    assert clew("hold", "--site", "minicluster", "--detach").returncode == 0
    try:
        run = last_line(clew(*RUN, "--site", "minicluster"))["run"]
        done = clew("try", run, "--sample", "3", "--json")
        assert done.returncode == 0, done.stderr
        found = last_line(done)
        assert (found["run"], found["step"], found["sample"]) == (run, 100, 3)
        assert sum(found["probabilities"]) == pytest.approx(1, abs=1e-5)
        there = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
        assert not [words for words in there if " try " in words and run in words]
    finally:
        assert clew("let-go", "--site", "minicluster").returncode == 0
    refused = clew("try", run)
    assert refused.returncode == 2
    assert "its checkpoints are on the site" in refused.stderr


@pytest.mark.parametrize("site", ["minicluster-pbs", "minicluster-mn", "minicluster-bw", "minicluster-ssh"])
def test_every_way_to_a_node_leads_to_the_same_result(site: str, clew: Clew, here: dict[str, Any]) -> None:
    done = clew(*RUN, "--site", site)
    assert done.returncode == 0, done.stderr
    found = last_line(done)
    assert (found["state"], found["steps"], found["site"]) == ("FINISHED", 100, site)
    assert (found["metrics"], found["best"]) == (here["metrics"], here["best"])


def test_a_run_spreads_over_two_nodes_of_its_job(clew: Clew, here: dict[str, Any], home: Path) -> None:
    """One command asks the scheduler for two nodes; the processes on them meet at the nodes' own addresses."""
    done = clew(*RUN, "--strategy", "multi-worker", "--nodes", "2", "--site", "minicluster")
    assert done.returncode == 0, done.stderr
    found = last_line(done)
    assert (found["state"], found["steps"]) == ("FINISHED", 100)
    assert found["metrics"] == pytest.approx(here["metrics"], rel=1e-3)
    journal = read_journal(home / "mirrors" / found["run"] / "journal.0001")
    events = [item.event for item in journal if isinstance(item, Record)]
    chief = next(event for event in events if isinstance(event, Attempt))
    joined, ended = (event for event in events if isinstance(event, Peer))
    assert (joined.status, ended.status) == ("joined", "ended")
    assert {chief.host, joined.host} <= {"node1", "node2", "node3"}
    assert chief.host != joined.host
    assert joined.address.startswith("10.77.")
    assert clew("verify", "last").returncode == 0


PROGRAMS = ("sbatch", "squeue", "sinfo", "sacct", "scancel", "scontrol", "srun", "salloc", "sacctmgr", "sprio")
PBS = ("PBS_DEFAULT", "PBS_SERVER", "PBS_DPREFIX", "PBS_JOBID", "PBS_WALLTIME", "PBS_NODEFILE", "PBSDEBUG")


@pytest.fixture
def nonsense(cluster: MiniCluster) -> Iterator[None]:
    """The student's start files export every variable that Slurm's programs have in them, but for those that say
    where the cluster is, and put a package that cannot be imported before the site's."""
    files = [Path("/usr/bin", name) for name in PROGRAMS] + [*Path("/usr/lib").glob("*/slurm-wlm/libslurmfull.so")]
    form = rb"\0(S(?:ACCT|ALLOC|BATCH|CANCEL|CONTROL|INFO|LURMD?|PRIO|QUEUE|RUN)_[A-Z][A-Z0-9_]+)(?=\0)"
    names = {name.decode() for file in files for name in re.findall(form, file.read_bytes())}
    names -= {"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"}
    assert {"SBATCH_PARTITION", "SQUEUE_USERS", "SLURM_CLUSTERS", "SLURM_JOB_ID", "SRUN_DEBUG"} <= names
    lines = "".join(f"export {name}=nonsense\n" for name in (*sorted(names), *PBS))
    lines += "export PYTHONPATH=$HOME/old\n"
    cluster.on("login", "mkdir -p old/zmq; echo 'raise ImportError(\"old zmq\")' >old/zmq/__init__.py")
    cluster.on("login", "cp .bashrc kept.bashrc; cat - kept.bashrc >.bashrc", input=lines)
    try:
        yield
    finally:
        cluster.on("login", "mv kept.bashrc .bashrc; rm -r old")


@pytest.mark.usefixtures("nonsense")
@pytest.mark.parametrize("site", ["minicluster", "minicluster-pbs", "minicluster-mn"])
def test_what_the_account_exports_changes_nothing(site: str, clew: Clew, cluster: MiniCluster) -> None:
    done = clew(*RUN, "--strategy", "multi-worker", "--nodes", "2", "--site", site, "--time", "10")
    assert done.returncode == 0, done.stderr
    found = last_line(done)
    assert (found["state"], found["steps"]) == ("FINISHED", 100)
    shown = cluster.on("ctl", "scontrol", "--oneliner", "show", "job", found["job_id"])
    assert "Partition=debug" in shown
    assert "TimeLimit=00:10:00" in shown
    assert ("Account=nonsense" in shown) is (site != "minicluster-pbs"), "SBATCH_ACCOUNT, as the site names none"
    doctor = clew("site", "doctor", site, "--job")
    assert doctor.returncode == 0, doctor.stdout
    assert clew("hold", "--site", site, "--detach").returncode == 0
    (held,) = (job for job in json.loads(clew("jobs", "--json").stdout) if job["hold"])
    assert held["stage"] in ("QUEUED", "RUNNING")
    wait_for(lambda: json.loads(clew("jobs", "--json").stdout)[-1]["stage"] == "RUNNING", "the allocation")
    shell = clew("shell", "--site", site, "--", "hostname")
    assert shell.stdout.startswith("node"), shell.stderr
    assert clew("cancel", f"j{held['number']}").returncode == 0
    assert cluster.job_state(held["id"]) in ("CANCELLED", "COMPLETED", "COMPLETING")


def test_a_parameter_server_cluster_forms_on_three_nodes_of_a_job(clew: Clew, home: Path) -> None:
    """The coordinator, a server and two workers, which meet at the nodes' own addresses."""
    words = ("run", "ps-lab", "--data", "digits", "--steps", "100", "--nodes", "3", "--json")
    done = clew(*words, "--site", "minicluster-bw")
    assert done.returncode == 0, done.stderr
    found = last_line(done)
    assert (found["state"], found["steps"]) == ("FINISHED", 100)
    assert found["metrics"]["test_accuracy"] > 0.6, "old gradients cost something, and never the same"
    journal = read_journal(home / "mirrors" / found["run"] / "journal.0001")
    events = [item.event for item in journal if isinstance(item, Record)]
    joined = [event for event in events if isinstance(event, Peer) and event.status == "joined"]
    assert sorted((peer.role, peer.index) for peer in joined) == [("ps", 0), ("worker", 0), ("worker", 1)]
    chief = next(event for event in events if isinstance(event, Attempt))
    assert len({chief.host, *(peer.host for peer in joined if peer.role == "worker")}) == 3
    assert all(peer.address.startswith("10.77.") for peer in joined)


def test_a_study_is_one_job_and_nothing_of_it_runs_twice(
    clew: Clew, cluster: MiniCluster, home: Path, tmp_path: Path
) -> None:
    """Ctrl+C ends the study's job; the same study goes on in a second one with what is missing."""
    file, there = str(tmp_path / "study.toml"), ("--site", "minicluster")
    asked = ("--data", "digits", "--devices", "1,2", "--steps", "60", "--save", file)
    command = ("on", "laptop", "env", f"CLEW_HOME={home}", *PROGRAM, "scaling", "softmax", *asked, *there)
    with subprocess.Popen(
        [FOLDER / "cluster", *command],
        env=cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as first:
        assert first.stdout is not None
        said = []
        for line in first.stdout:
            said.append(line)
            if line.startswith("1 device: Finished"):
                for child in psutil.Process(first.pid).children(recursive=True):
                    child.send_signal(signal.SIGINT)
    assert first.returncode == 130, said
    (job,) = json.loads(clew("jobs", "--json").stdout)
    assert job["stage"] == "ENDED", "it was let go of, with the runs that had not begun"
    before = {run["run"] for run in json.loads(clew("runs", "--json").stdout) if run["state"] == "FINISHED"}
    assert 1 <= len(before) <= 2
    done = clew("study", file, *there, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("finished before") == len(before)
    found = last_line(done)
    assert [(row["devices"], row["repeats"]) for row in found["table"]] == [(1, 1), (2, 1)]
    runs = json.loads(clew("runs", "--json").stdout)
    finished = {run["run"] for run in runs if run["state"] == "FINISHED"}
    assert finished == {run["run"] for run in found["runs"]} >= before
    assert (len(finished), len(runs) - len(finished)) in ((2, 0), (2, 1)), "one was stopped while it trained"
    assert all((home / "mirrors" / run["run"] / "journal.0001").exists() for run in runs)
    jobs = json.loads(clew("jobs", "--json").stdout)
    assert len(jobs) == (2 if len(before) == 1 else 1)


def there_in(cluster: MiniCluster) -> Path:
    """The student's runs on the cluster, seen from outside."""
    return cluster.student_home() / ".local/share/clew/runs"


class KilledClew:
    """A command on the laptop that is killed at a chosen moment, without a last word."""

    def __init__(self, cluster: MiniCluster, home: Path) -> None:
        self._start = (FOLDER / "cluster", "on", "laptop", "env", f"CLEW_HOME={home}", *PROGRAM)
        self._environment = cluster.environment

    def __call__(self, *words: str, when: Callable[[str], bool]) -> str:
        """Kill it ``when`` a line was printed; what it had said by then."""
        with subprocess.Popen(
            [*self._start, *words],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as program:
            assert program.stdout is not None
            said = ""
            for line in program.stdout:
                said += line
                if when(line):
                    for child in psutil.Process(program.pid).children(recursive=True):
                        child.kill()
                    return said
        raise AssertionError(f"it ended by itself: {said}")


@pytest.mark.usefixtures("light")
def test_a_race_is_one_job_and_its_table_has_every_lane(clew: Clew) -> None:
    asked = ("linear-regression", "--lanes", "adam,momentum", "--steps", "50")
    done = clew("race", *asked, "--site", "minicluster", "--json")
    assert done.returncode == 0, done.stderr
    assert [(lane["state"], lane["steps"]) for lane in last_line(done)["lanes"]] == [("FINISHED", 50)] * 2
    assert len(json.loads(clew("jobs", "--json").stdout)) == 1


@pytest.mark.usefixtures("light")
def test_a_sweep_that_is_interrupted_at_any_moment_does_every_point_once(
    clew: Clew, cluster: MiniCluster, home: Path, tmp_path: Path
) -> None:
    """The command is killed while its job waits, while the first run trains and between runs; its job is cancelled; and
    the laptop is away until the last run has ended. Each time ``clew study`` goes on with what is left."""
    killed, file, there = KilledClew(cluster, home), str(tmp_path / "sweep.toml"), ("--site", "minicluster")
    over = ("--over", "learning_rate=0.01, 0.02, 0.03", "--data", "digits", "--steps", "8000", "--save", file)
    nodes = "nodename=node[1-3]"

    def waits(line: str) -> bool:
        return line.startswith("It waits")

    cluster.on("root@login", "scontrol", "update", nodes, "state=drain", "reason=test")
    try:
        said = killed("sweep", "softmax", *over, *there, when=waits)
        assert "3 runs go to" in said
        said = killed("study", file, *there, when=waits)
        assert "3 runs are on" in said, "none has begun, and all are on their way"
    finally:
        cluster.on("root@login", "scontrol", "update", nodes, "state=resume")
    said = killed("study", file, *there, when=lambda line: "step" in line)
    assert "3 runs are on" in said
    assert "Finished" not in said, "the first run trains"

    def cancelled(line: str) -> bool:
        if ": Finished" in line:  # now: a busy machine is slow to end a command, and the other two may have ended then
            cluster.on("root@login", "scancel", "--user=student")
        return ": Finished" in line

    killed("study", file, *there, when=cancelled)
    wait_for(lambda: not cluster.on("login", "squeue", "--noheader"), "the end of the cancelled job")

    said = killed("study", file, *there, when=lambda line: "on Mini cluster" in line)
    assert 1 <= said.count("finished before") <= 2, said
    mirrors = [folder for folder in (home / "mirrors").iterdir() if folder.is_dir()]
    on_site = [there_in(cluster) / folder.name for folder in mirrors]
    wait_for(lambda: sum(map(has_finished, on_site)) == 3, "the last run's end")
    done = clew("study", file, *there, "--json")
    assert done.returncode == 0, done.stderr
    assert "to Mini cluster" not in done.stderr
    assert len(json.loads(clew("jobs", "--json").stdout)) == 2, "nothing was left to send"
    runs = json.loads(clew("runs", "--json").stdout)
    finished = [run for run in runs if run["state"] == "FINISHED"]
    specs = [read_spec(RunFolder(home / "mirrors" / run["run"]).spec) for run in finished]
    assert sorted(str(spec.params["learning_rate"]) for spec in specs) == ["0.01", "0.02", "0.03"]
    assert len(runs) - len(finished) <= 1, "the one that trained when its job was cancelled"


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
        return cluster.call("on", "laptop", *words, *given, limit_s=LIMIT_S)

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
    assert 1700 < login["until"] - login["since"] <= 1800 + LIMIT_S
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
        "login", "cat > results/job.sh && cd results && sbatch --wait job.sh", input=shown("bash"), limit_s=LIMIT_S
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
        return cluster.call("on", "laptop", *command, limit_s=LIMIT_S)

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
