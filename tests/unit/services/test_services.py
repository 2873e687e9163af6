"""The door of Jupyter and TensorBoard, what they are started with, and event files that follow journals."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_agent.services.process import own_folder
from clew_agent.services.programs import prepare, took_port
from clew_agent.services.tensorboard import EventFolder
from clew_agent.services.token_proxy import MAX_HEAD, AccessVerdict, Answer, TokenCheck, TokenProxy
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError
from clew_shared.journal.events import Evaluation, Image, Schema
from clew_shared.journal.files import JournalWriter
from tests.unit.runs import METRICS, RUN, begin_run, describe, points

TOKEN = "the-token"
UNIX_JUPYTER = pytest.mark.unix("Jupyter: it listens on a Unix socket")
T = TypeVar("T")


def head(target: str = "/", *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/1.1", "Host: 127.0.0.1:4444", *headers, "", ""]).encode()


def door(strip: bool = False) -> TokenCheck:
    return TokenCheck(TOKEN, strip)


HTML = "Accept: text/html,*/*"


# --- Who gets in ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_head",
    [
        head(),
        head("/?token="),
        head("/?token=the-tokem"),
        head("/?tok=the-token", HTML),
        head("/", "Cookie: clew=the-token"),
        head("/", f"Cookie: {door().cookie_name}=the-token"),
        head("/", "Authorization: Basic the-token"),
        head("/", "Authorization: token "),
        b"GET /?token=the-token\r\n\r\n",
        b"GET http://elsewhere/?token=the-token HTTP/1.1\r\n\r\n",
        b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nno header\r\n\r\n",
    ],
)
def test_without_the_token_nobody_gets_in(request_head: bytes) -> None:
    assert door().look(request_head).answer is Answer.REFUSE


def test_a_program_brings_the_token_each_time() -> None:
    assert door().look(head("/api/status?token=the-token")).answer is Answer.PASS
    assert door().look(head("/api", "Authorization: token the-token", method="POST")).answer is Answer.PASS


def test_a_browser_brings_it_once_and_then_a_cookie() -> None:
    one = door(strip=True)
    verdict = one.look(head("/lab?token=the-token&a=1", HTML))
    assert (verdict.answer, verdict.target) == (Answer.WELCOME, "/lab?a=1")
    answer = one.welcome(verdict.target).decode()
    assert answer.startswith("HTTP/1.1 303 ")
    cookie = next(line for line in answer.split("\r\n") if line.startswith("Set-Cookie: "))
    assert "HttpOnly" in cookie
    assert TOKEN not in answer
    pair = cookie.removeprefix("Set-Cookie: ").split(";")[0]
    assert one.look(head("/lab", f"Cookie: other=1; {pair}")).answer is Answer.PASS
    assert TokenCheck("another", True).look(head("/lab", f"Cookie: {pair}")).answer is Answer.REFUSE


def test_what_wants_the_token_itself_keeps_it() -> None:
    assert door().look(head("/lab?token=the-token", HTML)).target == "/lab?token=the-token"


def test_an_address_that_is_none_is_refused() -> None:
    assert door().look(head("//[x?token=the-token", HTML)).answer is Answer.REFUSE


def test_nobody_is_sent_to_another_host() -> None:
    assert door(strip=True).look(head("//elsewhere/?token=the-token", HTML)).target == "/"
    assert door(strip=True).look(head("///elsewhere?token=the-token", HTML)).target.startswith("/elsewhere")


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ((), 0),
        (("Content-Length: 12",), 12),
        (("content-length: 12", "Content-Length: 12"), 12),
        (("Transfer-Encoding: chunked",), None),
        (("Connection: Upgrade", "Upgrade: websocket"), None),
    ],
)
def test_how_long_a_request_is(headers: tuple[str, ...], body: int | None) -> None:
    assert door().look(head("/?token=the-token", *headers)) == AccessVerdict(Answer.PASS, body=body)


@pytest.mark.parametrize(
    "headers",
    [
        ("Content-Length: 12", "Content-Length: 13"),
        ("Content-Length: +12",),
        ("Content-Length: 1e3",),
        ("Content-Length: 12", "Transfer-Encoding: chunked"),
    ],
)
def test_a_request_whose_length_is_unclear_is_refused(headers: tuple[str, ...]) -> None:
    assert door().look(head("/?token=the-token", *headers)).answer is Answer.REFUSE


@given(st.binary(max_size=300))
def test_no_bytes_open_or_break_the_door(data: bytes) -> None:
    assert door().look(data + b"\r\n\r\n").answer is Answer.REFUSE


# --- What passes through it -------------------------------------------------------------------------------------------


def behind_a_door(path: Path, use: Callable[[Path, list[bytes]], Awaitable[T]]) -> T:
    """What ``use`` makes of the door's socket; the list is what was heard behind it. There, all is echoed."""

    async def play() -> T:
        heard: list[bytes] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append(await reader.readuntil(b"\r\n\r\n"))
            while data := await reader.read(1000):
                writer.write(data)
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        front = TokenProxy(door(), lambda: asyncio.open_connection("127.0.0.1", port))
        try:
            await front.listen(path / "d")
            return await use(path / "d", heard)
        finally:
            await front.close()
            server.close()
            await server.wait_closed()

    return asyncio.run(play())


async def say(path: Path, data: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(data)
    writer.write_eof()
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.unix("services: they listen on Unix sockets")
def test_bodies_pass_both_ways(tmp_path: Path) -> None:
    async def use(path: Path, heard: list[bytes]) -> bytes:
        length = "Content-Length: 300000"
        return await say(path, head("/?token=the-token", length, method="POST") + b"x" * 300_000)

    assert behind_a_door(tmp_path, use) == b"x" * 300_000


@pytest.mark.unix("services: they listen on Unix sockets")
def test_each_request_of_a_connection_needs_the_token(tmp_path: Path) -> None:
    good, other = head("/1?token=the-token"), head("/2?token=the-token", "Content-Length: 3", method="PUT") + b"abc"

    async def use(path: Path, heard: list[bytes]) -> bytes:
        return await say(path, good + other + head("/3") + good)

    assert behind_a_door(tmp_path, use) == other


@pytest.mark.unix("services: they listen on Unix sockets")
def test_strangers_are_told_nothing_and_not_heard_behind(tmp_path: Path) -> None:
    async def use(path: Path, heard: list[bytes]) -> tuple[bytes, list[bytes]]:
        assert await say(path, b"x" * (MAX_HEAD + 100)) == b""
        return await say(path, head()), heard

    answer, heard = behind_a_door(tmp_path, use)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert not heard


@pytest.mark.unix("services: they listen on Unix sockets")
def test_a_program_that_has_ended_is_a_bad_gateway(tmp_path: Path) -> None:
    async def play() -> bytes:
        async def nobody() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            raise ConnectionRefusedError

        front = TokenProxy(door(), nobody)
        try:
            await front.listen(tmp_path / "d")
            return await say(tmp_path / "d", head("/?token=the-token"))
        finally:
            await front.close()

    assert asyncio.run(play()).startswith(b"HTTP/1.1 502 ")


# --- How they are started ---------------------------------------------------------------------------------------------


def places(tmp_path: Path) -> Places:
    return Places(home=tmp_path, private=tmp_path / "private")


@pytest.mark.unix("services: they listen on Unix sockets")
@pytest.mark.parametrize("kind", ["jupyter", "tensorboard"])
def test_the_token_stands_in_no_argument_and_no_environment(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "service"
    folder.mkdir()
    made = prepare(kind, folder, TOKEN, places(tmp_path), lambda _: True)
    assert TOKEN not in str(made.command) + str(made.environment)
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o077 == 0


@UNIX_JUPYTER
def test_jupyter_knows_the_token_and_listens_on_no_port(tmp_path: Path) -> None:
    made = prepare("jupyter", tmp_path, TOKEN, places(tmp_path), lambda name: name == "notebook")
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
    made = prepare("jupyter", tmp_path, TOKEN, places(tmp_path), lambda _: True)
    first, *others = made.environment["PYTHONPATH"].split(":")
    assert [path.name for path in Path(first).glob("*.py")] == ["ipykernel_launcher.py"]
    assert others == ["/opt/site"]
    monkeypatch.delenv("PYTHONPATH")
    assert prepare("jupyter", tmp_path, TOKEN, places(tmp_path), lambda _: True).environment["PYTHONPATH"] == first


@pytest.mark.unix("services: they listen on Unix sockets")
def test_a_kernel_that_jupyter_wants_on_a_port_does_not_start(tmp_path: Path) -> None:
    made = prepare("jupyter", tmp_path, TOKEN, places(tmp_path), lambda _: True)
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
    made = prepare(
        "jupyter",
        tmp_path,
        TOKEN,
        places(tmp_path),
        lambda _: False,
        lambda name: path if name == "jupyter-lab" else None,
    )
    assert made.command[0] == path


@pytest.mark.parametrize(
    ("kind", "code", "words"),
    [
        pytest.param("jupyter", "service.missing", "pip install jupyterlab", marks=UNIX_JUPYTER),
        ("tensorboard", "service.missing", "pip install tensorboard"),
        ("shell", "service.kind", "jupyter, tensorboard"),
    ],
)
def test_what_is_not_there_is_said_with_what_to_do(kind: str, code: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ProblemError) as caught:
        prepare(kind, tmp_path, TOKEN, places(tmp_path), lambda _: False, lambda _: None)
    found = caught.value.problems[0]
    assert found.code == code
    assert words in found.hint


# --- Event files that follow journals ---------------------------------------------------------------------------------


def board(folder: Path) -> Any:
    """What TensorBoard itself reads."""
    reader: Any = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    accumulator = reader.EventAccumulator(str(folder), size_guidance={"scalars": 0})
    accumulator.Reload()
    return accumulator


def tags(folder: Path) -> dict[str, Any]:
    """The names by kind."""
    return dict(board(folder).Tags())


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """The values by name."""
    accumulator = board(folder)
    return {tag: [(e.step, e.value) for e in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}


def test_event_files_follow_a_journal_and_its_next_attempt(tmp_path: Path, expect_logs: Callable[..., None]) -> None:
    expect_logs("Purging expired events")  # TensorBoard's own words
    run = begin_run(tmp_path / "runs" / RUN)
    folder = EventFolder(tmp_path / "runs", tmp_path / "events")
    folder.update()
    with JournalWriter.create(run.journal(1)) as writer:
        writer.append(describe(run))
        writer.append(Schema(id=1, metrics=METRICS))
        writer.append(points(0, [4, 3]))
        folder.update()
        seen = tmp_path / "events/softmax-5f2b8c1e"
        assert scalars(seen)["loss"] == [(0, 4.0), (1, 3.0)]
        writer.append(points(2, [2, 1]))
        writer.append(Evaluation(step=4, values={"test_accuracy": 0.5}))
        writer.append(Image(name="samples", step=4, width=2, height=1, channels=1, data=b"\0\xff"))
        writer.append(Image(name="torn", step=4, width=2, height=2, channels=1, data=b"\0\xff"))
    folder.update()
    folder.update()
    assert tags(seen)["images"] == ["samples"], "pictures too, as far as they are whole"
    assert scalars(seen) == {
        "loss": [(0, 4.0), (1, 3.0), (2, 2.0), (3, 1.0)],
        "W": [(step, 10.0 * step) for step in range(4)],
        "test_accuracy": [(4, 0.5)],
    }
    with JournalWriter.create(run.journal(2)) as writer:
        writer.append(describe(run, 2, resumes=1, start_step=2))
        writer.append(Schema(id=1, metrics=METRICS))
        writer.append(points(2, [7]))
    folder.update()
    assert scalars(seen)["loss"] == [(0, 4.0), (1, 3.0), (2, 7.0)]


def test_of_a_long_run_points_are_left_out_evenly(tmp_path: Path) -> None:
    run = begin_run(tmp_path / "runs" / RUN)
    with JournalWriter.create(run.journal(1)) as writer:
        writer.append(describe(run))
        writer.append(Schema(id=1, metrics=METRICS))
        writer.append(points(131_068, [1, 2, 3, 4]))
        writer.append(points(131_073, [5, 6, 7]))
        writer.append(points(262_143, [8, 9, 10, 11, 12]))
    EventFolder(tmp_path / "runs", tmp_path / "events").update()
    steps = [step for step, _ in scalars(tmp_path / "events/softmax-5f2b8c1e")["loss"]]
    assert steps == [131_068, 131_069, 131_070, 131_071, 131_074, 262_144]
