"""Posterior probabilities and best paths of encoded sequences."""

from __future__ import annotations

import numpy as np

from mixle._limits import one_blas_thread
from mixle.stats.latent.hmm_batches import batch_of, ends_of, places
from mixle.stats.latent.hmm_encoder import Chains
from mixle.stats.latent.hmm_forward import Passes
from mixle.stats.latent.hmm_logspace import best_paths

__all__ = ["decode", "smooth"]


@one_blas_thread()
def smooth(passes: Passes | None, x: Chains, states: int) -> list[np.ndarray]:
    """Return the probabilities of the states of each element, one array (T, S) per sequence; zero where impossible."""
    found = np.zeros((x.total, states))
    for start, stop, r in () if passes is None else passes.blocks(np.ones(x.rows)):
        found[start:stop] = r[:, : stop - start].T
    return _apart(found[places(x.sizes)], x)


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
