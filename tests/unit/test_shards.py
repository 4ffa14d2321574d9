"""Shard maps are values: every row once, in a known order."""

from itertools import pairwise

import numpy as np
import pytest
from fold_support import PlainEncoder
from hypothesis import given
from hypothesis import strategies as st

from mixle.errors import ContractError, RowError
from mixle.utils.parallel.folding.shards import (
    Contiguous,
    Partitions,
    Strided,
    as_shard_map,
    cut,
    encode_shard,
    pick,
    split_range,
)

ROWS = st.integers(0, 300)
COUNTS = st.integers(1, 40)


@st.composite
def maps(draw):
    rows = draw(ROWS)
    kind = draw(st.sampled_from(["strided", "contiguous", "sizes", "partitions"]))
    if kind == "strided":
        return rows, Strided(draw(COUNTS))
    if kind == "contiguous":
        return rows, Contiguous(draw(COUNTS))
    edges = [0, *sorted(draw(st.lists(st.integers(0, rows), max_size=8))), rows]
    sizes = tuple(b - a for a, b in pairwise(edges))
    return rows, Contiguous(sizes=sizes) if kind == "sizes" else Partitions(sizes)


@given(maps())
def test_every_map_covers_each_row_once_and_leaves_no_shard_empty(case):
    rows, shard_map = case
    shards = shard_map.resolve(rows)
    assert sorted(i for shard in shards for i in shard) == list(range(rows))
    assert all(len(shard) for shard in shards)


@given(maps(), COUNTS)
def test_sub_chunks_cover_each_row_of_their_shard_once(case, count):
    rows, shard_map = case
    for shard in shard_map.resolve(rows):
        pieces = cut(shard, count, shard_map)
        assert sorted(i for piece in pieces for i in piece) == sorted(shard)
        assert len(pieces) == min(count, len(shard))
        assert all(len(piece) for piece in pieces)


@given(maps(), COUNTS)
def test_encoding_a_shard_puts_every_row_at_its_position(case, count):
    rows, shard_map = case
    data = [10 * i for i in range(rows)]
    for number, shard in enumerate(shard_map.resolve(rows)):
        encoded = encode_shard(number, pick(data, shard), shard, PlainEncoder(), cut(shard, count, shard_map))
        assert encoded.rows == len(shard)
        for chunk in encoded.chunks:
            assert chunk.payload.tolist() == [10.0 * i for i in chunk.positions]
            assert chunk.weights is None


def test_strided_is_the_documented_split():
    assert Strided(3).resolve(8) == (range(0, 8, 3), range(1, 8, 3), range(2, 8, 3))
    rows = list("abcdefgh")
    assert [list(pick(rows, shard)) for shard in Strided(3).resolve(8)] == [rows[s::3] for s in range(3)]
    assert cut(range(1, 8, 3), 2, Strided(3)) == (range(1, 8, 6), range(4, 8, 6))


def test_contiguous_cut_points_are_i_n_over_k():
    assert split_range(range(2, 12), 4) == (range(2, 4), range(4, 7), range(7, 9), range(9, 12))


def test_shards_are_clipped_to_the_rows():
    assert len(Strided(9).resolve(4)) == len(Contiguous(9).resolve(4)) == 4
    assert Strided(3).resolve(0) == Contiguous(3).resolve(0) == ()


def test_partitions_and_contiguous_sizes_give_the_same_shards():
    assert Partitions((3, 0, 2)).resolve(5) == Contiguous(sizes=(3, 0, 2)).resolve(5) == (range(3), range(3, 5))


@pytest.mark.parametrize("value", [4, np.int64(4), Strided(4)])
def test_an_int_means_strided(value):
    assert as_shard_map(value) == Strided(4)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: as_shard_map(True), TypeError, "num_shards takes an int"),
        (lambda: as_shard_map(2.0), TypeError, "num_shards takes an int"),
        (lambda: as_shard_map("4"), TypeError, "num_shards takes an int"),
        (lambda: as_shard_map(0), ValueError, "at least 1"),
        (lambda: Strided(-1), ValueError, "at least 1"),
        (Contiguous, ValueError, "exactly one"),
        (lambda: Contiguous(2, (1, 1)), ValueError, "exactly one"),
        (lambda: Contiguous(sizes=(1, -1)), ValueError, "negative"),
        (lambda: Contiguous(sizes=(1.5,)), TypeError, "whole numbers of rows"),
        (lambda: Contiguous(sizes=(2, 2)).resolve(5), ValueError, "covers 4 rows, the data has 5"),
        (lambda: Partitions((2,)).resolve(5), ValueError, "covers 2 rows, the data has 5"),
    ],
)
def test_wrong_maps_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize("shard_map", [Strided(3), Contiguous(3)])
@pytest.mark.parametrize("sub_chunks", [1, 3])
def test_a_bad_row_is_named_by_its_position_in_the_data(shard_map, sub_chunks):
    data = [float(i) for i in range(20)]
    data[13] = "x"
    shards = shard_map.resolve(20)
    number = next(i for i, shard in enumerate(shards) if 13 in shard)
    with pytest.raises(RowError, match=r"Row 13 \(Plain\): 'x' is not a number") as caught:
        encode_shard(
            number,
            pick(data, shards[number]),
            shards[number],
            PlainEncoder(),
            cut(shards[number], sub_chunks, shard_map),
        )
    assert caught.value.row == 13


def test_weights_go_with_their_rows():
    shard = range(1, 10, 3)
    weights = np.array([0.5, 1.5, 2.5])
    encoded = encode_shard(0, [1.0, 4.0, 7.0], shard, PlainEncoder(), cut(shard, 2, Strided(3)), weights)
    assert [(c.payload.tolist(), c.weights.tolist()) for c in encoded.chunks] == [
        ([1.0, 7.0], [0.5, 2.5]),
        ([4.0], [1.5]),
    ]


def test_an_encoder_that_loses_rows_is_refused():
    class Lossy(PlainEncoder):
        def seq_encode(self, rows):
            return super().seq_encode(rows)[1:]

    with pytest.raises(ContractError, match="encoded 2 rows where 3 were given"):
        encode_shard(0, [1.0, 2.0, 3.0], range(3), Lossy(), (range(3),))


def test_arrays_are_cut_into_views_and_foreign_sequences_row_by_row():
    array = np.arange(10.0)
    assert np.shares_memory(pick(array, range(1, 10, 3)), array)

    class Rows:
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return i * i

    assert pick(Rows(), range(1, 4, 2)) == [1, 9]
