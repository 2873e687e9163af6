"""Speed-up, efficiency, fits and forecast, on measurements whose answers are known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from clew_gui.study.scaling import (
    JURECA,
    Estimate,
    NetworkSpeed,
    RunTiming,
    Scaling,
    allreduce_seconds,
    as_table,
    conclude,
    figures,
    fit_amdahl,
    fit_gustafson,
    forecast,
    forecast_basis,
    forecast_of,
    measure,
    network_between,
    overlaps,
    ratio_interval,
    shared_cores,
    step_shares,
    t95,
    time_run,
)
from clew_shared.cards import MetricSpec
from clew_shared.journal.events import Attempt, Points, Schema
from clew_shared.journal.history import History, StepBlock

LOSS = (MetricSpec(name="loss", label="Loss"),)


def history(blocks: Sequence[tuple[int, float]], batch_size: int = 10) -> History:
    """A run with these (steps, seconds)."""
    found = History()
    found.feed(1, Attempt(format=1, run="r", attempt=1, exercise="softmax", spec_sha256=""))
    found.feed(1, Schema(id=1, metrics=LOSS, batch_size=batch_size))
    feed(found, 1, blocks)
    return found


def feed(found: History, attempt: int, blocks: Sequence[tuple[int, float]], first: int = 0) -> None:
    for count, seconds in blocks:
        values = (np.zeros(count, "<f4").tobytes(),)
        found.feed(attempt, Points(schema=1, first=first, count=count, seconds=seconds, clock=0.0, values=values))
        first += count


def runs(replicas: int, *rates: float) -> list[RunTiming]:
    """Repeats of one block each with these images/s."""
    return [RunTiming(replicas, 100, (1000.0,), (1000.0 / rate,)) for rate in rates]


# --- Measuring --------------------------------------------------------------------------------------------------------


def test_the_warm_up_is_dropped_also_in_the_middle_of_a_block() -> None:
    timing = time_run(history([(4, 8.0), (10, 1.0), (10, 1.2)]), 2, warm_up=9)
    assert timing is not None
    assert timing.images == (50.0, 100.0)
    assert timing.seconds == (0.5, 1.2)
    assert timing.rate == pytest.approx(150 / 1.7)
    assert time_run(history([(4, 8.0)]), 1, warm_up=4) is None
    assert time_run(History(), 1, warm_up=0) is None


def test_steps_that_a_later_attempt_did_again_are_counted_once() -> None:
    run = history([(10, 1.0), (10, 1.0)])
    again = Attempt(format=1, run="r", attempt=2, exercise="softmax", spec_sha256="", start_step=5, resumes=1)
    run.feed(2, again)
    run.feed(2, Schema(id=1, metrics=LOSS, batch_size=10))
    feed(run, 2, [(15, 3.0)], first=5)
    assert run.blocks() == [StepBlock(0, 5, 0.5), StepBlock(5, 15, 3.0)]


def test_repeats_give_a_mean_and_its_interval() -> None:
    (row,) = measure(runs(1, 98, 100, 102)).rows
    assert (row.replicas, row.repeats, row.over) == (1, 3, "repeats")
    assert row.rate.value == pytest.approx(100)
    assert row.median == pytest.approx(100)
    assert row.rate.interval == pytest.approx(
        (100 - 4.303 * 2 / math.sqrt(3), 100 + 4.303 * 2 / math.sqrt(3)), rel=1e-6
    )
    assert row.step_seconds == pytest.approx(1.0)


def test_a_single_run_is_judged_by_its_blocks_and_one_block_by_nothing() -> None:
    (row,) = measure([RunTiming(1, 10, (100.0, 100.0, 300.0), (1.0, 1.1, 3.0))]).rows
    assert row.over == "blocks"
    assert row.rate.value == pytest.approx(500 / 5.1)
    assert row.rate.interval is not None
    assert row.rate.interval.low < 500 / 5.1 < row.rate.interval.high
    (bare,) = measure(runs(1, 100)).rows
    assert bare.rate.interval is None


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    dice = np.random.default_rng(7)
    hits = 0
    for _ in range(1000):
        first, second = dice.normal(100, 3, 4), dice.normal(180, 9, 4)
        _, row = measure([*runs(1, *first), *runs(2, *second)]).rows
        assert row.speedup_interval is not None
        hits += row.speedup_interval.low <= 1.8 <= row.speedup_interval.high
    assert 930 <= hits <= 985


def test_repeats_that_differ_too_much_have_no_interval_and_that_is_said() -> None:
    table = measure([*runs(1, 10, 90), *runs(2, 100, 900)])
    assert [row.rate.interval for row in table.rows] == [None, None]
    assert (table.rows[1].speedup_interval, table.rows[1].efficiency_interval) == (None, None)
    assert (table.rows[0].noisy, table.rows[1].noisy, table.rows[1].rate.noisy) == (False, True, True)
    assert conclude(table).sentence == (
        "Two devices train 10.0 times as fast as one; the measurements differ too much to say how sure that is."
    )


def test_speed_up_and_efficiency_are_against_the_fewest_devices() -> None:
    table = measure([*runs(2, 200, 200), *runs(8, 600, 600)])
    assert [row.speedup for row in table.rows] == pytest.approx([1.0, 3.0])
    assert [row.efficiency for row in table.rows] == pytest.approx([1.0, 0.75])
    assert table.rows[1].efficiency_interval == pytest.approx((0.75, 0.75))
    assert measure([None]).rows == ()


def test_weak_scaling_leaves_out_what_had_another_batch_on_each_device() -> None:
    timings = [RunTiming(n, size, (1000.0,), (1000.0 / n,)) for n, size in ((4, 100), (1, 20_000), (2, 40_000))]
    assert [row.replicas for row in measure(timings, weak=True).rows] == [1, 2]
    assert [row.replicas for row in measure(timings).rows] == [1, 2, 4]


def test_quantiles_and_ratios() -> None:
    assert [t95(1), t95(30.9)] == [12.706, 2.042]
    assert [t95(n) for n in (31, 40, 60, 120, 1e9)] == pytest.approx([2.0395, 2.0211, 2.0003, 1.9799, 1.96], abs=2e-4)
    assert ratio_interval(Estimate(2.0), Estimate(1.0, 0.1, 3)) is None
    same = ratio_interval(Estimate(2.0, 0.0, 2), Estimate(1.0, 0.0, 2))
    assert same == (2.0, 2.0)


# --- Fits and forecast ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("serial", [0.0, 0.05, 0.4])
def test_the_serial_share_is_found_again(serial: float) -> None:
    counts = (2, 4, 8, 64)
    amdahl = fit_amdahl([(n, 1 / (serial + (1 - serial) / n)) for n in counts])
    gustafson = fit_gustafson([(n, n - serial * (n - 1)) for n in counts])
    assert amdahl is not None
    assert gustafson is not None
    assert (amdahl.serial, gustafson.serial) == pytest.approx((serial, serial))
    assert amdahl.limit == pytest.approx(1 / serial if serial else math.inf)
    assert amdahl.error == pytest.approx(0, abs=1e-12)
    assert gustafson.speedup(16) == pytest.approx(16 - 15 * serial)


def test_a_fit_never_leaves_the_law() -> None:
    faster, slower = fit_amdahl([(2, 2.5)]), fit_amdahl([(2, 0.5)])
    assert faster is not None
    assert slower is not None
    assert (faster.serial, slower.serial) == (0.0, 1.0)
    assert slower.error == pytest.approx(1.0)
    assert fit_amdahl([]) is None
    assert fit_gustafson([]) is None


def test_the_slides_table_is_that_of_the_course() -> None:
    assert JURECA.speedup(128) == pytest.approx(101.1, abs=0.05)
    assert JURECA.speedup(2) is None


def test_the_forecast_is_the_share_of_the_work_and_the_ring() -> None:
    network = NetworkSpeed(bandwidth=1e9, latency=1e-4)
    assert allreduce_seconds(4, 1e8, network) == pytest.approx(6 / 4 * 0.1 + 6e-4)
    assert allreduce_seconds(1, 1e8, network) == 0
    two, four = forecast(0.4, 100, 1e8, network, counts=(2, 4))
    assert two.step_seconds == pytest.approx(0.2 + 0.1 + 2e-4)
    assert four.reduce_seconds == pytest.approx(0.1506)
    assert four.rate == pytest.approx(100 / 0.2506)
    assert four.speedup == pytest.approx(0.4 / 0.2506)
    (weak,) = forecast(0.4, 100, 1e8, network, counts=(4,), weak=True)
    assert weak.rate == pytest.approx(400 / 0.5506)
    assert weak.efficiency == pytest.approx(0.4 / 0.5506)


# --- Words ------------------------------------------------------------------------------------------------------------


def amdahl_table(serial: float, counts: Sequence[int] = (1, 2, 4, 8), weak: bool = False) -> Scaling:
    found = []
    for n in counts:
        rate = 312 / (serial + (1 - serial) / n)
        found += runs(n, rate * 0.99, rate, rate * 1.01)
    return measure(found, weak=weak)


def test_gpus_in_one_sentence() -> None:
    said = conclude(amdahl_table(0.046), gpus=True, reference=JURECA)
    assert said.sentence == "8 GPUs train 6.1 times as fast as one, between 5.9 and 6.2."
    assert said.detail == (
        "About 4.6 % of each step does not get faster, so by this fit no number of GPUs would exceed 22×. "
        "Jülich's table (JURECA, Simple Image Benchmark) has 6.5; the difference is larger than the noise."
    )


def test_devices_that_share_cores_are_not_expected_to_be_faster() -> None:
    table = measure([*runs(1, 100, 102), *runs(2, 90, 93)])
    said = conclude(table, cores=2)
    assert said.sentence == "Two devices share two cores here: no speed-up is to be expected."
    assert said.detail.startswith(
        "Two devices train no faster than one: the difference is smaller than the noise (0.91"
    )
    assert shared_cores(4, 16).endswith("little speed-up is to be expected.")
    assert shared_cores(2, 1) == "Two devices share one core here: no speed-up is to be expected."
    assert (shared_cores(1, 2), shared_cores(2, 0)) == ("", "")


def test_a_slow_down_is_said_and_gets_no_law() -> None:
    said = conclude(measure([*runs(1, 100, 100.1, 100.2), *runs(2, 50, 50.1, 50.2)]), gpus=True)
    assert said.sentence == "2 GPUs train 0.50 times as fast as one."
    assert said.detail == ""


def test_where_the_difference_is_noise_no_law_is_named() -> None:
    said = conclude(measure([*runs(2, 100, 102), *runs(4, 100, 103)]), gpus=True)
    assert said.sentence.startswith("4 GPUs train no faster than 2 GPUs: the difference is smaller than the noise (1.0")
    assert said.detail == ""
    assert (
        conclude(measure([*runs(2, 100), *runs(4, 200)])).sentence
        == "Four devices train 2.0 times as fast as two devices."
    )


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ((100, 100, 100), "About 100 % of each step does not get faster"),
        ((100, 200, 400), "Every part of a step seems to get faster with more devices."),
        ((100, 180), "no number of devices would exceed 9.0×."),
    ],
)
def test_the_law_is_put_into_words(rates: Sequence[float], words: str) -> None:
    assert words in conclude(measure([one for k, rate in enumerate(rates) for one in runs(2**k, rate)])).detail


def test_one_row_or_none() -> None:
    assert conclude(measure([])).sentence == "Nothing has been measured yet."
    said = conclude(measure(runs(1, 312, 313)))
    assert said.sentence.startswith("One device trains 312 images/s, between ")
    assert said.detail == "Measure at least two numbers of devices to see a speed-up."


def test_weak_scaling_is_judged_by_gustafson() -> None:
    rates = {n: 100 * (n - 0.1 * (n - 1)) for n in (1, 2, 4)}
    rows = [RunTiming(n, 100 * n, (1000.0,), (1000.0 / rate,)) for n, rate in rates.items() for _ in range(2)]
    said = conclude(measure(rows, weak=True), gpus=True)
    assert said.sentence == "4 GPUs train 3.7 times as fast as one."
    assert said.detail == "About 10 % of the work does not grow with the GPUs (Gustafson's law)."


def test_figures_have_no_power_of_ten() -> None:
    assert [figures(v) for v in (312.4, 1893.0, 0.04721, 12.0, 0.0, math.inf)] == [
        "312",
        "1,890",
        "0.0472",
        "12.0",
        "0",
        "∞",
    ]
    assert [figures(v, 2) for v in (4.6, 9.96, 9.9999, 100.0, 0.0996)] == ["4.6", "10", "10", "100", "0.10"]


def test_the_table_for_programs() -> None:
    one, two = as_table(measure([*runs(1, 100, 100), *runs(2, 160, 160)]), steps=50)
    assert one["seconds"] == pytest.approx(50.0)
    assert two["efficiency"] == pytest.approx(0.8)
    assert (two["devices"], two["interval_over"]) == (2, "repeats")


def test_a_forecast_is_made_from_one_and_two_devices_and_says_where_the_time_goes() -> None:
    """Steps of 100 images: 1 s of work divided by the devices, and 0.1 s for 5 MB between two of them."""
    network = NetworkSpeed(5e7)
    seconds = {n: 1.0 / n + allreduce_seconds(n, 5e6, network) for n in (1, 2, 8)}
    table = measure([RunTiming(n, 100, (100.0,), (seconds[n],), 5_000_000 * (n > 1)) for n in (1, 2, 8)])
    assert network_between(table.rows[0], table.rows[1]) == pytest.approx(network)
    found = forecast_of(table, (8,))
    assert found[0].step_seconds == pytest.approx(seconds[8])
    said = conclude(table, gpus=True)
    assert "On 8 GPUs the reduction of 5.0 MB takes about 58 % of a step." in said.detail
    assert forecast_of(measure([*runs(1, 100), *runs(2, 250)])) == ()
    assert forecast_of(measure(runs(1, 100))) == ()


def test_a_measured_all_reduce_makes_the_forecast_and_the_shares_of_a_step() -> None:
    """One device takes 1 s for a step; four take 0.4 s, of which 8 ms for the input and 0.14 s to reduce 5 MB."""
    one, four = (
        RunTiming(1, 100, (100.0,), (1.0,), 0, 0.01),
        RunTiming(4, 100, (100.0,), (0.4,), 5_000_000, 0.008, 0.14),
    )
    table = measure([one, four])
    (eight,) = forecast_of(table, (8,))
    assert eight.reduce_seconds == pytest.approx(0.14 * (14 / 8) / (6 / 4))
    assert eight.step_seconds == pytest.approx(1.0 / 8 + eight.reduce_seconds)
    assert step_shares(table.rows[1]) == pytest.approx((0.02, 0.63, 0.35))
    assert forecast_basis(table) == "the step of 1 device and the all-reduce of 4, if nothing overlaps"
    assert (
        "On 4 GPUs a step is 2 % input, 63 % computing and 35 % reduction of 5.0 MB, if nothing overlaps."
        in conclude(table, gpus=True).detail
    )
    alone = measure([one, one._replace(replicas=2, input_seconds=0.2, seconds=(0.5,))])
    assert "two devices a step is 40 % input, 60 % computing." in conclude(alone, cores=2).detail
    assert step_shares(measure([one._replace(input_seconds=0.0)]).rows[0]) is None


def test_where_a_reduction_is_hidden_behind_computing_no_shares_and_no_forecast_are_made_up() -> None:
    """Two devices are twice as fast although the all-reduce alone would take 0.3 s of the 0.5 s."""
    one, two = RunTiming(1, 100, (100.0,), (1.0,)), RunTiming(2, 100, (100.0,), (0.5,), 5_000_000, 0.008, 0.3)
    table = measure([one, two])
    assert overlaps(table)
    assert forecast_of(table) == ()
    for said in (conclude(table, gpus=True), conclude(table, cores=2)):
        assert "The reduction is hidden behind the computing" in said.detail
        assert "input" not in said.detail
    slower = measure([one, two._replace(seconds=(0.79,))])
    assert not overlaps(slower)
    assert "hidden" not in conclude(slower, gpus=True).detail


def test_a_forecast_that_a_measured_row_disagrees_with_is_not_shown() -> None:
    one, two = RunTiming(1, 100, (100.0,), (1.0,)), RunTiming(2, 100, (100.0,), (0.6,), 5_000_000)
    assert forecast_basis(measure([one, two])) == "the steps of 1 and 2 devices, if nothing overlaps"
    assert [round(row.speedup, 1) for row in forecast_of(measure([one, two]), (4,))] == [2.5]
    slower = RunTiming(4, 100, (100.0,), (0.7,), 5_000_000)
    assert forecast_of(measure([one, two, slower]), (8,)) == ()


def test_more_than_n_times_as_fast_on_n_devices_is_to_be_explained() -> None:
    said = conclude(measure([*runs(1, 100, 101, 99), *runs(2, 240, 241, 239)]), gpus=True)
    assert "More than 2 times as fast on 2 times as many GPUs needs an explanation" in said.detail
    assert "cache" in said.detail
    assert "warm-up" in said.detail
    assert "explanation" not in conclude(measure([*runs(1, 100, 101, 99), *runs(2, 200, 203, 197)])).detail
