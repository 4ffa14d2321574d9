"""The fold: one order, one grouping, keys tied once, checkpoints that change no bit, a guard that names the step."""

import math
import pickle
import random

import numpy as np
import pytest
from fold_support import PlainAccumulator, PlainEstimator, Recording
from hypothesis import given
from hypothesis import strategies as st

from mixle.utils.parallel.folding import fold
from mixle.utils.parallel.folding import payload as frames
from mixle.utils.parallel.folding.finite import all_finite
from mixle.utils.parallel.folding.fold import GROUP, fold_log_densities, fold_numbers, fold_results, fold_values
from mixle.utils.parallel.folding.tasks import Result
from mixle.utils.parallel.resilient_em import checkpointed_fold
from mixle.utils.parallel.sdc_audit import finite_guarded_fold, inject_bit_flip

# (issue case T53) floats whose sum depends on the order and the grouping
NUMBERS = [24.621, 12.14, 0.169, 6.865, 1.879, 16.326]


def statistics(count, seed=0):
    rng = np.random.RandomState(seed)
    return [(float(w), (float(s), float(q), float(w), float(w))) for s, q, w in rng.lognormal(0, 3, (count, 3))]


def by_hand(items):
    groups = [items[i : i + 256] for i in range(0, len(items), 256)]
    totals = []
    for group in groups:
        total, nobs = PlainAccumulator(), 0.0
        for count, value in group:
            nobs += count
            total.combine(value)
        totals.append((nobs, total.value()))
    if len(totals) == 1:
        return totals[0]
    total, nobs = PlainAccumulator(), 0.0
    for count, value in totals:
        nobs += count
        total.combine(value)
    return nobs, total.value()


@pytest.mark.parametrize("count", [0, 1, 2, 255, 256, 257, 512, 513, 600])
def test_up_to_256_left_to_right_then_groups_of_256(count):
    items = statistics(count)
    assert fold_values(PlainEstimator(), items) == (by_hand(items) if items else (0.0, (0.0, 0.0, 0.0, 0.0)))


def test_the_grouping_shows_in_the_bits():
    items = statistics(513)
    total = PlainAccumulator()
    for _, value in items:
        total.combine(value)
    assert fold_values(PlainEstimator(), items)[1] != total.value()


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 513])
def test_numbers_follow_the_same_grouping_as_statistics(count):
    items = statistics(count)
    assert fold_numbers([count for count, _ in items]) == fold_values(PlainEstimator(), items)[0]


def test_groups_of_numbers_are_added_without_compensation(monkeypatch):
    # From Python 3.12 on builtin `sum` compensates, which statistics added by `combine` do not.
    monkeypatch.setattr(fold, "sum", lambda numbers, start=0.0: math.fsum([start, *numbers]), raising=False)
    numbers = [0.0] * 513
    numbers[0], numbers[256], numbers[512] = 1e16, 1.0, 1.0
    items = [(x, (x, 0.0, 1.0, 1.0)) for x in numbers]
    assert fold_numbers(numbers) == fold_values(PlainEstimator(), items)[1][0] == 1e16


def test_T53_results_fold_in_shard_order_whatever_order_they_arrive_in():
    results = [Result(i, 1, 1.0, (x, x * x, 1.0, 1.0), x, {}) for i, x in enumerate(NUMBERS)]
    expected = 0.0
    for x in NUMBERS:
        expected += x
    for seed in range(20):
        random.Random(seed).shuffle(results)
        nobs, value = fold_results(PlainEstimator(), results)
        assert nobs == 6.0
        assert value[0].hex() == expected.hex()


def test_keys_are_tied_once_on_the_total():
    log = []
    fold_values(PlainEstimator(log), statistics(300))
    assert log == ["merge", "replace"]


def pickled(items):
    return [pickle.dumps(item) for item in items]


@given(st.integers(0, 40), st.integers(-2, 45))
def test_a_checkpoint_changes_no_bit(count, after):
    payloads = pickled(statistics(count))
    assert checkpointed_fold(PlainEstimator(), payloads, checkpoint_after=after) == checkpointed_fold(
        PlainEstimator(), payloads
    )


@pytest.mark.parametrize("after", [0, 254, 255, 256, 257, 511, 512])
def test_a_checkpoint_near_a_group_changes_no_bit(after):
    items = statistics(513)
    assert checkpointed_fold(PlainEstimator(), pickled(items), after) == by_hand(items)


def test_a_checkpoint_rebuilds_the_accumulator_from_its_value():
    estimator = Recording()
    checkpointed_fold(estimator, pickled(statistics(4)), checkpoint_after=1)
    assert len(estimator.made) == 2
    assert estimator.made[0].value() != estimator.made[1].value()


def test_folding_nothing_gives_the_zero_statistic():
    assert checkpointed_fold(PlainEstimator(), []) == (0.0, (0.0, 0.0, 0.0, 0.0))


def test_frames_of_ours_and_pickles_may_be_mixed():
    items = statistics(4)
    mixed = [frames.encode_bytes(item) if i % 2 else pickle.dumps(item) for i, item in enumerate(items)]
    assert checkpointed_fold(PlainEstimator(), mixed) == finite_guarded_fold(PlainEstimator(), mixed) == by_hand(items)


def test_an_accumulator_needs_three_methods_only():
    class Bare:
        def __init__(self):
            self.total = 0

        def combine(self, value):
            self.total += value
            return self

        def value(self):
            return self.total

        def from_value(self, value):
            self.total = value
            return self

    class Factory:
        make = Bare

    class Estimator:
        def accumulator_factory(self):
            return Factory()

    assert checkpointed_fold(Estimator(), pickled([(1, 5), (2, 7)]), 0) == (3.0, 12)


def test_the_guard_passes_what_is_finite_with_the_same_bits():
    payloads = pickled(statistics(300))
    assert finite_guarded_fold(PlainEstimator(), payloads) == checkpointed_fold(PlainEstimator(), payloads)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_the_guard_names_the_payload_at_which_a_number_broke(wrong):
    items = statistics(5)
    items[2] = (1.0, (wrong, 1.0, 1.0, 1.0))
    message = r"^here \(payload index 2, 3 combine\(\) calls so far\) contains a non-finite statistic \(NaN or inf\)$"
    with pytest.raises(ValueError, match=message):
        finite_guarded_fold(PlainEstimator(), pickled(items), where="here")


def test_the_guard_checks_counts():
    with pytest.raises(ValueError, match=r"AuditedMPEncodedData\.combine \(payload index 0 count\)"):
        finite_guarded_fold(PlainEstimator(), pickled([(math.inf, (1.0, 1.0, 1.0, 1.0))]))
    large = [(1e308, (1.0, 1.0, 1.0, 1.0))] * 3
    with pytest.raises(ValueError, match=r"\(running observation count\)"):
        finite_guarded_fold(PlainEstimator(), pickled(large))


def test_the_guard_checks_the_sum_of_groups():
    items = [(0.0, (1.0, 1.0, 1.0, 1.0))] * 512
    items[0] = items[256] = (1e308, (1.0, 1.0, 1.0, 1.0))
    with pytest.raises(ValueError, match=r"^here \(running observation count\) contains a non-finite statistic"):
        fold_values(PlainEstimator(), items, where="here")


@pytest.mark.parametrize("place", [None, "here"])
def test_a_round_is_guarded_only_if_asked_and_names_its_place(place):
    results = [Result(i, 1, 1.0, (x, 1.0, 1.0, 1.0), None) for i, x in enumerate([1.0, math.nan])]
    assert math.isnan(fold_results(PlainEstimator(), results, place)[1][0])
    with pytest.raises(ValueError, match=rf"^{place or 'fold'} \(payload index 1, 2 combine\(\) calls so far\)"):
        fold_results(PlainEstimator(), results, place, guard=True)


def test_the_score_of_a_round_is_its_sum_or_nan_where_a_shard_has_none():
    results = [Result(i, 1, 1.0, None, x) for i, x in enumerate(NUMBERS)]
    assert fold_log_densities(results) == fold_numbers(NUMBERS)
    assert math.isnan(fold_log_densities([*results, Result(6, 1, 1.0, None, None)]))
    assert math.isnan(fold_log_densities([Result(0, 1, 1.0, None, None)]))


def test_a_frame_may_hold_what_only_a_pickle_can():
    frame = frames.encode_bytes((2.0, Slotted(3.0)), allow_pickle=True)
    count, value = fold.decode(frame)
    assert (count, type(value), value.x) == (2.0, Slotted, 3.0)


def test_a_checkpoint_needs_no_answer_of_from_value():
    class Silent(PlainAccumulator):
        def from_value(self, value):
            super().from_value(value)

    class Estimator:
        def accumulator_factory(self):
            return type("Factory", (), {"make": Silent})

    payloads = pickled(statistics(4))
    assert checkpointed_fold(Estimator(), payloads, 1) == checkpointed_fold(PlainEstimator(), payloads)


@pytest.mark.parametrize("missing", ["key_merge", "key_replace"])
def test_half_of_the_key_passes_is_no_tying(missing):
    log = []

    class Half(PlainAccumulator):
        pass

    setattr(Half, missing, None)

    class Estimator:
        def accumulator_factory(self):
            return type("Factory", (), {"make": lambda: Half(log=log)})

    items = statistics(3)
    assert fold_values(Estimator(), items) == by_hand(items)
    assert log == []


def test_the_guard_checks_what_key_passes_made():
    class Tied(PlainAccumulator):
        def key_replace(self, stats):
            self.sum = math.nan

    class Factory:
        make = Tied

    class Estimator:
        def accumulator_factory(self):
            return Factory()

    with pytest.raises(ValueError, match=r"^AuditedMPEncodedData\.combine \(after key_merge/key_replace\) contains"):
        finite_guarded_fold(Estimator(), pickled(statistics(1)))


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x


def nested(x):
    loop = [x]
    loop.append(loop)
    return [
        x,
        (1, [x]),
        {"a": x},
        {x: "a"},
        {x},
        np.array([1.0, x]),
        np.array([1.0, x], dtype=np.float32),
        np.float64(x),
        complex(0, x),
        np.array([{"a": x}], dtype=object),
        np.array([(1, x)], dtype=[("a", int), ("b", float)]),
        Slotted(x),
        Slotted([x]),
        loop,
    ]


@pytest.mark.parametrize("i", range(len(nested(1.0))))
def test_every_corner_of_a_statistic_is_looked_at(i):
    assert all_finite(nested(1.0)[i])
    assert not all_finite(nested(math.nan)[i])
    assert not all_finite(nested(math.inf)[i])


def test_what_holds_no_number_is_finite():
    assert all_finite([None, "nan", b"inf", True, 10**400, np.array(["nan"]), np.array([1, 2])])


@given(st.binary(min_size=1, max_size=40), st.integers(-1000, 1000) | st.none())
def test_a_bit_flip_changes_one_bit_and_undoes_itself(data, offset):
    flipped = inject_bit_flip(data, offset)
    changed = [a ^ b for a, b in zip(data, flipped, strict=True) if a != b]
    assert len(changed) == 1
    assert changed[0].bit_count() == 1
    assert inject_bit_flip(flipped, offset) == data


def test_a_bit_flip_is_where_it_was_asked_for():
    assert inject_bit_flip(bytes(3)) == bytes([0, 16, 0])
    assert inject_bit_flip(bytes(3), 0) == inject_bit_flip(bytes(3), 24) == bytes([1, 0, 0])
    for offset in range(24):
        assert int.from_bytes(inject_bit_flip(bytes(3), offset), "little") == 1 << offset
    with pytest.raises(ValueError, match=r"^inject_bit_flip needs a payload of at least one byte, got an empty one$"):
        inject_bit_flip(b"")


def test_a_group_holds_256():
    assert GROUP == 256
