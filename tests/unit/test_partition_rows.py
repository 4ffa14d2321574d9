"""Partitions of collections as rows, and Parquet files as partitions: what workers of an engine read."""

import datetime as dt
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mixle.stats as st
from bits import bits
from mixle.errors import EmptyDataError, MissingPackage
from mixle.stats.label_column import LabelColumn
from mixle.stats.table import Table
from mixle.utils.parallel.folding.columns import _arrow_values, column_values, is_series, partition_rows
from mixle.utils.parallel.folding.parquet import parquet_parts
from mixle.utils.parallel.folding.shards import encode_shard


def same(found, expected):
    """Say whether two columns are of one kind and hold the same values, NaN at the same places."""
    if isinstance(expected, np.ndarray):
        return isinstance(found, np.ndarray) and found.dtype == expected.dtype and np.array_equal(found, expected)
    told = [(type(x), x) if x == x else math.nan for x in found]
    return isinstance(found, list) and repr(told) == repr([(type(x), x) if x == x else math.nan for x in expected])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pd.Series([1.5, math.inf], dtype="float32"), np.array([1.5, math.inf])),
        (pd.Series([1, 2], dtype="int16"), np.array([1, 2], np.int16)),
        (pd.Series([True, False]), np.array([True, False])),
        (pd.Series([7, 8], dtype="uint8"), np.array([7, 8], np.uint8)),
        (pd.Index([3, 4]), np.array([3, 4])),
        (pd.Series(["a", None, pd.NA], dtype=object), ["a", None, math.nan]),
        (pd.Series([1, pd.NA], dtype="Int64"), [1, math.nan]),
        (pd.Series([pd.NaT, pd.NaT]), [math.nan, math.nan]),
        (pl.Series([1, None]), [1, None]),
        (pl.Series(["x"]), ["x"]),
        (np.array([1.5, 2.5], np.float32), np.array([1.5, 2.5])),
        (np.array([1, 2]), [1, 2]),
        (np.array(["a", "b"]), ["a", "b"]),
        (("a", 1), ["a", 1]),
        ({3: "x"}.keys(), [3]),
    ],
)
def test_a_column_is_numbers_or_python_values(values, expected):
    assert same(column_values(values), expected)


def test_rows_of_a_matrix_are_a_list_of_its_rows():
    rows = column_values(np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert isinstance(rows, list)
    assert [row.tolist() for row in rows] == [[1.0, 2.0], [3.0, 4.0]]


def test_a_series_is_told_by_what_it_can_do():
    assert all(map(is_series, (pl.Series([1]), pd.Series([1]), pd.Index([1]), pd.Series(["a"]), pd.RangeIndex(2))))
    assert not is_series(pd.DataFrame({"a": [1]}))
    assert not is_series(pl.DataFrame({"a": [1]}))
    assert not is_series(pa.array([1]))
    assert not is_series([1])
    assert not is_series(np.array([1]))
    assert not is_series(type("Half", (), {"to_list": list})())
    assert not is_series(type("Half", (), {"to_numpy": list})())


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (np.array([1.0, 2.0], np.float32), np.array([1.0, 2.0])),
        (np.array([[1.0, 2.0]], np.float16), np.array([[1.0, 2.0]])),
        (np.array([3, 4], np.int8), np.array([3, 4], np.int8)),
        (np.array(["a", "b"]), ["a", "b"]),
        (np.array([["a", "b"], ["c", "d"]]), [("a", "b"), ("c", "d")]),
        (np.array([1, "x"], dtype=object), [1, "x"]),
        (pd.Series([1.0, 2.0]), np.array([1.0, 2.0])),
        ([1, "x"], [1, "x"]),
        (range(1, 3), [1, 2]),
        ({"a": 1}.keys(), ["a"]),
    ],
)
def test_a_partition_is_a_sequence_of_rows(part, expected):
    assert same(partition_rows(part, "value"), expected)


def test_a_tuple_of_rows_is_taken_as_it_is():
    part = ((1, "x"), (2, "y"))
    assert partition_rows(part, "tuple") is part


def tables():
    frame = pd.DataFrame({"x": [1.0, 2.0], "n": [3, 4]})
    return [frame, pa.table({"x": [1.0, 2.0], "n": [3, 4]})]


@pytest.mark.parametrize("part", tables(), ids=["pandas", "arrow"])
def test_rows_of_a_table_have_the_form_that_the_encoder_reads(part):
    assert list(partition_rows(part, "tuple")) == [(1.0, 3), (2.0, 4)]
    assert list(partition_rows(part, "mapping")) == [{"x": 1.0, "n": 3}, {"x": 2.0, "n": 4}]
    assert isinstance(partition_rows(part, "tuple"), Table)


@pytest.mark.parametrize("kind", [pd.DataFrame, pa.table])
def test_a_table_of_floats_is_a_matrix_unless_rows_are_mappings(kind):
    part = kind({"x": [1.0, 2.0], "y": [3.0, 4.0]})
    assert same(partition_rows(part, "tuple"), np.array([[1.0, 3.0], [2.0, 4.0]]))
    assert same(partition_rows(part, "value"), np.array([[1.0, 3.0], [2.0, 4.0]]))
    assert list(partition_rows(part, "mapping")) == [{"x": 1.0, "y": 3.0}, {"x": 2.0, "y": 4.0}]


@pytest.mark.parametrize("kind", [pd.DataFrame, pa.table])
def test_the_only_column_of_a_table_is_its_rows_for_a_family_of_values(kind):
    part = kind({"x": [1.0, 2.0]})
    assert same(partition_rows(part, "value"), np.array([1.0, 2.0]))
    assert same(partition_rows(part, "tuple"), np.array([[1.0], [2.0]]))
    assert list(partition_rows(part, "mapping")) == [{"x": 1.0}, {"x": 2.0}]


@pytest.mark.parametrize("kind", [pd.DataFrame, pa.table])
def test_a_table_without_columns_has_no_rows(kind):
    assert len(partition_rows(kind({}), "tuple")) == 0


def test_numbers_as_names_of_columns_are_read_as_text():
    rows = partition_rows(pd.DataFrame([[1, "a"]]), "mapping")
    assert list(rows) == [{"0": 1, "1": "a"}]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1.0, 2.0], pa.float32()), np.array([1.0, 2.0])),
        (pa.array([1, 2], pa.int8()), np.array([1, 2], np.int8)),
        (pa.array([1, 2], pa.uint16()), np.array([1, 2], np.uint16)),
        (pa.array([True, False]), np.array([True, False])),
        (pa.array([1.0, None]), [1.0, None]),
        (pa.array([1, None]), [1, None]),
        (pa.array([None, None], pa.string()), [None, None]),
        (pa.array([1, 2]).dictionary_encode(), [1, 2]),
        (pa.array([dt.date(2024, 2, 29)]), [dt.date(2024, 2, 29)]),
        (pa.array([[1, 2], [3]]), [[1, 2], [3]]),
    ],
)
def test_an_arrow_column_is_numbers_or_python_values(column, expected):
    assert same(partition_rows(pa.table({"x": column}), "value"), expected)
    assert same(partition_rows(pa.table({"x": pa.chunked_array([column, column])}), "value")[: len(column)], expected)


TEXT = ["b", None, "a", "b"]


@pytest.mark.parametrize(
    "column",
    [
        pa.chunked_array([pa.array(TEXT)]),
        pa.chunked_array([pa.array(TEXT[:1]), pa.array(TEXT[1:]), pa.array([], pa.string())]),
        pa.chunked_array([pa.array(["z", *TEXT], pa.large_string())[1:]]),
        pa.chunked_array([pa.array(TEXT[:3]).dictionary_encode(), pa.array(TEXT[3:]).dictionary_encode()]),
        pa.chunked_array([pa.DictionaryArray.from_arrays([1, None, 0, 1], ["a", "b", "never"])]),
        pa.chunked_array([pa.DictionaryArray.from_arrays([2, None, 0, 1], ["a", "b", "b"])]),  # a label twice
    ],
)
def test_an_arrow_column_of_text_is_read_by_its_labels(column):
    text = partition_rows(pa.table({"x": column}), "value")
    assert list(text) == TEXT
    twice = str(column.type).startswith("dict") and column.chunk(0).dictionary.to_pylist() == ["a", "b", "b"]
    assert isinstance(text, list if twice else LabelColumn)
    rows = partition_rows(pa.table({"x": column, "n": [0.5, 1.5, 2.5, 3.5]}), "tuple")
    assert list(rows) == list(zip(TEXT, [0.5, 1.5, 2.5, 3.5], strict=True))
    encoder = st.OptionalEstimator(st.CategoricalEstimator()).accumulator_factory().make().acc_to_encoder()
    wanted = encode_shard(0, TEXT, range(4), encoder, (range(0, 4, 2), range(1, 4, 2)))
    found = encode_shard(0, text, range(4), encoder, (range(0, 4, 2), range(1, 4, 2)))
    assert [bits(chunk.payload) for chunk in found.chunks] == [bits(chunk.payload) for chunk in wanted.chunks]


@pytest.mark.parametrize("form", ["value", "tuple", "mapping"])
def test_a_column_of_tensors_is_one_array(form):
    held = np.arange(12.0).reshape(3, 2, 2)
    column = pa.FixedShapeTensorArray.from_numpy_ndarray(held)
    column = pa.chunked_array([column[:2], column[2:]])
    if form == "mapping":
        table = pa.table({"x": column, "n": [1, 2, 3]})
        assert [row["x"] for row in partition_rows(table, form)] == held.tolist()
    else:
        assert same(partition_rows(pa.table({"x": column}), form), held)
        none = pa.table({"x": pa.chunked_array([], column.type)})
        assert partition_rows(none, form).shape == (0, 2, 2)


def test_a_column_of_tensors_of_integers_is_an_array_of_them():
    held = np.arange(12).reshape(3, 2, 2)
    table = pa.table({"x": pa.FixedShapeTensorArray.from_numpy_ndarray(held)})
    assert same(partition_rows(table, "tuple"), held)


class Extended:
    """A column as an extension of Arrow shows it: tensors of one shape, or objects where shapes may vary."""

    type, null_count, num_chunks = "extension<tensor>", 0, 2

    def __init__(self, *parts):
        self.chunks = [type("Chunk", (), {"to_numpy": lambda self, part=part: part})() for part in parts]


def test_tensors_of_an_extension_are_one_array():
    def read(*parts):
        table = type("T", (), {"to_batches": None, "column_names": ["x"], "columns": [Extended(*parts)]})()
        return partition_rows(table, "value")

    assert same(read(np.ones((2, 3)), np.zeros((1, 3))), np.array([[1.0] * 3, [1.0] * 3, [0.0] * 3]))
    ragged = np.empty(1, dtype=object)
    ragged[0] = np.array([4.0, 5.0])
    assert same(read(ragged, ragged), np.array([[4.0, 5.0], [4.0, 5.0]]))


def write(path, rows, groups):
    pq.write_table(pa.table({"x": rows}), path, row_group_size=max(1, len(rows) // groups))
    return path


def told(parts):
    return [(Path(part.path).name, part.row_group) for part in parts]


def test_row_groups_are_partitions_in_the_order_of_file_names(tmp_path, monkeypatch):
    two, one = write(tmp_path / "b.parquet", [1, 2, 3, 4], 2), write(tmp_path / "a.parquet", [5], 1)
    (tmp_path / "notes.txt").write_text("no table")
    expected = [("a.parquet", 0), ("b.parquet", 0), ("b.parquet", 1)]
    assert told(parquet_parts(tmp_path)) == told(parquet_parts(f"{tmp_path}/")) == expected
    assert told(parquet_parts(tmp_path / "*.parquet")) == told(parquet_parts(str(tmp_path / "?.parquet"))) == expected
    assert told(parquet_parts(tmp_path / "[b].parquet")) == expected[1:]
    assert told(parquet_parts([two, one])) == [*expected[1:], expected[0]]
    assert [part.read().column("x").to_pylist() for part in parquet_parts(two)] == [[1, 2], [3, 4]]
    monkeypatch.chdir(tmp_path)
    (part,) = parquet_parts("a.parquet")
    assert part.path == str(one)
    marked = write(tmp_path / "x[1].parquet", [7], 1)
    assert told(parquet_parts(marked)) == [("x[1].parquet", 0)]  # such a file stands before the pattern
    marked.unlink()
    one.rename(tmp_path / "a.parq")
    assert told(parquet_parts("a.parq")) == [("a.parq", 0)]


@pytest.mark.parametrize("data", [[1.0, 2.0], [], (), "a.csv", None, np.zeros(3), [Path("a.parquet"), 3]])
def test_what_names_no_parquet_file_is_something_else(data):
    assert parquet_parts(data) is None


def test_missing_and_empty_files_are_told(tmp_path):
    for data in (tmp_path / "none.parquet", tmp_path / "*.parquet", tmp_path, [tmp_path / "none.parquet"]):
        with pytest.raises(FileNotFoundError, match=r"^there is no Parquet file "):
            parquet_parts(data)
    pq.ParquetWriter(tmp_path / "empty.parquet", pa.schema([("x", pa.int64())])).close()
    with pytest.raises(
        EmptyDataError, match=r"^received no observations: the Parquet files .*hold no rows; name others$"
    ):
        parquet_parts(tmp_path / "empty.parquet")


def test_without_pyarrow_the_line_to_type_is_told(tmp_path, monkeypatch):
    path = write(tmp_path / "a.parquet", [1], 1)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingPackage, match=r'^reading Parquet needs pyarrow\. Install: pip install "pyarrow>=16"$'):
        parquet_parts(path)


def test_a_column_of_lists_of_text_is_no_column_of_labels():
    column = pa.chunked_array([[["tea"], ["tea", "milk"]]])
    assert _arrow_values(column) == [["tea"], ["tea", "milk"]]
