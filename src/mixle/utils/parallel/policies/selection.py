"""Which shards are audited this round: at random, right on average, and none is left out for long."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

__all__ = ["Selection"]

PATIENCE = 3.0  # times the mean distance between two audits of a shard


class Selection:
    """Draws shards from a credit that grows by ``rate * shards`` each round.

    The whole part of the credit is drawn at random. A shard is audited at least once in any ``3 / rate`` rounds: those
    whose time runs out go first, as many as it takes for all to be in time (earliest deadline first, Liu and Layland
    1973).

    Parameters
    ----------
    rate : float
        Mean fraction of shards per round, in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> selection = Selection(0.25)
    >>> [len(selection.draw(range(6), np.random.RandomState(1))) for _ in range(4)]
    [1, 2, 1, 2]
    """

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.credit = 0.0
        self.age: dict[int, int] = {}

    def draw(self, shards: Iterable[int], rng: Any) -> list[int]:
        """Return the shards to audit, ascending.

        Parameters
        ----------
        shards : iterable of int
            The shards of the round.
        rng : numpy.random.RandomState
            Advanced only if something is drawn.
        """
        everything = sorted(set(shards))
        for shard in everything:
            self.age[shard] = self.age.get(shard, 0) + 1
        gain = self.rate * len(everything)
        self.credit = min(self.credit + gain, float(len(everything)))
        count = math.floor(self.credit + 1e-9)
        if not count:
            return []
        self.credit = max(0.0, self.credit - count)
        chosen = self._urgent(everything, count, gain)
        rest = [shard for shard in everything if shard not in chosen]
        if len(rest) <= count - len(chosen):
            chosen += rest
        elif count > len(chosen):
            import numpy as np

            chosen += rng.choice(np.array(rest), count - len(chosen), replace=False).tolist()
        return sorted(chosen)

    def done(self, shard: int) -> None:
        """Note that an audit of a shard was carried out; until then its time goes on."""
        self.age[shard] = 0

    def back(self, shards: Iterable[int]) -> None:
        """Take back a draw whose round failed."""
        self.credit += len(list(shards))

    def _urgent(self, everything: list[int], count: int, gain: float) -> list[int]:
        """Return the shards that must go now lest one of them be late."""
        limit = math.ceil(PATIENCE / self.rate)
        waiting = sorted(everything, key=lambda shard: (-self.age[shard], shard))
        must = 0
        for place, shard in enumerate(waiting, 1):
            left = max(0, limit - self.age[shard])
            must = max(must, place - math.floor(self.credit + left * gain + 1e-9))
        return waiting[: min(must, count)]
