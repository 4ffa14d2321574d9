"""Backends by name: found lazily, suggested when misspelt, refused by name when a control has no use."""

import importlib.metadata

import pytest
from fold_support import ClosableTransport, PlainEncoder, PlainEstimator, PlainModel, numbers

from mixle.errors import BackendError
from mixle.utils.parallel import planner
from mixle.utils.parallel.folding import registry
from mixle.utils.parallel.folding.registry import register_transport
from mixle.utils.parallel.folding.shards import Contiguous
from mixle.utils.parallel.planner import (
    LocalEncodedData,
    Resources,
    available_encoded_data_backends,
    encoded_data,
    plan,
    register_encoded_data_backend,
)
from mixle.utils.parallel.transports.local import LocalTransport

ROWS = numbers()
DOCUMENTED = {
    "estimator", "model", "encoder", "placement", "resources", "engine", "precision", "num_chunks", "sub_chunks",
    "num_workers", "client", "comm", "root", "root_only", "parallel_chunks", "chunk_workers",
}  # fmt: skip


@pytest.fixture
def clean():
    """Take out what a test registers."""
    before, transports = dict(planner._ENCODED_DATA_BACKENDS), dict(registry._TRANSPORTS)
    yield
    for store, kept in ((planner._ENCODED_DATA_BACKENDS, before), (registry._TRANSPORTS, transports)):
        store.clear()
        store.update(kept)


class Announced:
    """An entry point that counts how often it is loaded."""

    def __init__(self, name, result):
        self.name, self.value, self.result, self.loads = name, f"{name}_package:make", result, 0

    def load(self):
        self.loads += 1
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.fixture
def announce(monkeypatch):
    """Let installed packages announce backends."""

    def install(**groups):
        def entry_points(group):
            return groups.get(group.removeprefix("mixle."), [])

        monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)

    return install


def test_built_in_backends_are_there():
    assert available_encoded_data_backends() == [
        "component_parallel", "dask", "futures", "local", "model_parallel", "mp", "mp_model", "mpi", "multiprocessing",
        "ray", "spark",
    ]  # fmt: skip
    for backend in ("local", "LOCAL", " local ", None):
        assert isinstance(encoded_data(ROWS, PlainEstimator(), backend=backend), LocalEncodedData)


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("lcal", r"Unknown backend 'lcal'. Did you mean 'local'\? Usable here: .*local, .*mp, .*multiprocessing"),
        ("dsk", r"Unknown backend 'dsk'. Did you mean 'dask'\? Usable here: .*"),
        ("zzz", r"Unknown backend 'zzz'. Usable here"),
        ("torchrun", "backend 'torchrun' is not supported"),
        ("", "non-empty name"),
        (3, "non-empty name"),
    ],
)
def test_a_backend_that_cannot_be_used_is_refused(backend, words):
    with pytest.raises(ValueError, match=words):
        encoded_data(ROWS, PlainEstimator(), backend=backend)


@pytest.mark.parametrize(
    ("backend", "control", "words"),
    [
        ("local", {"num_workers": 3}, "takes no num_workers; use backend='mp' or chunk_workers=3"),
        ("local", {"client": object()}, "takes no client; it belongs to backend='dask'"),
        ("local", {"comm": object()}, "takes no comm; it belongs to backend='mpi'"),
        ("local", {"root": 1}, "takes no root"),
        ("local", {"root_only": True}, "takes no root_only"),
        ("mp", {"chunk_workers": 2}, "takes no chunk_workers; use backend='local' or num_workers=2"),
        ("mp", {"parallel_chunks": True}, "takes no parallel_chunks"),
        ("mp", {"resources": Resources.local(2)}, "takes no resources"),
        ("mp", {"engine": "torch"}, "engine 'torch' is not supported"),
        ("mp", {"num_chunks": 2, "num_shards": 2}, "num_chunks and num_shards each say"),
        ("multiprocessing", {"client": object()}, "backend 'mp' takes no client"),
    ],
)
def test_a_built_in_backend_refuses_a_control_it_does_not_use(backend, control, words):
    with pytest.raises(ValueError, match=words):
        encoded_data(ROWS, PlainEstimator(), backend=backend, **control)


def test_local_uses_the_controls_it_takes():
    handle = encoded_data(
        ROWS,
        None,
        PlainModel(0.0, 1.0),
        num_shards=4,
        sub_chunks=2,
        parallel_chunks=True,
        chunk_workers=2,
        weights=ROWS_W,
    )
    assert handle.num_chunks == 8
    assert handle.pysp_stream_accumulate(PlainEstimator(), None)[0] == 206.0


ROWS_W = [2.0] * len(ROWS)


@pytest.mark.parametrize("backend", ["local", "mp", "mpi", "anything"])
def test_a_handle_is_returned_unchanged(backend):
    handle = LocalEncodedData(ROWS, PlainEstimator())
    assert encoded_data(handle, backend=backend) is handle
    assert encoded_data(handle, PlainEstimator(), encoder=PlainEncoder()) is handle


def test_a_control_on_a_handle_is_refused_by_name():
    handle = LocalEncodedData(ROWS, PlainEstimator())
    with pytest.raises(ValueError, match="sub_chunks, num_shards cannot be applied"):
        encoded_data(handle, num_shards=3, sub_chunks=2)


class Foreign:
    """A handle of somebody else, without inheritance."""

    def __init__(self, data, **params):
        self.data, self.params = data, params

    def pysp_seq_log_density_sum(self, estimate):
        return 0.0, 0.0

    def pysp_seq_estimate(self, estimator, prev_estimate):
        return prev_estimate

    def pysp_seq_initialize(self, estimator, rng, p):
        return None

    def pysp_stream_accumulate(self, estimator, model):
        return 0.0, None


@pytest.mark.usefixtures("clean")
def test_a_foreign_factory_gets_the_documented_keywords_and_new_ones_only_if_given():
    register_encoded_data_backend("Mine", Foreign, aliases=("my", "OURS"))
    assert {"mine", "my", "ours"} <= set(available_encoded_data_backends())
    handle = encoded_data((x for x in ROWS), PlainEstimator(), backend="OURS", num_workers=3, client="c")
    assert set(handle.params) == DOCUMENTED
    assert (handle.params["num_workers"], handle.params["client"]) == (3, "c")
    assert encoded_data(ROWS, backend="my", num_shards=4).params["num_shards"] == 4
    assert encoded_data(ROWS, backend="my", force=True).params["force"] is True


@pytest.mark.usefixtures("clean")
def test_no_backend_takes_a_placement_that_cannot_fit_unless_forced():
    register_transport("threads", lambda num_workers=None: LocalTransport(num_workers))
    placement = plan(ROWS, encoder=PlainEncoder(), resources=Resources.single_cpu(memory_bytes=1))
    for backend in ("local", "mp", "threads"):
        with pytest.raises(BackendError, match=r"the placement cannot fit: device cpu:0 needs .*force=True"):
            encoded_data(ROWS, PlainEstimator(), placement=placement, backend=backend)
        with encoded_data(ROWS, PlainEstimator(), placement=placement, backend=backend, force=True) as handle:
            assert len(handle) == len(ROWS)


@pytest.mark.usefixtures("clean")
def test_registered_names_can_be_popped():
    register_encoded_data_backend("mine", Foreign)
    planner._ENCODED_DATA_BACKENDS.pop("mine")
    with pytest.raises(ValueError, match="Unknown backend 'mine'"):
        encoded_data(ROWS, backend="mine")


@pytest.mark.usefixtures("clean")
def test_a_collision_registers_nothing():
    register_encoded_data_backend("mine", Foreign)
    register_encoded_data_backend("mine", Foreign)
    with pytest.raises(ValueError, match="'local' is registered already; pass override=True"):
        register_encoded_data_backend("fresh", Foreign, aliases=("local",))
    assert "fresh" not in available_encoded_data_backends()
    register_encoded_data_backend("local", Foreign, override=True)
    assert isinstance(encoded_data(ROWS), Foreign)


@pytest.mark.usefixtures("clean")
def test_factories_are_checked():
    with pytest.raises(TypeError, match="must be callable"):
        register_encoded_data_backend("mine", None)
    with pytest.raises(TypeError, match="must be callable"):
        register_transport("mine", 3)
    with pytest.raises(ValueError, match="non-empty name"):
        register_encoded_data_backend("", Foreign)
    register_encoded_data_backend("odd", lambda *_, **__: 3)
    with pytest.raises(TypeError, match="backend 'odd' returned a int, which lacks the pysp_"):
        encoded_data(ROWS, backend="odd")


@pytest.mark.usefixtures("clean")
def test_a_registered_transport_is_a_backend_with_the_same_bits():
    made = []

    def make(**options):
        made.append((ClosableTransport(), options))
        return made[-1][0]

    register_transport("Ship", make)
    assert "ship" in available_encoded_data_backends()
    with pytest.raises(ValueError, match="registered already"):
        register_transport("ship", ClosableTransport)
    with pytest.raises(ValueError, match="registered already"):
        register_transport("local", ClosableTransport)
    with encoded_data(ROWS, PlainEstimator(), backend="ship", num_workers=3, sub_chunks=2) as handle:
        bits = handle.pysp_seq_estimate(PlainEstimator(), None).bits()
    local = LocalEncodedData(ROWS, PlainEstimator(), num_shards=3, sub_chunks=2)
    assert bits == local.pysp_seq_estimate(PlainEstimator(), None).bits()
    assert made[0][1] == {"num_workers": 3}
    assert made[0][0].closes == 1
    contiguous = encoded_data(ROWS, PlainEstimator(), backend="ship", num_chunks=2)
    reference = LocalEncodedData(ROWS, PlainEstimator(), num_shards=Contiguous(2))
    assert contiguous.pysp_stream_accumulate(PlainEstimator(), None) == reference.pysp_stream_accumulate(
        PlainEstimator(), None
    )
    with pytest.raises(ValueError, match="takes no chunk_workers"):
        encoded_data(ROWS, PlainEstimator(), backend="ship", chunk_workers=2)


def test_entry_points_are_loaded_when_asked_for(announce):
    handle, transport = Announced("Theirs", Foreign), Announced("boat", lambda **_: ClosableTransport())
    announce(backends=[handle], transports=[transport])
    assert {"theirs", "boat"} <= set(available_encoded_data_backends())
    assert (handle.loads, transport.loads) == (0, 0)
    assert isinstance(encoded_data(ROWS, backend="theirs"), Foreign)
    assert encoded_data(ROWS, PlainEstimator(), backend="boat").transport.name == "pool"
    assert (handle.loads, transport.loads) == (1, 1)


def test_an_entry_point_whose_package_is_missing_says_so(announce):
    announce(backends=[Announced("theirs", ModuleNotFoundError("No module named 'zeppelin'"))])
    with pytest.raises(ImportError, match=r"backend 'theirs' \(theirs_package:make\) cannot be imported: .*zeppelin"):
        encoded_data(ROWS, backend="theirs")
