"""Along which axis a model is best divided, and which device owns which units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from mixle.stats.decomposition import DecompAxis, ReductionOp
from mixle.utils.parallel.planning.costs import compute_cost, decomposition_of, roles_of, shard_children
from mixle.utils.parallel.planning.devices import check_resources, exact_int
from mixle.utils.parallel.planning.partition import partition

if TYPE_CHECKING:
    from mixle.utils.parallel.planning.devices import DeviceSpec, Resources

__all__ = [
    "AxisCandidate",
    "ModelCut",
    "ModelDecomposition",
    "best_parallel_axis",
    "cut_axis",
    "decompose_model",
    "tree_axes",
]


@dataclass(frozen=True)
class AxisCandidate:
    """An axis that a model can be divided along.

    Attributes
    ----------
    path : str
        Where it is: "/" for the root, else roles joined by "/".
    axis, reduction : DecompAxis, ReductionOp
        What the units are and how their results come together.
    num_units : int
        Number of units.
    unit_works : tuple of float
        Work of one row in each unit.
    unit_bytes : tuple of int
        Bytes of each unit.
    """

    path: str
    axis: DecompAxis
    reduction: ReductionOp
    num_units: int
    unit_works: tuple[float, ...]
    unit_bytes: tuple[int, ...] = ()

    @property
    def total_work(self) -> float:
        """Return the work of all units."""
        return sum(self.unit_works)


def tree_axes(model: Any) -> list[AxisCandidate]:
    """Return every axis of the tree with two units or more, from the root downwards.

    Examples
    --------
    >>> from mixle.stats import CompositeDistribution, GaussianDistribution, MixtureDistribution
    >>> g = GaussianDistribution(0.0, 1.0)
    >>> [axis.path for axis in tree_axes(CompositeDistribution((g, MixtureDistribution([g, g]))))]
    ['/', 'factor_1']
    """
    return list(_axes(model, ""))


def _axes(model: Any, path: str) -> Iterator[AxisCandidate]:
    dc = decomposition_of(model)
    units = shard_children(model, dc)
    if len(units) >= 2:
        costs = [compute_cost(unit) for unit in units]
        works, sizes = tuple(cost[0] for cost in costs), tuple(cost[1] for cost in costs)
        yield AxisCandidate(path or "/", dc.axis, dc.reduction, len(units), works, sizes)
    for role, child in roles_of(model, dc):
        yield from _axes(child, f"{path}/{role}" if path else role)


def best_parallel_axis(
    model: Any, max_workers: int | None = None, *, allowed_axes: frozenset[DecompAxis] | None = None
) -> AxisCandidate | None:
    """Return the axis that saves most work when up to `max_workers` share it, None without one.

    Saved is the total work of the units less that of the busiest worker, who has at least the largest unit and at least
    the mean. The axis nearest to the root wins among equals.

    Parameters
    ----------
    model : distribution
        Root of the tree.
    max_workers : int, optional
        Number of workers; by default one per unit.
    allowed_axes : frozenset of DecompAxis, optional
        Axes to consider; all by default.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution, MixtureDistribution
    >>> best_parallel_axis(MixtureDistribution([GaussianDistribution(0.0, 1.0)] * 4), 2).num_units
    4
    """
    most = exact_int(max_workers, "max_workers", 1, optional=True)
    found = [axis for axis in tree_axes(model) if allowed_axes is None or axis.axis in allowed_axes]

    def saved(axis: AxisCandidate) -> float:
        workers = axis.num_units if most is None else min(most, axis.num_units)
        return axis.total_work - max(*axis.unit_works, axis.total_work / workers)

    return max(found, key=saved, default=None)


@dataclass(frozen=True)
class ModelCut:
    """A range of units that one device owns.

    Attributes
    ----------
    device : DeviceSpec
        The owner.
    start, stop : int
        Range of units.
    reduction : ReductionOp
        How its result joins the others'.
    """

    device: DeviceSpec
    start: int
    stop: int
    reduction: ReductionOp


@dataclass(frozen=True)
class ModelDecomposition:
    """How a model is divided over devices, or that it is not.

    Attributes
    ----------
    axis, reduction : DecompAxis, ReductionOp
        ``NONE`` and ``REPLICATE`` if every device is to hold the whole model.
    num_units : int
        Units of the best axis.
    cuts : tuple of ModelCut
        One per device that owns units.
    rationale : str
        Why.
    extra : dict
        ``path`` of the axis and its ``total_work``.
    """

    axis: DecompAxis
    reduction: ReductionOp
    num_units: int
    cuts: tuple[ModelCut, ...]
    rationale: str
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def is_model_parallel(self) -> bool:
        """Return whether the model is divided."""
        return len(self.cuts) > 1


def cut_axis(axis: AxisCandidate, devices: tuple[DeviceSpec, ...]) -> tuple[ModelCut, ...]:
    """Return the optimal consecutive ranges of an axis' units, one per device, empty ones left out."""
    edges = partition(axis.unit_works, [device.throughput for device in devices])
    return tuple(
        ModelCut(device, start, stop, axis.reduction)
        for device, (start, stop) in zip(devices, pairwise(edges), strict=True)
        if stop > start
    )


def decompose_model(
    model: Any,
    resources: Resources,
    *,
    n_data: int | None = None,
    min_components_per_shard: int = 1,
    prefer_data_parallel: bool = True,
    allowed_axes: frozenset[DecompAxis] | None = None,
) -> ModelDecomposition:
    """Return how a model is best divided over devices.

    Data parallelism wins where the model fits each device, there are fewer units than twice the devices, and the rows
    (if their number is known) are at least eight per device. Otherwise the units of the best axis are cut into
    consecutive ranges such that the slowest device is as fast as can be.

    Parameters
    ----------
    model, resources
        Root of the tree; devices with speeds and memory.
    n_data : int, optional
        Number of rows.
    min_components_per_shard : int
        No range is planned to hold fewer units on average.
    prefer_data_parallel : bool
        Whether data parallelism may win.
    allowed_axes : frozenset of DecompAxis, optional
        Axes to consider.

    Returns
    -------
    ModelDecomposition

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution, MixtureDistribution
    >>> from mixle.utils.parallel.planner import Resources
    >>> mixture = MixtureDistribution([GaussianDistribution(0.0, 1.0)] * 8)
    >>> [(cut.start, cut.stop) for cut in decompose_model(mixture, Resources.local(4)).cuts]
    [(0, 2), (2, 4), (4, 6), (6, 8)]
    """
    least = exact_int(min_components_per_shard, "min_components_per_shard", 1) or 1
    rows = exact_int(n_data, "n_data", 1, optional=True)
    devices = check_resources(resources).devices
    axis = best_parallel_axis(model, len(devices), allowed_axes=allowed_axes)
    if axis is None or len(devices) < 2:
        why = "no worthwhile shardable axis or single device -> replicate model, data-parallel"
        return ModelDecomposition(DecompAxis.NONE, ReductionOp.REPLICATE, axis.num_units if axis else 1, (), why)
    size = compute_cost(model)[1]
    fits = all(device.memory_bytes is None or size <= device.memory_bytes for device in devices)
    enough = rows is None or rows >= 8 * len(devices)
    if prefer_data_parallel and fits and axis.num_units < 2 * len(devices) and enough:
        why = "model fits replicated and N dominates -> data-parallel preferred over model-parallel"
        return ModelDecomposition(DecompAxis.NONE, ReductionOp.REPLICATE, axis.num_units, (), why)
    cuts = cut_axis(axis, devices[: max(1, axis.num_units // least)])
    where = "" if axis.path == "/" else f" at {axis.path}"
    why = f"model-parallel along {axis.axis.value}{where}: {axis.num_units} units over {len(cuts)} device(s)"
    facts = {"path": axis.path, "total_work": axis.total_work}
    return ModelDecomposition(axis.axis, axis.reduction, axis.num_units, cuts, why, facts)
