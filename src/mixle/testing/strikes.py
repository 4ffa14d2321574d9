"""What a fault does to the process it strikes."""

from __future__ import annotations

import os
import signal
import stat
import time
import zlib
from typing import TYPE_CHECKING, Any

from mixle.errors import BackendError

if TYPE_CHECKING:
    from mixle.testing.fault import Fault

__all__ = ["signal_of", "strike"]

_HUGE = (1 << 50).to_bytes(8, "little")  # a length that no reply has


def strike(fault: Fault, driver: int) -> None:
    """Let a fault happen in this process, which must not be the driver if it would not survive."""
    from mixle.testing.fault import DEADLY

    if fault.kind in DEADLY and os.getpid() == driver:
        raise BackendError(f"{fault!r} would end the driver, whose own process does this work; use backend='mp'")
    _STRIKES[fault.kind](fault)


def signal_of(kind: str) -> int:
    """Return the signal that a kind of fault sends."""
    name = {"kill": "SIGKILL", "stop": "SIGSTOP", "segfault": "SIGSEGV"}[kind]
    number = getattr(signal, name, None)
    if number is None:
        raise BackendError(f".{kind} needs {name}, which this platform lacks; use .exit(1)")
    return int(number)


def _signal(fault: Fault) -> None:
    os.kill(os.getpid(), signal_of(fault.kind))


def _exit(fault: Fault) -> None:
    os._exit(fault.get("code"))


def _hang(fault: Fault) -> None:
    end = fault.get("seconds")
    time.sleep(end if end is not None else 10**7)


def _raise(fault: Fault) -> None:
    raise fault.get("exc")


def _delay(fault: Fault) -> None:
    time.sleep(fault.get("seconds"))


def _hold_lock(fault: Fault) -> None:
    end = time.monotonic() + fault.get("seconds")
    while time.monotonic() < end:
        sum(range(3_000_000))


def _out_of_memory(_fault: Fault) -> None:
    """Ask for more than a limit of this process allows, and lift the limit again."""
    import resource

    import numpy as np

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 28, hard))
    try:
        np.ones(1 << 30)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _garble(fault: Fault) -> None:
    """Write to the driver what no reply is."""
    from mixle.utils.parallel.transports.process import wire

    how = fault.get("how")
    if how == "half":
        _write_to_driver(bytes(wire.frame(wire.REPLY, [bytes(100)], shard=0, request=1)[0])[:20])
        os._exit(0)
    if how == "oversize":
        head = bytes(wire.frame(wire.REPLY, [], shard=0, request=1)[0])[: wire.HEAD_SIZE - 12] + _HUGE
        _write_to_driver(head + zlib.crc32(head).to_bytes(4, "little"))
    else:
        _write_to_driver(b"\x00" * 4096)
    time.sleep(10**7)


def _write_to_driver(data: bytes) -> None:
    for fd in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.write(fd, data)
        except OSError:
            continue


_STRIKES: dict[str, Any] = {
    "kill": _signal,
    "stop": _signal,
    "segfault": _signal,
    "exit": _exit,
    "hang": _hang,
    "raise_": _raise,
    "delay": _delay,
    "hold_lock": _hold_lock,
    "out_of_memory": _out_of_memory,
    "garble": _garble,
}
