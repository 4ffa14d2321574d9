"""What every cluster engine is given: parts as bytes, orders as bytes, frames back. Here the engine is one desk."""

from __future__ import annotations

import pickle
import sys
import types
from itertools import pairwise

import cloudpickle
import numpy as np
import pytest
from fold_support import FailingModel, PlainAccumulator, PlainEncoder, PlainEstimator, PlainModel, numbers

import mixle.stats as st
from bits import bits
from mixle.errors import (
    AlteredPayload,
    BackendError,
    ContractError,
    RoundLosses,
    RowError,
    SourceChanged,
    TaskError,
    WorkerLost,
)
from mixle.utils.parallel.folding.engine import (
    EngineTransport,
    PartitionSource,
    losses_of,
    parcels,
    partition_source,
    rows_source,
)
from mixle.utils.parallel.folding.fold import GroupSum, fold_results
from mixle.utils.parallel.folding.handle import Handle
from mixle.utils.parallel.folding.remote import (
    Encoded,
    Encoding,
    Order,
    add_up,
    by_value,
    encode_part,
    perform,
    read_order,
)
from mixle.utils.parallel.folding.shards import Contiguous, Strided
from mixle.utils.parallel.folding.tasks import Accumulate, Result, Score
from mixle.utils.parallel.folding.travel import Parcel, pack, pack_results, rows_of, unpack, unpack_results
from traces import problem, reference, trace

FEW = ["gaussian", "mixture of composite", "mixture of optional"]


class Desk(EngineTransport):
    """Parts lie encoded on one desk; nothing but bytes passes in and out, the last part first."""

    name = "desk"

    def encode(self, source, encoding):
        if isinstance(source, PartitionSource):
            reads = [lambda part=part: part() if callable(part) else part for part in source.collection]
        else:
            reads = [lambda parcel=parcel: unpack(parcel) for parcel in parcels(source)]
        self.held = [encode_part(unpack(encoding), index, read) for index, read in enumerate(reads)]
        return [unpack(pack(one.summary)) for one in reversed(self.held)]

    def map(self, task):
        order = self.order(task)
        for encoded in reversed(self.held):
            result = perform(read_order(order), encoded, f"drawer {encoded.part % 2}")
            if result is not None:
                yield from self.read(pack_results([result], definitions=True))

    def map_groups(self, task):
        order = unpack(self.order(task))
        results = [perform(order, encoded, "drawer") for encoded in reversed(self.held)]
        for start in range(0, len(results), 256):
            group = [result for result in results if result.shard // 256 == start // 256]
            yield from self.read(pack_results(add_up(order, group)))

    def close(self):
        self.held = []


def encoder_of(estimator):
    return estimator.accumulator_factory().make().acc_to_encoder()


def desk(rows, estimator, **given):
    settings = {"sub_chunks": 1, "default": Contiguous(3), "num_shards": None, "weights": None, **given}
    return Handle(Desk(), rows_source("Desk", rows, encoder_of(estimator), estimator, **settings))


def collected(parts, estimator, sub_chunks=1, encoder=None):
    source = partition_source("Desk", parts, encoder or encoder_of(estimator), estimator, sub_chunks)
    transport = Desk()
    return Handle(transport, source), transport


@pytest.mark.parametrize("name", FEW)
def test_rows_of_the_driver_give_the_bits_of_one_thread(name):
    rows, estimator = problem(name)
    assert trace(desk(rows, estimator, num_shards=4), estimator) == reference(name, Strided(4))
    assert trace(desk(rows, estimator, sub_chunks=2), estimator) == reference(name, Contiguous(3), 2)


@pytest.mark.parametrize("name", FEW)
def test_partitions_give_the_bits_of_one_thread_and_empty_ones_are_no_shards(name):
    rows, estimator = problem(name)
    edges = [0, 0, 7, 7, len(rows) - 5, len(rows)]
    parts = [rows[a:b] for a, b in pairwise(edges)]
    handle, transport = collected(parts, estimator, 2)
    sizes = (7, len(rows) - 12, 5)
    assert trace(handle, estimator) == reference(name, Contiguous(sizes=sizes), 2)
    assert transport.partitions == 5
    assert transport.sizes == dict(enumerate(sizes))


def test_weights_travel_with_their_rows():
    rows, weights = numbers(40), np.arange(40.0) % 3
    estimator = st.GaussianEstimator()
    told = desk(rows, estimator, weights=weights, num_shards=3).estep(estimator, None)
    twice = [row for row, weight in zip(rows, weights, strict=True) for _ in range(int(weight))]
    assert told.nobs == weights.sum()
    assert estimator.estimate(*told[:2]).mu == pytest.approx(np.mean(twice), rel=1e-12)


def test_workers_get_numbers_in_the_order_they_are_heard_of():
    handle, transport = collected([numbers(5), numbers(6), numbers(7)], PlainEstimator())
    results = list(transport.map(Score(PlainModel(0.0, 1.0))))
    assert [(r.shard, r.receipt["worker"]) for r in results] == [(2, 0), (1, 1), (0, 0)]
    assert all(r.receipt["payload_bytes"] > 0 and "name" not in r.receipt for r in results)
    assert transport.number("drawer 1") == 1
    assert transport.number("another") == 2
    (nameless,) = transport.read(pack_results([Result(0, 1, 1.0, None, None)]))
    assert "worker" not in nameless.receipt
    assert handle.pysp_seq_log_density_sum(PlainModel(0.0, 1.0))[0] == 18.0


@pytest.mark.parametrize("given", [{"weights": [1.0]}, {"num_shards": 2}, {"weights": [1.0], "num_shards": 2}])
def test_a_collection_takes_nothing_that_only_rows_of_the_driver_can_have(given):
    with pytest.raises(BackendError) as caught:
        partition_source("Desk", [], PlainEncoder(), None, 1, **{"weights": None, **given})
    assert str(caught.value) == (
        f"Desk: the shards of a collection are its partitions, so it takes no {' and no '.join(given)}; "
        "repartition the collection, or pass rows of this process"
    )


def test_a_source_knows_how_many_rows_count_only_where_the_driver_holds_them():
    assert partition_source("Desk", [[1.0]], PlainEncoder(), None, 4).sub_chunks == 4
    assert partition_source("Desk", [[1.0]], PlainEncoder(), None, 3).counted is None
    held = rows_source(
        "Desk", [1.0, 2.0], PlainEncoder(), None, 1, default=Contiguous(2), num_shards=None, weights=[0.0, 1.0]
    )
    assert (held.counted, held.first_counted, held.shards) == (1, 1, (range(1), range(1, 2)))


@pytest.mark.parametrize("sub_chunks", [1, 2])
def test_a_bad_row_of_a_partition_is_named_by_its_position_in_the_data(sub_chunks):
    parts = [numbers(4), [], [1.0, 2.0, "x", 3.0]]
    with pytest.raises(RowError, match=r"Row 6 \(Plain\): 'x' is not a number"):
        collected(parts, PlainEstimator(), sub_chunks)


@pytest.mark.parametrize("shards", [Strided(2), Contiguous(2)])
def test_a_bad_row_of_the_driver_is_named_by_its_position_in_the_data(shards):
    with pytest.raises(RowError, match=r"Row 6 \(Plain\): 'x' is not a number"):
        desk([*numbers(6), "x", 1.0], PlainEstimator(), num_shards=shards)


def test_a_source_that_cannot_be_read_is_named():
    def gone():
        raise OSError("no such block")

    with pytest.raises(TaskError, match=r"no such block \(while partition 1 was read and encoded\)$") as caught:
        collected([numbers(4), gone], PlainEstimator())
    assert isinstance(caught.value, OSError)


def test_chunks_of_the_user_keep_their_positions():
    counts = [(3, np.array([1.0, 2.0, 3.0])), (0, np.empty(0)), (2, np.array([4.0, 5.0]))]
    source = PartitionSource(None, None, PlainEncoder(), (), (), None, [counts, counts[:1]], chunks=True)
    transport = Desk()
    handle = Handle(transport, source)
    assert [chunk.positions for chunk in transport.held[0].shard.chunks] == [range(3), range(3, 5)]
    assert transport.sizes == {0: 5, 1: 3}
    assert handle.estep(PlainEstimator(), None).value == (21.0, 69.0, 8.0, 8.0)
    wrong = PartitionSource(None, None, PlainEncoder(), (), (), None, [[(2, np.array([1.0]))]], chunks=True)
    with pytest.raises(ContractError, match="PlainEncoder encoded 1 rows where 2 were given"):
        Handle(Desk(), wrong)


def test_a_partition_that_was_computed_again_must_have_the_rows_it_had():
    transport = Desk()
    handle = Handle(transport, partition_source("Desk", [[1.0, 2.0], [3.0]], PlainEncoder(), None, 1))
    encoding = unpack(pack(Encoding(PlainEncoder())))
    same = encode_part(encoding, 1, lambda: [3.0])
    assert same.mark == transport.held[1].mark
    transport.held[1] = encode_part(encoding, 1, lambda: [3.0, 4.0])
    words = r"partition 1 was computed again and its rows are not those of before \(2 rows now\)\. A source must give"
    with pytest.raises(SourceChanged, match=words):
        handle.estep(PlainEstimator(), None)
    transport.held[1] = Encoded(1, 1, same.mark, None, None)
    with pytest.raises(SourceChanged, match="partition 1 was computed again"):
        handle.estep(PlainEstimator(), None)
    transport.held[1] = encode_part(encoding, 1, lambda: ["x"])
    with pytest.raises(TaskError, match=r"Row 0 \(Plain\): 'x' is not a number"):
        handle.estep(PlainEstimator(), None)


def test_groups_are_added_up_where_they_lie():
    rows = numbers(300)
    estimator = st.GaussianEstimator()
    _, transport = collected([[row] for row in rows], estimator)
    order = Accumulate(estimator, None)
    grouped = sorted(transport.map_groups(order), key=lambda result: result.shard)
    assert isinstance(grouped[0].value, GroupSum)
    assert [r.value for r in grouped[1:256]] == [None] * 255
    assert isinstance(grouped[256].value, GroupSum)
    plain = fold_results(estimator, transport.map(order))
    assert bits(fold_results(estimator, grouped)) == bits(plain)


class Refusing(PlainAccumulator):
    def combine(self, value):
        raise ArithmeticError("no sum today")


class RefusingEstimator(PlainEstimator):
    def accumulator_factory(self):
        return type("Factory", (), {"make": Refusing})


def test_what_goes_wrong_in_a_group_goes_on_as_its_results_errors():
    _, transport = collected([[float(i)] for i in range(257)], PlainEstimator())
    failed = list(transport.map_groups(Accumulate(RefusingEstimator(), None)))
    assert len(failed) == 257
    assert all(r.value is None and "no sum today" in r.error.message for r in failed)
    scored = Accumulate(PlainEstimator(), FailingModel(3.0, ValueError("three")), scored=True)
    some = sorted(transport.map_groups(scored), key=lambda result: result.shard)
    assert [r.shard for r in some if r.error is not None] == [3]
    assert [r.value for r in some[:256]] == [None] * 256
    assert some[256].value == GroupSum(1.0, (256.0, 256.0**2, 1.0, 1.0))


def test_a_loss_says_what_is_missing():
    cause = OSError("gone")
    group = losses_of("executor 3 exited", [4, 7], cause, 3)
    assert isinstance(group, RoundLosses)
    assert str(group) == "executor 3 exited; shards [4, 7] are missing"
    assert group.__cause__ is cause
    (lost,) = group.losses
    assert isinstance(lost, WorkerLost)
    assert (lost.worker, lost.shards, lost.cause, lost.__cause__) == (3, (4, 7), "executor 3 exited", cause)
    assert losses_of("x", [0]).losses[0].worker == -1


def test_a_function_travels_by_value_and_finds_its_module_by_the_paths_of_the_driver(monkeypatch, tmp_path):
    (tmp_path / "far_module.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import far_module

    assert by_value(far_module.double)(3) == 6
    letter = cloudpickle.dumps(by_value(far_module.double))
    monkeypatch.delitem(sys.modules, "far_module")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
    before = list(sys.path)
    assert pickle.loads(letter)(4) == 8
    assert sys.path == [*before, str(tmp_path)]
    assert pickle.loads(letter)(5) == 10
    assert sys.path == [*before, str(tmp_path)]


def test_rows_may_come_another_way_than_their_order():
    source = rows_source(
        "Desk", numbers(9), PlainEncoder(), None, 2, default=Contiguous(2), num_shards=None, weights=range(9)
    )
    told = rows_of(source, 1, rows=False)
    assert told.rows is None
    assert (told.positions, told.pieces) == (range(4, 9), (range(4, 6), range(6, 9)))
    assert told.weights.tolist() == [4.0, 5.0, 6.0, 7.0, 8.0]
    assert rows_of(source, 1).rows == numbers(9)[4:]
    assert unpack(pack(Parcel(["a", None]))).value == ["a", None]


def test_a_class_without_a_name_travels_with_its_definition():
    def local(x):
        return x + 1

    assert unpack(pack((local, 2)))[0](2) == 3
    assert unpack(pack(local, definitions=True))(3) == 4


def test_only_what_no_import_finds_travels_with_its_definition(monkeypatch):
    task = Accumulate(st.GaussianEstimator(), st.GaussianDistribution(0.0, 1.0))
    assert pack(task, definitions=True) == pack(task)
    script = types.ModuleType("__main__")
    exec("class Law:\n    def twice(self):\n        return 2", script.__dict__)
    monkeypatch.setitem(sys.modules, "__main__", script)
    frame = pack([script.Law()], definitions=True)
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    assert unpack(frame)[0].twice() == 2


def test_modules_that_a_user_registers_travel_with_their_definitions():
    plain = pack(PlainEncoder(), definitions=True)
    cloudpickle.register_pickle_by_value(sys.modules[PlainEncoder.__module__])
    try:
        whole = pack(PlainEncoder(), definitions=True)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[PlainEncoder.__module__])
    assert b"cloudpickle" in whole
    assert b"cloudpickle" not in plain


def test_an_order_is_read_once_and_each_frame_anew():
    one, other = (pack(Order(Score(st.GaussianDistribution(mu, 1.0)), {})) for mu in (1.0, 2.0))
    first = read_order(one)
    assert read_order(one) is first
    assert (first.task.model.mu, read_order(other).task.model.mu) == (1.0, 2.0)
    with pytest.raises(AlteredPayload):
        read_order(other[:-1])
    assert read_order(other).task.model.mu == 2.0
    assert read_order(bytes(bytearray(one))) is not first


def test_a_value_that_cannot_travel_becomes_the_error_of_its_result():
    results = [Result(0, 2, 2.0, [1.0], None, {"seconds": 1.0}), Result(1, 3, 3.0, [sys._getframe()], -4.0, {"a": 1})]
    good, bad = unpack_results(pack_results(results))
    assert (good.shard, good.rows, good.weight, good.value, good.error) == (0, 2, 2.0, [1.0], None)
    assert (bad.shard, bad.rows, bad.weight, bad.value, bad.log_density) == (1, 3, 0.0, None, None)
    assert bad.receipt == {"a": 1, "payload_bytes": bad.receipt["payload_bytes"]}
    assert bad.error.type_name == "TypeError"
    assert "raised while a worker sent back a value of type list" in bad.error.traceback_text
