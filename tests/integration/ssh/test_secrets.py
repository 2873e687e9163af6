"""No password, passphrase or code in an argument list, an environment, a log, a file, or the text of an error."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from clew_gui.ssh.connection import SshFiles
from clew_gui.ssh.prompts import PromptKind
from clew_shared.base.problem import ProblemError
from tests.integration.ssh.conftest import Dial, hop_to, trust
from tests.integration.ssh.people import Person
from tests.integration.ssh.servers import PASSPHRASE, PASSWORD, SshServer

pytestmark = pytest.mark.needs("sshd")

WRONG = "wrong-horse-5512"
CODE = "314159"
SECRETS = (PASSWORD, PASSPHRASE, WRONG, CODE)


class Watch:
    """Looks at this process and all that it has started, again and again, as another user with ``ps`` would."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.looked = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        me = psutil.Process()
        while not self._ended.is_set():
            for process in [me, *me.children(recursive=True)]:
                with suppress(psutil.Error, OSError):
                    self._look(process)
            self.looked += 1
            time.sleep(0.005)

    def _look(self, process: psutil.Process) -> None:
        folder = Path("/proc") / str(process.pid)
        seen = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        self.found += [f"{process.pid}: {seen!r}" for secret in SECRETS if secret.encode() in seen]

    def close(self) -> None:
        self._ended.set()
        self._thread.join()


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = Watch()
    yield made
    made.close()


def test_secrets_are_nowhere(
    dial: Dial,
    server: SshServer,
    start: Callable[..., SshServer],
    files: SshFiles,
    watch: Watch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with_codes = start("AuthenticationMethods keyboard-interactive:pam", otp=True)
    trust(files, server, with_codes)
    right = dial(hop_to(server, name="a"), Person({PromptKind.PASSWORD: PASSWORD}))
    dial(hop_to(server, "locked", name="b"), Person({PromptKind.PASSPHRASE: PASSPHRASE}))
    errors = []
    for used, person in (
        (server, Person({PromptKind.PASSWORD: WRONG})),
        (with_codes, Person({PromptKind.PASSWORD: PASSWORD, PromptKind.CODE: CODE})),
    ):
        with pytest.raises(ProblemError) as caught:
            dial(hop_to(used), person)
        errors.append(f"{caught.value} {caught.value!r} {caught.value.__cause__!r} {caught.value.problems}")
    told = " ".join([caplog.text, *errors, str(right.passed)])
    assert watch.looked > 10
    assert not watch.found
    assert not [secret for secret in SECRETS if secret in told]
    left = [path for path in files.runtime.rglob("*") if path.is_file()]
    assert not [path for path in left for secret in SECRETS if secret.encode() in path.read_bytes()]


def test_what_lies_on_the_disk_is_the_owners_alone(dial: Dial, server: SshServer, files: SshFiles) -> None:
    trust(files, server)
    dial(hop_to(server, "user"))
    for path in files.runtime.rglob("*"):
        owner_only_folder = path.parent == files.runtime or path.parent.stat().st_mode & 0o077 == 0
        assert owner_only_folder
    assert files.runtime.stat().st_mode & 0o077 == 0
