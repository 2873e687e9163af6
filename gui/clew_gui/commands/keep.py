"""``clew verify`` and ``clew export``: is every byte as it was written, and how a run leaves as open files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clew_gui.commands.find import find_run
from clew_gui.commands.shell import FAILED, OK, Parser, Shell
from clew_shared.verify import verify_run

_RUN_HELP = "its number, id, the beginning of its id, `last`, or its folder"


def verify(shell: Shell, argv: Sequence[str]) -> int:
    """``clew verify RUN``: 0 when everything is as it was written, else 1 with file and offset of each difference."""
    parser = Parser(
        "clew verify",
        "Check every byte of a run: the journal's frames and digests, and every file whose hash stands in it.\n"
        "The exit status is 0 when all is well and 1 when anything differs.",
    )
    parser.add_argument("run", metavar="RUN", help=_RUN_HELP)
    parser.add_argument("--json", action="store_true", help="one line of JSON with all findings")
    options = parser.parse_args(list(argv))
    folder = find_run(shell.places, options.run)
    report = verify_run(folder)
    if options.json:
        shell.say_json({"run_dir": str(folder), "ok": report.ok, "findings": report.findings})
    else:
        for finding in report.findings:
            shell.say(f"{finding.file}, offset {finding.offset}: {finding.text}")
        shell.say(f"All of {folder} is as it was written." if report.ok else f"{folder} is not as it was written.")
    return OK if report.ok else FAILED
