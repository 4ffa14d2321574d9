"""A fit inside a control group with little memory, of which one worker takes too much: run with GROUP and FOLDER."""

import json
import os
import sys
from pathlib import Path


def is_first(mark):
    """Make a file; return whether no other process had made it."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def main():
    group, folder = Path(sys.argv[1]), sys.argv[2]
    (group / "cgroup.procs").write_text(str(os.getpid()))  # before anything is imported: memory is counted here
    import driver_support
    import numpy as np

    from mixle.stats import GaussianEstimator, MixtureEstimator
    from mixle.utils.parallel.resilient_em import ResilientMPEncodedData

    rows = [float(x % 17) for x in range(400)]
    inner = MixtureEstimator([GaussianEstimator()] * 2)
    driver = os.getpid()

    class Greedy(driver_support.WaitingAccumulator):
        def seq_update_scored(self, enc, weights, model):
            taken = Path(self.waiting.folder) / "taken"
            if os.getpid() != driver and is_first(taken):
                held = []
                while True:
                    held.append(np.ones(1 << 22))  # 32 MiB, every page of it touched
            return self.inner.seq_update_scored(enc, weights, model)

    class Estimator(driver_support.Waiting):
        def make(self):
            return Greedy(self.inner.accumulator_factory().make(), self)

    estimator = Estimator(inner, folder)
    with ResilientMPEncodedData(rows, estimator, num_workers=2, sub_chunks=2) as handle:
        start = handle.pysp_seq_initialize(estimator, 3, 0.5)
        model = handle.pysp_seq_estimate(estimator, start)
        losses = [(loss.kind, loss.worker, loss.exitcode, str(loss)) for loss in handle.last_round_losses]
        again = handle.pysp_seq_estimate(estimator, model)
        print(json.dumps([losses, [found.digest() for found in (start, model, again)], len(handle.last_round_losses)]))


if __name__ == "__main__":
    main()
