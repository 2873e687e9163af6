"""Which way to an agent is taken, and that one counts only when the agent itself speaks."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from clew_gui.nodes import routes
from clew_gui.nodes.routes import Route, RouteFinder, RouteKind, node_hop, relay_command
from clew_gui.schedulers.job import JobRef
from clew_gui.ssh.connection import Hop
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.wire.messages import AgentAddress
from tests.unit.fake_site import AGENT, AWAY, FakeStream, Login, a_line, a_site

JOB = JobRef("7", "0f3d6c52-8f0e-4c1b-9a70-3b6a4b1f2c11")
ADDRESS = AgentAddress(
    agent=JOB.job,
    host="node1",
    boot="b",
    pid=1,
    generation=1,
    address="10.0.0.11",
    port=4000,
    public_key="k",
    allow_list="/a",
)
AT = (ADDRESS.address, ADDRESS.port)
SPEAKS = b"\xff\0\0\0\0\0\0\0\1\x7f"


def speaks() -> FakeStream:
    return FakeStream(SPEAKS)


def finder() -> RouteFinder:
    return RouteFinder(lambda: AGENT, patience=0.05)


def find(login: Login, address: AgentAddress = ADDRESS) -> Route:
    return finder().find(a_line(login), JOB, address)


def refusal(login: Login, address: AgentAddress = ADDRESS) -> Problem:
    with pytest.raises(ProblemError) as refused:
        find(login, address)
    return refused.value.problems[0]


def open_node() -> Login:
    node = Login()
    node.streams[AT] = speaks
    return node


def test_through_the_login_node() -> None:
    login = Login()
    login.streams[AT] = speaks
    found = find(login)
    assert (found.kind, found.text) == (RouteKind.LOGIN, "through login")
    assert found.open().recv(64) == SPEAKS


def test_by_its_name_where_the_nodes_own_address_is_not_known_on_the_login_node() -> None:
    login = Login()
    login.streams["node1", 4000] = speaks
    find(login)


def test_into_the_node_where_the_login_node_reaches_no_port() -> None:
    login = Login()
    login.node = open_node()
    found = find(login)
    assert (found.kind, found.text) == (RouteKind.HOP, "through login, jumping into node1")
    found.close()
    assert login.node.away is not None  # the jump is given back
    assert login.away is None


def test_the_nodes_loopback_where_its_own_address_is_closed() -> None:
    login = Login()
    login.node = Login()
    login.node.streams["127.0.0.1", 4000] = speaks
    find(login)


def test_as_a_step_of_the_job_where_nobody_may_log_in_to_nodes() -> None:
    login = Login()
    login.relay = speaks
    found = find(login)
    assert (found.kind, found.text) == (RouteKind.RELAY, "through login, as a step of the job")
    command = login.commands[-1]
    assert command[:3] == ("srun", "--jobid=7", "--overlap")
    assert command[-1].endswith("relay --agent 10.0.0.11 4000 0<&9 1>&8 8>&- 9<&-")


def test_the_step_that_showed_a_relay_to_work_is_the_first_that_is_used() -> None:
    login = Login()
    login.relay = speaks
    way = find(login)
    first = way.open()
    assert len(login.commands) == 1
    assert (first.recv(4), first.recv(64)) == (SPEAKS[:4], SPEAKS[4:])  # what was read to see it work comes again
    assert way.open(8888).recv(64) == SPEAKS  # another program of that node, which has no greeting of its own
    assert login.commands[-1][-1].endswith("relay 10.0.0.11 8888 0<&9 1>&8 8>&- 9<&-")
    assert way.open().recv(64) == SPEAKS
    assert len(login.commands) == 3


def test_a_relay_that_nobody_took_ends_with_its_way() -> None:
    login, streams = Login(), [FakeStream(SPEAKS)]
    login.relay = lambda: streams[0]
    way = find(login)
    assert not streams[0].closed
    way.close()
    assert streams[0].closed


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (None, "nothing comes back within"),
        (b"SSH-2.0-OpenSSH\r\n", "something answers there that is no agent"),
        (b"", "accepted and closed at once"),
    ],
)
def test_a_port_that_does_not_speak_as_an_agent_is_no_way(first: bytes | None, said: str) -> None:
    login = Login()
    login.streams[AT] = login.streams["node1", 4000] = lambda: FakeStream(first)
    login.relay = speaks
    found = find(login)
    assert found.kind is RouteKind.RELAY
    login.relay = None
    assert said in refusal(login).text


REFUSED = "srun: error: Unable to create step for job 7: Access/permission denied"


@pytest.mark.parametrize(("first", "said"), [(b"", "accepted and closed at once"), (None, "nothing comes back within")])
def test_a_step_that_the_scheduler_refuses_is_told_in_its_own_words(
    first: bytes | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "_RELAY_S", 0.05)
    login = Login()
    login.relay = lambda: FakeStream(first, words=REFUSED)
    found = refusal(login)
    assert said in found.text
    assert f"It said: {REFUSED}." in found.text


def test_without_a_way_each_one_is_told_with_its_reason() -> None:
    login = Login()
    login.node = problem("ssh.auth", "student@node1 lets nobody in.")
    found = refusal(login)
    assert found.code == "route.none"
    for words in ("Connection refused", "jumping into node1: student@node1 lets nobody in", "as a step of the job"):
        assert words in found.text


def test_what_worked_comes_first_the_next_time_and_all_are_tried_after_it() -> None:
    login, one = Login(), finder()
    login.relay = speaks
    one.find(a_line(login), JOB, ADDRESS)
    tried = len(login.commands)
    login.streams[AT] = speaks
    assert one.find(a_line(login), JOB, ADDRESS).kind is RouteKind.RELAY
    assert len(login.commands) == tried + 1
    login.relay = None
    assert one.find(a_line(login), JOB, ADDRESS).kind is RouteKind.LOGIN


@pytest.mark.parametrize("name", ["", "-oProxyCommand=x", "node1'$(touch x)'", "node1\nnode2", "a b"])
def test_a_node_whose_name_is_none_is_not_jumped_into(name: str) -> None:
    login = Login()
    login.node = open_node()
    assert "not a host name" in refusal(login, msgspec.structs.replace(ADDRESS, host=name, address="10.0.0.9")).text


class Jumps(Login):
    """Says no to a jump under some names; ``names`` are those that were tried."""

    def __init__(self, no: dict[str, ProblemError]) -> None:
        super().__init__()
        self.node = open_node()
        self.names: list[str] = []
        self._no = no

    def hop(self, hop: Hop, timeout: float = 30.0) -> Login:
        self.names.append(hop.host)
        if hop.host in self._no:
            raise self._no[hop.host]
        return super().hop(hop, timeout)


UNKNOWN = problem("ssh.connect", "login cannot reach node1, port 22: Name or service not known.")
CLOSED = problem("ssh.connect", "login cannot reach 10.0.0.11, port 22: Connection refused.")


def test_a_node_is_jumped_into_by_its_address_where_the_login_node_does_not_know_its_name() -> None:
    login = Jumps({"node1": UNKNOWN})
    found = find(login)
    assert (found.kind, found.text) == (RouteKind.HOP, "through login, jumping into node1")
    assert found.open().recv(64) == SPEAKS
    assert login.names == ["node1", "10.0.0.11"]


def test_a_node_that_is_reached_by_no_name_is_told_with_the_last_reason() -> None:
    found = refusal(Jumps({"node1": UNKNOWN, "10.0.0.11": CLOSED}))
    assert f"jumping into node1: {CLOSED.problems[0].text}" in found.text


@pytest.mark.parametrize("code", ["ssh.auth", "ssh.cancelled", "ssh.hostkey.refused", "ssh.password"])
def test_a_node_that_said_no_is_not_asked_by_another_name(code: str) -> None:
    login = Jumps({"node1": problem(code, "student@node1 lets nobody in.")})
    assert "jumping into node1: student@node1 lets nobody in." in refusal(login).text
    assert login.names == ["node1"]


def test_a_node_whose_name_is_its_address_is_jumped_into_once() -> None:
    login = Jumps({"10.0.0.11": CLOSED})
    refusal(login, msgspec.structs.replace(ADDRESS, host="10.0.0.11"))
    assert login.names == ["10.0.0.11"]


def test_nothing_is_tried_any_more_once_nobody_wants_a_route() -> None:
    login = Login()
    with pytest.raises(ProblemError, match="Cannot reach the agent"):
        finder().find(a_line(login), JOB, ADDRESS, lambda: True)
    assert login.commands == []


def test_a_lost_link_is_no_answer() -> None:
    login = Login()
    login.away = AWAY
    with pytest.raises(ProblemError, match="was lost"):
        find(login)


def test_who_cancelled_the_login_to_a_node_is_not_asked_again() -> None:
    login = Jumps({"node1": problem("ssh.cancelled", "The login to student@node1 was cancelled.")})
    login.relay = speaks
    one = finder()
    one.find(a_line(login), JOB, ADDRESS)
    login.relay = None
    with pytest.raises(ProblemError, match="as a step of the job"):
        one.find(a_line(login), JOB, ADDRESS)
    assert login.names == ["node1"]


def test_a_plain_host_is_not_jumped_into_and_has_no_steps() -> None:
    login = Login()
    login.node = open_node()
    with pytest.raises(ProblemError, match="Cannot reach the agent"):
        finder().find(a_line(login, a_site().__class__(host="login")), JOB, ADDRESS)


_TALKS = """
read -r eaten
echo "{name} $eaten"
echo "{name} complains" >&2
module() {{ read -r eaten; printf '<%s>' "$@"; echo "$eaten"; }}
"""
_FILES = 'for fd in 3 4 5 6 7 8 9; do [ ! -e /proc/self/fd/$fd ] || echo "has the file $fd"; done'


def relayed(home: Path, modules: tuple[str, ...], prologue: str) -> subprocess.CompletedProcess[str]:
    """The whole command, run by real shells as in a step of a job that was asked for over SSH. In the relay's place
    something tells what it was given."""
    tells = f'echo "$A, $B" "$@"; cat; {_FILES}'
    there = AGENT.__class__(command=("sh", "-c", tells, "sh"), environment={"A": "b c"}, python="", tensorflow="")
    for name in (".bash_profile", ".bashrc"):
        (home / name).write_text(_TALKS.format(name=name))
    noisy = {"HOME": str(home), "BASH_ENV": str(home / ".bashrc"), "SSH_CLIENT": "10.0.0.1 40000 22", "SHLVL": "0"}
    return subprocess.run(
        relay_command(there, modules, prologue, ADDRESS),
        input="first\nlast\n",
        env=os.environ | noisy,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.unix("a shell of a site")
def test_nothing_but_the_relay_itself_speaks_and_hears(tmp_path: Path) -> None:
    """Neither the login shell's own files, nor modules, nor the prologue, nor what that starts."""
    prologue = f"read -r eaten; export B=set; sh -c '{_FILES}'\necho prologue $eaten # done"
    done = relayed(tmp_path, ("python",), prologue)
    assert done.stdout == "b c, set relay 10.0.0.11 4000\nfirst\nlast\n"
    assert ".bash_profile complains" in done.stderr
    assert done.stderr.endswith("<load><python>\nprologue\n")


@pytest.mark.unix("a shell of a site")
def test_a_modules_name_cannot_break_out_of_the_relay(tmp_path: Path) -> None:
    done = relayed(tmp_path, ("x; echo 'y' >&2",), "")
    assert done.stdout == "b c,  relay 10.0.0.11 4000\nfirst\nlast\n"
    assert done.stderr.endswith("<load><x; echo 'y' >&2>\n")


def test_a_node_is_entered_as_the_same_person_without_what_belongs_to_the_login_node() -> None:
    login = Hop(host="l", name="l", user="me", keys=("k",), port=2222, fingerprints=("f",), host_key_alias="a")
    assert node_hop(login, "node1") == Hop(host="node1", name="node1", user="me", keys=("k",))
