"""The four kinds of leaves whose components stack: square, quadratic, linear, code."""

from __future__ import annotations

import math
import weakref
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixle._limits import one_blas_thread
from mixle.stats.contract import Column
from mixle.stats.domains import LARGEST_FLOAT
from mixle.stats.leaf import Leaf, Rows
from mixle.stats.reading import read_matrix
from mixle.stats.sums import Moments, Numbers, block_sum, block_sums, merge_moments, raw_moments, weighted_moments

__all__ = [
    "LOG_ZERO",
    "CodeCounts",
    "CodeLeaf",
    "FullNormalLeaf",
    "LinearLeaf",
    "LinearSums",
    "MatrixRows",
    "QuadraticLeaf",
    "SquareLeaf",
    "log_or_floor",
    "number_column",
    "seen_labels",
    "weights_by_code",
]

#: Stands for log 0 inside products, where an infinity would make NaN.
LOG_ZERO = -1e300
LOG_2PI = math.log(2.0 * math.pi)


def log_or_floor(p: Any) -> np.ndarray:
    """Return log p, `LOG_ZERO` where p is 0."""
    p = np.asarray(p, float)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(p > 0.0, np.log(p), LOG_ZERO))


class LinearSums(NamedTuple):
    """Sums of a linear leaf: `weight` () or (K,), `sums` (P,) or (K, P)."""

    weight: Numbers
    sums: np.ndarray

    def scaled(self, c: float) -> LinearSums:
        """Return the sums times `c`."""
        return LinearSums(self.weight * c, self.sums * c)


class CodeCounts(NamedTuple):
    """Weight of each label: `labels` of length L, `counts` (L,) or (K, L)."""

    labels: tuple[Any, ...]
    counts: np.ndarray

    def scaled(self, c: float) -> CodeCounts:
        """Return the counts times `c`."""
        return CodeCounts(self.labels, self.counts * c)


def _first_centre(x: np.ndarray, weights: np.ndarray) -> Any:
    kept = np.flatnonzero(weights > 0.0)
    if not kept.size:
        return 0.0
    row = x[kept[0]]
    return float(row) if np.ndim(row) == 0 else np.array(row, float)


class MatrixRows:
    """What leaves of vectors of any finite numbers share: their dimension, and how rows are read."""

    name: ClassVar[str]

    def __init__(self, dim: int | None = None) -> None:
        self.dim = dim

    def encode(self, rows: Sequence[Any]) -> np.ndarray:
        """Return rows as (n, d)."""
        return read_matrix(rows, self.name, self.dim, squared=True)


class _NormalLeaf(Leaf):
    """Normal laws: the statistic is `Moments`."""

    def zero(self) -> Moments:
        """Return the zero statistic."""
        return Moments(0.0, 0.0, 0.0, 0.0)

    def merge(self, a: Moments, b: Moments) -> Moments:
        """Return the moments of both."""
        return merge_moments(a, b)

    def to_value(self, stat: Moments) -> Moments:
        """Return a copy of the moments."""
        return stat.copy()


class SquareLeaf(_NormalLeaf):
    """Normal laws column by column: the statistic is `Moments` with a diagonal scatter."""

    kind: ClassVar[str] = "square"

    @abstractmethod
    def location(self, dist: Any) -> tuple[Any, Any]:
        """Return (mean, variance) of `dist`: numbers, or arrays of shape (d,)."""

    def accumulate(self, rows: Rows, weights: np.ndarray, dist: Any) -> Moments:
        """Return the moments about the model's mean, or about the first weighted row."""
        centre = _first_centre(rows.x, weights) if dist is None else self.location(dist)[0]
        return weighted_moments(rows.x, weights, centre)

    def member(self, stat: Moments) -> Moments:
        """Return numbers for a law of one number, arrays of shape (d,) for a `vector` law."""
        if self.vector or stat.weight == 0.0:
            return stat
        return Moments(stat.weight, *(float(part[0]) for part in (stat.centre, stat.shift, stat.scatter)))

    def from_value(self, value: Any) -> Moments:
        """Return moments from `Moments` or from raw sums ``(Σwx, Σwx², Σw[, Σw])``."""
        if isinstance(value, Moments):
            return value
        if len(value) == 4 and value[2] != value[3]:
            raise ValueError(
                f"{self.name}: the two counts of a statistic differ: {value[2]!r} and {value[3]!r}; "
                "pass (sum of x, sum of squares, weight)"
            )
        return raw_moments(value[0], value[1], float(value[2]))

    def score(self, dist: Any, rows: Rows) -> np.ndarray:
        """Return the normal log-density, summed over columns in order."""
        mean, variance = self.location(dist)
        x = rows.x if rows.x.ndim == 2 else rows.x[:, None]
        mean, variance = np.atleast_1d(mean), np.atleast_1d(variance)
        result = np.zeros(len(x))
        for j in range(x.shape[1]):
            y = x[:, j] - mean[j]
            with np.errstate(over="ignore"):  # so far out that the density is zero in float64
                result += -0.5 * (LOG_2PI + math.log(variance[j])) - y * y / min(2.0 * variance[j], LARGEST_FLOAT)
        return result


class QuadraticLeaf(_NormalLeaf):
    """Normal laws with full covariance: the statistic is `Moments` with a full scatter."""

    kind: ClassVar[str] = "quadratic"
    vector: ClassVar[bool] = True

    @abstractmethod
    def location(self, dist: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return (mean (d,), covariance (d, d))."""

    @abstractmethod
    def factor(self, dist: Any) -> np.ndarray:
        """Return the lower Cholesky factor of the covariance, (d, d)."""

    def accumulate(self, rows: Rows, weights: np.ndarray, dist: Any) -> Moments:
        """Return the moments about the model's mean, or about the first weighted row."""
        centre = _first_centre(rows.x, weights) if dist is None else self.location(dist)[0]
        with one_blas_thread():
            return weighted_moments(rows.x, weights, centre, full=True)

    def from_value(self, value: Any) -> Moments:
        """Return moments from `Moments` or from raw sums ``(Σwx, Σwxxᵀ, Σw)``."""
        return value if isinstance(value, Moments) else raw_moments(value[0], value[1], float(value[2]), full=True)

    def score(self, dist: Any, rows: Rows) -> np.ndarray:
        """Return the normal log-density by forward substitution, the same for a row alone or among others."""
        mean, factor = self.location(dist)[0], self.factor(dist)
        if not len(rows.x):
            return np.zeros(0)
        half = forward_square(factor, rows.x.T - mean[:, None])
        half *= -0.5
        half += -0.5 * len(mean) * LOG_2PI - float(np.add.reduce(np.log(np.diagonal(factor))))
        return half


class FullNormalLeaf(MatrixRows, QuadraticLeaf):
    """Normal laws of a vector that carry their mean `mu`, covariance `covar` and its factor `chol`."""

    def location(self, dist: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return (mean (d,), covariance (d, d))."""
        return dist.mu, dist.covar

    def factor(self, dist: Any) -> np.ndarray:
        """Return the lower Cholesky factor of the covariance, (d, d)."""
        return np.asarray(dist.chol)


def forward_square(factor: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return ``|L⁻¹ y|²`` for each column of `y` (d, n), element by element so that no row depends on its block."""
    z = np.empty_like(y)
    result = np.zeros(y.shape[1])
    for i in range(len(y)):
        row = y[i].copy()
        for j in range(i):
            row -= factor[i, j] * z[j]
        np.divide(row, factor[i, i], out=z[i])
        result += z[i] * z[i]
    result[np.isnan(result)] = np.inf  # the difference of two infinities: so far out that a square overflows
    return result


class LinearLeaf(Leaf):
    """Exponential families ``exp(η·t(x) + c)`` with a few plain features t."""

    kind: ClassVar[str] = "linear"
    width: ClassVar[int] = 1

    @abstractmethod
    def natural(self, dist: Any) -> tuple[tuple[float, ...], float]:
        """Return (η, c), log 0 as `LOG_ZERO`."""

    def zero(self) -> LinearSums:
        """Return the zero statistic."""
        return LinearSums(0.0, np.zeros(self.width))

    def accumulate(self, rows: Rows, weights: np.ndarray, dist: Any) -> LinearSums:
        """Return the weight and the weighted sums of the features."""
        sums = np.array([block_sum(np.asarray(feature, float), weights) for feature in rows.x])
        return LinearSums(block_sum(weights), sums)

    def merge(self, a: LinearSums, b: LinearSums) -> LinearSums:
        """Return the sum of both."""
        return LinearSums(a.weight + b.weight, a.sums + b.sums)

    def to_value(self, stat: LinearSums) -> Any:
        """Return ``(Σw, Σw t₁(x), ...)``."""
        return (float(stat.weight), *(float(total) for total in stat.sums))

    def from_value(self, value: Any) -> LinearSums:
        """Return the sums of ``(Σw, Σw t₁(x), ...)``."""
        if isinstance(value, LinearSums):
            return value
        return LinearSums(float(value[0]), np.array([value[1 + i] for i in range(self.width)], float))

    def score(self, dist: Any, rows: Rows) -> np.ndarray:
        """Return ``η·t(x) + c``."""
        eta, constant = self.natural(dist)
        result = np.full(rows.size, constant)
        for factor, feature in zip(eta, rows.x, strict=True):
            result += factor * feature
        result[result <= LOG_ZERO / 10] = -np.inf
        return result

    def scores(self, dists: Sequence[Any], rows: Rows) -> np.ndarray | None:
        """Return ``η·t(x) + c`` under each of K distributions, shape (K, n)."""
        facts = [self.natural(dist) for dist in dists]
        result = np.repeat(np.array([constant for _, constant in facts])[:, None], rows.size, axis=1)
        for j, feature in enumerate(rows.x):
            result += np.array([eta[j] for eta, _ in facts])[:, None] * feature
        result[result <= LOG_ZERO / 10] = -np.inf
        return result

    def accumulate_all(self, rows: Rows, weights: np.ndarray, dists: Sequence[Any]) -> list[LinearSums] | None:
        """Return the weight and the weighted sums of the features for K weightings."""
        sums = np.stack([block_sums(np.asarray(feature, float), weights) for feature in rows.x], axis=1)
        return [LinearSums(block_sum(own), found.copy()) for own, found in zip(weights, sums, strict=True)]


#: Places of the labels of sums of many, by the address of their counts, as long as those live.
_places: dict[int, tuple[weakref.ref[np.ndarray], tuple[Any, ...], dict[Any, int]]] = {}
_MANY = 4096


def _places_of(stat: CodeCounts) -> dict[Any, int]:
    """Return the place of each label of a statistic, to be added to."""
    known = _places.pop(id(stat.counts), None)
    if known is not None and known[1] is stat.labels:
        return known[2]
    return dict(zip(stat.labels, range(len(stat.labels)), strict=True))


def _noted(stat: CodeCounts, places: dict[Any, int]) -> CodeCounts:
    """Return a statistic; of many labels the places are kept, so that what is added next need not look at them all."""
    if len(places) > _MANY:
        key = id(stat.counts)
        _places[key] = weakref.ref(stat.counts, lambda _: _places.pop(key, None)), stat.labels, places
    return stat


def seen_labels(labels: tuple[Any, ...], counts: np.ndarray) -> CodeCounts:
    """Return the counts (L,) or (K, L) of the labels that have weight: rows of weight zero show no label."""
    weight = counts if counts.ndim == 1 else np.add.reduce(counts, axis=0)
    keep = np.flatnonzero(weight > 0.0)
    if len(keep) == len(labels):
        return CodeCounts(labels, counts)
    return CodeCounts(tuple([labels[i] for i in keep.tolist()]), counts[..., keep])


def number_column(rows: Rows) -> Column:
    """Return the numbers that codes stand for as a column for a start."""
    return Column(np.array(rows.labels, float).take(rows.x) if rows.labels else np.zeros(rows.size))


def weights_by_code(codes: np.ndarray, offsets: np.ndarray, weights: np.ndarray, width: int) -> np.ndarray:
    """Return the weight of each of `width` codes (K, width), row i of weights (K, n) having codes from offsets[i] on.

    Weights are added in the order of the rows.
    """
    from scipy.sparse import csr_array

    matrix = csr_array((np.ones(len(codes)), codes, offsets), shape=(len(offsets) - 1, width))
    return np.ascontiguousarray((matrix.T @ np.ascontiguousarray(weights.T)).T)


class CodeLeaf(Leaf):
    """Laws over labels: the statistic is the weight of each label."""

    kind: ClassVar[str] = "code"
    #: Whether a model lists no labels because every label has a probability, not one that all unlisted ones share.
    open_labels: ClassVar[bool] = False

    @abstractmethod
    def log_table(self, dist: Any, labels: tuple[Any, ...]) -> np.ndarray:
        """Return the log-probability of each label under `dist`, shape (L,), log 0 as `LOG_ZERO`."""

    def log_tables(self, dists: Sequence[Any], labels: tuple[Any, ...]) -> np.ndarray:
        """Return `log_table` of each of K distributions, shape (K, L)."""
        return np.array([self.log_table(dist, labels) for dist in dists]).reshape(len(dists), len(labels))

    @abstractmethod
    def model_labels(self, dist: Any) -> tuple[Any, ...]:
        """Return the labels that `dist` lists."""

    def zero(self) -> CodeCounts:
        """Return the zero statistic."""
        return CodeCounts((), np.zeros(0))

    def handed(self, stat: CodeCounts) -> Any:
        """Return `stat` as this library's own estimator reads it: its documented layout, or itself."""
        return self.to_value(stat)

    def accumulate(self, rows: Rows, weights: np.ndarray, dist: Any) -> CodeCounts:
        """Return the weight of each label."""
        labels = rows.labels or ()
        return seen_labels(labels, np.bincount(rows.x, weights, len(labels))[: len(labels)])

    def merge(self, a: CodeCounts, b: CodeCounts) -> CodeCounts:
        """Return the weight of each label of either, those of `a` first."""
        if a.labels == b.labels:
            return CodeCounts(a.labels, a.counts + b.counts)
        index = _places_of(a)
        places: list[Any] = [*map(index.get, b.labels)]
        if None in places:
            for label in b.labels:
                index.setdefault(label, len(index))
            places = [*map(index.get, b.labels)]
        shape = np.shape(b.counts)[:-1] if not a.labels else np.shape(a.counts)[:-1]
        counts = np.zeros((*shape, len(index)))
        if a.labels:
            counts[..., : len(a.labels)] = a.counts
        if b.labels:
            counts[..., places] += b.counts
        return _noted(CodeCounts(tuple(index), counts), index)

    def score(self, dist: Any, rows: Rows) -> np.ndarray:
        """Return the log-probability of each row's label."""
        if not rows.labels:
            return np.zeros(rows.size)
        table = self.log_table(dist, rows.labels)
        return np.asarray(np.where(table <= LOG_ZERO, -np.inf, table)[rows.x])

    def scores(self, dists: Sequence[Any], rows: Rows) -> np.ndarray | None:
        """Return the log-probabilities (K, n) of each row's label; the component axis lies together in memory."""
        if not rows.labels or len(rows.labels) > rows.size:
            return None
        table = self.log_tables(dists, rows.labels)
        found: np.ndarray = np.ascontiguousarray(np.where(table <= LOG_ZERO, -np.inf, table).T)[rows.x].T
        return found

    def accumulate_all(self, rows: Rows, weights: np.ndarray, dists: Sequence[Any]) -> list[CodeCounts] | None:
        """Return the weight of each label for K weightings: a sparse product adds the rows in order."""
        labels = rows.labels or ()
        if not labels or len(labels) > rows.size:
            return None
        counts = weights_by_code(rows.x, np.arange(rows.size + 1), weights, len(labels))
        return [seen_labels(labels, own) for own in counts]
