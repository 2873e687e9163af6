"""The courses' ``mnist.pkl.gz`` and CIFAR-10's batches, read by an interpreter that has nothing to execute.

A pickle is a program for a small stack machine. This machine knows the few instructions that tuples and dictionaries of
NumPy arrays need (protocols 0 to 5, written by Python 2 or 3). A name in the pickle never becomes a Python object: the
handful of names that NumPy writes become members of ``_Name``, and "calling" one only notes what an array would be made
of. Everything else is refused with its offset.
"""

from __future__ import annotations

import codecs
import math
import struct
from collections.abc import Callable
from enum import Enum

import numpy as np

from clew_agent.datasets.dataset import Array

_MAX_STEPS = 100_000
"""Instructions in one pickle; six arrays need about 200, a batch of CIFAR-10 with its 10,000 file names 30,000."""
_MOST_ENTRIES = 16
_MAX_DIGITS = 40
_MOST_SHOWN = 5


class _Name(Enum):
    """The only names a pickle may use, and the module and name under which Python 2, 3 and NumPy 1, 2 write them."""

    RECONSTRUCT = "_reconstruct"
    FROMBUFFER = "_frombuffer"
    NDARRAY = "ndarray"
    DTYPE = "dtype"
    ENCODE = "encode"


_NAMES = {
    ("numpy.core.multiarray", "_reconstruct"): _Name.RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _Name.RECONSTRUCT,
    ("numpy.core.numeric", "_frombuffer"): _Name.FROMBUFFER,
    ("numpy._core.numeric", "_frombuffer"): _Name.FROMBUFFER,
    ("numpy", "ndarray"): _Name.NDARRAY,
    ("numpy", "dtype"): _Name.DTYPE,
    ("_codecs", "encode"): _Name.ENCODE,
}
_DTYPES = frozenset({"f4", "f8", "u1", "i1", "i2", "i4", "i8"})


class _DType:
    """A dtype being described: ``name`` as in "f4", ``order`` one of ``<``, ``>``, ``|`` once its state is known."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.order = "<"

    def numpy(self) -> np.dtype[np.generic]:
        return np.dtype(self.order + self.name)


class _ArrayNote:
    """An array being described; ``value`` is None until its content is known."""

    def __init__(self) -> None:
        self.value: Array | None = None


class _Mark:
    """Where a tuple, list or call begins on the stack."""


def parse_pickle(data: bytes) -> object:
    """What the pickle ``data`` holds: tuples, dictionaries, lists, numbers, strings and NumPy arrays of numbers.

    The keys of a dictionary come as text, a list as a tuple.

    Raises ``ValueError`` that says what is wrong and at which byte. No code of the pickle's choosing is ever run.
    """
    machine = _Machine(data)
    try:
        return _finished(machine.run())
    except _Refusal as refusal:
        raise ValueError(f"its pickle {refusal} (at byte {machine.start:,})") from None
    except (ValueError, TypeError, IndexError, OverflowError, struct.error) as error:
        raise ValueError(f"its pickle is damaged at byte {machine.start:,} ({str(error)[:80]})") from None


class _Refusal(Exception):
    """The pickle asks for something that no data set needs."""


def _finished(value: object, depth: int = 0) -> object:
    if isinstance(value, _ArrayNote):
        if value.value is None:
            raise _Refusal("has an array without content")
        return value.value
    if isinstance(value, _DType | _Name | _Mark) or depth > 4:
        raise _Refusal("holds something other than tuples of arrays")
    if isinstance(value, dict):
        _finished(tuple(value), depth)  # no more entries than a tuple may have
        return {key: _finished(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list) and all(isinstance(item, int | str | bytes) for item in value):
        return tuple(value)  # labels, or names of files: as long as the pickle itself
    if isinstance(value, tuple | list):
        if len(value) > _MOST_ENTRIES:
            raise _Refusal(f"holds {len(value):,} things in a row, expected a few arrays")
        return tuple(_finished(item, depth + 1) for item in value)
    return value


class _Machine:
    """The stack machine. ``start`` is the offset of the current instruction, for messages."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[object] = []
        self._memo: dict[int, object] = {}
        self._encoded = 0
        self.start = 0

    def run(self) -> object:
        """Execute until STOP and return what is on top of the stack."""
        for _ in range(_MAX_STEPS):
            self.start = self._at
            code = self.take(1)
            if code == b".":
                return self.pop()
            action = _ACTIONS.get(code)
            if action is None:
                raise _Refusal(f"uses the instruction {code!r}, which no data set needs")
            action(self)
        raise _Refusal(f"has more than {_MAX_STEPS:,} instructions")

    # Reading arguments. Sizes are compared with what is there before anything is allocated.

    def take(self, count: int) -> bytes:
        left = len(self._data) - self._at
        if count > left:
            raise _Refusal(f"needs {count:,} more bytes where {left:,} are left")
        self._at += count
        return self._data[self._at - count : self._at]

    def line(self) -> bytes:
        end = self._data.find(b"\n", self._at)
        if end < 0:
            raise _Refusal("ends in the middle of a line")
        line, self._at = self._data[self._at : end], end + 1
        return line

    def number(self, form: str) -> int:
        number: int = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        if number < 0 and form != "<i":
            raise _Refusal("has a negative size")
        return number

    def decimal(self) -> int:
        line = self.line()
        if len(line) > _MAX_DIGITS:
            raise _Refusal(f"has a number of {len(line):,} digits")
        return int(line.removesuffix(b"L"))

    # The stack.

    def push(self, value: object) -> None:
        self._stack.append(value)

    def pop(self) -> object:
        return self._stack.pop()

    def to_mark(self) -> tuple[object, ...]:
        for index in range(len(self._stack) - 1, -1, -1):
            if isinstance(self._stack[index], _Mark):
                items = tuple(self._stack[index + 1 :])
                del self._stack[index:]
                return items
        raise _Refusal("closes a tuple that it never opened")

    def top(self, count: int) -> tuple[object, ...]:
        if count > len(self._stack):
            raise _Refusal("takes more from its stack than is there")
        items = tuple(self._stack[-count:])
        del self._stack[-count:]
        return items

    def skip(self, count: int) -> None:
        self.take(count)

    def block(self, form: str) -> bytes:
        return self.take(self.number(form))

    def drop(self) -> None:
        self.pop()

    def repeat(self) -> None:
        self.push(self._stack[-1])

    def memoize(self) -> None:
        self.put(len(self._memo))

    def get(self, key: int) -> None:
        if key not in self._memo:
            raise _Refusal(f"refers to a value {key} that it never stored")
        self.push(self._memo[key])

    def put(self, key: int) -> None:
        self._memo[key] = self._stack[-1]

    def append(self, items: tuple[object, ...]) -> None:
        target = self._stack[-1]
        if not isinstance(target, list):
            raise _Refusal("appends to something that is not a list")
        target.extend(items)

    def set_items(self, items: tuple[object, ...]) -> None:
        target = self._stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise _Refusal("sets entries of something that is not a dictionary")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | bytes):
                raise _Refusal("has a dictionary whose keys are not text")
            target[_as_text(key)] = value

    def dictionary(self) -> None:
        items = self.to_mark()
        self.push({})
        self.set_items(items)

    # Instructions with more to them.

    def integer_line(self) -> None:
        line = self.line()
        booleans = {b"00": False, b"01": True}
        if len(line) > _MAX_DIGITS:
            raise _Refusal(f"has a number of {len(line):,} digits")
        self.push(booleans[line] if line in booleans else int(line))

    def quoted(self) -> None:
        line = self.line().strip()
        if len(line) < 2 or line[:1] not in (b"'", b'"') or line[-1:] != line[:1]:
            raise _Refusal("has a string without quotes")
        self.push(codecs.escape_decode(line[1:-1])[0])

    def long(self, form: str) -> None:
        size = self.number(form)
        if size > _MAX_DIGITS:
            raise _Refusal(f"has a number of {size:,} bytes")
        self.push(int.from_bytes(self.take(size), "little", signed=True))

    def text(self, form: str) -> None:
        self.push(self.take(self.number(form)).decode("utf-8", "surrogatepass"))

    def name(self, module: object, name: object) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise _Refusal("asks for a name that is not text")
        found = _NAMES.get((module, name))
        if found is None:
            raise _Refusal(f"asks for {module[:60]}.{name[:60]}, which could run code; it was not run")
        self.push(found)

    def call(self) -> None:
        function, arguments = self.top(2)
        if not isinstance(function, _Name) or not isinstance(arguments, tuple):
            raise _Refusal("calls something that is not a function")
        result = _CALLS[function](arguments) if function in _CALLS else _no_call(arguments)
        if isinstance(result, bytes):  # the same text encoded again and again would fill the memory
            self._encoded += len(result)
            if self._encoded > len(self._data):
                raise _Refusal("encodes more text than it holds")
        self.push(result)

    def build(self) -> None:
        state = self.pop()
        target = self._stack[-1]
        if not isinstance(state, tuple) or not isinstance(target, _DType | _ArrayNote):
            raise _Refusal("sets the state of something that is not an array")
        if isinstance(target, _DType):
            _set_dtype(target, state)
        else:
            _set_array(target, state)


def _set_dtype(target: _DType, state: tuple[object, ...]) -> None:
    order = _as_text(state[1]) if len(state) in (8, 9) else ""
    if order not in ("<", ">", "|") or any(part is not None for part in state[2:5]):
        raise _Refusal("has a type that is not a plain number")
    target.order = order


def _set_array(target: _ArrayNote, state: tuple[object, ...]) -> None:
    """``state`` is (version, shape, dtype, Fortran order, bytes), as NumPy's ``__reduce__`` writes it."""
    if len(state) != 5 or target.value is not None:
        raise _Refusal("has an array whose state is incomplete")
    target.value = _array(state[4], state[2], state[1], "F" if state[3] else "C")


def _array(content: object, dtype: object, shape: object, order: object) -> Array:
    if not isinstance(content, bytes) or not isinstance(dtype, _DType) or not isinstance(shape, tuple):
        raise _Refusal("has an array that is made of something other than numbers")
    sizes = [size for size in shape if type(size) is int and size >= 0]
    if len(sizes) != len(shape) or len(sizes) > 4 or order not in ("C", "F"):
        raise _Refusal(f"has an array of the shape {_shown(shape)}")
    kind = dtype.numpy()
    if math.prod(sizes) * kind.itemsize != len(content):
        raise _Refusal(f"declares an array {tuple(sizes)} of {kind} and gives {len(content):,} bytes for it")
    return np.frombuffer(content, kind).reshape(sizes, order="F" if order == "F" else "C")


def _as_text(value: object) -> str:
    """Python 2 writes names as bytes, Python 3 as text."""
    return value.decode("latin-1") if isinstance(value, bytes) else value if isinstance(value, str) else ""


def _shown(values: tuple[object, ...]) -> str:
    """The first of ``values`` for a message. Tuples inside are left out: a few hundred bytes of pickle can build one
    with a billion entries, from tuples that hold the same tuple twice."""
    return f"({', '.join(_plain(value) for value in values[:_MOST_SHOWN])})"


def _plain(value: object) -> str:
    if isinstance(value, str | bytes):
        return repr(value[:40])
    return str(value) if value is None or isinstance(value, int | float) else "…"


def _call_reconstruct(arguments: tuple[object, ...]) -> _ArrayNote:
    if len(arguments) != 3 or arguments[0] is not _Name.NDARRAY or arguments[1] != (0,):
        raise _Refusal("makes an array in a way that NumPy does not write")
    return _ArrayNote()


def _call_frombuffer(arguments: tuple[object, ...]) -> _ArrayNote:
    if len(arguments) != 4:
        raise _Refusal("makes an array in a way that NumPy does not write")
    note = _ArrayNote()
    note.value = _array(*arguments)
    return note


def _call_dtype(arguments: tuple[object, ...]) -> _DType:
    name = _as_text(arguments[0]) if arguments else ""
    if name not in _DTYPES:
        raise _Refusal(f"has an array of the type {_shown(arguments)}, expected numbers")
    return _DType(name)


def _call_encode(arguments: tuple[object, ...]) -> bytes:
    """How Python 3 writes bytes in protocols that have none: as text with one character for each byte."""
    if len(arguments) != 2 or not isinstance(arguments[0], str) or arguments[1] not in ("latin1", "latin-1"):
        raise _Refusal("encodes text in a way that Python does not write")
    return arguments[0].encode("latin-1")


def _no_call(arguments: tuple[object, ...]) -> object:
    raise _Refusal(f"makes an array directly from {_shown(arguments)}")


_CALLS: dict[_Name, Callable[[tuple[object, ...]], object]] = {
    _Name.RECONSTRUCT: _call_reconstruct,
    _Name.FROMBUFFER: _call_frombuffer,
    _Name.DTYPE: _call_dtype,
    _Name.ENCODE: _call_encode,
}

_ACTIONS: dict[bytes, Callable[[_Machine], None]] = {
    b"\x80": lambda m: m.skip(1),  # PROTO
    b"\x95": lambda m: m.skip(8),  # FRAME
    b"(": lambda m: m.push(_Mark()),
    b"0": lambda m: m.drop(),
    b"2": lambda m: m.repeat(),
    b"N": lambda m: m.push(None),
    b"\x88": lambda m: m.push(True),
    b"\x89": lambda m: m.push(False),
    b"I": lambda m: m.integer_line(),
    b"L": lambda m: m.push(m.decimal()),
    b"J": lambda m: m.push(m.number("<i")),
    b"K": lambda m: m.push(m.number("<B")),
    b"M": lambda m: m.push(m.number("<H")),
    b"\x8a": lambda m: m.long("<B"),
    b"\x8b": lambda m: m.long("<I"),
    b"S": lambda m: m.quoted(),
    b"T": lambda m: m.push(m.block("<I")),
    b"U": lambda m: m.push(m.block("<B")),
    b"B": lambda m: m.push(m.block("<I")),
    b"C": lambda m: m.push(m.block("<B")),
    b"\x8e": lambda m: m.push(m.block("<Q")),
    b"\x96": lambda m: m.push(m.block("<Q")),
    b"V": lambda m: m.push(m.line().decode("raw-unicode-escape")),
    b"X": lambda m: m.text("<I"),
    b"\x8c": lambda m: m.text("<B"),
    b"\x8d": lambda m: m.text("<Q"),
    b")": lambda m: m.push(()),
    b"t": lambda m: m.push(m.to_mark()),
    b"\x85": lambda m: m.push(m.top(1)),
    b"\x86": lambda m: m.push(m.top(2)),
    b"\x87": lambda m: m.push(m.top(3)),
    b"]": lambda m: m.push([]),
    b"l": lambda m: m.push(list(m.to_mark())),
    b"a": lambda m: m.append(m.top(1)),
    b"e": lambda m: m.append(m.to_mark()),
    b"}": lambda m: m.push({}),
    b"d": lambda m: m.dictionary(),
    b"s": lambda m: m.set_items(m.top(2)),
    b"u": lambda m: m.set_items(m.to_mark()),
    b"g": lambda m: m.get(m.decimal()),
    b"h": lambda m: m.get(m.number("<B")),
    b"j": lambda m: m.get(m.number("<I")),
    b"p": lambda m: m.put(m.decimal()),
    b"q": lambda m: m.put(m.number("<B")),
    b"r": lambda m: m.put(m.number("<I")),
    b"\x94": lambda m: m.memoize(),
    b"c": lambda m: m.name(m.line().decode("utf-8"), m.line().decode("utf-8")),
    b"\x93": lambda m: m.name(*m.top(2)),
    b"R": lambda m: m.call(),
    b"b": lambda m: m.build(),
}
