"""Functions over rows, over encoded rows and over handles."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from mixle.errors import ContractError
from mixle.stats.clusters import cluster_of
from mixle.stats.encoded import chunks_of
from mixle.stats.refusals import check_models, refuse_rows, scores_of, shown, walkable
from mixle.stats.sums import block_sum
from mixle.stats.table import Table

__all__ = [
    "density",
    "log_density",
    "sample",
    "seq_encode",
    "seq_log_density",
    "seq_log_density_sum",
]


#: More chunks than there are rows are empty ones; so many of them are a mistake.
_MOST_EMPTY = 2**16


def _encoder_of(encoder: Any, estimator: Any, model: Any) -> Any:
    for source in (encoder, estimator, model):
        if isinstance(source, type):
            raise TypeError(f"seq_encode was given the class {source.__name__}; pass an instance, {source.__name__}()")
        if hasattr(source, "seq_encode"):
            return source
        if hasattr(source, "dist_to_encoder"):
            return source.dist_to_encoder()
        if hasattr(source, "accumulator_factory"):
            return source.accumulator_factory().make().acc_to_encoder()
        if source is not None:
            raise TypeError(f"{type(source).__name__} is no encoder, estimator or model; pass one of these")
    raise ValueError("At least one arg: encoder, estimator, or dist must be passed. For instance pass model=model.")


def seq_encode(
    data: Any,
    encoder: Any = None,
    estimator: Any = None,
    model: Any = None,
    num_chunks: int = 1,
    chunk_size: int | None = None,
) -> list[tuple[int, Any]]:
    """Return rows as encoded chunks, a list of ``(count, payload)``.

    Parameters
    ----------
    data : sequence of rows, an iterator of them, or a Spark RDD
        Rows; of an RDD an RDD of ``(count, payload)`` is returned, one per partition.
    encoder, estimator, model : object
        One of them tells the encoding; in the place of `encoder` any of the three is taken.
    num_chunks : int
        Number of chunks k; chunk i holds the rows ``i, i + k, i + 2k, ...``, and may be empty.
    chunk_size : int, optional
        Rows of a chunk at most; it sets `num_chunks`.

    Raises
    ------
    RowError
        Naming the row of `data` that cannot be read.
    ValueError
        Without encoder, estimator and model; or if an encoder loses rows.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator
    >>> [count for count, _ in seq_encode([1.0, 2.0, 3.0], estimator=GaussianEstimator(), num_chunks=2)]
    [2, 1]
    """
    encoder = _encoder_of(encoder, estimator, model)
    cluster = cluster_of(data)
    if cluster is not None:
        chunks: list[tuple[int, Any]] = cluster.encoded(data, encoder, num_chunks, chunk_size)
        return chunks
    rows = _as_rows(data)
    if chunk_size is not None:
        num_chunks = max(1, -(-len(rows) // _positive(chunk_size, "chunk_size")))
    k = _positive(num_chunks, "num_chunks")
    if k > max(len(rows), _MOST_EMPTY):
        raise ValueError(f"num_chunks={shown(num_chunks)} is far more than the {len(rows)} rows; pass at most as many")
    return [_encode_chunk(encoder, rows, i, k) for i in range(k)]


def _positive(value: Any, name: str) -> int:
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not number or value < 1 or not (isinstance(value, numbers.Integral) or float(value).is_integer()):
        raise ValueError(f"{name} must be a positive integer, not {shown(value)}; pass e.g. {name}=1")
    return int(value)


def _as_rows(data: Any) -> Any:
    if hasattr(data, "itertuples"):
        raise TypeError("seq_encode: a DataFrame is not taken: pass list(data.itertuples(index=False, name=None))")
    if not walkable(data):
        refuse_rows("seq_encode", data)
    if hasattr(data, "to_numpy") and not isinstance(data, np.ndarray):
        return data.tolist() if hasattr(data, "tolist") else list(data)
    return data if hasattr(data, "__len__") and hasattr(data, "__getitem__") else list(data)


def _every(rows: Any, i: int, k: int) -> Any:
    """Return the rows ``i, i + k, ...``; sequences that take no slices (deque) are read one by one."""
    if isinstance(rows, (np.ndarray, list, tuple, range, Table)):
        return rows[i::k]
    return [rows[j] for j in range(i, len(rows), k)]


def _encode_chunk(encoder: Any, rows: Sequence[Any], i: int, k: int) -> tuple[int, Any]:
    from mixle.errors import RowError

    part = rows if k == 1 else _every(rows, i, k)
    try:
        payload = encoder.seq_encode(part)
    except RowError as error:
        raise (error if error.row is None else error.at(i + k * error.row)) from None
    try:
        found = encoder.row_count(payload)
    except NotImplementedError:
        return len(part), payload
    if found != len(part):
        raise ContractError(
            f"{encoder} was given {len(part)} rows and its payload has {found}; its seq_encode must keep every row"
        )
    return len(part), payload


def _chunks_for(models: Sequence[Any], enc_data: Any) -> tuple[tuple[int, Any], ...]:
    """Return encoded rows as pairs (count, payload) that models can score."""
    from mixle.stats.forms import check_chunks

    chunks = chunks_of(enc_data)
    for model in models:
        if type(model).__module__.partition(".")[0] == "mixle":
            check_chunks(model.dist_to_encoder(), [payload for _, payload in chunks])
    return chunks


def seq_log_density_sum(enc_data: Any, estimate: Any) -> tuple[float, float]:
    """Return ``(rows, summed log-density)`` of encoded rows under a model.

    Parameters
    ----------
    enc_data : handle, list or RDD of (count, payload)
        Encoded rows.
    estimate : distribution
        The model.

    Examples
    --------
    >>> from mixle.stats import PoissonDistribution
    >>> model = PoissonDistribution(2.0)
    >>> seq_log_density_sum(seq_encode([0, 0, 0], model=model), model)
    (3, -6.0)
    """
    check_models([estimate])
    if hasattr(enc_data, "pysp_seq_log_density_sum"):
        count, total = enc_data.pysp_seq_log_density_sum(estimate)
        return count, total
    cluster = cluster_of(enc_data)
    if cluster is not None:
        with cluster.handle(enc_data, estimate.dist_to_encoder()) as handle:
            return seq_log_density_sum(handle, estimate)
    rows, result = 0, 0.0
    for count, payload in _chunks_for([estimate], enc_data):
        rows, result = rows + count, result + block_sum(scores_of(estimate, payload, count))
    return rows, result


def seq_log_density(enc_data: Any, estimate: Any) -> list[np.ndarray]:
    """Return the log-densities of encoded rows, one array per chunk.

    Parameters
    ----------
    enc_data : handle or list of (count, payload)
        Encoded rows.
    estimate : distribution or sequence of distributions
        The model; of several, each chunk's array has shape (models, rows).

    Examples
    --------
    >>> from mixle.stats import PoissonDistribution
    >>> model = PoissonDistribution(2.0)
    >>> seq_log_density(seq_encode([0, 0], model=model), model)
    [array([-2., -2.])]
    """
    check_models(estimate if isinstance(estimate, (list, tuple)) else [estimate])
    if hasattr(enc_data, "pysp_seq_log_density"):
        scores: list[np.ndarray] = enc_data.pysp_seq_log_density(estimate)
        return scores
    chunks = _chunks_for(estimate if isinstance(estimate, (list, tuple)) else [estimate], enc_data)
    if isinstance(estimate, (list, tuple)):
        return [np.array([scores_of(model, payload, count) for model in estimate]) for count, payload in chunks]
    return [scores_of(estimate, payload, count) for count, payload in chunks]


def log_density(data: Any, model: Any) -> np.ndarray:
    """Return the log-density of each row, shape (n,).

    Parameters
    ----------
    data : sequence of rows
        Rows.
    model : distribution
        The model.

    Examples
    --------
    >>> from mixle.stats import PoissonDistribution
    >>> log_density([0, -1], PoissonDistribution(2.0))
    array([ -2., -inf])
    """
    return seq_log_density(seq_encode(data, model=model), model)[0]


def density(data: Any, model: Any) -> np.ndarray:
    """Return the density (or probability) of each row, shape (n,).

    Parameters
    ----------
    data, model
        As for `log_density`.

    Examples
    --------
    >>> from mixle.stats import BernoulliDistribution
    >>> density([True, False], BernoulliDistribution(0.25))
    array([0.25, 0.75])
    """
    return np.asarray(np.exp(log_density(data, model)))


def sample(model: Any, size: int | None = None, seed: int | None = None, *, rng: Any = None, **kwargs: Any) -> Any:
    """Return one observation of `model`, or a collection of `size` of them.

    Parameters
    ----------
    model : distribution
        The model.
    size : int, optional
        Number of observations.
    seed : int, optional
        Seed of the draws.
    rng : numpy.random.RandomState, optional
        Draws the seed instead.
    **kwargs
        For the sampler's ``sample``: ``batched``.

    Raises
    ------
    TypeError
        For both a seed and an rng.

    Examples
    --------
    >>> from mixle.stats import BernoulliDistribution
    >>> sample(BernoulliDistribution(1.0), 2)
    [True, True]
    """
    if rng is not None:
        if seed is not None:
            raise TypeError("seed and rng are two sources of one choice; pass one of them")
        seed = int(rng.randint(2**31))
    return model.sampler(seed).sample(size, **kwargs)
