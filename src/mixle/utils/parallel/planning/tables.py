"""Placements as tables that people read."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mixle.utils.parallel.planning.placement import Placement

__all__ = ["human", "placement_html", "placement_table", "scale_of"]

_HEAD = ("device", "rows", "share", "shards", "sub-chunks", "needs", "has", "used")
_LINES = 20


def human(size: float) -> str:
    """Return a number of bytes for people.

    Examples
    --------
    >>> human(999), human(64e9), human(1.5e6)
    ('999 B', '64.0 GB', '1.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000.0 or unit == "TB":
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000.0
    raise AssertionError  # pragma: no cover


def scale_of(size: float) -> tuple[str, float]:
    """Return the unit in which a number of bytes is told, and how many bytes it is.

    Examples
    --------
    >>> scale_of(10_800.0)
    ('kB', 1000.0)
    """
    unit = human(size).split()[1]
    return unit, {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[unit]


def _rows(placement: Placement) -> list[tuple[str, ...]]:
    """Return a line of the table for each of the first devices."""
    needs, lines = placement.device_bytes(), []
    for name, mine in list(placement.by_device().items())[:_LINES]:
        rows, memory = sum(shard.size for shard in mine), mine[0].device.memory_bytes
        pieces = [shard.sub_chunks for shard in mine]
        low, high = min(pieces), max(pieces)
        share = f"{rows / placement.total_rows:.1%}" if placement.total_rows else "-"
        has, used = ("?", "?") if memory is None else (human(memory), f"{needs[name] / memory:.0%}")
        cuts = str(low) if low == high else f"{low}-{high}"
        line: tuple[str, ...] = (name, f"{rows:,}", share, str(len(mine)), cuts, human(needs[name]), has, used)
        lines.append(line)
    return lines


def _verdict(placement: Placement) -> str:
    fits = placement.fits
    if fits is None:
        return "Whether it fits is not known: give the devices memory_bytes."
    return "It fits." if fits else f"It does not fit: {placement.reason}."


def _more(placement: Placement) -> str:
    hidden = len(placement.by_device()) - _LINES
    return f"... and {hidden} more devices" if hidden > 0 else ""


def placement_table(placement: Placement) -> str:
    """Return a placement as aligned text; of many devices the first ones."""
    shown = [_HEAD, *_rows(placement)]
    widths = [max(len(line[i]) for line in shown) for i in range(len(_HEAD))]
    text = []
    for line in shown:
        cells = [cell.rjust(width) for cell, width in zip(line, widths, strict=True)]
        text.append("  ".join([line[0].ljust(widths[0]), *cells[1:]]))
    row = human(placement.encoded_row_bytes), human(placement.transient_row_bytes)
    text += [_more(placement)] if _more(placement) else []
    count = len(placement.shards)
    text.append(f"{placement.total_rows:,} rows in {count} shards; a row is {row[0]} encoded, {row[1]} at work.")
    text.append(_verdict(placement))
    return "\n".join(text)


def placement_html(placement: Placement) -> str:
    """Return a placement as a table of a notebook; whatever a device is called, it is shown as text."""
    head = "".join(f"<th>{escape(word)}</th>" for word in _HEAD)
    lines = ("".join(f"<td>{escape(cell)}</td>" for cell in line) for line in _rows(placement))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    more = f"<p>{_more(placement)}</p>" if _more(placement) else ""
    return f"<table><tr>{head}</tr>{body}</table>{more}<p>{escape(_verdict(placement))}</p>"
