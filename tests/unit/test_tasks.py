"""Tasks: pure functions of a shard, and a draw per row that depends on nothing but seed and position."""

import pickle
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from fold_support import FailingModel, PlainAccumulator, PlainEncoder, PlainEstimator, PlainModel, Recording, numbers
from hypothesis import given
from hypothesis import strategies as st

import mixle.stats as st_
from mixle.errors import RowError
from mixle.stats.identities import current
from mixle.stats.refusals import check_models
from mixle.utils.parallel.folding import draws as drawing
from mixle.utils.parallel.folding import tasks
from mixle.utils.parallel.folding.build import build_key
from mixle.utils.parallel.folding.digests import rows_digest
from mixle.utils.parallel.folding.draws import draws
from mixle.utils.parallel.folding.model_digest import model_digest
from mixle.utils.parallel.folding.shards import Strided, cut, encode_shard, pick
from mixle.utils.parallel.folding.tasks import Accumulate, Apply, Initialize, Sample, Score, execute


def shard_of(rows, number=0, count=1, sub_chunks=1, weights=None):
    shard_map = Strided(count)
    positions = shard_map.resolve(len(rows))[number]
    part = None if weights is None else pick(np.asarray(weights, float), positions)
    return encode_shard(
        number, pick(rows, positions), positions, PlainEncoder(), cut(positions, sub_chunks, shard_map), part
    )


@given(
    st.integers(0, 2**31 - 1),
    st.integers(0, 10**6),
    st.integers(0, 300),
    st.sampled_from([1, 2, 3, 4, 5, drawing.SKIP_LIMIT, drawing.SKIP_LIMIT + 1, 97, 1024]),
)
def test_a_row_draws_the_same_number_in_every_range(seed, start, count, step):
    from numpy.random import Generator, Philox

    positions = range(start, start + count * step, step)
    found = draws(seed, positions)
    assert found.shape == (count,)
    for i in {0, count // 2, count - 1} if count else ():
        generator = Philox(key=seed)
        generator.advance(positions[i] // 4)
        assert found[i] == Generator(generator).random(4)[positions[i] % 4]


@pytest.mark.parametrize("step", [1, drawing.SKIP_LIMIT, drawing.SKIP_LIMIT + 1])
def test_draws_do_not_depend_on_the_block(monkeypatch, step):
    positions = range(7, 7 + 1000 * step, step)
    whole = draws(3, positions)
    monkeypatch.setattr(drawing, "BLOCK", 64)
    assert (draws(3, positions) == whole).all()


def test_one_accumulator_serves_all_chunks_of_a_shard():
    estimator = Recording()
    rows = numbers(20)
    result = execute(Accumulate(estimator, None), shard_of(rows, sub_chunks=3))
    expected = PlainAccumulator()
    for j in range(3):
        part = np.array(rows[j::3])
        expected.seq_update(part, np.ones(len(part)), None)
    assert len(estimator.made) == 1
    assert result.value == expected.value()
    assert (result.rows, result.weight, result.log_density, result.error) == (20, 20.0, None, None)


def test_the_e_step_scores_the_model_it_was_given():
    rows, model = numbers(20), PlainModel(1.0, 2.0)
    shard = shard_of(rows, sub_chunks=2)
    both = execute(Accumulate(PlainEstimator(), model), shard)
    assert both.log_density == execute(Score(model), shard).log_density
    assert both.log_density == pytest.approx(model.seq_log_density(np.array(rows)).sum(), rel=1e-12)
    assert execute(Accumulate(PlainEstimator(), model, scored=False), shard).log_density is None


def test_an_accumulator_that_scores_is_asked_once():
    class Scoring(PlainAccumulator):
        def seq_update(self, x, weights, estimate):
            raise AssertionError("the scored form is there")

        def seq_update_scored(self, x, weights, estimate):
            PlainAccumulator.seq_update(self, x, np.ones(len(x)) if weights is None else weights, estimate)
            return 7.0, 2

    class Factory:
        make = Scoring

    class Estimator:
        def accumulator_factory(self):
            return Factory()

    result = execute(Accumulate(Estimator(), PlainModel(0.0, 1.0)), shard_of(numbers(10), sub_chunks=3))
    assert result.log_density == 21.0
    assert result.receipt["left_out"] == 6


def test_weights_multiply_statistics_and_scores():
    rows, weights, model = [1.0, 2.0, 4.0], [0.5, 0.0, 2.0], PlainModel(0.0, 1.0)
    result = execute(Accumulate(PlainEstimator(), model), shard_of(rows, weights=weights))
    assert result.value == (8.5, 32.5, 2.5, 2.5)
    assert result.weight == 2.5
    scores = model.seq_log_density(np.array(rows))
    assert result.log_density == pytest.approx(0.5 * scores[0] + 2.0 * scores[2])


def test_a_row_of_zero_weight_may_be_impossible():
    class Half(PlainModel):
        def seq_log_density(self, x):
            return np.where(x > 0, super().seq_log_density(x), -np.inf)

    shard = shard_of([-1.0, 2.0], weights=[0.0, 1.0])
    assert np.isfinite(execute(Score(Half(0.0, 1.0)), shard).log_density)
    assert execute(Score(Half(0.0, 1.0)), shard_of([-1.0, 2.0])).log_density == -np.inf


def test_a_score_of_the_wrong_shape_is_refused():
    class Wrong(PlainModel):
        def seq_log_density(self, x):
            return np.zeros((len(x), 1))

    result = execute(Score(Wrong(0.0, 1.0)), shard_of(numbers(4)))
    assert "returned shape (4, 1) for 4 rows" in result.error.message


def test_a_checked_e_step_tells_the_digest_of_its_rows_and_what_the_identities_found():
    class Watched(PlainAccumulator):
        def seq_update(self, x, weights, estimate):
            super().seq_update(x, weights, estimate)
            if (watch := current()) is not None:
                watch.worst = max(watch.worst, float(x[0]))

    class Estimator(PlainEstimator):
        def accumulator_factory(self):
            return SimpleNamespace(make=Watched)

    shard = shard_of([2.5, 4.5, 1.0, 3.0], sub_chunks=2)  # rows 0 and 2, then 1 and 3
    told = execute(Accumulate(Estimator(), None, True, 0), shard).receipt
    assert (told["rows"], told["identities"]) == (rows_digest(shard), 4.5)
    clean = execute(Accumulate(PlainEstimator(), None, True, 0), shard).receipt
    assert clean["rows"] == rows_digest(shard)
    assert "identities" not in clean
    unchecked = execute(Accumulate(Estimator(), None), shard).receipt
    assert {"rows", "identities"}.isdisjoint(unchecked)


def test_sampling_finds_the_smallest_draws_wherever_rows_live():
    rows, everything = numbers(500), draws(11, range(500))
    wanted = np.sort(everything)[:40]
    for count in (1, 3):
        found = []
        for number in range(count):
            value = execute(Sample(11, 40), shard_of(rows, number, count, sub_chunks=2)).value
            assert all(columns is None for _, _, columns in value)
            assert sum(len(piece[0]) for piece in value) == 40
            for row_draws, positions, _ in value:
                assert (everything[positions] == row_draws).all()
            found += [piece[0] for piece in value]
        assert (np.sort(np.concatenate(found))[:40] == wanted).all()


def test_sampling_leaves_out_rows_of_zero_weight_and_takes_all_of_a_small_shard():
    weights = np.ones(30)
    weights[::2] = 0.0
    value = execute(Sample(0, 100), shard_of(numbers(30), weights=weights)).value
    assert sorted(i for _, positions, _ in value for i in positions) == list(range(1, 30, 2))


def test_a_start_keeps_rows_by_their_draw_only():
    rows = numbers(200)
    kept = [x for x, draw in zip(rows, draws(5, range(200)), strict=True) if draw < 0.2]
    for count in (1, 4):
        results = [execute(Initialize(PlainEstimator(), 0.2, 5), shard_of(rows, s, count, 2)) for s in range(count)]
        assert sum(result.weight for result in results) == len(kept)
        assert sum(result.value[0] for result in results) == pytest.approx(sum(kept))


def test_a_start_of_all_rows_is_the_e_step_of_a_leaf():
    shard = shard_of(numbers(50), weights=np.arange(50.0))
    start = execute(Initialize(PlainEstimator(), 1.0, 5), shard)
    assert start.value == execute(Accumulate(PlainEstimator(), None), shard).value


def test_a_start_can_be_told_to_keep_a_row():
    result = execute(Initialize(PlainEstimator(), 1e-9, 5, keep_first=4), shard_of([float(i) for i in range(9)], 1, 3))
    assert result.value == (4.0, 16.0, 1.0, 1.0)


def test_apply_returns_what_the_function_returns():
    result = execute(Apply(lambda shard, k: (shard.id, shard.rows * k), (3,)), shard_of(numbers(7), 1, 2), worker=5)
    assert result.value == (1, 9)
    assert result.receipt["worker"] == 5


def test_a_receipt_holds_the_times():
    receipt = execute(Score(PlainModel(0.0, 1.0)), shard_of(numbers(7))).receipt
    assert receipt["seconds"] >= 0.0
    assert receipt["cpu_seconds"] >= 0.0
    assert receipt["build"] == build_key()
    assert f"numpy {np.__version__}" in receipt["build"]


def test_a_users_exception_becomes_a_fault_with_everything_it_said():
    result = execute(Score(FailingModel(2.0, ZeroDivisionError("no"))), shard_of([1.0, 2.0]))
    assert (result.value, result.rows) == (None, 2)
    fault = result.error
    assert (fault.type_name, fault.message, fault.row) == ("ZeroDivisionError", "no", None)
    assert "seq_log_density" in fault.traceback_text
    assert isinstance(pickle.loads(fault.pickled), ZeroDivisionError)


def test_a_row_in_an_exception_becomes_its_position_in_the_data():
    error = RowError("is odd", "Plain", 1, ("a",))
    result = execute(Score(FailingModel(7.0, error)), shard_of([float(i) for i in range(9)], 1, 3, sub_chunks=2))
    # shard 1 holds rows 1, 4, 7; its first sub-chunk holds rows 1 and 7
    assert (result.error.row, result.error.fields) == (7, ("a",))
    assert result.error.message == "Row 7, field 'a' (Plain): is odd"
    assert pickle.loads(result.error.pickled).row == 7


def test_an_exception_that_cannot_be_pickled_tells_its_text_and_its_class():
    class Local(Exception):
        def __init__(self, a, b):
            super().__init__(f"{a}{b}")
            self.lock = threading.Lock()  # a thing that cannot travel

    error = Local(1, 2)
    result = execute(Score(FailingModel(1.0, error)), shard_of([1.0]))
    assert (result.error.type_name, result.error.message) == ("Local", "12")
    told = pickle.loads(result.error.pickled)
    assert (type(told).__name__, told.args, hasattr(told, "lock")) == ("Local", ("12",), False)


def test_an_interrupt_is_not_a_fault():
    with pytest.raises(KeyboardInterrupt):
        execute(Score(FailingModel(1.0, KeyboardInterrupt())), shard_of([1.0]))


def test_an_error_that_cannot_be_printed_is_still_an_error():
    class Mute(Exception):
        def __str__(self):
            raise ValueError

    from mixle.utils.parallel.folding.faults import fault_of

    fault = fault_of(Mute())
    assert fault.type_name == "Mute"
    assert "cannot be made" in fault.message


def test_a_row_error_of_a_function_names_its_row_where_there_is_one_chunk():
    def broken(shard):
        raise RowError("is odd", "Plain", 1)

    rows = [float(i) for i in range(9)]
    assert execute(Apply(broken), shard_of(rows, 1, 3)).error.row == 4
    assert execute(Apply(broken), shard_of(rows, 1, 3, sub_chunks=2)).error.row == 1  # of which chunk is not known


def test_a_task_that_wants_to_know_where_it_runs_is_told():
    class Placed:
        def on_worker(self, worker):
            return Apply(lambda shard: (shard.id, worker))

    assert execute(Placed(), shard_of([1.0, 2.0], 1, 2), 7).value == (1, 7)
    assert execute(Placed(), shard_of([1.0, 2.0], 1, 2)).value == (1, None)


def test_a_failed_task_leaves_its_times_and_nothing_else():
    result = execute(Score(FailingModel(2.0, ZeroDivisionError("no"))), shard_of([1.0, 2.0]), 3)
    assert (result.value, result.log_density, result.rows, result.weight) == (None, None, 2, 0.0)
    assert {"seconds", "cpu_seconds", "started", "build", "bytes", "worker"} <= set(result.receipt)
    assert "left_out" not in result.receipt


def test_times_and_faults_are_differences_and_memory_is_a_peak(monkeypatch):
    clock, cpu, used = iter([10.0, 10.5]), iter([1.0, 1.25]), iter([(100, 7, 5000), (130, 9, 6000)])
    monkeypatch.setattr(tasks, "time", SimpleNamespace(perf_counter=lambda: next(clock), thread_time=lambda: next(cpu)))
    monkeypatch.setattr(tasks, "usage", lambda: next(used))
    receipt = execute(Apply(lambda shard: None), shard_of([1.0, 2.0])).receipt
    assert (receipt["seconds"], receipt["cpu_seconds"], receipt["started"]) == (0.5, 0.25, 10.0)
    told = receipt["minor_faults"], receipt["major_faults"], receipt["peak_memory_bytes"], receipt["bytes"]
    assert told == (30, 2, 6000, 16)
    assert "worker" not in receipt
    for before, after in ((None, (1, 1, 1)), ((1, 1, 1), None)):
        clock, cpu, used = iter([0.0, 0.0]), iter([0.0, 0.0]), iter([before, after])
        assert "minor_faults" not in execute(Apply(lambda shard: None), shard_of([1.0])).receipt


def test_what_cannot_score_is_refused_in_words():
    check_models([PlainModel(0.0, 1.0)])
    with pytest.raises(TypeError, match=r"^a int has no seq_log_density: pass the model to score$"):
        check_models([PlainModel(0.0, 1.0), 3])
    scores = tasks.chunk_log_densities(shard_of([1.0, 2.0, 3.0], sub_chunks=2), (PlainModel(0.0, 1.0),) * 2)
    assert [one.shape for one in scores] == [(2, 2), (2, 1)]


def test_a_checked_task_tells_the_model_it_received():
    model = PlainModel(0.0, 1.0)
    assert Accumulate(PlainEstimator(), model).received() is None
    assert Accumulate(PlainEstimator(), model, True, 0).received() == model_digest(model) is not None


def test_a_start_gives_each_accumulator_what_it_can_use():
    calls = []

    class Starting(PlainAccumulator):
        def seq_initialize(self, x, weights, rng):
            calls.append((x.tolist(), weights.tolist(), None if rng is None else int(rng.randint(2**31))))

        def start(self, x, numbers, centres, p, *weights):
            calls.append((x.tolist(), numbers.tolist(), centres, p, *(one.tolist() for one in weights)))

    class Estimator(PlainEstimator):
        def accumulator_factory(self):
            return SimpleNamespace(make=Starting)

    shard = shard_of([1.0, 2.0, 3.0, 4.0], 1, 2)
    numbers_ = draws(5, range(1, 4, 2)).tolist()
    execute(Initialize(Estimator(), 1.0, 5), shard)
    execute(Initialize(Estimator(), 1.0, 5, (3, 7)), shard)
    execute(Initialize(Estimator(), 0.5, 5, None, "centres", keep_first=3), shard)
    weighted = shard_of([1.0, 2.0, 3.0, 4.0], 1, 2, weights=[1.0, 0.0, 1.0, 2.5])
    execute(Initialize(Estimator(), 0.5, 5, None, "centres", keep_first=2), weighted)
    drawn = int(np.random.RandomState(7).randint(2**31))
    assert calls == [
        ([2.0, 4.0], [1.0, 1.0], None),
        ([2.0, 4.0], [1.0, 1.0], drawn),
        ([2.0, 4.0], [numbers_[0], 0.0], "centres", 0.5),
        ([2.0, 4.0], [1.0, numbers_[1]], "centres", 0.5, [0.0, 2.5]),
    ]


def test_sampled_columns_hold_the_labels_that_are_used():
    rows = [("a", 1.0), (None, 2.0), ("b", 3.0), ("a", 4.0), ("c", 5.0)]
    estimator = st_.CompositeEstimator((st_.OptionalEstimator(st_.CategoricalEstimator()), st_.GaussianEstimator()))
    encoder = estimator.accumulator_factory().make().acc_to_encoder()
    shard = encode_shard(0, rows, range(5), encoder, (range(5),))
    ((_, places, columns),) = execute(Sample(1, 5), shard).value
    assert places.tolist() == [0, 1, 2, 3, 4]
    labels, numbers_ = columns
    told = [
        None if gone else labels.labels[code]
        for code, gone in zip(labels.values.tolist(), labels.missing.tolist(), strict=True)
    ]
    assert told == ["a", None, "b", "a", "c"]
    assert sorted(labels.labels) == ["a", "b", "c"]
    assert labels.values[1] == 0
    assert (numbers_.values.tolist(), numbers_.labels) == ([1.0, 2.0, 3.0, 4.0, 5.0], None)
    for size in range(1, 5):
        ((_, places, columns),) = execute(Sample(1, size), shard).value
        assert len(places) == size
        used = {rows[place][0] for place in places.tolist()} - {None}
        assert set(columns[0].labels) == used
        assert columns[1].values.tolist() == [rows[place][1] for place in places.tolist()]
