"""A model bound to what scores and accumulates it: a thin object for code that asks models for kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Kernel"]


class Kernel:
    """Scores and accumulates encoded rows under one distribution.

    Parameters
    ----------
    dist : distribution
        The model.
    engine : optional
        None or numpy: what this library computes with.
    estimator : ParameterEstimator, optional
        Whose statistic `accumulate` returns; the model's own by default.

    Examples
    --------
    >>> from mixle.stats import PoissonDistribution
    >>> kernel = PoissonDistribution(2.0).kernel()
    >>> rows = kernel.dist.dist_to_encoder().seq_encode([0, 3])
    >>> kernel.accumulate(rows)
    (2.0, 3.0)
    """

    def __init__(self, dist: Any, engine: Any = None, estimator: Any = None) -> None:
        name = engine if isinstance(engine, str) else getattr(engine, "name", type(engine).__name__)
        if engine is not None and str(name).lower() not in {"numpy", "numpyengine"}:
            raise ValueError(f"engine {name!r} is not supported; leave engine out, or use engine='numpy'")
        self.dist, self.engine = dist, engine
        self.estimator = dist.estimator() if estimator is None else estimator

    def score(self, enc: Any) -> np.ndarray:
        """Return the log-densities of encoded rows, shape (n,)."""
        return np.asarray(self.dist.seq_log_density(enc))

    def component_scores(self, enc: Any) -> np.ndarray:
        """Return the log-densities of encoded rows under each component, shape (n, K); mixtures only."""
        return np.asarray(self.dist.seq_component_log_density(enc))

    def accumulate(self, enc: Any, weights: Any = None) -> Any:
        """Return the statistic of encoded rows with weights (n,), ones by default."""
        accumulator = self.estimator.accumulator_factory().make()
        rows = int(accumulator.acc_to_encoder().row_count(enc))
        accumulator.seq_update(enc, np.ones(rows) if weights is None else np.asarray(weights, float), self.dist)
        return accumulator.value()

    def refresh(self, dist: Any) -> Kernel:
        """Bind another model of the same family; return self."""
        self.dist = dist
        return self
