"""Run by ``mpiexec -n N python mpi_job.py FOLDER [CASE ...]``: every case on every rank, outcomes as JSON per rank."""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from engine_support import (
    ESTIMATOR,
    NARROW,
    NUMBERS,
    POLICIES,
    ROWS,
    engine_trace,
    fit,
    narrow_trace,
    shard_counts,
    short,
)
from mpi4py import MPI

import mixle.stats as st
from mixle.inference import best_of, optimize
from mixle.telemetry import Telemetry
from mixle.utils.parallel.folding.shards import Contiguous, Strided
from mixle.utils.parallel.mpi import MPIEncodedData, RankFiles, RankRows, mpi_out
from mixle.utils.parallel.planner import Resources, encoded_data
from mixle.utils.parallel.policies.audit import Audit
from mixle.utils.parallel.transports.mpi.interrupts import INTERRUPTS
from traces import NAMES, problem, trace

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
LAST = SIZE - 1
FOLDER = Path(sys.argv[1])
CASES = {}


def estimator():
    return ESTIMATOR


def case(function):
    CASES[function.__name__] = function
    return function


def raised(call):
    """Return what a call raises, as words."""
    try:
        made = call()
        if hasattr(made, "close"):
            made.close()
    except BaseException as error:  # noqa: BLE001 - interrupts are outcomes too
        kinds = [kind.__name__ for kind in type(error).__mro__]
        return {"kinds": kinds, "text": str(error), "notes": getattr(error, "__notes__", [])}
    return {"kinds": [], "text": "nothing was raised", "notes": []}


@case
def identity():
    found = {}
    for name in NAMES:
        rows, est = problem(name)
        for shards in shard_counts(name, SIZE):
            with MPIEncodedData(rows, est, num_shards=shards) as handle:
                found[f"{name}, {shards}"] = short(engine_trace(handle, name))
    return found


@case
def float32():
    return {f"{name}, {shards}": short(narrow_trace(name, shards, backend="mpi")) for name, shards in NARROW}


@case
def maps_and_pieces():
    rows, est = problem("mixture of composite")
    found = {}
    for shard_map in (Strided(5), Contiguous(4), Contiguous(sizes=(len(rows) - 3, 3))):
        for pieces in (1, 3):
            with MPIEncodedData(rows, est, num_shards=shard_map, sub_chunks=pieces) as handle:
                found[f"{shard_map}, {pieces}"] = short(trace(handle, est))
    return found


@case
def default_map():
    return {"mpi": fit(backend="mpi"), "local": fit(num_shards=SIZE)}


@case
def fits():
    return {
        "same rows": fit(backend="mpi", num_shards=7),
        "root only": fit(ROWS if RANK == LAST else None, backend="mpi", num_shards=7, root=LAST, root_only=True),
        "own communicator": fit(backend="mpi", num_shards=7, comm=WORLD),
        "alone": fit(backend="mpi", num_shards=7, comm=MPI.COMM_SELF),
        "weights": fit(backend="mpi", num_shards=7, weights=[float(i % 3) for i in range(len(ROWS))]),
        "root's seed counts": fit(backend="mpi", num_shards=7, seed=3 if RANK == 0 else 4),
    }


def cut(rank):
    """Return the rows of a rank: parts of very different size, none on rank 1."""
    edges = {1: [0, 90], 2: [0, 90, 90], 3: [0, 80, 80, 90]}[SIZE]
    return NUMBERS[edges[rank] : edges[rank + 1]]


@case
def own_rows():
    est = st.MixtureEstimator([st.GaussianEstimator()] * 2)
    found = {}
    with MPIEncodedData(RankRows(cut(RANK), shards=3), est) as handle:
        found["sizes"] = [handle._sizes[shard] for shard in sorted(handle._sizes)]
        found["trace"] = short(trace(handle, est))
    found["fit"] = optimize(RankRows(cut(RANK)), est, backend="mpi", max_its=3, delta=None, seed=3).digest()
    found["fit sizes"] = [len(cut(rank)) for rank in range(SIZE) if cut(rank)]
    weights = [1.0 + i % 2 for i in range(len(NUMBERS))]
    mine = weights[: len(cut(0))] if RANK == 0 else weights[len(NUMBERS) - len(cut(RANK)) :] if cut(RANK) else []
    with MPIEncodedData(RankRows(cut(RANK)), est, weights=mine) as handle:
        found["weighted"] = optimize(None, est, enc_data=handle, max_its=3, delta=None, seed=3).digest()
    return found


@case
def own_files():
    paths = [FOLDER / f"part{i}.npy" for i in range(5)]
    if RANK == 0:
        for i, path in enumerate(paths):
            np.save(path, np.array(NUMBERS)[i * 20 : (i + 1) * 20])
    WORLD.Barrier()
    est = st.MixtureEstimator([st.GaussianEstimator()] * 2)
    with MPIEncodedData(RankFiles(paths), est) as handle:
        return {"sizes": list(handle._sizes.values()), "trace": short(trace(handle, est))}


@case
def groups():
    """Both sides of 256 shards, and of a whole group per rank."""
    found = {}
    for shards in (256, 257, 512, 513):
        with MPIEncodedData(ROWS, estimator(), num_shards=shards) as handle:
            model = handle.pysp_seq_initialize(estimator(), np.random.RandomState(1), 0.5)
            results = list(handle.transport.map(accumulate_task(model)))
            kinds = sorted({type(result.value).__name__ for result in results})
            found[shards] = [short(trace(handle, estimator(), 1)), kinds]
    with encoded_data(ROWS, estimator(), backend="mpi", num_shards=257, policies=[Audit(0.01)]) as handle:
        found["257 audited"] = short(trace(handle, estimator(), 1))
    return found


def accumulate_task(model):
    from mixle.utils.parallel.folding.tasks import Accumulate

    return Accumulate(estimator(), model)


@case
def policies():
    found = {}
    recorder = Telemetry()
    for name, make in POLICIES.items():
        for source in ("same", "root", "own"):
            rows = {"same": ROWS, "root": ROWS if RANK == 0 else None, "own": RankRows(ROWS[RANK::SIZE], 7)}[source]
            options = {} if source == "own" else {"num_shards": 7, "root_only": source == "root"}
            given = make(recorder, RANK)
            with encoded_data(rows, estimator(), backend="mpi", policies=given, **options) as handle:
                found[f"{name}, {source}"] = short(trace(handle, estimator()))
    found["records"] = len(list(recorder.events("em_round")))
    return found


@case
def a_corrupted_rank_is_outvoted():
    if SIZE < 3:
        return {}
    given = [Audit(1.0)]
    with encoded_data(NUMBERS, st.GaussianEstimator(), backend="mpi", num_shards=6, policies=given) as handle:

        def hook(worker, shard, role, data):
            if worker != 1:
                return data
            import pickle

            count, value = pickle.loads(data)
            return pickle.dumps((count, value._replace(weight=value.weight + 1.0)))

        handle.transport.arm(hook)
        model = handle.pysp_seq_estimate(st.GaussianEstimator(), None)
        return {
            "model": model.digest(),
            "workers": handle.transport.workers(),
            "owners": sorted(set(handle.transport.owner.values())),
            "again": handle.pysp_seq_estimate(st.GaussianEstimator(), None).digest(),
        }


class Broken(ValueError):
    """A user's own error."""


class BadStep(st.GaussianEstimator):
    def estimate(self, nobs, value):
        raise Broken("this M-step fails")


class BadFactory(st.GaussianEstimator):
    def accumulator_factory(self):
        if RANK == LAST:
            raise Broken("this rank's accumulator fails")
        return super().accumulator_factory()


@case
def errors():
    bad = [*NUMBERS[:40], "x", *NUMBERS[40:]]
    found = {
        "row": raised(lambda: MPIEncodedData(bad, st.GaussianEstimator())),
        "row in a fit": raised(lambda: optimize(bad, st.GaussianEstimator(), backend="mpi")),
        "empty": raised(lambda: MPIEncodedData([], st.GaussianEstimator())),
        "empty on one rank": raised(lambda: MPIEncodedData([] if RANK == LAST else NUMBERS, st.GaussianEstimator())),
        "root": raised(lambda: MPIEncodedData(NUMBERS, st.GaussianEstimator(), root=SIZE)),
        "different root": raised(lambda: MPIEncodedData(NUMBERS, st.GaussianEstimator(), root=RANK)),
        "different data": raised(lambda: MPIEncodedData([*NUMBERS, float(RANK)], st.GaussianEstimator())),
        "different length": raised(lambda: MPIEncodedData(NUMBERS[RANK:], st.GaussianEstimator())),
        "different maps": raised(lambda: MPIEncodedData(NUMBERS, st.GaussianEstimator(), num_shards=RANK + 1)),
        "generator": raised(lambda: MPIEncodedData((x for x in NUMBERS), st.GaussianEstimator())),
        "no estimator": raised(lambda: MPIEncodedData(NUMBERS)),
        "comm": raised(lambda: MPIEncodedData(NUMBERS, st.GaussianEstimator(), comm="world")),
        "control": raised(lambda: encoded_data(NUMBERS, st.GaussianEstimator(), backend="mpi", num_workers=3)),
        "map of own rows": raised(lambda: MPIEncodedData(RankRows(NUMBERS), st.GaussianEstimator(), num_shards=3)),
        "root only, bad": raised(
            lambda: optimize(bad if RANK == 0 else None, st.GaussianEstimator(), backend="mpi", root_only=True)
        ),
        "root only, too few": raised(
            lambda: optimize(ROWS[:1] if RANK == 0 else None, estimator(), backend="mpi", root_only=True)
        ),
    }
    with MPIEncodedData(NUMBERS, st.GaussianEstimator(), num_shards=4) as handle:
        found["M-step"] = raised(lambda: handle.pysp_seq_estimate(BadStep(), None))
        found["one rank's accumulator"] = raised(lambda: handle.pysp_seq_estimate(BadFactory(), None))
        found["one rank's argument"] = raised(
            lambda: handle.pysp_seq_initialize(st.GaussianEstimator(), np.random.RandomState(1), 2.0 if RANK else 0.5)
        )
        found["other calls"] = raised(
            lambda: (
                handle.pysp_seq_estimate(st.GaussianEstimator(), None)
                if RANK == LAST
                else handle.pysp_seq_log_density_sum(st.GaussianDistribution(0.0, 1.0))
            )
        )
        found["after all that"] = handle.pysp_seq_estimate(st.GaussianEstimator(), None).digest()
    found["closed"] = raised(lambda: handle.pysp_seq_estimate(st.GaussianEstimator(), None))
    return found


@case
def more_ranks_than_rows():
    est = st.GaussianEstimator()
    with MPIEncodedData([1.0, 4.0][: max(1, SIZE - 1)], est) as handle:
        return {"shards": handle.num_shards, "mu": handle.pysp_seq_estimate(est, None).mu}


@case
def a_rank_that_leaves():
    handle = MPIEncodedData(NUMBERS, st.GaussianEstimator(), num_shards=4)
    if RANK == LAST:
        handle.close()
        return raised(lambda: handle.pysp_seq_estimate(st.GaussianEstimator(), None))
    return raised(lambda: handle.pysp_seq_estimate(st.GaussianEstimator(), None))


@case
def a_rank_that_leaves_with_an_error():
    def call():
        with MPIEncodedData(NUMBERS, st.GaussianEstimator(), num_shards=4) as handle:
            if RANK == LAST:
                raise Broken("outside of every call")
            handle.pysp_seq_estimate(st.GaussianEstimator(), None)

    return raised(call)


@case
def interrupted():
    def on_step(step):
        if step.iter == 2 and RANK == LAST:
            os.kill(os.getpid(), signal.SIGINT)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = optimize(
            ROWS, estimator(), backend="mpi", num_shards=7, max_its=50, delta=None, seed=3, on_step=on_step
        )
    provenance = model.fit_provenance()
    return {
        "stopped": provenance.stopped,
        "digest": model.digest(),
        "restored": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    }


@case
def the_clock_of_the_root_ends_a_fit():
    model = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        limit = 1e-9 if RANK == 0 else 1e9
        model = optimize(ROWS, estimator(), backend="mpi", max_its=5, delta=None, seed=3, max_seconds=limit)
    return {"stopped": model.fit_provenance().stopped, "iterations": model.fit_provenance().iterations}


@case
def the_best_of_several():
    score, model = best_of(ROWS, None, estimator(), 3, 3, 0.3, None, rng=5, enc_data=None)
    with MPIEncodedData(ROWS, estimator(), num_shards=1) as handle:
        mine, here = best_of(None, None, estimator(), 3, 3, 0.3, None, rng=5, enc_data=handle)
    return {"same": here.digest() == model.digest() and mine == score}


@case
def what_is_said_of_each_row():
    model = optimize(ROWS, estimator(), max_its=2, delta=None, seed=3)
    found = {}
    for name, rows, options in (
        ("same rows", ROWS, {"num_shards": 7, "sub_chunks": 2}),
        ("rows of the root", ROWS if RANK == 0 else None, {"num_shards": 7, "root_only": True}),
    ):
        with MPIEncodedData(rows, estimator(), **options) as handle:
            for kind in ("score_samples", "posterior", "predict"):
                found[f"{name}, {kind}"] = short(np.asarray(getattr(handle, kind)(model)).tobytes())
    return found


@case
def checkpoints():
    """A fit is broken off on every rank, and goes on from the root's file; each rank names another one."""

    def broken(step):
        if step.iter == 2:
            raise Broken("off")

    path = FOLDER / f"checkpoint{RANK}"
    options = {"backend": "mpi", "num_shards": 7, "max_its": 4, "delta": None, "seed": 3, "checkpoint": path}
    first = raised(lambda: optimize(ROWS, estimator(), on_step=broken, **options))
    files = sorted(found.name for found in FOLDER.glob("checkpoint*"))
    return {"first": first["kinds"][0], "files": files, "digest": optimize(ROWS, estimator(), **options).digest()}


@case
def output():
    out = mpi_out()
    return {
        "is stdout": out is sys.stdout,
        "resources": [device.name for device in Resources.from_mpi(WORLD).devices],
        "by environment": len(Resources.from_mpi().devices),
    }


@case
def nothing_is_left():
    return {"users": INTERRUPTS.users, "handler": signal.getsignal(signal.SIGINT) is signal.default_int_handler}


def main():
    outcomes = {}
    for name, function in CASES.items():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        try:
            outcomes[name] = function()
        except BaseException:  # noqa: BLE001 - an outcome
            import traceback

            outcomes[name] = {"failed": traceback.format_exc()}
        WORLD.Barrier()
    (FOLDER / f"rank{RANK}.json").write_text(json.dumps(outcomes))


if __name__ == "__main__":
    main()
