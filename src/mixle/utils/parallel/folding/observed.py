"""What every handle tells of its rounds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mixle.errors import BackendError
from mixle.utils.parallel.folding.protocol import is_encoded_data_handle
from mixle.utils.parallel.observing.rounds import RoundLog

if TYPE_CHECKING:
    from mixle.telemetry import Telemetry
    from mixle.utils.parallel.folding.protocol import EncodedDataHandle
    from mixle.utils.parallel.folding.transport import Transport
    from mixle.utils.parallel.observing.records import RankRecord
    from mixle.utils.parallel.observing.report import FitReport

__all__ = ["Observed", "delivered"]


class Observed:
    """The records of a handle."""

    _log: RoundLog
    transport: Transport

    def _keep_log(self, transport: Transport) -> None:
        """Begin a log, or go on with that of an `Observe` policy."""
        log = getattr(transport, "log", None)
        self._log = log if isinstance(log, RoundLog) else RoundLog()

    @property
    def records(self) -> list[RankRecord]:
        """One record per rank and E-step; the phases in `extra` add up to the wall time of the round."""
        return self._log.records

    def report(self) -> FitReport:
        """Return a summary of all rounds so far; as the last line of a notebook's cell it is a page."""
        from mixle.utils.parallel.observing.report import fit_report

        return replace(fit_report(self.records), notes=tuple(getattr(self.transport, "notes", ())))

    def observe(self, telemetry: Telemetry | None = None, run_id: str | None = None) -> None:
        """Send records to `telemetry` from now on, tagged with `run_id`; None leaves what is set.

        Parameters
        ----------
        telemetry : Telemetry, optional
            The recorder.
        run_id : str, optional
            The tag.
        """
        if telemetry is not None:
            self._log.telemetry = telemetry
        if run_id is not None:
            self._log.run_id = run_id


def delivered(handle: Any, backend: Any, telemetry: Telemetry | None, run_id: str | None) -> EncodedDataHandle:
    """Return what a backend made, told where its records go; a foreign handle keeps none and says so."""
    if not is_encoded_data_handle(handle):
        kind = type(handle).__name__
        raise TypeError(
            f"backend {backend!r} returned a {kind}, which lacks the pysp_* methods; its factory must return a handle"
        )
    if telemetry is not None or run_id is not None:
        if not hasattr(handle, "observe"):
            raise BackendError(f"a {type(handle).__name__} keeps no records: leave out telemetry and run_id")
        handle.observe(telemetry, run_id)
    return handle  # type: ignore[no-any-return] # told by structure
