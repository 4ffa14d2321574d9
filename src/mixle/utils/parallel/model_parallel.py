"""A model split over threads along its component axis, with the bits of the unsplit one.

The parts are the fixed tiles of the stacked core (16 components each, the last one 9 to 24), or single components
where a family brings its own accumulator; every thread sees the same rows. It pays where a model has many components
and there are fewer rows, or shards, than processors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixle.stats.contract import (
    ParameterEstimator,
    SequenceEncodableStatisticAccumulator,
    StatisticAccumulatorFactory,
)
from mixle.stats.stacking.lanes import lanes
from mixle.utils.parallel.folding.handle import Handle
from mixle.utils.parallel.folding.inputs import check_count, check_rows, check_weights, choose_encoder, make_source
from mixle.utils.parallel.folding.shards import Contiguous
from mixle.utils.parallel.planning.discover import usable_cpus
from mixle.utils.parallel.transports.local import LocalTransport

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mixle.utils.parallel.folding.tasks import Result, Task

__all__ = [
    "ComponentParallelAccumulator",
    "ComponentParallelAccumulatorFactory",
    "ComponentParallelEncodedData",
    "ComponentParallelEstimator",
    "ModelParallelAccumulator",
    "ModelParallelAccumulatorFactory",
    "ModelParallelEncodedData",
    "ModelParallelEstimator",
    "component_parallel_fold",
    "model_parallel_fold",
]


def _threads(num_workers: Any) -> int:
    return check_count(num_workers, "num_workers", optional=True) or usable_cpus()


def model_parallel_fold(acc: Any, model: Any, enc: Any, weights: Any, num_workers: int | None = None) -> None:
    """Add encoded rows to an accumulator, the components of `model` split over threads.

    Parameters
    ----------
    acc : accumulator
        What the rows are added to.
    model : distribution
        The current model.
    enc : payload
        Encoded rows.
    weights : ndarray, shape (n,)
        Row weights.
    num_workers : int, optional
        Number of threads; one per usable processor by default.

    Examples
    --------
    >>> import numpy as np
    >>> from mixle.stats import MixtureDistribution, PoissonDistribution
    >>> model = MixtureDistribution([PoissonDistribution(1.0), PoissonDistribution(9.0)])
    >>> accumulator = model.estimator().accumulator_factory().make()
    >>> rows = accumulator.acc_to_encoder().seq_encode([0, 1, 8])
    >>> model_parallel_fold(accumulator, model, rows, np.ones(3), num_workers=2)
    >>> float(accumulator.value().counts.sum())
    3.0
    """
    with lanes(_threads(num_workers)):
        acc.seq_update(enc, weights, model)


class ModelParallelAccumulator(SequenceEncodableStatisticAccumulator):
    """An accumulator whose component axes are walked on threads; everything else is the inner accumulator's.

    Parameters
    ----------
    inner : accumulator
        What is wrapped.
    num_workers : int, optional
        Number of threads.
    """

    def __init__(self, inner: Any, num_workers: int | None = None) -> None:
        self.inner, self.num_workers = inner, _threads(num_workers)
        for name in ("seq_update_scored", "start"):  # what the loop asks for: there if the inner one has it
            found = getattr(inner, name, None)
            if found is not None:
                setattr(self, name, _InLanes(found, self.num_workers))

    def seq_update(self, x: Any, weights: Any, estimate: Any) -> None:
        """Add encoded rows under the model `estimate`."""
        with lanes(self.num_workers):
            self.inner.seq_update(x, weights, estimate)

    def seq_initialize(self, x: Any, weights: Any, rng: Any) -> None:
        """Add encoded rows before there is a model."""
        with lanes(self.num_workers):
            self.inner.seq_initialize(x, weights, rng)

    def combine(self, suff_stat: Any) -> ModelParallelAccumulator:
        """Add another statistic."""
        self.inner.combine(suff_stat)
        return self

    def value(self) -> Any:
        """Return the inner accumulator's statistic."""
        return self.inner.value()

    def from_value(self, x: Any) -> ModelParallelAccumulator:
        """Replace the statistic."""
        self.inner.from_value(x)
        return self

    def key_merge(self, stats_dict: dict[Any, Any]) -> None:
        """Pool keyed statistics."""
        self.inner.key_merge(stats_dict)

    def key_replace(self, stats_dict: dict[Any, Any]) -> None:
        """Take pooled statistics."""
        self.inner.key_replace(stats_dict)

    def acc_to_encoder(self) -> Any:
        """Return the inner accumulator's encoder."""
        return self.inner.acc_to_encoder()


class _InLanes:
    """A method that is called with lanes."""

    def __init__(self, method: Any, count: int) -> None:
        self.method, self.count = method, count

    def __call__(self, *args: Any) -> Any:
        with lanes(self.count):
            return self.method(*args)


class ModelParallelAccumulatorFactory(StatisticAccumulatorFactory):
    """Factory of `ModelParallelAccumulator`."""

    def __init__(self, inner_factory: Any, num_workers: int | None = None) -> None:
        self.inner_factory, self.num_workers = inner_factory, num_workers

    def make(self) -> ModelParallelAccumulator:
        """Return a fresh accumulator."""
        return ModelParallelAccumulator(self.inner_factory.make(), self.num_workers)


class ModelParallelEstimator(ParameterEstimator):
    """An estimator whose E-step walks component axes on threads; fits have the bits of the inner one's.

    Parameters
    ----------
    inner : ParameterEstimator
        What is wrapped.
    num_workers : int, optional
        Number of threads; one per usable processor by default.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator, MixtureEstimator
    >>> estimator = ModelParallelEstimator(MixtureEstimator([GaussianEstimator()] * 2), num_workers=2)
    >>> estimator.num_start_components()
    2
    """

    _fields = ("inner",)
    _keyword_fields = ("num_workers",)
    execution_kind = "component_parallel_threads"

    def __init__(self, inner: Any, num_workers: int | None = None) -> None:
        if not hasattr(inner, "accumulator_factory"):
            raise TypeError(f"ModelParallelEstimator wraps an estimator, not {inner!r}")
        check_count(num_workers, "num_workers", optional=True)
        self.inner, self.num_workers = inner, num_workers

    def accumulator_factory(self) -> ModelParallelAccumulatorFactory:
        """Return the factory of wrapped accumulators."""
        return ModelParallelAccumulatorFactory(self.inner.accumulator_factory(), self.num_workers)

    def estimate(self, nobs: float | None, suff_stat: Any) -> Any:
        """Return the inner estimator's model."""
        return self.inner.estimate(nobs, suff_stat)

    def get_prior(self) -> Any:
        """Return the inner estimator's prior."""
        return self.inner.get_prior()

    def model_log_density(self, model: Any) -> float:
        """Return the log-density of the model's parameters under the inner estimator's prior."""
        return float(self.inner.model_log_density(model))

    def __getattr__(self, name: str) -> Any:
        inner = self.__dict__.get("inner")
        if inner is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__} has no {name}")
        return getattr(inner, name)


class _LaneTransport(LocalTransport):
    """One shard after another in this process, component axes on threads."""

    name = "model_parallel"

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def map(self, task: Task) -> Iterator[Result]:
        """Run `task` on every shard."""
        with lanes(self.count):
            results = list(super().map(task))
        yield from results

    def run(self, task: Task, shard: int, worker: int | None = None) -> Result:
        """Run `task` on one shard."""
        with lanes(self.count):
            return super().run(task, shard, worker)


class ModelParallelEncodedData(Handle):
    """Encoded rows in this process whose E-step splits the components of the model over threads.

    Parameters
    ----------
    data : sequence or ndarray
        Rows; they are one shard.
    estimator, model, encoder : optional
        One of them is needed.
    num_workers : int, optional
        Number of threads; one per usable processor by default.
    sub_chunks : int
        Encoded pieces of the shard.
    weights : array_like, shape (n,), optional
        Row weights.

    Raises
    ------
    TypeError
        For data that are no sequence of rows.
    ValueError
        For empty data or wrong weights.

    Examples
    --------
    >>> from mixle.stats import PoissonEstimator
    >>> handle = ModelParallelEncodedData([1, 2, 3], PoissonEstimator(), num_workers=2)
    >>> handle.pysp_seq_estimate(PoissonEstimator(), None).lam
    2.0
    """

    execution_kind = "component_parallel_threads"

    def __init__(
        self,
        data: Sequence[Any],
        estimator: Any | None = None,
        model: Any | None = None,
        encoder: Any | None = None,
        num_workers: int | None = None,
        sub_chunks: int = 1,
        *,
        weights: Any = None,
    ) -> None:
        title = type(self).__name__
        rows = check_rows(data, title)
        encoder = choose_encoder(title, estimator, model, encoder)
        pieces = check_count(sub_chunks, "sub_chunks") or 1
        self.num_workers = _threads(num_workers)
        source = make_source(rows, encoder, Contiguous(1), pieces, check_weights(weights, len(rows)), estimator)
        super().__init__(_LaneTransport(self.num_workers), source)


component_parallel_fold = model_parallel_fold
ComponentParallelAccumulator = ModelParallelAccumulator
ComponentParallelAccumulatorFactory = ModelParallelAccumulatorFactory
ComponentParallelEstimator = ModelParallelEstimator
ComponentParallelEncodedData = ModelParallelEncodedData
