"""Conjugate priors: one mechanism, every family that has one."""

import math

import numpy as np
import pytest

import mixle.stats as st
from bits import statistic
from mixle.inference import optimize
from mixle.inference.streaming import StreamingEstimator, posterior_carry
from mixle.stats.serialize import Serializable
from mixle.utils.parallel.planner import encoded_data

if hasattr(st, "BetaDistribution"):
    Beta = st.BetaDistribution
else:

    @st.register_model
    class BetaDistribution(Serializable):
        """Stands for the family where it is not there: a prior is known by its name and parameters."""

        _fields = ("a", "b")

        def __init__(self, a, b):
            self.a, self.b = float(a), float(b)

    Beta = BetaDistribution

NG = st.NormalGammaDistribution
VECTORS = np.random.RandomState(1).randn(40, 2) @ np.array([[1.0, 0.4], [0.0, 0.8]]) + [1.0, -1.0]
NUMBERS = np.abs(np.random.RandomState(2).randn(40)) + 0.1
COUNTS = np.random.RandomState(3).poisson(3.0, 40)
LABELS = list("aababbbcab" * 4)

#: name → estimator with a prior, rows, the model's free parameters, and the model of such parameters.
FAMILIES = {
    "gaussian": (st.GaussianEstimator(prior=NG(0.0, 2.0, 2.0, 3.0)), NUMBERS, lambda m: [m.mu, m.sigma2]),
    "log gaussian": (st.LogGaussianEstimator(prior=NG(0.0, 2.0, 2.0, 3.0)), NUMBERS, lambda m: [m.mu, m.sigma2]),
    "diagonal gaussian": (
        st.DiagonalGaussianEstimator(2, prior=NG([0.0, 1.0], 2.0, [2.0, 3.0], 3.0)),
        VECTORS,
        lambda m: [*m.mu, *m.covar],
    ),
    "normal-wishart": (
        st.MultivariateGaussianEstimator(2, prior=st.NormalWishartDistribution([0.0, 0.0], 2.0, np.eye(2), 4.0)),
        VECTORS,
        lambda m: [*m.mu, m.covar[0, 0], m.covar[0, 1], m.covar[1, 1]],
    ),
    "normal-inverse-wishart": (
        st.MultivariateGaussianEstimator(2, prior=st.NormalInverseWishartDistribution([0.0, 0.0], 2.0, np.eye(2), 4.0)),
        VECTORS,
        lambda m: [*m.mu, m.covar[0, 0], m.covar[0, 1], m.covar[1, 1]],
    ),
    "poisson": (st.PoissonEstimator(prior=st.GammaDistribution(2.0, 3.0)), COUNTS, lambda m: [m.lam]),
    "exponential": (st.ExponentialEstimator(prior=st.GammaDistribution(2.0, 3.0)), NUMBERS, lambda m: [m.beta]),
    "bernoulli": (st.BernoulliEstimator(prior=Beta(2.0, 3.0)), COUNTS > 3, lambda m: [m.p]),
    "geometric": (st.GeometricEstimator(prior=Beta(2.0, 3.0)), COUNTS + 1, lambda m: [m.p]),
    "categorical": (
        st.CategoricalEstimator(prior=st.DictDirichletDistribution({"a": 3.0, "b": 1.0, "c": 2.0, "d": 4.0})),
        LABELS,
        lambda m: [m.pmap[label] for label in "abc"],
    ),
    "categorical, symmetric": (
        st.CategoricalEstimator(prior=st.SymmetricDirichletDistribution(2.5)),
        LABELS,
        lambda m: [m.pmap[label] for label in "ab"],
    ),
    "integer categorical": (
        st.IntegerCategoricalEstimator(0, 12, prior=st.SymmetricDirichletDistribution(2.0)),
        COUNTS,
        lambda m: list(m.p_vec[:-1]),
    ),
}


def rebuilt(model, p):
    """Return a model like `model` with these free parameters."""
    if isinstance(model, st.DiagonalGaussianDistribution):
        return type(model)(p[:2], p[2:])
    if isinstance(model, st.MultivariateGaussianDistribution):
        return type(model)(p[:2], [[p[2], p[3]], [p[3], p[4]]])
    if isinstance(model, st.CategoricalDistribution):
        labels = list("abcd") if len(p) == 3 else list("abc")
        return type(model)(dict(zip(labels, [*p, 1.0 - sum(p)], strict=True)))
    if isinstance(model, st.IntegerCategoricalDistribution):
        return type(model)(0, [*p, 1.0 - sum(p)])
    return type(model)(*p)


@pytest.fixture(params=FAMILIES)
def family(request):
    return FAMILIES[request.param]


def fitted(estimator, rows):
    return estimator.estimate(float(len(rows)), statistic(estimator, rows))


def objective(estimator, rows, model):
    score = float(np.sum(model.seq_log_density(model.dist_to_encoder().seq_encode(rows))))
    return score + estimator.model_log_density(model)


def test_no_neighbour_is_likelier_than_the_fit(family):
    estimator, rows, read = family
    model = fitted(estimator, rows)
    best = objective(estimator, rows, model)
    found = np.array(read(model), float)
    assert objective(estimator, rows, rebuilt(model, found)) == pytest.approx(best, rel=1e-12)
    for i in range(len(found)):
        for step in (-1e-3, 1e-3):
            moved = found.copy()
            moved[i] += step * max(0.05, abs(moved[i]))
            assert objective(estimator, rows, rebuilt(model, moved)) < best


def test_the_posterior_of_two_batches_is_that_of_all_rows(family):
    estimator, rows, read = family
    kind = type(estimator)
    half = len(rows) // 2
    arguments = {name: getattr(estimator, name) for name in kind.argument_names()}
    first = fitted(estimator, rows[:half]).get_prior()
    second = fitted(kind(**(arguments | {"prior": first})), rows[half:])
    whole = fitted(estimator, rows)
    assert read(second) == pytest.approx(read(whole), rel=1e-9)
    stream = StreamingEstimator(estimator, posterior_carry())
    stream.update(rows[:half])
    carried = stream.update(rows[half:])
    assert read(carried) == pytest.approx(read(whole), rel=1e-9)


def test_without_rows_the_prior_speaks(family):
    estimator, _, _ = family
    try:
        model = estimator.estimate(0.0, estimator.accumulator_factory().make().value())
    except ValueError as error:
        assert "DictDirichlet" in str(error)  # noqa: PT017 - either comes out
    else:
        assert math.isfinite(estimator.model_log_density(model)) or not model.to_dict().get("pmap")


def test_priors_travel_as_text(family):
    estimator, rows, _ = family
    again = type(estimator).from_json(estimator.to_json())
    assert repr(again) == repr(estimator)
    model = fitted(estimator, rows)
    read = type(model).from_json(model.to_json())
    assert read.digest() == model.digest() == fitted(again, rows).digest()
    assert repr(read.get_prior()) == repr(model.get_prior())
    model.set_prior(None)
    assert model.get_prior() is None
    assert model.digest() != read.digest()


def test_map_of_a_mixture_is_monotone_and_the_same_everywhere(family, request):
    estimator, rows, _ = family
    rows = list(rows)
    mixture = st.MixtureEstimator([estimator] * 2, prior=st.SymmetricDirichletDistribution(3.0))
    gains, digests = [], set()
    options = {"max_its": 15, "delta": None, "seed": 1, "init_p": 1.0}
    pool = ("mp", {"num_workers": 2})
    few = {"gaussian", "normal-wishart", "categorical"}  # one of each kind of rule: a pool takes its time
    other = pool if request.node.callspec.params["family"] in few else ("local", {"parallel_chunks": True})
    for backend, more in (("local", {}), other):
        with encoded_data(rows, mixture, backend=backend, num_shards=3, **more) as handle:
            model = optimize(None, mixture, enc_data=handle, on_step=lambda s: gains.append(s.delta), **options)
            digests.add(model.digest())
    assert len(digests) == 1
    assert model.fit_provenance().objective == "map"
    assert len(gains) == 30
    assert min(gains) >= -1e-9
    total = objective(mixture, rows, model)
    assert total == pytest.approx(model.fit_provenance().final_objective, rel=1e-10)


def test_figures_of_the_published_package():
    four = [1, 2, 3, 4]
    model = fitted(st.PoissonEstimator(prior=st.GammaDistribution(2.0, 3.0)), four)
    assert (model.lam, model.prior.k) == (pytest.approx(2.5384615384615388), 12.0)
    assert model.prior.theta == pytest.approx(0.23076923076923078)
    estimator = st.ExponentialEstimator(prior=st.GammaDistribution(2.0, 3.0))
    assert fitted(estimator, four).beta == pytest.approx(2.066666666666667)
    assert estimator.model_log_density(fitted(estimator, four)) == pytest.approx(-3.084451903299801)
    estimator = st.BernoulliEstimator(prior=Beta(2.0, 3.0))
    assert fitted(estimator, [1, 1, 0, 1]).p == pytest.approx(0.5714285714285714)
    assert estimator.model_log_density(fitted(estimator, [1, 1, 0, 1])) == pytest.approx(0.23069514107817035)
    assert fitted(st.GeometricEstimator(prior=Beta(2.0, 3.0)), four).p == pytest.approx(0.38461538461538464)
    model = fitted(st.GaussianEstimator(prior=NG(0.0, 1.0, 2.0, 3.0)), four)
    assert (model.mu, model.sigma2) == (pytest.approx(2.0), pytest.approx(2.2857142857142856))
    assert repr(model.get_prior()) == "NormalGammaDistribution(2.0, 5.0, 4.0, 8.0, name=None)"
    estimator = st.CategoricalEstimator(prior=st.DictDirichletDistribution({"a": 2.0, "b": 3.0}))
    assert fitted(estimator, list("aab")).pmap == {"a": 0.5, "b": 0.5}
    assert estimator.model_log_density(fitted(estimator, list("aab"))) == pytest.approx(0.4054651081081646)


def test_a_mixture_by_hand():
    estimator = st.MixtureEstimator([st.PoissonEstimator()] * 2, prior=st.SymmetricDirichletDistribution(4.0))
    model = estimator.estimate(4.0, (np.array([4.0, 0.0]), ((4.0, 4.0), (0.0, 0.0))))
    assert model.w == pytest.approx([0.7, 0.3])
    assert estimator.model_log_density(model) == pytest.approx(math.log(140.0) + 3.0 * math.log(0.21))


def test_priors_are_found_inside_combinators_and_count_once_under_a_key():
    prior = st.GammaDistribution(2.0, 3.0)
    part = st.PoissonEstimator(keys="k", prior=prior)
    pair = st.CompositeEstimator((part, part, st.GaussianEstimator()))
    assert pair.get_prior()[:1] == (prior,)
    assert st.CompositeEstimator((st.PoissonEstimator(),)).get_prior() is None
    rows = [(2, 3, 0.5), (4, 1, 1.5)]
    model = pair.estimate(2.0, statistic(pair, rows))
    one = part.model_log_density(model.dists[0])
    assert pair.model_log_density(model) == pytest.approx(one, rel=1e-15)
    free = st.CompositeEstimator((st.PoissonEstimator(prior=prior),) * 2)
    two = free.estimate(2.0, statistic(free, [(2, 3), (4, 1)]))
    assert free.model_log_density(two) != pytest.approx(one)
    for wrap in (
        st.OptionalEstimator,
        st.SequenceEstimator,
        lambda e: st.RecordEstimator({"x": e}),
        lambda e: st.HiddenMarkovEstimator([e] * 2),
        lambda e: st.MarkovChainEstimator(len_estimator=e),
    ):
        assert wrap(st.PoissonEstimator(prior=prior)).get_prior() is not None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: st.PoissonEstimator(prior=NG(0, 1, 1, 1)),
            "prior of Poisson must be a Gamma",
        ),
        (lambda: st.PoissonEstimator(prior=st.GammaDistribution(0.5, 1.0)), "k of at least 1"),
        (lambda: st.PoissonEstimator(1.0, 2.0, prior=st.GammaDistribution(2.0, 1.0)), "two priors"),
        (lambda: st.BernoulliEstimator(prior=Beta(0.5, 2.0)), "a and b of at least 1"),
        (lambda: st.SymmetricDirichletDistribution(0.5), "at least 1"),
        (lambda: st.DictDirichletDistribution({}), "lists no label"),
        (lambda: NG(0.0, 0.0, 1.0, 1.0), "lam of a NormalGamma must be finite and above 0"),
        (lambda: NG(0.0, 1.0, 0.5, 1.0), "above 0.5"),
        (lambda: st.NormalWishartDistribution([0.0, 0.0], 1.0, np.eye(2), 2.0), "nu of a NormalWishart"),
        (lambda: st.NormalWishartDistribution([0.0, 0.0], 1.0, np.eye(3), 5.0), r"shape \(2, 2\)"),
        (lambda: st.NormalInverseWishartDistribution([0.0, 0.0], 1.0, np.ones((2, 2)), 5.0), "positive definite"),
        (lambda: st.GaussianDistribution(0.0, 1.0).set_prior(3), "prior of Gaussian"),
        (lambda: st.GammaDistribution(1.0, 1.0).set_prior(3), "no conjugate prior is known for Gamma"),
        (lambda: st.MixtureEstimator([st.PoissonEstimator()] * 2, prior=NG(0, 1, 1, 1)), "prior of the weights"),
        (
            lambda: st.MixtureEstimator(
                [st.PoissonEstimator()] * 2, pseudo_count=1.0, prior=st.SymmetricDirichletDistribution(2.0)
            ),
            "neither pseudo_count",
        ),
    ],
)
def test_what_is_no_prior_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
