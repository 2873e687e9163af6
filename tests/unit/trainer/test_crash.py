"""What an exception of TensorFlow means for a run, in words for people."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from clew_agent.catalogue.examine import import_exercises
from clew_agent.catalogue.exercise_files import ExerciseFile
from clew_agent.trainer.failures import ClockWatch, crash
from clew_shared.base import operating_system


class UnavailableError(Exception):
    """As TensorFlow calls it when another process of the run is gone."""


@pytest.mark.parametrize(
    ("jump", "words"),
    [
        (864_000.0, "was set ahead by 10 days while the run trained, so at step 1,200 TensorFlow took"),
        (-7_300.0, "was set back by 2 hours 2 minutes while the run trained"),
        (45.0, "was set ahead by 45 seconds"),
    ],
)
def test_a_clock_that_was_set_is_the_reason_and_not_a_piece_of_a_traceback(jump: float, words: str) -> None:
    found = crash(UnavailableError("Heartbeat timeout\n/job:worker/replica:0\n"), 1200, jump)
    assert found.code == "run.clock"
    assert found.text.startswith(f"The clock of {operating_system.host_name()} {words}")
    assert "replica" not in str(found)
    assert found.hint == "Continue the run from its last checkpoint."


@pytest.mark.parametrize(("error", "jump"), [(UnavailableError("gone"), 3.0), (ValueError("shape"), 864_000.0)])
def test_other_errors_keep_their_own_words(error: Exception, jump: float) -> None:
    assert crash(error, 7, jump).text == f"{type(error).__name__} at step 7: {error}."


def test_an_error_in_an_exercise_of_ones_own_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "two_layers.py"
    path.write_text("data = 3\ndata.shap\n", encoding="utf-8")
    with pytest.raises(AttributeError) as raised:
        import_exercises(ExerciseFile(path))
    text = "AttributeError at step 0 in two_layers.py, line 2: 'int' object has no attribute 'shap'."
    assert crash(raised.value, 0).text == text


_IN_A_GRAPH = """Graph execution error:

Detected at node while/MatMul defined at (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main

  File "/agent/clew_agent/trainer/trainer.py", line 54, in main

Attempting to perform BLAS operation using StreamExecutor without BLAS support
\t [[{{node while/MatMul}}]] [Op:__inference_run_1021]"""


_FULL = "cudaSetDevice() on GPU:0 failed. Status: out of memory"


class InternalError(Exception):
    """As TensorFlow calls what its libraries report."""


def test_an_error_in_a_graph_is_told_without_the_lines_that_made_the_graph() -> None:
    text = "Matrix size-incompatible: In[0]: [2,3], In[1]: [2,3]"
    message = _IN_A_GRAPH.replace(
        "Attempting to perform BLAS operation using StreamExecutor without BLAS support", text
    )
    assert crash(InternalError(message), 1200).text == f"InternalError at step 1,200: {text}."


@pytest.mark.parametrize(
    ("message", "sure", "told"),
    [
        (
            _IN_A_GRAPH,
            "Most likely the",
            "Attempting to perform BLAS operation using StreamExecutor without BLAS support",
        ),
        (_FULL, "The", _FULL),
    ],
)
def test_a_gpu_that_others_have_filled_is_called_full(message: str, sure: str, told: str) -> None:
    found = crash(InternalError(message), 0)
    assert found.code == "run.gpu_memory"
    assert found.text == f"{sure} GPU has no memory left. InternalError at step 0: {told}."
    assert "nvidia-smi" in found.hint


def test_the_watch_sees_how_far_the_clock_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    real, watch = time.time, ClockWatch()
    assert abs(watch.jump()) < 1
    monkeypatch.setattr(time, "time", lambda: real() + 864_000)
    assert watch.jump() == pytest.approx(864_000, abs=1)
