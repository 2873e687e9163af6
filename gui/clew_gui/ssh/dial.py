"""Connects to a server through SSH: by a login that exists already, by a new one, or by one that stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clew_gui.ssh.connection import Hop, SshFiles
from clew_gui.ssh.kept_logins import KeptLogins
from clew_gui.ssh.prompts import AskOnce, PersonNeeded, Unattended

if TYPE_CHECKING:
    from clew_gui.ssh.paramiko_connection import ParamikoConnection


def dial(hops: Sequence[Hop], asker: AskOnce, files: SshFiles, timeout: float = 30.0) -> ParamikoConnection:
    """Connect to the last of ``hops`` through all the others; ``timeout`` is for each hop, without a person's thinking.

    Raises ``ProblemError``. Closing the connection closes all hops but kept ones.
    """
    if not files.keep_login_s:
        return _log_in(hops, asker, files, timeout)
    kept = KeptLogins(files)
    if (found := kept.find(hops, asker)) is not None:
        return found
    try:
        return _log_in(hops, Unattended(asker), files, timeout)
    except PersonNeeded:
        return kept.log_in(hops, asker, timeout)


def _log_in(hops: Sequence[Hop], asker: AskOnce, files: SshFiles, timeout: float) -> ParamikoConnection:
    """Log in hop by hop, each through the one before; when one fails those before are closed."""
    from clew_gui.ssh.paramiko_connection import dial_paramiko  # a tenth of a second, in the thread that logs in

    connection: ParamikoConnection | None = None
    for hop in hops:
        try:
            connection = dial_paramiko(hop, files, asker, timeout, connection)
        except BaseException:
            if connection is not None:
                connection.close_all()
            raise
    if connection is None:
        raise ValueError("there is no hop to dial")
    connection.owns_below = True
    return connection
