"""Markov chains over labels and over integers."""

import itertools
import math

import numpy as np
import pytest

from bits import statistic
from mixle.errors import NonGenerativeIntegerMarkovChainError, NonGenerativeMarkovChainError, SupportError
from mixle.inference import optimize
from mixle.stats import (
    CompositeDistribution,
    CompositeEstimator,
    IntegerCategoricalDistribution,
    IntegerMarkovChainDistribution,
    IntegerMarkovChainEstimator,
    MarkovChainDistribution,
    MarkovChainEstimator,
    MixtureDistribution,
    MixtureEstimator,
    PoissonDistribution,
    PoissonEstimator,
)

CHAIN = MarkovChainDistribution({"a": 0.5, "b": 0.5}, {"a": {"a": 0.9, "b": 0.1}, "b": {"a": 0.5, "b": 0.5}})


def test_a_chain_scores_the_product_of_its_steps():
    assert CHAIN.density(["a", "a", "b", "b"]) == pytest.approx(0.5 * 0.9 * 0.1 * 0.5, rel=1e-15)
    assert CHAIN.log_density([]) == 0.0
    assert CHAIN.log_density(["a", "z"]) == -math.inf


def test_the_statistic_holds_the_counts():
    value = statistic(MarkovChainEstimator(), [["a", "b", "a"], [], ["b"]])
    assert value == (1, ("a", "b"), (1.0, 1.0), ((0.0, 1.0), (1.0, 0.0)), 3.0, None)
    value = statistic(IntegerMarkovChainEstimator(2, 2), [[0, 1, 0], [1, 1, 1, 0, 1]])
    moves = (((0, 1), 0, 1.0), ((1, 0), 1, 1.0), ((1, 1), 0, 1.0), ((1, 1), 1, 1.0))
    assert value == (1, 2, 2, moves, 2.0, None, 2.0, None)


@pytest.mark.parametrize("labels", [3, 900])
def test_few_and_many_labels_are_counted_alike(labels):
    """On either side of the table's size another way of counting is taken."""
    rng = np.random.RandomState(0)
    rows = [rng.randint(labels, size=5).tolist() for _ in range(40)]
    value = statistic(MarkovChainEstimator(), rows)
    counts = np.zeros((labels, labels))
    for row in rows:
        for before, after in itertools.pairwise(row):
            counts[before, after] += 1.0
    order = list(value.states)
    assert np.array_equal(np.array(value.transition_counts), counts[np.ix_(order, order)])


def test_smoothing_spreads_over_the_declared_labels():
    rows = [["a", "b"]]
    fitted = MarkovChainEstimator(3.0, "abc")
    model = fitted.estimate(1.0, statistic(fitted, rows))
    assert model.init_prob_map == {"a": 0.5, "b": 0.25, "c": 0.25}
    assert model.transition_map["a"] == {"a": 0.25, "b": 0.5, "c": 0.25}
    assert model.transition_map["c"] == dict.fromkeys("abc", 1.0 / 3.0)
    assert math.isfinite(model.log_density(["c", "c"]))
    with pytest.raises(SupportError, match="not among levels"):
        statistic(fitted, [["a"], ["a", "z"]])


def test_the_declared_weight_must_be_that_of_the_sequences():
    for estimator, rows in ((MarkovChainEstimator(), [["a"]]), (IntegerMarkovChainEstimator(2), [[0, 1]])):
        value = statistic(estimator, rows)
        estimator.estimate(1.0, value)
        estimator.estimate(None, value)
        with pytest.raises(ValueError, match=r"weight 1\.0, declared are 2\.0"):
            estimator.estimate(2.0, value)


def test_a_chain_without_laws_is_not_sampled():
    with pytest.raises(NonGenerativeMarkovChainError, match="len_dist"):
        CHAIN.sampler(1).sample(2)
    with pytest.raises(NonGenerativeIntegerMarkovChainError, match="init_dist"):
        IntegerMarkovChainDistribution(2, np.full((2, 2), 0.5), len_dist=PoissonDistribution(3.0)).sampler(1).sample()
    assert [len(path) for path in CHAIN.sampler(1).sample_paths([3, 0, 7])] == [3, 0, 7]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MarkovChainDistribution({"a": 1.0}, {}), "no row for the label 'a'"),
        (lambda: MarkovChainDistribution({"a": 0.5}, {"a": {"a": 1.0}}), "sum to one"),
        (lambda: MarkovChainDistribution({"a": 1.0}, {"a": {"a": -1.0}}), "must be probabilities"),
        (lambda: MarkovChainDistribution({}, {}), "lists no label"),
        (lambda: MarkovChainDistribution({"a": 1.0}, {"a": {"a": 1.0}}, None, 0.1), "default_value must be 0"),
        (lambda: MarkovChainEstimator(levels=()), "lists no label"),
        (lambda: IntegerMarkovChainDistribution(2, [[1.0, 0.0]]), r"shape \(2, 2\), has \(1, 2\)"),
        (lambda: IntegerMarkovChainEstimator(0), "at least 1"),
        (lambda: IntegerMarkovChainEstimator(1000, 3), "table of"),
        (lambda: IntegerMarkovChainEstimator(2, suff_stat=[[1.0]]), "suff_stat must have shape"),
    ],
)
def test_what_cannot_be_a_chain_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_mixture_of_chains_finds_both():
    sticky = MarkovChainDistribution(
        {0: 1.0, 1: 0.0}, {0: {0: 0.9, 1: 0.1}, 1: {0: 0.1, 1: 0.9}}, PoissonDistribution(30.0)
    )
    restless = MarkovChainDistribution(
        {0: 1.0, 1: 0.0}, {0: {0: 0.2, 1: 0.8}, 1: {0: 0.8, 1: 0.2}}, PoissonDistribution(30.0)
    )
    rows = MixtureDistribution([sticky, restless], [0.5, 0.5]).sampler(3).sample(400)
    estimator = MixtureEstimator([MarkovChainEstimator(len_estimator=PoissonEstimator())] * 2)
    model = optimize(rows, estimator, max_its=100, seed=1, init_p=1.0)
    stay = sorted(c.transition_map[0][0] for c in model.components)
    assert stay == pytest.approx([0.2, 0.9], abs=0.05)


def test_an_integer_chain_reads_the_values_before():
    moves = [[0.9, 0.1], [0.5, 0.5], [0.2, 0.8], [0.3, 0.7]]
    head = CompositeDistribution([IntegerCategoricalDistribution(0, [0.25, 0.75])] * 2)
    d = IntegerMarkovChainDistribution(2, moves, 2, head)
    assert d.density([0, 1, 1]) == pytest.approx(0.25 * 0.75 * 0.5, rel=1e-15)
    assert d.density([1, 0, 1, 1]) == pytest.approx(0.75 * 0.25 * 0.8 * 0.5, rel=1e-15)
    assert d.log_density([1]) == -math.inf


def test_keys_tie_chains():
    estimator = CompositeEstimator([MarkovChainEstimator(keys="k"), MarkovChainEstimator(keys="k")])
    rows = [(["a", "b"], ["b", "b"]), (["b", "a"], ["a", "a", "a"])]
    first, second = estimator.estimate(2.0, statistic(estimator, rows)).dists
    pooled = MarkovChainEstimator(keys="k")
    whole = pooled.estimate(4.0, statistic(pooled, [row for pair in rows for row in pair]))
    for chain in (first, second):
        assert {s: chain.transition_map[s] for s in "ab"} == {s: whole.transition_map[s] for s in "ab"}


def test_a_pseudo_count_of_an_integer_chain_is_added_to_each_transition():
    estimator = IntegerMarkovChainEstimator(3, 1, pseudo_count=2.0)
    accumulator = estimator.accumulator_factory().make()
    accumulator.seq_update(accumulator.acc_to_encoder().seq_encode([[0, 1, 2], [1, 1]]), np.ones(2), None)
    found = estimator.estimate(2.0, accumulator.value()).cond_dist
    assert np.allclose(found, [[2 / 7, 3 / 7, 2 / 7], [2 / 8, 3 / 8, 3 / 8], [1 / 3] * 3], rtol=1e-15)
