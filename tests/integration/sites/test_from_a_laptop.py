"""A site as a student reaches it from a laptop of any system: paramiko, a key, and a real sshd at the other end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from clew_gui.commands.main import main
from clew_gui.sites.site_connection import open_connection
from clew_gui.sites.store import site_store
from clew_gui.ssh.prompts import AskOnce, NobodyToAsk, Prompt, Prompter, PromptKind
from clew_shared.base.places import find_places
from tests.integration.ssh.servers import PASSWORD, USER, GivenServer, serving

pytestmark = pytest.mark.needs("sshd")


@pytest.fixture
def server() -> Iterator[GivenServer]:
    with serving() as found:
        yield found


def add_site(server: GivenServer, *key: str) -> None:
    places = find_places()
    places.config.mkdir(parents=True)
    (places.config / "known_hosts").write_text(server.known, encoding="utf-8", newline="\n")
    where = ["--host", "127.0.0.1", "--port", str(server.port), "--user", USER, *key]
    assert main(["site", "add", "lab", *where, "--scheduler", "none"]) == 0


def test_a_site_is_added_examined_and_used(server: GivenServer, capsys: pytest.CaptureFixture[str]) -> None:
    places = find_places()
    add_site(server, "--key", server.key)
    capsys.readouterr()
    main(["site", "doctor", "lab", "--json"])
    findings = {one["check"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert findings["login"]["verdict"] == "ok"
    connection = open_connection("lab", site_store(places).load("lab"), places, AskOnce(NobodyToAsk()))
    with closing(connection):
        path = f"{connection.run(('sh', '-c', 'echo ~')).out.strip()}/from-here"
        connection.ssh.write(path, b"a\r\nb\n")
        assert connection.run(("wc", "-c", path)).out.split()[0] == "5"
        assert connection.ssh.read(path) == b"a\r\nb\n"


def test_a_command_there_gets_what_is_piped_to_it(server: GivenServer, home: Path) -> None:
    """``clew shell`` without a terminal: input, its end, output and exit status."""
    add_site(server, "--key", server.key)
    words = [sys.executable, "-m", "clew_gui", "shell", "--site", "lab", "--", "wc -c; exit 7"]
    ran = subprocess.run(words, input=b"a\r\nb\n", capture_output=True, check=False)
    assert (ran.returncode, ran.stdout.split(), ran.stderr) == (7, [b"5"], b"")


class Types(Prompter):
    """Types the password, and counts how often it is asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def ask(self, prompt: Prompt) -> str | None:
        assert prompt.kind is PromptKind.PASSWORD
        self.asked += 1
        return PASSWORD


def shell(words: str) -> subprocess.CompletedProcess[bytes]:
    """``clew shell`` where nobody can be asked."""
    command = [sys.executable, "-m", "clew_gui", "shell", "--site", "lab", "--", words]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def test_a_password_is_asked_once_until_the_logout(server: GivenServer, capsys: pytest.CaptureFixture[str]) -> None:
    add_site(server)
    places, person = find_places(), Types()
    with closing(open_connection("lab", site_store(places).load("lab"), places, AskOnce(person))) as connection:
        assert connection.run(("echo", "in")).out == "in\n"
        ran = shell("wc -c </dev/null; exit 7")
        assert (ran.returncode, ran.stdout.split(), ran.stderr) == (7, [b"0"], b"")
    ran = shell("echo still in")
    assert (ran.returncode, ran.stdout.strip(), ran.stderr) == (0, b"still in", b"")
    assert person.asked == 1
    capsys.readouterr()
    main(["logout", "--list", "--json"])
    (login,) = json.loads(capsys.readouterr().out)["logins"]
    assert (login["login"], login["sites"]) == (f"{USER}@127.0.0.1", ["lab"])
    assert main(["logout", "lab"]) == 0
    ran = shell("echo in")
    assert ran.returncode
    assert b"(clew why ssh.noprompt)" in ran.stderr
