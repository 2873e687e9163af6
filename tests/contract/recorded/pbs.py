"""Slurm's front end in the style of Torque (slurm-wlm-torque 22.05.8), and Torque's and OpenPBS' documented forms."""

from __future__ import annotations

SUBMITTED = "16\n"
SUBMITTED_TORQUE = "8231.login.example.org\n"
QSTAT = """\
Job Id:\t1
\tJob_Name = clew-a
\tJob_Owner = student@login
\tjob_state = R
\tqueue = gpu
\tqtime = Sat Nov 21 20:33:50 2026
\tmtime = Sat Nov 21 20:33:51 2026
\tctime = Sat Nov 21 20:38:51 2026
\texec_host = node3/1
\tPriority = 4294901759
\teuser = student(20001)
\tegroup = student(20001)
\tResource_List.walltime = 00:05:00
\tResource_List.nodect = 1
\tResource_List.ncpus = 1

Job Id:\t2
\tJob_Name = clew-b
\tJob_Owner = student@login
\tjob_state = Q
\tqueue = short
\tqtime = Sat Nov 21 20:33:50 2026
\tPriority = 4294901758
\teuser = student(20001)
\tegroup = student(20001)
\tResource_List.walltime = 00:10:00
\tResource_List.nodect = 1
\tResource_List.ncpus = 1

Job Id:\t4
\tJob_Name = wrap
\tJob_Owner = student@login
\tjob_state = C
\tqueue = debug
\tqtime = Sat Nov 21 20:33:51 2026
\tmtime = Sat Nov 21 20:33:51 2026
\tctime = Sat Nov 21 20:33:51 2026
\texec_host = node3/1
\tPriority = 4294901756
\teuser = student(20001)
\tegroup = student(20001)
\tResource_List.walltime = 00:10:00
\tResource_List.nodect = 1
\tResource_List.ncpus = 1

Job Id:\t17
\tJob_Name = c0f3d6c528f0e4c
\tJob_Owner = student@login
\tjob_state = C
\tqueue = gpu
\tqtime = Sat Nov 21 20:34:08 2026
\tmtime = Sat Nov 21 20:34:08 2026
\tctime = Sat Nov 21 20:34:08 2026
\tPriority = 4294901746
\teuser = student(20001)
\tegroup = student(20001)
\tResource_List.walltime = 00:05:00
\tResource_List.nodect = 1
\tResource_List.ncpus = 2

Job Id:\t16
\tJob_Name = c0f3d6c528f0e4c
\tJob_Owner = student@login
\tjob_state = R
\tqueue = gpu
\tqtime = Sat Nov 21 20:34:08 2026
\tmtime = Sat Nov 21 20:34:08 2026
\tctime = Sat Nov 21 20:39:08 2026
\texec_host = node3/2
\tPriority = 4294901747
\teuser = student(20001)
\tegroup = student(20001)
\tResource_List.walltime = 00:05:00
\tResource_List.nodect = 1
\tResource_List.ncpus = 2

"""
DOWN = "Problem loading jobs.\n"
DOWN_QSUB = """\
There was an error running the Slurm sbatch command.
The command was:
'/usr/bin/sbatch -e j.sh.e%A -o j.sh.o%A /tmp/tmp.h6a7AT8bqj/j.sh 2>&1'
and the output was:
'sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)
'
"""
REFUSED_QSUB = """\
There was an error running the Slurm sbatch command.
The command was:
'/usr/bin/sbatch -e abc.e%A -o abc.o%A -J abc -p nosuch /tmp/tmp.gVOYPFL7mW/j.sh 2>&1'
and the output was:
'sbatch: error: invalid partition specified: nosuch
 sbatch: error: Batch job submission failed: Invalid partition name specified
'
"""
NO_OPTION_X = "Unknown option: x\nUsage:\n    qstat [-f] [-a|-i|-r] [-n [-1]] [-G|-M] [-u user_list] [-? | --help]\n"

TORQUE = """\
Job Id: 8231.login.example.org
    Job_Name = c0f3d6c528f0e4c
    Job_Owner = student@login.example.org
    resources_used.cput = 00:41:10
    resources_used.mem = 812340kb
    resources_used.walltime = 00:05:02
    job_state = C
    queue = normal
    server = login.example.org
    exec_host = nid00012/15+nid00012/14+nid00013/15+nid00013/14
    exit_status = 271
    Resource_List.nodect = 2
    Resource_List.nodes = 2:ppn=2:xk
    Resource_List.walltime = 00:05:00
    Variable_List = PBS_O_QUEUE=normal,PBS_O_HOME=/u/student,
\tPBS_O_PATH=/usr/local/bin:/usr/bin:/bin,PBS_O_WORKDIR=/u/student,
\tPBS_O_SHELL=/bin/bash
    qtime = Sat Nov 21 20:01:00 2026
    start_time = Sat Nov 21 20:13:00 2026
    comp_time = Sat Nov 21 20:18:02 2026

Job Id: 8232.login.example.org
    Job_Name = held
    job_state = H
    Hold_Types = u
    Resource_List.walltime = 01:00:00

Job Id: 8233.login.example.org
    Job_Name = cancelled
    job_state = C
    exec_host = nid00014/0
    exit_status = 271
    resources_used.walltime = 00:00:31
    Resource_List.walltime = 01:00:00

Job Id: 8234.login.example.org
    Job_Name = greedy
    job_state = C
    exec_host = nid00014/0
    exit_status = -10
    Resource_List.walltime = 01:00:00
"""
"""The form of qstat(1B) of Torque: four blanks, long values go on behind a tab."""

OPENPBS = """\
Job Id: 1207.pbs
    Job_Name = waits
    job_state = Q
    Resource_List.walltime = 01:00:00
    comment = Can Never Run: Insufficient amount of resource ngpus (R: 8 A: 4 T: 4)

Job Id: 1208.pbs
    Job_Name = over
    job_state = F
    exec_host = node1/0*4
    Exit_status = -29
    Resource_List.walltime = 00:10:00
    stime = Sat Nov 21 20:13:00 2026

Job Id: 1209.pbs
    Job_Name = fails
    job_state = F
    exec_host = node1/0*4+node2/0*4
    Exit_status = 3
"""
"""The form of qstat(1B) of OpenPBS."""
TORQUE_UNKNOWN = "qstat: Unknown Job Id Error 99999.login.example.org\n"
TORQUE_DOWN = "qstat: cannot connect to server login.example.org (errno=111) Connection refused\n"
QUEUE = """\
Queue: normal
    queue_type = Execution
    resources_max.nodect = 64
    resources_max.walltime = 48:00:00
    enabled = True
"""
