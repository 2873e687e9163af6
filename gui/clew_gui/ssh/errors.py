"""The problems on the way to a server, and those of a rejected login, as sentences."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from clew_gui.base.checked_text import join_address
from clew_gui.ssh.connection import Hop
from clew_gui.ssh.prompts import NEEDS_PERSON, PromptKind
from clew_shared.base.problem import ProblemError, problem
from clew_shared.base.remedies import choose

T = TypeVar("T")

BUSY_PAUSES_S = (0.5, 1.0, 2.0)
"""The seconds between two attempts at a server that has too many logins under way: it drops new ones at random
(MaxStartups)."""
TRANSIENT = frozenset(
    {"ssh.name", "ssh.reach", "ssh.busy", "ssh.lost", "ssh.timeout", "scheduler.silent", NEEDS_PERSON}
)
"""Troubles that pass: nothing is over because of them, and it is tried again."""
_ROOM_S, _ROOM_PAUSE_S, _LONGEST_ROOM_PAUSE_S = 10.0, 0.02, 0.5
PROHIBITED = 1
"""SSH's reason code for a channel that the administrator does not allow (RFC 4254, section 5.1)."""


def no_such_name(hop: Hop) -> ProblemError:
    """The name cannot be looked up."""
    text = f"There is no computer named {hop.host}, or this computer has no network."
    return problem("ssh.name", text, "Check its spelling and your network; some sites need a VPN.", hop.title)


def not_reached(hop: Hop, error: BaseException) -> ProblemError:
    """Returns the error for a host whose name is known and that does not answer."""
    code = getattr(error, "errno", None)
    if isinstance(error, TimeoutError):
        why, hint = "it does not answer", "Check your network; some sites need a VPN or let only known addresses in."
    elif code == errno.ECONNREFUSED:
        why, hint = "no SSH server listens there", "Check the port; the site may be down for maintenance."
    else:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        hint = "Check your network and the port."
    return problem("ssh.reach", f"{hop.host}, port {hop.port}, cannot be reached: {why}.", hint, hop.title)


def proxy_failed(hop: Hop, words: str) -> ProblemError:
    """Returns the error for a ProxyCommand that ended with ``words`` before a server greeted."""
    text = f"{hop.host}, port {hop.port}, cannot be reached through its ProxyCommand, which says: {words}"
    return problem("ssh.reach", text, "Correct ProxyCommand in ~/.ssh/config; it must not ask for anything.", hop.title)


_METHODS = {
    "kex": ("key exchange", "kex_algo_list"),
    "host key": ("type of server key", "server_key_algo_list"),
    "ciphers": ("cipher", "server_encrypt_algo_list"),
    "macs": ("MAC", "server_mac_algo_list"),
}
"""By a word in paramiko's refusal: what was not agreed on, and the name of its list of the server's methods."""


def incompatible(hop: Hop, words: str, offered: Mapping[str, Sequence[str]]) -> ProblemError:
    """Returns the error for a server with which no method is agreed on; ``words`` are paramiko's."""
    what, names = next((found for word, found in _METHODS.items() if word in words), ("", ""))
    why = f"have no {what} in common; the server offers {', '.join(offered[names])}" if what else f"differ: {words}"
    hint = "Ask the site for another login node, or for a modern method, such as curve25519-sha256 and aes256-gcm."
    return problem("ssh.incompatible", f"Clew and {hop.title} {why}.", hint, hop.title)


def foreign(title: str, allowed: Sequence[str]) -> ProblemError:
    """Returns the error for a server that lets in only by what Clew cannot do."""
    text = f"{title} accepts only {' or '.join(allowed)} (Kerberos or host-based logins), which Clew does not do."
    hint = "Ask the site whether it accepts keys or passwords, perhaps at another login node."
    return problem("ssh.incompatible", text, hint, title)


def with_unsupported(hop: Hop, error: ProblemError) -> ProblemError:
    """The error, with what the configuration asks for and Clew does not do, where that may be its reason."""
    first, *others = error.problems
    if not hop.unsupported or first.code not in ("ssh.auth", "ssh.name", "ssh.reach", "ssh.key"):
        return error
    hint = f"{first.hint} Perhaps it is because {hop.unsupported}."
    return ProblemError(msgspec.structs.replace(first, hint=hint), *others)


def busy(hop: Hop) -> ProblemError:
    """The server hangs up on newcomers."""
    text = (
        f"{hop.title} closes the connection before it identifies itself: "
        "too many logins at this moment, or it blocks this address."
    )
    return problem(
        "ssh.busy", text, "Wait a minute and try again; after many wrong logins it may take longer.", hop.title
    )


def no_further_command(title: str, words: str = "") -> ProblemError:
    """The server opens no further session on this connection."""
    said = f' It says: "{words}".' if words else ""
    text = f"{title} allows no further command (MaxSessions) while another one runs on this connection.{said}"
    hint = "Wait until another one has ended, or ask the site for a larger MaxSessions."
    return problem("ssh.busy", text, hint, title)


def when_there_is_room(start: Callable[[], T], timeout: float) -> T:
    """The result of ``start``; where the server allows no further command it is tried again until another has ended,
    for ``timeout`` seconds or a few; most of them take a fraction of a second. Raises what ``start`` raises."""
    until, pause = time.monotonic() + min(timeout, _ROOM_S), _ROOM_PAUSE_S
    while True:
        try:
            return start()
        except ProblemError as error:
            if error.problems[0].code != "ssh.busy" or time.monotonic() + pause >= until:
                raise
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_ROOM_PAUSE_S)


def refused_channel(title: str, host: str, port: int, code: int, words: str) -> ProblemError:
    """Returns the error for a server that did not connect further, and its reason."""
    if code == PROHIBITED or "prohibited" in words:
        text = f"{title} does not forward connections to {host}, port {port}."
        return problem("ssh.forwarding", text, "Clew has other routes; ask the site about AllowTcpForwarding.", title)
    return cannot_connect(title, host, port, words or "it cannot be reached")


def cannot_connect(title: str, host: str, port: int, words: str) -> ProblemError:
    """Returns the error for a server that tried to connect further and did not reach the other one."""
    text = f"{title} cannot reach {host}, port {port}: {words.removeprefix('connect failed: ').strip().rstrip('.')}."
    return problem("ssh.connect", text, "The program that listens there may have ended.", join_address("", host, port))


def no_file(path: str, title: str, why: Sequence[str]) -> ProblemError:
    """Returns the error for a file that the server did not read or write."""
    text = f"{path} on {title}: {' '.join(why)}."
    return problem("ssh.file", text, "Check its name, the rights there, and the quota.", f"{title}:{path}")


# --- Refusals ---------------------------------------------------------------------------------------------------------
# A server that did not let someone in, as sentences.


_LIMIT = "Some sites allow only a few logins a minute: then wait a minute and try again."


def refused_answers(title: str, kinds: set[PromptKind]) -> ProblemError:
    """A password or a code was wrong, or the server says so of both."""
    if kinds == {PromptKind.PASSWORD}:
        hint = "Type it again. If it is right, the account may be locked for a while, or it is another user name there."
        return problem("ssh.password", f"The password for {title} was refused.", f"{hint} {_LIMIT}", title)
    what = "The password or the one-time code" if PromptKind.PASSWORD in kinds else "The one-time code"
    hint = "A code works once and for half a minute: wait for the next one. The clock of the phone must be right."
    return problem("ssh.code", f"{what} for {title} was refused.", f"{hint} {_LIMIT}", title)


def not_approved(title: str, said: str) -> ProblemError:
    """Returns the error for a server that said what a person should do, waited, and let nobody in."""
    text = f"{title} has not let you in. {' '.join(said.split())}"
    return problem("ssh.auth", text, "Do what it says, then log in again.", title)


def refused_keys(title: str, tried: Sequence[str], allowed: Sequence[str], kept_back: int = 0) -> ProblemError:
    """Returns the error for a login where no key fits; ``kept_back`` keys of the agent were not offered."""
    offered = ", ".join(dict.fromkeys(tried)) or "nothing, because there is no key here"
    offered += f"; not {kept_back} more of the agent, since servers hang up after some" if kept_back else ""
    wants = f" It takes: {', '.join(allowed)}." if allowed else ""
    hint = "Put your public key into ~/.ssh/authorized_keys there (ssh-copy-id), or name the right one in the site."
    text = f"{title} rejected the login; offered were: {offered}.{wants}"
    return problem("ssh.auth", text, hint, title, choose("key"))
