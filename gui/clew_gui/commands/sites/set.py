"""``clew site set``: changes single fields of a site."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from clew_gui.commands.context import OK, CommandContext
from clew_gui.commands.sites.show import agree, as_json, report_kept
from clew_gui.sites.check import check_title
from clew_gui.sites.presets import PRESETS
from clew_gui.sites.site import LOCAL, Site
from clew_gui.sites.site_fields import ASKED, SITE_FIELDS, texts_of, with_fields
from clew_gui.sites.store import NamedSite, SiteStore
from clew_shared.base.problem import Problem, ProblemError, problem, raise_all


def about_fields() -> str:
    """Lists every field of a site with what it is for."""
    own = [f"  {field.name:<13} {field.help}" for field in SITE_FIELDS if not field.name.startswith(ASKED)]
    asked = [
        f"  {field.name.removeprefix(ASKED):<13} {field.help}" for field in SITE_FIELDS if field.name.startswith(ASKED)
    ]
    return "\n".join(["Fields:", *own, "Fields of [allocation], what a job asks for:", *asked])


def _path_of(store: SiteStore, name: str) -> Path:
    """The site's file. Raises ``ProblemError`` for what has none."""
    if name == LOCAL:
        raise problem("site.local", f"{LOCAL!r} means this computer: there is no file to change.", where=name)
    path = store.path(name)
    if path.exists():
        return path
    if name in PRESETS:
        hint = f"Make a site from it: clew site add NAME --preset {name}"
        raise problem("site.absent", f"{name!r} is a preset, and there is no site of that name.", hint, name)
    store.load(name)  # raises: there is no such site
    return path


def _kept_words(store: SiteStore, name: str, before: Path) -> str:
    """Says where the changed site is now."""
    path = store.path(name)
    if path == before:
        return f"The site {name} is kept in {path}."
    return f"The site {name} in {before} is for all users of this computer. Your changed copy is kept in {path}."


def set_fields(context: CommandContext, store: SiteStore, options: argparse.Namespace) -> int:
    """Change single fields. Raises ``ProblemError`` with everything that is wrong with them."""
    name, path = options.name, _path_of(store, options.name)
    try:
        before = store.load(name)
    except ProblemError as error:
        unread = Problem("site.unread", f"Fields of {name} can be set once its file is right.", f"Change {path}", name)
        raise ProblemError(*error.problems, unread) from None
    made = with_fields(before, options.fields)
    raise_all(check_title(name, made, store.known()))
    changed = [key for key, text in texts_of(before).items() if text != texts_of(made)[key]]
    if changed:
        store.save(name, made, replace=True)
    missing = agree(context, made, options.consent)
    if options.json:
        more = {"consent_missing": missing, "changed": changed}
        context.say_json(as_json(NamedSite(name, made), store) | more)
    elif not changed:
        context.say(f"Nothing was changed: {name} has these values already.")
    else:
        report_kept(context, f"{_kept_words(store, name, path)}\n{_changes(before, made, changed)}", made, missing)
    return OK


def _changes(before: Site, now: Site, changed: Sequence[str]) -> str:
    old, new = texts_of(before), texts_of(now)

    def shown(text: str) -> str:
        return " | ".join(text.splitlines()) or "(empty)"

    return "\n".join(f"  {key}: {shown(old[key])} -> {shown(new[key])}" for key in changed)
