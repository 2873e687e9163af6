#!/usr/bin/env bash
# Makes an AppImage, one file for any Linux with glibc 2.34, from the package for Debian:
#
#   appimage.sh dist/clew-VERSION-amd64.deb
#
# APPIMAGETOOL names appimagetool (https://github.com/AppImage/appimagetool); without it the folder that would go into
# the file is left beside the package: Clew runs from it by its AppRun. The file itself has not been tried.
set -euo pipefail
DEB=$(readlink -f "$1")
APP=${DEB%-amd64.deb}.AppDir
IMAGE=${DEB%-amd64.deb}-x86_64.AppImage

rm -rf "$APP" && mkdir -p "$APP/usr/lib"
dpkg-deb -x "$DEB" "$APP"
HOME_OF_PYTHON=$APP/opt/clew

# Libraries that not every system has: what Python's modules, Qt's plugin for X11 and its network need, without the C library, and
# without what belongs to the display's driver and fonts.
find "$HOME_OF_PYTHON/bin/python3.11" "$HOME_OF_PYTHON"/lib/python3.11/lib-dynload/*.so \
    "$HOME_OF_PYTHON"/lib/python3.11/dist-packages/PySide6/Qt/plugins/platforms/libqxcb.so \
    "$HOME_OF_PYTHON"/lib/python3.11/dist-packages/PySide6/QtNetwork.abi3.so -print0 \
    | xargs -0 -n 1 ldd | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u \
    | grep -E '/lib(xcb-|xkbcommon|brotli|bz2|com_err|gssapi_krb5|k5crypto|keyutils|krb5|crypt\.|crypto|ssl|expat|ffi|lzma|ncursesw|panelw|readline|sqlite3|tinfo|uuid|z\.)' \
    | xargs -r cp -Lt "$APP/usr/lib"

cat >"$APP/AppRun" <<'RUN'
#!/bin/sh
# The window; with words, the command: ./clew.AppImage run softmax
here=$(dirname "$(readlink -f "$0")")
export LD_LIBRARY_PATH="$here/usr/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
[ $# -gt 0 ] || set -- start
exec "$here/opt/clew/bin/python3.11" "$here/opt/clew/bin/clew" "$@"
RUN
chmod 755 "$APP/AppRun"
cp "$APP/usr/share/applications/clew.desktop" "$APP/clew.desktop"
sed -i 's/^Exec=.*/Exec=AppRun %f/' "$APP/clew.desktop"
cp "$APP/usr/share/icons/hicolor/scalable/apps/clew.svg" "$APP/clew.svg"

if [ -z "${APPIMAGETOOL:-}" ]; then
    echo "appimagetool is not here (APPIMAGETOOL): only the folder $APP was made." >&2
    exit
fi
"$HOME_OF_PYTHON/bin/python3.11" -m compileall -q --invalidation-mode unchecked-hash "$HOME_OF_PYTHON/lib" || true
SOURCE_DATE_EPOCH=1577836800 ARCH=x86_64 "$APPIMAGETOOL" "$APP" "$IMAGE"
echo "$IMAGE"
