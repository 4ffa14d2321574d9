"""Calls as programs for the published package write them: order and names of arguments, and the numbers they give.

Each number is what mathematics says, or what that package printed when it was run.
"""

import inspect

import numpy as np
import pytest

import mixle.stats as st
from mixle.inference import estimate

NUMBERS = [1.0, 2.0, 4.0, 7.0]
COUNTS = [1, 2, 5]
PAIRS = [[1.0, 20.0], [2.0, 40.0], [3.0, 30.0]]
GAMMA, BETA, NG = st.GammaDistribution(2.0, 3.0), st.BetaDistribution(2.0, 3.0), st.NormalGammaDistribution
STATES = {"a": {"a": 0.5, "b": 0.5}, "b": {"a": 0.25, "b": 0.75}}

#: class → its first arguments in their order, without self.
ORDERS = {
    "BernoulliDistribution": "p name keys prior",
    "BernoulliEstimator": "pseudo_count suff_stat name keys prior",
    "BetaEstimator": "pseudo_count suff_stat delta name keys",
    "BinomialDistribution": "p n min_val name keys prior",
    "BinomialEstimator": "max_val min_val pseudo_count suff_stat name keys prior",
    "CategoricalDistribution": "pmap default_value name keys prob_map prior",
    "CompositeDistribution": "dists",
    "ConditionalDistribution": "dmap default_dist given_dist name keys",
    "DiagonalGaussianDistribution": "mu covar name keys covariance prior",
    "DiagonalGaussianEstimator": "dim pseudo_count suff_stat name keys prior min_covar ridge",
    "DirichletEstimator": "dim pseudo_count suff_stat delta keys use_mpe name",
    "ExponentialDistribution": "beta name keys prior",
    "GaussianDistribution": "mu sigma2 name keys prior",
    "GaussianEstimator": "pseudo_count suff_stat name keys prior min_covar compensated",
    "GaussianMixtureDistribution": "mu sig2 w name weights",
    "GeometricDistribution": "p name keys prior",
    "IgnoredEstimator": "dist pseudo_count suff_stat keys name",
    "IntegerCategoricalDistribution": "min_val p_vec name keys prob_vec prior",
    "LogGaussianDistribution": "mu sigma2 name keys prior",
    "MarkovChainDistribution": "init_prob_map transition_map len_dist default_value name prior",
    "MarkovChainEstimator": "pseudo_count levels len_estimator name keys prior",
    "MixtureDistribution": "components w name weights prior",
    "MultivariateGaussianDistribution": "mu covar name keys covariance prior",
    "MultivariateGaussianEstimator": "dim pseudo_count suff_stat name keys prior min_covar ridge",
    "NullEstimator": "pseudo_count suff_stat name keys",
    "PoissonDistribution": "lam name keys prior",
    "RecordDistribution": "fields dists",
    "RecordEstimator": "fields estimators",
}


@pytest.mark.parametrize("name", ORDERS)
def test_arguments_stand_in_their_order(name):
    wanted = ORDERS[name].split()
    assert list(inspect.signature(getattr(st, name)).parameters)[: len(wanted)] == wanted


#: what → a model that is made with another name of an argument, and the same model made the usual way.
ALIASES = {
    "prob_map": (
        lambda: st.CategoricalDistribution(prob_map={"a": 0.25, "b": 0.75}),
        lambda: st.CategoricalDistribution({"a": 0.25, "b": 0.75}),
    ),
    "prob_vec": (
        lambda: st.IntegerCategoricalDistribution(2, prob_vec=[0.25, 0.75]),
        lambda: st.IntegerCategoricalDistribution(2, [0.25, 0.75]),
    ),
    "covariance": (
        lambda: st.MultivariateGaussianDistribution([0.0, 1.0], covariance=[[2.0, 1.0], [1.0, 2.0]]),
        lambda: st.MultivariateGaussianDistribution([0.0, 1.0], [[2.0, 1.0], [1.0, 2.0]]),
    ),
    "covariance, diagonal": (
        lambda: st.DiagonalGaussianDistribution([0.0, 1.0], covariance=[2.0, 1.0]),
        lambda: st.DiagonalGaussianDistribution([0.0, 1.0], [2.0, 1.0]),
    ),
    "names and laws of a record": (
        lambda: st.RecordDistribution(["x", "n"], [st.GaussianDistribution(0.0, 1.0), st.PoissonDistribution(2.0)]),
        lambda: st.RecordDistribution({"x": st.GaussianDistribution(0.0, 1.0), "n": st.PoissonDistribution(2.0)}),
    ),
    "a chain by position": (
        lambda: st.MarkovChainDistribution({"a": 1.0}, STATES, None, 0.0, "chain", None),
        lambda: st.MarkovChainDistribution({"a": 1.0}, STATES, name="chain"),
    ),
    "ignored, by position": (
        lambda: st.IgnoredEstimator(st.PoissonDistribution(2.0), None, None, None, "held").estimate(None, None),
        lambda: st.IgnoredDistribution(st.PoissonDistribution(2.0), "held"),
    ),
    "null, by position": (
        lambda: st.NullEstimator(2.0, None, "none").estimate(None, None),
        lambda: st.NullDistribution("none"),
    ),
}


@pytest.mark.parametrize("what", ALIASES)
def test_another_name_makes_the_same_model(what):
    here, there = ALIASES[what]
    assert str(here()) == str(there())
    assert here().digest() == there().digest()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: st.CategoricalDistribution({"a": 1.0}, prob_map={"a": 1.0}), "given pmap and prob_map"),
        (lambda: st.IntegerCategoricalDistribution(0, [1.0], prob_vec=[1.0]), "given p_vec and prob_vec"),
        (lambda: st.DiagonalGaussianDistribution([0.0], [1.0], covariance=[1.0]), "given covar and covariance"),
        (lambda: st.RecordEstimator(["a", "b"], [st.PoissonEstimator()]), "2 field names and 1 parts"),
    ],
)
def test_an_argument_given_twice_is_refused(wrong, told):
    with pytest.raises(ValueError, match=told):
        wrong()


def test_parts_beside_a_mapping_are_refused():
    with pytest.raises(TypeError, match="a mapping and parts beside it; pass the names"):
        st.RecordDistribution({"n": st.PoissonDistribution(2.0)}, [st.PoissonDistribution(2.0)])
    with pytest.raises(TypeError, match="takes its parts as one sequence"):
        st.RecordEstimator(["n"], st.PoissonEstimator())


@pytest.mark.parametrize(
    "wrong",
    [
        st.CategoricalDistribution,
        lambda: st.IntegerCategoricalDistribution(0),
        lambda: st.MultivariateGaussianDistribution([0.0, 0.0]),
        lambda: st.DiagonalGaussianDistribution([0.0, 0.0]),
    ],
)
def test_an_argument_given_under_no_name_is_refused(wrong):
    with pytest.raises(TypeError, match=r"is missing; pass (pmap|p_vec|covar)="):
        wrong()


#: what → (estimator, rows, the parameters of the fit as floats, the numbers).
FITS = {
    "a beta's pseudo-rows are uniform": (
        st.BetaEstimator(pseudo_count=2.0),
        [0.1, 0.3, 0.5, 0.9],
        lambda m: [m.a, m.b],
        [1.0194952811791096, 1.11363724784112],
    ),
    "binomial under a beta": (st.BinomialEstimator(6, prior=BETA), COUNTS, lambda m: [m.p], [9.0 / 21.0]),
    "binomial without rows": (st.BinomialEstimator(6, prior=BETA), [], lambda m: [m.p], [1.0 / 3.0]),
    "a ridge of half a variance": (
        st.MultivariateGaussianEstimator(ridge=0.5),
        PAIRS,
        lambda m: m.covar.ravel().tolist(),
        [1.0, 10.0 / 3.0, 10.0 / 3.0, 100.0],
    ),
    "a relative floor below the variance": (
        st.DiagonalGaussianEstimator(ridge=0.5),
        PAIRS,
        lambda m: m.covar.tolist(),
        [2.0 / 3.0, 200.0 / 3.0],
    ),
    "compensated sums": (st.GaussianEstimator(compensated=True), NUMBERS, lambda m: [m.mu, m.sigma2], [3.5, 5.25]),
    "a Dirichlet by another solver": (
        st.DirichletEstimator(use_mpe=True),
        [[0.2, 0.8], [0.4, 0.6], [0.3, 0.7]],
        lambda m: m.alpha.tolist(),
        [9.224399992108872, 21.536552557843756],
    ),
}


@pytest.mark.parametrize("what", FITS)
def test_fits_give_the_published_numbers(what):
    estimator, rows, read, wanted = FITS[what]
    accumulator = estimator.accumulator_factory().make()
    for row in rows:
        accumulator.update(row, 1.0, None)
    model = estimator.estimate(float(len(rows)), accumulator.value())
    assert read(model) == pytest.approx(wanted, rel=1e-8)


#: law with a prior → (rows, parameters of the fit under that prior, the numbers).
CARRIED = {
    "bernoulli": (st.BernoulliDistribution(0.5, prior=BETA), [True, False, True], lambda m: [m.p], [0.5]),
    "binomial": (st.BinomialDistribution(0.5, 6, prior=BETA), COUNTS, lambda m: [m.p], [9.0 / 21.0]),
    "exponential": (st.ExponentialDistribution(1.0, prior=GAMMA), NUMBERS, lambda m: [m.beta], [43.0 / 15.0]),
    "gaussian": (
        st.GaussianDistribution(0.0, 1.0, prior=NG(0.0, 1.0, 2.0, 3.0)),
        NUMBERS,
        lambda m: [m.mu, m.sigma2],
        [2.8, 5.257142857142857],
    ),
    "geometric": (st.GeometricDistribution(0.5, prior=BETA), COUNTS, lambda m: [m.p], [4.0 / 11.0]),
    "log gaussian": (
        st.LogGaussianDistribution(0.0, 1.0, prior=NG(0.0, 1.0, 2.0, 3.0)),
        NUMBERS,
        lambda m: [m.mu, m.sigma2],
        [0.8050703381470298, 1.2783057329952305],
    ),
    "poisson": (st.PoissonDistribution(2.0, prior=GAMMA), COUNTS, lambda m: [m.lam], [2.7]),
    "categorical": (
        st.CategoricalDistribution({"a": 0.5, "b": 0.5}, prior=st.DictDirichletDistribution({"a": 2.0, "b": 3.0})),
        ["a", "b", "a"],
        lambda m: [m.pmap["a"]],
        [0.5],
    ),
    "integer categorical": (
        st.IntegerCategoricalDistribution(0, [0.5, 0.5], prior=st.DirichletDistribution([2.0, 3.0])),
        [0, 1, 0],
        lambda m: m.p_vec.tolist(),
        [0.5, 0.5],
    ),
    "normal-wishart": (
        st.MultivariateGaussianDistribution(
            [0.0, 0.0], np.eye(2), prior=st.NormalWishartDistribution([0.0, 0.0], 1.0, np.eye(2), 4.0)
        ),
        [[1.0, 2.0], [2.0, 4.0], [3.0, 3.0]],
        lambda m: [*m.mu, *m.covar.ravel()],
        [1.5, 2.25, 1.2, 1.1, 1.1, 1.95],
    ),
    "diagonal": (
        st.DiagonalGaussianDistribution([0.0], [1.0], prior=NG(0.0, 1.0, 2.0, 3.0)),
        [[x] for x in NUMBERS],
        lambda m: [*m.mu, *m.covar],
        [2.8, 5.257142857142857],
    ),
}


@pytest.mark.parametrize("family", CARRIED)
def test_a_prior_given_to_a_law_is_the_prior_of_its_fits(family):
    law, rows, read, wanted = CARRIED[family]
    assert law.get_prior() is law.prior is law.estimator().prior
    assert "prior" not in str(law)
    assert read(estimate(rows, law.estimator())) == pytest.approx(wanted, rel=1e-12)
    with pytest.raises(ValueError, match="prior of"):
        type(law)(*(getattr(law, field) for field in law._fields), prior=st.UniformDistribution(0.0, 1.0))


def test_the_posterior_of_a_binomial_counts_the_trials():
    model = estimate(COUNTS, st.BinomialEstimator(6, prior=BETA))
    posterior = model.get_prior()
    assert (posterior.a, posterior.b) == (10.0, 13.0)  # 2 + 8 successes, 3 + 10 failures
    with pytest.raises(ValueError, match="two priors"):
        st.BinomialEstimator(6, pseudo_count=1.0, prior=BETA)


def test_a_law_has_the_attributes_that_programs_read():
    law = st.IntegerCategoricalDistribution(3, [0.25, 0.75, 0.0])
    assert (law.num_vals, law.log_p_vec[:2].tolist()) == (3, [-1.3862943611198906, -0.2876820724517809])
    assert law.log_p_vec[2] == -np.inf
    assert st.RayleighDistribution(3.0).sigma2 == 9.0
    student = st.MultivariateStudentTDistribution(4.0, [0.0, 1.0], np.eye(2))
    assert student.mu.tolist() == [0.0, 1.0]
    assert st.DirichletMultinomialDistribution([1.0, 2.0, 3.0], 5).dim == 3
    assert st.GaussianMixtureDistribution([[0.0, 1.0]], [[1.0, 2.0]], [1.0]).dim == 2
    assert [st.OptionalDistribution(st.PoissonDistribution(1.0), p).has_p for p in (None, 0.0, 0.5)] == [0, 1, 1]


CHAIN = st.HiddenMarkovModelDistribution(
    [st.GaussianDistribution(0.0, 1.0), st.GaussianDistribution(6.0, 2.0)], [0.4, 0.6], [[0.7, 0.3], [0.2, 0.8]]
)


def test_filtered_states_know_only_what_came_before():
    rows = [[0.5, 3.0, 5.0], [], [4.0]]
    encoded = CHAIN.dist_to_encoder().seq_encode(rows)
    filtered, smoothed = CHAIN.seq_posterior(encoded, filtered=True), CHAIN.seq_posterior(encoded)
    assert [part.shape for part in filtered] == [(3, 2), (0, 2), (1, 2)]
    law = np.array([0.4, 0.6])
    for t, x in enumerate(rows[0]):
        joint = law * [topic.density(x) for topic in CHAIN.topics]
        assert filtered[0][t] == pytest.approx(joint / joint.sum(), rel=1e-12)
        law = filtered[0][t] @ CHAIN.transitions
    assert filtered[0][-1] == pytest.approx(smoothed[0][-1], rel=1e-12)
    assert filtered[2] == pytest.approx(smoothed[2], rel=1e-12)
    assert abs(filtered[0][1, 0] - smoothed[0][1, 0]) > 0.1


def test_nothing_is_said_of_states_after_an_impossible_element():
    chain = st.HiddenMarkovModelDistribution(
        [st.CategoricalDistribution({"a": 1.0}), st.CategoricalDistribution({"b": 1.0})], [1.0, 0.0], np.eye(2)
    )
    encoded = chain.dist_to_encoder().seq_encode([["a", "b", "a"], ["a"]])
    filtered = chain.seq_posterior(encoded, filtered=True)
    assert filtered[0].tolist() == [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    assert filtered[1].tolist() == [[1.0, 0.0]]
    assert chain.seq_posterior(chain.dist_to_encoder().seq_encode([[]]), filtered=True)[0].shape == (0, 2)
