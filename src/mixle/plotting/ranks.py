"""What the ranks did: over time, against each other, and how much data they had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mixle.plotting.axes import axes, quiet
from mixle.utils.parallel.observing.diagnose import diagnose
from mixle.utils.parallel.observing.grid import PHASES, grid
from mixle.utils.parallel.observing.records import RankRecord, checked, of_round
from mixle.utils.parallel.observing.style import COLOURS
from mixle.utils.parallel.observing.trace import spans
from mixle.utils.parallel.planning.tables import scale_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_imbalance", "plot_stragglers", "plot_timeline"]

#: Phases drawn as gaps.
IDLE = frozenset({"queue", "wait"})


def _labelled(ax: Axes, ranks: Sequence[int]) -> None:
    """Label the rows of an axes with ranks, as many as can be read."""
    step = -(-len(ranks) // 16)
    ax.set_yticks(range(0, len(ranks), step), [str(rank) for rank in ranks[::step]])
    ax.set_ylim(len(ranks) - 0.5, -0.5)
    ax.set_ylabel("rank")


def _checked(records: Sequence[RankRecord]) -> list[RankRecord]:
    found = checked(records)
    if not found:
        raise ValueError("there are no records to draw; pass handle.records after a round")
    return found


def plot_timeline(records: Sequence[RankRecord], ax: Axes | None = None, *, last: int | None = 12) -> Axes:
    """Draw what each worker did when: one row per rank, one block per phase, gaps where it waited.

    Parameters
    ----------
    records : sequence of RankRecord
        Of one run.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    last : int or None
        How many of the last rounds to draw; None for all.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    MissingPackage
        If matplotlib is not installed.
    ValueError
        If there are no records.

    Examples
    --------
    >>> import matplotlib
    >>> from mixle.utils.parallel.em_observability import RankRecord
    >>> matplotlib.use("agg")
    >>> len(plot_timeline([RankRecord(rank, 0, 1.0, n_obs=10) for rank in range(3)]).get_yticks())
    3
    """
    found = _checked(records)
    rounds = sorted({record.round for record in found})
    kept = set(rounds if last is None else rounds[-last:])
    found = [record for record in found if record.round in kept]
    ranks = sorted({record.rank for record in found})
    ax = axes(ax, height=min(2.0 + 0.22 * len(ranks), 9.0))
    drawn = [span for span in spans(found) if span[1] not in IDLE]
    start = min((at for *_, at, _ in drawn), default=0.0)
    for phase in PHASES:
        blocks = [(ranks.index(record.rank), at - start, length) for record, name, at, length in drawn if name == phase]
        if blocks:
            rows, lefts, widths = zip(*blocks, strict=True)
            ax.barh(rows, widths, left=lefts, height=0.8, color=COLOURS[phase], label=phase, linewidth=0)
    _labelled(ax, ranks)
    ax.set_xlabel("seconds")
    ax.set_title(f"rounds {min(kept)} to {max(kept)}" if len(kept) > 1 else f"round {min(kept)}", loc="left")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            borderaxespad=0.0,
            ncols=6,
            frameon=False,
            fontsize="small",
            handlelength=1.0,
            columnspacing=1.0,
        )
    return quiet(ax)


def plot_stragglers(records: Sequence[RankRecord], ax: Axes | None = None) -> Axes:
    """Draw the time per unit of work of each rank in each round, relative to the ranks that are not slow.

    Ranks that `diagnose` names are marked.

    Parameters
    ----------
    records : sequence of RankRecord
        Of one run.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    MissingPackage
        If matplotlib is not installed.
    ValueError
        If there are no records.

    Examples
    --------
    >>> import matplotlib
    >>> from mixle.utils.parallel.em_observability import RankRecord
    >>> matplotlib.use("agg")
    >>> plot_stragglers([RankRecord(rank, 0, 1.0, n_obs=10) for rank in range(3)]).get_xlabel()
    'round'
    """
    table, verdict = grid(_checked(records)), diagnose(records)
    ax = axes(ax, height=min(1.8 + 0.22 * len(table.ranks), 9.0))
    factor = table.relative(verdict.slow_ranks) / np.log(2.0)
    image = ax.imshow(factor, aspect="auto", cmap="RdBu_r", vmin=-1.0, vmax=1.0, interpolation="nearest")
    _labelled(ax, table.ranks)
    step = -(-len(table.rounds) // 10)
    ax.set_xticks(range(0, len(table.rounds), step), [str(number) for number in table.rounds[::step]])
    ax.set_xlabel("round")
    bar = ax.figure.colorbar(image, ax=ax, ticks=[-1.0, 0.0, 1.0], pad=0.02)
    bar.ax.set_yticklabels(["½×", "1×", "2×"])
    bar.set_label(f"time per {table.unit.rstrip('s')}")
    box = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.8}
    for rank in verdict.slow_ranks:
        place = (0.0, table.ranks.index(rank))
        ax.annotate("slow", place, xycoords=("axes fraction", "data"), va="center", fontsize="small", bbox=box)
    return ax


def plot_imbalance(
    records: Sequence[RankRecord],
    ax: Axes | None = None,
    *,
    round: int | None = None,  # noqa: A002 - as in imbalance_receipt
) -> Axes:
    """Draw how much data each rank had in a round, and the mean.

    Parameters
    ----------
    records : sequence of RankRecord
        Of one run.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    round : int, optional
        The round, by default the last one.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    MissingPackage
        If matplotlib is not installed.
    ValueError
        If the round has no records.

    Examples
    --------
    >>> import matplotlib
    >>> from mixle.utils.parallel.em_observability import RankRecord
    >>> matplotlib.use("agg")
    >>> len(plot_imbalance([RankRecord(rank, 0, 1.0, n_obs=10 + rank) for rank in range(3)]).patches)
    3
    """
    number, present = of_round(_checked(records), round)
    if not present:
        raise ValueError(f"round {number} has no records; name one that has: records[0].round, ...")
    in_bytes = any(record.bytes_processed for record in present)
    unit, scale = scale_of(float(max(record.bytes_processed for record in present))) if in_bytes else ("rows", 1.0)
    values = [record.bytes_processed / scale if in_bytes else record.n_obs for record in present]
    mean = sum(values) / len(values)
    ax = axes(ax)
    places = range(len(values))
    ax.bar(places, values, width=0.8, color=["#c8501a" if value > 1.25 * mean else "#2f9e6e" for value in values])
    ax.axhline(mean, color="0.3", linewidth=1, linestyle="--")
    ratio = max(values) / mean if mean else 0.0
    ax.set_title(f"round {number}: largest {ratio:.2f}× the mean (dashed)", loc="left")
    step = -(-len(values) // 16)
    ax.set_xticks(list(places)[::step], [str(record.rank) for record in present[::step]])
    ax.set_xlabel("rank")
    ax.set_ylabel(unit)
    return quiet(ax)
