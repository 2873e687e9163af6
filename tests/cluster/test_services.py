"""On an allocation that is held: Jupyter and a terminal, from the laptop through both hops."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import pty
import re
import select
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from minicluster.plan import STUDENT

from tests.cluster.mini import FOLDER, LIMIT_S, MiniCluster
from tests.integration.strangers import GREETING, assert_nothing_of_ours, listen

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(300)]
SITE = """format = 1
host = "login"
user = "student"
scheduler = "{scheduler}"
modules = [{modules}]
[allocation]
time = "00:20:00"
cpus = 2
"""
ALL = '"tensorflow", "jupyter"'
CLEW = str(Path(sys.executable).with_name("clew"))


def wait_for(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline, f"waited {LIMIT_S:.0f} s for {what}"
        time.sleep(0.1)


class Laptop:
    """Somebody at the laptop, who types commands."""

    def __init__(self, cluster: MiniCluster, folder: Path) -> None:
        self.cluster = cluster
        self._home = folder / "home"
        for name, scheduler, modules in (
            ("lab", "slurm", ALL),
            ("plain", "slurm", '"tensorflow"'),
            ("torque", "pbs", '"tensorflow"'),
        ):
            path = folder / f"{name}.toml"
            path.write_text(SITE.format(scheduler=scheduler, modules=modules))
            self.clew("site", "add", name, "--file", str(path))

    def words(self, *words: str) -> list[str]:
        return [str(FOLDER / "on"), "laptop", "env", f"CLEW_HOME={self._home}", CLEW, *words]

    def clew(self, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        """A command that ends by itself."""
        done = subprocess.run(
            self.words(*words),
            env=self.cluster.environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S * 2,
            check=False,
        )
        assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
        return done

    @contextmanager
    def going_on(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A command that stays until Ctrl+C."""
        with subprocess.Popen(
            self.words(*words),
            env=self.cluster.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.terminate()
                process.communicate(timeout=LIMIT_S)

    @contextmanager
    def opened(self, kind: str, *more: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
        """``clew open``: the process, the address without token, and the token."""
        with self.going_on("open", kind, "--site", "lab", "--no-browser", *more) as process:
            assert process.stdout is not None
            url, _, token = process.stdout.readline().strip().partition("?token=")
            assert token, process.communicate(timeout=LIMIT_S)
            yield process, url, token

    def get(self, url: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
        """What the laptop's browser would get."""
        parts = urlsplit(url)
        with self.cluster.network("laptop"):
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
            try:
                connection.request(method, url.removeprefix(f"http://{parts.netloc}"), headers=headers)
                answer = connection.getresponse()
                return answer.status, answer.read()
            finally:
                connection.close()


@pytest.fixture(scope="module")
def laptop(cluster: MiniCluster, tmp_path_factory: pytest.TempPathFactory) -> Laptop:
    return Laptop(cluster, tmp_path_factory.mktemp("laptop"))


@pytest.fixture(scope="module")
def held(laptop: Laptop) -> Iterator[str]:
    """The number of a job that is held, for all tests that do not end it."""
    laptop.clew("hold", "--site", "lab", "--detach")
    yield wait_for_job(laptop)
    laptop.clew("let-go", "--site", "lab")


def wait_for_job(laptop: Laptop) -> str:
    """The number of the one job that runs."""

    def running() -> str:
        return laptop.cluster.on("login", "squeue --noheader --states=running --format=%A").strip()

    wait_for(lambda: bool(running()), "the job")
    return running()


# --- Jupyter ---------------------------------------------------------------------------------------------------------


def test_jupyter_comes_through_both_hops_with_its_token_only(laptop: Laptop, held: str) -> None:
    with laptop.opened("jupyter") as (_, url, token):
        assert laptop.get(f"{url}api/status")[0] == 403
        assert laptop.get(f"{url}api/status?token=wrong")[0] == 403
        assert laptop.get(f"{url}api/status?token={token}")[0] == 200
        assert b"Jupyter" in laptop.get(f"{url}tree?token={token}")[1] + laptop.get(f"{url}?token={token}")[1]
        assert_hidden(laptop, token)


def assert_hidden(laptop: Laptop, token: str) -> None:
    """No argument list, environment, log or job script on the node or in the home has the token."""
    node = laptop.cluster.on("login", "squeue --noheader --states=running --format=%N")
    searched = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null"
    said = laptop.cluster.on(f"root@{node}", f"{searched} | tr '\\0' '\\n'")
    assert "CLEW_JOB=" in said
    assert "--config=" in said
    assert token not in said
    found = laptop.cluster.call("on", "login", f"grep -rl -- {token} . /tmp 2>/dev/null")
    assert found.stdout == ""


def node_of(laptop: Laptop) -> str:
    return laptop.cluster.on("login", "squeue --noheader --states=running --format=%N")


def test_somebody_else_on_the_cluster_hears_not_a_byte(laptop: Laptop, held: str) -> None:
    """Neither on the node nor from another node; not even with the token, which nobody else has."""
    with laptop.opened("jupyter") as (_, url, token):
        node = node_of(laptop)
        other = "node1" if node != "node1" else "node2"
        ports = ports_of(laptop, node, STUDENT.uid)
        assert len(ports) >= 2  # the agent's and Jupyter's
        for host in (node, other):
            with laptop.cluster.network(host):
                for port in ports:
                    for junk in (b"", b"GET / HTTP/1.1\r\n\r\n", f"GET /?token={token} HTTP/1.1\r\n\r\n".encode()):
                        assert_nothing_of_ours(knock(laptop.cluster.info()["hosts"][node]["lan"], port, junk))
        asked = [laptop.cluster.call("on", f"classmate@{node}", ASK.format(node=node, port=port)) for port in ports]
        assert [answer.stdout.split() for answer in asked] == [SIGNATURE] * len(ports)
        folders = laptop.cluster.call("on", f"classmate@{node}", "ls /tmp/clew-*/ /run/user/*/clew 2>&1; true").stdout
        assert "v-" not in folders
        assert laptop.get(f"{url}api/status?token={token}")[0] == 200


def test_somebody_else_on_the_node_cannot_reach_a_kernel(laptop: Laptop, held: str) -> None:
    with laptop.opened("jupyter") as (_, url, token):
        status, said = laptop.get(f"{url}api/kernels?token={token}", "POST")
        assert status == 201
        node = node_of(laptop)
        find = "find /tmp /run -type s -name 'kernel-*-ipc-[1-5]' 2>/dev/null; true"
        wait_for(lambda: len(laptop.cluster.on(f"root@{node}", find).split()) == 5, "the kernel's sockets")
        sockets = laptop.cluster.on(f"root@{node}", find).split()
        table = laptop.cluster.on(f"classmate@{node}", "cat /proc/net/tcp /proc/net/tcp6")
        assert ports_in(table, STUDENT.uid, loopback=True) == set()
        assert laptop.cluster.call("on", f"classmate@{node}", find).stdout == ""
        for path in sockets:
            assert laptop.cluster.on(f"student@{node}", CONNECT.format(path=path)) == "connected"
            done = laptop.cluster.call("on", f"classmate@{node}", CONNECT.format(path=path))
            assert "PermissionError" in done.stderr, done
        assert laptop.get(f"{url}api/kernels/{json.loads(said)['id']}?token={token}", "DELETE")[0] == 204
        wait_for(lambda: not laptop.cluster.on(f"root@{node}", find), "the end of the sockets")


CONNECT = """python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("{path}"); print("connected")'"""
ASK = "exec 3<>/dev/tcp/{node}/{port} && timeout 5 cat <&3 | od -An -tx1"
SIGNATURE = [f"{byte:02x}" for byte in GREETING[:10]]
"""What ZeroMQ says to everybody before it has heard anything."""


def knock(host: str, port: int, words: bytes) -> bytes:
    with socket.create_connection((host, port), timeout=LIMIT_S) as stranger:
        with suppress(OSError):  # it may have been hung up already
            stranger.sendall(words)
            stranger.shutdown(socket.SHUT_WR)
        return listen(stranger)


def ports_of(laptop: Laptop, node: str, uid: int) -> set[int]:
    """The ports on which a user's programs listen on a host, but those on its loopback, as the kernel tells them."""
    return ports_in(laptop.cluster.on(f"root@{node}", "cat /proc/net/tcp"), uid, loopback=False)


def ports_in(table: str, uid: int, loopback: bool) -> set[int]:
    line = r"^ *\d+: ([0-9A-F]+):([0-9A-F]{4}) 0+:0{4} 0A \S+ \S+ \S+ +(\d+) "
    found = re.findall(line, table, re.MULTILINE)
    here = ("0100007F", "00000000000000000000000001000000")
    return {int(port, 16) for host, port, owner in found if int(owner) == uid and (host in here) is loopback}


@contextmanager
def recorded(cluster: MiniCluster, host: str) -> Iterator[bytearray]:
    """Everything that passes through a host's network meanwhile, its loopback included."""
    heard, ended = bytearray(), threading.Event()
    with cluster.network(host), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(ALL_PROTOCOLS)) as tap:
        tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        tap.settimeout(0.1)

        def listens() -> None:
            while not ended.is_set():
                with suppress(TimeoutError):
                    while True:
                        heard.extend(tap.recv(1 << 17) + b"|")

        thread = threading.Thread(target=listens)
        thread.start()
        try:
            yield heard
        finally:
            ended.set()
            thread.join()


ALL_PROTOCOLS = 3
"""ETH_P_ALL of <linux/if_ether.h>."""
WAYS = {
    "login node": (),
    "jump into the node": ("forward-ssh-only",),
    "step of the job": ("no-forwarding", "nodes-closed"),
}


@pytest.mark.parametrize("faults", WAYS.values(), ids=WAYS)
def test_nothing_readable_crosses_the_cluster(laptop: Laptop, held: str, faults: tuple[str, ...]) -> None:
    with ExitStack() as stack:
        for fault in faults:
            stack.enter_context(laptop.cluster.broken(fault))
        node = node_of(laptop)
        taps = [stack.enter_context(recorded(laptop.cluster, host)) for host in ("login", node)]
        with laptop.opened("jupyter") as (_, url, token):
            code, page = laptop.get(f"{url}api/status?token={token}")
            assert code == 200
            assert json.loads(page)["kernels"] == 0
            assert laptop.get(f"{url}api/status")[0] == 403
        assert b"CURVE" in taps[1]  # the way to Jupyter was heard indeed
        for heard in taps:
            for words in (token.encode(), b"HTTP/1.", b"GET /", b"token=", page):
                assert words not in heard


def test_without_a_module_for_it_jupyter_is_missed_with_what_to_do(laptop: Laptop) -> None:
    done = laptop.clew("open", "jupyter", "--site", "plain", "--no-browser", "--hold", status=1)
    assert "python3 -m pip install jupyterlab" in done.stderr
    assert "given back" in done.stderr


def test_jupyter_is_gone_with_the_allocation(laptop: Laptop) -> None:
    with laptop.going_on("hold", "--site", "lab", "--partition", "gpu") as holding:
        assert holding.stderr is not None
        said = ""
        while "node-hour" not in said:
            said = holding.stderr.readline()
            assert said
        assert "node3 is reserved for you until" in said
        with laptop.opened("jupyter") as (opened, url, token):
            assert laptop.get(f"{url}api/status?token={token}")[0] == 200
            holding.terminate()
            assert opened.stderr is not None
            wait_for(lambda: "has ended" in (opened.stderr.readline() if opened.stderr else ""), "the end")
            with pytest.raises(OSError):
                laptop.get(url)
    nothing = "pgrep -u student -f jupyter || true"
    wait_for(lambda: not laptop.cluster.on("root@node3", nothing), "the end of Jupyter")


def test_what_is_not_held_cannot_be_used(laptop: Laptop) -> None:
    done = laptop.clew("open", "jupyter", "--site", "torque", status=2)
    assert "clew hold --site torque" in done.stderr
    assert "No allocation is held" in laptop.clew("let-go", "--site", "torque", status=2).stderr


def test_a_run_uses_the_allocation_that_is_held(laptop: Laptop, held: str) -> None:
    jobs = "squeue --noheader --states=all --format=%A"
    before = laptop.cluster.on("login", jobs)
    done = laptop.clew("run", "linear-regression", "--site", "lab", "--preset", "tiny", "--json")
    assert json.loads(done.stdout)["state"] == "FINISHED"
    assert set(laptop.cluster.on("login", jobs).split()) <= set(before.split()), "no job of its own"
    assert wait_for_job(laptop) == held


# --- A terminal -------------------------------------------------------------------------------------------------------


def test_a_command_runs_on_the_node_and_its_status_comes_back(laptop: Laptop, held: str) -> None:
    done = laptop.clew("shell", "--site", "lab", "--", "hostname; echo $SLURM_JOB_ID; exit 4", status=4)
    assert held in done.stdout.splitlines()
    assert re.search("^node[123]$", done.stdout, re.MULTILINE)


class Screen:
    """A terminal window with a command in it."""

    def __init__(self, laptop: Laptop, *words: str) -> None:
        self.handle, theirs = pty.openpty()
        self.resize(91, 33)
        self.before = termios.tcgetattr(theirs)
        self._theirs = theirs
        self.shown = ""
        self.process = subprocess.Popen(
            laptop.words(*words),
            env={**laptop.cluster.environment, "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # the window's signals go to whatever runs in it
        )

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.handle, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, words: str) -> None:
        assert self.shows(words, LIMIT_S), self.shown
        self.shown = self.shown.partition(words)[2]

    def shows(self, words: str, seconds: float) -> bool:
        """Whether the words come within so many seconds."""
        deadline = time.monotonic() + seconds
        while words not in self.shown:
            ready, _, _ = select.select([self.handle], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return False
            self.shown += os.read(self.handle, 4096).decode(errors="replace")
        return True

    def type(self, text: str) -> None:
        os.write(self.handle, text.encode())

    def end(self) -> int:
        """Its exit status; the terminal is as it was before."""
        status = self.process.wait(LIMIT_S)
        wait_for(lambda: termios.tcgetattr(self._theirs) == self.before, "the terminal as it was")
        return status

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._theirs)
        os.close(self.handle)


@contextmanager
def screen(laptop: Laptop, *words: str) -> Iterator[Screen]:
    made = Screen(laptop, *words)
    try:
        yield made
    finally:
        made.close()


def test_a_shell_on_the_node_is_a_real_terminal(laptop: Laptop, held: str) -> None:
    with screen(laptop, "shell", "--site", "lab") as one:
        one.until("A terminal on node")
        one.type("stty size; echo on $SLURMD_NODENAME; echo job-$SLURM_JOB_ID\r")
        one.until("33 91")
        one.until(f"job-{held}")
        one.resize(120, 50)
        one.type("until stty size | grep '50 120'; do sleep 0.1; done; sleep 100\r")
        one.until("50 120\r")
        deadline = time.monotonic() + LIMIT_S
        while not one.shows("again-42", 2.0):  # Ctrl+C between two commands of the shell interrupts neither
            assert time.monotonic() < deadline, one.shown
            one.type("\x03")
            one.type("echo again-$((6*7))\r")
        one.until("again-42")
        one.type("exit 7\r")
        assert one.end() == 7


def test_a_shell_with_an_allocation_of_its_own_ends_with_it(laptop: Laptop) -> None:
    with screen(laptop, "shell", "--site", "plain", "--fresh") as one:
        one.until("allocation of its own")
        one.type("echo in-$SLURM_JOB_NAME\r")
        one.until("in-clew-")
        one.process.terminate()
        one.end()
    wait_for(lambda: "clew-" not in names(laptop) or held_only(laptop), "the end of the allocation")


def names(laptop: Laptop) -> str:
    return laptop.cluster.on("login", "squeue --noheader --states=running,pending --format=%j")


def held_only(laptop: Laptop) -> bool:
    return len(names(laptop).split()) <= 1


def test_where_the_scheduler_has_no_steps_ssh_leads_into_the_node(laptop: Laptop) -> None:
    laptop.clew("hold", "--site", "torque", "--detach")
    try:
        job = ""

        def runs() -> bool:
            nonlocal job
            done = subprocess.run(
                laptop.words("shell", "--site", "torque", "--", "hostname"),
                env=laptop.cluster.environment,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
            job = done.stdout
            return done.returncode == 0

        wait_for(runs, "the job of PBS")
        assert job.strip() in ("node1", "node2", "node3")
        with laptop.cluster.broken("nodes-closed"):
            done = laptop.clew("shell", "--site", "torque", "--", "hostname", status=2)
            assert "--fresh" in done.stderr
    finally:
        laptop.clew("let-go", "--site", "torque")
