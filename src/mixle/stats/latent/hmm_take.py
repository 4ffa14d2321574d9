"""Rows of an encoded payload in any order."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from mixle.stats.combinators.fields import FieldsEncoder
from mixle.stats.combinators.ignored import IgnoredEncoder
from mixle.stats.combinators.missing import OptionalEncoder, OptionalRows
from mixle.stats.combinators.null import NullEncoder
from mixle.stats.combinators.ragged import RaggedRows, SequenceEncoder, taken
from mixle.stats.combinators.routing import RoutedEncoder, RoutedRows
from mixle.stats.combinators.wrapping import WrappedRows, WrappingEncoder
from mixle.stats.families.multinomial import BagRows, MultinomialEncoder
from mixle.stats.latent.mixture_encoder import PerComponentEncoder
from mixle.stats.leaf import LeafEncoder, Rows
from mixle.stats.sequences.integer_counts import IntegerChains, IntegerMarkovChainEncoder
from mixle.stats.stacking.general import PerComponent

__all__ = ["take"]


@singledispatch
def take(encoder: Any, payload: Any, index: np.ndarray) -> Any:
    """Return the payload of the rows at `index`, in that order.

    Parameters
    ----------
    encoder : DataSequenceEncoder
        The encoder that made `payload`; one of a user's own needs a method ``take(payload, index)``.
    payload : object
        Encoded rows.
    index : ndarray of int
        Positions of rows.

    Raises
    ------
    NotImplementedError
        If the encoder's rows cannot be told apart.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution
    >>> encoder = GaussianDistribution(0.0, 1.0).dist_to_encoder()
    >>> take(encoder, encoder.seq_encode([1.0, 2.0, 3.0]), np.array([2, 0])).tolist()
    [3.0, 1.0]
    """
    own = getattr(encoder, "take", None)
    if own is None:
        raise NotImplementedError(f"{type(encoder).__name__} has no take(payload, index)")
    return own(payload, index)


@take.register
def _leaf(_: LeafEncoder, payload: Any, index: np.ndarray) -> Any:
    if isinstance(payload, np.ndarray):
        return payload[index]
    x = tuple(part[index] for part in payload.x) if isinstance(payload.x, tuple) else payload.x[index]
    base, outside = (None if part is None else part[index] for part in (payload.base, payload.outside))
    return Rows(x, base, outside, payload.labels)


@take.register
def _fields(encoder: FieldsEncoder, payload: Any, index: np.ndarray) -> Any:
    return tuple(take(child, part, index) for child, part in zip(encoder.encoders, payload, strict=True))


@take.register
def _optional(encoder: OptionalEncoder, payload: Any, index: np.ndarray) -> Any:
    if payload.present is None:
        return OptionalRows(len(index), None, take(encoder.encoder, payload.payload, index))
    where = np.full(payload.count, -1, np.intp)
    where[payload.present] = np.arange(len(payload.present))
    found = where[index]
    present = np.flatnonzero(found >= 0).astype(np.int32)
    child = take(encoder.encoder, payload.payload, found[present])
    return OptionalRows(len(index), None if len(present) == len(index) else present, child)


@take.register
def _wrapped(encoder: WrappingEncoder, payload: Any, index: np.ndarray) -> Any:
    return WrappedRows(_optional(encoder.inner, payload.rows, index), tuple(part[index] for part in payload.extra))


@take.register
def _routed(encoder: RoutedEncoder, payload: Any, index: np.ndarray) -> Any:
    parts = zip(encoder.inner, payload.parts, strict=True)
    return RoutedRows(payload.codes[index], tuple(_optional(child, part, index) for child, part in parts))


@take.register
def _ragged(encoder: SequenceEncoder, payload: Any, index: np.ndarray) -> Any:
    offsets, elements = taken(payload.offsets, index)
    return RaggedRows(
        offsets, take(encoder.encoder, payload.elements, elements), take(encoder.length, payload.lengths, index)
    )


@take.register
def _bags(encoder: MultinomialEncoder, payload: Any, index: np.ndarray) -> Any:
    offsets, pairs = taken(payload.offsets, index)
    elements, lengths = take(encoder.encoder, payload.elements, pairs), take(encoder.length, payload.lengths, index)
    return BagRows(offsets, payload.counts[pairs], elements, lengths, payload.orders[index])


@take.register
def _integer_chains(encoder: IntegerMarkovChainEncoder, payload: Any, index: np.ndarray) -> Any:
    initial = take(encoder.initial, payload.initial, index)
    return IntegerChains(take(encoder.inner, payload.rows, index), initial, payload.outside[index])


@take.register
def _per_component(encoder: PerComponentEncoder, payload: Any, index: np.ndarray) -> Any:
    parts = zip(encoder.encoders, payload.payloads, strict=True)
    return PerComponent(tuple(take(child, part, index) for child, part in parts), payload.which)


@take.register
def _null(_: NullEncoder, __: Any, index: np.ndarray) -> int:
    return len(index)


@take.register
def _ignored(encoder: IgnoredEncoder, payload: Any, index: np.ndarray) -> Any:
    return take(encoder.encoder, payload, index)
