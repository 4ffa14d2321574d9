"""Frames on a stream socket: a head of 32 bytes with its own checksum, then the body.

The checksum of the head stops a garbage length before memory is taken for it; bodies that are decoded carry their own.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from mixle.errors import AlteredPayload

if TYPE_CHECKING:
    import socket

    from mixle.utils.parallel.folding.payload import Buffer

__all__ = [
    "DEFINE",
    "DROP",
    "GO",
    "REPLY",
    "SECONDS",
    "STARTED",
    "TASK",
    "Broken",
    "FrameReader",
    "FrameWriter",
    "Head",
    "frame",
    "pack_seconds",
    "read_seconds",
]

TASK, REPLY, STARTED, GO, DEFINE, DROP = range(1, 7)
ARMED = 1  # flag of a task: tell when it arrived, then wait for GO
SAME = 2  # flag of a task: where the frame before had the same one, it need not be read again
MAGIC = b"MXFR"
LIMIT = 1 << 40
SLICE = 1 << 24  # bytes read from one worker before the others are looked at
_HEAD = struct.Struct("<4sBBHiQQ")
_CRC = struct.Struct("<I")
HEAD_SIZE = _HEAD.size + _CRC.size
SECONDS = struct.Struct("<dI")  # behind the body of a reply: what it took to write the rest, and a checksum
_IOV = 64


class Broken(Exception):
    """The stream ended or holds what is no frame; the argument says how it was told."""


class Head(NamedTuple):
    """What stands in front of a body.

    Attributes
    ----------
    kind, flags : int
        What the frame means.
    incarnation : int
        Of the worker, modulo 2**16: a reply is matched by it, never by the worker's id alone.
    shard : int
        Shard id, or -1.
    request : int
        Number of the request that it belongs to.
    length : int
        Bytes of the body.
    """

    kind: int
    flags: int
    incarnation: int
    shard: int
    request: int
    length: int


def frame(
    kind: int,
    parts: Iterable[Buffer] = (),
    *,
    flags: int = 0,
    incarnation: int = 0,
    shard: int = -1,
    request: int = 0,
) -> list[memoryview]:
    """Return the buffers of one frame whose body is `parts`, one after another."""
    views = [view for view in (memoryview(part).cast("B") for part in parts) if len(view)]
    length = sum(len(view) for view in views)
    head = _HEAD.pack(MAGIC, kind, flags, incarnation & 0xFFFF, shard, request, length)
    return [memoryview(head + _CRC.pack(zlib.crc32(head))), *views]


def pack_seconds(seconds: float) -> bytes:
    """Return what stands behind the body of a reply."""
    return SECONDS.pack(seconds, zlib.crc32(struct.pack("<d", seconds)))


def read_seconds(body: Buffer) -> float:
    """Return the seconds behind the body of a reply; AlteredPayload if they were altered on their way."""
    seconds, crc = SECONDS.unpack_from(body, len(body) - SECONDS.size) if len(body) >= SECONDS.size else (0.0, -1)
    if zlib.crc32(struct.pack("<d", seconds)) != crc:
        raise AlteredPayload("the checksum behind a reply does not hold: it was altered on its way")
    return float(seconds)


def read_head(raw: bytearray) -> Head:
    """Return the checked head of a frame."""
    head = bytes(raw[: _HEAD.size])
    magic, kind, flags, incarnation, shard, request, length = _HEAD.unpack(head)
    if magic != MAGIC or zlib.crc32(head) != _CRC.unpack_from(raw, _HEAD.size)[0]:
        raise Broken("garbage on its pipe")
    if length > LIMIT:
        raise Broken(f"an oversized reply of {length} bytes")
    return Head(kind, flags, incarnation, shard, request, length)


class FrameReader:
    """Reads frames from a socket, blocking or not; half a frame is kept for the next call."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.raw = bytearray(HEAD_SIZE)
        self.head: Head | None = None
        self.body = bytearray()
        self.got = 0

    def frames(self, budget: float = SLICE) -> Iterator[tuple[Head, bytearray]]:
        """Yield the frames that can be read now, stopping after about `budget` bytes.

        Raises
        ------
        Broken
            At the end of the stream, a reset, or garbage.
        """
        while budget > 0:
            target = self.raw if self.head is None else self.body
            if self.got < len(target):
                count = self._receive(memoryview(target)[self.got :])
                if count is None:
                    return
                budget -= count
                self.got += count
                if self.got < len(target):
                    continue
            if self.head is None:
                head = read_head(self.raw)
                self.body = bytearray(head.length)
                self.head, self.got = head, 0
                if head.length:
                    continue
            head, body = self.head, self.body
            self.head, self.body, self.got = None, bytearray(), 0
            yield head, body

    def _receive(self, view: memoryview) -> int | None:
        try:
            count = self.sock.recv_into(view)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            raise Broken(f"its pipe broke ({error.strerror or error})") from None
        if count == 0:
            half = self.head is not None or self.got
            raise Broken("half a reply, then the end of its pipe" if half else "the end of its pipe")
        return count

    def next(self) -> tuple[Head, bytearray]:
        """Return the next frame of a blocking socket."""
        while True:
            for item in self.frames():
                return item


class FrameWriter:
    """Frames on their way out of a socket that may be full."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.queue: deque[memoryview] = deque()

    def put(self, parts: Iterable[memoryview]) -> None:
        """Add buffers; `flush` sends them."""
        self.queue.extend(parts)

    def flush(self) -> int:
        """Send what fits now and return the number of bytes sent.

        Raises
        ------
        Broken
            If nobody will read them.
        """
        total = 0
        while self.queue:
            parts = [self.queue[i] for i in range(min(len(self.queue), _IOV))]
            try:
                sent = self.sock.sendmsg(parts) if hasattr(self.sock, "sendmsg") else self.sock.send(parts[0])
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                raise Broken(f"its pipe broke ({error.strerror or error})") from None
            total += sent
            self._advance(sent)
        return total

    def _advance(self, sent: int) -> None:
        while sent:
            first = self.queue[0]
            if sent < len(first):
                self.queue[0] = first[sent:]
                return
            sent -= len(first)
            self.queue.popleft()
