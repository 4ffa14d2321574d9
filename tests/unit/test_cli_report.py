"""``mixle report`` and ``mixle trace``: what they print, write and refuse."""

import json
import os
import subprocess
import sys

import pytest

from mixle.cli.main import main
from mixle.telemetry import Telemetry
from mixle.utils.parallel.em_observability import record_rank_round

SLOW = {"slow_from": 9}


def write(path, *runs, rounds=12, ranks=3, slow_from=None, **facts):
    """Record fits in a file; the last rank takes twice as long from `slow_from`."""
    with Telemetry(path) as telemetry:
        for run in runs:
            for t in range(rounds):
                for rank in range(ranks):
                    seconds = 0.1 + 0.001 * ((3 * t + 5 * rank) % 7)
                    if slow_from is not None and t >= slow_from and rank == ranks - 1:
                        seconds *= 2.0
                    extra = {"host": "node-1", "log_density": -1000.0 + t, **facts}
                    record_rank_round(
                        telemetry, rank=rank, round=t, e_step_seconds=seconds, n_obs=100, run_id=run, extra=extra
                    )
    return str(path)


def test_report_names_the_slow_rank(tmp_path, capsys):
    assert main(["report", write(tmp_path / "run.jsonl", "a", **SLOW)]) == 0
    text = capsys.readouterr().out
    assert "Fit report: run.jsonl, run a" in text
    assert "3 ranks, 12 rounds" in text
    assert "Rank 2 (2× since round 9): slower than the others" in text
    assert "E-step   100.0 %" in text
    assert "-989.00" in text
    assert text.splitlines()[-3].endswith("node-1  slow")


def test_long_and_wide_fits_stay_on_a_screen(tmp_path, capsys):
    assert main(["report", write(tmp_path / "run.jsonl", None, rounds=60, ranks=40)]) == 0
    text = capsys.readouterr().out
    assert "(48 earlier rounds)" in text
    assert "(16 more)" in text
    assert len(text.splitlines()) < 60


def test_json_is_for_programs(tmp_path, capsys):
    assert main(["report", "--json", write(tmp_path / "run.jsonl", "a", **SLOW)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["run_id"] == "a"
    assert told["report"]["n_ranks"] == 3
    assert told["diagnosis"]["slow_ranks"] == [2]


def test_page_and_trace_are_written(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path / "run.jsonl", "a<b")
    assert main(["report", file, "--html", "run.html"]) == 0
    assert "<title>Fit report: run.jsonl, run a&lt;b</title>" in (tmp_path / "run.html").read_text("utf-8")
    assert main(["trace", file]) == 0
    trace = json.loads((tmp_path / "run.trace.json").read_text("utf-8"))
    assert sum(event["ph"] == "X" for event in trace["traceEvents"]) == 36
    assert "run.html" in (said := capsys.readouterr().out)
    assert "run.trace.json" in said
    assert main(["trace", file, "--out", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == trace


def test_a_trace_that_stands_is_not_overwritten_unasked(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path / "run.jsonl", "a")
    (tmp_path / "run.trace.json").write_text("mine")
    assert main(["trace", file]) == 2
    assert "--out" in capsys.readouterr().err
    assert (tmp_path / "run.trace.json").read_text() == "mine"
    assert main(["trace", file, "--out", "run.trace.json"]) == 0
    assert (tmp_path / "run.trace.json").read_text() != "mine"


def test_several_runs_are_listed(tmp_path, capsys):
    file = write(tmp_path / "run.jsonl", "a", "b", None, rounds=2)
    assert main(["report", file]) == 2
    said = capsys.readouterr().err
    for line in ("3 runs", "--run 'a'", "--run 'b'", "--run ''", "6 records that name no run"):
        assert line in said
    assert main(["report", file, "--run", "c"]) == 2
    assert "no run 'c'" in capsys.readouterr().err
    for run in ("a", "b", ""):
        assert main(["report", "--json", file, "--run", run]) == 0
        assert json.loads(capsys.readouterr().out)["run_id"] == (run or None)


@pytest.mark.parametrize("command", ["report", "trace"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no file"),
        (b"", "is empty"),
        (b"not a record\n\xff\xfe\n", "none of its 2 lines is an event"),
        (b'{"a": 1}\n', "none of its 1 lines is an event"),
        (
            b'{"kind": "fit", "features": {}, "choice": null, "outcome": {}, "tags": {}, "ts": 1.0}\n',
            "no record of a rank (kind em_round), only: fit",
        ),
        (
            b'{"kind": "em_round", "features": {"rank": 0}, "choice": null, "outcome": {}, "tags": {}, "ts": 1.0}\n',
            "a receipt needs round",
        ),
    ],
)
def test_files_without_records_say_so(tmp_path, capsys, monkeypatch, command, content, words):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / "run.jsonl").write_bytes(content)
    assert main([command, "run.jsonl"]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.startswith("mixle: ")
    assert "run.jsonl" in said.err
    assert said.out == ""


def test_folders_and_devices_are_no_files(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert main(["report", os.devnull]) == 2
    said = capsys.readouterr().err
    assert "is a folder" in said
    assert "no regular file" in said


def test_telemetry_is_never_written_over(tmp_path, capsys):
    file = write(tmp_path / "run.jsonl", "a")
    before = (tmp_path / "run.jsonl").read_bytes()
    for words in (["report", file, "--html", file], ["trace", file, "--out", file]):
        assert main(words) == 2
        assert "holds the telemetry itself" in capsys.readouterr().err
    assert main(["report", file, "--html", str(tmp_path / "none" / "run.html")]) == 2
    assert "cannot be written: No such file" in capsys.readouterr().err
    assert (tmp_path / "run.jsonl").read_bytes() == before


def test_a_torn_line_and_mixed_fits_are_remarked(tmp_path, capsys):
    path = tmp_path / "run.jsonl"
    write(path, None, started=1.0)
    write(path, None, started=2.0)
    path.write_bytes(path.read_bytes() + b'{"kind": "em_ro')
    assert main(["report", str(path)]) == 0
    said = capsys.readouterr().err
    assert "1 lines of" in said
    assert "several fits share this run" in said


def test_help_names_examples_and_exit_codes():
    for command in ("report", "trace"):
        words = [sys.executable, "-W", "error", "-m", "mixle", command, "--help"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert f"mixle {command} run.jsonl" in done.stdout
        assert "exit code" in done.stdout
