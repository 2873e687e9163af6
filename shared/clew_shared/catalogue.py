"""The built-in catalogue: it travels in the package, so that a window draws at once and offline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec

from clew_shared.base.foreign import from_json
from clew_shared.base.problem import did_you_mean, problem
from clew_shared.cards import Catalogue, ExerciseCard, Preset

BUILTIN = Path(__file__).parent / "builtin_catalogue.json"


def load_builtin() -> Catalogue:
    """The exercises that come with this version, each with the text of its file beside it in the package.

    Raises ``ProblemError`` when the package is incomplete.
    """
    agent = find_spec("clew_agent")
    root = Path(agent.origin).parents[1] if agent is not None and agent.origin is not None else Path()
    try:
        return _with_sources(decode(BUILTIN.read_bytes()), lambda card: (root / card.file).read_bytes().decode())
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        text = f"The built-in catalogue cannot be read: {error}."
        raise problem("catalogue.builtin", text, "Install Clew again.", str(BUILTIN)) from None


def pack(catalogue: Catalogue) -> bytes:
    """The built-in catalogue as the package carries it: without the texts that are in it as files already."""
    return encode(_with_sources(catalogue, lambda _: ""))


def _with_sources(catalogue: Catalogue, source: Callable[[ExerciseCard], str]) -> Catalogue:
    cards = tuple(msgspec.structs.replace(card, source=source(card)) for card in catalogue.exercises)
    return msgspec.structs.replace(catalogue, exercises=cards)


def encode(catalogue: Catalogue) -> bytes:
    """The catalogue as JSON with one line for each exercise, so that a diff names those that changed."""
    frame = msgspec.json.encode(msgspec.structs.replace(catalogue, exercises=()))
    cards = b",\n".join(map(msgspec.json.encode, catalogue.exercises))
    return frame.replace(b'"exercises":[]', b'"exercises":[\n%b\n]' % cards, 1) + b"\n"


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
