"""How much memory each image of a batch takes, counted in the operations of a traced step. No TensorFlow here: a graph
is anything that lists operations as TensorFlow's graphs do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

_VIEWS = frozenset({"ExpandDims", "Identity", "IdentityN", "PreventGradient", "Reshape", "Squeeze", "StopGradient"})
"""Operations whose results are their arguments' memory."""
_GIVEN = frozenset({"Const", "Placeholder"})
"""Operations that compute nothing: their memory, such as that of all samples, is there before the step."""
_LOOPS = frozenset({"StatelessWhile", "While"})
"""Operations that keep what each of their rounds has computed, in no tensor that has a shape."""


def image_bytes(graph: Any, batch: int, share: int, weights: Collection[tuple[int, ...]]) -> int:
    """Returns the most bytes that the tensors of a step hold at once for each image of its ``batch``; 0 where nothing
    can be counted.

    A device's ``share`` of the batch tells which tensors grow with it: their first dimension is a multiple of it, and
    they have no shape of the ``weights``. A tensor lives from the operation that makes it to the last one that needs
    it.
    """
    counted = _Sizes(share, frozenset(weights))
    operations = _in_order(graph.get_operations(), counted)
    if any(operation.type in _LOOPS for operation in operations):
        return 0
    memory: dict[Any, Any] = {}
    last: dict[Any, int] = {}
    for place, operation in enumerate(operations):
        for tensor in operation.inputs:
            last[memory.get(tensor.ref(), tensor.ref())] = place
        if operation.type in _VIEWS:
            pairs = zip(operation.outputs, operation.inputs, strict=False)  # the shape of a Reshape is no memory of it
            memory |= {out.ref(): memory.get(given.ref(), given.ref()) for out, given in pairs}
    held = most = 0
    ends = [0] * (len(operations) + 1)
    for place, operation in enumerate(operations):
        for tensor in operation.outputs:
            if tensor.ref() not in memory:
                held += counted.of(tensor)
                ends[last.get(tensor.ref(), place)] += counted.of(tensor)
        most = max(most, held)
        held -= ends[place]
    return round(most / batch)


class _Sizes:
    """The bytes of tensors that grow with the batch; 0 for all others."""

    def __init__(self, share: int, weights: frozenset[tuple[int, ...]]) -> None:
        self._share, self._weights = share, weights

    def of(self, tensor: Any) -> int:
        shape = tensor.shape
        if tensor.op.type in _GIVEN:
            return 0
        if not shape.rank or not shape.is_fully_defined() or shape[0] % self._share or tuple(shape) in self._weights:
            return 0
        return int(shape.num_elements()) * int(tensor.dtype.size or 0)

    def any_of(self, operation: Any) -> bool:
        return any(self.of(tensor) for tensor in operation.outputs)


def _in_order(operations: Sequence[Any], counted: _Sizes) -> list[Any]:
    """The operations one after the other, those last on which nothing more of the images depends: the gradients of
    weights. TensorFlow computes them beside the rest, so what they need is kept about as long as that takes."""
    needed: dict[Any, bool] = {}
    for operation in reversed(operations):
        users = (user for tensor in operation.outputs for user in tensor.consumers())
        needed[operation] = counted.any_of(operation) or any(needed.get(user, False) for user in users)
    return sorted(operations, key=lambda operation: not needed[operation])
