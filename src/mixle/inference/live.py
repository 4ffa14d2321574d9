"""A fit while it runs: how far it is, how fast, and how long it may still take."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from mixle.inference.stopping import StopRule, rounding

__all__ = ["FitStatus", "Live", "Sink"]


class FitStatus(NamedTuple):
    """Where a fit is, as a callable given as `progress` is told.

    Attributes
    ----------
    iteration, max_its : int
        Iterations that were run, and their cap.
    objective, gain : float
        Objective of the last proposed model, and what it gained.
    elapsed : float
        Seconds since the start of this trial was drawn.
    rows_per_second : float or None
        Rows times iterations per second; None if the handle does not tell its rows.
    eta : float or None
        Seconds that the trial may still take: to the cap or to `max_seconds`, or less where the gains of the last
        iterations, continued as a geometric series, fall below `delta` or `tol` earlier. None before the second gain.
    trial, trials : int
        Start of `best_of`, from 1, and their number.
    finished : bool
        Whether this is the last update.
    components : int or None
        Number of components that a search is fitting; None outside of one.
    """

    iteration: int
    max_its: int
    objective: float
    gain: float
    elapsed: float
    rows_per_second: float | None
    eta: float | None
    trial: int = 1
    trials: int = 1
    finished: bool = False
    components: int | None = None


class Sink(Protocol):
    """Where updates go."""

    period: float

    def show(self, status: FitStatus) -> None:
        """Show an update."""

    def clear(self) -> None:
        """Make room for something else."""

    def end(self, status: FitStatus | None) -> None:
        """Show the last update, if there was any, and leave."""


@dataclass
class Live:
    """Tells a sink how a fit goes, ten times a second at most, its first and its last update in any case.

    Parameters
    ----------
    sink : Sink
        Where updates go.
    max_its : int
        Cap on the iterations.
    rule : StopRule, optional
        When the fit has converged; by default never.
    deadline : float or None
        Time of ``time.monotonic`` after which no further iteration begins.
    trials : int
        Number of starts.
    clock : callable
        Seconds of any steady clock.
    """

    sink: Sink
    max_its: int
    rule: StopRule = field(default_factory=lambda: StopRule(None))
    deadline: float | None = None
    trials: int = 1
    clock: Callable[[], float] = time.monotonic
    _trial: int = 0
    _rows: int | None = None
    _began: float = 0.0
    _shown: float = -math.inf
    _before: int | None = None  # iterations of a checkpoint, which took their time elsewhere
    _gains: list[float] = field(default_factory=list)
    _last: FitStatus | None = None

    def begin(self, rows: int | None) -> None:
        """Note that a trial begins, over so many rows."""
        self._trial, self._rows, self._began = self._trial + 1, rows, self.clock()
        self._gains, self._before = [], None

    def step(self, iteration: int, objective: float, gain: float) -> None:
        """Note an iteration, and show it if it is time."""
        now = self.clock()
        elapsed = max(now - self._began, 0.0)
        self._gains = [*self._gains[-4:], gain]
        if self._before is None:
            self._before = iteration - 1
        done = iteration - self._before
        rate = None if self._rows is None or elapsed <= 0.0 else self._rows * done / elapsed
        eta = self._eta(iteration, objective, elapsed / done, now)
        self._last = FitStatus(
            iteration, self.max_its, objective, gain, elapsed, rate, eta, self._trial, max(self.trials, self._trial)
        )
        if now - self._shown >= self.sink.period:
            self._shown = now
            self.sink.show(self._last)

    @contextlib.contextmanager
    def showing(self) -> Iterator[None]:
        """Show the last update on the way out, also after an interrupt; after another error only tidy up."""
        try:
            yield
        except Exception:
            self.sink.end(None)
            raise
        except BaseException:
            self._end()
            raise
        else:
            self._end()

    def _end(self) -> None:
        last, self._last = self._last, None
        self.sink.end(last)

    def _eta(self, iteration: int, objective: float, each: float, now: float) -> float | None:
        if len(self._gains) < 2:
            return None
        left = float(self.max_its - iteration)
        first, gain = self._gains[0], self._gains[-1]
        if self.rule.settles and first > gain > 0.0 and math.isfinite(first):
            slope = math.log(gain / first) / (len(self._gains) - 1)
            least = max(self.rule.threshold(objective), rounding(objective, self.rule.precision))
            left = min(left, max(math.ceil(math.log(least / gain) / slope), 0.0))
        seconds = left * each
        return seconds if self.deadline is None else max(min(seconds, self.deadline - now), 0.0)
