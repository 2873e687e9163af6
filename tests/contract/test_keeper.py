"""The keeper in the job script: starts the agent again, ends what it started, and says how the job ended.

The same in bash, which schedulers run it with, and in dash, which knows nothing but POSIX.
"""

from __future__ import annotations

import json
import shutil
import signal
import string
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew_agent.node.allocation import Allocation as JobsWord
from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.schedulers.job import SCHEDULER_LOG, JobRef
from clew_gui.schedulers.none import NoScheduler
from clew_gui.schedulers.state import JobState, Phase
from clew_gui.schedulers.verdict import ExitRecord, state_of_record
from clew_gui.schedulers.words import describe
from tests.contract.joblab import BOUND_S, JobLab, send

pytestmark = pytest.mark.unix("a node of a site, where jobs are shell scripts")

SHELLS = [shell for shell in ("bash", "dash") if shutil.which(shell)]


@pytest.fixture(params=SHELLS)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> JobLab:
    return JobLab(tmp_path, request.param)


def ended(record: ExitRecord) -> JobState:
    """What the laptop makes of the record."""
    state = state_of_record(record, "7")
    assert state is not None
    return state


def is_gone(pid: str) -> bool:
    try:
        return bool(psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def ends(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + BOUND_S
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)
    return true()


SERVED = ': >"$CLEW_JOB_FOLDER/served.$CLEW_JOB_RESTART"'
"""What an agent leaves that has served."""


# --- It starts the agent, and starts it again -------------------------------------------------------------------------


def test_an_agent_that_ends_by_itself_ends_the_job(lab: JobLab) -> None:
    lab.program("clew-agent", 'echo "$@" >>started')
    assert lab.run(lab.script()) == 0
    assert lab.wait_for("started") == ["serve"]
    record = lab.record()
    assert (record.state, record.why, record.code, record.starts) == ("ended", "finished", 0, 1)
    assert ended(record).phase is Phase.COMPLETED


def test_an_agent_that_crashes_is_started_again_after_growing_pauses(lab: JobLab) -> None:
    lab.program("clew-agent", f'{SERVED}\necho x >>started\n[ "$(wc -l <started)" -gt 3 ]')
    assert lab.run(lab.script()) == 0
    assert lab.slept() == ["1", "2", "4", "1"], "and once before it says that the agent ended by itself"
    assert (lab.record().starts, lab.record().why) == (4, "finished")
    assert "exit code 1; it starts again in 4 s" in lab.log()


def test_pauses_grow_to_a_minute_and_an_agent_that_always_crashes_is_given_up(lab: JobLab) -> None:
    lab.program("clew-agent", f"{SERVED}\nexit 9")
    assert lab.run(lab.script()) == 1
    assert lab.slept() == ["1", "2", "4", "8", "16", "32", "60", "60", "60"]
    record = lab.record()
    assert (record.why, record.detail, record.code, record.starts) == ("crashing", "9", 9, 10)
    assert (ended(record).phase, ended(record).exit_code) == (Phase.FAILED, 9)


def test_a_crashing_agent_is_not_given_up_while_something_trains(lab: JobLab) -> None:
    trainer = "setsid sh -c 'while [ ! -e go ]; do /bin/sleep 0.02; done; echo done >>trained' >/dev/null 2>&1 &"
    text = f"{SERVED}\necho x >>started\nn=$(wc -l <started)\n[ $n -gt 1 ] || {{ {trainer} }}\n"
    text += "[ $n -ne 13 ] || touch go\nexit 1"
    lab.program("clew-agent", text)
    assert lab.run(lab.script()) == 1
    assert lab.wait_for("trained") == ["done"]
    assert lab.record().starts >= 13


@pytest.mark.parametrize("served", [False, True])
def test_an_error_before_the_agent_ever_served_is_final(lab: JobLab, served: bool) -> None:
    """A package that the account's own path puts before the site's, say."""
    trace = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\nImportError: old zmq'
    lab.program("clew-agent", f"{SERVED if served else ''}\necho x >>started\necho '{trace}' >&2\nexit 1")
    assert lab.run(lab.script()) == 1
    record = lab.record()
    assert record.starts == len(lab.wait_for("started")) == (10 if served else 1)
    text = describe(ended(record), NoScheduler()).text
    assert text.endswith("ImportError: old zmq.")
    assert text.startswith("The agent crashed again" if served else "The agent cannot serve on")


def test_an_agent_that_a_signal_ends_before_it_served_is_tried_three_times(lab: JobLab) -> None:
    lab.program("clew-agent", "echo x >>started\nkill -s SEGV $$")
    assert lab.run(lab.script()) == 1
    assert (lab.record().starts, lab.record().why, lab.record().code) == (3, "crashing", 139)


def test_that_an_agent_served_before_the_job_was_queued_again_does_not_count(lab: JobLab) -> None:
    lab.program("clew-agent", f"{SERVED}\nexit 0")
    assert lab.run(lab.script()) == 0
    lab.program("clew-agent", "exit 1")
    assert lab.run(lab.script()) == 1
    assert (lab.record(1).starts, lab.record(1).why) == (1, "refused")


SAID = "2026-11-25 10:00:00,123 4711 clew_agent.supervisor.serve ERROR: No port of 41000-41001 is free."


@pytest.mark.parametrize(("code", "starts"), [(2, 1), (75, 3)])
def test_an_agent_that_says_why_it_cannot_serve_gives_the_node_back(lab: JobLab, code: int, starts: int) -> None:
    lab.program("clew-agent", f"echo '{SAID}' >&2\nexit {code}")
    assert lab.run(lab.script()) == 1
    record = lab.record()
    assert (record.why, record.detail) == ("refused", f"{code} No port of 41000-41001 is free.")
    assert (record.code, record.starts) == (code, starts)
    said = describe(ended(record), NoScheduler()).text
    assert said == f"The agent cannot serve on {record.host}: No port of 41000-41001 is free."


def test_an_agent_that_is_not_there_ends_the_job_at_once_with_the_cause(lab: JobLab) -> None:
    assert lab.run(lab.script(agent=("no-such-program", "serve"))) == 127
    record = lab.record()
    assert (record.why, record.code) == ("absent", 127)
    assert "no-such-program" in record.detail
    text = describe(ended(record), NoScheduler()).text
    assert text == f"The agent's program could not be started on {record.host}: {record.detail}."


# --- It ends what the agent started -----------------------------------------------------------------------------------

TREE = """python
import os, signal, subprocess, sys, time
started = open("started", "a")
def note(text):
    started.write(text + "\\n"); started.flush()
if sys.argv[1] == "serve":
    subprocess.Popen([sys.argv[0], "guard"], start_new_session=True)
elif sys.argv[1] == "guard":
    child = subprocess.Popen([sys.argv[0], "trainer"], start_new_session=True)
    def passed(number, frame):
        child.send_signal(number); child.wait(); note("guard sealed"); sys.exit(0)
    signal.signal(signal.SIGTERM, passed)
else:
    asked = []
    def asked_to_end(number, frame):
        asked.append(number)
        if {stubborn}:
            return
        time.sleep(0.3); note(f"trainer asked {len(asked)} times"); sys.exit(0)
    signal.signal(signal.SIGTERM, asked_to_end)
note(f"{sys.argv[1]} {os.getpid()}")
if sys.argv[1] == "serve" and not {stays}:
    while "trainer" not in open("started").read():
        time.sleep(0.02)
    sys.exit(0)
time.sleep(600)
"""


def tree(stubborn: bool = False, stays: bool = True) -> str:
    return TREE.replace("{stubborn}", str(stubborn)).replace("{stays}", str(stays))


def pids(lines: list[str]) -> list[str]:
    return [line.split()[1] for line in lines if line.split()[1].isdecimal()]


def test_a_cancelled_job_lets_guard_and_trainer_end_by_themselves(lab: JobLab) -> None:
    lab.program("clew-agent", tree())
    job = lab.start(lab.script())
    lab.wait_for("started", 3)
    send(job, signal.SIGTERM)
    assert job.wait(BOUND_S) == 143
    said = lab.wait_for("started", 5)
    assert said[-2:] == ["trainer asked 1 times", "guard sealed"]
    assert all(is_gone(pid) for pid in pids(said))
    record = lab.record()
    assert (record.state, record.why) == ("ended", "terminated")


def test_a_job_whose_keeper_was_killed_is_cancelled_as_the_keeper_would_end_it(lab: JobLab) -> None:
    lab.program("clew-agent", tree())
    job = lab.start(lab.script())
    lab.wait_for("started", 3)
    job.kill()
    job.wait(BOUND_S)
    subprocess.run(NoScheduler().cancel(JobRef(str(job.pid), lab.job.job)), check=True, timeout=BOUND_S)
    said = lab.wait_for("started", 5)
    assert said[-2:] == ["trainer asked 1 times", "guard sealed"]
    assert ends(lambda: all(is_gone(pid) for pid in pids(said)))


def test_no_orphan_outlives_an_agent_that_ended_by_itself(lab: JobLab) -> None:
    lab.program("clew-agent", tree(stays=False))
    assert lab.run(lab.script()) == 0
    assert all(is_gone(pid) for pid in pids(lab.wait_for("started", 3)))


def test_what_does_not_listen_is_killed_with_its_whole_group(lab: JobLab) -> None:
    lab.program("clew-agent", tree(stubborn=True))
    job = lab.start(lab.script(grace=2))
    started = lab.wait_for("started", 3)
    send(job, signal.SIGTERM)
    assert job.wait(BOUND_S) == 143
    assert all(is_gone(pid) for pid in pids(started))
    assert "killed" in lab.log()


def test_an_agent_that_ignores_requests_is_killed(lab: JobLab) -> None:
    lab.program("clew-agent", "trap '' TERM\necho x >>started\nwhile :; do /bin/sleep 1; done")
    job = lab.start(lab.script(grace=2))
    lab.wait_for("started")
    send(job, signal.SIGTERM)
    assert job.wait(BOUND_S) == 143
    assert lab.record().code == 137


SLOW = """python
import signal, sys, time
asked = []
def note(number, frame):
    asked.append(number)
signal.signal(signal.SIGTERM, note)
open("started", "w").write("x\\n")
while not asked:
    time.sleep(0.02)
time.sleep(0.3)
open("asked", "w").write(f"{len(asked)}\\n")
"""


def test_an_agent_is_asked_once_and_may_take_its_time(lab: JobLab) -> None:
    lab.program("clew-agent", SLOW)
    job = lab.start(lab.script())
    lab.wait_for("started")
    send(job, signal.SIGTERM)
    assert job.wait(BOUND_S) == 143
    assert (lab.wait_for("asked"), lab.record().code) == (["1"], 0)


def test_processes_of_others_are_left_alone(lab: JobLab) -> None:
    other = psutil.Popen(["sleep", "600"], env={"CLEW_JOB": "11111111-2222-4333-8444-555555555555"})
    try:
        lab.program("clew-agent", "exit 0")
        assert lab.run(lab.script()) == 0
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


# --- It knows how the job ended ---------------------------------------------------------------------------------------


def test_shortly_before_the_time_is_up_the_job_is_ended(lab: JobLab) -> None:
    lab.program("clew-agent", "echo x >>started\nexec /bin/sleep 600")
    until = str(int(time.time()) + 40)
    assert lab.run(lab.script(), {"SLURM_JOB_END_TIME": until, "SLURM_JOB_ID": "41"}) == 124
    assert lab.slept()[0] in ("34", "35"), "an eighth of the time is left"
    record = lab.record()
    assert (record.why, record.id, str(record.until)) == ("time", "41", until)
    assert ended(record).phase is Phase.TIMED_OUT


def test_the_agent_is_told_when_its_time_is_up(lab: JobLab) -> None:
    lab.program("clew-agent", 'echo "$CLEW_JOB $CLEW_JOB_FOLDER $CLEW_JOB_UNTIL" >>told')
    assert lab.run(lab.script(allocation=AllocationRequest(time="2h"))) == 0
    record = lab.record()
    assert lab.wait_for("told") == [f"{lab.job.job} {lab.folder} {record.until}"]
    assert record.until - record.began == 7200


@pytest.mark.parametrize(("number", "why"), [("SIGUSR1", "time"), ("SIGHUP", "terminated")])
def test_signals_of_the_scheduler(lab: JobLab, number: str, why: str) -> None:
    lab.program("clew-agent", "echo x >>started\nexec /bin/sleep 600")
    job = lab.start(lab.script())
    lab.wait_for("started")
    send(job, signal.Signals[number])
    job.wait(BOUND_S)
    assert lab.record().why == why


@pytest.mark.parametrize(
    ("said", "why", "code"),
    [
        ("slurmstepd: error: *** JOB 41 ON node1 CANCELLED AT 2026-11-22T10:00:00 DUE TO TIME LIMIT ***", "time", 124),
        ("=>> PBS: job killed: walltime 72 exceeded limit 60", "time", 124),
        ("slurmstepd: error: *** JOB 41 ON node1 CANCELLED AT 2026-11-22T10:00:00 ***", "terminated", 143),
    ],
)
def test_a_job_whose_limit_was_lowered_is_ended_by_the_scheduler_whose_word_counts(
    lab: JobLab, said: str, why: str, code: int
) -> None:
    """It is written before anybody is asked, so that trainers know as well, whoever is asked first."""
    lab.program("clew-agent", "echo x >>started\nexec /bin/sleep 600")
    job = lab.start(lab.script(), {"SLURM_JOB_END_TIME": str(int(time.time()) + 3600)})
    lab.wait_for("started")
    (lab.folder / SCHEDULER_LOG).write_text(f"{said}\n")
    assert JobsWord(lab.job.job, lab.folder).ending() == ("time" if why == "time" else "")
    send(job, signal.SIGTERM)
    assert job.wait(BOUND_S) == code
    assert lab.record().why == JobsWord(lab.job.job, lab.folder).ending() == why


def test_what_the_scheduler_said_before_it_started_the_job_again_does_not_count(lab: JobLab) -> None:
    (lab.folder / SCHEDULER_LOG).write_text(
        "*** JOB 41 ON node1 CANCELLED AT 2026-11-22T10:00:00 DUE TO TIME LIMIT ***\n"
    )
    lab.program("clew-agent", "echo x >>started\nexec /bin/sleep 600")
    job = lab.start(lab.script())
    lab.wait_for("started")
    assert JobsWord(lab.job.job, lab.folder).ending() == ""
    send(job, signal.SIGTERM)
    assert job.wait(BOUND_S) == 143
    assert lab.record().why == JobsWord(lab.job.job, lab.folder).ending() == "terminated"


def test_a_job_that_is_killed_leaves_a_record_that_says_it_was_running(lab: JobLab) -> None:
    lab.program("clew-agent", "echo $$ >>started\nexec /bin/sleep 600")
    job = lab.start(lab.script())
    agent = lab.wait_for("started")[0]
    job.kill()
    job.wait(BOUND_S)
    psutil.Process(int(agent)).kill()
    assert (lab.record().state, state_of_record(lab.record(), "7")) == ("running", None)


@pytest.mark.parametrize("told", [{"SLURM_RESTART_COUNT": "1"}, {}], ids=["Slurm", "PBS"])
def test_a_requeued_job_has_a_record_of_its_own(lab: JobLab, told: dict[str, str]) -> None:
    lab.program("clew-agent", 'echo "$CLEW_JOB_RESTART" >>told')
    assert lab.run(lab.script()) == 0
    assert lab.run(lab.script(), told) == 0
    assert (lab.record(0).restart, lab.record(1).restart) == (0, 1)
    assert lab.wait_for("told") == ["0", "1"]


def test_odd_words_in_the_schedulers_variables_do_no_harm(lab: JobLab) -> None:
    lab.program("clew-agent", "exit 0")
    odd = {"SLURM_JOB_END_TIME": "soon; touch bad", "PBS_WALLTIME": "a[$(touch bad)]", "SLURM_RESTART_COUNT": "../x"}
    assert lab.run(lab.script(), odd) == 0
    assert lab.record().until == 0
    assert not (lab.folder / "bad").exists()


def test_what_start_files_export_does_not_pass_for_what_the_scheduler_gave(lab: JobLab) -> None:
    """The job's shell reads them before the first line of its script."""
    lab.program("clew-agent", "env -0 | tr '\\n\\0' ' \\n' | grep -E '^(SLURM|SRUN|SQUEUE|PBS)' | sort >told")
    until = str(int(time.time()) + 3600)
    given = {"SLURM_JOB_ID": "41", "SLURM_JOB_END_TIME": until, "SLURM_NNODES": "2", "SRUN_CPUS_PER_TASK": "2 of 4"}
    odd = {"ODD": "a\nSLURM_CPU_BIND=b"}
    wrong = "export SLURM_JOB_ID=9 SLURM_JOB_END_TIME=5 SLURM_PARTITION=x SLURM_CLUSTERS=x SQUEUE_USERS=x PBS_JOBID=x"
    text = lab.script(prologue="export SLURM_MPI_TYPE=none").replace(
        "set -u\nclew_job", f"{wrong}\nset -u\nclew_job", 1
    )
    assert lab.run(text, given | odd) == 0
    told = lab.wait_for("told", 5)
    mine = given | {"SLURM_MPI_TYPE": "none"}
    assert told == sorted(f"{name}={value}" for name, value in mine.items()), "and what the site's prologue exports"
    assert (lab.record().id, str(lab.record().until)) == ("41", until)


# --- Modules and the prologue -----------------------------------------------------------------------------------------

MODULES = """module() {
    case $2 in
        nosuch/*) echo "ERROR: Unable to locate a modulefile for '$2'" >&2; [ -n "$quiet" ] ;;
        *) PATH=$PATH; LOADED="$LOADED $2"; export LOADED ;;
    esac
}"""


def with_modules(lab: JobLab, script: str) -> str:
    """As a login shell would have it: the command ``module`` is there before the script's own lines."""
    return script.replace("set -u\nclew_job", f". '{lab.bin}/modules.sh'\nset -u\nclew_job", 1)


def test_modules_and_prologue_act_on_the_agent(lab: JobLab) -> None:
    (lab.bin / "modules.sh").write_text(f"quiet=\n{MODULES}\n")
    lab.program("clew-agent", 'echo "$LOADED/$MINE" >>told')
    text = lab.script(modules=("cuda/11.8", "python_ML"), prologue="set -e\nexport MINE='a b'\nfalse || true")
    assert lab.run(with_modules(lab, text)) == 0
    assert lab.wait_for("told") == [" cuda/11.8 python_ML/a b"]


@pytest.mark.parametrize("quiet", ["", "1"], ids=["status", "words alone"])
def test_a_module_that_is_not_there_is_named(lab: JobLab, quiet: str) -> None:
    (lab.bin / "modules.sh").write_text(f"quiet={quiet}\n{MODULES}\n")
    lab.program("clew-agent", "exit 0")
    assert lab.run(with_modules(lab, lab.script(modules=("nosuch/1.0",)))) == 3
    assert (lab.record().why, lab.record().detail) == ("module", "nosuch/1.0")
    assert "Unable to locate" in lab.log()


@pytest.mark.parametrize("prologue", ["exit 5", "echo $not_set_anywhere; exit 5", "trap 'x' TERM; cd /; exit 5"])
def test_a_prologue_that_ends_the_script_is_recorded(lab: JobLab, prologue: str) -> None:
    lab.program("clew-agent", "exit 0")
    assert lab.run(lab.script(prologue=prologue)) == 5
    assert (lab.record().why, lab.record().detail) == ("ended", "")


def test_a_prologue_with_an_open_quote_starts_nothing_and_is_recorded(lab: JobLab) -> None:
    lab.program("clew-agent", "touch started")
    assert lab.run(lab.script(prologue="echo 'oh")) != 0
    assert not (lab.folder / "started").exists()


# --- Nothing breaks out -----------------------------------------------------------------------------------------------

ANY = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
NASTY = st.sampled_from(
    ["'; touch OUT; '", "$(touch OUT)", "`touch OUT`", "\n touch OUT\n", "a\\'b", "--", "x=y", "\r\n", "!!"]
)
NAMES = st.text(string.ascii_uppercase, min_size=1, max_size=6).map(lambda name: f"X_{name}")


@settings(max_examples=25)
@given(
    words=st.lists(ANY | NASTY, max_size=4), values=st.dictionaries(NAMES, ANY | NASTY, max_size=3), name=ANY | NASTY
)
def test_words_and_values_arrive_as_they_are(words: list[str], values: dict[str, str], name: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        lab = JobLab(Path(place))
        odd = "".join(char for char in name if char.isprintable() and char != "/").strip(".")[:40]
        lab.folder = lab.folder / (odd or "x")
        lab.folder.mkdir()
        lab.program(
            "clew-agent", "python\nimport json, os, sys\njson.dump([sys.argv[1:], dict(os.environ)], open('told', 'w'))"
        )
        script = lab.script(folder=str(lab.folder), agent=("clew-agent", *words), environment=values)
        assert lab.run(script) == 0, script
        told, environment = json.loads((lab.folder / "told").read_text())
        assert told == words
        assert {key: environment[key] for key in values} == values
        assert not list(Path(place).rglob("OUT"))
