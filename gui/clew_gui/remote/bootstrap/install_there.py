"""Runs on the site, in its own Python: unpacks what comes behind it into a folder that appears whole or not at all.

It comes over standard input: a line of JSON with the question follows it, then a packed tar archive. Two that install
the same at once do no harm: the folder's name stands for its content. The answer is a line of JSON behind a mark.
"""
# ruff: noqa: I002

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
from typing import Any

KEPT = 3
DAY_S = 86400
YOUNG_S = 14 * DAY_S
LIST = "clew-files.json"


def digests(folder: str) -> "dict[str, str]":
    """SHA-256 of each file below ``folder``, by its path."""
    found = {}
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            path = os.path.join(base, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = hashlib.sha256(file.read()).hexdigest()
    return found


def unpack(data: bytes, folder: str) -> None:
    """Only plain files, only below ``folder``."""
    if not data:
        return
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        for member in archive:
            parts = member.name.split("/")
            if not member.isfile() or member.name.startswith("/") or ".." in parts:
                raise ValueError("the archive holds " + member.name)
            path = os.path.join(folder, *parts)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                shutil.copyfileobj(archive.extractfile(member), file)


def fetch(requirements: "list[str]", folder: str) -> str:
    """Let this Python's own pip bring packages. Returns its last words when it could not."""
    if not requirements:
        return ""
    words = [sys.executable, "-m", "pip", "install", "--no-deps", "--only-binary=:all:", "--target", folder]
    words += ["--disable-pip-version-check", "--no-input", "--retries", "1", "--timeout", "15", "--upgrade", "--quiet"]
    done = subprocess.run(
        words + requirements,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=240,
        check=False,
    )
    said = done.stdout.decode("utf-8", "replace").strip().splitlines()
    return (said or ["pip failed"])[-1] if done.returncode else ""


def put(new: str, target: str, replace: bool) -> None:
    """Give the folder its name; what is damaged there goes, what another has just made stays."""
    if replace and os.path.isdir(target):
        aside = tempfile.mkdtemp(prefix=".old-", dir=os.path.dirname(target))
        try:
            os.rename(target, os.path.join(aside, "it"))
        except FileNotFoundError:  # somebody else was faster
            pass
        shutil.rmtree(aside, ignore_errors=True)
    try:
        os.rename(new, target)
    except OSError:
        if not os.path.isdir(target):
            raise
        shutil.rmtree(new, ignore_errors=True)


def prune(software: str, kept: "list[str]") -> None:
    """Remove versions that nobody used for two weeks, but never the last three, and what a cut left behind."""
    ages = {}
    for name in os.listdir(software):
        try:
            ages[name] = time.time() - os.stat(os.path.join(software, name)).st_mtime
        except OSError:
            continue
    gone = [name for name, age in ages.items() if name.startswith((".new-", ".old-")) and age > DAY_S]
    for prefix in ("agent-", "packages-"):
        ours = sorted((name for name in ages if name.startswith(prefix)), key=lambda name: ages[name])
        gone += [name for name in ours[KEPT:] if ages[name] > YOUNG_S and name not in kept]
    for name in gone:
        shutil.rmtree(os.path.join(software, name), ignore_errors=True)


def install(question: "dict[str, Any]", data: bytes) -> "dict[str, Any]":
    """Returns why it could not be done, empty when it was."""
    software = question["software"]
    os.makedirs(software, mode=0o700, exist_ok=True)
    prune(software, question["kept"])
    new = tempfile.mkdtemp(prefix=".new-", dir=software)
    try:
        unpack(data, new)
        if any(digests(new).get(path) != digest for path, digest in question["files"].items()):
            return {"refused": "damaged", "why": "what arrived is not what was sent"}
        said = fetch(question["fetch"], new)
        if said:
            return {"refused": "pip", "why": said}
        files = digests(new)
        with open(os.path.join(new, LIST), "w") as file:
            json.dump(files, file)
        put(new, os.path.join(software, question["name"]), question["replace"])
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return {}


def main() -> None:
    """Answer the question."""
    sys.path[:] = [path for path in sys.path if path]  # nothing of the current folder
    os.umask(0o077)
    question = json.loads(sys.stdin.buffer.readline().decode("utf-8"))
    data = sys.stdin.buffer.read()
    try:
        answer = install(question, data)
    except (OSError, ValueError, EOFError, tarfile.TarError, subprocess.SubprocessError) as error:
        number = getattr(error, "errno", None)
        answer = {
            "refused": "full" if number in (28, 122) else "error",
            "why": getattr(error, "strerror", 0) or str(error),
        }
        try:
            answer["free"] = shutil.disk_usage(os.path.expanduser("~")).free
        except OSError:
            pass
    print("\n" + question["mark"] + json.dumps(answer))


if __name__ == "__main__":
    main()
