"""The driver's own work is checked, too: its fold by conservation and by a second one, its M-step by a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mixle.utils.parallel.folding.model_digest import model_digest
from mixle.utils.parallel.folding.mstep import m_step, m_step_beside
from mixle.utils.parallel.folding.tasks import Apply
from mixle.utils.parallel.policies.alarms import Alarm
from mixle.utils.parallel.policies.canonical import canonical_bytes
from mixle.utils.parallel.policies.quarantine import gather, live_workers, worker_of

if TYPE_CHECKING:
    from mixle.utils.parallel.policies.audit import Audit

__all__ = ["DriverChecks"]

Folded = tuple[float, Any]


class DriverChecks:
    """Checks of one fit's folds and M-steps; a share of `rate` of them is computed twice.

    Parameters
    ----------
    audit : Audit
        The policy: its rate, its invariants, its record.
    """

    def __init__(self, audit: Audit) -> None:
        self.audit = audit
        self.credit = 0.0
        self.due = False
        self.slack = 1.0

    def begin(self) -> None:
        """Say whether it is the turn of this round."""
        self.credit += self.audit.rate
        self.due = self.credit >= 1.0 - 1e-9
        self.credit -= float(self.due)

    def fold(self, estimator: Any, fold: Callable[[], Folded], invariants: Any) -> Folded:
        """Return what `fold` returns; where that does not add up, or its turn has come, two of it must be equal."""
        try:
            first = fold()
        except Exception:  # noqa: BLE001 - what the guard says of a flipped exponent, say; a lasting cause raises again
            first = fold()
            self._tell(-1, "fold", "failed once, and not again")
        found = None if invariants is None else invariants.total_residual(estimator, first[1])
        sound = found is None or found <= self.slack
        if sound and not self.due:
            return first
        second = fold()
        if _bits(first) == _bits(second):
            if found is not None and not sound:  # the same twice: it is rounding
                self.slack = max(self.slack, 2.0 * found)
            return first
        third = fold()
        if _bits(second) == _bits(third):
            self._tell(-1, "fold", "replaced by two others that agree")
            return second
        agree = _bits(first) == _bits(third)
        self._tell(-1, "fold", "confirmed by a third one" if agree else "left alone: all three differ")
        return first

    def model(self, model: Any, args: tuple[Any, ...]) -> Any:
        """Return the model of an M-step; if its turn has come, what two of three computations agree on."""
        own = model_digest(model) if self.due else None
        if own is None:
            return model
        second, worker = self._elsewhere(args, set())
        other = None if second is None else model_digest(second)
        if other in {None, own}:
            return model
        third, _ = self._elsewhere(args, {worker})
        last = model_digest(m_step(*args) if third is None else third)
        if last == own:
            self._tell(worker, "M-step", "outvoted by two others")
            return model
        agree = last == other
        self._tell(-1, "M-step", "replaced by what two others computed" if agree else "left alone: all three differ")
        return second if agree else model

    def _elsewhere(self, args: tuple[Any, ...], barred: set[int]) -> tuple[Any, int]:
        """Return what a worker makes of an M-step, and which worker; None if there is none."""
        transport = self.audit.inner
        owner: dict[int, int] = getattr(transport, "owner", None) or {}
        able = [one for one in live_workers(transport) if one in owner.values() and one not in barred]
        if not able:
            return None, -1
        worker = able[int(self.audit.rng.randint(len(able)))]
        shard = min(one for one, home in owner.items() if home == worker)
        for result in gather(transport, Apply(m_step_beside, args), {worker: [shard]}).values():
            if result.error is None:
                return result.value, worker_of(result, transport)
        return None, worker

    def _tell(self, worker: int, check: str, outcome: str) -> None:
        self.audit.alarms.append(Alarm(self.audit.round, -1, worker, check, outcome))


def _bits(folded: Folded) -> bytes:
    try:
        return canonical_bytes(folded)
    except Exception:  # noqa: BLE001 - a user's type
        import pickle

        return pickle.dumps(folded)
