"""The receipt of one rank for one round, and its way through telemetry."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mixle.stats.refusals import shown

if TYPE_CHECKING:
    from mixle.telemetry import Event, Telemetry

__all__ = ["RankRecord", "record_rank_round", "records_from_events"]

_COUNTS = ("rank", "round", "bytes_processed", "accumulator_bytes", "n_obs")
_SECONDS = ("e_step_seconds", "m_step_seconds")
#: Facts in `extra` that add up over several records of a rank and round.
ADDITIVE = frozenset(
    {"cpu_seconds", "major_faults", "minor_faults", "phases", "predicted_seconds", "shards", "throttled_seconds"}
)
#: Names of measurements, which `extra` may not use.
MEASUREMENTS = ("rank", "round", *_SECONDS, "bytes_processed", "accumulator_bytes", "n_obs", "total_seconds")


@dataclass(frozen=True)
class RankRecord:
    """One worker-rank's structured receipt for one EM round.

    Seconds, bytes and rows are additive: over the ranks of a round, over rounds, and over several records of the same
    rank and round (a rank that took a lost worker's shard after its own).

    Parameters
    ----------
    rank : int
        Worker, executor or MPI rank.
    round : int
        Round of the fit.
    e_step_seconds : float
        Wall-clock seconds of the E-step, measured on the rank.
    m_step_seconds : float
        Wall-clock seconds of folding and estimating on the rank; 0 if the driver does that.
    bytes_processed : int
        Encoded bytes that the rank touched.
    accumulator_bytes : int
        Bytes of the statistic that it shipped back.
    n_obs : int
        Rows.
    extra : dict
        Further facts under names of their own: shards, phases, host.

    Attributes
    ----------
    run_id : str or None
        Run that the record belongs to, if it came from an event with that tag; not compared.

    Raises
    ------
    TypeError
        If a count is not an integer or a duration is not a number. Booleans are neither; numpy's numbers are both.
    ValueError
        If a number is negative or not finite, or `extra` uses the name of a measurement.

    Examples
    --------
    >>> record = RankRecord(rank=0, round=1, e_step_seconds=0.25, n_obs=100, extra={"host": "a"})
    >>> record.total_seconds
    0.25
    >>> RankRecord.from_features(record.as_features()) == record
    True
    """

    rank: int
    round: int
    e_step_seconds: float
    m_step_seconds: float = 0.0
    bytes_processed: int = 0
    accumulator_bytes: int = 0
    n_obs: int = 0
    extra: dict[str, Any] = field(default_factory=dict)
    run_id: str | None = field(default=None, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in _COUNTS:
            object.__setattr__(self, name, _count(name, getattr(self, name)))
        for name in _SECONDS:
            object.__setattr__(self, name, _duration(name, getattr(self, name)))
        if not isinstance(self.extra, Mapping):
            raise TypeError(f"extra must be a dict, not {type(self.extra).__name__}")
        taken = [name for name in MEASUREMENTS if name in self.extra]
        if taken:
            raise ValueError(f"extra may not use the names of measurements: {', '.join(taken)}")
        object.__setattr__(self, "extra", dict(self.extra))

    @classmethod
    def trusted(
        cls,
        rank: int,
        round: int,  # noqa: A002 - the documented name
        e_step_seconds: float,
        sizes: tuple[int, int],
        n_obs: int,
        extra: dict[str, Any],
        run_id: str | None,
    ) -> RankRecord:
        """Return a record of numbers that this library measured, unchecked; `sizes` are bytes read and shipped."""
        record = object.__new__(cls)
        record.__dict__.update(
            rank=rank,
            round=round,
            e_step_seconds=e_step_seconds,
            m_step_seconds=0.0,
            bytes_processed=sizes[0],
            accumulator_bytes=sizes[1],
            n_obs=n_obs,
            extra=extra,
            run_id=run_id,
        )
        return record

    @property
    def total_seconds(self) -> float:
        """E-step and M-step together."""
        return self.e_step_seconds + self.m_step_seconds

    def as_features(self) -> dict[str, Any]:
        """Return the record as one flat dict, `extra` and ``total_seconds`` included: features of an event."""
        return {
            "rank": self.rank,
            "round": self.round,
            "e_step_seconds": self.e_step_seconds,
            "m_step_seconds": self.m_step_seconds,
            "bytes_processed": self.bytes_processed,
            "accumulator_bytes": self.accumulator_bytes,
            "n_obs": self.n_obs,
            "total_seconds": self.e_step_seconds + self.m_step_seconds,
            **self.extra,
        }

    @classmethod
    def from_features(cls, features: dict[str, Any]) -> RankRecord:
        """Return the record that `as_features` made `features` from.

        Parameters
        ----------
        features : dict
            At least ``rank`` and ``round``; a missing measurement is 0, names that are no measurements are `extra`.

        Raises
        ------
        ValueError
            If ``rank`` or ``round`` is missing, or a number is out of range.
        """
        missing = [name for name in ("rank", "round") if name not in features]
        if missing:
            raise ValueError(f"a receipt needs {' and '.join(missing)}; its features are {sorted(map(str, features))}")
        given = {name: features[name] for name in MEASUREMENTS if name in features and name != "total_seconds"}
        extra = {name: value for name, value in features.items() if name not in MEASUREMENTS}
        return cls(**{"e_step_seconds": 0.0, **given}, extra=extra)


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}")
    number = operator.index(value)
    if number < 0:
        raise ValueError(f"{name} must not be negative, got {number}")
    return number


def _duration(name: str, value: Any) -> float:
    if type(value) is not float:
        if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__") or hasattr(value, "__len__"):
            raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
        value = float(value)
    if not (math.isfinite(value) and value >= 0.0):
        raise ValueError(f"{name} must be finite and not negative, got {value}")
    return float(value)


def record_rank_round(
    telemetry: Telemetry,
    *,
    rank: int,
    round: int,  # noqa: A002 - the documented name
    e_step_seconds: float,
    m_step_seconds: float = 0.0,
    bytes_processed: int = 0,
    accumulator_bytes: int = 0,
    n_obs: int = 0,
    run_id: str | None = None,
    extra: dict[str, Any] | None = None,
) -> Event:
    """Append one rank's receipt for one round to `telemetry` as an ``"em_round"`` event.

    Parameters
    ----------
    telemetry : Telemetry
        The recorder.
    rank, round, e_step_seconds, m_step_seconds, bytes_processed, accumulator_bytes, n_obs, extra
        As for `RankRecord`.
    run_id : str, optional
        Tags the event, so that fits that share a recorder are told apart.

    Returns
    -------
    Event
        Its features are the record's, its choice is ``"rank=<rank>"``.

    Raises
    ------
    TypeError, ValueError
        As for `RankRecord`; nothing is recorded then.

    Examples
    --------
    >>> from mixle.telemetry import Telemetry
    >>> telemetry = Telemetry()
    >>> event = record_rank_round(telemetry, rank=1, round=0, e_step_seconds=0.5, run_id="a")
    >>> event.choice, records_from_events(telemetry.events())
    ('rank=1', [RankRecord(rank=1, round=0, e_step_seconds=0.5, ...)])
    """
    record = RankRecord(
        rank, round, e_step_seconds, m_step_seconds, bytes_processed, accumulator_bytes, n_obs, extra or {}
    )
    return send_record(telemetry, record, run_id)


def send_record(telemetry: Telemetry, record: RankRecord, run_id: str | None = None) -> Event:
    """Append a record to `telemetry`, tagged with `run_id` or else with the record's own run."""
    run_id = record.run_id if run_id is None else run_id
    tags = {} if run_id is None else {"run_id": run_id}
    return telemetry.record("em_round", features=record.as_features(), choice=f"rank={record.rank}", tags=tags)


def send_records(telemetry: Telemetry, records: Sequence[RankRecord], run_id: str | None = None) -> None:
    """Append records of a round to `telemetry` at once, in one write; else as `send_record`."""
    rows = []
    for record in records:
        run = record.run_id if run_id is None else run_id
        rows.append((record.as_features(), f"rank={record.rank}", {} if run is None else {"run_id": run}))
    telemetry.record_all("em_round", rows)


def records_from_events(events: Sequence[Event]) -> list[RankRecord]:
    """Return the records of the ``"em_round"`` events, in their order; other kinds are passed over.

    Parameters
    ----------
    events : iterable of Event
        For example ``telemetry.events(run_id="a")``: records of different runs are not analysed together.

    Raises
    ------
    ValueError, TypeError
        If an ``"em_round"`` event is not the receipt of a rank; the message names its position.
    """
    if not isinstance(events, Iterable):
        raise TypeError(f"events is {shown(events)}, no list of Event; pass telemetry.events()")
    records = []
    for position, event in enumerate(events):
        if not hasattr(event, "kind"):
            raise TypeError(f"events[{position}] is {shown(event)}, no Event; pass telemetry.events()")
        if event.kind != "em_round":
            continue
        try:
            record = RankRecord.from_features(event.features)
        except (TypeError, ValueError) as error:
            error.add_note(f"event {position} (kind 'em_round', ts {event.ts:g}) is not the receipt of a rank")
            raise
        run_id = event.tags.get("run_id")
        object.__setattr__(record, "run_id", run_id)
        records.append(record)
    return records


def checked(records: Iterable[RankRecord]) -> list[RankRecord]:
    """Return the records as a list; refuse what is none, and records of more than one run."""
    if not isinstance(records, Iterable):
        raise TypeError(f"records is {shown(records)}, no list of RankRecord; use handle.records")
    found = list(records)
    for position, record in enumerate(found):
        if not isinstance(record, RankRecord):
            raise TypeError(f"records[{position}] is a {type(record).__name__}, no RankRecord; use handle.records")
    runs = [run_id for run_id in dict.fromkeys(record.run_id for record in found) if run_id is not None]
    if len(runs) > 1:
        named = ", ".join(map(repr, runs))
        raise ValueError(
            f"the records belong to {len(runs)} runs ({named}), whose rounds would be mixed: "
            f"take one, for example records_from_events(telemetry.events(run_id={runs[-1]!r}))"
        )
    return found


def of_round(records: Iterable[RankRecord], wanted: int | None) -> tuple[int, list[RankRecord]]:
    """Return the round (by default the last one; 0 if there is none) and one record per rank in it, by rank.

    Several records of a rank are added up.
    """
    found = checked(records)
    if wanted is None:
        wanted = max((record.round for record in found), default=0)
    return wanted, merged([record for record in found if record.round == wanted])


def merged(records: Iterable[RankRecord]) -> list[RankRecord]:
    """Return one record per (round, rank), sorted, the numbers of several added up."""
    sums: dict[tuple[int, int], RankRecord] = {}
    for record in records:
        key = (record.round, record.rank)
        sums[key] = _added(sums[key], record) if key in sums else record
    return [sums[key] for key in sorted(sums)]


def _added(left: RankRecord, right: RankRecord) -> RankRecord:
    names = (*_SECONDS, "bytes_processed", "accumulator_bytes", "n_obs")
    numbers = {name: getattr(left, name) + getattr(right, name) for name in names}
    extra = {**left.extra, **right.extra}
    for name in ADDITIVE & left.extra.keys() & right.extra.keys():
        extra[name] = _sum(left.extra[name], right.extra[name])
    record = RankRecord(rank=left.rank, round=left.round, **numbers, extra=extra)
    object.__setattr__(record, "run_id", left.run_id)
    return record


def _sum(left: Any, right: Any) -> Any:
    """Add two values of `extra`: numbers, lists, dicts of numbers; of anything else the later one stands."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return {**left, **{name: _sum(left[name], value) if name in left else value for name, value in right.items()}}
    try:
        return left + right
    except TypeError:
        return right
