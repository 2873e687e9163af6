"""Logins that stay after their command: real servers, one question for many programs, and nothing that is not ours."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import msgspec
import paramiko
import psutil
import pytest

from clew_gui.jobs.access import SiteAccess
from clew_gui.ssh.connection import Connection, Hop, SshFiles, route_words
from clew_gui.ssh.dial import dial
from clew_gui.ssh.holder_program import stay
from clew_gui.ssh.kept_logins import SOCKET, KeptLogin, KeptLogins, login_id, write_record
from clew_gui.ssh.paramiko_connection import dial_paramiko
from clew_gui.ssh.prompts import NEEDS_PERSON, AskOnce, Prompter, PromptKind
from clew_gui.ssh.relay import Relay
from clew_shared.base.operating_system import connect_locally, is_alive
from clew_shared.base.problem import ProblemError
from tests.integration.ssh.conftest import hop_to, trust
from tests.integration.ssh.people import Network, Person, well_informed
from tests.integration.ssh.servers import PASSWORD, SshServer, one_time_code
from tests.integration.ssh.test_contract import refused
from tests.integration.ssh.test_secrets import SECRETS
from tests.unit.fake_site import Login, a_line

pytestmark = pytest.mark.needs("sshd")

NOBODY = Person({})
"""Being asked fails the test."""
KEEP_S = 1800


@pytest.fixture
def files(files: SshFiles) -> Iterator[SshFiles]:
    """Logins are kept; those that are left are ended with the test."""
    kept = msgspec.structs.replace(files, keep_login_s=KEEP_S)
    yield kept
    KeptLogins(kept).clear()


@pytest.fixture
def known(server: SshServer, files: SshFiles) -> SshServer:
    """A server that takes passwords, whose key is known."""
    trust(files, server)
    return server


class Hears(Person):
    """Answers, and keeps what is said."""

    def __init__(self) -> None:
        super().__init__(well_informed().answers)
        self.heard: list[str] = []

    def show_message(self, text: str) -> None:
        self.heard.append(text)


def program(files: SshFiles, *hops: Hop, person: Prompter | None = None) -> Connection:
    """A program's connection: it knows nothing of what another one was told."""
    return dial(hops, AskOnce(person or NOBODY), files, 10.0)


def use(files: SshFiles, *hops: Hop, person: Prompter | None = None) -> None:
    """A command from its beginning to its end."""
    with closing(program(files, *hops, person=person)) as connection:
        assert connection.run("echo in").stdout == b"in\n"


def living(files: SshFiles) -> list[KeptLogin]:
    return KeptLogins(files).all()


def end_all(files: SshFiles) -> list[str]:
    return [one.title for one in KeptLogins(files).end([one.id for one in living(files)])]


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30.0
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# --- One question for many ------------------------------------------------------------------------------------------


def test_two_commands_are_one_code(start: Callable[..., SshServer], files: SshFiles) -> None:
    server = start("AuthenticationMethods keyboard-interactive:pam", otp=True)
    trust(files, server)
    person = Hears()
    use(files, hop_to(server), person=person)
    assert person.kinds == [PromptKind.PASSWORD, PromptKind.CODE]
    (said,) = person.heard
    assert said.startswith("You stay logged in to student@login until 30 min after the last use, also when Clew is ")
    assert said.endswith(" closed. Logging out ends it.")
    with closing(program(files, hop_to(server))) as second:
        assert second.run("echo in").stdout == b"in\n"
        assert second.asks_codes
        assert re.fullmatch(r"student@login \(password and one-time code at \d\d:\d\d\)", route_words(second.passed))
    (login,) = living(files)
    assert (login.title, login.until - login.used, login.asks_codes) == ("student@login", KEEP_S, True)


def test_a_key_that_asks_nobody_leaves_no_login(known: SshServer, files: SshFiles) -> None:
    with closing(program(files, hop_to(known, "user"))) as connection:
        assert connection.passed == (("student@login", f"key {known.school.key('user')}"),)
    assert not KeptLogins(files).folder.exists()


def test_a_locked_keys_passphrase_is_asked_once(known: SshServer, files: SshFiles) -> None:
    person = well_informed()
    use(files, hop_to(known, "locked"), person=person)
    assert person.kinds == [PromptKind.PASSPHRASE]
    use(files, hop_to(known, "locked"))


def test_a_servers_key_is_shown_once_and_no_password_sent_before(server: SshServer, files: SshFiles) -> None:
    answers = well_informed().answers
    with refused("ssh.hostkey.refused"):
        use(files, hop_to(server), person=Person({PromptKind.CONFIRM: "no"}))
    person = Person(answers | {PromptKind.CONFIRM: "yes"})
    use(files, hop_to(server), person=person)
    assert person.kinds == [PromptKind.CONFIRM, PromptKind.PASSWORD]
    use(files, hop_to(server))


def test_every_hop_is_kept_and_used_for_another_way(
    known: SshServer, start: Callable[..., SshServer], files: SshFiles
) -> None:
    inner = start()
    trust(files, inner)
    gate, login = hop_to(known, name="gate"), hop_to(inner)
    person = well_informed()
    use(files, gate, login, person=person)
    assert [prompt.title for prompt in person.asked] == ["student@gate", "student@login"]
    use(files, gate, login)
    other = well_informed()
    use(files, gate, hop_to(inner, name="other"), person=other)
    assert [prompt.title for prompt in other.asked] == ["student@other"]
    first, *behind = living(files)
    assert [one.through for one in behind] == [first.id, first.id]

    logins = KeptLogins(files)
    assert [one.title for one in logins.end([first.id, behind[0].id])] == ["student@login"], "another goes through it"
    use(files, gate, hop_to(inner, name="other"))
    assert end_all(files) == ["student@other", "student@gate"]


def test_a_site_that_was_changed_finds_none(known: SshServer, files: SshFiles, tmp_path: Path) -> None:
    use(files, hop_to(known), person=well_informed())
    for changed in (
        msgspec.structs.replace(hop_to(known), user="other"),
        msgspec.structs.replace(hop_to(known), host="localhost"),
        hop_to(known, "user"),
    ):
        assert KeptLogins(files).find([changed], AskOnce(NOBODY)) is None
    elsewhere = msgspec.structs.replace(files, known_hosts=tmp_path / "known_hosts")
    assert KeptLogins(elsewhere).find([hop_to(known)], AskOnce(NOBODY)) is None
    described = msgspec.structs.replace(hop_to(known), fingerprints=("SHA256:x",))
    assert KeptLogins(files).find([described], AskOnce(NOBODY)) is not None


def test_without_keeping_each_command_asks(known: SshServer, files: SshFiles) -> None:
    for _ in range(2):
        person = well_informed()
        use(msgspec.structs.replace(files, keep_login_s=0), hop_to(known), person=person)
        assert person.kinds == [PromptKind.PASSWORD]
    assert not living(files)


# --- Its end --------------------------------------------------------------------------------------------------------


def test_it_ends_some_time_after_its_last_use(known: SshServer, files: SshFiles) -> None:
    with ExitStack() as stack:
        for keep_s in (1, 10, 60):  # on a busy machine it may end before it is used
            short = msgspec.structs.replace(files, keep_login_s=keep_s)
            with suppress(ProblemError):
                connection = stack.enter_context(closing(program(short, hop_to(known), person=well_informed())))
                stream = connection.open("cat")
                break
        (login,) = living(short)
        time.sleep(1.5 * keep_s)
        assert living(short), "it is in use"
        stream.send(b"used")
        assert stream.recv(10) == b"used"
    until(lambda: not living(short))
    until(lambda: not is_alive(login.pid))  # its socket goes a moment before
    assert not (KeptLogins(files).folder / login.id).exists()
    person = well_informed()
    use(files, hop_to(known), person=person)
    assert person.kinds == [PromptKind.PASSWORD]


def test_a_logout_ends_it_at_once_and_twice_does_no_harm(known: SshServer, files: SshFiles) -> None:
    with closing(program(files, hop_to(known), person=well_informed())) as connection:
        assert end_all(files) == ["student@login"]
        with refused("ssh.lost"):
            connection.run("true")
    assert end_all(files) == []
    person = well_informed()
    use(files, hop_to(known), person=person)
    assert person.kinds == [PromptKind.PASSWORD]
    KeptLogins(files).clear()
    assert [path.suffix for path in KeptLogins(files).folder.iterdir()] == [".lock"]


def test_one_whose_folder_was_removed_ends(known: SshServer, files: SshFiles) -> None:
    """Nobody could find it any more, nor log out of it."""
    with closing(program(files, hop_to(known), person=well_informed())):
        (login,) = living(files)
        shutil.rmtree(KeptLogins(files).folder / login.id)
    until(lambda: not is_alive(login.pid))


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept logins must answer soon."""
    monkeypatch.setattr("clew_gui.ssh.kept_logins._ANSWERS_S", 0.5)
    monkeypatch.setattr("clew_gui.ssh.kept_logins._ANSWERS_AT_LAST_S", 0.5)


def test_one_that_was_killed_is_made_again(known: SshServer, files: SshFiles) -> None:
    use(files, hop_to(known), person=well_informed())
    (login,) = living(files)
    psutil.Process(login.pid).kill()
    until(lambda: not living(files))
    person = well_informed()
    use(files, hop_to(known), person=person)
    assert person.kinds == [PromptKind.PASSWORD]


@pytest.mark.parametrize("who", ["the server's session", "the holder"])
def test_one_that_does_not_answer_is_ended_and_made_again(
    start: Callable[..., SshServer], files: SshFiles, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    server = start()
    trust(files, server)
    use(files, hop_to(server), person=well_informed())
    (login,) = living(files)
    asleep = server.sessions() if who == "the server's session" else [psutil.Process(login.pid)]
    for process in asleep:
        process.suspend()
    person = Hears()
    use(files, hop_to(server), person=person)
    assert person.kinds == [PromptKind.PASSWORD]
    assert person.heard[0] == "The login to student@login does not answer. In 0.5 s a new one is made."
    (other,) = living(files)
    assert other.pid != login.pid
    assert not is_alive(login.pid)


def test_while_the_network_is_away_nothing_is_given_up(
    server: SshServer, files: SshFiles, network: Callable[[int], Network], monkeypatch: pytest.MonkeyPatch
) -> None:
    cable = network(server.port)
    files.known_hosts.write_text(server.known_line().replace(f":{server.port} ", f":{cable.port} "))
    hop = hop_to(server, port=cable.port)
    use(files, hop, person=well_informed())
    cable.freeze()
    with monkeypatch.context() as patched, refused("ssh.timeout"):
        hurry(patched)
        dial([hop], AskOnce(NOBODY), files, 0.5)
    cable.thaw()
    use(files, hop)
    KeptLogins(files).clear()  # before the network goes


# --- Several at once, and one that is interrupted -------------------------------------------------------------------


def test_of_two_commands_at_once_one_asks(known: SshServer, files: SshFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew_gui.ssh.kept_logins._EXPLAIN_S", 0.1)
    people = [Hears(), Hears()]

    def when_the_other_waits() -> str:
        until(lambda: any(person.heard for person in people))
        return PASSWORD

    for person in people:
        person.answers[PromptKind.PASSWORD] = when_the_other_waits
    threads = [threading.Thread(target=use, args=(files, hop_to(known)), kwargs={"person": one}) for one in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asked, waited = sorted(people, key=lambda person: len(person.asked), reverse=True)
    assert (asked.kinds, waited.kinds) == ([PromptKind.PASSWORD], [])
    assert waited.heard == ["Another of your commands is logging in to student@login. This one waits for it."]
    assert len(living(files)) == 1


def test_a_login_that_failed_is_the_next_ones_to_try(known: SshServer, files: SshFiles) -> None:
    with refused("ssh.cancelled"):
        use(files, hop_to(known), person=Person({PromptKind.PASSWORD: None}))
    with refused("ssh.password"):
        use(files, hop_to(known), person=Person({PromptKind.PASSWORD: "wrong"}))
    assert not [path for path in KeptLogins(files).folder.iterdir() if path.is_dir()]
    use(files, hop_to(known), person=well_informed())


def test_where_it_cannot_be_kept_the_sentence_says_where(known: SshServer, files: SshFiles) -> None:
    KeptLogins(files).folder.write_text("in the way")
    with refused("private.folder"):
        use(files, hop_to(known))
    KeptLogins(files).folder.unlink()
    name = login_id([hop_to(known)])
    (KeptLogins(files).folder / f"{name}.lock").mkdir(parents=True)
    KeptLogins(files).folder.chmod(0o700)
    with refused("ssh.kept") as words:
        use(files, hop_to(known))
    assert "keep_login = 0" in words[0]
    (KeptLogins(files).folder / f"{name}.lock").rmdir()


def test_a_quiet_access_lets_no_question_through_and_a_login_that_is_there_needs_none(
    known: SshServer, files: SshFiles
) -> None:
    access = SiteAccess("known", lambda _access: a_line(Login()), AskOnce(NOBODY), quiet=True)

    def quietly() -> None:
        with access.dialling():
            use(files, hop_to(known), person=access)

    with refused(NEEDS_PERSON):
        quietly()
    use(files, hop_to(known), person=well_informed())
    quietly()


def start_program(script: str, *arguments: str) -> subprocess.Popen[str]:
    """A program in a session of its own, which this test talks to."""
    pipe = subprocess.PIPE
    words = [sys.executable, "-c", script, *arguments]
    return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, text=True)


COMMAND = """
import signal, sys, msgspec
from clew_gui.ssh.connection import (Hop, SshFiles)
from clew_gui.ssh.dial import dial
from clew_gui.ssh.prompts import (Prompter, AskOnce, PromptKind)

class Person(Prompter):
    def ask(self, prompt):
        assert prompt.kind is PromptKind.PASSWORD
        return sys.stdin.readline().strip()

hop, files = msgspec.json.decode(sys.argv[1], type=Hop), msgspec.json.decode(
    sys.argv[2], type=SshFiles, dec_hook=lambda kind, text: kind(text)
)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where the tests were started with nohup,
signal.signal(signal.SIGINT, signal.default_int_handler)  # or in the background of a script
connection = dial([hop], AskOnce(Person()), files)
print(connection.run("echo in").stdout.decode(), end="", flush=True)
connection.run("sleep 1000", timeout=1000)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_the_login_outlives_its_command_however_that_ends(
    known: SshServer, files: SshFiles, number: signal.Signals
) -> None:
    """As Ctrl+C and the terminal's end do it: to all processes of the command."""
    arguments = [msgspec.json.encode(one, enc_hook=str).decode() for one in (hop_to(known), files)]
    with start_program(COMMAND, *arguments) as command:
        assert command.stdin is not None
        assert command.stdout is not None
        command.stdin.write(f"{PASSWORD}\n")
        command.stdin.flush()
        assert command.stdout.readline() == "in\n"
        os.killpg(command.pid, number)
        said = command.communicate(timeout=30.0)  # nothing holds its output open
    assert command.returncode, said
    use(files, hop_to(known))
    assert end_all(files) == ["student@login"]


STALLS = """
import os, signal, sys, msgspec
from clew_gui.ssh.connection import (Hop, SshFiles)
from clew_gui.ssh.dial import dial
from clew_gui.ssh.prompts import (AskOnce, NobodyToAsk)

hop, files = msgspec.json.decode(sys.argv[1], type=Hop), msgspec.json.decode(
    sys.argv[2], type=SshFiles, dec_hook=lambda kind, text: kind(text)
)
stream = dial([hop], AskOnce(NobodyToAsk()), files).open("exec yes")
assert stream.recv(2) == b"y\\n"
print("on", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_program_that_does_not_read_holds_up_no_other_and_its_commands_end_with_it(
    start: Callable[..., SshServer], files: SshFiles
) -> None:
    server = start()
    trust(files, server)

    def writes_for_it() -> bool:
        with suppress(psutil.Error):
            return any(process.name() == "yes" for process in server.sessions())
        return True

    with closing(program(files, hop_to(server), person=well_informed())) as other:
        arguments = [msgspec.json.encode(one, enc_hook=str).decode() for one in (hop_to(server), files)]
        with start_program(STALLS, *arguments) as stalled:
            assert stalled.stdout is not None
            assert stalled.stdout.readline() == "on\n"
            until(lambda: psutil.Process(stalled.pid).status() == psutil.STATUS_STOPPED)
            for _ in range(20):
                assert other.run("head -c 100000 /dev/zero").stdout == bytes(100_000)
            assert writes_for_it()
            stalled.kill()
        until(lambda: not writes_for_it())
        assert other.run("echo in").stdout == b"in\n"


ASKS = """
import sys, time, msgspec
from clew_gui.ssh.connection import (Hop, SshFiles)
from clew_gui.ssh.dial import dial
from clew_gui.ssh.prompts import AskOnce, Prompter

class Person(Prompter):
    def ask(self, prompt):
        print("asked", flush=True)
        sys.stdin.read()

hop, files = msgspec.json.decode(sys.argv[1], type=Hop), msgspec.json.decode(
    sys.argv[2], type=SshFiles, dec_hook=lambda kind, text: kind(text)
)
dial([hop], AskOnce(Person()), files)
"""


def test_a_command_that_is_killed_at_its_question_leaves_no_process(known: SshServer, files: SshFiles) -> None:
    arguments = [msgspec.json.encode(one, enc_hook=str).decode() for one in (hop_to(known), files)]
    with start_program(ASKS, *arguments) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == "asked\n"
        (holder,) = psutil.Process(command.pid).children()
        command.kill()
    until(lambda: not is_alive(holder.pid))
    use(files, hop_to(known), person=well_informed())


def test_a_process_that_cannot_hold_the_login_says_why(
    known: SshServer, files: SshFiles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "paramiko.py").write_text("raise ImportError('no paramiko today')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with refused("ssh.kept") as words:
        use(files, hop_to(known), person=well_informed())
    assert "no paramiko today" in words[0]
    assert not living(files)


def test_a_holder_gives_a_silent_server_up(
    server: SshServer, files: SshFiles, network: Callable[[int], Network], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew_gui.ssh.holder_program._PING_EVERY_S", 0.05)
    cable = network(server.port)
    files.known_hosts.write_text(server.known_line().replace(f":{server.port} ", f":{cable.port} "))
    relay = Relay(dial_paramiko(hop_to(server, "user", port=cable.port), files, AskOnce(NOBODY)))
    record = KeptLogin(
        id="", title="", passed=(), pid=os.getpid(), since=0.0, keep_s=KEEP_S, asks_codes=False, key=relay.public_key
    )
    write_record(files.runtime, record)
    staying = threading.Thread(target=stay, args=(relay, files.runtime, KEEP_S))
    staying.start()
    asked_at = relay.heard
    until(lambda: relay.heard > asked_at)
    assert staying.is_alive()
    cable.freeze()
    staying.join(30.0)
    assert not staying.is_alive()
    assert relay.alive, "its link is only silent"
    relay.end()


# --- What is not ours -----------------------------------------------------------------------------------------------


STRANGE: dict[str, Callable[[Path], None]] = {
    "a folder that others may enter": lambda folder: folder.chmod(0o755),
    "a folder of all logins that others may enter": lambda folder: folder.parent.chmod(0o755),
    "somebody else's folder": lambda folder: os.chown(folder, 65534, 65534),
    "a socket that others may use": lambda folder: (folder / SOCKET).chmod(0o666),
    "somebody else's socket": lambda folder: os.chown(folder / SOCKET, 65534, 65534),
}


@pytest.mark.parametrize("strange", STRANGE)
def test_what_is_not_the_users_alone_is_not_used(strange: str, known: SshServer, files: SshFiles) -> None:
    use(files, hop_to(known), person=well_informed())
    (login,) = living(files)
    folder = KeptLogins(files).folder / login.id
    STRANGE[strange](folder)
    with refused("ssh.kept") as words:
        use(files, hop_to(known))
    assert words[0].endswith("Type: clew logout (clew why ssh.kept)")
    assert living(files) == []
    KeptLogins(files).clear()
    use(files, hop_to(known), person=well_informed())


def test_another_program_in_its_place_is_not_used(known: SshServer, files: SshFiles) -> None:
    use(files, hop_to(known), person=well_informed())
    (login,) = living(files)
    write_record(KeptLogins(files).folder / login.id, msgspec.structs.replace(login, key=b"another"))
    assert KeptLogins(files).find([hop_to(known)], AskOnce(NOBODY)) is None
    write_record(KeptLogins(files).folder / login.id, login)
    use(files, hop_to(known))


def test_a_program_cannot_forward_ports_for_others(known: SshServer, files: SshFiles) -> None:
    use(files, hop_to(known), person=well_informed())
    (login,) = living(files)
    with closing(paramiko.Transport(connect_locally(KeptLogins(files).folder / login.id / SOCKET))) as link:
        link.start_client(timeout=10.0)
        link.auth_none("anybody")
        with pytest.raises(paramiko.SSHException, match="forwarding request denied"):
            link.request_port_forward("127.0.0.1", 0)
    use(files, hop_to(known))


def test_a_link_is_not_followed(known: SshServer, files: SshFiles, tmp_path: Path) -> None:
    use(files, hop_to(known), person=well_informed())
    folder = KeptLogins(files).folder / living(files)[0].id
    end_all(files)
    folder.symlink_to(tmp_path)
    with refused("ssh.kept"):
        use(files, hop_to(known))
    KeptLogins(files).clear()
    assert not folder.is_symlink()
    assert tmp_path.is_dir()
    use(files, hop_to(known), person=well_informed())


def test_no_secret_lies_in_its_folder_or_process(start: Callable[..., SshServer], files: SshFiles) -> None:
    server = start("AuthenticationMethods keyboard-interactive:pam", otp=True)
    trust(files, server)
    code = one_time_code(time.time())
    use(files, hop_to(server), person=Person({PromptKind.PASSWORD: PASSWORD, PromptKind.CODE: code}))
    (login,) = living(files)
    folder = KeptLogins(files).folder / login.id
    assert sorted(path.name for path in folder.iterdir()) == ["login.json", SOCKET]
    process = Path("/proc") / str(login.pid)
    seen = [path.read_bytes() for path in (process / "cmdline", process / "environ", folder / "login.json")]
    assert not [secret for secret in (*SECRETS, code) if secret.encode() in b"".join(seen)]
    for path in (*KeptLogins(files).folder.rglob("*"), KeptLogins(files).folder):
        assert path.stat().st_mode & 0o077 == 0, path
