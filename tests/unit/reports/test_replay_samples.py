"""A replay shows what the machine did at the moments at which it shows the steps."""

from __future__ import annotations

from pathlib import Path

from clew_gui.reports.replay_writer import Replay
from clew_shared.reading import read_run
from tests.unit.runs import pulse, small_run


def test_samples_are_as_far_from_the_steps_as_they_were(tmp_path: Path) -> None:
    used = pulse(1_700_000_001.0, cpu=[1.5] * 3)
    source = small_run(tmp_path / "run", [used]).path
    before = read_run(source)
    replay = Replay(source, tmp_path / "runs")
    replay.advance(replay.seconds, 1_800_000_000.0)
    after = read_run(replay.folder.path)
    assert after.pulse.processes["trainer"].times[-1] == 1_800_000_000.0
    spans = [one.pulse.processes["trainer"].times[-1] - one.wall("loss")[-1] for one in (before, after)]
    assert spans == [0.0, 0.0]
