"""What exercises import: goals in words, guides beside the file."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Generic, TypeVar

import pytest

from clew_agent import lesson
from clew_agent.catalogue.catalogue import CatalogueSource
from clew_agent.catalogue.examine import examine
from clew_agent.catalogue.exercise_files import ExerciseFile
from clew_agent.cli.new import write_template
from clew_shared.cards import Goal, Requirement

S = TypeVar("S", bound=lesson.BatchSettings)
T = TypeVar("T")
ASKED = "Which settings did you change first?"
EXERCISES = Path(lesson.__file__).parents[1] / "exercises"
GUIDE = f"## What to do\n\nRun it.\n\n## Questions\n\n- Is this one first?\n- {ASKED}\n"


@pytest.mark.parametrize(
    ("reached", "goal"),
    [
        ("loss <= 0.1", Goal(id="g", text="G", metric="loss", op="<=", value=0.1)),
        ("best f_score >= .8", Goal(id="g", text="G", metric="f_score", op=">=", value=0.8, which="best")),
        (
            "test_accuracy = 0.9597 ± 0.007 at step 1000 on fashion-mnist",
            Goal(
                id="g",
                text="G",
                metric="test_accuracy",
                op="near",
                value=0.9597,
                tolerance=0.007,
                which="at",
                step=1000,
                data="fashion-mnist",
            ),
        ),
    ],
)
def test_a_goal_says_in_words_what_is_to_be_reached(reached: str, goal: Goal) -> None:
    assert lesson.goal("g", "G", reached) == goal


@pytest.mark.parametrize(
    "reached", ["", "loss", "loss < 1", "loss <= much", "loss <= 1 at 5", "loss = 1", "best loss <= 1 at step 5"]
)
def test_words_that_say_nothing_to_reach_are_refused(reached: str) -> None:
    with pytest.raises(ValueError, match="does not say what to reach"):
        lesson.goal("g", "G", reached)


def test_an_optimizer_that_there_is_not_has_no_lane() -> None:
    with pytest.raises(ValueError, match="there is no optimizer 'sgdd'; there are sgd, "):
        lesson.optimizer_race(10, "Which one?", [("sgd", 0.1), ("sgdd", 0.1)])


def test_an_exercise_has_the_settings_that_its_base_is_written_with() -> None:
    class Mixed(Generic[T]): ...

    class General(lesson.Exercise[S], Generic[S, T]): ...

    class Special(Mixed[int], General[lesson.BatchSettings, int]): ...

    class Own(lesson.Exercise[lesson.TrainingSettings]):
        Settings = lesson.BatchSettings

    assert (Special.Settings, Own.Settings) == (lesson.BatchSettings, lesson.BatchSettings)
    assert not hasattr(General, "Settings")


def test_requirements_take_values_and_bounds_by_name() -> None:
    needed = lesson.needs(
        optimizer="sgd",
        cell=("gru", "lstm"),
        steps=lesson.at_most(500),
        size=lesson.at_least(2, 0),
        w=lesson.other_than(""),
    )
    assert needed == (
        Requirement("optimizer", ("sgd",)),
        Requirement("cell", ("gru", "lstm")),
        Requirement("steps", most=500),
        Requirement("size", (0,), least=2),
        Requirement("w", other_than=("",)),
    )


def own_exercise(folder: Path, question: int = 0) -> Path:
    """The template with its guide in a file beside it, and a goal that asks a question of it."""
    path = write_template("two-layers", folder)
    text = path.read_text(encoding="utf-8").replace("    guide = GUIDE\n", "")
    text = text.replace("    def build", '    goal_details = {"good": "With any settings."}\n\n    def build')
    path.write_text(text.replace('>= 0.9")', f'>= 0.9", question={question})'), encoding="utf-8")
    path.with_suffix(".md").write_text(GUIDE, encoding="utf-8")
    return path


def test_a_guide_beside_the_file_is_the_exercises_and_a_goal_names_its_question(tmp_path: Path) -> None:
    (card,) = examine(ExerciseFile(own_exercise(tmp_path, 2)))
    assert card.problem is None
    assert card.guide == GUIDE
    assert [(one.question, one.detail) for one in card.goals] == [(ASKED, "With any settings.")]


def test_a_goal_that_names_a_question_the_guide_lacks_is_refused(tmp_path: Path) -> None:
    (card,) = examine(ExerciseFile(own_exercise(tmp_path, 3)))
    assert card.problem is not None
    assert card.problem.code == "exercise.goal"


@pytest.mark.parametrize(
    ("own", "what"),
    [
        ('goals = (lesson.goal("g", "Low", "lost <= 1"),)', "goal 'Low'"),
        ('plots = (lesson.plot("p", "Loss", "loss", "lost"),)', "plot 'Loss'"),
        ('races = (lesson.race("r", "Rates", "lost", 5, ""),)', "race 'Rates'"),
    ],
)
def test_a_metric_that_no_run_records_is_named_before_any_run(own: str, what: str, tmp_path: Path) -> None:
    path = own_exercise(tmp_path)
    text = path.read_text(encoding="utf-8")
    path.write_text(f"{text[: text.index('goals = ')]}{own}\n", encoding="utf-8")
    (card,) = examine(ExerciseFile(path))
    assert card.problem is not None
    text = f"The {what} of two-layers is about the metric 'lost', which the exercise does not record."
    assert (card.problem.code, card.problem.text) == ("exercise.metric", text)
    assert card.problem.hint == "Did you mean loss?"


def wait_until_read(source: CatalogueSource) -> None:
    """Lets the source look and take in what its children say, until nothing is being read."""
    source.turn()
    while source.reading:
        time.sleep(0.05)
        source.turn()


def test_a_changed_guide_is_read_again(tmp_path: Path) -> None:
    path = own_exercise(tmp_path)
    source = CatalogueSource(tmp_path, look_every_s=0)
    try:
        wait_until_read(source)
        path.with_suffix(".md").write_text("Another guide.\n", encoding="utf-8")
        wait_until_read(source)
        assert [card.guide for card in source.get().exercises if card.id == "two-layers"] == ["Another guide.\n"]
    finally:
        source.close()


@pytest.mark.parametrize(("content", "said"), [(b"\xff\xfe", "codec can't decode"), (b"a" * (1 << 21), "more than")])
def test_a_guide_that_cannot_be_read_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = own_exercise(tmp_path)
    path.with_suffix(".md").write_bytes(content)
    (card,) = examine(ExerciseFile(path))
    assert card.problem is not None
    assert (card.problem.code, card.problem.where) == ("exercise.guide", str(path.with_suffix(".md")))
    assert said in card.problem.text


def test_an_exercise_that_is_derived_from_another_has_its_guide(tmp_path: Path) -> None:
    text = "from clew_agent.exercises.softmax import Softmax\n\n\nclass Mine(Softmax):\n    id = 'mine'\n"
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    (card,) = examine(ExerciseFile(tmp_path / "mine.py"))
    assert card.problem is None
    assert card.guide == (EXERCISES / "softmax.md").read_text(encoding="utf-8")


def test_a_copy_of_a_built_in_exercise_has_a_guide_if_that_comes_along(tmp_path: Path) -> None:
    shutil.copy(EXERCISES / "softmax.py", tmp_path)
    (card,) = examine(ExerciseFile(tmp_path / "softmax.py"))
    assert (card.problem, card.guide, {goal.question for goal in card.goals}) == (None, "", {""})
    shutil.copy(EXERCISES / "softmax.md", tmp_path)
    (card,) = examine(ExerciseFile(tmp_path / "softmax.py"))
    assert card.guide == (EXERCISES / "softmax.md").read_text(encoding="utf-8")
