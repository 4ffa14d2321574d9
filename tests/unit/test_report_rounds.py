"""The log of rounds: phases that add up, whatever the transport's stamps are worth."""

import os
import time

import pytest

from mixle.stats import GaussianEstimator
from mixle.telemetry import Telemetry
from mixle.utils.parallel.em_observability import records_from_events
from mixle.utils.parallel.folding.tasks import Accumulate, Result
from mixle.utils.parallel.observing import rounds
from mixle.utils.parallel.observing.rounds import RoundLog
from mixle.utils.parallel.planner import encoded_data


def result(shard, worker, started, seconds, **facts):
    return Result(shard, 10, 10.0, None, -1.0, {"worker": worker, "started": started, "seconds": seconds, **facts})


def run_round(log, make, m_step=0.25):
    """Run a round whose results ``make(now)`` returns, fold and estimate."""

    def run(task):
        return iter(make(time.perf_counter()))

    for _ in log.watch(run, None):
        pass
    log.folded()
    log.estimated(m_step)


def phases(record):
    return record.extra["phases"]


def test_a_real_transport_leaves_one_record_with_phases_that_add_up():
    estimator, log = GaussianEstimator(), RoundLog()
    transport = encoded_data([float(i) for i in range(20_000)], estimator, num_shards=4).transport
    start = time.perf_counter()
    results = list(log.watch(transport.map, Accumulate(estimator, None)))
    log.folded()
    wall = time.perf_counter() - start
    assert len(results) == 4
    log.estimated(0.5)
    (record,) = log.records
    assert (record.rank, record.round, record.n_obs, record.extra["shards"]) == (0, 0, 20_000, [0, 1, 2, 3])
    assert record.m_step_seconds == 0.0
    assert record.e_step_seconds == phases(record)["E-step"] > 0.0
    assert sum(phases(record).values()) == pytest.approx(wall + 0.5, abs=2e-4, rel=0.01)
    assert record.extra["cpu_seconds"] > 0.0
    assert record.extra["host"]
    assert record.extra["build"].startswith("numpy ")


def test_overlapping_tasks_of_a_rank_count_once():
    log = RoundLog()

    def run(task):
        start = time.perf_counter()
        while time.perf_counter() < start + 0.003:
            pass
        yield result(0, 0, start, 0.002)
        yield result(1, 0, start + 0.001, 0.0015)

    list(log.watch(run, None))
    log.folded()
    assert phases(log.records[0])["E-step"] == pytest.approx(0.0025, abs=1e-6)


def test_stamps_of_another_machine_are_not_used():
    log = RoundLog()
    run_round(log, lambda now: [result(0, 3, now + 5000.0, 0.0), result(1, 4, float("nan"), 9.0)])
    for record in log.records:
        assert phases(record)["queue"] == 0.0
        assert all(seconds >= 0.0 for seconds in phases(record).values())
        assert record.e_step_seconds < 1.0  # no longer than the round, whatever the stamp says


def test_a_clock_that_goes_back_leaves_no_negative_time_and_a_file_that_reads_back(tmp_path, monkeypatch):
    path, stamps = tmp_path / "run.jsonl", iter(range(1000, 0, -1))
    with Telemetry(path) as telemetry:
        log = RoundLog(telemetry, "a")
        monkeypatch.setattr(time, "perf_counter", lambda: float(next(stamps)))
        run_round(log, lambda now: [result(0, 0, now, -1.0), result(1, 1, now, 1.0)], m_step=-0.25)
        monkeypatch.undo()
        log.close()
    records = records_from_events(Telemetry(path).events())
    assert [record.rank for record in records] == [0, 1]
    assert all(seconds == 0.0 for record in records for seconds in [record.e_step_seconds, *phases(record).values()])


def test_ranks_faults_memory_bytes_and_score():
    log = RoundLog(run_id="r")
    run_round(
        log,
        lambda now: [
            result(2, 1, now, 0.0, major_faults=1, peak_memory_bytes=5, bytes=100, payload_bytes=7, build="b"),
            result(0, 0, now, 0.0, host="other"),
            result(1, 1, now, 0.0, major_faults=2, peak_memory_bytes=9, bytes=50, payload_bytes=8, build="a"),
        ],
    )
    first, second = log.records
    assert (first.rank, first.extra["host"], first.n_obs) == (0, "other", 10)
    assert (second.rank, second.n_obs, second.bytes_processed, second.accumulator_bytes) == (1, 20, 150, 15)
    assert (second.extra["shards"], second.extra["major_faults"], second.extra["peak_memory_bytes"]) == ([1, 2], 3, 9)
    assert second.extra["build"] == "a, b"
    assert first.extra["log_density"] == -3.0
    assert first.run_id == second.run_id == "r"


def test_rounds_are_counted_and_one_that_failed_leaves_nothing():
    log = RoundLog()
    run_round(log, lambda now: [result(0, 0, now, 0.0)])

    def fails(task):
        yield result(0, 0, time.perf_counter(), 0.0)
        raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        list(log.watch(fails, None))
    log.estimated(1.0)
    run_round(log, lambda now: [result(0, 0, now, 0.0)])
    assert [record.round for record in log.records] == [0, 1]


def test_a_round_without_m_step_is_there_at_once():
    log = RoundLog()
    list(log.watch(lambda task: [result(0, 0, time.perf_counter(), 0.0)], None))
    assert log.records == []
    log.folded()
    assert len(log.records) == 1
    assert phases(log.records[0])["M-step"] == 0.0


def lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_records_are_sent_while_a_later_round_runs_and_at_close(tmp_path, monkeypatch):
    monkeypatch.setattr(rounds, "PAUSE", 0.0)
    telemetry = Telemetry(tmp_path / "run.jsonl")
    log = RoundLog(telemetry, "r")
    for sent in range(3):
        run_round(log, lambda now: [result(0, 0, now, 0.0)])
        assert lines(telemetry.path) == sent
    log.close()
    log.close()
    assert lines(telemetry.path) == 3
    assert records_from_events(telemetry.events(run_id="r")) == log.records
    run_round(log, lambda now: [result(0, 0, now, 0.0)])
    del log
    assert lines(telemetry.path) == 4


def test_short_rounds_share_a_write_and_whoever_reads_sees_them_all(tmp_path, monkeypatch):
    monkeypatch.setattr(rounds, "PAUSE", 1e9)
    telemetry = Telemetry(tmp_path / "run.jsonl")
    log = RoundLog(telemetry, "r")
    for _ in range(9):
        run_round(log, lambda now: [result(0, 0, now, 0.0)])
    assert lines(telemetry.path) == 1  # the first is sent at once: nobody waits to see that something is written
    assert len(telemetry) == 9
    run_round(log, lambda now: [result(0, 0, now, 0.0)])
    assert [record.round for record in records_from_events(telemetry.events())] == list(range(10))
    run_round(log, lambda now: [result(0, 0, now, 0.0)])
    telemetry.record("fit")
    assert [event.kind for event in telemetry.events()] == ["em_round"] * 11 + ["fit"]
    run_round(log, lambda now: [result(0, 0, now, 0.0)])
    telemetry.close()
    assert lines(telemetry.path) == 13


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
def test_a_forked_child_leaves_the_records_to_its_parent(tmp_path):
    with Telemetry(tmp_path / "run.jsonl") as telemetry:
        log = RoundLog(telemetry)
        run_round(log, lambda now: [result(0, 0, now, 0.0)])
        child = os.fork()
        if child == 0:
            log.close()
            telemetry.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert not telemetry.path.exists()
    assert lines(telemetry.path) == 1


def test_throttling_is_read_from_the_control_group(tmp_path, monkeypatch):
    stat = tmp_path / "cpu.stat"
    monkeypatch.setattr(rounds, "_CPU_STAT", stat)
    stat.write_text("usage_usec 5\nthrottled_usec 1000000\n")
    log = RoundLog()
    stat.write_text("usage_usec 5\nthrottled_usec 1500000\n")
    run_round(log, lambda now: [result(0, 0, now, 0.0), result(1, 1, now, 0.0)])
    assert [record.extra["throttled_seconds"] for record in log.records] == [0.25, 0.25]
    stat.write_text("usage_usec 5\n")
    assert rounds._throttled() is None


@pytest.mark.parametrize("heard", [True, False])
def test_records_are_made_for_a_log_only_if_somebody_listens(monkeypatch, heard):
    monkeypatch.setattr(rounds, "listening", lambda area: heard)
    log = RoundLog()
    run_round(log, lambda now: [result(0, 0, now, 0.0)])
    log.tell()
    assert len(log._records) == int(heard)
    log.close()
    assert len(log._records) == int(heard)
    assert len(log.records) == 1
