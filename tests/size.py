"""How much there is to read: lines of code in each folder, and words in the docs, against the budgets of size.toml.

``python -m tests.size`` lists what is there beside each budget; ``--lower`` writes down what has become less. Lines are
those with code: neither blanks nor comments nor docstrings.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path, PurePosixPath

import tomli_w

ROOT = Path(__file__).resolve().parents[1]
FILE = Path(__file__).with_name("size.toml")
_DEPTHS = {"shared": 3, "agent": 3, "gui": 3, "tests": 2, "packaging": 2}
"""A folder this many parts deep has a budget of its own, with all that is below it."""
_DOCS = ("README.md", "CONTRIBUTING.md", "docs/*.md", "docs/decisions/*.md")
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}

Sizes = dict[str, dict[str, int]]
"""A number for each folder, for each unit: lines or words."""


def measured() -> Sizes:
    """Lines of code of each folder and words of the docs."""
    lines: Counter[str] = Counter()
    for name in _listed("*.py"):
        path = PurePosixPath(name)
        if path.parts[0] in _DEPTHS:
            folder = PurePosixPath(*path.parent.parts[: _DEPTHS[path.parts[0]]])
            lines[str(folder)] += code_lines((ROOT / name).read_text(encoding="utf-8"))
    words: Counter[str] = Counter()
    for name in _listed(*(f":(glob){pattern}" for pattern in _DOCS)):
        words[str(PurePosixPath(name).parent)] += len((ROOT / name).read_text(encoding="utf-8").split())
    return {"lines": dict(sorted(lines.items())), "words": dict(sorted(words.items()))}


def code_lines(source: str) -> int:
    """The number of lines that have code: no blanks, no comments, no strings that stand alone as a statement."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def budgets() -> Sizes:
    """The most that each may have."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def over(sizes: Sizes, allowed: Sizes) -> list[str]:
    """A sentence for each folder that is larger than its budget or has none, and for each budget without a folder."""
    found = []
    for unit, sizes_of in sizes.items():
        for folder, size in sizes_of.items():
            budget = allowed[unit].get(folder)
            if budget is None:
                found.append(f"{folder} has {size:,} {unit} and no budget in tests/size.toml")
            elif size > budget:
                found.append(f"{folder} has {size:,} {unit}, {size - budget:,} more than tests/size.toml allows")
        found += [f"{folder} is in tests/size.toml and is gone" for folder in sorted({*allowed[unit]} - {*sizes_of})]
    return found


def lowered(sizes: Sizes, allowed: Sizes) -> Sizes:
    """The budgets, none larger than what is there; those of folders that are gone are left out."""
    return {
        unit: {folder: min(budget, sizes[unit][folder]) for folder, budget in of.items() if folder in sizes[unit]}
        for unit, of in allowed.items()
    }


def _listed(*patterns: str) -> list[str]:
    command = ["git", "-C", str(ROOT), "ls-files", "-zco", "--exclude-standard", *patterns]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    return [name for name in names if name and (ROOT / name).exists()]


if __name__ == "__main__":
    now, then = measured(), budgets()
    if "--lower" in sys.argv[1:]:
        FILE.write_text(tomli_w.dumps(lowered(now, then)), encoding="utf-8")
    for unit, sizes_of in now.items():
        for folder, size in sizes_of.items():
            print(f"{size:7,} of {then[unit].get(folder, 0):7,} {unit}  {folder}")
        print(f"{sum(sizes_of.values()):7,} of {sum(then[unit].values()):7,} {unit}")
