"""Sites as TOML that a person can read, change and share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import tomli_w

from clew_gui.schedulers.allocation import FIELDS, AllocationRequest
from clew_gui.sites.check import SECRET_FIELD, check_secrets, check_site, secret_field
from clew_gui.sites.site import Site, with_address
from clew_shared.base.foreign import from_toml as parse_toml
from clew_shared.base.foreign import read_file
from clew_shared.base.problem import Problem, did_you_mean, problem, raise_all
from clew_shared.params import check

MAX_BYTES = 256 * 1024


def to_toml(site: Site) -> str:
    """The site as TOML text that ``from_toml`` reads back; fields at their default are left out."""
    return tomli_w.dumps(to_table(site), multiline_strings=True)


def to_table(site: Site) -> dict[str, Any]:
    """Returns the contents of the TOML text. The format is always named."""
    plain: dict[str, Any] = msgspec.to_builtins(site)
    usual: dict[str, Any] = msgspec.to_builtins(Site())
    table = {name: value for name, value in plain.items() if value != usual[name] or name == "format"}
    if "allocation" in table:
        defaults = usual["allocation"]
        table["allocation"] = {name: value for name, value in table["allocation"].items() if value != defaults[name]}
    return table


def read_site(path: Path) -> Site:
    """The site in the file ``path``. Raises ``ProblemError`` when it cannot be read or anything in it is wrong."""
    try:
        text = read_file(path, MAX_BYTES).decode("utf-8-sig")
    except ValueError as error:  # text that is no UTF-8
        raise problem("site.read", f"Cannot read {path}: {error}.", "Check the path.", str(path)) from None
    return from_toml(text, str(path))


def from_toml(text: str, origin: str = "the site file") -> Site:
    """The site in ``text``. Raises ``ProblemError`` for broken TOML, and for wrong fields with *all* of them."""
    try:
        table = parse_toml(text.replace("\r\n", "\n"))
    except ValueError as error:  # TOMLDecodeError, a number of 5000 digits, endless brackets
        raise problem("site.toml", f"{origin} is not valid TOML: {error}.", "Fix that line.", origin) from None
    return from_table(table)


def from_table(table: Mapping[str, object]) -> Site:
    """The site in a TOML table. Raises ``ProblemError`` with everything that is wrong with it."""
    kinds = get_type_hints(Site)
    values: dict[str, Any] = {}
    found: list[Problem] = []
    for name, value in table.items():
        if name == "allocation":
            values[name], problems = _allocation(value)
            found += problems
        elif name not in kinds:
            found.append(unknown_field(name, kinds))
        else:
            try:
                values[name] = msgspec.convert(_as_ports(value) if name == "ports" else value, kinds[name], strict=True)
            except (msgspec.ValidationError, RecursionError):
                found.append(_mistyped(name, value, kinds[name]))
    site = with_address(Site(**values))
    raise_all([*found, *check_site(site)])
    return site


def _as_ports(value: object) -> object:
    """``[41000, 41001]``, also if it is written in the usual form: "41000-41001"."""
    text = value[0] if isinstance(value, list) and len(value) == 1 else value
    if isinstance(text, str) and (match := re.fullmatch(r"\s*(\d{1,6})\s*[-–]\s*(\d{1,6})\s*", text, re.ASCII)):
        return [int(match[1]), int(match[2])]
    return value


def _allocation(value: object) -> tuple[AllocationRequest, list[Problem]]:
    if not isinstance(value, dict):
        return AllocationRequest(), [_mistyped("allocation", value, dict)]
    known = {field.name: field for field in FIELDS}
    given = {name: inner for name, inner in value.items() if name in known}
    typed, problems = check(FIELDS, given)
    found = [msgspec.structs.replace(one, code="site.form", where=f"allocation.{one.where}") for one in problems]
    found += [unknown_field(f"allocation.{name}", known) for name in value if name not in known]
    return AllocationRequest(**typed), found  # type: ignore[arg-type]  # check returns each field's own type


def unknown_field(name: str, known: Iterable[str]) -> Problem:
    """The refusal of a field that no site has, with the one that was probably meant."""
    bare = name.rpartition(".")[2]
    if SECRET_FIELD.search(bare):
        return secret_field(name)
    hint = did_you_mean(bare, known) or f"Known fields: {', '.join(known)}."
    return Problem("site.fields", f"A site has no field {name!r}.", hint, name)


def _mistyped(name: str, value: object, kind: Any) -> Problem:
    words = {int: "a whole number", str: "a text in quotes", bool: "true or false", dict: "a table"}
    choices = [choice for choice in get_args(kind) if isinstance(choice, str)]
    wanted = (
        "two numbers in [ ], such as [40000, 40999]"
        if name == "ports"
        else words.get(kind) or (f"one of {', '.join(repr(one) for one in choices)}" if choices else "a list in [ ]")
    )
    secret = check_secrets(name, value) if isinstance(value, str) else []
    shown = "something else" if secret else repr(value)[:60]
    return Problem("site.fields", f"{name} must be {wanted}, got {shown}.", where=name)
