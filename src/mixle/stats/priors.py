"""Conjugate priors, once for all families: which law fits which leaf, its posterior, its mode, its log-density.

Under a conjugate prior the likeliest parameters are the M-step of a statistic to which the prior adds a few rows, or
(normal laws) a formula of the posterior. A family names its rule in ``Leaf.conjugate``. Gelman et al. (2013), Bayesian
Data Analysis.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from mixle.errors import EmptyDataError
from mixle.stats.domains import VARIANCE_FLOOR
from mixle.stats.kinds import CodeCounts, LinearSums
from mixle.stats.parameter_laws import (
    DictDirichletDistribution,
    NormalGammaDistribution,
    NormalInverseWishartDistribution,
    NormalWishartDistribution,
    SymmetricDirichletDistribution,
    dirichlet_log_density,
)
from mixle.stats.sums import Moments

__all__ = ["BETA", "CONJUGATES", "Conjugate", "check_prior", "check_weight_prior", "prior_alpha", "weight_posterior"]


class Conjugate(ABC):
    """A rule: what priors it takes, and what follows from them."""

    laws: ClassVar[tuple[str, ...]]

    @abstractmethod
    def posterior(self, prior: Any, stat: Any, estimator: Any) -> Any:
        """Return the law of the parameters after the rows of a statistic."""

    @abstractmethod
    def mode(self, prior: Any, stat: Any, estimator: Any) -> Any:
        """Return the distribution whose parameters are the likeliest after the rows of a statistic."""

    @abstractmethod
    def log_density(self, prior: Any, dist: Any) -> float:
        """Return the log-density of the parameters of a distribution."""

    def check(self, prior: Any) -> str | None:
        """Return what a prior that has no mode to fit to would need, or None."""
        return None


class _Gamma(Conjugate):
    """Gamma(k, theta) of a mean or of a rate: the prior is worth `rows` rows of total `total`."""

    laws: ClassVar[tuple[str, ...]] = ("GammaDistribution",)

    def __init__(self, rate: bool) -> None:
        self.rate = rate

    def check(self, prior: Any) -> str | None:
        return None if prior.k >= 1.0 else "k of at least 1: below it the likeliest value is 0"

    def posterior(self, prior: Any, stat: LinearSums, estimator: Any) -> Any:
        rows, total = float(stat.weight), float(stat.sums[0])
        seen, exposure = (rows, total) if self.rate else (total, rows)
        return type(prior)(prior.k + seen, prior.theta / (1.0 + exposure * prior.theta))

    def mode(self, prior: Any, stat: LinearSums, estimator: Any) -> Any:
        more = (prior.k - 1.0, 1.0 / prior.theta) if self.rate else (1.0 / prior.theta, prior.k - 1.0)
        return estimator.most_likely(LinearSums(stat.weight + more[0], stat.sums + more[1]))

    def log_density(self, prior: Any, dist: Any) -> float:
        x = 1.0 / dist.beta if self.rate else dist.lam
        k, theta = prior.k, prior.theta
        power = 0.0 if k == 1.0 else (k - 1.0) * math.log(x)
        return float(power - x / theta - math.lgamma(k) - k * math.log(theta))


class _Beta(Conjugate):
    """Beta(a, b) of a probability, over counts of labels or over weight and failures."""

    laws: ClassVar[tuple[str, ...]] = ("BetaDistribution",)

    def check(self, prior: Any) -> str | None:
        good = prior.a >= 1.0 and prior.b >= 1.0
        return None if good else "a and b of at least 1: below it the likeliest probability is 0 or 1"

    @staticmethod
    def _counts(stat: Any) -> tuple[float, float]:
        """Return the weight of successes and of failures."""
        if isinstance(stat, CodeCounts):
            found = dict(zip(stat.labels, stat.counts.tolist(), strict=True))
            return found.get(True, 0.0), found.get(False, 0.0)
        return float(stat.weight), float(stat.sums[0])

    def posterior(self, prior: Any, stat: Any, estimator: Any) -> Any:
        yes, no = self._counts(stat)
        return type(prior)(prior.a + yes, prior.b + no)

    def mode(self, prior: Any, stat: Any, estimator: Any) -> Any:
        yes, no = self._counts(stat)
        yes, no = yes + prior.a - 1.0, no + prior.b - 1.0
        if isinstance(stat, CodeCounts):
            return estimator.most_likely(CodeCounts((False, True), np.array([no, yes])))
        return estimator.most_likely(LinearSums(yes, np.array([no])))

    def log_density(self, prior: Any, dist: Any) -> float:
        return dirichlet_log_density([prior.a, prior.b], [dist.p, 1.0 - dist.p])


class _BetaOfTrials(_Beta):
    """Beta(a, b) of a probability, over the trials behind each row."""

    def posterior(self, prior: Any, stat: Any, estimator: Any) -> Any:
        yes, no = estimator.outcomes(stat)
        return type(prior)(prior.a + yes, prior.b + no)

    def mode(self, prior: Any, stat: Any, estimator: Any) -> Any:
        yes, no = estimator.outcomes(stat)
        return estimator.of_outcomes(stat, yes + prior.a - 1.0, yes + no + prior.a + prior.b - 2.0)


class _Dirichlet(Conjugate):
    """A Dirichlet law of the probabilities of labels."""

    laws: ClassVar[tuple[str, ...]] = (
        "DictDirichletDistribution", "SymmetricDirichletDistribution", "DirichletDistribution",
    )  # fmt: skip

    def check(self, prior: Any) -> str | None:
        low = np.any(np.asarray(list(_alphas(prior)), float) < 1.0)
        return "concentrations of at least 1: below it a probability of 0 is likeliest" if low else None

    @staticmethod
    def _of(prior: Any, labels: tuple[Any, ...]) -> dict[Any, float]:
        """Return the concentration of each label, those of the prior included."""
        if isinstance(prior, DictDirichletDistribution):
            return dict.fromkeys(labels, 1.0) | prior.alpha
        if isinstance(prior, SymmetricDirichletDistribution):
            return dict.fromkeys(labels, prior.alpha)
        alpha = np.asarray(prior.alpha, float).tolist()
        if len(alpha) != len(labels):
            raise ValueError(
                f"a Dirichlet prior of {len(alpha)} entries does not fit {len(labels)} labels; "
                "DictDirichletDistribution names them"
            )
        return dict(zip(sorted(labels), alpha, strict=True))

    def _labels(self, stat: CodeCounts, estimator: Any) -> tuple[Any, ...]:
        low, high = getattr(estimator, "min_val", None), getattr(estimator, "max_val", None)
        return tuple(range(low, high + 1)) if low is not None and high is not None else stat.labels

    def posterior(self, prior: Any, stat: CodeCounts, estimator: Any) -> Any:
        weights = self._of(prior, () if isinstance(prior, DictDirichletDistribution) else self._labels(stat, estimator))
        counts = dict(zip(stat.labels, stat.counts.tolist(), strict=True))
        return DictDirichletDistribution(
            {label: weights.get(label, 1.0) + counts.get(label, 0.0) for label in {**weights, **counts}}
        )

    def mode(self, prior: Any, stat: CodeCounts, estimator: Any) -> Any:
        alpha = self._of(prior, self._labels(stat, estimator))
        counts = dict(zip(stat.labels, stat.counts.tolist(), strict=True))
        labels = tuple(dict.fromkeys((*stat.labels, *alpha)))
        more = np.array([counts.get(label, 0.0) + alpha.get(label, 1.0) - 1.0 for label in labels])
        return estimator.most_likely(CodeCounts(labels, more))

    def log_density(self, prior: Any, dist: Any) -> float:
        if hasattr(dist, "pmap"):
            p = dist.pmap
        else:
            p = dict(zip(range(dist.min_val, dist.max_val + 1), dist.p_vec.tolist(), strict=True))
        alpha = self._of(prior, tuple(p))
        return dirichlet_log_density(list(alpha.values()), [p.get(label, 0.0) for label in alpha])


class _NormalGamma(Conjugate):
    """A normal-gamma law of a mean and a precision, column by column."""

    laws: ClassVar[tuple[str, ...]] = ("NormalGammaDistribution",)

    def posterior(self, prior: NormalGammaDistribution, stat: Moments, estimator: Any) -> NormalGammaDistribution:
        n = float(stat.weight)
        if n == 0.0:
            return prior
        mean, scatter, lam = np.asarray(stat.mean, float), np.asarray(stat.scatter, float), prior.lam + n
        away = mean - prior.mu
        mu = prior.mu + away * (n / lam)
        b = prior.b + 0.5 * scatter + 0.5 * prior.lam * n / lam * np.square(away)
        return NormalGammaDistribution(mu, lam, prior.a + 0.5 * n, b)

    def mode(self, prior: NormalGammaDistribution, stat: Moments, estimator: Any) -> Any:
        after = self.posterior(prior, stat, estimator)
        variance = after.b / (after.a - 0.5)
        dim = getattr(estimator, "dim", None) or (np.size(stat.mean) if np.ndim(stat.mean) else None)
        mean = after.mu
        if estimator.leaf.vector:
            if dim is None and not np.ndim(mean):
                raise EmptyDataError(f"{estimator.leaf.name}: without rows the dimension is unknown; pass dim=")
            shape: Any = np.shape(mean) or (dim,)
            mean, variance = np.broadcast_to(mean, shape), np.broadcast_to(variance, shape)
        least = VARIANCE_FLOOR * np.square(mean) if estimator.min_covar is None else estimator.min_covar
        return estimator.law(mean, np.maximum(variance, least))

    def log_density(self, prior: NormalGammaDistribution, dist: Any) -> float:
        mean, variance = dist.leaf.location(dist)
        return prior.log_density((mean, 1.0 / np.asarray(variance, float)))


class _NormalWishart(Conjugate):
    """A normal-Wishart law of a mean vector and a precision, or a normal-inverse-Wishart law of it and a covariance."""

    laws: ClassVar[tuple[str, ...]] = ("NormalWishartDistribution", "NormalInverseWishartDistribution")

    @staticmethod
    def _after(prior: Any, stat: Moments) -> tuple[np.ndarray, float, np.ndarray, float]:
        """Return mean, kappa, scale of the covariance and nu after the rows of a statistic."""
        psi = prior.psi if isinstance(prior, NormalInverseWishartDistribution) else np.linalg.inv(prior.w_mat)
        n = float(stat.weight)
        if n == 0.0:
            return prior.mu, prior.kappa, psi, prior.nu
        away, kappa = np.asarray(stat.mean, float) - prior.mu, prior.kappa + n
        psi = psi + stat.scatter + (prior.kappa * n / kappa) * np.multiply.outer(away, away)
        return prior.mu + away * (n / kappa), kappa, 0.5 * (psi + psi.T), prior.nu + n

    def posterior(self, prior: Any, stat: Moments, estimator: Any) -> Any:
        mu, kappa, psi, nu = self._after(prior, stat)
        if isinstance(prior, NormalInverseWishartDistribution):
            return NormalInverseWishartDistribution(mu, kappa, psi, nu)
        inverse = np.linalg.inv(psi)
        return NormalWishartDistribution(mu, kappa, 0.5 * (inverse + inverse.T), nu)

    def mode(self, prior: Any, stat: Moments, estimator: Any) -> Any:
        mu, _, psi, nu = self._after(prior, stat)
        d = len(mu)
        return estimator.law(
            mu, psi / (nu + d + 2.0 if isinstance(prior, NormalInverseWishartDistribution) else nu - d)
        )

    def log_density(self, prior: Any, dist: Any) -> float:
        mean, covar = dist.leaf.location(dist)
        inverse = isinstance(prior, NormalInverseWishartDistribution)
        return float(prior.log_density((mean, covar if inverse else np.linalg.inv(covar))))


BETA = _Beta()
#: The rule of each family, by its leaf's name.
CONJUGATES: dict[str, Conjugate] = {
    "Bernoulli": BETA,
    "BernoulliSet": BETA,
    "Binomial": _BetaOfTrials(),
    "Categorical": _Dirichlet(),
    "DiagonalGaussian": _NormalGamma(),
    "Exponential": _Gamma(rate=True),
    "Gaussian": _NormalGamma(),
    "Geometric": BETA,
    "IntegerCategorical": _Dirichlet(),
    "LogGaussian": _NormalGamma(),
    "MultivariateGaussian": _NormalWishart(),
    "Poisson": _Gamma(rate=False),
}


def _alphas(prior: Any) -> Any:
    alpha = prior.alpha
    return alpha.values() if isinstance(alpha, dict) else np.atleast_1d(alpha)


def check_prior(prior: Any, family: str) -> Any:
    """Return `prior` if it is conjugate to a family and has a mode, or None.

    Raises
    ------
    ValueError
        Naming the laws that are.
    """
    if prior is None:
        return None
    rule = CONJUGATES.get(family)
    if rule is None:
        raise ValueError(f"no conjugate prior is known for {family}; pseudo_count and suff_stat smooth where they are")
    if not any(cls.__name__ in rule.laws for cls in type(prior).__mro__):
        raise ValueError(f"the prior of {family} must be a {' or a '.join(rule.laws)}, not a {type(prior).__name__}")
    lacking = rule.check(prior)
    if lacking is not None:
        raise ValueError(f"a prior of {family} needs {lacking}")
    return prior


def check_weight_prior(prior: Any, count: int, family: str) -> Any:
    """Return a Dirichlet prior of `count` weights, or None.

    Raises
    ------
    ValueError
        If it is none, or of another number of weights.
    """
    if prior is None:
        return None
    if not any(c.__name__ in {"DirichletDistribution", "SymmetricDirichletDistribution"} for c in type(prior).__mro__):
        kind = type(prior).__name__
        raise ValueError(
            f"the prior of the weights of a {family} must be a Dirichlet or a SymmetricDirichlet, not a {kind}"
        )
    lacking = _Dirichlet().check(prior)
    if lacking is not None:
        raise ValueError(f"a prior of the weights of a {family} needs {lacking}")
    if np.ndim(prior.alpha) and len(prior.alpha) != count:
        raise ValueError(f"a Dirichlet prior of {len(prior.alpha)} entries does not fit {count} weights; give one each")
    return prior


def prior_alpha(prior: Any, count: int) -> np.ndarray:
    """Return the concentrations of `count` weights."""
    return np.broadcast_to(np.asarray(prior.alpha, float), (count,))


def weight_posterior(prior: Any, counts: np.ndarray) -> Any:
    """Return the Dirichlet law of weights after these counts; the prior itself where there is none or one weight."""
    if prior is None or len(counts) < 2:
        return prior
    from mixle.stats.families.dirichlet import DirichletDistribution

    return DirichletDistribution(prior_alpha(prior, len(counts)) + counts)
