"""The environment with what Clew is compared with: PyTorch and JAX. ``python -m tests.bench.others`` makes it.

It is one of its own, because the product needs none of that and PyTorch's plain wheels take gigabytes.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / ".venv-bench"
STAMP = FOLDER / "clew-setup.stamp"
HOW = "`make bench` installs it into .venv-bench"


@cache
def python_with(module: str) -> str | None:
    """The interpreter that has ``module``: that environment's, or this one; None when neither has."""
    for python in (FOLDER / "bin" / "python", FOLDER / "Scripts" / "python.exe", Path(sys.executable)):
        if not python.is_file():
            continue
        ask = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
        if subprocess.run([python, "-c", ask, module], check=False, timeout=60).returncode == 0:
            return str(python)
    return None


@cache
def version_of(module: str) -> str:
    """The release of ``module`` in its environment; empty when it is absent."""
    python = python_with(module)
    if python is None:
        return ""
    ask = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    done = subprocess.run([python, "-c", ask, module], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def wanted() -> str:
    """What the environment is made from: the project file and the interpreter."""
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes())
    digest.update(f"{sys.version} {ROOT}".encode())
    return digest.hexdigest()


def install() -> None:
    """Make the environment, unless it is there. Raises ``CalledProcessError`` when pip cannot."""
    if STAMP.is_file() and STAMP.read_text(encoding="utf-8") == wanted():
        return
    print(f"bench: installing PyTorch and JAX into {FOLDER.name}; several gigabytes", file=sys.stderr)
    python = FOLDER / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if not python.exists():
        venv.create(FOLDER, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--upgrade", "pip>=25.1"], check=True, cwd=ROOT)  # dependency groups came with 25.1
    subprocess.run([*pip, "--editable", ".", "--group", "bench"], check=True, cwd=ROOT)
    STAMP.write_text(wanted(), encoding="utf-8")


if __name__ == "__main__":
    try:
        install()
    except subprocess.CalledProcessError:
        print(
            "bench: these could not be installed (pip's words are above); what needs them is left out", file=sys.stderr
        )
