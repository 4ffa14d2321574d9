"""Mixtures beyond the plain one: by hand, by enumeration, and as they are fitted."""

import itertools
import math

import numpy as np
import pytest

import mixle.stats as st
from bits import statistic
from mixle.inference import optimize
from models import MODELS

MORE = ["joint mixture", "hierarchical mixture", "semi-supervised mixture", "gaussian mixture", "heterogeneous mixture"]
MORE += ["hierarchical mixture of labels and a fixed length law", "gaussian mixture of independent columns"]


@pytest.mark.parametrize("name", MORE)
def test_em_never_lowers_the_likelihood(name):
    model = MODELS[name]()
    gains = []
    fitted = optimize(
        model.rows, model.estimator, max_its=25, delta=None, seed=3, init_p=1.0, on_step=lambda s: gains.append(s.delta)
    )
    assert len(gains) == 25
    assert min(gains) >= -1e-9
    assert fitted.fit_provenance().stopped == "max_its"


@pytest.mark.parametrize("name", MORE)
def test_one_pass_and_two_passes_give_the_same_fit(name):
    model = MODELS[name]()
    options = {"max_its": 4, "delta": None, "seed": 3, "init_p": 1.0}
    fused = optimize(model.rows, model.estimator, **options)
    plain = optimize(model.rows, model.estimator, reuse_estep_ll=False, **options)
    assert fused.digest() == plain.digest()


def test_a_joint_mixture_is_a_mixture_of_all_pairs():
    d = MODELS["joint mixture"]().dist
    rows = d.sampler(5).sample(40)
    pairs = list(itertools.product(range(2), range(3)))
    parts = [st.CompositeDistribution((d.components1[i], d.components2[j])) for i, j in pairs]
    flat = st.MixtureDistribution(parts, [d.joint_weights[i, j] for i, j in pairs])
    assert [d.log_density(r) for r in rows] == pytest.approx([flat.log_density(r) for r in rows], rel=1e-13)
    encoded = d.dist_to_encoder().seq_encode(rows)
    theirs = flat.seq_posterior(flat.dist_to_encoder().seq_encode(rows))
    assert d.seq_posterior(encoded).reshape(40, 6) == pytest.approx(theirs, abs=1e-13)
    value = statistic(MODELS["joint mixture"]().estimator, rows, model=d)
    assert value.joint_counts.ravel() == pytest.approx(theirs.sum(axis=0), rel=1e-12, abs=1e-12)
    assert value.counts1 == pytest.approx(value.joint_counts.sum(axis=1), rel=1e-12)


def test_a_joint_mixture_whose_likeliest_pair_has_no_weight():
    """Every pair that has weight lies beyond float64's exponents of the likeliest one."""
    far = [st.GaussianDistribution(0.0, 1.0), st.GaussianDistribution(100.0, 1.0)]
    d = st.JointMixtureDistribution(far, far, joint_weights=[[0.0, 0.5], [0.5, 0.0]])
    row = (0.0, 0.0)
    expected = math.log(0.5) + far[0].log_density(0.0) + far[1].log_density(0.0) + math.log(2.0)
    assert d.log_density(row) == pytest.approx(expected, rel=1e-14)
    assert d.posterior(row) == pytest.approx(np.array([[0.0, 0.5], [0.5, 0.0]]))
    value = statistic(
        st.JointMixtureEstimator([st.GaussianEstimator()] * 2, [st.GaussianEstimator()] * 2), [row], model=d
    )
    assert value.joint_counts == pytest.approx(np.array([[0.0, 0.5], [0.5, 0.0]]))
    assert value.counts1 == pytest.approx([0.5, 0.5])


def test_the_ways_to_give_a_joint_mixtures_weights():
    g, p = (
        [st.GaussianDistribution(float(i), 1.0) for i in range(2)],
        [st.PoissonDistribution(1.0 + i) for i in range(3)],
    )
    joint = np.array([[0.2, 0.1, 0.1], [0.12, 0.18, 0.3]])
    ways = (
        {"joint_weights": joint},
        {"w1": joint.sum(axis=1), "taus12": joint / joint.sum(axis=1, keepdims=True)},
        {"w2": joint.sum(axis=0), "taus21": joint / joint.sum(axis=0)},
    )
    for way in ways:
        assert st.JointMixtureDistribution(g, p, **way).joint_weights == pytest.approx(joint, rel=1e-14)
    d = st.JointMixtureDistribution(g, p, joint_weights=joint)
    assert d.taus12.sum(axis=1) == pytest.approx([1.0] * 2)
    assert d.taus21.sum(axis=0) == pytest.approx([1.0] * 3)


@pytest.mark.parametrize("name", ["hierarchical mixture", "hierarchical mixture of labels and a fixed length law"])
def test_a_hierarchical_mixture_by_enumeration(name):
    d = MODELS[name]().dist
    rows = [row[:4] for row in d.sampler(8).sample(30)] + [d.sampler(1).sample()[:1]]
    rows = [row for row in rows if row]
    for row in rows:
        scores = []
        for m in range(d.num_mixtures):
            paths = itertools.product(range(d.num_topics), repeat=len(row))
            terms = [
                math.prod(d.taus[m, k] * d.topics[k].density(x) for k, x in zip(path, row, strict=True))
                for path in paths
            ]
            scores.append(d.w[m] * math.fsum(terms))
        expected = math.log(math.fsum(scores)) + d.len_dist.log_density(len(row))
        assert d.log_density(row) == pytest.approx(expected, rel=1e-12)
        assert d.posterior(row) == pytest.approx(np.array(scores) / math.fsum(scores), abs=1e-12)


def test_elements_far_from_every_topic_of_a_mixture():
    topics = [st.GaussianDistribution(0.0, 1.0), st.GaussianDistribution(100.0, 1.0)]
    d = st.HierarchicalMixtureDistribution(topics, [1.0], [[1.0, 0.0]])
    assert d.log_density([100.0, 0.0]) == pytest.approx(
        topics[0].log_density(100.0) + topics[0].log_density(0.0), rel=1e-14
    )
    estimator = st.HierarchicalMixtureEstimator([st.GaussianEstimator()] * 2, 1)
    value = statistic(estimator, [[100.0, 0.0]], model=d)
    assert value.topic_counts == pytest.approx(np.array([[2.0, 0.0]]))


def test_told_rows_go_where_they_tell():
    d = st.SemiSupervisedMixtureDistribution(
        [st.GaussianDistribution(0.0, 1.0), st.GaussianDistribution(5.0, 1.0)], [0.3, 0.7]
    )
    assert d.log_density((0.0, None)) == d.log_density((0.0, [(0, 0.5), (1, 0.5)]))
    assert d.log_density((0.0, [(1, 1.0)])) == pytest.approx(
        math.log(0.7) + d.components[1].log_density(0.0), rel=1e-14
    )
    assert d.posterior((0.0, [(1, 1.0)])).tolist() == [0.0, 1.0]


def test_told_rows_name_the_components_of_a_fit():
    """Which component is which follows from the few rows that tell it, even where they are few."""
    rng = np.random.RandomState(2)
    means = (0.0, 4.0, 8.0)
    rows = [(float(rng.normal(means[i % 3], 1.0)), [(2 - i % 3, 1.0)] if i < 30 else None) for i in range(600)]
    estimator = st.SemiSupervisedMixtureEstimator([st.GaussianEstimator()] * 3)
    for seed in range(4):
        model = optimize(rows, estimator, max_its=200, seed=seed, init_p=1.0)
        assert [c.mu for c in model.components] == pytest.approx([8.0, 4.0, 0.0], abs=0.4)


def test_a_gaussian_mixture_takes_vectors_and_says_so():
    with pytest.raises(ValueError, match=r"write \[\[m1\], \[m2\]"):
        st.GaussianMixtureDistribution([0.0, 1.0], [1.0, 1.0], [0.5, 0.5])
    with pytest.raises(TypeError, match="MixtureEstimator takes any"):
        st.GaussianMixtureEstimator([st.GaussianEstimator()] * 2)
    d = MODELS["gaussian mixture"]().dist
    parts = [st.MultivariateGaussianDistribution(m, s) for m, s in zip(d.mu, d.sig2, strict=True)]
    same = st.MixtureDistribution(parts, d.w)
    assert d.log_density([0.5, 0.5]) == same.log_density([0.5, 0.5])


def test_tied_weights_of_joint_and_hierarchical_mixtures_are_pooled():
    joint, hierarchical = MODELS["joint mixture"](), MODELS["hierarchical mixture"]()
    for model, read in ((joint, lambda m: m.joint_weights), (hierarchical, lambda m: m.topic_weights)):
        kind = type(model.estimator)
        arguments = {n: getattr(model.estimator, n) for n in kind.argument_names()}
        tied = kind(**(arguments | {"keys": ("w", *(None,) * (len(model.estimator.keys) - 1))}))
        pair = st.CompositeEstimator((tied, tied))
        st.validate_estimator_keys(pair)
        law = st.CompositeDistribution((model.dist, model.dist))
        rows = list(zip(model.rows[:120], model.rows[120:], strict=True))
        first, second = pair.estimate(120.0, statistic(pair, rows, model=law)).dists
        assert read(first).tobytes() == read(second).tobytes()
        whole = model.estimator.estimate(240.0, statistic(model.estimator, model.rows, model=model.dist))
        assert read(first) == pytest.approx(read(whole), rel=1e-9)


@pytest.mark.parametrize(
    ("shares", "least", "wanted"),
    [
        ([0.97, 0.02, 0.01], 0.05, [0.9, 0.05, 0.05]),
        ([0.55, 0.26, 0.19], 0.25, [0.5, 0.25, 0.25]),  # what pays for the third would leave the second too little
        ([0.5, 0.3, 0.2], 0.2, [0.5, 0.3, 0.2]),
        ([1.0, 0.0, 0.0], 1.0 / 3.0, [1.0 / 3.0] * 3),
    ],
)
def test_no_weight_is_below_the_least(shares, least, wanted):
    estimator = st.MixtureEstimator([st.PoissonEstimator()] * 3, w_min=least)
    child = st.PoissonEstimator().accumulator_factory().make()
    child.update(2, 1.0, None)
    fitted = estimator.estimate(None, (np.array(shares) * 100.0, (child.value(),) * 3))
    assert np.allclose(fitted.w, wanted, rtol=1e-12, atol=0.0)
