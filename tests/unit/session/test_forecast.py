"""Forecasts: the memory of a run, from one that was set to the same but for its batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew_gui.commands.run.check import memory_lines
from clew_gui.jobs.job import JobOrder
from clew_gui.jobs.job_book import job_book
from clew_gui.session.forecast import Earlier, memory_needed, memory_words
from clew_shared.base.places import Places
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.journal.events import Attempt, Schema, State
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.params import Value
from clew_shared.spec import RunSpec
from tests.unit.runs import METRICS, RUN, pulse, small_run

GB = 1e9
CARD = find_card(load_builtin().exercises, "cnn")


def spec(batch: int = 100, data: str = "mnist", **params: Value) -> RunSpec:
    return RunSpec(exercise="cnn", data=data, params={"batch_size": batch, **params})


def ran(
    used: dict[str, float], state: RunState = RunState.FINISHED, replicas: int = 1, image_bytes: int = 1_000_000
) -> History:
    """A run with batches of 100 that used this much at most."""
    history = History()
    columns = {name: [value / 2, value] for name, value in used.items()}
    schema = Schema(id=1, metrics=METRICS, batch_size=100, image_bytes=image_bytes, replicas=replicas)
    for event in (
        Attempt(format=1, run=RUN, attempt=1, exercise="cnn", spec_sha256=""),
        schema,
        pulse(10.0, "trainer", "node1", **columns),
        State(state=state),
    ):
        history.feed(1, event)
    return history


def test_each_image_more_takes_what_was_counted_above_what_was_measured() -> None:
    before = [Earlier(spec(), ran({"memory": 1.5 * GB, "memory_limit": 8 * GB}))]
    need = memory_needed([spec(1100, learning_rate=0.1, steps=7)], CARD, before)
    assert need is not None
    assert need.needed == pytest.approx(2.5 * GB)
    assert not need.too_much
    assert not need.on_gpu
    assert memory_words(need) == "1,100 samples at once need about 2.5 of 8.0 GB of memory."
    little = memory_needed([spec(110)], CARD, before)
    assert little is not None
    assert memory_words(little) == "", "1.5 of 8 GB are no news"
    large = memory_needed([spec(10), spec(9000), spec(20)], CARD, before)
    assert large is not None
    assert large.too_much
    assert memory_words(large) == (
        "9,000 samples at once need about 10 GB of memory; this computer has 8.0 GB. A smaller batch needs less."
    )


def test_where_there_are_gpus_their_memory_counts_and_each_has_its_share() -> None:
    used = {"memory": 2 * GB, "gpu0_memory": 4 * GB, "gpu0_memory_limit": 16 * GB}
    need = memory_needed([spec(4100)], CARD, [Earlier(spec(), ran(used, replicas=4))])
    assert need is not None
    assert memory_words(need) == "4,100 samples at once need about 5.0 of 16 GB of GPU memory."


def test_a_command_says_it_of_the_finished_runs_here(tmp_path: Path) -> None:
    places, card = Places(tmp_path, tmp_path / "private"), find_card(load_builtin().exercises, "softmax")
    asked = RunSpec(exercise="softmax", params={"batch_size": 4100, "learning_rate": 0.5})
    assert memory_lines(places, asked, card) == []
    counted = Schema(id=1, metrics=METRICS, batch_size=100, image_bytes=1_000_000)
    small_run(places.runs / RUN, [counted, pulse(10.0, memory=[GB])])
    assert memory_lines(places, asked, card) == ["4,100 samples at once need about 5.0 GB of memory."]
    assert memory_lines(places, asked, card, "lab") == [], "another place has another memory"
    small_run(places.mirrors / RUN, [counted, pulse(10.0, memory=[2 * GB], memory_limit=[4 * GB])])
    job_book(places).note_order(JobOrder(job="j", site="lab", runs=(RunSpec(exercise="softmax", run=RUN),)))
    there = "4,100 samples at once need about 6.0 GB of memory; a node of lab has 4.0 GB. A smaller batch needs less."
    assert memory_lines(places, asked, card, "lab") == [there]


@pytest.mark.parametrize(
    "other",
    [
        Earlier(spec(batch_norm=True), ran({"memory": GB})),
        Earlier(spec(data="cifar10"), ran({"memory": GB})),
        Earlier(spec(), ran({"memory": GB}, RunState.FAILED)),
        Earlier(spec(), ran({"memory": GB}, image_bytes=0)),
        Earlier(spec(), ran({"threads": 3.0})),
    ],
    ids=["another network", "other images", "killed", "not counted", "memory not known"],
)
def test_nothing_is_said_where_it_is_not_known(other: Earlier) -> None:
    assert memory_needed([spec(200)], CARD, [other]) is None
    known = Earlier(spec(), ran({"memory": GB}))
    assert (memory_needed([spec(200)], CARD, [other, known]) is None) == (other.history.pulse_summary().memory is None)
