"""The revision of an exercise: which runs go on with which file, those of the time before revisions included."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from clew_agent.cli import main as cli
from clew_agent.trainer.first_frame import describe_attempt
from clew_shared.base.problem import Problem
from clew_shared.cards import ExerciseCard
from clew_shared.catalogue import load_builtin
from clew_shared.journal.run_folder import RunFolder
from clew_shared.revisions import trains_alike
from clew_shared.spec import RunSpec, to_toml

SOFTMAX = "b3e9f954cc82ecce1d5d59934332e3e48b735b8d9b2ea52f5ff70f76a6414e5c"
"""What the spec of an older run of softmax names (``tests/integration/commands/older_home``)."""


@pytest.mark.parametrize(
    ("exercise", "here", "revision", "source", "alike"),
    [
        ("softmax", 1, 1, "of a later text", True),
        ("softmax", 2, 1, "same", False),
        ("softmax", 1, 0, SOFTMAX, True),
        ("softmax", 2, 0, SOFTMAX, False),
        ("cnn", 1, 0, SOFTMAX, False),
        ("softmax", 1, 0, "of another text", False),
        ("mine", 0, 0, "same", True),
        ("mine", 0, 0, "", True),
        ("mine", 0, 0, "of another text", False),
        ("mine", 0, 3, "of another text", False),  # its author took the revision out
        ("mine", 3, 0, "same", True),
    ],
)
def test_the_revision_decides_and_without_one_the_file(
    exercise: str, here: int, revision: int, source: str, alike: bool
) -> None:
    card = ExerciseCard(id=exercise, title="", revision=here, source_hash="same")
    assert trains_alike(card, revision, source) is alike


def test_every_built_in_exercise_has_a_revision() -> None:
    assert all(card.revision for card in load_builtin().exercises)


def test_a_card_of_a_version_before_revisions_can_be_read() -> None:
    older = {"id": "softmax", "title": "Softmax", "source_hash": SOFTMAX, "earlier_hashes": ["0"]}
    card = msgspec.convert(older, ExerciseCard)
    assert (card.revision, trains_alike(card, 1, SOFTMAX)) == (0, True)


def test_a_journal_names_the_revision_of_a_file_that_came_with_clew(tmp_path: Path) -> None:
    own = tmp_path / "exercises"
    own.mkdir()
    (own / "mine.py").write_text('"mine"')
    for exercise, folder, revision in (("softmax", None, 1), ("mine", own, 0)):
        run = RunFolder(tmp_path / exercise)
        run.path.mkdir()
        spec = RunSpec(exercise=exercise)
        run.spec.write_text(to_toml(spec))
        assert describe_attempt(run, 1, spec, folder)[0].revision == revision


def test_writing_the_catalogue_reminds_of_the_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = load_builtin()
    first, second, *others = before.exercises
    replace = msgspec.structs.replace
    changed = (replace(first, source_hash="a"), replace(second, source_hash="b", revision=second.revision + 1), *others)
    monkeypatch.setattr("clew_agent.cli.catalogue.make_catalogue", lambda *_, **__: replace(before, exercises=changed))
    assert cli.main(["catalogue", "--write", str(tmp_path / "catalogue.json")]) == 0
    assert capsys.readouterr().err.startswith("linear-regression: its file changed but its revision is still 1")


def test_a_catalogue_with_a_broken_exercise_is_not_packaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    packaged = tmp_path / "packaged.json"
    packaged.write_bytes(b"as it was")
    first, *others = load_builtin().exercises
    broken = msgspec.structs.replace(first, problem=Problem("catalogue.import", "NameError: name 'reduce'", "Fix it."))
    made = msgspec.structs.replace(load_builtin(), exercises=(broken, *others))
    monkeypatch.setattr("clew_agent.cli.catalogue.make_catalogue", lambda *_, **__: made)
    monkeypatch.setattr("clew_agent.cli.catalogue.BUILTIN", packaged)
    assert cli.main(["catalogue", "--write"]) == 2
    assert "NameError" in capsys.readouterr().err
    assert packaged.read_bytes() == b"as it was"
