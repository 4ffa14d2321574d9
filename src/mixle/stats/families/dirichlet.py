"""The Dirichlet law of shares: vectors of positive numbers that sum to one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.errors import EmptyDataError, RowError
from mixle.stats.contract import DistributionSampler
from mixle.stats.domains import nonnegative, positive, shape_parameters
from mixle.stats.kinds import LinearSums
from mixle.stats.leaf import LeafDistribution, LeafEstimator, Rows, repaired
from mixle.stats.linear import VectorLeaf, prior_vector, with_prior
from mixle.stats.reading import read_matrix
from mixle.stats.special import digammas, gammaln, trigammas

__all__ = ["DirichletDistribution", "DirichletEstimator", "DirichletSampler", "dirichlet_shapes", "polished"]

#: Estimated shapes stay within these: beyond, a score does not hold its own digits.
SMALLEST, LARGEST = 1e-8, 1e8
#: How far from one the sum of a row may be.
SLACK = 1e-6


class _Dirichlet(VectorLeaf):
    name: ClassVar[str] = "Dirichlet"

    def encode(self, rows: Sequence[Any]) -> Rows:
        x = read_matrix(rows, self.name, self.dim)
        if len(x) and x.shape[1] < 2:
            raise RowError("a row of shares needs two entries or more", self.name, 0)
        total = np.add.reduce(x, axis=1)
        odd = np.abs(total - 1.0) > SLACK
        if odd.any():
            row = int(np.argmax(odd))
            raise RowError(f"the shares sum to {float(total[row])!r}, not to one; divide them by it", self.name, row)
        outside: np.ndarray = np.logical_or.reduce(x <= 0.0, axis=1)
        if outside.any():
            x = np.where(outside[:, None], 1.0 / x.shape[1], x)
        logs = np.log(x)
        columns = tuple(np.ascontiguousarray(logs[:, j]) for j in range(x.shape[1]))
        return Rows(columns, -np.add.reduce(logs, axis=1), outside if outside.any() else None)

    def support(self) -> str:
        return "the shares > 0 that sum to one"

    def natural(self, dist: Any) -> tuple[tuple[float, ...], float]:
        return tuple(dist.alpha.tolist()), dist.log_constant


class DirichletDistribution(LeafDistribution):
    """Dirichlet distribution, ``Γ(Σα) / ΠΓ(αⱼ) · Π xⱼ^(αⱼ−1)`` on shares > 0 that sum to one.

    Parameters
    ----------
    alpha : array_like, shape (d,)
        Shapes, > 0, d ≥ 2; the mean share of entry j is ``alpha[j] / sum(alpha)``.
    name, keys
        Label and tying key.

    References
    ----------
    Kotz, Balakrishnan and Johnson, "Continuous Multivariate Distributions" 1, chapter 49, 2000.

    Examples
    --------
    >>> round(DirichletDistribution([1.0, 1.0, 1.0]).log_density([0.2, 0.3, 0.5]), 12)
    0.69314718056
    """

    _fields = ("alpha",)

    def __init__(self, alpha: Any, name: str | None = None, keys: Any = None) -> None:
        self.alpha = shape_parameters(alpha, "alpha of a Dirichlet")
        if len(self.alpha) < 2:
            raise ValueError(f"alpha of a Dirichlet must have two entries or more, all positive, is {alpha!r}")
        self.dim = len(self.alpha)
        self.log_constant = math.lgamma(float(self.alpha.sum())) - math.fsum(gammaln(self.alpha).tolist())
        self.leaf = _Dirichlet(self.dim)
        self._finish(name, keys)

    def sampler(self, seed: int | None = None) -> DirichletSampler:
        """Return a sampler."""
        return DirichletSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> DirichletEstimator:
        """Return the estimator; `pseudo_count` weighs this distribution's mean logarithms as a prior."""
        prior = None if pseudo_count is None else digammas(self.alpha) - digammas(self.alpha.sum())
        return DirichletEstimator(self.dim, pseudo_count, prior, keys=self.keys, name=self.name)


class DirichletSampler(DistributionSampler):
    """Sampler of a `DirichletDistribution`."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return an array of shape (d,), or of shape (size, d); shares that underflow become the smallest number."""
        return np.maximum(self.rng.dirichlet(self.dist.alpha, size=size), np.finfo(float).tiny)


class DirichletEstimator(LeafEstimator):
    """Maximum-likelihood estimator of a `DirichletDistribution`.

    Parameters
    ----------
    dim : int, optional
        Number of entries d; by default that of the rows.
    pseudo_count : float, optional
        Weight of the prior in rows, used with `suff_stat`.
    suff_stat : array_like, shape (d,), optional
        Prior means of the logarithms of the shares.
    delta : float
        Change of log α at which Newton's method stops.
    keys : hashable, optional
        Tying key.
    use_mpe : bool
        Accepted; the one maximum is found by Newton's method with either value.
    name : str, optional
        Label of the fitted distribution.

    Notes
    -----
    Newton's method on a concave likelihood whose Hessian is diagonal plus rank one (T. P. Minka, "Estimating a
    Dirichlet distribution", 2000). Shapes are kept within [1e-8, 1e8].

    Raises
    ------
    ValueError
        On `estimate` without rows, `dim` and prior; without rows but with `dim`, all shapes are 1.

    Examples
    --------
    >>> estimator = DirichletEstimator(2)
    >>> estimator.estimate(None, (0.0, [0.0, 0.0])).alpha.tolist()
    [1.0, 1.0]
    """

    _keyword_fields = ("dim", "pseudo_count", "suff_stat", "delta", "keys", "name")

    def __init__(
        self,
        dim: int | None = None,
        pseudo_count: float | None = None,
        suff_stat: Any = None,
        delta: float = 1e-8,
        keys: Any = None,
        use_mpe: bool = False,
        name: str | None = None,
    ) -> None:
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.dim, self.suff_stat = prior_vector(dim, suff_stat)
        self.delta = positive(delta, "delta")
        self.leaf = _Dirichlet(self.dim)
        self.name, self.keys = name, keys

    def _estimate(self, stat: LinearSums) -> DirichletDistribution:
        count, sums = with_prior(stat, self.pseudo_count, self.suff_stat)
        if not count > 0.0:
            dim = self.dim or len(sums)
            if not dim:
                raise EmptyDataError("a Dirichlet cannot be fitted without rows; pass dim= to get one of shapes 1")
            return DirichletDistribution(np.ones(dim), self.name, self.keys)
        alpha = dirichlet_shapes(sums / count, self.delta)
        model = DirichletDistribution(alpha, self.name, self.keys)
        held = bool(((alpha <= SMALLEST) | (alpha >= LARGEST)).any())
        return repaired(model, "Dirichlet: a shape was held at its bound") if held else model


def dirichlet_shapes(mean_logs: np.ndarray, delta: float = 1e-8, iterations: int = 200) -> np.ndarray:
    """Return the shapes α with ``ψ(αⱼ) − ψ(Σα) = mean_logs[j]``, within the bounds of estimated shapes.

    Parameters
    ----------
    mean_logs : ndarray, shape (d,)
        Means of the logarithms of shares.
    delta : float
        Largest change of log α at which to stop.
    iterations : int
        Steps at most.

    Examples
    --------
    >>> dirichlet_shapes(np.array([-1.0, -1.0])).round(9).tolist()
    [1.0, 1.0]
    """
    shares = np.exp(np.clip(mean_logs, -700.0, 0.0))
    missing = 1.0 - float(shares.sum())  # Jensen: the geometric means of shares sum to less than one
    if not missing > 0.25 * (len(shares) - 1) / LARGEST:
        return np.asarray(np.clip(LARGEST * shares / shares.max(), SMALLEST, LARGEST))
    alpha = np.clip(shares / shares.sum() * (0.5 * (len(shares) - 1) / missing), SMALLEST, LARGEST)
    value = _likelihood(alpha, mean_logs)
    for _ in range(iterations):
        step = _newton(alpha, mean_logs)
        scale = 1.0
        for _ in range(60):
            trial = _moved(alpha, scale * step)
            gained = _likelihood(trial, mean_logs)
            if gained >= value - 1e-14 * abs(value):
                break
            scale *= 0.5
        else:
            break
        moved = float(np.max(np.abs(np.log(trial / alpha))))
        alpha, value = trial, gained
        if moved <= delta:
            if scale == 1.0:
                return np.array(alpha, float)
            break
    return polished(
        alpha,
        lambda at: _moved(at, _newton(at, mean_logs)),
        lambda at: at * (digammas(at.sum()) - digammas(at) + mean_logs),
    )


def polished(
    alpha: np.ndarray,
    newton: Callable[[np.ndarray], np.ndarray | None],
    slope: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """Return shapes after the steps of Newton's method that lower the slope of the likelihood.

    The likelihood tells shapes apart to the root of its rounding error, its slope to that error.

    Parameters
    ----------
    alpha : ndarray, shape (d,)
        Shapes near the maximum.
    newton : callable
        Shapes to those after a step, or None where there is none.
    slope : callable
        Shapes to the derivatives by their logarithms.
    """
    size = float(np.max(np.abs(slope(alpha))))
    for _ in range(20):
        trial = newton(alpha)
        if trial is None or not (smaller := float(np.max(np.abs(slope(trial))))) < size:
            break
        alpha, size = trial, smaller
    return np.array(alpha, float)


def _likelihood(alpha: np.ndarray, mean_logs: np.ndarray) -> float:
    return math.lgamma(float(alpha.sum())) + math.fsum((alpha * mean_logs - gammaln(alpha)).tolist())


def _moved(alpha: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return α after a step in log α: shapes stay positive, and are multiplied by ten at most."""
    return np.asarray(np.clip(alpha * np.exp(np.clip(step / alpha, -2.3, 2.3)), SMALLEST, LARGEST))


def _newton(alpha: np.ndarray, mean_logs: np.ndarray) -> np.ndarray:
    """Return −H⁻¹g of the mean log-likelihood, by the Sherman–Morrison formula."""
    gradient = digammas(alpha.sum()) - digammas(alpha) + mean_logs
    diagonal, common = -trigammas(alpha), trigammas(alpha.sum())
    shift = (gradient / diagonal).sum() / (1.0 / common + (1.0 / diagonal).sum())
    return np.asarray(-(gradient - shift) / diagonal)
