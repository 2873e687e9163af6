#!/bin/sh
# PBS_NODEFILE for the batch script, as under Torque; the steps of srun need none.
[ -n "$SLURM_STEP_ID" ] || echo "export PBS_NODEFILE=$(generate_pbs_nodefile)"
