"""Probes a trained network with one image: the probabilities of the classes, what each layer sees, which pixels
matter, and which training images are nearest; or its code, and what is drawn from that."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent.datasets.dataset import DataSet, Rows
from clew_agent.engine.pictures import figure_of
from clew_agent.training.exercise import Model, Samples
from clew_agent.training.images import around_grey, as_images
from clew_shared.base.problem import ProblemError, problem
from clew_shared.cards import Bars, Gallery, ImageGrid, PictureSpec, Scatter
from clew_shared.wire.messages import Tried, TriedPicture, TryRun

Array = npt.NDArray[Any]

NEAREST = 8
_MOST_LAYERS = 12
"""Layers that are shown: of a recurrent network each row of the image would be several."""
_MOST_BARS = 64
"""Units of a layer that are shown as bars; more become a picture of one pixel each."""
_RANGED = 500
"""Test images whose codes say what is usual."""
_NOISE = 3.0
_WEIGHTED = ("Conv2D", "MatMul")
_BENDS = ("Elu", "LeakyRelu", "Relu", "Selu", "Sigmoid", "Softplus", "Tanh")
_SUMS = ("AddV2", "BiasAdd", *_WEIGHTED)


def _lacking(what: str) -> ProblemError:
    text = f"The exercise says that its runs can be tried, but its model has no {what}."
    return problem("exercise.tries", text, f"Give Model its {what}, or take tries off the exercise.")


def _refuse_diverged(step: int, *answers: npt.ArrayLike) -> None:
    if not all(np.isfinite(answer).all() for answer in answers):
        text = f"The network of step {step:,} answers with values that are no numbers (NaN): its training has diverged."
        raise problem("try.diverged", text, "Train it again, with a smaller learning rate for example.")


def _pictures(step: int, found: Iterator[tuple[PictureSpec, Any]]) -> tuple[TriedPicture, ...]:
    return tuple(TriedPicture(spec=spec, figure=figure_of(spec, step, returned)[0]) for spec, returned in found)


class ImageClasses:
    """Asks a trained ``model`` that sorts images of ``data`` into classes. Raises ``ProblemError`` when it does not say
    how."""

    reads_images = True

    def __init__(self, model: Model, data: DataSet) -> None:
        if model.scores is None:
            raise _lacking("scores")
        self._scores = model.scores
        self._data = data
        train = model.train or Samples(data.train.x, data.train.y)
        self._x = np.asarray(train.x, np.float32)
        self._y: Array = train.y
        self._sizes: Array = np.einsum("ij,ij->i", self._x, self._x)
        self._titles: list[str] = []
        features = data.test.x.shape[1]
        row = [tf.TensorSpec([1, features], tf.float32)]
        self._seen = tf.function(self._see, input_signature=row, autograph=False).get_concrete_function()
        rows = [tf.TensorSpec([None, features], tf.float32)]
        answers = tf.function(model.scores, input_signature=rows, autograph=False)
        self._answers = answers.get_concrete_function()
        shape = tuple(self._answers(tf.zeros([1, features])).shape)
        if shape != (1, data.classes):
            text = f"For one image its scores have the shape {shape}, and {data.name} has {data.classes} classes."
            raise problem("exercise.tries", text, "Give Model scores with a column for each class.")

    def probabilities(self, rows: Rows) -> npt.NDArray[np.float32]:
        """The probabilities [n, classes] for ``rows`` [n, features]."""
        found: npt.NDArray[np.float32] = tf.nn.softmax(self._answers(tf.constant(rows))).numpy()
        return found

    def ask(self, row: Rows, request: TryRun, step: int) -> Tried:
        """The answer for the image ``row``, by a network of ``step`` updates. Raises ``ProblemError`` for a code."""
        if request.code:
            raise problem("try.code", "This network sorts images; it has no code.", "Send an image.", "code")
        found = tuple(map(float, self.probabilities(row[np.newaxis])[0]))
        _refuse_diverged(step, found)
        return Tried(run=request.run, step=step, probabilities=found, pictures=_pictures(step, self._all(row)))

    def _all(self, row: Rows) -> Iterator[tuple[PictureSpec, Any]]:
        gradient, layers = self._seen(tf.constant(row[np.newaxis]))
        yield ImageGrid("input", "As the network sees it"), as_images(row[np.newaxis], self._data)
        yield ImageGrid("saliency", "Ink for (light), against (dark)"), self._ink(row, gradient)
        for number, (title, layer) in enumerate(zip(self._titles, layers, strict=True), 1):
            yield _layer(f"layer{number}", title, layer[0].numpy())
        yield Gallery("nearest", "Nearest training images", labels=self._data.class_names), self._nearest(row)

    def _see(self, rows: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """The gradient of the best class's score, and what each layer gives, as the traced operations show it."""
        with tf.GradientTape() as tape:
            tape.watch(rows)
            before = len(_operations())
            scores = self._scores(rows)
            forward = _operations()[before:]
            best = tf.reduce_max(scores)
        self._titles, layers = [], []
        for title, layer in _layers(forward):
            self._titles.append(title)
            layers.append(layer)
        return tape.gradient(best, rows), layers

    def _ink(self, row: Rows, gradient: tf.Tensor) -> tf.Tensor:
        """What each pixel adds to the best class's score, as an image: its value times the score's gradient (Shrikumar
        et al., 2016), which for a single layer is exact."""
        height, width, channels = self._data.image_shape
        added = tf.reshape(row * gradient[0], [1, height, width, channels])
        return around_grey(tf.reduce_sum(added, -1))

    def _nearest(self, row: Rows) -> tuple[Any, Array, Array]:
        """The training images whose pixels differ least from ``row``, with their classes and the network's answers."""
        squares = self._sizes - 2 * (self._x @ row)
        count = min(NEAREST, len(squares))
        few = np.argpartition(squares, count - 1)[:count]
        near = few[np.argsort(squares[few], kind="stable")]
        rows = self._x[near]
        return as_images(rows, self._data), self._y[near], self.probabilities(rows).argmax(1).astype(np.int32)


def _operations() -> list[Any]:
    found: list[Any] = tf.compat.v1.get_default_graph().get_operations()
    return found


def _layers(operations: list[Any]) -> Iterator[tuple[str, tf.Tensor]]:
    """What each layer but the last gives, with a title: a layer begins with a convolution or a matrix product, and its
    last activation function, or else its last sum, is what it gives. Of the last one those are the scores."""
    begins = [place for place, one in enumerate(operations) if one.type in _WEIGHTED]
    if len(begins) > _MOST_LAYERS + 1:
        return
    for number, (begin, end) in enumerate(pairwise(begins), 1):
        part = [one for one in operations[begin:end] if one.outputs[0].shape[:1] == [1]]
        bends = [one for one in part if one.type in _BENDS]
        sums = [one for one in part if one.type in _SUMS]
        for one in (bends or sums)[-1:]:
            yield f"Layer {number}, {_words(one.outputs[0].shape)}", one.outputs[0]


def _words(shape: Any) -> str:
    if len(shape) == 4:
        return f"{shape[3]} maps of {shape[2]} × {shape[1]}"
    return f"{shape[-1]} units"


def _layer(name: str, title: str, values: Array) -> tuple[PictureSpec, Any]:
    """Maps as images, few units as bars, many as one image."""
    if values.ndim == 3:
        return ImageGrid(name, title), _shown(np.moveaxis(values, 2, 0))
    flat = values.reshape(-1)
    if len(flat) <= _MOST_BARS:
        return Bars(name, title), flat
    columns = math.ceil(math.sqrt(len(flat)))
    square = np.pad(flat, (0, -len(flat) % columns)).reshape(1, -1, columns)
    return ImageGrid(name, title), _shown(square)


def _shown(maps: Array) -> Any:
    """Activations [n, height, width] as images: black is 0; with negative ones grey is."""
    return around_grey(maps) if maps.min() < 0 else maps / max(float(maps.max()), 1e-12)


class ImageCodes:
    """Asks a trained ``model`` that encodes images of ``data``, or only decodes. Raises ``ProblemError`` when it does
    not say how."""

    def __init__(self, model: Model, data: DataSet) -> None:
        if model.coder is None:
            raise _lacking("coder")
        self._coder = model.coder
        self._data = data
        self._some = tf.constant(data.test.x[:_RANGED])

    @property
    def reads_images(self) -> bool:
        """Whether images have codes; if not, the number of a test image is a seed."""
        return self._coder.encode is not None

    def ask(self, row: Rows, request: TryRun, step: int) -> Tried:
        """What the network of ``step`` updates draws from the code of the image ``row``, or from the one asked for.
        Raises ``ProblemError`` for a code of another size."""
        coder, error = self._coder, None
        if request.code:
            code = np.array(request.code, np.float32)
            if len(code) != coder.size or not np.isfinite(code).all():
                text = f"The code of this network has {coder.size} numbers, and {len(code)} were sent."
                raise problem("try.code", text, "Send as many finite numbers.", "code")
        elif coder.encode is not None:
            code = coder.encode(tf.constant(row[np.newaxis])).numpy()[0]
        else:
            code = np.random.default_rng(max(request.sample, 0)).standard_normal(coder.size).astype(np.float32)
        drawn = coder.decode(tf.constant(code[np.newaxis])).numpy()[0]
        shown = row if self.reads_images and not request.code else None
        if shown is not None:
            error = float(np.mean(np.square(drawn - shown)))
        codes = coder.encode(self._some).numpy() if coder.encode is not None else None
        ranges = self._ranges(codes)
        threshold = float(coder.threshold()) if coder.threshold is not None else None
        _refuse_diverged(step, code, drawn, ranges, error or 0.0, threshold or 0.0)
        return Tried(
            run=request.run,
            step=step,
            code=tuple(map(float, code)),
            ranges=ranges,
            error=error,
            threshold=threshold,
            pictures=_pictures(step, self._all(drawn, shown, codes)),
        )

    def _all(self, drawn: Rows, row: Rows | None, codes: Array | None) -> Iterator[tuple[PictureSpec, Any]]:
        if row is not None:
            yield ImageGrid("input", "As the network sees it"), as_images(row[np.newaxis], self._data)
        yield ImageGrid("output", "What it draws"), as_images(np.clip(drawn[np.newaxis], 0, 1), self._data)
        if row is not None:
            missing = tf.constant((row - drawn)[np.newaxis])
            yield (
                ImageGrid("difference", "Missing (light), too much (dark)"),
                around_grey(as_images(missing, self._data)),
            )
        if codes is None or self._coder.size == 2:
            yield self._plane(codes)

    def _plane(self, codes: Array | None) -> tuple[PictureSpec, Any]:
        """The first two numbers of the codes of test images, or of noise."""
        if codes is None:
            noise = np.random.default_rng(0).standard_normal([_RANGED, 2])
            return Scatter("plane", "Noise: click or drag", labels=("noise",)), (noise, np.zeros(_RANGED))
        labels = self._data.class_names
        return Scatter("plane", "Codes: click or drag", labels=labels), (codes, self._data.test.y[: len(codes)])

    def _ranges(self, codes: Array | None) -> tuple[tuple[float, float], ...]:
        """Where the codes of test images lie, or those of noise."""
        if codes is None:
            return ((-_NOISE, _NOISE),) * self._coder.size
        return tuple((float(low), float(high)) for low, high in zip(codes.min(0), codes.max(0), strict=True))


Probe = ImageClasses | ImageCodes


def make_probe(model: Model, data: DataSet, what: str) -> Probe:
    """Returns what answers for a trained ``model`` of an exercise that says ``tries = what``."""
    return ImageCodes(model, data) if what == "code" else ImageClasses(model, data)
