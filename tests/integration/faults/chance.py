"""Random moments that can be had again, how often a scenario is repeated, and a tally of what was done."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path


class Tally:
    """Counts over a whole session of tests. ``make soak`` names a file for it in CLEW_TALLY."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, what: str, count: int = 1) -> None:
        """Count something: scenarios, kills, cuts, bytes compared."""
        self.counts[what] += count

    def keep(self) -> None:
        """Append the counts to the file, if there is one."""
        if path := os.environ.get("CLEW_TALLY"):
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(json.dumps(self.counts) + "\n")


class Chance:
    """The dice of one test: ``seed`` from CLEW_SEED or fresh, ``name`` makes each test's dice its own."""

    def __init__(self, name: str) -> None:
        self.seed = os.environ.get("CLEW_SEED") or str(random.SystemRandom().randrange(10**6))
        self.soak = os.environ.get("CLEW_SOAK") == "1"
        self.dice = random.Random(f"{self.seed} {name}")

    def rounds(self, usual: int, soak: int) -> range:
        """To be gone through: ``usual`` repetitions in ``make test``, ``soak`` in ``make soak``."""
        return range(soak if self.soak else usual)
