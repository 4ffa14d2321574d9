"""Digests of rows and models: what changes them, what does not; and rows that get memory of their own."""

import dataclasses
import datetime as dt
import gc
import sys
import weakref
from typing import NamedTuple

import numpy as np
import pytest

import mixle.stats as st
from mixle.errors import PayloadError
from mixle.utils.parallel.folding.digest import digest_of, shard_digest
from mixle.utils.parallel.folding.digests import rows_digest, sealed, words_of
from mixle.utils.parallel.folding.model_digest import model_digest
from mixle.utils.parallel.folding.packing import arena, packed
from mixle.utils.parallel.folding.shards import Chunk, Shard


class Pair(NamedTuple):
    a: object
    b: object


@dataclasses.dataclass
class Record:
    a: object
    b: object = None


class Foreign:
    pass


def shard_of(*payloads, weights=None):
    return Shard(0, tuple(Chunk(1, payload, range(1), weights) for payload in payloads), None)


def word(*numbers):
    return np.array(numbers, np.float64)


def test_words_are_added_up_as_unsigned_numbers_of_64_bits():
    assert words_of(np.array([1, 2, 4], np.uint64)) == 7
    assert words_of(np.array([2**64 - 1, 2], np.uint64)) == 1
    assert words_of(np.array([1, 2, 3], np.uint8)) == 0x030201
    assert words_of(np.arange(1, 10, dtype=np.uint8)) == 0x0807060504030201 + 9
    assert words_of(np.empty(0)) == 0
    many = np.arange(3 << 15, dtype=np.uint64) * 2**50
    assert words_of(many) == int(np.add.reduce(many))


def test_every_flipped_bit_is_seen_and_every_two_but_opposite_ones_in_the_same_place():
    held = np.random.RandomState(0).randint(0, 2**63, 2, np.uint64) * np.uint64(2) + np.array([0, 1], np.uint64)
    rows = shard_of(held)
    clean, flips = rows_digest(rows), [(word, np.uint64(1) << np.uint64(bit)) for word in (0, 1) for bit in range(64)]
    for one, (word, bit) in enumerate(flips):
        risen = not held[word] & bit
        held[word] ^= bit
        assert rows_digest(rows) != clean
        for other, mask in flips[one + 1 :]:
            hidden = mask == bit and (risen != (not held[other] & mask) or mask == flips[63][1])
            held[other] ^= mask
            assert (rows_digest(rows) == clean) is bool(hidden)
            held[other] ^= mask
        held[word] ^= bit
    assert rows_digest(rows) == clean


@pytest.mark.parametrize("kind", [np.uint64, np.uint32, np.uint8, np.float32, "S3", "U2"])
@pytest.mark.parametrize("rows", [1, 7, 20000])
def test_words_are_those_of_the_array_in_one_piece_however_it_lies(kind, rows):
    held = np.random.RandomState(rows).randint(0, 200, size=(rows, 5)).astype(kind)
    assert words_of(held) == words_of(held.copy())
    wide = np.zeros((rows, 11), held.dtype)
    wide[:, ::2][:, :5] = held
    assert words_of(wide[:, ::2][:, :5]) == words_of(held)
    wide[:, 3:8] = held
    assert words_of(wide[:, 3:8]) == words_of(held)
    assert words_of(np.repeat(held, 3, 0)[1::3]) == words_of(held)
    if np.dtype(kind).itemsize % 8 == 0:  # whole words count without their order
        assert words_of(np.asfortranarray(held)) == words_of(held)


def test_the_digest_of_rows_is_a_word_of_xor_and_one_of_sum_with_the_sizes():
    assert rows_digest(shard_of()) == "0" * 16
    assert rows_digest(shard_of(np.array([5], np.uint64))) == f"{5 + 8:016x}"
    assert rows_digest(shard_of(np.array([5, 6], np.uint64))) == f"{5 + 6 + 16:016x}"
    assert rows_digest(shard_of(np.array([5], np.uint64), np.array([6], np.uint64))) == f"{27:016x}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (word(1.0, 2.0), word(1.0, 3.0)),
        ((word(1.0), word(2.0)), (word(1.0), word(2.5))),
        ([word(1.0), [word(2.0)]], [word(1.0), [word(2.5)]]),
        ({"a": word(1.0)}, {"a": word(2.0)}),
        ({"a": word(1.0)}, {"b": word(1.0)}),
        (Record(word(1.0)), Record(word(2.0))),
        (Pair(word(1.0), 3), Pair(word(1.0), 4)),
        (("a", "b"), ("a", "c")),
        (["a", 1, None, b"x", True, 2.5], ["a", 1, None, b"x", True, 2.0]),
        (3, 4),
        ("text", "test"),
        (np.array(["a"]), np.array(["b"])),
        (np.ma.array([1.0, 2.0], mask=[False, True]), np.ma.array([1.0, 2.0], mask=[True, False])),
        (np.ma.array([1.0, 2.0], mask=[False, True]), np.ma.array([3.0, 2.0], mask=[False, True])),
    ],
)
def test_what_an_encoding_holds_is_in_its_digest(one, other):
    assert rows_digest(shard_of(one)) == rows_digest(shard_of(one)) != rows_digest(shard_of(other))


@pytest.mark.parametrize("value", [Foreign(), (), {}, np.array([Foreign()], dtype=object), {1, 2}])
def test_what_is_not_known_counts_nothing(value):
    assert rows_digest(shard_of(value)) == "0" * 16
    assert rows_digest(shard_of((value, word(1.0)))) == rows_digest(shard_of(word(1.0)))


def test_weights_are_in_the_digest():
    assert rows_digest(shard_of(word(1.0), weights=word(2.0))) != rows_digest(shard_of(word(1.0)))


def test_the_digest_is_of_the_rows_as_they_stand_now():
    held = word(1.0, 2.0)
    shard = shard_of(held)
    before = rows_digest(shard)
    held[1] = 3.0
    assert rows_digest(shard) != before
    held[1] = 2.0
    assert rows_digest(shard) == before


def test_text_has_one_digest_whether_a_tuple_is_named_or_interned():
    named = Pair("a", 1)
    assert rows_digest(shard_of(named)) == rows_digest(shard_of(("a", 1))) == rows_digest(shard_of(["a", 1]))
    text = b"mixle".decode()
    assert rows_digest(shard_of((text, text))) == rows_digest(shard_of((sys.intern("mixle"), b"mixle".decode())))


def test_rows_of_a_foreign_type_have_no_sha256():
    assert sealed(shard_of(word(1.0))) == shard_digest(shard_of(word(1.0)))[1]
    assert len(sealed(shard_of(word(1.0)))) == 64
    assert sealed(shard_of(Foreign())) is None


def test_a_shard_digest_tells_places_and_what_is_held():
    chunks = (Chunk(2, word(1.0, 2.0), range(3, 9, 3)), Chunk(1, word(4.0), range(9, 10), word(0.5)))
    places, digest = shard_digest(Shard(0, chunks, Foreign()))
    assert places == ((3, 9, 3), (9, 10, 1))
    held = ((2, word(1.0, 2.0), None), (1, word(4.0), word(0.5)))
    assert digest == digest_of(("Foreign", held))


class Short(str):
    __slots__ = ()


VALUES = [
    None,
    True,
    False,
    1,
    0,
    -1,
    255,
    256,
    -129,
    1.0,
    -0.0,
    0.0,
    1j,
    -1j,
    "",
    "1",
    b"1",
    "None",
    (),
    [],
    {},
    (1,),
    [1],
    {1: 2},
    {2: 1},
    {1: 2, 3: 4},
    {3: 4, 1: 2},
    ((1, 2), 3),
    (1, (2, 3)),
    (1, 2, 3),
    Pair(1, 2),
    (1, 2),
    Record(1, 2),
    Record(2, 1),
    range(2),
    range(0, 2, 2),
    dt.date(2024, 1, 2),
    dt.datetime(2024, 1, 2),  # noqa: DTZ001 - without a zone is another value
    dt.datetime(2024, 1, 2, tzinfo=dt.UTC),
    dt.datetime(2024, 1, 2, fold=1),  # noqa: DTZ001 - the same, the second time that the clock shows it
    dt.time(1, 2),
    dt.timedelta(1, 2),
    np.float64(1.0),
    np.float32(1.0),
    np.int64(1),
    np.bool_(True),
    np.str_("1"),
    np.datetime64("2024-01-02"),
    np.zeros(2),
    np.zeros(3),
    np.zeros((2, 1)),
    np.zeros((1, 2)),
    np.zeros(0),
    np.zeros((0, 2)),
    np.zeros(2, np.float32),
    np.zeros(2, ">f8"),
    np.zeros(2, np.int64),
    np.array(["a"]),
    np.array([b"a"]),
    np.array([1, "a"], dtype=object),
    np.array([[1, "a"]], dtype=object),
    np.array([1, "b"], dtype=object),
    np.zeros(2, [("a", "<f8")]),
    np.zeros(2, [("b", "<f8")]),
]


def test_values_of_different_types_shapes_or_contents_have_different_digests():
    digests = [digest_of(value) for value in VALUES]
    assert [(VALUES[i], VALUES[j]) for i in range(len(VALUES)) for j in range(i) if digests[i] == digests[j]] == []
    assert digests == [digest_of(value) for value in VALUES]


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Foreign(), r"^a value of type test_digests\.Foreign has no digest: <test_digests\.Foreign object"),
        (
            Short("a"),
            r"^a value of type test_digests\.Short has no digest: 'a'; use numbers, text or containers of them$",
        ),
        (
            Record,
            r"^a value of type builtins\.type has no digest: <class 'test_digests\.Record'>; use numbers",
        ),
        (
            {"a": {1, 2}},
            r"^a value of type builtins\.set has no digest: \{1, 2\}; use numbers, text or containers of them$",
        ),
        (
            np.array([(1, None)], dtype=[("a", int), ("b", object)]),
            "^an array of dtype .* has no digest; use a plain or structured dtype$",
        ),
        (nested(101), r"^data nested deeper than 100 levels have no digest; flatten them$"),
    ],
)
def test_what_has_no_digest_is_named(value, words):
    with pytest.raises(PayloadError, match=words):
        digest_of(value)


def test_a_hundred_levels_have_a_digest():
    assert len(digest_of(nested(100))) == 64


def test_a_digest_is_the_same_on_every_machine():
    assert digest_of({"a": (1, 2.5)}) == "ae18924e1f69ed0b7cf24d46ebdb88531e67f8aa7ab2bb8dfcb7715812241672"
    assert (
        digest_of((np.arange(3.0), "ü", -300, None))
        == "d6567b80734b171f1f042252cbfc69147daa410bfa8b6f2cf57d297cb004e1f1"
    )


def test_models_are_told_by_their_numbers_wherever_they_lie():
    assert model_digest(None) is None
    one = st.DiagonalGaussianDistribution([1.0, 2.0], [1.0, 1.0])
    assert model_digest(one) == model_digest(st.DiagonalGaussianDistribution([1.0, 2.0], [1.0, 1.0]))
    assert model_digest(one) != model_digest(st.DiagonalGaussianDistribution([1.0, 2.5], [1.0, 1.0]))
    assert model_digest(np.arange(6.0).reshape(2, 3)[:, ::2]) == model_digest(np.array([[0.0, 2.0], [3.0, 5.0]]))
    assert model_digest(np.arange(4.0)) != model_digest(np.arange(4.0).reshape(2, 2))
    assert model_digest(np.zeros(2)) != model_digest(np.zeros(2, np.int64))
    text = b"label".decode()
    assert model_digest((text, text)) == model_digest((text, b"label".decode()))
    assert model_digest(lambda: 1) is None


class Open:
    """An object that is its attributes, in all places where a model may have one."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Slotted(Open):
    __slots__ = ("more",)

    def __init__(self, more, **attributes):
        super().__init__(**attributes)
        self.more = more


def test_a_model_of_a_class_of_the_main_script_is_not_told(monkeypatch):
    import __main__

    for name, kind in (("Mine", Open), ("Filled", Slotted)):
        own = type(name, (kind,), {"__module__": "__main__"})
        monkeypatch.setattr(__main__, name, own, raising=False)
        model = own(1.0) if kind is Slotted else own()
        assert model_digest(model) is None
        assert model_digest(Open(part=model)) is None


class Grams(float):
    """A value that is more than its attributes."""

    def __new__(cls, number):
        return super().__new__(cls, number)


class Told:
    """An object that says itself what it is."""

    def __init__(self, number):
        TOLD[id(self)] = number

    def __reduce__(self):
        return Told, (TOLD[id(self)],)


TOLD = {}
digests = sys.modules[model_digest.__module__]


@pytest.mark.parametrize(
    "make", [lambda x: Slotted(x, a=1.0), Grams, Told], ids=["slots", "a class of its own", "a reduction"]
)
def test_numbers_that_are_no_attributes_are_told(make, monkeypatch):
    monkeypatch.setattr(digests, "_open", weakref.WeakKeyDictionary())  # as in a process that knows no class yet
    kept = [make(3.0), make(4.0), make(3.0)]
    for within in (lambda one: one, lambda one: Open(part=one), lambda one: Open(parts=[1.0, one])):
        first, second, third = [model_digest(within(one)) for one in kept]
        assert first == third != second
        assert first is not None


def test_an_array_of_objects_is_told_by_what_they_are():
    first, second, other = (Open(a=np.array([["".join("ab"), k], None], object)) for k in (1, 1, 2))
    assert model_digest(first) == model_digest(second) != model_digest(other)


def test_where_the_numbers_lie_is_remembered_as_long_as_the_model_lives(monkeypatch):
    monkeypatch.setattr(digests, "_open", weakref.WeakKeyDictionary())
    model = nested_model()
    before = model_digest(model)
    assert id(model) in digests._known
    layout = digests._known[id(model)]
    assert model_digest(model) == before
    assert digests._known[id(model)] is layout
    assert len(layout.arrays) == 4  # of the parts and of the tuple, not pickled again each time
    place = id(model)
    del model, layout
    gc.collect()
    assert place not in digests._known


def nested_model():
    parts = [Open(mu=np.array([float(k), 2.0]), name="a", table={"x": 0.5, "y": 0.5}) for k in range(3)]
    pairs = {(1, Open(p=0.25)): Open(q=0.75), "k": [1.0, "t"]}
    return Open(parts=parts, kept=(1.0, Open(w=np.ones((2, 2)))), foreign=Slotted(3.0, a=1.0), pairs=pairs, none=None)


def changes():
    """Yield each way in which a model may change in memory after its digest was taken."""
    yield lambda m: m.parts[1].mu.__setitem__(0, 9.0)
    yield lambda m: setattr(m.parts[1], "mu", np.array([9.0, 2.0]))
    yield lambda m: setattr(m.parts[1], "mu", 1.0)
    yield lambda m: setattr(m.parts[1], "mu", None)
    yield lambda m: setattr(m.parts[2], "name", "b")
    yield lambda m: setattr(m.parts[2], "name", Open(a=1.0))
    yield lambda m: setattr(m.parts[2], "name", Slotted(1.0))
    yield lambda m: setattr(m, "kept", (1.0, Open(w=np.zeros((2, 2)))))
    yield lambda m: m.parts[0].table.__setitem__("x", 0.25)
    yield lambda m: m.parts[0].table.__setitem__("z", 0.25)
    yield lambda m: setattr(m.parts[0], "table", {"x": 0.5, "z": 0.5})
    yield lambda m: m.parts.__setitem__(1, Open(mu=np.array([1.0, 3.0]), name="a", table={"x": 0.5, "y": 0.5}))
    yield lambda m: m.parts.append(Open(mu=np.array([3.0, 2.0])))
    yield lambda m: m.parts.reverse()
    yield lambda m: m.kept[1].w.__setitem__((1, 1), 2.0)
    yield lambda m: setattr(m.foreign, "more", 4.0)
    yield lambda m: setattr(m.foreign, "a", 2.0)
    yield lambda m: setattr(m.pairs[next(iter(m.pairs))], "q", 0.5)
    yield lambda m: m.pairs["k"].__setitem__(0, 2.0)
    yield lambda m: m.pairs.__setitem__("l", Open(q=1.0))
    yield lambda m: setattr(m, "none", 0)
    yield lambda m: setattr(m, "new", 0)
    yield lambda m: delattr(m, "none")


@pytest.mark.parametrize("change", list(changes()))
def test_whatever_changes_in_a_model_changes_its_digest_and_an_equal_model_has_an_equal_one(change):
    model, other = nested_model(), nested_model()
    before = model_digest(model)
    assert before == model_digest(model) == model_digest(other)
    change(model)
    assert model_digest(model) != before
    change(other)
    assert model_digest(model) == model_digest(other)


def test_a_digest_does_not_keep_its_model_alive():
    model = nested_model()
    model_digest(model)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


class Reduced:
    """A model of a user, who says how it is pickled."""

    def __init__(self, numbers):
        self.numbers = numbers

    def __reduce__(self):
        return Reduced, (self.numbers,)


@pytest.mark.parametrize("wrap", [Reduced, lambda numbers: {"a": numbers}, lambda numbers: {("b",): [1, (numbers,)]}])
def test_arrays_inside_a_model_are_told_by_type_shape_and_numbers(wrap):
    digest = model_digest(wrap(np.array([[0.0, 2.0], [3.0, 5.0]])))
    assert digest is not None
    assert model_digest(wrap(np.arange(6.0).reshape(2, 3)[:, ::2])) == digest
    assert model_digest(wrap(np.asfortranarray([[0.0, 2.0], [3.0, 5.0]]))) == digest
    others = [[[0.0, 2.0], [3.0, 6.0]], [0.0, 2.0, 3.0, 5.0], [[0.0, 2.0, 3.0, 5.0]]]
    told = [model_digest(wrap(np.array(other))) for other in others]
    told += [model_digest(wrap(np.zeros(2))), model_digest(wrap(np.zeros(2, np.int64)))]
    told.append(model_digest(wrap(np.array([None, "a"], dtype=object))))
    assert len({digest, *told}) == 7
    assert None not in told


def test_a_table_of_plain_values_is_told_by_its_keys_and_values():
    tables = [{"a": 1.0, "b": None}, {"a": 1.5, "b": None}, {"a": 1.0, "c": None}, {"a": 1.0}, {}, {("a",): 1.0}]
    digests = [model_digest(table) for table in tables]
    assert len(set(digests)) == len(tables)
    assert [model_digest(dict(table)) for table in tables] == digests


def test_what_a_model_keeps_for_later_is_no_part_of_it():
    one, other = (st.GaussianDistribution(0.0, 1.0) for _ in range(2))
    one.__dict__["_cached_something"] = 3
    assert model_digest(one) == model_digest(other)
    one.__dict__["_something"] = 3
    assert model_digest(one) != model_digest(other)


def view(rows, columns, kind=np.float64):
    return np.arange(4.0 * rows * columns).astype(kind).reshape(4 * rows, columns)[::4]


def test_narrow_strided_rows_are_packed_and_wide_ones_stay_views():
    narrow, wide = view(5, 7), view(5, 8)
    (chunk,) = packed(shard_of(narrow)).chunks
    assert chunk.payload.flags.f_contiguous
    assert np.array_equal(chunk.payload, narrow)
    assert packed(shard_of(np.arange(40.0)[::4])).chunks[0].payload.strides == (8,)
    for kept in (
        wide,
        view(5, 16, np.float32),
        narrow.copy(),
        np.asfortranarray(narrow),
        np.array([1, "a"], object)[::2],
    ):
        shard = shard_of(kept)
        assert packed(shard) is shard
    assert packed(shard_of(view(5, 16)[:, ::2])).chunks[0].payload.flags.f_contiguous  # whose lines lie in pieces


def test_packing_keeps_the_shape_of_what_holds_the_arrays():
    narrow, whole = view(5, 2), np.arange(3.0)
    shard = shard_of((whole, (narrow, "a")), Pair(narrow, whole))
    one, two = (chunk.payload for chunk in packed(shard).chunks)
    assert one[0] is whole
    assert (type(one), type(one[1]), one[1][1]) == (tuple, tuple, "a")
    assert one[1][0].flags.f_contiguous
    assert type(two) is Pair
    assert two.b is whole
    assert two.a.flags.f_contiguous
    assert rows_digest(packed(shard)) == rows_digest(shard)


def test_what_needs_no_packing_stays_the_same_object():
    held = (np.arange(3.0), Pair(np.arange(2), "a"), ())
    (chunk,) = packed(shard_of(held)).chunks
    assert chunk.payload is held


def test_an_arena_holds_the_numbers_of_a_chunk_in_one_piece_of_its_own():
    held = (word(1.0, 2.0), np.asfortranarray(view(3, 2)), Pair(np.arange(3, dtype=np.uint8), "text"), [word(9.0)])
    shard = shard_of(held, weights=word(0.5))
    own = arena(shard)
    (chunk,) = own.chunks
    one, two, three, four = chunk.payload
    arrays = [one, two, three.a, chunk.weights]
    assert len({id(array.base) for array in arrays}) == 1
    for new, old in zip(arrays, [held[0], held[1], held[2].a, shard.chunks[0].weights], strict=True):
        assert np.array_equal(new, old)
        assert (new.dtype, new.flags.f_contiguous) == (old.dtype, old.flags.f_contiguous)
        assert new.ctypes.data % 64 == 0
        assert not np.shares_memory(new, old)
    assert type(three) is Pair
    assert three.b == "text"
    assert four is held[3]  # a list may change: it stays as it is
    assert rows_digest(own) == rows_digest(shard)
    for array in arrays:
        bits = array.reshape(-1, order="A").view(np.uint8)
        bits[0] ^= 1
        assert rows_digest(own) != rows_digest(shard)
        bits[0] ^= 1
    held[3][0][0] = 8.0
    assert rows_digest(own) == rows_digest(shard)


def test_what_holds_no_array_needs_no_arena():
    names = np.array([1, "a"], dtype=object)
    empty, structured = np.empty((0, 3)), np.zeros(2, [("a", "<f8")])
    (chunk,) = arena(shard_of((names, empty, structured, "a"))).chunks
    assert chunk.payload[0] is names
    assert chunk.payload[1] is empty
    assert chunk.payload[2] is structured
