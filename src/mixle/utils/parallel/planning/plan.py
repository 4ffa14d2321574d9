"""How many rows each device gets, from estimated bytes and advisory throughput."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from mixle.stats.refusals import shown
from mixle.utils.parallel.folding.encoders import check_instance, encoder_of_model
from mixle.utils.parallel.folding.shards import pick
from mixle.utils.parallel.planning.catalog import CalibrationCatalog, measured_resources
from mixle.utils.parallel.planning.devices import DeviceSpec, Resources, check_resources, exact_int
from mixle.utils.parallel.planning.memory import estimate_estimator_stat_nbytes, estimate_model_nbytes, payload_nbytes
from mixle.utils.parallel.planning.partition import share
from mixle.utils.parallel.planning.placement import PIECES, Placement, PlacementShard
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

    def capacity(self, memory: int | None, rows: int) -> int:
        """Return how many rows `memory` holds if they are worked on in many pieces."""
        if memory is None:
            return rows
        per_row = max(1.0, (self.encoded_row + self.transient_row / PIECES) * self.safety)
        return max(0, min(rows, int((memory - self.fixed - PIECES) / per_row)))

    def cuts(self, memory: int | None, rows: int, held: int) -> int:
        """Return into how many pieces `rows` rows are cut on a device that holds `held` rows in all."""
        count = max(1, math.ceil(rows / self.most_rows(memory, rows)))
        if memory is None:
            return count
        free = memory - self.fixed - self.encoded(held) - 1
        piece = int(free / max(1.0, self.transient_row * self.safety))
        return max(count, math.ceil(rows / piece)) if piece >= 1 else count


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
    *,
    total_rows: int | None = None,
    encoded_row_bytes: float | None = None,
    catalog: CalibrationCatalog | None = None,
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
    total_rows : int, optional
        Number of rows to plan for without `data`, or more than `data`, which is then a sample.
    encoded_row_bytes : float, optional
        Bytes of an encoded row, where they are known.
    catalog : CalibrationCatalog, optional
        Gives speeds where it has a record of this model type and these devices on this kind of host.

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
    rows = _check(data, sub_chunks, safety_factor, num_chunks, total_rows)
    resources = Resources.single_cpu() if resources is None else check_resources(resources)
    if catalog is not None and model is not None:
        resources = measured_resources(resources, catalog, type(model).__name__)
    width = dtype_bytes(precision if precision is not None else resources.devices[0].precision)
    model_bytes = 0 if model is None else estimate_model_nbytes(model)
    costs = _Costs(
        _encoded_row_bytes(data, model, estimator, encoder, sample_size, encoded_row_bytes),
        float(_axis(model, estimator) * width * 3),
        model_bytes,
        model_bytes if estimator is None else _statistic_bytes(estimator),
        float(safety_factor),
    )
    pieces = _pieces(resources if engine is None else _with_engine(resources, engine), rows, num_chunks, costs)
    held: dict[str, int] = {}
    for device, part in pieces:
        held[device.name] = held.get(device.name, 0) + len(part)
    shards = [
        PlacementShard(device, start, stop, int(sub_chunks), costs.encoded(stop - start), costs.transient(stop - start))
        for device, part in pieces
        for start, stop in _cut(part, costs.cuts(device.memory_bytes, len(part), held[device.name]))
    ]
    sizes = (costs.encoded_row, costs.transient_row, costs.model, costs.statistic)
    return Placement(tuple(shards), rows, *sizes, width, resources, costs.safety)


def _with_engine(resources: Resources, engine: Any) -> Resources:
    """Return `resources` with every device at the named engine."""
    name = engine if isinstance(engine, str) else str(getattr(engine, "name", type(engine).__name__))
    return Resources(tuple(replace(device, engine=name) for device in resources.devices))


def _check(data: Any, sub_chunks: int, safety_factor: float, num_chunks: int | None, total_rows: int | None) -> int:
    """Return the number of rows to plan for."""
    if isinstance(sub_chunks, bool) or (hasattr(type(sub_chunks), "__index__") and sub_chunks <= 0):
        raise ValueError("sub_chunks must be positive.")
    exact_int(sub_chunks, "sub_chunks", 1)
    if isinstance(safety_factor, bool) or not isinstance(safety_factor, numbers.Real):
        raise TypeError(f"safety_factor must be a number above 0, not {safety_factor!r:.80}")
    if not 0 < float(safety_factor) < math.inf:
        raise ValueError("safety_factor must be positive.")
    exact_int(num_chunks, "num_chunks", 1, optional=True)
    total = exact_int(total_rows, "total_rows", 0, optional=True)
    if data is None and num_chunks is None and total is None:
        raise ValueError("plan needs data, or num_chunks, or total_rows")
    if total is not None and total >= 2**62:
        raise ValueError(f"total_rows={total} are more rows than can be counted; pass fewer")
    if data is not None and not hasattr(data, "__len__"):
        raise TypeError(f"data is {shown(data)}, which has no length; pass a list of rows, or total_rows=")
    if total is not None and data is not None and total < len(data):
        raise ValueError(f"total_rows={total} is less than the {len(data)} rows of the data; leave it out")
    return (0 if data is None else len(data)) if total is None else total


def _encoded_row_bytes(
    data: Any, model: Any, estimator: Any, encoder: Any, sample_size: int, known: float | None
) -> float:
    if known is not None:
        if isinstance(known, bool) or not 0.0 <= float(known) < math.inf:
            raise ValueError(f"encoded_row_bytes must be a finite number of at least 0, not {known!r}")
        return float(known)
    if data is None or not len(data):
        return 0.0
    if encoder is None and model is not None:
        encoder = encoder_of_model("plan", model)
    if encoder is None and estimator is not None:
        check_instance("plan", "estimator", estimator, "accumulator_factory", "GaussianEstimator()")
        encoder = estimator.accumulator_factory().make().acc_to_encoder()
    if encoder is None:
        raise ValueError("plan of data requires an encoder, model, or estimator. Pass one of them")
    check_instance("plan", "encoder", encoder, "seq_encode", "model.dist_to_encoder()")
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


def _pieces(resources: Resources, rows: int, num_chunks: int | None, costs: _Costs) -> list[tuple[DeviceSpec, range]]:
    devices = resources.devices
    if rows == 0:
        return [(resources.fastest(), range(0))]
    weights = [device.throughput for device in devices]
    if num_chunks is None:
        counts = share(weights, rows, most=[costs.capacity(device.memory_bytes, rows) for device in devices])
        edges = [0, *accumulate(counts)]
        parts = [range(start, stop) for start, stop in pairwise(edges)]
        return [(device, part) for device, part in zip(devices, parts, strict=True) if len(part)]
    count = min(num_chunks, rows)
    owners = [device for device, n in zip(devices, share(weights, count), strict=True) for _ in range(n)]
    return [(owner, range(i * rows // count, (i + 1) * rows // count)) for i, owner in enumerate(owners)]


def _cut(part: range, count: int) -> list[tuple[int, int]]:
    size = len(part)
    count = max(1, min(count, size))
    edges = [part.start + i * size // count for i in range(count + 1)]
    return list(pairwise(edges))
