"""Identities of the E-step, checked on some blocks while it runs, from what it computes anyway.

The log-densities of an exponential family are linear in its sufficient statistics, ``L = E F`` with natural
parameters E (K, P) and features F (P, n). Summed over a block, ``Σ_n L = E (Σ_n F)``; weighted by responsibilities,
``Σ_n R ∘ L = Σ_p E ∘ S`` with the statistics ``S = R Fᵀ``. This is the checksum of a matrix product of K.-H. Huang and
J. A. Abraham (IEEE Trans. Comput. C-33, 1984). Labels that are looked up in a table add the table's entries times how
often each occurs. Both sides may differ by rounding only: at most ``64 u Σ|terms|`` per
block of at most 2048 rows (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2002, with the
pairwise or blocked sums that are used here; the worst seen is 10 u).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from mixle.stats.domains import LARGEST_FLOAT
from mixle.stats.precision import FLOAT32, FLOAT64

__all__ = ["Watch", "current", "sizes_wanted", "sizing", "watching"]

BOUND = 64.0  # units of the precision that is computed in
#: One block in so many is checked; which ones moves on with the phase, so that all are in so many rounds.
SUMS, CROSS = 16, 128  # the latter a multiple of the former
_EMPTY, _TOLD = np.empty((0, 0)), np.ones(0, bool)

_state = threading.local()


class Watch:
    """What the identities say of the blocks of one E-step.

    Parameters
    ----------
    phase : int
        Which blocks are checked; the number of the round.

    Attributes
    ----------
    worst : float
        Largest residual so far in units of its bound, of those that were not small at first sight; above 1, or NaN, a
        number is wrong.
    checked : int
        Number of identities that were checked.
    """

    def __init__(self, phase: int) -> None:
        self.worst, self.checked = 0.0, 0
        self._turn, self._bound = phase, BOUND * FLOAT64.unit
        self._e = self._size = _EMPTY
        self._told = _TOLD
        #: What is left to check of the block that was last scored, if it is its turn: its statistics, its densities.
        self.kept: tuple[np.ndarray, np.ndarray] | None = None
        self.due: tuple[np.ndarray, np.ndarray, Callable[[], np.ndarray]] | None = None

    def __enter__(self) -> Self:
        self._before, _state.watch = current(), self
        return self

    def __exit__(self, *error: object) -> None:
        _state.watch = self._before

    def turns(self) -> bool:
        """Begin a block; return whether it is its turn."""
        self.kept = self.due = None
        self._turn = turn = self._turn + 1
        return not turn % SUMS

    def scored(self, e: np.ndarray, f: np.ndarray, out: np.ndarray, again: bool) -> None:
        """Check ``out = e @ f`` (K, n) of a block whose turn it is; with `again` not before `used` looks at it."""
        self._bound = BOUND * (FLOAT64 if out.dtype == FLOAT64.dtype else FLOAT32).unit
        if not self._turn % CROSS:
            copy = _scratch("copy", out.size).reshape(out.shape)
            np.copyto(copy, out)
            self.kept = e, copy
        ones = _scratch("ones", out.shape[1])
        if e is not self._e:
            self._e, self._size = e, np.abs(e)
            # a variance that underflowed leaves no identity
            self._told = np.logical_and.reduce(self._size < LARGEST_FLOAT, axis=1)
        sums = f @ ones
        expected, scale = e @ sums, self._size @ np.abs(sums)
        self.due = expected, scale, lambda: np.asarray(self._size @ (np.abs(f) @ ones))
        self.checked += 1
        if not again:
            self._note(out @ ones - expected, *self.due[1:])

    def labelled(self, table: np.ndarray, rows_of: Any) -> None:
        """Note what a table (L, K) adds to the block that was last scored, `rows_of` (L, n) being its rows' labels."""
        if self.due is None:
            return
        expected, scale, terms = self.due
        counts = rows_of @ _scratch("ones", rows_of.shape[1])
        more = counts @ np.abs(table)
        self.due = expected + counts @ table, scale + more, lambda: terms() + more

    def used(self, out: np.ndarray, whole: bool) -> None:
        """Check the log-densities (K, n) of the block that was last scored once more, where they are used.

        `whole` tells that nothing was added to them but what `scored` and `labelled` know.
        """
        due, self.due = self.due, None
        if due is not None and whole:
            expected, scale, terms = due
            self._note(out @ _scratch("ones", out.shape[1]) - expected, scale, terms)

    def gathered(self, s: np.ndarray, f: np.ndarray, r: np.ndarray) -> None:
        """Check ``s = r @ f.T`` (K, P) of the block that was last scored, if its log-densities were kept."""
        kept, self.kept = self.kept, None
        if kept is None or kept[1].shape != r.shape:
            return
        e, scores = kept
        products = e * s
        residual = np.einsum("kn,kn->k", r, scores) - np.add.reduce(products, axis=1)

        def terms() -> np.ndarray:
            return np.asarray(np.add.reduce(np.abs(e) * (r @ np.abs(f).T), axis=1))

        self.checked += 1
        self._note(residual, np.add.reduce(np.abs(products), axis=1), terms)

    def _note(self, residual: np.ndarray, scale: np.ndarray, terms: Callable[[], np.ndarray]) -> None:
        """Note a residual; `scale` is at most the terms' sum, which is only computed if `scale` does not explain it."""
        error = np.abs(residual)
        if len(self._told) == len(error) and not self._told.all():
            error[~self._told] = 0.0
        if (error <= self._bound * scale).all():
            return
        with np.errstate(all="ignore"):
            ratio = np.where(error == 0.0, 0.0, error / (self._bound * terms()))
        worst = float(np.max(ratio, initial=0.0))
        if not worst <= self.worst:
            self.worst = worst


def watching(phase: int) -> Watch:
    """Check the identities of every E-step that this thread runs meanwhile.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution, MixtureDistribution
    >>> model = MixtureDistribution([GaussianDistribution(0.0, 1.0), GaussianDistribution(4.0, 1.0)], [0.5, 0.5])
    >>> rows = model.dist_to_encoder().seq_encode([0.5, 3.5, 4.5])
    >>> with watching(15) as watch:
    ...     _ = model.kernel().accumulate(rows)
    >>> watch.checked, watch.worst <= 1.0
    (1, True)
    """
    return Watch(phase)


@contextmanager
def sizing() -> Iterator[None]:
    """Let the linear features of every E-step that this thread runs meanwhile count by their size, without a sign.

    Of a mixture of one component, whose responsibilities are one whatever its densities are, the sums are then the
    terms that rounding errors of its own sums are measured by.

    Examples
    --------
    >>> from mixle.stats import MixtureDistribution, VonMisesDistribution
    >>> single = MixtureDistribution([VonMisesDistribution(0.0, 1.0)], [1.0])
    >>> rows = single.dist_to_encoder().seq_encode([1.0, -1.0])
    >>> def sines():
    ...     return round(float(single.kernel().accumulate(rows).slots[0].sums[0, 1]), 3)
    >>> with sizing():
    ...     sized = sines()
    >>> sines(), sized
    (0.0, 1.683)
    """
    before, _state.sizes = sizes_wanted(), True
    try:
        yield
    finally:
        _state.sizes = before


def sizes_wanted() -> bool:
    """Return whether this thread counts linear features by their size."""
    return bool(getattr(_state, "sizes", False))


def _scratch(name: str, size: int) -> np.ndarray:
    """Return an array of ones, or whatever was written to it, that is kept: fresh memory costs more than its use."""
    buffer = getattr(_state, name, None)
    if buffer is None or len(buffer) < size:
        buffer = np.ones(size)
        setattr(_state, name, buffer)
    return buffer[:size]


def current() -> Watch | None:
    """Return the watch of this thread, None if nobody asked for one."""
    watch: Watch | None = getattr(_state, "watch", None)
    return watch
