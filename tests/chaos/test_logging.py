"""What is logged when something goes wrong: one record each, with the same attributes on all."""

import logging
import sys
from pathlib import Path

import audit_support as bad
import pytest

from mixle._log import listening, note
from mixle.stats import GaussianEstimator, MixtureEstimator
from mixle.telemetry import Telemetry
from mixle.utils.parallel.em_observability import RankRecord
from mixle.utils.parallel.observing.watchman import Watchman
from mixle.utils.parallel.planner import encoded_data
from mixle.utils.parallel.policies.audit import Audit
from mixle.utils.parallel.policies.retry import Retry

pytestmark = pytest.mark.chaos
ROWS = [float(i * i % 97) for i in range(240)]
EST = MixtureEstimator([GaussianEstimator()] * 2)


@pytest.fixture
def heard(caplog):
    caplog.set_level(logging.INFO, logger="mixle")
    yield lambda: caplog.get_records("call")
    for record in caplog.get_records("call"):
        assert {"worker", "shard", "round", "run_id"} <= record.__dict__.keys()


def pool(policies, workers=2, **more):
    return encoded_data(ROWS, EST, backend="mp", num_workers=workers, num_shards=4, policies=policies, **more)


def test_a_lost_worker_is_told_with_round_and_run(heard):
    with pool([Retry(2)], run_id="a") as handle:
        model = handle.pysp_seq_initialize(EST, 1, 1.0)
        handle.pysp_seq_estimate(EST, model)
        handle.transport.processes()[1].kill()
        handle.pysp_seq_estimate(EST, model)
    (lost,) = [record for record in heard() if record.getMessage().startswith("lost ")]
    assert (lost.name, lost.levelname, lost.worker, lost.kind, lost.exitcode) == (
        "mixle.pool",
        "WARNING",
        1,
        "signal",
        -9,
    )
    assert (lost.round, lost.run_id) == (1, "a")
    assert lost.filename == "retry.py"
    (recovered,) = [record for record in heard() if record.getMessage().startswith("recovered")]
    assert set(recovered.shards) == set(lost.shards)


def test_a_rank_that_is_given_up_is_an_error(heard):
    with pool([Retry(1)]) as handle:
        model = handle.pysp_seq_initialize(EST, 1, 1.0)
        handle.transport.processes()[0].kill()
        handle.pysp_seq_estimate(EST, model)
    (record,) = [record for record in heard() if record.levelname == "ERROR"]
    assert record.worker == 0
    assert "given up" in record.getMessage()


def test_a_mismatch_and_the_worker_that_goes_are_told(heard, tmp_path):
    file = tmp_path / "bad"
    file.write_text("")
    estimator = bad.Faulty(EST, file, bad.Flip(62))
    with pool([Retry(2), Audit(1.0)], workers=3) as handle:
        model = handle.pysp_seq_initialize(EST, 1, 1.0)
        file.write_text(str(handle.transport.processes()[2].pid))
        handle.pysp_seq_estimate(estimator, model)
    told = [record for record in heard() if record.name == "mixle.audit"]
    assert any(record.levelname == "ERROR" and record.suspects == (2,) and record.shard is not None for record in told)
    assert [record.worker for record in told if record.getMessage() == "worker 2 is retired"] == [2]


def records(rounds, slow):
    """Two ranks; rank 1 takes twice as long in the rounds of `slow`."""
    return [
        RankRecord(
            rank, t, (0.1 + 0.001 * ((3 * t + 5 * rank) % 7)) * (2.0 if rank == 1 and t in slow else 1.0), n_obs=9
        )
        for t in range(rounds)
        for rank in range(2)
    ]


def test_a_rank_that_becomes_slow_is_named_once_and_taken_back(heard):
    watchman = Watchman("b")
    made = records(30, range(10, 16))
    for rounds in range(1, 31):
        watchman.look(made[: 2 * rounds], last=True)
    named, back = heard()
    assert (named.levelname, named.worker, named.run_id, named.since) == ("WARNING", 1, "b", 10)
    assert named.round in {10, 11}
    assert (back.levelname, back.worker) == ("INFO", 1)
    assert 16 <= back.round < 30


def test_nobody_listening_costs_no_look(monkeypatch):
    monkeypatch.setattr("mixle._log.listening", lambda *_: False)
    monkeypatch.setattr("mixle.utils.parallel.observing.watchman.listening", lambda *_: False)
    watchman = Watchman()
    watchman.look(records(12, range(8, 12)), last=True)
    assert not watchman._slow


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_told_once(heard):
    telemetry = Telemetry("/dev/full")
    with pytest.warns(RuntimeWarning, match="No space left"):
        telemetry.record("fit")
    telemetry.record("fit")
    with pytest.raises(OSError, match="No space left"):
        telemetry.close()
    (record,) = heard()
    assert (record.name, record.levelname, record.path, record.errno) == ("mixle.telemetry", "WARNING", "/dev/full", 28)
    telemetry._new.clear()


def test_the_null_handler_is_there_once_and_is_nobody():
    for _ in range(2):
        note("info", "pool", "nothing")
    handlers = logging.getLogger("mixle").handlers
    assert [type(one) for one in handlers].count(logging.NullHandler) == 1
    root, saved = logging.getLogger(), logging.getLogger().handlers[:]
    root.handlers[:] = []
    try:
        assert not listening("rounds")
        root.addHandler(logging.StreamHandler(sys.stderr))
        assert listening("rounds")
        assert not listening("rounds", "debug")
    finally:
        root.handlers[:] = saved
