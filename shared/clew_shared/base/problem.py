"""Refusals that a person can meet: what is wrong, why, and what to do now."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import msgspec

from clew_shared.base.installation import WINDOW, how_to_install
from clew_shared.base.remedies import Remedy, typed_sentence


class Problem(msgspec.Struct, frozen=True):
    """A refusal in words that a person can act on.

    ``code`` is a stable dotted name ("params.value"), explained in ``clew_shared/problems``; ``text`` says what is
    wrong and why, with the value and the limit in it, ``hint`` says what to do now (may be empty), ``where`` names the
    field, file or host concerned.
    ``remedies`` are ways out as data: the window makes buttons of them, and ``command_text`` says what to type.
    """

    code: str
    text: str
    hint: str = ""
    where: str = ""
    remedies: tuple[Remedy, ...] = ()

    def __str__(self) -> str:
        return f"{self.text} {self.hint}".rstrip()

    def command_text(self) -> str:
        """The sentences for a terminal, with what to type there."""
        return f"{self.text} {self.advice()}".rstrip()

    def advice(self) -> str:
        """What to do, and what to type, in a terminal."""
        return " ".join(filter(None, (self.hint, typed_sentence(self.remedies), self.why())))

    def why(self) -> str:
        """What to type for an explanation."""
        return f"(clew why {self.code})" if self.code else ""


class ProblemError(Exception):
    """Carries one or several problems to the nearest process border, which shows all of them."""

    def __init__(self, *problems: Problem) -> None:
        if not problems:
            raise ValueError("a ProblemError needs at least one Problem")
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems

    def command_text(self) -> str:
        """Returns the sentences of all problems for a terminal, with what to type there."""
        return "\n".join(one.command_text() for one in self.problems)


def problem(code: str, text: str, hint: str = "", where: str = "", *remedies: Remedy) -> ProblemError:
    """A ``ProblemError`` with a single problem, ready to be raised."""
    return ProblemError(Problem(code, text, hint, where, remedies))


def raise_all(problems: Iterable[Problem]) -> None:
    """Raise one ``ProblemError`` with all of ``problems``; do nothing when there are none."""
    found = tuple(problems)
    if found:
        raise ProblemError(*found)


@contextmanager
def long_names_refused() -> Iterator[None]:
    """Refuse a path that is too long for the file system, wherever it is first looked at within."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        path = str(error.filename)
        text = f"A path or name of {len(path):,} characters is too long for a file: {path[:40]}…"
        raise problem("path.long", text, "Give a shorter one.", path) from None


@contextmanager
def os_refused(code: str, text: str, hint: str = "", where: str = "") -> Iterator[None]:
    """Refuse what the operating system refuses within: ``text``, its reason, and its path where there is no ``where``.
    Raises ``ProblemError``."""
    try:
        yield
    except OSError as error:
        path = f" ({error.filename})" if error.filename and not where else ""
        raise problem(code, f"{text}: {error.strerror or error}{path}.", hint, where) from None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The hint that names the nearest of the ``known``; empty when nothing is near."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]}?" if near else ""


def check_qt() -> Problem | None:
    """Says which packages of the window are missing here, if any. Call it before ``clew_gui.app`` is imported."""
    missing = [name for name in ("PySide6", "pyqtgraph") if find_spec(name) is None]
    if not missing:
        return None
    text = f"The window needs {' and '.join(missing)}, which this Python does not have."
    hint = f"{how_to_install(*WINDOW)}. Runs without a window work as they are: clew run softmax"
    return Problem("gui.qt_missing", text, hint)


def no_tensorflow(host: str, why: str, on_node: bool = True, python: str = "") -> Problem:
    """Returns the problem that the doctor's job and a trainer report where TensorFlow cannot be imported. ``on_node``:
    of a cluster. ``python``: the one that trains, where it is not the one that runs here."""
    text = f"TensorFlow cannot be imported on {host}: {why.strip().rstrip('.') or 'no reason was given'}."
    hint = (
        "The nodes may lack a library or a module, or have another processor than the login node: name another module, "
        "python or venv in the site."
    )
    # Windows has not found a library of Microsoft's that TensorFlow's own need.
    lacking = "msvc-runtime" if "DLL load failed" in why else "tensorflow>=2.16,<2.22"
    return Problem("run.tensorflow", text, hint if on_node else f"{how_to_install(lacking, python=python)}.", host)
