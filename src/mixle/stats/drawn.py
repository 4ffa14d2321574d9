"""What every sampler is given: a seed, and the number of rows to draw."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from mixle.stats.refusals import shown

if TYPE_CHECKING:
    from numpy.random import RandomState

__all__ = ["check_draws_of", "check_size", "seeded"]


def seeded(seed: Any) -> RandomState:
    """Return the source of draws of a seed.

    Raises
    ------
    ValueError, TypeError
        For what is no seed of ``numpy.random.RandomState``.

    Examples
    --------
    >>> seeded(-1)
    Traceback (most recent call last):
    ValueError: seed must be an int from 0 to 2**32 - 1, or None for a fresh one, not -1
    """
    from numpy.random import RandomState

    try:
        return RandomState(seed)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"seed must be an int from 0 to 2**32 - 1, or None for a fresh one, not {shown(seed)}") from None


def check_size(size: Any) -> int:
    """Return the number of rows to draw as an int of at least 0.

    Raises
    ------
    TypeError
        For what is no whole number.
    ValueError
        For a negative one.
    """
    try:
        number = None if isinstance(size, (bool, np.bool_)) else operator.index(size)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"size must be a whole number of rows, or None for one row alone, not {shown(size)}")
    if number < 0:
        raise ValueError(f"size must be at least 0, not {number}")
    return number


def check_draws_of(cls: Any) -> None:
    """Let the method ``sample`` of a class of samplers check its size first, if the class has one of its own."""
    sample = cls.__dict__.get("sample")
    if sample is None:
        return

    @functools.wraps(sample)
    def checked(self: Any, size: Any = None, *rest: Any, **options: Any) -> Any:
        return sample(self, size if size is None else check_size(size), *rest, **options)

    cls.sample = checked
