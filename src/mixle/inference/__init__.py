"""Fitting: EM loops, starts, one-pass steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mixle.errors import ImpossibleEvidenceError
    from mixle.inference.best import best_of
    from mixle.inference.bootstrapping import Bootstrap, bootstrap
    from mixle.inference.conditioning import conditional, marginal
    from mixle.inference.em import optimize
    from mixle.inference.imputing import impute
    from mixle.inference.inferring import ROW_RULES, Inferred, infer
    from mixle.inference.live import FitStatus
    from mixle.inference.provenance import EMStep, FitProvenance
    from mixle.inference.rowwise import estimate, initialize
    from mixle.inference.selecting import Candidate, Selection, select
    from mixle.inference.sequences import seq_estimate, seq_initialize
    from mixle.inference.streaming import IncrementalEstimator, StreamingEstimator
    from mixle.inference.using import aic, bic, icl, posterior, predict, score

__all__ = [
    "ROW_RULES",
    "Bootstrap",
    "Candidate",
    "EMStep",
    "FitProvenance",
    "FitStatus",
    "ImpossibleEvidenceError",
    "IncrementalEstimator",
    "Inferred",
    "Selection",
    "StreamingEstimator",
    "aic",
    "best_of",
    "bic",
    "bootstrap",
    "conditional",
    "estimate",
    "icl",
    "impute",
    "infer",
    "initialize",
    "marginal",
    "optimize",
    "posterior",
    "predict",
    "score",
    "select",
    "seq_estimate",
    "seq_initialize",
]

#: What uses a fitted model, by home; the rest is in `estimation`.
_HOMES = {"Bootstrap": "bootstrapping", "bootstrap": "bootstrapping"}
_HOMES |= {"ImpossibleEvidenceError": "conditioning"}
_HOMES |= dict.fromkeys(("IncrementalEstimator", "StreamingEstimator"), "streaming")
_HOMES |= {"conditional": "conditioning", "marginal": "conditioning", "impute": "imputing"}
_HOMES |= dict.fromkeys(("Candidate", "Selection", "select"), "selecting")
_HOMES |= dict.fromkeys(("aic", "bic", "icl", "posterior", "predict", "score"), "using")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"mixle.inference.{_HOMES.get(name, 'estimation')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
