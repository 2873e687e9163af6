"""Others on the way to a run: on its node, on the laptop, and what they could read. Forty agents on one node."""

from __future__ import annotations

import os
import re
import shlex
import socket
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest
import zmq
from minicluster.namespaces import processes_of, root_of
from minicluster.plan import STUDENT
from minicluster.state import State

from clew_gui.deploy.install import ensure_agent
from clew_gui.ssh.kept_logins import SOCKET
from clew_gui.ssh.prompts import Prompt, Prompter, PromptKind
from clew_shared.journal.lifecycle import RunState
from clew_shared.wire.channel import KEY_SUFFIX, Channel, Greeting, KeyPair
from clew_shared.wire.messages import AgentAddress, GetStatus, Status
from tests.cluster.journey import BOUND_S, Student, end_logins, logins
from tests.cluster.mini import MiniCluster
from tests.integration.agents import wait_for
from tests.integration.strangers import Endpoint, assert_nothing_of_ours, listen

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(600)]
SUPERVISORS = 40
JUNK = (
    b"",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\xff" + bytes(8) + b"\x7f\x03\x01NULL".ljust(55, b"\0"),
    bytes(range(256)) * 8,
)
"""What a stranger says: nothing, HTTP, ZeroMQ without keys, noise."""


class TypesCodes(Prompter):
    """A person with a password and an app that shows codes. ``told`` is all that they typed."""

    def __init__(self, cluster: MiniCluster) -> None:
        self._cluster = cluster
        self._password = cluster.info()["users"]["student"]["password"]
        self.told: list[str] = []
        self.kinds: list[PromptKind] = []

    def ask(self, prompt: Prompt) -> str | None:
        self.kinds.append(prompt.kind)
        if prompt.kind is PromptKind.CONFIRM:
            return "yes"
        if prompt.kind not in (PromptKind.PASSWORD, PromptKind.CODE):
            return None
        self.told.append(self._password if prompt.kind is PromptKind.PASSWORD else self._cluster("code"))
        return self.told[-1]


class Keys:
    """Notes each key pair that is made on the laptop."""

    made: ClassVar[list[KeyPair]] = []

    @classmethod
    def generate(cls) -> KeyPair:
        public, secret = zmq.curve_keypair()
        cls.made.append(KeyPair(public.decode(), secret.decode()))
        return cls.made[-1]


def test_nobody_else_reads_a_secret_or_hears_a_byte(
    cluster: MiniCluster, student: Student, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run, reached with password and code, and everybody who could be curious."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr(KeyPair, "generate", Keys.generate)
    types = TypesCodes(cluster)
    with student.program(prompter=types) as program:
        run = program.send(site="otp")
        program.trains(run)
        assert types.kinds == [PromptKind.CONFIRM, PromptKind.PASSWORD, PromptKind.CODE]
        job = program.job(run)
        program.until(lambda: job.news.nodes != "" and job.target is not None, "the scheduler says where it runs")
        address = _address(student, job.id)
        tunnel = job.target.find() if job.target is not None else None
        assert tunnel is not None
        _assert_others_hear_nothing(Endpoint("tunnel", tunnel, GetStatus()))
        with cluster.network(job.news.nodes):
            _assert_others_hear_nothing(Endpoint("agent", address, GetStatus()))
        _assert_others_read_nothing(cluster, student, job.news.nodes)
        _assert_others_use_no_login(cluster, student)
        assert Keys.made
        _assert_not_written(cluster, student, [*types.told, *(keys.secret for keys in Keys.made)], address.public_key)
        program.trains(run)  # nobody was disturbed
        program.stop(run)
        assert run.state is RunState.STOPPED
    end_logins(student.places)


def _address(student: Student, job: str) -> AgentAddress:
    path = student.cluster.student_home() / f".local/share/clew/agents/{job}.json"
    return msgspec.json.decode(path.read_bytes(), type=AgentAddress)


def _assert_others_hear_nothing(door: Endpoint) -> None:
    """Bare connections, and a client that knows the agent's public key and is on no list."""
    for junk in JUNK:
        with door.knock() as stranger:
            with suppress(OSError):  # it may have been hung up already
                stranger.sendall(junk)
                stranger.shutdown(socket.SHUT_WR)
            assert_nothing_of_ours(listen(stranger))
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    channel = door.channel(context, KeyPair(*(key.decode() for key in zmq.curve_keypair())))
    try:
        channel.send(GetStatus())
        wait_for(lambda: channel.greeting is Greeting.REFUSED, "the refusal")
        assert channel.receive() == []
    finally:
        channel.close()
        context.destroy(linger=0)


def _assert_others_read_nothing(cluster: MiniCluster, student: Student, node: str) -> None:
    """Neither the classmate on the node nor the laptop's neighbour can open a file of the student's."""
    # What the kernel tells of a job's control group is everybody's to read, and nothing that the student wrote.
    mine = "find /home /tmp /run /dev/shm /var -user student -not -path '/run/cgroup/*'"
    assert cluster.on(f"root@{node}", f"{mine} -name '*.json' -path '*agents*' 2>/dev/null || true") != ""
    for right in ("-readable", "-writable"):
        found = cluster.call("on", f"classmate@{node}", f"{mine} {right} -not -type l 2>/dev/null").stdout
        assert found == "", found
    environments = "find /proc -maxdepth 2 -user student -name environ -readable 2>/dev/null"
    assert cluster.call("on", f"classmate@{node}", environments).stdout == ""
    assert _open_to_all(student.places.home) == []


def _assert_others_use_no_login(cluster: MiniCluster, student: Student) -> None:
    """The login that stays is of no use to the laptop's neighbour."""
    (login,) = logins(student.places).all()
    address = logins(student.places).folder / login.id / SOCKET
    program = f"import socket; socket.socket(socket.AF_UNIX).connect({str(address)!r})"
    done = cluster.call("on", "neighbour@laptop", "python3", "-c", program)
    assert (done.returncode, "Permission denied" in done.stderr) == (1, True), done
    (still,) = logins(student.places).all()
    assert msgspec.structs.replace(still, used=login.used) == login, "the student's program goes on using it"


def _open_to_all(path: Path) -> list[Path]:
    """Files in there that every user of the computer could open if they could come as far as ``path``."""
    mode = path.stat().st_mode
    if path.is_dir():
        return [found for inner in path.iterdir() for found in _open_to_all(inner)] if mode & 0o001 else []
    return [path] if mode & 0o006 else []


def _assert_not_written(cluster: MiniCluster, student: Student, secrets: list[str], public_key: str) -> None:
    """No argument list, environment, log, job script or other file of the way has one of these, or the agent's own."""
    words = [re.compile(rf"(?<![0-9.]){re.escape(secret)}(?![0-9])".encode()) for secret in secrets]
    places = [*_processes(cluster, student), *_files(cluster, student)]
    assert any("job.sh" in name for name, _ in places)
    assert any(b"CLEW_JOB=" in data for _, data in places)
    for name, data in places:
        assert not any(word.search(data) for word in words), name
        for key in re.findall(rb"(?<![!-~])[!-~]{40}(?![!-~])", data):
            with suppress(ValueError, zmq.ZMQError):
                assert zmq.curve_public(key).decode() != public_key, f"the agent's secret in {name}"


def _processes(cluster: MiniCluster, student: Student) -> Iterator[tuple[str, bytes]]:
    state = State(cluster.folder)
    mine = [os.getpid(), *(login.pid for login in logins(student.places).all())]
    for host in ("laptop", "login", "ctl", "node1", "node2", "node3"):
        for pid in [*processes_of(state.pid(host)), *(mine if host == "laptop" else [])]:
            for what in ("cmdline", "environ"):
                with suppress(OSError):
                    yield f"{what} of {pid} on {host}", Path(f"/proc/{pid}/{what}").read_bytes().replace(b"\0", b"\n")


def _files(cluster: MiniCluster, student: Student) -> Iterator[tuple[str, bytes]]:
    state = State(cluster.folder)
    hosts = [
        root_of(state.pid(host)) / folder for host in ("login", "ctl", "node1", "node2", "node3") for folder in _OWN
    ]
    for top in [student.cluster.student_home(), student.places.home, logins(student.places).folder, *hosts]:
        for path in top.rglob("*"):
            if "software" not in path.parts and path.is_file() and not path.is_symlink():
                with suppress(OSError):
                    yield str(path), path.read_bytes()


_OWN = ("tmp", "run", "var/log", "var/spool")


SERVE = """
module load tensorflow
for job in {jobs}; do
    mkdir -p many/$job/runs
    CLEW_HOME=$HOME/many CLEW_JOB=$job CLEW_JOB_FOLDER=$HOME/many/$job {environment} \\
        setsid --fork {command} serve --job --fresh --idle inf --ports {ports} >many/$job.log 2>&1 </dev/null
done
"""


def test_forty_agents_begin_at_once_on_one_node_and_share_forty_ports(cluster: MiniCluster, student: Student) -> None:
    jobs, first = [str(uuid.uuid4()) for _ in range(SUPERVISORS)], 50_000
    with closing(student.line()) as line:
        installed = ensure_agent(line, print)
    script = SERVE.format(
        jobs=" ".join(jobs),
        environment=" ".join(f"{name}={shlex.quote(value)}" for name, value in installed.environment.items()),
        command=shlex.join(installed.command),
        ports=f"{first}-{first + SUPERVISORS - 1}",
    )
    agents = student.cluster.student_home() / "many/agents"
    try:
        cluster.on("node2", script)
        wait_for(lambda: len(list(agents.glob("*.json"))) == SUPERVISORS, "forty addresses", 2 * BOUND_S)
        addresses = [msgspec.json.decode(path.read_bytes(), type=AgentAddress) for path in agents.glob("*.json")]
        assert sorted(address.port for address in addresses) == list(range(first, first + SUPERVISORS))
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        with cluster.network("node2"):
            for address in addresses:
                _assert_serves(context, address, student)
        context.destroy(linger=0)
    finally:
        student.kill_all("node2", CLEW_HOME="/home/student/many")


def _assert_serves(context: zmq.Context[zmq.Socket[bytes]], address: AgentAddress, student: Student) -> None:
    """It answers whoever is on its own list."""
    keys, folder = (
        KeyPair.generate(),
        student.cluster.student_home() / Path(address.allow_list).relative_to("/home/student"),
    )
    key = folder / f"viewer{KEY_SUFFIX}"
    key.write_text(keys.public)
    os.chown(key, STUDENT.uid, STUDENT.uid)
    with closing(Channel(context, address.address, address.port, address.public_key, keys)) as channel:
        assert isinstance(channel.request(GetStatus(), BOUND_S), Status)
