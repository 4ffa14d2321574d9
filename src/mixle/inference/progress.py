"""The progress lines of a fit."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mixle.inference.stopping import Verdict

__all__ = ["Progress"]

_LIKELIHOOD = "Iteration %d: ln[p_mat(Data|Model)]=%e, ln[p_mat(Data|Model)]-ln[p_mat(Data|PrevModel)]=%e"
_PENALISED = "Iteration %d: penalized-LL=%e, dpenalized-LL=%e"
_VALIDATION = ", ln[p_mat(Valid Data|Model)]=%e"


@dataclass(frozen=True)
class Progress:
    """Writes every `every`-th iteration and the converged one.

    Parameters
    ----------
    out : object or None
        Where to ``write``; None is silent.
    every : int
        Period; 0 writes the converged line only.
    penalised : bool
        Whether the objective is a penalised log-likelihood.
    """

    out: Any = None
    every: int = 1
    penalised: bool = False

    @classmethod
    def choose(cls, out: Any, print_iter: int | None, *, penalised: bool = False) -> Progress:
        """Return the progress that the arguments of `optimize` ask for: `print_iter` alone means standard output."""
        if out is None and print_iter is not None:
            out = sys.stdout
        return cls(out, 1 if print_iter is None else print_iter, penalised)

    def step(self, iteration: int, objective: float, verdict: Verdict, validation: float | None) -> None:
        """Write the line of one iteration if it is due."""
        if self.out is None or not (verdict.converged or (self.every and iteration % self.every == 0)):
            return
        line = (_PENALISED if self.penalised else _LIKELIHOOD) % (iteration, objective, verdict.gain)
        if validation is not None:
            line += _VALIDATION % validation
        self.out.write(line + "\n")
