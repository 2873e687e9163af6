"""Everything that is refused is refused before the first run starts and before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from clew_gui.commands.main import main

_HUGE = "step,loss\n0,1\n99999999999999999999,1\n"
_TINY = ("--preset", "tiny")
_SERVERS = ("--data", "digits", "--strategy", "parameter-server", "--mode", "lock-free")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("sweep", "softmax", *_TINY, "--over", "data=digits,nope"), "There is no data set 'nope'"),
        (("sweep", "softmax", *_TINY, "--over", "data=digits,./gone.npz"), "gone.npz does not exist"),
        (("sweep", "softmax", *_TINY, "--over", "data=digits,./broken.npz"), "broken.npz is not"),
        (("sweep", "softmax", *_TINY, "--over", "batch_size=8,-1"), "Batch size (batch_size)"),
        (("sweep", "softmax", *_TINY, "--over", "nodes=x"), "The number of nodes must be a whole number from 1"),
        (("sweep", "softmax", *_TINY, "--over", "devices=1,0"), "The number of devices must be a whole number"),
        (("sweep", "softmax", *_TINY, "--over", "strategy=single,magic"), "with the strategy 'magic'"),
        (("sweep", "softmax", *_TINY, "--over", "precision=float32,float1"), "must be one of float32"),
        (
            ("sweep", "softmax", *_TINY, "--method", "tpe", "--count", "3", "--over", "data=digits,nope"),
            "There is no data set 'nope'",
        ),
        (("sweep", "linear-regression", "--over", "learning_rate=0,5"), "may mean one number or two. Write 0.5"),
        (("sweep", "linear-regression", "--over", "steps=9", "--over", "steps=8"), "--over names steps twice. Put all"),
        (("race", "linear-regression", "--lanes", "sgd,Adam,SGD"), "The lane SGD is listed twice. Remove one."),
        (("sweep", "linear-regression", "--over", "learning_rate=0,5 to 2,5 2"), "got '0,5 to 2,5 2'"),
        (("sweep", "linear-regression", "--over", "learning_rate=0.1; 0,5"), "got '0,5'"),
        (("sweep", "softmax", *_TINY, "--data", "broken.npz", "--over", "batch_size=8,9"), "broken.npz is not"),
        (("race", "softmax", *_TINY, "--data", "broken.npz", "--save", "race.toml"), "broken.npz is not"),
        (("scaling", "softmax", *_TINY, "--data", "broken.npz", "--save", "scaling.toml"), "broken.npz is not"),
        (("study", "mixed.toml"), "There is no data set 'nope'"),
        (("run", "linear-regression", "--trace", "500"), "A trace is of 1 to 200 steps, got 500"),
        (("run", "linear-regression", "--trace", "0"), "--trace must be a whole number from 1 on"),
        (("run", "vectorize", "--trace", "5"), "vectorize is a measurement: it has no steps that Clew could trace"),
        (
            ("run", "softmax", "--trace", "5", "--strategy", "parameter-server", "--devices", "2"),
            "The steps of a run with parameter servers are computed by its workers",
        ),
        (("run", "linear-regression", "--predict", "huge.csv"), "A prediction cannot reach step 99,999,999,999,999"),
        (("run", "linear-regression", "--predict", "commas.csv"), "commas.csv is not a prediction"),
        (("run", "linear-regression", "--nodes", "2"), "The strategy 'single' runs on one node, not on 2."),
        (("run", "linear-regression", "--name", "x" * 61), "A run's name may have 60 characters"),
        (("run", "softmax", "--data", "digits", "--momentum", "0.5"), "Momentum (momentum) has no effect here"),
        (("run", "softmax", *_SERVERS, "--servers", "2"), "Servers (servers) has no effect here: it counts with mode"),
        (("run", "softmax", *_SERVERS, "--nodes", "2"), "Lock-free threads are on one node, not on 2"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else "",
)
def test_a_request_is_refused_as_a_whole(
    words: Sequence[str],
    sentence: str,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("huge.csv").write_text(_HUGE)
    Path("commas.csv").write_text("step,loss\n0,2,3\n500,0,3\n")
    Path("broken.npz").write_bytes(b"no arrays")
    over = '[sweep]\nmethod = "grid"\n[sweep.over]\ndata = ["digits", "nope"]\n'
    Path("mixed.toml").write_text(f'format = 3\n{over}[base]\nexercise = "softmax"\npreset = "tiny"\n')
    before = sorted(tmp_path.rglob("*"))
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert sorted(tmp_path.rglob("*")) == before, "nothing was written"
