"""``mixle plan``: a table or JSON, an exit code, and usage for what cannot be meant."""

import json

import numpy as np
import pandas as pd
import pytest

import mixle
from mixle.cli.main import main
from mixle.tables.files import count_rows, read_file
from mixle.utils.parallel.planner import Placement

WORDS = ["plan", "--rows", "1e9", "--row-bytes", "80", "--workers", "4"]


def test_what_fits_is_a_table_and_a_line_to_type(capsys):
    assert main([*WORDS, "--memory", "64G"]) == 0
    told = capsys.readouterr().out
    assert "worker:3  250,000,000  25.0%" in told
    assert "It fits." in told
    assert 'encoded_data(rows, estimator, backend="mp", num_workers=4, num_shards=64)' in told


def test_what_does_not_fit_says_what_would(capsys):
    assert main([*WORDS, "--memory", "16G"]) == 1
    told = capsys.readouterr().out
    assert "use 7 workers with as much memory" in told
    assert "encoded_data" not in told
    assert main(["plan", "--rows", "1e9", "--row-bytes", "80", "--workers", "7", "--memory", "16G"]) == 0


def test_json_is_a_placement(capsys):
    assert main([*WORDS, "--memory", "64G", "--json", "--components", "16", "--sub-chunks", "2"]) == 0
    placement = Placement.from_dict(json.loads(capsys.readouterr().out))
    assert (placement.total_rows, placement.transient_row_bytes, placement.shards[0].sub_chunks) == (10**9, 384.0, 2)


def test_speeds_set_the_shares_and_this_machine_is_the_default(capsys):
    assert main(["plan", "--rows", "7000", "--row-bytes", "8", "--speeds", "1,2,4"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in told[1:4]] == ["1,000", "2,000", "4,000"]
    assert main(["plan", "--rows", "7,000", "--row-bytes", "1Ki"]) == 0
    assert "It fits." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--rows", "x"], "'x' is not a whole number"),
        (["--rows", "0"], "at least 1"),
        (["--rows", "1.5"], "at least 1"),
        (["--rows", "nan"], "at least 1"),
        (["--row-bytes", "many"], "'many' is no size"),
        (["--memory", "0"], "'0' is no size"),
        (["--speeds", "1,x"], "are no speeds"),
        (["--speeds", "1,0,1,1"], "must be above 0"),
        (["--speeds", "1,2"], "--speeds has 2 numbers for 4 workers"),
        (["--workers", "0"], "too small"),
    ],
)
def test_what_cannot_be_meant_is_usage(capsys, words, told):
    with pytest.raises(SystemExit) as ended:
        main([*WORDS, *words])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def visits(folder, form, rows=6000):
    frame = pd.DataFrame({"drink": ["tea", "coffee", "tea"] * (rows // 3), "grams": np.arange(rows) * 0.25 % 7.0})
    place = folder / f"visits.{form}"
    frame.to_csv(place, index=False) if form == "csv" else frame.to_parquet(place)
    return frame, place


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_table_tells_its_rows_and_their_size(capsys, tmp_path, form):
    frame, place = visits(tmp_path, form)
    words = ["plan", str(place), "--workers", "2", "--components", "3"]
    assert main([*words, "--json"]) == 0
    placement = Placement.from_dict(json.loads(capsys.readouterr().out))
    assert placement.total_rows == count_rows(place) == 6000
    schema = mixle.schema(frame)
    encoder = schema.estimator(3).accumulator_factory().make().acc_to_encoder()
    exact = encoder.nbytes(encoder.seq_encode(schema.read(frame))) / 6000
    assert placement.encoded_row_bytes == pytest.approx(exact, rel=0.05)
    assert main(words) == 0
    assert f"mixle fit {place} --components 3 --backend mp --workers 2" in capsys.readouterr().out
    assert main([*words, "--rows", "1e9", "--json"]) == 0
    assert Placement.from_dict(json.loads(capsys.readouterr().out)).total_rows == 10**9
    assert len(read_file(place, 100)["drink"]) == 100


def test_tables_that_are_none(capsys, tmp_path):
    (tmp_path / "empty.csv").write_text("a,b\n")
    for name, told in (("nowhere.csv", "is no file here"), ("empty.csv", "has no rows")):
        assert main(["plan", str(tmp_path / name)]) == 2
        assert told in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["plan", "--rows", "100"])
    assert "name a TABLE, or tell both --rows and --row-bytes" in capsys.readouterr().err
