"""Further lines for a job script that a site wants, in the scheduler's own words: which forms are taken, which not."""

from __future__ import annotations

import re

from clew_shared.problem import Problem

_VALUE = r"[A-Za-z0-9_.,:=@%+/&|*\[\]-]{1,200}"
_FORMS = {
    "slurm": (re.compile(rf"--(?P<name>[a-z][a-z0-9-]{{1,40}})(={_VALUE})?"), "--mem=8G or --exclusive"),
    "pbs": (re.compile(rf"-(?P<name>[A-Za-z]) {_VALUE}"), "-l mem=8gb or -W group_list=course"),
    "mnsubmit": (re.compile(rf"(?P<name>[a-z][a-z0-9_]{{1,40}}) = {_VALUE}"), "tasks_per_node = 4"),
}
_OURS = {
    "slurm": """job-name output error input open-mode no-requeue requeue nodes ntasks-per-node cpus-per-task
        time partition account reservation qos gres constraint signal wrap array chdir uid gid get-user-env test-only
        wait parsable export export-file comment""",
    "pbs": "N o e j q A I t z S d D r v V C f",
    "mnsubmit": """job_name initialdir output error total_tasks cpus_per_task gpus_per_node wall_clock_limit features
        class partition reservation account qos""",
}
"""What Clew writes itself, and what would change which script runs, as whom or where its output goes."""


def check_directive(line: str, scheduler: str) -> list[Problem]:
    """The problem with one line for the scheduler, if there is one."""
    form = _FORMS.get(scheduler)
    if form is None:
        text = f"There is no scheduler here to take {line[:60]!r}."
        return [Problem("site.directive", text, "Remove the line.", "extra")]
    match = form[0].fullmatch(line)
    if match is None:
        text = f"{line[:60]!r} is no directive that can be taken."
        return [Problem("site.directive", text, f"Write it like {form[1]}, one for each entry.", "extra")]
    # Schedulers take abbreviations: --outp is --output.
    if any(own.startswith(match["name"]) for own in _OURS[scheduler].split()):
        hint = "Use the field of that name, where there is one."
        return [Problem("site.directive", f"{line[:60]!r} is something that Clew decides itself.", hint, "extra")]
    return []
