"""A Gaussian written by hand: the five pieces with raw sums, as the contract states them, and no base class."""

import math

import numpy as np

from mixle.errors import RowError
from mixle.utils.parallel.folding.handle import Handle
from mixle.utils.parallel.folding.inputs import make_source
from mixle.utils.parallel.folding.shards import as_shard_map
from mixle.utils.parallel.folding.transport import Transport
from mixle.utils.parallel.transports.local import LocalTransport

SHARDS = (1, 2, 3, 5, 8)


class PlainEncoder:
    def seq_encode(self, rows):
        values = np.empty(len(rows))
        for i, row in enumerate(rows):
            if isinstance(row, (str, type(None))) or np.ndim(row) or math.isnan(row):
                raise RowError(f"{row!r} is not a number", "Plain", i)
            values[i] = row
        return values

    def row_count(self, payload):
        return len(payload)

    def nbytes(self, payload):
        return payload.nbytes

    def __eq__(self, other):
        return type(self) is type(other)

    def __hash__(self):
        return 1


class PlainModel:
    def __init__(self, mu, sigma2):
        self.mu, self.sigma2 = mu, sigma2

    def bits(self):
        return float(self.mu).hex(), float(self.sigma2).hex()

    def seq_log_density(self, x):
        return -0.5 * ((x - self.mu) ** 2 / self.sigma2 + math.log(2 * math.pi * self.sigma2))

    def dist_to_encoder(self):
        return PlainEncoder()


class PlainAccumulator:
    def __init__(self, keys=None, log=None):
        self.keys, self.log = keys, log
        self.sum = self.sum2 = self.count = 0.0

    def seq_update(self, x, weights, estimate):
        self.sum += float(x @ weights)
        self.sum2 += float((x * x) @ weights)
        self.count += float(weights.sum())

    def seq_initialize(self, x, weights, rng):
        self.seq_update(x, weights, None)

    def combine(self, value):
        self.sum, self.sum2, self.count = self.sum + value[0], self.sum2 + value[1], self.count + value[2]
        return self

    def value(self):
        return self.sum, self.sum2, self.count, self.count

    def from_value(self, value):
        self.sum, self.sum2, self.count = value[:3]
        return self

    def key_merge(self, stats):
        self._note("merge")

    def key_replace(self, stats):
        self._note("replace")

    def _note(self, what):
        if self.log is not None:
            self.log.append(what)

    def acc_to_encoder(self):
        return PlainEncoder()


class PlainFactory:
    def __init__(self, log=None):
        self.log = log

    def make(self):
        return PlainAccumulator(log=self.log)


class PlainEstimator:
    def __init__(self, log=None):
        self.log = log
        self.seen = []

    def accumulator_factory(self):
        return PlainFactory(self.log)

    def estimate(self, nobs, value):
        self.seen.append(nobs)
        mean = value[0] / value[2]
        return PlainModel(mean, max(value[1] / value[2] - mean * mean, 1e-8))


class FailingModel(PlainModel):
    """Raises `error` on the shard whose payload holds `at`."""

    def __init__(self, at, error):
        super().__init__(0.0, 1.0)
        self.at, self.error = at, error

    def seq_log_density(self, x):
        if self.at in x:
            raise self.error
        return super().seq_log_density(x)


class ClosableTransport(LocalTransport):
    """Local work with the life cycle of a pool."""

    name = "pool"
    closable = True

    def __init__(self):
        super().__init__()
        self.closes = 0

    def close(self):
        self.closes += 1


class ReversedTransport(LocalTransport):
    """Results arrive in the order nobody wants."""

    def map(self, task):
        yield from reversed(list(super().map(task)))


class ScriptedTransport(Transport):
    """Yields the results it was given, then raises what it was given."""

    def __init__(self, results, sizes, error=None):
        self.results, self.sizes, self.error = results, sizes, error

    def load(self, source):
        raise NotImplementedError

    def map(self, task):
        yield from self.results
        if self.error is not None:
            raise self.error

    def close(self):
        pass


def numbers(n=103, seed=0):
    return np.random.RandomState(seed).normal(3.0, 2.0, n).tolist()


def handle_over(transport, rows, shards=3, sub_chunks=1, weights=None):
    return Handle(transport, make_source(rows, PlainEncoder(), as_shard_map(shards), sub_chunks, weights, None))


def fitted_bits(handle):
    """Return the bits of a start and of one step, and the score of its model."""
    estimator = PlainEstimator()
    start = handle.pysp_seq_initialize(estimator, 3, 0.3)
    model = handle.pysp_seq_estimate(estimator, start)
    return start.bits(), model.bits(), handle.pysp_seq_log_density_sum(model)


class Recording:
    """An estimator that keeps the accumulators it makes, and no more than a factory."""

    def __init__(self):
        self.made = []

    def accumulator_factory(self):
        return self

    def make(self):
        self.made.append(PlainAccumulator())
        return self.made[-1]
