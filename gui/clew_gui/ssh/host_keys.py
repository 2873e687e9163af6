"""Reads OpenSSH's known_hosts files, which say what server keys are known.

paramiko's own reader gives the whole file up at a line that it does not know. Here such a line is passed over.
``read_known``, ``check_host_key`` and ``vouches`` are pure but for the clock. Accepted keys are added to Clew's own
file; no other file is ever written.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import os
import time
from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path

import msgspec

from clew_gui.ssh.connection import Hop, SshFiles
from clew_gui.ssh.prompts import Prompt, Prompter, PromptKind, cancelled
from clew_shared.base.private_files import make_private
from clew_shared.base.problem import ProblemError, problem

SSH_PORT = 22

_SHA1 = b"\0\0\0\7ssh-rsa"
"""How a signature begins that was made with SHA-1, which OpenSSH does not take either."""


class HostKey(msgspec.Struct, frozen=True):
    """A server's public key: the type's name ("ssh-ed25519") and the bytes."""

    type: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """Returns the fingerprint as OpenSSH prints it: "SHA256:…"."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")


class KnownLine(msgspec.Struct, frozen=True):
    """One readable line of a known_hosts file."""

    patterns: tuple[str, ...]
    key: HostKey
    marker: str = ""
    place: str = ""


class HostKeyVerdict(Enum):
    """The judgement of a server's key by the known keys."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


def read_known(text: str, file: str = "") -> list[KnownLine]:
    """The lines of a known_hosts file that can be read."""
    lines = (_read_line(line, f"{file}:{number}") for number, line in enumerate(text.splitlines(), 1))
    return [line for line in lines if line is not None]


def _read_line(line: str, place: str) -> KnownLine | None:
    fields = line.split()
    marker = fields.pop(0) if fields and fields[0].startswith("@") else ""
    if len(fields) < 3 or fields[0].startswith("#"):
        return None
    blob = public_key(" ".join(fields[1:3]).encode(errors="replace"))
    return KnownLine(tuple(fields[0].split(",")), HostKey(fields[1], blob), marker, place) if blob else None


def public_key(line: bytes) -> bytes:
    """The bytes of the key in a line that begins with its type; empty when it is none."""
    try:
        name, text = line.split()[:2]
        blob = base64.b64decode(text, validate=True)
    except ValueError:
        return b""
    return blob if blob.startswith(len(name).to_bytes(4, "big") + name) else b""  # they begin with the type's own name


def lookup_name(host: str, port: int = SSH_PORT) -> str:
    """A host as known_hosts files have it: with brackets and port unless the port is 22."""
    return host.lower() if port == SSH_PORT else f"[{host.lower()}]:{port}"


def matches(patterns: Sequence[str], name: str) -> bool:
    """Whether a line is about ``name``: plain, hashed, with ``*`` and ``?``, or ruled out by a pattern with ``!``."""
    if any(_same(pattern[1:], name) for pattern in patterns if pattern.startswith("!")):
        return False
    return any(_same(pattern, name) for pattern in patterns if not pattern.startswith("!"))


def _same(pattern: str, name: str) -> bool:
    if pattern.startswith("|1|"):
        return _hashed(pattern, name)
    # fnmatch knows sets in brackets, OpenSSH does not: there "[host]:2222" is a name.
    return fnmatch.fnmatchcase(name, pattern.lower().replace("[", "[[]"))


def _hashed(pattern: str, name: str) -> bool:
    try:
        _, _, salt, digest = pattern.split("|")
        made = hmac.new(base64.b64decode(salt), name.encode(), hashlib.sha1).digest()
        return hmac.compare_digest(made, base64.b64decode(digest))
    except (binascii.Error, ValueError):
        return False


def keys_of(lines: Iterable[KnownLine], name: str) -> list[KnownLine]:
    """The plain lines about ``name``: no authorities, no revoked keys."""
    return [line for line in lines if not line.marker and matches(line.patterns, name)]


def check_host_key(lines: Sequence[KnownLine], name: str, key: HostKey) -> HostKeyVerdict:
    """Judges ``key`` as ``name``'s. As in OpenSSH, a host with another known key, of any type, has changed."""
    if any(line.marker == "@revoked" and line.key == key and matches(line.patterns, name) for line in lines):
        return HostKeyVerdict.REVOKED
    known = keys_of(lines, name)
    if any(line.key == key for line in known):
        return HostKeyVerdict.KNOWN
    return HostKeyVerdict.CHANGED if known else HostKeyVerdict.UNKNOWN


def vouches(authorities: Sequence[bytes], certificate: bytes, host: str) -> bool:
    """Whether ``certificate`` is that of a server named ``host``, valid now, without conditions, and signed by one of
    the keys ``authorities`` (PROTOCOL.certkeys of OpenSSH). The server has shown already that it has its key."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm  # with paramiko, a tenth of a second
    from cryptography.hazmat.primitives import serialization as form

    kind = certificate[4 : 4 + int.from_bytes(certificate[:4], "big")]
    try:
        found = form.load_ssh_public_identity(kind + b" " + base64.b64encode(certificate))
        if not isinstance(found, form.SSHCertificate):
            return False
        found.verify_cert_signature()
        signer = found.signature_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    except (ValueError, InvalidSignature, UnsupportedAlgorithm):
        return False
    sha1 = certificate.rfind(_SHA1) + len(_SHA1)
    if certificate[sha1:][:4] == (len(certificate) - sha1 - 4).to_bytes(4, "big"):  # its last field: the signature
        return False
    return (
        base64.b64decode(signer.split()[1]) in authorities
        and found.type is form.SSHCertificateType.HOST
        and host.encode() in found.valid_principals
        and found.valid_after <= time.time() < found.valid_before
        and not found.critical_options
    )


# --- The files, the question, the refusals --------------------------------------------------------------------------


class HostKeys:
    """The known keys for one hop, and what happens with a key that is not among them."""

    def __init__(self, hop: Hop, files: SshFiles) -> None:
        self._hop = hop
        self._own = files.known_hosts
        self._paths = [files.known_hosts, *map(Path, hop.known_hosts), *files.also_known]
        self._name = lookup_name(hop.host_key_alias) if hop.host_key_alias else lookup_name(hop.host, hop.port)
        self._bare = lookup_name(hop.host_key_alias or hop.host)
        """The name without the port: as in OpenSSH, a key that is known by it is known at each port."""

    def known_types(self) -> list[str]:
        """The types of the keys that are known: the server is asked for one of these."""
        return list(dict.fromkeys(line.key.type for line in self.known_lines()))

    def known_lines(self) -> list[KnownLine]:
        """Returns the known lines of this host."""
        lines = self._lines()
        return keys_of(lines, self._name) or keys_of(lines, self._bare)

    def has_authority(self) -> bool:
        """Whether a certificate authority for this host is known."""
        return bool(self._authorities(self._lines()))

    def check(self, key: HostKey, prompter: Prompter, certificate: bytes = b"") -> None:
        """Return when the key is known, a known authority vouches for it in ``certificate``, or the person says that it
        is right; it is known from then on.

        Raises ``ProblemError`` when it changed, was revoked or was not accepted. Nothing may be sent before.
        """
        lines = self._lines()
        verdict = check_host_key(lines, self._name, key)
        bare = check_host_key(lines, self._bare, key)
        if verdict is HostKeyVerdict.UNKNOWN and bare is not HostKeyVerdict.CHANGED:
            verdict = bare
        if verdict is HostKeyVerdict.REVOKED:
            raise revoked(self._hop, key.fingerprint)
        authorities = self._authorities(lines)
        if certificate and vouches(authorities, certificate, (self._hop.host_key_alias or self._hop.host).lower()):
            return
        if verdict is HostKeyVerdict.CHANGED:
            raise changed(self._hop, self.known_lines(), key)
        if verdict is HostKeyVerdict.UNKNOWN:
            answer = prompter.ask(question(self._hop, key.type, key.fingerprint, bool(authorities)))
            if answer is None:
                raise cancelled(self._hop.title)
            if answer.strip().lower() != "yes" and answer.strip() != key.fingerprint:
                raise not_accepted(self._hop, key.fingerprint)
            self._remember(key)

    def _authorities(self, lines: Sequence[KnownLine]) -> list[bytes]:
        """The keys of the authorities that may vouch for this host."""
        mine = [line for line in lines if any(matches(line.patterns, name) for name in (self._name, self._bare))]
        withdrawn = [line.key for line in mine if line.marker == "@revoked"]
        return [line.key.blob for line in mine if line.marker == "@cert-authority" and line.key not in withdrawn]

    def _lines(self) -> list[KnownLine]:
        return [line for path in self._paths for line in read_known(_text(path), str(path))]

    def _remember(self, key: HostKey) -> None:
        make_private(self._own.parent)
        before = _text(self._own)
        begin = "" if not before or before.endswith("\n") else "\n"
        line = f"{begin}{self._name} {key.type} {base64.b64encode(key.blob).decode()}\n"
        handle = os.open(self._own, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(handle, "ab") as file:
            file.write(line.encode())


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def question(hop: Hop, key_type: str, fingerprint: str, by_authority: bool = False) -> Prompt:
    """Whether a server that was never seen is the right one. ``by_authority``: it should have had a certificate."""
    at = f"{hop.host}, port {hop.port}" if hop.port != SSH_PORT else hop.host
    details = [f"The server at {at} has not been seen from here before.", f"Its {key_type} key has the fingerprint:"]
    details.append(fingerprint)
    if fingerprint in hop.fingerprints:
        details.append("This is one of the fingerprints in the site's settings.")
    elif hop.fingerprints:
        details += ["It is NOT among those in the site's settings:", *hop.fingerprints]
    if by_authority:
        details.append("A certificate authority is known for it, but it shows no valid certificate of that one.")
    text = "Compare it with the one that the site publishes. Is it the same?"
    return Prompt(kind=PromptKind.CONFIRM, title=hop.title, text=text, echo=True, details=tuple(details))


def changed(hop: Hop, known: Sequence[KnownLine], now: HostKey) -> ProblemError:
    """Returns the error for a server that shows another key than before."""
    before = next((line.key for line in known if line.key.type == now.type), known[0].key)
    text = (
        f"The server {hop.name or hop.host} shows a different key than before: known is {before.fingerprint}, "
        f"it shows {now.fingerprint}. Someone may be intercepting the connection; nothing was sent."
    )
    place = known[0].place
    hint = f"Ask the site whether its key has changed. If so, remove the old one ({place}) and compare the new one."
    return problem("ssh.hostkey.changed", text, hint, hop.title)


def revoked(hop: Hop, fingerprint: str) -> ProblemError:
    """The key is marked as one that nobody may trust any more."""
    text = f"The key that {hop.name or hop.host} shows ({fingerprint}) is marked as revoked; nothing was sent."
    return problem("ssh.hostkey.revoked", text, "Ask the site.", hop.title)


def not_accepted(hop: Hop, fingerprint: str) -> ProblemError:
    """The person said no."""
    text = f"The key of {hop.name or hop.host} ({fingerprint}) was not accepted, so nothing was sent."
    hint = "Ask the site for the fingerprint of its key and compare again."
    return problem("ssh.hostkey.refused", text, hint, hop.title)
