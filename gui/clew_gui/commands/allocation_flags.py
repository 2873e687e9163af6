"""Flags for what is asked of a scheduler, made from the form's own fields: ``--partition``, ``--time``, ``--gpus``."""

from __future__ import annotations

import argparse

from clew_gui.commands.shell import Parser
from clew_gui.commands.words import inside
from clew_gui.remote.allocation import FIELDS, flag

_METAVAR = {"int": "N", "text": "TEXT"}


def add_allocation_flags(parser: Parser, about: str) -> None:
    """A flag for each field of an allocation; ``about`` is the heading's second line."""
    group = parser.add_argument_group("allocation", about)
    for field in FIELDS:
        help_text = f"{inside(field.label)}: {field.help}".replace("%", "%%")
        name = f"allocation_{field.name}"
        group.add_argument(flag(field), dest=name, metavar=_METAVAR.get(field.kind, "TEXT"), help=help_text)


def given_allocation(options: argparse.Namespace) -> dict[str, object]:
    """What was given, by field; an empty text takes the site's own value away."""
    values = {field.name: getattr(options, f"allocation_{field.name}") for field in FIELDS}
    return {name: value for name, value in values.items() if value is not None}
