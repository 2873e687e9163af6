"""What an earlier version wrote opens, verifies, exports and continues as it did. ``older_home`` was written by Clew
before its files and classes had the names that they have now."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from clew_gui.jobs.job_book import job_book
from clew_gui.sites.store import site_store
from clew_shared.base.places import find_places
from tests.integration.commands.test_clew_command import clew

OLDER = Path(__file__).with_name("older_home")
CURVES = Path(__file__).with_name("older_softmax.csv")
RUN = "3583b308-3c83-4391-85ab-d6de611349eb"
MIRROR = "afbcae5a-546b-4bdf-b86f-c1bc18f9d1e8"
STOPPED_AT = 1597


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(OLDER, tmp_path / "home")
    monkeypatch.setenv("CLEW_HOME", str(tmp_path / "home"))


def rows(path: Path) -> list[tuple[str, ...]]:
    with path.open(newline="") as file:
        return [tuple(row) for row in csv.reader(file)]


def test_a_run_and_a_mirror_of_an_earlier_version_are_listed_and_verified() -> None:
    listed = json.loads(clew("runs", "--json").stdout)
    assert {(run["run"], run["state"], run["steps"]) for run in listed} == {
        (RUN, "STOPPED", STOPPED_AT),
        (MIRROR, "FINISHED", 40),
    }
    for run in (RUN, MIRROR):
        done = clew("verify", run)
        assert done.returncode == 0, done.stderr
        assert "as it was written" in done.stdout


def test_its_curves_are_exported_as_they_were(tmp_path: Path) -> None:
    assert clew("export", RUN, "--csv", tmp_path / "out").returncode == 0
    (written,) = (tmp_path / "out").iterdir()
    assert written.read_bytes() == CURVES.read_bytes()


def test_it_goes_on_from_its_checkpoint_as_one_curve(tmp_path: Path) -> None:
    done = clew("resume", RUN)
    assert done.returncode == 0, done.stderr
    assert clew("verify", RUN).returncode == 0
    assert clew("export", RUN, "--csv", tmp_path / "out").returncode == 0
    written, samples = sorted((tmp_path / "out").iterdir(), key=lambda path: len(path.name))
    assert samples.name.endswith("-pulse.csv"), "what the continued run used of this machine"
    whole = rows(written)
    losses = [int(row[1]) for row in whole if row[2] == "loss"]
    assert losses == list(range(3000))
    assert [row for row in whole if row[2] == "loss"][:STOPPED_AT] == [row for row in rows(CURVES) if row[2] == "loss"]


def test_its_sites_and_jobs_are_known() -> None:
    places = find_places()
    site = site_store(places).load("uni")
    asked = site.allocation
    assert (site.host, site.scheduler, asked.partition, asked.time) == ("login", "slurm", "debug", "10")
    book = job_book(places)
    assert [book.order(job).site for job in book.jobs()] == ["minicluster", "minicluster"]
    listed = json.loads(clew("jobs", "--last-heard", "--json").stdout)
    assert [(job["id"], job["runs"]) for job in listed] == [("1", [MIRROR]), ("2", [])]
