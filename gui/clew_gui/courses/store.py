"""The courses that a person has opened, each a folder below the settings' folder, and the one that is current."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from clew_gui.base.settings import local_settings
from clew_gui.courses.board import Sharing
from clew_gui.courses.course import Course, read_place, site_name
from clew_gui.courses.course_file import CourseFiles, read_course, what_it_adds
from clew_gui.sites.consent import consents, words_of
from clew_gui.sites.site_file import to_toml
from clew_gui.sites.store import site_store
from clew_shared.base import operating_system
from clew_shared.base.places import Places
from clew_shared.base.private_files import make_private
from clew_shared.base.problem import Problem, ProblemError, did_you_mean, os_refused, problem, raise_all
from clew_shared.base.remedies import turn_on


class OpenCourse(msgspec.Struct, frozen=True):
    """A course on this computer; ``found`` is None where its files cannot be read, and ``problems`` say why."""

    id: str
    folder: Path
    found: CourseFiles | None
    problems: tuple[Problem, ...] = ()

    @property
    def title(self) -> str:
        """What it calls itself; its id where its files cannot be read."""
        return self.found.course.title if self.found is not None else self.id


class Courses:
    """The opened courses of one user."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._folder = places.courses
        self._settings = local_settings(places)

    def all(self) -> list[OpenCourse]:
        """All that are open, by id; one that cannot be read hides no other."""
        return [_opened(path) for path in self._folders()]

    def _folders(self) -> list[Path]:
        with suppress(OSError):
            return [path for path in sorted(self._folder.iterdir()) if not path.name.startswith(".")]
        return []

    def find(self, course: str) -> OpenCourse | None:
        """The one with this id; None if it is not open."""
        return next((_opened(path) for path in self._folders() if path.name == course), None)

    def get(self, course: str) -> OpenCourse:
        """The one with this id. Raises ``ProblemError``."""
        if (found := self.find(course)) is not None:
            return found
        names = [path.name for path in self._folders()]
        hint = did_you_mean(course, names) or (f"Open: {', '.join(names)}." if names else "Open one: clew course open")
        raise problem("course.absent", f"No course {course!r} is open here.", hint, course)

    @property
    def current_id(self) -> str:
        """The id of the course that is followed; empty for none."""
        return self._settings.load().course

    def look(self) -> tuple[Course | None, tuple[Problem, ...]]:
        """The course that is followed, None for none, and why its files cannot be read."""
        if not (name := self.current_id):
            return None, ()
        try:
            return read_course(self._folder / name, whole=False).course, ()
        except ProblemError as error:
            text = f"The course {name}, which you follow, cannot be read: {error.problems[0].text}"
            return None, (Problem("course.read", text, "Open its file again, or leave it.", name),)

    def current(self) -> Course | None:
        """The course that is followed; None for none. Raises ``ProblemError`` where its files cannot be read."""
        course, problems = self.look()
        raise_all(problems)
        return course

    def followed(self, *folders: Literal["board", "hand_in"]) -> Course:
        """The course that is followed, if it has one of these folders of the class. Raises ``ProblemError``."""
        course = self.current()
        if course is None or not any(getattr(course, folder) for folder in folders):
            what = "a board" if "board" in folders else "a folder for hand-ins"
            raise problem("course.absent", f"No course with {what} is followed here.", "Open the course.", "course")
        return course

    def use(self, course: str) -> None:
        """Follow an open course; with an empty id none. Raises ``ProblemError``."""
        if course:
            self.get(course)
        self._settings.keep(msgspec.structs.replace(self._settings.load(), course=course))

    def what_it_adds(self, found: CourseFiles) -> list[str]:
        """All that opening a course brings to this computer, in lines, and what changes where it is open."""
        before, lines = self.find(found.course.id), list(what_it_adds(found))
        if before is None or before.found is None:
            return lines
        if before.found.digest == found.digest:
            return ["The course is open here as it is."]
        earlier = dict.fromkeys(what_it_adds(before.found))
        gone = [f"- {line}" for line in earlier.keys() - set(lines)]
        marked = [f"{' ' if line in earlier else '+'} {line}" for line in lines]
        return ["What is new begins with +, what goes with -. Long texts are not listed.", *marked, *sorted(gone)]

    def open(self, found: CourseFiles, consent: bool) -> bool:
        """Keep a course, replacing an earlier state of it as a whole, and follow it; returns whether it was new.

        Raises ``ProblemError`` without ``consent``, which a person gives for what ``what_it_adds`` says, unless this
        very course is open.
        """
        course = found.course.id
        before = self.find(course)
        same = before is not None and before.found is not None and before.found.digest == found.digest
        if not (consent or same):
            text = f"You have not agreed to what the course {course} adds to this computer."
            raise problem("course.consent", text, "Read what it adds, and agree.", course, turn_on("consent"))
        if not same:
            self._check_names(found)
            self._write(found)
            consents(self._places).give(tuple(words for site in found.sites.values() for words in words_of(site)))
        self.use(course)
        return before is None

    def nameless(self, found: CourseFiles) -> list[str]:
        """The sites of an open course for which neither it nor the person has named an account."""
        known = site_store(self._places).known()
        names = [site_name(found.course.id, name) for name in found.sites]
        return [name for name in names if (site := known.get(name)) is not None and site.host and not site.user]

    def _check_names(self, found: CourseFiles) -> None:
        """Raise ``ProblemError`` where another site has the name of one of the course's."""
        store, own = site_store(self._places), self._folder / found.course.id
        names = (site_name(found.course.id, name) for name in found.sites)
        raise_all(
            msgspec.structs.replace(problem, hint="Remove that site first.", remedies=())
            for name in names
            if not (own / "known-sites" / f"{name}.toml").exists()  # then a person's changed copy is of the course's
            for problem in store.check_free(name)
        )

    def _write(self, found: CourseFiles) -> None:
        target = self._folder / found.course.id
        refused = f"The course cannot be kept in {self._folder}"
        with os_refused("course.write", refused, "Make room on that disk.", str(self._folder)):
            make_private(self._folder)
            part = Path(tempfile.mkdtemp(prefix=f".{found.course.id}.", dir=self._folder))
            try:
                for name, data in found.files.items():
                    path = part / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data)
                known, earlier = part / "known-sites", target / "known-sites"
                known.mkdir()
                shared = read_place(Sharing(self._places.shared(found.course.id)).board).site
                with suppress(FileNotFoundError):  # what is shared there is still to be deleted
                    shutil.copy(earlier / f"{site_name(found.course.id, shared)}.toml", known)
                for name, site in found.sites.items():
                    path = known / f"{site_name(found.course.id, name)}.toml"
                    path.write_text(to_toml(site), encoding="utf-8", newline="\n")
                gone = [path for path in earlier.glob("*.toml") if not (known / path.name).exists()]
                before = target.with_name(f"{part.name}.before")
                if target.exists():
                    operating_system.replace_file(target, before)
                try:
                    operating_system.replace_file(part, target)
                except OSError:
                    if before.exists():
                        operating_system.replace_file(before, target)
                    raise
            finally:
                shutil.rmtree(part, ignore_errors=True)
            shutil.rmtree(before, ignore_errors=True)
            self._drop_copies(gone)

    def leavable(self, course: str) -> OpenCourse | None:
        """The one that can be left; None for the followed one if somebody has removed its folder. Raises
        ``ProblemError``."""
        return self.find(course) if course == self.current_id else self.get(course)

    def leave(self, course: str) -> None:
        """Forget a course: its exercises, its sites and what was approved of them go; runs and answers stay. Raises
        ``ProblemError``."""
        opened = self.leavable(course)
        if self.current_id == course:
            self.use("")
        if opened is None:
            return
        if opened.found is not None:
            consents(self._places).withdraw(tuple(w for site in opened.found.sites.values() for w in words_of(site)))
        with os_refused("course.write", f"{opened.folder} cannot be removed", where=course):
            self._drop_copies((opened.folder / "known-sites").glob("*.toml"))
            shutil.rmtree(opened.folder)

    def _drop_copies(self, sites: Iterable[Path]) -> None:
        """Remove a person's own copies of these sites of a course, as with an account."""
        for site in sites:
            (site_store(self._places).folder / site.name).unlink(missing_ok=True)


def _opened(folder: Path) -> OpenCourse:
    try:
        return OpenCourse(folder.name, folder, read_course(folder))
    except ProblemError as error:
        return OpenCourse(folder.name, folder, None, error.problems)
