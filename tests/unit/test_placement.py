"""plan(): documented splits, printed and edited placements, memory that is told."""

import json

import numpy as np
import pytest
from fold_support import PlainEncoder, PlainEstimator, PlainModel, numbers
from hypothesis import given
from hypothesis import strategies as st

from mixle.utils.parallel.planner import DeviceSpec, Placement, PlacementShard, Resources, plan

ROWS = numbers(200)


def devices(*throughputs, memory=None):
    return Resources(tuple(DeviceSpec(f"d{i}", throughput=t, memory_bytes=memory) for i, t in enumerate(throughputs)))


def ranges(placement):
    return [(shard.device.name, shard.start, shard.stop) for shard in placement.shards]


@given(
    st.integers(1, 200),
    st.lists(st.floats(0.01, 100.0), min_size=1, max_size=6),
    st.none() | st.integers(1, 300),
    st.none() | st.integers(200, 5000),
)
def test_every_placement_covers_each_row_once(rows, throughputs, num_chunks, memory):
    placement = plan(
        ROWS[:rows], encoder=PlainEncoder(), resources=devices(*throughputs, memory=memory), num_chunks=num_chunks
    )
    assert [i for shard in placement.shards for i in range(shard.start, shard.stop)] == list(range(rows))
    assert placement.total_rows == rows


def test_rows_go_by_throughput_and_the_rest_to_whoever_is_furthest_behind():
    assert ranges(plan(ROWS[:5], encoder=PlainEncoder(), resources=devices(1.0, 3.0))) == [("d0", 0, 1), ("d1", 1, 5)]
    assert ranges(plan(ROWS[:5], encoder=PlainEncoder(), resources=devices(1.0, 1.0, 1.0))) == [
        ("d0", 0, 2),
        ("d1", 2, 4),
        ("d2", 4, 5),
    ]


def test_chunks_are_equal_ranges_that_devices_take_in_order():
    placement = plan(ROWS[:10], encoder=PlainEncoder(), resources=devices(1.0, 1.0), num_chunks=4)
    assert ranges(placement) == [("d0", 0, 2), ("d0", 2, 5), ("d1", 5, 7), ("d1", 7, 10)]
    assert len(plan(ROWS[:3], encoder=PlainEncoder(), num_chunks=10).shards) == 3


def test_documented_bytes_of_a_gaussian():
    model = PlainModel(0.0, 1.0)
    placement = plan(ROWS, model, PlainEstimator(), safety_factor=1.0)
    assert (placement.encoded_row_bytes, placement.transient_row_bytes, placement.dtype_bytes) == (8.0, 24.0, 8)
    assert (placement.model_bytes, placement.statistic_bytes) == (48, 96)
    (shard,) = placement.shards
    assert (shard.encoded_bytes, shard.transient_bytes) == (200 * 8, 200 * 24 + 48 + 96)
    assert shard.total_bytes == shard.encoded_bytes + shard.transient_bytes
    safe = plan(ROWS, model, PlainEstimator()).shards[0]
    assert (safe.encoded_bytes, safe.transient_bytes) == (2000, 6000 + 180)


@pytest.mark.parametrize(("precision", "width"), [("float32", 4), ("bf16", 2), (np.float64, 8)])
def test_precision_sets_the_bytes_of_a_number(precision, width):
    placement = plan(ROWS, encoder=PlainEncoder(), precision=precision)
    assert (placement.dtype_bytes, placement.transient_row_bytes) == (width, 3.0 * width)
    by_device = plan(ROWS, encoder=PlainEncoder(), resources=Resources.single_cpu(precision=precision))
    assert by_device.dtype_bytes == width


def test_components_and_states_count_in_transient_bytes():
    class Mixture(PlainModel):
        num_components = 4

    class Chain(PlainModel):
        num_states = 5

    assert plan(ROWS, Mixture(0.0, 1.0)).transient_row_bytes == 4 * 24
    assert plan(ROWS, Chain(0.0, 1.0)).transient_row_bytes == 5 * 24


def test_a_memory_cap_splits_and_says_whether_it_fits():
    capped = plan(ROWS, encoder=PlainEncoder(), resources=Resources.single_cpu(memory_bytes=1000))
    assert len(capped.shards) > 1
    assert capped.fits is False
    assert capped.reason == (
        "device cpu:0 needs 2750 bytes, its memory_bytes is 1000: "
        "use 3 workers with as much memory, or give it 2750 bytes"
    )
    roomy = plan(ROWS, encoder=PlainEncoder(), resources=Resources.single_cpu(memory_bytes=10**6))
    assert (len(roomy.shards), roomy.fits, roomy.reason) == (1, True, None)
    assert plan(ROWS, encoder=PlainEncoder()).fits is None


def test_a_device_too_small_for_the_model_still_gets_a_plan_that_says_so():
    model = PlainModel(np.zeros(1000), 1.0)
    placement = plan(ROWS[:5], model, encoder=PlainEncoder(), resources=Resources.single_cpu(memory_bytes=100))
    assert len(placement.shards) == 5
    assert placement.fits is False


def test_no_rows_go_to_the_fastest_device():
    assert ranges(plan(num_chunks=4, resources=devices(1.0, 5.0, 5.0))) == [("d1", 0, 0)]
    assert ranges(plan([], encoder=PlainEncoder())) == [("cpu:0", 0, 0)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"data": ROWS, "encoder": PlainEncoder(), "sub_chunks": 0}, "sub_chunks must be positive"),
        ({"data": ROWS, "encoder": PlainEncoder(), "sub_chunks": True}, "sub_chunks must be positive"),
        ({"data": ROWS, "encoder": PlainEncoder(), "safety_factor": 0}, "safety_factor must be positive"),
        ({"data": ROWS, "encoder": PlainEncoder(), "num_chunks": 0}, "num_chunks must be at least 1"),
        ({}, "plan needs data, or num_chunks"),
        ({"data": ROWS}, "requires an encoder, model, or estimator"),
    ],
)
def test_what_cannot_be_planned_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        plan(**arguments)


def test_an_engine_is_noted_on_every_device():
    placement = plan(ROWS, encoder=PlainEncoder(), resources=devices(1.0, 1.0), engine="torch")
    assert {shard.device.engine for shard in placement.shards} == {"torch"}


def test_a_placement_prints_and_travels_as_json():
    placement = plan(ROWS[:3], encoder=PlainEncoder(), resources=devices(1.0, 2.0), sub_chunks=2)
    head = "Placement(total_rows=3, shards=2, row_bytes=8.0, transient_row_bytes=24.0, model_bytes=0, "
    assert str(placement).splitlines() == [
        head + "statistic_bytes=0, dtype_bytes=8)",
        "  d0[0:1] rows=1 sub_chunks=2 estimated_bytes=40",
        "  d1[1:3] rows=2 sub_chunks=2 estimated_bytes=80",
    ]
    told = json.loads(json.dumps(placement.to_dict()))
    assert list(told) == [
        "total_rows", "encoded_row_bytes", "transient_row_bytes", "model_bytes", "statistic_bytes", "dtype_bytes",
        "resources", "shards",
    ]  # fmt: skip
    assert told["shards"][1] == {
        "device": "d1", "kind": "cpu", "engine": "numpy", "start": 1, "stop": 3, "sub_chunks": 2, "encoded_bytes": 20,
        "transient_bytes": 60,
    }  # fmt: skip
    assert Resources.from_dict(told["resources"]) == placement.resources
    assert [shard.size for shard in placement.for_device("d1")] == [2]
    assert placement.for_device("nobody") == ()


def shard(start, stop):
    return PlacementShard(DeviceSpec("d"), start, stop)


@pytest.mark.parametrize(
    ("shards", "rows", "words"),
    [
        ((shard(0, 2), shard(3, 5)), 5, "shard 1 starts at row 3, but row 2 is next: rows 2:3 belong to no shard"),
        ((shard(0, 3), shard(2, 5)), 5, "shard 1 starts at row 2, but row 3 is next: rows 2:3 belong to two shards"),
        ((shard(0, 2), shard(2, 2), shard(2, 5)), 5, "shard 1 is empty"),
        ((shard(0, 2),), 5, "cover rows 0:2, total_rows is 5"),
        ((shard(0, 6),), 5, "cover rows 0:6, total_rows is 5"),
    ],
)
def test_an_edited_placement_must_cover_the_rows(shards, rows, words):
    with pytest.raises(ValueError, match=words):
        Placement(shards, rows, 8.0, 24.0, 0, 0, 8)
