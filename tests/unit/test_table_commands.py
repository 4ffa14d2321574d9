"""``mixle fit``, ``score`` and ``sample`` from a file to a file."""

import csv
import io
import json
import os
import shlex

import numpy as np
import pandas as pd
import pytest

import mixle
from mixle.cli.main import main

ROWS = [
    (("tea", "coffee")[i % 2], i % 2 * 7 + 0.1 * (i * 7 % 11), "" if i % 9 == 0 else i % 5 + 0.5) for i in range(60)
]


@pytest.fixture
def table(tmp_path):
    place = tmp_path / "t.csv"
    place.write_text("drink,grams,price\n" + "".join(f"{a},{b},{c}\n" for a, b, c in ROWS))
    return place


@pytest.fixture
def model(table, tmp_path, capsys):
    place = tmp_path / "m.json"
    assert main(["fit", str(table), "--components", "2", "--out", str(place)]) == 0
    capsys.readouterr()
    return place


def test_fit_says_schema_report_clusters_and_what_next(table, tmp_path, capsys):
    out = tmp_path / "m.json"
    assert main(["fit", str(table), "--components", "1-2", "--trials", "1", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    for words in ("price   Optional Gaussian", "BIC by number of clusters: 1: ", "Cluster 0: 50.0 %", "sha256 "):
        assert words in said
    assert said.splitlines()[-1] == f"Saved. Next: mixle score {out} {table}"
    assert f"sha256 {mixle.load(out).model.digest()}" in said


UNREADABLE = "when,grams,note\n" + "".join(
    f"2024-01-0{i % 7 + 1} 00:00:00+01:00,{a},{(5, 'five', '')[i % 3]}\n" for i, (_, a, _) in enumerate(ROWS)
)


@pytest.mark.parametrize(
    "words", [["fit", "--components", "1"], ["plan", "--workers", "1"]], ids=lambda words: words[0]
)
def test_columns_that_cannot_be_read_are_left_out_by_the_words_that_are_told(tmp_path, capsys, words):
    place = tmp_path / "t.csv"
    place.write_text(UNREADABLE.replace("when", "the day"))
    assert main([words[0], str(place), *words[1:]]) == 2
    said = capsys.readouterr().err
    assert "column 'the day' has dates of the time zone UTC+01:00" in said
    _, _, told = said.partition("; here: ")
    assert told == "--family 'the day=Ignored'\n"
    assert main([words[0], str(place), *words[1:], *shlex.split(told)]) == 0
    if words[0] == "plan":
        assert f"mixle fit {place} --components 1 {told.strip()} --backend mp" in capsys.readouterr().out


def test_all_columns_that_cannot_be_read_are_told_at_once(tmp_path, capsys):
    place = tmp_path / "t.parquet"
    pd.DataFrame({"a": [[1]] * 9, "x": range(9), "b": [{"c": 1}] * 9}).to_parquet(place)
    assert main(["fit", str(place)]) == 2
    assert capsys.readouterr().err.endswith("; here: --family a=Ignored --family b=Ignored\n")
    pd.DataFrame({"a": [[1]] * 9}).to_parquet(place)
    assert main(["fit", str(place)]) == 2
    assert "here:" not in capsys.readouterr().err


def test_one_row_is_scored_in_the_singular(model, tmp_path, capsys):
    place = tmp_path / "one.csv"
    place.write_text("drink,grams,price\nmilk,0.3,1.5\n")
    assert main(["score", str(model), str(place)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == [
        "1 row, mean log-density -inf nats",
        "1 of them holds a value that the fit thinks impossible",
    ]
    assert any(": 1 row (100.0 %; " in line for line in said)


def test_fit_in_float32(table, tmp_path, capsys):
    words = ["fit", str(table), "--components", "2", "--trials", "1", "--out"]
    for precision in ("float32", "float64"):
        assert main([*words, str(tmp_path / precision), "--precision", precision]) == 0
    capsys.readouterr()
    narrow, wide = (mixle.load(tmp_path / precision).model for precision in ("float32", "float64"))
    assert (narrow.digest() == wide.digest()) is False
    np.testing.assert_allclose(narrow.w, wide.w, atol=1e-3)


def test_fit_as_json_on_a_pool(table, capsys):
    words = ["fit", str(table), "--components", "2", "--family", "price=Ignored", "--json"]
    assert main(words) == 0
    alone = json.loads(capsys.readouterr().out)
    assert main([*words, "--backend", "mp", "--workers", "2"]) == 0
    assert json.loads(capsys.readouterr().out) == alone
    assert alone["families"] == {"drink": "Categorical", "grams": "Gaussian", "price": "Ignored"}
    assert sum(alone["weights"]) == pytest.approx(1.0)


def test_score(table, model, capsys):
    assert main(["score", str(model), str(table)]) == 0
    assert capsys.readouterr().out.startswith("60 rows, mean log-density ")
    assert main(["score", str(model), str(table), "--rows"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert main(["score", str(model), str(table), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [int(line["cluster"]) for line in lines] == told["clusters"] == mixle.load(model).predict(table).tolist()
    assert [float(line["log_density"]) for line in lines] == told["log_density"]
    assert told["mean_log_density"] == pytest.approx(np.mean(told["log_density"]))


def test_score_of_a_label_never_seen(table, model, capsys):
    table.write_text("drink,grams,price\nmate,0.1,1.5\ntea,0.1,1.5\n")
    assert main(["score", str(model), str(table)]) == 0
    assert "1 of them holds a value that the fit thinks impossible" in capsys.readouterr().out
    assert main(["score", str(model), str(table), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["log_density"][0] is told["mean_log_density"] is None


def test_sample(model, capsys):
    assert main(["sample", str(model), "-n", "5", "--seed", "2"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert main(["sample", str(model), "-n", "5", "--seed", "2", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [line["drink"] for line in lines] == [row["drink"] for row in rows]
    assert len(rows) == 5


def test_an_unsettled_fit_is_noted(table, capsys):
    assert main(["fit", str(table), "--components", "2", "--iterations", "1"]) == 0
    assert "mixle: EM stopped after 1 iteration before convergence" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "nowhere.csv"], "'nowhere.csv' is no file here"),
        (["fit", "{table}", "--family", "tea=Gamma"], "the schema has no columns ['tea']"),
        (["fit", "{table}", "--components", "99"], "60 rows cannot make 99 clusters"),
        (["fit", "{table}", "--components", "2", "--backend", "nope"], "nope"),
        (["fit", "nowhere.csv", "--out", "{folder}/no/m.json"], "there is no folder {folder}/no; make it first"),
        (["fit", "nowhere.csv", "--out", "{folder}"], "{folder} is a folder: name a file in it"),
        (["fit", "nowhere.csv", "--out", "."], ". is a folder: name a file in it"),
        (["fit", "nowhere.csv", "--out", "{folder}/pipe"], "{folder}/pipe is no regular file"),
        (["fit", "{table}", "--out", "{table}"], "{table} is what the command reads: write to another file"),
        (["fit", "{table}", "--family", "grams=IntegerBernoulliSet"], "num_vals must be a whole number"),
        (["score", "{table}", "{table}"], "is not a fit saved by mixle"),
        (["score", "{folder}/none.json", "{table}"], "No such file or directory"),
        (["sample", "{folder}"], "{folder}: "),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_requests_that_cannot_be_carried_out(table, tmp_path, capsys, words, message):
    os.mkfifo(tmp_path / "pipe")
    before = table.read_bytes()
    assert main([word.format(table=table, folder=tmp_path) for word in words]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("mixle: ")
    assert message.format(folder=tmp_path, table=table) in said.err
    assert not said.out
    assert table.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipe", "t.csv"]


def test_a_column_that_is_left_out_need_not_be_readable(table, tmp_path, capsys):
    lines = table.read_text().splitlines()
    awkward = [f"{line},{'inf' if i else 'ratio'}" for i, line in enumerate(lines)]
    table.write_text("\n".join(awkward) + "\n")
    assert main(["fit", str(table), "--components", "2"]) == 2
    assert "column 'ratio' holds an infinity" in capsys.readouterr().err
    assert main(["fit", str(table), "--components", "2", "--family", "ratio=Ignored"]) == 0
    assert ["ratio", "Ignored", "as", "told"] in [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("family", "message"),
    [
        ("Poisson", "field 'x' (Poisson) takes the integers 0, 1, 2, ..."),
        ("IntegerCategorical", "without rows that hold integers"),
    ],
)
def test_a_family_that_takes_no_value_of_the_column_says_what_it_takes(tmp_path, capsys, family, message):
    table = tmp_path / "t.csv"
    table.write_text("x\n" + "".join(f"{i + 0.5}\n" for i in range(20)))
    assert main(["fit", str(table), "--components", "2", "--family", f"x={family}"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("fit t --components 0", "0 is too small: 1 or more"),
        ("fit t --components 6-2", "'6-2' holds no number; write the smaller one first"),
        ("fit t --components two", "'two' is not a whole number"),
        ("fit t --family a", "--family"),
        ("fit t --workers 2", "--workers"),
        ("fit t --workers 2.5 --backend mp", "'2.5' is not a whole number"),
        ("sample m -n 0", "0 is too small: 1 or more"),
        ("demo --seed 4294967296", "4294967296 is too large: 4294967295 or less"),
    ],
)
def test_words_that_make_no_sense_end_with_usage(words, told, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "usage: mixle" in said
    assert told in said
