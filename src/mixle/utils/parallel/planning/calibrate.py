"""Rows per second, measured on a small sample."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mixle._limits import one_blas_thread
from mixle.utils.parallel.folding.inputs import check_rows, choose_encoder
from mixle.utils.parallel.folding.shards import Shard, encode_shard, pick
from mixle.utils.parallel.folding.tasks import Accumulate, Score
from mixle.utils.parallel.planning.catalog import CalibrationCatalog, CalibrationRecord, host_kind, keep, workload_name
from mixle.utils.parallel.planning.devices import DeviceSpec, Resources, check_resources, exact_int
from mixle.utils.parallel.planning.memory import estimate_estimator_stat_nbytes, estimate_model_nbytes
from mixle.utils.parallel.planning.precision import precision_name

__all__ = ["calibrate_resources"]


def calibrate_resources(
    data: Sequence[Any],
    model: Any,
    resources: Resources | None = None,
    estimator: Any | None = None,
    encoder: Any | None = None,
    sample_size: int = 512,
    repeats: int = 3,
    workload: str = "score",
    precision: Any | None = None,
    catalog: CalibrationCatalog | None = None,
    catalog_path: Any | None = None,
) -> Resources:
    """Time model scoring on each resource and return updated throughputs.

    Calibration is advisory and local: it runs here, on one BLAS thread. A device that cannot run the workload here (an
    engine other than numpy, a model that fails) keeps its previous throughput.

    Parameters
    ----------
    data : sequence
        Rows; the first `sample_size` of them are used.
    model : distribution
        Model to score.
    resources : Resources, optional
        Devices; one CPU by default.
    estimator : ParameterEstimator, optional
        For "estep" and "em"; by default the model's own.
    encoder : DataSequenceEncoder, optional
        By default the model's own.
    sample_size, repeats : int
        Rows per run, and timed runs per device, of which the median counts.
    workload : str
        "score", "estep" (or "accumulate"), or "em", which adds the M-step.
    precision : str, optional
        Noted in the record.
    catalog : CalibrationCatalog, optional
        Gets a record.
    catalog_path : path, optional
        File of a catalog that gets the record too; it is made if it does not exist.

    Returns
    -------
    Resources
        The devices with throughput in rows per second.

    Raises
    ------
    ValueError
        For an unknown workload, empty data, numbers below 1.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution
    >>> calibrated = calibrate_resources([0.0, 1.0, 2.0], GaussianDistribution(0.0, 1.0))
    >>> calibrated.fastest().throughput > 0.0
    True
    """
    kind = workload_name(workload)
    rows = check_rows(data, "calibrate_resources")
    size = min(exact_int(sample_size, "sample_size", 1) or 1, len(rows))
    runs = exact_int(repeats, "repeats", 1) or 1
    resources = Resources.single_cpu() if resources is None else check_resources(resources)
    if estimator is None and kind != "score":
        estimator = model.estimator()
    encoder = choose_encoder("calibrate_resources", estimator, model, encoder)
    shard = encode_shard(0, pick(rows, range(size)), range(size), encoder, (range(size),))
    results = [_measure(device, shard, model, estimator, kind, runs) for device in resources.devices]
    measured = Resources(
        tuple(
            replace(device, throughput=result["throughput"]) if result["success"] else device
            for device, result in zip(resources.devices, results, strict=True)
        )
    )
    record = CalibrationRecord(
        type(model).__name__,
        kind,
        measured,
        size,
        runs,
        None if precision is None else precision_name(precision),
        None if estimator is None else type(estimator).__name__,
        len(rows),
        estimate_model_nbytes(model),
        None if estimator is None else estimate_estimator_stat_nbytes(estimator),
        time.time(),
        tuple(results),
        host_kind(),
    )
    keep(record, catalog, catalog_path)
    return measured


def _measure(device: DeviceSpec, shard: Shard, model: Any, estimator: Any, kind: str, repeats: int) -> dict[str, Any]:
    """Return what one device did: the facts of `CalibrationRecord.device_results`."""
    facts: dict[str, Any] = {"device_name": device.name, "success": False, "elapsed_seconds": None}
    facts.update(throughput=None, error=None)
    if device.engine != "numpy":
        facts["error"] = f"engine {device.engine!r} cannot run here"
        return facts
    try:
        with one_blas_thread():
            _run(shard, model, estimator, kind)
            seconds = statistics.median(_run(shard, model, estimator, kind) for _ in range(repeats))
    except Exception as error:  # noqa: BLE001 - advisory: a device that fails keeps what it had
        facts["error"] = f"{type(error).__name__}: {error}"
        return facts
    facts.update(success=True, elapsed_seconds=seconds, throughput=shard.rows / max(seconds, 1e-9))
    return facts


def _run(shard: Shard, model: Any, estimator: Any, kind: str) -> float:
    """Return the seconds of one pass."""
    start = time.perf_counter()
    if kind == "score":
        Score(model).run(shard)
    else:
        value, _, _, weight, _ = Accumulate(estimator, model, scored=False).run(shard)
        if kind == "em":
            estimator.estimate(weight, value)
    return time.perf_counter() - start
