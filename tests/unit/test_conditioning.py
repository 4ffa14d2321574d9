"""Parts of a model: marginal and conditional laws, and missing fields filled in."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

import mixle
from mixle.errors import ContractError, ImpossibleEvidenceError, RowError
from mixle.inference import conditional, impute, marginal, posterior
from mixle.stats import (
    BernoulliDistribution,
    CategoricalDistribution,
    CompositeDistribution,
    DiagonalGaussianDistribution,
    GaussianDistribution,
    GaussianMixtureDistribution,
    LogGaussianDistribution,
    MixtureDistribution,
    MultivariateGaussianDistribution,
    NullDistribution,
    OptionalDistribution,
    PoissonDistribution,
    RecordDistribution,
)
from mixle.stats.means import _MEANS, label_shares, mean_of
from models import MODELS

PARTS = [
    (0.6, {"a": 0.9, "b": 0.1}, GaussianDistribution(0.0, 1.0), PoissonDistribution(2.0)),
    (0.4, {"a": 0.2, "b": 0.8}, GaussianDistribution(4.0, 0.5), PoissonDistribution(9.0)),
]
TUPLES = MixtureDistribution(
    [CompositeDistribution((CategoricalDistribution(kind), x, n)) for _, kind, x, n in PARTS], [0.6, 0.4]
)
RECORDS = MixtureDistribution(
    [RecordDistribution({"kind": CategoricalDistribution(kind), "x": x, "n": n}) for _, kind, x, n in PARTS], [0.6, 0.4]
)
COVAR = np.array([[2.0, 0.6, 0.3], [0.6, 1.0, -0.2], [0.3, -0.2, 1.5]])
NORMAL = MultivariateGaussianDistribution([1.0, -1.0, 0.5], COVAR)


def test_a_marginal_sums_over_the_other_fields():
    one = marginal(TUPLES, 1)
    for x in (-1.0, 2.0):
        total = sum(w * law.density(x) for w, _, law, _ in PARTS)
        assert one.density(x) == pytest.approx(total, rel=1e-12)
    pair = marginal(RECORDS, ["n", "kind"])
    assert pair.density({"n": 3, "kind": "a"}) == pytest.approx(
        sum(RECORDS.density({"kind": "a", "x": x, "n": 3}) for x in np.arange(-9.0, 12.0, 0.01)) * 0.01, rel=1e-6
    )
    assert marginal(RECORDS.components[0], "x").mu == 0.0


def test_a_conditional_is_the_joint_over_the_marginal():
    seen = {"kind": "b", "n": 4}
    law = conditional(RECORDS, seen)
    assert list(law.components[0].fields) == ["x"]
    for x in (-2.0, 0.5, 3.5):
        expected = RECORDS.density({"x": x, **seen}) / marginal(RECORDS, ["kind", "n"]).density(seen)
        assert law.density({"x": x}) == pytest.approx(expected, rel=1e-12)
    again = conditional(TUPLES, {0: "b", 2: 4})
    assert np.allclose(again.w, law.w, rtol=1e-14)
    assert again.density((0.5,)) == pytest.approx(law.density({"x": 0.5}), rel=1e-14)
    drawn = np.array([row["x"] for row in law.sampler(1).sample(4000)])
    assert drawn.mean() == pytest.approx(float(np.dot(law.w, [0.0, 4.0])), abs=0.1)
    assert isinstance(conditional(RECORDS.components[1], {"n": 1}), RecordDistribution)


def test_normal_laws_of_vectors():
    mixture = GaussianMixtureDistribution([[1.0, -1.0, 0.5], [0.0, 2.0, 0.0]], [COVAR, np.eye(3)], [0.3, 0.7])
    for model in (NORMAL, mixture):
        law = conditional(model, {0: 1.7, 2: 0.1})
        for y in (-1.0, 0.5):
            expected = model.density(np.array([1.7, y, 0.1])) / marginal(model, [0, 2]).density(np.array([1.7, 0.1]))
            assert law.density(np.array([y])) == pytest.approx(expected, rel=1e-10)
    kept = marginal(NORMAL, [2, 0])
    assert kept.density(np.array([0.2, 1.0])) == pytest.approx(
        multivariate_normal([0.5, 1.0], [[1.5, 0.3], [0.3, 2.0]]).pdf([0.2, 1.0]), rel=1e-12
    )
    assert marginal(NORMAL, 1).sigma2 == 1.0
    diagonal = DiagonalGaussianDistribution([0.0, 1.0, 2.0], [1.0, 2.0, 3.0])
    assert conditional(diagonal, {1: 5.0}).covar.tolist() == [1.0, 3.0]
    assert marginal(diagonal, 2).sigma2 == 3.0


REFUSED = [
    (lambda: marginal(RECORDS, "size"), ContractError, r"no fields \['size'\]; it has \['kind', 'x', 'n'\]"),
    (lambda: marginal(TUPLES, [0, 7]), ContractError, r"no fields \[7\]; it has \[0, 1, 2\]"),
    (lambda: marginal(PoissonDistribution(1.0), 0), ContractError, "a Poisson has no fields to tell apart"),
    (lambda: conditional(RECORDS, {}), ContractError, r"pass some of \['kind', 'x', 'n'\] with their values"),
    (lambda: conditional(TUPLES, {0: "a", 1: 0.0, 2: 1}), ContractError, "every field is observed"),
    (lambda: conditional(RECORDS, {"kind": "z"}), ImpossibleEvidenceError, "no component supports"),
    (lambda: impute(RECORDS, [{"kind": "a"}]), ContractError, r"row 0 .* has other fields than the model"),
    (lambda: impute(RECORDS, [{"kind": "a", "x": "y", "n": None}]), RowError, "'y' is not a number"),
    (lambda: impute(NORMAL, [[1.0, None, 2.0]]), ContractError, "parts of a vector are not filled in"),
    (lambda: impute(RECORDS, [{"kind": "a", "x": 1.0, "n": None}], how="mode"), ValueError, "how must be one of mean"),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED, ids=[message for *_, message in REFUSED])
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_filled_in_numbers_and_labels_are_those_of_the_conditional_law():
    rows = [{"kind": None, "x": 3.5, "n": None}, {"kind": "a", "x": None, "n": 3}, {"kind": "b", "x": 1.0, "n": 1}]
    found = impute(RECORDS, rows)
    w = conditional(RECORDS, {"x": 3.5}).w
    assert found[0]["n"] == pytest.approx(float(w @ [2.0, 9.0]), rel=1e-12)
    assert found[0]["kind"] == "b"
    assert found[1]["x"] == pytest.approx(float(conditional(RECORDS, {"kind": "a", "n": 3}).w @ [0.0, 4.0]), rel=1e-9)
    assert found[2] == rows[2]
    assert impute(TUPLES, [(None, 3.5, None)])[0] == (found[0]["kind"], 3.5, found[0]["n"])
    assert impute(RECORDS.components[0], rows)[1]["x"] == 0.0


def test_every_form_of_rows_comes_back():
    frame = pd.DataFrame({"n": [1.0, 2.0], "kind": ["a", None], "x": [np.nan, 4.0]})
    found = impute(RECORDS, frame)
    assert list(found) == ["kind", "x", "n"]
    assert found["kind"] == ["a", "b"]
    parts = [CompositeDistribution((GaussianDistribution(mean, 1.0),) * 2) for mean in (0.0, 9.0)]
    pair = MixtureDistribution(parts, [0.5, 0.5])
    filled = impute(pair, np.array([[9.0, np.nan], [np.nan, 0.1]]))
    assert filled == pytest.approx(np.array([[9.0, 9.0], [0.0, 0.1]]), abs=1e-6)


def test_draws_follow_the_conditional_law_together():
    rows = [{"kind": None, "x": None, "n": 6}] * 6000
    law = conditional(RECORDS, {"n": 6})
    drawn = impute(RECORDS, rows, how="draw", seed=2)
    assert drawn == impute(RECORDS, rows, how="draw", seed=2)
    assert drawn != impute(RECORDS, rows, how="draw", seed=3)
    high = np.array([row["x"] > 2.0 for row in drawn])
    is_b = np.array([row["kind"] == "b" for row in drawn])
    assert high.mean() == pytest.approx(float(law.w[1]), abs=0.05)
    joint = float(law.w[1]) * 0.8 * 0.9977 + float(law.w[0]) * 0.1 * 0.0228
    assert (high & is_b).mean() == pytest.approx(joint, abs=0.03)


def test_a_missing_value_tells_where_the_model_knows_how_often_one_is():
    def part(p, mean):
        value = OptionalDistribution(GaussianDistribution(mean, 1.0), p)
        return CompositeDistribution((value, PoissonDistribution(3.0)))

    model = MixtureDistribution([part(0.1, 0.0), part(0.9, 5.0)], [0.5, 0.5])
    assert impute(model, [(None, 3)])[0][0] == pytest.approx(0.9 * 5.0)
    assert impute(model, [(None, None)])[0] == pytest.approx((4.5, 3.0))
    sentinel = OptionalDistribution(GaussianDistribution(1.0, 1.0), 0.5, -9)
    marked = CompositeDistribution((sentinel, PoissonDistribution(3.0)))
    assert impute(marked, [(-9, 3)]) == [(1.0, 3)]
    silent = MixtureDistribution([part(None, 0.0), part(None, 5.0)], [0.5, 0.5])
    assert impute(silent, [(None, 3)])[0][0] == pytest.approx(2.5)


def test_what_says_nothing_stays():
    model = MixtureDistribution([CompositeDistribution((NullDistribution(), law)) for *_, law in PARTS], [0.6, 0.4])
    assert impute(model, [(None, 3), ("x", None)])[0] == (None, 3)
    sure = CategoricalDistribution({"a": 1.0})
    seen = MixtureDistribution([CompositeDistribution((sure, law)) for *_, law in PARTS], [0.6, 0.4])
    assert impute(seen, [("never", None)])[0][1] == pytest.approx(0.6 * 2.0 + 0.4 * 9.0)


def test_a_fit_of_a_table_fills_its_columns():
    rng = np.random.RandomState(4)
    high = rng.random_sample(400) < 0.5
    frame = pd.DataFrame({"kind": np.where(high, "b", "a"), "x": np.where(high, 9.0, 1.0) + rng.normal(0, 0.3, 400)})
    holed = frame.assign(x=frame["x"].where(np.arange(400) % 5 > 0), kind=frame["kind"].where(np.arange(400) % 7 > 0))
    fitted = mixle.fit(holed, components=2)
    found = fitted.impute(holed)
    gone = holed["x"].isna() & holed["kind"].notna()
    assert np.abs(np.array(found["x"]) - frame["x"])[gone].max() < 1.5
    lost = holed["kind"].isna() & holed["x"].notna()
    assert (np.array(found["kind"])[lost] == frame["kind"][lost]).all()
    assert set(fitted.impute({"x": 9.0, "kind": None})) == {"kind", "x"}


MEANS = sorted(
    name for name, make in MODELS.items() if type(make().dist).__name__.removesuffix("Distribution") in _MEANS
)


@pytest.mark.parametrize("name", MEANS)
def test_means_are_those_of_many_draws(name):
    law = MODELS[name]().dist
    shares = label_shares(law)
    try:
        mean = np.asarray(mean_of(law), float)
    except (ContractError, TypeError):  # of labels, sequences or rows: the parts of a mixture have no mean
        assert shares is not None or hasattr(law, "components") or hasattr(law, "dist")
        return
    if not np.isfinite(mean).all():
        return
    if type(law).__name__ == "VonMisesDistribution":
        draws = np.array(law.sampler(5).sample(20000))
        assert np.angle(np.exp(1j * draws).mean()) == pytest.approx(float(mean), abs=0.05)
        return
    gone = getattr(law, "missing_value", None)
    kept = [row for row in law.sampler(5).sample(20000) if row is not None and (gone is None or row != gone)]
    draws = np.array(kept, float)
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - mean) <= 6.0 * error + 1e-12).all()


def test_shares_and_means_of_labels():
    assert label_shares(CategoricalDistribution({"a": 0.25, "b": 0.75})) == {"a": 0.25, "b": 0.75}
    assert label_shares(BernoulliDistribution(0.25)) == {True: 0.25, False: 0.75}
    assert label_shares(GaussianDistribution(0.0, 1.0)) is None
    assert mean_of(LogGaussianDistribution(0.0, 1.0)) == pytest.approx(np.exp(0.5))
    with pytest.raises(ContractError, match="the mean of a Categorical is not known; draw values instead"):
        mean_of(CategoricalDistribution({"a": 1.0}))


def test_posterior_and_filled_rows_agree():
    rows = [{"kind": "a", "x": 0.4, "n": 2}, {"kind": "b", "x": 2.0, "n": 7}]
    one = posterior(RECORDS, rows)
    two = np.array([conditional(RECORDS, {"kind": r["kind"], "x": r["x"]}).w for r in rows])
    likelihood = np.array([[law.density(r["n"]) for *_, law in PARTS] for r in rows])
    expected = two * likelihood
    assert np.allclose(one, expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)
