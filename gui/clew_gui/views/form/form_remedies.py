"""Ways out of a problem that lead to a field of the form or to a run: other data, less time, another partition."""

from __future__ import annotations

import os
from pathlib import Path

from clew_gui.base.times import read_time
from clew_gui.schedulers.allocation import LABELS
from clew_gui.views.form.next_run import NextRun
from clew_gui.views.presentation.remedies import RemedyButton, RemedyButtons
from clew_gui.views.presentation.words import data_short
from clew_shared.base import remedies
from clew_shared.base.number_words import duration, in_bytes
from clew_shared.base.places import Places
from clew_shared.base.remedies import Remedy
from clew_shared.catalogue import known_sets


class FormRemedies:
    """Carries out the remedies of one form. ``places`` says where this computer's runs look for data."""

    def __init__(self, form: NextRun, buttons: RemedyButtons, places: Places) -> None:
        self._form, self._places = form, places
        makers = {
            remedies.SET: self._set,
            remedies.CHOOSE: self._choose,
            remedies.OWN_FILE: self._own_file,
            remedies.SITE_PATH_OF_DATA: self._site_path,
        }
        for act, maker in makers.items():
            buttons.add(act, maker)

    def _set(self, remedy: Remedy) -> RemedyButton | None:
        form, name, value = self._form, remedy.what, remedy.value
        if name == "data":
            offered = value in form.data_choice.offered()
            return RemedyButton(f"Use {data_short(value)}", lambda: form.use_data(value)) if offered else None
        if name not in LABELS or form.where.form is None:
            return None
        seconds = read_time(value) if name == "time" else None
        text = f"Ask for {duration(seconds)}" if seconds else f"{LABELS[name]}: {value}"
        return RemedyButton(text, lambda: form.where.set_field(name, value))

    def _choose(self, remedy: Remedy) -> RemedyButton | None:
        form, name = self._form, remedy.what
        if name == "data":
            return RemedyButton("Choose file…", form.choose_data)
        if name not in LABELS or form.where.form is None:
            return None
        return RemedyButton(f"Change {LABELS[name].lower()}", lambda: form.where.focus_field(name))

    def _own_file(self, remedy: Remedy) -> RemedyButton:
        form, found = self._form, self._file_here(remedy.what)
        if found is None or not form.where.choice().key:
            text = "A file of this computer…" if form.where.choice().key else "Choose file…"
            return RemedyButton(text, form.choose_data)
        size = in_bytes(found.stat().st_size)
        text = f"Send {data_short(remedy.what)} from this computer ({size})"
        return RemedyButton(text, lambda: form.use_file(str(found)))

    def _file_here(self, data: str) -> Path | None:
        """The one file of a data set on this computer, where runs of this computer look for it."""
        card = known_sets().get(data)
        folders = [Path(os.environ["CLEW_DATA"])] if os.environ.get("CLEW_DATA") else []
        files = (folder / name for folder in (*folders, self._places.data) for name in (card.whole if card else ()))
        return next((file for file in files if file.is_file()), None)

    def _site_path(self, _remedy: Remedy) -> RemedyButton | None:
        if not self._form.where.choice().key:
            return None
        return RemedyButton("A path on the site…", self._form.data_choice.ask_path)
