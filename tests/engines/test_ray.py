"""Ray: one local cluster for the whole file; actors keep shards, blocks of data sets never come to the driver."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from cluster_support import check_row_output, row_models
from engine_support import (
    ESTIMATOR,
    NARROW,
    NUMBERS,
    POLICIES,
    REPRESENTATIVE,
    ROWS,
    check_policies,
    engine_trace,
    fit,
    local_reference,
    narrow_reference,
    narrow_trace,
    shard_counts,
)

import mixle.stats as st
from mixle.errors import BackendError, EmptyDataError, HandleClosed, RoundLosses, RowError, TaskError
from mixle.inference import optimize
from mixle.utils.parallel.folding.shards import Contiguous, Strided
from mixle.utils.parallel.folding.tasks import Accumulate
from mixle.utils.parallel.planner import encoded_data
from mixle.utils.parallel.policies.retry import Retry
from traces import NAMES, problem, trace

pytestmark = [
    pytest.mark.engines,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Ray's own, and those of what it imports
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def ray():
    """Return the package, connected to a cluster of two CPUs on this machine."""
    package = pytest.importorskip("ray", reason="ray is not installed")
    package.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield package
    package.shutdown()


@pytest.mark.parametrize("name", NAMES)
def test_every_model_has_the_bits_of_one_thread(name):
    rows, estimator = problem(name)
    workers = 2 if name in REPRESENTATIVE else 1  # each is a process that is started
    for shards in shard_counts(name, 1):
        with encoded_data(rows, estimator, backend="ray", num_shards=shards, num_workers=workers) as handle:
            assert engine_trace(handle, name) == local_reference(name, Strided(shards))


@pytest.mark.parametrize(("name", "shards"), NARROW)
def test_float32_has_the_bits_of_one_thread_too(name, shards):
    assert narrow_trace(name, shards, backend="ray", num_workers=2) == narrow_reference(name, shards)


@pytest.mark.parametrize("options", [{"num_shards": 1}, {"num_shards": 7, "sub_chunks": 3}, {"num_chunks": 5}, {}])
def test_maps_and_pieces(options):
    local = options or {"num_shards": Contiguous(4)}
    assert fit(backend="ray", **options) == fit(**local)


def test_what_is_not_kept_is_encoded_in_each_round():
    options = {"backend": "ray", "num_shards": 3, "materialize": False}
    with encoded_data(ROWS, ESTIMATOR, **options) as handle, encoded_data(ROWS, ESTIMATOR, num_shards=3) as plain:
        assert trace(handle, ESTIMATOR) == trace(plain, ESTIMATOR)
    with pytest.raises(TypeError, match="materialize must be True or False"):
        encoded_data(ROWS, ESTIMATOR, backend="ray", materialize=None)


def test_weights():
    weights = [float(i % 3) for i in range(len(ROWS))]
    assert fit(backend="ray", num_shards=3, weights=weights) == fit(num_shards=3, weights=weights)


@pytest.mark.parametrize(("shards", "kind"), [(256, "StackedStatistic"), (257, "GroupSum"), (600, "GroupSum")])
def test_both_sides_of_a_group(shards, kind):
    with encoded_data(ROWS, ESTIMATOR, backend="ray", num_shards=shards) as handle:
        model = optimize(None, ESTIMATOR, enc_data=handle, max_its=1, delta=None, seed=3)
        kinds = {type(result.value).__name__ for result in handle.transport.map(Accumulate(ESTIMATOR, model))}
    assert model.digest() == fit(num_shards=shards, max_its=1)
    assert kind in kinds


def test_blocks_of_a_data_set_are_shards(ray):
    data = ray.data.from_items([{"number": a, "letter": b} for a, b in ROWS], override_num_blocks=5)
    with encoded_data(data, ESTIMATOR, backend="ray") as handle:
        sizes = tuple(handle._sizes[shard] for shard in sorted(handle._sizes))
        assert len(sizes) == 5
        model = optimize(None, ESTIMATOR, enc_data=handle, max_its=3, delta=None, seed=3)
    assert model.digest() == fit(num_shards=Contiguous(sizes=sizes))
    assert fit(data, backend="ray") == model.digest()


def test_columns_of_a_data_set(ray):
    array = np.random.RandomState(1).normal(size=(60, 2))
    estimators = {
        "tensor": (st.MultivariateGaussianEstimator(dim=2), ray.data.from_numpy(array)),
        "floats": (
            st.MultivariateGaussianEstimator(dim=2),
            ray.data.from_items([{"a": float(a), "b": float(b)} for a, b in array]),
        ),
    }
    for name, (estimator, data) in estimators.items():
        with encoded_data(data, estimator, backend="ray") as handle:
            sizes = Contiguous(sizes=tuple(handle._sizes[shard] for shard in sorted(handle._sizes)))
            here = handle.pysp_seq_estimate(estimator, None).digest()
        with encoded_data(array, estimator, num_shards=sizes) as handle:
            assert here == handle.pysp_seq_estimate(estimator, None).digest(), name
    missing = [1.5, None, 2.5, 7.0] * 5
    estimator = st.OptionalEstimator(st.GaussianEstimator(), est_prob=True)
    with encoded_data(ray.data.from_items([{"x": x} for x in missing]), estimator, backend="ray") as handle:
        sizes = Contiguous(sizes=tuple(handle._sizes[shard] for shard in sorted(handle._sizes)))
        here = handle.pysp_seq_estimate(estimator, None).digest()
    with encoded_data(missing, estimator, num_shards=sizes) as handle:
        assert here == handle.pysp_seq_estimate(estimator, None).digest()


@pytest.mark.parametrize("source", ["data set", "rows", "chains"])
def test_what_is_said_of_each_row_is_a_data_set(ray, source):
    rows, estimator, model = row_models()["chains" if source == "chains" else "mixture"]
    if source == "data set":
        rows, estimator, model = NUMBERS, *numbers_model()
        data, shard_map = ray.data.from_items([{"x": x} for x in NUMBERS], override_num_blocks=3), None
    else:
        data, shard_map = rows, Contiguous(3)
    with encoded_data(data, estimator, backend="ray", num_shards=shard_map, num_workers=2) as handle:
        sizes = Contiguous(sizes=tuple(handle._sizes[shard] for shard in sorted(handle._sizes)))
        with encoded_data(rows, estimator, num_shards=sizes) as local:
            check_row_output(handle, model, local, lambda found: [nested(row["data"]) for row in found.take_all()])
            late, wanted = handle.score_samples(model), local.score_samples(model)
    assert [row["data"] for row in late.take_all()] == wanted.tolist()


def nested(value):
    """Return what Arrow made of a matrix, an array of arrays, as a matrix."""
    held = np.asarray(value)
    return np.stack(list(held)) if held.dtype == object else held


def numbers_model():
    estimator = st.MixtureEstimator([st.GaussianEstimator()] * 2)
    return estimator, optimize(NUMBERS, estimator, max_its=2, delta=None, seed=1)


def test_a_killed_process_is_started_again_by_ray_and_the_bits_are_the_same(ray):
    with encoded_data(ROWS, ESTIMATOR, backend="ray", num_shards=7, num_workers=2) as handle:
        os.kill(ray.get(handle.transport.actors[0].process.remote()), signal.SIGKILL)
        model = optimize(None, ESTIMATOR, enc_data=handle, max_its=3, delta=None, seed=3)
    assert model.digest() == fit(num_shards=7)


def test_retry_replaces_an_actor_that_ray_gives_up(ray):
    with encoded_data(ROWS, ESTIMATOR, backend="ray", num_shards=7, num_workers=2, policies=[Retry(3)]) as handle:
        ray.kill(handle.transport.actors[1], no_restart=True)
        model = optimize(None, ESTIMATOR, enc_data=handle, max_its=3, delta=None, seed=3)
        assert handle.transport.failures == {1: 1}
    assert model.digest() == fit(num_shards=7)


def test_without_retry_a_loss_names_its_shards(ray):
    with encoded_data(NUMBERS, st.GaussianEstimator(), backend="ray", num_shards=4, num_workers=2) as handle:
        ray.kill(handle.transport.actors[1], no_restart=True)
        with pytest.raises(RoundLosses, match=r"worker 1 .* shards \[1, 3\]") as caught:
            handle.pysp_seq_estimate(st.GaussianEstimator(), None)
    assert caught.value.losses[0].shards == (1, 3)


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_compose(policy):
    with encoded_data(ROWS, ESTIMATOR, num_shards=7) as plain:
        wanted = trace(plain, ESTIMATOR)
    options = {"backend": "ray", "num_shards": 7, "num_workers": 2}
    check_policies(policy, lambda given: encoded_data(ROWS, ESTIMATOR, policies=given, **options), wanted)


class BadFactory(st.GaussianEstimator):
    def accumulator_factory(self):
        raise KeyError("a user's own error")


def test_errors(ray):
    with pytest.raises(RowError, match="Row 4 "):
        encoded_data([*NUMBERS[:4], "x"], st.GaussianEstimator(), backend="ray")
    with pytest.raises(RowError, match="Row 2 "):
        data = ray.data.from_items([{"x": 1.0}, {"x": 2.0}, {"x": None}], override_num_blocks=2)
        encoded_data(data, st.GaussianEstimator(), backend="ray")
    with pytest.raises(EmptyDataError):
        encoded_data(ray.data.from_items([]), st.GaussianEstimator(), backend="ray")
    with pytest.raises(BackendError, match=r"repartition\(K\)"):
        encoded_data(ray.data.range(4), st.PoissonEstimator(), backend="ray", num_shards=3)
    with pytest.raises(BackendError, match="takes no client"):
        encoded_data(NUMBERS, st.GaussianEstimator(), backend="ray", client="auto")
    with encoded_data(NUMBERS, st.GaussianEstimator(), backend="ray", num_shards=3) as handle:
        with pytest.raises(TaskError, match="shard 0: KeyError"):
            list(handle._run(Accumulate(BadFactory(), None)))
        assert handle.pysp_seq_estimate(st.GaussianEstimator(), None).mu == pytest.approx(np.mean(NUMBERS))


def test_close_ends_the_actors_and_leaves_a_foreign_cluster_running(ray):
    handle = encoded_data(NUMBERS, st.GaussianEstimator(), backend="ray", num_workers=2)
    actor = handle.transport.actors[0]
    handle.close()
    handle.close()
    assert ray.is_initialized()
    with pytest.raises(ray.exceptions.RayActorError):  # the order to end travels beside the calls
        while True:
            ray.get(actor.process.remote())
    with pytest.raises(HandleClosed):
        handle.pysp_seq_estimate(st.GaussianEstimator(), None)


def test_a_cluster_that_was_started_here_is_shut_down(ray):
    ray.shutdown()
    try:
        with encoded_data(NUMBERS, st.GaussianEstimator(), backend="ray", num_workers=1) as handle:
            assert handle.transport.owned
            assert ray.is_initialized()
        assert not ray.is_initialized()
    finally:
        if not ray.is_initialized():
            ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
