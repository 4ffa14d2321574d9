"""The handle: four calls over any transport, the same bits over all of them, and errors that say what to do."""

import copy
import gc
import os
import pickle
import threading
import warnings

import numpy as np
import pytest
from fold_support import (
    SHARDS,
    ClosableTransport,
    FailingModel,
    PlainAccumulator,
    PlainEncoder,
    PlainEstimator,
    PlainModel,
    ReversedTransport,
    ScriptedTransport,
    handle_over,
    numbers,
)

from mixle.errors import (
    HandleClosed,
    ImpossibleEvidenceError,
    RoundLosses,
    RowError,
    SupportError,
    TaskError,
    WorkerLost,
)
from mixle.stats import (
    ExponentialDistribution,
    ExponentialEstimator,
    GaussianDistribution,
    GaussianEstimator,
    MixtureDistribution,
    MixtureEstimator,
)
from mixle.utils.parallel.folding.fold import EStep, fold_groups
from mixle.utils.parallel.folding.handle import EncodedDataHandle, EncodedFold, Handle, is_encoded_data_handle, is_ours
from mixle.utils.parallel.folding.inputs import make_source
from mixle.utils.parallel.folding.round import run_round
from mixle.utils.parallel.folding.shards import Contiguous, Strided
from mixle.utils.parallel.folding.tasks import Accumulate, Result, Score
from mixle.utils.parallel.transports.local import LocalEncodedData, LocalTransport


def fit(handle):
    estimator = PlainEstimator()
    start = handle.pysp_seq_initialize(estimator, 3, 0.3)
    model = handle.pysp_seq_estimate(estimator, start)
    nobs, value = handle.pysp_stream_accumulate(estimator, model)
    count, score = handle.pysp_seq_log_density_sum(model)
    return start.bits(), model.bits(), nobs, value, count, score.hex()


@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("sub_chunks", [1, 3])
def test_order_of_arrival_and_threads_change_no_bit(shards, sub_chunks):
    rows = numbers()
    reference = fit(handle_over(LocalTransport(), rows, shards, sub_chunks))
    assert fit(handle_over(LocalTransport(3), rows, shards, sub_chunks)) == reference
    assert fit(handle_over(ReversedTransport(), rows, shards, sub_chunks)) == reference


def test_the_e_step_is_a_hand_fold_of_the_documented_split():
    rows = numbers()
    total = PlainEstimator().accumulator_factory().make()
    for s in range(3):
        part = np.array(rows[s::3])
        shard = PlainEstimator().accumulator_factory().make()
        shard.seq_update(part, np.ones(len(part)), None)
        total.combine(shard.value())
    nobs, value = handle_over(LocalTransport(), rows, 3).pysp_stream_accumulate(PlainEstimator(), None)
    assert (nobs, value) == (103.0, total.value())


def test_a_start_is_the_same_across_shard_maps_to_rounding():
    rows = numbers()
    starts = [
        handle_over(LocalTransport(), rows, shards).pysp_seq_initialize(PlainEstimator(), 3, 0.3)
        for shards in (*SHARDS, Contiguous(4), 103)
    ]
    for start in starts:
        assert start.mu == pytest.approx(starts[0].mu, rel=1e-13)
        assert start.sigma2 == pytest.approx(starts[0].sigma2, rel=1e-12)


def test_one_pass_returns_statistic_and_score():
    handle, model = handle_over(LocalTransport(), numbers()), PlainModel(1.0, 3.0)
    step = handle.estep(PlainEstimator(), model)
    assert (step.nobs, step.value) == handle.pysp_stream_accumulate(PlainEstimator(), model)
    assert (step.nobs, step.log_density) == handle.pysp_seq_log_density_sum(model)
    assert handle.m_step(PlainEstimator(), step).bits() == handle.pysp_seq_estimate(PlainEstimator(), model).bits()
    assert np.isnan(handle.estep(PlainEstimator(), None).log_density)


def test_what_streams_is_not_scored():
    class Unscored(PlainModel):
        def seq_log_density(self, x):
            raise AssertionError("nobody asked for it")

    handle = handle_over(LocalTransport(), numbers())
    nobs, value = handle.pysp_stream_accumulate(PlainEstimator(), Unscored(0.0, 1.0))
    assert (nobs, value) == handle.pysp_stream_accumulate(PlainEstimator(), None)


def test_the_m_step_is_given_the_total_weight_and_may_keep_empty_components():
    class Keeping(PlainEstimator):
        def keep_empty(self, model, previous, value):
            return model, previous, value

    handle, estimator, model = handle_over(LocalTransport(), numbers()), Keeping(), PlainModel(0.0, 1.0)
    _, previous, value = handle.pysp_seq_estimate(estimator, model)
    assert estimator.seen == [103.0]
    assert previous is model
    assert value == handle.pysp_stream_accumulate(estimator, model)[1]
    assert isinstance(handle.pysp_seq_estimate(estimator, None), PlainModel)


def test_weights_are_what_repeated_rows_are():
    rows = [1.0, 2.0, 5.0]
    weighted = handle_over(LocalTransport(), rows, 2, weights=np.array([2.0, 0.0, 1.0]))
    assert weighted.pysp_stream_accumulate(PlainEstimator(), None) == (3.0, (7.0, 27.0, 3.0, 3.0))
    model = PlainModel(0.0, 1.0)
    repeated = handle_over(LocalTransport(), [1.0, 1.0, 5.0], 2)
    assert weighted.pysp_seq_log_density_sum(model) == pytest.approx(repeated.pysp_seq_log_density_sum(model))


def test_a_start_never_keeps_a_row_of_zero_weight():
    weights = np.zeros(103)
    weights[40:43] = 1.0
    estimator = PlainEstimator()
    handle_over(LocalTransport(), numbers(), 4, weights=weights).pysp_seq_initialize(estimator, 0, 1.0)
    assert estimator.seen == [3.0]


@pytest.mark.parametrize("shards", [1, 3, Contiguous(3)])
@pytest.mark.parametrize("first", [0, 7])
def test_a_start_that_keeps_no_row_uses_the_first_one(shards, first):
    rows = numbers()
    weights = None if first == 0 else np.where(np.arange(103) >= first, 1.0, 0.0)
    estimator = PlainEstimator()
    model = handle_over(LocalTransport(), rows, shards, weights=weights).pysp_seq_initialize(estimator, 0, 1e-12)
    assert model.mu == rows[first]
    assert estimator.seen == [1.0]


def test_a_random_state_is_advanced_and_any_source_of_randomness_is_taken():
    handle, state = handle_over(LocalTransport(), numbers()), np.random.RandomState(3)
    first, second = (handle.pysp_seq_initialize(PlainEstimator(), state, 0.3).bits() for _ in range(2))
    assert first == handle.pysp_seq_initialize(PlainEstimator(), 3, 0.3).bits()
    assert first != second
    for rng in (np.int64(3), np.random.default_rng(3)):
        assert isinstance(handle.pysp_seq_initialize(PlainEstimator(), rng, 0.3), PlainModel)


@pytest.mark.parametrize(
    ("rng", "p", "error", "words"),
    [
        (0, 0, ImpossibleEvidenceError, "p = 0 keeps no row"),
        (0, 0.0, ValueError, "p = 0 keeps no row"),
        (0, -0.1, ValueError, r"\(0, 1\]"),
        (0, 1.1, ValueError, r"\(0, 1\]"),
        (0, float("nan"), ValueError, r"\(0, 1\]"),
        (0, True, TypeError, "p must be a probability"),
        (0, "0.1", TypeError, "p must be a probability"),
        (0, None, TypeError, "p must be a probability"),
        (None, 0.1, TypeError, "pass e.g. rng=0"),
        (True, 0.1, TypeError, "pass e.g. rng=0"),
        ("seed", 0.1, TypeError, "pass e.g. rng=0"),
    ],
)
def test_wrong_arguments_of_a_start_are_refused(rng, p, error, words):
    with pytest.raises(error, match=words):
        handle_over(LocalTransport(), numbers()).pysp_seq_initialize(PlainEstimator(), rng, p)


class Components(PlainEstimator):
    def num_start_components(self):
        return 5


@pytest.mark.parametrize(
    ("rows", "weights", "words"),
    [
        ([1.0, 2.0], None, r"n=2\) .*K=5"),
        ([1.0] * 9, [1.0] * 4 + [0.0] * 5, r"n=4\) .*K=5"),
    ],
)
def test_a_start_needs_as_many_rows_as_components(rows, weights, words):
    handle = handle_over(LocalTransport(), rows, weights=None if weights is None else np.array(weights))
    with pytest.raises(ValueError, match=words):
        handle.pysp_seq_initialize(Components(), 0, 0.5)


def test_a_start_without_columns_to_seed_from_keeps_the_rows_that_are_drawn():
    handle = handle_over(LocalTransport(), numbers())
    plain = handle.pysp_seq_initialize(PlainEstimator(), 3, 0.3)
    assert handle.pysp_seq_initialize(Components(), 3, 0.3).bits() == plain.bits()


def test_a_start_of_too_many_components_says_how_many_columns_were_read():
    class Matrix(PlainEncoder):
        def seq_encode(self, rows):
            return rows

    handle = Handle(LocalTransport(), make_source(np.zeros((1, 55)), Matrix(), Strided(1), 1, None, None))
    with pytest.raises(ValueError, match=r"n=1\) .*K=5.*a row of 55 columns was read"):
        handle.pysp_seq_initialize(Components(), 0, 0.5)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda h: h.pysp_seq_log_density_sum(None), "a NoneType has no seq_log_density: pass the model to score"),
        (lambda h: h.pysp_seq_log_density(None), "a NoneType has no seq_log_density: pass the model to score"),
        (lambda h: h.pysp_seq_log_density([PlainModel(0.0, 1.0), 3]), "a int has no seq_log_density"),
        (lambda h: h.pysp_seq_estimate(None, None), "a NoneType is not an estimator: pass one"),
        (lambda h: h.pysp_seq_initialize(PlainModel(0.0, 1.0), 0, 0.5), "a PlainModel is not an estimator"),
        (lambda h: h.pysp_stream_accumulate(3, None), "a int is not an estimator"),
        (lambda h: h.estep(Components(), None), "Components needs a model to step from: pass a start"),
    ],
)
def test_what_is_no_model_or_estimator_is_refused_before_work(call, words):
    with pytest.raises(TypeError, match=words) as caught:
        call(handle_over(LocalTransport(), numbers()))
    assert not isinstance(caught.value, TaskError)


class Trouble(Exception):
    """Happens."""

    def __init__(self, code, where):
        super().__init__(code, where)
        self.code = code


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("no"),
        KeyError("k"),
        OSError(2, "gone"),
        UnicodeDecodeError("utf-8", b"x", 0, 1, "odd"),
        Trouble(7, "here"),
        RowError("is odd", "Plain", 0),
        MemoryError(),
        StopIteration(),
        RuntimeError("r"),
        ExceptionGroup("g", [ValueError("v")]),
    ],
    ids=lambda e: type(e).__name__,
)
def test_a_users_exception_is_raised_once_as_both_types(error):
    rows = [float(i) for i in range(9)]
    handle = handle_over(LocalTransport(), rows, 3)
    with pytest.raises(TaskError) as caught:
        handle.pysp_seq_log_density_sum(FailingModel(4.0, error))
    raised = caught.value
    assert isinstance(raised, RuntimeError)
    assert isinstance(raised, type(error))
    assert raised.shard == 1
    assert "seq_log_density" in raised.remote_traceback
    assert "seq_log_density" in str(raised.__cause__)
    assert type(error).__name__ in str(raised) or isinstance(error, RowError)
    again = pickle.loads(pickle.dumps(raised))
    assert (str(again), again.shard, isinstance(again, type(error))) == (str(raised), 1, True)
    assert handle.pysp_seq_log_density_sum(PlainModel(0.0, 1.0))[0] == 9.0


def test_a_surfaced_exception_keeps_what_the_users_carried():
    with pytest.raises(Trouble) as caught:
        handle_over(LocalTransport(), [1.0]).pysp_seq_log_density_sum(FailingModel(1.0, Trouble(7, "here")))
    assert caught.value.code == 7
    assert caught.value.args == (7, "here")
    kind = type(caught.value)
    assert (kind.__name__, kind.__module__, kind.__doc__) == ("Trouble", __name__, "Happens.")


def test_a_row_error_reads_the_same_on_every_backend_and_names_the_row():
    error = RowError("is odd", "Plain", 1)
    with pytest.raises(ValueError, match="is odd") as caught:
        handle_over(LocalTransport(), [float(i) for i in range(9)], 3).pysp_seq_log_density_sum(
            FailingModel(4.0, error)
        )
    assert str(caught.value) == "Row 4 (Plain): is odd"
    assert (caught.value.row, caught.value.shard) == (4, 1)
    assert caught.value.__notes__ == ["raised by shard 1"]


def test_the_first_failing_shard_is_raised_whatever_order_results_arrive_in():
    class EveryShard(PlainModel):
        def seq_log_density(self, x):
            raise ValueError(x[0])

    for transport in (LocalTransport(), ReversedTransport(), LocalTransport(3)):
        with pytest.raises(ValueError, match="shard 0") as caught:
            handle_over(transport, [float(i) for i in range(9)], 3).pysp_seq_log_density_sum(EveryShard(0.0, 1.0))
        assert caught.value.shard == 0


def results(*shards):
    return [Result(i, 1, 1.0, None, float(i)) for i in shards]


def test_losses_are_raised_after_what_arrived():
    lost = RoundLosses("one worker lost")
    lost.losses = (WorkerLost("gone"),)
    with pytest.raises(RoundLosses) as caught:
        run_round(ScriptedTransport(results(1), {0: 1, 1: 1}, lost), Score(None))
    assert caught.value is lost


def test_a_users_error_outranks_losses_and_names_them():
    failed = handle_over(LocalTransport(), [1.0], 1).transport
    (bad,) = failed.map(Score(FailingModel(1.0, KeyError("k"))))
    with pytest.raises(KeyError) as caught:
        run_round(ScriptedTransport([bad], {0: 1, 1: 1}, RoundLosses("two lost")), Score(None))
    assert "in the same round: two lost" in caught.value.__notes__


def test_a_transport_must_deliver_every_shard_once():
    once = "its map must yield one Result per shard"
    with pytest.raises(RuntimeError, match=f"^transport 'transport' delivered shard 1 twice in one round; {once}$"):
        run_round(ScriptedTransport(results(1, 1), {1: 1}), Score(None))
    words = rf"^transport 'transport' delivered no result for shards \[0, 2\]; {once}, or raise RoundLosses$"
    with pytest.raises(RuntimeError, match=words):
        run_round(ScriptedTransport(results(1), {0: 1, 1: 1, 2: 1}), Score(None))


def test_a_bad_row_is_refused_at_load_and_the_transport_is_closed():
    transport = ClosableTransport()
    with pytest.raises(RowError, match=r"Row 5 \(Plain\): 'x' is not a number"):
        handle_over(transport, [0.0, 1.0, 2.0, 3.0, 4.0, "x", 6.0])
    assert transport.closes == 1


def test_a_closed_handle_says_so_and_keeps_its_length():
    transport = ClosableTransport()
    with handle_over(transport, numbers()) as handle:
        assert not handle.closed
    handle.close()
    assert handle.closed
    assert len(handle) == handle.size == 103
    calls = {
        "llsum": lambda: handle.pysp_seq_log_density_sum(PlainModel(0.0, 1.0)),
        "update": lambda: handle.pysp_seq_estimate(PlainEstimator(), None),
        "init": lambda: handle.pysp_seq_initialize(PlainEstimator(), 0, 0.5),
    }
    for verb, call in calls.items():
        message = f"this parallel encoded-data handle is closed: {verb} cannot be served"
        with pytest.raises(HandleClosed, match=message) as caught:
            call()
        assert isinstance(caught.value, RuntimeError)


class Blocking(ClosableTransport):
    """A pool that works until it is closed, and then fails in its own words."""

    def __init__(self):
        super().__init__()
        self.busy, self.down = threading.Event(), threading.Event()

    def map(self, task):
        yield from list(super().map(task))[:1]
        self.busy.set()
        self.down.wait(60)
        raise OSError("the pipe is gone")

    def close(self):
        super().close()
        self.down.set()


def test_closing_ends_the_call_of_another_thread_and_refuses_those_behind_it():
    handle, caught = handle_over(Blocking(), numbers()), []

    def work():
        with pytest.raises(HandleClosed, match="update cannot be served") as error:
            handle.pysp_seq_estimate(PlainEstimator(), None)
        caught.append(error.value)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert handle.transport.busy.wait(60)
    handle.close()
    for thread in threads:
        thread.join(60)
    assert len(caught) == 3
    assert sorted(type(error.__cause__).__name__ for error in caught) == ["NoneType", "NoneType", "OSError"]


def test_closing_a_local_handle_changes_nothing():
    handle = handle_over(LocalTransport(), numbers())
    handle.close()
    assert not handle.closed
    assert handle.pysp_seq_estimate(PlainEstimator(), None).mu == pytest.approx(np.mean(numbers()))


@pytest.mark.parametrize("copying", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_handle_cannot_be_pickled_or_copied(copying):
    with pytest.raises(TypeError, match=r"call encoded_data\(rows, estimator\) where they arrive"):
        copying(handle_over(LocalTransport(), numbers()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_handle_does_not_work_in_a_forked_child():
    transport = ClosableTransport()
    handle = handle_over(transport, numbers())
    read, write = os.pipe()
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads are alive: the child only writes and ends
        pid = os.fork()
    if pid == 0:
        try:
            handle.close()
            handle.pysp_seq_estimate(PlainEstimator(), None)
        except TypeError as error:
            os.write(write, f"{transport.closes} {error}".encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    assert text.startswith("0 this Handle was made before a fork")
    assert "call encoded_data(rows, estimator) in this process" in text
    assert not handle.closed


def test_two_threads_on_one_handle_take_turns():
    inside, most = [], []

    class Watched(LocalTransport):
        def map(self, task):
            inside.append(1)
            most.append(len(inside))
            yield from super().map(task)
            inside.pop()

    handle = handle_over(Watched(), numbers())
    gate = threading.Barrier(4)

    def work():
        gate.wait()
        for _ in range(20):
            handle.pysp_seq_estimate(PlainEstimator(), None)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1
    assert len(most) == 80


def test_only_our_own_methods_are_fused(monkeypatch):
    handle = handle_over(LocalTransport(), numbers())
    assert is_ours(handle)

    class Sub(Handle):
        def pysp_seq_estimate(self, estimator, prev_estimate):
            return super().pysp_seq_estimate(estimator, prev_estimate)

    assert not is_ours(Sub(LocalTransport(), make_source([1.0], PlainEncoder(), Strided(1), 1, None, None)))
    assert not is_ours(object())
    handle.pysp_seq_log_density_sum = handle.pysp_seq_estimate
    assert not is_ours(handle)
    other = handle_over(LocalTransport(), numbers())
    with monkeypatch.context() as patch:
        patch.setattr(Handle, "pysp_seq_estimate", Handle.pysp_stream_accumulate)
        assert not is_ours(other)
    assert is_ours(other)


def test_a_handle_is_told_by_structure():
    class Foreign:
        pysp_seq_log_density_sum = pysp_seq_estimate = pysp_seq_initialize = pysp_stream_accumulate = None

    assert is_encoded_data_handle(handle_over(LocalTransport(), numbers()))
    assert isinstance(Foreign(), EncodedFold) == is_encoded_data_handle(Foreign())
    assert not is_encoded_data_handle(Foreign)
    assert not is_encoded_data_handle([1.0])


def test_the_base_class_documents_and_does_nothing():
    with EncodedDataHandle() as base:
        for call, verb in (
            (lambda: base.pysp_seq_log_density_sum(None), "score"),
            (lambda: base.pysp_seq_estimate(None, None), "estimate"),
            (lambda: base.pysp_seq_initialize(None, None, 0.1), "initialize"),
            (lambda: base.pysp_stream_accumulate(None, None), "accumulate"),
        ):
            with pytest.raises(NotImplementedError, match=f"^EncodedDataHandle does not {verb}$"):
                call()


def test_a_round_over_unlike_builds_says_so_once():
    class Mixed(LocalTransport):
        def map(self, task):
            for result in super().map(task):
                result.receipt["build"] = f"numpy {result.shard % 2}"
                yield result

    handle = handle_over(Mixed(), numbers())
    with pytest.warns(UserWarning, match="unlike builds.*: numpy 0; numpy 1") as caught:
        handle.pysp_seq_estimate(PlainEstimator(), None)
    handle.pysp_seq_estimate(PlainEstimator(), None)  # a second warning would be an error
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_rows_that_no_component_supports_are_counted_and_all_of_them_are_an_error():
    class Skipping(PlainAccumulator):
        def seq_update_scored(self, x, weights, estimate):
            kept = (x < estimate.mu).astype(float)
            self.seq_update(x, kept, estimate)
            return 0.0, int(len(x) - kept.sum())

    class Factory:
        make = Skipping

    class Estimator(PlainEstimator):
        def accumulator_factory(self):
            return Factory()

    handle = handle_over(LocalTransport(), [float(i) for i in range(9)])
    assert handle.estep(Estimator(), PlainModel(6.0, 1.0)).left_out == handle.left_out == 3
    assert handle.pysp_seq_estimate(Estimator(), PlainModel(6.0, 1.0)).mu == 2.5
    assert handle.estep(Estimator(), PlainModel(-1.0, 1.0)).left_out == 9
    with pytest.raises(ValueError, match="no component supports any row"):
        handle.pysp_seq_estimate(Estimator(), PlainModel(-1.0, 1.0))


def test_all_rows_are_left_out_although_one_of_zero_weight_is_supported():
    estimator = MixtureEstimator([ExponentialEstimator(), ExponentialEstimator()])
    model = MixtureDistribution([ExponentialDistribution(1.0), ExponentialDistribution(2.0)], [0.5, 0.5])
    handle = LocalEncodedData([-1.0, -2.0, 3.0], estimator, weights=[1.0, 1.0, 0.0])
    assert (handle.size, handle.counted) == (3, 2)
    with pytest.raises(SupportError, match="no component supports any row"):
        handle.pysp_seq_estimate(estimator, model)


def test_densities_come_chunk_by_chunk():
    rows, model, other = numbers(11), PlainModel(1.0, 2.0), PlainModel(0.0, 1.0)
    weights = np.arange(11.0)
    handle = handle_over(ReversedTransport(), rows, 3, sub_chunks=2, weights=weights)
    parts = [rows[start::6] for start in (0, 3, 1, 4, 2, 5)]
    found = handle.pysp_seq_log_density(model)
    assert [part.tolist() for part in found] == [model.seq_log_density(np.array(part)).tolist() for part in parts]
    pair = handle.pysp_seq_log_density([model, other])
    assert [part.shape for part in pair] == [(2, len(part)) for part in parts]
    np.testing.assert_array_equal(pair[1][0], found[1])
    np.testing.assert_array_equal(pair[1][1], other.seq_log_density(np.array(parts[1])))


def test_densities_of_another_shape_are_refused():
    class Scalar(PlainModel):
        def seq_log_density(self, x):
            return 0.0

    with pytest.raises(ValueError, match=r"Scalar.seq_log_density returned shape \(\) for 35 rows"):
        handle_over(LocalTransport(), numbers()).pysp_seq_log_density(Scalar(0.0, 1.0))


def test_a_repr_tells_rows_shards_and_state():
    with handle_over(ClosableTransport(), numbers()) as handle:
        assert repr(handle) == "<Handle: 103 rows in 3 shards on pool>"
    assert repr(handle) == "<Handle: 103 rows in 3 shards on pool, closed>"


def test_apply_answers_in_shard_order():
    handle = handle_over(ReversedTransport(), numbers(10), 3)
    assert handle.apply(lambda shard, k: (shard.id, shard.rows * k), 2) == [(0, 8), (1, 6), (2, 6)]


# Word for word, and who is asked


def words_of(error, call):
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def test_refusals_of_a_handle_in_words():
    handle, estimator = handle_over(LocalTransport(), numbers()), Components()
    assert words_of(TypeError, lambda: handle.estep(estimator, None)) == (
        "Components needs a model to step from: pass a start, e.g. handle.pysp_seq_initialize(estimator, rng=0, p=0.1)"
    )
    assert words_of(TypeError, lambda: handle.estep(3, None)) == (
        "a int is not an estimator: pass one, e.g. model.estimator()"
    )
    assert words_of(TypeError, lambda: pickle.dumps(handle)) == (
        "a Handle cannot be pickled or copied: it holds encoded rows and workers of this process. Send the rows and "
        "the model, and call encoded_data(rows, estimator) where they arrive"
    )
    handle._pid += 1
    assert words_of(TypeError, lambda: handle.estep(estimator, None)) == (
        f"this Handle was made before a fork and works only in process {handle._pid}: call encoded_data(rows, "
        "estimator) in this process"
    )


def test_an_m_step_of_no_row_says_what_to_start_from():
    handle = handle_over(LocalTransport(), numbers(5))
    step = EStep(5.0, (1.0, 2.0, 5.0, 5.0), 0.0, 4)
    assert handle.m_step(PlainEstimator(), step).mu == 0.2
    told = words_of(SupportError, lambda: handle.m_step(PlainEstimator(), step._replace(left_out=5), PlainModel(0, 1)))
    assert told == str(
        SupportError("no component supports any row; start from a model whose support covers the data", "PlainModel")
    )
    assert "no component supports any row; start from a model whose support covers the data" in told


class Verifying(LocalTransport):
    """Looks at each fold and each M-step, as an audit does, and puts another in its place."""

    def verified_fold(self, estimator, fold):
        self.folds = [fold(), fold()]
        return 2.0 * self.folds[1][0], self.folds[1][1]

    def verified_m_step(self, model, args):
        self.steps = (model, args)
        return "checked"


def test_folds_and_m_steps_are_checked_where_the_transport_asks_for_it():
    rows, estimator, model = numbers(), PlainEstimator(), PlainModel(1.0, 2.0)
    transport = Verifying()
    handle, plain = handle_over(transport, rows), handle_over(LocalTransport(), rows)
    expected = plain.estep(estimator, model)
    step = handle.estep(estimator, model)
    assert transport.folds == [(expected.nobs, expected.value)] * 2
    assert step == expected._replace(nobs=2.0 * expected.nobs)
    assert handle.m_step(estimator, step, model) == "checked"
    made, args = transport.steps
    assert made.bits() == plain.m_step(estimator, expected).bits()
    assert args == (estimator, step.nobs, step.value, model)


class Grouping(LocalTransport):
    """Adds up whole groups of shards where they live."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def map(self, task):
        self.asked.append("map")
        return super().map(task)

    def map_groups(self, task):
        self.asked.append("groups")
        return iter(fold_groups(task.estimator, list(super().map(task)), len(self.sizes)))


@pytest.mark.parametrize(("shards", "verb"), [(256, "map"), (257, "groups")])
def test_more_shards_than_a_group_holds_are_added_up_in_place(shards, verb):
    rows, estimator, model = numbers(600), GaussianEstimator(), GaussianDistribution(1.0, 2.0)
    encoder = model.dist_to_encoder()
    transport = Grouping()
    handle = Handle(transport, make_source(rows, encoder, Strided(shards), 1, None, estimator))
    plain = LocalEncodedData(rows, estimator, num_shards=Strided(shards))
    assert handle.pysp_seq_estimate(estimator, model).digest() == plain.pysp_seq_estimate(estimator, model).digest()
    assert transport.asked == [verb]
    assert handle.pysp_seq_log_density_sum(model) == plain.pysp_seq_log_density_sum(model)
    assert transport.asked == [verb, "map"]


def test_groups_are_added_up_only_on_request():
    transport = Grouping()
    handle_over(transport, numbers(9))
    run_round(transport, Accumulate(PlainEstimator(), None))
    run_round(transport, Accumulate(PlainEstimator(), None), groups=True)
    assert transport.asked == ["map", "groups"]


def test_what_a_policy_hands_on_adds_up_no_groups():
    asked = []

    class Outer:
        def __init__(self):
            self.sizes = {0: 1}

        def map(self, task):
            asked.append("map")
            return iter(results(0))

        def round_begins(self, task):
            asked.append(task)

        def __getattr__(self, name):
            return getattr(Grouping(), name)

    task = Score(None)
    assert [one.shard for one in run_round(Outer(), task, groups=True)] == [0]
    assert asked == [task, "map"]


def test_a_watch_stands_between_round_and_transport():
    transport, task = ScriptedTransport(results(1, 0), {0: 1, 1: 1}), Score(None)
    seen = []

    def watch(run, given):
        seen.append((run, given))
        return run(given)

    assert [one.shard for one in run_round(transport, task, watch)] == [0, 1]
    assert seen == [(transport.map, task)]


def test_a_handle_without_a_source_takes_the_transport_as_it_is():
    source = make_source(numbers(), PlainEncoder(), Strided(3), 1, np.arange(103.0), None)
    transport = LocalTransport()
    transport.load(source)
    handle = Handle(transport)
    assert (handle.size, handle.counted, handle.encoder, handle.num_shards) == (103, 103, None, 3)
    assert (handle.is_root, handle.precision, handle.left_out) == (True, "float64", 0)
    assert handle.agree("value") == "value"
    weighted = Handle(LocalTransport(), source)
    assert (weighted.counted, weighted.encoder) == (102, PlainEncoder())


def test_unlike_builds_are_told_in_words():
    class Mixed(LocalTransport):
        def map(self, task):
            for result in super().map(task):
                result.receipt["build"] = f"numpy {2 - result.shard % 2}"
                yield result

    handle = handle_over(Mixed(), numbers())
    with pytest.warns(
        UserWarning, match="^workers compute with unlike builds, so bits depend on who does what: numpy 1; "
    ):
        handle.pysp_seq_estimate(PlainEstimator(), None)
    handle.pysp_seq_estimate(PlainEstimator(), None)


def test_keys_of_an_estimator_are_looked_at_once():
    looked = []

    class Keyed(PlainEstimator):
        def accumulator_factory(self):
            looked.append(self)
            return super().accumulator_factory()

    handle, one, other = handle_over(LocalTransport(), numbers(), 1), Keyed(), Keyed()
    handle.pysp_stream_accumulate(one, None)
    first = len(looked)
    handle.pysp_stream_accumulate(one, None)
    again = len(looked) - first
    assert first > again > 0
    handle.pysp_stream_accumulate(other, None)
    assert len(looked) == 2 * first + again
