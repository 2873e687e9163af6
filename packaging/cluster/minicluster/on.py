"""``cluster on``: a command on a host. It is called again and again, so it imports little."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from minicluster.plan import CONTROLLER, HOSTS, STUDENT, Role, run_folder
from minicluster.state import State


def entering(pid: int) -> list[str]:
    """The beginning of a command line that runs the rest on the host whose first process this is."""
    return ["nsenter", f"--target={pid}", "--mount", "--uts", "--ipc", "--net", "--pid"]


def become(place: str, words: list[str]) -> NoReturn:
    """Become a command on ``[USER@]HOST``: its exit status is this program's. When this program is killed it gets TERM.

    Raises:
        ClusterError: there is no such host, it is off, or nothing is up.
    """
    user, _, host = place.rpartition("@")
    state = State(run_folder())
    pid = state.pid(host)
    if HOSTS[host].role is Role.LAPTOP:
        os.environ["HOME"] = str(state.folder / "laptop/home")
        others = os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
        os.environ["XDG_CONFIG_DIRS"] = f"{state.folder / 'laptop/xdg'}:{others}"
        folder, command = str(Path.cwd()), laptop_command(user, words)
    else:
        folder, command = "/", machine_command(host, user, words)
    line = [*entering(pid), f"--wdns={folder}", "--", "setpriv", "--pdeathsig=TERM", *command]
    os.execvp(line[0], line)  # noqa: S606  # the command takes the place of this program


def laptop_command(user: str, words: list[str]) -> list[str]:
    """As called, with the caller's environment and folder; ``neighbour@laptop`` is somebody else."""
    identity = _identity(user) if user else []
    if len(words) == 1:
        words = ["sh", "-c", words[0]]
    return [*identity, *(words or ["bash"])]


def machine_command(host: str, user: str, words: list[str]) -> list[str]:
    """In the user's home and login shell, as the student where nobody else is named. Root has a plain shell and is
    who commands on the controller."""
    user = user or ("root" if host == CONTROLLER.name else STUDENT.name)
    shell = "-c" if user == "root" else "-lc"
    line = words[0] if len(words) == 1 else '"$@"' if words else "exec bash -l"
    return [*_identity(user), "bash", shell, f"cd\n{line}", "bash", *words]


def _identity(user: str) -> list[str]:
    return [f"--reuid={user}", f"--regid={user}", "--init-groups", "--reset-env"]
