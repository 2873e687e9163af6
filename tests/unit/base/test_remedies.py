"""Ways out of a problem are data: no sentence that a window can show says what to type in a terminal."""

from __future__ import annotations

import msgspec
import pytest

from clew_shared.base import remedies
from clew_shared.base.problem import Problem, ProblemError, problem, raise_all
from clew_shared.base.remedies import Remedy, as_typed, typed_sentence

ACTS = sorted(value for name, value in vars(remedies).items() if name.isupper() and isinstance(value, str))


@pytest.mark.parametrize("act", ACTS)
def test_every_way_out_can_be_typed(act: str) -> None:
    assert as_typed(Remedy(act, "runs", "1", "slurm")).startswith(("--", "clew "))


def test_what_a_stranger_calls_a_run_is_typed_as_one_word() -> None:
    assert as_typed(remedies.verify_run("$(id) x")) == "clew verify '$(id) x'"


def test_what_to_type_is_one_sentence_after_the_others() -> None:
    ways = (remedies.set_to("time", "00:02:00"), remedies.choose("partition"), remedies.check_node("my site"))
    found = Problem("scheduler.time", "The job asks for 5 min.", "Ask for less.", "time", ways)
    assert str(found) == "The job asks for 5 min. Ask for less."
    assert found.command_text() == (
        "The job asks for 5 min. Ask for less. Use --time 00:02:00 or --partition NAME. "
        "Type: clew site doctor 'my site' --job (clew why scheduler.time)"
    )
    assert Problem("", "b.").command_text() == "b."


def test_a_problem_of_an_earlier_or_a_later_version_is_read() -> None:
    old = msgspec.json.decode(b'{"code":"a.b","text":"Wrong."}', type=Problem)
    assert old.remedies == ()
    later = b'{"code":"a.b","text":"Wrong.","remedies":[{"act":"teleport","to":"node9"},{"act":"log-out"}]}'
    new = msgspec.json.decode(later, type=Problem)
    assert typed_sentence(new.remedies) == "Type: clew logout", "what is not known is left out"
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(new), type=Problem)
    assert again == new


# --- Problems: refusals in words that a person can act on -------------------------------------------------------------


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
