"""One audited round: payloads are compared, a third worker is asked, the confirmed one is kept, the suspect retired."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mixle.utils.parallel.policies.assignment import spread
from mixle.utils.parallel.policies.ballots import Ballot, identical, judge, listen
from mixle.utils.parallel.policies.canonical import sha256
from mixle.utils.parallel.policies.compare import Comparison
from mixle.utils.parallel.policies.cores import elsewhere
from mixle.utils.parallel.policies.quarantine import gather, live_workers, retire, worker_of
from mixle.utils.parallel.policies.receipts import EXACT, SDCAuditReceipt, first_difference

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Result, Task
    from mixle.utils.parallel.policies.audit import Audit

__all__ = ["Hearing"]

INSIDE = "canonical digests differ within the declared numeric envelope"


@dataclass(eq=False)
class _Dispute:
    """Two payloads of one shard that are not the same."""

    primary: Ballot
    audit: Ballot
    found: Comparison
    witness: Ballot | None = None
    suspect: int | None = None
    status: str = "not_requested"

    @property
    def ballots(self) -> list[Ballot]:
        return [one for one in (self.primary, self.audit, self.witness) if one is not None]


class Hearing:
    """The audit of one round.

    Parameters
    ----------
    audit : Audit
        The policy: its rates, its hook, its generator.
    task : Task
        The E-step.
    primary : mapping of int to Result
        What is to be folded, by shard; shards that are audited and everything else that was delivered.
    quarantine : bool
        Whether a mismatch may retire a worker.

    Attributes
    ----------
    audited : set of int
        Shards that two workers computed.
    receipts : list of SDCAuditReceipt
        One per pair that differs; those inside the envelope too.
    evaluations : int
        Two per audited shard and one per witness.
    heard, wrong : list of int
        Workers whose statistics were compared, and of those that others found to be wrong, one entry per statistic.
    kept : dict of int to Result
        What is to be folded where that is not the primary's delivery.
    """

    def __init__(self, audit: Audit, task: Task, primary: Mapping[int, Result], quarantine: bool) -> None:
        self.policy, self.task, self.primary, self.quarantine = audit, task, primary, quarantine
        self.transport = audit.inner
        self.audited: set[int] = set()
        self.receipts: list[SDCAuditReceipt] = []
        self.evaluations = 0
        self.heard: list[int] = []
        self.wrong: list[int] = []
        self.kept: dict[int, Result] = {}

    def hold(
        self, shards: Iterable[int], urgent: Collection[int] = (), seconds: Mapping[int, Result] | None = None
    ) -> None:
        """Audit the given shards, ascending; where no other worker can, the driver computes the urgent ones.

        Parameters
        ----------
        shards : iterable of int
            What to audit.
        urgent : collection of int
            Those of them that are known not to add up.
        seconds : mapping of int to Result, optional
            What other workers have computed already.
        """
        primaries = {shard: self._hear(self.primary[shard], "primary") for shard in sorted(shards)}
        disputes = {}
        second = {
            shard: self._hear(result, "audit")
            for shard, result in sorted((seconds or {}).items())
            if shard in primaries
            and result.error is None
            and worker_of(result, self.transport) != primaries[shard].worker
        }
        missing = {shard: {ballot.worker} for shard, ballot in primaries.items() if shard not in second}
        second.update(self._ask(missing, "audit", missing))
        for shard in set(urgent).difference(second):
            own = self._own(shard)
            if own is not None:
                second[shard] = Ballot(own, -1)
        for shard, audit in sorted(second.items()):
            primary = primaries[shard]
            self.audited.add(shard)
            self.evaluations += 2
            self.heard += [one.worker for one in (primary, audit) if one.worker >= 0]
            found = judge(primary, audit, self.policy.rtol, self.policy.atol)
            if not found.match or not _agree(primary, audit):
                disputes[shard] = _Dispute(primary, audit, found)
            elif primary.result is not self.primary[shard]:
                self.kept[shard] = primary.result
        if disputes:
            self._settle(disputes)

    def _hear(self, result: Result, role: str) -> Ballot:
        return listen(result, self.policy.hook, role, worker_of(result, self.transport))

    def _own(self, shard: int) -> Result | None:
        """Return what the driver computes; None if it cannot, or the rows that it read are not the right ones."""
        own = self.policy.recompute(self.task, shard)
        return own if own is None or self.policy.sound(own) else None

    def _ask(self, shards: Collection[int], role: str, barred: Mapping[int, set[int]]) -> dict[int, Ballot]:
        """Let a worker other than those barred compute each shard; shards for which nobody could are missing."""
        if not shards:
            return {}
        assignment: dict[int, list[int]] = {}
        live = live_workers(self.transport)
        for shard in shards:
            others = [one for one in live if one not in barred[shard]]
            worker = self.policy.choose(shard, role, elsewhere(others, barred[shard], self.policy.cores))
            if worker is not None:
                assignment.setdefault(worker, []).append(shard)
        if not assignment:
            return {}
        results = gather(self.transport, self.task, assignment)
        heard = {}
        for shard in sorted(results):
            result = results[shard]
            sound = result.error is None and self.policy.sound(result)
            if sound and worker_of(result, self.transport) not in barred[shard]:
                heard[shard] = self._hear(result, role)
        return heard

    def _settle(self, disputes: Mapping[int, _Dispute]) -> None:
        """Ask witnesses, keep what is confirmed, retire suspects."""
        asking = {s: d for s, d in disputes.items() if d.found.match or self.quarantine}
        barred = {shard: {one.primary.worker, one.audit.worker} for shard, one in asking.items()}
        for shard, witness in self._ask(asking, "witness", barred).items():
            disputes[shard].witness = witness
            self.evaluations += 1
        for shard, dispute in disputes.items():
            if not dispute.found.match:
                dispute.status = self._suspect(dispute)
            confirmed = self._confirmed(shard, dispute)
            self.kept[shard] = confirmed.result
            self._blame(dispute, confirmed)
        doubted = self._doubted(disputes)
        self._retire_suspects(disputes)
        self._discard(doubted, set(disputes))
        self.receipts += [self._receipt(shard, dispute) for shard, dispute in disputes.items()]

    def _suspect(self, dispute: _Dispute) -> str:
        """Find who stands alone; return why nobody is found, or an empty status."""
        if not self.quarantine:
            return "disabled"
        if dispute.witness is None:
            return "deferred:insufficient_witnesses"
        rtol, atol = self.policy.rtol, self.policy.atol
        for_primary = judge(dispute.primary, dispute.witness, rtol, atol).match
        for_audit = judge(dispute.audit, dispute.witness, rtol, atol).match
        if for_primary == for_audit:
            return "deferred:nontransitive_envelope" if for_primary else "deferred:three_way_disagreement"
        dispute.suspect = dispute.audit.worker if for_primary else dispute.primary.worker
        return ""

    def _confirmed(self, shard: int, dispute: _Dispute) -> Ballot:
        """Return what two of the ballots agree on to the bit; failing that, what the driver computes itself."""
        ballots = [one for one in dispute.ballots if one.failed is None]
        keys = [ballot.key for ballot in ballots]
        for ballot in ballots:
            if keys.count(ballot.key) > 1:
                return ballot
        trusted = [one for one in ballots if dispute.suspect is not None and one.worker != dispute.suspect]
        if trusted and not all(_same_build(trusted[0], one) for one in ballots):
            return trusted[0]
        if dispute.audit.worker == -1:
            return dispute.audit
        own = self._own(shard)
        if own is not None:
            return Ballot(own, -1)
        if not (trusted or ballots):
            raise RuntimeError(
                f"no readable payload of shard {shard} is left: {dispute.found.reason}. Clear the hook with "
                "arm_corruption(None), or build a new handle from the rows"
            )
        return (trusted or ballots)[0]

    def _blame(self, dispute: _Dispute, confirmed: Ballot) -> None:
        """Note who said something else than what two computations agree on, or the driver computed itself."""
        votes = sum(one.failed is None and one.key == confirmed.key for one in dispute.ballots)
        if votes < 2 and confirmed.worker != -1:
            return
        for ballot in dispute.ballots:
            alike = ballot.failed is None and (ballot.key == confirmed.key or not _same_build(ballot, confirmed))
            if ballot.worker >= 0 and not alike:
                self.wrong.append(ballot.worker)

    def _doubted(self, disputes: Mapping[int, _Dispute]) -> set[int]:
        """Return the workers that said something else than what is confirmed, by more than the envelope."""
        doubted = {one.suspect for one in disputes.values() if one.suspect is not None}
        for shard, dispute in disputes.items():
            confirmed = Ballot(self.kept[shard], -1)
            for ballot in dispute.ballots if not dispute.found.match else ():
                if not judge(ballot, confirmed, self.policy.rtol, self.policy.atol).match:
                    doubted.add(ballot.worker)
        return doubted - {-1}

    def _discard(self, doubted: set[int], confirmed: Collection[int]) -> None:
        """Compute again what a doubted worker delivered in this round and nobody has confirmed.

        So it is with what a worker delivered unheard that was wrong inside the envelope only. Others compute it, or
        else the driver. Only where neither can does the delivery stand.
        """
        held = {s: worker_of(self.kept.get(s, result), self.transport) for s, result in self.primary.items()}
        unheard = held.keys() - self.audited
        lost = [
            shard
            for shard, worker in held.items()
            if shard not in confirmed and (worker in doubted or (worker in self.wrong and shard in unheard))
        ]
        doubted = doubted.union(self.wrong)
        trusted = [worker for worker in live_workers(self.transport) if worker not in doubted]
        found: dict[int, Result] = {}
        if lost and trusted:
            placement = spread(lost, self.transport.sizes, dict.fromkeys(trusted, 0.0))
            found = gather(self.transport, self.task, placement)
        for shard in lost:
            result = found.get(shard)
            if result is None or result.error is not None or worker_of(result, self.transport) in doubted:
                result = self._own(shard)
            if result is not None:
                self.kept[shard] = result

    def _retire_suspects(self, disputes: Mapping[int, _Dispute]) -> None:
        """Retire suspects in the order of shards; what a retired worker says of others is not believed any more."""
        everyone = {one.suspect for one in disputes.values() if one.suspect is not None}
        done: dict[int, str] = {}
        retired: set[int] = set()
        for dispute in disputes.values():
            suspect = dispute.suspect
            if suspect is None:
                continue
            if suspect in done:
                dispute.status = "not_needed" if suspect in retired else done[suspect]
            elif any(ballot.worker in retired for ballot in dispute.ballots):
                dispute.suspect, dispute.status = None, "deferred:insufficient_witnesses"
            else:
                dispute.status = done[suspect] = self._retire(suspect, everyone, set(disputes))
                if dispute.status == "committed":
                    retired.add(suspect)

    def _retire(self, suspect: int, everyone: set[int], confirmed: set[int]) -> str:
        """Retire one suspect; what it delivered is computed by workers that nobody suspects, if there are any."""
        holders = {s: worker_of(self.kept.get(s, result), self.transport) for s, result in self.primary.items()}
        delivered = [s for s, holder in holders.items() if holder == suspect and s not in confirmed]
        live = set(live_workers(self.transport)) - {suspect}
        status, staged = retire(self.transport, self.task, suspect, (live - everyone) or live, delivered)
        self.kept.update({shard: staged[shard] for shard in delivered if shard in staged})
        return status

    def _receipt(self, shard: int, dispute: _Dispute) -> SDCAuditReceipt:
        primary, audit, found = dispute.primary, dispute.audit, dispute.found
        receipt = SDCAuditReceipt(
            self.policy.round,
            shard,
            primary.worker,
            audit.worker,
            len(primary.raw),
            len(audit.raw),
            first_difference(primary.raw, audit.raw),
            sha256(primary.raw),
            sha256(audit.raw),
            audit_rtol=self.policy.rtol,
            audit_atol=self.policy.atol,
            max_abs_error=found.max_abs_error,
            max_rel_error=found.max_rel_error,
            mismatch_reason=INSIDE if found.match else found.reason,
            primary_canonical_sha256=primary.canonical,
            audit_canonical_sha256=audit.canonical,
            witness_worker=None if dispute.witness is None else dispute.witness.worker,
            suspected_workers=() if dispute.suspect is None else (dispute.suspect,),
            quarantine_status=dispute.status,
            primary_value_repr=primary.text,
            audit_value_repr=audit.text,
        )
        if found.match:
            receipt.comparison_mode = EXACT
        return receipt


def _agree(primary: Ballot, audit: Ballot) -> bool:
    """Return whether two statistics inside the envelope are as equal as their builds let them be."""
    return identical(primary, audit) or not _same_build(primary, audit) or primary.key == audit.key


def _same_build(left: Ballot, right: Ballot) -> bool:
    """Return whether two workers must give equal bits."""
    return left.result.receipt.get("build") == right.result.receipt.get("build")
