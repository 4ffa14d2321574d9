"""What tests of engines share: rows, a fit, and traces short enough to travel."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

import mixle.stats as st
from mixle.inference import optimize
from mixle.telemetry import Telemetry
from mixle.testing import ChaosPlan
from mixle.utils.parallel.folding.shards import Strided
from mixle.utils.parallel.planner import encoded_data
from mixle.utils.parallel.policies.audit import Audit
from mixle.utils.parallel.policies.observe import Observe
from mixle.utils.parallel.policies.retry import Retry
from traces import NAMES, problem, reference, trace

ROWS = [(float(i % 7) + 0.1 * (i % 13), "abcde"[i % 5]) for i in range(700)]
COUNTS = (1, 4, 7)
FULL = os.environ.get("MIXLE_IDENTITY") == "full"
#: Models of every kind of rows, of statistics and of starts.
REPRESENTATIVE = frozenset(
    {
        "gaussian far from zero",
        "student t",
        "categorical of mixed labels",
        "mixture of multivariate gaussian",
        "mixture of composite",
        "mixture of record",
        "mixture of optional",
        "mixture of sequence of optional labels",
        "hidden markov of unlike families with a terminal state",
        "markov chain",
        "hierarchical mixture",
        "probabilistic pca",
    }
)
assert set(NAMES) >= REPRESENTATIVE
NUMBERS = [float(i % 11) + 0.01 * i for i in range(90)]
ESTIMATOR = st.MixtureEstimator([st.CompositeEstimator((st.GaussianEstimator(), st.CategoricalEstimator()))] * 2)


def faults():
    """Return a plan that every transport can meet: a late shard, and a wrong number in the statistic of another."""
    return ChaosPlan().delay(0.01, shard=1, round=1).corrupt(shard=2, round=2, times=1)


#: By name: policies of a handle, made of a recorder and of the seed of an audit; none changes a bit.
POLICIES = {
    "retry": lambda recorder, seed=0: [Retry(2)],
    "audit": lambda recorder, seed=0: [Audit(0.5, rng=seed)],
    "observe": lambda recorder, seed=0: [Observe(recorder, "run")],
    "chaos": lambda recorder, seed=0: [faults(), Audit(0.0)],
    "all": lambda recorder, seed=0: [faults(), Observe(recorder, "run"), Audit(1.0, rng=seed), Retry(2)],
}


def check_policies(policy, make, wanted, estimator=ESTIMATOR):
    """Ask that a fit under policies is the one without, and that they did their work; returns the report's text.

    `make` takes the policies, and returns a handle.
    """
    recorder = Telemetry()
    policies = POLICIES[policy](recorder)
    with make(policies) as handle:
        assert trace(handle, estimator) == wanted
        text = handle.report().render()
    assert {event.tags["run_id"] for event in recorder.events("em_round")} == (
        {"run"} if policy in {"observe", "all"} else set()
    )
    for plan in policies:
        if isinstance(plan, ChaosPlan):
            plan.check()
    return text


def short(value):
    """Return a digest of anything that `bits` made."""
    return hashlib.sha256(repr(value).encode()).hexdigest()


def fit(rows=ROWS, **options):
    """Return the digest of a fit of a few iterations."""
    options = {"max_its": 3, "delta": None, "seed": 3, **options}
    return optimize(rows, ESTIMATOR, **options).digest()


def gaussian(num_shards, rows=NUMBERS):
    """Return the digest of one Gaussian of `rows` without a start, on one thread."""
    with encoded_data(rows, st.GaussianEstimator(), num_shards=num_shards) as handle:
        return handle.pysp_seq_estimate(st.GaussianEstimator(), None).digest()


def shard_counts(name, turn):
    """Return the numbers of shards that a model is tried at.

    A few models are tried at all of them, the others at one in rotation: engines take turns, so that each model meets
    every number on some engine. With ``MIXLE_IDENTITY=full`` all models are tried at all numbers.
    """
    if FULL or name in REPRESENTATIVE:
        return COUNTS
    return (COUNTS[(NAMES.index(name) + turn) % len(COUNTS)],)


def rounds(name):
    """Return how many rounds a model is fitted: one tells all that an engine may do to its rows and statistics."""
    return 3 if FULL or name in REPRESENTATIVE else 1


def engine_trace(handle, name):
    """Return what a fit of a model of the table says on an engine."""
    return trace(handle, problem(name)[1], rounds(name))


def local_reference(name, shard_map):
    """Return what the same fit says on one thread."""
    return reference(name, shard_map, rounds=rounds(name))


#: Models whose E-step in float32 has other bits, and the numbers of shards they are tried at.
NARROW = [(name, shards) for name in ("mixture of composite", "mixture of multivariate gaussian") for shards in (1, 4)]


def narrow_trace(name, shards, **options):
    """Return what one round in float32 says on an engine."""
    rows, estimator = problem(name)
    with encoded_data(rows, estimator, num_shards=shards, precision="float32", **options) as handle:
        return trace(handle, estimator, 1)


def narrow_reference(name, shards):
    """Return what the same round says on one thread; its bits are not those of float64."""
    found = reference(name, Strided(shards), rounds=1, precision="float32")
    assert found != reference(name, Strided(shards), rounds=1)
    return found


def launcher(name):
    """Return the path of a program that a wheel put beside this interpreter, or that is on the path."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else str(shutil.which(name))
