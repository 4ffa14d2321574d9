"""A printable, editable placement of contiguous row ranges on devices."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

from mixle.errors import BackendError
from mixle.utils.parallel.planning.devices import DeviceSpec, Resources
from mixle.utils.parallel.planning.json_text import JsonText

__all__ = ["PIECES", "Placement", "PlacementShard"]

#: Pieces that a device's rows are cut into at most, so that the work on one of them needs little memory.
PIECES = 16
#: Bytes of a number of float32.
SINGLE = 4
_FACTS = frozenset(
    {
        "total_rows",
        "encoded_row_bytes",
        "transient_row_bytes",
        "model_bytes",
        "statistic_bytes",
        "dtype_bytes",
        "safety_factor",
    }
)


@dataclass(frozen=True)
class PlacementShard:
    """A contiguous row range assigned to one device.

    Parameters
    ----------
    device : DeviceSpec
        Where the rows go.
    start, stop : int
        Row range.
    sub_chunks : int
        Encoded pieces that the range is cut into.
    encoded_bytes, transient_bytes : int
        Estimated bytes at rest, and while the shard is worked on.
    """

    device: DeviceSpec
    start: int
    stop: int
    sub_chunks: int = 1
    encoded_bytes: int = 0
    transient_bytes: int = 0

    @property
    def size(self) -> int:
        """Return the number of rows assigned to this shard."""
        return self.stop - self.start

    @property
    def total_bytes(self) -> int:
        """Return estimated encoded plus transient bytes for this shard."""
        return self.encoded_bytes + self.transient_bytes


@dataclass(frozen=True)
class Placement(JsonText):
    """Printable placement returned by `plan`.

    Parameters
    ----------
    shards : tuple of PlacementShard
        Consecutive row ranges that cover ``0:total_rows`` exactly.
    total_rows : int
        Number of rows.
    encoded_row_bytes, transient_row_bytes : float
        Estimated bytes per row at rest, and while it is worked on.
    model_bytes, statistic_bytes : int
        Estimated bytes of the model and of one statistic.
    dtype_bytes : int
        Bytes of one number.
    resources : Resources or None
        What was planned for.
    safety_factor : float
        Factor on every estimate of bytes.

    Raises
    ------
    ValueError
        If the shards leave a gap, overlap, hold no row, or name a device that `resources` lacks; the shard and the rows
        are named.

    Examples
    --------
    >>> from dataclasses import replace
    >>> shards = (PlacementShard(DeviceSpec("a"), 0, 6), PlacementShard(DeviceSpec("b"), 6, 9))
    >>> two = Placement(shards, 9, 8.0, 24.0, 0, 0, 8)
    >>> [(shard.start, shard.stop) for shard in two.split(0, 2).merge(1).shards]
    [(0, 2), (2, 9)]
    >>> replace(two, shards=(two.shards[0], replace(two.shards[1], start=7)))
    Traceback (most recent call last):
        ...
    mixle.errors.BackendError: shard 1 starts at row 7, but row 6 is next: rows 6:7 belong to no shard; give start=6
    """

    shards: tuple[PlacementShard, ...]
    total_rows: int
    encoded_row_bytes: float
    transient_row_bytes: float
    model_bytes: int
    statistic_bytes: int
    dtype_bytes: int
    resources: Resources | None = None
    safety_factor: float = 1.25

    def __post_init__(self) -> None:
        object.__setattr__(self, "shards", tuple(self.shards))
        known = None if self.resources is None else {device.name for device in self.resources.devices}
        expected = 0
        for number, shard in enumerate(self.shards):
            if shard.start > expected:
                lost = f"rows {expected}:{shard.start} belong to no shard"
                raise _misplaced(number, shard.start, expected, lost)
            if shard.start < expected:
                twice = f"rows {shard.start}:{min(expected, shard.stop)} belong to two shards"
                raise _misplaced(number, shard.start, expected, twice)
            if shard.stop < shard.start or (shard.size == 0 and self.total_rows > 0):
                raise BackendError(f"shard {number} is empty ({shard.start}:{shard.stop}): leave it out")
            if known is not None and shard.device.name not in known:
                raise BackendError(
                    f"shard {number} is on {shard.device.name!r}, which is none of {sorted(known)}; name one of them"
                )
            expected = shard.stop
        if expected != self.total_rows:
            raise BackendError(f"the shards cover rows 0:{expected}, total_rows is {self.total_rows}; give both alike")

    def for_device(self, name: str) -> tuple[PlacementShard, ...]:
        """Return all placement shards assigned to a named device."""
        return tuple(shard for shard in self.shards if shard.device.name == name)

    def by_device(self) -> dict[str, list[PlacementShard]]:
        """Return the shards of each device that has some."""
        found: dict[str, list[PlacementShard]] = {}
        for shard in self.shards:
            found.setdefault(shard.device.name, []).append(shard)
        return found

    def device_bytes(self) -> dict[str, int]:
        """Return what each device needs: the encoded rows of all its shards, and the work on one of them at a time."""
        return {
            name: sum(shard.encoded_bytes for shard in mine) + max(shard.transient_bytes for shard in mine)
            for name, mine in self.by_device().items()
        }

    @property
    def reason(self) -> str | None:
        """Return why the placement cannot fit, and what would, or None if nothing known speaks against it."""
        memory = {shard.device.name: shard.device.memory_bytes for shard in self.shards}
        for name, need in self.device_bytes().items():
            limit = memory[name]
            if limit is not None and need > limit:
                other = ", or plan with precision='float32'" if self._single_fits(name, limit) else ""
                remedy = self._remedy(limit, need) + other
                return f"device {name} needs {need} bytes, its memory_bytes is {limit}: {remedy}"
        return None

    def _single_fits(self, name: str, memory: int) -> bool:
        """Return whether a device could work on its rows in float32, one at a time; encoded they stay as they are."""
        row = max(1.0, self.transient_row_bytes * self.safety_factor * SINGLE / self.dtype_bytes)
        fixed = math.ceil((self.model_bytes + self.statistic_bytes) * self.safety_factor)
        held = sum(shard.encoded_bytes for shard in self.for_device(name))
        return self.dtype_bytes > SINGLE and memory - fixed - held - 1 >= row

    def _remedy(self, memory: int, need: int) -> str:
        """Return what would make a device hold its shards."""
        fixed = math.ceil((self.model_bytes + self.statistic_bytes) * self.safety_factor)
        if fixed >= memory:
            return f"the model alone needs {fixed}; give it {need} bytes, or divide the model (model_sharding_plan)"
        row = math.ceil((self.encoded_row_bytes + self.transient_row_bytes / PIECES) * self.safety_factor)
        rows = (memory - fixed) // max(1, row)
        if rows < 1:
            return f"give it {need} bytes, or choose a coarser encoding: one row needs {row}"
        return f"use {math.ceil(self.total_rows / rows)} workers with as much memory, or give it {need} bytes"

    @property
    def fits(self) -> bool | None:
        """Return whether every device can hold its shards; None if no memory size is known."""
        if all(shard.device.memory_bytes is None for shard in self.shards):
            return None
        return self.reason is None

    def _resized(self, shard: PlacementShard, start: int, stop: int) -> PlacementShard:
        """Return a shard of other rows with its bytes estimated anew."""
        rows, factor = stop - start, self.safety_factor
        fixed = math.ceil((self.model_bytes + self.statistic_bytes) * factor)
        return replace(
            shard,
            start=start,
            stop=stop,
            encoded_bytes=math.ceil(rows * self.encoded_row_bytes * factor),
            transient_bytes=math.ceil(rows * self.transient_row_bytes * factor + fixed),
        )

    def split(self, shard: int, row: int) -> Self:
        """Return a placement whose shard number `shard` is two: up to `row`, and from it on.

        Raises
        ------
        ValueError
            If there is no such shard, or `row` does not lie inside it.
        """
        old = self._shard(shard)
        if not old.start < row < old.stop:
            raise BackendError(f"row {row} does not lie inside shard {shard}; give one of {old.start + 1}:{old.stop}")
        parts = (self._resized(old, old.start, row), self._resized(old, row, old.stop))
        return replace(self, shards=(*self.shards[:shard], *parts, *self.shards[shard + 1 :]))

    def merge(self, shard: int) -> Self:
        """Return a placement whose shard number `shard` and the next one are one, on the first one's device.

        Raises
        ------
        ValueError
            If there is no such shard, or none after it.
        """
        old = self._shard(shard)
        if shard + 1 >= len(self.shards):
            raise BackendError(f"shard {shard} is the last one; name one before it, to join with the next")
        one = self._resized(old, old.start, self.shards[shard + 1].stop)
        return replace(self, shards=(*self.shards[:shard], one, *self.shards[shard + 2 :]))

    def assign(self, shard: int, device: DeviceSpec) -> Self:
        """Return a placement whose shard number `shard` is on `device`.

        Raises
        ------
        ValueError
            If there is no such shard, or `resources` lacks the device.
        """
        moved = replace(self._shard(shard), device=device)
        return replace(self, shards=(*self.shards[:shard], moved, *self.shards[shard + 1 :]))

    def _shard(self, number: int) -> PlacementShard:
        if isinstance(number, bool) or not 0 <= number < len(self.shards):
            last = len(self.shards) - 1
            raise BackendError(f"there is no shard {number!r}: this placement has shards 0 to {last}; name one of them")
        return self.shards[number]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-friendly placement summary."""
        return {
            "total_rows": self.total_rows,
            "encoded_row_bytes": self.encoded_row_bytes,
            "transient_row_bytes": self.transient_row_bytes,
            "model_bytes": self.model_bytes,
            "statistic_bytes": self.statistic_bytes,
            "dtype_bytes": self.dtype_bytes,
            "resources": None if self.resources is None else self.resources.to_dict(),
            "shards": [
                {
                    "device": shard.device.name,
                    "kind": shard.device.kind,
                    "engine": shard.device.engine,
                    "start": shard.start,
                    "stop": shard.stop,
                    "sub_chunks": shard.sub_chunks,
                    "encoded_bytes": shard.encoded_bytes,
                    "transient_bytes": shard.transient_bytes,
                }
                for shard in self.shards
            ],
        }

    @classmethod
    def from_dict(cls, payload: dict[str, Any]) -> Self:
        """Build a placement from `to_dict` output; a shard's device is found by its name."""
        told = payload.get("resources")
        resources = None if told is None else Resources.from_dict(told)
        devices = {} if resources is None else {device.name: device for device in resources.devices}
        shards = []
        for shard in payload["shards"]:
            device = devices.get(shard["device"])
            device = DeviceSpec(shard["device"], shard["kind"], engine=shard["engine"]) if device is None else device
            sizes = {name: shard[name] for name in ("start", "stop", "sub_chunks", "encoded_bytes", "transient_bytes")}
            shards.append(PlacementShard(device, **sizes))
        facts = {name: payload[name] for name in payload if name in _FACTS}
        return cls(tuple(shards), resources=resources, **facts)

    def table(self) -> str:
        """Return the placement as a table for people: a line per device, and what would make it fit if it does not."""
        from mixle.utils.parallel.planning.tables import placement_table

        return placement_table(self)

    def _repr_html_(self) -> str:
        from mixle.utils.parallel.planning.tables import placement_html

        return placement_html(self)

    def __str__(self) -> str:
        head = (
            f"Placement(total_rows={self.total_rows}, shards={len(self.shards)}, "
            f"row_bytes={self.encoded_row_bytes:.1f}, "
            f"transient_row_bytes={self.transient_row_bytes:.1f}, model_bytes={self.model_bytes}, "
            f"statistic_bytes={self.statistic_bytes}, dtype_bytes={self.dtype_bytes})"
        )
        lines = [
            f"  {shard.device.name}[{shard.start}:{shard.stop}] rows={shard.size} sub_chunks={shard.sub_chunks} "
            f"estimated_bytes={shard.total_bytes}"
            for shard in self.shards
        ]
        return "\n".join([head, *lines])


def _misplaced(number: int, start: int, expected: int, why: str) -> BackendError:
    return BackendError(
        f"shard {number} starts at row {start}, but row {expected} is next: {why}; give start={expected}"
    )
