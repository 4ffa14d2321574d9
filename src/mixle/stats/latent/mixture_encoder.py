"""Encoding rows for components whose encoders may differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mixle.stats.contract import Column, DataSequenceEncoder
from mixle.stats.stacking.general import PerComponent

__all__ = ["PerComponentEncoder", "mixture_encoder"]


def mixture_encoder(encoders: Sequence[Any]) -> Any:
    """Return the one encoder of all components, or a `PerComponentEncoder` where they differ.

    Components that are themselves mixtures of unlike families get one too: a `PerComponent` payload then always
    belongs to the outermost mixture.
    """
    first = encoders[0]
    if isinstance(first, PerComponentEncoder) or any(encoder != first for encoder in encoders[1:]):
        return PerComponentEncoder(encoders)
    return first


class PerComponentEncoder(DataSequenceEncoder):
    """Encodes rows once per distinct component encoder."""

    def __init__(self, encoders: Sequence[Any]) -> None:
        distinct: list[Any] = []
        which = []
        for encoder in encoders:
            if encoder not in distinct:
                distinct.append(encoder)
            which.append(distinct.index(encoder))
        self.encoders, self.which = tuple(distinct), tuple(which)

    @property
    def row_form(self) -> str:
        """Return the form of a row, as the first encoder has it."""
        return str(getattr(self.encoders[0], "row_form", "value"))

    def seq_encode(self, rows: Sequence[Any]) -> PerComponent:
        """Encode rows for each component."""
        return PerComponent(tuple(encoder.seq_encode(rows) for encoder in self.encoders), self.which)

    def row_count(self, payload: PerComponent) -> int:
        """Return the number of rows."""
        return int(self.encoders[0].row_count(payload.payloads[0]))

    def nbytes(self, payload: PerComponent) -> int:
        """Return the bytes of all distinct payloads."""
        return sum(e.nbytes(p) for e, p in zip(self.encoders, payload.payloads, strict=True))

    def slice(self, payload: PerComponent, start: int, stop: int) -> PerComponent:
        """Return rows ``start:stop``."""
        cut = tuple(e.slice(p, start, stop) for e, p in zip(self.encoders, payload.payloads, strict=True))
        return PerComponent(cut, payload.which)

    def columns(self, payload: PerComponent, start: int, stop: int) -> list[Column] | None:
        """Return the columns of the first encoder that has some."""
        for encoder, part in zip(self.encoders, payload.payloads, strict=True):
            columns: list[Column] | None = encoder.columns(part, start, stop)
            if columns:
                return columns
        return None
