"""What the coverage session adds to each process: workers have the time to write down what they ran.

A pool that is closed hangs up and kills its workers at once. Those are at their end by then, but a measured one writes
a file first. So the launcher of workers waits a little before it kills the first of them.
"""

import select
import signal
import sys
import time

PATIENCE_S = 0.25
#: When the launcher no longer waits.
END: list[float] = []


def patient(fd, number, *rest):
    if number == signal.SIGKILL:
        END.append(time.monotonic() + PATIENCE_S)
        select.select([fd], [], [], max(0.0, END[0] - time.monotonic()))
    return kill(fd, number, *rest)


if hasattr(signal, "pidfd_send_signal") and any("launcher import main" in word for word in sys.orig_argv):
    kill, signal.pidfd_send_signal = signal.pidfd_send_signal, patient
