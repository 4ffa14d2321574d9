"""A file that only ever grows, by whole lines, which several processes may write at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["Journal"]


class Journal:
    """Lines in an append-only file.

    Each batch of lines is one write to a file opened with ``O_APPEND``: on a local file system the lines of several
    processes or threads do not mix. A line that was torn (a full disk, a process killed while writing) is closed by the
    next writer, so that it costs itself only. Network file systems without atomic appends need a file per process.

    Parameters
    ----------
    path : str or path-like
        The file; folders above it are made.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._fd, self._pid, self._end, self._torn = -1, os.getpid(), 0, False

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield ``(offset, line)`` of every line, without line feeds; a file that is not there has none."""
        if not self.path.is_file():
            return
        offset = 0
        with self.path.open("rb") as file:
            for line in file:
                yield offset, line.rstrip(b"\r\n")
                offset += len(line)

    def append(self, lines: Sequence[bytes]) -> Iterator[int]:
        """Write lines, each with its line feed, and yield the offset of each when it stands in the file.

        Raises
        ------
        OSError
            If the file takes no more; the lines whose offset was not yielded are not in the file.
        """
        fd = self._descriptor()
        at = 0
        while at < len(lines):
            lead = b"\n" if self._torn else b""
            data = lead + b"".join(lines[at:])
            written = os.write(fd, data)
            end = os.lseek(fd, 0, os.SEEK_CUR)
            offset = end - written
            if offset != self._end and not lead and self._glued(fd, offset):
                written, data = 0, b""
            self._end = end
            offset, written = offset + len(lead), written - len(lead)
            while at < len(lines) and written >= len(lines[at]):
                yield offset
                offset, written, at = offset + len(lines[at]), written - len(lines[at]), at + 1
            self._torn = written > 0

    def close(self) -> None:
        """Close the file; a later `append` opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _descriptor(self) -> int:
        """Return the open file: a child of a fork gets its own, since offsets are those of the open file."""
        if self._pid != os.getpid():
            self.close()
            self._pid = os.getpid()
        if self._fd < 0:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
            self._fd = os.open(self.path, flags, 0o666)
            self._end = os.lseek(self._fd, 0, os.SEEK_END)
            self._torn = self._glued(self._fd, self._end)
        return self._fd

    @staticmethod
    def _glued(fd: int, offset: int) -> bool:
        """Return whether the byte before `offset` belongs to a line that was never ended."""
        if offset <= 0:
            return False
        os.lseek(fd, offset - 1, os.SEEK_SET)
        return os.read(fd, 1) != b"\n"
