"""Hidden Markov models through scikit-learn's interface, with hmmlearn's arguments and results."""

import itertools
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import mixle
from mixle.sklearn import HiddenMarkovModel
from mixle.stats import CategoricalEstimator, PoissonEstimator

EXPECTED = {
    "check_methods_subset_invariance": "an observation's state hangs on its neighbours, so a part of a sequence is "
    "another sequence",
    "check_methods_sample_order_invariance": "for the same reason another order is another sequence",
}
LENGTHS = [40, 60, 50]
RNG = np.random.RandomState(7)


def chain(length, rng=RNG):
    """Return a path that stays where it is with probability 0.9."""
    return np.cumsum(rng.random_sample(length) < 0.1) % 2


PATH = np.concatenate([chain(n) for n in LENGTHS])
X = np.column_stack([RNG.normal(6.0 * PATH, 1.0), RNG.normal(-3.0 * PATH, 1.0)])
FRAME = pd.DataFrame({"size": X[:, 0], "kind": np.where(PATH == 1, "b", "a"), "gap": np.where(X[:, 1] > 1, np.nan, 2)})


def listed(values):
    return np.split(values, np.cumsum(LENGTHS)[:-1])


@parametrize_with_checks([HiddenMarkovModel(n_components=2)], expected_failed_checks=lambda _: EXPECTED)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_states_are_found():
    model = HiddenMarkovModel(2).fit(X, lengths=LENGTHS)
    found = model.predict(X, LENGTHS)
    assert found.shape == (150,)
    assert (found == PATH).mean() in (pytest.approx(1.0, abs=0.02), pytest.approx(0.0, abs=0.02))
    assert model.converged_
    assert model.startprob_.shape == (2,)
    assert np.allclose(model.transmat_.sum(axis=1), 1.0)
    assert np.diag(model.transmat_).min() > 0.8
    chances = model.predict_proba(X, LENGTHS)
    assert np.allclose(chances.sum(axis=1), 1.0)
    assert (chances.argmax(axis=1) == found).mean() > 0.98
    assert model.score(X, lengths=LENGTHS) == pytest.approx(150 * model.lower_bound_, rel=1e-9)
    total, again = model.score_samples(X, LENGTHS)
    assert total == model.score(X, lengths=LENGTHS)
    assert np.array_equal(again, chances)


def test_every_form_of_the_same_sequences_is_one_model():
    model = HiddenMarkovModel(2).fit(X, lengths=LENGTHS)
    by_place = HiddenMarkovModel(2).fit(X, LENGTHS)
    arrays = HiddenMarkovModel(2).fit(listed(X))
    assert model.model_.digest() == by_place.model_.digest() == arrays.model_.digest()
    parts = arrays.predict(listed(X))
    assert [len(part) for part in parts] == LENGTHS
    assert np.array_equal(np.concatenate(parts), model.predict(X, lengths=LENGTHS))
    assert np.array_equal(np.concatenate(arrays.predict_proba(listed(X))), model.predict_proba(X, LENGTHS))
    assert model.score(X, LENGTHS) == model.score(X, lengths=LENGTHS) == arrays.score(listed(X))


def test_likelihood_and_best_path_by_enumeration():
    model = HiddenMarkovModel(2, max_iter=1, tol=1e-15)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, LENGTHS)
    short = X[:5] * [0.1, 1.0]  # between the states, so that paths compete
    laws = np.array([[law.log_density(row) for law in model.model_.topics] for row in short])
    joint = {}
    for path in itertools.product(range(2), repeat=5):
        steps = [np.log(model.transmat_[a, b]) for a, b in itertools.pairwise(path)]
        with np.errstate(divide="ignore"):
            start = np.log(model.startprob_[path[0]])
        joint[path] = start + sum(steps) + sum(laws[t, s] for t, s in enumerate(path))
    total, states = model.decode(short)
    best = max(joint, key=joint.get)
    assert tuple(states) == best
    assert total == pytest.approx(joint[best], rel=1e-12)
    assert model.score(short) == pytest.approx(np.logaddexp.reduce(list(joint.values())), rel=1e-12)
    likely, by_place = model.decode(short, algorithm="map")
    assert likely == pytest.approx(joint[tuple(by_place.tolist())], rel=1e-12)


def test_criteria():
    model = HiddenMarkovModel(2).fit(X, lengths=LENGTHS)
    free = 1 + 2 + 2 * 4
    score = model.score(X, lengths=LENGTHS)
    assert model.aic(X, LENGTHS) == pytest.approx(2 * free - 2 * score)
    assert model.bic(X, LENGTHS) == pytest.approx(free * np.log(150) - 2 * score)


def test_frames_are_fitted_by_their_schema():
    model = HiddenMarkovModel(2, n_init=2).fit(FRAME, lengths=LENGTHS)
    assert [field.family for field in model.schema_.used] == ["Gaussian", "Categorical", "Categorical"]
    found = model.predict(FRAME, LENGTHS)
    assert (found == PATH).all() or (found == 1 - PATH).all()
    drawn, states = model.sample(6)
    assert set(drawn) == {"size", "kind", "gap"}
    assert states.shape == (6,)
    told = HiddenMarkovModel(2, emission=mixle.schema(FRAME).replace(gap="Ignored")).fit(FRAME, lengths=LENGTHS)
    assert [field.name for field in told.schema_.used] == ["size", "kind"]
    with pytest.raises(ValueError, match="X is of the form list, the model was fitted to the form frame"):
        model.predict([["a"]])


@pytest.mark.parametrize("emission", ["auto", "diag"])
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_list_of_frames_is_a_list_of_sequences(kind, emission):
    whole = pd.DataFrame(X, columns=["a", "b"])
    ends = np.cumsum(LENGTHS)
    frames = [kind(whole.iloc[end - size : end]) for end, size in zip(ends, LENGTHS, strict=True)]
    model = HiddenMarkovModel(2, emission=emission).fit(frames)
    joined = HiddenMarkovModel(2, emission=emission).fit(kind(whole), lengths=LENGTHS)
    assert model.model_.digest() == joined.model_.digest()
    parts = model.predict(frames)
    assert [len(part) for part in parts] == LENGTHS
    assert np.array_equal(np.concatenate(parts), joined.predict(kind(whole), lengths=LENGTHS))


def test_lists_of_any_observations():
    words = [["a", "a", "b"], ["b", "a", "a", "a"], []] * 10
    model = HiddenMarkovModel(2).fit(words)
    assert [len(part) for part in model.predict(words)] == [3, 4, 0] * 10
    drawn, states = model.sample(4, random_state=1)
    assert len(drawn) == len(states) == 4
    assert set(drawn) <= {"a", "b"}
    assert drawn == model.sample(4, random_state=1)[0]
    counts = [RNG.poisson(3, 20).tolist() for _ in range(4)]
    told = HiddenMarkovModel(2, emission=PoissonEstimator()).fit(counts)
    column = HiddenMarkovModel(2, emission=PoissonEstimator()).fit(np.concatenate(counts)[:, None], lengths=[20] * 4)
    assert told.model_.digest() == column.model_.digest()
    assert column.sample(3)[0].shape == (3, 1)
    labels = HiddenMarkovModel(2, emission=CategoricalEstimator()).fit(np.array([["x"], ["y"], ["x"], ["x"]]))
    assert labels.predict(np.array([["x"], ["y"]])).shape == (2,)


def test_pools_pickles_and_searches():
    alone = HiddenMarkovModel(2).fit(X, lengths=LENGTHS)
    rows, lengths = np.tile(X, (10, 1)), LENGTHS * 10
    pool = HiddenMarkovModel(2, n_jobs=2).fit(rows, lengths=lengths)
    assert pool.model_.digest() == HiddenMarkovModel(2).fit(rows, lengths=lengths).model_.digest()
    assert pickle.loads(pickle.dumps(alone)).model_.digest() == clone(alone).fit(X, LENGTHS).model_.digest()
    assert GridSearchCV(HiddenMarkovModel(), {"n_components": [1, 2]}, cv=2).fit(X).best_params_["n_components"] == 2
    warm = HiddenMarkovModel(2, warm_start=True, tol=1e-9).fit(X, lengths=LENGTHS)
    assert warm.fit(X, lengths=LENGTHS).n_iter_ == 1
    rows, states = alone.sample(2000, random_state=3)
    assert rows.shape == (2000, 2)
    assert (alone.predict(rows) == states).mean() > 0.98


REFUSED = [
    (
        lambda: HiddenMarkovModel(2).fit(X, lengths=[1, 2]),
        "lengths must be whole numbers that sum to the 150 rows",
    ),
    (lambda: HiddenMarkovModel(2).fit(X, lengths=[75.0, 75.0]), "lengths must be whole numbers"),
    (lambda: HiddenMarkovModel(2, emission="tied").fit(X), "emission must be one of auto, diag, full"),
    (lambda: HiddenMarkovModel(9).fit(X[:3]), "n_samples=3 observations cannot be fitted by n_components=9"),
    (lambda: HiddenMarkovModel(2).fit([]), "X holds no sequences"),
    (lambda: HiddenMarkovModel(2).fit(["ab", "ba"]), "item 0 of X is str 'ab', not a sequence"),
    (lambda: HiddenMarkovModel(2).fit([FRAME, X]), "item 0 of X is DataFrame, not a sequence; pass a list"),
    (lambda: HiddenMarkovModel(2).fit([pa.table({"a": [1.0]})] * 2), "item 0 of X is Table, not a sequence; pass"),
    (lambda: HiddenMarkovModel("2").fit(X), "n_components must be a whole number of at least 1, not '2'"),
    (lambda: HiddenMarkovModel(2, emission="diag").fit([["a"], ["b"]]), "is a law of arrays: pass X of shape"),
    (lambda: HiddenMarkovModel(2).fit(X).sample(0), "n_samples must be at least 1"),
    (lambda: HiddenMarkovModel(2).fit(X).decode(X, algorithm="best"), "algorithm must be 'viterbi' or 'map'"),
    (lambda: HiddenMarkovModel(2).fit([["a", "b"], ["b", "a"]]).predict(X), "fitted to the form list"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_what_is_not_fitted_yet():
    with pytest.raises(NotFittedError):
        HiddenMarkovModel().predict(X)


def test_precision_is_taken_and_written_down():
    rows = np.random.default_rng(3).normal(size=(40, 1))
    model = HiddenMarkovModel(2, precision="float32").fit(rows)
    assert model.model_.fit_provenance().precision == "float32"
    with pytest.raises(ValueError, match="precision 'half' is not supported"):
        HiddenMarkovModel(2, precision="half").fit(rows)
