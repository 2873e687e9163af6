"""The user's sites: one TOML file each, below the settings' folder.

The administrator of a computer can have sites known to all its users; a user's own site of the same name goes first.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec
import platformdirs

from clew_gui.sites.check import check_name, check_site
from clew_gui.sites.presets import THIS_COMPUTER
from clew_gui.sites.site import LOCAL, Site
from clew_gui.sites.site_file import read_site, to_toml
from clew_shared.base.places import Places
from clew_shared.base.private_files import make_private, write_private
from clew_shared.base.problem import Problem, ProblemError, did_you_mean, os_refused, problem, raise_all
from clew_shared.base.remedies import list_all, turn_on


class NamedSite(msgspec.Struct, frozen=True):
    """A site's name, and the site, or why its file cannot be used."""

    name: str
    site: Site | None
    problems: tuple[Problem, ...] = ()


class SiteStore:
    """The files in ``folder``, then those in ``common``, which are only read. This computer is always among the sites
    and has no file."""

    def __init__(self, folder: Path, common: tuple[Path, ...] = ()) -> None:
        self.folder = folder
        self.common = common

    def path(self, name: str) -> Path:
        """The file of the site ``name``; where it would be kept when there is none.

        Raises ``ProblemError`` for what cannot be a site's name.
        """
        own = self._own(name)
        there = (folder / own.name for folder in self.common)
        return own if own.exists() else next((path for path in there if path.exists()), own)

    def _own(self, name: str) -> Path:
        raise_all(check_name(name))
        return self.folder / f"{name}.toml"

    def names(self) -> tuple[str, ...]:
        """Returns all sites' names, this computer first; files whose name cannot be a site's are ignored."""
        stems: set[str] = set()
        for folder in (self.folder, *self.common):
            with suppress(OSError):
                stems.update(path.stem for path in folder.glob("*.toml"))
        return (LOCAL, *(stem for stem in sorted(stems) if not check_name(stem)))

    def all(self) -> tuple[NamedSite, ...]:
        """Returns all sites; one that cannot be read hides no other."""
        return tuple(self.named(name) for name in self.names())

    def named(self, name: str) -> NamedSite:
        """The site of this name, or why there is none."""
        try:
            return NamedSite(name, self.load(name))
        except ProblemError as error:
            return NamedSite(name, None, error.problems)

    def load(self, name: str) -> Site:
        """The site of this name. Raises ``ProblemError`` when there is none, or its file is wrong."""
        if name == LOCAL:
            return THIS_COMPUTER
        path = self.path(name)
        if not path.exists():
            hint = did_you_mean(name, self.names()) or f"There are: {', '.join(self.names())}."
            raise problem("site.absent", f"There is no site {name!r}.", hint, name, list_all("sites"))
        return read_site(path)

    def known(self) -> dict[str, Site | None]:
        """Returns all sites by name; None for one that cannot be read."""
        return {one.name: one.site for one in self.all()}

    def check_free(self, name: str) -> list[Problem]:
        """The problem with a name that another site has."""
        if check_name(name) or not self.path(name).exists():
            return []
        return [
            Problem(
                "site.taken", f"There is already a site {name!r}.", "Choose another name.", name, (turn_on("replace"),)
            )
        ]

    def save(self, name: str, site: Site, replace: bool = False) -> Path:
        """Keep the site. Raises ``ProblemError`` for anything wrong with it, and when the name is taken."""
        raise_all([*check_name(name), *check_site(site)])
        raise_all([] if replace else self.check_free(name))
        path = self._own(name)
        with os_refused("site.write", f"The site cannot be kept in {path}", "Make room on that disk.", str(path)):
            make_private(self.folder)
            write_private(path, to_toml(site).encode())
        return path

    def remove(self, name: str) -> Path:
        """Remove the site's file; nothing on the site itself changes. Raises ``ProblemError`` when there is none."""
        if name == LOCAL:
            raise problem("site.name", "This computer cannot be removed.", where=name)
        path = self._own(name)
        try:
            path.unlink()
        except FileNotFoundError:
            if (shared := self.path(name)) != path and shared.exists():
                text = f"The site {name!r} is a course's, or for all users, and cannot be removed from here."
                raise problem("site.common", text, f"Its file is {shared}.", name) from None
            self.load(name)  # raises: there is no such site
        except OSError as error:
            raise problem("site.write", f"{path} cannot be removed: {error.strerror}.", where=str(path)) from None
        return path


def site_store(places: Places) -> SiteStore:
    """The sites of this user, those in ``clew/sites`` below the folders for all users (``XDG_CONFIG_DIRS``), and those
    of the courses that were opened."""
    named = platformdirs.site_config_dir("clew", appauthor=False, multipath=True)
    courses = tuple(sorted(places.courses.glob("[!.]*/known-sites")))
    common = (Path(one) / "sites" for one in named.split(os.pathsep) if one)
    return SiteStore(places.config / "sites", (*common, *courses))
