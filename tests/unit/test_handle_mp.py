"""MPEncodedData: a recipe over the process transport, with the bits of every other handle."""

import os
import sys
import threading
import time

import numpy as np
import pytest
from fold_support import SHARDS, PlainEncoder, PlainEstimator, PlainModel, fitted_bits, numbers

from mixle.errors import BackendError, HandleClosed, RowError
from mixle.stats import seq_log_density
from mixle.utils.parallel.folding.shards import Contiguous
from mixle.utils.parallel.multiprocessing import MPEncodedData
from mixle.utils.parallel.planner import LocalEncodedData, encoded_data, plan
from mixle.utils.parallel.resilient_em import ResilientMPEncodedData
from mixle.utils.parallel.transports.process.transport import ProcessTransport

ROWS = numbers()


@pytest.mark.parametrize("workers", SHARDS)
def test_the_default_is_one_strided_shard_per_worker(workers):
    with MPEncodedData(ROWS, PlainEstimator(), num_workers=workers, sub_chunks=2) as handle:
        assert (handle.num_workers, handle.num_shards, handle.size, len(handle)) == (workers, workers, 103, 103)
        assert fitted_bits(handle) == fitted_bits(
            LocalEncodedData(ROWS, PlainEstimator(), num_shards=workers, sub_chunks=2)
        )


def test_bits_do_not_depend_on_the_number_of_workers():
    found = set()
    for workers in (1, 2, 3):
        with MPEncodedData(ROWS, PlainEstimator(), num_workers=workers, num_shards=5, weights=ROWS_W) as handle:
            found.add(fitted_bits(handle))
    assert found == {fitted_bits(LocalEncodedData(ROWS, PlainEstimator(), num_shards=5, weights=ROWS_W))}


ROWS_W = [float(i % 4) for i in range(103)]


def test_the_contiguous_words_of_encoded_data_mean_the_same_here():
    reference = fitted_bits(LocalEncodedData(ROWS, PlainEstimator(), num_shards=Contiguous(3)))
    for words in ({"num_chunks": 3}, {"placement": plan(ROWS, encoder=PlainEncoder(), num_chunks=3)}):
        with encoded_data(ROWS, model=PlainModel(0.0, 1.0), backend="mp", num_workers=2, **words) as handle:
            assert fitted_bits(handle) == reference


@pytest.mark.parametrize(("asked", "got"), [(0, 1), (-3, 1), (99, 4), (np.int64(2), 2)])
def test_workers_are_clipped_to_the_rows(asked, got):
    with MPEncodedData(ROWS[:4], PlainEstimator(), num_workers=asked) as handle:
        assert handle.num_workers == got


@pytest.mark.parametrize(
    ("data", "controls", "error", "words"),
    [
        ([], {}, ValueError, "MPEncodedData requires non-empty data"),
        ((x for x in ROWS), {}, TypeError, r"MPEncodedData: a generator can be read only once: pass list\(data\)"),
        (ROWS, {"estimator": None}, ValueError, "MPEncodedData requires an estimator or an explicit encoder"),
        (ROWS, {"num_workers": True}, TypeError, "num_workers must be a number"),
        (ROWS, {"sub_chunks": 0}, ValueError, "sub_chunks must be positive"),
        (ROWS, {"response_timeout": 0}, ValueError, "response_timeout must be a positive number"),
        (ROWS, {"shutdown_timeout": True}, ValueError, "shutdown_timeout must be a positive number"),
        (ROWS, {"weights": [1.0]}, ValueError, "one per row"),
        (ROWS, {"num_shards": "2"}, TypeError, "num_shards takes an int"),
        ([*ROWS, "x"], {"num_workers": 2}, RowError, r"Row 103 \(Plain\): 'x' is not a number"),
    ],
)
def test_bad_input_is_refused(data, controls, error, words):
    with pytest.raises(error, match=words):
        MPEncodedData(data, **{"estimator": PlainEstimator(), **controls})


def test_a_closed_pool_says_so():
    handle = MPEncodedData(ROWS, PlainEstimator(), num_workers=2)
    handle.close()
    handle.close()
    assert len(handle) == 103
    with pytest.raises(HandleClosed, match="this parallel encoded-data handle is closed: update cannot be served"):
        handle.pysp_seq_estimate(PlainEstimator(), None)


def test_a_transport_that_cannot_be_is_refused(monkeypatch):
    with pytest.raises(BackendError, match="start_method must be 'launcher' or 'spawn', not 'fork'"):
        ProcessTransport(2, start_method="fork")
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(RuntimeError, match=r"sys\.executable is empty: set it, or use backend='local'"):
        MPEncodedData(ROWS, PlainEstimator(), num_workers=2)


def test_a_closed_worker_has_no_descriptor_to_wait_for():
    with MPEncodedData(ROWS, PlainEstimator(), num_workers=2) as handle:
        process = handle.transport.process(0)
        assert process.sentinel >= 0
    with pytest.raises(ValueError, match=r"is closed; ask is_alive\(\) first"):
        process.sentinel  # noqa: B018


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("kind", [MPEncodedData, ResilientMPEncodedData])
def test_closing_ends_a_call_of_another_thread_at_once(kind, tmp_path):
    handle, caught, pipe = kind(ROWS, PlainEstimator(), num_workers=2), [], tmp_path / "begun"
    os.mkfifo(pipe)

    def work():
        with pytest.raises(HandleClosed) as error:
            handle.apply(_work_for_ever, pipe)
        caught.append(error.value)

    thread = threading.Thread(target=work)
    thread.start()
    with pipe.open("rb") as begun:
        assert begun.read(1) == b"."
        began = time.monotonic()
        handle.close()
    thread.join(60)
    assert len(caught) == 1
    assert time.monotonic() - began < 10.0


def _work_for_ever(shard, pipe):
    with pipe.open("wb", buffering=0) as begun:
        begun.write(b".")
        while True:
            pass


def test_densities_come_back_from_workers():
    model = PlainModel(1.0, 2.0)
    here = LocalEncodedData(ROWS, PlainEstimator(), num_shards=3, sub_chunks=2).pysp_seq_log_density(model)
    with MPEncodedData(ROWS, PlainEstimator(), num_workers=2, num_shards=3, sub_chunks=2) as handle:
        there = seq_log_density(handle, model)
    assert [part.tolist() for part in there] == [part.tolist() for part in here]
    assert len(there) == 6


def test_a_pool_stays_usable_after_a_users_exception():
    with MPEncodedData([0.0, 1.0, 2.0, 3.0], PlainEstimator(), num_workers=2) as handle:
        with pytest.raises(RuntimeError, match="shard 1: AttributeError") as caught:
            handle.apply(_fail_on_shard_1)
        assert isinstance(caught.value, AttributeError)
        assert caught.value.worker == 1
        assert "_fail_on_shard_1" in caught.value.remote_traceback
        assert handle.pysp_seq_estimate(PlainEstimator(), None).mu == 1.5


def _fail_on_shard_1(shard):
    return shard.nothing if shard.id == 1 else None


@pytest.mark.parametrize(("given", "workers"), [(2.0, 2), (2.7, 2), (0, 1), (0.4, 1), (99, 3)])
def test_a_number_of_workers_is_read_as_int_reads_it_and_clipped_to_the_rows(given, workers):
    with MPEncodedData([0.0, 1.0, 2.0], PlainEstimator(), num_workers=given) as handle:
        assert handle.num_workers == workers


@pytest.mark.parametrize("given", [float("nan"), float("inf"), "2", True])
def test_what_is_no_number_of_workers_is_refused(given):
    with pytest.raises(TypeError, match="num_workers must be a number of processes"):
        MPEncodedData([0.0, 1.0, 2.0], PlainEstimator(), num_workers=given)
