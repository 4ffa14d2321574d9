"""What every policy shares: it wraps a transport and has the transport's verbs."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self

from mixle.errors import BackendError
from mixle.utils.parallel.folding.transport import Source, Transport

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mixle.utils.parallel.folding.tasks import Result, Task

__all__ = ["Policy", "lets_choose", "stack"]


class Policy(Transport):
    """A transport around another one.

    ``Retry(2)`` is a plain value; `over` gives a copy of it that works on a transport. A subclass overrides the verbs
    it has something to say about and inherits the others, which go to the transport inside: `run`, `dispatch`, `move`,
    `workers` and whatever else the inner transport offers.

    Attributes
    ----------
    inner : Transport
        What is wrapped.
    order : int
        Place in a stack, inner to outer: chaos 0, retry 1, rebalance 2, audit 3, observe 4.
    needs : tuple of str
        Verbs without which the policy cannot work.
    reads_statistics : bool
        Whether it looks at the statistic of every shard, so that none may be folded before it has.
    """

    order: ClassVar[int] = 0
    needs: ClassVar[tuple[str, ...]] = ()
    reads_statistics: ClassVar[bool] = False
    #: Verbs of the inner transport that would go around this policy.
    withheld: ClassVar[frozenset[str]] = frozenset()
    inner: Transport

    def over(self, transport: Transport) -> Self:
        """Return a copy of this policy around `transport`.

        Raises
        ------
        BackendError
            If the transport lacks a verb that the policy needs.
        """
        missing = [verb for verb in self.needs if not hasattr(transport, verb)]
        if missing:
            raise BackendError(
                f"{type(self).__name__} needs a transport that can {' and '.join(missing)}; "
                f"{transport.name!r} cannot: leave the policy out, or use backend='mp'"
            )
        bound = copy.copy(self)
        bound.inner = transport
        bound.bind()
        return bound

    def bind(self) -> None:
        """Set up the state of a copy that has just got its transport."""

    @property
    def name(self) -> str:  # type: ignore[override]
        """The transport's word for messages."""
        return self.inner.name

    @property
    def closable(self) -> bool:  # type: ignore[override]
        """Whether `close` ends what the transport needs."""
        return self.inner.closable

    @property
    def sizes(self) -> dict[int, int]:  # type: ignore[override]
        """Rows of each shard."""
        return self.inner.sizes

    def load(self, source: Source) -> None:
        """Encode all shards where they will live."""
        self.inner.load(source)

    def map(self, task: Task) -> Iterator[Result]:
        """Run `task` on every shard and yield each result once, in any order."""
        return self.inner.map(task)

    def close(self) -> None:
        """Close the transport; further calls do nothing."""
        self.inner.close()

    def __getattr__(self, verb: str) -> Any:
        inner = self.__dict__.get("inner")
        if inner is None or verb.startswith("__") or verb in type(self).withheld:
            raise AttributeError(f"{type(self).__name__} has no {verb}")
        return getattr(inner, verb)


def stack(transport: Transport, policies: Iterable[Policy]) -> Transport:
    """Return `transport` inside `policies`, whatever order they are given in.

    Parameters
    ----------
    transport : Transport
        The innermost part.
    policies : iterable of Policy
        At most one of each kind.

    Raises
    ------
    TypeError
        If one of them is no policy.
    BackendError
        If a kind is given twice, or the transport lacks what one needs.

    Examples
    --------
    >>> from mixle.utils.parallel.policies.retry import Retry
    >>> from mixle.utils.parallel.transports.local import LocalTransport
    >>> stack(LocalTransport(), [Retry(2)]).name
    'local'
    """
    given = list(policies)
    for policy in given:
        if not isinstance(policy, Policy):
            raise TypeError(f"policies takes policies such as Retry(2), not {policy!r}")
    kinds = [type(policy) for policy in given]
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise BackendError(f"{kind.__name__} is given {kinds.count(kind)} times: give it once")
    for policy in sorted(given, key=lambda one: one.order):
        transport = policy.over(transport)
    return transport


def lets_choose(transport: Any) -> bool:
    """Return whether the transport inside all policies can run a shard on a chosen worker."""
    while hasattr(transport, "inner"):
        transport = transport.inner
    return hasattr(transport, "run") or hasattr(transport, "dispatch")
