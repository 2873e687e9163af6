#!/usr/bin/env bash
# Runs tests with Windows Python under Wine, and says how many pass in each folder: test.sh [WORDS FOR PYTEST]
#
# Without words: all of tests/unit and tests/contract that can run there, and a handful of others (others below).
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$HERE/../.."
RESULTS=$(mktemp /tmp/clew-windows-XXXXXX.xml)
trap 'rm -f "$RESULTS"' EXIT
others=(
    tests/integration/commands/test_cli_handin.py::test_a_hand_in_is_checked_by_training_its_first_steps_again
    tests/integration/session/test_killed_processes.py
    tests/integration/sites/test_from_a_laptop.py
    tests/integration/trainer/test_script.py::test_a_new_script_works_alone_and_as_a_run
    tests/gui/report/test_report.py
    tests/gui/window/test_first_run.py
)
[ $# -gt 0 ] || set -- tests/unit tests/contract "${others[@]}"
if [ -n "${CLEW_DATA:-}" ]; then
    export WINE_SEES=$CLEW_DATA CLEW_DATA="Z:${CLEW_DATA//\//\\}"
fi
status=0
# UTF-8: most tests name no encoding for the files that they write. A test that hangs ends its own worker only.
PYTHONUTF8=1 .venv/bin/python -m tests.integration.ssh.servers \
    "$HERE/python" -m pytest -q -p no:cacheprovider --timeout 600 -n "${WORKERS:-2}" --dist loadfile \
    --junitxml "Z:${RESULTS//\//\\}" "$@" </dev/null || status=$?
.venv/bin/python "$HERE/by_folder.py" "$RESULTS"
exit $status
