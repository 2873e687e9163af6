"""Opens a terminal on an allocation: through which route, with which command."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from clew_gui.nodes.routes import node_hop
from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.schedulers.job import JobRef
from clew_gui.schedulers.scheduler import Command
from clew_gui.schedulers.state import ON_NODE
from clew_gui.schedulers.words import describe
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.connection import Connection, Size, Terminal
from clew_gui.ssh.dial import ReconnectingConnection
from clew_shared.base.problem import ProblemError, problem
from clew_shared.base.remedies import fresh_shell, hold_node, list_all

LOGIN_SHELL = ("bash", "-l")
_START_S = 60.0
_NOBODY = ("true",)


class NodeShell(msgspec.Struct, frozen=True):
    """A terminal that is open, in words: ``on node1, as a step of the job``; ``close`` ends it with what it needed."""

    terminal: Terminal
    text: str
    close: Callable[[], None]


def where_it_runs(connection: SiteConnection, job: JobRef) -> str:
    """The job's nodes in the scheduler's words. Waits; raises ``ProblemError`` when the job is on no node now."""
    state = connection.job_states((job,))[job.id]
    if state.phase not in ON_NODE:
        why = describe(state, connection.scheduler).text
        hint = "Take one that is held and runs, or a terminal that has an allocation of its own."
        text = f"The allocation does not run now. {why}".strip()
        raise problem("shell.waits", text, hint, "site", list_all("held"), fresh_shell(connection.name))
    return state.nodes


def shell_on_job(
    connection: SiteConnection, job: JobRef, nodes: Sequence[str], command: Command, term: str, size: Size | None
) -> NodeShell:
    """A terminal on a job's first node: as a step of the job where its scheduler can do that, else by SSH.

    Waits. Raises ``ProblemError``, also when the site refuses the login.
    """
    wanted = command or LOGIN_SHELL
    if not connection.scheduler.has_queue:
        return _on(connection.ssh, "on the host itself", wanted, term, size)
    ways = connection.scheduler
    step = ways.attach(job, wanted) if size is not None else ways.relay(job, wanted)
    where = nodes[0] if nodes else "the allocation"
    if step is not None:
        return _on(connection.ssh, f"on {where}, as a step of the job", connection.command(step), term, size)
    if not nodes or not connection.hops:
        text = f"{connection.title} does not say on which node the job runs."
        raise problem("shell.node", text, "Try again in a moment.", connection.name)
    try:
        node = connection.ssh.hop(node_hop(connection.hops[-1], where), _START_S)
    except ProblemError as error:
        found = error.problems[0]
        hint = "A terminal with an allocation of its own may work."
        text = f"No terminal on {where}: {found.text}"
        raise problem("shell.refused", text, hint, connection.name, fresh_shell(connection.name)) from None
    return _on(node, f"on {where}", wanted, term, size, node.close)


def shell_of_its_own(
    connection: SiteConnection, job: str, allocation: AllocationRequest, command: Command, term: str, size: Size | None
) -> NodeShell:
    """A terminal that comes with an allocation and ends with it. Waits only for its start, not for the queue's end.

    Raises ``ProblemError``.
    """
    words = connection.scheduler.hold(connection.job(job, "/", _NOBODY, allocation))
    if command:
        if words[-len(LOGIN_SHELL) :] != LOGIN_SHELL:
            text = f"{connection.scheduler.label} gives a terminal to a person only, not to a command."
            raise problem(
                "shell.command", text, "Hold an allocation first.", connection.name, hold_node(connection.name)
            )
        words = (*words[: -len(LOGIN_SHELL)], *command)
    if size is None:
        words = tuple(word for word in words if word != "--pty")
    return _on(connection.ssh, "with an allocation of its own", connection.command(words), term, size)


def _on(
    connection: Connection | ReconnectingConnection,
    text: str,
    command: Command,
    term: str,
    size: Size | None,
    close: Callable[[], None] = lambda: None,
) -> NodeShell:
    try:
        terminal = connection.terminal(command, term, size, _START_S)
    except BaseException:
        close()
        raise

    def end() -> None:
        terminal.close()
        close()

    return NodeShell(terminal, text, end)
