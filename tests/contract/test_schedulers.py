"""What every scheduler's dialect must do, with programs on the PATH that answer as the real ones did."""

from __future__ import annotations

import shlex
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew_gui.schedulers.allocation import FIELDS, AllocationRequest
from clew_gui.schedulers.job import JobRef, JobSpec, check_job
from clew_gui.schedulers.registry import NAMES, SchedulerName, scheduler_of
from clew_gui.schedulers.scheduler import Question, Scheduler, environment, without_exports
from clew_gui.schedulers.state import JobState, Output, Phase
from clew_gui.schedulers.verdict import parse_record
from clew_shared.base.problem import ProblemError
from tests.contract.joblab import BOUND_S, JOB, a_job
from tests.contract.recorded import mnsubmit, pbs, slurm


class Said(NamedTuple):
    """What a program prints, and its exit code."""

    out: str = ""
    err: str = ""
    code: int = 0


class Dialect(NamedTuple):
    """A dialect's recorded answers: programs by situation. ``gone`` is an id that the scheduler does not know."""

    name: SchedulerName
    running: JobState
    blocked: str
    submitted: str
    said: dict[str, dict[str, Said]]
    named: str = JOB
    """The UUID of the job that ``find`` shall find."""


SLURM_JOB = "3f9e1b34-28a0-4792-8b19-dd8088b63333"
SLURM_NAMED = slurm.SQUEUE.replace("1|RUNNING|None|node3", "25|RUNNING|None|node3").replace(
    "clew-a", f"clew-{SLURM_JOB}"
)

DIALECTS = {
    "slurm": Dialect(
        "slurm",
        JobState(
            id="1",
            phase=Phase.RUNNING,
            name="clew-a",
            reason="None",
            nodes="node3",
            start=1795293231.0,
            end=1795293531.0,
            limit=300,
        ),
        "2",
        "25",
        {
            "submit": {"sbatch": Said(slurm.SUBMITTED)},
            "refused": {"sbatch": Said(err=slurm.REFUSALS["partition"], code=1)},
            "down": {"sbatch": Said(err=slurm.DOWN_SBATCH, code=1), "squeue": Said(err=slurm.DOWN, code=1)},
            "status": {"squeue": Said(slurm.SQUEUE)},
            "unknown": {"squeue": Said(err=slurm.UNKNOWN, code=1)},
            "found": {"squeue": Said(SLURM_NAMED)},
            "nobody": {"squeue": Said()},
            "cancel": {"scancel": Said()},
        },
        SLURM_JOB,
    ),
    "pbs": Dialect(
        "pbs",
        JobState(id="1", phase=Phase.RUNNING, name="clew-a", nodes="node3", limit=300),
        "",
        "16",
        {
            "submit": {"qsub": Said(pbs.SUBMITTED)},
            "refused": {"qsub": Said(pbs.REFUSED_QSUB, code=1)},
            "down": {"qsub": Said(pbs.DOWN_QSUB, code=1), "qstat": Said(err=pbs.DOWN, code=8)},
            "status": {"qstat": Said(pbs.QSTAT)},
            "unknown": {"qstat": Said(code=153)},
            "found": {"qstat": Said(pbs.QSTAT)},
            "nobody": {"qstat": Said(pbs.QSTAT.replace("c0f3d6c528f0e4c", "other"))},
            "cancel": {"qdel": Said()},
        },
    ),
    "mnsubmit": Dialect(
        "mnsubmit",
        JobState(id="21", phase=Phase.RUNNING, name="wrap", nodes="node1"),
        "13",
        "24",
        {
            "submit": {"mnsubmit": Said(mnsubmit.SUBMITTED)},
            "refused": {"mnsubmit": Said(err=slurm.REFUSALS["partition"], code=1)},
            "down": {"mnsubmit": Said(err=slurm.DOWN_SBATCH, code=1), "mnq": Said(err=slurm.DOWN, code=1)},
            "status": {"mnq": Said(mnsubmit.MNQ)},
            "unknown": {"mnq": Said(mnsubmit.MNQ.splitlines()[0] + "\n")},
            "found": {"mnq": Said(mnsubmit.MNQ)},
            "nobody": {"mnq": Said(mnsubmit.MNQ.replace("c0f3d6c5", "c1111111"))},
            "cancel": {"mncancel": Said()},
        },
    ),
}
IDS = list(DIALECTS)


class Fakes:
    """A login node: the programs of one situation on the PATH, and what they were called with."""

    def __init__(self, place: Path) -> None:
        self.bin = place / "bin"
        self.folder = place / "job's folder"
        self.bin.mkdir()
        self.folder.mkdir()
        (self.folder / "job.sh").write_text("#!/bin/sh\n")

    def situation(self, programs: dict[str, Said]) -> None:
        for name, said in programs.items():
            (self.bin / f"{name}.out").write_text(said.out)
            (self.bin / f"{name}.err").write_text(said.err)
            path = self.bin / name
            noted = 'for word in "$@"; do printf "%s\\n" "$word"; done >"$0.called"; pwd >"$0.where"'
            path.write_text(f'#!/bin/sh\n{noted}\ncat "$0.out"\ncat "$0.err" >&2\nexit {said.code}\n')
            path.chmod(0o755)

    def run(self, command: Sequence[str], **exported: str) -> Output:
        """As the connection will: an argument list, a bound, output as text. The start files there have ``exported``
        variables."""
        found = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.folder)} | exported
        words = without_exports(tuple(command), environment())
        done = subprocess.run(
            words, env=found, capture_output=True, text=True, timeout=BOUND_S, check=False, stdin=subprocess.DEVNULL
        )
        return Output(done.returncode, done.stdout, done.stderr)

    def called(self, name: str) -> list[str]:
        return (self.bin / f"{name}.called").read_text().splitlines()


@pytest.fixture(params=IDS)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return DIALECTS[request.param]


@pytest.fixture
def node(tmp_path: Path) -> Fakes:
    return Fakes(tmp_path)


def of(dialect: Dialect) -> Scheduler:
    return scheduler_of(dialect.name)


def ref(job_id: str) -> JobRef:
    return JobRef(job_id, JOB)


# --- Submission -------------------------------------------------------------------------------------------------------


@pytest.mark.unix("a shell of a site")
def test_the_script_is_submitted_in_its_folder(dialect: Dialect, node: Fakes) -> None:
    node.situation(dialect.said["submit"])
    answer = of(dialect).submitted(node.run(of(dialect).submit(a_job(node.folder))))
    assert (answer.id, answer.problem, answer.lost) == (dialect.submitted, None, False)
    program = next(iter(dialect.said["submit"]))
    assert node.called(program)[-1] == "job.sh"
    assert (node.bin / f"{program}.where").read_text() == f"{node.folder}\n"


@pytest.mark.unix("a shell of a site")
def test_a_refusal_is_a_sentence_with_the_field(dialect: Dialect, node: Fakes) -> None:
    node.situation(dialect.said["refused"])
    answer = of(dialect).submitted(node.run(of(dialect).submit(a_job(node.folder))))
    assert answer.problem is not None
    assert (answer.problem.code, answer.problem.where, answer.lost) == ("scheduler.partition", "partition", False)
    assert "Invalid partition" in answer.problem.text
    assert answer.problem.hint


@pytest.mark.unix("a shell of a site")
def test_a_submission_without_an_answer_is_lost_not_refused(dialect: Dialect, node: Fakes) -> None:
    node.situation(dialect.said["down"])
    down = of(dialect).submitted(node.run(of(dialect).submit(a_job(node.folder))))
    assert down.lost
    assert down.problem is not None
    assert of(dialect).submitted(Output(0, late=True)).lost
    assert of(dialect).submitted(Output(0, "Welcome to our machine!\n")).lost


@pytest.mark.unix("a shell of a site")
def test_a_lost_submission_is_found_by_its_name(dialect: Dialect, node: Fakes) -> None:
    job = a_job(node.folder, job=dialect.named)
    node.situation(dialect.said["found"])
    assert of(dialect).found(job, node.run(of(dialect).find(job))) == dialect.submitted
    node.situation(dialect.said["nobody"])
    assert of(dialect).found(job, node.run(of(dialect).find(job))) == ""


@pytest.mark.unix("a shell of a site")
def test_without_an_answer_nobody_says_that_there_is_no_such_job(dialect: Dialect, node: Fakes) -> None:
    job = a_job(node.folder)
    node.situation(dialect.said["down"])
    with pytest.raises(ProblemError, match="does not answer"):
        of(dialect).found(job, node.run(of(dialect).find(job)))


# --- Status -----------------------------------------------------------------------------------------------------------


@pytest.mark.unix("a shell of a site")
def test_one_call_tells_of_all_jobs(dialect: Dialect, node: Fakes) -> None:
    jobs = [ref(dialect.running.id), ref("99999")]
    node.situation(dialect.said["status"])
    states = of(dialect).states(jobs, node.run(of(dialect).status(jobs)))
    assert states == {dialect.running.id: dialect.running, "99999": JobState(id="99999", phase=Phase.GONE)}


@pytest.mark.unix("a shell of a site")
def test_a_job_that_nobody_knows_is_gone(dialect: Dialect, node: Fakes) -> None:
    node.situation(dialect.said["unknown"])
    states = of(dialect).states([ref("99999")], node.run(of(dialect).status([ref("99999")])))
    assert states["99999"].phase is Phase.GONE


@pytest.mark.unix("a shell of a site")
def test_a_scheduler_that_does_not_answer_ends_no_job(dialect: Dialect, node: Fakes) -> None:
    jobs = [ref("1"), ref("2")]
    node.situation(dialect.said["down"])
    down = of(dialect).states(jobs, node.run(of(dialect).status(jobs)))
    late = of(dialect).states(jobs, Output(0, slurm.SQUEUE, late=True))
    assert {state.phase for state in [*down.values(), *late.values()]} == {Phase.SILENT}
    assert late["1"].reason == "no answer in time"


@pytest.mark.unix("a shell of a site")
def test_a_job_that_will_not_start_says_so(dialect: Dialect, node: Fakes) -> None:
    if not dialect.blocked:  # Slurm's qstat gives no reasons; PBS' own are in test_pbs_comments
        assert of(dialect).explain(JobState(id="2", phase=Phase.PENDING)).blocked is False
        return
    node.situation(dialect.said["status"])
    jobs = [ref(dialect.blocked)]
    state = of(dialect).states(jobs, node.run(of(dialect).status(jobs)))[dialect.blocked]
    reason = of(dialect).explain(state)
    assert (state.phase, reason.blocked) == (Phase.PENDING, True)
    assert reason.text == "It will not start: it asks for more time than the partition allows."


@pytest.mark.unix("a shell of a site")
def test_the_right_job_is_cancelled(dialect: Dialect, node: Fakes) -> None:
    node.situation(dialect.said["cancel"])
    assert node.run(of(dialect).cancel(ref("17"))).code == 0
    assert node.called(next(iter(dialect.said["cancel"]))) == ["17"]


@pytest.mark.parametrize("name", NAMES)
def test_an_interactive_shell_asks_for_the_same(name: SchedulerName) -> None:
    job = a_job(allocation=AllocationRequest(partition="gpu", gpus=2, features="k80", time="30"))
    words = scheduler_of(name).hold(job)
    expected = {
        "slurm": {"--gres=gpu:2", "--partition=gpu", "--time=00:30:00", "--constraint=k80", "--pty"},
        "pbs": {"-I", "nodes=1:ppn=1:gpus=2:k80", "walltime=00:30:00", "gpu"},
        "mnsubmit": {"mnsh", "-k", "-g"},
        "none": {"bash", "-l"},
    }
    assert expected[name] <= set(words)


# --- What start files export ------------------------------------------------------------------------------------------

EXPORTED = [
    "SBATCH_PARTITION",
    "SBATCH_TIMELIMIT",
    "SBATCH_ACCOUNT",
    "SBATCH_JOB_NAME",
    "SALLOC_QOS",
    "SLURM_CLUSTERS",
    "SLURM_PARTITION",
    "SLURM_TIME_FORMAT",
    "SLURM_DEBUG_FLAGS",
    "SLURM_JOB_ID",
    "SLURMD_NODENAME",
    "SRUN_DEBUG",
    "SQUEUE_USERS",
    "SQUEUE_FORMAT",
    "SQUEUE_FORMAT2",
    "SQUEUE_NAMES",
    "SINFO_PARTITION",
    "SACCT_FORMAT",
    "SCANCEL_STATE",
    "SCONTROL_FEDERATION",
    "SPRIO_FORMAT",
    "SSHARE_FORMAT",
    "PBS_DEFAULT",
    "PBS_SERVER",
    "PBS_DPREFIX",
    "PBSDEBUG",
    "PBS_JOBID",
    "PBS_QSTAT_EXECONLY",
]
KEPT = [
    "SLURM_CONF",
    "SLURM_CONF_SERVER",
    "SLURM_JWT",
    "PBS_CONF_FILE",
    "PBS_EXEC",
    "SSH_CONNECTION",
    "SPACK_ROOT",
    "SINGULARITY_BIND",
]
PROGRAMS = [
    "sbatch",
    "squeue",
    "sacct",
    "scancel",
    "salloc",
    "srun",
    "sinfo",
    "sacctmgr",
    "scontrol",
    "qsub",
    "qstat",
    "qselect",
    "qdel",
    "pbsnodes",
    "mnsubmit",
    "mnq",
    "mncancel",
    "mnsh",
]


def questions(scheduler: Scheduler, jobs: Sequence[JobRef]) -> list[Question[Any]]:
    """Everything that this scheduler can be asked."""
    asked = [scheduler.limits("gpu"), scheduler.partitions(), scheduler.most_gpus(), scheduler.node_up()]
    return [one for one in (*asked, scheduler.accounts(), scheduler.history(jobs)) if one is not None]


@pytest.mark.unix("a shell of a site")
@pytest.mark.parametrize("name", IDS)
def test_no_exported_variable_changes_what_a_schedulers_program_does(name: SchedulerName, node: Fakes) -> None:
    scheduler, job, refs = scheduler_of(name), a_job(node.folder), [ref("17")]
    asked = [question.command for question in questions(scheduler, refs)]
    asked += filter(None, [scheduler.ask_acceptance(), scheduler.ask_again(refs[0])])
    steps = [step(refs[0], ("true",)) for step in (scheduler.relay, scheduler.attach)]
    commands = [scheduler.submit(job), scheduler.find(job), scheduler.status(refs), *steps]
    for program in PROGRAMS:
        path = node.bin / program
        path.write_text(f"#!/bin/sh\nenv >>'{node.bin}/environment'\n")
        path.chmod(0o755)
    # What is no name, and values that look like other variables.
    odd = {"A-B": "1", "TEXT": "one\nSLURM_MADE_UP=1\nPBS jobs end at 8.\nSLURM_\nSQUEUE_*=$(false)"}
    exported = dict.fromkeys([*EXPORTED, *KEPT], "nonsense")
    for command in filter(None, [*commands, *asked, scheduler.cancel(refs[0]), scheduler.hold(job)]):
        assert node.run(command, **exported, **odd).err == ""
    seen = (node.bin / "environment").read_text().splitlines()
    assert {line for line in seen if line.partition("=")[0] in EXPORTED} == {"SLURM_TIME_FORMAT=standard"}
    assert {f"{one}=nonsense" for one in KEPT} <= set(seen)


# --- Without a scheduler ----------------------------------------------------------------------------------------------


@pytest.mark.unix("a shell of a site")
def test_without_a_scheduler_the_keeper_is_a_process(node: Fakes) -> None:
    plain = scheduler_of("none")
    folder = node.folder / str(uuid.uuid4())
    folder.mkdir()
    job = a_job(folder, job=folder.name)
    (folder / "job.sh").write_text("trap 'kill $p; exit' TERM\nsleep 600 & p=$!\nwait\n")
    answer = plain.submitted(node.run(plain.submit(job)))
    mine = JobRef(answer.id, job.job)
    other = JobRef(answer.id, JOB)
    try:
        assert wait_until(lambda: plain.found(job, node.run(plain.find(job))) == answer.id)
        states = plain.states([mine], node.run(plain.status([mine])))
        assert states[answer.id].phase is Phase.RUNNING
        assert plain.states([other], node.run(plain.status([other])))[answer.id].phase is Phase.GONE
        node.run(plain.cancel(other))
        assert plain.states([mine], node.run(plain.status([mine])))[answer.id].phase is Phase.RUNNING
    finally:
        node.run(plain.cancel(mine))
    assert wait_until(lambda: plain.states([mine], node.run(plain.status([mine])))[answer.id].phase is Phase.GONE)


def wait_until(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + BOUND_S
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


# --- Scripts ----------------------------------------------------------------------------------------------------------

NASTY = st.sampled_from(
    ["--mem=1\n#SBATCH --wrap=x", "a;b", "$(x)", "--mem=8G", "-l mem=1gb", "cuda/11", "a = b", "gpu:k80"]
)
GOLDEN = Path(__file__).parent / "golden"
FULL = AllocationRequest(
    partition="gpu",
    account="course2026",
    reservation="day-2",
    qos="low",
    time="2h",
    nodes=2,
    gpus=4,
    cpus=8,
    features="k80",
)
EXAMPLES: dict[str, JobSpec] = {
    "slurm": a_job(allocation=FULL, gres="gpu:tesla", modules=("cuda/11.8",), extra=("--mem=8G",)),
    "slurm-plain": a_job(environment={"CLEW_HOME": "/home/student/it's mine"}, requeue=True),
    "pbs": a_job(allocation=FULL, launch=("aprun", "-n", "1"), extra=("-W group_list=course",)),
    "pbs-select": a_job(allocation=AllocationRequest(time="30", gpus=2, cpus=8), select=True, requeue=True),
    "mnsubmit": a_job(allocation=FULL, modules=("K80", "python_ML"), prologue="export LAB=/apps/lab\n"),
    "none": a_job(),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_scripts_are_as_they_were_read_and_approved(name: str) -> None:
    """After a change that is meant: `python -m tests.contract.test_schedulers` writes the files anew, for reading."""
    assert golden(name) == (GOLDEN / f"{name}.sh").read_text()


def golden(name: str) -> str:
    """The script with one line in place of the keeper, which is the same in all and a file of its own."""
    dialect = next(one for one in NAMES if name.startswith(one))
    keeper = files("clew_gui.schedulers").joinpath("keeper.sh").read_text().rstrip()
    before, found, after = scheduler_of(dialect).script(EXAMPLES[name]).partition(keeper)
    assert found
    return f"{before}# --- keeper.sh ---{after}"


@pytest.mark.parametrize("name", ["slurm", "pbs", "mnsubmit"])
@given(field=st.sampled_from([one.name for one in FIELDS if one.kind == "text"]), text=st.text(max_size=30))
@settings(max_examples=40)
def test_nothing_in_an_allocation_makes_a_line_of_its_own(name: SchedulerName, field: str, text: str) -> None:
    usual = scheduler_of(name).script(a_job(allocation=FULL)).splitlines()
    job = a_job(allocation=msgspec.structs.replace(FULL, **{field: text}))
    try:
        lines = scheduler_of(name).script(job).splitlines()
    except ProblemError as error:
        assert error.problems[0].where == field
        return
    new = [line for line in lines if line not in usual]
    assert all(line.startswith(("#SBATCH ", "#PBS ", "# @ ", "clew_begin ")) for line in new)
    assert len(new) <= 3


@pytest.mark.parametrize("name", ["slurm", "pbs", "mnsubmit"])
@given(field=st.sampled_from(["modules", "extra", "gres", "launch"]), text=st.text(max_size=30) | NASTY)
@settings(max_examples=40)
def test_nothing_of_a_site_makes_more_than_one_line(name: SchedulerName, field: str, text: str) -> None:
    usual = scheduler_of(name).script(a_job(allocation=FULL))
    value = text if field == "gres" else (text,)
    try:
        script = scheduler_of(name).script(msgspec.structs.replace(a_job(allocation=FULL), **{field: value}))
    except ProblemError:
        return
    if field == "launch":  # any word is allowed there, quoted
        assert shlex.join([text]) in script
        return
    assert len(script.split("\n")) - len(usual.split("\n")) <= {"extra": 1, "modules": 4, "gres": 0}[field]
    assert not set(text) & set("\n\r'\"`$;<>\\")


@pytest.mark.parametrize(
    "wrong",
    [
        {"job": "not a uuid"},
        {"job": JOB.upper()},
        {"folder": "relative"},
        {"folder": "/a\nb"},
        {"folder": "/a/../b"},
        {"agent": ()},
        {"agent": ("a\0b",)},
        {"gres": "gpu:1 --wrap=x"},
        {"modules": ("x; rm -rf /",)},
        {"modules": ("-h",)},
        {"extra": ("--wrap=touch",)},
        {"extra": ("--wra=touch",)},
        {"extra": ("--mem=1 --wrap=touch",)},
        {"extra": ("--output=/etc/x",)},
        {"extra": ("no option",)},
        {"prologue": "echo hi\x1b[2K"},
        {"environment": {"A B": "x"}},
        {"environment": {"WANDB_API_KEY": "x"}},
        {"environment": {"A": "x\0"}},
    ],
    ids=str,
)
def test_what_cannot_be_written_safely_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ProblemError):
        check_job(msgspec.structs.replace(a_job(), **wrong), scheduler_of("slurm").directives)


# --- Any answer at all ------------------------------------------------------------------------------------------------

RECORDED = [slurm.SQUEUE, slurm.SACCT, slurm.SINFO, pbs.QSTAT, pbs.TORQUE, pbs.OPENPBS, mnsubmit.MNQ, mnsubmit.MNQ_LONG]


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A recorded answer with a piece replaced by anything, or anything."""
    text = draw(st.sampled_from([*RECORDED, ""]))
    at, gone = draw(st.integers(0, len(text))), draw(st.integers(0, 40))
    return text[:at] + draw(st.text(max_size=30)) + text[at + gone :]


@given(
    name=st.sampled_from(NAMES), out=damaged(), err=st.text(max_size=40), code=st.integers(-15, 255), late=st.booleans()
)
def test_no_answer_breaks_a_parser(name: SchedulerName, out: str, err: str, code: int, late: bool) -> None:
    scheduler, jobs = scheduler_of(name), [ref("1"), ref("8231.login.example.org"), ref("31")]
    output = Output(code, out, err, late)
    states = scheduler.states(jobs, output)
    assert set(states) == {job.id for job in jobs}
    for state in states.values():
        assert scheduler.explain(state).text
    answer = scheduler.submitted(output)
    assert not (answer.id and answer.problem)
    for question in questions(scheduler, jobs):
        question.read(output)
    if (history := scheduler.history(jobs)) is not None:
        assert set(history.read(output)) <= set(states)
    if (node_up := scheduler.node_up()) is not None:
        assert len(node_up.read(output).split()) <= 1, "a name, or nothing"
    if (accounts := scheduler.accounts()) is not None:
        assert not (code and accounts.read(output))
    scheduler.ran_out_of_memory(output.said)
    try:
        scheduler.found(a_job(), output)
    except ProblemError:
        assert code or late
    parse_record(out, JOB)


if __name__ == "__main__":
    for example in EXAMPLES:
        (GOLDEN / f"{example}.sh").write_text(golden(example))
