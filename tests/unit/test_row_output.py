"""Output of one value per row: what each handle says, in the order of the rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import mixle.stats as st
from mixle.errors import HandleClosed, TaskError
from mixle.inference import optimize
from mixle.utils.parallel.folding.shards import Contiguous, Strided
from mixle.utils.parallel.planner import encoded_data
from mixle.utils.parallel.policies.audit import Audit
from mixle.utils.parallel.policies.retry import Retry

ROWS = [(float(i % 7) + 0.1 * (i % 13), "abcde"[i % 5]) for i in range(101)]
ESTIMATOR = st.MixtureEstimator([st.CompositeEstimator((st.GaussianEstimator(), st.CategoricalEstimator()))] * 2)
CHAINS = [[float((3 * i + j) % 5) for j in range(i % 4)] for i in range(20)]


@pytest.fixture(scope="module")
def model():
    return optimize(ROWS, ESTIMATOR, max_its=3, delta=None, seed=1)


@pytest.fixture(scope="module")
def threads():
    with ThreadPoolExecutor(2) as pool:
        yield pool


def whole(model, rows=ROWS):
    """Return the three outputs of all rows as one payload."""
    payload = model.dist_to_encoder().seq_encode(rows)
    return model.seq_log_density(payload), model.seq_posterior(payload)


@pytest.mark.parametrize("shard_map", [Strided(5), Contiguous(4), Contiguous(sizes=(1, 99, 1))])
@pytest.mark.parametrize("backend", ["local", "mp", "futures"])
def test_arrays_come_in_the_order_of_the_rows(model, threads, backend, shard_map):
    options = {"mp": {"num_workers": 2}, "futures": {"client": threads}}.get(backend, {})
    scores, posterior = whole(model)
    with encoded_data(ROWS, ESTIMATOR, backend=backend, num_shards=shard_map, sub_chunks=2, **options) as handle:
        found = handle.score_samples(model)
        assert (found.dtype, found.shape) == (np.float64, (len(ROWS),))
        np.testing.assert_allclose(found, scores, rtol=1e-12)
        np.testing.assert_allclose(handle.posterior(model), posterior, rtol=1e-9, atol=1e-15)
        predicted = handle.predict(model)
        assert (predicted.dtype, predicted.tolist()) == (np.int64, posterior.argmax(axis=1).tolist())


def test_policies_see_no_rows_and_weights_take_no_part(model):
    weights = [float(i % 3) for i in range(len(ROWS))]
    options = {"backend": "mp", "num_workers": 2, "num_shards": 4, "policies": [Retry(2), Audit(1.0)]}
    with encoded_data(ROWS, ESTIMATOR, weights=weights, **options) as handle:
        np.testing.assert_allclose(handle.score_samples(model), whole(model)[0], rtol=1e-12)


@pytest.mark.parametrize("shards", [1, 3])
def test_sequences_give_one_array_each(shards):
    estimator = st.HiddenMarkovEstimator([st.GaussianEstimator()] * 2)
    model = optimize(CHAINS, estimator, max_its=2, delta=None, seed=1)
    payload = model.dist_to_encoder().seq_encode(CHAINS)
    with encoded_data(CHAINS, estimator, num_shards=shards) as handle:
        np.testing.assert_allclose(handle.score_samples(model), model.seq_log_density(payload), rtol=1e-12)
        for found, wanted in zip(handle.posterior(model), model.seq_posterior(payload), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-15)
        assert [path.tolist() for path in handle.predict(model)] == [p.tolist() for p in model.seq_viterbi(payload)]


def test_a_joint_mixture_predicts_a_pair():
    rows = [(float(i % 5), float(i % 7)) for i in range(60)]
    estimator = st.JointMixtureEstimator([st.GaussianEstimator()] * 2, [st.GaussianEstimator()] * 3)
    model = optimize(rows, estimator, max_its=2, delta=None, seed=1)
    with encoded_data(rows, estimator, num_shards=4) as handle:
        posterior, predicted = handle.posterior(model), handle.predict(model)
    assert (posterior.shape, predicted.shape) == ((60, 2, 3), (60, 2))
    best = posterior.reshape(60, 6).max(axis=1)
    assert (posterior[np.arange(60), predicted[:, 0], predicted[:, 1]] == best).all()


class Broken(st.GaussianDistribution):
    def seq_log_density(self, x):
        raise ZeroDivisionError("no luck")


def test_refusals(model):
    handle = encoded_data([1.0, 2.0], st.GaussianEstimator(), backend="mp", num_workers=1)
    with handle:
        with pytest.raises(TypeError, match="a GaussianDistribution has no components to choose from"):
            handle.predict(st.GaussianDistribution(0.0, 1.0))
        with pytest.raises(TypeError, match="has no components"):
            handle.posterior("model")
        with pytest.raises(TypeError, match="has no seq_log_density"):
            handle.score_samples(st.GaussianEstimator())
        with pytest.raises(TaskError, match="shard 0: ZeroDivisionError: no luck"):
            handle.score_samples(Broken(0.0, 1.0))
    with pytest.raises(HandleClosed):
        handle.score_samples(st.GaussianDistribution(0.0, 1.0))
