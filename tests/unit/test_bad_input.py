"""Every family × every bad value: a refusal that names row, field and reason, or a value read as it is meant."""

import copy
import decimal
import math
import warnings

import numpy as np
import pandas as pd
import pytest

import mixle.stats as st
from bits import statistic
from mixle.errors import RowError
from mixle.inference import optimize
from models import MODELS

NAN = math.nan
#: value -> what a column of numbers says of it.
MISSING = {
    "None": None,
    "NaN": NAN,
    "NaN of numpy": np.float32("nan"),
    "NA of pandas": pd.NA,
    "NaT of pandas": pd.NaT,
    "NaT of numpy": np.datetime64("NaT"),
    "NaN of decimal": decimal.Decimal("NaN"),
    "a masked value": np.ma.masked,
}


class Mute:
    __hash__ = None

    def __repr__(self):
        raise RuntimeError("no text")


NO_NUMBERS = {
    "text": ("1", "not a number"),
    "text of numpy": (np.str_("1"), "not a number"),
    "bytes": (b"1", "not a number"),
    "a complex number": (1.0 + 0.0j, "not a number"),
    "a date": (pd.Timestamp("2020-01-01"), "not a number"),
    "an object": (object(), "not a number"),
    "an infinity": (math.inf, "not finite"),
    "an infinity of numpy": (np.float32("-inf"), "not finite"),
    "a number beyond float64": (10**400, "float64 can hold"),
    "a number of more digits than Python prints": (10**5000, "float64 can hold"),
    "an object that cannot be shown": (Mute(), "a value of the type Mute is not a number"),
}
#: What is read as a number, and the number.
NUMBERS = {
    "True": (True, 1.0),
    "True of numpy": (np.True_, 1.0),
    "a decimal": (decimal.Decimal(1), 1.0),
    "an int8": (np.int8(1), 1.0),
    "a float16": (np.float16(1.0), 1.0),
    "an Int64 of pandas": (pd.array([1], dtype="Int64")[0], 1.0),
}
#: Families that tell whole numbers apart.
WHOLE = (
    st.BinomialDistribution, st.GeometricDistribution, st.IntegerCategoricalDistribution,
    st.NegativeBinomialDistribution, st.PoissonDistribution,
)  # fmt: skip
#: A slot that is neither a number nor a label: what a semi-supervised row tells of its component.
EVIDENCE = {"semi-supervised mixture"}
ANYTHING = {"null", "point mass"}
#: The value chooses the law that reads it.
ROUTED = {"select by type", "select by a function of one's own"}
#: An infinity is an end that is open.
INTERVALS = {"censored counts", "censored lifetimes", "mixture of censored"}


def slots(row, path=()):
    """Return the paths of the values in a row."""
    if isinstance(row, dict):
        return [p for key, item in row.items() for p in slots(item, (*path, key))]
    if isinstance(row, (list, tuple, np.ndarray)) and not isinstance(row, str):
        return [p for i, item in enumerate(row) for p in slots(item, (*path, i))]
    return [path]


def replaced(row, path, value):
    """Return `row` with another value in one slot."""
    if not path:
        return value
    if isinstance(row, dict):
        return {key: replaced(item, path[1:], value) if key == path[0] else item for key, item in row.items()}
    items = [replaced(item, path[1:], value) if i == path[0] else item for i, item in enumerate(row)]
    return tuple(items) if isinstance(row, tuple) else items


def read(model, row):
    """Return the refusal of a row among others, or None."""
    good = model.rows[0]
    try:
        model.estimator.accumulator_factory().make().acc_to_encoder().seq_encode([good, row, good])
    except RowError as error:
        return error
    return None


def places(name):
    """Return model, a row with values, and the kind of each of its slots: number, label or optional."""
    model = MODELS[name]()
    row = next(row for row in model.rows if row is not None and slots(row))
    found = []
    for path in slots(row)[:6]:
        if name in EVIDENCE and path[:1] == (1,):
            continue
        label = read(model, replaced(row, path, "1")) is None
        optional = read(model, replaced(row, path, None)) is None and not label
        found.append((path, "label" if label else "optional" if optional else "number"))
    return model, row, found


NAMES = [name for name in sorted(MODELS) if name not in ANYTHING | ROUTED]


@pytest.mark.parametrize("bad", MISSING)
@pytest.mark.parametrize("name", NAMES)
def test_a_missing_value_is_refused_where_none_may_be(name, bad):
    model, row, found = places(name)
    value = MISSING[bad]
    for path, kind in found:
        refusal = read(model, replaced(row, path, value))
        takes_none = read(model, replaced(row, path, None)) is None
        if value is None or (takes_none and read(model, replaced(row, path, NAN)) is None):
            assert (refusal is None) == takes_none or "hashable" in str(refusal)
            continue
        if kind != "number" and refusal is None:  # a sentinel other than None or NaN is a value
            assert "sentinel" in name
            continue
        assert refusal is not None, (path, kind)
        assert refusal.row == 1
        assert refusal.fields[: len(path)] == path or not refusal.fields
        assert "missing" in str(refusal) or "masked" in str(refusal), str(refusal)


@pytest.mark.parametrize("bad", NO_NUMBERS)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_number_is_refused_where_one_belongs(name, bad):
    model, row, found = places(name)
    value, reason = NO_NUMBERS[bad]
    if name in INTERVALS and "infinity" in bad:
        return
    for path, kind in found:
        refusal = read(model, replaced(row, path, value))
        if kind == "label":
            assert refusal is None or "hashable" in str(refusal)
            continue
        assert refusal is not None, path
        assert refusal.row == 1
        assert refusal.fields[: len(path)] == path
        assert reason in str(refusal), str(refusal)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_number_where_another_row_belongs_is_not_told_to_be_infinite(name):
    for value in (1.5, np.float64(-2.5), np.float32(0.25), np.longdouble(1.5)):
        assert "not finite" not in str(read(MODELS[name](), value))


@pytest.mark.parametrize("good", NUMBERS)
@pytest.mark.parametrize("name", NAMES)
def test_a_number_of_any_type_is_that_number(name, good):
    model, row, found = places(name)
    value, same = NUMBERS[good]
    for path, kind in found:
        if kind == "label":
            continue
        refusals = [read(model, replaced(row, path, v)) for v in (value, same)]
        assert (refusals[0] is None) == (refusals[1] is None)
        if refusals[0] is None:
            scores = [model.dist.log_density(replaced(row, path, v)) for v in (value, same)]
            assert scores[0] == scores[1]


@pytest.mark.parametrize("name", [name for name in NAMES if isinstance(MODELS[name]().dist, WHOLE)])
@pytest.mark.parametrize("value", [2**53, 2**53 + 1, -(2**53), 2.0**60, np.int64(2**62)])
def test_whole_numbers_that_float64_does_not_tell_apart_are_refused(name, value):
    refusal = read(MODELS[name](), value)
    assert refusal is not None
    assert "told apart" in str(refusal)
    refusal = read(MODELS[name](), 2**53 - 1)
    assert refusal is None or "too wide" in str(refusal)


@pytest.mark.parametrize("name", NAMES)
def test_columns_of_pandas_with_gaps_are_refused_or_optional(name):
    model = MODELS[name]()
    if not all(isinstance(row, (int, float)) and not isinstance(row, bool) for row in model.rows):
        return
    dtype = "Int64" if all(isinstance(row, int) for row in model.rows) else "Float64"
    column = pd.Series([*model.rows[:4], None], dtype=dtype)
    for rows in (column, list(column), column.to_numpy(dtype=object)):
        with pytest.raises(RowError, match=r"^Row 4 .*missing.*OptionalEstimator"):
            model.estimator.accumulator_factory().make().acc_to_encoder().seq_encode(rows)
        wrapped = st.OptionalEstimator(model.estimator, est_prob=True).accumulator_factory().make().acc_to_encoder()
        assert wrapped.seq_encode(rows).present.tolist() == [0, 1, 2, 3]


def test_masked_arrays_are_not_read_behind_their_mask():
    masked = np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False])
    for estimator in (st.GaussianEstimator(), st.PoissonEstimator(), st.IntegerCategoricalEstimator()):
        encoder = estimator.accumulator_factory().make().acc_to_encoder()
        with pytest.raises(RowError, match=r"^Row 1 .*missing"):
            encoder.seq_encode(masked)
        assert encoder.seq_encode(np.ma.masked_array([1.0, 2.0])) is not None
    optional = st.OptionalEstimator(st.GaussianEstimator()).accumulator_factory().make().acc_to_encoder()
    assert optional.seq_encode(masked).present.tolist() == [0, 2]
    table = np.ma.masked_array([[1.0, 2.0], [3.0, 4.0]], [[False, False], [False, True]])
    with pytest.raises(RowError, match=r"^Row 1, field 1 .*missing"):
        st.DiagonalGaussianEstimator().accumulator_factory().make().acc_to_encoder().seq_encode(table)


#: Arguments that are no numbers, or for which a truth value is one of the choices.
FREE = {"name", "keys", "value", "missing_value", "len_normalized", "estimate_df", "estimate_r", "prior"}
BAD_NUMBERS = {
    "True": True,
    "True of numpy": np.True_,
    "text": "1",
    "NaN": NAN,
    "an infinity": math.inf,
    "NA of pandas": pd.NA,
    "a complex number": 1j,
    "a number beyond float64": 10**400,
}


def arguments(thing):
    return {name: copy.copy(getattr(thing, name)) for name in thing.argument_names()}


def with_one_bad(value, bad):
    """Return `value` with its first number replaced, or None if there is none."""
    if isinstance(value, (bool, np.bool_, str)) or value is None:
        return None
    if isinstance(value, (int, float, np.integer, np.floating)):
        return bad
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        entries = value.tolist()
        return [[bad, *entries[0][1:]], *entries[1:]] if value.ndim == 2 else [bad, *entries[1:]]
    if isinstance(value, dict):
        (first, number), *rest = value.items()
        return None if isinstance(number, dict) else {first: bad, **dict(rest)}
    if isinstance(value, tuple) and value and isinstance(value[0], (int, float)):
        return (bad, *value[1:])
    return None


LEAVES = [name for name in NAMES if MODELS[name]().leaf]


@pytest.mark.parametrize("bad", BAD_NUMBERS)
@pytest.mark.parametrize("name", [*LEAVES, "point mass"])
def test_a_parameter_that_is_no_number_is_refused_by_name(name, bad):
    model = MODELS[name]()
    for thing in (model.dist, model.dist.estimator(1.0)):
        given = arguments(thing)
        for argument, value in given.items():
            wrong = with_one_bad(value, BAD_NUMBERS[bad])
            whole = isinstance(value[0] if isinstance(value, tuple) else value, int) and "beyond" in bad
            if argument in FREE or wrong is None or whole:
                continue
            with pytest.raises(ValueError, match=r"\w+") as caught:
                type(thing)(**{**given, argument: wrong})
            told = str(caught.value)
            assert argument in told or type(thing).__name__[:5] in told or "probability" in told, (argument, told)


SHARES = {"p_vec", "w", "init_prob_map", "mixture_weights", "joint_weights"}


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("factor", [1.1, 0.9, 0.0])
def test_shares_that_do_not_sum_to_one_are_refused(name, factor):
    dist = MODELS[name]().dist
    given = arguments(dist)
    shares = [n for n in given if n in SHARES or (n == "pmap" and isinstance(dist, st.CategoricalDistribution))]
    for argument in shares:
        value = given[argument]
        if value is None or (argument == "w" and isinstance(dist, st.ProbabilisticPCADistribution)):
            continue
        wrong = {k: v * factor for k, v in value.items()} if isinstance(value, dict) else np.asarray(value) * factor
        with pytest.raises(ValueError, match=r"one|sum"):
            type(dist)(**{**given, argument: wrong})


@pytest.mark.parametrize("name", sorted(MODELS))
def test_columns_of_one_value_are_fitted_or_refused_in_words(name):
    model = MODELS[name]()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "EM stopped after|.* supported by no component")
        for row in (model.rows[0], model.rows[1]):
            rows = [row] * 40
            try:
                fitted = optimize(rows, model.estimator, max_its=5, delta=None, seed=1, out=None)
            except ValueError:
                continue
            assert not np.isnan(fitted.seq_log_density(fitted.dist_to_encoder().seq_encode(rows))).any()


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e-160, 1e150, 1e300])
@pytest.mark.parametrize("name", [name for name in LEAVES if MODELS[name]().leaf])
def test_rows_at_the_ends_of_float64_are_fitted_or_refused_in_words(name, scale):
    model = MODELS[name]()
    try:
        with np.errstate(over="ignore"):
            rows = [(np.asarray(row, float) * scale).tolist() for row in model.rows[:60]]
    except (TypeError, ValueError):
        return
    try:
        value = statistic(model.estimator, rows)
        fitted = model.estimator.estimate(None, value)
        again = model.estimator.estimate(None, statistic(model.estimator, rows, model=fitted))
    except ValueError:
        return
    assert not np.isnan(again.seq_log_density(again.dist_to_encoder().seq_encode(rows))).any()
