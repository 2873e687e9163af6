"""Lists all checks in the order in which they run: those of a site after the login, and those of this computer."""

from __future__ import annotations

from clew_gui.doctor import home, node_job, queue, routes, software, this_computer
from clew_gui.doctor.context import Diagnosis
from clew_gui.doctor.runner import Check
from clew_gui.doctor.this_computer import ThisComputer

_LOGIN = ("login",)
_PYTHON = ("login", "shell", "consent")
_QUEUE = ("login", "shell", "scheduler")
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
