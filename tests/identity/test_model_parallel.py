"""A model split over threads along its components has the bits of the unsplit one."""

import pickle
import threading

import numpy as np
import pytest

from bits import bits
from mixle import stats
from mixle.inference import optimize
from mixle.stats.stacking.lanes import each, lanes
from mixle.utils.parallel.model_parallel import ModelParallelEncodedData, ModelParallelEstimator
from mixle.utils.parallel.planner import encoded_data
from models import MODELS

ROWS = 2600  # a whole block of the core and a part of one


def gaussians(count, d=3):
    rng = np.random.RandomState(count)
    rows = rng.normal(size=(ROWS, d)) * 3.0
    parts = [
        stats.DiagonalGaussianDistribution(rng.normal(size=d) * 3.0, rng.uniform(0.5, 2.0, d)) for _ in range(count)
    ]
    return rows, stats.MixtureDistribution(parts)


def records(count):
    rng = np.random.RandomState(count)
    rows = [
        (float(x), "abcdef"[c], int(n))
        for x, c, n in zip(rng.normal(size=ROWS), rng.randint(6, size=ROWS), rng.poisson(3.0, ROWS), strict=True)
    ]
    parts = [
        stats.CompositeDistribution((
            stats.GaussianDistribution(float(rng.normal()), 1.0 + k / count),
            stats.CategoricalDistribution(dict(zip("abcdef", rng.dirichlet(np.ones(6)).tolist(), strict=True))),
            stats.PoissonDistribution(1.0 + k),
        ))
        for k in range(count)
    ]  # fmt: skip
    return rows, stats.MixtureDistribution(parts)


def full(count):
    rng = np.random.RandomState(count)
    rows = rng.normal(size=(ROWS, 2))
    parts = [stats.MultivariateGaussianDistribution(rng.normal(size=2), np.eye(2) * (1.0 + k)) for k in range(count)]
    return rows, stats.MixtureDistribution(parts)


def chains(count):
    """Components that the core calls one by one."""
    rng = np.random.RandomState(count)
    rows = [rng.poisson(2.0, size=4).tolist() for _ in range(60)]
    parts = [
        stats.SequenceDistribution(stats.PoissonDistribution(1.0 + k), stats.PoissonDistribution(4.0))
        for k in range(count)
    ]
    return rows, stats.MixtureDistribution(parts)


def step(handle, model):
    count, score = handle.pysp_seq_log_density_sum(model)
    nobs, value = handle.pysp_stream_accumulate(model.estimator(), model)
    fitted = handle.pysp_seq_estimate(model.estimator(), model)
    return count, bits(score), nobs, bits(value), fitted.digest()


@pytest.mark.parametrize("count", [1, 2, 5, 16, 17, 24, 25, 40, 41, 56, 100])
@pytest.mark.parametrize("problem", [gaussians, records])
def test_any_cut_of_any_number_of_components_has_the_unsplit_bits(problem, count):
    rows, model = problem(count)
    whole = step(encoded_data(rows, model=model), model)
    for workers in (1, 2, 3, 7):
        split = encoded_data(rows, model=model, backend="model_parallel", num_workers=workers)
        assert step(split, model) == whole, (count, workers)


@pytest.mark.parametrize("problem", [full, chains])
@pytest.mark.parametrize("count", [3, 33])
def test_other_families_too(problem, count):
    rows, model = problem(count)
    whole = step(encoded_data(rows, model=model), model)
    assert step(ModelParallelEncodedData(rows, model=model, num_workers=3), model) == whole


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_family_has_the_unsplit_bits(name):
    made = MODELS[name]()
    rows, estimator = made.rows, made.estimator
    whole = optimize(None, estimator, enc_data=encoded_data(rows, estimator), max_its=2, seed=5, delta=None)
    split = encoded_data(rows, estimator, backend="mp_model", num_workers=2)
    assert optimize(None, estimator, enc_data=split, max_its=2, seed=5, delta=None).digest() == whole.digest()


def test_a_wrapped_estimator_fits_the_same_model_here_and_on_a_pool():
    rows, model = gaussians(40)
    estimator = model.estimator()
    whole = optimize(rows, estimator, max_its=3, seed=1, delta=None).digest()
    wrapped = ModelParallelEstimator(estimator, num_workers=3)
    assert optimize(rows, wrapped, max_its=3, seed=1, delta=None).digest() == whole
    assert optimize(rows, pickle.loads(pickle.dumps(wrapped)), max_its=3, seed=1, delta=None).digest() == whole
    pools = [encoded_data(rows, e, backend="mp", num_workers=2, num_shards=3) for e in (estimator, wrapped)]
    try:
        one, two = (
            optimize(None, e, enc_data=h, max_its=3, seed=1, delta=None).digest()
            for e, h in zip((estimator, wrapped), pools, strict=True)
        )
    finally:
        for pool in pools:
            pool.close()
    assert one == two


def test_threads_do_take_part_and_leave():
    before, seen = threading.active_count(), set()
    rows, model = gaussians(64)
    gate = threading.Barrier(3, timeout=30.0)

    def note(part):
        gate.wait()  # passes only if three threads are at work at once
        seen.add(threading.get_ident())

    with lanes(3):
        each(note, [0, 1, 2])
        with lanes(5):
            each(seen.add, [0])
    assert len(seen) == 4
    assert threading.active_count() == before
    ModelParallelEncodedData(rows, model=model, num_workers=3).pysp_seq_log_density_sum(model)
    assert threading.active_count() == before


def test_the_first_error_of_a_lane_comes_out():
    def fail(part):
        if part:
            raise ValueError(f"part {part}")

    with lanes(3), pytest.raises(ValueError, match="part 1"):
        each(fail, [0, 1, 2])


def test_what_is_no_estimator_is_not_wrapped():
    with pytest.raises(TypeError, match="wraps an estimator"):
        ModelParallelEstimator(3)
    with pytest.raises(ValueError, match="num_workers"):
        encoded_data([1.0], stats.GaussianEstimator(), backend="model_parallel", num_workers=0)
    with pytest.raises(ValueError, match="backend 'model_parallel' takes no num_shards"):
        encoded_data([1.0], stats.GaussianEstimator(), backend="model_parallel", num_shards=2)
