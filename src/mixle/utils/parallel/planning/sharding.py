"""Which components of a large model each device should own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from mixle.utils.parallel.planning.devices import DeviceSpec, Resources, check_resources, exact_int
from mixle.utils.parallel.planning.memory import estimate_estimator_stat_nbytes, estimate_model_nbytes
from mixle.utils.parallel.planning.partition import share

__all__ = ["ModelShard", "model_sharding_plan"]


@dataclass(frozen=True)
class ModelShard:
    """Advisory component-axis shard for a large model.

    Parameters
    ----------
    device : DeviceSpec
        Owner of the components.
    component_start, component_stop : int
        Range of components.
    parameter_bytes, statistic_bytes : int
        Estimated bytes of its parameters and statistics.

    Examples
    --------
    >>> from mixle.utils.parallel.planning.devices import DeviceSpec
    >>> ModelShard(DeviceSpec("cpu:0"), 0, 4).num_components
    4
    """

    device: DeviceSpec
    component_start: int
    component_stop: int
    parameter_bytes: int = 0
    statistic_bytes: int = 0

    @property
    def num_components(self) -> int:
        """Return the number of mixture components in this model shard."""
        return self.component_stop - self.component_start

    @property
    def total_bytes(self) -> int:
        """Return estimated parameter plus statistic bytes for this shard."""
        return self.parameter_bytes + self.statistic_bytes


def model_sharding_plan(
    model: Any,
    resources: Resources,
    estimator: Any | None = None,
    axis: str = "components",
    min_components_per_shard: int = 1,
) -> tuple[ModelShard, ...]:
    """Return an advisory component-axis sharding plan.

    It says which component range each device should own, in proportion to throughput; it moves nothing.

    Parameters
    ----------
    model : distribution
        A model with ``num_components``.
    resources : Resources
        Devices; the fastest ones are used where there are more than shards.
    estimator : ParameterEstimator, optional
        Tells the bytes of a statistic; without it they are taken to be the model's.
    axis : str
        Only "components".
    min_components_per_shard : int
        No shard holds fewer.

    Returns
    -------
    tuple of ModelShard
        Consecutive ranges in device order.

    Raises
    ------
    ValueError
        For another axis, a model without components, or a minimum above their number.

    Examples
    --------
    >>> class Five:
    ...     num_components = 5
    >>> slow, fast = DeviceSpec("a"), DeviceSpec("b", throughput=3.0)
    >>> [(s.component_start, s.component_stop) for s in model_sharding_plan(Five(), Resources((slow, fast)))]
    [(0, 1), (1, 5)]
    """
    if axis != "components":
        raise ValueError(f"axis {axis!r} cannot be sharded; use axis='components'")
    least = exact_int(min_components_per_shard, "min_components_per_shard", 1) or 1
    count = getattr(model, "num_components", None)
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"{type(model).__name__} has no components to shard; pass a mixture or a Markov model")
    if least > count:
        raise ValueError(
            f"min_components_per_shard={least} exceeds the {count} components of the model; pass at most that"
        )
    devices = _chosen(check_resources(resources), max(1, min(len(resources.devices), count // least)))
    sizes = share([device.throughput for device in devices], count, least)
    parameters = estimate_model_nbytes(model)
    statistics = parameters if estimator is None else estimate_estimator_stat_nbytes(estimator)
    shards, start = [], 0
    for device, size in zip(devices, sizes, strict=True):
        part = size / count
        shards.append(
            ModelShard(device, start, start + size, math.ceil(parameters * part), math.ceil(statistics * part))
        )
        start += size
    return tuple(shards)


def _chosen(resources: Resources, count: int) -> list[DeviceSpec]:
    """Return the `count` fastest devices, in the order they were given."""
    fastest = sorted(resources.devices, key=lambda device: -device.throughput)[:count]
    return [device for device in resources.devices if device in fastest]
