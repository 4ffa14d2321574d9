"""Encoded rows at positions: what an HMM segments and batches by, over the whole table of models."""

import numpy as np
import pytest

from mixle.stats import (
    GaussianDistribution,
    HiddenMarkovModelDistribution,
    MixtureDistribution,
    MixtureEstimator,
    PoissonEstimator,
)
from mixle.stats.latent.hmm_take import take
from mixle.stats.special import bessel_ratio, log_bessel
from models import MODELS


@pytest.mark.parametrize("name", sorted(MODELS))
def test_rows_taken_are_scored_as_they_were(name):
    model = MODELS[name]()
    encoder = model.dist.dist_to_encoder()
    rows = list(model.rows)
    payload = encoder.seq_encode(rows)
    whole = np.asarray(model.dist.seq_log_density(payload))
    index = np.array([len(rows) - 1, 0, 1, 1, len(rows) // 2])
    found = take(encoder, payload, index)
    scores = np.asarray(model.dist.seq_log_density(found))
    np.testing.assert_allclose(scores, whole[index], rtol=1e-12, atol=1e-12)
    assert encoder.row_count(found) == len(index)


def test_an_encoder_that_cannot_tell_rows_apart_is_named():
    class Blob:
        pass

    with pytest.raises(NotImplementedError, match=r"Blob has no take\(payload, index\)"):
        take(Blob(), None, np.zeros(1, int))


@pytest.mark.parametrize(
    ("order", "x"), [(0.5, 2.0), (3.0, 1e9), (400.0, 1.0), (400.0, 200.0), (2000.0, 1500.0), (1.0, 1e-3)]
)
def test_bessel_functions_that_underflow(order, x):
    import mpmath

    with mpmath.workdps(40):
        exact = mpmath.besseli(order, x)
        below = mpmath.besseli(order - 1, x)
        expected, ratio = float(mpmath.log(exact) - x), float(exact / below)
    assert log_bessel(x, order) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert bessel_ratio(x, order) == pytest.approx(ratio, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"init": "random"}, "init is 'kmeans\\+\\+' or 'dirichlet', not 'random'"),
        ({"fixed_weights": [0.2, 0.3, 0.5]}, "fixed_weights has 3 entries for 2 components; pass one for each"),
        ({"suff_stat": [1.0]}, "suff_stat has 1 entries for 2 components"),
        ({"w_min": 0.75}, "w_min=0.75 leaves no room for 2 components; pass at most 0.5"),
    ],
)
def test_settings_of_a_mixture_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        MixtureEstimator([PoissonEstimator()] * 2, **options)


def test_a_mixture_needs_a_component():
    for make in (lambda: MixtureEstimator([]), lambda: MixtureDistribution([], [])):
        with pytest.raises(ValueError, match="a mixture needs at least one component"):
            make()


def test_a_mixture_of_no_rows_keeps_even_weights():
    model = MixtureEstimator([GaussianDistribution(0.0, 1.0).estimator()] * 2, w_min=0.25).estimate(
        None, ((0.0, 0.0), [GaussianDistribution(0.0, 1.0).estimator().accumulator_factory().make().value()] * 2)
    )
    assert model.w.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("name", ["bernoulli set", "integer bernoulli set", "integer multinomial", "multinomial"])
def test_sequences_of_sets_and_bags_are_cut(name):
    emission = MODELS[name]()
    elements = list(emission.rows)
    rows = [elements[:3], elements[3:4], elements[4:9], elements[9:11]]
    model = HiddenMarkovModelDistribution([emission.dist] * 2, [0.5, 0.5], [[0.75, 0.25], [0.5, 0.5]])
    encoder = model.dist_to_encoder()
    payload = encoder.seq_encode(rows)
    part = model.seq_log_density(encoder.slice(payload, 1, 3))
    np.testing.assert_allclose(part, model.seq_log_density(payload)[1:3], rtol=1e-12)
    mixture = MixtureDistribution([model, model], [0.25, 0.75])
    np.testing.assert_allclose(mixture.seq_log_density(payload), model.seq_log_density(payload), rtol=1e-12)
