"""Sentences about a run's machine: on runs that were made to show each of them, and on runs that do not."""

from __future__ import annotations

import msgspec
import pytest

from clew_gui.study.machine import machine_findings
from clew_shared.journal.events import Schema
from clew_shared.journal.history import History
from tests.unit.runs import METRICS, points, pulse, trace

SECONDS = 40


def trained(seconds: float = SECONDS, **values: float) -> History:
    """A run that trained from second 100 on, with the same values in all samples."""
    found = History()
    found.feed(1, Schema(id=1, metrics=METRICS))
    found.feed(1, points(0, [1.0], time=101.0))
    found.feed(1, pulse(100, "trainer", "node1", **{name: [value] * int(seconds) for name, value in values.items()}))
    return found


def told(history: History) -> list[tuple[str, str]]:
    return [(one.kind, one.text) for one in machine_findings(history)]


SLOW_FOLDER = {"cpu": 0.08, "node_cpu": 0.2, "cores": 4.0, "read": 3.1e6}


def test_a_run_that_reads_and_hardly_computes_waits_for_its_input() -> None:
    (found,) = told(trained(**SLOW_FOLDER))
    assert found == (
        "input-wait",
        (
            "It computed for 8.0 % of the time and read 3.1 MB/s meanwhile: it waits for its input. "
            "Read ahead, keep the data in memory, or copy them to the node's own disk."
        ),
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"cpu": 0.9},
        {"read": 1000.0},
        {"node_cpu": 3.0},
        {"gpu0_use": 0.6},
        {"seconds": 15},
        {"node_cpu": float("nan")},
    ],
)
def test_nothing_is_said_where_it_may_be_something_else(changed: dict[str, float]) -> None:
    assert told(trained(**SLOW_FOLDER | changed)) == []


def test_a_device_that_computes_nothing_beside_a_busy_one_is_named() -> None:
    (found,) = told(trained(gpu0_use=0.91, gpu1_use=0.0))
    assert found[0] == "device-idle"
    assert found[1].startswith("GPU 1 computed nothing while another was busy 91 % of the time")


def test_a_device_that_was_given_and_not_used_is_named() -> None:
    assert told(trained(gpu0_use=0.0)) == [
        ("device-unused", "GPU 0 computed nothing: this run trained on the processor.")
    ]


def test_a_device_with_little_to_do_wants_a_larger_batch() -> None:
    ((kind, text),) = told(trained(gpu0_use=0.04))
    assert (kind, text[:37]) == ("device-idle", "The GPU computed 4.0 % of the time: a")


def test_busy_devices_are_no_news() -> None:
    assert told(trained(gpu0_use=0.91, gpu1_use=0.88)) == []


def test_a_device_that_its_driver_slows_down_is_named() -> None:
    ((kind, text),) = told(
        trained(gpu0_use=0.91, gpu0_throttled=0.0, gpu1_use=0.9, gpu1_throttled=0.4, gpu1_temperature=91)
    )
    assert kind == "device-throttled"
    assert text.startswith(
        "GPU 1 was slowed down 40 % of the time, because it was too hot or got too little power, at up to 91 °C"
    )
    assert told(trained(gpu0_use=0.91, gpu0_throttled=0.02)) == []


@pytest.mark.parametrize(
    ("host", "compute", "batch", "said"),
    [(0.83, 0.12, 10, True), (0.4, 0.12, 10, False), (0.55, 0.4, 10, False), (0.83, 0.12, 50, False)],
    ids=["starting operations", "something else", "computing", "nearly all samples"],
)
def test_traced_steps_that_only_start_operations_want_a_larger_batch(
    host: float, compute: float, batch: int, said: bool
) -> None:
    history = History()
    history.feed(1, Schema(id=1, metrics=METRICS, batch_size=batch, samples_per_epoch=100))
    history.feed(1, msgspec.structs.replace(trace(), parts={"host": 0.004 * host, "compute": 0.004 * compute}))
    found = told(history)
    assert [kind for kind, _ in found] == ["batch-small"] * said
    assert all(
        text.startswith("83 % of a step went into starting operations and 12 % into computing") for _, text in found
    )


def test_cores_that_others_use_are_said() -> None:
    ((kind, text),) = told(trained(cpu=0.9, node_cpu=1.98, cores=2.0))
    assert (kind, text[:46]) == ("cores-shared", "Other programs used 54 % of the 2 cores while ")


@pytest.mark.parametrize(
    "values",
    [
        {"cpu": 1.9, "node_cpu": 1.98, "cores": 2.0},
        {"cpu": 0.5, "node_cpu": 1.2, "cores": 2.0},
        {"cpu": 1.0, "node_cpu": 30.0, "cores": 2.0},
    ],
)
def test_a_run_that_has_its_cores_is_no_news(values: dict[str, float]) -> None:
    assert told(trained(**values)) == []


def test_a_run_of_which_nothing_was_sampled_is_no_news() -> None:
    assert told(History()) == []
