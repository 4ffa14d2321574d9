"""Whether encoded rows are of the form that an encoder gives them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mixle.errors import ContractError
from mixle.stats.leaf import Rows
from mixle.stats.refusals import told

__all__ = ["check_chunks"]


def check_chunks(encoder: Any, payloads: Iterable[Any]) -> None:
    """Raise ContractError if a chunk is of another form than `encoder` gives to no rows at all.

    Parts that are not of this library may have any form.

    Examples
    --------
    >>> from mixle.stats import CategoricalEstimator, GaussianDistribution, seq_encode
    >>> ((_, payload),) = seq_encode(["a", "b"], estimator=CategoricalEstimator())
    >>> check_chunks(GaussianDistribution(0.0, 1.0).dist_to_encoder(), [payload])
    Traceback (most recent call last):
    mixle.errors.ContractError: chunk 0 was not encoded for this model (rows with labels, not without); pass \
seq_encode(rows, model=model)
    """
    if type(encoder).__module__.partition(".")[0] != "mixle":
        return
    try:
        own = encoder.seq_encode([])
    except Exception:  # noqa: BLE001 - an encoder, a part of which is a user's own, may need rows
        return
    for number, payload in enumerate(payloads):
        found = _difference(own, payload)
        if found:
            advice = "pass seq_encode(rows, model=model)"
            raise ContractError(f"chunk {number} was not encoded for this model ({found}); {advice}")


def _difference(own: Any, found: Any) -> str:
    """Return in words how the form of a payload differs from one of no rows; empty where it does not."""
    if own is None or found is None:
        return ""
    if isinstance(own, (Rows, np.ndarray)) and isinstance(found, (Rows, np.ndarray)):
        return _of_leaves(*(one if isinstance(one, Rows) else Rows(one) for one in (own, found)))
    if type(own).__module__.partition(".")[0] != "mixle" and type(own) is not tuple:
        return ""
    if type(found) is not type(own):
        return f"{told(found)}, not {told(own)}"
    if not isinstance(own, tuple) or not own:
        return ""
    if len(found) != len(own):
        return f"{told(found)}, not {told(own)}"
    return next(filter(None, map(_difference, own, found)), "")


def _of_leaves(own: Rows, found: Rows) -> str:
    for what in ("labels", "base"):
        there, here = (getattr(rows, what) is not None for rows in (found, own))
        if there != here:
            return f"rows {'with' if there else 'without'} {what}, not {'without' if there else 'with'}"
    if type(own.x) is not type(found.x) and not (isinstance(own.x, np.ndarray) and isinstance(found.x, np.ndarray)):
        return f"{told(found.x)}, not {told(own.x)}"
    if isinstance(own.x, tuple) and own.x and found.x and len(own.x) != len(found.x):
        return f"{len(found.x)} columns of features, not {len(own.x)}"
    if isinstance(own.x, np.ndarray) and own.x.ndim != found.x.ndim:
        return f"{told(found.x)}, where one has {own.x.ndim} axes"
    return ""
