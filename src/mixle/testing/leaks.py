"""What a piece of work leaves behind: processes, descriptors, threads, shared memory, temporary files."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

__all__ = ["Census", "private_temporary_folder"]

WAIT_S = 5.0  # how long a process that is ending may take
_PROC = Path("/proc")
_SHARED = Path("/dev/shm")


class Census:
    """Who and what belongs to this process now, to be compared with later.

    Parameters
    ----------
    folder : path, optional
        A folder of temporary files to watch.
    kinds : iterable of str, optional
        What to look at: some of "process", "thread", "descriptor", "shared memory", "temporary file"; all if not
        given.

    Notes
    -----
    Processes and descriptors are read from ``/proc``; without it processes are asked from psutil where it is
    installed, and descriptors are not looked at.

    Examples
    --------
    >>> census = Census()
    >>> file = open(os.devnull)
    >>> [text.split(" -> ")[1] for text in census.left_behind(0.0)]
    ['/dev/null']
    >>> file.close()
    >>> census.left_behind()
    []
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, kinds: Iterable[str] | None = None) -> None:
        _collect()
        self.kinds = None if kinds is None else frozenset(kinds)
        self.folder = None if folder is None else Path(folder)
        self._before: dict[str, dict[object, str]] = {kind: found() for kind, found in self._kinds().items()}

    def _kinds(self) -> dict[str, Callable[[], dict[object, str]]]:
        everything: dict[str, Callable[[], dict[object, str]]] = {
            "process": _processes,
            "thread": _threads,
            "descriptor": _descriptors,
            "shared memory": _segments,
            "temporary file": self._files,
        }
        unknown = (self.kinds or frozenset()) - everything.keys()
        if unknown:
            raise ValueError(f"a census of {sorted(unknown)} cannot be made; kinds are {', '.join(everything)}")
        return {kind: find for kind, find in everything.items() if self.kinds is None or kind in self.kinds}

    def _files(self) -> dict[object, str]:
        return {} if self.folder is None else {path: str(path) for path in _entries(self.folder)}

    def left_behind(self, wait_s: float | None = None) -> list[str]:
        """Return what there is now and was not there before, one line each.

        Parameters
        ----------
        wait_s : float, optional
            How long to wait for what is about to end; 5 seconds if not given.
        """
        end = time.monotonic() + (WAIT_S if wait_s is None else wait_s)
        while True:
            _collect()
            found = [
                f"{kind} {text}"
                for kind, now in self._kinds().items()
                for key, text in now().items()
                if key not in self._before[kind] and not (kind == "shared memory" and _held_elsewhere(str(key)))
            ]
            if not found or time.monotonic() >= end:
                return sorted(found)
            time.sleep(0.005)

    def check(self, wait_s: float | None = None) -> None:
        """Fail if something is left behind.

        Parameters
        ----------
        wait_s : float, optional
            How long to wait for what is about to end; 5 seconds if not given.

        Raises
        ------
        AssertionError
            Naming each thing.
        """
        found = self.left_behind(wait_s)
        if found:
            raise AssertionError("left behind:\n  " + "\n  ".join(found))


@contextlib.contextmanager
def private_temporary_folder() -> Iterator[Path]:
    """Let temporary files of this process and its children go to a folder that is theirs alone; it is removed."""
    import shutil
    import tempfile

    before, variable = tempfile.tempdir, os.environ.get("TMPDIR")
    folder = Path(tempfile.mkdtemp(prefix="mixle-"))
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    try:
        yield folder
    finally:
        tempfile.tempdir = before
        if variable is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = variable
        shutil.rmtree(folder, ignore_errors=True)


def _collect() -> None:
    import gc

    gc.collect()


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _threads() -> dict[object, str]:
    return {thread.ident: f"{thread.name!r}" for thread in threading.enumerate()}


def _descriptors() -> dict[object, str]:
    found: dict[object, str] = {}
    for path in _entries(_PROC / "self/fd"):
        with contextlib.suppress(OSError):  # the one of this very listing
            target = str(path.readlink())
            found[path.name, target] = f"{path.name} -> {target}"
    return found


def _segments() -> dict[object, str]:
    return {path: str(path) for path in _entries(_SHARED)}


def _held_elsewhere(segment: str) -> bool:
    """Return whether a process that is not ours maps a segment: the folder is everybody's."""
    ours = {str(os.getpid()), *(str(key[0]) for key in _processes() if isinstance(key, tuple))}
    for path in _entries(_PROC):
        if path.name.isdigit() and path.name not in ours:
            with contextlib.suppress(OSError):
                if segment in (path / "maps").read_text(encoding="utf-8", errors="replace"):
                    return True
    return False


def _processes() -> dict[object, str]:
    """Return all descendants that have not ended, by id and start."""
    if not (_PROC / "self/stat").exists():
        return _processes_elsewhere()
    children: dict[int, list[tuple[int, str, str]]] = {}
    for path in _PROC.iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                name, _, rest = (path / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
                words = rest.split()
                if words[0] not in "ZX":
                    children.setdefault(int(words[1]), []).append((int(path.name), words[19], name.partition("(")[2]))
    found: dict[object, str] = {}
    waiting = [os.getpid()]
    while waiting:
        for pid, begun, name in children.get(waiting.pop(), []):
            found[pid, begun] = f"{pid} ({name})"
            waiting.append(pid)
    return found


def _processes_elsewhere() -> dict[object, str]:
    try:
        import psutil
    except ImportError:
        return {}
    children = psutil.Process().children(recursive=True)
    return {(child.pid, child.create_time()): f"{child.pid} ({child.name()})" for child in children}
