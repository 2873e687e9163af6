"""Ports, and which routes to an agent on a node are open. A closed one is no failure: Clew takes the next one."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence

import msgspec

from clew_gui.doctor.examination import CheckResult, Diagnosis, fine, last_line, note, untried, wrong
from clew_gui.nodes.routes import HOP_S, node_hop
from clew_gui.ssh.prompts import ASKED_FOR, Prompt, PromptKind
from clew_shared.base.problem import Problem, ProblemError

_SSH = 22
_BIND = """
import socket, sys
first, last = int(sys.argv[1]), int(sys.argv[2])
free = 0
for port in range(first, last + 1):
    with socket.socket() as sock:
        try:
            sock.bind(("", port))
            free += 1
        except OSError:
            pass
print(free)
"""
_RELAY = "Clew's way to the agent is then a relay through the scheduler (srun), else the journal by file transfer."
_UNKNOWN_KEY, _ASKS = "ssh.hostkey.unknown", "ssh.noprompt"
_UNREACHED = {"ssh.busy", "ssh.connect", "ssh.hostkey.changed", "ssh.lost", "ssh.name", "ssh.reach", "ssh.timeout"}


def ports(diagnosis: Diagnosis) -> CheckResult:
    """Whether any of the site's ports is free, on the host that one logs in to."""
    if not diagnosis.site.ports:
        return fine("The site sets no range of ports; the system gives the agent one that is free.")
    first, last = diagnosis.site.ports
    where = "the login node" if diagnosis.scheduler.has_queue else "the host"
    if diagnosis.probed is None:
        return untried("Not tried, because no Python was found to try them with.")
    done = diagnosis.connection.run((diagnosis.probed.executable, "-c", _BIND, str(first), str(last)))
    if not re.fullmatch(r"\s*[0-9]+\s*", done.out):
        return untried(f"This could not be checked: {last_line(done) or 'the site does not answer'}.")
    free = int(done.out)
    if not free:
        text = f"None of the ports {first} to {last} is free on {where}."
        return wrong(text, "Give another range as ports in the site, or none.", "site.ports")
    return fine(f"{free} of the ports {first} to {last} are free on {where}.")


def forwarding(diagnosis: Diagnosis) -> CheckResult:
    """Whether the login node connects to ports elsewhere: a port that is most likely closed shows it as well."""
    if _connects(diagnosis, 20000 + secrets.randbelow(10000)):
        return fine("The login node forwards connections, so Clew reaches the agent directly.")
    if _connects(diagnosis, _SSH):
        text = "The login node forwards connections to SSH servers only. Clew then jumps into the node itself."
        return note(text, "Nothing needs fixing.")
    text = f"The login node forbids forwarding connections. {_RELAY}"
    return note(text, "Nothing needs fixing; ask the site about AllowTcpForwarding for a faster way.")


def _connects(diagnosis: Diagnosis, port: int) -> bool:
    """Whether the login node is willing to; nothing need listen there."""
    try:
        diagnosis.connection.ssh.connect("localhost", port).close()
    except ProblemError as error:
        return error.problems[0].code != "ssh.forwarding"
    return True


def nodes(diagnosis: Diagnosis) -> CheckResult:
    """Whether one may log in to a node without having a job there."""
    node = diagnosis.connection.ask(diagnosis.scheduler.node_up())
    if not node:
        return untried("The scheduler's commands here do not show the names of nodes.")
    refusal = refused_at(diagnosis, node)
    if refusal is None:
        return fine(f"{node} lets you in by SSH, so Clew can jump there if the login node forwards nothing else.")
    if (result := not_an_answer(node, refusal)) is not None:
        return result
    text = f"{node} does not let you in by SSH while you have no job there (pam_slurm), or not at all"
    return note(f"{text}{what_it_asks(refusal)}. {_RELAY}", "Nothing needs fixing.")


def not_an_answer(node: str, refusal: Problem) -> CheckResult | None:
    """The result if ``refusal`` does not show whether the node accepts logins; None if it does."""
    if refusal.code == "ssh.forwarding":
        return untried("Not tried, because the login node forwards no connections.")
    if refusal.code == _UNKNOWN_KEY:
        text = f"{node} has an SSH server whose key is not known here yet, so nobody has tried whether it lets you in."
        return fine(f"{text} When Clew needs that way you are asked: “{refusal.text}”")
    if refusal.code in _UNREACHED:
        return note(f"{node} cannot be reached by SSH: {refusal.text}", refusal.hint or "Nothing needs fixing.")
    return None


def refused_at(diagnosis: Diagnosis, node: str) -> Problem | None:
    """Says why one cannot log in to ``node`` from the login node; None if one can. Nobody is asked for it: if a person
    would be, the problem's text is that question."""
    questions = diagnosis.questions
    questions.quiet = True
    asked = len(questions.asked)
    try:
        diagnosis.connection.ssh.hop(node_hop(diagnosis.hops[-1], node), HOP_S).close()
    except ProblemError as error:
        return _with_question(error.problems[0], questions.asked[asked:])
    finally:
        questions.quiet = False
    return None


def _with_question(found: Problem, asked: Sequence[Prompt]) -> Problem:
    if not asked:
        return found
    last = asked[-1]
    if last.kind is PromptKind.CONFIRM:
        return msgspec.structs.replace(found, code=_UNKNOWN_KEY, text=f"{last.sentences} {last.text}")
    return msgspec.structs.replace(found, code=_ASKS, text=f"it asks for {ASKED_FOR[last.kind]}")


def what_it_asks(refusal: Problem) -> str:
    """The end of a sentence about a node that refuses logins; a node with pam_slurm mostly asks for a password then."""
    return f": {refusal.text}" if refusal.code == _ASKS else ""
