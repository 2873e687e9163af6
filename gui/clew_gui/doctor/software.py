"""Checks what a job would find on the login node: modules, Python, TensorFlow, the agent's packages, GPUs, data."""

from __future__ import annotations

from clew_gui.deploy.install import try_packages
from clew_gui.deploy.probe import Probe, probe, unfit
from clew_gui.deploy.requirements import FRAMEWORK, TENSORFLOW
from clew_gui.doctor.context import Diagnosis, last_line, listed
from clew_gui.doctor.finding import CheckResult, Verdict, fine, note, refused, wrong
from clew_gui.doctor.modules import available, load, near
from clew_gui.sites.consent import consents, words_of
from clew_shared.base.number_words import counted
from clew_shared.base.problem import ProblemError
from clew_shared.base.remedies import check_node, list_modules, read_consent
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
    problems = [one for one in unfit(diagnosis.connection, found) if one.code in _PYTHON_CODES]
    if problems:
        return refused(problems[0])
    return fine(f"{without}{found.executable} is Python {found.python}, {found.system} on {found.machine}.")


def _probed(diagnosis: Diagnosis) -> Probe:
    assert diagnosis.probed is not None  # noqa: S101  # the check of Python goes before
    return diagnosis.probed


def tensorflow(diagnosis: Diagnosis) -> CheckResult:
    """The versions of TensorFlow, Keras and NumPy, without importing them."""
    problems = [one for one in unfit(diagnosis.connection, _probed(diagnosis)) if one.code not in _PYTHON_CODES]
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
    text = f"The login node has {', '.join([*parts, gpus])}. A check with a small job says what a node has."
    return fine(text, check_node(diagnosis.name))


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
    if done.code or done.late:
        said = f": {last_line(done)}" if last_line(done) else ""
        return wrong(f"The site's data cannot be read: {path}{said}.", f"Ask their owner. {hint}", "site.data")
    names = [one for one in done.out.splitlines() if one]
    return fine(f"{path} can be read: {listed(names, 5)}.") if names else note(f"{path} can be read, and is empty.")
