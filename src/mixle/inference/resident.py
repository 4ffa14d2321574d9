"""Encoded rows for a fit: made here, or handed in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mixle.errors import BackendError, EmptyDataError
from mixle.inference.adopted import adopt, encoder_of
from mixle.inference.options import check_cap
from mixle.inference.rows import as_rows, row_width
from mixle.utils.parallel.folding.inputs import check_precision, check_weights, is_cluster_collection
from mixle.utils.parallel.folding.protocol import is_encoded_data_handle
from mixle.utils.parallel.folding.starts import check_start

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Encoding", "Resident", "opened", "rows_for"]


# What `encoded_data` is told, and the value that leaves the choice to it.
_CONTROLS = {"resources": None, "placement": None, "sub_chunks": 1, "num_workers": None, "client": None}
_CONTROLS |= {"comm": None, "root": 0, "root_only": False, "num_chunks": 1, "chunk_size": None, "num_shards": None}


@dataclass(frozen=True)
class Encoding:
    """How rows are to be encoded; make it with `Encoding.checked`.

    Attributes
    ----------
    backend : str
        Name of the backend.
    controls : dict
        Keyword arguments that were given a value of their own.
    fields : sequence or None
        Columns of a table to take.
    weights : array_like or None
        Row weights.
    """

    backend: str = "local"
    controls: dict[str, Any] = field(default_factory=dict)
    fields: Sequence[Any] | None = None
    weights: Any = None

    @classmethod
    def checked(cls, settings: dict[str, Any]) -> Encoding:
        """Return the encoding that the arguments of `optimize`, by name, ask for."""
        backend = settings.get("backend", "local")
        if backend is not None and (not isinstance(backend, str) or not backend):
            raise ValueError(f"backend must be the name of a backend, not {backend!r}")
        given = {name: settings.get(name, default) for name, default in _CONTROLS.items()}
        controls = {name: value for name, value in given.items() if _differs(value, _CONTROLS[name])}
        for name in ("num_chunks", "chunk_size", "sub_chunks"):
            if name in controls:
                controls[name] = check_cap(name, controls[name], 1)
        if "num_chunks" in controls and "chunk_size" in controls:
            raise ValueError("num_chunks and chunk_size are two names for one choice; pass one of them")
        if check_precision("a fit", settings.get("precision")) != "float64":
            controls["precision"] = "float32"
        return cls((backend or "local").lower(), controls, settings.get("fields"), settings.get("weights"))

    def keywords(self, rows: Any) -> dict[str, Any]:
        """Return the keyword arguments of `encoded_data` for `rows`."""
        controls = dict(self.controls)
        size = controls.pop("chunk_size", None)
        if size is not None:
            controls["num_chunks"] = -(-len(rows) // size)
        return controls


def _differs(value: Any, default: Any) -> bool:
    return value is not default if default is None else value is None or value != default


@dataclass(frozen=True)
class Resident:
    """Encoded rows of a fit.

    Attributes
    ----------
    handle : EncodedFold
        The rows, encoded.
    rows : int or None
        Their number; None for a handle that was handed in.
    encoder : DataSequenceEncoder
        Encoder of the model.
    """

    handle: Any
    rows: int | None
    encoder: Any


def rows_for(data: Any, encoder: Any, fields: Sequence[Any] | None = None) -> Any:
    """Return `data` as rows in the form that `encoder` reads: tuples, mappings, or the values of a single column."""
    form = getattr(encoder, "row_form", "value")
    return as_rows(data, fields, mappings=form == "mapping", scalars=form == "value")


@contextmanager
def opened(
    data: Any, enc_data: Any, estimator: Any, how: Encoding, *, model: Any = None, starter: Any = None
) -> Iterator[Resident]:
    """Yield the encoded rows; a handle made here is closed on the way out, one handed in is left open.

    Parameters
    ----------
    data, enc_data : object
        Rows, or encoded rows; a handle is taken in either place.
    estimator : ParameterEstimator
        The estimator of the fit.
    how : Encoding
        How rows are to be encoded.
    model : distribution, optional
        The previous model, whose encoder is used.
    starter : ParameterEstimator, optional
        The estimator that will draw a start; too few rows for it are refused before any work.
    """
    encoder = encoder_of(estimator, model)
    if enc_data is None and is_encoded_data_handle(data):
        enc_data = data
    if enc_data is not None:
        yield _handed_in(enc_data, estimator, encoder, how)
        return
    with _together(how):
        rows, weights = _read(data, encoder, how)
        if starter is not None and hasattr(rows, "__len__") and not is_cluster_collection(rows):
            usable = None if weights is None else int((weights > 0).sum())
            check_start(starter, len(rows), usable, row_width(rows))
    handle = _encode(rows, weights, estimator, model, encoder, how)
    try:
        yield Resident(handle, len(handle) if hasattr(handle, "__len__") else None, encoder)
    finally:
        handle.close()


def _together(how: Encoding) -> AbstractContextManager[None]:
    """Let processes that all run this fit (MPI) raise together what one of them raises before there is a handle."""
    if how.backend != "mpi":
        return nullcontext()
    from mixle.utils.parallel.mpi import together

    return together(how.controls.get("comm"))


def _handed_in(enc_data: Any, estimator: Any, encoder: Any, how: Encoding) -> Resident:
    ignored = [*how.controls, *(["weights"] if how.weights is not None else [])]
    if ignored:
        name = ignored[0]
        raise BackendError(
            f"{', '.join(ignored)} cannot change rows that are encoded already; "
            f"pass encoded_data(rows, estimator, {name}=...) as enc_data"
        )
    if is_encoded_data_handle(enc_data):
        if hasattr(enc_data, "__len__") and len(enc_data) == 0:
            raise EmptyDataError("received no observations: enc_data has no rows; pass at least one")
        return Resident(enc_data, None, encoder)
    handle = adopt(enc_data, estimator, encoder)
    if handle is None:
        raise EmptyDataError("received no observations: enc_data has no rows; pass at least one")
    return Resident(handle, len(handle), encoder)


def _read(data: Any, encoder: Any, how: Encoding) -> tuple[Any, np.ndarray | None]:
    local = how.backend == "local"
    if not local and (is_cluster_collection(data) or (data is None and how.controls.get("root_only"))):
        return data, how.weights
    rows = rows_for(data, encoder, how.fields)
    return rows, None if how.weights is None else check_weights(how.weights, len(rows))


def _encode(rows: Any, weights: Any, estimator: Any, model: Any, encoder: Any, how: Encoding) -> Any:
    from mixle.utils.parallel.planner import encoded_data

    controls = how.keywords(rows)
    if weights is not None:
        controls["weights"] = weights
    return encoded_data(rows, estimator=estimator, model=model, encoder=encoder, backend=how.backend, **controls)
