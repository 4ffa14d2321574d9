"""Mixtures, hidden Markov models and records of mixed types, fitted by EM on one core or many with the same bits."""

__version__ = "1.0.0.dev0"

#: Loaded when first used, as in ``mixle.inference.optimize``: importing the package costs nothing.
_LAZY = {
    "errors": "mixle.errors",
    "inference": "mixle.inference",
    "stats": "mixle.stats",
    "telemetry": "mixle.telemetry",
    "utils": "mixle.utils",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    __import__(_LAZY[name])
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
