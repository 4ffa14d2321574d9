"""Where campaigns put wrong numbers: in workers by faults of a plan, on the driver by a policy and an estimator."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from mixle.testing.corruption import Corruption
from mixle.testing.fault import Fault
from mixle.utils.parallel.folding.tasks import Accumulate
from mixle.utils.parallel.policies.base import Policy

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.tasks import Result, Task

__all__ = ["IN_WORKERS", "Injection", "PayloadFaults", "spoiled"]

#: Sites in a worker, and the point of an E-step at which they are struck.
IN_WORKERS = {
    "rows": "before",
    "encoded": "before",
    "model": "before",
    "log_densities": "mid_update",
    "responsibilities": "mid_update",
    "statistic": "after",
    "wire": "reply",
}


@dataclass(frozen=True)
class Injection:
    """One trial: what is wrong, where, and in which rounds.

    Attributes
    ----------
    site : str
        Where.
    corruption : Corruption
        What.
    shard : int
        Of which shard; of a fold, after how many.
    rounds : tuple of int
        In which rounds.
    lasting : bool
        Whether a worker is wrong whenever it computes the shard, not once.
    """

    site: str
    corruption: Corruption
    shard: int
    rounds: tuple[int, ...]
    lasting: bool

    def faults(self, worker: int | None) -> tuple[Fault, ...]:
        """Return the faults that workers meet, of which `worker` has the shard."""
        if self.site not in IN_WORKERS:
            return ()
        owner, times = (worker, None) if self.lasting else (None, 1)
        detail = (("corruption", self.corruption),)
        at = IN_WORKERS[self.site]
        return tuple(Fault("corrupt", at, owner, number, self.shard, times, detail=detail) for number in self.rounds)


class PayloadFaults(Policy):
    """Lets statistics be wrong in the driver's memory, after they were received and before anybody looks at them."""

    order: ClassVar[int] = 2  # around retry, inside of audit

    def bind(self) -> None:
        """Begin without a fault."""
        self.injection: Injection | None = None
        self.round = 0
        self.struck = 0

    def arm(self, injection: Injection | None) -> None:
        """Let an injection happen from now on, rounds counted anew."""
        self.injection, self.round, self.struck = injection, 0, 0

    def map(self, task: Task) -> Iterator[Result]:
        """Run a task on every shard."""
        results = self.inner.map(task)
        if not isinstance(task, Accumulate):
            return results
        self.round += 1
        injection = self.injection
        if injection is None or injection.site != "payload" or self.round not in injection.rounds:
            return results
        return self._altered(results, injection)

    def _altered(self, results: Iterator[Result], injection: Injection) -> Iterator[Result]:
        for result in results:
            if result.shard == injection.shard and result.error is None:
                self.struck += 1
                yield replace(result, value=injection.corruption.of(result.value))
            else:
                yield result


def spoiled(estimator: Any, injection: Injection) -> tuple[Any, list[int]]:
    """Return an estimator whose fold or M-step is wrong on the driver, and a list that grows when it is.

    Workers that it is sent to get the estimator as it was.
    """
    struck: list[int] = []
    twin = copy.copy(estimator)
    kind = _Estimate if injection.site == "m_step" else _Factory
    object.__setattr__(twin, kind.name, kind(estimator, injection, struck))
    return twin, struck


class _Call:
    name = ""

    def __init__(self, inner: Any, injection: Injection, struck: list[int]) -> None:
        self.inner, self.injection, self.struck = inner, injection, struck
        self.calls = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.inner, self.name)


class _Estimate(_Call):
    name = "estimate"

    def __call__(self, *words: Any) -> Any:
        self.calls += 1
        model = self.inner.estimate(*words)
        if self.calls not in self.injection.rounds:
            return model
        self.struck.append(self.calls)
        return self.injection.corruption.of(model)


class _Factory(_Call):
    """Makes accumulators; the one that folds a round is told by its `combine`."""

    name = "accumulator_factory"

    def __call__(self) -> Any:
        return self

    def make(self) -> Any:
        return _Folding(self.inner.accumulator_factory().make(), self)


class _Folding:
    def __init__(self, inner: Any, owner: _Factory) -> None:
        self.inner, self.owner, self.combined = inner, owner, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def combine(self, value: Any) -> Any:
        owner = self.owner
        self.inner.combine(value)
        self.combined += 1
        if self.combined == 1:
            owner.calls += 1  # a fold begins
        if self.combined == owner.injection.shard + 1 and owner.calls in owner.injection.rounds:
            owner.struck.append(owner.calls)
            self.inner.from_value(owner.injection.corruption.of(self.inner.value()))
        return self

    def from_value(self, value: Any) -> Any:
        self.inner.from_value(value)
        return self
