"""Small inputs behind public bug reports, as far as families and combinators are concerned."""

import math
import re
import warnings

import numpy as np
import pytest

import mixle.stats as st
from bits import bits, statistic
from mixle.errors import RowError
from mixle.inference import optimize
from models import MODELS

NAN = math.nan


def fit(estimator, rows):
    return estimator.estimate(float(len(rows)), statistic(estimator, rows))


def test_T01_single_rows_in_float32_have_the_floored_variance():
    for value in np.array([[9999], [0]], np.float32):
        fitted = fit(st.GaussianEstimator(min_covar=0.1), value)
        assert (fitted.mu, fitted.sigma2) == (float(value[0]), 0.1)
        assert isinstance(fitted.sigma2, float)
        wide = fit(st.MultivariateGaussianEstimator(min_covar=0.1), value.reshape(1, 1))
        assert wide.covar.dtype == np.float64
        assert wide.covar[0, 0] == pytest.approx(0.1, rel=1e-15)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("leaf", [st.GaussianEstimator(min_covar=0.1), st.DiagonalGaussianEstimator(1, min_covar=0.1)])
def test_T01_two_rows_are_two_components_of_the_floored_variance(leaf, seed):
    data = np.array([[9999], [0]], np.float32)
    data = data if isinstance(leaf, st.DiagonalGaussianEstimator) else data[:, 0]
    found = optimize(data, st.MixtureEstimator([leaf] * 2), out=None, rng=np.random.RandomState(seed))
    parts = sorted((float(np.ravel(d.mu)[0]), d) for d in found.components)
    assert [mean for mean, _ in parts] == [0.0, 9999.0]
    assert [float(np.ravel(getattr(d, "sigma2", getattr(d, "covar", None)))[0]) for _, d in parts] == [0.1, 0.1]
    assert found.w.tolist() == [0.5, 0.5]


def test_T11_a_plain_list_of_numbers_is_one_column():
    fitted = fit(st.GaussianEstimator(), [1, 1, 1, 1, 1, 1, 2, 2, 2, 2])
    assert fitted.mu == pytest.approx(1.4)
    assert fitted.sigma2 == pytest.approx(0.24)
    one = fit(st.GaussianEstimator(), [1] * 6)
    assert one.mu == 1.0
    assert one.sigma2 == pytest.approx(2.0**-80)


@pytest.mark.parametrize("symbols", [[1, 2, 2, 2, 2, 1], [1, 2, 2, 2, 2, 4, 2, 4, 2], [-7, 7], [3]])
def test_T26_T27_symbols_need_not_start_at_zero_nor_be_dense(symbols):
    for estimator in (st.CategoricalEstimator(), st.IntegerCategoricalEstimator()):
        fitted = fit(estimator, symbols)
        for s in set(symbols):
            assert fitted.density(s) == pytest.approx(symbols.count(s) / len(symbols))


def test_T28_an_unseen_symbol_scores_by_the_declared_support():
    rows = [0, 0, 2, 2, 0, 0]
    assert fit(st.CategoricalEstimator(), rows).log_density(1) == -math.inf
    assert fit(st.IntegerCategoricalEstimator(), rows).log_density(1) == -math.inf
    assert fit(st.IntegerCategoricalEstimator(0, 3, pseudo_count=4.0), rows).density(1) == pytest.approx(0.1)
    assert fit(st.CategoricalEstimator(default_value=True), rows).density(1) == pytest.approx((1 / 36) / (1 + 1 / 36))


@pytest.mark.parametrize("missing", [NAN, None, np.nan, np.float32("nan")])
def test_T31_labels_with_missing_values(missing):
    a, b = list("xyzxyz"), ["u", "u", "v", "v", missing, missing]
    estimator = st.CompositeEstimator(
        [st.CategoricalEstimator(), st.OptionalEstimator(st.CategoricalEstimator(), est_prob=True)]
    )
    fitted = fit(estimator, list(zip(a, b, strict=True)))
    assert fitted.dists[1].p == pytest.approx(1 / 3)
    assert fitted.dists[1].dist.pmap == {"u": 0.5, "v": 0.5}
    assert fitted.density(("x", missing)) == pytest.approx(1 / 9)


def test_T31_none_and_nan_may_be_mixed():
    rows = ["u", None, "v", NAN]
    encoded = (
        st.OptionalEstimator(st.CategoricalEstimator()).accumulator_factory().make().acc_to_encoder().seq_encode(rows)
    )
    assert encoded.present.tolist() == [0, 2]


def test_T32_a_table_of_strings_with_one_nan():
    rows = [
        ("red", "A", "1"),
        ("red", NAN, "2"),
        ("blue", "B", "1"),
        ("blue", "B", "2"),
        ("red", "A", "3"),
        ("x", "C", "3"),
    ]
    column = st.OptionalEstimator(st.CategoricalEstimator(pseudo_count=1.0))
    fitted = fit(st.CompositeEstimator([column] * 3), rows)
    assert all(math.isfinite(fitted.log_density(row)) for row in rows)


def test_T33_strings_are_never_asked_whether_they_are_nan():
    rows = ["nan", "NaN", "", "x"]
    fitted = fit(st.OptionalEstimator(st.CategoricalEstimator(), est_prob=True), rows)
    assert fitted.p == 0.0
    assert fitted.dist.pmap == dict.fromkeys(rows, 0.25)
    with pytest.raises(RowError, match="'nan' is not a number"):
        fit(st.GaussianEstimator(), ["nan"])


def test_T34_a_categorical_with_nan_works_under_optional_and_says_so_without():
    rows = [1.0, 2.0, NAN, 1.0]
    fitted = fit(st.OptionalEstimator(st.CategoricalEstimator()), rows)
    assert fitted.dist.pmap == pytest.approx({1.0: 2 / 3, 2.0: 1 / 3})
    for estimator in (st.CategoricalEstimator(), st.IntegerCategoricalEstimator()):
        with pytest.raises(RowError, match=r"^Row 2 .*nan.*Optional"):
            fit(estimator, rows)
    table = fit(st.OptionalEstimator(st.IntegerCategoricalEstimator()), rows)
    assert table.dist.p_vec == pytest.approx([2 / 3, 1 / 3])


def test_T37_missing_values_are_marginalised_under_optional():
    rows = [(1.0, 5), (NAN, 6), (3.0, 7)]
    whole = st.CompositeEstimator([st.OptionalEstimator(st.GaussianEstimator()), st.PoissonEstimator()])
    fitted = fit(whole, rows)
    assert fitted.dists[0].dist.mu == 2.0
    assert fitted.log_density((NAN, 6)) == fitted.dists[1].log_density(6)


@pytest.mark.parametrize(
    "name", [n for n in sorted(MODELS) if MODELS[n]().leaf and "mixed" not in n and n != "point mass"]
)
def test_T37_elsewhere_nan_is_refused_and_optional_proposed(name):
    model = MODELS[name]()
    bad = (
        [NAN] * len(model.rows[0]) if hasattr(model.rows[0], "__len__") and not isinstance(model.rows[0], str) else NAN
    )
    estimator = st.CompositeEstimator([st.PoissonEstimator(), model.estimator])
    with pytest.raises(RowError, match=r"^Row 1, field 1.*nan.*OptionalEstimator"):
        fit(estimator, [(1, model.rows[0]), (2, bad)])


def test_T38_missing_elements_of_a_sequence():
    inner = st.OptionalEstimator(st.CategoricalEstimator(), est_prob=True)
    fitted = fit(st.SequenceEstimator(inner, st.PoissonEstimator()), [["a", None, "b"], [None], []])
    assert fitted.dist.p == 0.5
    with pytest.raises(RowError, match=r"^Row 1, field 0 .*nan"):
        fit(st.SequenceEstimator(st.CategoricalEstimator()), [["a"], [NAN]])


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint16, np.float32, np.bool_, object])
def test_T46_every_number_type_is_read(kind):
    values = np.array([1, 0, 1, 1], dtype=kind)
    for estimator in (
        st.GaussianEstimator(),
        st.PoissonEstimator(),
        st.BernoulliEstimator(),
        st.IntegerCategoricalEstimator(),
    ):
        plain = fit(estimator, [1, 0, 1, 1])
        for rows in (values, list(values), tuple(values)):
            assert fit(estimator, rows).digest() == plain.digest()


def test_T46_integers_beyond_float64_are_refused_by_row():
    with pytest.raises(RowError, match="Row 1 "):
        fit(st.GaussianEstimator(), [1, 10**400])


@pytest.mark.parametrize("name", sorted(MODELS))
def test_T59_outside_is_minus_infinity_whatever_the_neighbours(name):
    model = MODELS[name]()
    for row in model.outside:
        encoder = model.dist.dist_to_encoder()
        scores = model.dist.seq_log_density(encoder.seq_encode([row, *model.rows[:4], row]))
        assert scores[0] == scores[-1] == -math.inf
        assert np.isfinite(scores[1:-1]).all()


def test_T59_every_row_outside_is_still_minus_infinity():
    for name in sorted(MODELS):
        model = MODELS[name]()
        for row in model.outside:
            encoder = model.dist.dist_to_encoder()
            assert (model.dist.seq_log_density(encoder.seq_encode([row] * 3)) == -math.inf).all()


@pytest.mark.parametrize(
    "name", ["gaussian", "log gaussian", "exponential", "gamma", "uniform", "multivariate gaussian"]
)
def test_T63_float32_fits_as_its_float64_copy(name):
    model = MODELS[name]()
    narrow = np.array(model.rows, np.float32)
    wide = narrow.astype(float)
    value = statistic(model.estimator, narrow)
    assert bits(value) == bits(statistic(model.estimator, wide))
    assert bits(value) == bits(statistic(model.estimator, list(narrow)))
    assert (
        model.estimator.estimate(None, value).to_json()
        == model.estimator.estimate(None, statistic(model.estimator, wide)).to_json()
    )


EXTREMES = {
    "constant": [1.0] * 40,
    "half": [0.5] * 40,
    "denormal": [5e-324] * 20 + [1e-310] * 5,
    "huge": [1e300] * 20 + [1e299],
    "tiny and huge": [1e-300, 1e300] * 10,
    "both signs": [-1e300, 1e300] * 4,
    "integers of 52 bits": [2.0**52] * 5 + [1.0] * 5,
    "two values": [1.0, 2.0] * 20,
    "zeros": [0.0] * 20,
    "many sizes": [10.0**k for k in range(-10, 11)],
}
OF_A_NUMBER = sorted(
    name.removesuffix("Estimator")
    for name in st.__all__
    if name.endswith("Estimator")
    and hasattr(getattr(st, name), "leaf")
    and not getattr(st, name).leaf.vector
    and name not in {"CategoricalEstimator", "IntegerCategoricalEstimator"}
)


@pytest.mark.parametrize("rows", EXTREMES.values(), ids=EXTREMES)
@pytest.mark.parametrize("components", [1, 2])
@pytest.mark.parametrize("family", OF_A_NUMBER)
def test_extreme_rows_are_fitted_or_refused_by_row(family, components, rows):
    """Never a NaN, an overflow warning or another error."""
    estimator = getattr(st, f"{family}Estimator")()
    estimator = estimator if components == 1 else st.MixtureEstimator([estimator] * components)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "EM stopped after|.* supported by no component")
        try:
            model = optimize(rows, estimator, max_its=5, delta=None, seed=1)
        except ValueError as error:
            refusal = str(error)
        else:
            refusal = ""
    if refusal:
        assert re.search(r"Row \d+|finite objective|no component supports", refusal)
        return
    assert not np.isnan(model.seq_log_density(model.dist_to_encoder().seq_encode(rows))).any()
