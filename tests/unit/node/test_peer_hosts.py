"""Where the peers of a run are put, and the commands that start them there."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew_agent.peers.hosts import JobHosts, place, read_hosts, same_host
from clew_agent.peers.messages import SILENCE_S, Silence
from clew_shared.base import operating_system
from clew_shared.base.problem import ProblemError

PROGRAM = ("python", "-m", "clew_agent", "peer")


def executable(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_without_a_job_all_are_here() -> None:
    assert read_hosts({}) == JobHosts()
    assert place(3, JobHosts()) == ("", "", "")


@pytest.mark.parametrize(
    ("names", "count", "places"),
    [
        (("node1", "node2"), 2, ("", "node2")),
        (("node2", "node1"), 2, ("", "node2")),  # the agent may be on the second one
        (("node1", "node2", "node3"), 3, ("", "node2", "node3")),
        (("node1", "node2"), 4, ("", "node2", "", "node2")),  # fewer nodes than processes: they take turns
        (("node1", "node2", "node3"), 2, ("", "node2")),
        (("node1",), 2, ("", "")),
    ],
)
def test_workers_take_the_nodes_in_turn(names: tuple[str, ...], count: int, places: tuple[str, ...]) -> None:
    assert place(count, JobHosts(names, here="node1.cluster")) == places


def test_a_name_with_and_without_its_domain_is_one_node() -> None:
    assert same_host("node1", "node1.cluster")
    assert not same_host("node1.a", "node1.b")
    assert not same_host("node1", "node10")


@pytest.mark.unix("a shell script stands in for a scheduler")
def test_slurm_names_its_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(tmp_path, "scontrol", '[ "$*" = "show hostnames node[1-2]" ] && printf "node1\\nnode2\\n"')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = read_hosts({"SLURM_JOB_NODELIST": "node[1-2]", "SLURMD_NODENAME": "node1", "SLURM_CPUS_ON_NODE": "8"})
    assert found == JobHosts(("node1", "node2"), "node1", "srun", cores="8")
    words = found.command("node2", PROGRAM, {})
    assert words[0] == "srun"
    assert {"--overlap", "--nodelist=node2", "--cpus-per-task=8"} < set(words)
    assert words[-len(PROGRAM) :] == PROGRAM
    uneven = {"SLURM_JOB_NODELIST": "node7", "SLURM_CPUS_ON_NODE": "4", "SLURM_JOB_CPUS_PER_NODE": "4,2(x3)"}
    assert read_hosts(uneven).cores == "2"


@pytest.mark.unix("a shell script stands in for a scheduler")
def test_a_slurm_that_does_not_name_its_nodes_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(tmp_path, "scontrol", "echo 'Invalid hostlist' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(ProblemError, match="Invalid hostlist"):
        read_hosts({"SLURM_JOB_NODELIST": "node[1-2]"})


@pytest.mark.unix("a shell script stands in for a scheduler")
@pytest.mark.parametrize(
    ("starter", "begin"),
    [
        ("pbsdsh", ("pbsdsh", "-n", "2", "--", "/usr/bin/env", "CLEW_HOME=/h", "PATH=/bin")),
        (
            "aprun",
            ("aprun", "-q", "-b", "-n", "1", "-N", "1", "-L", "node2", "/usr/bin/env", "CLEW_HOME=/h", "PATH=/bin"),
        ),
    ],
)
def test_pbs_and_a_cray_bring_the_environment_along(tmp_path: Path, starter: str, begin: tuple[str, ...]) -> None:
    executable(tmp_path, starter, "")
    nodes = tmp_path / "nodes"
    nodes.write_text("node1\nnode1\nnode2\nnode2\n")
    found = read_hosts({"PBS_NODEFILE": str(nodes), "PATH": str(tmp_path)})
    assert found == JobHosts(("node1", "node2"), operating_system.host_name(), starter, (0, 2))
    assert found.command("node2", PROGRAM, {"PATH": "/bin", "CLEW_HOME": "/h", "SECRET": "x"}) == (*begin, *PROGRAM)


def test_pbs_without_a_program_that_starts_processes_elsewhere_is_refused(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes"
    nodes.write_text("node1\nnode2\n")
    with pytest.raises(ProblemError, match="neither pbsdsh nor aprun"):
        read_hosts({"PBS_NODEFILE": str(nodes), "PATH": str(tmp_path)})


def test_a_silence_in_which_this_process_slept_is_nobodys_fault() -> None:
    silence = Silence(0.0)
    silence.received(1)
    for now in range(1, 6):
        silence.look(float(now))
    assert silence.seconds(1) == 5.0
    silence.look(3600.0)
    assert silence.seconds(1) == 5.0
    for now in range(3601, 3607):
        silence.look(float(now))
    assert silence.seconds(1) > SILENCE_S
