"""EM on worker processes that may die: the fit goes on and has the bits of a fit without a loss.

Statistics are additive, so a lost worker costs its shards and nothing else; they are recomputed from rows that all
workers can read. A statistic is a function of the shard and the model, and statistics are added in shard order, so a
recovered round has the bits of a clean one. And a running sum is a checkpoint: see `checkpointed_fold`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mixle._facade import publish
from mixle.errors import BackendError, HandleClosed
from mixle.utils.parallel.folding.fold import checkpointed_fold, finite_guarded_fold, fold_results
from mixle.utils.parallel.folding.handle import Handle
from mixle.utils.parallel.folding.inputs import (
    check_count,
    check_rows,
    check_weights,
    choose_encoder,
    choose_map,
    make_source,
)
from mixle.utils.parallel.folding.shards import Strided
from mixle.utils.parallel.folding.tasks import Accumulate
from mixle.utils.parallel.planning.discover import count_workers
from mixle.utils.parallel.policies.base import stack
from mixle.utils.parallel.policies.retry import Retry, check_retries

if TYPE_CHECKING:
    from mixle.telemetry import Telemetry
    from mixle.utils.parallel.folding.handle import EStep
    from mixle.utils.parallel.folding.tasks import Result, Task
    from mixle.utils.parallel.folding.transport import Transport
    from mixle.utils.parallel.policies.base import Policy
    from mixle.utils.parallel.policies.losses import Loss, RoundReceipt
    from mixle.utils.parallel.policies.speculate import Difference

__all__ = ["ResilientMPEncodedData", "checkpointed_fold"]

publish(__name__, checkpointed_fold)

Hook = Callable[[int, Any], Any]


class ResilientMPEncodedData(Handle):
    """Encoded rows on worker processes that may be killed, hang or crash while a fit runs.

    The process transport with the `Retry` policy: what a lost worker owed is recomputed by the survivors, its rank is
    started again, and after `max_retries` losses the rank is given up and its shards move to others. Results have the
    bits of an undisturbed run. A user's exception is raised and retires nobody.

    Parameters
    ----------
    data, estimator, encoder, num_workers
        As for `MPEncodedData`.
    sub_chunks : int
        Encoded pieces per shard; one accumulator runs over them, also where a shard is recomputed.
    max_retries : int
        Number of losses after which a rank is given up.
    worker_timeout_s : float
        Seconds of silence (no byte, no processor time, not waiting for a disk) after which a worker counts as hung.
        A worker that computes is never ended, however long it takes.
    step_timeout_s : float, optional
        Bound on the seconds that one shard may take, if wanted.
    num_shards : int or shard map, optional
        Shard map: an int is ``Strided(K)``. By default one shard per worker, row `i` in shard ``i % num_workers``.
        More shards than workers make recovery cheaper and the result independent of the number of workers.
    weights : array_like, shape (n,), optional
        Row weights, finite and at least 0.
    speculate : bool
        Let idle workers repeat what a slow one still owes; the first reply is used.
    policies : iterable of Policy
        What happens to the workers before this class recovers from it, e.g. a `mixle.testing.ChaosPlan`.
    telemetry, run_id : optional
        Where a record per rank and round is sent, and what it is tagged with.

    Attributes
    ----------
    num_workers : int
        Number of workers asked for.
    sub_chunks, max_retries : int
        As given.
    size : int
        Number of rows.
    last_round_reused_shards, last_round_recomputed_shards : set of int
        Shards of the last E-step done by the worker they live on, and by another one after a loss.
    last_round_failed_workers, last_round_blacklisted_workers : set of int
        Workers lost in it, and those of them that were given up.
    last_round_losses : tuple of Loss
        What happened to each: kind, cause, exit code, whether memory ran out, what it last wrote.

    Raises
    ------
    TypeError
        For data that are no sequence of rows, and counts that are no integers.
    ValueError
        For empty data, wrong weights, `max_retries` or `sub_chunks` below 1.
    RowError
        For a row that cannot be encoded, named by its position.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator
    >>> with ResilientMPEncodedData([1.0, 2.0, 3.0, 4.0], GaussianEstimator(), num_workers=2) as handle:
    ...     handle.arm_kill(lambda worker, process: process.kill() if worker == 1 else None)
    ...     handle.pysp_seq_estimate(GaussianEstimator(), None).mu, handle.last_round_recomputed_shards
    (2.5, {1})
    """

    _fold_fn: Callable[..., tuple[float, Any]] = staticmethod(checkpointed_fold)

    def __init__(
        self,
        data: Sequence[Any],
        estimator: Any | None = None,
        encoder: Any | None = None,
        num_workers: int | None = None,
        sub_chunks: int = 1,
        max_retries: int = 2,
        worker_timeout_s: float = 30.0,
        *,
        step_timeout_s: float | None = None,
        num_shards: Any = None,
        weights: Any = None,
        speculate: bool = False,
        policies: Iterable[Policy] = (),
        telemetry: Telemetry | None = None,
        run_id: str | None = None,
    ) -> None:
        title = type(self).__name__
        rows = check_rows(data, title)
        encoder = choose_encoder(title, estimator, None, encoder, takes_model=False)
        self.sub_chunks = check_count(sub_chunks, "sub_chunks") or 1
        self.max_retries = check_retries(max_retries)
        self.num_workers = count_workers(num_workers, len(rows))
        shard_map = choose_map(Strided(self.num_workers), len(rows), num_shards=num_shards) or Strided(1)
        source = make_source(rows, encoder, shard_map, self.sub_chunks, check_weights(weights, len(rows)), estimator)
        pool = _inside(_pool(self.num_workers, worker_timeout_s, step_timeout_s), policies)
        self._kill_hook: Hook | None = None
        self._armed: Hook | None = None
        self._retry = Retry(self.max_retries, speculate=speculate).over(pool)
        self._retry.title = title
        self._note(self._retry.last)
        super().__init__(self._wrap(self._retry), source)
        self.observe(telemetry, run_id)

    def _wrap(self, transport: Transport) -> Transport:
        """Return the transport inside further policies; a subclass has some."""
        return transport

    def arm_kill(self, hook: Hook | None) -> None:
        """Register a one-shot hook for the next E-step.

        It is called once for each worker, right after the worker has the task and while it waits for the word to go:
        it has not begun to accumulate. The hook may kill the process. It is cleared the moment the next
        `pysp_seq_estimate` or `pysp_stream_accumulate` (or an E-step of `optimize`) begins; starts and scores leave it
        alone. Without a hook there is no such handshake.

        Parameters
        ----------
        hook : callable or None
            ``hook(worker, process)``; the process has `pid`, `kill`, `terminate`, `join`, `is_alive`, `exitcode`.
            None disarms.
        """
        if hook is not None and not callable(hook):
            raise TypeError(f"a hook is called as hook(worker, process); {hook!r} cannot be called")
        self._kill_hook = hook

    def add_worker(self) -> int:
        """Open one more worker between rounds and return its id; shards move there, results keep their bits."""
        with self._serving("add_worker"):
            worker = self._retry.add_worker()
            self.num_workers += 1
            return worker

    def remove_worker(self, worker: int | None = None) -> int:
        """End a worker between rounds and return its id; its shards move to others, results keep their bits.

        Parameters
        ----------
        worker : int, optional
            Which one; the one with the fewest rows if not given.
        """
        with self._serving("remove_worker"):
            worker = self._retry.remove_worker(worker)
            self.num_workers -= 1
            return worker

    def resize(self, num_workers: int) -> None:
        """Open or end workers between rounds until there are `num_workers`; results keep their bits.

        Parameters
        ----------
        num_workers : int
            At least 1. Ranks that were given up do not count.
        """
        with self._serving("resize"):
            self._retry.resize(num_workers)
            self.num_workers = num_workers

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Shards of which a slow worker and its backup made different statistics, so far."""
        self._retry.poll_late(self._retry.last)
        return tuple(self._retry.differences)

    @contextmanager
    def _serving(self, verb: str) -> Iterator[None]:
        if self._closed:
            title = type(self).__name__
            missing = {"llsum": "workers returned no scores", "init": "workers returned no start"}
            told = missing.get(verb, f"{title} has no live workers left")
            raise HandleClosed(
                f"{told}: this handle is closed, {verb} cannot be served. Build a new one: {title}(rows, estimator)"
            )
        with super()._serving(verb):
            yield

    def _accumulate(self, estimator: Any, model: Any, scored: bool) -> EStep:
        self._armed, self._kill_hook = self._kill_hook, None
        try:
            return super()._accumulate(estimator, model, scored)
        finally:
            self._armed = None

    def _run(self, task: Task) -> list[Result]:
        step = isinstance(task, Accumulate)
        if step and self._armed is not None:
            self._retry.arm(self._armed)
        try:
            return super()._run(task)
        finally:
            if step:
                self._retry.arm(None)
            if step or self._retry.last.losses:
                self._note(self._retry.last)

    @property
    def _folds_itself(self) -> bool:
        return self._fold_fn in {checkpointed_fold, finite_guarded_fold}

    def _fold(self, estimator: Any, results: list[Result]) -> tuple[float, Any]:
        fold = self._fold_fn
        if fold is checkpointed_fold:
            return fold_results(estimator, results)
        if fold is finite_guarded_fold:
            return fold_results(estimator, results, "AuditedMPEncodedData.combine", guard=True)
        return fold(estimator, [pickle.dumps((result.weight, result.value)) for result in results])

    def _note(self, receipt: RoundReceipt) -> None:
        self.last_round_reused_shards = set(receipt.reused)
        self.last_round_recomputed_shards = set(receipt.recomputed)
        self.last_round_failed_workers = set(receipt.failed)
        self.last_round_blacklisted_workers = set(receipt.blacklisted)
        self.last_round_losses: tuple[Loss, ...] = tuple(receipt.losses)

    # Views that tests of users look at

    @property
    def _blacklist(self) -> set[int]:
        return self._retry.blacklist

    @property
    def _failures(self) -> dict[int, int]:
        return self._retry.failures

    @property
    def _procs(self) -> dict[int, Any]:
        processes = {} if self._closed else self._retry.processes()
        return {worker: process for worker, process in processes.items() if worker not in self._blacklist}

    @property
    def _conns(self) -> dict[int, Any]:
        return {worker: process.connection for worker, process in self._procs.items()}

    @property
    def _worker_shards(self) -> dict[int, set[int]]:
        shards: dict[int, set[int]] = {worker: set() for worker in sorted({*self._retry.workers(), *self._blacklist})}
        for shard, worker in self._retry.owner.items():
            shards.setdefault(worker, set()).add(shard)
        return shards

    @property
    def _shard_raw(self) -> Mapping[int, bytes]:
        return _RawShards(self._retry)


class _RawShards(Mapping[int, bytes]):
    """The rows of each shard, pickled when they are asked for."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    def __getitem__(self, shard: int) -> bytes:
        if shard not in self._transport.sizes:
            raise KeyError(shard)
        return pickle.dumps(list(self._transport.rows_of(shard)))

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._transport.sizes))

    def __len__(self) -> int:
        return len(self._transport.sizes)


def _inside(pool: Transport, policies: Iterable[Policy]) -> Transport:
    """Return the pool inside policies that belong under `Retry`."""
    given = list(policies)
    outer = [policy for policy in given if getattr(policy, "order", 0) >= Retry.order]
    if outer:
        raise BackendError(
            f"{type(outer[0]).__name__} belongs outside of the recovery that this handle brings with it; "
            "use encoded_data(rows, estimator, backend='mp', policies=[...])"
        )
    return stack(pool, given)


def _pool(num_workers: int, worker_timeout_s: float, step_timeout_s: float | None) -> Transport:
    from mixle.utils.parallel.transports.process import ProcessTransport

    return ProcessTransport(num_workers, worker_timeout_s=worker_timeout_s, step_timeout_s=step_timeout_s)
