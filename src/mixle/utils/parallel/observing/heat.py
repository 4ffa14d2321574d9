"""A small picture of ranks by rounds, as a PNG in a data URI: 500 rounds of 64 ranks take a few kilobytes."""

from __future__ import annotations

import binascii
import struct
import zlib

import numpy as np

__all__ = ["heat_map"]

#: Factors of two either way that the colours cover; steps on each side.
REACH, STEPS = 1.0, 24
SLOW, FAST, GONE = (224, 92, 30), (46, 124, 214), (128, 128, 128)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _palette() -> tuple[bytes, bytes]:
    """Return colours and opacities: fast, typical (clear, so that light and dark pages show through), slow, missing."""
    strength = [abs(step) / STEPS for step in range(-STEPS, STEPS + 1)]
    colours = [FAST] * STEPS + [SLOW] * (STEPS + 1) + [GONE]
    alphas = [round(255 * value**0.75) for value in strength] + [70]
    return bytes(part for colour in colours for part in colour), bytes(alphas)


def heat_map(relative: np.ndarray, most: int = 1200) -> str:
    """Return a data URI of the picture of relative log times, one pixel per rank and round.

    Parameters
    ----------
    relative : ndarray of float64, shape (P, T)
        Logarithm of time over the typical time; NaN where there is no record.
    most : int
        Columns and rows to keep; more are thinned, the slowest of each group kept.

    Examples
    --------
    >>> heat_map(np.zeros((2, 3)))[:22]
    'data:image/png;base64,'
    """
    table = _thinned(_thinned(np.asarray(relative, dtype=np.float64), most).T, most).T
    known = np.isfinite(table)
    scaled = np.clip(np.where(known, table, 0.0) / (np.log(2.0) * REACH), -1.0, 1.0)
    codes = np.where(known, np.rint(scaled * STEPS) + STEPS, 2 * STEPS + 1).astype(np.uint8)
    colours, alphas = _palette()
    height, width = codes.shape
    rows = b"".join(b"\0" + row.tobytes() for row in codes)
    picture = b"\x89PNG\r\n\x1a\n" + b"".join(
        (
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", colours),
            _chunk(b"tRNS", alphas),
            _chunk(b"IDAT", zlib.compress(rows, 9)),
            _chunk(b"IEND", b""),
        )
    )
    return "data:image/png;base64," + binascii.b2a_base64(picture, newline=False).decode("ascii")


def _thinned(table: np.ndarray, most: int) -> np.ndarray:
    """Return at most `most` columns, each the largest known value of its group."""
    columns = table.shape[1]
    if columns <= most:
        return table
    starts = np.arange(most) * columns // most
    largest = np.maximum.reduceat(np.where(np.isfinite(table), table, -np.inf), starts, axis=1)
    return np.where(np.isfinite(largest), largest, np.nan)
