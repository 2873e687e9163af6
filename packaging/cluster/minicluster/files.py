"""What the hosts read: one /etc for the cluster and one for the laptop, keys, homes, the site's software."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from minicluster import memory, software
from minicluster.codes import oath_line
from minicluster.namespaces import run
from minicluster.plan import HOME_SIZE, LAPTOP, NEIGHBOUR_UID, SOURCES, Host, Profile, Role

KNOWN_SITES = "xdg/clew/sites"
"""The folder, below the laptop's own, with Clew's sites for all users of the laptop; ``on laptop`` names ``xdg``."""


def write_all(folder: Path, profile: Profile) -> None:
    """Fill the run folder, before any host starts."""
    shutil.copytree("/etc", folder / "etc", symlinks=True, ignore=_left_out)
    _write_cluster_etc(folder / "etc", profile)
    _replace(folder / "etc/slurm/memory.conf", memory.limits(folder))
    for host in profile.hosts.values():
        _write_host(folder / "hosts" / host.name, host, profile)
    _write_host_keys(folder, profile)
    _write_homes(folder, profile)
    _write_laptop(folder / "laptop", profile)
    _write_sites(folder / "laptop" / KNOWN_SITES, profile)
    _share_known_hosts(folder, profile)
    software.write(folder, profile)
    shutil.copy(SOURCES / "boot/init.sh", folder / "init.sh")


_NOT_WANTED = {"X11", "apt", "certs", "fonts", "systemd"}
"""Folders of /etc with many files that no machine of the cluster reads."""


def _left_out(directory: str, names: list[str]) -> list[str]:
    """Sockets and pipes cannot be copied."""
    return [name for name in names if name in _NOT_WANTED or _is_special(Path(directory, name))]


def _is_special(path: Path) -> bool:
    return not (path.is_symlink() or path.is_file() or path.is_dir())


def templates(profile: Profile, part: str) -> dict[str, Path]:
    """The templates of a part, ``etc`` for example, by their names in it: the profile's own and those of all."""
    folders = (SOURCES / "templates" / part, profile.folder / "templates" / part)
    return {str(file.relative_to(top)): file for top in folders for file in top.rglob("*") if file.is_file()}


# --- /etc -------------------------------------------------------------------------------------------------------------


def _hosts_file(profile: Profile, networks: Iterable[str]) -> str:
    lines = ["127.0.0.1 localhost"]
    for host in profile.hosts.values():
        known = [host.addresses[network] for network in networks if network in host.addresses]
        lines += [" ".join([known[-1], host.name, *host.aliases])] if known else []
    return "\n".join(lines) + "\n"


def _write_cluster_etc(etc: Path, profile: Profile) -> None:
    for name, source in templates(profile, "etc").items():
        _replace(etc / name, source.read_text(), source.stat().st_mode)
    _replace(etc / "hosts", _hosts_file(profile, ["wan", "lan"]))
    _replace(etc / "motd", "")
    _replace(etc / "slurm/cluster.conf", profile.slurm)
    for user in profile.users.values():
        home = f"{profile.homes}/{user.name}"
        _append(etc / "passwd", f"{user.name}:x:{user.uid}:{user.group.gid}::{home}:{user.shell}")
        _append(etc / "shadow", f"{user.name}:{user.password_hash}:19000:0:99999:7:::")
    for group in dict.fromkeys(user.group for user in profile.users.values()):
        _append(etc / "group", f"{group.name}:x:{group.gid}:")
    key = etc / "munge/munge.key"
    key.parent.mkdir(exist_ok=True)
    _replace(key, "", 0o600)
    key.write_bytes(os.urandom(128))
    munge = (etc / "passwd").read_text().partition("\nmunge:")[2].split(":")
    for path in (key, key.parent):
        os.chown(path, int(munge[1]), int(munge[2]))


def _replace(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a new file, even in place of a link or a read-only file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(mode & 0o777)


def _append(path: Path, line: str) -> None:
    text = path.read_text().rstrip("\n")
    path.write_text(f"{text}\n{line}\n")


# --- Hosts ------------------------------------------------------------------------------------------------------------


def _write_host(folder: Path, host: Host, profile: Profile) -> None:
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
    for source in templates(profile, "ssh").values():
        shutil.copy(source, folder / "ssh")
    if host.name == profile.login:
        _replace(folder / "ssh/users.oath", "".join(map(oath_line, profile.users.values())), 0o600)


def _write_host_keys(folder: Path, profile: Profile) -> None:
    for name in (profile.login, *profile.nodes):
        make_host_keys(folder / "hosts" / name / "ssh")


def make_host_keys(ssh: Path) -> None:
    """New keys for a host's sshd, in place of those that are there."""
    for kind in ("ed25519", "ecdsa"):
        make_key(ssh / f"ssh_host_{kind}_key", kind)


def fingerprints(folder: Path, host: str) -> list[str]:
    """The fingerprints of a host's keys, as a site publishes them; none if there is no cluster."""
    public = sorted((folder / "hosts" / host / "ssh").glob("ssh_host_*.pub"))
    digests = [hashlib.sha256(base64.b64decode(path.read_text().split()[1])).digest() for path in public]
    return [f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}" for digest in digests]


def make_key(path: Path, kind: str = "ed25519", comment: str = "mini cluster") -> None:
    """A key pair without passphrase."""
    path.unlink(missing_ok=True)
    run([], "ssh-keygen", "-q", "-t", kind, "-N", "", "-C", comment, "-f", str(path))


def _share_known_hosts(folder: Path, profile: Profile) -> None:
    """The cluster's hosts know each other's keys; the laptop knows all of them or none."""
    keys = {
        name: [path.read_text().rsplit(" ", 2)[0] for path in (folder / "hosts" / name / "ssh").glob("ssh_host_*.pub")]
        for name in (profile.login, *profile.nodes)
    }
    lines = {
        name: "".join(f"{','.join([name, *profile.hosts[name].addresses.values()])} {key}\n" for key in keys[name])
        for name in keys
    }
    for host in profile.hosts.values():
        if host.role is Role.MACHINE:
            _replace(folder / "hosts" / host.name / "ssh/ssh_known_hosts", "".join(lines.values()))
    if profile.known_hosts:
        door = f"[{profile.hosts[profile.login].addresses['wan']}]:{profile.ports['otp']}"
        otp = re.sub(r"^\S+", door, lines[profile.login], flags=re.MULTILINE)
        _replace(folder / "laptop/home/.ssh/known_hosts", "".join(lines.values()) + otp)


# --- Homes ------------------------------------------------------------------------------------------------------------


def _write_homes(folder: Path, profile: Profile) -> None:
    """The first content of the homes; the storage's first process copies it into the shared file system."""
    (folder / "laptop/home/.ssh").mkdir(parents=True, mode=0o700)
    laptop_key = folder / "laptop/home/.ssh/id_ed25519"
    make_key(laptop_key, comment="laptop")
    for user in profile.users.values():
        home = folder / "homes" / user.name
        shutil.copytree("/etc/skel", home)
        for name, source in templates(profile, "skel").items():
            _replace(home / name, source.read_text())
        (home / ".ssh").mkdir(mode=0o700)
        make_key(home / ".ssh/id_ed25519", comment=f"{user.name} in the cluster")
        known = [home / ".ssh/id_ed25519.pub", laptop_key.with_suffix(".pub")]
        _replace(home / ".ssh/authorized_keys", "".join(key.read_text() for key in known), 0o600)
    size = f"mode={profile.home_mode},size={HOME_SIZE}"
    users = (f"{user.name}:{user.uid}:{user.group.gid}:{size}\n" for user in profile.users.values())
    (folder / "users").write_text("".join(users))


def _write_laptop(laptop: Path, profile: Profile) -> None:
    """Files that cover this computer's own. Its root is the laptop's user, with another home: root's own files stay
    untouched."""
    etc, home = laptop / "etc", laptop / "home"
    passwd = Path("/etc/passwd").read_text()
    _replace(etc / "passwd", re.sub(r"^(root:[^:]*:0:0:[^:]*):[^:]*:", rf"\1:{home}:", passwd, flags=re.MULTILINE))
    _replace(etc / "group", Path("/etc/group").read_text())
    _append(etc / "passwd", f"neighbour:x:{NEIGHBOUR_UID}:{NEIGHBOUR_UID}::/:/bin/bash")
    _append(etc / "group", f"neighbour:x:{NEIGHBOUR_UID}:")
    _replace(etc / "hosts", _hosts_file(profile, ["wan"]))
    for name in ("nsswitch.conf", "resolv.conf"):
        _replace(etc / name, templates(profile, "etc")[name].read_text())
    _replace(home / ".ssh/config", templates(profile, "laptop")["ssh_config"].read_text(), 0o600)
    _replace(etc / "hostname", f"{LAPTOP}\n")


def _write_sites(target: Path, profile: Profile) -> None:
    """The cluster as Clew's sites. Without ``CLEW_DATA`` the cluster's hosts have no folder of data to name."""
    target.mkdir(parents=True)
    for source in sorted((profile.folder / "sites").glob("*.toml")):
        lines = source.read_text().splitlines(keepends=True)
        kept = [line for line in lines if os.environ.get("CLEW_DATA") or not line.startswith("data =")]
        (target / source.name).write_text("".join(kept))
