"""Validation data: the function that scores a model on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mixle.errors import EmptyDataError
from mixle.inference.adopted import adopt
from mixle.inference.resident import rows_for
from mixle.utils.parallel.folding.protocol import is_encoded_data_handle

__all__ = ["Validation", "validating"]


@contextmanager
def validating(
    vdata: Any, enc_vdata: Any, estimator: Any, encoder: Any, fields: Any = None
) -> Iterator[Callable[[Any], float] | None]:
    """Yield the function that scores a model on validation data, or None without such data.

    Rows are encoded in this process; encoded validation data may be a handle or a list of chunks.
    """
    if enc_vdata is None and vdata is None:
        yield None
        return
    if enc_vdata is None and is_encoded_data_handle(vdata):
        enc_vdata = vdata
    if enc_vdata is not None:
        handle = enc_vdata if is_encoded_data_handle(enc_vdata) else adopt(enc_vdata, estimator, encoder)
        if handle is None:
            raise EmptyDataError(
                "received no observations: the validation data have no rows; pass some, or leave vdata= out"
            )
        yield Validation(handle)
        return
    from mixle.utils.parallel.planner import encoded_data

    with encoded_data(rows_for(vdata, encoder, fields), estimator=estimator, encoder=encoder) as handle:
        yield Validation(handle)


class Validation:
    """The log-likelihood of a model on validation data.

    Parameters
    ----------
    handle : EncodedFold
        The encoded validation data.
    """

    def __init__(self, handle: Any) -> None:
        self.handle = handle

    def __call__(self, model: Any) -> float:
        """Return the log-likelihood of `model`."""
        return float(self.handle.pysp_seq_log_density_sum(model)[1])
