"""What a fit says while it runs: the documented lines, and live progress."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mixle.stats.refusals import shown

if TYPE_CHECKING:
    from mixle.inference.live import Live
    from mixle.inference.stopping import StopRule, Verdict

__all__ = ["Progress", "live_of"]

_LIKELIHOOD = "Iteration %d: ln[p_mat(Data|Model)]=%e, ln[p_mat(Data|Model)]-ln[p_mat(Data|PrevModel)]=%e"
_PENALISED = "Iteration %d: penalized-LL=%e, dpenalized-LL=%e"
_VALIDATION = ", ln[p_mat(Valid Data|Model)]=%e"


@dataclass(frozen=True)
class Progress:
    """Writes every `every`-th iteration and the converged one, and shows all of them live.

    Parameters
    ----------
    out : object or None
        Where to ``write``; None is silent.
    every : int
        Period; 0 writes the converged line only.
    penalised : bool
        Whether the objective is a penalised log-likelihood.
    live : Live or None
        What is shown while the fit runs.
    """

    out: Any = None
    every: int = 1
    penalised: bool = False
    live: Live | None = None

    @classmethod
    def choose(cls, out: Any, print_iter: int | None, *, penalised: bool = False, live: Live | None = None) -> Progress:
        """Return the progress that the arguments of `optimize` ask for: `print_iter` alone means standard output."""
        if out is None and print_iter is not None:
            out = sys.stdout
        if out is not None and not callable(getattr(out, "write", None)):
            raise TypeError(f"out is {shown(out)}, which has no write(); pass sys.stdout, an open file, or None")
        return cls(out, 1 if print_iter is None else print_iter, penalised, live)

    def showing(self) -> AbstractContextManager[None]:
        """Return a context at whose end what is shown live is ended."""
        return nullcontext() if self.live is None else self.live.showing()

    def begin(self, rows: int | None) -> None:
        """Note that a start was drawn for so many rows."""
        if self.live is not None:
            self.live.begin(rows)

    def write(self, text: str) -> None:
        """Write to `out`, if there is one, with nothing live in the way."""
        if self.out is not None:
            if self.live is not None:
                self.live.sink.clear()
            self.out.write(text)

    def step(self, iteration: int, objective: float, verdict: Verdict, validation: float | None) -> None:
        """Write the line of one iteration if it is due, and show where the fit is."""
        if self.out is not None and (verdict.converged or (self.every and iteration % self.every == 0)):
            line = (_PENALISED if self.penalised else _LIKELIHOOD) % (iteration, objective, verdict.gain)
            if validation is not None:
                line += _VALIDATION % validation
            self.write(line + "\n")
        if self.live is not None:
            self.live.step(iteration, objective, verdict.gain)


def live_of(settings: dict[str, Any], rule: StopRule, deadline: float | None) -> Live | None:
    """Return what the arguments of `optimize` or `best_of` want to be shown while the fit runs."""
    if settings.get("progress") is None:
        return None
    from mixle.inference.live import Live
    from mixle.inference.sinks import choose

    sink = choose(settings["progress"])
    if sink is None:
        return None
    return Live(sink, settings["max_its"], rule, deadline, trials=settings.get("trials", 1))
