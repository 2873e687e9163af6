"""A real sshd on loopback, in a mount namespace of its own: the machine's users and PAM rules stay as they are.

The user is ``student``; passwords, one-time codes and keys are those of a ``School``. Needs root and openssh-server.
``python -m tests.integration.ssh.servers COMMAND…`` gives a server to tests on a system where none can be started.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import psutil

USER = "student"
PASSWORD = "correct-horse-7391"
PASSPHRASE = "battery-staple-2846"
OTP_SECRET = bytes.fromhex("3132333435363738393031323334353637383930")
_UID = 20001
GIVEN = "CLEW_TEST_SSHD"
"""The environment variable with a server for tests on a system where none can be started."""
_WAIT_S = 20.0

_PAM_UNIX = """auth     required pam_unix.so nodelay
account  required pam_unix.so
session  required pam_unix.so
"""
_PAM_OTP = """auth     required pam_unix.so nodelay
auth     required pam_oath.so usersfile={folder}/users.oath window=20 digits=6
account  required pam_unix.so
session  required pam_unix.so
"""
_BIND = """set -e
mount -t tmpfs tmpfs /run
mkdir -p -m 755 /run/sshd
for name in passwd shadow group; do mount --bind "$1/etc/$name" "/etc/$name"; done
mount --bind "$1/etc/pam.d" /etc/pam.d
exec "$2" -D -e -f "$3"
"""


def one_time_code(at: float) -> str:
    """RFC 6238 with SHA-1, half a minute, six digits."""
    digest = hmac.new(OTP_SECRET, struct.pack(">Q", int(at) // 30), hashlib.sha1).digest()
    (number,) = struct.unpack(">I", digest[(offset := digest[19] & 15) : offset + 4])
    return f"{(number & 0x7FFFFFFF) % 1_000_000:06d}"


class School:
    """A user with a home, a password, keys; made once, used by all servers of a test session."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="clew-sshd-"))
        self.folder.chmod(0o755)
        self.home = self.folder / "home"
        self.keys = self.folder / "keys"
        for folder in (self.home, self.home / ".ssh", self.keys, self.folder / "etc", self.folder / "etc/pam.d"):
            folder.mkdir(mode=0o755)
        self._write_users()
        self._write_keys()
        self.reset()

    def _write_users(self) -> None:
        etc = self.folder / "etc"
        shadow = (
            subprocess.run(
                ["openssl", "passwd", "-6", "-stdin"], input=PASSWORD.encode(), capture_output=True, check=True
            )
            .stdout.decode()
            .strip()
        )
        passwd = Path("/etc/passwd").read_text().rstrip("\n")
        (etc / "passwd").write_text(f"{passwd}\n{USER}:x:{_UID}:{_UID}::{self.home}:/bin/bash\n")
        (etc / "group").write_text(Path("/etc/group").read_text().rstrip("\n") + f"\n{USER}:x:{_UID}:\n")
        (etc / "shadow").write_text(
            f"root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n{USER}:{shadow}:19000:0:99999:7:::\n"
        )
        (etc / "shadow").chmod(0o600)
        (etc / "pam.d/sshd").write_text(_PAM_UNIX)
        (etc / "pam.d/sshd-otp").write_text(_PAM_OTP.format(folder=self.folder))
        (etc / "pam.d/other").write_text("auth required pam_deny.so\naccount required pam_deny.so\n")

    def _write_keys(self) -> None:
        for name in ("host_ed25519", "host_other", "user", "second", *(f"agent{number}" for number in range(9))):
            self.make_key(name)
        for name in ("twin0", "twin1"):
            self.make_key(name, extra=["-C", "twin"])
        self.make_key("locked", passphrase=PASSPHRASE)
        self.make_key("host_rsa", "rsa")
        self.make_key("old", "rsa", extra=["-m", "PEM"])

    def make_key(self, name: str, kind: str = "ed25519", passphrase: str = "", extra: list[str] | None = None) -> Path:
        """A key pair ``keys/NAME``."""
        command = [
            "ssh-keygen",
            "-q",
            "-t",
            kind,
            "-N",
            passphrase,
            "-C",
            name,
            "-f",
            str(self.keys / name),
            *(extra or []),
        ]
        subprocess.run([*command, *(["-b", "2048"] if kind == "rsa" else [])], check=True)
        return self.keys / name

    def key(self, name: str) -> str:
        """A private key file's name."""
        return str(self.keys / name)

    def allow(self, *names: str) -> None:
        """Let these keys in, and no others."""
        lines = [(self.keys / f"{name}.pub").read_text() for name in names]
        (self.home / ".ssh/authorized_keys").write_text("".join(lines))

    def reset(self) -> None:
        """The home as it is at the beginning of a test, no one-time code used."""
        for path in self.home.iterdir():
            if path.name != ".ssh":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.allow("user", "locked", "old")
        (self.folder / "users.oath").write_text(f"HOTP/T30/6 {USER} - {OTP_SECRET.hex()}\n")
        (self.folder / "users.oath").chmod(0o600)
        for path in (self.home, self.home / ".ssh", self.home / ".ssh/authorized_keys"):
            os.chown(path, _UID, _UID)

    def close(self) -> None:
        """Remove everything."""
        shutil.rmtree(self.folder, ignore_errors=True)


class SshServer:
    """One sshd. ``options`` are lines of its configuration, before the usual ones and so stronger."""

    def __init__(self, school: School, *options: str, otp: bool = False, host_key: str = "host_ed25519") -> None:
        self.school = school
        self.host_key = host_key
        self._options = options
        self._otp = otp
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="sshd-", dir=school.folder))
        self.log = self._folder / "log"
        self.port = _free_port()
        self.start()

    def start(self) -> None:
        """Start it and wait until it listens."""
        program = self._folder / ("sshd-otp" if self._otp else "sshd")  # PAM's service is the name it was started by
        if not program.exists():
            program.symlink_to("/usr/sbin/sshd")
        config = self._folder / "config"
        config.write_text(self._config())
        arguments = ["sh", "-c", _BIND, "sh", str(self.school.folder), str(program), str(config)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + _WAIT_S
        while not _listens(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"sshd did not start:\n{self.log.read_text()}")
            time.sleep(0.01)

    def _config(self) -> str:
        lines = [
            *self._options,
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self.school.keys / self.host_key}",
            f"PidFile {self._folder / 'pid'}",
            "StrictModes no",
            "PermitRootLogin no",
            "UsePAM yes",
            "PasswordAuthentication yes",
            "KbdInteractiveAuthentication yes",
            "PrintMotd no",
            "PrintLastLog no",
            "UseDNS no",
            "LogLevel VERBOSE",
        ]
        if not any(line.startswith("Subsystem") for line in lines):  # the only one that may not stand twice
            lines.append("Subsystem sftp internal-sftp")
        return "\n".join(lines) + "\n"

    def sessions(self) -> list[psutil.Process]:
        """The processes of logins that are under way."""
        if self._process is None:
            return []
        with suppress(psutil.Error):
            return psutil.Process(self._process.pid).children(recursive=True)
        return []

    def kill_sessions(self) -> None:
        """End every login, as an administrator's reboot would."""
        for process in self.sessions():
            with suppress(psutil.Error):
                process.kill()

    def said(self, text: str) -> int:
        """How many lines of the log contain ``text``."""
        return sum(text in line for line in self.log.read_text(errors="replace").splitlines())

    def stop(self) -> None:
        """End it and its logins."""
        if self._process is None:
            return
        left = self.sessions()
        self.kill_sessions()  # while their parent is there to wait for them
        deadline = time.monotonic() + _WAIT_S
        while any(_runs(process) for process in left) and time.monotonic() < deadline:
            time.sleep(0.01)
        self._process.kill()
        self._process.wait()
        self._process = None

    def __enter__(self) -> SshServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def known_line(self, host_key: str | None = None) -> str:
        """The line of a known_hosts file for this server."""
        fields = (self.school.keys / f"{host_key or self.host_key}.pub").read_text().split()
        return f"[127.0.0.1]:{self.port} {fields[0]} {fields[1]}\n"

    def fingerprint(self, host_key: str | None = None) -> str:
        """As OpenSSH prints it."""
        blob = base64.b64decode((self.school.keys / f"{host_key or self.host_key}.pub").read_text().split()[1])
        return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def _runs(process: psutil.Process) -> bool:
    """Not dead; who is dead may wait for the machine's first process to notice."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


# --- For tests on any system ------------------------------------------------------------------------------------------


class GivenServer(NamedTuple):
    """A server that lets ``USER`` in with the private key of the file ``key``; ``known`` is its line in known_hosts."""

    port: int
    key: str
    known: str


@contextmanager
def serving() -> Iterator[GivenServer]:
    """The server that was given in the environment; else a new one."""
    if given := os.environ.get(GIVEN):
        yield GivenServer(*json.loads(given))
        return
    school = School()
    try:
        with SshServer(school) as server:
            yield GivenServer(server.port, school.key("user"), server.known_line())
    finally:
        school.close()


def main(command: Sequence[str]) -> int:
    """Run a command to which a server is given, where one can be started here; its exit code."""
    from tests.needs import NEEDS

    with serving() if NEEDS["sshd"].present() else nullcontext() as server:
        given = {GIVEN: json.dumps(server)} if server is not None else {}
        return subprocess.run(command, env=os.environ | given, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
