"""Bytes of a model: its public numbers, the same from call to call."""

import sys

import numpy as np
import pytest
from fold_support import PlainEstimator, PlainModel

from mixle.utils.parallel.planner import Resources, estimate_estimator_stat_nbytes, estimate_model_nbytes, plan
from mixle.utils.parallel.planning.memory import payload_nbytes
from mixle.utils.parallel.planning.precision import dtype_bytes, precision_name

FLOAT = sys.getsizeof(1.0)


class Model:
    def __init__(self, **public):
        self.__dict__.update(public)
        self._cache = np.zeros(1000)
        self.score = lambda: None


def test_arrays_count_their_buffers_numbers_their_objects_text_its_bytes():
    model = Model(a=np.zeros((3, 4), dtype=np.float32), b=2.0, c="äb", d=None, e=np.float32(1.0))
    assert estimate_model_nbytes(model) == 48 + FLOAT + 3 + 0 + 4


def test_nested_parts_count_and_shared_ones_count_once():
    child = Model(x=np.zeros(5))
    assert estimate_model_nbytes(Model(parts=[child, child], table={"k": child})) == 40 + len("k")
    shared = np.zeros(6)
    assert payload_nbytes([shared, shared, (shared,)]) == 48


def test_a_cycle_ends_and_depth_is_bounded():
    loop = [np.zeros(2)]
    loop.append(loop)
    assert payload_nbytes(loop) == 16
    deep = np.zeros(1)
    for _ in range(20):
        deep = [deep]
    assert payload_nbytes(deep) == 0


def test_slots_and_object_arrays_are_looked_into():
    class Slotted:
        __slots__ = ("_hidden", "x")

        def __init__(self):
            self.x, self._hidden = np.zeros(3), np.zeros(9)

    assert payload_nbytes(Slotted()) == 24
    assert payload_nbytes(np.array(["abc", 1.0], dtype=object)) == 3 + FLOAT
    assert payload_nbytes(b"1234") == 4
    assert payload_nbytes(int) == 0


def test_the_estimate_does_not_change_from_call_to_call():
    models = [Model(w=np.arange(4.0), parts=[PlainModel(0.1 * i, 1.0) for i in range(5)]) for _ in range(3)]
    assert len({estimate_model_nbytes(model) for model in models for _ in range(3)}) == 1


def test_a_statistic_is_the_zero_accumulators_value():
    assert estimate_estimator_stat_nbytes(PlainEstimator()) == 4 * FLOAT


@pytest.mark.parametrize(
    ("precision", "name", "width"),
    [
        (None, "default", 8),
        ("double", "float64", 8),
        ("FP32", "float32", 4),
        (np.float32, "float32", 4),
        (np.dtype("f8"), "float64", 8),
        ("torch.bfloat16", "bfloat16", 2),
        ("half", "float16", 2),
    ],
)
def test_precisions_have_one_name(precision, name, width):
    assert precision_name(precision) == name
    assert dtype_bytes(precision) == width


def test_a_model_whose_size_cannot_be_known_counts_what_can():
    import threading

    class Opaque:
        def __init__(self):
            self.lock, self.stream, self.call, self.weights = threading.Lock(), iter([1.0]), print, np.zeros(4)

        @property
        def broken(self):
            raise RuntimeError("not now")

    assert estimate_model_nbytes(Opaque()) == 32
    assert estimate_model_nbytes(object()) == 0
    placement = plan([], Opaque(), resources=Resources.single_cpu(memory_bytes=10**6))
    assert (placement.model_bytes, placement.fits) == (32, True)
