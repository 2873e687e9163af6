"""Reads what jobs and their runs have left on a site: records and logs of jobs; journals and specs of runs, where no
agent serves any more, or none can be reached. One command reads many files: it may be a session of its own, which a
site answers half a second later."""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple

from clew_gui.schedulers.job import SCHEDULER_LOG
from clew_gui.schedulers.verdict import ExitRecord, parse_record
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.errors import no_file
from clew_shared.base.problem import ProblemError, problem
from clew_shared.journal.events import Seal, State
from clew_shared.journal.frames import FrameReader, Record
from clew_shared.wire.messages import MAX_FETCH_BYTES, Fetch, Fetched

_MOST_BYTES = 4 << 20
"""Bytes of one answer: some seconds of a slow link."""
_LEAST_BYTES = 64 << 10
"""An answer that is late is asked for in halves down to one file and these bytes: then the link is too slow for
anything."""
_ANSWER_S = 60.0
"""Seconds for one answer: a network disk may make a login node wait."""
# Asked for in three lines each: offset, bytes at most, pattern of paths. Answered by a line with #, and for each file
# by size, offset, number of bytes and path in a line, and the bytes.
SCRIPT = r"""export LC_ALL=C
IFS= room=$1
while read -r offset && read -r most && read -r pattern; do
    echo "#"
    for file in $pattern; do
        [ ! -e "$file" ] || [ -f "$file" ] || continue
        size=$({ wc -c <"$file"; } 2>&1) || { printf '! %s\t%s\n' "$file" "$size"; continue; }
        size=$((size)) start=$offset
        [ "$start" -ge 0 ] || start=$((size + start))
        [ "$start" -ge 0 ] || start=0
        bytes=$((size - start))
        [ "$bytes" -le "$most" ] || bytes=$most
        [ "$bytes" -le "$room" ] || bytes=$room
        [ "$bytes" -ge 0 ] || bytes=0
        printf '%s %s %s %s\n' "$size" "$start" "$bytes" "$file"
        [ "$bytes" -eq 0 ] || tail -c "+$((start + 1))" -- "$file" | head -c "$bytes"
        room=$((room - bytes))
    done
done
echo clew-end"""
_FILE = re.compile(rb"([0-9]{1,18}) ([0-9]{1,18}) ([0-9]{1,9}) (/.+)")
_UNREAD = re.compile(rb"! (/[^\t]+)\t(.*)")
_ABSENT = ("No such file", "Not a directory")
_RECORD_BYTES: Final = 65536
_PRINTED_BYTES: Final = 16384
SPEC_BYTES = 1 << 20
_END_BYTES = 64 * 1024
"""The last state and the seal, which are the last of all, are a few hundred."""
_JOURNALS = "journal.[0-9][0-9][0-9][0-9]"


class Wanted(NamedTuple):
    """``most`` bytes from ``offset`` on, which counts from the end if it is negative, of the regular files that the
    ``pattern`` of a shell names."""

    pattern: str
    offset: int
    most: int


class FoundFile(NamedTuple):
    """A file on the site, and some of its bytes from ``offset`` on."""

    path: str
    size: int
    offset: int
    data: bytes


def read_files(
    connection: SiteConnection, wanted: Sequence[Wanted], room: int = _MOST_BYTES
) -> list[list[FoundFile | ProblemError]]:
    """Reads files with one command for each ``room`` bytes. Returns for each of the ``wanted`` the files that are
    there, by their names; for one that cannot be read the reason.

    Raises ``ProblemError`` when the site cannot be reached.
    """
    lines = "".join(f"{one.offset}\n{one.most}\n{one.pattern}\n" for one in wanted).encode()
    try:
        found = _ask(connection, lines, len(wanted), room)
    except ProblemError as error:
        if error.problems[0].code != "ssh.timeout" or (len(wanted) < 2 and room <= _LEAST_BYTES):
            raise
        half = max(1, len(wanted) // 2)
        halves = [one for one in (wanted[:half], wanted[half:]) if one]
        return [files for some in halves for files in read_files(connection, some, max(room // 2, _LEAST_BYTES))]
    rest = {
        (number, place): Wanted(glob.escape(file.path), file.offset + len(file.data), missing)
        for number, files in enumerate(found)
        for place, file in enumerate(files)
        if isinstance(file, FoundFile)
        and (missing := min(wanted[number].most, file.size - file.offset) - len(file.data)) > 0
    }
    more = read_files(connection, [*rest.values()], room) if rest else []
    for (number, place), files in zip(rest, more, strict=True):
        before, after = found[number][place], files[0] if files else None
        if isinstance(before, FoundFile) and isinstance(after, FoundFile):
            found[number][place] = before._replace(data=before.data + after.data)
    return found


def _ask(
    connection: SiteConnection, lines: bytes, count: int, room: int, again: bool = True
) -> list[list[FoundFile | ProblemError]]:
    """One answer. A link that dies is dialled once more."""
    try:
        answer = connection.ssh.run(("/bin/sh", "-c", SCRIPT, "clew", str(room)), stdin=lines, timeout=_ANSWER_S)
    except ProblemError as error:
        if error.problems[0].code != "ssh.lost" or not again:
            raise
        return _ask(connection, lines, count, room, again=False)
    found = read_answer(answer.stdout, count, connection.title)
    if answer.exit_status or found is None:
        said = answer.stderr.decode(errors="replace").strip().splitlines()[-1:]
        text = f"{connection.title} did not list its files to the end. {' '.join(said)}".rstrip()
        raise problem("ssh.file", text, "Try again.", connection.name)
    return found


def read_answer(output: bytes, count: int, title: str) -> list[list[FoundFile | ProblemError]] | None:
    """Reads what ``SCRIPT`` answered to ``count`` questions; None if its end is missing."""
    found: list[list[FoundFile | ProblemError]] = []
    at = 0
    while (end := output.find(b"\n", at)) >= 0:
        line, at = output[at:end], end + 1
        if line == b"clew-end":
            return found if len(found) == count and at == len(output) else None
        if line == b"#":
            found.append([])
        elif found and (match := _FILE.fullmatch(line)):
            size, offset, length = (int(match[number]) for number in (1, 2, 3))
            found[-1].append(FoundFile(match[4].decode(errors="replace"), size, offset, output[at : at + length]))
            at += length
        elif found and (match := _UNREAD.fullmatch(line)):
            path, said = (text.decode(errors="replace") for text in match.groups())
            found[-1] += [] if any(words in said for words in _ABSENT) else [no_file(path, title, [said])]
        else:
            return None
    return None


# --- Of a job ---------------------------------------------------------------------------------------------------------


def read_records(connection: SiteConnection, jobs: Sequence[str]) -> dict[str, ExitRecord]:
    """Reads the latest record that each job's keeper has left, by job; nothing of a job that has none. A job that is
    requeued writes another record each time.

    Raises ``ProblemError`` when the site cannot be reached.
    """
    folders = (glob.escape(connection.layout().job(job)) for job in jobs)
    wanted = [Wanted(f"{folder}/record.[0-9]*", 0, _RECORD_BYTES) for folder in folders]
    latest: dict[str, ExitRecord] = {}
    for job, files in zip(jobs, read_files(connection, wanted), strict=True):
        for file in sorted(map(_readable, files), key=lambda file: (len(file.path), file.path)):
            record = parse_record(file.data.decode(errors="replace"), job)
            if record is None:  # the keeper may just have written a longer one
                again = connection.ssh.read(file.path, 0, _RECORD_BYTES)
                record = parse_record(again.decode(errors="replace"), job)
            latest |= {job: record} if record is not None else {}
    return latest


def _readable(file: FoundFile | ProblemError) -> FoundFile:
    if isinstance(file, ProblemError):
        raise file
    return file


def read_printed(connection: SiteConnection, job: str, log: str = SCHEDULER_LOG) -> str:
    """The end of what the scheduler wrote into the job's output, or of another log in its folder; empty when there is
    nothing that can be read.

    Raises ``ProblemError`` when the site cannot be reached.
    """
    path = glob.escape(f"{connection.layout().job(job)}/{log}")
    (files,) = read_files(connection, [Wanted(path, -_PRINTED_BYTES, _PRINTED_BYTES)])
    return "".join(file.data.decode(errors="replace") for file in files if isinstance(file, FoundFile))


# --- Of a run ---------------------------------------------------------------------------------------------------------


class RunThere(NamedTuple):
    """A run folder on the site: the text of its spec, None if there is none, and the sizes of its attempts, which are
    numbered without gaps."""

    spec: str | None
    attempts: dict[int, int]


def look_at_runs(connection: SiteConnection, folders: Sequence[str]) -> list[RunThere | ProblemError]:
    """Reads what is in each of the ``folders``; of one that cannot be read the reason.

    Raises ``ProblemError`` when the site cannot be reached.
    """
    escaped = [glob.escape(folder) for folder in folders]
    wanted = [Wanted(f"{folder}/spec.toml", 0, SPEC_BYTES) for folder in escaped]
    found = read_files(connection, [*wanted, *(Wanted(f"{folder}/{_JOURNALS}", 0, 0) for folder in escaped)])
    there: list[RunThere | ProblemError] = []
    for specs, journals in zip(found[: len(folders)], found[len(folders) :], strict=True):
        try:
            text = next((_readable(spec).data.decode(errors="replace") for spec in specs), None)
            there.append(RunThere(text, _attempts(journals)))
        except ProblemError as error:
            there.append(error)
    return there


def _attempts(journals: Sequence[FoundFile | ProblemError]) -> dict[int, int]:
    sizes = {int(file.path[-4:]): file.size for file in map(_readable, journals)}
    gap = next(attempt for attempt in count(1) if attempt not in sizes)
    return {attempt: size for attempt, size in sizes.items() if 0 < attempt < gap}


class SiteFiles:
    """The ``JournalFiles`` of runs on a site; ``over``: no file grows any more. ``folders`` are those of runs that are
    not in Clew's own folder there."""

    def __init__(self, connection: SiteConnection, over: bool, folders: Mapping[str, str] = {}) -> None:
        self._connection = connection
        self._over = over
        self._folders = folders

    def fetch(self, wanted: Sequence[Fetch]) -> list[Fetched | ProblemError | None]:
        """See ``JournalFiles.fetch``."""
        layout = self._connection.layout()
        folders = [glob.escape(self._folders.get(one.run) or layout.run(one.run)) for one in wanted]
        listed = [Wanted(f"{folder}/{_JOURNALS}", 0, 0) for folder in folders]
        pieces = [
            Wanted(f"{folder}/journal.{one.attempt:04d}", one.offset, MAX_FETCH_BYTES)
            for folder, one in zip(folders, wanted, strict=True)
        ]
        found = read_files(self._connection, [*listed, *pieces])  # what a later attempt follows grows no more
        return [
            self._fetched(one, journals, files[0]) if files else None
            for one, journals, files in zip(wanted, found[: len(wanted)], found[len(wanted) :], strict=True)
        ]

    def _fetched(
        self, one: Fetch, journals: Sequence[FoundFile | ProblemError], file: FoundFile | ProblemError
    ) -> Fetched | ProblemError:
        if isinstance(file, ProblemError):
            return file
        readable = [journal for journal in journals if isinstance(journal, FoundFile)]
        attempts = max([one.attempt, *_attempts(readable)])
        sealed = self._over or one.attempt < attempts
        return Fetched(
            run=one.run,
            attempt=one.attempt,
            offset=one.offset,
            data=file.data,
            size=file.size,
            attempts=attempts,
            sealed=sealed,
        )


def ended_at(connection: SiteConnection, run: str) -> float | None:
    """Returns when a run's latest attempt ended, by its node's clock; None while its journal there has no seal.

    Raises ``ProblemError`` when the site cannot be reached.
    """
    wanted = Wanted(f"{glob.escape(connection.layout().run(run))}/{_JOURNALS}", -_END_BYTES, _END_BYTES)
    (files,) = read_files(connection, [wanted])
    if not files:
        return None
    last = max(map(_readable, files))
    reader = FrameReader(last.offset)
    events = [found.event for found in (*reader.feed(last.data), *reader.finish()) if isinstance(found, Record)]
    if not events or not isinstance(events[-1], Seal):
        return None
    return next((event.time for event in reversed(events) if isinstance(event, State)), None)
