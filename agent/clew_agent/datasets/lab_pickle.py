"""The courses' ``mnist.pkl.gz`` and CIFAR-10's batches, read by an unpickler that has nothing to execute.

A pickle is a program, and Python's own ``Unpickler`` runs it (protocols 0 to 5, written by Python 2 or 3), but the
handful of names that NumPy writes stand for objects here that only note what an array would be made of; every other
name is refused. Before it runs, ``pickletools`` goes through the instructions: an ``Unpickler`` alone would believe any
size or index that is written in them.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import warnings
from collections.abc import Callable, Iterator

import numpy as np

from clew_agent.datasets.dataset import Array

# Six arrays need about 200 instructions, a batch of CIFAR-10 with its 10,000 file names 30,000. The key of a dictionary
# is hashed: nested tuples by recursion, on the stack; shared ones again for each reference, which may double the time
# each time; and whole numbers above 60 bits can be chosen so that all have the same hash.
_MOST = {"instructions": 100_000, "tuples": 1000, "shared tuples": 8, "large numbers": 100}
_LARGEST = 10**40
_MOST_ENTRIES = 16
"""The courses' file has three pairs of arrays; more is another file."""
_MOST_SHOWN = 5

_SIMPLE = """
STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8
BYTEARRAY8 INT LONG BININT BININT1 BININT2 LONG1 LONG4 NONE NEWTRUE NEWFALSE GLOBAL STACK_GLOBAL REDUCE BUILD
"""
_SINGLE = frozenset(_SIMPLE.split())
"""Instructions after which a value that holds no others is on top of the stack."""
_TUPLES = frozenset({"EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"})
_LISTS = frozenset({"EMPTY_LIST", "LIST", "APPEND", "APPENDS", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS"})
_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"})
_GETS = frozenset({"GET", "BINGET", "LONG_BINGET"})
_NEEDED = _SINGLE | _TUPLES | _LISTS | _PUTS | _GETS | {"PROTO", "FRAME", "MARK", "POP", "STOP"}
_INSTRUCTIONS = {one.code.encode("latin-1"): one for one in pickletools.opcodes if one.name in _NEEDED}
_DTYPES = frozenset({"f4", "f8", "u1", "i1", "i2", "i4", "i8"})


class _Refusal(Exception):
    """Raised when the pickle asks for something that no data set needs."""


def parse_pickle(data: bytes) -> object:
    """Returns the content of the pickle ``data``: tuples, dictionaries, lists, numbers, strings and NumPy arrays of
    numbers.

    The keys of a dictionary come as text, a list as a tuple.

    Raises ``ValueError`` that says what is wrong. No code of the pickle's choosing is ever run.
    """
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "invalid escape sequence", DeprecationWarning)  # no Python writes one
            _check(data)
            return _finished(_Unpickler(data).load())
    except _Refusal as refusal:
        raise ValueError(f"its pickle {refusal}") from None
    except _DAMAGED as error:
        raise ValueError(f"its pickle is damaged ({str(error)[:80]})") from None


_DAMAGED = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    BufferError,
    DeprecationWarning,
    EOFError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
)


def _check(data: bytes) -> None:
    """Go through the instructions without running any: only those that data sets need, and no more than they need."""
    holds: dict[object, bool] = {}  # of each stored value: whether it may hold others
    count = dict.fromkeys(_MOST, 0)
    before = ""
    for name, argument, at in _instructions(data):
        if isinstance(argument, int) and abs(argument) >= _LARGEST:
            raise _Refusal(f"has a number of more than 40 digits (at byte {at:,})")
        count["instructions"] += 1
        count["tuples"] += name in _TUPLES
        count["shared tuples"] += name in _GETS and holds.get(argument, False)
        count["large numbers"] += isinstance(argument, int) and abs(argument) >> 60 > 0
        if name in _PUTS:
            index = len(holds) if name == "MEMOIZE" else argument
            if not isinstance(index, int) or index > count["instructions"]:  # it would make room for all below
                raise _Refusal(f"stores a value in place {index:,} (at byte {at:,})")
            holds[index] = before not in _SINGLE
        for what, most in _MOST.items():
            if count[what] > most:
                raise _Refusal(f"has more than {most:,} {what} (at byte {at:,})")
        before = name


def _instructions(data: bytes) -> Iterator[tuple[str, object, int]]:
    """Name, argument and offset of each; a frame may only end between two of them.

    Like ``pickletools.genops``, which cannot read Python 2's texts of bytes.
    """
    file = io.BytesIO(data)
    name, frame_end = "", 0
    while name != "STOP":
        at, code = file.tell(), file.read(1)
        known = _INSTRUCTIONS.get(code)
        if known is None:
            raise _Refusal(f"uses the instruction {code!r}, which no data set needs (at byte {at:,})")
        name = known.name
        if name == "STRING":
            argument: object = file.readline()
        else:
            argument = known.arg.reader(file) if known.arg is not None else None
        if at < frame_end and (name == "FRAME" or file.tell() > frame_end):  # Python would lose the rest of the frame
            raise _Refusal(f"has a frame that ends inside an instruction (at byte {at:,})")
        if name == "FRAME" and isinstance(argument, int):
            frame_end = file.tell() + argument
        yield name, argument, at


class _Unpickler(pickle.Unpickler):
    """Python's own unpickler, with stand-ins for the names that a pickle may use."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="bytes")  # Python 2's texts as they are
        self._room = len(data)

    def find_class(self, module: str, name: str) -> object:
        """The stand-in for a name, as Python 2, 3 and NumPy 1, 2 write it. Raises ``_Refusal`` for any other."""
        match module, name:
            case "numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct":
                return _Function(_reconstruct)
            case "numpy.core.numeric" | "numpy._core.numeric", "_frombuffer":
                return _Function(_from_buffer)
            case "numpy", "ndarray":
                return _NDARRAY
            case "numpy", "dtype":
                return _Function(_dtype)
            case "_codecs", "encode":
                return _Function(self._encode)
        raise _Refusal(f"asks for {module[:60]}.{name[:60]}, which could run code; it was not run")

    def _encode(self, *arguments: object) -> bytes:
        """Encodes bytes as Python 3 writes them in protocols that have none: as text with one character for each
        byte."""
        if len(arguments) != 2 or not isinstance(arguments[0], str) or arguments[1] not in ("latin1", "latin-1"):
            raise _Refusal("encodes text in a way that Python does not write")
        self._room -= len(arguments[0])
        if self._room < 0:  # the same text encoded again and again would fill the memory
            raise _Refusal("encodes more text than it holds")
        return arguments[0].encode("latin-1")


class _Function:
    """A stand-in for the function that a name means. It has no attribute that a pickle could set."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., object]) -> None:
        self._make = make

    def __call__(self, *arguments: object) -> object:
        return self._make(*arguments)

    def __setstate__(self, state: object) -> None:
        raise _Refusal("sets the state of something that is not an array")


class _DType:
    """A dtype being described: ``name`` as in "f4", ``order`` one of ``<``, ``>``, ``|`` once its state is known."""

    __slots__ = ("name", "order")

    def __init__(self, name: str) -> None:
        self.name = name
        self.order = "<"

    def __setstate__(self, state: object) -> None:
        order = _as_text(state[1]) if isinstance(state, tuple) and len(state) in (8, 9) else ""
        if order not in ("<", ">", "|") or not isinstance(state, tuple) or any(one is not None for one in state[2:5]):
            raise _Refusal("has a type that is not a plain number")
        self.order = order

    def numpy(self) -> np.dtype[np.generic]:
        return np.dtype(self.order + self.name)


class _ArrayNote:
    """An array being described; ``value`` is None until its content is known."""

    __slots__ = ("value",)

    def __init__(self, value: Array | None = None) -> None:
        self.value = value

    def __setstate__(self, state: object) -> None:
        """``state`` is (version, shape, dtype, Fortran order, bytes), as NumPy's ``__reduce__`` writes it."""
        if not isinstance(state, tuple) or len(state) != 5 or self.value is not None:
            raise _Refusal("has an array whose state is incomplete")
        self.value = _array(state[4], state[2], state[1], "F" if state[3] else "C")


def _no_call(*arguments: object) -> object:
    raise _Refusal(f"makes an array directly from {_shown(arguments)}")


_NDARRAY = _Function(_no_call)


def _reconstruct(*arguments: object) -> _ArrayNote:
    if len(arguments) != 3 or arguments[0] is not _NDARRAY or arguments[1] != (0,):
        raise _Refusal("makes an array in a way that NumPy does not write")
    return _ArrayNote()


def _from_buffer(*arguments: object) -> _ArrayNote:
    if len(arguments) != 4:
        raise _Refusal("makes an array in a way that NumPy does not write")
    return _ArrayNote(_array(*arguments))


def _dtype(*arguments: object) -> _DType:
    name = _as_text(arguments[0]) if arguments else ""
    if name not in _DTYPES:
        raise _Refusal(f"has an array of the type {_shown(arguments)}, expected numbers")
    return _DType(name)


def _array(content: object, dtype: object, shape: object, order: object) -> Array:
    if not isinstance(content, bytes | bytearray) or not isinstance(dtype, _DType) or not isinstance(shape, tuple):
        raise _Refusal("has an array that is made of something other than numbers")
    sizes = [size for size in shape if type(size) is int and size >= 0]
    if len(sizes) != len(shape) or len(sizes) > 4 or order not in ("C", "F"):
        raise _Refusal(f"has an array of the shape {_shown(shape)}")
    kind = dtype.numpy()
    if math.prod(sizes) * kind.itemsize != len(content):
        raise _Refusal(f"declares an array {tuple(sizes)} of {kind} and gives {len(content):,} bytes for it")
    return np.frombuffer(content, kind).reshape(sizes, order="F" if order == "F" else "C")


def _finished(value: object, depth: int = 0) -> object:
    """``value`` with arrays for what describes them."""
    if isinstance(value, _ArrayNote):
        if value.value is None:
            raise _Refusal("has an array without content")
        return value.value
    if isinstance(value, _DType | _Function) or depth > 4:
        raise _Refusal("holds something other than tuples of arrays")
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dict):
        if not all(isinstance(key, str | bytes) for key in value):
            raise _Refusal("has a dictionary whose keys are not text")
        _finished(tuple(value), depth)  # no more entries than a tuple may have
        return {_as_text(key): _finished(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list) and all(isinstance(item, int | str | bytes) for item in value):
        return tuple(value)  # labels, or names of files: as long as the pickle itself
    if isinstance(value, tuple | list):
        if len(value) > _MOST_ENTRIES:
            raise _Refusal(f"holds {len(value):,} things in a row, expected a few arrays")
        return tuple(_finished(item, depth + 1) for item in value)
    return value


def _as_text(value: object) -> str:
    """Python 2 writes names as bytes, Python 3 as text."""
    return value.decode("latin-1") if isinstance(value, bytes) else value if isinstance(value, str) else ""


def _shown(values: tuple[object, ...]) -> str:
    """The first of ``values`` for a message, without what is in tuples."""
    return f"({', '.join(_plain(value) for value in values[:_MOST_SHOWN])})"


def _plain(value: object) -> str:
    if isinstance(value, str | bytes):
        return repr(value[:40])
    return str(value) if value is None or isinstance(value, int | float) else "…"
