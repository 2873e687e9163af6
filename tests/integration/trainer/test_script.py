"""Training scripts as runs: real child processes that log through ``clew_log``."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from clew_shared.journal.events import Files, Log, Seal
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
    assert not any(agent("new", *one, "--folder", folder).stderr for one in (["mine"], ["straight-line", "--script"]))
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


ENDINGS = {
    "lines": ("raise RuntimeError('CUDA error: assert\\nCompile with DSA')", ": RuntimeError: CUDA error: assert."),
    "note": ("e = ValueError('no match')\ne.add_note('x=1')\nraise e", ": ValueError: no match."),
    "group": ("raise ExceptionGroup('two', [ValueError('worker 0'), KeyError('b')])", "; first: ValueError: worker 0."),
    "chain": ("try:\n  {}['a']\nexcept KeyError:\n  raise RuntimeError('b')", ": RuntimeError: b."),
    "empty": ("raise ValueError", ": ValueError."),
    "words": (
        "try:\n  {}['a']\nexcept KeyError:\n  traceback.print_exc()\nsys.exit('no b')",
        ". It last printed: no b.",
    ),
    "code": ("print('epoch 9')\nsys.exit(3)", "ended with exit code 3 at step 1. It last printed: epoch 9."),
    "late": ("import atexit\natexit.register(print, 'bye')\nraise ValueError('a')", ": ValueError: a."),
    "early": ("run = None\nraise ValueError('a\\nb')", "at step 0: ValueError: a."),
    "long": ("raise ValueError('\\u00e9' * 100_000)", ": ValueError: \u00e9\u00e9"),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_reason_of_a_failure_is_the_exception_that_ended_the_script(ending: str, tmp_path: Path) -> None:
    body, words = ENDINGS[ending]
    begin = "" if ending == "early" else "clew_log.start()\nclew_log.log(0, loss=1)\n"
    done, _ = run_body(tmp_path, f"import sys, traceback, clew_log\n{begin}{body}\n")
    assert done.returncode == 1
    assert words in done.stderr


CHILDREN = {
    "fork": ("mp.get_context('fork').Process(target=work)", list(range(6)), ""),
    "spawn": ("mp.get_context('spawn').Process(target=work)", [], "was started by the script of a run"),
}


@pytest.mark.unix("fork")
@pytest.mark.parametrize("way", CHILDREN)
def test_what_a_child_process_logs_is_recorded_or_it_is_said_that_it_is_not(way: str, tmp_path: Path) -> None:
    child, kept, printed = CHILDREN[way]
    work = (
        "def work():\n    for s in range(6): clew_log.log(s, loss=s)\n    print('rate', clew_log.start(rate=0).rate)\n"
    )
    start = f"if __name__ == '__main__':\n    clew_log.start(rate=0)\n    p = {child}\n    p.start()\n    p.join()\n"
    done, folder = run_body(tmp_path, f"import multiprocessing as mp, clew_log\n{work}{start}", "params.rate.default=9")
    assert done.returncode == 0
    assert read_run(folder).column("loss").steps.tolist() == kept
    text = (folder / "log.txt").read_text()
    assert printed in text
    assert "rate 9" in text, "it has the run's hyperparameters"
    said = [event.text for event in events(folder) if isinstance(event, Log) and event.level == "warning"]
    assert [text for text in said if "what a program logs that the script starts is only printed" in text] == said
    assert bool(said) == (not kept)


@pytest.mark.unix("fork")
def test_a_process_and_its_copy_log_at_the_same_time_without_waiting_for_each_other(tmp_path: Path) -> None:
    work = "def work():\n    for s in range(30_000):\n        if clew_log.log(s, loss=s): break\n"
    start = "clew_log.start()\np = mp.get_context('fork').Process(target=work)\np.start()\nwork()\np.join()\n"
    done, folder = run_body(tmp_path, f"import multiprocessing as mp, clew_log\n{work}{start}")
    assert done.returncode == 0
    assert len(read_run(folder).column("loss").steps) == 30_000, "of the first one that logs"


def test_a_clew_log_of_an_older_version_beside_a_script_is_not_the_one_that_logs(tmp_path: Path) -> None:
    """``clew-agent new`` copies it there, and Clew's own changes."""
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "clew_log.py").write_text("raise SystemExit('old')")
    (tmp_path / "lab" / "helper.py").write_text("import os\nleft = os.environ.get('PYTHONSAFEPATH')")
    done, folder = run_body(tmp_path, "import clew_log, helper\nclew_log.log(0, loss=1)\nprint('safe', helper.left)")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(read_run(folder).column("loss").steps) == 1
    assert "safe None" in (folder / "log.txt").read_text()
    assert not (folder / "peers").exists()


HOSTILE = {
    "junk": ("write(b'\\xff\\0 no message\\n')", 0, "not a clew_log message"),
    "endless": ("write(b'x' * 100_000)", 1, "a message of more than 64 KiB"),
    "gone": ("os.remove(path)", 0, ""),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_whatever_a_script_does_to_its_log_its_run_ends_with_a_reason(kind: str, tmp_path: Path) -> None:
    does, code, words = HOSTILE[kind]
    body = "import os\npath = os.environ['CLEW_LOG']\nimport clew_log\nclew_log.log(0, loss=1)\n"
    body += f"def write(data):\n    with open(path, 'ab') as file: file.write(data)\n{does}\nclew_log.log(1, loss=1)\n"
    done, folder = run_body(tmp_path, body)
    assert done.returncode == code, done.stderr
    assert words in done.stderr + " ".join(event.text for event in events(folder) if isinstance(event, Log))
    assert not (folder / "peers").exists()


@pytest.mark.unix("paths of any length, FIFOs")
def test_whatever_a_script_leaves_its_run_ends_and_what_is_not_recorded_is_named(tmp_path: Path) -> None:
    nest = "for _ in range(17):\n    os.mkdir('d' * 250)\n    os.chdir('d' * 250)\nopen('weights', 'w').write('x')\n"
    leave = "os.chdir(run.folder)\nos.mkfifo('fifo')\nopen('kept', 'w').write('x')\n"
    done, folder = run_body(
        tmp_path, f"import os, clew_log\nrun = clew_log.start()\nclew_log.log(0, loss=1)\n{leave}{nest}"
    )
    assert (done.returncode, states(events(folder))[-1]) == (0, RunState.FINISHED)
    assert isinstance(list(events(folder))[-1], Seal)
    (words,) = (event.text for event in events(folder) if isinstance(event, Log) and event.level == "warning")
    assert words.startswith("Not recorded of the files that the run leaves: ")
    assert "(File name too long)" in words
    assert "artifacts/fifo (no regular file)" in words
    kept = [record.path for event in events(folder) if isinstance(event, Files) for record in event.files]
    assert kept == ["artifacts/kept", "log.txt", "spec.toml"]
    subprocess.run(["rm", "-rf", folder], check=True)


def run_body(tmp_path: Path, body: str, header: str = "") -> tuple[subprocess.CompletedProcess[str], Path]:
    """A run of a script with this body, and its folder."""
    folder = tmp_path / "lab"
    folder.mkdir(exist_ok=True)
    lines = ["# /// clew", '# id = "own"', "# metrics.loss = {}", f"# {header}"]
    (folder / "own.py").write_text("\n".join([*lines, "# ///", body]))
    spec = write_spec(tmp_path, "own")
    return agent("run", spec, "--exercises", folder, "--out", tmp_path / "run"), tmp_path / "run"


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
