"""The parts of the pool that need no process: parcels, rows in shared memory, the mailbox, proof of life."""

import os
import pickle
import platform
import subprocess
import sys
import threading
import types

import numpy as np
import pytest

from mixle.errors import CorruptedRows, PayloadError
from mixle.stats import GammaEstimator, MixtureEstimator
from mixle.utils.parallel.folding.shards import Strided, cut
from mixle.utils.parallel.folding.transport import Source
from mixle.utils.parallel.planner import encoded_data
from mixle.utils.parallel.transports.process import life, parcels, system, worker
from mixle.utils.parallel.transports.process.link import tail_of
from mixle.utils.parallel.transports.process.mailbox import Mailbox, read_letter
from mixle.utils.parallel.transports.process.parcels import Definitions, KnownDefinitions
from mixle.utils.parallel.transports.process.spool import Spool, SpoolReader

LINUX = sys.platform.startswith("linux")


class Keep:
    def seq_encode(self, rows):
        return rows if isinstance(rows, np.ndarray) else list(rows)


def whole(parts):
    return bytearray(b"".join(parts))


@pytest.fixture
def main(monkeypatch):
    """Make a ``__main__`` with definitions, as a script has it."""
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    code = """
SCALE = 2.0
class Model:
    def __init__(self, x):
        self.x = x
    def value(self):
        return self.x * SCALE
def double(model):
    return Model(model.x * 2)
"""
    exec(code, module.__dict__)
    return module


# Parcels


def test_sections_keep_content_and_alignment():
    sections = [b"abc", b"", bytes(100), np.arange(5.0).data.cast("B")]
    got = parcels.split_sections(whole(parcels.join_sections(sections)))
    assert [bytes(part) for part in got] == [bytes(part) for part in sections]
    addresses = [np.frombuffer(part, np.uint8).ctypes.data for part in got if len(part)]
    assert len({address % 64 for address in addresses}) == 1


def flips_of(data):
    """Yield copies of `data` with one bit flipped, one copy per byte, and pieces of it."""
    for i in range(len(data)):
        yield data[:i] + bytes([data[i] ^ 1 << i % 8]) + data[i + 1 :]
        yield data[:i]


def test_altered_sections_are_refused():
    for data in flips_of(bytes(whole(parcels.join_sections([b"abc", b"", b"de"])))):
        with pytest.raises(PayloadError):
            parcels.split_sections(data)


def test_altered_definitions_are_refused_unread(main, monkeypatch):
    driver = Definitions()
    driver.parcel(main.double)
    news = bytes(whole(driver.news_parcel({})))
    KnownDefinitions().learn(news)
    monkeypatch.setattr(parcels.pickle, "loads", lambda *_: pytest.fail("altered bytes were unpickled"))
    for data in list(flips_of(news))[::97]:
        with pytest.raises(PayloadError):
            KnownDefinitions().learn(data)


@pytest.mark.parametrize("letter", [None, (64, 1000)])
def test_altered_orders_are_refused_unread(letter, monkeypatch):
    orders = worker.pack_orders([(3, True), (70000, False)], letter)
    items, place, rest = worker.split_orders(bytearray(orders + b"task"))
    assert (items, place, bytes(rest)) == ([(3, True), (70000, False)], letter, b"task")
    assert len(orders) % 64 == 0
    told = orders.rstrip(b"\0")  # what follows is padding
    monkeypatch.setattr(worker.marshal, "loads", lambda *_: pytest.fail("altered bytes were read"))
    for data in flips_of(told):
        with pytest.raises(PayloadError, match="orders"):
            worker.split_orders(bytearray(data))


def test_large_arrays_travel_beside_the_pickle():
    array = np.arange(10_000.0)
    parts = Definitions().parcel({"a": array, "small": np.arange(3)})
    assert any(len(part) == array.nbytes for part in parts)
    got = KnownDefinitions().open(whole(parts))
    np.testing.assert_array_equal(got["a"], array)
    got["a"][0] = 1.0  # a private copy


def test_definitions_of_main_travel_once(main):
    driver, worker, sent = Definitions(), KnownDefinitions(), {}
    first = driver.parcel(main.Model(1.0))
    news = driver.news(sent)
    assert [number for number, _ in news] == [0]
    assert b"SCALE" not in b"".join(first)
    worker.learn(whole(parcels.join_sections([pickle.dumps(news)])))
    assert worker.open(whole(first)).value() == 2.0
    again = driver.parcel(main.Model(2.0))
    assert driver.news(sent) == driver.news_parcel(sent) == []
    assert type(worker.open(whole(again))) is type(worker.open(whole(first)))


def test_changed_definitions_travel_again(main):
    driver, sent, blobs = Definitions(), {}, []
    for scale in (2.0, 3.0, 3.0):
        main.SCALE = scale
        driver.parcel(main.Model(1.0))
        blobs.append(driver.news(sent))
    assert [[number for number, _ in news] for news in blobs] == [[0], [0], []]
    assert blobs[0] != blobs[1]


def test_what_a_worker_makes_of_main_comes_back_as_ours(main):
    driver, worker = Definitions(), KnownDefinitions()
    parcel = driver.parcel((main.double, main.Model(1.0)))
    worker.learn(whole(driver.news_parcel({})))
    function, model = worker.open(whole(parcel))
    data = parcels.dumps_reply(function(model))
    ours = main.Model
    del main.Model  # as after exec() in a namespace of its own
    assert type(driver.loads(data)) is ours
    assert driver.loads(data).x == 2.0
    with pytest.raises(AttributeError):
        driver.loads(data.replace(b"Model", b"Nodel"))


def test_functions_made_in_functions_travel():
    factor = 3

    def inner(x):
        return x * factor

    driver, worker = Definitions(), KnownDefinitions()
    parcel = driver.parcel((inner, lambda: factor))
    worker.learn(whole(driver.news_parcel({})))
    one, two = worker.open(whole(parcel))
    assert (one(2), two()) == (6, 3)


def test_a_lambda_per_round_does_not_pile_up():
    driver, worker, sent = Definitions(), KnownDefinitions(), {}
    driver.parcel(lambda: "needed by the rows")
    driver.pin()
    for i in range(200):
        parcel = driver.parcel(lambda i=i: i)
        worker.learn(whole(driver.news_parcel(sent)))
        assert worker.open(whole(parcel))() == i
    assert len(driver.known) <= parcels.REMEMBERED + 2
    assert len(worker.table) <= parcels.REMEMBERED + 2
    assert worker.table[0]() == "needed by the rows"


def test_what_cannot_be_pickled_says_so():
    with pytest.raises(TypeError, match="lock"):
        Definitions().parcel({"a": threading.Lock()})


def test_a_refusal_keeps_the_kind_of_the_error_where_it_can():
    class Odd(Exception):
        def __init__(self, one, two):
            super().__init__(one)

    refused = parcels.unpicklable(AttributeError("no lambda"), "the encoder (Keep)")
    assert type(refused) is AttributeError
    assert str(refused).startswith("the encoder (Keep) cannot be pickled for the worker processes: no lambda. Mend")
    assert str(refused).endswith("backend='local'")
    assert type(parcels.unpicklable(Odd(1, 2), "row 3 (Odd)")) is TypeError


def test_a_definition_that_cannot_be_read_is_told_with_its_use():
    worker = KnownDefinitions()
    worker.learn(whole(parcels.join_sections([pickle.dumps([(0, b"cmissing_module\nf\n.")])])))
    driver = Definitions()
    parcel = driver.parcel(lambda: 1)
    with pytest.raises(ModuleNotFoundError, match="missing_module"):
        worker.open(whole(parcel))


def test_importable_names_travel_by_name():
    driver = Definitions()
    driver.parcel((len, np.linalg.norm, Keep, pickle.PickleBuffer))
    assert driver.known == {}


# Rows


def written(rows, shards=3, weights=None, pieces=2):
    parts = Strided(shards).resolve(len(rows))
    source = Source(rows, weights, Keep(), parts, tuple(cut(part, pieces, Strided(shards)) for part in parts))
    spool = Spool()
    spool.write(source, Definitions())
    return source, spool


@pytest.mark.parametrize(
    "rows",
    [
        np.arange(60.0).reshape(20, 3),
        np.asfortranarray(np.arange(60.0).reshape(20, 3)),
        np.arange(40)[::2],
        np.arange(120.0).reshape(20, 3, 2).transpose(0, 2, 1),
        np.zeros((20, 0)),
        list(range(20)),
        [(i, str(i), None) for i in range(20)],
        [np.full(3, i) for i in range(20)],
    ],
    ids=["matrix", "fortran", "strided", "permuted", "no columns", "ints", "tuples", "arrays"],
)
def test_shards_from_shared_rows_equal_shards_from_the_source(rows):
    source, spool = written(rows, weights=np.linspace(0, 1, 20))
    try:
        reader = SpoolReader(spool.fd, KnownDefinitions())
        for shard in range(3):
            ours, theirs = source.encode(shard), reader.encode(shard)
            for a, b in zip(ours.chunks, theirs.chunks, strict=True):
                assert (a.count, a.positions) == (b.count, b.positions)
                np.testing.assert_array_equal(a.weights, b.weights)
                assert type(a.payload) is type(b.payload)
                np.testing.assert_equal(a.payload, b.payload)
                if isinstance(rows, np.ndarray) and rows.flags.forc and rows.size:
                    assert reader.rows_of(shard).flags.forc
                    assert reader.rows_of(shard).flags.c_contiguous == rows.flags.c_contiguous
    finally:
        spool.close()


@pytest.mark.parametrize("rows", [np.arange(60.0).reshape(20, 3), list(range(20))], ids=["array", "pickled"])
def test_a_bit_that_flips_in_shared_rows_is_told_when_they_are_read_again(rows):
    _, spool = written(rows, weights=np.linspace(0, 1, 20))
    try:
        reader = SpoolReader(spool.fd, KnownDefinitions())
        reader.map = memory = memoryview(bytearray(reader.map))
        place = reader.rows[-1][0] + 3 if isinstance(rows, np.ndarray) else reader.rows[0][0] + 30
        memory[place] ^= 4  # in the first row, which is shard 0's
        for read in (reader.encode, reader.rows_of):
            with pytest.raises(CorruptedRows, match=r"rows of shard 0 changed .* build a new handle"):
                read(0)
        reader.encode(1)
        memory[place] ^= 4
        reader.encode(0)
        memory[reader.weights[-1][0] + 3] ^= 4
        with pytest.raises(CorruptedRows, match="shard 0"):
            reader.encode(0)
    finally:
        spool.close()


def test_large_arrays_are_written_block_by_block(monkeypatch):
    import mixle.utils.parallel.transports.process.spool as module

    monkeypatch.setattr(module, "_BLOCK", 1000)
    rows = np.arange(3000.0).reshape(1000, 3)
    _, spool = written(rows)
    try:
        np.testing.assert_array_equal(SpoolReader(spool.fd, KnownDefinitions()).encode(1).chunks[0].payload, rows[1::6])
    finally:
        spool.close()


@pytest.mark.skipif(not LINUX, reason="memory files are sealed on Linux")
def test_shared_rows_cannot_be_changed_by_anybody():
    _, spool = written(np.arange(60.0))
    try:
        payload = SpoolReader(spool.fd, KnownDefinitions()).encode(0).chunks[0].payload
        with pytest.raises(ValueError, match="read-only"):
            payload[0] = 1.0
        with pytest.raises(OSError):  # noqa: PT011 - one of several numbers
            os.pwrite(spool.fd, b"x", 0)
        with pytest.raises(OSError):  # noqa: PT011
            os.ftruncate(spool.fd, 0)
        with pytest.raises(OSError):  # noqa: PT011
            writable = os.open(f"/proc/self/fd/{spool.fd}", os.O_RDWR)
            os.pwrite(writable, b"x", 0)
    finally:
        spool.close()


def test_an_incomplete_row_file_is_refused():
    fd = system.memory_file("test")
    os.write(fd, bytes(64))
    try:
        with pytest.raises(ValueError, match="not complete"):
            SpoolReader(fd, KnownDefinitions())
    finally:
        os.close(fd)


# Mailbox


def test_letters_under_way_keep_their_place():
    box = Mailbox()
    try:
        first, second = box.post(1, [b"abc", b"def"]), box.post(2, [b"xyz"])
        assert bytes(read_letter(box.fd, *first)) == b"abcdef"
        assert bytes(read_letter(box.fd, *second)) == b"xyz"
        box.settle(1)
        third = box.post(3, [b"12"])
        assert third[0] >= second[0] + second[1]
        box.settle(2)
        box.settle(3)
        assert box.post(4, [b"q"])[0] == 0
    finally:
        box.close()


def test_a_missing_letter_is_told():
    box = Mailbox()
    try:
        with pytest.raises(EOFError):
            read_letter(box.fd, 0, 10)
    finally:
        box.close()


# The system


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "with code 0"),
        (-9, "SIGKILL (often out of memory)"),
        (-11, "SIGSEGV"),
        (-99, "signal 99"),
        (None, "unknown"),
    ],
)
def test_exit_codes_in_words(code, text):
    assert text in system.describe_exit(code)


def test_workers_have_one_blas_thread_and_a_heap_that_stays_unless_the_user_has_said_how(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "12345")
    found = system.worker_environment()
    assert found["OPENBLAS_NUM_THREADS"] == "1"
    assert (found["MALLOC_TRIM_THRESHOLD_"], int(found["MALLOC_MMAP_THRESHOLD_"])) == ("12345", 1 << 20)


@pytest.mark.skipif(not LINUX or platform.libc_ver()[0] != "glibc", reason="the allocator is that of the GNU library")
def test_rounds_of_a_worker_do_not_fetch_their_memory_anew():
    rows, estimator = np.random.RandomState(0).gamma(2.0, size=8000), MixtureEstimator([GammaEstimator()] * 15)
    with encoded_data(rows, estimator, backend="mp", num_workers=1, num_chunks=4) as handle:
        model = handle.pysp_seq_initialize(estimator, 1, 0.5)
        for _ in range(6):
            handle.pysp_seq_estimate(estimator, model)
        last = handle.records[-1].round
        faults = [r.extra["minor_faults"] for r in handle.records if last - 3 < r.round <= last]
    assert sum(faults) / 3 < 60  # a block of its log-densities has as many pages


def test_memory_files_without_memfd(monkeypatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    fd = system.memory_file("test")
    try:
        os.write(fd, b"abc")
        assert system.read_at(fd, 10, 1) == b"bc"
        assert not os.get_inheritable(fd)
    finally:
        os.close(fd)


def test_reading_and_writing_without_pread(monkeypatch):
    monkeypatch.delattr(os, "pread")
    monkeypatch.delattr(os, "pwrite")
    fd = system.memory_file("test")
    try:
        assert system.write_at(fd, memoryview(b"abcdef"), 2) == 6
        assert system.read_at(fd, 3, 3) == b"bcd"
    finally:
        os.close(fd)


def test_tail_of_a_file():
    fd = system.memory_file("test")
    try:
        os.write(fd, b"x" * 5000 + "the end ü\n".encode())
        assert tail_of(fd, 20).endswith("the end ü")
        assert len(tail_of(fd)) <= 4096
    finally:
        os.close(fd)
    assert tail_of(None) == ""
    assert tail_of(fd) == ""


@pytest.fixture
def child():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.skipif(not LINUX, reason="process states are read from /proc")
def test_silence_is_the_sum_of_looks(child, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(life.time, "monotonic", lambda: clock[0])
    pulse = life.Pulse(child.pid, 1.0)
    monkeypatch.setattr(pulse.state, "read", lambda: ("S", False))
    monkeypatch.setattr(life.system, "cpu_clock_ns", lambda pid: 7)
    pulse.look()  # the first reading of the clock
    clock[0] += 3600.0  # a suspended machine: one long gap
    assert pulse.look() is None
    causes = []
    for _ in range(30):
        clock[0] += 0.05
        causes.append(pulse.look())
    assert causes[0] is None
    assert "silent for 1 s" in causes[-1]
    pulse.beat()
    assert pulse.look() is None
    pulse.close()


@pytest.mark.parametrize("state", ["R", "D", "t", "?"])
def test_a_process_that_runs_waits_for_a_disk_or_is_debugged_lives(child, monkeypatch, state):
    clock = [0.0]
    monkeypatch.setattr(life.time, "monotonic", lambda: clock[0])
    pulse = life.Pulse(child.pid, 0.1)
    monkeypatch.setattr(pulse.state, "read", lambda: (state, False))
    monkeypatch.setattr(life.system, "cpu_clock_ns", lambda pid: None)
    for _ in range(100):
        clock[0] += 0.05
        assert pulse.look() is None
    pulse.close()


@pytest.mark.skipif(not LINUX, reason="process states are read from /proc")
def test_states_of_a_real_process(child):
    import signal
    import time

    state = system.ProcessState(child.pid)

    def until(wanted):
        end = time.monotonic() + 5
        while state.read()[0] not in wanted:
            assert time.monotonic() < end, state.read()

    until("S")
    child.send_signal(signal.SIGSTOP)
    until("T")
    child.kill()
    until("Z")
    assert state.read() == ("Z", True)
    child.communicate()
    assert state.read() == ("X", True)
    state.close()
    assert state.read() == ("?", False)
    system.kill(child.pid, None, 0)  # gone: no error
