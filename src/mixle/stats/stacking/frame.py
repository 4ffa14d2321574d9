"""Centres and scales of the feature block: functions of the model alone, so that no row depends on its neighbours.

Components that lie further from the common centre than `FAR` of their standard deviations are put into groups with
centres of their own; one group is the fast form, K groups the direct form, and the code is the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mixle.stats.stacking.plan import Attached, Plan

__all__ = ["Frame", "Normal", "Whitening", "frame_of_model", "frame_of_rows", "normals"]

#: Distance from the centre, in standard deviations of the component, that one group bears (8e-14 in log-density).
FAR = 300.0
#: Stands for a variance that underflowed.
TINY = float(np.finfo(float).tiny)


class Normal(NamedTuple):
    """Means and variances (K, d), or covariances (K, d, d), of a slot's components."""

    mean: np.ndarray
    spread: np.ndarray


class Whitening(NamedTuple):
    """Transform ``y = w (x − centre)`` of a quadratic slot; ``factor`` is the inverse of ``w``."""

    centre: np.ndarray
    w: np.ndarray
    factor: np.ndarray


class Frame(NamedTuple):
    """Groups of components, the centre of each square column per group, and the whitening of quadratic slots."""

    groups: tuple[np.ndarray, ...]
    centres: np.ndarray
    whitenings: tuple[Whitening, ...]


def normals(plan: Plan, members: dict[int, tuple[Any, ...]]) -> dict[int, Normal]:
    """Return the parameters of the square and quadratic slots by slot index."""
    result: dict[int, Normal] = {}
    for slot, _, d in (*plan.squares, *plan.quadratic):
        leaf: Any = slot.node.leaf
        pairs = [leaf.location(dist) for dist in members[slot.index]]
        mean = np.array([np.atleast_1d(mean) for mean, _ in pairs], float)
        if mean.shape[1] != d:
            raise ValueError(
                f"{leaf.name}: the model has {mean.shape[1]} columns, the rows have {d}; pass rows of the model's width"
            )
        result[slot.index] = Normal(mean, np.array([np.atleast_1d(spread) for _, spread in pairs], float))
    return result


def frame_of_model(plan: Plan, found: dict[int, Normal], weights: np.ndarray) -> Frame:
    """Return the frame of K components with the given mixture weights."""
    count = len(weights)
    everyone = (np.arange(count),)
    if not plan.squares:
        return Frame(everyone, np.zeros((1, 0)), _whitenings(plan, found, weights))
    mean = np.concatenate([found[slot.index].mean for slot, _, _ in plan.squares], axis=1)
    scale = np.sqrt(np.concatenate([found[slot.index].spread for slot, _, _ in plan.squares], axis=1))
    # a mean of means about one of them keeps the digits of far-off data
    common = mean[0] + np.add.reduce(weights[:, None] * (mean - mean[0]), axis=0)
    if np.abs((mean - common) / scale).max() <= FAR:
        return Frame(everyone, common[None, :], _whitenings(plan, found, weights))
    leaders: list[int] = []
    group = np.zeros(count, int)
    for k in range(count):
        for g, leader in enumerate(leaders):
            if np.abs((mean[k] - mean[leader]) / scale[k]).max() <= FAR:
                group[k] = g
                break
        else:
            group[k] = len(leaders)
            leaders.append(k)
    members = tuple(np.flatnonzero(group == g) for g in range(len(leaders)))
    return Frame(members, mean[leaders], _whitenings(plan, found, weights))


def _whitenings(plan: Plan, found: dict[int, Normal], weights: np.ndarray) -> tuple[Whitening, ...]:
    result = []
    for slot, _, _ in plan.quadratic:
        mean, covariance = found[slot.index]
        centre = mean[0] + np.add.reduce(weights[:, None] * (mean - mean[0]), axis=0)
        pooled = np.add.reduce(weights[:, None, None] * covariance, axis=0)
        try:
            factor = np.linalg.cholesky(pooled)
        except np.linalg.LinAlgError:
            factor = np.diag(np.sqrt(np.fmax(np.diagonal(pooled), TINY)))
        # of an upper triangle: rows are not exchanged, so that columns of unlike scales cost each other no digits
        result.append(Whitening(centre, np.ascontiguousarray(np.linalg.inv(factor.T).T), factor))
    return tuple(result)


def frame_of_rows(plan: Plan, attached: tuple[Attached, ...], count: int) -> Frame:
    """Return the frame of `count` components before there is a model: centred at the chunk's first row."""
    first = {part.slot.index: part.rows for part in attached}

    def row_of(index: int, d: int) -> np.ndarray:
        rows = first[index]
        x = rows.x[:1] if rows is not None else np.zeros((0, d))
        return np.array(x, float).reshape(-1) if len(x) else np.zeros(d)

    centres = [row_of(slot.index, d) for slot, _, d in plan.squares]
    whitenings = tuple(Whitening(row_of(slot.index, d), np.eye(d), np.eye(d)) for slot, _, d in plan.quadratic)
    return Frame((np.arange(count),), np.concatenate([*centres, np.zeros(0)])[None, :], whitenings)
