"""The mini cluster comes up, stands apart from this computer, and leaves nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil
import pytest
from minicluster import codes, plan
from minicluster.namespaces import processes_of
from minicluster.state import State, start_of

from tests.cluster.mini import FOLDER, UP_LIMIT_S, MiniCluster

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(300)]  # the first test may have to install packages
NAMES = ("laptop", "login", "ctl", "node1", "node2", "node3")


def cluster_processes(mini: MiniCluster) -> list[int]:
    """Ids of all processes on all hosts."""
    return [pid for first in State(mini.folder).running().values() for pid in processes_of(first)]


def test_every_host_has_its_own_name_and_addresses(cluster: MiniCluster) -> None:
    addresses = cluster.info()["hosts"]
    for name in NAMES:
        shown = cluster.on(name, "hostname; ip -4 -brief address show")
        assert shown.startswith(f"{name}\n")
        for address in addresses[name].values():
            assert f" {address}/24" in shown


def test_a_second_up_says_that_it_is_up(cluster: MiniCluster) -> None:
    before = State(cluster.folder).running()
    assert "already" in cluster("up")
    assert State(cluster.folder).running() == before


@pytest.mark.parametrize(("profile", "said"), [("uni", "has the profile courses"), ("moon", "from courses, uni")])
def test_another_profile_is_not_brought_up_in_its_place(cluster: MiniCluster, profile: str, said: str) -> None:
    done = cluster.call("up", "--profile", profile)
    assert (done.returncode, said in done.stderr) == (1, True), done.stderr
    assert cluster.info()["profile"] == "courses"


def test_no_process_of_the_cluster_is_in_this_computers_network(cluster: MiniCluster) -> None:
    own = Path("/proc/self/ns/net").readlink()
    networks = {Path(f"/proc/{pid}/ns/net").readlink() for pid in cluster_processes(cluster)}
    assert len(networks) == len(plan.COURSES.hosts)
    assert own not in networks


def test_this_computers_mounts_and_users_are_untouched(cluster: MiniCluster) -> None:
    assert str(cluster.folder) not in Path("/proc/self/mounts").read_text()
    assert "student" not in Path("/etc/passwd").read_text()
    assert not Path("/home/student").exists()


def test_a_second_cluster_beside_it_ends_alone_and_leaves_nothing(cluster: MiniCluster, tmp_path: Path) -> None:
    """One without control groups, as on a computer that has none."""
    other = MiniCluster(tmp_path / "run", CLEW_CLUSTER_GROUPS="no")
    other("up", limit_s=UP_LIMIT_S)
    try:
        assert other.info()["memory"] == "slurm"
        processes = {pid: start_of(pid) for pid in cluster_processes(other)}
        assert len(processes) > len(plan.COURSES.hosts)
    finally:
        assert "is down" in other("down")
    assert not [pid for pid, start in processes.items() if start_of(pid) == start]
    assert not other.folder.exists()
    assert "was not up" in other("down")
    assert set(State(cluster.folder).running()) == set(plan.COURSES.hosts)


def test_what_is_left_of_a_crashed_up_is_no_hindrance(tmp_path: Path) -> None:
    """A run folder from before the computer started: its process ids mean nothing any more."""
    mini = MiniCluster(tmp_path / "run")
    (mini.folder / "hosts").mkdir(parents=True)
    own = psutil.Process().pid
    (mini.folder / "state.json").write_text(
        f'{{"boot": "another", "hosts": {{"login": {{"pid": {own}, "start": "1"}}}}}}'
    )
    assert mini.call("status").returncode == 1
    assert "was not up" in mini("down")
    assert not mini.folder.exists()


def test_commands_keep_their_status_words_and_input(cluster: MiniCluster) -> None:
    assert cluster.on("login", "printf", "%s|", "two words", "$HOME", "*") == "two words|$HOME|*|"
    assert cluster.on("login", "cd /tmp && pwd; echo $HOME") == "/tmp\n/home/student"
    assert cluster.on("node1", "cat", input="typed") == "typed"
    assert cluster.call("on", "node2", "exit 7").returncode == 7


def test_the_laptop_is_this_computer_in_another_network(cluster: MiniCluster, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("of the project")
    assert cluster.on("laptop", "cat", "file", cwd=tmp_path) == "of the project"
    assert cluster.on("laptop", "echo $HOME") == cluster.info()["laptop_home"]
    assert cluster.call("on", "laptop", "getent", "hosts", "node1").returncode != 0


@pytest.mark.parametrize("words", [("on", "node9", "true"), ("fault", "earthquake"), ("heal", "cut", "moon")])
def test_what_does_not_exist_is_refused_with_what_does(cluster: MiniCluster, words: tuple[str, ...]) -> None:
    done = cluster.call(*words)
    assert done.returncode == 1
    assert {"on": "node3", "fault": "home-full", "heal": "laptop"}[words[0]] in done.stderr


def test_the_logs_of_a_hosts_daemons_can_be_read(cluster: MiniCluster) -> None:
    assert "slurmctld version" in cluster("log", "ctl")
    assert "--- slurmd.log" in cluster("log", "node1")


def test_without_a_cluster_commands_say_how_to_have_one(tmp_path: Path) -> None:
    mini = MiniCluster(tmp_path / "run")
    for words in (("on", "login", "true"), ("fault", "banner"), ("code",)):
        done = mini.call(*words)
        assert (done.returncode, "make cluster-up" in done.stderr) == (1, True)
    assert not mini.folder.exists()


def test_what_a_computer_forbids_is_named() -> None:
    """As in a container without rights to make namespaces."""
    command = ["setpriv", "--bounding-set=-sys_admin", str(FOLDER / "cluster")]
    check = subprocess.run([*command, "check"], capture_output=True, text=True, timeout=60, check=False)
    assert (check.returncode, check.stdout.split(", ")[0]) == (1, "missing: a namespace for mounts")


def test_who_kills_on_ends_the_command(cluster: MiniCluster) -> None:
    command = [
        str(FOLDER / "on"),
        "laptop",
        "sh",
        "-c",
        "trap 'echo ended; exit' TERM; echo began; while :; do sleep 0.1; done",
    ]
    with subprocess.Popen(command, env=cluster.environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "began\n"
        process.kill()
        assert process.stdout.read() == "ended\n"


def test_codes_are_those_of_the_standard() -> None:
    """RFC 6238, appendix B, the last six digits of the SHA-1 column."""
    secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"  # "12345678901234567890"
    vectors = {59: "287082", 1111111109: "081804", 1234567890: "005924", 20000000000: "353130"}
    assert {time: codes.code(secret, time // codes.STEP_S) for time in vectors} == vectors
