"""Who arrived where, and what struck: kept in files, so that it outlives the processes that are struck."""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from pathlib import Path
from typing import Any

__all__ = ["Ledger", "arrive", "note", "was_here"]


class Ledger:
    """The driver's side: a private folder while a handle is in use, and what was written there.

    A ledger may be closed and used again, as a local handle may.
    """

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.rounds = 0
        self._read: dict[str, Any] = {}
        self._arrivals: dict[str, int] = {}
        self._remove: Any = None

    def open(self) -> Path:
        """Return the folder, made when first asked for."""
        if self.folder is None:
            import tempfile

            self.folder = Path(tempfile.mkdtemp(prefix="mixle-chaos-"))  # 0700
            self._remove = weakref.finalize(self, _remove, str(self.folder), os.getpid())
            for name, count in self._arrivals.items():
                (self.folder / name).write_bytes(b"." * count)
        return self.folder

    def entries(self) -> list[dict[str, Any]]:
        """Return what struck, in the order of time."""
        if self.folder is not None:
            import json

            for path in self.folder.glob("struck-*"):
                with contextlib.suppress(ValueError):  # a process that died while it wrote
                    self._read.setdefault(path.name, json.loads(path.read_text(encoding="utf-8")))
        return sorted(self._read.values(), key=lambda entry: (entry["ns"], entry["fault"]))

    def close(self) -> None:
        """Keep what was written and remove the folder."""
        if self.folder is not None:
            self.entries()
            self._arrivals = {path.name: path.stat().st_size for path in self.folder.glob("arrivals-*")}
            self.folder = None
            self._remove()


def _remove(folder: str, pid: int) -> None:
    import shutil

    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


def arrive(folder: str, name: str) -> int:
    """Return how many came before, over all processes."""
    fd = os.open(Path(folder) / f"arrivals-{name}", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        os.write(fd, b".")
        return os.lseek(fd, 0, os.SEEK_CUR) - 1
    finally:
        os.close(fd)


def note(folder: str, arrival: int, entry: dict[str, Any]) -> None:
    """Write down that a fault strikes now."""
    import json

    path = Path(folder) / f"struck-{entry['fault']}-{arrival}"
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        os.write(fd, json.dumps({**entry, "pid": os.getpid(), "ns": time.time_ns()}).encode())
    finally:
        os.close(fd)


def was_here(folder: str, name: str) -> bool:
    """Return whether this is not the first call with that name."""
    try:
        os.close(os.open(Path(folder) / f"seen-{name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return True
    return False
