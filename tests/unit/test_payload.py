"""Frames of statistics: exact round trips, and nothing but PayloadError from anything else."""

import contextlib
import datetime as dt
import math
import pickle
import struct
import zlib
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mixle.errors import AlteredPayload, PayloadError
from mixle.utils.parallel.folding import payload
from mixle.utils.parallel.folding.payload import decode, encode, encode_bytes, is_frame, register_namedtuple


@register_namedtuple
class Moments(NamedTuple):
    weight: float
    centre: object


class Stranger(NamedTuple):
    x: int


class Custom:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return type(other) is Custom and other.x == self.x

    __hash__ = None


def same_array(a, b):
    if (a.dtype, a.shape) != (b.dtype, b.shape) or a.flags.f_contiguous != b.flags.f_contiguous:
        return False
    if a.dtype == object:
        return all(map(same, a.ravel().tolist(), b.ravel().tolist()))
    return a.tobytes() == b.tobytes()


def same(a, b):
    """Return whether two values are equal bit for bit and type for type."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return same_array(a, b)
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and (a.tobytes() == b.tobytes() or a == b)  # a long double has idle bytes
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, dt.datetime | dt.time):
        return a == b and a.fold == b.fold and a.tzinfo == b.tzinfo
    return a == b


def objects_of(items):
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        array[i] = item
    return array


def objects(item):
    return objects_of([item])


zones = st.none() | st.builds(
    dt.timezone, st.timedeltas(dt.timedelta(hours=-23), dt.timedelta(hours=23)).filter(lambda d: d.microseconds == 0)
)
dtypes = st.one_of(
    hnp.scalar_dtypes(), hnp.array_dtypes(max_size=3), hnp.unicode_string_dtypes(), hnp.byte_string_dtypes(),
    hnp.nested_dtypes(max_itemsize=64),
).filter(payload.is_plain)  # fields with titles are not  # fmt: skip
arrays = hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=4))
atoms = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.text(), st.binary(),
    st.dates(), st.datetimes(timezones=zones), st.times(timezones=zones), st.timedeltas(), zones, arrays,
    st.floats(width=32).map(np.float32), st.integers(-100, 100).map(np.int8), st.text().map(np.str_),
    st.builds(Moments, st.floats(), st.integers()),
)  # fmt: skip
keys = st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.tuples(st.integers(), st.text()))
values = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
        st.lists(inner, max_size=3).map(objects_of),
    ),
    max_leaves=12,
)


@given(values)
def test_round_trip_is_exact(value):
    assert same(decode(b"".join(encode(value))), value)


@pytest.mark.parametrize(
    "value",
    [
        -0.0, math.inf, -math.inf, struct.unpack("<d", struct.pack("<Q", 0x7FF4DEADBEEF0001))[0],
        2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**100, -(10**100), 255, -256,
        "", "\ud800", "\0a\0", b"\0", np.str_("a\0"), np.bytes_(b"a\0"), np.str_(""),
        np.float64(1.5), np.longdouble("1.1"), np.bool_(True), np.datetime64("NaT", "s"),
        np.datetime64("2020-01-01", "25s"),
        np.timedelta64(3, "D"), np.timedelta64("NaT", "D"), np.void(b"abc"), np.complex64(1j),
        np.array(3.0), np.zeros((0, 3)), np.zeros((3, 0), order="F"), np.array("abc"), np.array([], dtype="U0"),
        np.arange(12.0).reshape(3, 4), np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(4096.0).reshape(64, 64), np.asfortranarray(np.arange(4096.0).reshape(64, 64)),
        np.arange(10, dtype=">f8"), np.array(["2020", "NaT"], dtype="M8[ns]"), np.array([1], dtype="m8[3h]"),
        np.zeros(5000, dtype="M8[us]"), np.zeros(3000, dtype="V3"),
        np.array([(1, 2.0)], dtype=[("a", "<i2"), ("b", ">f8", (2,))]),
        np.zeros(2, dtype=np.dtype([("a", "i1"), ("b", "f8")], align=True)),
        np.zeros(2, dtype={"names": ["x", "y"], "formats": ["f4", "u1"], "offsets": [8, 0], "itemsize": 16}),
        np.array([None, (1, [2.0]), {"k": np.arange(3)}], dtype=object), np.array(None, dtype=object),
        np.array([[1, 2], [3, 4]], dtype=object, order="F"),
        dt.UTC, dt.timezone(dt.timedelta(hours=2), "CEST"), dt.datetime.max,  # noqa: DTZ901 - the corner itself
        dt.date.min,
        dt.datetime(2020, 10, 25, 2, 30, fold=1, tzinfo=dt.timezone(dt.timedelta(hours=1))),
        dt.time(1, 2, 3, 4, dt.UTC), dt.timedelta.min,
        (), [], {}, {(1, "a"): {None: [True]}}, {float("nan"): 1}, {1: "int", "1": "str"},
        Moments(1.0, np.zeros(2)), (Moments(0.0, None), [Moments(1.0, 2)]),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_corner_values(value):
    assert same(decode(encode_bytes(value)), value)


def test_nan_payloads_inside_arrays_keep_their_bits():
    bits = np.array([0x7FF4DEADBEEF0001, 0xFFF8000000000000, 0x8000000000000000], dtype=np.uint64)
    assert same(decode(encode_bytes(bits.view(np.float64))), bits.view(np.float64))


@pytest.mark.parametrize(
    "array",
    [np.arange(24.0)[::3], np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2), np.arange(9000.0)[::-2]],
    ids=["strided", "permuted", "backwards"],
)
def test_other_layouts_become_c_order(array):
    got = decode(encode_bytes(array))
    np.testing.assert_array_equal(got, array)
    assert got.flags.c_contiguous


def test_decoded_arrays_are_writable_and_independent():
    for size in (3, 10_000):
        frame = bytearray(encode_bytes(np.zeros(size)))
        got = decode(frame)
        got[0] = 1.0
        assert decode(frame)[0] == 0.0


def test_large_arrays_are_not_copied_by_encode():
    array = np.zeros(100_000)
    parts = encode({"a": array})
    assert any(np.shares_memory(np.frombuffer(part, np.uint8), array) for part in parts if len(part) == array.nbytes)


def test_read_only_arrays_and_buffers():
    array = np.arange(3000.0)
    array.flags.writeable = False
    frame = encode_bytes(array)
    for form in (frame, bytearray(frame), memoryview(frame), np.frombuffer(frame, np.uint8)):
        np.testing.assert_array_equal(decode(form), array)


def test_subclasses_do_not_travel_as_their_base():
    class Float(float):
        pass

    for value in (Float(1.0), Stranger(1), {1, 2}, Custom(1), np.ma.MaskedArray([1.0]), range(3), object):
        with pytest.raises(PayloadError, match="has no place in a payload"):
            encode(value)


def test_values_outside_the_closed_set_travel_as_pickles_where_both_ends_say_so():
    value = {"a": [Custom(3), np.arange(3)], "b": {1, 2}, "c": Stranger(1)}
    frame = b"".join(encode(value, allow_pickle=True))
    with pytest.raises(PayloadError, match="holds a pickle"):
        decode(frame)
    got = decode(frame, allow_pickle=True)
    assert (got["a"][0], got["b"], got["c"]) == (value["a"][0], value["b"], value["c"])


def test_a_pickle_that_cannot_be_read_is_a_payload_error():
    frame = b"".join(encode(Custom(1), allow_pickle=True, dumps=lambda value: b"no pickle"))
    with pytest.raises(PayloadError, match="cannot be decoded"):
        decode(frame, allow_pickle=True)


def test_datetime_dtypes_with_metadata_and_objects_are_not_raw():
    odd = np.zeros(2, dtype=np.dtype("f8", metadata={"a": 1}))
    with pytest.raises(PayloadError):
        encode(odd)
    with pytest.raises(PayloadError):
        encode(np.zeros(2, dtype=[("a", object)]))


def test_cycles_and_depth():
    loop = []
    loop.append(loop)
    with pytest.raises(PayloadError, match="contain itself"):
        encode(loop)
    deep = ()
    for _ in range(90):
        deep = (deep,)
    assert decode(encode_bytes(deep)) == deep


def test_registering_a_namedtuple():
    with pytest.raises(TypeError, match="NamedTuple"):
        register_namedtuple(tuple)
    name = f"{Moments.__module__}.{Moments.__qualname__}"
    with pytest.raises(ValueError, match="stands for"):
        register_namedtuple(Stranger, name)
    assert register_namedtuple(Moments) is Moments


# Words, and what a frame is made of


def sealed(body):
    """Return a frame with a checksum that holds around any body."""
    head = payload.PREFIX.pack(payload.MAGIC, payload.VERSION, len(body))
    return head + payload.CRC.pack(zlib.crc32(body, zlib.crc32(head))) + body


def refused(error, call, *args, **options):
    """Return the words of a refusal."""
    with pytest.raises(PayloadError) as caught:
        call(*args, **options)
    assert type(caught.value) is error
    return str(caught.value)


def test_what_was_altered_is_told_in_words():
    frame = encode_bytes(1.5)
    assert refused(AlteredPayload, decode, 3).startswith("this is no payload frame: ")
    assert refused(AlteredPayload, decode, frame[: payload.HEAD_SIZE - 1]).endswith("; send it again")
    start = "this is no payload frame of version 1: it starts with {!r}; send it again"
    assert refused(AlteredPayload, decode, b"X" + frame[1:]) == start.format(b"XXPL\x01")
    assert refused(AlteredPayload, decode, frame[:4] + b"\2" + frame[5:]) == start.format(b"MXPL\x02")
    size = len(frame) - payload.HEAD_SIZE
    assert size == 9
    assert refused(AlteredPayload, decode, frame[:-1]) == "a payload frame of 9 bytes came with 8 bytes; send it again"
    assert refused(AlteredPayload, decode, frame[:-1] + b"\1") == (
        "the checksum of a payload frame does not hold: it was altered on its way; send it again"
    )


AGAIN = "; encode it again with this version of mixle"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"?", f"a payload has the unknown tag 0x3f{AGAIN}"),
        (b"nn", f"a payload has 1 bytes too many{AGAIN}"),
        (b"i\0\0", f"a payload ends 6 bytes too early{AGAIN}"),
        (b"[" + struct.pack("<Q", 2) + b"n", f"a payload announces 2 elements in 1 bytes{AGAIN}"),
        (b"b\2", f"a payload cannot be decoded: IndexError: tuple index out of range{AGAIN}"),
        (
            b"m" + struct.pack("<Q", 1) + b"i" + bytes(8),
            f"a tuple of a payload is not as long as it says{AGAIN}",
        ),
        (
            b"a" + encode_bytes(("C", (2,), "<f8"))[payload.HEAD_SIZE :] + struct.pack("<Q", 8) + bytes(8),
            f"a payload has 8 bytes for an array of shape (2,) and dtype float64{AGAIN}",
        ),
    ],
)
def test_what_no_writer_writes_is_told_in_words(body, words):
    assert refused(PayloadError, decode, sealed(body)) == words


@pytest.mark.parametrize(
    ("kind", "state"),
    [(0, bytes([7, 228, 12, 99])), (1, bytes([25, 0, 0, 0, 0, 0])), (2, bytes([7, 228, 2, 30, 0, 0, 0, 0, 0, 0]))],
    ids=["date", "time", "datetime"],
)
def test_a_moment_that_no_calendar_or_clock_shows_is_refused(kind, state):
    count = struct.pack("<Q", 1)
    with pytest.raises(PayloadError, match=r"^a payload cannot be decoded: "):
        decode(sealed(b"t" + bytes([kind]) + count + b"B" + struct.pack("<Q", len(state)) + state))


def test_what_has_no_place_is_told_in_words():
    assert refused(PayloadError, encode, Custom(1)) == (
        f"a value of type {__name__}.Custom has no place in a payload; plain data and arrays do (register_namedtuple "
        "for a NamedTuple, allow_pickle=True inside one job)"
    )
    assert refused(PayloadError, decode, encode_bytes(Custom(1), allow_pickle=True)) == (
        "a payload holds a pickle, which is not read here; pass allow_pickle=True inside one job"
    )
    frame = encode_bytes(Moments(1.0, 2)).replace(b"Moments", b"Momentz")
    assert refused(PayloadError, decode, sealed(frame[payload.HEAD_SIZE :])) == (
        f"a payload holds the record '{__name__}.Momentz', not registered here; import its module first"
    )


@pytest.mark.parametrize("wrap", [lambda x: (x,), lambda x: [x], lambda x: {1: x}, lambda x: Moments(1.0, x)])
def test_a_hundred_levels_travel_and_one_more_does_not(wrap):
    value = None
    for _ in range(payload.DEPTH):
        value = wrap(value)
    assert same(decode(encode_bytes(value)), value)
    assert refused(PayloadError, encode, wrap(value)) == (
        "a payload is nested deeper than 100 levels; it must not contain itself"
    )


def test_own_ways_to_pickle_are_used_on_both_ends():
    frame = b"".join(encode([Custom(3)], allow_pickle=True, dumps=lambda value: b"custom %d" % value.x))
    assert decode(frame, allow_pickle=True, loads=lambda data: Custom(bytes(data))) == [Custom(b"custom 3")]
    with pytest.raises(PayloadError, match="has no place"):
        encode([Custom(3)], dumps=pickle.dumps)
    with pytest.raises(PayloadError, match="holds a pickle"):
        decode(frame, loads=pickle.loads)


@pytest.mark.parametrize(("numbers", "parts"), [(511, 2), (512, 4)])
def test_arrays_from_four_kilobytes_on_are_parts_of_their_own(numbers, parts):
    array = np.arange(float(numbers))
    frame = encode([array, 1])
    assert len(frame) == parts
    assert [len(part) for part in frame if len(part) == array.nbytes] == [array.nbytes] * (parts == 4)
    assert same(decode(b"".join(frame)), [array, 1])
    body = b"".join(frame)[payload.HEAD_SIZE :]
    assert frame[0][: payload.PREFIX.size] == payload.PREFIX.pack(b"MXPL", 1, len(body))


@pytest.mark.parametrize(("size", "shared"), [(77, False), (78, True)])
def test_a_long_tuple_that_cannot_change_is_one_object_for_all_readers(size, shared, monkeypatch):
    monkeypatch.setattr(payload, "_known", {})
    frame = encode_bytes([(b"x" * size,)])
    (one,), (other,) = decode(frame), decode(frame)
    assert one == other == (b"x" * size,)
    assert (one is other) == shared


@pytest.mark.parametrize(
    "changeable",
    [[1], {}, np.zeros(2), np.float64(1.0), np.array([None]), dt.timedelta(1), Moments(1.0, 2.0), Custom(1)],
    ids=lambda value: type(value).__name__,
)
def test_a_tuple_with_what_can_change_is_one_for_each_reader(changeable):
    frame = encode_bytes((changeable, "a" * 200), allow_pickle=True)
    one, other = decode(frame, allow_pickle=True), decode(frame, allow_pickle=True)
    assert one is not other


def test_tuples_of_many_bytes_are_known_up_to_a_number_and_then_forgotten(monkeypatch):
    monkeypatch.setattr(payload, "_known", {})
    monkeypatch.setattr(payload, "REMEMBERED", 3)
    frames = [encode_bytes(("a" * 100, i)) for i in range(4)]
    kept = [decode(frame) for frame in frames[:3]]
    assert all(decode(frame) is one for frame, one in zip(frames, kept, strict=False))
    assert decode(frames[3]) == ("a" * 100, 3)
    assert len(payload._known) == 1
    assert decode(frames[0]) is not kept[0]
    nested = (("b" * 100, 1), ("b" * 100, 2), 3)
    assert decode(encode_bytes(nested)) == nested


@pytest.mark.parametrize("last", [7, -(2**63), 2**63 - 1, 2**63, -(2**63) - 1, True, np.int64(3), 1.0, None])
@pytest.mark.parametrize("kind", [tuple, list])
def test_many_integers_are_written_as_each_of_them_is(kind, last, monkeypatch):
    values = kind([*range(-3, payload.MANY), last])
    written = encode_bytes(values)
    monkeypatch.setattr(payload, "MANY", 1 << 40)
    assert written == encode_bytes(values)
    assert same(decode(written), values)


def test_an_unknown_record_names_what_is_missing():
    frame = encode_bytes(Moments(1.0, 2)).replace(b"Moments", b"Momentz")
    with pytest.raises(PayloadError, match="Momentz"):
        decode(sealed(frame[payload.HEAD_SIZE :]))


def test_is_frame():
    assert is_frame(encode_bytes(1))
    assert not is_frame(pickle.dumps(1))
    assert not is_frame(b"")
    assert not is_frame(None)


# Anything else


SAMPLE = {
    "moments": Moments(1.0, np.arange(5.0)),
    "table": np.array([(1, 2.0)], dtype=[("a", "<i2"), ("b", "<f8")]),
    "counts": {("x", 1): 3, None: [True, 2.5, 1j, 10**30]},
    "when": [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.timedelta(1), dt.date(2020, 1, 1)],
    "objects": np.array([None, "a"], dtype=object),
    "scalar": np.float32(2.0),
}


def test_every_single_bit_flip_is_caught():
    frame = encode_bytes(SAMPLE)
    for bit in range(8 * len(frame)):
        flipped = bytearray(frame)
        flipped[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(PayloadError):
            decode(flipped)


def test_every_truncation_and_extension_is_caught():
    frame = encode_bytes(SAMPLE)
    for size in range(len(frame)):
        with pytest.raises(PayloadError):
            decode(frame[:size])
    with pytest.raises(PayloadError):
        decode(frame + b"\0")


def decode_or_refuse(frame):
    with contextlib.suppress(PayloadError):
        decode(frame)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(data):
    for frame in (data, payload.MAGIC + data):
        with pytest.raises(PayloadError):
            decode(frame)


@given(st.binary(max_size=200))
def test_any_body_with_a_checksum_that_holds_is_decoded_or_refused(body):
    decode_or_refuse(sealed(body))


BODY = encode_bytes(SAMPLE)[payload.HEAD_SIZE :]


@given(st.lists(st.tuples(st.integers(0, len(BODY) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_an_altered_body_with_a_checksum_that_holds_is_decoded_or_refused(changes):
    body = bytearray(BODY)
    for place, byte in changes:
        body[place] = byte
    decode_or_refuse(sealed(bytes(body)))


def test_every_altered_byte_with_a_checksum_that_holds_is_decoded_or_refused():
    for place in range(len(BODY)):
        for byte in (0, 1, 0x7F, 0xFF, BODY[place] ^ 1):
            decode_or_refuse(sealed(BODY[:place] + bytes([byte]) + BODY[place + 1 :]))


@pytest.mark.parametrize("count", [2**20, 2**40, 2**63, 2**64 - 1])
@pytest.mark.parametrize("tag", [b"(", b"[", b"d", b"s", b"B", b"I", b"N", b"P"])
def test_announced_sizes_take_no_memory(tag, count):
    with pytest.raises(PayloadError, match="announces"):
        decode(sealed(tag + struct.pack("<Q", count) + b"n"), allow_pickle=True)


@pytest.mark.parametrize("shape", [(2**40,), (2**62, 4), (-1, -8), (2**31, 2**31), ("x",), (1.5,)])
@pytest.mark.parametrize("dtype", ["<f8", "<U0", "|V0", "|O", "f8,f8", "<M8[x]", "|V9999999999"])
def test_crafted_arrays_are_refused(shape, dtype):
    form = encode_bytes(("C", shape, dtype))[payload.HEAD_SIZE :]
    with pytest.raises(PayloadError):
        decode(sealed(b"a" + form + struct.pack("<Q", 8) + bytes(8)))


@pytest.mark.parametrize("value", [None, 3, "text", [1], object()])
def test_what_is_no_buffer_is_refused(value):
    with pytest.raises(PayloadError):
        decode(value)


def test_statistics_of_every_family_travel_without_pickle():
    from bits import bits
    from mixle.stats import MixtureEstimator
    from models import MODELS

    for name, make in MODELS.items():
        model = make()
        for estimator in (model.estimator, MixtureEstimator([model.estimator] * 2)):
            accumulator = estimator.accumulator_factory().make()
            payload = accumulator.acc_to_encoder().seq_encode(model.rows)
            accumulator.seq_initialize(payload, np.ones(len(model.rows)), np.random.RandomState(1))
            value = accumulator.value()
            assert bits(decode(encode_bytes(value))) == bits(value), name


def test_a_record_of_a_foreign_module_is_not_imported():
    class Sneaky(NamedTuple):
        a: int

    frame = encode_bytes(register_namedtuple(Sneaky, "mixle.no_such_module.Sneaky")(1))
    import mixle.utils.parallel.folding.named as module

    module._records_by_name.pop("mixle.no_such_module.Sneaky")
    with pytest.raises(PayloadError, match="not registered"):
        decode(frame)


def test_more_shapes_than_are_remembered_are_written_and_read_alike():
    for size in range(payload.REMEMBERED + 2):
        array = np.arange(size, dtype=np.int16)
        assert np.array_equal(decode(encode_bytes(array)), array)
    assert len(payload._heads) <= payload.REMEMBERED
