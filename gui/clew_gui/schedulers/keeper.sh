# The keeper: starts the agent again until it ends by itself or the time is up, ends everything that the agent
# started, and leaves a record. It reads no input and opens no port.

clew_say() { printf '%s clew: %s\n' "$(date -u '+%Y-%m-%dT%H:%M:%SZ')" "$*"; }

clew_write_record() { # state why detail
    {
        printf 'format=1\njob=%s\nid=%s\n' "$clew_job" "$clew_id"
        printf 'host=%s\nrestart=%s\nstarts=%s\n' "$clew_host" "$clew_restart" "$clew_starts"
        printf 'began=%s\nuntil=%s\nsaid=%s\nwritten=%s\n' "$clew_began" "$clew_until" "$clew_said" "$(date +%s)"
        printf 'state=%s\nwhy=%s\ndetail=%s\ncode=%s\n' "$1" "$2" "$3" "$clew_code"
    } >"$clew_record.new" && mv -f "$clew_record.new" "$clew_record"
}

clew_number() { # the first word that is a whole number, else 0
    for clew_word in "$@"; do
        case $clew_word in '' | *[!0-9]*) ;; *) printf '%s' "$clew_word" && return ;; esac
    done
    printf 0
}

# Every process that descends from the agent carries CLEW_JOB in its environment: that is how the agent names them.
clew_marked() {
    # shellcheck disable=SC2013  # names of files in /proc have no blanks
    for clew_path in $(grep -lszxF "CLEW_JOB=$clew_job" /proc/[0-9]*/environ 2>/dev/null); do
        clew_path=${clew_path#/proc/}
        printf '%s ' "${clew_path%/environ}"
    done
}

clew_look() { # pid: sets clew_parent and clew_group; fails when it has ended
    { IFS= read -r clew_line <"/proc/$1/stat"; } 2>/dev/null || return 1
    # shellcheck disable=SC2086  # the fields behind the name are wanted as words
    set -- ${clew_line##*) }
    [ "$1" != Z ] && clew_parent=$2 && clew_group=$3
}

# A guard passes a request on to its trainer, which saves a checkpoint. A second one would make it hurry, so only
# processes are asked whose parent is not one of ours, each once.
clew_ask() {
    clew_all=$(clew_marked)
    clew_left=0
    for clew_pid in $clew_all; do
        clew_look "$clew_pid" || continue
        clew_left=$((clew_left + 1))
        case " $clew_all" in *" $clew_parent "*) continue ;; esac
        case $clew_heard in *" $clew_pid "*) continue ;; esac
        clew_heard="$clew_heard$clew_pid "
        kill -s TERM "$clew_pid" 2>/dev/null
    done
    return 0
}

clew_kill() {
    for clew_pid in $(clew_marked); do
        clew_look "$clew_pid" || continue
        case $clew_group in
            "$clew_own") kill -s KILL "$clew_pid" 2>/dev/null ;;
            *) kill -s KILL -- "-$clew_group" 2>/dev/null ;;
        esac
    done
}

clew_end_processes() {
    clew_heard=" $clew_agent " # it has been asked already
    clew_seconds=0
    while clew_ask && [ "$clew_left" -gt 0 ] && [ "$clew_seconds" -lt "$clew_grace" ]; do
        sleep 1
        clew_seconds=$((clew_seconds + 1))
        # An agent that does not listen must not keep its guards from being asked.
        [ "$clew_seconds" -ne $((clew_grace / 2)) ] || [ -z "$clew_agent" ] || kill -s KILL "$clew_agent" 2>/dev/null
    done
    clew_tries=0
    while [ "$clew_left" -gt 0 ] && [ "$clew_tries" -lt 5 ]; do
        clew_say "still there after $clew_seconds s, killed: $clew_all"
        clew_kill
        sleep 1
        clew_tries=$((clew_tries + 1))
        clew_all=$(clew_marked)
        clew_left=0
        for clew_pid in $clew_all; do
            clew_look "$clew_pid" && clew_left=$((clew_left + 1))
        done
    done
}

clew_finish() { # why exit-code detail
    trap - EXIT
    trap '' TERM INT HUP USR1 XCPU
    clew_write_record ending "$1" "${3:-}"
    for clew_pid in $clew_timer $clew_pause $clew_agent; do
        kill -s TERM "$clew_pid" 2>/dev/null
    done
    [ -z "$clew_timer" ] || wait "$clew_timer" 2>/dev/null
    if [ -n "$clew_agent" ]; then
        clew_end_processes
        kill -s KILL "$clew_agent" 2>/dev/null
        wait "$clew_agent" 2>/dev/null
        clew_code=$?
    else
        clew_end_processes
    fi
    clew_write_record ended "$1" "${3:-}"
    clew_say "the job ends: $1${3:+ ($3)}"
    exit "$2"
}

# A limit that was lowered while the job runs is known to the scheduler alone. Slurm writes into the job's output that
# the time is up before it asks anybody to end; most PBS show their output only when the job is over. What stood there
# before this start of the job is not about it.
clew_asked() {
    if tail -c "+$((clew_said + 1))" "$clew_folder/scheduler.log" 2>/dev/null |
        grep -Eq 'DUE TO TIME LIMIT|job killed: walltime'; then
        clew_finish time 124
    fi
    clew_finish terminated 143
}

clew_load() { # module
    module load "$1" >"$clew_record.module" 2>&1
    clew_status=$?
    cat "$clew_record.module"
    # Old versions of the module command report a failure by words alone.
    if [ "$clew_status" -ne 0 ] || grep -Eqi 'error:|unable to locate|modules? (are|is) unknown' "$clew_record.module"; then
        clew_finish module 3 "$1"
    fi
    rm -f "$clew_record.module"
}

clew_find_modules() {
    command -v module >/dev/null 2>&1 && return
    for clew_path in /etc/profile.d/modules.sh /etc/profile.d/lmod.sh /etc/profile.d/z00_lmod.sh \
        /usr/share/modules/init/sh /usr/share/lmod/lmod/init/sh; do
        # shellcheck disable=SC1090
        [ -r "$clew_path" ] && . "$clew_path" && command -v module >/dev/null 2>&1 && return
    done
    clew_finish module 3 module-command
}

# What was printed last, without the keeper's own lines and without a log line's time, process and module.
clew_last_words() {
    tail -n 20 "$clew_folder/job.log" 2>/dev/null | grep -v '^[^ ]* clew: ' | grep . | tail -n 1 |
        sed 's/^[-0-9]* [0-9:,]* [0-9]* [A-Za-z0-9_.]* [A-Z]*: //' | tr -d '\000-\010\013-\037\177' | cut -c1-280
}

clew_serve_until_end() {
    clew_delay=1
    clew_quick=0
    while :; do
        clew_starts=$((clew_starts + 1))
        clew_since=$(date +%s)
        clew_write_record running '' ''
        clew_start_agent &
        clew_agent=$!
        wait "$clew_agent"
        clew_code=$?
        clew_agent=
        case $clew_code in
            0)
                # Cancelling a job signals all its processes at once. If that is why the agent ended, it is known by now.
                sleep 1
                clew_finish finished 0
                ;;
            126 | 127) clew_finish absent "$clew_code" "$(clew_last_words)" ;;
        esac
        if [ $(($(date +%s) - clew_since)) -ge "$clew_healthy" ]; then
            clew_delay=1
            clew_quick=0
        fi
        clew_quick=$((clew_quick + 1))
        # An agent that says why it cannot serve, or that failed before it ever served, will do so again; what may pass
        # (exit code 75, a signal) is tried three times.
        clew_tries=10 clew_why=crashing
        if [ "$clew_code" -eq 75 ]; then
            clew_tries=3 clew_why=refused
        elif [ "$clew_code" -eq 2 ] || { [ "$clew_code" -lt 128 ] && ! [ -e "$clew_served" ]; }; then
            clew_tries=1 clew_why=refused
        elif ! [ -e "$clew_served" ]; then
            clew_tries=3
        fi
        # While something trains, another attempt costs nothing; an idle node costs somebody's hours.
        if [ "$clew_quick" -ge "$clew_tries" ] && [ -z "$(clew_marked)" ]; then
            clew_last=$(clew_last_words)
            clew_finish "$clew_why" 1 "$clew_code${clew_last:+ $clew_last}"
        fi
        clew_say "the agent ended with exit code $clew_code; it starts again in $clew_delay s"
        sleep "$clew_delay" &
        clew_pause=$!
        wait "$clew_pause"
        clew_pause=
        clew_delay=$((clew_delay * 2))
        [ "$clew_delay" -le 60 ] || clew_delay=60
    done
}

# The account's start files may export other values than the scheduler gave. What it gave is what this process began
# with.
clew_as_given() {
    [ -r "/proc/$$/environ" ] || return 0
    clew_unexport
    clew_given=$(tr '\n\0' ' \n' <"/proc/$$/environ" | grep -E '^(SLURM|SLURMD|SBATCH|SRUN|PBS)_[A-Za-z0-9_]*=')
    while IFS= read -r clew_line; do [ -z "$clew_line" ] || export "${clew_line?}"; done <<CLEW
$clew_given
CLEW
}

clew_begin() { # asked-for seconds
    clew_as_given
    # shellcheck disable=SC2154  # these names are the schedulers' own
    clew_id=${SLURM_JOB_ID:-${PBS_JOBID:-$$}}
    clew_restart=0 # PBS does not say how often it has started the job
    while [ -e "$clew_folder/record.$clew_restart" ]; do clew_restart=$((clew_restart + 1)); done
    clew_record=$clew_folder/record.$clew_restart
    clew_served=$clew_folder/served.$clew_restart # the agent leaves it
    # shellcheck disable=SC2046  # one number, or nothing
    clew_said=$(clew_number $(wc -c "$clew_folder/scheduler.log" 2>/dev/null))
    clew_host=$(uname -n)
    clew_began=$(date +%s)
    clew_limit=$(clew_number "$1" "${PBS_WALLTIME:-}")
    clew_until=$(clew_number "${SLURM_JOB_END_TIME:-}")
    if [ "$clew_until" -eq 0 ] && [ "$clew_limit" -gt 0 ]; then clew_until=$((clew_began + clew_limit)); fi
    clew_look $$ && clew_own=$clew_group
    cd "$clew_folder" || clew_say "cannot enter $clew_folder"
    trap 'clew_finish ended "$?"' EXIT
    trap clew_asked TERM INT HUP
    trap 'clew_finish time 124' USR1 XCPU
    clew_write_record running '' ''
    [ "$clew_until" -eq 0 ] || clew_set_timer $((clew_until - clew_began))
}

# The scheduler's own signal may come a minute early, or never.
clew_set_timer() { # seconds until the scheduler ends the job
    clew_spare=$(($1 / 8))
    [ "$clew_spare" -le 30 ] || clew_spare=30
    clew_sleep=''
    (
        trap - EXIT INT HUP USR1 XCPU
        trap '[ -z "$clew_sleep" ] || kill -s TERM "$clew_sleep" 2>/dev/null; exit' TERM
        sleep $(($1 - clew_spare)) &
        clew_sleep=$!
        wait "$clew_sleep" && kill -s USR1 $$
    ) &
    clew_timer=$!
}
