#!/usr/bin/env bash
# Makes .venv with everything that Clew needs, and installs Qt's system libraries if it can. Quick if nothing changed.
#
#   PYTHON       the Python to use (3.11 to 3.13); default: the first suitable one that is found
#   CLEW_VENV    the folder of the environment; default .venv
#   CLEW_EXTRAS  which extras to install; default gui,cpu  (on a machine with NVIDIA devices: gui,cuda)
#   NEWEST       1: the newest version of each package, and not the one in constraints.txt, with which Clew was tested
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VENV=${CLEW_VENV:-.venv}
readonly STAMP=$VENV/clew-setup.stamp
readonly EXTRAS=${CLEW_EXTRAS:-gui,cpu}
readonly TESTED=packaging/constraints.txt
readonly OFFLINE="Without internet, point PIP_FIND_LINKS at a folder that has them."

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# --- Python ----------------------------------------------------------------------------------------------------------

version_fits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' >/dev/null 2>&1
}

can_make_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

# Prints the first Python that has a supported version and can make a virtual environment.
find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.12 python3.13 python3.11 /usr/bin/python3}; do
        if version_fits "$candidate" && can_make_venv "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    return 1
}

# Debian and Ubuntu have ensurepip in a separate package.
add_venv_package() {
    version_fits "${PYTHON:-python3}" && can_use_apt && apt_install python3-venv
}

version_of() { "$1" -c 'import sys; print(sys.version_info[:2])'; }

# An environment that was copied or moved keeps the old path in its scripts, and one can outlive its Python.
venv_is_sound() {
    version_fits "$VENV/bin/python" && grep -qF "$PWD/$VENV/bin/python" "$VENV/bin/pip" 2>/dev/null
}

# Only a Python that was asked for by name replaces a sound environment.
venv_is_wanted() {
    [ -z "${PYTHON:-}" ] || [ "$(version_of "$PYTHON" 2>/dev/null)" = "$(version_of "$VENV/bin/python")" ]
}

make_venv() {
    if venv_is_sound && venv_is_wanted; then return; fi
    local python
    if ! python=$(find_python); then
        add_venv_package || true
        python=$(find_python) || die "no Python 3.11, 3.12 or 3.13 with the venv module was found" \
            "(tried: ${PYTHON:-python3, python3.11 to python3.13}). Install one, or name one: PYTHON=/path/to/python3.12 make setup"
    fi
    say "making $VENV with $("$python" -V)"
    "$python" -m venv --clear "$VENV"
}

# A hash of what the environment was made from: the project file, the versions, the extras, this script, the folder.
fingerprint() {
    "$VENV/bin/python" - "$EXTRAS ${NEWEST:-}" "$PWD" pyproject.toml "$TESTED" packaging/setup.sh <<'PY'
import hashlib, pathlib, sys
extras, place, *files = sys.argv[1:]
digest = hashlib.sha256(f"{sys.version} {extras} {place}".encode())
for name in files:
    digest.update(pathlib.Path(name).read_bytes())
print(digest.hexdigest())
PY
}

pip_install() { "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }

install_clew() { pip_install --editable ".[$EXTRAS]" --group dev "$@"; }

install_packages() {
    local wanted
    wanted=$(fingerprint)
    if [ "$(cat "$STAMP" 2>/dev/null)" = "$wanted" ]; then return; fi
    say "installing Python packages into $VENV (extras: $EXTRAS); the first time this takes a few minutes"
    # Dependency groups came with pip 25.1; the pip that a Python brings along can be older.
    pip_install --upgrade 'pip>=25.1' || die "pip could not be brought up to date (its message is above)." "$OFFLINE"
    if [ "${NEWEST:-}" = 1 ] || ! install_clew --constraint "$TESTED"; then
        [ "${NEWEST:-}" = 1 ] || say "not all tested versions can be had here, so the newest ones are taken"
        install_clew --upgrade || die "pip could not install the packages (its message is above)." "$OFFLINE"
    fi
    printf '%s\n' "$wanted" >"$STAMP"
}

# --- Qt's system libraries -------------------------------------------------------------------------------------------

# soname and Debian package. The sonames decide; package names differ between distributions.
# The first seven are for Qt without a display, the others for windows under X11.
readonly QT_LIBRARIES="
libGL.so.1              libgl1
libEGL.so.1             libegl1
libglib-2.0.so.0        libglib2.0-0
libfontconfig.so.1      libfontconfig1
libxkbcommon.so.0       libxkbcommon0
libdbus-1.so.3          libdbus-1-3
libgssapi_krb5.so.2     libgssapi-krb5-2
libxcb-cursor.so.0      libxcb-cursor0
libxkbcommon-x11.so.0   libxkbcommon-x11-0
libxcb-icccm.so.4       libxcb-icccm4
libxcb-keysyms.so.1     libxcb-keysyms1
libxcb-shape.so.0       libxcb-shape0
libxcb-xkb.so.1         libxcb-xkb1
"

can_use_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

apt_install() {
    say "installing $*"
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 update >/dev/null \
        && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends -y "$@" </dev/null >/dev/null
}

# Prints the packages whose library the loader cannot find.
missing_qt_packages() {
    local known soname package
    known=$(PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null) || return 0
    while read -r soname package; do
        if [ -n "$soname" ] && [[ "$known" != *"$soname "* ]]; then printf '%s\n' "$package"; fi
    done <<<"$QT_LIBRARIES"
}

install_qt_libraries() {
    if [ "$(uname -s)" != Linux ]; then return; fi
    local missing
    missing=$(missing_qt_packages | tr '\n' ' ')
    if [ -z "$missing" ]; then return; fi
    # shellcheck disable=SC2086  # a list of package names
    if can_use_apt && apt_install $missing && [ -z "$(missing_qt_packages)" ]; then return; fi
    say "the window needs system libraries that are missing here. On Debian and Ubuntu an administrator installs them with:"
    say "    apt-get install --no-install-recommends ${missing% }"
    say "On other systems the packages have similar names. Everything without a window works already."
}

# --- An SSH server for the tests --------------------------------------------------------------------------------------

has_test_sshd() {
    PATH="$PATH:/usr/sbin" command -v sshd >/dev/null && compgen -G '/usr/lib/*/security/pam_oath.so' >/dev/null
}

# The tests start their own servers on loopback. On a machine with systemd the package would start one for everybody at
# the next boot, so the administrator must decide there; elsewhere no server starts.
install_test_sshd() {
    if [ "$(uname -s)" != Linux ] || has_test_sshd; then return; fi
    if ! can_use_apt || [ -d /run/systemd/system ]; then
        say "the SSH tests are left out: they need the packages openssh-server and libpam-oath."
        return
    fi
    local policy=/usr/sbin/policy-rc.d ours=
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy" && ours=yes
    fi
    apt_install openssh-server openssh-client libpam-oath openssl \
        || say "openssh-server could not be installed; the SSH tests are left out."
    if [ -n "$ours" ]; then rm -f "$policy"; fi
}

main() {
    make_venv
    install_packages
    case ",$EXTRAS," in *,gui,*) install_qt_libraries ;; esac
    install_test_sshd
}

main "$@"
