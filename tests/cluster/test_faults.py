"""Each fault does what it says, and is gone when it is healed."""

from __future__ import annotations

import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.mini import FOLDER, LIMIT_S, MiniCluster
from tests.cluster.test_jobs import output_of, wait_for

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(300)]


@contextmanager
def echo_on_login(cluster: MiniCluster) -> Iterator[subprocess.Popen[str]]:
    """An open ssh connection to a program on the login node that repeats what it is told."""
    command = [str(FOLDER / "on"), "laptop", "ssh", "-o", "BatchMode=yes", "login", "cat"]
    with subprocess.Popen(
        command, env=cluster.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        try:
            say(process, "hello")
            assert hears(process, LIMIT_S) == "hello"
            yield process
        finally:
            process.terminate()


def say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")


def hears(process: subprocess.Popen[str], limit_s: float) -> str | None:
    """The next line, or None when none comes in time."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], limit_s)
    return process.stdout.readline().strip() if ready else None


@pytest.mark.parametrize("fault", [("cut", "laptop"), ("unplug", "login"), ("freeze", "login")])
def test_a_connection_outlives_a_dead_link(cluster: MiniCluster, fault: tuple[str, ...]) -> None:
    with echo_on_login(cluster) as connection:
        with cluster.broken(*fault):
            say(connection, "into the dark")
            assert hears(connection, 0.5) is None
        assert hears(connection, LIMIT_S) == "into the dark"


def test_a_pulled_cable_is_seen_and_a_cut_one_is_not(cluster: MiniCluster) -> None:
    def carrier() -> bool:
        return "NO-CARRIER" not in cluster.on("laptop", "ip", "-brief", "link", "show", "wan")

    with cluster.broken("cut"):
        assert carrier()
    with cluster.broken("unplug"):
        assert not carrier()
    assert carrier()


def test_a_fault_can_be_healed_by_itself(cluster: MiniCluster) -> None:
    with subprocess.Popen([str(FOLDER / "cluster"), "fault", "banner", "--for", "6"], env=cluster.environment) as fault:
        wait_for(lambda: "fault: banner login" in cluster("status"), "the fault")
        assert fault.wait(LIMIT_S) == 0
    assert "fault" not in cluster("status")


def test_sshd_restarts_and_all_sessions_end(cluster: MiniCluster) -> None:
    with echo_on_login(cluster) as connection:
        cluster("fault", "sshd-restart")
        assert connection.wait(LIMIT_S) == 255
    assert cluster.ssh("login", "hostname").stdout.strip() == "login"


def test_a_node_loses_its_power_and_its_job(cluster: MiniCluster) -> None:
    job = cluster.submit("sleep 100", "--nodelist=node3", "--no-requeue")
    wait_for(lambda: cluster.job_state(job) == "RUNNING", "the job")
    with cluster.broken("node-kill", "node3"):
        assert "switched off" in cluster.call("on", "node3", "true").stderr
        assert "already" in cluster("up")
        assert cluster.on("node2", "hostname") == "node2"
        # Slurm would see it by itself after half a minute.
        cluster.on("ctl", "scontrol", "update", "nodename=node3", "state=down", "reason=power")
        wait_for(lambda: cluster.job_state(job) == "NODE_FAIL", "Slurm's verdict")
    assert cluster.on("login", "srun", "--nodelist=node3", "hostname") == "node3"


@pytest.mark.parametrize("fault", ["controller-down", "controller-crash"])
def test_jobs_outlive_the_controller(cluster: MiniCluster, fault: str) -> None:
    job = cluster.submit(f"until [ -e {fault}.go ]; do sleep 0.1; done; echo done", f"--output={fault}")
    wait_for(lambda: cluster.job_state(job) == "RUNNING", "the job")
    if fault == "controller-crash":
        keep_in_mind(cluster, job)
    with cluster.broken(fault):
        assert "ctl is DOWN" in cluster.call("on", "login", "scontrol", "ping").stdout
        cluster.on("login", "touch", f"{fault}.go")
    assert output_of(cluster, job, fault) == ["done"]


def keep_in_mind(cluster: MiniCluster, job: str) -> None:
    """Wait until the controller has written down that the job runs: what it knows of its last seconds it would lose."""
    cluster.on("ctl", "touch", "/tmp/before")
    cluster.on("ctl", "scontrol", "update", f"jobid={job}", "comment=kept")
    kept = "find /var/spool/slurmctld -name job_state -newer /tmp/before"
    wait_for(lambda: cluster.on("ctl", kept) != "", "the controller's memory")


def test_a_controller_that_hangs_answers_later(cluster: MiniCluster) -> None:
    with cluster.broken("controller-hangs"):
        assert cluster.call("on", "login", "timeout", "1", "squeue").returncode == 124
    assert cluster.on("login", "squeue")


def test_another_host_key_is_refused_until_it_is_back(cluster: MiniCluster) -> None:
    with cluster.broken("host-key"):
        assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in cluster.ssh("login", "true").stderr
    assert cluster.ssh("login", "true").returncode == 0


def test_forwarding_is_forbidden_wholly_or_but_for_ssh(cluster: MiniCluster) -> None:
    with cluster.broken("no-forwarding"):
        assert cluster.ssh("login", "hostname").stdout.strip() == "login"
        assert "stdio forwarding failed" in cluster.ssh("-W", "node1:22", "login").stderr
    with cluster.broken("forward-ssh-only"):
        assert cluster.ssh("-W", "node1:22", "login").stdout.startswith("SSH-2.0")
        assert "stdio forwarding failed" in cluster.ssh("-W", "node1:6818", "login").stderr


def test_nodes_are_closed_or_open_to_those_who_have_a_job_there(cluster: MiniCluster) -> None:
    with cluster.broken("nodes-closed"):
        assert cluster.ssh("node1", "true").returncode == 255
    with cluster.broken("nodes-need-job"):
        assert "no active jobs on this node" in cluster.ssh("node1", "true").stderr
        job = cluster.submit("sleep 100", "--nodelist=node1")
        wait_for(lambda: cluster.job_state(job) == "RUNNING", "the job")
        assert cluster.ssh("node1", "hostname").stdout.strip() == "node1"
        cluster.on("login", "scancel", job)
    assert cluster.ssh("node2", "hostname").stdout.strip() == "node2"


def test_a_full_home_takes_no_byte_on_any_host(cluster: MiniCluster) -> None:
    with cluster.broken("home-full"):
        for host in ("login", "node2"):
            assert "No space left on device" in cluster.call("on", host, "echo one more byte > more").stderr
        cluster.on("classmate@login", "echo there is room here > more")
    assert cluster.on("node2", "echo again > more; cat more") == "again"


def test_a_noisy_bashrc_and_a_banner(cluster: MiniCluster) -> None:
    with cluster.broken("noise"), cluster.broken("banner"):
        done = cluster.ssh("login", "echo end")
        assert done.stdout.splitlines() == ["Welcome! You have 3 new messages.", "end"]
        assert "Authorised use only" in done.stderr
        assert "conda: command not found" in done.stderr
    done = cluster.ssh("login", "echo end")
    assert (done.stdout, done.stderr) == ("end\n", "")


def test_a_server_with_one_cipher_only(cluster: MiniCluster) -> None:
    with cluster.broken("chacha-only"):
        refused = cluster.ssh("login", "true", options=("-c", "aes128-ctr"))
        assert "no matching cipher" in refused.stderr
        assert cluster.ssh("login", "true").returncode == 0
    assert cluster.ssh("login", "true", options=("-c", "aes128-ctr")).returncode == 0


def test_no_tensorflow_and_no_python(cluster: MiniCluster) -> None:
    with cluster.broken("no-tensorflow"):
        assert "Unable to locate" in cluster.call("on", "login", "module load tensorflow").stderr
        assert cluster.on("login", "module load python && python3 -c 'print(1)'") == "1"
    with cluster.broken("no-python"):
        for host in ("login", "node1"):
            assert cluster.call("on", host, "python3", "-V").returncode == 127
        assert cluster.on("login", "sbatch", "--version")
    assert cluster.on("node1", "module load tensorflow && python3 -c 'print(1)'") == "1"
    assert cluster.on("login", "/usr/bin/env", "python3", "-V")


def test_everything_is_healed_at_once(cluster: MiniCluster) -> None:
    for fault in (("banner",), ("cut", "node1"), ("nodes-closed",)):
        cluster("fault", *fault)
    assert cluster("status").count("fault: ") == 3
    cluster("heal")
    assert cluster.ssh("node1", "hostname").stdout.strip() == "node1"
