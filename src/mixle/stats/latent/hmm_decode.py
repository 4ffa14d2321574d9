"""Posterior probabilities and best paths of encoded sequences."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from mixle._limits import one_blas_thread
from mixle.stats.latent.hmm_batches import batch_of, ends_of, places
from mixle.stats.latent.hmm_encoder import Chains
from mixle.stats.latent.hmm_forward import Passes
from mixle.stats.latent.hmm_logspace import best_paths

__all__ = ["decode", "smooth", "so_far"]


@one_blas_thread()
def smooth(passes: Passes | None, x: Chains, states: int) -> list[np.ndarray]:
    """Return the probabilities of the states of each element, one array (T, S) per sequence; zero where impossible."""
    found = np.zeros((x.total, states))
    for start, stop, r in () if passes is None else passes.blocks(np.ones(x.rows)):
        found[start:stop] = r[:, : stop - start].T
    return _apart(found[places(x.sizes)], x)


def so_far(w: np.ndarray, transitions: np.ndarray, logs: np.ndarray | None, x: Chains) -> list[np.ndarray]:
    """Return the probabilities of the states given each sequence up to the element, one array (T, S) per sequence.

    `logs` are the log-densities of the elements (total, S), in the order of the batches. Rows are zero from the first
    element on that no state allows.
    """
    found = np.zeros((x.total, len(w)))
    if logs is None:
        return _apart(found, x)
    logs = logs[places(x.sizes)]
    tops = logs.max(axis=1)
    with np.errstate(invalid="ignore"):
        densities = np.where(np.isneginf(tops)[:, None], 0.0, np.exp(logs - tops[:, None]))
    for start, stop in pairwise(ends_of(x.sizes)):
        law = w
        for t in range(start, stop):
            joint = law * densities[t]
            total = np.add.reduce(joint)
            if not total > 0.0:
                break
            found[t] = joint / total
            law = np.add.reduce(found[t][:, None] * transitions, axis=0)  # state by state: no BLAS decides the bits
    return _apart(found, x)


@one_blas_thread()
def decode(passes: Passes | None, x: Chains) -> list[np.ndarray]:
    """Return the likeliest path of states of each sequence, shape (T,)."""
    laid = np.zeros(x.total, np.int64)
    offsets = ends_of(x.sizes)
    for batch in () if passes is None else passes.batches:
        rows = np.unique(batch.rows) if batch.chained else batch.rows
        rows = rows[np.argsort(-x.sizes[rows], kind="stable")]
        whole = batch_of(rows, x.sizes[rows])
        targets = offsets[rows][whole.ranks()] + whole.times()
        columns = places(x.sizes)[targets] - batch.offset
        laid[targets] = best_paths(passes.chain, whole, passes.emissions.logs_at(batch, columns)[0])  # type: ignore[union-attr]  # no passes, no batches
    return _apart(laid, x)


def _apart(laid: np.ndarray, x: Chains) -> list[np.ndarray]:
    return np.split(laid, ends_of(x.sizes)[1:-1]) if x.rows else []
