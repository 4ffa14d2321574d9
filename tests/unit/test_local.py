"""LocalEncodedData: documented attributes, threads that change no bit, data refused with the line to type."""

import collections

import numpy as np
import pytest
from fold_support import SHARDS, PlainEncoder, PlainEstimator, PlainModel, fitted_bits, numbers

from mixle.errors import RowError
from mixle.utils.parallel.folding.shards import Contiguous, Strided
from mixle.utils.parallel.planner import LocalEncodedData, Resources, encoded_data, plan

ROWS = numbers()


@pytest.mark.parametrize("sub_chunks", [1, 3])
@pytest.mark.parametrize("shards", [*SHARDS[1:], Contiguous(4), Contiguous(sizes=(100, 3))])
def test_threads_change_no_bit(shards, sub_chunks):
    serial = LocalEncodedData(ROWS, PlainEstimator(), num_shards=shards, sub_chunks=sub_chunks)
    for workers in (1, 2, 8):
        threads = LocalEncodedData(
            ROWS,
            PlainEstimator(),
            num_shards=shards,
            sub_chunks=sub_chunks,
            parallel_chunks=True,
            chunk_workers=workers,
        )
        assert fitted_bits(threads) == fitted_bits(serial)


def test_one_shard_is_the_default_and_contiguous_chunks_are_what_num_chunks_means():
    assert LocalEncodedData(ROWS, PlainEstimator()).num_shards == 1
    chunks = LocalEncodedData(ROWS, PlainEstimator(), num_chunks=4)
    assert fitted_bits(chunks) == fitted_bits(LocalEncodedData(ROWS, PlainEstimator(), num_shards=Contiguous(4)))
    assert fitted_bits(chunks) != fitted_bits(LocalEncodedData(ROWS, PlainEstimator(), num_shards=4))


def test_resources_and_the_placement_planned_from_them_give_the_same_bits():
    resources = Resources.local(3)
    placement = plan(ROWS, estimator=PlainEstimator(), resources=resources, sub_chunks=2)
    by_placement = LocalEncodedData(ROWS, PlainEstimator(), placement=placement)
    by_resources = LocalEncodedData(ROWS, PlainEstimator(), resources=resources, sub_chunks=2)
    assert fitted_bits(by_placement) == fitted_bits(by_resources)
    assert by_placement.placement is placement
    assert by_placement.num_chunks == 6


def test_a_placement_that_cannot_fit_is_refused_unless_forced():
    small = Resources.single_cpu(memory_bytes=1000)
    placement = plan(ROWS, encoder=PlainEncoder(), resources=small)
    assert placement.fits is False
    for controls in ({"placement": placement}, {"resources": small}):
        for build in (LocalEncodedData, encoded_data):
            with pytest.raises(ValueError, match=r"device cpu:0 needs \d+ bytes, its memory_bytes is 1000.*force=True"):
                build(ROWS, PlainEstimator(), **controls)
            forced = build(ROWS, PlainEstimator(), force=True, **controls)
            assert forced.num_shards == len(placement.shards)
    roomy = plan(ROWS, encoder=PlainEncoder(), resources=Resources.single_cpu(memory_bytes=10**6))
    assert LocalEncodedData(ROWS, PlainEstimator(), placement=roomy).size == 103
    with pytest.raises(TypeError, match="force must be True or False"):
        LocalEncodedData(ROWS, PlainEstimator(), force="yes")


def test_documented_attributes():
    handle = LocalEncodedData(ROWS, PlainEstimator(), num_chunks=2, sub_chunks=2)
    assert len(handle) == handle.size == 103
    assert handle.encoder == PlainEncoder()
    assert [(shard.start, shard.stop) for shard in handle.placement.shards] == [(0, 51), (51, 103)]
    assert [count for count, _ in handle] == [25, 26, 26, 26]
    assert np.concatenate([payload for _, payload in handle]).tolist() == ROWS
    assert LocalEncodedData(ROWS, PlainEstimator(), num_shards=2).placement is None


def test_a_model_or_an_encoder_may_say_how_to_encode():
    by_model = LocalEncodedData(ROWS, model=PlainModel(0.0, 1.0))
    by_encoder = LocalEncodedData(ROWS, encoder=PlainEncoder())
    assert fitted_bits(by_model) == fitted_bits(by_encoder) == fitted_bits(LocalEncodedData(ROWS, PlainEstimator()))
    with pytest.raises(ValueError, match="LocalEncodedData requires an encoder, model, or estimator"):
        LocalEncodedData(ROWS)


def test_threads_with_one_shard_have_no_effect_and_say_so():
    with pytest.warns(UserWarning, match="no effect with one shard") as caught:
        handle = LocalEncodedData(ROWS, PlainEstimator(), sub_chunks=3, parallel_chunks=True)
    assert caught[0].filename == __file__
    assert fitted_bits(handle) == fitted_bits(LocalEncodedData(ROWS, PlainEstimator(), sub_chunks=3))


def test_an_array_is_encoded_in_place():
    class AsIs(PlainEncoder):
        def seq_encode(self, rows):
            return rows

    array = np.array(ROWS)
    handle = LocalEncodedData(array, encoder=AsIs(), num_chunks=2)
    assert all(np.shares_memory(payload, array) for _, payload in handle)


class Frame:
    """Looks like a data frame."""

    def itertuples(self, index, name):
        yield from ()


class Series:
    """Looks like a column of a data frame."""

    dtype = float

    def to_numpy(self):
        return np.array([])


class Collection:
    """Looks like a collection of a cluster."""

    def mapPartitions(self):
        return self


REFUSED = [
    ("generator", (x for x in ROWS), TypeError, r"a generator can be read only once: pass list\(data\)"),
    ("iterator", iter(ROWS), TypeError, r"pass list\(data\)"),
    ("number", 3.0, TypeError, r"a float is not a sequence of rows: pass list\(data\)"),
    ("none", None, TypeError, "pass a list of rows or an array"),
    ("text", "abc", TypeError, r"pass \[data\] or list\(data\)"),
    ("bytes", b"abc", TypeError, r"pass \[data\] or list\(data\)"),
    ("columns", {"a": ROWS}, TypeError, r"pass list\(zip\(\*data.values\(\)\)\)"),
    ("frame", Frame(), TypeError, r"pass list\(data.itertuples\(index=False, name=None\)\)"),
    ("series", Series(), TypeError, r"pass data.to_list\(\)"),
    ("structured", np.zeros(3, dtype=[("a", float)]), TypeError, r"pass data.tolist\(\)"),
    ("masked", np.ma.masked_array([1.0], [True]), TypeError, r"data.tolist\(\) .* Optional"),
    ("0-d", np.array(1.0), TypeError, r"pass data.reshape\(1\)"),
    ("set", {1.0}, TypeError, r"pass sorted\(data\)"),
    ("collection", Collection(), TypeError, "pass backend="),
    ("empty list", [], ValueError, "LocalEncodedData requires non-empty data"),
    ("empty array", np.empty(0), ValueError, "requires non-empty data"),
    ("wrong type", [1.0, 2.0, "x"], RowError, r"Row 2 \(Plain\): 'x' is not a number"),
    ("NaN", [1.0, float("nan")], RowError, r"Row 1 \(Plain\): nan is not a number"),
    ("ragged", [1.0, [2.0, 3.0]], RowError, r"Row 1 \(Plain\): \[2.0, 3.0\] is not a number"),
]


@pytest.mark.parametrize(("data", "error", "words"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_data_that_cannot_be_taken_are_refused_with_what_to_type(data, error, words):
    with pytest.raises(error, match=words):
        LocalEncodedData(data, PlainEstimator())
    if error is not RowError and not (isinstance(data, np.ndarray) and data.dtype.names):
        with pytest.raises(error, match=words):
            encoded_data(data, PlainEstimator())


def test_matrices_are_refused():
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix([[1.0]])
    with pytest.raises(TypeError, match=r"pass numpy.asarray\(data\)"):
        LocalEncodedData(matrix, PlainEstimator())


@pytest.mark.parametrize(
    "data", [tuple(ROWS), collections.deque(ROWS), range(5), np.arange(4)], ids=lambda d: type(d).__name__
)
def test_any_indexable_sequence_is_taken(data):
    for shards in (None, 2):
        handle = LocalEncodedData(data, PlainEstimator(), num_shards=shards)
        assert handle.pysp_stream_accumulate(PlainEstimator(), None)[0] == len(data)


CONTROLS = [
    ({"num_shards": 2, "num_chunks": 2}, ValueError, "num_shards and num_chunks"),
    ({"num_chunks": 2, "resources": Resources.local(2)}, ValueError, "num_chunks and resources"),
    ({"num_chunks": 0}, ValueError, "num_chunks must be positive"),
    ({"num_chunks": 1.5}, TypeError, "num_chunks must be a positive integer"),
    ({"sub_chunks": 0}, ValueError, "sub_chunks must be positive"),
    ({"sub_chunks": True}, TypeError, "sub_chunks must be a positive integer"),
    ({"num_shards": "4"}, TypeError, "num_shards takes an int"),
    ({"num_shards": Contiguous(sizes=(4,))}, ValueError, "covers 4 rows, the data has 103"),
    ({"placement": plan([1.0], encoder=PlainEncoder())}, ValueError, "placement covers 1 rows, the data has 103"),
    ({"parallel_chunks": 1}, TypeError, "parallel_chunks must be True or False"),
    ({"chunk_workers": 0, "num_chunks": 2}, ValueError, "chunk_workers must be positive"),
    ({"engine": "torch"}, ValueError, "engine 'torch' is not supported"),
    ({"precision": "float16"}, ValueError, "precision 'float16' is not supported; use precision='float64'"),
    ({"weights": [1.0] * 356}, ValueError, r"weights must have shape \(103,\), one per row, not \(356,\)"),
    ({"weights": [[1.0]] * 103}, ValueError, r"not \(103, 1\)"),
    ({"weights": [0.0] * 103}, ValueError, "all weights are zero"),
    ({"weights": [1.0] * 102 + [-1.0]}, ValueError, "weight of row 102 is -1.0"),
    ({"weights": [1.0, float("nan")] + [1.0] * 101}, ValueError, "weight of row 1 is nan"),
    ({"weights": [float("inf")] + [1.0] * 102}, ValueError, "weight of row 0 is inf"),
    ({"weights": ["x"] * 103}, ValueError, "one number per row"),
    ({"weights": [10**400] * 103}, ValueError, "one number per row"),
    ({"weights": [1e308] * 103}, ValueError, "overflows"),
]


@pytest.mark.parametrize(("controls", "error", "words"), CONTROLS, ids=[str(i) for i in range(len(CONTROLS))])
def test_controls_that_cannot_be_used_are_refused(controls, error, words):
    with pytest.raises(error, match=words):
        LocalEncodedData(ROWS, PlainEstimator(), **controls)


@pytest.mark.parametrize("controls", [{"engine": "numpy"}, {"precision": "double"}, {"precision": np.float64}])
def test_what_is_the_default_anyway_may_be_said(controls):
    assert fitted_bits(LocalEncodedData(ROWS, PlainEstimator(), **controls)) == fitted_bits(
        LocalEncodedData(ROWS, PlainEstimator())
    )


def test_weights_are_copied():
    weights = np.ones(103)
    handle = LocalEncodedData(ROWS, PlainEstimator(), num_shards=Strided(1), weights=weights)
    weights[:] = 0.0
    assert handle.pysp_stream_accumulate(PlainEstimator(), None)[0] == 103.0


def test_shards_show_device_engine_and_chunks():
    handle = LocalEncodedData(ROWS, PlainEstimator(), resources=Resources.local(2), sub_chunks=2)
    assert [(shard.device.name, shard.engine, len(shard.chunks)) for shard in handle.shards] == [
        ("cpu:0", "numpy", 2),
        ("cpu:1", "numpy", 2),
    ]
    count, payload = handle.shards[1].chunks[0]
    assert count == len(payload.host_payload) == 25
    assert payload.engine_payload is payload.host_payload
    assert LocalEncodedData(ROWS, PlainEstimator(), num_shards=2).shards[1].device.name == "cpu:0"
