"""A printable, editable placement of contiguous row ranges on devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mixle.utils.parallel.planning.devices import DeviceSpec, Resources

__all__ = ["Placement", "PlacementShard"]


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
class Placement:
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

    Raises
    ------
    ValueError
        If the shards leave a gap, overlap or hold no row; a shard is named.
    """

    shards: tuple[PlacementShard, ...]
    total_rows: int
    encoded_row_bytes: float
    transient_row_bytes: float
    model_bytes: int
    statistic_bytes: int
    dtype_bytes: int
    resources: Resources | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shards", tuple(self.shards))
        expected = 0
        for number, shard in enumerate(self.shards):
            if shard.start != expected or shard.stop < shard.start:
                raise ValueError(f"shard {number} holds rows {shard.start}:{shard.stop}, but row {expected} comes next")
            if shard.size == 0 and self.total_rows > 0:
                raise ValueError(f"shard {number} is empty ({shard.start}:{shard.stop}): leave it out")
            expected = shard.stop
        if expected != self.total_rows:
            raise ValueError(f"the shards cover rows 0:{expected}, total_rows is {self.total_rows}")

    def for_device(self, name: str) -> tuple[PlacementShard, ...]:
        """Return all placement shards assigned to a named device."""
        return tuple(shard for shard in self.shards if shard.device.name == name)

    @property
    def reason(self) -> str | None:
        """Return why the placement cannot fit, or None if nothing known speaks against it.

        A device holds the encoded rows of all its shards and works on one of them at a time.
        """
        for name in dict.fromkeys(shard.device.name for shard in self.shards):
            mine = self.for_device(name)
            memory = mine[0].device.memory_bytes
            need = sum(shard.encoded_bytes for shard in mine) + max(shard.transient_bytes for shard in mine)
            if memory is not None and need > memory:
                return f"device {name} needs {need} bytes, its memory_bytes is {memory}"
        return None

    @property
    def fits(self) -> bool | None:
        """Return whether every device can hold its shards; None if no memory size is known."""
        if all(shard.device.memory_bytes is None for shard in self.shards):
            return None
        return self.reason is None

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
