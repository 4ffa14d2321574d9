"""One table of all models; every law runs over it.

A model is a name and a factory. A new family or combinator adds one entry and is held to every law.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

import mixle.stats as st

ROWS = 240


@dataclass(frozen=True)
class Model:
    """What the laws need to know about a model.

    Attributes
    ----------
    dist, estimator : object
        A distribution, and the estimator that fits rows like its own.
    rows : list
        Rows of positive density.
    outside : tuple
        Rows of density 0 that can be read.
    unreadable : tuple of (row, fields)
        Rows that are refused, and the path of fields the refusal names.
    parameters : callable
        Distribution to a flat list of numbers.
    close : float
        How near a fit to 4000 drawn rows comes to the parameters, relative to ``1 + |parameter|``.
    refuses_outside : bool
        Whether a fit refuses the rows of `outside`.
    generative : bool
        Whether it can be sampled.
    leaf : bool
        Whether it is a family of its own.
    latent : bool
        Whether its E-step needs a model.
    options : dict
        Whatever else the tests of one model need.
    """

    dist: Any
    estimator: Any
    rows: list[Any]
    outside: tuple[Any, ...] = ()
    unreadable: tuple[tuple[Any, tuple[Any, ...]], ...] = ()
    parameters: Callable[[Any], list[float]] = lambda _: []
    close: float = 0.12
    refuses_outside: bool = True
    generative: bool = True
    leaf: bool = False
    latent: bool = False
    options: dict[str, Any] = field(default_factory=dict)


MODELS: dict[str, Callable[[], Model]] = {}
NAN = math.nan
#: Why laws of densities do not hold for a model that scores a bound of its log-density.
BOUND = "a score is a lower bound of the log-density, each E-step's own: it sums to less than one, and may fall in EM"


def model(name: str) -> Callable[[Callable[[], Model]], Callable[[], Model]]:
    """Enter a factory in the table; what it makes is made once, and everybody gets a list of rows of his own."""

    def enter(factory: Callable[[], Model]) -> Callable[[], Model]:
        made = cache(factory)
        MODELS[name] = lambda: replace(made(), rows=list(made().rows))
        return factory

    return enter


def drawn(dist: Any, size: int = ROWS, seed: int = 11) -> list[Any]:
    """Return `size` rows of `dist` as a list."""
    return list(dist.sampler(seed).sample(size))


def number(*names: str) -> Callable[[Any], list[float]]:
    """Return a reader of the named parameters, flattened."""
    return lambda dist: [float(v) for name in names for v in np.ravel(getattr(dist, name))]


NOT_NUMBERS = ((NAN, ()), (None, ()), ("x", ()), (math.inf, ()))


@model("gaussian")
def gaussian() -> Model:
    d = st.GaussianDistribution(3.0, 4.0)
    return Model(d, st.GaussianEstimator(), drawn(d), (), NOT_NUMBERS, number("mu", "sigma2"), leaf=True)


@model("gaussian far from zero")
def gaussian_far() -> Model:
    d = st.GaussianDistribution(1.7e9, 1.0, name="clock")
    return Model(d, st.GaussianEstimator(), drawn(d), (), NOT_NUMBERS, number("mu", "sigma2"), leaf=True)


@model("log gaussian")
def log_gaussian() -> Model:
    d = st.LogGaussianDistribution(0.5, 0.25)
    outside = (0.0, -1.0)
    return Model(d, st.LogGaussianEstimator(), drawn(d), outside, NOT_NUMBERS, number("mu", "sigma2"), leaf=True)


@model("diagonal gaussian")
def diagonal_gaussian() -> Model:
    d = st.DiagonalGaussianDistribution([0.0, 10.0, -1.0], [1.0, 4.0, 0.25])
    bad = (([0.0, NAN, 1.0], (1,)), ([0.0, 1.0, "x"], (2,)), ("xyz", ()), ([1.0, 2.0], ()))
    return Model(d, st.DiagonalGaussianEstimator(3), drawn(d), (), bad, number("mu", "covar"), leaf=True)


@model("multivariate gaussian")
def multivariate_gaussian() -> Model:
    d = st.MultivariateGaussianDistribution([1.0, -1.0], [[2.0, 0.6], [0.6, 1.0]])
    bad = (([0.0, NAN], (1,)), ([None, 1.0], (0,)), (3.0, ()), ([1.0, 2.0, 3.0], ()))
    return Model(d, st.MultivariateGaussianEstimator(2), drawn(d), (), bad, number("mu", "covar"), leaf=True)


@model("poisson")
def poisson() -> Model:
    d = st.PoissonDistribution(3.5)
    return Model(d, st.PoissonEstimator(), drawn(d), (-1, 0.5), NOT_NUMBERS, number("lam"), leaf=True)


@model("geometric")
def geometric() -> Model:
    d = st.GeometricDistribution(0.3)
    return Model(d, st.GeometricEstimator(), drawn(d), (0, -3, 1.5), NOT_NUMBERS, number("p"), leaf=True)


@model("exponential")
def exponential() -> Model:
    d = st.ExponentialDistribution(2.5)
    return Model(d, st.ExponentialEstimator(), drawn(d), (-1e-9,), NOT_NUMBERS, number("beta"), leaf=True)


@model("gamma")
def gamma() -> Model:
    d = st.GammaDistribution(2.5, 1.5)
    return Model(d, st.GammaEstimator(), drawn(d), (0.0, -1.0), NOT_NUMBERS, number("k", "theta"), leaf=True)


@model("uniform")
def uniform() -> Model:
    d = st.UniformDistribution(-2.0, 5.0)
    outside = (-2.1, 5.1)
    return Model(
        d,
        st.UniformEstimator(),
        drawn(d),
        outside,
        NOT_NUMBERS,
        number("low", "high"),
        refuses_outside=False,
        leaf=True,
    )


@model("bernoulli")
def bernoulli() -> Model:
    d = st.BernoulliDistribution(0.3)
    return Model(d, st.BernoulliEstimator(), drawn(d), (2, 0.5, -1), NOT_NUMBERS, number("p"), leaf=True)


@model("negative binomial")
def negative_binomial() -> Model:
    d = st.NegativeBinomialDistribution(3.0, 0.4)
    return Model(
        d, st.NegativeBinomialEstimator(), drawn(d), (-1, 0.5), NOT_NUMBERS, number("r", "p"), close=0.3, leaf=True
    )


@model("binomial")
def binomial() -> Model:
    d = st.BinomialDistribution(0.3, 6)
    return Model(d, st.BinomialEstimator(6), drawn(d), (0.5,), NOT_NUMBERS, number("p", "n"), leaf=True)


@model("beta")
def beta() -> Model:
    d = st.BetaDistribution(2.0, 3.0)
    return Model(d, st.BetaEstimator(), drawn(d), (0.0, 1.0, -1.0, 2.0), NOT_NUMBERS, number("a", "b"), leaf=True)


@model("dirichlet")
def dirichlet() -> Model:
    d = st.DirichletDistribution([2.0, 3.0, 1.5])
    bad = (([0.5, NAN, 0.5], (1,)), ([0.5, 0.5], ()), ("xyz", ()), ([0.5, 0.5, 0.5], ()), (1.0, ()))
    outside = ([0.0, 0.5, 0.5],)
    return Model(d, st.DirichletEstimator(3), drawn(d), outside, bad, number("alpha"), leaf=True)


@model("inverse gaussian")
def inverse_gaussian() -> Model:
    d = st.InverseGaussianDistribution(1.5, 3.0)
    return Model(d, st.InverseGaussianEstimator(), drawn(d), (0.0, -1.0), NOT_NUMBERS, number("mu", "lam"), leaf=True)


@model("inverse gamma")
def inverse_gamma() -> Model:
    d = st.InverseGammaDistribution(3.0, 2.0)
    return Model(d, st.InverseGammaEstimator(), drawn(d), (0.0, -1.0), NOT_NUMBERS, number("alpha", "beta"), leaf=True)


@model("rayleigh")
def rayleigh() -> Model:
    d = st.RayleighDistribution(2.0)
    return Model(d, st.RayleighEstimator(), drawn(d), (0.0, -1.0), NOT_NUMBERS, number("sigma"), leaf=True)


@model("half normal")
def half_normal() -> Model:
    d = st.HalfNormalDistribution(2.0)
    return Model(d, st.HalfNormalEstimator(), drawn(d), (-1.0,), NOT_NUMBERS, number("sigma"), leaf=True)


@model("von mises")
def von_mises() -> Model:
    d = st.VonMisesDistribution(0.5, 4.0)
    return Model(d, st.VonMisesEstimator(), drawn(d), (), NOT_NUMBERS, number("mu", "kappa"), leaf=True)


@model("pareto")
def pareto() -> Model:
    d = st.ParetoDistribution(1.5, 3.0)
    return Model(d, st.ParetoEstimator(), drawn(d), (0.0, -1.0), NOT_NUMBERS, number("xm", "alpha"), leaf=True)


@model("student t")
def student_t() -> Model:
    d = st.StudentTDistribution(5.0, 1.0, 2.0)
    return Model(d, st.StudentTEstimator(5.0), drawn(d), (), NOT_NUMBERS, number("loc", "scale"), leaf=True)


@model("student t of free degrees of freedom")
def student_t_free() -> Model:
    d = st.StudentTDistribution(4.0, 1.0, 2.0)
    estimator = st.StudentTEstimator(4.0, estimate_df=True)
    return Model(d, estimator, drawn(d), (), NOT_NUMBERS, number("loc", "scale"), leaf=True)


@model("logistic")
def logistic() -> Model:
    d = st.LogisticDistribution(1.0, 2.0)
    return Model(d, st.LogisticEstimator(), drawn(d), (), NOT_NUMBERS, number("loc", "scale"), leaf=True)


@model("laplace")
def laplace() -> Model:
    d = st.LaplaceDistribution(1.0, 2.0)
    return Model(d, st.LaplaceEstimator(), drawn(d), (), NOT_NUMBERS, number("mu", "b"), leaf=True)


@model("weibull")
def weibull() -> Model:
    d = st.WeibullDistribution(2.0, 3.0)
    return Model(d, st.WeibullEstimator(), drawn(d), (0.0, -1.0), NOT_NUMBERS, number("shape", "scale"), leaf=True)


@model("gumbel")
def gumbel() -> Model:
    d = st.GumbelDistribution(1.0, 2.0)
    return Model(d, st.GumbelEstimator(), drawn(d), (), NOT_NUMBERS, number("loc", "scale"), leaf=True)


@model("skew normal")
def skew_normal() -> Model:
    d = st.SkewNormalDistribution(1.0, 2.0, 3.0)
    return Model(
        d, st.SkewNormalEstimator(), drawn(d), (), NOT_NUMBERS, number("loc", "scale", "shape"), close=0.2, leaf=True
    )


@model("multivariate student t")
def multivariate_student_t() -> Model:
    d = st.MultivariateStudentTDistribution(6.0, [1.0, -1.0], [[2.0, 0.6], [0.6, 1.0]])
    bad = (([0.0, NAN], (1,)), ([None, 1.0], (0,)), (3.0, ()), ([1.0, 2.0, 3.0], ()), ([0.0, 1e200], (1,)))
    return Model(
        d, st.MultivariateStudentTEstimator(6.0, 2), drawn(d), (), bad, number("loc", "shape"), close=0.3, leaf=True
    )


@model("von mises fisher")
def von_mises_fisher() -> Model:
    d = st.VonMisesFisherDistribution([0.6, 0.8, 0.0], 5.0)
    bad = (([1.0, 1.0, 0.0], ()), ([NAN, 0.0, 0.0], (0,)), ([1.0, 0.0], ()), (1.0, ()))
    return Model(d, st.VonMisesFisherEstimator(3), drawn(d), (), bad, number("mu", "kappa"), leaf=True)


@model("dirichlet multinomial")
def dirichlet_multinomial() -> Model:
    d = st.DirichletMultinomialDistribution([2.0, 3.0, 1.0], 8)
    bad = (([1.0, NAN, 7.0], (1,)), ([4, 4], ()), ([0.5, 0.5, 7.0], ()), ("xyz", ()))
    outside = ([8, 1, 0], [9, -1, 0])
    return Model(
        d, st.DirichletMultinomialEstimator(3, 8), drawn(d), outside, bad, number("alpha"), close=0.3, leaf=True
    )


@model("point mass")
def point_mass() -> Model:
    d = st.PointMassDistribution("on")
    return Model(d, st.PointMassEstimator("on"), drawn(d), ("off", None), (), lambda _: [], leaf=True)


def label_weights(dist: Any) -> list[float]:
    """Return the probabilities of a Categorical in the order of its labels' text."""
    return [dist.pmap[label] for label in sorted(dist.pmap, key=str)]


@model("categorical")
def categorical() -> Model:
    d = st.CategoricalDistribution({"a": 0.5, "b": 0.3, "c": 0.2})
    bad = ((NAN, ()), (["list"], ()))
    return Model(d, st.CategoricalEstimator(), drawn(d), ("z", 1), bad, label_weights, refuses_outside=False, leaf=True)


@model("categorical of mixed labels")
def categorical_mixed() -> Model:
    d = st.CategoricalDistribution({"a": 0.5, 2: 0.25, None: 0.125, ("t", 1): 0.125}, default_value=0.01)
    return Model(
        d, st.CategoricalEstimator(), drawn(d), (), ((NAN, ()),), label_weights, refuses_outside=False, leaf=True
    )


@model("integer categorical")
def integer_categorical() -> Model:
    d = st.IntegerCategoricalDistribution(-1, [0.25, 0.5, 0.0, 0.25])
    outside = (1, -2, 3, 0.5)
    return Model(
        d, st.IntegerCategoricalEstimator(), drawn(d), outside, NOT_NUMBERS, number("p_vec"),
        refuses_outside=False, leaf=True,
    )  # fmt: skip


@model("integer categorical of a fixed range")
def integer_categorical_fixed() -> Model:
    d = st.IntegerCategoricalDistribution(0, [0.2, 0.3, 0.5])
    estimator = st.IntegerCategoricalEstimator(0, 2, pseudo_count=1.0)
    return Model(d, estimator, drawn(d), (3, -1), NOT_NUMBERS, number("p_vec"), leaf=True)


@model("bernoulli set")
def bernoulli_set() -> Model:
    d = st.BernoulliSetDistribution({"a": 0.5, "b": 0.25, "c": 0.9, 7: 0.1})
    bad = ((["a", NAN], (1,)), ([["a"]], (0,)), ("ab", ()), (3.0, ()), (["a", "a"], ()), ({"a": 1}, ()))
    outside = (["z"], {"a", "z"})
    return Model(
        d, st.BernoulliSetEstimator(), drawn(d), outside, bad, lambda m: [m.pmap[k] for k in ("a", "b", "c", 7)],
        refuses_outside=False, leaf=True, options={"without data": "pass pseudo_count"},
    )  # fmt: skip


@model("bernoulli set of a given support, smoothed")
def bernoulli_set_support() -> Model:
    d = st.BernoulliSetDistribution({"a": 0.5, "b": 0.25})
    estimator = st.BernoulliSetEstimator(pseudo_count=0.5, support=["a", "b", "never"])
    return Model(d, estimator, drawn(d), ({"z"},), (), lambda m: [m.pmap[k] for k in ("a", "b")], leaf=True)


@model("integer bernoulli set")
def integer_bernoulli_set() -> Model:
    d = st.IntegerBernoulliSetDistribution(np.log([0.5, 0.25, 0.9, 0.01]))
    bad = (([0, NAN], (1,)), ([None], (0,)), ("ab", ()), (3.0, ()), ([1, 1], ()))
    outside = ([4], {0, -1}, [0, 0.5])
    return Model(
        d, st.IntegerBernoulliSetEstimator(4), drawn(d), outside, bad, lambda m: np.exp(m.log_pvec).tolist(),
        leaf=True, options={"without data": "pass pseudo_count"},
    )  # fmt: skip


@model("multinomial")
def multinomial() -> Model:
    d = st.MultinomialDistribution(
        st.CategoricalDistribution({"a": 0.5, "b": 0.3, "c": 0.2}), st.PoissonDistribution(4.0)
    )
    estimator = st.MultinomialEstimator(st.CategoricalEstimator(), st.PoissonEstimator())
    bad = (
        ([("a", 1), ("b", NAN)], (1, 1)), ([("a", -1)], (0, 1)), ([("a", 0.5)], (0, 1)), ([("a", 1), (NAN, 1)], (1, 0)),
        (["ab"], (0,)), ("ab", ()), (3.0, ()), ([("a",)], (0,)), ({"a": None}, (0, 1)),
    )  # fmt: skip
    outside = ([("z", 1)], {"a": 1, "z": 2})
    return Model(
        d, estimator, drawn(d), outside, bad, lambda m: [*label_weights(m.dist), m.len_dist.lam], refuses_outside=False
    )


@model("normalised multinomial of numbers, of a fixed total")
def multinomial_normalised() -> Model:
    total = st.GeometricDistribution(0.25)
    d = st.MultinomialDistribution(st.GeometricDistribution(0.5), total, True)
    estimator = st.MultinomialEstimator(st.GeometricEstimator(), len_dist=total, len_normalized=True)
    outside = ([], [(1, 0)], [(0, 1)])
    return Model(d, estimator, drawn(d), outside, (), lambda m: [m.dist.p, m.len_dist.p], refuses_outside=False)


@model("integer multinomial")
def integer_multinomial() -> Model:
    d = st.IntegerMultinomialDistribution(2, [0.5, 0.3, 0.2], st.PoissonDistribution(4.0))
    estimator = st.IntegerMultinomialEstimator(2, 4, st.PoissonEstimator())
    bad = (([(2, 1), ("x", 1)], (1, 0)), ([(2, -1)], (0, 1)), (3, ()), ([2], (0,)), ([(None, 1)], (0, 0)))
    outside = ([(9, 1)], [(2, 1), (2.5, 1)])
    return Model(d, estimator, drawn(d), outside, bad, lambda m: [*m.p_vec, m.len_dist.lam])


def dists_of(dist: Any) -> list[float]:
    """Return the numbers of a product of a Gaussian, a Categorical and a Poisson."""
    x, c, n = dist.dists
    return [x.mu, x.sigma2, *label_weights(c), n.lam]


def three() -> tuple[Any, Any]:
    """Return the laws and the estimators of a row of a number, a label and a count."""
    laws = (
        st.GaussianDistribution(0.0, 1.0),
        st.CategoricalDistribution({"a": 0.5, "b": 0.5}),
        st.PoissonDistribution(3.0),
    )
    return laws, (st.GaussianEstimator(), st.CategoricalEstimator(), st.PoissonEstimator())


@model("composite")
def composite() -> Model:
    laws, estimators = three()
    d = st.CompositeDistribution(laws, name="row")
    bad = (((NAN, "a", 1), (0,)), ((0.0, "a", None), (2,)), ((0.0, "a"), ()), ("abc", ()), (1.0, ()))
    outside = ((0.0, "a", -1), (0.0, "z", 1))
    return Model(d, st.CompositeEstimator(estimators), drawn(d), outside, bad, dists_of, refuses_outside=False)


@model("record")
def record() -> Model:
    laws, estimators = three()
    names = ("x", "label", "n")
    d = st.RecordDistribution(dict(zip(names, laws, strict=True)))
    good = {"x": 0.0, "label": "a", "n": 1}
    bad = (
        (good | {"x": NAN}, ("x",)),
        ({"x": 0.0, "label": "a"}, ("n",)),
        (good | {"more": 1}, ("more",)),
        ((0.0, "a", 1), ()),
    )
    outside = (good | {"n": -1}, good | {"label": "z"})
    return Model(d, st.RecordEstimator((names, estimators)), drawn(d), outside, bad, dists_of, refuses_outside=False)


@model("nested composite")
def nested_composite() -> Model:
    inner = st.CompositeDistribution((st.BernoulliDistribution(0.4), st.GammaDistribution(2.0, 1.0)))
    d = st.CompositeDistribution((inner, st.NullDistribution(), st.UniformDistribution(0.0, 2.0)))
    estimator = st.CompositeEstimator(
        [
            st.CompositeEstimator([st.BernoulliEstimator(), st.GammaEstimator()]),
            st.NullEstimator(),
            st.UniformEstimator(),
        ]
    )
    rows = [(row, None, u) for row, u in zip(drawn(inner), drawn(d.dists[2]), strict=True)]
    bad = ((((True, NAN), None, 1.0), (0, 1)), (((True,), None, 1.0), (0,)))
    outside = (((True, 0.0), None, 1.0),)

    def parameters(dist: Any) -> list[float]:
        (b, g), u = dist.dists[0].dists, dist.dists[2]
        return [b.p, g.k, g.theta, u.low, u.high]

    return Model(d, estimator, rows, outside, bad, parameters, generative=False)


@model("optional")
def optional() -> Model:
    d = st.OptionalDistribution(st.GaussianDistribution(2.0, 1.0), p=0.25)
    estimator = st.OptionalEstimator(st.GaussianEstimator(), est_prob=True)
    bad = (("x", ()), (math.inf, ()))
    return Model(d, estimator, drawn(d), (), bad, lambda m: [m.p, m.dist.mu, m.dist.sigma2])


@model("optional of a sentinel")
def optional_sentinel() -> Model:
    d = st.OptionalDistribution(st.PoissonDistribution(4.0), p=0.5, missing_value=-9)
    estimator = st.OptionalEstimator(st.PoissonEstimator(), -9, True, pseudo_count=0.5)
    bad = ((None, ()), (NAN, ()))
    return Model(d, estimator, drawn(d), (-1,), bad, lambda m: [m.p, m.dist.lam])


@model("optional of NaN as sentinel, without probability")
def optional_nan() -> Model:
    d = st.OptionalDistribution(st.CategoricalDistribution({"a": 0.5, "b": 0.5}), missing_value=NAN)
    estimator = st.OptionalEstimator(st.CategoricalEstimator(), NAN)
    rows = ["a", NAN, "b", np.float64(NAN)] * 60
    return Model(d, estimator, rows, ("z",), (), lambda m: label_weights(m.dist), refuses_outside=False)


@model("optional composite")
def optional_composite() -> Model:
    d = st.OptionalDistribution(
        st.CompositeDistribution((st.GaussianDistribution(0.0, 1.0), st.GeometricDistribution(0.5))), p=0.3
    )
    child = st.CompositeEstimator([st.GaussianEstimator(), st.GeometricEstimator()])
    bad = (((0.0, NAN), (1,)), ((0.0,), ()))

    def parameters(dist: Any) -> list[float]:
        x, n = dist.dist.dists
        return [dist.p, x.mu, x.sigma2, n.p]

    return Model(d, st.OptionalEstimator(child, est_prob=True), drawn(d), ((0.0, 0),), bad, parameters)


@model("sequence")
def sequence() -> Model:
    d = st.SequenceDistribution(st.GaussianDistribution(1.0, 2.0), st.PoissonDistribution(3.0))
    estimator = st.SequenceEstimator(st.GaussianEstimator(), st.PoissonEstimator())
    bad = (([0.0, NAN], (1,)), (3.0, ()), ({1.0, 2.0}, ()))
    return Model(d, estimator, drawn(d), (), bad, lambda m: [m.dist.mu, m.dist.sigma2, m.len_dist.lam])


@model("normalised sequence of a fixed length law")
def sequence_normalised() -> Model:
    length = st.GeometricDistribution(0.25)
    d = st.SequenceDistribution(st.ExponentialDistribution(2.0), length, len_normalized=True)
    estimator = st.SequenceEstimator(st.ExponentialEstimator(), len_dist=length, len_normalized=True)
    outside = ([], [1.0, -1.0])
    return Model(d, estimator, drawn(d), outside, (), lambda m: [m.dist.beta, m.len_dist.p], refuses_outside=False)


@model("sequence of optional labels")
def sequence_optional() -> Model:
    element = st.OptionalDistribution(st.CategoricalDistribution({"a": 0.75, "b": 0.25}), p=0.2)
    d = st.SequenceDistribution(element, st.PoissonDistribution(2.0))
    estimator = st.SequenceEstimator(
        st.OptionalEstimator(st.CategoricalEstimator(), est_prob=True), st.PoissonEstimator()
    )
    outside = (["a", "z"],)
    return Model(
        d, estimator, drawn(d), outside, (), lambda m: [m.dist.p, *label_weights(m.dist.dist), m.len_dist.lam],
        refuses_outside=False,
    )  # fmt: skip


@model("ignored")
def ignored() -> Model:
    d = st.IgnoredDistribution(st.PoissonDistribution(2.0))
    estimator = st.IgnoredEstimator(st.PoissonDistribution(2.0))
    return Model(d, estimator, drawn(d), (-1,), NOT_NUMBERS, lambda m: [m.dist.lam], refuses_outside=False)


@model("null")
def null() -> Model:
    return Model(st.NullDistribution(), st.NullEstimator(), [None, "a", 1.0] * 80, generative=False)


def mixture_of(*components: Any) -> Any:
    """Return an even mixture."""
    return st.MixtureDistribution(list(components), np.full(len(components), 1.0 / len(components)))


def by_first(read: Callable[[Any], list[float]]) -> Callable[[Any], list[float]]:
    """Return a reader of all components, in the order of their first parameter, with their weights."""
    return lambda m: [
        x for part in sorted([*read(c), float(w)] for c, w in zip(m.components, m.w, strict=True)) for x in part
    ]


@model("mixture")
def mixture() -> Model:
    d = mixture_of(st.GaussianDistribution(-4.0, 1.0), st.GaussianDistribution(5.0, 2.0))
    estimator = st.MixtureEstimator([st.GaussianEstimator()] * 2)
    return Model(d, estimator, drawn(d), (), NOT_NUMBERS, by_first(number("mu", "sigma2")), latent=True)


@model("mixture of products")
def mixture_of_products() -> Model:
    def product(mean: float, p: float, lam: float) -> Any:
        label = st.CategoricalDistribution({"a": p, "b": 1.0 - p})
        count = st.OptionalDistribution(st.PoissonDistribution(lam), p=0.25)
        return st.CompositeDistribution((st.GaussianDistribution(mean, 1.0), label, count))

    d = mixture_of(product(-5.0, 0.8, 2.0), product(6.0, 0.1, 9.0))
    count = st.OptionalEstimator(st.PoissonEstimator(), est_prob=True)
    child = st.CompositeEstimator([st.GaussianEstimator(), st.CategoricalEstimator(), count])
    bad = (((NAN, "a", 1), (0,)), ((0.0, "a"), ()))

    def read(dist: Any) -> list[float]:
        x, label, n = dist.dists
        return [x.mu, x.sigma2, *label_weights(label), n.p, n.dist.lam]

    return Model(
        d, st.MixtureEstimator([child] * 2), drawn(d), ((0.0, "z", 1), (0.0, "a", -1)), bad, by_first(read),
        refuses_outside=False, latent=True,
    )  # fmt: skip


@model("mixture of unlike families")
def mixture_of_unlike() -> Model:
    d = mixture_of(st.GaussianDistribution(0.0, 1.0), st.UniformDistribution(5.0, 6.0))
    estimator = st.MixtureEstimator([st.GaussianEstimator(), st.UniformEstimator()])

    def read(m: Any) -> list[float]:
        g, u = m.components
        return [g.mu, g.sigma2, u.low, u.high, *map(float, m.w)]

    return Model(d, estimator, drawn(d), (), NOT_NUMBERS, read, latent=True)


def chain_numbers(dist: Any, read: Callable[[Any], list[float]]) -> list[float]:
    """Return the numbers of a hidden Markov model, its states in the order of their first parameter."""
    order = sorted(range(dist.n_states), key=lambda k: read(dist.topics[k]))
    topics = [x for k in order for x in read(dist.topics[k])]
    return [*topics, *map(float, dist.w[order]), *map(float, dist.transitions[np.ix_(order, order)].ravel())]


@model("hidden markov")
def hidden_markov() -> Model:
    topics = [st.GaussianDistribution(-3.0, 1.0), st.GaussianDistribution(4.0, 2.0)]
    length = st.PoissonDistribution(6.0)
    d = st.HiddenMarkovModelDistribution(topics, [0.6, 0.4], [[0.8, 0.2], [0.3, 0.7]], len_dist=length)
    estimator = st.HiddenMarkovEstimator([st.GaussianEstimator()] * 2, st.PoissonEstimator())
    bad = (([0.0, NAN], (1,)), (3.0, ()), ({1.0, 2.0}, ()), (["x"], (0,)))

    def parameters(dist: Any) -> list[float]:
        return [*chain_numbers(dist, number("mu", "sigma2")), dist.len_dist.lam]

    return Model(d, estimator, drawn(d), (), bad, parameters, refuses_outside=False, latent=True)


@model("hidden markov of products with a structural zero")
def hidden_markov_products() -> Model:
    def product(p: float, lam: float) -> Any:
        return st.CompositeDistribution(
            (
                st.CategoricalDistribution({"a": p, "b": 1.0 - p}),
                st.OptionalDistribution(st.PoissonDistribution(lam), p=0.25),
            )
        )

    moves = [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]]
    d = st.HiddenMarkovModelDistribution(
        [product(0.9, 1.0), product(0.2, 8.0), product(0.5, 25.0)], [1.0, 0.0, 0.0], moves,
        len_dist=st.GeometricDistribution(0.2),
    )  # fmt: skip
    count = st.OptionalEstimator(st.PoissonEstimator(), est_prob=True)
    child = st.CompositeEstimator([st.CategoricalEstimator(), count])
    estimator = st.HiddenMarkovEstimator([child] * 3, st.GeometricEstimator())

    def read(dist: Any) -> list[float]:
        label, n = dist.dists
        return [n.dist.lam, n.p, *label_weights(label)]

    def parameters(dist: Any) -> list[float]:
        return [*chain_numbers(dist, read), dist.len_dist.p]

    outside = ([("z", 1)], [("a", 1), ("b", -1)], [])
    bad = (([("a", 1), ("a", "x")], (1, 1)), ([("a",)], (0,)))
    return Model(d, estimator, drawn(d), outside, bad, parameters, refuses_outside=False, latent=True)


@model("hidden markov of unlike families with a terminal state")
def hidden_markov_terminal() -> Model:
    topics = [
        st.GaussianDistribution(-2.0, 1.0),
        mixture_of(st.GaussianDistribution(3.0, 1.0), st.GaussianDistribution(8.0, 1.0)),
        st.UniformDistribution(20.0, 21.0),
    ]
    moves = [[0.6, 0.3, 0.1], [0.4, 0.4, 0.2], [0.0, 0.0, 1.0]]
    d = st.HiddenMarkovModelDistribution(topics, [0.5, 0.5, 0.0], moves, terminal_states=[2])
    pair = st.MixtureEstimator([st.GaussianEstimator()] * 2)
    estimator = st.HiddenMarkovEstimator([st.GaussianEstimator(), pair, st.UniformEstimator()], terminal_states=[2])

    def parameters(dist: Any) -> list[float]:
        g, m, u = dist.topics
        inner = by_first(number("mu", "sigma2"))(m)
        return [g.mu, g.sigma2, *inner, u.low, u.high, *map(float, dist.w), *map(float, dist.transitions.ravel())]

    outside = ([], [-2.0])
    return Model(d, estimator, drawn(d), outside, (([NAN], (0,)),), parameters, refuses_outside=False, latent=True)


@model("markov chain")
def markov_chain() -> Model:
    moves = {"a": {"a": 0.7, "b": 0.3}, "b": {"b": 0.5, "c": 0.5}, "c": {"a": 1.0}}
    d = st.MarkovChainDistribution({"a": 0.5, "b": 0.5}, moves, st.PoissonDistribution(5.0))
    estimator = st.MarkovChainEstimator(len_estimator=st.PoissonEstimator())
    bad = ((["a", NAN], (1,)), (3.0, ()), ({"a", "b"}, ()))

    def parameters(dist: Any) -> list[float]:
        states = sorted(dist.states, key=str)
        return [
            *(dist.init_prob_map[s] for s in states),
            *(dist.transition_map[s][t] for s in states for t in states),
            dist.len_dist.lam,
        ]

    return Model(
        d, estimator, drawn(d), (["a", "z"], ["z"], ["c", "a"], ["a", "c"]), bad, parameters, refuses_outside=False,
        options={"without data": "shows a label"},
    )  # fmt: skip


@model("markov chain of given levels, smoothed")
def markov_chain_levels() -> Model:
    moves = {2: {2: 0.6, 5: 0.4}, 5: {2: 0.2, 5: 0.8}}
    d = st.MarkovChainDistribution({2: 0.9, 5: 0.1}, moves, st.GeometricDistribution(0.2))
    estimator = st.MarkovChainEstimator(1.0, (2, 5), st.GeometricEstimator())

    def parameters(dist: Any) -> list[float]:
        chain = [dist.transition_map[s][t] for s in (2, 5) for t in (2, 5)]
        return [dist.init_prob_map[2], *chain, dist.len_dist.p]

    return Model(d, estimator, drawn(d), ([2, 7], [0]), ((["a", NAN], (1,)),), parameters)


@model("integer markov chain")
def integer_markov_chain() -> Model:
    head = st.CompositeDistribution((st.IntegerCategoricalDistribution(0, [0.3, 0.7]),) * 2)
    moves = [[0.9, 0.1], [0.5, 0.5], [0.2, 0.8], [0.25, 0.75]]
    d = st.IntegerMarkovChainDistribution(2, moves, 2, head, st.GeometricDistribution(0.15))
    part = st.IntegerCategoricalEstimator(0, 1)
    estimator = st.IntegerMarkovChainEstimator(2, 2, st.CompositeEstimator((part, part)), len_dist=d.len_dist)

    def parameters(dist: Any) -> list[float]:
        return [*(p for law in dist.init_dist.dists for p in law.p_vec), *dist.cond_dist.ravel()]

    outside = ([0], [], [0, 2], [0, 1, -1], [0, 1, 0.5])
    bad = (([0, NAN], (1,)), (3, ()), ([0, 1, "x"], (2,)))
    return Model(d, estimator, drawn(d), outside, bad, parameters)


@model("heterogeneous mixture")
def heterogeneous_mixture() -> Model:
    parts = [st.GaussianDistribution(-6.0, 1.0), st.ExponentialDistribution(2.0)]
    d = st.HeterogeneousMixtureDistribution(parts, [0.4, 0.6])
    estimator = st.HeterogeneousMixtureEstimator([st.GaussianEstimator(), st.ExponentialEstimator()])

    def read(m: Any) -> list[float]:
        g, e = m.components
        return [g.mu, g.sigma2, e.beta, *map(float, m.w)]

    return Model(d, estimator, drawn(d), (), NOT_NUMBERS, read, latent=True)


@model("gaussian mixture")
def gaussian_mixture() -> Model:
    covariances = [[[1.0, 0.5], [0.5, 1.0]], [[2.0, 0.0], [0.0, 0.5]]]
    d = st.GaussianMixtureDistribution([[-4.0, 0.0], [4.0, 3.0]], covariances, [0.3, 0.7])
    estimator = st.GaussianMixtureEstimator([st.MultivariateGaussianEstimator(2)] * 2)
    bad = (([0.0, NAN], (1,)), ([None, 1.0], (0,)), (3.0, ()), ([1.0, 2.0, 3.0], ()))
    return Model(
        d, estimator, drawn(d), (), bad, by_first(number("mu", "covar")), latent=True,
    )  # fmt: skip


@model("gaussian mixture of independent columns")
def gaussian_mixture_diagonal() -> Model:
    d = st.GaussianMixtureDistribution([[-4.0, 0.0], [4.0, 3.0]], [[1.0, 2.0], [2.0, 0.5]], [0.5, 0.5])
    estimator = st.GaussianMixtureEstimator([st.DiagonalGaussianEstimator(2)] * 2)
    return Model(d, estimator, drawn(d), (), (([0.0, NAN], (1,)),), by_first(number("mu", "covar")), latent=True)


@model("semi-supervised mixture")
def semi_supervised_mixture() -> Model:
    parts = [st.PoissonDistribution(2.0), st.PoissonDistribution(12.0)]
    d = st.SemiSupervisedMixtureDistribution(parts, [0.4, 0.6])
    estimator = st.SemiSupervisedMixtureEstimator([st.PoissonEstimator()] * 2)
    told = (None, [(0, 1.0)], [(1, 2.0)], [(0, 0.5), (1, 0.25)])
    rows = [(x, told[i % 4] if i % 3 else None) for i, (x, _) in enumerate(drawn(d))]
    bad = (
        ((NAN, None), (0,)),
        ((1, [(2, 1.0)]), (1,)),
        ((1, []), (1,)),
        ((1, 0), (1,)),
        ((1, [(0, -1.0)]), (1,)),
        (1, ()),
    )
    outside = ((-1, None), (-1, [(0, 1.0)]))
    return Model(d, estimator, rows, outside, bad, by_first(number("lam")), refuses_outside=False, latent=True)


@model("joint mixture")
def joint_mixture() -> Model:
    first = [st.GaussianDistribution(-4.0, 1.0), st.GaussianDistribution(4.0, 1.0)]
    second = [st.PoissonDistribution(1.0), st.PoissonDistribution(12.0), st.PoissonDistribution(40.0)]
    joint = [[0.3, 0.1, 0.0], [0.1, 0.2, 0.3]]
    d = st.JointMixtureDistribution(first, second, joint_weights=joint)
    estimator = st.JointMixtureEstimator([st.GaussianEstimator()] * 2, [st.PoissonEstimator()] * 3)
    bad = (((NAN, 1), (0,)), ((0.0, "x"), (1,)), ((0.0,), ()), (1.0, ()))

    def parameters(dist: Any) -> list[float]:
        one = sorted(range(2), key=lambda k: dist.components1[k].mu)
        two = sorted(range(3), key=lambda k: dist.components2[k].lam)
        laws = [x for k in one for x in (dist.components1[k].mu, dist.components1[k].sigma2)]
        laws += [dist.components2[k].lam for k in two]
        return [*laws, *map(float, dist.joint_weights[np.ix_(one, two)].ravel())]

    return Model(d, estimator, drawn(d), ((0.0, -1),), bad, parameters, refuses_outside=False, latent=True)


@model("hierarchical mixture")
def hierarchical_mixture() -> Model:
    topics = [st.GaussianDistribution(-4.0, 1.0), st.GaussianDistribution(4.0, 1.0), st.GaussianDistribution(12.0, 1.0)]
    taus = [[0.8, 0.2, 0.0], [0.1, 0.2, 0.7]]
    d = st.HierarchicalMixtureDistribution(topics, [0.4, 0.6], taus, st.PoissonDistribution(8.0))
    estimator = st.HierarchicalMixtureEstimator([st.GaussianEstimator()] * 3, 2, st.PoissonEstimator())
    bad = (([0.0, NAN], (1,)), (3.0, ()), (["x"], (0,)))

    def parameters(dist: Any) -> list[float]:
        order = sorted(range(3), key=lambda k: dist.topics[k].mu)
        rows = sorted([*map(float, t[order]), float(w)] for t, w in zip(dist.taus, dist.w, strict=True))
        laws = [x for k in order for x in (dist.topics[k].mu, dist.topics[k].sigma2)]
        return [*laws, *(x for row in rows for x in row), dist.len_dist.lam]

    return Model(d, estimator, drawn(d), (), bad, parameters, refuses_outside=False, latent=True)


@model("hierarchical mixture of labels and a fixed length law")
def hierarchical_mixture_labels() -> Model:
    topics = [st.CategoricalDistribution({"a": 0.9, "b": 0.1}), st.CategoricalDistribution({"b": 0.2, "c": 0.8})]
    length = st.GeometricDistribution(0.1)
    d = st.HierarchicalMixtureDistribution(topics, [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], length)
    estimator = st.HierarchicalMixtureEstimator([st.CategoricalEstimator()] * 2, 2, len_dist=length)

    def parameters(dist: Any) -> list[float]:
        laws = sorted([t.pmap.get(label, 0.0) for label in "abc"] for t in dist.topics)
        return [x for law in laws for x in law]

    outside = ([], ["z"], ["a", "z"])
    return Model(d, estimator, drawn(d), outside, (), parameters, refuses_outside=False, latent=True)


@model("latent dirichlet allocation")
def latent_dirichlet_allocation() -> Model:
    topics = [
        st.CategoricalDistribution({"a": 0.7, "b": 0.2, "c": 0.1}),
        st.CategoricalDistribution({"b": 0.1, "c": 0.3, "d": 0.6}),
    ]
    d = st.LDADistribution(topics, [0.3, 0.4], st.PoissonDistribution(12.0))
    estimator = st.LDAEstimator([st.CategoricalEstimator()] * 2, st.PoissonEstimator())
    bad = (
        ([("a", 0.0)], (0, 1)),
        ([("a", 1), ("b", NAN)], (1, 1)),
        ([(NAN, 1)], (0, 0)),
        ([("a", 1), "b"], (1,)),
        (3.0, ()),
        ("ab", ()),
    )

    def parameters(dist: Any) -> list[float]:
        laws = sorted([t.pmap.get(label, 0.0) for label in "abcd"] for t in dist.topics)
        return [*(x for law in laws for x in law), dist.len_dist.lam]

    outside = ([("z", 1)], [("a", 2), ("z", 1)], [("a", 0.5)])
    return Model(
        d, estimator, drawn(d), outside, bad, parameters, refuses_outside=False, latent=True, options={"bound": BOUND}
    )


@model("latent dirichlet allocation of numbers in one topic")
def latent_dirichlet_allocation_one() -> Model:
    d = st.LDADistribution([st.GaussianDistribution(3.0, 4.0)], [1.0], st.GeometricDistribution(0.2))
    estimator = st.LDAEstimator([st.GaussianEstimator()], st.GeometricEstimator())

    def parameters(dist: Any) -> list[float]:
        return [dist.topics[0].mu, dist.topics[0].sigma2, dist.len_dist.p]

    return Model(
        d, estimator, drawn(d), ([],), (([(NAN, 1)], (0, 0)),), parameters, refuses_outside=False, latent=True,
        options={"bound": BOUND},
    )  # fmt: skip


@model("probabilistic pca")
def probabilistic_pca() -> Model:
    d = st.ProbabilisticPCADistribution([[2.0, 0.0], [1.0, 1.0], [0.0, -1.0], [0.5, 0.5]], [1.0, 0.0, -1.0, 5.0], 0.5)
    estimator = st.ProbabilisticPCAEstimator(2, 4)
    bad = (([0.0, NAN, 1.0, 2.0], (1,)), (3.0, ()), ([1.0, 2.0, 3.0], ()))
    return Model(d, estimator, drawn(d), (), bad, number("mu", "covar"), leaf=True)


import wrapped_models  # noqa: E402, F401 - enters the laws that are made of one other law
