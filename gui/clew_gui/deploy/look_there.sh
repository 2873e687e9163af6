# Is a file or folder on the site already? $1 its own folder, $2 its name, $3 the course's folder or nothing, $4 its size,
# $5 f or d, $6 its name as a pattern, $7 what an unfinished transfer left. On standard input: SHA-256 and name of each file.
umask 077
LC_ALL=C
list=$(cat)

same() { # folder
    (cd -- "$1" && printf '%s\n' "$list" | { sha256sum -c || shasum -a 256 -c; }) >/dev/null 2>&1
}

is_it() { # path
    if test "$kind" = d; then same "$1"; else same "${1%/*}"; fi
}

# A course's folder may hold millions of files further down, on a file system that is busy.
bounded() { # command
    if command -v timeout >/dev/null; then timeout 20 "$@"; else "$@"; fi
}

look_in_course() { # folder pattern size
    case $1 in "~/"*) set -- "$HOME/${1#"~/"}" "$2" "$3" ;; esac
    if test "$kind" = d; then
        bounded find -L "$1" -maxdepth 2 -type d -name "$2"
    else
        bounded find -L "$1" -maxdepth 2 -type f -name "$2" -size "$3c"
    fi 2>/dev/null | while IFS= read -r path; do
        if is_it "$path"; then printf 'there %s\n' "$path" && break; fi
    done
}

kind=$5
if test "-$kind" "$1/$2" && is_it "$1/$2"; then
    printf 'there %s\n' "$1/$2"
    exit 0
fi
test -z "$3" || look_in_course "$3" "$6" "$4"
printf 'part %s\n' "$(stat -c %s -- "$7" 2>/dev/null)"
folder=$1
while test -n "$folder" && ! test -d "$folder"; do folder=${folder%/*}; done
printf 'free %s\n' "$(df -Pk -- "${folder:-/}" 2>/dev/null | awk 'NR > 1 { print $4 }')"
