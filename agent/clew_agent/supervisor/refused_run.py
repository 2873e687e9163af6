"""A run that a job was to begin by itself and could not: its folder says why, as for a run that failed."""

from __future__ import annotations

import time

from clew_agent.node.exit_codes import BAD_INPUT
from clew_agent.processes.guard import open_end
from clew_shared.base.private_files import write_private
from clew_shared.base.problem import Problem
from clew_shared.journal.events import State
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder, final_files


def write_refused(folder: RunFolder, spec: bytes, found: Problem) -> None:
    """Make the run's folder, with what was to be its spec and a sealed journal. Raises ``OSError``."""
    folder.path.mkdir(parents=True, exist_ok=True)
    write_private(folder.spec, spec)
    state = State(time=time.time(), state=RunState.FAILED, reason=found.text, problem=found, exit_code=BAD_INPUT)
    with open_end(folder, 1) as writer:
        for files in final_files(folder.path):
            writer.append(files)
        writer.append(state)
        writer.seal("supervisor")
