"""What the estimators of one-parameter families share: a prior value of the parameter and its weight."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from mixle.stats.domains import nonnegative
from mixle.stats.leaf import LeafEstimator

__all__ = ["OneParameterEstimator"]


class OneParameterEstimator(LeafEstimator):
    """Estimator of a law of one parameter, with optional smoothing towards a prior value.

    Parameters
    ----------
    pseudo_count : float, optional
        Weight of the prior.
    suff_stat : float, optional
        Prior value of the parameter.
    name, keys
        Label and tying key.
    prior : conjugate law, optional
        Law of the parameter: the fit is then the likeliest one, and carries the posterior as its prior.
    """

    _keyword_fields: ClassVar[tuple[str, ...]] = ("pseudo_count", "suff_stat", "name", "keys", "prior")

    def __init__(
        self,
        pseudo_count: float | None = None,
        suff_stat: float | None = None,
        name: str | None = None,
        keys: Any = None,
        prior: Any = None,
    ) -> None:
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.suff_stat = None if suff_stat is None else self._prior(suff_stat)
        self.name, self.keys = name, keys
        self._take_prior(prior, pseudo_count is not None)

    @abstractmethod
    def _prior(self, value: float) -> float:
        """Return a prior value of the parameter; ValueError outside its domain."""
