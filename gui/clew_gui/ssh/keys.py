"""A person's keys: which to offer to a server, in which order, so that it does not hang up after too many; their files.

A usual server (``MaxAuthTries 6``) hangs up at the sixth refusal of a login, and each wrong key is one. Some are left
for what a person types, who is let in on the same connection then.
"""

from __future__ import annotations

import base64
import binascii
import io
import logging
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization as form
from paramiko.agent import AgentSSH, get_agent_connection

from clew_gui.ssh.connection import Hop, SshFiles
from clew_gui.ssh.host_keys import public_key
from clew_gui.ssh.prompts import ANSWER_WITHIN_S, Prompt, Prompter, PromptKind, cancelled
from clew_shared.base import operating_system
from clew_shared.base.problem import ProblemError, os_refused, problem

_log = logging.getLogger(__name__)

MOST_KEYS = 4
"""The number of unnamed keys of the agent that are offered: with it a password may be wrong once."""
_MOST_REFUSALS = 5
"""The number of refused keys that leaves one attempt at a usual server."""
_AGENT_S = 5.0
"""Seconds for the agent to list its keys; one that hangs must not keep other keys from being tried."""
_TRIES = 3
"""How often a passphrase is asked for, as ``ssh`` does."""
_MAGIC = b"openssh-key-v1\0"


class Credential(msgspec.Struct, frozen=True):
    """One key to offer: what distinguishes it from others, in words for the route, how to have it, and whether it was
    asked for by name."""

    id: bytes
    words: str
    load: Callable[[], paramiko.PKey]
    named: bool


class SshKeyAgent(AgentSSH):
    """The SSH agent at ``address`` (see ``Hop.agent``) with a time limit: paramiko's own waits for ever if the agent
    does not answer."""

    def __init__(self, address: str = "") -> None:
        super().__init__()
        self._agent: Any = _agent_at(address) if address else get_agent_connection()
        if self._agent is None:
            return
        try:
            self._set_timeout(_AGENT_S)
            inner: Any = self
            inner._connect(self._agent)
            self._set_timeout(ANSWER_WITHIN_S)  # some ask the person before they sign
        except (paramiko.SSHException, OSError, ValueError) as error:  # a comment that is no UTF-8
            _log.debug("the agent does not answer: %s", error)

    def _set_timeout(self, seconds: float) -> None:
        with suppress(AttributeError):  # on Windows it is no socket
            self._agent.settimeout(seconds)

    def close(self) -> None:
        """Close it."""
        if self._agent is not None:
            self._agent.close()


def _agent_at(address: str) -> socket.socket | None:
    """Connects to an agent that the configuration names; None if none is there."""
    if address == "none":
        return None
    with suppress(OSError):
        return operating_system.connect_locally(Path(address).expanduser())
    return None


def credentials(
    hop: Hop, files: SshFiles, agent: Sequence[paramiko.AgentKey], asker: Prompter
) -> tuple[list[Credential], list[Credential]]:
    """The keys to offer, in order, none twice, and those of the agent that are kept back.

    The agent signs for a file whose key it holds: no passphrase then.
    """
    held = {key.asbytes(): key for key in agent}
    found: list[Credential] = []
    for name in hop.keys:
        public = public_part(Path(name), read_key_file(Path(name)))
        key = held.pop(public, None)
        found += _certified(hop, Path(name), public, key, asker)
        found.append(_from_agent(key, f"key {name}", True) if key else _from_file(Path(name), asker, True))
    if hop.identities_only:
        return found, []
    files_left = [] if hop.keys else default_keys(files, set(held))
    few = few_of(list(held.values()), files, len(found) + len(files_left))
    unasked = {id(key): _from_agent(key, f"agent key {key.comment}".rstrip(), False) for key in held.values()}
    found += [unasked.pop(id(key)) for key in few]
    found += [_from_file(path, asker, False) for path in files_left]
    return found, list(unasked.values())


def _certified(
    hop: Hop, path: Path, public: bytes, held: paramiko.AgentKey | None, asker: Prompter
) -> Iterator[Credential]:
    """The key with each certificate that is for it, of those that were named and the one beside it."""
    beside = path.expanduser().with_name(f"{path.name}-cert.pub")
    for certificate in dict.fromkeys([*(Path(one).expanduser() for one in hop.certificates), beside]):
        if public and certified_key(certificate) == public:
            load = partial(with_certificate, partial(_loaded, held, path, asker), certificate)
            yield Credential(public + bytes(certificate), f"key {path} with certificate {certificate}", load, True)


def _loaded(held: paramiko.AgentKey | None, path: Path, asker: Prompter) -> paramiko.PKey:
    """The key, as an object of its own: a certificate changes what it shows."""
    if held is None:
        return load_key(path, asker)
    return paramiko.AgentKey(held.agent, held.blob, held.comment)


def few_of(agent: Sequence[paramiko.AgentKey], files: SshFiles, others: int) -> list[paramiko.AgentKey]:
    """The keys of the agent to offer beside ``others``: those that lie under the usual names as well come first."""
    usual = [public_part(path, data) for path, data in _there(files)]
    ordered = sorted(agent, key=lambda key: key.asbytes() not in usual)
    return ordered[: max(0, min(MOST_KEYS, _MOST_REFUSALS - others))]


def default_keys(files: SshFiles, held: set[bytes]) -> list[Path]:
    """Returns the default keys that exist and that the agent does not hold; those that need a passphrase last."""
    wanted = [(path, data) for path, data in _there(files) if public_part(path, data) not in held]
    return [path for path, data in sorted(wanted, key=lambda pair: _known_of(*pair).encrypted)]


def _there(files: SshFiles) -> list[tuple[Path, bytes]]:
    return [(path, data) for path in files.default_keys if (data := _bytes(path))]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _from_agent(key: paramiko.AgentKey, words: str, named: bool) -> Credential:
    return Credential(key.asbytes(), f"{words} (agent)" if named else words, lambda: key, named)


def _from_file(path: Path, asker: Prompter, named: bool) -> Credential:
    return Credential(bytes(path), f"key {path}", lambda: load_key(path, asker), named)


# --- Opening a key ----------------------------------------------------------------------------------------------------


def load_key(path: Path, asker: Prompter) -> paramiko.PKey:
    """The key in a file; its passphrase is asked for when it has one. Raises ``ProblemError``."""
    data = read_key_file(path)
    kind = describe_key(data, str(path))
    if kind.type.startswith("sk-"):
        text = f"The key {path} is on a security key (FIDO), which only ssh-agent can ask to sign."
        raise problem("ssh.key", text, "Load it into ssh-agent: ssh-add KEY.", str(path))
    if not kind.encrypted:
        return _opened(path, data, None)
    again = ""
    for _ in range(_TRIES):
        text = f"Passphrase for the key {path}:"
        prompt = Prompt(kind=PromptKind.PASSPHRASE, title=str(path), text=text, again=again)
        passphrase = asker.ask(prompt)
        if passphrase is None:
            raise cancelled(str(path))
        try:
            return _opened(path, data, passphrase)
        except ProblemError:
            asker.refused(prompt)
            again = "That was not the passphrase."
    raise problem(
        "ssh.key", f"The passphrase of the key {path} was wrong.", "Log in again and type it again.", str(path)
    )


def _opened(path: Path, data: bytes, passphrase: str | None) -> paramiko.PKey:
    """paramiko reads OpenSSH's form of each kind of key, and not PKCS#8."""
    load = form.load_ssh_private_key if b"BEGIN OPENSSH" in data else form.load_pem_private_key
    try:
        key: Any = load(data, passphrase.encode() if passphrase is not None else None)
        text = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption()).decode()
        public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
        kinds = [kind for kind in paramiko.key_classes if public.split()[0].decode() in kind.identifiers()]
        return kinds[0].from_private_key(io.StringIO(text))
    except (paramiko.SSHException, ValueError, TypeError, IndexError, UnsupportedAlgorithm) as error:
        text = f"The key {path} cannot be opened."
        hint = "It may be damaged or in a format that Clew does not know; ssh-keygen -y -f KEY shows why."
        raise problem("ssh.key", text, hint, str(path)) from error


def with_certificate(load: Callable[[], paramiko.PKey], certificate: Path) -> paramiko.PKey:
    """The key that ``load`` gives, shown to servers with its certificate. Raises ``ProblemError`` as ``load``."""
    key = load()
    try:
        key.load_certificate(str(certificate))
    except (paramiko.SSHException, ValueError, IndexError, UnicodeError, OSError) as error:
        text = f"The certificate {certificate} cannot be read."
        raise problem("ssh.key", text, "Ask for it again where it was signed.", str(certificate)) from error
    return key


# --- Key files, without a passphrase ----------------------------------------------------------------------------------


class KeyFile(msgspec.Struct, frozen=True):
    """The facts about a private key file without opening it; ``type`` and ``public``, the public key's bytes, are empty
    where they cannot be read without the passphrase."""

    encrypted: bool
    type: str = ""
    public: bytes = b""


def describe_key(data: bytes, path: str) -> KeyFile:
    """Describes a key file in the form of OpenSSH (its PROTOCOL.key), PKCS#1 or PKCS#8. Raises ``ProblemError`` for
    what is no key."""
    head = data.lstrip()[:200]
    if head.startswith(b"PuTTY-User-Key-File"):
        text = f"{path} is a key in PuTTY's own format (.ppk), which SSH here cannot read."
        hint = (
            "In PuTTYgen: load it, then Conversions, Export OpenSSH key. Or: puttygen KEY.ppk -O private-openssh -o KEY"
        )
        raise problem("ssh.key.ppk", text, hint, path)
    if head.startswith((b"ssh-", b"ecdsa-", b"sk-", b"---- BEGIN SSH2 PUBLIC")):
        text = f"{path} is a public key; logging in needs the private one."
        hint = "It usually has the same name without .pub; or load it into ssh-agent, which then signs."
        raise problem("ssh.key", text, hint, path)
    if b"BEGIN OPENSSH PRIVATE KEY" in head:
        return _describe_openssh(data, path)
    if b"PRIVATE KEY-----" in head:
        return KeyFile(b"ENCRYPTED" in data[:400])
    raise problem("ssh.key", f"{path} is not a private key.", "Give the file that ssh-keygen made, without .pub.", path)


def _describe_openssh(data: bytes, path: str) -> KeyFile:
    """Strings with their length: cipher, key derivation, its options, number of keys, the public key."""
    try:
        body = base64.b64decode(b"".join(data.strip().splitlines()[1:-1]))
        if not body.startswith(_MAGIC):
            raise ValueError("no OpenSSH key")
        cipher, rest = _string(body[len(_MAGIC) :])
        _, rest = _string(rest)
        _, rest = _string(rest)
        public, _ = _string(rest[4:])
        key_type = _string(public)[0].decode()
    except (ValueError, struct.error, binascii.Error) as error:
        raise problem(
            "ssh.key", f"The key file {path} is damaged.", "Copy it again, or make another one.", path
        ) from error
    return KeyFile(cipher != b"none", key_type, public)


def _string(data: bytes) -> tuple[bytes, bytes]:
    (length,) = struct.unpack(">I", data[:4])
    if len(data) < 4 + length:
        raise ValueError("too short")
    return data[4 : 4 + length], data[4 + length :]


def read_key_file(path: Path) -> bytes:
    """The file's bytes. Raises ``ProblemError``."""
    hint = "Check its name, or make a key with ssh-keygen -t ed25519."
    with os_refused("ssh.key", f"The key {path} cannot be read", hint, str(path)):
        return path.expanduser().read_bytes()


def public_part(path: Path, data: bytes) -> bytes:
    """The public key's bytes, from the file itself or the ``.pub`` beside it; empty when neither has them."""
    public = public_key(data) or _known_of(path, data).public
    return public or public_key(_bytes(path.expanduser().with_name(f"{path.name}.pub")))


def _known_of(path: Path, data: bytes) -> KeyFile:
    """As ``describe_key``; of what is no key nothing is known."""
    try:
        return describe_key(data, str(path))
    except ProblemError:
        return KeyFile(False)


def certified_key(certificate: Path) -> bytes:
    """The public key for which a certificate was made; empty for what is none."""
    try:
        found = form.load_ssh_public_identity(certificate.read_bytes())
        if not isinstance(found, form.SSHCertificate):
            return b""
        return public_key(found.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH))
    except (OSError, ValueError, UnsupportedAlgorithm):
        return b""
