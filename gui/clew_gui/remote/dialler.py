"""Which way of speaking SSH is taken: paramiko, or the system's ``ssh`` where paramiko cannot."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from clew_gui.remote.connection import Connection, Hop, SshFiles
from clew_gui.remote.key_files import Incompatible
from clew_gui.remote.paramiko_connection import ParamikoConnection, dial_paramiko
from clew_gui.remote.prompts import AskOnce
from clew_gui.remote.system_ssh import SystemSsh, dial_system, has_system_ssh
from clew_shared.problem import problem

_log = logging.getLogger(__name__)


def dial(hops: Sequence[Hop], asker: AskOnce, files: SshFiles, timeout: float = 30.0) -> Connection:
    """Connect to the last of ``hops`` through all the others; ``timeout`` is for each hop, without a person's thinking.

    What paramiko cannot do goes through the system's ``ssh``, from the first hop on, and ``route`` says why. Raises
    ``ProblemError``. Closing the connection closes all hops.
    """
    try:
        return _through_paramiko(hops, asker, files, timeout)
    except Incompatible as why:
        _log.info("%s goes through the system's ssh: %s", hops[-1].title, why)
        if not has_system_ssh(files):
            text = f"{hops[-1].title} cannot be reached: {why}."
            raise problem("ssh.incompatible", text, "Install OpenSSH 8.4 or newer here.", hops[-1].title) from why
        return _through_system(hops, asker, files, timeout, str(why))


def _through_paramiko(hops: Sequence[Hop], asker: AskOnce, files: SshFiles, timeout: float) -> ParamikoConnection:
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


def _through_system(hops: Sequence[Hop], asker: AskOnce, files: SshFiles, timeout: float, because: str) -> SystemSsh:
    connection: SystemSsh | None = None
    for hop in hops:
        try:
            connection = dial_system(hop, files, asker, timeout, connection, because if connection is None else "")
        except BaseException:
            if connection is not None:
                connection.close_all()
            raise
    if connection is None:
        raise ValueError("there is no hop to dial")
    connection.owns_below = True
    return connection
