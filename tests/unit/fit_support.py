"""What the tests of fits share: rows with clusters, transports that count, a family written by hand."""

import numpy as np

from mixle.utils.parallel.folding.handle import Handle
from mixle.utils.parallel.folding.inputs import make_source
from mixle.utils.parallel.folding.shards import as_shard_map
from mixle.utils.parallel.transports.local import LocalTransport


def clusters(n=200, seed=0, centres=(0.0, 3.0, 9.0)):
    rng = np.random.RandomState(seed)
    return rng.normal(np.asarray(centres)[rng.randint(len(centres), size=n)], 1.0)


class CountingTransport(LocalTransport):
    """The local transport, noting which tasks pass and whether it was closed."""

    def __init__(self):
        super().__init__()
        self.tasks = []
        self.closes = 0

    def map(self, task):
        self.tasks.append(type(task).__name__)
        yield from super().map(task)

    def close(self):
        self.closes += 1


class SpyHandle(Handle):
    """A handle of a user, who replaced a documented method: it must be driven through the documented ones."""

    def pysp_seq_estimate(self, estimator, prev_estimate):
        return super().pysp_seq_estimate(estimator, prev_estimate)


def counted(rows, estimator, *, shards=1, weights=None, kind=Handle):
    encoder = estimator.accumulator_factory().make().acc_to_encoder()
    source = make_source(rows, encoder, as_shard_map(shards), 1, weights, estimator)
    return kind(CountingTransport(), source)


class WaitEncoder:
    def seq_encode(self, rows):
        return np.asarray(rows, dtype=float)

    def row_count(self, payload):
        return len(payload)


class WaitModel:
    """Exponential waiting times, as a user writes the five pieces without any base class."""

    def __init__(self, rate):
        self.rate = rate

    def seq_log_density(self, x):
        return np.log(self.rate) - self.rate * x

    def dist_to_encoder(self):
        return WaitEncoder()

    def estimator(self):
        return WaitEstimator()


class WaitAccumulator:
    def __init__(self):
        self.count, self.total = 0.0, 0.0

    def update(self, x, weight, estimate):
        self.seq_update(np.array([x], dtype=float), np.array([weight]), estimate)

    def initialize(self, x, weight, rng):
        self.update(x, weight, None)

    def seq_update(self, x, weights, estimate):
        self.count += weights.sum()
        self.total += weights @ x

    def seq_initialize(self, x, weights, rng):
        self.seq_update(x, weights, None)

    def combine(self, value):
        self.count, self.total = self.count + value[0], self.total + value[1]
        return self

    def value(self):
        return float(self.count), float(self.total)

    def from_value(self, value):
        self.count, self.total = value
        return self

    def acc_to_encoder(self):
        return WaitEncoder()


class WaitFactory:
    def make(self):
        return WaitAccumulator()


class WaitEstimator:
    """Maximum likelihood, or MAP under a Gamma(`shape`, `rate`) prior of the rate."""

    def __init__(self, shape=None, rate=None):
        self.shape, self.rate = shape, rate

    def accumulator_factory(self):
        return WaitFactory()

    def estimate(self, nobs, value):
        count, total = value
        if self.shape is None:
            return WaitModel(count / total if total > 0 else 1.0)
        return WaitModel((count + self.shape - 1.0) / (total + self.rate))

    def get_prior(self):
        return None if self.shape is None else (self.shape, self.rate)

    def model_log_density(self, model):
        if self.shape is None:
            return 0.0
        return (self.shape - 1.0) * np.log(model.rate) - self.rate * model.rate


class BrokenWaits(WaitEstimator):
    """An M-step that goes wrong from the second model on."""

    def __init__(self, rates):
        super().__init__()
        self.rates = list(rates)

    def estimate(self, nobs, value):
        return WaitModel(self.rates.pop(0))
