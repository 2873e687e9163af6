"""The table of ``squeue``, which stands behind ``mnq``; MinoTauro's own programs are not to be had."""

from __future__ import annotations

SUBMITTED = "Submitted batch job 24\n"
MNQ = """\
             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
                 3     debug     wrap  student PD       0:00      4 (PartitionNodeLimit)
                13     debug     wrap  student PD       0:00      1 (PartitionTimeLimit)
                24     debug c0f3d6c5  student PD       0:00      1 (None)
                21     debug     wrap  student  R       0:01      1 node1
"""
MNQ_LONG = """\
  JOBID             NAME     USER      STATE       TIME TIMELIMIT  CPUS NODES NODELIST(REASON)
     41  c0f3d6c528f0e4c  student    RUNNING       3:01  01:00:00     8     2 nvb[12-13]
     42  c0f3d6c528f0e4c  student    PENDING       0:00  01:00:00     8     2 (Nodes required for job are DOWN)
"""
