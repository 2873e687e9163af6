"""The pages of the documentation: links, tabs, and what the site adds to them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import make_site
import pytest

PAGE = make_site.ROOT / "docs" / "tutorial.md"
KNOWN = make_site.pages()
_DOCS = [f"docs/{path.name}" for path in PAGE.parent.glob("*.md")]


def _named(entry: Any) -> Iterator[str]:
    for value in entry.values() if isinstance(entry, dict) else entry:
        yield from [value] if isinstance(value, str) else _named(value)


def test_no_link_leads_nowhere() -> None:
    for page in KNOWN:
        make_site.as_site(page.read_text(encoding="utf-8"), page, KNOWN)
    with pytest.raises(ValueError, match=r"nowhere: gone\.md, images/gone\.png"):
        make_site.as_site("[a](gone.md) ![b](images/gone.png) [c](https://example.org) `[d](e)`", PAGE, KNOWN)


def test_the_site_names_each_page_once() -> None:
    project = tomllib.loads((PAGE.parent / "zensical.toml").read_text(encoding="utf-8"))["project"]
    assert sorted(_named(project["nav"])) == sorted(KNOWN.values())


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", ".github/workflows/tests.yml", *sorted(_DOCS)])
def test_every_target_of_make_that_is_named_exists(name: str) -> None:
    known = re.findall(r"^([a-z-]+):", (make_site.ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    text = (make_site.ROOT / name).read_text(encoding="utf-8")
    named = re.findall(r"(?:^    |^ +- run: |`)make ([a-z-]+)", text, re.MULTILINE)
    assert sorted(set(named) - set(known)) == []


def test_links_follow_the_pages_to_their_places_in_the_site() -> None:
    text = "[p](../shared/clew_shared/PROTOCOL.md#frames) [c](../CONTRIBUTING.md) [d](decisions/README.md)"
    assert (
        make_site.as_site(text, PAGE, KNOWN) == "[p](protocol.md#frames) [c](contributing.md) [d](decisions/index.md)"
    )
    page = make_site.PROBLEMS / "ssh.md"
    assert make_site.as_site("[c](../../../docs/data.md)", page, KNOWN) == "[c](../data.md)"


def test_systems_become_tabs() -> None:
    text = "<!-- tabs -->\n**Linux**\n\n```bash\nls\n```\n\n**Windows**\n\ndir\n<!-- end of tabs -->\nafter\n"
    assert make_site.as_site(text, PAGE, KNOWN) == (
        '=== "Linux"\n\n    ```bash\n    ls\n    ```\n\n=== "Windows"\n\n    dir\n\nafter\n'
    )


def test_the_sentences_of_a_problem_are_found_where_they_are_written() -> None:
    source = """
def check(steps):
    text = "First."
    yield Problem("spec.steps", text)
    text = f"At most {steps:,} steps."
    yield Problem(code="spec.steps", text=text)
    raise problem("spec.words", f"{first} and {second}.{third}")
    raise problem(code, "not known here")
"""
    found = [("spec.steps", "First."), ("spec.steps", "At most … steps."), ("spec.words", "… and …")]
    assert sorted(make_site.said(source)) == sorted(found)


def test_the_site_shows_the_sentences_under_their_code() -> None:
    page = make_site.with_sentences("# A\n\n## a.b\n\nWhy.\n", {"a.b": ["It is *x*.", "It is y."]})
    assert page == "# A\n\n## a.b\n\n> It is \\*x\\*.\n>\n> It is y.\n\nWhy.\n"


def test_a_decision_has_one_number_and_few_words() -> None:
    """What needs more than a paragraph is documentation, and stands where people look for that."""
    known, last = make_site.decisions(), re.compile(r"^## (\d+)\. .+$", re.MULTILINE)
    for page in sorted({name for _, name in known.values()}):
        _, *parts = last.split((make_site.DECISIONS / page).read_text(encoding="utf-8"))
        numbers = [int(number) for number in parts[::2]]
        assert numbers == sorted(numbers), page
        long = {number: len(text.split()) for number, text in zip(numbers, parts[1::2], strict=True)}
        assert {number: words for number, words in long.items() if words > 60} == {}, page


def test_every_decision_that_the_code_names_exists() -> None:
    named = {
        int(number)
        for folder in ("agent", "gui", "shared", "tests", "packaging")
        for path in (make_site.ROOT / folder).rglob("*.py")
        for number in re.findall(r"[Dd]ecision (\d+)", path.read_text(encoding="utf-8"))
    }
    assert sorted(named - set(make_site.decisions())) == []
