"""The way to the site, hop by hop: name, port, the server's key, login. One login for all: nothing is asked twice."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator

from clew_gui.base.checked_text import join_address
from clew_gui.doctor.examination import CheckResult, Diagnosis, Finding, Verdict, fine, note, refused, untried, wrong
from clew_gui.sites.consent import consents, words_of
from clew_gui.sites.hops import way_to
from clew_gui.ssh.config import resolve
from clew_gui.ssh.connection import Hop, route_words
from clew_gui.ssh.dial import dial
from clew_gui.ssh.errors import busy, no_such_name, not_reached
from clew_gui.ssh.host_keys import HostKeys
from clew_gui.ssh.prompts import PromptKind
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.base.remedies import read_consent

_NAME_S = 10.0
_PORT_S = 10.0
_BANNER = 1024
_STEPS = {"name": "Name", "port": "Port", "hostkey": "Host key", "login": "Login"}
_TITLES = {"way": "Way", "ssh": "SSH", **_STEPS}
_FAILS = {
    "name": "the name of {host} is not known",
    "port": "{host} does not answer",
    "hostkey": "the key of {host} was not accepted",
    "login": "the login to {host} failed",
}
_UNKNOWN_NAME = re.compile(r"name or service not known|name resolution|no address|not known", re.IGNORECASE)


def check_route(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Findings for each hop; afterwards the diagnosis has a line to the site, or the cause why it has none."""
    try:
        diagnosis.hops = way_to(diagnosis.site, resolve)
    except ProblemError as error:
        yield _finding(diagnosis, "way", None, refused(error.problems[0]))
        diagnosis.causes["login"] = "the way there is not known"
        return
    if (result := _consent(diagnosis)) is not None:
        yield _finding(diagnosis, "way", None, result)
        diagnosis.causes["login"] = "the way there needs your consent"
        return
    for step, check in (("name", check_name), ("port", check_port)):
        started = time.monotonic()
        result = check(diagnosis.hops[0])
        yield _finding(diagnosis, step, diagnosis.hops[0], result, time.monotonic() - started)
        if result.verdict is Verdict.BAD:
            yield from _unreached(diagnosis, 0, step)
            return
    yield from _dial(diagnosis)


def _consent(diagnosis: Diagnosis) -> CheckResult | None:
    """Checks what lacks consent for the login itself; a prologue is needed later only."""
    words = tuple(one for hop in diagnosis.hops for one in words_of(type(diagnosis.site)(), hop.proxy_command))
    missing = consents(diagnosis.places).missing(words)
    if not missing:
        return None
    text = f"The way there is a shell command that you have not approved yet: {missing[0].text}"
    return wrong(text, "Read it and approve it.", "site.consent", read_consent(diagnosis.name))


# --- Name and port of the first hop, before anything is said there ---------------------------------------------------


def check_name(hop: Hop) -> CheckResult:
    """Whether this computer knows the name. The system's own look-up has no time limit, so it gets a thread."""
    if hop.proxy_command:
        return untried("The way there is a ProxyCommand, which looks it up by itself.")
    found = _addresses_of(hop)
    if found is None:
        text = f"The address of {hop.host} was not found within {_NAME_S:g} s."
        return wrong(text, "Your network's name service does not answer: do you need to switch on a VPN?", "ssh.name")
    if not found:
        return refused(no_such_name(hop).problems[0])
    addresses = list(dict.fromkeys(found))
    same = addresses == [hop.host]
    return fine(f"{hop.host} is an address." if same else f"{hop.host} is {', '.join(addresses[:3])}.")


def _addresses_of(hop: Hop) -> list[str] | None:
    """Returns the host's addresses; None if no answer came in time. The thread may then be asleep for long, and the
    program must end without it."""
    found: list[list[str]] = []

    def ask() -> None:
        try:
            infos = socket.getaddrinfo(hop.host, hop.port, 0, socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            infos = []
        found.append([str(info[4][0]) for info in infos])

    thread = threading.Thread(target=ask, name=f"look up {hop.host}", daemon=True)
    thread.start()
    thread.join(_NAME_S)
    return found[0] if found else None


def check_port(hop: Hop) -> CheckResult:
    """Whether an SSH server greets there. A server that is merely slow, or busy, is left to the login."""
    if hop.proxy_command:
        return untried("The way there is a ProxyCommand, which connects by itself.")
    try:
        with socket.create_connection((hop.host, hop.port), _PORT_S) as sock:
            greeting = sock.recv(_BANNER)
    except ConnectionResetError:
        greeting = b""
    except OSError as error:
        return refused(not_reached(hop, error).problems[0])
    if not greeting:
        return refused(busy(hop).problems[0])
    said = re.search(rb"^SSH-[0-9.]+-([!-~]{1,80})", greeting, re.MULTILINE)
    if said is None:
        text = f"The server at {hop.host}, port {hop.port}, is not an SSH server."
        return wrong(text, "Check the port: SSH usually uses 22.", "ssh.reach")
    return fine(f"Port {hop.port} answers: {said[1].decode()}.")


# --- One login through all hops --------------------------------------------------------------------------------------


def _dial(diagnosis: Diagnosis) -> Iterator[Finding]:
    started, asked = time.monotonic(), diagnosis.questions.seconds
    try:
        connection = dial(diagnosis.hops, diagnosis.asker, diagnosis.files)
    except ProblemError as error:
        yield from _failed(diagnosis, error.problems[0], time.monotonic() - started)
        return
    took = time.monotonic() - started
    if diagnosis.questions.said:
        diagnosis.more_time(took - (diagnosis.questions.seconds - asked))
    diagnosis.arrive(connection)
    for number, (_, how) in enumerate(connection.passed):
        yield from _passed(diagnosis, number, how=how, took=took if number == len(diagnosis.hops) - 1 else 0.0)
    unsupported = [hop.unsupported for hop in diagnosis.hops if hop.unsupported]
    text = f"Route: {route_words(connection.passed)}."
    result = note(f"{text} However, {unsupported[0]}.", "Clew logged in without it.") if unsupported else fine(text)
    yield _finding(diagnosis, "ssh", None, result)


def _passed(diagnosis: Diagnosis, number: int, until: str = "", how: str = "", took: float = 0.0) -> Iterator[Finding]:
    """The steps of a hop that went well before ``until``; what was reported already is left out. ``how`` it let one in
    and what the login ``took`` are for the last step."""
    for step in _STEPS:
        if step == until:
            return
        if number == 0 and step in ("name", "port"):
            continue
        seconds = took if step == "login" else 0.0
        yield _finding(diagnosis, step, diagnosis.hops[number], _well(diagnosis, number, step, how), seconds)


def _well(diagnosis: Diagnosis, number: int, step: str, how: str) -> CheckResult:
    hop = diagnosis.hops[number]
    if step == "login":
        return fine(f"{hop.title} let you in: {how}." if how else f"{hop.title} let you in.")
    if step == "name":
        return fine(f"{diagnosis.hops[number - 1].title} knows {hop.host}.")
    if step == "port":
        return fine(f"Port {hop.port} answers there.")
    if any(prompt.title == hop.title for prompt in diagnosis.questions.accepted):
        return fine("It had not been seen from here before; you confirmed that it is the right one.")
    keys = dict.fromkeys(
        f"{line.key.fingerprint} ({line.key.type})" for line in HostKeys(hop, diagnosis.files).known_lines()
    )
    return fine(f"It is known: {', '.join(keys)}." if keys else "It is known.")


def _failed(diagnosis: Diagnosis, found: Problem, took: float) -> Iterator[Finding]:
    """Yields what the failure means for each step: before it all went well, after it nothing was tried."""
    number, step = _place(diagnosis, found)
    cause = _FAILS[step]
    if number == 0 and step in ("name", "port"):  # both were in order a moment ago
        step = "hostkey"
    for earlier in range(number):
        yield from _passed(diagnosis, earlier)
    yield from _passed(diagnosis, number, step)
    hop = diagnosis.hops[number]
    result = _unseen(diagnosis, hop, found) if step == "hostkey" else refused(found)
    yield _finding(diagnosis, step, hop, result, took)
    yield from _unreached(diagnosis, number, step, cause)


def _place(diagnosis: Diagnosis, found: Problem) -> tuple[int, str]:
    """The hop and the step that a failed login speaks of."""
    titles = [hop.title for hop in diagnosis.hops]
    ends = [join_address("", hop.host, hop.port) for hop in diagnosis.hops]
    if found.code in ("ssh.forwarding", "ssh.connect"):
        after = titles.index(found.where) + 1 if found.where in titles[:-1] else 1
        number = ends.index(found.where) if found.where in ends else min(after, len(ends) - 1)
        return number, "name" if _UNKNOWN_NAME.search(found.text) else "port"
    last = diagnosis.questions.asked[-1] if diagnosis.questions.asked else None
    if found.where in titles:
        number = titles.index(found.where)
    else:  # a key file: it is the hop's that names it, else the one that was spoken to last
        named = [place for place, hop in enumerate(diagnosis.hops) if found.where in hop.keys]
        asked = [place for place, title in enumerate(titles) if last is not None and last.title == title]
        number = (named or asked or [0])[0]
    if found.code.startswith("ssh.hostkey."):
        return number, "hostkey"
    if found.code in ("ssh.noprompt", "ssh.cancelled") and last is not None and last.kind is PromptKind.CONFIRM:
        return number, "hostkey"
    return number, {"ssh.name": "name", "ssh.reach": "port", "ssh.busy": "port"}.get(found.code, "login")


def _unseen(diagnosis: Diagnosis, hop: Hop, found: Problem) -> CheckResult:
    """A server that nobody has accepted yet: its fingerprint is shown even if no person could be asked."""
    asked = [one for one in diagnosis.questions.asked if one.kind is PromptKind.CONFIRM and one.title == hop.title]
    if found.code == "ssh.hostkey.changed" or not asked:
        return refused(found)
    text = f"{asked[-1].sentences} Nothing was sent, because it was not accepted."
    return wrong(text, found.hint, "ssh.hostkey.unknown")


def _unreached(diagnosis: Diagnosis, number: int, step: str, words: str = "") -> Iterator[Finding]:
    """Yields a finding for every step after the one that failed."""
    cause = (words or _FAILS[step]).format(host=diagnosis.hops[number].title)
    diagnosis.causes["login"] = cause
    steps = list(_STEPS)
    for place, hop in enumerate(diagnosis.hops[number:], number):
        for later in steps[steps.index(step) + 1 :] if place == number else steps:
            yield _finding(diagnosis, later, hop, untried(f"Not tried, because {cause}."))


def _finding(diagnosis: Diagnosis, check: str, hop: Hop | None, result: CheckResult, seconds: float = 0.0) -> Finding:
    title = _TITLES[check]
    shown = f"{title}, {hop.title}" if hop is not None and len(diagnosis.hops) > 1 else title
    where = hop.title if hop is not None else ""
    return Finding(check=check, title=shown, where=where, seconds=round(seconds, 3), **result._asdict())
