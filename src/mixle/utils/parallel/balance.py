"""A static grid of workers before a fit starts: rows over some, the model's parts over others, within memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mixle.stats.decomposition import DecompAxis
from mixle.utils.parallel.planning.axes import AxisCandidate, ModelCut, best_parallel_axis, cut_axis
from mixle.utils.parallel.planning.catalog import measured_resources
from mixle.utils.parallel.planning.costs import compute_cost
from mixle.utils.parallel.planning.devices import DeviceSpec, Resources

if TYPE_CHECKING:
    from mixle.utils.parallel.planning.catalog import CalibrationCatalog

__all__ = ["BalancePlan", "auto_balanced_estimator", "balance_plan"]


@dataclass(frozen=True)
class BalancePlan:
    """A grid of ``data_parallel`` × ``model_parallel`` workers.

    Attributes
    ----------
    data_parallel, model_parallel : int
        Replicas that share the rows, and parts that the model of each is divided into.
    workers_used, workers_total : int
        Workers of the grid, and devices there are.
    axis : DecompAxis
        What the parts are; ``NONE`` for a whole model.
    model_cuts : tuple of ModelCut
        Which device owns which units; empty for a whole model.
    model_flops : float
        Work of one row under the whole model.
    model_bytes : int
        Bytes of the whole model.
    per_worker_flops : float
        Work of the busiest worker.
    fits : bool or None
        Whether known memory suffices; None if a worker's memory is not known.
    rationale : str
        Why.
    extra : dict
        ``max_units, m_mem, best_axis, rows_per_data_replica, per_cut_flops, per_cut_bytes, fit_status``, and ``remedy``
        where the model does not fit.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution, MixtureDistribution
    >>> from mixle.utils.parallel.balance import balance_plan
    >>> from mixle.utils.parallel.planner import Resources
    >>> mixture = MixtureDistribution([GaussianDistribution(float(k), 1.0) for k in range(8)])
    >>> balance_plan(mixture, Resources.local(4), n_data=1).model_parallel
    4
    """

    data_parallel: int
    model_parallel: int
    workers_used: int
    workers_total: int
    axis: DecompAxis
    model_cuts: tuple[ModelCut, ...]
    model_flops: float
    model_bytes: int
    per_worker_flops: float
    fits: bool | None
    rationale: str
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def is_model_parallel(self) -> bool:
        """Return whether the model is divided."""
        return self.model_parallel > 1

    @property
    def workers_idle(self) -> int:
        """Return the number of devices that the grid leaves out."""
        return self.workers_total - self.workers_used


@dataclass(frozen=True)
class _Problem:
    """What is to be balanced."""

    devices: tuple[DeviceSpec, ...]
    axis: AxisCandidate | None
    work: float
    size: int
    rows: int


@dataclass(frozen=True)
class _Grid:
    """One way to divide it: `m` parts, `d` replicas."""

    m: int
    d: int
    cuts: tuple[ModelCut, ...]
    works: tuple[float, ...]
    sizes: tuple[int, ...]
    fits: bool | None


def balance_plan(
    model: Any,
    resources: Resources,
    *,
    n_data: int,
    throughputs: Mapping[Any, float] | Sequence[float] | None = None,
    catalog: CalibrationCatalog | None = None,
) -> BalancePlan:
    """Return how many workers should share the rows, and how many the model.

    Rows come first: every worker holds the whole model while it fits and there are rows for all of them. The model is
    divided along its best axis where memory demands it, or where rows are too few. The units are cut into consecutive
    ranges such that the slowest device is as fast as can be.

    Parameters
    ----------
    model : distribution
        Root of the tree.
    resources : Resources
        Devices with speeds and memory.
    n_data : int
        Number of rows, at least 1.
    throughputs : mapping or sequence of float, optional
        Measured speeds: by device name, by rank (what `plan_rebalance_weights` returns), or in device order.
    catalog : CalibrationCatalog, optional
        Gives speeds where it has a record of this model type and these devices.

    Returns
    -------
    BalancePlan

    Raises
    ------
    ValueError
        For `n_data` that is no positive integer, or throughputs that name no device.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution, MixtureDistribution
    >>> mixture = MixtureDistribution([GaussianDistribution(float(k), 1.0) for k in range(8)])
    >>> plan = balance_plan(mixture, Resources.local(4), n_data=1000)
    >>> plan.data_parallel, plan.model_parallel, plan.workers_idle
    (4, 1, 0)
    >>> plan = balance_plan(mixture, Resources.local(4), n_data=2)
    >>> [(cut.start, cut.stop) for cut in plan.model_cuts], plan.data_parallel
    ([(0, 4), (4, 8)], 2)
    """
    if isinstance(n_data, bool) or not hasattr(type(n_data), "__index__") or int(n_data) < 1:
        raise ValueError(f"n_data must be an exact positive integer, not {n_data!r}.")
    if catalog is not None:
        resources = measured_resources(resources, catalog, type(model).__name__)
    devices = _sped(resources, throughputs).devices
    work, size = compute_cost(model)
    axis = best_parallel_axis(model, len(devices))
    problem = _Problem(devices, axis, work, size, int(n_data))
    most = 1 if axis is None else axis.num_units
    known = [device.memory_bytes for device in devices if device.memory_bytes is not None]
    needed = math.ceil(size / min(known)) if known and size > min(known) else 1
    high = max(1, min(most, len(devices)))
    grids = [_grid(problem, m) for m in range(max(1, min(needed, high)), high + 1)]
    best = max(grids, key=lambda grid: (grid.fits is not False, grid.m * grid.d, -grid.m))
    facts: dict[str, Any] = {
        "max_units": most,
        "m_mem": needed,
        "best_axis": None if axis is None else axis.path,
        "rows_per_data_replica": math.ceil(problem.rows / best.d),
        "per_cut_flops": best.works,
        "per_cut_bytes": best.sizes,
        "fit_status": {True: "fits", False: "does_not_fit", None: "unknown"}[best.fits],
    }
    if best.fits is False:
        facts["remedy"] = _remedy(best, devices)
    return BalancePlan(
        best.d,
        best.m,
        best.d * best.m,
        len(devices),
        DecompAxis.NONE if axis is None or best.m == 1 else axis.axis,
        best.cuts,
        work,
        size,
        float(math.ceil(problem.rows / best.d) * max(best.works)),
        best.fits,
        _rationale(problem, best, needed, most),
        facts,
    )


def _sped(resources: Resources, throughputs: Mapping[Any, float] | Sequence[float] | None) -> Resources:
    """Return the devices at measured speeds."""
    if throughputs is None:
        return resources
    devices = resources.devices
    if not isinstance(throughputs, Mapping):
        if len(throughputs) != len(devices):
            raise ValueError(f"throughputs has {len(throughputs)} speeds for {len(devices)} devices; give one for each")
        throughputs = dict(enumerate(throughputs))
    keys = {device.name: i for i, device in enumerate(devices)} | {i: i for i in range(len(devices))}
    strangers = [key for key in throughputs if key not in keys]
    if strangers:
        names = ", ".join(device.name for device in devices)
        raise ValueError(
            f"throughputs names {strangers[0]!r}, which is no device; name {names}, or a rank below {len(devices)}"
        )
    speeds = {keys[key]: float(speed) for key, speed in throughputs.items()}
    missing = [device.name for i, device in enumerate(devices) if i not in speeds]
    if missing:
        raise ValueError(f"throughputs has no speed for {', '.join(missing)}: give one for each device")
    return Resources(tuple(replace(device, throughput=speeds[i]) for i, device in enumerate(devices)))


def _grid(problem: _Problem, m: int) -> _Grid:
    """Return the grid whose model has `m` parts."""
    axis, devices = problem.axis, problem.devices
    d = max(1, min(problem.rows, len(devices) // m))
    if m == 1 or axis is None:
        whole = _fits([(problem.size, device) for device in devices[:d]])
        return _Grid(1, d, (), (problem.work,), (problem.size,), whole)
    cuts = cut_axis(axis, devices[:m])
    rest, kept = max(0.0, problem.work - axis.total_work), max(0, problem.size - sum(axis.unit_bytes))
    works = tuple(rest + sum(axis.unit_works[cut.start : cut.stop]) for cut in cuts)
    sizes = tuple(kept + sum(axis.unit_bytes[cut.start : cut.stop]) for cut in cuts)
    held = [(size, devices[(i + r * m) % len(devices)]) for r in range(d) for i, size in enumerate(sizes)]
    return _Grid(m, d, cuts, works, sizes, _fits(held))


def _fits(held: list[tuple[int, DeviceSpec]]) -> bool | None:
    """Return whether each device holds its part; None if one's memory is not known and no other is too small."""
    if any(device.memory_bytes is not None and size > device.memory_bytes for size, device in held):
        return False
    return None if any(device.memory_bytes is None for _, device in held) else True


def _remedy(grid: _Grid, devices: tuple[DeviceSpec, ...]) -> str:
    known = [device.memory_bytes for device in devices if device.memory_bytes is not None]
    return f"give each device memory_bytes={max(grid.sizes)} (the smallest has {min(known)}), or a smaller model"


def _rationale(problem: _Problem, grid: _Grid, needed: int, most: int) -> str:
    total, rows = len(problem.devices), problem.rows
    used = grid.d * grid.m
    if grid.m == 1 and used == total:
        text = f"data-parallel: model fits and N={rows} fills {used}/{total} workers (no model-axis coupling)"
    elif grid.m == 1:
        text = (
            f"single-worker ({used}/{total} used): N={rows} too small to data-parallel and the model exposes no "
            "splittable axis (atomic). Model-parallelism needs a structured decomposition."
        )
    elif grid.d == 1:
        why = "the model is too large for one" if needed > 1 else f"N={rows} too small to data-parallel"
        text = f"model-parallel x{grid.m}: {why}, split the model across {grid.m} workers"
    else:
        text = (
            f"data x model grid {grid.d}x{grid.m}={used}/{total}: model split {grid.m}-way (memory/concurrency), "
            f"data {grid.d}-way"
        )
    if grid.fits is False:
        text += f"  [WARNING: model needs {max(needed, grid.m)} shards for memory but axis offers only {most}]"
    if grid.fits is None:
        text += "  [MEMORY FIT UNKNOWN: at least one assigned device has no memory evidence]"
    return text


def auto_balanced_estimator(
    estimator: Any,
    model: Any,
    resources: Resources | None = None,
    *,
    n_data: int,
    throughputs: Mapping[Any, float] | Sequence[float] | None = None,
    catalog: CalibrationCatalog | None = None,
) -> tuple[Any, BalancePlan]:
    """Return an estimator that works as `balance_plan` plans, and the plan.

    Parameters
    ----------
    estimator : ParameterEstimator
        The estimator of the fit.
    model : distribution
        What is planned for.
    resources : Resources, optional
        Devices; the usable processors of this machine by default.
    n_data : int
        Number of rows.
    throughputs, catalog : optional
        As for `balance_plan`.

    Returns
    -------
    (ParameterEstimator, BalancePlan)
        `estimator` itself, or where the model is divided a `ModelParallelEstimator` around it. Fits have the same bits.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution, MixtureDistribution
    >>> mixture = MixtureDistribution([GaussianDistribution(float(k), 1.0) for k in range(8)])
    >>> estimator, plan = auto_balanced_estimator(mixture.estimator(), mixture, Resources.local(4), n_data=1)
    >>> type(estimator).__name__, estimator.num_workers
    ('ModelParallelEstimator', 4)
    """
    from mixle.utils.parallel.model_parallel import ModelParallelEstimator

    resources = Resources.local() if resources is None else resources
    plan = balance_plan(model, resources, n_data=n_data, throughputs=throughputs, catalog=catalog)
    if not plan.is_model_parallel:
        return estimator, plan
    return ModelParallelEstimator(estimator, num_workers=plan.model_parallel), plan
