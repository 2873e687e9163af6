"""A hand-in is accepted when it is as it was recorded, and refused by name when anything in it was altered."""

from __future__ import annotations

import hashlib
import os
import random
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec
import numpy as np
import pytest

from clew_gui.commands.main import main
from clew_gui.reports.check import HandinVerdict, check_handin
from clew_gui.reports.class_table import class_rows, table_csv, table_html
from clew_gui.reports.facts import (
    PredictionFact,
    ReportFacts,
    data_of,
    keep_answer,
    labels,
    make_facts,
    read_answers,
    read_source,
)
from clew_gui.reports.handin import MANIFEST, PAGE, Manifest, OpenedHandin, digest_of, open_handin, pack, write_handin
from clew_gui.reports.page import make_report, render
from clew_gui.reports.repeated import Repetition, compare_repeat, judge_repeated, same_machine
from clew_shared import __version__
from clew_shared.base.places import find_places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.goal_settings import questions
from clew_shared.journal.events import Evaluation, Log, Points, Schema, State
from clew_shared.journal.files import JournalWriter, journal_path
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from clew_shared.spec import RunSpec, to_toml
from tests.unit.runs import RUN, begin_run, describe, end_run, small_run

CARDS = {
    card.id: msgspec.structs.replace(card, goals=tuple(msgspec.structs.replace(one, requires=()) for one in card.goals))
    for card in load_builtin().exercises
}
"""A run of four steps stands for the slides' 500 here, so no goal asks for settings."""
METRICS = CARDS["softmax"].metrics
STUDENT = "Anna Example"
Edit = Callable[[dict[str, bytes], ReportFacts], ReportFacts]


def steps_of(first: int, loss: Sequence[float], seconds: float = 1.0) -> Points:
    """A block of steps with these losses and no right answer."""
    values = (np.array(loss, "<f4").tobytes(), np.zeros(len(loss), "<f4").tobytes())
    end = float(first + len(loss))
    return Points(
        time=1_700_000_002.0, schema=1, first=first, count=len(loss), seconds=seconds, clock=end, values=values
    )


def made_run(
    path: Path,
    student: str = STUDENT,
    loss: Iterable[float] = (4, 3, 2, 1),
    evaluations: Mapping[int, float] = MappingProxyType({4: 0.9079}),
    state: RunState = RunState.FINISHED,
    *,
    seconds: Sequence[float] = (1.0,),
    time: float = 1_700_000_000.0,
    run: str = RUN,
    holds_spec: bool = True,
    course: str = "",
) -> Path:
    """A finished run whose journal holds its spec, as trainers write it now, unless it is of an earlier version."""
    folder = RunFolder(path)
    path.mkdir(parents=True)
    text = to_toml(RunSpec(exercise="softmax", run=run, student=student, course=course, params={"learning_rate": 0.5}))
    folder.spec.write_text(text, newline="\n")
    software = {"clew": __version__, "processor": "a processor, 2 cores"}
    with JournalWriter.create(folder.journal(1)) as writer:
        writer.append(describe(folder, spec=text if holds_spec else "", software=software, time=time, run=run))
        writer.append(Schema(id=1, metrics=METRICS, batch_size=100))
        writer.append(State(time=1_700_000_001.0, state=RunState.RUNNING))
        losses = list(loss)
        size = -(-len(losses) // len(seconds))
        for number, took in enumerate(seconds):
            writer.append(steps_of(number * size, losses[number * size : (number + 1) * size], took))
        for step, value in evaluations.items():
            values = {"test_accuracy": value}
            writer.append(Evaluation(time=1_700_000_003.0, step=step, values=values, clock=4.0))
        end_run(folder, writer, state, time=1_700_000_004.0)
    return path


def bundle_of(folder: Path, path: Path, student: str = STUDENT) -> Path:
    sources = [read_source(folder)]
    about = {"student": student, "created": 1_700_000_010.0, "version": __version__}
    answers = {"softmax": {"Why?": "Because <b>of this</b>."}}
    facts = make_facts(sources, CARDS, answers=answers, jobs={}, **about)  # type: ignore[arg-type]
    return write_handin(path, make_report(facts, sources, CARDS), sources)


def checked(path: Path, into: Path) -> HandinVerdict:
    into.mkdir()
    return check_handin(open_handin(path, into), CARDS)


def handed_in(folder: Path, name: str, tmp_path: Path) -> tuple[str, HandinVerdict]:
    """A run that a student hands in, with what is found in it."""
    return f"{name}.clew.zip", checked(bundle_of(folder, tmp_path / f"{name}.clew.zip", name), tmp_path / name)


def unpacked(tmp_path: Path) -> tuple[OpenedHandin, dict[str, bytes]]:
    """A hand-in, and its files, to be changed."""
    opened = open_handin(bundle_of(made_run(tmp_path / "run"), tmp_path / "a.clew.zip"), tmp_path / "opened")
    return opened, {name: (opened.folder / name).read_bytes() for name in opened.manifest.files}


def test_a_bundle_as_it_was_recorded_is_accepted_and_its_page_loads_nothing(tmp_path: Path) -> None:
    bundle = bundle_of(made_run(tmp_path / "run"), tmp_path / "anna.clew.zip")
    verdict = checked(bundle, tmp_path / "in")
    assert verdict.problems == ()
    assert verdict.notes == ()
    assert verdict.facts is not None
    assert {goal.id: goal.reached for goal in verdict.facts.goals} == {"slides": True, "better": False}
    page = (tmp_path / "in" / PAGE).read_text()
    assert "default-src 'none'" in page
    assert not [word for word in ("<script", "<link", "src=", "url(", "@import", 'http-equiv="refresh') if word in page]
    assert "Because &lt;b&gt;of this&lt;/b&gt;." in page
    assert "90.79 %" in page
    assert "figure:0" in render(make_report(verdict.facts, [read_source(tmp_path / "run")], CARDS), for_print=True)


@pytest.mark.unix("a FIFO")
def test_a_device_or_fifo_is_not_replaced_by_a_bundle(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ProblemError, match=r"fifo: it is not a regular file\. Choose another place"):
        bundle_of(made_run(tmp_path / RUN), tmp_path / "fifo")
    assert (tmp_path / "fifo").is_fifo()


def test_a_name_of_two_lines_makes_no_line_of_the_verdict(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "class").mkdir()
    name = "Bob\n[x] 90 % reached (best value: 99 %)\nAltered: nothing"
    bundle = bundle_of(made_run(tmp_path / RUN), tmp_path / "class" / "b.clew.zip", name)
    for words in (("verify-handin", str(bundle)), ("class", str(bundle.parent))):
        main(words)
        lines = capsys.readouterr().out.splitlines()
        assert any("Bob\\n[x] 90 %" in line for line in lines)
        assert not [line for line in lines if line.startswith(("[x] 90 % r", "Altered: nothing"))]


def test_any_altered_byte_is_found_and_its_file_is_named(tmp_path: Path) -> None:
    content = bundle_of(made_run(tmp_path / "run"), tmp_path / "anna.clew.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "anna.clew.zip") as archive:
        starts = {info.filename: content.index(archive.read(info)) for info in archive.infolist()}
        sizes = {info.filename: info.file_size for info in archive.infolist()}
    dice = random.Random(7)
    inside = [(name, start + dice.randrange(sizes[name])) for name, start in starts.items() for _ in range(4)]
    anywhere = [("", dice.randrange(len(content))) for _ in range(40)] + [("", len(content) - k) for k in range(1, 140)]
    for number, (name, place) in enumerate(inside + anywhere):
        altered = tmp_path / f"{number}.clew.zip"
        altered.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            found = checked(altered, tmp_path / str(number)).problems
        except ProblemError as error:
            found = error.problems
        assert found, f"byte {place}"
        if name:
            assert name in str(found[0]), f"byte {place} of {name}: {found[0]}"


def number_of_goal(files: dict[str, bytes], facts: ReportFacts) -> ReportFacts:
    better = msgspec.structs.replace(facts.goals[1], reached=True, value=0.95)
    return msgspec.structs.replace(facts, goals=(facts.goals[0], better))


def number_of_page(files: dict[str, bytes], facts: ReportFacts) -> ReportFacts:
    files[PAGE] = files[PAGE].replace(b"90.79 %</td>", b"98.79 %</td>")
    return facts


def point_of_figure(files: dict[str, bytes], facts: ReportFacts) -> ReportFacts:
    start = files[PAGE].index(b'<path d="M') + 10
    digit = files[PAGE][start : start + 1]
    files[PAGE] = files[PAGE][:start] + (b"9" if digit != b"9" else b"8") + files[PAGE][start + 1 :]
    return facts


def byte_of_journal(files: dict[str, bytes], facts: ReportFacts) -> ReportFacts:
    name = next(name for name in files if "journal" in name)
    middle = len(files[name]) // 2
    files[name] = files[name][:middle] + bytes([files[name][middle] ^ 1]) + files[name][middle + 1 :]
    return facts


def other_spec(files: dict[str, bytes], facts: ReportFacts) -> ReportFacts:
    run = msgspec.structs.replace(facts.runs[0], settings={**facts.runs[0].settings, "learning_rate": "0.1"})
    return msgspec.structs.replace(facts, runs=(run,))


def other_prediction(files: dict[str, bytes], facts: ReportFacts) -> ReportFacts:
    run = msgspec.structs.replace(facts.runs[0], prediction=PredictionFact("loss", (0, 4), (4.0, 1.0)))
    return msgspec.structs.replace(facts, runs=(run,))


@pytest.mark.parametrize(
    ("edit", "code", "word"),
    [
        (number_of_goal, "handin.report", "A point better than 90.79 %"),
        (number_of_page, "handin.page", "98.79 %"),
        (point_of_figure, "handin.page", "<path"),
        (byte_of_journal, "handin.journal", "journal.0001"),
        (other_spec, "handin.report", "learning rate"),
        (other_prediction, "handin.report", "prediction"),
    ],
)
def test_what_was_altered_is_named_even_when_all_hashes_were_made_again(
    tmp_path: Path, edit: Edit, code: str, word: str
) -> None:
    opened, files = unpacked(tmp_path)
    facts = edit(files, opened.manifest.facts)
    pack(tmp_path / "forged.clew.zip", facts, dict(files))
    problems = checked(tmp_path / "forged.clew.zip", tmp_path / "in").problems
    assert any(found.code == code and word in found.text for found in problems), problems


def test_files_that_were_exchanged_or_added_are_named_when_only_the_archive_was_made_again(tmp_path: Path) -> None:
    bundle = bundle_of(made_run(tmp_path / "run"), tmp_path / "a.clew.zip")
    (tmp_path / "run" / "spec.toml").unlink()  # the journal holds it
    assert checked(bundle_of(tmp_path / "run", tmp_path / "c.clew.zip"), tmp_path / "in c").problems == ()
    with zipfile.ZipFile(bundle) as old, zipfile.ZipFile(tmp_path / "b.clew.zip", "w") as new:
        new.comment = old.comment
        contents = {info.filename: old.read(info) for info in old.infolist()}
        contents[PAGE] = contents[PAGE].replace(b"Lab report", b"Lab repost")
        for name, content in {**contents, "runs/other/journal.0001": b"x"}.items():
            new.writestr(name, content)
    made_whole(tmp_path / "b.clew.zip")
    texts = [one.text for one in open_handin(tmp_path / "b.clew.zip", tmp_path / "opened").faults]
    assert texts == [f"{PAGE} was changed since it was handed in.", "runs/other/journal.0001 was added to the bundle."]


def test_runs_of_other_students_replays_and_missing_files_are_refused_by_name(tmp_path: Path) -> None:
    other = made_run(tmp_path / "run", student="Ben Example")
    found = checked(bundle_of(other, tmp_path / "a.clew.zip"), tmp_path / "in").problems
    assert [(one.code, "'Ben Example', not by 'Anna Example'" in one.text) for one in found] == [
        ("handin.student", True)
    ]

    shown = begin_run(tmp_path / "shown")
    with JournalWriter.create(shown.journal(1)) as writer:
        writer.append(describe(shown, run="another", replay_of=RUN))
        end_run(shown, writer, time=1_700_000_100.0)
    with pytest.raises(ProblemError, match="is a replay of run 5f2b8c1e"):
        bundle_of(shown.path, tmp_path / "b.clew.zip")

    opened = open_handin(tmp_path / "a.clew.zip", tmp_path / "opened")
    pack(tmp_path / "c.clew.zip", opened.manifest.facts, {PAGE: opened.page.encode()})
    texts = [one.text for one in checked(tmp_path / "c.clew.zip", tmp_path / "in c").problems]
    assert texts == [f"Run {RUN[:8]} of the report is not in the bundle."]


def test_an_earlier_version_whose_journals_hold_no_spec_hands_in_the_file(tmp_path: Path) -> None:
    made_run(tmp_path / "run", student="", holds_spec=False)
    verdict = checked(bundle_of(tmp_path / "run", tmp_path / "a.clew.zip"), tmp_path / "in")
    assert verdict.problems == ()
    assert verdict.notes == (f"Run {RUN[:8]} names no student: no name was set when it was started.",)
    opened = open_handin(tmp_path / "a.clew.zip", tmp_path / "opened")
    files = {name: (opened.folder / name).read_bytes() for name in opened.manifest.files}
    spec = next(name for name in files if name.endswith("spec.toml"))
    files[spec] = files[spec].replace(b"0.5", b"0.1")
    pack(tmp_path / "b.clew.zip", opened.manifest.facts, dict(files))
    problems = checked(tmp_path / "b.clew.zip", tmp_path / "in b").problems
    assert any(one.code == "handin.spec" for one in problems), problems


def test_a_repeated_run_is_compared_bit_by_bit_on_the_same_machine_and_within_the_tolerance_elsewhere(
    tmp_path: Path,
) -> None:
    first, same = made_run(tmp_path / "1"), made_run(tmp_path / "2")
    near = made_run(tmp_path / "3", loss=[4, 3, 2.002, 1])
    far = made_run(tmp_path / "4", loss=[4, 3, 2.02, 1])
    history = read_run(first)
    assert same_machine(first, same)
    assert compare_repeat(history, read_run(same), 4, exact=True) == (1, 9, 0, ())
    assert "Training loss differs at step 2: 2 was handed in, 2.00" in differing(first, near, exact=True)
    assert compare_repeat(history, read_run(near), 2, exact=True) == (0, 4, 0, ())
    assert differing(first, near, exact=False) == ""
    assert "within the tolerance" in differing(first, far, exact=False)
    small_run(tmp_path / "5")
    assert not same_machine(first, tmp_path / "5")
    assert differing(first, made_run(tmp_path / "6", loss=[4, 3, np.nan, 1]), exact=False)


def differing(handed_in: Path, again: Path, exact: bool, steps: int = 4) -> str:
    return " ".join(compare_repeat(read_run(handed_in), read_run(again), steps, exact=exact).differences)


def test_an_evaluation_or_a_step_that_only_one_side_has_and_one_that_differs_are_named(tmp_path: Path) -> None:
    honest = made_run(tmp_path / "1")
    better = made_run(tmp_path / "2", evaluations={4: 0.999})
    assert "Test accuracy differs at step 4: 0.999 was handed in, 0.9079" in differing(better, honest, exact=True)
    assert "Test accuracy differs at step 4" in differing(better, honest, exact=False)
    assert differing(made_run(tmp_path / "3", evaluations={4: 0.9081}), honest, exact=False) == ""
    more = made_run(tmp_path / "4", evaluations={2: 0.99, 4: 0.9079})
    assert "Test accuracy has 1 value too few or too many: none comes out here for step 2" in differing(
        more, honest, exact=True
    )
    fewer = made_run(tmp_path / "5", evaluations={})
    assert "none was handed in for step 4" in differing(fewer, honest, exact=True)
    assert differing(fewer, honest, exact=True, steps=3) == ""
    shorter = made_run(tmp_path / "6", loss=[4, 3])
    assert "none was handed in for step 2" in differing(shorter, honest, exact=True, steps=3)


def test_a_run_that_was_ended_before_its_last_evaluation_is_not_accused_of_hiding_it(tmp_path: Path) -> None:
    ended = made_run(tmp_path / "1", evaluations={}, state=RunState.STOPPED)
    assert differing(ended, made_run(tmp_path / "2"), exact=True) == ""


def test_the_table_of_a_class_names_a_run_that_two_students_handed_in(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", student="")
    names = ("Zoe", "=Anna")
    rows = class_rows([handed_in(run, name, tmp_path) for name in names])
    assert [(row.student, row.ok, row.goals) for row in rows] == [("=Anna", False, "1 of 2"), ("Zoe", False, "1 of 2")]
    assert (rows[1].problems, rows[1].checked) == ((), "HANDED IN TWICE")
    assert rows[1].shared == (f"Run {RUN[:8]} was also handed in by =Anna.",)
    lines = table_csv(rows).splitlines()
    assert lines[0].startswith(
        "student,file,as_recorded,goals,answers,softmax: 90.79 %,softmax: A point better than 90.79 %,"
    )
    assert lines[1].startswith("'=Anna,'=Anna.clew.zip,1,1 of 2,")
    assert "1,0," in lines[2]
    assert "was also handed in by =Anna" in lines[2]
    page = table_html(rows)
    assert page.count("✗ handed in twice") == 2
    assert "0 as recorded, 0 altered, 2 handed in twice." in page


def test_the_data_of_a_run_are_known_by_name_and_content(tmp_path: Path) -> None:
    text = f"Data set mnist from /home/anna (1)/mnist.npz (SHA-256 {'ab' * 32}): 55,000 training images."
    folder = small_run(tmp_path / "run", extra=[Log(text="Data set of mine"), Log(text=text)])
    history = read_run(folder.path)
    assert data_of(history) == (text, "mnist", "ab" * 32)
    assert data_of(read_run(made_run(tmp_path / "none"))) == ("", "", "")


def test_runs_are_called_by_what_tells_them_apart() -> None:
    base = RunSpec(exercise="softmax", params={"optimizer": "sgd", "learning_rate": 0.5})
    other = msgspec.structs.replace(base, params={"optimizer": "adam", "learning_rate": 0.5})
    named = msgspec.structs.replace(base, name="mine")
    assert labels([base, other, named], {}) == ("sgd", "adam", "mine")
    assert labels([base, base], {}) == ("sgd 0.5 (1)", "sgd 0.5 (2)")
    faster = msgspec.structs.replace(base, params={**base.params, "learning_rate": 1.0})
    assert labels([base, faster], {}) == ("rate 0.5", "rate 1"), "a number alone says nothing"
    card = find_card(load_builtin().exercises, "softmax")
    whole = {param.name: param.default for param in card.params} | {"steps": 300}
    study = msgspec.structs.replace(base, params=whole, data="/home/anna/mnist.npz")
    assert labels([base, study], {"softmax": card}) == ("steps 500, data mnist", "steps 300, data mnist.npz")


def test_answers_belong_to_the_questions_of_the_guide(home: Path) -> None:
    guide = "# Title\n\n- no question\n\n## Questions\n\n- How many\n  weights?\n- Why?\n\n## After\n\n- none\n"
    assert questions(guide) == ("How many weights?", "Why?")
    assert questions(CARDS["rnn"].guide)[1] == "Why does an LSTM's forget gate begin open?"
    places = find_places()
    assert read_answers(places, "rnn") == {}
    keep_answer(places, "rnn", "Why?", 'Two lines,\n"quoted".')
    keep_answer(places, "rnn", "How?", "So.")
    keep_answer(places, "rnn", "How?", " ")
    assert read_answers(places, "rnn") == {"Why?": 'Two lines,\n"quoted".'}
    with pytest.raises(ProblemError, match="20,000 characters"):
        keep_answer(places, "rnn", "Why?", "x" * 20_001)


@pytest.mark.parametrize("answer", ["Each step is as long as the rate.", ""])
def test_a_goal_with_a_question_is_judged_by_the_answer_that_is_handed_in(tmp_path: Path, answer: str) -> None:
    question = questions(CARDS["softmax"].guide)[0]
    goals = tuple(msgspec.structs.replace(one, question=question) for one in CARDS["softmax"].goals)
    cards = {"softmax": msgspec.structs.replace(CARDS["softmax"], goals=goals)}
    sources = [read_source(made_run(tmp_path / "run"))]
    about = {"student": STUDENT, "created": 1_700_000_010.0, "version": __version__}
    facts = make_facts(sources, cards, answers={"softmax": {question: answer}}, jobs={}, **about)  # type: ignore[arg-type]
    bundle = write_handin(tmp_path / "a.clew.zip", make_report(facts, sources, cards), sources)
    (tmp_path / "in").mkdir()
    verdict = check_handin(open_handin(bundle, tmp_path / "in"), cards)
    assert (verdict.problems, verdict.facts) == ((), facts)
    assert {goal.id: goal.reached for goal in facts.goals} == {"slides": bool(answer), "better": False}
    again, unconfirmed = judge_repeated(facts, cards, {"run": Repetition(sources[0], whole=True)})
    assert (again.goals, unconfirmed) == (facts.goals, frozenset())


def test_a_file_that_is_no_hand_in_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.clew.zip").write_bytes(b"nothing of the kind")
    with pytest.raises(ProblemError, match="not a hand-in that can be read"):
        open_handin(tmp_path / "a.clew.zip", tmp_path / "in")
    with zipfile.ZipFile(tmp_path / "b.clew.zip", "w") as archive:
        archive.writestr("../evil.txt", "x")
    with pytest.raises(ProblemError, match=rf"its {MANIFEST} is missing"):
        open_handin(tmp_path / "b.clew.zip", tmp_path / "in")
    assert not (tmp_path / "evil.txt").exists()


def test_the_manifest_says_what_is_in_the_bundle(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "run")
    opened = open_handin(bundle_of(folder, tmp_path / "a.clew.zip"), tmp_path / "in")
    assert isinstance(opened.manifest, Manifest)
    name = f"runs/{RUN}/journal.0001"
    content = journal_path(folder, 1).read_bytes()
    assert opened.manifest.files[name].sha256 == hashlib.sha256(content).hexdigest()
    assert opened.manifest.facts.runs[0].attempts[0].sha256 == hashlib.sha256(content).hexdigest()


def rewritten(bundle: Path, into: Path, change: Callable[[zipfile.ZipInfo], object]) -> Path:
    """A copy of the archive whose last bytes are right again after ``change`` was applied to its directory."""
    with zipfile.ZipFile(bundle) as old, zipfile.ZipFile(into, "w") as new:
        new.comment = old.comment
        for info in old.infolist():
            new.writestr(info, old.read(info))
        for info in new.infolist():
            change(info)
    return made_whole(into)


def made_whole(archive: Path) -> Path:
    """Writes the last bytes of an archive again: the digest of all others."""
    with archive.open("r+b") as whole:
        digest = digest_of(whole)
        whole.seek(-64, os.SEEK_END)
        whole.write(digest.encode())
    return archive


def test_files_that_overlap_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    bundle = bundle_of(made_run(tmp_path / "run"), tmp_path / "a.clew.zip")
    names = iter(f"runs/r/journal.{number:04d}" for number in range(1, 999))

    def overlap(info: zipfile.ZipInfo) -> None:
        info.filename, info.header_offset = next(names), 0
        info.file_size = info.compress_size = bundle.stat().st_size // 2

    (tmp_path / "in").mkdir()
    with pytest.raises(ProblemError, match="its files overlap, or are larger than the archive"):
        open_handin(rewritten(bundle, tmp_path / "bomb.clew.zip", overlap), tmp_path / "in")
    assert list((tmp_path / "in").iterdir()) == []


@pytest.mark.unix("a FIFO")
def test_an_encrypted_file_and_a_pipe_are_faults_of_that_hand_in(tmp_path: Path) -> None:
    bundle = bundle_of(made_run(tmp_path / "run"), tmp_path / "a.clew.zip")

    def encrypt(info: zipfile.ZipInfo) -> None:
        info.flag_bits |= info.filename == PAGE

    opened = open_handin(rewritten(bundle, tmp_path / "b.clew.zip", encrypt), tmp_path / "in")
    assert str(opened.faults[0]) == "'report.html' in the bundle is encrypted."
    os.mkfifo(tmp_path / "c.clew.zip")
    with pytest.raises(ProblemError, match="it is not a regular file"):
        open_handin(tmp_path / "c.clew.zip", tmp_path / "in c")


@pytest.mark.parametrize("time", [float("nan"), 1e300, -1e300, -1.0])
def test_a_time_that_is_none_is_named_and_ends_nothing(time: float, tmp_path: Path) -> None:
    sources = [read_source(made_run(tmp_path / "run", time=time))]
    facts = make_facts(sources, CARDS, student="", created=time, version=__version__, answers={}, jobs={})
    assert facts.runs[0].attempts[0].began == "at an unknown time"
    assert "at an unknown time" in render(make_report(facts, sources, CARDS))


def test_a_report_that_names_a_run_again_and_again_is_refused_at_once(tmp_path: Path) -> None:
    opened, files = unpacked(tmp_path)
    facts = opened.manifest.facts
    pack(tmp_path / "b.clew.zip", msgspec.structs.replace(facts, runs=facts.runs * 1000), dict(files))
    verdict = checked(tmp_path / "b.clew.zip", tmp_path / "in")
    assert [one.text for one in verdict.problems] == [f"The report names the same run several times: {RUN[:8]}."]


def test_runs_of_an_exercise_that_is_not_known_here_are_not_checked_and_not_called_altered(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bundle_of(made_run(tmp_path / "run"), tmp_path / "a.clew.zip")
    verdict = check_handin(open_handin(path, tmp_path / "opened"), {})
    assert (verdict.ok, verdict.unknown) == (False, True)
    (row,) = class_rows([("a.clew.zip", verdict)])
    assert row.checked == "NOT CHECKED"
    assert "0 as recorded, 0 altered, 0 handed in twice, 1 not checked." in table_html([row])
    assert table_csv([row]).splitlines()[1].startswith("Anna Example,a.clew.zip,,")
    monkeypatch.setattr("clew_gui.commands.reports.verify_handin.catalogue", lambda *_, **_words: Catalogue())
    assert main(["verify-handin", str(path)]) == 2
    said = capsys.readouterr()
    assert "Altered" not in said.out + said.err
    assert "There is no exercise 'softmax' here" in said.err
    source = read_source(tmp_path / "run")
    other = source._replace(spec=msgspec.structs.replace(source.spec, exercise="mine"))
    with pytest.raises(ProblemError, match="There is no exercise 'softmax' or 'mine' here, so goals cannot be judged"):
        make_facts([source, other], {}, student="", created=0.0, version="", answers={}, jobs={})
    broken = msgspec.structs.replace(verdict, problems=(*verdict.problems, Problem("handin.run", "A run is missing.")))
    assert class_rows([("a.clew.zip", broken)])[0].checked == "ALTERED"


def test_the_page_of_another_version_is_not_checked_and_that_is_said(tmp_path: Path) -> None:
    opened, files = unpacked(tmp_path)
    files[PAGE] = b"<script>alert(1)</script>"
    claimed = [msgspec.structs.replace(goal, reached=True) for goal in opened.manifest.facts.goals]
    facts = msgspec.structs.replace(opened.manifest.facts, version="0.0.1", goals=tuple(claimed))
    pack(tmp_path / "b.clew.zip", facts, dict(files))
    verdict = checked(tmp_path / "b.clew.zip", tmp_path / "in")
    assert (verdict.ok, verdict.page_checked) == (True, False)
    assert "its page was NOT checked and may say anything" in verdict.notes[0]
    assert verdict.facts is not None
    assert [goal.reached for goal in verdict.facts.goals] == [True, False], "judged again, not as claimed"
    assert verdict.report is not None
    assert "<script" not in render(verdict.report)
    (row,) = class_rows([("b.clew.zip", verdict)])
    assert row.checked == "as recorded, page not checked"
    assert "✓ as recorded, page not checked" in table_html([row])
    lie = msgspec.structs.replace(facts.runs[0], steps=40)
    pack(tmp_path / "c.clew.zip", msgspec.structs.replace(facts, runs=(lie,)), dict(files))
    assert not checked(tmp_path / "c.clew.zip", tmp_path / "in c").ok, "its numbers are"


def test_a_copy_under_another_name_is_betrayed_by_its_times(tmp_path: Path) -> None:
    times = [0.103, 0.0971, 0.1054, 0.0989]
    runs = {
        "anna": made_run(tmp_path / "1", seconds=times, student=""),
        "ben": made_run(tmp_path / "2", seconds=[1.1 * time for time in times], student="", run=RUN[:-1] + "2"),
        "cleo": made_run(tmp_path / "3", seconds=[0.101, 0.0975, 0.1059, 0.0981], student="", run=RUN[:-1] + "3"),
        "dora": made_run(tmp_path / "4", seconds=[0.1], student="", run=RUN[:-1] + "4"),
        "emil": made_run(tmp_path / "5", seconds=[0.1], student="", run=RUN[:-1] + "5"),
    }
    rows = class_rows([handed_in(run, name, tmp_path) for name, run in runs.items()])
    assert {row.student for row in rows if row.checked == "ALTERED"} == {"anna", "ben"}
    problems = {row.student: row.problems for row in rows}
    short = RUN[:8]
    words = f"Run {short} took the same times, block by block, as run {short} of"
    end = "one is a copy of the other. Ask both."
    assert problems == {
        "anna": (f"{words} ben in ben.clew.zip: {end}",),
        "ben": (f"{words} anna in anna.clew.zip: {end}",),
        "cleo": (),
        "dora": (),
        "emil": (),
    }


def test_a_hand_in_that_no_check_foresaw_is_a_row_of_the_table(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("anna", "ben"):
        bundle_of(made_run(tmp_path / name, student=name), tmp_path / f"{name}.clew.zip", name)

    def check(handin: OpenedHandin, _: Mapping[str, ExerciseCard]) -> HandinVerdict:
        if handin.manifest.facts.student == "ben":
            raise OverflowError("too large")
        return check_handin(handin, CARDS)

    monkeypatch.setattr("clew_gui.commands.reports.verify_handin.check_handin", check)
    assert main(("class", str(tmp_path))) == 1
    shown = capsys.readouterr().out
    assert "as recorded" in next(line for line in shown.splitlines() if line.startswith("anna"))
    assert "ben.clew.zip: ben.clew.zip holds what Clew cannot check (OverflowError: too large)." in shown
    assert "OverflowError: too large" in (home / "log" / "command.log").read_text()
