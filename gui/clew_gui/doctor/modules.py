"""The site's modules: whether those that it names can be loaded, and which there are. Tcl modules and Lmod alike."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from importlib.resources import files

import msgspec

from clew_gui.base.checked_text import is_module
from clew_gui.schedulers.state import Output
from clew_gui.sites.site_connection import SiteConnection
from clew_shared.base.problem import problem

_NO_COMMAND = "module-command"

# The keeper's own way of loading, so that a job finds the same; what it would end a job for is said instead.
_SAY = """
clew_finish() { printf '\\nclew-refuses %s\\n' "$3"; }
clew_record=$(mktemp -u)
printf '\\nclew-begins\\n'
"""
# Loaded first: on many sites the modules of a toolchain are seen only where that is loaded.
_LIST = """
clew_find_modules
for clew_name in "$@"; do clew_load "$clew_name"; done >/dev/null 2>&1
MODULES_PAGER= LMOD_PAGER= module -t avail 2>&1 </dev/null
printf '\\nclew-default\\n'
printf '%s\\n' "${LMOD_VERSION:-}"
"""


class Loaded(msgspec.Struct, frozen=True):
    """The result of loading: the modules that could not be loaded, with the messages; ``no_command``: there is no
    module command."""

    refused: tuple[str, ...] = ()
    said: str = ""
    no_command: bool = False


class Available(msgspec.Struct, frozen=True):
    """The modules of a site as they are named, in its order; ``default`` are those that a bare name means."""

    names: tuple[str, ...]
    default: frozenset[str] = frozenset()


def _keeper() -> str:
    return files("clew_gui.schedulers").joinpath("keeper.sh").read_text(encoding="utf-8") + _SAY


def load(connection: SiteConnection, modules: Sequence[str]) -> Loaded:
    """Load ``modules`` in their order, as a job will. Raises ``ProblemError`` when the site does not answer."""
    script = _keeper() + 'clew_find_modules\nfor clew_name in "$@"; do clew_load "$clew_name"; done\n'
    done = connection.work(("bash", "-l", "-c", script, "bash", *modules))
    if done.late:
        raise _late(connection)
    out = _without_noise(done).out
    refused = re.findall(r"^clew-refuses (\S+)$", out, re.MULTILINE)
    said = [one.strip() for one in out.splitlines() if one.strip() and not one.startswith("clew-refuses")]
    return Loaded(tuple(one for one in refused if one != _NO_COMMAND), " ".join(said)[:300], _NO_COMMAND in refused)


def available(connection: SiteConnection) -> Available:
    """Returns all that ``module avail`` has once the site's own modules are loaded. Raises ``ProblemError`` if there
    are none, or no answer."""
    done = connection.work(("bash", "-l", "-c", _keeper() + _LIST, "bash", *connection.site.modules))
    if done.late:
        raise _late(connection)
    if f"clew-refuses {_NO_COMMAND}" in done.out:
        text = f"{connection.title} has no module command."
        hint = "Name python or venv in the site, or source what brings modules in its prologue."
        raise problem("modules.absent", text, hint, connection.name)
    return parse_avail(_without_noise(done))


def _without_noise(done: Output) -> Output:
    """Removes what the login shell's own files print before."""
    return msgspec.structs.replace(done, out=done.out.partition("\nclew-begins\n")[2])


def _late(connection: SiteConnection) -> Exception:
    text = f"The modules of {connection.title} were not listed: nothing moves there any more."
    return problem("modules.late", text, "The site may be busy. Try again.", connection.name)


def parse_avail(done: Output) -> Available:
    """The names in ``module -t avail``: headings end with a colon, Tcl's marks are in brackets."""
    names: dict[str, None] = {}
    default = set()
    for line in done.out.partition("\nclew-default")[0].splitlines():
        word = line.strip()
        mark = re.fullmatch(r"(.*?)\s*[(<]([A-Za-z0-9,:@ ]*)[)>]", word)
        bare = mark[1] if mark is not None else word
        if not bare or bare.endswith((":", "/")) or bare.startswith("-") or not is_module(bare):
            continue
        names[bare] = None
        if mark is not None and re.search(r"\bdefault\b|\bD\b", mark[2]):
            default.add(bare)
    return Available(tuple(names), frozenset(default))


def matching(found: Available, pattern: str) -> tuple[str, ...]:
    """Returns those with ``pattern`` in their name, whatever its case; ``*`` and ``?`` as in file names."""
    form = "".join(".*" if char == "*" else "." if char == "?" else re.escape(char) for char in pattern)
    return tuple(name for name in found.names if re.search(form, name, re.IGNORECASE))


def near(name: str, found: Available) -> tuple[str, ...]:
    """Modules that someone may have meant by ``name``."""
    stems = {one.lower(): one for one in found.names} | {one.partition("/")[0].lower(): one for one in found.names}
    wanted = name.lower()
    close = difflib.get_close_matches(wanted, stems, 3, 0.6)
    close += difflib.get_close_matches(wanted.partition("/")[0], stems, 3, 0.7)
    return tuple(dict.fromkeys(stems[one] for one in close))[:3]
