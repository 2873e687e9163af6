"""The site's software: stand-ins, environment modules, a Python that students may run, and TensorFlow as a module.

TensorFlow is this project's own from ``.venv``, shown under another path: nothing is copied or installed. Only what
a module offers and what that needs is visible, so an agent must bring its other packages along, as on a real site.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

from minicluster.plan import PROJECT, Profile


def write(folder: Path, profile: Profile) -> None:
    """Put the site's files into the run folder; the storage's first process mounts them as the profile says."""
    site = folder / "site"
    shutil.copytree(profile.folder / "site", site)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    packages = packages_folder()
    for module in profile.modules:
        paths = [("PATH", f"{profile.software}/python/bin")]
        if module.offered:
            if packages is None:
                continue
            _show(site / module.library, visible_names(packages, module.offered), profile)
            paths.append(("PYTHONPATH", f"{profile.software}/{module.library}"))
        for file in module.files:
            _write_module(site / file.format(python=version), module.text, paths)
    if data := os.environ.get("CLEW_DATA"):
        target = Path(data).resolve()
        (folder / "data").symlink_to(target if target.is_dir() else target.parent)


def python_folder() -> Path:
    """The prefix of the Python that runs this program, whatever its permissions; the site's software includes it."""
    return Path(sys.base_prefix).resolve()


def packages_folder() -> Path | None:
    """The project's ``site-packages``, if TensorFlow for this Python is installed there."""
    folder = PROJECT / f".venv/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    return folder if (folder / "tensorflow").is_dir() else None


def _show(library: Path, names: set[str], profile: Profile) -> None:
    """Make a folder of links to this project's packages, as the hosts see them."""
    library.mkdir()
    for name in names:
        (library / name).symlink_to(f"{profile.software}/packages/{name}")


def _write_module(path: Path, what: str, prepended: list[tuple[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["#%Module", f'module-whatis "{what}"', f"conflict {path.parent.name}"]
    lines += [f"prepend-path {variable} {value}" for variable, value in prepended]
    path.write_text("\n".join(lines) + "\n")


def visible_names(packages: Path, offered: tuple[str, ...]) -> set[str]:
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
