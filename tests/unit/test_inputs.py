"""What a handle accepts, word for word: every refusal names the line to type, and what passes comes out unchanged."""

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from fold_support import PlainEncoder, PlainEstimator, PlainModel

import mixle.stats as st
from mixle.errors import BackendError, ContractError, EmptyDataError, ImpossibleEvidenceError
from mixle.utils.parallel.folding import encoders, inputs
from mixle.utils.parallel.folding.shards import Contiguous, Strided

FRAME, POLARS, ARROW, SERIES = pd.DataFrame({"a": [1]}), pl.DataFrame({"a": [1]}), pa.array([1.0]), pd.Series([1.0])


def name_of(data):
    return f"{type(data).__module__}.{type(data).__qualname__}"


def said(error, call, *args, **options):
    """Return the words of a refusal."""
    with pytest.raises(error) as caught:
        call(*args, **options)
    assert type(caught.value) is error
    return str(caught.value)


def marked(name):
    """Return what has one method that tells a collection of a cluster."""
    return type("Marked", (), {name: lambda self: None, "__module__": "theirs"})()


MARKS = ["to_delayed", "mapPartitions", "mapInArrow", "iter_internal_ref_bundles", "rank_parts"]
DELAYED = SimpleNamespace(__dask_graph__=lambda: None)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "None is not data: pass a list of rows or an array"),
        ("ab", "str is one value, not rows: pass [data] or list(data)"),
        (b"ab", "bytes is one value, not rows: pass [data] or list(data)"),
        (bytearray(2), "bytearray is one value, not rows: pass [data] or list(data)"),
        (memoryview(b"ab"), "memoryview is one value, not rows: pass [data] or list(data)"),
        (np.ones((1, 1)).view(np.matrix), "numpy.matrix is not taken: pass numpy.asarray(data)"),
        (
            np.ma.array([1.0]),
            "a masked array is not taken: pass data.tolist() (masked values become None) with an Optional field",
        ),
        (np.array(1.0), "a 0-d array is one value, not rows: pass data.reshape(1)"),
        (
            np.zeros(2, dtype=[("a", float)]),
            "a structured array is not taken: pass data.tolist(), whose rows are tuples",
        ),
        ({"a": [1]}, "a mapping of columns (dict) is not taken: pass list(zip(*data.values()))"),
        (FRAME, f"a {name_of(FRAME)} is not taken: pass list(data.itertuples(index=False, name=None))"),
        (POLARS, f"a {name_of(POLARS)} is not taken: pass data.rows()"),
        (ARROW, f"a {name_of(ARROW)} is not taken: pass data.to_pylist()"),
        (SERIES, f"a {name_of(SERIES)} is not taken: pass data.tolist()"),
        *(
            (
                marked(mark),
                "theirs.Marked is a collection of a cluster: pass backend= with the name of its framework",
            )
            for mark in MARKS
        ),
        ({1.0}, "a set has no order: pass sorted(data)"),
        (frozenset({1.0}), "a frozenset has no order: pass sorted(data)"),
        (iter([1.0]), "a list_iterator can be read only once: pass list(data)"),
        (object(), "a object is not a sequence of rows: pass list(data)"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_what_is_no_sequence_of_rows_is_refused(data, words):
    assert said(TypeError, inputs.check_rows, data, "here") == f"here: {words}"


def test_half_a_sequence_is_none():
    for half in ("__len__", "__getitem__"):
        data = type("Half", (), {half: lambda self, *_: 1, "__module__": "theirs"})()
        words = "here: a theirs.Half is not a sequence of rows: pass list(data)"
        assert said(TypeError, inputs.check_rows, data, "here") == words


@pytest.mark.parametrize("data", [[1.0], (1.0,), np.ones(2), np.ones((1, 3)), range(2), np.array(["a"])])
def test_rows_are_handed_on_as_they_are(data):
    assert inputs.check_rows(data, "here") is data


@pytest.mark.parametrize("data", [[], (), np.ones(0), np.ones((0, 3))])
def test_no_rows_are_refused(data):
    words = "here requires non-empty data. Pass at least one row."
    assert said(EmptyDataError, inputs.check_rows, data, "here") == words


def test_collections_are_told_by_one_method_and_lists_by_all_their_members():
    assert all(inputs.is_cluster_collection(marked(mark)) for mark in MARKS)
    assert not inputs.is_cluster_collection(marked("other"))
    assert not inputs.is_cluster_collection(SimpleNamespace(to_delayed=3))
    assert inputs.is_cluster_collection([DELAYED, DELAYED])
    assert inputs.is_cluster_collection((DELAYED,))
    assert not inputs.is_cluster_collection([DELAYED, 1.0])
    assert not inputs.is_cluster_collection([])


def test_a_masked_array_is_told_only_where_numpy_knows_of_them(monkeypatch):
    assert inputs.is_masked(np.ma.array([1.0]))
    assert not inputs.is_masked(np.array([1.0]))
    monkeypatch.delitem(sys.modules, "numpy.ma")
    assert not inputs.is_masked([1.0])


def test_the_encoder_is_asked_for_in_words():
    choose = inputs.choose_encoder
    words = "here requires {}. Pass estimator=, or a model for one: model.estimator()"
    assert said(ContractError, choose, "here", None, None, None) == words.format("an encoder, model, or estimator")
    told = said(ContractError, choose, "here", None, None, None, takes_model=False)
    assert told == words.format("an estimator or an explicit encoder")
    told = said(TypeError, choose, "here", 3, None, None)
    assert told == "here: int is not an estimator; pass one, e.g. model.estimator()"


@pytest.mark.parametrize("value", [1, 7, np.int64(7), np.uint8(1)])
def test_a_count_is_an_int(value):
    count = inputs.check_count(value, "n")
    assert (type(count), count) == (int, int(value))
    assert inputs.check_count(value, "n", optional=True) == count


def test_what_is_no_count_is_refused():
    assert inputs.check_count(None, "n", optional=True) is None
    for value in (None, True, np.True_, 1.5, "2"):
        assert said(TypeError, inputs.check_count, value, "n") == f"n must be a positive integer, not {value!r}"
    for value in (0, -1):
        assert said(ValueError, inputs.check_count, value, "n") == "n must be positive."


def placement(*sizes, fits=True):
    return SimpleNamespace(shards=[SimpleNamespace(size=size) for size in sizes], fits=fits, reason="cpu:0 is full")


def test_one_way_of_splitting_rows_is_chosen():
    def choose(**controls):
        return inputs.choose_map("default", 6, **controls)

    assert choose() == choose(num_shards=None, placement=None) == choose(resources="r") == "default"
    assert choose(num_shards=4, placement=None) == Strided(4)
    assert choose(num_shards=Contiguous(2)) == Contiguous(2)
    assert choose(num_chunks=4) == Contiguous(4)
    assert choose(placement=placement(4, 2)) == Contiguous(sizes=(4, 2))
    words = "num_shards and placement and resources each say how rows are split: give only one of them"
    assert said(BackendError, choose, num_shards=1, placement=placement(6), num_chunks=None, resources="r") == words
    words = "placement covers 5 rows, the data has 6: plan(data, ...) again"
    assert said(ValueError, choose, placement=placement(3, 2)) == words
    assert said(ValueError, choose, num_chunks=0) == "num_chunks must be positive."


def test_what_cannot_fit_is_refused_unless_forced():
    for fitting in (None, placement(fits=True), placement(fits=None)):
        inputs.check_fits("here", fitting, False)
    inputs.check_fits("here", placement(fits=False), True)
    inputs.check_fits("here", placement(fits=False), np.True_)
    assert said(BackendError, inputs.check_fits, "here", placement(fits=False), False) == (
        "here: the placement cannot fit: cpu:0 is full. Plan for more memory or more devices, or encode it all the "
        "same with encoded_data(..., force=True)"
    )
    assert said(TypeError, inputs.check_fits, "here", None, 1) == "force must be True or False, not 1"


def test_weights_are_a_copy_of_one_number_per_row():
    given = np.array([0.0, 2.0, 1.0])
    weights = inputs.check_weights(given, 3)
    assert (weights.dtype, weights.tolist()) == (np.float64, [0.0, 2.0, 1.0])
    assert not np.shares_memory(weights, given)
    assert inputs.check_weights([1, 2], 2).tolist() == [1.0, 2.0]
    assert inputs.check_weights(None, 2) is None


@pytest.mark.parametrize(
    ("weights", "error", "words"),
    [
        ([1.0], ValueError, "weights must have shape (2,), one per row, not (1,)"),
        ([[1.0, 2.0]], ValueError, "weights must have shape (2,), one per row, not (1, 2)"),
        ([1.0, -1.0], ValueError, "weight of row 1 is -1.0: weights must be finite and at least 0"),
        ([np.nan, -1.0], ValueError, "weight of row 0 is nan: weights must be finite and at least 0"),
        ([1.0, np.inf], ValueError, "weight of row 1 is inf: weights must be finite and at least 0"),
        ([0, 0], EmptyDataError, "all weights are zero: at least one row must count"),
        ([1e308, 1e308], ValueError, "the sum of the weights overflows: divide them by their maximum"),
    ],
)
def test_what_are_no_weights_is_refused(weights, error, words):
    assert said(error, inputs.check_weights, weights, 2) == words


def test_weights_of_other_things_than_numbers_say_why():
    told = said(ValueError, inputs.check_weights, ["a", 1.0], 2)
    assert told.startswith("weights must be one number per row, as a list or array of length 2: could not convert")


def test_a_probability_lies_above_zero_and_up_to_one():
    for value in (1, 1.0, 0.25, np.float32(0.25)):
        found = inputs.check_probability(value)
        assert (type(found), found) == (float, float(value))
    for value in (True, np.True_, "0.1", None, 1j):
        told = said(TypeError, inputs.check_probability, value)
        assert told == f"p must be a probability in (0, 1], not {value!r}"
    told = said(ImpossibleEvidenceError, inputs.check_probability, 0, "q")
    assert told == "q = 0 keeps no row: a start needs q in (0, 1], e.g. q=0.1"
    for value in (-0.5, 1.5, float("nan")):
        told = said(ValueError, inputs.check_probability, value, "q")
        assert told == f"q must be in (0, 1], not {value!r}: it is the share of rows that a start reads"


def test_every_source_of_randomness_becomes_a_random_state():
    state = np.random.RandomState(3)
    assert inputs.random_state(state) is state
    expected = np.random.RandomState(3).randint(2**31)
    assert inputs.random_state(3).randint(2**31) == inputs.random_state(np.int64(3)).randint(2**31) == expected
    seed = int(np.random.default_rng(7).integers(2**31))
    drawn = inputs.random_state(np.random.default_rng(7))
    assert drawn.randint(2**31) == np.random.RandomState(seed).randint(2**31)
    for value in (None, True, np.False_, "3", 1.5):
        told = said(TypeError, inputs.random_state, value)
        assert told == f"rng must be a numpy.random.RandomState, a Generator or an int, not {value!r}: pass e.g. rng=0"


def encoder_of(estimator):
    return estimator.accumulator_factory().make().acc_to_encoder()


def test_what_an_encoder_reads_is_told_in_words():
    gaussian, labels = st.GaussianEstimator(), st.CategoricalEstimator()
    assert encoders.reading(encoder_of(gaussian)) == "Gaussian"
    assert encoders.reading(encoder_of(st.OptionalEstimator(gaussian))) == "Optional(Gaussian)"
    pair = st.CompositeEstimator((gaussian, st.OptionalEstimator(labels)))
    assert encoders.reading(encoder_of(pair)) == "Composite(Gaussian, Optional(Categorical))"
    assert encoders.reading(PlainEncoder()) is None
    told = said(ContractError, encoders.check_reading, encoder_of(pair), gaussian)
    assert told == (
        "these rows were encoded for Composite(Gaussian, Optional(Categorical)), the estimator reads Gaussian: call "
        "encoded_data(rows, estimator)"
    )


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (None, "float64"),
        ("default", "float64"),
        ("auto", "float64"),
        ("float64", "float64"),
        ("float32", "float32"),
        (np.float64, "float64"),
        (np.float32, "float32"),
    ],
)
def test_precisions(given, name):
    assert inputs.check_precision("here", given) == name


def test_another_precision_or_engine_is_refused():
    words = "here: precision 'float16' is not supported; use precision='float64' (the default) or 'float32'"
    assert said(BackendError, inputs.check_precision, "here", "float16") == words
    for engine in (None, "numpy", "NumPy", SimpleNamespace(name="numpy"), type("NumpyEngine", (), {})()):
        inputs.check_engine("here", engine, "float32")
        assert said(BackendError, inputs.check_engine, "here", engine, "float16") == words
    for engine in ("torch", SimpleNamespace(name="torch"), type("torch", (), {})()):
        told = said(BackendError, inputs.check_engine, "here", engine, None)
        assert told == "here: engine 'torch' is not supported; leave engine out, or use engine='numpy'"


def test_a_warning_stands_at_the_first_line_outside_of_the_library():
    def inside():
        inputs.warn_user("careful")

    library = type(inside)(inside.__code__, {**globals(), "__name__": "mixle.stats.anything"})
    for call in (inside, library):
        with pytest.warns(UserWarning, match="^careful$") as told:
            call()
        (one,) = told
        here = inside.__code__.co_firstlineno
        assert (one.category, one.filename) == (UserWarning, __file__)
        assert one.lineno == (here + 1 if call is inside else here + 6)


# What a transport is given


def test_a_source_is_rows_cut_by_a_map_and_each_shard_into_pieces():
    rows, weights = [float(i) for i in range(7)], np.array([0.0, 0.0, 1.0, 2.0, 0.0, 1.0, 1.0])
    estimator = PlainEstimator()
    source = inputs.make_source(rows, PlainEncoder(), Contiguous(2), [1, 2], weights, estimator)
    assert (source.rows, source.encoder, source.estimator) == (rows, PlainEncoder(), estimator)
    assert source.shards == (range(3), range(3, 7))
    assert source.pieces == ((range(3),), (range(3, 5), range(5, 7)))
    assert (source.counted, source.first_counted, source.width) == (4, 2, None)
    assert (source.shard_rows(1), source.shard_weights(1).tolist()) == ([3.0, 4.0, 5.0, 6.0], [2.0, 0.0, 1.0, 1.0])
    shard = source.encode(1)
    assert shard.id == 1
    told = [(c.positions, c.payload.tolist(), c.weights.tolist()) for c in shard.chunks]
    assert told == [(range(3, 5), [3.0, 4.0], [2.0, 0.0]), (range(5, 7), [5.0, 6.0], [1.0, 1.0])]
    with pytest.raises(ValueError, match="zip"):
        inputs.make_source(rows, PlainEncoder(), Contiguous(2), [1], None, estimator)


def test_a_source_without_weights_counts_its_rows():
    source = inputs.make_source(np.ones((5, 3)), PlainEncoder(), Strided(2), 2, None, None)
    assert (source.counted, source.first_counted, source.width, source.estimator) == (5, 0, 3, None)
    assert source.shards == (range(0, 5, 2), range(1, 5, 2))
    assert source.pieces == ((range(0, 5, 4), range(2, 5, 4)), (range(1, 5, 4), range(3, 5, 4)))
    assert source.shard_weights(0) is None
    assert source.shard_rows(1).shape == (2, 3)
    strided = inputs.make_source(np.ones(5), PlainEncoder(), Strided(2), 1, np.arange(5.0), None)
    assert strided.shard_weights(1).tolist() == [1.0, 3.0]
    assert strided.shard_weights(1).flags.c_contiguous
    assert inputs.make_source(np.ones(5), PlainEncoder(), Strided(2), 1, None, None).width is None


def test_an_encoder_of_a_model_is_taken_before_that_of_an_estimator():
    own = PlainEncoder()
    assert inputs.choose_encoder("here", PlainEstimator(), PlainModel(0.0, 1.0), own) is own
    assert inputs.choose_encoder("here", None, PlainModel(0.0, 1.0), None) == PlainEncoder()
