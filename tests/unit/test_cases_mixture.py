"""Inputs behind public bug reports of other libraries, with the right outcome: mixtures, ties and bits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mixle.inference import optimize, seq_estimate, seq_initialize
from mixle.stats import (
    CategoricalEstimator,
    CompositeDistribution,
    CompositeEstimator,
    DiagonalGaussianEstimator,
    ExponentialEstimator,
    GaussianDistribution,
    GaussianEstimator,
    MixtureDistribution,
    MixtureEstimator,
    PoissonDistribution,
    PoissonEstimator,
    seq_encode,
    seq_log_density,
)
from mixle.utils.parallel.folding.fold import fold_numbers, fold_values
from mixle.utils.parallel.folding.shards import Contiguous
from mixle.utils.parallel.planner import LocalEncodedData, encoded_data


def gaussians(count, **options):
    return MixtureEstimator([GaussianEstimator(**options) for _ in range(count)])


def test_T10_an_empty_component_is_reseeded_at_the_start():
    rows = [0.0, 0.0, 0.0, 0.0, 7.0]
    start = seq_initialize(seq_encode(rows, estimator=gaussians(2)), gaussians(2), np.random.RandomState(1), p=1.0)
    assert sorted(round(c.mu) for c in start.components) == [0, 7]


def test_T10_a_component_that_empties_keeps_its_parameters_and_is_reported():
    rows = np.random.RandomState(0).normal(size=200)
    away = GaussianDistribution(1e5, 1.0)
    start = MixtureDistribution([GaussianDistribution(0.0, 1.0), away], [0.5, 0.5])
    model = optimize(rows, gaussians(2), prev_estimate=start, max_its=5, delta=None)
    assert str(model.components[1]) == str(away)
    assert model.w[1] == 0.0
    assert any("empty" in repair for repair in model.fit_provenance().repairs)


def test_T13_weights_are_probabilities_and_an_atom_is_handled():
    model = optimize([1, 1, 1, 1, 2, 1, 1, 2, 3], gaussians(2), max_its=50, init_p=1.0, delta=1e-6)
    assert all(0.0 <= w <= 1.0 for w in model.w)
    assert sum(model.w) == pytest.approx(1.0, abs=1e-12)
    assert all(np.isfinite([c.mu, c.sigma2]).all() for c in model.components)


def test_T17_more_components_than_distinct_rows():
    model = optimize([3.0] * 10, gaussians(3), max_its=5, init_p=1.0)
    assert all(np.isfinite([c.mu, c.sigma2]).all() for c in model.components)
    assert np.isfinite(model.seq_log_density(np.array([3.0]))).all()


@pytest.mark.parametrize("rows", range(1, 65))
def test_T18_sampling_works_after_a_fit_of_few_rows(rows):
    data = np.random.RandomState(rows).normal(size=rows)
    model = optimize(data, gaussians(1), max_its=3)
    assert len(model.sampler(1).sample(rows)) == rows
    assert float(np.sum(model.w)) <= 1.0


def test_T25_a_row_far_from_every_component_keeps_finite_responsibilities():
    model = MixtureDistribution([GaussianDistribution(0.0, 1e-6), GaussianDistribution(1.0, 1e-6)], [0.5, 0.5])
    encoded = seq_encode([0.0, 1e6, -1e9], model=model)
    scores = seq_log_density(encoded, model)[0]
    assert np.isfinite(scores).all()
    assert scores[2] < scores[1] < -1e17
    assert np.isfinite(model.seq_posterior(encoded[0][1])).all()
    fitted = seq_estimate(encoded, gaussians(2), model)
    assert np.isfinite(fitted.seq_log_density(encoded[0][1])).all()


@pytest.mark.parametrize("weights", [[0.3, 0.3648], [0.5, 0.5 + 2e-6], [0.6, -0.1, 0.5]])
def test_T40_weights_that_are_no_probabilities_are_refused(weights):
    with pytest.raises(ValueError, match=r"must be probabilities|sum to one"):
        MixtureDistribution([GaussianDistribution(0.0, 1.0)] * len(weights), weights)


def test_T40_rounding_is_scaled_away_and_a_sample_has_its_size():
    model = MixtureDistribution([GaussianDistribution(0.0, 1.0)] * 3, [0.3333333, 0.3333333, 0.3333333])
    assert sum(model.w) == pytest.approx(1.0, abs=1e-15)
    assert len(model.sampler(1).sample(1000)) == 1000


ROWS_51 = np.array([[1, 2], [1, 4], [1, 0], [4, 2], [4, 4], [4, 0]], dtype=float)


def blobs():
    rng = np.random.RandomState(52)
    return rng.normal(0, 20, (10, 2))[rng.randint(10, size=10_000)] + rng.normal(size=(10_000, 2))


@pytest.mark.parametrize(("rows", "components"), [(ROWS_51, 2), (blobs(), 10)], ids=["T51", "T52"])
def test_T51_T52_same_bytes_for_every_worker_count_and_transport(rows, components):
    estimator = MixtureEstimator([DiagonalGaussianEstimator()] * components)
    ways = [("local", {}), ("local", {"parallel_chunks": True, "chunk_workers": 3})]
    ways += [("mp", {"num_workers": workers}) for workers in (1, 2, 4)]
    texts = set()
    for backend, options in ways:
        with encoded_data(rows, estimator, backend=backend, num_shards=4, **options) as handle:
            rng = np.random.RandomState(3)
            texts.add(optimize(None, estimator, enc_data=handle, max_its=5, delta=None, rng=rng, init_p=1.0).to_json())
    assert len(texts) == 1


def test_T53_one_order_of_summation():
    numbers = [24.621, 12.14, 0.169, 6.865, 1.879, 16.326]
    left_to_right = 0.0
    for number in numbers:
        left_to_right += number
    estimator = ExponentialEstimator()
    assert fold_numbers(numbers) == left_to_right
    assert fold_values(estimator, [(1.0, (1.0, number)) for number in numbers])[1][1] == left_to_right
    results = set()
    for workers in (1, 2, 3):
        with encoded_data(numbers, estimator, backend="mp", num_shards=Contiguous(6), num_workers=workers) as handle:
            results.add(handle.pysp_stream_accumulate(estimator, None)[1])
    assert results == {(6.0, left_to_right)}


TIED = {
    "Gaussian": (lambda: GaussianEstimator(keys="all"), lambda d: (d.mu, d.sigma2), lambda x: (x.mean(), x.var())),
    "Poisson": (lambda: PoissonEstimator(keys="all"), lambda d: (d.lam,), lambda x: (x.mean(),)),
    "Exponential": (lambda: ExponentialEstimator(keys="all"), lambda d: (d.beta,), lambda x: (x.mean(),)),
    "Categorical": (
        lambda: CategoricalEstimator(keys="all"),
        lambda d: tuple(d.pmap[float(k)] for k in range(3)),
        lambda x: tuple(float((x == k).mean()) for k in range(3)),
    ),
}


@pytest.mark.parametrize("name", TIED)
def test_T56_sites_tied_by_one_key_get_the_pooled_answer(name):
    make, parameters, expected = TIED[name]
    rows = np.random.RandomState(56).randint(0, 3, 60).astype(float)
    estimator = MixtureEstimator([make() for _ in range(3)])
    start = seq_initialize(seq_encode(rows, estimator=estimator), estimator, np.random.RandomState(1), p=1.0)
    for order in itertools.permutations(range(3)):
        chunks = [rows[i::3] for i in order]
        model = seq_estimate(
            [(len(c), estimator.accumulator_factory().make().acc_to_encoder().seq_encode(c)) for c in chunks],
            estimator,
            start,
        )
        for component in model.components:
            assert parameters(component) == pytest.approx(expected(rows), rel=1e-12)


def test_T57_a_tied_column_is_pooled_on_the_stacked_path():
    rng = np.random.RandomState(57)
    rows = [(float(a), int(b)) for a, b in zip(rng.normal(size=50), rng.poisson(3.0, 50), strict=True)]
    estimator = MixtureEstimator([CompositeEstimator((GaussianEstimator(), PoissonEstimator(keys="tied")))] * 2)
    start = MixtureDistribution(
        [CompositeDistribution((GaussianDistribution(m, 1.0), PoissonDistribution(3.0 + m))) for m in (-1.0, 1.0)],
        [0.5, 0.5],
    )
    handle = LocalEncodedData(rows, estimator)
    model = handle.pysp_seq_estimate(estimator, start)
    pooled = sum(b for _, b in rows) / len(rows)
    assert [c.dists[1].lam for c in model.components] == pytest.approx([pooled, pooled], rel=1e-12)
    r = start.seq_posterior(start.dist_to_encoder().seq_encode(rows))
    means = [float((r[:, k] * [a for a, _ in rows]).sum() / r[:, k].sum()) for k in range(2)]
    assert [c.dists[0].mu for c in model.components] == pytest.approx(means, rel=1e-12)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (GaussianDistribution(0.0, 1.0), "fitted from a MixtureDistribution, not from a GaussianDistribution"),
        (MixtureDistribution([GaussianDistribution(0.0, 1.0)] * 3), "the model has 3 components, the estimator 2"),
    ],
)
def test_a_previous_model_of_another_shape_is_refused(model, words):
    with pytest.raises((TypeError, ValueError), match=words):
        optimize([1.0, 2.0, 3.0], gaussians(2), prev_estimate=model)


def test_a_leaf_may_start_from_any_model_of_its_rows():
    start = MixtureDistribution([GaussianDistribution(0.0, 1.0)] * 2)
    assert optimize([1.0, 2.0, 3.0], GaussianEstimator(), prev_estimate=start, max_its=3).mu == 2.0
