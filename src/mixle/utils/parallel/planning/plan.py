"""How many rows each device gets, from estimated bytes and advisory throughput."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from mixle.utils.parallel.folding.shards import pick
from mixle.utils.parallel.planning.devices import DeviceSpec, Resources, exact_int
from mixle.utils.parallel.planning.memory import estimate_estimator_stat_nbytes, estimate_model_nbytes, payload_nbytes
from mixle.utils.parallel.planning.partition import share
from mixle.utils.parallel.planning.placement import Placement, PlacementShard
from mixle.utils.parallel.planning.precision import dtype_bytes

__all__ = ["plan"]


@dataclass(frozen=True)
class _Costs:
    """Estimated bytes, before and after the safety factor."""

    encoded_row: float
    transient_row: float
    model: int
    statistic: int
    safety: float

    @property
    def fixed(self) -> int:
        return math.ceil((self.model + self.statistic) * self.safety)

    def encoded(self, rows: int) -> int:
        return math.ceil(rows * self.encoded_row * self.safety)

    def transient(self, rows: int) -> int:
        return math.ceil(rows * self.transient_row * self.safety + self.fixed)

    def most_rows(self, memory: int | None, rows: int) -> int:
        """Return the largest piece of at most `rows` rows that `memory` holds, at least one row."""
        if memory is None:
            return max(1, rows)
        per_row = max(1.0, (self.encoded_row + self.transient_row) * self.safety)
        return max(1, int((memory - self.fixed) / per_row))


def plan(
    data: Sequence[Any] | None = None,
    model: Any | None = None,
    estimator: Any | None = None,
    encoder: Any | None = None,
    resources: Resources | None = None,
    engine: Any | None = None,
    precision: Any | None = None,
    num_chunks: int | None = None,
    sub_chunks: int = 1,
    sample_size: int = 256,
    safety_factor: float = 1.25,
) -> Placement:
    """Return an advisory placement for local or distributed orchestration.

    Rows are split into consecutive ranges, by throughput, or into `num_chunks` nearly equal ranges that devices take
    in proportion to their throughput. A range that a device cannot hold at once is cut into equal pieces.

    Parameters
    ----------
    data : sequence, optional
        Rows; the first `sample_size` of them are encoded to estimate bytes per row.
    model, estimator, encoder : optional
        One of them is needed with `data`, to encode. Model and statistic bytes are estimated from the first two.
    resources : Resources, optional
        Devices; one CPU by default.
    engine : optional
        Compute engine to note on every device; "numpy" is what this library runs.
    precision : str, optional
        Sets the bytes of one number: 8, 4 or 2.
    num_chunks : int, optional
        Number of ranges.
    sub_chunks : int
        Encoded pieces per range.
    sample_size : int
        Rows that are encoded for the estimate.
    safety_factor : float
        Factor on every estimate of bytes.

    Returns
    -------
    Placement
        Its `fits` and `reason` say whether known memory sizes suffice.

    Raises
    ------
    ValueError
        For `sub_chunks` or `safety_factor` that are not positive, without both `data` and `num_chunks`, or for data
        that nothing can encode.

    Examples
    --------
    >>> class Numbers:
    ...     def seq_encode(self, rows):
    ...         return [float(x) for x in rows]
    >>> two = Resources.local(2)
    >>> placement = plan([1.0, 2.0, 3.0], encoder=Numbers(), resources=two, num_chunks=2)
    >>> [(shard.device.name, shard.start, shard.stop) for shard in placement.shards]
    [('cpu:0', 0, 1), ('cpu:1', 1, 3)]
    """
    _check(data, sub_chunks, safety_factor, num_chunks)
    resources = Resources.single_cpu() if resources is None else resources
    rows = 0 if data is None else len(data)
    width = dtype_bytes(precision if precision is not None else resources.devices[0].precision)
    model_bytes = 0 if model is None else estimate_model_nbytes(model)
    costs = _Costs(
        _encoded_row_bytes(data, model, estimator, encoder, sample_size),
        float(_axis(model, estimator) * width * 3),
        model_bytes,
        model_bytes if estimator is None else _statistic_bytes(estimator),
        float(safety_factor),
    )
    pieces = _pieces(resources if engine is None else _with_engine(resources, engine), rows, num_chunks)
    shards = [
        PlacementShard(device, start, stop, int(sub_chunks), costs.encoded(stop - start), costs.transient(stop - start))
        for device, part in pieces
        for start, stop in _cut(part, costs.most_rows(device.memory_bytes, len(part)))
    ]
    return Placement(
        tuple(shards), rows, costs.encoded_row, costs.transient_row, costs.model, costs.statistic, width, resources
    )


def _with_engine(resources: Resources, engine: Any) -> Resources:
    """Return `resources` with every device at the named engine."""
    name = engine if isinstance(engine, str) else str(getattr(engine, "name", type(engine).__name__))
    return Resources(tuple(replace(device, engine=name) for device in resources.devices))


def _check(data: Any, sub_chunks: int, safety_factor: float, num_chunks: int | None) -> None:
    if isinstance(sub_chunks, bool) or int(sub_chunks) <= 0:
        raise ValueError("sub_chunks must be positive.")
    if not safety_factor > 0:
        raise ValueError("safety_factor must be positive.")
    exact_int(num_chunks, "num_chunks", 1, optional=True)
    if data is None and num_chunks is None:
        raise ValueError("plan needs data, or num_chunks")


def _encoded_row_bytes(data: Any, model: Any, estimator: Any, encoder: Any, sample_size: int) -> float:
    if data is None or not len(data):
        return 0.0
    if encoder is None and model is not None:
        encoder = model.dist_to_encoder()
    if encoder is None and estimator is not None:
        encoder = estimator.accumulator_factory().make().acc_to_encoder()
    if encoder is None:
        raise ValueError("plan of data requires an encoder, model, or estimator.")
    rows = min(max(1, int(sample_size)), len(data))
    payload = encoder.seq_encode(pick(data, range(rows)))
    measure = getattr(encoder, "nbytes", payload_nbytes)
    return max(1.0, float(measure(payload)) / rows)


def _axis(model: Any, estimator: Any) -> int:
    """Return how many components or states the work of one row touches."""
    sizes = [1]
    for source in (model, estimator):
        for name in ("num_components", "num_states"):
            size = getattr(source, name, None)
            if isinstance(size, int) and not isinstance(size, bool):
                sizes.append(size)
    return max(sizes)


def _statistic_bytes(estimator: Any) -> int:
    return estimate_estimator_stat_nbytes(estimator) if hasattr(estimator, "accumulator_factory") else 0


def _pieces(resources: Resources, rows: int, num_chunks: int | None) -> list[tuple[DeviceSpec, range]]:
    devices = resources.devices
    if rows == 0:
        return [(resources.fastest(), range(0))]
    weights = [device.throughput for device in devices]
    if num_chunks is None:
        counts = share(weights, rows)
        edges = [sum(counts[:i]) for i in range(len(counts) + 1)]
        parts = [range(edges[i], edges[i + 1]) for i in range(len(counts))]
        return [(device, part) for device, part in zip(devices, parts, strict=True) if len(part)]
    count = min(num_chunks, rows)
    owners = [device for device, n in zip(devices, share(weights, count), strict=True) for _ in range(n)]
    return [(owner, range(i * rows // count, (i + 1) * rows // count)) for i, owner in enumerate(owners)]


def _cut(part: range, most: int) -> list[tuple[int, int]]:
    size = len(part)
    count = max(1, math.ceil(size / most))
    edges = [part.start + i * size // count for i in range(count + 1)]
    return list(pairwise(edges))
