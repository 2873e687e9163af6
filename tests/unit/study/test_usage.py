"""What a run used of its machines, in words."""

from __future__ import annotations

import pytest

from clew_gui.study.usage import energy, of_limit, share, usage_now, usage_results, usage_words
from clew_shared.journal.events import Pulse, Schema
from clew_shared.journal.history import History
from clew_shared.journal.pulse import PulseSummary
from tests.unit.runs import METRICS, points, pulse

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
