"""Finds everything that is wrong with a site at once, each problem with the field it concerns and what to write
instead."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

import msgspec

from clew_gui.base.checked_text import check_form
from clew_gui.schedulers.allocation import check_allocation
from clew_gui.schedulers.job import check_directive, check_prologue, is_gres
from clew_gui.schedulers.registry import scheduler_of
from clew_gui.sites.site import LOCAL, SITE_FORMAT, Site, title_of
from clew_shared.base.file_names import why_unsafe
from clew_shared.base.problem import Problem

MAX_TEXT = 4000
MAX_ENTRIES = 64
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_FORMS = {
    "host": ("host", "The host"),
    "user": ("user", "The user"),
    "key": ("local path", "The key file"),
    "python": ("remote path", "The Python"),
    "venv": ("remote path", "The virtual environment"),
    "data": ("remote path", "The data folder"),
    "scratch": ("remote path", "The scratch folder"),
    "jump": ("jump", "A hop"),
    "fingerprints": ("fingerprint", "A fingerprint"),
    "modules": ("module", "A module"),
}

# --- Secrets ----------------------------------------------------------------------------------------------------------

SECRET_FIELD = re.compile(
    r"pass?w|passphrase|secret|token|credential|otp|api_?key|private_?key|one_?time", re.IGNORECASE
)
_ASSIGNED = re.compile(
    r"(?i)\b[A-Z0-9_]*(password|passwd|passphrase|secret|api_?key|access_?key|token|credential)s?[A-Z0-9_]*"
    r"\s*[=:]\s*[\"']?(?!\$|<|/|~)[^\s\"'<$]{4,}"
)
_KEY_BLOCK = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}(PRIVATE KEY|CERTIFICATE)|PuTTY-User-Key-File|\bAKIA[0-9A-Z]{16}\b")
_NO_SECRETS = "A site file is shared with others and must not contain secrets."


def secret_field(name: str) -> Problem:
    """The refusal of a field that seems to hold a secret."""
    hint = "Remove it. Clew asks for passwords and codes when they are needed; `key` names a key's file."
    return Problem("site.secret", f"{_NO_SECRETS} The field {name!r} looks like one.", hint, name)


def check_secrets(name: str, text: str) -> list[Problem]:
    """The refusal of a text that has a key, a password or the like in it."""
    if _KEY_BLOCK.search(text):
        words = f"{_NO_SECRETS} The field {name!r} has a key in it."
        return [Problem("site.secret", words, "Name the key's file in `key` instead.", name)]
    match = _ASSIGNED.search(text)
    if match is not None:
        words = f"{_NO_SECRETS} The field {name!r} seems to set one ({match[1]})."
        return [Problem("site.secret", words, "Read it from a file on the site that only you can read.", name)]
    if name in ("host", "jump") and re.search(r"[^@:]+:[^@]+@", text.removeprefix("ssh://")):
        words = f"{_NO_SECRETS} The field {name!r} has a password before the @."
        return [Problem("site.secret", words, "Write user@host; Clew asks for the password.", name)]
    return []


# --- The whole site ---------------------------------------------------------------------------------------------------


def check_name(name: str) -> list[Problem]:
    """The problem with a site's name, which is its file's name as well."""
    if name == LOCAL:
        text = f"{LOCAL!r} always means this computer."
        return [Problem("site.name", text, "Choose another name.", "name")]
    why = why_unsafe(name)
    if _NAME.fullmatch(name) and not why:
        return []
    if _NAME.fullmatch(name):
        return [Problem("site.name", f"A site cannot be called {name!r}: {why}.", "Choose another name.", "name")]
    hint = "Up to 40 small letters, digits, - and _, beginning with a letter or digit."
    return [Problem("site.name", f"A site cannot be called {name[:60]!r}.", hint, "name")]


def check_title(name: str, site: Site, known: Mapping[str, Site | None]) -> list[Problem]:
    """Returns a problem if another one of the ``known`` sites has this title. A site may keep its present title."""
    wanted = title_of(name, site).casefold()
    if name in known and title_of(name, known[name]).casefold() == wanted:
        return []
    for other, found in known.items():
        if other != name and title_of(other, found).casefold() == wanted:
            text = f"The site {other} is shown as {title_of(other, found)!r} already."
            return [Problem("site.title", text, "Choose another title.", "title")]
    return []


def with_free_title(name: str, site: Site, known: Mapping[str, Site | None]) -> Site:
    """The site with its name after the title where another site has that title: a file from a teacher may be added
    twice."""
    if not site.title or not check_title(name, site, known):
        return site
    return msgspec.structs.replace(site, title=f"{site.title} ({name})")


def check_site(site: Site) -> list[Problem]:
    """Returns everything that is wrong with the site."""
    found: list[Problem] = []
    if site.format != SITE_FORMAT:
        text = f"The site has format {site.format}; this version reads format {SITE_FORMAT}."
        found.append(Problem("site.format", text, "A newer Clew may have written it.", "format"))
    found += _check_forms(site) + _check_way(site) + _check_words(site)
    if site.gres and not is_gres(site.gres):
        text = f"The GPU resource cannot be {site.gres[:40]!r}."
        found.append(Problem("site.gres", text, "Write gpu, gpu:tesla or what `sinfo -o %G` shows.", "gres"))
    found += check_prologue(site.prologue) + check_allocation(site.allocation, "allocation.")
    return found + _check_secrets(site)


def _check_forms(site: Site) -> list[Problem]:
    found: list[Problem] = []
    for name, (form, label) in _FORMS.items():
        found += [problem for text in _texts(site, name) for problem in check_form(form, text, name, label)]
    directives = scheduler_of(site.scheduler).directives
    found += [problem for line in site.extra for problem in check_directive(line, directives)]
    for name in ("jump", "fingerprints", "modules", "extra"):
        if "" in (texts := _texts(site, name)) and name in _FORMS:
            found.append(Problem("site.form", f"{_FORMS[name][1]} cannot be empty.", where=name))
        if len(texts) > MAX_ENTRIES:
            text = f"{name} has {len(texts)} entries; {MAX_ENTRIES} are allowed."
            found.append(Problem("site.form", text, where=name))
    return found


def _texts(site: Site, name: str) -> tuple[str, ...]:
    """The texts in a field, which may have several."""
    value: str | tuple[str, ...] = getattr(site, name)
    return (value,) if isinstance(value, str) else value


def _check_way(site: Site) -> list[Problem]:
    """Checks the fields for the route to the host, and those that make no sense without a host."""
    found = []
    if not 0 <= site.port <= 65535:
        found.append(Problem("site.port", f"A port is a number from 1 to 65535, got {site.port}.", where="port"))
    if site.ports and (len(site.ports) != 2 or not 1024 <= site.ports[0] <= site.ports[-1] <= 65535):
        shown = ", ".join(str(port) for port in site.ports[:4])
        hint = "Write the first and the last, such as [40000, 40999], both from 1024 to 65535."
        found.append(Problem("site.ports", f"[{shown}] is not a range of ports.", hint, "ports"))
    if scheduler_of(site.scheduler).has_queue and not site.host:
        text = f"The scheduler {site.scheduler} needs a host, but the site names none."
        found.append(Problem("site.host", text, 'Name the login node: host = "login.example.org".', "host"))
    if not site.host and (site.jump or site.user or site.port):
        found.append(
            Problem("site.host", "The site names a user, a port or a jump, but no host.", "Name the host.", "host")
        )
    return found


def _check_words(site: Site) -> list[Problem]:
    """Texts for people, and paths that would be surprising."""
    found = []
    for name in ("title", "note"):
        text: str = getattr(site, name)
        if len(text) > MAX_TEXT or any(not char.isprintable() and char not in "\n\t" for char in text):
            words = f"The {name} is too long, or contains invisible characters."
            found.append(Problem("site.form", words, f"{MAX_TEXT} characters are allowed.", name))
    if site.key.endswith(".pub"):
        hint = f"The private key is most likely {site.key.removesuffix('.pub')}."
        found.append(Problem("site.key", f"{site.key} is a public key.", hint, "key"))
    if site.scratch and PurePosixPath(site.scratch) == PurePosixPath("/"):
        found.append(Problem("site.form", "Runs cannot be kept in the root folder.", "Name a folder.", "scratch"))
    return found


def _check_secrets(site: Site) -> list[Problem]:
    names = ("title", "note", "prologue", "host", "user", "key", "jump", "extra", "modules")
    return [problem for name in names for text in _texts(site, name) for problem in check_secrets(name, text)]
