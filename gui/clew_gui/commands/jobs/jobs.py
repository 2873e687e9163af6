"""``clew jobs``, ``clew cancel`` and ``clew attach``: the jobs on all sites, ended or come back to."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from rich.cells import cell_len
from rich.table import Table

from clew_gui.commands.agent_program import cards, stop_requests
from clew_gui.commands.context import FAILED, OK, CommandContext, Parser
from clew_gui.commands.find import JOB_HELP, KeptJobs, last_run, named_job
from clew_gui.commands.output.result import exit_status, result_lines, title, word_for
from clew_gui.commands.output.words import state_word
from clew_gui.commands.run.follow import SiteRun, SiteTerminal
from clew_gui.commands.run.site_run import open_session, open_terminal
from clew_gui.jobs.job import JOB_WORDS, JobOrder, JobStatus, job_word
from clew_gui.jobs.job_book import JobBook, job_book
from clew_gui.jobs.manager import ASK_S, JobManager
from clew_gui.session.links.mirror import attempts_before
from clew_gui.session.run_record import run_record
from clew_gui.session.run_state import verdict
from clew_shared.base.number_words import number_ranges
from clew_shared.base.problem import problem
from clew_shared.cards import Catalogue
from clew_shared.journal.files import attempts
from clew_shared.reading import read_run, summary

_SHOWN = 20
_LOOK_S = 0.05
_GATHER_S = 1.0
"""Jobs of which there is word within this time are shown in their order, the others as it comes."""
_SAID_S = 3.0
"""A wait for schedulers that takes longer than this is said."""


class JobRow(NamedTuple):
    """A job of the book; ``number`` is the one that is shown."""

    number: int
    order: JobOrder
    title: str
    news: JobStatus
    runs: tuple[int, ...]


def job_line(book: JobBook, job: str, numbers: Mapping[str, int]) -> JobRow:
    """One job, also one that another program took out of the list; runs by their ``numbers``."""
    runs = tuple(numbers[run] for run in book.runs(job) if run in numbers)
    return JobRow(book.number(job), book.order(job), book.title(job), book.news(job), runs)


# --- clew jobs --------------------------------------------------------------------------------------------------------


def jobs(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew jobs``: one line for each job, the latest last."""
    about = (
        f"List the jobs on sites, the latest {_SHOWN} of them. Clew asks the schedulers about those that are not over."
    )
    parser = Parser("clew jobs", about)
    parser.add_argument("--all", action="store_true", help="all of them")
    parser.add_argument("--last-heard", action="store_true", help="show the last known states, without asking")
    parser.add_argument("--json", action="store_true", help="one line of JSON: a list of jobs")
    options = parser.parse_args(list(argv))
    if not options.last_heard and job_book(context.places).open_jobs():
        with closing(open_terminal(context).manager) as manager:
            return list_jobs(context, manager.book, options.all, options.json, manager)
    return list_jobs(context, job_book(context.places), options.all, options.json)


def list_jobs(
    context: CommandContext, book: JobBook, everything: bool, as_json: bool, asked: JobManager | None = None
) -> int:
    """Prints one line for each job; returns the exit status. With a manager the schedulers are ``asked`` about those
    that are not over, and each is shown as soon as there is word of it."""
    known, numbers = book.jobs(), run_record(context.places).numbers
    jobs = known if everything else known[-_SHOWN:]
    shown: dict[str, JobRow] = {}
    for waiting in _answers(context, asked) if asked is not None else (set[str](),):
        rows = {job: job_line(book, job, numbers) for job in jobs if job not in shown}
        ready = {job: row for job, row in rows.items() if job not in waiting}
        if ready and not as_json:
            context.console().print(_table([*ready.values()], [*shown.values(), *rows.values()], heading=not shown))
        shown |= ready
    if as_json:
        context.say_json([_as_json(shown[job]) for job in jobs])
    elif not known:
        context.say("No job was sent to a site yet. Start with: clew run softmax --site NAME")
    elif len(jobs) < len(known):
        context.say(f"{len(known) - len(jobs)} older jobs are not shown; --all shows them.")
    return OK


def _answers(context: CommandContext, manager: JobManager) -> Iterator[set[str]]:
    """Asks all schedulers at the same time about the jobs that are not over. Yields those without an answer: once after
    a moment, then at each further answer, at last none. A longer wait is said."""
    heard: queue.SimpleQueue[str] = queue.SimpleQueue()
    book, begun = manager.book, time.monotonic()
    waiting = manager.ask(book.open_jobs(), heard.put)
    for until in (_GATHER_S, _SAID_S, ASK_S):
        if waiting and until == ASK_S:
            titles = ", ".join(dict.fromkeys(book.title(job) for job in book.jobs() if job in waiting))
            text = f"Waiting for an answer from {titles}, for at most {ASK_S:.0f} s; --last-heard does not ask."
            context.note(text)
        with suppress(queue.Empty):
            while waiting:
                waiting.discard(heard.get(timeout=max(0.0, begun + until - time.monotonic())))
                if until != _GATHER_S:
                    yield waiting
        yield waiting if until != ASK_S else set()


def _table(lines: Sequence[JobRow], among: Sequence[JobRow], heading: bool) -> Table:
    """Some of the jobs as rows; columns are as wide as for all of them, whatever their states become."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=heading)
    cells = [_cells(line) for line in among]
    for place, name in enumerate(("Job", "Site", "Id there", "State")):
        words = (name, *JOB_WORDS) if name == "State" else (name,)
        table.add_column(name, no_wrap=True, min_width=max(map(cell_len, [*words, *(row[place] for row in cells)])))
    table.add_column("Runs", overflow="fold", min_width=min(12, max(cell_len(row[4]) for row in cells)))
    table.add_column("")
    for line in lines:
        table.add_row(*_cells(line))
    return table


def _cells(line: JobRow) -> tuple[str, ...]:
    runs = number_ranges(line.runs) or ("holds a node" if line.order.hold else "")
    text = line.news.problem.text if line.news.problem is not None else line.news.text
    return f"j{line.number}", line.title, line.news.id, job_word(line.news), runs, text


def _as_json(line: JobRow) -> dict[str, object]:
    news = line.news
    return {
        "number": line.number,
        "job": line.order.job,
        "site": line.order.site,
        "id": news.id,
        "stage": news.stage,
        "phase": news.phase,
        "text": news.text,
        "hold": line.order.hold,
        "runs": [spec.run for spec in line.order.runs],
        "problem": news.problem,
    }


# --- clew cancel ------------------------------------------------------------------------------------------------------


def cancel(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew cancel JOB``: 0 when the job is over, 1 when that could not be learnt in time."""
    parser = Parser("clew cancel", "End a job with all its runs, take it out of the queue, or let go of a held node.")
    parser.add_argument("job", metavar="JOB", help=JOB_HELP)
    parser.add_argument("--json", action="store_true", help="one line of JSON: the job")
    options = parser.parse_args(list(argv))
    return cancel_job(open_terminal(context), options.job, options.json)


def cancel_job(terminal: SiteTerminal, word: str, as_json: bool = False) -> int:
    """End the job that ``word`` names; returns the exit status."""
    context, book = terminal.context, terminal.manager.book
    job = named_job(context, book, word)
    if not book.news(job).over:
        with open_session(terminal, cards(context.places), (job,)) as session:
            session.cancel(job)
            deadline = time.monotonic() + ASK_S
            while not book.news(job).over and time.monotonic() < deadline:
                session.tick(_LOOK_S)
                time.sleep(_LOOK_S)
    line = job_line(book, job, run_record(context.places).numbers)
    if as_json:
        context.say_json(_as_json(line))
    else:
        what = f"Job j{line.number} on {line.title}: {job_word(line.news).lower()}. {line.news.text}".strip()
        context.say(
            what if line.news.over else f"{what} It was asked to end; `clew jobs` shows later what became of it."
        )
    return OK if line.news.over else FAILED


# --- clew attach ------------------------------------------------------------------------------------------------------


def attach(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew attach RUN``: follow a run on a site again, or fetch what is missing of it; the run's exit status."""
    parser = Parser(
        "clew attach",
        "Come back to a run on a site: follow it, or fetch what is missing when it has ended.\n"
        "The exit status is that of `clew run`.",
    )
    parser.add_argument("run", metavar="RUN|JOB", help=f"the run's number or id; or of a job, {JOB_HELP}")
    parser.add_argument("--json", action="store_true", help="end with a summary of the run as one line of JSON")
    options = parser.parse_args(list(argv))
    return attach_run(open_terminal(context), options.run, options.json)


def attach_run(terminal: SiteTerminal, word: str, as_json: bool = False) -> int:
    """Follow the run that ``word`` names, or the last one of that job."""
    context, book = terminal.context, terminal.manager.book
    record = run_record(context.places)
    word = last_run(book, record) if word == "last" else word
    job = named_job(context, book, word)
    runs = [run for run in book.runs(job) if book.job_of(run) == job and run not in record.forgotten]
    chosen = [run for run in runs if str(record.numbers.get(run)) == word or run.startswith(word)] or runs[-1:]
    if not chosen:
        hint = f"To end it: clew cancel {word}"
        raise problem("cli.job", f"The job {word} has no run to follow.", hint, word)
    known = cards(context.places)
    if book.news(job).over and record.settled.get(chosen[0]) == job:
        return _report_kept(context, context.places.mirrors / chosen[0], known, book.news(job), as_json)
    with open_session(terminal, known, (job,)) as session, stop_requests() as stops:
        after_attempt = attempts_before(context.places.mirrors / chosen[0], job)
        following = SiteRun(terminal, session, chosen[0], as_json, stops, after_attempt)
        spec = following.model.spec
        card = next((card for card in known.exercises if card.id == spec.exercise), None)
        following.to_the_end(card, f"{title(spec, card)}, on {following.job.title}")
        return following.conclude(card)


def _report_kept(context: CommandContext, folder: Path, known: Catalogue, news: JobStatus, as_json: bool) -> int:
    """Reports the end of a run whose journal is complete here; returns the exit status."""
    say = context.note if as_json else context.say
    if attempts(folder):
        history = read_run(folder)
        card = next((card for card in known.exercises if card.id == history.fold.exercise), None)
        state, reason = KeptJobs(context.places).state(folder, history.fold)
        for line in result_lines(history, card, folder, context.places, word_for(context.places, folder), reason):
            say(line)
        if as_json:
            context.say_json(summary(history, folder) | {"state": state, "reason": reason})
    else:
        state, reason = verdict(news, began=False)
        say(f"{state_word(state)}. {reason}")
        if as_json:
            context.say_json({"run": folder.name, "state": state, "reason": reason})
    return exit_status(state)
