#!/bin/bash -l
#SBATCH --job-name=clew-0f3d6c52-8f0e-4c1b-9a70-3b6a4b1f2c11
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --gres=gpu:tesla:4
#SBATCH --time=02:00:00
#SBATCH --partition=gpu
#SBATCH --account=course2026
#SBATCH --reservation=day-2
#SBATCH --qos=low
#SBATCH --constraint=k80
#SBATCH --output=scheduler.log
#SBATCH --open-mode=append
#SBATCH --no-requeue
#SBATCH --mem=8G
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
    exec /home/student/.clew/venv/bin/python -m clew_agent serve </dev/null
}

if : >>"$clew_folder/job.log"; then exec >>"$clew_folder/job.log" 2>&1; fi
clew_begin 7200
set +u  # modules and prologues are written by others
clew_find_modules
clew_load cuda/11.8
set +e; set -u
clew_serve_until_end
