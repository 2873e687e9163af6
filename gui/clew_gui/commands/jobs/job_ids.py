"""Which job is meant: by its number here, by an id or the beginning of one, or by the id that its scheduler gave it."""

from __future__ import annotations

import shlex

from clew_gui.commands.context import CommandContext
from clew_gui.jobs.job_book import JobBook
from clew_gui.session.run_record import RunRecord, run_record
from clew_shared.base.places import Places
from clew_shared.base.problem import problem

JOB_HELP = (
    "its number (j3), id, the beginning of its id, the number of one of its runs, `last`, or the scheduler's own id"
)
_LISTED = 5


def named_job(context: CommandContext, book: JobBook, word: str, site: str = "") -> str:
    """Like ``find_job``; where a scheduler calls another job so, that is said on standard error."""
    job = find_job(context.places, book, word, site)
    others = [one for one in called_there(book, word, site) if one != job]
    if others:
        taken = f"j{book.number(job)}"
        context.note(f"{word} is read as job {taken}, by Clew's own numbers; there is also {_listed(book, others)}.")
    return job


def find_job(places: Places, book: JobBook, word: str, site: str = "") -> str:
    """The UUID of the job that ``word`` names. Raises ``ProblemError`` when there is none, or more than one.

    Clew's own numbers, of jobs (``j3``) and of runs, go before a scheduler's, and those before beginnings of ids.
    ``site``: what a scheduler calls so is looked for there only.
    """
    jobs, record = book.jobs(), run_record(places)
    word = last_run(book, record, site) if word == "last" else word
    if word[:1] in "jJ" and word[1:].isascii() and word[1:].isdecimal() and (job := book.numbered(int(word[1:9]))):
        return job
    called = called_there(book, word, site)
    numbered = [run for run, number in record.numbers.items() if word == str(number)]
    begun = [run for run in record.numbers if word and run.startswith(word)] if not called else []
    runs = numbered or begun
    found = [job for run in runs if (job := book.job_of(run))]
    if not numbered:
        found = found or called or [job for job in jobs if word and job.startswith(word)]
    found = list(dict.fromkeys(found))
    if len(found) == 1:
        return found[0]
    if found:
        text = f"{len(found)} jobs match {word!r}: {_listed(book, found)}."
        raise problem("cli.job", text, "Give its number, or more of its id.", word)
    if runs:
        hint = f"See: clew show {word}" + (f" The scheduler's {word} is {_listed(book, called)}." if called else "")
        raise problem("cli.job", f"Run {word} is one of this computer's.", hint, word)
    raise problem("cli.job", f"There is no job or run {word!r} on a site.", "`clew jobs` lists them.", word)


def last_run(book: JobBook, record: RunRecord, site: str = "") -> str:
    """The run that was sent to a site last, or to this one. Raises ``ProblemError`` when there is none."""
    sent = [run for run in record.numbers if run not in record.forgotten and book.job_of(run)]
    sent = [run for run in sent if site in ("", book.order(book.job_of(run)).site)]
    if not sent:
        hint = f"Start with: clew run softmax --site {shlex.quote(site) if site else 'NAME'}"
        raise problem("cli.job", f"No run was sent to {site or 'a site'} yet.", hint, "last")
    return max(sent, key=lambda run: record.numbers[run])


def called_there(book: JobBook, word: str, site: str = "") -> list[str]:
    """The jobs that their scheduler calls ``word``, on any site or on this one, also those that are over.

    Of PBS's ``4711.server`` the number will do, and what qstat shows of a longer name.
    """
    if not word:
        return []
    mine = [job for job in book.jobs() if site in ("", book.order(job).site)]
    return [job for job in mine if _is_called(book.news(job).id, word)]


def _is_called(there: str, word: str) -> bool:
    number, dot, _ = there.partition(".")
    return word in (there, number) or (bool(dot) and word.startswith(f"{number}.") and there.startswith(word))


def _listed(book: JobBook, jobs: list[str]) -> str:
    """``j3 (4711 on Lab), j5 (4711 on Other)``."""
    parts = []
    for job in jobs[:_LISTED]:
        there = book.news(job).id
        parts.append(f"j{book.number(job)} ({f'{there} ' if there else ''}on {book.title(job)})")
    return ", ".join(parts) + (", …" if len(jobs) > _LISTED else "")
