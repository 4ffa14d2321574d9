"""A fit's records as one page of HTML: no scripts, no network, light and dark, phone and desktop."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from mixle.utils.parallel.observing import units
from mixle.utils.parallel.observing.charts import Line, bar, lines, stack, tiles
from mixle.utils.parallel.observing.diagnose import Diagnosis, diagnose
from mixle.utils.parallel.observing.grid import PHASES, Grid, grid, phase_sums, wall
from mixle.utils.parallel.observing.heat import heat_map
from mixle.utils.parallel.observing.records import RankRecord
from mixle.utils.parallel.observing.style import COLOURS, STYLE

__all__ = ["fragment", "page"]

#: Ranks that the table lists; the slowest and the most loaded come first.
LISTED = 128


def page(records: Sequence[RankRecord], title: str = "Fit report") -> str:
    """Return the whole page.

    Parameters
    ----------
    records : sequence of RankRecord
        Of one run; none give a page that says so.
    title : str
        Title of the page.
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>body{{margin:0;background:#fff}}"
        "@media(prefers-color-scheme:dark){body{background:#14171c}}</style></head>"
        f"<body>{fragment(records, title)}</body></html>\n"
    )


def fragment(records: Sequence[RankRecord], title: str = "Fit report") -> str:
    """Return the page's content as one element, for a notebook."""
    table = grid(records)
    found = diagnose(records)
    parts = [f"<style>{STYLE}</style><h1>{escape(title)}</h1>", _verdict(found)]
    if table.ranks:
        parts += [
            _tiles(table),
            _phases(table),
            _convergence(table),
            _heat(table, found),
            _rounds(table),
            _ranks(table, found),
        ]
    return f'<div class="mixle-report">{"".join(parts)}</div>'


def _verdict(found: Diagnosis) -> str:
    kind = "verdict slow" if found.slow_ranks else "verdict"
    why = "".join(f"<p>{escape(line)}.</p>" for line in found.reasons())
    return f'<div class="{kind}"><b>{escape(found.headline())}</b>{why}<p>{escape(found.advice)}</p></div>'


def _tiles(table: Grid) -> str:
    records = table.cells.values()
    slowest = np.nansum(np.nanmax(table.seconds, axis=0))
    busy = np.nansum(np.nanmean(table.seconds, axis=0)) / slowest if slowest > 0.0 else 1.0
    rows = sum(record.n_obs for (_, column), record in table.cells.items() if column == len(table.rounds) - 1)
    memory = table.fact("peak_memory_bytes")
    facts = [
        ("ranks", str(len(table.ranks))),
        ("rounds", str(len(table.rounds))),
        ("wall time", units.seconds(float(wall(table).sum()))),
        ("rows", units.count(rows)),
        ("bytes read", units.size(sum(record.bytes_processed for record in records))),
        ("balance", f"{100.0 * busy:.0f} %"),
    ]
    if np.isfinite(memory).any():
        facts.append(("peak memory of a rank", units.size(float(np.nanmax(memory)))))
    return tiles(facts)


def _phases(table: Grid) -> str:
    sums = phase_sums(table)
    total = sum(sums.values())
    if total <= 0.0:
        return ""
    ranks = len(table.ranks)
    parts = [(phase, sums[phase] / total, units.seconds(sums[phase] / ranks), COLOURS[phase]) for phase in PHASES]
    return "<h2>Where the time went</h2><p>Mean over ranks, all rounds.</p>" + stack(parts)


def _convergence(table: Grid) -> str:
    values = table.fact("log_density")
    known = np.isfinite(values).any(axis=0)
    if known.sum() < 2:
        return ""
    score = np.array(
        [column[np.isfinite(column)][0] if ok else np.nan for column, ok in zip(values.T, known, strict=True)]
    )
    low, high = float(np.nanmin(score)), float(np.nanmax(score))
    drawn = lines([Line("log-density", score, "var(--fast)")], f"{high:.7g}", f"{low:.7g}", *_span(table))
    return f"<h2>Log-density</h2>{drawn}"


def _span(table: Grid) -> tuple[str, str]:
    first, last = table.rounds[0], table.rounds[-1]
    return f"round {first}", "" if first == last else f"round {last}"


def _heat(table: Grid, found: Diagnosis) -> str:
    height = int(min(420, max(56, 26 * len(table.ranks))))
    top, bottom = f"rank {table.ranks[0]}", "" if len(table.ranks) == 1 else f"rank {table.ranks[-1]}"
    left, right = _span(table)
    return (
        f"<h2>Time per {table.unit.rstrip('s')}, rank by round</h2>"
        '<p>Half the typical time<span class="ramp"></span>twice the typical time or more; grey: no record.</p>'
        f'<div class="heat" style="height:{height}px"><div class="side"><span>{top}</span><span>{bottom}</span></div>'
        f'<img alt="pace of each rank in each round" src="{heat_map(table.relative(found.slow_ranks))}"></div>'
        f'<div class="below"><span>{left}</span><span>{right}</span></div>'
    )


def _rounds(table: Grid) -> str:
    middle, longest = np.nanquantile(table.seconds, 0.5, axis=0, method="lower"), np.nanmax(table.seconds, axis=0)
    high, low = float(longest.max()), float(middle.min())
    drawn = [Line("slowest rank", longest, "var(--slow)"), Line("median rank", middle, "var(--calm)")]
    chart = lines(drawn, units.seconds(high), units.seconds(low), *_span(table))
    return f"<h2>E-step seconds per round</h2><p>In the gap, the other ranks wait.</p>{chart}"


def _ranks(table: Grid, found: Diagnosis) -> str:
    seconds, work = np.nansum(table.seconds, axis=1), np.nanmean(table.work, axis=1)
    last = {row: record for (row, _), record in sorted(table.cells.items())}
    order = sorted(last, key=lambda row: (table.ranks[row] not in found.slow_ranks, table.ranks[row]))
    most, rows = float(np.nanmax(work)) or 1.0, []
    for row in order[:LISTED]:
        rank, speed = table.ranks[row], found.speeds[table.ranks[row]]
        slow = rank in found.slow_ranks
        colour = "var(--slow)" if slow else "var(--calm)"
        host = escape(str(last[row].extra.get("host", "–"))[:24])
        rows.append(
            f"<tr{' class=slow' if slow else ''}><td>{rank}</td><td>{speed:.2f} {bar(speed / 2.0, colour)}</td>"
            f"<td>{units.count(float(work[row]))} {bar(float(work[row]) / most, 'var(--fast)')}</td>"
            f'<td>{units.seconds(float(seconds[row]))}</td><td class="text wide">{host}</td></tr>'
        )
    more = f"<p>{len(order) - LISTED} more ranks are not listed.</p>" if len(order) > LISTED else ""
    unit = table.unit if table.unit != "rounds" else "work"
    return (
        f"<h2>Ranks</h2><p>Speed: {unit} per second relative to the ranks that keep pace.</p>"
        f'<div class="scroll"><table><tr><th>rank</th><th>speed</th><th>{unit} per round</th><th>E-step</th>'
        '<th class="text wide">host</th></tr>'
        f"{''.join(rows)}</table></div>{more}"
    )
