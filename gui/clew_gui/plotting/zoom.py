"""Zooming and panning along x, in axis coordinates."""

from __future__ import annotations

from clew_gui.plotting.ticks import Span

_DEEPEST = 1e-6
"""Smallest part of the whole range that can be shown."""


def zoomed(span: Span, full: Span, factor: float, around: float | None = None) -> Span | None:
    """``factor`` times as much of x, with ``around`` (or the middle) kept in place; None when that is everything."""
    centre = around if around is not None else 0.5 * (span.low + span.high)
    size = max(span.size * factor, full.size * _DEEPEST)
    part = (centre - span.low) / span.size
    return within(Span(centre - part * size, centre + (1 - part) * size), full)


def panned(span: Span, full: Span, part: float) -> Span | None:
    """Moved by ``part`` of its extent, not beyond the whole range; None when it is everything."""
    return within(Span(span.low + part * span.size, span.high + part * span.size), full)


def within(span: Span, full: Span) -> Span | None:
    """``span`` moved into ``full``; None when it is as large."""
    if span.size >= full.size * 0.999:
        return None
    low = min(max(span.low, full.low), full.high - span.size)
    return Span(low, low + span.size)
