"""Pieces of HTML and SVG: no scripts, no network, colours from the page's variables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

__all__ = ["Line", "bar", "lines", "stack", "tiles"]

#: Points of a line that a screen can show.
POINTS = 400


class Line(NamedTuple):
    """A line of a chart: its name, its values by position, the CSS colour that draws it."""

    name: str
    values: np.ndarray
    colour: str


def tiles(facts: Sequence[tuple[str, str]]) -> str:
    """Return a row of numbers with their names."""
    return (
        '<div class="tiles">'
        + "".join(f"<div><b>{escape(value)}</b>{escape(name)}</div>" for name, value in facts)
        + "</div>"
    )


def stack(parts: Sequence[tuple[str, float, str, str]]) -> str:
    """Return one bar cut into parts ``(name, share, text, colour)``, and a legend."""
    shown = [part for part in parts if part[1] > 0.0]
    cuts = "".join(
        f'<i style="width:{100.0 * share:.3f}%;background:{colour}" title="{escape(f"{name}: {text}")}"></i>'
        for name, share, text, colour in shown
    )
    keys = "".join(
        f'<li><i style="background:{colour}"></i>{escape(name)} <b>{100.0 * share:.1f} %</b> '
        f"<span>{escape(text)}</span></li>"
        for name, share, text, colour in shown
    )
    return f'<div class="stack">{cuts}</div><ul class="keys">{keys}</ul>'


def bar(share: float, colour: str = "var(--calm)") -> str:
    """Return a small bar of a share of its cell."""
    return f'<div class="bar"><i style="width:{100.0 * min(max(share, 0.0), 1.0):.1f}%;background:{colour}"></i></div>'


def lines(drawn: Sequence[Line], top: str, bottom: str, left: str, right: str) -> str:
    """Return a chart of lines over one axis, its corners labelled; the names of two or more are a legend.

    Parameters
    ----------
    drawn : sequence of Line
        Of equal length; NaN leaves a gap.
    top, bottom : str
        Labels of the largest and the smallest value.
    left, right : str
        Labels of the first and the last position.
    """
    known = np.concatenate([line.values[np.isfinite(line.values)] for line in drawn])
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    span = high - low or 1.0
    paths = "".join(f'<path d="{_path(line.values, low, span)}" style="stroke:{line.colour}"/>' for line in drawn)
    legend = "".join(f'<li><i style="background:{line.colour}"></i>{escape(line.name)}</li>' for line in drawn)
    told = escape(
        f"{', '.join(line.name for line in drawn)}: {bottom} to {top}, {left} to {right}".removesuffix(" to ")
    )
    svg = f'<svg viewBox="0 0 1000 100" preserveAspectRatio="none" role="img" aria-label="{told}">{paths}</svg>'
    sides = f'<div class="side"><span>{escape(top)}</span><span>{escape(bottom)}</span></div>'
    below = f'<div class="below"><span>{escape(left)}</span><span>{escape(right)}</span></div>'
    keys = f'<ul class="keys">{legend}</ul>' if len(drawn) > 1 else ""
    return f'<div class="chart">{sides}<div class="plot">{svg}</div></div>{below}{keys}'


def _path(values: np.ndarray, low: float, span: float) -> str:
    places = np.linspace(0, len(values) - 1, min(len(values), POINTS)).round().astype(int)
    scale = max(len(values) - 1, 1)
    if len(values) == 1:  # a level instead of a point that nobody sees
        values, places, scale = np.repeat(values, 2), np.arange(2), 1
    text, pen = [], "M"
    for place in places.tolist():
        value = float(values[place])
        if not np.isfinite(value):
            pen = "M"
            continue
        text.append(f"{pen}{1000.0 * place / scale:.1f} {97.0 - 94.0 * (value - low) / span:.1f}")
        pen = "L"
    return "".join(text)
