"""Private key files: what kind a file is, its public key and certificate. No passphrase is needed for that."""

from __future__ import annotations

import base64
import binascii
import struct
from pathlib import Path

import msgspec

from clew_shared.base.problem import ProblemError, problem

_MAGIC = b"openssh-key-v1\0"


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
    try:
        return path.expanduser().read_bytes()
    except OSError as error:
        text = f"The key {path} cannot be read: {error.strerror}."
        raise problem(
            "ssh.key", text, "Check its name, or make a key with ssh-keygen -t ed25519.", str(path)
        ) from error


def _public_line(data: bytes) -> bytes:
    """The bytes of the key in a ``.pub`` file; empty when it is none."""
    try:
        name, blob = data.split()[:2]
        key = base64.b64decode(blob, validate=True)
    except (ValueError, binascii.Error):
        return b""
    return key if key.startswith(struct.pack(">I", len(name)) + name) else b""


def public_part(path: Path, data: bytes) -> bytes:
    """The public key's bytes, from the file itself or the ``.pub`` beside it; empty when neither has them."""
    if public := _public_line(data):
        return public
    try:
        if public := describe_key(data, str(path)).public:
            return public
    except ProblemError:
        pass
    try:
        return _public_line(path.expanduser().with_name(f"{path.name}.pub").read_bytes())
    except OSError:
        return b""


def is_encrypted(path: Path, data: bytes) -> bool:
    """Whether it takes a passphrase; no for what is no key."""
    try:
        return describe_key(data, str(path)).encrypted
    except ProblemError:
        return False


_CERTIFICATE = "-cert-v01@openssh.com"
_PUBLIC_PARTS = {"ssh-ed25519": 1, "ssh-rsa": 2}
"""The number of strings after the type in a public key; a curve's has its name and a point."""


def certified_key(certificate: Path) -> bytes:
    """The public key for which a certificate was made (PROTOCOL.certkeys of OpenSSH); empty for what is none."""
    try:
        blob = _public_line(certificate.read_bytes())
        kind, rest = _string(blob)
        base = kind.decode().removesuffix(_CERTIFICATE)
        if not kind.decode().endswith(_CERTIFICATE):
            return b""
        _, rest = _string(rest)  # a nonce
        before = rest
        for _ in range(_PUBLIC_PARTS.get(base, 2)):
            _, rest = _string(rest)
    except (OSError, ValueError, struct.error):
        return b""
    return struct.pack(">I", len(base)) + base.encode() + before[: len(before) - len(rest)]
