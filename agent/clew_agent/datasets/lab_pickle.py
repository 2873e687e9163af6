"""The courses' ``mnist.pkl.gz``, read by an unpickler that has nothing to execute.

A pickle is a program. Here Python's own ``Unpickler`` runs it, in the version that is written in Python: it believes no
size that it has not read. It is given only the instructions that such a file needs, a bounded number of them, and the
names that NumPy writes stand for what only notes of what an array would be made; every other name is refused.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from clew_agent.datasets.dataset import Array

_MOST = 2000
"""Instructions: six arrays need about 200."""
_NEEDED = """
PROTO FRAME MARK POP STOP EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET
STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8
INT LONG BININT BININT1 BININT2 LONG1 NONE NEWTRUE NEWFALSE GLOBAL STACK_GLOBAL REDUCE BUILD
"""
_READERS: dict[int, Callable[[Any], None]] = {
    getattr(pickle, name)[0]: pickle._Unpickler.dispatch[getattr(pickle, name)[0]] for name in _NEEDED.split()
}
_READERS[pickle.BYTEARRAY8[0]] = _READERS[pickle.BINBYTES8[0]]  # the other one makes room before it reads
_DTYPES = {
    order + name: np.dtype(order + name) for order in "<>|" for name in ("f4", "f8", "u1", "i1", "i2", "i4", "i8")
}
_DAMAGED = (
    pickle.UnpicklingError,
    struct.error,
    ArithmeticError,
    AttributeError,
    DeprecationWarning,
    EOFError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
)


class _Refusal(Exception):
    """Raised when the pickle asks for something that the courses' file does not need."""


def parse_pickle(data: bytes) -> tuple[tuple[Array, Array], ...]:
    """Returns the three pairs of images and labels in the pickle ``data``.

    Raises ``ValueError`` that says what is wrong. No code of the pickle's choosing is ever run.
    """
    try:
        parts = tuple((x.value, y.value) for x, y in _Unpickler(data).load())
    except _Refusal as refusal:
        raise ValueError(f"its pickle {refusal}") from None
    except _DAMAGED as error:
        raise ValueError(f"its pickle is damaged, or does not hold pairs of arrays ({str(error)[:80]})") from None
    if len(parts) != 3:
        raise ValueError("its pickle does not hold the three parts (training, validation, test)")
    return parts


class _Instructions:
    """The instructions that are understood, until there were too many."""

    def __init__(self) -> None:
        self._left = _MOST

    def __getitem__(self, code: int) -> Callable[[Any], None]:
        self._left -= 1
        if self._left < 0:
            raise _Refusal(f"has more than {_MOST:,} instructions")
        if code not in _READERS:
            raise _Refusal(f"uses the instruction {bytes([code])!r}, which no data set needs")
        return _READERS[code]


class _Unpickler(pickle._Unpickler):
    """Python's own unpickler, with stand-ins for the names that a pickle may use."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="bytes")  # Python 2's texts as they are
        self.dispatch = _Instructions()  # type: ignore[assignment, misc]
        self._room = len(data)

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in for a name, as Python 2, 3 and NumPy 1, 2 write it. Raises ``_Refusal`` for any other."""
        match module, name:
            case "numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct":
                return lambda *_: _Array()
            case "numpy.core.numeric" | "numpy._core.numeric", "_frombuffer":
                return _Array.filled
            case "numpy", "ndarray":
                return None
            case "numpy", "dtype":
                return _DType
            case "_codecs", "encode":
                return self._encode
        raise _Refusal(f"asks for {module[:60]}.{name[:60]}, which could run code; it was not run")

    def _encode(self, text: str, _encoding: object) -> bytes:
        """Encodes bytes as Python 3 writes them in protocols that have none: as text with one character for each
        byte."""
        self._room -= len(text)
        if self._room < 0:  # the same text encoded again and again would fill the memory
            raise _Refusal("encodes more text than it holds")
        return str.encode(text, "latin-1")


class _DType:
    """A dtype being described; ``kind`` is the dtype once its state is known."""

    def __init__(self, name: object, *_: object) -> None:
        self._name = name
        self.kind = _DTYPES["<" + _as_text(name)]

    def __setstate__(self, state: tuple[object, ...]) -> None:
        self.kind = _DTYPES[_as_text(state[1]) + _as_text(self._name)]


class _Array:
    """An array being described; it has a ``value`` once its content is known."""

    value: Array

    @staticmethod
    def filled(content: bytes, dtype: _DType, shape: tuple[int, ...], order: str) -> _Array:
        """The array that NumPy's ``_frombuffer`` makes."""
        made = _Array()
        made.__setstate__((1, shape, dtype, order == "F", content))
        return made

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """``state`` is (version, shape, dtype, Fortran order, bytes), as NumPy's ``__reduce__`` writes it."""
        _, shape, dtype, fortran, content = state
        self.value = np.frombuffer(content, dtype.kind).reshape(shape, order="F" if fortran else "C")


def _as_text(value: object) -> str:
    """Python 2 writes names as bytes, Python 3 as text."""
    return value.decode("latin-1") if isinstance(value, bytes) else value if isinstance(value, str) else ""
