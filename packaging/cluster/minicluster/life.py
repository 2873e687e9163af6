"""The cluster's life: up, down, one host off and on again."""

from __future__ import annotations

import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from minicluster import files, memory, network, packages, services, software
from minicluster.namespaces import boot, end, missing_features, run
from minicluster.on import entering
from minicluster.plan import COURSES, PROJECT, SWITCH, Host, Profile, Role
from minicluster.problem import ClusterError
from minicluster.state import State

_READY_LIMIT_S = 60.0
"""From the start of the daemons to idle nodes; 1 s on a quiet computer."""
_READY_POLL_S = 0.1
_COVERED = ("/home", "/run", "/usr", "/etc", "/proc", "/dev")
"""Folders that look different on the hosts, besides those with homes and software: hosts would not find the run folder
there."""


def lacking() -> list[str]:
    """What this computer cannot provide, in words; packages that can be installed do not count."""
    if os.name != "posix" or not Path("/proc/self/ns").is_dir():
        return ["Linux with namespaces"]
    lacks = missing_features() if os.geteuid() == 0 else ["the rights of root"]
    if not packages.can_install():
        lacks += [f"the package {name}" for name in packages.missing_packages()]
    return lacks


def up(state: State, profile: Profile | None = None) -> bool:
    """Bring the cluster up; False if it is up already. Installs missing packages. Without a profile it takes the one of
    the cluster that is up, or the courses'.

    Raises:
        ClusterError: this computer cannot run it, a cluster of another profile is up, or something did not start. Then
            nothing is left running.
    """
    if _is_up(state):
        if profile not in (None, state.profile):
            raise ClusterError(
                f"the cluster that is up has the profile {state.profile.name}",
                "Stop it with `cluster down`, or set CLEW_CLUSTER_DIR to another folder for a second cluster.",
            )
        return False
    profile = profile or COURSES
    own = [str(Path(path).parent) for path in (profile.homes, profile.software)]
    covered = [*_COVERED, *(folder for folder in own if folder != "/")]
    if any(state.folder.is_relative_to(folder) for folder in covered):
        raise ClusterError(
            f"CLEW_CLUSTER_DIR={state.folder} cannot be in {' or '.join(covered)}: the hosts have their own"
        )
    if lacks := lacking():
        raise ClusterError(
            f"the mini cluster needs {', '.join(lacks)}", "Run it as root, in a virtual machine for example."
        )
    if missing := packages.missing_packages():
        print(f"installing {', '.join(missing)}", file=sys.stderr)
        packages.install(missing)
    down(state)
    state.folder.mkdir(mode=0o700, exist_ok=True)
    state.profile = profile
    try:
        files.write_all(state.folder, profile)
        _start_all(state)
    except BaseException:
        _end_hosts(state)
        raise
    state.ready = True
    return True


def _is_up(state: State) -> bool:
    """Whether every host is on, apart from those that were switched off on purpose."""
    off = {fault.split()[1] for fault in state.faults if fault.startswith("node-kill ")}
    return state.ready and set(state.running()) >= set(state.profile.hosts) - off


def down(state: State) -> bool:
    """End every process that ``up`` started and remove the run folder's content; False when nothing was up."""
    was_up = _end_hosts(state)
    memory.remove_group(state.folder)
    for entry in state.folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    return was_up


def _end_hosts(state: State) -> bool:
    running = state.running()
    end(list(running.values()))
    for host in running:
        state.forget(host)
    return bool(running)


def _start_all(state: State) -> None:
    _boot(state, SWITCH)
    network.make_switch(state.pid(SWITCH.name))
    others = [host for host in state.profile.hosts.values() if host != SWITCH]
    for host in others:
        _boot(state, host)
        _plug_in(state, host)
    with ThreadPoolExecutor(len(others)) as pool:  # waits only; each host's daemons start side by side with the others'
        list(pool.map(lambda host: _start_services(state, host), others))
    await_nodes(state, state.profile.nodes)


def _boot(state: State, host: Host) -> None:
    """Start a host's first process in its namespaces."""
    software_packages = software.packages_folder()
    arguments = [
        str(state.folder / "init.sh"),
        host.name,
        host.role.value,
        str(state.folder),
        str(PROJECT),
        str(software.python_folder()),
        str(software_packages or "-"),
        state.profile.software,
        state.profile.homes,
    ]
    log = state.folder / "hosts" / host.name / "log/init.log"
    mounts_of = state.pid(SWITCH.name) if host.role is Role.MACHINE else None
    state.remember(host.name, boot(arguments, log, mounts_of))


def _plug_in(state: State, host: Host) -> None:
    network.plug_in(state.pid(SWITCH.name), state.pid(host.name), host, state.profile.hosts.values())


def _start_services(state: State, host: Host) -> None:
    for name in host.services:
        services.start(state.pid(host.name), name)


def start_host(state: State, name: str) -> None:
    """Switch a host on again."""
    host = state.profile.hosts[name]
    _boot(state, host)
    _plug_in(state, host)
    _start_services(state, host)


def kill_host(state: State, name: str) -> None:
    """Power off: everything on the host ends at once."""
    end([state.pid(name)])
    state.forget(name)


def await_nodes(state: State, names: tuple[str, ...]) -> None:
    """Wait until Slurm answers and takes jobs on these nodes.

    Raises:
        ClusterError: not all nodes are ready within a minute; it names each node's state.
    """
    asking = entering(state.pid(state.profile.controller))
    deadline = time.monotonic() + _READY_LIMIT_S
    states: dict[str, str] = {}
    while time.monotonic() < deadline:
        try:
            lines = run(asking, "sinfo", "--noheader", "--Node", "--format=%N %t").split("\n")
        except ClusterError:  # the controller is not listening yet
            lines = []
        states = {words[0]: words[1] for words in map(str.split, lines) if words}
        if states and all(states.get(name) in {"idle", "mix", "alloc"} for name in names):
            return
        time.sleep(_READY_POLL_S)
    raise ClusterError(f"Slurm's nodes are not ready after {_READY_LIMIT_S:.0f} s: {states or 'no answer'}")
