"""Jupyter: how it is started on a socket of its own, and what to do where it is missing."""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from clew_shared.base import operating_system
from clew_shared.base.foreign import from_json
from clew_shared.base.installation import how_to_install
from clew_shared.base.private_files import write_private
from clew_shared.base.problem import problem

SOCKET = "s"
"""The name of the socket in the service's folder; the whole path may have about a hundred bytes."""
_JUPYTER = (
    ("jupyterlab", "jupyter-lab", "JupyterLab", "/lab"),
    ("notebook", "jupyter-notebook", "Jupyter Notebook", "/tree"),
    ("jupyter_server", "jupyter-server", "Jupyter Server", "/"),
)
"""Module, program, name for people, first page; the best first."""

_KERNELS = Path(__file__).resolve().with_name("kernels")
"""Has the module that starts Jupyter's Python kernels, which listen on ports of their own otherwise."""

HasModule = Callable[[str], bool]
Which = Callable[[str], str | None]


class ServiceProgram(msgspec.Struct, frozen=True, kw_only=True):
    """The way in which Jupyter is started: no secret is in ``command`` or ``environment``. ``page`` is where it
    begins."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = {}
    page: str = "/"


def new_token() -> str:
    """256 random bits, safe in an address."""
    return secrets.token_urlsafe(32)


def prepare(
    folder: Path, token: str, has_module: HasModule | None = None, which: Which = shutil.which
) -> ServiceProgram:
    """Write what Jupyter needs into ``folder``, which is the service's own and owner-only.

    Raises ``ProblemError`` when it is not installed here.
    """
    if not operating_system.HAS_UNIX_SOCKETS:
        text = "An agent on Windows cannot open Jupyter: there it listens only on a port, without Clew's token."
        raise problem("service.system", text, "Start it yourself: python -m jupyterlab", "jupyter")
    for module, script, name, page in _JUPYTER:
        found = which(script)
        if (has_module or _has_module)(module):
            begin: tuple[str, ...] = (sys.executable, "-m", module)
        elif found:
            begin = (found,)
        else:
            continue
        config = folder / "jupyter.json"
        write_private(config, msgspec.json.encode(jupyter_config(folder / SOCKET, token, Path.home())), lasting=False)
        own = {
            "JUPYTER_RUNTIME_DIR": str(folder),  # it writes the token there, and its kernels' sockets lie there
            "PYTHONPATH": os.pathsep.join(filter(None, (str(_KERNELS), os.environ.get("PYTHONPATH")))),
        }
        return ServiceProgram(name=name, command=(*begin, f"--config={config}"), environment=own, page=page)
    text = f"Jupyter is not installed for the Python of this agent ({sys.executable})."
    hint = f"Add a module that has it to the site's modules, or install it there. {how_to_install('jupyterlab')}"
    raise problem("service.missing", text, hint, "jupyter")


def _has_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def jupyter_config(sock: Path, token: str, root: Path) -> dict[str, dict[str, object]]:
    """Jupyter's own configuration. Kernels talk through sockets in the same folder: what they print on a port of the
    node's loopback could be read by every user of the node."""
    common: dict[str, object] = {
        "sock": str(sock),
        "sock_mode": "0600",
        "open_browser": False,
        "allow_root": operating_system.is_superuser(),
    }
    return {
        "IdentityProvider": {"token": token},
        "ServerApp": {**common, "token": token, "root_dir": str(root)},
        "NotebookApp": {**common, "token": token, "notebook_dir": str(root)},
        "ConnectionFileMixin": {"transport": "ipc"},
    }


def took_port(folder: Path) -> bool:
    """Whether a Jupyter that was started in ``folder`` says that it listens on a port: one that knows no ``sock``."""
    for path in (*folder.glob("jpserver-*.json"), *folder.glob("nbserver-*.json")):
        with suppress(OSError, msgspec.DecodeError):  # it is being written, or removed
            if not from_json(path.read_bytes(), _Listening).sock:
                return True
    return False


class _Listening(msgspec.Struct):
    """The data that Jupyter writes into its runtime folder about itself."""

    sock: str = ""
