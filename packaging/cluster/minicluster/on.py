"""``cluster on``: a command on a host. It is called again and again, so it imports little."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from minicluster.plan import Profile, Role, run_folder
from minicluster.state import State


def entering(pid: int) -> list[str]:
    """The start of a command line that runs the rest on the host whose first process this is."""
    return ["nsenter", f"--target={pid}", "--mount", "--uts", "--ipc", "--net", "--pid"]


def become(place: str, words: list[str]) -> NoReturn:
    """Become a command on ``[USER@]HOST``: its exit status is this program's. If this program is killed, it gets TERM.

    Raises:
        ClusterError: there is no such host, it is off, or nothing is up.
    """
    user, _, host = place.rpartition("@")
    state = State(run_folder())
    pid, profile = state.pid(host), state.profile
    if profile.hosts[host].role is Role.LAPTOP:
        os.environ["HOME"] = str(state.folder / "laptop/home")
        others = os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
        os.environ["XDG_CONFIG_DIRS"] = f"{state.folder / 'laptop/xdg'}:{others}"
        folder, command = str(Path.cwd()), laptop_command(profile, user, words)
    else:
        folder, command = "/", machine_command(profile, host, user, words)
    line = [*entering(pid), f"--wdns={folder}", "--", "setpriv", "--pdeathsig=TERM", *command]
    os.execvp(line[0], line)  # noqa: S606  # the command takes the place of this program


def laptop_command(profile: Profile, user: str, words: list[str]) -> list[str]:
    """As called, with the caller's environment and folder; ``neighbour@laptop`` is somebody else."""
    identity = _identity(profile, user) if user else []
    if len(words) == 1:
        words = ["sh", "-c", words[0]]
    return [*identity, *(words or ["bash"])]


def machine_command(profile: Profile, host: str, user: str, words: list[str]) -> list[str]:
    """In the user's home and a login shell (bash for a command); without a user as the profile's first user, or as root
    on the controller. Root has a plain shell."""
    user = user or ("root" if host == profile.controller else profile.user.name)
    shell = "-c" if user == "root" else "-lc"
    line = words[0] if len(words) == 1 else '"$@"' if words else 'exec "$SHELL" -l'
    return [*_identity(profile, user), "bash", shell, f"cd\n{line}", "bash", *words]


def _identity(profile: Profile, user: str) -> list[str]:
    group = profile.users[user].group.name if user in profile.users else user
    return [f"--reuid={user}", f"--regid={group}", "--init-groups", "--reset-env"]
