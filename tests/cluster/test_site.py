"""What students find on the cluster: homes, modules, Python, and walls between them."""

from __future__ import annotations

import pytest

from tests.cluster.mini import FOLDER, MiniCluster

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(300)]


def test_login_and_nodes_share_homes_and_the_laptop_does_not(cluster: MiniCluster) -> None:
    cluster.on("login", "echo written on login > shared.txt")
    for node in ("node1", "node2", "node3"):
        assert cluster.on(node, "cat", "/home/student/shared.txt") == "written on login"
    assert cluster.call("on", "laptop", "ls", "/home/student").returncode != 0


def test_each_host_has_a_tmp_of_its_own(cluster: MiniCluster) -> None:
    cluster.on("node1", "touch /tmp/here")
    assert cluster.call("on", "node2", "ls", "/tmp/here").returncode != 0
    assert cluster.on("node1", "ls", "/tmp/here") == "/tmp/here"
    cluster.on("node1", "rm", "/tmp/here")


def test_the_cluster_does_not_see_the_project(cluster: MiniCluster) -> None:
    assert cluster.call("on", "login", "ls", str(FOLDER)).returncode != 0
    assert cluster.on("laptop", "ls", str(FOLDER))


def test_course_data_are_on_every_host(cluster: MiniCluster) -> None:
    for host in ("login", "node3"):
        assert cluster.on(host, "cat", "/opt/data/digits.csv") == "3,1,4"


def test_another_student_reads_nothing_and_ends_nothing(cluster: MiniCluster) -> None:
    cluster.on("login", "echo secret > private; chmod 644 private")
    assert "Permission denied" in cluster.call("on", "classmate@node1", "cat", "/home/student/private").stderr
    job = cluster.submit("true", "--hold")
    assert cluster.call("on", "classmate@login", "scancel", job).returncode != 0
    assert cluster.job_state(job) == "PENDING"
    cluster.on("login", "scancel", job)


def test_somebody_else_on_the_laptop_reads_no_key(cluster: MiniCluster) -> None:
    assert cluster.on("neighbour@laptop", "id", "-un") == "neighbour"
    key = f"{cluster.info()['laptop_home']}/.ssh/id_ed25519"
    assert "Permission denied" in cluster.call("on", "neighbour@laptop", "cat", key).stderr


def test_modules_need_a_login_shell(cluster: MiniCluster) -> None:
    assert "python_ML" in cluster.on("login", "module avail 2>&1")
    assert cluster.ssh("login", "module avail").returncode == 127
    missing = cluster.call("on", "login", "module load nosuch")
    assert "Unable to locate a modulefile for 'nosuch'" in missing.stderr


def test_tensorflow_is_a_module_and_nothing_else_of_the_project(cluster: MiniCluster) -> None:
    names = ("tensorflow", "numpy", "zmq", "clew_agent")
    find = f"from importlib.util import find_spec; print(*[name for name in {names} if find_spec(name)])"
    load = "module load python_ML && python3 -c"
    assert cluster.on("node1", f'{load} "{find}"') == "tensorflow numpy"
    assert cluster.on("node1", f'{load} "import ssl, numpy, sys; print(numpy.__file__, sys.prefix)"') == (
        "/opt/site/tensorflow/numpy/__init__.py /opt/site/python"
    )
