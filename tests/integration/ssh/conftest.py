"""A school for the session, a server of the usual kind, and the two ways to a connection."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import msgspec
import pytest

from clew_gui.ssh.connection import Connection, Hop, SshFiles
from clew_gui.ssh.kept_logins import KeptLogins
from clew_gui.ssh.paramiko_connection import ParamikoConnection, dial_paramiko
from clew_gui.ssh.prompts import AskOnce, Prompter
from tests.integration.ssh.people import Agent, Network, well_informed
from tests.integration.ssh.servers import USER, School, SshServer


@pytest.fixture(scope="session")
def whole_school() -> Iterator[School]:
    made = School()
    yield made
    made.close()


@pytest.fixture(scope="session")
def usual_server(whole_school: School) -> Iterator[SshServer]:
    with SshServer(whole_school) as server:
        yield server


@pytest.fixture(autouse=True)
def school(whole_school: School) -> School:
    """The school as on the first day."""
    whole_school.reset()
    return whole_school


@pytest.fixture
def server(usual_server: SshServer, school: School) -> SshServer:
    """A server that takes keys and passwords; shared, so nothing of it may be changed."""
    return usual_server


@pytest.fixture
def start(school: School) -> Iterator[Callable[..., SshServer]]:
    """Starts a server with lines of configuration of its own."""
    with ExitStack() as stack:
        yield lambda *options, **more: stack.enter_context(SshServer(school, *options, **more))


@pytest.fixture(autouse=True, scope="session")
def no_agent() -> Iterator[None]:
    """The developer's own agent stays out of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SSH_AUTH_SOCK", raising=False)
        yield


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Agent]]:
    """Starts an agent with these keys; it is the one that everybody uses then."""
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        address = Path(folder) / "agent"

        def start_agent(*keys: str) -> Agent:
            made = Agent(address, *keys)
            stack.callback(made.close)
            monkeypatch.setenv("SSH_AUTH_SOCK", str(address))
            return made

        yield start_agent


@pytest.fixture
def network() -> Iterator[Callable[[int], Network]]:
    """Makes a network before a port, which can freeze."""
    made: list[Network] = []

    def make(port: int) -> Network:
        made.append(Network(port))
        return made[-1]

    yield make
    for one in made:
        one.close()


@contextmanager
def new_files() -> Iterator[SshFiles]:
    """An empty known_hosts; short paths, as sockets need them."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        base.chmod(0o700)
        made = SshFiles(known_hosts=base / "known_hosts", runtime=base)
        yield made
        KeptLogins(made).clear()


@pytest.fixture
def files() -> Iterator[SshFiles]:
    """No server is known."""
    with new_files() as made:
        yield made


def trust(files: SshFiles, *servers: SshServer) -> None:
    """Their keys are known."""
    with files.known_hosts.open("a") as file:
        file.writelines(server.known_line() for server in servers)


def hop_to(server: SshServer, *keys: str, port: int = 0, name: str = "login") -> Hop:
    """The student's way to a server, with these keys asked for by name."""
    paths = tuple(server.school.key(key) for key in keys)
    return Hop(host="127.0.0.1", port=port or server.port, user=USER, name=name, keys=paths)


class Dial(Protocol):
    """Dials a hop, and closes what it made when the test is over."""

    def __call__(
        self, hop: Hop, person: Prompter | None = None, through: Connection | None = None, timeout: float = 30.0
    ) -> Connection: ...


@pytest.fixture(scope="module")
def way() -> str:
    """The way to a connection: a login of this program's own, or one that another process keeps."""
    return "own"


def dial_by(
    way: str, hop: Hop, files: SshFiles, asker: AskOnce, timeout: float = 30.0, through: Connection | None = None
) -> Connection:
    """Connect in this way."""
    if way == "kept" and through is None:
        kept = KeptLogins(msgspec.structs.replace(files, keep_login_s=600))
        return kept.log_in([hop], asker, timeout)
    assert through is None or isinstance(through, ParamikoConnection)
    return dial_paramiko(hop, files, asker, timeout, through)


@pytest.fixture
def dial(way: str, files: SshFiles) -> Iterator[Dial]:
    """Dials as often as a test likes, and closes everything behind it."""
    made: list[Connection] = []

    def make(
        hop: Hop, person: Prompter | None = None, through: Connection | None = None, timeout: float = 30.0
    ) -> Connection:
        asker = person if isinstance(person, AskOnce) else AskOnce(person or well_informed())
        made.append(dial_by(way, hop, files, asker, timeout, through))
        return made[-1]

    yield make
    for connection in reversed(made):
        connection.close()


@pytest.fixture(scope="module")
def connection(way: str, usual_server: SshServer) -> Iterator[Connection]:
    """A login with a key at the usual server. Many tests share it: none may end it."""
    with new_files() as files:
        trust(files, usual_server)
        made = dial_by(way, hop_to(usual_server, "user"), files, AskOnce(well_informed()))
        yield made
        made.close()
