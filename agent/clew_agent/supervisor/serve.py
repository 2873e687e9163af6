"""``clew-agent serve``: puts an agent together, says where it is found, and lets it serve until nobody needs it."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
import zmq

from clew_agent.catalogue.catalogue import CatalogueSource
from clew_agent.datasets.search import find_search
from clew_agent.node.allocation import JOB, Allocation, read_allocation
from clew_agent.node.devices import Devices, find_devices
from clew_agent.node.exit_codes import BAD_INPUT, TRY_AGAIN
from clew_agent.processes.guard_mark import forget_dead
from clew_agent.processes.nursery_client import NURSERY, NurseryClient
from clew_agent.processes.run_starter import RunStarter
from clew_agent.processes.standby_keeper import StandbyKeeper
from clew_agent.supervisor.job_runs import JobRunStarter
from clew_agent.supervisor.launcher import GUARD, Launcher
from clew_agent.supervisor.probes import Probes
from clew_agent.supervisor.run_manager import RunManager
from clew_agent.supervisor.services import Services
from clew_agent.supervisor.supervisor import Supervisor
from clew_agent.supervisor.trainer_client import ControlClient
from clew_agent.wire.rendezvous import (
    ANYWHERE,
    LOOPBACK,
    PORTS_TAKEN,
    PortRange,
    address_path,
    agent_id,
    allow_folder,
    clear_keys,
    lock_path,
    node_places,
    publish,
    read_ports,
    withdraw,
)
from clew_agent.wire.server import GuardedRouter
from clew_shared.base import operating_system
from clew_shared.base.file_lock import LockFile
from clew_shared.base.harmless import log_to
from clew_shared.base.places import AgentPlaces, Places, find_places
from clew_shared.base.problem import ProblemError, problem
from clew_shared.cards import Catalogue
from clew_shared.wire.messages import AgentAddress, read_address

_log = logging.getLogger(__name__)

IDLE_S = 30 * 60.0
"""Seconds that an unused agent of a laptop stays, so that TensorFlow is still imported after a break."""
OWN_IDLE_S = 15.0
"""Seconds after which the agent of one program ends that does not ask it anything any more: it was killed."""
JOB_IDLE_S = 60.0
"""Seconds that an unused agent of a job stays: a node that nobody uses costs someone's hours."""
KEPT_S = 15 * 60.0
"""Seconds that the agent stays with Jupyter open: a laptop that was closed for a walk to another room finds it as it
was."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of an agent that serves: ``idle`` seconds after which it ends, or ``kept`` if that is more and a
    program is open, ``slots`` for runs at the same time where there is no GPU, a folder with ``exercises`` beside the
    built-in ones, ``fresh`` interpreters for all runs, whether they may begin as copies of a process (``fork``) where
    the system can make them, the ``ports`` of which it takes one (None: the system chooses).
    In a ``job`` it listens on all of the node's addresses and begins the runs in the job's folder. An ``own`` agent is
    that of one program, and has no other runs than those that it asks for; ``out`` is the folder of its only run.
    ``catalogue``,
    ``guard`` (a command line, always started fresh) and ``devices`` are replaced in tests."""

    idle: float = IDLE_S
    kept: float = KEPT_S
    slots: int = 1
    exercises: Path | None = None
    fresh: bool = False
    fork: bool = True
    ports: PortRange | None = None
    job: Allocation | None = None
    own: bool = False
    out: Path | None = None
    catalogue: Catalogue | None = None
    guard: Sequence[str] = GUARD
    devices: Devices | None = None


def serve(places: Places, options: Options | None = None) -> int:
    """Be this home's agent on this host, or a job's, until nobody needs one; returns the exit code.

    Where one serves already, says so and returns 0. Raises ``ProblemError`` when a key folder is not the user's, or no
    port is free.
    """
    options = options or Options()
    usual = agent_id(places, str(places.agents)) if options.own else agent_id(places)
    agent = options.job.job if options.job is not None else usual
    lock = LockFile(lock_path(places, agent))
    if not lock.acquire():
        _log.info("An agent serves %s already: %s.", places.home, lock.holder() or "it does not say which process")
        return 0
    try:
        _serve_locked(places, agent, options)
    finally:
        lock.release()
        if options.own:  # nobody comes after it
            lock_path(places, agent).unlink(missing_ok=True)
            shutil.rmtree(places.agents, ignore_errors=True)
    return 0


def _serve_locked(places: Places, agent: str, options: Options) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    folder = allow_folder(places, agent)
    clear_keys(folder)
    job = options.job
    router = GuardedRouter(context, folder, LOOPBACK if job is None else ANYWHERE, options.ports)
    control = ControlClient(context, places, f"supervisor-{agent}", router.watch, router.unwatch)
    catalogue = CatalogueSource(options.exercises, options.catalogue)
    record = places.agents / f"{agent}.queue"
    devices = options.devices or find_devices(options.slots)
    starter = _starter(places, options, devices, router)
    launcher = Launcher(places.home, options.guard, options.exercises, starter)
    name = job.job if job is not None else ""
    manager = RunManager(
        places.runs, record, launcher, control, devices, find_search(places), name, options.own, options.out
    )
    address = router.describe(agent)
    duty = JobRunStarter(job, manager, lambda: _overtaken(places, address)) if job is not None else None
    services = Services(places, agent, router, options.ports)
    probes = Probes(places, agent, options.exercises, router)
    supervisor = Supervisor(router, manager, control, catalogue, services, probes, starter, duty)
    supervisor.agent = agent
    asked: list[int] = []

    def end(number: int) -> None:
        asked.append(number)
        supervisor.end()

    try:
        with operating_system.stop_requests(end):
            address = publish(places, address)  # who reads it may ask for the end at once
            if job is not None:
                job.note_served()
            _log.info("Agent %s serves %s at %s, port %d.", agent, places.home, address.address, router.port)
            supervisor.run(options.idle, options.kept)
        if job is not None and not _overtaken(places, address):
            manager.forget_record(asked=bool(asked))
    finally:
        withdraw(places, address)
        supervisor.close()
        services.close()
        probes.close()
        launcher.close(wait=10.0)
        catalogue.close()
        control.close()
        router.close()
        context.term()  # bounded by the sockets' linger, half a second
        forget_dead()


def _overtaken(places: Places, mine: AgentAddress) -> bool:
    """Whether a later agent has written its address: its job was queued again while this node was thought lost."""
    found = read_address(address_path(places, mine.agent))
    return found is not None and found.generation > mine.generation


def _starter(places: Places, options: Options, devices: Devices, router: GuardedRouter) -> RunStarter | None:
    if options.fresh or options.guard != GUARD:
        return None
    if not options.fork or not may_fork(len(devices.gpus)):
        return StandbyKeeper(places.home)
    # The run that an agent of its own is started for is there already: its nursery prepares nothing for others first.
    command = (*NURSERY, "--bare") if options.own else NURSERY
    return NurseryClient(places.home, router.watch, router.unwatch, command)


def may_fork(gpus: int) -> bool:
    """Whether a run may begin as a copy of a warm process here: on Linux, as long as no GPU is involved.

    Copies of a process that has loaded an NVIDIA driver's libraries have not been tried.
    """
    return operating_system.FORKS_SAFELY and not gpus


def main(argv: Sequence[str]) -> int:
    """``clew-agent serve [--job] [--ports A-B] [--idle SECONDS] …``: its log goes to stderr. 0 when nobody needs it any
    more, 2 when it cannot serve, 75 when it perhaps can later. The last line of its log says why: a job's keeper
    reports that line."""
    log_to(None, logging.INFO, "%(asctime)s %(process)d %(name)s %(levelname)s: %(message)s")
    try:
        options, places = read_words(argv)
        if options.job is not None:
            usual, places = places, node_places(places, options.job.job)
            if places.private != usual.private:  # all processes of the job look there
                os.environ["XDG_RUNTIME_DIR"] = str(places.private.parent)
        return serve(places, options)
    except ProblemError as error:
        _log.error("%s", error)
        return TRY_AGAIN if error.problems[0].code == PORTS_TAKEN else BAD_INPUT
    except OSError as error:
        _log.exception("The agent cannot serve.")
        _log.error("%s: %s.", error.filename or "The agent cannot serve", error.strerror or error)
        return TRY_AGAIN


def read_words(argv: Sequence[str]) -> tuple[Options, Places]:
    """What the words after ``clew-agent serve`` ask for. Raises ``ProblemError``."""
    words, places = _parser().parse_args(argv), find_places()
    options = _options(words)
    if options.own:
        places = AgentPlaces(home=places.home, private=places.private, own=words.own.absolute())
    return options, places


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clew-agent serve")
    parser.add_argument(
        "--job", action="store_true", help="serve the batch job that starts it: begin its runs, listen on the node"
    )
    parser.add_argument(
        "--own", type=Path, metavar="DIR", help="serve only the program that has made this folder, where it is found"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="with --own: the folder of its only run")
    parser.add_argument("--ports", metavar="A-B", help="listen on one of these ports (default: the system chooses)")
    parser.add_argument(
        "--idle",
        type=float,
        help=f"end after this many seconds without viewer or run (default {IDLE_S:.0f}, in a job {JOB_IDLE_S:.0f},"
        f" there {KEPT_S:.0f} with Jupyter open; inf)",
    )
    parser.add_argument("--slots", type=int, default=1, help="how many runs may train at once on a node without a GPU")
    parser.add_argument("--exercises", type=Path, help="a folder with exercise files of your own")
    parser.add_argument(
        "--fresh", action="store_true", help="start every run in a new interpreter, which takes seconds"
    )
    parser.add_argument(
        "--no-fork", action="store_true", help="prepare runs as where no process can be copied: Windows, macOS, GPUs"
    )
    return parser


def _options(words: argparse.Namespace) -> Options:
    """Raises ``ProblemError`` for ports that are none, and outside of a job for ``--job``."""
    job = read_allocation() if words.job else None
    if job is not None and not job.job:
        text = f"This agent is not in a batch job: the environment variable {JOB} names none."
        raise problem("job.none", text, "The job's script sets it.")
    usual = JOB_IDLE_S if job is not None else OWN_IDLE_S if words.own else IDLE_S
    idle = words.idle if words.idle is not None else usual
    return Options(
        idle=idle,
        slots=max(1, words.slots),
        exercises=words.exercises,
        fresh=words.fresh,
        fork=not words.no_fork,
        ports=read_ports(words.ports) if words.ports else None,
        job=job,
        own=words.own is not None,
        out=words.out,
    )
