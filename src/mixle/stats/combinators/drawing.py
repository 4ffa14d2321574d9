"""What samplers of sequences share: lengths, elements of several laws, rows cut from what was drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from mixle.errors import NonGenerativeSequenceError
from mixle.stats.combinators.fields import plain_list
from mixle.stats.combinators.null import NullDistribution
from mixle.stats.contract import DistributionSampler

__all__ = ["WrappingSampler", "counted", "drawn_along", "drawn_lengths", "in_rows"]


class WrappingSampler(DistributionSampler):
    """Sampler of a combinator over one law: that one's sampler, under a seed of its own."""

    #: Where the law stands in the combinator.
    inside: ClassVar[str] = "dist"

    def __init__(self, dist: Any, seed: int | None = None) -> None:
        super().__init__(dist, seed)
        self.child = getattr(dist, self.inside).sampler(self.new_seed())


def drawn_lengths(
    law: Any, sampler: Any, size: int | None, what: str, error: type[Exception] = NonGenerativeSequenceError
) -> list[int]:
    """Return the lengths of `size` rows, of one row if `size` is None.

    Parameters
    ----------
    law, sampler : distribution and its sampler
        Law of the length.
    size : int, optional
        Number of rows.
    what : str
        What is drawn, in a message.
    error : type
        What is raised where there is no law of the length.
    """
    if isinstance(law, NullDistribution):
        raise error(f"{what} cannot be sampled; pass len_dist=")
    return [int(sampler.sample())] if size is None else [int(n) for n in sampler.sample(size)]


def drawn_along(which: np.ndarray, samplers: Sequence[Any]) -> list[Any]:
    """Return a value for each entry of `which`, drawn by the sampler of that number."""
    drawn: list[Any] = [None] * len(which)
    for k, sampler in enumerate(samplers):
        places = np.flatnonzero(which == k).tolist()
        if places:
            for place, value in zip(places, plain_list(sampler.sample(len(places))), strict=True):
                drawn[place] = value
    return drawn


def in_rows(drawn: list[Any], lengths: Sequence[int]) -> list[list[Any]]:
    """Return `drawn` cut into rows of these lengths."""
    ends = np.cumsum(lengths).tolist()
    return [drawn[end - n : end] for end, n in zip(ends, lengths, strict=True)]


def counted(values: Iterable[Any]) -> list[tuple[Any, int]]:
    """Return each value once with its count, in the order in which they came up.

    Values that cannot be looked up, such as vectors, stand one by one.

    Examples
    --------
    >>> counted(["b", "a", "b"])
    [('b', 2), ('a', 1)]
    """
    found = list(values)
    counts: dict[Any, int] = {}
    try:
        for value in found:
            counts[value] = counts.get(value, 0) + 1
    except TypeError:
        return [(value, 1) for value in found]
    return list(counts.items())
