"""What a server says at a login that is no question: it is shown, and the login waits for what it asks for."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import paramiko
import pytest
from paramiko.server import InteractiveQuery

from clew_gui.commands.main import main
from clew_gui.ssh import login
from clew_gui.ssh.connection import Hop, SshFiles
from clew_gui.ssh.dial import dial as dial_as_wanted
from clew_gui.ssh.prompts import AskOnce, Prompt, Prompter
from clew_shared.base.private_files import make_private
from clew_shared.base.problem import ProblemError
from tests.integration.ssh.conftest import Dial, hop_to, trust
from tests.integration.ssh.people import well_informed
from tests.integration.ssh.servers import SshServer
from tests.integration.ssh.test_contract import refused

pytestmark = pytest.mark.needs("sshd")

_WAIT_S = 30.0
_PAGE = "https://login.example.org/a/7f3c"
_BANNER = f"To let this computer in, visit:\n\n\t{_PAGE}\n"
_NOTICE = f"student@login says:\n{_BANNER}".rstrip()


@pytest.fixture(params=["own", "kept"], scope="module")
def way(request: pytest.FixtureRequest) -> str:
    """Both ways to a connection."""
    return str(request.param)


class Person(Prompter):
    """Reads what is said, and answers each question by its words."""

    def __init__(self, answers: Mapping[str, str] = {}) -> None:
        self.heard: queue.Queue[str] = queue.Queue()
        self.asked: list[Prompt] = []
        self._answers = answers

    def ask(self, prompt: Prompt) -> str | None:
        self.asked.append(prompt)
        return self._answers[prompt.text]

    def show_message(self, text: str) -> None:
        if "stay logged in" not in text:
            self.heard.put(text)

    def hears(self) -> str:
        return self.heard.get(timeout=_WAIT_S)


class Rules(paramiko.ServerInterface):
    """Lets someone in after an approval and the answers to all of ``requests``: the text and the fields of each, with
    the right answers."""

    def __init__(self, banner: str, requests: Sequence[tuple[str, str, Mapping[str, str]]]) -> None:
        self.banner, self.requests = banner, requests
        self.approval: queue.Queue[bool] = queue.Queue()
        self.dialled = threading.Event()
        self._place = 0

    def get_banner(self) -> tuple[str, str]:
        return self.banner, "en"

    def get_allowed_auths(self, username: str) -> str:
        return "keyboard-interactive"

    def check_auth_none(self, username: str) -> int:
        self.dialled.set()
        return paramiko.common.AUTH_FAILED if self.requests else self._end()

    def check_auth_interactive(self, username: str, submethods: str) -> InteractiveQuery | int:
        self._place = 0
        return self._query()

    def check_auth_interactive_response(self, responses: list[str]) -> InteractiveQuery | int:
        if responses != list(self.requests[self._place][2].values()):
            return paramiko.common.AUTH_FAILED
        self._place += 1
        return self._query() if self._place < len(self.requests) else self._end()

    def _query(self) -> InteractiveQuery:
        title, text, fields = self.requests[self._place]
        return InteractiveQuery(title, text, *fields)

    def _end(self) -> int:
        if self.approval.get(timeout=_WAIT_S):
            return paramiko.common.AUTH_SUCCESSFUL
        raise EOFError  # which ends the connection


class Quiet(paramiko.Transport):
    def _log(self, level: int, msg: Any, *args: Any) -> None:
        """Nobody reads it."""


class Server:
    """A server with such rules. It is dialled at 127.0.0.1."""

    def __init__(self, rules: Rules) -> None:
        self._rules, self._key = rules, paramiko.ECDSAKey.generate()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.known = f"[127.0.0.1]:{self.port} {self._key.get_name()} {self._key.get_base64()}\n"
        self._links: list[paramiko.Transport] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                link = Quiet(self._listener.accept()[0])
                link.add_server_key(self._key)
                link.start_server(threading.Event(), self._rules)
                self._links.append(link)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        for link in self._links:
            link.close()
            self._rules.approval.put(False)
        for link in self._links:
            link.join()


Serve = Callable[..., tuple[Hop, Rules]]


@pytest.fixture
def serve(files: SshFiles) -> Iterator[Serve]:
    """Starts a server with a banner and requests, whose key is known."""
    made: list[Server] = []

    def start(banner: str = "", *requests: tuple[str, str, Mapping[str, str]]) -> tuple[Hop, Rules]:
        rules = Rules(banner, requests)
        made.append(Server(rules))
        with files.known_hosts.open("a") as file:
            file.write(made[-1].known)
        return Hop(host="127.0.0.1", port=made[-1].port, user="student", name="login", identities_only=True), rules

    yield start
    for one in made:
        one.close()


class Clock:
    """Has the time for a server that waits for nobody pass by."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._timers: list[Callable[[], None]] = []
        monkeypatch.setattr(login, "Timer", self._timer)

    def _timer(self, seconds: float, act: Callable[..., None], arguments: tuple[Any, ...]) -> SimpleNamespace:
        self._timers.append(lambda: act(*arguments))
        return SimpleNamespace(start=lambda: None, cancel=lambda: None)

    def passes(self) -> None:
        for timer in self._timers[-1:]:
            timer()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, way: str) -> Clock:
    """The clock of the process that logs in; a kept login's is another one."""
    return Clock(monkeypatch)


class Dialling:
    """A login that is under way in a thread of its own."""

    def __init__(self, dial: Callable[[], object]) -> None:
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(dial,))
        self._thread.start()

    def _run(self, dial: Callable[[], object]) -> None:
        try:
            dial()
        except BaseException as error:  # noqa: BLE001  # raised again by the one who waits
            self._error = error

    def ends(self) -> None:
        self._thread.join()
        if self._error is not None:
            raise self._error


def test_a_banner_with_an_address_is_shown_and_the_approval_waited_for(dial: Dial, serve: Serve) -> None:
    hop, rules = serve(_BANNER)
    person = Person()
    dialling = Dialling(lambda: dial(hop, person))
    assert person.hears() == _NOTICE
    rules.approval.put(True)
    dialling.ends()
    assert person.heard.empty()


@pytest.mark.parametrize("way", ["own"], scope="module")
def test_an_approval_may_come_long_after_the_time_of_a_server_that_waits_for_nobody(
    dial: Dial, serve: Serve, clock: Clock
) -> None:
    hop, rules = serve(_BANNER)
    person = Person()
    dialling = Dialling(lambda: dial(hop, person))
    assert person.hears() == _NOTICE
    clock.passes()
    assert person.hears() == f"student@login has not let you in yet. {_NOTICE}"
    rules.approval.put(True)
    dialling.ends()


@pytest.mark.parametrize("way", ["own"], scope="module")
def test_an_approval_that_does_not_come_ends_the_login_with_the_servers_words(
    dial: Dial, serve: Serve, clock: Clock
) -> None:
    hop, rules = serve(_BANNER)
    person = Person()
    dialling = Dialling(lambda: dial(hop, person))
    person.hears()
    clock.passes()
    person.hears()
    rules.approval.put(False)
    with pytest.raises(ProblemError, match=_PAGE) as caught:
        dialling.ends()
    assert caught.value.problems[0].code == "ssh.auth"


@pytest.mark.parametrize("way", ["own"], scope="module")
def test_a_server_that_says_nothing_and_asks_nothing_is_given_up(dial: Dial, serve: Serve, clock: Clock) -> None:
    hop, rules = serve()
    dialling = Dialling(lambda: dial(hop, Person()))
    assert rules.dialled.wait(_WAIT_S)
    clock.passes()
    with refused("ssh.timeout"):
        dialling.ends()


def test_a_request_without_a_field_is_shown_and_waited_for(dial: Dial, serve: Serve) -> None:
    hop, rules = serve("", ("Second factor", f"Approve the login: {_PAGE}", {}))
    person = Person()
    dialling = Dialling(lambda: dial(hop, person))
    said = person.hears()
    assert said.startswith("student@login says:\n")
    assert "Second factor" in said
    assert _PAGE in said
    rules.approval.put(True)
    dialling.ends()
    assert not person.asked


@pytest.mark.parametrize("way", ["own"], scope="module")
def test_an_approval_after_an_answer_is_waited_for(dial: Dial, serve: Serve, clock: Clock) -> None:
    hop, rules = serve("", ("", "", {"Password: ": "a"}), ("", f"Approve it: {_PAGE}", {}))
    person = Person({"Password:": "a"})
    dialling = Dialling(lambda: dial(hop, person))
    assert person.hears() == f"student@login says:\nApprove it: {_PAGE}"
    clock.passes()
    assert _PAGE in person.hears()
    rules.approval.put(True)
    dialling.ends()


def test_two_fields_of_one_request_are_two_questions(dial: Dial, serve: Serve) -> None:
    fields = {"Password: ": "a", "Password of the project: ": "b"}
    hop, rules = serve("", ("Two doors", "Both are needed.", fields))
    rules.approval.put(True)
    person = Person({"Password:": "a", "Password of the project:": "b"})
    dial(hop, person)
    assert [prompt.text for prompt in person.asked] == ["Password:", "Password of the project:"]
    seen = "\n".join([*person.asked[0].details, *person.heard.queue])
    assert "Two doors" in seen
    assert "Both are needed." in seen


def test_a_server_cannot_play_with_the_screen(dial: Dial, serve: Serve) -> None:
    hop, rules = serve("\x1b[2J\x1b]0;title\x07Visit \u202ethe page\r\n")
    rules.approval.put(True)
    person = Person()
    dial(hop, person)
    said = person.hears()
    assert said.startswith("student@login says:")
    assert not set("\x1b\x07\u202e") & set(said)


def test_a_command_shows_it(serve: Serve, files: SshFiles, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hop, rules = serve(_BANNER)
    rules.approval.put(True)
    make_private(home / "config")
    (home / "config" / "known_hosts").write_text(files.known_hosts.read_text())
    main(["site", "add", "lab", "--host", f"{hop.title.replace(hop.name, hop.host)}:{hop.port}"])
    assert f"student@127.0.0.1 says:\n{_BANNER}".rstrip() in capsys.readouterr().err


def test_the_banner_of_a_site_is_shown_once(start: Callable[..., SshServer], files: SshFiles, tmp_path: Path) -> None:
    """Also where one process finds that a person is needed, and another one logs in."""
    banner = tmp_path / "banner"
    banner.write_text("Students of the course only.\n")
    banner.chmod(0o644)
    server = start(f"Banner {banner}")
    trust(files, server)
    person = Person()
    person.ask = well_informed().ask  # type: ignore[method-assign]
    asker = AskOnce(person)
    for keep_login_s in (600, 0):
        dial_as_wanted([hop_to(server)], asker, msgspec.structs.replace(files, keep_login_s=keep_login_s)).close()
    assert list(person.heard.queue) == ["student@login says:\nStudents of the course only."]
