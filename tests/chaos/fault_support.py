"""Faults that strike inside a worker, at a chosen point of a fit, a chosen number of times.

In a module of its own, so that workers need not import pytest.
"""

import os
import resource
import signal
import threading
import time
from pathlib import Path

import numpy as np
from pool_support import write_to_pipe

from mixle.utils.parallel.transports.process import wire


def oversize():
    head = wire._HEAD.pack(wire.MAGIC, wire.REPLY, 0, 0, 0, 1, 1 << 50)
    write_to_pipe(head + wire._CRC.pack(wire.zlib.crc32(head)))
    time.sleep(60)


def half():
    write_to_pipe(bytes(wire.frame(wire.REPLY, [bytes(100)], shard=0, request=1)[0])[:20])
    os._exit(0)


def garbage():
    write_to_pipe(b"\x00" * 4096)
    time.sleep(60)


def out_of_limit():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 28, resource.getrlimit(resource.RLIMIT_AS)[1]))
    try:
        np.ones(1 << 30)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def raise_value_error():
    raise ValueError("a row is wrong")


def raise_memory_error():
    raise MemoryError("no room")


def hold_the_lock(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(3_000_000))


FAULTS = {
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "SIGSTOP": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "SIGSEGV": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "exit 0": lambda: os._exit(0),
    "exit 1": lambda: os._exit(1),
    "exception": raise_value_error,
    "MemoryError": raise_memory_error,
    "rlimit": out_of_limit,
    "lock held": lambda: hold_the_lock(float("5" if os.environ.get("MIXLE_CHAOS") == "full" else "0.4")),
    "garbage": garbage,
    "half": half,
    "oversize": oversize,
    "slow": lambda: time.sleep(0.3),
}


class Plan:
    """When a fault strikes: at which point, and which arrivals there (counted over all workers)."""

    def __init__(self, folder, point, fault, hits=(0,)):
        self.count, self.point, self.fault, self.hits = str(Path(folder) / "arrivals"), point, fault, tuple(hits)
        self.driver = os.getpid()

    def at(self, point):
        if point == self.point and os.getpid() != self.driver and self.arrival() in self.hits:
            FAULTS[self.fault]()

    def arrival(self):
        fd = os.open(self.count, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        try:
            os.write(fd, b".")
            return os.lseek(fd, 0, os.SEEK_CUR) - 1
        finally:
            os.close(fd)

    def struck(self):
        return Path(self.count).exists() and Path(self.count).stat().st_size > max(self.hits)


class Encoder:
    """An encoder around another one."""

    def __init__(self, inner, plan):
        self.inner, self.plan = inner, plan

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.plan.at("load")

    def seq_encode(self, rows):
        self.plan.at("encode")
        return self.inner.seq_encode(rows)

    def row_count(self, payload):
        return self.inner.row_count(payload)

    def columns(self, *words):
        return self.inner.columns(*words)


class Factory:
    def __init__(self, estimator):
        self.estimator = estimator

    def make(self):
        return Accumulator(self.estimator.inner.accumulator_factory().make(), self.estimator.plan)


class Estimator:
    """An estimator whose accumulators meet the fault."""

    def __init__(self, inner, plan):
        self.inner, self.plan = inner, plan

    def accumulator_factory(self):
        return Factory(self)

    def num_start_components(self):
        return self.inner.num_start_components()

    def estimate(self, nobs, value):
        return self.inner.estimate(nobs, value)


class Accumulator:
    """An accumulator around another one."""

    def __init__(self, inner, plan):
        self.inner, self.plan, self.chunks = inner, plan, 0

    def acc_to_encoder(self):
        return Encoder(self.inner.acc_to_encoder(), self.plan)

    def seq_update_scored(self, enc, weights, model):
        self.plan.at("mid update" if self.chunks else "before update")
        self.chunks += 1
        return self.inner.seq_update_scored(enc, weights, model)

    def start(self, *words):
        self.plan.at("init")
        self.inner.start(*words)

    def combine(self, value):
        self.inner.combine(value)
        return self

    def from_value(self, value):
        self.inner.from_value(value)
        return self

    def value(self):
        if not self.chunks:
            return self.inner.value()
        self.plan.at("after update")
        if self.plan.fault == "unpicklable":
            return threading.Lock() if self.plan.arrival() in self.plan.hits else self.inner.value()
        return Letter(self.inner.value(), self.plan) if self.plan.point == "reply" else self.inner.value()


class Letter:
    """A statistic that meets the fault while it is written into the reply."""

    def __init__(self, value, plan):
        self.value, self.plan = value, plan

    def __reduce__(self):
        self.plan.at("reply")
        return unwrap, (self.value,)


def unwrap(value):
    return value


class Model:
    """A model that meets the fault while it scores."""

    def __init__(self, inner, plan):
        self.inner, self.plan = inner, plan

    def seq_log_density(self, enc):
        self.plan.at("score")
        return self.inner.seq_log_density(enc)


class Snail:
    """An estimator that is slow in one process: the one whose pid stands in a file."""

    def __init__(self, inner, file, seconds, slow_seconds):
        self.inner, self.file, self.seconds, self.slow_seconds = inner, str(file), seconds, slow_seconds

    def accumulator_factory(self):
        return SnailFactory(self)

    def num_start_components(self):
        return self.inner.num_start_components()

    def estimate(self, nobs, value):
        return self.inner.estimate(nobs, value)


class SnailFactory:
    def __init__(self, snail):
        self.snail = snail

    def make(self):
        accumulator = self.snail.inner.accumulator_factory().make()
        return SlowAccumulator(accumulator, self.snail)


class SlowAccumulator(Accumulator):
    def __init__(self, inner, snail):
        self.inner, self.snail = inner, snail

    def acc_to_encoder(self):
        return self.inner.acc_to_encoder()

    def seq_update_scored(self, enc, weights, model):
        slow = Path(self.snail.file).read_text() == str(os.getpid())
        time.sleep(self.snail.slow_seconds if slow else self.snail.seconds)
        return self.inner.seq_update_scored(enc, weights, model)

    def start(self, *words):
        self.inner.start(*words)

    def value(self):
        return self.inner.value()
