"""What the tutorial and the teacher's guide do on a cluster, on the mini cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cluster.mini import FOLDER, MiniCluster
from tests.pages import CLUSTER, script

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(300)]
LIMIT_S = 280.0


def type_there(cluster: MiniCluster, home: Path, folder: Path, text: str) -> str:
    """Runs a script on the laptop, in a folder that has the teacher's site file."""
    (folder / "course.toml").write_bytes((FOLDER / "sites/minicluster.toml").read_bytes())
    words = ("env", f"CLEW_HOME={home}", f"PATH={Path(sys.executable).parent}:/usr/bin:/bin", "bash", "-x", "-c")
    done = cluster.call("on", "laptop", *words, f"cd {folder}\n{text}", limit_s=LIMIT_S)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def test_a_student_adds_the_course_and_trains_there(cluster: MiniCluster, home: Path, tmp_path: Path) -> None:
    assert "W = -1" in type_there(cluster, home, tmp_path, script("tutorial.md", CLUSTER))


def test_a_teacher_checks_the_site_and_a_node(cluster: MiniCluster, home: Path, tmp_path: Path) -> None:
    add = "clew site add dl-2026-cluster --file course.toml\n"
    printed = type_there(cluster, home, tmp_path, add + script("teaching.md", CLUSTER))
    assert "Nothing keeps runs from working there." in printed
