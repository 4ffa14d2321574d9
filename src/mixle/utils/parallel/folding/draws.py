"""One uniform number per row, a function of the seed and the row's position alone.

The number of row `i` is word `i` of ``numpy.random.Philox(key=seed)`` (J. K. Salmon et al., "Parallel random numbers:
as easy as 1, 2, 3", SC 2011), so every sharding of the same data draws the same numbers.
"""

from __future__ import annotations

import numpy as np

__all__ = ["draws"]

WORDS = 4
BLOCK = 1 << 16
SKIP_LIMIT = 24
_UNIT = 2.0**-53


def draws(seed: int, positions: range) -> np.ndarray:
    """Return the draws of the rows at `positions`.

    Parameters
    ----------
    seed : int
        Key of the generator, 0 ≤ seed < 2**64.
    positions : range
        Row positions, ascending.

    Returns
    -------
    ndarray of float64, shape (len(positions),)
        Uniform in [0, 1).

    Examples
    --------
    >>> bool((draws(1, range(9))[2::3] == draws(1, range(2, 9, 3))).all())
    True
    """
    if not len(positions):
        return np.empty(0)
    step = positions.step if len(positions) > 1 else 1
    words = _walk(seed, positions[0], len(positions), step) if step <= SKIP_LIMIT else _jump(seed, positions)
    return (words >> np.uint64(11)) * _UNIT


def _walk(seed: int, start: int, count: int, step: int) -> np.ndarray:
    """Draw every word from `start` on, block by block, and keep one in `step`."""
    from numpy.random import Philox

    generator = Philox(key=seed)
    generator.advance(start // WORDS)
    generator.random_raw(start % WORDS)
    words = np.empty(count, np.uint64)
    block = max(1, BLOCK // step)
    for first in range(0, count, block):
        last = min(first + block, count)
        words[first:last] = generator.random_raw((last - first) * step)[::step]
    return words


def _jump(seed: int, positions: range) -> np.ndarray:
    """Compute only the wanted words: the generator written over arrays, one counter per row."""
    words = np.empty(len(positions), np.uint64)
    for first in range(0, len(positions), BLOCK):
        part = positions[first : first + BLOCK]
        where = np.arange(part.start, part.start + part.step * len(part), part.step, dtype=np.uint64)
        words[first : first + len(part)] = _philox(seed, where)
    return words


def _philox(seed: int, where: np.ndarray) -> np.ndarray:
    """Return the words at `where` (uint64), by ten rounds of Philox-4x64 on their counters."""
    zero = np.zeros_like(where)
    x = [where // np.uint64(WORDS) + np.uint64(1), zero, zero, zero]
    key = [seed & 0xFFFFFFFFFFFFFFFF, 0]
    for _ in range(10):
        high0, low0 = _multiply(x[0], 0xD2E7470EE14C6C93)
        high1, low1 = _multiply(x[2], 0xCA5A826395121157)
        x = [high1 ^ x[1] ^ np.uint64(key[0]), low1, high0 ^ x[3] ^ np.uint64(key[1]), low0]
        key = [(key[0] + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF, (key[1] + 0xBB67AE8584CAA73B) & 0xFFFFFFFFFFFFFFFF]
    lane = where % np.uint64(WORDS)
    result: np.ndarray = np.choose(lane.astype(np.intp), x)
    return result


def _multiply(a: np.ndarray, factor: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the high and low halves of the 128-bit products ``a * factor``."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    b_low, b_high = np.uint64(factor & 0xFFFFFFFF), np.uint64(factor >> 32)
    a_low, a_high = a & mask, a >> half
    low = a_low * b_low
    middle = a_high * b_low + (low >> half)
    other = a_low * b_high + (middle & mask)
    return a_high * b_high + (middle >> half) + (other >> half), a * np.uint64(factor)
