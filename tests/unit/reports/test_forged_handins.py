"""Hand-ins whose journals a student wrote again, frame by frame, with hashes that fit: what no run of the exercise
could have recorded is named without training, and nothing of what was handed in decides about a repeated run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from clew_gui.reports.class_table import class_rows
from clew_gui.reports.facts import read_source
from clew_gui.reports.repeated import Repetition, compare_repeat, first_steps, judge_repeated
from clew_gui.study.goals import check_goal
from clew_shared.journal.events import (
    Attempt,
    Evaluation,
    Event,
    Image,
    Live,
    Matrix,
    Points,
    Schema,
    Seal,
    Series,
    State,
)
from clew_shared.journal.files import JournalWriter, Record, journal_path, read_journal
from clew_shared.journal.lifecycle import RunState
from clew_shared.reading import read_run
from clew_shared.spec import RunSpec, to_toml
from tests.unit.reports.test_handin import CARDS, METRICS, bundle_of, checked, handed_in, made_run, steps_of
from tests.unit.runs import RUN, trace
from tests.unit.work import lines_run

Change = Callable[[list[Event]], list[Event]]


def events_of(folder: Path, attempt: int = 1) -> list[Event]:
    """All events of a journal but its seal."""
    found = [item.event for item in read_journal(journal_path(folder, attempt)) if isinstance(item, Record)]
    return [event for event in found if event is not None and not isinstance(event, Seal)]


def write(folder: Path, attempt: int, events: Sequence[Event]) -> None:
    with JournalWriter.create(journal_path(folder, attempt)) as writer:
        for event in events:
            writer.append(event)
        writer.seal("trainer")


def forge(folder: Path, change: Change) -> Path:
    """Writes the run's journal again, with a spec whose hash fits."""
    events = change(events_of(folder))
    journal_path(folder, 1).unlink()
    write(folder, 1, events)
    return folder


def before_the_end(*events: Event) -> Change:
    return lambda known: [*known[:-1], *events, known[-1]]


def schema(*changes: tuple[str, str, object], **fields: object) -> Schema:
    """A schema in which metrics are described otherwise: name, field, value."""
    metrics = list(METRICS)
    for name, field, value in changes:
        at = next(place for place, one in enumerate(metrics) if one.name == name)
        metrics[at] = msgspec.structs.replace(metrics[at], **{field: value})
    return msgspec.structs.replace(Schema(id=1, metrics=tuple(metrics), batch_size=100), **fields)


def asking(**fields: object) -> Change:
    """The spec in the journal asks for something else, and its hash fits."""

    def change(events: list[Event]) -> list[Event]:
        first = events[0]
        assert isinstance(first, Attempt)
        spec = RunSpec(exercise="softmax", run=RUN, student="Anna Example", params={"learning_rate": 0.5})
        text = to_toml(msgspec.structs.replace(spec, **fields))
        digest = hashlib.sha256(text.encode()).hexdigest()
        return [msgspec.structs.replace(first, spec=text, spec_sha256=digest), *events[1:]]

    return change


def measured(step: int, **values: float) -> Evaluation:
    return Evaluation(step=step, values=values, clock=4.0)


IMAGE = Image(name="weights", step=4, width=1, height=1, channels=1, data=b"\x00")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (before_the_end(measured(5, test_accuracy=0.999)), "has values after 5 steps, but only 4 were done then"),
        (before_the_end(msgspec.structs.replace(IMAGE, step=5)), "has values after 5 steps, but only 4 were done"),
        (before_the_end(steps_of(4, [1.0] * 600)), "has 604 steps, but its settings ask for 500"),
        (before_the_end(schema(("test_accuracy", "per_step", True))), "'test_accuracy' with per_step True, not False"),
        (before_the_end(schema(("loss", "dtype", "float64"))), "'loss' with dtype 'float64', not 'float32'"),
        (
            before_the_end(schema(("loss", "label", "Test accuracy"))),
            "'loss' with label 'Test accuracy', not 'Training loss'",
        ),
        (before_the_end(schema(("test_accuracy", "better", "lower"))), "with better 'lower', not 'higher'"),
        (before_the_end(measured(4, better_accuracy=1.0)), "has 'better_accuracy', which the exercise does not record"),
        (before_the_end(msgspec.structs.replace(IMAGE, name="proof")), "has 'proof', which the exercise does not"),
        (before_the_end(Series(name="speed", x=b"", y=b"")), "has 'speed', which the exercise does not record"),
        (before_the_end(Live(name="batch_size", value=1.0, step=2)), "'batch_size' cannot be changed while the run"),
        (before_the_end(Live(name="learning_rate", value=-3.0, step=2)), "Learning rate (learning_rate): must be"),
        (asking(strategy="local-sgd", devices=1024), "runs on 1, 2, 4, 8, 16 devices, not on 1024"),
        (asking(params={"learning_rate": 1e9}), "asks for what this version of Clew refuses: Learning rate"),
        (asking(params={"magic": 1}), "asks for what this version of Clew refuses: There is no hyperparameter 'magic'"),
    ],
)
def test_what_no_run_of_the_exercise_records_is_named_without_training(
    change: Change, words: str, tmp_path: Path
) -> None:
    bundle = bundle_of(forge(made_run(tmp_path / "run"), change), tmp_path / "a.clew.zip")
    found = [str(one) for one in checked(bundle, tmp_path / "in").problems]
    assert len(found) == 1
    assert words in found[0]


def test_a_second_attempt_cannot_begin_behind_the_end_of_the_first(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "run", state=RunState.STOPPED)
    first = events_of(folder)[0]
    assert isinstance(first, Attempt)
    again = msgspec.structs.replace(first, attempt=2, resumes=1, start_step=7)
    write(folder, 2, [again, measured(7, test_accuracy=0.999), State(state=RunState.FINISHED, step=7)])
    found = checked(bundle_of(folder, tmp_path / "a.clew.zip"), tmp_path / "in").problems
    assert [str(one) for one in found] == [f"Run {RUN[:8]} goes on at step 7, which nothing before it reached."]


def test_what_another_version_started_and_this_one_refuses_is_a_note(tmp_path: Path) -> None:
    def older(events: list[Event]) -> list[Event]:
        first, *others = asking(params={"magic": 1})(events)
        assert isinstance(first, Attempt)
        return [msgspec.structs.replace(first, software={"clew": "0.1.0"}), *others]

    bundle = bundle_of(forge(made_run(tmp_path / "run"), older), tmp_path / "a.clew.zip")
    verdict = checked(bundle, tmp_path / "in")
    assert verdict.problems == ()
    assert "asks for what this version of Clew refuses: There is no hyperparameter 'magic'" in verdict.notes[-1]


def test_many_metrics_of_a_strange_name_are_named_at_once(tmp_path: Path) -> None:
    """Looking at four times as many takes about four times the work, not sixteen times."""
    work = []
    for count in (2_000, 8_000):
        values = {f"m{number}": 0.5 for number in range(count)}
        folder = forge(made_run(tmp_path / f"run {count}"), before_the_end(measured(4, **values)))
        bundle = bundle_of(folder, tmp_path / f"{count}.clew.zip")
        verdict, lines = lines_run(checked, bundle, tmp_path / f"in {count}")
        work.append(lines)
        (found,) = verdict.problems
        assert "which the exercise does not record" in str(found)
    assert work[1] < 6 * work[0]


# --- Repeated runs ----------------------------------------------------------------------------------------------------


def differing(handed_in: Path, again: Path, exact: bool = False) -> str:
    return " ".join(compare_repeat(read_run(handed_in), read_run(again), 4, exact=exact).differences)


def test_what_was_handed_in_does_not_say_how_it_is_compared(tmp_path: Path) -> None:
    honest = made_run(tmp_path / "honest")
    better = before_the_end(measured(4, test_accuracy=0.999))
    words = "Test accuracy differs at step 4: 0.999 was handed in"

    def with_schema(forged: Schema) -> Change:
        return lambda known: better(before_the_end(forged)(known))

    evaluated_as_step = forge(made_run(tmp_path / "1"), with_schema(schema(("test_accuracy", "per_step", True))))
    assert words in differing(evaluated_as_step, honest)
    assert words in differing(evaluated_as_step, honest, exact=True)
    loose = forge(made_run(tmp_path / "2"), with_schema(schema(("test_accuracy", "format", "number"), batch_size=1)))
    assert words in differing(loose, honest)
    assert "Batch size: 1 was handed in, 100 comes out here." in differing(loose, honest)
    huge = made_run(tmp_path / "3", loss=[4e9, 3, 2.5, 1])
    assert "4 values" in differing(huge, honest), "a huge value makes no room for the others"
    twice = forge(made_run(tmp_path / "4"), before_the_end(measured(4, test_accuracy=0.999, test_loss=1.0)))
    assert "Test accuracy has several values for the same step." in differing(twice, honest)
    strange = forge(made_run(tmp_path / "5"), before_the_end(measured(4, strange=1.0)))
    assert "strange has 1 value too few or too many: none comes out here for step 4" in differing(strange, honest)


def test_pictures_of_the_same_version_are_compared_bit_by_bit(tmp_path: Path) -> None:
    rows = {"row_labels": ("right", "wrong"), "rows": 2, "columns": 1, "data": np.zeros(2).tobytes()}
    honest = Matrix(name="confusion", step=4, time=1.0, **rows)  # type: ignore[arg-type]
    swapped = msgspec.structs.replace(honest, time=2.0, row_labels=("wrong", "right"))
    folders = [
        forge(made_run(tmp_path / str(number)), before_the_end(IMAGE, one))
        for number, one in enumerate((honest, msgspec.structs.replace(honest, time=3.0), swapped))
    ]
    assert compare_repeat(read_run(folders[1]), read_run(folders[0]), 4, exact=True) == (1, 9, 2, ())
    assert "The picture 'confusion' of step 4 differs" in differing(folders[2], folders[0], exact=True)
    assert differing(folders[2], folders[0], exact=False) == "", "another processor rounds otherwise"


def test_a_copy_of_a_run_that_two_students_handed_in_is_named_for_all_three(tmp_path: Path) -> None:
    original = made_run(tmp_path / "a", loss=LOSS, seconds=TIMES, student="")
    copy = made_run(tmp_path / "c", loss=LOSS, seconds=TIMES, student="", run=RUN[:-1] + "c")
    named = (("anna", original), ("ben", original), ("cleo", copy))
    rows = class_rows([handed_in(folder, name, tmp_path) for name, folder in named])
    assert [row.checked for row in rows] == ["ALTERED"] * 3
    assert len(rows[2].problems) == 2


def test_what_a_repeated_run_did_beyond_the_steps_that_were_handed_in_reaches_no_goal(tmp_path: Path) -> None:
    (goal,) = (one for one in CARDS["softmax"].goals if one.id == "slides")
    again = read_source(made_run(tmp_path / "again", evaluations={2: 0.5, 4: 0.9079}))
    assert check_goal(goal, again.history, CARDS["softmax"]).reached
    cut = first_steps(again, 3)
    assert cut.history.fold.step == 3
    assert check_goal(goal, cut.history, CARDS["softmax"]).value == 0.5
    assert len(cut.history.column("loss").steps) == 3
    assert first_steps(again, 3).history.fold.attempt == cut.history.fold.attempt, "cut once"


def test_goals_are_judged_on_the_repeated_values(tmp_path: Path) -> None:
    claimed = made_run(tmp_path / "claimed", evaluations={2: 0.5, 4: 0.99})
    verdict = checked(bundle_of(claimed, tmp_path / "a.clew.zip"), tmp_path / "in")
    assert verdict.facts is not None
    assert {goal.id: goal.reached for goal in verdict.facts.goals} == {"slides": False, "better": True}
    again = {RUN: Repetition(read_source(made_run(tmp_path / "again", evaluations={2: 0.5, 4: 0.9079})), whole=True)}
    facts, unconfirmed = judge_repeated(verdict.facts, CARDS, again)
    assert unconfirmed == {("softmax", "better")}
    assert {goal.id: goal.reached for goal in facts.goals} == {"slides": True, "better": True}
    _, unconfirmed = judge_repeated(verdict.facts, CARDS, {RUN: again[RUN]._replace(whole=False)})
    assert unconfirmed == {("softmax", "better")}
    judged = msgspec.structs.replace(verdict, facts=facts, unconfirmed=unconfirmed)
    (row,) = class_rows([("a.clew.zip", judged)])
    assert row.goals == "1 of 2, 1 not confirmed"
    assert {mark for mark, _ in row.by_goal.values()} == {"x", "?"}


# --- Copies -----------------------------------------------------------------------------------------------------------

TIMES = [0.103, 0.0971, 0.1054, 0.0989, 0.1011, 0.0992, 0.1043, 0.1008]
LOSS = [4 - 0.1 * step for step in range(8)]


def halved(events: list[Event]) -> list[Event]:
    """One block took half of its time."""
    at = [place for place, event in enumerate(events) if isinstance(event, Points)][3]
    return [*events[:at], msgspec.structs.replace(events[at], seconds=0.05), *events[at + 1 :]]


def cut_in_two(events: list[Event]) -> list[Event]:
    """One block is written as two of a time each."""
    return [*events, msgspec.structs.replace(steps_of(8, [3.0]), seconds=0.02)]


def traced(events: list[Event]) -> list[Event]:
    return before_the_end(trace())(events)


@pytest.mark.parametrize("change", [halved, cut_in_two, traced])
def test_a_copy_is_found_although_some_of_its_times_were_changed(change: Change, tmp_path: Path) -> None:
    """A trace is as good as times: no two runs have the same."""
    times = TIMES if change is not traced else [1.1, 0.9]
    original = made_run(tmp_path / "1", loss=LOSS, seconds=TIMES, student="")
    copy = forge(made_run(tmp_path / "2", loss=LOSS, seconds=times, student="", run=RUN[:-1] + "2"), change)
    honest = made_run(tmp_path / "3", loss=LOSS, seconds=TIMES[::-1], student="", run=RUN[:-1] + "3")
    if change is traced:
        forge(original, traced)
    named = zip(("anna", "ben", "cleo"), (original, copy, honest), strict=True)
    rows = class_rows([handed_in(folder, name, tmp_path) for name, folder in named])
    assert {row.student for row in rows if row.checked == "ALTERED"} == {"anna", "ben"}


def test_runs_of_the_same_process_are_named_for_both(tmp_path: Path) -> None:
    """Only containers have processes of the same number at the same time, so that is for a person to judge."""

    def of_process(number: int) -> Change:
        def change(events: list[Event]) -> list[Event]:
            return [msgspec.structs.replace(events[0], host="node1", boot="b" * 36, pid=number), *events[1:]]

        return change

    folders = {
        name: forge(
            made_run(
                tmp_path / name[0],
                loss=LOSS,
                seconds=[time**place for time in TIMES],
                student="",
                run=RUN[:-1] + name[0],
            ),
            of_process(number),
        )
        for place, (name, number) in enumerate({"anna": 17, "ben": 17, "cleo": 18}.items(), 1)
    }
    rows = class_rows([handed_in(folder, name, tmp_path) for name, folder in folders.items()])
    assert [row.checked for row in rows] == ["SAME PROCESS", "SAME PROCESS", "as recorded"]
    (said,) = rows[0].processes
    assert "was recorded by the same process as run 5f2b8c1e of ben in ben.clew.zip (process 17 of" in said
