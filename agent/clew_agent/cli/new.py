"""``clew-agent new NAME``: writes a file with a working exercise, to be adapted."""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from clew_agent.catalogue.exercise_files import SCRIPT_LOG
from clew_shared.base.file_names import why_unsafe
from clew_shared.base.harmless import say
from clew_shared.base.problem import problem

_TEMPLATE = SCRIPT_LOG.parents[1] / "lesson" / "template.py"
"""Read as a file: its package would load TensorFlow."""
_SCRIPT = SCRIPT_LOG.with_name("clew_new_script.py")
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST = 60


def new(argv: Sequence[str]) -> int:
    """Write the file; returns 0. Raises ``ProblemError`` for a bad name, an existing file or a full disk."""
    parser = argparse.ArgumentParser(prog="clew-agent new", description="Write a file with a working exercise.")
    parser.add_argument("name", help="the exercise's name, such as two-layers")
    parser.add_argument("--folder", type=Path, default=Path(), help="where to put the file; default: here")
    parser.add_argument(
        "--script",
        action="store_true",
        help="a training script for any framework, with clew_log.py",
    )
    options = parser.parse_args(argv)
    path = write_template(options.name, options.folder, script=options.script)
    say(f"{path} is ready. Try it: clew run {path} --preset tiny")
    return 0


def write_template(name: str, folder: Path, script: bool = False) -> Path:
    """The template under the name ``name``, as a new file in ``folder``. Raises ``ProblemError``.

    ``script``: that of a training script; beside it comes ``clew_log.py``, so that it runs without Clew as well.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST or why_unsafe(name):
        text = f"{name[:80]!r} cannot be the name of an exercise."
        hint = f"Use small letters, digits and single hyphens, {_LONGEST} at most, such as two-layers."
        hint += f" {name!r} will not do: {why}." if (why := why_unsafe(name)) and len(name) <= _LONGEST else ""
        raise problem("new.name", text, hint, "name")
    path = folder / f"{name.replace('-', '_')}.py"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(_script(name) if script else _template(name))
        if script:
            shutil.copyfile(SCRIPT_LOG, folder / SCRIPT_LOG.name)
    except FileExistsError:
        raise problem("new.exists", f"{path} exists already.", "Choose another name or folder.", "name") from None
    except OSError as error:
        path.unlink(missing_ok=True)
        text = f"{path} cannot be written: {error.strerror or error}."
        raise problem("new.write", text, "Check the folder, its permissions and the free space.", "folder") from None
    return path


def _script(name: str) -> str:
    title = name.replace("-", " ").capitalize()
    own = {
        "my-script": name,
        "My script": title,
        "from clew_agent.scripts import clew_log": f"import {SCRIPT_LOG.stem}",
    }
    return _replaced(_SCRIPT.read_text(encoding="utf-8"), own)


def _template(name: str) -> str:
    words = name.split("-")
    replaced = {
        "my-exercise": name,
        "MyExercise": "".join(word.capitalize() for word in words),
        "My exercise": " ".join(words).capitalize(),
    }
    return _replaced(_TEMPLATE.read_text(encoding="utf-8"), replaced)


def _replaced(text: str, replaced: Mapping[str, str]) -> str:
    for old, own in replaced.items():
        text = text.replace(old, own)
    return text
