"""No folder grows beyond its budget: what is added in one place was taken out of the same place before."""

from __future__ import annotations

from tests.size import budgets, code_lines, lowered, measured, over


def test_no_folder_is_larger_than_its_budget() -> None:
    assert not over(measured(), budgets())


def test_a_line_too_many_a_folder_without_budget_and_one_that_is_gone_are_named() -> None:
    allowed = {"lines": {"gui": 10, "gone": 5}, "words": {}}
    assert over({"lines": {"gui": 10}, "words": {}}, {"lines": {"gui": 10}, "words": {}}) == []
    assert over({"lines": {"gui": 12, "new": 1}, "words": {}}, allowed) == [
        "gui has 12 lines, 2 more than tests/size.toml allows",
        "new has 1 lines and no budget in tests/size.toml",
        "gone is in tests/size.toml and is gone",
    ]


def test_budgets_are_lowered_and_never_raised() -> None:
    allowed = {"lines": {"less": 10, "more": 10, "gone": 5}, "words": {}}
    assert lowered({"lines": {"less": 8, "more": 12}, "words": {}}, allowed) == {
        "lines": {"less": 8, "more": 10},
        "words": {},
    }


def test_blanks_comments_and_docstrings_are_no_code() -> None:
    module = '"""A module.\n\nOf two lines."""\n\n# why\nx = """a\nb"""  # beside\n\n\n'
    assert code_lines(module + 'def f():\n    """Does."""\n    return x\n') == 4
