"""Every command in the pages exists, and has the options that the page gives it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import make_site
import pytest

from clew_gui.commands.main import COMMANDS, main

_LINE = re.compile(r"^(?:    )?clew ([a-z][^`\n]*)|`clew ([a-z][^`\n]*)`", re.MULTILINE)
_FLAG = re.compile(r"--[a-z][a-z0-9-]*")
_WITH_A_WORD = ("queue", "run", "site")  # their options depend on the word after them
_LIKE_RUN = ("code", "race", "resume", "scaling", "sweep")  # they take the options of `clew run` as well
_PAGES = sorted(str(page.relative_to(make_site.ROOT)) for page in [make_site.ROOT / "README.md", *make_site.pages()])
_OWN = "--exercises"  # what follows may be an own exercise, with flags that only it has

Help = Callable[..., set[str]]


def _typed(text: str) -> Iterator[list[str]]:
    """The commands in a page, as words."""
    for block, inline in _LINE.findall(text):
        yield shlex.split(re.split(r"  +#|\|", block or inline)[0])


@pytest.fixture(scope="module")
def known() -> dict[tuple[str, ...], set[str]]:
    return {}


@pytest.fixture
def help_of(known: dict[tuple[str, ...], set[str]], home: Path, capsys: pytest.CaptureFixture[str]) -> Help:
    """The options in a command's help, each asked for once."""

    def flags(*words: str) -> set[str]:
        if words not in known:
            main([*words, "--help-all" if words[0] == "run" else "--help"])
            known[words] = set(_FLAG.findall(capsys.readouterr().out))
        return known[words]

    return flags


def _strange(command: str, words: list[str], help_of: Help) -> set[str]:
    """The options that this command does not have."""
    given = {word.partition("=")[0] for word in words if word.startswith("--") and word != "--"}
    asked = [command, *[word for word in words[:1] if command in _WITH_A_WORD and word[0].isalpha()]]
    like_run = help_of("run", "cnn") | help_of("run", "ps-lab") if command in _LIKE_RUN else set()
    return set() if _OWN in given else given - help_of(*asked) - like_run


def _wrong(text: str, help_of: Help) -> list[str]:
    names = {command.name for command in COMMANDS} | {"help", "version"}
    return [
        shlex.join(["clew", command, *words])
        for command, *words in _typed(text)
        if command not in names or _strange(command, words, help_of)
    ]


@pytest.mark.parametrize("page", _PAGES)
def test_commands_and_options_of_the_page_exist(page: str, help_of: Help) -> None:
    assert _wrong((make_site.ROOT / page).read_text(encoding="utf-8"), help_of) == []


def test_what_does_not_exist_is_found(help_of: Help) -> None:
    page = """
    clew rnu softmax
    clew run softmax --batch-size 10      # --nothing
    clew sweep cnn --over learning_rate="0.1, 1" --data digits
and `clew site add mine --hots x`, `clew run softmax --workers 2`, `clew runs --workers 2`
"""
    assert _wrong(page, help_of) == ["clew rnu softmax", "clew site add mine --hots x", "clew runs --workers 2"]


def test_the_pages_have_hundreds_of_commands() -> None:
    pages = [(make_site.ROOT / page).read_text(encoding="utf-8") for page in _PAGES]
    assert sum(len(list(_typed(page))) for page in pages) > 300
