"""Files as users of such programs have them, kept in ``tests/inputs``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clew_agent.datasets.load import load
from clew_agent.datasets.search import Search
from clew_gui.schedulers.job import JobRef
from clew_gui.schedulers.registry import scheduler_of
from clew_gui.schedulers.state import Output, Phase
from clew_shared.base.problem import ProblemError
from tests.contract.joblab import JOB

INPUTS = Path(__file__).resolve().parents[2] / "inputs"


def test_images_of_16_bits_are_not_white() -> None:
    data = load(str(INPUTS / "16-bit"), Search())
    assert len(np.unique(data.train.x)) > 10
    assert "Scaled 12 images of more than 8 bits" in data.notes[0]


def test_postscript_that_is_called_an_image_is_refused_by_name() -> None:
    with pytest.raises(ProblemError, match=r"a\.png is not a usable data set: it is not a readable image"):
        load(str(INPUTS / "postscript"), Search())


def test_the_tables_of_three_spreadsheets_are_the_same() -> None:
    """As pandas writes it with its index, and as a German Excel does with its own separators."""
    tables = [load(str(INPUTS / name), Search()) for name in ("index-column.csv", "semicolon.csv", "decimal-comma.csv")]
    assert [len([note for note in data.notes if "No sample of class" not in note]) for data in tables] == [1, 1, 1]
    for other in tables[1:]:
        np.testing.assert_array_equal(other.train.x, tables[0].train.x)
        np.testing.assert_array_equal(other.test.y, tables[0].test.y)


def test_a_scheduler_of_tomorrow_and_its_gpus_are_understood_as_far_as_they_go() -> None:
    slurm = scheduler_of("slurm")
    state = slurm.states([JobRef("5", JOB)], Output(0, (INPUTS / "squeue.txt").read_text()))["5"]
    assert (state.phase, state.reason) == (Phase.PENDING, "ReservationDeleted")
    gpu, mig = slurm.partitions(Output(0, (INPUTS / "sinfo.txt").read_text()))
    assert (gpu.gpus, gpu.kinds, mig.gpus, mig.kinds) == (8, ("2080Ti",), 34, ("ampere", "1g.10gb"))
