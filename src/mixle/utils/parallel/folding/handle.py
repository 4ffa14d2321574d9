"""The four documented calls, written once over any transport."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from mixle._limits import one_blas_thread
from mixle.errors import HandleClosed, SupportError
from mixle.stats.refusals import check_models
from mixle.utils.parallel.folding.encoders import check_reading
from mixle.utils.parallel.folding.faults import closed_error
from mixle.utils.parallel.folding.fold import GROUP, EStep, fold_log_densities, fold_numbers, fold_results
from mixle.utils.parallel.folding.inputs import check_probability, random_state, warn_user
from mixle.utils.parallel.folding.mstep import estimated, m_step
from mixle.utils.parallel.folding.observed import Observed
from mixle.utils.parallel.folding.protocol import EncodedDataHandle, EncodedFold, is_encoded_data_handle
from mixle.utils.parallel.folding.round import run_round
from mixle.utils.parallel.folding.row_output import RowOutput
from mixle.utils.parallel.folding.starts import check_start, noted, start_results
from mixle.utils.parallel.folding.tasks import Accumulate, Result, Score

if TYPE_CHECKING:
    from collections.abc import Callable

    from mixle.utils.parallel.folding.tasks import Task
    from mixle.utils.parallel.folding.transport import Source, Transport

__all__ = ["EStep", "EncodedDataHandle", "EncodedFold", "Handle", "is_encoded_data_handle", "is_ours"]


class Handle(Observed, RowOutput, EncodedDataHandle):
    """Encoded rows behind a transport.

    Two threads may share a handle: their calls run one after the other. It cannot be pickled and does not work in a
    forked child.

    Parameters
    ----------
    transport : Transport
        Where the shards live. Without `source` it must be loaded already.
    source : Source, optional
        Rows, weights and shards to load.

    Raises
    ------
    RowError
        Naming the position of a row that cannot be encoded.
    """

    #: Whether this process speaks for the fit; where several run the same code (MPI), one of them does.
    is_root: bool = True
    #: What E-steps and scores compute in: "float64", or "float32" with sums in float64.
    precision: str = "float64"

    def __init__(self, transport: Transport, source: Source | None = None) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._closed = False
        self._keys_checked: Any = None
        self._unlike_told = False
        self._left_out = 0
        self.transport = transport
        self._keep_log(transport)
        self.encoder = None if source is None else source.encoder
        self._counted = None if source is None else source.counted
        self._first_row = 0 if source is None else source.first_counted
        self._width = None if source is None else source.width
        if source is not None:
            try:
                transport.load(source)
            except BaseException:
                transport.close()
                raise
        self._sizes = dict(transport.sizes)

    @property
    def size(self) -> int:
        """Number of rows."""
        return sum(self._sizes.values())

    @property
    def counted(self) -> int:
        """Number of rows of positive weight."""
        return self.size if self._counted is None else self._counted

    @property
    def num_shards(self) -> int:
        """Number of shards."""
        return len(self._sizes)

    @property
    def closed(self) -> bool:
        """Whether `close` released what this handle needs to work."""
        return self._closed

    @property
    def left_out(self) -> int:
        """Number of rows that the last E-step left out because no component of the model supports them."""
        return self._left_out

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"<{type(self).__name__}: {self.size} rows in {self.num_shards} shards on {self.transport.name}{state}>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied: it holds encoded rows and workers of this process. "
            "Send the rows and the model, and call encoded_data(rows, estimator) where they arrive"
        )

    def close(self) -> None:
        """Release workers and memory held by this handle; further calls do nothing.

        It waits for nobody: a call that another thread has under way raises HandleClosed, and so do those behind it.
        """
        if self._pid != os.getpid():
            return
        self._closed = self._closed or self.transport.closable
        self.transport.close()
        self._log.close()

    def pysp_seq_log_density_sum(self, estimate: Any) -> tuple[float, float]:
        """Return (num_observations, summed_log_density) for `estimate`.

        Parameters
        ----------
        estimate : distribution
            Model to score.

        Returns
        -------
        tuple of (float, float)
            Total row weight and the weighted sum of log-densities; -inf if a row lies outside the support.

        Raises
        ------
        TaskError
            If the model's own code fails; the error is also of that exception's type and names shard and row.
        """
        check_models([estimate])
        with self._serving("llsum"):
            results = self._run(Score(estimate, self.precision))
            return fold_numbers([result.weight for result in results]), fold_log_densities(results)

    def pysp_seq_estimate(self, estimator: Any, prev_estimate: Any) -> Any:
        """Run one EM step: fold the statistic of `prev_estimate` over all shards in order, then estimate.

        Parameters
        ----------
        estimator : ParameterEstimator
            Its accumulators and its M-step.
        prev_estimate : distribution or None
            Current model; leaves need none.

        Returns
        -------
        distribution

        Raises
        ------
        TaskError
            If user code fails on a shard; the error is also of that exception's type and names shard and row.
        SupportError
            If no component supports any row.
        """
        with self._serving("update"):
            return self.m_step(estimator, self._accumulate(estimator, prev_estimate, scored=False), prev_estimate)

    def pysp_seq_initialize(self, estimator: Any, rng: Any, p: float) -> Any:
        """Draw a start: a model estimated from the rows that random draws keep.

        A row's draw depends on the seed and its position only, so that a start is the same wherever rows live. If no
        row is kept, the first one is.

        Parameters
        ----------
        estimator : ParameterEstimator
            What to start.
        rng : numpy.random.RandomState, int or numpy.random.Generator
            Source of the randomness; a RandomState is advanced.
        p : float
            Probability that a row is kept, in (0, 1].

        Returns
        -------
        distribution

        Raises
        ------
        ValueError
            If `p` lies outside (0, 1], or there are fewer rows than components to start.
        TypeError
            If `p` is a boolean or `rng` is not a source of randomness.
        """
        with self._serving("init"):
            p, rng = check_probability(p), random_state(rng)
            self._check_estimator(estimator)
            check_start(estimator, self.size, self.counted, self._width)
            with one_blas_thread():
                results, notes = start_results(self._run, estimator, rng, p, self.num_shards, self._first_row)
                nobs, value = self._fold(estimator, results)
                return self._decide("init", lambda: noted(estimated(estimator, nobs, value), notes))

    def pysp_stream_accumulate(self, estimator: Any, model: Any) -> tuple[float, Any]:
        """Return the folded statistic for streaming or incremental EM, keys tied.

        Parameters
        ----------
        estimator : ParameterEstimator
            Its accumulators.
        model : distribution or None
            Model of the E-step.

        Returns
        -------
        tuple of (float, Any)
            Total row weight and statistic.

        Raises
        ------
        TaskError
            As `pysp_seq_estimate`.
        """
        with self._serving("update"):
            step = self._accumulate(estimator, model, scored=False)
            return step.nobs, step.value

    def estep(self, estimator: Any, model: Any) -> EStep:
        """Return statistic and log-density of `model` from one pass over the rows.

        Parameters
        ----------
        estimator : ParameterEstimator
            Its accumulators.
        model : distribution or None
            Current model.

        Raises
        ------
        TaskError
            As `pysp_seq_estimate`.
        """
        with self._serving("update"):
            return self._accumulate(estimator, model, scored=True)

    def m_step(self, estimator: Any, estep: EStep, previous: Any = None) -> Any:
        """Return the model that fits what an E-step left, one BLAS thread at work.

        Parameters
        ----------
        estimator : ParameterEstimator
            The M-step. If it has ``keep_empty(model, previous, value)``, components without weight keep their
            previous parameters.
        estep : EStep
            What `estep` returned.
        previous : distribution, optional
            Model of that E-step.

        Raises
        ------
        SupportError
            If every row of positive weight was left out.
        """
        if estep.left_out and estep.left_out >= self.counted:
            from mixle.stats.refusals import supports

            takes = supports(previous)
            raise SupportError(
                "no component supports any row; start from a model whose support covers the data"
                + (f": {takes}" if takes else ""),
                type(previous).__name__,
            )

        args = (estimator, estep.nobs, estep.value, previous)
        start = time.perf_counter()
        model = self._decide("m_step", partial(m_step, *args))
        if (verify := getattr(self.transport, "verified_m_step", None)) is not None:
            model = verify(model, args)
        self._log.estimated(time.perf_counter() - start)
        return model

    def agree(self, value: Any) -> Any:
        """Return the `value` of the process that speaks for the fit, on all that run the same code."""
        return value

    def _decide(self, verb: str, make: Callable[[], Any]) -> Any:
        """Return what ``make()`` returns in the process that speaks for the fit."""
        return make()

    def _run(self, task: Task) -> list[Result]:
        watch = self._log.watch if isinstance(task, Accumulate) else None
        results = run_round(self.transport, task, watch, groups=watch is not None and self.num_shards > GROUP)
        builds = sorted({result.receipt["build"] for result in results if "build" in result.receipt})
        if len(builds) > 1 and not self._unlike_told:
            self._unlike_told = True
            warn_user(f"workers compute with unlike builds, so bits depend on who does what: {'; '.join(builds)}")
        return results

    @property
    def _folds_itself(self) -> bool:  # and may do it again to check it
        return True

    def _fold(self, estimator: Any, results: list[Result]) -> tuple[float, Any]:
        return fold_results(estimator, results)

    def _accumulate(self, estimator: Any, model: Any, scored: bool) -> EStep:
        self._check_estimator(estimator)
        if model is None and hasattr(estimator, "num_start_components"):
            raise TypeError(
                f"{type(estimator).__name__} needs a model to step from: pass a start, "
                "e.g. handle.pysp_seq_initialize(estimator, rng=0, p=0.1)"
            )
        results = self._run(Accumulate(estimator, model, scored, precision=self.precision))
        verify = getattr(self.transport, "verified_fold", None) if self._folds_itself else None
        fold = partial(self._fold, estimator, results)
        nobs, value = fold() if verify is None else verify(estimator, fold)
        self._log.folded()
        self._left_out = sum(int(result.receipt.get("left_out", 0)) for result in results)
        return EStep(nobs, value, fold_log_densities(results), self._left_out)

    def _check_estimator(self, estimator: Any) -> None:
        """Refuse what is no estimator, and tying keys that cannot be honoured, once per estimator."""
        if not hasattr(estimator, "accumulator_factory"):
            raise TypeError(f"a {type(estimator).__name__} is not an estimator: pass one, e.g. model.estimator()")
        if self._keys_checked is not estimator:
            from mixle.stats.keys import validate_estimator_keys

            validate_estimator_keys(estimator)
            check_reading(self.encoder, estimator)
            self._keys_checked = estimator

    @contextmanager
    def _serving(self, verb: str) -> Iterator[None]:
        """Let one caller in, unless this handle is closed or belongs to another process."""
        if self._pid != os.getpid():
            raise TypeError(
                f"this {type(self).__name__} was made before a fork and works only in process {self._pid}: "
                "call encoded_data(rows, estimator) in this process"
            )
        with self._lock:
            if self._closed:
                raise closed_error(verb)
            try:
                yield
            except Exception as error:
                if self._closed and not isinstance(error, HandleClosed):  # a transport torn down under the call
                    raise closed_error(verb) from error
                raise


_ORIGINAL = {name: vars(Handle)[name] for name in ("pysp_seq_estimate", "pysp_seq_log_density_sum")}


def is_ours(handle: Any) -> bool:
    """Return True if `handle` runs this library's own E-step, so that one pass may serve step and score.

    A subclass, spy or monkeypatch that replaces `pysp_seq_estimate` or `pysp_seq_log_density_sum`, on the instance or
    its class, makes it False: such a handle is driven through the documented methods.
    """
    if not isinstance(handle, Handle):
        return False
    return all(
        name not in vars(handle) and getattr(type(handle), name) is original for name, original in _ORIGINAL.items()
    )
