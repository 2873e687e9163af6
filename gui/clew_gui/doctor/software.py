"""Checks what a job would find on the login node: modules, Python, TensorFlow, the agent's packages, GPUs, data. Lists
and loads the site's modules, Tcl modules and Lmod alike."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

import msgspec

from clew_gui.base.checked_text import is_module
from clew_gui.deploy.install import try_packages
from clew_gui.deploy.probe import Probe, probe, python_problems
from clew_gui.deploy.remote_python import FRAMEWORK, TENSORFLOW
from clew_gui.doctor.examination import CheckResult, Diagnosis, Verdict, fine, last_line, listed, note, refused, wrong
from clew_gui.schedulers.job import keeper
from clew_gui.sites.consent import consents, words_of
from clew_gui.sites.site_connection import SiteConnection
from clew_shared.base.number_words import counted
from clew_shared.base.problem import ProblemError, problem
from clew_shared.base.remedies import list_modules, read_consent
from clew_shared.catalogue import known_sets, load_builtin
from clew_shared.data_sets import BUILT_IN, USUAL, packaged_file

_PYTHON_CODES = ("bootstrap.old", "bootstrap.machine")
_MACHINE = """nproc 2>/dev/null || echo; awk '/^MemTotal/ {print $2}' /proc/meminfo 2>/dev/null || echo
command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null"""
_DATA = """path=$1; case $path in '~/'*) path=$HOME/${path#??} ;; esac
[ -e "$path" ] || exit 3; [ -r "$path" ] || exit 4; names=$(ls -A -- "$path") || exit 5
printf '%s\\n' "$names" | head -n 1000"""


def consent(diagnosis: Diagnosis) -> CheckResult:
    """Whether the lines of shell that the site brings may be run."""
    words = words_of(diagnosis.site)
    if not words:
        return fine("The site runs no shell commands of its own.")
    if not consents(diagnosis.places).missing(words):
        return fine("You have approved the shell commands that the site runs in each job.")
    text = "The site runs shell commands of its own in each job, and you have not approved them yet."
    return wrong(text, "Read and approve them.", "site.consent", read_consent(diagnosis.name))


def modules(diagnosis: Diagnosis) -> CheckResult:
    """Whether the site's modules can be loaded, with all that cannot be in one result."""
    wanted = diagnosis.site.modules
    if not wanted:
        return fine("The site loads no modules.")
    done = load(diagnosis.connection, wanted)
    if done.no_command:
        diagnosis.refused_modules = wanted
        text = f"There is no module command, but the site loads modules: {listed(wanted)}."
        hint = "Remove them from the site, or source what brings the command in its prologue."
        return wrong(text, hint, "modules.absent")
    if done.refused:
        diagnosis.refused_modules = done.refused
        one = len(done.refused) == 1
        text = (
            f"The module {done.refused[0]} cannot be loaded." if one else f"Cannot be loaded: {listed(done.refused)}."
        )
        said = f" It said: {done.said}" if done.said else ""
        hint = _others(diagnosis, done.refused[0])
        return wrong(text + said, hint, "modules.missing", list_modules(diagnosis.name, done.refused[0]))
    return fine(f"Loaded: {listed(wanted)}.")


def _others(diagnosis: Diagnosis, name: str) -> str:
    """Suggests what to name instead."""
    see = "Name another of those that the site has."
    try:
        meant = near(name, available(diagnosis.connection))
    except ProblemError:
        return see
    return f"Did you mean {' or '.join(meant)}?" if meant else see


def python(diagnosis: Diagnosis) -> CheckResult:
    """The Python that the agent would run in; the bootstrap's own probe finds it."""
    connection, without = diagnosis.connection, ""
    if diagnosis.refused_modules:
        connection = diagnosis.connection_with(
            [one for one in diagnosis.site.modules if one not in diagnosis.refused_modules]
        )
        without = "Without the modules that cannot be loaded: "
    diagnosis.probed = found = probe(connection, thorough=True)
    problems = [one for one in python_problems(diagnosis.connection, found) if one.code in _PYTHON_CODES]
    if problems:
        return refused(problems[0])
    return fine(f"{without}{found.executable} is Python {found.python}, {found.system} on {found.machine}.")


def _probed(diagnosis: Diagnosis) -> Probe:
    assert diagnosis.probed is not None  # noqa: S101  # the check of Python goes before
    return diagnosis.probed


def tensorflow(diagnosis: Diagnosis) -> CheckResult:
    """The versions of TensorFlow, Keras and NumPy, without importing them."""
    problems = [
        one for one in python_problems(diagnosis.connection, _probed(diagnosis)) if one.code not in _PYTHON_CODES
    ]
    if problems:
        return refused(problems[0])
    have = _probed(diagnosis).have
    names = {TENSORFLOW: "TensorFlow", "keras": "Keras", "numpy": "NumPy"}
    return fine(f"{listed([f'{names[need.name]} {have[need.name]}' for need in FRAMEWORK])}.")


def packages(diagnosis: Diagnosis) -> CheckResult:
    """The small packages of the agent; what is missing is brought along, if it can be had for that Python."""
    found = _probed(diagnosis)
    missing = [name for name in found.missing if name not in {need.name for need in FRAMEWORK}]
    if not missing:
        return fine("Everything else that the agent needs is there.")
    if found.states.get(found.packages) == "intact":
        return fine(f"What the site lacks is there already, brought by Clew: {listed(missing)}.")
    fetched = try_packages(diagnosis.connection, found, lambda _: None)
    if fetched:
        return fine(f"Clew brings what the site lacks; the site's own pip fetches {listed(fetched)}.")
    return fine(f"Clew brings what the site lacks, a few megabytes: {listed(missing)}.")


def devices(diagnosis: Diagnosis) -> CheckResult:
    """Cores, memory and GPUs of the host that one logs in to."""
    done = diagnosis.sh(_MACHINE)
    cores, memory, *cards = [*done.out.splitlines(), "", ""]
    cards = [card.strip() for card in cards if card.startswith("GPU ")]
    parts = [counted(int(cores), "core")] if cores.isdecimal() else []
    parts += [f"{int(memory) * 1024 / 1e9:.0f} GB of memory"] if memory.isdecimal() else []
    gpus = f"GPUs: {listed([card.partition(' (UUID')[0] for card in cards])}" if cards else "no NVIDIA GPU"
    if not diagnosis.scheduler.has_queue:
        text = f"The host has {', '.join([*parts, gpus])}."
        return (
            note(text, "Runs train on its processor.") if diagnosis.site.allocation.gpus and not cards else fine(text)
        )
    return fine(f"The login node has {', '.join([*parts, gpus])}.")


def data(diagnosis: Diagnosis) -> CheckResult:
    """Whether the course's data can be read, and which of the data sets known by name are there for which exercises."""
    folder = _course_data(diagnosis)
    found = diagnosis.probed
    if found is None or folder.verdict is Verdict.BAD:
        return folder
    built_in = known_sets()[BUILT_IN]
    here, there = packaged_file(built_in) is not None, bool(found.digits)
    sets = {USUAL: f"not found in {listed(found.searched)}"}
    sets |= {name: f"found in {file}" for name, file in found.sets.items()}
    digits = "come with the agent" if here else f"come with {built_in.package} there" if there else "not there"
    places = " ".join(f"{_exercises(name)}: {where}." for name, where in (sets | {BUILT_IN: digits}).items())
    text = f"{folder.text} {places}"
    if here or there:
        return folder._replace(text=text)
    way = f"Install {built_in.package} on this computer, and Clew brings the digits along."
    return note(text, f"{folder.hint} {way}".lstrip())


def _exercises(name: str) -> str:
    """A data set with the exercises that can use it: ``mnist (softmax, cnn)``."""
    return f"{name} ({listed([card.id for card in load_builtin().exercises if name in card.datasets])})"


def _course_data(diagnosis: Diagnosis) -> CheckResult:
    path = diagnosis.site.data
    if not path:
        return fine("The site names no data of its own. Yours are brought there when a run needs them.")
    done = diagnosis.sh(_DATA, path)
    hint = "Correct data in the site, or leave it out: yours are brought along then."
    if done.code == 3:
        return wrong(f"The site's data are not there: {path}.", hint, "site.data")
    if done.failed:
        said = f": {last_line(done)}" if last_line(done) else ""
        return wrong(f"The site's data cannot be read: {path}{said}.", f"Ask their owner. {hint}", "site.data")
    names = [one for one in done.out.splitlines() if one]
    return fine(f"{path} can be read: {listed(names, 5)}.") if names else note(f"{path} can be read, and is empty.")


# --- Modules ----------------------------------------------------------------------------------------------------------


_NO_COMMAND = "module-command"

# The keeper's own way of loading, so that a job finds the same; what it would end a job for is said instead.
_SAY = """
clew_finish() { printf '\\nclew-refuses %s\\n' "$3"; }
clew_record=$(mktemp -u)
printf '\\nclew-begins\\n'
"""
_LOAD = 'clew_find_modules\nfor clew_name in "$@"; do clew_load "$clew_name"; done\n'
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


def _asked(connection: SiteConnection, script: str, modules: Sequence[str]) -> str:
    """What ``script`` prints there after the keeper's functions, without what the login shell's own files print.

    Raises ``ProblemError`` when the site does not answer.
    """
    done = connection.work(("bash", "-l", "-c", f"{keeper()}{_SAY}{script}", "bash", *modules))
    if done.late:
        text = f"The modules of {connection.title} were not listed: nothing moves there any more."
        raise problem("modules.late", text, "The site may be busy. Try again.", connection.name)
    return done.out.partition("\nclew-begins\n")[2]


def load(connection: SiteConnection, modules: Sequence[str]) -> Loaded:
    """Load ``modules`` in their order, as a job will. Raises ``ProblemError`` when the site does not answer."""
    out = _asked(connection, _LOAD, modules)
    refused = re.findall(r"^clew-refuses (\S+)$", out, re.MULTILINE)
    said = [one.strip() for one in out.splitlines() if one.strip() and not one.startswith("clew-refuses")]
    return Loaded(tuple(one for one in refused if one != _NO_COMMAND), " ".join(said)[:300], _NO_COMMAND in refused)


def available(connection: SiteConnection) -> Available:
    """Returns all that ``module avail`` has once the site's own modules are loaded. Raises ``ProblemError`` if there
    are none, or no answer."""
    out = _asked(connection, _LIST, connection.site.modules)
    if f"clew-refuses {_NO_COMMAND}" in out:
        text = f"{connection.title} has no module command."
        hint = "Name python or venv in the site, or source what brings modules in its prologue."
        raise problem("modules.absent", text, hint, connection.name)
    return parse_avail(out)


def parse_avail(out: str) -> Available:
    """The names in ``module -t avail``: headings end with a colon, Tcl's marks are in brackets."""
    names: dict[str, None] = {}
    default = set()
    for line in out.partition("\nclew-default")[0].splitlines():
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
