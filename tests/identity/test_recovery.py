"""Same bits through losses: every model, fitted while workers are killed, against a clean fit in one process."""

import numpy as np
import pytest
from tests.bits import bits
from tests.models import MODELS

from mixle.stats import MixtureEstimator
from mixle.utils.parallel.planner import encoded_data
from mixle.utils.parallel.resilient_em import ResilientMPEncodedData

pytestmark = [pytest.mark.identity, pytest.mark.chaos]

NAMES = [*MODELS, *(f"mixture of {name}" for name in list(MODELS)[::4])]


def trace(handle, estimator, strike):
    """Return everything a short fit says, as bits; `strike` is called before each round."""
    strike(handle, 0)
    model = handle.pysp_seq_initialize(estimator, np.random.RandomState(5), 0.5)
    said = [bits(model.to_dict())]
    for turn in range(1, 4):
        strike(handle, turn)
        step = handle.estep(estimator, model)
        said.append((step.nobs, step.log_density.hex(), step.left_out, bits(step.value)))
        model = handle.m_step(estimator, step, model)
    strike(handle, 4)
    said.append(bits(handle.pysp_seq_log_density_sum(model)))
    return said, model.digest()


def leave_alone(handle, turn):
    """Let the round be."""


def kill_one(handle, turn):
    """Kill a worker: between rounds, or at the rendezvous."""
    victim = turn % 3
    if turn in {0, 4}:
        handle._procs[victim].kill()
        handle._procs[victim].join()
    else:
        handle.arm_kill(lambda worker, process: process.kill() if worker == victim else None)


@pytest.mark.parametrize("name", NAMES)
def test_a_fit_that_loses_a_worker_in_every_round_has_the_bits_of_a_clean_one(name):
    model = MODELS[name if name in MODELS else name.removeprefix("mixture of ")]()
    rows, estimator = list(model.rows), model.estimator
    if name not in MODELS:
        estimator = MixtureEstimator([estimator] * 2)
    clean = trace(encoded_data(rows, estimator, num_shards=5, sub_chunks=2), estimator, leave_alone)
    with ResilientMPEncodedData(rows, estimator, num_workers=3, sub_chunks=2, max_retries=9, num_shards=5) as handle:
        assert trace(handle, estimator, kill_one) == clean
        assert sum(handle._failures.values()) == 5
