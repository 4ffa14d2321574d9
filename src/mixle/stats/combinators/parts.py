"""What combinators ask of their parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mixle.errors import SupportError
from mixle.stats import together
from mixle.stats.contract import SequenceEncodableStatisticAccumulator
from mixle.stats.refusals import LEAVE_OUT

__all__ = ["PartsAccumulator", "fit_parts", "is_latent", "supported", "update_part"]
__all__ += ["update_parts"]


def is_latent(estimator: Any) -> bool:
    """Return whether an estimator, or a part of it, has components that may run empty."""
    tell = getattr(estimator, "_parts", None)
    if not callable(tell) or not hasattr(estimator, "keep_empty"):
        return False
    return hasattr(estimator, "num_components") or any(is_latent(part) for _, part in tell())


def fit_parts(estimators: Iterable[Any], counts: Iterable[Any], values: Iterable[Any], tied: bool) -> list[Any]:
    """Return the law that each estimator fits to its statistic.

    Parameters
    ----------
    estimators, counts, values : iterable
        Estimators, weights of their rows, and statistics.
    tied : bool
        Whether a statistic is pooled with others', so that it has seen more than its own count.
    """
    return [
        estimator.estimate(None if tied else float(count), value)
        for estimator, count, value in zip(estimators, counts, values, strict=True)
    ]


def supported(accumulator: Any, payload: Any) -> np.ndarray | None:
    """Return which encoded rows an accumulator's family supports, or None for all (or if it does not tell)."""
    tell = getattr(accumulator, "supported_rows", None)
    mask: np.ndarray | None = tell(payload) if callable(tell) else None
    return mask


def update_part(accumulator: Any, payload: Any, weights: np.ndarray, model: Any) -> None:
    """Add encoded rows to a part of a row.

    Raises
    ------
    SupportError
        If a mixture among the parts supports a row of positive weight with none of its components: the other parts of
        that row would count without it.
    """
    scored = getattr(accumulator, "seq_update_scored", None)
    if scored is None or model is None:
        accumulator.seq_update(payload, weights, model)
        return
    _, left_out = scored(payload, weights, model)
    if left_out:
        lost = np.flatnonzero(np.isneginf(model.seq_log_density(payload)) & (weights > 0.0))
        raise SupportError(f"no component supports the value; {LEAVE_OUT}", "Mixture", int(lost[0]))


def update_parts(accumulators: list[Any], payload: Any, weights: np.ndarray, models: list[Any]) -> None:
    """Add encoded rows with weights (K, n) to one part of K accumulators, as `update_part` would."""
    if not together.update(accumulators, payload, weights, models):
        for accumulator, own, model in zip(accumulators, weights, models, strict=True):
            update_part(accumulator, payload, np.ascontiguousarray(own), model)


class PartsAccumulator(SequenceEncodableStatisticAccumulator):
    """Accumulator over those of several parts, each with keys of its own."""

    accumulators: Any

    def key_merge(self, stats_dict: dict[Any, Any]) -> None:
        """Pool the whole under its key, then every part under its own."""
        super().key_merge(stats_dict)
        for accumulator in self.accumulators:
            accumulator.key_merge(stats_dict)

    def key_replace(self, stats_dict: dict[Any, Any]) -> None:
        """Take the pooled whole, then every part's pooled statistic."""
        super().key_replace(stats_dict)
        for accumulator in self.accumulators:
            accumulator.key_replace(stats_dict)
