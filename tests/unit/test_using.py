"""What is asked of a fitted model: components, scores, criteria, how many components, how sure."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.mixture import GaussianMixture

import mixle
from mixle.errors import ContractError, ConvergenceWarning, EmptyDataError, MixleWarning, RepairWarning
from mixle.inference import aic, bic, bootstrap, icl, optimize, posterior, predict, score, select
from mixle.inference.bootstrapping import parameters_of
from mixle.stats import (
    CategoricalEstimator,
    CompositeEstimator,
    GammaDistribution,
    GammaEstimator,
    GaussianDistribution,
    GaussianEstimator,
    HiddenMarkovModelDistribution,
    MixtureDistribution,
    MixtureEstimator,
)
from mixle.utils.parallel.planner import encoded_data

RNG = np.random.RandomState(11)
ROWS = np.concatenate([RNG.normal(0.0, 1.0, 120), RNG.normal(6.0, 1.5, 80)])
MODEL = MixtureDistribution([GaussianDistribution(0.0, 1.0), GaussianDistribution(6.0, 2.25)], [0.6, 0.4])
CHAIN = HiddenMarkovModelDistribution(MODEL.components, [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]])


def joint():
    return np.column_stack([0.6 * norm.pdf(ROWS, 0.0, 1.0), 0.4 * norm.pdf(ROWS, 6.0, 1.5)])


def test_components_of_rows():
    expected = joint() / joint().sum(axis=1, keepdims=True)
    assert np.allclose(posterior(MODEL, ROWS), expected, rtol=1e-9)
    assert np.array_equal(predict(MODEL, ROWS), expected.argmax(axis=1))
    assert np.array_equal(posterior(MODEL, pd.Series(ROWS)), posterior(MODEL, ROWS.tolist()))
    halves = MixtureDistribution([GammaDistribution(2.0, 1.0), GammaDistribution(9.0, 1.0)], [0.5, 0.5])
    assert predict(halves, [1.0, -1.0, 12.0]).tolist() == [0, -1, 1]
    assert posterior(halves, [-1.0]).tolist() == [[0.0, 0.0]]


def test_states_of_sequences():
    paths = predict(CHAIN, [ROWS[:5], ROWS[-3:]])
    assert [path.tolist() for path in paths] == [[0] * 5, [1] * 3]
    chances = posterior(CHAIN, [ROWS[:5], ROWS[-3:]])
    assert [part.shape for part in chances] == [(5, 2), (3, 2)]


def test_blocks_do_not_show(monkeypatch):
    whole = posterior(MODEL, ROWS), score(MODEL, ROWS)
    monkeypatch.setattr("mixle.inference.using.BLOCK", 7)
    assert np.array_equal(posterior(MODEL, ROWS), whole[0])
    assert score(MODEL, ROWS) == pytest.approx(whole[1], rel=1e-14)


def test_scores_and_criteria():
    total = float(np.log(joint().sum(axis=1)).sum())
    r = joint() / joint().sum(axis=1, keepdims=True)
    mixed = -2.0 * float((r * np.log(np.maximum(r, 1e-300))).sum())
    assert score(MODEL, ROWS) == pytest.approx(total / 200)
    assert aic(MODEL, ROWS) == pytest.approx(-2 * total + 10)
    assert bic(MODEL, ROWS) == pytest.approx(-2 * total + 5 * np.log(200))
    assert icl(MODEL, ROWS) == pytest.approx(bic(MODEL, ROWS) + mixed)
    assert score(GammaDistribution(2.0, 1.0), [1.0, -1.0]) == -np.inf
    with encoded_data(ROWS, MODEL.estimator(), num_shards=3) as handle:
        assert score(MODEL, handle) == pytest.approx(total / 200)
        assert bic(MODEL, handle) == pytest.approx(bic(MODEL, ROWS))
        with pytest.raises(ContractError, match="pass the rows themselves, not a handle"):
            icl(MODEL, handle)
    theirs = GaussianMixture(2, means_init=[[0.0], [6.0]], tol=1e-10, max_iter=1000).fit(ROWS[:, None])
    ours = optimize(ROWS, prev_estimate=MODEL, max_its=1000)
    assert bic(ours, ROWS) == pytest.approx(theirs.bic(ROWS[:, None]), rel=1e-5)


def test_what_has_no_components():
    with pytest.raises(ContractError, match="a Gaussian has no components; pass a mixture"):
        posterior(MODEL.components[0], ROWS)


@pytest.mark.parametrize("criterion", ["bic", "aic", "icl", "held-out"])
def test_two_components_are_found(criterion):
    found = select(ROWS, GaussianEstimator(), range(1, 4), criterion)
    assert found.chosen.components == 2
    assert len(found.model.components) == found.chosen.components
    assert [one.components for one in found.tried] == [1, 2, 3]
    assert found.chosen.cost(criterion) == min(one.cost(criterion) for one in found.tried)
    assert "<- chosen" in str(found)
    if criterion != "held-out":
        measure = {"bic": bic, "aic": aic, "icl": icl}[criterion]
        assert found.chosen.cost(criterion) == pytest.approx(measure(found.model, ROWS), rel=1e-9)


def test_select_and_fit_are_one_search():
    frame = pd.DataFrame({"x": ROWS, "kind": np.where(np.arange(200) < 120, "a", "b")})
    fitted = mixle.fit(frame, components=range(1, 4))
    found = select(frame, components=range(1, 4))
    assert found.model.digest() == fitted.model.digest()
    assert found.tried == fitted.tried


def test_select_has_the_same_bits_on_a_pool():
    rows = np.tile(ROWS, 10) + RNG.normal(0.0, 0.1, 2000)
    alone = select(rows, GaussianEstimator(), [1, 2], "held-out", seed=4)
    pool = select(rows, GaussianEstimator(), [1, 2], "held-out", "mp", seed=4, num_workers=2)
    assert alone.model.digest() == pool.model.digest()
    assert alone.tried == pool.tried
    assert alone.tried != select(rows, GaussianEstimator(), [1, 2], "held-out", seed=5).tried


def test_held_out_rows_of_a_table():
    frame = pd.DataFrame({"x": ROWS, "kind": np.where(np.arange(200) < 120, "a", "b")})
    found = select(frame, components=[1, 2], criterion="held-out", held_out=0.25)
    assert found.model.fit_provenance().final_objective == pytest.approx(found.chosen.log_likelihood)
    assert found.chosen.held_out > found.tried[0].held_out


REFUSED = [
    ({"criterion": "best"}, ValueError, "criterion must be one of bic, aic, icl, held-out; not 'best'"),
    ({"components": 0}, ValueError, "components is a number of clusters"),
    ({"components": []}, ValueError, "components is a number of clusters"),
    ({"components": 201}, EmptyDataError, "200 rows cannot make 201 components"),
    ({"criterion": "held-out", "held_out": 1.0}, ValueError, "held_out is the share of rows to hold out"),
    ({"criterion": "held-out", "data": [1.0]}, EmptyDataError, "one row cannot be both fitted and held out"),
]


@pytest.mark.parametrize(("options", "error", "message"), REFUSED, ids=[message for *_, message in REFUSED])
def test_what_select_refuses(options, error, message):
    with pytest.raises(error, match=message):
        select(**{"data": ROWS, "estimator": GaussianEstimator(), **options})


def test_an_unsettled_choice_is_said():
    with pytest.warns(UserWarning, match="before convergence"):
        select(ROWS, GaussianEstimator(), 2, max_its=1)


def test_bootstrap_agrees_with_the_formula_for_a_mean():
    found = bootstrap(GaussianEstimator(), ROWS[:120], B=400)
    expected = ROWS[:120].std() / np.sqrt(120)
    assert found.standard_error[0] == pytest.approx(expected, rel=0.15)
    low, high = found.interval("mu")
    assert high - low == pytest.approx(2 * 1.96 * expected, rel=0.2)
    assert found.replicates.shape == (400, 2)
    assert found.estimate[0] == pytest.approx(ROWS[:120].mean())
    assert found.failed == 0
    with pytest.raises(KeyError, match="no parameter 'sd'; there are mu, sigma2"):
        found.interval("sd")


def test_bootstrap_has_the_same_bits_on_every_backend():
    estimator = MixtureEstimator([CompositeEstimator((GaussianEstimator(), CategoricalEstimator()))] * 2)
    rows = [(x, "ab"[int(x > 3.0)]) for x in ROWS.tolist()]
    runs = [
        bootstrap(estimator, rows, B=12, seed=3),
        bootstrap(estimator, rows, B=12, seed=3, backend="mp", num_workers=2),
        bootstrap(estimator, rows, B=12, seed=3, backend="mp", num_workers=1),
    ]
    assert len({one.replicates.tobytes() for one in runs}) == 1
    assert runs[0].names == tuple(parameters_of(runs[0].model))
    assert runs[0].replicates.tobytes() != bootstrap(estimator, rows, B=12, seed=4).replicates.tobytes()
    assert "95 % of 12 replicates" in str(runs[0])


def test_bootstrap_of_anything_that_is_measured():
    found = bootstrap(
        MixtureEstimator([GaussianEstimator()] * 2),
        ROWS,
        B=50,
        statistic=lambda model: {"gap": abs(model.components[0].mu - model.components[1].mu)},
        level=0.5,
        max_its=50,
    )
    assert found.names == ("gap",)
    assert found.lower[0] < 6.0 < found.upper[0] or abs(found.estimate[0] - 6.0) < 0.5


def test_what_bootstrap_refuses():
    for options, message in (
        ({"B": 1}, "B must be an integer of at least 2"),
        ({"level": 95}, "level is the share of replicates"),
        ({"statistic": lambda _: {}}, "has no numbers; return a mapping"),
    ):
        with pytest.raises(ValueError, match=message):
            bootstrap(GaussianEstimator(), ROWS, **options)


def test_warnings_have_categories_of_their_own():
    with pytest.warns(ConvergenceWarning, match="EM stopped after 1 iteration before convergence"):
        optimize(ROWS, MODEL.estimator(), max_its=1)
    halves = MixtureEstimator([GammaEstimator()] * 2)
    with pytest.warns(RepairWarning, match="1 row is supported by no component and left out"):
        optimize([*np.abs(ROWS[:60]), -1.0], halves, max_its=200, init_p=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", MixleWarning)
        optimize(ROWS, MODEL.estimator(), max_its=1)
        select(ROWS, GaussianEstimator(), 2, max_its=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        with pytest.raises(ConvergenceWarning):
            mixle.fit({"x": ROWS}, components=2, max_its=1)
