"""Run specs: what is to run, as TOML that a person can read, keep and hand on."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import tomli_w

from clew_shared.params import Value
from clew_shared.problem import Problem, ProblemError, problem

SPEC_FORMAT = 1


class RunSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run: the exercise, its hyperparameters, the seed, the data and where it spreads.

    ``source_hash`` is the SHA-256 of the exercise file that was chosen from; the agent refuses another one. ``data`` is
    a data set's name or a path, empty for the exercise's own default. ``run`` is a UUID made by whoever starts it.
    """

    exercise: str
    format: int = SPEC_FORMAT
    run: str = ""
    name: str = ""
    preset: str = ""
    seed: int = 1
    data: str = ""
    strategy: str = "single"
    devices: int = 1
    source_hash: str = ""
    params: dict[str, Value] = {}


def to_toml(spec: RunSpec) -> str:
    """The spec as TOML text; fields that hold nothing are left out."""
    table = {key: value for key, value in msgspec.to_builtins(spec).items() if value not in ("", None, {})}
    if "params" in table:  # TOML has no null: an absent optional value says the same
        table["params"] = {key: value for key, value in table["params"].items() if value is not None}
    return tomli_w.dumps(table)


def from_toml(text: str, origin: str = "the run spec") -> RunSpec:
    """The spec in ``text``. Raises ``ProblemError`` for broken TOML, wrong types and another format version."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise problem("spec.toml", f"{origin} is not valid TOML: {error}.", "Mend that line.", origin) from None
    try:
        spec = msgspec.convert(table, RunSpec)
    except msgspec.ValidationError as error:
        raise problem("spec.fields", f"{origin} is not a run spec: {error}.", where=origin) from None
    found = _complaints(spec, origin)
    if found:
        raise ProblemError(*found)
    return spec


def read_spec(path: Path) -> RunSpec:
    """The spec in the file ``path``. Raises ``ProblemError`` when it cannot be read or is no spec."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise problem("spec.read", f"Cannot read {path}: {error}.", "Check the path.", str(path)) from None
    return from_toml(text, str(path))


def _complaints(spec: RunSpec, origin: str) -> list[Problem]:
    found = []
    if spec.format != SPEC_FORMAT:
        text = f"{origin} has format {spec.format}; this version reads format {SPEC_FORMAT}."
        found.append(Problem("spec.format", text, where="format"))
    if not 0 <= spec.seed < 2**31:
        found.append(Problem("spec.seed", f"The seed must be from 0 to 2147483647, got {spec.seed}.", where="seed"))
    if spec.devices < 1:
        found.append(Problem("spec.devices", f"At least 1 device is needed, got {spec.devices}.", where="devices"))
    return found
