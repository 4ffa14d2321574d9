"""The scikit-learn interface passes scikit-learn's own checks, and does with frames what its users do."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import mixle
from mixle.sklearn import HiddenMarkovModel, MixtureModel

EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "a start draws rows, so repeated rows draw another start than "
    "weighted ones; from one start the two agree (see test_a_weight_of_two_is_a_row_twice)",
}
RNG = np.random.RandomState(5)
X = np.concatenate([RNG.normal(0.0, 1.0, (100, 2)), RNG.normal(6.0, 1.0, (100, 2))])
FRAME = pd.DataFrame(
    {"kind": ["a"] * 100 + ["b"] * 100, "size": X[:, 0], "gap": np.where(X[:, 1] > 7, np.nan, X[:, 1])}
)


@parametrize_with_checks([MixtureModel(n_components=2)], expected_failed_checks=lambda _: EXPECTED)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_float32_is_a_parameter():
    wide, narrow = (MixtureModel(2, precision=precision).fit(X) for precision in ("float64", "float32"))
    assert clone(narrow).get_params()["precision"] == "float32"
    assert [m.model_.fit_provenance().precision for m in (wide, narrow)] == ["float64", "float32"]
    assert narrow.score(X) == pytest.approx(wide.score(X), abs=1e-4)
    streamed = [MixtureModel(2, precision=precision).partial_fit(X).model_ for precision in ("float64", "float32")]
    assert streamed[0].digest() != streamed[1].digest()
    with pytest.raises(ValueError, match="precision 'half' is not supported"):
        MixtureModel(2, precision="half").fit(X)


@pytest.mark.parametrize("law", ["diag", "full"])
def test_arrays_fit_as_with_scikit_learns_mixture(law):
    ours = MixtureModel(2, law=law, tol=1e-9).fit(X)
    theirs = GaussianMixture(2, covariance_type=law, tol=1e-9, max_iter=500, random_state=0).fit(X)
    assert ours.score(X) == pytest.approx(theirs.score(X), abs=1e-5)
    assert ours.bic(X) == pytest.approx(theirs.bic(X), rel=1e-5)
    assert ours.aic(X) == pytest.approx(theirs.aic(X), rel=1e-5)
    assert ours.lower_bound_ == pytest.approx(ours.score(X), rel=1e-9)
    assert ours.converged_
    assert len(set(ours.predict(X)[:100])) == len(set(ours.predict(X)[100:])) == 1


def test_a_weight_of_two_is_a_row_twice():
    first = MixtureModel(2).fit(X)
    weights = RNG.randint(0, 3, len(X))
    models = []
    for rows, given in ((X, weights), (np.repeat(X, weights, axis=0), None)):
        model = clone(first).set_params(warm_start=True, tol=1e-12)
        model.model_ = first.model_
        models.append(model.fit(rows, sample_weight=given))
    assert models[0].score(X) == pytest.approx(models[1].score(X), rel=1e-9)
    assert models[0].lower_bound_ == pytest.approx(models[1].lower_bound_, rel=1e-9)


def test_frames_are_fitted_by_their_schema():
    model = MixtureModel(2, n_init=3).fit(FRAME)
    assert [field.family for field in model.schema_] == ["Categorical", "Gaussian", "Gaussian"]
    assert model.schema_["gap"].missing > 0
    assert model.feature_names_in_.tolist() == ["kind", "size", "gap"]
    assert len(set(model.labels_[:100])) == len(set(model.labels_[100:])) == 1
    assert model.labels_[0] != model.labels_[199]
    assert np.allclose(model.predict_proba(FRAME).sum(axis=1), 1.0)
    assert model.predict(FRAME.assign(kind="c")).tolist() == model.predict(FRAME).tolist()
    rows, labels = model.sample(5)
    assert set(rows) == {"kind", "size", "gap"}
    assert labels.shape == (5,)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(FRAME.rename(columns={"size": "length"}))
    told = MixtureModel(2, law=mixle.schema(FRAME).replace(gap="Ignored")).fit(FRAME)
    assert [field.name for field in told.schema_.used] == ["kind", "size"]


def test_pipelines_searches_clones_and_pickles():
    search = GridSearchCV(MixtureModel(), {"n_components": [1, 2]}, cv=3).fit(X)
    assert search.best_params_ == {"n_components": 2}
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), MixtureModel(2, law="full")).fit(X)
    assert len(set(pipeline.predict(X)[:100])) == 1
    model = MixtureModel(2).fit(X)
    again = pickle.loads(pickle.dumps(model))
    assert again.model_.digest() == model.model_.digest() == clone(model).fit(X).model_.digest()


def test_a_pool_fits_to_the_same_bits():
    rows = np.tile(X, (15, 1))
    assert MixtureModel(2, n_jobs=2).fit(rows).model_.digest() == MixtureModel(2).fit(rows).model_.digest()
    assert MixtureModel(n_jobs=2)._pool() == ("mp", {"num_workers": 2})
    assert MixtureModel(n_jobs=1)._pool() == ("local", {})
    assert MixtureModel(n_jobs=-1, backend="dask")._pool()[0] == "dask"


def test_samples_and_warm_starts():
    model = MixtureModel(2, random_state=3).fit(X)
    rows, labels = model.sample(1000)
    assert rows.shape == (1000, 2)
    assert labels.tolist() == sorted(labels)
    assert (model.predict(rows) == labels).mean() > 0.99
    warm = MixtureModel(2, warm_start=True, max_iter=500, tol=1e-9).fit(X)
    assert warm.fit(X).n_iter_ == 1
    with pytest.raises(ValueError, match="n_samples must be at least 1"):
        model.sample(0)


def test_what_is_refused_and_warned_of():
    with pytest.raises(NotFittedError):
        MixtureModel().predict(X)
    with pytest.raises(ValueError, match="law must be one of auto, diag, full"):
        MixtureModel(law="tied").fit(X)
    with pytest.raises(TypeError, match="law is 3; pass one of auto, diag, full, or a Schema"):
        MixtureModel(law=3).fit(X)
    for name, wrong in {
        "n_components": (0, 2.0, "2", None, True), "max_iter": (0, "a"), "n_init": (0, 1.5), "tol": (0, -1, "a", None),
        "reg_covar": (-1e-6, "a", float("nan")), "n_jobs": (0, "2", 1.5, True),
    }.items():  # fmt: skip
        for bad in wrong:
            for fit in (MixtureModel.fit, MixtureModel.partial_fit):
                with pytest.raises(ValueError, match=f"^{name} must be a .*, not {bad!r}"):
                    fit(MixtureModel(**{"n_components": 2, name: bad}), X)
    with pytest.raises(ValueError, match="n_samples=3 rows cannot be fitted by n_components=4"):
        MixtureModel(4).fit(X[:3])
    with pytest.warns(ConvergenceWarning, match="EM had not converged after 1 iterations"):
        MixtureModel(2, max_iter=1, tol=1e-12).fit(X)


def test_an_array_is_read_by_position_where_a_frame_was_fitted():
    model = MixtureModel(2).fit(FRAME)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        found = model.predict(FRAME.to_numpy())
    assert np.array_equal(found, model.predict(FRAME))
    with (
        pytest.warns(UserWarning, match="valid feature names"),
        pytest.raises(ValueError, match="X has 2 features, but MixtureModel is expecting 3"),
    ):
        model.predict(X)


def test_partial_fits_go_on_from_batch_to_batch():
    rng = np.random.RandomState(2)
    batches = [X[rng.permutation(len(X))[:80]] for _ in range(30)]
    model = MixtureModel(2)
    for batch in batches:
        model.partial_fit(batch)
    assert model.n_iter_ == len(model.lower_bounds_) == 30
    assert not model.converged_
    assert model.labels_.shape == (80,)
    assert model.score(X) == pytest.approx(MixtureModel(2).fit(X).score(X), abs=0.02)
    fitted = MixtureModel(2).fit(X)
    before = fitted.lower_bound_
    assert fitted.partial_fit(X).n_iter_ == 1
    assert fitted.lower_bound_ == pytest.approx(before, abs=1e-3)
    assert fitted.fit(X).converged_
    again = pickle.loads(pickle.dumps(model))
    assert again.partial_fit(batches[0]).model_.digest() == model.partial_fit(batches[0]).model_.digest()
    framed = MixtureModel(2).partial_fit(FRAME).partial_fit(FRAME)
    assert framed.schema_["gap"].missing > 0
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :1])
    with pytest.raises(ValueError, match=r"2 rows .* cannot start 5 components"):
        MixtureModel(5).partial_fit(X[:2])


def test_lower_bounds_rise_to_the_last():
    for model in (MixtureModel(3, n_init=2).fit(X), HiddenMarkovModel(3).fit(X)):
        assert len(model.lower_bounds_) == model.n_iter_ > 1
        assert (np.diff(model.lower_bounds_) >= -1e-12).all()
        assert model.lower_bounds_[-1] == pytest.approx(model.lower_bound_, rel=1e-12)
