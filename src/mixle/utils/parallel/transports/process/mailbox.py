"""Large tasks: written once into a memory file that every worker of the pool can read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mixle.utils.parallel.transports.process import system

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixle.utils.parallel.folding.payload import Buffer

__all__ = ["THRESHOLD", "Mailbox", "read_letter"]

THRESHOLD = 1 << 18  # smaller tasks go through the sockets


class Mailbox:
    """The driver's side.

    A region is used again only when nobody who may still read it is left: letters of requests that are under way keep
    their place, and the next one is written behind them.
    """

    def __init__(self) -> None:
        self.fd = system.memory_file("mixle-tasks")
        self.regions: dict[int, int] = {}

    def post(self, request: int, parts: Sequence[Buffer]) -> tuple[int, int]:
        """Write the letter of a request and return its place and length."""
        start = place = max(self.regions.values(), default=0)
        for part in parts:
            view = memoryview(part)
            while view:
                done = os.pwrite(self.fd, view[: 1 << 26], place)
                view, place = view[done:], place + done
        self.regions[request] = place
        return start, place - start

    def settle(self, request: int) -> None:
        """Note that every reader of the request has read it or is dead."""
        self.regions.pop(request, None)

    def close(self) -> None:
        """Release the descriptor."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def read_letter(fd: int, place: int, length: int) -> bytearray:
    """Return a private copy of a letter."""
    body = bytearray(length)
    view, at = memoryview(body), place
    while view:
        done = os.preadv(fd, [view[: 1 << 26]], at)
        if done == 0:
            raise EOFError("a task is missing from the mailbox of its pool")
        view, at = view[done:], at + done
    return body
