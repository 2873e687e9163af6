"""The agent installed by real shells and Pythons on a site that is this computer: cuts, damage, refusals, old ones."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
import uuid
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clew_gui.deploy import install, packages
from clew_gui.deploy.install import Installed, ensure_agent, launcher_text, put_launcher, try_packages
from clew_gui.deploy.preflight import check_runs
from clew_gui.deploy.probe import probe
from clew_gui.deploy.remote_python import SMALL
from clew_gui.jobs.procedure import agent_environment
from clew_gui.sites.site import Site
from clew_gui.sites.site_connection import SiteConnection
from clew_shared import __version__
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.spec import RunSpec
from tests.integration.local_line import LocalConnection, course, damage, local_line

BASE = Path(sys.base_prefix) / "bin/python3"
TENSORFLOW = {"tensorflow": "2.21.0", "keras": "3.10.0", "numpy": "2.0.0"}

Open = Callable[..., tuple[SiteConnection, LocalConnection]]


@pytest.fixture
def bare_python(tmp_path: Path) -> str:
    """A Python without any packages of its own."""
    return _program(tmp_path / "bare/python3", f'exec {BASE} -S "$@"')


@pytest.fixture
def open_connection(tmp_path: Path, bare_python: str) -> Open:
    """A site whose Python has TensorFlow and nothing else; what is given changes it."""

    def make(has: dict[str, str] = TENSORFLOW, **changed: object) -> tuple[SiteConnection, LocalConnection]:
        number = len(list(tmp_path.glob("course*")))
        fields = {"prologue": course(tmp_path / f"course{number}", **has), "python": bare_python, **changed}
        return local_line(tmp_path / "home", Site(title="Here", host="here", **fields))  # type: ignore[arg-type]

    return make


def _program(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def ignore(_: str) -> None:
    """Nobody wants to know."""


def software(connection: LocalConnection) -> Path:
    return connection.home / ".local/share/clew/software"


def names(connection: LocalConnection) -> list[str]:
    return sorted(path.name for path in software(connection).iterdir())


def code_of(line: SiteConnection) -> str:
    with pytest.raises(ProblemError) as refused:
        ensure_agent(line, ignore)
    (found,) = refused.value.problems
    assert found.hint
    return found.code


def launch(connection: LocalConnection, *words: str, **environment: str) -> str:
    """What the program for job scripts prints, started in a job that has loaded nothing else."""
    program = connection.home / ".local/share/clew/bin/clew-agent"
    done = subprocess.run(
        [program, *words],
        env={"PATH": os.environ["PATH"], **environment},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def starts(connection: LocalConnection, installed: Installed) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*installed.command, "--version"],
        env=connection.environment | dict(installed.environment),
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_first_time_brings_everything_and_the_second_time_asks_once(open_connection: Open) -> None:
    line, connection = open_connection()
    told: list[str] = []
    first = ensure_agent(line, told.append)
    assert first.sent > 100_000
    assert [name.split("-")[0] for name in names(connection)] == ["agent", "packages"]
    assert "the agent" in told[0]
    assert "msgspec" in told[1]
    assert starts(connection, first).stdout == f"clew-agent {__version__}\n"
    connection.commands = 0
    again = ensure_agent(line, told.append)
    assert (connection.commands, again.sent, len(told)) == (1, 0, 2)
    assert again.environment == first.environment
    assert first.tensorflow == "2.21.0"


def test_the_sites_own_path_stays_behind_what_was_brought(open_connection: Open, tmp_path: Path) -> None:
    line, _ = open_connection()
    path = ensure_agent(line, ignore).environment["PYTHONPATH"].split(":")
    assert [Path(part).name.split("-")[0] for part in path] == ["agent", "packages", "course0"]


def test_a_program_for_job_scripts_is_there_and_made_anew_when_it_is_another(open_connection: Open) -> None:
    line, connection = open_connection()
    ensure_agent(line, ignore)
    assert launch(connection, "--version") == f"clew-agent {__version__}\n"
    folder = connection.home / ".local/share/clew/bin"
    (folder / "clew-agent").write_text("#!/bin/sh\nexec /of/another/version\n")
    connection.commands = 0
    assert ensure_agent(line, ignore).sent == 0
    assert connection.commands == 2
    assert launch(connection, "--version") == f"clew-agent {__version__}\n"
    assert [path.name for path in folder.iterdir()] == ["clew-agent"]
    connection.commands = 0
    ensure_agent(line, ignore)
    assert connection.commands == 1


def test_what_the_job_says_counts_more_than_what_the_program_for_job_scripts_knows(tmp_path: Path) -> None:
    shown = 'printf \'%s|\' "$CLEW_HOME" "$CLEW_COURSE_DATA" "$PYTHONPATH" "$@"'
    python = _program(tmp_path / "it's a python/python3", shown)
    line, connection = local_line(tmp_path / "home", Site(host="here"))
    put_launcher(line, launcher_text(python, ["/a gent", "/$HOME"], "/clew's", "/course"), ignore)
    assert launch(connection, "run", "my spec") == "/clew's|/course|/a gent:/$HOME|-P|-m|clew_agent|run|my spec|"
    asked = {"CLEW_HOME": "/other", "CLEW_COURSE_DATA": "/data", "PYTHONPATH": "/module"}
    assert launch(connection, **asked) == "/other|/data|/a gent:/$HOME:/module|-P|-m|clew_agent|"


def test_where_the_program_for_job_scripts_cannot_be_written_runs_go_all_the_same(open_connection: Open) -> None:
    line, connection = open_connection()
    folder = connection.home / ".local/share/clew/bin"
    folder.parent.mkdir(parents=True)
    folder.touch()
    told: list[str] = []
    assert starts(connection, ensure_agent(line, told.append)).returncode == 0
    assert told[-1].startswith(f"{folder}/clew-agent could not be written on Here, which only job scripts")


def refused(line: SiteConnection, installed: Installed, *runs: RunSpec, own: bool = False) -> Problem | None:
    """What the login node says of these runs before they are sent."""
    try:
        check_runs(line, agent_environment(line, installed), runs, own)
    except ProblemError as error:
        return error.problems[0]
    return None


def test_before_a_run_is_sent_the_agent_says_on_the_login_node_what_it_would_refuse(
    open_connection: Open, tmp_path: Path
) -> None:
    line, connection = open_connection(data="~/course")
    installed = ensure_agent(line, ignore)
    assert refused(line, installed, RunSpec(exercise="softmax", data="digits")) is None, "without scikit-learn there"
    assert refused(line, installed, RunSpec(exercise="linear-regression")) is None
    usual = RunSpec(exercise="softmax")
    absent = refused(line, installed, usual)
    assert absent is not None
    assert absent.code == "data.missing"
    assert f"Looked in: {connection.home}/course, {connection.home}/.local/share/clew/data." in absent.text
    assert "--data site:/there/mnist.npz" in absent.command_text()
    assert absent.hint.endswith("That is what the login node of Here sees; nothing was sent.")
    (connection.home / "course/mnist").mkdir(parents=True)
    (connection.home / "course/mnist/mnist.pkl.gz").touch()
    assert refused(line, installed, usual, usual) is None
    there = refused(line, installed, RunSpec(exercise="softmax", data="/no/such.npz"))
    assert there is not None
    assert there.text == "The data path /no/such.npz does not exist."
    assert refused(line, installed, RunSpec(exercise="softmax", data="~/course")) is None
    wrong = refused(line, installed, RunSpec(exercise="softmax", data="mnist", devices=4, params={"steps": -1}))
    assert wrong is not None
    assert wrong.text.startswith("2 things are wrong:")
    own = RunSpec(exercise="my-own", data="/no/such.npz")
    assert refused(line, installed, own, own=True) == there


def test_digits_are_refused_where_neither_the_laptop_nor_the_site_has_them(
    open_connection: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew_gui.deploy.bundle.packaged_file", lambda _: None)
    line, _ = open_connection()
    found = refused(line, ensure_agent(line, ignore), RunSpec(exercise="softmax", data="digits"))
    assert found is not None
    assert found.code == "data.digits"
    assert "If scikit-learn is on this computer, Clew brings the digits along. Type in a terminal: " in found.hint


def test_data_that_a_module_or_prologue_names_are_found_as_in_a_job(open_connection: Open, tmp_path: Path) -> None:
    line, connection = open_connection()
    (tmp_path / "mine.npz").touch()
    prologue = f"{line.site.prologue}\nexport CLEW_DATA={tmp_path}/mine.npz"
    line, _ = local_line(connection.home, Site(host="here", python=line.site.python, prologue=prologue))
    assert refused(line, ensure_agent(line, ignore), RunSpec(exercise="softmax")) is None


@pytest.mark.parametrize("which", ["agent", "packages"])
def test_a_damaged_folder_is_noticed_and_replaced(open_connection: Open, which: str) -> None:
    line, connection = open_connection()
    ensure_agent(line, ignore)
    folder = next(path for path in software(connection).iterdir() if path.name.startswith(which))
    damage(next(path for path in folder.rglob("*.py") if path.stat().st_size))
    told: list[str] = []
    ensure_agent(line, told.append)
    assert "damaged" in told[0]
    connection.commands = 0
    assert ensure_agent(line, ignore).sent == 0
    assert connection.commands == 1


def test_a_cut_in_the_middle_leaves_nothing_that_looks_installed(open_connection: Open) -> None:
    line, connection = open_connection()
    connection.spoil = 1000
    assert code_of(line) == "bootstrap.install"
    assert names(connection) == []
    connection.spoil = 0
    assert starts(connection, ensure_agent(line, ignore)).returncode == 0


def test_two_laptops_at_once_do_no_harm(open_connection: Open) -> None:
    lines = [open_connection()[0] for _ in range(2)]
    connection = open_connection()[1]
    with ThreadPoolExecutor() as pool:
        installed = list(pool.map(lambda line: ensure_agent(line, ignore), lines))
    assert len({one.command for one in installed}) == 1
    assert len(names(connection)) == 2
    assert starts(connection, installed[0]).returncode == 0


def test_old_versions_go_when_they_are_old_and_many(open_connection: Open) -> None:
    line, connection = open_connection()
    software(connection).mkdir(parents=True)
    for days in (1, 5, 13, 15, 30):
        made = software(connection) / f"agent-{days:016d}"
        made.mkdir()
        os.utime(made, (time.time() - days * 86400,) * 2)
    (software(connection) / ".new-left").mkdir()
    os.utime(software(connection) / ".new-left", (0, 0))
    ensure_agent(line, ignore)
    left = [int(name.split("-")[1]) for name in names(connection) if name.startswith("agent-0000000000")]
    assert left == [1, 5, 13]
    assert not [name for name in names(connection) if name.startswith(".")]


def test_a_shell_that_prints_does_not_matter(open_connection: Open) -> None:
    line, connection = open_connection()
    (connection.home / ".bash_profile").write_text("echo 'Welcome! {\"refused\": 1}'; echo oops >&2; read x; cat\n")
    assert ensure_agent(line, ignore).sent > 0


def test_what_a_shell_prints_is_not_why_a_module_is_refused(open_connection: Open) -> None:
    line, connection = open_connection(modules=("no-such/1.0",))
    profile = "echo Welcome; module() { echo no such module; return 1; }\n"
    (connection.home / ".bash_profile").write_text(profile)
    with pytest.raises(ProblemError) as refused:
        ensure_agent(line, ignore)
    assert refused.value.problems[0].text == "The module no-such/1.0 cannot be loaded on Here. It said: no such module"


def test_a_site_with_everything_gets_the_agent_alone(open_connection: Open) -> None:
    here = {need.module: "99.0" for need in SMALL}
    line, connection = open_connection(TENSORFLOW | here)
    ensure_agent(line, ignore)
    assert [name.split("-")[0] for name in names(connection)] == ["agent"]


def test_a_package_that_is_too_old_is_brought_and_comes_first(open_connection: Open) -> None:
    here = {need.module: "99.0" for need in SMALL} | {"psutil": "5.9.8"}
    line, _ = open_connection(TENSORFLOW | here)
    told: list[str] = []
    installed = ensure_agent(line, told.append)
    assert told[1].startswith("Bringing psutil to Here")
    assert "/packages-" in installed.environment["PYTHONPATH"].split(":")[1]


def broken(folder: Path, module: str) -> str:
    """A line of a start file that puts an old package before the site's."""
    (folder / module).mkdir(parents=True)
    (folder / module / "__init__.py").write_text(f"raise ImportError('old {module}')\n")
    return f"\nexport PYTHONPATH='{folder}':$PYTHONPATH"


@pytest.mark.parametrize("module", [need.module for need in SMALL])
def test_a_package_that_cannot_be_imported_there_is_brought(open_connection: Open, tmp_path: Path, module: str) -> None:
    prologue = course(tmp_path / "its own", **TENSORFLOW, **{need.module: "99.0" for need in SMALL})
    line, connection = open_connection(prologue=prologue + broken(tmp_path / "mine", module))
    told: list[str] = []
    installed = ensure_agent(line, told.append)
    (name,) = [need.name for need in SMALL if need.module == module]
    assert [text.partition(" (")[0] for text in told[1:]] == [f"Bringing {name} to Here"]
    code = f"import {module}; print({module}.__file__)"
    words = [installed.command[0], "-P", "-c", code]
    done = subprocess.run(
        words, env=connection.environment | dict(installed.environment), capture_output=True, text=True, check=True
    )
    assert "/packages-" in done.stdout


def test_an_agent_that_could_not_start_is_refused_before_anything_is_sent(
    open_connection: Open, tmp_path: Path
) -> None:
    """What the agent itself brings cannot help where the whole of Python is led astray."""
    line, _ = open_connection()
    installed = ensure_agent(line, ignore)
    astray = broken(tmp_path / "mine", "curses").rpartition("=")[2].partition(":")[0].strip("'")
    (tmp_path / "mine/zmq.py").write_text("import no_such_library\n")
    path = f"{astray}:{installed.environment['PYTHONPATH']}"
    spec = RunSpec(exercise="softmax", run=str(uuid.uuid4()))
    with pytest.raises(ProblemError) as refused:
        check_runs(line, {**installed.environment, "PYTHONPATH": path}, [spec], own=False)
    (found,) = refused.value.problems
    assert found.code == "preflight.import"
    assert "The agent cannot start with the Python of Here: No module named 'no_such_library'" in found.text
    assert "mine/zmq.py" in found.text


@pytest.mark.parametrize(
    ("has", "changed", "code"),
    [
        ({"keras": "3.10.0", "numpy": "2.0"}, {}, "bootstrap.tensorflow"),
        (TENSORFLOW | {"tensorflow": "2.13.1"}, {}, "bootstrap.tensorflow"),
        (TENSORFLOW | {"keras": "2.13.1"}, {}, "bootstrap.keras"),
        (TENSORFLOW, {"python": "/no/such/python3"}, "bootstrap.python"),
        (TENSORFLOW, {"venv": "~/no such venv"}, "bootstrap.python"),
        (TENSORFLOW, {"modules": ("no-such/1.0",)}, "bootstrap.module"),
        (TENSORFLOW, {"prologue": "echo no licence; exit 1"}, "bootstrap.there"),
    ],
)
def test_each_refusal_has_its_own_sentence(
    open_connection: Open, has: dict[str, str], changed: dict[str, object], code: str
) -> None:
    line, connection = open_connection(has, **changed)
    assert code_of(line) == code
    assert not software(connection).exists()


@pytest.mark.parametrize(
    ("exported", "python", "named"),
    [
        ("PYTHONHOME=/no/such/python", "", "sets PYTHONHOME there"),
        ("PYTHONPATH={here}", "", "sets PYTHONPATH there"),
        ("PYTHONPATH={here} PYTHONHOME=/no/such/python", "", "sets PYTHONHOME and PYTHONPATH there"),
        ("LD_LIBRARY_PATH={here}", "{here}/python3", "sets LD_LIBRARY_PATH there"),
        ("PYTHONPATH={here}", "{here}/none", "Name a module that brings one"),
    ],
)
def test_what_leads_a_python_astray_is_named(
    open_connection: Open, tmp_path: Path, exported: str, python: str, named: str
) -> None:
    """The home, the modules or the libraries of another Python."""
    here = tmp_path / "other"
    _program(here / "python3", f'[ -z "$LD_LIBRARY_PATH" ] || exit 127; exec {BASE} -S "$@"')
    (here / "enum.py").write_text("raise ImportError('an old enum')\n")
    line, _ = open_connection(python=python.format(here=here), prologue=f"export {exported.format(here=here)}")
    with pytest.raises(ProblemError) as refused:
        ensure_agent(line, ignore)
    (found,) = refused.value.problems
    assert found.code == "bootstrap.python"
    assert named in found.hint


def test_an_old_python_is_named_with_its_version(open_connection: Open, tmp_path: Path) -> None:
    """The program that probes must get so far on it; here a new one pretends."""
    pretend = "import platform, sys; sys.version_info = (3, 6, 15); platform.python_version = lambda: '3.6.15';"
    old = _program(tmp_path / "old/python3", f'shift; code=$1; shift; exec {BASE} -S -c "{pretend}$code" "$@"')
    line, _ = open_connection(python=old)
    with pytest.raises(ProblemError, match=r"is Python 3\.6\.15; the agent needs 3\.11"):
        ensure_agent(line, ignore)


def test_of_several_pythons_the_old_one_that_comes_first_is_known(open_connection: Open, tmp_path: Path) -> None:
    old = _program(tmp_path / "old/python3", "exit 11")
    line, _ = open_connection(python="", prologue=f"export PATH={Path(old).parent}:$PATH")
    found = probe(line)
    assert (found.too_old, found.minor >= (3, 11)) == (old, True)


def test_a_python_with_tensorflow_behind_another_of_the_same_name_is_found(
    open_connection: Open, tmp_path: Path
) -> None:
    """A module for Python that was loaded after the one for TensorFlow."""
    has = course(tmp_path / "its own", **TENSORFLOW)
    folders = [
        Path(_program(tmp_path / name / "python3", line)).parent
        for name, line in [
            ("old", "exit 11"),
            ("plain", "exit 10"),
            ("right", f'{has}; exec {BASE} -S "$@"'),
            ("other", "exit 10"),
        ]
    ]
    line, _ = open_connection({}, python="", prologue=f"export PATH={':'.join(map(str, [*folders, *folders]))}:$PATH")
    found = probe(line)
    assert found.have["tensorflow"] == TENSORFLOW["tensorflow"]
    assert found.too_old == str(folders[0] / "python3")


def test_a_venv_is_used_as_it_is(open_connection: Open, tmp_path: Path, bare_python: str) -> None:
    (tmp_path / "home/my env/bin").mkdir(parents=True)
    (tmp_path / "home/my env/bin/python").symlink_to(bare_python)
    line, _ = open_connection(python="/no/such/python", venv="~/my env")
    assert ensure_agent(line, ignore).sent > 0


def doctor_says(line: SiteConnection) -> str:
    """The code of what keeps the packages from being brought, else how they are."""
    try:
        return f"the site's own pip fetches {', '.join(try_packages(line, probe(line), ignore))}"
    except ProblemError as error:
        return error.problems[0].code


def test_what_does_not_run_there_is_fetched_by_the_sites_own_pip(
    open_connection: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = tmp_path / "pip/pip"
    pip.mkdir(parents=True)
    (pip / "__init__.py").touch()
    (pip / "__main__.py").write_text(
        "import os, sys\nat = sys.argv[sys.argv.index('--target') + 1]\nopen(at + '/fetched.py', 'w').close()\n"
        "sys.exit(os.environ.get('NO_INDEX') and 'no index')\n"
    )
    monkeypatch.setattr(install, "from_here", lambda *_: {})
    monkeypatch.setattr(install, "from_wheels", lambda *_: {})
    line, connection = open_connection()
    connection.environment["NO_INDEX"] = "1"
    assert doctor_says(line) == code_of(line) == "bootstrap.packages"  # it has no pip
    prologue = f"{line.site.prologue}:{tmp_path}/pip"
    line, connection = local_line(connection.home, Site(host="here", python=line.site.python, prologue=prologue))
    connection.environment["NO_INDEX"] = "1"
    assert code_of(line) == "bootstrap.packages"
    assert doctor_says(line) == "bootstrap.packages", "the site's own pip was tried"
    assert [name.split("-")[0] for name in names(connection)] == ["agent"]
    del connection.environment["NO_INDEX"]
    assert doctor_says(line) == "the site's own pip fetches msgspec, platformdirs, psutil, pyzmq, setproctitle, tomli-w"
    assert [name.split("-")[0] for name in names(connection)] == ["agent"], "and nothing was kept"
    ensure_agent(line, ignore)
    assert list(software(connection).glob("packages-*/fetched.py"))


def test_wheels_for_another_python_are_fetched_and_kept(
    open_connection: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    for tag in ("cp312-cp312-manylinux_2_17_x86_64", "cp313-cp313-manylinux_2_17_x86_64", "cp312-cp312-win_amd64"):
        _wheel(shop, "setproctitle-1.3.9", tag)
    _wheel(shop, "tomli_w-1.3.0", "py3-none-any")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shop))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    found = probe(open_connection()[0])
    there = type(found)(**{name: getattr(found, name) for name in found.__struct_fields__} | _OTHER)
    needs = [need for need in SMALL if need.name in ("setproctitle", "tomli-w")]
    files = packages.from_wheels(needs, there, ignore)
    assert files["setproctitle/it.py"] == b"cp312-cp312-manylinux_2_17_x86_64"
    assert files["tomli_w/it.py"] == b"py3-none-any"
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nothing"))
    assert packages.from_wheels(needs, there, ignore) == files
    assert packages.from_wheels(SMALL, there, ignore) == {}


_OTHER = {"python": "3.12.4", "system": "Linux", "machine": "x86_64", "libc": (2, 28)}


def _wheel(folder: Path, name: str, tag: str) -> None:
    module, about = name.split("-")[0], f"{name}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{tag}.whl", "w") as archive:
        archive.writestr(f"{module}/it.py", tag)
        archive.writestr(f"{about}/WHEEL", f"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: false\nTag: {tag}\n")
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {module}\nVersion: {name.split('-')[1]}\n")
        archive.writestr(f"{about}/RECORD", "")
