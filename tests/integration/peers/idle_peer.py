"""A peer that joins and obeys but computes nothing: ``idle_peer.py RUN_FOLDER INDEX HOW``."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from clew_agent.peers.link import ChiefLink
from clew_agent.peers.messages import Block, Built, Complaint, Index, Join, Leave, Prepared, read_address
from clew_shared.base import operating_system
from clew_shared.base.problem import Problem
from clew_shared.journal.run_folder import RunFolder


def gone(reason: str) -> None:
    print(reason, flush=True)
    os._exit(4)


def main(folder: Path, index: int, how: str) -> int:
    if how == "broken":
        print("no such module", flush=True)
        return 3
    if how == "absent":
        time.sleep(60)
    address = read_address(RunFolder(folder), 1)
    join = Join(index=Index(index), host=operating_system.host_name(), address="127.0.0.1", port=7, pid=os.getpid())
    link = ChiefLink(address, join, gone)
    link.start()
    if how == "complains":
        link.send(Complaint(problem=Problem("data.missing", "There is no mnist here.")))
    link.send(Prepared())
    link.send(Built())
    while not isinstance(message := link.receive(), Leave):
        if isinstance(message, Block):
            print(f"block {message.first} {message.count} {list(message.live)}", flush=True)
    link.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
