"""Files that are torn, altered, foreign or in the way: told clearly, and the checkpoint before them is used."""

import random
import resource
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from fit_support import clusters

from mixle.errors import CheckpointError
from mixle.inference import optimize
from mixle.inference.checkpoint_file import CheckpointFile, unpack
from mixle.stats import GaussianEstimator, MixtureEstimator

ROWS = clusters(200)
EST = MixtureEstimator([GaussianEstimator()] * 2)
BODY = b'{"facts": {}, "round": 3}'


class Broken(Exception):
    pass


def fit(checkpoint=None, stop=None, **options):
    def on_step(step):
        if step.iter == stop:
            raise Broken

    return optimize(ROWS, EST, delta=None, seed=3, max_its=6, checkpoint=checkpoint, on_step=on_step, **options)


@pytest.fixture
def broken_off(tmp_path):
    """Return the path of the checkpoint of a fit that was broken off, with one before it."""
    path = tmp_path / "fit"
    with pytest.raises(Broken):
        fit(path, stop=4)
    assert (tmp_path / "fit.previous").exists()
    return path


def whole(path):
    file = CheckpointFile(path)
    file.write(BODY)
    return path.read_bytes()


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "x"
    data = whole(path)
    assert unpack(data)[0] == BODY
    assert CheckpointFile(path).read() == (BODY, "")
    assert CheckpointFile(tmp_path / "y").read() == (None, "")


def test_a_file_torn_at_any_byte_is_told(tmp_path):
    data = whole(tmp_path / "x")
    for size in range(len(data)):
        with pytest.raises(CheckpointError, match=r"torn: it ends after [0-9]"):
            unpack(data[:size])
    with pytest.raises(CheckpointError, match="altered: its checksum does not hold"):
        unpack(data + b" ")


def test_a_file_with_any_bit_flipped_is_told(tmp_path):
    data = whole(tmp_path / "x")
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CheckpointError, match=r"torn|altered|not a checkpoint|of format"):
            unpack(bytes(flipped))


def test_another_format_is_told(tmp_path):
    data = whole(tmp_path / "x").replace(b"checkpoint 1", b"checkpoint 2", 1)
    with pytest.raises(CheckpointError, match="of format 2; this version reads format 1"):
        unpack(data)


def spoil(path, how):
    data = path.read_bytes()
    if how == "torn":
        path.write_bytes(data[: len(data) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "flipped":
        path.write_bytes(data[:400] + bytes([data[400] ^ 1]) + data[401:])
    else:
        path.write_text("x,y\n1,2\n")


@pytest.mark.parametrize(
    ("how", "told"),
    [("torn", "torn"), ("empty", "torn"), ("flipped", "altered: its checksum"), ("foreign", "not a checkpoint")],
)
def test_the_one_before_is_used_and_what_stood_there_is_kept(how, told, broken_off):
    spoil(broken_off, how)
    wrong = broken_off.read_bytes()
    with pytest.warns(UserWarning, match=rf"fit is {told}.*; the checkpoint before it, of iteration [0-3], is used"):
        model = fit(broken_off)
    assert model.digest() == fit().digest()
    assert broken_off.with_name("fit.refused").read_bytes() == wrong
    assert fit(broken_off).digest() == model.digest()


@pytest.mark.parametrize("how", ["torn", "empty", "flipped", "foreign"])
def test_without_a_whole_one_nothing_is_begun_and_nothing_is_overwritten(how, broken_off):
    previous = broken_off.with_name("fit.previous")
    spoil(broken_off, how)
    spoil(previous, "torn")
    before = broken_off.read_bytes(), previous.read_bytes()
    with pytest.raises(CheckpointError, match=r"there is no checkpoint to go on from: .*fit is .*previous is torn"):
        fit(broken_off)
    previous.unlink()
    with pytest.raises(CheckpointError, match="there is no checkpoint to go on from"):
        fit(broken_off)
    assert broken_off.read_bytes() == before[0]


def test_the_newest_torn_at_many_places_costs_no_bit(broken_off):
    data, wanted = broken_off.read_bytes(), fit().digest()
    previous = broken_off.with_name("fit.previous").read_bytes()
    rng = random.Random(1)
    for size in [0, 1, 17, 160, len(data) - 1, *(rng.randrange(len(data)) for _ in range(6))]:
        broken_off.write_bytes(data[:size])
        broken_off.with_name("fit.previous").write_bytes(previous)
        with pytest.warns(UserWarning, match="the checkpoint before it"):
            assert fit(broken_off).digest() == wanted


def test_a_writer_killed_between_its_two_renames_loses_nothing(broken_off):
    broken_off.rename(broken_off.with_name("fit.previous"))
    assert fit(broken_off).digest() == fit().digest()


def test_what_a_killed_writer_left_is_removed_when_it_is_old(broken_off, tmp_path):
    import os
    import time

    old, new = tmp_path / ".fit.writing-old", tmp_path / ".fit.writing-new"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 10**5,) * 2)
    fit(broken_off)
    assert not old.exists()
    assert new.exists()


def test_the_one_before_is_always_one_that_was_flushed(tmp_path, monkeypatch):
    """Between flushes the newest is replaced, and the one that a power failure leaves stays."""
    import os

    flushed, real = [], os.fsync

    def fsync(fd):
        flushed.append(fd)
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    file = CheckpointFile(tmp_path / "x")
    file._next_flush = 0.0
    file.write(b"1")  # flushed
    file._next_flush = float("inf")
    count = len(flushed)
    file.write(b"2")
    file.write(b"3")
    assert len(flushed) == count
    assert (unpack(file.path.read_bytes())[0], unpack(file.previous.read_bytes())[0]) == (b"3", b"1")
    file.write(b"4", last=True)
    assert len(flushed) > count
    file.write(b"5")
    assert (unpack(file.path.read_bytes())[0], unpack(file.previous.read_bytes())[0]) == (b"5", b"4")


def test_a_full_disk_is_told_once_and_the_fit_goes_on(tmp_path):
    """A limit on the size of files stands for the disk; what was written before stays whole."""
    code = f"""
        import resource, signal, warnings
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        from mixle.inference import optimize
        from mixle.stats import GaussianEstimator, MixtureEstimator
        rows = {ROWS.tolist()}
        def full(step):
            if step.iter == 3:
                resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model = optimize(rows, MixtureEstimator([GaussianEstimator()] * 2), delta=None, seed=3, max_its=6,
                             checkpoint={str(tmp_path / "fit")!r}, on_step=full)
        print(model.digest(), len(told), told[0].message, told[0].filename)
    """
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    digest, count, message = done.stdout.split(" ", 2)
    assert (digest, count) == (fit().digest(), "1")
    assert "could not be written at iteration 4: File too large; the fit goes on without it <string>" in message
    assert {path.name for path in tmp_path.iterdir()} == {"fit", "fit.previous"}
    assert fit(tmp_path / "fit").digest() == digest


def test_a_folder_that_is_gone_is_told_once_and_the_fit_goes_on(tmp_path, caplog):
    import shutil

    folder = tmp_path / "gone"
    folder.mkdir()

    def on_step(step):
        if step.iter == 2:
            shutil.rmtree(folder)

    with pytest.warns(UserWarning, match="could not be written at iteration 3: No such file") as told:
        model = optimize(ROWS, EST, delta=None, seed=3, max_its=6, checkpoint=folder / "fit", on_step=on_step)
    assert len(told) == 1
    (record,) = caplog.get_records("call")
    assert (record.name, record.levelname, record.path) == ("mixle.checkpoint", "WARNING", str(folder / "fit"))
    assert model.digest() == fit().digest()


def test_the_digest_of_rows_sees_every_bit_and_no_layout():
    from mixle.errors import PayloadError
    from mixle.utils.parallel.folding.digest import digest_of

    matrix = np.arange(12.0).reshape(3, 4)
    assert digest_of(matrix) == digest_of(np.asfortranarray(matrix)) == digest_of(np.repeat(matrix, 2, 0)[::2])
    others = [
        matrix.astype(np.float32),
        matrix.reshape(4, 3),
        np.nextafter(matrix, 99.0),
        matrix.tolist(),
        tuple(matrix.tolist()),
        matrix.astype(object),
        np.array(["1", "2"]),
        np.array([b"1", b"2"]),
    ]
    plain = [
        None,
        0,
        False,
        0.0,
        -0.0,
        0j,
        "",
        b"",
        (),
        [],
        {},
        "0",
        b"0",
        (0,),
        [0],
        {0: 0},
        np.float64(0),
        np.int8(0),
    ]
    plain += [
        1 << 70,
        -(1 << 70),
        -1,
        "a\ud800",
        np.datetime64(0, "s"),
        np.datetime64(0, "ms"),
        range(3),
        ["ab"],
        ["a", "b"],
    ]
    digests = [digest_of(value) for value in [matrix, *others, *plain]]
    assert len(set(digests)) == len(digests)
    loop = []
    loop.append(loop)
    for value in (object(), {1, 2}, loop, np.array([{1}])):
        with pytest.raises(PayloadError, match="digest"):
            digest_of(value)
