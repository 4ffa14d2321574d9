"""What samplers of laws of one number share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from mixle.stats.contract import DistributionSampler

__all__ = ["NumberSampler"]


class NumberSampler(DistributionSampler):
    """Sampler of a law of one number."""

    @abstractmethod
    def draw(self, size: int | None) -> Any:
        """Return a number, or an array of shape (size,)."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a float, or an array of shape (size,)."""
        drawn = self.draw(size)
        return float(drawn) if size is None else drawn
