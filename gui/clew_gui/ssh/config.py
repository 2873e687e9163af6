"""Hosts of the user's SSH configuration: which there are, and what it says of one.

``ssh -G`` answers the second question where OpenSSH is installed; elsewhere paramiko's reader does, for Host, Include
and Match by host, user and the like. What only ``ssh`` can judge (`Match exec`) is named.
"""

from __future__ import annotations

import getpass
import glob
import hashlib
import os
import re
import shlex
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from clew_gui.base.checked_text import is_host
from clew_shared.base import operating_system
from clew_shared.base.foreign import open_regular

MAX_DEPTH = 16
"""OpenSSH's own limit for files that include others."""
_MAX_BYTES = 1 << 20
_COMMANDS = ("proxycommand", "localcommand", "remotecommand", "knownhostscommand")
"""Settings whose text goes on to the end of the line, with any ``#`` in it."""
_BEYOND = {
    "pkcs11provider": ("", "none"),
    "securitykeyprovider": ("", "internal", "$ssh_sk_provider"),
    "hostbasedauthentication": ("", "no"),
    "knownhostscommand": ("", "none"),
    "bindaddress": ("",),
    "bindinterface": ("",),
    "addressfamily": ("", "any"),
    "canonicalizehostname": ("", "no", "false", "none"),
    "proxyusefdpass": ("", "no"),
    "revokedhostkeys": ("", "none"),
}
"""Settings that Clew does not support, with the values that ask for nothing."""
_LIMIT_S = 10.0
"""The time limit for ``ssh -G``: a `Match exec` of the user's own may look something up in a network."""


class SshHost(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of ``name``; empty or 0 if it says nothing special.

    ``keys`` are paths of private keys and ``certificates`` of certificates for them, with all tokens replaced; ``jump``
    is the ProxyJump chain, the first hop first; for ``agent`` see ``Hop``. ``unsupported`` says what it asks for and
    Clew does not do, or cannot judge, as the end of a sentence.
    """

    name: str
    host: str = ""
    user: str = ""
    port: int = 0
    keys: tuple[str, ...] = ()
    identities_only: bool = False
    jump: tuple[str, ...] = ()
    proxy_command: str = ""
    host_key_alias: str = ""
    known_hosts: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()
    agent: str = ""
    unsupported: str = ""


class ConfigLine(msgspec.Struct, frozen=True):
    """One setting: its keyword in small letters and its arguments, and the text of these as it stood."""

    keyword: str
    arguments: tuple[str, ...]
    text: str


_BEGIN, _END = ConfigLine("<begin>", (), ""), ConfigLine("<end>", (), "")
"""Marks before and after the lines of an included file: a Host in it means nothing after it."""


# --- Reading ----------------------------------------------------------------------------------------------------------


_COMMENT = re.compile(r'((?:[^"#]|"[^"]*(?:"|$)|(?<=[^ \t])#)*).*', re.DOTALL)
"""A text, and in the group all before a word that begins with ``#``, unless that is quoted."""


def parse_line(line: str) -> ConfigLine | None:
    """A line of ssh_config(5); None for comments, empty lines and what cannot be read."""
    bare = line.strip()
    if not bare or bare.startswith("#"):
        return None
    keyword = re.split("[ \t=]", bare, maxsplit=1)[0]
    rest = re.sub("[ \t]*=?[ \t]*", "", bare[len(keyword) :], count=1)  # Port 22, Port=22 and Port = 22 are the same
    rest = rest if keyword.lower() in _COMMANDS else _COMMENT.sub(r"\1", rest).rstrip()
    try:
        arguments = tuple(shlex.split(rest, comments=False, posix=True)) if "\\" not in rest else tuple(rest.split())
    except ValueError:  # an open quote
        return None
    return ConfigLine(keyword.lower(), arguments, rest.strip()) if keyword else None


def read_lines(path: Path, depth: int = 0) -> Iterator[ConfigLine]:
    """The lines of a configuration with those of the files that it includes in their place."""
    if depth > MAX_DEPTH:
        return
    try:
        with open_regular(path) as file:
            text = file.read(_MAX_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return
    for raw in text.splitlines():
        line = parse_line(raw)
        if line is None:
            continue
        if line.keyword != "include":
            yield line
            continue
        for pattern in line.arguments:
            for found in _included(pattern, path):
                yield _BEGIN
                yield from read_lines(found, depth + 1)
                yield _END


def _included(pattern: str, path: Path) -> list[Path]:
    """The files that an Include names; relative ones lie in ``~/.ssh``, where the first file lies."""
    wanted = Path(os.path.expanduser(pattern))  # noqa: PTH111  # a user who is not there is no error here
    if not wanted.is_absolute():
        wanted = path.parent / wanted
    return [Path(name) for name in sorted(glob.glob(str(wanted)))]  # noqa: PTH207  # a pattern, not a folder and a pattern


def offered_hosts(path: Path) -> tuple[str, ...]:
    """The hosts that the configuration names one by one, in its order: no patterns, no negations, nothing odd."""
    names: dict[str, None] = {}
    for line in read_lines(path):
        if line.keyword == "host":
            names |= {name: None for name in line.arguments if is_host(name) and not name.startswith("-")}
    return tuple(names)


# --- What it says of one host -----------------------------------------------------------------------------------------


_WAYS = ("proxycommand", "proxyjump")
_KNOWN = ("userknownhostsfile", "globalknownhostsfile")
_ALSO_READ = ("hostname", "user", "port", "identitiesonly", "identityagent", "identityfile", "certificatefile")
_READ = frozenset((*_WAYS, *_KNOWN, *_BEYOND, *_ALSO_READ, "hostkeyalias"))
"""The settings that matter here."""
_JUDGED = ("host", "originalhost", "user", "localuser")
"""The conditions of Match that paramiko's reader knows, and that run nothing."""


def look_up(name: str, path: Path) -> SshHost:
    """Looks up ``name`` in the file with paramiko's reader. Unlike ``ssh``, that takes one CertificateFile, and lets a
    Match by host or user see also what is set after it."""
    import paramiko  # a tenth of a second

    text, unjudged = _in_one(path)
    reader = paramiko.SSHConfig.from_text(text)
    reader.TOKENS_BY_CONFIG_KEY = {}  # they are replaced here, as in the answer of ``ssh``
    try:
        found: dict[str, Any] = reader.lookup(name)
    except (OSError, KeyError, ImportError):  # as ``_account``; ``ssh`` refuses to work for such an account
        return SshHost(name=name, host=name, unsupported=f"this account has no name, so that {path} was not read")
    values: dict[str, list[ConfigLine]] = {}
    for keyword, value in found.items():  # in the order of the file: of ProxyCommand and ProxyJump the first counts
        other = _WAYS[1 - _WAYS.index(keyword)] if keyword in _WAYS else ""
        if other not in values or (other, values[other][0].text) == ("proxyjump", "none"):
            texts = value if isinstance(value, list) else [value or "none"]
            values[keyword] = [ConfigLine(keyword, tuple(text.split()), text) for text in texts]
    host = _host(name, values)
    return msgspec.structs.replace(host, unsupported=unjudged or host.unsupported)


def _in_one(path: Path) -> tuple[str, str]:
    """The settings of the file and of those that it includes, as one text for paramiko: each condition is a Match, in
    an included file together with the conditions around that. And what only ``ssh`` can judge, or nothing."""
    lines, unjudged = ["Match all"], ""
    around: list[tuple[str, ...] | None] = [()]
    here: tuple[str, ...] | None = ()
    judging = _BEGIN
    for line in read_lines(path):
        if line is _BEGIN:
            around.append(here)
        elif line is _END or line.keyword in ("host", "match"):
            own, outer = ((), around.pop()) if line is _END else (_condition(line), around[-1])
            here = None if own is None or outer is None else (*outer, *own)
            lines.append(f"Match {shlex.join(here) if here else 'all'}")
            judging = line if own is None else judging
        elif here is None and line.keyword in _READ:
            unjudged = unjudged or f"{path} has `Match {judging.text}`, which only ssh itself can judge"
        elif line.keyword == "canonicalizehostname":  # paramiko would ask for names
            if line.text.lower() not in _BEYOND[line.keyword]:
                unjudged = unjudged or f"{path} has `CanonicalizeHostname {line.text}`, which only ssh does"
        elif here is not None and line.keyword in _READ and line.text:
            lines.append(f"{line.keyword} {line.text}")
    return "\n".join(lines), unjudged


def _condition(line: ConfigLine) -> tuple[str, ...] | None:
    """A Host or Match line as words of a Match; None if only ``ssh`` can judge it."""
    words = [word.replace("[", "[[]") for word in line.arguments]  # for paramiko it begins a set of letters
    if line.keyword == "host":
        return ("originalhost", ",".join(words))
    if [word.lower() for word in words] == ["all"]:
        return ()
    kinds = [word.lower() for word in words[::2]]
    if len(words) % 2 or not kinds or any(kind.removeprefix("!") not in _JUDGED for kind in kinds):
        return None
    return tuple(word for pair in zip(kinds, words[1::2], strict=True) for word in pair)


def parse_ssh_g(name: str, text: str) -> SshHost:
    """The output of ``ssh -G``. OpenSSH writes its defaults as well; what is only a default is left out."""
    values: dict[str, list[ConfigLine]] = {}
    for raw in text.splitlines():
        keyword, _, rest = raw.strip().partition(" ")
        if keyword and rest:
            values.setdefault(keyword.lower(), []).append(ConfigLine(keyword.lower(), tuple(rest.split()), rest))
    found = _host(name, values)
    return msgspec.structs.replace(found, port=0 if found.port == 22 else found.port)


def _host(name: str, values: Mapping[str, Sequence[ConfigLine]]) -> SshHost:
    def first(keyword: str) -> str:
        return values[keyword][0].text.strip('"') if keyword in values else ""

    def paths(keyword: str) -> tuple[str, ...]:
        texts = (line.text.strip('"') for line in values.get(keyword, ()))
        return tuple(replaced(text) for text in texts if text.lower() != "none")

    jump = first("proxyjump")
    command = first("proxycommand")
    port = first("port")
    number = int(port) if port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 65536 else 0
    host = first("hostname").replace("%h", name).replace("%%", "%") or name
    tokens = _tokens(name, host, number or 22, first("user") or _account(), first("hostkeyalias"), jump)
    replaced = partial(_replaced, tokens=tokens)
    files = (values.get(keyword, ())[:1] for keyword in _KNOWN)
    known = (word for lines in files for line in lines for word in line.arguments)
    return SshHost(
        name=name,
        host=host,
        user=first("user"),
        port=number,
        keys=paths("identityfile"),
        identities_only=first("identitiesonly").lower() == "yes",
        jump=tuple(jump.split(",")) if jump and jump.lower() != "none" else (),
        proxy_command=command if command.lower() != "none" else "",
        host_key_alias=first("hostkeyalias"),
        known_hosts=tuple(replaced(word) for word in known),
        certificates=paths("certificatefile"),
        agent=_agent(replaced(first("identityagent"))),
        unsupported=next((_beyond(one, first(one)) for one in _BEYOND if first(one).lower() not in _BEYOND[one]), ""),
    )


def _agent(value: str) -> str:
    if value.startswith("$"):
        return os.environ.get(value[1:], "none")
    usual = value == "SSH_AUTH_SOCK" or not (operating_system.HAS_UNIX_SOCKETS or value == "none")
    return "" if usual else value


def _beyond(keyword: str, value: str) -> str:
    return f"the SSH configuration sets {keyword} {value}, which Clew does not do"


def _account() -> str:
    """The name of this account; empty if it has none, as in some containers."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # before Python 3.13 a KeyError, on Windows an ImportError
        return ""


def _tokens(name: str, host: str, port: int, user: str, alias: str, jump: str) -> dict[str, str]:
    """Returns the values of ``%`` and a letter in file names (ssh_config(5), TOKENS)."""
    local = socket.gethostname()
    tokens = {"%": "%", "d": str(Path.home()), "h": host, "n": name, "p": str(port), "r": user, "j": jump}
    tokens |= {"u": _account(), "i": operating_system.user_id(), "k": alias or name}
    tokens |= {"l": local, "L": local.partition(".")[0]}
    joined = f"{local}{host}{port}{user}{jump}"
    return tokens | {"C": hashlib.sha1(joined.encode(), usedforsecurity=False).hexdigest()}


_TOKEN = re.compile(r"%(.)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def _replaced(text: str, tokens: Mapping[str, str]) -> str:
    """The text with tokens and ``${VARIABLE}`` replaced; what is unknown stays, so that it can be named."""

    def value(found: re.Match[str]) -> str:
        return tokens.get(found[1], found[0]) if found[1] else os.environ.get(found[2], found[0])

    return _TOKEN.sub(value, text)


def run_ssh(command: Sequence[str]) -> str | None:
    """The output of ``ssh`` of this computer, which asks nothing and has a time limit; None when it is not there or
    fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    return done.stdout if done.returncode == 0 else None


def resolve(name: str, path: Path | None = None) -> SshHost:
    """Returns the configuration of ``name``: from ``ssh -G``, else from paramiko's reader.

    ``path`` names another file than the user's own. A name that is no host's is given back as it is.
    """
    if not is_host(name):
        return SshHost(name=name, host=name)
    other = ["-F", str(path)] if path is not None else []
    answer = run_ssh(["ssh", *other, "-G", "--", name])
    return parse_ssh_g(name, answer) if answer else look_up(name, path or user_config())


def user_config() -> Path:
    """The user's own configuration."""
    return Path.home() / ".ssh" / "config"
