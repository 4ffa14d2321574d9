"""The demo at a terminal, in a pipe, on a full disk: it ends in one line, with the right exit code."""

import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mixle.cli.screen import Screen

COMMAND = [sys.executable, "-W", "error", "-m", "mixle", "demo"]
WINDOWS = sys.platform == "win32"


def buffered():
    """Return the environment without what makes output unbuffered: then argparse itself swallows an error of --help."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


QUICK = ("--data", "penguins", "--workers", "1", "--iterations", "2")


def run(words, stdout, **environment):
    return subprocess.run(
        [*COMMAND, *words],
        env=buffered() | environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture(autouse=True)
def interrupts_are_heard():
    """Shells start what runs behind them with the interrupt ignored, and so would be what a test starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def read_until(fd, pattern, timeout=120.0):
    """Read from a terminal until `pattern` has come (None: until its end); return all that came."""
    text = ""
    while pattern is None or not re.search(pattern, text):
        ready, _, _ = select.select([fd], [], [], timeout)
        assert ready, f"nothing more after: {text[-500:]}"
        try:
            part = os.read(fd, 65536)
        except OSError:  # the other side is gone
            part = b""
        if not part:
            assert pattern is None, f"ended before {pattern}: {text[-500:]}"
            break
        text += part.decode()
    return text


@pytest.mark.skipif(WINDOWS, reason="pseudo-terminals are POSIX")
@pytest.mark.parametrize("iteration", [r"2 workers \(mp\): iteration 2,", r"one core: iteration 2,"])
def test_ctrl_c_ends_a_fit_and_compares_nothing(iteration):
    """The terminal sends SIGINT to the whole group: the pool must not complain either."""
    import pty

    words = ("--rows", "20000", "--workers", "2", "--iterations", "25")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(COMMAND[0], [*COMMAND, *words])
    try:
        seen = read_until(terminal, iteration)
        os.write(terminal, b"\x03")
        seen += read_until(terminal, None)
    finally:
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130, seen
    assert re.search(r"[\r\n]mixle: interrupted\s*$", seen), repr(seen)
    assert "DIFFER" not in seen
    assert "Traceback" not in seen
    assert "Warning" not in seen


@pytest.mark.skipif(WINDOWS, reason="SIGINT to a process is POSIX")
def test_an_interrupt_before_the_first_iteration():
    with subprocess.Popen(
        [sys.executable, *COMMAND[3:], "--workers", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert b"flights read" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert err.decode() == "mixle: interrupted\n"


@pytest.mark.parametrize("words", [QUICK, ("--help",)], ids=["demo", "help"])
def test_a_reader_that_goes_away(words):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        done = run(words, gone)
    assert done.stderr == ""
    assert done.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [QUICK, ("--help",)], ids=["demo", "help"])
def test_a_full_disk(words):
    with Path("/dev/full").open("wb") as full:
        done = run(words, full)
    assert done.stderr == "mixle: the output cannot be written: No space left on device\n"
    assert done.returncode == 2


def test_an_encoding_without_the_dot():
    done = run(QUICK, subprocess.PIPE, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^Cluster 1 - \d+ % of penguins - ", done.stdout, flags=re.MULTILINE)
    assert done.stdout.isascii()


def test_no_stream_at_all():
    nothing = Screen(None)
    nothing.say("lost")
    nothing.show("lost")
    nothing.abandon()
    assert nothing.lost is None
    assert not nothing.live
