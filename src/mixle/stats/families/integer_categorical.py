"""The law of an integer out of a range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixle.errors import EmptyDataError, RowError
from mixle.stats.contract import DistributionSampler
from mixle.stats.domains import integer, nonnegative, numbers_of, parts_of, probabilities
from mixle.stats.enumeration import ranked
from mixle.stats.given import needed
from mixle.stats.kinds import CodeCounts, CodeLeaf, log_or_floor
from mixle.stats.leaf import LeafDistribution, LeafEstimator, Rows
from mixle.stats.reading import integer_codes, read_integers
from mixle.stats.refusals import shown

__all__ = [
    "IntegerCategoricalDistribution",
    "IntegerCategoricalEstimator",
    "IntegerCategoricalSampler",
    "IntegerCounts",
]

#: A wider range is refused: its table would have an entry for every integer in between.
WIDEST = 1 << 24


class IntegerCounts(NamedTuple):
    """Weight of each integer of a range; without rows both parts are None.

    Attributes
    ----------
    min_val : int or None
        Smallest integer.
    counts : ndarray, shape (k,), or None
        Weight of it and of those that follow.
    """

    min_val: int | None
    counts: np.ndarray | None

    def scaled(self, c: float) -> IntegerCounts:
        """Return the counts times `c`, over the same range."""
        return IntegerCounts(self.min_val, None if self.counts is None else self.counts * c)


class _IntegerCategorical(CodeLeaf):
    """Labels are the integers that occur; the documented layout is a table over their whole range."""

    name: ClassVar[str] = "IntegerCategorical"

    def __init__(self, min_val: int | None = None, max_val: int | None = None) -> None:
        self.min_val, self.max_val = min_val, max_val

    def encode(self, rows: Sequence[Any]) -> Rows:
        x, broken = read_integers(rows, self.name)
        outside = np.zeros(len(x), bool) if broken is None else broken
        if self.min_val is not None:
            outside = outside | (x < self.min_val)
        if self.max_val is not None:
            outside = outside | (x > self.max_val)
        if outside.all():
            return Rows(np.zeros(len(x), np.int8), None, outside if len(x) else None, (0,) if len(x) else ())
        if not outside.any():
            codes, labels = integer_codes(_narrow(x))
            return Rows(codes, labels=labels)
        inside = ~outside
        known, labels = integer_codes(_narrow(x[inside]))
        codes = np.zeros(len(x), known.dtype)
        codes[inside] = known
        return Rows(codes, None, outside, labels)

    def support(self) -> str:
        low = "..." if self.min_val is None else str(self.min_val)
        high = "..." if self.max_val is None else str(self.max_val)
        return f"the integers {low} to {high}" if (self.min_val, self.max_val) != (None, None) else "the integers"

    def log_table(self, dist: Any, labels: tuple[Any, ...]) -> np.ndarray:
        index = np.array(labels, np.int64) - dist.min_val
        known = (index >= 0) & (index < len(dist.p_vec))
        return np.asarray(log_or_floor(np.where(known, dist.p_vec[np.where(known, index, 0)], 0.0)))

    def model_labels(self, dist: Any) -> tuple[Any, ...]:
        return tuple(range(dist.min_val, dist.max_val + 1))

    def to_value(self, stat: CodeCounts) -> IntegerCounts:
        if not stat.labels:
            return IntegerCounts(None, None)
        labels = np.array(stat.labels, np.int64)
        low = int(labels.min())
        counts = np.zeros(_width(low, int(labels.max())))
        counts[labels - low] = stat.counts
        return IntegerCounts(low, counts)

    def from_value(self, value: Any) -> CodeCounts:
        if isinstance(value, CodeCounts):
            return value
        low, counts = value
        if low is None or counts is None:
            return self.zero()
        return CodeCounts(tuple(range(int(low), int(low) + len(counts))), np.array(counts, float))


def _narrow(x: np.ndarray) -> np.ndarray:
    """Return `x`; RowError if its range is too wide for a table."""
    low, high = int(x.min()), int(x.max())
    if high - low >= WIDEST:
        row = int(np.argmax(np.abs(x - x[0]) >= WIDEST // 2))
        reason = f"{int(x[row])} makes the range {low} to {high}, too wide for a table; use Categorical"
        raise RowError(reason, "IntegerCategorical", row)
    return x


def _width(low: int, high: int) -> int:
    if high - low >= WIDEST:
        raise ValueError(f"IntegerCategorical: the range {low} to {high} is too wide for a table; use Categorical")
    return high - low + 1


class IntegerCategoricalDistribution(LeafDistribution):
    """Distribution over the integers ``min_val, ..., min_val + k − 1``, ``p_vec[x − min_val]``.

    Parameters
    ----------
    min_val : int
        Smallest integer.
    p_vec : array_like, shape (k,)
        Probabilities; the sum may be off one by 1e-6 and is scaled.
    name, keys
        Label and tying key.
    prob_vec : array_like, optional
        Another name of `p_vec`.
    prior : conjugate law, optional
        Law of the parameters; the estimator of this distribution fits under it.

    References
    ----------
    C. M. Bishop, "Pattern Recognition and Machine Learning", section 2.2, 2006.

    Examples
    --------
    >>> d = IntegerCategoricalDistribution(1, [0.25, 0.75])
    >>> d.density(2), d.density(3)
    (0.75, 0.0)
    """

    _fields = ("min_val", "p_vec")
    leaf = _IntegerCategorical()

    def __init__(
        self,
        min_val: int,
        p_vec: Any = None,
        name: str | None = None,
        keys: Any = None,
        prob_vec: Any = None,
        prior: Any = None,
    ) -> None:
        self.min_val = integer(min_val, "min_val")
        if abs(self.min_val) >= 1 << 53:
            raise ValueError(
                f"min_val must be below 2**53 in size, where integers are told apart, not {shown(min_val)}"
            )
        p_vec = needed("IntegerCategorical", p_vec=p_vec, prob_vec=prob_vec)
        self.p_vec = probabilities(p_vec, "p_vec of an IntegerCategorical")
        self.max_val = self.min_val + len(self.p_vec) - 1
        self._finish(name, keys, prior)

    @property
    def num_vals(self) -> int:
        """Return the number of values in the range."""
        return len(self.p_vec)

    @property
    def log_p_vec(self) -> np.ndarray:
        """Return the logarithms of the probabilities, −inf for 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.p_vec))

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return the values, the most probable first."""
        return ranked((value, self.log_density(value)) for value in range(self.min_val, self.max_val + 1))

    def sampler(self, seed: int | None = None) -> IntegerCategoricalSampler:
        """Return a sampler."""
        return IntegerCategoricalSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> IntegerCategoricalEstimator:
        """Return the estimator over the same range; `pseudo_count` weighs this law as a prior, unless it has one."""
        pseudo_count = self._weight(pseudo_count)
        prior = None if pseudo_count is None else (self.min_val, self.p_vec)
        return self._under_prior(
            IntegerCategoricalEstimator(self.min_val, self.max_val, pseudo_count, prior, self.name, self.keys)
        )


class IntegerCategoricalSampler(DistributionSampler):
    """Sampler of an `IntegerCategoricalDistribution`."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return an int, or an integer array of shape (size,)."""
        p = self.dist.p_vec
        drawn = self.dist.min_val + self.rng.choice(len(p), size=size, p=p / p.sum())
        return int(drawn) if size is None else drawn


class IntegerCategoricalEstimator(LeafEstimator):
    """Estimator of an `IntegerCategoricalDistribution`.

    Parameters
    ----------
    min_val, max_val : int, optional
        Fixed ends of the range; an end that is not fixed grows with the rows.
    pseudo_count : float, optional
        Alone: weight spread evenly over the range. With `suff_stat`: weight of that prior. With `suff_stat` alone it
        is 1.
    suff_stat : (int, array_like), optional
        Prior: smallest integer, and the weight of it and of those that follow.
    name, keys
        Label and tying key.
    prior : conjugate law, optional
        `SymmetricDirichletDistribution` or `DictDirichletDistribution` of the probabilities;
        the likeliest law is fitted, with the posterior as its prior.

    Notes
    -----
    Without data the law is uniform over a fixed range; without one there is no law, and that is a ValueError.

    Examples
    --------
    >>> IntegerCategoricalEstimator().estimate(None, (3, [1.0, 0.0, 3.0]))
    IntegerCategoricalDistribution(3, [0.25, 0.0, 0.75], name=None, keys=None)
    """

    _keyword_fields = ("min_val", "max_val", "pseudo_count", "suff_stat", "name", "keys", "prior")

    def __init__(
        self,
        min_val: int | None = None,
        max_val: int | None = None,
        pseudo_count: float | None = None,
        suff_stat: Any = None,
        name: str | None = None,
        keys: Any = None,
        prior: Any = None,
    ) -> None:
        self.min_val = None if min_val is None else integer(min_val, "min_val")
        self.max_val = None if max_val is None else integer(max_val, "max_val")
        if self.min_val is not None and self.max_val is not None and self.min_val > self.max_val:
            raise ValueError(f"min_val {self.min_val} is above max_val {self.max_val}; pass the smaller first")
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.suff_stat = None
        if suff_stat is not None:
            low, given = parts_of(suff_stat, "suff_stat", 2)
            weights = [nonnegative(w, "suff_stat") for w in numbers_of(given, "suff_stat").reshape(-1).tolist()]
            self.suff_stat = (integer(low, "suff_stat"), weights)
        self.name, self.keys = name, keys
        self.leaf = _IntegerCategorical(self.min_val, self.max_val)
        self._take_prior(prior, pseudo_count is not None or suff_stat is not None)

    def _range(self, spans: list[tuple[int, int]]) -> tuple[int, int]:
        lows = [low for low, _ in spans] if self.min_val is None else [self.min_val]
        highs = [high for _, high in spans] if self.max_val is None else [self.max_val]
        if not lows or not highs:
            raise EmptyDataError(
                "IntegerCategorical: without rows that hold integers the range is unknown; pass such rows, or min_val= "
                "and max_val= to its estimator"
            )
        return min(lows), max(highs)

    def _estimate(self, stat: CodeCounts) -> IntegerCategoricalDistribution:
        parts = [] if not stat.labels else [self.leaf.to_value(stat)]
        if self.suff_stat is not None:
            strength = 1.0 if self.pseudo_count is None else self.pseudo_count
            parts.append((self.suff_stat[0], strength * np.array(self.suff_stat[1])))
        low, high = self._range([(start, start + len(weights) - 1) for start, weights in parts])
        total = np.zeros(_width(low, high))
        for start, weights in parts:
            a, b = max(start, low), min(start + len(weights) - 1, high)
            if a <= b:
                total[a - low : b - low + 1] += weights[a - start : b - start + 1]
        if self.pseudo_count and self.suff_stat is None:
            total += self.pseudo_count / len(total)
        mass = float(np.add.reduce(total))
        p_vec = total / mass if mass > 0.0 else np.full(len(total), 1.0 / len(total))
        return IntegerCategoricalDistribution(low, p_vec, self.name, self.keys)
