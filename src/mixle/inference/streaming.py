"""Fits of rows that arrive in batches: a running statistic, and chunks that can be replaced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mixle._limits import one_blas_thread
from mixle.errors import BackendError, EmptyDataError, SupportError
from mixle.inference.adopted import adopt
from mixle.inference.options import as_estimator, check_cap, check_positive, stream, validate_keys
from mixle.inference.resident import Encoding, opened, rows_for
from mixle.inference.schedules import constant, forgetting, harmonic, posterior_carry, shares
from mixle.utils.parallel.folding.inputs import check_precision, check_probability

__all__ = [
    "IncrementalEstimator",
    "StreamingEstimator",
    "constant",
    "forgetting",
    "harmonic",
    "posterior_carry",
    "streaming_accumulate",
]


def streaming_accumulate(enc_data: Any, estimator: Any, model: Any) -> tuple[float, Any]:
    """Return the weight and the accumulator of one batch, keys tied.

    Parameters
    ----------
    enc_data : handle or list of (count, payload)
        What `encoded_data` or `seq_encode` returned.
    estimator : ParameterEstimator
        Its accumulators.
    model : distribution or None
        Model of the E-step; leaves need none.

    Raises
    ------
    EmptyDataError
        (a ValueError) without rows.

    Examples
    --------
    >>> from mixle.stats import PoissonEstimator, seq_encode
    >>> chunks = seq_encode([1, 2, 3], estimator=PoissonEstimator())
    >>> nobs, accumulator = streaming_accumulate(chunks, PoissonEstimator(), None)
    >>> nobs, accumulator.value()
    (3.0, (3.0, 6.0))
    """
    estimator = as_estimator(estimator)
    validate_keys(estimator)
    nobs, value = _handle(enc_data, estimator, None).pysp_stream_accumulate(estimator, model)
    return float(nobs), estimator.accumulator_factory().make().from_value(value)


def _handle(enc_data: Any, estimator: Any, encoder: Any) -> Any:
    has = not isinstance(enc_data, type) and callable(getattr(enc_data, "pysp_stream_accumulate", None))
    handle = enc_data if has else adopt(enc_data, estimator, encoder)
    if handle is None or (hasattr(handle, "__len__") and len(handle) == 0):
        raise EmptyDataError("the batch has no rows: a streaming fit received no observations; leave empty batches out")
    return handle


class _Batches:
    """What both estimators share: encoding of a batch, the first model, the M-step."""

    def __init__(
        self,
        estimator: Any,
        model: Any,
        init_estimator: Any,
        init_p: float,
        rng: Any,
        encoder: Any,
        num_chunks: int,
        precision: Any,
    ) -> None:
        self.estimator = as_estimator(estimator, model)
        validate_keys(self.estimator)
        self.init_estimator = self.estimator if init_estimator is None else as_estimator(init_estimator)
        self.init_p = check_probability(init_p, "init_p")
        self.num_chunks = check_cap("num_chunks", num_chunks, 1)
        self.precision = check_precision("a streaming fit", precision)
        self.encoder, self.model, self.nobs = encoder, model, 0.0
        self._rng, self._first = stream(rng, None), model

    @contextmanager
    def _batch(self, data: Any, enc_data: Any) -> Iterator[Any]:
        """Yield a handle of the batch; one made here is closed on the way out."""
        if (data is None) == (enc_data is None):
            raise ValueError("pass a batch of rows, or encoded ones as enc_data=: one of the two")
        if enc_data is not None:
            handle = _handle(enc_data, self.estimator, self.encoder)
            if self.precision != "float64" and getattr(handle, "precision", "float64") != self.precision:
                raise BackendError(
                    "precision cannot change rows that are encoded already; pass it to encoded_data(rows, estimator)"
                )
            yield handle
        elif self.encoder is not None:
            from mixle.stats import seq_encode

            rows = rows_for(data, self.encoder)
            chunks = seq_encode(rows, encoder=self.encoder, num_chunks=self.num_chunks)
            handle = _handle(chunks, self.estimator, self.encoder)
            handle.precision = self.precision
            yield handle
        else:
            how = Encoding.checked({"num_chunks": self.num_chunks, "precision": self.precision})
            starter = self.init_estimator if self.model is None else None
            with opened(data, None, self.estimator, how, model=self.model, starter=starter) as resident:
                yield resident.handle

    def _folded(self, data: Any, enc_data: Any) -> tuple[float, Any, Any]:
        """Return weight and statistic of a batch, and the model of its E-step: the first one is drawn from it."""
        with self._batch(data, enc_data) as handle:
            if self.model is not None:
                return self._accumulated(handle, self.model)
            try:
                return self._accumulated(handle, self._drawn(handle, self.init_p))
            except (EmptyDataError, SupportError):
                if self.init_p == 1.0:
                    raise
            # A share of the rows may miss a label altogether: all of them start the model.
            return self._accumulated(handle, self._drawn(handle, 1.0))

    def _drawn(self, handle: Any, p: float) -> Any:
        return handle.pysp_seq_initialize(self.init_estimator, self._rng, p)

    def _accumulated(self, handle: Any, model: Any) -> tuple[float, Any, Any]:
        nobs, value = handle.pysp_stream_accumulate(self.estimator, model)
        return float(nobs), value, model

    def _made(self, value: Any) -> Any:
        return self.estimator.accumulator_factory().make().from_value(value)

    def _stepped(self, nobs: float, value: Any, previous: Any) -> Any:
        with one_blas_thread():
            model = self.estimator.estimate(nobs, value)
            keep_empty = getattr(self.estimator, "keep_empty", None)
            return model if keep_empty is None else keep_empty(model, previous, value)


class StreamingEstimator(_Batches):
    """Online EM: each batch is mixed into a running statistic, from which a model is estimated.

    Parameters
    ----------
    estimator : ParameterEstimator or distribution
        The M-step.
    schedule : callable or "posterior_carry", optional
        How a batch is mixed in: `constant`, `harmonic` (the default, with 0.7), `forgetting` or `posterior_carry`.
    model : distribution, optional
        The first model; otherwise one is drawn from the first batch.
    init_estimator : ParameterEstimator, optional
        Family of the first model, if another one.
    init_p : float
        Share of the first batch that its start reads, in (0, 1].
    rng : RandomState, Generator or int, optional
        Source of the start.
    encoder : DataSequenceEncoder, optional
        Encoder of the rows, if another than the estimator's.
    num_chunks : int
        Number of shards of a batch of rows.
    dataset_size : float, optional
        Weight that each batch stands for: its statistic is scaled to it, so that priors weigh as with the whole data.
    precision : {"float64", "float32"}, optional
        What mixtures compute batches of rows in; encoded ones bring their own.

    Attributes
    ----------
    model : distribution or None
        The model after the last batch.
    nobs : float
        Weight behind the running statistic.
    step : int
        Batches seen.

    Notes
    -----
    The first batch is taken whole; batch t replaces the share ``rho = schedule(t)`` of what was seen before. With
    `forgetting` what was seen is scaled by rho and the batch added in full. With `posterior_carry` statistics add up,
    which under conjugate priors is the posterior after each batch as the prior of the next. A batch that fails changes
    nothing. Cappé and Moulines (2009), J. R. Stat. Soc. B 71.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator
    >>> stream = StreamingEstimator(GaussianEstimator(), constant(0.5))
    >>> stream.update([0.0, 2.0]).mu, stream.update([4.0, 6.0]).mu
    (1.0, 3.0)
    """

    def __init__(
        self,
        estimator: Any,
        schedule: Any = None,
        model: Any = None,
        init_estimator: Any = None,
        init_p: float = 0.1,
        rng: Any = None,
        encoder: Any = None,
        num_chunks: int = 1,
        dataset_size: float | None = None,
        precision: Any = None,
    ) -> None:
        super().__init__(estimator, model, init_estimator, init_p, rng, encoder, num_chunks, precision)
        self.schedule = harmonic(0.7) if schedule is None else schedule
        shares(self.schedule, 1)
        self.dataset_size = check_positive("dataset_size", dataset_size)
        self.step = 0
        self._value: Any = None

    def update(self, data: Any = None, *, enc_data: Any = None) -> Any:
        """Mix a batch in and return the new model.

        Parameters
        ----------
        data : rows, optional
            The batch, in any form that `optimize` takes.
        enc_data : handle or list of (count, payload), optional
            An encoded batch instead.

        Raises
        ------
        ValueError
            For a batch without rows, for both or neither of the arguments, and for what a fit refuses.
        """
        nobs, value, previous = self._folded(data, enc_data)
        if self.dataset_size is not None and nobs > 0.0:
            value = self._made(value).scale(self.dataset_size / nobs).value()
            nobs = self.dataset_size
        if self.step:
            old, new = shares(self.schedule, self.step + 1)
            running = self._made(self._value).scale(old)
            value = running.combine(self._made(value).scale(new).value()).value()
            nobs = old * self.nobs + new * nobs
        model = self._stepped(nobs, value, previous)
        self._value, self.nobs, self.model, self.step = value, nobs, model, self.step + 1
        return model

    def value(self) -> Any:
        """Return the running statistic, or None before the first batch."""
        return None if not self.step else self._made(self._value).value()

    def reset(self) -> None:
        """Forget all batches, and go back to the first model if one was given."""
        self._value, self.nobs, self.model, self.step = None, 0.0, self._first, 0


class IncrementalEstimator(_Batches):
    """Incremental EM: the statistic of each chunk is kept, and replaced when the chunk comes again.

    Parameters
    ----------
    estimator : ParameterEstimator or distribution
        The M-step.
    model : distribution, optional
        The first model; otherwise one is drawn from the first chunk.
    init_estimator : ParameterEstimator, optional
        Family of the first model, if another one.
    init_p : float
        Share of the first chunk that its start reads, in (0, 1].
    rng : RandomState, Generator or int, optional
        Source of the start.
    encoder : DataSequenceEncoder, optional
        Encoder of the rows, if another than the estimator's.
    num_chunks : int
        Number of shards of a chunk of rows.
    precision : {"float64", "float32"}, optional
        What mixtures compute chunks of rows in; encoded ones bring their own.

    Attributes
    ----------
    model : distribution or None
        The model after the last chunk.
    nobs : float
        Weight of all chunks.

    Notes
    -----
    The chunks' statistics are added up again each time, never subtracted, so that chunks that are passed over and over
    give the digits of a fit to all of them. Neal and Hinton (1998), Learning in Graphical Models, 355–368.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator
    >>> fit = IncrementalEstimator(GaussianEstimator())
    >>> fit.update([0.0, 2.0], chunk_id="a").mu, round(fit.update([5.0], chunk_id="b").mu, 6)
    (1.0, 2.333333)
    >>> fit.update([1.0, 3.0], chunk_id="a").mu
    3.0
    """

    def __init__(
        self,
        estimator: Any,
        model: Any = None,
        init_estimator: Any = None,
        init_p: float = 0.1,
        rng: Any = None,
        encoder: Any = None,
        num_chunks: int = 1,
        precision: Any = None,
    ) -> None:
        super().__init__(estimator, model, init_estimator, init_p, rng, encoder, num_chunks, precision)
        self._chunks: dict[Any, tuple[float, Any]] = {}

    def update(self, data: Any = None, *, enc_data: Any = None, chunk_id: Any = None) -> Any:
        """Put a chunk in, or in the place of the one with its id, and return the new model.

        Parameters
        ----------
        data : rows, optional
            The chunk, in any form that `optimize` takes.
        enc_data : handle or list of (count, payload), optional
            An encoded chunk instead.
        chunk_id : hashable
            Name of the chunk; it is needed.

        Raises
        ------
        ValueError
            Without `chunk_id`, for a chunk without rows, and for what a fit refuses.
        """
        if chunk_id is None:
            raise ValueError("update needs the name of the chunk: pass chunk_id=")
        nobs, value, previous = self._folded(data, enc_data)
        chunks = {**self._chunks, chunk_id: (nobs, value)}
        total, whole = self._summed(chunks)
        model = self._stepped(total, whole, previous)
        self._chunks, self.nobs, self.model = chunks, total, model
        return model

    def _summed(self, chunks: dict[Any, tuple[float, Any]]) -> tuple[float, Any]:
        total, accumulator = 0.0, self.estimator.accumulator_factory().make()
        for nobs, value in chunks.values():
            total += nobs
            accumulator.combine(value)
        return total, accumulator.value()

    def chunk_value(self, chunk_id: Any) -> Any:
        """Return the statistic of a chunk.

        Raises
        ------
        KeyError
            If there is no such chunk.
        """
        if chunk_id not in self._chunks:
            raise KeyError(f"no chunk {chunk_id!r}; there are {list(self._chunks)!r:.200}")
        return self._made(self._chunks[chunk_id][1]).value()

    def value(self) -> Any:
        """Return the statistic of all chunks, or None before the first."""
        return self._summed(self._chunks)[1] if self._chunks else None

    def reset(self) -> None:
        """Forget all chunks, and go back to the first model if one was given."""
        self._chunks, self.nobs, self.model = {}, 0.0, self._first
