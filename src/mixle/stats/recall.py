"""What the chunks of one task have in common, found once per thread: a shard is often small, and a model is not."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["borrowed", "recalled", "recalling"]

_T = TypeVar("_T")
_Facts = dict[Hashable, tuple[tuple[Any, ...], Any]]


class _State(threading.local):
    """The task that was at hand last in this thread, what was found for it, and whether that may be used now."""

    task: Any = None
    found: _Facts | None = None
    facts: _Facts | None = None


_state = _State()


@contextmanager
def recalling(task: Any) -> Iterator[None]:
    """Let `recalled` remember what it finds for as long as this thread works on `task`, which is not altered meanwhile.

    Parameters
    ----------
    task : object
        What can be referred to weakly; what was found for it is dropped with it, or when another one's turn comes.
    """
    if _state.task is None or _state.task() is not task:
        found: _Facts = {}
        _state.task, _state.found = weakref.ref(task, lambda _: found.clear()), found
    before, _state.facts = _state.facts, _state.found
    try:
        yield
    finally:
        _state.facts = before


def recalled(key: Hashable, members: Sequence[Any], make: Callable[[], _T]) -> _T:
    """Return what `make` returns; while a task is at hand it is called once for a key and the same objects.

    Parameters
    ----------
    key : hashable
        What is asked for.
    members : sequence
        Objects that it is a function of, told apart by identity.
    make : callable
        Finds it; nobody alters what it returns.

    Examples
    --------
    >>> class Task:
    ...     pass
    >>> task, leaf, calls = Task(), object(), []
    >>> def find():
    ...     calls.append(1)
    ...     return len(calls)
    >>> with recalling(task):
    ...     recalled("answer", [leaf], find), recalled("answer", [leaf], find)
    (1, 1)
    >>> recalled("answer", [leaf], find)
    2
    """
    facts = _state.facts
    if facts is None:
        return make()
    place = (key, *map(id, members))
    found = facts.get(place)
    if found is None:
        found = facts[place] = tuple(members), make()  # the members too: as long as they live, nobody has their ids
    value: _T = found[1]
    return value


def borrowed(key: Hashable, owner: Any, make: Callable[[], _T]) -> _T:
    """Return scratch that nobody else has until `owner` is gone; while a task is at hand the next owner gets it then.

    Fresh memory costs more than most uses of it: the system hands it out page by page.

    Parameters
    ----------
    key : hashable
        What is asked for.
    owner : object
        Who uses it; it can be referred to weakly.
    make : callable
        Makes one.
    """
    if _state.facts is None:
        return make()
    free: list[_T] = recalled(("free", key), (), list)
    item: _T = free.pop() if free else make()
    weakref.finalize(owner, free.append, item).atexit = False
    return item
