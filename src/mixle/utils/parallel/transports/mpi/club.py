"""The ranks of a communicator, which do everything together: one exchange, errors first.

Every exchange begins with a head from each rank: what it is doing, whether it failed, was interrupted or leaves. So an
error of one rank is raised on all of them, and a rank that has left is told from one that is slow.
"""

from __future__ import annotations

import atexit
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mixle.errors import BackendError, HandleClosed, MissingPackage, TaskError
from mixle.utils.parallel.folding.backends import NEEDS
from mixle.utils.parallel.folding.faults import RemoteFault, fault_of, surface
from mixle.utils.parallel.folding.travel import pack, unpack
from mixle.utils.parallel.transports.mpi.interrupts import INTERRUPTS

if TYPE_CHECKING:
    from mixle.utils.parallel.folding.payload import Buffer

__all__ = ["Club", "open_club", "world"]

T = TypeVar("T")

_HEAD = struct.Struct("<20sIQ")  # what a rank is doing, its flags, bytes of its data
FAILED, LEAVES, INTERRUPTED = 1, 2, 4
SPINS = 400  # looks at a request before the first pause
PAUSES_S = 2e-5, 5e-4  # shortest and longest pause between two looks
GOODBYE_S = 10.0  # how long a rank that ends waits for the others


def open_club(comm: Any | None, root: int = 0) -> Club:
    """Return the ranks of `comm`, the world by default; collective.

    Raises
    ------
    MissingPackage
        If mpi4py, or the MPI library it needs, is not installed.
    TypeError
        For what is no communicator.
    """
    comm = world() if comm is None else comm
    if not all(hasattr(comm, verb) for verb in ("Dup", "Iallgather", "Iallgatherv", "Ibcast")):
        raise TypeError(f"comm must be an mpi4py communicator such as MPI.COMM_WORLD, not {comm!r}")
    return Club(comm, root)


def world() -> Any:
    """Return the communicator of all ranks; MissingPackage without mpi4py or the MPI library it needs."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise MissingPackage(
            f"backend 'mpi' needs mpi4py and an MPI library ({error}). Install: {NEEDS['mpi'].install}"
        ) from error
    return MPI.COMM_WORLD


class Club:
    """A private copy of a communicator.

    Attributes
    ----------
    rank, size : int
        Who this is, and how many there are.
    root : int
        The rank whose choices count.
    open : bool
        False once a rank has left.
    """

    def __init__(self, comm: Any, root: int) -> None:
        self.comm = comm.Dup()
        self.rank, self.size, self.root = int(self.comm.Get_rank()), int(self.comm.Get_size()), root
        self.open = True
        self._told: BaseException | None = None
        INTERRUPTS.install()
        atexit.register(self.leave)

    @property
    def is_root(self) -> bool:
        """Whether this rank's choices count."""
        return self.rank == self.root

    # What ranks do together

    def exchange(self, verb: str, data: Buffer = b"", error: BaseException | None = None) -> list[Buffer]:
        """Give `data` to every rank and return the data of each, by rank.

        Parameters
        ----------
        verb : str
            What this rank is doing; all must do the same.
        data : bytes-like
            What it has to say.
        error : BaseException, optional
            What went wrong on this rank: then every rank raises it.

        Raises
        ------
        TaskError
            (a RuntimeError, and of the error's own type) on every rank, if one failed.
        KeyboardInterrupt
            On every rank, if one was interrupted.
        HandleClosed
            If a rank has left.
        BackendError
            If ranks do different things.
        """
        if not self.open:
            raise HandleClosed("a rank of this MPI handle has left: make a new handle on every rank")
        flags = INTERRUPTED * INTERRUPTS.pending | FAILED * (error is not None)
        body = data if error is None else pack(astuple(fault_of(error)))
        heads, bodies = self._meet(verb, flags, body)
        failed = [rank for rank, (_, bits) in enumerate(heads) if bits & FAILED]
        left = [rank for rank, (_, bits) in enumerate(heads) if bits & LEAVES]
        if left:
            self._release()
        if failed or left:
            raise self._tell(self._fault(bodies, failed) if failed else self._desertion(bodies, left))
        if any(bits & INTERRUPTED for _, bits in heads):
            INTERRUPTS.told()
            raise self._tell(KeyboardInterrupt())
        verbs = [word for word, _ in heads]
        if len(set(verbs)) > 1:
            doing = ", ".join(f"rank {rank} is at {word!r}" for rank, word in enumerate(verbs))
            raise self._tell(BackendError(f"ranks of one MPI job must make the same calls in the same order; {doing}"))
        return bodies

    def decide(self, verb: str, make: Callable[[], T]) -> T:
        """Return on every rank what ``make()`` returns on the root; its exception is raised on every rank."""
        value, data, error = None, b"", None
        if self.is_root:
            try:
                value = make()
                data = pack(value)
            except BaseException as failure:  # noqa: BLE001 - every rank has to know, and then raises it
                error = failure
        bodies = self.exchange(verb, data, error)
        return value if self.is_root else unpack(bodies[self.root])  # type: ignore[return-value]

    def agree(self, value: T) -> T:
        """Return the root's `value` on every rank."""
        return self.decide("agree", lambda: value)

    def send(self, verb: str, make: Callable[[], T], rank: int) -> T | None:
        """Return what ``make()`` returns on the root on the rank `rank`, and None elsewhere."""
        value, data, error = None, b"", None
        if self.is_root:
            try:
                value = make()
                data = b"" if rank == self.root else pack(value)
            except BaseException as failure:  # noqa: BLE001 - every rank has to know, and then raises it
                error = failure
        size = unpack(self.exchange(verb, pack(len(data)) if self.is_root else b"", error)[self.root])
        if rank == self.root:
            return value
        if self.is_root:
            self._wait(self.comm.Isend(np.frombuffer(data, np.uint8), dest=rank))
        elif self.rank == rank:
            received = np.empty(size, np.uint8)
            self._wait(self.comm.Irecv(received, source=self.root))
            return unpack(received.data)  # type: ignore[no-any-return]
        return None

    @contextmanager
    def sharing(self) -> Iterator[None]:
        """Let an exception that leaves the block on this rank reach the others, who are at their next exchange."""
        try:
            yield
        except BaseException as error:
            if error is not self._told and self.open and self.size > 1:
                with suppress(BaseException):  # what others have to say is in it, but this rank raises its own
                    self.exchange("an error", error=error)
                self._told = error
            raise

    def leave(self) -> None:
        """Leave for good, and tell the others why if an exception is on its way; they raise it."""
        if not self.open:
            return
        cause = sys.exc_info()[1] or getattr(sys, "last_value", None)
        body = b"" if cause is None else pack(astuple(fault_of(cause)))
        deadline = None if cause is None else time.monotonic() + GOODBYE_S
        try:
            heads, bodies = self._meet("close", LEAVES, body, deadline)
        except TimeoutError:  # the others are where nothing of ours can reach them
            self._abort(cause)
            raise
        self._release()
        if cause is not None:
            return
        failed = [rank for rank, (_, bits) in enumerate(heads) if bits & FAILED]
        if failed:
            raise self._tell(self._fault(bodies, failed))

    # Below

    def _meet(
        self, verb: str, flags: int, body: Buffer, deadline: float | None = None
    ) -> tuple[list[tuple[str, int]], list[Buffer]]:
        """Exchange heads and data; whatever goes wrong in here would leave ranks waiting, so it ends the job."""
        try:
            mine = np.frombuffer(_HEAD.pack(verb.encode()[:20], flags, len(body)), np.uint8)
            heads = np.empty((self.size, _HEAD.size), np.uint8)
            self._wait(self.comm.Iallgather(mine, heads), deadline)
            told = [_HEAD.unpack(head.tobytes()) for head in heads]
            sizes = [size for _, _, size in told]
            return [(word.rstrip(b"\0").decode(), bits) for word, bits, _ in told], self._bodies(body, sizes)
        except TimeoutError:
            raise
        except BaseException as error:
            self._abort(error)
            raise

    def _bodies(self, body: Buffer, sizes: list[int]) -> list[Buffer]:
        speakers = [rank for rank, size in enumerate(sizes) if size]
        if not speakers or self.size == 1:
            return [body] if self.size == 1 else [b""] * self.size
        mine = np.frombuffer(body, np.uint8)
        if len(speakers) == 1:
            (speaker,) = speakers
            whole = mine if speaker == self.rank else np.empty(sizes[speaker], np.uint8)
            self._wait(self.comm.Ibcast(whole, root=speaker))
            return [whole.data if rank == speaker else b"" for rank in range(self.size)]
        starts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        everything = np.empty(starts[-1], np.uint8)
        self._wait(self.comm.Iallgatherv(mine, [everything, sizes, starts[:-1], _byte_type()]))
        return [everything[start : start + size].data for start, size in zip(starts, sizes, strict=False)]

    def _wait(self, request: Any, deadline: float | None = None) -> None:
        """Wait politely: a rank that is done leaves its processor to those that are not.

        Raises
        ------
        TimeoutError
            After `deadline`.
        """
        for _ in range(SPINS):
            if request.Test():
                return
        pause, longest = PAUSES_S
        while not request.Test():
            time.sleep(pause)
            pause = min(pause * 1.2, longest)
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError

    def _fault(self, bodies: list[Buffer], failed: list[int]) -> TaskError:
        rank = failed[0]
        error = surface(RemoteFault(*unpack(bodies[rank])), worker=rank)
        error.add_note(f"raised on rank {rank}" + (f" (and on ranks {failed[1:]})" if failed[1:] else ""))
        return error

    def _desertion(self, bodies: list[Buffer], left: list[int]) -> Exception:
        causes = [rank for rank in left if len(bodies[rank])]
        if causes:
            return self._fault(bodies, causes)
        return HandleClosed(f"rank {left[0]} closed its MPI handle or ended: every rank must make the same calls")

    def _tell(self, error: BaseException) -> BaseException:
        self._told = error
        return error

    def _release(self) -> None:
        self.open = False
        atexit.unregister(self.leave)
        self.comm.Free()
        INTERRUPTS.remove()

    def _abort(self, error: BaseException | None) -> None:
        """End the whole job, saying why."""
        import traceback

        text = "".join(traceback.format_exception(error)) if error else ""
        sys.stderr.write(f"mixle: rank {self.rank} ends the MPI job:\n{text}")
        sys.stderr.flush()
        self.comm.Abort(1)


def _byte_type() -> Any:
    from mpi4py import MPI

    return MPI.BYTE
