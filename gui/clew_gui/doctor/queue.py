"""The scheduler: whether it answers, and whether it would ever start what the site asks for."""

from __future__ import annotations

import re
import uuid
from difflib import get_close_matches

import msgspec

from clew_gui.base.times import as_clock
from clew_gui.doctor.examination import CheckResult, Diagnosis, fine, last_line, listed, note, refused, untried, wrong
from clew_gui.schedulers.allocation import asked_names, chosen, longest_time, seconds_asked, summary, time_problem
from clew_gui.schedulers.registry import SCHEDULERS
from clew_gui.schedulers.state import Output
from clew_gui.sites.site import job_of
from clew_shared.base.number_words import counted, duration
from clew_shared.base.problem import ProblemError, did_you_mean
from clew_shared.base.remedies import check_node, choose, set_to


def scheduler(diagnosis: Diagnosis) -> CheckResult:
    """Whether it answers a question about one's own jobs."""
    dialect = diagnosis.scheduler
    if not dialect.has_queue:
        diagnosis.causes["queue"] = "there is no scheduler"
        return fine("There is no scheduler: runs begin at once, on the host itself.")
    job = job_of(diagnosis.site, str(uuid.uuid4()), "/", ("true",))
    done = diagnosis.connection.run(dialect.find(job))
    if re.search(r"not found|no such file", done.said, re.IGNORECASE):
        text = f"The commands of {dialect.label} are not found on this host: {last_line(done)}."
        hint = "Is this the login node, and is the site's scheduler the right one?"
        return wrong(text, hint, "scheduler.command")
    try:
        dialect.found(job, done)
    except ProblemError:
        said = f" It said: {last_line(done)}." if last_line(done) else ""
        text = f"{dialect.label} does not answer.{said}"
        return wrong(text, "Jobs that run go on. Try again in some minutes, or ask the site.", "scheduler.silent")
    return fine(f"{dialect.label} answers.")


def partition(diagnosis: Diagnosis) -> CheckResult:
    """Whether the partitions that the site asks for are there and start jobs."""
    _find_partitions(diagnosis)
    if not diagnosis.partitions:
        return untried("The scheduler's commands here do not list the partitions.")
    names = [one.name for one in diagnosis.partitions]
    asked = asked_names(diagnosis.site.allocation)
    if not diagnosis.site.allocation.partition:
        default = next((one.name for one in diagnosis.partitions if one.default), "")
        return fine(f"There are: {listed(names)}. {f'Jobs go to {default}.' if default else 'The site names none.'}")
    missing = [name for name in asked if name not in names]
    if missing:
        text = f"The scheduler has no partition {missing[0]!r}."
        hint = f"{did_you_mean(missing[0], names)} There are: {listed(names)}.".lstrip()
        near = get_close_matches(missing[0], names, 3, cutoff=0.0)
        return wrong(text, hint, "scheduler.partition", *(set_to("partition", name) for name in near))
    down = [one.name for one in chosen(diagnosis.partitions, diagnosis.site.allocation) if not one.up]
    if down and len(down) == len(asked):
        text = f"The partition {listed(down)} starts no jobs at present."
        return note(text, "Choose another one, or wait: jobs stay in the queue.")
    return fine(f"{listed(asked)} {'is' if len(asked) == 1 else 'are'} there.")


def _find_partitions(diagnosis: Diagnosis) -> None:
    dialect = diagnosis.scheduler
    diagnosis.partitions = diagnosis.connection.ask(dialect.partitions()) or ()
    if (question := dialect.most_gpus()) is not None:
        gpus = diagnosis.connection.ask(question)
        diagnosis.partitions = tuple(msgspec.structs.replace(one, gpus=gpus) for one in diagnosis.partitions)


def time_limit(diagnosis: Diagnosis) -> CheckResult:
    """Whether the time asked for is allowed."""
    asked = diagnosis.site.allocation
    longest, seconds = longest_time(diagnosis.partitions, asked), seconds_asked(asked)
    if longest is None:
        return fine("The scheduler reports no limit.")
    found = time_problem(diagnosis.partitions, asked)
    if found is not None:
        return refused(found)
    where = listed([one.name for one in chosen(diagnosis.partitions, diagnosis.site.allocation)])
    if not seconds:
        return fine(f"The site asks for no time of its own; the limit of {where} is {duration(longest)}.")
    if seconds > longest:
        text = f"It asks for {duration(seconds)}; the limit of {where} is {duration(longest)}"
        hint = "Leave the QOS out, or ask for less time."
        return note(f"{text}, unless the QOS {asked.qos} allows more.", hint, set_to("time", as_clock(longest)))
    return fine(f"It asks for {duration(seconds)}; the limit of {where} is {duration(longest)}.")


def gpus(diagnosis: Diagnosis) -> CheckResult:
    """Whether a node has as many GPUs as are asked for, and of that name."""
    asked = diagnosis.site.allocation.gpus or 0
    there = chosen(diagnosis.partitions, diagnosis.site.allocation)
    counts = [one.gpus for one in there if one.gpus is not None]
    where = listed([one.name for one in there])
    if not counts:
        return untried("The scheduler's commands here do not show how many GPUs a node has.")
    most = max(counts)
    if asked > most and len(counts) < len(there):
        text = f"The site asks for {counted(asked, 'GPU')} of each node"
        return untried(f"{text}. What the scheduler says about the GPUs in {where} is not understood.")
    if asked > most:
        have = f"a node in {where} has {most}" if most else f"no node in {where} has any"
        text = f"The site asks for {counted(asked, 'GPU')} of each node; {have}."
        hint = "Ask for fewer, or choose another partition."
        return wrong(text, hint, "scheduler.gpus", set_to("gpus", most), choose("partition"))
    kind = diagnosis.site.gres.partition(":")[2]
    kinds = list(dict.fromkeys(kind for one in there for kind in one.kinds))
    if asked and kind and kinds and kind not in kinds:
        text = f"The site calls its GPUs {diagnosis.site.gres}; in {where} they are: {listed(kinds)}."
        return wrong(text, f'Write gres = "gpu:{kinds[0]}" in the site, or gpu for any.', "scheduler.gres")
    if not asked:
        return fine(f"None asked for; a node in {where} has {most}.")
    return fine(f"{asked} of each node asked for; a node in {where} has {most}.")


def account(diagnosis: Diagnosis) -> CheckResult:
    """Whether the account is one of the person's own, where the scheduler lists them."""
    exported = "" if diagnosis.site.allocation.account else diagnosis.connection.account()
    named = diagnosis.site.allocation.account or exported
    source = f", which {diagnosis.scheduler.account_variable} names there" if exported else ""
    mine = diagnosis.connection.ask(diagnosis.scheduler.accounts())
    if mine is None:
        return fine(f"Jobs are charged to {named}{source}." if named else "The site names none.")
    if not mine:
        text = "The site keeps no accounts that can be asked"
        return fine(f"{text}; jobs are charged to {named}{source}." if named else f"{text}.")
    if named and named not in mine:
        text = f"The account {named}{source and f'{source},'} is not one of yours."
        return wrong(text, f"Yours are: {listed(mine)}.", "scheduler.account", choose("account"))
    return fine(f"Jobs are charged to {named}{source}." if named else f"Your accounts: {listed(mine)}.")


def request(diagnosis: Diagnosis) -> CheckResult:
    """Whether the scheduler would take such a job: account, reservation, QOS, features and all else at once."""
    dialect = diagnosis.scheduler
    command = dialect.ask_acceptance()
    if command is None:
        able = " and ".join(one.label for one in SCHEDULERS.values() if one.ask_acceptance() is not None)
        text = f"Only {able} can test a job before it is sent; a check with a small job sends one."
        return untried(text, check_node(diagnosis.name))
    spec = diagnosis.connection.job(str(uuid.uuid4()), diagnosis.connection.layout().job("doctor"), ("true",))
    done = diagnosis.connection.run(command, stdin=dialect.script(spec).encode())
    if not done.failed:
        return fine(f"{dialect.label} would take such a job into its queue: {summary(diagnosis.site.allocation)}.")
    found = dialect.submitted(Output(done.code or 1, "", done.said, done.late)).problem
    if found is None:
        text = f"{dialect.label} did not say whether it would take the job."
        return wrong(text, "Try again in a minute.", "scheduler.silent")
    return refused(found)
