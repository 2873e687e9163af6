"""Runs on the site, in its own Python: unpacks what comes after it into a folder that appears whole or not at all.

``ask_there`` sends it and calls ``answer``; a packed tar archive follows on standard input. Two that install the same
at once do no harm: the folder's name is made from its content.
"""
# ruff: noqa: I002

import contextlib
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

KEPT = 3
"""The newest versions that stay, however old: a computer with an earlier Clew may come back."""
DAY_S = 86400
YOUNG_S = 14 * DAY_S
LIST = "clew-files.json"
FULL = (28, 122)  # no space left on the device, or none of one's quota


def digests(folder: Path) -> "dict[str, str]":
    """SHA-256 of each file below ``folder``, by its path."""
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def unpack(data: bytes, folder: Path) -> None:
    """Unpacks plain files only, and only below ``folder``."""
    if not data:
        return
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is None or not member.isfile() or member.name[:1] == "/" or ".." in member.name.split("/"):
                raise ValueError("the archive holds " + member.name)
            path = folder / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.read())


def fetch(requirements: "list[str]", folder: Path) -> str:
    """Let this Python's own pip bring packages. Returns its last words when it could not."""
    if not requirements:
        return ""
    words = [sys.executable, "-m", "pip", "install", "--no-deps", "--only-binary=:all:", "--target", str(folder)]
    words += ["--disable-pip-version-check", "--no-input", "--retries", "1", "--timeout", "15", "--upgrade", "--quiet"]
    done = subprocess.run(
        words + requirements,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    said = done.stdout.decode("utf-8", "replace").strip().splitlines()
    return (said or ["pip failed"])[-1] if done.returncode else ""


def put(new: Path, target: Path, replace: bool) -> None:
    """Give the folder its name; what is damaged there goes, what another has just made stays."""
    if replace:
        aside = Path(tempfile.mkdtemp(prefix=".old-", dir=str(target.parent)))
        with contextlib.suppress(FileNotFoundError):  # someone else was faster
            target.rename(aside / "it")
        shutil.rmtree(str(aside), ignore_errors=True)
    try:
        new.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def prune(software: Path, kept: "list[str]") -> None:
    """Remove versions that nobody used for two weeks, but never the last three, and what interrupted transfers left."""
    ages = {}
    for path in software.iterdir():
        with contextlib.suppress(OSError):
            ages[path.name] = time.time() - path.stat().st_mtime
    gone = [name for name, age in ages.items() if name.startswith((".new-", ".old-")) and age > DAY_S]
    for prefix in ("agent-", "packages-"):
        ours = sorted((name for name in ages if name.startswith(prefix)), key=lambda name: ages[name])
        gone += [name for name in ours[KEPT:] if ages[name] > YOUNG_S and name not in kept]
    for name in gone:
        shutil.rmtree(str(software / name), ignore_errors=True)


def install(question: "dict[str, Any]", data: bytes) -> "dict[str, Any]":
    """Returns why it could not be done, empty when it was."""
    software = Path(question["software"])
    software.mkdir(mode=0o700, parents=True, exist_ok=True)
    if question["name"]:
        prune(software, question["kept"])
    new = Path(tempfile.mkdtemp(prefix=".new-", dir=str(software)))
    try:
        unpack(data, new)
        if digests(new) != question["files"]:
            return {"refused": "damaged", "why": "what arrived is not what was sent"}
        said = fetch(question["fetch"], new)
        if said:
            return {"refused": "pip", "why": said}
        if not question["name"]:  # it was to be tried only
            return {}
        (new / LIST).write_text(json.dumps(digests(new)))
        put(new, software / question["name"], question["replace"])
    finally:
        shutil.rmtree(str(new), ignore_errors=True)
    return {}


def refusal(error: Exception) -> "dict[str, Any]":
    """Returns what the system said, and how much space there is."""
    found = {"refused": "error", "why": str(error)}  # type: dict[str, Any]
    if isinstance(error, OSError):
        found = {"refused": "full" if error.errno in FULL else "error", "why": error.strerror or str(error)}
        with contextlib.suppress(OSError):
            found["free"] = shutil.disk_usage(str(Path.home())).free
    return found


def answer(question: "dict[str, Any]") -> "dict[str, Any]":
    """Returns why it could not be done, empty when it was."""
    os.umask(0o077)
    try:
        return install(question, sys.stdin.buffer.read())
    except (OSError, ValueError, EOFError, tarfile.TarError, zlib.error, subprocess.SubprocessError) as error:
        return refusal(error)
