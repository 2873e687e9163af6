"""Where Clew keeps things."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew_shared.base.places import find_places


def test_clew_home_may_be_written_with_a_tilde_or_below_the_folder_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for written, meant in (
        ("~/clew", Path.home() / "clew"),
        ("lab/clew", Path.cwd() / "lab" / "clew"),
    ):
        monkeypatch.setenv("CLEW_HOME", written)
        assert find_places().home == meant


@pytest.mark.unix("Windows makes a folder's name of any user's")
def test_a_tilde_of_an_unknown_user_is_part_of_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_HOME", "~no-such-user")
    assert find_places().home == Path.cwd() / "~no-such-user"
