"""What `optimize` accepts as data and arguments, and what it refuses before any work."""

import io

import numpy as np
import pandas as pd
import pytest
from fit_support import WaitEstimator, clusters, counted

from mixle.inference import best_of, optimize
from mixle.stats import (
    CategoricalDistribution,
    CategoricalEstimator,
    CompositeEstimator,
    DiagonalGaussianEstimator,
    GammaEstimator,
    GaussianDistribution,
    GaussianEstimator,
    MixtureDistribution,
    MixtureEstimator,
    OptionalEstimator,
    PoissonEstimator,
    RecordEstimator,
    seq_encode,
)

pytestmark = pytest.mark.filterwarnings("ignore:EM stopped after:UserWarning")

GAUSS = GaussianEstimator()
ROWS = [1.0, 2.0, 4.0]


def mixture(k, leaf=GaussianEstimator):
    return MixtureEstimator([leaf() for _ in range(k)])


BAD = [
    ({"max_its": 0}, ValueError, "max_its must be an integer of at least 1, not 0"),
    ({"max_its": 2.5}, ValueError, "max_its"),
    ({"max_its": True}, ValueError, "max_its"),
    ({"delta": 0}, ValueError, "delta must be None or a finite number above 0, not 0"),
    ({"delta": -1.0}, ValueError, "delta"),
    ({"delta": float("nan")}, ValueError, "delta"),
    ({"delta": float("inf")}, ValueError, "delta"),
    ({"delta": "small"}, ValueError, "delta"),
    ({"init_p": 0}, ValueError, "init_p"),
    ({"init_p": 1.5}, ValueError, "init_p"),
    ({"init_p": float("nan")}, ValueError, "init_p"),
    ({"print_iter": -1}, ValueError, "print_iter must be an integer of at least 0"),
    ({"objective": "map2"}, ValueError, "objective must be one of auto, mle, map, vb"),
    ({"structure": "on"}, ValueError, "structure must be one of auto, off"),
    ({"schedule": "lazy"}, ValueError, "schedule must be one of auto, full"),
    ({"strategy": "online"}, ValueError, "strategy must be one of None, em, squarem; not 'online'"),
    ({"engine": "torch"}, ValueError, "engine 'torch' is not available"),
    ({"precision": "float16"}, ValueError, "precision 'float16' is not supported; use precision='float64'"),
    ({"precision": 32}, ValueError, "precision 32 is not supported"),
    ({"fused_options": 3}, TypeError, "fused_options"),
    ({"max_seconds": 0}, ValueError, "max_seconds"),
    ({"max_seconds": float("inf")}, ValueError, "max_seconds"),
    ({"rng": 1, "seed": 1}, TypeError, "rng and seed"),
    ({"rng": "x"}, TypeError, "rng"),
    ({"seed": 1.5}, TypeError, "seed must be a"),
    ({"backend": ""}, ValueError, "backend"),
    ({"backend": 3}, ValueError, "backend"),
    ({"num_chunks": 0}, ValueError, "num_chunks"),
    ({"sub_chunks": 0}, ValueError, "sub_chunks"),
    ({"chunk_size": 0}, ValueError, "chunk_size"),
    ({"chunk_size": 2, "num_chunks": 2}, ValueError, "num_chunks and chunk_size"),
    ({"num_workers": 3}, ValueError, "num_workers"),
    ({"data": None, "estimator": None, "enc_data": [(1, np.ones(1))]}, ValueError, "an estimator is required"),
    ({"estimator": None, "data": [1.0, "a"]}, ValueError, "mixes number .* and text"),
    ({"estimator": GaussianEstimator}, TypeError, r"GaussianEstimator\(\)"),
    ({"estimator": 3}, TypeError, "neither an estimator nor a distribution"),
    ({"prev_estimate": object()}, TypeError, "dist_to_encoder"),
    ({"data": None}, ValueError, "received no observations"),
    ({"data": []}, ValueError, "received no observations"),
    ({"data": iter(())}, ValueError, "received no observations"),
    ({"data": np.empty((0, 2))}, ValueError, "received no observations"),
    ({"data": pd.DataFrame({"a": []})}, ValueError, "received no observations"),
    ({"data": None, "enc_data": []}, ValueError, "received no observations"),
    ({"data": None, "enc_data": [(0, np.empty(0))]}, ValueError, "received no observations"),
    ({"data": None, "enc_data": 5}, TypeError, "enc_data must be a handle or a list"),
    ({"data": None, "enc_data": [1.0, 2.0]}, TypeError, "enc_data must be a handle or a list"),
    ({"data": None, "enc_data": [(2, np.zeros(3))]}, ValueError, "chunk 0 declares 2 rows, its payload has 3"),
    ({"data": None, "enc_data": [(1, np.ones(1))], "weights": [1.0]}, ValueError, "weights cannot change rows"),
    ({"data": None, "enc_data": [(1, np.ones(1))], "num_workers": 2}, ValueError, "num_workers cannot change rows"),
    ({"data": "abc"}, ValueError, r"list\(data\)"),
    ({"data": 1.0}, ValueError, r"\[value\]"),
    ({"data": {1.0, 2.0}}, ValueError, "sorted"),
    ({"data": np.ma.masked_array([1.0], [True])}, ValueError, "masked"),
    ({"data": [1.0, "x", 2.0]}, ValueError, "[Rr]ow 1"),
    ({"data": [1.0, 2.0, float("nan")]}, ValueError, "[Rr]ow 2"),
    ({"data": [1.0, float("inf")]}, ValueError, "[Rr]ow 1"),
    ({"fields": ["a"]}, ValueError, "no names"),
    ({"vdata": []}, ValueError, "received no observations"),
    ({"enc_vdata": [(0, np.empty(0))]}, ValueError, "received no observations"),
    ({"vdata": [1.0, "x"]}, ValueError, "[Rr]ow 1"),
    ({"weights": [1.0]}, ValueError, "weights"),
    ({"weights": np.ones((3, 1))}, ValueError, "weights"),
    ({"weights": [1.0, -1.0, 1.0]}, ValueError, "weight of row 1"),
    ({"weights": [1.0, 1.0, float("nan")]}, ValueError, "weight of row 2"),
    ({"weights": [0.0, 0.0, 0.0]}, ValueError, "all weights are zero"),
    ({"weights": "abc"}, ValueError, "weights"),
]


@pytest.mark.parametrize(
    ("options", "error", "message"), BAD, ids=[f"{i}-{next(iter(b[0]))}" for i, b in enumerate(BAD)]
)
def test_bad_arguments_are_refused_by_name(options, error, message):
    arguments = {"data": ROWS, "estimator": GAUSS, **options}
    with pytest.raises(error, match=message):
        optimize(**arguments)


def test_bad_arguments_are_refused_before_any_work():
    for options, error, _ in BAD:
        if {
            "data",
            "enc_data",
            "weights",
            "fields",
            "vdata",
            "enc_vdata",
            "num_workers",
            "prev_estimate",
            "estimator",
        } & set(options):
            continue
        handle = counted(ROWS, GAUSS)
        with pytest.raises((error, ValueError)):
            optimize(None, GAUSS, enc_data=handle, **options)
        assert handle.transport.tasks == []


@pytest.mark.parametrize(
    "options",
    [
        {"engine": "numpy"},
        {"precision": "float64"},
        {"precision": np.float64},
        {"precision": np.dtype("float64")},
        {"structure": "off", "schedule": "auto"},
        {"fused_options": {}},
        {"max_its": np.int64(3)},
        {"delta": np.float32(0.5)},
        {"init_p": 1},
        {"backend": None},
        {"backend": "LOCAL"},
        {"out": io.StringIO(), "print_iter": 0},
        {"max_seconds": 60},
    ],
    ids=lambda options: "-".join(f"{name}={type(value).__name__}" for name, value in options.items()),
)
def test_arguments_at_what_they_may_be(options):
    assert optimize(ROWS, GAUSS, **options).mu == pytest.approx(7 / 3)


def test_fused_options_are_ignored_aloud():
    with pytest.warns(UserWarning, match=r"fused_options \['tile'\] have no effect"):
        optimize(ROWS, GAUSS, fused_options={"tile": 3})


def test_an_engine_is_told_by_its_name():
    class Engine:
        name = "numpy"

    assert optimize(ROWS, GAUSS, engine=Engine()).digest() == optimize(ROWS, GAUSS).digest()
    Engine.name = "torch"
    with pytest.raises(ValueError, match="engine 'torch' is not available"):
        optimize(ROWS, GAUSS, engine=Engine())


def test_T15_more_components_than_rows_is_refused_before_any_work():
    rows = np.random.RandomState(0).randint(0, 100, size=(30, 30)).astype(float)
    with pytest.raises(ValueError, match=r"(?s)n=30.*K=100"):
        optimize(rows, mixture(100, DiagonalGaussianEstimator))
    handle = counted(rows, mixture(2, DiagonalGaussianEstimator))
    with pytest.raises(ValueError, match=r"K=100.*30|30.*K=100"):
        optimize(None, mixture(100, DiagonalGaussianEstimator), enc_data=handle)
    assert handle.transport.tasks == []


def test_T15_a_previous_estimate_may_have_more_components_than_rows():
    start = MixtureDistribution([GaussianDistribution(float(m), 1.0) for m in range(5)], [0.2] * 5)
    model = optimize([1.0, 2.0], mixture(5), prev_estimate=start, max_its=3)
    assert len(model.components) == 5
    assert sum(model.w) == pytest.approx(1.0)
    told = model.fit_provenance()
    assert told.final_objective > counted([1.0, 2.0], mixture(5)).pysp_seq_log_density_sum(start)[1]


def test_T15_the_start_estimator_is_the_one_that_counts():
    with pytest.raises(ValueError, match=r"n=3.*K=4"):
        optimize(ROWS, mixture(2), init_estimator=mixture(4))


def test_T15_rows_of_zero_weight_start_no_component():
    with pytest.raises(ValueError, match=r"2 rows of positive weight .n=2. cannot start 3 components"):
        optimize(ROWS, mixture(3), weights=[1.0, 0.0, 1.0])


def test_T19_one_row_fits_one_component_with_a_floored_variance():
    model = optimize([3.0], mixture(1))
    assert model.components[0].mu == 3.0
    assert 0 < model.components[0].sigma2 < 1e-6
    assert list(model.w) == [1.0]
    assert optimize([[3.0]], mixture(1, lambda: DiagonalGaussianEstimator(dim=1))).components[0].mu[0] == 3.0


def test_T19_one_row_cannot_start_two_components():
    with pytest.raises(ValueError, match=r"n=1.*K=2"):
        optimize([3.0], mixture(2))
    with pytest.raises(ValueError, match=r"n=1.*K=2"):
        best_of([3.0], None, mixture(2), 3, 5, 0.1, 1e-9)


@pytest.mark.parametrize("weights", [np.ones(356), [0.0, 0.0, 0.0]], ids=["length", "zero"])
def test_T39_weights_of_another_length_or_all_zero_are_refused(weights):
    rows = [[1, 2], [2, 2], [3, 4]]
    estimator = mixture(1, lambda: DiagonalGaussianEstimator(dim=2))
    with pytest.raises(ValueError, match="weights"):
        optimize(rows, estimator, weights=weights)
    with pytest.raises(ValueError, match="weights"):
        best_of(rows, None, estimator, 1, 5, 0.5, 1e-9, weights=weights)


def test_T41_a_row_of_55_columns_is_named_where_55_rows_were_meant():
    values = np.random.RandomState(0).gamma(2.0, 3.0, size=55)
    with pytest.raises(ValueError, match=r"n=1.*K=2.*a row of 55 columns was read"):
        optimize(values.reshape(1, 55), mixture(2, GammaEstimator))
    assert optimize(values, mixture(2, GammaEstimator)).num_components == 2


def test_T44_a_frame_with_any_index_fits_by_position():
    frame = pd.DataFrame({"kind": list("abab" * 10), "x": clusters(40), "n": np.arange(40) % 5})
    estimator = MixtureEstimator(
        [CompositeEstimator((CategoricalEstimator(), GaussianEstimator(), PoissonEstimator())) for _ in range(2)]
    )
    digests = {
        optimize(frame, estimator).digest(),
        optimize(list(zip(*(frame[c] for c in frame), strict=True)), estimator).digest(),
    }
    for index in (np.random.RandomState(0).permutation(40), [7] * 40, [f"r{i}" for i in range(40)]):
        digests.add(optimize(frame.set_axis(index, axis=0), estimator).digest())
        assert best_of(frame.set_axis(index, axis=0), frame, estimator, 1, 10, 0.1, 1e-9)[1].digest() in digests
    assert len(digests) == 1


def test_T46_numpy_integers_object_arrays_and_series_are_accepted():
    counts = np.array([1, 2, 3, 4, 9, 8], dtype="int64")
    expected = optimize([int(c) for c in counts], PoissonEstimator()).digest()
    frame = pd.DataFrame({"n": counts})
    forms = [
        counts,
        counts.astype("int32"),
        counts.astype("uint8"),
        counts.astype(object),
        list(counts),
        frame["n"],
        frame,
        {"n": counts},
    ]
    assert {optimize(form, PoissonEstimator()).digest() for form in forms} == {expected}
    labels = optimize(pd.Series(["a", "b", "a"], index=[3, 3, 1]), CategoricalEstimator())
    assert labels.digest() == optimize(["a", "b", "a"], CategoricalEstimator()).digest()


def test_T62_nothing_to_fit_and_impossible_parameters_are_refused():
    with pytest.raises(ValueError, match="received no observations"):
        optimize([], GAUSS)
    with pytest.raises(ValueError, match=r"-0\.5|negative|probabilit"):
        CategoricalDistribution({"a": 1.5, "b": -0.5})
    with pytest.raises(ValueError, match=r"weights|components"):
        MixtureDistribution([GaussianDistribution(0.0, 1.0)] * 2, [0.2, 0.3, 0.5])


def test_tables_of_columns_become_rows():
    columns = {"kind": ["a", "b", "a"], "x": np.array([1.0, 2.0, 4.0], dtype=np.float32)}
    rows = [("a", 1.0), ("b", 2.0), ("a", 4.0)]
    estimator = CompositeEstimator((CategoricalEstimator(), GaussianEstimator()))
    expected = optimize(rows, estimator).digest()
    structured = np.array(rows, dtype=[("kind", "U1"), ("x", float)])
    for table in (columns, pd.DataFrame(columns), structured):
        assert optimize(table, estimator).digest() == expected
    swapped = {"x": columns["x"], "other": [0, 0, 0], "kind": columns["kind"]}
    assert optimize(swapped, estimator, fields=["kind", "x"]).digest() == expected


def test_a_record_reads_the_columns_of_its_fields_from_a_table():
    frame = pd.DataFrame({"x": [1.0, 2.0, 4.0], "n": [1, 2, 3]}, index=[5, 5, 1])
    estimator = RecordEstimator({"n": PoissonEstimator(), "x": GaussianEstimator()})
    rows = [{"x": 1.0, "n": 1}, {"x": 2.0, "n": 2}, {"x": 4.0, "n": 3}]
    expected = optimize(rows, estimator).digest()
    for table in (frame, dict(frame), {"x": [1.0, 2.0, 4.0], "n": [1, 2, 3]}, frame.to_records(index=False)):
        assert optimize(table, estimator).digest() == expected
    wide = frame.assign(other="z")
    assert optimize(wide, estimator, fields=["x", "n"]).digest() == expected
    with pytest.raises(ValueError, match="other"):
        optimize(wide, estimator)
    two = MixtureEstimator([RecordEstimator({"n": PoissonEstimator(), "x": GaussianEstimator()}) for _ in range(2)])
    assert optimize(frame, two).digest() == optimize(rows, two).digest()


def test_one_column_is_values_to_a_leaf_and_tuples_to_a_composite():
    frame = pd.DataFrame({"kind": ["a", "b", "a"]})
    assert optimize(frame, CategoricalEstimator()).pmap["a"] == pytest.approx(2 / 3)
    composite = optimize(frame, CompositeEstimator((CategoricalEstimator(),)))
    assert composite.dists[0].pmap["a"] == pytest.approx(2 / 3)
    assert optimize(frame, OptionalEstimator(CategoricalEstimator())).density("b") == pytest.approx(1 / 3)


def test_missing_marks_of_a_frame_are_missing_to_optional():
    frame = pd.DataFrame(
        {"k": pd.array(["a", None, "b", "a"], dtype="string"), "n": pd.array([1, 2, None, 3], dtype="Int64")}
    )
    estimator = CompositeEstimator((OptionalEstimator(CategoricalEstimator()), OptionalEstimator(PoissonEstimator())))
    rows = [("a", 1), (None, 2), ("b", None), ("a", 3)]
    assert optimize(frame, estimator).digest() == optimize(rows, estimator).digest()
    with pytest.raises(ValueError, match="Optional"):
        optimize(frame, CompositeEstimator((CategoricalEstimator(), PoissonEstimator())))


def test_a_user_family_names_its_bad_row_type_itself():
    with pytest.raises(ValueError, match="could not convert"):
        optimize([1.0, "x"], WaitEstimator())


def test_encoded_data_win_over_rows():
    chunks = seq_encode(ROWS, estimator=GAUSS)
    assert optimize([100.0], GAUSS, enc_data=chunks).mu == pytest.approx(7 / 3)


@pytest.mark.parametrize("seed", [-1, 2**32, 10**5000], ids=["below", "above", "far above"])
def test_an_int_that_is_no_seed(seed):
    for name in ("seed", "rng"):
        with pytest.raises(ValueError, match=rf"{name} must be an int from 0 to 2\*\*32 - 1"):
            optimize([1.0, 2.0], GaussianEstimator(), out=None, **{name: seed})
