"""Chooses how to connect through SSH: a login that exists already, paramiko, or the system's ``ssh``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from clew_gui.ssh.connection import Connection, Hop, SshFiles
from clew_gui.ssh.kept_logins import KeptLogins
from clew_gui.ssh.key_files import Incompatible
from clew_gui.ssh.openssh.connection import SystemSsh, dial_system, has_system_ssh
from clew_gui.ssh.prompts import AskOnce, PersonNeeded, Unattended
from clew_shared.base.problem import problem

if TYPE_CHECKING:
    from clew_gui.ssh.paramiko.connection import ParamikoConnection

_log = logging.getLogger(__name__)


def dial(hops: Sequence[Hop], asker: AskOnce, files: SshFiles, timeout: float = 30.0) -> Connection:
    """Connect to the last of ``hops`` through all the others; ``timeout`` is for each hop, without a person's thinking.

    A kept login that answers is used; a login that has to ask a person is kept, where logins are. What paramiko cannot
    do goes through the system's ``ssh``, from the first hop on, and ``route`` says why. Raises ``ProblemError``.
    Closing the connection closes all hops but kept ones.
    """
    kept = KeptLogins(files) if files.keep_login_s else None
    if kept is not None and (found := kept.find(hops, asker)) is not None:
        return found
    because = next((hop.only_by_system for hop in hops if hop.only_by_system), "")
    if not because:
        try:
            return _without_system(hops, asker, files, timeout, kept)
        except Incompatible as why:
            because = str(why)
    if not has_system_ssh(files):
        text = f"{hops[-1].title} cannot be reached: {because}."
        raise problem("ssh.incompatible", text, "Install OpenSSH 8.4 or newer here.", hops[-1].title)
    _log.info("%s goes through the system's ssh: %s", hops[-1].title, because)
    if kept is not None:
        return kept.log_in_by_system(hops, asker, timeout, because)
    return _through_system(hops, asker, files, timeout, because)


def _without_system(
    hops: Sequence[Hop], asker: AskOnce, files: SshFiles, timeout: float, kept: KeptLogins | None
) -> ParamikoConnection:
    if kept is None:
        return _through_paramiko(hops, asker, files, timeout)
    try:
        return _through_paramiko(hops, Unattended(asker), files, timeout)
    except PersonNeeded:
        return kept.log_in(hops, asker, timeout)


def _through_paramiko(hops: Sequence[Hop], asker: AskOnce, files: SshFiles, timeout: float) -> ParamikoConnection:
    from clew_gui.ssh.paramiko.connection import dial_paramiko  # a tenth of a second, in the thread that logs in

    def onto(below: ParamikoConnection | None, hop: Hop) -> ParamikoConnection:
        return dial_paramiko(hop, files, asker, timeout, below)

    return _chain(hops, onto)


def _through_system(hops: Sequence[Hop], asker: AskOnce, files: SshFiles, timeout: float, because: str) -> SystemSsh:
    def onto(below: SystemSsh | None, hop: Hop) -> SystemSsh:
        return dial_system(hop, files, asker, timeout, below, because if below is None else "")

    return _chain(hops, onto)


_Chained = TypeVar("_Chained", "ParamikoConnection", SystemSsh)


def _chain(hops: Sequence[Hop], onto: Callable[[_Chained | None, Hop], _Chained]) -> _Chained:
    """Dial hop by hop, each through the one before; when one fails those before are closed."""
    connection: _Chained | None = None
    for hop in hops:
        try:
            connection = onto(connection, hop)
        except BaseException:
            if connection is not None:
                connection.close_all()
            raise
    if connection is None:
        raise ValueError("there is no hop to dial")
    connection.owns_below = True
    return connection
