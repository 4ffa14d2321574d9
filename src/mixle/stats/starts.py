"""Starts of mixtures: centres seeded on a sample of rows, then near-hard responsibilities for the kept rows.

Distances are Gower-like (Gower 1971, Biometrics 27): a real column counts its squared difference in units of its
standard deviation over the sample, a label counts 0 or 1, a value missing on one side counts 1. Centres are chosen
by greedy k-means++ (Arthur and Vassilvitskii 2007, SODA).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from mixle.stats.contract import Column

__all__ = [
    "SHARE",
    "Centres",
    "in_codes_of",
    "known_rows",
    "least_start_rows",
    "near_hard",
    "sample_size",
    "seed_centres",
    "seed_components",
    "seed_fields",
    "seed_start",
    "start_components",
    "start_notes",
    "take_columns",
    "telling",
]

#: Responsibility that a start leaves to the components a row is not assigned to, in all.
SHARE = 1e-3


def sample_size(components: int) -> int:
    """Return how many rows a start looks at."""
    return max(32 * components, 256)


class Centres(NamedTuple):
    """Seeded centres.

    Attributes
    ----------
    columns : tuple of Column
        The K centre rows.
    scales : tuple of float
        Standard deviation of each real column over the sample; 1 for labels.
    parts : tuple
        What `seed_start` gave for each component that has centres of its own below it, None for the others; empty if
        no component has.
    """

    columns: tuple[Column, ...]
    scales: tuple[float, ...]
    parts: tuple[Any, ...] = ()

    @property
    def components(self) -> int:
        """Return the number of centres."""
        return len(self.columns[0].values) if self.columns else 0


def _distances(columns: Sequence[Column], centre: Sequence[Column], k: int, scales: Sequence[float]) -> np.ndarray:
    """Return the distance of each row from centre row `k`."""
    total = np.zeros(len(columns[0].values))
    for column, other, scale in zip(columns, centre, scales, strict=True):
        if column.labels is None:
            with np.errstate(invalid="ignore", over="ignore"):
                part = np.square((column.values - other.values[k]) / scale)
        else:
            part = (column.values != _code(column.labels, other, k)).astype(float)
        gone = False if other.missing is None else bool(other.missing[k])
        if gone:
            part = np.ones(len(total)) if column.missing is None else (~column.missing).astype(float)
        elif column.missing is not None:
            part = np.where(column.missing, 1.0, part)
        total += part
    return total


def _code(labels: tuple[Any, ...], other: Column, k: int) -> int:
    """Return the place in `labels` of the label of row `k` of `other`, −1 if it is not among them."""
    if not other.labels:
        return -1
    code = int(other.values[k])
    if labels is other.labels:
        return code
    label = other.labels[code]
    return labels.index(label) if label in labels else -1


def in_codes_of(columns: Sequence[Column], centres: Centres) -> Centres:
    """Return `centres` with the codes that their labels have in a chunk's `columns`, found once for all its blocks."""
    found = [
        other
        if column.labels is None
        else other._replace(
            values=np.array([_code(column.labels, other, k) for k in range(len(other.values))]), labels=column.labels
        )
        for column, other in zip(*evened([telling(columns), centres.columns]), strict=True)
    ]
    return centres._replace(columns=tuple(found))


def _scales(columns: Sequence[Column]) -> tuple[float, ...]:
    result = []
    for column in columns:
        scale = 1.0
        if column.labels is None:
            kept = column.values if column.missing is None else column.values[~column.missing]
            if kept.size:
                largest = float(np.max(np.abs(kept)))
                unit = largest if largest > 1e150 else 1.0  # squares of what is larger overflow
                first = kept / unit - kept[0] / unit
                deviation = unit * float(np.sqrt(np.mean(np.square(first - np.mean(first)))))
                scale = deviation if deviation > 0.0 and math.isfinite(deviation) else 1.0
        result.append(scale)
    return tuple(result)


def evened(parts: Sequence[Sequence[Column]]) -> list[list[Column]]:
    """Return the columns of chunks, of each as many: where one holds no vector, as wide as those of the others.

    Examples
    --------
    >>> flat, vectors = Column(np.zeros(2), wide=True), [Column(np.ones(3)), Column(np.ones(3))]
    >>> [len(columns) for columns in evened([[flat], vectors])]
    [2, 2]
    """
    if len({len(part) for part in parts}) == 1 and not any(column.wide for part in parts for column in part):
        return [list(part) for part in parts]
    runs = [[list(run) for _, run in groupby(part, key=_place)] for part in parts]
    if len({tuple(_place(run[0]) for run in part) for part in runs}) > 1:
        return [list(part) for part in parts]
    widths = [max(len(run) for run in same) for same in zip(*runs, strict=True)]
    return [
        [column for run, width in zip(part, widths, strict=True) for column in _widened(run, width)] for part in runs
    ]


def _place(column: Column) -> tuple[tuple[int, ...], int]:
    return column.path, column.within


def _widened(run: list[Column], width: int) -> list[Column]:
    at = next((i for i, column in enumerate(run) if column.wide), len(run))
    return run[:at] + run[at : at + 1] * (width - len(run)) + run[at:]


def take_columns(columns: Sequence[Column], rows: Any) -> tuple[Column, ...]:
    """Return the given rows of columns."""
    index = np.array(rows, dtype=np.intp)
    return tuple(
        c._replace(values=c.values[index], missing=None if c.missing is None else c.missing[index]) for c in columns
    )


def telling(columns: Sequence[Column]) -> list[Column]:
    """Return the columns that tell rows apart: all but those of elements.

    Examples
    --------
    >>> [column.within for column in telling([Column(np.zeros(2)), Column(np.zeros(2), within=1)])]
    [0]
    """
    return [column for column in columns if not column.within]


def known_rows(columns: Sequence[Column]) -> np.ndarray:
    """Return the rows that have a value in some column, or all if none has.

    Examples
    --------
    >>> known_rows([Column(np.zeros(3), None, np.array([False, True, False]))]).tolist()
    [0, 2]
    """
    gone = np.array([np.zeros(len(c.values), bool) if c.missing is None else c.missing for c in columns])
    known = np.flatnonzero(~gone.all(axis=0))
    return known if known.size else np.arange(gone.shape[1])


def least_start_rows(estimator: Any) -> int:
    """Return how many rows a start needs: as many as components have centres, 1 where one row has many elements.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator, MixtureEstimator, SequenceEstimator
    >>> mixture = MixtureEstimator([GaussianEstimator()] * 3)
    >>> least_start_rows(mixture), least_start_rows(SequenceEstimator(mixture)), least_start_rows(GaussianEstimator())
    (3, 1, 0)
    """
    own = getattr(estimator, "least_start_rows", None)
    if own is not None:
        return int(own)
    if callable(getattr(estimator, "num_start_components", None)):
        return start_components(estimator)
    return max((least_start_rows(part) for part in getattr(estimator, "start_parts", ())), default=0)


def start_components(estimator: Any) -> int:
    """Return the most components that one mixture in `estimator` seeds centres for; 0 if none does."""
    ask = getattr(estimator, "num_start_components", None)
    if callable(ask):
        return int(ask() or 0)
    return max((start_components(part) for part in getattr(estimator, "start_parts", ())), default=0)


def seed_start(estimator: Any, columns: list[Column], rng: Any) -> Any:
    """Return what `start` of the estimator's accumulators takes for centres, seeded on sampled rows; None if nothing.

    Parameters
    ----------
    estimator : ParameterEstimator
        A mixture, or a combinator with `start_parts`, whose ``seed_start(columns, rng)`` is asked.
    columns : list of Column
        The sample.
    rng : numpy.random.RandomState
        Source of the draws.
    """
    own = getattr(estimator, "seed_start", None)
    if callable(own):
        return own(columns, rng)
    components = start_components(estimator)
    return seed_centres(columns, components, rng) if components else None


def seed_fields(estimators: Sequence[Any], columns: list[Column], rng: Any) -> tuple[Any, ...] | None:
    """Return `seed_start` of each field, or None if no field seeds centres."""
    seeds = []
    for i, estimator in enumerate(estimators):
        own = [c._replace(path=c.path[1:]) for c in columns if c.path[:1] == (i,)]
        seeds.append(seed_start(estimator, own, rng) if own and start_components(estimator) else None)
    return tuple(seeds) if any(seed is not None for seed in seeds) else None


def seed_components(estimators: Sequence[Any], centres: Centres, columns: list[Column], rng: Any) -> Centres:
    """Return `centres` with seeds for the mixtures inside the components, on the rows nearest to each."""
    if not any(start_components(estimator) for estimator in estimators):
        return centres
    nearest = np.argmax(near_hard(columns, centres), axis=0)
    parts = []
    for k, estimator in enumerate(estimators):
        rows = np.flatnonzero(nearest == k)
        own = take_columns(columns, rows if len(rows) else np.arange(len(nearest)))
        parts.append(seed_start(estimator, list(own), rng) if start_components(estimator) else None)
    return centres._replace(parts=tuple(parts))


def seed_centres(columns: list[Column], components: int, rng: Any, chosen: Sequence[int] = ()) -> Centres:
    """Return `components` centres out of the sampled rows.

    Parameters
    ----------
    columns : list of Column
        The sample, in the order of its draws.
    components : int
        How many centres.
    rng : numpy.random.RandomState
        Source of the draws.
    chosen : sequence of int
        Rows that are the first centres.

    Notes
    -----
    Centres are distinct as long as the sample has distinct rows left; after that rows repeat, the farthest (then
    the first) ones being taken.
    """
    columns = telling(columns)
    scales = _scales(columns)
    rows = len(columns[0].values)
    chosen = list(chosen) or [int(rng.randint(rows))]
    first = take_columns(columns, chosen)
    nearest = np.minimum.reduce([_distances(columns, first, k, scales) for k in range(len(chosen))])
    trials = 2 + int(math.log(components))
    while len(chosen) < components:
        total = float(np.add.reduce(nearest))
        if not total > 0.0 or not math.isfinite(total):
            candidates = [int(np.argmax(nearest))]
        else:
            points = rng.random_sample(trials) * total
            candidates = np.minimum(np.searchsorted(np.cumsum(nearest), points, side="right"), rows - 1).tolist()
            candidates = [c for c in candidates if nearest[c] > 0.0] or [int(np.argmax(nearest))]
        best = (math.inf, candidates[0], nearest)
        for candidate in candidates:
            after = np.minimum(nearest, _distances(columns, take_columns(columns, [candidate]), 0, scales))
            cost = float(np.add.reduce(after))
            if cost < best[0]:
                best = (cost, candidate, after)
        chosen.append(best[1])
        nearest = best[2]
    return Centres(take_columns(columns, chosen), scales)


def start_notes(centres: Any) -> tuple[str, ...]:
    """Return what a start had to do about components without a centre of their own, in words.

    Where the sample has fewer distinct rows than there are components, those left over repeat the row that lies
    farthest from all centres, then the first one; they share its rows.
    """
    if isinstance(centres, Centres):
        rows = zip(*(_entries(column) for column in centres.columns), strict=True)
        distinct, count = len(set(rows)), centres.components
        own = (f"start: {count} components, {distinct} distinct sampled rows; {count - distinct} of them repeat a row",)
        below = tuple(note for part in centres.parts for note in start_notes(part))
        return (own if distinct < count else ()) + below
    if isinstance(centres, tuple):
        return tuple(note for part in centres for note in start_notes(part))
    return start_notes(centres.centres) if getattr(centres, "centres", None) is not None else ()


def _entries(column: Column) -> list[Any]:
    gone = column.missing
    values = np.asarray(column.values).tolist()
    return [None if gone is not None and gone[i] else value for i, value in enumerate(values)]


def near_hard(columns: Sequence[Column], centres: Centres) -> np.ndarray:
    """Return responsibilities (K, n): nearly all to the nearest centre, `SHARE` spread over the others."""
    count, found = centres.components, distances(columns, centres)
    if count == 1:
        return np.ones_like(found)
    result = np.full_like(found, SHARE / (count - 1))
    result[np.argmin(found, axis=0), np.arange(found.shape[1])] = 1.0 - SHARE
    return result


def distances(columns: Sequence[Column], centres: Centres) -> np.ndarray:
    """Return the distance of each row from each centre, shape (K, n)."""
    even, _ = evened([telling(columns), centres.columns])
    return np.array([_distances(even, centres.columns, k, centres.scales) for k in range(centres.components)])
