"""Starts runs: where the form says, with the consent that the site needs, at that place, by the session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
from PySide6.QtWidgets import QApplication, QWidget

from clew_gui.base.settings import exercises_folder
from clew_gui.jobs.job import Place
from clew_gui.session.session import Session
from clew_gui.sites.consent import OwnWords, consents
from clew_gui.sites.site import Site, title_of
from clew_gui.views.sites.background import Failed, call_elsewhere
from clew_gui.views.sites.prompts import consent_question, missing_consents
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem
from clew_shared.spec import RunSpec

if TYPE_CHECKING:
    from clew_gui.views.actions.controller import WindowController


class RunStarter:
    """Starts the runs that a person asks for: one, or the runs of a study. There is one object for each window."""

    def __init__(self, controller: WindowController, places: Places) -> None:
        self._controller, self._window, self._places = controller, controller.window, places
        self._window.next_run.run_asked.connect(lambda spec: self.start((spec,)))

    def start(self, specs: Sequence[RunSpec], started: Callable[[], object] = lambda: None) -> None:
        """Start these runs where the form says, as one job if that is on a site: at once, or when a consent that the
        site needs was given. Those of a study are drawn alone; ``started`` is called when they were asked for."""
        self.at_place(specs, lambda place: self.start_at(place, specs, started))

    def at_place(self, specs: Sequence[RunSpec], do: Callable[[Place | None], object]) -> None:
        """Do something with these runs where the form says: at once, or when a consent that the site needs was
        given."""
        place, chosen = self.place(specs), self._window.next_run.where.choice()
        if place is None or chosen.site is None:
            do(place)
        else:
            self.with_consent(chosen.name, chosen.site, lambda: do(place))

    def start_at(
        self, place: Place | None, specs: Sequence[RunSpec], started: Callable[[], object] = lambda: None
    ) -> None:
        """Start these runs at a place, None for this computer, without a question."""
        runs = self.begin(lambda session: session.start_runs(specs, place))
        if runs and specs[0].study:
            self._controller.show_alone(runs)
        if runs:
            started()

    def place(self, specs: Sequence[RunSpec] = ()) -> Place | None:
        """Returns the place in the form, for these runs or for the form's own, with the folder of own exercises from
        the settings; None for this computer."""
        place = self._window.next_run.place(specs)
        folder = exercises_folder(self._places) if place is not None else ""
        return msgspec.structs.replace(place, exercises=folder) if place is not None and folder else place

    def with_consent(
        self, name: str, site: Site, then: Callable[[], object], otherwise: Failed = lambda _problems: None
    ) -> None:
        """Do ``then`` when nothing of the site lacks consent, or the person gives it; else call ``otherwise``."""

        def found(words: tuple[OwnWords, ...]) -> None:
            if not words:
                then()
                return
            dialog = consent_question(self.front(), self._window.appearance, title_of(name, site), words)
            dialog.accepted.connect(lambda: agreed(words))
            dialog.rejected.connect(lambda: otherwise(()))
            dialog.open()

        def agreed(words: tuple[OwnWords, ...]) -> None:
            with self._controller.refusals():
                consents(self._places).give(words)
                then()

        def failed(problems: tuple[Problem, ...]) -> None:
            self._controller.show_problems(problems)
            otherwise(problems)

        call_elsewhere(self._controller, f"consent {name}", lambda: missing_consents(site, self._places), found, failed)

    def begin(self, ask: Callable[[Session], Sequence[str]]) -> Sequence[str]:
        """Let ``ask`` start runs, wherever, select the first one, and return their ids; none if they are refused."""
        runs: Sequence[str] = ()
        with self._controller.refusals():
            runs = ask(self._controller.model.session)
            self._controller.await_runs(runs)
        return runs

    def front(self) -> QWidget:
        """Returns the widget that a new dialog belongs to."""
        return QApplication.activeModalWidget() or self._window
