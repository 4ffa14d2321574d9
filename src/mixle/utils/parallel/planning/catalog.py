"""What was measured, kept for later plans."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from mixle.errors import SerializationError
from mixle.utils.parallel.planning.devices import Resources
from mixle.utils.parallel.planning.json_text import JsonFile
from mixle.utils.parallel.planning.precision import precision_name

__all__ = ["CalibrationCatalog", "CalibrationRecord", "host_kind", "keep", "measured_resources", "workload_name"]

_WORKLOADS = {"score": "score", "estep": "estep", "accumulate": "estep", "em": "em"}


def workload_name(workload: str) -> str:
    """Return the canonical name of a workload: "accumulate" is "estep"; ValueError for an unknown one.

    Examples
    --------
    >>> workload_name("Accumulate")
    'estep'
    """
    name = _WORKLOADS.get(str(workload).lower())
    if name is None:
        raise ValueError(f"workload {workload!r} is unknown; use 'score', 'estep' (or 'accumulate') or 'em'")
    return name


@dataclass(frozen=True)
class CalibrationRecord:
    """One persisted calibration measurement for a model/workload/resource set.

    Parameters
    ----------
    model_type : str
        Class name of the model.
    workload : str
        "score", "estep" or "em".
    resources : Resources
        The devices with measured throughputs, in rows per second.
    sample_size, repeats : int
        Rows per run and timed runs per device.
    precision : str or None
        Precision that was asked for.
    estimator_type : str or None
        Class name of the estimator.
    row_count, model_bytes, statistic_bytes : int or None
        Rows of the data, estimated bytes of model and statistic.
    timestamp : float
        Seconds since the epoch.
    device_results : tuple of dict
        Per device ``device_name, success, elapsed_seconds, throughput, error``.
    host : str or None
        Kind of machine that was measured, as `host_kind` names it.
    costs : dict or None
        What rounds cost there, as `Costs.to_dict` has it.
    """

    model_type: str
    workload: str
    resources: Resources
    sample_size: int
    repeats: int
    precision: str | None = None
    estimator_type: str | None = None
    row_count: int | None = None
    model_bytes: int | None = None
    statistic_bytes: int | None = None
    timestamp: float = 0.0
    device_results: tuple[dict[str, Any], ...] = ()
    host: str | None = None
    costs: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable calibration record."""
        return {
            "model_type": self.model_type,
            "estimator_type": self.estimator_type,
            "workload": self.workload,
            "sample_size": self.sample_size,
            "repeats": self.repeats,
            "precision": self.precision,
            "row_count": self.row_count,
            "model_bytes": self.model_bytes,
            "statistic_bytes": self.statistic_bytes,
            "timestamp": self.timestamp,
            "resources": self.resources.to_dict(),
            "device_results": [dict(result) for result in self.device_results],
            "host": self.host,
            **({} if self.costs is None else {"costs": self.costs}),
        }

    @classmethod
    def from_dict(cls, payload: dict[str, Any]) -> Self:
        """Build a calibration record from `to_dict` output; keys of later versions are ignored."""
        facts = {name: payload[name] for name in cls.__dataclass_fields__ if name in payload}
        facts["resources"] = Resources.from_dict(payload["resources"])
        facts["device_results"] = tuple(dict(result) for result in payload.get("device_results", ()))
        return cls(**facts)

    def matches(self, model_type: str | None, workload: str | None, precision: str | None) -> bool:
        """Return whether this record passes the filters; None lets everything pass."""
        if model_type is not None and self.model_type != model_type:
            return False
        if workload is not None and workload_name(self.workload) != workload_name(workload):
            return False
        return precision is None or precision_name(self.precision) == precision_name(precision)


@dataclass
class CalibrationCatalog(JsonFile):
    """Append-only catalog of resource calibration measurements.

    Parameters
    ----------
    records : iterable of CalibrationRecord
        What is known so far; kept as a tuple.

    Examples
    --------
    >>> catalog = CalibrationCatalog()
    >>> record = catalog.add(CalibrationRecord("Gaussian", "accumulate", Resources.single_cpu(throughput=5.0), 10, 3))
    >>> catalog.resources_for("Gaussian", workload="estep").fastest().throughput
    5.0
    """

    records: tuple[CalibrationRecord, ...] = ()

    def __post_init__(self) -> None:
        self.records = tuple(self.records)

    def add(self, record: CalibrationRecord) -> CalibrationRecord:
        """Append `record` and return it."""
        self.records = (*self.records, record)
        return record

    def latest(
        self, model_type: str | None = None, workload: str | None = None, precision: str | None = None
    ) -> CalibrationRecord | None:
        """Return the newest record matching the supplied filters, the last one added among equals; None without one."""
        found = [record for record in self.records if record.matches(model_type, workload, precision)]
        return max(reversed(found), key=lambda record: record.timestamp, default=None)

    def resources_for(
        self, model_type: str | None = None, workload: str | None = None, precision: str | None = None
    ) -> Resources | None:
        """Return calibrated resources from the newest matching record, None without one."""
        record = self.latest(model_type, workload, precision)
        return None if record is None else record.resources

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable calibration catalog."""
        return {"records": [record.to_dict() for record in self.records]}

    @classmethod
    def from_dict(cls, payload: dict[str, Any]) -> Self:
        """Build a catalog from `to_dict` output."""
        if not isinstance(payload, dict) or not isinstance(payload.get("records", []), list):
            raise TypeError(f"a catalog is an object with a list of records, not {type(payload).__name__}")
        return cls(tuple(CalibrationRecord.from_dict(record) for record in payload.get("records", ())))

    @classmethod
    def load(cls, path: Any) -> Self:
        """Load a calibration catalog from disk.

        Raises
        ------
        SerializationError
            (a ValueError) naming the file, if it is torn or no catalog.
        """
        text = Path(path).read_text(encoding="utf-8", errors="replace")
        try:
            return cls.from_json(text)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            why = f"{type(error).__name__}: {error}"
            raise SerializationError(
                f"{path} is no calibration catalog ({why}): move it away, or name another"
            ) from error


def keep(record: CalibrationRecord, catalog: CalibrationCatalog | None, path: Any | None) -> None:
    """Add a record to a catalog, to the file of one, or to both; writers of one file take turns.

    Raises
    ------
    SerializationError
        If the file is no catalog; it is left as it is.
    OSError
        If it cannot be written; the message names the line to type.
    """
    if catalog is not None:
        catalog.add(record)
    if path is None:
        return
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target):
            kept = CalibrationCatalog.load(target) if target.exists() else CalibrationCatalog()
            kept.add(record)
            kept.save(target)
    except PermissionError as error:
        error.add_note(f"the measurement was not kept: pass catalog_path= of a file that can be written, not {path}")
        raise


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, a file beside it; where the system has no such locks, nothing is held."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    import os

    handle = os.open(path.with_name(f".{path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def host_kind() -> str:
    """Return what kind of machine this is: its architecture and the processor's name where the system tells.

    Examples
    --------
    >>> "/" in host_kind()
    True
    """
    import platform

    name = platform.processor()
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
            name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    return f"{platform.machine()}/{name}"


def measured_resources(
    resources: Resources, catalog: CalibrationCatalog, model_type: str | None = None, workload: str | None = "estep"
) -> Resources:
    """Return `resources` at the speeds that a catalog has for this model on this kind of host.

    Devices are matched by name. A newest record that lacks one of them, or is of another kind of host, changes
    nothing: speeds of two measurements are not comparable.

    Parameters
    ----------
    resources : Resources
        Devices as they are known.
    catalog : CalibrationCatalog
        What was measured.
    model_type : str, optional
        Class name of the model.
    workload : str, optional
        "estep" by default.

    Examples
    --------
    >>> catalog = CalibrationCatalog()
    >>> record = catalog.add(CalibrationRecord("Gaussian", "estep", Resources.single_cpu(throughput=5.0), 10, 3))
    >>> measured_resources(Resources.single_cpu(), catalog, "Gaussian").fastest().throughput
    5.0
    """
    from dataclasses import replace

    here = host_kind()
    found = [r for r in catalog.records if r.matches(model_type, workload, None) and r.host in (None, here)]
    record = max(reversed(found), key=lambda one: one.timestamp, default=None)
    speeds = {} if record is None else {device.name: device.throughput for device in record.resources.devices}
    if not all(device.name in speeds for device in resources.devices):
        return resources
    return Resources(tuple(replace(device, throughput=speeds[device.name]) for device in resources.devices))
