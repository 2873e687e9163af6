"""All checks in their order, and the whole examination of this computer or of a site: the way there comes first."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import closing

from clew_gui.doctor import home, node_job, queue, routes, software, this_computer
from clew_gui.doctor.examination import Check, Diagnosis, Finding, follow
from clew_gui.doctor.login import check_route
from clew_gui.doctor.this_computer import ThisComputer
from clew_gui.sites.site import Site, is_local
from clew_gui.ssh.prompts import Prompter
from clew_shared.base.places import Places

_LOGIN = ("login",)
_PYTHON = ("login", "shell", "consent")
_QUEUE = ("login", "shell", "scheduler", "queue")
_LIMITS = (*_QUEUE, "partition")

CHECKS: tuple[Check[Diagnosis], ...] = (
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

CLASS = Check("class", "Folders of the class", home.protected)
"""Only where the followed course has any."""

HERE: tuple[Check[ThisComputer], ...] = (
    Check("python", "Python", this_computer.python, "this Python will not do", ()),
    Check("window", "Window", this_computer.window, "", ()),
    Check("home", "Home folder", this_computer.home, "nothing can be written there", ()),
    Check("private", "Private folder", this_computer.private, "keys cannot be kept", ()),
    Check("tensorflow", "TensorFlow", this_computer.tensorflow, "TensorFlow cannot be used", ()),
    Check("packages", "Packages", this_computer.packages, "", ("tensorflow",)),
    Check("devices", "Devices", this_computer.devices, "", ("tensorflow",)),
    Check("agent", "Agent", this_computer.agent, "", ()),
    Check("ssh", "SSH", this_computer.ssh, "", ()),
)


def examine(
    name: str,
    site: Site,
    places: Places,
    prompter: Prompter,
    want_job: bool = False,
    stop: threading.Event | None = None,
) -> Generator[Finding, None, None]:
    """Examine the site ``name``, one finding after another; ``prompter`` is asked what the login asks.

    Waits for the network: call it from a worker thread, and close the iterator, or set ``stop`` from any thread, to
    end it. It first waits for the command on its way: mostly a moment, or as long as that moves. ``want_job`` sends a
    tiny job, which shows what a node has. Every refusal is a finding; nothing is raised but what the prompter raises.
    """
    stop = stop or threading.Event()
    if is_local(site):
        yield from follow(ThisComputer(name, places, stop), HERE, want_job)
        return
    with closing(Diagnosis(name, site, places, prompter, stop)) as diagnosis:
        yield from check_route(diagnosis)
        with_class = (*CHECKS, CLASS) if home.class_folders(name, places) else CHECKS
        yield from follow(diagnosis, with_class, want_job)
