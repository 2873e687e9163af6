"""The site's software: stand-ins, environment modules, a Python that students may run, and TensorFlow as a module.

TensorFlow is this project's own from ``.venv``, shown under another path: nothing is copied or installed. Only what
TensorFlow, Keras and scikit-learn need is visible, so an agent must bring its own other packages, as on a real site.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

from minicluster.plan import PROJECT, SOURCES

_OFFERED = ("tensorflow-cpu", "tensorflow", "keras", "scikit-learn")
_FURTHER = {"jupyter": "jupyter-server", "tensorboard": "tensorboard"}
"""More modules, with the distribution that each shows."""
_ON_THE_SITE = "/opt/site/packages"


def write(folder: Path) -> None:
    """Put the site's files into the run folder; the storage's first process shows them as ``/opt/site``."""
    site = folder / "site"
    shutil.copytree(SOURCES / "site", site)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    _write_module(site / f"modulefiles/python/{version}", "Python", [("PATH", "/opt/site/python/bin")])
    packages = packages_folder()
    if packages is not None:
        _offer_tensorflow(site, packages, version)
    if data := os.environ.get("CLEW_DATA"):
        target = Path(data).resolve()
        (folder / "data").symlink_to(target if target.is_dir() else target.parent)


def python_folder() -> Path:
    """The prefix of the Python that runs this program, whoever may read it; it is shown as ``/opt/site/python``."""
    return Path(sys.base_prefix).resolve()


def packages_folder() -> Path | None:
    """The project's ``site-packages``, when TensorFlow for this Python is installed there."""
    folder = PROJECT / f".venv/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    return folder if (folder / "tensorflow").is_dir() else None


def _offer_tensorflow(site: Path, packages: Path, version: str) -> None:
    paths = _show(site, packages, "tensorflow", _OFFERED)
    for module in (f"tensorflow/{version}", f"python_ML/{version}"):
        _write_module(site / "modulefiles" / module, "Python with TensorFlow, Keras and scikit-learn", paths)
    for name, distribution in _FURTHER.items():
        _write_module(
            site / f"modulefiles/{name}/{version}", distribution, _show(site, packages, name, (distribution,))
        )


def _show(site: Path, packages: Path, name: str, offered: tuple[str, ...]) -> list[tuple[str, str]]:
    """Make a folder of links to what is ``offered``; what a module that shows it prepends."""
    library = site / name
    library.mkdir()
    for entry in sorted(visible_names(packages, offered)):
        (library / entry).symlink_to(f"{_ON_THE_SITE}/{entry}")
    return [("PATH", "/opt/site/python/bin"), ("PYTHONPATH", f"/opt/site/{name}")]


def _write_module(path: Path, what: str, prepended: list[tuple[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["#%Module", f'module-whatis "{what}"', f"conflict {path.parent.name}"]
    lines += [f"prepend-path {variable} {value}" for variable, value in prepended]
    path.write_text("\n".join(lines) + "\n")


def visible_names(packages: Path, offered: tuple[str, ...] = _OFFERED) -> set[str]:
    """The files and folders of ``packages`` that belong to the offered distributions and all that they require."""
    known = {_normal(found.name): found for found in distributions(path=[str(packages)])}
    wanted: set[str] = set()
    ahead = [name for name in offered if name in known]
    while ahead:
        name = ahead.pop()
        wanted.add(name)
        ahead += [other for other in _required(known[name]) if other in known and other not in wanted]
    return {entry for name in wanted for entry in _top_level(known[name])} - {"bin", "__pycache__"}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _required(distribution: Distribution) -> list[str]:
    """Names without those of extras. Conditions on the platform do not matter: only what is installed counts."""
    lines = [line for line in distribution.requires or [] if "extra ==" not in line]
    return [_normal(found.group()) for line in lines if (found := re.match(r"[\w.-]+", line))]


def _top_level(distribution: Distribution) -> set[str]:
    record = distribution.read_text("RECORD") or ""
    return {line.split("/")[0].split(",")[0] for line in record.splitlines()} - {"..", ""}
