"""What a run's card says besides what it says of every run: what its job on a site adds. Plain data, loaded before the
first frame, as ``job_words`` is not."""

from __future__ import annotations

from typing import NamedTuple


class CardWords(NamedTuple):
    """``state`` and ``word`` for the pill, the ``sentence`` beside it, a ``notice`` of whole sentences on lines of its
    own, the text ``below`` in place of the progress, the ``countdown`` of the job's time.

    Empty texts: as without a job. ``left_s``: how much of that time is left, None while nobody knows; ``waits``:
    nothing can have begun yet, so that the run is cancelled rather than stopped; ``locked``: a person has to log in
    before more is known.
    """

    state: str = ""
    word: str = ""
    sentence: str = ""
    below: str = ""
    countdown: str = ""
    left_s: float | None = None
    waits: bool = False
    locked: bool = False
    notice: str = ""


NOTHING = CardWords()
SHORT_S = 600.0
"""When so little time is left, it is shown in the colour of a warning."""
