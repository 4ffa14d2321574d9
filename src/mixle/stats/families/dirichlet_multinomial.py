"""The Dirichlet-multinomial law: counts of d kinds among n that vary more than a multinomial allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixle.errors import ContractError, RowError
from mixle.stats.contract import Column, DistributionSampler
from mixle.stats.domains import nonnegative, positive, shape_parameter, shape_parameters, vector, whole
from mixle.stats.families.dirichlet import polished
from mixle.stats.layouts import ADVICE
from mixle.stats.leaf import Leaf, LeafDistribution, LeafEstimator, Rows, as_rows, repaired
from mixle.stats.reading import read_matrix
from mixle.stats.special import log_factorial, rising_log

__all__ = [
    "DirichletMultinomialDistribution",
    "DirichletMultinomialEstimator",
    "DirichletMultinomialSampler",
    "TailCounts",
]

#: Estimated shapes stay within these: beyond, the law is a multinomial to every digit a score holds.
LARGEST = 1e8
#: Most that n may be.
MOST = 1 << 26


class TailCounts(NamedTuple):
    """Weight of the rows whose count of kind j exceeds m.

    Attributes
    ----------
    tails : ndarray, shape (d, n)
        Entry (j, m) is the weight of the rows with more than m of kind j.
    weight : float
        Sum of weights.
    total : int
        The number n that each row sums to.
    """

    tails: np.ndarray
    weight: float
    total: int

    def scaled(self, c: float) -> TailCounts:
        """Return the counts with every weight times `c`."""
        return TailCounts(self.tails * c, self.weight * c, self.total)


class _DirichletMultinomial(Leaf):
    name: ClassVar[str] = "DirichletMultinomial"
    vector: ClassVar[bool] = True

    def __init__(self, dim: int, n: int) -> None:
        self.dim, self.n = dim, n

    def encode(self, rows: Sequence[Any]) -> Rows:
        x = read_matrix(rows, self.name, self.dim, squared=True)
        broken = (x != np.floor(x)).any(axis=1)
        if broken.any():
            raise RowError("the row holds no whole numbers; pass counts", self.name, int(np.argmax(broken)))
        outside: np.ndarray = (x < 0.0).any(axis=1) | (np.add.reduce(x, axis=1) != self.n)
        if outside.any():
            x = np.where(outside[:, None], np.eye(1, self.dim) * self.n, x)
        base = math.lgamma(self.n + 1.0) - np.add.reduce(log_factorial(x.ravel()).reshape(x.shape), axis=1)
        return Rows(x.astype(np.int32), base, outside if outside.any() else None)

    def columns(self, payload: Any, start: int, stop: int) -> list[Column] | None:
        x = as_rows(payload).cut(start, stop).x
        return [Column(x[:, j].astype(float)) for j in range(self.dim)]

    def support(self) -> str:
        return f"{self.dim} counts that sum to {self.n}"

    def score(self, dist: Any, rows: Rows) -> np.ndarray:
        counts = np.arange(self.n + 1.0)
        result = np.full(rows.size, -float(rising_log(np.array(float(self.n)), float(dist.alpha.sum()))))
        for j, shape in enumerate(dist.alpha.tolist()):
            result += rising_log(counts, shape).take(rows.x[:, j])
        return result

    def accumulate(self, rows: Rows, weights: np.ndarray, dist: Any) -> TailCounts:
        tails = np.empty((self.dim, self.n))
        for j in range(self.dim):
            counts = np.bincount(rows.x[:, j], weights, self.n + 1)
            tails[j] = np.cumsum(counts[:0:-1])[::-1]
        return TailCounts(tails, math.fsum(weights.tolist()), self.n)

    def merge(self, a: TailCounts, b: TailCounts) -> TailCounts:
        return TailCounts(a.tails + b.tails, a.weight + b.weight, self.n)

    def zero(self) -> TailCounts:
        return TailCounts(np.zeros((self.dim, self.n)), 0.0, self.n)

    def to_value(self, stat: TailCounts) -> TailCounts:
        return stat._replace(tails=stat.tails.copy())

    def from_value(self, value: Any) -> TailCounts:
        tails, weight, total = value
        if int(total) != self.n:
            raise ContractError(f"{self.name}: the statistic is of rows that sum to {total}, not {self.n}; {ADVICE}")
        return TailCounts(np.array(tails, float), float(weight), self.n)


class DirichletMultinomialDistribution(LeafDistribution):
    """Dirichlet-multinomial distribution of d counts that sum to n.

    The probability is ``n! Γ(A) / Γ(A + n) · Π Γ(xⱼ + αⱼ) / (xⱼ! Γ(αⱼ))`` with ``A = Σα``.

    Parameters
    ----------
    alpha : array_like, shape (d,)
        Shapes, > 0; the mean share of kind j is ``alpha[j] / sum(alpha)``.
    n : int
        What a row sums to, ≥ 1.
    name, keys
        Label and tying key.

    References
    ----------
    Johnson, Kotz and Balakrishnan, "Discrete Multivariate Distributions", chapter 35, 1997.

    Examples
    --------
    >>> round(DirichletMultinomialDistribution([1.0, 2.0], 3).log_density([1, 2]), 12)
    -1.203972804326
    """

    _fields = ("alpha", "n")

    def __init__(self, alpha: Any, n: int, name: str | None = None, keys: Any = None) -> None:
        self.alpha = shape_parameters(alpha, "alpha of a DirichletMultinomial")
        if len(self.alpha) < 2:
            raise ValueError(f"alpha of a DirichletMultinomial must be two positive numbers or more, is {alpha!r}")
        self.n = whole(n, "n of a DirichletMultinomial", 1)
        if self.n > MOST:
            raise ValueError(f"n of a DirichletMultinomial must be at most {MOST}, not {n!r}: its statistic is a table")
        self.leaf = _DirichletMultinomial(len(self.alpha), self.n)
        self._finish(name, keys)

    @property
    def dim(self) -> int:
        """Return the number of kinds."""
        return len(self.alpha)

    def sampler(self, seed: int | None = None) -> DirichletMultinomialSampler:
        """Return a sampler."""
        return DirichletMultinomialSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> DirichletMultinomialEstimator:
        """Return the estimator; `pseudo_count` weighs this distribution's expected counts as a prior."""
        prior = None if pseudo_count is None else self.alpha
        return DirichletMultinomialEstimator(
            len(self.alpha), self.n, pseudo_count=pseudo_count, name=self.name, keys=self.keys, suff_stat=prior
        )


class DirichletMultinomialSampler(DistributionSampler):
    """Sampler of a `DirichletMultinomialDistribution`."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return an integer array of shape (d,), or of shape (size, d)."""
        shares = self.rng.dirichlet(self.dist.alpha, size=1 if size is None else size)
        drawn = np.array([self.rng.multinomial(self.dist.n, share / share.sum()) for share in shares], np.int64)
        return drawn[0] if size is None else drawn.reshape(size, len(self.dist.alpha))


class DirichletMultinomialEstimator(LeafEstimator):
    """Maximum-likelihood estimator of a `DirichletMultinomialDistribution`.

    Parameters
    ----------
    dim : int
        Number of kinds d.
    n : int
        What a row sums to.
    max_iter : int
        Most steps of the search.
    tol : float
        Relative change of the shapes at which it stops.
    pseudo_count : float, optional
        Weight of the prior in rows, used with `suff_stat`.
    name, keys
        Label and tying key.
    min_alpha : float
        Smallest shape; the largest is 1e8.
    suff_stat : array_like, shape (d,), optional
        Shapes of the prior.

    Notes
    -----
    Minka's fixed point ("Estimating a Dirichlet distribution", 2000), which raises the likelihood at each
    step, accelerated by steps of Newton's method that are taken only where they raise it too. Without data all shapes
    are 1.

    Examples
    --------
    >>> DirichletMultinomialEstimator(2, 3).estimate(None, ([[0.0] * 3] * 2, 0.0, 3)).alpha.tolist()
    [1.0, 1.0]
    """

    _fields = ("dim", "n")
    _keyword_fields = ("max_iter", "tol", "pseudo_count", "name", "keys", "min_alpha", "suff_stat")

    def __init__(
        self,
        dim: int,
        n: int,
        max_iter: int = 500,
        tol: float = 1e-9,
        pseudo_count: float | None = None,
        name: str | None = None,
        keys: Any = None,
        min_alpha: float = 1e-8,
        suff_stat: Any = None,
    ) -> None:
        self.dim, self.n = whole(dim, "dim", 2), whole(n, "n", 1)
        self.max_iter, self.tol = whole(max_iter, "max_iter", 1), positive(tol, "tol")
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.min_alpha = shape_parameter(min_alpha, "min_alpha")
        self.suff_stat = None if suff_stat is None else vector(suff_stat, "suff_stat")
        if self.suff_stat is not None and (len(self.suff_stat) != self.dim or not (self.suff_stat > 0.0).all()):
            raise ValueError(f"suff_stat must be {self.dim} positive shapes, is {suff_stat!r}")
        self.leaf = _DirichletMultinomial(self.dim, self.n)
        self.name, self.keys = name, keys

    def _estimate(self, stat: TailCounts) -> DirichletMultinomialDistribution:
        tails, weight = np.array(stat.tails, float), float(stat.weight)
        if self.pseudo_count and self.suff_stat is not None:
            tails = tails + self.pseudo_count * _expected_tails(self.suff_stat, self.n)
            weight += self.pseudo_count
        if not weight > 0.0:
            return DirichletMultinomialDistribution(np.ones(self.dim), self.n, self.name, self.keys)
        alpha = self._search(tails / weight)
        model = DirichletMultinomialDistribution(alpha, self.n, self.name, self.keys)
        held = bool(((alpha <= self.min_alpha) | (alpha >= LARGEST)).any())
        return repaired(model, "DirichletMultinomial: a shape was held at its bound") if held else model

    def _search(self, tails: np.ndarray) -> np.ndarray:
        shares = np.add.reduce(tails, axis=1) / self.n
        start = LARGEST * shares / shares.max() if _varies_less(shares, tails) else shares * self.dim
        alpha: np.ndarray = np.clip(start, self.min_alpha, LARGEST)
        value = _likelihood(alpha, tails)
        for _ in range(self.max_iter):
            inner, outer = _slopes(alpha, tails)
            new = np.clip(alpha * inner / outer, self.min_alpha, LARGEST)
            reached, quick = _likelihood(new, tails), False
            newton = self._newton(alpha, tails, inner - outer)
            if newton is not None and (other := _likelihood(newton, tails)) > reached:
                new, reached, quick = newton, other, True
            moved = float(np.max(np.abs(new - alpha) / alpha))
            if reached < value:
                break
            alpha, value = new, reached
            if moved <= self.tol:
                if quick:
                    return alpha
                break

        def slope(at: np.ndarray) -> np.ndarray:
            inner, outer = _slopes(at, tails)
            return np.asarray(at * (inner - outer))

        return polished(alpha, lambda at: self._newton(at, tails, slope(at) / at), slope)

    def _newton(self, alpha: np.ndarray, tails: np.ndarray, gradient: np.ndarray) -> np.ndarray | None:
        newton = _newton(alpha, tails, gradient)
        return None if newton is None else np.clip(newton, self.min_alpha, LARGEST)


def _varies_less(shares: np.ndarray, tails: np.ndarray) -> bool:
    """Whether counts vary less than a multinomial's, so that the likelihood rises as the shapes grow together.

    Its derivative by one over their sum, where that is 0, is the weighted excess of pairs of a kind. The likelihood has
    one maximum along such a line (B. Levin, J. Reeds, "Compound multinomial likelihood functions are unimodal", Annals
    of Statistics 5, 1977).
    """
    n, seen = tails.shape[1], shares > 0.0
    pairs = np.add.reduce(tails[seen] * np.arange(n), axis=1)
    return bool(n > 1) and math.fsum((pairs / shares[seen]).tolist()) <= 0.5 * n * (n - 1.0)


def _expected_tails(alpha: np.ndarray, n: int) -> np.ndarray:
    """Return the probability that more than m of n are of kind j, shape (d, n): beta-binomial tails."""
    x, total = np.arange(n + 1.0), float(alpha.sum())
    ways = math.lgamma(n + 1.0) - log_factorial(x) - log_factorial(n - x)
    tails = np.empty((len(alpha), n))
    for j, shape in enumerate(alpha.tolist()):
        log = ways + rising_log(x, shape) + rising_log(n - x, total - shape)
        mass = np.exp(log - float(rising_log(np.array(float(n)), total)))
        tails[j] = np.cumsum(mass[:0:-1])[::-1]
    return tails


def _likelihood(alpha: np.ndarray, tails: np.ndarray) -> float:
    steps = np.arange(tails.shape[1])
    gained = np.add.reduce(tails * np.log(alpha[:, None] + steps), axis=None)
    return float(gained) - float(np.add.reduce(np.log(alpha.sum() + steps)))


def _slopes(alpha: np.ndarray, tails: np.ndarray) -> tuple[np.ndarray, float]:
    """Return Σ tails / (α + m) for each kind, and Σ 1 / (A + m)."""
    steps = np.arange(tails.shape[1])
    return np.add.reduce(tails / (alpha[:, None] + steps), axis=1), float(np.add.reduce(1.0 / (alpha.sum() + steps)))


def _newton(alpha: np.ndarray, tails: np.ndarray, gradient: np.ndarray) -> np.ndarray | None:
    """Return the shapes after a Newton step in log α, or None where the likelihood is not concave."""
    steps = np.arange(tails.shape[1])
    diagonal = -np.add.reduce(tails / (alpha[:, None] + steps) ** 2, axis=1)
    common = float(np.add.reduce(1.0 / (alpha.sum() + steps) ** 2))
    slope, curve = gradient * alpha, diagonal * alpha * alpha + gradient * alpha
    if not (curve < 0.0).all():
        return None
    base = 1.0 + common * float(np.add.reduce(alpha * alpha / curve))
    if not base > 0.0:
        return None
    pull = common * float(np.add.reduce(alpha * slope / curve)) / base
    move = -(slope - pull * alpha) / curve
    return np.asarray(alpha * np.exp(np.clip(move, -2.3, 2.3)))
