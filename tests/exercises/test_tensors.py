"""Data as tensors: shared memory where it begins at the right place, a copy elsewhere, the same values in both."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import tensorflow as tf

from clew_agent.datasets.dataset import aligned, pixels
from clew_agent.training.step import ALIGNMENT, resident


def test_images_are_read_to_where_tensorflow_can_use_them() -> None:
    rows = pixels(np.arange(6 * 784, dtype=np.int64).astype(np.uint8).reshape(6, 28, 28))
    assert rows.ctypes.data % ALIGNMENT == 0
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows[0, :4], np.array([0, 1, 2, 3], np.float32) / 256)


def test_reading_images_takes_the_memory_of_the_result_and_no_more() -> None:
    """A way through an array of float64 would take three times as much. NumPy's loop has buffers for values of another
    type: with float32 in it 4 bytes for each place in at most two of them, with float64 8 bytes in both."""
    images = np.zeros((2000, 28, 28), np.uint8)
    tracemalloc.start()
    try:
        rows = pixels(images)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0 <= peak - rows.nbytes < 12 * np.getbufsize() < 0.02 * rows.nbytes


def test_aligned_memory_is_shared_and_not_copied() -> None:
    array = aligned((3, 5))
    array[:] = 1.0
    tensor = resident(array)
    array[0, 0] = 7.0
    assert float(tensor[0, 0]) == 7.0, "the same memory"
    del array
    assert float(tf.reduce_sum(tensor)) == 21.0, "which stays as long as the tensor does"


@pytest.mark.parametrize("kind", ["offset", "strided", "read-only", "empty"])
def test_other_memory_is_copied(kind: str) -> None:
    base = aligned((8, 8))
    base[:] = np.arange(64, dtype=np.float32).reshape(8, 8)
    array = {"offset": base[0, 1:], "strided": base[:, ::2], "read-only": base, "empty": base[:0]}[kind]
    array.flags.writeable = kind != "read-only"
    np.testing.assert_array_equal(resident(array).numpy(), array)
