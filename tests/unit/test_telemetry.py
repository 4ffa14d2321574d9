"""Events, the recorder in memory, the default recorder, the dashboard."""

import copy
import dataclasses
import json
import pickle

import numpy as np
import pytest

from mixle import telemetry
from mixle.telemetry import EVENT_KINDS, Event, Telemetry, dashboard, render_dashboard
from mixle.telemetry.plain import encode, plain


def test_kinds_are_the_documented_ones():
    assert set(EVENT_KINDS) == {
        "fit", "placement", "route", "escalation", "context", "reason", "pool_job", "drift", "em_round",
    }  # fmt: skip


def test_event_checks_kind_and_time_on_every_assignment():
    event = Event("fit")
    with pytest.raises(ValueError, match="unknown event kind 'fitt'"):
        event.kind = "fitt"
    with pytest.raises(ValueError, match="finite"):
        event.ts = float("nan")
    with pytest.raises(ValueError, match="finite"):
        Event("fit", ts=float("inf"))
    with pytest.raises(TypeError, match="number"):
        event.ts = "now"
    assert event == Event("fit")


def test_row_has_the_documented_order_and_shares_nothing():
    event = Event("route", {"a": [1]}, "b", {"c": 2}, {"run_id": "r"}, 3)
    row = event.as_row()
    assert list(row) == ["kind", "features", "choice", "outcome", "tags", "ts"]
    assert row == dataclasses.asdict(event)
    row["features"]["a"].append(2)
    assert event.features == {"a": [1]}


def test_recorder_copies_counts_and_keeps_time():
    t, features = Telemetry(), {"n": 1}
    first = t.record("fit", features=features)
    features["n"] = 2
    assert (first.features, first.ts) == ({"n": 1}, 1.0)
    assert t.record("fit", when=10.5).ts == 10.5
    assert t.record("fit").ts == 11.5
    assert t.record("fit", when=2.0).ts == 2.0
    assert t.record("fit").ts == 12.5
    assert len(t) == 5
    with pytest.raises(ValueError, match="unknown event kind"):
        t.record("nothing")
    assert len(t) == 5


def test_events_by_kind_and_run():
    t = Telemetry()
    for kind, run in (("fit", "a"), ("em_round", "a"), ("em_round", "b"), ("drift", None)):
        t.record(kind, tags={} if run is None else {"run_id": run}, features={"run": run})
    assert [event.features["run"] for event in t.events("em_round")] == ["a", "b"]
    assert [event.kind for event in t.events(run_id="a")] == ["fit", "em_round"]
    assert t.runs() == ("a", "b", None)
    assert t.training_rows("drift") == [({"run": None}, None, {})]


@pytest.mark.parametrize("flush_every", [0, -1, True, 1.5])
def test_flush_every_is_a_positive_integer(flush_every):
    with pytest.raises(ValueError, match="flush_every"):
        Telemetry(flush_every=flush_every)


def test_recorded_events_copy_and_pickle_without_their_recorder():
    event = Telemetry().record("fit", outcome={"x": [1]})
    for twin in (copy.copy(event), copy.deepcopy(event), pickle.loads(pickle.dumps(event))):
        assert twin == event
        assert type(twin.outcome) is dict
    assert type(event.as_row()["outcome"]) is dict


def test_default_recorder():
    telemetry.set_default_recorder(None)
    first = telemetry.get_default_recorder()
    assert telemetry.record("fit", choice="y") is next(first.events())
    assert telemetry.get_default_recorder() is first
    assert len(first) == 1
    recorder = Telemetry()
    telemetry.set_default_recorder(recorder)
    try:
        assert telemetry.record("fit", choice="x").choice == "x"
        assert telemetry.get_default_recorder() is recorder
        assert len(recorder) == 1
        with pytest.raises(TypeError, match="Telemetry"):
            telemetry.set_default_recorder("events.jsonl")
    finally:
        telemetry.set_default_recorder(None)
    assert len(telemetry.get_default_recorder()) == 0


def test_dashboard_counts():
    t = Telemetry()
    t.record("route", choice="a", outcome={"cost": 1.5, "latency": 2})
    t.record("route", choice="abstain", outcome={"cost": float("nan")})
    t.record("fit", outcome={"latency": True, "cost": 2})
    assert dashboard(t) == {
        "n_events": 3,
        "by_kind": {"route": 2, "fit": 1},
        "choices": {"a": 1, "abstain": 1},
        "cost_total": 3.5,
        "n_costed": 2,
        "latency_total": 2.0,
        "n_latency": 1,
        "n_unaggregatable": 2,
        "abstention_rate": 0.5,
    }
    assert "| by_kind | fit 1, route 2 |" in render_dashboard(t)
    assert dashboard(Telemetry())["abstention_rate"] is None
    assert "| abstention_rate | none |" in render_dashboard(Telemetry())


class Unspeakable:
    def __repr__(self):
        raise RuntimeError("no")


def test_plain_makes_strict_json_of_anything():
    deep = current = []
    for _ in range(2000):
        current.append([])
        current = current[0]
    value = {
        "np": np.float32(0.5),
        "int": np.int64(3),
        "array": np.arange(4).reshape(2, 2),
        "nan": [float("nan"), float("-inf")],
        ("a", 1): {3, 1, 2},
        np.int64(7): 1,
        "bad": Unspeakable(),
        "bytes": b"\xff",
        "surrogate": "\ud800",
        "deep": deep,
        "huge": 10**9999,
        "long": "x" * 1000,
        "object": bytes(500),
    }
    read = json.loads(encode(value), parse_constant=pytest.fail)
    assert read["np"] == 0.5
    assert read["int"] == 3
    assert read["array"] == [[0, 1], [2, 3]]
    assert read["nan"] == [None, None]
    assert read["['a', 1]"] == [1, 2, 3]
    assert read["7"] == 1
    assert read["bad"] == "<Unspeakable whose repr raised RuntimeError>"
    assert read["huge"] == "<an integer of 33216 bits>"
    assert read["long"] == "x" * 1000
    assert len(read["object"]) == 200
    assert plain({1: 2.0}) == {1: 2.0}
