"""``clew site``, as somebody types it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew_gui.cli import main
from clew_gui.remote.doctor import Finding, Verdict
from clew_gui.remote.site_file import read_site


@pytest.fixture(autouse=True)
def own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No test reads the SSH configuration of whoever runs it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


class Said:
    """What a command printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str, code: int = 0) -> str:
        assert main(["site", *words]) == code
        captured = self._capsys.readouterr()
        return captured.out if code == 0 else captured.err

    def json(self, *words: str, code: int = 0) -> dict[str, object]:
        assert main(["site", *words, "--json"]) == code
        found: dict[str, object] = json.loads(self._capsys.readouterr().out.splitlines()[-1])
        return found


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    return Said(capsys)


def test_a_site_from_a_preset_with_what_is_ones_own(said: Said, home: Path) -> None:
    text = said("add", "mt", "--preset", "minotauro", "--user", "me", "--gpus", "2", "--reservation", "day-2")
    assert "me@mt1.bsc.es, mnsubmit (MinoTauro): 1 node with 2 GPUs, 2 hours, reservation day-2, features k80" in text
    site = read_site(home / "config" / "sites" / "mt.toml")
    assert (site.user, site.allocation.gpus, site.modules[0]) == ("me", 2, "K80")
    assert "mt1.bsc.es" in said("list")
    assert 'reservation = "day-2"' in said("show", "mt")
    said("remove", "mt")
    assert "mt1.bsc.es" not in said("list")


def test_a_site_from_nothing(said: Said) -> None:
    words = ["--host", "login.example.org", "--user", "me", "--port", "2222", "--jump", "a@gate, second:22"]
    found = said.json("add", "mine", *words, "--key", "~/.ssh/id", "--scheduler", "slurm", "--time", "30")
    assert found["address"] == "me@login.example.org:2222"
    site = found["site"]
    assert isinstance(site, dict)
    assert (site["jump"], site["allocation"]) == (["a@gate", "second:22"], {"time": "30"})


def test_a_teachers_file_is_shown_with_all_that_it_runs(said: Said, tmp_path: Path) -> None:
    path = tmp_path / "class.toml"
    path.write_text('host = "login"\nscheduler = "slurm"\nprologue = """\nsource /apps/lab.sh\nulimit -c 0\n"""\n')
    text = said("add", "course", "--file", str(path))
    assert "    source /apps/lab.sh\n    ulimit -c 0\n" in text
    assert "Clew asks" in said("show", "course")
    assert said.json("add", "course", "--file", str(path), "--replace", "--consent")["consent_missing"] == []
    assert "Clew asks" not in said("show", "course")


def test_the_script_can_be_read_before_anything_is_sent(said: Said) -> None:
    said("add", "mine", "--host", "login", "--scheduler", "slurm", "--partition", "gpu")
    text = said("show", "mine", "--script", "--partition", "short", "--time", "2h")
    assert text.startswith("#!/bin/bash -l\n#SBATCH ")
    assert "#SBATCH --partition=short\n" in text
    assert "#SBATCH --time=02:00:00\n" in text


def test_an_entry_of_the_ssh_configuration_becomes_a_site(said: Said, own_home: Path) -> None:
    (own_home / ".ssh").mkdir()
    (own_home / ".ssh" / "config").write_text("Host hpc lab*\n  HostName login.example.org\n")
    assert "In ~/.ssh/config: hpc." in said("list")
    said("add", "hpc")
    listed = said.json("list")
    assert listed["ssh_config"] == []
    assert [site["name"] for site in listed["sites"]] == ["local", "hpc"]  # type: ignore[attr-defined]


def test_everything_wrong_is_told_at_once_and_nothing_is_kept(said: Said, home: Path) -> None:
    text = said("add", "Bad Name", "--host", "a b", "--jump", "x y", "--time", "soon", "--gpus", "999", code=2)
    assert "5 things are wrong" in text
    assert not (home / "config" / "sites").exists()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["add", "x"], "Nothing says where 'x' is"),
        (["add", "x", "--preset", "minotaur"], "Did you mean minotauro?"),
        (["add", "x", "--preset", "slurm"], "no host is named"),
        (["add", "x", "--preset", "slurm", "--file", "y"], "not with both"),
        (["add", "x", "--file", "/nowhere.toml"], "Cannot read /nowhere.toml"),
        (["add", "x", "--host", "h", "--port", "0"], "from 1 to 65535"),
        (["add", "x", "--host", "h", "--scheduler", "lsf"], "invalid choice"),
        (["add", "local", "--host", "h"], "always means this computer"),
        (["show", "x"], "There is no site 'x'"),
        (["remove", "local"], "cannot be removed"),
    ],
)
def test_refusals(said: Said, words: list[str], part: str) -> None:
    assert part in said(*words, code=2)


def test_a_refusal_as_json(said: Said) -> None:
    problems = said.json("show", "x", code=2)["problems"]
    assert isinstance(problems, list)
    assert problems[0]["code"] == "site.absent"


def test_a_broken_file_is_told_beside_the_list(said: Said, home: Path) -> None:
    folder = home / "config" / "sites"
    folder.mkdir(parents=True)
    (folder / "broken.toml").write_text('pasword = "x"\n')
    assert "cannot be read" in said("list")
    found = said.json("list")["sites"]
    assert isinstance(found, list)
    assert "holds no secret" in found[1]["problems"][0]["text"]


def test_consent_is_given_to_what_was_shown(said: Said, tmp_path: Path) -> None:
    path = tmp_path / "class.toml"
    path.write_text('host = "login"\nscheduler = "slurm"\nprologue = "source /apps/lab.sh\\n"\n')
    said("add", "course", "--file", str(path))
    assert "clew site show course --consent" in said("show", "course")
    text = said("show", "course", "--consent")
    assert "    source /apps/lab.sh\n" in text
    assert "You have agreed to this text." in text
    assert "not agreed" not in said("show", "course")
    assert said.json("show", "course", "--consent")["consent_missing"] == []
    path.write_text(path.read_text().replace("lab.sh", "other.sh"))
    said("add", "course", "--file", str(path), "--replace")
    assert "not agreed" in said("show", "course")


def test_a_site_without_words_of_its_own_needs_no_consent(said: Said) -> None:
    said("add", "mine", "--host", "login")
    assert "It runs no words of its own." in said("show", "mine", "--consent")


# --- doctor and modules -----------------------------------------------------------------------------------------------

FINE = Finding(check="login", title="Login", verdict=Verdict.OK, text="In.", where="me@login", seconds=0.5)
BAD = Finding(check="home", title="Home folder", verdict=Verdict.BAD, text="Full.", hint="Make room.", code="site.full")
LATER = [Finding(check=name, title=name, verdict=Verdict.SKIPPED, text="Not tried.") for name in ("data", "ports")]


def examined(monkeypatch: pytest.MonkeyPatch, *findings: Finding, ends: BaseException | None = None) -> None:
    def examine(*_: object) -> Iterator[Finding]:
        yield from findings
        if ends is not None:
            raise ends

    monkeypatch.setattr("clew_gui.commands.site_doctor.examine", examine)


def test_findings_are_shown_as_they_are(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    examined(monkeypatch, FINE, *LATER)
    said("add", "mine", "--host", "login")
    text = said("doctor", "mine")
    assert "  ok  Login               In.\n" in text
    assert "   -  2 more              Not tried. (data, ports)\n" in text
    assert text.endswith("Nothing keeps runs from working there.\n")


def test_something_bad_is_an_exit_status(
    said: Said, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    examined(monkeypatch, FINE, BAD)
    said("add", "mine", "--host", "login")
    assert main(["site", "doctor", "mine"]) == 1
    text = capsys.readouterr().out
    assert " BAD  Home folder         Full.\n                          -> Make room.\n" in text
    assert text.endswith("One thing keeps runs from working there: Home folder.\n")


def test_findings_for_programs(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    examined(monkeypatch, FINE, BAD)
    said("add", "mine", "--host", "login")
    found = said.json("doctor", "mine", code=1)
    findings = found.pop("findings")
    assert found == {"format": 1, "site": "mine", "ok": False, "ended": True}
    assert isinstance(findings, list)
    assert findings[1] == {
        "check": "home",
        "title": "Home folder",
        "verdict": "bad",
        "text": "Full.",
        "hint": "Make room.",
        "where": "",
        "code": "site.full",
        "seconds": 0.0,
    }


def test_control_c_ends_the_examination_with_what_is_known(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    examined(monkeypatch, FINE, ends=KeyboardInterrupt())
    said("add", "mine", "--host", "login")
    found = said.json("doctor", "mine", code=130)
    assert (found["ok"], found["ended"]) == (False, False)


def test_this_computer_has_no_modules(said: Said) -> None:
    assert "has no modules of a site" in said("modules", "local", code=2)
    assert "There is no site 'nosuch'" in said("doctor", "nosuch", code=2)
