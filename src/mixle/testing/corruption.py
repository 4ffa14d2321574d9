"""Wrong numbers at a chosen place of an E-step: what a worker reads, computes, or hands over."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mixle.testing.numbers import altered, count_numbers, flip_bytes, flipped, set_bit

if TYPE_CHECKING:
    from mixle.testing.fault import Fault
    from mixle.testing.numbers import Change
    from mixle.utils.parallel.folding.shards import Shard

__all__ = ["Corruption"]

#: What is wrong, by the point of `ChaosPlan.corrupt`.
PLACES = {"before": "encoded", "mid_update": "responsibilities", "after": "statistic", "reply": "wire"}


@dataclass(frozen=True)
class Corruption:
    """A wrong number.

    Attributes
    ----------
    place : str
        "encoded", "model", "log_densities", "responsibilities", "statistic", "payload", "wire", "fold" or "m_step".
    pick : float
        Which number, as a fraction of how many there are.
    bits : tuple of int
        The bits that are flipped.
    how : str
        "flip"; "stuck": the bit is set; "row": another row is read.
    number : int or None
        Which number, counted, instead of `pick`.
    """

    place: str
    pick: float = 0.0
    bits: tuple[int, ...] = (54,)
    how: str = "flip"
    number: int | None = None

    @classmethod
    def planned(cls, fault: Fault) -> Corruption:
        """Return what a fault of a plan says."""
        detail = dict(fault.detail)
        if "corruption" in detail:
            return detail["corruption"]  # type: ignore[no-any-return]
        number, bit = divmod(detail["bit"], 64)
        return cls(PLACES[fault.at], bits=(bit,), number=number)

    def place_in(self, total: int) -> int:
        """Return which of so many numbers."""
        return int(self.pick * total) if self.number is None else self.number % total

    def change(self) -> Change:
        """Return what happens to a number."""
        return set_bit(self.bits[0]) if self.how == "stuck" else flipped(*self.bits)

    def of(self, value: Any) -> Any:
        """Return a copy of a value with a wrong number; one without numbers as it is."""
        total = count_numbers(value)
        return altered(value, self.place_in(total), self.change()) if total else value

    def of_shard(self, shard: Shard) -> Shard:
        """Return a shard that is read wrongly."""
        at = int(self.pick * len(shard.chunks))
        chunk = shard.chunks[at]
        payload = self._other_row(chunk) if self.how == "row" else self.of(chunk.payload)
        return replace(shard, chunks=(*shard.chunks[:at], replace(chunk, payload=payload), *shard.chunks[at + 1 :]))

    def _other_row(self, chunk: Any) -> Any:
        """Return a payload in which the numbers of one row are those of another one."""
        import copy

        import numpy as np

        row = int(self.pick * chunk.count)
        payload = copy.deepcopy(chunk.payload)
        seen: list[Any] = []

        def walk(value: Any) -> Any:
            if isinstance(value, np.ndarray) and value.ndim and len(value) == chunk.count:
                value = value.copy()
                value[row] = value[(row + 1 + chunk.count // 2) % chunk.count]
                return value
            if isinstance(value, tuple):
                items = [walk(item) for item in value]
                return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
            for name, item in list(getattr(value, "__dict__", {}).items()):
                if not any(item is one for one in seen):
                    seen.append(item)
                    object.__setattr__(value, name, walk(item))
            return value

        return walk(payload)

    def of_outcome(self, outcome: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return what a task hands over, with a wrong statistic."""
        return (self.of(outcome[0]), *outcome[1:])

    @contextlib.contextmanager
    def within(self) -> Iterator[list[int]]:
        """Let the next block that this thread computes hold a wrong number; the list says whether one was met."""
        from mixle.stats.stacking.walk import Walk

        met: list[int] = []
        if self.place not in {"log_densities", "responsibilities"}:
            yield met
            return
        name = "log_densities" if self.place == "log_densities" else "blocks"
        original, thread = getattr(Walk, name), threading.get_ident()

        def spoiled(walk: Any) -> Iterator[Any]:
            for item in original(walk):
                if not met and threading.get_ident() == thread:
                    met.append(1)
                    start, stop, numbers = item[:3]
                    numbers = numbers[:, : stop - start]
                    self._spoil(numbers)
                yield item

        setattr(Walk, name, spoiled)
        try:
            yield met
        finally:
            setattr(Walk, name, original)

    def _spoil(self, numbers: Any) -> None:
        import numpy as np

        row, column = divmod(self.place_in(numbers.size), numbers.shape[1])
        self.change()(numbers[row, column : column + 1].view(np.uint64))


def spoil_next_frame(corruption: Corruption) -> None:
    """Flip a bit of the next frame that this worker sends, after its checksums were made."""
    from mixle.utils.parallel.transports.process.wire import FrameWriter

    original = FrameWriter.put

    def put(self: Any, parts: Any) -> None:
        FrameWriter.put = original  # type: ignore[method-assign] # once
        parts = [*parts]
        words = sum(len(part) for part in parts) // 8
        original(self, flip_bytes(parts, corruption.place_in(words) * 64 + corruption.bits[0]))

    FrameWriter.put = put  # type: ignore[method-assign]
