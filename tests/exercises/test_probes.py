"""What can be tried with a trained run: its answers are those of the run's own evaluation, by its last checkpoint."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest

from clew_agent.catalogue.examine import find_exercise
from clew_agent.cli.probes import ProbedRun
from clew_agent.datasets.dataset import DataSet
from clew_agent.training.engine import Engine
from clew_agent.training.probes import NEAREST, ImageClasses, ImageCodes
from clew_shared.base.problem import ProblemError, problem
from clew_shared.cards import ExerciseCard
from clew_shared.catalogue import load_builtin
from clew_shared.journal.events import Evaluation, Image, Matrix
from clew_shared.journal.files import Record, read_journal
from clew_shared.journal.run_folder import RunFolder
from clew_shared.params import build
from clew_shared.spec import read_spec, to_toml
from clew_shared.wire.messages import Refused, Tried, TryRun
from tests.exercises.attempts import attempt, new_run

CARDS = {card.id: card for card in load_builtin().exercises}
TRIED = [card.id for card in CARDS.values() if card.tries == "classes" and card.id != "transfer"]
CODED = [card.id for card in CARDS.values() if card.tries == "code"]
SMALL = {"activations": {"layers": 3, "units": 20}, "generalisation": {"images": 200, "batch_norm": True}}


def engine_of(card: ExerciseCard, data: DataSet) -> Engine:
    """An engine with weights of which no two classes have the same score."""
    exercise, _ = find_exercise(card.id, None, card)
    engine = Engine(exercise, build(exercise.Settings, SMALL.get(card.id, {})), 1, data)
    draw = np.random.default_rng(3)
    for part in engine.model.parts:
        for variable in part.variables.values():
            variable.assign_add(draw.normal(0, 0.01, variable.shape))
    return engine


class Made:
    """Each network, and what answers for it, once."""

    def __init__(self, data: DataSet) -> None:
        self._data = data
        self.engine = cache(lambda name: engine_of(CARDS[name], data))
        self.classes = cache(lambda name: ImageClasses(self.engine(name).model, data))
        self.codes = cache(lambda name: ImageCodes(self.engine(name).model, data))


@pytest.fixture(scope="module")
def made(small_digits: DataSet) -> Made:
    return Made(small_digits)


@pytest.mark.parametrize("name", TRIED)
def test_the_answers_to_the_test_images_are_those_of_the_evaluation(
    name: str, made: Made, small_digits: DataSet
) -> None:
    engine, test = made.engine(name), small_digits.test
    found = made.classes(name).probabilities(test.x)
    assert np.allclose(found.sum(1), 1, atol=1e-5)
    evaluated = engine.evaluate()
    assert (found.argmax(1) == test.y).mean() == pytest.approx(evaluated["test_accuracy"], abs=1e-9)
    loss = -np.log(found[np.arange(len(test)), test.y]).mean()
    assert loss == pytest.approx(evaluated["test_loss"], rel=1e-4)


def test_each_layer_the_pixels_that_matter_and_the_nearest_images_are_shown(made: Made, small_digits: DataSet) -> None:
    probe = made.classes("cnn")
    seventh = small_digits.train.x[7]
    pictures = {one.spec.id: one for one in probe.ask(seventh, TryRun(run="r"), 40).pictures}
    titles = [one.spec.title for one in pictures.values() if one.spec.id.startswith("layer")]
    assert titles == [
        "Layer 1, 32 maps of 28 × 28",
        "Layer 2, 64 maps of 14 × 14",
        "Layer 3, 1024 units",
    ]
    shown = pictures["input"].figure
    assert isinstance(shown, Image)
    assert shown.step == 40
    assert np.allclose(np.frombuffer(shown.data, np.uint8) / 255, seventh, atol=0.5 / 255)
    saliency, nearest = pictures["saliency"].figure, pictures["nearest"].figure
    assert isinstance(saliency, Image)
    assert {0, 255} & set(saliency.data), "the pixel that matters most"
    assert saliency.data[0] == 128, "a black pixel adds nothing"
    assert isinstance(nearest, Image)
    assert nearest.count == NEAREST
    assert nearest.data[: 28 * 28] == shown.data, "a training image is nearest to itself"
    assert np.frombuffer(nearest.classes, "<i4")[0] == small_digits.train.y[7]


def test_few_units_are_bars_and_the_scores_of_a_single_layer_are_no_layer(made: Made, small_digits: DataSet) -> None:
    for name, forms in (("softmax", []), ("activations", ["bars"] * 3)):
        pictures = made.classes(name).ask(small_digits.test.x[0], TryRun(run="r"), 1).pictures
        layers = [one for one in pictures if one.spec.id.startswith("layer")]
        assert [one.spec.form for one in layers] == forms
        assert all(isinstance(one.figure, Matrix) for one in layers)


def test_what_the_pixels_add_is_the_score_of_a_single_layer(made: Made, small_digits: DataSet) -> None:
    row = small_digits.test.x[0]
    weights = made.engine("softmax").model.parts[0].variables["W"].numpy()
    answer = made.classes("softmax").ask(row, TryRun(run="r"), 1)
    best = np.argmax(answer.probabilities)
    added = row * weights[:, best]
    (ink,) = (one for one in answer.pictures if one.spec.id == "saliency")
    assert isinstance(ink.figure, Image)
    wanted = np.rint(255 * (0.5 + 0.5 * added / np.abs(added).max()))
    assert np.abs(np.frombuffer(ink.figure.data, np.uint8) - wanted).max() <= 1


@pytest.mark.parametrize("name", CODED)
def test_an_image_is_drawn_again_from_its_code_and_a_moved_code_draws_another(
    name: str, made: Made, small_digits: DataSet
) -> None:
    probe = made.codes(name)
    row = small_digits.test.x[5]
    first = probe.ask(row, TryRun(run="r", sample=5), 8)
    shown = {one.spec.id: one.figure for one in first.pictures}
    plane = ["plane"] if len(first.code) == 2 or not probe.reads_images else []
    assert list(shown) == (["input", "output", "difference"] if probe.reads_images else ["output"]) + plane
    assert (first.threshold is not None) == (name == "anomaly")
    assert len(first.ranges) == len(first.code)
    assert all(low <= high for low, high in first.ranges)
    again = probe.ask(row, TryRun(run="r", code=first.code), 8)
    assert [one.spec.id for one in again.pictures] == ["output", *plane]
    assert again.pictures[0].figure == shown["output"]
    assert again.error is None
    moved = probe.ask(row, TryRun(run="r", code=tuple(number + 2 for number in first.code)), 8)
    assert moved.pictures[0].figure != shown["output"]
    for wrong in (first.code[1:] or (0.0, 0.0), (float("nan"), *first.code[1:])):
        with pytest.raises(ProblemError, match="The code of this network has"):
            probe.ask(row, TryRun(run="r", code=wrong), 8)


def test_the_error_of_a_drawn_image_is_that_of_the_evaluation(made: Made, small_digits: DataSet) -> None:
    probe = made.codes("autoencoder")
    errors = [probe.ask(row, TryRun(run="r", sample=1), 1).error for row in small_digits.test.x]
    assert np.mean(np.array(errors, float)) == pytest.approx(
        made.engine("autoencoder").evaluate()["test_error"], rel=1e-5
    )


def test_noise_is_that_of_its_seed(made: Made, small_digits: DataSet) -> None:
    probe = made.codes("gan")
    row = small_digits.test.x[0]
    first, second, again = (probe.ask(row, TryRun(run="r", sample=seed), 1) for seed in (1, 2, 1))
    assert first.error is None
    assert first.code == again.code != second.code


def test_a_code_is_no_question_to_a_network_that_sorts_images(made: Made, small_digits: DataSet) -> None:
    with pytest.raises(ProblemError, match="it has no code"):
        made.classes("softmax").ask(small_digits.test.x[0], TryRun(run="r", code=(1.0,)), 1)


def test_a_network_that_has_diverged_says_so(made: Made, small_digits: DataSet) -> None:
    row = np.full_like(small_digits.test.x[0], np.nan)  # as with weights that are no numbers
    for probe in (made.classes("softmax"), made.codes("autoencoder")):
        with pytest.raises(ProblemError, match="step 7 answers with values that are no numbers") as refused:
            probe.ask(row, TryRun(run="r", sample=0), 7)
        assert refused.value.problems[0].code == "try.diverged"


def test_scores_have_a_column_for_each_class_of_the_data_set(made: Made, small_digits: DataSet) -> None:
    with pytest.raises(ProblemError, match=r"the shape \(1, 10\), and digits has 3 classes"):
        ImageClasses(made.engine("softmax").model, msgspec.structs.replace(small_digits, classes=3))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, small_digits: DataSet) -> Path:
    folder = new_run(
        tmp_path_factory.mktemp("tries") / "run", "softmax", steps=40, evaluate_every=40, checkpoint_every=20
    )
    folder.spec.write_text(to_toml(msgspec.structs.replace(read_spec(folder.spec), data="digits")), encoding="utf-8")
    attempt(folder, data=small_digits)
    return folder.path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> RunFolder:
    """A run of 40 steps with checkpoints at 20 and 40."""
    return RunFolder(Path(shutil.copytree(trained, tmp_path / "run")))


def test_a_run_answers_by_its_last_checkpoint_and_by_a_newer_one_when_there_is_one(
    run: RunFolder, small_digits: DataSet
) -> None:
    hidden = run.checkpoint(40).rename(run.path / "hidden")
    probed = ProbedRun(run)
    assert probed.answer(TryRun(run="r", sample=0)).step == 20
    hidden.rename(run.checkpoint(40))
    test = small_digits.test
    answers = [probed.answer(TryRun(run="r", sample=sample + len(test))) for sample in range(20)]
    assert {answer.step for answer in answers} == {40}
    assert [(answer.sample, answer.samples) for answer in answers] == [(sample, len(test)) for sample in range(20)]
    assert [answer.label for answer in answers] == test.y[:20].tolist()
    (evaluation,) = (
        item.event
        for item in read_journal(run.journal(1))
        if isinstance(item, Record) and isinstance(item.event, Evaluation)
    )
    engine = engine_of(CARDS["softmax"], small_digits)
    engine.restore(run.checkpoint(40))
    whole = ImageClasses(engine.model, small_digits).probabilities(test.x)
    assert np.allclose([answer.probabilities for answer in answers], whole[:20], atol=1e-6)
    assert (whole.argmax(1) == test.y).mean() == pytest.approx(evaluation.values["test_accuracy"], abs=1e-9)


def test_an_image_is_answered_and_what_is_none_is_refused(run: RunFolder, small_digits: DataSet) -> None:
    probed = ProbedRun(run)
    known = np.rint(small_digits.test.x[3] * 256).astype(np.uint8)
    answer = probed.answer(TryRun(run="r", width=28, height=28, pixels=known.tobytes()))
    assert (answer.label, answer.sample) == (-1, -1)
    assert answer.probabilities == pytest.approx(probed.answer(TryRun(run="r", sample=3)).probabilities, abs=1e-6)
    for width, height, pixels in (
        (28, 28, b""),
        (0, 0, b""),
        (2, 2, b"12345"),
        (-1, -1, b"1"),
        (200, 200, bytes(40_000)),
    ):
        with pytest.raises(ProblemError, match="no image of"):
            probed.answer(TryRun(run="r", width=width, height=height, pixels=pixels))


def test_whatever_goes_wrong_is_refused_and_the_next_question_answered(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    probed = ProbedRun(run)
    asked = msgspec.json.encode(TryRun(run="r", sample=3))
    nan = msgspec.json.encode(TryRun(run="r", code=(float("nan"),)))
    negative = msgspec.json.encode(TryRun(run="r", width=-1, height=-1, pixels=b"1"))
    for line, code in ((nan, "try.failed"), (b"{", "try.failed"), (negative, "try.image")):
        refused = probed.reply(line)
        assert isinstance(refused, Refused)
        assert refused.problem.code == code
    with monkeypatch.context() as patch:
        patch.setattr(ImageClasses, "probabilities", lambda *_: np.zeros(3) @ np.zeros(2))
        refused = probed.reply(asked)
    assert isinstance(refused, Refused)
    assert "This cannot be answered: ValueError: " in refused.problem.text
    assert isinstance(probed.reply(asked), Tried)


def test_after_weights_that_could_not_be_read_they_are_read_again(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = run.checkpoint(40).rename(run.path / "hidden")
    probed = ProbedRun(run)
    hidden.rename(run.checkpoint(40))
    restore, restored = Engine.restore, list[str]()

    def count(engine: Engine, folder: Path) -> None:
        restored.append(folder.name)
        if len(restored) == 1:
            raise problem("checkpoint.damaged", "It is gone.")
        restore(engine, folder)

    monkeypatch.setattr(Engine, "restore", count)
    with pytest.raises(ProblemError, match="It is gone"):
        probed.answer(TryRun(run="r", sample=0))
    assert probed.answer(TryRun(run="r", sample=0)).step == 40
    assert restored == [run.checkpoint(40).name] * 2


def test_a_run_without_a_checkpoint_or_with_nothing_to_try_says_so(run: RunFolder, tmp_path: Path) -> None:
    for step in (20, 40):
        run.checkpoint(step).rename(tmp_path / str(step))
    with pytest.raises(ProblemError, match="no checkpoint yet") as refused:
        ProbedRun(run)
    assert refused.value.problems[0].code == "try.checkpoint"
    other = new_run(tmp_path / "other", steps=20, checkpoint_every=20)
    attempt(other)
    with pytest.raises(ProblemError, match="cannot be tried"):
        ProbedRun(other)
