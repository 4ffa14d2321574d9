"""What the coverage session adds to each process: workers have the time to write down what they ran.

A pool that is closed hangs up and kills its workers at once. Those are at their end by then, but a measured one writes
a file first. So the launcher of workers waits for each of them before it kills.
"""

import select
import signal
import sys

PATIENCE_S = 0.5


def patient(fd, number, *rest):
    if number == signal.SIGKILL:
        select.select([fd], [], [], PATIENCE_S)
    return kill(fd, number, *rest)


if hasattr(signal, "pidfd_send_signal") and any("launcher import main" in word for word in sys.orig_argv):
    kill, signal.pidfd_send_signal = signal.pidfd_send_signal, patient
