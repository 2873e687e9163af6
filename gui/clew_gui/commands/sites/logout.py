"""``clew logout``: ends the logins that stay for a while after their command, and shows them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from rich.table import Table

from clew_gui.commands.context import OK, CommandContext, Parser
from clew_gui.sites.hops import way_to
from clew_gui.sites.site import Site, is_local
from clew_gui.sites.store import site_store
from clew_gui.ssh.config import resolve
from clew_gui.ssh.connection import Hop, ssh_files
from clew_gui.ssh.openssh.kept_logins import KeptLogin, KeptLogins, login_id
from clew_shared.base.problem import ProblemError

_ABOUT = """End the login to a site that stays after a command has asked you for a password or code, and all hops on the
way; without SITE all such logins. Jobs go on."""


def logout(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew logout [SITE] [--list]``: 0 also when nobody was logged in. Raises ``ProblemError``."""
    parser = Parser("clew logout", _ABOUT)
    parser.add_argument("site", metavar="SITE", nargs="?", help="which site (default: all)")
    parser.add_argument("--list", action="store_true", help="show where you are logged in and until when; end nothing")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    options = parser.parse_args(list(argv))
    files = ssh_files(context.places)
    logins = KeptLogins(files)
    wanted = _logins_of(site_store(context.places).load(options.site)) if options.site else ()
    living = [one for one in logins.all() if not options.site or one.id in wanted]
    if options.list:
        return _list(context, living, files.keep_login_s, options.json)
    ended = logins.end([one.id for one in living])
    if not options.site:
        logins.clear()
    stay = [one for one in living if one not in ended]
    if options.json:
        context.say_json({"ended": [_as_json(one) for one in ended], "stay": [_as_json(one) for one in stay]})
        return OK
    for one in ended:
        context.say(f"Logged out of {one.title}.")
    for one in stay:
        context.say(f"Still logged in to {one.title}: the login to another site goes through it.")
    context.say("Jobs go on." if ended else f"You were not logged in{f' to {options.site}' if options.site else ''}.")
    return OK


def _logins_of(site: Site) -> tuple[str, ...]:
    """The names of the logins on the way to a site, that to the site itself last."""
    hops: tuple[Hop, ...] = () if is_local(site) else way_to(site, resolve)
    return tuple(login_id(hops[:number]) for number in range(1, len(hops) + 1))


def _list(context: CommandContext, living: Sequence[KeptLogin], keep_login_s: int, in_json: bool) -> int:
    sites = _sites(context) if living else {}
    if in_json:
        logins = [_as_json(one) | {"sites": sites.get(one.id, [])} for one in living]
        context.say_json({"keep_login": keep_login_s // 60, "logins": logins})
        return OK
    if not living:
        kept = f"A login stays for {keep_login_s // 60} minutes" if keep_login_s else "No login stays"
        context.say(f"You are not logged in anywhere. {kept} after its last use.")
        return OK
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Login", "Sites", "Since", "Until, unless it is used"):
        table.add_column(title, no_wrap=title != "Sites")
    ways = {one.through for one in living}
    for one in living:
        names = ", ".join(sites.get(one.id, [])) or ("on the way to another" if one.id in ways else "none any more")
        table.add_row(one.title, names, _clock(one.since), _clock(one.until))
    context.console().print(table)
    return OK


def _sites(context: CommandContext) -> Mapping[str, list[str]]:
    """The names of the sites that each login leads to."""
    found: dict[str, list[str]] = {}
    for one in site_store(context.places).all():
        with suppress(ProblemError):  # its way goes round in a circle
            names = _logins_of(one.site) if one.site is not None else ()
            for name in names[-1:]:
                found.setdefault(name, []).append(one.name)
    return found


def _as_json(login: KeptLogin) -> dict[str, object]:
    return {"login": login.title, "route": login.route, "since": login.since, "until": login.until}


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M", time.localtime(seconds))
