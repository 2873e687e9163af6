"""The process of the system's ``ssh`` that holds one login; other ``ssh`` processes go through it (ControlMaster)."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal

import psutil

from clew_gui.ssh import errors as troubles
from clew_gui.ssh.config import run_ssh
from clew_gui.ssh.connection import Hop, SshFiles, timed_out
from clew_gui.ssh.host_keys import HostKeys
from clew_gui.ssh.key_files import check_key
from clew_gui.ssh.openssh.askpass_bridge import AskpassBridge
from clew_gui.ssh.openssh.messages import explain
from clew_gui.ssh.prompts import ANSWER_WITHIN_S, AskOnce, PromptKind
from clew_shared.base import operating_system
from clew_shared.base.private_files import make_private

_POLL_S = 0.02
_END_S = 2.0
_FAREWELL_S = 0.3
"""The seconds that a master gets to say goodbye; a signal can reach it just before it begins to wait, and is then not
noticed."""
_LAST_BYTES = 1 << 16
_ORPHAN_S = 600
"""The seconds after its last use when a master ends by itself if its program was killed. While that lives it asks every
5 s."""
_SOCKET_PATH_LIMIT = 80
"""A socket's path may have about a hundred bytes; ssh adds some while it makes one."""
_TOO_MANY = "Too many authentication failures"
_KEYS_ONLY = "Permission denied (publickey)"
_Offered = Literal["few", "all", "none"]
"""Says which of the agent's keys are offered."""
_OPTIONS = (
    "BatchMode=no",
    "NumberOfPasswordPrompts=3",
    "StrictHostKeyChecking=ask",
    "HashKnownHosts=no",
    "UpdateHostKeys=no",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "EscapeChar=none",
    "LogLevel=INFO",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=8",
)


_OWN = re.compile(
    r"Warning: (Permanently added|Identity file)|Permission denied, please try again|Load key |sign_and_send_pubkey:"
    r"|no such identity|Connection (closed|reset|timed out)|kex_exchange_identification|(ssh|mux|Control\w*)[_: ]"
)
"""How messages of ``ssh`` itself begin after which the login goes on."""


class Master:
    """A process of ``ssh`` that holds one login behind a socket in ``folder``, and what it says.

    It leaves this program's session with the login. ``close`` ends it; with ``keep_s`` it stays for other programs, and
    ends by itself so many seconds after its last use, or with ``end``.
    """

    def __init__(self, hop: Hop, files: SshFiles, folder: Path, keep_s: int = 0, pid: int = 0) -> None:
        self.hop = hop
        self.pid = pid
        self.folder = folder
        self.socket = folder / "m"
        self.log = folder / "log"
        """The file with the master's messages. Its time is that of the last use."""
        self._files = files
        self._keep_s = keep_s
        self._let_go = False
        self._kept_back = 0

    # --- Logging in ---------------------------------------------------------------------------------------------------

    def log_in(self, asker: AskOnce, timeout: float, through: Master | None) -> list[PromptKind]:
        """Start the process and wait for its socket. Too many keys in the agent: once more without it.

        Returns what was asked for. Raises ``ProblemError``.
        """
        for key in self.hop.keys:  # ssh passes over a key that it cannot use, and asks for a password instead
            check_key(Path(key))
        bridge = AskpassBridge(self.folder, self.hop, asker)
        way = self._way(through)
        try:
            if not self._patiently(bridge, way, timeout) and not self._once_more(bridge, way, timeout):
                known = [line.key for line in HostKeys(self.hop, self._files).known_lines()]
                raise explain(self.hop, self.words(), bridge, known, self._kept_back)
            return [prompt.kind for prompt in bridge.asked]
        finally:
            bridge.close()

    def _once_more(self, bridge: AskpassBridge, way: str, timeout: float) -> bool:
        """Tries once more: without the agent if it had too many keys, and with all of it if nobody could type
        anything."""
        if bridge.over.is_set() or self.hop.keys:
            return False
        if _TOO_MANY in self.words():
            return self._try(bridge, way, timeout, "none")
        if _KEYS_ONLY not in self.words() or not self._kept_back:
            return False
        self._kept_back = 0
        return self._try(bridge, way, timeout, "all")

    def _patiently(self, bridge: AskpassBridge, way: str, timeout: float) -> bool:
        """Try again after a pause when the server hangs up before it says its name."""
        for pause in (*troubles.BUSY_PAUSES_S, None):
            if self._try(bridge, way, timeout):
                return True
            if pause is None or "kex_exchange_identification" not in self.words():
                break
            time.sleep(pause)
        return False

    def _try(self, bridge: AskpassBridge, way: str, timeout: float, agent: _Offered = "few") -> bool:
        command = [*self._command(way, timeout, agent), "--", self._alias()]
        self.log.unlink(missing_ok=True)
        with open(self.log, "ab", opener=_for_owner) as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=bridge.environment(os.environ),
                **operating_system.own_session(),  # no terminal: every question goes to the bridge
            )
        try:
            started, limit, told, heard = time.monotonic(), timeout, 0, 0
            while process.poll() is None:  # with the login it goes on in another process
                if bridge.over.is_set():
                    return False
                if told < heard:  # the last messages of all come as the process ends, and are explained
                    bridge.say(self.hop.title, _without_own(self.since(told, heard)))
                told, heard = heard, self.heard
                if time.monotonic() - started - bridge.waited() > limit:
                    if limit == ANSWER_WITHIN_S or not (bridge.said or bridge.asked):
                        raise timed_out(self.hop.title, "the login", limit)
                    limit = ANSWER_WITHIN_S  # an approval may be given elsewhere, on a phone or a page
                    bridge.remind()
                time.sleep(_POLL_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.pid = self._asked_pid() if process.returncode == 0 else 0
        return self.pid != 0

    def _asked_pid(self) -> int:
        """The id of the process that serves the socket, as it reports it; 0 when it does not answer."""
        try:
            done = subprocess.run(
                [*self.client(), "-O", "check", "clew"], capture_output=True, text=True, check=False, timeout=_END_S
            )
        except subprocess.TimeoutExpired:
            return 0
        found = re.search(r"\(pid=(\d+)\)", done.stderr)
        return int(found[1]) if found is not None else 0

    def _command(self, way: str, timeout: float, agent: _Offered) -> list[str]:
        hop, files = self.hop, self._files
        known = [files.known_hosts, *map(Path, hop.known_hosts), *files.also_known]
        make_private(files.known_hosts.parent)
        files.known_hosts.touch(0o600)  # ssh would make it for everybody to read
        options = [*_OPTIONS, f"HostName={hop.host.replace('%', '%%')}", f"ConnectTimeout={max(1, round(timeout))}"]
        options.append(f"ControlPersist={self._keep_s or _ORPHAN_S}")
        options.append("UserKnownHostsFile=" + " ".join(f'"{path}"' for path in known))
        options += [f"HostKeyAlias={hop.host_key_alias}"] if hop.host_key_alias else []
        options += ["IdentityAgent=none"] if agent == "none" else []
        keys = hop.keys or tuple(map(str, self._few_keys() if agent == "few" else ()))
        options += ["IdentitiesOnly=yes"] if hop.identities_only or keys else []
        options += [f'CertificateFile="{path}"' for path in hop.certificates]
        options.append(f"ProxyCommand={way}")
        command = [files.ssh, *self._config(), "-f", "-M", "-N", "-S", str(self.socket), "-E", str(self.log)]
        command += ["-p", str(hop.port), "-l", hop.login]
        for key in keys:
            command += ["-i", key]
        return command + [part for option in options for part in ("-o", option)]

    def _few_keys(self) -> list[Path]:
        """Names key files although nobody did, so that a full agent does not lead to a rejection. An agent that the
        user's configuration names is another one than is asked here: what it holds is not known, and all of it is
        offered."""
        self._kept_back = 0
        if self.hop.identities_only:
            return []
        from clew_gui.ssh.key_offers import SshKeyAgent, files_to_name  # with paramiko

        with closing(SshKeyAgent()) as agent:
            named, kept_back = files_to_name(self._files, agent.get_keys(), self.folder)
        if named and "\nidentityagent " in (run_ssh([self._files.ssh, *self._config(), "-G", self._alias()]) or ""):
            return []
        self._kept_back = kept_back
        return named

    def _alias(self) -> str:
        """The name in ``~/.ssh/config``, so that what is there for it holds; everything else is given anyway."""
        return self.hop.name if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", self.hop.name) else self.hop.host

    def _config(self) -> list[str]:
        return ["-F", self._files.ssh_config] if self._files.ssh_config else []

    def _way(self, through: Master | None) -> str:
        if through is not None:
            return shlex.join(part.replace("%", "%%") for part in through.client()) + " -W '[%h]:%p' clew"
        return self.hop.proxy_command or "none"

    # --- Using it -----------------------------------------------------------------------------------------------------

    def client(self) -> list[str]:
        """The beginning of a command that goes through the master, and fails without it instead of dialling itself."""
        with suppress(OSError):  # it may just have been ended by another program
            os.utime(self.log)
        return [self._files.ssh, "-F", "none", "-S", str(self.socket), "-o", "ProxyCommand=false", "-T"]

    @property
    def heard(self) -> int:
        """Returns how many bytes of messages there are in all."""
        try:
            return self.log.stat().st_size
        except OSError:
            return 0

    def since(self, heard: int, until: int | None = None) -> list[str]:
        """Returns the messages after the first ``heard`` bytes and before ``until``; only the end of them if they are
        very long."""
        try:
            with self.log.open("rb") as file:
                end = min(file.seek(0, os.SEEK_END), until or sys.maxsize)
                file.seek(max(heard, end - _LAST_BYTES))
                return file.read(end - file.tell()).decode(errors="replace").splitlines()
        except OSError:
            return []

    def words(self) -> str:
        """Returns all messages, to show them or for ``explain``."""
        return "\n".join(self.since(0))

    @property
    def alive(self) -> bool:
        """Whether the process runs, and this program has not closed it."""
        return not self._let_go and self.runs

    @property
    def runs(self) -> bool:
        """Whether the process runs. One that has its number by now is no longer it."""
        try:
            words = psutil.Process(self.pid).cmdline() if self.pid else []
        except psutil.Error:
            return False
        return "-M" in words and str(self.socket) in words

    def has_ended(self, timeout: float) -> bool:
        """Whether the process ends within ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while self.runs:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def close(self) -> None:
        """Ends this program's use of the login."""
        self._let_go = True
        if not self._keep_s:
            self.end()

    def end(self) -> None:
        """End the process, even if others use it, and remove the folder."""
        if not self.pid and self.socket.exists():
            self.pid = self._asked_pid()
        if self.runs:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            if not self.has_ended(_FAREWELL_S):
                operating_system.kill_process(self.pid)
                self.has_ended(_END_S)
        shutil.rmtree(self.folder, ignore_errors=True)


def private_folder(runtime: Path) -> Path:
    """A new folder for a master, whose path is short enough for a socket."""
    parent = make_private(runtime) if len(str(runtime)) < _SOCKET_PATH_LIMIT else None
    return Path(tempfile.mkdtemp(prefix="s-", dir=parent))  # made with mode 0700


def _without_own(messages: list[str]) -> str:
    """Returns what the server said of these messages."""
    return "\n".join(one for one in messages if not _OWN.match(one))


def _for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
