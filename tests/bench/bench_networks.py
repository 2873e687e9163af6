"""The networks to look into, in their presets on the real MNIST: what each reaches, and what its guide states."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from clew_agent.datasets.search import find_search, locate
from clew_shared.base.places import find_places
from clew_shared.base.problem import ProblemError
from tests.bench.measure import machine, table

METHOD = """`clew run EXERCISE --preset PRESET --seed 1` as a student types it, on the real MNIST. `least` and `most`
bound the value after the last step: they are what the guides state, with room for another processor's rounding.
Seconds are from the start of the run to its end."""
_LIMIT_S = 3600
_WANTED: tuple[tuple[str, str, str, float, float], ...] = (
    ("activations", "sigmoid", "test_accuracy", 0.0, 0.2),
    ("activations", "relu", "test_accuracy", 0.95, 1.0),
    ("rnn", "simple", "test_accuracy", 0.85, 0.93),
    ("rnn", "gru", "test_accuracy", 0.93, 1.0),
    ("rnn", "lstm", "test_accuracy", 0.94, 1.0),
    ("autoencoder", "undercomplete", "test_gain", 1.6, 2.0),
    ("autoencoder", "denoising", "test_gain", 2.2, 3.0),
    ("anomaly", "twos", "test_f_score", 0.65, 0.85),
    ("vae", "both", "test_loss", 135.0, 150.0),
    ("gan", "course", "samples_classes", 7.0, 10.0),
    ("gan", "mode-collapse", "samples_classes", 0.0, 5.0),
    ("gan", "vanishing-gradient", "generator_gradient", 0.0, 1e-3),
)
"""Exercise, preset, metric, and between which values it must end."""


def row(exercise: str, preset: str, metric: str, least: float, most: float, folder: Path) -> tuple[str, ...]:
    """One run as a row of the table. Raises ``AssertionError`` when it ends elsewhere."""
    command = [sys.executable, "-m", "clew_gui", "run", exercise, "--preset", preset, "--seed", "1"]
    command += ["--data", "mnist", "--out", str(folder), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_LIMIT_S, check=True)
    summary = json.loads(done.stdout.splitlines()[-1])
    value = float(summary["metrics"][metric])
    assert least <= value <= most, f"{exercise}, {preset}: {metric} ended at {value}, not between {least} and {most}"
    bounds = (f"{least:g}", f"{most:g}")
    return exercise, preset, metric, f"{value:.4g}", *bounds, f"{summary['steps']}", f"{summary['seconds']:.0f}"


def report(rounds: int, quick: bool) -> str:
    """Run each once, however many ``rounds`` are asked for; a quick report is of the first two."""
    try:
        locate("mnist", find_search(find_places()))
    except ProblemError as error:
        return f"Left out: {error}"
    wanted = _WANTED[:2] if quick else _WANTED
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
        found = [row(*one, Path(folder) / f"{one[0]}-{one[1]}") for one in wanted]
    text = table(("exercise", "preset", "metric", "value", "least", "most", "steps", "seconds"), found)
    print(text, flush=True)
    return f"Machine: {machine()}.\n\n{text}\n\n{METHOD}"


if __name__ == "__main__":
    report(1, "--quick" in sys.argv)
