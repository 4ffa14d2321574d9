"""Fitting: EM loops, starts, one-pass steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mixle.inference.best import best_of
    from mixle.inference.em import optimize
    from mixle.inference.inferring import ROW_RULES, Inferred, infer
    from mixle.inference.live import FitStatus
    from mixle.inference.provenance import EMStep, FitProvenance
    from mixle.inference.rowwise import estimate, initialize
    from mixle.inference.sequences import seq_estimate, seq_initialize

__all__ = [
    "ROW_RULES",
    "EMStep",
    "FitProvenance",
    "FitStatus",
    "Inferred",
    "best_of",
    "estimate",
    "infer",
    "initialize",
    "optimize",
    "seq_estimate",
    "seq_initialize",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mixle.inference import estimation

    return getattr(estimation, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
