"""A job that runs without its agent: after a while its own log is shown."""

from __future__ import annotations

import msgspec
import pytest

from clew_gui.jobs.agent_route import Absence, still_missing
from clew_shared.base.problem import ProblemError
from tests.unit.fake_site import AWAY, CLEW, Login, a_line

JOB = "0f3d6c52-8f0e-4c1b-9a70-3b6a4b1f2c11"
FOLDER = f"{CLEW}/jobs/{JOB}"
SOON = "The job runs; its agent is starting."
MISSING = "The job has run for more than 2 minutes without its agent."


class Scene:
    """A site, and a clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0
        self.login = Login()
        self.line = a_line(self.login)
        self.missing = Absence()
        self.after(0.0)

    def after(self, seconds: float) -> str:
        """What is said when it is still missing so much later."""
        self.now += seconds
        self.missing = still_missing(self.missing, self.line, JOB, self.now)
        return self.missing.text


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_two_minutes_are_usual(scene: Scene) -> None:
    assert scene.after(119.0) == SOON
    assert scene.after(1.0).startswith(MISSING)


def test_then_the_logs_last_lines_are_told_with_what_to_do(scene: Scene) -> None:
    scene.login.files[f"{FOLDER}/job.log"] = b"one\ntwo\n\n  three\x1b[1m\r\nModuleNotFoundError: zmq.\n"
    assert scene.after(120.0) == (
        f"{MISSING} Its log, {FOLDER}/job.log on Lab, ends with: two three[1m ModuleNotFoundError: zmq. "
        "Fix that, or cancel the job; a check of the site with a small job tries a node."
    )


def test_an_empty_log_is_said_with_where_to_look(scene: Scene) -> None:
    scene.login.files[f"{FOLDER}/job.log"] = b"\n"
    text = scene.after(120.0)
    assert f"Nothing is in its log yet, {FOLDER}/job.log on Lab." in text
    assert "modules, its prologue or ~/.bashrc" in text


def test_where_the_job_wrote_nothing_the_schedulers_words_count(scene: Scene) -> None:
    scene.login.files[f"{FOLDER}/scheduler.log"] = b"/bin/bash: line 1: conda: command not found\n"
    text = scene.after(120.0)
    assert f"Its log, {FOLDER}/scheduler.log on Lab, ends with: /bin/bash: line 1: conda: command not found." in text


def test_a_long_log_is_told_in_short(scene: Scene) -> None:
    scene.login.files[f"{FOLDER}/job.log"] = b"x" * 100_000 + b"the end"
    text = scene.after(120.0)
    assert "xxthe end. Fix that" in text
    assert len(text) < 700


def test_the_log_is_read_again_after_a_while(scene: Scene) -> None:
    scene.after(120.0)
    scene.login.files[f"{FOLDER}/job.log"] = b"loading\n"
    assert "Nothing is in its log yet" in scene.after(10.0)
    assert "ends with: loading." in scene.after(20.0)


def test_time_in_which_nobody_knows_does_not_count(scene: Scene) -> None:
    scene.after(60.0)
    scene.missing = msgspec.structs.replace(scene.missing, looked=None)
    assert scene.after(3600.0) == SOON
    assert scene.after(59.0) == SOON
    assert scene.after(1.0).startswith(MISSING)


def test_a_job_that_begins_anew_has_its_two_minutes_again(scene: Scene) -> None:
    assert scene.after(120.0).startswith(MISSING)
    scene.missing = Absence()
    assert scene.missing.text == SOON
    assert scene.after(3600.0) == SOON
    assert scene.after(119.0) == SOON
    assert scene.after(1.0).startswith(MISSING)


def test_a_lost_link_is_passed_on(scene: Scene) -> None:
    scene.login.away = AWAY
    with pytest.raises(ProblemError, match="was lost"):
        scene.after(120.0)
    scene.login.away = None
    assert scene.after(1.0).startswith(MISSING)
