"""What, besides the data, bits depend on: numpy, its BLAS with the core it was tuned for, and the SIMD features."""

from __future__ import annotations

import ctypes
import functools
import sys
import zlib
from typing import Any

import numpy as np

__all__ = ["build_key"]

_CORE_NAMES = [f"{prefix}openblas_get_corename{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", "")]


@functools.cache
def build_key() -> str:
    """Return a line that is equal where this process and another give equal bits.

    Every result carries it, so that a round over unlike machines can say so.

    Examples
    --------
    >>> build_key().startswith("numpy ")
    True
    """
    config: Any = np.show_config(mode="dicts")  # type: ignore[call-overload, unused-ignore]
    blas = config.get("Build Dependencies", {}).get("blas", {})
    features = config.get("SIMD Extensions", {})
    simd = ",".join(sorted([*features.get("baseline", ()), *features.get("found", ())]))
    library = " ".join(filter(None, (blas.get("name", "blas"), blas.get("version", ""), _core_name())))
    return f"numpy {np.__version__}, {library}, simd {zlib.crc32(simd.encode()):08x}"


def _core_name() -> str:
    """Return the processor core that OpenBLAS chose its kernels for, empty for another library."""
    linear_algebra = sys.modules.get("numpy._core._multiarray_umath")
    try:
        library = ctypes.CDLL(linear_algebra.__file__)  # type: ignore[union-attr]  # None has no file: caught
    except (AttributeError, OSError):
        return ""
    for name in _CORE_NAMES:
        function = getattr(library, name, None)
        if function is not None:
            function.restype = ctypes.c_char_p
            text: bytes = function() or b""
            return text.decode(errors="replace")
    return ""
