"""The documented names: formulas, bad input, round trips."""

import copy
import json
import math
import pickle
import statistics
import subprocess
import sys

import numpy as np
import pytest

from mixle.telemetry import Event, Telemetry
from mixle.utils.parallel import em_observability as obs
from mixle.utils.parallel.em_observability import (
    RankRecord,
    detect_stragglers,
    fit_report,
    imbalance_receipt,
    plan_rebalance_weights,
    record_rank_round,
    records_from_events,
)


def timed(*seconds, at=0, **numbers):
    return [RankRecord(rank, at, value, **numbers) for rank, value in enumerate(seconds)]


def test_facade_defines_nothing():
    assert all(getattr(obs, name).__module__ == obs.__name__ for name in obs.__all__)


def test_importing_it_loads_no_heavy_module():
    code = "import sys, numpy; old = set(sys.modules); import mixle.utils.parallel.em_observability"
    code += "; print(set(sys.modules) - old)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "mixle.utils.parallel.observing.records" in loaded
    for name in ("'json'", "'hashlib'", "'scipy'", "numpy.random'", "matplotlib", "logging"):
        assert name not in loaded


# Records


def test_record_has_the_documented_fields_and_defaults():
    record = RankRecord(1, 2, 0.5)
    assert (record.m_step_seconds, record.bytes_processed, record.accumulator_bytes, record.n_obs) == (0.0, 0, 0, 0)
    assert record.extra == {}
    assert record.extra is not RankRecord(1, 2, 0.5).extra
    assert RankRecord(1, 2, 0.5, 0.25).total_seconds == 0.75
    with pytest.raises(AttributeError):
        record.rank = 3


def test_features_are_flat_and_the_inverse_is_exact():
    record = RankRecord(1, 2, 0.1, 0.2, 3, 4, 5, {"host": "h", "shards": [1, 2]})
    features = record.as_features()
    assert features == {
        "rank": 1, "round": 2, "e_step_seconds": 0.1, "m_step_seconds": 0.2, "bytes_processed": 3,
        "accumulator_bytes": 4, "n_obs": 5, "total_seconds": 0.1 + 0.2, "host": "h", "shards": [1, 2],
    }  # fmt: skip
    assert RankRecord.from_features(features) == record
    assert RankRecord.from_features(json.loads(json.dumps(features))) == record
    assert RankRecord.from_features({"rank": 0, "round": 0}) == RankRecord(0, 0, 0.0)
    with pytest.raises(ValueError, match="round"):
        RankRecord.from_features({"rank": 0})


def test_numpy_scalars_become_plain_numbers():
    record = RankRecord(np.int64(1), np.uint8(2), np.float32(0.5), n_obs=np.int32(7))
    assert record == RankRecord(1, 2, 0.5, n_obs=7)
    assert (type(record.rank), type(record.e_step_seconds)) == (int, float)


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ({"rank": -1}, ValueError), ({"rank": 1.0}, TypeError), ({"rank": True}, TypeError),
        ({"round": "1"}, TypeError),
        ({"e_step_seconds": math.nan}, ValueError), ({"e_step_seconds": -0.1}, ValueError),
        ({"e_step_seconds": math.inf}, ValueError), ({"m_step_seconds": "1"}, TypeError),
        ({"m_step_seconds": None}, TypeError), ({"e_step_seconds": True}, TypeError), ({"n_obs": -1}, ValueError),
        ({"e_step_seconds": np.ones(2)}, TypeError), ({"extra": {"rank": 1}}, ValueError),
        ({"extra": {"total_seconds": 1}}, ValueError), ({"extra": 3}, TypeError),
    ],
)  # fmt: skip
def test_bad_measurements_are_refused_by_name(bad, error):
    name = next(iter(bad))
    with pytest.raises(error, match=name if name != "extra" else "extra"):
        RankRecord(**{"rank": 0, "round": 0, "e_step_seconds": 1.0, **bad})


def test_record_rank_round_appends_one_event():
    t = Telemetry()
    event = record_rank_round(t, rank=3, round=1, e_step_seconds=0.5, n_obs=7, run_id="a", extra={"host": "h"})
    assert list(t.events()) == [event]
    assert (event.kind, event.choice, event.tags) == ("em_round", "rank=3", {"run_id": "a"})
    assert event.features == RankRecord(3, 1, 0.5, n_obs=7, extra={"host": "h"}).as_features()
    assert record_rank_round(t, rank=0, round=0, e_step_seconds=0).tags == {}
    with pytest.raises(ValueError, match="e_step_seconds"):
        record_rank_round(t, rank=0, round=0, e_step_seconds=-1)
    assert len(t) == 2


def test_records_come_back_from_events_also_through_a_file(tmp_path):
    records = [RankRecord(r, t, 0.1 * r + t, n_obs=r, extra={"shards": [r]}) for t in range(3) for r in range(2)]
    with Telemetry(tmp_path / "run.jsonl") as t:
        t.record("fit")
        for record in records:
            record_rank_round(
                t, rank=record.rank, round=record.round, e_step_seconds=record.e_step_seconds, n_obs=record.n_obs,
                extra=record.extra,
            )  # fmt: skip
        assert records_from_events(list(t.events())) == records
    assert records_from_events(list(Telemetry(tmp_path / "run.jsonl").events())) == records


def test_event_that_is_no_receipt_is_named():
    with pytest.raises(ValueError, match="needs rank and round") as caught:
        records_from_events([Event("fit"), Event("em_round", ts=7.0)])
    assert "event 1 " in caught.value.__notes__[0]


def test_run_id_keeps_fits_apart():
    t = Telemetry()
    for run, seconds in (("a", 1.0), ("b", 3.0)):
        for rank in range(2):
            record_rank_round(t, rank=rank, round=0, e_step_seconds=seconds, run_id=run)
    both = records_from_events(t.events())
    assert [record.run_id for record in both] == ["a", "a", "b", "b"]
    for analyse in (detect_stragglers, imbalance_receipt, plan_rebalance_weights, fit_report, obs.diagnose):
        with pytest.raises(ValueError, match=r"2 runs \('a', 'b'\).*run_id='b'"):
            analyse(both)
    assert fit_report(records_from_events(t.events(run_id="b"))).total_seconds == 6.0


# Stragglers


def test_straggler_formulas():
    seconds = [1.0, 1.2, 0.9, 1.1, 4.0]
    report = detect_stragglers(timed(*seconds))
    median = statistics.median(seconds)
    mad = statistics.median(abs(value - median) for value in seconds)
    assert (report.median_seconds, report.mad_seconds) == (median, mad)
    assert report.rank_seconds == dict(enumerate(seconds))
    assert report.ratios == {rank: value / median for rank, value in enumerate(seconds)}
    assert report.z_scores == {rank: (value - median) / (1.4826 * mad) for rank, value in enumerate(seconds)}
    assert report.slow_ranks == (4,)
    assert report.has_stragglers
    assert (report.threshold_ratio, report.z_threshold) == (1.5, 3.0)


def test_one_straggler_does_not_inflate_the_scale_it_is_measured_against():
    """With mean and standard deviation the z of one among five cannot exceed 2."""
    assert detect_stragglers(timed(1.0, 1.01, 0.99, 1.0, 1e6)).slow_ranks == (4,)


def test_both_conditions_are_needed():
    assert detect_stragglers(timed(1.0, 1.0001, 0.9999, 1.0002, 1.4)).slow_ranks == ()  # far in z, not in ratio
    assert detect_stragglers(timed(1.0, 2.0, 0.5, 1.5, 2.5)).slow_ranks == ()  # far in ratio, not in z
    assert detect_stragglers(timed(1.0, 1.01, 0.99, 1.4), threshold_ratio=1.3).slow_ranks == (3,)
    assert detect_stragglers(timed(1.0, 2.0, 0.5, 1.5, 2.5), z_threshold=1.0).slow_ranks == (4,)


def test_mad_of_zero_leaves_the_ratio():
    report = detect_stragglers(timed(1.0, 1.0, 1.0, 1.5, 1.4))
    assert report.mad_seconds == 0.0
    assert report.z_scores == {0: 0.0, 1: 0.0, 2: 0.0, 3: math.inf, 4: math.inf}
    assert report.slow_ranks == (3,)


def test_zero_seconds_never_raise():
    report = detect_stragglers(timed(0.0, 0.0, 0.0, 0.001))
    assert report.ratios == {0: 0.0, 1: 0.0, 2: 0.0, 3: math.inf}
    assert report.slow_ranks == (3,)
    assert detect_stragglers(timed(0.0)).slow_ranks == ()


def test_round_is_the_last_one_unless_asked_for():
    records = timed(1.0, 1.0, 9.0, at=4) + timed(1.0, 1.0, 1.0, at=7)
    assert detect_stragglers(records).round == 7
    assert detect_stragglers(records).slow_ranks == ()
    assert detect_stragglers(records, round=4).slow_ranks == (2,)
    empty = detect_stragglers(records, round=5)
    assert (empty.round, empty.rank_seconds, empty.median_seconds, empty.slow_ranks) == (5, {}, 0.0, ())
    assert detect_stragglers([]).round == 0


@pytest.mark.parametrize("wrong", [{"threshold_ratio": 0.99}, {"threshold_ratio": math.nan}, {"z_threshold": math.nan}])
def test_thresholds_are_checked(wrong):
    for analyse in (detect_stragglers, fit_report):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            analyse([], **wrong)


def test_what_is_no_record_is_refused():
    for analyse in (detect_stragglers, imbalance_receipt, plan_rebalance_weights, fit_report, obs.diagnose):
        with pytest.raises(TypeError, match=r"records\[1\] is a dict"):
            analyse([RankRecord(0, 0, 1.0), {"rank": 1}])


def test_records_of_one_rank_and_round_add_up():
    halves = [RankRecord(0, 0, 0.5, bytes_processed=5, n_obs=1, extra={"shards": [0]})] * 2
    whole = timed(1.0, 1.0, 1.0, bytes_processed=10)
    records = whole[1:] + halves
    assert detect_stragglers(records).rank_seconds == {0: 1.0, 1: 1.0, 2: 1.0}
    assert imbalance_receipt(records).bytes_per_rank == {0: 10, 1: 10, 2: 10}
    assert plan_rebalance_weights(records) == {0: 1.0, 1: 1.0, 2: 1.0}
    assert fit_report(records).total_seconds == 3.0


# Imbalance


@pytest.mark.parametrize(("ranks", "planted"), [(2, 10), (4, 10), (8, 3), (5, 1)])
def test_skew_algebra(ranks, planted):
    sizes = [planted * 100] + [100] * (ranks - 1)
    receipt = imbalance_receipt([RankRecord(r, 0, 1.0, bytes_processed=s, n_obs=s // 10) for r, s in enumerate(sizes)])
    assert receipt.skew_by_rank[0] == pytest.approx(planted * ranks / (ranks - 1 + planted), rel=1e-15)
    assert receipt.skew_by_rank[1] == pytest.approx(ranks / (ranks - 1 + planted), rel=1e-15)
    assert receipt.max_bytes_ratio == max(receipt.skew_by_rank.values())
    assert receipt.mean_bytes == statistics.fmean(sizes)
    assert receipt.bytes_per_rank == dict(enumerate(sizes))
    assert receipt.n_obs_per_rank == {rank: size // 10 for rank, size in enumerate(sizes)}


def test_no_bytes_no_skew():
    receipt = imbalance_receipt(timed(1.0, 2.0))
    assert (receipt.mean_bytes, receipt.max_bytes_ratio, receipt.skew_by_rank) == (0.0, 0.0, {0: 0.0, 1: 0.0})
    assert imbalance_receipt([]).bytes_per_rank == {}


# Weights


def test_weights_are_inverse_times_that_sum_to_the_rank_count():
    weights = plan_rebalance_weights(timed(1.0, 2.0, 4.0))
    assert sum(weights.values()) == pytest.approx(3.0)
    assert weights[0] / weights[1] == pytest.approx(2.0)
    assert weights[1] / weights[2] == pytest.approx(2.0)


def test_twice_as_slow_gets_half_the_weight_among_many():
    weights = plan_rebalance_weights(timed(*[1.0] * 999, 2.0))
    assert weights[999] == pytest.approx(0.5, abs=1e-3)


def test_weights_survive_zero_and_tiny_seconds():
    assert plan_rebalance_weights([]) == {}
    assert plan_rebalance_weights(timed(0.0, 0.0)) == {0: 1.0, 1: 1.0}
    assert plan_rebalance_weights(timed(0.0, 1.0, 2.0)) == pytest.approx({0: 1.2, 1: 1.2, 2: 0.6})
    tiny = plan_rebalance_weights(timed(5e-324, 1e308))
    assert all(math.isfinite(value) for value in tiny.values())


# Report


def test_report_totals_and_text():
    records = timed(1.0, 1.0, 1.0, 4.0, at=1, bytes_processed=100, n_obs=10)
    records += timed(1.0, 1.0, 1.0, 1.0, at=0, bytes_processed=50, n_obs=10)
    report = fit_report(records)
    assert (report.n_rounds, report.n_ranks, report.rounds) == (2, 4, (0, 1))
    assert (report.total_seconds, report.total_bytes, report.total_obs) == (11.0, 600, 80)
    assert (report.worst_straggler_ratio, report.worst_imbalance_ratio) == (4.0, 1.0)
    assert report.any_stragglers
    assert report.stragglers_by_round[1] == detect_stragglers(records, round=1)
    assert report.imbalance_by_round[0] == imbalance_receipt(records, round=0)
    assert report.render().splitlines() == [
        "fit_report: 4 ranks x 2 rounds, 11.000s total, 600 bytes, 80 obs",
        "  round 0: median=1.0000s max_ratio=1.00x imbalance_ratio=1.00x [ok]",
        "  round 1: median=1.0000s max_ratio=4.00x imbalance_ratio=1.00x [STRAGGLERS=(3,)]",
    ]


def test_report_of_nothing_is_zeros():
    report = fit_report([])
    assert report.render() == "fit_report: 0 ranks x 0 rounds, 0.000s total, 0 bytes, 0 obs"
    assert report.as_dict()["by_round"] == {}
    assert (report.worst_straggler_ratio, report.worst_imbalance_ratio, report.any_stragglers) == (0.0, 0.0, False)


def test_report_in_the_middle_of_a_fit():
    records = timed(1.0, 1.0, at=0) + timed(2.0, at=1)
    assert fit_report(records).n_rounds == 2
    assert fit_report(records[:1]).n_ranks == 1


def test_as_dict_is_strict_json_and_names_the_documented_keys():
    report = fit_report(timed(0.0, 0.0, 0.0, 2.0))
    found = report.as_dict()
    assert set(found) == {
        "n_rounds", "n_ranks", "total_seconds", "total_bytes", "total_obs", "rounds", "worst_straggler_ratio",
        "worst_imbalance_ratio", "any_stragglers", "by_round",
    }  # fmt: skip
    assert found["worst_straggler_ratio"] is None
    assert report.worst_straggler_ratio == math.inf
    assert set(found["by_round"][0]) == {"slow_ranks", "rank_seconds", "imbalance_max_ratio", "skew_by_rank"}
    json.dumps(found, allow_nan=False)


def test_reports_copy_and_pickle():
    records = timed(1.0, 2.0, 3.0)
    things = [
        *records,
        detect_stragglers(records),
        imbalance_receipt(records),
        fit_report(records),
        obs.diagnose(records),
    ]
    for thing in things:
        for twin in (copy.copy(thing), copy.deepcopy(thing), pickle.loads(pickle.dumps(thing))):
            assert twin == thing
            assert type(twin) is type(thing)
    assert type(fit_report(records).stragglers_by_round) is dict
