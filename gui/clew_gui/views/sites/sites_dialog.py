"""The sites: a list at the left, the chosen one's fields at the right; add, import, find, test, export, remove."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtWidgets import QCompleter, QLineEdit, QListView, QListWidget, QListWidgetItem, QMenu, QWidget

from clew_gui.schedulers.registry import scheduler_of
from clew_gui.sites.check import check_name, check_title, with_free_title
from clew_gui.sites.presets import PRESETS, site_from
from clew_gui.sites.site import LOCAL, Site, address, title_of
from clew_gui.sites.site_fields import ASKED, FOLDED, NAME, SITE_FIELDS, free_name, machine_of, site_of, texts_of
from clew_gui.sites.site_file import read_site, to_toml
from clew_gui.sites.store import SiteStore
from clew_gui.views.form.fields import text_field
from clew_gui.views.form.form import FormRow, ParamForm, field_rows
from clew_gui.views.theme.dialog import Dialog, Question, ask_file, ask_place
from clew_gui.views.theme.parts import Appearance, Button, Elided, column, frame, label, row, scrolling, set_role
from clew_gui.views.theme.theme import font
from clew_shared.base.number_words import counted
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.params import Value, convert, format_value

_CONNECTION = frozenset({"host", "user", "port", "key", "jump", "fingerprints", "prologue", "modules"})
"""Fields without which, or with which wrong, nobody can look at the site."""
_NAME = Qt.ItemDataRole.UserRole
_LIST = 232


class ListCompleter(QCompleter):
    """Completes the last of several names with commas between them, by any part of it."""

    def __init__(self, names: Sequence[str], field: QWidget) -> None:
        super().__init__(list(names), field)
        self.setWidget(field)
        self.setFilterMode(Qt.MatchFlag.MatchContains)
        self.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        popup = QListView()
        popup.setObjectName("completer")
        self.setPopup(popup)

    def splitPath(self, path: str) -> list[str]:
        """The part that is completed."""
        return [path.rpartition(",")[2].strip()]

    def pathFromIndex(self, index: QModelIndex | QPersistentModelIndex) -> str:
        """The whole text with it."""
        field = self.widget()
        before, comma, _ = (field.text() if isinstance(field, QLineEdit) else "").rpartition(",")
        return f"{before}{comma} {super().pathFromIndex(index)}".lstrip()


class SiteForm(QWidget):
    """The form of one site. ``changed`` is emitted after any change by a person; ``site`` and ``problems`` are up to
    date then. ``find_button`` is for looking for the scheduler."""

    changed = Signal()

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self.find_button = Button(appearance, "Find", "", "search", "Log in and find out which scheduler the site has")
        self.find_button.setAutoDefault(False)
        self.form = ParamForm(appearance, SITE_FIELDS, usual=None, folded=FOLDED)
        self.form.row("scheduler").put_beside(self.find_button)
        self.form.changed.connect(self._edited)
        self.site = Site()
        self.problems: tuple[Problem, ...] = ()
        box = column(self.form, gap=0, parent=self)
        box.addStretch(1)

    def row(self, name: str) -> FormRow:
        """Returns one field."""
        return self.form.row(name)

    def texts(self) -> Mapping[str, str]:
        """Returns the present texts of all fields."""
        raw = {spec.name: self.row(spec.name).editor.raw() for spec in SITE_FIELDS}
        return {name: one if isinstance(one, str) else format_value(bool(one)) for name, one in raw.items()}

    def show_texts(self, texts: Mapping[str, str]) -> None:
        """Fill all fields; groups without values are folded."""
        values: dict[str, Value] = {
            spec.name: convert(spec, texts[spec.name])[0] if spec.type.python is bool else texts[spec.name]
            for spec in SITE_FIELDS
        }
        with QSignalBlocker(self.form):
            self.form.set_values(values)
        self.form.fold_usual()
        self._read()

    def show_problems(self, problems: Sequence[Problem]) -> None:
        """Put problems that came from elsewhere to their fields."""
        self.form.only_problems(problems)

    def show_title(self, title: str) -> None:
        """The title that the site has while that field is empty."""
        field = self.row("title").editor
        if isinstance(field, QLineEdit):
            field.setPlaceholderText(title)

    def complete(self, name: str, names: Sequence[str]) -> None:
        """Completes what is typed in a field by these names; they are shown at once where the cursor is in it."""
        field = self.row(name).editor
        if isinstance(field, QLineEdit):
            completer = ListCompleter(names, field)
            field.setCompleter(completer)
            if names and field.hasFocus():
                completer.setCompletionPrefix(field.text())
                completer.complete()

    def begin_entry(self, name: str, instead: str) -> None:
        """Put the cursor behind the names in a field, for one more; ``instead`` is taken out."""
        field = self.row(name).editor
        if isinstance(field, QLineEdit):
            kept = [one.strip() for one in field.text().split(",") if one.strip() not in ("", instead)]
            field.setText(", ".join([*kept, ""]))
            field.setFocus()

    def focus(self, name: str) -> None:
        """Put the cursor into a field."""
        self.row(name).editor.setFocus()

    def _edited(self) -> None:
        self._read()
        self.changed.emit()

    def _read(self) -> None:
        self.site, self.problems = site_of(self.texts())
        self.show_problems(self.problems)
        scheduled = scheduler_of(self.site.scheduler).has_queue
        for spec in SITE_FIELDS:
            if spec.name.startswith(ASKED):
                self.row(spec.name).editor.setEnabled(scheduled)
                self.row(spec.name).label.setEnabled(scheduled)


class Draft:
    """A site that is being edited: the fields' texts, whether a person has ``edited`` them, and how it is kept now
    (None: not yet). Of a ``blank`` one nobody has said which scheduler it has."""

    def __init__(self, name: str, site: Site, kept: Site | None, own: bool = True, blank: bool = False) -> None:
        self.name, self.site, self.kept, self.own = name, site, kept, own
        self.texts = texts_of(site) | ({"scheduler": ""} if blank else {})
        self.edited = False
        self.named = False
        """Whether a person chose its short name; else it follows the host that a person typed."""
        self.first_host = site.host
        self.problems: tuple[Problem, ...] = ()
        self.clashes: list[str] = []
        """The fields that a person edited here and that were changed in the file meanwhile; nobody has said so yet."""

    def take(self, now: Site) -> None:
        """Takes over what the file says now, but for the fields that a person edited."""
        before, there = texts_of(self.kept or now), texts_of(now)
        mine = {name: text for name, text in self.texts.items() if text != before[name]}
        self.clashes += [name for name, text in mine.items() if there[name] not in (before[name], text)]
        self.kept, self.texts = now, there | mine
        self.site, self.problems = site_of(self.texts) if mine else (now, ())

    @property
    def changed(self) -> bool:
        """Whether there is something to save."""
        return self.kept is None or self.site != self.kept or bool(self.problems)


class SitesDialog(Dialog):
    """Lists all sites, to edit and test them. ``changed``: a site was saved or removed. ``test_asked`` asks for the
    doctor for a saved site; ``find_asked`` asks which scheduler a site has, which ``found`` or ``not_found``
    answers."""

    changed = Signal()
    test_asked = Signal(str)
    find_asked = Signal(str, object)

    def __init__(self, parent: QWidget, appearance: Appearance, store: SiteStore, hosts: Sequence[str]) -> None:
        super().__init__(
            parent, "Sites", "Machines that runs can go to. Sites contain no passwords, so you can share them."
        )
        self._appearance, self._store, self._hosts = appearance, store, tuple(hosts)
        self._drafts: dict[str, Draft] = {}
        self._name = ""
        self._leaving = False
        self._finding: Draft | None = None
        self._make_list()
        self._make_form()
        left = column(self.list, row(self.add_button, self._remove, None, gap=6), gap=8)
        side = QWidget()
        side.setLayout(left)
        side.setFixedWidth(_LIST)
        self.add(row(side, frame("vline"), self._right, gap=14, grows=self._right), 1)
        self.finish(self.message, None, self._export, self.test, self.save, self.close_button(appearance, role=""))
        self.resize(860, 640)
        self._fill(LOCAL)

    def _make_list(self) -> None:
        self.list = QListWidget()
        self.list.setFont(font())
        self.list.setAccessibleName("Sites")
        self.list.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.currentItemChanged.connect(lambda now, _before: self._chosen(now))
        self.add_button = Button(self._appearance, "Add", "", "plus", "From a preset, from ~/.ssh/config, from a file")
        self.add_button.setMenu(self._add_menu())
        self.add_button.setAutoDefault(False)
        self._remove = Button(
            self._appearance, "Remove", "quiet", "trash", "Forget this site; nothing on the site changes", "bad"
        )
        self._remove.setAutoDefault(False)
        self._remove.clicked.connect(self.remove)

    def _add_menu(self) -> QMenu:
        menu = QMenu(self)
        menu.setFont(font())
        known = menu.addMenu("From ~/.ssh/config")
        for host in self._hosts:
            known.addAction(host).triggered.connect(lambda _on=False, h=host: self.begin_blank(h, Site(host=h)))
        if not self._hosts:
            known.addAction("There is no other host in it").setEnabled(False)
        presets = menu.addMenu("From a preset")
        for key, site in PRESETS.items():
            if key != LOCAL:
                presets.addAction(site.title).triggered.connect(lambda _on=False, k=key: self.begin_preset(k))
        menu.addAction("From a file…").triggered.connect(lambda _on=False: self._ask_file())
        menu.addAction("Blank site").triggered.connect(lambda _on=False: self.begin_blank("site", Site()))
        return menu

    def _make_form(self) -> None:
        appearance = self._appearance
        self.title = label("", "subtitle")
        self.where = Elided("", "body", "2")
        tip = "The name in commands and of the file: small letters, digits, - and _"
        self.name = text_field("Name of the site", tip=tip)
        self.name.setFont(font())
        self.name.textChanged.connect(lambda _text: self._name_edited())
        self._name_line = QWidget()
        self._name_line.setLayout(field_rows(("Short name", self.name)))
        self.name_error = label("", "caption", "bad", wrap=True)
        self.name_error.hide()
        self.note = label("", "body", wrap=True)
        self._note_box = frame("note", column(self.note, margins=(12, 8, 12, 8)))
        self.form = SiteForm(appearance)
        self.form.changed.connect(self._edited)
        self.form.find_button.clicked.connect(self._ask_find)
        self._area = scrolling(self.form)
        self._right = QWidget()
        items = (self.title, self.where, self._note_box, self._name_line, self.name_error, self._area)
        box = column(*items, gap=6, grows=self._area, parent=self._right)
        self._empty = label("Runs train here, without a scheduler. There is nothing to set.", "body", "2", wrap=True)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignTop)
        box.addWidget(self._empty, 1)
        self.message = Elided("", "caption", "2")
        self._export = Button(appearance, "Export…", "quiet", "export", "As a file that you can share")
        self.test = Button(appearance, "Test", "", "check", "Check every step of the way there")
        self.save = Button(appearance, "Save", "primarySmall", "", "Save this site")
        for button, handler in ((self._export, self._ask_export), (self.test, self._test), (self.save, self.keep)):
            button.setAutoDefault(False)
            button.clicked.connect(handler)

    # --- The list -----------------------------------------------------------------------------------------------------

    def _fill(self, chosen: str) -> None:
        """Lists all sites, as their files say now, and those that are being made; what was typed stays."""
        for one in self._store.all():
            known = self._drafts.get(one.name)
            if known is not None and known.kept is not None and one.site not in (None, known.kept):
                known.take(one.site)
            if known is None:
                site = one.site or Site()
                draft = Draft(one.name, site, site if one.site is not None else None, self._is_own(one.name))
                draft.problems = one.problems
                self._drafts[one.name] = draft
        with QSignalBlocker(self.list):
            self.list.clear()
            for name, draft in self._drafts.items():
                item = QListWidgetItem()
                item.setData(_NAME, name)
                item.setSizeHint(QSize(_LIST - 24, 46))
                self.list.addItem(item)
                self._dress(item, draft)
        self.choose(chosen if chosen in self._drafts else LOCAL)

    def _is_own(self, name: str) -> bool:
        return name != LOCAL and self._store.path(name).parent == self._store.folder

    def _dress(self, item: QListWidgetItem, draft: Draft) -> None:
        mark = " •" if draft.changed and draft.name != LOCAL else ""
        where = "cannot be read" if self._is_torn(draft) else address(draft.site) if draft.site.host else "no host yet"
        second = "runs train here" if draft.name == LOCAL else where
        title = title_of(draft.name, draft.site)
        item.setText(f"{title}{mark}\n{second}")
        item.setToolTip(f"{draft.name}: {where}" + (", not saved yet" if mark else ""))

    @staticmethod
    def _is_torn(draft: Draft) -> bool:
        """Whether its file cannot be read, and nobody has typed anything in its place."""
        return draft.kept is None and bool(draft.problems) and not draft.edited

    def read_again(self, chosen: str = "") -> None:
        """Reads the files again, and shows this site; without a name the one that is shown."""
        self._fill(chosen or self._name)

    def names(self) -> list[str]:
        """The sites in the list."""
        return list(self._drafts)

    def choose(self, name: str) -> None:
        """Show this site's fields."""
        self.list.setCurrentRow(self.names().index(name))
        self._show(name)

    def _chosen(self, item: QListWidgetItem | None) -> None:
        if item is not None and item.data(_NAME) != self._name:
            self._show(str(item.data(_NAME)))

    def draft(self) -> Draft:
        """Returns the draft that is shown."""
        return self._drafts[self._name]

    def _show(self, name: str) -> None:
        self._name = name
        draft = self.draft()
        here = name == LOCAL
        self.form.complete("modules", ())  # they are another site's
        with QSignalBlocker(self.name):
            self.name.setText(draft.name)
        self._name_line.setVisible(draft.kept is None and not here)
        for widget in (self._area, self._export, self.save):
            widget.setVisible(not here)
        self._empty.setVisible(here)
        broken = "\n".join(map(str, draft.problems)) if self._is_torn(draft) else ""
        set_role(self._note_box, "badNote" if broken else "note")
        self._note_box.setVisible(bool(broken or draft.site.note) and not here)
        self.note.setText(broken or draft.site.note)
        self.form.show_texts(draft.texts)
        self.message.set_text("" if draft.own or here else "A course's, or for all users. Saving makes your own copy.")
        self._remove.allow(draft.own and not here, "It is a course's, or for all users")
        self._show_problems(self._all_wrong())

    # --- Editing ------------------------------------------------------------------------------------------------------

    def begin_preset(self, preset: str) -> None:
        """A new site from a preset; it has the preset's title if that is a machine's and no other site has it."""
        name = free_name(preset, frozenset(self._drafts))
        self._begin(Draft(name, site_from(preset, name, self._known()), None))

    def begin_blank(self, name: str, site: Site) -> None:
        """Begins a new site with only its address: its scheduler must be found, or chosen."""
        self._begin(Draft(free_name(name, frozenset(self._drafts)), site, None, blank=True))

    def _begin(self, draft: Draft) -> None:
        self._drafts[draft.name] = draft
        self._fill(draft.name)
        self.form.focus("host" if not draft.site.host else "user")

    def _edited(self) -> None:
        draft = self.draft()
        draft.site, draft.texts = self.form.site, dict(self.form.texts())
        draft.edited = True
        self._propose_name(draft)
        draft.problems = self._all_wrong()
        self.message.set_text("")
        self._show_problems(draft.problems)
        item = self.list.currentItem()
        if item is not None:
            self._dress(item, draft)

    def _known(self, draft: Draft | None = None) -> dict[str, Site | None]:
        """Returns all sites as they are or will be; ``draft`` as it is saved, if it is."""
        known: dict[str, Site | None] = {name: one.site for name, one in self._drafts.items() if one is not draft}
        return known if draft is None or draft.kept is None else {**known, draft.name: draft.kept}

    def _all_wrong(self) -> tuple[Problem, ...]:
        """Returns what is wrong with the fields, and shows each problem below its field, once there is something that
        somebody typed."""
        draft = self.draft()
        if draft.name == LOCAL:
            return ()
        name = draft.name if draft.kept is not None else self.name.text().strip()
        wrong = (*self.form.problems, *check_title(name, self.form.site, self._known(draft)))
        self.form.show_problems(wrong if draft.edited or draft.kept is not None else ())
        return wrong

    def _name_edited(self) -> None:
        self.draft().named = True
        self._edited()

    def _propose_name(self, draft: Draft) -> None:
        """Calls a new site as its host is called, as long as nobody has called it otherwise."""
        host = draft.site.host
        if draft.kept is None and not draft.named and host not in ("", draft.first_host):
            taken = frozenset(name for name in self._drafts if name != draft.name)
            with QSignalBlocker(self.name):
                self.name.setText(free_name(machine_of(host), taken))

    def _wrong_name(self) -> list[Problem]:
        draft = self.draft()
        name = self.name.text().strip()
        if draft.kept is not None:
            return []
        taken = name != draft.name and name in self._drafts
        return [Problem("site.taken", f"There is already a site {name!r}.", where=NAME)] if taken else check_name(name)

    def _show_problems(self, problems: Sequence[Problem]) -> None:
        """Shows the problems in the title and address, and enables the buttons."""
        draft = self.draft()
        self.form.show_title(self.name.text().strip() or draft.name)
        here = draft.name == LOCAL
        site = draft.site
        self.title.setText(title_of(draft.name, site))
        self.where.set_text(
            "" if here else f"{draft.name}: {address(site)}" if site.host else f"{draft.name}: no host yet"
        )
        name_wrong = [] if here else self._wrong_name()
        self.name_error.setText("\n".join(str(one) for one in name_wrong))
        self.name_error.setVisible(bool(name_wrong))
        set_role(self.name, "bad" if name_wrong else "", "state")
        wrong = [*name_wrong, *problems]
        reason = str(wrong[0]) if wrong else "" if site.host else "Name the host first"
        self.save.allow(not here and not reason and draft.changed, reason or "Nothing has changed since it was saved")
        self.test.allow(here or not reason, reason)
        self.test.set_words("Test" if here or not draft.changed else "Save and test")
        connection = [one for one in problems if one.where in _CONNECTION]
        busy = "Clew is looking for a scheduler" if self._finding is not None else ""
        why = str(connection[0]) if connection else "" if site.host else "Name the host first"
        self.form.find_button.allow(not here and not why and not busy, why or busy)

    # --- Keeping ------------------------------------------------------------------------------------------------------

    def keep(self) -> bool:
        """Save the shown site; whether it is kept now."""
        draft = self.draft()
        if draft.name == LOCAL or (draft.kept is not None and not draft.changed):
            return True
        name = draft.name if draft.kept is not None else self.name.text().strip()
        try:
            if draft.kept is not None and self._store.path(name).exists():
                draft.take(self._store.load(name))  # one that cannot be read any more is not written over
            if draft.clashes:
                self.read_again()
                self.form.focus(draft.clashes[0])
                titles = ", ".join(self.form.row(clash).spec.label for clash in draft.clashes)
                draft.clashes = []
                self.message.set_text(f"Not saved: its file has another {titles} now. Save again to write yours.")
                return False
            self._store.save(name, draft.site, replace=draft.kept is not None)
        except ProblemError as error:
            self.form.show_problems(error.problems)
            self.message.set_text(str(error.problems[0]))
            return False
        kept = Draft(name, draft.site, draft.site)
        self._drafts = {name if key == draft.name else key: value for key, value in self._drafts.items()}
        self._drafts[name] = kept
        self._fill(name)
        self.message.set_text("Saved.")
        self.changed.emit()
        return True

    # --- Finding the scheduler ----------------------------------------------------------------------------------------

    def _ask_find(self) -> None:
        self._finding = self.draft()
        self.message.set_text(f"Looking for the scheduler on {address(self._finding.site)} …")
        self._show_problems(self._all_wrong())
        self.find_asked.emit(self._name, self._finding.site)

    def found(self, text: str, site: Site) -> None:
        """Takes over the search's result, in words, and the site with it; what a person has typed meanwhile stays."""
        draft, self._finding = self._finding, None
        if draft is not None:
            answer, time = texts_of(site), f"{ASKED}time"
            draft.texts |= {name: answer[name] for name in ("scheduler", "select")}
            draft.texts[time] = draft.texts[time] or answer[time]
            draft.edited = True
            draft.site, draft.problems = site_of(draft.texts)
        if draft is self.draft():
            self.form.show_texts(draft.texts)
            self._edited()
            self.message.set_text(text)
        self._show_problems(self._all_wrong())

    def not_found(self, problems: Sequence[Problem]) -> None:
        """Shows below its field why nobody can say which scheduler the site has, or that it has none."""
        draft, self._finding = self._finding, None
        wrong = self._all_wrong()
        self._show_problems(wrong)
        if draft is self.draft():
            found = [msgspec.structs.replace(one, where="scheduler") for one in problems]
            others = [one for one in wrong if one.where != "scheduler"]
            self.form.show_problems([*others, *found] if found else wrong)
            self.message.set_text("")
        elif draft is not None and problems:
            self.message.set_text(f"{draft.name}: {problems[0]}")

    # --- Its modules --------------------------------------------------------------------------------------------------

    def offer_modules(self, site: str, names: Sequence[str]) -> None:
        """Completes the field *Modules* by the names that this site has."""
        if site == self._name:
            self.form.complete("modules", names)
            self.message.set_text(f"{counted(len(names), 'module')}: type a part of a name in Modules.")

    def _test(self) -> None:
        if self.keep():
            self.test_asked.emit(self._name)

    def remove(self) -> None:
        """Forget the shown site, after a question if it is kept."""
        draft = self.draft()
        if draft.kept is None and not self._store.path(draft.name).exists():
            self._forget(draft)
            return
        words = "Its file is removed here. Nothing on the site itself changes; jobs there go on."
        title = f"Forget {title_of(draft.name, draft.site)}?"
        question = Question(self, self._appearance, title, words, "Forget it", "Keep it", danger=True)
        question.accepted.connect(lambda: self._forget(draft))
        question.open()

    def _forget(self, draft: Draft) -> None:
        try:
            if self._store.path(draft.name).exists():
                self._store.remove(draft.name)
        except ProblemError as error:
            self.message.set_text(str(error.problems[0]))
            return
        del self._drafts[draft.name]
        self._fill(LOCAL)
        self.changed.emit()

    # --- Files --------------------------------------------------------------------------------------------------------

    def _ask_file(self) -> None:
        title = "A site's file, such as one from your teacher"
        ask_file(self, title, "Sites (*.toml);;All files (*)", self.import_file)

    def import_file(self, path: Path) -> None:
        """Begin a site with what is in a file; what is wrong with it is shown."""
        try:
            site = read_site(path)
        except ProblemError as error:
            self.message.set_text(" ".join(str(one) for one in error.problems[:3]))
            return
        name = free_name(path.stem, frozenset(self._drafts))
        self._begin(Draft(name, with_free_title(name, site, self._known()), None))

    def _ask_export(self) -> None:
        ask_place(self, "Export the site", f"{self._name}.toml", "Sites (*.toml)", self.export_file)

    def export_file(self, path: Path) -> None:
        """Write the shown site as a file that can be handed on."""
        try:
            path.write_text(to_toml(self.draft().site), encoding="utf-8", newline="\n")
        except OSError as error:
            self.message.set_text(f"{path} could not be written: {error.strerror or error}.")
        else:
            self.message.set_text(f"Written: {path}")

    # --- Closing ------------------------------------------------------------------------------------------------------

    def unsaved(self) -> list[str]:
        """Sites with changes that are not kept."""
        return [name for name, draft in self._drafts.items() if name != LOCAL and draft.edited and draft.changed]

    def reject(self) -> None:
        """Closes the dialog; asks first about changes that are not kept."""
        if self._leaving or not self.unsaved():
            super().reject()
            return
        names = ", ".join(title_of(name, self._drafts[name].site) for name in self.unsaved())
        words = (f"Not saved yet: {names}.", "Leave without saving", "Stay")
        question = Question(self, self._appearance, "Leave without saving?", *words, danger=True)
        question.accepted.connect(self._leave)
        question.open()

    def _leave(self) -> None:
        self._leaving = True
        self.reject()
