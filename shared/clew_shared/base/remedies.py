"""Ways out of a problem as data. A window words each as a button or a marked field, the command line as what to type.

The sentences of a problem name neither, because they reach both.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Final

import msgspec

from clew_shared.base.number_words import either


class Remedy(msgspec.Struct, frozen=True, omit_defaults=True):
    """A way out of a problem.

    ``act`` is one of the names below; a reader leaves out what it does not know, because a newer version may know
    more. ``what`` is the option or the kind of thing that it is about, ``value`` what to set or which one, ``site``
    where: an option is then one of the site itself, not of a run.
    """

    act: str
    what: str = ""
    value: str = ""
    site: str = ""


SET: Final = "set"
CHOOSE: Final = "choose"
OWN_FILE: Final = "own-file"
SITE_PATH_OF_DATA: Final = "site-path"
MODULES: Final = "modules"
CHECK_NODE: Final = "check-node"
CONSENT: Final = "consent"
LOG_OUT: Final = "log-out"
HOLD: Final = "hold"
FRESH_SHELL: Final = "fresh-shell"
LIST: Final = "list"
VERIFY: Final = "verify"
CONTINUE: Final = "continue"
RUN: Final = "run"
SET_UP: Final = "set-up"


def set_to(option: str, value: object) -> Remedy:
    """Give an option this value: ``time``, ``data``, ``partition``."""
    return Remedy(SET, option, str(value))


def turn_on(option: str) -> Remedy:
    """Give an option that has no value."""
    return Remedy(SET, option)


def choose(option: str) -> Remedy:
    """Choose another value for an option, or leave it out."""
    return Remedy(CHOOSE, option)


def own_file(data: str = "", example: str = "") -> Remedy:
    """Use a file of this computer as data; it is brought to the site. ``data`` is the set that is missing, ``example``
    what a file or folder with it is called."""
    return Remedy(OWN_FILE, data, example)


def path_on_site(data: str = "", example: str = "") -> Remedy:
    """Use data that are on the site already."""
    return Remedy(SITE_PATH_OF_DATA, data, example)


def list_modules(site: str, instead: str = "") -> Remedy:
    """See which modules a site has, and name one, ``instead`` of one that cannot be loaded."""
    return Remedy(MODULES, value=instead, site=site)


def check_node(site: str) -> Remedy:
    """Examine the site with a small job that looks at a node."""
    return Remedy(CHECK_NODE, site=site)


def read_consent(site: str) -> Remedy:
    """Read the shell commands that a site brings, and approve them."""
    return Remedy(CONSENT, site=site)


def log_out() -> Remedy:
    """End the kept logins."""
    return Remedy(LOG_OUT)


def hold_node(site: str) -> Remedy:
    """Hold an allocation first."""
    return Remedy(HOLD, site=site)


def fresh_shell(site: str) -> Remedy:
    """Take a terminal that has an allocation of its own."""
    return Remedy(FRESH_SHELL, site=site)


def list_all(kind: str) -> Remedy:
    """See which ``kind`` there are: runs, jobs, held, sites, recordings, exercises."""
    return Remedy(LIST, kind)


def verify_run(run: str) -> Remedy:
    """Check every byte of a run."""
    return Remedy(VERIFY, value=run)


def continue_run(run: str) -> Remedy:
    """Continue a run where it trained."""
    return Remedy(CONTINUE, value=run)


def run_exercise(exercise: str) -> Remedy:
    """Run an exercise by itself."""
    return Remedy(RUN, value=exercise)


def set_up_tensorflow() -> Remedy:
    """Make an environment with TensorFlow for this computer."""
    return Remedy(SET_UP, "tensorflow")


# --- On the command line ----------------------------------------------------------------------------------------------

_PLACEHOLDERS = {"time": "TIME", "data": "FILE", "exercises": "DIR", "key": "FILE"} | dict.fromkeys(
    ("gpus", "nodes", "cpus"), "N"
)
_LISTS = {
    "runs": "clew runs",
    "jobs": "clew jobs",
    "held": "clew let-go --list",
    "sites": "clew site list",
    "recordings": "clew replay --list",
    "exercises": "clew catalogue",
}


def as_typed(remedy: Remedy) -> str:
    """Returns what to type for a remedy; empty for a remedy that this version does not know."""
    site, value, what = shlex.quote(remedy.site), shlex.quote(remedy.value), remedy.what.replace("_", "-")
    example = value if remedy.value else f"{remedy.what or 'mnist'}.npz"
    option = f"clew site set {site} {what}=" if remedy.site else f"--{what} "
    words = {
        SET: f"{option}{value}" if remedy.value else f"--{what}",
        CHOOSE: f"{option}{_PLACEHOLDERS.get(remedy.what, 'NAME')}",
        OWN_FILE: f"--data /here/{example}",
        SITE_PATH_OF_DATA: f"--data site:/there/{example}",
        MODULES: f"clew site modules {site}",
        CHECK_NODE: f"clew site doctor {site} --job",
        CONSENT: f"clew site show {site} --consent",
        LOG_OUT: "clew logout",
        HOLD: f"clew hold --site {site}",
        FRESH_SHELL: f"clew shell --site {site} --fresh",
        LIST: _LISTS.get(remedy.what, ""),
        VERIFY: f"clew verify {value}",
        CONTINUE: f"clew resume {value}",
        RUN: f"clew run {value}",
        SET_UP: f"clew setup-{what}",
    }
    return words.get(remedy.act, "")


def typed_sentence(remedies: Iterable[Remedy]) -> str:
    """``Use --time 00:02:00 or --partition NAME.``, ``See: clew runs``; empty without remedies."""
    typed = list(dict.fromkeys(words for words in map(as_typed, remedies) if words))
    flags, commands = ([word for word in typed if word.startswith("--") is flag] for flag in (True, False))
    parts = [f"Use {either(flags)}."] if flags else []
    return " ".join([*parts, *([f"Type: {either(commands)}"] if commands else [])])
