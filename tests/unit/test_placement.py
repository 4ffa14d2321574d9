"""plan(): documented splits, printed and edited placements, memory that is told."""

import json
from dataclasses import replace

import numpy as np
import pytest
from fold_support import PlainEncoder, PlainEstimator, PlainModel, numbers
from hypothesis import given
from hypothesis import strategies as st

from mixle.utils.parallel.planner import (
    CalibrationCatalog,
    CalibrationRecord,
    DeviceSpec,
    Placement,
    PlacementShard,
    Resources,
    encoded_data,
    plan,
)

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


def big(rows=10**9, workers=4, memory=None, row=80.0, **options):
    return plan(total_rows=rows, encoded_row_bytes=row, resources=devices(*[1.0] * workers, memory=memory), **options)


def test_rows_are_planned_without_data():
    placement = big()
    assert placement.total_rows == 10**9
    assert [shard.size for shard in placement.shards] == [250_000_000] * 4
    assert placement.encoded_row_bytes == 80.0
    sample = plan(ROWS, encoder=PlainEncoder(), total_rows=10**6)
    assert (sample.total_rows, sample.encoded_row_bytes) == (10**6, 8.0)


@pytest.mark.parametrize(
    "options",
    [{"total_rows": -1}, {"total_rows": True}, {"total_rows": 5, "data": ROWS, "encoder": PlainEncoder()},
     {"total_rows": 5, "encoded_row_bytes": -1.0}, {"total_rows": 5, "encoded_row_bytes": float("nan")}],
)  # fmt: skip
def test_numbers_that_no_data_can_have_are_refused(options):
    with pytest.raises((ValueError, TypeError), match=r"total_rows|encoded_row_bytes"):
        plan(**options)


def test_a_billion_rows_over_a_thousand_devices_are_a_plan_of_moments():
    import time

    before = time.thread_time()
    placement = big(workers=1000, memory=64 * 10**9)
    print(f"{time.thread_time() - before:.4f} s")
    assert len(placement.shards) == 1000
    assert placement.fits is True


@given(
    st.lists(st.tuples(st.floats(0.1, 10.0), st.integers(2_000, 60_000)), min_size=1, max_size=5), st.integers(1, 3000)
)
def test_a_plan_fits_wherever_any_plan_of_sixteen_pieces_does(given_devices, rows):
    """Rows that a small device cannot hold go to the others; pieces get smaller until the work on one fits too."""
    resources = Resources(
        tuple(DeviceSpec(f"d{i}", throughput=t, memory_bytes=m) for i, (t, m) in enumerate(given_devices))
    )
    placement = plan(total_rows=rows, encoded_row_bytes=8.0, resources=resources)
    room = sum(int((memory - 16) / (1.25 * (8.0 + 24.0 / 16))) for _, memory in given_devices)
    assert placement.fits is (True if rows <= room else placement.fits)
    for name, need in placement.device_bytes().items():
        memory = next(device.memory_bytes for device in resources.devices if device.name == name)
        assert (need <= memory) or placement.fits is False


@pytest.mark.parametrize("memory", [16 * 10**9, 2 * 10**9, 40 * 10**6])
def test_the_change_that_is_named_makes_it_fit(memory):
    placement = big(memory=memory)
    assert placement.fits is False
    workers = int(placement.reason.split("use ")[1].split(" workers")[0])
    assert big(workers=workers, memory=memory).fits is True
    assert big(workers=workers // 2, memory=memory).fits is False
    enough = int(placement.reason.split("or give it ")[1].split(" bytes")[0])
    assert big(memory=enough).fits is True


def test_float32_is_named_where_it_suffices():
    class Mixture(PlainModel):
        num_components = 64

    told = set()
    for memory in range(200, 4000, 50):
        place = Resources.single_cpu(memory_bytes=memory)
        wide, narrow = (
            plan(model=Mixture(0.0, 1.0), total_rows=100, encoded_row_bytes=8.0, resources=place, precision=precision)
            for precision in (None, "float32")
        )
        if wide.fits is False:
            told.add(("or plan with precision='float32'" in wide.reason, narrow.fits))
            assert narrow.fits or "float32" not in narrow.reason
    assert told == {(False, False), (True, True)}


def test_a_model_that_is_larger_than_the_memory_is_to_be_divided():
    model = PlainModel(np.zeros(1000), 1.0)
    reason = plan(ROWS, model, resources=Resources.single_cpu(memory_bytes=100)).reason
    assert "or divide the model (model_sharding_plan)" in reason
    tiny = plan(total_rows=3, encoded_row_bytes=500.0, resources=Resources.single_cpu(memory_bytes=100))
    assert "one row needs" in tiny.reason


def test_measured_speeds_of_a_catalogue_are_planned_with():
    catalog = CalibrationCatalog()
    catalog.add(CalibrationRecord("PlainModel", "estep", devices(1.0, 3.0), 10, 3))
    placement = plan(ROWS, PlainModel(0.0, 1.0), resources=devices(1.0, 1.0), catalog=catalog)
    assert [shard.size for shard in placement.shards] == [50, 150]


def test_shards_are_split_merged_and_given_to_others():
    placement = plan(ROWS, PlainModel(0.0, 1.0), PlainEstimator(), resources=devices(1.0, 1.0))
    cut = placement.split(0, 30)
    assert ranges(cut) == [("d0", 0, 30), ("d0", 30, 100), ("d1", 100, 200)]
    assert cut.merge(0) == placement
    assert cut.merge(1).shards[1].encoded_bytes == 1700
    moved = cut.assign(1, placement.resources.devices[1])
    assert [shard.device.name for shard in moved.shards] == ["d0", "d1", "d1"]
    with encoded_data(ROWS, PlainEstimator(), placement=moved) as handle:
        assert [shard.chunks[0][0] for shard in handle.shards] == [30, 70, 100]
        assert [shard.device.name for shard in handle.shards] == ["d0", "d1", "d1"]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda p: p.split(0, 0), "row 0 does not lie inside shard 0"),
        (lambda p: p.split(9, 1), "there is no shard 9"),
        (lambda p: p.merge(1), "shard 1 is the last one"),
        (lambda p: p.merge(-1), "there is no shard -1"),
        (lambda p: p.assign(0, DeviceSpec("stranger")), "shard 0 is on 'stranger', which is none of"),
        (lambda p: replace(p, shards=p.shards[1:]), "rows 0:100 belong to no shard"),
        (lambda p: replace(p, shards=(*p.shards, p.shards[1])), "rows 100:200 belong to two shards"),
    ],
)
def test_edits_that_leave_no_placement_are_refused(edit, words):
    placement = plan(ROWS, encoder=PlainEncoder(), resources=devices(1.0, 1.0))
    with pytest.raises(ValueError, match=words):
        edit(placement)


def test_a_placement_comes_back_from_json():
    placement = plan(ROWS, encoder=PlainEncoder(), resources=devices(1.0, 2.0, memory=10**6), sub_chunks=2)
    assert Placement.from_json(placement.to_json(indent=1)) == placement


def test_a_table_for_people():
    lines = big(memory=64 * 10**9).table().splitlines()
    assert lines[0].split() == ["device", "rows", "share", "shards", "sub-chunks", "needs", "has", "used"]
    assert lines[1].split() == ["d0", "250,000,000", "25.0%", "1", "1", "32.5", "GB", "64.0", "GB", "51%"]
    assert lines[-2:] == ["1,000,000,000 rows in 4 shards; a row is 80 B encoded, 24 B at work.", "It fits."]
    assert big(memory=10**9).table().splitlines()[-1].startswith("It does not fit: device d0 needs")
    assert "give the devices memory_bytes" in big().table()
    assert "... and 980 more devices" in big(workers=1000).table()
    empty = plan([], encoder=PlainEncoder())
    assert "0 rows in 1 shards" in empty.table()


def test_a_name_of_a_device_is_no_markup():
    named = Resources((DeviceSpec("<b>x"),))
    page = plan(ROWS, encoder=PlainEncoder(), resources=named)._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;x" in page
    assert "more devices" in big(workers=1000)._repr_html_()
