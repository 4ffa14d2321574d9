"""Names of floating-point precisions, and their width."""

from __future__ import annotations

from typing import Any

__all__ = ["dtype_bytes", "precision_name"]

_ALIASES = {
    "fp64": "float64",
    "f64": "float64",
    "double": "float64",
    "float": "float64",
    "fp32": "float32",
    "f32": "float32",
    "single": "float32",
    "fp16": "float16",
    "f16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
}


def precision_name(precision: Any) -> str:
    """Return the canonical name of a precision; None is "default".

    Parameters
    ----------
    precision : str, numpy.dtype, type or None
        A name, an alias such as "fp32", or a dtype of numpy or torch.

    Examples
    --------
    >>> precision_name("fp32"), precision_name(None)
    ('float32', 'default')
    """
    if precision is None:
        return "default"
    if isinstance(precision, str):
        name = precision.strip().lower()
    else:
        name = str(getattr(precision, "name", None) or getattr(precision, "__name__", None) or precision)
    name = name.removeprefix("torch.").removeprefix("numpy.")
    return _ALIASES.get(name, name)


def dtype_bytes(precision: Any) -> int:
    """Return the bytes of one number: 8 unless the precision names 32 or 16 bits.

    Examples
    --------
    >>> dtype_bytes(None), dtype_bytes("float32"), dtype_bytes("bfloat16")
    (8, 4, 2)
    """
    name = precision_name(precision)
    return 4 if name.endswith("32") else 2 if name.endswith("16") else 8
