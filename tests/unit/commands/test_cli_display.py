"""Whether a window could be seen, asked of real sockets."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew_gui.commands.has_display import has_display


@pytest.fixture
def wayland() -> Iterator[dict[str, str]]:
    """An environment with a socket on which something listens. Paths of sockets are short, hence no tmp_path."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(str(Path(folder) / "wayland-0"))
        server.listen()
        yield {"XDG_RUNTIME_DIR": folder, "WAYLAND_DISPLAY": "wayland-0"}


@pytest.mark.unix("a Unix socket")
def test_a_wayland_server_that_answers_is_a_display(wayland: dict[str, str]) -> None:
    assert has_display(wayland, "linux")
    assert not has_display({**wayland, "QT_QPA_PLATFORM": "offscreen"}, "linux")
    assert not has_display({**wayland, "QT_QPA_PLATFORM": "minimal:fontconfig"}, "linux")


def test_a_forwarded_x_server_is_asked_over_tcp() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1] - 6000
        assert has_display({"DISPLAY": f"127.0.0.1:{number}.0"}, "linux")
    assert not has_display({"DISPLAY": f"127.0.0.1:{number}.0"}, "linux"), "nobody listens any more"


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"DISPLAY": ""},
        {"DISPLAY": ":54321"},
        {"DISPLAY": "unix:54321.0"},
        {"DISPLAY": "nonsense"},
        {"DISPLAY": "127.0.0.1:99999"},
        {"WAYLAND_DISPLAY": "wayland-0", "XDG_RUNTIME_DIR": "/nonexistent"},
        {"WAYLAND_DISPLAY": "wayland-0"},
    ],
)
def test_a_name_behind_which_nobody_answers_is_none(environ: dict[str, str]) -> None:
    assert not has_display(environ, "linux")


@pytest.mark.parametrize(
    ("environ", "system", "expected"),
    [({}, "win32", True), ({}, "darwin", True), ({"SSH_CONNECTION": "1.2.3.4 5 6.7.8.9 22"}, "darwin", False)],
)
def test_other_systems_have_a_screen_but_not_over_ssh(environ: dict[str, str], system: str, expected: bool) -> None:
    assert has_display(environ, system) is expected
