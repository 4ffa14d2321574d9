"""`mixle doctor` and `mixle backends`, without an engine: what is told, what fails, what to type."""

import json
import sys

import pytest

from mixle.cli import doctor, roundtrip
from mixle.cli.main import main
from mixle.utils.parallel.folding.backends import NEEDS, Need


def test_local_is_fine_and_json_says_so(capsys):
    assert main(["doctor", "--json", "local"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["status"] == "ok"
    assert found["digest"] == roundtrip.fit("local")


def test_without_a_trip_nothing_is_started(capsys, monkeypatch):
    monkeypatch.setattr(doctor.subprocess, "run", None)
    assert main(["doctor", "--no-trip"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["local", "not", "tried", "not", "tried"] in lines


def test_backends_are_listed_with_what_they_need(capsys):
    assert main(["backends"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["local"] == lines["mp"] == "usable"
    assert set(NEEDS) <= set(lines)


def test_names_of_any_length_stand_in_columns(capsys):
    main(["doctor", "--no-trip", "mp", "component_parallel"])
    lines = capsys.readouterr().out.splitlines()
    assert len({line.index("not tried") for line in lines}) == 1
    assert main(["backends"]) == 0
    lines = capsys.readouterr().out.splitlines()
    wide = max(len(line.split()[0]) for line in lines)
    assert all(line[wide] == " " and line[wide + 1] != " " for line in lines)


def test_an_unknown_backend_and_a_missing_package(monkeypatch):
    assert doctor.check("dsk").problem == "this version has no such backend"
    monkeypatch.setitem(NEEDS, "local", Need("no_such_module", "no-such", "pip install no-such"))
    found = doctor.check("local")
    assert (found.status, found.fix) == ("missing", "pip install no-such")


def test_a_missing_launcher(monkeypatch):
    monkeypatch.setitem(NEEDS, "local", Need("numpy", "numpy", "", "no-such-program", "apt install no-such-program"))
    found = doctor.check("local")
    assert (found.status, found.problem) == ("missing", "there is no no-such-program")
    assert found.version


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import sys; sys.exit('no engine today')", "no engine today"),
        ("import sys; sys.exit(3)", "it ended with code 3"),
        ("print('mixle-round-trip 0123')", "its bits are not those of local: this is a fault"),
        ("import time; time.sleep(60)", "no answer within 2 s"),
    ],
)
def test_a_round_trip_that_fails(code, problem, monkeypatch):
    run = doctor.subprocess.run
    monkeypatch.setattr(doctor.subprocess, "run", lambda _, **options: run([sys.executable, "-c", code], **options))
    found = doctor.check("local", patience=2 if "sleep" in code else 60)
    assert (found.status, found.problem) == ("failed", problem)
    assert found.fix


@pytest.mark.parametrize("backend", sorted(roundtrip.WHOLE))
def test_backends_that_split_the_model_are_fine(backend):
    found = doctor.check(backend)
    assert (found.status, found.digest) == ("ok", roundtrip.fit("local", 1))


def test_backends_as_json(capsys):
    assert main(["backends", "--json"]) == 0
    found = {row["backend"]: row for row in json.loads(capsys.readouterr().out)}
    assert found["local"] == {"backend": "local", "usable": True, "state": "usable", "fix": ""}
    assert set(NEEDS) <= set(found)


def test_a_backend_that_is_none_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--no-trip", "dsk"])
    assert ended.value.code == 2
    assert "there is no backend 'dsk'; did you mean 'dask'; choose from component_parallel, dask," in (
        capsys.readouterr().err
    )
