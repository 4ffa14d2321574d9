"""Faults on purpose: a plan that is given to a handle as a policy, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from mixle.errors import ContractError
from mixle.testing.fault import KINDS, UPDATE, Fault, check_count, check_place, check_seconds, check_word
from mixle.utils.parallel.policies.base import Policy

if TYPE_CHECKING:
    from mixle.testing.bound import Chaos
    from mixle.utils.parallel.folding.transport import Transport

__all__ = ["ChaosPlan", "Firing"]

GARBLED = ("noise", "half", "oversize", "unpicklable")


@dataclass(frozen=True)
class Firing:
    """A fault that struck.

    Attributes
    ----------
    fault : Fault
        Which one.
    at : str
        Where.
    round, worker, shard : int or None
        When and whom, where that is known.
    handle : int
        The handles that a plan was given to are counted from 1.

    Examples
    --------
    >>> from mixle.testing import Fault
    >>> Firing(Fault("kill", "compute"), "compute", 0, 1, None, 1).worker
    1
    """

    fault: Fault
    at: str
    round: int | None
    worker: int | None
    shard: int | None
    handle: int


class ChaosPlan(Policy):
    """A plan of faults: who is struck, in which round, at which point of it.

    A plan is a value: each method returns a new plan with one more fault, and the plan is given to a handle as a
    policy. Whatever the order of `policies`, it is the innermost one, so that `Retry` and `Audit` meet its faults as
    they meet real ones. Without a plan nothing of this is there, and a round without a planned fault runs as ever.

    Rounds are E-steps, counted from 1 on each handle. ``at="init"`` and ``at="score"`` count starts and scores.

    ===============  ====================================================================================
    ``at=``          when
    ===============  ====================================================================================
    ``start``        a worker process was born and has nothing to do yet
    ``load``         it reads the encoder, before it encodes
    ``encode``       it encodes rows (again, if it had to be started again)
    ``init``         it begins a shard of a random start
    ``before``       it has the task of an E-step and begins a shard
    ``mid_update``   the first chunk of a shard is in the statistic, the second is not; with one chunk per shard,
                     the rows are in and the statistic is not taken out yet
    ``after``        the statistic is there, the reply is not
    ``reply``        it writes the reply
    ``score``        it begins a shard of a score
    ``recover``      it begins a shard that was begun before in the same round
    ``close``        the handle is being closed
    ===============  ====================================================================================

    All methods take, besides what their docstrings say: `worker`, `round`, `shard` (int, None for any), `at`, `times`
    (how often the fault strikes; None for every time), `skip` (arrivals that are left alone before).

    Parameters
    ----------
    faults : iterable of Fault
        Faults to begin with; the methods make them.

    Raises
    ------
    ValueError
        For an unknown point (the nearest is suggested), a kind that cannot strike there, a number out of range, the
        same fault twice. `BackendError`, which is one too, if the transport lacks what a fault needs.

    Examples
    --------
    >>> plan = ChaosPlan().kill(worker=1, round=2, at="mid_update").delay(0.01, worker=0)
    >>> plan
    ChaosPlan().kill(worker=1, round=2, at='mid_update').delay(seconds=0.01, worker=0, at='before')
    >>> from mixle.stats import PoissonEstimator
    >>> from mixle.utils.parallel.planner import encoded_data
    >>> wrong = ChaosPlan().raise_(ValueError("a bad row"), shard=1)
    >>> with encoded_data([1, 2, 3], PoissonEstimator(), num_shards=2, policies=[wrong]) as handle:
    ...     try:
    ...         handle.pysp_seq_estimate(PoissonEstimator(), None)
    ...     except ValueError as error:
    ...         print(isinstance(error, RuntimeError), error)
    ...     handle.pysp_seq_estimate(PoissonEstimator(), None).lam
    True shard 1: ValueError: a bad row
    2.0
    >>> wrong.check()
    """

    order: ClassVar[int] = 0

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self.faults: tuple[Fault, ...] = tuple(faults)
        for fault in self.faults:
            if not isinstance(fault, Fault):
                raise TypeError(f"a plan is made of faults, not of {fault!r}; write ChaosPlan().kill(worker=1)")
            if self.faults.count(fault) > 1:
                raise ContractError(f"{fault!r} is planned twice: say times=2")
        self.uses: list[Chaos] = []
        self.family: list[ChaosPlan] = [self]

    # What may happen

    def kill(self, **where: Any) -> ChaosPlan:
        """End a worker at once (SIGKILL)."""
        return self._with("kill", where)

    def stop(self, **where: Any) -> ChaosPlan:
        """Stop a worker, which then neither works nor ends (SIGSTOP)."""
        return self._with("stop", where)

    def segfault(self, **where: Any) -> ChaosPlan:
        """Let a worker end as one that reads memory it does not own (SIGSEGV)."""
        return self._with("segfault", where)

    def exit(self, code: int = 1, **where: Any) -> ChaosPlan:
        """Let a worker leave without a word, with an exit code of 0 to 255."""
        number = check_count(code, "the exit code", 0)
        if number is None or number > 255:
            raise ContractError(f"the exit code must be from 0 to 255, not {code!r}")
        return self._with("exit", where, code=number)

    def hang(self, seconds: float | None = None, **where: Any) -> ChaosPlan:
        """Let a worker sleep, for ever if not said otherwise: silence, no CPU time, no byte."""
        return self._with("hang", where, seconds=None if seconds is None else check_seconds(seconds, "seconds"))

    def raise_(self, exc: BaseException | type[BaseException], **where: Any) -> ChaosPlan:
        """Raise an exception (or one of a class) from the user's part of the work."""
        if not (isinstance(exc, Exception) or (isinstance(exc, type) and issubclass(exc, Exception))):
            raise TypeError(f"raise_ takes an exception such as ValueError('a bad row'), not {exc!r}")
        return self._with("raise_", where, exc=exc() if isinstance(exc, type) else exc)

    #: Another word for `raise_`.
    fail = raise_

    def delay(self, seconds: float, **where: Any) -> ChaosPlan:
        """Be late by some seconds, every time if `times` is not given."""
        return self._with("delay", {"times": None, **where}, seconds=check_seconds(seconds, "seconds"))

    def slow(self, factor: float = 10.0, **where: Any) -> ChaosPlan:
        """Take `factor` times as long for each shard, every time if `times` is not given."""
        return self._with("slow", {"times": None, "at": "after", **where}, factor=check_seconds(factor, "factor", 1.0))

    def hold_lock(self, seconds: float, **where: Any) -> ChaosPlan:
        """Compute in C code for some seconds without letting another thread in."""
        return self._with("hold_lock", where, seconds=check_seconds(seconds, "seconds"))

    def out_of_memory(self, **where: Any) -> ChaosPlan:
        """Meet the end of memory: a MemoryError of a real limit."""
        return self._with("out_of_memory", where)

    def garble(self, how: str = "noise", **where: Any) -> ChaosPlan:
        """Send what is no reply: "noise", "half" of a frame, one of "oversize", or an "unpicklable" statistic."""
        check_word(how, GARBLED, "garble")
        if how == "unpicklable" and where.get("at", "reply") != "reply":
            raise ContractError(
                "an unpicklable statistic is met where the reply is written; say at='reply', or leave at= out"
            )
        return self._with("garble", {"at": "reply", **where}, how=how)

    def corrupt(self, bit: int = 54, **where: Any) -> ChaosPlan:
        """Flip a bit of a float number.

        Parameters
        ----------
        bit : int
            Which one, counted over all numbers there, 64 to each; bit 63 of a number is its sign, 52 to 62 its
            exponent.
        **where : Any
            ``at="before"``: the rows as the E-step reads them; "mid_update": its responsibilities (of mixtures);
            "after": the statistic; "reply": the bytes on the wire, after their checksum was made.
        """
        number = check_count(bit, "bit", 0)
        if number is None:
            raise ContractError("bit must be a whole number from 0 on, not None")
        return self._with("corrupt", {"at": "after", **where}, bit=number)

    @classmethod
    def random(
        cls,
        seed: int,
        rounds: int = 5,
        workers: int = 2,
        kinds: Iterable[str] = ("kill", "stop", "exit"),
        count: int | None = None,
    ) -> ChaosPlan:
        """Return a plan of random faults in E-steps, the same one for the same arguments.

        Parameters
        ----------
        seed : int
            Seed of the choice.
        rounds, workers : int
            How many there are to choose from.
        kinds : iterable of str
            Names of methods that need nothing besides: what has to be said is chosen small.
        count : int, optional
            Number of faults, no two for the same worker and round; one per round if not given.

        Examples
        --------
        >>> ChaosPlan.random(3, rounds=4, workers=2, kinds=["kill"], count=1)
        ChaosPlan().kill(worker=1, round=2, at='after')
        """
        from random import Random

        rounds, workers = check_count(rounds, "rounds", 1) or 1, check_count(workers, "workers", 1) or 1
        names = [check_word(kind, KINDS, "the kind") for kind in ([kinds] if isinstance(kinds, str) else kinds)]
        if not names:
            raise ContractError(f"random needs a kind of faults, e.g. kinds=['kill']; known: {', '.join(KINDS)}")
        rng = Random(check_count(seed, "seed", 0))  # noqa: S311 - a choice that can be repeated, no secret
        cells = [(number, worker) for number in range(1, rounds + 1) for worker in range(workers)]
        wanted = check_count(count, "count", 1)
        chosen = rng.sample(cells, min(len(cells), rounds if wanted is None else wanted))
        plan = cls()
        for number, worker in sorted(chosen):
            kind = rng.choice(names)
            at = rng.choice([point for point in UPDATE[:4] if point in KINDS[kind]])
            where = {"worker": worker, "round": number, "at": at, "times": 1}
            plan = getattr(plan, kind)(*_SMALL.get(kind, ()), **where)
        return plan

    def _with(self, kind: str, where: dict[str, Any], **detail: Any) -> ChaosPlan:
        for name in where:
            check_word(name, ("worker", "round", "shard", "at", "times", "skip"), f".{kind} takes no such keyword:")
        at, number = check_place(kind, where.get("at", "before"), where.get("round"))
        skip = check_count(where.get("skip", 0), "skip", 0)
        shard = check_count(where.get("shard"), "shard", 0)
        if shard is not None and at in {"start", "load", "encode", "close"}:
            raise ContractError(f"at={at!r} belongs to no shard: leave out shard={shard!r}")
        fault = Fault(
            kind,
            at,
            check_count(where.get("worker"), "worker", 0),
            number,
            shard,
            check_count(where.get("times", 1), "times", 1),
            skip or 0,
            tuple(detail.items()),
        )
        return self._grown((*self.faults, fault))

    def _grown(self, faults: Iterable[Fault]) -> ChaosPlan:
        plan = type(self)(faults)
        plan.family = self.family
        self.family.append(plan)
        return plan

    def __or__(self, other: ChaosPlan) -> ChaosPlan:
        """Return a plan of the faults of both."""
        if not isinstance(other, ChaosPlan):
            return NotImplemented
        return self._grown((*self.faults, *(fault for fault in other.faults if fault not in self.faults)))

    # What came of it

    @property
    def log(self) -> list[Firing]:
        """What struck so far, in the order of time, on all handles that were given this plan."""
        found = []
        for place, use in enumerate(self.uses, 1):
            for entry in use.ledger.entries():
                fault = self.faults[entry["fault"]]
                where = (entry["round"], entry["worker"], entry["shard"])
                found.append((entry["ns"], place, Firing(fault, entry["at"], *where, place)))
        return [firing for *_, firing in sorted(found, key=lambda one: one[:2])]

    @property
    def fired(self) -> tuple[Fault, ...]:
        """The faults that struck, as often as was planned, on some handle."""
        return tuple(fault for fault in self.faults if self._struck_enough(fault))

    @property
    def pending(self) -> tuple[Fault, ...]:
        """The faults that did not."""
        return tuple(fault for fault in self.faults if not self._struck_enough(fault))

    def _struck_enough(self, fault: Fault) -> bool:
        handles = [one.handle for one in self.log if one.fault == fault]
        return max(map(handles.count, handles), default=0) >= (fault.times or 1)

    def check(self) -> None:
        """Fail unless every planned fault struck as often as was planned: a test of a fault that never came is none.

        Raises
        ------
        AssertionError
            Naming the faults that did not, and what did.
        """
        pending = self.pending
        if not pending:
            return
        if not self.uses:
            raise AssertionError(f"{self!r} was given to no handle: encoded_data(..., policies=[plan])")
        rounds = ", ".join(str(use.ledger.rounds) for use in self.uses)
        struck = "".join(f"\n  struck: {one.fault!r} (round {one.round}, worker {one.worker})" for one in self.log)
        raise AssertionError(
            f"planned and not met in {rounds} E-steps: "
            + ", ".join(map(repr, pending))
            + (struck or "; nothing struck")
        )

    def check_family(self) -> None:
        """Check every plan that was made of this one and given to a handle; one of them must have been.

        Raises
        ------
        AssertionError
            As `check`.
        """
        used = [plan for plan in self.family if plan.uses]
        if not used and len(self.family) > 1:
            raise AssertionError(f"{self.family[-1]!r} was given to no handle: encoded_data(..., policies=[plan])")
        for plan in used:
            plan.check()

    # The value

    def over(self, transport: Transport) -> Any:
        """Return a transport in which the faults of this plan happen."""
        from mixle.testing.bound import Chaos

        bound = Chaos(self.faults).over(transport)
        self.uses.append(bound)
        return bound

    def __repr__(self) -> str:
        """Return what can be typed to make this plan."""
        return "ChaosPlan()" + "".join(f".{fault!r}" for fault in self.faults)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChaosPlan) and other.faults == self.faults

    def __hash__(self) -> int:
        return hash(repr(self))

    def __len__(self) -> int:
        return len(self.faults)

    def __iter__(self) -> Iterator[Fault]:
        return iter(self.faults)

    def __bool__(self) -> bool:
        return True


#: What `random` says where something has to be said.
_SMALL: dict[str, tuple[Any, ...]] = {
    "delay": (0.05,),
    "hold_lock": (0.2,),
    "raise_": (ValueError("planned"),),
}
