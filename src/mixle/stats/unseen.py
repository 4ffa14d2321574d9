"""Fits to rows of which some kinds are never seen: the unseen ones are put back in their expected numbers.

If a row is seen with probability S(θ), n seen rows come with ``n (1 − S) / S`` unseen ones on average, spread as the
law spreads them. EM (A. P. Dempster, N. M. Laird, D. B. Rubin, "Maximum likelihood from incomplete data via the EM
algorithm", J. R. Stat. Soc. B 39, 1977) adds those to the statistic of the seen rows and fits again. Its
fixed point is the maximum of the likelihood of the seen rows; Anderson's acceleration (H. F. Walker, P. Ni, "Anderson
acceleration for fixed-point iterations", SIAM J. Numer. Anal. 49, 2011) reaches it in a few rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mixle._limits import one_blas_thread
from mixle.stats.regions import TooManyPoints

__all__ = ["Unseen", "fit_seen", "float_parameters"]

#: Differences of past rounds that an accelerated step looks at, and how often one is halved.
MEMORY, HALVINGS = 4, 20


class Unseen(NamedTuple):
    """What is never seen under a law.

    Attributes
    ----------
    payload : object
        Unseen rows, encoded.
    log_mass : ndarray, shape (m,)
        Logarithm of the probability that each of them stands for.
    log_seen : float
        Logarithm of the probability of being seen.
    """

    payload: Any
    log_mass: np.ndarray
    log_seen: float


def float_parameters(dist: Any) -> tuple[np.ndarray, Callable[[np.ndarray], Any]] | None:
    """Return the real parameters of a leaf as one vector, and what builds the law of other ones; None if it has none.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution
    >>> vector, build = float_parameters(GaussianDistribution(1.0, 2.0))
    >>> vector.tolist(), build(vector + 1.0)
    ([1.0, 2.0], GaussianDistribution(2.0, 3.0, name=None, keys=None))
    """
    names = [name for name in getattr(dist, "_fields", ()) if isinstance(getattr(dist, name), float)]
    if not names or not hasattr(dist, "leaf"):
        return None
    others = {name: getattr(dist, name) for name in dist.argument_names() if name not in names}

    def build(vector: np.ndarray) -> Any:
        return type(dist)(**dict(zip(names, map(float, vector), strict=True)), **others)

    return np.array([getattr(dist, name) for name in names], float), build


class _Anderson:
    """Memory of a fixed-point iteration."""

    def __init__(self) -> None:
        self.points: list[np.ndarray] = []
        self.residuals: list[np.ndarray] = []

    def forget(self) -> None:
        """Start anew."""
        self.points, self.residuals = [], []

    def next(self, x: np.ndarray, image: np.ndarray) -> np.ndarray:
        """Return the next point, given one and its image."""
        residual = image - x
        if self.residuals and not _size(residual, image) <= 2.0 * _size(self.residuals[-1], image):
            self.forget()
        self.points, self.residuals = [*self.points, x][-MEMORY - 1 :], [*self.residuals, residual][-MEMORY - 1 :]
        if len(self.points) < 2:
            return image
        scale = np.abs(image) + 1e-3 * float(np.max(np.abs(image)))
        moved = np.diff(np.array(self.points), axis=0)
        changed = np.diff(np.array(self.residuals), axis=0)
        with one_blas_thread():
            gamma = np.linalg.lstsq((changed / scale).T, residual / scale, rcond=1e-13)[0]
        return np.asarray(image - (moved + changed).T @ gamma)


def _size(step: np.ndarray, at: np.ndarray) -> float:
    return float(np.max(np.abs(step) / (np.abs(at) + 1e-3 * float(np.max(np.abs(at))) + 1e-300)))


def fit_seen(
    estimator: Any, value: Any, seen: float, unseen: Callable[[Any], Unseen | None], max_iter: int, threshold: float
) -> Any:
    """Return the law that fits the statistic of seen rows best, what is never seen taken into account.

    Parameters
    ----------
    estimator : ParameterEstimator
        Estimator of the law of all rows.
    value : object
        Statistic of the seen rows.
    seen : float
        Their weight.
    unseen : callable
        Tells what is never seen under a law; None if all rows are.
    max_iter : int
        Largest number of rounds.
    threshold : float
        Relative length of a step at which the rounds end.

    Examples
    --------
    Counts without zeros of mean 1.5 (the mean of the law is λ / (1 − exp(−λ))):

    >>> from mixle.stats import PoissonEstimator
    >>> encoder = PoissonEstimator().accumulator_factory().make().acc_to_encoder()
    >>> zero = encoder.seq_encode([0])
    >>> def unseen(dist):
    ...     return Unseen(zero, np.array([-dist.lam]), math.log(-math.expm1(-dist.lam)))
    >>> round(fit_seen(PoissonEstimator(), (2.0, 3.0), 2.0, unseen, 100, 1e-10).lam, 9)
    0.874217466
    """
    model = estimator.estimate(seen, value)
    found = unseen(model) if seen > 0.0 else None
    memory = _Anderson()
    for _ in range(max_iter):
        if found is None:
            return model
        image, weight = _round(estimator, value, seen, model, found)
        try:
            step, model, found = _next(memory, model, image, unseen, (value, seen, weight))
        except TooManyPoints:  # so near to the bound that nothing is left to gain
            return model
        if step <= threshold:
            break
    return model if found is None else _round(estimator, value, seen, model, found)[0]


def _next(
    memory: _Anderson, model: Any, image: Any, unseen: Any, data: tuple[Any, float, float]
) -> tuple[float, Any, Unseen | None]:
    """Return the relative length of a step, the model after it, and what is unseen under that.

    An accelerated step is taken where it reaches a higher likelihood than the plain one to `image`, or, for laws
    whose statistic does not tell the likelihood, while steps do not grow.
    """
    value, seen, weight = data
    plain = unseen(image)
    here, there = float_parameters(model), float_parameters(image)
    if here is None or there is None or plain is None:
        total = 0.0 if plain is None else float(np.add.reduce(_weights(plain, seen)))
        return abs(total - weight) / (seen + weight), image, plain
    step, ahead = _accelerated(memory, here[0], there, image)
    if ahead is image:
        return step, image, plain
    found = unseen(ahead)
    low, high = likelihood(image, value), likelihood(ahead, value)
    if found is not None and low is not None and high is not None:
        low, high = low - seen * plain.log_seen, high - seen * found.log_seen
        if not high >= low - 1e-13 * abs(low):
            memory.forget()
            return max(step, _size(there[0] - here[0], there[0])), image, plain
    return step, ahead, found


def likelihood(dist: Any, value: Any) -> float | None:
    """Return the log-density of a leaf's statistic up to a constant, or None if it does not tell.

    Examples
    --------
    >>> from mixle.stats import PoissonDistribution
    >>> likelihood(PoissonDistribution(1.0), (2.0, 3.0))
    -2.0
    """
    leaf = dist.leaf
    if leaf.kind not in {"linear", "square"} or leaf.vector:
        return None
    stat = leaf.from_value(value)
    if leaf.kind == "linear":
        eta, constant = leaf.natural(dist)
        return float(constant * stat.weight + math.fsum(e * t for e, t in zip(eta, stat.sums.tolist(), strict=True)))
    mean, variance = leaf.location(dist)
    squares = float(stat.scatter) + float(stat.weight) * (float(stat.centre) + float(stat.shift) - mean) ** 2
    return float(-0.5 * (float(stat.weight) * math.log(variance) + squares / variance))


def _round(estimator: Any, value: Any, seen: float, model: Any, found: Unseen) -> tuple[Any, float]:
    """Return the fit to the seen rows and the expected unseen ones, and the weight of the latter."""
    weights = _weights(found, seen)
    accumulator = estimator.accumulator_factory().make().from_value(value)
    accumulator.seq_update(found.payload, weights, model)
    total = float(np.add.reduce(weights))
    return estimator.estimate(seen + total, accumulator.value()), total


def _weights(found: Unseen, seen: float) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(np.minimum(seen * np.exp(found.log_mass - max(found.log_seen, -600.0)), 1e250))


def _accelerated(memory: _Anderson, x: np.ndarray, there: Any, image: Any) -> tuple[float, Any]:
    """Return the relative length of an accelerated step and the model at its end.

    A step out of the domain is halved until it stays inside: a maximum at the bound is come near to.
    """
    vector, build = there
    ahead = memory.next(x, vector)
    for _ in range(HALVINGS if np.isfinite(ahead).all() else 0):
        try:
            return _size(ahead - x, vector), build(ahead)
        except ValueError:
            ahead = 0.5 * (ahead + x)
    return math.inf, image
