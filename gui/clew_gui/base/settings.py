"""Settings as TOML files that a person can read and edit: typed, replaced in one go, and never what keeps Clew from
starting."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
import tomli_w

from clew_shared.base.foreign import from_toml
from clew_shared.base.places import Places
from clew_shared.base.private_files import make_private, write_private
from clew_shared.base.problem import Problem, ProblemError

_log = logging.getLogger(__name__)

T = TypeVar("T", bound=msgspec.Struct)


class LocalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of this computer. ``interpreter`` is the Python that runs its agent; empty: found by itself.
    ``exercises`` is a folder with exercise files beside the built-in ones; empty: none. ``course`` is the id of the
    open course that is followed; empty: none. ``keep_login``: for how many
    minutes after its last use a login that asked a person something stays open; 0: it ends with its command.
    ``advice``: the window and the commands give advice on runs (``clew_gui.study.advice``). ``notices``: the window
    says what became of runs while it was in the background."""

    interpreter: str = ""
    exercises: str = ""
    course: str = ""
    keep_login: int = 30
    advice: bool = True
    notices: bool = True


class SettingsFile(Generic[T]):
    """One table of settings in ``path``, of a struct ``kind`` whose fields all have defaults.

    ``problem`` says why the last ``load`` gave the defaults although there was a file, or why the last ``save`` failed.
    """

    def __init__(self, path: Path, kind: type[T]) -> None:
        self.path = path
        self.problem: Problem | None = None
        self._kind = kind

    def load(self) -> T:
        """The settings; the defaults when there is no file or it cannot be read. Unknown fields are ignored."""
        self.problem = None
        try:
            return msgspec.convert(from_toml(self.path.read_text(encoding="utf-8")), self._kind, strict=True)
        except FileNotFoundError:
            return self._kind()
        except (OSError, ValueError, RecursionError) as error:  # ValueError: TOML, Unicode and msgspec's own
            text = f"The settings in {self.path} cannot be read: {error}."
            self.problem = Problem("settings.read", text, "The defaults are used.", str(self.path))
            return self._kind()

    def save(self, value: T) -> None:
        """Replace the file. Never raises: a window that cannot remember still works. Fields that are None are left out.

        A file that could not be read is kept beside the new one, as ``<name>.broken``.
        """
        broken = self.problem is not None and self.problem.code == "settings.read"
        fields = msgspec.to_builtins(value, order="deterministic")
        table = {name: field for name, field in fields.items() if field is not None}
        try:
            make_private(self.path.parent)
            if broken and self.path.exists():
                self.path.replace(self.path.with_name(f"{self.path.name}.broken"))
            write_private(self.path, tomli_w.dumps(table).encode())
            self.problem = None
        except Exception as error:  # noqa: BLE001  # whatever the disk or a value says: closing a window must not fail
            text = f"The settings cannot be saved in {self.path}: {error}."
            self.problem = Problem("settings.write", text, "They apply until Clew ends.", str(self.path))
            _log.info("%s", text)

    def keep(self, value: T) -> None:
        """Replace the file. Raises ``ProblemError``."""
        self.save(value)
        if self.problem is not None:
            raise ProblemError(msgspec.structs.replace(self.problem, hint="Make room there, or make it writable."))


def local_settings(places: Places) -> SettingsFile[LocalSettings]:
    """The file with the settings of this computer."""
    return SettingsFile(places.config / "local.toml", LocalSettings)


def course_exercises(places: Places) -> str:
    """The folder of the exercise files that the followed course brings; empty if there are none."""
    course = local_settings(places).load().course
    folder = places.courses / course / "exercises"
    return str(folder) if course and folder.is_dir() else ""


def exercises_folder(places: Places) -> str:
    """The folder of exercise files beside the built-in ones: that of the course, if it has one, else a person's own."""
    return course_exercises(places) or local_settings(places).load().exercises
