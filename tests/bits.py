"""Statistics as bits: what tests compare where equality means the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixle.testing.bits import bits

__all__ = ["bits", "fold", "statistic"]


def statistic(estimator: Any, rows: Any, weights: Any = None, tied: bool = True, model: Any = None) -> Any:
    """Return the statistic of weighted rows under `model` (leaves need none), keys tied."""
    from mixle.stats.keys import tie

    accumulator = estimator.accumulator_factory().make()
    payload = accumulator.acc_to_encoder().seq_encode(rows)
    accumulator.seq_update(payload, np.ones(len(rows)) if weights is None else np.asarray(weights, float), model)
    if tied:
        tie(accumulator)
    return accumulator.value()


def fold(estimator: Any, values: Any) -> Any:
    """Return the sum of statistics, left to right."""
    accumulator = estimator.accumulator_factory().make()
    for value in values:
        accumulator.combine(value)
    return accumulator.value()
