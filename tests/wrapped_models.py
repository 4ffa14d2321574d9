"""The combinators over one law, or over laws of which one is chosen; a part of the table of all models."""

from __future__ import annotations

import math
from typing import Any

import mixle.stats as st
from models import NAN, NOT_NUMBERS, Model, by_first, chain_numbers, drawn, label_weights, mixture_of, model, number


@model("zero inflated")
def zero_inflated() -> Model:
    d = st.ZeroInflatedDistribution(st.PoissonDistribution(4.0), 0.3)
    estimator = st.ZeroInflatedEstimator(st.PoissonEstimator())
    return Model(d, estimator, drawn(d), (-1, 0.5), NOT_NUMBERS, lambda m: [m.pi, m.base.lam], latent=True)


@model("zero inflated of a law without zeros")
def zero_inflated_structural() -> Model:
    d = st.ZeroInflatedDistribution(st.GeometricDistribution(0.4), 0.6)
    estimator = st.ZeroInflatedEstimator(st.GeometricEstimator(), 0.5)
    return Model(d, estimator, drawn(d), (-1, 0.5), NOT_NUMBERS, lambda m: [m.pi, m.base.p], latent=True)


@model("sequence of a mixture")
def sequence_mixture() -> Model:
    pair = mixture_of(st.GaussianDistribution(-4.0, 1.0), st.GaussianDistribution(6.0, 2.0))
    d = st.SequenceDistribution(pair, st.PoissonDistribution(2.0))
    estimator = st.SequenceEstimator(st.MixtureEstimator([st.GaussianEstimator()] * 2), st.PoissonEstimator())
    read = by_first(number("mu", "sigma2"))
    bad = (([0.0, NAN], (1,)), (3.0, ()))
    return Model(d, estimator, drawn(d), (), bad, lambda m: [*read(m.dist), m.len_dist.lam], latent=True)


@model("zero inflated mixture")
def zero_inflated_mixture() -> Model:
    base = mixture_of(st.PoissonDistribution(3.0), st.PoissonDistribution(40.0))
    d = st.ZeroInflatedDistribution(base, 0.25)
    estimator = st.ZeroInflatedEstimator(st.MixtureEstimator([st.PoissonEstimator()] * 2))
    read = by_first(lambda part: [part.lam])
    return Model(
        d, estimator, drawn(d), (-1,), NOT_NUMBERS, lambda m: [m.pi, *read(m.base)], refuses_outside=False, latent=True
    )


@model("composite of zero inflated")
def composite_zero_inflated() -> Model:
    def product(pi: float, lam: float, mean: float) -> Any:
        return st.CompositeDistribution(
            (st.ZeroInflatedDistribution(st.PoissonDistribution(lam), pi), st.GaussianDistribution(mean, 1.0))
        )

    d = mixture_of(product(0.2, 3.0, -4.0), product(0.6, 12.0, 4.0))
    child = st.CompositeEstimator([st.ZeroInflatedEstimator(st.PoissonEstimator()), st.GaussianEstimator()])
    bad = (((0, "x"), (1,)), (("x", 1.0), (0,)), ((0,), ()))

    def read(dist: Any) -> list[float]:
        count, x = dist.dists
        return [x.mu, x.sigma2, count.pi, count.base.lam]

    return Model(
        d, st.MixtureEstimator([child] * 2), drawn(d), ((-1, 0.0),), bad, by_first(read),
        refuses_outside=False, latent=True,
    )  # fmt: skip


@model("hidden markov of zero inflated")
def hidden_markov_zero_inflated() -> Model:
    topics = [st.ZeroInflatedDistribution(st.PoissonDistribution(lam), pi) for lam, pi in ((2.0, 0.4), (25.0, 0.2))]
    d = st.HiddenMarkovModelDistribution(
        topics, [0.6, 0.4], [[0.8, 0.2], [0.3, 0.7]], len_dist=st.PoissonDistribution(6.0)
    )
    estimator = st.HiddenMarkovEstimator(
        [st.ZeroInflatedEstimator(st.PoissonEstimator())] * 2, st.PoissonEstimator()
    )  # fmt: skip
    bad = (([0, "x"], (1,)), (3.0, ()))

    def parameters(dist: Any) -> list[float]:
        return [*chain_numbers(dist, lambda topic: [topic.base.lam, topic.pi]), dist.len_dist.lam]

    return Model(d, estimator, drawn(d), ([1, -1],), bad, parameters, refuses_outside=False, latent=True)


@model("hurdle")
def hurdle() -> Model:
    d = st.HurdleDistribution(st.NegativeBinomialDistribution(3.0, 0.4), 0.3)
    estimator = st.HurdleEstimator(st.NegativeBinomialEstimator(3.0, estimate_r=False))
    return Model(d, estimator, drawn(d), (-1, 0.5), NOT_NUMBERS, lambda m: [m.pi, m.base.p])


@model("hurdle of amounts")
def hurdle_amounts() -> Model:
    d = st.HurdleDistribution(st.LogGaussianDistribution(2.0, 0.5), 0.6)
    estimator = st.HurdleEstimator(st.LogGaussianEstimator(), 0.5)
    read = number("mu", "sigma2")
    return Model(d, estimator, drawn(d), (-1.0,), NOT_NUMBERS, lambda m: [m.pi, *read(m.base)])


@model("mixture of hurdles")
def mixture_of_hurdles() -> Model:
    def pair(pi: float, mu: float, lam: float) -> Any:
        amount = st.HurdleDistribution(st.LogGaussianDistribution(mu, 0.3), pi)
        return st.CompositeDistribution((amount, st.HurdleDistribution(st.PoissonDistribution(lam), 0.5 * pi)))

    d = mixture_of(pair(0.6, 0.0, 3.0), pair(0.2, 4.0, 20.0))
    child = st.CompositeEstimator(
        [st.HurdleEstimator(st.LogGaussianEstimator()), st.HurdleEstimator(st.PoissonEstimator())]
    )

    def read(dist: Any) -> list[float]:
        amount, count = dist.dists
        return [amount.pi, amount.base.mu, amount.base.sigma2, count.pi, count.base.lam]

    bad = ((("x", 1), (0,)), ((1.0, NAN), (1,)), ((0.0,), ()))
    return Model(
        d, st.MixtureEstimator([child] * 2), drawn(d), ((-1.0, 0),), bad, by_first(read), refuses_outside=False,
        latent=True,
    )  # fmt: skip


@model("conditional")
def conditional() -> Model:
    given = st.CategoricalDistribution({"a": 0.5, "b": 0.3, "c": 0.2})
    laws = {"a": st.GaussianDistribution(0.0, 1.0), "b": st.GaussianDistribution(5.0, 2.0)}
    d = st.ConditionalDistribution(laws, st.ExponentialDistribution(2.0), given)
    branches = {"a": st.GaussianEstimator(), "b": st.GaussianEstimator()}
    estimator = st.ConditionalEstimator(branches, st.ExponentialEstimator(), st.CategoricalEstimator())
    bad = ((("a", NAN), (1,)), (("b", "x"), (1,)), (([1], 1.0), (0,)), (("a",), ()), (3.0, ()))

    def parameters(dist: Any) -> list[float]:
        laws = [x for law in dist.dmap.values() for x in (law.mu, law.sigma2)]
        return [*laws, dist.default_dist.beta, *label_weights(dist.given_dist)]

    return Model(d, estimator, drawn(d), (("c", -1.0),), bad, parameters)


@model("conditional of values alone, with a mixture")
def conditional_alone() -> Model:
    pair = mixture_of(st.GaussianDistribution(-4.0, 1.0), st.GaussianDistribution(6.0, 1.0))
    d = st.ConditionalDistribution([st.PoissonDistribution(3.0), pair])
    estimator = st.ConditionalEstimator(
        [st.PoissonEstimator(), st.MixtureEstimator([st.GaussianEstimator()] * 2)]
    )  # fmt: skip
    rows = [*((0, x) for x in drawn(d.dmap[0], 100)), *((1, x) for x in drawn(pair, 140))]
    read = by_first(number("mu", "sigma2"))
    bad = (((1, NAN), (1,)), ((0, "x"), (1,)), (({}, 1.0), (0,)))
    return Model(
        d, estimator, rows, ((0, -1), (2, 0.0)), bad, lambda m: [m.dmap[0].lam, *read(m.dmap[1])],
        generative=False, latent=True,
    )  # fmt: skip


@model("weighted")
def weighted() -> Model:
    d = st.WeightedDistribution(st.GaussianDistribution(2.0, 3.0))
    rows = [st.WeightedObservation(x, 0.5 * (i % 4)) for i, x in enumerate(drawn(d.dist))]
    bad = (((NAN, 1.0), (0,)), ((1.0, -1.0), (1,)), ((1.0, NAN), (1,)), (3.0, ()), ((1.0,), ()))
    read = number("mu", "sigma2")
    return Model(d, st.WeightedEstimator(st.GaussianEstimator()), rows, (), bad, lambda m: read(m.dist))


@model("select by type")
def select_by_type() -> Model:
    words = st.CategoricalDistribution({"none": 0.7, "all": 0.3})
    d = st.SelectDistribution.by_type([(str, words), ("float", st.GaussianDistribution(3.0, 2.0))], [0.4, 0.6])
    estimator = st.SelectEstimator(
        [st.CategoricalEstimator(), st.GaussianEstimator()], st.TypeDispatch([str, float]), True
    )
    bad = ((NAN, ()), (None, ()), (3, ()), (math.inf, ()))

    def parameters(dist: Any) -> list[float]:
        label, x = dist.dists
        return [x.mu, x.sigma2, float(dist.weights[0]), label.pmap["all"], label.pmap["none"]]

    return Model(d, estimator, drawn(d), ("z",), bad, parameters, refuses_outside=False)


def by_size(x: float) -> int:
    """Return 1 for numbers above 10."""
    return int(x > 10.0)


@model("select by a function of one's own")
def select_by_function() -> Model:
    st.register_function(by_size, "by size")
    d = st.SelectDistribution([st.ExponentialDistribution(2.0), st.GaussianDistribution(20.0, 1.0)], by_size)
    estimator = st.SelectEstimator([st.ExponentialEstimator(), st.GaussianEstimator()], by_size)
    rows = [*drawn(d.dists[0], 120), *drawn(d.dists[1], 120)]
    return Model(
        d, estimator, rows, (-1.0,), ((math.nan, ()),), lambda m: [m.dists[0].beta, m.dists[1].mu, m.dists[1].sigma2],
        generative=False, options={"names": {"by_size": by_size}},
    )  # fmt: skip


@model("transform to shares")
def transform_logit() -> Model:
    d = st.TransformDistribution(st.GaussianDistribution(0.5, 2.0), "logit")
    read = number("mu", "sigma2")
    return Model(
        d, st.TransformEstimator(st.GaussianEstimator(), "logit"), drawn(d), (0.0, 1.0, 7.0), NOT_NUMBERS,
        lambda m: read(m.dist),
    )  # fmt: skip


@model("transform of counts")
def transform_counts() -> Model:
    d = st.TransformDistribution(st.PoissonDistribution(5.0), st.AffineTransform(0.25, 0.5))
    estimator = st.TransformEstimator(st.PoissonEstimator(), st.AffineTransform(0.25, 0.5))
    return Model(d, estimator, drawn(d), (0.0, -0.25, 1.0), NOT_NUMBERS, lambda m: [m.dist.lam])


@model("transform of a mixture")
def transform_mixture() -> Model:
    pair = mixture_of(st.ExponentialDistribution(1.0), st.GammaDistribution(20.0, 5.0))
    d = st.TransformDistribution(pair, "sqrt")
    child = st.MixtureEstimator([st.ExponentialEstimator(), st.GammaEstimator()])

    def read(m: Any) -> list[float]:
        e, g = m.dist.components
        return [e.beta, g.k, g.theta, *map(float, m.dist.w)]

    return Model(
        d, st.TransformEstimator(child, "sqrt"), drawn(d), (-1.0,), NOT_NUMBERS, read,
        close=0.3, latent=True,
    )  # fmt: skip


@model("truncated")
def truncated() -> Model:
    d = st.TruncatedDistribution(st.GaussianDistribution(1.0, 4.0), low=-1.0, high=4.0)
    estimator = st.TruncatedEstimator(st.GaussianEstimator(), low=-1.0, high=4.0)
    read = number("mu", "sigma2")
    return Model(d, estimator, drawn(d), (-1.5, 4.5), NOT_NUMBERS, lambda m: read(m.base), close=0.25)


@model("truncated counts")
def truncated_counts() -> Model:
    d = st.TruncatedDistribution(st.PoissonDistribution(3.0), forbidden=[0, 2])
    estimator = st.TruncatedEstimator(st.PoissonEstimator(), forbidden=[0, 2])
    return Model(d, estimator, drawn(d), (0, 2, -1), NOT_NUMBERS, lambda m: [m.base.lam])


@model("truncated to allowed counts")
def truncated_allowed() -> Model:
    d = st.TruncatedDistribution(st.GeometricDistribution(0.4), [1, 2, 3, 4, 5])
    estimator = st.TruncatedEstimator(st.GeometricEstimator(), [1, 2, 3, 4, 5])
    return Model(d, estimator, drawn(d), (0, 6), NOT_NUMBERS, lambda m: [m.base.p])


@model("truncated mixture")
def truncated_mixture() -> Model:
    pair = mixture_of(st.GaussianDistribution(-1.0, 1.0), st.GaussianDistribution(5.0, 1.0))
    d = st.TruncatedDistribution(pair, low=-3.0)
    estimator = st.TruncatedEstimator(st.MixtureEstimator([st.GaussianEstimator()] * 2), low=-3.0, max_iter=30)
    read = by_first(number("mu", "sigma2"))
    return Model(d, estimator, drawn(d), (-3.5,), NOT_NUMBERS, lambda m: read(m.base), close=0.4, latent=True)


def censored_rows(base: Any, limit: float) -> list[Any]:
    """Return rows of `base`, those above a limit and some others known only by their bounds."""
    values = drawn(base)
    return [
        st.CensoredInterval(limit, math.inf) if x > limit else (x - 0.5, x + 0.25) if i % 5 == 0 else x
        for i, x in enumerate(values)
    ]


@model("censored")
def censored() -> Model:
    d = st.CensoredDistribution(st.GaussianDistribution(2.0, 4.0))
    estimator = st.CensoredEstimator(st.GaussianEstimator())
    bad = (*NOT_NUMBERS, ((3.0, 1.0), ()), ((NAN, 1.0), (0,)), (("x", 1.0), (0,)), ((1.0,), ()))
    read = number("mu", "sigma2")
    return Model(d, estimator, censored_rows(d.base, 4.0), (), bad, lambda m: read(m.base), latent=True)


@model("censored lifetimes")
def censored_lifetimes() -> Model:
    d = st.CensoredDistribution(st.WeibullDistribution(1.5, 3.0))
    estimator = st.CensoredEstimator(st.WeibullEstimator())
    read = number("shape", "scale")
    return Model(
        d, estimator, censored_rows(d.base, 4.0), (-1.0, (-3.0, -1.0)), NOT_NUMBERS, lambda m: read(m.base),
        latent=True,
    )  # fmt: skip


@model("mixture of censored")
def mixture_of_censored() -> Model:
    d = mixture_of(*(st.CensoredDistribution(st.GaussianDistribution(mu, 1.0)) for mu in (-4.0, 4.0)))
    estimator = st.MixtureEstimator([st.CensoredEstimator(st.GaussianEstimator())] * 2)
    rows = [(5.0, None) if x > 5.0 else (x - 0.5, x + 0.25) if i % 5 == 0 else x for i, x in enumerate(drawn(d))]
    bad = (*NOT_NUMBERS, ((3.0, 1.0), ()), ((1.0,), ()))
    read = number("mu", "sigma2")
    return Model(d, estimator, rows, (), bad, by_first(lambda part: read(part.base)), latent=True)


@model("censored counts")
def censored_counts() -> Model:
    d = st.CensoredDistribution(st.PoissonDistribution(6.0))
    estimator = st.CensoredEstimator(st.PoissonEstimator())
    rows = [(8, None) if x > 8 else (x, x + 2) if i % 6 == 0 else x for i, x in enumerate(drawn(d.base))]
    return Model(d, estimator, rows, (-1, (-3, -1), (0.2, 0.7)), NOT_NUMBERS, lambda m: [m.base.lam], latent=True)
