"""The built-in catalogue: it travels in the package, so that a window draws at once and offline."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import msgspec

from clew_shared.base.foreign import from_json
from clew_shared.base.problem import did_you_mean, problem
from clew_shared.cards import Catalogue, DataSetCard, ExerciseCard, Preset, StrategyCard

FIRST_EXERCISE = "linear-regression"
"""The exercise to begin with: it needs no data and trains within two seconds."""
BUILTIN = Path(__file__).parent / "builtin_catalogue.json"


def load_builtin() -> Catalogue:
    """The exercises that come with this version, each with the text of its file if that is in the package.

    Raises ``ProblemError`` when the package is incomplete.
    """
    return _read(BUILTIN, lambda data: _with_sources(decode(data), lambda card: agent_file(card.file)))


def agent_file(path: str) -> str:
    """The text of a file of the agent's package, such as ``clew_agent/exercises/cnn.py``; empty where it is not."""
    agent = find_spec("clew_agent")  # as a place of files: nothing of it is imported
    root = Path(agent.origin).parents[1] if agent is not None and agent.origin is not None else Path()
    try:
        return (root / path).read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return ""  # guides, forms and curves are shown without the code as well


def known_sets() -> Mapping[str, DataSetCard]:
    """The data sets that this version knows, by name. Raises ``ProblemError`` when the package is incomplete."""
    return _sets(BUILTIN)


@cache
def _sets(file: Path) -> Mapping[str, DataSetCard]:
    return _read(file, lambda data: {card.name: card for card in from_json(data, _DataSets).datasets})


def known_strategies() -> Mapping[str, StrategyCard]:
    """The strategies that this version knows, by id. Raises ``ProblemError`` when the package is incomplete."""
    return _strategies(BUILTIN)


@cache
def _strategies(file: Path) -> Mapping[str, StrategyCard]:
    """Of several cards of one strategy the first that an exercise has: one for a measurement may leave settings out."""
    cards = _read(file, lambda data: [card for one in from_json(data, _Spreads).exercises for card in one.strategies])
    return {card.id: card for card in reversed(cards)}


def on_servers(strategy: str) -> bool:
    """Whether a run under this strategy has workers that take batches by themselves, and servers or one memory that
    holds the weights: its processes have roles, and may be replaced."""
    card = known_strategies().get(strategy)
    return card is not None and bool(card.roles)


class _Strategies(msgspec.Struct):
    strategies: tuple[StrategyCard, ...] = ()


class _Spreads(msgspec.Struct):
    """The part of a catalogue that says how exercises spread."""

    exercises: tuple[_Strategies, ...] = ()


class _DataSets(msgspec.Struct):
    """The part of a catalogue that is asked for again and again: it takes a small part of the time of the whole."""

    datasets: tuple[DataSetCard, ...] = ()


_T = TypeVar("_T")


def _read(file: Path, parse: Callable[[bytes], _T]) -> _T:
    try:
        return parse(file.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        text = f"The built-in catalogue cannot be read: {error}."
        raise problem("catalogue.builtin", text, "Install Clew again.", str(file)) from None


def pack(catalogue: Catalogue) -> bytes:
    """The built-in catalogue as the package carries it: without the texts that are in it as files already."""
    return encode(_with_sources(catalogue, lambda _: ""))


def _with_sources(catalogue: Catalogue, source: Callable[[ExerciseCard], str]) -> Catalogue:
    cards = tuple(msgspec.structs.replace(card, source=source(card)) for card in catalogue.exercises)
    return msgspec.structs.replace(catalogue, exercises=cards)


def encode(catalogue: Catalogue) -> bytes:
    """The catalogue as JSON with a line for each exercise and data set, so that a diff names those that changed."""
    text = msgspec.json.encode(msgspec.structs.replace(catalogue, exercises=(), datasets=()))
    for name in (b"datasets", b"exercises"):  # an exercise without data has an empty field of that name
        lines = b",\n".join(map(msgspec.json.encode, getattr(catalogue, name.decode())))
        text = text.replace(b'"%b":[],' % name, b'"%b":[\n%b\n],' % (name, lines), 1)
    return text + b"\n"


def decode(data: bytes) -> Catalogue:
    """The catalogue in JSON bytes. Raises ``msgspec.DecodeError``."""
    found: Catalogue = from_json(data, Catalogue)
    return found


def catalogue_hash(catalogue: Catalogue) -> str:
    """The SHA-256 of the catalogue's JSON: shows a viewer whether the agent offers what it shows."""
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
