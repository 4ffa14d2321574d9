"""Audit: some of the statistics of each round are computed twice, before they are folded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mixle.errors import AlteredPayload, ContractError, RoundLosses
from mixle.utils.parallel.folding.tasks import Accumulate
from mixle.utils.parallel.policies.alarms import Alarm
from mixle.utils.parallel.policies.base import Policy, lets_choose
from mixle.utils.parallel.policies.beside import beside
from mixle.utils.parallel.policies.cores import Pins, elsewhere
from mixle.utils.parallel.policies.driver import DriverChecks
from mixle.utils.parallel.policies.evidence import Evidence
from mixle.utils.parallel.policies.hearing import Hearing
from mixle.utils.parallel.policies.intake import Intake
from mixle.utils.parallel.policies.invariants import Invariants
from mixle.utils.parallel.policies.own import own_result
from mixle.utils.parallel.policies.quarantine import gather, live_workers, worker_of
from mixle.utils.parallel.policies.receipts import SDCAuditReceipt, mismatches
from mixle.utils.parallel.policies.selection import Selection

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Result, Task
    from mixle.utils.parallel.folding.transport import Source
    from mixle.utils.parallel.policies.ballots import Hook

__all__ = ["Audit"]

ALTERED = AlteredPayload.__name__
_ONLY_SUMS = (
    "{!r} chooses itself who computes what, so nothing is recomputed by a second worker: an audit checks that the sums "
    "of a mixture's components add up, and computes a shard again if they do not"
)


class Audit(Policy):
    """Let a second worker recompute some statistics of each E-step, and settle every difference before the fold.

    What is audited is the payload that will be folded. If the two differ, a third worker is asked: who stands alone
    against two is retired, after its shards were computed elsewhere, and what it delivered in this round is replaced.
    The statistic that two workers agree on is folded, so that a corrupted audited shard leaves no trace in the bits.

    Parameters
    ----------
    rate : float
        Mean fraction of shards that are audited each round, in [0, 1]. No shard waits longer than ``3 / rate`` rounds.
    rtol, atol : float
        The envelope of floats: ``|a - b| <= atol + rtol * max(|a|, |b|)``. It alone decides suspicion. A difference
        inside it, between workers whose builds give equal bits, is settled and recorded too, and suspects nobody.
    rng : numpy.random.RandomState, int or numpy.random.Generator, optional
        Draws the shards and the second workers; ``RandomState(0)`` if not given.
    quarantine : bool
        Whether a suspect is retired.
    invariants : bool
        Also check, for every shard of a stacked mixture, that the components' statistics add up to the data's own sums
        (see `mixle.utils.parallel.policies.invariants`). A shard that does not add up is audited at once, at any rate;
        with one worker the driver computes it. On a transport that cannot ``run`` a shard on a chosen worker (Spark)
        this is all that an audit does; `notes`, which the handle's report shows, say so.
    pin : bool
        Bind each worker to a physical core, where the platform lets one; audits and witnesses then come from another
        core than what they are compared with, as long as there is one.

    Attributes
    ----------
    round : int
        Number of audits so far.
    last_unbalanced : list of int
        Shards of the last round that did not add up.
    receipts : list of SDCAuditReceipt
        Every difference so far; those inside the envelope have ``comparison_mode="exact/v1"``.
    alarms : list of Alarm
        Every other check that failed: digests of rows and models, sums that do not add up.
    evidence : Evidence
        What is known of each worker over all rounds, and who was named by it: its shards are audited each round.
    last_shards : set of int
        Shards audited in the last round.
    last_mismatches : list of SDCAuditReceipt
        Its differences outside the envelope.
    last_evaluations : int
        Two per shard audited in it, and one per witness.

    Raises
    ------
    ValueError
        If the rate lies outside [0, 1], or a tolerance is negative or not finite.

    Examples
    --------
    >>> from mixle.utils.parallel.policies.base import stack
    >>> from mixle.utils.parallel.policies.retry import Retry
    >>> from mixle.utils.parallel.transports.process import ProcessTransport
    >>> transport = stack(ProcessTransport(2), [Audit(0.1), Retry(2)])
    >>> transport.round, transport.receipts
    (0, [])
    >>> transport.close()
    """

    order = 3
    reads_statistics = True

    def __init__(
        self,
        rate: float = 0.1,
        *,
        rtol: float = 1e-12,
        atol: float = 1e-12,
        rng: Any = None,
        quarantine: bool = True,
        invariants: bool = True,
        pin: bool = False,
    ) -> None:
        from mixle.utils.parallel.folding.inputs import random_state

        self.rate = _number(rate, "audit_rate must be finite and within [0, 1]", at_most=1.0)
        self.rtol = _number(rtol, "audit_rtol/atol must be finite and nonnegative")
        self.atol = _number(atol, "audit_rtol/atol must be finite and nonnegative")
        self.rng = random_state(0 if rng is None else rng)
        for name, switch in {"quarantine": quarantine, "invariants": invariants, "pin": pin}.items():
            if not isinstance(switch, bool):
                raise TypeError(f"{name} must be True or False, not {switch!r}")
        self.quarantine, self.invariants, self.pin = quarantine, invariants, pin

    def bind(self) -> None:
        """Start with a clean record."""
        self.round = 0
        self.receipts: list[SDCAuditReceipt] = []
        self.last_shards: set[int] = set()
        self.last_mismatches: list[SDCAuditReceipt] = []
        self.last_evaluations = 0
        self.last_unbalanced: list[int] = []
        self.hook: Hook | None = None
        self._selection = Selection(self.rate)
        self.evidence = Evidence()
        self._invariants = Invariants()
        self._driver = DriverChecks(self)
        self._intake = Intake(self.inner, self.recompute)
        self.alarms: list[Alarm] = []
        self._partners: dict[int, int] = {}
        self._source: Source | None = None
        self._alone_told = False
        self.notes: tuple[str, ...] = () if lets_choose(self.inner) else (_ONLY_SUMS.format(self.inner.name),)
        self._pins = Pins()
        self.cores = self._pins.cores

    def arm(self, hook: Hook | None) -> None:
        """Let ``hook(worker, shard, role, payload)`` change what audited payloads are heard as; None clears it.

        Parameters
        ----------
        hook : callable or None
            Given ``pickle.dumps((count, value))``, it returns bytes. `role` is "primary", "audit" or "witness".
        """
        if hook is not None and not callable(hook):
            raise TypeError(f"a hook is called as hook(worker, shard, role, payload); {hook!r} cannot be called")
        self.hook = hook

    # The verbs

    def load(self, source: Source) -> None:
        """Encode all shards where they will live."""
        self.inner.load(source)
        if self.invariants:
            self._intake.seal()
        kept = None if hasattr(self.inner, "rows_of") else source.rows
        weights = None if source.weights is None else source.weights.copy()
        self._source = replace(source, rows=kept, weights=weights)

    def map(self, task: Task) -> Iterator[Result]:
        """Run `task` on every shard; the results of an E-step are audited before they are handed on."""
        return self._audited(task) if isinstance(task, Accumulate) else self.inner.map(task)

    def _audited(self, task: Accumulate) -> Iterator[Result]:
        results: dict[int, Result] = {}
        seconds: dict[int, Result] = {}
        if self.pin:
            self._pins.renew(self.inner)
        chosen = self._draw(self.sizes)
        self._driver.begin()
        if self.invariants:
            # not a copy: policies inside know the task of their round by its identity
            object.__setattr__(task, "checked", self.round)
            self._intake.begin(task)
        try:
            for result in beside(self.inner, task, self._seconds(chosen)):
                (seconds if result.receipt.pop("second", False) else results)[result.shard] = result
        except RoundLosses:
            self._selection.back(chosen)
            yield from results.values()
            raise
        self._resend(task, results)
        if all(result.error is None for result in results.values()):
            self._judge(task, chosen, results, seconds)
        else:
            self._selection.back(chosen)
        yield from results.values()

    def _resend(self, task: Accumulate, results: dict[int, Result]) -> None:
        """Ask once more for what was altered on its way: no user's error, and nobody's fault that can be named.

        A `Retry` inside has done so already, and its receipts say so.
        """
        altered = [s for s, r in results.items() if r.error is not None and r.error.type_name.endswith(ALTERED)]
        again = self._at_home(task, altered) if altered else {}
        for shard, result in again.items():
            if result.error is None:
                result.receipt["altered"] = worker_of(results[shard], self.inner)
                results[shard] = result
        for shard, result in sorted(results.items()):
            if "altered" in result.receipt:
                self.alarms.append(Alarm(self.round + 1, shard, result.receipt["altered"], "wire", "sent again"))

    def _judge(
        self, task: Accumulate, chosen: Iterable[int], results: dict[int, Result], seconds: dict[int, Result]
    ) -> None:
        """Check what came, and put what is to be folded in its place."""
        unbalanced: list[int] = []
        if self.invariants:
            self.alarms += self._intake.contest(task, seconds, self.round + 1)
            self.alarms += self._intake.mend(task, results, self.round + 1)
            seconds = self._intake.believed(seconds)
            unbalanced = self._invariants.broken(task, results, self._at_home)
        makers = {shard: worker_of(results[shard], self.inner) for shard in unbalanced}
        results.update(kept := self._hold(task, chosen, results, seconds, self.quarantine, unbalanced))
        self.last_unbalanced = unbalanced
        now = [one for one in self.alarms if one.round == self.round and one.check in {"rows", "model"}]
        self._weigh([], [one.worker for one in now])
        for shard, worker in makers.items():
            outcome = "replaced by what others computed" if shard in kept else "confirmed by another computation"
            self.alarms.append(Alarm(self.round, shard, worker, "sums", outcome))

    def verified_fold(self, estimator: Any, fold: Callable[[], tuple[float, Any]]) -> tuple[float, Any]:
        """Return what `fold` returns, checked."""
        return self._driver.fold(estimator, fold, self._invariants if self.invariants else None)

    def verified_m_step(self, model: Any, args: tuple[Any, ...]) -> Any:
        """Return the model of an M-step, checked; `args` are those of `m_step`."""
        return self._driver.model(model, args)

    def sound(self, result: Result) -> bool:
        """Return whether a result says to come from the right rows and the right model."""
        return not self.invariants or self._intake.sound(result)

    def _seconds(self, chosen: Iterable[int]) -> dict[int, list[int]]:
        """Return who computes shards a second time: a worker other than the one where they live."""
        owner: Mapping[int, int] = getattr(self.inner, "owner", None) or {}
        assignment: dict[int, list[int]] = {}
        live = live_workers(self.inner)
        for shard in (one for one in chosen if one in owner):
            others = [one for one in live if one != owner[shard]]
            if (worker := self.choose(shard, "audit", elsewhere(others, [owner[shard]], self.cores))) is not None:
                assignment.setdefault(worker, []).append(shard)
        return assignment

    def audit(self, task: Task, shards: Iterable[int], quarantine: bool = True) -> list[SDCAuditReceipt]:
        """Audit shards outside a round: both sides are computed, nothing is folded.

        Parameters
        ----------
        task : Task
            The E-step.
        shards : iterable of int
            Shards to draw from, at the policy's rate.
        quarantine : bool
            Whether a suspect is retired.

        Returns
        -------
        list of SDCAuditReceipt
            The differences outside the envelope.

        Raises
        ------
        ValueError
            For a shard that does not exist.
        """
        shards = set(shards)
        unknown = sorted(shards - set(self.sizes))
        if unknown:
            raise ContractError(f"there are no shards {unknown}; name some of 0 ... {max(self.sizes)}")

        chosen = self._draw(shards)
        primary = {shard: one for shard, one in self._at_home(task, chosen).items() if one.error is None}
        self._hold(task, chosen, primary, {}, quarantine)
        return self.last_mismatches

    def _at_home(self, task: Task, shards: Iterable[int]) -> dict[int, Result]:
        """Return the results of shards, each computed where it lives."""
        owner = getattr(self.inner, "owner", None) or {}
        if not owner and (self.notes or len(live_workers(self.inner)) > 1):  # the engine knows where they live
            wanted = set(shards)
            return {result.shard: result for result in self.inner.map(task) if result.shard in wanted}
        homes: dict[int, list[int]] = {}
        for shard in shards:
            homes.setdefault(owner.get(shard, 0), []).append(shard)
        return gather(self.inner, task, homes)

    def _draw(self, shards: Iterable[int]) -> list[int]:
        """Return the shards to audit in this round; those of a worker that was named are always among them."""
        shards = list(shards)
        chosen = self._selection.draw(shards, self.rng) if self._may_audit() else []
        if self.evidence.named and len(live_workers(self.inner)) > 1:
            owner: Mapping[int, int] = getattr(self.inner, "owner", None) or {}
            chosen = sorted({*chosen, *(shard for shard in shards if owner.get(shard) in self.evidence.named)})
        return chosen

    def _hold(
        self,
        task: Task,
        chosen: Iterable[int],
        primary: Mapping[int, Result],
        seconds: Mapping[int, Result],
        quarantine: bool,
        unbalanced: Sequence[int] = (),
    ) -> dict[int, Result]:
        """Hear shards, keep the record; return what is to be folded instead of what was delivered."""
        self.round += 1
        hearing = Hearing(self, task, primary, quarantine)
        hearing.hold({shard for shard in (*chosen, *unbalanced) if shard in primary}, set(unbalanced), seconds)
        found = {receipt.shard_id for receipt in hearing.receipts}
        self._invariants.excuse(hearing.audited.intersection(unbalanced) - found)
        for shard in hearing.audited:
            self._selection.done(shard)
        self.last_shards, self.last_evaluations = hearing.audited, hearing.evaluations
        self.last_mismatches = mismatches(hearing.receipts)
        self.receipts += hearing.receipts
        self._weigh(hearing.heard, hearing.wrong)
        return hearing.kept

    def _weigh(self, heard: Iterable[int], wrong: Iterable[int]) -> None:
        for worker in self.evidence.add(heard, wrong):
            self.alarms.append(Alarm(self.round, -1, worker, "evidence", f"named: {self.evidence.named[worker]}"))

    def _may_audit(self) -> bool:
        if not self.rate or self.notes:
            return False
        if len(live_workers(self.inner)) > 1:
            return True
        if not self._alone_told:
            self._alone_told = True
            from mixle.utils.parallel.folding.inputs import warn_user

            warn_user(
                "an audit needs a second worker: with one live worker nothing is recomputed, sums are only checked to "
                "be finite and, of mixtures, to add up. Give num_workers=2 or more (3 to tell who is wrong)"
            )
        return False

    # What a hearing asks for

    def choose(self, shard: int, role: str, candidates: Sequence[int]) -> int | None:
        """Return one of the candidates, drawn at random; the second worker of a shard stays the same while it may.

        A worker that has encoded a shard once can audit it again without encoding it.
        """
        if not candidates:
            return None
        if role == "audit" and self._partners.get(shard) in candidates:
            return self._partners[shard]
        worker = candidates[int(self.rng.randint(len(candidates)))]
        if role == "audit":
            self._partners[shard] = worker
            hold = getattr(self.inner, "hold", None)
            if hold is not None:
                hold(shard, worker)
        return worker

    def recompute(self, task: Task, shard: int) -> Result | None:
        """Return what this process computes from the workers' rows, or else the caller's; None if it cannot."""
        if self._source is None:
            return None
        if not self._source.shards:  # a collection, which lies with its engine
            return self._again(task, shard)
        return own_result(self._source, self.inner, task, shard)

    def _again(self, task: Task, shard: int) -> Result | None:
        """Return what the engine computes when it is asked once more."""
        try:
            result = self._at_home(task, [shard])[shard]
        except (KeyError, RoundLosses):
            return None
        return replace(result, receipt={**result.receipt, "recomputed": True}) if result.error is None else None


def _number(value: Any, text: str, at_most: float = math.inf) -> float:
    """Return a finite number in [0, at_most]; anything else is a ValueError of the given text."""
    try:
        number = math.nan if isinstance(value, (bool, str, bytes, np.bool_)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and 0.0 <= number <= at_most):
        raise ContractError(f"{text}, not {value!r}")
    return number
