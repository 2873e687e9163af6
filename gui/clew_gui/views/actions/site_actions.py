"""Handles sites in the window: edit and test them, show the job script, reserve a node."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from functools import partial

import msgspec
from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QApplication, QWidget

from clew_gui.doctor.checks import examine
from clew_gui.doctor.software import available
from clew_gui.jobs.job import Place
from clew_gui.jobs.manager import JobManager
from clew_gui.schedulers.allocation import LABELS
from clew_gui.schedulers.registry import scheduler_of
from clew_gui.session.intake import Changes
from clew_gui.sites.scheduler_search import ABSENT, look_for_scheduler, with_scheduler
from clew_gui.sites.site import LOCAL, Site, address, is_local, title_of
from clew_gui.sites.site_connection import open_connection
from clew_gui.sites.store import site_store
from clew_gui.ssh.config import offered_hosts, user_config
from clew_gui.ssh.prompts import AskOnce, Prompter
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.actions.node_actions import NodeActions
from clew_gui.views.form.where_box import PlaceChoice
from clew_gui.views.presentation.job_words import held_title
from clew_gui.views.presentation.menu_entries import RemedyButton
from clew_gui.views.sites.background import call_elsewhere
from clew_gui.views.sites.doctor_dialog import DoctorDialog, State, Step
from clew_gui.views.sites.jobs import SiteBar
from clew_gui.views.sites.prompts import ScriptDialog, hold_question
from clew_gui.views.sites.sites_dialog import SitesDialog
from clew_shared.base import remedies
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError, problem

_OF_SITES = frozenset({"site", "ssh", "scheduler", "preflight", "bootstrap", "route", "consent"})
"""The beginnings of the codes of problems with a site."""
_KEYS = ("ssh.hostkey.changed", "ssh.hostkey.revoked")
"""A server shows another key than before: it is said once for each job, and nobody connects."""
_STATES: dict[str, State] = {"ok": "right", "warn": "note", "bad": "wrong", "skipped": "open"}


def the_doctor(
    name: str, site: Site, places: Places, prompter: Prompter, node: bool, stop: threading.Event
) -> Iterator[Step]:
    """The doctor's findings as steps. Waits for the network."""
    for found in examine(name, site, places, prompter, node, stop):
        state = _STATES.get(found.verdict, "note")
        yield Step(found.title, state, found.text, found.hint, found.where, found.remedies)


def the_search(name: str, site: Site, places: Places, prompter: Prompter) -> tuple[str, Site]:
    """Finds a site's scheduler; returns it in words, and the site with it. Waits for the network. Raises
    ``ProblemError``."""
    try:
        with closing(open_connection(name, site, places, AskOnce(prompter))) as connection:
            found = look_for_scheduler(connection)
    except ProblemError as error:
        first = error.problems[0]
        if first.code == ABSENT:
            hint = (
                "If that is what you want, choose “no scheduler”. If a module brings its commands, add it to Modules."
            )
            raise problem(first.code, first.text, hint, first.where) from None
        raise
    return found.text, with_scheduler(site, found)


def the_modules(name: str, site: Site, places: Places, prompter: Prompter) -> Sequence[str]:
    """The modules of a site. Waits for the network. Raises ``ProblemError``."""
    with closing(open_connection(name, site, places, AskOnce(prompter))) as connection:
        return available(connection).names


class SiteActions(QObject):
    """Joins the window's parts that concern sites. ``manager`` None: this session talks to no sites."""

    def __init__(
        self, controller: WindowController, places: Places, prompter: Prompter, manager: JobManager | None
    ) -> None:
        window = controller.window
        super().__init__(window)
        self._window, self._controller, self._places = window, controller, places
        self._starter = controller.starter
        self._prompter, self._store, self._manager = prompter, site_store(places), manager
        self.list_modules: Callable[[str, Site, Places, Prompter], Sequence[str]] = the_modules
        self._refused_keys: set[str] = set()
        self.bar = SiteBar(window.appearance)
        self.nodes = NodeActions(controller, places, self.bar, manager)
        window.next_run.put_site_bar(self.bar)
        where = window.next_run.where
        where.sites_asked.connect(lambda: self.show_sites())
        where.script_asked.connect(self.show_script)
        controller.second.connect(self.nodes.tick)
        controller.bridge.news.connect(self._take_in)
        add = window.remedies.add
        add(remedies.MODULES, lambda one: RemedyButton("Modules…", lambda: self.show_modules(one.site, one.value)))
        add(remedies.CHECK_NODE, lambda one: RemedyButton("Check a node", lambda: self.check_node(one.site)))
        add(remedies.CONSENT, lambda one: RemedyButton("Read and approve…", lambda: self.read_consent(one.site)))
        add(remedies.HOLD, lambda _one: RemedyButton("Hold a node…", self.ask_hold))
        self.refresh()
        app = QApplication.instance()
        if isinstance(app, QApplication):
            app.applicationStateChanged.connect(self._look_again)

    def remedies(self, found: Problem) -> Sequence[RemedyButton]:
        """The remedies that a problem names and *Edit site…*, for what is wrong with a site or on the route to it; none
        for any other problem."""
        session = self._controller.model.session
        jobs = session.jobs.values()
        sites = [job.order.site for job in jobs if found in (job.news.problem, job.locked)]
        ways = self._window.remedies.of(found.remedies)
        about_form = self._window.next_run.where.form is not None and found.where in LABELS
        of_site = bool(sites) or found.code.partition(".")[0] in _OF_SITES
        if not of_site or (about_form and ways):
            return ()
        name = (sites or [self._window.next_run.where.choice().name])[-1]
        if about_form:
            return self._window.remedies.of((remedies.choose(found.where),))
        return (*ways, RemedyButton("Edit site…", lambda: self.show_sites(name)))

    def _take_in(self, changes: Changes) -> None:
        if changes.jobs:
            self._jobs_changed(changes.jobs)
        if changes.problems:  # a site may have refused what the form asks of it
            self._window.next_run.where.refused(changes.problems)

    # --- Which there are ----------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read the sites, and offer them and the nodes that are held."""
        self._sites = tuple(self._choices())
        self._offer()
        self.nodes.show()

    def _look_again(self, state: Qt.ApplicationState) -> None:
        """Reads the sites when a person comes back to the window: a command may have added one meanwhile."""
        if state is Qt.ApplicationState.ApplicationActive and tuple(self._choices()) != self._sites:
            self.refresh()

    def _offer(self) -> None:
        held = [PlaceChoice(f"job:{job.id}", held_title(job), job.order.site, job=job.id) for job in self.nodes.held()]
        self._window.next_run.where.offer([*held, *self._sites])

    def _choices(self) -> Iterator[PlaceChoice]:
        for one in self._store.all():
            if one.name == LOCAL:
                continue
            if one.site is None:
                words = " ".join(str(found) for found in one.problems[:2])
                yield PlaceChoice(f"site:{one.name}", f"{one.name}, cannot be read", one.name, why_not=words)
            elif not is_local(one.site):
                yield PlaceChoice(f"site:{one.name}", title_of(one.name, one.site), one.name, one.site)

    def _jobs_changed(self, jobs: Collection[str]) -> None:
        session = self._controller.model.session
        if any(session.jobs[job].order.hold for job in jobs if job in session.jobs):
            self._offer()
        self.nodes.show()
        for job in jobs:
            found = session.jobs[job].news.problem if job in session.jobs else None
            if found is not None and found.code in _KEYS and job not in self._refused_keys:
                self._refused_keys.add(job)
                self._window.messages.show_problems((found,))

    def close(self) -> None:
        """The window closes."""
        self.nodes.close()

    # --- Looking after them -------------------------------------------------------------------------------------------

    def show_sites(self, chosen: str = "") -> SitesDialog:
        """Shows all sites, to add, edit, test and share them, in the one window for them."""
        for there in (one for one in self._window.findChildren(SitesDialog) if one.isVisible()):
            there.read_again(chosen)
            return there
        known = self._store.names()
        hosts = [name for name in offered_hosts(user_config()) if name not in known]
        dialog = SitesDialog(self._window, self._window.appearance, self._store, hosts)
        dialog.changed.connect(self.refresh)
        dialog.test_asked.connect(lambda name: self.test(name, dialog))
        dialog.find_asked.connect(lambda name, site: self.find(name, site, dialog))
        if chosen in dialog.names():
            dialog.choose(chosen)
        dialog.open()
        return dialog

    def test(self, name: str, parent: SitesDialog) -> None:
        """The doctor, for a site that is kept."""
        self._with_kept(name, lambda site: self._open_doctor(name, site, parent))

    def check_node(self, name: str) -> None:
        """The doctor with a small job on a node."""
        self._with_kept(name, lambda site: self._open_doctor(name, site, self._starter.front(), node=True))

    def read_consent(self, name: str) -> None:
        """Show the shell commands of a site that lack consent, to be approved."""
        self._with_kept(name, lambda _site: self._window.messages.show_note("Approved. Start the run again."))

    def show_modules(self, name: str, instead: str = "") -> None:
        """Show the site, where the names of its modules complete the field *Modules*; ``instead`` cannot be loaded
        and is taken out."""

        def look(site: Site) -> None:
            dialog = self.show_sites(name)
            dialog.form.begin_entry("modules", instead)
            why, title = f"{instead} cannot be loaded. " if instead else "", title_of(name, site)
            dialog.message.set_text(f"{why}Asking {title} for its modules …")
            call_elsewhere(
                dialog,
                f"modules {name}",
                lambda: self.list_modules(name, site, self._places, self._prompter),
                partial(dialog.offer_modules, name),
                lambda problems: dialog.message.set_text(f"{title}: {problems[0]}"),
            )

        self._with_kept(name, look)

    def _with_kept(self, name: str, act: Callable[[Site], object]) -> None:
        """Do something with a site that is kept, once its shell commands are approved."""
        with self._controller.refusals():
            site = self._store.load(name)
            self._starter.with_consent(name, site, lambda: act(site))

    def find(self, name: str, site: Site, dialog: SitesDialog) -> None:
        """Find out which scheduler a site has; the site may not be saved yet."""

        def search() -> tuple[str, Site]:
            return the_search(name, site, self._places, self._prompter)

        def ask() -> None:
            call_elsewhere(dialog, f"scheduler {name}", search, lambda found: dialog.found(*found), dialog.not_found)

        self._starter.with_consent(name, site, ask, dialog.not_found)

    def _open_doctor(self, name: str, site: Site, parent: QWidget, node: bool = False) -> None:
        def steps(stop: threading.Event, node: bool) -> Iterator[Step]:
            return the_doctor(name, site, self._places, self._prompter, node, stop)

        title = address(site) if is_local(site) else title_of(name, site)
        job = None if is_local(site) else node
        dialog = DoctorDialog(parent, self._window.appearance, title, steps, self._doctor_buttons, job)
        dialog.open()

    def _doctor_buttons(self, step: Step) -> Sequence[RemedyButton]:
        """The remedies of a finding; its own dialog can look at a node."""
        return self._window.remedies.of(one for one in step.remedies if one.act != remedies.CHECK_NODE)

    # --- Running there ------------------------------------------------------------------------------------------------

    def try_here(self) -> None:
        """A short run of the selected run's settings on this computer."""
        run = self._controller.model.run()
        if run is not None:
            self._starter.begin(lambda session: (session.try_here(run.id),))

    def show_script(self) -> None:
        """The job script of what is in the form, exactly as it would be sent."""
        place, chosen = self._starter.place(), self._window.next_run.where.choice()
        manager = self._manager
        if place is None or chosen.site is None or manager is None:
            self._window.messages.show_note("Only runs on a site have a job script: choose one under Run on.")
            return
        spec = msgspec.structs.replace(self._window.next_run.spec(), run=str(uuid.uuid4()))
        order = place.order(spec)

        def show() -> None:
            dialog = ScriptDialog(self._window, self._window.appearance, chosen.title)
            call_elsewhere(
                dialog, "job script", lambda: manager.preview(order), dialog.show_script, dialog.show_problems
            )
            dialog.open()

        self._starter.with_consent(chosen.name, chosen.site, show)

    # --- Holding a node -----------------------------------------------------------------------------------------------

    def ask_hold(self) -> None:
        """Say what it costs, then hold."""
        place, chosen = self._starter.place(), self._window.next_run.where.choice()
        if place is None or chosen.site is None:
            self._window.messages.show_note("A node is held on a site: choose one under Run on first.")
            return
        site = chosen.site
        if not scheduler_of(site.scheduler).has_queue:
            self._window.messages.show_note(f"{chosen.title} has no queue: every run starts there at once.")
            return
        dialog = hold_question(self._window, self._window.appearance, chosen.title, place.allocation)
        dialog.accepted.connect(lambda: self._starter.with_consent(chosen.name, site, lambda: self.hold(place)))
        dialog.open()

    def hold(self, place: Place) -> None:
        """Take the allocation and keep it."""
        with self._controller.refusals():
            job = self._controller.model.session.hold(msgspec.structs.replace(place, hold=True, data=""))
            self.refresh()
            self._window.next_run.where.choose(f"job:{job}")
