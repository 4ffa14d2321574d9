"""Tables become schemas by stated rules, whatever their kind, and bad columns are named."""

import datetime as dt
import decimal
import json
import os
import threading
import uuid

import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mixle
from mixle import stats
from mixle.errors import EmptyDataError, RowError, SchemaError, SerializationError
from mixle.inference import bic, optimize
from mixle.inference.rules import RULES, choose
from mixle.stats import GammaEstimator, MixtureEstimator, NegativeBinomialDistribution, RecordEstimator
from mixle.stats.counting import free_parameters
from mixle.stats.label_column import LabelColumn
from mixle.stats.reading import read_labels
from mixle.tables.reading import read_file, table_columns
from mixle.tables.words import law_text

N = 200
RNG = np.random.RandomState(3)
DAY = dt.datetime(2024, 1, 1)  # noqa: DTZ001 - dates without a zone are the subject
LABELS = ["tea", "coffee", "cocoa"]
COLUMNS = {
    "drink": [LABELS[i % 3] for i in range(N)],
    "grams": (RNG.normal(size=N) + np.arange(N) % 3 * 6.0).tolist(),
    "cups": RNG.poisson(20.0, N).tolist(),
    "hot": [i % 2 == 0 for i in range(N)],
    "price": [None if i % 10 == 0 else float(x) for i, x in enumerate(np.exp(RNG.normal(size=N)))],
    "when": [DAY + dt.timedelta(hours=7 * i) for i in range(N)],
}
FAMILIES = ["Categorical", "Gaussian", "Poisson", "Bernoulli", "LogGaussian", "Gaussian"]


def frame():
    return pd.DataFrame(COLUMNS)


def structured():
    names = ["drink", "grams", "cups", "hot"]
    return np.array(list(zip(*(COLUMNS[n] for n in names), strict=True)), dtype="U8,f8,i8,?").astype(
        [("drink", "U8"), ("grams", float), ("cups", int), ("hot", bool)]
    )


def csv_file(folder):
    place = folder / "t.csv"
    frame().to_csv(place, index=False)
    return place


def parquet_file(folder):
    place = folder / "t.parquet"
    frame().to_parquet(place)
    return place


FORMS = {
    "mapping": lambda folder: COLUMNS,
    "pandas": lambda folder: frame(),
    "nullable": lambda folder: frame().convert_dtypes(),
    "category": lambda folder: frame().astype({"drink": "category"}),
    "polars": lambda folder: pl.DataFrame(COLUMNS),
    "arrow": lambda folder: pa.table(COLUMNS),
    "narwhals": lambda folder: narwhals.from_native(pl.DataFrame(COLUMNS)),
    "records": lambda folder: frame().to_dict("records"),
    "structured": lambda folder: structured(),
    "csv": csv_file,
    "csv text": lambda folder: str(csv_file(folder)),
    "parquet": parquet_file,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_kind_of_table_gives_one_schema(form, tmp_path):
    schema = mixle.schema(FORMS[form](tmp_path))
    assert [field.family for field in schema] == FAMILIES[: len(schema)]
    assert [field.name for field in schema] == list(COLUMNS)[: len(schema)]


@pytest.mark.parametrize("form", FORMS)
def test_every_kind_of_table_fits_to_the_same_bits(form, tmp_path):
    names = ["drink", "grams", "cups", "hot"]
    schema = mixle.schema(COLUMNS, names)
    rows = schema.read(FORMS[form](tmp_path))
    found = optimize(rows, schema.estimator(2), max_its=3, delta=None)
    plain = optimize(
        [dict(zip(names, row, strict=True)) for row in zip(*(COLUMNS[n] for n in names), strict=True)],
        schema.estimator(2), max_its=3, delta=None,
    )  # fmt: skip
    assert found.digest() == plain.digest()


RULED = [
    ([None, float("nan"), None], "Ignored", "no value in any of 3 rows"),
    ([2.5] * 9, "Ignored", "the same value in every row: 2.5"),
    (["a"] * 9, "Ignored", "the same value in every row: 'a'"),
    (["a", None] * 9, "Categorical", "one value ('a') or none: whether it is there"),
    ([4.0, None] * 9, "Categorical", "one value (4) or none: whether it is there"),
    ([True, None, False], "Bernoulli", "true and false, 50 % true"),
    ([0, 1, 1, 0.0], "Bernoulli", "0 and 1, 50 % true"),
    ([f"name {i}" for i in range(50)], "Ignored", "like a name for each"),
    ([f"name {i % 1500}" for i in range(9000)], "Ignored", "1,500 different values in 9,000 rows"),
    (list(range(1, 100)), "Ignored", "the number of the row"),
    ([1, 2, 3] * 20, "IntegerCategorical", "whole numbers 1 to 3, 3 different"),
    (RNG.poisson(9.0, 500), "Poisson", "counts"),
    (RNG.negative_binomial(1, 0.05, 500), "NegativeBinomial", "counts"),
    (
        np.append(np.random.RandomState(8).poisson(9.0, 500), np.zeros(100)),
        "ZeroInflated",
        "zeros of their own, beside Poisson, the BIC",
    ),
    (
        np.append(np.random.RandomState(8).negative_binomial(4, 0.1, 500), np.zeros(100)),
        "ZeroInflated",
        "beside NegativeBinomial, the BIC",
    ),
    (2000 + RNG.poisson(30.0, 500), "Gaussian", "numbers"),
    (500 + RNG.poisson(30.0, 500), "Gaussian", "far from 0"),
    (RNG.randint(-40, 40, 500), "Gaussian", "numbers -40 to 39"),
    (RNG.gamma(1.0, 2.0, 2000), "Gamma", "all > 0, with a long tail"),
    (np.exp(RNG.normal(size=2000)), "LogGaussian", "all > 0, with a long tail"),
    (RNG.normal(size=500), "Gaussian", "numbers"),
    ([10**25 + i for i in range(50)], "Ignored", "whole numbers near 1e+25 that float64 cannot tell apart"),
    (np.arange(50, dtype=np.uint64) + np.uint64(2**63), "Ignored", "near 9.22337e+18 that float64 cannot tell apart"),
    ([f"name {i}" for i in range(50)], "Ignored", "like a name for each; family Categorical takes it all the same"),
    ([f"${i},200.50" for i in range(1, 50)], "Ignored", "they read like numbers ('$1,200.50'): turn them into numbers"),
    ([f"{i % 30}.5 %" for i in range(500)], "Categorical", "30 different values; they read like numbers ('0.5 %')"),
    ([f"-{i}.000,75 €" for i in range(50)], "Ignored", "they read like numbers"),
    ([f"EUR {i}" for i in range(50)], "Ignored", "they read like numbers"),
    ([f"2024-01-{i:02}" for i in range(1, 31)], "Ignored", "they read like dates ('2024-01-01'): pandas.to_datetime"),
    ([f"{i}/3/24 12:00" for i in range(1, 31)], "Ignored", "they read like dates"),
    ([f"{i:06}" for i in range(50)], "Ignored", "family Categorical takes it all the same"),
    ([f"{i} {'9' * 500}" for i in range(50)], "Ignored", "family Categorical takes it all the same"),
    ([decimal.Decimal("1.5"), decimal.Decimal("2.25"), None], "Gaussian", "numbers 1.5 to 2.25"),
    (np.array([1.5, 2.5], np.float32), "Gaussian", "numbers 1.5 to 2.5"),
]


@pytest.mark.parametrize(("values", "family", "reason"), RULED, ids=[f"{i} {r[1]}" for i, r in enumerate(RULED)])
def test_rules(values, family, reason):
    found = choose("x", values)
    assert found.family == family
    assert reason in found.reason


@pytest.mark.parametrize(("seed", "rate", "step"), [(8, 8.0, 1), (1, 5.0, 4), (2, 12.0, 1), (3, 6.0, 2), (4, 25.0, 1)])
def test_zeros_of_their_own_are_proposed_from_a_gain_of_10_on(seed, rate, step):
    """Planted zeros, on both sides of the threshold; the criterion is computed anew, by EM, for both laws of counts."""
    counts = np.random.RandomState(seed).poisson(rate, 700)
    counts, sides = (counts[counts > 0] if step == 1 else counts), []
    bases = (stats.PoissonEstimator(), stats.NegativeBinomialEstimator())
    for planted in range(0, 9 * step, step):
        rows = np.append(counts, np.zeros(planted, int)).tolist()
        plain, own = (
            min(bic(optimize(rows, law, max_its=500, delta=1e-9, out=None, seed=seed), rows) for law in laws)
            for laws in (bases, map(stats.ZeroInflatedEstimator, bases))
        )
        found = choose("x", rows)
        assert (found.family == "ZeroInflated") == (plain - own > 10.0)
        if found.family == "ZeroInflated":
            told = float(found.reason.split("the BIC is ")[1].split()[0])
            assert told == pytest.approx(plain - own, rel=1e-3)
        sides.append(found.family == "ZeroInflated")
    assert (sides[0], sides[-1]) == (False, True)


def test_a_column_with_zeros_of_their_own_is_fitted():
    counts = [*np.random.RandomState(8).poisson(8.0, 300).tolist(), *[0] * 100, None]
    fitted = mixle.fit({"calls": counts}, components=1)
    assert fitted.schema["calls"].family == "ZeroInflated"
    law = fitted.model.components[0].dists[0].dist
    assert law.pi == pytest.approx(0.25, abs=1e-3)
    assert law.base.lam == pytest.approx(8.0, abs=0.5)


def arrow_frame(values):
    """Return a data frame whose column is of a type of Arrow's."""
    return pd.DataFrame({"a": pd.Series(pd.arrays.ArrowExtensionArray(pa.array(values)))})


BAD = [
    ({"a": [[1], [2]]}, "column 'a' holds a list (row 0: [1])"),
    ({"a": [1.0, {2}]}, "column 'a' holds a set (row 1: {2}), not one value per row; leave it out, or turn it"),
    (
        pd.DataFrame({"a": pd.cut([1.0, 2.0, 3.0], 2)}),
        "which is no number, text, truth value or date; leave it out, or turn it into one of them, for example df['a']",
    ),
    (pd.DataFrame({"a": pd.cut([1.0, 2.0, 3.0], 2)}), "column 'a' holds an Interval (row 0: Interval(0.998, 2.0"),
    ({"a": [uuid.UUID(int=1)] * 2}, "column 'a' holds a UUID (row 0: UUID('00000000-0000-0000-0000-000000000001')), "),
    (
        pd.DataFrame({"a": pd.period_range("2024", periods=3)}),
        "column 'a' holds a Period (row 0: Period('2024-01-01', ",
    ),
    (arrow_frame([[1], [2]]), "column 'a' holds a list (row 0: [1]), not one value per row"),
    (arrow_frame([{"b": 1}, {"b": 2}]), "column 'a' holds a dict (row 0: {'b': 1}), not one value per row"),
    (pa.table([[1.0, 2.0], [3.0, 4.0]], names=["a", "a"]), "two columns are named 'a'; give every column"),
    (pa.record_batch([[1.0, 2.0], [3.0, 4.0]], names=["a", "a"]), "two columns are named 'a'; give every column"),
    ({"a": ["x", 3, "y"]}, "column 'a' mixes text (row 0: 'x') and number (row 1: 3)"),
    ({"a": [1.0, float("inf")]}, "column 'a' holds an infinity (row 1)"),
    ({"a": [1], "b": [2]}, "the table has 1 row"),
    ({"a": [1, 2], "b": [2]}, "columns differ in length ('a': 2, 'b': 1)"),
    ({"a": 3}, "column 'a' is a single value"),
    (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), "two columns are named 'a'"),
    (pd.DataFrame({"a": pd.date_range("2024", periods=3, tz="UTC")}), "column 'a' has dates of the time zone UTC"),
    ({"a": [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)] * 2}, "column 'a' has dates of the time zone UTC"),
    (pl.DataFrame({"a": [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)] * 2}), "column 'a' has dates of the time zone UTC"),
    ({"a": [dt.date(2024, 1, 1), "x"]}, "column 'a' mixes dates with other values (row 1: 'x')"),
    ([{"a": 1}, {"b": 2}], "row 1 has other fields than row 0"),
    ([(1, 2), 3], "row 1 (3) is no mapping or tuple like row 0"),
    (object(), "a object is no table; pass a data frame"),
    (pd.Series([1.0, 2.0]), "a Series is no table; pass data.to_frame(), a data frame"),
    (pl.LazyFrame({"a": [1.0, 2.0]}), "a LazyFrame is no table; pass data.collect(), a data frame"),
    (iter([{"a": 1.0}]), "a list_iterator is no table; pass list(data), a data frame"),
    ({"a": [1, 10**5000]}, "column 'a' holds a number that float64 cannot (row 1: 16610 bits)"),
    ("nowhere.csv", "'nowhere.csv' is no file here"),
]


@pytest.mark.parametrize(("data", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_tables_are_named(data, message):
    with pytest.raises(SchemaError) as caught:
        mixle.schema(data)
    assert message in str(caught.value)


@pytest.mark.parametrize("data", [{}, {"a": []}, [], pd.DataFrame({"a": []})], ids=repr)
def test_empty_tables(data):
    with pytest.raises(EmptyDataError):
        mixle.schema(data)


def test_a_column_without_values_is_left_out_and_said():
    schema = mixle.schema({"a": [None, None], "b": [1.0, 2.5]})
    assert str(schema).splitlines()[1] == "a       Ignored   no value in any of 2 rows"
    assert list(schema.estimator().fields) == ["b"]
    with pytest.raises(SchemaError, match=r"no column is left to fit \('a': no value in any of 2 rows\)"):
        mixle.schema({"a": [None, None]}).estimator()


def test_a_million_categories_are_left_out():
    values = np.arange(1_000_000).astype(str)
    assert mixle.schema({"id": values, "x": np.arange(1e6) % 7 * 0.3})["id"].family == "Ignored"


def test_schema_is_edited_by_name_or_estimator():
    schema = mixle.schema(frame())
    told = schema.replace({"grams": "StudentT"}, price=GammaEstimator(), drink="Ignored")
    assert [field.family for field in told] == ["Ignored", "StudentT", "Poisson", "Bernoulli", "Gamma", "Gaussian"]
    assert schema["drink"].family == "Categorical"
    assert [repr(told[name].full_estimator)[:8] for name in ("grams", "price")] == ["StudentT", "Optional"]
    with pytest.raises(SchemaError, match=r"no columns \['sugar'\]"):
        schema.replace(sugar="Gaussian")
    with pytest.raises(SchemaError, match=r"'Gausian' is no family; did you mean 'Gaussian'\? There are Bernoulli, "):
        schema.replace(grams="Gausian")
    with pytest.raises(SchemaError, match=r"PointMass needs arguments: pass mixle.stats.PointMassEstimator\("):
        schema.replace(grams="PointMass")
    with pytest.raises(SchemaError, match="3 is no family"):
        schema.replace(grams=3)
    with pytest.raises(KeyError, match="'sugar'"):
        schema["sugar"]


def test_schema_makes_estimators():
    schema = mixle.schema(frame(), ["grams", "hot"])
    assert isinstance(schema.estimator(), RecordEstimator)
    mixture = schema.estimator(components=4)
    assert isinstance(mixture, MixtureEstimator)
    assert mixture.num_components == 4
    for bad in (0, True, 2.0):
        with pytest.raises(SchemaError, match="components must be a whole number"):
            schema.estimator(bad)
    with pytest.raises(SchemaError, match=r"the table has no columns \['sugar'\]"):
        mixle.schema(frame(), ["sugar"])
    assert "<td>grams</td><td>Gaussian</td>" in schema._repr_html_()


def test_dates_are_days_since_1970():
    table = {"a": np.array(["1970-01-02", "NaT"], "M8[D]"), "b": [dt.date(1970, 1, 3), None]}
    found = table_columns({**table, "c": [dt.timedelta(hours=12), None]})
    assert [(values[0], np.isnan(values[1]), how) for values, how in found.values()] == [
        (1.0, True, "days"), (2.0, True, "days"), (0.5, True, "durations"),
    ]  # fmt: skip


def test_csv_cells(tmp_path):
    place = tmp_path / "t.csv"
    place.write_text('zip;n;x;yes;day;word\n01234;1;2.5;true;2024-01-01;"a;b"\n00012;NA;;False;2024-02-01;\n')
    assert read_file(place) == {
        "zip": ["01234", "00012"], "n": [1, None], "x": [2.5, pytest.approx(float("nan"), nan_ok=True)],
        "yes": [True, False], "day": [DAY, DAY + dt.timedelta(31)], "word": ["a;b", None],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1\n", "row 0 has 1 cells, the header 2"),
        (b"a,a\n1,2\n", "two columns are named 'a'"),
        (b"a,b\n", "has no rows"),
        (b"\xff\xfe\x00a", "is no CSV file in UTF-8"),
    ],
)
def test_files_that_are_no_tables(tmp_path, content, message):
    place = tmp_path / "t.csv"
    place.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_file(place)
    place = tmp_path / "t.parquet"
    place.write_bytes(content)
    with pytest.raises(SchemaError, match="is no Parquet file"):
        read_file(place)


def test_rules_are_printed():
    assert all(family in RULES for family in {family for _, family, _ in RULED} - {"Ignored"})


@pytest.fixture(scope="module")
def fitted():
    return mixle.fit(frame(), components=range(1, 4), trials=1)


def test_fit_chooses_by_bic(fitted):
    assert [candidate.components for candidate in fitted.tried] == [1, 2, 3]
    assert fitted.chosen.components == len(fitted.model.components) == 3
    assert fitted.bic == min(candidate.bic for candidate in fitted.tried)
    assert fitted.chosen.parameters == free_parameters(fitted.model)
    assert fitted.aic < fitted.bic
    assert "BIC by number of clusters: 1: " in fitted.report()
    assert fitted.report().startswith("3 clusters of 200 rows and 6 columns, settled after ")


def test_clusters_are_the_groups(fitted):
    groups = {tuple(set(fitted.clusters[np.array(COLUMNS["drink"]) == label].tolist())) for label in LABELS}
    assert sorted(groups) == [(0,), (1,), (2,)]
    assert np.allclose(fitted.predict_proba(frame()).sum(axis=1), 1.0)
    assert fitted.score(frame()) * N == pytest.approx(fitted.chosen.log_likelihood, rel=1e-12)
    assert fitted.score_rows(frame()).shape == (N,)


def test_the_pool_fits_to_the_same_bits(fitted):
    pool = mixle.fit(frame(), components=3, trials=1, backend="mp", num_workers=2)
    assert pool.model.digest() == fitted.model.digest()
    assert "on mp" in pool.report()


def test_saved_and_loaded(fitted, tmp_path):
    place = tmp_path / "fit.json"
    fitted.save(place)
    again = mixle.load(place)
    assert again.model.digest() == fitted.model.digest()
    assert str(again.schema) == str(fitted.schema)
    assert again.tried == fitted.tried
    assert (again.predict(frame()) == fitted.clusters).all()
    with pytest.raises(SchemaError, match="does not hold its rows"):
        again.clusters  # noqa: B018
    assert [path.name for path in tmp_path.iterdir()] == ["fit.json"]


@pytest.mark.parametrize("name", [pd.Timestamp("2024-01-02"), dt.date(2024, 1, 2), ("a", 2), 7], ids=repr)
def test_names_of_every_kind_come_back(name, tmp_path):
    data = pd.DataFrame({name: [1.0, 2.5, 9.0, 9.5] * 5})
    fitted = mixle.fit(data, components=2, trials=1)
    fitted.save(tmp_path / "fit.json")
    again = mixle.load(tmp_path / "fit.json")
    assert (again.predict(data) == fitted.predict(data)).all()


def test_a_place_that_cannot_be_written_is_named(fitted, tmp_path):
    for place, kind in ((tmp_path / "no" / "fit.json", FileNotFoundError), (tmp_path, IsADirectoryError)):
        with pytest.raises(kind) as caught:
            fitted.save(place)
        assert caught.value.filename == str(place)
    assert not list(tmp_path.iterdir())


def test_a_device_is_written_to_and_not_replaced(fitted, tmp_path):
    pipe, heard = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    fitted.save(pipe)
    reader.join()
    assert json.loads(heard[0])["mixle"] == "fit"
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "no json", "it is no JSON"),
        (lambda text: "[1]", "is not a fit saved by mixle"),
        (lambda text: json.dumps({**json.loads(text), "format": 99}), "was written in format 99"),
        (lambda text: json.dumps({**json.loads(text), "model": {"type": "os"}}), "is a damaged fit"),
        (lambda text: json.dumps({"mixle": "fit", "format": 1}), "is a damaged fit: KeyError"),
    ],
)
def test_files_that_are_no_fits(fitted, tmp_path, change, message):
    place = tmp_path / "fit.json"
    fitted.save(place)
    place.write_text(change(place.read_text()))
    with pytest.raises(SerializationError, match=message):
        mixle.load(place)


def test_a_list_of_values_is_told_from_a_list_of_rows():
    with pytest.raises(SchemaError, match=r"row 0 .* is no mapping or tuple but a single value; pass a column"):
        mixle.fit([1.0, 2.0, 3.0], components=1)


def test_counts_that_spread_as_a_poisson_are_not_called_widely_spread():
    assert law_text(NegativeBinomialDistribution(1e8, 1e8 / (1e8 + 50.0))) == "50 on average"
    assert "widely spread" in law_text(NegativeBinomialDistribution(2.0, 0.1))


def test_a_gap_that_a_cluster_never_had_does_not_exclude_it():
    rng = np.random.default_rng(3)
    light, heavy = rng.normal(2.0, 0.2, 100), rng.normal(9.0, 0.5, 100)
    table = {"grams": np.append(light, heavy), "minutes": np.append(rng.normal(5, 1, 100), rng.normal(30, 1, 100))}
    table["minutes"][0] = np.nan  # only ever among the light ones
    fitted = mixle.fit(table, components=2, seed=1)
    row = {"grams": [9.0], "minutes": [None]}
    assert fitted.predict(row) == fitted.clusters[-1]
    assert fitted.impute(row)["minutes"][0] == pytest.approx(30, abs=1)
    told = fitted.explain(row)
    assert "missing" in str(told)
    assert np.isfinite(list(told.fields.values())).all()


def test_a_row_is_explained(fitted):
    found = fitted.explain(frame(), 4)
    assert found.cluster == fitted.clusters[4]
    by_hand = found.weight + sum(found.fields.values())
    chance = fitted.predict_proba(frame().iloc[[4]])[0]
    assert by_hand == pytest.approx(np.log(chance[found.cluster] / chance[found.runner_up]), rel=1e-6)
    assert max(found.fields, key=lambda name: abs(found.fields[name])) in {"drink", "grams"}
    assert "before cluster" in str(found)
    assert fitted.explain({name: values[4] for name, values in COLUMNS.items()}).fields == found.fields
    with pytest.raises(SchemaError, match="row 200 is not in a table of 200 rows"):
        fitted.explain(frame(), 200)
    with pytest.raises(SchemaError, match="no runner-up"):
        mixle.fit(frame(), components=1, trials=1).explain(frame())


def test_rows_that_no_family_supports_are_told():
    schema = mixle.schema(frame(), ["grams", "hot"]).replace(grams="Gamma")
    below = sum(value <= 0.0 for value in COLUMNS["grams"])
    with pytest.warns(UserWarning, match=f"{below} rows are supported by no component"):
        found = mixle.fit(frame(), 2, schema)
    assert f"note: {below} rows are supported by no component" in found.report()
    assert found.predict({"grams": -1.0, "hot": True}).shape == (1,)


def test_a_label_never_seen_says_nothing(fitted):
    known = frame().iloc[:6]
    strange = known.assign(drink="mate")
    assert (fitted.predict(strange) == fitted.predict(known)).all()
    assert (fitted.score_rows(strange) == -np.inf).all()


def test_errors_name_row_and_column(fitted):
    with pytest.raises(RowError, match="Row 1, field 'grams'"):
        fitted.predict({**COLUMNS, "grams": [1.0, None] + COLUMNS["grams"][2:]})
    with pytest.raises(SchemaError, match=r"the table has no columns \['cups'\]"):
        fitted.predict(frame().drop(columns="cups"))
    with pytest.raises(SchemaError, match="column 'when' held dates"):
        fitted.predict({**COLUMNS, "when": list(range(N))})
    for bad in (0, "3", [], 2.5, True):
        with pytest.raises(SchemaError, match="components is a number of clusters"):
            mixle.fit(frame(), components=bad)
    with pytest.raises(EmptyDataError, match="200 rows cannot make 201 clusters"):
        mixle.fit(frame(), components=201)


def test_words(fitted):
    text = fitted.summary()
    assert "tea 100 %" in text
    assert "2024-0" in text
    assert "% missing" in text
    assert '<th scope="row">Cluster' in fitted._repr_html_()
    assert set(fitted.sample(3, seed=1)) == set(COLUMNS)
    assert fitted.sample(3, seed=1) == fitted.sample(3, seed=1)


@pytest.mark.parametrize("rows", [1, 7, 5000])
@pytest.mark.parametrize("labels", [1, 3, 40, 4000])
def test_coded_labels_read_as_the_labels_themselves(rows, labels):
    """Also where some labels are in no row, and where one first appears late."""
    codes = np.minimum(RNG.randint(0, labels, rows), RNG.randint(0, labels, rows))
    names = [f"label {i}" for i in RNG.permutation(labels)]
    coded = LabelColumn(codes, names)
    for part in (coded, coded[::3], coded[np.arange(rows) % 2 == 0]):
        found, seen = read_labels(part, "Categorical")
        expected, known = read_labels(list(part), "Categorical")
        assert seen == known
        assert found.dtype == expected.dtype
        assert found.tolist() == expected.tolist()
    assert coded.counts() == {name: n for name, n in zip(names, np.bincount(codes, minlength=labels), strict=True) if n}


def test_coded_labels_that_are_missing():
    coded = LabelColumn(np.array([0, -1, 1]), ["a", "b"])
    assert list(coded) == [coded[i] for i in range(3)] == ["a", None, "b"]
    with pytest.raises(RowError, match=r"Row 1 \(Categorical\): None is missing"):
        read_labels(coded, "Categorical")


COUNTED = [
    (stats.GaussianDistribution(0.0, 1.0), 2),
    (stats.BinomialDistribution(0.5, 4), 1),
    (stats.CategoricalDistribution({"a": 0.5, "b": 0.25, "c": 0.25}), 2),
    (stats.IntegerCategoricalDistribution(3, [0.5, 0.5]), 1),
    (stats.MultivariateGaussianDistribution(np.zeros(3), np.eye(3)), 9),
    (stats.DiagonalGaussianDistribution(np.zeros(3), np.ones(3)), 6),
    (stats.StudentTDistribution(4.0), 3),
    (stats.PointMassDistribution("a"), 0),
    (stats.NullDistribution(), 0),
    (stats.OptionalDistribution(stats.PoissonDistribution(2.0), 0.5), 2),
    (stats.OptionalDistribution(stats.PoissonDistribution(2.0)), 1),
    (stats.SequenceDistribution(stats.PoissonDistribution(2.0), stats.PoissonDistribution(3.0)), 2),
    (
        stats.HiddenMarkovModelDistribution([stats.PoissonDistribution(2.0)] * 3, [1 / 3] * 3, np.full((3, 3), 1 / 3)),
        11,
    ),
]


@pytest.mark.parametrize(("model", "count"), COUNTED, ids=lambda value: type(value).__name__)
def test_free_parameters(model, count):
    assert free_parameters(model) == count


def test_laws_of_unknown_parts_are_not_counted_wrongly():
    class Strange:
        _fields = ("parts",)
        parts = (stats.NullDistribution(),)

    law = Strange()
    with pytest.raises(TypeError, match="give it a method free_parameters"):
        free_parameters(law)
