"""One pass of a fit, over encoded chunks or over a handle."""

from __future__ import annotations

import warnings
from typing import Any

from mixle.errors import EmptyDataError
from mixle.inference.adopted import adopt, encoder_of
from mixle.inference.options import as_estimator, validate_keys
from mixle.stats.clusters import cluster_of
from mixle.utils.parallel.folding.inputs import check_probability, random_state

__all__ = ["seq_estimate", "seq_initialize"]


def _has(encoded: Any, method: str) -> bool:
    """Return whether the one documented method that is needed is there: a foreign handle may have no other."""
    return not isinstance(encoded, type) and callable(getattr(encoded, method, None))


def _handle(encoded: Any, method: str, estimator: Any) -> Any:
    """Return what serves encoded rows, None for none."""
    if _has(encoded, method):
        return encoded
    cluster = cluster_of(encoded)
    return adopt(encoded, estimator) if cluster is None else (cluster.handle(encoded, encoder_of(estimator)) or None)


def seq_initialize(enc_data: Any, estimator: Any, rng: Any, p: float = 0.1) -> Any:
    """Return a start: the model that `estimator` draws from a random share of the encoded rows.

    Parameters
    ----------
    enc_data : handle, list or RDD of (count, payload)
        What `encoded_data` or `seq_encode` returned.
    estimator : ParameterEstimator
        Family of the model.
    rng : RandomState, Generator or int
        Source of the start.
    p : float
        Share of the rows that is read, in (0, 1]. If none is kept the first row is.

    Raises
    ------
    ValueError
        Without rows, for more components than rows, for `p` outside (0, 1].
    TypeError
        For an `rng` that is no generator, or a boolean `p`.

    Examples
    --------
    >>> from mixle.inference import seq_initialize
    >>> from mixle.stats import GaussianEstimator, seq_encode
    >>> chunks = seq_encode([1.0, 2.0, 3.0], estimator=GaussianEstimator())
    >>> seq_initialize(chunks, GaussianEstimator(), rng=1, p=1.0).mu
    2.0
    """
    p = check_probability(p)
    state = random_state(rng)
    estimator = as_estimator(estimator)
    validate_keys(estimator)
    handle = _handle(enc_data, "pysp_seq_initialize", estimator)
    if handle is None:
        raise EmptyDataError("seq_initialize received no observations; pass at least one row")
    return handle.pysp_seq_initialize(estimator, state, p)


def seq_estimate(enc_data: Any, estimator: Any, prev_estimate: Any) -> Any:
    """Return the model after one EM step from `prev_estimate` over the encoded rows.

    Parameters
    ----------
    enc_data : handle, list or RDD of (count, payload)
        What `encoded_data` or `seq_encode` returned.
    estimator : ParameterEstimator
        The M-step.
    prev_estimate : distribution or None
        Model of the E-step; leaves need none.

    Raises
    ------
    ValueError
        If a chunk declares another count than its payload has rows.

    Examples
    --------
    >>> from mixle.inference import seq_estimate
    >>> from mixle.stats import GaussianEstimator, seq_encode
    >>> chunks = seq_encode([1.0, 2.0, 3.0], estimator=GaussianEstimator())
    >>> seq_estimate(chunks, GaussianEstimator(), None).mu
    2.0
    """
    estimator = as_estimator(estimator)
    validate_keys(estimator)
    handle = _handle(enc_data, "pysp_seq_estimate", estimator)
    if handle is None:
        warnings.warn("seq_estimate received a batch of zero rows and returns the default model", stacklevel=2)
        return estimator.estimate(0.0, estimator.accumulator_factory().make().value())
    return handle.pysp_seq_estimate(estimator, prev_estimate)
