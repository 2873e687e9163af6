"""The logins that stay for a while, by the sites that they lead to: seen and ended from a terminal and the window."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from clew_gui.sites.hops import way_to
from clew_gui.sites.site import Site, is_local
from clew_gui.sites.store import site_store
from clew_gui.ssh.config import resolve
from clew_gui.ssh.connection import Hop, ssh_files
from clew_gui.ssh.kept_logins import KeptLogin, KeptLogins, login_id
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError


class Logins(NamedTuple):
    """The live logins, the oldest first, and why it is unknown of others whether they are alive."""

    living: list[KeptLogin]
    unknown: list[Problem]


class LoggedOut(NamedTuple):
    """The logins that were ended, those that stay as a login to another site goes through them, and what was removed of
    which it was unknown whether it was a live login."""

    ended: list[KeptLogin]
    stay: list[KeptLogin]
    removed: list[Problem]


def stays_s(places: Places) -> int:
    """Returns for how many seconds after its last use a login stays on this computer; 0: none does."""
    return ssh_files(places).keep_login_s


def logins(places: Places, site: str = "") -> Logins:
    """The logins on the route to ``site``; without a name all. Raises ``ProblemError``."""
    wanted = _ids_of(site_store(places).load(site)) if site else []
    kept = KeptLogins(ssh_files(places))
    living = [one for one in kept.all() if not site or one.id in wanted]
    unknown = [found for name, found in kept.unknown().items() if not site or name in wanted]
    return Logins(living, list(dict.fromkeys(unknown)))


def log_out(places: Places, site: str = "") -> LoggedOut:
    """Ends the logins on the route to ``site``; without a name all, also those that may not be used. Jobs go on. Raises
    ``ProblemError``."""
    kept, (living, unknown) = KeptLogins(ssh_files(places)), logins(places, site)
    if site and unknown:
        raise ProblemError(*unknown)
    ended = kept.end([one.id for one in living])
    if not site:
        kept.clear()
    return LoggedOut(ended, [one for one in living if one not in ended], unknown)


def sites_by_login(places: Places) -> Mapping[str, list[str]]:
    """The names of the sites that each login leads to."""
    found: dict[str, list[str]] = {}
    for one in site_store(places).all():
        with suppress(ProblemError):  # its way goes round in a circle
            for name in _ids_of(one.site)[-1:] if one.site is not None else ():
                found.setdefault(name, []).append(one.name)
    return found


def _ids_of(site: Site) -> list[str]:
    """The names of the logins at each hop on the route to a site, the site itself last."""
    hops: tuple[Hop, ...] = () if is_local(site) else way_to(site, resolve)
    return [login_id(hops[:number]) for number in range(1, len(hops) + 1)]
