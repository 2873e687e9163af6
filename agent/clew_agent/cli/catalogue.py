"""``clew-agent catalogue``: shows the exercises, or writes and checks the catalogue that the package carries."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from clew_agent.catalogue.catalogue import make_catalogue
from clew_shared.base.harmless import say
from clew_shared.base.problem import ProblemError, raise_all
from clew_shared.base.terminal import ascii_json
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.catalogue import BUILTIN, encode, load_builtin, pack


def catalogue(argv: Sequence[str]) -> int:
    """Returns 0, or 1 when ``--check`` finds a difference.

    Raises ``ProblemError`` instead of writing the package's own catalogue when one of its exercises cannot be imported.
    """
    parser = argparse.ArgumentParser(prog="clew-agent catalogue", description="List the exercises.")
    parser.add_argument("--json", action="store_true", help="print the whole cards as JSON")
    parser.add_argument("--exercises", type=Path, metavar="DIR", help="add the exercises in this folder")
    parser.add_argument("--write", type=Path, nargs="?", const=BUILTIN, metavar="FILE", help="write the JSON there")
    parser.add_argument("--check", action="store_true", help="exit 1 if the packaged catalogue is out of date")
    options = parser.parse_args(argv)
    made = make_catalogue(options.exercises, fresh=options.exercises is None)
    if options.write is not None:
        if options.write == BUILTIN:
            raise_all([card.problem for card in made.exercises if card.problem is not None])
        _remind(made)
        options.write.write_bytes(pack(made))
    elif options.check:
        return _check(made)
    elif options.json:
        sys.stdout.write(ascii_json(encode(made)))
    else:
        say("\n".join(line for card in made.exercises for line in _lines(card)))
    return 0


def _remind(made: Catalogue) -> None:
    """Say which built-in files changed and kept their revision: only their author knows whether they train alike."""
    with suppress(ProblemError):
        before = {card.id: card for card in load_builtin().exercises}
        kept = [card for card in made.exercises if card.id in before and before[card.id].revision == card.revision]
        for card in kept:
            if before[card.id].source_hash != card.source_hash:
                words = f"{card.id}: its file changed but its revision is still {card.revision}"
                words += ", so earlier runs can be continued. If it trains in another way now, raise the revision in"
                say(f"{words} {card.file}.", sys.stderr)


def _check(made: Catalogue) -> int:
    try:
        packaged = load_builtin()
    except ProblemError as error:
        say(f"clew-agent catalogue: {error}", sys.stderr)
        return 1
    if packaged == made:
        return 0
    before = {card.id: card for card in packaged.exercises}
    after = {card.id: card for card in made.exercises}
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    changed += ["the data sets"] if packaged.datasets != made.datasets else []
    what = ", ".join(changed) or "their order or the version"
    say(f"The built-in catalogue is out of date: {what}. Run: clew-agent catalogue --write", sys.stderr)
    return 1


def _lines(card: ExerciseCard) -> list[str]:
    if card.problem is not None:
        return [f"{card.id:<20} broken: {card.problem}"]
    presets = ", ".join(preset.name for preset in card.presets) or "none"
    strategies = ", ".join(strategy.id for strategy in card.strategies)
    names = ", ".join(spec.name for spec in card.params)
    return [
        f"{card.id:<20} {card.title}",
        f"{'':<20} presets: {presets}",
        f"{'':<20} strategies: {strategies}",
        f"{'':<20} hyperparameters: {names}",
    ]
