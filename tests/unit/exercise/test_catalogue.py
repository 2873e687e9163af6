"""The catalogue: built-in cards as packaged, and what becomes of files that break, hang or lie."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import msgspec
import pytest

from clew_agent.catalogue.catalogue import CatalogueSource, arrange, make_catalogue
from clew_agent.catalogue.examine import examine
from clew_agent.catalogue.exercise_files import ExerciseFile, builtin_files, folder_files, likely_files, read_source
from clew_agent.cli import main as cli
from clew_agent.strategies.registry import STRATEGIES
from clew_shared.base.problem import ProblemError
from clew_shared.cards import Catalogue, ExerciseCard, Preset, Requirement
from clew_shared.catalogue import (
    BUILTIN,
    catalogue_hash,
    decode,
    encode,
    find_card,
    find_preset,
    known_sets,
    known_strategies,
    load_builtin,
    on_servers,
)
from clew_shared.params import check

GOOD = """
from typing import Annotated
from clew_agent.training.exercise import Exercise
from clew_shared.params import (Knob, Params)

class MineSettings(Params, frozen=True, kw_only=True):
    width: Annotated[int, Knob("Width", ge=1)] = 3

class Mine(Exercise[MineSettings]):
    id = "mine"
    title = "Mine"
    Settings = MineSettings
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "exercises"
    path.mkdir()
    return path


def own_cards(catalogue: Catalogue) -> dict[str, ExerciseCard]:
    """The cards that are not built in, by file name."""
    return {Path(card.file).name: card for card in catalogue.exercises if not card.file.startswith("clew_agent/")}


def read_now(folder: Path) -> dict[str, ExerciseCard]:
    """The cards of a folder of scripts, which are read at once."""
    source = CatalogueSource(folder)
    try:
        return own_cards(source.get())
    finally:
        source.close()


def complaint(card: ExerciseCard) -> str:
    assert card.problem is not None
    return card.problem.text


# Built in.


def test_the_packaged_catalogue_is_what_the_files_say() -> None:
    assert cli.main(["catalogue", "--check"]) == 0


def test_a_difference_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    changed = load_builtin()
    cards = (msgspec.structs.replace(changed.exercises[0], title="Another"), *changed.exercises[1:])
    other = msgspec.structs.replace(changed, exercises=cards)
    monkeypatch.setattr("clew_agent.cli.catalogue.make_catalogue", lambda *_, **__: other)
    assert cli.main(["catalogue", "--check"]) == 1
    assert "out of date: linear-regression" in capsys.readouterr().err


def test_built_in_cards_are_complete_and_in_the_order_of_the_courses() -> None:
    catalogue = load_builtin()
    assert [card.id for card in catalogue.exercises][:3] == ["linear-regression", "softmax", "cnn"]
    assert catalogue.chapters[0] == "Convergence"
    for card in catalogue.exercises:
        assert card.problem is None
        assert card.source_hash == hashlib.sha256(card.source.encode()).hexdigest()
        assert not Path(card.file).is_absolute()
        assert "tiny" in [preset.name for preset in card.presets]
        assert card.baseline in ["", *(preset.name for preset in card.presets)]
        assert card.strategies
        assert card.goals
        for preset in card.presets:
            assert check(card.params, preset.values)[1] == (), f"{card.id} {preset.name}"
            assert preset.data in ("", *card.datasets)


def test_the_packaged_catalogue_has_one_line_for_each_exercise_and_data_set_and_no_copy_of_its_file() -> None:
    _, *lines, _ = BUILTIN.read_text(encoding="utf-8").splitlines()
    between = lines.index('],"datasets":[')
    assert [json.loads(line.rstrip(","))["source"] for line in lines[:between]] == [""] * len(builtin_files())
    assert [json.loads(line.rstrip(","))["name"] for line in lines[between + 1 :]] == list(known_sets())


def test_without_the_agents_files_the_exercises_are_there_without_their_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew_shared.catalogue.find_spec", lambda _: None)
    assert {card.source for card in load_builtin().exercises} == {""}


def test_a_preset_says_its_data_where_its_guide_does() -> None:
    """The window and ``clew run`` take them from the card, on a site as well."""
    cards = load_builtin().exercises
    tiny = {card.id: find_preset(card, "tiny").data for card in cards if "digits" in card.datasets}
    assert tiny == dict.fromkeys(tiny, "digits")
    named = [(card, preset) for card in cards for preset in card.presets if preset.data]
    assert [preset.name for card, preset in named if preset.data not in card.datasets] == []
    transfer = find_card(cards, "transfer")
    assert find_preset(transfer, transfer.baseline).data == "digits", "the goal is about the small digits"


def test_the_registry_and_the_cards_of_the_package_have_the_same_strategies() -> None:
    """The supervisor goes by the registry, the window by the cards."""
    assert set(known_strategies()) == set(STRATEGIES)
    assert {name for name in STRATEGIES if on_servers(name)} == {
        n for n, one in STRATEGIES.items() if "cluster" in one.build
    }
    assert not on_servers("of-a-later-version")
    assert [param.name for param in known_strategies()["mirrored"].params] == ["reduce"], (
        "not the card of a measurement"
    )


def test_json_round_trip_and_hash() -> None:
    catalogue = load_builtin()
    assert decode(encode(catalogue)) == catalogue
    assert catalogue_hash(catalogue) == catalogue_hash(decode(encode(catalogue)))
    assert catalogue_hash(catalogue) != catalogue_hash(Catalogue())


def test_cards_and_presets_are_found_or_suggested() -> None:
    cards = load_builtin().exercises
    assert find_card(cards, "softmax").id == "softmax"
    assert find_preset(find_card(cards, "cnn"), "tiny").name == "tiny"
    with pytest.raises(ProblemError, match="Did you mean softmax"):
        find_card(cards, "sofmax")
    with pytest.raises(ProblemError, match="Did you mean tiny"):
        find_preset(find_card(cards, "cnn"), "tinny")


def test_a_damaged_package_is_a_clear_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.json").write_text("{")
    monkeypatch.setattr("clew_shared.catalogue.BUILTIN", tmp_path / "broken.json")
    with pytest.raises(ProblemError, match="Install Clew again"):
        load_builtin()


# Files of somebody's own.


def test_own_exercises_join_the_built_in_ones(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "any_name.py").write_text(GOOD, newline="\n")
    (folder / "_helper.py").write_text("raise RuntimeError('never imported by itself')")
    assert cli.main(["catalogue", "--json", "--exercises", str(folder)]) == 0
    cards = {card["id"]: card for card in json.loads(capsys.readouterr().out)["exercises"]}
    assert {"softmax", "mine"} <= cards.keys()
    assert cards["mine"]["source"] == GOOD
    assert cards["mine"]["file"] == str(folder / "any_name.py")
    assert cards["mine"]["chapter"] == "Your own"


def test_each_broken_file_becomes_a_card_that_says_where(folder: Path) -> None:
    (folder / "good.py").write_text(GOOD)
    (folder / "syntax.py").write_text("x = 1\nif x\n")
    (folder / "raises.py").write_bytes(b"x = 1\n\ny = x / 0\n")
    (folder / "leaves.py").write_text("import sys\nsys.exit(3)\n")
    (folder / "dies.py").write_text("import os\nos._exit(4)\n")
    (folder / "empty.py").write_text("")
    (folder / "mistyped.py").write_text(GOOD.replace('title = "Mine"', 'title = "Mine"; minutes = "ten"'))
    goal = 'goals = (Goal(id="g", text="Low", metric="loss", op="<=", value=1, requires=(Requirement("widht"),)),)'
    names = "from clew_shared.cards import Goal, Requirement\n"
    (folder / "goal.py").write_text(names + GOOD.replace('title = "Mine"', f'title = "Mine"; {goal}'))
    asked = goal.replace('requires=(Requirement("widht"),)', 'question="Why?"')
    (folder / "question.py").write_text(names + GOOD.replace('title = "Mine"', f'title = "Mine"; {asked}'))
    (folder / "noisy.py").write_text('print(\'{"path": "a lie"}\')\n' + GOOD.replace('"mine"', '"noisy"'))
    cards = own_cards(make_catalogue(folder))
    assert cards["good.py"].problem is None
    assert cards["noisy.py"].problem is None
    assert "syntax.py, line 2: SyntaxError" in complaint(cards["syntax.py"])
    assert "raises.py, line 3: ZeroDivisionError" in complaint(cards["raises.py"])
    assert "leaves.py, line 2: SystemExit" in complaint(cards["leaves.py"])
    assert "exit code 4" in complaint(cards["dies.py"])
    assert "mistyped.py, ValidationError: Expected `int`, got `str` - at `$.minutes`" in complaint(cards["mistyped.py"])
    said = str(cards["goal.py"].problem)
    assert said.endswith("asks for the setting 'widht', which the exercise does not have. Did you mean width?")
    said = complaint(cards["question.py"])
    assert "The goal 'Low' of mine asks for an answer to 'Why?', which the guide does not ask." in said
    assert "declares no exercise" in complaint(cards["empty.py"])
    assert cards["raises.py"].source == "x = 1\n\ny = x / 0\n"


SCRIPT = '''"""A line.

More of it.
"""
# /// clew
# id = "line"
#
# [params.rate]
# default = 0.5
# gt = 0
#
# [metrics.loss]
# better = "lower"
# [metrics.test_loss]
# every_step = false
# ///
raise SystemExit("never imported")
'''


GOAL_FOR_RATES = """# [[goals]]
# text = "Low"
# metric = "loss"
# op = "<="
# value = 0.1
# requires = [{name = "rates", least = 0.5}]
"""


def test_a_goal_of_a_script_may_ask_for_settings(folder: Path) -> None:
    asked = GOAL_FOR_RATES.replace('"rates"', '"rate"')
    (folder / "line.py").write_text(SCRIPT.replace("# ///\n", f"{asked}# ///\n", 1))
    card = read_now(folder)["line.py"]
    assert [one.requires for one in card.goals] == [(Requirement("rate", least=0.5),)]


def test_the_card_of_a_script_is_read_without_running_it(folder: Path) -> None:
    (folder / "line.py").write_text(SCRIPT)
    (folder / "clew_log.py").write_text("")
    cards = read_now(folder)
    card = cards["line.py"]
    assert (card.problem, card.kind, card.title, card.chapter) == (None, "script", "Line", "Your own")
    assert (card.summary, card.guide) == ("A line.", "More of it.")
    assert [(one.name, one.kind, one.gt) for one in card.params] == [("rate", "float", 0)]
    assert [(one.name, one.per_step) for one in card.metrics] == [("loss", True), ("test_loss", False)]
    assert [one.metrics for one in card.plots] == [("loss", "test_loss")]
    assert cards.keys() == {"line.py"}, "clew_log.py is no exercise"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('id = "line"', "id = line", "line 6: the header is not valid TOML"),
        ('id = "line"', 'id = "A line"', "line 6: the id 'A line' needs small letters"),
        ('id = "line"', 'name = "line"', "line 6: the header: Object contains unknown field `name`"),
        ("default = 0.5", "default = -1.0", "line 8: the default of Rate (rate)"),
        ("gt = 0", 'gt = "zero"', "line 10: the header: Expected `float | null`, got `str`"),
        ("params.rate", "params.seed", "line 8: no hyperparameter can be called 'seed'"),
        ("# [metrics.loss]", "[metrics.loss]", "line 12: the header ends with"),
        ("raise SystemExit", "raise = SystemExit", "line 17: SyntaxError"),
        (
            "[metrics.loss]",
            "[metrics.train/loss]",
            "line 12: the header is not valid TOML: Expected ']' at the end of a",
        ),
        ("[metrics.loss]", '[metrics."/loss"]', "line 12: the metric '/loss' is named in another way than Clew keeps"),
        ("# every_step = false\n", f"# every_step = false\n{GOAL_FOR_RATES}", "line 21: the goal 'Low' asks for the"),
    ],
)
def test_a_broken_script_says_where_and_hurts_nothing_else(folder: Path, old: str, new: str, words: str) -> None:
    (folder / "line.py").write_text(SCRIPT.replace(old, new, 1))
    (folder / "other.py").write_text(SCRIPT.replace('"line"', '"other"'))
    cards = read_now(folder)
    assert words in complaint(cards["line.py"])
    assert cards["other.py"].problem is None


@pytest.mark.parametrize(
    "name", ["train/loss", "val/mAP@50", "lr-Adam/pg.0", "metrics/mAP50-95", "acc@1", "top-1", "eval.f1", "_a", "a/0"]
)
def test_metrics_may_have_the_names_that_other_loggers_give(folder: Path, name: str) -> None:
    text = SCRIPT.replace("[metrics.loss]", f'[metrics."{name}"]') + GOAL_FOR_RATES.replace('"loss"', f'"{name}"')
    (folder / "line.py").write_text(text)
    card = read_now(folder)["line.py"]
    assert card.problem is None
    assert card.metrics[0].name == name
    assert card.metrics[0].dtype == "float64"
    assert card.metrics[0].label[1:] == name[1:].replace("-", " ").replace("_", " ")


@pytest.mark.parametrize(
    "name",
    ["", "/loss", "loss/", "a//b", "a/../b", "../a", "a b", "a:b", "a,b", "1a", "p(B)", "a\\b", "\u00e9", "a\\n", "-a"],
)
def test_other_names_of_metrics_are_refused_in_words(folder: Path, name: str) -> None:
    (folder / "line.py").write_text(SCRIPT.replace("[metrics.loss]", f'[metrics."{name}"]'), encoding="utf-8")
    text = complaint(read_now(folder)["line.py"])
    assert "may have letters, digits and . _ - / @" in text or "not valid TOML" in text


def test_metrics_of_sets_share_the_plot_of_their_quantity(folder: Path) -> None:
    metrics = '# [metrics."train/loss"]\n# [metrics."val/loss"]\n# [metrics."val/mAP@50"]\n'
    (folder / "line.py").write_text(SCRIPT.replace("# [metrics.loss]\n", f"{metrics}# [metrics.loss]\n"))
    card = read_now(folder)["line.py"]
    assert [one.metrics for one in card.plots] == [("train/loss", "val/loss", "loss", "test_loss"), ("val/mAP@50",)]


def test_a_folder_is_followed_file_by_file_and_nothing_is_waited_for(folder: Path) -> None:
    source = CatalogueSource(folder, look_every_s=0.0)

    def cards() -> dict[str, ExerciseCard]:
        """Looked at now."""
        source.turn()
        return own_cards(source.get())

    assert "holds no .py file" in complaint(cards()[""])
    (folder / "mine.py").write_text("if\n")
    assert "mine.py, line 1: SyntaxError" in complaint(cards()["mine.py"]), "said without an import"
    (folder / "hangs.py").write_text("import time\ntime.sleep(1000)\n")
    assert complaint(cards()["hangs.py"]) == "hangs.py is being read."
    assert (source.ready("softmax"), source.ready("hangs"), source.ready()) == (True, False, False)
    before = source.generation
    (folder / "mine.py").write_text(GOOD)
    assert "is being read" in complaint(cards()["mine.py"])
    assert source.generation > before
    until = time.monotonic() + 100
    while cards()["mine.py"].problem is not None and time.monotonic() < until:
        time.sleep(0.05)
    card = cards()["mine.py"]
    assert (card.problem, card.id, card.chapter) == (None, "mine", "Your own")
    assert source.ready("mine")
    (folder / "hangs.py").unlink()
    assert cards().keys() == {"mine.py"}
    assert source.ready()
    source.reload()
    assert "is being read" in complaint(own_cards(source.get())["mine.py"])
    source.close()


def test_own_chapters_and_exercises_are_listed_by_their_order() -> None:
    places = (("Second", 20, "b"), ("Second", 10, "c"), ("First", 5, "z"), ("Anything", 100, "a"))
    made = arrange([ExerciseCard(id=title, title=title, chapter=chapter, order=n) for chapter, n, title in places])
    assert made.chapters == ("First", "Second", "Anything")
    assert [card.title for card in made.exercises] == ["z", "c", "b", "a"]


@pytest.mark.needs("quick-system")
def test_a_file_that_never_ends_is_given_up_and_leaves_no_process(folder: Path) -> None:
    (folder / "sleeps.py").write_text("import time\ntime.sleep(1000)\n")
    (card,) = own_cards(make_catalogue(folder, 1.0)).values()
    assert "it computed, or stood still, for 1 s" in complaint(card)


@pytest.mark.needs("quick-system")
@pytest.mark.parametrize("computes", [False, True])
def test_an_import_from_a_slow_disk_is_waited_for_while_it_moves(folder: Path, computes: bool) -> None:
    """As on a home folder where each file takes a moment; one that computes for ever is given up."""
    read = "while True: pass\n" if computes else "for _ in range(50):\n    time.sleep(0.05)\n    sum(range(100_000))\n"
    (folder / "slow.py").write_text(f"import time\n{read}raise RuntimeError('it was read')\n")
    (card,) = own_cards(make_catalogue(folder, 2.0)).values()
    assert ("it computed, or stood still, for 2 s" if computes else "it was read") in complaint(card)


@pytest.mark.unix("fork")
def test_what_a_file_forks_does_not_outlive_its_description(folder: Path) -> None:
    """The guard of the tests looks for what is left; the copies hold the child's output open."""
    fork = "import os, time\nif not os.fork():\n    time.sleep(1000)\n"
    for then, limit, words in (
        ("raise RuntimeError", 100.0, "RuntimeError"),
        ("os.wait()", 1.0, "stood still, for 1 s"),
    ):
        (folder / "forks.py").write_text(f"{fork}{then}\n")
        assert words in complaint(own_cards(make_catalogue(folder, limit))["forks.py"])


@pytest.mark.unix("a process that a signal ends")
def test_one_bad_file_does_not_take_its_neighbours_with_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built-in files are imported by one child."""
    (folder / "a_dies.py").write_text("import os\nos.abort()\n")
    (folder / "b_good.py").write_text(GOOD)
    monkeypatch.setattr("clew_agent.catalogue.catalogue.builtin_files", lambda: folder_files(folder))
    cards = own_cards(make_catalogue(fresh=True))
    assert "SIGABRT" in complaint(cards["a_dies.py"])
    assert cards["b_good.py"].id == "mine"


def test_two_exercises_with_one_id_are_both_shown() -> None:
    first, second = ExerciseCard(id="a", title="A", file="one.py"), ExerciseCard(id="a", title="B", file="two.py")
    cards = arrange([first, second]).exercises
    assert [card.id for card in cards] == ["a", "a-2"]
    assert "another exercise has already" in complaint(cards[1])


def test_folders_without_exercises_are_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ProblemError, match="holds no"):
        folder_files(folder)
    with pytest.raises(ProblemError, match="no folder"):
        folder_files(tmp_path / "nowhere")
    for name in ("loop.py", "loop"):
        (folder / name).symlink_to(folder)
    with pytest.raises(ProblemError, match="holds no"):
        folder_files(folder)


def test_links_to_a_folder_around_it_hide_no_exercise(folder: Path) -> None:
    (folder / "good.py").write_text(GOOD)
    for name, target in (("a.py", "."), ("b", ".."), ("c.py", ".."), ("d", ".")):
        (folder / name).symlink_to(target)
    assert [file.path for file in folder_files(folder)] == [folder / "good.py"]


def test_sources_that_are_no_text_are_refused(folder: Path) -> None:
    (folder / "binary.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProblemError, match=r"binary\.py"):
        read_source(ExerciseFile(folder / "binary.py"))
    (card,) = examine(ExerciseFile(folder / "binary.py"))
    assert card.source == ""
    assert "binary.py" in complaint(card)


def test_likely_files_begin_with_the_one_of_that_name(folder: Path) -> None:
    (folder / "also.py").write_text("# like 'softmax' but other")
    names = [file.path.name for file in likely_files("softmax", folder)]
    assert names[0] == "softmax.py"
    assert "also.py" in names
    assert "linear_regression.py" not in names
    assert all(file.module.startswith("clew_agent.exercises.") for file in builtin_files())


def test_a_preset_is_plain_data() -> None:
    assert msgspec.json.decode(msgspec.json.encode(Preset(name="a", title="A")), type=Preset).values == {}
