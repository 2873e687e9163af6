"""Particular answers of schedulers, as they were recorded: refusals, ends of jobs, limits."""

from __future__ import annotations

from typing import TypeVar

import pytest

from clew_gui.schedulers.job import JobRef
from clew_gui.schedulers.registry import SchedulerName, scheduler_of
from clew_gui.schedulers.scheduler import Question
from clew_gui.schedulers.state import JobState, JobUse, Output, PartitionLimits, Phase
from clew_gui.schedulers.verdict import conclude
from clew_gui.schedulers.words import describe
from clew_gui.ssh.connection import Command, Finished
from clew_shared.base.problem import ProblemError
from tests.contract.joblab import JOB, a_job
from tests.contract.recorded import mnsubmit, pbs, slurm
from tests.unit.fake_site import Login, a_line, a_site

SLURM_JOB = "3f9e1b34-28a0-4792-8b19-dd8088b63333"

T = TypeVar("T")


def ref(job_id: str) -> JobRef:
    return JobRef(job_id, JOB)


@pytest.mark.parametrize(("kind", "said"), slurm.REFUSALS.items())
def test_slurms_refusals(kind: str, said: str) -> None:
    answer = scheduler_of("slurm").submitted(Output(1, err=said))
    assert answer.problem is not None
    assert answer.problem.code == f"scheduler.{kind}"


def heard(question: Question[T] | None, output: Output) -> T:
    """What is read from this answer to a question."""
    assert question is not None
    return question.read(output)


def test_slurms_answers_with_words_and_a_clusters_name() -> None:
    submitted = scheduler_of("slurm").submitted
    assert submitted(Output(0, slurm.SUBMITTED_WORDS)).id == "2"
    assert submitted(Output(0, "sbatch: hello from the site\n4711;mini\nbye\n")).id == "4711;mini"
    assert submitted(Output(0, "Submitted batch job 4711 on cluster mini\n")).id == "4711;mini"


def test_of_a_job_on_another_cluster_that_cluster_is_asked() -> None:
    slurm_, there = scheduler_of("slurm"), ref("4711;serial")
    steps = [slurm_.relay(there, ("true",)), slurm_.attach(there, ("true",))]
    commands = [slurm_.status([there]), slurm_.cancel(there), slurm_.ask_again(there), *steps]
    commands += [asked.command] if (asked := slurm_.history([there])) is not None else []
    for command in commands:
        assert command is not None
        assert "--clusters=serial" in command
        assert {"4711", "--jobs=4711", "--jobid=4711"} & set(command)
        assert not [word for word in command if ";" in word]
    line = f"4711|RUNNING|None|node1|N/A|N/A|10:00|1|clew-{JOB}\n"
    for said in (f"CLUSTER: serial\n{line}", line):
        assert slurm_.states([there], Output(0, said))["4711;serial"].phase is Phase.RUNNING
    assert slurm_.states([there], Output(0, "CLUSTER: serial\n"))["4711;serial"].phase is Phase.GONE
    assert slurm_.found(a_job(job=JOB), Output(0, f"CLUSTER: serial\n{line}")) == "4711;serial"
    ended = heard(slurm_.history([there]), Output(0, slurm.SACCT.replace("35|", "4711|")))
    assert ended["4711;serial"].phase is Phase.FAILED


@pytest.mark.parametrize(
    ("extra", "clusters"), [((), ""), (("--mem=1", "--clusters=a,b"), "a,b"), (("--cluster=a",), "a")]
)
def test_the_cluster_of_a_directive_is_meant_by_all_commands(extra: tuple[str, ...], clusters: str) -> None:
    class Remembers(Login):
        def run(self, command: Command, *, stdin: bytes = b"", timeout: float = 30.0) -> Finished:
            self.said = [*command]
            return super().run(command, stdin=stdin, timeout=timeout)

    login = Remembers()
    line = a_line(login, a_site(extra=extra))
    line.run(("sinfo", "--noheader"))
    for words in (login.said, line.command(("srun", "true"))):
        assert [word for word in words if word.startswith("SLURM_CLUSTERS=")] == (
            [f"SLURM_CLUSTERS={clusters}"] * bool(clusters)
        )


def test_how_slurms_jobs_ended() -> None:
    jobs = [ref(str(number)) for number in range(31, 37)]
    ended = heard(scheduler_of("slurm").history(jobs), Output(0, slurm.SACCT))
    assert [(state.phase, state.by, state.exit_code) for _, state in sorted(ended.items())] == [
        (Phase.CANCELLED, "20001", 0),
        (Phase.OUT_OF_MEMORY, "", 0),
        (Phase.TIMED_OUT, "", 0),
        (Phase.NODE_FAILED, "", 0),
        (Phase.FAILED, "", 3),
        (Phase.CANCELLED, "0", 0),
    ]
    assert ended["33"].use == JobUse(waited=720.0, memory=3 * 2.0**30, energy=812_000.0), "a step has the most"
    assert ended["31"].use == JobUse(waited=12.0), "0 is no measurement"
    assert ended["35"].use == JobUse(waited=2.0), "nor is what older versions write"
    assert {ended[job].use for job in ("34", "36")} == {JobUse()}, "nor is what overflowed"
    assert heard(scheduler_of("slurm").history(jobs), Output(1, err=slurm.NO_ACCOUNTS)) == {}


def test_a_refused_job_of_that_name_is_not_found() -> None:
    job = a_job(job=SLURM_JOB)
    listed = slurm.SQUEUE_REFUSED.replace("clew-r", f"clew-{SLURM_JOB}")
    assert scheduler_of("slurm").found(job, Output(0, listed)) == ""


def test_an_empty_queue_of_pbs_is_an_answer() -> None:
    assert scheduler_of("pbs").found(a_job(), Output(153)) == ""
    with pytest.raises(ProblemError):
        scheduler_of("pbs").found(a_job(), Output(8, err="Problem loading jobs."))


def test_slurms_limits() -> None:
    limits = heard(scheduler_of("slurm").limits(""), Output(0, slurm.SINFO))
    assert (limits.time, limits.nodes) == (3600, 3)
    assert heard(scheduler_of("slurm").limits(""), Output(0, "infinite|1-2|9|big\n")) == PartitionLimits(nodes=2)
    state = JobState(id="2", phase=Phase.PENDING, reason="PartitionTimeLimit", limit=600)
    short = heard(scheduler_of("slurm").limits(""), Output(0, "2:00|1-infinite|2|short\n"))
    text = "It will not start: the partition's limit is 2 minutes, and it asks for 10 minutes."
    assert scheduler_of("slurm").explain(state, short).text == text


def test_how_torques_jobs_ended() -> None:
    jobs = [ref(f"{number}.login.example.org") for number in range(8231, 8235)]
    states = list(scheduler_of("pbs").states(jobs, Output(0, pbs.TORQUE)).values())
    assert [state.phase for state in states] == [
        Phase.TIMED_OUT,
        Phase.PENDING,
        Phase.CANCELLED,
        Phase.OUT_OF_MEMORY,
    ]
    assert states[0].use == JobUse(waited=720.0, memory=812_340 * 1024.0)
    assert (states[0].nodes, states[0].signal, states[0].start) == ("nid00012,nid00013", 15, 1795291980.0)
    assert scheduler_of("pbs").explain(states[1]).text.startswith("It will not start: you have held it.")


def test_how_openpbs_jobs_ended_and_that_one_can_never_run() -> None:
    jobs = [ref("1207.pbs"), ref("1208.pbs"), ref("1209.pbs")]
    states = scheduler_of("pbs").states(jobs, Output(0, pbs.OPENPBS))
    assert scheduler_of("pbs").explain(states["1207.pbs"]).text == "It will not start: no node has that many GPUs."
    assert (states["1208.pbs"].phase, states["1209.pbs"].phase) == (Phase.TIMED_OUT, Phase.FAILED)
    assert (states["1209.pbs"].exit_code, states["1209.pbs"].nodes) == (3, "node1,node2")
    ended = heard(scheduler_of("pbs").history(jobs), Output(0, pbs.OPENPBS))
    assert set(ended) == {"1208.pbs", "1209.pbs"}


def test_torques_words_for_unknown_and_down() -> None:
    states = scheduler_of("pbs").states
    assert states([ref("99999")], Output(153, err=pbs.TORQUE_UNKNOWN))["99999"].phase is Phase.GONE
    assert states([ref("99999")], Output(255, err=pbs.TORQUE_DOWN))["99999"].phase is Phase.SILENT
    assert scheduler_of("pbs").submitted(Output(0, pbs.SUBMITTED_TORQUE)).id == "8231.login.example.org"
    assert heard(scheduler_of("pbs").history([ref("4")]), Output(2, err=pbs.NO_OPTION_X)) == {}


def test_slurms_qstat_does_not_tell_how_a_job_ended() -> None:
    assert scheduler_of("pbs").states([ref("4")], Output(0, pbs.QSTAT))["4"].phase is Phase.GONE


def test_a_queues_limits() -> None:
    limits = heard(scheduler_of("pbs").limits("gpu"), Output(0, pbs.QUEUE))
    assert (limits.time, limits.nodes) == (48 * 3600, 64)


def test_mnq_with_other_columns() -> None:
    states = scheduler_of("mnsubmit").states([ref("41"), ref("42")], Output(0, mnsubmit.MNQ_LONG))
    assert states["41"] == JobState(
        id="41", phase=Phase.RUNNING, name="c0f3d6c528f0e4c", nodes="nvb[12-13]", limit=3600
    )
    assert states["42"].reason == "Nodes required for job are DOWN"


@pytest.mark.parametrize(
    ("word", "reason", "phase", "said"),
    [
        ("RESV_DEL_HOLD", "Reservation wed was deleted", Phase.PENDING, "ReservationDeleted"),
        ("RD", "x", Phase.PENDING, "ReservationDeleted"),
        ("EXPEDITING", "None", Phase.PENDING, "None"),
        ("POWER_UP_NODE", "None", Phase.PENDING, "None"),
        ("LAUNCH_FAILED", "launch failed requeued held", Phase.PENDING, "JobLaunchFailure"),
        ("REQUEUE_FED", "None", Phase.REQUEUED, "None"),
        ("REQUEUE_HOLD", "x", Phase.REQUEUED, "job requeued in held state"),
        ("SPECIAL_EXIT", "None", Phase.REQUEUED, "job requeued in held state"),
        ("SE", "None", Phase.REQUEUED, "job requeued in held state"),
        ("STOPPED", "None", Phase.SUSPENDED, "None"),
        ("SUSPENDED", "None", Phase.SUSPENDED, "None"),
        ("SIGNALING", "None", Phase.RUNNING, "None"),
        ("STAGE_OUT", "None", Phase.COMPLETING, "None"),
        ("REVOKED", "None", Phase.UNKNOWN, "REVOKED"),
        ("RECONFIG_FAIL", "None", Phase.UNKNOWN, "RECONFIG_FAIL"),
        ("A_WORD_OF_TOMORROW", "None", Phase.UNKNOWN, "A_WORD_OF_TOMORROW"),
        ("ZZ", "", Phase.UNKNOWN, "ZZ"),
    ],
)
def test_a_job_that_the_scheduler_lists_is_known_whatever_it_says_of_it(
    word: str, reason: str, phase: Phase, said: str
) -> None:
    line = f"5|{word}|{reason}||N/A|N/A|10:00|1|clew-11111111-1111-4111-8111-111111111111"
    state = scheduler_of("slurm").states([ref("5")], Output(0, line + "\n"))["5"]
    assert (state.phase, state.reason) == (phase, said)
    assert conclude(state, looked=True) == state, "it is not over"
    assert scheduler_of("slurm").states([ref("6")], Output(0, line + "\n"))["6"].phase is Phase.GONE
    table = f"JOBID NAME ST NODELIST(REASON)\n5 c0f3d6c5 {word} ({said})\n"
    assert scheduler_of("mnsubmit").states([ref("5")], Output(0, table))["5"].phase is phase


@pytest.mark.parametrize(
    ("word", "reason", "text", "blocked"),
    [
        ("SPECIAL_EXIT", "job requeued in held state", "is held. `scontrol release` lets it go.", True),
        ("REQUEUE_HOLD", "None", "is held. `scontrol release` lets it go.", True),
        ("PENDING", "job_requeued_in_held_state", "is held. `scontrol release` lets it go.", True),
        ("PENDING", "user env retrieval failed requeued held", "(user env retrieval failed requeued held)", True),
        ("PENDING", "JobHeldUser", "you have held it.", True),
        ("PENDING", "JobHeldAdmin", "an administrator has held it.", True),
        ("LAUNCH_FAILED", "None", "its start failed.", True),
        ("RESV_DEL_HOLD", "None", "its reservation does not exist any more.", True),
        ("REQUEUED", "BeginTime", "The job was put back into the queue, and will start again.", False),
        ("REVOKED", "None", "The scheduler calls the job's state REVOKED, which Clew does not know.", False),
    ],
)
def test_a_job_that_is_held_or_in_an_unknown_state_says_so(word: str, reason: str, text: str, blocked: bool) -> None:
    line = f"5|{word}|{reason}||N/A|N/A|10:00|1|clew-{JOB}\n"
    state = scheduler_of("slurm").states([ref("5")], Output(0, line))["5"]
    said = describe(state, scheduler_of("slurm"))
    assert text in said.text
    assert said.blocked is blocked


@pytest.mark.parametrize(("letter", "reason"), [("Y", "Y"), ("M", "M"), ("", "")])
def test_a_job_of_pbs_in_a_state_of_tomorrow_is_known(letter: str, reason: str) -> None:
    text = f"Job Id: 7.server\n    Job_Name = clew\n    job_state = {letter}\n"
    state = scheduler_of("pbs").states([ref("7.server")], Output(0, text))["7.server"]
    assert (state.phase, state.reason) == (Phase.UNKNOWN, reason)
    called = f"calls the job's state {letter}, which Clew does not know" if letter else "does not name the job's state"
    assert describe(state, scheduler_of("pbs")).text == f"The scheduler {called}. Clew keeps asking."


# --- Asked again, in another way --------------------------------------------------------------------------------------

HELD = slurm.SCONTROL.replace("JobState=RUNNING Reason=None", "JobState=SPECIAL_EXIT Reason=job_requeued_in_held_state")


def test_a_job_that_is_not_listed_is_asked_for_in_another_way() -> None:
    again = scheduler_of("slurm").heard_again
    state = again(ref("7;serial"), Output(0, slurm.SCONTROL))
    assert state == JobState(
        id="7;serial",
        phase=Phase.RUNNING,
        name=f"clew-{JOB}",
        reason="None",
        nodes="node1",
        start=1795750030.0,
        end=1795750630.0,
        limit=600,
    )
    held = again(ref("7"), Output(0, HELD))
    assert held is not None
    assert (held.phase, describe(held, scheduler_of("slurm")).blocked) == (Phase.REQUEUED, True)
    by_name = again(ref(""), Output(0, slurm.SCONTROL))
    assert by_name is not None
    assert by_name.id == "7"
    gone = slurm.SCONTROL.replace("RUNNING", "FAILED").replace(" NodeList=node1", " NodeList=(null)")
    assert again(ref(""), Output(0, gone)) is None, "it was refused"
    assert again(ref("8"), Output(0, slurm.SCONTROL)) is None


@pytest.mark.parametrize("name", ["slurm", "mnsubmit", "pbs"])
def test_only_an_answer_or_the_lack_of_such_a_command_says_that_there_is_no_such_job(name: SchedulerName) -> None:
    again = scheduler_of(name).heard_again
    assert again(ref("7"), Output(0)) is None
    assert again(ref("7"), Output(153 if name == "pbs" else 1, err=slurm.UNKNOWN)) is None
    assert again(ref("7"), Output(127, err="sh: 1: not found")) is None
    if name != "pbs":
        assert again(ref("7"), Output(1, err="slurm_load_jobs error: Access/permission denied")) is None
    silent = (Output(1, err=slurm.DOWN), Output(0, late=True), Output(255, err=pbs.TORQUE_DOWN))
    assert [state.phase for one in silent if (state := again(ref("7"), one)) is not None] == [Phase.SILENT] * 3


def test_a_job_of_pbs_that_is_not_listed_is_looked_for_among_ones_own() -> None:
    again = scheduler_of("pbs").heard_again
    running, other = again(ref("16.server"), Output(0, pbs.QSTAT)), again(ref("99"), Output(0, pbs.QSTAT))
    assert running is not None
    assert (running.id, running.phase, other) == ("16.server", Phase.RUNNING, None)
    by_name = again(ref(""), Output(0, pbs.QSTAT))
    assert by_name is not None
    assert by_name.id == "16", "17 was refused"
