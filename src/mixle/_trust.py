"""Whether the statistics that are handed on come out of this library: those are not looked at before they are used."""

from __future__ import annotations

import threading

__all__ = ["HERE", "trusted"]


class _Here(threading.local):
    """Of this thread: whether it is `trusted`, and `inside` a call that a refusal undoes."""

    trusted = inside = False


HERE = _Here()


class trusted:  # noqa: N801 - read as a statement
    """A block whose statistics are this library's own.

    Examples
    --------
    >>> from mixle.stats import PoissonEstimator
    >>> accumulator = PoissonEstimator().accumulator_factory().make()
    >>> with trusted():
    ...     accumulator.combine((2.0, 5.0)).value()
    (2.0, 5.0)
    """

    def __enter__(self) -> None:
        self.before, HERE.trusted = HERE.trusted, True

    def __exit__(self, *_: object) -> None:
        HERE.trusted = self.before
