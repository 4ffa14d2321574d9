"""The law of a set of labels, each of which is in it or not on its own: tags, baskets, symptoms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixle.errors import BernoulliSetFitError
from mixle.stats.contract import DistributionSampler
from mixle.stats.domains import fraction, labels_of, mapping_of, nonnegative
from mixle.stats.leaf import LeafDistribution, LeafEstimator, Rows
from mixle.stats.refusals import shown
from mixle.stats.set_rows import SetLeaf, SetTables, label_order, listed_sets, read_label_sets
from mixle.stats.sums import block_sum

__all__ = ["BernoulliSetDistribution", "BernoulliSetEstimator", "BernoulliSetSampler", "SetCounts"]

#: The probability of a label that is always there is at most this where `min_prob` is above 0.
ALMOST_ONE = math.nextafter(1.0, 0.0)


class SetCounts(NamedTuple):
    """Weight of the sets that hold each label, and of all sets.

    Attributes
    ----------
    labels : tuple
        Labels, sorted.
    counts : ndarray, shape (L,)
        Weight of the sets that hold each.
    total : float
        Weight of all sets.
    """

    labels: tuple[Any, ...]
    counts: np.ndarray
    total: float

    def scaled(self, c: float) -> SetCounts:
        """Return the counts times `c`."""
        return SetCounts(self.labels, self.counts * c, self.total * c)


def _sorted(counts: Mapping[Any, float], total: float) -> SetCounts:
    labels = tuple(sorted(counts, key=label_order))
    return SetCounts(labels, np.array([float(counts[label]) for label in labels]), float(total))


def _kept(labels: tuple[Any, ...], counts: np.ndarray, weights: np.ndarray) -> SetCounts:
    """Return the counts of the labels that have weight."""
    keep = np.flatnonzero(counts > 0.0)
    return SetCounts(tuple(labels[i] for i in keep.tolist()), counts[keep], block_sum(weights))


class _BernoulliSet(SetLeaf):
    name: ClassVar[str] = "BernoulliSet"

    def __init__(self, support: tuple[Any, ...] | None = None) -> None:
        self.known = support

    def encode(self, rows: Sequence[Any]) -> Rows:
        read = read_label_sets(rows, self.name)
        if self.known is None:
            return read
        known = frozenset(self.known)
        foreign = [label not in known for label in read.labels or ()]
        if not any(foreign):
            return read
        hit = np.array(foreign)[read.x.codes]
        return read._replace(outside=np.bincount(read.x.owners(), hit, len(read.x)) > 0.0)

    def support(self) -> str:
        return "the sets of its support's labels"

    def places(self, dist: Any, labels: tuple[Any, ...] | None) -> np.ndarray:
        index = {label: i for i, label in enumerate(dist.pmap)}
        return np.array([index.get(label, len(index)) for label in labels or ()], np.int64)

    def accumulate(self, rows: Rows, weights: np.ndarray, dist: Any) -> SetCounts:
        labels = rows.labels or ()
        return _kept(labels, np.bincount(rows.x.codes, weights[rows.x.owners()], len(labels)), weights)

    def accumulate_all(self, rows: Rows, weights: np.ndarray, dists: Sequence[Any]) -> list[SetCounts] | None:
        labels = rows.labels or ()
        if len(labels) > len(rows.x.codes):
            return None
        counts = rows.x.counts(weights, len(labels))
        return [_kept(labels, own, given) for own, given in zip(counts, weights, strict=True)]

    def merge(self, a: SetCounts, b: SetCounts) -> SetCounts:
        if a.labels == b.labels:
            return SetCounts(a.labels, a.counts + b.counts, a.total + b.total)
        counts = dict(zip(a.labels, a.counts.tolist(), strict=True))
        for label, count in zip(b.labels, b.counts.tolist(), strict=True):
            counts[label] = counts.get(label, 0.0) + count
        return _sorted(counts, a.total + b.total)

    def zero(self) -> SetCounts:
        return SetCounts((), np.zeros(0), 0.0)

    def to_value(self, stat: SetCounts) -> tuple[dict[Any, float], float]:
        return dict(zip(stat.labels, stat.counts.tolist(), strict=True)), stat.total

    def from_value(self, value: Any) -> SetCounts:
        if isinstance(value, SetCounts):
            return value
        counts, total = value
        return _sorted(counts, total)


class BernoulliSetDistribution(LeafDistribution):
    """Distribution of a set S of labels, ``Π_{l in S} p(l) Π_{l not in S} (1 − p(l))``.

    A row is a set, or a list without repetitions, of hashable labels; a set with a label that is not listed has
    density 0.

    Parameters
    ----------
    pmap : dict
        Probability of each label to be in the set.
    min_prob : float
        A density takes probabilities to be at least this, and at most ``1 − max(min_prob, 2⁻⁵³)``, so that a label
        that was never or always seen does not exclude a set. With 0 they count as they are.
    name, keys
        Label and tying key.
    prob_map : dict, optional
        Another name of `pmap`.
    prior : BetaDistribution, optional
        Prior of each probability, which is carried along.
    posteriors : dict, optional
        Both parameters of the posterior of each label's probability after a fit with a prior.

    References
    ----------
    A. K. Jain, R. C. Dubes, "Algorithms for Clustering Data", 1988: mixtures of it cluster binary data.

    Examples
    --------
    >>> d = BernoulliSetDistribution({"tea": 0.5, "milk": 0.25})
    >>> d.density({"tea"}), d.density([]), d.density(["rum"])
    (0.375, 0.375, 0.0)
    """

    leaf = _BernoulliSet()
    _fields = ("pmap",)
    _keyword_fields = ("min_prob", "name", "keys", "prior", "posteriors")
    _extras: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        pmap: Mapping[Any, float] | None = None,
        min_prob: float = 1e-128,
        name: str | None = None,
        keys: Any = None,
        prob_map: Mapping[Any, float] | None = None,
        prior: Any = None,
        posteriors: Mapping[Any, tuple[float, float]] | None = None,
    ) -> None:
        given = pmap if prob_map is None else prob_map
        if not isinstance(given, Mapping) or (pmap is not None and prob_map is not None):
            raise ValueError("a BernoulliSet needs pmap: a mapping of labels to probabilities, given once")
        self.pmap = {label: fraction(p, f"the probability of {shown(label)}") for label, p in given.items()}
        self.min_prob = fraction(min_prob, "min_prob")
        if self.min_prob > 0.5:
            raise ValueError(f"min_prob must be at most 0.5, is {shown(min_prob)}")
        self.posteriors = None if posteriors is None else {k: (float(a), float(b)) for k, (a, b) in posteriors.items()}
        self.set_prior(prior)
        p = np.array(list(self.pmap.values()), float)
        if self.min_prob > 0.0:
            p = np.clip(p, self.min_prob, min(1.0 - self.min_prob, ALMOST_ONE))
        with np.errstate(divide="ignore"):
            self.log_p, self.log_n = np.log(p), np.log1p(-p)
        self.tables = SetTables.of(self.log_p, self.log_n)
        self._finish(name, keys)

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return the sets as lists, the most probable first."""
        return listed_sets(list(self.pmap), self.log_p, self.log_n)

    def sampler(self, seed: int | None = None) -> BernoulliSetSampler:
        """Return a sampler."""
        return BernoulliSetSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> BernoulliSetEstimator:
        """Return the estimator; `pseudo_count` weighs these probabilities as a prior."""
        prior = None if pseudo_count is None else self.pmap
        return BernoulliSetEstimator(self.min_prob, pseudo_count, prior, self.name, self.keys)


class BernoulliSetSampler(DistributionSampler):
    """Sampler of a `BernoulliSetDistribution`."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a list of labels, or a list of `size` such lists."""
        labels, p = list(self.dist.pmap), np.array(list(self.dist.pmap.values()), float)
        rows = [
            [labels[i] for i in np.flatnonzero(self.rng.random_sample(len(p)) < p).tolist()]
            for _ in range(1 if size is None else size)
        ]
        return rows[0] if size is None else rows


class BernoulliSetEstimator(LeafEstimator):
    """Estimator of a `BernoulliSetDistribution`.

    Parameters
    ----------
    min_prob : float
        Passed on to the distribution.
    pseudo_count : float, optional
        Weight of the prior, in rows.
    suff_stat : dict, optional
        Prior probability of each label, 0 for others; by default it is one half for all. It is used only with
        `pseudo_count`.
    name, keys
        Label and tying key.
    prior : BetaDistribution, optional
        Law of each probability: the fit is then the likeliest one and carries the posteriors.
    support : sequence, optional
        All labels there may be, seen or not; a fit refuses others. By default the labels that were seen.

    Raises
    ------
    BernoulliSetFitError
        (a ValueError) on `estimate` without rows and prior.

    Notes
    -----
    The probability of a label is the share of the sets that hold it.

    Examples
    --------
    >>> BernoulliSetEstimator().estimate(None, ({"milk": 1.0, "tea": 3.0}, 4.0)).pmap
    {'milk': 0.25, 'tea': 0.75}
    """

    _keyword_fields = ("min_prob", "pseudo_count", "suff_stat", "name", "keys", "prior", "support")

    def __init__(
        self,
        min_prob: float = 1e-128,
        pseudo_count: float | None = None,
        suff_stat: Mapping[Any, float] | None = None,
        name: str | None = None,
        keys: Any = None,
        prior: Any = None,
        support: Iterable[Any] | None = None,
    ) -> None:
        self.min_prob = fraction(min_prob, "min_prob")
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.suff_stat = None
        if suff_stat is not None:
            given = mapping_of(suff_stat, "suff_stat")
            self.suff_stat = {label: fraction(p, "suff_stat") for label, p in given.items()}
        self.support = None if support is None else labels_of(support, "support")
        self.leaf = _BernoulliSet(self.support)
        self.name, self.keys = name, keys
        self._take_prior(prior, pseudo_count is not None)

    def estimate(self, nobs: float | None, suff_stat: Any) -> BernoulliSetDistribution:
        """Return the fitted distribution; `nobs` is not needed, the statistic knows its weight."""
        return self._estimate(self.leaf.from_value(suff_stat))

    def own_log_density(self, model: Any) -> float:
        """Return the log-density of the probabilities of `model` under the prior; 0 without one."""
        if self.prior is None:
            return 0.0
        from mixle.stats.parameter_laws import dirichlet_log_density

        pair = [self.prior.a, self.prior.b]
        return math.fsum(dirichlet_log_density(pair, [p, 1.0 - p]) for p in model.pmap.values())

    def _estimate(self, stat: SetCounts) -> BernoulliSetDistribution:
        counts, total = self.leaf.to_value(stat)
        more = 0.0 if self.prior is None else self.prior.a + self.prior.b - 2.0
        weight = self.pseudo_count or 0.0
        if not total + more + weight > 0.0:
            raise BernoulliSetFitError(
                "a law of sets has no probabilities without rows; pass pseudo_count and suff_stat"
            )
        every = dict.fromkeys(self.support or (), 0.0) | counts
        if weight and self.suff_stat is not None:
            every = dict.fromkeys([*every, *self.suff_stat], 0.0) | every
        shares = {}
        for label in every if self.support is not None else sorted(every, key=label_order):
            count = every[label]
            if self.prior is not None:
                count += self.prior.a - 1.0
            elif weight:
                count += weight * (0.5 if self.suff_stat is None else self.suff_stat.get(label, 0.0))
            shares[label] = min(count / (total + more + weight), 1.0)
        posteriors = None
        if self.prior is not None:
            a, b = self.prior.a, self.prior.b
            posteriors = {label: (a + every[label], b + total - every[label]) for label in shares}
        return BernoulliSetDistribution(
            shares, self.min_prob, self.name, self.keys, prior=self.prior, posteriors=posteriors
        )
