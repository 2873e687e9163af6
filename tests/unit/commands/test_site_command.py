"""``clew site``, as somebody types it."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from clew_gui.commands.main import main
from clew_gui.doctor.examination import Finding, Verdict
from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.sites.site import Site
from clew_gui.sites.site_file import read_site
from clew_shared.base.remedies import choose, set_to


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


def test_an_address_as_a_terminal_has_it_is_a_host(said: Said) -> None:
    found = said.json("add", "mine", "--host", "student@[fd77::1]:2206", "--scheduler", "slurm")
    assert found["address"] == "student@[fd77::1]:2206"
    assert "student@[fd77::1]:2206" in said("show", "mine")
    changed = said.json("set", "mine", "user=", "port=", "host=ssh://me@[fd77::2]:23")["changed"]
    assert changed == ["host", "user", "port"]
    assert said.json("show", "mine")["address"] == "me@[fd77::2]:23"


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


def test_modules_and_a_title_are_given_with_the_site(said: Said, home: Path) -> None:
    slurm = ["--host", "login", "--preset", "slurm"]
    said("add", "mine", *slurm, "--module", "python/3.11", "--module", "cuda", "--title", "My cluster")
    site = read_site(home / "config" / "sites" / "mine.toml")
    assert (site.modules, site.title) == (("python/3.11", "cuda"), "My cluster")


def test_no_two_sites_have_one_title(said: Said, tmp_path: Path) -> None:
    """A preset of a kind of cluster has none: such a site is called by its name."""

    def title(name: str, *words: str) -> object:
        return said.json("add", name, "--host", "login", *words)["title"]

    assert [title("one", "--preset", "slurm"), title("two", "--preset", "slurm")] == ["one", "two"]
    assert [title("mt", "--preset", "minotauro"), title("mt2", "--preset", "minotauro")] == ["MinoTauro (BSC)", "mt2"]
    for given in ("MINOTAURO (BSC)", "one", "this computer"):
        text = said("add", "mine", "--host", "login", "--preset", "slurm", "--title", given, code=2)
        assert re.search(r"The site (mt|one|local) is shown as '.*' already", text), text
    path = tmp_path / "class.toml"
    path.write_text('title = "The course"\nhost = "login"\n')
    titles = [said.json("add", name, "--file", str(path))["title"] for name in ("monday", "friday")]
    assert titles == ["The course", "The course (friday)"]
    assert said.json("add", "monday", "--file", str(path), "--replace")["title"] == "The course"
    assert "is shown as" in said(
        "add", "one", "--host", "x", "--preset", "slurm", "--title", "two", "--replace", code=2
    )


def test_a_host_that_cannot_be_looked_at_is_no_site_yet(said: Said, home: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    text = said("add", "mine", "--host", "127.0.0.1", "--port", str(port), code=2)
    assert "To add it without looking, give --scheduler slurm (or pbs, mnsubmit, none)." in text
    assert not (home / "config" / "sites").exists()


def test_an_entry_of_the_ssh_configuration_becomes_a_site(said: Said, own_home: Path) -> None:
    (own_home / ".ssh").mkdir()
    (own_home / ".ssh" / "config").write_text("Host hpc lab*\n  HostName login.example.org\n")
    assert "In ~/.ssh/config: hpc." in said("list")
    said("add", "hpc", "--scheduler", "slurm")
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
        (["add", "x", "--preset", "slurm"], "names none"),
        (["add", "x", "--preset", "slurm", "--file", "y"], "not with both"),
        (["add", "x", "--file", "/nowhere.toml"], "nowhere.toml"),
        (["add", "x", "--host", "h", "--port", "0"], "from 1 to 65535"),
        (["add", "x", "--host", "h", "--scheduler", "lsf"], "--scheduler does not know 'lsf'. There are: slurm, pbs,"),
        (["sho", "x"], "clew site does not know 'sho'. Did you mean show?"),
        (["add", "x", "--host", "h", "--module", "a b"], "A module cannot be 'a b'"),
        (["add", "local", "--host", "h"], "always means this computer"),
        (["show", "x"], "There is no site 'x'. There are: local."),
        (["doctor", "locl"], "There is no site 'locl'. Did you mean local?"),
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
    assert "must not contain secrets" in found[1]["problems"][0]["text"]


def test_consent_is_given_to_what_was_shown(said: Said, tmp_path: Path) -> None:
    path = tmp_path / "class.toml"
    path.write_text('host = "login"\nscheduler = "slurm"\nprologue = "source /apps/lab.sh\\n"\n')
    said("add", "course", "--file", str(path))
    assert "clew site show course --consent" in said("show", "course")
    text = said("show", "course", "--consent")
    assert "    source /apps/lab.sh\n" in text
    assert "You have approved this text." in text
    assert "not approved" not in said("show", "course")
    assert said.json("show", "course", "--consent")["consent_missing"] == []
    path.write_text(path.read_text().replace("lab.sh", "other.sh"))
    said("add", "course", "--file", str(path), "--replace")
    assert "not approved" in said("show", "course")


def test_a_site_without_words_of_its_own_needs_no_consent(said: Said) -> None:
    said("add", "mine", "--host", "login", "--scheduler", "none")
    assert "It contains no shell commands of its own." in said("show", "mine", "--consent")


# --- set --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def mine(said: Said, home: Path) -> Path:
    """The file of a site."""
    said("add", "mine", "--host", "login", "--preset", "slurm")
    return home / "config" / "sites" / "mine.toml"


def test_fields_are_set_and_cleared_by_their_names(said: Said, mine: Path) -> None:
    words = ["modules=python, cuda/11.8", "time=02:00:00", "allocation.gpus=2", "requeue=yes", "port=2222"]
    text = said("set", "mine", *words)
    assert "  modules: (empty) -> python, cuda/11.8\n" in text
    assert "  allocation.time: 01:00:00 -> 02:00:00\n" in text
    site = read_site(mine)
    assert (site.modules, site.requeue, site.port) == (("python", "cuda/11.8"), True, 2222)
    assert site.allocation == AllocationRequest(time="02:00:00", gpus=2)
    cleared = ["modules=", "time=", "requeue=no", "port=", "gpus="]
    found = said.json("set", "mine", *cleared, "extra=--mem=8G", "extra=--mail-type=END,FAIL")
    assert found["changed"] == ["port", "modules", "allocation.time", "allocation.gpus", "requeue", "extra"]
    assert read_site(mine) == Site(host="login", scheduler="slurm", extra=("--mem=8G", "--mail-type=END,FAIL"))
    assert said("set", "mine", "host=login") == "Nothing was changed: mine has these values already.\n"


def test_what_is_not_set_stays_to_the_letter(said: Said, mine: Path) -> None:
    """Consent to a prologue holds for exactly its text."""
    mine.write_text('host = "login"\nscheduler = "slurm"\nprologue = "true \\n\\n"\n')
    said("set", "mine", "user=me", "--consent")
    assert read_site(mine).prologue == "true \n\n"
    assert "Clew asks" in said("set", "mine", "prologue=false")
    assert said.json("set", "mine", "user=")["consent_missing"] == [{"kind": "prologue", "text": "false"}]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["mine", "modlues=python"], ["no field 'modlues'", "Did you mean modules?"]),
        (["mine", "allocation.tiem=1h"], ["no field 'allocation.tiem'", "Did you mean time?"]),
        (["mine", "password=x"], ["must not contain secrets"]),
        (["mine", "python"], ["'python' sets no field", "modules=python,cuda/11.8"]),
        (["mine", "host=a", "host=b"], ["host is given twice"]),
        (["mine", "scheduler=lsf"], ["Scheduler (scheduler): expected one of slurm, pbs, mnsubmit, none; got 'lsf'"]),
        (["mine", "scheduler="], ["The scheduler cannot be cleared. Give one of slurm, pbs, mnsubmit, none"]),
        (["mine", "requeue=perhaps"], ["Requeue (requeue): expected true or false, got 'perhaps'"]),
        (["mine", "nodes=1,5"], ["Nodes (nodes): expected a whole number, got '1,5'"]),
        (
            ["mine", "time=soon", "nodes=0", "user=a b"],
            ["3 things", "'soon' cannot be read", "at least 1", "The user cannot"],
        ),
        (["mine", "title=This computer"], ["local is shown as 'This computer' already"]),
        (["local", "user=me"], ["means this computer"]),
        (["slurm", "user=me"], ["is a preset", "clew site add NAME --preset slurm"]),
        (["nosuch", "user=me"], ["There is no site 'nosuch'"]),
    ],
)
def test_what_cannot_be_set_is_refused_and_nothing_is_changed(
    said: Said, mine: Path, words: list[str], parts: list[str]
) -> None:
    before = mine.read_bytes()
    text = said("set", *words, code=2)
    assert [part for part in parts if part not in text] == [], text
    assert mine.read_bytes() == before


def test_a_site_for_all_users_is_copied_before_it_is_changed(
    said: Said, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    common = tmp_path / "xdg/clew/sites/course.toml"
    common.parent.mkdir(parents=True)
    common.write_text('host = "login"\n')
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "xdg"))
    own = home / "config/sites/course.toml"
    assert f"a course's, or for all users. Your changed copy is kept in {own}." in said("set", "course", "user=me")
    assert (common.read_text(), read_site(own).user) == ('host = "login"\n', "me")
    assert f"The site course is kept in {own}.\n" in said("set", "course", "user=you")
    assert said("remove", "course").startswith("Your copy of course is removed; that of all users counts again.")


def test_fields_of_a_broken_file_cannot_be_set_and_its_place_is_named(said: Said, mine: Path) -> None:
    mine.write_text("host = 3\n")
    assert f"Correct {mine} in an editor" in said("set", "mine", "user=me", code=2)
    assert mine.read_text() == "host = 3\n"


# --- doctor and modules -----------------------------------------------------------------------------------------------

FINE = Finding(check="login", title="Login", verdict=Verdict.OK, text="In.", where="me@login", seconds=0.5)
BAD = Finding(check="home", title="Home folder", verdict=Verdict.BAD, text="Full.", hint="Make room.", code="site.full")
LATER = [Finding(check=name, title=name, verdict=Verdict.SKIPPED, text="Not tried.") for name in ("data", "ports")]


def examined(monkeypatch: pytest.MonkeyPatch, *findings: Finding, ends: BaseException | None = None) -> None:
    def examine(*_: object) -> Iterator[Finding]:
        yield from findings
        if ends is not None:
            raise ends

    monkeypatch.setattr("clew_gui.commands.sites.doctor.examine", examine)


def test_the_doctor_of_this_computer_names_that_of_a_site(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "mine"]) == 2
    assert "It checks this computer. A site: clew site doctor mine" in capsys.readouterr().err


def test_findings_are_shown_as_they_are(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    examined(monkeypatch, FINE, *LATER)
    said("add", "mine", "--host", "login", "--scheduler", "none")
    text = said("doctor", "mine")
    assert "  ok  Login               In.\n" in text
    assert "   -  2 more              Not tried. (data, ports)\n" in text
    assert text.endswith("Nothing keeps runs from working there.\n")


def test_something_bad_is_an_exit_status(
    said: Said, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ways = (set_to("time", "00:20:00"), choose("partition"))
    examined(monkeypatch, FINE, msgspec.structs.replace(BAD, remedies=ways))
    said("add", "mine", "--host", "login", "--scheduler", "none")
    assert main(["site", "doctor", "mine"]) == 1
    text = capsys.readouterr().out
    typed = "Type: clew site set mine time=00:20:00 or clew site set mine partition=NAME (clew why site.full)"
    assert f" BAD  Home folder         Full.\n                          -> Make room. {typed}\n" in text
    assert text.endswith("One thing keeps runs from working there: Home folder.\n")


def test_findings_for_programs(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    examined(monkeypatch, FINE, BAD)
    said("add", "mine", "--host", "login", "--scheduler", "none")
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
        "remedies": [],
    }


def test_control_c_ends_the_examination_with_what_is_known(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    examined(monkeypatch, FINE, ends=KeyboardInterrupt())
    said("add", "mine", "--host", "login", "--scheduler", "none")
    found = said.json("doctor", "mine", code=130)
    assert (found["ok"], found["ended"]) == (False, False)


def test_this_computer_has_no_modules(said: Said) -> None:
    assert "has no modules of a site" in said("modules", "local", code=2)
