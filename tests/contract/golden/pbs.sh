#!/bin/bash -l
#PBS -N c0f3d6c528f0e4c
#PBS -l nodes=2:ppn=8:gpus=4:k80
#PBS -l walltime=02:00:00
#PBS -q gpu
#PBS -A course2026
#PBS -l qos=low
#PBS -W x=FLAGS:ADVRES:day-2
#PBS -o scheduler.log
#PBS -j oe
#PBS -r n
#PBS -W group_list=course
# Clew 0f3d6c52-8f0e-4c1b-9a70-3b6a4b1f2c11: written by Clew, started by the scheduler.

set -u
clew_job=0f3d6c52-8f0e-4c1b-9a70-3b6a4b1f2c11
clew_folder=/home/student/.clew/jobs/x
clew_grace=20 clew_healthy=60
clew_unexport() {
IFS='
' && set -f
for clew_name in $(export -p); do
    clew_name=${clew_name#export } && clew_name=${clew_name#declare -x } && clew_name=${clew_name%%=*}
    case $clew_name in
        *[!A-Za-z0-9_]*) ;; # a line of a longer value: a shell ends if it is to unset what is no name
        SLURM_CONF | SLURM_CONF_SERVER | SLURM_JWT | SLURM_HOME | SLURM_ROOT | SLURM_SACK_*) ;;
        PBS_CONF_FILE | PBS_EXEC | PBS_HOME) ;;
        SACCT_* | SACCTMGR_* | SALLOC_* | SATTACH_* | SBATCH_* | SBCAST_* | SCANCEL_* | SCONTROL_* | SCRONTAB_* | \
        SDIAG_* | SINFO_* | SLURM_* | SLURMD_* | SPRIO_* | SQUEUE_* | SREPORT_* | SRUN_* | SSHARE_* | SSTAT_* | \
        STRIGGER_* | PBS*) unset "$clew_name" ;;
    esac
done
unset IFS && set +f
}
clew_agent='' clew_timer='' clew_pause='' clew_code='' clew_starts=0 clew_own='' clew_left=0

# --- keeper.sh ---

clew_start_agent() {
    export CLEW_JOB="$clew_job" CLEW_JOB_FOLDER="$clew_folder" CLEW_JOB_UNTIL="$clew_until"
    export CLEW_JOB_RESTART="$clew_restart"
    exec aprun -n 1 /home/student/.clew/venv/bin/python -m clew_agent serve </dev/null
}

if : >>"$clew_folder/job.log"; then exec >>"$clew_folder/job.log" 2>&1; fi
clew_begin 7200
clew_serve_until_end
