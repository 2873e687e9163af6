"""A network whose convolutions are data-parallel and whose dense layers are split over the devices.

Convolutions have few weights and many activations, dense layers many weights and few activations. So each device has
a copy of all convolutions and a share of the batch, and of each dense layer some columns, for which it gets the
activations of all devices (Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf

CHANNELS = (16, 32)
"""Numbers of channels of the two convolutions, after each of which the image has half the height and width."""
_KERNEL = 5

Floats = npt.NDArray[np.float64]
Weights = list[npt.NDArray[np.float32]]
Variables = Sequence[tf.Variable]
Result = TypeVar("Result")


def timed(call: Callable[[], Result]) -> tuple[Result, float]:
    """Returns what ``call`` returns, and the seconds until all devices have done their work for it."""
    start = time.perf_counter()
    result = call()
    if tf.config.list_logical_devices("GPU"):
        tf.test.experimental.sync_devices()
    return result, time.perf_counter() - start


class HybridWeights(NamedTuple):
    """The initial weights of the whole network: a matrix (or kernel) and an offset for each layer."""

    convolutions: Weights
    hidden: Weights
    scores: Weights


def initial_layer(generator: np.random.Generator, *sizes: int) -> Weights:
    """A matrix (or kernel) of these ``sizes``, the last of which are its outputs, and the offset."""
    inputs = int(np.prod(sizes[:-1]))
    drawn = generator.normal(0, inputs**-0.5, sizes).astype(np.float32)
    return [drawn, np.zeros(sizes[-1], np.float32)]


def initial_weights(shape: tuple[int, int, int], width: int, layers: int, classes: int, seed: int) -> HybridWeights:
    """Weights for images of ``shape`` (height, width, channels) (LeCun et al., "Efficient BackProp", 1998)."""
    layer = partial(initial_layer, np.random.default_rng(seed))
    kernels = zip((shape[2], *CHANNELS), CHANNELS, strict=False)
    convolutions = [one for before, after in kernels for one in layer(_KERNEL, _KERNEL, before, after)]
    features = -(-shape[0] // 4) * -(-shape[1] // 4) * CHANNELS[-1]
    hidden = [one for number in range(layers) for one in layer(width if number else features, width)]
    return HybridWeights(convolutions, hidden, layer(width, classes))


class _Traced:
    """A function that is traced in its first call and takes any number of samples from then on."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = tf.function(function, autograph=False)
        self._concrete: Any = None

    def __call__(self, samples: Sequence[tf.Tensor], others: Sequence[tf.Tensor] = ()) -> Any:
        """``samples`` have a row for each sample, ``others`` always have the same shape."""
        if self._concrete is None:
            rows = [tf.TensorSpec([None, *one.shape[1:]], one.dtype) for one in samples]
            self._concrete = self._function.get_concrete_function(*rows, *map(tf.TensorSpec.from_tensor, others))
        return self._concrete(*samples, *others)


class Part:
    """The variables that one device holds, with the sums of their gradients; ``output`` applies them to an input.

    ``loss`` is the mean loss of an output for its labels: only the last part of a pipeline knows it.
    """

    def __init__(
        self,
        device: str,
        weights: Weights,
        output: Callable[[Variables, tf.Tensor], tf.Tensor],
        loss: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None = None,
    ) -> None:
        self._device, self._output, self._loss = device, output, loss
        with tf.device(device):
            self.variables = [tf.Variable(value) for value in weights]
            self.sums = [tf.Variable(tf.zeros_like(value)) for value in weights]
        self._forward = _Traced(lambda x: output(self.variables, x))
        self._backward = _Traced(self._gradient)
        self._update = _Traced(self._descend)

    @property
    def size(self) -> int:
        """Returns how many numbers its variables hold."""
        return sum(int(variable.shape.num_elements()) for variable in self.variables)

    def forward(self, x: tf.Tensor) -> tf.Tensor:
        """The output for ``x``, which is brought to this device first."""
        with tf.device(self._device):
            return self._forward([tf.identity(x)])

    def backward(self, x: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Add the gradients for the input ``x``; returns that of ``x``, and the loss.

        ``target`` is the gradient of the output, or the labels for a part that knows the loss.
        """
        with tf.device(self._device):
            return self._backward([tf.identity(x), tf.identity(target)])  # type: ignore[no-any-return]

    def update(self, rate: float, sums: Sequence[tf.Tensor]) -> None:
        """Move the weights against ``sums`` of gradients times ``rate``, and begin new sums."""
        with tf.device(self._device):
            self._update([], [tf.constant(rate), *(tf.identity(one) for one in sums)])

    def _gradient(self, x: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = self._output(self.variables, x)
            loss = self._loss(output, target) if self._loss is not None else tf.zeros([])
        start, seed = (output, target) if self._loss is None else (loss, None)
        own, *others = tape.gradient(start, [x, *self.variables], output_gradients=seed)
        for total, gradient in zip(self.sums, others, strict=True):
            total.assign_add(gradient)
        return own, loss

    def _descend(self, rate: tf.Tensor, *sums: tf.Tensor) -> None:
        for variable, total, own in zip(self.variables, sums, self.sums, strict=True):
            variable.assign_sub(rate * total)
            own.assign(tf.zeros_like(own))


def _convolve(variables: Variables, images: tf.Tensor) -> tf.Tensor:
    """Features [samples, features] of ``images`` [samples, height, width, channels]."""
    for kernel, offset in zip(variables[::2], variables[1::2], strict=True):
        images = tf.tanh(tf.nn.conv2d(images, kernel, 1, "SAME") + offset)
        images = tf.nn.avg_pool2d(images, 2, 2, "SAME")
    return tf.reshape(images, [tf.shape(images)[0], -1])


def _hidden(variables: Variables, x: tf.Tensor) -> tf.Tensor:
    return tf.tanh(tf.matmul(x, variables[0]) + variables[1])


def _scores(variables: Variables, x: tf.Tensor) -> tf.Tensor:
    """Computes what some columns of the last hidden layer add to the scores; one device has the offsets."""
    product = tf.matmul(x, variables[0])
    return product + variables[1] if len(variables) > 1 else product


class HybridStep(NamedTuple):
    """A step's loss and the seconds of its tasks: of the convolutions [device, forward and backward], of the dense
    layers [piece, task, device], where a device does ``forward`` tasks of a piece before those backward, and of the
    updates [device]."""

    loss: float
    convolutions: Floats
    dense: Floats
    updates: Floats

    @property
    def seconds(self) -> float:
        """Returns the seconds of the step where no two devices work at the same time."""
        return float(self.convolutions.sum() + self.dense.sum() + self.updates.sum())


class HybridNetwork:
    """The network on ``devices``, which may be the same one several times."""

    def __init__(self, devices: Sequence[str], weights: HybridWeights) -> None:
        count = len(devices)
        self._count = count
        self._convolutions = [Part(device, weights.convolutions, _convolve) for device in devices]
        self._layers: list[list[Part]] = []
        for matrix, offset in zip(weights.hidden[::2], weights.hidden[1::2], strict=True):
            columns = zip(np.array_split(matrix, count, 1), np.array_split(offset, count), strict=True)
            self._layers.append([Part(device, [*own], _hidden) for device, own in zip(devices, columns, strict=True)])
        rows, offsets = np.array_split(weights.scores[0], count), weights.scores[1]
        self._scores = [
            Part(device, [own, offsets] if number == 0 else [own], _scores)
            for number, (device, own) in enumerate(zip(devices, rows, strict=True))
        ]
        self._widths = [part.variables[1].shape[0] for part in self._layers[0]]
        self._loss = _Traced(_loss_and_gradient)

    @property
    def dense_tasks(self) -> int:
        """Tasks of a piece in the dense layers in one direction, on each device."""
        return len(self._layers) + 1

    def sent_bytes(self, batch: int) -> tuple[int, int]:
        """Returns the bytes that one device sends in a step: as the network is cut here, and if all of it were
        data-parallel.

        Gradients are summed in a ring, where each device sends 2 (n - 1) / n of their size. Of activations and of their
        gradients a device sends its share to each of the others.
        """
        count, size = self._count, 4
        ring, between = 2 * (count - 1) / count * size, 2 * (count - 1) / count * size * batch
        split = [part for layer in (*self._layers, self._scores) for part in layer]
        convolutions, dense = self._convolutions[0].size, sum(part.size for part in split)
        features, classes = self._layers[0][0].variables[0].shape[0], self._scores[0].variables[0].shape[1]
        outputs = int(features) + (len(self._layers) - 1) * sum(self._widths) + int(classes)
        return round(ring * convolutions + between * outputs), round(ring * (convolutions + dense))

    def step(
        self, images: npt.NDArray[np.float32], labels: npt.NDArray[np.int32], together: bool, rate: float
    ) -> HybridStep:
        """Does one step of gradient descent, one task after the other.

        The dense layers take the batch in one piece when all convolutions are done (``together``), or the share of one
        device after that of another.
        """
        shares = [tf.constant(part) for part in np.array_split(images, self._count)]
        own_labels = [tf.constant(part) for part in np.array_split(labels, self._count)]
        convolutions = np.zeros([self._count, 2])
        features, convolutions[:, 0] = _forward(self._convolutions, shares)
        pieces = list(zip(features, own_labels, strict=True))
        if together:
            pieces = [(tf.concat(features, 0), tf.constant(labels))]
        found = [self._dense(piece, target, len(labels)) for piece, target in pieces]
        losses, gradients, dense = zip(*found, strict=True)
        backward = tf.split(gradients[0], [len(one) for one in shares]) if together else gradients
        _, convolutions[:, 1] = _backward(self._convolutions, shares, backward)
        return HybridStep(float(sum(losses)), convolutions, np.array(dense), self._update(rate))

    def _dense(self, x: tf.Tensor, labels: tf.Tensor, batch: int) -> tuple[float, tf.Tensor, Floats]:
        """The dense layers forward and backward: the loss, the gradient of ``x``, and seconds [task, device]."""
        seconds, inputs, columns = [], [x], [x]
        for layer in self._layers:
            columns, spent = _forward(layer, [inputs[-1]] * self._count)
            inputs.append(tf.concat(columns, 1))
            seconds.append(spent)
        added, spent = _forward(self._scores, columns)
        (loss, target), own = timed(lambda: self._loss([tf.add_n(added), labels], [tf.constant(float(batch))]))
        seconds.append([one + own for one in spent])
        targets, spent = _backward(self._scores, columns, [target] * self._count)
        seconds.append(spent)
        for layer, given in zip(reversed(self._layers), inputs[-2::-1], strict=True):
            found, spent = _backward(layer, [given] * self._count, targets)
            whole = tf.add_n(found)
            seconds.append(spent)
            targets = tf.split(whole, self._widths, 1) if len(seconds) < 2 * self.dense_tasks else []
        return float(loss), whole, np.array(seconds)

    def _update(self, rate: float) -> Floats:
        """Sum the gradients of the convolutions over all devices, and move all weights."""
        totals = [tf.add_n(list(own)) for own in zip(*(part.sums for part in self._convolutions), strict=True)]
        seconds = np.zeros(self._count)
        for k, part in enumerate(self._convolutions):
            seconds[k] = timed(partial(part.update, rate, totals))[1]
        for layer in (*self._layers, self._scores):
            for k, part in enumerate(layer):
                seconds[k] += timed(partial(part.update, rate, part.sums))[1]
        return seconds


def _forward(parts: Sequence[Part], inputs: Sequence[tf.Tensor]) -> tuple[list[tf.Tensor], list[float]]:
    """The output of each of ``parts`` for its own input, and the seconds that it took."""
    done = [timed(partial(part.forward, x)) for part, x in zip(parts, inputs, strict=True)]
    return [result for result, _ in done], [spent for _, spent in done]


def _backward(
    parts: Sequence[Part], inputs: Sequence[tf.Tensor], targets: Sequence[tf.Tensor]
) -> tuple[list[tf.Tensor], list[float]]:
    """The gradient of each input, and the seconds that it took."""
    done = [timed(partial(part.backward, x, y)) for part, x, y in zip(parts, inputs, targets, strict=True)]
    return [result for (result, _), _ in done], [spent for _, spent in done]


def _loss_and_gradient(scores: tf.Tensor, labels: tf.Tensor, batch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The part of these samples in the mean cross-entropy over ``batch`` samples, and its gradient for the scores."""
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
    hit = tf.one_hot(labels, scores.shape[1], dtype=scores.dtype)
    return tf.reduce_sum(each) / batch, (tf.nn.softmax(scores) - hit) / batch
