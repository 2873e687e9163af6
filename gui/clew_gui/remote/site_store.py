"""The user's sites: one TOML file each, below the settings' folder."""

from __future__ import annotations

from pathlib import Path

import msgspec

from clew_gui.remote.site_check import check_name, check_site
from clew_gui.remote.site_file import read_site, to_toml
from clew_gui.remote.site_presets import THIS_COMPUTER
from clew_gui.remote.sites import LOCAL, Site
from clew_shared.places import Places
from clew_shared.private import make_private, write_private
from clew_shared.problem import Problem, ProblemError, problem, raise_all


class NamedSite(msgspec.Struct, frozen=True):
    """A site's name, and the site, or why its file cannot be used."""

    name: str
    site: Site | None
    problems: tuple[Problem, ...] = ()


class SiteStore:
    """The files in ``folder``. This computer is always among the sites and has no file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """The file of the site ``name``. Raises ``ProblemError`` for what cannot be a site's name."""
        raise_all(check_name(name))
        return self.folder / f"{name}.toml"

    def names(self) -> tuple[str, ...]:
        """All sites, this computer first; files whose name cannot be a site's are passed over."""
        try:
            stems = sorted(path.stem for path in self.folder.glob("*.toml"))
        except OSError:
            stems = []
        return (LOCAL, *(stem for stem in stems if not check_name(stem)))

    def all(self) -> tuple[NamedSite, ...]:
        """All sites; one that cannot be read hides no other."""
        return tuple(self._named(name) for name in self.names())

    def _named(self, name: str) -> NamedSite:
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
            known = ", ".join(self.names())
            raise problem("site.absent", f"There is no site {name!r}.", f"There are: {known}. See: clew site add", name)
        return read_site(path)

    def save(self, name: str, site: Site, replace: bool = False) -> Path:
        """Keep the site. Raises ``ProblemError`` for anything wrong with it, and when the name is taken."""
        raise_all([*check_name(name), *check_site(site)])
        path = self.path(name)
        if path.exists() and not replace:
            hint = "Choose another name, or say --replace."
            raise problem("site.taken", f"There is a site {name!r} already.", hint, name)
        try:
            make_private(self.folder)
            write_private(path, to_toml(site).encode())
        except OSError as error:
            text = f"The site cannot be kept in {path}: {error.strerror}."
            raise problem("site.write", text, "Make room on that disk.", str(path)) from None
        return path

    def remove(self, name: str) -> Path:
        """Remove the site's file; nothing on the site itself changes. Raises ``ProblemError`` when there is none."""
        if name == LOCAL:
            raise problem("site.name", "This computer cannot be removed.", where=name)
        path = self.path(name)
        try:
            path.unlink()
        except FileNotFoundError:
            raise problem("site.absent", f"There is no site {name!r}.", "See: clew site list", name) from None
        except OSError as error:
            raise problem("site.write", f"{path} cannot be removed: {error.strerror}.", where=str(path)) from None
        return path


def site_store(places: Places) -> SiteStore:
    """The sites of this user."""
    return SiteStore(places.config / "sites")
