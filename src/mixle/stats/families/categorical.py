"""The law of a label out of a finite set."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.stats.contract import DistributionSampler
from mixle.stats.domains import mapping_of, nonnegative, probabilities, truth
from mixle.stats.enumeration import ranked, refuse
from mixle.stats.given import needed
from mixle.stats.kinds import CodeCounts, CodeLeaf, log_or_floor
from mixle.stats.label_table import LabelTable, held
from mixle.stats.leaf import LeafDistribution, LeafEstimator, Rows
from mixle.stats.reading import read_labels
from mixle.stats.sums import exact_sum

__all__ = ["CategoricalDistribution", "CategoricalEstimator", "CategoricalSampler"]


class _Categorical(CodeLeaf):
    name: ClassVar[str] = "Categorical"

    def encode(self, rows: Sequence[Any]) -> Rows:
        codes, labels = read_labels(rows, self.name)
        return Rows(codes, labels=labels)

    def log_table(self, dist: Any, labels: tuple[Any, ...]) -> np.ndarray:
        return np.asarray(self.log_tables((dist,), labels)[0])

    def log_tables(self, dists: Sequence[Any], labels: tuple[Any, ...]) -> np.ndarray:
        defaults = [dist.default_value for dist in dists]
        weights = [_weights(held(dist), labels, default) for dist, default in zip(dists, defaults, strict=True)]
        table = log_or_floor(np.array(weights, float).reshape(len(defaults), len(labels)))
        return table - np.array([[math.log1p(default)] for default in defaults]) if any(defaults) else table

    def model_labels(self, dist: Any) -> tuple[Any, ...]:
        kept = held(dist)
        return kept.labels if isinstance(kept, LabelTable) else tuple(kept)

    def handed(self, stat: CodeCounts) -> CodeCounts:
        return stat

    def to_value(self, stat: CodeCounts) -> dict[Any, float]:
        return dict(zip(stat.labels, stat.counts.tolist(), strict=True))

    def from_value(self, value: Any) -> CodeCounts:
        if isinstance(value, CodeCounts):
            return value
        return CodeCounts(tuple(value), np.array(list(value.values()), float))


def _weights(kept: Any, labels: tuple[Any, ...], default: float) -> Any:
    """Return the weight of each label under probabilities that are kept in either way."""
    if isinstance(kept, LabelTable):
        return kept.at(labels, default)
    if len(kept) == len(labels) and tuple(kept) == labels:
        return list(kept.values())
    return [kept.get(label, default) for label in labels]


class CategoricalDistribution(LeafDistribution):
    """Distribution over labels, ``pmap[x] / (1 + default_value)``.

    Parameters
    ----------
    pmap : dict
        Probability of each label; the sum may be off one by 1e-6 and is scaled.
    default_value : float
        Weight ≥ 0 of each label that is not listed; the whole is divided by ``1 + default_value``.
    name, keys
        Label and tying key.
    prob_map : dict, optional
        Another name of `pmap`.
    prior : conjugate law, optional
        Law of the parameters; the estimator of this distribution fits under it.

    References
    ----------
    C. M. Bishop, "Pattern Recognition and Machine Learning", section 2.2, 2006.

    Examples
    --------
    >>> CategoricalDistribution({"a": 0.25, "b": 0.75}).density("b")
    0.75
    """

    leaf = _Categorical()
    _fields = ("pmap",)
    _keyword_fields = ("default_value", "name", "keys")

    def __init__(
        self,
        pmap: Mapping[Any, float] | None = None,
        default_value: float = 0.0,
        name: str | None = None,
        keys: Any = None,
        prob_map: Mapping[Any, float] | None = None,
        prior: Any = None,
    ) -> None:
        pmap = mapping_of(needed("Categorical", pmap=pmap, prob_map=prob_map), "pmap of a Categorical", "probabilities")
        values = list(pmap.values())
        self.default_value = nonnegative(default_value, "default_value of a Categorical")
        self.pmap = (
            dict(zip(pmap, probabilities(values, "pmap of a Categorical").tolist(), strict=True)) if values else {}
        )
        self._finish(name, keys, prior)

    @classmethod
    def of_table(cls, table: LabelTable, default: float, estimator: Any) -> CategoricalDistribution:
        """Return the law of probabilities that are known to be such: a long table is not checked again."""
        model = cls({}, default, estimator.name, estimator.keys)
        model.__dict__["pmap"] = table
        return model

    @property
    def pmap(self) -> dict[Any, float]:
        """Probability of each label; a fit keeps them in arrays until they are asked for."""
        kept = held(self)
        if isinstance(kept, LabelTable):
            kept = self.__dict__["pmap"] = kept.mapping()
        return kept

    @pmap.setter
    def pmap(self, value: dict[Any, float]) -> None:
        self.__dict__["pmap"] = value

    def _argument(self, name: str) -> Any:
        kept = self.__dict__.get(name)
        return kept.mapping() if isinstance(kept, LabelTable) else super()._argument(name)

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return the labels, the most probable first."""
        if self.default_value > 0.0:
            raise refuse(self, "with a default_value every other label has a probability, too")
        return ranked((label, self.log_density(label)) for label in self.pmap)

    def sampler(self, seed: int | None = None) -> CategoricalSampler:
        """Return a sampler of the listed labels."""
        return CategoricalSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> CategoricalEstimator:
        """Return the estimator; `pseudo_count` weighs these probabilities as a prior, unless it has one."""
        pseudo_count = self._weight(pseudo_count)
        prior = None if pseudo_count is None else dict(self.pmap)
        return self._under_prior(
            CategoricalEstimator(pseudo_count, prior, self.default_value > 0.0, self.name, self.keys)
        )


class CategoricalSampler(DistributionSampler):
    """Sampler of a `CategoricalDistribution`."""

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a label, or a list of `size` labels."""
        table = LabelTable.of(held(self.dist))
        labels, p = table.labels, table.numbers
        if not labels:
            raise ValueError("a Categorical without labels cannot be sampled; fit it to rows first")
        codes = self.rng.choice(len(labels), size=1 if size is None else size, p=p / p.sum())
        drawn = [labels[code] for code in codes]
        return drawn[0] if size is None else drawn


class CategoricalEstimator(LeafEstimator):
    """Estimator of a `CategoricalDistribution`.

    Parameters
    ----------
    pseudo_count : float, optional
        Alone: weight spread evenly over the labels seen. With `suff_stat`: weight of that prior. With `suff_stat`
        alone it is 1.
    suff_stat : dict, optional
        Prior weight of each label.
    default_value : bool
        Store ``(1 / total)²`` as the weight of labels not seen.
    name, keys
        Label and tying key.
    prior : conjugate law, optional
        `DictDirichletDistribution` or `SymmetricDirichletDistribution` of the probabilities;
        the likeliest law is fitted, with the posterior as its prior.

    Examples
    --------
    >>> CategoricalEstimator().estimate(None, {"a": 1.0, "b": 3.0}).pmap
    {'a': 0.25, 'b': 0.75}
    """

    leaf = _Categorical()
    _keyword_fields = ("pseudo_count", "suff_stat", "default_value", "name", "keys", "prior")

    def __init__(
        self,
        pseudo_count: float | None = None,
        suff_stat: Mapping[Any, float] | None = None,
        default_value: bool = False,
        name: str | None = None,
        keys: Any = None,
        prior: Any = None,
    ) -> None:
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.suff_stat = None
        if suff_stat is not None:
            self.suff_stat = {k: nonnegative(v, "suff_stat") for k, v in mapping_of(suff_stat, "suff_stat").items()}
        self.default_value = truth(default_value, "default_value")
        self.name, self.keys = name, keys
        self._take_prior(prior, pseudo_count is not None or suff_stat is not None)

    def _estimate(self, stat: CodeCounts) -> CategoricalDistribution:
        total = exact_sum(stat.counts)
        default = (1.0 / total) ** 2 if self.default_value and total > 0.0 else 0.0
        if self.suff_stat is None and not self.pseudo_count and total > 0.0 and np.min(stat.counts) >= 0.0:
            return CategoricalDistribution.of_table(LabelTable(stat.labels, stat.counts / total), default, self)
        labels, weights = stat.labels, stat.counts
        if self.suff_stat is not None:
            strength = 1.0 if self.pseudo_count is None else self.pseudo_count
            labels = tuple(dict.fromkeys((*labels, *self.suff_stat)))
            prior = np.array([self.suff_stat.get(label, 0.0) for label in labels], float)
            weights = np.append(weights, np.zeros(len(labels) - len(weights))) + strength * prior
        elif self.pseudo_count and labels:
            weights = weights + self.pseudo_count / len(labels)
        total = exact_sum(weights)
        p = weights / total if total > 0.0 else np.full(len(labels), 1.0 / max(1, len(labels)))
        if labels:
            p = probabilities(p, "pmap of a Categorical")
        return CategoricalDistribution.of_table(LabelTable(labels, p), default, self)
