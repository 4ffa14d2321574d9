"""Prediction beside measurement: what a round was expected to take, in its receipts; and the catalog learns."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from mixle.utils.parallel.folding.tasks import Accumulate
from mixle.utils.parallel.policies.base import Policy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mixle.utils.parallel.folding.tasks import Result, Task
    from mixle.utils.parallel.planning.catalog import CalibrationCatalog
    from mixle.utils.parallel.planning.pace import Costs

__all__ = ["Predict"]


class Predict(Policy):
    """Write into the receipts of every E-step what it was expected to take.

    Each result's receipt gets ``predicted_seconds`` (unless a `Rebalance` inside, which has seen the workers, has
    written it), and each record of the round their sum beside the seconds that were measured. When the
    pool is closed the catalog gets the costs again, at the pace that was seen.

    Parameters
    ----------
    costs : Costs
        From `measure_costs`, or `known_costs` of a catalog.
    sub_chunks : int
        Encoded pieces per shard.
    catalog : CalibrationCatalog, optional
        Learns when the pool is closed.
    catalog_path : path, optional
        File of a catalog that learns too.

    Attributes
    ----------
    ratios : list of float
        Measured over predicted processor seconds of each E-step so far.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator
    >>> from mixle.utils.parallel.planner import Costs, Overhead, Pace, encoded_data
    >>> costs = Costs(Pace(1e-6, 0.0, 1e-3, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), {"local": Overhead()})
    >>> with encoded_data([1.0, 2.0], GaussianEstimator(), policies=[Predict(costs)]) as handle:
    ...     _ = handle.pysp_seq_estimate(GaussianEstimator(), None)
    ...     print(round(handle.records[0].extra["predicted_seconds"], 6))
    0.001002
    """

    order: ClassVar[int] = 4

    def __init__(
        self,
        costs: Costs,
        sub_chunks: int = 1,
        *,
        catalog: CalibrationCatalog | None = None,
        catalog_path: Any | None = None,
    ) -> None:
        if isinstance(sub_chunks, bool) or not hasattr(type(sub_chunks), "__index__") or sub_chunks < 1:
            raise ValueError(f"sub_chunks must be an integer of at least 1, not {sub_chunks!r}")
        self.costs, self.sub_chunks = costs, int(sub_chunks)
        self.catalog, self.catalog_path = catalog, catalog_path

    def bind(self) -> None:
        """Start with a clean record."""
        self.ratios: list[float] = []
        self._model = ""

    def map(self, task: Task) -> Iterator[Result]:
        """Run `task` on every shard; what an E-step takes is compared with what was expected."""
        return self._compared(task) if isinstance(task, Accumulate) else self.inner.map(task)

    def _compared(self, task: Accumulate) -> Iterator[Result]:
        self._model = type(task.model).__name__
        predicted = measured = 0.0
        for result in self.inner.map(task):
            expected = self.costs.pace.task(result.rows, self.sub_chunks)
            if result.error is None:
                predicted += expected
                measured += float(result.receipt.get("cpu_seconds", 0.0))
            yield replace(result, receipt={"predicted_seconds": expected, **result.receipt})
        if predicted > 0.0 and measured > 0.0:
            self.ratios.append(measured / predicted)

    def close(self) -> None:
        """Close the transport, and let the catalog learn; further calls do nothing."""
        self.inner.close()
        ratios, self.ratios = self.ratios, []
        if ratios and (self.catalog is not None or self.catalog_path is not None):
            self._teach(ratios)

    def _teach(self, ratios: list[float]) -> None:
        from mixle.utils.parallel.planning.catalog import keep

        seen = self.costs._replace(pace=self.costs.pace.scaled(statistics.median(ratios)))
        record = seen.record(self._model, sum(self.sizes.values()), len(ratios))
        keep(record, self.catalog, self.catalog_path)
