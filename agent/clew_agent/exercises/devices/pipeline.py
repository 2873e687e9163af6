"""The input pipeline: the same network trained on the same images, which come from memory, files or a record.

After NCSA's and CINECA's courses. The steps of the lesson are those of TensorFlow's guide "Better performance with the
tf.data API": reading in parallel, prefetching, caching, one large file instead of many small ones.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep, time
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent import lesson
from clew_agent.exercises.devices.bandwidth import Layer, make_network
from clew_agent.training.tracing import Profiler, refused
from clew_shared.base import operating_system
from clew_shared.base.problem import ProblemError

AHEAD = 4
"""Batches that are kept ready."""
WARM_UP = 2
"""Steps that do not count: the first one compiles the step."""
TRACED = 10
LONGEST_S = 5.0
"""A step may take so long: only between steps a measurement can be stopped."""
PREFIX = "clew-pipeline-"
LEFT_S = 24 * 3600.0
"""A folder that was not touched for so long is nobody's."""
KERNELS, UNITS = (8, 16), 64
NOT_WRITTEN = ("feeding.write", "The images cannot be written", "Choose another folder, or fewer images.", "folder")
ONE_BY_ONE = "As one file after the other, where each file takes 2 ms more."
SLOW = lesson.needs(extra_ms=lesson.at_least(2), images=lesson.at_least(500))


class Way(NamedTuple):
    """A way to the images: its name as a row of *One step*, and as a line of *Images per second*."""

    name: str
    line: str


WAYS = {
    "memory": Way("Memory", "from memory"),
    "files": Way("Files", "from files"),
    "parallel": Way("Parallel", "parallel reading"),
    "prefetch": Way("Prefetch", "with prefetch"),
    "cache": Way("Cache", "with cache"),
    "tfrecord": Way("TFRecord", "from a TFRecord"),
}
NAMES = tuple(way.name for way in WAYS.values())
GAINED = tuple(key for key in WAYS if key != "files")
ALL = "all"
CHOICES = (lesson.Choice(ALL, "All ways"), *(lesson.Choice(key, way.name) for key, way in WAYS.items()))


class PipelineSettings(lesson.Params, frozen=True, kw_only=True):
    """Where images come from, and how many."""

    feeding: Annotated[
        str, lesson.Knob("Images come from", "One way, or all of them one after the other.", choices=CHOICES)
    ] = ALL
    images: Annotated[
        int, lesson.size("Images", "How many images are written as files.", 50, 50_000, unit="images")
    ] = 1000
    passes: Annotated[int, lesson.number("Passes", "How many times the network sees all images, each way.", 2, 100)] = 4
    batch_size: Annotated[int, lesson.size("Batch size", "Number of images in one step.", 1, 1000)] = 50
    readers: Annotated[
        int, lesson.size("Readers", "How many files are read at the same time, in parallel.", 1, 256)
    ] = 4
    extra_ms: Annotated[
        float,
        lesson.number(
            "Extra time per file",
            "Each file takes so much longer, as on a file system that many nodes share. 0: as long as it takes here.",
            0,
            100,
            unit="ms",
        ),
    ] = 0.0
    folder: Annotated[
        str,
        lesson.Knob(
            "Folder",
            "A folder on the machine that trains, in which the files are written and removed again. Empty: its folder "
            "for temporary files.",
        ),
    ] = ""


class Pipeline(lesson.Measurement[PipelineSettings]):
    """Images per second of one network, for each way to the images."""

    id = "pipeline"
    title = "Input pipeline"
    subtitle = "memory, files, tf.data, TFRecord"
    chapter = "Many devices"
    course = "NCSA and CINECA, input pipelines"
    minutes = 20
    summary = "Feed the same network from memory, from files and by tf.data, and see what a step waits for."
    datasets = ("mnist", "digits", "fashion-mnist", "cifar10")
    revision = 1

    def measure(self, setup: lesson.Setup[PipelineSettings]) -> Iterator[lesson.Event | None]:
        """Way by way; the losses of each are compared with those of the first before the next."""
        chosen = setup.settings
        keys = [*WAYS] if chosen.feeding == ALL else [chosen.feeding]
        folder = checked_folder(setup)
        yield lesson.Schema(id=0, metrics=self.metrics, steps=len(keys))
        rates: dict[str, float] = {}
        losses: list[float] = []
        with workplace(folder) as place:
            yield from clear(place)
            source = yield from write(setup.require_data(), chosen, setup.seed, place)
            yield lesson.Log(text=f"{len(source.pixels):,} images as files in {place}.")
            for number, key in enumerate(keys, 1):
                with closing(Feeding(key, source, setup, traced=len(keys) == 1)) as run:
                    yield from run.train()
                losses = losses or run.losses
                compare(losses, run.losses, WAYS[key].name)
                rates[key] = run.rate
                yield lesson.Evaluation(step=number, values={**gains(rates), "waiting": run.waiting})
                share = f"{run.waiting:.0%}".replace("%", " %")
                yield lesson.Log(text=f"{WAYS[key].name}: {run.rate:,.0f} images/s; it waits {share} of the time.")

    metrics = (
        *(lesson.at_evaluation(f"{key}_gain", f"{WAYS[key].name} against Files", "higher", unit="×") for key in GAINED),
        lesson.at_evaluation("hidden", "Best way against memory", "higher", format="percent"),
        lesson.at_evaluation("waiting", "Waiting for input, last way", "lower", format="percent"),
    )
    measured = (
        lesson.lines("rate", "Images per second", *(way.line for way in WAYS.values())),
        lesson.lines("step", "One step", *NAMES, form="timeline", bars=("Trains", "Waits for its batch")),
    )
    presets = (
        lesson.preset("usual", "All ways", "1,000 images, four passes through them each way."),
        lesson.preset("tiny", "Tiny", "100 small digits.", data="digits", images=100, passes=2),
    )
    goals = (
        lesson.goal("parallel", "Parallel reading 6 times as fast", "parallel_gain >= 6", SLOW, question=2, quiet=True),
        lesson.goal("prefetch", "Prefetching 7 times as fast", "prefetch_gain >= 7", SLOW, question=1, quiet=True),
    )
    goal_details = dict.fromkeys(("parallel", "prefetch"), ONE_BY_ONE)


def gains(rates: dict[str, float]) -> dict[str, float]:
    """How many times as fast as one file after the other each way is, and the best of them against memory."""
    found = {f"{key}_gain": rates[key] / rates["files"] for key in GAINED if key in rates and "files" in rates}
    read = [rate for key, rate in rates.items() if key != "memory"]
    return found | ({"hidden": max(read) / rates["memory"]} if read and "memory" in rates else {})


def compare(expected: Sequence[float], losses: Sequence[float], name: str) -> None:
    """Raise ``ProblemError`` unless the losses are the same: then the images, or their order, were not."""
    if list(expected) != list(losses):
        step = next(k for k, (one, other) in enumerate(zip(expected, losses, strict=True)) if one != other)
        text = f"{name} gives another loss in step {step + 1}: {losses[step]:.6g} instead of {expected[step]:.6g}."
        raise lesson.problem("feeding.differs", text, "Does anything else change the files meanwhile?", name)


# The images


@dataclass(frozen=True)
class Source:
    """The same images in memory, as one file each, and as records in the order of a pass.

    ``pixels`` are uint8 [images, height, width, channels], ``order`` are the images of a pass.
    """

    pixels: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int32]
    order: npt.NDArray[np.int64]
    folder: Path
    extra: float

    @property
    def paths(self) -> list[str]:
        """The file of each image."""
        return [os.fspath(self.folder / f"{number:05}.png") for number in range(len(self.pixels))]

    @property
    def record(self) -> str:
        """The one file with all images."""
        return os.fspath(self.folder / "all.tfrecord")


def checked_folder(setup: lesson.Setup[PipelineSettings]) -> Path | None:
    """The folder that is asked for, if one is. Raises ``ProblemError`` for settings with which nothing can be
    measured."""
    chosen = setup.settings
    folder = Path(chosen.folder).expanduser() if chosen.folder else None
    if folder is not None and not folder.is_dir():
        hint = "Name one on the machine that trains."
        raise lesson.problem("exercise.folder", f"{folder} is no folder.", hint, "folder")
    lesson.check_images(setup.require_data(), chosen.images)
    together = {ALL: 1, "files": 1, "memory": 0, "tfrecord": 0}.get(chosen.feeding, chosen.readers)
    waits = chosen.batch_size * chosen.extra_ms / 1000 / together if together else 0.0
    if waits > LONGEST_S:
        text = f"A batch would wait {waits:,.0f} s for its files, more than {LONGEST_S:g} s."
        raise lesson.problem("feeding.slow", text, "Take a smaller batch, or less extra time per file.", "extra_ms")
    return folder


@contextmanager
def workplace(folder: Path | None) -> Iterator[Path]:
    """A new folder, which is removed at the end. Its name says whose it is, for ``clear``."""
    prefix = f"{PREFIX}{operating_system.host_name()}-{os.getpid()}-"
    with refused(*NOT_WRITTEN):
        place = tempfile.TemporaryDirectory(prefix=prefix, dir=folder, ignore_cleanup_errors=True)
    with place:
        yield Path(place.name)


def clear(place: Path) -> Iterator[None]:
    """Removes what is beside ``place`` of measurements that were killed: those of this account, file by file."""
    owner = place.lstat().st_uid
    for other in place.parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            there = other.lstat()
            if stat.S_ISDIR(there.st_mode) and there.st_uid == owner and is_left(other.name, there.st_mtime):
                for file in other.iterdir():
                    file.unlink()
                    yield None
                other.rmdir()


def is_left(name: str, touched: float) -> bool:
    """Whether the folder's process is gone. On another node that cannot be asked: it touches its folder in each
    pass."""
    *_, host, pid, _ = ("", "", *name.removeprefix(PREFIX).rsplit("-", 2))
    if host == operating_system.host_name() and pid.isdecimal():
        return not operating_system.is_alive(int(pid))
    return time() - touched > LEFT_S


def write(data: lesson.DataSet, chosen: PipelineSettings, seed: int, folder: Path) -> Generator[None, None, Source]:
    """Writes each image as a PNG file, and all of them into one TFRecord. It may be stopped after each."""
    count = chosen.images
    pixels = np.round(255 * data.train.x[:count].reshape(-1, *data.image_shape)).astype(np.uint8)
    order = np.random.default_rng(seed).permutation(count)
    source = Source(pixels, data.train.y[:count].astype(np.int32), order, folder, chosen.extra_ms / 1000)
    files: list[bytes] = []
    with refused(*NOT_WRITTEN):
        for path, image in zip(source.paths, pixels, strict=True):
            files.append(tf.io.encode_png(image).numpy())
            Path(path).write_bytes(files[-1])
            yield None
        with tf.io.TFRecordWriter(source.record) as writer:
            for number in order.tolist():
                features = {
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[files[number]])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(source.labels[number])])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
                yield None
    return source


# The ways


def dataset(key: str, source: Source, batch: int, readers: int) -> tf.data.Dataset:
    """The batches of one way, for ever: images uint8 [batch, height, width, channels] and labels int32 [batch]."""
    with tf.device("/CPU:0"):  # where tf.data works
        labels, paths, pixels = tf.constant(source.labels), tf.constant(source.paths), tf.constant(source.pixels)
    one_pass = tf.data.Dataset.from_tensor_slices(source.order)

    def from_file(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return decoded(tf.io.read_file(slowed(tf.gather(paths, number), source.extra))), tf.gather(labels, number)

    def from_record(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        kinds = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
        found = tf.io.parse_single_example(record, kinds)
        return decoded(found["image"]), tf.cast(found["label"], tf.int32)

    def decoded(content: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.io.decode_png(content), source.pixels.shape[1:])

    match key:
        case "memory":
            taken = one_pass.repeat().batch(batch)
            found = taken.map(lambda numbers: (tf.gather(pixels, numbers), tf.gather(labels, numbers)))
        case "files":
            found = one_pass.map(from_file).repeat().batch(batch)
        case "parallel" | "prefetch":
            read = one_pass.repeat().map(from_file, num_parallel_calls=readers).batch(batch)
            found = read.prefetch(AHEAD) if key == "prefetch" else read
        case "cache":
            found = one_pass.map(from_file, num_parallel_calls=readers).cache().repeat().batch(batch).prefetch(AHEAD)
        case _:
            records = tf.data.TFRecordDataset(source.record).repeat()
            found = records.map(from_record, num_parallel_calls=readers).batch(batch).prefetch(AHEAD)
    return found.with_options(plain_options(readers))


def plain_options(readers: int) -> tf.data.Options:
    """Has tf.data do what is asked for and nothing by itself: it would prefetch, and choose how many files it reads."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    options.experimental_optimization.inject_prefetch = False
    options.threading.private_threadpool_size = readers
    return options


def slowed(path: tf.Tensor, seconds: float) -> tf.Tensor:
    """The path, after a while."""
    if not seconds:
        return path

    def wait(same: bytes) -> bytes:
        sleep(seconds)
        return same

    found = tf.numpy_function(wait, [path], tf.string, stateful=False)  # with state, tf.data would read one by one
    found.set_shape([])
    return found


# The network


class Feeding:
    """Trains the network on the batches of one way, and takes the time of each step: how long it waits, and trains.

    After it ``rate`` (images/s) and ``waiting`` (share of the time) are those of the middle one of all passes but the
    first, in which caches are filled.
    """

    def __init__(self, key: str, source: Source, setup: lesson.Setup[PipelineSettings], *, traced: bool) -> None:
        chosen = setup.settings
        self._way, self._batch, self._traced = WAYS[key], min(chosen.batch_size, chosen.images), traced
        self._pass = max(chosen.images // self._batch, 1)
        self._passes, self._folder = chosen.passes, source.folder
        self._batches = iter(dataset(key, source, self._batch, chosen.readers))
        self._step = make_step(source.pixels.shape[1:], int(source.labels.max()) + 1, setup)
        self.losses: list[float] = []
        self.rate = self.waiting = 0.0

    def train(self) -> Iterator[lesson.Event | None]:
        """All passes; yields the rate of each, then a usual step, then a trace of more if that is wanted."""
        for _ in range(WARM_UP):
            self.once()
            yield None
        passes: list[list[float]] = []
        for number in range(1, self._passes + 1):
            steps = []
            for _ in range(self._pass):
                steps.append(self.once())
                yield None
            passes.append([sum(seconds) / self._pass for seconds in zip(*steps, strict=True)])
            os.utime(self._folder)
            yield lesson.points(self._way.line, number, self._batch / sum(passes[-1]), "Pass", "Images per second")
        wait, work = sorted(passes[1:], key=sum)[(len(passes) - 1) // 2]
        end = wait + work
        self.rate, self.waiting = self._batch / end, wait / end
        yield lesson.row_of_bars(self._way.name, [(0.0, wait, -1), (wait, end, 1)])  # -1: it waits for its batch
        if self._traced:
            yield from self._trace(min(TRACED, max(int(LONGEST_S / end), 1)))

    def close(self) -> None:
        """Let go of the images: an open file cannot be removed everywhere."""
        del self._batches

    def once(self) -> tuple[float, float]:
        """Does a step: the seconds for which it waited for its batch, and for which it trained."""
        start = perf_counter()
        images, labels = next(self._batches)
        there = perf_counter()
        self.losses.append(float(self._step(images, labels)))
        return there - start, perf_counter() - there

    def _trace(self, count: int) -> Iterator[lesson.Event]:
        profiler = Profiler()
        try:
            profiler.start()
            with profiler.steps():
                for _ in range(count):
                    self.once()
            yield profiler.stop(len(self.losses) - count, count)
        except ProblemError as error:
            yield lesson.Log(text=str(error), level="warning")


Step = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def make_step(shape: Sequence[int], classes: int, setup: lesson.Setup[PipelineSettings]) -> Step:
    """One step of gradient descent of a small network: two convolutions with pooling, a dense layer, the scores."""
    height, width, channels = shape
    places = height * width, (height + 1) // 2 * ((width + 1) // 2)
    flat = (height + 3) // 4 * ((width + 3) // 4) * KERNELS[1]
    convolutions = (Layer(channels, KERNELS[0], 3, places[0]), Layer(*KERNELS, 3, places[1]))
    weights, scores = make_network([*convolutions, Layer(flat, UNITS), Layer(UNITS, classes)], setup)

    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        x = tf.cast(images, tf.float32) / 255
        return lesson.descend(lambda: tf.reduce_mean(lesson.cross_entropy(scores(x), labels)), weights, 0.05)

    return tf.function(step, autograph=False)  # type: ignore[no-any-return]  # TensorFlow has no types


EXERCISE = Pipeline()
