"""Checks what a site's fields contain: the forms of names, hosts and paths, each with a sentence that describes it.

Whatever passes here goes into job scripts and command lines; nothing that passes can end a line or begin a command.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from clew_shared.base.problem import Problem

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,127}")
_NAMES = re.compile(rf"{_NAME.pattern}(,{_NAME.pattern})*")
_FEATURES = re.compile(r"[A-Za-z0-9_.,:=&|*()\[\]+-]{1,200}")
_MODULE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+/@=-]{0,199}")
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_IPV6 = re.compile(r"[0-9A-Fa-f:]{2,39}(%[A-Za-z0-9_.-]{1,15})?|[0-9A-Fa-f:]{2,30}(\.[0-9]{1,3}){3}")
_ADDRESS = re.compile(
    r"(?:ssh://)?(?:(\S+)@)?(?:\[([^\[\]\s]+)\]|([^@:\[\]\s]+|[^@:\[\]\s]*(?::[^@:\[\]\s]*){2,}))(?::0*([1-9][0-9]{0,4}))?"
)
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+\\-]{0,63}\$?")
_LONGEST_ADDRESS = 400
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}=?|MD5(:[0-9a-f]{2}){16}|([0-9a-f]{2}:){15}[0-9a-f]{2}")


def is_name(text: str) -> bool:
    """A partition, queue, account, reservation or QOS."""
    return _NAME.fullmatch(text) is not None


def are_names(text: str) -> bool:
    """Whether the text is one or several such names with commas between them."""
    return _NAMES.fullmatch(text) is not None


def are_features(text: str) -> bool:
    """Features of nodes, with Slurm's signs between them (``k80&ib``) or the colons of PBS."""
    return _FEATURES.fullmatch(text) is not None and not text.startswith("-")


def is_module(text: str) -> bool:
    """A module's name such as ``cuda/11.8`` or ``Python/3.11.3-GCCcore-12.3.0``."""
    return _MODULE.fullmatch(text) is not None and ".." not in text


def is_host(text: str) -> bool:
    """A host name, an IPv4 or IPv6 address (without brackets) or a short name of the SSH configuration."""
    if ":" in text:
        return _IPV6.fullmatch(text) is not None
    return 0 < len(text) <= 253 and all(_LABEL.fullmatch(part) for part in text.removesuffix(".").split("."))


def is_user(text: str) -> bool:
    """A user's name on a Unix machine, with a domain where the site has such names."""
    return _USER.fullmatch(text) is not None


def is_fingerprint(text: str) -> bool:
    """A host key's fingerprint as ``ssh`` prints it."""
    return _FINGERPRINT.fullmatch(text) is not None


def split_address(text: str) -> tuple[str, str, int] | None:
    """Returns user (may be empty), host and port (0: not given) of ``[ssh://][user@]host[:port]``; None if it is none.
    An IPv6 address may be in brackets, and with a port it must be."""
    found = _ADDRESS.fullmatch(text.strip()) if len(text) <= _LONGEST_ADDRESS else None
    user, bracketed, host, port = found.groups("") if found is not None else ("", "", "", "")
    host, number = bracketed or host, int(port or "0")
    return (user, host, number) if is_host(host) and (not user or is_user(user)) and number < 65536 else None


def is_address(text: str) -> bool:
    """Whether ``split_address`` can read the text."""
    return split_address(text) is not None


def join_address(user: str, host: str, port: int) -> str:
    """Returns the text from which ``split_address`` reads these."""
    end = f"[{host}]" if port and ":" in host else host
    return f"{f'{user}@' if user else ''}{end}{f':{port}' if port else ''}"


def is_remote_path(text: str) -> bool:
    """A path on the site: absolute, or below the home folder with ``~/``; one line, without a step up."""
    return (
        len(text) <= 1024
        and (text.startswith(("/", "~/")) or text == "~")
        and text.isprintable()
        and ".." not in text.split("/")
    )


def is_local_path(text: str) -> bool:
    """A path on this computer, on one line."""
    return 0 < len(text) <= 1024 and text.isprintable()


FORMS: dict[str, tuple[Callable[[str], bool], str]] = {
    "name": (is_name, "only letters, digits and . _ - + @ are allowed, no blanks"),
    "names": (are_names, "only letters, digits and . _ - + @ are allowed, with commas between several, no blanks"),
    "features": (are_features, "only letters, digits and . _ - , : & | * ( ) [ ] are allowed, no blanks"),
    "module": (is_module, "a module's name looks like cuda/11.8: letters, digits and . _ - + / @ ="),
    "host": (is_host, "a host looks like login.example.org, 10.0.0.7, fd00::7 or the name of one in ~/.ssh/config"),
    "user": (is_user, "a user's name has letters, digits and . _ - +, no blanks"),
    "jump": (is_address, "a hop looks like gate.example.org, user@gate, gate:2222 or user@[fd00::7]:2222"),
    "fingerprint": (is_fingerprint, "a fingerprint looks like SHA256: and 43 more characters, as ssh prints it"),
    "remote path": (is_remote_path, "a path on the site begins with / or ~/, is on one line and has no .. in it"),
    "local path": (is_local_path, "a path is on one line"),
}
"""The check of each form, and what it accepts in words."""


def check_form(form: str, value: str, where: str, label: str) -> list[Problem]:
    """The problem with a text that does not have the form; none for an empty text, which means that the field is not
    set."""
    accepts, words = FORMS[form]
    if not value or accepts(value):
        return []
    return [Problem("site.form", f"{label} cannot be {_shown(value)}: {words}.", where=where)]


def _shown(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:57] + "…")
