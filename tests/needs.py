"""Which tests can run here: a mark names what a test needs beyond Python, and the end of the output what is missing.

``@pytest.mark.unix("a FIFO")`` names what only Linux and macOS have: on Windows such a test is left out, and counted.

``@pytest.mark.needs("real-mnist")`` deselects a test if that need is missing, and the last lines of the output give
the need, the number of tests and how to provide it. With ``CLEW_DEMAND_ALL=1`` a run that left out or skipped anything
fails, unless only a GPU was missing.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from clew_shared.catalogue import known_sets

GPU, UNIX, MEMORY_GROUP = "gpu", "unix", "memory-group"
_GROUP_ENDS_S = 10.0
"""Seconds until the kernel has removed processes that have ended."""


class Need(NamedTuple):
    """One thing that a machine may lack: how to check for it, and what a person can do to have it."""

    present: Callable[[], bool]
    advice: str


def _has_real_mnist() -> bool:
    folder = os.environ.get("CLEW_DATA")
    return bool(folder) and any((Path(str(folder)) / name).is_file() for name in known_sets()["mnist"].files)


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _can_mount() -> bool:
    """Whether this process may make file systems: root in many containers may not."""
    with tempfile.TemporaryDirectory() as folder:
        command = f"mount -t tmpfs -o size=64k tmpfs {folder} && umount {folder}"
        return _is_root() and subprocess.run(["sh", "-c", command], capture_output=True, check=False).returncode == 0


@functools.cache
def _can_freeze() -> bool:
    """Whether this process may make a file system in a file, and freeze it."""
    with tempfile.TemporaryDirectory() as folder:
        command = (
            f"cd {folder} && mkdir on && truncate -s 1M image && mkfs.ext4 -q image && mount -o loop image on && "
            "{ fsfreeze --freeze on && fsfreeze --unfreeze on; umount on; }"
        )
        return _is_root() and subprocess.run(["sh", "-c", command], capture_output=True, check=False).returncode == 0


@functools.cache
def _has_sshd() -> bool:
    """OpenSSH's server with one-time codes, in a mount namespace of its own (tests/integration/ssh/servers.py)."""
    if "CLEW_TEST_SSHD" in os.environ:  # given to a system that can start none
        return True
    oath = any(any(path.glob("*/security/pam_oath.so")) for path in (Path("/lib"), Path("/usr/lib")))
    return _can_mount() and all(map(shutil.which, ("sshd", "ssh-agent", "setpriv", "unshare", "openssl"))) and oath


@functools.cache
def _can_have_cluster() -> bool:
    """Whether the mini cluster can run here; it does not matter if it must install packages first."""
    program = Path(__file__).resolve().parents[1] / "packaging/cluster/cluster"
    return (
        sys.platform == "linux" and subprocess.run([program, "check"], capture_output=True, check=False).returncode == 0
    )


@contextmanager
def memory_group(limit: int) -> Iterator[Path]:
    """A control group in which processes may have ``limit`` bytes. Raises ``OSError`` where none can be made."""
    older = Path("/sys/fs/cgroup/memory")
    group = Path(tempfile.mkdtemp(prefix="clew-test-", dir=older if older.is_dir() else older.parent))
    try:
        (group / ("memory.limit_in_bytes" if older.is_dir() else "memory.max")).write_text(str(limit))
        yield group
    finally:
        deadline = time.monotonic() + _GROUP_ENDS_S
        while group.exists() and time.monotonic() < deadline:
            with suppress(OSError):  # its last process is being reaped
                group.rmdir()


def _can_limit_memory() -> bool:
    try:
        with memory_group(1 << 30) as group:
            return (group / "cgroup.procs").exists()
    except OSError:
        return False


def _is_quick_system() -> bool:
    """Wine takes tens of times as long as a system itself to open, write and rename a file."""
    return sys.platform != "win32" or not hasattr(ctypes.windll.ntdll, "wine_get_version")


def _has_venv() -> bool:
    """The embeddable Python of Windows has neither the module nor installed packages."""
    return all(importlib.util.find_spec(name) is not None for name in ("venv", "ensurepip"))


NEEDS: Mapping[str, Need] = {
    "real-mnist": Need(_has_real_mnist, "point CLEW_DATA at a folder with mnist.npz, mnist.pkl.gz or IDX files"),
    "root": Need(_is_root, "run the tests as root, in a container for example"),
    "small-disk": Need(_can_mount, "run the tests as root where mount(8) is allowed"),
    "slow-disk": Need(_can_freeze, "run the tests as root where loop devices can be mounted and frozen"),
    "ssh": Need(lambda: shutil.which("ssh") is not None, "install openssh-client"),
    "sshd": Need(_has_sshd, "run the tests as root where mount(8) is allowed, with openssh-server and libpam-oath"),
    "cluster": Need(
        _can_have_cluster, "run the tests as root on Debian 12; packaging/cluster/cluster check says what is missing"
    ),
    UNIX: Need(lambda: sys.platform != "win32", "run the tests on Linux or macOS"),
    MEMORY_GROUP: Need(_can_limit_memory, "run the tests as root where control groups can be made"),
    "quick-system": Need(_is_quick_system, "run the tests without Wine"),
    "venv": Need(_has_venv, "run the tests with a Python that can make environments, into which Clew was installed"),
    "fork": Need(lambda: hasattr(os, "fork"), "run the tests on Linux"),
    GPU: Need(lambda: Path("/dev/nvidiactl").exists(), "run the tests on a machine with an NVIDIA GPU"),
}


OF_THE_MACHINE = (GPU, MEMORY_GROUP)
"""Needs that nobody can install: a device, and a kernel that limits memory."""


def needs_of(item: pytest.Item) -> list[str]:
    """The needs of one test."""
    unix = [UNIX] if item.get_closest_marker(UNIX) is not None else []
    return [str(name) for mark in item.iter_markers("needs") for name in mark.args] + unix


def missing_needs(item: pytest.Item) -> list[str]:
    """The needs of one test that this machine lacks; an unknown name ends the run."""
    wanted = needs_of(item)
    for name in wanted:
        if name not in NEEDS:
            raise pytest.UsageError(f"{item.nodeid} needs '{name}', but tests/needs.py knows only {', '.join(NEEDS)}")
    return [name for name in wanted if not NEEDS[name].present()]


class Selection:
    """Plugin object: deselects tests that cannot run, counts them, and makes a demanding run fail because of them."""

    def __init__(self, demand_all: bool) -> None:
        self._demand_all = demand_all
        self._left_out: Counter[str] = Counter()
        self._skips: list[str] = []

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Take out the tests whose needs are missing."""
        lacking = {item: missing_needs(item) for item in items}
        for needs in lacking.values():
            self._left_out.update(needs)
        config.hook.pytest_deselected(items=[item for item in items if lacking[item]])
        items[:] = [item for item in items if not lacking[item]]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember skips. pytest also reports expected failures as skipped, but those did run."""
        if report.skipped and not hasattr(report, "wasxfail"):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self._skips.append(f"{report.nodeid}: {reason}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Under xdist a worker hands its counts to the controller; a demanding run that left something out fails."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["left_out"] = dict(self._left_out)
        elif self._complaints() and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Every xdist worker collects all tests, so their counts are equal and must not be added."""
        self._left_out |= Counter(getattr(node, "workeroutput", {}).get("left_out", {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name what was left out, why, and how to provide it."""
        for need, count in sorted(self._left_out.items()):
            tests = "1 test" if count == 1 else f"{count} tests"
            terminalreporter.write_line(f"left out: {tests} that need '{need}' ({NEEDS[need].advice})")
        for complaint in self._complaints():
            terminalreporter.write_line(f"CLEW_DEMAND_ALL: {complaint}", red=True)

    def _complaints(self) -> list[str]:
        if not self._demand_all:
            return []
        missing = [f"the need '{need}' is missing" for need in sorted(self._left_out) if need not in OF_THE_MACHINE]
        return missing + [f"skipped {skip}" for skip in self._skips if "gpu" not in skip.lower()]
