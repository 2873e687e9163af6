"""Everything that can be broken on purpose, and fixed again.

What Slurm's own commands do needs no fault: ``on root@login scancel 7``, ``scontrol requeue 7``, ``scontrol hold 7``,
``scontrol update nodename=node2 state=drain reason=test``.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from minicluster import files, life, network, services
from minicluster.namespaces import freeze, root_of, run, signal_all, thaw
from minicluster.on import entering
from minicluster.plan import HOME_SIZE, LAPTOP, SWITCH, Host, Profile
from minicluster.problem import ClusterError
from minicluster.state import State

Action = Callable[[State, str], None]
"""Takes the state and the fault's target: a host or a user."""
Targets = Callable[[Profile], tuple[str, ...]]
"""The hosts or users of a profile's cluster that the fault can hit."""


class Fault(NamedTuple):
    """What happens, to what (the default target comes first; none if the profile has no use for it), and how it is
    caused and fixed."""

    text: str
    targets: Targets
    inject: Action
    heal: Action


def listing(profile: Profile) -> str:
    """One line for each fault of a profile."""
    known = {name: targets for name, fault in FAULTS.items() if (targets := fault.targets(profile))}
    lines = [f"  {name:20} {FAULTS[name].text}{_choice(targets)}" for name, targets in known.items()]
    return "\n".join(["cluster fault NAME [TARGET] [--for SECONDS], cluster heal [NAME [TARGET]]", *lines])


def _choice(targets: tuple[str, ...]) -> str:
    return f" [{'|'.join(targets)}]" if len(targets) > 1 else ""


def inject(state: State, name: str, arguments: list[str]) -> None:
    """Break something. Breaking it again changes nothing.

    Raises:
        ClusterError: there is no such fault or target.
    """
    fault, target = _find(state.profile, name, arguments)
    key = f"{name} {target}"
    if key in state.faults:
        return
    fault.inject(state, target)
    if fault.heal is not _nothing:
        state.faults.append(key)
        state.save()


def heal(state: State, name: str, arguments: list[str]) -> None:
    """Fix it; nothing happens if it is not broken."""
    fault, target = _find(state.profile, name, arguments)
    key = f"{name} {target}"
    if key not in state.faults:
        return
    fault.heal(state, target)
    state.faults.remove(key)
    state.save()


def heal_all(state: State) -> None:
    """Fix everything, the last fault first."""
    for key in reversed(state.faults[:]):
        name, target = key.split()
        heal(state, name, [target])


def _find(profile: Profile, name: str, arguments: list[str]) -> tuple[Fault, str]:
    fault = FAULTS.get(name)
    targets = fault.targets(profile) if fault is not None else ()
    if fault is None or not targets:
        raise ClusterError(f"there is no fault '{name}'", listing(profile))
    target = arguments[0] if arguments else targets[0]
    if target not in targets or len(arguments) > 1:
        raise ClusterError(f"{name} cannot hit '{' '.join(arguments)}'", f"Choose from {', '.join(targets)}.")
    return fault, target


# --- Network ----------------------------------------------------------------------------------------------------------


def _cable(change: Callable[[int, int, Host], None]) -> Action:
    return lambda state, host: change(state.pid(SWITCH.name), state.pid(host), state.profile.hosts[host])


def _reconnect(state: State, host: str) -> None:
    if host in state.running():  # a host that was switched off meanwhile gets new cables
        network.reconnect(state.pid(SWITCH.name), state.pid(host), state.profile.hosts[host])


# --- Hosts and daemons ------------------------------------------------------------------------------------------------


def _switch_on(state: State, node: str) -> None:
    life.start_host(state, node)
    life.await_nodes(state, (node,))


def _freeze(state: State, host: str) -> None:
    freeze(state.pid(host))


def _thaw(state: State, host: str) -> None:
    thaw(state.pid(host))


def _stop_controller(number: signal.Signals) -> Action:
    return lambda state, host: services.stop(state.pid(host), "slurmctld", number)


def _start_controller(state: State, host: str) -> None:
    services.start(state.pid(host), "slurmctld")
    life.await_nodes(state, ())


def _freeze_controller(number: signal.Signals) -> Action:
    return lambda state, host: signal_all(services.processes(state.pid(host), "slurmctld"), number)


_LOGIN_SSH = ("sshd", "sshd-otp")


def _stop_ssh(state: State, host: str) -> None:
    for name in _LOGIN_SSH:
        services.stop(state.pid(host), name)


def _start_ssh(state: State, host: str) -> None:
    for name in _LOGIN_SSH:
        services.start(state.pid(host), name)


def _restart_ssh(state: State, host: str) -> None:
    _stop_ssh(state, host)
    _start_ssh(state, host)


def _nothing(state: State, target: str) -> None:
    """The fault is over as soon as it happened."""


# --- SSH configuration ------------------------------------------------------------------------------------------------


def _reload_ssh(state: State) -> None:
    for name in _LOGIN_SSH:
        services.reload(state.pid(state.profile.login), name)


def _ssh_folder(state: State, host: str) -> Path:
    return state.folder / "hosts" / host / "ssh"


def _ssh_option(name: str, text: str) -> tuple[Action, Action]:
    """Lines that sshd on the login node reads before its own; they apply to new connections."""

    def add(state: State, host: str) -> None:
        (_ssh_folder(state, host) / f"sshd_config.d/{name}.conf").write_text(f"{text}\n")
        _reload_ssh(state)

    def remove(state: State, host: str) -> None:
        (_ssh_folder(state, host) / f"sshd_config.d/{name}.conf").unlink()
        _reload_ssh(state)

    return add, remove


_BANNER = """
 *****************************************************************
 *  Authorised use only. Maintenance on Tuesday, 8:00 to 12:00.   *
 *****************************************************************
"""


def _add_banner(state: State, host: str) -> None:
    (_ssh_folder(state, host) / "banner").write_text(_BANNER)
    _ssh_option("banner", "Banner /etc/ssh/banner")[0](state, host)


def _change_host_key(state: State, host: str) -> None:
    ssh = _ssh_folder(state, host)
    shutil.copytree(ssh, ssh.with_name("ssh-before"), ignore=shutil.ignore_patterns("users.oath*"))
    files.make_host_keys(ssh)
    _reload_ssh(state)


def _restore_host_key(state: State, host: str) -> None:
    ssh = _ssh_folder(state, host)
    before = ssh.with_name("ssh-before")
    for key in before.glob("ssh_host_*"):
        shutil.copy(key, ssh)
    shutil.rmtree(before)
    _reload_ssh(state)


def _node_account(line: str) -> Action:
    """PAM reads its files at each login."""

    def write(state: State, _: str) -> None:
        pam = state.folder / "etc/pam.d/sshd-node"
        pam.write_text(
            pam.read_text().replace("account  required pam_unix.so\n", f"account  required pam_unix.so\n{line}\n")
        )

    return write


def _open_nodes(state: State, _: str) -> None:
    shutil.copy(files.templates(state.profile, "etc")["pam.d/sshd-node"], state.folder / "etc/pam.d/sshd-node")


# --- What a user finds ------------------------------------------------------------------------------------------------


def _home(state: State, user: str) -> Path:
    """A home folder, as this computer sees it."""
    return root_of(state.pid(SWITCH.name)) / state.profile.homes.lstrip("/") / user


def _resize_home(state: State, user: str, size: str) -> None:
    run(entering(state.pid(SWITCH.name)), "mount", "-o", f"remount,size={size}", f"{state.profile.homes}/{user}")


_TRIES = 20


def _fill_home(state: State, user: str) -> None:
    """Shrink the file system to what is in it: full for everybody, without writing anything. If somebody writes between
    the measurement and the change, that fails; the next try finds more in it."""
    for tries_left in reversed(range(_TRIES)):
        used = os.statvfs(_home(state, user))
        try:
            _resize_home(state, user, str((used.f_blocks - used.f_bfree) * used.f_frsize))
        except ClusterError:
            if not tries_left:
                raise
        else:
            return


def _empty_home(state: State, user: str) -> None:
    _resize_home(state, user, HOME_SIZE)


def _use_up_quota(state: State, user: str) -> None:
    """The home folder accepts no more data, and the site's ``quota`` says why."""
    _fill_home(state, user)
    home = os.statvfs(_home(state, user))
    limit = _limit(state, user)
    limit.parent.mkdir(exist_ok=True)
    limit.write_text(f"{home.f_blocks * home.f_frsize // 1024}\n")


def _raise_quota(state: State, user: str) -> None:
    _limit(state, user).unlink()
    _empty_home(state, user)


def _software(state: State) -> Path:
    """The site's software, as this computer sees it."""
    return root_of(state.pid(SWITCH.name)) / state.profile.software.lstrip("/")


def _limit(state: State, user: str) -> Path:
    """The file with the user's limit in KiB; without it the site's usual limit holds."""
    return _software(state) / "quotas" / user


_NOISE = "echo 'Welcome! You have 3 new messages.'; echo 'conda: command not found' >&2\n"


def _bashrc(state: State, user: str) -> Path:
    return _home(state, user) / ".bashrc"


def _add_noise(state: State, user: str) -> None:
    file = _bashrc(state, user)
    file.write_text(_NOISE + file.read_text())


def _remove_noise(state: State, user: str) -> None:
    file = _bashrc(state, user)
    file.write_text(file.read_text().replace(_NOISE, ""))


def _rename_modules(libraries: tuple[str, ...], hide: bool) -> Action:
    """Hide or show the modules with one of these libraries. All hosts see the same folder, so once is enough."""

    def act(state: State, _: str) -> None:
        modules = [module for module in state.profile.modules if module.library in libraries]
        for seen in {(_software(state) / file).parent for module in modules for file in module.files}:
            hidden = seen.with_name(f".{seen.name}")
            source, target = (seen, hidden) if hide else (hidden, seen)
            if source.exists():
                source.rename(target)

    return act


_TENSORFLOW = ("tensorflow",)
_PYTHONS = ("", *_TENSORFLOW)
# A folder of links to all programs but Python covers /usr/bin: "command not found", as if none were installed.
_HIDE_PYTHON = """
mkdir /run/programs /run/without-python
mount --bind /usr/bin /run/programs
cp -rs /run/programs/. /run/without-python
rm /run/without-python/python*
mount --bind /run/without-python /usr/bin
"""
# A host that was switched off meanwhile came back with its Python. Programs that run keep the folders busy: --lazy.
_SHOW_PYTHON = """
[ -d /run/programs ] || exit 0
umount --lazy /usr/bin /run/programs
rm -r /run/without-python
rmdir /run/programs
"""


def _hide_python(state: State, target: str) -> None:
    _rename_modules(_PYTHONS, True)(state, target)
    for host in (state.profile.login, *state.profile.nodes):
        run(entering(state.pid(host)), "sh", "-ec", _HIDE_PYTHON)


def _show_python(state: State, target: str) -> None:
    _rename_modules(_PYTHONS, False)(state, target)
    for host in {state.profile.login, *state.profile.nodes} & set(state.running()):
        run(entering(state.pid(host)), "sh", "-ec", _SHOW_PYTHON)


def _any_host(profile: Profile) -> tuple[str, ...]:
    return (LAPTOP, profile.login, profile.controller, *profile.nodes)


def _on_login(profile: Profile) -> tuple[str, ...]:
    return (profile.login,)


def _on_controller(profile: Profile) -> tuple[str, ...]:
    return (profile.controller,)


def _nodes(profile: Profile) -> tuple[str, ...]:
    return profile.nodes


def _any_user(profile: Profile) -> tuple[str, ...]:
    return tuple(profile.users)


def _with_bash(profile: Profile) -> tuple[str, ...]:
    return tuple(user.name for user in profile.users.values() if user.shell.endswith("bash"))


def _with_quota(profile: Profile) -> tuple[str, ...]:
    return tuple(profile.users) if (profile.folder / "site/bin/quota").exists() else ()


def _site(_: Profile) -> tuple[str, ...]:
    return ("site",)


_CHACHA = "Ciphers chacha20-poly1305@openssh.com"

FAULTS: Mapping[str, Fault] = {
    "cut": Fault("a host's network goes silent", _any_host, _cable(network.cut), _reconnect),
    "unplug": Fault("a host's cables lose their carrier", _any_host, _cable(network.unplug), _reconnect),
    "freeze": Fault("all processes of a host are stopped, as in sleep", _any_host, _freeze, _thaw),
    "node-kill": Fault("power off", _nodes, life.kill_host, _switch_on),
    "sshd-restart": Fault("all sessions of the login node end, sshd starts again", _on_login, _restart_ssh, _nothing),
    "sshd-down": Fault("no sshd on the login node, all sessions end", _on_login, _stop_ssh, _start_ssh),
    "controller-down": Fault(
        "slurmctld is stopped, as for maintenance", _on_controller, _stop_controller(signal.SIGTERM), _start_controller
    ),
    "controller-crash": Fault(
        "slurmctld is killed; it forgets its last seconds, new jobs with them",
        _on_controller,
        _stop_controller(signal.SIGKILL),
        _start_controller,
    ),
    "controller-hangs": Fault(
        "slurmctld accepts connections and does not answer",
        _on_controller,
        _freeze_controller(signal.SIGSTOP),
        _freeze_controller(signal.SIGCONT),
    ),
    "host-key": Fault("the login node has other host keys", _on_login, _change_host_key, _restore_host_key),
    "banner": Fault("sshd sends a banner before the login", _on_login, _add_banner, _ssh_option("banner", "")[1]),
    "no-forwarding": Fault(
        "sshd on the login node forwards nothing", _on_login, *_ssh_option("no-forwarding", "AllowTcpForwarding no")
    ),
    "forward-ssh-only": Fault(
        "sshd on the login node forwards to port 22 only", _on_login, *_ssh_option("ssh-only", "PermitOpen *:22")
    ),
    "chacha-only": Fault(
        "sshd accepts only a cipher that few programs know", _on_login, *_ssh_option("chacha-only", _CHACHA)
    ),
    "nodes-closed": Fault("no login to nodes", _site, _node_account("account  required pam_deny.so"), _open_nodes),
    "nodes-need-job": Fault(
        "login to a node only with a job there (pam_slurm)",
        _site,
        _node_account("account  required /usr/lib/security/pam_slurm.so"),
        _open_nodes,
    ),
    "home-full": Fault("the home folder is full to the last byte", _any_user, _fill_home, _empty_home),
    "quota-full": Fault("the quota is used up: no room, and quota says so", _with_quota, _use_up_quota, _raise_quota),
    "noise": Fault("the user's .bashrc prints, even without a terminal", _with_bash, _add_noise, _remove_noise),
    "no-tensorflow": Fault(
        "the modules with TensorFlow are gone",
        _site,
        _rename_modules(_TENSORFLOW, True),
        _rename_modules(_TENSORFLOW, False),
    ),
    "no-python": Fault("no Python on login node and nodes, not even as a module", _site, _hide_python, _show_python),
}
"""The first target is the default."""
