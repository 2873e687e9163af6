"""Lists all checks after the login, in the order in which they run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from clew_gui.doctor import home, node_job, queue, routes, software
from clew_gui.doctor.finding import Finding, Verdict
from clew_gui.doctor.runner import Check
from clew_shared.base.number_words import in_bytes
from clew_shared.base.places import Places

_LOGIN = ("login",)
_PYTHON = ("login", "shell", "consent")
_QUEUE = ("login", "shell", "scheduler")
_LIMITS = (*_QUEUE, "partition")

CHECKS: tuple[Check, ...] = (
    Check("shell", "Login shell", home.shell, "the login shell runs no command", _LOGIN),
    Check("home", "Home folder", home.home, "nothing can be written there"),
    Check("quota", "Quota", home.quota),
    Check("clock", "Clock", home.clock),
    Check("consent", "Own commands", software.consent, "the site's own shell commands need your consent", ()),
    Check("modules", "Modules", software.modules, "the modules cannot be loaded"),
    Check("python", "Python", software.python, "there is no suitable Python", _PYTHON),
    Check("tensorflow", "TensorFlow", software.tensorflow, "TensorFlow cannot be used", (*_PYTHON, "python")),
    Check("packages", "Packages", software.packages, "", (*_PYTHON, "python")),
    Check("devices", "Devices", software.devices),
    Check("data", "Data", software.data),
    Check("scheduler", "Scheduler", queue.scheduler, "the scheduler does not answer"),
    Check("partition", "Partition", queue.partition, "the partitions are not known", _QUEUE),
    Check("time", "Time limit", queue.time_limit, "", _LIMITS),
    Check("gpus", "GPUs", queue.gpus, "", _LIMITS),
    Check("account", "Account", queue.account, "", _QUEUE),
    Check("request", "Request", queue.request, "", _QUEUE),
    Check("ports", "Ports", routes.ports),
    Check("forwarding", "Forwarding", routes.forwarding, "the login node forwards no connections", _LOGIN),
    Check("nodes", "Nodes", routes.nodes, "", _QUEUE),
    Check(
        "node",
        "Node",
        node_job.node,
        "no node has answered",
        (*_PYTHON, "home", "modules", "python", "scheduler"),
        True,
    ),
    Check("node.python", "Python there", node_job.python_there, "Python does not run there", ("node",), True),
    Check(
        "node.tensorflow",
        "TensorFlow there",
        node_job.tensorflow_there,
        "TensorFlow cannot be used there",
        ("node", "node.python"),
        True,
    ),
    Check("node.gpus", "GPUs there", node_job.gpus_there, "", ("node", "node.python", "node.tensorflow"), True),
    Check("node.temporary", "Temporary files there", node_job.temporary_there, "", ("node", "node.python"), True),
    Check("node.clock", "Clock there", node_job.clock_there, "", ("node", "node.python"), True),
    Check("node.login", "Login there", node_job.login_there, "", ("node", "node.python"), True),
    Check("node.port", "Port there", node_job.port_there, "", ("node", "node.python"), True),
)


def local_findings(places: Places) -> Iterator[Finding]:
    """Checks this computer, which needs no connection; problems with training here show when the first run starts."""
    yield Finding(
        check="way",
        title="Way",
        verdict=Verdict.OK,
        text="Runs train on this computer: there is no connection to check.",
    )
    free = shutil.disk_usage(_there(places)).free
    roomy = free >= home.LEAST_BYTES
    text = f"{in_bytes(free)} are free where runs are kept ({places.home})."
    yield Finding(
        check="home",
        title="Home folder",
        verdict=Verdict.OK if roomy else Verdict.WARN,
        text=text,
        hint="" if roomy else "Make room, or let CLEW_HOME name another folder.",
    )


def _there(places: Places) -> str:
    """The nearest folder that is there already."""
    path = places.home
    while not path.is_dir() and path != path.parent:
        path = path.parent
    return os.fspath(path)
