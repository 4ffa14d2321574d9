"""A worker process: encodes its shards, runs tasks on them, replies; one thread, one frame after another."""

from __future__ import annotations

import contextlib
import faulthandler
import marshal
import os
import signal
import struct
import sys
import time
import traceback
import types
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mixle.errors import PayloadError
from mixle.utils.parallel.folding import payload
from mixle.utils.parallel.folding.digests import rows_digest
from mixle.utils.parallel.folding.faults import fault_of
from mixle.utils.parallel.folding.packing import arena, packed
from mixle.utils.parallel.folding.tasks import Accumulate, Result, Score, execute
from mixle.utils.parallel.transports.process import system, wire
from mixle.utils.parallel.transports.process.mailbox import read_letter
from mixle.utils.parallel.transports.process.parcels import KnownDefinitions, dumps_reply
from mixle.utils.parallel.transports.process.spool import SpoolReader

if TYPE_CHECKING:
    import socket

    from mixle.utils.parallel.folding.payload import Buffer
    from mixle.utils.parallel.folding.shards import Shard

__all__ = ["DUMP_SIGNAL", "Birth", "main", "pack_orders", "print_last_error"]

DUMP_SIGNAL = getattr(signal, "SIGUSR2", None)  # makes a hung worker print where it hangs
_SIZE = struct.Struct("<QI")  # bytes of the orders, crc32 of that number and of them
_ALIGN = 64


@dataclass(frozen=True)
class Birth:
    """What a worker is born with.

    Attributes
    ----------
    rank, incarnation : int
        Its id, and how many workers of that id there were before.
    parent : int
        Process id of the launcher, to notice that it died in between; -1 if there is none.
    errors : int
        Descriptor of its standard error; -1 leaves the standard streams alone.
    files : dict of str to int
        Descriptors of ``rows`` and, if there is one, of ``tasks``.
    """

    rank: int
    incarnation: int
    parent: int
    errors: int
    files: dict[str, int] = field(default_factory=dict)


def pack_orders(items: list[tuple[int, bool]], letter: tuple[int, int] | None) -> bytes:
    """Return the first part of a task's body: which shards (and whether to keep them), where the task itself lies.

    The task follows in the frame if `letter` is None; else it lies in the mailbox.
    """
    orders = marshal.dumps((items, letter))
    head = _SIZE.pack(len(orders), _crc(len(orders), orders))
    return head + orders + bytes(-(_SIZE.size + len(orders)) % _ALIGN)


def split_orders(body: bytearray) -> tuple[list[tuple[int, bool]], tuple[int, int] | None, memoryview]:
    """Return the shards, the place in the mailbox, and the rest of a task's body.

    Raises
    ------
    PayloadError
        If the orders were altered on their way; nothing was read then. The rest has a checksum of its own.
    """
    view = memoryview(body)
    size, crc = _SIZE.unpack_from(view) if len(view) >= _SIZE.size else (0, -1)
    end = _SIZE.size + size
    orders = view[_SIZE.size : end]
    if _crc(size, orders) != crc:
        raise PayloadError("the checksum of a worker's orders does not hold: they were altered on their way")
    items, letter = marshal.loads(orders)  # noqa: S302 - from this worker's driver, unaltered
    return items, letter, view[end + -end % _ALIGN :]


def _crc(size: int, orders: Buffer) -> int:
    return zlib.crc32(orders, zlib.crc32(size.to_bytes(8, "little")))


def main(birth: Birth, sock: socket.socket) -> int:
    """Run a worker until its driver is gone; returns the exit code."""
    if birth.parent >= 0:
        system.parent_death_signal(system.SIGKILL)
        if os.getppid() != birth.parent:
            return 1
    settle_in(birth, sock)
    worker = Worker(birth, sock)
    try:
        worker.serve()
    except wire.Broken:
        return 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        flush_streams()
    return 0


def settle_in(birth: Birth, sock: socket.socket) -> None:
    """Take a process group, streams, signals and a ``__main__`` of one's own; close what was inherited."""
    if hasattr(os, "setpgid"):
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if birth.errors >= 0:
        os.dup2(birth.errors, 1)
        os.dup2(birth.errors, 2)
        keep = sorted({sock.fileno(), *birth.files.values()})
        for low, high in zip([2, *keep], [*keep, os.sysconf("SC_OPEN_MAX")], strict=True):
            os.closerange(low + 1, high)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    with contextlib.suppress(OSError, ValueError, AttributeError):
        faulthandler.enable(2)
        if DUMP_SIGNAL is not None:
            faulthandler.register(DUMP_SIGNAL, 2)
    os.environ["MIXLE_WORKER"] = str(birth.rank)  # so that user code can tell where it runs
    sys.modules["__main__"] = types.ModuleType("__main__")
    if "numpy.random" in sys.modules:  # its global generator was copied by the fork
        sys.modules["numpy.random"].seed()


def flush_streams() -> None:
    """Write out what user code printed."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def print_last_error() -> None:
    """Print the error being handled where the driver will find it."""
    with contextlib.suppress(Exception):
        traceback.print_exc()
    flush_streams()


class Worker:
    """The state of a worker process."""

    def __init__(self, birth: Birth, sock: socket.socket) -> None:
        self.birth, self.sock, self.pid = birth, sock, os.getpid()
        self.reader = wire.FrameReader(sock)
        self.definitions = KnownDefinitions()
        self.spool: SpoolReader | None = None
        self.resident: dict[int, Shard] = {}
        self.owned: set[int] = set()
        self.encoded = False
        self.last: tuple[bytes, Any] = b"", None

    def serve(self) -> None:
        """Handle frames until the driver closes the pipe."""
        while True:
            head, body = self.reader.next()
            if head.kind == wire.DEFINE:
                self.definitions.learn(body)
            elif head.kind == wire.DROP:
                self.resident.pop(head.shard, None)
                self.owned.discard(head.shard)
            elif head.kind == wire.TASK:
                self.obey(head, body)
            del body

    def obey(self, head: wire.Head, body: bytearray) -> None:
        """Run the task of a frame on the shards that it names, replying after each."""
        items, letter, rest = split_orders(body)
        task, fault, began = None, None, time.perf_counter()
        try:
            task = self.open(head, rest, letter)
        except Exception as error:  # noqa: BLE001 - a module missing here, say: the driver's to see
            error.add_note("raised while a worker read the task")
            fault = fault_of(error)
        reading = time.perf_counter() - began
        if head.flags & wire.ARMED:
            self.rendezvous(head)
        self.encoded = False
        received = getattr(task, "received", None)
        for place, (shard, keep) in enumerate(items, 1):
            result = Result(shard, 0, 0.0, None, None, self.receipt(), fault)
            began = time.perf_counter()
            if fault is None:
                result = self.work(task, shard, keep)
            # Before the task started, rows that were not resident were encoded.
            result.receipt["decode_seconds"] = reading + result.receipt.get("started", began) - began
            reading = 0.0
            if received is not None and place == len(items):  # what holds after the work has held all along
                result.receipt["model"] = received()
            self.reply(head, result)
        if self.encoded or not isinstance(task, (Accumulate, Score)):
            # Unpickled rows and the draws of a start leave holes in the heap that no round fills.
            system.trim_heap()
        flush_streams()

    def open(self, head: wire.Head, rest: memoryview, letter: tuple[int, int] | None) -> Any:
        """Return the task of a frame; one that the frame before had is at hand."""
        if letter is not None:
            self.last = b"", None
            return self.definitions.open(read_letter(self.birth.files["tasks"], *letter))
        text, (before, task) = bytes(rest), self.last
        if not (head.flags & wire.SAME and text == before):
            task = self.definitions.open(rest)
            self.last = (text, task) if getattr(task, "checked", None) is not None else (b"", None)
        return task

    def rendezvous(self, head: wire.Head) -> None:
        """Tell that the task arrived, and wait until the driver says go."""
        self.send(wire.frame(wire.STARTED, incarnation=self.birth.incarnation, request=head.request))
        while True:
            answer, _ = self.reader.next()
            if answer.kind == wire.GO and answer.request == head.request:
                return

    def work(self, task: Any, shard: int, keep: bool) -> Result:
        """Return the result of a task on one shard; without a task, encode the shard and count its rows."""
        try:
            encoded = self.resident.get(shard)
            if encoded is None:
                encoded = self.encode(shard)
                if keep:
                    self.resident[shard] = encoded
            if task is not None:
                if getattr(task, "checked", None) is not None:
                    encoded = self.own(shard, encoded, keep)
                return execute(task, encoded, self.birth.rank)
        except Exception as error:  # noqa: BLE001 - the encoder is the user's, and so may be an error that cannot be told
            return Result(shard, 0, 0.0, None, None, self.receipt(), fault_of(error))
        return Result(shard, encoded.rows, 0.0, None, None, {**self.receipt(), "rows": rows_digest(encoded)})

    def encode(self, shard: int) -> Shard:
        """Encode a shard from the rows of the pool."""
        self.encoded = True
        if self.spool is None:
            self.spool = SpoolReader(self.birth.files["rows"], self.definitions)
        return packed(self.spool.encode(shard))

    def own(self, shard: int, encoded: Shard, keep: bool) -> Shard:
        """Return a shard that shares no memory with the rows of the pool: a flipped bit there would be everybody's.

        Its digest is also taken in one pass over memory in order.
        """
        if shard in self.owned:
            return encoded
        own = arena(encoded)
        if keep:
            self.resident[shard] = own
            self.owned.add(shard)
        return own

    def receipt(self) -> dict[str, Any]:
        return {"worker": self.birth.rank}

    def reply(self, head: wire.Head, result: Result) -> None:
        """Send a result, and behind it the seconds it took to write; a value that cannot travel becomes its error."""
        began = time.perf_counter()
        try:
            parts = payload.encode(_plain(result), allow_pickle=True, dumps=dumps_reply)
        except Exception as error:  # noqa: BLE001 - whatever a user's value does when it is pickled
            error.add_note(f"raised while a worker sent back a value of type {type(result.value).__name__}")
            failed = Result(result.shard, result.rows, 0.0, None, None, self.receipt(), fault_of(error))
            parts = payload.encode(_plain(failed), allow_pickle=True, dumps=dumps_reply)
        self.send(
            wire.frame(
                wire.REPLY,
                [*parts, wire.pack_seconds(time.perf_counter() - began)],
                incarnation=self.birth.incarnation,
                shard=result.shard,
                request=head.request,
            )
        )

    def send(self, parts: list[memoryview]) -> None:
        if os.getpid() != self.pid:  # a fork that user code made and let return
            os._exit(0)
        writer = wire.FrameWriter(self.sock)
        writer.put(parts)
        while writer.queue:
            writer.flush()


def _plain(result: Result) -> tuple[Any, ...]:
    """Return a result as plain data."""
    error = result.error
    fault = None
    if error is not None:
        fault = (error.type_name, error.message, error.row, error.fields, error.traceback_text, error.pickled)
    return result.shard, result.rows, result.weight, result.value, result.log_density, result.receipt, fault
