"""The *Speed-up* tab: what a study over devices measured, as a sentence, two plots and a table."""

from __future__ import annotations
