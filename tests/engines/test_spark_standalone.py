"""Spark standalone on this machine: every model in executors of their own; one is killed, and the bits stay."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import numpy as np
import psutil
import pyspark
import pytest
from cluster_support import MIXED, SIZES, local_trace, mixed_rows, parts
from engine_support import NARROW, engine_trace, local_reference, narrow_reference, narrow_trace, shard_counts

from bits import bits
from mixle.utils.parallel.folding.shards import Contiguous
from mixle.utils.parallel.planner import SparkEncodedData, encoded_data
from mixle.utils.parallel.transports.spark import context as contexts
from traces import NAMES, problem, trace

pytestmark = [
    pytest.mark.engines,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

EXECUTORS = 2


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    """Start a master and two workers; end them and what they started."""
    home, folder = Path(pyspark.__file__).parent, tmp_path_factory.mktemp("standalone")
    java = contexts.java_home()
    env = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    env |= {"JAVA_HOME": java} if java else {}
    start = [str(home / "bin" / "spark-class")]
    port = free_port()
    place = ["--host", "127.0.0.1", "--webui-port", "0"]
    url = f"spark://127.0.0.1:{port}"
    commands = [[*start, "org.apache.spark.deploy.master.Master", *place, "--port", str(port)]]
    for number in range(EXECUTORS):
        size = ["--cores", "1", "--memory", "600m", "--work-dir", str(folder / str(number))]
        commands.append([*start, "org.apache.spark.deploy.worker.Worker", *place, *size, url])
    running = []
    try:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        running.extend(subprocess.Popen(command, env=env, cwd=folder, **quiet) for command in commands)
        yield url
    finally:
        everything = [child for one in running for child in psutil.Process(one.pid).children(recursive=True)]
        for process in (*running, *everything):
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        for process in running:
            process.wait()
        psutil.wait_procs(everything, timeout=10)


@pytest.fixture(scope="module")
def spark(master):
    conf = pyspark.SparkConf().setMaster(master).setAppName("mixle").set("spark.executor.memory", "512m")
    conf.set("spark.ui.enabled", "false").set("spark.cores.max", str(EXECUTORS)).set("spark.executor.cores", "1")
    conf.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
    conf.set("spark.scheduler.minRegisteredResourcesRatio", "1.0")
    conf.set("spark.scheduler.maxRegisteredResourcesWaitingTime", "120s")
    with contexts._environment(JAVA_HOME=contexts.java_home()):
        context = pyspark.SparkContext(conf=conf)
    context.setLogLevel("OFF")
    yield context
    contexts.stop_own(context)


def executors(spark):
    """Return the process ids of the executors: each forks a daemon, which forks the Python workers."""

    def parent(_):
        import psutil as there

        return there.Process(os.getppid()).ppid()

    return sorted(set(spark.parallelize(range(40), 40).map(parent).collect()))


@pytest.mark.parametrize("name", NAMES)
def test_executors_give_the_bits_of_one_thread(spark, name):
    rows, estimator = problem(name)
    for shards in shard_counts(name, 1):
        with SparkEncodedData(rows, estimator, client=spark, num_shards=Contiguous(shards)) as handle:
            assert engine_trace(handle, name) == local_reference(name, Contiguous(shards))


@pytest.mark.parametrize(("name", "shards"), NARROW)
def test_float32_has_the_bits_of_one_thread_too(spark, name, shards):
    assert narrow_trace(name, shards, backend="spark", client=spark) == narrow_reference(name, shards)


def test_a_killed_executor_changes_no_bit(spark):
    held = parts()
    rdd = spark.parallelize(range(len(held)), len(held)).flatMap(lambda number: held[number])
    with SparkEncodedData(rdd, MIXED) as handle:
        model = handle.pysp_seq_initialize(MIXED, np.random.RandomState(5), 0.5)
        with encoded_data(mixed_rows(), MIXED, num_shards=Contiguous(sizes=SIZES)) as local:
            wanted = bits(local.pysp_stream_accumulate(MIXED, model))
        assert bits(handle.pysp_stream_accumulate(MIXED, model)) == wanted
        victims = executors(spark)
        assert victims
        for victim in victims:  # with all of them what was encoded is gone, and computed again
            os.kill(victim, signal.SIGKILL)
        assert bits(handle.pysp_stream_accumulate(MIXED, model)) == wanted
        assert not set(victims) & set(executors(spark))
        assert trace(handle, MIXED) == local_trace()
