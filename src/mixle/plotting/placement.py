"""Where the rows of a placement go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixle.plotting.axes import axes
from mixle.utils.parallel.observing.style import COLOURS
from mixle.utils.parallel.planning.tables import scale_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mixle.utils.parallel.planning.placement import Placement

__all__ = ["plot_placement"]

_MOST = 40


def plot_placement(placement: Placement, ax: Axes | None = None) -> Axes:
    """Draw what each device needs: encoded rows, the work on one shard, and a line at the memory it has.

    Parameters
    ----------
    placement : Placement
        What `plan` returned; of many devices the first 40 are drawn.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    MissingPackage
        If matplotlib is not installed.

    Examples
    --------
    >>> import matplotlib
    >>> from mixle.stats import GaussianEstimator
    >>> from mixle.utils.parallel.planner import Resources, plan
    >>> matplotlib.use("agg")
    >>> placement = plan([1.0] * 1000, estimator=GaussianEstimator(), resources=Resources.local(2))
    >>> [label.get_text() for label in plot_placement(placement).get_yticklabels()]
    ['cpu:0', 'cpu:1']
    """
    devices = list(placement.by_device().items())[:_MOST]
    ax = axes(ax, height=min(2.0 + 0.3 * len(devices), 9.0))
    rest = sum(shard.encoded_bytes for _, shards in devices for shard in shards)
    largest = max([rest, *placement.device_bytes().values()])
    unit, scale = scale_of(float(largest))
    encoded = [sum(shard.encoded_bytes for shard in shards) / scale for _, shards in devices]
    work = [max(shard.transient_bytes for shard in shards) / scale for _, shards in devices]
    rows = range(len(devices))
    ax.barh(rows, encoded, height=0.7, color=COLOURS["encode"], label="encoded rows")
    ax.barh(rows, work, left=encoded, height=0.7, color=COLOURS["E-step"], label="work on one shard")
    for row, (_, shards) in zip(rows, devices, strict=True):
        memory = shards[0].device.memory_bytes
        if memory is not None:
            ax.plot([memory / scale] * 2, [row - 0.45, row + 0.45], color="black", linewidth=2)
    ax.set_yticks(list(rows), [name for name, _ in devices])
    ax.set_ylim(len(devices) - 0.5, -0.5)
    ax.set_xlabel(unit)
    verdict = {True: "it fits", False: "it does not fit", None: "memory is not known"}[placement.fits]
    ax.set_title(f"{placement.total_rows:,} rows: {verdict}", loc="left")
    ax.legend(frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0, ncols=2, fontsize="small")
    return ax
