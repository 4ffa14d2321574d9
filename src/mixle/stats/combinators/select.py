"""Rows that tell which of several laws they follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mixle.errors import NonGenerativeSelectError, RowError
from mixle.stats.combinators.dispatch import TypeDispatch
from mixle.stats.combinators.fields import plain_list, read_parts
from mixle.stats.combinators.routing import (
    RoutedAccumulator,
    RoutedEncoder,
    RoutedEstimator,
    RoutedFactory,
    RoutedRows,
    code_type,
    scatter,
)
from mixle.stats.contract import (
    DataSequenceEncoder,
    DistributionSampler,
    SequenceEncodableProbabilityDistribution,
)
from mixle.stats.domains import nonnegative, probabilities
from mixle.stats.enumeration import moved, refuse, united
from mixle.stats.given import estimators_given, laws_given
from mixle.stats.refusals import refuse_statistic, shown
from mixle.stats.sums import signed_suff_stat

__all__ = [
    "SelectAccumulator",
    "SelectDistribution",
    "SelectEncoder",
    "SelectEstimator",
    "SelectSampler",
    "SelectStatistics",
]


class SelectStatistics(NamedTuple):
    """Statistic of a `SelectEstimator`: for each branch the weight of its rows and its law's statistic."""

    schema_version: int
    branches: tuple[tuple[float, Any], ...]

    def scaled(self, c: float) -> SelectStatistics:
        """Return the statistic of weights times `c`."""
        return SelectStatistics(
            self.schema_version, tuple((nobs * c, signed_suff_stat(value, c)) for nobs, value in self.branches)
        )


class SelectEncoder(RoutedEncoder):
    """Encoder that asks the choice function for the branch of each row."""

    def __init__(self, encoders: Sequence[DataSequenceEncoder], choice_function: Callable[[Any], int]) -> None:
        super().__init__(encoders)
        self.choice_function = choice_function

    def seq_encode(self, rows: Sequence[Any]) -> RoutedRows:
        """Encode rows.

        Raises
        ------
        RowError
            Naming the first row that no branch is chosen for, or that its branch cannot read.
        """
        values = list(rows)
        count = len(self.inner)
        codes = np.empty(len(values), code_type(count))
        for i, value in enumerate(values):
            try:
                chosen = self.choice_function(value)
            except Exception as error:
                reason = f"the choice function raises {type(error).__name__} for {shown(value)}; mend it: {error}"
                raise RowError(reason, "Select", i) from error
            if not (isinstance(chosen, (int, np.integer)) and 0 <= chosen < count):
                raise RowError(
                    f"the choice function gives {shown(chosen)} for {shown(value)}; "
                    f"it must give 0, ..., or {count - 1}",
                    "Select",
                    i,
                )
            codes[i] = chosen
        parts = read_parts([(partial(self.branch, values, codes, k), ()) for k in range(count)])
        return RoutedRows(codes, tuple(parts))


class SelectAccumulator(RoutedAccumulator):
    """Accumulator of a `SelectEstimator`."""

    name: ClassVar[str] = "Select"

    def __init__(self, accumulators: Sequence[Any], choice_function: Callable[[Any], int], keys: Any = None) -> None:
        super().__init__(accumulators, keys)
        self.choice_function = choice_function

    def models(self, estimate: Any) -> tuple[Any, ...]:
        """Return the law of each branch of a model."""
        return tuple(estimate.dists)

    def pack(self, values: tuple[Any, ...]) -> SelectStatistics:
        """Return the statistic."""
        return SelectStatistics(1, tuple(zip(self.nobs, values, strict=True)))

    def unpack(self, value: Any) -> tuple[tuple[Any, ...], tuple[float, ...]]:
        """Return (statistics, weights) of the branches."""
        return split_statistic(value, len(self.accumulators))

    def acc_to_encoder(self) -> SelectEncoder:
        """Return the encoder."""
        return SelectEncoder([a.acc_to_encoder() for a in self.accumulators], self.choice_function)


def split_statistic(value: Any, count: int) -> tuple[tuple[Any, ...], tuple[float, ...]]:
    """Return (statistics, weights) of the branches.

    Raises
    ------
    ValueError
        If `value` has another number of branches.
    """
    _, branches = value
    if len(branches) != count:
        refuse_statistic(len(branches), count, "branches")
    return tuple(part[1] for part in branches), tuple(float(part[0]) for part in branches)


class SelectDistribution(SequenceEncodableProbabilityDistribution):
    """Law whose rows tell which of several laws they follow: ``p(x) = w_c · p_c(x)`` with ``c = choice_function(x)``.

    Parameters
    ----------
    dists : sequence of distributions
        The laws.
    choice_function : callable
        Gives the position of a row's law. A model with a function of your own is written to a file, or its digest
        taken, only after `mixle.stats.register_function`; a `TypeDispatch` needs no registration.
    weights : array_like, shape (K,), optional
        Probability of each law, each being the law of rows that the choice function sends to it. Without weights the
        density is that of the chosen law alone, and cannot be sampled.
    name, keys
        Label and tying key of the whole.

    References
    ----------
    G. McLachlan, D. Peel, "Finite Mixture Models", 2000: the likelihood of rows whose component is known.

    Examples
    --------
    >>> from mixle.stats import CategoricalDistribution, GaussianDistribution
    >>> words, numbers = CategoricalDistribution({"none": 1.0}), GaussianDistribution(0.0, 1.0)
    >>> d = SelectDistribution.by_type([(str, words), ("number", numbers)], weights=[0.25, 0.75])
    >>> d.density("none"), round(d.log_density(1.0), 9)
    (0.25, -1.706620606)
    """

    _fields = ("dists", "choice_function")
    _keyword_fields = ("weights", "name", "keys")

    def __init__(
        self,
        dists: Sequence[Any],
        choice_function: Callable[[Any], int],
        weights: Any = None,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        self.dists = laws_given(dists, "Select")
        self.choice_function = checked_choice(choice_function)
        self.weights = None if weights is None else probabilities(weights, "weights of a Select")
        if self.weights is not None and len(self.weights) != len(self.dists):
            raise ValueError(f"a Select of {len(self.dists)} laws needs as many weights, not {len(self.weights)}")
        self.name, self.keys = name, keys

    @classmethod
    def by_type(cls, children: Sequence[tuple[Any, Any]], weights: Any = "auto") -> SelectDistribution:
        """Return a law that sends rows to laws by their type.

        Parameters
        ----------
        children : sequence of (type, distribution)
            Types as `TypeDispatch` takes them; the first that fits is taken.
        weights : array_like or None
            As for the class; even by default.
        """
        dists = [dist for _, dist in children]
        even = isinstance(weights, str) and weights == "auto"
        choose = TypeDispatch([spec for spec, _ in children])
        return cls(dists, choose, [1.0 / len(dists)] * len(dists) if even else weights)

    def dist_to_encoder(self) -> SelectEncoder:
        """Return the encoder."""
        return SelectEncoder([dist.dist_to_encoder() for dist in self.dists], self.choice_function)

    def seq_log_density(self, x: RoutedRows) -> np.ndarray:
        """Return the log-densities, shape (n,)."""
        result = scatter(self.dists, x)
        if self.weights is not None:
            with np.errstate(divide="ignore"):
                result += np.log(self.weights)[x.codes]
        return result

    def outcomes(self) -> Iterator[tuple[Any, float]]:
        """Return what the laws can show of what is sent to them, the most probable first; it needs weights."""
        if self.weights is None:
            raise refuse(self, "without weights nothing is said of how often a law is chosen")
        with np.errstate(divide="ignore"):
            shifts = np.log(self.weights).tolist()
        pairs = enumerate(zip(self.dists, shifts, strict=True))
        return united([moved(dist.outcomes(), shift, partial(self._chosen, k)) for k, (dist, shift) in pairs])

    def _chosen(self, k: int, value: Any) -> bool:
        return self.choice_function(value) == k

    def sampler(self, seed: int | None = None) -> SelectSampler:
        """Return a sampler; it needs weights."""
        return SelectSampler(self, seed)

    def estimator(self, pseudo_count: float | None = None) -> SelectEstimator:
        """Return the estimator; `pseudo_count` weighs this distribution's parameters as a prior."""
        prior = None if pseudo_count is None else self.weights
        return SelectEstimator(
            [dist.estimator(pseudo_count) for dist in self.dists],
            self.choice_function,
            self.weights is not None,
            pseudo_count,
            prior,
            self.name,
            self.keys,
        )

    def free_parameters(self) -> int:
        """Return the number of free parameters of the laws and the weights."""
        from mixle.stats.counting import free_parameters

        free = 0 if self.weights is None else len(self.weights) - 1
        return free + sum(map(free_parameters, self.dists))


def checked_choice(function: Any) -> Callable[[Any], int]:
    """Return a choice function.

    Raises
    ------
    TypeError
        If it cannot be called.
    """
    if not callable(function):
        raise TypeError(f"choice_function must give the branch of a row, {type(function).__name__} is no function")
    return function  # type: ignore[no-any-return]  # callable is all that is known


class SelectSampler(DistributionSampler):
    """Sampler of a `SelectDistribution`.

    Raises
    ------
    NonGenerativeSelectError
        On `sample` without weights.
    """

    def __init__(self, dist: SelectDistribution, seed: int | None = None) -> None:
        super().__init__(dist, seed)
        self.children = [child.sampler(self.new_seed()) for child in dist.dists]

    def sample(self, size: int | None = None, *, batched: bool = True) -> Any:
        """Return a value, or a list of `size` values."""
        if self.dist.weights is None:
            raise NonGenerativeSelectError("a Select without weights cannot be sampled; pass weights=")
        chosen = self.rng.choice(len(self.children), p=self.dist.weights, size=1 if size is None else size)
        drawn: list[Any] = [None] * len(chosen)
        for k, child in enumerate(self.children):
            where = np.flatnonzero(chosen == k).tolist()
            for i, value in zip(where, plain_list(child.sample(len(where))) if where else [], strict=True):
                drawn[i] = value
        return drawn[0] if size is None else drawn


class SelectEstimator(RoutedEstimator):
    """Estimator of a `SelectDistribution`: each law is fitted to the rows that are sent to it.

    Parameters
    ----------
    estimators : sequence of estimators
        Estimator of each law.
    choice_function : callable
        Gives the position of a row's law.
    estimate_weights : bool
        Estimate the weights: the shares of the rows.
    pseudo_count : float, optional
        Weight of prior weights.
    suff_stat : array_like, shape (K,), optional
        The prior weights; even by default.
    name, keys
        Label and tying key of what is fitted.

    Examples
    --------
    >>> from mixle.inference import optimize
    >>> from mixle.stats import GaussianEstimator, PoissonEstimator
    >>> estimator = SelectEstimator([PoissonEstimator(), GaussianEstimator()], TypeDispatch([int, float]), True)
    >>> model = optimize([2, 4, 1.5, 9], estimator, out=None)
    >>> model.weights.tolist(), model.dists[0].lam
    ([0.75, 0.25], 5.0)
    """

    _fields = ("estimators", "choice_function")
    _keyword_fields = ("estimate_weights", "pseudo_count", "suff_stat", "name", "keys")
    _laws: ClassVar[tuple[str, ...]] = ("dists",)

    def __init__(
        self,
        estimators: Sequence[Any],
        choice_function: Callable[[Any], int],
        estimate_weights: bool = False,
        pseudo_count: float | None = None,
        suff_stat: Any = None,
        name: str | None = None,
        keys: Any = None,
    ) -> None:
        self.estimators = estimators_given(estimators, "Select")
        self.choice_function = checked_choice(choice_function)
        self.estimate_weights = bool(estimate_weights)
        self.pseudo_count = None if pseudo_count is None else nonnegative(pseudo_count, "pseudo_count")
        self.suff_stat = None if suff_stat is None else probabilities(suff_stat, "suff_stat")
        self.name, self.keys = name, keys

    def parts(self) -> tuple[tuple[str, Any], ...]:
        """Return (name, estimator) of each branch."""
        return tuple((f"branch {k}", part) for k, part in enumerate(self.estimators))

    def laws(self, model: SelectDistribution) -> tuple[Any, ...]:
        """Return the law of each branch of a model."""
        return tuple(model.dists)

    def split(self, suff_stat: Any) -> tuple[tuple[Any, ...], tuple[float, ...]]:
        """Return (statistics, weights) of the branches."""
        return split_statistic(suff_stat, len(self.estimators))

    def build(self, laws: list[Any], suff_stat: Any) -> SelectDistribution:
        """Return the model of these laws."""
        weights = None
        if self.estimate_weights:
            count = len(self.estimators)
            prior = np.full(count, 1.0 / count) if self.suff_stat is None else self.suff_stat
            shares = np.array(self.split(suff_stat)[1]) + (self.pseudo_count or 0.0) * prior
            total = float(np.add.reduce(shares))
            weights = shares / total if total > 0.0 else prior
        return SelectDistribution(laws, self.choice_function, weights, self.name, self.keys)

    def accumulator_factory(self) -> RoutedFactory:
        """Return the factory."""
        return RoutedFactory(SelectAccumulator, self.estimators, self.choice_function, self.keys)
