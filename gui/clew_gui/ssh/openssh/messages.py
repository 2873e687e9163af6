"""Turns the error messages of the system's ``ssh`` into a ``Problem``. Pure: the words come in, the sentence goes
out."""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence

from clew_gui.ssh.connection import Hop, lost
from clew_gui.ssh.errors import busy, no_such_name, not_approved, not_reached, refused_answers, refused_keys
from clew_gui.ssh.host_keys import HostKey, changed_text, not_accepted_text, revoked_text
from clew_gui.ssh.openssh.askpass_bridge import AskpassBridge
from clew_gui.ssh.prompts import Prompt, PromptKind, cancelled
from clew_shared.base.problem import ProblemError, problem

_SENT_KEY = re.compile(r"key sent by the remote host is\s+(SHA256:[A-Za-z0-9+/=]+)")
_OFFENDING = re.compile(r"Offending (\S+) key in (\S+)")
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/=]+")
_OFFER = re.compile(r"no matching (.+?) found\. Their offer: (\S+)")
_ALLOWED = re.compile(r"Permission denied \(([^)]*)\)")
_HUNG_UP = re.compile("kex_exchange_identification|banner exchange: .*(?:Broken pipe|Connection reset)")
"""The other end was gone before both had greeted: heard when reading its greeting, or when sending one's own."""
_REACH = {
    "Connection refused": OSError(errno.ECONNREFUSED, "Connection refused"),
    "No route to host": OSError(errno.EHOSTUNREACH, "No route to host"),
    "Network is unreachable": OSError(errno.ENETUNREACH, "Network is unreachable"),
    "timed out": TimeoutError(),
}


def explain(hop: Hop, words: str, bridge: AskpassBridge, known: Sequence[HostKey], kept_back: int = 0) -> ProblemError:
    """Explains why a login failed. What the bridge knows comes first: it asked the person. ``kept_back`` keys of the
    agent were not offered."""
    if bridge.problem is not None:
        return bridge.problem
    if bridge.cancelled:
        return cancelled(hop.title)
    if bridge.over.is_set():
        return _refused(hop, words, bridge.asked, kept_back)
    if bridge.said and bridge.is_late:
        return not_approved(hop.title, bridge.said)
    return explain_words(hop, words, bridge.asked, known, kept_back)


def explain_words(
    hop: Hop, words: str, asked: Sequence[Prompt], known: Sequence[HostKey], kept_back: int = 0
) -> ProblemError:
    """Explains why a login failed, from the words of ``ssh``, its questions and the known keys of the host."""
    if found := _host_key(hop, words, known, asked):
        return found
    if offer := _OFFER.search(words):
        text = f"This computer's ssh and {hop.title} have no {offer[1]} in common; the server offers {offer[2]}."
        hint = "The server is very old, or very strict. Its administrator can say which settings ~/.ssh/config needs."
        return problem("ssh.incompatible", text, hint, hop.title)
    if "Could not resolve hostname" in words:
        return no_such_name(hop)
    if "UNPROTECTED PRIVATE KEY FILE" in words and not asked:
        text = f"ssh does not use the key {', '.join(hop.keys) or 'that it has'}: others may read its file."
        return problem("ssh.key", text, "Make it yours alone: chmod 600 KEY.", hop.title)
    if "Permission denied" in words or "Too many authentication failures" in words:
        return _refused(hop, words, asked, kept_back)
    if _HUNG_UP.search(words):
        return busy(hop)
    for text, error in _REACH.items():
        if text in words:
            return not_reached(hop, error)
    return lost(hop.title, words.strip().splitlines()[-1].rstrip(".") if words.strip() else "")


def _host_key(hop: Hop, words: str, known: Sequence[HostKey], asked: Sequence[Prompt]) -> ProblemError | None:
    if "REVOKED HOST KEY" in words:
        return revoked_text(hop, "SHA256" if not (sent := _FINGERPRINT.search(words)) else sent[0])
    if sent := _SENT_KEY.search(words):
        place = _OFFENDING.search(words)
        before = known[0].fingerprint if known else "another one"
        return changed_text(hop, before, sent[1], place[2] if place else "known_hosts")
    confirmed = [prompt for prompt in asked if prompt.kind is PromptKind.CONFIRM]
    if "Host key verification failed" in words and confirmed:
        return not_accepted_text(hop, confirmed[-1].details[2])
    return None


def _refused(hop: Hop, words: str, asked: Sequence[Prompt], kept_back: int) -> ProblemError:
    kinds = {prompt.kind for prompt in asked} & {PromptKind.PASSWORD, PromptKind.CODE}
    if kinds:
        return refused_answers(hop.title, kinds)
    allowed = _ALLOWED.search(words)
    offered = [f"key {key}" for key in hop.keys] or ["the usual keys and those of the agent"]
    return refused_keys(hop.title, offered, allowed[1].split(",") if allowed else (), kept_back)
