#!/usr/bin/env bash
# Writes packaging/constraints.txt: the newest version of each package that fits all others, for Linux, macOS and Windows
# and for each Python that Clew supports. Markers say where two of them differ.
#
#   UV  the uv program to use; default: a new one in a temporary environment
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ -z "${UV:-}" ]; then
    .venv/bin/python -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check uv
    UV=$folder/bin/uv
fi
{
    echo "# The versions with which Clew was tested, for all systems and Pythons. \`make constraints\` writes this file."
    "$UV" pip compile --quiet pyproject.toml --universal --python-version 3.11 \
        --extra gui --extra cpu --extra sweep --extra parquet --extra mlflow --group dev \
        --no-header --no-annotate --no-emit-index-url --output-file "$folder/all.txt" >/dev/null
    # A package of which all take the same version needs no marker: where it is not installed, a constraint does nothing.
    awk '{ name = substr($0, 1, index($0, "==")) }
         NR == FNR { versions[name]++; next }
         versions[name] == 1 { sub(/ ; .*/, "") }
         { print }' "$folder/all.txt" "$folder/all.txt"
} >"$folder/constraints.txt"
cp "$folder/constraints.txt" packaging/constraints.txt
echo "constraints: $(grep -c == packaging/constraints.txt) versions in packaging/constraints.txt" >&2
