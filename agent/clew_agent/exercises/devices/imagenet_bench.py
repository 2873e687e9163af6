"""AlexNet, ResNet-50 and Inception v3 on large images: how many images per second, on how many devices.

Jülich's scaling lab. The two larger networks are those of ``keras.applications``; AlexNet is Krizhevsky, Sutskever and
Hinton, "ImageNet classification with deep convolutional neural networks", NeurIPS 2012, in one tower, and as
IT4Innovations' slides have it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import keras
import numpy as np
import tensorflow as tf

from clew_agent import lesson
from clew_agent.datasets.search import image_classes, images_in

MODELS = lesson.choices(
    alexnet="AlexNet", alexnet_it4i="AlexNet, IT4I's variant", resnet50="ResNet-50", inception3="Inception v3"
)
_SIZES = {"alexnet": 224, "alexnet-it4i": 224, "resnet50": 224, "inception3": 299}
_SMALLEST = {"alexnet": 32, "alexnet-it4i": 195, "resnet50": 32, "inception3": 75}
ALEXNETS = {"alexnet": ((96, 256, 384, 384, 256), "SAME"), "alexnet-it4i": ((64, 192, 384, 256, 256), "VALID")}
"""Filters of the five convolutions, and the padding. The first one pads, so that images of any size pass."""
POOLED = ("conv1", "conv2", "conv5")
_KINDS = (".jpg", ".jpeg", ".png")
_SYNTHETIC = 256
"""Distinct synthetic images: enough for a batch, few enough for memory (150 MB at 224 × 224)."""

LARGE_PROBLEM = lesson.needs(
    image_size=lesson.at_least(224, 0), classes=lesson.at_least(1000), folder="", batch_size=lesson.at_least(8)
)
"""With few classes the loss begins near 1, and that of a single image jumps."""


class ImageSettings(lesson.BatchSettings, frozen=True, kw_only=True):
    """Which images a large network trains on."""

    image_size: Annotated[
        int,
        lesson.number(
            "Image size",
            "Height and width of an image. 0: the network's own, 224, or 299 for Inception v3.",
            0,
            1024,
            "Network",
            unit="pixels",
        ),
    ] = 0
    classes: Annotated[
        int, lesson.number("Classes", "How many kinds of synthetic images there are.", 2, 100_000, "Network")
    ] = 1000
    folder: Annotated[
        str,
        lesson.Knob(
            "Image folder",
            "A folder on the machine that trains, with a folder of JPEG or PNG images for each class. Empty: synthetic "
            "images.",
            "Network",
        ),
    ] = ""


class ImagenetSettings(ImageSettings, frozen=True, kw_only=True):
    """A short measurement of ResNet-50."""

    optimizer: lesson.OptimizerName = "momentum"
    learning_rate: lesson.LearningRate = 0.01
    batch_size: lesson.BatchSize = 32
    steps: lesson.Steps = 100
    model: Annotated[str, lesson.Knob("Model", "The network.", "Network", choices=MODELS)] = "resnet50"


class ImagenetBench(lesson.Exercise[ImagenetSettings]):
    """Three networks of the ImageNet competition."""

    id = "imagenet-bench"
    title = "ImageNet benchmark"
    subtitle = "AlexNet, ResNet-50, Inception v3"
    chapter = "Many devices"
    course = "Jülich, scaling lab; AlexNet also after IT4Innovations"
    minutes = 40
    summary = "Measure how many images per second a large network trains on, and how that grows with the devices."
    revision = 1

    def build(self, setup: lesson.Setup[ImagenetSettings]) -> lesson.Model:
        """The chosen network on synthetic images, or on those of a folder."""
        options = setup.settings
        size = options.image_size or _SIZES[options.model]
        if size < _SMALLEST[options.model]:
            text = f"Images of {size} × {size} pixels are too small for this network."
            raise lesson.problem("exercise.size", text, f"Choose at least {_SMALLEST[options.model]}.", "image_size")
        samples, classes, read = samples_of(options, size, setup.seed)
        make = _alexnet if options.model in ALEXNETS else _keras_network
        network = make(setup, size, classes)

        def loss(batch: lesson.Batch, context: lesson.StepContext) -> lesson.Loss:
            logits = network.scores(read(batch.x), context)
            value = batch.mean(lesson.cross_entropy(logits, batch.y))
            return lesson.Loss(value, {"accuracy": batch.mean(lesson.correct(logits, batch.y))})

        part = lesson.Part(options.model, network.trained, loss, setup.optimizer())
        return lesson.Model(parts=[part], state=network.averages, train=samples)

    metrics = (
        lesson.each_step("loss", "Training loss", "lower"),
        lesson.each_step("accuracy", "Training accuracy", "higher", format="percent"),
    )
    plots = (
        lesson.plot("loss", "Loss", "loss", log=True),
        lesson.plot("accuracy", "Accuracy", "accuracy", format="percent"),
    )
    baseline = "usual"
    presets = (
        lesson.preset("usual", "Clew's values", "ResNet-50, synthetic images of 224 × 224 pixels."),
        lesson.preset("alexnet", "AlexNet", "Much to send.", model="alexnet", batch_size=128),
        lesson.preset(
            "alexnet-it4i",
            "AlexNet, IT4I's variant",
            "As on IT4Innovations' slides: fewer filters, no padding.",
            model="alexnet-it4i",
            batch_size=128,
        ),
        lesson.preset("inception", "Inception v3", "Much to compute; images of 299 × 299 pixels.", model="inception3"),
        lesson.preset(
            "tiny",
            "Tiny",
            "Small images, in seconds on a laptop.",
            model="alexnet",
            image_size=32,
            classes=4,
            batch_size=16,
            steps=30,
        ),
    )
    goals = (lesson.goal("learns", "The network learns", "best loss <= 1.0", LARGE_PROBLEM, question=1),)
    goal_details = {"learns": "Even made-up images can be learnt by heart: bring the training loss below 1."}


class _Network:
    """A network's variables, and from images [batch, size, size, 3] to scores [batch, classes] while it trains."""

    def __init__(
        self,
        trained: dict[str, tf.Variable],
        averages: dict[str, tf.Variable],
        scores: Callable[[tf.Tensor, lesson.StepContext], tf.Tensor],
    ) -> None:
        self.trained = trained
        self.averages = averages
        self.scores = scores


def _alexnet(setup: lesson.Setup[ImagenetSettings], size: int, classes: int) -> _Network:
    """One tower: five convolutions with three poolings, two dense layers with dropout, and the scores."""
    filters, padding = ALEXNETS[setup.settings.model]
    kernels = zip((f"conv{number}" for number in range(1, 6)), (11, 5, 3, 3, 3), (3, *filters), filters, strict=False)
    convolutions = {name: (width, width, inputs, units) for name, width, inputs, units in kernels}
    side = size
    for name, (width, _, _, _) in convolutions.items():
        side = _side(side, width, _stride(name), padding)
        side = _side(side, 3, 2, padding) if name in POOLED else side
    dense = {"dense1": (side * side * filters[-1], 4096), "dense2": (4096, 4096), "output": (4096, classes)}
    shapes: dict[str, tuple[int, ...]] = {**convolutions, **dense}
    trained: dict[str, tf.Variable] = {}
    for name, shape in shapes.items():
        inputs = int(np.prod(shape[:-1]))
        trained[name] = setup.truncated_normal(name, shape, stddev=(2 / inputs) ** 0.5)
        trained[f"{name}_offset"] = tf.Variable(tf.zeros([shape[-1]]), name=f"{name}_offset")

    def scores(images: tf.Tensor, context: lesson.StepContext) -> tf.Tensor:
        x = images
        for name in convolutions:
            x = tf.nn.conv2d(x, trained[name], _stride(name), padding)
            x = tf.nn.relu(tf.nn.bias_add(x, trained[f"{name}_offset"]))
            if name in POOLED:
                x = tf.nn.max_pool2d(x, 3, 2, padding)
        x = tf.reshape(x, [-1, shapes["dense1"][0]])
        for name in ("dense1", "dense2"):
            x = tf.nn.relu(tf.matmul(x, trained[name]) + trained[f"{name}_offset"])
            x = lesson.dropout(x, 0.5, context, name)
        return tf.matmul(x, trained["output"]) + trained["output_offset"]

    return _Network(trained, {}, scores)


def _stride(name: str) -> int:
    return 4 if name == "conv1" else 1


def _side(side: int, width: int, stride: int, padding: str) -> int:
    """Height and width after a window of ``width`` has gone over an image."""
    return -(-(side if padding == "SAME" else side - width + 1) // stride)


def _keras_network(setup: lesson.Setup[ImagenetSettings], size: int, classes: int) -> _Network:
    """ResNet-50 or Inception v3 as Keras has them, with batch statistics over all devices."""
    make = {"resnet50": keras.applications.ResNet50, "inception3": keras.applications.InceptionV3}
    keras.utils.set_random_seed(setup.seed)
    plain = make[setup.settings.model](
        weights=None, input_shape=(size, size, 3), classes=classes, classifier_activation=None
    )
    network = keras.models.clone_model(plain, clone_function=_synchronized)

    def scores(images: tf.Tensor, _: lesson.StepContext) -> tf.Tensor:
        return network(images, training=True)

    return _Network(named(network.trainable_variables), named(network.non_trainable_variables), scores)


def _synchronized(layer: Any) -> Any:
    config = layer.get_config()
    if isinstance(layer, keras.layers.BatchNormalization):
        config["synchronized"] = True
    return layer.__class__.from_config(config)


def named(variables: list[Any]) -> dict[str, tf.Variable]:
    """Keras' variables by their paths."""
    return {variable.path.replace("/", "."): variable.value for variable in variables}


def samples_of(
    options: ImageSettings, size: int, seed: int
) -> tuple[lesson.Samples, int, Callable[[tf.Tensor], tf.Tensor]]:
    """The samples, how many classes they have, and from a batch of them to images in [0, 1)."""
    if options.folder:
        paths, labels, classes = _files(Path(options.folder).expanduser())
        return lesson.Samples(paths, labels), classes, lambda names: _read(names, size)
    draw = np.random.default_rng(seed)
    labels = (np.arange(_SYNTHETIC) % options.classes).astype(np.int32)
    images = draw.random((_SYNTHETIC, size, size, 3), np.float32)
    return lesson.Samples(images, labels), options.classes, tf.identity


def _files(folder: Path) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], int]:
    """Paths and labels of all images below ``folder``, class after class in turn. Raises ``ProblemError``."""
    there = image_classes(folder) if folder.is_dir() else ()
    classes = [files for one in there if (files := sorted(file for file in images_in(one) if _is_read(file)))]
    found = [(number, file) for number, files in enumerate(classes) for file in files]
    if len(classes) < 2:
        text = f"{folder} has no images of two classes or more."
        raise lesson.problem(
            "exercise.folder", text, "It needs a folder of JPEG or PNG images for each class.", "folder"
        )
    paths = np.array([os.fsencode(file) for _, file in found])
    return paths, np.array([number for number, _ in found], np.int32), len(classes)


def _is_read(file: Path) -> bool:
    return file.suffix.lower() in _KINDS


def _read(names: tf.Tensor, size: int) -> tf.Tensor:
    """Files [batch] as images float32 [batch, size, size, 3], several at a time."""

    def one(name: tf.Tensor) -> tf.Tensor:
        image = tf.io.decode_image(tf.io.read_file(name), channels=3, expand_animations=False)
        image.set_shape([None, None, 3])
        return tf.image.resize(image, [size, size]) / 256

    return tf.map_fn(one, names, fn_output_signature=tf.float32, parallel_iterations=16)


EXERCISE = ImagenetBench()
