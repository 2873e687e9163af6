"""Sentences about a run's machine: on runs that were made to show each of them, and on runs that do not."""

from __future__ import annotations

import msgspec
import pytest

from clew_gui.study.device_use import DeviceUse, device_uses, use_columns
from clew_gui.study.machine import machine_findings
from clew_gui.study.scaling import RunTiming, measure
from clew_gui.study.usage import energy, of_limit, share, usage_now, usage_results, usage_words
from clew_shared.journal.events import Pulse, Schema
from clew_shared.journal.history import History
from clew_shared.journal.pulse import PulseSummary
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


# --- What a run used of its machines, in words ------------------------------------------------------------------------

NAN = float("nan")


def history(*events: Pulse) -> History:
    found = History()
    for event in events:
        found.feed(1, event)
    return found


@pytest.mark.parametrize(
    ("used", "limit", "text"),
    [
        (1.2e9, 16e9, "1.2 of 16 GB"),
        (12e9, 80e9, "12 of 80 GB"),
        (7e9, 8e9, "7.0 of 8.0 GB"),
        (3e6, 16e9, "3.0 MB of 16 GB"),
        (4e8, 5e8, "400 of 500 MB"),
        (1.2e9, None, "1.2 GB"),
    ],
)
def test_memory_is_said_in_the_unit_of_its_limit(used: float, limit: float | None, text: str) -> None:
    assert of_limit(used, limit) == text


def test_numbers_read_well() -> None:
    assert [share(value) for value in (0.0, 0.042, 0.91, 1.8)] == ["0 %", "4.2 %", "91 %", "180 %"]
    assert [energy(value) for value in (812.0, 11_000.0, 5e6)] == ["812 J", "3.1 Wh", "1.4 kWh"]


def test_what_is_not_known_is_not_said() -> None:
    assert usage_words(PulseSummary()) == ""
    assert usage_words(PulseSummary(cpu=1.8, seconds=3.0)) == "CPU 180 % on average"
    everything = PulseSummary(1.8, 0.91, 1.2e9, 16e9, 12e9, 80e9, 11_000.0, 60.0)
    whole = "CPU 180 %, GPU 91 % on average; memory 1.2 of 16 GB, GPU memory 12 of 80 GB at most; 3.1 Wh"
    assert usage_words(everything) == whole


def test_a_live_run_says_its_last_samples() -> None:
    assert usage_now(History().pulse) == ""
    found = history(
        pulse(10, cpu=[NAN, 1.0], memory=[1e9, 1.2e9], memory_limit=[16e9, 16e9], gpu0_use=[0.9, NAN], power=[90, 100]),
        pulse(10, "worker 1", "node2", cpu=[0.5, 0.8], memory=[3e9, 3e9], power=[50, 60], gpu0_power=[40, 50]),
    )
    assert usage_now(found.pulse) == "CPU 180 %, 1.2 of 16 GB, GPU 90 %, 210 W"


def test_results_have_names_for_tables_and_filters() -> None:
    found = history(pulse(10, cpu=[NAN, 1.0], memory=[1e9, 1.2e9]))
    assert usage_results(found) == {"mean_cpu": 1.0, "peak_memory": pytest.approx(1.2e9)}
    found.feed(1, Schema(id=1, metrics=METRICS, batch_size=100))
    found.feed(1, points(0, [3.0, 2.0]))
    assert usage_results(found)["samples_per_second"] == 200, "two steps in a second"


# --- The devices of a scaling study: how busy each was, and how much of a step nothing is computed --------------------

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
