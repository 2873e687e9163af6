"""``cluster``: the commands."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any

from minicluster import faults, files, life, memory, packages, services
from minicluster.codes import fresh_code
from minicluster.on import become
from minicluster.plan import COURSES, PROFILES, run_folder
from minicluster.problem import ClusterError
from minicluster.state import State, locked


def main() -> int:
    """Run one command; the exit status."""
    options = _parser().parse_args()
    command: Callable[[argparse.Namespace], int | None] = options.command
    try:
        return command(options) or 0
    except ClusterError as problem:
        return problem.report()
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cluster", description="A small Slurm cluster in network namespaces.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Callable[[argparse.Namespace], int | None], text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=command)
        return sub

    about = "; ".join(f"{profile.name}: {profile.text}" for profile in PROFILES.values())
    about += f" (default: {COURSES.name})"
    add("up", _up, "start the cluster; installs missing packages (apt)").add_argument(
        "--profile", default=os.environ.get("CLEW_CLUSTER_PROFILE") or None, metavar="NAME", help=about
    )
    add("down", _down, "stop the cluster and remove everything that it left")
    add("status", _status, "show which hosts are on and which faults are active")
    add("check", _check, "check whether it can run on this computer")
    add("info", _info, "print addresses, users and passwords as JSON")
    on_text = "run a command on a host: on [USER@]HOST COMMAND…; without a command, a shell"
    on = add("on", lambda options: become(options.host, options.words), on_text)
    on.add_argument("host", help="`cluster status` lists the hosts, `cluster info` the users; root works too")
    on.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="one word is a line for the shell")
    add("code", _code, "print a fresh one-time code").add_argument("user", nargs="?")
    fault = add("fault", _fault, "break something; without a name, list what you can break")
    fault.add_argument("name", nargs="?")
    fault.add_argument("arguments", nargs="*")
    fault.add_argument("--for", dest="seconds", type=float, metavar="SECONDS", help="fix it after so many seconds")
    heal = add("heal", _heal, "fix what `fault` broke; without a name, everything")
    heal.add_argument("name", nargs="?")
    heal.add_argument("arguments", nargs="*")
    add("log", _log, "print the logs of a host's daemons").add_argument("host")
    return parser


def _up(options: argparse.Namespace) -> None:
    if options.profile is not None and options.profile not in PROFILES:
        raise ClusterError(f"there is no profile '{options.profile}'", f"Choose from {', '.join(PROFILES)}.")
    started = time.monotonic()
    with locked(run_folder()) as state:
        fresh = life.up(state, PROFILES.get(options.profile))
    took = time.monotonic() - started
    print(f"the mini cluster is up ({took:.1f} s)" if fresh else "the mini cluster is up already")


def _down(_: argparse.Namespace) -> None:
    folder = run_folder()
    was_up = False
    if folder.exists():
        with locked(folder) as state:
            was_up = life.down(state)
            folder.rmdir()
    print("the mini cluster is down" if was_up else "the mini cluster was not up")


def _status(_: argparse.Namespace) -> int:
    state = State(run_folder())
    running = state.running()
    if not running:
        print("the mini cluster is not up")
        return 1
    print(f"profile {state.profile.name}")
    for name, host in state.profile.hosts.items():
        print(f"{name:10}{'on' if name in running else 'OFF':5}{' '.join(host.addresses.values())}")
    for fault in state.faults:
        print(f"fault: {fault}")
    return 0


def _check(_: argparse.Namespace) -> int:
    lacks = life.lacking()
    missing = packages.missing_packages()
    print(f"missing: {', '.join(lacks)}" if lacks else "the mini cluster can run here")
    if missing and not lacks:
        print(f"packages to install first: {', '.join(missing)}")
    return 1 if lacks else 0


def _info(_: argparse.Namespace) -> None:
    folder = run_folder()
    profile = State(folder).profile
    users = {
        user.name: {
            "uid": user.uid,
            "password": user.password,
            "otp_secret": user.otp_secret,
            "home": f"{profile.homes}/{user.name}",
            "shell": user.shell,
        }
        for user in profile.users.values()
    }
    facts: dict[str, Any] = {
        "profile": profile.name,
        "folder": str(folder),
        "laptop_home": str(folder / "laptop/home"),
        "login": profile.login,
        "hosts": {host.name: host.addresses for host in profile.hosts.values() if host.addresses},
        "ports": profile.ports,
        "fingerprints": {name: files.fingerprints(folder, name) for name in (profile.login, *profile.nodes)},
        "users": users,
        "memory": memory.who_keeps(folder),
    }
    print(json.dumps(facts, indent=1))


def _code(options: argparse.Namespace) -> None:
    with _the_cluster() as state:
        users = state.profile.users
        if (name := options.user or state.profile.user.name) not in users:
            raise ClusterError(f"there is no user '{name}'", f"The users are {', '.join(users)}.")
        print(fresh_code(state, users[name]))


def _log(options: argparse.Namespace) -> None:
    for file in services.log_files(State(run_folder()).pid(options.host)):
        print(f"--- {file.name}")
        print(file.read_text(errors="replace"))


# --- Faults -----------------------------------------------------------------------------------------------------------


def _the_cluster() -> Any:
    folder = run_folder()
    if not State(folder).running():
        raise ClusterError("the mini cluster is not up", "Start it: make cluster-up")
    return locked(folder)


def _fault(options: argparse.Namespace) -> None:
    if options.name is None:
        print(faults.listing(State(run_folder()).profile))
        return
    with _the_cluster() as state:
        faults.inject(state, options.name, options.arguments)
    if options.seconds is not None:
        try:
            time.sleep(options.seconds)
        finally:
            with _the_cluster() as state:
                faults.heal(state, options.name, options.arguments)


def _heal(options: argparse.Namespace) -> None:
    with _the_cluster() as state:
        if options.name is None:
            faults.heal_all(state)
        else:
            faults.heal(state, options.name, options.arguments)
