"""The documented contract of a handle: a base class that says it, and a protocol that tells it."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

__all__ = ["EncodedDataHandle", "EncodedFold", "is_encoded_data_handle"]


class EncodedDataHandle:
    """Encoded rows somewhere, and the four calls that fits make on them.

    Handles of other frameworks need not inherit from this class: whatever has the four ``pysp_*`` methods is a handle
    (`EncodedFold`). A handle is a context manager; leaving it closes it.

    Examples
    --------
    >>> from mixle.stats import PoissonEstimator
    >>> from mixle.utils.parallel.planner import encoded_data
    >>> isinstance(encoded_data([1, 2, 3], PoissonEstimator()), EncodedDataHandle)
    True
    """

    def pysp_seq_log_density_sum(self, estimate: Any) -> tuple[float, float]:
        """Return (num_observations, summed_log_density) for `estimate`, a distribution.

        That is the total row weight (the number of rows without weights) and the weighted sum of log-densities.
        """
        raise NotImplementedError(f"{type(self).__name__} does not score")

    def pysp_seq_estimate(self, estimator: Any, prev_estimate: Any) -> Any:
        """Run one EM step: fold the statistic of `prev_estimate` over all rows, then estimate the next model.

        `estimator` has the accumulators and the M-step; `prev_estimate` is the current model, which leaves can do
        without (None).
        """
        raise NotImplementedError(f"{type(self).__name__} does not estimate")

    def pysp_seq_initialize(self, estimator: Any, rng: Any, p: float) -> Any:
        """Draw a start of `estimator`: a model estimated from a random subset of the rows.

        `rng` is a RandomState, a Generator or a seed; `p`, in (0, 1], is the probability that a row is kept.
        """
        raise NotImplementedError(f"{type(self).__name__} does not initialize")

    def pysp_stream_accumulate(self, estimator: Any, model: Any) -> tuple[float, Any]:
        """Return total row weight and folded statistic under `model`, keys tied, for streaming or incremental EM."""
        raise NotImplementedError(f"{type(self).__name__} does not accumulate")

    def close(self) -> None:
        """Release workers and memory held by this handle, if any."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@runtime_checkable
class EncodedFold(Protocol):
    """What a fit needs of encoded data, told by structure: the four ``pysp_*`` methods, no inheritance.

    Examples
    --------
    >>> isinstance([(1, "payload")], EncodedFold)
    False
    """

    def pysp_seq_log_density_sum(self, estimate: Any) -> tuple[float, float]:
        """Return total weight and summed log-density of `estimate`."""
        ...  # pragma: no cover - a protocol

    def pysp_seq_estimate(self, estimator: Any, prev_estimate: Any) -> Any:
        """Return the model after one EM step."""
        ...  # pragma: no cover - a protocol

    def pysp_seq_initialize(self, estimator: Any, rng: Any, p: float) -> Any:
        """Return a started model."""
        ...  # pragma: no cover - a protocol

    def pysp_stream_accumulate(self, estimator: Any, model: Any) -> tuple[float, Any]:
        """Return total weight and folded statistic."""
        ...  # pragma: no cover - a protocol


def is_encoded_data_handle(obj: Any) -> bool:
    """Return True when `obj` has the four methods of a handle, whatever its class.

    Parameters
    ----------
    obj : Any
        Anything; a class is not a handle.

    Examples
    --------
    >>> is_encoded_data_handle([1.0, 2.0])
    False
    """
    return isinstance(obj, EncodedFold) and not isinstance(obj, type)
