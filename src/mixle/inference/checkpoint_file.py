"""The file of a checkpoint: written whole or not at all, and believed only after its checksum holds."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import Any

from mixle.errors import CheckpointError

__all__ = ["FORMAT", "CheckpointFile", "unpack"]

FORMAT = 1
_START = b"mixle checkpoint "
_HEAD = re.compile(rb"mixle checkpoint (\d{1,9}) ([0-9a-f]{64}) (\d{1,15}) ([0-9a-f]{32})\n")
_HEAD_BYTES = 160
#: Of a fit's time at most one part in this many goes to waiting for the disk ...
_SHARE = 20
#: ... unless it waited for nothing for so many seconds.
_LONGEST_S = 1.0
#: A file under way that is as old as this belongs to nobody.
_STALE_S = 3600.0


def pack(body: bytes, token: str) -> bytes:
    """Return the first line of a checkpoint of `body` that the fit `token` writes."""
    return b"%s%d %s %d %s\n" % (_START, FORMAT, _sum(body, token), len(body), token.encode())


def _sum(body: bytes, token: str) -> bytes:
    import hashlib

    found = hashlib.sha256(f"{FORMAT} {len(body)} {token}\n".encode())
    found.update(body)
    return found.hexdigest().encode()


def unpack(data: bytes) -> tuple[bytes, str]:
    """Return body and writer of a checkpoint.

    Raises
    ------
    CheckpointError
        Saying why `data` is none.
    """
    head = _HEAD.match(data)
    if head is None:
        torn = not data or _START.startswith(data) or (data.startswith(_START) and b"\n" not in data[:_HEAD_BYTES])
        raise CheckpointError(f"torn: it ends after {len(data)} bytes" if torn else "not a checkpoint")
    if int(head[1]) != FORMAT:
        raise CheckpointError(f"of format {int(head[1])}; this version reads format {FORMAT}")
    body, token = data[head.end() :], head[4].decode()
    if len(body) < int(head[3]):
        raise CheckpointError(f"torn: it ends after {len(body)} of {int(head[3])} bytes")
    if len(body) != int(head[3]) or _sum(body, token) != head[2]:
        raise CheckpointError("altered: its checksum does not hold")
    return body, token


class CheckpointFile:
    """A checkpoint at `path`, and beside it the one before (``path.previous``).

    The newest is replaced by renaming, so a killed process leaves a whole one. The one before was flushed to the disk,
    so a power failure leaves it at least.

    Parameters
    ----------
    path : str or path-like
        The file; its folder must exist.

    Attributes
    ----------
    path, previous, refused : Path
        The newest, the one before, and a newest that was no checkpoint when the one before was used.
    source : Path
        What was read.

    Raises
    ------
    TypeError
        If `path` is no path.
    CheckpointError
        (a ValueError) if there can be no file of that name.
    """

    def __init__(self, path: Any) -> None:
        try:
            name = os.fspath(path)
        except TypeError:
            name = None
        if not isinstance(name, str):
            raise TypeError(f"checkpoint is the path of a file, for example 'fit.checkpoint', not {path!r}")
        try:
            self.path = Path(name).resolve()
            wrong = _wrong(self.path) if name else "is a folder; name a file in it"
        except (OSError, ValueError) as error:
            raise CheckpointError(f"checkpoint={name!r} cannot be reached: {error}; name a file that can") from error
        if wrong:
            raise CheckpointError(f"checkpoint={name!r} {wrong}")
        self.previous, self.refused = (self.path.with_name(self.path.name + end) for end in (".previous", ".refused"))
        self.source = self.path
        self._token = os.urandom(16).hex()
        self._known = {self._token}
        self._keep = False  # whether what stands at `path` is to become the one before
        self._torn = False  # whether what stands there is no checkpoint
        self._next_flush = 0.0
        self._swept = False

    def exists(self) -> bool:
        """Return whether there is anything to go on from."""
        return self.path.exists() or self.previous.exists()

    def read(self) -> tuple[bytes | None, str]:
        """Return the newest checkpoint that is whole, None if there is none, and what is wrong with a newer one.

        Raises
        ------
        CheckpointError
            If there are files and none of them is a whole checkpoint.
        """
        wrong = []
        for path in (self.path, self.previous):
            try:
                body, token = unpack(path.read_bytes())
            except FileNotFoundError:
                continue
            except OSError as error:
                wrong.append(f"{path} cannot be read ({error.strerror})")
            except CheckpointError as error:
                wrong.append(f"{path} is {error}")
                self._torn = self._torn or path == self.path
            else:
                self._known.add(token)
                self.source = path
                self._keep = path == self.path
                return body, "; ".join(wrong)
        if wrong:
            raise CheckpointError(
                f"there is no checkpoint to go on from: {'; '.join(wrong)}. Name another file, or remove this one to "
                "start anew"
            )
        return None, ""

    def write(self, body: bytes, *, last: bool = False) -> None:
        """Replace the newest checkpoint.

        Parameters
        ----------
        body : bytes
            What to write.
        last : bool
            Whether to wait for the disk in any case.

        Raises
        ------
        OSError
            If it cannot be written; then the newest checkpoint is what it was.
        CheckpointError
            If another fit has written there meanwhile.
        """
        self._check_owner()
        began = time.monotonic()
        flush = last or began >= self._next_flush
        temporary = self._write_aside([pack(body, self._token), body], flush=flush)
        try:
            if self._torn or self._keep:
                with contextlib.suppress(FileNotFoundError):
                    self.path.replace(self.refused if self._torn else self.previous)
            self._torn = False
            temporary.replace(self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        self._keep = flush
        if flush:
            _flush_folder(self.path.parent)
            done = time.monotonic()
            self._next_flush = done + min(_LONGEST_S, _SHARE * (done - began))

    def _check_owner(self) -> None:
        try:
            with self.path.open("rb") as file:
                head = _HEAD.match(file.read(_HEAD_BYTES))
        except FileNotFoundError:
            return
        if not self._torn and (head is None or head[4].decode() not in self._known):
            raise CheckpointError("another fit writes there; every fit needs a checkpoint of its own")

    def _write_aside(self, parts: list[bytes], *, flush: bool) -> Path:
        """Write a file of another name in the same folder, for its owner alone, and return its path."""
        from tempfile import mkstemp

        folder, prefix = self.path.parent, f".{self.path.name[:100]}.writing-"
        if not self._swept:
            self._swept = True
            _sweep(folder, prefix)
        fd, name = mkstemp(prefix=prefix, dir=folder)
        temporary = Path(name)
        try:
            with os.fdopen(fd, "wb", buffering=0) as file:
                for part in parts:
                    view = memoryview(part)
                    while view:
                        view = view[file.write(view) :]
                if flush:
                    os.fsync(fd)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        return temporary


def _wrong(path: Path) -> str:
    """Return why there can be no checkpoint at `path`, empty if there can."""
    if path.is_dir():
        return "is a folder; name a file in it"
    if not path.parent.is_dir():
        return f"is in no folder: there is no folder {path.parent}; make it first"
    if path.exists() and not path.is_file():
        return "is no regular file; name a file that can be replaced"
    return ""


def _sweep(folder: Path, prefix: str) -> None:
    """Remove what fits left behind that were killed while they wrote."""
    with contextlib.suppress(OSError):
        for entry in folder.iterdir():
            if entry.name.startswith(prefix) and time.time() - entry.stat().st_mtime > _STALE_S:
                entry.unlink()


def _flush_folder(folder: Path) -> None:
    """Let a rename survive a power failure, where a folder can be opened for that."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
