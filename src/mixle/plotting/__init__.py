"""Pictures of a fit, with matplotlib: each function takes an axes and returns it."""

from __future__ import annotations

from mixle._facade import publish
from mixle.plotting.convergence import plot_convergence
from mixle.plotting.placement import plot_placement
from mixle.plotting.ranks import plot_imbalance, plot_stragglers, plot_timeline

__all__ = ["plot_convergence", "plot_imbalance", "plot_placement", "plot_stragglers", "plot_timeline"]

publish(__name__, plot_convergence, plot_imbalance, plot_placement, plot_stragglers, plot_timeline)
