"""Corners of folding: controls of backends, errors on their way, statistics and rows of unusual shapes."""

import collections
import dataclasses
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from fold_support import PlainEncoder, PlainEstimator, PlainModel

import mixle.stats as st
from mixle.errors import BackendError, ContractError, EmptyDataError, HandleClosed, PayloadError, RowError, TaskError
from mixle.stats.contract import Column
from mixle.utils.parallel.folding import backends, build, dtypes, payload, registry, tasks
from mixle.utils.parallel.folding.encoders import check_reading
from mixle.utils.parallel.folding.faults import RemoteFault, closed_error, fault_of, load_error, surface
from mixle.utils.parallel.folding.finite import all_finite
from mixle.utils.parallel.folding.fold import EStep
from mixle.utils.parallel.folding.inputs import check_rows, choose_encoder, is_cluster_collection
from mixle.utils.parallel.folding.named import name_of, named, register_namedtuple
from mixle.utils.parallel.folding.refusals import check_retirable, check_worker, no_rows, undelivered
from mixle.utils.parallel.folding.registry import encoded_data, register_transport
from mixle.utils.parallel.folding.row_output import assemble
from mixle.utils.parallel.folding.shards import Chunk, Contiguous, Shard, Strided, check_row_count, encode_shard
from mixle.utils.parallel.folding.starts import join_columns
from mixle.utils.parallel.folding.tasks import Accumulate, Sample, execute
from mixle.utils.parallel.policies.retry import Retry
from mixle.utils.parallel.transports.local import LocalTransport


@pytest.fixture
def registered():
    """Take out what a test registers."""
    stores = (registry._ENCODED_DATA_BACKENDS, registry._TRANSPORTS)
    before = [dict(store) for store in stores]
    yield register_transport
    for store, kept in zip(stores, before, strict=True):
        store.clear()
        store.update(kept)


# Backends: what controls mean


@pytest.mark.parametrize("word", ["_dask", "_spark"])
@pytest.mark.parametrize(
    ("given", "shards"),
    [
        ({}, None),
        ({"num_workers": 3}, Contiguous(3)),
        ({"num_shards": 4, "num_workers": 3}, Strided(4)),
        ({"num_chunks": 2}, Contiguous(2)),
    ],
)
def test_workers_of_a_cluster_mean_contiguous_shards(monkeypatch, word, given, shards):
    seen = []
    monkeypatch.setattr(backends, f"{word.upper()}_HANDLE", lambda data, **controls: seen.append((data, controls)))
    getattr(backends, word)([1.0] * 6, client="c", **given)
    assert seen == [([1.0] * 6, {"client": "c", "num_shards": shards})]


@pytest.mark.parametrize("word", ["_mp", "_mpi", "_futures", "_ray"])
def test_a_model_says_how_to_encode_and_chunks_mean_a_contiguous_map(monkeypatch, word):
    seen = []
    monkeypatch.setattr(backends, f"{word.upper()}_HANDLE", lambda data, **controls: seen.append(controls))
    build_handle = getattr(backends, word)
    build_handle([1.0] * 6, model=PlainModel(0.0, 1.0), num_chunks=2)
    build_handle([1.0] * 6, model=PlainModel(0.0, 1.0), encoder="mine", num_shards=3)
    assert [one["num_shards"] for one in seen] == [Contiguous(2), Strided(3)]
    assert (seen[0]["encoder"], seen[1]["encoder"]) == (PlainEncoder(), "mine")
    assert all(set(one) == {"encoder", "num_shards"} for one in seen)


def test_threads_of_an_executor_are_a_backend():
    with (
        ThreadPoolExecutor(2) as pool,
        encoded_data([1.0, 2.0, 4.0], PlainEstimator(), backend="futures", client=pool) as h,
    ):
        assert h.estep(PlainEstimator(), None).value == (7.0, 21.0, 3.0, 3.0)


def test_a_build_without_openblas_has_a_key_too(monkeypatch):
    monkeypatch.setattr(build.ctypes, "CDLL", lambda path: SimpleNamespace())
    assert build._core_name() == ""

    def refuse(path):
        raise OSError(path)

    monkeypatch.setattr(build.ctypes, "CDLL", refuse)
    assert build._core_name() == ""
    monkeypatch.setattr(build.ctypes, "CDLL", lambda path: SimpleNamespace(openblas_get_corename=lambda: b"Mill\xff"))
    assert build._core_name() == "Mill\N{REPLACEMENT CHARACTER}"
    opened = []
    monkeypatch.setattr(build.ctypes, "CDLL", lambda path: opened.append(path) or SimpleNamespace())
    assert build._core_name() == ""
    assert opened == [sys.modules["numpy._core._multiarray_umath"].__file__]
    names = ["scipy_openblas_get_corename64_", "scipy_openblas_get_corename"]
    names += ["openblas_get_corename64_", "openblas_get_corename"]
    for i, name in enumerate(names):
        found = {other: lambda other=other: other.encode() for other in names[i:]}
        monkeypatch.setattr(build.ctypes, "CDLL", lambda path, found=found: SimpleNamespace(**found))
        assert build._core_name() == name
    monkeypatch.setattr(build.ctypes, "CDLL", lambda path: SimpleNamespace(openblas_get_corename=lambda: None))
    assert build._core_name() == ""
    monkeypatch.setattr(build.ctypes, "CDLL", lambda path: SimpleNamespace(openblas_get_corename=lambda: b"Mill"))
    monkeypatch.setattr(build.sys, "modules", {})  # another numpy has its products elsewhere
    assert build._core_name() == ""
    monkeypatch.setattr(build.sys, "modules", {"numpy._core._multiarray_umath": SimpleNamespace()})
    assert build._core_name() == ""


def test_policies_that_refuse_a_transport_close_it(registered):
    closed = []

    class Own(LocalTransport):
        def close(self):
            closed.append(self)

    registered("own", Own)
    with pytest.raises(BackendError, match=r"^Retry is given 2 times: give it once$"):
        encoded_data([1.0], PlainEstimator(), backend="own", policies=[Retry(2), Retry(2)])
    assert len(closed) == 1


def test_a_worker_may_go_when_nothing_lives_with_it_and_others_are_left():
    check_retirable(2, {0: 1, 1: 0}, [0, 1, 2])
    words = r"^worker 1 cannot be retired: shards \[0, 3\] live there: move them first$"
    with pytest.raises(BackendError, match=words):
        check_retirable(1, {3: 1, 0: 1, 1: 0}, [0, 1])
    with pytest.raises(
        BackendError, match=r"^rank 1 cannot be retired: it is the last one; grow\(\) first, or close\(\)$"
    ):
        check_retirable(1, {}, [1], "rank", "grow()")
    words = r"^worker 1 cannot be retired: it is the last one; add_worker\(\) first, or close\(\)$"
    with pytest.raises(BackendError, match=words):
        check_retirable(1, {}, (1,))


def test_what_transports_and_policies_refuse_alike_is_said_alike():
    check_worker(1, [0, 1])
    for what, words in (({}, "worker"), ({"what": "rank"}, "rank")):
        with pytest.raises(BackendError) as caught:
            check_worker(2, (0, 1), **what)
        assert str(caught.value) == f"there is no {words} 2: this pool has {words}s [0, 1]; name one of them"
    assert str(no_rows("here")) == "here requires non-empty data. Pass at least one row."
    assert isinstance(no_rows("here"), EmptyDataError)
    assert str(undelivered("mine", {4, 1})) == (
        "transport 'mine' delivered no result for shards [1, 4]; its map must yield one Result per shard, or raise "
        "RoundLosses"
    )


# Errors on their way


class Stubborn(Exception):
    """Cannot be built from its arguments, nor combined with another layout."""

    def __init__(self, one, *, two):
        super().__init__(one)
        self.two = two


class Strict(Exception):
    """Is not even made without all of its arguments."""

    def __new__(cls, one, *, two):
        return super().__new__(cls, one)

    def __init__(self, one, *, two):
        super().__init__(one)


class SingleUse(Exception):
    """Is made once."""

    made = 0

    def __new__(cls, *args):
        cls.made += 1
        if cls.made > 1:
            raise ArithmeticError("once only")
        return super().__new__(cls, *args)


class Renamed(Exception):
    """Comes back from its pickle as something else."""

    def __reduce__(self):
        return ValueError, ("renamed",)


class Single(type):
    def __new__(mcs, name, bases, space):
        if any(isinstance(base, Single) for base in bases):
            raise TypeError("no heirs")
        return super().__new__(mcs, name, bases, space)


class Heirless(Exception, metaclass=Single):
    pass


class Holding(OSError):
    """Wants more than its text, and holds what no pickle does."""

    def __init__(self, number, text, *, depth):
        super().__init__(number, text, Lock())
        self.depth, self.lock = depth, Lock()


@pytest.mark.parametrize(
    "error", [Renamed("x"), Stubborn(1, two=2), Strict(1, two=2), Holding(1, "far", depth=7), ValueError(Lock())]
)
def test_an_error_that_its_pickle_does_not_carry_comes_in_its_own_type(error):
    fault = fault_of(error)
    told = surface(fault, shard=4, worker=1)
    assert (isinstance(told, type(error)), isinstance(told, TaskError)) == (True, True)
    assert str(told) == f"shard 4: {fault.type_name}: {fault.message}"
    assert len(told.args) == len(error.args)
    assert getattr(told, "depth", 7) == 7
    assert not hasattr(told, "lock")
    again = pickle.loads(pickle.dumps(told))
    assert (isinstance(again, type(error)), str(again)) == (True, str(told))


def test_an_error_that_nothing_makes_again_travels_as_text():
    fault = fault_of(SingleUse("only here"))
    assert fault.pickled is None
    told = surface(fault, shard=4, worker=1)
    assert (type(told).__mro__[1], str(told)) == (TaskError, "shard 4: SingleUse: only here")


def test_an_exit_travels_as_text():
    fault = fault_of(SystemExit(3))
    told = surface(fault, shard=4, worker=1)
    assert type(told).__mro__[1] is TaskError
    assert str(told) == f"shard 4: SystemExit: {fault.message}"
    assert (told.shard, told.worker, told.remote_traceback) == (4, 1, fault.traceback_text)


def test_an_error_whose_class_takes_no_heirs_is_a_task_error():
    told = surface(fault_of(Heirless("alone")))
    assert not isinstance(told, Heirless)
    assert (isinstance(told, TaskError), str(told)) == (True, "Heirless: alone")


@pytest.mark.parametrize("pickled", [b"garbage", pickle.dumps(ValueError("v")), None])
def test_an_error_that_cannot_be_read_here_is_told_by_its_text(pickled):
    fault = RemoteFault("ValueError", "v", 3, (), "trace", pickled)
    told = surface(fault, 2)
    assert str(told) == "shard 2, row 3: ValueError: v"
    assert isinstance(told, ValueError) == (pickled not in {None, b"garbage"})
    assert str(told.__cause__) == "\ntrace"
    again = pickle.loads(pickle.dumps(told))
    assert (str(again), again.shard, again.row) == (str(told), 2, 3)
    loaded = load_error(fault, 2)
    assert (str(loaded), isinstance(loaded, TaskError)) == (str(told), True)


@pytest.mark.parametrize(("row", "position"), [(2, 12), (None, None)])
def test_a_row_error_of_a_load_is_of_both_types_and_counts_from_the_first_row(row, position):
    loaded = load_error(fault_of(RowError("is bad", "Plain", row)), 2, 1, first=10)
    assert isinstance(loaded, RowError)
    assert isinstance(loaded, RuntimeError)
    assert (loaded.row, loaded.shard, loaded.worker) == (position, 2, 1)
    assert str(loaded) == str(RowError("is bad", "Plain", position))
    assert str(pickle.loads(pickle.dumps(loaded))) == str(loaded)
    assert "RowError" in str(loaded.__cause__)
    assert loaded.__notes__ == ["raised by shard 2 on worker 1"]


def test_a_row_error_on_the_driver_notes_where_it_was_raised():
    fault = fault_of(RowError("is bad", "Plain", 1), Chunk(3, None, range(10, 16, 2)))
    assert fault.row == 12
    assert surface(fault, 2, 5).__notes__ == ["raised by shard 2 on worker 5"]
    assert surface(fault, 2).__notes__ == ["raised by shard 2"]
    assert not hasattr(surface(fault), "__notes__")
    assert fault_of(RowError("is bad", "Plain", 3), Chunk(3, None, range(10, 16, 2))).row == 3  # no row of the chunk


def test_text_that_cannot_be_made_is_told_so():
    class Mute(Exception):
        def __str__(self):
            raise ArithmeticError

    fault = fault_of(Mute())
    assert fault.message == fault.traceback_text == "Mute, whose text cannot be made: ArithmeticError"
    odd = ValueError("x")
    odd.row, odd.fields = "third", "ab"
    assert (fault_of(odd).row, fault_of(odd).fields) == (None, ())
    odd.row, odd.fields = 4, ["a", 1]
    assert (fault_of(odd).row, fault_of(odd).fields) == (4, ("a", 1))


def test_a_closed_handle_says_what_to_do():
    error = closed_error("pysp_seq_estimate")
    assert isinstance(error, HandleClosed)
    assert str(error) == (
        "this parallel encoded-data handle is closed: pysp_seq_estimate cannot be served. "
        "Build a new one: encoded_data(rows, estimator, backend=...)"
    )


# Statistics and payloads of unusual shapes


@dataclasses.dataclass
class Slotless:
    x: object


def test_every_field_of_an_object_is_looked_at():
    assert all_finite(Slotless(1.0))
    assert not all_finite([Slotless(np.nan)])
    assert all_finite([float, Slotless])


def test_named_tuples_of_this_library_are_found_by_name_and_nothing_else_is_imported():
    assert named("mixle.utils.parallel.folding.fold.EStep") is EStep
    assert name_of(EStep) == "mixle.utils.parallel.folding.fold.EStep"
    for name in (
        "mixle.utils.parallel.folding.fold.fold_values",
        "mixle.utils.parallel.folding.fold.Sequence",
        "mixle.utils.parallel.folding.round.EStep",
        "mixle.utils.parallel.folding.fold.Nothing",
        "mixle.stats.no_module.EStep",
        "this.s",
    ):
        assert named(name) is None
    assert "this" not in sys.modules


NAMES = sys.modules["mixle.utils.parallel.folding.named"]
ESTEP = "mixle.utils.parallel.folding.fold.EStep"


@pytest.fixture
def unknown(monkeypatch):
    """Forget all names of named tuples."""
    monkeypatch.setattr(NAMES, "_records_by_name", {})
    monkeypatch.setattr(NAMES, "_names_by_record", {})


@pytest.mark.usefixtures("unknown")
def test_a_named_tuple_of_this_library_is_registered_when_it_is_first_met(monkeypatch):
    assert named(ESTEP) is EStep
    assert (NAMES._records_by_name, NAMES._names_by_record) == ({ESTEP: EStep}, {EStep: ESTEP})
    monkeypatch.setattr(NAMES, "_records_by_name", {})
    monkeypatch.setattr(NAMES, "_names_by_record", {})
    assert name_of(EStep) == ESTEP
    assert NAMES._records_by_name == {ESTEP: EStep}
    assert named("mixle.utils.parallel.folding.handle.EStep") is None  # it is at home elsewhere
    home = sys.modules[EStep.__module__]
    odd = {
        "Bare": type("Bare", (tuple,), {"__module__": home.__name__}),
        "Loose": type("Loose", (), {"__module__": home.__name__, "_fields": ("a",)}),
        "made": EStep(1.0, 2.0, 3.0, 0),
    }
    for name, value in odd.items():
        monkeypatch.setattr(home, name, value, raising=False)
        assert named(f"{home.__name__}.{name}") is None
    assert name_of(odd["Bare"]) is None
    inner = type("Inner", (EStep,), {"__module__": home.__name__, "__qualname__": "Outer.Inner"})
    assert name_of(inner) is None
    assert NAMES._records_by_name == {ESTEP: EStep}


@pytest.mark.usefixtures("unknown")
def test_named_tuples_of_users_are_registered_by_a_name():
    one, twin = (collections.namedtuple("Twin", "a b", module="theirs") for _ in range(2))  # noqa: PYI024 - as users do
    assert name_of(one) is None
    assert register_namedtuple(one) is one
    assert (name_of(one), named("theirs.Twin")) == ("theirs.Twin", one)
    register_namedtuple(twin)  # the module was read again, say
    assert named("theirs.Twin") is twin
    other = collections.namedtuple("Other", "a", module="theirs")  # noqa: PYI024 - as users do
    register_namedtuple(other, "short")
    assert (name_of(other), named("short")) == ("short", other)
    with pytest.raises(
        ValueError, match=r"^the name 'short' already stands for <class 'theirs\.Other'>: give register_"
    ):
        register_namedtuple(one, "short")
    for wrong in (tuple, type("Loose", (), {"_fields": ()})):
        with pytest.raises(TypeError) as caught:
            register_namedtuple(wrong)
        assert str(caught.value) == f"register_namedtuple takes a NamedTuple class, not {wrong!r}"
    assert named("theirs.Nothing") is None


KINDS = [
    *("<f8", ">i2", "|b1", "|u1", "<f2", "<c16", "|S3", "<U0", "|V4", "<M8[ns]", "<m8[25s]", "<M8", "<f16", "<U7"),
    [("a", "<i2"), ("b", ">f8", (2, 3))],
    [("a", [("c", "<u4"), ("d", "|S1")]), ("b", "<M8[D]")],
    {"names": ["x", "y"], "formats": ["<f4", "|u1"], "offsets": [8, 0], "itemsize": 16},
]


@pytest.mark.parametrize(
    "kind", [np.dtype(kind) for kind in KINDS] + [np.dtype([("a", "i1"), ("b", "f8")], align=True)]
)
def test_types_of_arrays_are_plain_data(kind):
    assert dtypes.is_plain(kind)
    back = dtypes.dtype_of(dtypes.describe(kind))
    assert back == kind
    assert (back.str, back.itemsize, back.isalignedstruct) == (kind.str, kind.itemsize, kind.isalignedstruct)


def test_a_structured_type_is_told_by_names_types_places_and_size():
    told = dtypes.describe(np.dtype([("a", "<i2"), ("b", ">f8", (2,))]))
    assert told == (("a", "b"), (("<i2", ()), (">f8", (2,))), (0, 2), 18, False)
    assert dtypes.describe(np.dtype("<i8")) == "<i8"


@pytest.mark.parametrize(
    "kind",
    [
        np.dtype(object),
        np.dtype("f8", metadata={"a": 1}),
        np.dtype(("f8", (2,))),
        np.dtype([(("title", "a"), "f8")]),
        np.dtype([("a", "f8"), ("b", object)]),
        np.dtype([("a", [(("title", "c"), "f8")])]),
        np.dtypes.StringDType(),
    ],
)
def test_types_that_raw_memory_does_not_say_everything_about(kind):
    assert not dtypes.is_plain(kind)


@pytest.mark.parametrize("text", ["|O", "f8,f8", "<M8[x y]", "x8", "", "<f8 ", "<f"])
def test_a_type_that_no_writer_writes_is_refused(text):
    with pytest.raises(PayloadError) as caught:
        dtypes.dtype_of(text)
    assert type(caught.value) is PayloadError
    assert str(caught.value) == f"a payload has the dtype {text!r}; encode it again with this version of mixle"


def test_an_array_that_is_not_plain_travels_as_a_pickle_or_not_at_all():
    value = np.array([(1, "a")], dtype=[("n", int), ("o", object)])
    back = payload.decode(payload.encode_bytes(value, allow_pickle=True), allow_pickle=True)
    assert (back.dtype, back.tolist()) == (value.dtype, [(1, "a")])
    with pytest.raises(PayloadError, match="has no place in a payload"):
        payload.encode_bytes(value)


def test_a_frame_that_claims_to_be_deeper_than_may_be_is_refused():
    nested = [1.0]
    for _ in range(payload.DEPTH - 2):
        nested = [nested]
    assert payload.decode(payload.encode_bytes(nested)) == nested
    reader = payload._Reader(memoryview(bytes(64)), None)
    with pytest.raises(PayloadError, match=f"^a payload is nested deeper than {payload.DEPTH} levels"):
        reader.get(payload.DEPTH + 1)


# Rows


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (pl.DataFrame({"a": [1]}), r"data\.rows\(\)"),
        (pa.array([1.0]), r"data\.to_pylist\(\)"),
        (pd.DataFrame({"a": [1]}), r"list\(data\.itertuples\(index=False, name=None\)\)"),
        (np.ma.array([1.0]), r"data\.tolist\(\) \(masked values become None\)"),
        ({1.0, 2.0}, r"pass sorted\(data\)"),
        (iter([1.0]), r"can be read only once: pass list\(data\)"),
        (object(), r"is not a sequence of rows: pass list\(data\)"),
        (np.array(1.0), r"data\.reshape\(1\)"),
    ],
)
def test_what_is_no_sequence_of_rows_is_told_with_the_line_to_type(data, words):
    with pytest.raises(TypeError, match=f"^here: .*{words}"):
        check_rows(data, "here")


def test_the_encoder_is_the_explicit_one_else_the_models_else_the_estimators():
    model, estimator = PlainModel(0.0, 1.0), PlainEstimator()
    own = PlainEncoder()
    assert choose_encoder("here", estimator, model, own) is own
    assert choose_encoder("here", None, model, None) == PlainEncoder()
    assert choose_encoder("here", estimator, None, None) == PlainEncoder()
    assert choose_encoder("here", model, None, None) == PlainEncoder()  # a model where an estimator is asked for
    with pytest.raises(TypeError, match=r"^here: int is not an estimator; pass one, e\.g\. model\.estimator\(\)$"):
        choose_encoder("here", 3, None, None)
    with pytest.raises(ContractError, match=r"^here requires an encoder, model, or estimator\. Pass estimator="):
        choose_encoder("here", None, None, None)
    with pytest.raises(ContractError, match=r"^here requires an estimator or an explicit encoder\. Pass estimator="):
        choose_encoder("here", None, None, None, takes_model=False)


def test_rows_are_read_by_the_family_they_were_encoded_for():
    def encoder(estimator):
        return estimator.accumulator_factory().make().acc_to_encoder()

    pair = st.CompositeEstimator((st.GaussianEstimator(), st.CategoricalEstimator()))
    check_reading(None, pair)
    check_reading(encoder(pair), pair)
    check_reading(PlainEncoder(), pair)
    check_reading(encoder(pair), PlainEstimator())
    with pytest.raises(
        ContractError, match=r"^these rows were encoded for Composite\(Gaussian, Categorical\), the estim"
    ):
        check_reading(encoder(pair), st.GaussianEstimator())
    foreign = st.CompositeEstimator((st.GaussianEstimator(), st.CategoricalEstimator())).accumulator_factory().make()
    mixed = foreign.acc_to_encoder()
    mixed.encoders = (mixed.encoders[0], PlainEncoder())
    check_reading(mixed, st.GaussianEstimator())  # what a user's own encoder reads is not known


def test_the_class_of_a_collection_is_no_collection():
    class Held:
        def mapPartitions(self, function):
            raise NotImplementedError

    assert is_cluster_collection(Held())
    assert not is_cluster_collection(Held)
    with pytest.raises(TypeError, match=r"^here: .*Held is a collection of a cluster: pass backend= with the name of"):
        check_rows(Held(), "here")


def test_a_row_error_that_names_no_row_of_its_piece_is_raised_as_it_is():
    class Odd(PlainEncoder):
        def __init__(self, row):
            self.row = row

        def seq_encode(self, rows):
            raise RowError("is bad", "Odd", self.row)

    for row in (None, 7, -1):
        with pytest.raises(RowError) as caught:
            encode_shard(0, [1.0, 2.0], range(2), Odd(row), (range(2),))
        assert caught.value.row == row


def test_encoders_that_cannot_count_pass_and_an_empty_piece_is_a_chunk():
    class Silent:
        def row_count(self, payload):
            raise NotImplementedError

    check_row_count(Silent(), None, 3)
    check_row_count(object(), None, 3)
    (chunk,) = encode_shard(0, [], range(0), PlainEncoder(), (range(0),)).chunks
    assert (chunk.count, len(chunk.payload)) == (0, 0)


def test_a_shard_of_an_encoder_that_cannot_tell_its_size_has_none():
    class Sizeless(PlainEncoder):
        def nbytes(self, payload):
            raise TypeError

    assert Shard(0, (Chunk(2, np.zeros(2), range(2)),), Sizeless()).nbytes == 0
    assert Shard(0, (Chunk(2, np.zeros(2), range(2)),), PlainEncoder()).nbytes == 16


def test_columns_of_chunks_get_one_table_of_labels():
    one = Column(np.array([0, 1]), ("a", "b"), None, ())
    two = Column(np.array([0, 0]), ("b",), np.array([True, False]), ())
    (joined,) = join_columns([[one], [two]], np.array([3, 0, 1]))
    assert (joined.values.tolist(), joined.labels) == ([0, 1, 0], ("b", "a"))
    assert joined.missing.tolist() == [False, False, False]
    gone = Column(np.array([0, 0]), (), np.array([True, True]), ())
    (missing,) = join_columns([[gone], [gone]], np.array([0, 3]))
    assert (missing.labels, missing.missing.tolist()) == ((), [True, True])
    with pytest.raises(ContractError, match=r"^an encoder gave codes for some chunks and numbers for others; columns"):
        join_columns([[one], [Column(np.array([1.0]), None, None, ())]], np.array([0]))


def test_the_output_of_no_shard_is_empty_and_a_collection_stays_with_its_engine(registered):
    assert assemble([]).shape == (0,)

    class Keeping(LocalTransport):
        def collection(self, task):
            return ("kept", task.args)

    model = st.GaussianDistribution(0.0, 1.0)
    registered("keeping", Keeping)
    with encoded_data([1.0, 2.0], model.estimator(), backend="keeping") as handle:
        assert handle._each_row("posterior", model) == ("kept", ("posterior", model))


# Tasks


def test_a_chunk_without_a_small_draw_adds_nothing_to_a_sample():
    chunks = (Chunk(3, np.zeros(3), range(3)), Chunk(3, np.ones(3), range(3, 6)))
    shard = Shard(0, chunks, PlainEncoder())
    seed = next(
        seed for seed in range(99) if len({int(i) // 3 for i in np.argsort(_draws(seed, chunks))[:1]} - {1}) == 0
    )
    outcome = execute(Sample(seed, 1), shard)
    assert [places.tolist() for _, places, _ in outcome.value] == [[int(np.argmin(_draws(seed, chunks)))]]
    assert outcome.weight == 6.0


def _draws(seed, chunks):
    return np.concatenate([tasks._row_draws(seed, chunk) for chunk in chunks])


def test_a_task_says_in_which_precision_mixtures_compute():
    rows = np.random.RandomState(1).normal(size=64)
    estimator = st.MixtureEstimator([st.GaussianEstimator()] * 2)
    encoder = estimator.accumulator_factory().make().acc_to_encoder()
    shard = encode_shard(0, rows, range(64), encoder, (range(64),))
    model = st.MixtureDistribution([st.GaussianDistribution(-1.0, 1.0), st.GaussianDistribution(1.0, 1.0)], [0.5, 0.5])
    double, single = (execute(Accumulate(estimator, model, True, precision=p), shard) for p in ("float64", "float32"))
    assert double.error is single.error is None
    assert double.log_density != single.log_density == pytest.approx(double.log_density, rel=1e-5)


def test_where_the_system_tells_no_page_faults_a_receipt_has_none(monkeypatch):
    shard = Shard(2, (Chunk(1, np.zeros(1), range(1)),), PlainEncoder())
    told = execute(Accumulate(PlainEstimator(), None), shard, 3).receipt
    assert {"minor_faults", "major_faults", "peak_memory_bytes"} <= set(told)
    assert (told["worker"], told["bytes"]) == (3, 8)
    monkeypatch.setattr(tasks, "usage", lambda: None)
    silent = execute(Accumulate(PlainEstimator(), None), shard).receipt
    assert set(told) - set(silent) == {"minor_faults", "major_faults", "peak_memory_bytes", "worker"}
