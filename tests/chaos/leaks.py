"""What every chaos test of a policy must hold: it ends in time and leaves nothing behind."""

import gc
import os
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

DEADLINE_S = 30.0
FULL = os.environ.get("MIXLE_CHAOS") == "full"


def clock(signum, frame):
    raise AssertionError(f"it hung: {DEADLINE_S:g} s are over")


def family():
    return {child.pid for child in psutil.Process().children(recursive=True)}


def count_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def segments():
    return set(Path("/dev/shm").iterdir())


@pytest.fixture(autouse=True)
def nothing_hangs_and_nothing_is_left_behind():
    gc.collect()
    before = family(), count_descriptors(), threading.active_count(), segments()
    previous = signal.signal(signal.SIGALRM, clock)
    signal.setitimer(signal.ITIMER_REAL, DEADLINE_S * (60 if FULL else 1))
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, previous)
    gc.collect()
    end = time.monotonic() + 5.0
    while not family() <= before[0]:
        assert time.monotonic() < end, "a process is left behind"
        time.sleep(0.002)
    assert count_descriptors() <= before[1]
    assert threading.active_count() == before[2]
    assert segments() <= before[3]
