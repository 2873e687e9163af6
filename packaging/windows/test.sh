#!/usr/bin/env bash
# Runs tests with Windows Python under Wine, and says how many pass in each folder: test.sh [--quick | WORDS FOR PYTEST]
#
# Without words: all of tests/unit and tests/contract that can run there, and a handful of others (others below).
# --quick: the handful, tests/unit/base and tests/unit/courses, for `make test`; a computer where Wine cannot be set up is no failure.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$HERE/../.."
RESULTS=$(mktemp /tmp/clew-windows-XXXXXX.xml)
trap 'rm -f "$RESULTS"' EXIT
export TMPDIR=/tmp # which Wine sees
readonly SETUP_S=600 # the first one takes two minutes on a quiet computer; later ones find all there
readonly RUN_S=7200 # ten times what all take on a quiet computer: a Wine that hangs ends by itself
others=(
    tests/integration/services/test_tensorboard.py
    tests/integration/session/test_killed_processes.py
    tests/integration/sites/test_from_a_laptop.py
    tests/integration/trainer/test_script.py::test_a_new_script_works_alone_and_as_a_run
    tests/gui/actions/test_courses.py
    tests/gui/report/test_report.py
    tests/gui/window/test_first_run.py
)
if [ -n "${CLEW_DATA:-}" ]; then
    export WINE_SEES=$CLEW_DATA CLEW_DATA="Z:${CLEW_DATA//\//\\}"
fi
if [ "${1:-}" = --quick ]; then
    began=$SECONDS
    # Its first program shows whether it may run here: many containers forbid it.
    if ! timeout "$SETUP_S" "$HERE/python" -c ''; then
        echo "Windows: left out, because Wine cannot be set up here (after $((SECONDS - began)) s; its message is above)."
        exit 0
    fi
    echo "Windows: set up after $((SECONDS - began)) s."
    set -- tests/unit/base tests/unit/courses "${others[@]}"
elif [ $# -eq 0 ]; then
    handin=tests/integration/commands/test_cli_handin.py
    set -- tests/unit tests/contract "${others[@]}" $handin::test_a_hand_in_is_checked_by_training_its_first_steps_again
fi
status=0
# UTF-8: most tests name no encoding for the files that they write. A test that hangs ends its own worker only. What is
# left out there is not missing here.
PYTHONUTF8=1 CLEW_DEMAND_ALL='' CLEW_RECORD='' .venv/bin/python -m tests.integration.ssh.servers \
    timeout "$RUN_S" "$HERE/python" -m pytest -q -p no:cacheprovider --timeout 600 -n "${WORKERS:-2}" --dist loadfile \
    --junitxml "Z:${RESULTS//\//\\}" "$@" </dev/null || status=$?
[ $status != 124 ] || echo "Windows: ended after $RUN_S s."
[ ! -s "$RESULTS" ] || .venv/bin/python "$HERE/by_folder.py" "$RESULTS"
exit $status
