"""What a pool must give back, also when its transport is forgotten and in a forked child of the driver."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any

from mixle.errors import HandleClosed
from mixle.utils.parallel.transports.process.spool import Spool, SpoolReader

if TYPE_CHECKING:
    from mixle.utils.parallel.transports.process.parcels import Definitions
    from mixle.utils.parallel.transports.process.supervisor import Supervisor

__all__ = ["Pool", "pools"]


class Pool:
    """What a transport must give back: also the finalizer holds it, so it never refers to the transport."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.spool: Spool | None = None
        self.supervisor: Supervisor | None = None

    def close(self) -> None:
        """End all processes and release the memory of the rows; a forked child leaves them alone."""
        if self.pid != os.getpid():
            return
        supervisor, spool = self.supervisor, self.spool
        try:
            if supervisor is not None:
                supervisor.close()
        finally:
            if spool is not None:
                spool.close()

    def rows(self, shard: int, definitions: Definitions) -> Any:
        """Return the rows of a shard from the memory that workers map."""
        if self.spool is None:
            raise HandleClosed("this pool of worker processes is closed: make a new handle")
        return SpoolReader(self.spool.fd, definitions.known_here()).rows_of(shard)

    def abandon(self) -> None:
        """Release this copy of the descriptors."""
        if self.supervisor is not None:
            self.supervisor.abandon()
        if self.spool is not None:
            self.spool.close()


pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _after_fork() -> None:
    """Give back a forked child's copies: they would keep rows in memory and pipes open."""
    for pool in list(pools):
        pool.abandon()
    pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
