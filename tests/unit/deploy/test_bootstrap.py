"""What of installing the agent needs no site: which wheels run where, what is sent, what is said."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.deploy.bundle import digests, name_of, own_files, packed, source_of
from clew_gui.deploy.packages import from_here, platforms, suits
from clew_gui.deploy.probe import Probe, probe, python_problems
from clew_gui.deploy.remote_python import FRAMEWORK, SMALL, Need, pythons, remote_word
from clew_gui.schedulers.state import Output
from clew_gui.sites.site import Site
from clew_gui.sites.site_connection import SiteConnection, SiteLayout
from clew_shared.base.problem import ProblemError
from clew_shared.catalogue import known_sets
from clew_shared.data_sets import BUILT_IN, brought_as, packaged_file

PROJECT = Path(__file__).parents[3]
BOOTSTRAP = PROJECT / "gui/clew_gui/deploy"

SITE = Probe(
    python="3.11.9",
    executable="/opt/python/bin/python3",
    implementation="cpython",
    system="Linux",
    machine="x86_64",
    libc=(2, 28),
    path="",
    have={"tensorflow": "2.17.0", "keras": "3.5.0", "numpy": "1.26.4"},
    missing=(),
    packages="",
    states={},
    pip="24.0",
    free=10**9,
)


def other(**changed: Any) -> Probe:
    """The usual site with something else."""
    return msgspec.structs.replace(SITE, **changed)


def line() -> SiteConnection:
    nobody: Any = None
    return SiteConnection("uni cluster", Site(title="The university's", host="login"), nobody)


# --- Wheels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "runs"),
    [
        ("py3-none-any", True),
        ("py2.py3-none-any", True),
        ("py2-none-any", False),
        ("cp311-cp311-manylinux_2_17_x86_64", True),
        ("cp311-cp311-manylinux2014_x86_64", True),
        ("cp311-cp311-manylinux_2_5_x86_64.manylinux1_x86_64", True),
        ("cp311-cp311-manylinux_2_28_x86_64", True),
        ("cp311-cp311-manylinux_2_34_x86_64", False),
        ("cp311-cp311-manylinux_2_34_x86_64.manylinux_2_17_x86_64", True),
        ("cp311-cp311-manylinux_2_17_aarch64", False),
        ("cp311-cp311-musllinux_1_2_x86_64", False),
        ("cp311-cp311-macosx_11_0_arm64", False),
        ("cp311-cp311-win_amd64", False),
        ("cp310-cp310-manylinux_2_17_x86_64", False),
        ("cp312-cp312-manylinux_2_17_x86_64", False),
        ("cp36-abi3-manylinux_2_17_x86_64", True),
        ("cp312-abi3-manylinux_2_17_x86_64", False),
        ("cp311-cp311t-manylinux_2_17_x86_64", False),
        ("nonsense", False),
        ("", False),
    ],
)
def test_which_wheels_run_there(tag: str, runs: bool) -> None:
    assert suits(tag, SITE) is runs


def test_another_library_takes_pure_wheels_alone() -> None:
    alpine = other(libc=())
    assert suits("py3-none-any", alpine)
    assert not suits("cp311-cp311-manylinux_2_17_x86_64", alpine)
    assert not suits("cp311-cp311-linux_x86_64", alpine)
    assert platforms(alpine) == ["any"]


def test_platforms_are_those_up_to_the_sites_glibc() -> None:
    tags = platforms(SITE)
    assert tags[0] == "manylinux_2_28_x86_64"
    assert {"manylinux_2_17_x86_64", "manylinux2014_x86_64"} <= set(tags)
    assert "manylinux_2_29_x86_64" not in tags
    assert platforms(other(machine="aarch64", libc=(2, 17)))[0] == "manylinux_2_17_aarch64"


def test_this_computers_packages_go_where_they_run() -> None:
    tomli = next(need for need in SMALL if need.name == "tomli-w")
    assert any(path.endswith("tomli_w/__init__.py") for path in from_here(tomli, SITE))
    assert any("METADATA" in path for path in from_here(tomli, other(machine="riscv64")))
    msgpack = next(need for need in SMALL if need.name == "msgspec")
    assert from_here(msgpack, other(machine="riscv64")) == {}
    assert from_here(msgspec.structs.replace(tomli, least="99"), SITE) == {}
    assert from_here(Need("no-such-package", "nothing", "1"), SITE) == {}


def test_an_editable_installation_is_no_package_to_copy() -> None:
    assert from_here(Need("clew", "clew_shared", "0"), SITE) == {}


# --- What is sent -----------------------------------------------------------------------------------------------------


def test_what_the_agent_needs_is_what_the_project_names() -> None:
    table = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    lines = [*table["dependencies"], *(one for group in table["optional-dependencies"].values() for one in group)]
    least = {match[1]: match[2] for one in lines if (match := re.match(r"([\w-]+)>=([\d.]+)", one))}
    assert {need.name: need.least for need in (*SMALL, *FRAMEWORK)}.items() <= least.items()


def test_all_that_the_agent_imports_is_brought_or_the_sites() -> None:
    known = {need.module for need in (*SMALL, *FRAMEWORK)} | {"clew_agent", "clew_shared"}
    optional = {"PIL", "ipykernel", "optuna", "pyarrow", "sklearn", "tensorboard", "threadpoolctl"}
    of_tensorflow = {"google"}  # its protobuf
    for path, data in own_files().items():
        if path.endswith(".py"):
            assert imported(data.decode()) - known - optional - of_tensorflow <= standard(), path


def imported(source: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def standard() -> set[str]:
    return set(sys.stdlib_module_names)


def test_the_bundle_is_the_running_program_with_its_catalogue() -> None:
    files = own_files()
    assert files["clew_agent/__main__.py"] == (PROJECT / "agent/clew_agent/__main__.py").read_bytes()
    assert {"clew_shared/builtin_catalogue.json", "clew_agent/exercises/softmax.py"} <= files.keys()
    assert not [path for path in files if "__pycache__" in path]


def test_the_digits_come_along_where_this_computer_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    digits = known_sets()[BUILT_IN]
    file = packaged_file(digits)
    assert file is not None
    assert own_files()[brought_as(digits)] == file.read_bytes()
    monkeypatch.setattr("clew_gui.deploy.bundle.packaged_file", lambda _: None)
    assert brought_as(digits) not in own_files()


def test_the_name_stands_for_the_content_and_the_archive_for_it() -> None:
    files = {"a/b.py": b"1", "c": b""}
    assert name_of("agent", files) == name_of("agent", dict(reversed(files.items())))
    assert name_of("agent", files) != name_of("agent", files | {"c": b"2"})
    assert packed(files) == packed(dict(reversed(files.items())))
    with tarfile.open(fileobj=BytesIO(packed(files))) as archive:
        assert {name: archive.extractfile(name).read() for name in archive.getnames()} == files  # type: ignore[union-attr]
    assert digests(files)["c"].startswith("e3b0c442")


@given(st.data())
def test_a_folder_can_be_read_again_from_anywhere(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("set")
    for number, size in enumerate(data.draw(st.lists(st.integers(0, 1100), min_size=1, max_size=4))):
        (folder / f"{number}.bin").write_bytes(bytes([number + 1]) * size)
    source = source_of(folder, print)
    whole = source.read(0, source.size)
    offset = data.draw(st.integers(0, source.size))
    limit = data.draw(st.integers(0, source.size))
    assert source.read(offset, limit) == whole[offset : offset + limit]
    with tarfile.open(fileobj=BytesIO(whole), mode="r:") as archive:
        archive.extractall(folder / "out", filter="data")
    assert digests({path.name: path.read_bytes() for path in (folder / "out").iterdir()}) == source.files


# --- What runs there --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["probe_there.py", "install_there.py"])
def test_what_runs_there_is_of_an_old_python_and_its_library_alone(name: str) -> None:
    source = (BOOTSTRAP / name).read_text()
    ast.parse(source, feature_version=(3, 6))
    assert imported(source) <= standard()
    assert ":=" not in source
    assert "from __future__ import annotations" not in source  # 3.7 brought it


@given(st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"]), min_size=1))
def test_a_path_of_the_site_is_one_word_of_its_shell(rest: str) -> None:
    for path in (f"/opt/{rest}", f"~/{rest}"):
        words = shlex.split(remote_word(path).replace('"$HOME"', "HOME"))
        assert words == [path.replace("~", "HOME", 1) if path[0] == "~" else path]


@pytest.mark.unix("a shell of a site")
def test_the_home_folder_is_the_sites() -> None:
    done = subprocess.run(
        ["sh", "-c", f"printf '%s|' {remote_word('~/my env/bin')} {remote_word('~')} {remote_word('~other')}"],
        env={"HOME": "/home/ann"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "/home/ann/my env/bin|/home/ann|~other|"


def test_a_venv_comes_before_a_python_and_that_before_the_modules() -> None:
    assert pythons(Site(host="x", venv="~/env/", python="/opt/python3")) == ("~/env/bin/python",)
    assert pythons(Site(host="x", python="/opt/python3")) == ("/opt/python3",)
    assert pythons(Site(host="x"))[0] == "python3"


# --- What is said -----------------------------------------------------------------------------------------------------


def test_a_good_site_is_not_refused() -> None:
    assert python_problems(line(), SITE) == []


@pytest.mark.parametrize(
    ("found", "code", "words"),
    [
        (other(python="3.6.8"), "bootstrap.old", "is Python 3.6.8; the agent needs 3.11 or newer"),
        (other(machine="ppc64le"), "bootstrap.machine", "is Linux on ppc64le"),
        (other(have={}, missing=("tensorflow", "keras")), "bootstrap.tensorflow", "has no TensorFlow"),
        (
            other(have={"tensorflow": "2.13.1"}, missing=("tensorflow",)),
            "bootstrap.tensorflow",
            "has TensorFlow 2.13.1; the exercises need 2.16 or newer",
        ),
        (other(missing=("keras",)), "bootstrap.keras", "Keras"),
        (other(have={}, missing=("numpy",)), "bootstrap.numpy", "has no numpy"),
    ],
)
def test_each_lack_has_its_own_sentence(found: Probe, code: str, words: str) -> None:
    (problem,) = python_problems(line(), found)
    assert problem.code == code
    assert words in problem.text
    assert "The university's" in problem.text
    assert problem.hint


def test_without_tensorflow_it_says_what_to_do_and_how_large_it_is() -> None:
    (problem,) = python_problems(line(), other(have={}, missing=("tensorflow",)))
    assert "clew site modules 'uni cluster'" in problem.command_text()
    assert "1.5 GB" in problem.hint
    assert "venv" in problem.hint


def test_a_modules_own_python_that_was_passed_over_is_named() -> None:
    (problem,) = python_problems(
        line(), other(have={}, missing=("tensorflow",), too_old="/mnt/sw/python-3.6.8/bin/python3")
    )
    assert problem.text.endswith(
        "/mnt/sw/python-3.6.8/bin/python3, which is found there first, was passed over: it is older than Python 3.11."
    )


GOOD = msgspec.to_builtins(SITE)
HOSTILE = [
    {},
    GOOD | {"python": "three"},
    GOOD | {"python": "3"},
    GOOD | {"have": ["tensorflow"]},
    GOOD | {"libc": ["x"]},
    GOOD | {"free": None},
    {"refused": ["python"]},
    {"refused": "python"},
]


@pytest.mark.parametrize(
    "answer", [json.dumps(one) for one in HOSTILE] + ["[1]", "", "{", "null", "NaN", "\0", "[" * 9999]
)
def test_an_answer_that_makes_no_sense_is_a_problem(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = line()

    def work(command: tuple[str, ...], *, stdin: bytes, moved: Callable[[], None]) -> Output:
        mark = re.search(rb"echo (clew-\w+:)", stdin)
        assert mark is not None
        return Output(0, f"Welcome\n{mark[1].decode()}{answer}\nGoodbye\n")

    monkeypatch.setattr(nobody, "work", work)
    monkeypatch.setattr(nobody, "layout", lambda: SiteLayout("/home/ann/clew"))
    with pytest.raises(ProblemError) as refused:
        probe(nobody)
    assert refused.value.problems[0].hint
