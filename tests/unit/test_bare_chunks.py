"""Chunks of which no row holds an element of a nested law: how wide its rows are, or which labels, they do not tell."""

import numpy as np
import pytest

import mixle.stats as st
from mixle.inference import optimize

PAIRS = [[1.0, 2.0], [2.0, 1.5], [4.0, 3.0], [7.0, 7.5], [8.0, 6.0], [9.0, 9.5]]
SHARES = [[0.5, 0.5], [0.25, 0.75], [0.3, 0.7], [0.9, 0.1], [0.8, 0.2], [0.85, 0.15]]
#: Estimators that learn from rows how wide these are, or what there is, and rows.
LAWS = {
    "dirichlet": (st.DirichletEstimator, SHARES),
    "diagonal gaussian": (st.DiagonalGaussianEstimator, PAIRS),
    "multivariate gaussian": (st.MultivariateGaussianEstimator, PAIRS),
    "multivariate student": (st.MultivariateStudentTEstimator, PAIRS),
    "von mises fisher": (st.VonMisesFisherEstimator, [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [-1.0, 0.0], [-0.6, -0.8]]),
    "principal components": (lambda: st.ProbabilisticPCAEstimator(1), PAIRS),
    "integer categorical": (st.IntegerCategoricalEstimator, [3, 4, 5, 5]),
    "categorical": (st.CategoricalEstimator, list("abcc")),
    "bernoulli set": (st.BernoulliSetEstimator, [{"a"}, {"b"}, {"a", "b"}]),
    "multinomial": (lambda: st.MultinomialEstimator(st.CategoricalEstimator()), [{"a": 1}, {"b": 2}, {"a": 2}]),
    "binomial": (st.BinomialEstimator, [3, 4, 5, 5]),
}


def maybe(estimator):
    return st.OptionalEstimator(estimator, est_prob=True)


def both(law):
    return st.MixtureEstimator([law(), law()])


#: How the law is nested, and rows of which the first ones hold nothing of it.
NESTED = {
    "optional": lambda law, rows: (maybe(law()), [None] * 12 + rows),
    "optional mixture": lambda law, rows: (maybe(both(law)), [None] * 12 + rows),
    "mixture of optionals": lambda law, rows: (both(lambda: maybe(law())), [None] * 12 + rows),
    "sequence": lambda law, rows: (st.SequenceEstimator(law()), [[]] * 12 + [rows, rows[::-1]]),
    "sequence of a mixture": lambda law, rows: (st.SequenceEstimator(both(law)), [[]] * 12 + [rows, rows[::-1]]),
    "mixture of sequences": lambda law, rows: (
        both(lambda: st.SequenceEstimator(law())),
        [[]] * 12 + [rows, rows[::-1], rows[:2]],
    ),
    "hidden markov": lambda law, rows: (st.HiddenMarkovEstimator([law(), law()]), [[]] * 12 + [rows, rows[::-1]]),
    "fields of an optional": lambda law, rows: (
        st.CompositeEstimator(
            (maybe(st.CompositeEstimator((both(law), st.GaussianEstimator()))), st.GaussianEstimator())
        ),
        [(None, 1.0 + i) for i in range(12)] + [((row, 2.0 * i), 1.5) for i, row in enumerate(rows)],
    ),
    "branches": lambda law, rows: (
        st.ConditionalEstimator({"p": both(law), "q": law()}),
        [("q", row) for row in rows * 2] + [("p", row) for row in rows],
    ),
    "unlike components": lambda law, rows: (
        st.HeterogeneousMixtureEstimator([maybe(law()), maybe(both(law))]),
        [None] * 12 + rows,
    ),
}


#: The mixture inside starts with a seed for each shard.
SEEDED = {"sequence of a mixture", "unlike components"}


@pytest.mark.filterwarnings("ignore:EM stopped after:UserWarning", "ignore::mixle.errors.RepairWarning")
@pytest.mark.parametrize("nested", NESTED)
@pytest.mark.parametrize("law", LAWS)
def test_a_chunk_without_an_element_changes_no_fit(law, nested):
    make, rows = LAWS[law]
    estimator, rows = NESTED[nested](make, rows * 2)
    options = {"max_its": 2, "delta": None, "seed": 1, "init_p": 1.0}
    whole = optimize(rows, estimator, num_shards=1, **options)
    expected = st.log_density(rows, whole)
    for cut in ({"num_chunks": 6}, {"num_shards": 5}, {"num_chunks": 2, "sub_chunks": 4}):
        model = optimize(rows, estimator, **cut, **options)
        found = st.log_density(rows, model)
        assert np.isfinite(found).all()
        if nested not in SEEDED:
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    part = whole.dist_to_encoder().seq_encode(rows[:3])
    np.testing.assert_allclose(whole.seq_log_density(part), expected[:3], rtol=1e-12)
