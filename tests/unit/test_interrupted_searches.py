"""Ctrl-C ends what fits several models, not the fit alone that it strikes."""

import signal
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV

import mixle
from mixle.cli.main import main
from mixle.errors import InterruptWarning
from mixle.inference import bootstrap, select
from mixle.sklearn import HiddenMarkovModel, MixtureModel
from mixle.stats import GaussianEstimator

ROWS = np.concatenate([np.random.RandomState(k).normal(9.0 * k, 1.0 + k, 60) for k in range(3)])
FRAME = pd.DataFrame({"x": ROWS})


class Struck(GaussianEstimator):
    """Its M-step number `at` is struck by an interrupt; steps are counted over all fits."""

    def __init__(self, at):
        super().__init__()
        self.at, self.steps = at, 0

    def __deepcopy__(self, memo):
        return self  # a clone of scikit-learn's goes on counting

    def estimate(self, nobs, value):
        self.strike()
        return super().estimate(nobs, value)

    def strike(self):
        self.steps += 1
        if self.steps == self.at:
            signal.raise_signal(signal.SIGINT)


def heard(call):
    """Return what a call returned, and what it warned of interrupts."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        found = call()
    return found, [str(item.message) for item in caught if issubclass(item.category, InterruptWarning)]


def searched(way, estimator, components):
    options = {"components": components, "trials": 1, "delta": None, "max_its": 6}
    if way == "select":
        return select(FRAME["x"].to_numpy(), estimator, **options)
    return mixle.fit(FRAME, schema=mixle.schema(FRAME).replace(x=estimator), **options)


@pytest.mark.parametrize("way", ["select", "fit"])
def test_a_search_ends_and_returns_the_best_so_far(way):
    estimator = Struck(at=28)  # 7 steps of 1 component, 14 of 2, then the start of 3 and an iteration
    found, told = heard(lambda: searched(way, estimator, range(1, 9)))
    assert told[-1] == "the search was interrupted at 3 components; the best so far (tried: 1, 2, 3) is returned"
    assert [one.components for one in found.tried] == [1, 2, 3]
    assert estimator.steps == 28


@pytest.mark.parametrize("way", ["select", "fit"])
def test_a_fit_that_has_no_model_yet_is_not_among_them(way):
    estimator = Struck(at=8)  # the start of 2 components
    found, told = heard(lambda: searched(way, estimator, range(1, 9)))
    assert told == ["the search was interrupted at 2 components; the best so far (tried: 1) is returned"]
    assert [one.components for one in found.tried] == [1]
    with pytest.raises(KeyboardInterrupt):
        searched(way, Struck(at=1), range(1, 9))


def test_a_single_number_warns_once():
    found, told = heard(lambda: searched("fit", Struck(at=8), 2))
    assert told == ["EM stopped after 2 iterations, interrupted; the model reached so far is returned"]
    assert found.model.fit_provenance().stopped == "interrupted"


def test_an_interrupted_command_saves_nothing(tmp_path, capsys, monkeypatch):
    table, out = tmp_path / "t.csv", tmp_path / "m.json"
    FRAME.to_csv(table, index=False)
    struck = Struck(at=10)
    plain = GaussianEstimator.estimate

    def estimate(self, nobs, value):
        struck.strike()
        return plain(self, nobs, value)

    monkeypatch.setattr(GaussianEstimator, "estimate", estimate)
    assert main(["fit", str(table), "--out", str(out)]) == 130
    assert struck.steps == 10
    assert capsys.readouterr().err == "mixle: interrupted\n"
    assert not out.exists()


def test_a_bootstrap_ends():
    for at in (2, 5):
        estimator = Struck(at)
        with warnings.catch_warnings(), pytest.raises(KeyboardInterrupt):
            warnings.simplefilter("ignore")
            bootstrap(estimator, FRAME["x"].to_numpy(), B=50, delta=None, max_its=3)
        assert estimator.steps == at


@pytest.mark.parametrize("warm_start", [False, True])
def test_a_grid_search_ends_and_the_estimator_keeps_what_it_reached(warm_start):
    estimator = Struck(at=20)
    law = mixle.schema(FRAME).replace(x=estimator)
    with pytest.raises(KeyboardInterrupt):
        GridSearchCV(MixtureModel(law=law, n_init=9), {"n_components": [1, 2, 3]}, cv=3).fit(FRAME)
    assert estimator.steps == 20
    estimator = Struck(at=20)
    alone = MixtureModel(3, law=mixle.schema(FRAME).replace(x=estimator), n_init=9, warm_start=warm_start)
    with pytest.raises(KeyboardInterrupt):
        alone.fit(FRAME)
    assert estimator.steps == 20
    assert alone.weights_.shape == (3,)
    assert np.isfinite(alone.score(FRAME))


def test_a_hidden_markov_model_keeps_what_it_reached():
    model = HiddenMarkovModel(2, emission=Struck(at=9), tol=1e-12)
    with pytest.raises(KeyboardInterrupt):
        model.fit([list(ROWS[:60]), list(ROWS[60:])])
    assert model.transmat_.shape == (2, 2)
    assert model.startprob_.sum() == pytest.approx(1.0)
