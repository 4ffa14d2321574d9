"""Two statistics side by side: the literal reasons, the digests, and pickles that were altered."""

import datetime as dt
import decimal
import math
import os
import pickle
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixle.errors import PayloadError
from mixle.utils.parallel.folding.named import register_namedtuple
from mixle.utils.parallel.policies.canonical import canonical_sha256
from mixle.utils.parallel.policies.compare import compare
from mixle.utils.parallel.policies.plainpickle import read_plain_pickle
from mixle.utils.parallel.policies.receipts import EXACT, SDCAuditReceipt, first_difference, mismatches

NAN, INF = math.nan, math.inf
MATCH = "within declared numeric envelope"


@register_namedtuple
class Pair(NamedTuple):
    left: float
    right: object


class Anchored(list):
    """A list that carries more than its items."""


def anchored(*items, **more):
    value = Anchored(items)
    value.__dict__.update(more)
    return value


def reason(left, right, rtol=1e-12, atol=1e-12):
    found = compare(left, right, rtol, atol)
    assert found.match == (found.reason == MATCH)
    return found.reason


@pytest.mark.parametrize(
    ("left", "right", "text"),
    [
        (True, 1, "statistic: boolean/schema mismatch"),
        (True, False, "statistic: boolean/schema mismatch"),
        (1, 2, "statistic: integer mismatch"),
        (10**400, 10**400 + 1, "statistic: integer mismatch"),
        (NAN, NAN, "statistic: non-finite numeric value"),
        (INF, INF, "statistic: non-finite numeric value"),
        (1.0, 1.0 + 1e-9, "statistic: numeric error exceeds tolerance"),
        (1j, 2j, "statistic: numeric error exceeds tolerance"),
        (1, 1.5, "statistic: numeric error exceeds tolerance"),
        ("a", "b", "statistic: value/schema mismatch"),
        (None, 0, "statistic: value/schema mismatch"),
        (1.0, "1.0", "statistic: value/schema mismatch"),
        ([1], (1,), "statistic: value/schema mismatch"),
        ((1,), Pair(1.0, 2), "statistic: sequence length mismatch"),
        (Pair(1.0, 2), (1.0, 2), "statistic: value/schema mismatch"),
        ((1.0, [2.0, {"k": 3}]), (1.0, [2.0, {"k": 4}]), "statistic[1][1]['k']: integer mismatch"),
        ({"a": 1}, {"b": 1}, "statistic: mapping key mismatch"),
        (np.zeros(2), np.zeros(3), "statistic: array shape/dtype-kind mismatch"),
        (np.zeros(2), np.zeros(2, int), "statistic: array shape/dtype-kind mismatch"),
        (np.zeros(2), [0.0, 0.0], "statistic: value/schema mismatch"),
        (np.arange(3), np.arange(3) + 1, "statistic: exact array mismatch"),
        (np.array([True]), np.array([False]), "statistic: exact array mismatch"),
        (np.array([NAN]), np.array([NAN]), "statistic: non-finite array value"),
        (np.array([1.0, 2.0]), np.array([1.0, 2.1]), "statistic: array error exceeds tolerance"),
        (np.array([1j]), np.array([2j]), "statistic: array error exceeds tolerance"),
        (np.array(["a"]), np.array(["b"]), "statistic: array mismatch"),
        (np.array([1, "x"], object), np.array([1, "y"], object), "statistic[1]: value/schema mismatch"),
        (anchored(1.0, more=2), anchored(1.0, more=3), "statistic.more: integer mismatch"),
        (anchored(1.0, more=2), anchored(1.0), "statistic: value/schema mismatch"),
        (dt.date(2026, 1, 1), dt.date(2026, 1, 2), "statistic: value/schema mismatch"),
    ],
)
def test_mismatches_are_told_by_path_and_kind(left, right, text):
    assert reason(left, right) == text


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0),
        (np.float64(1.0), 1.0 + 1e-13),
        (np.int32(3), 3),
        (np.bool_(True), True),
        (0.0, -0.0),
        (0.0, 1e-12),
        (1e300, 1e300 * (1 + 1e-13)),
        (np.zeros(2, np.float32), np.zeros(2)),
        (np.empty((0, 3)), np.empty((0, 3))),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({}, {}),
        ((), ()),
        (np.array(["a", "b"]), np.array(["a", "b"])),
        (np.arange(3), np.arange(3)),
        (np.array(["2026-01-01"], "M8[D]"), np.array(["2026-01-01"], "M8[D]")),
        (anchored(1.0, more=2.0), anchored(1.0, more=2.0)),
        (Fraction(1, 3), 1 / 3),
        (decimal.Decimal("0.5"), 0.5),
    ],
)
def test_matches(left, right):
    assert reason(left, right) == MATCH


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({1, 2}, "statistic type builtins.set"),
        (object(), "statistic type builtins.object"),
        (np.zeros(2, [("a", float)]), "array dtype [('a', '<f8')]"),
        (print, "statistic type builtins.builtin_function_or_method"),
    ],
)
def test_a_type_without_a_place_is_a_decode_failure_with_infinite_errors(value, kind):
    found = compare(value, value, 1.0, 1.0)
    told = f"unsupported {kind}; value() must return numbers, text, arrays, or containers of them"
    assert found.reason == f"payload decode/schema failure: TypeError: {told}"
    assert (found.max_abs_error, found.max_rel_error) == (INF, INF)


def test_a_statistic_that_contains_itself_is_a_decode_failure():
    left, right = [], []
    left.append(left)
    right.append(right)
    assert reason(left, right).startswith("payload decode/schema failure: RecursionError")


def test_errors_are_those_seen_up_to_the_first_mismatch():
    found = compare((2.0, 4.0, 100.0), (2.0 + 2e-3, 4.0 + 1.0, 0.0), 1e-2, 0.0)
    assert found.reason == "statistic[1]: numeric error exceeds tolerance"
    assert (found.max_abs_error, found.max_rel_error) == (1.0, 0.2)


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(0, 1),
    st.floats(0, 1e9),
)
def test_scalars_and_arrays_are_measured_alike(a, b, rtol, atol):
    scalar, array = compare(a, b, rtol, atol), compare(np.array([a]), np.array([b]), rtol, atol)
    assert scalar.match == array.match
    assert scalar.match == compare(b, a, rtol, atol).match
    if a == b:
        assert scalar.match


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
        | st.builds(Pair, st.floats(allow_nan=False), inner)
        | st.lists(st.floats(allow_nan=False), max_size=3).map(np.array)
    ),
    max_leaves=10,
)


@given(PLAIN, st.integers(0, 5))
def test_altered_pickles_of_plain_data_are_read_as_they_are(value, protocol):
    read = read_plain_pickle(pickle.dumps(value, protocol))
    assert canonical_sha256(read) == canonical_sha256(value)


@given(PLAIN, PLAIN)
def test_equal_digests_mean_no_difference(left, right):
    for other in (left, right):
        found = reason(left, other, 0.0, 0.0)
        if canonical_sha256(left) == canonical_sha256(other):
            assert found == MATCH or "non-finite" in found


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        (np.float64(1.5), 1.5, True),
        (np.int8(3), 3, True),
        (np.array([0.5], np.float32), np.array([0.5]), True),
        (np.array([1], ">i4"), np.array([1], "<i8"), True),
        (np.asfortranarray(np.eye(3) + 1), np.eye(3) + 1, True),
        (1, 1.0, False),
        (1, True, False),
        (0.0, -0.0, False),
        ([1], (1,), False),
        (Pair(1.0, 2), (1.0, 2), False),
        (np.zeros(2), np.zeros((2, 1)), False),
        (np.zeros(2), np.zeros(2, complex), False),
        (anchored(1.0, more=2), anchored(1.0, more=3), False),
        (("ab", "c"), ("a", "bc"), False),
    ],
)
def test_digest_is_typed_and_blind_to_order(left, right, equal):
    assert (canonical_sha256(left) == canonical_sha256(right)) == equal


class Bomb:
    def __init__(self, file):
        self.file = str(file)

    def __reduce__(self):
        return os.mkdir, (self.file,)


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_is_run_by_an_altered_pickle(tmp_path, protocol):
    with pytest.raises(PayloadError, match="mkdir is not called"):
        read_plain_pickle(pickle.dumps((1.0, Bomb(tmp_path / "ran")), protocol))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("data", [b"", b"garbage", b"\x80\x04.", b"N", pickle.dumps(print), pickle.dumps({1, 2})])
def test_what_is_no_pickle_of_plain_data_is_refused(data):
    with pytest.raises(Exception, match=r"."):
        read_plain_pickle(data)


def test_every_flipped_bit_is_read_or_refused_in_bounded_memory():
    import resource

    value = (4.0, Pair(1.5, {"a": np.arange(4.0), "b": [np.float32(2.0), 7, None, "text"]}))
    data = pickle.dumps(value)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read = 0
    for bit in range(len(data) * 8):
        altered = bytearray(data)
        altered[bit // 8] ^= 1 << (bit % 8)
        try:
            read_plain_pickle(bytes(altered))
            read += 1
        except Exception:  # noqa: BLE001 - refused
            continue
    assert 0 < read < len(data) * 8
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_first_difference_is_where_a_loop_finds_it(left, right):
    expected = next(
        (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )
    assert first_difference(left, right) == (None if left == right else expected)


def test_receipt_is_mutable_and_says_itself_in_one_line():
    receipt = SDCAuditReceipt(1, 2, 0, 1, 10, 10, None, "x", "y", primary_value_repr="secret")
    receipt.quarantine_status = "committed"
    receipt.mismatch_reason = "statistic[0]: integer mismatch"
    assert receipt.summary().startswith("SDC audit mismatch: shard=2 ")
    assert "committed" in receipt.summary()
    assert "\n" not in receipt.summary()
    assert "secret" not in repr(receipt)
    assert receipt.comparison_mode == "typed_numeric_envelope/v1"


def test_the_line_of_a_receipt_tells_finite_errors_only():
    receipt = SDCAuditReceipt(3, 7, 0, -1, 180, 180, 65, "a", "b", mismatch_reason="statistic: why", witness_worker=4)
    line = "SDC audit mismatch: shard=7 round=3 primary=0 audit=-1 witness=4 suspects=(0,) quarantine=disabled: "
    receipt.suspected_workers, receipt.quarantine_status = (0,), "disabled"
    assert receipt.summary() == line + "statistic: why"
    receipt.max_abs_error, receipt.max_rel_error = 0.01234, 0.5
    assert receipt.summary() == line + "statistic: why (max error 0.0123, relative 0.5)"
    receipt.max_abs_error = receipt.max_rel_error = INF
    assert receipt.summary() == line + "statistic: why"


def test_differences_outside_the_envelope_are_logged_with_their_facts(caplog):
    outside = SDCAuditReceipt(3, 7, 2, 1, 1, 1, 0, "a", "b", suspected_workers=(2,))
    inside = SDCAuditReceipt(3, 8, 2, 1, 1, 1, 0, "a", "b", comparison_mode=EXACT)
    assert mismatches([inside, outside]) == [outside]
    (record,) = caplog.records
    assert (record.name, record.levelname, record.message) == ("mixle.audit", "ERROR", outside.summary())
    assert (record.worker, record.shard, record.suspects) == (2, 7, (2,))


def test_a_long_payload_is_searched_by_halves():
    class Counted(bytes):
        def __getitem__(self, at):
            slices.append(at)
            return bytes(self)[at]

    data = bytes(1 << 16)
    slices = []
    altered = Counted(data[:40_000] + b"x" + data[40_001:])
    assert first_difference(altered, data) == 40_000
    assert len(slices) <= 18
