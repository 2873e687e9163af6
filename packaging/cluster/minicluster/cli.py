"""``cluster``: the commands.

``on`` is called again and again, so what only the other commands need is imported by them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from minicluster.namespaces import entering
from minicluster.plan import HOSTS, OTP_PORT, SSH_PORT, STUDENT, USERS, Role, run_folder
from minicluster.problem import ClusterError
from minicluster.state import State, locked


def main() -> int:
    """Run one command; the exit status."""
    options = _parser().parse_args()
    command: Callable[[argparse.Namespace], int | None] = options.command
    try:
        return command(options) or 0
    except ClusterError as problem:
        print(f"cluster: {problem}", file=sys.stderr)
        if problem.hint:
            print(f"    {problem.hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cluster", description="A small Slurm cluster in network namespaces.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Callable[[argparse.Namespace], int | None], text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=command)
        return sub

    add("up", _up, "bring it up; installs what is missing (apt)")
    add("down", _down, "end it and remove all it left")
    add("status", _status, "which hosts are on, which faults are active")
    add("check", _check, "whether it can run on this computer")
    add("info", _info, "addresses, users and passwords as JSON")
    on = add("on", _on, "run a command on a host: on [USER@]HOST COMMAND…; without a command, a shell")
    on.add_argument("host", help="laptop, login, node1 to node3, ctl; users are student, classmate and root")
    on.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="one word is a line for the shell")
    add("code", _code, "print a fresh one-time code").add_argument(
        "user", nargs="?", default=STUDENT.name, choices=USERS
    )
    fault = add("fault", _fault, "break something; without a name, list what can be broken")
    fault.add_argument("name", nargs="?")
    fault.add_argument("arguments", nargs="*")
    fault.add_argument("--for", dest="seconds", type=float, metavar="SECONDS", help="and mend it after so long")
    heal = add("heal", _heal, "mend it again; without a name, everything")
    heal.add_argument("name", nargs="?")
    heal.add_argument("arguments", nargs="*")
    add("log", _log, "print the logs of a host's daemons").add_argument("host", choices=HOSTS)
    return parser


def _up(_: argparse.Namespace) -> None:
    from minicluster import life

    started = time.monotonic()
    with locked(run_folder()) as state:
        fresh = life.up(state)
    took = time.monotonic() - started
    print(f"the mini cluster is up ({took:.1f} s)" if fresh else "the mini cluster is up already")


def _down(_: argparse.Namespace) -> None:
    from minicluster import life

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
    for name, host in HOSTS.items():
        print(f"{name:8}{'on' if name in running else 'OFF':5}{' '.join(host.addresses.values())}")
    for fault in state.faults:
        print(f"fault: {fault}")
    return 0


def _check(_: argparse.Namespace) -> int:
    from minicluster import life, packages

    lacks = life.lacking()
    missing = packages.missing_packages()
    print(f"lacking: {', '.join(lacks)}" if lacks else "the mini cluster can run here")
    if missing and not lacks:
        print(f"to be installed first: {', '.join(missing)}")
    return 1 if lacks else 0


def _info(_: argparse.Namespace) -> None:
    folder = run_folder()
    users = {u.name: {"uid": u.uid, "password": u.password, "otp_secret": u.otp_secret} for u in USERS.values()}
    facts: dict[str, Any] = {
        "folder": str(folder),
        "laptop_home": str(folder / "laptop/home"),
        "hosts": {host.name: host.addresses for host in HOSTS.values() if host.addresses},
        "ports": {"ssh": SSH_PORT, "otp": OTP_PORT},
        "users": users,
    }
    print(json.dumps(facts, indent=1))


def _code(options: argparse.Namespace) -> None:
    from minicluster.codes import fresh_code

    with _the_cluster() as state:
        print(fresh_code(state, USERS[options.user]))


def _log(options: argparse.Namespace) -> None:
    from minicluster import services

    for file in services.log_files(State(run_folder()).pid(options.host)):
        print(f"--- {file.name}")
        print(file.read_text(errors="replace"))


# --- on ---------------------------------------------------------------------------------------------------------------


def _on(options: argparse.Namespace) -> NoReturn:
    """Become the command: its exit status is this program's. When this program is killed the command gets TERM."""
    user, _, name = options.host.rpartition("@")
    state = State(run_folder())
    pid = state.pid(name)
    role = HOSTS[name].role
    if role is Role.LAPTOP:
        os.environ["HOME"] = str(state.folder / "laptop/home")
    command = _laptop_command(user, options.words) if role is Role.LAPTOP else _login_command(name, user, options.words)
    place = [f"--wdns={Path.cwd()}"] if role is Role.LAPTOP else ["--wdns=/"]
    os.execvp("nsenter", [*entering(pid), *place, "--", "setpriv", "--pdeathsig=TERM", *command])  # noqa: S606  # the command takes the place of this program


def _laptop_command(user: str, words: list[str]) -> list[str]:
    """As called, with the caller's environment and folder; ``neighbour@laptop`` is somebody else."""
    identity = _identity(user) if user else []
    if len(words) == 1:
        words = ["sh", "-c", words[0]]
    return [*identity, *(words or ["bash"])]


def _login_command(host: str, user: str, words: list[str]) -> list[str]:
    """In a login shell, as the student where nobody else is named (root on the controller)."""
    default = "root" if host in {"ctl", "switch"} else STUDENT.name
    if not words:
        shell = ["bash", "-lc", "cd && exec bash -l"]
    elif len(words) == 1:
        shell = ["bash", "-lc", f"cd\n{words[0]}"]
    else:
        shell = ["bash", "-lc", 'cd\n"$@"', "bash", *words]
    return [*_identity(user or default), *shell]


def _identity(user: str) -> list[str]:
    return [f"--reuid={user}", f"--regid={user}", "--init-groups", "--reset-env"]


# --- Faults -----------------------------------------------------------------------------------------------------------


def _the_cluster() -> Any:
    folder = run_folder()
    if not State(folder).running():
        raise ClusterError("the mini cluster is not up", "make cluster-up")
    return locked(folder)


def _fault(options: argparse.Namespace) -> None:
    from minicluster import faults

    if options.name is None:
        print(faults.listing())
        return
    with _the_cluster() as state:
        faults.inject(state, options.name, options.arguments)
    if options.seconds is not None:
        try:
            time.sleep(options.seconds)
        finally:
            with _the_cluster() as state:
                faults.mend(state, options.name, options.arguments)


def _heal(options: argparse.Namespace) -> None:
    from minicluster import faults

    with _the_cluster() as state:
        if options.name is None:
            faults.mend_all(state)
        else:
            faults.mend(state, options.name, options.arguments)
