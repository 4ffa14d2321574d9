"""A worker that is really slow, stopped and continued in a duty cycle, is named with its cause."""

import logging
import os
import signal
import threading
import time

import numpy as np
import pytest
from leaks import nothing_hangs_and_nothing_is_left_behind  # noqa: F401 - a fixture

from mixle.stats import GaussianEstimator, MixtureEstimator
from mixle.utils.parallel.em_observability import diagnose
from mixle.utils.parallel.planner import encoded_data

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs SIGSTOP"),
]
ROWS = np.tile(np.concatenate([np.random.default_rng(k).normal(5 * k, 1 + k, 4000) for k in (0, 1)]), 40)
ESTIMATOR = MixtureEstimator([GaussianEstimator()] * 8)


class DutyCycle:
    """Stops a process seven times as long as it lets it run, however late a busy machine wakes this thread."""

    def __init__(self, pid):
        self.pid, self.over = pid, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        began = time.monotonic()
        while not self.over.wait(0.002):
            os.kill(self.pid, signal.SIGSTOP)
            self.over.wait(7.0 * (time.monotonic() - began))
            began = time.monotonic()
            os.kill(self.pid, signal.SIGCONT)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def test_a_worker_stopped_most_of_the_time_is_named_with_its_cause(caplog):
    """Evidence may take longer on a busy machine, which slows the other rank too."""
    caplog.set_level(logging.WARNING, logger="mixle.rounds")
    with encoded_data(ROWS, ESTIMATOR, backend="mp", num_workers=2, num_shards=4, run_id="slow") as data:
        model = data.pysp_seq_initialize(ESTIMATOR, np.random.RandomState(0), 0.1)
        for _ in range(8):
            model = data.pysp_seq_estimate(ESTIMATOR, model)
        with DutyCycle(data.transport.process(1).pid):
            for _ in range(25):
                model = data.pysp_seq_estimate(ESTIMATOR, model)
                found = diagnose(data.records)
                if found.slow_ranks == (1,):
                    break
        assert found.slow_ranks == (1,)
        assert found.speeds[1] < 0.7
        assert "waits for a core" in found.causes[1]
        assert "Rank 1" in data.report()._repr_html_()
    told = [record for record in caplog.get_records("call") if record.name == "mixle.rounds"]
    assert [record.worker for record in told if "is slow" in record.getMessage()][-1:] == [1]
    assert told[-1].run_id == "slow"
