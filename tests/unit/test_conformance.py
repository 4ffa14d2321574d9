"""The conformance suite: our own backends pass it, and transports that are broken on purpose do not."""

from __future__ import annotations

import inspect
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from typing import ClassVar

import pytest

from mixle.errors import RowError
from mixle.testing import BackendConformance, leaks
from mixle.testing.cases import PAIRS
from mixle.testing.numbers import altered, flipped
from mixle.utils.parallel.folding import registry
from mixle.utils.parallel.folding.tasks import Accumulate, Result, execute
from mixle.utils.parallel.folding.transport import Transport
from mixle.utils.parallel.planner import LocalEncodedData, encoded_data, register_transport


class TestLocal(BackendConformance):
    lacks: ClassVar = {"close": "it holds nothing and stays usable"}

    def handle(self, rows, estimator, **options):
        return encoded_data(rows, estimator, backend="local", **options)


class TestThreads(BackendConformance):
    lacks: ClassVar = {"close": "it holds nothing and stays usable"}

    def handle(self, rows, estimator, **options):
        options.setdefault("num_shards", 3)
        if options["num_shards"] == 1:
            return encoded_data(rows, estimator, backend="local", **options)
        return encoded_data(rows, estimator, backend="local", chunk_workers=2, **options)


class TestProcesses(BackendConformance):
    def handle(self, rows, estimator, **options):
        return encoded_data(rows, estimator, backend="mp", num_workers=2, **options)


class Executor(Transport):
    """A transport as another package may have it."""

    name = "executor"

    def __init__(self, num_workers=2):
        self.pool = ThreadPoolExecutor(num_workers)

    def load(self, source):
        self.shards = [source.encode(i) for i in range(len(source.shards))]
        self.sizes = {shard.id: shard.rows for shard in self.shards}

    def map(self, task):
        for future in as_completed([self.pool.submit(execute, task, shard) for shard in self.shards]):
            yield future.result()

    def close(self):
        self.pool.shutdown()


class OnTransport(BackendConformance):
    transport = Executor

    def handle(self, rows, estimator, **options):
        register_transport("on trial", self.transport, override=True)
        try:
            return encoded_data(rows, estimator, backend="on trial", **options)
        finally:
            registry._TRANSPORTS.pop("on trial")


class TestExecutor(OnTransport):
    pass


# Foreign handles: methods of their own, none of this library's


class Foreign:
    def __init__(self, rows, estimator):
        self.inner, self.closed = LocalEncodedData(rows, estimator), False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.closed = True

    def __getattr__(self, name):
        if not name.startswith("pysp_"):
            raise AttributeError(name)
        if self.closed:
            raise RuntimeError("it is closed")
        return getattr(self.inner, name)


class TestForeign(BackendConformance):
    lacks: ClassVar = dict.fromkeys(
        ("core", "policies", "shards", "sub_chunks", "weights"), "it is another framework's"
    )

    def handle(self, rows, estimator):
        return Foreign(rows, estimator)


# Broken on purpose


class Dropping(Executor):
    def map(self, task):
        return (result for result in super().map(task) if result.shard != 2)


class Doubling(Executor):
    def map(self, task):
        for result in super().map(task):
            yield from [result] * (1 + (result.shard == 0))


class Corrupting(Executor):
    """One bit of one number is wrong, the least one."""

    def map(self, task):
        for result in super().map(task):
            wrong = isinstance(task, Accumulate) and result.shard == 0
            yield replace(result, value=altered(result.value, 0, flipped(0))) if wrong else result


class Relabelling(Executor):
    """The results of two shards are taken for each other."""

    def map(self, task):
        for result in super().map(task):
            yield (
                replace(result, shard={0: 1, 1: 0}.get(result.shard, result.shard)) if len(self.shards) > 1 else result
            )


class Forgetful(Executor):
    """The row of a bad row is lost on its way."""

    def load(self, source):
        try:
            super().load(source)
        except RowError as error:
            raise RowError(error.reason, error.family) from None


class Raw(Executor):
    """Exceptions of user code come as they are."""

    def map(self, task):
        for shard in self.shards:
            value, log_density, rows, weight, receipt = task.run(shard)
            yield Result(shard.id, rows, weight, value, log_density, receipt)


class Unweighted(Executor):
    def load(self, source):
        super().load(replace(source, weights=None))


class Leaking(Executor):
    children: ClassVar = []

    def close(self):
        super().close()
        self.children.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]))


class Keeping(Executor):
    """Its threads live on."""

    pools: ClassVar = []

    def close(self):
        self.pools.append(self.pool)


class Fragile(Executor):
    """It cannot be closed twice."""

    def close(self):
        if self.pool is None:
            raise ValueError("closed already")
        super().close()
        self.pool = None


class Stale(Executor):
    """It answers with what it was asked before."""

    last = None

    def map(self, task):
        results = list(super().map(task))
        answer, self.last = (self.last if type(self.last) is type(results) else results), results
        return iter(answer)


BROKEN = {
    Dropping: "every_shard_is_delivered_once",
    Doubling: "every_shard_is_delivered_once",
    Corrupting: "bits_are_those_of_the_local_backend",
    Relabelling: "bits_are_those_of_the_local_backend",
    Forgetful: "bad_rows_are_named_by_their_position",
    Raw: "user_errors_name_shard_and_row",
    Unweighted: "row_weights",
    Leaking: "nothing_is_left_behind",
    Keeping: "nothing_is_left_behind",
    Fragile: "close_may_be_called_again",
    Stale: "what_is_made_is_a_handle",
}


def failure(transport, test):
    """Run one test of the suite, in all its cases, and return the first failure."""
    suite = type("TestBroken", (OnTransport,), {"transport": transport})()
    method = getattr(suite, f"test_{test}")
    cases = PAIRS if "case" in inspect.signature(method).parameters else [()]
    for case in cases:
        try:
            method(*case)
        except Exception as error:  # noqa: BLE001 - any failure is one
            return error
    return None


@pytest.mark.parametrize("transport", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_transport_does_not_pass(transport, monkeypatch):
    monkeypatch.setattr(leaks, "WAIT_S", 0.2)
    try:
        assert failure(transport, BROKEN[transport]) is not None
    finally:
        for child in Leaking.children:
            child.kill()
            child.wait()
        for pool in Keeping.pools:
            pool.shutdown()
        Leaking.children.clear()
        Keeping.pools.clear()


def test_what_is_lacking_must_be_known_and_have_a_reason():
    for lacks, text in (
        ({"weigths": "why"}, "Did you mean 'weights'"),
        ({"weights": ""}, "must say why"),
    ):
        suite = type("TestBroken", (OnTransport,), {"lacks": lacks})()
        with pytest.raises(ValueError, match=text):
            suite.test_row_weights()
    with pytest.raises(NotImplementedError, match="must define handle"):
        BackendConformance().test_row_weights()
