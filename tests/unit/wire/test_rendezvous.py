"""How an agent is found, and that there is one."""

from __future__ import annotations

import errno
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from clew_agent.node.host import processor
from clew_agent.wire.rendezvous import (
    address_path,
    agent_id,
    allow_folder,
    clear_keys,
    lock_path,
    node_places,
    publish,
    withdraw,
)
from clew_shared.base import operating_system
from clew_shared.base.file_lock import LockFile
from clew_shared.base.places import Places, find_places
from clew_shared.base.problem import ProblemError
from clew_shared.wire.channel import KeyPair, allow
from clew_shared.wire.messages import AgentAddress, read_address


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(home=tmp_path / "home", private=tmp_path / "private")


def address(places: Places) -> AgentAddress:
    return AgentAddress(
        agent=agent_id(places),
        host="h",
        boot="b",
        pid=1,
        generation=0,
        address="127.0.0.1",
        port=1,
        public_key="k",
        allow_list="a",
    )


def test_an_agent_has_the_same_id_for_one_home_and_allocation_only(places: Places, tmp_path: Path) -> None:
    other = Places(home=tmp_path / "other", private=places.private)
    ids = {agent_id(places), agent_id(places), agent_id(other), agent_id(places, "job 7")}
    assert len(ids) == 3


def test_an_address_is_read_back_and_its_generation_grows(places: Places) -> None:
    first = publish(places, address(places))
    second = publish(places, address(places))
    assert second.generation > first.generation > 0
    assert read_address(address_path(places, first.agent)) == second
    assert [path.name for path in places.agents.iterdir()] == [f"{first.agent}.json"]


def test_only_its_own_address_is_withdrawn(places: Places) -> None:
    first = publish(places, address(places))
    second = publish(places, address(places))
    keys = allow_folder(places, second.agent)
    allow(keys, "viewer", "k" * 40)
    withdraw(places, first)
    assert read_address(address_path(places, first.agent)) == second
    assert list(keys.iterdir())
    withdraw(places, second)
    withdraw(places, second)
    assert not address_path(places, first.agent).exists()
    assert not keys.exists()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"agent": 1}', b"\xff"])
def test_a_broken_address_is_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(content)
    assert read_address(tmp_path / "a.json") is None
    assert read_address(tmp_path / "absent.json") is None


def test_keys_of_an_earlier_agent_are_cleared(places: Places) -> None:
    folder = allow_folder(places, "a")
    allow(folder, "old", KeyPair.generate().public)
    (folder / "note.txt").write_text("stays")
    clear_keys(folder)
    assert [path.name for path in folder.iterdir()] == ["note.txt"]


def test_a_lock_is_held_by_one_and_free_again_after_release(tmp_path: Path) -> None:
    first, second = LockFile(tmp_path / "lock"), LockFile(tmp_path / "lock")
    assert first.acquire()
    assert not second.acquire()
    assert second.holder().startswith(f"process {os.getpid()} of {platform.node()} since 20")
    first.release()
    assert second.acquire()
    second.release()
    second.release()


def test_where_nothing_can_be_locked_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder on a file system without locks must not look like one that another agent serves."""

    def refuse(_handle: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(operating_system, "lock", refuse)
    with pytest.raises(ProblemError, match="No locks available"):
        LockFile(tmp_path / "lock").acquire()


def test_where_no_folder_of_ones_own_can_be_made_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    places = Places(home=tmp_path, private=tmp_path / "file" / "clew")
    with pytest.raises(ProblemError, match="cannot be made"):
        lock_path(places, "agent")


def test_the_nodes_own_folder_is_the_sessions_only_where_that_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert find_places().private == tmp_path / "clew"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "of-the-login-node"))
    assert tmp_path not in find_places().private.parents


@pytest.mark.unix("TMPDIR")
def test_all_processes_have_the_same_folder_also_while_its_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    program = """
import errno, os
def write(*_):
    raise OSError(errno.ENOSPC, "No space left on device")
os.write = write
from clew_shared.base.places import find_places
print(find_places().private)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str(find_places().private)
    assert find_places().private.parent == tmp_path


@pytest.mark.unix("a process that a signal ends")
def test_a_lock_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib; from clew_shared.base.file_lock import LockFile;"
        "lock = LockFile(pathlib.Path(sys.argv[1]))"
    )
    run = subprocess.run(
        [sys.executable, "-c", f"{code}; print(lock.acquire(), flush=True); os.kill(os.getpid(), 9)", tmp_path / "l"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout.strip(), run.returncode) == ("True", -9)
    lock = LockFile(tmp_path / "l")
    assert lock.acquire()
    lock.release()


def test_the_processor_is_named_in_words() -> None:
    number, _, words = processor().partition(" ")
    assert int(number) >= 1
    assert words == ("CPU core" if number == "1" else "CPU cores")


# --- A node whose usual folder refuses --------------------------------------------------------------------------------


def test_where_tmp_cannot_be_written_another_folder_of_the_node_is_taken_and_kept(tmp_path: Path) -> None:
    tmp, others = tmp_path / "tmp", (tmp_path / "shm", tmp_path / "var")
    tmp.write_text("no folder, so nothing can be written below it")
    others[1].mkdir()
    others[0].write_text("neither here")
    places = Places(home=tmp_path / "home", private=tmp / "clew")
    found = node_places(places, "a job's agent", others)
    assert found.private.is_relative_to(others[1])
    assert found.home == places.home
    lock_path(found, "a job's agent").touch()
    tmp.unlink()
    assert node_places(places, "a job's agent", others) == found, "its guards are looked for there"
    assert node_places(places, "another agent", others) == places


@pytest.mark.unix("a node of a site")
def test_a_node_without_a_folder_that_can_be_written_is_named_with_all_of_them(tmp_path: Path) -> None:
    for name in ("tmp", "shm"):
        (tmp_path / name).write_text("no folder")
    places = Places(home=tmp_path / "home", private=tmp_path / "tmp/clew")
    with pytest.raises(ProblemError, match=r"tmp/clew \(Not a directory\), .*shm/clew-\d+/clew \(Not a directory\)"):
        node_places(places, "a job's agent", (tmp_path / "shm",))
