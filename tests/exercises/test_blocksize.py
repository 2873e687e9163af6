"""How block sizes follow the pace."""

from __future__ import annotations

import pytest

from clew_agent.engine.blocks import BlockSizer


def durations(pace: list[float], overhead: float = 0.0003, capacity: int = 32768) -> list[tuple[int, float]]:
    """(steps, seconds) of the blocks of a machine whose steps take ``pace[block]`` seconds each."""
    sizer, blocks = BlockSizer(capacity), []
    for step_s in pace:
        count = sizer.next(room=10_000_000)
        blocks.append((count, overhead + count * step_s))
        sizer.record(*blocks[-1])
    return blocks


@pytest.mark.parametrize("step_s", [5e-6, 1.5e-4, 1e-3, 0.0099, 0.033, 0.045])
def test_blocks_start_with_one_step_and_reach_50_to_100_ms(step_s: float) -> None:
    blocks = durations([step_s] * 8)
    assert blocks[0][0] == 1
    assert all(seconds <= 0.1 for _, seconds in blocks)
    assert all(0.04 <= seconds <= 0.1 for _, seconds in blocks[3:])


def test_a_step_longer_than_the_limit_is_a_block_of_its_own() -> None:
    assert [count for count, _ in durations([0.7] * 4)] == [1, 1, 1, 1]


def test_capacity_and_room_bound_a_block() -> None:
    assert [count for count, _ in durations([2e-7] * 4, capacity=500)] == [1, 316, 500, 500]
    assert BlockSizer(100).next(room=0) == 0


def test_one_slow_block_makes_the_next_shorter_and_is_forgotten() -> None:
    counts = [count for count, _ in durations([0.001, 0.001, 0.001, 0.02, 0.001, 0.001, 0.001])]
    assert counts[4] < counts[3] / 10
    assert counts[-1] > 0.9 * counts[3]


@pytest.mark.parametrize(("count", "seconds", "first"), [(64, 0.0005, 1280), (8, 0.002, 40), (1, 0.03, 1)])
def test_the_first_block_lasts_10_ms_at_the_pace_of_the_warm_up(count: int, seconds: float, first: int) -> None:
    sizer = BlockSizer(32768)
    sizer.expect(count, seconds)
    assert sizer.next(room=10_000) == first
    assert sizer.next(room=3) == min(3, first)
