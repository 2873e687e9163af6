# All of it has arrived: check it and give it its name. $1 what arrived, $2 its SHA-256, $3 the name, $4 f or d (a tar archive).
umask 077
if ! printf '%s  %s\n' "$2" "$1" | { sha256sum -c || shasum -a 256 -c; } >/dev/null 2>&1; then
    rm -f -- "$1"
    echo damaged
    exit 0
fi
if test "$4" = d; then
    rm -rf -- "$1.d"
    mkdir -- "$1.d" && tar -xof "$1" -C "$1.d" || exit 1
    # One that is there is damaged, or another transfer of the same has just finished.
    if test -e "$3"; then mv -- "$3" "$1.old" && rm -rf -- "$1.old"; fi
    mv -- "$1.d" "$3" && rm -f -- "$1" || exit 1
else
    mv -f -- "$1" "$3" || exit 1
fi
echo done
