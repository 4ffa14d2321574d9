"""EM on worker processes whose numbers are checked: a corrupted statistic is found before it is folded.

A flipped bit in memory or in a computation raises nothing; the fit just ends elsewhere. Statistics are small, additive
and a function of shard and model alone, so computing some of them twice on two workers finds it, and computing it a
third time tells who was wrong. See `mixle.utils.parallel.policies.audit.Audit` for the same over any transport.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mixle._facade import publish
from mixle.utils.parallel.folding.fold import finite_guarded_fold, inject_bit_flip
from mixle.utils.parallel.folding.tasks import Accumulate
from mixle.utils.parallel.policies.audit import Audit
from mixle.utils.parallel.policies.receipts import SDCAuditReceipt
from mixle.utils.parallel.resilient_em import ResilientMPEncodedData

if TYPE_CHECKING:
    from mixle.telemetry import Telemetry
    from mixle.utils.parallel.folding.transport import Transport
    from mixle.utils.parallel.policies.alarms import Alarm

__all__ = ["AuditedMPEncodedData", "SDCAuditReceipt", "finite_guarded_fold", "inject_bit_flip"]

publish(__name__, SDCAuditReceipt, finite_guarded_fold, inject_bit_flip)


class AuditedMPEncodedData(ResilientMPEncodedData):
    """Encoded rows on worker processes that may die or compute wrongly while a fit runs.

    `ResilientMPEncodedData` with the `Audit` policy and a fold that stops at the first number that is not finite. In
    each E-step some shards are recomputed on a second worker and compared, as typed statistics under a numerical
    envelope, with the payload that is about to be folded. A mismatch is recorded; a third worker tells who is wrong;
    that one is retired after its shards were computed elsewhere, and everything it delivered in the round is replaced.
    What two workers agree on is folded: the model has the bits of a clean run. With two workers nobody is retired, and
    the driver computes the shard itself to choose.

    Parameters
    ----------
    data, estimator, encoder
        As for `ResilientMPEncodedData`.
    num_workers : int, optional
        Worker processes, as for `ResilientMPEncodedData`; three or more let a corrupting worker be named.
    sub_chunks, max_retries : int
        As for `ResilientMPEncodedData`.
    audit_rate : float
        Fraction of shards (0..1) recomputed each round: right on average, and each shard at least once in
        ``3 / audit_rate`` rounds.
    audit_rtol, audit_atol : float
        Finite nonnegative tolerances of floating and complex numbers. Integers, labels and keys must be equal.
    rng : numpy.random.RandomState, optional
        Draws which shards are audited and by whom; ``RandomState(0)`` if not given.
    worker_timeout_s, step_timeout_s : float
        As for `ResilientMPEncodedData`.
    num_shards, weights, speculate, telemetry, run_id : optional
        As for `ResilientMPEncodedData`.
    pin : bool
        Bind each worker to a physical core where the platform lets one, so that who audits is on another one.

    Attributes
    ----------
    audit_receipts : list of SDCAuditReceipt
        Every difference so far. One inside the envelope, between workers whose builds give equal bits, has
        ``comparison_mode="exact/v1"``: the majority of three was folded and nobody is suspected.
    audit_alarms : list of Alarm
        Every other check that failed so far.
    last_round_audited_shards : set of int
        Shards audited in the last E-step.
    last_round_audit_mismatches : list of SDCAuditReceipt
        Its differences outside the envelope.
    last_round_audit_eval_count : int
        Two per shard audited in it, and one per witness.

    Raises
    ------
    ValueError
        For a rate outside [0, 1] and tolerances that are negative or not finite; otherwise as
        `ResilientMPEncodedData`.

    Examples
    --------
    >>> from mixle.stats import GaussianEstimator
    >>> rows = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    >>> with AuditedMPEncodedData(rows, GaussianEstimator(), num_workers=3, audit_rate=1.0) as handle:
    ...     handle.arm_corruption(lambda worker, shard, role, data: inject_bit_flip(data, 300) if worker == 1 else data)
    ...     model = handle.pysp_seq_estimate(GaussianEstimator(), None)
    ...     model.mu, {receipt.suspected_workers for receipt in handle.audit_receipts}, handle._blacklist
    (3.5, {(1,)}, {1})
    """

    _fold_fn: Callable[..., tuple[float, Any]] = staticmethod(finite_guarded_fold)

    def __init__(
        self,
        data: Sequence[Any],
        estimator: Any | None = None,
        encoder: Any | None = None,
        num_workers: int | None = None,
        sub_chunks: int = 1,
        max_retries: int = 2,
        audit_rate: float = 0.1,
        audit_rtol: float = 1.0e-12,
        audit_atol: float = 1.0e-12,
        rng: Any = None,
        worker_timeout_s: float = 30.0,
        *,
        step_timeout_s: float | None = None,
        num_shards: Any = None,
        weights: Any = None,
        speculate: bool = False,
        telemetry: Telemetry | None = None,
        run_id: str | None = None,
        pin: bool = False,
    ) -> None:
        self._audit = Audit(audit_rate, rtol=audit_rtol, atol=audit_atol, rng=rng, pin=pin)
        super().__init__(
            data,
            estimator,
            encoder,
            num_workers,
            sub_chunks,
            max_retries,
            worker_timeout_s=worker_timeout_s,
            step_timeout_s=step_timeout_s,
            num_shards=num_shards,
            weights=weights,
            speculate=speculate,
            telemetry=telemetry,
            run_id=run_id,
        )

    def _wrap(self, transport: Transport) -> Transport:
        self._audit = self._audit.over(transport)
        return self._audit

    def arm_corruption(self, hook: Callable[[int, int, str, bytes], Any] | None) -> None:
        """Register a hook that may change each audited payload as it is heard, until it is cleared.

        Parameters
        ----------
        hook : callable or None
            ``hook(worker_id, shard_id, role, payload_bytes) -> payload_bytes`` with `role` "primary", "audit" or
            "witness", given ``pickle.dumps((count, value))``. What it returns changed is read as plain data, and is a
            mismatch where it cannot be read. None clears it.
        """
        self._audit.arm(hook)

    def _audit_shards(
        self, estimator: Any, model: Any, shards: Iterable[int], quarantine_on_mismatch: bool = True
    ) -> list[SDCAuditReceipt]:
        """Audit shards now, both sides computed anew; return the mismatches."""
        with self._serving("audit"):
            self._check_estimator(estimator)
            task = Accumulate(estimator, model, scored=False, precision=self.precision)
            return self._audit.audit(task, shards, quarantine_on_mismatch)

    @property
    def audit_rate(self) -> float:
        """Fraction of shards recomputed each round."""
        return self._audit.rate

    @property
    def audit_rtol(self) -> float:
        """Relative tolerance."""
        return self._audit.rtol

    @property
    def audit_atol(self) -> float:
        """Absolute tolerance."""
        return self._audit.atol

    @property
    def audit_receipts(self) -> list[SDCAuditReceipt]:
        """Every difference so far."""
        return self._audit.receipts

    @property
    def audit_alarms(self) -> list[Alarm]:
        """Every other check that failed so far: digests of rows and models, sums, the fold, the M-step."""
        return self._audit.alarms

    @property
    def last_round_audited_shards(self) -> set[int]:
        """Shards audited in the last E-step."""
        return set(self._audit.last_shards)

    @property
    def last_round_audit_mismatches(self) -> list[SDCAuditReceipt]:
        """Differences of the last E-step outside the envelope."""
        return list(self._audit.last_mismatches)

    @property
    def last_round_audit_eval_count(self) -> int:
        """Two per shard audited in the last E-step, and one per witness."""
        return self._audit.last_evaluations
