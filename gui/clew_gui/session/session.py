"""A viewer's runs and its links to agents, without Qt: the window calls ``tick`` and draws what changed."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from clew_gui.base.student import signed
from clew_gui.jobs.job import Place, as_there
from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.session.intake import Changes, Intake
from clew_gui.session.job_links import JobLinks, JobModel
from clew_gui.session.links.conversation import Command
from clew_gui.session.links.fetcher import Fetcher
from clew_gui.session.links.inbox import Inbox, LinkState, LinkStatus
from clew_gui.session.links.link import Link
from clew_gui.session.run_record import RunLine, run_record
from clew_gui.session.run_state import not_begun
from clew_gui.session.runs import RunModel, RunTable, read_recording
from clew_gui.session.summaries import Summaries
from clew_gui.sites.site import LOCAL
from clew_gui.targets.target import LocalTarget, Target
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError, os_refused, problem, raise_all
from clew_shared.base.remedies import list_all
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.catalogue import find_card
from clew_shared.params import STEPS, check
from clew_shared.run_settings import RunNote, note_problems
from clew_shared.spec import MAX_NAME, RunSpec, check_spec, check_strategy, spread_again, without_study
from clew_shared.wire.messages import (
    ContinueRun,
    DisturbCluster,
    GetCatalogue,
    MoveRun,
    Pause,
    SetLive,
    StartRun,
    Stop,
    TraceSteps,
    TryRun,
    Unpause,
)

if TYPE_CHECKING:
    from clew_gui.jobs.manager import JobManager

_GRACE_S = 60.0
"""The seconds that an agent in a job waits for a viewer."""
RECORDED = LinkStatus(LinkState.RECORDED, 0.0, "recorded runs only")


class Session:
    """Runs of this computer, and with ``manager`` those on sites. All methods belong to one thread, none of them
    waits; ``close`` ends within seconds.

    ``runs`` holds a ``RunModel`` for every run that the mirrors or an agent know, by id, in the order of their numbers
    as they are found; ``jobs`` a ``JobModel`` for every job on a site. Commands return at once; a refusal comes in
    ``Changes.problems`` of a later tick.

    With ``only`` it follows those jobs of earlier programs and whatever is started by it, no other run of this
    computer, and lets go of a node as soon as its runs have ended: for commands.

    With ``recorded`` it has these runs, which were read from their folders, reads none of its own files, and refuses
    whatever would act on a run; ``link`` says why.
    """

    def __init__(
        self,
        places: Places,
        catalogue: Catalogue,
        target: Target | None = None,
        manager: JobManager | None = None,
        only: Collection[str] | None = None,
        recorded: Mapping[str, RunModel] | None = None,
        link: LinkStatus = RECORDED,
    ) -> None:
        self._places = places
        self._acts = recorded is None
        target = target if target is not None else LocalTarget(places)
        self._record = run_record(places, read=self._acts)
        self._inbox = Inbox()
        self._runs = RunTable(places, self._record, manager.book if manager is not None else None, target.name)
        self.job_links = JobLinks(
            places, self._runs, self._inbox, manager, _GRACE_S if only is None else 0.0, only is None
        )
        self.job_links.reopen(only)
        self._has_link = only is None and self._acts
        others = self._record.forgotten | self.job_links.owned()
        self._summaries = Summaries(places, catalogue.exercises)
        fetcher = Fetcher(places.mirrors, self._inbox, summaries=self._summaries)
        self.local_link = self.job_links.here = Link(
            target, fetcher, self._inbox, frozenset(others), catalogue, all_runs=only is None
        )
        self._intake = Intake(self._inbox, self._runs, self.job_links, catalogue, self._summaries)
        self.runs: Mapping[str, RunModel] = self._runs.models
        self.jobs: Mapping[str, JobModel] = self.job_links.models
        if recorded is not None:
            for model in recorded.values():
                self._runs.keep(model)
            self._intake.link = link

    @property
    def link(self) -> LinkStatus:
        """The state of the link to this computer's agent; those to jobs' agents are in ``jobs``."""
        return self._intake.link

    def start(self) -> None:
        """Begin to look for the agent, to read the mirrors, and to follow the jobs that are not over."""
        if self._has_link:
            self.local_link.start()
        self.job_links.start()

    def runs_of(self, exercise: str) -> list[RunModel]:
        """The runs of an exercise, oldest first."""
        return sorted(self._runs.by_exercise.get(exercise, {}).values(), key=lambda run: run.number)

    def prefer(self, *exercises: str) -> None:
        """Read the runs of these exercises, because somebody looks at them. Runs of others that were summed up by an
        earlier program are not read before that."""
        self.local_link.prefer(exercises)

    def on_news(self, wake_up: Callable[[], None]) -> None:
        """Call ``wake_up``, from any thread, when there is something for ``tick`` again."""
        self._inbox.wake_up = wake_up

    def tick(self, budget: float = 0.008) -> Changes:
        """Take in what arrived, for about ``budget`` seconds; the rest waits for the next tick."""
        changes = self._intake.tick(budget)
        self.job_links.let_go_of_idle(time.monotonic())
        return changes

    def close(self) -> None:
        """End the links. Agents, jobs and all runs go on."""
        self.local_link.leave()
        self.job_links.close()
        self.local_link.close()
        if self._acts:
            self._summaries.save()

    # --- Starting -----------------------------------------------------------------------------------------------------

    def start_run(self, spec: RunSpec, place: Place | None = None) -> str:
        """Ask for a run and return its id (a new UUID when ``spec.run`` is empty). Its model exists at once.

        Raises ``ProblemError`` with everything that can be seen to be wrong from here. What the agent or the site finds
        comes later as a problem, and the run is FAILED with that reason.
        """
        return self.start_runs((spec,), place)[0]

    def _start_here(self, spec: RunSpec, kept: bool) -> None:
        self._runs.add(spec, lasting=False, kept=kept)
        self._intake.started.add(spec.run)
        self._link_here().ask(StartRun(spec=spec))

    def _link_here(self) -> Link:
        """This computer's link; that of a command starts when it is first needed."""
        if not self._has_link:
            self._has_link = True
            self.local_link.start()
        return self.local_link

    def follow(self, spec: RunSpec) -> None:
        """Follow a run that an earlier program started here."""
        self._runs.mirror(spec.run).keep_spec(spec, lasting=False)
        self._runs.add(spec, lasting=False)
        self._link_here().adopt(spec.run)

    def start_runs(self, specs: Sequence[RunSpec], place: Place | None = None, kept: bool = True) -> tuple[str, ...]:
        """Ask for several runs and return their ids. At a place on a site one job begins them in this order, each as
        soon as there are devices for it. Their models exist at once. Raises ``ProblemError`` like ``start_run``.

        A spec with the id of a run whose job is over continues that run in the new job. Not ``kept``: tries on this
        computer, which have no number for good until ``keep`` is called, and may be discarded."""
        self._check_live()
        for spec in specs:
            card = find_card(self._intake.catalogue.exercises, spec.exercise)
            raise_all(check(card.params, spec.params)[1])
        names = iter(sorted(str(uuid.uuid4()) for _ in specs))  # the job's agent begins runs in the order of their ids
        mine = [signed(self._places, spec) for spec in specs]
        named = [spec if spec.run else msgspec.structs.replace(spec, run=next(names)) for spec in mine]
        with self._recording():
            for spec in named:
                if spec.run not in self.runs:
                    self._runs.mirror(spec.run).keep_spec(spec, lasting=False)
            if place is None or (place.site in ("", LOCAL) and not place.job):
                for spec in named:
                    self._start_here(spec, kept)
            else:
                self._start_there(named, place)
        with suppress(OSError):  # a disk is waited for when the agent is running already
            if kept:
                self._record.settle()
        return tuple(spec.run for spec in named)

    def keep(self, run: str) -> None:
        """Give a try its number for good. Raises ``ProblemError`` if the disk refuses."""
        with self._recording():
            self._runs.number(self._known(run))

    def discard(self, run: str) -> None:
        """End a try at once and remove it, here and at the agent. Raises ``ProblemError`` for a run that is kept, or if
        the disk refuses."""
        if run in self._record.numbers:
            text = f"Run {self.runs[self._known(run)].number} is kept."
            raise problem("session.kept", text, "Remove it from the list instead.", run)
        self.forget(run, lasting=False)
        self.local_link.ask(Stop(run=run, now=True, discard=True))

    def continue_study(
        self, runs: Sequence[str], missing: Sequence[RunSpec], place: Place | None = None
    ) -> tuple[str, ...]:
        """Go on with ``runs`` of a study that ended early, and begin those that were never asked for; the ids of all.
        Runs whose job is over go into one further job like it, with the missing ones; else those go to ``place``.
        Raises ``ProblemError`` like ``start_run``."""
        models = [self.runs[self._known(run)] for run in runs]
        over = [model for model in models if model.job is not None and model.job.over]
        for model in models:
            if model not in over:
                self.continue_run(model.id)
        if over and over[-1].job is not None:
            last = self.jobs[over[-1].job.job].order
            place = Place(site=last.site, allocation=last.allocation, data=last.data, exercises=last.exercises)
        specs = [*(model.spec for model in over), *missing]
        started = self.start_runs(specs, place) if specs else ()
        return (*(model.id for model in models if model not in over), *started)

    def _recording(self) -> AbstractContextManager[None]:
        return os_refused("session.disk", f"The run cannot be recorded in {self._places.mirrors}")

    def _start_there(self, specs: Sequence[RunSpec], place: Place) -> None:
        held = None
        try:
            if place.job and place.data:
                text = "A file of this computer can go only with the run's own job, not to a held node."
                raise problem("job.data", text, "Run it on the site itself, or name data that are there.", "data")
            for spec in specs if place.job else ():
                held = self.job_links.give_run(place.job, spec)
            job = place.job or self.job_links.submit(place, *specs)
        except BaseException:
            for spec in specs:
                if spec.run not in self.runs:
                    shutil.rmtree(self._places.mirrors / spec.run, ignore_errors=True)
            raise
        models, again = [], [self.runs[spec.run] for spec in specs if spec.run in self.runs]
        for spec in specs:
            if spec.run not in self.runs:
                self.local_link.release(spec.run)
                models.append(self._runs.add(spec, lasting=False))
        if held is None:
            self.job_links.follow(job, again)
            return
        for model in models:
            model.link = job
            held.adopt(model.id)
            held.ask(StartRun(spec=as_there(model.spec)))

    def hold(self, place: Place) -> str:
        """Take an allocation and keep it, without a run yet; the job's UUID. Raises ``ProblemError``."""
        self._check_live()
        job = self.job_links.submit(msgspec.structs.replace(place, hold=True, job=""))
        self.job_links.follow(job)
        return job

    def try_here(self, run: str) -> str:
        """While a run waits elsewhere: start a short run of the same settings on this computer, and return its id.

        Raises ``ProblemError`` like ``start_run``.
        """
        model = self.runs[self._known(run)]
        return self.start_run(smaller(model.spec, find_card(self._intake.catalogue.exercises, model.spec.exercise)))

    # --- Steering -----------------------------------------------------------------------------------------------------

    def pause(self, run: str) -> None:
        """Stop after the current block and wait."""
        self._ask(run, Pause(run=run))

    def unpause(self, run: str) -> None:
        """Go on after a pause."""
        self._ask(run, Unpause(run=run))

    def stop(self, run: str, now: bool = False) -> None:
        """End after the current block, with a checkpoint, or at once. A job that waits for this run alone is
        cancelled."""
        model = self.runs[self._known(run)]
        job = self.jobs.get(model.job.job) if model.job is not None else None
        if job is not None and not_begun(job.news):
            if job.order.hold or len(job.runs) > 1:
                hint = "Cancel the job; then none of its runs begins."
                raise problem("job.shared", f"The job of run {model.number} waits for more than this run.", hint)
            self.job_links.end(job.id)
        else:
            self._ask(run, Stop(run=run, now=now))

    def cancel(self, job: str) -> None:
        """End a job with all its runs, take it out of the queue, or give back an allocation that was held."""
        self._check_live()
        self.job_links.end(job)

    def set_live(self, run: str, name: str, value: float) -> None:
        """Change a live hyperparameter from the next block on."""
        self._ask(run, SetLive(run=run, name=name, value=value))

    def try_run(self, request: TryRun) -> None:
        """Ask what the network of a run makes of an image; the answer is in ``Changes.tried`` of a later tick. Raises
        ``ProblemError`` where nobody can answer any more."""
        model = self.runs[self._known(request.run)]
        if model.elsewhere and not model.link:
            raise try_over(str(model.number))
        self._ask(request.run, request)

    def trace(self, run: str, steps: int) -> None:
        """Record what the operations of the next steps do."""
        self._ask(run, TraceSteps(run=run, steps=steps))

    def disturb(self, request: DisturbCluster) -> None:
        """Slow or end a process of a parameter-server run, or add a worker."""
        self._ask(request.run, request)

    def recall(self, run: str) -> None:
        """Make known a run whose journal is complete here, for a session with ``only``. Raises ``ProblemError`` if
        there is no copy of it."""
        if run in self.runs:
            return
        spec = self._runs.mirror(run).spec()
        if spec is None:
            raise problem("run.unknown", f"There is no run {run!r}.", "", run, list_all("runs"))
        with self._recording():
            self._runs.add(spec)

    def open_recording(self, folder: Path) -> str:
        """List a run that has ended beside the others, as a recording that nobody acts on; its id here. Raises
        ``ProblemError`` where it cannot be read."""
        spec, history = read_recording(folder)
        if spec.run not in self.runs:
            with self._recording():
                model = self._runs.add(spec, lasting=False)
            model.history, model.folder, model.where, model.elsewhere = history, folder, "Recording", True
        return spec.run

    def continue_run(
        self, run: str, allocation: AllocationRequest | None = None, changes: Mapping[str, str | int] | None = None
    ) -> None:
        """Go on from the last checkpoint as a new attempt, with ``changes`` of strategy, devices or nodes; where the
        run's job is over, in a job like that one, or with this ``allocation``. Raises ``ProblemError``."""
        model, given = self.runs[self._known(run)], changes or {}
        if model.job is not None and model.job.over:
            change = (lambda spec: self._spread_again(spec, given)) if given else None
            self.job_links.continue_in_next(model, allocation, change)
            return
        strategy, devices, nodes = str(given.get("strategy", "")), given.get("devices", 0), given.get("nodes", 0)
        self._ask(run, ContinueRun(run=run, strategy=strategy, devices=int(devices), nodes=int(nodes)))
        if model.job is not None:
            self.job_links.on_continue_asked(model)

    def _spread_again(self, spec: RunSpec, changes: Mapping[str, str | int]) -> RunSpec:
        card = find_card(self._intake.catalogue.exercises, spec.exercise)
        spread = spread_again(spec, card, changes)
        raise_all([*check_spec(spread, "the run"), *check_strategy(spread, card)])
        return spread

    def move_run(self, run: str, place: int) -> None:
        """Put a waiting run at a place of its agent's queue, 1 being the next."""
        self._ask(run, MoveRun(run=run, place=place))

    def annotate(self, run: str, note: RunNote) -> None:
        """Keep what a person wrote about a run. Raises ``ProblemError`` if it is too long or the disk refuses."""
        self._check_live()
        model = self.runs[self._known(run)]
        raise_all(note_problems(note, MAX_NAME))
        with os_refused("session.disk", "The note cannot be kept"):
            self._record.add(RunLine(run=run, note=note))
        model.note = note

    def forget(self, run: str, lasting: bool = True) -> None:
        """Take a run out of the list for good and remove the mirror; the agent's own folder stays. Not ``lasting``: the
        disk is not waited for.

        Raises ``ProblemError`` for an unknown run and when the disk refuses.
        """
        self._check_live()
        self._known(run)
        link = self.job_links.link(self.runs[run].link) or self.local_link
        with os_refused("session.disk", "The run cannot be taken out"):
            self._record.add(RunLine(run=run, forgotten=True), lasting)
        self._runs.drop(run)
        link.drop(run)

    def renew_agent(self) -> None:
        """End this computer's agent and start another with the present settings; runs go on."""
        self.local_link.renew()

    def reload_exercises(self) -> None:
        """Have this computer's agent read the files of its folder again."""
        self.local_link.ask(GetCatalogue(fresh=True))

    def _ask(self, run: str, command: Command) -> None:
        self._check_live()
        model = self.runs[self._known(run)]
        link = self.job_links.link(model.link) if model.link else self.local_link
        if link is None or (model.elsewhere and not model.link):
            text = f"Run {model.number} can take no more requests: its job is over."
            raise problem("job.over", text, "Continue sends a further job for it.", run)
        link.ask(command)

    def _check_live(self) -> None:
        """Raises ``ProblemError`` where there are recorded runs only."""
        if not self._acts:
            text = "These runs are recorded; there is no agent to act on them."
            raise problem("session.recorded", text, "Open the window.")

    def _known(self, run: str) -> str:
        if run not in self.runs:
            raise problem("run.unknown", f"There is no run {run!r}.")
        return run


def try_over(run: str) -> ProblemError:
    """The refusal to try a run on a site whose job is over."""
    text = f"The job of run {run} is over, and its checkpoints are on the site."
    return problem("try.over", text, "Hold a node, run it there, and try it before you give the node back.", "run")


# --- Smaller ----------------------------------------------------------------------------------------------------------
# A short run of the same settings, for this computer, while the real one waits elsewhere.


_SHARE = 10
_STEPS = 200
"""A few seconds on a laptop's processor with the built-in exercises."""
_ENDING = " (tried here)"


def smaller(spec: RunSpec, card: ExerciseCard) -> RunSpec:
    """``spec`` as a new run with a tenth of its steps, 200 at most, and one epoch; on one device, with data that are
    found here or the exercise's own."""
    values = {param.name: spec.params.get(param.name, param.default) for param in card.params}
    params = dict(spec.params)
    steps = values.get(STEPS)
    if isinstance(steps, int):
        params[STEPS] = few = max(1, min(_STEPS, steps // _SHARE))
        every = values.get("evaluate_every")
        params |= {"evaluate_every": few} if isinstance(every, int) and every > few else {}
    if "epochs" in values:
        params["epochs"] = 1
    name = (spec.name or card.title)[: MAX_NAME - len(_ENDING)] + _ENDING
    known = spec.data in card.datasets or Path(spec.data).expanduser().exists()
    data = spec.data if known else ""
    usual = RunSpec(exercise=spec.exercise)  # a laptop may have neither the devices nor the arithmetic
    spread = {field: getattr(usual, field) for field in ("strategy", "devices", "nodes", "precision", "options")}
    return without_study(spec, run="", name=name, data=data, params=params, pruning=None, prediction=None, **spread)
