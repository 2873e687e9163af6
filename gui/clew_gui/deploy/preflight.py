"""Checks before a job is sent: what would keep it waiting forever or make it fail, as far as the login node knows.

The login node may differ from the nodes: a node's own TensorFlow and GPUs are asked by ``clew site doctor --job``, and
by the agent when it starts. Everything here waits for the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from clew_gui.deploy.remote_python import ask_there
from clew_gui.schedulers.allocation import AllocationRequest, seconds_asked, time_problem
from clew_gui.sites.site_connection import SiteConnection
from clew_shared.base.installation import how_to_install
from clew_shared.base.problem import Problem, ProblemError, problem, raise_all
from clew_shared.base.remedies import OWN_FILE, own_file, path_on_site, set_to
from clew_shared.data_sets import BUILT_IN
from clew_shared.spec import RunSpec, to_toml

_LIMITS_S = 10.0
"""A controller that hangs must not hold up a job whose time may well be allowed."""
_OTHER_DATA = "take a file of this computer, which is brought there, or a path on the site"
_HINTS = {
    "data.missing": (
        f"You can {_OTHER_DATA}; copy the file into one of the folders that are searched there; "
        "or use the built-in digits."
    ),
    "data.digits": (
        f"If scikit-learn is on this computer, Clew brings the digits along. {how_to_install('scikit-learn')}. "
        f"Or name a module or a venv with scikit-learn in the site; or {_OTHER_DATA}."
    ),
}
"""Hints for fixing, from this computer, what the site lacks. The agent's own hints are for the machine that it is
on."""


def check_time(connection: SiteConnection, allocation: AllocationRequest) -> None:
    """Raise ``ProblemError`` when every partition that the job may go to allows less time than it asks for.

    Where the scheduler does not report its limits, the job is sent.
    """
    if not seconds_asked(allocation):
        return
    partitions = connection.ask(connection.scheduler.partitions(), _LIMITS_S)
    found = time_problem(partitions or (), allocation)
    raise_all([found] if found is not None else [])


def check_runs(connection: SiteConnection, environment: Mapping[str, str], runs: Sequence[RunSpec], own: bool) -> None:
    """Raise ``ProblemError`` when the agent, asked on the login node, would refuse one of ``runs``.

    ``runs`` are as the site reads them, ``environment`` is the agent's in a job; ``own``: there are exercises of one's
    own.
    """
    if not runs:
        return
    question = {"environment": dict(environment), "specs": [to_toml(spec) for spec in runs], "own": own}
    answer = ask_there(connection, "check_there.py", question)
    if "broken" in answer:
        text = f"The agent cannot start with the Python of {connection.title}: {str(answer['broken'])[:400]}."
        hint = (
            "Look for PYTHONPATH and LD_LIBRARY_PATH in your start files there, and in the site's modules and prologue."
        )
        raise problem("preflight.import", text, f"{hint} Nothing was sent.", connection.name)
    try:
        found: Problem | None = msgspec.convert(answer.get("problem", ""), Problem | None)
    except msgspec.ValidationError as error:
        text = f"The agent on {connection.title} gave an answer that Clew cannot understand: {error}."
        raise problem("preflight.answer", text, "Try again.", connection.name) from None
    if found is not None:
        raise ProblemError(_from_here(connection, found))


def _from_here(connection: SiteConnection, found: Problem) -> Problem:
    seen = f"That is what the login node of {connection.title} sees; nothing was sent."
    hint, remedies = _HINTS.get(found.code, found.hint), found.remedies
    if found.code in _HINTS:
        own = next((one for one in remedies if one.act == OWN_FILE), own_file())
        digits = (set_to("data", BUILT_IN),) if found.code == "data.missing" else ()
        remedies = (own, *digits, path_on_site(own.what, own.value))
    return msgspec.structs.replace(found, hint=f"{hint} {seen}".lstrip(), remedies=remedies)
