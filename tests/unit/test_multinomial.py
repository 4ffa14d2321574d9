"""Bags: what their density means, zero counts, any order, and the laws of values and totals that they share."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats

import mixle.stats as st
from bits import bits, fold, statistic
from mixle.errors import NonGenerativeSequenceError, RowError, SupportError
from mixle.inference import optimize

VALUE = st.CategoricalDistribution({"a": 0.5, "b": 0.3, "c": 0.2})
BAG = st.MultinomialDistribution(VALUE, st.PoissonDistribution(4.0))
WHOLE = st.IntegerMultinomialDistribution(2, [0.5, 0.3, 0.2], st.PoissonDistribution(4.0))


def scores(dist, rows):
    return dist.seq_log_density(dist.dist_to_encoder().seq_encode(rows))


def test_the_densities_of_all_bags_sum_to_one():
    """Over the bags of one total without a law of it, over all of them with one."""
    bags = [[("a", i), ("b", j), ("c", 5 - i - j)] for i in range(6) for j in range(6 - i)]
    plain = st.MultinomialDistribution(VALUE)
    assert math.fsum(np.exp(scores(plain, bags))) == pytest.approx(1.0, rel=1e-13)
    short = st.MultinomialDistribution(VALUE, st.BinomialDistribution(0.3, 3))
    every = [list(zip("abc", c, strict=True)) for c in itertools.product(range(4), repeat=3) if sum(c) <= 3]
    assert math.fsum(np.exp(scores(short, every))) == pytest.approx(1.0, rel=1e-13)


@pytest.mark.parametrize("counts", [(0, 0, 0), (2, 1, 0), (5, 0, 7), (900, 80, 20), (10**6, 10**6, 10**5)])
def test_a_bag_has_the_probability_of_scipy(counts):
    expected = scipy.stats.multinomial(sum(counts), [0.5, 0.3, 0.2]).logpmf(counts)
    for dist, values in (
        (st.MultinomialDistribution(VALUE), "abc"),
        (st.IntegerMultinomialDistribution(-1, [0.5, 0.3, 0.2]), (-1, 0, 1)),
    ):
        assert dist.log_density(list(zip(values, counts, strict=True))) == pytest.approx(expected, rel=1e-9, abs=1e-10)


def test_equal_values_of_a_bag_count_together():
    """However a bag is written, it has one number of orders."""
    forms = [[("a", 2), ("b", 3)], [("a", 1), ("b", 3), ("a", 1)], [("b", 1)] * 3 + [("a", 2)]]
    assert scores(BAG, forms) == pytest.approx([BAG.log_density(forms[0])] * 3, rel=1e-14)
    vectors = st.MultinomialDistribution(st.DiagonalGaussianDistribution([0.0], [1.0]))
    assert math.isfinite(vectors.log_density([([0.5], 2), (np.array([0.5]), 1)]))


def test_published_values():
    rows = [[("a", 2), ("b", 1)], [], [("a", 1), ("a", 1), ("b", 1)], [("a", 0)], [("a", 2.0)]]
    assert scores(BAG, rows) == pytest.approx([-3.1245312626461006, -4, -3.1245312626461006, -4, -3.3068528194400546])
    rows = [[(2, 2), (3, 1)], [], [(2, 0)], [(1, 0)]]
    assert scores(WHOLE, rows) == pytest.approx([-3.1245312626461006, -4, -4, -4])
    halves = st.MultinomialDistribution(VALUE, len_normalized=True)
    assert halves.log_density([("a", 2), ("b", 1)]) == pytest.approx(-0.497218292259239)


def test_published_statistics():
    estimator = st.MultinomialEstimator(st.CategoricalEstimator(), st.PoissonEstimator())
    assert statistic(estimator, [[("a", 2), ("b", 1)], []]) == ({"a": 2.0, "b": 1.0}, (2.0, 3.0))
    estimator = st.MultinomialEstimator(st.CategoricalEstimator(), len_normalized=True)
    value = statistic(estimator, [[("a", 2), ("b", 1)], [("a", 1)]], [1.0, 2.0])
    assert value[0] == pytest.approx({"a": 8 / 3, "b": 1 / 3})
    low, counts, total = statistic(
        st.IntegerMultinomialEstimator(len_estimator=st.PoissonEstimator()), [[(2, 2), (3, 1)], [(5, 1)]]
    )
    assert (low, counts.tolist(), total) == (2, [2.0, 1.0, 0.0, 1.0], (2.0, 4.0))
    estimator = st.IntegerMultinomialEstimator(2, 5, pseudo_count=4.0)
    fitted = estimator.estimate(None, statistic(estimator, [[(2, 2), (3, 1)], [(5, 1)]]))
    assert fitted.p_vec.tolist() == [0.375, 0.25, 0.125, 0.25]


def test_a_value_that_never_came_up_says_nothing():
    """Not even where the law excludes it, or where the fit is of a fixed range."""
    assert BAG.log_density([("z", 0), ("a", 1)]) == BAG.log_density([("a", 1)])
    assert BAG.log_density([("z", 1), ("a", 1)]) == -math.inf
    estimator = st.IntegerMultinomialEstimator(2, 4)
    assert statistic(estimator, [[(9, 0), (2, 1)]])[1].tolist() == [1.0]
    with pytest.raises(SupportError, match=r"Row 1.*integers 2 to 4"):
        statistic(estimator, [[(2, 1)], [(9, 1)]])
    labels = st.MultinomialEstimator(st.CategoricalEstimator())
    assert statistic(labels, [[("z", 0), ("a", 1)]])[0] == {"a": 1.0}


def test_lists_mappings_and_arrays_mean_the_same():
    forms = ([(2, 2), (3, 1)], {2: 2, 3: 1}, ((2, 2), (3, 1)), np.array([[2, 2], [3, 1]]), [[3, 1], [2, 2]])
    assert len(set(scores(WHOLE, list(forms)).tolist())) == 1
    estimator = st.IntegerMultinomialEstimator()
    assert len({str(bits(statistic(estimator, [form]))) for form in forms}) == 1


def test_one_bag_is_as_many_rows_as_its_total():
    """A fit to bags is the fit to their values."""
    rows = [[("a", 3), ("b", 1)], [("c", 2)], []]
    estimator = st.MultinomialEstimator(st.CategoricalEstimator())
    flat = st.CategoricalEstimator()
    values = [x for row in rows for x, n in row for _ in range(n)]
    assert statistic(estimator, rows)[0] == statistic(flat, values)
    halves = [statistic(estimator, rows[:1]), statistic(estimator, rows[1:])]
    assert fold(estimator, halves)[0] == statistic(flat, values)


def test_bags_of_numbers_and_of_vectors():
    """Whatever law a value has."""
    gaussian = st.MultinomialEstimator(st.GaussianEstimator(), st.PoissonEstimator())
    fitted = gaussian.estimate(None, statistic(gaussian, [[(1.0, 2), (4.0, 1)], [(2.0, 3)]]))
    values = np.repeat([1.0, 4.0, 2.0], [2, 1, 3])
    assert (fitted.dist.mu, fitted.dist.sigma2) == pytest.approx((values.mean(), values.var()))
    plane = st.MultinomialEstimator(st.MultivariateGaussianEstimator(2))
    rows = [[((0.0, 1.0), 3), ((1.0, 0.0), 2)], [((2.0, 2.0), 1)]]
    assert plane.estimate(None, statistic(plane, rows)).dist.mu == pytest.approx([4 / 6, 5 / 6])


def test_huge_counts_and_counts_that_are_none():
    d = st.MultinomialDistribution(VALUE)
    assert d.log_density([("a", 2**53 - 1)]) == pytest.approx(2**53 * math.log(0.5))
    for bad, told in (
        (2**53, "too large"), (-1, "not a count"), (0.5, "not a count"), ("3", "not a number"),
        (math.nan, "missing"), (None, "missing"), (math.inf, "not finite"),
    ):  # fmt: skip
        with pytest.raises(RowError, match=rf"Row 1.*{told}"):
            d.dist_to_encoder().seq_encode([[("a", 1)], [("a", bad)]])


def test_without_a_law_of_the_total_there_is_nothing_to_draw():
    with pytest.raises(NonGenerativeSequenceError, match="len_dist="):
        st.MultinomialDistribution(VALUE).sampler(1).sample(3)
    rows = BAG.sampler(1).sample(2000)
    assert all(len({value for value, _ in row}) == len(row) for row in rows)
    assert np.mean([sum(n for _, n in row) for row in rows]) == pytest.approx(4.0, abs=0.2)


def test_mixtures_of_documents_are_told_apart():
    words = ({"ball": 0.7, "goal": 0.3}, {"tax": 0.8, "goal": 0.2})
    topics = [st.MultinomialDistribution(st.CategoricalDistribution(p), st.PoissonDistribution(6.0)) for p in words]
    truth = st.MixtureDistribution(topics, [0.5, 0.5])
    rows = truth.sampler(4).sample(1500)
    value = st.CategoricalEstimator(pseudo_count=0.1)
    estimator = st.MixtureEstimator([st.MultinomialEstimator(value, st.PoissonEstimator())] * 2)
    model = optimize(rows, estimator, max_its=200, seed=2, out=None)
    assert sorted(c.dist.pmap.get("tax", 0.0) for c in model.components) == pytest.approx([0.0, 0.8], abs=0.03)


@pytest.mark.parametrize(
    "build",
    [
        st.IntegerMultinomialDistribution,
        lambda: st.IntegerMultinomialDistribution(0, [0.5, 0.6]),
        lambda: st.IntegerMultinomialDistribution(0, [-0.5, 1.5]),
        lambda: st.IntegerMultinomialDistribution(0.5, [1.0]),
        lambda: st.IntegerMultinomialDistribution(0, [1.0], prob_vec=[1.0]),
        lambda: st.IntegerMultinomialEstimator(3, 2),
        lambda: st.IntegerMultinomialEstimator(pseudo_count=-1.0),
    ],
)
def test_bad_parameters_are_refused(build):
    with pytest.raises(ValueError, match=r"\w"):
        build()
