"""What must be installed, and how it is installed without starting anything on this computer."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from minicluster.problem import ClusterError

_NEEDED: Mapping[str, str] = {
    "/usr/sbin/sshd": "openssh-server",
    "/usr/bin/ssh": "openssh-client",
    "/usr/sbin/munged": "munge",
    "/usr/sbin/slurmctld": "slurmctld",
    "/usr/sbin/slurmd": "slurmd",
    "/usr/bin/sbatch": "slurm-client",
    "/usr/bin/qsub": "slurm-wlm-torque",
    "/usr/share/modules/init/bash": "environment-modules",
    "/usr/lib/*/security/pam_oath.so": "libpam-oath",
    "/usr/lib/security/pam_slurm.so": "libpam-slurm",
    "/usr/sbin/ip": "iproute2",
    "/usr/bin/nsenter": "util-linux",
    "/usr/bin/ps": "procps",
    "/usr/bin/tcsh": "tcsh",
    "/usr/bin/setfacl": "acl",
}
"""A file of each package; it does not matter who installed the file."""

_SERVICES = {
    "openssh-server": ("ssh.service", "ssh.socket"),
    "munge": ("munge.service",),
    "slurmctld": ("slurmctld.service",),
    "slurmd": ("slurmd.service",),
}
_POLICY = Path("/usr/sbin/policy-rc.d")
_INSTALL_LIMIT_S = 900.0
"""A slow mirror may take minutes; nothing else depends on this limit."""


def missing_packages(root: Path = Path("/")) -> list[str]:
    """The Debian packages whose file is missing."""
    return [package for file, package in _NEEDED.items() if not any(root.glob(file.lstrip("/")))]


def can_install() -> bool:
    """Whether this process may install packages."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(packages: list[str]) -> None:
    """Install with apt; no service starts, neither now nor when this computer starts again.

    Raises:
        ClusterError: apt is missing, not allowed or fails.
    """
    advice = "apt-get install --no-install-recommends " + " ".join(packages)
    if not can_install():
        raise ClusterError(f"packages are missing: {', '.join(packages)}", f"As administrator: {advice}")
    with _no_services():
        for command in ("update", "install --no-install-recommends -y " + " ".join(packages)):
            _apt(command, advice)
    _keep_stopped(packages)


def _apt(command: str, advice: str) -> None:
    arguments = ["apt-get", "-qq", "-o", "Acquire::Retries=3", *command.split()]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        arguments,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_INSTALL_LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        raise ClusterError(f"apt-get {command.split()[0]} failed: {done.stderr.strip()[-600:]}", f"Try: {advice}")


@contextmanager
def _no_services() -> Iterator[None]:
    """Debian's maintainer scripts ask policy-rc.d before they start a service; 101 means no."""
    aside = _POLICY.with_name("policy-rc.d.before-clew-cluster")
    if _POLICY.exists():
        _POLICY.rename(aside)
    try:
        _POLICY.write_text("#!/bin/sh\nexit 101\n")
        _POLICY.chmod(0o755)
        yield
    finally:
        _POLICY.unlink()
        if aside.exists():
            aside.rename(_POLICY)


def _keep_stopped(packages: list[str]) -> None:
    """Keep the services of these packages from starting with this computer. They were not there before."""
    units = [unit for package in packages for unit in _SERVICES.get(package, ())]
    if units and shutil.which("systemctl"):
        subprocess.run(["systemctl", "disable", *units], capture_output=True, check=False)
