"""Laws of receipts, analysers and telemetry over any input."""

import json
import math
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from mixle.telemetry import EVENT_KINDS, Telemetry
from mixle.utils.parallel.em_observability import (
    RankRecord,
    chrome_trace,
    detect_stragglers,
    diagnose,
    fit_report,
    imbalance_receipt,
    plan_rebalance_weights,
    record_rank_round,
    records_from_events,
)
from mixle.utils.parallel.observing.records import MEASUREMENTS

durations = st.one_of(st.just(0.0), st.floats(0.0, 1e6), st.floats(5e-324, 1e-300))
counts = st.integers(0, 2**60)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
names = st.text(min_size=1).filter(lambda name: name not in MEASUREMENTS)
receipts = st.builds(
    RankRecord, st.integers(0, 5), st.integers(0, 4), durations, durations, counts, counts, counts,
    st.dictionaries(names, json_values, max_size=3),
)  # fmt: skip
tables = st.lists(receipts, max_size=20)


@settings(max_examples=50)
@given(receipts)
def test_from_features_inverts_as_features(record):
    assert RankRecord.from_features(record.as_features()) == record


@settings(max_examples=30)
@given(tables)
def test_records_survive_telemetry_and_its_file(records):
    with tempfile.TemporaryDirectory() as folder:
        with Telemetry(Path(folder) / "t.jsonl", flush_every=7) as t:
            for record in records:
                fields = {name: getattr(record, name) for name in MEASUREMENTS if name != "total_seconds"}
                record_rank_round(t, **fields, extra=record.extra)
        assert records_from_events(t.events()) == records
        assert records_from_events(Telemetry(Path(folder) / "t.jsonl").events()) == records


@settings(max_examples=50)
@given(tables, st.randoms(use_true_random=False))
def test_reports_are_strict_json_and_do_not_depend_on_order(records, random):
    report, verdict = fit_report(records), diagnose(records)
    json.dumps([report.as_dict(), verdict.as_dict(), chrome_trace(records)], allow_nan=False)
    shuffled = random.sample(records, len(records))
    if len({(record.rank, record.round) for record in records}) == len(records):
        assert fit_report(shuffled).as_dict() == report.as_dict()
        assert diagnose(shuffled) == verdict
    assert report.total_seconds == math.fsum(record.total_seconds for record in records)
    assert report.total_bytes == sum(record.bytes_processed for record in records)


@settings(max_examples=25)
@given(tables)
def test_page_can_always_be_made(records):
    assert len(fit_report(records).to_html().encode()) <= 200_000


@settings(max_examples=50)
@given(tables)
def test_weights_are_shares_of_the_rank_count(records):
    weights = plan_rebalance_weights(records)
    assert math.isclose(sum(weights.values()), len(weights), rel_tol=1e-9)
    seconds = detect_stragglers(records).rank_seconds
    assert weights.keys() == seconds.keys()
    for one in weights:
        for other in weights:
            if seconds[one] < seconds[other]:
                assert weights[one] >= weights[other]


@settings(max_examples=50)
@given(tables)
def test_skews_average_one(records):
    receipt = imbalance_receipt(records)
    if receipt.mean_bytes:
        assert math.isclose(math.fsum(receipt.skew_by_rank.values()) / len(receipt.skew_by_rank), 1.0, rel_tol=1e-9)


@settings(max_examples=50)
@given(tables, st.floats(1e-3, 1e3))
def test_verdict_does_not_depend_on_the_unit_of_time(records, unit):
    scaled = [
        RankRecord(r.rank, r.round, r.e_step_seconds * unit, n_obs=r.n_obs, bytes_processed=r.bytes_processed)
        for r in records
        if r.e_step_seconds == 0.0 or r.e_step_seconds > 1e-200
    ]
    plain = [
        RankRecord(r.rank, r.round, r.e_step_seconds, n_obs=r.n_obs, bytes_processed=r.bytes_processed)
        for r in records
        if r.e_step_seconds == 0.0 or r.e_step_seconds > 1e-200
    ]
    assert diagnose(scaled).slow_ranks == diagnose(plain).slow_ranks


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from(EVENT_KINDS), st.dictionaries(st.text(), json_values, max_size=3)), max_size=8),
    st.data(),
)
def test_edits_are_there_after_reload(rows, data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.jsonl"
        with Telemetry(path) as t:
            events = [t.record(kind, outcome=outcome) for kind, outcome in rows]
            for event in events:
                if data.draw(st.booleans()):
                    event.outcome[data.draw(st.text())] = data.draw(json_values)
        assert list(Telemetry(path).events()) == events
