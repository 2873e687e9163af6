"""How much memory each image of a batch takes, counted in the operations of a traced step. No TensorFlow here: a graph
is anything that lists operations as TensorFlow's graphs do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

_VIEWS = frozenset({"ExpandDims", "Identity", "IdentityN", "PreventGradient", "Reshape", "Squeeze", "StopGradient"})
"""Operations whose results are their arguments' memory."""
_GIVEN = frozenset({"Const", "Placeholder", "ReadVariableOp"})
"""Operations that compute nothing: their memory, such as that of all samples, is there before the step."""
_SUMS = frozenset({"BiasAddGrad", "Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "ReadVariableOp", "Sum"})
"""Operations whose results, where they have a weight's shape, are that weight or a sum over images."""
_LOOPS = frozenset({"StatelessWhile", "While"})
"""Operations that keep what each of their rounds has computed, in no tensor that has a shape."""


def image_bytes(graph: Any, batch: int, share: int, weights: Collection[tuple[int, ...]]) -> int:
    """Returns the most bytes that the tensors of a step hold at once for each image of its ``batch``; 0 where nothing
    can be counted.

    A device's ``share`` of the batch tells which tensors grow with it: their first dimension is a multiple of it, and
    they are no gradient of the ``weights``, which have these shapes. A tensor lives from the operation that makes it to
    the last one that needs it.
    """
    operations = graph.get_operations()
    if any(operation.type in _LOOPS for operation in operations):
        return 0
    counted = _Sizes(operations, share, frozenset(weights))
    return round(_most_at_once(counted.in_order, counted) / batch)


def _most_at_once(operations: Sequence[Any], counted: _Sizes) -> int:
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
    return most


class _Sizes:
    """The bytes of tensors that grow with the batch; 0 for all others."""

    def __init__(self, operations: Sequence[Any], share: int, weights: frozenset[tuple[int, ...]]) -> None:
        self._share = share
        self._of_weights: set[Any] = set()
        for operation in operations:
            self._of_weights |= {out.ref() for out in operation.outputs if self._is_weights(operation, out, weights)}
        needed: dict[Any, bool] = {}
        for operation in reversed(operations):
            users = (user for tensor in operation.outputs for user in tensor.consumers())
            needed[operation] = any(map(self.of, operation.outputs)) or any(needed.get(user, False) for user in users)
        self.in_order = sorted(operations, key=lambda operation: not needed[operation])
        """The operations one after the other, those last on which nothing more of the images depends: the gradients of
        weights. TensorFlow computes them beside the rest, so what they need is kept about as long as that takes."""

    def _is_weights(self, operation: Any, out: Any, weights: frozenset[tuple[int, ...]]) -> bool:
        """Whether it is a weight's value or gradient, or is made of such for an update: its shape alone may be that of
        a layer's output as well."""
        if not out.shape.is_fully_defined() or tuple(out.shape) not in weights:
            return False
        if operation.type == "MatMul":  # a gradient is summed over the images, the first dimension of both factors
            return bool(operation.get_attr("transpose_a"))
        alike = (given for given in operation.inputs if given.shape == out.shape)
        return operation.type in _SUMS or any(given.ref() in self._of_weights for given in alike)

    def of(self, tensor: Any) -> int:
        shape = tensor.shape
        if tensor.op.type in _GIVEN or not shape.rank or not shape.is_fully_defined() or shape[0] % self._share:
            return 0
        return 0 if tensor.ref() in self._of_weights else int(shape.num_elements()) * int(tensor.dtype.size or 0)
