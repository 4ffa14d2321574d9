"""The law of a yes or no."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.contract import DistributionSampler
from mixle.stats.domains import fraction
from mixle.stats.enumeration import ranked
from mixle.stats.kinds import LOG_ZERO, CodeCounts, CodeLeaf
from mixle.stats.leaf import LeafDistribution, Rows
from mixle.stats.one_parameter import OneParameterEstimator
from mixle.stats.reading import read_numbers

__all__ = ["BernoulliDistribution", "BernoulliEstimator", "BernoulliSampler"]

#: Estimated probabilities keep this distance from 0 and 1.
EDGE = 1e-12
LABELS = (False, True)


class _Bernoulli(CodeLeaf):
    name: ClassVar[str] = "Bernoulli"

    def encode(self, rows: Sequence[Any]) -> Rows:
        x = read_numbers(rows, self.name)
        yes = x == 1.0
        outside = ~(yes | (x == 0.0))
        return Rows(yes.astype(np.int8), None, outside if outside.any() else None, LABELS)

    def support(self) -> str:
        return "False (0) and True (1)"

    def log_table(self, dist: Any, labels: tuple[Any, ...]) -> np.ndarray:
        no = math.log1p(-dist.p) if dist.p < 1.0 else LOG_ZERO
        yes = math.log(dist.p) if dist.p > 0.0 else LOG_ZERO
        return np.array([yes if label else no for label in labels])

    def model_labels(self, dist: Any) -> tuple[Any, ...]:
        return LABELS

    def zero(self) -> CodeCounts:
        return CodeCounts(LABELS, np.zeros(2))

    def merge(self, a: CodeCounts, b: CodeCounts) -> CodeCounts:
        # rounded as the documented layout (count, successes) rounds, so that value and from_value are exact inverses
        no, yes = _both(super().merge(a, b))
        return CodeCounts(LABELS, np.stack([(no + yes) - yes, yes], axis=-1))

    def to_value(self, stat: CodeCounts) -> tuple[float, float]:
        no, yes = _both(stat)
        return float(no + yes), float(yes)

    def from_value(self, value: Any) -> CodeCounts:
        if isinstance(value, CodeCounts):
            return value
        return CodeCounts(LABELS, np.array([float(value[0]) - float(value[1]), float(value[1])]))


def _both(stat: CodeCounts) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of False and of True; a label without weight may be missing."""
    known = {label: stat.counts[..., i] for i, label in enumerate(stat.labels)}
    none = np.zeros(stat.counts.shape[:-1])
    return np.asarray(known.get(False, none)), np.asarray(known.get(True, none))


class BernoulliDistribution(LeafDistribution):
    """Distribution over False and True, ``pˣ (1 − p)^(1−x)``; 0 and 1 of any number type mean the same.

    Parameters
    ----------
    p : float
        Probability of True, in [0, 1].
    name, keys
        Label and tying key.
    prior : conjugate law, optional
        Law of the parameters; the estimator of this distribution fits under it.

    References
    ----------
    C. M. Bishop, "Pattern Recognition and Machine Learning", section 2.1, 2006.

    Examples
    --------
    >>> d = BernoulliDistribution(0.25)
    >>> d.density(True), d.density(0), d.density(2)
    (0.25, 0.75, 0.0)
    """

    leaf = _Bernoulli()
    _fields = ("p",)

    def __init__(self, p: float, name: str | None = None, keys: Any = None, prior: Any = None) -> None:
        self.p = fraction(p, "p of a Bernoulli")
        self._finish(name, keys, prior)

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return the values, the most probable first."""
        return ranked((value, self.log_density(value)) for value in (False, True))

    def sampler(self, seed: int | None = None) -> BernoulliSampler:
        """Return a sampler."""
        return BernoulliSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> BernoulliEstimator:
        """Return the estimator; `pseudo_count` weighs this probability as a prior, unless it has one."""
        pseudo_count = self._weight(pseudo_count)
        prior = None if pseudo_count is None else self.p
        return self._under_prior(BernoulliEstimator(pseudo_count, prior, self.name, self.keys))


class BernoulliSampler(DistributionSampler):
    """Sampler of a `BernoulliDistribution`."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a bool, or a list of `size` bools."""
        drawn = (self.rng.random_sample(1 if size is None else size) < self.dist.p).tolist()
        return drawn[0] if size is None else drawn


class BernoulliEstimator(OneParameterEstimator):
    """Estimator of a `BernoulliDistribution`.

    Parameters
    ----------
    pseudo_count : float, optional
        Weight of the prior probability.
    suff_stat : float, optional
        Prior probability, 0.5 by default; without `pseudo_count` it has no effect.
    name, keys
        Label and tying key.
    prior : conjugate law, optional
        `BetaDistribution` of the probability;
        the likeliest law is fitted, with the posterior as its prior.

    Notes
    -----
    The probability is kept within [1e-12, 1 − 1e-12]; without data it is 0.5.

    Examples
    --------
    >>> BernoulliEstimator().estimate(None, (4.0, 1.0))
    BernoulliDistribution(0.25, name=None, keys=None)
    """

    leaf = _Bernoulli()

    def _prior(self, value: float) -> float:
        return fraction(value, "suff_stat")

    def _estimate(self, stat: CodeCounts) -> BernoulliDistribution:
        count, successes = self.leaf.to_value(stat)
        if self.pseudo_count:
            prior = 0.5 if self.suff_stat is None else self.suff_stat
            count, successes = count + self.pseudo_count, successes + self.pseudo_count * prior
        p = successes / count if count > 0.0 else 0.5
        return BernoulliDistribution(min(max(p, EDGE), 1.0 - EDGE), self.name, self.keys)
