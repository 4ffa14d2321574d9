"""How laws with a share of zeros of their own stack over a component axis: the base sees the other rows only.

All zeros are one value, so that their log-density is one number for each component, and what they add to the statistic
of the base is found from their weight when all rows have been seen.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.combinators.wrapping import WrappedRows, rows_at
from mixle.stats.stacking.split import ZeroWeights
from mixle.stats.stacking.statistic import OptionalWeights
from mixle.stats.stacking.tree import Shell

__all__ = ["ZeroSplit", "log_shares"]


class ZeroSplit:
    """What such a law and its estimator tell a stack; a subclass of a kind does not stack.

    A law also has `split_terms`: what K laws add to their base's log-density of rows that are not zero, and that of
    zeros, shape (K, 2).
    """

    kind: ClassVar[str]
    inside: ClassVar[str]

    @abstractmethod
    def own_shares(self, members: Sequence[Any]) -> np.ndarray:
        """Return the share of the zeros that is not their bases', shape (K,): for estimators, that of a start."""

    def split_rows(self, x: WrappedRows) -> tuple[Any, np.ndarray | None]:
        """Return the encoded rows that are not zero, and their positions; None for all."""
        if not x.extra:  # encoded without zeros
            return x.rows.payload, x.rows.present
        (zero,) = x.extra
        return rows_at(x.rows.payload, ~zero) if zero.any() else (x.rows.payload, None)

    def split_statistics(
        self, members: Sequence[Any], sums: tuple[OptionalWeights, Any], _: Any
    ) -> tuple[ZeroWeights, Any]:
        """Return the weights of K components, and the statistic of their bases, from the weights of gates and that."""
        gates, child = sums
        zeros, share = gates.missing, self.own_shares(members)
        return ZeroWeights(zeros + gates.present, zeros, zeros * (1.0 - share), zeros * share), child

    def stack_node(self) -> tuple[str, Any] | None:
        """Return how this part stacks over a component axis."""
        return ("split", Shell(self.kind, None, getattr(self, self.inside))) if "kind" in type(self).__dict__ else None


def log_shares(members: Sequence[Any]) -> np.ndarray:
    """Return log π of each of K laws, shape (K,)."""
    return np.array([member.log_share for member in members])
