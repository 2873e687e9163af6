"""Training scripts as runs: real child processes that log through ``clew_log``."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psutil

from clew_shared.journal.events import Log
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.verify import verify_run
from clew_shared.reading import read_run
from clew_shared.wire.messages import Pause, Refused, SetLive, Stop
from tests.integration.agent_runs import (
    Remote,
    agent,
    end,
    events,
    json_line,
    listing,
    running,
    states,
    trained,
    trainer_of,
    wait_for,
    write_spec,
)

SCRIPT = '''"""Counts down."""
# /// clew
# id = "countdown"
# params.ending = {default = "all", choices = ["all", "error", "asked", "deaf", "gone", "odd"]}
# metrics.loss = {better = "lower"}
# ///
import os, shutil, signal, subprocess, sys, time
import numpy as np
import clew_log

run = clew_log.start(ending="all")
if run.ending == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    print("child", child.pid, flush=True)
step = 0
while run.ending != "all" or step < 20:
    if clew_log.log(step, loss=np.float32(1) / (step + 1)) and run.ending == "asked":
        open(run.folder + "/weights.txt", "w").write("kept")
        print("cleaned up")
        break
    step += 1
    time.sleep(0.001)
    if run.ending == "error" and step == 30:
        raise ValueError("no more data")
    if run.ending == "odd" and step == 20:
        open(os.fsencode(run.folder) + b"/caf\\xe9", "w").write("x")
        break
    if run.ending == "gone" and step == 20:
        shutil.rmtree(os.path.dirname(run.folder))
        break
'''


def lab(tmp_path: Path) -> Path:
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "countdown.py").write_text(SCRIPT)
    return folder


def test_a_new_script_works_alone_and_as_a_run(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    assert agent("new", "straight-line", "--script", "--folder", folder).returncode == 0
    alone = subprocess.run([sys.executable, folder / "straight_line.py"], capture_output=True, text=True, check=True)
    assert alone.stdout.startswith("step 0  loss ")
    spec = write_spec(tmp_path, "straight-line", preset="tiny", params={"learning_rate": 0.5})
    done = agent("run", spec, "--exercises", folder, "--out", tmp_path / "run", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    result = json_line(done.stdout)
    assert (result["state"], result["steps"]) == ("FINISHED", 50)
    assert result["metrics"]["test_loss"] < 0.02
    history = read_run(tmp_path / "run")
    assert history.column("loss").steps.tolist() == list(range(50))
    assert history.column("test_loss").steps.tolist() == [10, 20, 30, 40, 50]
    assert states(events(tmp_path / "run"))[1:] == [RunState.PREPARING, RunState.RUNNING, RunState.FINISHED]
    assert verify_run(tmp_path / "run").findings == ()
    assert listing(tmp_path / "run") == ["journal.0001", "log.txt", "spec.toml"]


def test_a_script_that_raises_fails_with_its_last_line(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, "countdown", params={"ending": "error"})
    done = agent("run", spec, "--exercises", lab(tmp_path), "--out", tmp_path / "run")
    assert done.returncode == 1
    assert "countdown.py ended with exit code 1 at step 30: ValueError: no more data." in done.stderr
    assert "Traceback" in (tmp_path / "run" / "log.txt").read_text()
    assert read_run(tmp_path / "run").column("loss").steps.tolist() == list(range(30))


def test_a_script_that_removes_its_run_is_not_called_finished(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, "countdown", params={"ending": "gone"})
    done = agent("run", spec, "--exercises", lab(tmp_path), "--out", tmp_path / "run")
    assert done.returncode == 1
    assert "FINISHED" not in done.stdout
    assert not (tmp_path / "run" / "journal.0001").exists()


def test_a_file_whose_name_is_no_text_does_not_end_the_run(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, "countdown", params={"ending": "odd"})
    done = agent("run", spec, "--exercises", lab(tmp_path), "--out", tmp_path / "run", "--json")
    assert (done.returncode, json_line(done.stdout)["state"]) == (0, "FINISHED")
    assert verify_run(tmp_path / "run").findings == ()


def test_a_script_is_asked_to_end_and_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    folder, run = lab(tmp_path), tmp_path / "run"
    spec = write_spec(tmp_path, "countdown", run="asked", params={"ending": "asked"})
    with running("run", spec, "--exercises", folder, "--out", run) as process:
        wait_for(run, trained(10))
        with closing(Remote("asked")) as client:
            paused = client.ask(Pause(run="asked"))
            assert isinstance(paused, Refused)
            assert paused.problem.text == "A training script cannot be paused."
            assert isinstance(client.ask(SetLive(run="asked", name="ending", value=1)), Refused)
            client.ask(Stop(run="asked"))
        code, _, _ = end(process)
    assert (code, states(events(run))[-1]) == (130, RunState.STOPPED)
    assert (run / "log.txt").read_text().endswith("cleaned up\n")
    assert (run / "artifacts" / "weights.txt").read_text() == "kept"
    again = agent("run", "--resume", run, "--exercises", folder)
    assert (again.returncode, listing(run).count("journal.0002")) == (2, 0)
    assert "cannot go on where it ended" in again.stderr
    two = write_spec(tmp_path, "countdown", strategy="mirrored", devices=2)
    refused = agent("run", two, "--exercises", folder, "--out", tmp_path / "two")
    assert (refused.returncode, "mirrored" in refused.stderr) == (2, True)


def test_nothing_of_a_script_outlives_its_run(tmp_path: Path) -> None:
    folder = lab(tmp_path)
    for name in ("stopped", "killed"):
        run = tmp_path / name
        spec = write_spec(tmp_path, "countdown", run=name, params={"ending": "deaf"})
        with running("run", spec, "--exercises", folder, "--out", run) as process:
            found = wait_for(run, trained(10))
            script = psutil.Process(int((run / "log.txt").read_text().split()[1])).parent()
            assert script is not None
            family = [script, *script.children()]
            if name == "stopped":
                with closing(Remote(name)) as client:
                    client.ask(Stop(run=name, now=True))
            else:
                trainer_of(found).kill()
            end(process)
        assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in family)
        last = [event for event in events(run) if isinstance(event, Log) and "was killed" in event.text]
        assert states(events(run))[-1] is (RunState.STOPPED if name == "stopped" else RunState.FAILED)
        assert bool(last) == (name == "stopped")
