#!/usr/bin/env bash
# Runs tests with Windows Python under Wine, and says how many pass in each folder: test.sh [WORDS FOR PYTEST]
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$HERE/../.."
RESULTS=$(mktemp /tmp/clew-windows-XXXXXX.xml)
trap 'rm -f "$RESULTS"' EXIT
[ $# -gt 0 ] || set -- tests/unit tests/contract
if [ -n "${CLEW_DATA:-}" ]; then
    export WINE_SEES=$CLEW_DATA CLEW_DATA="Z:${CLEW_DATA//\//\\}"
fi
status=0
# UTF-8: most tests name no encoding for the files that they write.
PYTHONUTF8=1 "$HERE/python" -m pytest -q -p no:cacheprovider --timeout 600 \
    --junitxml "Z:${RESULTS//\//\\}" "$@" </dev/null || status=$?
.venv/bin/python "$HERE/by_folder.py" "$RESULTS"
exit $status
