"""Workers that are slow while a file says so.

In a module of its own, so that workers need not import pytest.
"""

import os
import time
from pathlib import Path


class Snail:
    """An estimator that is slow in one process: the one whose pid stands in a file."""

    def __init__(self, inner, file, seconds, slow_seconds):
        self.inner, self.file, self.seconds, self.slow_seconds = inner, str(file), seconds, slow_seconds

    def accumulator_factory(self):
        return SnailFactory(self)

    def num_start_components(self):
        return self.inner.num_start_components()

    def estimate(self, nobs, value):
        return self.inner.estimate(nobs, value)


class SnailFactory:
    def __init__(self, snail):
        self.snail = snail

    def make(self):
        accumulator = self.snail.inner.accumulator_factory().make()
        return SlowAccumulator(accumulator, self.snail)


class SlowAccumulator:
    def __init__(self, inner, snail):
        self.inner, self.snail = inner, snail

    def acc_to_encoder(self):
        return self.inner.acc_to_encoder()

    def seq_update_scored(self, enc, weights, model):
        slow = Path(self.snail.file).read_text() == str(os.getpid())
        time.sleep(self.snail.slow_seconds if slow else self.snail.seconds)
        return self.inner.seq_update_scored(enc, weights, model)

    def start(self, *words):
        self.inner.start(*words)

    def value(self):
        return self.inner.value()

    def combine(self, value):
        self.inner.combine(value)
        return self

    def from_value(self, value):
        self.inner.from_value(value)
        return self
