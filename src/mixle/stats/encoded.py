"""Encoded rows with what is known of them: count, bytes, encoder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mixle.errors import BackendError

__all__ = [
    "EncodedData",
    "ResidentEncodedPayload",
    "as_encoded_data",
    "chunks_of",
    "encoded_nbytes",
    "move_encoded_payload",
]


class ResidentEncodedPayload(NamedTuple):
    """An encoded payload where it lives.

    Attributes
    ----------
    host_payload : object
        The payload in main memory.
    engine_payload : object
        The payload as the engine reads it; with numpy the same object.

    Examples
    --------
    >>> from mixle.stats import move_encoded_payload
    >>> move_encoded_payload(np.array([1.0, 2.0])).host_payload.tolist()
    [1.0, 2.0]
    """

    host_payload: Any
    engine_payload: Any


@dataclass(frozen=True, eq=False)
class EncodedData:
    """A chunk of encoded rows.

    Attributes
    ----------
    count : int
        Number of rows.
    payload : object
        What the encoder returned.
    engine : object
        Who computes with it: numpy.
    nbytes : int
        Bytes of the payload.
    encoder : DataSequenceEncoder or None
        The encoder that made it.

    Notes
    -----
    It stands for a list of one chunk wherever encoded rows are taken.

    Examples
    --------
    >>> from mixle.stats import GaussianDistribution
    >>> data = EncodedData.from_data([1.0, 2.0, 3.0], GaussianDistribution(0.0, 1.0).dist_to_encoder())
    >>> data.count, data.nbytes, [count for count, _ in data]
    (3, 24, [3])
    """

    count: int
    payload: Any
    engine: Any
    nbytes: int
    encoder: Any = None

    @classmethod
    def from_data(cls, data: Any, encoder: Any, engine: Any = None) -> EncodedData:
        """Encode rows.

        Parameters
        ----------
        data : sequence of rows
            Rows.
        encoder : DataSequenceEncoder
            Encodes them.
        engine : None or a numpy engine
            Other engines are refused.
        """
        return cls.from_payload(encoder.seq_encode(data), len(data), encoder, engine)

    @classmethod
    def from_payload(cls, payload: Any, count: int, encoder: Any = None, engine: Any = None) -> EncodedData:
        """Wrap what an encoder returned.

        Parameters
        ----------
        payload : object
            The payload.
        count : int
            Number of its rows.
        encoder : DataSequenceEncoder, optional
            The encoder that made it; needed where the payload is not plain arrays of one length.
        engine : None or a numpy engine
            Other engines are refused.

        Raises
        ------
        ValueError
            For a count that is negative, no integer, or not that of the payload.
        """
        if isinstance(count, bool) or not hasattr(type(count), "__index__") or int(count) < 0:
            raise ValueError(f"count must be a nonnegative integer, not {count!r}")
        host = move_encoded_payload(payload, engine).host_payload
        found = _rows_of(host, encoder)
        if found != int(count):
            raise ValueError(f"count={count} does not match the payload, which has {found} rows; pass count={found}")
        size = encoded_nbytes(host, encoder)
        return cls(int(count), host, "numpy" if engine is None else engine, size, encoder)

    def as_seq_chunk(self) -> tuple[int, Any]:
        """Return ``(count, payload)``, a chunk as `seq_encode` returns it."""
        return self.count, self.payload

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return iter((self.as_seq_chunk(),))

    def __len__(self) -> int:
        return 1


def _rows_of(payload: Any, encoder: Any) -> int:
    from mixle.stats.contract import DataSequenceEncoder

    count: Any = (DataSequenceEncoder if encoder is None else type(encoder)).row_count
    try:
        return int(count(encoder, payload))
    except NotImplementedError:
        raise ValueError("the rows of this payload cannot be counted; pass the encoder that made it") from None


def as_encoded_data(payload: Any, count: int, encoder: Any = None, engine: Any = None) -> EncodedData:
    """Return a payload with what is known of it.

    Parameters
    ----------
    payload, count, encoder, engine
        As for `EncodedData.from_payload`.

    Examples
    --------
    >>> as_encoded_data(np.array([1.0, 2.0]), 2).as_seq_chunk()
    (2, array([1., 2.]))
    """
    return EncodedData.from_payload(payload, count, encoder, engine)


def chunks_of(encoded: Any) -> tuple[tuple[int, Any], ...]:
    """Return encoded rows as pairs (count, payload in main memory).

    Parameters
    ----------
    encoded : EncodedData, list of (count, payload), or a handle that can be walked
        Encoded rows.

    Raises
    ------
    TypeError
        If `encoded` does not consist of such pairs.

    Examples
    --------
    >>> chunks_of([(2, np.array([1.0, 2.0]))])
    ((2, array([1., 2.])),)
    """
    try:
        pairs = tuple((int(count), getattr(payload, "host_payload", payload)) for count, payload in encoded)
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            f"encoded rows are a list of (count, payload), as seq_encode returns it, not {type(encoded).__name__}; "
            "pass seq_encode(rows, model=model)"
        ) from error
    if any(count < 0 for count, _ in pairs):
        raise ValueError("encoded rows are a list of (count, payload); a count is negative: pass the number of rows")
    return pairs


def move_encoded_payload(payload: Any, engine: Any = None) -> ResidentEncodedPayload:
    """Return `payload` as the engine reads it.

    Parameters
    ----------
    payload : object
        What an encoder returned.
    engine : None or a numpy engine
        Where to; other engines are refused.

    Raises
    ------
    ValueError
        For an engine other than numpy.

    Examples
    --------
    >>> payload = np.array([1.0, 2.0])
    >>> move_encoded_payload(payload).engine_payload is payload
    True
    """
    name = getattr(engine, "name", engine)
    if name is not None and str(name).lower() not in {"numpy", "cpu"}:
        raise BackendError(f"engine {name!r} is not built in: rows are scored and fitted by numpy; leave engine out")
    host = getattr(payload, "host_payload", payload)
    return ResidentEncodedPayload(host, host)


def encoded_nbytes(x: Any, encoder: Any = None) -> int:
    """Return the bytes that encoded rows hold.

    Parameters
    ----------
    x : EncodedData, list of (count, payload), or a payload
        Encoded rows.
    encoder : DataSequenceEncoder, optional
        The encoder that made them; without one the arrays found are counted.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator, seq_encode
    >>> encoded_nbytes(seq_encode([1.0, 2.0, 3.0], estimator=GaussianEstimator()))
    24
    """
    if isinstance(x, EncodedData):
        return x.nbytes
    if isinstance(x, list):
        return sum(encoded_nbytes(payload, encoder) for _, payload in chunks_of(x))
    payload = getattr(x, "host_payload", x)
    return _array_bytes(payload) if encoder is None else int(encoder.nbytes(payload))


def _array_bytes(payload: Any) -> int:
    if isinstance(payload, np.ndarray):
        return int(payload.nbytes)
    if isinstance(payload, dict):
        return sum(_array_bytes(part) for part in payload.values())
    return sum(_array_bytes(part) for part in payload) if isinstance(payload, (tuple, list)) else 0
