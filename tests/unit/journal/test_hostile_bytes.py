"""Every parser and codec against bytes that mean harm: refused in its own words, at once, in bounded memory.

For each reader stands what it may raise; anything else is a crash. Its samples are changed, cut, doubled and filled
with huge declared sizes and deep nesting. ``CLEW_SOAK=1`` tries many more.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew_agent.catalogue.exercise_files import ExerciseFile, read_source
from clew_agent.datasets.lab_pickle import parse_pickle
from clew_gui.base.settings import SettingsFile
from clew_gui.sites.site_file import read_site
from clew_gui.views.window.window_state import WindowState
from clew_shared import spec
from clew_shared.base.harmless import for_csv
from clew_shared.base.problem import ProblemError
from clew_shared.exporters.tables import export_csv, export_jsonl
from clew_shared.journal.events import Attempt, Evaluation
from clew_shared.journal.files import JournalWriter
from clew_shared.reading import read_run
from clew_shared.study import study
from tests.fuzz import kept
from tests.readers import EXAMINED, MEBI, READERS, SERVICE, TRAPS, WINDOW, Reader, framed, use_run
from tests.unit.runs import small_run

PROCESSOR_S = 10.0
"""A hundred times what the slowest needs, with its memory traced; below what a loop over a declared size would take."""
MEMORY = 16 * MEBI
"""Above what any sample needs, below what a declared size would take."""


READERS_WARN = pytest.mark.filterwarnings(
    "ignore::SyntaxWarning",
    "ignore::DeprecationWarning",
    "ignore::UserWarning",  # Pillow's, of an image that it reads all the same
)
NAMES = [
    pytest.param(name, marks=pytest.mark.needs(reader.needs)) if reader.needs else name
    for name, reader in READERS.items()
]


A_FEW = settings(max_examples=settings().max_examples // 4)
"""Of bytes that nearly all begin wrong; and of runs that are read, checked and exported in each example."""


def spoil(data: bytes, how: str, place: float, trap: bytes) -> bytes:
    """``data`` with one thing done to it at ``place`` (0 to 1 of its length)."""
    at = int(place * len(data))
    match how:
        case "cut":
            return data[:at]
        case "insert":
            return data[:at] + trap + data[at:]
        case "replace":
            return data[:at] + trap + data[at + len(trap) :]
        case "repeat":
            return data[:at] + data[at // 2 :]
        case _:
            return data[:at] + bytes([data[at] ^ trap[0]]) + data[at + 1 :] if at < len(data) else data


CHANGES = st.tuples(
    st.sampled_from(["cut", "insert", "replace", "repeat", "flip"]),
    st.floats(0, 1),
    st.one_of(st.sampled_from(TRAPS), st.binary(min_size=1, max_size=6)),
)


def read_safely(reader: Reader, data: bytes) -> None:
    """Fail for an exception that is not declared, and for memory or time that the bytes do not account for."""
    begun = time.process_time()
    tracemalloc.start()
    try:
        reader.parse(data)
    except reader.refuses:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < MEMORY + 40 * len(data), f"{peak:,} bytes for an input of {len(data):,}"
    spent = time.process_time() - begun
    assert spent < PROCESSOR_S, f"{spent:.1f} s of a processor for an input of {len(data):,} bytes"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_whole_is_read(name: str) -> None:
    """Otherwise the tests below would change something that was refused anyway."""
    if name not in ("digits", "catalogue", "study"):
        READERS[name].parse(READERS[name].samples[0])


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("window", WINDOW),
        ("consents", ()),
        ("service", SERVICE),
        ("examined", {EXAMINED.path: EXAMINED.cards}),
        ("interpreter", None),
        ("site's answer", {"python": [3, 12], "have": {}}),
    ],
)
def test_what_is_whole_is_not_passed_over(name: str, found: object) -> None:
    """These readers never refuse: they go on without what they cannot read."""
    assert READERS[name].parse(READERS[name].samples[0]) == found


TEXT_FILES: dict[str, Callable[[Path], object]] = {
    "spec": spec.read_spec,
    "study": study.read_study,
    "site": read_site,
    "exercise": lambda path: read_source(ExerciseFile(path)),
}


@pytest.mark.unix("a FIFO")
@pytest.mark.parametrize("name", TEXT_FILES)
def test_a_text_without_an_end_or_a_writer_is_refused(name: str, tmp_path: Path) -> None:
    fifo, huge = tmp_path / "fifo", tmp_path / "huge"
    os.mkfifo(fifo)
    huge.write_bytes(b"#" * (MEBI + 1))
    for path, words in ((huge, "it has more than"), (fifo, "not a regular file"), (Path("/dev/zero"), "not a regular")):
        with pytest.raises(ProblemError, match=words):
            TEXT_FILES[name](path)


_HUGE = b")q\0" + b"0h\0h\0\x86q\0" * 24
"""A tuple of 2^24 entries in 200 bytes of pickle: each instruction pairs the tuple before with itself."""


@pytest.mark.parametrize(
    "pickled",
    [
        pytest.param(b"cnumpy\ndtype\n(" + _HUGE + b"tR.", id="dtype"),
        pytest.param(_HUGE + b"h\0\x93.", id="name"),
        pytest.param(b"cnumpy\nndarray\n(" + _HUGE + b"tR.", id="arguments"),
        pytest.param(
            b"cnumpy.core.numeric\n_frombuffer\n(C\1acnumpy\ndtype\n(\x8c\x02f4K\0K\1tR" + _HUGE + b"h\0\x86\x8c\1CtR.",
            id="shape",
        ),
    ],
)
def test_a_pickle_of_shared_references_is_refused_at_once(pickled: bytes) -> None:
    with pytest.raises(ValueError, match="its pickle"):
        parse_pickle(pickled)
    read_safely(READERS["pickle"], pickled)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 5000,
        "a = " + "{a=" * 5000,
        "a = " + "9" * 5000,
        "width = 99999999999",
        "tab = -1",
        "smoothing = nan",
    ],
)
def test_no_file_keeps_the_window_from_opening(text: str, tmp_path: Path) -> None:
    """It is read before the first frame, and its numbers go to Qt, which takes C's int."""
    (tmp_path / "window.toml").write_text(text)
    memory = SettingsFile(tmp_path / "window.toml", WindowState)
    assert memory.load() == WindowState()
    assert "window.toml" in str(memory.problem)


@READERS_WARN
@pytest.mark.parametrize("name", NAMES)
@A_FEW
@example(data=b"#")  # a comment only, where a reader knows comments
@given(data=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(name: str, data: bytes) -> None:
    read_safely(READERS[name], data)


@READERS_WARN
@pytest.mark.parametrize("name", NAMES)
def test_what_the_fuzzer_has_kept_is_read_or_refused(name: str) -> None:
    for data in kept(name):
        read_safely(READERS[name], data)


@READERS_WARN
@pytest.mark.parametrize("name", NAMES)
def test_each_trap_where_a_value_begins_is_read_or_refused(name: str) -> None:
    """What chance finds once in a thousand examples: broken text inside quotes, endless brackets behind a colon."""
    for sample in READERS[name].samples:
        for at in [0, *(found.end() for found in re.finditer(rb"[:=,\[{\"']", sample))][:12]:
            for trap in TRAPS:
                read_safely(READERS[name], sample[:at] + trap + sample[at:])


@READERS_WARN
@pytest.mark.parametrize("name", NAMES)
@given(choice=st.integers(0, 3), changes=st.lists(CHANGES, min_size=1, max_size=4))
def test_changed_bytes_are_read_or_refused(name: str, choice: int, changes: list[tuple[str, float, bytes]]) -> None:
    samples = READERS[name].samples
    data = samples[choice % len(samples)]
    for change in changes:
        data = spoil(data, *change)
    read_safely(READERS[name], data)


# --- Whole run folders ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    folder = small_run(tmp_path_factory.mktemp("hostile") / "run")
    return folder.path, folder.journal(1).read_bytes()


@A_FEW
@given(changes=st.lists(CHANGES, min_size=1, max_size=4))
def test_a_spoilt_journal_harms_no_reader(journal: tuple[Path, bytes], changes: list[tuple[str, float, bytes]]) -> None:
    folder, data = journal
    for change in changes:
        data = spoil(data, *change)
    (folder / "journal.0001").write_bytes(data)
    read_safely(Reader(lambda _: use_run(folder), ()), data)


@A_FEW
@given(payloads=st.lists(st.tuples(st.integers(0, 30), CHANGES), min_size=1, max_size=5))
def test_a_journal_that_lies_with_right_checksums_harms_no_reader(
    journal: tuple[Path, bytes], payloads: list[tuple[int, tuple[str, float, bytes]]]
) -> None:
    """Each frame is intact; what stands in it is not what it should be."""
    folder, data = journal
    frames = [b"\xc1CLW" + frame for frame in data.split(b"\xc1CLW")[1:]]
    for number, change in payloads:
        place = number % len(frames)
        frames[place] = framed(spoil(frames[place][12:], *change))
    lies = b"".join(frames)
    (folder / "journal.0001").write_bytes(lies)
    read_safely(Reader(lambda _: use_run(folder), ()), lies)


# --- What is written for other programs -------------------------------------------------------------------------------


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


@A_FEW
@example(names=["a"], run="", time=1.8e302)
@given(
    names=st.lists(st.text(max_size=9), min_size=1, max_size=3, unique=True), run=st.text(max_size=9), time=st.floats()
)
def test_whatever_names_a_journal_has_the_tables_have_five_columns(names: list[str], run: str, time: float) -> None:
    """Commas, quotes, line breaks, NUL, no time or an endless one: each program's own reader finds the names again, in
    CSV without what would move a cursor or begin a formula."""
    with TemporaryDirectory() as folder:
        with JournalWriter.create(Path(folder, "journal.0001")) as writer:
            first = Attempt(format=1, run=run, attempt=1, exercise="../x", spec_sha256="")
            for event in (first, Evaluation(time=time, step=1, values=dict.fromkeys(names, 0.5))):
                writer.append(event)
        history = read_run(Path(folder))
        table = export_csv(history, Path(folder, "out")).read_bytes().decode()
        lines = export_jsonl(history, Path(folder, "out")).read_bytes().splitlines()
        assert [path.parent.name for path in Path(folder).rglob("*.csv")] == ["out"], "a name led out of the folder"
    cells = list(csv.reader(io.StringIO(table, newline="")))
    assert sorted(row[2] for row in cells[1:]) == sorted(str(for_csv(name)) for name in names)
    assert {len(row) for row in cells} == {5}
    objects = [json.loads(line, parse_constant=_no_constant) for line in lines]
    assert sorted(row["metric"] for row in objects) == sorted(names)
    assert {row["run"] for row in objects} == {run}
