"""Problems: refusals in words that a person can act on."""

from __future__ import annotations

import pytest

from clew_shared.base.problem import Problem, ProblemError, problem, raise_all


def test_a_problem_reads_as_what_is_wrong_and_what_to_do() -> None:
    assert str(Problem("a.b", "It is too long.", "Shorten it.")) == "It is too long. Shorten it."
    assert str(Problem("a.b", "It is too long.")) == "It is too long."


def test_an_error_carries_all_its_problems_and_says_each() -> None:
    one, two = Problem("a", "First."), Problem("b", "Second.", "Do this.")
    error = ProblemError(one, two)
    assert error.problems == (one, two)
    assert str(error) == "First.\nSecond. Do this."


def test_an_error_without_a_problem_is_a_mistake_in_the_program() -> None:
    with pytest.raises(ValueError, match="at least one"):
        ProblemError()


def test_the_short_form_makes_an_error_with_one_problem() -> None:
    error = problem("a.b", "Wrong.", "Right it.", "here")
    assert error.problems == (Problem("a.b", "Wrong.", "Right it.", "here"),)


def test_raising_all_of_nothing_does_nothing() -> None:
    raise_all(())
    with pytest.raises(ProblemError) as caught:
        raise_all(Problem(str(number), "No.") for number in range(3))
    assert len(caught.value.problems) == 3
