"""``clew site``: the machines that runs can go to, each a file that can be read, changed and shared."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table

from clew_gui.commands.context import OK, CommandContext, Parser
from clew_gui.commands.sites.flags import add_allocation_flags, given_allocation
from clew_gui.commands.sites.show import agree, as_json, report_kept
from clew_gui.commands.sites.show import show as site_show
from clew_gui.schedulers.allocation import summary
from clew_gui.schedulers.registry import NAMES, scheduler_of
from clew_gui.sites.check import check_name, check_title, with_free_title
from clew_gui.sites.presets import PRESETS, about_presets, site_from
from clew_gui.sites.site import LOCAL, Site, address, is_local
from clew_gui.sites.site_fields import ASKED, SITE_FIELDS, SPECS, texts_of, with_fields, with_texts
from clew_gui.sites.site_file import read_site
from clew_gui.sites.store import NamedSite, SiteStore, site_store
from clew_gui.ssh.config import offered_hosts, user_config
from clew_shared.base.problem import Problem, ProblemError, did_you_mean, problem, raise_all
from clew_shared.run_settings import inside

_FLAGS = {"title": "TEXT", "host": "H", "user": "U", "port": "N", "jump": "J", "key": "FILE"}
"""The fields that ``clew site add`` has flags for, with what stands for their values."""


def site(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew site add|list|show|set|doctor|modules|remove``: returns the exit status."""
    options = _parser().parse_args(list(argv))
    actions = {"add": _add, "show": site_show, "set": set_fields, "remove": _remove}
    actions |= dict.fromkeys(("doctor", "modules"), _examine)
    return actions.get(options.action, _list)(context, site_store(context.places), options)


def _examine(context: CommandContext, store: SiteStore, options: argparse.Namespace) -> int:
    # SSH takes a moment to import; the other actions need none.
    from clew_gui.commands.sites import doctor as site_doctor

    found = store.load(options.name)
    if options.action == "modules":
        return site_doctor.modules(context, options.name, found, options.pattern, options.json)
    return site_doctor.examine_site(context, options.name, found, options.job, options.json)


def _parser() -> Parser:
    parser = Parser("clew site", "The machines that runs can go to.")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    actions = parser.add_subparsers(dest="action", metavar="add|list|show|set|doctor|modules|remove")
    _add_parser(actions)
    _json(actions.add_parser("list", help="all sites, and the hosts of ~/.ssh/config", description="All sites."))
    show = actions.add_parser("show", help="one site, as in its file", description="One site.")
    show.add_argument("name", metavar="NAME")
    show.add_argument("--script", action="store_true", help="print the job script that it leads to, as an example")
    show.add_argument("--consent", action="store_true", help="you have read the shell commands that the site contains")
    add_allocation_flags(show, "for --script, instead of the site's own")
    _json(show)
    _set_parser(actions)
    _examining_parsers(actions)
    remove = actions.add_parser(
        "remove", help="forget a site", description="Forget a site. Nothing on the site itself changes."
    )
    remove.add_argument("name", metavar="NAME")
    _json(remove)
    return parser


def _set_parser(actions: argparse._SubParsersAction[Parser]) -> None:
    about = """Set fields of a site: modules=python,cuda/11.8 time=02:00:00. A field without a value, as in user=, is
cleared. A list has commas; where an entry can have commas itself, give the field once for each entry."""
    fields = actions.add_parser("set", help="set fields of a site", description=about, epilog=about_fields())
    fields.add_argument("name", metavar="NAME")
    fields.add_argument(
        "--consent", action="store_true", help="you have read the shell commands that the site contains"
    )
    _json(fields)
    fields.add_argument("fields", metavar="FIELD=VALUE", nargs="+")


def _examining_parsers(actions: argparse._SubParsersAction[Parser]) -> None:
    """Adds the commands that log in to the site and examine it."""
    about = """Log in, check every hop and everything that runs need there, and say how to fix what is wrong.
The exit status is 1 when something keeps runs from working."""
    doctor = actions.add_parser(
        "doctor", help="check every hop and need, and say how to fix problems", description=about
    )
    doctor.add_argument("name", metavar="NAME")
    doctor.add_argument("--job", action="store_true", help="send a tiny job as well, which reports what a node has")
    _json(doctor)
    modules = actions.add_parser(
        "modules", help="list the modules there", description="The site's environment modules."
    )
    modules.add_argument("name", metavar="NAME")
    modules.add_argument("pattern", metavar="PATTERN", nargs="?", default="", help="a part of the name, or * and ?")
    _json(modules)


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="one line of JSON")


def _add_parser(actions: argparse._SubParsersAction[Parser]) -> None:
    about = """Make a site: from a preset, from a file, from an entry of ~/.ssh/config with this name, or from nothing.
Options override these values. Without a preset, a file or --scheduler, Clew logs in once and finds out
which scheduler the site has."""
    add = actions.add_parser("add", help="make a site", description=about)
    add.add_argument("name", metavar="NAME", help="small letters, digits, - and _")
    add.add_argument("--preset", metavar="P", help=f"begin with one of: {about_presets()}")
    add.add_argument("--file", metavar="SITE.TOML", help="begin with a file, such as one from your teacher")
    for name, stands_for in _FLAGS.items():
        add.add_argument(f"--{name}", metavar=stands_for, help=inside(SPECS[name].help.removesuffix(".")))
    add.add_argument(
        "--scheduler", choices=NAMES, metavar="S", help=f"one of: {', '.join(NAMES)}; looked for otherwise"
    )
    add.add_argument("--module", metavar="M", action="append", help="a module that jobs load; once for each module")
    add.add_argument("--replace", action="store_true", help="change the site if there is one of this name")
    add.add_argument("--consent", action="store_true", help="you have read the shell commands that the site contains")
    add_allocation_flags(add, "what its jobs ask for, unless a run says otherwise")
    _json(add)


# --- add --------------------------------------------------------------------------------------------------------------


def _add(context: CommandContext, store: SiteStore, options: argparse.Namespace) -> int:
    known = store.known()
    base = _base(options, known)
    made = _made(options, base, known)
    if is_local(made) and options.preset != "local":
        hint = f"Give --host, --preset ({about_presets()}) or --file."
        raise problem("site.host", f"Nothing says where {options.name!r} is.", hint, "host")
    raise_all([] if options.replace else store.check_free(options.name))
    found = None
    if not (options.preset or options.file or options.scheduler):
        from clew_gui.commands.sites import doctor as site_doctor  # SSH takes a moment to import
        from clew_gui.sites.scheduler_search import with_scheduler

        found = site_doctor.look(context, options.name, made, options.consent)
        made = _made(options, with_scheduler(base, found), known)
    path = store.save(options.name, made, replace=options.replace)
    missing = agree(context, made, options.consent)
    if options.json:
        seen = {"consent_missing": missing, "scheduler_found": found}
        context.say_json(as_json(NamedSite(options.name, made), store) | seen)
        return OK
    if found is not None:
        context.say(found.text)
    report_kept(context, f"The site {options.name} is kept in {path}.", made, missing)
    return OK


def _base(options: argparse.Namespace, known: Mapping[str, Site | None]) -> Site:
    """Returns the site to begin with. Raises ``ProblemError`` for an unknown preset or a file that is wrong."""
    if options.preset and options.file:
        raise problem("cli.usage", "A site begins with a preset or with a file, not with both.", where="preset")
    if options.file:
        return with_free_title(options.name, read_site(Path(options.file).expanduser()), known)
    if options.preset in PRESETS:
        return site_from(options.preset, options.name, known)
    if options.preset:
        hint = did_you_mean(options.preset, PRESETS) or f"There are: {about_presets()}."
        raise problem("site.preset", f"There is no preset {options.preset!r}.", hint, "preset")
    entry = options.name in offered_hosts(user_config())
    return Site(host=options.name) if entry and not options.host else Site()


def _made(options: argparse.Namespace, base: Site, known: Mapping[str, Site | None]) -> Site:
    """The site with what the options say otherwise. Raises ``ProblemError`` with everything that is wrong."""
    given = {name: text for name in (*_FLAGS, "scheduler") if (text := getattr(options, name)) is not None}
    given |= {"modules": ",".join(options.module)} if options.module else {}
    given |= {ASKED + name: str(text) for name, text in given_allocation(options).items()}
    made, found = with_texts(base, given)
    raise_all([*check_name(options.name), *found, *check_title(options.name, made, known)])
    return made


# --- list, show, remove -----------------------------------------------------------------------------------------------


def _list(context: CommandContext, store: SiteStore, options: argparse.Namespace) -> int:
    known = store.all()
    hosts = _free_hosts(known)
    if options.json:
        context.say_json({"sites": [as_json(one, store) for one in known], "ssh_config": hosts})
        return OK
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Site", "Where", "Scheduler", "Each job", "Title"):
        table.add_column(title, no_wrap=title != "Title")
    for one in known:
        table.add_row(one.name, *_row(one))
    context.console().print(table)
    for one in known:
        for found in one.problems:
            context.note(f"{one.name}: {found.command_text()}")
    if hosts:
        context.say(f"\nIn ~/.ssh/config: {', '.join(hosts)}. `clew site add {hosts[0]}` makes a site of one.")
    return OK


def _row(one: NamedSite) -> tuple[str, ...]:
    if one.site is None:
        return "cannot be read", "", "", ""
    label = "" if is_local(one.site) else scheduler_of(one.site.scheduler).label
    asked = summary(one.site.allocation) if scheduler_of(one.site.scheduler).has_queue else ""
    return address(one.site), label, asked, one.site.title


def _free_hosts(known: Sequence[NamedSite]) -> list[str]:
    """The hosts of the SSH configuration for which there is no site yet."""
    taken = {one.name for one in known} | {one.site.host for one in known if one.site is not None}
    return [name for name in offered_hosts(user_config()) if name not in taken]


def _remove(context: CommandContext, store: SiteStore, options: argparse.Namespace) -> int:
    path = store.remove(options.name)
    if options.json:
        context.say_json({"removed": options.name, "path": str(path)})
    else:
        copy = f"Your copy of {options.name} is removed; that of all users counts again."
        gone = copy if store.path(options.name).exists() else f"The site {options.name} is forgotten."
        context.say(f"{gone} Nothing on the site itself was changed.")
    return OK


# --- set --------------------------------------------------------------------------------------------------------------


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
    return f"The site {name} in {before} is a course's, or for all users. Your changed copy is kept in {path}."


def set_fields(context: CommandContext, store: SiteStore, options: argparse.Namespace) -> int:
    """Change single fields. Raises ``ProblemError`` with everything that is wrong with them."""
    name, path = options.name, _path_of(store, options.name)
    try:
        before = store.load(name)
    except ProblemError as error:
        unread = Problem(
            "site.unread", f"Fields of {name} can be set once its file is right.", f"Correct {path} in an editor.", name
        )
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
