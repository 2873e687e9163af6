"""No question of a login comes out of nowhere: only after a person wanted something of the site."""

from __future__ import annotations

import traceback
from typing import cast

import msgspec
import pytest

from clew_gui.jobs.access import SiteAccess
from clew_gui.jobs.agent_route import Absence, still_missing
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.dial import ReconnectingConnection
from clew_gui.ssh.prompts import NEEDS_PERSON, AskOnce, Prompt, Prompter, PromptKind
from clew_shared.base.problem import ProblemError, problem
from tests.unit.fake_site import AWAY, CLEW, Login, a_line

CODE = Prompt(kind=PromptKind.CODE, title="login", text="Code:")
PASSWORD = Prompt(kind=PromptKind.PASSWORD, title="student@login", text="Password:")


class Person(Prompter):
    """Answers everything and counts it."""

    def __init__(self) -> None:
        self.asked: list[PromptKind] = []

    def ask(self, prompt: Prompt) -> str | None:
        self.asked.append(prompt.kind)
        return "493021"


class Site:
    """A login node that asks for a password and a code, and hangs up when the test says so."""

    def __init__(self) -> None:
        self.person = Person()
        self.access = SiteAccess("lab", lambda _access: a_line(self.login), AskOnce(self.person), quiet=True)
        self.asker = self.access.asker
        self.dials = 0

        class Dialled(Login):
            def connected(inner) -> Login:  # noqa: N805  # the site's is ``self``
                self._dial()
                return super().connected()

        self.login = Dialled()
        self.login.away = problem("ssh.lost", "not dialled yet")

    def _dial(self) -> None:
        if self.login.alive:
            return
        self.dials += 1
        with self.access.dialling():
            for prompt in (PASSWORD, CODE):
                self.asker.ask(prompt)
        self.login.away = None

    def hang_up(self) -> None:
        self.login.away = problem("ssh.lost", "gone")


@pytest.fixture
def site() -> Site:
    return Site()


def refused(site: Site) -> bool:
    return site.access.refusal is not None


def code(error: pytest.ExceptionInfo[ProblemError]) -> str:
    return error.value.problems[0].code


def test_nobody_is_asked_before_a_person_wants_something(site: Site) -> None:
    with pytest.raises(ProblemError) as error:
        site.access.connected()
    assert (code(error), site.person.asked) == (NEEDS_PERSON, [])
    refusal = site.access.refusal
    assert refusal is not None
    assert "asks for a password" in refusal.text
    traces = {_trace_of_the_next_refusal(site) for _ in range(5)}
    assert site.dials == 1, "the server is not bothered again"
    assert len(traces) == 1, "what is said again and again for a night does not grow"


def _trace_of_the_next_refusal(site: Site) -> int:
    with pytest.raises(ProblemError) as error:
        site.access.connected()
    return len(list(traceback.walk_tb(error.value.__traceback__)))


def test_what_a_person_wants_may_ask_once_and_a_lost_login_waits_for_the_person_again(site: Site) -> None:
    site.access.allow_prompts()
    site.access.connected()
    assert site.person.asked == [PromptKind.PASSWORD, PromptKind.CODE]
    assert not refused(site)
    site.hang_up()
    site.access.wake()
    with pytest.raises(ProblemError) as error:
        site.access.connected()
    assert "asks for a one-time code" in str(error.value), "the password is remembered"
    assert site.person.asked == [PromptKind.PASSWORD, PromptKind.CODE]
    assert refused(site)
    site.access.allow_prompts()
    site.access.connected()
    assert site.person.asked == [PromptKind.PASSWORD, PromptKind.CODE, PromptKind.CODE]
    assert not refused(site)


def test_prompts_allowed_while_a_quiet_login_fails_are_not_lost(site: Site) -> None:
    dial = site._dial

    def allowing() -> None:
        try:
            dial()
        finally:
            site.access.allow_prompts()

    site._dial = allowing  # type: ignore[method-assign]
    with pytest.raises(ProblemError):
        site.access.connected()
    site._dial = dial  # type: ignore[method-assign]
    assert not refused(site)
    site.access.connected()
    assert site.person.asked == [PromptKind.PASSWORD, PromptKind.CODE]


def test_questions_beyond_the_sites_own_login_are_asked(site: Site) -> None:
    """Such as the key of a compute node that a run of the person's own has reached."""
    assert site.asker.ask(CODE) == "493021"
    assert site.person.asked == [PromptKind.CODE]


def test_an_access_that_is_not_quiet_asks_at_any_time(site: Site) -> None:
    access = SiteAccess("lab", lambda _access: a_line(site.login), AskOnce(site.person))
    with access.dialling():
        assert access.ask(CODE) == "493021"
    site.access.allow_prompts()
    assert isinstance(access.connected(), SiteConnection)
    assert cast(ReconnectingConnection, site.login).alive


def test_after_a_logout_nobody_is_asked_and_nothing_dialled_until_a_person_wants_something(site: Site) -> None:
    site.access.allow_prompts()
    line = site.access.connected()
    assert site.access.log_out()
    assert not line.ssh.alive
    assert not site.access.log_out(), "nobody is logged in"
    for _look in range(2):
        with pytest.raises(ProblemError) as error:
            site.access.connected()
        assert code(error) == "ssh.logged_out"
    assert site.person.asked == [PromptKind.PASSWORD, PromptKind.CODE]
    site.access.allow_prompts()
    site.access.connected()
    assert not refused(site)


def test_what_was_typed_is_forgotten_at_a_logout_also_by_those_who_were_asked_in_turn(site: Site) -> None:
    shared = AskOnce(site.person)
    behind = AskOnce(shared)
    question = Prompt(kind=PromptKind.PASSWORD, title="login", text="Password:")
    behind.ask(question)
    behind.forget()
    assert behind.remembered(question) is None


# --- A job that runs without its agent: after a while its own log is shown --------------------------------------------

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
