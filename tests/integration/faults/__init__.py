"""Whatever dies, hangs, fills up or lies: training goes on, no byte is lost or doubled, and what is shown is true.

``lab.py`` is the vocabulary of these tests, ``oracle.py`` judges every scenario in the same way, ``programs.py`` holds
the stand-ins. ``make soak`` runs the same tests with many more repetitions.
"""

from __future__ import annotations
