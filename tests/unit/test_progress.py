"""Live progress: silent where it should be, rare enough, and the terminal clean at the end."""

import io
import os
import sys
import warnings

import numpy as np
import pytest

import mixle
from mixle.inference import FitStatus, best_of, optimize, select
from mixle.inference.live import Live
from mixle.inference.sinks import choose, line_of
from mixle.inference.stopping import StopRule
from mixle.stats import GaussianEstimator, MixtureEstimator
from mixle.utils.parallel.planner import encoded_data

pytestmark = pytest.mark.filterwarnings("ignore:EM stopped after:UserWarning")
ROWS = np.random.default_rng(0).normal(size=500).tolist()


def mixture():
    return MixtureEstimator([GaussianEstimator() for _ in range(2)])


class Collected:
    """A sink that keeps what it is shown."""

    period = 0.1

    def __init__(self):
        self.shown, self.ended = [], []

    def show(self, status):
        self.shown.append(status)

    def clear(self):
        pass

    def end(self, status):
        self.ended.append(status)


class Terminal(io.StringIO):
    """A stream whose lines can be written over."""

    def isatty(self):
        return True


def test_a_callable_gets_the_first_and_the_last_iteration():
    seen = []
    model = optimize(ROWS, mixture(), max_its=30, delta=None, progress=seen.append)
    assert all(isinstance(status, FitStatus) for status in seen)
    assert [status.finished for status in seen] == [False] * (len(seen) - 1) + [True]
    assert (seen[0].iteration, seen[-1].iteration) == (1, 30)
    assert seen[-1].max_its == 30
    assert seen[-1].objective == model.fit_provenance().last_accepted_objective
    assert seen[-1].rows_per_second > 0.0


@pytest.mark.parametrize("progress", [None, False, True])
def test_silent_unless_it_is_a_terminal(capfd, progress):
    """Standard error is a file here."""
    optimize(ROWS, mixture(), max_its=5, delta=None, progress=progress)
    assert capfd.readouterr() == ("", "")


def test_always_writes_lines_to_a_file(capsys):
    optimize(ROWS, mixture(), max_its=5, delta=None, progress="always")
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert lines[0].startswith("EM 1/5, objective -")
    assert lines[-1].startswith("EM 5/5, objective -")
    assert "\r" not in err


def test_a_line_on_a_terminal_is_written_over_and_ended(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    optimize(ROWS, mixture(), max_its=5, delta=None, progress=True)
    text = terminal.getvalue()
    assert text.startswith("\rEM 1/5, objective -")
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert max(map(len, text.replace("\n", "").split("\r"))) < 40


def test_documented_lines_do_not_mix_with_the_live_one(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    best_of(ROWS, None, mixture(), 2, 3, 0.5, None, out=terminal, print_iter=1, seed=1, progress=True)
    for line in terminal.getvalue().split("\n")[:-1]:
        visible = line.split("\r")[-1]
        assert visible.startswith(("Iteration ", "Trial ", "trial 2/2, EM 3/3"))


def test_best_of_counts_its_trials():
    seen = []
    best_of(ROWS, None, mixture(), 3, 4, 0.5, None, seed=1, progress=seen.append)
    assert (seen[-1].trial, seen[-1].trials, seen[-1].iteration, seen[-1].finished) == (3, 3, 4, True)
    assert sum(status.finished for status in seen) == 1


def test_an_interrupt_leaves_a_clean_line(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    def interrupt(step):
        if step.iter == 3:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted"):
        optimize(ROWS, mixture(), max_its=50, delta=None, progress=True, on_step=interrupt)
    assert "EM 3/50" in terminal.getvalue()
    assert terminal.getvalue().endswith("\n")


@pytest.mark.parametrize("error", [LookupError, SystemExit])
def test_an_error_ends_the_line_and_comes_through(error, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    def fail(step):
        raise error(step.iter)

    with pytest.raises(error):
        optimize(ROWS, mixture(), progress=True, on_step=fail)
    assert terminal.getvalue().endswith("\n")


def test_what_a_callable_raises_comes_through():
    def fail(status):
        raise LookupError(status.iteration)

    with pytest.raises(LookupError):
        optimize(ROWS, mixture(), progress=fail)


@pytest.mark.parametrize("way", [select, lambda *a, **k: mixle.fit({"x": a[0]}, **k)], ids=["select", "fit"])
def test_a_search_tells_its_numbers_of_components(way, monkeypatch):
    seen, terminal = [], Terminal()
    options = {"components": range(1, 3), "trials": 2, "delta": None, "max_its": 3}
    way(ROWS, progress=seen.append, **options)
    assert {(one.components, one.trial) for one in seen} == {(1, 1), (1, 2), (2, 1), (2, 2)}
    assert [one.components for one in seen if one.finished] == [1, 2]
    monkeypatch.setattr(sys, "stderr", terminal)
    way(ROWS, progress=True, **options)
    lines = [line.rpartition("\r")[2] for line in terminal.getvalue().rstrip("\n").split("\n")]
    assert [line.partition(", EM 3/3")[0] for line in lines] == ["1 component, trial 2/2", "2 components, trial 2/2"]


def test_a_terminal_that_goes_away_does_not_end_the_fit(monkeypatch):
    class Gone(Terminal):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone())
    assert optimize(ROWS, mixture(), max_its=3, delta=None, progress=True) is not None
    monkeypatch.setattr(sys, "stderr", None)
    assert optimize(ROWS, mixture(), max_its=3, delta=None, progress="always") is not None


def test_a_notebook_counts_as_a_terminal(monkeypatch):
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr(sys, "stderr", stream)
    optimize(ROWS, mixture(), max_its=3, delta=None, progress=True)
    assert stream.getvalue().startswith("\rEM 1/3")


@pytest.mark.parametrize("progress", ["yes", 1.5, 1, []])
def test_other_values_are_refused_before_any_work(progress):
    with pytest.raises(ValueError, match="progress must be True, False, 'always' or a callable"):
        optimize(ROWS, mixture(), progress=progress)


def test_progress_changes_no_bit():
    plain = optimize(ROWS, mixture(), max_its=8, delta=None)
    assert optimize(ROWS, mixture(), max_its=8, delta=None, progress=lambda _: None).digest() == plain.digest()


def test_updates_are_ten_a_second_at_most():
    now = [0.0]
    sink = Collected()
    live = Live(sink, 1000, clock=lambda: now[0])
    with live.showing():
        live.begin(100)
        for iteration in range(1, 1001):
            now[0] += 0.004
            live.step(iteration, -1.0, 1.0)
    assert 30 <= len(sink.shown) <= 41
    assert sink.shown[0].iteration == 1
    assert [status.iteration for status in sink.ended] == [1000]


def test_the_time_left_follows_the_gains():
    """Gains that halve fall below 2**-10 after ten iterations."""
    now = [0.0]
    live = Live(sink := Collected(), 1000, rule=StopRule(2.0**-10), deadline=8.0, clock=lambda: now[0])
    live.begin(50)
    for iteration in range(1, 6):
        now[0] += 1.0
        live.step(iteration, -1.0, 2.0 ** (1 - iteration))
    assert [status.eta for status in sink.shown] == [None, 6.0, 5.0, 4.0, 3.0]
    assert [status.rows_per_second for status in sink.shown] == [50.0] * 5
    far = Live(other := Collected(), 100, clock=lambda: now[0])
    far.begin(None)
    for iteration in (1, 2):
        now[0] += 1.0
        far.step(iteration, -1.0, 1.0)
    assert other.shown[-1].eta == 98.0
    assert other.shown[-1].rows_per_second is None


def test_a_status_of_odd_numbers_is_a_line():
    nan = float("nan")
    line = line_of(FitStatus(1, 2, -float("inf"), nan, 0.0, None, None))
    assert line == "EM 1/2, objective -inf, gain nan, 0 s"
    assert line_of(FitStatus(1, 2, 0.0, 0.0, 5e-6, 1e9, 5e-6)).isascii()


def test_a_handle_tells_its_rows_and_its_weights_do_not_matter():
    seen = []
    with encoded_data(ROWS, mixture()) as handle:
        optimize(None, mixture(), enc_data=handle, max_its=3, delta=None, progress=seen.append)
    assert seen[-1].rows_per_second == pytest.approx(500 * 3 / seen[-1].elapsed)


def test_nothing_is_loaded_for_a_fit_without_progress():
    import subprocess

    code = "import sys; from mixle.inference import optimize; from mixle.stats import GaussianEstimator as G; "
    code += "optimize([1.0, 2.0], G()); assert 'mixle.inference.sinks' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX")
def test_on_a_real_terminal_the_prompt_is_on_a_line_of_its_own():
    import pty

    code = (
        "from mixle.inference import optimize; from mixle.stats import GaussianEstimator as G; "
        "optimize([float(i % 7) for i in range(99)], G(), max_its=5, progress=True); print('DONE')"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", code])
    text = b""
    try:
        while part := _read(terminal):
            text += part
    finally:
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    assert status == 0, text
    assert b"\rEM 1/5, objective" in text
    assert text.endswith(b"\r\nDONE\r\n")


def _read(fd):
    try:
        return os.read(fd, 65536)
    except OSError:  # the other side is gone
        return b""


def test_choose_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose(None) is None
        assert choose(False) is None
