"""Consent to a site's own shell commands: they are shown in full, and a consent holds for exactly that text."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import tomli_w

from clew_gui.sites.site import Site
from clew_shared.base.foreign import from_toml, read_file
from clew_shared.base.places import Places
from clew_shared.base.private_files import make_private, write_private
from clew_shared.base.problem import os_refused

_PROLOGUE = "prologue"
_COMMAND = "proxy command"
_MAX_BYTES = 1 << 20


class OwnWords(msgspec.Struct, frozen=True):
    """A text that is run exactly as written: ``kind`` says where, ``text`` is all of it."""

    kind: str
    text: str

    @property
    def digest(self) -> str:
        """Returns the digest by which a consent is remembered."""
        return hashlib.sha256(f"{self.kind}\0{self.text}".encode()).hexdigest()


def words_of(site: Site, proxy_command: str = "") -> tuple[OwnWords, ...]:
    """Returns what in the site needs consent: its prologue, and the ProxyCommand that the SSH configuration has for
    it."""
    found = (OwnWords(_PROLOGUE, site.prologue), OwnWords(_COMMAND, proxy_command))
    return tuple(words for words in found if words.text.strip())


class Consents:
    """The texts that the user has approved, as digests in ``path``; a file that cannot be read holds none."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def missing(self, words: tuple[OwnWords, ...]) -> tuple[OwnWords, ...]:
        """Returns those of ``words`` that nobody has approved yet."""
        known = self._load()
        return tuple(one for one in words if one.digest not in known)

    def give(self, words: tuple[OwnWords, ...]) -> None:
        """Remember the user's consent. Raises ``ProblemError`` when the disk refuses."""
        self._save(self._load() | {one.digest: one.kind for one in words})

    def withdraw(self, words: tuple[OwnWords, ...]) -> None:
        """Forget the user's consent. Raises ``ProblemError`` when the disk refuses."""
        gone = {one.digest for one in words}
        self._save({digest: kind for digest, kind in self._load().items() if digest not in gone})

    def _save(self, known: dict[str, str]) -> None:
        text = f"The consent cannot be kept in {self._path}"
        with os_refused("consent.write", text, "Make room on that disk.", str(self._path)):
            make_private(self._path.parent)
            write_private(self._path, tomli_w.dumps({"consents": known}).encode())

    def _load(self) -> dict[str, str]:
        try:
            table = from_toml(read_file(self._path, _MAX_BYTES).decode())
            return msgspec.convert(table.get("consents", {}), dict[str, str])
        except ValueError:
            return {}


def consents(places: Places) -> Consents:
    """The consents of this user."""
    return Consents(places.config / "consents.toml")
