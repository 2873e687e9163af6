"""``clew logout``: ends the logins that stay for a while after their command, and shows them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from clew_gui.base.times import time_of_day
from clew_gui.commands.context import OK, CommandContext, Parser
from clew_gui.sites.logins import Logins, log_out, logins, sites_by_login
from clew_gui.ssh.connection import route_words, ssh_files
from clew_gui.ssh.kept_logins import KeptLogin

_ABOUT = """End the login to a site that stays after a command has asked you for a password or code, and all hops on the
way; without SITE all such logins. Jobs go on."""


def logout(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew logout [SITE] [--list]``: 0 also when nobody was logged in. Raises ``ProblemError``."""
    parser = Parser("clew logout", _ABOUT)
    parser.add_argument("site", metavar="SITE", nargs="?", help="which site (default: all)")
    parser.add_argument("--list", action="store_true", help="show where you are logged in and until when; end nothing")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    options = parser.parse_args(list(argv))
    if options.list:
        return _list(context, logins(context.places, options.site or ""), options.json)
    ended, stay, removed = log_out(context.places, options.site or "")
    if options.json:
        found = {"ended": [_as_json(one) for one in ended], "stay": [_as_json(one) for one in stay]}
        context.say_json(found | {"removed": [one.where for one in removed]})
        return OK
    for one in ended:
        context.say(f"Logged out of {one.title}.")
    for one in stay:
        context.say(f"Still logged in to {one.title}: the login to another site goes through it.")
    for problem in removed:
        context.say(f"Ended the login in {problem.where}, if there was one.")
    context.say(
        "Jobs go on." if ended or removed else f"You were not logged in{f' to {options.site}' if options.site else ''}."
    )
    return OK


def _list(context: CommandContext, found: Logins, in_json: bool) -> int:
    living, unknown = found
    keep_login_s = ssh_files(context.places).keep_login_s
    sites = sites_by_login(context.places) if living else {}
    if in_json:
        known = [_as_json(one) | {"sites": sites.get(one.id, [])} for one in living]
        reasons = [one.text for one in unknown]
        context.say_json({"keep_login": keep_login_s // 60, "logins": known, "unknown": reasons})
        return OK
    for problem in unknown:
        context.note("It is unknown whether you are logged in here:")
        context.report(problem)
    if not living:
        kept = f"A login stays for {keep_login_s // 60} minutes" if keep_login_s else "No login stays"
        nowhere = "You are not logged in anywhere. " if not unknown else ""
        context.say(f"{nowhere}{kept} after its last use.")
        return OK
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Login", "Sites", "Since", "Until, unless it is used"):
        table.add_column(title, no_wrap=title != "Sites")
    ways = {one.through for one in living}
    for one in living:
        names = ", ".join(sites.get(one.id, [])) or ("on the way to another" if one.id in ways else "none any more")
        table.add_row(one.title, names, time_of_day(one.since), time_of_day(one.until))
    context.console().print(table)
    return OK


def _as_json(login: KeptLogin) -> dict[str, object]:
    return {"login": login.title, "route": route_words(login.passed), "since": login.since, "until": login.until}
