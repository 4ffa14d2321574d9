"""The trace: Chrome's format, phases end to end, clocks that go back."""

import json

import numpy as np

from mixle.utils.parallel.em_observability import RankRecord, chrome_trace, write_chrome_trace
from mixle.utils.parallel.observing.trace import spans

PHASES = {
    "queue": 1.0,
    "decode": 0.5,
    "E-step": 2.0,
    "encode": 0.25,
    "wire": 0.25,
    "wait": 3.0,
    "fold": 0.5,
    "M-step": 0.5,
}


def complete(trace):
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def test_phases_stand_end_to_end_and_idle_ones_are_gaps():
    events = complete(chrome_trace([RankRecord(3, 0, 2.0, extra={"phases": PHASES})]))
    assert [(e["name"], e["ts"] / 1e6, e["dur"] / 1e6) for e in events] == [
        ("decode", 1.0, 0.5), ("E-step", 1.5, 2.0), ("encode", 3.5, 0.25), ("wire", 3.75, 0.25), ("fold", 7.0, 0.5),
        ("M-step", 7.5, 0.5),
    ]  # fmt: skip
    assert {(e["pid"], e["tid"], e["cat"]) for e in events} == {(0, 3, "em")}


def test_rounds_start_when_their_records_say_and_never_go_back():
    records = [RankRecord(0, t, 1.0, extra={"started": start}) for t, start in enumerate([100.0, 105.0, 50.0, 110.0])]
    assert [start for _, _, start, _ in spans(records)] == [0.0, 5.0, 6.0, 10.0]


def test_rounds_that_do_not_say_follow_each_other():
    records = [RankRecord(r, t, 1.0 + r) for t in range(2) for r in range(2)]
    assert [start for _, _, start, _ in spans(records)] == [0.0, 0.0, 2.0, 2.0]


def test_file_is_strict_json_whatever_extra_holds(tmp_path):
    records = [
        RankRecord(0, 0, 1.0, extra={"shards": np.arange(2), "odd": object(), "nan": float("nan"), "host": "a"}),
        RankRecord(1, 0, 1.0, extra={"phases": "none", "started": "soon"}),
    ]
    write_chrome_trace(tmp_path / "t.json", records, name="run 7")
    trace = json.loads((tmp_path / "t.json").read_text(), parse_constant=lambda name: 1 / 0)
    names = [event["args"]["name"] for event in trace["traceEvents"] if "name" in event.get("args", {})]
    assert names == ["run 7", "rank 0 on a", "rank 1"]
    assert complete(trace)[0]["args"]["shards"] == [0, 1]
    assert all(event["dur"] > 0 and event["ts"] >= 0 for event in complete(trace))


def test_nothing_makes_an_empty_trace():
    assert complete(chrome_trace([])) == []
