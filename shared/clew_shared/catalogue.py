"""The built-in catalogue: it travels in the package, so that a window draws at once and offline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from clew_shared.base.foreign import from_json
from clew_shared.base.problem import did_you_mean, problem
from clew_shared.cards import Catalogue, ExerciseCard, Preset

BUILTIN = Path(__file__).parent / "builtin_catalogue.json"


def load_builtin() -> Catalogue:
    """The exercises that come with this version. Raises ``ProblemError`` when the package is incomplete."""
    try:
        return decode(BUILTIN.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        text = f"The built-in catalogue cannot be read: {error}."
        raise problem("catalogue.builtin", text, "Install Clew again.", str(BUILTIN)) from None


def encode(catalogue: Catalogue) -> bytes:
    """The catalogue as JSON that reads well in a diff: two spaces, one field a line."""
    return msgspec.json.format(msgspec.json.encode(catalogue), indent=2) + b"\n"


def decode(data: bytes) -> Catalogue:
    """The catalogue in JSON bytes. Raises ``msgspec.DecodeError``."""
    found: Catalogue = from_json(data, Catalogue)
    return found


def catalogue_hash(catalogue: Catalogue) -> str:
    """SHA-256 of its JSON: shows a viewer whether the agent offers what it shows."""
    import hashlib  # a window paints without

    return hashlib.sha256(encode(catalogue)).hexdigest()


def find_card(cards: Sequence[ExerciseCard], exercise: str) -> ExerciseCard:
    """The card of ``exercise``. Raises ``ProblemError`` that names the nearest id when there is none."""
    for card in cards:
        if card.id == exercise:
            return card
    raise problem(
        "exercise.unknown", f"There is no exercise {exercise!r}.", _hint(exercise, [c.id for c in cards]), exercise
    )


def find_preset(card: ExerciseCard, name: str) -> Preset:
    """The preset ``name`` of an exercise. Raises ``ProblemError`` that names the nearest one when there is none."""
    for preset in card.presets:
        if preset.name == name:
            return preset
    text = f"The exercise {card.id!r} has no preset {name!r}."
    raise problem("exercise.preset", text, _hint(name, [preset.name for preset in card.presets]), "preset")


def _hint(name: str, known: list[str]) -> str:
    return did_you_mean(name, known) or f"Known: {', '.join(known) or 'none'}."
