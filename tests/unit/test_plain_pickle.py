"""Pickles that were altered, opcode by opcode; and the bytes behind the digest of a statistic."""

import datetime as dt
import pickle
import re
import struct
from typing import NamedTuple

import numpy as np
import pytest

from mixle.errors import PayloadError
from mixle.utils.parallel.folding.named import register_namedtuple
from mixle.utils.parallel.policies.canonical import canonical_bytes, canonical_sha256, sha256
from mixle.utils.parallel.policies.plainpickle import read_plain_pickle


@register_namedtuple
class Known(NamedTuple):
    left: float
    right: object


class Unknown(NamedTuple):
    left: float


class Carrier(list):
    """A list that carries more than its items."""


DOUBLE = b"cnumpy\ndtype\n(Vf8\ntR"
OBJECTS = b"cnumpy\ndtype\n(VO8\ntR"
EMPTY = b"cnumpy\ndtype\n(VS0\ntR"
SIXTEEN = b"C\x10" + bytes(16)
ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n(I0\ntR"
BUFFER = b"cnumpy._core.numeric\n_frombuffer\n("
SCALAR = b"cnumpy.core.multiarray\nscalar\n("


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"cnumpy\ndtype\n(VV8\ntR.", "the dtype 'V8' is not read"),
        (b"cnumpy\ndtype\n(I8\ntR.", "the dtype 8 is not read"),
        (DOUBLE + b"Nb.", "a dtype has an unknown state"),
        (DOUBLE + b"(I3\ntb.", "a dtype has an unknown state"),
        (DOUBLE + b"(I3\nV?\ntb.", "a dtype has an unknown state"),
        (DOUBLE + b"(I3\nV<\nNI1\nNtb.", "a structured dtype is not read"),
        (DOUBLE + b"(I3\nV<\nI1\nNNtb.", "a structured dtype is not read"),
        (DOUBLE + b"(I3\nV<\nNNI1\ntb.", "a structured dtype is not read"),
        (DOUBLE + b".", "a pickle of plain data ends in a _DType"),
        (b"(.", "a pickle of plain data ends in a _Mark"),
        (b"cos\ngetcwd\n.", "a pickle of plain data ends in a _Name"),
        (ARRAY + b"(I1\n(I2\ntNI00\n" + SIXTEEN + b"tb.", "an array has no dtype"),
        (ARRAY + b"(I1\nI2\n" + DOUBLE + b"I00\n" + SIXTEEN + b"tb.", "an array has the shape 2"),
        (ARRAY + b"(I1\n(I-2\nt" + DOUBLE + b"I00\n" + SIXTEEN + b"tb.", "an array has the shape (-2,)"),
        (ARRAY + b"(I1\n(F2\nt" + DOUBLE + b"I00\n" + SIXTEEN + b"tb.", "an array has the shape (2.0,)"),
        (
            ARRAY + b"(I1\n(I3\nt" + DOUBLE + b"I00\n" + SIXTEEN + b"tb.",
            "an array of shape (3,) and dtype float64 does not have the bytes it needs",
        ),
        (
            ARRAY + b"(I1\n(I0\nt" + EMPTY + b"I00\nC\x00tb.",
            "an array of shape (0,) and dtype |S0 does not have the bytes it needs",
        ),
        (
            ARRAY + b"(I1\n(I2\nt" + OBJECTS + b"I00\n(I1\nltb.",
            "an array of shape (2,) and dtype object does not have the bytes it needs",
        ),
        (
            ARRAY + b"(I1\n(I2\nt" + DOUBLE + b"I00\n(I1\nI2\nltb.",
            "an array of shape (2,) and dtype float64 does not have the bytes it needs",
        ),
        (ARRAY + b"(I1\n(I2\nt" + DOUBLE + b"I00\ntb.", "a pickle sets the state of a ndarray"),
        (ARRAY + b"Nb.", "a pickle sets the state of a ndarray"),
        (b"]Nb.", "a pickle sets the state of a list"),
        (BUFFER + SIXTEEN + DOUBLE + b"(I2\ntVX\ntR.", "an array has an unknown layout"),
        (BUFFER + b"(I2\nl" + OBJECTS + b"(I1\ntVC\ntR.", "an array has an unknown layout"),
        (SCALAR + OBJECTS + b"(I1\nltR.", "a scalar of objects is not read"),
        (
            SCALAR + DOUBLE + SIXTEEN + b"tR.",
            "an array of shape (1,) and dtype float64 does not have the bytes it needs",
        ),
        (b"c_codecs\nencode\n(Va\nVutf8\ntR.", "bytes have an unknown encoding"),
        (b"c_codecs\nencode\n(I1\nVlatin1\ntR.", "bytes have an unknown encoding"),
        (b"c_codecs\nencode\nNR.", "_codecs.encode is not called"),
        (b"c__builtin__\ncomplex\n(V1\ntR.", "a complex number is not made of numbers"),
        (b"c__builtin__\ncomplex\n(I1\nNtR.", "a complex number is not made of numbers"),
        (b"cos\nsystem\n(Vx\ntR.", "os.system is not called"),
        (b"I1\n)R.", "int is not called"),
        (b"I1\n)\x81.", "int is not read: only plain data, arrays and registered NamedTuples are"),
        (b"cos\nstat\n)\x81.", "os.stat is not read: only plain data, arrays and registered NamedTuples are"),
        (b"I1\nI2\n.", "a pickle does not end in one value"),
        (b".", "a pickle does not end in one value"),
        (b"(" * 100_000 + b".", "a pickle does not end in one value"),
        (b"(" * 100_001 + b".", "a pickle is nested too deep"),
        (b"I1\n0.", "the pickle opcode POP is not obeyed"),
        (b"t.", "a pickle has no mark"),
        (b"\x85.", "a pickle takes more than it has"),
        (b"I1\n\x86.", "a pickle takes more than it has"),
        (b"(I1\n\x86.", "a pickle takes more than it has"),
        (b"I1\nI2\na.", "a pickle appends to what is no list"),
        (b"]I1\nI2\ns.", "a pickle assigns to what is no dict"),
        (b"}(I1\nu.", "a pickle assigns to what is no dict"),
        (b"I1\nVx\n\x93.", "a pickle names a class by what is no text"),
        (b"Vx\nI1\n\x93.", "a pickle names a class by what is no text"),
    ],
)
def test_what_is_not_plain_is_told(data, words):
    with pytest.raises(PayloadError, match=f"^{re.escape(words)}; give pickle.dumps of numbers, text or arrays$"):
        read_plain_pickle(data)


def test_a_named_tuple_that_is_not_registered_is_not_read():
    for protocol in (0, 2, 5):
        with pytest.raises(PayloadError, match=r"^test_plain_pickle\.Unknown is not read: only plain data, arrays and"):
            read_plain_pickle(pickle.dumps(Unknown(1.0), protocol))


def test_what_was_not_remembered_cannot_be_recalled():
    with pytest.raises(KeyError):
        read_plain_pickle(b"g7\n.")


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"(I1\nI2\nt.", (1, 2)),
        (b"(I1\nI2\nl.", [1, 2]),
        (b"(I1\nI2\nd.", {1: 2}),
        (b"}I1\nI2\ns.", {1: 2}),
        (b"]I1\na.", [1]),
        (b"](I1\nI2\ne.", [1, 2]),
        (b"I1\n\x85.", (1,)),
        (b"I1\nI2\n\x86.", (1, 2)),
        (b"I1\nI2\nI3\n\x87.", (1, 2, 3)),
        (b"(I1\np5\ng5\nt.", (1, 1)),
        (b"(I1\nq\x05h\x05t.", (1, 1)),
        (b"(I1\nr\x05\x00\x00\x00j\x05\x00\x00\x00t.", (1, 1)),
        (b"(I1\n\x94I2\n\x94h\x00h\x01t.", (1, 2, 1, 2)),
        (b"(I1\n(I2\ntt.", (1, (2,))),
        (b"(NI01\nI00\nt.", (None, True, False)),
        (b"c__builtin__\ncomplex\n(I1\nF2\ntR.", 1 + 2j),
        (b"c__builtin__\nbytes\n)R.", b""),
        (b"c_codecs\nencode\n(V\xff\ntR.", b"\xff"),
    ],
)
def test_opcodes_make_the_values_they_stand_for(data, value):
    read = read_plain_pickle(data)
    assert (type(read), read) == (type(value), value)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "value",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(3.5),
        np.empty((0, 2)),
        np.arange(3, dtype=">i4"),
        np.arange(3, dtype=np.uint8),
        np.array([True, False]),
        np.array([1j, 2.0]),
        np.array(["a", "bcd"]),
        np.array(["a", "b"], dtype=">U1"),
        np.array([b"a", b"bcd"]),
        np.array([[1, None], ["a", 2.0]], dtype=object),
        np.float32(1.5),
        np.int32(-7),
        np.complex64(1j),
        np.str_("abc"),
        np.array([1.5], dtype=">f8")[0],
    ],
)
def test_arrays_and_scalars_keep_type_shape_order_and_numbers(value, protocol):
    read, again = read_plain_pickle(pickle.dumps(value, protocol)), pickle.loads(pickle.dumps(value, protocol))
    assert type(read) is type(value)
    assert (read.dtype, read.shape, read.tolist()) == (again.dtype, value.shape, value.tolist())
    assert read.flags.f_contiguous == value.flags.f_contiguous
    if isinstance(read, np.ndarray):
        assert read.flags.writeable


@pytest.mark.parametrize("protocol", range(6))
def test_a_registered_named_tuple_is_read(protocol):
    read = read_plain_pickle(pickle.dumps([Known(1.5, "a"), b"\xff\x00", b"", 2 - 1j], protocol))
    assert read == [Known(1.5, "a"), b"\xff\x00", b"", 2 - 1j]
    assert type(read[0]) is Known


def block(tag, data):
    return tag + struct.pack("<Q", len(data)) + data


def carrier(*items, **more):
    value = Carrier(items)
    value.__dict__.update(more)
    return value


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (None, b"None"),
        (True, b"True"),
        (np.bool_(False), b"False"),
        (-12, block(b"i", b"-12")),
        (1.5, b"f" + struct.pack("<d", 1.5)),
        (1 - 2j, b"c" + struct.pack("<dd", 1.0, -2.0)),
        ("ü", block(b"s", "ü".encode())),
        ("\ud800", block(b"s", b"\xed\xa0\x80")),
        (b"ab", block(b"B", b"ab")),
        (dt.date(2024, 1, 2), block(b"t", b"datetime.date(2024, 1, 2)")),
        ((), b"(" + struct.pack("<Q", 0)),
        ((None,), b"(" + struct.pack("<Q", 1) + b"None"),
        ([None, True], b"[" + struct.pack("<Q", 2) + b"NoneTrue"),
        (
            {"b": None, "a": True},
            b"d" + struct.pack("<Q", 2) + block(b"s", b"a") + b"True" + block(b"s", b"b") + b"None",
        ),
        (np.array([1, 2], np.int8), block(b"a", b"i(2,)") + block(b"", struct.pack("<qq", 1, 2))),
        (np.array([1], ">u2"), block(b"a", b"u(1,)") + block(b"", struct.pack("<Q", 1))),
        (np.array([True]), block(b"a", b"b(1,)") + block(b"", b"\x01")),
        (
            np.asfortranarray(np.array([[1, 2], [3, 4]], np.float32)),
            block(b"a", b"f(2, 2)") + block(b"", struct.pack("<dddd", 1, 2, 3, 4)),
        ),
        (np.array([1j], np.complex64), block(b"a", b"c(1,)") + block(b"", struct.pack("<dd", 0, 1))),
        (
            np.asfortranarray(np.array([["2024-01-01", "2024-01-02"]] * 2, "M8[D]")),
            block(b"a", b"M(2, 2)") + block(b"<M8[D]", struct.pack("<qqqq", *[19723, 19724] * 2)),
        ),
        (np.array([b"a"]), block(b"a", b"S(1,)") + struct.pack("<Q", 1) + block(b"B", b"a")),
        (np.array(["a"]), block(b"a", b"U(1,)") + struct.pack("<Q", 1) + block(b"s", b"a")),
        (np.array([[None]], object), block(b"a", b"O(1, 1)") + struct.pack("<Q", 1) + b"None"),
        (
            Known(1, None),
            block(b"N", b"test_plain_pickle.Known") + b"(" + struct.pack("<Q", 2) + block(b"i", b"1") + b"None",
        ),
        (
            carrier(None, more=True),
            block(b"N", b"test_plain_pickle.Carrier")
            + b"["
            + struct.pack("<Q", 1)
            + b"None@d"
            + struct.pack("<Q", 1)
            + block(b"s", b"more")
            + b"True",
        ),
        (carrier(), block(b"N", b"test_plain_pickle.Carrier") + b"[" + struct.pack("<Q", 0)),
    ],
)
def test_a_digest_is_of_these_bytes_in_every_version(value, data):
    assert canonical_bytes(value) == data
    assert canonical_sha256(value) == sha256(data)


def test_extended_precision_keeps_its_bits():
    wide = np.longdouble(1) + np.finfo(np.longdouble).eps
    if np.dtype(np.longdouble).itemsize > 8:
        assert canonical_bytes(np.array([wide])) != canonical_bytes(np.array([np.longdouble(1)]))
    assert canonical_bytes(np.array([1.0])) == canonical_bytes(np.array([1.0], np.float16))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({1, 2}, "unsupported statistic type builtins.set"),
        (Unknown, "unsupported statistic type builtins.type"),
        (np.zeros(1, [("a", float)]), "unsupported array dtype [('a', '<f8')]"),
    ],
)
def test_what_has_no_place_in_a_statistic_is_named(value, words):
    told = f"{words}; value() must return numbers, text, arrays, or containers of them"
    with pytest.raises(TypeError, match=f"^{re.escape(told)}$"):
        canonical_bytes(value)
