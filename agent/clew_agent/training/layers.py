"""Pieces of networks without hidden state: what is random comes from the step's context, what is kept is a variable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import tensorflow as tf

from clew_agent.training.exercise import Batch, Setup
from clew_agent.training.random import StepContext


def dropout(x: tf.Tensor, rate: float, context: StepContext, tag: str = "dropout") -> tf.Tensor:
    """Set a share ``rate`` of ``x`` [batch, ...] to 0, enlarge the rest to keep the mean (Srivastava et al., 2014)."""
    if rate == 0:
        return x
    keep = context.sample_uniform(x.shape[1:], tag) >= rate
    return tf.where(keep, x / (1 - rate), tf.zeros_like(x))


def correct(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """float32 [batch]: 1 where the largest of ``logits`` [batch, classes] is the label's (int32 [batch])."""
    return tf.cast(tf.equal(tf.argmax(logits, 1, tf.int32), labels), tf.float32)


def cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """float32 [batch]: minus the logarithm of the probability that softmax gives to the label (0 to classes - 1).

    The same bits as TensorFlow's deterministic one as long as all logarithms are finite. That one gathers: the gradient
    of a gather takes three times as many operations as all the rest here, and as long to trace as a whole step of
    ``softmax``. A product and not a choice (``tf.where``), because XLA needs 15 ms to translate each of those before it
    can look for a kept program.
    """
    own = tf.equal(tf.expand_dims(labels, 1), np.arange(logits.shape[1], dtype=np.int32))
    return -tf.reduce_sum(tf.cast(own, logits.dtype) * tf.nn.log_softmax(logits), 1)


@dataclass(frozen=True)
class BatchNorm:
    """Batch normalisation over all axes but the last (Ioffe and Szegedy, ICML 2015).

    ``gamma`` and ``beta`` are trained; ``mean`` and ``variance`` are moving averages for evaluation. Samples of
    weight 0 do not count.
    """

    gamma: tf.Variable
    beta: tf.Variable
    mean: tf.Variable
    variance: tf.Variable
    momentum: float = 0.99
    epsilon: float = 1e-3

    @staticmethod
    def make(channels: int) -> BatchNorm:
        """Makes a layer with the usual initial values: scale 1, offset 0, mean 0, variance 1."""
        one, zero = tf.ones([channels]), tf.zeros([channels])
        return BatchNorm(tf.Variable(one), tf.Variable(zero), tf.Variable(zero), tf.Variable(one))

    def trained(self) -> Mapping[str, tf.Variable]:
        """Returns the trained variables; ``trained`` names those of several layers."""
        return {"gamma": self.gamma, "beta": self.beta}

    def averages(self) -> Mapping[str, tf.Variable]:
        """Returns the moving averages; ``averages`` names those of several layers."""
        return {"mean": self.mean, "variance": self.variance}

    def train(self, x: tf.Tensor, batch: Batch) -> tf.Tensor:
        """Normalise ``x`` by its own mean and variance and move the averages towards them."""
        mean, variance = self._moments(x, batch)
        for average, value in ((self.mean, mean), (self.variance, variance)):
            average.assign_add((value - average) * (1 - self.momentum))
        return tf.nn.batch_normalization(x, mean, variance, self.beta, self.gamma, self.epsilon)

    def _moments(self, x: tf.Tensor, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance of the whole batch, on all replicas the same."""
        axes = list(range(len(x.shape) - 1))
        if batch.replicas == 1 and batch.weight is None:
            mean, variance = tf.nn.moments(x, axes)
            return mean, variance
        weight = tf.ones([tf.shape(x)[0]]) if batch.weight is None else batch.weight
        weight = tf.reshape(tf.cast(weight, x.dtype), [-1] + [1] * len(axes))
        if batch.replicas == 1:
            mean, variance = tf.nn.weighted_moments(x, axes, weight)
            return mean, variance
        places = tf.cast(tf.reduce_prod(tf.shape(x)[1:-1]), x.dtype)  # of one sample: a product over nothing is 1
        count = batch.total(tf.reduce_sum(weight) * places)
        mean = batch.total(tf.reduce_sum(x * weight, axes)) / count
        return mean, batch.total(tf.reduce_sum(tf.square(x - mean) * weight, axes)) / count

    def predict(self, x: tf.Tensor) -> tf.Tensor:
        """Normalise ``x`` by the moving averages."""
        return tf.nn.batch_normalization(x, self.mean, self.variance, self.beta, self.gamma, self.epsilon)


def trained(norms: Mapping[str, BatchNorm]) -> dict[str, tf.Variable]:
    """The trained variables of layers by name, for ``Part.variables``."""
    return {f"{name}_{kind}": one for name, norm in norms.items() for kind, one in norm.trained().items()}


def averages(norms: Mapping[str, BatchNorm]) -> dict[str, tf.Variable]:
    """The moving averages of layers by name, for ``Model.state``."""
    return {f"{name}_{kind}": one for name, norm in norms.items() for kind, one in norm.averages().items()}


# --- Fully connected layers -------------------------------------------------------------------------------------------
# Networks that are a row of them: autoencoders, generators, discriminators.


Activation = Callable[[tf.Tensor], tf.Tensor]


def leaky_relu(x: tf.Tensor) -> tf.Tensor:
    """``x`` where it is positive, a fifth of it elsewhere (Maas et al., 2013, with the slope that GANs use)."""
    return tf.nn.leaky_relu(x, 0.2)


@dataclass(frozen=True)
class Dense:
    """``activation(x W + b)``, for ``x`` [batch, inputs]."""

    name: str
    weights: tf.Variable
    offset: tf.Variable
    activation: Activation

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """float32 [batch, units]."""
        return self.activation(tf.matmul(x, self.weights) + self.offset)


Layers = tuple[Dense, ...]


def dense_layers(
    setup: Setup[Any], name: str, sizes: Sequence[int], activation: Activation, last: Activation = tf.identity
) -> Layers:
    """Layers ``name``1, ``name``2, … from ``sizes[0]`` inputs on; the ``last`` activation is the last layer's.

    Weights are drawn with the deviation that keeps the size of what goes forward and backward alike (Glorot and Bengio,
    AISTATS 2010), offsets are 0.
    """
    layers = []
    for number, (inputs, units) in enumerate(pairwise(sizes), 1):
        own = f"{name}{number}"
        weights = setup.truncated_normal(own, [inputs, units], stddev=(2 / (inputs + units)) ** 0.5)
        bend = last if number == len(sizes) - 1 else activation
        layers.append(Dense(own, weights, tf.Variable(tf.zeros([units]), name=f"{own}_offset"), bend))
    return tuple(layers)


TRUNCATED = 0.87962566103423978
"""The standard deviation of a standard normal distribution that is cut at two deviations."""


def dense(setup: Setup[Any], name: str, sizes: tuple[int, int], activation: Activation, initial: str) -> Dense:
    """A layer of ``sizes`` (inputs, units) whose initial weights have the deviation that ``InitialWeights`` says. Drawn
    from a normal distribution that is cut at two deviations, so they are made larger by what the cut takes."""
    weights = setup.truncated_normal(name, sizes, stddev=initial_deviation(initial, *sizes) / TRUNCATED)
    return Dense(name, weights, tf.Variable(tf.zeros([sizes[1]]), name=f"{name}_offset"), activation)


def initial_deviation(kind: str, inputs: int, units: int) -> float:
    """The standard deviation of a layer's initial weights (Glorot and Bengio, AISTATS 2010; He et al., ICCV 2015)."""
    glorot: float = (2 / (inputs + units)) ** 0.5
    he: float = (2 / inputs) ** 0.5
    return {"glorot": glorot, "he": he, "small": glorot / 4, "large": 3 * glorot, "zero": 0.0}[kind]


def through(layers: Sequence[Dense], x: tf.Tensor) -> tf.Tensor:
    """Computes what comes out when ``x`` goes through one layer after the other."""
    for layer in layers:
        x = layer(x)
    return x


def variables_of(layers: Sequence[Dense]) -> dict[str, tf.Variable]:
    """Returns the variables of the layers for ``Part.variables``, from the first layer on."""
    return {key: one for layer in layers for key, one in _own(layer).items()}


def weights_of(layers: Sequence[Dense]) -> dict[str, tf.Tensor]:
    """Returns the weights of each layer by its name, without offsets, for the picture ``Distributions``."""
    return {layer.name: tf.identity(layer.weights) for layer in layers}


def _own(layer: Dense) -> dict[str, tf.Variable]:
    return {layer.name: layer.weights, f"{layer.name}_offset": layer.offset}
