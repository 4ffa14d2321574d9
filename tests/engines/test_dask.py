"""Dask: the same bits from a cluster of processes, from every collection, through failures; and what is refused."""

from __future__ import annotations

import os
import signal
from multiprocessing import resource_tracker

import dask
import dask.array as da
import dask.bag as db
import numpy as np
import pytest
from cluster_support import (
    CUTS,
    MIXED,
    SIZES,
    check_row_output,
    columns,
    local_trace,
    mixed_rows,
    parts,
    row_models,
    wide_rows,
    write_parquet,
)
from distributed import Client, LocalCluster
from engine_support import (
    NARROW,
    POLICIES,
    check_policies,
    engine_trace,
    local_reference,
    narrow_reference,
    narrow_trace,
    shard_counts,
)

import mixle.stats as st
from bits import bits
from mixle.errors import BackendError, EmptyDataError, HandleClosed, RoundLosses, RowError, SourceChanged, TaskError
from mixle.inference import optimize
from mixle.utils.parallel.folding.shards import Contiguous, Strided
from mixle.utils.parallel.planner import DaskEncodedData, Resources, encoded_data
from mixle.utils.parallel.policies.audit import Audit
from mixle.utils.parallel.policies.retry import Retry
from traces import NAMES, problem, trace

pytestmark = pytest.mark.engines


@pytest.fixture(scope="module")
def cluster():
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**settings) as running:
        yield running
    resource_tracker._resource_tracker._stop()  # Python's own helper of spawned processes would stay until the end


@pytest.fixture(scope="module")
def client(cluster):
    with Client(cluster, set_as_default=False) as connected:
        yield connected


def bag():
    return db.from_delayed([dask.delayed(part, pure=True) for part in parts()])


@pytest.mark.parametrize("name", NAMES)
def test_dask_gives_the_bits_of_one_thread(client, name):
    rows, estimator = problem(name)
    for shards in shard_counts(name, 2):
        with DaskEncodedData(rows, estimator, client=client, num_partitions=shards) as handle:
            assert engine_trace(handle, name) == local_reference(name, Contiguous(shards))


@pytest.mark.parametrize(("name", "shards"), NARROW)
def test_float32_has_the_bits_of_one_thread_too(client, name, shards):
    assert narrow_trace(name, shards, backend="dask", client=client) == narrow_reference(name, shards)


@pytest.mark.parametrize("materialize", [True, False])
def test_partitions_of_a_bag_are_the_shards(client, materialize):
    with DaskEncodedData(bag(), MIXED, client=client, materialize=materialize) as handle:
        assert (handle.num_chunks, handle.num_shards, len(handle)) == (len(SIZES), 4, sum(SIZES))
        assert trace(handle, MIXED) == local_trace()


def test_collections_of_every_kind(client, tmp_path):
    import dask.dataframe as dd
    import pandas as pd

    frame = pd.DataFrame(columns()).astype({"count": "Int64"})
    pieces = [dask.delayed(frame.iloc[a:b]) for a, b in CUTS]
    write_parquet(tmp_path)
    for data in (
        [dask.delayed(part) for part in parts()],
        dd.from_delayed(pieces, meta=frame.iloc[:0], verify_meta=False),
        tmp_path,
    ):
        with DaskEncodedData(data, MIXED, client=client) as handle:
            assert trace(handle, MIXED) == local_trace()


def test_an_array_is_cut_along_its_rows(client):
    values = np.random.RandomState(1).randn(400, 3)
    estimator = st.MixtureEstimator([st.MultivariateGaussianEstimator(3)] * 2)
    sizes = (50, 100, 150, 100)
    with encoded_data(values, estimator, num_shards=Contiguous(sizes=sizes)) as handle:
        wanted = trace(handle, estimator)
    with DaskEncodedData(da.from_array(values, chunks=(sizes, (2, 1))), estimator, client=client) as handle:
        assert trace(handle, estimator) == wanted
    numbers = da.from_array(values[:, 0], chunks=(sizes,))
    with DaskEncodedData(numbers, st.GaussianEstimator(), client=client) as handle:
        got = handle.pysp_seq_estimate(st.GaussianEstimator(), None).mu
    assert got == pytest.approx(values[:, 0].mean())


@pytest.mark.parametrize("shard_map", [Strided(5), Contiguous(3)])
def test_rows_of_the_driver_go_by_the_same_rules_as_local(client, shard_map):
    weights = np.random.RandomState(9).randint(0, 3, len(mixed_rows())).astype(float)
    options = {"num_shards": shard_map, "sub_chunks": 2, "weights": weights}
    with encoded_data(mixed_rows(), MIXED, backend="dask", client=client, **options) as handle:
        got = trace(handle, MIXED)
    with encoded_data(mixed_rows(), MIXED, **options) as handle:
        assert got == trace(handle, MIXED)


@pytest.mark.parametrize("shards", [256, 257])
def test_groups_of_256_shards_are_added_up_in_the_cluster(client, shards):
    rows, model = wide_rows()
    with encoded_data(rows, MIXED, num_shards=shards) as handle:
        wanted = bits(handle.pysp_stream_accumulate(MIXED, model))
    with encoded_data(rows, MIXED, num_shards=shards, backend="dask", client=client) as handle:
        assert bits(handle.pysp_stream_accumulate(MIXED, model)) == wanted
        assert handle.report().n_ranks == 2


def test_optimize_takes_a_collection(client):
    fitted = optimize(bag(), MIXED, backend="dask", client=client, max_its=3, delta=None, seed=1)
    with encoded_data(mixed_rows(), MIXED, num_shards=Contiguous(sizes=SIZES)) as handle:
        assert optimize(None, MIXED, enc_data=handle, max_its=3, delta=None, seed=1).digest() == fitted.digest()


@pytest.mark.parametrize("source", ["bag", "bag that is not kept", "rows", "chains"])
def test_what_is_said_of_each_row_stays_on_the_workers(client, source):
    rows, estimator, model = row_models()["chains" if source == "chains" else "mixture"]
    shard_map = Contiguous(sizes=SIZES) if "bag" in source else Contiguous(3)
    data, options = (bag(), {}) if "bag" in source else (rows, {"num_shards": shard_map})
    options["materialize"] = "not kept" not in source
    with (
        DaskEncodedData(data, estimator, client=client, **options) as handle,
        encoded_data(rows, estimator, num_shards=shard_map) as local,
    ):
        check_row_output(handle, model, local, lambda found: client.compute(found).result())
        late, wanted = handle.score_samples(model), local.score_samples(model)
        assert late.chunks == (tuple(len(shard) for shard in shard_map.resolve(len(rows))),)
    assert client.compute(late.sum()).result() == pytest.approx(wanted.sum())
    client.run_on_scheduler(lambda: None)
    assert len(client.futures) == handle.num_shards
    del late
    client.run_on_scheduler(lambda: None)
    assert not client.futures


# Failures


def kill_a_worker(client):
    """Kill the first worker; its nanny will start another one."""
    victim = min(client.run(os.getpid).items())[1]
    os.kill(victim, signal.SIGKILL)
    return victim


@pytest.mark.parametrize("source", ["bag", "rows"])
def test_a_killed_worker_changes_no_bit(client, source):
    data, options = (bag(), {}) if source == "bag" else (mixed_rows(), {"num_shards": Contiguous(sizes=SIZES)})
    with DaskEncodedData(data, MIXED, client=client, policies=[Retry(2)], **options) as handle:
        model = handle.pysp_seq_initialize(MIXED, np.random.RandomState(5), 0.5)
        with encoded_data(mixed_rows(), MIXED, num_shards=Contiguous(sizes=SIZES)) as local:
            wanted = bits(local.pysp_stream_accumulate(MIXED, model))
        for _ in range(2):
            victim = kill_a_worker(client)
            assert bits(handle.pysp_stream_accumulate(MIXED, model)) == wanted
            client.wait_for_workers(2, timeout=300)
            assert victim not in client.run(os.getpid).values()


def test_a_partition_that_is_computed_again_must_have_the_same_rows(client, tmp_path):
    path = tmp_path / "rows"
    path.write_text("1.0 2.0")

    def read(_):
        return [float(word) for word in path.read_text().split()]

    pieces = [dask.delayed(read)(number) for number in range(2)]
    with DaskEncodedData(pieces, st.GaussianEstimator(), client=client, materialize=False) as handle:
        handle.pysp_seq_estimate(st.GaussianEstimator(), None)
        path.write_text("1.0 3.0")
        with pytest.raises(SourceChanged, match="partition 0 was computed again and its rows are not those of before"):
            handle.pysp_seq_estimate(st.GaussianEstimator(), None)


def test_a_source_that_fails_names_its_partition(client):
    def read(number):
        if number == 7:
            raise OSError("disk on fire")
        return [1.0, 2.0]

    for lazy in (True, False):
        pieces = [dask.delayed(read)(number) for number in range(9)]
        data = pieces if lazy else db.from_delayed(pieces).map(lambda x: x)
        with pytest.raises(OSError, match=r"disk on fire \(while partition 7 was read"):
            DaskEncodedData(data, st.GaussianEstimator(), client=client)


def test_a_bad_row_is_named_by_its_position_in_the_data(client):
    for data in (db.from_sequence([1.0, 2.0, 3.0, "x"], npartitions=2), [1.0, 2.0, 3.0, "x"]):
        with pytest.raises(RowError, match="Row 3"):
            DaskEncodedData(data, st.GaussianEstimator(), client=client)


class Nervous(st.GaussianDistribution):
    """A user's model, defined where workers cannot import it."""

    def seq_log_density(self, x):
        raise ZeroDivisionError("no luck")


def test_a_users_exception_is_raised_once_with_its_type_and_place(client):
    with DaskEncodedData([1.0, 2.0, 3.0], st.GaussianEstimator(), client=client, num_partitions=3) as handle:
        with pytest.raises(ZeroDivisionError, match="shard 0: ZeroDivisionError: no luck") as caught:
            handle.pysp_seq_log_density_sum(Nervous(0.0, 1.0))
        assert isinstance(caught.value, TaskError)
        with pytest.raises(ZeroDivisionError, match="shard 0: ZeroDivisionError: no luck"):
            handle.score_samples(Nervous(0.0, 1.0))
        assert handle.pysp_seq_log_density_sum(st.GaussianDistribution(0.0, 1.0))[0] == 3.0


# Policies


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_compose(client, policy):
    check_policies(
        policy, lambda given: DaskEncodedData(bag(), MIXED, client=client, policies=given), local_trace(), MIXED
    )


def test_an_audit_recomputes_on_another_worker(client):
    with DaskEncodedData(bag(), MIXED, client=client, policies=[Audit(1.0)]) as handle:
        model = handle.pysp_seq_initialize(MIXED, 1, 0.5)
        handle.pysp_seq_estimate(MIXED, model)
        audit = handle.transport
        assert (audit.last_shards, audit.last_evaluations, audit.receipts) == ({0, 1, 2, 3}, 8, [])


# Clients, and what is left


def test_an_owned_client_ends_with_the_handle():
    handle = DaskEncodedData([1.0, 2.0], st.GaussianEstimator())
    owned = handle.transport.client
    assert handle.pysp_seq_estimate(st.GaussianEstimator(), None).mu == 1.5
    handle.close()
    handle.close()
    assert owned.status == "closed"
    with pytest.raises(HandleClosed):
        handle.pysp_seq_estimate(st.GaussianEstimator(), None)


def test_nothing_stays_on_the_workers_of_a_given_client(client):
    with DaskEncodedData(bag(), MIXED, client=client) as handle:
        handle.pysp_seq_initialize(MIXED, 1, 0.5)
        assert client.status == "running"
        client.run_on_scheduler(lambda: None)  # what was let go has been told by then
        assert len(client.futures) == len(SIZES)
    client.run_on_scheduler(lambda: None)
    assert client.status == "running"
    assert not client.futures


def test_the_current_client_is_used(client):
    with client.as_current(), DaskEncodedData([1.0, 2.0], st.GaussianEstimator()) as handle:
        assert handle.transport.client is client
    assert client.status == "running"


def test_a_client_closed_under_a_handle_is_told(cluster):
    own = Client(cluster, set_as_default=False)
    handle = DaskEncodedData([1.0, 2.0], st.GaussianEstimator(), client=own)
    own.close()
    with pytest.raises(HandleClosed, match="the Dask client of this handle is closed: make a new client"):
        handle.pysp_seq_estimate(st.GaussianEstimator(), None)
    handle.close()
    with pytest.raises(BackendError, match="the Dask client is closed: make a new one"):
        DaskEncodedData([1.0, 2.0], st.GaussianEstimator(), client=own)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: ([1.0], {"client": object()}), TypeError, "client must be a distributed.Client, not object"),
        (lambda: ([], {}), EmptyDataError, "DaskEncodedData requires non-empty data"),
        (lambda: (db.from_delayed([dask.delayed([])]), {}), EmptyDataError, "requires non-empty data"),
        (lambda: (iter([1.0]), {}), TypeError, r"can be read only once: pass list\(data\)"),
        (lambda: (bag(), {"num_partitions": 3}), BackendError, "takes no num_partitions; repartition the collection"),
        (lambda: (bag(), {"weights": [1.0]}), BackendError, "takes no weights"),
        (lambda: ([1.0], {"num_partitions": 2, "num_shards": 2}), BackendError, "each say how rows are split"),
        (lambda: ([1.0], {"materialize": 1}), TypeError, "materialize must be True or False"),
        (lambda: ([1.0], {"sub_chunks": 0}), ValueError, "sub_chunks must be positive"),
        (lambda: ([(1.0, 2.0), (3.0,)], {}), RowError, "Row 1"),
    ],
)
def test_bad_input_is_refused(client, make, error, words):
    data, options = make()
    estimator = st.CompositeEstimator([st.GaussianEstimator()] * 2) if "Row 1" in words else st.GaussianEstimator()
    with pytest.raises(error, match=words):
        DaskEncodedData(data, estimator, **{"client": client, **options})


def test_partitions_of_very_different_size(client):
    data = [[0.5], list(np.random.RandomState(0).randn(5000)), []]
    rows = [x for part in data for x in part]
    estimator = st.MixtureEstimator([st.GaussianEstimator()] * 2)
    with encoded_data(rows, estimator, num_shards=Contiguous(sizes=[len(part) for part in data])) as handle:
        wanted = trace(handle, estimator)
    with DaskEncodedData([dask.delayed(part) for part in data], estimator, client=client) as handle:
        assert trace(handle, estimator) == wanted


def test_more_shards_than_rows_are_clipped(client):
    with DaskEncodedData([1.0, 2.0], st.GaussianEstimator(), client=client, num_partitions=9) as handle:
        assert handle.num_chunks == 2


def test_resources_are_those_of_the_cluster(client):
    devices = Resources.from_dask(client).devices
    facts = client.scheduler_info()["workers"].values()
    assert [device.name for device in devices] == sorted(f"dask:{fact['name']}" for fact in facts)
    assert [device.throughput for device in devices] == [1.0, 1.0]
    assert {device.memory_bytes for device in devices} == {fact["memory_limit"] or None for fact in facts}


def test_a_worker_that_dies_again_and_again_is_a_loss(client):
    class Deadly(st.GaussianDistribution):
        def seq_log_density(self, x):
            os.kill(os.getpid(), signal.SIGKILL)

    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
    try:
        with DaskEncodedData([1.0, 2.0], st.GaussianEstimator(), client=client, num_partitions=1) as handle:
            with pytest.raises(RoundLosses, match=r"Dask gave up.*shards \[0\] are missing"):
                handle.pysp_seq_log_density_sum(Deadly(0.0, 1.0))
            assert handle.pysp_seq_log_density_sum(st.GaussianDistribution(0.0, 1.0))[0] == 2.0
    finally:
        client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 3))
