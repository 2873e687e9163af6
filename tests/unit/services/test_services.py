"""What Jupyter is started with."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import pytest

from clew_agent.services.jupyter import prepare, took_port
from clew_agent.services.process import own_folder
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError

TOKEN = "the-token"
UNIX_JUPYTER = pytest.mark.unix("Jupyter: it listens on a Unix socket")


@pytest.mark.unix("services: they listen on Unix sockets")
def test_the_token_stands_in_no_argument_and_no_environment(tmp_path: Path) -> None:
    folder = tmp_path / "service"
    folder.mkdir()
    made = prepare(folder, TOKEN, lambda _: True)
    assert TOKEN not in str(made.command) + str(made.environment)
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o077 == 0


@UNIX_JUPYTER
def test_jupyter_knows_the_token_and_listens_on_no_port(tmp_path: Path) -> None:
    made = prepare(tmp_path, TOKEN, lambda name: name == "notebook")
    assert made.page == "/tree"
    config = json.loads((tmp_path / "jupyter.json").read_text())
    assert config["IdentityProvider"]["token"] == TOKEN
    assert config["ServerApp"]["sock"] == str(tmp_path / "s")
    assert config["ConnectionFileMixin"]["transport"] == "ipc"


@pytest.mark.unix("services: they listen on Unix sockets")
def test_python_kernels_find_the_starter_that_takes_no_port_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/opt/site")
    made = prepare(tmp_path, TOKEN, lambda _: True)
    first, *others = made.environment["PYTHONPATH"].split(":")
    assert [path.name for path in Path(first).glob("*.py")] == ["ipykernel_launcher.py"]
    assert others == ["/opt/site"]
    monkeypatch.delenv("PYTHONPATH")
    assert prepare(tmp_path, TOKEN, lambda _: True).environment["PYTHONPATH"] == first


@pytest.mark.unix("services: they listen on Unix sockets")
def test_a_kernel_that_jupyter_wants_on_a_port_does_not_start(tmp_path: Path) -> None:
    made = prepare(tmp_path, TOKEN, lambda _: True)
    words = (sys.executable, "-m", "ipykernel_launcher", "--transport=tcp")
    environment = {**os.environ, **made.environment}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "on sockets only" in done.stderr


@pytest.mark.parametrize("name", ["jpserver-4.json", "nbserver-4.json"])
def test_a_jupyter_too_old_for_sockets_is_noticed_by_what_it_writes(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    assert not took_port(tmp_path)
    file.write_text('{"port": 88')
    assert not took_port(tmp_path), "it is being written"
    file.write_text('{"port": 8888, "pid": 4}')
    assert took_port(tmp_path)
    file.write_text('{"port": 0, "sock": "/tmp/v-4/s"}')
    assert not took_port(tmp_path)


@pytest.mark.unix("services: they listen on Unix sockets")
@pytest.mark.parametrize(("length", "inside"), [(46, True), (47, False)])
def test_the_paths_of_a_kernels_sockets_are_short_enough(
    length: int, inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("t" * 50)))
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        private = Path(short, "p" * (length - len(short) - 1))
        folder = own_folder(Places(home=tmp_path, private=private))
        try:
            assert folder.parent == (private if inside else Path("/tmp"))
            assert folder.stat().st_mode & 0o777 == 0o700
            with socket.socket(socket.AF_UNIX) as one:
                one.bind(str(folder / f"kernel-{uuid.uuid4()}-ipc-1"))
        finally:
            shutil.rmtree(folder)


@UNIX_JUPYTER
def test_a_jupyter_of_another_python_is_taken_where_ours_has_none(tmp_path: Path) -> None:
    path = "/opt/jupyter/bin/jupyter-lab"
    made = prepare(tmp_path, TOKEN, lambda _: False, lambda name: path if name == "jupyter-lab" else None)
    assert made.command[0] == path


@UNIX_JUPYTER
def test_a_jupyter_that_is_not_there_is_missed_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ProblemError) as caught:
        prepare(tmp_path, TOKEN, lambda _: False, lambda _: None)
    found = caught.value.problems[0]
    assert found.code == "service.missing"
    assert "pip install jupyterlab" in found.hint
