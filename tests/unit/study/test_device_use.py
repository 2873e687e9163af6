"""The devices of a scaling study: how busy each was, and how much of a step nothing is computed."""

from __future__ import annotations

import pytest

from clew_gui.study.device_use import DeviceUse, device_uses, use_columns
from clew_gui.study.scaling import RunTiming, measure
from clew_shared.journal.history import History
from tests.unit.runs import pulse, trace

ROWS = measure([RunTiming(n, 100, (100.0,), (1.0 / n,)) for n in (1, 2)]).rows


def ran(traced: bool = False, **columns: list[float]) -> History:
    history = History()
    history.feed(1, pulse(10.0, "trainer", "node1", **columns))
    if traced:
        history.feed(1, trace())
    return history


def test_a_trace_says_it_best_and_a_gpu_otherwise() -> None:
    busy = ran(gpu0_use=[0.5, 0.9])
    found = device_uses([(1, ran(True, gpu0_use=[0.0, 0.9])), (2, busy)], ROWS)
    assert found[1].not_computing == pytest.approx(0.25), "3 of 4 ms of the traced steps are computing"
    assert found[2].not_computing == pytest.approx(0.1)


def test_what_was_measured_of_input_and_reduction_counts_before_the_samples() -> None:
    rows = measure([RunTiming(2, 100, (100.0,), (1.0,), 1000, 0.1, 0.3)]).rows
    assert device_uses([(2, ran(gpu0_use=[0, 1.0]))], rows)[2].not_computing == pytest.approx(0.4)


def test_devices_that_differ_are_told_apart_and_cores_are_shared_evenly() -> None:
    gpus = ran(gpu0_use=[0.0, 0.91], gpu1_use=[0.0, 0.4])
    found = device_uses([(1, ran(cpu=[0.0, 1.8])), (2, gpus)], ROWS)
    assert found[1].use == pytest.approx([1.8])
    (column,) = [one for one in use_columns(ROWS, found, gpus=True, none="–") if one[0] == "GPU use"]
    assert column == ("GPU use", "180 %", "40 to 91 %")
    (even,) = device_uses([(2, ran(cpu=[0.0, 1.8]))], ROWS).values()
    assert even.use == pytest.approx([0.9])


def test_what_is_not_known_of_any_run_has_no_column() -> None:
    assert use_columns(ROWS, {}, gpus=False, none="–") == []
    only = {1: DeviceUse((0.9,)), 2: DeviceUse()}
    assert use_columns(ROWS, only, gpus=False, none="–") == [("CPU per device", "90 %", "–")]
