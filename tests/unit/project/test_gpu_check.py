"""What ``make gpu-check`` tries on which machine, and what it writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from clew_agent.node.devices import Devices, Gpu
from tests.gpu_check import check


@pytest.mark.parametrize(("gpus", "devices"), [(1, "1"), (3, "2"), (4, "4")])
def test_every_way_is_tried_and_one_failure_is_the_status(gpus: int, devices: str, tmp_path: Path) -> None:
    called: list[Sequence[str]] = []

    def call(words: Sequence[str]) -> tuple[int, str]:
        called.append(words)
        return int("--precision" in words), "Finished: 500 steps\n"

    log = tmp_path / "gpu-check.log"
    found = Devices(tuple(Gpu(str(number), f"NVIDIA H100 ({number})") for number in range(gpus)))
    assert check(found, log, call) == 1
    measured = ["pipeline", "bandwidth", "cnn"]
    assert [words[1] for words in called] == ["softmax"] * 4 + ["model-parallel"] * 2 + ["ps-lab"] * 2 + measured
    assert ["--trace" in words for words in called[:4]] == [False, True, True, False]
    assert called[2][-1] == devices
    assert [words[-1] for words in called[4:6]] == ["tiny" if devices == "1" else devices, "hybrid"]
    text = log.read_text()
    assert "NVIDIA H100 (0)" in text.splitlines()[0]
    assert (text.count("exit status 0"), text.count("exit status 1")) == (10, 1)


def test_without_a_gpu_nothing_is_tried_and_nothing_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def call(words: Sequence[str]) -> tuple[int, str]:
        raise AssertionError(words)

    assert check(Devices(), tmp_path / "gpu-check.log", call) == 0
    assert "There is no GPU here" in capsys.readouterr().out
    assert not (tmp_path / "gpu-check.log").exists()
