"""The account: what the login shell does, the home folder and its quota, the clock."""

from __future__ import annotations

import re
import time

from clew_gui.courses.course import SharedPlace, read_place, site_name
from clew_gui.courses.shared_folder import SharedFolder
from clew_gui.courses.store import Courses
from clew_gui.doctor.examination import CheckResult, Diagnosis, fine, note, refused, wrong
from clew_gui.sites.site_connection import explain_write_error
from clew_shared.base.number_words import in_bytes
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError

LEAST_BYTES = 300_000_000
"""The bytes that the agent, its small packages and some runs with checkpoints need."""
NEEDED_BYTES = 20_000_000
"""The bytes that the agent, its small packages and the journal of one run need at least."""
SLOW_S = 5.0
"""A login shell that takes longer makes every step of a job feel broken."""
CLOCK_S = 5.0
"""Below that nothing that Clew compares between two clocks changes."""
_NEARLY = 0.9

# Who logs in for one command gets the same start-up files, as OpenSSH's own shells do.
_NOISE = """command -v head >/dev/null || exit 0
env -u SHLVL "${SHELL:-/bin/sh}" -c : 2>&1 </dev/null | head -c 2000"""
_WRITE = """umask 077; mkdir -p -- "$1" && file="$1/.doctor.$$" && trap 'rm -f -- "$file"' EXIT &&
head -c 65536 /dev/zero >"$file" && [ "$(wc -c <"$file")" -eq 65536 ] && df -Pk -- "$1" && df -Pi -- "$1" """
_QUOTA = """quota -w 2>/dev/null; command -v lfs >/dev/null && lfs quota -q -u "$(id -un)" "$1" 2>/dev/null; :"""


def shell(diagnosis: Diagnosis) -> CheckResult:
    """Whether the login runs commands, and what it prints or waits for before it does."""
    started = time.monotonic()
    done = diagnosis.sh(_NOISE)
    took = time.monotonic() - started
    if done.late:
        return wrong(
            "The login works, but its shell does not get as far as running a command.",
            "Look for something that waits in ~/.bashrc there, such as a question or a module on a dead file system.",
            "ssh.shell",
        )
    lines = [line.strip() for line in done.out.splitlines() if line.strip()]
    if lines:
        shown = f"“{lines[0][:80]}”" + (f" and {len(lines) - 1} more" if len(lines) > 1 else "")
        text = f"The login shell prints text even when nobody is there: {shown}. Clew ignores it."
        hint = "Other programs may fail: print only if $- contains i in ~/.bashrc there, if $?prompt in ~/.tcshrc."
        return note(text, hint)
    if took > SLOW_S:
        text = f"The login shell takes {took:.0f} s before it runs a command."
        return note(text, "Look for what is slow in ~/.bashrc there, such as conda init or many modules.")
    return fine("The login shell runs commands and prints nothing of its own.")


def home(diagnosis: Diagnosis) -> CheckResult:
    """Whether there is room, found out by writing there."""
    folder = diagnosis.connection.layout().home
    done = diagnosis.sh(_WRITE, folder)
    if done.late:
        text = f"The file system of {folder} does not answer."
        return wrong(text, "Report it to the site's support; try again later.", "site.folder")
    if done.code:
        return refused(explain_write_error(folder, done.said))
    free, total = _room(done.out)
    if free is None:
        return fine(f"{folder} can be written.")
    text = f"{folder} can be written; {in_bytes(free)} of {in_bytes(total)} are free."
    hint = f"Make room: the agent and some runs need {in_bytes(LEAST_BYTES)}, or name scratch in the site."
    if free < NEEDED_BYTES:
        return wrong(f"{text} No run can begin with so little.", hint, "site.full")
    if free < LEAST_BYTES:
        return note(text, hint)
    return fine(text)


def _room(text: str) -> tuple[int | None, int]:
    """Free and total bytes in what ``df -Pk`` says."""
    match = re.search(r"^\S.*?\s([0-9]+)\s+[0-9]+\s+([0-9]+)\s+[0-9]+%\s", text, re.MULTILINE)
    return (int(match[2]) * 1024, int(match[1]) * 1024) if match is not None else (None, 0)


def quota(diagnosis: Diagnosis) -> CheckResult:
    """Checks what is left of the quota, if the site reports it."""
    limits = parse_quota(diagnosis.sh(_QUOTA, diagnosis.connection.layout().home).out)
    if not limits:
        return fine("The site reports no quota for you.")
    where, used, limit = max(limits, key=lambda one: one[1] / one[2])
    text = f"On {where} {in_bytes(used)} of your {in_bytes(limit)} are used."
    if used >= limit:
        return wrong(
            f"{text} No more can be written.", "Delete something there, or name scratch in the site.", "site.quota"
        )
    if used >= limit * _NEARLY:
        return note(text, "There may not be enough room for the checkpoints of a long run.")
    return fine(text)


def parse_quota(text: str) -> list[tuple[str, int, int]]:
    """File system, bytes used and allowed for each line of ``quota -w`` or ``lfs quota -q`` that has a limit."""
    found = []
    for line in text.splitlines():
        cells = line.split()
        if len(cells) < 4 or not all(re.fullmatch(r"[0-9]{1,18}\*?", cell) for cell in cells[1:4]):
            continue
        used, soft, hard = (int(cell.rstrip("*")) * 1024 for cell in cells[1:4])
        if hard or soft:
            found.append((cells[0], used, hard or soft))
    return found


def class_folders(name: str, places: Places) -> list[SharedPlace]:
    """Where on the site ``name`` the class of the followed course meets."""
    course, _ = Courses(places).look()  # of one that cannot be read others tell
    named = map(read_place, (course.board, course.hand_in)) if course is not None else ()
    return [place for place in named if course and place.site and site_name(course.id, place.site) == name]


def protected(diagnosis: Diagnosis) -> CheckResult:
    """Whether the folders of a class protect what a student puts there."""
    found = class_folders(diagnosis.name, diagnosis.places)
    try:
        for place in found:
            SharedFolder(place, lambda: diagnosis.connection).checked()
    except ProblemError as error:
        return note(error.problems[0].text, error.problems[0].hint)
    paths = " and ".join(place.path for place in found)
    return fine(f"Each student can write to {paths}, and only the teacher reads it.")


def clock(diagnosis: Diagnosis) -> CheckResult:
    """Checks how far the login node's clock is from this computer's; the answer is assumed to take half of the time."""
    started = time.time()
    done = diagnosis.sh("date +%s.%N")
    ended = time.time()
    match = re.fullmatch(r"\s*([0-9]{9,11}(?:\.[0-9]+)?)\D*", done.out)
    if match is None:
        return fine("The login node's clock cannot be read.")
    return compared(float(match[1]) - (started + ended) / 2, "login node", (ended - started) / 2)


def compared(ahead: float, whose: str, doubt: float = 0.0) -> CheckResult:
    """A sentence about a clock that is ``ahead`` seconds ahead of this computer's."""
    if abs(ahead) - doubt < 1.0:
        return fine(f"The {whose}'s clock and this computer's agree.")
    text = f"The {whose}'s clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this computer's."
    if abs(ahead) - doubt < CLOCK_S:
        return fine(text)
    return note(text, "Switch network time on here. Curves keep their order; one-time codes may be refused.")
