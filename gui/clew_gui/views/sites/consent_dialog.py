"""What a site runs in its own words is shown whole before it is run for the first time."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QWidget

from clew_gui.remote.consent import OwnWords, consents, words_of
from clew_gui.remote.hops import way_to
from clew_gui.remote.prompts import plain
from clew_gui.remote.sites import Site, is_local
from clew_gui.remote.ssh_config import resolve
from clew_gui.views.parts import Button, Look, label
from clew_gui.views.sites.prompt_dialogs import Snug, own_words
from clew_shared.places import Places

_WHERE = {
    "prologue": "In each job on the site, before the agent:",
    "proxy command": "On this computer, to reach the site:",
}
_MOST_LINES = 18


def missing_consents(site: Site, places: Places) -> tuple[OwnWords, ...]:
    """What of the site nobody has agreed to yet. Asks the SSH configuration, so it may wait."""
    if is_local(site):
        return ()
    commands = [hop.proxy_command for hop in way_to(site, resolve)]
    words = [one for command in commands or [""] for one in words_of(site, command)]
    return consents(places).missing(tuple(dict.fromkeys(words)))


class ConsentDialog(Snug):
    """``accepted`` when the person agrees; the default is not to."""

    def __init__(self, parent: QWidget, look: Look, title: str, words: Sequence[OwnWords]) -> None:
        lines = sum(one.text.strip().count("\n") + 1 for one in words)
        what = "a line of its own" if lines == 1 else "lines of its own"
        super().__init__(parent, f"{title} runs {what}", "Read all of it. You are asked once for exactly this text.")
        self.setMinimumWidth(560)
        for one in words:
            self.add(label(_WHERE.get(one.kind, f"{one.kind.capitalize()}:"), "strong"))
            self.add(own_words(plain(one.text.strip("\n"), len(one.text)), one.kind.capitalize(), _MOST_LINES))
        no = Button(look, "Cancel")
        no.setDefault(True)
        no.clicked.connect(self.reject)
        self.agree = Button(look, "I agree to this text")
        self.agree.setAutoDefault(False)
        self.agree.clicked.connect(self.accept)
        self.finish(None, self.agree, no)
        no.setFocus()
