"""Threads along the component axis: the same tiles, walked side by side.

What is shared out are whole tiles of the component axis, whose products have the same shapes and operands whoever
computes them. So a model that is split over threads has the bits of the unsplit one, whatever the cut.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from mixle._limits import one_blas_thread

__all__ = ["each", "lanes"]


class _Crew(NamedTuple):
    """A pool of ``count - 1`` threads; the caller is the last one."""

    pool: Any
    threads: int


_ACTIVE = threading.local()


@contextmanager
def lanes(count: int) -> Iterator[None]:
    """Walk component axes in this thread on up to `count` threads.

    Examples
    --------
    >>> with lanes(2):
    ...     each(lambda part: None, [(0, 16), (16, 32)])
    """
    if count < 2 or getattr(_ACTIVE, "crew", None) is not None:
        yield
        return
    from concurrent.futures import ThreadPoolExecutor

    with one_blas_thread(), ThreadPoolExecutor(count - 1, thread_name_prefix="mixle-lane") as pool:
        _ACTIVE.crew = _Crew(pool, count)
        try:
            yield
        finally:
            _ACTIVE.crew = None


def each(function: Callable[[Any], None], parts: Sequence[Any]) -> None:
    """Call `function` with each part: in order here, or in consecutive groups on the lanes of this thread.

    Calls must not touch each other's results. The first error, in the order of the parts, is raised after all ended.
    """
    crew: _Crew | None = getattr(_ACTIVE, "crew", None)
    if crew is None or len(parts) < 2:
        for part in parts:
            function(part)
        return
    count = min(crew.threads, len(parts))
    groups = [parts[i * len(parts) // count : (i + 1) * len(parts) // count] for i in range(count)]
    waiting = [crew.pool.submit(_run, function, group) for group in groups[1:]]
    errors: list[BaseException | None] = []
    try:
        for part in groups[0]:
            function(part)
    except Exception as error:  # noqa: BLE001 - raised below, when nobody works on the buffers any more
        errors.append(error)
    errors.extend(done.exception() for done in waiting)
    for found in errors:
        if found is not None:
            raise found


def _run(function: Callable[[Any], None], group: Sequence[Any]) -> None:
    with one_blas_thread(), np.errstate(all="ignore"):
        for part in group:
            function(part)
