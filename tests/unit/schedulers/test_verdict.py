"""What a scheduler's answer means after an earlier one, and how it all ends. No clock but ours."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.schedulers.pbs import pbs_reason
from clew_gui.schedulers.registry import NAMES, scheduler_of
from clew_gui.schedulers.slurm_reasons import slurm_reason
from clew_gui.schedulers.state import ENDED, JobState, JobUse, PartitionLimits, Phase
from clew_gui.schedulers.verdict import (
    NEVER_BEGAN,
    NO_TRACE,
    ExitRecord,
    conclude,
    follow,
    parse_record,
    state_of_record,
)
from clew_gui.schedulers.words import describe

JOB = "0f3d6c52-8f0e-4c1b-9a70-3b6a4b1f2c11"


def a_state(phase: Phase, reason: str = "", **fields: object) -> JobState:
    return JobState(id="7", phase=phase, reason=reason, **fields)  # type: ignore[arg-type]


def test_a_job_that_ran_and_waits_for_a_reason_was_requeued() -> None:
    now = follow(a_state(Phase.RUNNING), a_state(Phase.PENDING, "BeginTime"))
    assert (now.phase, now.reason) == (Phase.REQUEUED, "BeginTime")


def test_a_controller_that_has_forgotten_the_last_seconds_is_not_believed() -> None:
    before = a_state(Phase.RUNNING, nodes="node1")
    assert follow(before, a_state(Phase.PENDING, "None")) == before


@pytest.mark.parametrize("now", [Phase.RUNNING, Phase.COMPLETED, Phase.GONE])
def test_other_answers_stand_for_themselves(now: Phase) -> None:
    assert follow(a_state(Phase.RUNNING), a_state(now)).phase is now
    assert follow(None, a_state(now)).phase is now


# --- How it ended -----------------------------------------------------------------------------------------------------


def a_record(state: str, why: str, **fields: object) -> ExitRecord:
    return ExitRecord(job=JOB, state=state, why=why, began=1000, until=8200, written=2000, **fields)  # type: ignore[arg-type]


ENDS: list[tuple[str, JobState, JobState | None, ExitRecord | None, Phase, str]] = [
    ("finished, no accounts", a_state(Phase.GONE), None, a_record("ended", "finished", code=0), Phase.COMPLETED, ""),
    ("cancelled", a_state(Phase.CANCELLED), None, a_record("ended", "terminated"), Phase.CANCELLED, ""),
    ("asked to end, and did", a_state(Phase.CANCELLED), None, a_record("ended", "finished"), Phase.CANCELLED, ""),
    ("its own time-out", a_state(Phase.FAILED, exit_code=124), None, a_record("ended", "time"), Phase.TIMED_OUT, ""),
    ("killed in its last words", a_state(Phase.GONE), None, a_record("ending", "terminated"), Phase.CANCELLED, ""),
    ("out of memory", a_state(Phase.OUT_OF_MEMORY), None, a_record("ended", "terminated"), Phase.OUT_OF_MEMORY, ""),
    ("node failed", a_state(Phase.NODE_FAILED), None, a_record("running", ""), Phase.NODE_FAILED, ""),
    ("accounts say who", a_state(Phase.GONE), a_state(Phase.CANCELLED, by="20001"), None, Phase.CANCELLED, "by 20001"),
    ("accounts say the limit", a_state(Phase.GONE), a_state(Phase.TIMED_OUT), None, Phase.TIMED_OUT, ""),
    ("no trace", a_state(Phase.GONE), None, a_record("running", ""), Phase.GONE, NO_TRACE),
    ("never began", a_state(Phase.GONE), None, None, Phase.GONE, NEVER_BEGAN),
    ("still running", a_state(Phase.RUNNING), None, a_record("ended", "finished"), Phase.RUNNING, ""),
    ("silent", a_state(Phase.SILENT), None, a_record("ended", "finished"), Phase.SILENT, ""),
]


@pytest.mark.parametrize(
    ("queue", "accounts", "record", "phase", "more"), [end[1:] for end in ENDS], ids=[e[0] for e in ENDS]
)
def test_what_became_of_a_job(
    queue: JobState, accounts: JobState | None, record: ExitRecord | None, phase: Phase, more: str
) -> None:
    found = conclude(queue, accounts, record)
    assert found.phase is phase
    assert more in (found.reason, f"by {found.by}" if found.by else "", "")
    if accounts is not None and phase in ENDED:
        counted = msgspec.structs.replace(accounts, use=JobUse(waited=720.0))
        assert conclude(queue, counted, record).use.waited == 720.0, "whoever knows best how it ended"


BY_SLURM = {"slurm", "mnsubmit", "pbs"}
"""Slurm's words, also behind its front ends."""


@pytest.mark.parametrize(
    ("printed", "by"),
    [
        (
            "slurmstepd-node1: error: StepId=1.batch exceeded memory limit (121106432 > 104857600), being killed",
            BY_SLURM,
        ),
        ("slurmstepd-node1: error: Exceeded job memory limit", BY_SLURM),
        (
            "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.batch. Some of your processes may have",
            BY_SLURM,
        ),
        ("=>> PBS: job killed: mem 2101248kb exceeded limit 2097152kb", {"pbs"}),
        ("slurmstepd: error: *** JOB 4 ON node1 CANCELLED AT 2026-11-22T06:15:32 ***", set()),
        ("Please loom killers. The room killed me.", set()),
        ("", set()),
    ],
)
def test_what_a_scheduler_prints_says_that_the_memory_ran_out(printed: str, by: set[str]) -> None:
    assert {name for name in NAMES if scheduler_of(name).ran_out_of_memory(printed)} == by


@pytest.mark.parametrize("ran_out", [True, False])
def test_where_the_scheduler_calls_it_failed_its_words_in_the_output_count(ran_out: bool) -> None:
    expected = Phase.OUT_OF_MEMORY if ran_out else Phase.FAILED
    assert conclude(a_state(Phase.FAILED), None, a_record("running", ""), out_of_memory=ran_out).phase is expected
    kept = conclude(a_state(Phase.FAILED), None, a_record("ended", "crashing", code=1), out_of_memory=ran_out)
    assert (kept.phase, kept.reason) == (Phase.FAILED, "keeper: crashing"), "the keeper knew better"
    assert conclude(a_state(Phase.CANCELLED), out_of_memory=ran_out).phase is Phase.CANCELLED


@pytest.mark.parametrize("began", [True, False])
def test_a_job_whose_runs_have_all_ended_in_it_has_done_its_work_although_nobody_saw_it_end(began: bool) -> None:
    found = conclude(a_state(Phase.GONE), None, a_record("running", "", host="node1") if began else None, done=True)
    assert (found.phase, found.nodes) == ((Phase.COMPLETED, "node1") if began else (Phase.GONE, ""))
    cancelled = conclude(a_state(Phase.GONE), None, a_record("ended", "terminated"), done=True)
    assert cancelled.phase is Phase.CANCELLED, "its keeper saw it end"


def test_one_source_alone_ends_no_job() -> None:
    assert conclude(a_state(Phase.GONE), looked=False).phase is Phase.SILENT
    assert conclude(a_state(Phase.CANCELLED), looked=False).phase is Phase.CANCELLED


def test_a_job_that_was_ended_when_its_time_was_up_was_not_cancelled() -> None:
    late = ExitRecord(job=JOB, state="ended", why="terminated", began=1000, until=8200, written=8199)
    state = state_of_record(late, "7")
    assert state is not None
    assert state.phase is Phase.TIMED_OUT


def test_a_torn_record_and_another_jobs_are_none() -> None:
    whole = f"format=1\njob={JOB}\nstate=ended\nwhy=time\ndetail=\ncode=0\n"
    assert parse_record(whole, JOB) is not None
    assert parse_record(whole[:-8], JOB) is None
    assert parse_record(whole, JOB.replace("0", "1")) is None


def test_what_a_program_printed_last_is_no_line_of_the_record() -> None:
    lines = f"format=1\njob={JOB}\nstate=ended\nwhy=refused\ndetail=2 gone\u2028why=finished\ncode=2\n"
    record = parse_record(lines, JOB)
    assert record is not None
    assert (record.why, record.detail) == ("refused", "2 gone\u2028why=finished")


# --- In words ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (a_state(Phase.RUNNING, nodes="node[1-2]"), "The job runs on node[1-2]."),
        (a_state(Phase.PENDING, "Priority"), "Other jobs come first."),
        (a_state(Phase.FAILED, exit_code=3), "The job failed with exit code 3."),
        (a_state(Phase.FAILED, signal=9), "The job was killed by signal 9."),
        (a_state(Phase.FAILED, "keeper: module cuda/9"), "The module cuda/9 could not be loaded on the node."),
        (a_state(Phase.FAILED, "keeper: absent"), "The agent's program could not be started on the node."),
        (
            a_state(Phase.FAILED, "keeper: crashing 1 ImportError: no zmq"),
            "The agent crashed again and again on the node, with exit code 1: ImportError: no zmq.",
        ),
        (a_state(Phase.CANCELLED, by="20001"), "The job was cancelled by user 20001."),
        (a_state(Phase.TIMED_OUT, limit=7200), "The job reached its time limit of 2 hours."),
        (a_state(Phase.NODE_FAILED, nodes="node2"), "A node of the job failed on node2."),
        (a_state(Phase.GONE, NEVER_BEGAN), "The scheduler does not know the job, and nothing shows that it ever ran."),
        (
            a_state(Phase.SILENT, "no answer in time"),
            "The scheduler does not answer. That alone changes nothing for the job. It said: no answer in time.",
        ),
    ],
)
def test_a_state_as_a_sentence(state: JobState, text: str) -> None:
    assert describe(state, scheduler_of("slurm")).text == text


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("name", ["slurm", "pbs", "mnsubmit", "none"])
def test_every_state_has_a_sentence(phase: Phase, name: str) -> None:
    text = describe(a_state(phase), scheduler_of(name)).text  # type: ignore[arg-type]
    assert text.endswith(".")
    assert name != "none" or "scheduler" not in text


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("PartitionTimeLimit", "the partition's limit is 2 minutes, and it asks for 10 minutes."),
        ("PartitionConfig", "the partition's limit is 2 minutes, and it asks for 10 minutes."),
        ("AssocGrpCPUMinutesLimit", "your account has used up its minutes of CPU cores, or has too few left."),
        ("QOSMaxWallDurationPerJobLimit", "it asks for more time than its QOS allows a job."),
        ("QOSMaxGRESPerJob", "it asks for more GPUs than its QOS allows a job."),
        ("JobHeldUser", "you have held it. `scontrol release` lets it go."),
        ("DependencyNeverSatisfied", "the job that it waits for did not end as it should."),
    ],
)
def test_slurms_reasons_why_a_job_will_not_start(word: str, text: str) -> None:
    found = slurm_reason(word, PartitionLimits(time=120), 600)
    assert (found.text, found.blocked) == (f"It will not start: {text}", True)


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("AssocGrpGRES", "your account allows no more GPUs at a time; it starts when another job ends."),
        ("QOSMaxJobsPerUserLimit", "its QOS allows a person no more jobs at a time; it starts when another job ends."),
    ],
)
def test_slurms_reasons_why_a_job_waits(word: str, text: str) -> None:
    found = slurm_reason(word)
    assert (found.text, found.blocked) == (f"It waits: {text}", False)


def test_other_reasons_of_slurm() -> None:
    assert slurm_reason("Resources").text == "It is next, and waits until nodes are free."
    assert slurm_reason("SomethingNew").text == "It waits. The scheduler gives the reason 'SomethingNew'."
    nodes = slurm_reason("ReqNodeNotAvail, UnavailableNodes:node[1-2]")
    assert nodes.blocked
    assert nodes.text.endswith("reserved for others (node[1-2]).")


@pytest.mark.parametrize(
    ("word", "blocked"),
    [
        ("Not Running: Insufficient amount of resource: ngpus", False),
        ("Not Running: Node is in use", False),
        ("Can Never Run: Insufficient amount of resource ncpus", True),
        ("job held, too many failed attempts to run", True),
        ("Not Running: Queue not started.", True),
        ("held:o", True),
        ("waiting", False),
        ("", False),
    ],
)
def test_pbs_comments(word: str, blocked: bool) -> None:
    assert pbs_reason(word).blocked is blocked


@given(st.text(max_size=80))
def test_any_reason_has_a_sentence(word: str) -> None:
    assert slurm_reason(word).text
    assert pbs_reason(word).text
