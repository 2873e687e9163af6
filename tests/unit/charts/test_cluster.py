"""The Cluster tab's scene, from a simulated run whose answers are known."""

from __future__ import annotations

import re

import numpy as np
import pytest

from clew_gui.base.tokens import LIGHT
from clew_gui.charts.cluster import ClusterScene, Role, cluster_scene, config_parts, setup_of
from clew_gui.charts.kit.drawing import Drawing, Path, UsualSizes, Words
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.ticks import Span, XUnit
from clew_gui.charts.pulse import PulseChart, height_of, is_placed, places_of, pulse_rows, seconds_of
from clew_shared.journal.events import Attempt, Event, Peer, Schema, State
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.params import Value
from clew_shared.spec import RunSpec
from tests.simulated_cluster import SCHEMA, SimulatedCluster, as_updates
from tests.unit.runs import METRICS, points, pulse


def spec_of(**options: Value) -> RunSpec:
    return RunSpec(exercise="ps-lab", strategy="parameter-server", options=options)


def begun() -> History:
    history = History()
    feed(history, Attempt(format=1, run="r", attempt=1, exercise="ps-lab", spec_sha256="", steps=1000, host="node1"))
    feed(history, SCHEMA)
    feed(history, State(state=RunState.RUNNING))
    return history


def feed(history: History, *events: Event) -> None:
    for event in events:
        history.feed(1, event)


def scene_of(history: History, seen: Span | None = None, **options: Value) -> ClusterScene:
    return cluster_scene(history, spec_of(**options), None, history.fold.state, seen)


def role(scene: ClusterScene, name: str) -> Role:
    return next(one for one in scene.roles if one.name == name)


def slowed_and_killed() -> tuple[History, SimulatedCluster]:
    """Three workers; after 4 s the second is slowed five times, after 6 s the third killed, after 7 s started again."""
    history, cluster = begun(), SimulatedCluster(workers=3)
    feed(history, *cluster.join(), *cluster.train(4, 20), cluster.slow(1, 5.0), *cluster.train(2, 10))
    feed(history, cluster.kill(2), *cluster.train(1, 5))
    return history, cluster


def test_every_process_says_what_it_is_where_and_how_it_is() -> None:
    history, cluster = slowed_and_killed()
    scene = scene_of(history, workers=3)
    assert scene.caption == "asynchronous: 1 coordinator, 1 server, 3 workers on 4 nodes"
    assert [(one.name, one.host, one.state, one.alive) for one in scene.roles] == [
        ("Coordinator", "node1", "Working", True),
        ("Server 0", "node1", "Working", True),
        ("Worker 0", "node2", "Working", True),
        ("Worker 1", "node3", "Slowed ×5", True),
        ("Worker 2", "node4", "Killed", False),
    ]
    feed(history, cluster.replace(2), cluster.peer("worker", 3, "joined"))
    scene = scene_of(history, workers=3)
    assert role(scene, "Worker 2").state == role(scene, "Worker 3").state == "Working"
    feed(history, cluster.peer("worker", 1, "replaced", 5.0))
    assert role(scene_of(history), "Worker 1").state == "Slowed ×5", "a new process is as slow as the old one"
    feed(history, State(state=RunState.PAUSED))
    assert {one.state for one in scene_of(history).roles[1:]} == {"Paused"}
    feed(history, State(state=RunState.RUNNING), State(state=RunState.FINISHED))
    assert {one.state for one in scene_of(history).roles} == {"Ended"}


def test_processes_that_work_say_what_they_use_of_their_nodes() -> None:
    history, _ = slowed_and_killed()
    for process in ("trainer", "ps 0", "worker 2"):
        feed(history, pulse(10, process, "node1", cpu=[0.5, 0.95], memory=[1e9, 1.1e9]))
    scene = scene_of(history, workers=3)
    assert role(scene, "Coordinator").doing.endswith(", CPU 95 %, 1.1 GB")
    assert role(scene, "Server 0").doing.endswith(" gradients, CPU 95 %, 1.1 GB")
    assert "CPU" not in role(scene, "Worker 0").doing, "nothing is known of it"
    assert "CPU" not in role(scene, "Worker 2").doing, "it is dead"


def test_a_worker_slowed_five_times_computes_a_fifth_and_a_killed_one_nothing() -> None:
    history, _ = slowed_and_killed()
    rates = scene_of(history).rates
    assert rates is not None
    assert rates.title == "Images/s"
    for worker, (before, after) in {0: (1950, 1950), 1: (1950, 390), 2: (1950, 0)}.items():
        line = rates.lines[worker]
        assert float(np.median(line.y[line.x < 3.8])) == pytest.approx(before, rel=0.1)
        assert float(np.median(line.y[line.x > 6.3])) == pytest.approx(after, rel=0.1)


def test_the_timeline_follows_the_run_and_shows_what_happened() -> None:
    history, _ = slowed_and_killed()
    timeline = scene_of(history).timeline
    assert timeline.x.high >= 6.9
    assert timeline.x.size < 4
    assert [event.text for event in timeline.events] == ["worker 2 killed"]
    assert timeline.events[0].clock == pytest.approx(6.0, abs=0.1)
    killed = timeline.lanes[2]
    ((begin, until, text),) = killed.pauses
    assert (begin, until) == pytest.approx((6.0, 7.0), abs=0.1)
    assert re.fullmatch(r"no updates for (0\.9\d\d|1\.0\d) s", text)
    whole = scene_of(history, Span(0.0, 7.0)).timeline
    assert [event.text for event in whole.events] == ["worker 1 slowed ×5", "worker 2 killed"]
    slowed = whole.lanes[1]
    assert len(slowed.arrived) == len(slowed.starts) > 60
    assert float(np.median((slowed.ends - slowed.starts)[slowed.ends > 4.5])) == pytest.approx(0.25, rel=0.15)


def test_a_long_time_is_drawn_as_stretches_and_pauses() -> None:
    history, cluster = begun(), SimulatedCluster(workers=1, pace=0.001)
    feed(history, *cluster.train(1), cluster.kill(0), *cluster.train(1), cluster.replace(0), *cluster.train(1))
    (lane,) = scene_of(history, Span(0.0, 3.0), workers=1).timeline.lanes
    assert not len(lane.arrived)
    assert len(lane.starts) == 2
    assert np.allclose(lane.starts, [0.0, 2.0], atol=0.01)
    assert np.allclose(lane.ends, [1.0, 3.0], atol=0.01)


def test_the_histogram_has_all_gradients_and_what_was_dropped() -> None:
    history, cluster = begun(), SimulatedCluster(workers=4, bound=6)
    feed(history, *cluster.join(), *cluster.train(2, 10))
    before = scene_of(history, mode="bounded", late="drop", staleness=6).staleness
    feed(history, cluster.slow(1, 5.0), *cluster.train(8, 20))
    after = scene_of(history, mode="bounded", late="drop", staleness=6).staleness
    assert before is not None
    assert after is not None
    assert sum(bar.applied + bar.dropped for bar in after.bars) == pytest.approx(1.0)
    assert sum(bar.lately for bar in after.bars) == pytest.approx(1.0)
    assert {bar.low for bar in after.bars if bar.applied} <= set(range(7)), "nothing over the bound is applied"
    assert not any(bar.dropped for bar in before.bars)
    assert sum(bar.dropped for bar in after.bars[7:]) > 0.03
    assert after.bars[-1].words.startswith(f"Staleness {after.bars[-1].low} to {after.bars[-1].high}: 0.0 % applied")
    assert after.bound == 6
    sentence = scene_of(history, mode="bounded", late="drop", staleness=6).sentence
    assert "at most 5; the bound is 6." in sentence
    assert "came too late and were dropped" in sentence


def synchronous(history: History, steps: int) -> None:
    """Two workers whose gradients make one update."""
    count = 2 * steps
    raw = {
        "steps": np.repeat(np.arange(steps), 2).astype("<i8"),
        "workers": np.tile([0, 1], steps).astype("<i4"),
        "ended": (0.1 * (1 + np.repeat(np.arange(steps), 2))).astype("<f8"),
        "seconds": np.full(count, 0.1, "<f4"),
        "staleness": np.zeros(count, "<i4"),
        "accepted": np.ones(count, "<u1"),
    }
    feed(history, as_updates(raw))


def test_synchronous_workers_share_the_images_of_a_batch() -> None:
    history = begun()
    synchronous(history, 40)
    scene = scene_of(history, mode="sync")
    assert scene.rates is not None
    assert scene.rates.lines[0].y[5:-5] == pytest.approx(500.0), "half of 100 images every 0.1 s"
    assert scene.sentence == ("Every gradient was computed with the newest weights: all workers wait for each other.")
    assert scene.staleness is not None
    assert scene.staleness.bound is None


def test_a_run_without_updates_shows_who_is_asked_for() -> None:
    scene = scene_of(begun(), workers=3, servers=2)
    assert [one.state for one in scene.roles] == ["Working", *5 * ["Starts"]]
    assert scene.sentence == "No update has arrived yet."
    assert (scene.staleness, scene.rates) == (None, None)
    threads = scene_of(begun(), mode="lock-free", workers=3)
    assert threads.caption == "lock-free: 3 threads of one process"
    assert [one.name for one in threads.roles] == ["Coordinator", "Worker 0", "Worker 1", "Worker 2"]
    history = begun()
    feed(history, Peer(role="worker", index=1, host="", status="slowed", factor=2.0))
    slowed = scene_of(history, mode="lock-free", workers=3)
    assert [(one.host, one.state) for one in slowed.roles[1:]] == [
        ("node1", "Starts"),
        ("node1", "Slowed ×2"),
        ("node1", "Starts"),
    ]
    assert [log.text for log in history.logs] == ["Slowed worker 1: ×2."]
    assert setup_of(spec_of(mode="bounded", late="wait", staleness=4), None).words == "staleness at most 4 by waiting"


def test_the_cluster_is_told_as_the_slides_build_it() -> None:
    history, _ = slowed_and_killed()
    text = "\n".join(part.text for part in config_parts(history))
    assert 'worker_hosts = "10.0.0.2:40002,10.0.0.3:40003,10.0.0.4:40004"' in text
    assert '"task": {"type": "ps", "index": 0}}' in text
    assert text.count('"cluster": {"ps": ["10.0.0.1:40001"], "worker": ["10.0.0.2:40002", ') == 4
    assert config_parts(begun()) == ()


# --- The rows of what a run's machines do, on the x axis of its curves ------------------------------------------------

NAN = float("nan")


def history(**columns: list[float]) -> History:
    """Four steps that ended at 101 to 104, and samples from 100 on."""
    found = History()
    found.feed(1, Schema(id=1, metrics=METRICS))
    for step in range(4):
        found.feed(1, points(step, [1.0], time=101.0 + step))
    found.feed(1, pulse(100, "trainer", "node1", **columns))
    return found


def test_each_quantity_that_is_known_has_a_row() -> None:
    found = history(cpu=[NAN, 1.0], memory=[1e9, 2e9], memory_limit=[16e9, 16e9], read=[NAN, 10.0])
    rows = pulse_rows(found)
    assert [row.title for row in rows] == ["Processor", "Memory"], "ten bytes a second are not worth a row"
    assert rows[0].words(1.8) == "180 %"
    assert rows[1].words(2e9) == "2.0 of 16 GB"
    assert [tick.text for tick in rows[1].ticks(Span(0.0, 2.16e9), 2)] == ["0 GB", "2 GB"]


def test_gpus_have_lines_of_their_own_and_processes_are_added_up() -> None:
    found = history(cpu=[NAN, 1.0], gpu0_use=[0.5, 0.6], gpu1_use=[0.7, 0.8], read=[NAN, 5e6])
    found.feed(1, pulse(100, "worker 1", "node1", cpu=[NAN, 0.5]))
    rows = {row.title: row for row in pulse_rows(found)}
    assert [line.name for line in rows["GPU"].lines] == ["GPU 0", "GPU 1"]
    assert rows["Processor"].lines[0].y.tolist() == [1.5]
    assert [line.name for line in rows["Disk"].lines] == ["read"]


def test_a_sample_is_at_the_step_that_was_being_done() -> None:
    found = history(cpu=[NAN, 1.0])
    times = np.array([100.0, 101.0, 102.5, 104.0, 110.0])
    np.testing.assert_array_equal(places_of(found, XUnit.STEP, log=False)(times), [NAN, 1.0, 2.5, 4.0, NAN])
    np.testing.assert_allclose(places_of(found, XUnit.STEP, log=True)(times)[1:4], np.log10([1.0, 2.5, 4.0]))


def test_without_curves_samples_have_times_only() -> None:
    found = History()
    found.feed(1, pulse(100, cpu=[NAN, 1.0]))
    assert not is_placed(found, XUnit.STEP)
    assert seconds_of(found, np.array([103.0])).tolist() == [3.0]


def chart(found: History, height: float) -> PulseChart:
    place = places_of(found, XUnit.STEP, log=False)
    box = Box(0, 0, 600, height)
    return PulseChart(pulse_rows(found), place, Span(0.0, 4.0), (50.0, 400.0, 600.0), box, UsualSizes())


def test_the_chart_says_its_values() -> None:
    found = history(cpu=[NAN, 1.0, 1.5, 0.5, 0.25], memory=[1e9] * 5)
    drawn = chart(found, height_of(2, foot=False))
    assert drawn.description() == "Processor 25 %. Memory 1.0 GB"
    frame = drawn.frames[0]
    assert drawn.read(frame.column(2.0), frame.box.middle) == "Processor: 150 %"
    assert drawn.read(frame.box.right + 50, frame.box.middle) == ""
    drawing = Drawing(LIGHT, UsualSizes())
    drawn.draw(drawing)
    assert any(isinstance(item, Words) and item.text == "Processor" for item in drawing.items)


@pytest.mark.parametrize(("height", "rows"), [(30.0, 1), (90.0, 2), (400.0, 3)])
def test_where_there_is_little_room_the_first_rows_are_drawn(height: float, rows: int) -> None:
    found = history(cpu=[NAN, 1.0], memory=[1e9, 1e9], power=[40.0, 50.0])
    drawn = chart(found, height)
    assert len(drawn.frames) == rows
    assert all(frame.box.bottom <= max(height, 40.0) for frame in drawn.frames)


def test_of_many_samples_the_extremes_are_drawn() -> None:
    found = History()
    found.feed(1, Schema(id=1, metrics=METRICS))
    found.feed(1, points(0, [1.0], time=100.0))
    found.feed(1, points(1, [1.0], time=100.0 + 5000))
    use = [0.1] * 5000
    use[2500] = 2.0
    found.feed(1, pulse(100, cpu=use))
    drawing = Drawing(LIGHT, UsualSizes())
    drawn = chart(found, height_of(1, foot=False))
    drawn.draw(drawing)
    lines = [item for item in drawing.items if isinstance(item, Path) and len(item.y) > 100]
    assert lines or any(hasattr(item, "items") for item in drawing.items)
