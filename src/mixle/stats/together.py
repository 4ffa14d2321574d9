"""Laws of one family called together on the same rows: what they share of these is found once.

A leaf that can do so writes `scores` beside `score`, and `accumulate_all` beside `accumulate`; a combinator writes
`seq_log_densities` beside `seq_log_density`, and its accumulator `seq_update_all` beside `seq_update`. Each law keeps
the bits that it has alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mixle.stats.leaf import Leaf, LeafAccumulator, LeafDistribution, as_rows

__all__ = ["able", "all_densities", "densities", "update"]


def able(members: Sequence[Any]) -> bool:
    """Return whether these K distributions are called together."""
    return _shared(members, "seq_log_densities", "seq_log_density") is not None


def densities(members: Sequence[Any], payload: Any) -> np.ndarray | None:
    """Return the log-densities (K, n) of encoded rows under K distributions, None where these are called one by one."""
    call = _shared(members, "seq_log_densities", "seq_log_density")
    return None if call is None else call(members, payload)


def all_densities(members: Sequence[Any], payload: Any) -> np.ndarray:
    """Return the log-densities (K, n) of encoded rows under K distributions, together or one by one."""
    found = densities(members, payload) if len(members) > 1 else None
    return np.array([member.seq_log_density(payload) for member in members], float) if found is None else found


def update(accumulators: Sequence[Any], payload: Any, weights: np.ndarray, models: Sequence[Any]) -> bool:
    """Add encoded rows with weights (K, n) to K accumulators under K models; False where nothing was done."""
    call = _shared(accumulators, "seq_update_all", "seq_update")
    return call is not None and bool(call(accumulators, payload, weights, models))


def _shared(members: Sequence[Any], together: str, single: str) -> Callable[..., Any] | None:
    """Return what calls members of one class together, unless that class or a member changed the single call."""
    kind = type(members[0])
    if any(type(member) is not kind or single in getattr(member, "__dict__", ()) for member in members):
        return None
    if getattr(kind, single, None) is LeafDistribution.seq_log_density:
        return _leaf_densities if _goes_with(type(members[0].leaf), "scores", "score") else None
    if getattr(kind, single, None) is LeafAccumulator.seq_update:
        return _leaf_update if _goes_with(type(members[0].leaf), "accumulate_all", "accumulate") else None
    return getattr(kind, together) if _goes_with(kind, together, single) else None


def _goes_with(kind: type, together: str, single: str) -> bool:
    """Return whether the call for all is written where the call for one is, or nearer to `kind`."""
    for cls in kind.__mro__:
        if together in cls.__dict__:
            return cls is not Leaf
        if single in cls.__dict__:
            return False
    return False


def _leaf_densities(members: Sequence[LeafDistribution], payload: Any) -> np.ndarray | None:
    rows, leaf = as_rows(payload), members[0].leaf
    if not rows.size:  # how wide rows are may not be known
        return np.zeros((len(members), 0))
    result = leaf.scores(members, rows)
    if result is None:
        return None
    base = leaf.base(rows)
    if base is not None:
        result = result + base
    if rows.outside is not None:
        result[:, rows.outside] = -np.inf
    return result


def _leaf_update(
    accumulators: Sequence[LeafAccumulator], payload: Any, weights: np.ndarray, models: Sequence[Any]
) -> bool:
    leaf = accumulators[0].leaf
    if not as_rows(payload).size:
        return True
    for own in weights:
        leaf.refuse(payload, own)
    known = [made.known(model) for made, model in zip(accumulators, models, strict=True)]
    found = leaf.accumulate_all(as_rows(payload), weights, known)
    if found is None:
        return False
    for made, stat in zip(accumulators, found, strict=True):
        made.stat = leaf.merge(made.stat, stat)
    return True
