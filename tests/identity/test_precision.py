"""float32 keeps the digits that the page on the E-step states, the bits of its own on every transport, and its bounds.

What is measured is the statistic of one E-step under the same model, against that of float64, and what the M-step
makes of it.
"""

import warnings

import numpy as np
import pytest

import mixle
import mixle.stats as st
from bits import bits
from mixle.errors import BackendError, CheckpointError
from mixle.inference import best_of, bootstrap, optimize, select
from mixle.inference.streaming import IncrementalEstimator, StreamingEstimator
from mixle.stats.precision import FLOAT32, FLOAT64, computing, working
from mixle.utils.parallel.folding.shards import Strided
from mixle.utils.parallel.folding.tasks import Accumulate, Score
from mixle.utils.parallel.planner import encoded_data
from mixle.utils.parallel.policies.audit import Audit
from mixle.utils.parallel.policies.invariants import limit, residual
from traces import NAMES, problem, trace

pytestmark = pytest.mark.identity

#: What docs/explanation/estep.md states, relative to one plus the size.
STATISTIC, PARAMETER, SCORE = 1e-5, 1e-4, 1e-5
MIXTURE = st.MixtureEstimator([st.GaussianEstimator()] * 2)


def numbers(value):
    """Return all numbers of a statistic or a model, moments as means and scatters."""
    if type(value).__name__ == "Moments":
        value = (value.weight, value.mean, value.scatter)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return np.concatenate([np.zeros(0), *map(numbers, value)])
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        return value.ravel().astype(float)
    return np.array([value], float) if isinstance(value, (int, float)) else np.zeros(0)


def apart(one, other):
    one, other = numbers(one), numbers(other)
    assert one.shape == other.shape
    with np.errstate(invalid="ignore"):
        error = np.abs(one - other) / (1.0 + np.abs(one))
    return float(np.max(error[np.isfinite(one)], initial=0.0))


def both(rows, estimator, model, **options):
    """Return the E-steps of float64 and of float32, and the models they make."""
    found = []
    for precision in ("float64", "float32"):
        with encoded_data(rows, estimator, num_shards=3, precision=precision, **options) as handle:
            step = handle.estep(estimator, model)
            found.append((step, handle.m_step(estimator, step, model), handle.pysp_seq_log_density_sum(model)[1]))
    return found


def walks(rows, model):
    """Return in what the chunk of these rows is computed when float32 is asked for."""
    with computing(FLOAT32):
        return model.walk(model.dist_to_encoder().seq_encode(rows)).precision


@pytest.mark.parametrize("name", NAMES)
def test_a_step_in_float32_is_near_that_of_float64(name):
    rows, estimator = problem(name)
    with encoded_data(rows, estimator, num_shards=3) as handle:
        model = handle.pysp_seq_initialize(estimator, np.random.RandomState(5), 0.5)
    for _ in range(2):
        (step, fitted, score), (narrow, near, close) = both(rows, estimator, model)
        assert apart(step.value, narrow.value) <= STATISTIC
        assert apart(fitted.to_dict(), near.to_dict()) <= PARAMETER
        assert narrow.log_density == pytest.approx(step.log_density, rel=SCORE, abs=SCORE)
        assert close == pytest.approx(score, rel=SCORE, abs=SCORE)
        assert narrow.left_out == step.left_out
        model = fitted


def pair(kind, *laws):
    """Return an even mixture of laws, each inside a combinator that adds a share of zeros of its own."""
    return st.MixtureDistribution([kind(law, pi) for law, pi in zip(laws, (0.2, 0.5), strict=True)], [0.5, 0.5])


def censored(limit, *laws):
    """Return an even mixture of censored laws, and what draws rows: those above a limit, and every 5th, censored."""
    plain = st.MixtureDistribution(list(laws), [0.5, 0.5])

    def rows():
        drawn = enumerate(plain.sampler(1).sample(6000))
        return [(limit, None) if x > limit else (x, x + 1) if i % 5 == 0 else x for i, x in drawn]

    return st.MixtureDistribution([st.CensoredDistribution(law) for law in laws], [0.5, 0.5]), rows


ZERO, HURDLE = st.ZeroInflatedDistribution, st.HurdleDistribution
#: Mixtures of laws that hand their law some of the rows only: the law's part stacks.
SPLITS = {
    "zero-inflated Poisson": pair(ZERO, st.PoissonDistribution(3.0), st.PoissonDistribution(20.0)),
    "zero-inflated geometric": pair(ZERO, st.GeometricDistribution(0.5), st.GeometricDistribution(0.05)),
    "zero-inflated negative binomial": pair(
        ZERO, st.NegativeBinomialDistribution(2.0, 0.5), st.NegativeBinomialDistribution(20.0, 0.3)
    ),
    "zero-inflated integers": pair(
        ZERO, *(st.IntegerCategoricalDistribution(0, p) for p in ([0.2, 0.3, 0.5], [0.6, 0.3, 0.1]))
    ),
    "hurdle of counts": pair(HURDLE, st.PoissonDistribution(3.0), st.PoissonDistribution(20.0)),
    "hurdle of amounts": pair(HURDLE, st.LogGaussianDistribution(0.0, 0.3), st.LogGaussianDistribution(4.0, 0.3)),
    "hurdle of a gamma law": pair(HURDLE, st.GammaDistribution(2.0, 1.0), st.GammaDistribution(20.0, 2.0)),
    "hurdle far from zero": pair(HURDLE, st.GaussianDistribution(1e6, 1.0), st.GaussianDistribution(1e6 + 9, 1.0)),
    "censored numbers": censored(5.0, st.GaussianDistribution(-4.0, 1.0), st.GaussianDistribution(4.0, 1.0)),
    "censored durations": censored(8.0, st.ExponentialDistribution(1.0), st.ExponentialDistribution(9.0)),
    "censored counts": censored(15, st.PoissonDistribution(2.0), st.PoissonDistribution(20.0)),
}


@pytest.mark.parametrize("name", SPLITS)
def test_laws_that_see_some_of_the_rows_are_computed_in_it(name):
    law, draw = SPLITS[name] if isinstance(SPLITS[name], tuple) else (SPLITS[name], None)
    rows = draw() if draw else law.sampler(1).sample(6000)
    estimator, model = law.estimator(), law
    for _ in range(2):
        assert walks(rows, model) is FLOAT32
        (step, fitted, score), (narrow, near, close) = both(rows, estimator, model)
        assert 0.0 < apart(step.value, narrow.value) <= STATISTIC
        assert 0.0 < apart(fitted.to_dict(), near.to_dict()) <= 0.5 * PARAMETER
        assert close == pytest.approx(score, rel=0.1 * SCORE)
        model = fitted


@pytest.mark.parametrize("family", ["numbers", "columns", "full"])
def test_data_far_from_zero_keep_their_variance(family):
    rng = np.random.default_rng(4)
    rows = 1.7e9 + rng.normal(size=(6000, 1 if family == "numbers" else 3))
    rows[::2] += 4.0
    rows = rows[:, 0] if family == "numbers" else rows
    leaf = {
        "numbers": st.GaussianEstimator(),
        "columns": st.DiagonalGaussianEstimator(3),
        "full": st.MultivariateGaussianEstimator(3),
    }[family]
    estimator = st.MixtureEstimator([leaf] * 2)
    model = optimize(rows, estimator, max_its=5, delta=None, seed=3)
    (_, wide, _), (_, narrow, _) = both(rows, estimator, model)
    assert walks(rows, model) is FLOAT32
    assert (bits(wide.to_dict()) == bits(narrow.to_dict())) is False
    for one, other in zip(wide.components, narrow.components, strict=True):
        spread = [np.asarray(d.sigma2 if family == "numbers" else d.covar) for d in (one, other)]
        assert np.abs(spread[1] - spread[0]).max() <= STATISTIC
        assert np.abs(np.asarray(one.mu) - np.asarray(other.mu)).max() <= STATISTIC


def test_a_component_that_collapses_is_summed_again():
    rng = np.random.default_rng(2)
    rows = np.concatenate([rng.normal(size=3000), 9.0 + 1e-6 * rng.normal(size=3000)])
    model = st.MixtureDistribution([st.GaussianDistribution(0.0, 1.0), st.GaussianDistribution(9.0, 0.5)], [0.5, 0.5])
    (_, wide, _), (_, narrow, _) = both(rows, model.estimator(), model)
    assert walks(rows, model) is FLOAT32
    assert narrow.components[1].sigma2 == pytest.approx(wide.components[1].sigma2, rel=1e-4)


HOSTILE = {
    "far apart": ([0.0, 1.0, 1e6, 1e6 + 1], st.GaussianDistribution(0.0, 1.0), st.GaussianDistribution(1e6, 1.0)),
    "tiny": ([0.0, 1e-150, 3e-150], st.GaussianDistribution(0.0, 1e-300), st.GaussianDistribution(3e-150, 1e-300)),
    "huge": ([1e150, 2e150, 3e150], st.GaussianDistribution(1e150, 1e299), st.GaussianDistribution(3e150, 1e299)),
    "an outlier": ([0.0, 1.0, 5.0, 1e300], st.GaussianDistribution(0.0, 1.0), st.GaussianDistribution(4.0, 1.0)),
    "an outlier of 1e25": ([0.0, 1.0, 5.0, 1e25], st.GaussianDistribution(0.0, 1.0), st.GaussianDistribution(4.0, 1.0)),
    "large counts": ([10**6, 10**6 + 900, 3], st.PoissonDistribution(1e6), st.PoissonDistribution(1e6 + 500)),
    "outside": ([0.0, 1.0, -1.0], st.GammaDistribution(1.0, 1.0), st.GammaDistribution(3.0, 1.0)),
    "labels of none": (["a", "b", "z"], st.CategoricalDistribution({"a": 1.0}), st.CategoricalDistribution({"b": 1.0})),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_float32_cannot_hold_is_computed_in_float64(what):
    rows, *components = HOSTILE[what]
    model = st.MixtureDistribution(components, [0.5, 0.5])
    estimator = model.estimator()
    encoder = model.dist_to_encoder()
    try:
        payload = encoder.seq_encode(rows)
    except ValueError:
        rows, payload = rows[:2], encoder.seq_encode(rows[:2])
    found = []
    for precision in (FLOAT64, FLOAT32):
        with computing(precision):
            accumulator = estimator.accumulator_factory().make()
            score = accumulator.seq_update_scored(payload, None, model)
            found.append((accumulator.value(), score, model.seq_log_density(payload)))
    assert apart(found[0][0], found[1][0]) <= STATISTIC
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-6)
    assert np.array_equal(np.isfinite(found[0][2]), np.isfinite(found[1][2]))


def test_weights_of_any_size_are_borne():
    rows, estimator = problem("mixture of gaussian")
    for factor in (1e-200, 1e-12, 1.0, 1e12, 1e200):
        model = st.MixtureDistribution(
            [st.GaussianDistribution(0.0, 1.0), st.GaussianDistribution(4.0, 2.0)], [0.5] * 2
        )
        weights = factor * np.linspace(0.0, 1.0, len(rows))
        (_, wide, _), (_, narrow, _) = both(rows, estimator, model, weights=weights)
        assert apart(wide.to_dict(), narrow.to_dict()) <= PARAMETER


SHARED = ["mixture of composite", "mixture of optional", "mixture of multivariate gaussian", "mixture of poisson"]
PLACES = {
    "threads": {"parallel_chunks": True, "chunk_workers": 3},
    "processes": {"backend": "mp", "num_workers": 2},
    "more processes": {"backend": "mp", "num_workers": 3, "sub_chunks": 1},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", SHARED)
def test_same_shards_same_bits(name, place):
    rows, estimator = problem(name)
    with encoded_data(rows, estimator, num_shards=Strided(7), precision="float32") as handle:
        wanted = trace(handle, estimator)
    with encoded_data(rows, estimator, num_shards=Strided(7), precision="float32", **PLACES[place]) as handle:
        assert trace(handle, estimator) == wanted
    with encoded_data(rows, estimator, num_shards=Strided(7), **PLACES[place]) as handle:
        assert trace(handle, estimator) != wanted


def test_lanes_give_the_bits_of_one_thread():
    rows = np.random.default_rng(7).normal(size=(500, 2))
    estimator = st.MixtureEstimator([st.DiagonalGaussianEstimator(2)] * 40)
    said = []
    for options in ({"num_shards": 1}, {"backend": "model_parallel", "num_workers": 2}):
        with encoded_data(rows, estimator, precision="float32", **options) as handle:
            assert handle.precision == "float32"
            said.append(trace(handle, estimator, 2))
    assert said[0] == said[1]


@pytest.mark.parametrize("name", ["mixture of composite", "mixture of multivariate gaussian", "mixture of optional"])
def test_clean_rounds_pass_the_checks_of_float32_and_a_wrong_sum_does_not(name):
    rows, estimator = problem(name)
    policies = [Audit(0.0)]
    with encoded_data(rows, estimator, num_shards=4, precision="float32", policies=policies) as handle:
        model = handle.pysp_seq_initialize(estimator, np.random.RandomState(5), 0.5)
        for _ in range(8):
            step = handle.estep(estimator, model)
            model = handle.m_step(estimator, step, model)
        assert handle.transport.alarms == []
    single = st.MixtureEstimator(estimator.estimators[:1])
    data = encoded_data(rows, single).estep(single, st.MixtureDistribution(model.components[:1], [1.0]))
    wrong = step.value._replace(counts=step.value.counts * [1.0, 1.001])
    bound = limit(len(rows), "float32")
    assert residual(step.value, data.value, float(len(rows))) <= bound < residual(wrong, data.value, float(len(rows)))


@pytest.mark.parametrize("backend", ["local", "mp", "model_parallel"])
def test_the_option_travels_and_is_written_down(backend):
    rows = np.random.default_rng(1).normal(size=400)
    workers = {} if backend == "local" else {"num_workers": 2}
    model = optimize(rows, MIXTURE, max_its=3, delta=None, precision="float32", backend=backend, **workers)
    assert model.fit_provenance().precision == "float32"
    assert bits(model.to_dict()) != bits(optimize(rows, MIXTURE, max_its=3, delta=None).to_dict())
    assert optimize(rows, MIXTURE, max_its=3, delta=None).fit_provenance().precision == "float64"


def test_a_handle_brings_its_precision():
    rows = np.random.default_rng(1).normal(size=400)
    with encoded_data(rows, MIXTURE, precision="fp32") as handle:
        assert optimize(None, MIXTURE, enc_data=handle, max_its=2, delta=None).fit_provenance().precision == "float32"
        assert encoded_data(handle, precision="float32") is handle
        with pytest.raises(BackendError, match="precision cannot be applied"):
            encoded_data(handle, precision="float64")
        with pytest.raises(BackendError, match="precision cannot change rows that are encoded already"):
            optimize(None, MIXTURE, enc_data=handle, precision="float32")
    score, model = best_of(rows, None, MIXTURE, 2, 3, 0.5, None, precision="float32")
    assert model.fit_provenance().precision == "float32"
    assert score == model.fit_provenance().final_objective


@pytest.mark.parametrize("kind", [StreamingEstimator, IncrementalEstimator])
def test_batches_are_computed_in_it(kind):
    rows = np.random.default_rng(1).normal(size=(3, 300))
    words = {"chunk_id": "a"} if kind is IncrementalEstimator else {}
    start = st.MixtureDistribution([st.GaussianDistribution(-1.0, 1.0), st.GaussianDistribution(1.0, 1.0)], [0.5, 0.5])
    wide, narrow, chunked, handed = (
        kind(MIXTURE, model=start, precision=precision, encoder=encoder)
        for precision, encoder in (
            (None, None), ("float32", None), ("float32", start.dist_to_encoder()), ("float32", None)
        )
    )  # fmt: skip
    for batch in rows:
        exact, found = wide.update(batch, **words), narrow.update(batch, **words)
        assert bits(chunked.update(batch, **words).to_dict()) == bits(found.to_dict())
        with encoded_data(batch, MIXTURE, precision="float32") as handle:
            assert bits(handed.update(enc_data=handle, **words).to_dict()) == bits(found.to_dict())
        assert bits(found.to_dict()) != bits(exact.to_dict())
        assert apart(exact.to_dict(), found.to_dict()) <= PARAMETER
    with (
        encoded_data(rows[0], MIXTURE) as handle,
        pytest.raises(BackendError, match="precision cannot change rows that are encoded already"),
    ):
        handed.update(enc_data=handle, **words)
    with pytest.raises(BackendError, match="precision"):
        kind(MIXTURE, precision="float16")


def test_what_fits_many_times_computes_in_it():
    rows = np.concatenate([np.random.default_rng(1).normal(m, 1.0, 150) for m in (0.0, 5.0)])
    found = select(rows, st.GaussianEstimator(), components=[1, 2], precision="float32")
    assert found.model.fit_provenance().precision == "float32"
    table = {"x": rows.tolist(), "kind": ["a", "b"] * 150}
    assert mixle.fit(table, components=2, precision="float32").model.fit_provenance().precision == "float32"
    one, other = (bootstrap(MIXTURE, rows, B=3, model=found.model, precision=p) for p in ("float32", "float64"))
    assert bits(one.replicates) != bits(other.replicates)
    np.testing.assert_allclose(one.replicates, other.replicates, atol=0.05)
    assert bootstrap(MIXTURE, rows, B=2, precision="float32").model.fit_provenance().precision == "float32"
    with pytest.raises(BackendError, match="precision"):
        bootstrap(MIXTURE, rows, B=2, precision="float16")


@pytest.mark.parametrize("wrong", ["float16", "bfloat16", "int8", 32, np.float16])
@pytest.mark.parametrize("backend", ["local", "mp"])
def test_other_precisions_are_refused(wrong, backend):
    with pytest.raises(BackendError, match=r"precision .* is not supported; use precision='float64'"):
        encoded_data([1.0, 2.0], MIXTURE, backend=backend, precision=wrong)
    with pytest.raises(BackendError, match="precision"):
        best_of([1.0, 2.0], None, MIXTURE, 1, 1, 0.5, None, precision=wrong)


def test_a_checkpoint_is_gone_on_from_in_its_own_precision(tmp_path):
    rows = np.random.default_rng(1).normal(size=400)
    options = {"delta": None, "seed": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimize(rows, MIXTURE, 3, checkpoint=tmp_path / "fit", precision="float32", **options)
        again = optimize(rows, MIXTURE, 6, checkpoint=tmp_path / "fit", precision="float32", **options)
        whole = optimize(rows, MIXTURE, 6, precision="float32", **options)
        with pytest.raises(CheckpointError, match="its precision is 'float32', that of this call 'float64'"):
            optimize(rows, MIXTURE, 6, checkpoint=tmp_path / "fit", **options)
    assert bits(again.to_dict()) == bits(whole.to_dict())


def test_rounding_neither_rejects_a_step_nor_keeps_a_fit_from_converging():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(20_000, 4)) + 5.0 * rng.integers(3, size=20_000)[:, None]
    estimator = st.MixtureEstimator([st.DiagonalGaussianEstimator(4)] * 3)
    told = optimize(rows, estimator, max_its=200, precision="float32").fit_provenance()
    wide = optimize(rows, estimator, max_its=200).fit_provenance()
    assert told.stopped == "converged"
    assert told.final_objective == pytest.approx(wide.final_objective, rel=1e-6)


def test_the_choice_belongs_to_the_thread_and_the_task():
    assert Accumulate(MIXTURE, None).precision == Score(None).precision == "float64"
    with computing(FLOAT32):
        assert working() is FLOAT32
        with computing(FLOAT64):
            assert working() is FLOAT64
    assert working() is FLOAT64
