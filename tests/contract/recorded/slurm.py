"""Slurm 22.05.8 (Debian), run with TZ=UTC0; accounting was off but for ``SACCT``, whose form is that of sacct(1)."""

from __future__ import annotations

SUBMITTED = "25\n"
SUBMITTED_WORDS = "Submitted batch job 2\n"
SQUEUE = """\
7|CANCELLED|None|node3|2026-11-21T20:33:52|2026-11-21T20:33:55|10:00|1|wrap
4|FAILED|NonZeroExitCode|node3|2026-11-21T20:33:51|2026-11-21T20:33:51|10:00|1|wrap
3|PENDING|PartitionNodeLimit||N/A|N/A|10:00|4|wrap
6|PENDING|DependencyNeverSatisfied||N/A|N/A|10:00|1|wrap
5|PENDING|JobHeldUser||N/A|N/A|10:00|1|wrap
1|RUNNING|None|node3|2026-11-21T20:33:51|2026-11-21T20:38:51|5:00|1|clew-a
2|PENDING|PartitionTimeLimit||N/A|N/A|10:00|1|clew-b
"""
SQUEUE_REFUSED = "18|FAILED|BadConstraints||2026-11-21T20:34:54|2026-11-21T20:34:54|10:00|1|clew-r\n"
SCONTROL = (
    "JobId=7 JobName=clew-0f3d6c52-8f0e-4c1b-9a70-3b6a4b1f2c11 UserId=student(20001) GroupId=student(20001) "
    "MCS_label=N/A Priority=4294901759 Nice=0 Account=(null) QOS=(null) JobState=RUNNING Reason=None Dependency=(null) "
    "Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0 RunTime=00:00:01 TimeLimit=00:10:00 TimeMin=N/A "
    "SubmitTime=2026-11-27T03:27:09 EligibleTime=2026-11-27T03:27:09 AccrueTime=2026-11-27T03:27:09 "
    "StartTime=2026-11-27T03:27:10 EndTime=2026-11-27T03:37:10 Deadline=N/A SuspendTime=None SecsPreSuspend=0 "
    "LastSchedEval=2026-11-27T03:27:10 Scheduler=Main Partition=debug AllocNode:Sid=login:0 ReqNodeList=(null) "
    "ExcNodeList=(null) NodeList=node1 BatchHost=node1 NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 "
    "ReqB:S:C:T=0:0:*:* TRES=cpu=1,mem=4000M,node=1,billing=1 Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=* "
    "Features=(null) OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null) Command=/home/student/job.sh "
    "WorkDir=/home/student StdErr=/home/student/slurm-7.out StdIn=/dev/null StdOut=/home/student/slurm-7.out Power= \n"
)
"""``scontrol --oneliner show job 7``"""
UNKNOWN = "slurm_load_jobs error: Invalid job id specified\n"
DOWN = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
DOWN_SBATCH = "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n"
NO_ACCOUNTS = "Slurm accounting storage is disabled\n"
SINFO = """\
1:00:00|1-infinite|3|debug*
2:00|1-infinite|2|short
1:00:00|1-infinite|1|gpu
"""
SACCT = """\
31|CANCELLED by 20001|0:15|2026-11-21T20:33:52|2026-11-21T20:33:55|node3|10|2026-11-21T20:33:40||0|clew-x
31.batch|CANCELLED|0:15|2026-11-21T20:33:52|2026-11-21T20:33:55|node3||2026-11-21T20:33:52|0|0|batch
32|OUT_OF_MEMORY|0:125|2026-11-21T20:33:52|2026-11-21T20:33:55|node3|10|2026-11-21T20:33:52|||clew-y
33|TIMEOUT|0:0|2026-11-21T20:33:52|2026-11-21T20:43:55|node[1-3]|10|2026-11-21T20:21:52||812000|clew-z
33.batch|CANCELLED|0:15|2026-11-21T20:33:52|2026-11-21T20:43:56|node1||2026-11-21T20:33:52|1024000K|270000|batch
33.extern|COMPLETED|0:0|2026-11-21T20:33:52|2026-11-21T20:43:55|node[1-3]||2026-11-21T20:33:52|1.50M|812000|extern
33.0|COMPLETED|0:0|2026-11-21T20:34:52|2026-11-21T20:43:55|node[2-3]||2026-11-21T20:34:52|3G|540000|clew-agent
34|NODE_FAIL|0:0|2026-11-21T20:33:52|2026-11-21T20:43:55|node2|10|Unknown||18446744073709551614|clew-n
35|FAILED|3:0|2026-11-21T20:33:52|2026-11-21T20:43:55|node2|10|2026-11-21T20:33:50||4294967294|clew-f
36|CANCELLED by 0|0:0|None|2026-11-21T20:43:55|None assigned|UNLIMITED|2026-11-21T20:33:50|||clew-q
"""
REFUSALS = {
    "partition": "sbatch: error: invalid partition specified: nosuch\n"
    "sbatch: error: Batch job submission failed: Invalid partition name specified\n",
    "nodes": "sbatch: error: Batch job submission failed: Requested node configuration is not available\n",
    "reservation": "sbatch: error: Batch job submission failed: Requested reservation is invalid\n",
    "features": "sbatch: error: Batch job submission failed: Invalid feature specification\n",
    "gpus": "sbatch: error: Invalid generic resource (gres) specification\n",
    "directive": "sbatch: unrecognized option '--bad'\nTry \"sbatch --help\" for more information\n",
    "account": "sbatch: error: Batch job submission failed: "
    "Invalid account or account/partition combination specified\n",
    "qos": "sbatch: error: Batch job submission failed: Invalid qos specification\n",
    "silent": DOWN_SBATCH,
}
"""By the last part of the problem's code."""
