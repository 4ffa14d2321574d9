"""Cases of other libraries' users over every model, and what each latent model says to bad input."""

import contextlib
import math

import numpy as np
import pytest

import mixle.stats as st
from bits import bits, statistic
from mixle.inference import optimize, seq_initialize
from mixle.utils.parallel.planner import encoded_data
from models import MODELS

NAN = math.nan
G, C, P = st.GaussianEstimator, st.CategoricalEstimator, st.PoissonEstimator
pytestmark = pytest.mark.filterwarnings("ignore:EM stopped")


@pytest.mark.parametrize("name", sorted(MODELS))
def test_T55_a_shard_computed_again_in_another_order_has_its_bits(name):
    """Whatever was computed before it, and however often: a shard's statistic is a function of its rows."""
    model = MODELS[name]()
    shards = [model.rows[s::4] for s in range(4)]
    first = [bits(statistic(model.estimator, rows, model=model.dist)) for rows in shards]
    again = [bits(statistic(model.estimator, rows, model=model.dist)) for rows in reversed(shards)]
    assert list(reversed(again)) == first
    with encoded_data(model.rows, model.estimator, num_shards=4) as handle:
        steps = [handle.estep(model.estimator, model.dist) for _ in range(2)]
        assert bits(steps[0].value) == bits(steps[1].value)
        assert steps[0].log_density.hex() == steps[1].log_density.hex()


#: What each latent model is fitted by, and rows that it fits.
LATENT = {
    "mixture": (st.MixtureEstimator([G()] * 2), [0.0, 0.5, 5.0, 5.5]),
    "heterogeneous mixture": (st.HeterogeneousMixtureEstimator([G(), st.ExponentialEstimator()]), [0.1, 0.5, 5.0, 5.5]),
    "gaussian mixture": (
        st.GaussianMixtureEstimator([st.DiagonalGaussianEstimator()] * 2),
        [[0.0, 1.0], [0.5, 1.5], [5.0, 5.0], [6.0, 5.5]],
    ),
    "semi-supervised mixture": (
        st.SemiSupervisedMixtureEstimator([G()] * 2),
        [(0.0, [(0, 1.0)]), (0.5, None), (5.0, None), (5.5, [(1, 1.0)])],
    ),
    "joint mixture": (st.JointMixtureEstimator([G()] * 2, [P()] * 2), [(0.0, 1), (0.5, 2), (5.0, 9), (5.5, 8)]),
    "hidden markov": (st.HiddenMarkovEstimator([G()] * 2, P()), [[0.0, 0.5, 5.0], [5.5, 0.1], [4.9], [0.2, 5.1]]),
    "hierarchical mixture": (
        st.HierarchicalMixtureEstimator([G()] * 2, 2, P()),
        [[0.0, 0.5, 5.0], [5.5, 0.1], [4.9, 5.0], [0.2, 0.1]],
    ),
    "latent dirichlet allocation": (
        st.LDAEstimator([st.CategoricalEstimator()] * 2, P()),
        [[("a", 2), ("b", 1)], [("c", 3)], [("a", 1.0), ("c", 1.0)], [("b", 2), ("a", 4)]],
    ),
    "probabilistic pca": (
        st.ProbabilisticPCAEstimator(1),
        [[0.0, 1.0], [0.5, 1.5], [5.0, 5.0], [6.0, 5.5]],
    ),
    "markov chain": (st.MarkovChainEstimator(len_estimator=P()), [["a", "b"], ["b", "b", "a"], ["a"], ["a", "a"]]),
    "integer markov chain": (st.IntegerMarkovChainEstimator(2, len_estimator=P()), [[0, 1], [1, 1, 0], [0], [0, 0]]),
}
VALUES = {"mixture", "heterogeneous mixture"}
VECTORS = {"gaussian mixture", "probabilistic pca"}
SEQUENCES = {"hidden markov", "hierarchical mixture"}
CHAINS = {"markov chain", "integer markov chain"}


def fit(name, rows=None, **options):
    estimator, good = LATENT[name]
    return optimize(good if rows is None else rows, estimator, **{"max_its": 3, "init_p": 1.0, "seed": 1, **options})


def broken(name):
    """Return (what, rows, message) of each bad input of a model."""
    good = LATENT[name][1]
    yield "no rows", [], "received no observations"
    if name in VALUES:
        yield "all missing", [NAN] * 4, "Row 0.*missing.*Optional"
        yield "text", [*good, "x"], "Row 4.*not a number"
    if name in VECTORS:
        yield "all missing", [[NAN, NAN]] * 4, "Row 0, field 0.*missing"
        yield "a ragged row", [*good, [1.0]], "Row 4.*1 entries, 2 are expected"
        yield "a missing entry", [*good, [1.0, NAN]], "Row 4, field 1.*missing"
    if name == "semi-supervised mixture":
        yield "an unknown component", [*good, (1.0, [(2, 1.0)])], "Row 4, field 1.*component 0 to 1"
        yield "no pair", [*good, (1.0,)], "Row 4.*expected 2 fields"
    if name == "joint mixture":
        yield "half a pair", [*good, (1.0,)], "Row 4.*expected 2 fields"
        yield "a missing half", [*good, (1.0, None)], "Row 4, field 1.*missing"
    if name in SEQUENCES:
        yield "all missing", [[NAN, NAN]] * 4, "Row 0, field 0.*missing.*Optional"
        yield "a missing element", [*good, [0.0, NAN]], "Row 4, field 1.*missing.*Optional"
        yield "a number for a sequence", [*good, 3.0], "Row 4.*not a sequence"
    if name == "latent dirichlet allocation":
        yield "all missing", [[(NAN, 1)]] * 4, "Row 0, field 0, field 0.*missing"
        yield "a count of zero", [*good, [("a", 1), ("b", 0)]], "Row 4, field 1, field 1.*above 0"
        yield "a word for a pair", [*good, ["abc"]], r"Row 4, field 0.*not a pair; pass \(word, count\)"
        yield "text for a document", [*good, "ab"], r"Row 4.*not a list of pairs; pass \[\(word, count\), ...\]"
    if name in CHAINS:
        yield "all missing", [[NAN, NAN]] * 4, "Row 0, field 0.*missing"
        yield "a missing element", [*good, [0, NAN]], "Row 4, field 1.*missing"
        yield "a number for a sequence", [*good, 3.0], "Row 4.*not a sequence"
    if name == "integer markov chain":
        yield "too short", [*good, []], "row 4.*shorter than lag=1|Row 4.*shorter than lag=1"
        yield "a value outside", [*good, [0, 2]], "Row 4.*outside of 0 to 1"
    if name in VALUES | {"gaussian mixture", "semi-supervised mixture", "joint mixture"}:
        yield "more components than rows", good[:1], r"1 row \(n=1\) cannot start"


BAD = [(name, what) for name in LATENT for what, _, _ in broken(name)]


@pytest.mark.parametrize(("name", "what"), BAD, ids=[f"{name}: {what}" for name, what in BAD])
def test_bad_rows_are_refused_by_name(name, what):
    rows, message = next((rows, message) for kind, rows, message in broken(name) if kind == what)
    with pytest.raises(ValueError, match=message):
        fit(name, rows)


@pytest.mark.parametrize("name", LATENT)
def test_bad_weights_are_refused(name):
    count = len(LATENT[name][1])
    for weights, message in (
        ([1.0] * (count + 1), f"{count + 1}"),
        ([0.0] * count, "zero|positive"),
        ([-1.0] + [1.0] * (count - 1), "negative|weight"),
        ([NAN] + [1.0] * (count - 1), "finite|weight"),
    ):
        with pytest.raises(ValueError, match=message):
            fit(name, weights=weights)


@pytest.mark.parametrize("name", LATENT)
def test_good_rows_are_fitted(name):
    model = fit(name)
    payload = model.dist_to_encoder().seq_encode(LATENT[name][1])
    assert np.isfinite(model.seq_log_density(payload)).all()


def test_every_latent_model_and_chain_is_in_the_table():
    kinds = ("mixle.stats.latent.", "mixle.stats.sequences.")
    found = {getattr(st, name) for name in st.__all__ if name.endswith("Estimator")}
    assert {kind for kind in found if kind.__module__.startswith(kinds)} == {type(e) for e, _ in LATENT.values()}


@pytest.mark.parametrize("name", sorted(SEQUENCES | {"markov chain", "latent dirichlet allocation"}))
def test_sequences_of_length_zero_and_one_take_part(name):
    good = LATENT[name][1]
    short = [[], good[0][:1], *good, []]
    model = fit(name, short)
    assert np.isfinite(model.seq_log_density(model.dist_to_encoder().seq_encode(short))).all()
    with pytest.raises(ValueError, match="label") if name == "markov chain" else contextlib.nullcontext():
        fit(name, [[], []])


def test_a_model_of_one_state_or_component():
    for estimator, rows in (
        (st.MixtureEstimator([G()]), [0.0, 1.0, 2.0]),
        (st.HiddenMarkovEstimator([G()], P()), [[0.0, 1.0], [2.0]]),
        (st.HierarchicalMixtureEstimator([G()], 1, P()), [[0.0, 1.0], [2.0]]),
        (st.JointMixtureEstimator([G()], [G()]), [(0.0, 1.0), (1.0, 2.0), (2.0, 0.0)]),
        (st.SemiSupervisedMixtureEstimator([G()]), [(0.0, None), (2.0, [(0, 1.0)])]),
    ):
        model = optimize(rows, estimator, max_its=5, init_p=1.0)
        assert np.isfinite(model.seq_log_density(model.dist_to_encoder().seq_encode(rows))).all()


def test_more_states_than_elements_and_than_sequences():
    for estimator in (
        st.HiddenMarkovEstimator([G(min_covar=0.01)] * 5, P()),
        st.HierarchicalMixtureEstimator([G(min_covar=0.01)] * 5, 4, P()),
    ):
        rows = [[0.0, 1.0], [5.0]]
        model = optimize(rows, estimator, max_its=5, init_p=1.0)
        assert np.isfinite(model.seq_log_density(model.dist_to_encoder().seq_encode(rows))).all()


def test_structural_zeros_that_make_the_data_impossible():
    topics = [st.CategoricalDistribution({"a": 1.0}), st.CategoricalDistribution({"b": 1.0})]
    start = st.HiddenMarkovModelDistribution(topics, [1.0, 0.0], [[0.0, 1.0], [1.0, 0.0]])
    estimator = st.HiddenMarkovEstimator([C()] * 2)
    with pytest.raises(ValueError, match="no component supports any row; start from"):
        optimize([["b", "a"], ["a", "a"]], estimator, prev_estimate=start, max_its=3)
    with pytest.warns(UserWarning, match="1 row is supported by no component"):
        model = optimize([["a", "b"], ["a", "a"]], estimator, prev_estimate=start, max_its=3)
    assert model.fit_provenance().left_out == 1


def test_symbols_never_seen_score_minus_infinity_unless_declared():
    rows = [["a", "b", "b"], ["b", "a"]]
    plain = optimize(rows, st.HiddenMarkovEstimator([C()] * 2), max_its=3, init_p=1.0)
    assert plain.log_density(["a", "z"]) == -math.inf
    wide = C(pseudo_count=1.0, suff_stat={"a": 0.4, "b": 0.4, "z": 0.2})
    smoothed = optimize(rows, st.HiddenMarkovEstimator([wide] * 2), max_its=3, init_p=1.0, monotone=False)
    assert math.isfinite(smoothed.log_density(["a", "z"]))
    chain = st.MarkovChainEstimator(1.0, "abz")
    assert math.isfinite(chain.estimate(2.0, statistic(chain, rows)).log_density(["z", "a"]))


def test_starts_need_no_rows_of_weight_zero():
    """A start of every latent model reads the rows of positive weight only."""
    for name, (estimator, good) in LATENT.items():
        if name in CHAINS:
            continue
        weights = [1.0] * len(good) + [0.0]
        with encoded_data([*good, good[0]], estimator, weights=weights) as handle:
            start = handle.pysp_seq_initialize(estimator, np.random.RandomState(3), 1.0)
        assert np.isfinite(start.seq_log_density(start.dist_to_encoder().seq_encode(good))).all()
        chunks = st.seq_encode(good, estimator=estimator)
        assert seq_initialize(chunks, estimator, 3, p=1.0) is not None
