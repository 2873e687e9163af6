"""What a student does first, with a real agent and TensorFlow: one click trains and draws, and the run stays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtGui import QImage

PICTURES = Path(__file__).resolve().parents[3] / "docs" / "make_pictures.py"


@pytest.mark.timeout(280)
def test_the_first_click_trains_and_the_run_is_there_when_the_window_opens_again(tmp_path: Path) -> None:
    picture = tmp_path / "first-run.png"
    command = [sys.executable, str(PICTURES), "paint", "light", "first-run", str(picture)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert QImage(str(picture)).width() == 1440
