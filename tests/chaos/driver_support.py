"""A driver that fits until it is ended from outside: run as ``python driver_support.py KIND FOLDER``.

It prints a line per iteration, and last what became of the fit.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

from mixle.inference import optimize
from mixle.stats import GaussianEstimator, MixtureEstimator
from mixle.utils.parallel.planner import encoded_data
from mixle.utils.parallel.resilient_em import ResilientMPEncodedData

ROUNDS = 40
ROWS = np.concatenate([np.random.RandomState(seed).normal(2.0 * seed, 1.0, size=200) for seed in range(4)])
EST = MixtureEstimator([GaussianEstimator()] * 4)


class Waiting:
    """An estimator whose E-step takes a minute once the file ``slow`` is there, and tells by the file ``in``."""

    def __init__(self, inner, folder, pause=0.0):
        self.inner, self.folder, self.pause = inner, str(folder), pause

    def accumulator_factory(self):
        return self

    def make(self):
        return WaitingAccumulator(self.inner.accumulator_factory().make(), self)

    def num_start_components(self):
        return self.inner.num_start_components()

    def estimate(self, nobs, value):
        return self.inner.estimate(nobs, value)


class WaitingAccumulator:
    def __init__(self, inner, waiting):
        self.inner, self.waiting = inner, waiting

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def seq_update_scored(self, enc, weights, model):
        time.sleep(self.waiting.pause)
        if (Path(self.waiting.folder) / "slow").exists():
            (Path(self.waiting.folder) / "in").touch()
            end = time.monotonic() + 60.0
            while time.monotonic() < end:
                np.log(np.ones(1000)).sum()
        return self.inner.seq_update_scored(enc, weights, model)


def opened(kind, estimator):
    """Return a handle on eight shards, or what `optimize` needs to make one."""
    if kind == "threads":
        return encoded_data(ROWS, estimator, num_shards=8, parallel_chunks=True, chunk_workers=2)
    if kind == "resilient":
        return ResilientMPEncodedData(ROWS, estimator, num_shards=8, num_workers=2)
    return encoded_data(ROWS, estimator, num_shards=8, backend=kind, **({"num_workers": 2} if kind == "mp" else {}))


def fit(handle, estimator, checkpoint=None, on_step=None):
    return optimize(
        None, estimator, enc_data=handle, seed=1, delta=None, max_its=ROUNDS, checkpoint=checkpoint, on_step=on_step
    )


def main():
    kind, folder = sys.argv[1], Path(sys.argv[2])
    estimator = Waiting(EST, folder, pause=0.001)
    with opened(kind, estimator) as handle:
        print("ready", flush=True)
        model = fit(handle, estimator, folder / "fit", lambda step: print("step", step.iter, flush=True))
        returned = time.monotonic()
    found = model.fit_provenance()
    print(json.dumps({"digest": model.digest(), "stopped": found.stopped, "its": found.iterations, "at": returned}))


if __name__ == "__main__":
    main()
