"""The axes to draw on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixle.errors import MissingPackage

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["axes"]


def axes(ax: Axes | None, width: float = 7.0, height: float = 3.2) -> Axes:
    """Return `ax`, or the axes of a new figure of the given size in inches.

    Raises
    ------
    MissingPackage
        If matplotlib is not installed.
    """
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise MissingPackage('plotting needs matplotlib. Install: pip install "matplotlib>=3.9"') from error
    _, made = plt.subplots(figsize=(width, height), layout="constrained")
    return made


def quiet(ax: Axes) -> Axes:
    """Take the frame away where it says nothing."""
    ax.spines[["top", "right"]].set_visible(False)
    return ax
