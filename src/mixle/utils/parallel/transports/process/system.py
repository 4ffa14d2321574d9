"""What the operating system offers, and what stands in where it does not."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

__all__ = [
    "ProcessState",
    "above_standard",
    "append_only",
    "can_fork",
    "cpu_clock_ns",
    "describe_exit",
    "kill",
    "memory_file",
    "open_pidfd",
    "parent_death_signal",
    "read_at",
    "read_only",
    "seal",
    "trim_heap",
    "worker_environment",
    "write_at",
]

BLAS_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
#: Bytes that may lie free at the end of the heap, and of blocks that are always given back: more than the core's.
HEAP_VARIABLES = {"MALLOC_TRIM_THRESHOLD_": str(1 << 22), "MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
SIGKILL = getattr(signal, "SIGKILL", signal.SIGTERM)
_EXITING = 0x4  # PF_EXITING, a flag of field 9 of /proc/PID/stat
_PR_SET_PDEATHSIG = 1
_SEALS = 0x1 | 0x2 | 0x4 | 0x10  # F_SEAL_SEAL, _SHRINK, _GROW, _FUTURE_WRITE
_F_ADD_SEALS = 1033


def worker_environment() -> dict[str, str]:
    """Return the environment of workers: numerical libraries with one thread, an allocator that keeps its heap.

    The blocks of an E-step are freed after each shard. What the GNU allocator then gives back to the system it gets
    anew, page by page, for the next shard: up to as much work as the shard itself. A user's own settings count.
    """
    return {**HEAP_VARIABLES, **os.environ, **dict.fromkeys(BLAS_VARIABLES, "1")}


def can_fork() -> bool:
    """Return whether a launcher can fork workers: Linux, with descriptors that travel."""
    return sys.platform.startswith("linux") and hasattr(os, "fork")


def open_pidfd(pid: int) -> int | None:
    """Return a descriptor of the process that no other process can inherit the number of, or None."""
    try:
        return above_standard(os.pidfd_open(pid))
    except (AttributeError, OSError):
        return None


def kill(pid: int, pidfd: int | None, number: int) -> None:
    """Send a signal; a process that is gone is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if pidfd is not None and hasattr(signal, "pidfd_send_signal"):
            signal.pidfd_send_signal(pidfd, number)
        else:
            os.kill(pid, number)


def parent_death_signal(number: int) -> None:
    """Ask the kernel for a signal when the thread that started this process ends."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def trim_heap() -> None:
    """Give memory that was freed back to the system; elsewhere than with glibc nothing happens."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def above_standard(fd: int) -> int:
    """Return `fd`, moved above 2 if the standard streams are closed and it took the place of one."""
    if fd > 2:
        return fd
    import fcntl

    moved: int = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return moved


def memory_file(name: str) -> int:
    """Return a descriptor of an anonymous file in memory, or of an unlinked temporary file."""
    with contextlib.suppress(AttributeError, OSError):
        return above_standard(os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    import tempfile

    with tempfile.TemporaryFile(dir=shm) as file:
        copy = os.dup(file.fileno())
    os.set_inheritable(copy, False)
    return copy


def read_at(fd: int, size: int, place: int) -> bytes:
    """Read from a place of a file."""
    if hasattr(os, "pread"):
        return os.pread(fd, size, place)
    os.lseek(fd, place, os.SEEK_SET)
    return os.read(fd, size)


def write_at(fd: int, data: memoryview, place: int) -> int:
    """Write to a place of a file and return the number of bytes written."""
    if hasattr(os, "pwrite"):
        return os.pwrite(fd, data, place)
    os.lseek(fd, place, os.SEEK_SET)
    return os.write(fd, data)


def append_only(fd: int) -> None:
    """Let every write go to the end of a file, also after somebody cut it."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)


def seal(fd: int) -> bool:
    """Make a memory file immutable for everybody; False where it cannot be."""
    try:
        import fcntl

        fcntl.fcntl(fd, _F_ADD_SEALS, _SEALS)
    except (ImportError, OSError):
        return False
    return True


def read_only(fd: int) -> int:
    """Return another descriptor of the same file that cannot be written through."""
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, AttributeError):
        return os.dup(fd)


def cpu_clock_ns(pid: int) -> int | None:
    """Return the CPU time of all threads of a process, or None if it cannot be read."""
    try:
        return time.clock_gettime_ns(((~pid) << 3) | 2)
    except (AttributeError, OSError, OverflowError):
        return None


class ProcessState:
    """The kernel's view of one process, read through a descriptor that is kept open."""

    def __init__(self, pid: int) -> None:
        self.fd: int | None = None
        with contextlib.suppress(OSError, AttributeError):
            self.fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> tuple[str, bool]:
        """Return the state letter ("?" if unknown) and whether the process is on its way out."""
        if self.fd is None:
            return "?", False
        try:
            fields = os.pread(self.fd, 1024, 0).rpartition(b")")[2].split()
        except OSError:  # the process was reaped
            return "X", True
        state = fields[0].decode()
        return state, state in "ZX" or bool(int(fields[6]) & _EXITING)

    def close(self) -> None:
        """Release the descriptor."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


def describe_exit(code: int | None) -> str:
    """Return how a process ended, in words.

    Examples
    --------
    >>> describe_exit(-9)
    'killed by SIGKILL (often out of memory)'
    >>> describe_exit(3)
    'exited with code 3'
    """
    if code is None:
        return "died, exit status unknown"
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hints = {"SIGKILL": " (often out of memory)", "SIGSEGV": " (a crash in compiled code)", "SIGBUS": " (memory gone)"}
    return f"killed by {name}{hints.get(name, '')}"
