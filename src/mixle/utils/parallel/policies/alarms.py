"""What a check of a round found, besides two workers that disagree."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Alarm"]


@dataclass(frozen=True)
class Alarm:
    """One check that failed.

    Attributes
    ----------
    round : int
        Number of the audit, from 1.
    shard : int
        The shard; -1 where it is none.
    worker : int
        Whose work it was; -1 is the driver.
    check : str
        "rows" (the encoded rows at rest have another digest), "model" (the worker's copy of the model has), "sums"
        (statistics do not add up to the data's own, or log-densities to the model's), "wire" (a frame's checksum),
        "fold", "M-step", "evidence".
    outcome : str
        What was done.
    """

    round: int
    shard: int
    worker: int
    check: str
    outcome: str

    def __str__(self) -> str:
        where = f"shard {self.shard}, " if self.shard >= 0 else ""
        who = f"worker {self.worker}" if self.worker >= 0 else "driver"
        return f"round {self.round}, {where}{who}: {self.check}: {self.outcome}"
