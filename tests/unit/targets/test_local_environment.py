"""An environment with TensorFlow of Clew's own: made from wheels of a folder, with a TensorFlow of one line."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import threading
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import msgspec
import pytest
from packaging.requirements import Requirement

from clew_gui.commands import setup_tensorflow as command
from clew_gui.commands.main import main
from clew_gui.targets import local_agent, local_environment
from clew_gui.targets.local_agent import agent_program
from clew_gui.targets.local_environment import (
    Cancelled,
    Environment,
    Progress,
    copy_python,
    environment_folder,
    find_environment,
    make_environment,
    remove_environment,
    requirements,
)
from clew_shared import __version__
from clew_shared.base.installation import shipped
from clew_shared.base.places import Places, find_places
from clew_shared.base.problem import ProblemError
from clew_shared.base.remedies import as_typed


def write_wheel(folder: Path, name: str, version: str, source: str) -> None:
    """A wheel of one module."""
    info = f"{name}-{version}.dist-info"
    contents = {
        f"{name}/__init__.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {path: hashlib.sha256(text.encode()).digest() for path, text in contents.items()}
    lines = [f"{path},sha256={urlsafe_b64encode(one).decode().rstrip('=')}," for path, one in digests.items()]
    contents[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in contents.items():
            archive.writestr(path, text)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for version in ("2.20.0", "2.21.0"):
        write_wheel(folder, "tensorflow", version, f"__version__ = {version!r}\n")
    return folder


@pytest.fixture
def index(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Wheels of a folder in place of the internet, one version of TensorFlow that was tested, and none here."""
    versions = tmp_path / "versions.txt"
    versions.write_text("tensorflow==2.20.0\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setattr(local_environment, "requirements", lambda: ["tensorflow>=2"])
    monkeypatch.setattr(local_environment, "shipped", lambda *_: versions)
    for module in (local_agent, command):
        monkeypatch.setattr(module, "has_tensorflow", lambda: False)
    return versions


@pytest.fixture
def places(home: Path) -> Places:
    return find_places()


def no_stop() -> threading.Event:
    return threading.Event()


@pytest.mark.needs("venv")
def test_it_has_the_tested_version_and_the_agents_code_and_is_what_trains_here(
    places: Places, index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ProblemError) as refused:
        agent_program(places)
    (problem,) = refused.value.problems
    assert [as_typed(one) for one in problem.remedies] == ["clew setup-tensorflow"]
    assert main(["setup-tensorflow"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert "MB to download" in said[0]
    assert said[-1].startswith("TensorFlow 2.20.0 is ready")
    python, *words = agent_program(places)
    assert Path(python).is_relative_to(environment_folder(places))
    assert words == ["-P", "-m", "clew_agent"]
    asked = "import clew_agent, clew_shared, tensorflow; print(clew_agent.__file__, tensorflow.__version__)"
    answer = subprocess.run([python, "-P", "-c", asked], capture_output=True, text=True, check=True).stdout.split()
    assert Path(answer[0]).is_relative_to(environment_folder(places)), "a copy, which stays when Clew is moved"
    assert answer[1] == "2.20.0"
    _another_version_brings_its_code(places)
    assert main(["setup-tensorflow"]) == 0
    assert "There is one already, with TensorFlow 2.20.0" in capsys.readouterr().out
    assert main(["setup-tensorflow", "--remove"]) == 0
    assert find_environment(places) is None
    assert not environment_folder(places).exists()


def _another_version_brings_its_code(places: Places) -> None:
    mark = environment_folder(places) / "clew.json"
    made = msgspec.json.decode(mark.read_bytes(), type=Environment)
    mark.write_bytes(msgspec.json.encode(msgspec.structs.replace(made, clew="0.0.1")))
    (Path(made.packages) / "clew.pth").write_text("gone\n")
    assert find_environment(places) == made
    asked = [made.python, "-P", "-c", "import clew_shared; print(clew_shared.__version__)"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip() == __version__


def test_an_embedded_python_is_copied_with_no_packages_but_pip(tmp_path: Path) -> None:
    """As the folder for Windows has it: without ``venv``, and with a file that lets it import from nowhere else."""
    names = ["python.exe", "python312.dll", "python312._pth", "python312.zip"]
    packages = ["pip/__init__.py", "pip-26.3.dist-info/METADATA", "pipeline/__init__.py", "numpy/__init__.py"]
    for name in [*names, *(f"Lib/site-packages/{one}" for one in packages)]:
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / name).write_text("")
    copy_python(tmp_path / "source", tmp_path / "copy")
    files = [path for path in (tmp_path / "copy").rglob("*") if path.is_file()]
    assert {path.relative_to(tmp_path / "copy").as_posix() for path in files} == {
        "python.exe",
        "python312.dll",
        "python312.zip",
        "Lib/site-packages/pip/__init__.py",
        "Lib/site-packages/pip-26.3.dist-info/METADATA",
    }


@pytest.mark.needs("venv")
def test_what_cannot_be_installed_leaves_nothing(places: Places, index: Path) -> None:
    index.write_text("tensorflow==1.0\n")
    with pytest.raises(ProblemError) as failed:
        make_environment(places, lambda _: None, no_stop())
    assert failed.value.problems[0].code == "setup.failed"
    assert "tensorflow" in failed.value.problems[0].text
    assert not environment_folder(places).exists()


@pytest.mark.needs("venv")
def test_an_index_that_cannot_be_reached_is_no_conflict_of_versions(
    places: Places, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple")
    with pytest.raises(ProblemError) as failed:
        make_environment(places, lambda _: None, no_stop())
    (problem,) = failed.value.problems
    assert problem.code == "setup.index"
    assert "cannot be reached: " in problem.text
    assert "refused" in problem.text


_HOST = "HTTPSConnection(host='pypi.org', port=443)"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            f"NameResolutionError(\"{_HOST}: Failed to resolve 'pypi.org' ([Errno -3] …)\")",
            "Failed to resolve 'pypi.org",
        ),
        ("ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed: 403 No'))", "403 No"),
        (f'ReadTimeoutError("{_HOST}: Read timed out. (read timeout=15)")', "Read timed out"),
    ],
)
def test_the_reason_is_the_connections_own(error: str, reason: str) -> None:
    retried = f"WARNING: Retrying (Retry(total=0)) after connection broken by '{error}': /simple/keras/"
    conflict = "ERROR: Cannot install keras because these package versions have conflicting dependencies."
    (problem,) = local_environment._failed([retried, conflict]).problems
    assert problem.code == "setup.index"
    assert problem.text.endswith(f"cannot be reached: {reason}.")
    (problem,) = local_environment._failed([retried, "ERROR: [Errno 28] No space left on device"]).problems
    assert (problem.code, "No space left" in problem.text) == ("setup.failed", True), "it came back, and this is why"
    (problem,) = local_environment._failed([conflict]).problems
    assert problem.code == "setup.failed"


@pytest.mark.parametrize("step", ["Making", "Looking"])
@pytest.mark.needs("venv")
def test_one_that_is_stopped_leaves_nothing(places: Places, index: Path, step: str) -> None:
    stop = no_stop()
    steps: list[str] = []

    def report(progress: Progress) -> None:
        steps.append(progress.text)
        if progress.text.startswith(step):
            stop.set()

    with pytest.raises(Cancelled):
        make_environment(places, report, stop)
    assert steps[-1].startswith("Removing")
    assert not environment_folder(places).exists()


def test_one_that_was_killed_half_made_is_not_used(places: Places) -> None:
    python = environment_folder(places) / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert find_environment(places) is None
    assert remove_environment(places)


def test_one_whose_python_has_gone_is_not_used(places: Places) -> None:
    environment_folder(places).mkdir(parents=True)
    gone = Environment(python=str(places.home / "gone"), packages="", clew=__version__, tensorflow="2.20.0")
    (environment_folder(places) / "clew.json").write_bytes(msgspec.json.encode(gone))
    assert find_environment(places) is None


def test_a_full_disk_is_said_before_anything_begins(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_environment, "_LEAST_FREE", 1 << 60)
    with pytest.raises(ProblemError) as refused:
        make_environment(places, lambda _: None, no_stop())
    assert refused.value.problems[0].code == "setup.space"
    assert not environment_folder(places).exists()


def test_two_at_once_are_refused(places: Places) -> None:
    places.home.mkdir(exist_ok=True)
    with local_environment._locked(places):
        holder = "import sys; from clew_gui.commands.main import main; sys.exit(main(['setup-tensorflow', '--remove']))"
        done = subprocess.run([sys.executable, "-c", holder], capture_output=True, text=True, check=False)
    assert (done.returncode, "setup.busy" in done.stderr) == (2, True), done.stderr


@pytest.fixture
def no_venv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPIMAGE", "/apps/clew")


def test_a_python_that_can_make_none_needs_uv(no_venv: None, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Sequence[str]] = []
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/uv")
    monkeypatch.setattr(local_environment, "_run", lambda words, _stop: ran.append(words))
    local_environment._maker()(Path("there"), no_stop())
    assert [list(words[:2]) for words in ran] == [["/bin/uv", "venv"]]
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(ProblemError) as refused:
        local_environment._maker()
    assert refused.value.problems[0].code == "setup.maker"


# --- What is installed ------------------------------------------------------------------------------------------------


@pytest.mark.needs("venv")
def test_the_agents_part_of_clews_requirements_and_tensorflow_are_installed() -> None:
    names = {Requirement(text).name for text in requirements()}
    assert {"msgspec", "pyzmq", "keras", "scikit-learn", "optuna"} <= names
    assert any(name.startswith("tensorflow") for name in names)
    assert not {"PySide6-Essentials", "paramiko", "Jinja2"} & names
    declared = {Requirement(text).name for text in metadata.requires("clew") or ()}
    assert set(local_environment._AGENT) <= declared


@pytest.mark.needs("venv")
def test_versions_are_those_that_were_tested() -> None:
    lines = shipped("clew_gui.targets", "constraints.txt", "packaging").read_text().splitlines()
    pinned = {line.split("==")[0] for line in lines if "==" in line}
    assert {Requirement(text).name.lower() for text in requirements()} <= {name.lower() for name in pinned}


def test_bytes_are_counted_over_all_files() -> None:
    shown: list[Progress] = []
    counted = local_environment._Counted(shown.append)
    for line in (
        "Collecting keras<4,>=3.3",
        "  Downloading https://example.org/keras-3.15.1-py3-none-any.whl (1.5 MB)",
        "Progress 0 of 1500",
        "Progress 1500 of 1500",
        "  Downloading tensorflow_cpu-2.21.0-cp311-cp311-linux_x86_64.whl (260 MB)",
        "Progress 500 of 2000",
        "Installing collected packages: keras, tensorflow-cpu",
    ):
        counted.hear(line)
    assert [(one.text, one.done) for one in shown[2:]] == [
        ("Downloading keras", 0),
        ("Downloading keras", 1500),
        ("Downloading tensorflow-cpu", 1500),
        ("Downloading tensorflow-cpu", 2000),
        ("Installing", local_environment.DOWNLOAD_BYTES),
    ]
