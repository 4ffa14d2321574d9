"""Same shards, same bits: every model, as it is and as a mixture, on every transport and worker count.

The default run takes every model over one of the worker counts and one of the ways to split, in turn;
``MIXLE_IDENTITY=full`` (set by ``nox -s identity``) takes all of them.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from bits import bits
from mixle.inference import optimize
from mixle.utils.parallel.folding.shards import Contiguous, Strided
from mixle.utils.parallel.multiprocessing import MPEncodedData
from mixle.utils.parallel.planner import encoded_data
from models import MODELS
from traces import NAMES, problem, reference, trace

pytestmark = pytest.mark.identity

FULL = os.environ.get("MIXLE_IDENTITY") == "full"
WORKERS = (1, 2, 3, 5, 8) if FULL else (2, 5)
MAPS = {"strided": Strided(7), "contiguous": Contiguous(4)}


SPLITS = [(shard_map, sub_chunks) for shard_map in MAPS for sub_chunks in (1, 2, 3)]


def taking_turns(kinds):
    """Return all pairs of a name and one of `kinds`; by default one kind for each name, in turn."""
    return [(name, kind) for i, name in enumerate(NAMES) for j, kind in enumerate(kinds) if FULL or i % len(kinds) == j]


@pytest.mark.parametrize(("name", "split"), taking_turns(SPLITS), ids=str)
def test_threads_give_the_bits_of_one_thread(name, split):
    (rows, estimator), (shard_map, sub_chunks) = problem(name), split
    options = {"num_shards": MAPS[shard_map], "sub_chunks": sub_chunks, "parallel_chunks": True, "chunk_workers": 3}
    with encoded_data(rows, estimator, **options) as handle:
        assert trace(handle, estimator) == reference(name, MAPS[shard_map], sub_chunks)


@pytest.mark.parametrize(("name", "workers"), taking_turns(WORKERS), ids=str)
def test_processes_give_the_bits_of_one_thread(name, workers):
    rows, estimator = problem(name)
    for sub_chunks in (1, 2, 3) if FULL else (1 if workers == 2 else 3,):
        for shard_map in MAPS.values() if FULL else (MAPS["strided"],):
            options = {"num_shards": shard_map, "sub_chunks": sub_chunks, "num_workers": workers}
            with encoded_data(rows, estimator, backend="mp", **options) as handle:
                assert trace(handle, estimator) == reference(name, shard_map, sub_chunks)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("name", ["gaussian", "composite", "mixture of composite", "mixture of optional"])
def test_the_documented_default_equals_a_fold_by_hand(name, workers):
    """`num_workers=w` means shards ``rows[s::w]``, one accumulator each, combined in order."""
    rows, estimator = problem(name)
    with MPEncodedData(rows, estimator, num_workers=workers) as handle:
        model = handle.pysp_seq_initialize(estimator, np.random.RandomState(5), 0.5)
        nobs, value = handle.pysp_stream_accumulate(estimator, model)
        estimated = handle.pysp_seq_estimate(estimator, model)
    factory = estimator.accumulator_factory()
    total = factory.make()
    for shard in range(workers):
        part = rows[shard::workers]
        accumulator = factory.make()
        payload = accumulator.acc_to_encoder().seq_encode(part)
        accumulator.seq_update(payload, np.ones(len(part)), model)
        total.combine(accumulator.value())
    assert nobs == len(rows)
    assert bits(value) == bits(total.value())
    assert bits(estimated.to_dict()) == bits(estimator.estimate(float(len(rows)), total.value()).to_dict())


@pytest.mark.parametrize("name", NAMES)
def test_a_start_agrees_across_maps_to_rounding(name):
    rows, estimator = problem(name)
    read = MODELS[name.removeprefix("mixture of ") if name not in MODELS else name]().parameters
    found = []
    for shard_map in (Strided(1), Strided(7), Contiguous(4)):
        with encoded_data(rows, estimator, num_shards=shard_map) as handle:
            start = handle.pysp_seq_initialize(estimator, np.random.RandomState(5), 0.5)
        found.append(read(start) if name in MODELS else [x for part in start.components for x in read(part)])
    for numbers in found[1:]:
        assert numbers == pytest.approx(found[0], rel=1e-9, abs=1e-9)


def test_bits_do_not_depend_on_the_hash_seed_of_python(tmp_path):
    import subprocess
    import sys

    script = tmp_path / "fit.py"
    script.write_text(
        "import numpy as np\n"
        "from mixle.stats import *\n"
        "from mixle.inference import optimize\n"
        "rows = [(float(i % 7), 'abcde'[i % 5]) for i in range(200)]\n"
        "e = MixtureEstimator([CompositeEstimator((GaussianEstimator(), CategoricalEstimator()))] * 2)\n"
        "m = optimize(rows, e, backend='mp', num_workers=2, max_its=3, delta=None, seed=1)\n"
        "print(m.digest())\n"
    )
    digests = {
        subprocess.run(
            [sys.executable, str(script)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "12345")
    }
    assert len(digests) == 1


def test_weights_fit_the_same_bits_everywhere():
    rows, estimator = problem("mixture of composite")
    weights = np.random.RandomState(9).randint(0, 3, len(rows)).astype(float)
    digests = set()
    for backend, options in (("local", {}), ("local", {"parallel_chunks": True}), ("mp", {"num_workers": 3})):
        with encoded_data(rows, estimator, backend=backend, num_shards=6, weights=weights, **options) as handle:
            model = optimize(None, estimator, enc_data=handle, max_its=4, delta=None, seed=2, init_p=1.0)
            digests.add(model.digest())
    assert len(digests) == 1
