"""Faulty computers for audits: estimators whose statistics come out wrong in one process.

In a module of its own, so that workers need not import pytest.
"""

import os
import pickle
from pathlib import Path

import numpy as np

from mixle.testing.numbers import altered, flipped


class Faulty:
    """An estimator that computes wrongly in the processes whose ids stand in a file, by `fault(value)`."""

    def __init__(self, inner, file, fault):
        self.inner, self.file, self.fault = inner, str(file), fault

    def accumulator_factory(self):
        return Factory(self)

    def estimate(self, nobs, value):
        return self.inner.estimate(nobs, value)

    def keep_empty(self, model, previous, value):
        return self.inner.keep_empty(model, previous, value)


class Factory:
    def __init__(self, owner):
        self.owner = owner

    def make(self):
        return Accumulator(self.owner.inner.accumulator_factory().make(), self.owner)


class Accumulator:
    def __init__(self, inner, owner):
        self.inner, self.owner, self.worked = inner, owner, False

    def acc_to_encoder(self):
        return self.inner.acc_to_encoder()

    def seq_update_scored(self, enc, weights, model):
        self.worked = True
        if isinstance(self.owner, Meeting):
            self.owner.arrive(enc)
        return self.inner.seq_update_scored(enc, weights, model)

    def combine(self, value):
        self.inner.combine(value)
        return self

    def from_value(self, value):
        self.inner.from_value(value)
        return self

    def value(self):
        value = self.inner.value()
        if (
            self.worked
            and isinstance(self.owner, Faulty)
            and str(os.getpid()) in Path(self.owner.file).read_text().split()
        ):
            return self.owner.fault(value)
        return value


class Flip:
    """Flip one bit of the numbers of a statistic, the same one every time: a stuck adder."""

    def __init__(self, bit):
        self.bit = bit

    def __call__(self, value):
        return flip_number(value, self.bit)


def flip_number(value, bit):
    """Return a copy of a statistic with bit `bit` (modulo their number) of its numbers flipped."""
    number, bit = divmod(bit, 64)
    return altered(value, number, flipped(bit))


def times_one_and_a_bit(value):
    """Return the statistic off by one unit in the last place of its weights, well inside the envelope."""
    value = pickle.loads(pickle.dumps(value))
    counts = value.counts
    counts[:] = np.nextafter(counts, np.inf)
    return value


class Meeting:
    """An estimator whose first process at the rows of a value waits until a second one is at them, too."""

    def __init__(self, inner, folder, value):
        self.inner, self.folder, self.row = inner, Path(folder), value
        os.mkfifo(self.folder / "door")

    def accumulator_factory(self):
        return Factory(self)

    def make(self):
        return self.inner.accumulator_factory().make()

    def estimate(self, nobs, value):
        return self.inner.estimate(nobs, value)

    def keep_empty(self, model, previous, value):
        return self.inner.keep_empty(model, previous, value)

    def arrive(self, enc):
        if float(np.asarray(enc)[0]) != self.row:
            return
        try:
            (self.folder / "first").mkdir()
            way = "rb"
        except FileExistsError:
            way = "wb"
        with (self.folder / "door").open(way):
            pass
