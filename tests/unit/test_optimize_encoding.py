"""Where `optimize` encodes rows, what it passes on, and what it closes."""

import numpy as np
import pytest
from fit_support import CountingTransport, clusters, counted

from mixle.inference import best_of, optimize
from mixle.stats import GaussianEstimator, MixtureEstimator
from mixle.utils.parallel import planner
from mixle.utils.parallel.folding.handle import Handle
from mixle.utils.parallel.folding.inputs import make_source
from mixle.utils.parallel.folding.shards import Contiguous

pytestmark = pytest.mark.filterwarnings("ignore:EM stopped after:UserWarning")


def mixture(k=2):
    return MixtureEstimator([GaussianEstimator() for _ in range(k)])


class Recording:
    """A backend that notes what it is given and makes a local handle."""

    def __init__(self):
        self.calls = []
        self.handles = []

    def __call__(self, data, estimator=None, model=None, encoder=None, weights=None, num_chunks=None, **controls):
        self.calls.append({"data": data, "weights": weights, "num_chunks": num_chunks, **controls})
        encoder = encoder or estimator.accumulator_factory().make().acc_to_encoder()
        source = make_source(data, encoder, Contiguous(num_chunks or 1), 1, weights, estimator)
        self.handles.append(Handle(CountingTransport(), source))
        return self.handles[-1]


@pytest.fixture
def recording():
    backend = Recording()
    planner.register_encoded_data_backend("recording", backend)
    yield backend
    planner._ENCODED_DATA_BACKENDS.pop("recording")


def test_a_handle_made_here_is_closed(recording):
    optimize(clusters(), mixture(), backend="recording", max_its=2)
    assert recording.handles[0].transport.closes == 1


def test_a_handle_made_here_is_closed_when_the_fit_fails(recording):
    def fail(step):
        raise LookupError

    with pytest.raises(LookupError):
        optimize(clusters(), mixture(), backend="recording", on_step=fail)
    with pytest.raises(ValueError, match=r"[Rr]ow 1"):
        optimize(clusters(), mixture(), backend="recording", vdata=[1.0, "x"])
    assert [handle.transport.closes for handle in recording.handles] == [1, 1]


def test_a_handle_handed_in_is_left_open():
    handle = counted(clusters(), mixture())
    optimize(None, mixture(), enc_data=handle, enc_vdata=handle, max_its=2)
    best_of(None, None, mixture(), 2, 3, 0.1, None, enc_data=handle, enc_vdata=handle)
    assert handle.transport.closes == 0


def test_controls_reach_the_backend(recording):
    client, comm = object(), object()
    optimize(
        clusters(), mixture(), backend="Recording", num_workers=3, client=client, comm=comm, root=1, root_only=True,
        sub_chunks=2, max_its=1, weights=np.ones(200),
    )  # fmt: skip
    call = recording.calls[0]
    assert call["num_workers"] == 3
    assert call["client"] is client
    assert call["comm"] is comm
    assert (call["root"], call["root_only"], call["sub_chunks"]) == (1, True, 2)
    assert call["weights"].tolist() == [1.0] * 200


@pytest.mark.parametrize(
    ("control", "shards"), [({"num_chunks": 4}, 4), ({"chunk_size": 60}, 4), ({"chunk_size": 500}, 1), ({}, 1)]
)
def test_chunks_are_shards_of_consecutive_rows(recording, control, shards):
    optimize(clusters(), mixture(), backend="recording", max_its=1, **control)
    assert recording.handles[0].num_shards == shards


def test_num_chunks_gives_the_bits_of_the_same_shards(recording):
    direct = counted(clusters(), mixture(), shards=Contiguous(3))
    expected = optimize(None, mixture(), enc_data=direct).digest()
    assert optimize(clusters(), mixture(), num_chunks=3).digest() == expected
    assert optimize(clusters(), mixture(), num_chunks=3, backend="recording").digest() == expected


def test_resources_and_placement_are_passed_on():
    rows = clusters()
    two = planner.Resources.local(2)
    placement = planner.plan(rows, estimator=mixture(), resources=two)
    one_shard_per_device = optimize(rows, mixture(), resources=two)
    assert optimize(rows, mixture(), placement=placement).digest() == one_shard_per_device.digest()


def test_an_unknown_backend_is_refused_with_a_suggestion():
    with pytest.raises(ValueError, match="locl"):
        optimize(clusters(), mixture(), backend="locl")


class RDDLike:
    """A collection that only its own backend may touch."""

    def mapPartitions(self, function):
        raise AssertionError("not touched")


def test_collections_of_a_cluster_go_to_their_backend_untouched():
    collection, calls = RDDLike(), []

    def factory(data, **controls):
        calls.append(data)
        return counted(clusters(), mixture())

    planner.register_encoded_data_backend("cluster", factory)
    try:
        optimize(collection, mixture(), backend="cluster", max_its=1)
    finally:
        planner._ENCODED_DATA_BACKENDS.pop("cluster")
    assert calls == [collection]
    with pytest.raises(ValueError, match="backend="):
        optimize(collection, mixture())


def test_a_process_pool_gives_the_bits_of_its_shard_map():
    rows = clusters(60)
    direct = counted(rows, mixture(), shards=2)
    expected = optimize(None, mixture(), enc_data=direct, max_its=3).digest()
    assert optimize(rows, mixture(), backend="mp", num_workers=2, max_its=3).digest() == expected
