"""Sets: every subset counted, elements near certainty, any order, any size."""

import itertools
import math
import os
import subprocess
import sys

import mpmath as mp
import numpy as np
import pytest

import mixle.stats as st
from bits import fold, statistic
from mixle.errors import BernoulliSetFitError, IntegerBernoulliSetFitError, RowError, SupportError
from mixle.inference import optimize

P = {"a": 0.5, "b": 0.25, "c": 0.9, 7: 1e-5, None: 1.0 - 1e-9}


def subsets(items):
    return [s for n in range(len(items) + 1) for s in itertools.combinations(items, n)]


def exact(p, row):
    """Return the log-density with 40 digits."""
    with mp.workdps(40):
        return float(sum(mp.log(mp.mpf(q)) if label in row else mp.log(1 - mp.mpf(q)) for label, q in p.items()))


def scores(dist, rows):
    return dist.seq_log_density(dist.dist_to_encoder().seq_encode(rows))


def test_the_densities_of_all_subsets_sum_to_one():
    d = st.BernoulliSetDistribution(P)
    rows = subsets(list(P))
    assert math.fsum(np.exp(scores(d, rows))) == pytest.approx(1.0, rel=1e-14)
    assert scores(d, rows) == pytest.approx([exact(P, row) for row in rows], rel=1e-13)
    integers = st.IntegerBernoulliSetDistribution(np.log(list(P.values())))
    numbers = subsets(range(len(P)))
    assert math.fsum(np.exp(scores(integers, numbers))) == pytest.approx(1.0, rel=1e-14)
    by_number = dict(enumerate(P.values()))
    assert scores(integers, numbers) == pytest.approx([exact(by_number, row) for row in numbers], rel=1e-9)


def test_many_nearly_certain_elements_do_not_cancel():
    """One less each is 36 in the logarithm: 5000 of them would leave a sum of digits lost."""
    p = dict.fromkeys(range(5000), 1.0 - 2.0**-50)
    d = st.BernoulliSetDistribution(p)
    assert d.log_density(range(5000)) == pytest.approx(-5000 * 2.0**-50, rel=1e-12)
    assert d.log_density(range(4999)) == pytest.approx(-50.0 * math.log(2.0) - 4999 * 2.0**-50, rel=1e-14)
    p = st.IntegerBernoulliSetDistribution(np.full(3, -1e-30), np.full(3, math.log(1e-30)))
    assert p.log_density([0, 1, 2]) == pytest.approx(-3e-30, rel=1e-14, abs=0.0)


@pytest.mark.parametrize(("min_prob", "expected"), [(0.0, -math.inf), (1e-128, -38.4108), (1e-3, -8.5818)])
def test_min_prob_says_what_a_certain_label_costs_where_it_lacks(min_prob, expected):
    d = st.BernoulliSetDistribution({"a": 0.5, "b": 0.25, "c": 1.0, "d": 0.0}, min_prob)
    assert d.log_density(["a"]) == pytest.approx(math.log(0.375) + (expected - math.log(0.1875)), abs=0.02)
    known = math.log(0.375)
    assert d.log_density(["a", "c"]) == pytest.approx(known, abs=2.1e-3)
    assert (d.log_density(["c", "d"]) == -math.inf) == (min_prob == 0.0)


def test_published_values():
    d = st.BernoulliSetDistribution({"a": 0.5, "b": 0.25, "c": 1.0, "d": 0.0})
    rows = [["c"], ["a", "c"], [], ["a"], {"a", "c"}, ["c", "d"]]
    expected = [-0.980829253011726, -0.980829253011726, -37.71762982268883, -37.71762982268883, -0.980829253011726]
    assert scores(d, rows) == pytest.approx([*expected, -295.7117211562496], rel=1e-12)
    d = st.IntegerBernoulliSetDistribution(np.log([0.5, 0.25, 0.9]))
    assert scores(d, [[0], [0, 2], []]) == pytest.approx([-3.283414346005772, -1.0861897686695525, -3.283414346005772])


@pytest.mark.parametrize("form", [list, tuple, set, frozenset, lambda row: np.array(row, object)])
def test_sets_lists_and_arrays_mean_the_same(form):
    d = st.BernoulliSetDistribution(P)
    rows = [["a", "c"], ["c"], [], ["b", 7, None]]
    assert scores(d, [form(row) for row in rows]).tobytes() == scores(d, rows).tobytes()
    assert scores(d, [list(reversed(row)) for row in rows]).tobytes() == scores(d, rows).tobytes()


@pytest.mark.parametrize("row", [["a", "a"], ("a", "b", "a"), [1, True], [1, 1.0]])
def test_an_element_that_stands_twice_is_refused(row):
    with pytest.raises(RowError, match=r"Row 1.*twice"):
        st.BernoulliSetDistribution(P).dist_to_encoder().seq_encode([["a"], row])
    with pytest.raises(RowError, match=r"Row 1.*holds 1 twice"):
        st.IntegerBernoulliSetDistribution([-1.0, -1.0]).dist_to_encoder().seq_encode([[0], [0, 1, 1]])


@pytest.mark.parametrize("row", ["abc", b"abc", 3, None, {"a": 1}, math.nan, np.zeros((2, 2))])
def test_what_is_no_set_is_refused(row):
    for d in (st.BernoulliSetDistribution(P), st.IntegerBernoulliSetDistribution([-1.0])):
        with pytest.raises(RowError, match=r"(?s)Row 1.*not a set"):
            d.dist_to_encoder().seq_encode([[], row])


def test_the_order_of_a_set_reaches_no_number():
    """Sets of strings come in another order in each process."""
    code = (
        "import mixle.stats as st\n"
        "from mixle.inference import optimize\n"
        "words = 'the quick brown fox jumps over a lazy dog'.split()\n"
        "rows = [set(words[i % 5 : i % 5 + i % 4]) for i in range(60)]\n"
        "estimator = st.MixtureEstimator([st.BernoulliSetEstimator(pseudo_count=0.1)] * 2)\n"
        "model = optimize(rows, estimator, max_its=5, seed=3, out=None)\n"
        "print(model.digest(), list(model.components[0].pmap))\n"
    )
    seen = set()
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, check=True, timeout=120
        )
        seen.add(done.stdout)
    assert len(seen) == 1


def test_shards_that_saw_other_labels_add_up():
    rows = [{"a"}, {"b", 3}, set(), {"a", "b"}, {2.5, ("t", 1)}]
    estimator = st.BernoulliSetEstimator()
    parts = [statistic(estimator, rows[i : i + 1], [float(i + 1)]) for i in range(5)]
    counts, total = fold(estimator, parts)
    assert counts == {2.5: 5.0, 3: 2.0, "a": 5.0, "b": 6.0, ("t", 1): 5.0}
    assert list(counts) == [2.5, 3, "a", "b", ("t", 1)]
    assert total == 15.0
    assert estimator.estimate(None, (counts, total)).pmap["b"] == pytest.approx(6.0 / 15.0)


def test_rows_read_for_more_integers_than_a_law_has():
    """The encoder of an estimator may know more of them."""
    law = st.IntegerBernoulliSetDistribution(np.log([0.5, 0.25]))
    encoder = st.IntegerBernoulliSetEstimator(4).accumulator_factory().make().acc_to_encoder()
    found = law.seq_log_density(encoder.seq_encode([[0], [3], []]))
    assert found == pytest.approx([math.log(0.375), -math.inf, math.log(0.375)])


def test_huge_sets_and_huge_supports():
    rng = np.random.RandomState(0)
    rows = [rng.choice(300_000, size, replace=False) for size in (0, 1, 200_000, 1000)]
    estimator = st.IntegerBernoulliSetEstimator(300_000, pseudo_count=1.0)
    model = estimator.estimate(None, statistic(estimator, rows))
    p = np.exp(model.log_pvec)
    for row, score in zip(rows, scores(model, rows), strict=True):
        there = np.zeros(300_000, bool)
        there[row] = True
        assert score == pytest.approx(math.fsum(np.where(there, np.log(p), np.log1p(-p))), rel=1e-12)
    labels = st.BernoulliSetEstimator(pseudo_count=1.0)
    named = [[f"w{i}" for i in row[:20_000]] for row in rows]
    assert np.isfinite(scores(labels.estimate(None, statistic(labels, named)), named)).all()


RULES = [
    (st.BernoulliSetEstimator(), {"a": 1 / 3, "b": 2 / 3}),
    (st.BernoulliSetEstimator(pseudo_count=2.0), {"a": 0.4, "b": 0.6}),
    (st.BernoulliSetEstimator(pseudo_count=2.0, suff_stat={"a": 0.25, "q": 0.5}), {"a": 0.3, "b": 0.4, "q": 0.2}),
    (st.BernoulliSetEstimator(suff_stat={"a": 0.25}), {"a": 1 / 3, "b": 2 / 3}),
    (st.BernoulliSetEstimator(support=["x", "a", "b"]), {"x": 0.0, "a": 1 / 3, "b": 2 / 3}),
    (st.BernoulliSetEstimator(prior=st.BetaDistribution(2.0, 3.0)), {"a": 1 / 3, "b": 0.5}),
]


@pytest.mark.parametrize(("estimator", "expected"), RULES)
def test_fits_follow_the_documented_rules(estimator, expected):
    fitted = estimator.estimate(None, statistic(estimator, [["a", "b"], [], ["b"]]))
    assert list(fitted.pmap) == list(expected)
    assert list(fitted.pmap.values()) == pytest.approx(list(expected.values()), rel=1e-14)


def test_fits_of_integers_follow_the_documented_rules():
    rows = [[0, 1], [], [1]]
    for options, expected in (
        ({}, [1 / 3, 2 / 3, 1e-128]),
        ({"pseudo_count": 2.0}, [0.4, 0.6, 0.2]),
        ({"pseudo_count": 2.0, "suff_stat": [0.5, 0.25, 0.25]}, [0.4, 0.5, 0.1]),
        ({"min_prob": 0.0}, [1 / 3, 2 / 3, 0.0]),
    ):
        estimator = st.IntegerBernoulliSetEstimator(3, **options)
        fitted = estimator.estimate(None, statistic(estimator, rows))
        assert np.exp(fitted.log_pvec) == pytest.approx(expected, rel=1e-13)
    assert st.IntegerBernoulliSetEstimator(num_values=3).num_vals == 3


def test_a_prior_leaves_its_posteriors():
    estimator = st.BernoulliSetEstimator(prior=st.BetaDistribution(2.0, 3.0))
    fitted = estimator.estimate(None, statistic(estimator, [["a", "b"], [], ["b"]]))
    assert fitted.posteriors == {"a": (3.0, 5.0), "b": (4.0, 4.0)}
    assert fitted.get_prior().a == 2.0
    beta = st.BetaDistribution(2.0, 3.0)
    assert estimator.own_log_density(fitted) == pytest.approx(beta.log_density(1 / 3) + beta.log_density(0.5))
    again = type(fitted).from_json(fitted.to_json())
    assert (again.posteriors, again.digest()) == (fitted.posteriors, fitted.digest())


def test_what_a_fit_has_not_seen_and_what_it_may_not_see():
    estimator = st.BernoulliSetEstimator(support=["a", "b"])
    with pytest.raises(SupportError, match=r"Row 1.*support's labels"):
        statistic(estimator, [["a"], ["a", "z"]])
    fitted = estimator.estimate(None, statistic(estimator, [["a"], []]))
    assert fitted.log_density(["z"]) == -math.inf
    assert fitted.log_density(["b"]) == pytest.approx(math.log(0.5) + math.log(1e-128))
    with pytest.raises(BernoulliSetFitError, match="pass pseudo_count"):
        estimator.estimate(0.0, ({}, 0.0))
    with pytest.raises(IntegerBernoulliSetFitError, match="pass pseudo_count"):
        st.IntegerBernoulliSetEstimator(2).estimate(0.0, ([0.0, 0.0], 0.0))
    with pytest.raises(ValueError, match="the statistic has 2 integers, 3 are expected"):
        st.IntegerBernoulliSetEstimator(3).estimate(None, ([0.0, 0.0], 1.0))


def test_mixtures_of_baskets_are_told_apart():
    breakfast = st.BernoulliSetDistribution({"tea": 0.9, "milk": 0.8, "rum": 0.01, "bread": 0.7})
    supper = st.BernoulliSetDistribution({"tea": 0.1, "milk": 0.05, "rum": 0.6, "bread": 0.5})
    rows = st.MixtureDistribution([breakfast, supper], [0.5, 0.5]).sampler(1).sample(3000)
    for estimator, data in (
        (st.BernoulliSetEstimator(), rows),
        (st.IntegerBernoulliSetEstimator(4), [[["bread", "milk", "rum", "tea"].index(x) for x in row] for row in rows]),
    ):
        model = optimize(data, st.MixtureEstimator([estimator] * 2), max_its=400, seed=2, out=None)
        rum = sorted(c.pmap["rum"] if hasattr(c, "pmap") else float(np.exp(c.log_pvec[2])) for c in model.components)
        assert rum == pytest.approx([0.01, 0.6], abs=0.05)


@pytest.mark.parametrize(
    "build",
    [
        lambda: st.BernoulliSetDistribution({"a": 1.5}),
        lambda: st.BernoulliSetDistribution({"a": -0.1}),
        lambda: st.BernoulliSetDistribution({"a": math.nan}),
        lambda: st.BernoulliSetDistribution(["a"]),
        st.BernoulliSetDistribution,
        lambda: st.BernoulliSetDistribution({"a": 0.5}, min_prob=0.6),
        lambda: st.BernoulliSetDistribution({"a": 0.5}, prob_map={"a": 0.5}),
        lambda: st.BernoulliSetEstimator(pseudo_count=-1.0),
        lambda: st.BernoulliSetEstimator(suff_stat={"a": 2.0}),
        lambda: st.BernoulliSetEstimator(prior=st.BetaDistribution(0.5, 1.0)),
        lambda: st.BernoulliSetEstimator(pseudo_count=1.0, prior=st.BetaDistribution(2.0, 1.0)),
        lambda: st.IntegerBernoulliSetDistribution([0.1]),
        lambda: st.IntegerBernoulliSetDistribution([math.nan]),
        lambda: st.IntegerBernoulliSetDistribution([]),
        lambda: st.IntegerBernoulliSetDistribution(np.log([0.5, 0.25]), np.log([0.25, 0.5])),
        lambda: st.IntegerBernoulliSetDistribution([-1.0], [-1.0, -1.0]),
        lambda: st.IntegerBernoulliSetEstimator(0),
        lambda: st.IntegerBernoulliSetEstimator(True),
        lambda: st.IntegerBernoulliSetEstimator(2, suff_stat=[0.5]),
    ],
)
def test_bad_parameters_are_refused(build):
    with pytest.raises(ValueError, match=r"\w"):
        build()
