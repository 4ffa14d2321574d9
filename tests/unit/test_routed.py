"""Laws that send rows to other laws: conditional, select, and rows that bring a weight."""

import math

import numpy as np
import pytest

import mixle.stats as st
from bits import bits, statistic
from mixle.errors import (
    NonGenerativeConditionalError,
    NonGenerativeSelectError,
    RowError,
    SerializationError,
    SupportError,
)
from mixle.inference import optimize
from mixle.stats.combinators.conditional import ConditionalBranchStatistics, ConditionalStatistics
from mixle.stats.combinators.select import SelectStatistics
from mixle.stats.combinators.weighted import WeightedStatistics

G = st.GaussianDistribution
LAWS = {"a": G(0.0, 1.0), "b": G(1.0, 2.0)}
GIVEN = st.CategoricalDistribution({"a": 0.5, "b": 0.5})


def test_values_of_the_published_package():
    d = st.ConditionalDistribution(LAWS, given_dist=GIVEN)
    assert d.log_density(("a", 1.0)) == pytest.approx(-2.112085713764618, rel=1e-15)
    assert d.log_density(("c", 1.0)) == -math.inf
    alone = st.ConditionalDistribution({"a": G(0.0, 1.0)})
    assert [alone.log_density(("a", 0.0)), alone.log_density(("b", 0.0))] == [-0.9189385332046727, -math.inf]
    other = st.ConditionalDistribution({"a": G(0.0, 1.0)}, default_dist=G(0.0, 1.0))
    assert other.log_density(("b", 0.0)) == -0.9189385332046727
    assert st.ConditionalDistribution([G(0.0, 1.0), G(1.0, 1.0)]).log_density((1, 0.0)) == -1.4189385332046727
    s = st.SelectDistribution.by_type([(float, G(0.0, 1.0)), (str, st.CategoricalDistribution({"a": 1.0}))], [0.3, 0.7])
    assert s.log_density(1.0) == pytest.approx(-2.622911337530609, rel=1e-15)


def test_statistics_have_the_published_layout():
    d = st.ConditionalDistribution(LAWS, given_dist=GIVEN)
    value = statistic(d.estimator(), [("a", 1.0), ("b", 2.0), ("a", 3.0)], model=d)
    assert isinstance(value, ConditionalStatistics)
    assert [(b.key, b.nobs) for b in value.branches] == [("a", 2.0), ("b", 1.0)]
    assert value[2:5] == (0.0, None, 3.0)
    raw = ConditionalStatistics(
        1,
        (
            ConditionalBranchStatistics("a", 2.0, (4.0, 10.0, 2.0, 2.0)),
            ConditionalBranchStatistics("b", 1.0, (2.0, 4.0, 1.0, 1.0)),
        ),
        0.0, None, 3.0, {"a": 2.0, "b": 1.0},
    )  # fmt: skip
    assert d.estimator().estimate(3.0, raw).dmap["a"].mu == 2.0
    w = st.WeightedEstimator(st.GaussianEstimator())
    found = w.estimate(None, WeightedStatistics((5.0, 11.0, 3.0, 3.0), 3.0)).dist
    assert (found.mu, found.sigma2) == pytest.approx((1.6666666666666667, 0.8888888888888887), rel=1e-14)
    s = st.SelectEstimator([st.GaussianEstimator(), st.CategoricalEstimator()], st.TypeDispatch([float, str]), True)
    model = s.estimate(None, SelectStatistics(1, ((2.0, (3.0, 5.0, 2.0, 2.0)), (1.0, {"a": 1.0}))))
    assert (model.dists[0].mu, model.dists[0].sigma2) == (1.5, 0.25)
    assert model.weights.tolist() == pytest.approx([2 / 3, 1 / 3])


def test_branches_are_fitted_to_their_rows_and_told_their_weight():
    rows = [("a", 1.0), ("b", 5.0), ("a", 3.0), ("z", 9.0)]
    told = []

    class Told(st.GaussianEstimator):
        def estimate(self, nobs, suff_stat):
            told.append(nobs)
            return super().estimate(nobs, suff_stat)

    estimator = st.ConditionalEstimator({"a": Told(), "b": Told()}, Told(), st.CategoricalEstimator())
    fitted = estimator.estimate(4.0, statistic(estimator, rows, [1.0, 2.0, 1.0, 0.5]))
    assert told == [2.0, 2.0, 0.5]
    assert [fitted.dmap["a"].mu, fitted.dmap["b"].mu, fitted.default_dist.mu] == [2.0, 5.0, 9.0]


def test_a_weight_that_a_row_brings_multiplies_its_weight():
    estimator = st.WeightedEstimator(st.GaussianEstimator())
    rows = [(1.0, 2.0), (4.0, 0.0), (7.0, 1.0)]
    plain = statistic(st.GaussianEstimator(), [1.0, 4.0, 7.0], [1.0, 0.0, 1.0])
    assert bits(statistic(estimator, rows, [0.5, 1.0, 1.0]).child) == bits(plain)
    empty = optimize([(1.0, 0.0), (2.0, 0.0)], estimator, out=None)
    assert math.isfinite(empty.dist.mu)


def test_a_branch_without_rows_keeps_the_others():
    estimator = st.ConditionalEstimator({"a": st.GaussianEstimator(), "b": st.PoissonEstimator()})
    fitted = optimize([("a", 1.0), ("a", 3.0)], estimator, out=None)
    assert fitted.dmap["a"].mu == 2.0
    assert type(fitted).from_json(fitted.to_json()).digest() == fitted.digest()


def test_keys_of_any_kind_survive_json():
    d = st.ConditionalDistribution({("x", 1): G(0.0, 1.0), 3: G(1.0, 1.0), None: G(2.0, 1.0), 2.5: G(3.0, 1.0)})
    again = type(d).from_json(d.to_json())
    assert list(again.dmap) == [("x", 1), 3, None, 2.5]
    assert again.digest() == d.digest()
    assert again.log_density((np.int64(3), 1.0)) == d.log_density((3, 1.0))


def test_rows_of_no_branch_are_refused_by_a_fit():
    estimator = st.ConditionalEstimator({"a": st.GaussianEstimator()})
    with pytest.raises(SupportError, match=r"Row 1 \(Conditional\): the row belongs to no branch"):
        statistic(estimator, [("a", 1.0), ("z", 1.0)])
    kept = statistic(estimator, [("a", 1.0), ("z", 1.0)], [1.0, 0.0])
    assert bits(kept) == bits(statistic(estimator, [("a", 1.0)]))


def test_sampling_needs_a_law_of_what_is_given():
    d = st.ConditionalDistribution(LAWS)
    with pytest.raises(NonGenerativeConditionalError, match="sample_given"):
        d.sampler(1).sample(3)
    sampler = d.conditional_sampler(3)
    assert isinstance(sampler.sample_given("a"), float)
    assert len(sampler.sample_given("b", 5)) == 5
    with pytest.raises(ValueError, match="no law for the key 'z'; known are 'a', 'b'; pass default_dist"):
        sampler.sample_given("z")
    with pytest.raises(NonGenerativeSelectError, match="pass weights="):
        st.SelectDistribution([G(0.0, 1.0)], st.TypeDispatch([float])).sampler(1).sample()


def test_functions_are_written_by_name_or_refused():
    def choose(x):
        return int(x > 5.0)

    d = st.SelectDistribution([G(0.0, 1.0), G(9.0, 1.0)], choose)
    rows = [0.5, 9.0, 8.0, 1.0]
    fitted = optimize(rows, d.estimator(), out=None)
    assert fitted.dists[1].mu == 8.5
    with pytest.raises(SerializationError, match=r"register_function\(function, 'a name'\)"):
        fitted.to_json()
    with pytest.raises(SerializationError, match="checkpoint= needs a model that JSON can hold"):
        optimize(rows, d.estimator(), out=None, checkpoint="never-written.json")
    with pytest.raises(ValueError, match="no name of its own"):
        st.register_function(lambda x: 0)
    assert st.register_function(choose, "tests.choose") is choose
    with pytest.raises(ValueError, match="already stands for another function"):
        st.register_function(len, "tests.choose")
    text = fitted.to_json()
    again = type(fitted).from_json(text)
    assert again.choice_function is choose
    assert again.digest() == fitted.digest()
    with pytest.raises(SerializationError, match=r"'tests\.chose' is not registered here"):
        type(fitted).from_json(text.replace("tests.choose", "tests.chose"))


def test_a_mixture_of_selections_and_pools_agree():
    rows = [0.5, "a", 9.0, "b", 8.5, 0.1] * 20
    pair = [st.GaussianEstimator(), st.CategoricalEstimator()]
    estimator = st.MixtureEstimator([st.SelectEstimator(pair, st.TypeDispatch([float, str]), True)] * 2)
    one, many = (
        optimize(rows, estimator, max_its=5, delta=None, seed=1, num_shards=4, out=None, **options)
        for options in ({}, {"backend": "mp", "num_workers": 2})
    )
    assert one.digest() == many.digest()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: st.ConditionalDistribution(G(0.0, 1.0)), TypeError, "takes a map from keys"),
        (lambda: st.SelectDistribution([G(0.0, 1.0)], 3), TypeError, "int is no function"),
        (lambda: st.SelectDistribution([G(0.0, 1.0)], len, [0.5, 0.5]), ValueError, "needs as many weights"),
        (lambda: st.SelectDistribution([G(0.0, 1.0)], len, [0.5]), ValueError, "must sum to one"),
        (lambda: st.TypeDispatch(["words"]), ValueError, "'words' is no type of a TypeDispatch"),
        (lambda: st.SelectEstimator([], len, pseudo_count=-1.0), ValueError, "pseudo_count"),
        (
            lambda: st.ConditionalEstimator({"a": st.PoissonEstimator()}).estimate(
                None, statistic(st.ConditionalEstimator({"b": st.PoissonEstimator()}), [("b", 1)])
            ),
            ValueError,
            r"the statistic has .* as branches, .* are expected",
        ),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("dist", "rows", "message"),
    [
        (st.ConditionalDistribution(LAWS), [("a", 1.0), ("b", "x")], r"Row 1, field 1 \(Gaussian\): 'x' is not"),
        (
            st.ConditionalDistribution(LAWS),
            [("a", 1.0), ([], 1.0)],
            r"Row 1, field 0 \(Conditional\): \[\] cannot be a",
        ),
        (st.ConditionalDistribution(LAWS), [("a", 1.0), 4], "Row 1: 4 is not a row of 2 fields"),
        (st.WeightedDistribution(G(0.0, 1.0)), [(1.0, 1.0), (1.0, -2.0)], "Row 1, field 1 .*weight -2.0 is negative"),
        (st.WeightedDistribution(G(0.0, 1.0)), [(1.0, math.inf)], "Row 0, field 1 .*not finite"),
        (st.SelectDistribution([G(0.0, 1.0)], lambda x: 5), [1.0], r"gives 5 for 1.0; it must give 0, ..., or 0"),
        (st.SelectDistribution([G(0.0, 1.0)], lambda x: 0.0), [1.0], "gives 0.0 for 1.0"),
        (st.SelectDistribution([G(0.0, 1.0)], st.TypeDispatch([float])), [1.0, "a"], "Row 1 .*gives -1 for 'a'"),
    ],
)
def test_bad_rows_are_named(dist, rows, message):
    with pytest.raises(RowError, match=message):
        dist.dist_to_encoder().seq_encode(rows)
