"""Tying keys: what may share a key, what may not, and what tying does."""

import numpy as np
import pytest

import mixle.stats as st
from bits import bits, fold, statistic
from mixle.stats import KeyValidationError, validate_estimator_keys
from mixle.stats.compute.pdist import ParameterEstimator
from mixle.stats.keys import has_keys, tie

G, P = st.GaussianEstimator, st.PoissonEstimator


def both(*estimators, keys=None):
    return st.CompositeEstimator(estimators, keys)


LEGAL = [
    G(),
    G(keys="a"),
    G(keys=7),
    G(keys=np.int64(7)),
    both(G(keys="a"), G(keys="a")),
    both(G(keys="a"), G(keys="b"), P(keys="c")),
    both(G(keys="a", name="x"), G(keys="a", name="y")),
    both(G((1.0, 1.0), (0.0, 1.0), keys="a"), G((1.0, 1.0), (0.0, 1.0), keys="a")),
    st.RecordEstimator({"x": G(), "y": G()}),
    st.RecordEstimator({"x": G(keys="a"), "y": G(keys="a"), "keys": P()}),
    both(st.OptionalEstimator(P(keys="a"), est_prob=True), st.SequenceEstimator(P(keys="a"), P(keys="a"))),
    both(both(G(), keys="whole"), both(G(name="other"), keys="whole")),
    both(*[G(keys="a")] * 3),
    st.MixtureEstimator([G(keys="a"), G(keys="a")]),
    st.MixtureEstimator([G(), G()], keys=("w", "c")),
    both(st.MixtureEstimator([G(), G()], keys=("w", None)), st.MixtureEstimator([P(), P()], keys=("w", None))),
    st.IgnoredEstimator(st.PoissonDistribution(1.0)),
]


@pytest.mark.parametrize("estimator", LEGAL)
def test_like_may_be_tied_with_like(estimator):
    validate_estimator_keys(estimator)


ILLEGAL = [
    (
        both(G(keys="a"), P(keys="a")),
        r"different families: field 0 \(GaussianEstimator\) and field 1 \(PoissonEstimator\)",
    ),
    (both(G(keys="a"), st.LogGaussianEstimator(keys="a")), "different families"),
    (both(G(keys="a"), G(keys="a", min_covar=0.1)), r"different settings \(min_covar\)"),
    (both(P(1.0, 2.0, keys="a"), P(1.0, 3.0, keys="a")), r"different settings \(suff_stat\)"),
    (
        both(st.DiagonalGaussianEstimator(2, keys="a"), st.DiagonalGaussianEstimator(3, keys="a")),
        r"different settings \(dim\)",
    ),
    (both(st.GammaEstimator(keys="a"), both(st.OptionalEstimator(G(keys="a")))), "field 1, field 0, value"),
    (st.RecordEstimator({"x": G(keys="a"), "y": P(keys="a")}), "field 'x' .* field 'y'"),
    (both(both(G(), keys="w"), both(P(), keys="w")), "different settings"),
    (both(both(G(), keys="w"), both(G(), G(), keys="w")), "number of parts"),
    (G(keys=("a", "b")), "has one key"),
    (G(keys=("a",)), "pass keys='a'"),
    (G(keys=["a"]), "cannot be a key"),
    (G(keys={"a"}), "cannot be a key"),
    (G(keys=True), "cannot be a key"),
    (G(keys=np.zeros(2)), "cannot be a key"),
    (st.IgnoredEstimator(st.PoissonDistribution(1.0), keys="a"), "never fitted"),
    (st.MixtureEstimator([G(), G()], keys=("a", "a")), "different roles"),
    (
        both(st.MixtureEstimator([G(), G()], keys=("w", None)), st.MixtureEstimator([G()] * 3, keys=("w", None))),
        "number of parts",
    ),
    (both(st.MixtureEstimator([G(), G()], keys=("w", None)), G(keys="w")), "different families"),
]


@pytest.mark.parametrize(("estimator", "message"), ILLEGAL)
def test_what_cannot_be_honoured_is_refused_with_the_places(estimator, message):
    with pytest.raises(KeyValidationError, match=message):
        validate_estimator_keys(estimator)


def test_a_key_error_is_a_value_error_and_names_the_key():
    with pytest.raises(ValueError, match="the key 'shared'"):
        validate_estimator_keys(both(G(keys="shared"), P(keys="shared")))


@pytest.mark.parametrize(
    ("estimator", "keyed"),
    [
        (G(), False),
        (G(keys="a"), True),
        (both(P(), st.OptionalEstimator(G(keys=0))), True),
        (st.RecordEstimator({"a": P()}), False),
    ],
)
def test_has_keys_looks_into_every_part(estimator, keyed):
    assert has_keys(estimator) is keyed


def test_T56_sites_of_one_key_get_the_pooled_answer_in_any_merge_order():
    rows = [(1.0, 10.0), (3.0, 20.0), (5.0, 30.0)]
    everything = np.ravel(rows)
    for order in ((0, 1), (1, 0)):
        estimator = both(G(keys="a"), G(keys="a"))
        a, b = estimator.estimate(None, statistic(estimator, [tuple(r[i] for i in order) for r in rows])).dists
        for site in (a, b):
            assert site.mu == pytest.approx(everything.mean(), rel=1e-12)
            assert site.sigma2 == pytest.approx(everything.var(), rel=1e-12)


def test_ties_reach_through_every_combinator():
    estimator = st.RecordEstimator({
        "plain": P(keys="k"),
        "maybe": st.OptionalEstimator(P(keys="k")),
        "many": st.SequenceEstimator(P(keys="k"), P(keys="k")),
        "alone": P(),
    })  # fmt: skip
    rows = [{"plain": 1, "maybe": None, "many": [4, 6], "alone": 50}, {"plain": 3, "maybe": 7, "many": [], "alone": 70}]
    fitted = estimator.estimate(2.0, statistic(estimator, rows)).fields
    pooled = (1 + 3 + 7 + 4 + 6 + 2 + 0) / 7
    sites = [fitted["plain"], fitted["maybe"].dist, fitted["many"].dist, fitted["many"].len_dist]
    assert [site.lam for site in sites] == pytest.approx([pooled] * 4)
    assert fitted["alone"].lam == 60.0


def test_a_whole_composite_may_be_tied():
    estimator = both(both(P(), G(), keys="w"), both(P(), G(), keys="w"))
    fitted = estimator.estimate(None, statistic(estimator, [((1, 0.0), (3, 4.0))]))
    assert [part.dists[0].lam for part in fitted.dists] == [2.0, 2.0]
    assert [part.dists[1].mu for part in fitted.dists] == [2.0, 2.0]


def test_tying_once_on_the_total_is_not_tying_every_shard():
    estimator = both(P(keys="k"), P(keys="k"))
    shards = [[(1, 3)], [(5, 7), (2, 0)]]
    total = fold(estimator, [statistic(estimator, rows, tied=False) for rows in shards])
    accumulator = estimator.accumulator_factory().make().from_value(total)
    tie(accumulator)
    assert accumulator.value() == ((6.0, 18.0), (6.0, 18.0))
    once = accumulator.value()
    assert bits(once) == bits(statistic(estimator, [row for rows in shards for row in rows]))


def test_tie_leaves_out_passes_that_are_not_there():
    class Bare:
        pass

    tie(Bare())

    class Half:
        def __init__(self):
            self.seen = []

        def key_merge(self, pooled):
            self.seen.append(dict(pooled))

    half = Half()
    tie(half)
    assert half.seen == [{}]


class Foreign(ParameterEstimator):
    """An estimator written elsewhere: no parts, its keyed site is its attribute."""

    def __init__(self, keys=None, inner=None):
        self.keys, self.inner = keys, inner or P(keys=keys)

    def accumulator_factory(self):
        return self.inner.accumulator_factory()

    def estimate(self, nobs, value):
        return self.inner.estimate(nobs, value)


def test_estimators_written_elsewhere_are_sites_too():
    validate_estimator_keys(Foreign("a"))
    validate_estimator_keys(both(Foreign("a"), Foreign("a")))
    with pytest.raises(KeyValidationError, match="different families"):
        validate_estimator_keys(both(Foreign("a"), P(keys="a")))


def test_estimator_and_accumulator_must_agree():
    for estimator in (Foreign("a", P()), Foreign(None, P(keys="b")), Foreign("a", P(keys="b"))):
        with pytest.raises(KeyValidationError, match="disagree"):
            validate_estimator_keys(estimator)
