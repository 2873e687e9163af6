"""No question of a login comes out of nowhere: only after a person wanted something of the site."""

from __future__ import annotations

import traceback
from typing import cast

import pytest

from clew_gui.sites.shared_connection import SharedConnection
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.login_policy import NEEDS_PERSON, LoginPromptPolicy
from clew_gui.ssh.prompts import AskOnce, Prompt, PromptKind
from clew_gui.ssh.reconnecting import ReconnectingConnection
from clew_shared.base.problem import ProblemError, problem
from tests.unit.fake_site import Login, a_line

CODE = Prompt(kind=PromptKind.CODE, title="login", text="Code:")
PASSWORD = Prompt(kind=PromptKind.PASSWORD, title="student@login", text="Password:")


class Person:
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
        self.policy = LoginPromptPolicy(AskOnce(self.person))
        self.asker = AskOnce(self.policy)
        self.dials = 0

        class Dialled(Login):
            def connected(inner) -> Login:  # noqa: N805  # the site's is ``self``
                self._dial()
                return super().connected()

        self.login = Dialled()
        self.login.away = problem("ssh.lost", "not dialled yet")
        self.shared = SharedConnection(lambda: a_line(self.login), self.policy)

    def _dial(self) -> None:
        if self.login.alive:
            return
        self.dials += 1
        with self.policy.dialling():
            for prompt in (PASSWORD, CODE):
                self.asker.ask(prompt)
        self.login.away = None

    def hang_up(self) -> None:
        self.login.away = problem("ssh.lost", "gone")


@pytest.fixture
def site() -> Site:
    return Site()


def refused(site: Site) -> bool:
    return site.shared.refusal is not None


def code(error: pytest.ExceptionInfo[ProblemError]) -> str:
    return error.value.problems[0].code


def test_nobody_is_asked_before_a_person_wants_something(site: Site) -> None:
    with pytest.raises(ProblemError) as error:
        site.shared.line()
    assert (code(error), site.person.asked) == (NEEDS_PERSON, [])
    refusal = site.shared.refusal
    assert refusal is not None
    assert "asks for a password" in refusal.text
    traces = {_trace_of_the_next_refusal(site) for _ in range(5)}
    assert site.dials == 1, "the server is not bothered again"
    assert len(traces) == 1, "what is said again and again for a night does not grow"


def _trace_of_the_next_refusal(site: Site) -> int:
    with pytest.raises(ProblemError) as error:
        site.shared.line()
    return len(list(traceback.walk_tb(error.value.__traceback__)))


def test_what_a_person_wants_may_ask_once_and_a_lost_login_waits_for_the_person_again(site: Site) -> None:
    site.shared.allow_prompts()
    site.shared.line()
    assert site.person.asked == [PromptKind.PASSWORD, PromptKind.CODE]
    assert not refused(site)
    site.hang_up()
    site.shared.wake()
    with pytest.raises(ProblemError) as error:
        site.shared.line()
    assert "asks for a one-time code" in str(error.value), "the password is remembered"
    assert site.person.asked == [PromptKind.PASSWORD, PromptKind.CODE]
    assert refused(site)
    site.shared.allow_prompts()
    site.shared.line()
    assert site.person.asked == [PromptKind.PASSWORD, PromptKind.CODE, PromptKind.CODE]
    assert not refused(site)


def test_prompts_allowed_while_a_quiet_login_fails_are_not_lost(site: Site) -> None:
    dial = site._dial

    def allowing() -> None:
        try:
            dial()
        finally:
            site.shared.allow_prompts()

    site._dial = allowing  # type: ignore[method-assign]
    with pytest.raises(ProblemError):
        site.shared.line()
    site._dial = dial  # type: ignore[method-assign]
    assert not refused(site)
    site.shared.line()
    assert site.person.asked == [PromptKind.PASSWORD, PromptKind.CODE]


def test_questions_beyond_the_sites_own_login_are_asked(site: Site) -> None:
    """Such as the key of a compute node that a run of the person's own has reached."""
    assert site.asker.ask(CODE) == "493021"
    assert site.person.asked == [PromptKind.CODE]


def test_without_a_gate_everybody_may_ask(site: Site) -> None:
    door = SharedConnection(lambda: a_line(site.login))
    site.policy.open()
    assert isinstance(door.line(), SiteConnection)
    assert cast(ReconnectingConnection, site.login).alive


def test_after_a_logout_nobody_is_asked_and_nothing_dialled_until_a_person_wants_something(site: Site) -> None:
    site.shared.allow_prompts()
    line = site.shared.line()
    site.shared.log_out("The Cave")
    assert not line.connection.alive
    for _look in range(2):
        with pytest.raises(ProblemError) as error:
            site.shared.line()
        assert code(error) == "ssh.logged_out"
    assert site.person.asked == [PromptKind.PASSWORD, PromptKind.CODE]
    site.shared.allow_prompts()
    site.shared.line()
    assert not refused(site)


def test_what_was_typed_is_forgotten_at_a_logout_also_by_those_who_were_asked_in_turn(site: Site) -> None:
    shared = AskOnce(site.person)
    behind = AskOnce(shared)
    question = Prompt(kind=PromptKind.PASSWORD, title="login", text="Password:")
    behind.ask(question)
    behind.forget()
    assert behind.remembered(question) is None
