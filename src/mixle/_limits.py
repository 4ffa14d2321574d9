"""One BLAS thread where bits are made: decompositions, and long products, change bits with the thread count."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["one_blas_thread"]


class _Limit:
    """The limit of this process, counted over all threads that hold it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders = 0
        self.modules = -1
        self.libraries: list[Any] = []
        self.found: list[tuple[Any, int]] = []

    def enter(self) -> list[tuple[Any, int]]:
        """Set one thread; return what this thread has to restore by itself."""
        with self.lock:
            if self.holders == 0:
                self._refresh()
            self.holders += 1
            mine: list[tuple[Any, int]] = []
            for library in self.libraries:
                count = library.get_num_threads()
                if count is not None and count != 1:
                    _set(library, 1)
                    (mine if _is_per_thread(library) else self.found).append((library, count))
            return mine

    def leave(self, mine: list[tuple[Any, int]]) -> None:
        """Restore what this thread changed, and what all changed if it is the last one."""
        with self.lock:
            self.holders -= 1
            for library, count in mine:
                _set(library, count)
            if self.holders == 0:
                while self.found:
                    _set(*self.found.pop())

    def _refresh(self) -> None:
        """Look for numerical libraries again if modules were imported since the last look."""
        if self.modules != len(sys.modules):
            from threadpoolctl import ThreadpoolController

            self.libraries = ThreadpoolController().lib_controllers
            self.modules = len(sys.modules)


def _set(library: Any, count: int) -> None:
    """Set a library's threads from any thread.

    threadpoolctl 3.8 lets only the first thread that ever asked change a shared pool and ignores the others; a limit
    that is ignored would change bits.
    """
    getattr(library, "_real_set_num_threads", library.set_num_threads)(count)


def _is_per_thread(library: Any) -> bool:
    """Return whether the library keeps a number for each calling thread (OpenMP) instead of one for the process."""
    return library.user_api == "openmp" or getattr(library, "threading_layer", None) == "openmp"


_LIMIT = _Limit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold the BLAS and OpenMP libraries of this process to one thread.

    Concurrent holders are counted; the last one to leave restores what the first one found. Where one thread is set
    already (in a worker, by its environment) nothing is done. Only libraries that are loaded on entry are held.

    Examples
    --------
    >>> with one_blas_thread():
    ...     pass
    """
    mine = _LIMIT.enter()
    try:
        yield
    finally:
        _LIMIT.leave(mine)
