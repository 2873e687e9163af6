"""``clew try`` on this computer: whatever the process that answers does, a person gets an answer or a sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from clew_gui.commands.main import main
from clew_shared.journal.files import JournalWriter
from clew_shared.journal.lifecycle import RunState
from tests.unit.runs import begin_run, describe, end_run

RUBBISH = """
import json, os, sys
print("an exercise printed this")
print(json.dumps(dict(t="tried", run="r", step=int(os.environ["TF_NUM_INTRAOP_THREADS"]), probabilities=[0.25, 0.75])))
"""


@pytest.fixture
def tried(home: Path) -> str:
    folder = begin_run(home / "runs" / "aa11-first")
    with JournalWriter.create(folder.journal(1)) as writer:
        writer.append(describe(folder))
        end_run(folder, writer, RunState.FINISHED)
    return folder.path.name


def answering(monkeypatch: pytest.MonkeyPatch, program: str, within_s: float = 180.0) -> None:
    monkeypatch.setattr("clew_gui.commands.run.try_run.agent_command", lambda *_: [sys.executable, "-c", program])
    monkeypatch.setattr("clew_gui.commands.run.try_run.TRY_WITHIN_S", within_s)


def test_an_answer_among_other_lines_is_found_and_one_thread_computes_it(
    tried: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, RUBBISH)
    assert main(["try", tried, "--sample", "1"]) == 0
    assert "after 1 steps: the image is 1, with 75.00 %" in capsys.readouterr().out


def test_a_network_that_does_not_answer_is_given_up_with_a_sentence(
    tried: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, "import time; time.sleep(600)", within_s=0.2)
    assert main(["try", tried, "--sample", "1"]) == 2
    assert "The network did not answer within 0 s. The first time" in capsys.readouterr().err


def test_what_the_process_said_at_its_end_is_told(
    tried: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, "raise SystemExit('no room')")
    assert main(["try", tried, "--sample", "1"]) == 2
    assert "It said:\nno room" in capsys.readouterr().err
