"""Which scheduler a site has, looked for by real shells on a site that is this computer; and ``clew site add``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from clew_gui.commands.main import main
from clew_gui.schedulers.state import Output
from clew_gui.sites.scheduler_search import look_for_scheduler
from clew_gui.sites.site import Site
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.sites.store import site_store
from clew_shared.base.places import find_places
from clew_shared.base.problem import ProblemError
from tests.integration.local_line import local_line

TOOLS = ("sh", "bash", "env", "head", "mktemp", "cat", "grep", "rm", "ls")
"""What every computer has; nothing else of this one is on the path there."""


class Host:
    """A login node. ``has`` puts programs on the path that every command has, or on one that a login shell adds."""

    def __init__(self, folder: Path) -> None:
        self.home, self._folder = folder / "home", folder
        self.home.mkdir()
        for name in ("usual", "profile", "module"):
            (folder / name).mkdir()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found is not None
            (folder / "usual" / tool).symlink_to(found)
        (self.home / ".bash_profile").write_text(
            f"echo 'Welcome to the cluster'\nPATH={folder}/usual:{folder}/profile\n"
            f"module() {{ [ \"$2\" = slurm ] && PATH=$PATH:{folder}/module || echo 'ERROR: no such module'; }}\n"
        )

    def has(self, *names: str, where: str = "usual", says: str = "") -> None:
        for name in names:
            path = self._folder / where / name
            path.write_text(f"#!/bin/sh\necho '{says or name}'\n")
            path.chmod(0o755)

    def line(self, site: Site) -> SiteConnection:
        line, _ = local_line(self.home, site, PATH=str(self._folder / "usual"))
        return line

    def look(self, *modules: str) -> tuple[str, str, bool]:
        """The scheduler, its command, and whether it is OpenPBS."""
        found = look_for_scheduler(self.line(Site(host="login", modules=modules)))
        assert found.path.endswith(f"/{found.command}")
        return found.scheduler, found.command, found.select


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(ProblemError) as caught:
        call()
    assert [one.code for one in caught.value.problems] == ["scheduler.absent"]
    return caught.value.problems[0].text


def test_the_most_specific_scheduler_is_taken(host: Host) -> None:
    """Slurm has a qsub of its own, and mnsubmit stands before a Slurm."""
    host.has("qsub", says="Version: 6.1.2")
    assert host.look() == ("pbs", "qsub", False)
    host.has("sbatch")
    assert host.look() == ("slurm", "sbatch", False)
    host.has("mnsubmit")
    assert host.look() == ("mnsubmit", "mnsubmit", False)


def test_openpbs_is_asked_in_its_own_form(host: Host) -> None:
    host.has("qsub", says="pbs_version = 23.06.06")
    assert host.look() == ("pbs", "qsub", True)


def test_where_there_is_none_runs_would_train_on_the_login_node(host: Host) -> None:
    assert refusal(host.look).startswith("login has no scheduler: no mnsubmit, sbatch, qsub. Runs would train on")
    host.has("bsub")
    assert refusal(host.look).startswith("login has LSF, which Clew cannot use. Runs would train on that host itself")
    host.has("qsub", "qconf")
    assert refusal(host.look).startswith("login has Grid Engine, which Clew cannot use.")


def test_what_only_a_login_shell_or_a_module_brings_is_found_and_jobs_are_sent_with_it(host: Host) -> None:
    """Commands over SSH have no login shell."""
    host.has("sbatch", where="module", says="7")
    refusal(host.look)
    refusal(lambda: host.look("nosuch"))
    line = host.line(Site(host="login", scheduler="slurm", modules=("slurm",)))
    assert look_for_scheduler(line).command == "sbatch"
    host.has("squeue", where="profile", says="from the profile")
    line = host.line(Site(host="login", scheduler="slurm", modules=("slurm",)))
    assert line.run(("sh", "-c", "exec sbatch job.sh")) == Output(0, "7\n", "")
    assert line.run(("squeue",)) == Output(0, "from the profile\n", "")
    assert [word for word in line.command(("srun", "x")) if word.startswith("PATH=")]
    assert line.run(("no-such-program",)).code == 127


# --- clew site add ----------------------------------------------------------------------------------------------------


@pytest.fixture
def add(
    host: Host, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """``clew site add``: its status and what it printed."""
    monkeypatch.setattr("clew_gui.commands.sites.doctor.open_connection", lambda _name, site, *_: host.line(site))

    def call(*words: str) -> tuple[int, str, str]:
        status = main(["site", "add", *words])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def test_a_site_is_made_with_the_scheduler_that_was_found(host: Host, add: Callable[..., tuple[int, str, str]]) -> None:
    host.has("sbatch")
    status, out, err = add("hpc", "--host", "login", "--partition", "gpu")
    assert (status, err) == (0, "Looking for the scheduler on login …\n")
    assert out.startswith("Found Slurm (sbatch): jobs will go to its queue.\nThe site hpc is kept in ")
    assert "  login, Slurm: 1 node, 1 hour, partition gpu\n" in out
    status, out, _ = add("other", "--host", "login", "--time", "", "--json")
    found = json.loads(out)
    assert (found["scheduler_found"]["scheduler"], found["scheduler_found"]["command"]) == ("slurm", "sbatch")
    assert found["site"] == {"format": 1, "host": "login", "scheduler": "slurm"}


def test_training_on_a_login_node_has_to_be_said_out_loud(host: Host, add: Callable[..., tuple[int, str, str]]) -> None:
    status, out, err = add("hpc", "--host", "login")
    assert (status, out) == (2, "")
    assert "If that is what you want, give --scheduler none." in err
    assert site_store(find_places()).names() == ("local",)
    for name, words in {"none": ["--scheduler", "none"], "preset": ["--preset", "ssh"]}.items():
        status, _, err = add(name, "--host", "login", *words)
        assert (status, err) == (0, ""), "nobody logs in"
    assert [site_store(find_places()).load(name).scheduler for name in ("none", "preset")] == ["none", "none"]


def test_a_name_that_is_taken_is_refused_before_anybody_logs_in(
    host: Host, add: Callable[..., tuple[int, str, str]]
) -> None:
    host.has("sbatch")
    assert add("hpc", "--host", "login")[0] == 0
    status, _, err = add("hpc", "--host", "login")
    assert (status, "Looking" in err, "There is already a site 'hpc'." in err) == (2, False, True)
