"""MPI: one launch per number of ranks runs the whole table (`mpi_job.py`); this file says what must come out."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from engine_support import (
    ESTIMATOR,
    NARROW,
    NUMBERS,
    ROWS,
    fit,
    gaussian,
    launcher,
    local_reference,
    narrow_reference,
    shard_counts,
    short,
)

import mixle.stats as st
from mixle.inference import optimize
from mixle.utils.parallel.folding.shards import Contiguous, Strided
from mixle.utils.parallel.planner import encoded_data
from traces import NAMES, problem, reference, trace

pytestmark = pytest.mark.engines

HERE = Path(__file__).parent
TIMEOUT_S = 600


def mpiexec(ranks, script, *words, timeout=TIMEOUT_S):
    """Run a script on ranks of this machine; the launcher and all ranks are gone afterwards."""
    command = [launcher("mpiexec"), "-n", str(ranks), sys.executable, str(HERE / script), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.fixture(scope="module", params=[1, 2, 3])
def job(request, tmp_path_factory):
    """Return (ranks, outcomes by rank) of one launch."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    folder = tmp_path_factory.mktemp(f"mpi{request.param}")
    done = mpiexec(request.param, "mpi_job.py", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(request.param)]
    failed = {name: out["failed"] for one in outcomes for name, out in one.items() if "failed" in out}
    assert not failed, "\n".join(f"{name}: {text}" for name, text in failed.items())
    return request.param, outcomes


def same_on_all_ranks(job, case):
    """Return the outcome of a case, which no rank sees differently."""
    _, outcomes = job
    first = outcomes[0][case]
    assert all(one[case] == first for one in outcomes)
    return first


def test_every_model_has_the_bits_of_one_thread(job):
    found = same_on_all_ranks(job, "identity")
    asked = [(name, shards) for name in NAMES for shards in shard_counts(name, job[0])]
    assert set(found) == {f"{name}, {shards}" for name, shards in asked}
    for name, shards in asked:
        assert found[f"{name}, {shards}"] == short(local_reference(name, Strided(shards))), (name, shards)


def test_float32_has_the_bits_of_one_thread_too(job):
    found = same_on_all_ranks(job, "float32")
    assert found == {f"{name}, {shards}": short(narrow_reference(name, shards)) for name, shards in NARROW}


def test_maps_and_sub_chunks(job):
    found = same_on_all_ranks(job, "maps_and_pieces")
    count = len(problem("mixture of composite")[0])
    for shard_map in (Strided(5), Contiguous(4), Contiguous(sizes=(count - 3, 3))):
        for pieces in (1, 3):
            assert found[f"{shard_map}, {pieces}"] == short(reference("mixture of composite", shard_map, pieces))


def test_one_shard_per_rank_is_the_default(job):
    found = same_on_all_ranks(job, "default_map")
    assert found["mpi"] == found["local"] == fit(num_shards=job[0])


def test_fits_give_the_digest_of_local_however_rows_come(job):
    found = same_on_all_ranks(job, "fits")
    weighted = fit(num_shards=7, weights=[float(i % 3) for i in range(len(ROWS))])
    assert found.pop("weights") == weighted
    assert set(found.values()) == {fit(num_shards=7)}


def test_each_rank_its_own_rows(job):
    found = same_on_all_ranks(job, "own_rows")
    est = st.MixtureEstimator([st.GaussianEstimator()] * 2)
    with encoded_data(NUMBERS, est, num_shards=Contiguous(sizes=tuple(found["sizes"]))) as handle:
        assert found["trace"] == short(trace(handle, est))
    sizes = Contiguous(sizes=tuple(found["fit sizes"]))
    assert found["fit"] == optimize(NUMBERS, est, num_shards=sizes, max_its=3, delta=None, seed=3).digest()
    weights = [1.0 + i % 2 for i in range(len(NUMBERS))]
    weighted = optimize(NUMBERS, est, num_shards=sizes, weights=weights, max_its=3, delta=None, seed=3)
    assert found["weighted"] == weighted.digest()


def test_files_by_rank(job):
    found = same_on_all_ranks(job, "own_files")
    est = st.MixtureEstimator([st.GaussianEstimator()] * 2)
    assert found["sizes"] == [20, 20, 20, 20, 10]
    with encoded_data(np.array(NUMBERS), est, num_shards=Contiguous(sizes=(20, 20, 20, 20, 10))) as handle:
        assert found["trace"] == short(trace(handle, est))


@cache
def traced(shards, rounds):
    """Return the trace of one thread."""
    with encoded_data(ROWS, ESTIMATOR, num_shards=shards) as handle:
        return short(trace(handle, ESTIMATOR, rounds))


def test_groups_fold_in_place_where_every_rank_has_whole_ones(job):
    ranks, _ = job
    found = same_on_all_ranks(job, "groups")
    for shards in (256, 257, 512, 513):
        expected = traced(shards, 1)
        digest, kinds = found[str(shards)]
        assert digest == expected, shards
        in_place = shards > 256 and -(-shards // 256) >= ranks
        assert ("StackedStatistic" not in kinds) == in_place, shards
    assert found["257 audited"] == traced(257, 1)


def test_policies_compose(job):
    _, outcomes = job
    tables = [dict(one["policies"]) for one in outcomes]
    records = [table.pop("records") for table in tables]
    assert records[0] > 0
    assert not any(records[1:])  # telemetry is the root's
    assert all(table == tables[0] for table in tables)
    expected = traced(7, 3)
    assert {digest for name, digest in tables[0].items() if not name.endswith("own")} == {expected}
    assert len({digest for name, digest in tables[0].items() if name.endswith("own")}) == 1


def test_a_corrupted_rank_is_outvoted_and_gets_no_more_shards(job):
    ranks, _ = job
    found = same_on_all_ranks(job, "a_corrupted_rank_is_outvoted")
    if ranks < 3:
        assert found == {}  # two cannot outvote one
        return
    assert found["model"] == found["again"] == gaussian(6)
    assert found["workers"] == found["owners"] == [0, 2]


def test_errors_of_one_rank_are_raised_on_all(job):
    ranks, outcomes = job
    for rank, one in enumerate(outcomes):
        found = one["errors"]
        row = "Row 40 (Gaussian): 'x' is not a number; convert it, or use Categorical for labels"
        assert found["row"]["text"] == found["row in a fit"]["text"] == row
        assert "RowError" in found["root only, bad"]["kinds"]
        assert "cannot start 2 components" in found["root only, too few"]["text"]
        assert {"RuntimeError", "Broken"} <= set(found["M-step"]["kinds"])
        assert found["M-step"]["text"] == "Broken: this M-step fails"
        assert {"RuntimeError", "Broken"} <= set(found["one rank's accumulator"]["kinds"]) or rank == ranks - 1
        assert "Broken" in found["one rank's accumulator"]["kinds"]
        assert "EmptyDataError" in found["empty"]["kinds"]
        assert "EmptyDataError" in found["empty on one rank"]["kinds"]
        assert "TypeError" in found["generator"]["kinds"]
        assert "TypeError" in found["comm"]["kinds"]
        needs = "MPIEncodedData requires an estimator or an explicit encoder. "
        assert found["no estimator"]["text"] == f"{needs}Pass estimator=, or a model for one: model.estimator()"
        assert f"root={ranks} is no rank of this job" in found["root"]["text"]
        assert "takes no num_workers" in found["control"]["text"]
        assert "RankRows(rows, shards=K)" in found["map of own rows"]["text"]
        assert found["after all that"] == gaussian(4)
        assert "HandleClosed" in found["closed"]["kinds"]


def test_ranks_that_differ_are_told_so(job):
    ranks, outcomes = job
    words = {
        "different root": "must pass the same root: rank 0 passes 0, rank 1 1",
        "different data": "ranks pass different data: those of rank 1",
        "different length": "90 rows on rank 0, 89 on rank 1",
        "different maps": "must pass the same num_shards",
        "other calls": "must make the same calls in the same order",
    }
    for one in outcomes:
        for name, text in words.items():
            expected = text if ranks > 1 else "nothing was raised"
            assert expected in one["errors"][name]["text"], name
        if ranks > 1:
            assert "ValueError" in one["errors"]["one rank's argument"]["kinds"]


def test_more_ranks_than_rows(job):
    ranks, _ = job
    found = same_on_all_ranks(job, "more_ranks_than_rows")
    assert found == {"shards": max(1, ranks - 1), "mu": 2.5 if ranks == 3 else 1.0}


def test_a_rank_that_leaves_is_not_waited_for(job):
    ranks, outcomes = job
    for rank, one in enumerate(outcomes):
        assert "HandleClosed" in one["a_rank_that_leaves"]["kinds"]
        told = one["a_rank_that_leaves_with_an_error"]
        assert "Broken" in told["kinds"]
        if rank < ranks - 1:
            assert f"rank {ranks - 1} closed" in one["a_rank_that_leaves"]["text"]
            assert "RuntimeError" in told["kinds"]
            assert told["notes"] == [f"raised on rank {ranks - 1}"]


def test_an_interrupt_of_one_rank_ends_the_fit_on_all(job):
    found = same_on_all_ranks(job, "interrupted")
    assert found["stopped"] == "interrupted"
    assert found["restored"]
    assert found["digest"] == fit(num_shards=7, max_its=2)


def test_the_root_says_when_time_is_up(job):
    assert same_on_all_ranks(job, "the_clock_of_the_root_ends_a_fit") == {"stopped": "max_seconds", "iterations": 1}


def test_the_best_of_several_fits(job):
    assert same_on_all_ranks(job, "the_best_of_several") == {"same": True}


def test_what_is_said_of_each_row_is_said_to_every_rank(job):
    found = same_on_all_ranks(job, "what_is_said_of_each_row")
    model = optimize(ROWS, ESTIMATOR, max_its=2, delta=None, seed=3)
    with encoded_data(ROWS, ESTIMATOR) as handle:
        for kind in ("score_samples", "posterior", "predict"):
            wanted = short(np.asarray(getattr(handle, kind)(model)).tobytes())
            assert {found[f"same rows, {kind}"], found[f"rows of the root, {kind}"]} == {wanted}


def test_checkpoints_are_the_roots(job):
    found = same_on_all_ranks(job, "checkpoints")
    assert (found["first"], found["files"]) == ("Broken", ["checkpoint0", "checkpoint0.previous"])
    assert found["digest"] == fit(num_shards=7, max_its=4)


def test_output_belongs_to_the_root_and_resources_are_ranks(job):
    ranks, outcomes = job
    assert [one["output"]["is stdout"] for one in outcomes] == [True] + [False] * (ranks - 1)
    for one in outcomes:
        assert one["output"]["resources"] == [f"mpi:{rank}" for rank in range(ranks)]
        assert one["output"]["by environment"] == ranks


def test_nothing_is_left(job):
    assert same_on_all_ranks(job, "nothing_is_left") == {"users": 0, "handler": True}


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("killed", "EXIT CODE: 9"),
        ("exit", ""),  # the launcher passes the exit code on and says nothing
        ("uncaught", "ValueError: a line of the user's script"),
        ("elsewhere", "while the others wait in a call that is not ours"),
    ],
)
def test_a_rank_that_dies_ends_the_job_and_says_why(how, words, tmp_path):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    done = mpiexec(2, "mpi_death.py", how, tmp_path)
    for rank in range(2):  # MPI leaves what a killed rank had
        for segment in (tmp_path / f"segments{rank}").read_text().splitlines():
            Path(segment).unlink(missing_ok=True)
    assert done.returncode == {"killed": 9, "exit": 3}.get(how, 1)
    assert words in done.stdout + done.stderr
    assert "went on" not in done.stdout
    if how == "uncaught":  # the other rank raises it too, as its own error
        assert (done.stdout + done.stderr).count("a line of the user's script") > 1
        assert "raised on rank 1" in done.stderr
