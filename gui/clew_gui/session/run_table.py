"""All runs that a viewer knows, with their numbers and the jobs that they were given to."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from clew_gui.session.job_record import JobRecord
from clew_gui.session.mirror import Mirror
from clew_gui.session.run_model import RunModel
from clew_shared.places import Places
from clew_shared.spec import RunSpec

if TYPE_CHECKING:
    from clew_gui.remote.job_book import JobBook


class RunTable:
    """``models`` by id, in the order in which they were found. ``here`` is this computer in words; ``book`` None: no
    run was given to a job."""

    def __init__(self, places: Places, record: JobRecord, book: JobBook | None, here: str) -> None:
        self.models: dict[str, RunModel] = {}
        self.record = record
        self._places = places
        self._book = book
        self._here = here

    def mirror(self, run: str) -> Mirror:
        """This computer's copy of the run."""
        return Mirror(self._places.mirrors / run)

    def add(self, spec: RunSpec, lasting: bool = True) -> RunModel:
        """The model of a run that is new here. Raises ``OSError`` if the disk refuses to keep its number."""
        number = self.record.number(spec.run, time.time(), lasting)
        where = self.record.where.get(spec.run, "")
        model = RunModel(spec, number, self._places.mirrors / spec.run, where or self._here)
        model.elsewhere = bool(where)
        self.models[spec.run] = model
        self.place(model)
        return model

    def place(self, model: RunModel) -> None:
        """Note in the model which job it was given to last, if to any."""
        job = self._book.job_of(model.id) if self._book is not None else ""
        if not job or self._book is None:
            return
        model.elsewhere = True
        model.site, model.where = self._book.order(job).site, self._book.title(job)
        model.job, model.status = self._book.news(job), None
        model.settled = self.record.settled.get(model.id) == job
        model.follows_on = self._book.went_with(model.id, but=job)

    def settle(self, model: RunModel, job: str) -> None:
        """All that the job left of the run is here; if that cannot be noted it is looked for again next time. A further
        job may have the run by now."""
        if model.job is None or model.job.job == job:
            model.settled, model.status = True, None
        with suppress(OSError):
            self.record.settle_run(model.id, job, time.time())

    def is_settled(self, run: str, job: str) -> bool:
        """Whether all that the job left of the run is here."""
        return self.record.settled.get(run) == job
