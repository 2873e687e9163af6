"""Every way into the cluster that a course asks for, with the system's own ssh; and a long one as Clew goes it."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from clew_gui.sites.hops import way_to
from clew_gui.sites.site import Site
from clew_gui.ssh.config import look_up
from clew_gui.ssh.connection import SshFiles
from clew_gui.ssh.dial import dial
from clew_gui.ssh.prompts import AskOnce, NobodyToAsk
from tests.cluster.mini import MiniCluster

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(300)]
NO_KEY = ("-o", "PubkeyAuthentication=no")


def only(method: str) -> tuple[str, ...]:
    return ("-o", f"PreferredAuthentications={method}")


def password_of(cluster: MiniCluster, user: str = "student") -> str:
    return str(cluster.info()["users"][user]["password"])


def test_with_the_laptops_key(cluster: MiniCluster) -> None:
    done = cluster.ssh("login", "id -un; hostname", options=only("publickey"))
    assert done.stdout.split() == ["student", "login"]


@pytest.mark.parametrize("method", ["password", "keyboard-interactive"])
def test_with_a_password(cluster: MiniCluster, method: str) -> None:
    done = cluster.ssh("classmate@login", "id -un", password=password_of(cluster, "classmate"), options=only(method))
    assert done.stdout.strip() == "classmate"


def test_a_wrong_password_is_refused(cluster: MiniCluster) -> None:
    done = cluster.ssh("login", "true", password="wrong", options=only("password"))
    assert "Permission denied" in done.stderr


def test_password_and_code_once(cluster: MiniCluster) -> None:
    password, code = password_of(cluster), cluster("code")
    assert cluster.ssh("login-otp", "id -un", password=password, code=code, options=NO_KEY).stdout.strip() == "student"
    again = cluster.ssh("login-otp", "id -un", password=password, code=code, options=NO_KEY)
    assert "Permission denied" in again.stderr


def test_key_password_and_code_in_one_login(cluster: MiniCluster) -> None:
    done = cluster.ssh("-v", "login-otp", "id -un", password=password_of(cluster), code=cluster("code"))
    assert done.stdout.strip() == "student"
    assert 'Authenticated using "publickey" with partial success' in done.stderr


def test_the_key_alone_does_not_open_the_door_with_codes(cluster: MiniCluster) -> None:
    assert "Permission denied" in cluster.ssh("login-otp", "true").stderr


def test_two_hops_to_a_node(cluster: MiniCluster) -> None:
    assert cluster.ssh("node2", "hostname").stdout.strip() == "node2"
    assert cluster.on("login", "ssh", "-o", "BatchMode=yes", "node3", "hostname") == "node3"


CHAIN = """
Host *
    User student
    IdentityFile {key}
Host login
    HostName 10.77.0.1
Host deep
    HostName node2
    ProxyJump login,node1
"""


def test_three_hops_of_a_proxy_jump(cluster: MiniCluster, tmp_path: Path) -> None:
    """As Clew goes them; node2 is called from node1."""
    home = Path(cluster.info()["laptop_home"]) / ".ssh"
    config = tmp_path / "config"
    config.write_text(CHAIN.format(key=home / "id_ed25519"))
    hops = way_to(Site(host="deep"), lambda name: look_up(name, config))
    assert [hop.host for hop in hops] == ["10.77.0.1", "node1", "node2"]
    files = SshFiles(known_hosts=home / "known_hosts", runtime=tmp_path)
    with ExitStack() as stack:
        stack.enter_context(cluster.network("laptop"))
        connection = dial(hops, AskOnce(NobodyToAsk()), files)
        stack.callback(connection.close)
        assert connection.run("hostname; echo $SSH_CONNECTION").stdout.split()[:2] == [b"node2", b"10.77.1.11"]
        assert connection.run(["cat"], stdin=bytes(300_000)).stdout == bytes(300_000)


def test_nodes_are_out_of_the_laptops_reach(cluster: MiniCluster) -> None:
    address = cluster.info()["hosts"]["node1"]["lan"]
    done = cluster.call("on", "laptop", "bash", "-c", f"exec 3<>/dev/tcp/{address}/22")
    assert "Network is unreachable" in done.stderr


def test_a_test_itself_can_use_the_laptops_network(cluster: MiniCluster) -> None:
    address = cluster.info()["hosts"]["login"]["wan"]
    with cluster.network("laptop"), socket.create_connection((address, 22), timeout=5) as connection:
        assert connection.recv(20).startswith(b"SSH-2.0")
        assert connection.getsockname()[0] == cluster.info()["hosts"]["laptop"]["wan"]
    with pytest.raises(OSError), cluster.network("node1"):
        socket.create_connection((address, 22), timeout=5)


def test_forwarding_reaches_a_port_on_a_node(cluster: MiniCluster) -> None:
    """``-W`` joins standard input and output to node1's sshd, which greets first."""
    assert cluster.ssh("-W", "node1:22", "login", options=only("publickey")).stdout.startswith("SSH-2.0-OpenSSH")


def test_root_cannot_log_in(cluster: MiniCluster) -> None:
    assert "Permission denied" in cluster.ssh("root@login", "true").stderr
