"""The agent and files brought to the mini cluster over real SSH: installed once, run on a node, refused in words."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from clew_gui.deploy.install import Installed, ensure_agent
from clew_gui.deploy.probe import probe
from clew_gui.deploy.staging import stage
from clew_gui.sites.site import Site
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.connection import Hop, SshFiles
from clew_gui.ssh.dial import ReconnectingConnection, dial
from clew_gui.ssh.prompts import AskOnce
from clew_shared import __version__
from clew_shared.base.problem import ProblemError
from tests.cluster.mini import MiniCluster

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(300)]

OpenLine = Callable[[Site], SiteConnection]
SITE = Site(title="Mini", host="login", scheduler="slurm", modules=("tensorflow",), data="/opt/data")


@pytest.fixture
def open_connection(cluster: MiniCluster, tmp_path: Path) -> Iterator[OpenLine]:
    """The way from the laptop to the login node, by the laptop's key. The student's home is as on the first day."""
    info = cluster.info()
    home = Path(info["laptop_home"])
    files = SshFiles(known_hosts=home / ".ssh/known_hosts", runtime=tmp_path)
    hop = Hop(
        name="login",
        host=info["hosts"]["login"]["wan"],
        user="student",
        keys=(str(home / ".ssh/id_ed25519"),),
        host_key_alias="login",
    )
    nobody: Any = None
    with ExitStack() as stack:
        stack.enter_context(cluster.network("laptop"))
        stack.callback(lambda: cluster.on("login", "rm -rf ~/.local/share/clew"))

        def make(site: Site) -> SiteConnection:
            def connect() -> Any:
                # Whatever thread dials, it is the laptop that does.
                with cluster.network("laptop"):
                    return dial([hop], AskOnce(nobody), files)

            line = SiteConnection("mini", site, ReconnectingConnection(connect))
            stack.callback(line.close)
            return line

        yield make


def ignore(_: str) -> None:
    """Nobody wants to know."""


def refusal(line: SiteConnection) -> tuple[str, str]:
    with pytest.raises(ProblemError) as refused:
        ensure_agent(line, ignore)
    (found,) = refused.value.problems
    assert found.hint
    return found.code, found.text


def on_node(cluster: MiniCluster, installed: Installed, *words: str) -> str:
    """The agent's Python there, as a job would start it."""
    setting = [f"{name}={value}" for name, value in installed.environment.items()]
    return cluster.on("student@node2", shlex.join(["env", *setting, installed.command[0], *words]))


def test_what_was_installed_from_the_laptop_runs_on_a_node(cluster: MiniCluster, open_connection: OpenLine) -> None:
    line = open_connection(SITE)
    installed, again = ensure_agent(line, ignore), ensure_agent(line, ignore)
    assert (again.command, again.environment, again.sent) == (installed.command, installed.environment, 0)
    assert installed.tensorflow.startswith("2.")
    assert on_node(cluster, installed, *installed.command[1:], "--version") == f"clew-agent {__version__}"
    needs = (
        "import clew_agent.supervisor.supervisor, importlib.util; print(importlib.util.find_spec('tensorflow').origin)"
    )
    assert on_node(cluster, installed, "-P", "-c", needs).startswith("/opt/site/")


def write_until_refused(cluster: MiniCluster, line: SiteConnection, size: int) -> str:
    """What is said when not a byte is left. Agents of earlier tests may end meanwhile, and leave room."""
    for number in range(20):
        cluster.on("login", f"cat /dev/zero > ~/rest{size}.{number} 2>/dev/null || true")
        try:
            line.ssh.write(f"/home/student/more{size}.{number}", bytes(size))
        except ProblemError as error:
            return str(error)
    return "it was never refused"


def test_noise_a_full_home_and_no_internet(cluster: MiniCluster, open_connection: OpenLine) -> None:
    line = open_connection(SITE)
    with cluster.broken("noise"):
        assert ensure_agent(line, ignore).sent > 0
        assert probe(line, thorough=True).index is False
        with cluster.broken("home-full"):
            assert ensure_agent(line, ignore).sent == 0
            for size in (1, 100_000):
                assert "(quota? disk full?)" in write_until_refused(cluster, line, size)
    cluster.on("login", "rm -rf ~/rest* ~/more* ~/.local/share/clew/software")
    with cluster.broken("home-full"):
        code, text = refusal(line)
    assert code == "bootstrap.full"
    assert "0 bytes are free there" in text
    assert "are needed" in text


def test_what_is_missing_has_its_own_sentence(cluster: MiniCluster, open_connection: OpenLine) -> None:
    assert refusal(open_connection(Site(title="Mini", host="login", modules=("no-such/1.0",))))[0] == "bootstrap.module"
    code, text = refusal(open_connection(Site(title="Mini", host="login", modules=("python",))))
    assert (code, "has no TensorFlow" in text) == ("bootstrap.tensorflow", True)
    with cluster.broken("no-tensorflow"):
        code, text = refusal(open_connection(SITE))
    assert (code, "tensorflow" in text) == ("bootstrap.module", True)
    with cluster.broken("no-python"):
        assert refusal(open_connection(Site(title="Mini", host="login")))[0] == "bootstrap.python"


def test_data_is_brought_and_goes_on_after_the_link_was_cut(
    cluster: MiniCluster, open_connection: OpenLine, tmp_path: Path
) -> None:
    line = open_connection(SITE)
    content = bytes(range(256)) * 40_000
    file = tmp_path / "my set.bin"
    file.write_bytes(content)
    told: list[str] = []

    def cut_once(text: str) -> None:
        if not told:
            cluster("fault", "sshd-restart")
        told.append(text)

    path = stage(line, str(file), cut_once)
    assert line.ssh.dials == 2
    assert line.ssh.read(path) == content
    assert stage(line, str(file), told.append) == path


def test_the_courses_copy_and_a_full_home(cluster: MiniCluster, open_connection: OpenLine, tmp_path: Path) -> None:
    line = open_connection(SITE)
    digits = tmp_path / "digits.csv"
    digits.write_text("3,1,4\n")
    assert stage(line, str(digits), ignore) == "/opt/data/digits.csv"
    assert stage(line, "site:/opt/data/digits.csv", ignore) == "/opt/data/digits.csv"
    digits.write_text("2,7,1\n")
    with cluster.broken("home-full"), pytest.raises(ProblemError, match=r"does not fit on Mini: 6 bytes .* 0 bytes"):
        stage(line, str(digits), ignore)
