"""What the pool tests send to workers; in a module of its own, so that workers need not import pytest."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np

from mixle.errors import RowError
from mixle.utils.parallel.folding.shards import as_shard_map, cut
from mixle.utils.parallel.folding.tasks import Apply
from mixle.utils.parallel.folding.transport import Source


class Numbers:
    """An encoder of plain numbers."""

    def seq_encode(self, rows):
        if isinstance(rows, np.ndarray):
            return rows
        for i, row in enumerate(rows):
            if not isinstance(row, (int, float)):
                raise RowError(f"{row!r} is not a number", "Numbers", i)
        return np.asarray(rows, dtype=float)


class Anything(Numbers):
    """An encoder that keeps rows as they are."""

    def seq_encode(self, rows):
        return list(rows)


def leave(code):
    os._exit(code)


class DieWhenUnpickled:
    """An encoder that ends the worker that reads it."""

    def __reduce__(self):
        return leave, (9,)


class Deadly(Numbers):
    """An encoder that ends its process at a certain number."""

    def seq_encode(self, rows):
        if 13.0 in list(rows):
            os.kill(os.getpid(), signal.SIGKILL)
        return np.asarray(rows, dtype=float)


def source(rows, shards, encoder=None, weights=None, pieces=1):
    shard_map = as_shard_map(shards)
    parts = shard_map.resolve(len(rows))
    cuts = tuple(cut(part, pieces, shard_map) for part in parts)
    return Source(rows, weights, encoder or Numbers(), parts, cuts)


def total(shard):
    return float(sum(np.sum(chunk.payload) for chunk in shard.chunks))


def rows_of(shard):
    return [list(chunk.payload) for chunk in shard.chunks]


def weights_of(shard):
    return [chunk.weights for chunk in shard.chunks]


def encoded_bytes(shard):
    return shard.nbytes


def pid(shard):
    return os.getpid()


def scaled(shard, model):
    return float(model["a"].sum()) * shard.id


def view_facts(shard):
    data = shard.chunks[0].payload
    return data.flags.writeable, data.flags.owndata, data.dtype.str, data.strides


def environment(shard):
    blas = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return blas, str(Path.cwd()), threading.active_count(), signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def fail(shard, kind, wanted):
    if shard.id == wanted:
        raise kind(f"shard {shard.id} is wrong")
    return shard.id


class Unreadable(Exception):
    """An error that pickles and cannot be read back."""

    def __init__(self, one, two):
        super().__init__(one)


def fail_unreadable(shard):
    raise Unreadable("first", "second")


class Mute(Exception):
    """An error that cannot be told."""

    def __str__(self):
        raise ValueError("no words for it")


def fail_mute(shard):
    raise Mute


def fork_and_return(shard):
    os.fork()
    return os.getpid()


def unpicklable(shard):
    return threading.Lock()


class Poisoned:
    def __reduce__(self):
        return fail_to_load, ()


def fail_to_load():
    raise ValueError("this value cannot be read")


def poisoned(shard):
    return Poisoned()


def complain():
    print("the last words", file=sys.stderr)
    os._exit(3)


def oversleep():
    print("going to sleep", file=sys.stderr)
    time.sleep(600)


def deadlock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def babble():
    write_to_pipe(b"\x00" * 4096)
    time.sleep(600)


def stammer():
    write_to_pipe(b"MXFR" + bytes(7))
    os._exit(0)


def fall_silent():
    for fd in pipes():
        os.close(fd)
    time.sleep(600)


ENDS = {
    "exit": lambda: os._exit(7),
    "system exit": lambda: sys.exit(5),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "complain": complain,
    "sleep": oversleep,
    "deadlock": deadlock,
    "garbage": babble,
    "half": stammer,
    "close": fall_silent,
}


def end(shard, wanted, how):
    """End the process of one shard in one way or another."""
    if shard.id == wanted:
        ENDS[how]()
    return shard.id


def pipes():
    import stat

    for fd in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                yield fd
        except OSError:
            continue


def write_to_pipe(data):
    for fd in pipes():
        os.write(fd, data)


def spin(shard, seconds):
    """Hold the interpreter's lock in C code, without a byte, for about `seconds`."""
    end_at = time.process_time() + seconds
    while time.process_time() < end_at:
        sum(range(10_000_000))
    return shard.id


def forever(shard, how):
    if how == "gil":
        sum(range(10**13))
    if how == "sleep":
        time.sleep(600)
    if how == "loop":
        while True:
            pass


def big(shard, nbytes):
    return np.full(nbytes // 8, float(shard.id))


def chatter(shard, nbytes):
    line = "x" * 99
    for _ in range(nbytes // 200):
        print(line)
        print(line, file=sys.stderr)
    return shard.id


def start_grandchild(shard):
    import subprocess

    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    return child.pid


def draws(shard):
    import random

    import numpy.random

    return random.random(), numpy.random.random()


def apply(transport, function, *args):
    """Return the values of a function of each shard, by shard."""
    return {result.shard: result.value for result in transport.map(Apply(function, args))}
