"""``clew site edit`` and ``clew site set``: a site's file in the person's own editor, or single fields of it."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from clew_gui.commands.context import OK, CommandContext
from clew_gui.commands.sites.show import agree, as_json, report_kept
from clew_gui.sites.check import check_title
from clew_gui.sites.presets import PRESETS
from clew_gui.sites.site import LOCAL, Site
from clew_gui.sites.site_fields import ASKED, SITE_FIELDS, texts_of, with_fields
from clew_gui.sites.site_file import from_toml, line_of, read_text
from clew_gui.sites.store import NamedSite, SiteStore
from clew_shared.base import operating_system
from clew_shared.base.private_files import make_private, write_private
from clew_shared.base.problem import Problem, ProblemError, problem, raise_all

_EDITORS = ("sensible-editor", "nano", "vim", "vi", "notepad")
"""The editors to try, in this order, if the environment names none."""
_OURS = "#:"
"""The beginning of lines that are there for the editor only."""


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


# --- set --------------------------------------------------------------------------------------------------------------


def set_fields(context: CommandContext, store: SiteStore, options: argparse.Namespace) -> int:
    """Change single fields. Raises ``ProblemError`` with everything that is wrong with them."""
    name, path = options.name, _path_of(store, options.name)
    try:
        before = store.load(name)
    except ProblemError as error:
        unread = Problem("site.unread", f"Fields of {name} can be set once its file is right.", _see(name), name)
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


def _see(name: str) -> str:
    return f"Change it: clew site edit {shlex.quote(name)}"


def _changes(before: Site, now: Site, changed: Sequence[str]) -> str:
    old, new = texts_of(before), texts_of(now)

    def shown(text: str) -> str:
        return " | ".join(text.splitlines()) or "(empty)"

    return "\n".join(f"  {key}: {shown(old[key])} -> {shown(new[key])}" for key in changed)


# --- edit -------------------------------------------------------------------------------------------------------------


def edit(context: CommandContext, store: SiteStore, options: argparse.Namespace) -> int:
    """Open a copy of the site's file in an editor until it is right, or the person gives up. Nothing that was typed is
    lost: a copy that is not right yet stays, and the next call goes on with it. Raises ``ProblemError``."""
    name, path = options.name, _path_of(store, options.name)
    before, command = read_text(path), editor(os.environ)
    copy = context.places.config / "edited" / path.name
    if copy.exists():
        context.note(f"This is what you typed last time, which was not correct yet: {copy}")
    else:
        _write_copy(copy, before)
    while True:
        failed = _run(command, copy)
        text = _without_ours(read_text(copy))
        if text.strip() == before.strip():
            copy.unlink(missing_ok=True)
            raise_all(failed)
            return _unchanged(context, store, options)
        raise_all([*failed, _unsaved(name, copy)] if failed else [])
        try:
            made = from_toml(text, "The file")
            raise_all(check_title(name, made, store.known()))
            break
        except ProblemError as error:
            _ask_again(context, name, copy, [_numbered(one, text) for one in error.problems])
    store.save_text(name, text)
    copy.unlink(missing_ok=True)
    missing = agree(context, made, options.consent)
    if options.json:
        context.say_json(as_json(NamedSite(name, made), store) | {"consent_missing": missing})
    else:
        report_kept(context, _kept_words(store, name, path), made, missing)
    return OK


def _unchanged(context: CommandContext, store: SiteStore, options: argparse.Namespace) -> int:
    if options.json:
        context.say_json(as_json(store.named(options.name), store))
    else:
        context.say("Nothing was changed.")
    return OK


def editor(environment: Mapping[str, str]) -> list[str]:
    """The command that opens a file. Raises ``ProblemError`` if there is none, or if one that nobody chose would need a
    terminal that is not there."""
    for name in ("VISUAL", "EDITOR"):
        try:
            words = shlex.split(environment.get(name, ""), posix=operating_system.SHELL_QUOTES)
        except ValueError:
            raise problem("site.editor", f"{name} cannot be read: {environment[name]!r}.", "Correct it.") from None
        if words:
            return words
    found = next((path for one in _EDITORS if (path := shutil.which(one)) is not None), None)
    if found is None or not _at_terminal():
        why = "there is no terminal" if found is not None else "none of the usual ones is installed"
        text = f"No editor can be opened: VISUAL and EDITOR are not set, and {why}."
        raise problem("site.editor", text, "Set EDITOR, or change single fields: clew site set NAME FIELD=VALUE")
    return [found]


def _at_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty()


def _run(command: Sequence[str], copy: Path) -> list[Problem]:
    """Wait for the editor; the problem with it."""
    try:
        status = subprocess.call([*command, str(copy)])
    except OSError as error:
        why = f"cannot be started: {error.strerror}"
    else:
        why = f"ended with status {status}" if status else ""
    hint = "Set EDITOR to another one, or change single fields: clew site set NAME FIELD=VALUE"
    return [Problem("site.editor", f"The editor {command[0]} {why}.", hint, command[0])] if why else []


def _write_copy(copy: Path, text: str) -> None:
    lines = ["Clew checks this file when you close the editor. Lines that begin with #: are removed."]
    lines += about_fields().splitlines()
    ours = "\n".join(f"{_OURS} {line}".rstrip() for line in lines)
    try:
        make_private(copy.parent)
        write_private(copy, f"{text.rstrip()}\n\n{ours}\n".encode())
    except OSError as error:
        raise problem("site.write", f"{copy} cannot be written: {error.strerror}.", where=str(copy)) from None


def _without_ours(text: str) -> str:
    """Returns what the person wrote."""
    kept = [line for line in text.splitlines() if not line.startswith(_OURS)]
    return "\n".join(kept).strip() + "\n"


def _numbered(found: Problem, text: str) -> Problem:
    """Adds the line that the problem is about, if it is known."""
    line = line_of(text, found.where)
    return msgspec.structs.replace(found, text=f"Line {line}: {found.text}") if line else found


def _ask_again(context: CommandContext, name: str, copy: Path, problems: Sequence[Problem]) -> None:
    """Show what is wrong, and return if the person wants to go on. Raises ``ProblemError`` otherwise, and if nobody can
    be asked."""
    if not _at_terminal():
        raise ProblemError(*problems, _unsaved(name, copy))
    for one in problems:
        context.note(f"  - {one}")
    context.err.write("Go on editing? [Y/n] ")
    context.err.flush()
    answer = sys.stdin.readline()
    if not answer or answer.strip().lower().startswith("n"):
        raise ProblemError(_unsaved(name, copy))


def _unsaved(name: str, copy: Path) -> Problem:
    text = f"The site {name} was not changed. What you typed is kept in {copy}."
    hint = f"`clew site edit {shlex.quote(name)}` goes on with it; delete it to start from the site's file."
    return Problem("site.unsaved", text, hint, str(copy))
