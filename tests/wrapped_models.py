"""The combinators over one law, or over laws of which one is chosen; a part of the table of all models."""

from __future__ import annotations

from typing import Any

import mixle.stats as st
from models import NOT_NUMBERS, Model, by_first, chain_numbers, drawn, mixture_of, model, number


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
