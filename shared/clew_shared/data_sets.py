"""Finds out which data set a file holds, and where the built-in one comes from: agent and laptop go by the same cards.

Nothing is read here, and scikit-learn is not imported.
"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import Final

from clew_shared.cards import DataSetCard
from clew_shared.catalogue import known_sets

USUAL: Final = "mnist"
"""The data set of the courses. A file that nothing else names must be in one of its forms."""
BUILT_IN: Final = "digits"
"""The data set that is everywhere."""
TABLE_SUFFIXES = (".csv", ".csv.gz")
"""A file of such a name is a table of one's own; any other file holds a data set in one of its known forms."""


def data_set_of(name_or_path: str) -> str:
    """The data set by which goals are judged.

    A file, or its folder, may be called after a set. A file that is not counts as the set whose files have such an
    ending, in one of whose forms it must be; a table and a folder have a name of their own.
    """
    known = known_sets()
    *folders, name = name_or_path.replace("\\", "/").rstrip("/").split("/")
    low = name.lower()
    if name_or_path == "" or name_or_path in known:
        return name_or_path
    if low.endswith(TABLE_SUFFIXES):
        return name
    for card in known.values():
        if low in (*card.whole, *card.parts):
            return card.name
    for one in (low, *(folder.lower() for folder in reversed(folders[-2:]))):
        for card in known.values():
            if card.files and card.name != USUAL and _is_called(one, card.name):
                return card.name
    endings = {ending: card.name for card in known.values() for ending in card.endings}
    fitting = max((ending for ending in endings if low.endswith(ending)), key=len, default="")
    return endings[fitting] if fitting else USUAL if USUAL in low else name


def _is_called(text: str, name: str) -> bool:
    """Whether a file or folder is called after a data set, as in ``cifar-10-batches-py``, but not ``cifar100``."""
    return _spellings(name).search(text) is not None


@cache
def _spellings(name: str) -> re.Pattern[str]:
    """Matches a data set's name; made once, because each path that is looked at is compared with every name."""
    pattern = "[-_]?".join(re.findall("[a-z]+|[0-9]+", name))
    return re.compile(pattern + ("(?![0-9])" if name[-1].isdigit() else ""))


def packaged_file(card: DataSetCard) -> Path | None:
    """The file of a built-in set in its Python package, which is not imported: scikit-learn takes a second."""
    package, _, inside = card.packaged.partition("/")
    try:
        spec = importlib.util.find_spec(package) if package else None
    except (ImportError, ValueError):
        return None
    path = Path(spec.origin).parent / inside if spec and spec.origin else None
    return path if path is not None and path.is_file() else None


def brought_as(card: DataSetCard) -> str:
    """Returns the path at which a laptop puts the file of a built-in set among the agent's files."""
    return f"clew_agent/datasets/{card.packaged.rpartition('/')[2]}"
