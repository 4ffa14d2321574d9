"""Facade: everything that fits, under the path that user code imports from."""

from __future__ import annotations

from mixle._facade import publish
from mixle.inference.best import best_of
from mixle.inference.em import optimize
from mixle.inference.inferring import ROW_RULES, Inferred, infer
from mixle.inference.live import FitStatus
from mixle.inference.provenance import EMStep, FitProvenance
from mixle.inference.rowwise import estimate, initialize
from mixle.inference.schedules import constant, forgetting, harmonic, posterior_carry
from mixle.inference.sequences import seq_estimate, seq_initialize

__all__ = [
    "ROW_RULES",
    "EMStep",
    "FitProvenance",
    "FitStatus",
    "Inferred",
    "best_of",
    "constant",
    "estimate",
    "forgetting",
    "harmonic",
    "infer",
    "initialize",
    "optimize",
    "posterior_carry",
    "seq_estimate",
    "seq_initialize",
]

publish(__name__, best_of, estimate, infer, initialize, optimize, seq_estimate, seq_initialize)
