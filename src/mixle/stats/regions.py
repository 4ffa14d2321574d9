"""Probability of an interval, and points that stand for a law inside it.

Sums over whole numbers are sums; integrals are tanh-sinh sums over the conditional distribution function (H. Takahasi,
M. Mori, "Double exponential formulas for numerical integration", Publ. RIMS Kyoto 9, 1974), whose points reach into
both tails. A mixture has the points of its components.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mixle.stats.tails import between, has_tails, known_tails, log_one_minus_exp, tails_of

__all__ = ["close_points", "conditional_points", "has_regions", "log_mass", "log_sum", "refuse_region", "region_points"]

_STEP, _REACH = 0.1, 3.5
_T = np.arange(-round(_REACH / _STEP), round(_REACH / _STEP) + 1) * _STEP
#: Logarithms of the points u of the rule, of 1 − u, and of its weights, which sum to one.
_LOG_U = -np.logaddexp(0.0, -math.pi * np.sinh(_T))
_LOG_V = _LOG_U[::-1]
_LOG_W = _LOG_U + _LOG_V + np.log(math.pi * np.cosh(_T) * _STEP)
#: Longest run of whole numbers that is summed.
_LONGEST = 1 << 16

_RANGES: dict[str, Any] = {
    "Bernoulli": lambda _: (0, 1),
    "Binomial": lambda d: (d.min_val or 0, (d.min_val or 0) + d.n),
    "Geometric": lambda _: (1, math.inf),
    "IntegerCategorical": lambda d: (d.min_val, d.min_val + len(d.p_vec) - 1),
    "NegativeBinomial": lambda _: (0, math.inf),
    "Poisson": lambda _: (0, math.inf),
}


#: Below these numbers less than 1e-300 of a law lies.
_STARTS: dict[str, Any] = {
    "Binomial": lambda d: (d.min_val or 0) + d.n * d.p - 40.0 * math.sqrt(d.n * d.p),
    "Poisson": lambda d: d.lam - 40.0 * math.sqrt(d.lam),
}
#: Where the densities of laws, or the logarithms that a fit sums, are singular.
_BORDERS: dict[str, tuple[float, float]] = {
    "Beta": (0.0, 1.0),
    **dict.fromkeys(("Exponential", "Gaussian", "HalfNormal", "Logistic", "StudentT"), (-math.inf, math.inf)),
    **dict.fromkeys(("Gamma", "InverseGamma", "LogGaussian", "Rayleigh"), (0.0, math.inf)),
}
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_LOG_WEIGHTS = np.log(_WEIGHTS)
_ROUNDING = 2.0**-52
#: Logarithm of how many times a tail the probability of a narrow interval is lost in.
_NARROW, _LOST = math.log(1e4), math.log(1e14)
#: How much the log-density may vary in an interval that is known by it alone.
_FLAT = 0.1
#: Where the density of a law is not smooth.
_KINKS: dict[str, Any] = {"Laplace": lambda d: d.mu}


class TooManyPoints(ValueError):
    """A law that is spread over too many whole numbers to be summed."""


def _name(part: Any) -> str:
    return str(getattr(getattr(part, "leaf", None), "name", ""))


def _components(part: Any) -> Any:
    found = getattr(part, "components", None)
    return getattr(part, "estimators", None) if found is None else found


def has_regions(part: Any) -> bool:
    """Return whether the probability of an interval is known for a law (or an estimator's).

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution, PoissonEstimator, VonMisesDistribution
    >>> [has_regions(x) for x in (GaussianDistribution(0.0, 1.0), PoissonEstimator(), VonMisesDistribution(0.0, 1.0))]
    [True, True, False]
    """
    inner = _components(part)
    return _name(part) in _RANGES or has_tails(part) if inner is None else bool(inner) and all(map(has_regions, inner))


def refuse_region(part: Any, owner: str) -> None:
    """Raise `TypeError` for a law whose probability of an interval is not known."""
    if not has_regions(part):
        raise TypeError(
            f"the probability of an interval is not known for {type(part).__name__}, so it cannot be {owner}; known "
            f"are those of {', '.join(sorted({*known_tails(), *_RANGES}))}, and of mixtures of them"
        )


def _count_points(dist: Any, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the whole numbers of an interval that have probability, and its logarithm; a tail of 1e-20 is left out."""
    least, most = _RANGES[_name(dist)](dist)
    first = max(math.ceil(low), least) if low > -math.inf else least
    last = min(math.floor(high), most) if high < math.inf else most
    start = _STARTS[_name(dist)](dist) if _name(dist) in _STARTS else least
    first = int(start) if first < start < last else first
    encoder = dist.dist_to_encoder()
    points, masses, size = [np.zeros(0)], [np.zeros(0)], 64
    best = -math.inf
    while first <= last:
        if size > _LONGEST:
            raise TooManyPoints(f"{dist} is spread over too many whole numbers to be summed")
        block = np.arange(first, min(first + size - 1, last) + 1, dtype=float)
        mass = np.asarray(dist.seq_log_density(encoder.seq_encode(block)))
        points.append(block)
        masses.append(mass)
        best = max(best, float(np.max(mass)))
        falling = len(mass) < 2 or mass[-1] < mass[-2] or mass[-1] == -math.inf
        if last == math.inf and falling and mass[-1] < best - 50.0:
            break
        first, size = int(block[-1]) + 1, 2 * size
    return np.concatenate(points), np.concatenate(masses)


def log_mass(dist: Any, low: Any, high: Any) -> np.ndarray:
    """Return the logarithm of the probability of each interval, both ends included, shape (n,).

    Parameters
    ----------
    dist : distribution
        A law of one number.
    low, high : array_like, shape (n,)
        Ends, which may be infinite.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution, PoissonDistribution
    >>> log_mass(GaussianDistribution(0.0, 1.0), [-1.0, 40.0], [1.0, np.inf]).round(6).tolist()
    [-0.381715, -804.608442]
    >>> log_mass(PoissonDistribution(3.0), [1.0], [3.0]).round(9).tolist()
    [-0.51509335]
    """
    low, high = np.atleast_1d(np.asarray(low, float)), np.atleast_1d(np.asarray(high, float))
    inner = _components(dist)
    if inner is not None:
        with np.errstate(divide="ignore"):
            parts = np.array([log_mass(c, low, high) for c in inner]) + np.log(np.asarray(dist.w))[:, None]
        return np.asarray(np.minimum(np.logaddexp.reduce(parts, axis=0), 0.0))
    if has_tails(dist):
        mass, tail = between(tails_of(dist), low, high)
        with np.errstate(invalid="ignore"):
            narrow = np.flatnonzero((tail - mass > _NARROW) & _analytic(dist, low, high))
        if narrow.size:
            total, known = _by_density(dist, low[narrow], high[narrow], mass[narrow], tail[narrow])[2:]
            mass[narrow[known]] = total[known]
        return mass
    found = [log_sum(_count_points(dist, a, b)[1]) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    return np.asarray(np.minimum(np.array(found, float), 0.0))


def log_sum(terms: np.ndarray) -> float:
    """Return the logarithm of a sum of exponentials.

    Examples
    --------
    >>> log_sum(np.array([-1000.0, -math.inf])), log_sum(np.zeros(0))
    (-1000.0, -inf)
    """
    top = float(np.max(terms, initial=-math.inf))
    return top if top == -math.inf else top + math.log(math.fsum(np.exp(terms - top).tolist()))


def conditional_points(dist: Any, low: np.ndarray, high: np.ndarray, log_u: Any, log_v: Any) -> np.ndarray:
    """Return the points of a continuous law with conditional probability u below and v = 1 − u above, in intervals.

    Parameters
    ----------
    dist : distribution
        A law of one number.
    low, high : ndarray, shape (n, 1) or (n,)
        Ends of the intervals.
    log_u, log_v : array_like
        Logarithms of u and v, of a shape that fits the ends.
    """
    tails = tails_of(dist)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        upper = tails.above(low) < tails.below(high)
        # by the probability beyond the point, on the side of the smaller tail
        points: Any = np.nan
        if not upper.all():
            points = tails.low_point(_beyond(tails.below(high), tails.below(low), log_u))
        if upper.any():
            points = np.where(upper, tails.high_point(_beyond(tails.above(low), tails.above(high), log_v)), points)
    return np.asarray(np.clip(points, low, high))


def _beyond(big: Any, small: Any, log_share: Any) -> np.ndarray:
    """Return log(small + share (big − small)), of logarithms."""
    return np.asarray(np.logaddexp(np.minimum(small, 0.0), log_share + big + log_one_minus_exp(small - big)))


def region_points(dist: Any, low: Any, high: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return points that stand for a law inside intervals, and the logarithm of the probability of each, both (n, m).

    Sums over the points with these probabilities are sums, or integrals, over the intervals.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution
    >>> points, masses = region_points(GaussianDistribution(0.0, 1.0), [1.0], [np.inf])
    >>> round(float(np.exp(masses).sum()), 12), round(float((points * np.exp(masses)).sum()), 12)
    (0.158655253931, 0.241970724519)
    """
    low, high = np.atleast_1d(np.asarray(low, float)), np.atleast_1d(np.asarray(high, float))
    inner = _components(dist)
    if inner is not None:
        with np.errstate(divide="ignore"):
            logs = np.log(np.asarray(dist.w)).tolist()
        found = [region_points(c, low, high) for c in inner]
        return (
            np.concatenate([points for points, _ in found], axis=1),
            np.concatenate([masses + log for (_, masses), log in zip(found, logs, strict=True)], axis=1),
        )
    kink = _KINKS.get(_name(dist))
    if kink is not None:
        at = kink(dist)
        sides = [_smooth(dist, low, np.minimum(high, at)), _smooth(dist, np.maximum(low, at), high)]
        return np.concatenate([p for p, _ in sides], axis=1), np.concatenate([m for _, m in sides], axis=1)
    if has_tails(dist):
        return _smooth(dist, low, high)
    return _padded([_count_points(dist, a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)])


def _smooth(dist: Any, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return points and masses of intervals in which the density is smooth; those that are empty have no mass."""
    some = low < high
    ends = np.where(some, low, 0.0)[:, None], np.where(some, high, 1.0)[:, None]
    points = conditional_points(dist, *ends, _LOG_U, _LOG_V)
    masses = np.where(some, log_mass(dist, ends[0][:, 0], ends[1][:, 0]), -np.inf)[:, None] + _LOG_W
    there = np.isfinite(points)
    return np.where(there, points, 0.0), np.where(there, masses, -np.inf)


def close_points(dist: Any, low: np.ndarray, high: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return points of intervals in which few tell all, their shares of its probability, and in which they do.

    Gauss and Legendre's rule is exact to rounding where the density and what is summed are analytic far around an
    interval. That the points have the known probability of the interval between them tells whether it is.

    Parameters
    ----------
    dist : distribution
        A law of one number.
    low, high, mass : ndarray, shape (n,)
        Ends of the intervals, and the logarithms of their probabilities.

    Returns
    -------
    points, shares : ndarray, shape (g, 16)
        Of the intervals that suit; an interval's shares sum to one.
    good : ndarray of bool, shape (n,)
        Which do.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution
    >>> d, low, high = GaussianDistribution(0.0, 1.0), np.array([0.0, 0.0]), np.array([1.0, 99.0])
    >>> points, shares, good = close_points(d, low, high, log_mass(d, low, high))
    >>> good.tolist(), round(float((points * shares).sum()), 12)
    ([True, False], 0.459862229286)
    """
    good = _analytic(dist, low, high)
    if not good.any():
        return np.zeros((0, len(_NODES))), np.zeros((0, len(_NODES))), good
    low, high, mass = low[good], high[good], mass[good]
    points, shares, _, known = _by_density(dist, low, high, mass, between(tails_of(dist), low, high)[1])
    good[good] = known
    return points[known], shares[known], good


def _by_density(
    dist: Any, low: np.ndarray, high: np.ndarray, mass: np.ndarray, tail: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the points of intervals and their shares, the log-probability by them, and where it is right.

    `mass` is the logarithm of a difference of probabilities of the size `tail`, whose rounding error it has.
    """
    half = 0.5 * (high - low)
    points = np.clip((low + half)[:, None] + half[:, None] * _NODES, low[:, None], high[:, None])
    density = np.asarray(dist.seq_log_density(dist.dist_to_encoder().seq_encode(points.ravel()))).reshape(points.shape)
    with np.errstate(all="ignore"):
        logs = density + (_LOG_WEIGHTS + np.log(half)[:, None])
        top = np.maximum.reduce(logs, axis=1)
        shares = np.exp(logs - top[:, None])
        total = np.add.reduce(shares, axis=1)
        found = top + np.log(total)
        known = np.abs(np.expm1(found - mass)) <= _ROUNDING * (64.0 + np.abs(mass)) * (1.0 + np.exp(tail - mass))
        flat = np.maximum.reduce(density, axis=1) - np.minimum.reduce(density, axis=1) < _FLAT
        known |= (tail - mass > _LOST) & flat  # no digit of the difference is left to be compared with
        return points, shares / total[:, None], found, known


def _analytic(dist: Any, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return in which intervals the density has no singularity near, nor what a fit sums of the points."""
    border = _BORDERS.get(_name(dist))
    if border is None:
        return np.zeros(len(low), bool)
    with np.errstate(invalid="ignore"):
        width = high - low
        inside = (2.0 * (low - border[0]) >= width) & (2.0 * (border[1] - high) >= width)
        return np.asarray(inside & np.isfinite(width) & (width > 0.0))


def _padded(found: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    width = max((len(points) for points, _ in found), default=0)
    points, masses = np.zeros((len(found), width)), np.full((len(found), width), -np.inf)
    for i, (own, mass) in enumerate(found):
        points[i, : len(own)], masses[i, : len(own)] = own, mass
        points[i, len(own) :] = own[0] if len(own) else 0.0
    return points, masses
