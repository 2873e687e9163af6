"""Every command in the pages exists, and has the options that the page gives it."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import make_site
import pytest

from clew_gui.commands.main import COMMANDS, main
from clew_gui.commands.why import PAGES, entries, explanations, matching
from clew_gui.deploy.remote_python import FRAMEWORK
from clew_shared.base.problem import Problem, ProblemError

_LINE = re.compile(r"^(?:    )?clew ([a-z][^`\n]*)|`clew ([a-z][^`\n]*)`", re.MULTILINE)
_FLAG = re.compile(r"--[a-z][a-z0-9-]*")
_WITH_A_WORD = ("course", "queue", "run", "site")  # their options depend on the word after them
_LIKE_RUN = ("code", "race", "resume", "scaling", "sweep")  # they take the options of `clew run` as well
_PAGES = sorted(str(page.relative_to(make_site.ROOT)) for page in [make_site.ROOT / "README.md", *make_site.pages()])
_OWN = "--exercises", ".py"  # an exercise of one's own may have flags that only it has

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
    if any(word.endswith(_OWN) for word in words):
        return set()
    asked = [command, *[word for word in words[:1] if command in _WITH_A_WORD and word[0].isalpha()]]
    like_run = help_of("run", "cnn") | help_of("run", "ps-lab") if command in _LIKE_RUN else set()
    return given - help_of(*asked) - like_run


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


# --- Every code of a problem has one explanation, and every explanation belongs to a code of the program --------------

_CODE = re.compile(r'"([a-z]+(?:\.[a-z_]+)+)"')
_FILE = re.compile(r"\.(html|json|jsonl|log|sh|toml|txt)$")
_MODULE = re.compile(r"tensorboard\.(compat|default|program)")
_COMMANDS = "commands/main.py"  # its table names modules, such as run.queue


@pytest.fixture(scope="module")
def spoken() -> dict[str, list[str]]:
    return make_site.sentences()


def _codes() -> Iterator[str]:
    """What looks like a code in the program, is of a family of codes, and is no file's name."""
    families = {code.partition(".")[0] for code in explanations()}
    for folder in make_site.PRODUCT:
        for path in (one for one in folder.rglob("*.py") if not one.match(_COMMANDS)):
            for text in _CODE.findall(path.read_text(encoding="utf-8")):
                if text.partition(".")[0] in families and not _FILE.search(text) and not _MODULE.match(text):
                    yield text


def test_every_code_is_explained_once_and_no_other(spoken: dict[str, list[str]]) -> None:
    explained = Counter(code for page in PAGES.glob("*.md") for code, _ in entries(page))
    assert [code for code, number in explained.items() if number > 1] == []
    written = {code for code in spoken if not code.endswith("…")} | {f"bootstrap.{need.name}" for need in FRAMEWORK}
    missing, stray = {*_codes(), *written} - set(explained), set(explained) - {*_codes(), *written}
    assert sorted(missing) == [], "explain each in a page of shared/clew_shared/problems"
    assert sorted(stray) == [], "the program has no such code any more"


def test_codes_are_composed_only_where_the_parts_are_known(spoken: dict[str, list[str]]) -> None:
    assert {code for code in spoken if code.endswith("…")} == {"bootstrap.…", "scheduler.…"}


def test_most_codes_have_their_sentence_in_the_site(spoken: dict[str, list[str]]) -> None:
    """Some are composed elsewhere; if many were missing, a message could not be found by its words."""
    known = explanations()
    assert len(known.keys() - spoken.keys()) < len(known) // 10


def test_every_explanation_says_something_in_whole_sentences() -> None:
    assert [code for code, text in explanations().items() if len(text) < 20 or not text.endswith(".")] == []


def test_why_answers_for_every_code(capsys: pytest.CaptureFixture[str]) -> None:
    for code, text in explanations().items():
        assert main(["why", code]) == 0
        assert capsys.readouterr().out.split()[:3] == text.split()[:3]


def test_the_code_may_be_copied_with_what_is_around_it() -> None:
    assert matching("(SSH.auth).", explanations()) == ["ssh.auth"]


def test_the_beginning_of_codes_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "checkpoint"]) == 0
    assert capsys.readouterr().out.splitlines() == ["checkpoint.read", "checkpoint.slots", "checkpoint.write"]


@pytest.mark.parametrize(
    ("typed", "hint"), [("ssh.atuh", "Did you mean ssh.auth?"), ("xyzzy", "Codes begin with: agent, ")]
)
def test_an_unknown_code_gets_near_ones(typed: str, hint: str) -> None:
    with pytest.raises(ProblemError) as caught:
        matching(typed, {"ssh.auth": "", "spec.seed": "", "agent.slow": ""})
    assert caught.value.problems[0].hint.startswith(hint)


def test_a_refusal_ends_with_what_explains_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "softmx"]) == 2
    assert capsys.readouterr().err == (
        "clew run: There is no exercise 'softmx'. Did you mean softmax? (clew why cli.exercise)\n"
    )
    assert Problem("", "Wrong.").command_text() == "Wrong."
