"""For the tests of users: faults on purpose, leaks told, a suite that backends run.

`ChaosPlan` plans what goes wrong in a fit; `mixle.testing.plugin` is the pytest plugin with the fixtures `chaos_plan`,
`no_leaks` and `mixle_backend`; `BackendConformance` is the suite for transports and handles of other packages;
`mixle.testing.faults` has campaigns of flipped bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mixle.testing.chaos import ChaosPlan, Firing
    from mixle.testing.conformance import BackendConformance
    from mixle.testing.fault import Fault
    from mixle.testing.faults import Report, campaign
    from mixle.testing.leaks import Census

__all__ = ["BackendConformance", "Census", "ChaosPlan", "Fault", "Firing", "Report", "campaign"]

#: Loaded when first used: every run of pytest in an environment with this package imports the plugin.
_HOMES = {
    "BackendConformance": "conformance",
    "Census": "leaks",
    "ChaosPlan": "chaos",
    "Fault": "fault",
    "Firing": "chaos",
    "Report": "faults",
    "campaign": "faults",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
