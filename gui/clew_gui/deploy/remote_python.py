"""What the agent needs from a site's Python. Runs programs in it on the login node, with the modules, prologue and
environment of a job. They come over standard input: nothing is written there, and no argument is longer than a line.
"""

from __future__ import annotations

import logging
import secrets
import shlex
import time
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

import msgspec

from clew_gui.schedulers.job import keeper
from clew_gui.schedulers.state import Output
from clew_gui.sites.site import Site
from clew_gui.sites.site_connection import SiteConnection
from clew_shared.base.foreign import json_or_none
from clew_shared.base.number_words import duration
from clew_shared.base.problem import ProblemError, problem
from clew_shared.base.remedies import list_modules

PYTHON = (3, 11)
"""The oldest Python that will do."""
TENSORFLOW = "tensorflow"
KERAS = "keras"


class Need(msgspec.Struct, frozen=True):
    """A distribution in version ``least`` or newer, known by its ``module``; ``others`` are names it also goes by."""

    name: str
    module: str
    least: str
    others: tuple[str, ...] = ()

    @property
    def requirement(self) -> str:
        """Returns the requirement for pip: ``msgspec>=0.20``."""
        return f"{self.name}>={self.least}"


FRAMEWORK = (
    Need(TENSORFLOW, "tensorflow", "2.16", ("tensorflow-cpu", "tensorflow-aarch64", "tensorflow-rocm", "tf-nightly")),
    Need(KERAS, "keras", "3.3"),
    Need("numpy", "numpy", "1.26"),
)
"""The site's own; Clew never brings it."""

SMALL = (
    Need("msgspec", "msgspec", "0.20"),
    Need("platformdirs", "platformdirs", "4.2"),
    Need("psutil", "psutil", "6.0"),
    Need("pyzmq", "zmq", "26.2"),
    Need("setproctitle", "setproctitle", "1.3"),
    Need("tomli-w", "tomli_w", "1.0"),
)
"""A few megabytes, brought where the site lacks them."""


# --- Programs in it ---------------------------------------------------------------------------------------------------

_log = logging.getLogger(__name__)

_SAID_S = 30.0
"""The seconds after which it is said that it takes long, each time."""
_START = 'exec 9<&0 </dev/null && exec bash -l -c "$1" bash "$2"'
_READ = 'eval "$(head -c "$1" <&9)"'
_BEGIN = """import sys
sys.path[:] = [path for path in sys.path if path]  # nothing of the current folder
import json
exec(compile(sys.stdin.buffer.read({length}), "<clew>", "exec"))
question = json.loads(sys.stdin.buffer.readline().decode("utf-8"))
print("\\n{mark}" + json.dumps(answer(question)))"""
_PYTHONS = ("python3", "python3.13", "python3.12", "python3.11")
_SUITS = """import sys
sys.path[:] = [path for path in sys.path if path]
import json  # as all programs here do
from importlib.util import find_spec
sys.exit(11 if sys.version_info < (3, 11) else 0 if find_spec("tensorflow") else 10)"""

# The first Python that is new enough and has TensorFlow, else one that is new enough, else any that answers. All of a
# name on the path are looked at: a module that was loaded later may have put another Python before TensorFlow's.
_CHOOSE = """
clew_choose() {
    clew_new= clew_old= clew_astray=
    local IFS=$'\\n'
    for clew_path in $(type -aP -- "$@" | awk 'seen[$0]++ == 0'); do
        "$clew_path" -c "$clew_suits" </dev/null >/dev/null 2>&1
        case $? in
            0) clew_new=$clew_path && break ;;
            10) clew_new=${clew_new:-$clew_path} ;;
            11) clew_old=${clew_old:-$clew_path} ;;
            *) clew_astray="${PYTHONHOME:+PYTHONHOME }${PYTHONPATH:+PYTHONPATH }${LD_LIBRARY_PATH:+LD_LIBRARY_PATH}" ;;
        esac
    done
    clew_python=${clew_new:-$clew_old}
    export CLEW_TOO_OLD="$clew_old"
    [ -n "$clew_python" ] || clew_finish python 3 "$clew_astray"
}
"""


def ask_there(
    connection: SiteConnection,
    program: str,
    question: Mapping[str, Any],
    payload: bytes = b"",
    report: Callable[[str], None] = _log.info,
) -> dict[str, Any]:
    """Run ``program``, a file beside this one, and call its ``answer`` with the question. ``payload`` follows that.
    If it takes long, that is reported now and then; ``report`` may raise to give it up.

    Raises ``ProblemError`` when the site has no Python, a module cannot be loaded, or nothing answers.
    """
    mark = f"clew-{secrets.token_hex(8)}:"
    source = files("clew_gui.deploy").joinpath(program).read_bytes()
    shell = _shell(connection.site, mark, len(source)).encode()
    asked = msgspec.json.encode(question) + b"\n"
    words = ("sh", "-c", _START, "sh", _READ, str(len(shell)))
    moved = _patience(connection, report)
    done = _behind_noise(connection.work(words, stdin=shell + source + asked + payload, moved=moved), mark)
    answer = read_answer(done.out, mark)
    if answer is None:
        raise _silent(connection, done)
    if answer.get("refused") in ("module", "python") and "detail" in answer:
        raise _refused(connection, answer, done.out.partition(mark)[0])
    return answer


def _patience(connection: SiteConnection, report: Callable[[str], None]) -> Callable[[], None]:
    """Reports each half minute that it goes on."""
    begun, said = time.monotonic(), 0

    def moved() -> None:
        nonlocal said
        seconds = time.monotonic() - begun
        if seconds // _SAID_S > said:
            said = int(seconds // _SAID_S)
            report(f"{connection.title} takes long to prepare its Python: {duration(round(seconds))} so far.")

    return moved


def _shell(site: Site, mark: str, length: int) -> str:
    """Returns what bash does before Python: it loads modules in the keeper's own way, so that a job finds the same."""
    refuse = f"""clew_finish() {{ printf '\\n%s{{"refused":"%s","detail":"%s"}}\\n' {mark} "$1" "$3"; exit "$2"; }}"""
    lines = [f"echo {mark}", keeper(), refuse, "clew_scratch=$(mktemp -d) && trap 'rm -rf \"$clew_scratch\"' EXIT"]
    lines += ["clew_record=${clew_scratch:-$HOME}/there"]
    lines += ["clew_find_modules"] if site.modules else []
    lines += [f"clew_load {shlex.quote(name)}" for name in site.modules]
    lines += [site.prologue.strip("\n"), "set +e +u", f"clew_suits={shlex.quote(_SUITS)}", _CHOOSE]
    names = " ".join(remote_word(name) for name in pythons(site))
    begin = shlex.quote(_BEGIN.format(length=length, mark=mark))
    return "\n".join([*lines, f"clew_choose {names}", f'"$clew_python" -c {begin} <&9', ""])


def pythons(site: Site) -> tuple[str, ...]:
    """The interpreters to try, the first one first: what the site names, else what its modules put on the path."""
    if site.venv:
        return (f"{site.venv.rstrip('/')}/bin/python",)
    return (site.python,) if site.python else _PYTHONS


def remote_word(path: str) -> str:
    """A path of the site as a word for its shell: ``~/`` at its beginning means the home folder."""
    if path == "~" or path.startswith("~/"):
        return f'"$HOME"{shlex.quote(path[1:])}' if path[1:] else '"$HOME"'
    return shlex.quote(path)


def _behind_noise(done: Output, mark: str) -> Output:
    """Removes what the login shell's own files print before our shell begins, unless that never begins."""
    _, begun, rest = done.out.partition(f"{mark}\n")
    return msgspec.structs.replace(done, out=rest) if begun else done


def read_answer(out: str, mark: str) -> dict[str, Any] | None:
    """Reads what comes after the last ``mark`` in a shell's output; None if it is no JSON object."""
    _, found, rest = out.rpartition(mark)
    return json_or_none(rest.partition("\n")[0], dict[str, Any]) if found else None


def _refused(connection: SiteConnection, answer: Mapping[str, Any], before: str) -> ProblemError:
    title, detail = connection.title, answer["detail"]
    if answer["refused"] == "python":
        tried = " or ".join(pythons(connection.site))
        text = f"There is no working Python on {title}: looked for {tried}."
        hint = "Name a module that brings one, or python or venv, in the site."
        if detail:  # it is there, and does not start
            named = " and ".join(str(detail).split())
            hint = f"Your account or the site sets {named} there, mostly for another Python: remove that."
        return problem("bootstrap.python", text, hint, connection.name)
    if detail == "module-command":
        text = f"{title} has no module command, but the site names modules: {', '.join(connection.site.modules)}."
        return problem(
            "bootstrap.module",
            text,
            "Remove them from the site, or source what brings the command in its prologue.",
            connection.name,
        )
    text = f"The module {detail} cannot be loaded on {title}.{_said(before)}"
    remedy = list_modules(connection.name, detail)
    return problem("bootstrap.module", text, "Name one that the site has.", connection.name, remedy)


def _silent(connection: SiteConnection, done: Output) -> ProblemError:
    if done.late:
        text = f"{connection.title} did not prepare its Python: nothing moves there any more."
        return problem("bootstrap.late", text, "The login node may be busy. Try again.", connection.name)
    text = f"{connection.title} could not run its Python (exit code {done.code}).{_said(done.said)}"
    where = "modules and prologue" if connection.site.prologue or connection.site.modules else "python in the site"
    return problem("bootstrap.there", text, f"Check the {where}.", connection.name)


def _said(text: str) -> str:
    lines = [one.strip() for one in text.splitlines() if one.strip()]
    return f" It said: {' '.join(lines[-3:])[:400]}" if lines else ""
