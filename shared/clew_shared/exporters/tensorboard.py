"""TensorBoard event files, written without TensorFlow.

A file is a chain of TFRecords: length (uint64), masked CRC-32C of the length, an ``Event`` in protobuf's encoding,
masked CRC-32C of it (tensorflow/core/lib/io/record_writer.h and tensorflow/core/util/event.proto). All points of a
metric whose step takes equally many bytes have records of the same length, so they are laid out as the rows of one
matrix and their checksums computed column by column, much faster than one call a point.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clew_shared.exporters.rows import ExportRows, base_name, replacing, rows_of, series_of
from clew_shared.journal.events import Histogram, Image, Matrix
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.params import Value
from clew_shared.reading import spec_of

Bytes = NDArray[np.uint8]
_NO_TIME = 1e11
"""Seconds since 1970 that no clock shows: the year 5138."""


def export_tensorboard(history: History, out: Path) -> Path:
    """``<exercise>-<run>/events.out.tfevents.<start>.clew`` in ``out``, one scalar tag a metric, named like it.

    TensorBoard holds scalars as float32. A measured relation over whole numbers (time against batch size) becomes a tag
    as well, with x as its step; others have no place there. Pictures become images and histograms, tables have no
    place. The run's settings are for the page *HParams*. Open it with ``tensorboard --logdir OUT``.
    """
    fold = history.fold
    begun = int(fold.first_started) if 0 <= fold.first_started < _NO_TIME else 0  # a name has room for 255 characters
    path = out / base_name(history) / f"events.out.tfevents.{begun:010d}.clew"
    with replacing(path, fold.run) as part, part.open("wb") as file:
        file.write(first_record(fold.first_started, fold.run))
        file.writelines(hparams_records(history))
        for rows in rows_of(history):
            file.writelines(records(rows))
        for measured in _measured(history):
            file.writelines(records(measured))
        for figures in history.figures.values():
            file.writelines(figure_record(figure) for figure in figures if not isinstance(figure, Matrix))
    return path


def _measured(history: History) -> Iterator[ExportRows]:
    """The measured relations whose x are whole numbers from 0 on, in the order of x."""
    for rows in series_of(history):
        order = np.argsort(rows.x, kind="stable")
        x = rows.x[order]
        if np.isfinite(x).all() and (x >= 0).all() and (x == np.floor(x)).all() and (x < 2**53).all():
            wall = np.full(len(x), history.fold.updated)
            yield ExportRows(rows.name, x.astype(np.int64), rows.y[order], wall)


def first_record(time: float, run: str) -> bytes:
    """The event that every file begins with: wall_time = 1 (``time``, in seconds since 1970), file_version = 3,
    source_metadata = 10 {writer = 1}."""
    writer = _field(0x0A, f"clew run {run}".encode())
    return _record(time, _field(0x1A, b"brain.Event:2") + _field(0x52, writer))


def restart_record(time: float, step: int) -> bytes:
    """Makes TensorBoard forget what it has from ``step`` on: step = 2, session_log = 7 {status = 1: START}."""
    return _record(time, b"\x10" + _varint(step) + _field(0x3A, b"\x08\x01"))


def _record(time: float, content: bytes) -> bytes:
    """One event as a TFRecord."""
    event = b"\x09" + struct.pack("<d", time) + content
    length = struct.pack("<Q", len(event))
    return length + _checksum(length) + event + _checksum(event)


def records(rows: ExportRows) -> Iterator[bytes]:
    """The records of some points, in groups whose steps take equally many bytes as a varint."""
    start = 0
    while start < len(rows.steps):
        length = max(1, -(-int(rows.steps[start]).bit_length() // 7))
        end = int(np.searchsorted(rows.steps, 1 << 7 * length))
        part = slice(start, end)
        yield _framed(_events(rows.metric, rows.steps[part], length, rows.values[part], rows.wall[part])).tobytes()
        start = end


def _events(
    metric: str, steps: NDArray[np.int64], length: int, values: NDArray[np.floating], wall: NDArray[np.float64]
) -> Bytes:
    """Encodes one ``Event`` for each row: wall_time = 1, step = 2, summary = 5 {value = 1 {tag = 1, simple_value =
    2}}."""
    with np.errstate(over="ignore"):
        number = values.astype("<f4")
    tag = _field(0x0A, metric.encode()) + b"\x15"
    summary = b"\x2a" + _varint(len(_field(0x0A, tag + bytes(4)))) + b"\x0a" + _varint(len(tag) + 4) + tag
    shifts = 7 * np.arange(length)
    varint = (steps[:, np.newaxis] >> shifts & 0x7F | np.where(shifts < 7 * (length - 1), 0x80, 0)).astype(np.uint8)
    columns = [b"\x09", _raw(wall.astype("<f8")), b"\x10", varint, summary, _raw(number)]
    return np.concatenate([_repeat(part, len(steps)) if isinstance(part, bytes) else part for part in columns], axis=1)


# --- Settings ---------------------------------------------------------------------------------------------------------


def hparams_records(history: History) -> Iterator[bytes]:
    """The settings of the run, and how it ended, for the page *HParams*; nothing where the journal has no spec.

    Two summaries without a value whose metadata = 9 {plugin_data = 1 {plugin_name = 1, content = 2}} carry an
    ``HParamsPluginData`` (tensorboard/plugins/hparams/plugin_data.proto): session_start_info = 3 {hparams = 1 (a map),
    group_name = 4, start_time_secs = 5} and session_end_info = 4 {status = 1, end_time_secs = 2}.
    """
    spec, fold = spec_of(history), history.fold
    if spec is None:
        return
    settings = {**spec.params, **spec.options, "seed": spec.seed, "data": spec.data, "strategy": spec.strategy}
    pairs = [_field(0x0A, name.encode()) + _field(0x12, _value(value)) for name, value in settings.items()]
    start = b"".join(_field(0x0A, pair) for pair in pairs) + _field(0x22, fold.run.encode())
    start += b"\x29" + struct.pack("<d", fold.first_started)
    yield _plugin_record("_hparams_/session_start_info", _field(0x1A, start), fold.first_started)
    if fold.done:
        status = 1 if fold.state is RunState.FINISHED else 2
        end = b"\x08" + _varint(status) + b"\x11" + struct.pack("<d", fold.ended)
        yield _plugin_record("_hparams_/session_end_info", _field(0x22, end), fold.ended)


def _value(value: Value) -> bytes:
    """google.protobuf.Value: null_value = 1, number_value = 2, string_value = 3, bool_value = 4."""
    match value:
        case None:
            return b"\x08\x00"
        case bool():
            return b"\x20" + _varint(value)
        case int() | float():
            return b"\x11" + struct.pack("<d", value)
        case _:
            return _field(0x1A, value.encode())


def _plugin_record(tag: str, data: bytes, time: float) -> bytes:
    """A summary value with tag = 1, an empty tensor = 8 (dtype = 1: float, shape = 2) and the plugin's metadata = 9."""
    plugin = _field(0x0A, _field(0x0A, b"hparams") + _field(0x12, data))
    value = _field(0x0A, tag.encode()) + _field(0x42, b"\x08\x01\x12\x00") + _field(0x4A, plugin)
    return _record(time, _field(0x2A, _field(0x0A, value)))


# --- Pictures ---------------------------------------------------------------------------------------------------------


def figure_record(figure: Image | Histogram) -> bytes:
    """A picture as one record, named like it: summary = 5 {value = 1 {tag = 1, image = 4 or histo = 5}}."""
    value = _field(0x22, _image(figure)) if isinstance(figure, Image) else _field(0x2A, _histo(figure))
    summary = _field(0x2A, _field(0x0A, _field(0x0A, figure.name.encode()) + value))
    return _record(figure.time, b"\x10" + _varint(max(figure.step, 0)) + summary)


def _image(figure: Image) -> bytes:
    """height = 1, width = 2, colorspace = 3 (1 grey, 3 RGB), encoded_image_string = 4: all images in rows, as a PNG."""
    images = np.frombuffer(figure.data, np.uint8).reshape(figure.count, figure.height, figure.width, figure.channels)
    grid = in_rows(images, figure.columns)
    height, width, channels = grid.shape
    size = b"\x08" + _varint(height) + b"\x10" + _varint(width) + b"\x18" + _varint(channels)
    return size + _field(0x22, png(grid))


def in_rows(images: Bytes, columns: int) -> Bytes:
    """[n, height, width, channels] as one image, a grey pixel between two; ``columns`` 0: about as many as rows."""
    count, height, width, channels = images.shape
    across = min(max(columns, 0) or math.ceil(math.sqrt(count)), count) or 1
    down = max(1, -(-count // across))
    grid = np.full((down * (height + 1) - 1, across * (width + 1) - 1, channels), 128, np.uint8)
    for number, image in enumerate(images):
        top, left = number // across * (height + 1), number % across * (width + 1)
        grid[top : top + height, left : left + width] = image
    return grid


def png(image: Bytes) -> bytes:
    """uint8 [height, width, 1 or 3] as a PNG (ISO/IEC 15948), each row without a filter."""
    height, width, channels = image.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)
    rows[:, 1:] = image.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _histo(figure: Histogram) -> bytes:
    """min = 1, max = 2, num = 3, sum = 4, sum_squares = 5, bucket_limit = 6, bucket = 7 (both packed). The sums are
    those of the middles of the bins where the values are not known."""
    edges, counts = np.frombuffer(figure.edges, "<f8"), np.frombuffer(figure.counts, "<i8").astype("<f8")
    values = np.frombuffer(figure.values, "<f4").astype(np.float64)
    values, weights = (values[np.isfinite(values)], 1.0) if values.size else ((edges[:-1] + edges[1:]) / 2, counts)
    sums = float((values * weights).sum()), float((values * values * weights).sum())
    numbers = (float(edges[0]), float(edges[-1]), float(counts.sum()), *sums)
    fields = b"".join(bytes([8 * k + 1]) + struct.pack("<d", number) for k, number in enumerate(numbers, 1))
    return fields + _field(0x32, edges[1:].astype("<f8").tobytes()) + _field(0x3A, counts.tobytes())


def _checksum(data: bytes) -> bytes:
    """The masked CRC-32C of one record, byte by byte: there is no other of its length to do beside it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _framed(events: Bytes) -> Bytes:
    """Each row as a TFRecord."""
    count, size = events.shape
    length = _repeat(struct.pack("<Q", size), count)
    return np.concatenate([length, _raw(_masked_crc32c(length)), events, _raw(_masked_crc32c(events))], axis=1)


def _raw(numbers: NDArray[np.generic]) -> Bytes:
    """The bytes of little-endian numbers, a row each."""
    return np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), -1)


def _repeat(content: bytes, count: int) -> Bytes:
    return np.broadcast_to(np.frombuffer(content, np.uint8), (count, len(content)))


def _field(key: int, content: bytes) -> bytes:
    return bytes([key]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def _crc_table() -> NDArray[np.uint32]:
    """CRC-32C of each byte: polynomial 0x1EDC6F41, reflected (RFC 3720, appendix B.4)."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(0x82F63B78), table >> 1)
    return table.astype(np.uint32)


_TABLE: Final[list[int]] = _crc_table().tolist()


def _masked_crc32c(rows: Bytes) -> NDArray[np.uint32]:
    """The checksum of each row, masked as TFRecords want it: rotated right by 15 bits, plus a constant."""
    table = _crc_table()
    crc = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for column in rows.T:
        crc = table[(crc ^ column) & 0xFF] ^ crc >> 8
    crc = ~crc
    masked: NDArray[np.uint32] = ((crc >> 15 | crc << 17) + np.uint32(0xA282EAD8)).astype("<u4")
    return masked
