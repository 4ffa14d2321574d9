"""Backends by name: found lazily, suggested when misspelt, refused by name when a control has no use."""

import importlib.metadata

import pytest
from fold_support import ClosableTransport, PlainEncoder, PlainEstimator, PlainModel, numbers

from mixle.errors import BackendError, MissingPackage
from mixle.utils.parallel import planner
from mixle.utils.parallel.folding import backends, registry
from mixle.utils.parallel.folding.backends import Need
from mixle.utils.parallel.folding.controls import same
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
from mixle.utils.parallel.policies.retry import Retry
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


# Word for word


def said(error, call, *args, **options):
    """Return the words of a refusal."""
    with pytest.raises(error) as caught:
        call(*args, **options)
    return str(caught.value)


@pytest.mark.usefixtures("clean")
def test_names_are_told_in_words_and_any_case_is_one():
    for wrong in ("", "  ", 3, None):
        told = said(BackendError, register_encoded_data_backend, wrong, Foreign)
        assert told == f"name of a backend must be a non-empty name, not {wrong!r}"
        told = said(BackendError, register_transport, wrong, ClosableTransport)
        assert told == f"name of a transport must be a non-empty name, not {wrong!r}"
    assert said(BackendError, encoded_data, ROWS, backend=3) == "backend must be a non-empty name, not 3"
    assert said(TypeError, register_encoded_data_backend, "mine", None) == (
        "factory of backend 'mine' must be callable, not None"
    )
    assert said(TypeError, register_transport, "mine", 3) == "factory of transport 'mine' must be callable, not 3"
    register_encoded_data_backend(" Mine ", Foreign, aliases="Solo")
    assert {"mine", "solo"} <= planner._ENCODED_DATA_BACKENDS.keys()
    assert "s" not in planner._ENCODED_DATA_BACKENDS
    register_transport(" Ship ", ClosableTransport)
    register_transport("ship", ClosableTransport)
    assert registry._TRANSPORTS["ship"] is ClosableTransport
    taken = "backend {!r} is registered already; pass override=True to replace it"
    assert said(BackendError, register_encoded_data_backend, "mine", ClosableTransport) == taken.format("mine")
    assert said(BackendError, register_transport, "Ship", LocalTransport) == taken.format("ship")
    assert said(BackendError, register_transport, "Local", LocalTransport) == taken.format("local")
    assert registry._TRANSPORTS["ship"] is ClosableTransport
    register_transport("ship", LocalTransport, override=True)
    assert registry._TRANSPORTS["ship"] is LocalTransport


def test_what_is_usable_and_what_is_missing_are_told(monkeypatch, announce):
    announce(backends=[], transports=[])
    names = ", ".join(available_encoded_data_backends())
    for word in ("torchrun", "lightning", "PL"):
        assert said(BackendError, encoded_data, ROWS, backend=word) == (
            f"backend {word.lower()!r} is not supported: torch devices can be planned for, rows are worked on by "
            f"numpy. Usable here: {names}"
        )
    absent = {name: Need("no_such_module", "no-such", f"pip install {name}") for name in ("ray", "dask")}
    monkeypatch.setattr(registry, "NEEDS", {**absent, "nothing of here": absent["ray"], "local": Need("sys", "", "")})
    usable = ", ".join(name for name in available_encoded_data_backends() if name not in absent)
    lacks = "Known but missing a package: dask (pip install dask), ray (pip install ray)"
    told = said(BackendError, encoded_data, ROWS, backend="Torchrn")
    assert told == f"Unknown backend 'torchrn'. Did you mean 'torchrun'? Usable here: {usable}. {lacks}"
    monkeypatch.setattr(registry, "NEEDS", {})
    assert said(BackendError, encoded_data, ROWS, backend="zzz") == f"Unknown backend 'zzz'. Usable here: {names}"


def test_a_name_of_this_process_stands_before_one_that_is_announced(announce):
    announce(backends=[Announced("local", Foreign), Announced("both", Foreign)], transports=[Announced("BOTH", None)])
    assert isinstance(encoded_data(ROWS, PlainEstimator(), backend="local"), LocalEncodedData)
    assert isinstance(encoded_data(ROWS, backend="both"), Foreign)
    assert available_encoded_data_backends().count("both") == 1


def test_a_missing_package_of_an_announced_transport_is_told_in_words(announce):
    announce(transports=[Announced("boat", ModuleNotFoundError("No module named 'zeppelin'"))])
    with pytest.raises(MissingPackage) as caught:
        encoded_data(ROWS, PlainEstimator(), backend="boat")
    assert str(caught.value) == (
        "backend 'boat' (boat_package:make) cannot be imported: No module named 'zeppelin'. Install what it needs"
    )
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


@pytest.fixture
def ship():
    """Register a transport that notes what it is made with."""
    made = []
    register_transport("ship", lambda **options: made.append(options) or ClosableTransport())
    return made


@pytest.mark.usefixtures("clean")
def test_a_registered_transport_is_given_what_it_may_use(ship):
    client, comm = object(), object()
    options = {"num_workers": 2, "client": client, "comm": comm, "root": 1, "root_only": True}
    model, weights = PlainModel(0.0, 1.0), [2.0] * len(ROWS)
    with encoded_data(ROWS, None, model, backend="ship", weights=weights, precision="float32", **options) as handle:
        assert (handle.num_shards, handle.precision, handle.counted) == (2, "float32", len(ROWS))
        assert handle.pysp_stream_accumulate(PlainEstimator(), None)[0] == 2.0 * len(ROWS)
    with encoded_data(ROWS, PlainEstimator(), backend="ship") as handle:
        assert (handle.num_shards, handle.precision) == (1, "float64")
    with encoded_data(ROWS, PlainEstimator(), backend="ship", num_workers=3, num_shards=5) as handle:
        assert handle.num_shards == 5
    placed = plan(ROWS, encoder=PlainEncoder(), resources=Resources.local(4))
    with encoded_data(ROWS, PlainEstimator(), backend="ship", placement=placed) as handle:
        assert handle.num_shards == len(placed.shards)
    with encoded_data(ROWS, PlainEstimator(), encoder=PlainEncoder(), backend="ship", policies=[Retry(3)]) as handle:
        assert handle.transport.max_retries == 3
    assert ship == [options, {}, {"num_workers": 3}, {}, {}]


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize(
    ("controls", "error", "words"),
    [
        ({"resources": object()}, BackendError, "this backend takes no resources; leave it out"),
        ({"parallel_chunks": True}, BackendError, "this backend takes no parallel_chunks; leave it out"),
        ({"chunk_workers": 2}, BackendError, "this backend takes no chunk_workers; leave it out"),
        ({"materialize": False}, BackendError, "this backend takes no materialize; leave it out"),
        ({"data": []}, ValueError, "encoded_data requires non-empty data. Pass at least one row."),
        ({"data": None}, TypeError, "encoded_data: None is not data: pass a list of rows or an array"),
        (
            {"estimator": None},
            ValueError,
            (
                "encoded_data requires an encoder, model, or estimator. Pass estimator=, or a model for one: "
                "model.estimator()"
            ),
        ),
        (
            {"engine": "torch"},
            BackendError,
            "encoded_data: engine 'torch' is not supported; leave engine out, or use engine='numpy'",
        ),
        (
            {"precision": "half"},
            BackendError,
            "encoded_data: precision 'half' is not supported; use precision='float64' (the default) or 'float32'",
        ),
        ({"num_workers": 0}, ValueError, "num_workers must be positive."),
        ({"sub_chunks": 0}, ValueError, "sub_chunks must be positive."),
        ({"weights": [1.0]}, ValueError, f"weights must have shape ({len(ROWS)},), one per row, not (1,)"),
        (
            {"num_shards": 2, "num_chunks": 2},
            BackendError,
            "num_shards and num_chunks each say how rows are split: give only one of them",
        ),
    ],
)
def test_a_registered_transport_refuses_in_words(ship, controls, error, words):
    controls = {"data": ROWS, "estimator": PlainEstimator(), **controls}
    assert (
        said(error, encoded_data, controls.pop("data"), controls.pop("estimator"), backend="ship", **controls) == words
    )
    assert ship == []


def test_what_a_handle_would_have_to_encode_again_is_refused_in_words():
    handle = LocalEncodedData(ROWS, PlainEstimator())
    for allowed in ({"precision": "float64"}, {"encoder": PlainEncoder()}, {"model": PlainModel(0.0, 1.0)}):
        assert encoded_data(handle, **allowed) is handle
    assert said(BackendError, encoded_data, handle, encoder=object(), precision="float32", num_shards=2) == (
        "data is a handle already, its rows are encoded: encoder, precision, num_shards cannot be applied. Leave it "
        "out, or pass the rows"
    )
    bare = Foreign(ROWS)
    assert encoded_data(bare) is bare
    assert said(BackendError, encoded_data, bare, encoder=PlainEncoder()).startswith(
        "data is a handle already, its rows"
    )


@pytest.mark.usefixtures("clean")
def test_a_built_in_handle_has_the_precision_that_was_asked_for_and_a_foreign_one_is_told():
    for given, name in ((None, "float64"), ("float64", "float64"), ("float32", "float32")):
        assert encoded_data(ROWS, PlainEstimator(), precision=given).precision == name
    register_encoded_data_backend("mine", Foreign)
    assert encoded_data(ROWS, backend="mine", precision="float32").params["precision"] == "float32"
    assert not hasattr(encoded_data(ROWS, backend="mine"), "precision")
    told = said(BackendError, encoded_data, ROWS, backend="mine", precision="half")
    assert told.startswith("encoded_data: precision 'half' is not supported; ")


@pytest.mark.parametrize(
    ("control", "instead"),
    [
        ({"num_workers": 3}, "use backend='mp' or chunk_workers=3"),
        ({"client": 3}, "it belongs to backend='dask', 'spark' or 'futures'"),
        ({"comm": 3}, "it belongs to backend='mpi'"),
        ({"root": 1}, "it belongs to backend='mpi'"),
        ({"root_only": True}, "it belongs to backend='mpi'"),
    ],
)
def test_what_local_does_not_take_is_told_in_words(control, instead):
    (name,) = control
    told = said(BackendError, encoded_data, ROWS, PlainEstimator(), **control)
    assert told == f"backend 'local' takes no {name}; {instead}"


@pytest.mark.parametrize(
    ("control", "instead"),
    [
        ({"chunk_workers": 2}, "use backend='local' or num_workers=2"),
        ({"parallel_chunks": True}, "use backend='local', or num_workers with backend='mp'"),
        (
            {"materialize": False},
            "it belongs to backend='dask', 'spark' or 'ray', which can encode again in every round",
        ),
        ({"resources": "r"}, "leave it out"),
    ],
)
def test_what_processes_do_not_take_is_told_in_words(control, instead):
    (name,) = control
    told = said(BackendError, encoded_data, ROWS, PlainEstimator(), backend="mp", **control)
    assert told == f"backend 'mp' takes no {name}; {instead}"
    assert said(BackendError, encoded_data, ROWS, PlainEstimator(), backend="model_parallel", num_chunks=2) == (
        "backend 'model_parallel' takes no num_chunks; use num_shards=Contiguous(2)"
    )


@pytest.mark.parametrize(
    ("value", "default", "alike"),
    [
        (1, 1, True),
        (300, int("300"), True),
        (True, 1, False),
        (1, True, False),
        (1.0, 1, False),
        (None, None, True),
        ([], [], False),
        (False, False, True),
        (2, 1, False),
    ],
)
def test_a_control_has_its_default_where_type_and_value_are_equal(value, default, alike):
    assert same(value, default) == alike


CLUSTERS = ("mp", "mpi", "futures", "ray", "dask", "spark")


@pytest.mark.parametrize("word", CLUSTERS)
def test_a_cluster_takes_one_shard_map_however_it_is_asked_for(monkeypatch, word):
    seen = []
    monkeypatch.setattr(backends, f"_{word.upper()}_HANDLE", lambda data, **controls: seen.append((data, controls)))
    build = getattr(backends, f"_{word}")
    placed = plan(ROWS, encoder=PlainEncoder(), resources=Resources.local(2))
    tight = plan(ROWS, encoder=PlainEncoder(), resources=Resources.single_cpu(memory_bytes=1))
    build(ROWS, placement=placed, engine="numpy", precision="float32")
    build(ROWS, placement=tight, force=True, sub_chunks=2)
    (data, first), (_, second) = seen
    assert data is ROWS
    assert first == {"num_shards": Contiguous(sizes=tuple(shard.size for shard in placed.shards))}
    assert second == {"num_shards": Contiguous(sizes=tuple(shard.size for shard in tight.shards)), "sub_chunks": 2}
    where = f"backend {word!r}"
    told = said(BackendError, build, ROWS, engine="torch")
    assert told == f"{where}: engine 'torch' is not supported; leave engine out, or use engine='numpy'"
    assert said(BackendError, build, ROWS, precision="half").startswith(f"{where}: precision 'half' is not supported; ")
    assert said(BackendError, build, ROWS, placement=tight).startswith(
        f"{where}: the placement cannot fit: device cpu:0"
    )
    assert said(ValueError, build, ROWS[1:], placement=placed) == (
        f"placement covers {len(ROWS)} rows, the data has {len(ROWS) - 1}: plan(data, ...) again"
    )
    told = said(BackendError, build, ROWS, placement=placed, num_chunks=2, num_shards=3)
    assert all(name in told for name in ("placement", "num_chunks", "num_shards"))
    assert told.endswith(" each say how rows are split: give only one of them")
    assert len(seen) == 2


@pytest.mark.parametrize("word", CLUSTERS)
def test_what_lies_on_a_cluster_is_not_counted(monkeypatch, word):
    class Lazy:
        def __len__(self):
            raise AssertionError("this would compute it")

        to_delayed = iter_internal_ref_bundles = None

    seen = []
    monkeypatch.setattr(backends, f"_{word.upper()}_HANDLE", lambda data, **controls: seen.append(controls))
    build = getattr(backends, f"_{word}")
    build(Lazy(), num_chunks=2)
    build(iter(()), num_chunks=2)
    assert seen == [{"num_shards": Contiguous(2)}] * 2
    placed = plan(ROWS, encoder=PlainEncoder(), resources=Resources.local(2))
    assert said(ValueError, build, iter(()), placement=placed).endswith("rows, the data has 0: plan(data, ...) again")


@pytest.mark.parametrize("word", ["dask", "spark"])
def test_a_count_of_workers_on_a_cluster_is_checked(word):
    build = getattr(backends, f"_{word}")
    assert said(ValueError, build, ROWS, num_workers=0) == "num_workers must be positive."
    assert said(TypeError, build, ROWS, num_workers=True) == "num_workers must be a positive integer, not True"
