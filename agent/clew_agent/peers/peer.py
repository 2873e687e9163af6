"""A peer: one process of a run that spreads over several. It builds what the trainer builds and does the same blocks.

It records nothing, evaluates nothing and saves nothing: the trainer, worker 0, does that for all. What it prints goes
to ``peers/NNNN.log``.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from clew_agent.catalogue.examine import find_exercise
from clew_agent.datasets.dataset import DataSet
from clew_agent.datasets.load import load
from clew_agent.datasets.search import Search, find_search
from clew_agent.node.devices import find_devices
from clew_agent.node.exit_codes import FAILED, FINISHED
from clew_agent.node.host import processor
from clew_agent.node.lean_import import lean_import
from clew_agent.node.pulse.sampler import sampling
from clew_agent.peers.link import ChiefLink
from clew_agent.peers.messages import (
    Block,
    Built,
    Cluster,
    Complaint,
    FromChief,
    Index,
    Join,
    Leave,
    Prepared,
    Sampled,
    Serve,
    read_address,
)
from clew_agent.peers.processes import PortKeeper, prepare_for_several
from clew_agent.strategies import registry
from clew_agent.wire.rendezvous import LOOPBACK, address_towards
from clew_shared.base import operating_system
from clew_shared.base.harmless import log_to, say
from clew_shared.base.places import find_places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.journal.run_folder import RunFolder
from clew_shared.spec import RunSpec, read_spec


class _Left(Exception):
    """Raised when the chief has said that the attempt is over."""


def main(argv: Sequence[str], load_data: Callable[[str, Search], DataSet] = load) -> int:
    """``clew-agent peer RUN_FOLDER --attempt N --index I``: returns when the chief says so or something is wrong.

    ``load_data`` reads the run's data set.
    """
    parser = argparse.ArgumentParser(prog="clew-agent peer")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--attempt", type=int, required=True)
    parser.add_argument("--index", type=int, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--exercises", type=Path)
    options = parser.parse_args(argv)
    _prepare_process()
    folder = RunFolder(options.folder.absolute())
    chief = read_address(folder, options.attempt)
    if (chief.boot, chief.pid) == (operating_system.boot_id(), operating_system.parent_id()):
        operating_system.die_with_parent(by_force=True)
    address = LOOPBACK if chief.address == LOOPBACK else address_towards(chief.address)
    keeper = PortKeeper(address, options.port)
    link = ChiefLink(chief, _join(Index(options.index), keeper), _gone)
    link.start()
    work = _Work(folder, options.attempt, Index(options.index), options.exercises, link, keeper, load_data)
    with sampling(os.getpid, lambda sample: link.send(Sampled(sample=sample))):
        code = work.run()
    link.close()
    operating_system.flush_output()
    operating_system.exit_at_once(code)  # TensorFlow's own end waits for processes that may be gone
    return code


def _prepare_process() -> None:
    """Ignores requests to stop: they are the chief's to answer, and the scheduler sends them to all processes of a
    job."""
    faulthandler.enable()
    prepare_for_several()
    operating_system.end_before_others()
    log_to(None, logging.WARNING, "%(asctime)s %(levelname)s %(name)s: %(message)s")
    for number in operating_system.stop_signals():
        signal.signal(number, signal.SIG_IGN)


def _join(index: Index, keeper: PortKeeper) -> Join:
    gpus = find_devices(1).gpus
    return Join(
        index=index,
        host=operating_system.host_name(),
        address=keeper.address,
        port=keeper.port,
        pid=os.getpid(),
        devices=tuple(gpu.name for gpu in gpus) or (processor(),),
    )


def _gone(reason: str) -> None:
    say(f"clew-agent peer: {reason}", sys.stderr)
    operating_system.exit_at_once(FAILED)


class _Work:
    """A peer between its joining and its end."""

    def __init__(
        self,
        folder: RunFolder,
        attempt: int,
        index: Index,
        exercises: Path | None,
        link: ChiefLink,
        keeper: PortKeeper,
        load_data: Callable[[str, Search], DataSet],
    ) -> None:
        self._folder = folder
        self._attempt = attempt
        self._index = index
        self._exercises = exercises
        self._link = link
        self._keeper = keeper
        self._load_data = load_data
        self._computing = False

    def run(self) -> int:
        """Runs the peer from beginning to end; returns the exit code. Problems are reported to the chief, which then
        ends the attempt."""
        try:
            self._run()
            return FINISHED
        except _Left:
            return FINISHED
        except ProblemError as error:
            return self._complain(error.problems[0])
        except BaseException as error:  # noqa: BLE001  # the process's border: an exercise or TensorFlow raises anything
            traceback.print_exc()
            text = f"{type(error).__name__}: {str(error).strip()[:500] or 'no message'}"
            return self._complain(Problem("peers.error", text, f"See peers/{self._index:04d}.log."))

    def _complain(self, found: Problem) -> int:
        say(f"clew-agent peer: {found}", sys.stderr)
        self._link.send(Complaint(problem=found, computing=self._computing))
        while not isinstance(self._link.receive(), Leave):
            pass
        return FAILED

    def _hear(self) -> FromChief:
        message = self._link.receive()
        if isinstance(message, Leave):
            raise _Left
        return message

    def _run(self) -> None:
        with lean_import():
            from clew_agent.training.runtime import configure

        spec = read_spec(self._folder.spec_of(self._attempt))
        if registry.entry(spec.strategy).roles(spec):
            self._serve(spec)
            return
        configure(devices=spec.devices, precision=spec.precision)
        exercise, card = find_exercise(spec.exercise, self._exercises)
        name = spec.data or (card.datasets[0] if card.datasets else "")
        data = self._load_data(name, find_search(find_places())) if name else None
        self._link.send(Prepared())
        cluster = self._hear()
        if not isinstance(cluster, Cluster):
            raise TypeError(f"the chief's first message was {type(cluster).__name__}")
        self._train(exercise, spec, data, cluster)

    def _serve(self, spec: RunSpec) -> None:
        """Be one of the processes that a coordinator uses: everything it does comes from there.

        The chief's silence counts only after minutes: TensorFlow may hold up its threads when a cluster forms again.
        """
        from clew_agent.strategies.parameter_server import serve
        from clew_agent.training.runtime import configure, share_gpus

        self._link.send(Prepared())
        place = self._hear()
        if not isinstance(place, Serve):
            raise TypeError(f"the chief's first message was {type(place).__name__}")
        share_gpus(_place(place))
        # A server reports the time of each update, which TensorFlow refuses in deterministic mode.
        configure(deterministic=place.job != "ps", devices=spec.devices, precision=spec.precision)
        server = serve(place.cluster, place.job, place.number)
        self._keeper.release()
        self._link.send(Built())
        self._hear()
        del server

    def _train(self, exercise: object, spec: RunSpec, data: DataSet | None, cluster: Cluster) -> None:
        from clew_agent.training.engine import make_engine
        from clew_agent.training.exercise import Exercise

        if not isinstance(exercise, Exercise):
            raise TypeError(f"{exercise} is not an exercise")
        os.environ["TF_CONFIG"] = tf_config(cluster.workers, self._index)
        self._computing = True  # from here on it waits for others inside TensorFlow
        engine = make_engine(exercise, spec, data, self._keeper.release)
        engine.compile()
        if spec.timed:
            engine.measure_parts()
        if cluster.restore:
            engine.restore(self._folder.path / cluster.restore)
        self._link.training()
        self._link.send(Built())
        while isinstance(block := self._hear(), Block):
            engine.follow(block.first, block.count, block.live)


def _place(mine: Serve) -> int | None:
    """Returns which of the workers of its node this is, counted from 0; None for a server, which computes nothing."""
    if mine.job != "worker":
        return None
    workers = [address.rpartition(":")[0] for address in mine.cluster["worker"]]
    return workers[: mine.number].count(workers[mine.number])


def tf_config(workers: Sequence[str], index: Index) -> str:
    """TensorFlow's description of a cluster, and which of its workers this process is."""
    return json.dumps({"cluster": {"worker": list(workers)}, "task": {"type": "worker", "index": index}})
