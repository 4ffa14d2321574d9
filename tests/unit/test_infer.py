"""An estimator inferred from rows: by the rules of columns, part by part, printed and kept."""

import datetime as dt
import io
import logging

import numpy as np
import pandas as pd
import pytest

import mixle
from mixle.errors import EmptyDataError, SchemaError
from mixle.inference import ROW_RULES, infer, optimize
from mixle.utils.parallel.planner import encoded_data

pytestmark = pytest.mark.filterwarnings("ignore:EM stopped after:UserWarning")

RNG = np.random.RandomState(3)
NORMAL = RNG.normal(2.0, 1.0, 60).tolist()
WORDS = ["a", "b", "c"] * 20


def shape(estimator):
    """Return the families of an estimator, nested."""
    name = type(estimator).__name__.removesuffix("Estimator")
    if name == "Record":
        return {key: shape(part) for key, part in zip(estimator.fields, estimator.estimators, strict=True)}
    if name == "Composite":
        return tuple(shape(part) for part in estimator.estimators)
    if name == "Sequence":
        return [shape(estimator.estimator), shape(estimator.len_estimator)]
    return f"Optional {shape(estimator.estimator)}" if name == "Optional" else name


FORMS = [
    (NORMAL, "Gaussian"),
    (np.array(NORMAL), "Gaussian"),
    (pd.Series(NORMAL), "Gaussian"),
    (iter(NORMAL), "Gaussian"),
    (np.array(NORMAL, np.float32), "Gaussian"),
    ([*NORMAL, None, float("nan")], "Optional Gaussian"),
    (WORDS, "Categorical"),
    ([True, False] * 9, "Bernoulli"),
    (RNG.poisson(10.0, 60).tolist(), "Poisson"),
    ((10.0 ** RNG.normal(0, 1, 60)).tolist(), "LogGaussian"),
    (list(zip(NORMAL, WORDS, strict=True)), ("Gaussian", "Categorical")),
    (np.column_stack([NORMAL, RNG.poisson(10.0, 60)]), ("Gaussian", "Poisson")),
    ([np.array([x, -x]) for x in NORMAL], ("Gaussian", "Gaussian")),
    ([{"x": x, "w": w} for x, w in zip(NORMAL, WORDS, strict=True)], {"x": "Gaussian", "w": "Categorical"}),
    (pd.DataFrame({"x": NORMAL, "w": WORDS}), {"x": "Gaussian", "w": "Categorical"}),
    ({"x": np.array(NORMAL)}, {"x": "Gaussian"}),
    ([WORDS[:i] for i in (1, 2, 3) * 20], ["Categorical", "IntegerCategorical"]),
    ([tuple(WORDS[:i]) for i in (1, 2, 3) * 20], ["Categorical", "IntegerCategorical"]),
    ([WORDS[:2]] * 20, ["Categorical", "Null"]),
    ([(x, [w, w]) for x, w in zip(NORMAL, WORDS, strict=True)], ("Gaussian", ["Categorical", "Null"])),
    ([(x, 7) for x in NORMAL], ("Gaussian", "Null")),
]


@pytest.mark.parametrize(("rows", "families"), FORMS, ids=[str(f) + str(i) for i, (_, f) in enumerate(FORMS)])
def test_rows_of_every_form(rows, families):
    if hasattr(rows, "__next__"):
        rows = list(rows)
        model = optimize(iter(rows), max_its=2)
    else:
        model = optimize(rows, max_its=2)
    inferred = infer(rows)
    assert shape(inferred.estimator) == families
    assert model.fit_provenance().inferred == str(inferred)
    assert np.isfinite(model.fit_provenance().final_objective)
    assert model.digest() == optimize(rows, inferred.estimator, max_its=2).digest()


def test_missing_rows_of_several_parts():
    rows = [*zip(NORMAL, WORDS, strict=True), None]
    inferred = infer(rows)
    assert type(inferred.estimator).__name__ == "OptionalEstimator"
    assert "Optional Composite" in str(inferred)
    assert optimize(rows).p == pytest.approx(1.5 / 62)  # half a row each way


def test_a_schema_and_rows_follow_one_set_of_rules():
    table = {"x": NORMAL, "w": WORDS, "n": RNG.poisson(10.0, 60).tolist()}
    schema, inferred = mixle.schema(table), infer(table)
    assert [f"{field.name}  {field.reason}" for field in schema] == [f"{a}  {c}" for a, _, c in inferred.cells[1:]]
    assert shape(schema.estimator()) == shape(inferred.estimator)


def test_what_was_chosen_is_written_logged_and_kept(caplog):
    out = io.StringIO()
    with caplog.at_level(logging.INFO, "mixle"):
        model = optimize(WORDS, max_its=1, out=out)
    text = model.fit_provenance().inferred
    assert "Categorical  text with 3 different values" in text
    assert out.getvalue().startswith(f"{text}\nIteration 1:")
    assert text in caplog.text
    given = optimize(NORMAL, infer(NORMAL).estimator, max_its=1)
    assert given.fit_provenance().inferred == ""


def test_fields_and_backends():
    frame = pd.DataFrame({"x": NORMAL, "id": range(60), "w": WORDS})
    model = optimize(frame, fields=["w", "x"], backend="mp", num_workers=2, num_shards=3)
    assert list(model.fields) == ["w", "x"]
    assert model.digest() == optimize(frame, fields=["w", "x"], num_shards=3).digest()
    assert infer(frame).cells[2] == ("id", "Ignored", "the number of the row")


REFUSED = [
    ([3.0] * 5, "nothing is left to fit .row: the same value in every row: 3."),
    ([(3.0, "a")] * 5, "nothing is left to fit .0: the same value"),
    ([None, None], "no value in any of 2 rows"),
    ([1.0, "a"], "column 'row' mixes number .row 0: 1.0. and text .row 1: 'a'."),
    ([1.0, (1.0, 2.0)], "the data mixes values and tuples; give every row one form"),
    ([(1.0, [1.0]), (2.0, 3.0)], "part '1' of the rows mixes lists and values"),
    ([{"a": 1.0}, {"b": 2.0}], "row 1 has the fields .'b'., row 0 .'a'."),
    ([1.0, float("inf"), 2.0], "column 'row' holds an infinity .row 1."),
    ([dt.date(2020, 1, 1), dt.date(2020, 1, 2)], "column 'row' holds dates .row 0: 2020-01-01.; mixle.schema"),
    (pd.DataFrame({"a": pd.to_datetime(["2020-01-01", "2020-01-02"])}), "column 'a' holds dates"),
    ([1 + 2j, 2.0], "column 'row' holds a complex .row 0"),
]


@pytest.mark.parametrize(("rows", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_rows_without_a_rule_are_refused_with_what_to_do(rows, message):
    with pytest.raises(SchemaError, match=message):
        optimize(rows)


def test_where_nothing_is_inferred():
    with pytest.raises(EmptyDataError, match="received no observations"):
        infer([])
    with encoded_data(NORMAL, infer(NORMAL).estimator) as handle, pytest.raises(ValueError, match="an estimator is"):
        optimize(handle)
    previous = optimize(NORMAL)
    assert optimize(NORMAL, prev_estimate=previous).fit_provenance().inferred == ""


def test_rules_are_printed():
    for word in ("Composite", "Record", "Sequence", "Optional", "Null"):
        assert word in ROW_RULES
