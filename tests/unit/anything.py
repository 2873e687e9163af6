"""Hypothesis strategies for our structs, made from their declared types."""

from __future__ import annotations

import types
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

from clew_shared.cards import ByHand


def any_of(kind: type[msgspec.Struct], *, finite: bool = False) -> st.SearchStrategy[Any]:
    """Any value of the struct, with each optional field present or at its default. No NaN: it is unequal to itself."""
    fields = msgspec.structs.fields(kind)
    hints = get_type_hints(kind)
    required = {field.name: _values(hints[field.name], finite) for field in fields if field.required}
    if kind is ByHand:  # which refuses another number of weights, and no point
        weight, point = _values(float, finite), _values(tuple[float, float, int], finite)
        required |= {
            "weights": st.lists(weight, min_size=9, max_size=9).map(tuple),
            "points": st.lists(point, min_size=1, max_size=3).map(tuple),
        }
    optional = {field.name: _values(hints[field.name], finite) for field in fields if not field.required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda values: kind(**values))


def _values(hint: Any, finite: bool) -> st.SearchStrategy[Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return st.one_of([_values(argument, finite) for argument in arguments])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is dict:
        return st.dictionaries(st.text(max_size=9), _values(arguments[1], finite), max_size=3)
    if origin is tuple and arguments[1:] == (Ellipsis,):
        return st.lists(_values(arguments[0], finite), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*(_values(argument, finite) for argument in arguments))
    if issubclass(hint, msgspec.Struct):
        return st.deferred(lambda: any_of(hint, finite=finite))
    if issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    plain = {
        bool: st.booleans(),
        bytes: st.binary(max_size=40),
        float: st.floats(allow_nan=False, allow_infinity=not finite),
        int: st.integers(-(2**63), 2**63 - 1),  # MessagePack's integers have 64 bits
        str: st.text(max_size=30),
        type(None): st.none(),
    }
    return plain[hint]
