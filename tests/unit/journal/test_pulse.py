"""What the machines did during a run, as readers find it in the journal."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from clew_shared.exporters.tables import export_pulse_csv, export_pulse_jsonl
from clew_shared.journal.events import Pulse, Schema
from clew_shared.journal.history import History
from clew_shared.journal.pulse import PulseSummary
from tests.unit.runs import METRICS, begin_run, describe, points, pulse


def history(*events: Pulse) -> History:
    found = History()
    for event in events:
        found.feed(1, event)
    return found


NAN = float("nan")


def test_columns_go_on_over_events_and_what_is_missing_is_unknown() -> None:
    found = history(pulse(10, cpu=[NAN, 1.0]), pulse(12, cpu=[2.0], power=[40.0]), pulse(13, power=[50.0]))
    process = found.pulse.processes["trainer"]
    np.testing.assert_array_equal(process.times, [10, 11, 12, 13])
    np.testing.assert_array_equal(process.column("cpu"), [NAN, 1.0, 2.0, NAN])
    np.testing.assert_array_equal(process.column("power"), [NAN, NAN, 40.0, 50.0])
    assert np.isnan(process.column("gpu0_use")).all()


def test_samples_that_come_again_count_once() -> None:
    event = pulse(10, cpu=[1.0, 2.0, 3.0])
    found = history(event, event, pulse(12, cpu=[9.0, 4.0]))
    np.testing.assert_array_equal(found.pulse.processes["trainer"].column("cpu"), [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    "changes",
    [
        {"times": b"1234"},
        {"values": (b"",)},
        {"names": ()},
        {"times": np.array([2.0, 1.0]).tobytes()},
        {"times": np.array([1.0, np.inf]).tobytes()},
    ],
)
def test_arrays_that_do_not_fit_are_damage(changes: dict[str, object]) -> None:
    found = history(msgspec.structs.replace(pulse(10, cpu=[1.0, 2.0]), **changes))
    assert len(found.damages) == 1
    assert not len(found.pulse)


def test_a_run_without_samples_knows_nothing() -> None:
    assert history().pulse_summary() == PulseSummary()


def test_an_event_without_samples_harms_no_summary() -> None:
    empty = Pulse(process="worker 1", host="n", times=b"", names=(), values=())
    assert history(pulse(10, cpu=[NAN, 1.0]), empty).pulse_summary().seconds == 1.0


def test_a_summary_is_that_of_all_samples_so_far() -> None:
    found = history(pulse(10, cpu=[NAN, 1.0]))
    assert found.pulse_summary() == found.pulse_summary()
    assert found.pulse_summary().cpu == 1.0
    found.feed(1, pulse(12, cpu=[4.0]))
    assert found.pulse_summary().cpu == 2.5


def test_means_are_over_the_time_in_which_it_trained(tmp_path: Path) -> None:
    found = History()
    found.feed(1, describe(begin_run(tmp_path)))
    found.feed(1, pulse(10, cpu=[NAN, 0.1, 0.1, 1.0, 1.0, 2.0], memory=[1e9, 5e9, 2e9, 2e9, 2e9, 2e9]))
    found.feed(1, Schema(id=1, metrics=METRICS))
    found.feed(1, points(0, [1.0], time=13.0))
    summary = found.pulse_summary()
    assert summary.cpu == pytest.approx(4 / 3), "from second 12 on, where the first block began"
    assert summary.memory == 5e9
    assert summary.memory_limit is summary.energy is summary.gpu is None
    assert summary.seconds == 5.0


def test_processes_add_up_and_each_node_counts_once() -> None:
    found = history(
        pulse(10, cpu=[NAN, 1.0], memory=[1e9, 1e9], memory_limit=[8e9, 8e9], power=[NAN, 30.0]),
        pulse(10, "worker 1", cpu=[NAN, 0.5], memory=[2e9, 2e9], memory_limit=[8e9, 8e9], power=[NAN, 30.0]),
        pulse(10, "worker 2", "node2", cpu=[NAN, 0.25], memory=[1e9, 2e9], memory_limit=[4e9, 4e9], power=[NAN, 20.0]),
    )
    summary = found.pulse_summary()
    assert summary.cpu == 1.75
    assert (summary.memory, summary.memory_limit) == (2e9, 4e9), "of the node that came nearest to its limit"
    assert summary.energy == 50.0


def test_gpus_are_summed_up() -> None:
    found = history(
        pulse(10, gpu0_use=[0.9, 0.9], gpu0_power=[200, 210], gpu0_memory=[1e9, 2e9], gpu0_memory_limit=[8e9, 8e9]),
        pulse(10, "worker 1", gpu0_use=[0.5, 0.5], gpu1_use=[0.7, 0.7]),
    )
    summary = found.pulse_summary()
    assert summary.gpu == pytest.approx(0.7)
    assert summary.energy == 210.0
    assert (summary.gpu_memory, summary.gpu_memory_limit) == (2e9, 8e9)


def test_it_is_exported_without_what_is_not_known(tmp_path: Path) -> None:
    found = History()
    found.feed(1, describe(begin_run(tmp_path)))
    assert export_pulse_csv(found, tmp_path) is None
    found.feed(1, pulse(10, cpu=[NAN, 1.5]))
    table = export_pulse_csv(found, tmp_path)
    lines = export_pulse_jsonl(found, tmp_path)
    assert table is not None
    assert lines is not None
    run = found.fold.run
    assert table.read_text() == f"run,time,process,host,name,value\n{run},11.000,trainer,node1,cpu,1.5\n"
    assert msgspec.json.decode(lines.read_bytes()) == {
        "run": run, "time": 11.0, "process": "trainer", "host": "node1", "name": "cpu", "value": 1.5,
    }  # fmt: skip
