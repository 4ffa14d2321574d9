"""Injected faults site by site: at audit rate 1 nothing gets into the model, and what was found is found at once.

A worker that is wrong now and then, inside the envelope, is named by what adds up against it.
"""

import os
import random
from collections import Counter

import injection_support as sites
import numpy as np
import pytest

from mixle.stats import GaussianEstimator, MixtureEstimator
from mixle.utils.parallel.folding.tasks import Apply
from mixle.utils.parallel.planner import LocalEncodedData
from mixle.utils.parallel.sdc_audit import AuditedMPEncodedData

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.injections,
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # what flipped exponents lead to
]

FULL = os.environ.get("MIXLE_INJECTIONS") == "full"
TRIALS = 1000 if FULL else 18
SHARDS, WORKERS = 6, 3
DRAWN = np.random.RandomState(7).normal(size=(2, 300))
ROWS = np.concatenate([DRAWN[0], DRAWN[1] + 5.0])
EST = MixtureEstimator([GaussianEstimator()] * 2)
LOCAL = LocalEncodedData(ROWS, EST, num_shards=SHARDS)
START = LOCAL.pysp_seq_initialize(EST, 3, 0.5)
WANTED = LOCAL.pysp_seq_estimate(EST, START)
CLEAN = WANTED.digest()


def parameters(model):
    return np.array([*model.w, *(x for part in model.components for x in (part.mu, part.sigma2))])


def off(model):
    """Return the largest relative error of a parameter."""
    wanted = parameters(WANTED)
    error = np.abs(parameters(model) - wanted) / np.abs(wanted)
    return float(np.max(np.where(np.isnan(error), np.inf, error)))


class Campaign:
    """Rounds with one fault each, on a pool that is made anew when a worker was retired."""

    def __init__(self, rate, workers=WORKERS):
        self.rate, self.workers, self.handle = rate, workers, None
        self.outcomes = Counter()
        self.worst = 0.0

    def pool(self):
        if self.handle is None:
            self.handle = AuditedMPEncodedData(
                ROWS, EST, num_workers=self.workers, num_shards=SHARDS, audit_rate=self.rate
            )
            assert self.handle.pysp_seq_estimate(EST, START).digest() == CLEAN
            assert self.found() == 0
        return self.handle

    def found(self):
        return len(self.handle.audit_receipts) + len(self.handle.audit_alarms)

    def trial(self, site, fault, rng):
        handle = self.pool()
        before = self.found()
        worker = rng.choice(sorted(one for one, shards in handle._worker_shards.items() if shards))
        mine = sorted(handle._worker_shards[worker])
        if site in sites.IN_WORKERS:
            shard = rng.choice(mine)
            if site == "encoded chunk":
                handle.transport.forget(shard, worker)
                shard = next(one for one in mine if one != shard)
            handle.transport.run(Apply(sites.arm, (site, fault)), shard, worker)
        else:
            sites.arm_here(site, fault)
        try:
            model = handle.pysp_seq_estimate(EST, START)
        finally:
            sites.disarm()
        self.note(model, self.found() > before)
        if worker in handle._blacklist:
            handle.add_worker()
        elif site in sites.IN_WORKERS:
            handle.transport.run(Apply(sites.disarm), mine[0], worker)

    def note(self, model, found):
        if model.digest() == CLEAN:
            self.outcomes["found" if found else "without effect"] += 1
            return
        self.outcomes["found, not mended" if found else "escaped"] += 1
        self.worst = max(self.worst, off(model))

    def close(self):
        if self.handle is not None:
            self.handle.close()


def run(site, rate, trials=TRIALS):
    rng = random.Random(site)
    campaign = Campaign(rate)
    try:
        for trial in range(trials):
            kind = sites.FAULTS[trial % len(sites.FAULTS)]
            campaign.trial(site, sites.Fault(kind, rng.randrange(1 << 30)), rng)
    finally:
        campaign.close()
    print(f"{site} | rate {rate} | {dict(campaign.outcomes)} | worst {campaign.worst:.1e}")
    return campaign


@pytest.mark.parametrize("site", [*sites.IN_WORKERS, *sites.IN_DRIVER])
def test_nothing_escapes_when_everything_is_audited(site):
    campaign = run(site, 1.0)
    assert set(campaign.outcomes) <= {"found", "without effect"}
    assert campaign.outcomes["found"] >= TRIALS // 3


@pytest.mark.parametrize("site", [*sites.IN_WORKERS, *sites.IN_DRIVER])
def test_what_checks_without_a_recomputation_find(site):
    """What is found is mended; what escapes is told by the table of the documentation."""
    campaign = run(site, 0.0)
    assert campaign.outcomes["found, not mended"] == 0
    if site in {"resident rows", "encoded chunk", "model as received", "payload on the wire"}:
        assert campaign.outcomes["escaped"] == 0


@pytest.mark.parametrize("chance", [1e-1, 1e-2, 1e-3, 1e-4] if FULL else [1e-1, 1e-2])
def test_a_worker_that_is_wrong_now_and_then_is_named(chance):
    """No vote can suspect it: its wrong digits lie inside the envelope. Two of them name it, and nobody else."""
    culprit = 1
    with AuditedMPEncodedData(ROWS, EST, num_workers=WORKERS, num_shards=SHARDS, audit_rate=1.0) as handle:
        shard = min(handle._worker_shards[culprit])
        handle.transport.run(Apply(sites.arm_now_and_then, (chance, 3)), shard, culprit)
        evidence = handle._audit.evidence
        rounds = faults = 0
        while not evidence.named or rounds < (500 if FULL else 5):
            before = len(handle.audit_receipts)
            assert handle.pysp_seq_estimate(EST, START).digest() == CLEAN
            faults += len(handle.audit_receipts) - before
            rounds += 1
            assert evidence.named or evidence.trials[culprit] < 20 / chance, (
                f"{faults} faults in {rounds} rounds named nobody"
            )
        heard = evidence.trials[culprit]
        print(f"intermittent {chance:g} | {faults} faults in {heard} statistics, {rounds} rounds | {evidence.named}")
        assert list(evidence.named) == [culprit]
        assert evidence.faults == {culprit: faults}
        assert {receipt.comparison_mode for receipt in handle.audit_receipts} == {"exact/v1"}
        assert handle._blacklist == set()
