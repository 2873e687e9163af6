"""The schedulers: Slurm, its Torque front end, and the stand-ins for what only MinoTauro and Blue Waters had."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.cluster.mini import LIMIT_S, MiniCluster

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(300)]


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Poll until it holds; the bound is for a loaded computer."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {LIMIT_S:.0f} s for {what}"
        time.sleep(0.3)


def output_of(cluster: MiniCluster, job: str, path: str) -> list[str]:
    """The lines that a job wrote, once it ended."""
    wait_for(lambda: cluster.job_state(job) not in {"PENDING", "RUNNING", "CONFIGURING", "COMPLETING"}, f"job {job}")
    return cluster.on("login", "cat", path).splitlines()


def write(cluster: MiniCluster, path: str, text: str) -> None:
    cluster.on("login", f"cat > {path}", input=text)


# --- Slurm ------------------------------------------------------------------------------------------------------------


def test_sbatch_runs_on_node2_with_two_of_its_gpus(cluster: MiniCluster) -> None:
    job = cluster.submit(
        "hostname; id -un; echo $CUDA_VISIBLE_DEVICES", "--nodelist=node2", "--gres=gpu:2", "--output=gpu"
    )
    assert output_of(cluster, job, "gpu") == ["node2", "student", "0,1"]


def test_srun_spreads_over_three_nodes(cluster: MiniCluster) -> None:
    assert sorted(cluster.on("login", "srun", "--nodes=3", "hostname").split()) == ["node1", "node2", "node3"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gres=gpu:5"], "Requested node configuration is not available"),
        (["--partition=huge"], "invalid partition specified"),
        (["--reservation=yesterday"], "Requested reservation is invalid"),
    ],
)
def test_impossible_requests_are_refused(cluster: MiniCluster, options: list[str], message: str) -> None:
    done = cluster.call("on", "login", "sbatch", *options, "--wrap=true")
    assert done.returncode != 0
    assert message in done.stderr


def test_partitions_have_limits_of_their_own(cluster: MiniCluster) -> None:
    limits = cluster.on("login", "sinfo", "--noheader", "--format=%R %l %D").splitlines()
    assert sorted(limits) == ["debug 1:00:00 3", "gpu 1:00:00 1", "short 2:00 2", "training 1:00:00 3"]
    job = cluster.submit("true", "--partition=short", "--time=5")
    wait_for(lambda: reason(cluster, job) == "PartitionTimeLimit", "the reason")
    cluster.on("login", "scancel", job)


def reason(cluster: MiniCluster, job: str) -> str:
    return cluster.on("ctl", "squeue", "--noheader", f"--jobs={job}", "--format=%r")


def test_a_job_is_held_and_released_by_the_administrator(cluster: MiniCluster) -> None:
    job = cluster.submit("echo ran", "--hold", "--output=held")
    wait_for(lambda: reason(cluster, job) == "JobHeldUser", "the reason")
    cluster.on("ctl", "scontrol", "release", job)
    assert output_of(cluster, job, "held") == ["ran"]


def test_a_job_is_cancelled_and_requeued_from_outside(cluster: MiniCluster) -> None:
    job = cluster.submit("echo start $SLURM_RESTART_COUNT; sleep 100", "--output=again")
    wait_for(lambda: cluster.job_state(job) == "RUNNING", "the job")
    cluster.on("ctl", "scontrol", "requeue", job)
    wait_for(lambda: cluster.job_state(job) == "PENDING", "the requeue")
    cluster.on("ctl", "scancel", job)
    wait_for(lambda: cluster.job_state(job) == "CANCELLED", "the end")


def test_who_takes_more_memory_than_asked_for_is_ended(cluster: MiniCluster) -> None:
    """By the kernel where it keeps the limit, else by Slurm that looks from time to time."""
    script = "a=$(head -c 200000000 /dev/zero | tr '\\0' x); sleep 100"
    job = cluster.submit(script, "--mem=100", "--output=memory")
    by_kernel = cluster.info()["memory"] == "kernel"
    said, state = ("oom-kill event", "OUT_OF_MEMORY") if by_kernel else ("exceeded memory limit", "FAILED")
    assert said in output_of(cluster, job, "memory")[0]
    assert cluster.job_state(job) == state


def test_a_reservation_can_be_made_and_used(cluster: MiniCluster) -> None:
    # A job of another test may still be leaving the node, and Slurm reserves a busy one only when told to.
    node, jobs = "nodes=node1", "flags=ignore_jobs"
    what = ["reservationname=lab", "starttime=now", "duration=10", "users=student", node, jobs]
    cluster.on("ctl", "scontrol", "create", "reservation", *what)
    try:
        assert cluster.on("login", "srun", "--reservation=lab", "hostname") == "node1"
    finally:
        cluster.on("ctl", "scontrol", "delete", "reservationname=lab")


# --- Torque and Blue Waters -------------------------------------------------------------------------------------------

BLUE_WATERS = """#!/bin/bash
#PBS -l nodes=2:ppn=16:xk,walltime=00:05:00
#PBS -N cnn
cd $PBS_O_WORKDIR
sort -u $PBS_NODEFILE
aprun -n 2 -N 1 bash -c 'echo $ALPS_APP_PE on $(hostname)'
"""


def test_qsub_runs_a_script_of_torque(cluster: MiniCluster) -> None:
    write(
        cluster,
        "job.pbs",
        '#!/bin/bash\n#PBS -l nodes=1:ppn=2\ncd "$PBS_O_WORKDIR"\necho $PBS_JOBID; cat $PBS_NODEFILE\n',
    )
    job = cluster.on("login", "qsub", "job.pbs")
    lines = output_of(cluster, job, f"job.pbs.o{job}")
    assert lines[0] == job
    assert lines[1:] in ([node, node] for node in ("node1", "node2", "node3"))
    assert job in cluster.on("login", "qstat")


@pytest.mark.parametrize("how", ["qsub bw.pbs", "qsub < bw.pbs", "qsub -l nodes=2:ppn=16:xk bw.pbs"])
def test_a_script_of_blue_waters_starts_a_process_on_each_node(cluster: MiniCluster, how: str) -> None:
    write(cluster, "bw.pbs", BLUE_WATERS)
    job = cluster.on("login", how)
    name = "STDIN" if "<" in how else "bw.pbs"
    *nodes, one, other, last = output_of(cluster, job, f"{name}.o{job}")
    assert {one, other} == {f"{number} on {node}" for number, node in enumerate(nodes)}
    assert last.startswith(f"Application {job} resources: utime ")


def test_aprun_outside_a_job_is_refused(cluster: MiniCluster) -> None:
    assert "qsub" in cluster.call("on", "login", "aprun", "-n", "1", "hostname").stderr


def test_qdel_cancels(cluster: MiniCluster) -> None:
    write(cluster, "waits.pbs", "#!/bin/bash\ntrue\n")
    job = cluster.on("login", "qsub", "-h", "waits.pbs")
    cluster.on("login", "qdel", job)
    wait_for(lambda: cluster.job_state(job) == "CANCELLED", "the end")


# --- MinoTauro --------------------------------------------------------------------------------------------------------

# Spelled as the course's scripts are: spaces where they fell, quotes, a comment, a line that no shell understands.
MINOTAURO = """#!/bin/bash
# @ job_name="lab 1"
#@ initialdir = .
# @ output= mn_%j.out
# @ error= mn_%j.err
## @ bogus = 3
# @ total_tasks= 1
#\t@ gpus_per_node\t= 4
# @ cpus_per_task = 2
# @ features= k80
# @ class = training
# @ wall_clock_limit= 00:00:03
#@ queue
#SBATCH --comment=kept

::Code for the course
module purge
module load K80 cuda/8.0 mkl/2017.1 CUDNN/5.1.10-cuda_8.0
echo $SLURM_JOB_NAME, $SLURM_JOB_PARTITION, $SLURM_CPUS_PER_TASK, $CUDA_VISIBLE_DEVICES, $LOADEDMODULES
scontrol show job $SLURM_JOB_ID | grep -oE '(Features|TimeLimit|Comment)=[^ ]*'
"""


def test_mnsubmit_reads_its_directives_and_slurms(cluster: MiniCluster) -> None:
    write(cluster, "lab.cmd", MINOTAURO)
    answer = cluster.on("login", "mnsubmit", "lab.cmd")
    job = answer.removeprefix("Submitted batch job ")
    lines = output_of(cluster, job, f"mn_{job}.out")
    assert lines[0] == "lab 1, training, 2, 0,1,2,3, K80/default:cuda/8.0:mkl/2017.1:CUDNN/5.1.10-cuda_8.0"
    assert set(lines[1:]) == {"TimeLimit=00:01:00", "Features=k80", "Comment=kept"}
    assert "::Code" in cluster.on("login", "cat", f"mn_{job}.err")


def test_an_unknown_directive_is_refused(cluster: MiniCluster) -> None:
    write(cluster, "wrong.cmd", "#!/bin/bash\n# @ gpus = 4\n")
    done = cluster.call("on", "login", "mnsubmit", "wrong.cmd")
    assert (done.returncode, done.stderr) == (1, "mnsubmit: unknown directive 'gpus' in wrong.cmd\n")


def test_mnq_shows_ones_own_jobs_and_mncancel_ends_them(cluster: MiniCluster) -> None:
    own = cluster.submit("true", "--hold")
    other = cluster.on("classmate@login", "sbatch", "--parsable", "--hold", "--wrap=true")
    listed = [line.split()[0] for line in cluster.on("login", "mnq").splitlines()[1:]]
    assert own in listed
    assert other not in listed
    assert "Access/permission denied" in cluster.call("on", "login", "mncancel", other).stderr
    cluster.on("login", "mncancel", own)
    cluster.on("classmate@login", "mncancel", other)
    wait_for(lambda: {cluster.job_state(own), cluster.job_state(other)} == {"CANCELLED"}, "the end")


def test_mnsh_is_a_shell_on_a_node_with_a_gpu(cluster: MiniCluster) -> None:
    lines = cluster.on("login", "mnsh", "-k", "-g", input="hostname\necho gpu $CUDA_VISIBLE_DEVICES\n").splitlines()
    assert lines[0].startswith("node")
    assert lines[1].startswith("gpu ")
    assert lines[1] != "gpu "


def test_mnsh_has_a_terminal_where_there_is_one(cluster: MiniCluster) -> None:
    """``script`` gives the command a terminal of its own."""
    shown = cluster.on("login", "script", "-qec", "mnsh -k", "/dev/null", input="tty; hostname; exit\n")
    assert "/dev/pts/" in shown
