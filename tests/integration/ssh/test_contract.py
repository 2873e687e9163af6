"""What every connection can do, asked of a login of this program's own and of one that another process keeps."""

from __future__ import annotations

import hashlib
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paramiko
import pytest
from paramiko.sftp import CMD_READ

from clew_gui.ssh.connection import Connection, SshFiles, Stream
from clew_gui.ssh.prompts import AskOnce
from clew_shared.base.problem import ProblemError
from tests.integration.ssh.conftest import Dial, dial_by, hop_to, new_files, trust
from tests.integration.ssh.people import well_informed
from tests.integration.ssh.servers import School, SshServer

pytestmark = pytest.mark.needs("sshd")


@pytest.fixture(params=["own", "kept"], scope="module")
def way(request: pytest.FixtureRequest) -> str:
    """Both ways to a connection."""
    return str(request.param)


@contextmanager
def refused(code: str) -> Iterator[list[str]]:
    """The block must raise a problem with this code; what a command says of it comes back in the list."""
    words: list[str] = []
    with pytest.raises(ProblemError) as caught:
        yield words
    assert caught.value.problems[0].code == code, caught.value
    words.append(caught.value.command_text())


def read_all(stream: Stream) -> bytes:
    parts = []
    while data := stream.recv(65536):
        parts.append(data)
    return b"".join(parts)


# --- Commands -------------------------------------------------------------------------------------------------------


def test_a_list_is_quoted_and_a_string_is_a_line_for_the_shell(connection: Connection) -> None:
    odd = "a b'c\"$HOME!*\\ \n ü"
    assert connection.run(["printf", "%s", odd]).stdout == odd.encode()
    assert connection.run("cd / && echo $((6 * 7)); pwd").stdout == b"42\n/\n"


def test_both_outputs_and_the_status_come_back(connection: Connection) -> None:
    done = connection.run("echo out; echo err >&2; exit 7")
    assert (done.exit_status, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_a_command_that_ends_by_a_signal_has_no_good_status(connection: Connection) -> None:
    assert connection.run("kill -9 $$").exit_status == -1


def test_much_goes_in_and_out_at_the_same_time(connection: Connection) -> None:
    data = random.Random(1).randbytes(3_000_000)
    done = connection.run("cat; head -c 3000000 /dev/zero >&2", stdin=data)
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()
    assert len(done.stderr) == 3_000_000


def test_a_command_that_ignores_its_input_ends(connection: Connection) -> None:
    assert connection.run("exit 3", stdin=bytes(3_000_000)).exit_status == 3


def test_a_command_without_input_reads_nothing(connection: Connection) -> None:
    assert connection.run("cat; echo end").stdout == b"end\n"


def test_a_command_that_takes_too_long_is_a_time_out_and_the_link_stays(connection: Connection) -> None:
    with refused("ssh.timeout") as words:
        connection.run("sleep 2", timeout=0.3)
    assert "0.3 s" in words[0]
    assert connection.run("echo still here").stdout == b"still here\n"


def test_what_a_login_shell_prints_is_no_output(connection: Connection, school: School) -> None:
    (school.home / ".bashrc").write_text('echo "Welcome to <the> cluster"; echo "quota: 91 %" >&2\n')
    done = connection.run("echo out; echo err >&2")
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")


def test_a_login_shell_that_ends_before_the_command_is_named(connection: Connection, school: School) -> None:
    (school.home / ".bashrc").write_text('echo "Your account has expired."; exit 1\n')
    with refused("ssh.shell") as words:
        connection.run("echo out")
    assert "Your account has expired." in words[0]
    assert "~/.bashrc" in words[0]


def test_a_banner_disturbs_nothing(
    start: Callable[..., SshServer], school: School, files: SshFiles, dial: Dial
) -> None:
    banner = school.folder / "banner"
    banner.write_text("Permission denied, please try again.\nlogin: <clew 0>\n" * 50)
    server = start(f"Banner {banner}")
    trust(files, server)
    done = dial(hop_to(server, "user")).run("echo out")
    assert (done.exit_status, done.stdout, done.stderr) == (0, b"out\n", b"")


# --- Streams --------------------------------------------------------------------------------------------------------


def test_a_long_lived_command_is_a_stream(connection: Connection, school: School) -> None:
    (school.home / ".bashrc").write_text("echo noise; echo noise >&2\n")
    stream = connection.open("echo ready; head -c 3000000 /dev/zero >&2; cat; echo over")
    assert stream.recv(100) == b"ready\n"
    stream.send(b"hello")
    stream.end()
    assert read_all(stream) == b"helloover\n"
    stream.close()


def test_the_last_words_of_a_command_that_is_refused_are_kept(connection: Connection, school: School) -> None:
    (school.home / ".bashrc").write_text("echo quota: 91 % >&2\n")
    refused = "srun: error: Unable to create step for job 7: Access/permission denied"
    much = "head -c 3000000 /dev/zero; seq 6; printf '\\n\\033[31m'"
    stream = connection.open(f"{{ {much}; echo {refused}; }} >&2; exit 1")
    assert read_all(stream) == b""
    assert stream.last_words() == f"4 5 6 [31m{refused}"
    stream.close()
    stream = connection.open("exit 0")
    assert read_all(stream) == b""
    assert stream.last_words() == "", "what the login shell says is not the command's"
    stream.close()


@pytest.fixture
def echo() -> Iterator[int]:
    """A port that sends back what it gets, and says when it got the end."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(sock,), daemon=True).start()

    def answer(sock: socket.socket) -> None:
        with sock:
            while data := sock.recv(65536):
                sock.sendall(data)
            sock.sendall(b"(end)")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield int(listener.getsockname()[1])
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_a_port_over_there_is_reached(connection: Connection, echo: int) -> None:
    stream = connection.connect("127.0.0.1", echo)
    data = random.Random(2).randbytes(5_000_000)

    def send() -> None:
        stream.send(data)
        stream.end()

    sender = threading.Thread(target=send)
    sender.start()
    assert read_all(stream) == data + b"(end)"
    assert stream.last_words() == ""
    sender.join()
    stream.close()


def test_closing_a_stream_wakes_who_reads_it(connection: Connection, echo: int) -> None:
    stream = connection.connect("127.0.0.1", echo)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(stream.recv(10)))
    reader.start()
    stream.close()
    stream.close()
    reader.join()
    assert got == [b""]


def test_a_port_where_nothing_listens_is_named(connection: Connection) -> None:
    with refused("ssh.connect") as words:
        connection.connect("127.0.0.1", 1)
    assert "Connection refused" in words[0]
    assert "port 1" in words[0]


def test_a_name_that_is_not_known_there(connection: Connection) -> None:
    with refused("ssh.connect"):
        connection.connect("no-such-node.invalid", 1)


def test_forwarding_that_is_forbidden_is_named(start: Callable[..., SshServer], files: SshFiles, dial: Dial) -> None:
    server = start("AllowTcpForwarding no")
    trust(files, server)
    connection = dial(hop_to(server, "user"))
    with refused("ssh.forwarding") as words:
        connection.connect("127.0.0.1", server.port)
    assert "does not forward" in words[0]
    assert connection.run("echo fine").stdout == b"fine\n"


def test_a_server_that_allows_no_further_command(start: Callable[..., SshServer], files: SshFiles, dial: Dial) -> None:
    server = start("MaxSessions 1")
    trust(files, server)
    connection = dial(hop_to(server, "user"))
    stream = connection.open("echo on; exec cat")
    assert stream.recv(10) == b"on\n"
    with refused("ssh.busy") as words:
        connection.run("true", timeout=0.3)
    assert "allows no further command (MaxSessions)" in words[0]
    assert connection.probe()
    stream.close()


def test_where_one_command_at_a_time_is_allowed_each_waits_for_the_one_before(
    start: Callable[..., SshServer], files: SshFiles, dial: Dial
) -> None:
    server = start("MaxSessions 1")
    trust(files, server)
    connection = dial(hop_to(server, "user"))
    connection.write("kept", b"bytes")
    said: list[bytes] = []

    def call(number: int) -> None:
        said.append(connection.run(f"echo {number}; cat kept").stdout)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said) == [f"{number}\nbytes".encode() for number in range(4)]
    assert connection.read("kept") == b"bytes"


def test_many_files_take_one_session_of_the_server(start: Callable[..., SshServer], files: SshFiles) -> None:
    server = start()
    trust(files, server)
    connection = dial_by("own", hop_to(server, "user"), files, AskOnce(well_informed()))
    for number in range(5):
        connection.write(f"file{number}", b"%d" % number)
    assert [connection.read(f"file{number}") for number in range(5)] == [b"%d" % number for number in range(5)]
    assert connection.stat("absent") is None
    with refused("ssh.file"):
        connection.read("absent")
    assert connection.read("file4") == b"4"
    connection.close()
    assert server.log.read_text().count("subsystem request for sftp") <= 2, "one for all, and one after the refusal"


# --- Files ----------------------------------------------------------------------------------------------------------


FILE_SERVERS = {
    "sftp": [],
    "no sftp": ["Subsystem sftp /bin/false"],
    "talkative shell": ["Subsystem sftp /usr/lib/openssh/sftp-server"],
}


@pytest.fixture(scope="module", params=FILE_SERVERS)
def at_file_server(request: pytest.FixtureRequest, way: str, whole_school: School) -> Iterator[Connection]:
    """Servers with SFTP, without it, and with one that a talkative login shell spoils."""
    with SshServer(whole_school, *FILE_SERVERS[request.param]) as server, new_files() as files:
        trust(files, server)
        made = dial_by(way, hop_to(server, "user"), files, AskOnce(well_informed()))
        yield made
        made.close()


@pytest.fixture
def with_files(at_file_server: Connection, school: School) -> Connection:
    """The login shell is talkative everywhere; it spoils SFTP only where it is started for it."""
    (school.home / ".bashrc").write_text("echo Welcome\n")
    return at_file_server


def test_files_are_written_and_read(with_files: Connection, school: School) -> None:
    path = str(school.home / "a file's name")
    data = random.Random(3).randbytes(300_000)
    with_files.write(path, data)
    assert with_files.read(path) == data
    assert with_files.read(path, offset=100_000, limit=50_000) == data[100_000:150_000]
    assert with_files.read(path, offset=299_990, limit=50) == data[-10:]
    assert with_files.read(path, offset=400_000) == b""
    assert with_files.read("/proc/self/stat") != b""


@pytest.fixture
def by_sftp(start: Callable[..., SshServer], files: SshFiles) -> Iterator[Connection]:
    """paramiko, at a server with SFTP."""
    server = start()
    trust(files, server)
    made = dial_by("own", hop_to(server, "user"), files, AskOnce(well_informed()))
    yield made
    made.close()


def test_a_file_is_read_whole_whatever_order_threads_run_in(
    by_sftp: Connection, school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a thread that asks is slow, nothing is asked for twice, or when the file is closed."""
    ask: Any = paramiko.SFTPClient._async_request  # type: ignore[attr-defined]
    reader, asked = threading.current_thread(), []

    def dawdle(*question: Any) -> Any:
        if threading.current_thread() is not reader:
            time.sleep(0.1)
        asked.append(question[2])
        return ask(*question)

    monkeypatch.setattr(paramiko.SFTPClient, "_async_request", dawdle)
    path = school.home / "many pieces"
    path.write_bytes(random.Random(5).randbytes(80 * 32768 + 1))
    before = threading.enumerate()
    assert by_sftp.read(str(path)) == path.read_bytes()
    for thread in threading.enumerate():
        if thread not in before:
            thread.join(5.0)  # what it raises fails the test
    assert asked.count(CMD_READ) == 81


def test_a_file_that_is_cut_while_it_is_read_ends_there(
    by_sftp: Connection, school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = school.home / "shrinks"
    path.write_bytes(random.Random(6).randbytes(3_000_000))
    state = paramiko.SFTPFile.stat

    def then_cut(file: paramiko.SFTPFile) -> paramiko.SFTPAttributes:
        found = state(file)
        os.truncate(path, 2_500_001)
        return found

    monkeypatch.setattr(paramiko.SFTPFile, "stat", then_cut)
    found = by_sftp.read(str(path))
    assert len(found) == 2_500_001
    assert found == path.read_bytes()


def test_a_file_has_its_permissions_and_is_told_about(with_files: Connection, school: School) -> None:
    path = school.home / "secret"
    with_files.write(str(path), b"12345")
    found = with_files.stat(str(path))
    assert found is not None
    assert (found.size, found.mode, found.folder) == (5, 0o600, False)
    assert found.modified == pytest.approx(path.stat().st_mtime, abs=1.0)
    with_files.write(str(path), b"1", mode=0o644)
    assert path.read_bytes() == b"1"
    assert path.stat().st_mode & 0o777 == 0o644
    folder = with_files.stat(str(school.home))
    assert folder is not None
    assert folder.folder


def test_a_file_that_was_there_is_closed_before_its_new_content(with_files: Connection, school: School) -> None:
    path = school.home / "old"
    path.write_bytes(b"x" * 100)
    path.chmod(0o666)
    os.chown(path, *_owner(school.home))
    with_files.write(str(path), b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o600)


def _owner(path: Path) -> tuple[int, int]:
    return path.stat().st_uid, path.stat().st_gid


def test_an_upload_goes_on_where_it_stopped(with_files: Connection, school: School, tmp_path: Path) -> None:
    data = random.Random(4).randbytes(200_000)
    rest = tmp_path / "rest"
    rest.write_bytes(data[70_000:])
    path = str(school.home / "part")
    with_files.write(path, data[:90_000])
    with_files.write(path, rest, offset=70_000)
    assert with_files.read(path) == data
    with_files.write(path, b"", offset=10)
    assert with_files.read(path) == data[:10]


def test_files_that_cannot_be_used_are_named(with_files: Connection, school: School) -> None:
    assert with_files.stat("/no/such/file") is None
    assert with_files.stat(str(school.home / ".ssh/authorized_keys/no")) is None
    for path in ("/no/such/file", "/etc/shadow", str(school.home)):
        with refused("ssh.file") as words:
            with_files.read(path)
        assert path in words[0]
    with refused("ssh.file"):
        with_files.write("/etc/not-here", b"")
    with refused("ssh.file"):
        with_files.write(str(school.home / "nothing"), b"x", offset=3)
    assert with_files.run("echo fine").stdout == b"fine\n"


# --- The link -------------------------------------------------------------------------------------------------------


def test_two_hops_and_back(dial: Dial, server: SshServer, start: Callable[..., SshServer], files: SshFiles) -> None:
    inner = start()
    trust(files, server, inner)
    outer = dial(hop_to(server, "user"))
    node = outer.hop(hop_to(inner, "user", name="node1"))
    assert node.run("echo deep").stdout == b"deep\n"
    assert inner.said("Accepted publickey") == 1
    assert [title for title, _ in node.passed] == ["student@login", "student@node1"]
    third = node.hop(hop_to(server, "user", name="third"))
    assert third.run("echo deeper").stdout == b"deeper\n"
    third.close()
    node.close()
    assert outer.run("echo near").stdout == b"near\n"


def test_a_hop_that_cannot_be_reached_leaves_the_first(dial: Dial, server: SshServer, files: SshFiles) -> None:
    trust(files, server)
    outer = dial(hop_to(server, "user"))
    with pytest.raises(ProblemError) as caught:
        outer.hop(hop_to(server, "user", port=1, name="node1"))
    assert caught.value.problems[0].code in ("ssh.connect", "ssh.busy", "ssh.reach")
    assert outer.run("echo near").stdout == b"near\n"


def test_a_login_that_is_killed_is_lost_for_every_call(
    dial: Dial, start: Callable[..., SshServer], files: SshFiles
) -> None:
    server = start()
    trust(files, server)
    connection = dial(hop_to(server, "user"))
    stream = connection.open("echo on; exec cat")
    assert stream.recv(10) == b"on\n"
    server.kill_sessions()
    with refused("ssh.lost"):
        while stream.recv(10):
            pass
    for call in (
        lambda: connection.run("true"),
        lambda: connection.read("/etc/hosts"),
        lambda: connection.connect("127.0.0.1", server.port),
        lambda: connection.open("cat"),
    ):
        with refused("ssh.lost"):
            call()
    assert not connection.probe()
    assert not connection.alive
    stream.close()


def test_a_living_link_answers(connection: Connection) -> None:
    assert connection.alive
    assert connection.probe()
