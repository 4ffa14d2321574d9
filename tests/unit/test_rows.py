"""Every form of data becomes rows by position, or is refused with the line to type."""

import math
from collections import OrderedDict, deque

import numpy as np
import pandas as pd
import pytest

from mixle.errors import EmptyDataError
from mixle.inference.rows import as_rows, is_cluster_collection, row_width


def frame(**options):
    columns = {"carrier": ["AA", "UA", "AA"], "distance": np.array([1, 2, 3]), "delay": [0.5, np.nan, -1.0]}
    return pd.DataFrame(columns, **options)


ROWS = [("AA", 1, 0.5), ("UA", 2, None), ("AA", 3, -1.0)]


def same(rows, expected):
    plain = [tuple(None if isinstance(v, float) and math.isnan(v) else v for v in row) for row in rows]
    return plain == expected


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        ([1, 2], [1, 2]),
        ((1, 2), (1, 2)),
        (range(3), range(3)),
        (iter([1, 2]), [1, 2]),
        ((x for x in "ab"), ["a", "b"]),
        ({"a": 1, "b": 2}.items().__iter__(), [("a", 1), ("b", 2)]),
        (map(str, [1, 2]), ["1", "2"]),
        (np.array(["a", "b"]), ["a", "b"]),
        (np.array([["a", "b"], ["c", "d"]]), [("a", "b"), ("c", "d")]),
        (np.array([1, "x"], dtype=object), [1, "x"]),
        (np.array([[1, "x"]], dtype=object), [(1, "x")]),
        ({"a": [1, 2], "b": ("x", "y")}, [(1, "x"), (2, "y")]),
        (OrderedDict(b=[1], a=["z"]), [(1, "z")]),
        ({"a": iter([1, 2]), "b": np.array(["x", "y"])}, [(1, "x"), (2, "y")]),
        (np.array([(1, "x"), (2, "y")], dtype=[("n", int), ("s", "U1")]), [(1, "x"), (2, "y")]),
        (pd.Series(["x", "y"], index=[9, 4]), ["x", "y"]),
        (pd.Series(["x", "y"], dtype="category"), ["x", "y"]),
        (pd.Index(["p", "q"]), ["p", "q"]),
        (pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}, index=[7, 7]), [(1, "x"), (2, "y")]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_accepted_forms(data, rows):
    result = as_rows(data)
    assert type(result) is type(rows)
    assert result == rows


def test_a_sequence_of_another_type_is_used_as_it_is():
    data = deque([1.0, 2.0])
    assert as_rows(data) is data


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (None, EmptyDataError, "received no observations"),
        ([], EmptyDataError, "received no observations"),
        (iter([]), EmptyDataError, "received no observations"),
        (np.empty(0), EmptyDataError, "received no observations"),
        (np.empty((0, 3)), EmptyDataError, "received no observations"),
        ({}, EmptyDataError, "received no observations"),
        ({"a": []}, EmptyDataError, "received no observations"),
        (pd.DataFrame(), EmptyDataError, "received no observations"),
        (pd.DataFrame({"a": []}), EmptyDataError, "received no observations"),
        (pd.Series([], dtype=float), EmptyDataError, "received no observations"),
        ("text", ValueError, r"list\(data\)"),
        (b"text", ValueError, r"list\(data\)"),
        (bytearray(b"x"), ValueError, r"list\(data\)"),
        (3.0, ValueError, r"\[value\]"),
        (np.float64(3.0), ValueError, r"\[value\]"),
        (np.array(3.0), ValueError, r"\[value\]"),
        (object(), ValueError, "pass a list of rows"),
        (np.ones((1, 1)).view(np.matrix), ValueError, "numpy.asarray"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), ValueError, "Optional"),
        ({3, 1}, ValueError, "sorted"),
        (frozenset("ab"), ValueError, "sorted"),
        ({"a": [1, 2], "b": [1]}, ValueError, "differ in length .*'a': 2, 'b': 1"),
        ({"a": "xy"}, ValueError, "column 'a'"),
        ({"a": 3}, ValueError, "column 'a' is a single value"),
        ({"a": None}, ValueError, "column 'a' is one value .None."),
        ({"a": {1, 2}}, ValueError, "column 'a' is a set"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, (str, type)) else str(value)[:20],
)
def test_refused_forms(data, error, message):
    with pytest.raises(error, match=message):
        as_rows(data)


def test_every_refusal_is_a_value_error():
    assert issubclass(EmptyDataError, ValueError)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ">f8", np.longdouble])
def test_floats_of_any_width_become_their_float64_copy(dtype):
    data = np.array([[0.1, 2.0], [3.0, 4.5]], dtype=dtype)
    rows = as_rows(data)
    assert rows.dtype == np.float64
    assert rows.tobytes() == data.astype(np.float64).tobytes()


def test_a_float64_array_or_memory_map_stays_as_it_is(tmp_path):
    data = np.arange(6.0).reshape(3, 2)
    assert as_rows(data) is data
    mapped = np.memmap(tmp_path / "rows.bin", np.float64, "w+", shape=(3, 2))
    assert as_rows(mapped) is mapped


def test_T46_integer_frames_object_arrays_and_series_give_integers():
    data = pd.DataFrame({"a": np.array([1, 2], dtype="int64"), "b": np.array([3, 4], dtype="int32")})
    assert as_rows(data) == [(1, 3), (2, 4)]
    assert as_rows(data["a"]).tolist() == [1, 2]
    assert as_rows(data.astype(object)) == [(1, 3), (2, 4)]
    assert as_rows(data["a"].astype(object)) == [1, 2]
    assert as_rows(data["a"].astype("Int64")) == [1, 2]


def test_T44_frames_are_read_by_position_whatever_their_index():
    plain = frame()
    for index in ([5, 3, 9], [0, 0, 0], ["a", "b", "c"], pd.MultiIndex.from_tuples([(1, 2), (0, 1), (1, 2)])):
        shuffled = frame(index=index)
        assert same(as_rows(shuffled), ROWS)
        assert as_rows(shuffled["distance"]).tolist() == [1, 2, 3]
    assert same(as_rows(plain.iloc[[2, 0, 1]]), [ROWS[2], ROWS[0], ROWS[1]])


def test_frames_of_floats_are_one_array():
    rows = as_rows(pd.DataFrame({"a": [1.0, 2.0], "b": np.array([3.0, 4.0], dtype=np.float32)}))
    assert rows.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert rows.dtype == np.float64


def test_columns_that_share_a_name_are_told_apart_by_position():
    data = pd.DataFrame([[1, "x"], [2, "y"]], columns=["a", "a"])
    assert as_rows(data) == [(1, "x"), (2, "y")]
    assert as_rows(data, ["a"], scalars=True).tolist() == [1, 2]
    with pytest.raises(ValueError, match="share a name"):
        as_rows(data, mappings=True)


def test_missing_marks_of_a_table_become_nan():
    column = pd.Series([1, None, 3], dtype="Int64")
    assert same([(value,) for value in as_rows(column)], [(1,), (None,), (3,)])
    assert all(not isinstance(value, type(pd.NA)) for value in as_rows(column))


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"fields": ["distance", "carrier"]}, [(1, "AA"), (2, "UA"), (3, "AA")]),
        ({"fields": ["carrier"]}, [("AA",), ("UA",), ("AA",)]),
        ({"fields": ["carrier"], "scalars": True}, ["AA", "UA", "AA"]),
        ({"fields": "carrier", "scalars": True}, ["AA", "UA", "AA"]),
        (
            {"fields": ["carrier", "distance"], "mappings": True},
            [{"carrier": "AA", "distance": 1}, {"carrier": "UA", "distance": 2}, {"carrier": "AA", "distance": 3}],
        ),
    ],
)
def test_fields_choose_and_order_columns(options, rows):
    found = as_rows(frame(), **options)
    assert (list(found) if options.get("mappings") else found) == rows


def test_fields_choose_from_rows_that_are_mappings():
    data = [{"a": 1, "b": 2, "c": 3}, {"c": 6, "a": 4, "b": 5}]
    assert as_rows(data, ["c", "a"]) == [(3, 1), (6, 4)]
    assert as_rows(data, ["a"], mappings=True) == [{"a": 1}, {"a": 4}]
    with pytest.raises(ValueError, match=r"row 1 has no fields \['d'\]"):
        as_rows([{"d": 1}, {"a": 1}], ["d"])


@pytest.mark.parametrize("data", [[1, 2], np.zeros((2, 2))])
def test_fields_are_refused_where_nothing_has_a_name(data):
    with pytest.raises(ValueError, match="no names"):
        as_rows(data, ["a"])


def test_an_absent_field_is_named_with_what_there_is():
    with pytest.raises(ValueError, match=r"fields \['x'\] are not columns of the table; it has \['carrier'"):
        as_rows(frame(), ["x"])


class ArrowLike:
    """A table that only offers columns as a dictionary."""

    def to_pydict(self):
        return {"a": [1, 2], "b": ["x", "y"]}


class PolarsLike:
    """A frame whose iteration would yield columns."""

    columns = ("a", "b")

    def __getitem__(self, name):
        return {"a": [1, 2], "b": ["x", "y"]}[name]

    def iter_rows(self):
        raise AssertionError("columns are read, not rows")


class TensorLike:
    """Something numpy can read."""

    def __array__(self, dtype=None, copy=None):
        return np.array([1.5, 2.5], dtype=np.float32)


class RDDLike:
    def mapPartitions(self, function):
        raise AssertionError("must not be touched")


def test_tables_and_arrays_of_other_packages_are_told_by_their_methods():
    assert as_rows(ArrowLike()) == [(1, "x"), (2, "y")]
    assert as_rows(PolarsLike()) == [(1, "x"), (2, "y")]
    assert as_rows(TensorLike()).tolist() == [1.5, 2.5]


def test_collections_of_a_cluster_are_left_alone():
    assert is_cluster_collection(RDDLike())
    assert not is_cluster_collection(RDDLike)
    with pytest.raises(ValueError, match="backend="):
        as_rows(RDDLike())


def test_width_is_told_of_two_dimensional_arrays_only():
    assert row_width(np.zeros((1, 55))) == 55
    assert row_width(np.zeros(55)) is None
    assert row_width([[1, 2]]) is None
