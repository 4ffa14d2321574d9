"""Densities integrate, and probabilities sum, to 1: every law over a rule that holds all of its rows."""

import itertools
import math

import numpy as np
import pytest
from density_support import (
    INF,
    bags,
    circle,
    either,
    line,
    listed,
    product,
    sequences,
    shares,
    space,
    sphere,
    total,
)

import mixle.stats as st

PI = math.pi
NORMAL, COUNT = st.GaussianDistribution(1.0, 4.0), st.PoissonDistribution(3.5)
LABEL, ONLY_A = st.CategoricalDistribution({"a": 0.5, "b": 0.3, "c": 0.2}), st.CategoricalDistribution({"a": 1.0})
#: Lengths of one, two and three.
SHORT = st.IntegerCategoricalDistribution(1, [0.25, 0.5, 0.25])
REALS, AMOUNTS, COUNTS, LABELS = line(-INF, 1.0, INF), line(0.0, 2.0, INF), listed(range(400)), listed("abc")
DOCUMENTS = sequences(LABELS, 1, 2, 3).of(lambda words: [(word, 1) for word in words])
COVAR = [[2.0, 0.6], [0.6, 1.0]]
THREE = [[2.0, 0.6, 0.1], [0.6, 1.0, -0.3], [0.1, -0.3, 0.5]]
PAIR = st.MixtureDistribution([NORMAL, st.GaussianDistribution(-4.0, 1.0)], [0.4, 0.6])
HIDDEN = {"w": [0.6, 0.4], "transitions": [[0.8, 0.2], [0.3, 0.7]], "len_dist": SHORT}


def normals(dims):
    """Return the rule of (mean, precision), or of (mean, covariance), by the deviation in standard deviations."""
    slope = {"precision": -0.5, "covariance": 0.5}[dims]
    pairs = product(line(-INF, 0.0, INF, step=1 / 12), line(0.0, INF, step=1 / 12))
    return pairs.of(lambda row: (1.0 + row[0] * row[1] ** slope, row[1]), lambda row: row[1] ** slope)


def matrices(row):
    return [row[0]], [[row[1]]]


#: name -> (law, rule of its rows)
LAWS = {
    "Gaussian": (NORMAL, REALS),
    "Gaussian far out": (st.GaussianDistribution(1e6, 1.0), line(1e6 - 40.0, 1e6 - 2.0, 1e6 + 2.0, 1e6 + 40.0)),
    "LogGaussian": (st.LogGaussianDistribution(0.5, 0.25), AMOUNTS),
    "Exponential": (st.ExponentialDistribution(2.0), AMOUNTS),
    "Gamma": (st.GammaDistribution(2.5, 1.5), AMOUNTS),
    "Gamma of a pole at zero": (st.GammaDistribution(0.5, 1.5), AMOUNTS),
    "InverseGamma": (st.InverseGammaDistribution(3.0, 2.0), AMOUNTS),
    "InverseGaussian": (st.InverseGaussianDistribution(1.5, 2.0), AMOUNTS),
    "Beta": (st.BetaDistribution(2.0, 3.5), line(0.0, 0.4, 1.0)),
    "StudentT": (st.StudentTDistribution(3.0, 1.0, 2.0), REALS),
    "Laplace": (st.LaplaceDistribution(1.0, 2.0), REALS),
    "Logistic": (st.LogisticDistribution(1.0, 2.0), REALS),
    "Gumbel": (st.GumbelDistribution(1.0, 2.0), REALS),
    "Weibull": (st.WeibullDistribution(1.5, 2.0), AMOUNTS),
    "Pareto": (st.ParetoDistribution(1.5, 3.0), line(1.5, 3.0, INF)),
    "Rayleigh": (st.RayleighDistribution(2.0), AMOUNTS),
    "HalfNormal": (st.HalfNormalDistribution(2.0), AMOUNTS),
    "SkewNormal": (st.SkewNormalDistribution(1.0, 2.0, 3.0), REALS),
    "VonMises": (st.VonMisesDistribution(0.5, 2.0), line(-PI, 0.5, PI)),
    "Uniform": (st.UniformDistribution(-2.0, 5.0), line(-2.0, 5.0)),
    "Poisson": (COUNT, COUNTS),
    "Geometric": (st.GeometricDistribution(0.2), COUNTS),
    "NegativeBinomial": (st.NegativeBinomialDistribution(2.5, 0.4), COUNTS),
    "Binomial": (st.BinomialDistribution(0.3, 12), COUNTS),
    "Bernoulli": (st.BernoulliDistribution(0.3), listed([False, True])),
    "Categorical": (LABEL, LABELS),
    "IntegerCategorical": (st.IntegerCategoricalDistribution(-1, [0.25, 0.5, 0.0, 0.25]), listed(range(-5, 9))),
    "PointMass": (st.PointMassDistribution("on"), listed(["on", "off", None])),
    "BernoulliSet": (
        st.BernoulliSetDistribution({"a": 0.5, "b": 0.25, "c": 0.9}),
        listed(set(s) for n in range(4) for s in itertools.combinations("abc", n)),
    ),
    "IntegerBernoulliSet": (
        st.IntegerBernoulliSetDistribution(np.log([0.5, 0.25, 0.9, 0.01])),
        listed(list(s) for n in range(5) for s in itertools.combinations(range(4), n)),
    ),
    "DiagonalGaussian": (st.DiagonalGaussianDistribution([0.0, 3.0], [1.0, 0.25]), space([0.0, 3.0], circle())),
    "MultivariateGaussian": (
        st.MultivariateGaussianDistribution([1.0, -1.0, 0.0], THREE),
        space([1.0, -1.0, 0.0], sphere(36)),
    ),
    "MultivariateStudentT": (st.MultivariateStudentTDistribution(3.0, [1.0, -1.0], COVAR), space([1, -1], circle())),
    "ProbabilisticPCA": (
        st.ProbabilisticPCADistribution([[2.0], [1.0]], [1.0, 0.0], 0.75),
        space([1.0, 0.0], circle(192)),
    ),
    "VonMisesFisher": (st.VonMisesFisherDistribution([0.6, 0.8, 0.0], 5.0), sphere()),
    "VonMisesFisher on a circle": (st.VonMisesFisherDistribution([0.6, 0.8], 5.0), circle()),
    "Dirichlet": (st.DirichletDistribution([2.0, 3.0, 1.5]), shares()),
    "DirichletMultinomial": (
        st.DirichletMultinomialDistribution([2.0, 0.3, 1.0], 8),
        listed([a, b, 8 - a - b] for a in range(9) for b in range(9 - a)),
    ),
    "Multinomial": (st.MultinomialDistribution(LABEL, SHORT), bags("abc", 1, 2, 3)),
    "IntegerMultinomial": (
        st.IntegerMultinomialDistribution(1, [0.25, 0.5, 0.25], len_dist=SHORT),
        bags([1, 2, 3], 1, 2, 3),
    ),
    "Mixture": (PAIR, line(-INF, -4.0, 1.0, INF)),
    "HeterogeneousMixture": (
        st.HeterogeneousMixtureDistribution([NORMAL, st.ExponentialDistribution(2.0)], [0.4, 0.6]),
        line(-INF, 0.0, 1.0, INF),
    ),
    "GaussianMixture": (
        st.GaussianMixtureDistribution([[-1.0, 0.0], [1.0, 1.0]], [COVAR, np.eye(2)], [0.3, 0.7]),
        space([0.0, 0.5], circle()),
    ),
    "SemiSupervisedMixture": (
        st.SemiSupervisedMixtureDistribution([COUNT, st.PoissonDistribution(12.0)], [0.4, 0.6]),
        COUNTS.of(lambda x: (x, None)),
    ),
    "SemiSupervisedMixture of told rows": (
        st.SemiSupervisedMixtureDistribution([COUNT, st.PoissonDistribution(12.0)], [0.4, 0.6]),
        product(COUNTS, listed([[(0, 1.0)], [(1, 1.0)]])),
    ),
    "JointMixture": (
        st.JointMixtureDistribution(
            [NORMAL, st.GaussianDistribution(-4.0, 1.0)], [LABEL, ONLY_A],
            joint_weights=[[0.3, 0.1], [0.2, 0.4]],
        ),
        product(line(-INF, -4.0, 1.0, INF), LABELS),
    ),
    "HierarchicalMixture": (
        st.HierarchicalMixtureDistribution([LABEL, ONLY_A], [0.4, 0.6], [[0.8, 0.2], [0.3, 0.7]], SHORT),
        sequences(LABELS, 1, 2, 3),
    ),
    "LDA of one topic": (st.LDADistribution([LABEL], [0.7], SHORT), DOCUMENTS),
    "HiddenMarkovModel": (
        st.HiddenMarkovModelDistribution([LABEL, ONLY_A], **HIDDEN), sequences(LABELS, 1, 2, 3),
    ),
    "HiddenMarkovModel of numbers": (
        st.HiddenMarkovModelDistribution(
            [NORMAL, st.GaussianDistribution(-2.0, 1.0)], **HIDDEN | {"len_dist": st.PointMassDistribution(2)}
        ),
        sequences(line(-INF, -0.5, INF, step=1 / 16), 2),
    ),
    "HiddenMarkovModel that ends in its terminal state": (
        st.HiddenMarkovModelDistribution([LABEL, ONLY_A], [1.0, 0.0], [[0.01, 0.99], [0, 1]], terminal_states=[1]),
        sequences(LABELS, 1, 2, 3, 4, 5, 6, 7),
    ),
    "MarkovChain": (
        st.MarkovChainDistribution({"a": 0.9, "b": 0.1}, {"a": {"a": 0.6, "b": 0.4}, "b": {"b": 1.0}}, SHORT),
        sequences(LABELS, 1, 2, 3),
    ),
    "IntegerMarkovChain": (
        st.IntegerMarkovChainDistribution(
            2, [[0.9, 0.1], [0.5, 0.5], [0.2, 0.8], [0.25, 0.75]], 2,
            st.CompositeDistribution((st.IntegerCategoricalDistribution(0, [0.3, 0.7]),) * 2),
            st.IntegerCategoricalDistribution(2, [0.5, 0.25, 0.25]),
        ),
        sequences(listed([0, 1]), 2, 3, 4),
    ),
    "Composite": (
        st.CompositeDistribution((NORMAL, LABEL, st.BinomialDistribution(0.3, 6))),
        product(REALS, LABELS, listed(range(7))),
    ),
    "Record": (
        st.RecordDistribution({"x": NORMAL, "label": LABEL}),
        product(REALS, LABELS).of(lambda row: dict(zip(("x", "label"), row, strict=True))),
    ),
    "Sequence": (st.SequenceDistribution(LABEL, SHORT), sequences(LABELS, 1, 2, 3)),
    "Sequence of numbers": (
        st.SequenceDistribution(NORMAL, st.IntegerCategoricalDistribution(0, [0.5, 0.0, 0.5])),
        either(listed([[]]), sequences(line(-INF, 1.0, INF, step=1 / 16), 2)),
    ),
    "Optional": (st.OptionalDistribution(NORMAL, p=0.25), either(listed([None]), REALS)),
    "Ignored": (st.IgnoredDistribution(NORMAL), REALS),
    "Weighted": (st.WeightedDistribution(NORMAL), REALS.of(lambda x: (x, 2.5))),
    "Conditional": (
        st.ConditionalDistribution({"a": NORMAL, "b": PAIR}, st.GaussianDistribution(0.0, 1.0), LABEL),
        product(LABELS, line(-INF, -4.0, 0.0, 1.0, INF)),
    ),
    "Conditional without a law of the keys": (
        st.ConditionalDistribution({"a": NORMAL, "b": PAIR}), REALS.of(lambda x: ("a", x)),
    ),
    "Select": (
        st.SelectDistribution.by_type([(str, LABEL), ("number", NORMAL)], weights=[0.25, 0.75]),
        either(LABELS, REALS),
    ),
    "ZeroInflated": (st.ZeroInflatedDistribution(COUNT, 0.3), COUNTS),
    "ZeroInflated of a mixture": (
        st.ZeroInflatedDistribution(st.MixtureDistribution([COUNT, st.PoissonDistribution(40.0)], [0.5, 0.5]), 0.3),
        COUNTS,
    ),
    "Hurdle": (st.HurdleDistribution(st.NegativeBinomialDistribution(3.0, 0.4), 0.3), COUNTS),
    "Hurdle of amounts": (
        st.HurdleDistribution(st.LogGaussianDistribution(2.0, 0.5), 0.6),
        either(listed([0.0]), AMOUNTS),
    ),
    "Transform": (st.TransformDistribution(st.GaussianDistribution(0.5, 2.0), "logit"), line(0.0, 0.5, 1.0)),
    "Transform by its exponential": (st.TransformDistribution(NORMAL, "exp"), AMOUNTS),
    "Transform of counts": (
        st.TransformDistribution(COUNT, st.AffineTransform(0.25, 0.5)), COUNTS.of(lambda x: 0.25 + 0.5 * x),
    ),
    "Truncated": (st.TruncatedDistribution(NORMAL, low=-1.0, high=4.0), line(-1.0, 4.0)),
    "Truncated far out": (st.TruncatedDistribution(NORMAL, low=41.0), line(41.0, 41.5, INF)),
    "Truncated counts": (st.TruncatedDistribution(COUNT, forbidden=[0, 2]), COUNTS),
    "Truncated mixture": (st.TruncatedDistribution(PAIR, low=-3.0), line(-3.0, 1.0, INF)),
    "Censored above 4": (st.CensoredDistribution(NORMAL), either(line(-INF, 1.0, 4.0), listed([(4.0, None)]))),
    "Censored to a grid": (
        st.CensoredDistribution(NORMAL), listed([(None, -3.0), (-3.0, 0.5), (0.5, 2.0), (2.0, 9.0), (9.0, None)]),
    ),
    "Censored counts": (st.CensoredDistribution(COUNT), either(listed(range(9)), listed([(9, 12), (13, None)]))),
    "NormalGamma": (st.NormalGammaDistribution(1.0, 2.0, 2.0, 3.0), normals("precision")),
    "NormalWishart": (
        st.NormalWishartDistribution([1.0], 2.0, [[0.5]], 3.0), normals("precision").of(matrices),
    ),
    "NormalInverseWishart": (
        st.NormalInverseWishartDistribution([1.0], 2.0, [[2.0]], 3.0), normals("covariance").of(matrices),
    ),
    "DictDirichlet": (
        st.DictDirichletDistribution({"a": 2.0, "b": 3.0, "c": 1.5}),
        shares().of(lambda row: dict(zip("abc", row, strict=True))),
    ),
    "SymmetricDirichlet": (st.SymmetricDirichletDistribution(2.5), shares()),
}  # fmt: skip

#: Laws whose scores are no normalised densities, and why.
WITHOUT = {
    "NullDistribution": "a neutral factor: it scores every row 0",
}


def test_every_law_is_held_to_the_sum_of_its_density():
    held = {type(law).__name__ for law, _ in LAWS.values()}
    assert held.isdisjoint(WITHOUT)
    assert held | set(WITHOUT) == {name for name in st.__all__ if name.endswith("Distribution")}


@pytest.mark.parametrize("name", LAWS)
def test_densities_have_the_sum_one(name):
    assert total(*LAWS[name]) == pytest.approx(1.0, abs=1e-9)


def test_the_bound_of_topics_sums_to_less_than_one_and_nearly_to_it_where_shares_hardly_vary():
    """The exception of the table: the density of a document has no closed form."""
    topics = [st.CategoricalDistribution({"a": 0.7, "b": 0.3}), st.CategoricalDistribution({"b": 0.4, "c": 0.6})]
    sums = [total(st.LDADistribution(topics, [a, a], SHORT), DOCUMENTS) for a in (0.3, 3.0, 300.0)]
    assert sums == sorted(sums)
    assert 0.99 < sums[-1] < 1.0


def test_a_rule_tells_a_density_that_is_off():
    """What it finds is the sum: a law of the half, or of the double, of the density does not pass."""
    assert total(NORMAL, line(1.0, INF)) == pytest.approx(0.5, abs=1e-9)
    assert total(NORMAL, either(REALS, REALS)) == pytest.approx(2.0, abs=1e-9)
