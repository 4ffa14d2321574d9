"""Rows that somebody else encoded: handles, and lists of chunks as a handle."""

from __future__ import annotations

from typing import Any

from mixle.stats.encoded import chunks_of
from mixle.stats.forms import check_chunks
from mixle.utils.parallel.folding.inputs import is_cluster_collection

__all__ = ["adopt", "encoder_of"]


def encoder_of(estimator: Any, model: Any = None) -> Any:
    """Return the encoder of `model`, else that of the estimator's accumulators."""
    if model is None:
        return estimator.accumulator_factory().make().acc_to_encoder()
    make = getattr(model, "dist_to_encoder", None)
    if not callable(make):
        raise TypeError(f"prev_estimate has no dist_to_encoder() ({type(model).__name__}); pass a distribution")
    return make()


def adopt(chunks: Any, estimator: Any, encoder: Any = None) -> Any:
    """Return a handle over a list of ``(count, payload)``, or None if it has no rows.

    Raises
    ------
    TypeError
        If `chunks` is not such a list.
    ValueError
        If a chunk declares another count than its payload has rows.
    """
    from mixle.utils.parallel.folding.handle import Handle
    from mixle.utils.parallel.folding.shards import Chunk, Shard
    from mixle.utils.parallel.transports.local import LocalTransport

    if is_cluster_collection(chunks):
        raise TypeError("a cluster collection is no list of chunks; pass encoded_data(rows, estimator, backend=...)")
    if encoder is None:
        encoder = encoder_of(estimator)
    parts: list[Chunk] = []
    start = 0
    pairs = _pairs(chunks)
    check_chunks(encoder, [payload for _, payload in pairs])
    for number, (count, payload) in enumerate(pairs):
        _check_count(encoder, number, count, payload)
        if count:
            parts.append(Chunk(count, payload, range(start, start + count)))
            start += count
    if not parts:
        return None
    return Handle(LocalTransport(shards=[Shard(0, tuple(parts), encoder)]))


def _pairs(chunks: Any) -> tuple[tuple[int, Any], ...]:
    hint = "enc_data must be a handle or a list of (count, payload), as encoded_data and seq_encode return them"
    try:
        return chunks_of(chunks)
    except TypeError as error:
        raise TypeError(f"{hint}; not {type(chunks).__name__}") from error
    except ValueError as error:
        raise ValueError(f"{hint}; a count is negative") from error


def _check_count(encoder: Any, number: int, count: int, payload: Any) -> None:
    try:
        found = int(encoder.row_count(payload))
    except (AttributeError, NotImplementedError):
        return  # an encoder that cannot tell
    if found != count:
        raise ValueError(f"chunk {number} declares {count} rows, its payload has {found}; encode again with seq_encode")
