"""Dates and durations: read as days, told as what they were, from the table to a draw and back."""

import csv
import datetime as dt
import io

import numpy as np
import pandas as pd
import pytest

import mixle
from mixle.cli.main import main
from mixle.errors import SchemaError
from mixle.sklearn import MixtureModel
from mixle.tables.reading import as_told

N = 60
RNG = np.random.default_rng(3)
FRAME = pd.DataFrame(
    {
        "when": pd.Timestamp("2026-03-01") + pd.to_timedelta(RNG.integers(0, 90 * 86400, N), unit="s"),
        "took": pd.to_timedelta(RNG.normal(50, 4, N), unit="h"),
        "x": RNG.normal(size=N),
    }
)


@pytest.fixture(scope="module")
def fitted():
    return mixle.fit(FRAME.assign(when=FRAME["when"].where(FRAME.index % 9 > 0)), components=2, trials=1)


def test_a_duration_is_no_date(fitted):
    assert [field.conversion for field in fitted.schema] == ["days", "durations", ""]
    assert fitted.schema["took"].reason.startswith("durations in days; numbers ")
    took = next(line for line in fitted.summary().splitlines() if "took" in line)
    assert took.endswith(" days")
    assert "1970" not in took
    with pytest.raises(SchemaError, match=r"'took' held durations .* and holds dates here"):
        fitted.predict(FRAME.assign(took=FRAME["when"]))
    with pytest.raises(SchemaError, match="mixes durations with other values"):
        mixle.schema({"a": [dt.timedelta(1), dt.date(2026, 1, 1)]})


def test_draws_and_imputed_rows_are_rows_of_the_table(fitted):
    drawn = fitted.sample(40, seed=2)
    assert {type(value) for value in drawn["when"]} == {dt.datetime, type(None)}
    assert {type(value) for value in drawn["took"]} == {dt.timedelta}
    assert np.isfinite(fitted.score_rows(drawn)).all()
    filled = fitted.impute({"when": [None], "took": [dt.timedelta(hours=49)], "x": [0.0]})
    assert filled["took"] == [dt.timedelta(hours=49)]
    assert dt.datetime(2026, 3, 1) < filled["when"][0] < dt.datetime(2026, 5, 30)  # noqa: DTZ001 - naive as the table
    assert np.isfinite(fitted.score(filled))
    model = MixtureModel(2, n_init=1).fit(FRAME)
    assert np.isfinite(model.score(pd.DataFrame(model.sample(5)[0])))


def test_an_explanation_tells_the_values_of_the_table(fitted):
    row = fitted.explain(FRAME, row=4).row
    assert row["when"] == FRAME["when"][4].to_pydatetime()
    assert row["took"] == pytest.approx(FRAME["took"][4].to_pytimedelta(), abs=dt.timedelta(microseconds=2))
    for bad in ("a", 1.5, True, None):
        with pytest.raises(SchemaError, match="row is the position of a row, not"):
            fitted.explain(FRAME, row=bad)
    for bad in (-1, 1.5, "3", True):
        with pytest.raises(SchemaError, match="size must be a whole number of at least 0"):
            fitted.sample(bad)


def test_what_the_command_samples_it_scores(fitted, tmp_path, capsys):
    place = str(tmp_path / "fit.json")
    fitted.save(place)
    assert main(["sample", place, "-n", "20", "--seed", "1"]) == 0
    text = capsys.readouterr().out
    (tmp_path / "drawn.csv").write_text(text)
    took = [row["took"] for row in csv.DictReader(io.StringIO(text))]
    assert all(cell.partition(" days ")[0] in {"1", "2"} for cell in took)
    assert main(["score", place, str(tmp_path / "drawn.csv")]) == 0
    assert capsys.readouterr().out.startswith("20 rows, mean log-density")
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    assert mixle.load(place).score(tmp_path / "t.csv") == pytest.approx(fitted.score(FRAME))
    assert main(["sample", place, "--json"]) == 0
    assert '"when": "2026-0' in capsys.readouterr().out


def test_days_beyond_the_calendar():
    assert as_told([-1e300, 1e300], "days") == [
        dt.datetime(1, 1, 1),  # noqa: DTZ001 - naive as the table
        dt.datetime(9999, 12, 31),  # noqa: DTZ001
    ]
    assert as_told([1e300, -1.5], "durations") == [dt.timedelta(100_000_000), dt.timedelta(-1.5)]


@pytest.mark.parametrize("name", [float("nan"), None, pd.NaT])
def test_a_column_needs_a_name(name):
    frame = FRAME[["x", "x", "x"]].set_axis(["a", "b", name], axis=1)
    for call in (mixle.schema, lambda table: mixle.fit(table, components=1)):
        with pytest.raises(SchemaError, match=r"column 2 has no name but .* give it one, for example df.columns = "):
            call(frame)
    schema = mixle.schema(FRAME[["x", "x"]].set_axis(["a", "b"], axis=1))
    with pytest.raises(SchemaError, match=r"no columns \['b'\]; it has \['a', 'x'\]"):
        schema.read(FRAME[["x", "x"]].set_axis(["a", "x"], axis=1))


@pytest.mark.filterwarnings("error")
def test_numbers_near_the_largest_are_refused_in_words():
    with pytest.raises(ValueError, match=r"field 'a' .* too large"):
        mixle.fit({"a": [1e308, 1.5, -1e308, 2.75] * 5}, components=1)
