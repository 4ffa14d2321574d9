"""Observing a fit, as a policy: where its records go."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from mixle.utils.parallel.observing.rounds import RoundLog
from mixle.utils.parallel.policies.base import Policy

if TYPE_CHECKING:
    from mixle.telemetry import Telemetry

__all__ = ["Observe"]


class Observe(Policy):
    """Sends a record per rank and round to a recorder, over any transport.

    Every handle keeps its records without being asked; this says where else they go.

    Parameters
    ----------
    telemetry : Telemetry, optional
        The recorder.
    run_id : str, optional
        Tags the records, so that fits that share a recorder are told apart.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator
    >>> from mixle.telemetry import Telemetry
    >>> from mixle.utils.parallel.folding.handle import Handle
    >>> from mixle.utils.parallel.planner import encoded_data
    >>> recorder = Telemetry()
    >>> inner = encoded_data([1.0, 2.0], GaussianEstimator()).transport
    >>> handle = Handle(Observe(recorder, run_id="a").over(inner))
    >>> _ = handle.pysp_seq_estimate(GaussianEstimator(), None)
    >>> handle.close()
    >>> [event.tags["run_id"] for event in recorder.events("em_round")], len(handle.records)
    (['a'], 1)
    """

    order: ClassVar[int] = 4
    log: RoundLog

    def __init__(self, telemetry: Telemetry | None = None, run_id: str | None = None) -> None:
        self.telemetry, self.run_id = telemetry, run_id

    def bind(self) -> None:
        """Begin a log of its own."""
        self.log = RoundLog(self.telemetry, self.run_id)
