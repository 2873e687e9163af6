"""The words about a run on a site while its job waits, works and ends. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from clew_gui.jobs.job import STAGE_WORDS, JobStage, JobStatus, job_word
from clew_gui.schedulers.allocation import node_hours
from clew_gui.session.job_links import JobModel
from clew_gui.session.runs import RunModel
from clew_gui.ssh.prompts import NEEDS_PERSON
from clew_gui.views.presentation import words
from clew_shared.base.number_words import number_ranges
from clew_shared.journal.lifecycle import TERMINAL

STATES = {
    JobStage.DRAFT: "Draft",
    JobStage.CONNECTING: "Submitted",
    JobStage.PREPARING: "Preparing",
    JobStage.SUBMITTING: "Submitted",
    JobStage.QUEUED: "Queued",
    JobStage.RUNNING: "Starting",
}
"""The run state whose shape and colour a stage has."""


class CardWords(NamedTuple):
    """The words on a run's card that concern its job. ``state`` and ``word`` for the pill, the ``sentence`` beside it,
    a ``notice`` of whole sentences on lines of its own, the text ``below`` in place of the progress, the ``countdown``
    of the job's time.

    Empty texts: as without a job. ``left_s``: how much of that time is left, None while nobody knows; ``waits``:
    nothing can have begun yet, so that the run is cancelled rather than stopped; ``locked``: a person has to log in
    before more is known.
    """

    state: str = ""
    word: str = ""
    sentence: str = ""
    below: str = ""
    countdown: str = ""
    left_s: float | None = None
    waits: bool = False
    locked: bool = False
    notice: str = ""


NOTHING = CardWords()
SHORT_S = 600.0
"""The seconds left from which on the time is shown in the colour of a warning."""


def waits(run: RunModel) -> bool:
    """Whether nothing of the run can have begun: its job is on its way or in a queue."""
    job = run.job
    return job is not None and not job.over and job.stage is not JobStage.RUNNING


def card_words(run: RunModel, job: JobModel | None, now: float) -> CardWords:
    """Returns what the card of a run on a site says in addition to what it says of every run."""
    news = run.job
    if words.not_sent(run):
        return CardWords("Failed", words.NOT_SENT)
    if news is None or run.state in TERMINAL:
        return NOTHING
    locked = job is not None and job.locked is not None
    if job is not None and locked and not waits(run):
        return CardWords(notice=locked_words([job]), countdown=_limit(news, now), locked=True)
    if waits(run):
        word = "Will not start" if news.blocked else STAGE_WORDS[news.stage]
        state = "Failed" if news.blocked else STATES[news.stage]
        number = f"job {news.id}" if news.id else ""
        below = locked_words([job]) if job is not None and locked else news.text or _waiting(news)
        return CardWords(state, word, words.join([f"on {run.where}", number]), below, waits=True, locked=locked)
    if news.stage is JobStage.RUNNING and not run.history.fold.attempt and not _is_live(job):
        text = f"connecting to {node_of(job, news)}"
        return CardWords(sentence=text, countdown=_limit(news, now))
    left = None if news.until is None else news.until - now
    silent = silence(job, news, now) if run.link_stale else ""
    return CardWords(notice=silent, countdown=_limit(news, now), left_s=left)


def _is_live(job: JobModel | None) -> bool:
    return job is not None and str(job.link.state) == "LIVE"


def _waiting(news: JobStatus) -> str:
    return "Waits for the site." if news.stage is JobStage.QUEUED else ""


def locked_words(jobs: Sequence[JobModel]) -> str:
    """Says that nobody is logged in on the site of ``jobs``, what a person can do, and that nothing is lost."""
    title, number = jobs[0].title, len(jobs)
    what = "a job goes" if number == 1 else f"{number} jobs go"
    if all(job.news.over for job in jobs):
        return f"Log in to {title} to fetch what {'a job' if number == 1 else f'{number} jobs'} left there."
    if all(job.elsewhere for job in jobs):
        sent, it = ("Sent", "it") if number == 1 else (f"{number} jobs were sent", "them")
        return f"{sent} to {title} by another program: log in to follow {it}."
    again = any(job.locked is not None and job.locked.code == NEEDS_PERSON for job in jobs)
    asks = f"{title} asks you to log in again" if again else f"You are not logged in to {title}"
    return f"{asks}; {what} on there."


def node_of(job: JobModel | None, news: JobStatus) -> str:
    """The machine in words: the first node if it is known, else the site."""
    return news.nodes or (job.title if job is not None else "the site")


def silence(job: JobModel | None, news: JobStatus, now: float) -> str:
    """Says since when the link is silent, and that nothing is lost."""
    since = job.link.since if job is not None else 0.0
    where = node_of(job, news)
    if not since or str(job.link.state if job is not None else "") != "STALE":
        return f"Cannot reach {where} yet. Training goes on there."
    return f"No answer from {where} for {words.about(max(1.0, now - since))}. Training goes on there."


def _limit(news: JobStatus, now: float) -> str:
    """The countdown beside a run, which has an end of its own: "Job ends in 23 min"."""
    text = countdown(news, now)
    return f"Job {words.clause(text)}" if text.startswith("Ends") else text


def countdown(news: JobStatus, now: float) -> str:
    """Says when the job's time is up: "Ends in 23 min"."""
    if news.until is None or news.stage is not JobStage.RUNNING:
        return ""
    left = news.until - now
    return f"Ends in {words.about(left)}" if left > 0 else "Its time is up"


def link_words(job: JobModel, now: float) -> str:
    """Returns what is known of the link to a job."""
    news, state = job.news, str(job.link.state)
    if news.over:
        return f"{job.title}: the job is over"
    if job.locked is not None:
        return f"{job.title}: log in to follow"
    if news.stage is not JobStage.RUNNING:
        text = words.clause(news.text) or STAGE_WORDS[news.stage].lower()
        return f"{job.title}: {text}"
    if state == "LIVE":
        return f"{node_of(job, news)}: live{f', {job.route}' if job.route else ''}"
    if state == "STALE":
        return silence(job, news, now)
    text = words.clause(news.text if news.problem is not None else job.link.text or "connecting")
    return f"{job.title}: {text}{f'; {job.route}' if job.route else ''}"


def pill_words(job: JobModel) -> tuple[str, str, str]:
    """Returns text, icon and tone for the top bar: the site, and its state in two words."""
    news, state = job.news, str(job.link.state)
    name = job.title.split(" (")[0]
    if job.locked is not None:
        return f"{name}, log in", "key", "warn"
    if news.stage is not JobStage.RUNNING:
        return f"{name}, {STAGE_WORDS.get(news.stage, 'over').lower()}", "clock", "warn"
    if state == "LIVE":
        return f"{name}, live", "link", "ok"
    return (f"{name}, silent", "unlink", "stale") if state == "STALE" else (f"{name}, connecting", "link", "warn")


def held_words(job: JobModel, now: float) -> str:
    """A held allocation on one line: where, until when, what it has cost so far."""
    news, asked = job.news, job.order.allocation
    if news.stage is not JobStage.RUNNING:
        over = "the allocation is over" if job.order.hold else "the job is over"
        return f"{job.title}: {words.clause(news.text) or STAGE_WORDS.get(news.stage, over).lower()}"
    if is_idle(job):
        left = max(1.0, job.idle_until - now)
        return f"{node_of(job, news)} is kept {words.about(left)} more, so that a run can be continued at once"
    start = news.starts if news.starts is not None else now
    parts = [f"{news.nodes or 'A node'} of {job.title}", words.clause(countdown(news, now))]
    parts += [f"{node_hours(asked.nodes, max(0.0, now - start))} so far"] if job.order.allocation.nodes else []
    return words.join(parts)


def job_lines(job: JobModel, runs: Sequence[int], now: float) -> tuple[str, str, str]:
    """One job of a list: which and how far it is, what is known of it, and the tone. ``runs`` by number."""
    news = job.news
    word = "Will not start" if news.blocked else job_word(news)
    title = words.join([f"Job {job.number} on {job.title}", word.lower()], ": ")
    many = "Run" if len(runs) == 1 else "Runs"
    what = f"{many} {number_ranges(runs)}" if runs else _held(news) if job.order.hold else ""
    number = f"id {news.id}" if news.id else ""
    facts = words.join([one for one in (what, news.nodes, words.clause(countdown(news, now)), number) if one])
    said = news.problem.text if news.problem is not None else news.text
    bad = news.blocked or (news.over and news.problem is not None)
    tone = "bad" if bad else "text3" if news.over else "ok" if news.stage is JobStage.RUNNING else "warn"
    return title, f"{facts}. {said}".strip(" .") + "." if facts or said else "", tone


def _held(news: JobStatus) -> str:
    return "Held a node" if news.over else "Holds a node"


def login_words(logins: Sequence[tuple[str, str]], stays_s: int) -> str:
    """Says where a person stays logged in after this program ends and until when, or for how long logins stay."""
    if logins:
        where = words.join([f"{title} until {until}" for title, until in logins])
        return f"Logged in to {where}, or longer if it is used, even when Clew is closed."
    if stays_s:
        return f"A login that asks you something stays for {words.about(stays_s)} after its last use."
    return "No login stays when Clew is closed."


def is_idle(job: JobModel) -> bool:
    """Whether its node is kept for a while although all of its runs have ended."""
    return not job.order.hold and not job.news.over and job.idle_until > 0


def held_title(job: JobModel) -> str:
    """A held allocation as a place to run on: by its node, else by its site."""
    return f"Held: {job.news.nodes or f'a node of {job.title}'}"
