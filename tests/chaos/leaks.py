"""What every chaos test of a policy must hold: it ends in time and leaves nothing behind."""

import os
import signal

import pytest

from mixle.testing.leaks import Census, private_temporary_folder

DEADLINE_S = 30.0
FULL = os.environ.get("MIXLE_CHAOS") == "full"


def clock(signum, frame):
    raise AssertionError(f"it hung: {DEADLINE_S:g} s are over")


@pytest.fixture(autouse=True)
def nothing_hangs_and_nothing_is_left_behind(tmp_path_factory):
    tmp_path_factory.getbasetemp()
    with private_temporary_folder() as folder:
        census = Census(folder)
        previous = signal.signal(signal.SIGALRM, clock)
        signal.setitimer(signal.ITIMER_REAL, DEADLINE_S * (60 if FULL else 1))
        yield
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        census.check()
