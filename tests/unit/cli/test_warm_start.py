"""Trainers of several runs of the command line where no process can be copied: each waits while another trains."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew_agent.cli import runs
from clew_agent.cli.runs import WarmStart
from clew_agent.processes import guard, standby_process
from clew_shared.base import operating_system
from clew_shared.journal.run_folder import RunFolder
from tests.integration.agents import wait_for

TRAINER = """
import json, sys
line = sys.stdin.readline()
if line:
    request = json.loads(line)
    open(request["folder"] + "/journal.0001", "w").write("waited")
"""
FRESH = "import sys; open(sys.argv[1], 'w').write('fresh')"


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[WarmStart]:
    def command(folder: Path, attempt: int, exercises: Path | None) -> list[str]:
        return [sys.executable, "-c", FRESH, str(RunFolder(folder).journal(attempt))]

    monkeypatch.setattr(runs, "may_fork", lambda _: False)
    monkeypatch.setattr(standby_process, "TRAINER", (sys.executable, "-c", TRAINER))
    monkeypatch.setattr(guard, "trainer_command", command)
    start = WarmStart()
    yield start
    start.close()


@pytest.mark.parametrize(("cores", "how"), [(2, ["fresh", "fresh", "fresh"]), (4, ["fresh", "waited", "waited"])])
def test_from_the_second_run_on_a_trainer_has_waited_if_there_are_cores_to_spare(
    start: WarmStart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, how: list[str]
) -> None:
    monkeypatch.setattr(operating_system, "usable_cores", lambda: cores)
    found = []
    for number in range(3):
        folder = RunFolder(tmp_path / str(number))
        folder.path.mkdir()
        trainer = start(folder, 1, None)
        wait_for(lambda trainer=trainer: trainer.poll() is not None, "its end")  # type: ignore[misc]
        found.append(folder.journal(1).read_text())
    assert found == how
