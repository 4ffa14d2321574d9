"""Work space that passes over batches borrow and give back.

An E-step that asks the system for its megabytes anew each time spends more time on the system's page faults than on the
recursions. What is given back is kept, up to `KEPT` bytes in a process, and says nothing: every element is written
before it is read.
"""

from __future__ import annotations

import threading

import numpy as np

__all__ = ["KEPT", "Scratch"]

#: Bytes kept at most.
KEPT = 1 << 27
#: Columns of a buffer beyond those asked for, that are zero.
TAIL = 8

_lock = threading.Lock()
_free: list[np.ndarray] = []


class Scratch:
    """Arrays borrowed until this object goes."""

    def __init__(self) -> None:
        self._mine: list[np.ndarray] = []

    def __del__(self) -> None:
        with _lock:
            _free.extend(self._mine)
            while sum(raw.nbytes for raw in _free) > KEPT:
                _free.pop(0)

    def borrow(self, count: int) -> np.ndarray:
        """Return `count` floats from the start of a cache line, of any value."""
        size = count * 8 + 64
        with _lock:
            fitting = [i for i, raw in enumerate(_free) if size <= raw.nbytes <= 4 * size]
            raw = _free.pop(min(fitting, key=lambda i: _free[i].nbytes)) if fitting else None
        if raw is None:
            raw = np.empty(size, np.uint8)
        self._mine.append(raw)
        offset = -raw.ctypes.data % 64
        return raw[offset : offset + count * 8].view(float)

    def buffer(self, rows: int, columns: int) -> np.ndarray:
        """Return an array whose rows start on cache lines, an odd number of them apart; its last 8 columns are zero."""
        stride = (-(-columns // 8) | 1) * 8
        whole = self.borrow(rows * stride).reshape(rows, stride)
        whole[:, columns - TAIL :] = 0.0
        return whole[:, :columns]
