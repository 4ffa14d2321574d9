"""Tables that users bring and no rule can read: at every door the column is named, or left out and said."""

import json

import numpy as np
import pandas as pd
import pytest

import mixle
from mixle.errors import MixleError, SerializationError
from mixle.inference import optimize, select
from mixle.sklearn import HiddenMarkovModel, MixtureModel

pytestmark = pytest.mark.filterwarnings("ignore:EM")

N = 40
X = np.random.RandomState(0).normal(size=N)
DOORS = {
    "schema": mixle.schema,
    "fit": lambda data: mixle.fit(data, components=1),
    "optimize": lambda data: optimize(data, max_its=1),
    "select": lambda data: select(data, components=1),
    "mixture": lambda data: MixtureModel(1).fit(data),
    "chain": lambda data: HiddenMarkovModel(1).fit(data),
}
#: What the table is, the table, and what is said at the doors of tables and at those of rows; None where it is read.
BAD = {
    "a name twice": (lambda: pd.DataFrame(np.column_stack([X, X]), columns=["a", "a"]), "'a'", "'a'"),
    "lists": (lambda: pd.DataFrame({"a": [[1], [1, 2]] * 20, "x": X}), "column 'a' holds a list (row 0: [1])", None),
    "mixed types": (
        lambda: pd.DataFrame({"a": ["t", 3] * 20, "x": X}),
        "column 'a' mixes text (row 0: 't') and number (row 1: 3)",
        "column 'a' mixes text (row 0: 't') and number (row 1: 3)",
    ),
    "dates of a time zone": (
        lambda: pd.DataFrame({"a": pd.date_range("2024", periods=N, tz="UTC"), "x": X}),
        "column 'a' has dates of the time zone UTC; say which clock counts",
        "column 'a' holds dates (row 0: 2024-01-01",
    ),
    "an infinity": (
        lambda: pd.DataFrame({"a": [np.inf, *X[1:]], "x": X}),
        "column 'a' holds an infinity (row 0)",
        "column 'a' holds an infinity (row 0)",
    ),
    "one row": (
        lambda: pd.DataFrame({"a": ["t"], "x": [1.0]}),
        "the table has 1 row; families are told apart by at least two",
        "nothing is left to fit (a: the same value in every row: 't'; x: the same value in every row: 1)",
    ),
    "nothing at all": (
        lambda: pd.DataFrame({"a": [None] * N}),
        "no column is left to fit ('a': no value in any of 40 rows)",
        "nothing is left to fit (a: no value in any of 40 rows)",
    ),
    "a column without values": (lambda: pd.DataFrame({"a": [None] * N, "x": X}), None, None),
    "names for each row": (lambda: pd.DataFrame({"a": [f"id {i}" for i in range(N)], "x": X}), None, None),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("what", BAD)
def test_what_no_rule_reads_is_named_at_every_door(what, door):
    make, at_tables, at_rows = BAD[what]
    message = at_rows if door in {"optimize", "select"} else at_tables
    if message is None or (what == "nothing at all" and door == "schema"):
        DOORS[door](make())
        return
    with pytest.raises(MixleError) as caught:
        DOORS[door](make())
    assert isinstance(caught.value, ValueError)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda text: text.replace('"format": 1', '"format": 2'),
            "reads up to 1: load it with that version",
        ),
        (lambda text: text[: len(text) // 2], "is not a fit saved by mixle: it is no JSON"),
        (lambda _: json.dumps({"model": 3}), "is not a fit saved by mixle; fitted.save"),
        (lambda _: "a,b\n1,2\n", "is not a fit saved by mixle: it is no JSON"),
    ],
    ids=["a newer version", "half a file", "other JSON", "a table"],
)
def test_files_that_are_no_models(tmp_path, change, message):
    place = tmp_path / "fit.json"
    mixle.fit({"x": X}, components=1).save(place)
    place.write_text(change(place.read_text()))
    with pytest.raises(SerializationError, match=message):
        mixle.load(place)
