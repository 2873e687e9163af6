"""``clew site show``: one site, what it runs in its own words, and the job script that it leads to."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from clew_gui.commands.context import OK, CommandContext
from clew_gui.commands.sites.flags import given_allocation
from clew_gui.schedulers.allocation import build_allocation, summary
from clew_gui.schedulers.registry import scheduler_of
from clew_gui.sites.consent import OwnWords, consents, words_of
from clew_gui.sites.hops import way_to
from clew_gui.sites.site import Site, address, is_local, job_of, title_of
from clew_gui.sites.site_file import to_table, to_toml
from clew_gui.sites.store import NamedSite, SiteStore
from clew_gui.ssh.config import resolve

_EXAMPLE_JOB = "00000000-0000-4000-8000-000000000000"
_EXAMPLE_FOLDER = "/home/you/.local/share/clew/jobs/example"
_EXAMPLE_AGENT = ("clew-agent", "serve", "--job")


def show(context: CommandContext, store: SiteStore, options: argparse.Namespace) -> int:
    found = store.load(options.name)
    words = all_words(found)
    missing = consents(context.places).missing(words)
    if options.consent:
        return _consent(context, options, words, missing)
    if options.script:
        return _script(context, found, options)
    if options.json:
        context.say_json(as_json(NamedSite(options.name, found), store) | {"consent_missing": missing})
        return OK
    context.say(f"{options.name}: {found.title or address(found)}")
    context.say(f"  {where(found)}")
    if found.note:
        context.say(f"\n{found.note}")
    if not is_local(found):
        context.say(f"\n{store.path(options.name)}:\n\n{to_toml(found).rstrip()}")
    for one in missing:
        context.say(f"\nYou have not approved its {one.kind} yet; Clew asks before it is first used.")
    if missing:
        context.say(f"Read it and agree: clew site show {options.name} --consent")
    return OK


def all_words(found: Site) -> tuple[OwnWords, ...]:
    """Returns what needs consent before the site is used: its prologue, and commands that the SSH configuration has for
    it."""
    if is_local(found):
        return ()
    hops = way_to(found, resolve)
    return tuple(dict.fromkeys(one for hop in hops for one in words_of(found, hop.proxy_command)))


def _consent(
    context: CommandContext, options: argparse.Namespace, words: tuple[OwnWords, ...], missing: Sequence[OwnWords]
) -> int:
    """Show everything that is run, exactly as written, and remember that the person agrees."""
    consents(context.places).give(words)
    if options.json:
        context.say_json({"name": options.name, "consent_given": words, "consent_missing": ()})
        return OK
    for one in words:
        show_words(context, one, one not in missing)
    context.say(
        "\nYou have approved this text. If it changes, Clew asks again."
        if words
        else "It contains no shell commands of its own."
    )
    return OK


def _script(context: CommandContext, found: Site, options: argparse.Namespace) -> int:
    asked = build_allocation(found.allocation, given_allocation(options))
    job = job_of(found, _EXAMPLE_JOB, _EXAMPLE_FOLDER, _EXAMPLE_AGENT, asked)
    text = scheduler_of(found.scheduler).script(job)
    if options.json:
        context.say_json({"script": text})
    else:
        context.say(text.rstrip("\n"))
    return OK


def agree(context: CommandContext, found: Site, consent: bool) -> Sequence[OwnWords]:
    """Returns the site's own shell commands that nobody has approved; with ``consent`` the person has read them now."""
    words = words_of(found)
    if consent:
        consents(context.places).give(words)
    return consents(context.places).missing(words)


# --- In words ---------------------------------------------------------------------------------------------------------


def where(found: Site) -> str:
    """Describes the site in one line: the host, the route, the scheduler, what a job asks for."""
    way = f" through {', '.join(found.jump)}" if found.jump else ""
    if not scheduler_of(found.scheduler).has_queue:
        return f"{address(found)}{way}, no scheduler"
    return f"{address(found)}{way}, {scheduler_of(found.scheduler).label}: {summary(found.allocation)}"


def report_kept(context: CommandContext, said: str, found: Site, missing: Sequence[OwnWords]) -> None:
    """A site was kept: ``said``, what it is now, and what it runs that was not approved."""
    context.say(said)
    context.say(f"  {where(found)}")
    for one in missing:
        show_words(context, one)
    if missing:
        context.say("\nClew asks you before it is first used; --consent says now that you have read it.")


def show_words(context: CommandContext, words: OwnWords, agreed: bool = False) -> None:
    """Shows the site's own shell commands, whole."""
    when = "runs on this computer to reach it" if words.kind == "proxy command" else "runs in each job"
    context.say(f"\nIts {words.kind} {when}, exactly as written here:\n")
    for line in words.text.strip("\n").splitlines():
        context.say(f"    {line}")
    if agreed:
        context.say("\nYou had approved it before.")


def as_json(one: NamedSite, store: SiteStore) -> dict[str, object]:
    if one.site is None:
        return {"name": one.name, "path": str(store.path(one.name)), "problems": one.problems}
    path = None if is_local(one.site) and one.name == "local" else str(store.path(one.name))
    title = title_of(one.name, one.site)
    return {"name": one.name, "title": title, "path": path, "address": address(one.site), "site": to_table(one.site)}
