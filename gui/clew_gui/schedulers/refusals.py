"""What schedulers say when they do not take a job, as problems with a hint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from clew_gui.schedulers.state import Output, Submitted
from clew_shared.base.problem import Problem


class Refusal(NamedTuple):
    """A pattern in the scheduler's answer, the code for programs, the field concerned, the sentence and the hint."""

    pattern: str
    code: str
    where: str
    text: str
    hint: str


SLURM: Sequence[Refusal] = (
    Refusal(
        r"invalid partition", "partition", "partition", "There is no such partition.", "`sinfo -s` lists what there is."
    ),
    Refusal(
        r"user'?s? group not permitted to use this partition|not permitted to use .*partition|Job violates "
        r"accounting/QOS policy.*partition",
        "partition",
        "partition",
        "You may not use this partition.",
        "Choose another one, or ask the site's support.",
    ),
    Refusal(
        r"invalid account|not a member of account|account .*(does not exist|expired)",
        "account",
        "account",
        "The scheduler does not accept this account, or not in this partition.",
        "`sacctmgr show assoc user=$USER` lists yours.",
    ),
    Refusal(r"invalid qos", "qos", "qos", "There is no such QOS, or you may not use it.", "Leave it empty."),
    Refusal(
        r"reservation.*(invalid|not.*exist|expired)|requested reservation|access denied to.*reservation|"
        r"problem using reservation",
        "reservation",
        "reservation",
        "The reservation does not exist, is over, or is not for you.",
        "Ask the teacher for today's name, or leave it empty.",
    ),
    Refusal(
        r"requested time limit is invalid|time limit.*(exceeds|too)|partition time limit|PartitionTimeLimit",
        "time",
        "time",
        "More time is asked for than is allowed here.",
        "`sinfo -o '%P %l'` shows the limits.",
    ),
    Refusal(
        r"invalid generic resource|invalid (gres|tres) spec|gres.*(invalid|not.*available)",
        "gpus",
        "gpus",
        "There are no GPUs of this name here.",
        "`sinfo -o '%P %G'` shows what they are called.",
    ),
    Refusal(
        r"requested node configuration is not available|node count specification invalid|more processors requested|"
        r"invalid node name",
        "nodes",
        "nodes",
        "No node, or not enough of them, has what the job asks for.",
        "Ask for fewer GPUs, cores or nodes, or choose another partition.",
    ),
    Refusal(
        r"invalid feature",
        "features",
        "features",
        "No node has these features.",
        "`sinfo -o '%P %f'` shows what there is.",
    ),
    Refusal(
        r"job violates accounting/qos policy|QOSMax|AssocMax|AssocGrp|job submit limit",
        "limit",
        "",
        "The job would exceed what your account or QOS allows.",
        "Ask for less, or wait until other jobs have ended.",
    ),
    Refusal(
        r"unable to contact slurm controller|socket timed out|connection refused|unexpected message received|"
        r"slurm backup controller in standby",
        "silent",
        "",
        "The scheduler does not answer.",
        "Clew looks for the job by its name before it is sent again.",
    ),
    Refusal(
        r"unrecognized option|invalid option|unknown directive",
        "directive",
        "extra",
        "The scheduler does not know one of the lines.",
        "Look at the site's extra lines.",
    ),
    Refusal(
        r"memory specification can not be satisfied|memory.*(exceeds|invalid)",
        "memory",
        "extra",
        "More memory is asked for than a node has.",
        "Ask for less in the site's extra lines.",
    ),
    Refusal(r"disk quota|no space left", "disk", "", "There is no room left on the site's disk.", "Make room there."),
    Refusal(
        r"command not found|sbatch: not found|mnsubmit: not found|No such file or directory: 'sbatch'",
        "command",
        "scheduler",
        "The scheduler's commands are not found on this host.",
        "Is this the login node, and is the site's scheduler the right one?",
    ),
)

PBS: Sequence[Refusal] = (
    Refusal(
        r"unknown queue|illegal queue|Invalid partition",
        "partition",
        "partition",
        "There is no such queue.",
        "`qstat -q` lists what there is.",
    ),
    Refusal(
        r"unauthorized request|not permitted to use|access to queue is denied|ACL",
        "access",
        "partition",
        "You may not send this job to this queue.",
        "Choose another one, or ask the site's support.",
    ),
    Refusal(
        r"invalid account|invalid project|unknown project|account.*(invalid|not)",
        "account",
        "account",
        "The scheduler does not accept this account.",
        "Ask the site's support which one is yours.",
    ),
    Refusal(
        r"exceeds (queue|server|available).*(resource|walltime|partition|limit)|job exceeds queue resource limits|"
        r"violates queue and/or server resource limits",
        "limit",
        "time",
        "More time, nodes or cores are asked for than this queue allows.",
        "`qstat -q` shows the queues' limits.",
    ),
    Refusal(
        r"(unknown|illegal).*(resource|attribute)|invalid resource|cannot set attribute|nodes file|node spec",
        "nodes",
        "nodes",
        "The scheduler does not know what the job asks for: nodes, GPUs or features.",
        "`pbsnodes -a` shows what the nodes have.",
    ),
    Refusal(
        r"cannot locate feasible nodes|no nodes.*available|can never run|Requested node configuration is not available",
        "nodes",
        "nodes",
        "No node, or not enough of them, has what the job asks for.",
        "Ask for fewer GPUs, cores or nodes, or choose another queue.",
    ),
    Refusal(
        r"maximum number of jobs|would exceed.*limit|too many queued",
        "limit",
        "",
        "You have as many jobs as you may have.",
        "Wait until other jobs have ended.",
    ),
    Refusal(
        r"reservation",
        "reservation",
        "reservation",
        "The reservation does not exist, is over, or is not for you.",
        "Ask the teacher for today's name, or leave it empty.",
    ),
    Refusal(
        r"cannot connect|connection refused|pbs_iff|end of file|timed? ?out|Unable to contact slurm controller|"
        r"no default server name|batch protocol error",
        "silent",
        "",
        "The scheduler does not answer.",
        "Clew looks for the job by its name before it is sent again.",
    ),
    Refusal(
        r"command not found|qsub: not found",
        "command",
        "scheduler",
        "The scheduler's commands are not found on this host.",
        "Is this the login node, and is the site's scheduler the right one?",
    ),
)


def submission(output: Output, id_form: str, refusals: Sequence[Refusal]) -> Submitted:
    """The job's id where a line of the output has the form ``id_form``; else the refusal that is recognised.

    Sites' wrappers print lines of their own before and after, so all lines are looked at, the last one first.
    """
    if output.late:
        return Submitted()
    if output.code == 0:
        for line in reversed(output.out.splitlines()):
            match = re.fullmatch(id_form, line.strip())
            if match is not None:
                return Submitted(id=match[1])
    problem = _recognise(output, refusals)
    return Submitted() if output.code == 0 and problem.code == "scheduler.refused" else Submitted(problem=problem)


def _recognise(output: Output, refusals: Sequence[Refusal]) -> Problem:
    said = " / ".join(line.strip() for line in output.said.splitlines() if line.strip())[:400]
    for refusal in refusals:
        if re.search(refusal.pattern, output.said, re.IGNORECASE):
            text = f"{refusal.text} It said: {said}"
            return Problem(f"scheduler.{refusal.code}", text, refusal.hint, refusal.where)
    text = (
        f"The scheduler did not take the job: {said}"
        if said
        else (f"The scheduler's command ended with exit code {output.code} and without a word.")
    )
    return Problem("scheduler.refused", text, "The site's documentation may know this message.")


def is_silent(said: str) -> bool:
    """Whether this is the answer of a command that could not reach its scheduler."""
    patterns = (entry.pattern for table in (SLURM, PBS) for entry in table if entry.code in ("silent", "command"))
    return any(re.search(pattern, said, re.IGNORECASE) for pattern in patterns)
