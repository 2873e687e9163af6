"""``clew-agent`` on a site: a small program for job scripts of one's own. It starts the agent that came there last.

What loads TensorFlow, modules mostly, is the job script's own business.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from clew_gui.remote.site_line import SiteLine

_ABOUT = "# The agent that Clew brought here last, for job scripts of your own: clew-agent run SPEC.toml"
_PUT = """umask 077
mkdir -p -- "${1%/*}" && new=$(mktemp "$1.XXXXXX") && cat >"$new" && chmod 700 "$new" && mv -f -- "$new" "$1" && exit
[ -z "$new" ] || rm -f -- "$new"
exit 1"""


def launcher_text(python: str, folders: Sequence[str], home: str, data: str) -> str:
    """The program. ``folders`` go before what the job's ``PYTHONPATH`` has; ``home`` and ``data``, Clew's folder there
    and the course's (empty: none), hold where the job says nothing else."""
    known = {"CLEW_HOME": home} | ({"CLEW_COURSE_DATA": data} if data else {})
    lines = ["#!/bin/sh", _ABOUT]
    for name, value in known.items():
        lines += [f'[ -n "${name}" ] || {name}={shlex.quote(value)}', f"export {name}"]
    lines.append(f'export PYTHONPATH={shlex.quote(":".join(folders))}"${{PYTHONPATH:+:$PYTHONPATH}}"')
    lines.append(f'exec {shlex.quote(python)} -P -m clew_agent "$@"')
    return "\n".join([*lines, ""])


def put_launcher(line: SiteLine, text: str, tell: Callable[[str], None]) -> None:
    """Write it there, so that it appears whole. Where that cannot be done it is said: no run of Clew's needs it."""
    path = line.layout().launcher
    done = line.run(("sh", "-c", _PUT, "sh", path), stdin=text.encode())
    if done.late or done.code:
        said = done.err.strip().splitlines()[-1:] or ["it did not answer"]
        tell(f"{path} could not be written on {line.title}, which only job scripts of your own need: {said[0]}.")
