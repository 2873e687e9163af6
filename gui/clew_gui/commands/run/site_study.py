"""A study on a site, from the terminal: one job for all its runs. What is finished or on its way is not sent again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from clew_gui.commands.agent_program import stop_requests
from clew_gui.commands.output import words
from clew_gui.commands.output.result import ending, exit_status, why
from clew_gui.commands.output.study_tables import StudyResult
from clew_gui.commands.run.finished_runs import FinishedRun, is_finished, is_of, is_same
from clew_gui.commands.run.session_run import SiteRun, SiteTerminal
from clew_gui.commands.run.site_run import open_session, with_living_node
from clew_gui.session.job_managers import ASK_S
from clew_gui.session.job_model import Place
from clew_gui.session.kept_studies import typed_spec
from clew_gui.session.run_record import run_record
from clew_gui.session.session import Session
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.journal.files import attempts
from clew_shared.journal.history import History
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from clew_shared.spec import read_spec
from clew_shared.study.study import StudyRun, StudySpec, study_runs


class PlannedRun(NamedTuple):
    """One run of the study, and the run on the site that is it (empty: it is still to be sent). ``finished``: all of
    that is here."""

    run: StudyRun
    there: str = ""
    finished: bool = False


class SiteStudy:
    """The runs of ``study`` at ``place``."""

    def __init__(
        self, terminal: SiteTerminal, place: Place, study: StudySpec, card: ExerciseCard, as_json: bool = False
    ) -> None:
        self._terminal, self._study, self._card, self._as_json = terminal, study, card, as_json
        self._say = terminal.context.note if as_json else terminal.context.say
        self._place = with_living_node(terminal, place, as_json)
        self._record = run_record(terminal.context.places)
        self._mirrors = terminal.context.places.mirrors

    def run(self, known: Catalogue, detach: bool = False) -> list[FinishedRun]:
        """Do what is left of the study, in the order of its runs as far as there are devices; what became of each, up
        to where a person stopped it. ``detach``: only send it; what has finished before is in the list then.

        Raises ``ProblemError`` when nothing could be sent; then nothing is left behind.
        """
        book = self._terminal.managers.book
        sent = self._sent()
        late = [run for run in sent if self._is_late(run)]
        jobs = {book.job_of(run) for run in sent if run in late or not book.news(book.job_of(run)).over}
        jobs |= {self._place.job} - {""}
        self._terminal.managers.ask_now(sorted(jobs), ASK_S)
        with open_session(self._terminal, known, jobs) as session, stop_requests() as stops:
            for run in sent:
                if not book.news(book.job_of(run)).over:  # a program that was killed may not have sent it at all
                    self._followed(session, run, stops).until_sent()
            late = [run for run in sent if self._is_late(run)]
            if stops() or not all(self._followed(session, run, stops).until_settled() for run in late):
                return []
            plan = self._send(session, self._plan(sent))
            self._forget_replaced(session, sent, plan)
            if detach:
                return self._leave(session, plan)
            return self._follow(session, plan, stops)

    # --- What there is ------------------------------------------------------------------------------------------------

    def _sent(self) -> list[str]:
        """The study's runs that this computer has sent to the site, in the order in which they were sent."""
        book, numbers = self._terminal.managers.book, self._record.numbers
        jobs = (job for job in book.jobs() if book.order(job).site == self._place.site)
        runs = dict.fromkeys(run for job in jobs for run in book.runs(job))
        mine = (run for run in runs if run not in self._record.forgotten)
        found = [run for run in mine if is_of(self._mirrors / run, self._study, self._card)]
        return sorted(found, key=lambda run: numbers.get(run, 0))

    def _is_late(self, run: str) -> bool:
        """Whether its job is over, and what that left is not all here. One that was never sent has left nothing."""
        book = self._terminal.managers.book
        job = book.job_of(run)
        return book.news(job).over and book.went_with(run) and self._record.settled.get(run) != job

    def _plan(self, sent: Sequence[str]) -> list[PlannedRun]:
        """Matches each run of the study with one that was sent, preferably a finished one; one that ended otherwise
        does not count."""
        left = [PlannedRun(run, there, finished) for there in sent for run, finished in self._use_of(there)]
        left.sort(key=lambda one: not one.finished)
        plan = []
        for run in study_runs(self._study):
            wanted = run._replace(spec=typed_spec(run.spec, self._card))
            found = next((one for one in left if is_same(one.run.spec, wanted.spec, self._card)), None)
            if found is not None:
                left.remove(found)
            plan.append(PlannedRun(wanted, *(found[1:] if found is not None else ())))
        return plan

    def _use_of(self, run: str) -> list[tuple[StudyRun, bool]]:
        """Returns the run as it was sent, and whether it is finished; nothing if it can no longer run. A run without an
        attempt has not begun: it is on its way as long as its job is."""
        folder, book = self._mirrors / run, self._terminal.managers.book
        finished = is_finished(folder, self._study.timed)
        ended = bool(attempts(folder)) and read_run(folder).fold.done
        if not finished and (ended or book.news(book.job_of(run)).over):
            return []
        return [(StudyRun("", None, read_spec(RunFolder(folder).spec)), finished)]

    # --- Sending ------------------------------------------------------------------------------------------------------

    def _send(self, session: Session, plan: Sequence[PlannedRun]) -> list[PlannedRun]:
        """The plan with every run sent; those that were not go in one job."""
        going = [one.there for one in plan if one.there and not one.finished]
        if going:
            job = session.jobs[self._terminal.managers.book.job_of(going[0])]
            self._say(
                f"{_runs(len(going), 'is', 'are')} on {job.title} already, in job j{job.number}: {self._study.study}."
            )
        missing = [one.run.spec for one in plan if not one.there]
        if not missing:
            return list(plan)
        names = session.start_runs(missing, self._place)
        job = session.jobs[self._terminal.managers.book.job_of(names[0])]
        self._say(f"{_runs(len(names), 'goes', 'go')} to {job.title} as job j{job.number}: {self._study.study}.")
        fresh = iter(names)
        return [one if one.there else one._replace(there=next(fresh)) for one in plan]

    def _leave(self, session: Session, plan: Sequence[PlannedRun]) -> list[FinishedRun]:
        """Wait until the scheduler has the job; what is finished already."""
        for one in plan:
            if not one.finished:
                following = self._followed(session, one.there)
                following.until_sent()
                following.raise_refusal()
        return [self._kept(one) for one in plan if one.finished]

    # --- Following ----------------------------------------------------------------------------------------------------

    def _followed(
        self, session: Session, run: str, stops: Callable[[], int] = lambda: 0, others: Sequence[str] = ()
    ) -> SiteRun:
        return SiteRun(self._terminal, session, run, self._as_json, stops, others=others)

    def _follow(self, session: Session, plan: Sequence[PlannedRun], stops: Callable[[], int]) -> list[FinishedRun]:
        """Follows each run to its end. Those that a person stopped before they began leave nothing."""
        finished: list[FinishedRun] = []
        following: SiteRun | None = None
        for number, one in enumerate(plan, start=1):
            if one.finished:
                finished.append(self._kept(one))
                self._say(f"{one.run.title}: finished before, in {self._mirrors / one.there}")
                continue
            following = self._followed(session, one.there, stops, [later.there for later in plan[number:]])
            kind = "lane" if self._study.lanes else "run"
            title = self._study.title or self._study.study
            following.to_the_end(
                self._card, f"{title}, {kind} {number} of {len(plan)}: {one.run.title}, on {following.job.title}"
            )
            following.raise_refusal()
            finished.append(self._ended(one, following))
            if finished[-1].asked:
                self._forget_unbegun(session, [later.there for later in plan[number - 1 :]])
                break
        if following is not None:
            following.wait_for_the_job()
        return finished

    def _forget_replaced(self, session: Session, sent: Sequence[str], plan: Sequence[PlannedRun]) -> None:
        """Take runs out of the list whose job was over before they began: others are sent in their place."""
        book, kept = self._terminal.managers.book, {one.there for one in plan}
        for run in sent:
            if run not in kept and not attempts(self._mirrors / run) and book.news(book.job_of(run)).over:
                session.recall(run)
                session.forget(run)

    def _forget_unbegun(self, session: Session, runs: Sequence[str]) -> None:
        """Take runs out of the list that were stopped before they began."""
        for run in runs:
            if run in session.runs and not session.runs[run].history.fold.attempt:
                session.forget(run)

    def _kept(self, one: PlannedRun) -> FinishedRun:
        folder = self._mirrors / one.there
        return FinishedRun(self._result(one, read_run(folder)))

    def _ended(self, one: PlannedRun, following: SiteRun) -> FinishedRun:
        model = following.model
        if model.history.fold.done:
            for line in (f"{one.run.title}: {ending(model.history, model.state)}", *why(model.history, model.reason)):
                self._say(line)
        else:
            self._say(f"{one.run.title}: {words.state_word(model.state)}. {model.reason}".rstrip())
        return FinishedRun(self._result(one, model.history), exit_status(model.state), following.asked)

    def _result(self, one: PlannedRun, history: History) -> StudyResult:
        spec = one.run.spec if not one.there else read_spec(RunFolder(self._mirrors / one.there).spec)
        return StudyResult(one.run.title, one.run.value, spec, self._mirrors / one.there, history)


def _runs(count: int, one: str, many: str) -> str:
    """A number of runs with the verb."""
    return f"1 run {one}" if count == 1 else f"{count} runs {many}"
