"""The process of the system's ``ssh`` that holds one login; other ``ssh`` processes go through it (ControlMaster)."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal

from clew_gui.remote import troubles
from clew_gui.remote.askpass_bridge import AskpassBridge
from clew_gui.remote.connection import Hop, SshFiles, timed_out
from clew_gui.remote.host_keys import HostKeys
from clew_gui.remote.key_files import check_key
from clew_gui.remote.key_offers import Agent, files_to_name
from clew_gui.remote.prompts import AskOnce, Kind
from clew_gui.remote.ssh_config import run_ssh
from clew_gui.remote.ssh_words import explain
from clew_shared.private import make_private

_POLL_S = 0.02
_END_S = 2.0
_FAREWELL_S = 0.3
"""So long it gets to say farewell; a signal can reach it just before it begins to wait, and is then not noticed."""
_KEPT_LINES = 200
_SOCKET_PATH_LIMIT = 80
"""A socket's path may have about a hundred bytes; ssh adds some while it makes one."""
_TOO_MANY = "Too many authentication failures"
_KEYS_ONLY = "Permission denied (publickey)"
_Offered = Literal["few", "all", "none"]
"""Which of the agent's keys."""
_OPTIONS = (
    "BatchMode=no",
    "NumberOfPasswordPrompts=3",
    "ControlPersist=no",
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
)


class Master:
    """The process that holds one login, its folder and what it says."""

    def __init__(self, hop: Hop, files: SshFiles, through: Master | None) -> None:
        self.hop = hop
        self._files = files
        self._through = through
        self.folder = _private_folder(files.runtime)
        self.socket = self.folder / "m"
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._kept_back = 0
        self.said: list[str] = []
        self.heard = 0
        """How many lines it has said in all; the last ones are kept."""

    def log_in(self, asker: AskOnce, timeout: float) -> bool:
        """Start the master and wait for its socket. Too many keys in the agent: once more without it.

        Returns whether a one-time code was asked for. Raises ``ProblemError``.
        """
        for key in self.hop.keys:  # ssh passes over a key that it cannot use, and asks for a password instead
            check_key(Path(key))
        bridge = AskpassBridge(self.folder, self.hop, asker)
        try:
            if not self._patiently(bridge, timeout) and not self._once_more(bridge, timeout):
                known = [line.key for line in HostKeys(self.hop, self._files).known_lines()]
                raise explain(self.hop, self.words(), bridge, known, self._kept_back)
            return any(prompt.kind is Kind.CODE for prompt in bridge.asked)
        finally:
            bridge.close()

    def _once_more(self, bridge: AskpassBridge, timeout: float) -> bool:
        """Without the agent where it had too many keys, and with all of it where nobody could type anything."""
        if bridge.over.is_set() or self.hop.keys:
            return False
        if _TOO_MANY in self.words():
            return self._try(bridge, timeout, "none")
        if _KEYS_ONLY not in self.words() or not self._kept_back:
            return False
        self._kept_back = 0
        return self._try(bridge, timeout, "all")

    def _patiently(self, bridge: AskpassBridge, timeout: float) -> bool:
        """Try again after a pause when the server hangs up before it says its name."""
        for pause in (*troubles.BUSY_PAUSES_S, None):
            if self._try(bridge, timeout):
                return True
            if pause is None or "kex_exchange_identification" not in self.words():
                break
            time.sleep(pause)
        return False

    def _try(self, bridge: AskpassBridge, timeout: float, agent: _Offered = "few") -> bool:
        self.said.clear()
        self._process = subprocess.Popen(
            [*self._command(timeout, agent), "--", self._alias()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=bridge.environment(os.environ),
            start_new_session=True,  # no terminal: every question goes to the bridge
        )
        self._reader = threading.Thread(target=self._listen, name=f"ssh {self.hop.title} master", daemon=True)
        self._reader.start()
        begun = time.monotonic()
        while not self.socket.exists():
            if self._process.poll() is not None:
                self._reader.join(_END_S)
                return False
            if bridge.over.is_set():
                self._process.kill()
                self._process.wait()
                return False
            if time.monotonic() - begun - bridge.waited() > timeout:
                raise timed_out(self.hop.title, "the login", timeout)
            time.sleep(_POLL_S)
        return True

    def _command(self, timeout: float, agent: _Offered) -> list[str]:
        hop, files = self.hop, self._files
        known = [files.known_hosts, *map(Path, hop.known_hosts), *files.also_known]
        make_private(files.known_hosts.parent)
        files.known_hosts.touch(0o600)  # ssh would make it for everybody to read
        options = [*_OPTIONS, f"HostName={hop.host}", f"ConnectTimeout={max(1, round(timeout))}"]
        options.append("UserKnownHostsFile=" + " ".join(f'"{path}"' for path in known))
        options += [f"HostKeyAlias={hop.host_key_alias}"] if hop.host_key_alias else []
        options += ["IdentityAgent=none"] if agent == "none" else []
        keys = hop.keys or tuple(map(str, self._few_keys() if agent == "few" else ()))
        options += ["IdentitiesOnly=yes"] if hop.identities_only or keys else []
        options.append(f"ProxyCommand={self._way()}")
        command = [files.ssh, *self._config(), "-M", "-N", "-S", str(self.socket), "-p", str(hop.port), "-l", hop.login]
        for key in keys:
            command += ["-i", key]
        return command + [part for option in options for part in ("-o", option)]

    def _few_keys(self) -> list[Path]:
        """The key files to name although nobody did, lest a full agent closes the door. An agent that the user's
        configuration names is another one than is asked here: what it holds is not known, and all of it is offered."""
        self._kept_back = 0
        if self.hop.identities_only:
            return []
        with closing(Agent()) as agent:
            named, kept_back = files_to_name(self._files, agent.get_keys(), self.folder)
        if named and "\nidentityagent " in (run_ssh([self._files.ssh, *self._config(), "-G", self._alias()]) or ""):
            return []
        self._kept_back = kept_back
        return named

    def _alias(self) -> str:
        """The name in ``~/.ssh/config``, so that what stands there for it holds; everything else is given anyway."""
        return self.hop.name if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", self.hop.name) else self.hop.host

    def _config(self) -> list[str]:
        return ["-F", self._files.ssh_config] if self._files.ssh_config else []

    def _way(self) -> str:
        if self._through is not None:
            return shlex.join(part.replace("%", "%%") for part in self._through.client()) + " -W '[%h]:%p' clew"
        return self.hop.proxy_command or "none"

    def client(self) -> list[str]:
        """The beginning of a command that goes through the master, and fails without it instead of dialling itself."""
        return [self._files.ssh, "-F", "none", "-S", str(self.socket), "-o", "ProxyCommand=false", "-T"]

    def _listen(self) -> None:
        assert self._process is not None  # noqa: S101  # started by the one that set it
        stream = self._process.stderr
        assert stream is not None  # noqa: S101  # a pipe
        with stream:
            for line in stream:
                self.said.append(line.decode(errors="replace").rstrip())
                self.heard += 1
                del self.said[:-_KEPT_LINES]

    def since(self, heard: int) -> list[str]:
        """What it has said since it had said ``heard`` lines."""
        return self.said[max(0, len(self.said) - (self.heard - heard)) :]

    def words(self) -> str:
        """What it said, for a person's eyes or for ``explain``."""
        return "\n".join(self.said)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def has_ended(self, timeout: float) -> bool:
        """Whether the process ends within ``timeout`` seconds."""
        with suppress(subprocess.TimeoutExpired):
            return self._process is None or self._process.wait(timeout) is not None
        return False

    def close(self) -> None:
        """End the process and remove its folder."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_FAREWELL_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._reader is not None:
            self._reader.join(_END_S)
        shutil.rmtree(self.folder, ignore_errors=True)


def _private_folder(runtime: Path) -> Path:
    parent = make_private(runtime) if len(str(runtime)) < _SOCKET_PATH_LIMIT else None
    return Path(tempfile.mkdtemp(prefix="s-", dir=parent))  # made with mode 0700
