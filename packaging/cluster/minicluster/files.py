"""What the hosts read: one /etc for the cluster and one for the laptop, keys, homes, the site's software."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from minicluster import memory, software
from minicluster.codes import oath_line
from minicluster.namespaces import run
from minicluster.plan import HOME_SIZE, HOSTS, LAPTOP, LOGIN, NEIGHBOUR_UID, NODES, SOURCES, USERS, Host, Role

TEMPLATES = SOURCES / "templates"
KNOWN_SITES = "xdg/clew/sites"
"""Where the laptop has Clew's sites for all its users, below its own folder; ``on laptop`` names ``xdg``."""


def write_all(folder: Path) -> None:
    """Fill the run folder, before any host starts."""
    shutil.copytree("/etc", folder / "etc", symlinks=True, ignore=_left_out)
    _write_cluster_etc(folder / "etc")
    _replace(folder / "etc/slurm/memory.conf", memory.limits(folder))
    for host in HOSTS.values():
        _write_host(folder / "hosts" / host.name, host)
    _write_host_keys(folder)
    _write_homes(folder)
    _write_laptop(folder / "laptop")
    _write_sites(folder / "laptop" / KNOWN_SITES)
    _share_known_hosts(folder)
    software.write(folder)
    shutil.copy(SOURCES / "boot/init.sh", folder / "init.sh")


_NOT_WANTED = {"X11", "apt", "certs", "fonts", "systemd"}
"""Folders of /etc with many files that no machine of the cluster reads."""


def _left_out(directory: str, names: list[str]) -> list[str]:
    """Sockets and pipes cannot be copied."""
    return [name for name in names if name in _NOT_WANTED or _is_special(Path(directory, name))]


def _is_special(path: Path) -> bool:
    return not (path.is_symlink() or path.is_file() or path.is_dir())


# --- /etc -------------------------------------------------------------------------------------------------------------


def _hosts_file(networks: Iterable[str]) -> str:
    lines = ["127.0.0.1 localhost"]
    for host in HOSTS.values():
        known = [host.addresses[network] for network in networks if network in host.addresses]
        lines += [f"{known[-1]} {host.name} {_cray_name(host.name)}".rstrip()] if known else []
    return "\n".join(lines) + "\n"


def _cray_name(host: str) -> str:
    """Blue Waters' name of a node."""
    return f"nid{NODES.index(host) + 1:05}" if host in NODES else ""


def _write_cluster_etc(etc: Path) -> None:
    for source in (TEMPLATES / "etc").rglob("*"):
        if source.is_file():
            _replace(etc / source.relative_to(TEMPLATES / "etc"), source.read_text(), source.stat().st_mode)
    _replace(etc / "hosts", _hosts_file(["wan", "lan"]))
    _replace(etc / "motd", "")
    for user in USERS.values():
        _append(etc / "passwd", f"{user.name}:x:{user.uid}:{user.uid}::/home/{user.name}:/bin/bash")
        _append(etc / "group", f"{user.name}:x:{user.uid}:")
        _append(etc / "shadow", f"{user.name}:{user.password_hash}:19000:0:99999:7:::")
    key = etc / "munge/munge.key"
    key.parent.mkdir(exist_ok=True)
    _replace(key, "", 0o600)
    key.write_bytes(os.urandom(128))
    munge = (etc / "passwd").read_text().partition("\nmunge:")[2].split(":")
    for path in (key, key.parent):
        os.chown(path, int(munge[1]), int(munge[2]))


def _replace(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file anew, also where a link or a read-only file stands."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(mode & 0o777)


def _append(path: Path, line: str) -> None:
    text = path.read_text().rstrip("\n")
    path.write_text(f"{text}\n{line}\n")


# --- Hosts ------------------------------------------------------------------------------------------------------------


def _write_host(folder: Path, host: Host) -> None:
    for name in ("ssh/sshd_config.d", "log", "spool", "tmp"):
        (folder / name).mkdir(parents=True)
    (folder / "tmp").chmod(0o1777)
    if host.role is not Role.MACHINE:
        return
    for name in ("slurmctld", "slurmd"):
        (folder / "spool" / name).mkdir()
    slurm = next(line.split(":") for line in Path("/etc/passwd").read_text().splitlines() if line.startswith("slurm:"))
    for name in ("log", "spool/slurmctld"):
        os.chown(folder / name, int(slurm[2]), int(slurm[3]))
    for source in (TEMPLATES / "ssh").iterdir():
        shutil.copy(source, folder / "ssh")
    if host == LOGIN:
        _replace(folder / "ssh/users.oath", "".join(map(oath_line, USERS.values())), 0o600)


def _write_host_keys(folder: Path) -> None:
    for host in (LOGIN, *(HOSTS[name] for name in NODES)):
        make_host_keys(folder / "hosts" / host.name / "ssh")


def make_host_keys(ssh: Path) -> None:
    """New keys for a host's sshd, in place of those that are there."""
    for kind in ("ed25519", "ecdsa"):
        make_key(ssh / f"ssh_host_{kind}_key", kind)


def make_key(path: Path, kind: str = "ed25519", comment: str = "mini cluster") -> None:
    """A key pair without passphrase."""
    path.unlink(missing_ok=True)
    run([], "ssh-keygen", "-q", "-t", kind, "-N", "", "-C", comment, "-f", str(path))


def _share_known_hosts(folder: Path) -> None:
    """The laptop knows the login node, the cluster's hosts know each other."""
    keys = {
        name: [path.read_text().rsplit(" ", 2)[0] for path in (folder / "hosts" / name / "ssh").glob("ssh_host_*.pub")]
        for name in (LOGIN.name, *NODES)
    }
    lines = {
        name: "".join(f"{','.join([name, *HOSTS[name].addresses.values()])} {key}\n" for key in keys[name])
        for name in keys
    }
    for host in HOSTS.values():
        if host.role is Role.MACHINE:
            _replace(folder / "hosts" / host.name / "ssh/ssh_known_hosts", "".join(lines.values()))
    otp = re.sub(r"^\S+", "[10.77.0.1]:2222", lines[LOGIN.name], flags=re.MULTILINE)
    _replace(folder / "laptop/home/.ssh/known_hosts", "".join(lines.values()) + otp)


# --- Homes ------------------------------------------------------------------------------------------------------------


def _write_homes(folder: Path) -> None:
    """What homes begin with; the storage's first process copies it into the shared file system."""
    (folder / "laptop/home/.ssh").mkdir(parents=True, mode=0o700)
    laptop_key = folder / "laptop/home/.ssh/id_ed25519"
    make_key(laptop_key, comment="laptop")
    for user in USERS.values():
        home = folder / "homes" / user.name
        shutil.copytree("/etc/skel", home)
        (home / ".ssh").mkdir(mode=0o700)
        make_key(home / ".ssh/id_ed25519", comment=f"{user.name} in the cluster")
        known = [home / ".ssh/id_ed25519.pub", laptop_key.with_suffix(".pub")]
        _replace(home / ".ssh/authorized_keys", "".join(key.read_text() for key in known), 0o600)
    users = (f"{user.name}:{user.uid}:{HOME_SIZE}\n" for user in USERS.values())
    (folder / "users").write_text("".join(users))


def _write_laptop(laptop: Path) -> None:
    """Files that cover this computer's. Its root is the laptop's user, with another home: what is root's own stays
    untouched."""
    etc, home = laptop / "etc", laptop / "home"
    passwd = Path("/etc/passwd").read_text()
    _replace(etc / "passwd", re.sub(r"^(root:[^:]*:0:0:[^:]*):[^:]*:", rf"\1:{home}:", passwd, flags=re.MULTILINE))
    _replace(etc / "group", Path("/etc/group").read_text())
    _append(etc / "passwd", f"neighbour:x:{NEIGHBOUR_UID}:{NEIGHBOUR_UID}::/:/bin/bash")
    _append(etc / "group", f"neighbour:x:{NEIGHBOUR_UID}:")
    _replace(etc / "hosts", _hosts_file(["wan"]))
    for name in ("nsswitch.conf", "resolv.conf"):
        _replace(etc / name, (TEMPLATES / "etc" / name).read_text())
    _replace(home / ".ssh/config", (TEMPLATES / "laptop/ssh_config").read_text(), 0o600)
    _replace(etc / "hostname", f"{LAPTOP.name}\n")


def _write_sites(target: Path) -> None:
    """The cluster as Clew's sites. Without ``CLEW_DATA`` the cluster's hosts have no folder of data to name."""
    target.mkdir(parents=True)
    for source in sorted((SOURCES / "sites").glob("*.toml")):
        lines = source.read_text().splitlines(keepends=True)
        kept = [line for line in lines if os.environ.get("CLEW_DATA") or not line.startswith("data =")]
        (target / source.name).write_text("".join(kept))
