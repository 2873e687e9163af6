"""``clew open tensorboard`` with the real TensorBoard: a live run's curve through its own pages, for the token only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from clew_shared.base import operating_system
from clew_shared.journal.events import Schema
from clew_shared.journal.files import JournalWriter
from tests.integration.agents import wait_for
from tests.unit.runs import METRICS, RUN, begin_run, describe, points, small_run

pytestmark = pytest.mark.timeout(240)
SITES = "6a3c9d2f-0000-4000-8000-000000000002"


def test_a_live_run_and_a_copy_of_a_sites_are_shown_to_whoever_has_the_token(home: Path, tmp_path: Path) -> None:
    small_run(home / "mirrors" / SITES)
    run = begin_run(home / "runs" / RUN)
    command = [sys.executable, "-P", "-m", "clew_gui", "open", "tensorboard", "--no-browser"]
    temporary = {name: str(tmp_path) for name in ("TMPDIR", "TEMP")}
    with (
        JournalWriter.create(run.journal(1)) as writer,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, env={**os.environ, **temporary}, **operating_system.own_session()
        ) as process,
    ):
        try:
            writer.append(describe(run))
            writer.append(Schema(id=1, metrics=METRICS))
            writer.append(points(0, [4, 3]))
            assert process.stdout is not None
            url, _, token = process.stdout.readline().decode().strip().partition("?token=")
            assert url.startswith("http://127.0.0.1:")
            opened = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar())).open
            for wanted in ("data/runs", "", "?token=wrong"):
                with pytest.raises(urllib.error.HTTPError, match="403"):
                    opened(url + wanted, timeout=30)
            assert b"TensorBoard" in opened(f"{url}?token={token}", timeout=30).read()
            titles = [f"softmax-{name[:8]}" for name in (RUN, SITES)]
            wait_for(lambda: set(titles) <= set(told(opened, f"{url}data/runs")), "both runs")
            assert curve(opened, url, titles[0]) == [4.0, 3.0]
            writer.append(points(2, [2, 1]))
            wait_for(lambda: curve(opened, url, titles[0]) == [4.0, 3.0, 2.0, 1.0], "its next points")
        finally:
            operating_system.pass_on(process, signal.SIGTERM)
            process.wait(60)
    assert process.returncode == 0
    assert list(tmp_path.glob("clew-tensorboard-*")) == []


def told(opened: Callable[..., Any], url: str) -> Any:
    """What it says at an address, as JSON."""
    return json.loads(opened(url, timeout=30).read())


def curve(opened: Callable[..., Any], url: str, run: str) -> list[float]:
    """The losses that TensorBoard shows of a run."""
    try:
        rows = told(opened, f"{url}data/plugin/scalars/scalars?{urlencode({'run': run, 'tag': 'loss'})}")
    except urllib.error.HTTPError:  # it has not read it yet
        return []
    return [value for _, _, value in rows]
