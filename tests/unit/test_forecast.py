"""The forecast of a worker's peak: a probe here, a pool there."""

import os
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from mixle import stats
from mixle.utils.parallel.folding.handle import Handle
from mixle.utils.parallel.folding.inputs import make_source
from mixle.utils.parallel.folding.shards import Strided
from mixle.utils.parallel.planning.forecast import Baseline, Footprint, Phase, forecast, measure_footprint
from mixle.utils.parallel.transports.process import ProcessTransport

GAUSSIANS = stats.MixtureEstimator([stats.GaussianEstimator()] * 4)
NUMBERS = np.random.RandomState(0).normal(size=200_000)


def test_an_array_is_viewed_and_other_rows_are_encoded():
    array = measure_footprint(NUMBERS, GAUSSIANS)
    assert (array.raw_row_bytes, array.object_row_bytes) == (8.0, 0.0)
    assert array.encoded_row_bytes < 1.0
    listed = measure_footprint(NUMBERS[:9000].tolist(), GAUSSIANS)
    assert listed.raw_row_bytes > 8.0
    assert listed.object_row_bytes > 24.0
    assert listed.encoded_row_bytes == pytest.approx(8.0, abs=1.0)


def test_rows_that_strided_pieces_copy_are_counted():
    narrow = measure_footprint(NUMBERS, GAUSSIANS)
    assert narrow.strided_row_bytes == pytest.approx(8.0, abs=0.1)
    one, two = (forecast(narrow, 10**6, 1, sub_chunks=n).parts["encoded"] for n in (1, 2))
    assert (one < 10**5, two) == (True, pytest.approx(8 * 10**6, rel=0.02))  # pieces of strided shards are strided
    assert forecast(narrow, 10**6, 1, num_shards=2).parts["encoded"] == one  # a shard lies in one piece
    wide = measure_footprint(np.ones((40_000, 8)), stats.DiagonalGaussianEstimator())
    assert wide.strided_row_bytes < 1.0  # stays a view


@pytest.mark.parametrize("workers", [1, 3, 64])
def test_the_bound_is_above_the_estimate_by_what_freed_arrays_may_keep_and_a_margin(workers):
    rows, bare = Footprint(100.0, 0.0, 0.0, 0.0, (Phase(0.0, 0.0, 0.0),)), Baseline(0, 0, 0, 0)
    told = forecast(rows, 10**6, workers, baseline=bare)
    margin = max(0.1 * told.estimate_bytes, 5 << 19) + min(1 << 22, 8.0 * 10**6 / workers)
    assert told.bound_bytes == pytest.approx(told.estimate_bytes + margin, abs=8)


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the system tells no proportional set size")
def test_a_worker_touches_no_rows_but_those_of_its_own_shards():
    """Pages that several workers read would count for whoever reads first: no bound could hold."""
    rows = np.ones((400_000, 8))
    transport = ProcessTransport(3)
    estimator = stats.DiagonalGaussianEstimator()
    encoder = estimator.accumulator_factory().make().acc_to_encoder()
    with Handle(transport, make_source(rows, encoder, Strided(3), 1, None, estimator)) as handle:
        handle.pysp_seq_estimate(estimator, None)
        for worker in transport.workers():
            mapped = Path(f"/proc/{transport.process(worker).pid}/smaps").read_text("ascii").split("mixle-rows")[1]
            resident = next(int(line.split()[1]) * 1024 for line in mapped.splitlines() if line.startswith("Rss:"))
            assert 0.9 * rows.nbytes / 3 < resident < 1.1 * rows.nbytes / 3


def test_the_core_needs_the_same_blocks_however_many_rows_there_are():
    found = measure_footprint(NUMBERS, GAUSSIANS)
    fixed = [phase.fixed_bytes for phase in found.phases]
    assert max(fixed) > 4 * 2048 * 8  # a block of log-densities
    assert max(phase.row_bytes + phase.piece_row_bytes for phase in found.phases) < 100.0


def test_a_larger_probe_tells_the_same():
    small, large = measure_footprint(NUMBERS, GAUSSIANS), measure_footprint(NUMBERS, GAUSSIANS, probe_rows=40_000)
    one, two = (forecast(found, 10**7, 4, baseline=Baseline(0, 0, 0, 0)).estimate_bytes for found in (small, large))
    assert one == pytest.approx(two, rel=0.1)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_few_rows_are_enough_for_a_probe(rows):
    found = measure_footprint(NUMBERS[:rows], stats.GaussianEstimator())
    assert found.probe_rows == rows
    assert forecast(found, rows, 1).estimate_bytes > Baseline().private_bytes


def test_a_trace_that_is_on_stays_on():
    tracemalloc.start()
    try:
        measure_footprint(NUMBERS[:64], stats.GaussianEstimator())
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


PLAIN = Footprint(10.0, 50.0, 20.0, 4.0, (Phase(8.0, 16.0, 1000.0), Phase(0.0, 0.0, 9000.0)))


def test_parts_add_up_and_each_follows_what_causes_it():
    bare = Baseline(100, 300, 10, 30)
    one = forecast(PLAIN, 1000, 2, baseline=bare)
    assert one.estimate_bytes == sum(one.parts.values())
    assert one.parts == {"worker": 20, "rows": 5000, "encoded": 10_000, "kept free": 20_000, "encoding": 27_000}
    pieces = forecast(PLAIN, 1000, 2, sub_chunks=4, baseline=bare)
    assert pieces.estimate_bytes == one.estimate_bytes - 4 * 375
    shards = forecast(PLAIN, 1000, 2, num_shards=10, baseline=bare)
    assert shards.parts == {"worker": 200, "rows": 5000, "encoded": 10_000, "kept free": 4000, "step": 9000}
    assert forecast(PLAIN, 1000, 4, baseline=bare).estimate_bytes < one.estimate_bytes
    assert one.bound_bytes > one.estimate_bytes


@pytest.mark.parametrize("options", [{"workers": 0}, {"workers": 1, "sub_chunks": 0}, {"workers": 1, "num_shards": 0}])
def test_numbers_are_checked(options):
    with pytest.raises(ValueError, match="must be at least 1"):
        forecast(PLAIN, 10, **options)


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the system tells no proportional set size")
def test_a_real_pool_stays_below_the_bound_and_near_the_estimate():
    """The campaign is benchmarks/planner.py; this is one of its cases, with the worker's own size taken from a pool."""

    def sizes(rows, workers):
        transport = ProcessTransport(workers)
        encoder = GAUSSIANS.accumulator_factory().make().acc_to_encoder()
        handle = Handle(transport, make_source(rows, encoder, Strided(workers), 1, None, GAUSSIANS))
        with handle:
            model = handle.pysp_seq_initialize(GAUSSIANS, np.random.RandomState(1), 0.1)
            handle.pysp_seq_estimate(GAUSSIANS, model)
            found = []
            for worker in transport.workers():
                lines = Path(f"/proc/{transport.process(worker).pid}/smaps_rollup").read_text("ascii").splitlines()[1:]
                found.append({line.split()[0]: int(line.split()[1]) * 1024 for line in lines})
        return found

    empty = sizes(NUMBERS[:64], 2)[0]
    private = empty["Private_Dirty:"] + empty["Private_Clean:"]
    baseline = Baseline(private, (empty["Pss:"] - private) * 3, 0, 0)
    told = forecast(measure_footprint(NUMBERS, GAUSSIANS), len(NUMBERS), 2, baseline=baseline)
    seen = max(size["Pss:"] for size in sizes(NUMBERS, 2))  # at rest: the peak lies between this and the bound
    assert 0.6 * told.estimate_bytes < seen < told.bound_bytes


@pytest.mark.skipif(sys.platform != "linux" or not hasattr(os, "fork"), reason="the default is that of Linux")
def test_without_a_measured_worker_the_default_is_in_the_right_decade():
    assert 1e6 < Baseline().of(1) < 1e8
    assert Baseline().of(100) < Baseline().of(1)
