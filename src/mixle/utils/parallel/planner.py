"""Resource and placement planning, and the door to encoded data.

The planner is advisory: it estimates memory pressure from an encoder and a model and produces a printable, editable
placement. Handles own the movement of data and the folding of statistics. Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixle._facade import lazily, publish
from mixle.errors import EncodedDataControlConflictError  # noqa: F401 - user code catches it from here
from mixle.utils.parallel.folding.protocol import EncodedDataHandle, EncodedFold, is_encoded_data_handle
from mixle.utils.parallel.folding.registry import (
    _ENCODED_DATA_BACKENDS,  # noqa: F401 - user code pops its own entries from here
    available_encoded_data_backends,
    encoded_data,
    register_encoded_data_backend,
    register_transport,
)

if TYPE_CHECKING:
    from mixle.utils.parallel.planning.calibrate import calibrate_resources
    from mixle.utils.parallel.planning.catalog import CalibrationCatalog, CalibrationRecord
    from mixle.utils.parallel.planning.configure import Configuration, configure
    from mixle.utils.parallel.planning.devices import DeviceSpec, Resources
    from mixle.utils.parallel.planning.forecast import Baseline, Footprint, Forecast, forecast, measure_footprint
    from mixle.utils.parallel.planning.memory import estimate_estimator_stat_nbytes, estimate_model_nbytes
    from mixle.utils.parallel.planning.pace import Costs, Overhead, Pace, RoundTime, known_costs
    from mixle.utils.parallel.planning.placement import Placement, PlacementShard
    from mixle.utils.parallel.planning.plan import plan
    from mixle.utils.parallel.planning.sharding import ModelShard, model_sharding_plan
    from mixle.utils.parallel.planning.timing import measure_costs
    from mixle.utils.parallel.transports.dask import DaskEncodedData
    from mixle.utils.parallel.transports.local import LocalEncodedData
    from mixle.utils.parallel.transports.spark import SparkEncodedData

__all__ = [
    "Baseline",
    "CalibrationCatalog",
    "CalibrationRecord",
    "Configuration",
    "Costs",
    "DaskEncodedData",
    "DeviceSpec",
    "EncodedDataHandle",
    "EncodedFold",
    "Footprint",
    "Forecast",
    "LocalEncodedData",
    "ModelShard",
    "Overhead",
    "Pace",
    "Placement",
    "PlacementShard",
    "Resources",
    "RoundTime",
    "SparkEncodedData",
    "available_encoded_data_backends",
    "calibrate_resources",
    "configure",
    "encoded_data",
    "estimate_estimator_stat_nbytes",
    "estimate_model_nbytes",
    "forecast",
    "is_encoded_data_handle",
    "known_costs",
    "measure_costs",
    "measure_footprint",
    "model_sharding_plan",
    "plan",
    "register_encoded_data_backend",
    "register_transport",
]

publish(
    __name__,
    EncodedDataHandle,
    EncodedFold,
    available_encoded_data_backends,
    encoded_data,
    is_encoded_data_handle,
    register_encoded_data_backend,
    register_transport,
)

_HOMES = {
    "Baseline": "mixle.utils.parallel.planning.forecast",
    "CalibrationCatalog": "mixle.utils.parallel.planning.catalog",
    "CalibrationRecord": "mixle.utils.parallel.planning.catalog",
    "Configuration": "mixle.utils.parallel.planning.configure",
    "Costs": "mixle.utils.parallel.planning.pace",
    "DaskEncodedData": "mixle.utils.parallel.transports.dask",
    "DeviceSpec": "mixle.utils.parallel.planning.devices",
    "Footprint": "mixle.utils.parallel.planning.forecast",
    "Forecast": "mixle.utils.parallel.planning.forecast",
    "LocalEncodedData": "mixle.utils.parallel.transports.local",
    "ModelShard": "mixle.utils.parallel.planning.sharding",
    "Overhead": "mixle.utils.parallel.planning.pace",
    "Pace": "mixle.utils.parallel.planning.pace",
    "Placement": "mixle.utils.parallel.planning.placement",
    "PlacementShard": "mixle.utils.parallel.planning.placement",
    "Resources": "mixle.utils.parallel.planning.devices",
    "RoundTime": "mixle.utils.parallel.planning.pace",
    "SparkEncodedData": "mixle.utils.parallel.transports.spark",
    "calibrate_resources": "mixle.utils.parallel.planning.calibrate",
    "configure": "mixle.utils.parallel.planning.configure",
    "estimate_estimator_stat_nbytes": "mixle.utils.parallel.planning.memory",
    "estimate_model_nbytes": "mixle.utils.parallel.planning.memory",
    "forecast": "mixle.utils.parallel.planning.forecast",
    "known_costs": "mixle.utils.parallel.planning.pace",
    "measure_costs": "mixle.utils.parallel.planning.timing",
    "measure_footprint": "mixle.utils.parallel.planning.forecast",
    "model_sharding_plan": "mixle.utils.parallel.planning.sharding",
    "plan": "mixle.utils.parallel.planning.plan",
}
__getattr__ = lazily(__name__, _HOMES)
