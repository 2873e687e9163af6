"""What control groups tell of processes that were killed for want of memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew_agent.node.memory_kills import memory_shortages, out_of_memory_kills

FIRST = ("29 23 0:25 {root} {folder} rw,relatime - cgroup memory rw,memory\n", "memory.oom_control")
SECOND = ("29 23 0:25 {root} {folder} rw,relatime shared:9 - cgroup2 none rw,nsdelegate\n", "memory.events")
OTHER = "30 23 0:26 / /elsewhere rw - cgroup cpu rw,cpu\n31 23 8:1 / / rw - ext4 /dev/vda rw\n"


@pytest.mark.parametrize("version", [FIRST, SECOND])
@pytest.mark.parametrize(
    ("root", "inside"), [("/", "cluster/job_3"), ("/cluster", "job_3"), ("/unknown", "cluster/job_3")]
)
def test_kills_are_read_where_the_group_is_seen(
    tmp_path: Path, version: tuple[str, str], root: str, inside: str
) -> None:
    mount, name = version
    group = tmp_path / "groups" / inside
    group.mkdir(parents=True)
    (tmp_path / "mountinfo").write_text(OTHER + mount.format(root=root, folder=tmp_path / "groups"))
    (tmp_path / "cgroup").write_text("9:name=systemd:/\n4:memory:/cluster/job_3\n1:cpu:/x\n0::/cluster/job_3\n")
    assert out_of_memory_kills(tmp_path) == 0
    (group / name).write_text("low 0\nunder_oom 0\noom 7\noom_kill 2\n")
    assert out_of_memory_kills(tmp_path) == 2


@pytest.mark.parametrize("text", ["", "nonsense", "4:memory\n", "::\n"])
def test_where_nothing_is_told_there_are_none(tmp_path: Path, text: str) -> None:
    assert out_of_memory_kills(tmp_path / "absent") == 0
    for name in ("cgroup", "mountinfo"):
        (tmp_path / name).write_text(text)
    assert out_of_memory_kills(tmp_path) == 0


def test_kills_on_the_machine_say_that_memory_was_short(tmp_path: Path) -> None:
    vmstat = tmp_path / "vmstat"
    assert memory_shortages(tmp_path, vmstat) == 0
    vmstat.write_text("nr_free_pages 7\noom_kill 3\nnr_oom_kill_later 9\n")
    assert memory_shortages(tmp_path, vmstat) == 3


@pytest.mark.parametrize(("control", "short"), [("oom_kill_disable 0\n", 8), ("oom_kill_disable 0\noom_kill 1\n", 0)])
def test_what_happens_elsewhere_or_at_its_limit_counts_only_where_a_groups_kills_are_not_counted(
    tmp_path: Path, control: str, short: int
) -> None:
    group = tmp_path / "groups" / "job_3"
    group.mkdir(parents=True)
    (tmp_path / "mountinfo").write_text(FIRST[0].format(root="/", folder=tmp_path / "groups"))
    (tmp_path / "cgroup").write_text("4:memory:/job_3\n")
    (group / "memory.oom_control").write_text(control)
    (group / "memory.failcnt").write_text("5\n")
    (tmp_path / "vmstat").write_text("oom_kill 3\n")
    assert memory_shortages(tmp_path, tmp_path / "vmstat") == short


def test_this_systems_own_form_is_understood() -> None:
    assert out_of_memory_kills() >= 0
    assert memory_shortages() >= 0
