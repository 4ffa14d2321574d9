"""The log-density over the iterations of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixle.plotting.axes import axes, quiet
from mixle.utils.parallel.observing.grid import grid, number
from mixle.utils.parallel.observing.records import RankRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_convergence"]


def plot_convergence(history: Sequence[Any], ax: Axes | None = None, *, gains: bool = False) -> Axes:
    """Draw the log-density of each iteration.

    Parameters
    ----------
    history : sequence
        Log-densities; or what ``optimize(on_step=history.append)`` collects; or records with ``log_density`` in
        `extra`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    gains : bool
        Draw what is still to gain (distance to the best value) on a logarithmic scale: the speed of convergence.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    MissingPackage
        If matplotlib is not installed.
    ValueError
        If `history` holds no log-density.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> plot_convergence([-30.0, -12.0, -11.0]).get_ylabel()
    'log-density'
    """
    at, values = _points(list(history))
    if not len(values):
        raise ValueError("history holds no log-density; collect it with optimize(..., on_step=history.append)")
    ax = axes(ax)
    if gains:
        left = values.max() - values
        ax.semilogy(at[left > 0.0], left[left > 0.0], marker="." if len(values) < 60 else "", color="#2e7cd6")
        ax.set_ylabel("log-density still to gain")
    else:
        ax.plot(at, values, marker="." if len(values) < 60 else "", color="#2e7cd6")
        ax.set_ylabel("log-density")
    ax.set_xlabel("iteration")
    ax.locator_params(axis="x", integer=True)
    return quiet(ax)


def _points(history: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    if history and isinstance(history[0], RankRecord):
        table = grid(history)
        scores = table.fact("log_density")
        points = [
            (table.rounds[column], float(scores[np.isfinite(scores[:, column]), column][0]))
            for column in range(len(table.rounds))
            if np.isfinite(scores[:, column]).any()
        ]
    else:
        told = [
            (getattr(step, "iter", place), number(getattr(step, "log_density", step)))
            for place, step in enumerate(history, start=1)
        ]
        points = [(int(place), value) for place, value in told if np.isfinite(value)]
    return np.array([place for place, _ in points]), np.array([value for _, value in points])
